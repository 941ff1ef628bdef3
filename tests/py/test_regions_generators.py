"""Loops through generators of Python functions: all exits of their regions, in the loop's body and in the generator's."""

import numpy as np
import math

import pytest
from regions import check


def squares(n):
    i = 0
    while i < n:
        yield i * i
        i += 1


def evens(a, k):
    """Goes on for several trips of its own between two values."""
    for i, x in enumerate(a):
        y = x * k
        if y % 2 == 0:
            yield y


def triangle(a):
    for i in range(len(a)):
        for j in range(i):
            yield i, j, a[i] - a[j]


def alternating(n):
    for i in range(n):
        yield i
        if i % 3 == 1:
            given = yield -i
            assert given is None
        yield 2 * i


def early(n):
    i = 1
    while True:
        if i * i > n:
            return i
        yield i
        i += 1


def divides(n):
    for i in range(n, -3, -1):
        yield 100 // i


def appends(n):
    out = [0]
    for i in range(n):
        out.append(out[-1] + i)
        yield out[-1]


def chars(text):
    for c in text:
        if c != "b":
            yield c


NUMBERS = [3, 4, 8, 1, 5, 10**30, 6, 2]
ARRAY = np.array([0.5, -1.5, 4.0, 3.25, 1e300])


def in_loop(k, n, t):
    for j in range(n):
        for x in squares(j):
            t += x * k
            if t > 1000:
                break
    return t


def numbered(k, n, t):
    for j in range(n):
        for i, x in enumerate(alternating(j), k):
            t += x * i
        else:
            t += 1
    return t


def nested(k, n, t):
    for j in range(n):
        for x in early(j):
            for y in squares(x):
                t = t * 3 + y - k
    return t


def triangles(k, n, t):
    for j in range(n):
        for a, b, d in triangle(ARRAY):
            t += d * (a - b)
    return t


def wholes(k, n, t):
    for j in range(n):
        t += max(early(20))
        t += sum(squares(j)) + len(list(alternating(j)))
        t += min(early(9 + j))
        t += any(divides(-5)) + all(squares(j))
    return t


def fails(k, n, t):
    for j in range(n):
        for x in divides(j):
            t += x
    return t


def big(k, n, t):
    for j in range(n):
        for x in evens(NUMBERS, k):
            t += x
    return t


def of_text(k, n, out):
    for j in range(n):
        for c in chars("abcab"):
            out.append(c)
    return out


def made(k, n, t):
    for j in range(n):
        for x in appends(j):
            t += x
    return t


@pytest.mark.parametrize("n", [0, 1, 2, 7])
@pytest.mark.parametrize("f", [in_loop, numbered, nested, triangles, wholes, fails, big, of_text], ids=lambda f: f.__name__)
def test_made_in_the_loop(f, n):
    text = check(f, (3, n, [] if f is of_text else 0), [iter(range(n))])
    assert f is wholes or n == 0 or "paused" in text


def first(t, k):
    for i, x in enumerate(()):
        t = t * k + i * x
    return t


COMING = {
    "squares": lambda: squares(9),
    "none": lambda: squares(4),
    "alternating": lambda: alternating(9),
    "evens": lambda: evens(NUMBERS, 7),
    "array": lambda: evens(np.arange(9), 3),
    "early": lambda: early(50),
    "divides": lambda: divides(6),
}


def begun(make, n):
    it = enumerate(make())
    for _ in range(n):
        next(it, None)
    return it


@pytest.mark.parametrize("n", [0, 1, 2, 4])
@pytest.mark.parametrize("make", COMING.values(), ids=COMING)
def test_comes_in(make, n):
    """The generator is that of an enumerate object, which nobody else has; it may have begun."""
    text = check(first, (0, 2), lambda: [begun(make, n)])
    assert "paused" in text


@pytest.mark.parametrize("make", [lambda: squares(0), lambda: evens(np.arange(0), 3)], ids=["squares", "array"])
def test_comes_in_empty(make):
    check(first, (0, 2), lambda: [begun(make, 0)])


def sums(values, n, out):
    for i in range(n):
        out.append(sum(v for v in values))
        out.append(sum(v * i for v in values))
        out.append(sum(v if v > 1 else i for v in values))
    return out


def rows_by_columns(a, b, n, total):
    for i in range(n):
        total += sum(a[i][k] * b[k][i] for k in range(n))
    return total


SUMMED = [
    [1e16, 1.0, -1e16, 0.5],
    [0.1] * 6,
    [1, 0.1, 2, 0.2],
    [0.3, True, 2**52, 0.7],
    [math.inf, 1.0, 2.0],
    [math.inf, -math.inf, 1.0],
    [1e308, 1e308, -1e308],
    [-0.0, -0.0],
    [math.nan, 1.0, 0.1],
    [2**62, 2**62, 0.5],
]


@pytest.mark.parametrize("values", SUMMED, ids=repr)
def test_sums_of_floats_are_corrected_as_in_cpython(values):
    check(sums, (values, 2, []), [iter(range(2))], forced=len(values) == 4)


def test_products_of_rows_and_columns():
    a = [[10.0 ** (3 * i - 2 * j) for j in range(5)] for i in range(5)]
    b = [[0.1 * i - 1e9 * (j % 2) for j in range(5)] for i in range(5)]
    check(rows_by_columns, (a, b, 5, 0.0), [iter(range(5))], leaves="OK")
