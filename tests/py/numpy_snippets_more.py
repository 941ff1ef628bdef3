"""More pieces of NumPy code of the kind people share: filters, signals, statistics, linear algebra, simulation, learning, graphs.
test_numpy_snippets_more.py runs them: all are one graph, since none branches on data. A row is a function and make(rng, n), as in
numpy_snippets.py."""

import numpy as np
from numpy_snippets import Snippet

MORE = []


def s(make, tol="near", sizes=(12, 12, 17)):
    def add(function):
        MORE.append(Snippet(function, make, tol, sizes))
        return function

    return add


def img(rng, n):
    return (rng.uniform(0, 1, (n, n)),)


def vec(rng, n):
    return (rng.normal(size=n),)


def tab(rng, n):
    return (rng.normal(size=(n, 4)),)


def pts(rng, n):
    return (rng.normal(size=(n, 2)),)



@s(lambda r, n: (r.uniform(0, 1, (n, n)),))
def median_filter(img):
    p = np.pad(img, 1, mode="reflect")
    st = np.stack([p[i:i + img.shape[0], j:j + img.shape[1]] for i in range(3) for j in range(3)])
    return np.median(st, axis=0)


@s(lambda r, n: (r.uniform(0, 1, (n, n)),))
def local_std(img):
    w = np.lib.stride_tricks.sliding_window_view(img, (3, 3))
    return w.std(axis=(-2, -1))


@s(lambda r, n: (r.integers(0, 256, (n, n)).astype(np.uint8),))
def otsu(img):
    hist = np.bincount(img.ravel(), minlength=256).astype(float)
    p = hist / hist.sum()
    w = np.cumsum(p)
    m = np.cumsum(p * np.arange(256))
    with np.errstate(divide="ignore", invalid="ignore"):
        s = (m[-1] * w - m) ** 2 / (w * (1 - w))
    return np.nanargmax(s)


@s(lambda r, n: (r.uniform(0, 1, (n, n)), 2.0))
def gaussian_lowpass(img, sigma):
    fy = np.fft.fftfreq(img.shape[0])[:, None]
    fx = np.fft.fftfreq(img.shape[1])
    H = np.exp(-2 * (np.pi * sigma) ** 2 * (fx ** 2 + fy ** 2))
    return np.real(np.fft.ifft2(np.fft.fft2(img) * H))


