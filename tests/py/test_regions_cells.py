"""Native loops with variables that inner functions share, and generator expressions that are summed up at once."""

import sys

import numpy as np
import pytest
from regions import check, on_stack

import dynoc
from dynoc import _dynoc

EXACT_SUMS = sys.version_info < (3, 12)

XS = [0.5, -1.25, 3.0, 7.75]
A = np.array([0.5, 2.0, -3.5])


def any_of(xs, n):
    for t in range(n):
        if any(x > t for x in xs):
            n += 1
    return n, t


def all_of(xs, n):
    c = 0
    for t in range(n):
        c += all(x < t + 2 and x != c for x in xs)
    return c


def sum_of_ints(n):
    s = 0
    for i in range(n):
        s += sum(i * k for k in range(i) if k % 2)
    return s, i


def sum_of_floats(xs, n):
    s = 0.0
    for i in range(n):
        s += sum(x * i for x in xs)
    return s


def sum_of_elements(a, n):
    s = 0.0
    for i in range(n):
        s += sum(x * i for x in a)
    return s


def extremes(xs, n):
    s = 0
    for i in range(n):
        s += max(x * i for x in xs) - min(abs(x - i) for x in xs)
    return s


def extreme_of_nothing(n):
    s = 0
    for i in range(n, -1, -1):
        s += max(k for k in range(i))
    return s


def dot(a, b, n):
    s = 0
    for i in range(n):
        s += sum(x * y for x, y in zip(a, b))
    return s


def raises(xs, n):
    s = 0
    for i in range(n, -2, -1):
        s += sum(1 // (i + k) for k in range(1, 3))
    return s


def counted(n):
    c = 0

    def bump(x):
        nonlocal c
        c += x

    for i in range(n):
        bump(i)
    return c


def shared(n):
    total = 0.5

    def now():
        return total

    for i in range(n):
        total = total * 2 + i
        if i == 5:
            total = now() - 1
    return total, now()


def unbound(n):
    for i in range(n):
        if i > 3:
            del n
        k = any(i > j for j in range(n))
    return k


def changes(n):
    v = 1
    for i in range(n):
        v = v / 2 if i == 3 else v + 1
    return v, (lambda: v)()


CALLS = [
    (any_of, XS, 6),
    (any_of, [1, 9], 5),
    (any_of, [], 4),
    (all_of, XS, 9),
    (sum_of_ints, 9),
    (sum_of_floats, XS, 5),
    (sum_of_elements, A, 5),
    (extremes, XS, 5),
    (extremes, [1, 2.5, True], 5),
    (extremes, [], 2),
    (extreme_of_nothing, 3),
    (dot, [1, 2], [3, 4], 4),
    (raises, XS, 3),
    (counted, 9),
    (shared, 9),
    (unbound, 9),
    (changes, 7),
]


def outcome(function, args):
    try:
        return repr(function(*args))
    except Exception as error:
        return type(error), str(error), error.__traceback__.tb_next.tb_lineno


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0].__name__)
def test_calls(call):
    function, *args = call
    fast = dynoc.optimize(function, wait=True)
    for _ in range(4):
        assert outcome(fast, args) == outcome(function, args)


# CPython 3.14 has code of its own for any() of a generator expression, which goes through a real generator.
INLINED = pytest.mark.skipif(sys.version_info >= (3, 14), reason="CPython's own loop over the generator")
NATIVE = [(sum_of_ints, (50,)), (extremes, (XS, 50)), (changes, (50,)), pytest.param(any_of, (XS, 50), marks=INLINED)]


@pytest.mark.parametrize("function, args", NATIVE)
def test_they_run_natively(function, args):
    fast = dynoc.optimize(function, wait=True)
    for _ in range(2):
        assert fast(*args) == function(*args)
    assert fast.loops and fast.loops[0].startswith("native"), fast.loops


@pytest.mark.skipif(EXACT_SUMS, reason="sums are plain additions")
def test_sums_of_floats_are_cpythons():
    fast = dynoc.optimize(sum_of_floats, wait=True)
    assert fast([0.1] * 10, 20) == sum_of_floats([0.1] * 10, 20)


def region_of(function, slots, stack):
    return _dynoc._region_plan(function, _dynoc._region_headers(function)[0], slots, stack)


def test_every_exit_puts_the_value_into_the_cell():
    for interpreted in (True, False):
        force = 0
        while True:
            total = 0.5

            def cell():
                return total

            made = cell.__closure__[0]
            names = [*shared.__code__.co_varnames, *shared.__code__.co_cellvars]
            given = {"n": 9, "total": made, "now": None}
            slots = [given.get(name, ...) for name in names]
            region = region_of(shared, slots, on_stack(iter(range(9))))
            assert not isinstance(region, tuple), region
            if force == len(_dynoc._region_exits(region)):
                break
            assert _dynoc._region_build(region, True) == 1
            left = _dynoc._region_run(region, slots, on_stack(iter(range(9))), interpreted, force, 2)
            assert isinstance(made.cell_contents, float) and left is not None
            force += 1


# ---- an inlined function's own cells


def is_prime(n):
    limit = int(n**0.5) + 1
    return n > 1 and all(n % i for i in range(2, limit))


def is_safe(columns, row, column):
    return not any(columns[r] == column or abs(columns[r] - column) == row - r for r in range(row))


def spread(x, k):
    k += 1
    total = sum(x * i + k for i in range(k))
    k *= 2
    return total + sum(x for i in range(k)) + len([x + k for i in range(k)])


def primes(n, found):
    for i in range(n):
        if is_prime(i):
            found.append(i)
    return found


def safe_places(columns, n, total):
    for row in range(n):
        for column in range(n):
            if is_safe(columns, row, column):
                total += spread(column, row)
    return total


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="the iterator of all()'s own loop isn't known there")
def test_own_cells_of_inlined_functions():
    check(primes, (30, []), [iter(range(30))])
    check(safe_places, ([0, 2, 4, 1], 4, 0), [iter(range(4))])


def fails_late(n, total):
    for i in range(n):
        total += ratio(i, 5)
    return total


def ratio(i, k):
    return sum(10 // (k - i - j) for j in range(2))


def test_an_exception_among_own_cells():
    check(fails_late, (8, 0), [iter(range(8))], leaves="EXCEPTION")


def unset(flag, k):
    if flag:
        x = k
    return sum(x for _ in range(k))


def sometimes_unset(flags, total):
    for i in range(len(flags)):
        total += unset(flags[i], i)
    return total


def test_an_own_cell_without_a_value():
    check(sometimes_unset, ([1, 1, 1, 0, 1], 0), [iter(range(5))])


def stored_above(xs, bound, value):
    best = 0

    def show():
        return best

    for x in xs:
        if x > bound:
            best = value
    return best, show()


@pytest.mark.parametrize("value", [2**70, 2.5, "text", (1, 2), None, [1]], ids=repr)
def test_a_cell_that_comes_in_holds_what_it_holds(value):
    """Not what the loop would have stored in it: an object of another variable, which nothing else tells from an int."""
    fast = dynoc.optimize(stored_above, wait=True)
    for bound in (5, 1, 5, 0, 7):
        assert fast([1.0, 2.0, 3.0], bound, value) == stored_above([1.0, 2.0, 3.0], bound, value)
