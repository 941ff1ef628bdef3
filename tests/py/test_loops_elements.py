"""Loops that add to one element of an array are native with that element in a register (codegen/region/element.c), where nothing
else that a trip reads or writes is in its place: values, warnings, exceptions and arrays are CPython's in either case."""

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter


def product(c, a, b):
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


def factored(c, a, b):
    for i in range(c.shape[0]):
        for j in range(i):
            for k in range(j):
                c[i, j] -= c[i, k] * c[k, j]
            c[i, j] = c[i, j] / (c[j, j] + 3.0)
        for j in range(i, c.shape[1]):
            for k in range(i):
                c[i, j] -= c[i, k] * c[k, j]
    return c


def seidel(c, a, b):
    """What is read is what is written, in one trip of each loop."""
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            c[i, 3] -= a[i, j] * c[i, j] * 0.125
    return c


def largest_of_rows(c, a, b):
    for i in range(c.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > c[i, 0]:
                c[i, 0] = a[i, j]
    return c


def left_in_the_middle(c, a, b):
    for i in range(c.shape[0]):
        for j in range(a.shape[1]):
            c[i, 1] += a[i, j]
            if c[i, 1] > 4.0:
                break
        c[i, 2] = c[i, 1]
    return c


def gathered(c, a, b):
    at = (b[0] * 7.0).astype(np.int64)
    for i in range(c.shape[0]):
        for j in range(len(at)):
            c[i, 1] += a[i, at[j]] * b[j, 2]
    return c


def behind_the_end(c, a, b):
    for i in range(c.shape[0]):
        for j in range(a.shape[1] + (i == 9)):
            c[i, 1] += a[i, j]
    return c


def two_elements(c, a, b):
    for i in range(c.shape[0]):
        for j in range(a.shape[1]):
            c[i, 1] += a[i, j]
            c[i, 2] -= a[i, j] * b[j, i]
    return c


def beside_a_row(c, a, b):
    for i in range(c.shape[0]):
        for j in range(a.shape[1]):
            c[i, 1] += a[i, j]
            a[i, j] = c[i, 1]
    return c


def backwards(c, a, b):
    for i in range(c.shape[0]):
        for j in range(a.shape[1] - 1, -1, -2):
            c[i, j - j] = c[i, 0] * 0.5 + a[i, j]
    return c


def twice_a_trip(c, a, b):
    for i in range(c.shape[0]):
        for j in range(a.shape[1]):
            c[i, 1] += a[i, j]
            c[i, 1] *= 0.75
    return c


PROGRAMS = [product, factored, seidel, largest_of_rows, left_in_the_middle, gathered, behind_the_end, two_elements]
PROGRAMS += [beside_a_row, backwards, twice_a_trip]
N = 24


def apart(dtype):
    rng = np.random.default_rng(5)
    return rng.random((N, N)).astype(dtype), rng.random((N, N)).astype(dtype), rng.random((N, N)).astype(dtype)


def shared(dtype):
    c, a, b = apart(dtype)
    return c, c, c


def rows_of_one(dtype):
    """The element's row begins where rows that are read end, or in their middle."""
    base = np.random.default_rng(6).random(2 * N * N + 40).astype(dtype)
    return base[N : N + N * N].reshape(N, N), base[: N * N].reshape(N, N), base[40 : 40 + N * N].reshape(N, N).T


def still(dtype):
    """All elements of what is read are in one place, or those of each column are."""
    c, a, b = apart(dtype)
    return c, np.broadcast_to(a[0], (N, N)), np.broadcast_to(c[0, :1], (N, N))


def reversed_rows(dtype):
    c, a, b = apart(dtype)
    return c[::-1, ::-1], c[:, ::-1], b[::-1]


MAKERS = [apart, shared, rows_of_one, still, reversed_rows]


def with_special(made, special):
    for x in made[1:]:
        if x.flags.writeable and special is not None:
            x[N - 3, N - 5] = special
    return made


@pytest.mark.parametrize("make", MAKERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_what_arrays_hold(fn, make):
    fast = dynoc.optimize(fn, wait=True)
    for dtype in (np.float64, np.float32):
        for special in (None, np.nan, np.inf, float(np.finfo(dtype).max)):
            for how in ("warn", "raise"):
                with np.errstate(over=how, invalid=how):
                    check(fn, fast, lambda: with_special(make(dtype), special), what=(dtype, special, how))  # noqa: B023
    refused = make is still and fn is beside_a_row  # it can't be written to
    assert refused or "native" in str(fast.loops)


def added(c, a, b):
    for i in range(len(c)):
        for j in range(a.shape[1]):
            c[i] += a[i, j] * b[j]
    return c


@pytest.mark.parametrize("large", [0, 1 << 61])
def test_ints_that_overflow_warn_at_their_trip(large):
    def make():
        rng = np.random.default_rng(8)
        a = rng.integers(-9, 9, (N, N))
        a[N // 2, 7:] = large
        return np.zeros(N, dtype=np.int64), a, rng.integers(1, 9, N)

    fast = dynoc.optimize(added, wait=True)
    for _ in range(3):
        check(added, fast, make)
    assert "native" in str(fast.loops)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9, 40, 300, 1100, 2500])
def test_trips_of_any_number(n):
    def make():
        rng = np.random.default_rng(n)
        return np.zeros(5), rng.random((5, n)), rng.random(n)

    fast = dynoc.optimize(added, wait=True)
    for _ in range(3):
        check(added, fast, make)
