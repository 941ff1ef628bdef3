"""Native loops that write to arrays: many trips are done without a look at each number, and done again, one by one, where NumPy
may have to warn or something can't be done. What was overwritten meanwhile is what it was in front of those trips, warnings come
at their lines, and exceptions find what CPython would have stored by then."""

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter
N = 700  # some hundred trips at a time


def relaxed(u, limit):
    for i in range(1, len(u) - 1):
        u[i] = 0.5 * (u[i - 1] + u[i + 1])
    return u


def some_stored(u, limit):
    kept = 0
    for i in range(len(u)):
        if u[i] * 2.0 > limit:
            u[i] = u[i] * u[i]
            kept += 1
    return u, kept


def backwards(u, limit):
    for i in range(len(u) - 1, 2, -3):
        u[i] = u[i - 2] * 3.0 - u[i]
    return u


def two_stores(u, limit):
    for i in range(1, len(u)):
        u[i - 1] = u[i] * u[i]
        u[i] = u[i - 1] - limit
    return u


def hidden_store(u, limit):
    for i in range(len(u)):
        u[i] = u[i] * u[i]
        u[i] = limit
    return u


def one_place(u, limit):
    for i in range(1, len(u)):
        u[0] = u[0] + u[i] * u[i]
    return u


def places_of_rows(u, limit):
    rows = u[:400].reshape(20, 20)
    for i in range(20):
        for k in range(20):
            rows[i, 3] += rows[k, i] * rows[i, k]
    return u


def some_added(u, limit):
    for i in range(1, len(u)):
        if u[i] > limit:
            u[0] -= u[i] * u[i]
    return u


def overwritten_unread(u, limit):
    for i in range(1, len(u)):
        u[0] = u[i] * u[i]
    return u


def loaded_elsewhere(u, limit):
    for i in range(2, len(u)):
        u[0] = u[1] * u[i] + u[i]
    return u


def left_in_the_middle(u, limit):
    for i in range(len(u)):
        u[i] = u[i] + 1.0
        if u[i] > 1e6:
            break
    return u, i


def roots(u, limit):
    for i in range(len(u)):
        u[i] = limit / (u[i] + 0.25)
    return u


PROGRAMS = [relaxed, some_stored, backwards, two_stores, hidden_store, one_place, left_in_the_middle, roots]
PROGRAMS += [places_of_rows, some_added, overwritten_unread, loaded_elsewhere]


def numbers(kind, dtype=np.float64):
    u = np.random.default_rng(3).random(N).astype(dtype)
    most = np.finfo(dtype).max
    special = {"plain": {}, "large": {300: most / 2, 301: most}, "nan": {5: np.nan}, "inf": {400: np.inf}}
    for place, number in special[kind].items():
        u[place] = number
    return u


def same(fn, fast, make):
    """check(), also where what NumPy warns of is an exception, and where it says nothing."""
    for how in ("warn", "raise", "ignore"):
        with np.errstate(over=how, invalid=how, divide=how):
            check(fn, fast, make, what=how)


@pytest.mark.parametrize("kind", ["plain", "large", "nan", "inf"])
@pytest.mark.parametrize("fn", PROGRAMS)
def test_arrays_are_what_cpython_leaves(fn, kind):
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(2):
        same(fn, fast, lambda: (numbers(kind), 0.5))
        same(fn, fast, lambda: (numbers(kind, np.float32), np.float32(0.5)))
    assert "native" in fast.loops[0]


@pytest.mark.parametrize("fn", PROGRAMS)
def test_elements_that_lie_apart_or_in_columns(fn):
    fast = dynoc.optimize(fn, wait=True)
    same(fn, fast, lambda: (np.repeat(numbers("large"), 3)[::3], 0.5))
    same(fn, fast, lambda: (numbers("large")[::-1], 0.5))


def prefix(counts, more):
    for i in range(1, len(counts)):
        counts[i] = counts[i] + counts[i - 1]
    return counts


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.int16])
def test_ints_that_overflow_warn_at_the_very_element(dtype):
    def make():
        counts = np.ones(N, dtype=dtype)
        counts[N // 2] = np.iinfo(dtype).max
        return counts, 0

    fast = dynoc.optimize(prefix, wait=True)
    for _ in range(2):
        same(prefix, fast, make)


def shifted(a, b):
    for i in range(len(a) - 1):
        a[i + 1] = b[i] * 2.0
    return a, b


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[1:], lambda a: a[::-1], lambda a: a.copy()])
def test_arrays_that_share_memory(view):
    def make():
        a = np.full(N, 1e300)
        return a, view(a) if len(view(a)) == N else np.concatenate([view(a), a[:1]])

    fast = dynoc.optimize(shifted, wait=True)
    for _ in range(2):
        same(shifted, fast, make)


def test_an_index_outside_finds_what_was_stored_before():
    def outside(a, n):
        for i in range(n):
            a[i] = a[i] + 1.0

    fast = dynoc.optimize(outside, wait=True)
    for _ in range(3):
        a, b = np.zeros(N), np.zeros(N)
        with pytest.raises(IndexError):
            outside(a, N + 5)
        with pytest.raises(IndexError):
            fast(b, N + 5)
        assert a.tolist() == b.tolist() == [1.0] * N
