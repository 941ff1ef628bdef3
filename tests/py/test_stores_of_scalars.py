"""NumPy's scalars stored in arrays: NumPy takes them for Python numbers, and raises where those don't fit."""

import traceback
import warnings

import numpy as np
import pytest

import dynoc


def element(x, y):
    x[3] = y[0] * 2
    return x


def slice_of(x, y):
    x[1:3] = y[0] * 2
    return x


def whole(x, y):
    x[...] = y[0] + y[1]
    return x


def filled(x, y):
    x.fill(y.max())
    return x


def items(x, y):
    x[1:3] = [y[0], y[1]]
    return x


def made(x, y):
    return np.array([y[0], 1, y[1]], dtype=x.dtype)


def masked(x, y):
    x[x > 1] = y[0] * 2
    return x


def listed(x, y):
    x[[1, 2]] = y[0] * 2
    return x


def in_a_loop(x, y):
    for i in range(len(x)):
        x[i] = y[i % 2] * 2
    return x


def from_a_sum(x, y):
    for i in range(3):
        s = y[0] - y[1]
        x[i] = s
        y[0] += s
    return x


def outcome(f, x, y):
    try:
        return str(f(x, y).tolist())  # nan is as itself there
    except (OverflowError, ValueError, TypeError) as e:
        return type(e), str(e), str(x.tolist())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("from_", ["f8", "f4", "f2", "i8", "i4", "u8", "?"])
@pytest.mark.parametrize("to", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "?"])
@pytest.mark.parametrize(
    "f", [element, slice_of, whole, filled, items, made, masked, listed, in_a_loop, from_a_sum], ids=lambda f: f.__name__
)
def test_a_number_that_does_not_fit(f, to, from_):
    fast = dynoc.optimize(f, wait=True)
    for v in (1, 2, 200, -3, 70000, 1e10, 1e19, 1e30, float("nan"), float("inf"), 1):
        try:
            y = np.array([v, 1]).astype(from_)
        except OverflowError:
            continue
        x = np.arange(5).astype(to)
        assert outcome(fast, x.copy(), y.copy()) == outcome(f, x.copy(), y.copy()), v


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_what_a_rule_gave_up_is_not_taken_for_what_the_call_gives():
    """A complex number in an array of floats is NumPy's call; what had been recorded of it stood for the result."""

    def mixed(x, y):
        return np.array([x[0], y[0], 1], dtype=y.dtype)

    def stored(x, y):
        y[1:] = [x[0], 2]
        return y + 1

    for f in (mixed, stored):
        fast = dynoc.optimize(f, wait=True)
        for i in range(4):
            x, y = np.full(3, 1j + i), np.full(3, i + 0.5)
            assert fast(x, y.copy()).tolist() == f(x, y.copy()).tolist()


# Of many no copy is kept, from which the call could be made again.
@pytest.mark.parametrize("size", [4, 70_000], ids=["few", "many"])
@pytest.mark.parametrize("state", ["ignore", "warn", "raise"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_float_that_does_not_fit_whatever_is_said_of_flags(state, size):
    def lowered(y, x, i):
        y[i] -= 1.0
        x[1] = y[2]
        return x[:4] * 2

    fast = dynoc.optimize(lowered, wait=True)
    for v in (3.0, 2.5, float("inf"), float("nan"), 1e30, -7.0):
        with np.errstate(all=state):
            got, expected = (
                (outcome(lambda x, y: f(y, x, 0), x, y), x[:4].tolist(), str(y))
                for f, x, y in ((f, np.zeros(size, int), np.array([1, 2, v, 3])) for f in (fast, lowered))
            )
        assert got == expected


def scaled(b, c, j):
    c[j] = b[j] * 0.3
    c[j] *= b[j] - c[j]


def scaled_in_turn(b, c, j):
    for k in range(len(b)):
        scaled(b, c, k)


def converted(b, c, j):
    c[j] = b[j] * 1e300
    return b[j + 1] * b[j + 1]


def converted_anew(b, c, j):
    made = np.zeros(3, np.int8)
    made[j] = b[j] * 1e300
    return made, b[j + 1] * b[j + 1]


def added(b, c, j):
    np.add.at(c, [j, j], b[j])
    c[j] = b[j + 1] * 0.5
    return b[j + 1] * b[j + 1]


def said(f, b, c):
    """What the call gives or raises, with the line, what it stores, and its warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            gave = str(f(b, c, 1))
        except (FloatingPointError, OverflowError, IndexError) as e:
            gave = str(e), [frame.lineno for frame in traceback.extract_tb(e.__traceback__)][1:]
    return gave, c.tobytes(), [(str(w.message), w.lineno) for w in seen]


def in_slices(b, c, j):
    c[j : j + 2] = b[:2]
    c[j] += b[j + 1]
    c[j + 1] = c[j] * c[-1]
    return c[j] - b[j]


def in_a_matrix(b, c, j):
    m = c.reshape(2, -1)
    m[j, 0] = b[j] * 0.3
    m[-1, -1] = b[0] * 0.7
    m[j, 1:2] = b[1]
    m[j, 1] *= b[j] - m[j, 0]


# The call that stores 0.3 of a number in a byte is NumPy's. What comes behind it overflows: CPython makes all of it again. Of a
# large array the places alone are kept that are written.
@pytest.mark.parametrize("size", [4, 300_000], ids=["few", "many"])
@pytest.mark.parametrize("state", ["ignore", "warn", "raise"])
@pytest.mark.parametrize(
    "f", [scaled, scaled_in_turn, converted, converted_anew, in_slices, in_a_matrix], ids=lambda f: f.__name__
)
def test_an_overflow_behind_a_store_names_its_operator(f, state, size):
    fast = dynoc.optimize(f, wait=True)
    for b in ([2, 3, 4, 5], [2, 28, 100, 3], [2, 28, 100], [120, 28, -128, 3], [1, 1, 1, 1]):
        with np.errstate(all=state):
            got, expected = (said(g, np.array(b, np.int8), np.resize([1, 2, 120, 7], size).astype(np.int8)) for g in (fast, f))
        assert got == expected, b


# Which places this one writes isn't known when the call begins.
@pytest.mark.parametrize("state", ["ignore", "warn", "raise"])
def test_an_overflow_behind_a_call_that_adds(state):
    fast = dynoc.optimize(added, wait=True)
    for b in ([2, 3, 4, 5], [2, 28, 100, 3], [100, 28, 100]):
        with np.errstate(all=state):
            got, expected = (said(g, np.array(b, np.int8), np.array([1, 2, 120, 7], np.int8)) for g in (fast, added))
        assert got == expected, b
