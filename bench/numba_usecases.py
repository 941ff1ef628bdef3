"""Programs of the kinds that Numba's tests and documentation show, written anew as plain functions: numbers and arrays. Those
over containers, texts and objects are in numba_usecases_python.py.

    python bench/numba_usecases.py [--only NAME] [--repeat N] [--why]

The columns are those of loops.py. `tests/py/test_numba_usecases.py` runs the same programs.
"""

import cmath
import math

import loops
import numpy as np

PROGRAMS = []
program = loops.collect(PROGRAMS)


def rng(seed=5):
    return np.random.default_rng(seed)


@program(lambda: (3, 2000))
def sum_of_range(s, e):
    c = 0
    for i in range(s, e):
        c += i
    return c


@program(lambda: (0, 60))
def sum_of_products(s, e):
    c = 0
    for i in range(s, e):
        for j in range(s, e):
            c += i * j
    return c


@program(lambda: (2, 3000))
def counted_by_while(s, e):
    i, c = s, 0
    while i < e:
        c += i
        i += 1
    return c


@program(lambda: (300,))
def changes_its_type(n):
    x = 0
    for _ in range(n):
        x += 1
    x = 0.5 + x
    for _ in range(n):
        x += 1
    return x


@program(lambda: (rng().random((40, 30)), np.zeros((40, 30))))
def copied_by_element(a, b):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            b[i, j] = a[i, j]
    return b


def escape(x, y, most):
    c = complex(x, y)
    z = 0j
    for i in range(most):
        z = z * z + c
        if z.real * z.real + z.imag * z.imag >= 4:
            return i
    return 255


@program(lambda: (np.zeros((24, 36), dtype=np.uint8), 20))
def fractal(image, most):
    height, width = image.shape
    for x in range(width):
        real = -2.0 + x * (3.0 / width)
        for y in range(height):
            image[y, x] = escape(real, -1.0 + y * (2.0 / height), most)
    return image


@program(lambda: (np.zeros((16, 16)), 30))
def laplace_2d(a, sweeps):
    n, m = a.shape
    a[:, 0] = 1.0
    new = np.zeros_like(a)
    new[:, 0] = 1.0
    error = 1.0
    steps = 0
    while error > 1e-4 and steps < sweeps:
        error = 0.0
        for j in range(1, n - 1):
            for i in range(1, m - 1):
                new[j, i] = 0.25 * (a[j, i + 1] + a[j, i - 1] + a[j - 1, i] + a[j + 1, i])
                error = max(error, abs(new[j, i] - a[j, i]))
        for j in range(n):
            for i in range(m):
                a[j, i] = new[j, i]
        steps += 1
    return error, steps


@program(lambda: (rng().random(400), 7))
def moving_mean(a, width):
    out = np.empty_like(a)
    total = 0.0
    count = 0
    for i in range(width):
        total += a[i]
        count += 1
        out[i] = total / count
    for i in range(width, len(a)):
        total += a[i] - a[i - width]
        out[i] = total / count
    return out


@program(lambda: (rng().integers(0, 1000, 70),))
def bubble_sort(x):
    n = x.shape[0]
    for end in range(n, 1, -1):
        for i in range(end - 1):
            if x[i] > x[i + 1]:
                x[i], x[i + 1] = x[i + 1], x[i]
    return x


def normal_below(d):
    k = 1.0 / (1.0 + 0.2316419 * math.fabs(d))
    p = 0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429)))
    p = 0.3989422804014327 * math.exp(-0.5 * d * d) * (k * p)
    if d > 0:
        p = 1.0 - p
    return p


