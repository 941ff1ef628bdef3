"""Native loops over small tuples that stay the same become straight code: what is in them, where a loop over them is left, and
what variables and iterators hold then, is CPython's."""

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter
STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))


def neighbours(g):
    n, m = g.shape
    o = np.zeros((n, m), np.int64)
    for i in range(n):
        for j in range(m):
            c = 0
            for di in (-1, 0, 1):
                for dj in (-1, 0, 1):
                    x, y = i + di, j + dj
                    if 0 <= x < n and 0 <= y < m:
                        c += g[x, y]
            o[i, j] = c
    return o


def wrapped(g):
    t = 0
    for i in range(g.shape[0] - 1):
        for j in range(g.shape[1] - 1):
            for di in (-1, 0, 1):
                for dj in (1, 0, -1):
                    t += int(g[i + di, j + dj]) * (di - 2 * dj)
    return t, di, dj


def outside(g):
    t = 0
    for i in range(g.shape[0]):
        for j in range(g.shape[1]):
            for d in (-1, 0, 1):
                t += int(g[i, j + d])
                g[i, j] = t % 7
    return t, d


def borders(g):
    n, m = g.shape
    p = 0
    for i in range(n):
        for j in range(m):
            for d in STEPS:
                x = i + d[0]
                y = j + d[1]
                if x < 0 or y < 0 or x >= n or y >= m or g[x, y] == 0:
                    p += 1
    return p, d, d is STEPS[3]


def unpacked(g):
    n, m = g.shape
    p = 0
    for i in range(n):
        for j in range(m):
            for dx, dy in STEPS:
                x, y = (i + dx) % n, (j + dy) % m
                p = p * 3 % 1009 + int(g[x, y])
    return p, dx, dy


def several_kinds(g):
    s = 0.0
    for i in range(g.shape[0]):
        for w in (1, 0.5, 2**70, -3):
            s += w * float(g[i, 0])
    return s, w


def long_and_empty(g):
    t = 0
    for i in range(g.shape[0]):
        for w in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11):
            t += w * int(g[i, 0])
            for v in ():
                t += v
            for v in (3,):
                t -= v
    return t, w, v


def stopped(g):
    for i in range(g.shape[0]):
        for j in range(g.shape[1]):
            for d in (3, 1, 2):
                if g[i, j] * d == 6:
                    break
            else:
                continue
            return i, j, d
    return None


PROGRAMS = [neighbours, wrapped, outside, borders, unpacked, several_kinds, long_and_empty, stopped]


@pytest.mark.parametrize("fn", PROGRAMS)
def test_loops_over_constant_tuples(fn):
    fast = dynoc.optimize(fn, wait=True)
    rng = np.random.default_rng(3)
    grids = [rng.integers(0, 2, shape) for shape in ((9, 8), (30, 21), (1, 1), (2, 1), (1, 3), (3, 3), (40, 2))]
    for _ in range(2):
        for g in grids:
            check(fn, fast, lambda g=g: (g.copy(),), what=f"{g.shape}")
    check(fn, fast, lambda: (np.arange(60).reshape(5, 12)[:, ::-2] % 4,))


def test_a_tuple_that_a_global_name_stands_for_no_more():
    global STEPS
    fast = dynoc.optimize(unpacked, wait=True)
    old = STEPS
    try:
        for steps in (old, ((1, 1), (2, -1)), old, ((0, 0),), ((0, 1), (1, 2, 3)), ((0, 1.0),)):
            STEPS = steps
            check(unpacked, fast, lambda: (np.arange(42).reshape(6, 7),), what=f"{steps}")
    finally:
        STEPS = old
