"""Native loops whose ints are bounded in front of them: where the bounds say nothing, or an int outgrows 64 bits, an index lies
outside or a divisor is 0 after all, what comes is CPython's, at the same trip."""

import math

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter
LARGE = [7, 1000, -3, 0, 2**30, 2**31, 2**40, 2**61, 2**62, -(2**62)]


def flattened(a, n, k):
    s = 0.0
    for i in range(3):
        for j in range(n):
            s += a[i * n + j]
            a[i * n + j] = s
    return s, a


def strided(a, n, k):
    s = 0.0
    for j in range(n):
        s += a[2 * j] - a[n - 1 - j]
    return s


def counted(a, n, k):
    count = total = 0
    for j in range(n):
        if a[j] > 0.5:
            count += 1
        total += j * j - k
    return count, total


def products(a, n, k):
    total = 0
    for j in range(1, n):
        total = j * k + j
    return total


def sums(a, n, k):
    total = k
    for j in range(n):
        total += k
        total -= j
    return total


def roots(a, n, k):
    count = 0
    for i in range(1, 40):
        for j in range(i, n):
            square = i * i + j * j + k
            root = int(math.sqrt(square))
            if root * root == square:
                count += 1
    return count


def remainders(a, n, k):
    s = 0.0
    for j in range(-1, n):
        s += a[(j + k) % n]
    return s


def of_remainders(a, n, k):
    s = 0.0
    for j in range(n):
        s += a[j % k]
    return s


def quotients(a, n, k):
    for j in range(n):
        a[j] = a[j] / k
    return a


def guarded(a, n, k):
    s = 0.0
    for j in range(n):
        if 2 * j + 1 < n:
            s += a[2 * j + 1]
    return s


PROGRAMS = [flattened, strided, counted, products, sums, roots, remainders, of_remainders, quotients, guarded]


@pytest.mark.parametrize("fn", PROGRAMS)
def test_numbers_at_the_limits(fn):
    fast = dynoc.optimize(fn, wait=True)
    check(fn, fast, lambda: (np.random.default_rng(1).random(300), 100, 9))
    assert "native" in fast.loops[0]
    for k in [*LARGE, 7]:
        check(fn, fast, lambda k=k: (np.random.default_rng(1).random(300), 100, k), what=f"k = {k}")


@pytest.mark.parametrize("fn", [flattened, strided, remainders, guarded])
@pytest.mark.parametrize("size", [299, 198, 99, 5])
def test_indices_that_end_outside(fn, size):
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(2):
        check(fn, fast, lambda: (np.random.default_rng(1).random(300), 100, 3))
        check(fn, fast, lambda: (np.random.default_rng(1).random(size), 100, 3))


def table(data, counts):
    total = 0
    for i in range(len(data)):
        counts[data[i]] += 1
        total += int(data[i]) * int(data[i])
    return total, counts


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int32, np.int64])
def test_small_ints_in_memory(dtype):
    fast = dynoc.optimize(table, wait=True)
    most = np.iinfo(dtype).max
    few, more = np.arange(400).astype(dtype) % 50, np.array([1, 2, 3] * 9 + [most, 4], dtype)
    for size in (50, 128, 256):
        for data in (few, more):
            check(table, fast, lambda: (data.copy(), np.zeros(size, dtype=np.int64)), what=f"{size}")  # noqa: B023
