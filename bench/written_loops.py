"""Loop programs as someone writes them who doesn't know what a compiler likes: recurrences, dynamic programming, stencils, random
numbers, small matrices in time loops, text, graphs; beside plain Python and Numba, and whether values and types are CPython's.

    python bench/written_loops.py [--only NAME] [--repeat N] [--why]

The columns are those of loops.py. --why prints what the log says of loops that stay in CPython.
"""

import math
import random

import loops
import numpy as np

PROGRAMS = []
program = loops.collect(PROGRAMS)


def rng(seed=11):
    return np.random.default_rng(seed)


@program(lambda: (600, 12))
def walk(n, seed):
    """A random walk by random's own functions."""
    random.seed(seed)
    x = y = 0
    far = 0.0
    for _ in range(n):
        step = random.randint(0, 3)
        if step == 0:
            x += 1
        elif step == 1:
            x -= 1
        elif step == 2:
            y += 1
        else:
            y -= 1
        far = max(far, math.sqrt(x * x + y * y))
    return x, y, far


@program(lambda: (5000, 3))
def pi_by_numpy(n, seed):
    np.random.seed(seed)
    hits = 0
    for _ in range(n):
        x = np.random.rand()
        y = np.random.rand()
        if x * x + y * y <= 1:
            hits += 1
    return 4 * hits / n


@program(lambda: (3000, 5))
def ising(steps, seed):
    n = 16
    rnd = random.Random(seed)
    spins = np.ones((n, n), dtype=np.int64)
    for _ in range(steps):
        i = int(rnd.random() * n)
        j = int(rnd.random() * n)
        s = spins[i, j]
        around = spins[(i + 1) % n, j] + spins[i - 1, j] + spins[i, (j + 1) % n] + spins[i, j - 1]
        cost = 2 * s * around
        if cost <= 0 or rnd.random() < math.exp(-cost / 2.2):
            spins[i, j] = -s
    return spins


@program(lambda: (rng().normal(size=300),))
def kalman(measured):
    """A filter with 2 x 2 matrices."""
    x = np.array([0.0, 0.0])
    p = np.eye(2)
    f = np.array([[1.0, 0.1], [0.0, 1.0]])
    h = np.array([1.0, 0.0])
    q = np.eye(2) * 1e-3
    out = np.zeros(len(measured))
    for t in range(len(measured)):
        x = f @ x
        p = f @ p @ f.T + q
        y = measured[t] - h @ x
        s = h @ p @ h + 0.1
        k = p @ h / s
        x = x + k * y
        p = p - np.outer(k, h @ p)
        out[t] = x[0]
    return out


@program(lambda: (np.array([1.0, 0.0, 0.5]), 300))
def runge_kutta(state, steps):
    def slope(s):
        return np.array([s[1], -s[0], 0.1 * s[2]])

    dt = 0.01
    for _ in range(steps):
        k1 = slope(state)
        k2 = slope(state + dt / 2 * k1)
        k3 = slope(state + dt / 2 * k2)
        k4 = slope(state + dt * k3)
        state = state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state


@program(lambda: (1.0, 0.0, 5000))
def pendulum(theta, omega, steps):
    dt = 0.001
    for _ in range(steps):
        k1t, k1o = omega, -math.sin(theta)
        k2t, k2o = omega + dt / 2 * k1o, -math.sin(theta + dt / 2 * k1t)
        k3t, k3o = omega + dt / 2 * k2o, -math.sin(theta + dt / 2 * k2t)
        k4t, k4o = omega + dt * k3o, -math.sin(theta + dt * k3t)
        theta += dt / 6 * (k1t + 2 * k2t + 2 * k3t + k4t)
        omega += dt / 6 * (k1o + 2 * k2o + 2 * k3o + k4o)
    return theta, omega


@program(lambda: (60, 40, 40))
def mandelbrot_complex(n, m, most):
    out = np.zeros((n, m), dtype=np.int32)
    for i in range(n):
        for j in range(m):
            c = complex(-2 + 3 * i / n, -1.2 + 2.4 * j / m)
            z = 0j
            for k in range(most):
                z = z * z + c
                if abs(z) > 2:
                    out[i, j] = k
                    break
    return out


