"""Native code in the middle of a call: a loop whose body's code gets ready while it runs goes on there.

`ready` stands for the time that a build takes: nothing is native before it is called, all is behind it. Each test runs with and
without the built-in tier, which needs no waiting.
"""

import sys
import threading
import weakref
from contextlib import suppress

import numpy as np
import pytest
from compare import dynoc


@pytest.fixture(autouse=True, params=[False, True], ids=["", "builtin"])
def builtin(request, monkeypatch):
    """Graphs alone: loops over small arrays would be native as a whole."""
    monkeypatch.setattr(dynoc.config, "loops", False)
    dynoc._dynoc._builtin_switch(request.param)
    yield
    dynoc._dynoc._builtin_switch(True)



@dynoc.skip
def ready():
    dynoc.wait()


@dynoc.skip
def see(*values):
    """An opaque call: a break."""
    return values[0] if values else None


def entries(fast):
    return sum(e.hits for e in fast.entries)


def both(function, *arguments):
    """The function's result, and dynoc's at the first call; how many calls of entries there were."""
    fast = dynoc.optimize(function)
    expected = function(*(a.copy() for a in arguments))
    got = fast(*(a.copy() for a in arguments))
    np.testing.assert_array_equal(got, expected)
    return entries(fast)


X = np.linspace(-1.0, 1.0, 1000)


def for_loop(x):
    for i in range(100):
        if i == 40:
            ready()
        x = x * 0.5 + 1.0
        x = x - 0.25
    return x


def while_loop(x):
    i = 0
    while i < 100:
        x = np.sin(x) * 0.5
        i += 1
        if i == 40:
            ready()
    return x


def with_a_break(x):
    total = 0.0
    for i in range(100):
        x = x * 0.5 + 1.0
        see(i)
        total = total + x.sum() * i
        if i == 40:
            ready()
    return np.array([total])


def nested(x):
    for i in range(100):
        for _ in range(5):
            x = x * 0.5 + i
        if i == 40:
            ready()
        x = x - 1.0
    return x


def in_try(x):
    for i in range(100):
        try:
            x = x * 0.5 + 1.0
            see()
            if i == 40:
                ready()
            if i % 9 == 0:
                raise ValueError(i)
        except ValueError as error:
            x = x + error.args[0]
        finally:
            x = x - 1.0
    return x


LOCK = threading.Lock()


def in_with(x):
    with LOCK, suppress(KeyError):
        for i in range(100):
            x = x * 0.5 - 0.1
            see()
            if i == 40:
                ready()
    return x + LOCK.locked()


def cells(x):
    def add(y):
        nonlocal x
        x = x + y

    for i in range(100):
        add(x * 0.001)
        see()
        if i == 40:
            ready()
    return x


def helper(x, trips):
    for i in range(trips):
        x = x * 0.5 + 1.0
        see(i)
    return x


def in_helper(x):
    for i in range(20):
        x = helper(x, 20) + 1.0
        if i == 5:
            ready()
    return x


def late_name(x):
    for i in range(100):
        if i > 50:
            x = x + late
        x = x * 0.5
        see()
        if i == 50:
            late = 3.0
        if i == 40:
            ready()
    return x


def over_a_list(x):
    for i in [*range(100)]:
        x = x * 0.5 + i
        if i == 30:
            ready()
    return x


def over_a_tuple(x):
    for i in tuple(range(100)):
        x = x * 0.5 + i
        if i == 30:
            ready()
    return x


def over_text(x):
    for i, c in enumerate("abcde" * 20):
        for d in c * 20:
            x = x * 0.5 + ord(d)
        if i == 30:
            ready()
    return x


def over_a_list_that_is_cut(x):
    items = [*range(100)]
    for i in items:
        x = x * 0.5 + i
        if i == 30:
            ready()
        if i == 60:
            del items[10:]
            items.extend(range(200, 255))
    return x


@pytest.mark.parametrize(
    ("function", "least"),
    [
        (for_loop, 50),
        (over_a_list, 50),
        (over_a_tuple, 50),
        (over_text, 50),
        (over_a_list_that_is_cut, 3),
        (while_loop, 3),
        (with_a_break, 100),
        (nested, 50),
        (in_try, 40),
        (in_with, 50),
        (cells, 100),
        (in_helper, 200),
    ],
    ids=lambda f: getattr(f, "__name__", None),
)
def test_rest_of_the_loop_is_native(function, least):
    assert both(function, X) >= least


