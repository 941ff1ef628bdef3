"""Overflow that NumPy's own loops report by the C library's flags, in native loops over elements and rows: the warning comes, and
np.errstate can make it an error."""

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter


def exponentials(x):
    last = 0
    for i in range(len(x)):
        last = np.exp(x[i])
    return last


def unused(x):
    total = 0
    for i in range(len(x)):
        power = np.exp(x[i])
        total += i
        power = total
    return total, power


def raised(x):
    found = []
    with np.errstate(over="raise"):
        for i in range(len(x)):
            try:
                found.append(bool(np.exp(x[i]) > 5))
            except FloatingPointError:
                found.append(None)
    return found


@pytest.mark.parametrize("fn", [exponentials, unused, raised])
def test_overflow_of_single_floats_is_reported(fn):
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(3):
        check(fn, fast, lambda: (np.array([1, 100, 2, 200, 3], dtype=np.float32),), what=f"call {turn + 1}")
    assert any("native" in text for text in fast.loops) or fn is raised
