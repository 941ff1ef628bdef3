"""A call that can't be recorded costs that call: the loop of array work behind it is served, whatever the reason was.

Each row is a function that is called before the loop. The loop is known to be served by its hits, and under enable() by the
memory that it takes: NumPy's own operators keep a temporary array more than the one kernel of an entry.
"""

import collections
import functools
import inspect
import io
import itertools
import sys
import tracemalloc

import numpy as np
import pytest
from compare import check, dynoc
from logs import logged

TRIPS = 60
ENOUGH = 60  # calls after which enable() has found a function


class Opaque:
    """Its repr is a call of a C function that dynoc doesn't know."""


def makes_a_list_in_itself(x):
    items = [1]
    items.append(items)
    return len(repr(Opaque())) * len(items)


def changes_the_callers_list(x, kept=[]):
    kept.append(zip([1], [2]))
    repr(Opaque())
    return kept.pop() is not None


def stands_in_a_zip(x):
    length = 0
    for a, b in zip([1, 2, 3], [4, 5, 6]):
        length += len(repr(Opaque)) + a + b
    return length


def has_begun_a_zip(x):
    pairs = zip([1, 2], [3, 4])
    next(pairs)
    repr(Opaque())
    return list(pairs)


def works_on_arrays_before(x):
    pairs, y = enumerate([1, 2]), x * 2
    repr(Opaque())
    return next(pairs), y.max() > 0


def is_too_long(x):
    i = 0
    while i < 5000:
        i += 1
    return i


def calls_what_is_too_long(x):
    return sum([is_too_long(x) for _ in range(12)])


def goes_deep(x, n=60):
    return len(repr(Opaque)) if n == 0 else 1 + goes_deep(x, n - 1)


def looks_at_its_frame(x):
    return sys._getframe().f_code.co_name


def looks_at_its_caller(x):
    return inspect.currentframe().f_back.f_code.co_name


def asks_for_its_locals(x):
    y = 3
    return sorted(locals()), y


def evaluates(x):
    y = 3
    return eval("y + 1")


def executes(x):
    space = {}
    exec("a = 1", space)
    return space["a"]


def makes_a_class(x):
    class Point:
        def norm(self):
            return 5

    return Point().norm()


def makes_a_namedtuple(x):
    return collections.namedtuple("Point", "a b")(1, 2).a


def sees_references(x):
    return sys.getrefcount(Opaque) > 0


def steps():
    yield 1
    repr(Opaque())
    yield 2


def takes_from_a_generator(x):
    return [step * 2 for step in steps()]


def leaves_a_generator(x):
    taken = steps()
    next(taken)
    repr(Opaque())
    return list(taken)


def delegates(x):
    def inner():
        yield from {"a": 1}
        yield from io.StringIO("b")

    return list(inner())


def catches(x):
    try:
        raises(zip([1], [2]))
    except KeyError as error:
        return repr(error)


def raises(pairs):
    length = len(repr(Opaque))
    raise KeyError(length)


def sorts_by_key(x):
    return sorted([3, 1, 2], key=lambda v: len(repr(Opaque)) - v)


class Odd:
    def __len__(self):
        return len(repr(Opaque))

    def __bool__(self):
        return repr(Opaque) is not None

    def __iter__(self):
        yield from [len(repr(Opaque)), 2]


def asks_special_methods(x):
    return len(Odd()), bool(Odd()), list(Odd())


def spreads_an_iterator(x):
    return max(*Odd(), 1)


def spreads_a_mapping(x):
    return dict(**collections.ChainMap({"a": 1}))


def unpacks(x):
    a, b = Odd()
    return a, b


CALLEES = [
    makes_a_list_in_itself, changes_the_callers_list, stands_in_a_zip, has_begun_a_zip, works_on_arrays_before, is_too_long,
    calls_what_is_too_long, goes_deep, looks_at_its_frame, looks_at_its_caller, asks_for_its_locals, evaluates, executes,
    makes_a_class, makes_a_namedtuple, sees_references, takes_from_a_generator, leaves_a_generator, delegates, catches,
    sorts_by_key, asks_special_methods, spreads_an_iterator, spreads_a_mapping, unpacks,
]  # fmt: skip
LOGGED = {  # those of which nothing is recorded: the reason at the callee, and a line for the caller's call
    makes_a_list_in_itself: "NOT_REBUILDABLE",
    is_too_long: "BUDGET",
    looks_at_its_frame: "OPAQUE_CALL",
    sees_references: "OPAQUE_CALL",
    spreads_a_mapping: "UNSUPPORTED_VALUE",
}


TEXT = """
def caller(x, trips):
    y, held = x + 1, [x * 2, {"x": x}]
    %s
    for i in range(trips):
        x = np.sin(x) * 0.25 + np.cos(x) * 0.25 - y
    return x, result, held
"""


def caller(callee, statement="result = callee(x)"):
    """A function of its own for each row, which holds arrays and containers over the call."""
    space = {**globals(), "callee": callee}
    exec(compile(TEXT % statement, "<caller>", "exec"), space)
    return space["caller"]


def same(got, want):
    np.testing.assert_allclose(got[0], want[0], rtol=1e-12)
    assert got[1] == want[1]
    np.testing.assert_array_equal(got[2][0], want[2][0])
    assert list(got[2][1]) == list(want[2][1])


