"""Products of matrices and vectors, which are made without the call: small ones by loops of our own, others by NumPy's BLAS with
its bits. Values, dtypes, strides, warnings and exceptions are NumPy's, and the bits are the same for any number of threads, and
in a stack or alone."""

import warnings

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter

DTYPES = [np.float32, np.float64]
SHAPES = [
    ((4, 4), (4, 4)), ((1, 1), (1, 1)), ((1, 3), (3, 1)), ((7, 4), (4, 4)), ((5, 3), (3, 3)), ((600, 4), (4, 4)),
    ((513, 5), (5, 7)), ((300, 16), (16, 16)), ((40, 17), (17, 4)), ((40, 16), (16, 17)), ((6, 4, 4), (6, 4, 4)),
    ((50, 3, 3), (50, 3, 3)), ((9, 1, 6), (9, 6, 5)), ((3, 5, 2, 8), (3, 5, 8, 8)), ((33, 16, 16), (16, 16)),
    ((33, 16, 16), (33, 16, 16)), ((300, 2, 3), (3, 2)), ((20, 3, 15), (20, 15, 9)), ((2, 3, 4), (1, 4, 4)),
    ((1, 3, 4), (5, 4, 4)), ((3, 4), (5, 4, 2)), ((0, 4), (4, 4)), ((3, 0), (0, 4)), ((0, 4, 4), (0, 4, 4)), ((12, 3, 3), (3, 3)),
]  # fmt: skip


def product(a, b):
    return a @ b


def numbers(shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def same(fn, fast, *args):
    want, got = fn(*args), fast(*args)
    assert got.dtype == want.dtype and got.shape == want.shape
    assert got.strides == want.strides or want.size <= 1 or 1 in want.shape
    rounding = np.finfo(want.dtype).eps * 4
    np.testing.assert_allclose(got, want, rtol=rounding, atol=rounding * 16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_shapes(shapes, dtype):
    fast = dynoc.optimize(product, wait=True)
    a, b = numbers(shapes[0], dtype), numbers(shapes[1], dtype, 1)
    for _ in range(3):
        same(product, fast, a, b)
    assert fast.entries[0].hits == 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_entry_serves_small_and_large(dtype):
    fast = dynoc.optimize(product, wait=True)
    for n in (3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 40):
        same(product, fast, numbers((n + 1, n), dtype), numbers((n, n + 2), dtype, 1))
    for a, b in [(numbers((9, 6), dtype)[::2], numbers((6, 8), dtype)), (numbers((9, 6), dtype)[:, ::2], numbers((3, 5), dtype))]:
        same(product, fast, a, b)
        same(product, fast, a, b.copy("F"))


FORMS = ["np.matmul(a, b)", "np.dot(a, b)", "a.dot(b)", "(a + 1) @ b", "np.maximum(a @ b, 0.0)", "a @ b.T @ a"]


@pytest.mark.parametrize("form", FORMS)
def test_numpy_forms(form):
    fn = eval(f"lambda a, b: {form}", {"np": np})
    fast = dynoc.optimize(fn, wait=True)
    a, b = numbers((20, 4), np.float64), numbers((4, 4), np.float64, 1)
    if form == "a @ b.T @ a":
        a = numbers((4, 4), np.float64)
    for _ in range(3):
        same(fn, fast, a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex128, np.float16])
def test_others_are_numpys(dtype):
    fast = dynoc.optimize(product, wait=True)
    a, b = np.arange(12).reshape(3, 4).astype(dtype), np.arange(16).reshape(4, 4).astype(dtype if dtype != np.float32 else float)
    for _ in range(3):
        want, got = a @ b, fast(a, b)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def said(fn, *args):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        value = fn(*args)
    return value, [str(w.message) for w in seen]


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e200, 1e-200])
def test_warnings_are_numpys(value):
    """Also where a lane behind the last column has the inf of the next row for its neighbour."""
    fast = dynoc.optimize(product, wait=True)
    fast(np.ones((3, 3)), np.ones((3, 3)))
    for i in range(9):
        for zero in (0.0, 1.0, value):
            a, b = np.full((3, 3), zero), np.ones((3, 3))
            b.flat[i] = value
            (want, why), (got, got_why) = said(product, a, b), said(fast, a, b)
            np.testing.assert_array_equal(got, want)
            assert got_why == why
    with np.errstate(all="raise"):
        try:
            want = np.full((3, 3), 1e200) @ np.full((3, 3), 1e200)
        except FloatingPointError as e:
            with pytest.raises(FloatingPointError, match=str(e)):
                fast(np.full((3, 3), 1e200), np.full((3, 3), 1e200))


