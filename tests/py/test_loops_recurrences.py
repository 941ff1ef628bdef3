"""Native loops with numbers that each trip multiplies, adds to and cuts off: several trips are computed at once from the first
one's number, and what comes is CPython's for any number of trips and whatever the number is at first."""

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter
TRIPS = [0, 1, 7, 8, 9, 15, 16, 17, 24, 255, 256, 257, 1023, 1024, 1025, 1039, 3000]
SEEDS = [12345, 0, -7, 2**31, 2**40, 2**62, 2**70, True]


def alone(n, x):
    for i in range(n):
        x = (1103515245 * x + 12345) % 2147483648
    return x


def twice(n, x):
    inside = 0
    for i in range(n):
        x = (1664525 * x + 1013904223) % 4294967296
        a = x / 4294967296.0
        x = (1664525 * x + 1013904223) % 4294967296
        b = x / 4294967296.0
        if a * a + b * b < 1.0:
            inside += 1
    return inside, x


def left_early(n, x):
    count = i = 0
    for i in range(n):
        x = (x * 16807 - 5) & 0x7FFFFFFF
        if x & 1024:
            count += i
        if x % 701 == 7:
            break
    return x, count, i


def two_numbers(n, x):
    y = total = 0
    for i in range(n):
        x = (x * 5 + 3) % 1024
        y = (y * 13 + x) % 4096
        total += x ^ y
    return x, y, total


def in_some_trips(n, x):
    for i in range(n):
        if i % 3 == 0:
            x = (x * 69069 + 1) & 0xFFFF
    return x


def outgrows(n, x):
    for i in range(n):
        x = (6364136223846793005 * x + 1) % 4611686018427387904
    return x


def wider_and_wider(n, x):
    for i in range(n):
        x = ((x & 255) * 1103515245 + 12345) & 0x3FFFFFFF
    return x


def by_prime(n, x):
    for i in range(n):
        x = x * 16807 % 2147483647
    return x


def nearby(n, x):
    a = b = 1
    for i in range(n):
        a, b = b, (a + b + x) % (n + 1)
        a = (a - x) % (n + 5)
    return a, b


PROGRAMS = [alone, twice, left_early, two_numbers, in_some_trips, outgrows, wider_and_wider, by_prime, nearby]


@pytest.mark.parametrize("fn", PROGRAMS)
def test_any_number_of_trips(fn):
    fast = dynoc.optimize(fn, wait=True)
    check(fn, fast, lambda: (3000, 1))
    assert "native" in fast.loops[0]
    for seed in SEEDS:
        for n in TRIPS:
            check(fn, fast, lambda n=n, seed=seed: (n, seed), what=f"n = {n}, x = {seed}")


def filled(a, x):
    for i in range(len(a)):
        x = (x * 69069 + 1) & 0xFFFFFFFF
        a[i] = 1.0 / (x >> 16)
    return a, x


def scattered(a, x):
    for i in range(len(a)):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
        a[(x >> 8) % len(a)] += 1.0
        a[x & 255] -= 1.0
    return a, x


@pytest.mark.parametrize("fn", [filled, scattered])
def test_what_is_stored_in_arrays(fn):
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(2):
        for n in [256, 3000, 255, 257, 20, 9, 1, 0]:
            for seed in [3, -9, 2**40]:
                check(fn, fast, lambda n=n, seed=seed: (np.zeros(n), seed), what=f"n = {n}, x = {seed}")


def of_numpy(n, x, m, c):
    for i in range(n):
        x = x * m + c
    return x


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.int64])
def test_numbers_of_numpy_that_wrap_around(dtype):
    fast = dynoc.optimize(of_numpy, wait=True)
    numbers = (3, 77, 5) if dtype == np.uint8 else (3, 20077, 1013)
    for _ in range(2):
        for n in TRIPS[:8]:
            check(of_numpy, fast, lambda n=n: (n, *map(dtype, numbers)), what=f"n = {n}")
