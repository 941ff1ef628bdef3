"""Native loops that call operators as functions, and functions that give two numbers."""

import cmath
import math
import operator

import numpy as np
import pytest
from regions import check

FLOATS = [0.0, -0.0, 1.5, -2.75, 1e300, 5e-324, -1e-310, math.inf, -math.inf, math.nan, 3]


def binary(f, a, b, s):
    for x in a:
        s = f(x, b)
    return s, type(s)


def all_of_one(a, n):
    for x in a:
        n = operator.add(operator.mul(x, 3), n) if operator.lt(x, 3) else operator.neg(n)
        n = operator.getitem(a, 0) + n + operator.not_(x)
    return n


def divided(a, b, s):
    for x in a:
        q, r = divmod(x, b)
        s = s + q - r
    return q, r, s


def split(a, out):
    for x in a:
        m, e = math.frexp(x)
        f, w = math.modf(x)
        out.append(m)
        out.append(f)
        out.append(w)
    return m, e, f, w


def exponents(a, n):
    for x in a:
        n += math.frexp(x)[1]
    return n


def polar(a, s):
    for z in a:
        r, angle = cmath.polar(z)
        s += r * angle
    return r, angle, s


BINARY = "add sub mul truediv floordiv mod pow lt le eq ne gt ge".split()


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("a, b", [([1, 5, -7], 3), ([1.5, -2.0], 2), ([2, 9], 0.5), ([4, 1], 0)], ids=str)
def test_binary(name, a, b):
    check(binary, (getattr(operator, name), a, b, 0), [iter(a)])


@pytest.mark.parametrize("name", "and_ or_ xor lshift rshift".split())
def test_bitwise(name):
    check(binary, (getattr(operator, name), [1, 5, 2**40], 3, 0), [iter([1, 5, 2**40])])


def test_arrays():
    rows = np.arange(6.0).reshape(2, 3)
    check(binary, (operator.mul, rows, np.ones(3), 0), [iter(rows)])
    check(binary, (operator.matmul, rows, np.ones(3), 0), [iter(rows)])


def test_of_one():
    check(all_of_one, ([1, 2, 5, 0], 7), [iter([1, 2, 5, 0])])


@pytest.mark.parametrize("a, b", [([7, -7, 0], 3), ([7, -7], -2), ([7.5, -7.5], 2.0), ([1.0, 2], 0), ([3], 0)], ids=str)
def test_divmod(a, b):
    check(divided, (a, b, 0), [iter(a)])


def test_divmod_of_numpys():
    a = np.array([7, -7, 3])
    check(divided, (a, 4, 0), [iter(a)])
    check(divided, (a / 2, np.float64(1.5), 0), [iter(a / 2)])


@pytest.mark.parametrize("a", [[x] for x in FLOATS] + [FLOATS], ids=str)
def test_frexp_and_modf(a):
    check(split, (a, []), [iter(a)])
    check(exponents, (a, 0), [iter(a)])


@pytest.mark.parametrize("a", [[1 + 2j, -1j, 0j, -3 + 0j], [complex(math.inf, 1)], [complex(math.nan, 1)], [2.5, -1.0]], ids=str)
def test_polar(a):
    check(polar, (a, 0.0), [iter(a)])