@s(lambda r, n: (r.normal(size=4 * n),))
def hilbert(x):
    N = len(x)
    X = np.fft.fft(x)
    h = np.zeros(N)
    if N % 2 == 0:
        h[0] = h[N // 2] = 1
        h[1:N // 2] = 2
    else:
        h[0] = 1
        h[1:(N + 1) // 2] = 2
    return np.abs(np.fft.ifft(X * h))


@s(lambda r, n: (r.normal(size=8 * n), 16, 8))
def stft(x, size, hop):
    w = np.hanning(size)
    frames = np.array([x[i:i + size] * w for i in range(0, len(x) - size + 1, hop)])
    return np.abs(np.fft.rfft(frames, axis=1)) ** 2


@s(lambda r, n: (r.normal(size=n), 0.3))
def ema(x, a):
    y = np.empty_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = a * x[i] + (1 - a) * y[i - 1]
    return y


@s(lambda r, n: (r.normal(size=n),))
def autocorr(x):
    x = x - np.mean(x)
    r = np.correlate(x, x, mode="full")[-len(x):]
    return r / (x.var() * np.arange(len(x), 0, -1))


@s(lambda r, n: (r.normal(size=(n, 2)), 3))
def kmeans(X, k):
    C = X[:k].copy()
    for _ in range(5):
        D = np.linalg.norm(X[:, None] - C, axis=2)
        L = np.argmin(D, axis=1)
        C = np.array([X[L == j].mean(axis=0) for j in range(k)])
    return (C, L)


@s(lambda r, n: (r.normal(size=(n, 4)), 2))
def pca(X, k):
    Xc = X - X.mean(axis=0)
    cov = np.cov(Xc, rowvar=False)
    w, v = np.linalg.eigh(cov)
    idx = np.argsort(w)[::-1]
    v = v[:, idx]
    w = w[idx]
    return (Xc @ v[:, :k], w / w.sum())


@s(lambda r, n: (np.array([[0.9, 0.1, 0], [0.2, 0.7, 0.1], [0, 0.3, 0.7]]),))
def markov_eig(P):
    w, v = np.linalg.eig(P.T)
    i = np.argmin(np.abs(w - 1))
    p = np.real(v[:, i])
    return p / p.sum()


@s(lambda r, n: (np.array([[0.9, 0.1, 0], [0.2, 0.7, 0.1], [0, 0.3, 0.7]]),))
def power_iter(A):
    v = np.ones(A.shape[0])
    for _ in range(10):
        v = A @ v
        v /= np.linalg.norm(v)
    return (v, v @ A @ v)


@s(lambda r, n: (np.linspace(0, 1, n), r.normal(size=n)))
def natural_spline(x, y):
    n = len(x)
    h = np.diff(x)
    A = np.zeros((n, n))
    b = np.zeros(n)
    A[0, 0] = A[-1, -1] = 1
    idx = np.arange(1, n - 1)
    A[idx, idx - 1] = h[:-1]
    A[idx, idx] = 2 * (h[:-1] + h[1:])
    A[idx, idx + 1] = h[1:]
    b[1:-1] = 3 * (np.diff(y[1:]) / h[1:] - np.diff(y[:-1]) / h[:-1])
    return np.linalg.solve(A, b)


@s(lambda r, n: (r.uniform(size=(n, n)), 0.1, 5))
def wave2d(u, c, steps):
    v = np.zeros_like(u)
    for _ in range(steps):
        lap = -4 * u
        lap += np.roll(u, 1, 0)
        lap += np.roll(u, -1, 0)
        lap += np.roll(u, 1, 1)
        lap += np.roll(u, -1, 1)
        v += c * lap
        u = u + v
    return u


@s(lambda r, n: (r.normal(size=(n, n)),))
def toeplitz(a):
    c = a[:, 0]
    r = a[0]
    v = np.concatenate((c[::-1], r[1:]))
    n = len(c)
    return np.lib.stride_tricks.as_strided(v[n - 1:], shape=(n, n), strides=(-v.strides[0], v.strides[0])).copy()


@s(lambda r, n: (r.normal(size=n), np.linspace(-3, 3, 11)))
def ecdf(x, grid):
    xs = np.sort(x)
    return np.searchsorted(xs, grid, side="right") / x.size


@s(lambda r, n: (r.integers(0, 5, n), r.integers(0, 5, n)))
def contingency(a, b):
    ua, ia = np.unique(a, return_inverse=True)
    ub, ib = np.unique(b, return_inverse=True)
    t = np.zeros((len(ua), len(ub)), dtype=int)
    np.add.at(t, (ia, ib), 1)
    e = t.sum(1, keepdims=True) * t.sum(0) / t.sum()
    return ((t - e) ** 2 / e).sum()


@s(lambda r, n: (r.normal(size=n), r.normal(size=n)))
def spearman(x, y):
    rx = x.argsort().argsort()
    ry = y.argsort().argsort()
    return np.corrcoef(rx, ry)[0, 1]


@s(lambda r, n: (r.normal(size=n), 100, 5))
def bootstrap_ci(x, B, seed):
    rng = np.random.default_rng(seed)
    m = rng.choice(x, size=(B, len(x))).mean(axis=1)
    return np.percentile(m, [2.5, 97.5])


@s(lambda r, n: (n, 5))
def randwalk(n, seed):
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.choice([-1, 1], size=(n, 2)), axis=0)


@s(lambda r, n: (r.normal(size=(n, 3)),))
def gram_schmidt(A):
    Q = np.zeros_like(A)
    for j in range(A.shape[1]):
        v = A[:, j].copy()
        for i in range(j):
            v -= Q[:, i] @ A[:, j] * Q[:, i]
        Q[:, j] = v / np.linalg.norm(v)
    return Q


@s(lambda r, n: (r.normal(size=(4, 4)) + 4 * np.eye(4), r.normal(size=4)))
def jacobi(A, b):
    x = np.zeros_like(b)
    D = np.diag(A)
    Rm = A - np.diagflat(D)
    for _ in range(10):
        x = (b - Rm @ x) / D
    return x


@s(lambda r, n: (np.linspace(0, 10, n),))
def vectorized_f(x):
    f = np.vectorize(lambda t: t ** 2 if t > 5 else -t)
    return f(x)


@s(lambda r, n: (n,))
def ff(n):
    return np.fromfunction(lambda i, j: (i + j) % 2, (n, n))


@s(lambda r, n: (r.normal(size=(n, 4)),))
def aaa_sort(a):
    return np.apply_along_axis(np.sort, 0, a)


@s(lambda r, n: (r.normal(size=n),))
def pw(x):
    return np.piecewise(x, [x < -1, (x >= -1) & (x < 1)], [0, lambda v: v ** 2, 1])


@s(lambda r, n: (r.normal(size=(n, 3)),))
def einsum1(a):
    return (np.einsum("ij,kj->ik", a, a), np.einsum("ij,ij->i", a, a), np.einsum("ij->j", a))


@s(lambda r, n: (r.normal(size=(n, n)),))
def nms(a):
    p = np.pad(a, 1, constant_values=-np.inf)
    nb = np.max([p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]], axis=0)
    return np.argwhere(a > nb)


@s(lambda r, n: (r.uniform(size=(n, n, 3)),))
def rgb2hsv(rgb):
    r_, g, b = (rgb[..., 0], rgb[..., 1], rgb[..., 2])
    mx = rgb.max(-1)
    mn = rgb.min(-1)
    d = mx - mn
    h = np.zeros_like(mx)
    m = d > 0
    i = (mx == r_) & m
    h[i] = (g - b)[i] / d[i] % 6
    i = (mx == g) & m
    h[i] = (b - r_)[i] / d[i] + 2
    i = (mx == b) & m
    h[i] = (r_ - g)[i] / d[i] + 4
    s = np.divide(d, mx, out=np.zeros_like(d), where=mx != 0)
    return np.dstack([h / 6, s, mx])


@s(lambda r, n: (r.normal(size=(n, 2)),))
def shoelace_hull(p):
    c = p.mean(0)
    a = np.arctan2(*(p - c).T[::-1])
    p = p[np.argsort(a)]
    x, y = p.T
    return 0.5 * abs(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


@s(lambda r, n: (n,))
def mandel(n):
    y, x = np.ogrid[-1.4:1.4:n * 1j, -2:0.8:n * 1j]
    c = x + y * 1j
    z = c
    div = 10 + np.zeros(z.shape, dtype=int)
    for i in range(10):
        z = z ** 2 + c
        dv = z * np.conj(z) > 4
        now = dv & (div == 10)
        div[now] = i
        z[dv] = 2
    return div


@s(lambda r, n: (r.integers(0, 2, n),))
def runs(x):
    d = np.diff(np.concatenate([[0], x, [0]]))
    st, = np.where(d == 1)
    en, = np.where(d == -1)
    return (st, en - st, (en - st).max(initial=0))


@s(lambda r, n: (r.normal(size=n), r.normal(size=n)))
def polyroots(x, y):
    p = np.polyfit(x, y, 3)
    q = np.polyder(p)
    return np.roots(q)


@s(lambda r, n: (r.normal(size=(2, n)),))
def meshdist(p):
    i, j = np.triu_indices(p.shape[1], k=1)
    return np.sqrt(((p[:, i] - p[:, j]) ** 2).sum(0))


@s(lambda r, n: (r.normal(size=n),))
def softthr(x):
    return np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)


@s(lambda r, n: (r.normal(size=(n, 3)), r.integers(0, 3, n)))
def groupsplit(x, lab):
    return [g.mean(axis=0) for g in np.split(x, [2, 5])]


@s(lambda r, n: (r.normal(size=(n, 3)),))
def mahal(X):
    d = X - X.mean(0)
    VI = np.linalg.inv(np.cov(X.T))
    return np.sqrt(np.einsum("ij,jk,ik->i", d, VI, d))


@s(lambda r, n: (r.normal(size=(n, 2)),))
def euler_lorenz(s):
    x, y, z = (1.0, 1.0, 1.0)
    out = np.empty((10, 3))
    for i in range(10):
        out[i] = (x, y, z)
        dx = 10 * (y - x)
        dy = x * (28 - z) - y
        dz = x * y - 8 / 3 * z
        x, y, z = (x + 0.01 * dx, y + 0.01 * dy, z + 0.01 * dz)
    return out


@s(lambda r, n: (r.uniform(1, 10, n), 3.0))
def newton(x, a):
    y = x
    for _ in range(5):
        y = y - (y ** 3 - a) / (3 * y ** 2)
    return y


@s(img)
def harris(a):
    dy, dx = np.gradient(a)
    k = np.ones((3, 3)) / 9
    def box(x):
        p = np.pad(x, 1, mode="edge")
        return sum((p[i:i + x.shape[0], j:j + x.shape[1]] for i in range(3) for j in range(3))) / 9
    ixx, iyy, ixy = (box(dx * dx), box(dy * dy), box(dx * dy))
    det = ixx * iyy - ixy ** 2
    tr = ixx + iyy
    return det - 0.04 * tr ** 2


@s(img)
def unsharp(a):
    blur = (np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) + a) / 5
    return np.clip(a + 1.5 * (a - blur), 0, 1)


