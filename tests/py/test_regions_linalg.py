"""Native loops that call numpy.linalg for small matrices."""

import numpy as np
import pytest
from regions import check


def solved(a, b, out):
    for i in range(len(a)):
        x = np.linalg.solve(a[i], b[i])
        out[i] = x
    return x


def inverted(a, s):
    for m in a:
        inverse = np.linalg.inv(m)
        s += inverse[0, 0] + np.trace(inverse)
    return s, inverse


def determinants(a, s):
    for m in a:
        d = np.linalg.det(m)
        s += d
    return s, d


def factors(a, s):
    for m in a:
        f = np.linalg.cholesky(m @ m.T)
        s += f[0, 0]
    return s, f


def of_expressions(a, b, s):
    for i in range(4):
        s = s + np.linalg.solve(a * 2 + np.eye(3), b - i)
    return s


def traces(a, s):
    for m in a:
        s += np.trace(m)
    return s


def filtered(f, q, x, p):
    for _ in range(5):
        x = f @ x
        p = f @ p @ f.T + q
        k = p @ np.linalg.inv(p + q)
        x = x + k @ (np.ones(2) - x)
    return x, p, k


def matrices(count=4, n=3, seed=0):
    return np.random.default_rng(seed).random((count, n, n)) + n * np.eye(n)


FUNCTIONS = [inverted, determinants, factors]


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_systems(n):
    a = matrices(n=n)
    check(solved, (a, np.random.default_rng(1).random((4, n)), np.zeros((4, n))), [iter(range(4))])
    b = np.random.default_rng(1).random((4, n, 2))
    check(solved, (a, b, np.zeros((4, n, 2))), [iter(range(4))])


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_of_one_matrix(function, n):
    a = matrices(n=n)
    check(function, (a, 0.0), [iter(a)])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_other_strides(function):
    for a in (matrices()[:, ::-1], matrices().transpose(0, 2, 1), matrices(n=6)[:, ::2, ::2], matrices()[:, :, ::-1]):
        check(function, (a, 0.0), [iter(a)])


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf, 1e300])
def test_singular_and_not_finite(function, bad):
    a = matrices()
    a[2] = bad
    check(function, (a, 0.0), [iter(a)])


def test_a_singular_system():
    a = matrices()
    a[2, 1] = a[2, 0]
    check(solved, (a, np.ones((4, 3)), np.zeros((4, 3))), [iter(range(4))])


def test_sizes_that_differ():
    check(solved, (matrices(), np.ones((4, 2)), np.zeros((4, 3))), [iter(range(4))])
    a = np.ones((3, 2, 3))
    for function in FUNCTIONS[:2]:
        check(function, (a, 0.0), [iter(a)])


@pytest.mark.parametrize("shape", [(3, 3, 3), (2, 3, 5), (2, 5, 2), (2, 20, 20)])
def test_traces(shape):
    a = np.random.default_rng(3).random(shape)
    check(traces, (a, 0.0), [iter(a)])
    check(traces, (a[:, ::-1], 0.0), [iter(a[:, ::-1])])


def test_expressions():
    check(of_expressions, (matrices()[0], np.ones(3), np.zeros(3)), [iter(range(4))])


def test_a_filter():
    f, q = np.array([[1.0, 0.1], [0.0, 1.0]]), np.eye(2) * 0.01
    check(filtered, (f, q, np.zeros(2), np.eye(2)), [iter(range(5))])


def test_flags_stay():
    """What the loops of LAPACK raise isn't reported."""
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        a = matrices()
        check(inverted, (a, 0.0), [iter(a)])
