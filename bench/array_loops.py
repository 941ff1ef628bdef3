"""Python loops over small arrays: rows, slices, vectors and matrices that are computed in each trip, as plain Python and through
dynoc.

    python bench/array_loops.py [name ...]

Prints for each program the time of a call in CPython, how many times faster a later call is, how long the first one takes, and
how many of its loops are native. Values are compared bit by bit.
"""

import sys
import time

import dynoc
import numpy as np


def k_means(x, centers, labels):
    for i in range(len(x)):
        best = np.inf
        for k in range(len(centers)):
            d = x[i] - centers[k]
            far = (d * d).sum()
            if far < best:
                best = far
                labels[i] = k
    return labels


def jacobi(a, b, x, n):
    for _ in range(n):
        for i in range(len(b)):
            x[i] = (b[i] - a[i] @ x + a[i, i] * x[i]) / a[i, i]
    return x


def heat(u, r, n):
    for _ in range(n):
        u[1:-1] = u[1:-1] + r * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def orbit(x, v, dt, n):
    for _ in range(n):
        r2 = (x * x).sum()
        force = -x / (r2 * np.sqrt(r2))
        v = v + dt * force
        x = x + dt * v
    return x, v


def orthogonal(a):
    for j in range(a.shape[1]):
        for k in range(j):
            a[:, j] -= (a[:, k] @ a[:, j]) * a[:, k]
        a[:, j] /= np.sqrt((a[:, j] ** 2).sum())
    return a


def elimination(a):
    for k in range(len(a)):
        for i in range(k + 1, len(a)):
            f = a[i, k] / a[k, k]
            a[i, k:] -= f * a[k, k:]
    return a


def smoothed(x, alpha):
    s = x[0] * 1.0
    for row in x:
        s = alpha * row + (1 - alpha) * s
    return s


def perceptron(x, y, w, rounds):
    b = 0.0
    for _ in range(rounds):
        for i in range(len(x)):
            if y[i] * (w @ x[i] + b) <= 0:
                w += 0.1 * y[i] * x[i]
                b += 0.1 * y[i]
    return w, b


def moving_mean(x, k, out):
    for i in range(len(out)):
        out[i] = x[i : i + k].mean()
    return out


def n_body(x, m, acc):
    for i in range(len(x)):
        for j in range(len(x)):
            d = x[j] - x[i]
            r2 = (d**2).sum() + 1e-3
            acc[i] += m[j] * d / (r2 * np.sqrt(r2))
    return acc


def decay(x, k):
    return -k * x


def runge_kutta(x, k, h, n):
    for _ in range(n):
        k1 = decay(x, k)
        k2 = decay(x + 0.5 * h * k1, k)
        k3 = decay(x + 0.5 * h * k2, k)
        k4 = decay(x + h * k3, k)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x


def logistic(x, y, w, rounds):
    for _ in range(rounds):
        for i in range(len(x)):
            p = 1.0 / (1.0 + np.exp(-(w @ x[i])))
            w -= 0.1 * (p - y[i]) * x[i]
    return w


def pooled(image, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = image[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max()
    return out


def clipped_walk(x, steps, low, high):
    for i in range(len(steps)):
        x = np.minimum(np.maximum(x + steps[i], low), high)
    return x


def kalman(f, q, h, r, p, x, zs):
    for z in zs:
        x = f @ x
        p = f @ p @ f.T + q
        s = h @ p @ h.T + r
        det = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
        inverse = np.array([[s[1, 1], -s[0, 1]], [-s[1, 0], s[0, 0]]]) / det
        k = p @ h.T @ inverse
        x = x + k @ (z - h @ x)
        p = (np.eye(4) - k @ h) @ p
    return x, p


def rotation(w, inertia, r, dt, n):
    for _ in range(n):
        m = inertia @ w
        c = np.array([w[1] * m[2] - w[2] * m[1], w[2] * m[0] - w[0] * m[2], w[0] * m[1] - w[1] * m[0]])
        w = w - dt * c
        r = r @ (np.eye(3) + dt * np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]]))
    return w, r


def lorenz(s):
    return np.array([10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]])


def attractor(s, h, n):
    for _ in range(n):
        k1 = lorenz(s)
        k2 = lorenz(s + h / 2 * k1)
        k3 = lorenz(s + h / 2 * k2)
        s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + lorenz(s + h * k3))
    return s


def power_iteration(a, x, n):
    for _ in range(n):
        y = a @ x
        x = y / np.linalg.norm(y)
    return x, x @ a @ x


def life(g, n):
    for _ in range(n):
        c = np.zeros_like(g)
        sides = g[:-2, 1:-1] + g[2:, 1:-1] + g[1:-1, :-2] + g[1:-1, 2:]
        c[1:-1, 1:-1] = sides + g[:-2, :-2] + g[:-2, 2:] + g[2:, :-2] + g[2:, 2:]
        g = np.where((c == 3) | ((g == 1) & (c == 2)), 1, 0)
    return g


def centers(x, c, n):
    for _ in range(n):
        label = ((x[:, None] - c[None]) ** 2).sum(axis=2).argmin(axis=1)
        for k in range(len(c)):
            mine = label == k
            if mine.any():
                c[k, 0] = x[:, 0][mine].mean()
                c[k, 1] = x[:, 1][mine].mean()
    return c, label


def descent(x, y, w, rate, n):
    for _ in range(n):
        w = w - rate * (x.T @ (x @ w - y) / len(y))
    return w


