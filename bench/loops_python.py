"""Loops as Python programs have them, over lists, tuples, dicts, sets, strings and instances of classes, beside plain Python and
Numba; and whether values and types are CPython's.

    python bench/loops_python.py [--only NAME] [--repeat N] [--why]

The columns are those of loops.py. --why prints what the log says of loops that stay in CPython.
"""

import collections
import math
import random

import loops
import numpy as np

PROGRAMS = []
program = loops.collect(PROGRAMS)


@program(lambda: (7,))
def fannkuch(n):
    count = list(range(1, n + 1))
    max_flips = 0
    m = n - 1
    r = n
    perm1 = list(range(n))
    perm = list(range(n))
    while True:
        while r != 1:
            count[r - 1] = r
            r -= 1
        if perm1[0] != 0 and perm1[m] != m:
            flips_count = 0
            perm[:] = perm1
            k = perm[0]
            while k:
                perm[: k + 1] = perm[k::-1]
                flips_count += 1
                k = perm[0]
            if flips_count > max_flips:
                max_flips = flips_count
        while r != n:
            perm1.insert(r, perm1.pop(0))
            count[r] -= 1
            if count[r] > 0:
                break
            r += 1
        else:
            return max_flips


def bodies():
    return [
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], 39.47841760435743),
        ([4.841431442464721, -1.1603200440274284, -0.10362204447112311],
         [0.606326392995832, 2.81198684491626, -0.02521836165988763], 0.03769367487038949),
        ([8.34336671824458, 4.124798564124305, -0.4035234171143214],
         [-1.0107743461787924, 1.8256623712304119, 0.008415761376584154], 0.011286326131968767),
        ([12.894369562139131, -15.111151401698631, -0.22330757889265573],
         [1.0827910064415354, 0.8687130181696082, -0.010832637401363636], 0.0017237240570597112),
    ]


def pairs_of(things):
    return [(things[i], things[j]) for i in range(len(things) - 1) for j in range(i + 1, len(things))]


@program(lambda: (lambda all: (0.01, 300, all, pairs_of(all)))(bodies()))
def n_body(dt, n, bodies, pairs):
    for _ in range(n):
        for ([x1, y1, z1], v1, m1), ([x2, y2, z2], v2, m2) in pairs:
            dx = x1 - x2
            dy = y1 - y2
            dz = z1 - z2
            mag = dt * ((dx * dx + dy * dy + dz * dz) ** (-1.5))
            b1m = m1 * mag
            b2m = m2 * mag
            v1[0] -= dx * b2m
            v1[1] -= dy * b2m
            v1[2] -= dz * b2m
            v2[0] += dx * b1m
            v2[1] += dy * b1m
            v2[2] += dz * b1m
        for r, [vx, vy, vz], _m in bodies:
            r[0] += dt * vx
            r[1] += dt * vy
            r[2] += dt * vz
    return bodies


def eval_a(i, j):
    ij = i + j
    return ij * (ij + 1) // 2 + i + 1


@program(lambda: ([1.0] * 60,))
def spectral_norm(u):
    v = []
    for _ in range(3):
        v = []
        for i in range(len(u)):
            s = 0.0
            for j, u_j in enumerate(u):
                s += u_j / eval_a(i, j)
            v.append(s)
        u = []
        for i in range(len(v)):
            s = 0.0
            for j, v_j in enumerate(v):
                s += v_j / eval_a(j, i)
            u.append(s)
    return u, v


class Point:
    def __init__(self, x, y, z):
        self.x, self.y, self.z = x, y, z

    def normalize(self):
        norm = math.sqrt(self.x ** 2 + self.y ** 2 + self.z ** 2)
        self.x /= norm
        self.y /= norm
        self.z /= norm

    def maximize(self, other):
        self.x = self.x if self.x > other.x else other.x
        self.y = self.y if self.y > other.y else other.y
        self.z = self.z if self.z > other.z else other.z
        return self


def state_of(points):
    return [(p.x, p.y, p.z) for p in points]


@program(lambda: ([Point(math.sin(i), math.cos(i) * 3, math.sin(i) ** 2 / 2) for i in range(2000)],))
def float_points(points):
    for p in points:
        p.normalize()
    largest = points[0]
    for p in points[1:]:
        largest = largest.maximize(p)
    return state_of(points), (largest.x, largest.y, largest.z)


class Particle:
    __slots__ = ("x", "y", "vx", "vy", "bounces")

    def __init__(self, x, y, vx, vy):
        self.x, self.y, self.vx, self.vy, self.bounces = x, y, vx, vy, 0

    def move(self, dt):
        self.x += self.vx * dt
        self.y += self.vy * dt
        if self.x < 0.0 or self.x > 1.0:
            self.vx = -self.vx
            self.bounces += 1
        if self.y < 0.0 or self.y > 1.0:
            self.vy = -self.vy
            self.bounces += 1


