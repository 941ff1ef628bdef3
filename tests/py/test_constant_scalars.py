"""Builtins of NumPy scalars that are the same at each call: what they warn of they warn of at each call."""

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter


def quotient(x, text):
    return x * 2, divmod(np.float64(0.5), text.count("a"))


def absolute(x, text):
    return x * 2, abs(np.int8(-128 + text.count("a")))


def power(x, text):
    return x * 2, pow(np.float64(1e200), 2 + text.count("a"))


def in_loop(x, text):
    total = 0.0
    for _ in range(3):
        total -= divmod(np.float64(0.5), text.count("a"))[1]
    return total


def quiet(x, text):
    quotients = divmod(np.int64(7), 2), divmod(np.float64(7.5), 2)
    return x * 2, abs(np.int8(-127)), abs(np.float64(-0.0)), quotients, pow(np.int64(3), 4)


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("fn", [quotient, absolute, power, in_loop, quiet])
def test_warnings_come_at_each_call(fn, wait):
    fast = dynoc.optimize(fn, wait=wait)
    for turn in range(4):
        check(fn, fast, lambda: (np.arange(4.0), "bcd"), what=f"call {turn + 1}")


def test_what_can_warn_of_nothing_is_captured():
    assert len(dynoc.trace(quiet)(np.arange(4.0), "bcd").graph.nodes) > 0
    fast = dynoc.optimize(quiet, wait=True, fullgraph=True)
    fast(np.arange(4.0), "bcd")
    assert len(fast.entries) == 1