def bouncing(x, v, n):
    for _ in range(n):
        v = v - 0.01 * x
        x = x + 0.01 * v
        out = np.abs(x) > 1
        v[out] *= -0.9
        x[out] = 0.99
    return x, v


def relaxation(u, fixed, n):
    for _ in range(n):
        new = u.copy()
        new[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        u = np.where(fixed, 1.0, new)
    return u


def markov(p, step, seen, emits):
    total = 0.0
    for o in seen:
        p = (p @ step) * emits[:, o]
        s = p.sum()
        total += s
        p = p / s
    return p, total


def sinkhorn(k, n):
    u = np.ones(len(k))
    v = np.ones(len(k))
    for _ in range(n):
        u = 1.0 / (k @ v)
        v = 1.0 / (k.T @ u)
    return u[:, None] * k * v


def table_steps(index, table, n):
    total = 0.0
    for i in range(n):
        total += table[index].sum()
        table[index[i : i + 5]] += 0.5
    return total, table


def extremes(x, n):
    for _ in range(n):
        x[x.argmax()] -= 0.5
        x[np.argmin(x)] += 0.25
    return x


def programs():
    rng = np.random.default_rng(7)
    a = rng.random((40, 40)) + 40 * np.eye(40)
    return [
        (k_means, (rng.random((400, 3)), rng.random((8, 3)), np.zeros(400, np.int64))),
        (jacobi, (a, rng.random(40), np.zeros(40), 50)),
        (heat, (rng.random(200), 0.2, 1000)),
        (orbit, (np.array([1.0, 0, 0]), np.array([0, 1.0, 0]), 1e-3, 2000)),
        (orthogonal, (rng.random((60, 40)),)),
        (elimination, (a,)),
        (smoothed, (rng.random((2000, 16)), 0.1)),
        (perceptron, (rng.normal(size=(300, 8)), np.sign(rng.normal(size=300)), np.zeros(8), 5)),
        (moving_mean, (rng.random(2000), 20, np.zeros(1900))),
        (n_body, (rng.random((50, 3)), rng.random(50), np.zeros((50, 3)))),
        (runge_kutta, (rng.random(10), rng.random(10), 1e-3, 500)),
        (logistic, (rng.normal(size=(300, 8)), (rng.random(300) > 0.5) * 1.0, np.zeros(8), 5)),
        (pooled, (rng.random((64, 64)), np.zeros((32, 32)))),
        (clipped_walk, (np.zeros(8), rng.normal(size=(2000, 8)), -3.0, 3.0)),
        *programs_of_matrices(rng),
    ]


def programs_of_matrices(rng):
    e = np.eye(4)
    emits = np.array([[0.5, 0.5], [0.1, 0.9], [0.7, 0.3]])
    step = np.array([[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0, 0.2, 0.8]])
    return [
        (kalman, (e + np.eye(4, k=2) * 0.1, e * 0.01, np.eye(2, 4), np.eye(2) * 0.5, e, e[0] * 0, rng.normal(size=(200, 2)))),
        (rotation, (np.array([1.0, 0.2, 0.1]), np.diag([1.0, 2.0, 3.0]), np.eye(3), 1e-3, 300)),
        (attractor, (np.ones(3), 0.01, 300)),
        (power_iteration, (rng.normal(size=(12, 12)), np.ones(12), 200)),
        (life, ((rng.random((20, 20)) < 0.4).astype(int), 40)),
        (centers, (rng.normal(size=(120, 2)), rng.normal(size=(4, 2)), 30)),
        (descent, (rng.normal(size=(40, 5)), rng.normal(size=40), np.zeros(5), 0.01, 200)),
        (bouncing, (rng.normal(size=100), rng.normal(size=100), 200)),
        (relaxation, (np.zeros((16, 16)), rng.random((16, 16)) < 0.1, 100)),
        (markov, (np.array([0.2, 0.3, 0.5]), step, rng.integers(0, 2, 300), emits)),
        (sinkhorn, (rng.random((6, 6)), 150)),
        (table_steps, (rng.integers(0, 50, 200), rng.normal(size=50), 50)),
        (extremes, (rng.normal(size=30), 200)),
    ]


def copies(args):
    return [x.copy() if isinstance(x, np.ndarray) else x for x in args]


def timed(function, args):
    given = copies(args)
    began = time.perf_counter()
    result = function(*given)
    return time.perf_counter() - began, result


def bits(result):
    return [np.asarray(x).tobytes() for x in (result if isinstance(result, tuple) else (result,))]


def main(names):
    print(f"{'program':<16}{'plain, ms':>10}{'later':>8}{'first':>8}  native loops")
    ratios = []
    for function, args in programs():
        if names and function.__name__ not in names:
            continue
        plain, wanted = min((timed(function, args) for _ in range(5)), key=lambda t: t[0])
        fast = dynoc.optimize(function)
        first, got = timed(fast, args)
        same = bits(got) == bits(wanted)
        for _ in range(5):
            same = bits(timed(fast, args)[1]) == bits(wanted) and same
            dynoc.wait()
        later = min(timed(fast, args)[0] for _ in range(9))
        native = sum(loop.startswith("native") for loop in fast.loops)
        ratios.append(plain / later)
        print(
            f"{function.__name__:<16}{plain * 1e3:>10.3f}{plain / later:>8.2f}{first / plain:>8.2f}  "
            f"{native} of {len(fast.loops)}{'' if same else '  DIFFERS'}",
            flush=True,
        )
        if len(names) == 1:
            print(*fast.loops, sep="\n")
    print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