def test_sizes_that_do_not_agree():
    fast = dynoc.optimize(product, wait=True)
    fast(np.ones((3, 4)), np.ones((4, 4)))
    for a, b in [((3, 4), (3, 4)), ((2, 3, 4), (3, 4, 4))]:
        with pytest.raises(ValueError) as want:
            np.ones(a) @ np.ones(b)
        with pytest.raises(ValueError) as got:
            fast(np.ones(a), np.ones(b))
        assert str(got.value) == str(want.value)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 16])
def test_bits(dtype, n, monkeypatch):
    """In a stack or alone, in whichever row, with one thread and with many."""
    fast = dynoc.optimize(product, wait=True)
    a, b = numbers((20000, n, n), dtype), numbers((20000, n, n), dtype, 1)
    fast(a, b)
    whole = fast(a, b)
    for i in (0, 1, 777, 19999):
        alone = dynoc.optimize(product, wait=True)
        alone(a[i], b[i])
        assert alone(a[i], b[i]).tobytes() == whole[i].tobytes()
    fast(a, b[0])  # recorded: NumPy's own product
    shared = fast(a, b[0])
    assert shared[0].tobytes() == whole[0].tobytes()
    for threads in (1, 2, 3):
        monkeypatch.setattr(dynoc.config, "threads", threads)
        assert fast(a, b).tobytes() == whole.tobytes() and fast(a, b[0]).tobytes() == shared.tobytes()


def test_exact_is_numpys_own():
    fast = dynoc.optimize(product, wait=True, exact=True)
    a, b = numbers((1000, 5, 5), np.float64), numbers((1000, 5, 5), np.float64, 1)
    for _ in range(3):
        assert fast(a, b).tobytes() == (a @ b).tobytes()


# ---- what NumPy's BLAS makes: the same routine, so the same bits

def lying(a, b):
    """The operands as they may lie: by rows, by columns, apart, backwards, as vectors, with steps that BLAS doesn't take."""
    wide = np.zeros((2 * a.shape[0], a.shape[1] + 3), a.dtype)
    wide[::2, :-3] = a
    yield a, b
    yield a.copy("F"), b
    yield a, b.copy("F")
    yield a.copy("F"), b.copy("F")
    yield wide[::2, :-3], b
    yield a[::-1], b
    yield a, np.repeat(b, 2, axis=1)[:, ::2]
    yield a[0], b
    yield a, b[:, 0]
    yield a, b[:, 0].copy()
    yield a[0], b[:, 0]
    yield a[0][::-1], b[:, 0][::-1]
    yield np.broadcast_to(a[0], a.shape), b
    yield a[:1], b[:, :1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(30, 30, 30), (1, 40, 17), (65, 1, 33), (7, 31, 1), (2, 2, 2), (100, 300, 20), (3, 129, 64)], ids=str
)
def test_library_bits(dtype, shape):
    fast = dynoc.optimize(product, wait=True)
    m, k, n = shape
    for a, b in lying(numbers((m, k), dtype), numbers((k, n), dtype, 1)):
        for _ in range(2):
            want, got = product(a, b), fast(a, b)
            assert type(got) is type(want) and got.dtype == want.dtype and got.shape == want.shape
            if max(k, n) > 16 or 1 in (a.ndim, b.ndim):
                assert got.tobytes() == want.tobytes()
            else:
                same(product, fast, a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS[:4] + ["np.linalg.norm(a @ b)", "np.dot(a, b) * 2", "a.T @ a", "b @ b.T"])
