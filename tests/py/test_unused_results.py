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


def left_behind_writes(z, n, matrix):
    distance = np.abs(z)
    near = distance < 2
    n[near] = 1.0
    turned = distance * 2 + z
    part = turned[::2]
    z[near] = 0.0
    distance = None
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return near, part, n, z, distance
    return near, inverse


def test_what_is_overwritten_is_kept_for_frames_that_need_it():
    """Where the call of `inv` may raise, `turned` is needed and can't be computed any more. What `n` and `z` are set to, and the
    distance, are needed no more."""
    fast = dynoc.optimize(left_behind_writes, wait=True)
    z = np.random.default_rng(1).normal(size=(20, 33)) * 2
    for singular in (False, True, False, True):
        matrix = np.zeros((3, 3)) if singular else np.eye(3)
        want, got = (f(z.copy(), np.ones(z.shape), matrix) for f in (left_behind_writes, fast))
        assert len(want) == len(got) == (5 if singular else 2)
        for x, y in zip(want, got, strict=True):
            np.testing.assert_array_equal(x, y)
    (entry,) = fast.entries
    stores = [line for line in entry.source.splitlines() if "[i] = " in line and "const" not in line]
    assert entry.tier == "native" and entry.hits == 3 and len(stores) == 4  # near, turned, n and z
