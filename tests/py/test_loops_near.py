"""Native loops with ints of which it is known that they are near to 0, and so don't overflow: where it isn't known, they do, and
what comes is CPython's. With steps and ends of ranges that are always the same number; and loops left in the middle of which no
number is reported."""

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter
ENDS = [0, 5, 2**31, 2**59, 2**60 - 1, 2**61, 2**62 - 1, 2**62, 2**63 - 40, 2**63 - 1, -(2**59), -(2**62), -(2**63)]


def steps(x, m):
    """`n` begins at 0, `x` anywhere, and three of them are added up."""
    n = 0
    while n < 60:
        n += 1
        x += 2
        m = n + x + n
    return n, x, m


def constants(x, m):
    total, n = 0, 0
    while n < 60:
        if n < x:
            total = total + 1152921504606846975
        n += 1
    return total, n


def halves(x, m):
    """Two ints in the middle of which one is searched."""
    low, high, n = x, m, 0
    while low < high and n < 80:
        middle = (low + high) // 2
        if middle % 3 != 0:
            low = middle + 1
        else:
            high = middle
        n += 1
    return low, high, n


def cut(x, m):
    n = a = 0
    while n < 50:
        a = (a * 5 + x) % 1152921504606846975 + (a + n) % 1000
        b = a + a
        c = b + (b >> 1)
        n += 1
    return a, b, c


def masked(x, m):
    n = s = 0
    while n < 50:
        s = (x & -(n + 1)) + (m & 255) - n
        s = abs(s - m) + s
        n += 1
    return s


def chosen(x, m):
    n, a = 0, 1
    while n < 70:
        a = a + (a if n % 3 == 0 else n)
        n += 1
    return a, n


PROGRAMS = [steps, constants, halves, cut, masked, chosen]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_ints_that_leave_the_range(fn):
    fast = dynoc.optimize(fn, wait=True)
    check(fn, fast, lambda: (7, 900))
    check(fn, fast, lambda: (7, 900))
    assert "native" in fast.loops[0]
    for x in ENDS:
        for m in ENDS:
            check(fn, fast, lambda x=x, m=m: (x, m), what=f"{x}, {m}")


def test_arrays_of_any_size_along_an_axis():
    def last(a, k):
        low, high, n = 0, len(a), 0
        while low < high:
            middle = (low + high) // 2
            if a[middle] < k:
                low = middle + 1
            else:
                high = middle
            n += 1
        return low, n

    fast = dynoc.optimize(last, wait=True)
    for _ in range(2):
        check(last, fast, lambda: (np.arange(100.0), 33))
    assert "native" in fast.loops[0]
    for size in (2**59, 2**60, 2**62, 2**63 - 1):
        for k in (0, 2):
            repeated = np.lib.stride_tricks.as_strided(np.ones(1, dtype=np.int8), (size,), (0,))
            assert fast(repeated, k) == last(repeated, k), size


def down(best, n, weight):
    for i in range(n):
        for w in range(len(best) - 1, weight - 1, -1):
            if best[w - weight] + i > best[w]:
                best[w] = best[w - weight] + i
    return best


def back(best, n, weight):
    total = i = 0
    for i in range(n, weight - 1, -2):
        total += best[i - weight] - best[i]
    return total, i


def by_threes(best, n, weight):
    total = 0
    for i in range(weight + 1, n, 3):
        total = total * 3 % 1000 + best[i]
        best[i - weight] = total
    return total, best


def echoes(best, n, weight):
    """What some trips alone look at lies before where the trip is, by a number that stays."""
    total = 0
    for i in range(abs(weight), n):
        if best[i] > 10:
            total += best[i - weight] * 2 - (i - weight - 1)
        else:
            best[i] = best[i + 1 - weight] if i > 5 else best[weight - i]
    return total, best


@pytest.mark.parametrize("fn", [down, back, by_threes, echoes], ids=lambda f: f.__name__)
def test_steps_that_are_always_one_number(fn):
    fast = dynoc.optimize(fn, wait=True)
    numbers = np.arange(60) * 7 % 31
    for _ in range(2):
        check(fn, fast, lambda: (numbers.copy(), 40, 3))
    assert "native" in fast.loops[0]
    for size in (60, 41, 40, 20, 3, 1):
        for n in (40, 2, 59, 80):
            for weight in (3, 0, -2, 30, -70, 70, 2**60, 2**62, -(2**62), 2**63 - 1, -(2**63)):
                check(fn, fast, lambda: (numbers[:size].copy(), n, weight), what=f"{size}, {n}, {weight}")  # noqa: B023


def roots(n, x):
    """Python's floats, of which nothing is reported: a division by 0 is refused, and a number that isn't finite goes on."""
    total = 0.0
    for i in range(1, n):
        for k in range(20):
            better = 0.5 * (x + i / x)
            if abs(better - x) < 1e-9:
                break
            x = better
        total += x
    return total, i, k, x


def first(n, x):
    for i in range(n):
        y = 1.0 / (x - i)
        if y > 3.0:
            break
    return i, y


@pytest.mark.parametrize("fn", [roots, first], ids=lambda f: f.__name__)
def test_loops_left_in_the_middle(fn):
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(2):
        check(fn, fast, lambda: (60, 4.25))
    assert "native" in fast.loops[0]
    for n in (60, 21, 3, 2):
        for x in (4.25, 17.0, 0.0, -3.0, 1e-320, 1e308, float("inf"), float("nan"), 19.25):
            check(fn, fast, lambda: (n, x), what=f"{n}, {x}")  # noqa: B023
