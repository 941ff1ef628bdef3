"""Variances and sums of exponentials of more memory than a cache holds. (PyTorch's go over it once: tests/ir/test_pair.py.)"""

import warnings

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter

MANY = 1_100_000  # float32: more than 4 MB


def variance(x, axis=None):
    return x.var(axis=axis)


def deviation(x, axis=None):
    apart = x - x.mean(axis=axis, keepdims=True)
    return np.sqrt((apart * apart).mean(axis=axis))


def log_sum_exp(x, axis=None):
    most = x.max(axis=axis, keepdims=True)
    return most.ravel() + np.log(np.exp(x - most).sum(axis=axis)).ravel()


FUNCTIONS = (variance, deviation, log_sum_exp)
SHAPES = [
    ((MANY,), None),
    ((MANY + 511,), 0),
    ((1100, 1003), 0),
    ((40_000, 29), 0),
    ((1100, 1003), None),
    ((600, 17, 111), (0, 1)),
    ((600, 17, 111), (0, 2)),
    ((2000, 3, 200), 0),
]


def normal(shape, dtype, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * 2 + 3).astype(dtype)


def results(fn, x, axis):
    fast = dynoc.optimize(lambda x: fn(x, axis), wait=True)
    fast(x)
    return fast(x)


def check(fn, x, axis):
    right, got = fn(x, axis), results(fn, x, axis)
    assert got.dtype == x.dtype and got.shape == np.shape(right)
    np.testing.assert_allclose(got, right, rtol=2e-6 if x.dtype == np.float32 else 2e-14, atol=1e-14)
    assert fn is log_sum_exp or np.asarray(got).tobytes() == np.asarray(right).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape, axis", SHAPES)
@pytest.mark.parametrize("fn", FUNCTIONS)
def test_result(fn, shape, axis, dtype):
    check(fn, normal(shape, dtype), axis)


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_however_it_lies(fn):
    x = normal((1100, 1003), np.float64)
    others = np.asfortranarray(x), np.broadcast_to(x[:1], (2000, 1003)), normal((2200, 1003), np.float32)[::2]
    for y in (x[::-1], x[:, ::-1], *others):
        check(fn, y, 0)


@pytest.mark.parametrize("fn", FUNCTIONS)
@pytest.mark.parametrize("shape, axis", [((MANY,), None), ((1100, 1003), 0), ((40_000, 29), 0)])
def test_same_bits_with_any_number_of_threads_and_in_each_tier(fn, shape, axis, monkeypatch):
    x, bits = normal(shape, np.float32), []
    for compiler in (dynoc.config.compiler, "/nonexistent/cc"):
        monkeypatch.setattr(dynoc.config, "compiler", compiler)
        fast = dynoc.optimize(lambda x: fn(x, axis), wait=True)
        fast(x)
        for threads in (1, 2, 3):
            monkeypatch.setattr(dynoc.config, "threads", threads)
            bits.append(np.asarray(fast(x)).tobytes())
    assert all(b == bits[0] for b in bits)


def test_far_from_zero():
    """What a sum of squares less the square of the sum would lose."""
    x = np.random.default_rng(1).standard_normal(MANY) + 1e8
    assert abs(results(variance, x, None) - x.var()) < 1e-7


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("fn", FUNCTIONS)
def test_what_is_no_number(fn, value):
    x = normal((2000, 600), np.float32)
    x[1500, 7] = value
    x[:, 9] = value
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(results(fn, x, 0), fn(x, 0), rtol=1e-5)


def test_masked_by_minus_infinity():
    """A piece of nothing else has no maximum to speak of, and gives no warning."""
    x = normal((3000, 500), np.float32)
    x[:2000, ::2] = -np.inf
    x[1000:, 1::2] = -np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(results(log_sum_exp, x, 0), log_sum_exp(x, 0), rtol=1e-5)


def test_warnings():
    x = normal(MANY, np.float32)
    x[5] = np.inf
    fast = dynoc.optimize(variance, wait=True)
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="invalid value"):
            assert np.isnan(fast(x))


def test_sizes_come_and_go():
    fast = dynoc.optimize(lambda x: (x.var(axis=0), x.sum(axis=0)), wait=True)
    for rows in (3, 1100, 7, 2500, 0, 1, 1300):
        x = normal((rows, 1003), np.float64, rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for right, got in zip((x.var(axis=0), x.sum(axis=0)), fast(x)):
                np.testing.assert_allclose(got, right, rtol=1e-12)
    assert len(fast.entries) <= 3


def test_another_divisor():
    """No mean: the kernels are those of any two reductions."""
    x = normal((1100, 1003), np.float64)
    fast = dynoc.optimize(lambda x, k: ((x - x.sum(axis=0) / k) ** 2).sum(axis=0), wait=True)
    for k in (1100, 3, 1100.5, 0.5):
        np.testing.assert_allclose(fast(x, k), ((x - x.sum(axis=0) / k) ** 2).sum(axis=0), rtol=1e-12)


def element(x, y):
    m = x.mean(axis=0, keepdims=True)
    m[0] = y[0]
    return ((x - m) ** 2).sum(axis=0) + 1


def less(x, y):
    m = x.mean(axis=0, keepdims=True)
    m -= y.mean(axis=0, keepdims=True)
    return ((x - m) ** 2).sum(axis=0) + 1


def sum_changed(x, y):
    s = x.sum(axis=0, keepdims=True)
    s += y[:1]
    m = s / x.shape[0]
    return ((x - m) ** 2).sum(axis=0) + 1


def masked(x, y):
    m = x.mean(axis=0, keepdims=True)
    m[m > 0.5] = 0
    return ((x - m) ** 2).sum(axis=0) + 1


def half(x, y):
    m = x.max(axis=0, keepdims=True)
    m *= 0.5
    return np.log(np.exp(x - m).sum(axis=0, keepdims=True))


def by_another_reduction(x, y):
    m = x.max(axis=0, keepdims=True)
    m *= (y - m).max(axis=0, keepdims=True)
    return np.log(np.exp(x - m).sum(axis=0, keepdims=True))


@pytest.mark.parametrize("fn", [element, less, sum_changed, masked, half, by_another_reduction])
def test_what_is_written_between(fn):
    x, y = (np.random.default_rng(seed).random((100_000, 6)) for seed in (0, 1))
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(3):
        np.testing.assert_allclose(fast(x, y), fn(x, y), rtol=1e-12)