def test_library_forms(form, dtype):
    fn = eval(f"lambda a, b: {form}", {"np": np})
    fast = dynoc.optimize(fn, wait=True)
    for m, k, n in [(20, 40, 20), (64, 33, 20), (5, 100, 100)]:
        a, b = numbers((m, k), dtype), numbers((k, n), dtype, 1)
        for _ in range(2):
            if "np.linalg" in form:
                np.testing.assert_allclose(fast(a, b), fn(a, b), rtol=1e-5)
            else:
                np.testing.assert_array_equal(fast(a, b), fn(a, b))


STACKS = [
    ((5, 20, 30), (5, 30, 20)), ((5, 20, 30), (30, 20)), ((20, 30), (5, 30, 20)), ((4, 1, 20, 30), (3, 30, 20)),
    ((5, 20, 30), (30,)), ((30,), (5, 30, 20)), ((1, 20, 30), (5, 30, 20)), ((3, 2, 7, 40), (1, 2, 40, 1)),
    ((0, 20, 30), (0, 30, 20)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", STACKS, ids=str)
def test_library_stacks(shapes):
    fast = dynoc.optimize(product, wait=True)
    a, b = numbers(shapes[0], np.float64), numbers(shapes[1], np.float64, 1)
    turned = a.swapaxes(-1, -2).copy().swapaxes(-1, -2) if a.ndim > 1 else a
    for x, y in [(a, b), (a[::-1], b), (np.repeat(a, 2, axis=0)[::2], b), (turned, b)]:
        for _ in range(2):
            want, got = product(x, y), fast(x, y)
            assert got.shape == want.shape and got.tobytes() == want.tobytes()


def test_library_zero_has_no_sign():
    fast = dynoc.optimize(product, wait=True)
    for dtype in DTYPES:
        a = np.full(20, -0.0, dtype)
        for _ in range(2):
            assert np.asarray(fast(a, np.ones(20, dtype))).tobytes() == np.asarray(a @ np.ones(20, dtype)).tobytes()


@pytest.mark.parametrize("shapes", [((20, 30), (30, 20)), ((20, 30), (30,)), ((30,), (30,))], ids=str)
@pytest.mark.parametrize("value", [np.inf, np.nan, 1e200, 1e-200])
def test_library_warnings(shapes, value):
    fast = dynoc.optimize(product, wait=True)
    fast(np.ones(shapes[0]), np.ones(shapes[1]))
    for other in (1.0, 0.0, value):
        a, b = np.full(shapes[0], value), np.full(shapes[1], other)
        (want, why), (got, got_why) = said(product, a, b), said(fast, a, b)
        np.testing.assert_array_equal(got, want)
        assert got_why == why


def test_library_vectors_that_do_not_agree():
    fast = dynoc.optimize(product, wait=True)
    fast(np.ones((3, 40)), np.ones(40))
    for a, b in [((3, 40), (39,)), ((3, 0), (0,)), ((0, 40), (40,))]:
        try:
            want = np.ones(a) @ np.ones(b)
        except ValueError as e:
            with pytest.raises(ValueError) as got:
                fast(np.ones(a), np.ones(b))
            assert str(got.value) == str(e)
        else:
            np.testing.assert_array_equal(fast(np.ones(a), np.ones(b)), want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shapes", [((300, 40, 30), (300, 30, 40)), ((300, 60, 60), (300, 60, 1)), ((20, 15, 40, 30), (15, 30, 40))], ids=str
)
def test_library_stacks_in_threads(shapes, dtype, monkeypatch):
    """The same bits for any number of threads: NumPy's."""
    fast = dynoc.optimize(product, wait=True)
    a, b = numbers(shapes[0], dtype), numbers(shapes[1], dtype, 1)
    fast(a, b)
    for threads in (1, 2, 3):
        monkeypatch.setattr(dynoc.config, "threads", threads)
        for x in (a, a[::-1], a[1:7]):
            y = b if len(b) != 300 or len(x) == 300 else b[1:7]
            fast(x, y)
            assert fast(x, y).tobytes() == product(x, y).tobytes()
