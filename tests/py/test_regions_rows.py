"""Native loops that choose rows of arrays by masks and by vectors of ints."""

import numpy as np
import pytest
from regions import check


def centres(points, owner, out, k):
    for c in range(k):
        chosen = points[owner == c]
        out[c] = chosen.sum(axis=0)
        n = len(chosen)
    return out, n, chosen


def means(points, owner, out, k):
    for c in range(k):
        out[c] = points[owner == c].mean(axis=0)
    return out


def picked(a, index, s):
    for i in range(len(index)):
        rows = a[index[i]]
        s += rows[0, 1] * 2 + rows[-1, 0] * 3
    return s, rows


def by_mask(a, mask, s):
    for i in range(3):
        rows = a[mask]
        s += rows.shape[0]
        a[0, 0] = s
    return s, rows


def boxes(a, index, n):
    for i in range(n):
        chosen = a[index]
        chosen[0, 0, 0] += i
    return chosen, a


def points(n=12, dtype="f8"):
    return (np.arange(3 * n).reshape(n, 3) % 7).astype(dtype)


@pytest.mark.parametrize("function", [centres, means])
def test_clusters(function):
    check(function, (points(), np.arange(12) % 3, np.zeros((3, 3)), 3), [iter(range(3))])


def test_empty_cluster_warns():
    check(means, (points(), np.zeros(12, dtype=int), np.zeros((3, 3)), 3), [iter(range(3))])


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1", "?"])
def test_rows_by_indices(dtype):
    index = np.array([[0, 5, -1], [2, 2, 2]])
    check(picked, (points(dtype=dtype), index, 0), [iter(range(2))])


def test_an_index_outside():
    check(picked, (points(), np.array([[0, 1], [3, 12]]), 0), [iter(range(2))])
    check(picked, (points(), np.array([[0, 1], [3, -13]]), 0), [iter(range(2))])


@pytest.mark.parametrize("mask", [np.arange(12) % 2 == 0, np.zeros(12, bool), np.ones(12, bool), np.ones(11, bool)])
def test_rows_by_masks(mask):
    check(by_mask, (points(), mask, 0), [iter(range(3))])


def test_strided():
    check(by_mask, (points(24)[::2, ::-1], np.arange(12) % 3 == 0, 0), [iter(range(3))])


def test_three_axes():
    check(boxes, (np.arange(24.0).reshape(4, 3, 2), np.array([3, 0, 3]), 3), [iter(range(3))])