@program(lambda: ([rng().random() + 1j * k for k in range(256)],))
def fft(x):
    """Radix two, in place on a list of complex."""
    n = len(x)
    x = list(x)
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j |= bit
        if i < j:
            x[i], x[j] = x[j], x[i]
    length = 2
    while length <= n:
        angle = -2 * math.pi / length
        turn = complex(math.cos(angle), math.sin(angle))
        for i in range(0, n, length):
            w = 1 + 0j
            for k in range(length // 2):
                u = x[i + k]
                v = x[i + k + length // 2] * w
                x[i + k] = u + v
                x[i + k + length // 2] = u - v
                w *= turn
        length *= 2
    return x


@program(lambda: (rng().random(256) + 0j,))
def dft(x):
    n = len(x)
    out = np.zeros(n, dtype=complex)
    for k in range(0, n, 8):
        s = 0j
        for t in range(n):
            s += x[t] * np.exp(-2j * np.pi * k * t / n)
        out[k] = s
    return out


@program(lambda: (rng().random(400), rng(1).random(400) + 4, rng(2).random(400), rng(3).random(400)))
def tridiagonal(a, b, c, d):
    n = len(d)
    cp = np.zeros(n)
    dp = np.zeros(n)
    x = np.zeros(n)
    cp[0] = c[0] / b[0]
    dp[0] = d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * cp[i - 1]
        cp[i] = c[i] / m
        dp[i] = (d[i] - a[i] * dp[i - 1]) / m
    x[-1] = dp[-1]
    for i in range(n - 2, -1, -1):
        x[i] = dp[i] - cp[i] * x[i + 1]
    return x


def sparse(n=200, each=6):
    g = rng(4)
    starts = np.arange(0, n * each + 1, each)
    return g.random(n * each), g.integers(0, n, n * each), starts, g.random(n)


@program(sparse)
def csr_product(data, indices, starts, x):
    y = np.zeros(len(starts) - 1)
    for i in range(len(y)):
        for j in range(starts[i], starts[i + 1]):
            y[i] += data[j] * x[indices[j]]
    return y


@program(sparse)
def csr_by_slices(data, indices, starts, x):
    y = np.empty(starts.size - 1)
    for row in range(starts.size - 1):
        columns = indices[starts[row]:starts[row + 1]]
        values = data[starts[row]:starts[row + 1]]
        y[row] = values @ x[columns]
    return y


@program(lambda: ([30, 35, 15, 5, 10, 20, 25, 12, 40, 8, 22, 17, 9, 33, 14, 28],))
def matrix_chain(p):
    n = len(p) - 1
    m = [[0] * n for _ in range(n)]
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            m[i][j] = float("inf")
            for k in range(i, j):
                cost = m[i][k] + m[k + 1][j] + p[i] * p[k + 1] * p[j + 1]
                if cost < m[i][j]:
                    m[i][j] = cost
    return m[0][n - 1]


@program(lambda: ("ACGTTGCAAGCTTGCA" * 5, "GCATGCUTTAGCAAGT" * 5))
def common_subsequence(a, b):
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            if x == y:
                table[i + 1][j + 1] = table[i][j] + 1
            else:
                table[i + 1][j + 1] = max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@program(lambda: ("kitten sitting on the mitten" * 2, "sitting kitten at the kitchen" * 2))
def levenshtein(a, b):
    previous = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        current = [i]
        for j, y in enumerate(b, 1):
            insert = current[j - 1] + 1
            delete = previous[j] + 1
            change = previous[j - 1] + (x != y)
            current.append(min(insert, delete, change))
        previous = current
    return previous[-1]


@program(lambda: ([3 + 7 * k % 29 for k in range(40)], [5 + 11 * k % 37 for k in range(40)], 300))
def knapsack_dict(weights, values, room):
    best = {0: 0}
    for w, v in zip(weights, values):
        new = dict(best)
        for used, worth in best.items():
            if used + w <= room and new.get(used + w, -1) < worth + v:
                new[used + w] = worth + v
        best = new
    return max(best.values())


@program(lambda: (7,))
def queens(n):
    """All solutions, by backtracking with marks."""
    columns = [False] * n
    up = [False] * (2 * n)
    down = [False] * (2 * n)
    at = [-1] * n
    row = 0
    found = 0
    while row >= 0:
        column = at[row]
        if column >= 0:
            columns[column] = up[row + column] = down[row - column + n] = False
        column += 1
        while column < n and (columns[column] or up[row + column] or down[row - column + n]):
            column += 1
        if column == n:
            at[row] = -1
            row -= 1
            continue
        at[row] = column
        if row == n - 1:
            found += 1
            continue
        columns[column] = up[row + column] = down[row - column + n] = True
        row += 1
    return found


@program(lambda: ((rng(6).random((40, 40)) < 0.3).astype(int), 2))
def life_by_numpy(grid, steps):
    rows, cols = grid.shape
    for _ in range(steps):
        new = grid.copy()
        for i in range(rows):
            for j in range(cols):
                total = (grid[i, (j - 1) % cols] + grid[i, (j + 1) % cols] + grid[(i - 1) % rows, j]
                         + grid[(i + 1) % rows, j] + grid[(i - 1) % rows, (j - 1) % cols]
                         + grid[(i - 1) % rows, (j + 1) % cols] + grid[(i + 1) % rows, (j - 1) % cols]
                         + grid[(i + 1) % rows, (j + 1) % cols])
                if grid[i, j] == 1:
                    if (total < 2) or (total > 3):
                        new[i, j] = 0
                elif total == 3:
                    new[i, j] = 1
        grid[:] = new
    return grid


@program(lambda: (rng(8).integers(0, 200, 5000).tolist(),))
def counts(data):
    seen = {}
    for x in data:
        if x in seen:
            seen[x] += 1
        else:
            seen[x] = 1
    most, at = 0, None
    for key in seen:
        if seen[key] > most:
            most, at = seen[key], key
    return seen, most, at


@program(lambda: (rng(8).integers(0, 100000, 400).tolist(),))
def heap_sort(a):
    n = len(a)
    for start in range(n // 2 - 1, -1, -1):
        root = start
        while 2 * root + 1 < n:
            child = 2 * root + 1
            if child + 1 < n and a[child] < a[child + 1]:
                child += 1
            if a[root] >= a[child]:
                break
            a[root], a[child] = a[child], a[root]
            root = child
    for end in range(n - 1, 0, -1):
        a[0], a[end] = a[end], a[0]
        root = 0
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and a[child] < a[child + 1]:
                child += 1
            if a[root] >= a[child]:
                break
            a[root], a[child] = a[child], a[root]
            root = child
    return a


@program(lambda: (rng(8).integers(1, 20, (60, 60)).astype(float),))
def dijkstra_dense(weights):
    n = weights.shape[0]
    distance = [math.inf] * n
    done = [False] * n
    distance[0] = 0.0
    for _ in range(n):
        at, least = -1, math.inf
        for i in range(n):
            if not done[i] and distance[i] < least:
                at, least = i, distance[i]
        if at < 0:
            break
        done[at] = True
        for j in range(n):
            through = distance[at] + weights[at, j]
            if through < distance[j]:
                distance[j] = through
    return distance


def maze(n=40):
    g = rng(9)
    return [[1 if g.random() < 0.25 and i + j > 0 else 0 for j in range(n)] for i in range(n)]


@program(lambda: (maze(),))
def bfs_grid(grid):
    rows, cols = len(grid), len(grid[0])
    distance = [[-1] * cols for _ in range(rows)]
    queue = [(0, 0)]
    distance[0][0] = 0
    head = 0
    while head < len(queue):
        r, c = queue[head]
        head += 1
        for dr, dc in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            nr, nc = r + dr, c + dc
            if 0 <= nr < rows and 0 <= nc < cols and grid[nr][nc] == 0 and distance[nr][nc] == -1:
                distance[nr][nc] = distance[r][c] + 1
                queue.append((nr, nc))
    return distance


@program(lambda: (400, rng(3).integers(0, 400, (350, 2)).tolist()))
def union_find(n, edges):
    parent = list(range(n))
    size = [1] * n

    def find(x):
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    groups = n
    for a, b in edges:
        a, b = find(a), find(b)
        if a != b:
            if size[a] < size[b]:
                a, b = b, a
            parent[b] = a
            size[a] += size[b]
            groups -= 1
    return groups


@program(lambda: ("aaabbbccd" * 200 + "z" * 50,))
def run_lengths(text):
    out = []
    previous, n = text[0], 1
    for ch in text[1:]:
        if ch == previous:
            n += 1
        else:
            out.append((previous, n))
            previous, n = ch, 1
    out.append((previous, n))
    return out


@program(lambda: (bytes(range(256)) * 20,))
def crc32(data):
    table = []
    for i in range(256):
        c = i
        for _ in range(8):
            c = (c >> 1) ^ 0xEDB88320 if c & 1 else c >> 1
        table.append(c)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@program(lambda: (";".join(str(k * 37 % 1000) for k in range(1500)),))
def parse_numbers(text):
    total = value = 0
    for ch in text:
        if "0" <= ch <= "9":
            value = value * 10 + ord(ch) - ord("0")
        else:
            total += value
            value = 0
    return total + value


@program(lambda: ("the quick brown fox jumps over the lazy dog and the cat " * 40,))
def word_count(text):
    seen = {}
    for word in text.split():
        seen[word] = seen.get(word, 0) + 1
    return seen


@program(lambda: ("Hello, World! " * 150, 3))
def caesar(text, shift):
    out = ""
    for ch in text:
        if "a" <= ch <= "z":
            out += chr((ord(ch) - 97 + shift) % 26 + 97)
        elif "A" <= ch <= "Z":
            out += chr((ord(ch) - 65 + shift) % 26 + 65)
        else:
            out += ch
    return out


@program(lambda: (rng(5).random((300, 2)), 4, 5))
def k_means_arrays(points, k, rounds):
    centres = points[:k].copy()
    labels = np.zeros(len(points), dtype=int)
    for _ in range(rounds):
        for i in range(len(points)):
            least, at = np.inf, 0
            for c in range(k):
                d = np.sum((points[i] - centres[c]) ** 2)
                if d < least:
                    least, at = d, c
            labels[i] = at
        for c in range(k):
            chosen = points[labels == c]
            if len(chosen) > 0:
                centres[c] = chosen.mean(axis=0)
    return centres, labels


@program(lambda: (rng(5).random((60, 3)),))
def nearest_pairs(points):
    n = points.shape[0]
    d = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            t = 0.0
            for k in range(3):
                t += (points[i, k] - points[j, k]) ** 2
            d[i, j] = np.sqrt(t)
    return d


@program(lambda: (rng(5).random((80, 80)), 2))
def blur(image, rounds):
    h, w = image.shape
    for _ in range(rounds):
        out = np.zeros_like(image)
        for y in range(h):
            for x in range(w):
                s, n = 0.0, 0
                for dy in (-1, 0, 1):
                    for dx in (-1, 0, 1):
                        if 0 <= y + dy < h and 0 <= x + dx < w:
                            s += image[y + dy, x + dx]
                            n += 1
                out[y, x] = s / n
        image = out
    return image


@program(lambda: (rng(5).integers(0, 256, (50, 50, 3)).astype(np.uint8),))
def grey(image):
    out = np.zeros(image.shape[:2], dtype=np.uint8)
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            r, g, b = image[y, x]
            out[y, x] = int(0.299 * r + 0.587 * g + 0.114 * b)
    return out


@program(lambda: (rng(5).random((24, 24)) + 24 * np.eye(24),))
def decompose(a):
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[k, j]
            a[i, j] /= a[j, j]
        for j in range(i, n):
            for k in range(i):
                a[i, j] -= a[i, k] * a[k, j]
    return a


@program(lambda: (rng(5).random((24, 25)).tolist(),))
def eliminate(m):
    """Gauss with pivots, on lists of lists."""
    n = len(m)
    for c in range(n):
        pivot = max(range(c, n), key=lambda r: abs(m[r][c]))
        m[c], m[pivot] = m[pivot], m[c]
        for r in range(c + 1, n):
            factor = m[r][c] / m[c][c]
            for k in range(c, n + 1):
                m[r][k] -= factor * m[c][k]
    x = [0.0] * n
    for r in range(n - 1, -1, -1):
        x[r] = (m[r][n] - sum(m[r][k] * x[k] for k in range(r + 1, n))) / m[r][r]
    return x


@program(lambda: (rng(5).normal(size=3000).cumsum() + 100,))
def moving_average_crossings(prices):
    fast = slow = prices[0]
    position, cash = 0, 0.0
    trades = []
    for day, price in enumerate(prices):
        fast += 0.2 * (price - fast)
        slow += 0.05 * (price - slow)
        if fast > slow and position == 0:
            position = 1
            cash -= price
            trades.append(day)
        elif fast < slow and position == 1:
            position = 0
            cash += price
            trades.append(day)
    return cash, trades


@program(lambda: (100.0, 105.0, 200))
def option_tree(spot, strike, steps):
    up = math.exp(0.2 * math.sqrt(1 / steps))
    p = (math.exp(0.05 / steps) - 1 / up) / (up - 1 / up)
    values = [max(0.0, strike - spot * up ** (2 * i - steps)) for i in range(steps + 1)]
    for step in range(steps - 1, -1, -1):
        for i in range(step + 1):
            held = (p * values[i + 1] + (1 - p) * values[i]) * math.exp(-0.05 / steps)
            exercised = strike - spot * up ** (2 * i - step)
            values[i] = max(held, exercised)
    return values[0]


@program(lambda: (50, 100, 7))
def option_paths(paths, steps, seed):
    g = np.random.default_rng(seed)
    total = 0.0
    for _ in range(paths):
        s = 100.0
        for _ in range(steps):
            s *= np.exp(0.0002 + 0.01 * g.standard_normal())
        total += max(s - 100.0, 0.0)
    return total / paths


@program(lambda: (0.5, 1e-12, 300))
def bisections(low, tolerance, n):
    roots = []
    for k in range(1, n):
        a, b = low, k + 1.0
        while b - a > tolerance * b:
            middle = (a + b) / 2
            if middle * middle < k:
                a = middle
            else:
                b = middle
        roots.append((a + b) / 2)
    return roots


@program(lambda: (2000,))
def divisor_sums(n):
    amicable = []
    sums = [0] * (n + 1)
    for i in range(1, n + 1):
        for j in range(2 * i, n + 1, i):
            sums[j] += i
    for i in range(1, n + 1):
        if sums[i] <= n and sums[i] != i and sums[sums[i]] == i:
            amicable.append(i)
    return amicable


@program(lambda: (120,))
def partitions(n):
    """Numbers that outgrow nothing, and one that does."""
    p = [1] + [0] * n
    for k in range(1, n + 1):
        for i in range(k, n + 1):
            p[i] += p[i - k]
    return p


@program(lambda: (rng(5).random((16, 16)), rng(6).random((5, 5))))
def convolve(image, kernel):
    kh, kw = kernel.shape
    out = np.zeros((image.shape[0] - kh + 1, image.shape[1] - kw + 1))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = (image[i:i + kh, j:j + kw] * kernel).sum()
    return out


@program(lambda: (rng(5).integers(0, 1 << 31, 3000),))
def bits_set(values):
    total = 0
    for v in values:
        while v:
            v &= v - 1
            total += 1
    return total


@program(lambda: (np.zeros(64), 300))
def wave_by_slices(u, steps):
    u[20:30] = 1.0
    before = u.copy()
    for _ in range(steps):
        after = np.zeros_like(u)
        after[1:-1] = 2 * u[1:-1] - before[1:-1] + 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
        before, u = u, after
    return u


class Stack:
    def __init__(self):
        self.items = []

    def push(self, x):
        self.items.append(x)

    def pop(self):
        return self.items.pop()


@program(lambda: ([3, 4, "+", 2, "*", 7, "-", 5, "+"] * 150,))
def rpn(tokens):
    stack = Stack()
    for token in tokens:
        if token == "+":
            b, a = stack.pop(), stack.pop()
            stack.push(a + b)
        elif token == "-":
            b, a = stack.pop(), stack.pop()
            stack.push(a - b)
        elif token == "*":
            b, a = stack.pop(), stack.pop()
            stack.push(a * b)
        else:
            stack.push(token)
    return stack.items


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


@program(lambda: (40,))
def recursions(n):
    total = 0
    for k in range(n):
        total += ackermann(2, k % 4)
    return total


if __name__ == "__main__":
    loops.main(PROGRAMS, __doc__)
