"""Branches on data that only sizes decide, and, where no break is allowed, on any data: checked in the graph."""

import numpy as np
import pytest

import dynoc


def left():
    return dynoc.counters.get("graph_breaks", {}).get("LEFT", 0)


def has_gap(n):
    return bool((np.diff(np.arange(n) * np.arange(n)) > 12).any())


def by_size(x):
    if (np.diff(np.arange(len(x)) * np.arange(len(x))) > 12).any():
        return x + 1.0
    return x * 2.0


@pytest.mark.parametrize("fullgraph", [False, True])
def test_what_sizes_decide_is_one_entry_as_long_as_it_is_the_same(fullgraph):
    before = dict(dynoc.counters.get("graph_breaks", {}))
    fast = dynoc.optimize(by_size, wait=True, fullgraph=fullgraph)
    for n in (2, 3, 5, 7, 2, 6):
        assert not has_gap(n)
        np.testing.assert_array_equal(fast(np.ones(n)), by_size(np.ones(n)))
    assert len(fast.entries) == 1 and dict(dynoc.counters.get("graph_breaks", {})) == before


def test_a_wrong_guess_is_left_once_and_not_made_again():
    fast = dynoc.optimize(by_size, wait=True)
    before = left()
    for n in (3, 5, 9, 9, 5, 12, 9, 3, 12):
        np.testing.assert_array_equal(fast(np.ones(n)), by_size(np.ones(n)))
    assert left() == before + 1
    assert len(fast.entries) == 4 and sum(e.hits for e in fast.entries) == 2


def by_data(x, out):
    y = x * 2.0
    if (y > 0.0).all():
        out.append("all")
        return y + 1.0
    out.append("some")
    return y - 1.0


def test_data_decides_in_one_graph_where_no_break_is_allowed():
    fast = dynoc.optimize(by_data, wait=True, fullgraph=True)
    before, ran, plain = left(), [], []
    for sign in (1.0, 1.0, -1.0, 1.0, -1.0):
        x = np.arange(1.0, 5.0) * sign
        np.testing.assert_array_equal(fast(x, ran), by_data(x, plain))
    assert ran == plain
    assert left() > before


def test_data_decides_by_a_break_elsewhere():
    fast = dynoc.optimize(by_data, wait=True)
    before, ran, plain = left(), [], []
    for sign in (1.0, 1.0, -1.0, 1.0, -1.0, -1.0):
        x = np.arange(1.0, 5.0) * sign
        np.testing.assert_array_equal(fast(x, ran), by_data(x, plain))
    assert ran == plain and left() == before


def test_a_random_number_is_asked_for_once():
    def draws(x, rng):
        return x + 1.0 if rng.random(3).sum() > 1.5 else x - 1.0

    fast = dynoc.optimize(draws, wait=True)
    for seed in range(6):
        a, b = np.random.default_rng(seed), np.random.default_rng(seed)
        np.testing.assert_array_equal(fast(np.ones(3), a), draws(np.ones(3), b))
        assert a.random() == b.random()


def largest(x, y, n):
    scaled = y + 1
    return scaled * (1 if max(x, n, 1) else 0)


def test_what_an_instruction_has_asked_before_it_breaks_is_forgotten():
    fast = dynoc.optimize(largest, wait=True)
    for x, n in ((2.5, 1), (2.5, 3), (0.5, 0), (2.5, 1)) * 2:
        np.testing.assert_array_equal(fast(np.float64(x), np.arange(3), n), largest(np.float64(x), np.arange(3), n))