@s(lambda r, n: (r.uniform(0, 255, (n, n, 3)).astype(np.uint8),))
def sepia(a):
    m = np.array([[0.393, 0.769, 0.189], [0.349, 0.686, 0.168], [0.272, 0.534, 0.131]])
    o = a.astype(float) @ m.T
    o[o > 255] = 255
    return o.astype(np.uint8)


@s(img)
def rot45(a):
    h, w = a.shape
    th = np.pi / 4
    y, x = np.mgrid[:h, :w]
    yc, xc = ((h - 1) / 2, (w - 1) / 2)
    xs = np.cos(th) * (x - xc) + np.sin(th) * (y - yc) + xc
    ys = -np.sin(th) * (x - xc) + np.cos(th) * (y - yc) + yc
    xi = np.round(xs).astype(int)
    yi = np.round(ys).astype(int)
    ok = (xi >= 0) & (xi < w) & (yi >= 0) & (yi < h)
    out = np.zeros_like(a)
    out[ok] = a[yi[ok], xi[ok]]
    return out


@s(lambda r, n: (r.integers(0, 256, (n, n), dtype=np.uint8),))
def lbp(a):
    c = a[1:-1, 1:-1]
    code = np.zeros(c.shape, dtype=np.uint8)
    for k, (dy, dx) in enumerate([(-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1)]):
        code |= (a[1 + dy:a.shape[0] - 1 + dy, 1 + dx:a.shape[1] - 1 + dx] >= c).astype(np.uint8) << k
    return np.bincount(code.ravel(), minlength=256)


