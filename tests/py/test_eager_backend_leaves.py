"""backend="eager": a graph that has written into its inputs is left where a call raises, or gives another kind of result than
when it was recorded; nothing is written twice."""

import traceback

import numpy as np
import pytest

import dynoc


def branches_on_a_number(x, y, n):
    x += 1
    first = bool(x.sum() > n)
    if first:
        x -= 3
    second = bool(y.sum() > n)
    x += 1
    return first, second, int(x.sum())


def drops_the_array(v, n):
    v -= n & n
    if not bool(v.sum() > n):
        pass


def inverts(x, y, n):
    x += n
    y[:] = np.linalg.inv(x) + 1
    return y


def counts(x, y, n):
    x *= 2
    y[0] = len(np.unique(x))
    y += np.flatnonzero(x > n).size
    return x


def outcome(fn, given):
    try:
        result = fn(*given)
    except Exception as error:
        lines = [line.line for line in traceback.extract_tb(error.__traceback__) if line.name == fn.__name__]
        result = type(error), str(error), lines
    return repr(result), [a.tolist() for a in given if isinstance(a, np.ndarray)]


TWO = np.array([[1.0, 2.0], [3.0, 4.0]])
CALLS = {
    branches_on_a_number: [lambda x=x: (np.arange(4.0) + x, np.arange(3.0) - x, 3) for x in range(-2, 6)],
    drops_the_array: [lambda x=x: (np.arange(4.0) + x, 2) for x in (0, 5, 0, -5)],
    inverts: [lambda x=x: (x.copy(), np.zeros((2, 2)), 0) for x in (TWO, TWO, np.ones((2, 2)), TWO + 1)],
    counts: [lambda x=x: (np.array(x), np.zeros(3), 3) for x in ([1.0, 2.0, 3.0], [1.0, 1.0, 0.0], [0.0, 5.0, 0.0])],
}


@pytest.mark.parametrize("backend", ["eager", "dynoc"])
@pytest.mark.parametrize("fn", CALLS, ids=lambda fn: fn.__name__)
def test_a_graph_that_wrote_is_left(fn, backend):
    fast = dynoc.optimize(fn, backend=backend, wait=True)
    for make in CALLS[fn] * 2:
        given, plain = make(), make()
        expected = outcome(fn, plain)
        fast_outcome = outcome(fast, given)
        assert fast_outcome == expected


def test_an_argument_that_is_the_written_array():
    fast = dynoc.optimize(branches_on_a_number, backend="eager")
    for shift in range(-3, 6):
        x, y = np.arange(4.0) + shift, np.arange(4.0) + shift
        assert fast(x, x, 3) == branches_on_a_number(y, y, 3)
        assert x.tolist() == y.tolist()
