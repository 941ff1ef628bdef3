"""NumPy's scalars stored in arrays: NumPy takes them for Python numbers, and raises where those don't fit."""

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
