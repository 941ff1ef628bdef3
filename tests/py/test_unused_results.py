"""What nobody uses is left out, but not the floating-point warning or error that comes with it."""

import numpy as np
import pytest
from compare import check, dynoc


def cast(x):
    x.astype(np.float32)


def cast_to_half(x):
    x.astype("f2")
    return x + 1


def quotient(x):
    x / 0.0
    return x + 1


def root_before_comparison(x):
    np.sqrt(-x) > 0.0
    return x * 2.0


def total(x):
    np.sum(x * 1e300)


def running(x):
    np.cumsum(x)
    return x[0]


def stored(x):
    out = np.empty(3, dtype=np.float32)
    out[:] = x
    return x + 1


def stored_item(x):
    out = np.empty(3, dtype=np.float16)
    out[0] = x[1]


def integers(x):
    x.astype(np.int32) // 0
    return x


def several(x):
    a = x * 1e300
    b = a - a
    c = b / 0.0
    return np.log(x)


def refused(x):
    try:
        with np.errstate(all="raise"):
            x / 0.0
    except FloatingPointError as error:
        return str(error)
    return None


VALUES = {"small": [1.0, 2.0, 3.0], "large": [1e300, 1e308, 1e10], "special": [np.inf, np.nan, -1.0]}
ROWS = [
    cast,
    cast_to_half,
    quotient,
    root_before_comparison,
    total,
    running,
    stored,
    stored_item,
    integers,
    several,
    refused,
]


@pytest.mark.parametrize("fn", ROWS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_warns_as_eager(fn, values):
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(3):
        check(fn, fast, lambda: [np.array(values)], what=f"call {turn + 1}")


@pytest.mark.parametrize("fn", ROWS, ids=lambda fn: fn.__name__)
def test_raises_as_eager(fn):
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(3):
        with np.errstate(all="raise"):
            check(fn, fast, lambda: [np.array([1e300, 1e308, -1.0])], what=f"call {turn + 1}")
