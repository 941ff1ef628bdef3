"""Calls of a function whose loops are cold: CPython's own code where they are short, loop code where they may be long."""

import sys

import pytest
from test_loops_null import twin

import dynoc

pytestmark = pytest.mark.any_interpreter

getframe = sys._getframe
seen = []


def total(n):
    s = 0
    for i in range(n):
        s += i
    seen.append(getframe().f_code)
    return s


def rows(table):
    s = 0
    for row in table:
        for x in row:
            s += x
    seen.append(getframe().f_code)
    return s


def countdown(n):
    while n > 0:
        n -= 1
    seen.append(getframe().f_code)
    return n


def stops(it):
    s = 0
    for i in it:
        s += i
    seen.append(getframe().f_code)
    return s


def own_code(function, *calls):
    """For each call: did it run in the function's own code? Of three, as a machine that stops for long makes calls long."""
    found = []
    for _ in range(3):
        fresh = twin(function)
        optimized = dynoc.optimize(fresh)
        seen.clear()
        for args in calls:
            assert optimized(*args) == function(*args)
        found.append([code is fresh.__code__ for code in seen[::2]])
    seen.clear()
    return max(found, key=found.count)


def test_short_calls_are_the_functions_own():
    assert own_code(total, (30,), (30,), (20,), (30,)) == [False, True, True, True]


def test_while_loops_too():
    assert own_code(countdown, (200,), (200,), (200,)) == [False, True, True]


def test_larger_arguments_run_in_loop_code():
    assert own_code(total, (30,), (3000,), (3000,), (30,), (10**5,)) == [False, False, True, True, False]


def test_containers_in_containers_are_counted():
    small, large = [[1] * 20] * 5, [[1] * 200] * 5
    assert own_code(rows, (small,), (small,), (large,), (large,)) == [False, True, False, True]


def test_iterators_that_tell_nothing_may_be_long():
    made = [((k for k in range(5)),) for _ in range(2)]
    fresh = twin(stops)
    optimized = dynoc.optimize(fresh)
    seen.clear()
    assert [optimized(*args) for args in made] == [10, 10]
    assert [code is fresh.__code__ for code in seen] == [False, False]
    seen.clear()


def test_numbers_beyond_floats_may_be_long():
    def reduced(n):
        while n > 1:
            n >>= 100
        seen.append(getframe().f_code)
        return n

    assert own_code(reduced, (10**400,), (10**400,)) == [False, False]


def test_a_call_that_raises_tells_nothing():
    def fails(n):
        for i in range(n):
            if i == 3:
                seen.append(getframe().f_code)
                raise KeyError(i)

    fresh = twin(fails)
    optimized = dynoc.optimize(fresh)
    seen.clear()
    for _ in range(2):
        with pytest.raises(KeyError):
            optimized(9)
    assert [code is fresh.__code__ for code in seen] == [False, False]
    seen.clear()


def test_a_loop_over_elements_of_a_large_array_is_put_off():
    """Its variable is NumPy's scalar when the loop is met, which is a number as Python's are."""
    import numpy as np

    def largest(a):
        best = a[0]
        for i in range(len(a)):
            if a[i] > best:
                best = a[i]
        return best

    a = np.arange(5000.0)
    optimized = dynoc.optimize(largest)
    planned = dynoc.counters["loops"].get("planned", 0)
    assert optimized(a) == 4999.0
    assert dynoc.counters["loops"].get("planned", 0) == planned
    assert [said.split(":")[0] for said in optimized.loops] == ["CPython's until it has run for a while"]


def triangle(n):
    s = 0
    for i in range(n - 1, -1, -1):
        for j in range(i, n):
            for k in range(i, j):
                s += k
    return s


def test_the_first_trips_do_not_tell_how_long_a_loop_takes():
    """Those of a triangle are the shortest: it is planned before it has been called for so many times what planning takes."""
    optimized = dynoc.optimize(twin(triangle))
    expected = triangle(100)
    for _ in range(40):
        assert optimized(100) == expected
    assert not optimized.loops[0].startswith("CPython's until")  # the outermost, within which the others are native
