"""Loops over numbers and elements, beside plain Python and Numba; and whether values and types are CPython's.

    python bench/loops.py [--only NAME] [--repeat N]

Each program is run in this process: as it is, through dynoc.optimize in its default mode (the compiler works in the
background), and through numba.njit where Numba can be imported. Prints a table, and the geometric means. "first" is the first
call's time over plain Python's; "later" how many times faster than plain Python later calls are.
"""

import argparse
import math
import time

import numpy as np

import dynoc

try:
    import numba
except ImportError:
    numba = None

PROGRAMS = []


def collect(programs):
    """A decorator's maker that adds a function to the list; its arguments are made anew by `make` for each call."""

    def program(make):
        def add(function):
            programs.append((function, make))
            return function

        return add

    return program


program = collect(PROGRAMS)


def numbers(*shape):
    return np.random.default_rng(7).random(shape)


@program(lambda: (numbers(150, 150),))
def sum_by_element(a):
    s = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            s += a[i, j]
    return s


@program(lambda: (numbers(34, 34) * 100,))
def floyd_warshall(d):
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return d


@program(lambda: (60_000,))
def congruential(n):
    x = 12345
    for _ in range(n):
        x = (1103515245 * x + 12345) % 2147483648
    return x


@program(lambda: (-2.0, 1.0, -1.2, 1.2, 40, 60))
def mandelbrot(x0, x1, y0, y1, n, most):
    inside = 0
    for i in range(n):
        for j in range(n):
            cr = x0 + (x1 - x0) * j / n
            ci = y0 + (y1 - y0) * i / n
            zr = zi = 0.0
            k = 0
            while k < most and zr * zr + zi * zi < 4.0:
                zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
                k += 1
            inside += k
    return inside


@program(lambda: (numbers(60), numbers(60)))
def edit_distance(a, b):
    n, m = len(a), len(b)
    d = np.zeros((n + 1, m + 1))
    for i in range(n + 1):
        d[i, 0] = i
    for j in range(m + 1):
        d[0, j] = j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = 0.0 if abs(a[i - 1] - b[j - 1]) < 0.1 else 1.0
            d[i, j] = min(d[i - 1, j] + 1.0, d[i, j - 1] + 1.0, d[i - 1, j - 1] + cost)
    return d[n, m]


@program(lambda: (numbers(48, 48), 4))
def heat(u, steps):
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    return u


@program(lambda: (20_000,))
def sieve(n):
    marks = np.ones(n + 1, dtype=np.bool_)
    count = 0
    for i in range(2, n + 1):
        if marks[i]:
            count += 1
            for j in range(i * i, n + 1, i):
                marks[j] = False
    return count


@program(lambda: (5_000,))
def collatz(n):
    longest = 0
    for i in range(1, n):
        x, steps = i, 0
        while x != 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = 3 * x + 1
            steps += 1
        if steps > longest:
            longest = steps
    return longest


@program(lambda: (numbers(20_000), 0.1))
def smooth(a, alpha):
    s = a[0]
    for i in range(len(a)):
        s = alpha * a[i] + (1.0 - alpha) * s
        a[i] = s
    return a


@program(lambda: (numbers(40, 40), numbers(40, 40)))
def product(a, b):
    c = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s
    return c


@program(lambda: (np.random.default_rng(3).integers(0, 50, 30_000),))
def histogram(a):
    counts = np.zeros(50, dtype=np.int64)
    for i in range(len(a)):
        counts[a[i]] += 1
    return counts


@program(lambda: (np.random.default_rng(3).permutation(400).astype(np.float64),))
def insertion_sort(a):
    for i in range(1, len(a)):
        x = a[i]
        j = i - 1
        while j >= 0 and a[j] > x:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = x
    return a


@program(lambda: (20_000, 7))
def monte_carlo_pi(n, seed):
    inside, x = 0, seed
    for _ in range(n):
        x = (1664525 * x + 1013904223) % 4294967296
        a = x / 4294967296.0
        x = (1664525 * x + 1013904223) % 4294967296
        b = x / 4294967296.0
        if a * a + b * b < 1.0:
            inside += 1
    return 4.0 * inside / n