@program(lambda: ([Particle(0.1 + i / 100, 0.5, 0.7 + i / 30, 0.4 - i / 50) for i in range(40)], 100, 0.01))
def particles(everyone, steps, dt):
    for _ in range(steps):
        for p in everyone:
            p.move(dt)
    return [(p.x, p.y, p.vx, p.vy, p.bounces) for p in everyone]


class Generator:
    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state * 1103515245 + 12345) % 2147483648
        return self.state / 2147483648.0


@program(lambda: (Generator(42), 20_000))
def generator_object(g, n):
    inside = 0
    for _ in range(n):
        x = g.next()
        y = g.next()
        if x * x + y * y < 1.0:
            inside += 1
    return 4.0 * inside / n, g.state


@program(lambda: (20_000,))
def sieve_slices(n):
    prime = [True] * (n + 1)
    prime[0] = prime[1] = False
    i = 2
    while i * i <= n:
        if prime[i]:
            prime[i * i :: i] = [False] * len(range(i * i, n + 1, i))
        i += 1
    return [i for i in range(n + 1) if prime[i]]


@program(lambda: (list(range(5000)),))
def prefix_sums(a):
    out = [0]
    for x in a:
        out.append(out[-1] + x)
    best = 0
    for i in range(len(a) - 7):
        s = out[i + 7] - out[i]
        if s > best:
            best = s
    return out, best


@program(lambda: ([3, 4, 5, 9, 14, 2, 6, 11] * 3, [3, 4, 4, 10, 15, 1, 7, 12] * 3, 150))
def knapsack_2d(weights, values, capacity):
    n = len(weights)
    table = [[0] * (capacity + 1) for _ in range(n + 1)]
    for i in range(1, n + 1):
        for w in range(capacity + 1):
            if weights[i - 1] <= w:
                table[i][w] = max(table[i - 1][w], table[i - 1][w - weights[i - 1]] + values[i - 1])
            else:
                table[i][w] = table[i - 1][w]
    return table[n][capacity]


@program(lambda: ("kitten sitting on the mitten " * 4, "sitting kitten in the kitchen " * 4))
def edit_distance_strings(a, b):
    previous = list(range(len(b) + 1))
    for i, ca in enumerate(a):
        current = [i + 1]
        for j, cb in enumerate(b):
            insert = previous[j + 1] + 1
            delete = current[j] + 1
            change = previous[j] + (ca != cb)
            current.append(min(insert, delete, change))
        previous = current
    return previous[-1]


def ring(n):
    return [[(i + 1) % n, (i - 1) % n, (i * 7 + 3) % n] for i in range(n)]


@program(lambda: (ring(3000), 0))
def bfs(graph, start):
    distance = [-1] * len(graph)
    distance[start] = 0
    queue = [start]
    head = 0
    while head < len(queue):
        node = queue[head]
        head += 1
        for other in graph[node]:
            if distance[other] < 0:
                distance[other] = distance[node] + 1
                queue.append(other)
    return distance


@program(lambda: (ring(3000), 0))
def dfs_stack(graph, start):
    seen = [False] * len(graph)
    order = []
    stack = [start]
    while stack:
        node = stack.pop()
        if seen[node]:
            continue
        seen[node] = True
        order.append(node)
        for other in reversed(graph[node]):
            if not seen[other]:
                stack.append(other)
    return order


@program(lambda: (ring(2000), 0))
def bfs_deque(graph, start):
    seen = {start}
    queue = collections.deque([start])
    count = 0
    while queue:
        node = queue.popleft()
        count += 1
        for other in graph[node]:
            if other not in seen:
                seen.add(other)
                queue.append(other)
    return count


@program(lambda: ([(i * i + 7) % 101 for i in range(10_000)],))
def histogram_dict(data):
    counts = {}
    for x in data:
        if x in counts:
            counts[x] += 1
        else:
            counts[x] = 1
    most = 0
    for key in counts:
        if counts[key] > most:
            most = counts[key]
    return counts, most


@program(lambda: ([(i * i + 7) % 101 for i in range(10_000)],))
def histogram_get(data):
    counts = {}
    for x in data:
        counts[x] = counts.get(x, 0) + 1
    return counts


def table(n, item):
    return [[item(i, j) for j in range(n)] for i in range(n)]


@program(lambda: (table(40, lambda i, j: (i * j) % 7 + 0.5), table(40, lambda i, j: (i + j) % 5 - 0.25)))
def product_of_lists(a, b):
    n, m, k = len(a), len(b[0]), len(b)
    c = [[0.0] * m for _ in range(n)]
    for i in range(n):
        for j in range(m):
            for l in range(k):
                c[i][j] += a[i][l] * b[l][j]
    return c


