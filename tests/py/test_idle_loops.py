"""Long loops without array work in a function that has some before and behind: their trips are CPython's after the first few, and
what lies behind the loop is captured all the same."""

import contextlib
import itertools
import sys
import threading
import traceback

import numpy as np
import pytest
from compare import dynoc

@pytest.fixture(autouse=True)
def no_native_loops(monkeypatch):
    """The loops here are the recorder's."""
    monkeypatch.setattr(dynoc.config, "loops", False)


LONG = 300


def numbers(n):
    yield from range(n)


def range_loop(x):
    x, s = x + 1, 0
    for i in range(LONG):
        s += i
    return x * s, s, i


def list_loop(x, items=list(range(LONG))):
    x, s = x + 1, 0
    for i in items:
        s += i
    return x * s


def accumulated(x):
    x, s = x + 1, 0
    for v in itertools.accumulate(range(LONG)):
        s += v
    return x * s


def grouped(x):
    x, s = x + 1, 0
    for k, g in itertools.groupby(range(LONG), lambda v: v // 2):
        s += k * len(list(g))
    return x * s


def left_by_break(x):
    x, s = x + 1, 0
    for i in range(LONG):
        s += i
        if s > 20000:
            break
    else:
        s = -1
    return x * s


def with_else(x):
    x, s = x + 1, 0
    for i in range(LONG):
        s += i
    else:
        x = x * 2
    return x * s


def returns_inside(x):
    x, s = x + 1, 0
    for i in range(LONG):
        s += i
        if i == 250:
            return x, s
    return x * s


def skips(x):
    x, out = x + 1, []
    for i in range(LONG):
        if i % 3:
            continue
        out.append(i)
    return x * len(out), out


def deletes_what_it_binds(x):
    x, s = x + 1, 0
    for i in range(LONG):
        t = i
        s += t
        if i == LONG - 1:
            del t
    try:
        return x * t
    except UnboundLocalError:
        return x * s


def two_loops(x):
    x, s = x + 1, 0
    for i in range(LONG):
        s += i
    x = x * s
    for i in range(LONG):
        s -= i
    return x - s


def loop_in_a_loop(x):
    s = 0
    for _ in range(3):
        for j in range(LONG):
            s += j
        x = x * 0.5 + s
    return x


def long_loops_in_a_long_loop(x):
    for i in range(40):
        s = 0
        for j in range(40):
            s += j * i
        x = x * 0.5 + s
    return x


def array_work_in_a_late_trip(x):
    s = 0
    x = x + 1
    for i in range(LONG):
        s += i
        if i % 100 == 99:
            x = x + s
    return x * s


def items_that_become_arrays(x):
    y, s = x + 1, 0
    for v in [1] * 200 + [x, 2, x]:
        s = s + v
    return y * s


def raises_inside(x):
    x, s = x + 1, 0
    try:
        for i in range(LONG):
            s += 1 // (200 - i)
    except ZeroDivisionError as e:
        return x * s, str(e)
    finally:
        x += 1
    return x


def leaves_with_an_exception(x):
    x, s = x + 1, 0
    for i in range(LONG):
        s += [0] * 250 != [] and {}[i] if i == 260 else i
    return x * s


def in_a_with_block(x):
    x, s, seen = x + 1, 0, []
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(seen.append, "closed")
        for i in range(LONG):
            s += i
        x = x * s
    return x, seen


def closure_cells(x):
    s = 0

    def add(i):
        nonlocal s
        s += i

    x = x + 1
    for i in range(LONG):
        add(i)
    return x * s


def list_that_grows(x):
    x, items = x + 1, [0]
    for i in items:
        if i < LONG:
            items.append(i + 1)
    return x * len(items)


def dict_that_changes(x):
    x, d = x + 1, dict.fromkeys(range(LONG), 1)
    try:
        for k in d:
            if k == 270:
                d["new"] = 1
    except RuntimeError as e:
        return x + 1, str(e)


def helper(n):
    s = 0
    for i in range(n):
        s += i
    return s


def loop_in_a_called_function(x):
    x = x + 1
    return x * helper(LONG) + helper(20)


def over_a_generator(x):
    x, s = x + 1, 0
    for v in numbers(LONG):
        s += v
    return x * s


def unpacks(x):
    x, s = x + 1, 0
    for i, (a, b) in enumerate(zip(range(LONG), range(LONG))):
        s += i * a - b
    return x * s


def in_an_except_block(x):
    x, s = x + 1, 0
    try:
        raise KeyError("first")
    except KeyError as e:
        for i in range(LONG):
            s += i
        x = x * s
        rows = len(traceback.extract_tb(e.__traceback__))
        try:
            {}["second"]
        except KeyError as second:
            return x, rows, second.__context__ is e, repr(sys.exc_info()[1])


def in_an_except_block_that_raises_again(x):
    x, s = x + 1, 0
    try:
        {}[1]
    except KeyError:
        for i in range(LONG):
            s += i
        x = x * s
        raise


def prints_in_between(x):
    x, s = x + 1, 0
    for i in range(LONG):
        s += i
    print(end="")
    return x * s


CODES = [(f, getattr(f, "__code__", None)) for f in list(globals().values())]
ALL = [f for f, code in CODES if code is not None and code.co_varnames[:1] == ("x",)]


def outcome(fn, *args):
    try:
        return repr(fn(*args))
    except Exception as e:
        return type(e), str(e), [(f.name, f.lineno, f.colno) for f in traceback.extract_tb(e.__traceback__)[1:]]


@pytest.mark.parametrize("fn", ALL, ids=lambda f: f.__name__)
def test_same_as_plain(fn):
    fast = dynoc.optimize(fn, wait=True)
    for n in (4, 4, 6, 4, 5):
        assert outcome(fn, np.arange(n) * 1.0) == outcome(fast, np.arange(n) * 1.0), n


@pytest.mark.parametrize("fn", [range_loop, list_loop, accumulated, with_else, two_loops], ids=lambda f: f.__name__)
def test_trips_are_not_entries(fn):
    fast = dynoc.optimize(fn, wait=True)
    calls = 8
    for _ in range(calls):
        fast(np.arange(4.0))
    assert len(fast.entries) <= 6
    assert sum(e.hits for e in fast.entries) < calls * 12 + 2 * 70
    assert fast.entries[-1].end == "return" and fast.entries[-1].hits >= calls - 1


def test_array_work_found_in_the_loop_later_is_captured():
    def f(x, items):
        x, s = x + 1, 0
        for v in items:
            s = s + v
        return x * s

    fast = dynoc.optimize(f, wait=True)
    x = np.arange(3.0)
    for items in ([1] * LONG, [1] * LONG, [x] * LONG, [1] * LONG, [x] * 40, [2.0] * LONG):
        assert repr(fast(x, items)) == repr(f(x, items))


def test_traced():
    def f(x):
        x, s = x + 1, 0
        for i in range(100):
            s += i
        return x * s

    fast = dynoc.optimize(f, wait=True)
    for _ in range(4):
        fast(np.arange(3.0))
    events = []

    def trace(frame, event, arg):
        if frame.f_code.co_filename == __file__:
            events.append((event, frame.f_lineno))
            return trace

    def run(fn):
        events.clear()
        sys.settrace(trace)
        try:
            fn(np.arange(3.0))
        finally:
            sys.settrace(None)
        return [e for e in events if e[1] < run.__code__.co_firstlineno]

    assert run(f) == run(fast)


def test_called_while_an_exception_is_handled():
    fast = dynoc.optimize(range_loop, wait=True)
    for _ in range(4):
        try:
            raise ValueError("outer")
        except ValueError as e:
            assert repr(fast(np.arange(3.0))) == repr(range_loop(np.arange(3.0)))
            assert sys.exc_info()[1] is e and len(traceback.extract_tb(e.__traceback__)) == 1 and e.__context__ is None


def test_in_threads():
    fast = dynoc.optimize(range_loop, wait=True)
    want, out = repr(range_loop(np.arange(3.0))), []
    threads = [threading.Thread(target=lambda: out.extend(repr(fast(np.arange(3.0))) for _ in range(20))) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert out == [want] * 80
