"""Sums, means, variances and products of floats have NumPy's bits: whatever the layout, the axes, the length, the tier and the
number of threads, on the recording call and ever after."""

import itertools

import numpy as np
import pytest

pytestmark = pytest.mark.any_interpreter

dynoc = pytest.importorskip("dynoc")

DTYPES = ["f8", "f4", "c16", "c8"]


def random(rng, shape, dtype):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def layouts(rng, shape, dtype):
    """Arrays of about that shape, which lie in memory in all the ways that an order can depend on."""
    x = random(rng, shape, dtype)
    yield x
    yield np.asfortranarray(x)
    for axes in itertools.permutations(range(x.ndim)):
        yield x.transpose(axes)
    for axis in range(x.ndim):
        whole = (slice(None),) * axis
        if x.shape[axis] > 1:
            yield x[(*whole, slice(1, None))]
        yield x[(*whole, slice(None, None, -1))]
        yield x[(*whole, slice(None, None, 2))]
        yield np.broadcast_to(x[(*whole, slice(0, 1))], x.shape)


def axes_of(x):
    for n in range(1, x.ndim + 1):
        yield from itertools.combinations(range(x.ndim), n)


def same(expected, got):
    expected, got = np.asarray(expected), np.asarray(got)
    return expected.dtype == got.dtype and expected.shape == got.shape and expected.tobytes() == got.tobytes()


def plain_sum(x, axis):
    return np.sum(x, axis=axis)


def computed_sum(x, axis):
    return np.sum(x * x - x, axis=axis)


def product(x, axis):
    return np.prod(1 + x / 8, axis=axis)


def moments(x, axis):
    return np.mean(x, axis=axis), np.var(x, axis=axis)


def several(x, axis):
    return x.sum(axis=axis), np.square(x).sum(axis=axis, keepdims=True), x.max(axis=axis)


def scaled(x, axis):
    e = np.sqrt(np.abs(x))
    return e / e.sum(axis=axis, keepdims=True)


FUNCTIONS = [plain_sum, computed_sum, product, moments, several, scaled]


def check(function, arrays, *, wait):
    fast = dynoc.optimize(function, wait=wait)
    for x in arrays:
        for axis in [None, *axes_of(x)]:
            with np.errstate(all="ignore"):
                expected = function(x, axis)
                for call in range(2):
                    got = fast(x, axis)
                    pairs = zip(expected, got, strict=True) if isinstance(expected, tuple) else [(expected, got)]
                    assert all(same(a, b) for a, b in pairs), (x.dtype, x.shape, x.strides, axis, call)


@pytest.fixture(params=["native", "builtin"])
def wait(request, monkeypatch):
    monkeypatch.setattr(dynoc.config, "cache_limit", 4096)
    if request.param == "builtin":
        monkeypatch.setattr(dynoc.config, "compiler", "/nonexistent/cc")
    return request.param == "native"


@pytest.mark.parametrize("dtype", DTYPES)
def test_row_lengths(dtype, wait, capfd):
    """Every length up to 300, where blocks and halves begin, and some beyond."""
    rng = np.random.default_rng(1)
    lengths = [*range(1, 301), 495, 511, 512, 513, 999, 1000, 4095, 8191, 8192, 8193, 10000, 16392]
    check(plain_sum, [random(rng, n, dtype) for n in lengths], wait=wait)
    check(computed_sum, [random(rng, n, dtype) for n in lengths], wait=wait)
    check(product, [random(rng, n, dtype) for n in lengths[::7]], wait=wait)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(function, dtype, wait, capfd):
    if np.dtype(dtype).kind == "c" and function in (moments, several):
        pytest.skip("the order of complex numbers is another test's")
    rng = np.random.default_rng(2)
    shapes = [(5, 4), (3, 200), (200, 3), (40, 20), (3, 4, 5), (7, 1, 20)]
    check(function, [x for shape in shapes for x in layouts(rng, shape, dtype)], wait=wait)


@pytest.mark.parametrize("shape", [(1000, 1000), (3, 70001), (70001, 3), (9001, 7), (300, 500), (2, 3, 9001), (9, 91, 90)])
def test_large(shape, wait, capfd):
    """What threads share, what has strips, and what NumPy copies to its buffer, whose size shows."""
    rng = np.random.default_rng(3)
    arrays = [x for dtype in ("f8", "f4") for x in layouts(rng, shape, dtype)]
    check(computed_sum, arrays[:: 3 if len(shape) == 3 else 1], wait=wait)
    check(plain_sum, arrays, wait=wait)


def test_conversions(wait, capfd):
    """What is converted goes through NumPy's buffer; numbers of very different size show where a piece of it ends."""
    rng = np.random.default_rng(4)
    arrays = [(rng.standard_normal(s) * 10.0 ** rng.integers(-25, 25, s)).astype("f4") for s in (100, 9000, 30000, (3, 9000))]
    check(lambda x, axis: np.sum(x, axis=axis, dtype="f8"), arrays, wait=wait)
    check(lambda x, axis: np.mean(x, axis=axis), [rng.integers(-9, 9, (300, 70)), rng.random((30, 7)) < 0.5], wait=wait)


