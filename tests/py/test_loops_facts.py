"""Native loops in which branches tell where an index lies: what is left out because of them changes nothing, be an index
negative, outside, or an int next to the largest one."""

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter
LARGE = 2**63 - 1


def insertion(a, k):
    for i in range(1, len(a)):
        x = a[i]
        j = i - 1
        while j >= 0 and a[j] > x:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = x
    return a


def downwards(a, k):
    s = 0.0
    while k >= -3:
        s += a[k]
        k -= 1
    return s, k


def from_both_ends(a, k):
    low, high, swaps = 0, len(a) - 1, 0
    while low < high:
        if a[low] > a[high]:
            a[low], a[high] = a[high], a[low]
            swaps += 1
        low += 1
        high -= k
    return a, low, high, swaps


def bisection(a, k):
    total = 0
    for i in range(len(a)):
        low, high = k - 3, len(a)
        while low < high:
            middle = (low + high) // 2
            if a[middle] < a[i]:
                low = middle + 1
            else:
                high = middle
        total += low
    return total


def sifted(a, k):
    n = len(a)
    for root in range(n // 2, -1, -1):
        while 2 * root + k - 2 < n:
            child = 2 * root + k - 2
            if child + 1 < n and a[child + 1] > a[child]:
                child += 1
            if a[root] >= a[child]:
                break
            a[root], a[child] = a[child], a[root]
            root = child
    return a


def neighbours(a, k):
    s = 0.0
    for i in range(len(a)):
        if i > 0:
            s += a[i - 1]
        if i + k < len(a):
            s -= a[i + k]
        if i - k >= 0 and i != 5:
            s += 2.0 * a[i - k]
    return s


def near_the_largest(a, k):
    i = LARGE - 40 + k
    n = LARGE
    steps = 0
    while i < n and steps < 60:
        i += 2
        steps += 1
        if a[steps % len(a)] < 0:
            n = i + 3
    return i, n, steps


def no_zero(a, k):
    s = 0.0
    while k != 0:
        k -= 1
        s += a[k]
        if k < -2:
            break
    return s


def stored_behind_branches(a, k):
    for i in range(len(a)):
        x = a[i] * 1e300
        if i > k:
            a[i - k] = x * x
        if i + 2 <= len(a) - k:
            a[i + 2 + k - 1] += 1.0
    return a


def from_the_edge(a, k):
    out = np.zeros(len(a))
    for i in range(len(a) - 1, -1, -1):
        s = a[i]
        if i > 0:
            s += a[i - 1]
        if i < len(a) - 1:
            s += a[i + 1]
        if k <= i:
            s -= a[i - k]
        out[i] = s
    return out


def but_the_first(a, k):
    t = np.zeros((len(a) + 1, 9))
    for i in range(len(a) + 1):
        for j in range(9):
            if i == 0 or j == 0:
                t[i, j] = i - j
            elif a[i - 1] < 0.25 * j:
                t[i, j] = t[i - 1, j - 1] + k
            else:
                t[i, j] = max(t[i - 1, j], t[i, j - 1])
    return t


def but_the_last(a, k):
    s = 0.0
    n = len(a)
    for i in range(n):
        s += a[i] - a[i + 1] if i != n - 1 else a[k % n]
    for i in range(n - 1, -1, -1):
        s -= a[i - 1] * k if i != 0 else 1.0
    return s


def but_one(a, k):
    s = 0.0
    for i in range(k, len(a), 2):
        if i == k:
            s += 1.0
        else:
            s += a[i - 2] - a[i]
        if i + 1 != len(a) - k and i != 7:
            s *= a[i - 7]
    return s


AROUND = [stored_behind_branches, from_the_edge, neighbours, but_the_first, but_the_last, but_one]
PROGRAMS = [*AROUND, insertion, downwards, from_both_ends, bisection, sifted, near_the_largest, no_zero]


@pytest.mark.parametrize("fn", PROGRAMS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_indices_behind_branches(fn, sign):
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(2):
        for size in [200, 5, 4, 3, 2, 1, 0]:
            for k in [3, 0, 1, 2, 4, 39, 199, -1, -3, -7]:
                if (fn, k) in [(from_both_ends, 0), (no_zero, -1)] or (fn is from_both_ends and k < 0 and size > 100):
                    continue
                check(fn, fast, lambda size=size, k=k: (sign * np.sin(np.arange(size)), k), what=f"size {size}, k = {k}")
    assert fast.loops