@program(lambda: (2_000, 0.01))
def lorenz(n, dt):
    x, y, z = 1.0, 1.0, 1.0
    for _ in range(n):
        dx = 10.0 * (y - x)
        dy = x * (28.0 - z) - y
        dz = x * y - 8.0 / 3.0 * z
        x, y, z = x + dt * dx, y + dt * dy, z + dt * dz
    return x, y, z


@program(lambda: (numbers(60, 3), 1))
def n_body_energy(p, unused):
    e = 0.0
    for i in range(p.shape[0]):
        for j in range(i + 1, p.shape[0]):
            dx = p[i, 0] - p[j, 0]
            dy = p[i, 1] - p[j, 1]
            dz = p[i, 2] - p[j, 2]
            e -= 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz)
    return e


@program(lambda: (30_000,))
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, (a + b) % 1000007
    return a


@program(lambda: (numbers(10_000),))
def largest(a):
    best, at = a[0], 0
    for i in range(len(a)):
        if a[i] > best:
            best, at = a[i], i
    return best, at


@program(lambda: (np.sort(numbers(4096)), numbers(2000)))
def searches(a, wanted):
    total = 0
    for k in range(len(wanted)):
        low, high = 0, len(a)
        while low < high:
            middle = (low + high) // 2
            if a[middle] < wanted[k]:
                low = middle + 1
            else:
                high = middle
        total += low
    return total


@program(lambda: (100, 1_000))
def knapsack(n, room):
    best = np.zeros(room + 1, dtype=np.int64)
    for i in range(n):
        weight = 3 + i * 7 % 40
        value = 10 + i * 13 % 90
        for w in range(room, weight - 1, -1):
            if best[w - weight] + value > best[w]:
                best[w] = best[w - weight] + value
    return best[room]


@program(lambda: (numbers(5_000), 16))
def moving_mean(a, width):
    out = np.zeros(len(a) - width + 1)
    for i in range(len(out)):
        s = 0.0
        for j in range(width):
            s += a[i + j]
        out[i] = s / width
    return out


@program(lambda: (numbers(80, 80) + 80 * np.eye(80), numbers(80)))
def forward_substitution(a, b):
    x = np.zeros(len(b))
    for i in range(len(b)):
        s = b[i]
        for j in range(i):
            s -= a[i, j] * x[j]
        x[i] = s / a[i, i]
    return x


@program(lambda: (np.random.default_rng(5).random((40, 40)) < 0.3, 3))
def life(grid, steps):
    n, m = grid.shape
    cells = grid.astype(np.int64)
    for _ in range(steps):
        new = np.zeros((n, m), dtype=np.int64)
        for i in range(n):
            for j in range(m):
                around = 0
                for di in range(-1, 2):
                    for dj in range(-1, 2):
                        if di != 0 or dj != 0:
                            around += cells[(i + di) % n, (j + dj) % m]
                if around == 3 or (around == 2 and cells[i, j] == 1):
                    new[i, j] = 1
        cells = new
    return cells


@program(lambda: (40_000,))
def harmonic(n):
    s = 0.0
    for i in range(1, n + 1):
        s += 1.0 / i
    return s


@program(lambda: (1_000_003, 30_000))
def trial_division(n, most):
    count = 0
    d = 2
    while d < most:
        if n % d == 0:
            count += 1
        d += 1
    return count


@program(lambda: (numbers(3_000), numbers(3_000)))
def trapezoid(x, y):
    s = 0.0
    for i in range(len(x) - 1):
        s += (x[i + 1] - x[i]) * (y[i + 1] + y[i]) * 0.5
    return s


@program(lambda: (numbers(10_000).astype(np.float32),))
def sum_of_singles(a):
    s = np.float32(0.0)
    for i in range(len(a)):
        s += a[i]
    return s