@s(vec)
def goertzel(x):
    N = len(x)
    k = 3
    w = 2 * np.pi * k / N
    n = np.arange(N)
    return abs(np.sum(x * np.exp(-1j * w * n))) ** 2


@s(vec)
def detrend(x):
    t = np.arange(x.size)
    A = np.c_[t, np.ones_like(t)]
    coef, *_ = np.linalg.lstsq(A, x, rcond=None)
    return x - A @ coef


@s(vec)
def zscore_peaks(x):
    z = (x - np.median(x)) / (1.4826 * np.median(np.abs(x - np.median(x))))
    return (np.nonzero(np.abs(z) > 1)[0], z)


@s(vec)
def envelope_decim(x):
    n = len(x) // 4 * 4
    return np.abs(x[:n]).reshape(-1, 4).max(axis=1)


@s(lambda r, n: (r.normal(size=n), 8000.0, 440.0))
def synth(x, fs, f0):
    t = np.arange(len(x)) / fs
    y = np.zeros_like(t)
    for k in range(1, 6):
        y += np.sin(2 * np.pi * k * f0 * t) / k
    y *= np.exp(-3 * t)
    return (y / np.max(np.abs(y)) * 32767).astype(np.int16)


@s(vec)
def cepstrum(x):
    sp = np.fft.fft(x)
    return np.fft.ifft(np.log(np.abs(sp) + 1e-12)).real


