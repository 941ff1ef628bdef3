"""Memory that runs out while a graph is compiled: each allocation of the stages fails in turn, and the reason says so."""

import itertools

import numpy as np
import pytest

import dynoc
from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

HEAD = """graph f
s0: int = dim(x, 0) hint 1000
s1: int = dim(x, 1) hint 16
%0: f64[s0, s1] C = input(x)
"""
GRAPHS = {
    "elementwise": "%1: f64[s0, s1] C = exp(%0)\n%2: f64[s0, s1] C = multiply(%1, %0)\noutputs %2",
    "reduce": "%1: f64[s0, s1] C = exp(%0)\n%2: f64[s0] C = sum(%1) {0, 1}\noutputs %1, %2",
    "store": "%1: f64[s0, s1] C = exp(%0)\n%2: f64[s0, s1] C = store(%0, %1)\noutputs %1",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_each_allocation_that_fails_is_named(name):
    failures = 0
    for n in itertools.count():
        reason, sentence, left = _dynoc._lower_failing(HEAD + GRAPHS[name], n)
        if left > 0:
            assert reason == "OK"
            break
        assert reason in ("NO_MEMORY", "OK"), (n, reason, sentence)  # a pass that finds none may leave things as they are
        failures += reason == "NO_MEMORY"
    assert failures > 10


@pytest.mark.parametrize("n", [*range(0, 60, 3), *range(60, 400, 20)])
def test_the_program_goes_on(n):
    def f(x):
        y = x * 3 + 1
        return (y * x).sum(axis=1), y

    served = dynoc.optimize(f)
    x = np.linspace(0, 1, 40).reshape(5, 8)
    _dynoc._arena_fail_after(n)
    try:
        got = [served(x) for _ in range(3)]
    finally:
        _dynoc._arena_fail_after(-1)
    for each in [*got, served(x)]:
        for a, b in zip(each, f(x)):
            np.testing.assert_array_equal(a, b)
