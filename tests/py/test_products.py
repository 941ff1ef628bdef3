"""Products of small matrices, which are made without the call: values, dtypes, strides, warnings and exceptions are NumPy's, and
the bits are the same for any number of threads, and in a stack or alone."""

import warnings

import numpy as np
import pytest
from compare import dynoc

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
def test_forms(form):
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
