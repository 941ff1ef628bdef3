"""Native loops over arrays of complex numbers, and over arrays that NumPy's own ufuncs compute."""

import numpy as np
import pytest
from regions import check

Z = np.array([1 + 2j, -0.5j, 3.25, -1e3 + 1e-3j, 0.1 + 0.7j, 2 - 2j])
X = np.linspace(-2.0, 3.0, 6)
N = 3


def over():
    return [iter(range(N))]


def elements(z, w, n):
    for i in range(n):
        a = z[i] * w[i + 1] + 2.0
        b = a / z[i + 2] - 1j * a
        c = b.real + b.imag
        d = -b
        w[i] = d
        w[i + 1] = i
        w[i + 2] = c * 0.5
        e = abs(a)
        f = (a == b, a != 3, bool(a), not b, z[0] * np.float64(2.0))
        g = 1j * z[i].real
    return a, b, c, d, e, f, g


def arrays(z, w, x, n):
    for i in range(n):
        a = z + w
        b = z * w - 1j * x
        c = a / w
        d = -c
        e = b**2
        z = z * 0.5 + x
        w[1:4] = z[:3]
        w[::2] *= 1j
        f = np.abs(b) + np.abs(z[0]) + np.sqrt(w[1]) + np.isnan(z)
        g = np.exp(1j * x) + np.conj(z) + z.conj()
        h = np.angle(z) + z.real * z.imag + np.real(z) - np.imag(w)
        w.real[0] = i
    return a, b, c, d, e, f, g, h


def made(n, m):
    for i in range(m):
        a = np.zeros(n, dtype=complex) + i
        b = np.zeros((n, 2), dtype=np.complex128)
        b[:, 0] = a
        b[0] = 1 + 2j
        b[1, 1] = 3
        c = np.ones_like(b) * np.full(n, 2j)[:, None]
        d = np.array([1, 2.5, 1j * i]) + np.eye(3, dtype=complex)
        e = b.copy() + c.T.T
        f = np.arange(n).astype(complex) * 1j
        g = np.array(f.real, dtype=complex)
    return a, b, c, d, e, f, g


def butterflies(x, n):
    for k in range(n):
        even, odd = x[::2], x[1::2]
        t = np.exp(-2j * np.pi * np.arange(3) / 6) * odd
        y = np.zeros(6, dtype=complex)
        y[:3] = even + t
        y[3:] = even - t
        x = y
    return x


def rows(z, w, n):
    for i in range(n):
        z[i] = z[i + 1] * w[0]
        z[:, i] = w[:, i].conj()
        s = z[i, :2] + z[:2, i]
        for v in z[i]:
            s = s + v
    return s, z[-1]


CASES = {
    elements: (Z, Z[::-1] * 0.5, N),
    arrays: (Z, Z[::-1].copy(), X, N),
    made: (4, N),
    butterflies: (Z, N),
    rows: (np.outer(Z, Z[:4])[:4], np.outer(Z[:4], Z[:4]) * 1j, N),
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_complex(function):
    check(function, CASES[function], over())


@pytest.mark.parametrize("step", [1, 2, -1, -2])
def test_strides(step):
    z = np.concatenate([Z, Z[::-1] * 1j])
    check(arrays, (z[::step][:6], Z[::-1].copy(), X, N), over())


@pytest.mark.parametrize("bad", [np.nan, np.inf, complex(np.inf, np.nan), 1e308, 1e-320, 0])
def test_what_numpy_reports(bad):
    z = Z.copy()
    z[3] = bad
    check(elements, (z, Z[::-1] * 0.5, N), over())
    check(elements, (Z, z, N), over())
    check(arrays, (z, Z[::-1].copy(), X, N), over())
    check(arrays, (Z, z, X, N), over())
    check(rows, (np.outer(z, Z[:4])[:4], np.outer(Z[:4], Z[:4]) * 1j, N), over())


def operators(a, b, k, n):
    for i in range(n):
        c = a // b
        d = a % b
        e = a // k + k % b
        f = a**3
        a = a + 1
    return c, d, e, f


@pytest.mark.parametrize("dtype", [float, np.float32, int, np.int32, np.uint8])
@pytest.mark.parametrize("zero", [False, True])
def test_operators(dtype, zero):
    a, b = np.arange(6).astype(dtype), (np.arange(6) % 4 + 1).astype(dtype)
    b[2] *= not zero
    check(operators, (a, b, 3, N), over())
    check(operators, (a.reshape(2, 3), b.reshape(3, 2).T, 3, N), over(), leaves=None)
    check(operators, (a.reshape(2, 3), b[:3], 3, N), over())


def ufuncs(a, b, n):
    for i in range(n):
        c = np.maximum(a, b) - np.minimum(a, 2)
        d = np.bitwise_and(a, 3) + np.left_shift(b, 1)
        e = np.sqrt(a) + np.exp(b * 0.01) + np.hypot(a, b)
        f = np.maximum(i, 2) + np.power(a[0], 2) + np.arctan2(0.5, i)
        g = np.sign(a) + abs(a) + np.square(b)
        h = np.logical_or(a > b, b > 3)
        k = np.fabs(a) + np.floor(b) + np.isnan(a) + np.ceil(a / 2) + np.isfinite(b * 0.5)
        a = a + 1
    return c, d, e, f, g, h, k


@pytest.mark.parametrize("dtype", [int, np.int32])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (3, 1, 2)])
def test_ufuncs(dtype, shape):
    a, b = (np.arange(6) - 2).astype(dtype).reshape(shape), (np.arange(6) % 4 + 1).astype(dtype).reshape(shape)
    check(ufuncs, (abs(a), b, N), over())
    check(ufuncs, (abs(a), b[..., :1], N), over())
    check(ufuncs, (a, b, N), over())
    check(ufuncs, (abs(a)[::-1], b, N), over())


def singles(a, n):
    for i in range(n):
        b = np.exp(a) * np.maximum(a, 0.5) + np.float32(2) ** a
        c = np.clip(a, -0.5, 0.75)
        d = a.astype(float) + a.astype(np.float64)
        e = (a * 3).astype(int)
        a = a * 0.5
    return b, c, d, e


def test_singles():
    check(singles, (np.linspace(-1, 1, 7, dtype=np.float32), N), over())
    check(singles, (np.array([1e20, np.nan, 3], np.float32), N), over())


def products(a, b, v, n):
    for i in range(n):
        c = a @ b
        w = a @ v
        u = v @ b
        s = v @ w
        t = a.T @ b.conj()
        q = v.sum() + np.sum(a) * a.mean() + v[::2].mean()
        r = np.prod(v) + v.prod() * 2
        v = v / np.sqrt(abs(s))
    return c, w, u, s, t, q, r


def test_products():
    a = np.outer(Z, Z[::-1] - 1j) * 1e-3
    check(products, (a, a.T.copy() + 1, Z, N), over())
    check(products, (a, a.T.copy() + 1, np.where(Z == 3.25, np.inf, Z), N), over())
    check(products, (np.outer(Z, Z[:4]), np.outer(Z, Z), Z, N), over())