@s(lambda r, n: (r.normal(size=n), r.normal(size=n)))
def xcorr_lag(a, b):
    c = np.correlate(a - a.mean(), b - b.mean(), "full")
    return c.argmax() - (len(b) - 1)


@s(vec)
def allan(x):
    out = []
    for m in (1, 2, 3):
        k = len(x) // m
        y = x[:k * m].reshape(k, m).mean(1)
        out.append(0.5 * np.mean(np.diff(y) ** 2))
    return np.array(out)


@s(vec)
def theil_sen(x):
    n = len(x)
    i, j = np.triu_indices(n, 1)
    return np.median((x[j] - x[i]) / (j - i))


@s(vec)
def jackknife(x):
    n = len(x)
    m = np.array([np.delete(x, i).mean() for i in range(5)])
    return (m.mean(), m.var())


@s(lambda r, n: (r.normal(size=n), r.normal(size=n)))
def perm_test(a, b):
    rng = np.random.default_rng(0)
    d = a.mean() - b.mean()
    z = np.concatenate([a, b])
    c = 0
    for _ in range(10):
        rng.shuffle(z)
        c += z[:len(a)].mean() - z[len(a):].mean() >= d
    return c / 10


@s(tab)
def gmm_step(X):
    mu = X[:2]
    var = np.ones(2)
    pi = np.array([0.5, 0.5])
    d2 = ((X[:, None] - mu) ** 2).sum(-1)
    lp = np.log(pi) - 0.5 * d2 / var - 2 * np.log(2 * np.pi * var)
    m = lp.max(1, keepdims=True)
    r_ = np.exp(lp - m)
    r_ /= r_.sum(1, keepdims=True)
    nk = r_.sum(0)
    return (r_.T @ X / nk[:, None], nk / len(X))


@s(tab)
def knn_predict(X):
    y = np.arange(len(X)) % 3
    d = np.sqrt(((X[:, None] - X[None]) ** 2).sum(2))
    np.fill_diagonal(d, np.inf)
    idx = np.argpartition(d, 3, axis=1)[:, :3]
    v = y[np.sort(idx, axis=1)]
    return np.array([np.bincount(row, minlength=3).argmax() for row in v[:5]])


@s(tab)
def lasso_cd(X):
    y = X @ np.array([1.0, 0, 2, 0])
    w = np.zeros(4)
    for _ in range(3):
        for j in range(4):
            r_ = y - X @ w + X[:, j] * w[j]
            rho = X[:, j] @ r_
            w[j] = np.sign(rho) * max(abs(rho) - 0.1, 0) / (X[:, j] @ X[:, j])
    return w


@s(tab)
def qr_solve(A):
    q, r_ = np.linalg.qr(A)
    b = A.sum(1)
    y = q.T @ b
    x = np.zeros(4)
    for i in range(3, -1, -1):
        x[i] = (y[i] - r_[i, i + 1:] @ x[i + 1:]) / r_[i, i]
    return x


@s(tab)
def newton_raphson(A):
    f = lambda v: np.array([v[0] ** 2 + v[1] ** 2 - 4, v[0] * v[1] - 1])
    J = lambda v: np.array([[2 * v[0], 2 * v[1]], [v[1], v[0]]])
    v = np.array([2.0, 0.5])
    for _ in range(5):
        v = v - np.linalg.solve(J(v), f(v))
    return (v, A.sum())


@s(lambda r, n: (np.linspace(0, 1, n),))
def simpson(x):
    y = np.exp(-x ** 2)
    n = (len(x) - 1) // 2 * 2
    h = (x[n] - x[0]) / n
    return h / 3 * (y[0] + y[n] + 4 * y[1:n:2].sum() + 2 * y[2:n:2].sum())


