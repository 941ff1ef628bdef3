"""Operands that stand still along rows, as a column beside a matrix: a kernel's second function takes them as one element. Values
and bits are those of its first function, and of NumPy."""

import warnings

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter

SIZES = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 513]
DTYPES = "? i1 u1 i2 u4 i8 f2 f4 f8 c8 c16".split()


def numbers(shape, dtype="f8", seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "?":
        return rng.random(shape) < 0.5
    if dtype[0] in "iu":
        return rng.integers(1, 60, shape).astype(dtype)
    if dtype[0] == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def outer(x, m, s):
    return m[:, None] * x[0][None, :]


def shifted(x, m, s):
    return x + m[:, None]


def chosen(x, m, s):
    return np.where(x < m[:, None], x, s[:, None])


def two(x, m, s):
    y = x * m[:, None]
    return y + s[:, None], y


def in_place(x, m, s):
    y = x + x
    y += m[:, None]
    return y


FUNCTIONS = [outer, shifted, chosen, two, in_place]


def same(function, fast, *args):
    want, got = function(*args), fast(*args)
    for x, y in zip(*(r if isinstance(r, tuple) else (r,) for r in (want, got)), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_sizes(function, dtype):
    fast = dynoc.optimize(function, wait=True)
    for columns in [100, *SIZES]:
        for rows in (1, 2, 40):
            x = numbers((rows, columns), dtype)
            same(function, fast, x, numbers(rows, dtype, 1), numbers(rows, dtype, 2))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_strides(function):
    """Rows that don't lie side by side, columns that do, and what stands still along another axis than the last."""
    fast = dynoc.optimize(function, wait=True)
    x, m, s = numbers((60, 70)), numbers(60, seed=1), numbers(60, seed=2)
    apart = np.repeat(x, 2, 1)[:, ::2], np.repeat(x, 2, 0)[::2]
    for y in (x, x.copy("F"), x[::-1], x[:, ::-1], *apart, np.broadcast_to(x[0], x.shape)):
        for column in (m, m[::-1], np.repeat(m, 3)[::3], np.broadcast_to(m[0], m.shape)):
            for _ in range(2):
                same(function, fast, y, column, s)


def test_ranks():
    functions = [
        lambda x, m: x * m[:, :, None] + m[:, :1, None],
        lambda x, m: x * m[:, None, :] + m[:, :, None],
        lambda x, m: (x.transpose(2, 0, 1) + m).transpose(1, 2, 0),
        lambda x, m: np.exp(m[:, :, None]) - x,
    ]
    for f in functions:
        fast = dynoc.optimize(f, wait=True)
        for n in (33, 64, 5):
            x, m = numbers((6, n, n)), numbers((6, n), seed=1)
            for _ in range(2):
                np.testing.assert_allclose(fast(x, m), f(x, m), rtol=1e-13, atol=1e-13)


def test_written_memory_is_read():
    """Also where what stands still lies in what is written."""

    def column_of_itself(x):
        x -= x[:, :1]
        return x

    def first_of_result(x):
        y = x * 2.0
        y += y[:, 3:4]
        return y

    for f in (column_of_itself, first_of_result):
        fast = dynoc.optimize(f, wait=True)
        for n in (40, 64, 100):
            np.testing.assert_array_equal(fast(numbers((50, n))), f(numbers((50, n))))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, 1e-310])
def test_warnings(value):
    def quotient(x, m):
        return np.log(x / m[:, None])

    fast = dynoc.optimize(quotient, wait=True)
    x, m = np.abs(numbers((50, 40))), np.abs(numbers(50, seed=1))
    fast(x, m)
    m[31] = value
    said = []
    for f in (quotient, fast):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            said.append((f(x, m), [str(w.message) for w in seen]))
    np.testing.assert_allclose(said[1][0], said[0][0], rtol=1e-14)
    assert said[0][1] == said[1][1]


def test_bits(monkeypatch):
    """As the first function has them, which takes lanes that don't lie side by side, and for any number of threads."""

    def f(x, m):
        return np.exp(x * m[:, None]) / np.tanh(m)[:, None]

    fast = dynoc.optimize(f, wait=True)
    x, m = numbers((700, 600)), numbers(700, seed=1) + 3
    fast(x, m)
    want = fast(x, m)
    apart = np.repeat(x, 2, axis=1)[:, ::2]
    fast(apart, m)
    assert fast(apart, m).tobytes() == want.tobytes()
    for threads in (1, 2, 3):
        monkeypatch.setattr(dynoc.config, "threads", threads)
        assert fast(x, m).tobytes() == want.tobytes()


def test_which_kernels_have_it():
    """Those with an operand of that kind and rows that are worth a call."""
    x, m = numbers((50, 40)), numbers(50, seed=1)
    for f, args, has in [
        (lambda x, m: x + m[:, None], (x, m), True),
        (lambda x, m: x + m, (x.T, m), False),
        (lambda x, m: x + m[:, None], (x[:, :5], m), False),
        (lambda x, m: (x - m[:, None]).sum(axis=0), (x, m), False),
    ]:
        fast = dynoc.optimize(f, wait=True)
        fast(*args)
        assert ("static void row_constant_0" in fast.entries[0].source) == has