@program(lambda: (rng().random(150) * 25 + 5, rng(6).random(150) * 99 + 1, rng(7).random(150) * 9 + 0.25))
def black_scholes(price, strike, years):
    rate, volatility = 0.02, 0.3
    calls = np.zeros_like(price)
    puts = np.zeros_like(price)
    for i in range(len(price)):
        root = math.sqrt(years[i])
        d1 = (math.log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / (volatility * root)
        d2 = d1 - volatility * root
        discount = math.exp(-rate * years[i])
        calls[i] = price[i] * normal_below(d1) - strike[i] * discount * normal_below(d2)
        puts[i] = strike[i] * discount * normal_below(-d2) - price[i] * normal_below(-d1)
    return calls, puts


@program(lambda: (rng().random((12, 3)), np.zeros((12, 3)), rng(2).random(12), 3))
def bodies(position, velocity, mass, steps):
    n = len(mass)
    for _ in range(steps):
        for i in range(n):
            fx = fy = fz = 0.0
            for j in range(n):
                if i != j:
                    dx = position[j, 0] - position[i, 0]
                    dy = position[j, 1] - position[i, 1]
                    dz = position[j, 2] - position[i, 2]
                    r2 = dx * dx + dy * dy + dz * dz + 0.01
                    w = mass[j] / (r2 * math.sqrt(r2))
                    fx += w * dx
                    fy += w * dy
                    fz += w * dz
            velocity[i, 0] += 0.01 * fx
            velocity[i, 1] += 0.01 * fy
            velocity[i, 2] += 0.01 * fz
        for i in range(n):
            for k in range(3):
                position[i, k] += 0.01 * velocity[i, k]
    return position


@program(lambda: ((rng().random((24, 24)) < 0.4).astype(np.uint8), 3))
def game_of_life(board, steps):
    n, m = board.shape
    for _ in range(steps):
        new = np.zeros_like(board)
        for i in range(n):
            for j in range(m):
                alive = 0
                for di in range(-1, 2):
                    for dj in range(-1, 2):
                        if di or dj:
                            alive += int(board[(i + di) % n, (j + dj) % m])
                if alive == 3 or (alive == 2 and board[i, j]):
                    new[i, j] = 1
        board = new
    return board


@program(lambda: (rng().random((120, 2)), 4, 5))
def k_means(points, k, steps):
    centres = points[:k].copy()
    owner = np.zeros(len(points), dtype=np.int64)
    for _ in range(steps):
        for i in range(len(points)):
            least = np.inf
            for c in range(k):
                d = np.sqrt(np.sum((points[i] - centres[c]) ** 2))
                if d < least:
                    least = d
                    owner[i] = c
        for c in range(k):
            centres[c] = points[owner == c].mean(axis=0)
    return centres, owner


@program(lambda: (4000, 8))
def monte_carlo_pi(n, seed):
    np.random.seed(seed)
    inside = 0
    for _ in range(n):
        x = np.random.random()
        y = np.random.random()
        if x**2 + y**2 < 1.0:
            inside += 1
    return 4.0 * inside / n


@program(lambda: (rng().normal(size=800), 16, -3.0, 3.0))
def histogram(values, bins, low, high):
    counts = np.zeros(bins, dtype=np.int32)
    width = (high - low) / bins
    for v in values:
        if low <= v < high:
            counts[int((v - low) / width)] += 1
    return counts


@program(lambda: (rng().random((20, 20)), np.ones((3, 3)) / 9))
def smoothed(image, kernel):
    out = np.zeros_like(image)
    n, m = image.shape
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            s = 0.0
            for di in range(3):
                for dj in range(3):
                    s += image[i + di - 1, j + dj - 1] * kernel[di, dj]
            out[i, j] = s
    return out


@program(lambda: (rng().random(600), rng(2).random(600)))
def masked_elements(a, b):
    out = np.empty(len(a))
    mask = a > b
    for i in range(len(a)):
        out[i] = a[i] - b[i] if mask[i] else 0.0
    return out, mask.sum()


@program(lambda: (rng().random((60, 40)), 0.5))
def rows_over_a_threshold(a, t):
    out = np.zeros(len(a))
    for i in range(len(a)):
        row = a[i]
        chosen = row[row > t]
        out[i] = chosen.sum() + len(chosen)
        row[row < 0.1] = 0.0
    return out


@program(lambda: (rng().random((50, 30)), rng().integers(0, 30, (50, 6))))
def fancy_rows(a, where):
    s = 0.0
    for i in range(len(a)):
        picked = a[i][where[i]]
        s += picked.max() - picked.min()
    return s


@program(lambda: (1500, 88172645463325252))
def xorshift(n, seed):
    x = np.uint64(seed)
    for _ in range(n):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
    return x


@program(lambda: (np.frombuffer(b"the quick brown fox jumps over the lazy dog" * 20, dtype=np.uint8),))
def fnv_hash(data):
    h = np.uint64(14695981039346656037)
    prime = np.uint64(1099511628211)
    with np.errstate(over="ignore"):
        for byte in data:
            h = (h ^ np.uint64(byte)) * prime
    return h


@program(lambda: (rng().integers(0, 2**63, 700).astype(np.uint64), np.zeros(700, dtype=np.uint8)))
def bits_set(words, counts):
    one = np.uint64(1)
    for i in range(len(words)):
        w = words[i]
        n = 0
        while w:
            w &= w - one
            n += 1
        counts[i] = n
    return counts


@program(lambda: (rng().integers(0, 2**32, 600, dtype=np.uint32),))
def mixed_words(a):
    out = np.empty_like(a)
    for i in range(len(a)):
        x = int(a[i])
        x = ((x >> 16) ^ x) * 0x45D9F3B & 0xFFFFFFFF
        x = ((x >> 16) ^ x) * 0x45D9F3B & 0xFFFFFFFF
        out[i] = (x >> 16) ^ x
    return out


@program(lambda: (rng().integers(0, 2**16, 500, dtype=np.uint16), rng().integers(0, 255, 500, dtype=np.uint8)))
def packed_bytes(a, b):
    out = np.zeros(len(a), dtype=np.uint32)
    for i in range(len(a)):
        out[i] = (np.uint32(a[i]) << np.uint32(8)) | np.uint32(b[i])
    return out


@program(lambda: (rng().integers(-100, 100, 500).astype(np.int8), rng().integers(0, 3, 500).astype(np.int16)))
def small_ints(a, b):
    s = 0
    most = a[0]
    for i in range(len(a)):
        s += int(a[i]) * int(b[i])
        if a[i] > most:
            most = a[i]
    return s, most


@program(lambda: ((rng().random(300) + 1j * rng(2).random(300)).astype(np.complex64), np.zeros(300, dtype=np.float32)))
def singles_of_complex(z, out):
    s = np.complex64(0)
    for i in range(len(z)):
        w = z[i] * z[i].conjugate()
        out[i] = w.real
        s += z[i]
    return s, out


@program(lambda: (rng().random(300).astype(np.float32), np.float32(0.9)))
def decay_in_single(x, keep):
    state = np.float32(0)
    for i in range(len(x)):
        state = state * keep + x[i] * (np.float32(1) - keep)
        x[i] = state
    return x, state


@program(lambda: ([complex(k % 7 - 3, k % 5 - 2.5) for k in range(300)],))
def cmath_functions(numbers):
    s = 0j
    phases = 0.0
    for z in numbers:
        s += cmath.exp(-abs(z)) * cmath.sqrt(z) + cmath.sin(z) / (cmath.cosh(z.real) + 2)
        phases += cmath.phase(z)
        r, angle = cmath.polar(z)
        s += cmath.rect(r, -angle)
    return s, phases


@program(lambda: (500,))
def math_functions(n):
    s = 0.0
    for i in range(1, n):
        x = i * 0.01
        s += math.sin(x) * math.cos(x) + math.atan2(x, 2.0) + math.log1p(x) - math.expm1(-x) + math.hypot(x, 1.0)
        s += math.floor(x) + math.ceil(x) + math.trunc(-x) + math.copysign(1.0, -x) + math.degrees(math.radians(x))
        m, e = math.frexp(x)
        s += math.ldexp(m, e) + math.fmod(x, 0.3) + math.erf(x) + math.lgamma(x)
        if math.isnan(s) or math.isinf(s):
            break
    return s


@program(lambda: (rng().random((8, 8)) + 8 * np.eye(8), rng().random(8), 20))
def power_iteration(a, v, steps):
    value = 0.0
    for _ in range(steps):
        w = np.dot(a, v)
        value = np.linalg.norm(w)
        v = w / value
    return value, v


@program(lambda: (rng().random((30, 3, 3)) + 3 * np.eye(3), rng().random((30, 3))))
def small_systems(matrices, sides):
    out = np.zeros(sides.shape)
    for i in range(len(matrices)):
        out[i] = np.linalg.solve(matrices[i], sides[i])
    return out


@program(lambda: (rng().random((30, 3, 3)) + 3 * np.eye(3),))
def inverses_and_determinants(matrices):
    s = 0.0
    for i in range(len(matrices)):
        s += np.linalg.det(matrices[i]) * np.trace(np.linalg.inv(matrices[i]))
    return s


@program(lambda: (rng().random((60, 5)), rng(2).random((60, 5))))
def distances_by_norm(a, b):
    out = np.empty((len(a), 4))
    for i in range(len(a)):
        for j in range(4):
            out[i, j] = np.linalg.norm(a[i] - b[j])
    return out


@program(lambda: (200, 3))
def drawn_numbers(n, seed):
    np.random.seed(seed)
    s = 0.0
    counts = np.zeros(6, dtype=np.int64)
    for _ in range(n):
        s += np.random.normal(1.0, 2.0) + np.random.uniform(-1.0, 1.0) + np.random.exponential(0.5)
        counts[np.random.randint(0, 6)] += 1
    return s, counts


@program(lambda: (np.random.default_rng(4), 300))
def from_a_generator(generator, n):
    x, path = 0.0, np.empty(n)
    for i in range(n):
        x += generator.normal() if generator.random() < 0.5 else generator.uniform(-1, 1)
        path[i] = x
    return path


@program(lambda: (rng().random((40, 25)),))
def rows_where(a):
    s = 0.0
    for i in range(a.shape[0]):
        s += np.where(a[i] > 0.5, a[i], -a[i]).sum()
    return s


@program(lambda: (rng().random((30, 20)), np.linspace(0, 1, 15)))
def sorted_rows(a, edges):
    ranks = np.zeros(len(edges) + 1, dtype=np.int64)
    s = 0
    for i in range(len(a)):
        row = np.sort(a[i])
        order = np.argsort(a[i])
        s += int(order[0]) * 3 + int(order[-1])
        ranks[np.searchsorted(edges, row[len(row) // 2])] += 1
    return s, ranks


@program(lambda: (rng().random((10, 8, 6)),))
def reductions_along_axes(a):
    out = np.zeros((len(a), 8))
    most = 0.0
    for i in range(len(a)):
        out[i] = a[i].sum(axis=1) / a[i].max(axis=1)
        most = max(most, a[i].mean(axis=0).max())
    return out, most


@program(lambda: (rng().random((16, 16)), 4))
def blocks_of_views(a, b):
    n = len(a) // b
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            block = a[i * b : (i + 1) * b, j * b : (j + 1) * b]
            out[i, j] = block.sum() - block[::2, 1].mean()
            block[0, 0] = out[i, j]
    return out


@program(lambda: (np.arange("2026-01-01", "2026-07-01", dtype="datetime64[D]"), np.datetime64("2026-03-01")))
def days_before(days, limit):
    n = 0
    for i in range(len(days)):
        if days[i] < limit:
            n += 1
    return n


@program(lambda: (rng().random(300), 0.99))
def first_above(a, limit):
    for i in range(len(a)):
        if a[i] > limit:
            return i
    return -1


@program(lambda: (rng().random((9, 10)), rng(2).random((10, 11))))
def product_of_matrices(a, b):
    c = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


@program(lambda: (rng().random(1000),))
def sum_in_parts(a):
    parts = np.zeros(4)
    step = len(a) // 4
    for p in range(4):
        s = 0.0
        for i in range(p * step, (p + 1) * step):
            s += math.sqrt(a[i])
        parts[p] = s
    return parts.sum()


@program(lambda: (rng().random(50), rng(2).random((50, 4)), rng(3).random(4), 20))
def logistic_steps(y, x, w, steps):
    for _ in range(steps):
        w = w - 0.1 * np.dot((1.0 / (1.0 + np.exp(-y * np.dot(x, w))) - 1.0) * y, x)
    return w


@program(lambda: (np.arange(12) % 5, 30))
def primes_and_gcd(a, n):
    found = 0
    for i in range(2, n * 4):
        prime = True
        for d in range(2, int(math.sqrt(i)) + 1):
            if i % d == 0:
                prime = False
                break
        if prime:
            found += math.gcd(i * 6, int(a[i % 12]) + 4)
    else:
        found += 1
    return found


@program(lambda: (30, np.zeros(31)))
def pascal_by_index(n, row):
    row[0] = 1
    for i in range(n):
        for j in range(i, 0, -1):
            row[j] += row[j - 1]
    return row


@program(lambda: (rng().integers(0, 3, (14, 14)),))
def flood_labels(grid):
    labels = np.zeros(grid.shape, dtype=np.int64)
    n, m = grid.shape
    count = 0
    for i in range(n):
        for j in range(m):
            if labels[i, j] or grid[i, j] == 0:
                continue
            count += 1
            stack = [(i, j)]
            while stack:
                r, c = stack.pop()
                if r < 0 or c < 0 or r >= n or c >= m or labels[r, c] or grid[r, c] != grid[i, j]:
                    continue
                labels[r, c] = count
                stack.append((r + 1, c))
                stack.append((r - 1, c))
                stack.append((r, c + 1))
                stack.append((r, c - 1))
    return count, labels


@program(lambda: (rng().random(120), 0.5, 100))
def explicit_heat(u, k, steps):
    new = u.copy()
    for _ in range(steps):
        new[1:-1] = u[1:-1] + k * (u[2:] - 2 * u[1:-1] + u[:-2])
        u, new = new, u
    return u


if __name__ == "__main__":
    loops.main(PROGRAMS, __doc__)
