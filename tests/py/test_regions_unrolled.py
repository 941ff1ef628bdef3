"""Loops of a few trips that become straight code: what they give, and where they are left, in each of their trips."""

import numpy as np
import pytest
from regions import check

N = 18


def grid(dtype=np.float64):
    return np.arange(1, N * N + 1).reshape(N, N).astype(dtype) / 4


def neighbours(a, n, s):
    for i in range(n):
        for j in range(n):
            around = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    if di != 0 or dj != 0:
                        around += a[(i + di) % n, (j + dj) % n]
            if around > 40:
                s += 1
    return s, around, di, dj


def inside(a, n, s):
    for i in range(n):
        for k in range(3):
            if k == 2:
                continue
            s += a[i, k + 1] * a[i, 2 - k]
    return s, k


def breaks(a, n, s):
    for i in range(n):
        for k in range(4):
            if a[i, k] > 3.5:
                break
            s += a[i, k]
        else:
            s *= 2.0
    return s, k


def returns(a, n, s):
    for i in range(n):
        for k in range(-2, 1):
            if a[i, k] == 7.25:
                return i, k
    return None


def past_the_end(a, n, s):
    for i in range(n):
        for k in range(3):
            s += a[i + k, i]
    return s


def stores(a, n, s):
    for i in range(n):
        for k in range(3):
            a[i, k] = a[i, k] * a[i, 3 - k] - k
    return a


def changes_its_counter(a, n, s):
    for i in range(n):
        for k in range(3):
            k += i
            s += k
    return s, k


def in_steps(a, n, s):
    for i in range(n):
        for k in range(5, -1, -2):
            s = s * 3 + k
    return s


def overflows(a, n, s):
    for i in range(n):
        for k in range(1, 8):
            s *= k + 3 * i
    return s


def by_what_is_around(a, n, s):
    for i in range(n):
        for k in range(2):
            for m in range(k, 3):
                s += a[k, m] * (i + m)
    return s, k, m


def divides(a, n, s):
    for i in range(n):
        for k in range(3):
            s += 1.0 / (a[i, k] - 2.5)
    return s


PROGRAMS = neighbours, inside, breaks, returns, past_the_end, stores, changes_its_counter, in_steps, overflows, by_what_is_around
PROGRAMS += (divides,)


@pytest.mark.parametrize("n, begin", [(0, 0), (1, 1), (3, 0.0), (N, 1)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_loops_of_a_few_trips(program, n, begin):
    check(program, (grid(), n, begin), [iter(range(n))], forced=n < N)


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.uint8])
def test_elements_of_other_types(dtype):
    for program in neighbours, inside, stores:
        check(program, (grid(dtype), 4, 0), [iter(range(4))], forced=False)


def test_numbers_that_are_not_finite():
    a = grid()
    a[3, 1], a[4, 2] = np.inf, 1e300
    for program in inside, stores, neighbours:
        check(program, (a, N, 0.0), [iter(range(N))], forced=False)
