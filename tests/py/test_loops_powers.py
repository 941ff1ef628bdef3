"""Powers by a constant in native loops: to the bit what CPython and NumPy get from the C library's pow, and where they raise,
warn or give a complex number, the loop is left there."""

import math

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter
RNG = np.random.default_rng(11)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 5e-324, 1e-160, 1e-154, 1.5e154, -1e100, 1e308, math.inf, -math.inf, math.nan]
WIDE = (RNG.random(4000) - 0.5) * 10.0 ** RNG.integers(-45, 45, 4000)
NEAR = np.concatenate([1 + RNG.integers(-99, 99, 300) * 2.0**-52, math.sqrt(2) + RNG.integers(-9, 9, 50) * 2.0**-52])


def squares(a, o):
    for i in range(len(a)):
        o[i] = a[i] ** 2


def cubes(a, o):
    for i in range(len(a)):
        o[i] = a[i] ** 3


def high(a, o):
    for i in range(len(a)):
        o[i] = a[i] ** 7 + a[i] ** 12.0 - a[i] ** 16


def roots(a, o):
    for i in range(len(a)):
        o[i] = a[i] ** 0.5


def of_floats(a, o):
    for i in range(len(a)):
        x = float(a[i])
        o[i] = x**2 - x**3.0


def roots_of_floats(a, o):
    for i in range(len(a)):
        o[i] = float(a[i]) ** 0.5


def distance(a, o):
    s = 0.0
    for i in range(len(a)):
        s += (a[i] - o[i]) ** 2
    return s**0.5


PROGRAMS = [squares, cubes, high, roots, of_floats, roots_of_floats, distance]


@pytest.mark.parametrize("fn", PROGRAMS)
@pytest.mark.parametrize("numbers", [np.abs(WIDE), WIDE, NEAR, np.abs(SPECIAL)], ids=["above", "wide", "near", "special"])
def test_powers_are_those_of_the_library(fn, numbers):
    fast = dynoc.optimize(fn, wait=True)
    check(fn, fast, lambda: (np.abs(WIDE), np.zeros(4000)))
    assert "native" in fast.loops[0]
    check(fn, fast, lambda: (numbers.copy(), np.zeros(len(numbers))))


@pytest.mark.parametrize("fn", PROGRAMS)
def test_a_power_that_is_refused_or_reported_leaves_at_its_trip(fn):
    fast = dynoc.optimize(fn, wait=True)
    for x in SPECIAL:
        for size in (1, 3, 40):
            numbers = np.full(size, 3.0)
            numbers[size // 2] = x
            check(fn, fast, lambda n=numbers: (n.copy(), np.zeros(len(n))), what=f"{x}, {size}")