@s(lambda r, n: (n,))
def pascal(n):
    p = np.zeros((8, 8), dtype=np.int64)
    p[:, 0] = 1
    for i in range(1, 8):
        p[i, 1:] = p[i - 1, 1:] + p[i - 1, :-1]
    return p * n


@s(lambda r, n: (n,))
def hilbert_m(n):
    i = np.arange(1, n + 1)
    return 1 / (i[:, None] + i - 1)


@s(lambda r, n: (n, 3))
def ising(n, seed):
    rng = np.random.default_rng(seed)
    s_ = rng.choice([-1, 1], size=(n, n))
    mask = np.indices(s_.shape).sum(0) % 2 == 0
    for par in (True, False):
        nb = np.roll(s_, 1, 0) + np.roll(s_, -1, 0) + np.roll(s_, 1, 1) + np.roll(s_, -1, 1)
        dE = 2 * s_ * nb
        flip = (rng.random(s_.shape) < np.exp(-dE * 0.4)) & (mask == par)
        s_ = np.where(flip, -s_, s_)
    return s_.mean()


@s(lambda r, n: (n, 3))
def sir(n, seed):
    S_, I, R_ = (990.0, 10.0, 0.0)
    hist = np.zeros((10, 3))
    for t in range(10):
        new = 0.3 * S_ * I / 1000
        rec = 0.1 * I
        S_ -= new
        I += new - rec
        R_ += rec
        hist[t] = [S_, I, R_]
    return hist


@s(lambda r, n: (n, 3))
def montecarlo_option(n, seed):
    np.random.seed(seed)
    z = np.random.standard_normal((n, 10))
    path = 100 * np.exp(np.cumsum((0.05 - 0.02) / 10 + 0.2 * np.sqrt(0.1) * z, axis=1))
    pay = np.maximum(path.mean(axis=1) - 100, 0)
    return (np.exp(-0.05) * pay.mean(), pay.std(ddof=1) / np.sqrt(n))


@s(lambda r, n: (n, 0.4))
def burgers(n, nu):
    x = np.linspace(0, 2 * np.pi, n)
    u = np.sin(x)
    dx = x[1] - x[0]
    dt = 0.01
    for _ in range(8):
        un = u.copy()
        u[1:-1] = un[1:-1] - un[1:-1] * dt / dx * (un[1:-1] - un[:-2]) + nu * dt / dx ** 2 * (un[2:] - 2 * un[1:-1] + un[:-2])
        u[0] = u[-1] = 0
    return u


@s(lambda r, n: (r.integers(0, 5, n),))
def entropy(x):
    _, c = np.unique(x, return_counts=True)
    p = c / c.sum()
    return -(p * np.log2(p)).sum()


@s(lambda r, n: (r.normal(size=(n, 3)),))
def summary(x):
    return {"mean": x.mean(0), "std": x.std(0), "q": np.quantile(x, [0.25, 0.5, 0.75], axis=0), "n": len(x), "mx": float(x.max())}


@s(lambda r, n: (r.normal(size=(n, 2)), np.array([0.1, 0.2])))
def point_in_poly(poly, pt):
    x, y = pt
    x1, y1 = poly.T
    x2, y2 = np.roll(poly, -1, 0).T
    cond = (y1 > y) != (y2 > y)
    with np.errstate(divide="ignore", invalid="ignore"):
        xi = (x2 - x1) * (y - y1) / (y2 - y1) + x1
    return np.count_nonzero(cond & (x < xi)) % 2 == 1