@program(lambda: (50_000, 1234))
def congruences(n, seed):
    x, total = seed, 0
    for _ in range(n):
        x = (1664525 * x + 1013904223) % 4294967296
        total ^= x >> 16
    return x, total


def seeded(n):
    random.seed(5)
    return (n,)


@program(lambda: seeded(20_000))
def random_pi(n):
    inside = 0
    for _ in range(n):
        x = random.random()
        y = random.random()
        if x * x + y * y <= 1.0:
            inside += 1
    return inside, random.random()


@program(lambda: ([[(i * 7 + j * 3) % 5 == 0 for j in range(40)] for i in range(40)], 4))
def life_lists(board, steps):
    n, m = len(board), len(board[0])
    for _ in range(steps):
        new = [[False] * m for _ in range(n)]
        for i in range(n):
            for j in range(m):
                count = 0
                for di in (-1, 0, 1):
                    for dj in (-1, 0, 1):
                        if (di or dj) and board[(i + di) % n][(j + dj) % m]:
                            count += 1
                new[i][j] = count == 3 or (count == 2 and board[i][j])
        board = new
    return board


@program(lambda: ([[float((i * 17 + j * 5) % 23 + 1) for j in range(30)] for i in range(30)],))
def floyd_warshall_lists(d):
    n = len(d)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i][k] + d[k][j] < d[i][j]:
                    d[i][j] = d[i][k] + d[k][j]
    return d


@program(lambda: (40, 30))
def newton_fractal(n, steps):
    rows = []
    for i in range(n):
        row = []
        for j in range(n):
            z = complex(-2 + 4 * i / n, -2 + 4 * j / n + 1e-3)
            k = 0
            while k < steps and abs(z * z * z - 1) > 1e-6:
                z = z - (z * z * z - 1) / (3 * z * z)
                k += 1
            row.append(k)
        rows.append(row)
    return rows


@program(lambda: (3000,))
def collatz_memo(n):
    known = {1: 1}
    best, longest = 1, 1
    for start in range(2, n):
        x, steps = start, 0
        while x not in known:
            x = x // 2 if x % 2 == 0 else 3 * x + 1
            steps += 1
        known[start] = steps + known[x]
        if known[start] > longest:
            best, longest = start, known[start]
    return best, longest


@program(lambda: (loops.numbers(40, 200), 20))
def heat_rows(a, steps):
    b = a.copy()
    for _ in range(steps):
        for i in range(1, a.shape[0] - 1):
            b[i, 1:-1] = a[i, 1:-1] + 0.1 * (a[i, :-2] - 2 * a[i, 1:-1] + a[i, 2:])
        a, b = b, a
    return a


@program(lambda: ([(math.sin(i) * 5, math.cos(i * 3) * 4) for i in range(400)], [(0.0, 1.0), (1.0, -1.0), (-2.0, 0.5)], 4))
def k_means(points, centres, rounds):
    labels = [0] * len(points)
    for _ in range(rounds):
        for i, (x, y) in enumerate(points):
            best, nearest = 0, float("inf")
            for c, (cx, cy) in enumerate(centres):
                d = (x - cx) ** 2 + (y - cy) ** 2
                if d < nearest:
                    best, nearest = c, d
            labels[i] = best
        sums = [[0.0, 0.0, 0] for _ in centres]
        for (x, y), label in zip(points, labels):
            sums[label][0] += x
            sums[label][1] += y
            sums[label][2] += 1
        centres = [(s[0] / s[2], s[1] / s[2]) if s[2] else c for s, c in zip(sums, centres)]
    return centres, labels


@program(lambda: ([1.0 / (i + 1) for i in range(20_000)],))
def kahan(a):
    s = c = 0.0
    for x in a:
        y = x - c
        t = s + y
        c = (t - s) - y
        s = t
    return s


@program(lambda: (10_000,))
def bubble_lists(n):
    a = [(i * 7919) % 211 for i in range(n // 50)]
    for i in range(len(a)):
        for j in range(len(a) - 1 - i):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return a


@program(lambda: (["".join(chr(97 + (i * j) % 26) for j in range(6)) for i in range(300)],))
def letters(words):
    counts = [0] * 26
    for word in words:
        for c in word:
            counts[ord(c) - 97] += 1
    return counts


def queens_fits(columns, row, column):
    for r in range(row):
        if columns[r] == column or abs(columns[r] - column) == row - r:
            return False
    return True


@program(lambda: (7,))
def queens(n):
    columns = [0] * n
    row, found = 0, 0
    column = 0
    while row >= 0:
        while column < n and not queens_fits(columns, row, column):
            column += 1
        if column < n:
            columns[row] = column
            if row == n - 1:
                found += 1
                column += 1
            else:
                row += 1
                column = 0
        else:
            row -= 1
            if row >= 0:
                column = columns[row] + 1
    return found


if __name__ == "__main__":
    loops.main(PROGRAMS, __doc__)
