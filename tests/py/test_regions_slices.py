"""Native loops over slices of arrays, and products of vectors."""

import dynoc
import numpy as np
import pytest
from regions import Case, check


def solved(lower, x, b):
    for i in range(len(x)):
        x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]
    return x


def decomposed(a):
    for i in range(len(a)):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ a[:j, j]) / a[j, j]
        for j in range(i, len(a)):
            a[i, j] -= np.dot(a[i, :i], a[:i, j])
    return a


def sums(a, k, out):
    for i in range(len(a)):
        row = a[i:, ::-2]
        out[i] = row[0, -1] + len(row) + row.shape[1]
        last = a[k:k + i, i % 2]
        for x in last:
            out[i] += x
    return out, row, last


def triangle(n):
    return np.random.default_rng(n).random((n, n)) + n * np.eye(n)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 40])
def test_products_of_slices(n):
    check(solved, (triangle(n), np.zeros(n), np.ones(n)), [iter(range(n))])
    check(solved, (triangle(n).T, np.zeros(2 * n)[::2], -np.ones(n)), [iter(range(n))])
    check(decomposed, (triangle(n),), [iter(range(n))])


@pytest.mark.parametrize("k", [0, 1, -2, 5, -9, np.int64(2)], ids=str)
def test_slices(k):
    a = np.arange(24.0).reshape(4, 6)
    check(sums, (a, k, np.zeros(4)), [iter(range(4))])
    check(sums, (a.T, k, np.zeros(6)), [iter(range(6))])
    check(sums, (a[:, ::-1].astype(np.int32), k, np.zeros(4)), [iter(range(4))])


def test_products_are_bit_by_bit_those_of_numpy():
    def products(a, b, out):
        for i in range(len(out)):
            out[i] = a[: i + 1] @ b[: i + 1] + np.dot(a[i::3], b[i::3])
        return out

    fast = dynoc.optimize(products, wait=True)
    rng = np.random.default_rng(5)
    for scale in (1.0, 1e300, 1e-200, -0.0):
        a, b = rng.normal(size=(2, 300)) * scale
        with np.errstate(all="ignore"):
            assert fast(a, b, np.zeros(300)).tobytes() == products(a, b, np.zeros(300)).tobytes()
    assert fast.loops[0].startswith("native")


def test_lengths_that_differ_raise():
    def products(a, b, n):
        total = 0.0
        for i in range(n):
            total += a[:i] @ b[:i]
        return total

    fast = dynoc.optimize(products, wait=True)
    assert fast(np.ones(9), np.ones(9), 9) == 36.0
    with pytest.raises(ValueError, match="mismatch"):
        fast(np.ones(9), np.ones(5), 9)


def test_other_products_are_left_to_numpy():
    def products(a, b, out):
        for i in range(len(out)):
            out[i] = a[:i] @ b[:i]
        return out

    assert Case(products, (np.arange(5), np.arange(5), np.zeros(5)), [iter(range(5))]).refusal()
