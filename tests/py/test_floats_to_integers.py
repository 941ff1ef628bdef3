"""Floats that become integers and floats again. Compilers take that for a rounding toward zero, which keeps the sign of
a zero and what doesn't fit."""

import math
import warnings

import numpy as np
import pytest

import dynoc

VALUES = [-0.5, 0.5, -0.0, 2.75, -2.75, 1e10, -1e10, 1e300, np.nan, np.inf, -np.inf, 3.0]
FLOATS = ["f4", "f8"]
INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]


def values(dtype, fitting):
    numbers = [v for v in VALUES if abs(v) < 100] if fitting else VALUES
    with np.errstate(all="ignore"):
        return np.array(numbers * 9).astype(dtype)


def outcome(fn, *args):
    """The bytes of what `fn` returns, and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = fn(*args)
    return result.tobytes(), sorted({str(w.message) for w in caught})


@pytest.mark.parametrize("fitting", [True, False])
@pytest.mark.parametrize("back", FLOATS)
@pytest.mark.parametrize("whole", INTEGERS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_in_a_kernel(dtype, whole, back, fitting):
    def fn(x):
        return x.astype(whole).astype(back) + np.sqrt(np.abs(x.astype(whole) * back_one))

    back_one = np.dtype(back).type(1)
    x = values(dtype, fitting)
    fast = dynoc.optimize(fn, wait=True)
    expected = outcome(fn, x)
    for _ in range(3):
        assert outcome(fast, x) == expected


@pytest.mark.parametrize("whole", ["i4", "i8"])
def test_zeros_have_no_sign(whole):
    def fn(x):
        return np.copysign(1, x.astype(whole) * 1.0)

    assert (dynoc.optimize(fn, wait=True)(np.array([-0.25, -0.5, -0.0] * 11)) == 1).all()


def by_int(x, out):
    for i in range(len(x)):
        out[i] = float(int(x[i]))
    return out


def by_a_store(x, out):
    for i in range(len(x)):
        out[i] = int(x[i])
    return out


def by_trunc(x, out):
    for i in range(len(x)):
        out[i] = math.trunc(x[i]) * 1.0
    return out


def by_an_array(x, out):
    for i in range(len(x) - 1):
        out[i : i + 2] = x[i : i + 2].astype(np.int64) * 1.0
    return out


@pytest.mark.parametrize("fn", [by_int, by_a_store, by_trunc, by_an_array])
def test_in_a_loop(fn):
    x = values("f8", True)
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(3):
        assert fast(x, np.zeros(len(x))).tobytes() == fn(x, np.zeros(len(x))).tobytes()