def test_other_names_are_bound():
    """Where the frame isn't as it was recorded it waits on."""
    assert both(late_name, X) >= 8


def test_nothing_is_ready():
    """The same as long as nothing is."""

    def f(x):
        for _ in range(50):
            x = x * 0.5 + 1.0
        return x

    for _ in range(3):
        np.testing.assert_array_equal(dynoc.optimize(f)(X), f(X))


def test_later_calls_switch_too():
    def f(x, trips, when):
        for i in range(trips):
            x = x * 0.25 + 1.0
            if i == when:
                ready()
        return x

    fast = dynoc.optimize(f)
    for when in (1000, 1000, 20):
        np.testing.assert_array_equal(fast(X, 60, when), f(X, 60, when))
    assert entries(fast) > 30


def test_an_exception_behind_the_switch():
    def f(x, trips):
        for i in range(trips):
            x = x * 0.5
            see()
            if i == 10:
                ready()
            if i == 30:
                x = x.reshape(7, 9)
        return x

    seen = []
    for g in (f, dynoc.optimize(f)):
        with pytest.raises(ValueError, match="cannot reshape") as caught:
            g(X, 50)
        seen.append([(t.lineno, t.name) for t in caught.traceback[-1:]])
        assert caught.value.__context__ is None
    assert str(seen[0]) == str(seen[1])


def test_an_exception_that_is_handled_stays_the_same():
    """The trap is an exception; nobody sees it."""

    def f(x):
        seen = []
        for i in range(60):
            x = x * 0.5
            see()
            seen.append(sys.exc_info()[1])
            if i == 20:
                ready()
        return x, seen

    outer = KeyError("outer")
    try:
        raise outer
    except KeyError:
        x, seen = dynoc.optimize(f)(X)
        assert sys.exc_info()[1] is outer
    assert all(e is outer for e in seen) and outer.__context__ is None
    assert len([tb for tb in iter_traceback(outer)]) == 1
    np.testing.assert_array_equal(x, f(X)[0])


def iter_traceback(error):
    tb = error.__traceback__
    while tb is not None:
        yield tb
        tb = tb.tb_next


def test_one_frame():
    """Before and behind the switch there is one frame of the function."""
    depths = []

    @dynoc.skip
    def look(i):
        frame, n = sys._getframe(1), 0
        names = []
        while frame is not None:
            n += 1
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        depths.append((n, names[0], names[1]))
        if i == 20:
            dynoc.wait()

    def f(x):
        for i in range(60):
            x = x * 0.5
            look(i)
        return x

    dynoc.optimize(f)(X)
    assert len(depths) == 60 and len(set(depths)) == 1, set(depths)


def test_objects_die_as_without():
    class Owner:
        pass

    @dynoc.skip
    def made(seen):
        owner = Owner()
        weakref.finalize(owner, seen.append, "dead")
        return owner

    def f(x):
        seen = []
        owner = made(seen)
        for i in range(60):
            x = x * 0.5
            see()
            if i == 20:
                ready()
            if i in (10, 30, 40):
                seen.append(i)
                del owner
                seen.append("deleted")
                owner = made(seen)
        return x, seen

    assert dynoc.optimize(f)(X)[1] == f(X)[1]


def test_under_enable():
    def f(x):
        for i in range(100):
            x = x * 0.5 + 1.0
            if i == 40:
                ready()
        return x

    expected = f(X)
    with dynoc.enabled():
        np.testing.assert_array_equal(f(X), expected)
        np.testing.assert_array_equal(f(X), expected)


def test_functions_that_return_constants_only_are_served():
    def f(x):
        x[1:] += x[:-1] * 0.5

    a, b = X.copy(), X.copy()
    for _ in range(4):
        f(a)
    dynoc.counters.clear()
    with dynoc.enabled(wait=True):
        for _ in range(4):
            assert f(b) is None
    np.testing.assert_array_equal(a, b)
    assert dynoc.counters["calls"]["served"] >= 3


def test_tracing_that_begins_in_the_loop():
    """A tracer sees the same lines of a loop that waits."""

    def f(x):
        for i in range(40):
            x = x * 0.5
            see()
            if i == 20:
                ready()
        return x

    fast = dynoc.optimize(f)
    events = []
    fast(X)
    sys.settrace(lambda *a: events.append(a[1]))
    try:
        fast(X)
    finally:
        sys.settrace(None)
    assert events