@program(lambda: (2_000,))
def newton(n):
    total = 0.0
    for i in range(1, n):
        x = float(i)
        for _ in range(20):
            better = 0.5 * (x + i / x)
            if abs(better - x) < 1e-12:
                break
            x = better
        total += x
    return total


@program(lambda: (np.random.default_rng(1).integers(0, 256, 4_000).astype(np.uint8),))
def checksum(data):
    a, b = 1, 0
    for i in range(len(data)):
        a = (a + int(data[i])) % 65521
        b = (b + a) % 65521
    return b * 65536 + a


@program(lambda: (300,))
def triangles(n):
    count = 0
    for a in range(1, n):
        for b in range(a, n):
            c2 = a * a + b * b
            c = int(math.sqrt(c2))
            if c < n and c * c == c2:
                count += 1
    return count


@program(lambda: (numbers(50, 50), 200))
def power_iteration(a, steps):
    n = a.shape[0]
    v = np.ones(n)
    w = np.zeros(n)
    norm = 0.0
    for _ in range(steps // 20):
        norm = 0.0
        for i in range(n):
            s = 0.0
            for j in range(n):
                s += a[i, j] * v[j]
            w[i] = s
            norm += s * s
        norm = math.sqrt(norm)
        for i in range(n):
            v[i] = w[i] / norm
    return norm


def same(a, b):
    """Are the values the same, with their types and bits?"""
    if isinstance(a, (tuple, list)):
        return type(b) is type(a) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return type(a) is type(b) and repr(a) == repr(b)


def timed(function, args):
    began = time.perf_counter()
    result = function(*args)
    return time.perf_counter() - began, result


def best(function, make, repeat):
    return min(timed(function, make())[0] for _ in range(repeat))


def measure(function, make, repeat):
    """(plain, first, later, numba: seconds or NaN, right)."""
    plain, wanted = timed(function, make())
    fast = dynoc.optimize(function)
    first, got = timed(fast, make())
    right = same(wanted, got)
    for _ in range(3):  # a short loop asks for the compiler when it has run for a while
        dynoc.wait()
        right &= same(wanted, fast(*make()))
    plain = min(plain, best(function, make, repeat))
    later = best(fast, make, 3 * repeat)
    peer = math.nan
    if numba is not None:
        compiled = numba.njit(function)
        try:
            compiled(*make())
            peer = best(compiled, make, 3 * repeat)
        except (numba.core.errors.NumbaError, TypeError, NotImplementedError, AttributeError):  # it isn't in its language
            pass
    return plain, first, later, peer, right, fast.loops


def mean(values):
    values = [v for v in values if not math.isnan(v)]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def main(programs, description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only")
    parser.add_argument("--why", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    rows = []
    print(f"{'program':22}{'plain, ms':>10}{'first':>8}{'later':>8}{'Numba':>8}{'to Numba':>10}  ")
    for function, make in programs:
        if options.only not in (None, function.__name__):
            continue
        plain, first, later, peer, right, loops = measure(function, make, options.repeat)
        rows.append((plain / later, plain / peer, peer / later, first / plain))
        native = sum(loop.startswith("native") for loop in loops)
        refused = [loop for loop in loops if not loop.startswith("native")]
        said = ("" if right else "WRONG ") + f"{native} of {len(loops)}"
        figures = f"{plain * 1e3:10.3f}{first / plain:8.2f}{plain / later:8.1f}{plain / peer:8.1f}{peer / later:10.2f}"
        print(f"{function.__name__:22}{figures}  {said}", flush=True)
        for loop in refused if options.why else ():
            print("    " + loop.replace("\n", "\n    "))
    print(f"geometric means: later {mean([r[0] for r in rows]):.2f}, Numba {mean([r[1] for r in rows]):.2f}, "
          f"to Numba {mean([r[2] for r in rows]):.2f}; first call {mean([r[3] for r in rows]):.2f}; "
          f"slowest {min(r[0] for r in rows):.2f}")


if __name__ == "__main__":
    main(PROGRAMS, __doc__)
