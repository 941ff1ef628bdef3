"""// and % of integers: values and floating-point flags as NumPy's, of every pair of bytes and of what lies near multiples."""

import warnings

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter

DTYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
OPERATORS = {"floor_divide": lambda a, b: a // b, "remainder": lambda a, b: a % b}


def numbers(rng, dtype, n):
    """Of all sizes, and those at the ends of the range."""
    info = np.iinfo(dtype)
    ends = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2, info.max // 2 + 1, 0, 1, 2, 3]
    ends += [info.max - 511, info.max - 512, info.min + 511, info.min + 512] if info.bits > 16 else []
    ends += [-1, -2, -3] if info.min < 0 else []
    some = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True) >> rng.integers(0, info.bits, n).astype(dtype)
    some[rng.random(n) < 0.2] = 0
    edges = rng.random(n) < 0.2
    some[edges] = np.array(ends, dtype)[rng.integers(0, len(ends), edges.sum())]
    return some


def pairs(dtype):
    if dtype in (np.int8, np.uint8):
        every = np.arange(256).astype(np.uint8).view(dtype)
        return [part.ravel() for part in np.meshgrid(every, every)]
    rng = np.random.default_rng(11)
    a, b, q = (numbers(rng, dtype, 60_000) for _ in range(3))
    with np.errstate(all="ignore"):
        a[::2] = q[::2] * b[::2] + rng.integers(0, 3, len(a[::2])).astype(dtype) - dtype(1)  # multiples and their neighbours
    return a, b


def told(fn, *args):
    """The result and which flags eager's warnings name."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = fn(*args)
    return result, sorted({str(one.message).split(" encountered")[0] for one in seen})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATORS)
def test_pairs(name, dtype):
    fn, (a, b) = OPERATORS[name], pairs(dtype)
    fast = dynoc.optimize(lambda a, b: fn(a, b), wait=True)
    fast(a[:3], np.ones(3, dtype))
    calm = (b != 0) & ~((a == np.iinfo(dtype).min) & (b == np.array(-1).astype(dtype)))
    for x, y in [(a, b), (a[calm], b[calm]), (a[b == 0], b[b == 0]), (a[:37], b[:37])]:
        wanted, flags = told(fn, x, y)
        found, ours = told(fast, x, y)
        assert np.array_equal(found, wanted) and found.dtype == wanted.dtype and ours == flags


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATORS)
def test_one_divisor(name, dtype):
    """A divisor that is the same for all elements, by a run-time number: one entry."""
    fn, (a, _), info = OPERATORS[name], pairs(dtype), np.iinfo(dtype)
    fast = dynoc.optimize(lambda a, c: fn(a, c), wait=True)
    fast(a[:3], 2)
    for c in (1, 2, 3, 7, 10, 100, -1, -3, -7, info.max, info.max - 1, info.min, 0):
        if info.min <= c <= info.max:
            (wanted, flags), (found, ours) = told(fn, a, c), told(fast, a, c)
            assert np.array_equal(found, wanted) and ours == flags, c


DIVIDED_BY_ITSELF_LESS_ITSELF = {
    "floor_divide": lambda a: a // (a - a),
    "remainder": lambda a: a % (a - a),
    "fmod": lambda a: np.fmod(a, a - a),
    "divmod": lambda a: divmod(a, a ^ a),
    "reciprocal": lambda a: np.reciprocal(a - a),
    "reciprocal of no": lambda a: np.reciprocal(a < a),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DIVIDED_BY_ITSELF_LESS_ITSELF)
def test_divisors_that_a_compiler_knows_to_be_0_warn_too(name, dtype):
    fn = DIVIDED_BY_ITSELF_LESS_ITSELF[name]
    fast = dynoc.optimize(fn, wait=True)
    x = np.arange(100).astype(dtype)
    want, said = told(fn, x)
    assert said
    for _ in range(3):
        got, heard = told(fast, x)
        np.testing.assert_array_equal(got, want)
        assert heard == said
