"""Equal inputs give equal bits, wherever they stand: at every offset, stride and size, on one thread or several."""

import mpmath
import numpy as np
import pytest
from case import hard
from compare import dynoc

pytestmark = pytest.mark.any_interpreter

UNARY = ("sqrt", "exp", "log", "sin", "cos", "tanh")
DTYPES = (np.float32, np.float64)
STRIDES = (1, 2, 3, -1)


def unary(name):
    ufunc = getattr(np, name)

    def apply(x):
        return ufunc(x)

    return apply


def values(name, n, dtype):
    rng = np.random.default_rng(23)
    x = rng.uniform(-20.0, 20.0, n)
    return (np.abs(x) + 1e-3 if name in ("sqrt", "log") else x).astype(dtype)


def placed(data, offset, stride):
    """The data, `offset` elements into a larger array, `stride` elements apart."""
    n, step = len(data), abs(stride)
    room = np.zeros(offset + n * step + 1, dtype=data.dtype)
    view = room[offset : offset + n * step : step][:n]
    view = view[::-1] if stride < 0 else view
    view[...] = data
    return view


def compiled(fast, *args):
    """The result of a call that hits (the call before it records where there is no entry yet)."""
    fast(*args)
    return fast(*args)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_elementwise_at_every_place(name, dtype):
    fast = dynoc.optimize(unary(name), wait=True)
    data = values(name, 70, dtype)
    expected = compiled(fast, data)
    for stride in STRIDES:
        for n in (*range(1, 20), *range(29, 36), *range(60, 71)):
            for offset in (0, 1, 2, 3, 5, 7):
                start = (offset * 11) % (71 - n)
                got = compiled(fast, placed(data[start : start + n], offset, stride))
                assert got.tobytes() == expected[start : start + n].tobytes(), (n, offset, stride)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_elementwise_in_every_rank(name, dtype):
    fast = dynoc.optimize(unary(name), wait=True)
    data = values(name, 60, dtype)
    expected = compiled(fast, data)
    for shape in ((6, 10), (10, 6), (3, 4, 5), (60, 1), (1, 60), (2, 2, 3, 5)):
        assert compiled(fast, data.reshape(shape)).tobytes() == expected.tobytes(), shape
        turned = np.ascontiguousarray(data.reshape(shape).T).T
        assert compiled(fast, turned).copy(order="C").tobytes() == expected.tobytes(), shape
    for i in range(8):
        assert compiled(fast, data[i : i + 1].reshape(())).tobytes() == expected[i].tobytes(), i
        repeated = compiled(fast, np.broadcast_to(data[i], (5, 7)))
        assert repeated.tobytes() == expected[i].tobytes() * 35, i


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name, dtype):
    fast = dynoc.optimize(unary(name), wait=True)
    data = hard(70, dtype=dtype)
    with np.errstate(all="ignore"):
        plain, got = unary(name)(data), compiled(fast, data)
    special = ~np.isfinite(plain) | (plain == 0)
    assert np.array_equal(np.isnan(plain), np.isnan(got))
    assert np.array_equal(plain[special], got[special], equal_nan=True)
    keep = special & ~np.isnan(plain)
    assert np.array_equal(np.signbit(plain[keep]), np.signbit(got[keep]))


def distance_in_ulp(name, x, got):
    """Of one result from the exact value, in units of the last place of the result's type."""
    with mpmath.workprec(200):
        exact = getattr(mpmath, name)(mpmath.mpf(float(x)))
        ulp = mpmath.mpf(float(np.spacing(np.abs(got.dtype.type(exact)))))
        return float(abs(mpmath.mpf(float(got)) - exact) / ulp)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_within_four_ulp(name, dtype):
    fast = dynoc.optimize(unary(name), wait=True)
    for data in (values(name, 400, dtype), values(name, 100, dtype) * dtype(1e-3), values(name, 100, dtype) * dtype(4)):
        got = compiled(fast, data)
        assert max(distance_in_ulp(name, x, y) for x, y in zip(data, got, strict=True)) <= 4.0


REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "sum of squares": lambda x: (x * x).sum(),
    "sum of exp": lambda x: np.exp(x).sum(),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction_at_every_place(name, dtype):
    fast = dynoc.optimize(REDUCTIONS[name], wait=True)
    data = np.random.default_rng(29).uniform(-3.0, 3.0, 300).astype(dtype)
    for n in (*range(1, 36), 63, 64, 65, 127, 129, 300):
        expected = compiled(fast, data[:n].copy()).tobytes()
        for stride in STRIDES:
            for offset in (0, 1, 3, 6):
                got = compiled(fast, placed(data[:n], offset, stride))
                assert got.tobytes() == expected, (n, offset, stride)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", (0, 1))
def test_equal_rows_and_columns_give_equal_sums(axis, dtype):
    def reduce(x):
        return x.sum(axis=axis), x.mean(axis=axis), np.exp(x).sum(axis=axis)

    fast = dynoc.optimize(reduce, wait=True)
    for n in (2, 3, 7, 8, 9, 31, 100):
        line = np.random.default_rng(n).uniform(-3.0, 3.0, n).astype(dtype)
        for copies in (2, 3, 5, 8, 13, 33):
            x = np.repeat(line[None], copies, axis=0)
            x = x if axis == 1 else np.ascontiguousarray(x.T)
            for result in compiled(fast, x):
                assert result.tobytes() == result[:1].tobytes() * copies, (n, copies)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reduction_is_as_accurate_as_pairwise(dtype):
    fast = dynoc.optimize(lambda x: x.sum(), wait=True)
    for n in (10, 1000, 100_000):
        data = np.random.default_rng(n).uniform(0.0, 1.0, n).astype(dtype)
        exact = data.astype(np.longdouble).sum()
        bound = np.finfo(dtype).eps * (np.log2(n) + 2) * exact
        assert abs(compiled(fast, data) - exact) <= bound


def mixed(x, y):
    z = np.exp(x) * y + np.sin(y) / (1.0 + x * x)
    return z, z.sum(), z.sum(axis=0), z.max(axis=1)


def test_any_number_of_threads_gives_the_same_bits():
    rng = np.random.default_rng(31)
    x, y = rng.standard_normal((2, 600, 500))
    fast = dynoc.optimize(mixed, wait=True)
    results = []
    for threads in (1, 2, 3, 0):
        dynoc.config.threads = threads
        results.append(b"".join(r.tobytes() for r in compiled(fast, x, y)))
        dynoc.reset()
    assert len(set(results)) == 1


def test_many_runs_give_the_same_bits():
    rng = np.random.default_rng(37)
    x, y = rng.standard_normal((2, 400, 300))
    fast = dynoc.optimize(mixed, wait=True)
    fast(x, y)
    assert len({b"".join(r.tobytes() for r in fast(x, y)) for _ in range(20)}) == 1


def test_exact_gives_the_bits_of_eager():
    fast = dynoc.optimize(mixed, wait=True, exact=True)
    rng = np.random.default_rng(41)
    for shape in ((3, 4), (30, 70)):
        x, y = rng.standard_normal((2, *shape))
        for _ in range(3):
            for a, b in zip(mixed(x, y), fast(x, y), strict=True):
                assert a.tobytes() == b.tobytes()


def test_arithmetic_is_not_contracted():
    """x * y + z rounds twice."""
    fast = dynoc.optimize(lambda x, y, z: x * y + z, wait=True)
    rng = np.random.default_rng(43)
    for dtype in DTYPES:
        x, y = rng.standard_normal((2, 1000)).astype(dtype)
        z = -(x * y)
        assert not compiled(fast, x, y, z).any()
