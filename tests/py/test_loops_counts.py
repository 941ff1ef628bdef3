"""Native loops over arrays and lists themselves, and places that a loop keeps: such loops are asked in front of them as those
over ranges are, and are left where CPython would go another way."""

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter


def count_above(a, t):
    c = 0
    for x in a:
        if x > t:
            c += 1
    return c


def sums(a, t):
    s = 0.0
    for x in a:
        s += x * t
    return s, x


def of_a_list(a, t):
    values = [float(x) for x in a]
    s = 0.0
    for x in values:
        s = s * 0.5 + x
    return s, x


def growing(a, t):
    values = [1, 2, 3]
    n = 0
    for x in values:
        n += x
        if n < 200:
            values.append(n % 5)
    return n, values


def written(a, t):
    i = 0
    for x in a:
        a[i - 1] = x + a[i]
        i += 1
    return a, i


def stopped(a, t):
    i = 0
    for x in a:
        if x > t:
            break
        i += 1
    return i, x


def divided(a, t):
    s = 0
    for x in a:
        s += 1 // (1 if x < t else 0)
    return s


def lowest(a, t):
    m = 0
    for j in range(1, len(a)):
        if a[j] < a[m]:
            m = j
    return m


def selection_sort(a, t):
    for i in range(len(a) - 1):
        m = i
        for j in range(i + 1, len(a)):
            if a[j] < a[m]:
                m = j
        a[i], a[m] = a[m], a[i]
    return a


def from_outside(a, t):
    m = int(10 * t) - 6
    for j in range(len(a)):
        if a[j] > a[m]:
            m = j
    return m


def two_places(a, t):
    m = k = 0
    for j in range(len(a) - 1, -1, -1):
        if a[j] >= a[m]:
            k = m
            m = j
        elif a[j] > a[k]:
            k = j
    return m, k


def next_place(a, t):
    m = 0
    for j in range(len(a) - 1):
        if a[j] < a[m]:
            m = j + 1
    return m


def numbered(a, t):
    o = np.zeros(len(a))
    for i, x in enumerate(a):
        o[i] = x * t
    for i, x in enumerate(a, int(t)):
        o[i - 1] += x
    return o, i


def beside(a, t):
    k = int(t * 10)
    s = 0.0
    for i in range(2, len(a)):
        a[k - 8] = a[i] + a[k - 9]
        k += 1
    for i in range(0, len(a) - 3, 2):
        s += a[i + 1] - a[k - len(a)]
        k += 2
    return a, s, k


def now_and_then(a, t):
    k = 0
    for i in range(len(a)):
        if a[i] > t:
            a[k] = a[i]
            k += 1
    return a[:k], k


def twice(a, t):
    k = 0
    for i in range(len(a)):
        a[k] += 1.0
        k += 1
        if a[i] < t:
            k += 1
    return a, k


def outside_at_last(a, t):
    k = int(t)
    try:
        for i in range(len(a)):
            k += 1
            a[k] = a[i] * 2.0
    except IndexError:
        return a, k, i
    return a, k


def far(a, t):
    k = 2**63 - 5
    s = 0.0
    for i in range(len(a)):
        s += a[k - 2**63 + 5]
        k += 1
    return s, k


PROGRAMS = [numbered, beside, now_and_then, twice, outside_at_last, far, count_above, sums]
PROGRAMS += [of_a_list, growing, written, stopped, divided, lowest, selection_sort, from_outside, two_places]
PROGRAMS.append(next_place)


@pytest.mark.parametrize("fn", PROGRAMS)
def test_loops_that_count_in_another_way(fn):
    fast = dynoc.optimize(fn, wait=True)
    rng = np.random.default_rng(5)
    check(fn, fast, lambda: (np.random.default_rng(6).random(200), 2.0))
    for _ in range(2):
        for size in (200, 40, 3, 2, 1, 0):
            for t in (0.9, 0.5, 0.0, -3.0):
                a = rng.random(size)
                check(fn, fast, lambda a=a, t=t: (a.copy(), t), what=f"{size}, {t}")
        a = rng.random(90)
        a[[3, 50]] = np.nan, np.inf
        check(fn, fast, lambda a=a: (a[::-2].copy(), 0.5))
        check(fn, fast, lambda a=a: (np.repeat(a, 3)[::3], 0.5))


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.int64])
def test_of_other_elements(dtype):
    for fn in (count_above, written, lowest, selection_sort, stopped):
        fast = dynoc.optimize(fn, wait=True)
        for size in (100, 3, 1):
            check(fn, fast, lambda size=size: ((np.arange(size) * 37 % 101).astype(dtype), 50), what=f"{fn.__name__}, {size}")
