"""Stores into what their value is made of: each element of its own, and rows, columns or elements of the same matrix, which are
copied first where that's cheaper than a copy of the whole. Values, bits and warnings are NumPy's."""

import warnings

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter

SIZES = [48, 64, 65, 71, 72, 100, 2, 7, 1]


def shortest_paths(m, k):
    m[:] = np.minimum(m[:], np.add.outer(m[:, k], m[k, :]))


def eliminate(m, k):
    m[k + 1 :, k + 1 :] -= np.outer(m[k + 1 :, k], m[k, k + 1 :])


def by_element(m, k):
    m *= m[k, k]


def by_first_rows(m, k):
    m += m[:1] * m[1:2, :1]


def backwards(m, k):
    m[:] = np.maximum(m, m[k, ::-1]) - m[::-1, k, None]


def turned(m, k):
    m.T[:] = m.T + m[:, k]


def looked_up(m, k):
    m[:] = m + m[np.array([1, 0]), k][:1]


def neighbours(m, k):
    m[1:] = m[:-1] + m[0]


def twice(m, k):
    m -= m[k]
    m -= m[:, k, None]


FUNCTIONS = [shortest_paths, eliminate, by_element, by_first_rows, backwards, turned, looked_up, neighbours, twice]


def numbers(rows, columns, dtype):
    rng = np.random.default_rng(rows * 1000 + columns)
    if dtype[0] == "i":
        return rng.integers(-9, 9, (rows, columns)).astype(dtype)
    return rng.standard_normal((rows, columns)).astype(dtype)


def check(function, fast, m, k):
    """`m` is what is stored into, which may be a part of its base."""
    base = m if m.base is None else m.base
    before = base.copy()
    function(m, k)
    want = base.copy()
    base[:] = before
    fast(m, k)
    np.testing.assert_array_equal(base, want)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i1", "i4"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_sizes(function, dtype, tier):
    fast = dynoc.optimize(function, wait=tier == "native")
    for n in SIZES:
        for rows in (n, 50, 2):
            for k in (0, min(n, rows) - 1):
                if function in (by_first_rows, looked_up) and rows < 2:
                    continue
                check(function, fast, numbers(rows, n, dtype), k)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_strides(function):
    fast = dynoc.optimize(function, wait=True)
    for k in (3, 17):
        for part in (lambda m: m.T, lambda m: m[:, ::-1], lambda m: m[::-2], lambda m: m[5:60, 7:62], lambda m: m[:, ::3]):
            check(function, fast, part(numbers(75, 75, "f8")), k)


def test_warnings():
    def quotients(m, k):
        m /= m[:, k, None]

    fast = dynoc.optimize(quotients, wait=True)
    m = np.abs(numbers(60, 71, "f8")) + 1
    fast(m.copy(), 2)
    m[31, 2] = 0
    said, got = [], []
    for f in (quotients, fast):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got.append(m.copy())
            f(got[-1], 2)
        said.append([str(w.message) for w in caught])
    assert said[0] == said[1] != []
    np.testing.assert_array_equal(*got)
