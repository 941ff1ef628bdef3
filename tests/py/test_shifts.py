"""Shifts of integers: every byte by every byte, and the awkward ones of the wider; by arrays and by one number for all."""

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter


def shifts(x, y):
    return x << y, x >> y


def values(dtype):
    limits = np.iinfo(dtype)
    bits = limits.bits
    if bits == 8:
        return np.arange(limits.min, limits.max + 1).astype(dtype)
    wanted = [0, 1, 2, 3, 7, 8, bits - 1, bits, bits + 1, 255, 256, limits.max, limits.max // 3, -1, -2, -bits, limits.min]
    return np.array([v for v in wanted if v >= limits.min], dtype)


@pytest.mark.parametrize("dtype", "bBhHiIlL")
def test_every_shift(dtype):
    fast = dynoc.optimize(shifts, wait=True)
    v = values(dtype)
    x, y = np.repeat(v, len(v)), np.tile(v, len(v))
    for args in ((x, y), (x[::-3], y[::-3]), (x[:7], y[:7]), (x[5:70], y[5:70])):
        for plain, got in zip(shifts(*args), fast(*args), strict=True):
            assert got.dtype == plain.dtype and (got == plain).all()


@pytest.mark.parametrize("dtype", "bBhHiIlL")
def test_every_shift_by_one_number(dtype):
    fast = dynoc.optimize(shifts, wait=True)
    v = values(dtype)
    for y in v:
        for by in (y, int(y)):
            for plain, got in zip(shifts(v, by), fast(v, by), strict=True):
                assert got.dtype == plain.dtype and (got == plain).all(), by
