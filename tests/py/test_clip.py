"""np.clip of floats, whose text is minima and maxima of the processor: each kind of element between each kind of bounds, bit for
bit as eager, and without its warning where a nan is."""

import warnings

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter

VALUES = [0.0, -0.0, 1.0, -1.0, 0.25, 3.0, np.inf, -np.inf, np.nan, -np.nan]


def clip(x, low, high):
    return np.clip(x, low, high)


def chain(x, low, high):
    y = np.clip(x * 1.5, low, high)
    return np.clip(y - 0.5, low, high)


@pytest.mark.parametrize("dtype", "efd")
@pytest.mark.parametrize("fn", [clip, chain], ids=lambda fn: fn.__name__)
def test_every_element_between_every_two_bounds(fn, dtype):
    fast = dynoc.optimize(fn, wait=True)
    x = np.array(VALUES * 5, dtype)[:47]
    unsigned = f"u{x.itemsize}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for low in VALUES:
            for high in VALUES:
                for n in (1, 16, 47):
                    plain, got = fn(x[:n], low, high), fast(x[:n], low, high)
                    assert got.dtype == plain.dtype
                    number = ~np.isnan(plain)
                    assert (np.isnan(got) == ~number).all(), (low, high)
                    assert (got.view(unsigned) == plain.view(unsigned))[number].all(), (low, high)
