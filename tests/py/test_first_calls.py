"""The first call of a function with a short loop: what it leaves alone."""

import numpy as np
import pytest

import dynoc

pytestmark = pytest.mark.any_interpreter


def planned(function, *args):
    """Loops that are planned in a first call."""
    dynoc.reset()
    before = dynoc.counters["loops"]["planned"]
    fast = dynoc.optimize(function)
    wanted = function(*args)
    got = fast(*args)
    assert type(got) is type(wanted) and np.array_equal(got, wanted)
    return dynoc.counters["loops"]["planned"] - before


def elements(x):
    total = 0.0
    for i in range(40):
        total += x[i] * x[-i - 1]
    return total


def pairs(x, out):
    for i in range(6):
        for j in range(6):
            out[i, j] += x[i] * x[j]
    return out


table = np.arange(50.0)


def elements_of_a_global(x):
    total = 0.0
    for i in range(40):
        total += x[i] + table[i]
    return total


def rows(x):
    total = x[0]
    for i in range(20):
        total = total + x[i]
    return total


def slices(x):
    for i in range(1, 20):
        x[i:] = x[i] * 2
    return x


def whole(x, y):
    for i in range(20):
        y = y + x * x[i, 0]
    return y


def lengths(x):
    total = 0
    for i in range(20):
        total += i * len(x)
    return total


@pytest.mark.parametrize("function", [elements, elements_of_a_global], ids=lambda f: f.__name__)
def test_a_short_loop_over_elements_is_not_planned_at_once(function):
    assert planned(function, np.arange(50.0)) == 0


def test_a_short_nest_over_elements_is_not_planned_at_once():
    assert planned(pairs, np.arange(6.0), np.zeros((6, 6))) == 0


@pytest.mark.parametrize("function", [rows, slices, lengths], ids=lambda f: f.__name__)
def test_one_that_takes_more_of_an_array_than_elements_is(function):
    assert planned(function, np.ones((20, 3))) > 0


def test_one_that_computes_whole_arrays_is():
    assert planned(whole, np.ones((20, 3)), np.zeros((20, 3))) > 0


def test_it_becomes_native_when_it_has_run_for_a_while():
    dynoc.reset()
    fast = dynoc.optimize(elements)
    x = np.arange(50.0)
    before = dynoc.counters["loops"]["native"]
    while dynoc.counters["loops"]["native"] == before:
        assert fast(x) == elements(x)
    for _ in range(4):  # a call that meets the native loop in another way has a version of it made
        dynoc.wait()
        assert fast(x) == elements(x)
    assert fast.loops[0].startswith("native")
