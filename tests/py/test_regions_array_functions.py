"""Native loops in which NumPy's functions of arrays are called: running sums, differences, variances, orders, joined rows."""

import numpy as np
import pytest
from regions import check

X = np.array([0.5, -1.25, 3.0, 2.0, -0.0, 2.0, 7.5])
N = 3


def over():
    return [iter(range(N))]


def running(x, k, n):
    for i in range(n):
        a = np.cumsum(x) + np.cumprod(x)
        b = x.cumsum() - np.cumsum(x[::-1])
        c = np.cumsum(k) * 2 + k.cumsum()
        d = np.diff(x) * np.diff(x, axis=0)
        e = np.diff(k)
        x = x * 0.5
    return a, b, c, d, e


def moments(x, k, n):
    for i in range(n):
        a = np.var(x) + x.std() + np.std(x, ddof=1) + x.var(ddof=1)
        b = np.var(k) + np.std(k[::2])
        c = np.prod(x) + np.prod(k) + x[:3].prod()
        x = x * 3
    return a, b, c, x.mean()


def orders(x, k, n):
    for i in range(n):
        a = np.sort(x)
        b = np.argsort(x)
        c = x[b] - a
        d = np.searchsorted(a, i * 0.7) + np.searchsorted(a, 2.0, side="right") + a.searchsorted(x[0])
        e = np.sort(k[::-1])
        f = np.flatnonzero(x > 0.3 * i)
        g = np.flatnonzero(k)
        (h,) = np.nonzero(k - 1)
        for j in np.where(x < 0)[0]:
            d += x[j]
        g = np.hstack([g, h, k.nonzero()[0]])
        x = x[::-1] + i
    return a, b, c, d, e, f, g


def joined(x, k, n):
    for i in range(n):
        a = np.roll(x, i) + np.roll(x, -1) - np.roll(x, 100)
        b = np.stack([x, x * 2, x])
        c = np.vstack((k, k + i))
        d = np.column_stack([x, a])
        e = np.hstack([x, a])
        f = np.linspace(0, i + 1, 5) + np.linspace(-1.0, x[0], 5)
        g = np.stack((x[:2], x[2:4]), axis=0) @ x[:2]
    return a, b, c, d, e, f, g


@pytest.mark.parametrize("function", [running, moments, orders, joined], ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("bad", [0.25, np.nan, np.inf, 1e308])
def test_functions(function, n, bad):
    x = X[:n].copy()
    x[-1] = bad
    check(function, (x, np.arange(n) - 1, N), over())


@pytest.mark.parametrize("function", [running, moments, orders, joined], ids=lambda f: f.__name__)
def test_nothing(function):
    check(function, (X[:0], np.arange(0), N), over(), native=False)
    check(function, (X[::2], np.arange(8)[::2].astype(np.int32), N), over())