ELSEWHERE = {
    "transposed": lambda x: (x.T - x.T.mean(axis=0)).sum(axis=0),
    "variance of a view": lambda x: (np.var(x.T, axis=0), np.var(x[:, ::2], axis=1), np.std(np.flip(x), axis=0)),
    "looked up": lambda x: (x[[3, 1, 2, 3]].sum(axis=0), np.take(x, [1, 3, 2], axis=1).sum(axis=1), x[:, [4, 0]].sum(axis=0)),
    "chosen": lambda x: (x[x > 0].sum(), np.where(x > 0, x, 0).sum(axis=0)),
    "broadcast": lambda x: ((x * x[:, :1]).T.sum(axis=1), np.broadcast_to(x[0], x.shape).sum(axis=0)),
    "outer": lambda x: (x[:, None] * x).sum(axis=1),
    "reshaped": lambda x: (x.T.reshape(5, -1).sum(axis=1), x.reshape(-1, order="F").sum(), x[None, :, 1:].sum(axis=(0, 2))),
    "joined": lambda x: (np.stack([x, x * 2], axis=-1).sum(axis=0), np.concatenate([x, x.T], axis=None).sum()),
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x[0], 7).sum(axis=1),
    "weighted": lambda x: (np.average(x, axis=0, weights=x[:, 0] + 9), np.average(x.T, weights=np.abs(x.T))),
    "nan": lambda x: (np.nansum(x, axis=0), np.nanmean(x, axis=1), np.nanstd(x.T, axis=0)),
    "product": lambda x: ((x @ x.T).sum(axis=0), (x @ x.T).T.sum(axis=0), (x.T @ x).mean(axis=1)),
    "parts": lambda x: ((x + 2j * x).real.sum(axis=1), (x + 2j * x).sum(axis=0), np.abs(x - 1j).sum()),
    "of sums": lambda x: (x.sum(axis=-1).sum(), x[None].sum(axis=(0, 2)).mean(), np.linalg.norm(x, axis=0)),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_reduced_is_made_in_the_graph(name, wait, capfd):
    """Its layout is that of eager's array, which isn't there."""
    x, plain = np.random.default_rng(11).standard_normal((40, 50)), ELSEWHERE[name]
    fast, expected = dynoc.optimize(plain, wait=wait), plain(x)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for _ in range(3):
        got = fast(x)
        assert all(same(a, b) for a, b in zip(expected, got if isinstance(got, tuple) else (got,), strict=True))


def test_empty_and_zero(wait, capfd):
    for zero in (0.0, -0.0):
        check(plain_sum, [np.full(s, zero) for s in (1, 7, 8, 100, (3, 4), (40, 40), (2, 0), (0, 3))], wait=wait)
        check(product, [np.full(s, zero - 8) for s in (1, 9, (2, 0))], wait=wait)


def test_special_values(wait, capfd):
    rng = np.random.default_rng(5)
    for value in (np.inf, -np.inf, np.nan, 1e308, 5e-324):
        x = rng.standard_normal((30, 50))
        x[3, 4:9] = value
        check(plain_sum, [x, x.T, x[::-1, ::2]], wait=wait)


def test_elements_that_are_stored_too(wait, capfd):
    def stores(x, axis):
        y = np.tanh(x) * 2
        return y, y.sum(axis=axis), np.abs(y).max(axis=axis)

    rng = np.random.default_rng(6)

    def first_of(x, axis):  # tanh has other bits than NumPy's: the sums are of what was stored
        y, total, most = fast(x, axis)
        assert same(y.sum(axis=axis), total) and same(np.abs(y).max(axis=axis), most)

    fast = dynoc.optimize(stores, wait=wait)
    for shape in [(1000,), (37,), (20, 130), (130, 20)]:
        for x in layouts(rng, shape, "f8"):
            for axis in [None, *axes_of(x)]:
                for _ in range(2):
                    first_of(x, axis)


def test_in_place(wait, capfd):
    def scales(x):
        x *= 0.5
        return x.sum()

    rng = np.random.default_rng(7)
    fast = dynoc.optimize(scales, wait=wait)
    for n in (7, 100, 255, 1000, 40001):
        x = rng.standard_normal(n)
        y = x.copy()
        for _ in range(3):
            assert same(scales(x), fast(y)) and same(x, y)


def test_threads_change_nothing(wait, capfd, monkeypatch):
    rng = np.random.default_rng(8)
    x = rng.standard_normal((1201, 1003))
    fast = dynoc.optimize(computed_sum, wait=wait)
    for threads in (1, 2, 3, 7):
        monkeypatch.setattr(dynoc.config, "threads", threads)
        for axis in (None, 0, 1):
            for a in (x, x[:, 1:], x.T):
                assert same(computed_sum(a, axis), fast(a, axis)) and same(computed_sum(a, axis), fast(a, axis))


def test_a_sum_is_the_same_again():
    """The recording call, the built-in tier and native code, without waiting for any of them."""
    x = np.random.default_rng(9).standard_normal(12345)
    fast = dynoc.optimize(lambda x: (x * 3 + 1).sum() / 7)
    first = fast(x)
    assert all(fast(x) == first for _ in range(50))
    dynoc.wait()
    assert fast(x) == first


def test_fast_math_takes_the_faster_order(monkeypatch):
    monkeypatch.setattr(dynoc.config, "fast_math", True)
    x = np.random.default_rng(10).standard_normal(100003)
    fast = dynoc.optimize(lambda x: x.sum(), wait=True)
    fast(x)
    np.testing.assert_allclose(fast(x), x.sum(), rtol=1e-9)