@pytest.mark.parametrize("callee", CALLEES, ids=lambda callee: callee.__name__)
def test_the_loop_behind_is_served(callee):
    fn, x = caller(callee), np.linspace(0, 1, 100)
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(3):
        same(fast(x, TRIPS), fn(x, TRIPS))
    before, entries = sum(entry.hits for entry in fast.entries), len(fast.entries)
    same(fast(x, TRIPS), fn(x, TRIPS))
    assert sum(entry.hits for entry in fast.entries) - before >= TRIPS
    assert len(fast.entries) == entries  # what was given up isn't recorded again


def peak(fn):
    """The memory of a call, in arrays."""
    x = np.linspace(0, 1, 100_000)
    tracemalloc.start()
    try:
        fn(x, TRIPS)
        return (tracemalloc.get_traced_memory()[1] - 3 * x.nbytes) / x.nbytes  # y and held are there all the time
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("callee", CALLEES, ids=lambda callee: callee.__name__)
def test_the_loop_behind_is_served_under_enable(callee):
    fn, x = caller(callee), np.linspace(0, 1, 100)
    expected, eager = fn(x, TRIPS), peak(fn)
    with dynoc.enabled():
        for _ in range(ENOUGH):
            same(fn(x, TRIPS), expected)
        dynoc.wait()
        same(fn(x, TRIPS), expected)
        assert peak(fn) < eager - 0.5


@pytest.mark.parametrize("callee", LOGGED, ids=lambda callee: callee.__name__)
def test_log_lines(callee):
    with logged("graph_breaks") as lines:
        dynoc.optimize(caller(callee), wait=True)(np.linspace(0, 1, 100), TRIPS)
    inside = [line for line in lines if f"in {callee.__name__}" in line]
    outside = [line for line in lines if "<caller>" in line and "LOOP" not in line]
    assert inside[0].startswith(f"callee {LOGGED[callee]}")
    assert outside[0].startswith(f"break {LOGGED[callee]}")
    way = outside[0].partition("called from\n")[2]
    assert way.startswith("<caller>:4: in caller") and f"in {callee.__name__}" in outside[0]


# ---- the function itself holds what can't be told, or the recorder doesn't execute one of its instructions

OWN = {
    "items = [1]; items.append(items); repr(Opaque()); result = len(items)": "NOT_REBUILDABLE",
    "result = max(*Odd(), 1)": "UNSUPPORTED_VALUE",
    "result = dict(**collections.ChainMap({'a': 1}))": "UNSUPPORTED_VALUE",
    "result, second = Odd()": "UNSUPPORTED_VALUE",
    "result = [*Odd(), *Odd()]": "UNSUPPORTED_VALUE",
}


@pytest.mark.parametrize("statement", OWN)
def test_a_statement_costs_that_statement(statement):
    fn, x = caller(None, statement), np.linspace(0, 1, 100)
    with logged("graph_breaks") as lines:
        fast = dynoc.optimize(fn, wait=True)
        for _ in range(3):
            same(fast(x, TRIPS), fn(x, TRIPS))
    before = sum(entry.hits for entry in fast.entries)
    same(fast(x, TRIPS), fn(x, TRIPS))
    assert sum(entry.hits for entry in fast.entries) - before >= TRIPS
    assert any(line.startswith(f"break {OWN[statement]}") and "<caller>:4" in line for line in lines)


def holds_itself(x, n):
    items = [1]
    items.append(items)
    try:
        repr(Opaque())
        items[n] = 0
        for i in range(20):
            x = x * 0.5 + 1
        return x / n, len(items)
    except IndexError as error:
        return str(error), x * 2
    finally:
        items.clear()


@pytest.mark.parametrize("numbers", [(0, 1, 0, 1), (2, 0, 2, 1), (1, 2, 1, 2)])
def test_a_stretch_that_is_passed_does_what_it_does(numbers):
    """Its exceptions and its handlers are its own, at each call: before and behind the place where the entry takes over."""
    fast = dynoc.optimize(holds_itself, wait=True)
    for n in numbers * 2:
        with np.errstate(divide="ignore"):
            check(holds_itself, fast, lambda: (np.arange(4.0), n), what=f"n = {n}")


def takes_in_each_trip(v, xs, seen):
    count = 0
    while v.max() > 1:
        count += 1
        if count > 5:
            break
        seen.append(float(v.max()))
        taken = itertools.islice(iter(xs + xs[:9]), 0, 4, 2)
        total = sum(taken, 3)
        rest = functools.reduce(lambda p, q=1: p + q, taken, 0)
    return count, total, rest, seen


@pytest.mark.parametrize("backend", ["dynoc", "eager"])
def test_a_stretch_that_ends_where_it_begins(backend):
    """A trip of a loop: it isn't passed, or its entry would be left at once for itself."""
    fast = dynoc.optimize(takes_in_each_trip, backend=backend, wait=True)
    for turn in range(4):
        check(takes_in_each_trip, fast, lambda: (np.arange(5.0), list(range(1, 10)), []), what=f"call {turn + 1}")


def test_a_function_that_is_left_for_good_says_so():
    def f(x):
        count = sys.getrefcount(x)
        for i in range(3):
            x = x + count
        return x

    with logged("graph_breaks") as lines:
        dynoc.optimize(f)(np.ones(3))
    assert len(lines) == 1 and lines[0].startswith("left OPAQUE_CALL") and f"{f.__code__.co_firstlineno + 1}: in " in lines[0]
