"""Python loops over small arrays: rows, slices and vectors that are computed in each trip, as plain Python and through dynoc.

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
