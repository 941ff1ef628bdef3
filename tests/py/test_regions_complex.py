"""Native loops over Python's complex numbers."""

import itertools
import sys

import pytest
from regions import Case, check

INF, NAN = float("inf"), float("nan")
VALUES = [1 + 2j, -0.5j, complex(-0.0, 0.0), complex(1e200, -1e200), complex(INF, 1.0), complex(NAN, -2.0), 3 - 1e-300j]
REAL = sys.version_info < (3, 14)


def mandelbrot(z, c, k):
    while abs(z) <= 2 and k < 30:
        z = z * z + c
        k += 1
    return z, k


def arithmetic(a, b, n):
    for i in range(3):
        s = a + b
        t = a - b
        u = a * b
        v = -a
        w = +b
        n += (a == b) + (a != s) + (not a) + bool(b)
        x = a.real - b.imag
        a, b = b, u
    return s, t, u, v, w, n, x


def divided(a, b, n):
    for i in range(2):
        n = a / b
        size = abs(n)
    return n, size


def made(x, y, n):
    for i in range(3):
        z = complex(x, i) + complex(y)
        n += z.imag
    return z, n


def with_reals(a, x, s):
    for i in range(3):
        s = s + a * x - i
        t = x / (a + 1j)
        if s == 2.5 or 2.0 != a:
            s += True
    return s, t


def beside_reals(a, x, s):
    for i in range(3):
        s = s + a * x - i
        t = x * a, x - a, a - x, x + a
        if x:
            u = a / x
        s += True
    return s, t, u


@pytest.mark.parametrize("a,b", list(itertools.product(VALUES, VALUES)), ids=str)
def test_arithmetic(a, b):
    check(arithmetic, (a, b, 0), [iter(range(3))], native=a == VALUES[0])
    check(divided, (a, b, 0), [iter(range(2))], native=a == VALUES[0])


@pytest.mark.parametrize("c", [0.1 + 0.2j, -1.5 + 0.1j, 1e300 + 0j, complex(NAN, 0)], ids=str)
def test_mandelbrot(c):
    check(mandelbrot, (0j, c, 0))


def test_division_by_zero():
    check(divided, (1 + 2j, 0j, 0), [iter(range(2))], leaves="EXCEPTION")


def test_complex_of_reals():
    check(made, (0.5, 2, 0.0), [iter(range(3))])
    check(made, (True, -0.0, 0.0), [iter(range(3))])


@pytest.mark.parametrize("x", [2, -0.5, True, -0.0])
def test_complex_and_real_numbers(x):
    """From CPython 3.14 on a quotient by a complex number is CPython's."""
    case = with_reals, (0.5 - 2j, x, 0j), [iter(range(3))]
    if REAL:
        check(*case)
    else:
        assert Case(*case).refusal()[0] == "UNSUPPORTED_OP"


@pytest.mark.parametrize("a", [*VALUES, complex(-0.0, -0.0), complex(INF, NAN), complex(0.0, -INF)], ids=str)
@pytest.mark.parametrize("x", [2, -0.5, True, INF, NAN, -INF, 1e-320])
def test_what_a_real_number_is_beside_a_complex_one(a, x):
    check(beside_reals, (a, x, 0j), [iter(range(3))], native=a == VALUES[0] and x == -0.5)


def test_a_complex_number_divided_by_zero():
    def halves(a, x):
        for i in range(3):
            a = a / x
        return a

    check(halves, (1 + 2j, 0.0), [iter(range(3))], leaves="EXCEPTION")