@s(lambda r, n: (r.integers(0, 2, (n, n)),))
def adjacency(A):
    A = np.triu(A, 1)
    A = A + A.T
    deg = A.sum(1)
    L = np.diag(deg) - A
    w = np.linalg.eigvalsh(L)
    return ((w < 1e-09).sum(), np.trace(np.linalg.matrix_power(A, 3)) // 6)


@s(lambda r, n: (r.uniform(1, 10, (n, n)),))
def floyd(D):
    for k in range(10):
        D = np.minimum(D, D[:, k, None] + D[k])
    return D


@s(lambda r, n: (r.normal(size=n),))
def rolling_z(x):
    w = np.lib.stride_tricks.sliding_window_view(x, 5)
    return (x[4:] - w.mean(-1)) / w.std(-1)


@s(lambda r, n: (r.uniform(1, 2, n),))
def rsi(p):
    d = np.diff(p)
    up = np.where(d > 0, d, 0)
    dn = np.where(d < 0, -d, 0)
    k = np.ones(5) / 5
    rs = np.convolve(up, k, "valid") / (np.convolve(dn, k, "valid") + 1e-12)
    return 100 - 100 / (1 + rs)


@s(lambda r, n: (r.normal(size=(n, 4)),))
def min_var(X):
    C = np.cov(X, rowvar=False)
    o = np.ones(len(C))
    w = np.linalg.solve(C, o)
    w /= w.sum()
    return (w, np.sqrt(w @ C @ w))


@s(lambda r, n: (r.normal(size=n),))
def sorted_pairs(x):
    order = np.lexsort((x, np.round(x)))
    return (x[order], np.argsort(order))


@s(lambda r, n: (r.integers(1, 7, (n, 2)),))
def dice(x):
    t = x.sum(1)
    return {int(k): int((t == k).sum()) for k in range(2, 13)}


@s(lambda r, n: (n,))
def primes(n):
    return ([p for p in range(2, n) if all((p % d for d in range(2, int(p ** 0.5) + 1)))], np.arange(n))


@s(lambda r, n: (r.normal(size=(3, 3)),))
def det_rec(a):
    def det(m):
        if m.shape[0] == 1:
            return m[0, 0]
        return sum(((-1) ** j * m[0, j] * det(np.delete(np.delete(m, 0, 0), j, 1)) for j in range(m.shape[1])))
    return det(a)


@s(vec)
def print_err(x):
    for i in range(3):
        x = x / 2
        if np.max(np.abs(x)) < 1e-09:
            raise ValueError("small")
    return x


@s(vec)
def asserts(x):
    assert x.ndim == 1 and np.all(np.isfinite(x)), "bad"
    assert len(x) > 0
    return x.cumsum()


@s(vec)
def try_solve(x):
    A = np.outer(x, x) + np.eye(len(x))
    try:
        L = np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return None
    return L.sum()


@s(tab)
def with_err(X):
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.true_divide(X, X.sum(1, keepdims=True))
        r[~np.isfinite(r)] = 0
    return r


@s(tab)
def dictops(X):
    d = {"a": X[:, 0], "b": X[:, 1]}
    d["c"] = d["a"] + d["b"]
    return {k: v.mean() for k, v in d.items()}


@s(tab)
def lists(X):
    out = []
    for j in range(X.shape[1]):
        c = X[:, j]
        out.append((c.min(), c.max(), np.median(c)))
    return np.array(out)


@s(tab)
def col_apply(X):
    return np.array([f(X, axis=0) for f in (np.mean, np.std, np.min, np.max, np.median, np.ptp)])


@s(tab)
def rows(X):
    return np.array([np.linalg.norm(r) for r in X[:10]])


@s(vec)
def iterate_list(x):
    l = x.tolist()
    s_ = 0
    for v in l[:5]:
        s_ += v * v
    return s_


@s(lambda r, n: (r.normal(size=n), r.normal(size=n)))
def regress(x, y):
    A = np.vstack([x, np.ones_like(x)]).T
    m, c = np.linalg.lstsq(A, y, rcond=None)[0]
    res = y - (m * x + c)
    ss = np.sum(res ** 2)
    r2 = 1 - ss / np.sum((y - y.mean()) ** 2)
    return (m, c, r2)


@s(pts)
def farthest(p):
    d = np.linalg.norm(p[:, None] - p, axis=-1)
    i, j = np.unravel_index(d.argmax(), d.shape)
    return (i, j, d[i, j])


@s(pts)
def fps(p):
    sel = [0]
    d = np.full(len(p), np.inf)
    for _ in range(4):
        d = np.minimum(d, ((p - p[sel[-1]]) ** 2).sum(1))
        sel.append(int(d.argmax()))
    return np.array(sel)
