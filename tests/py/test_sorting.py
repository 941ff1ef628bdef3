"""Lists that are sorted and compared: keys with nan, long lists, lists that a comparison changes."""

import numpy as np
from outcomes import same

import dynoc


def listed(x, pairs, more):
    return list(enumerate(more)) == pairs, x + 1


def test_long_lists_are_listed_and_compared_in_time():
    same(listed, np.arange(3.0), list(enumerate(range(10000))), range(10000))


def sorted_alike(values):
    first = sorted(values)
    second = [pair[1] for pair in sorted([(0, v) for v in values])]
    return all(a is b for a, b in zip(first, second)), [a in [b] for a, b in zip(first, second)]


def sorted_nans():
    return sorted_alike([float("nan")] * 20), sorted_alike([float("nan") for _ in range(20)])


def test_sorting_keeps_nans():
    same(sorted_nans)


def test_lists_that_their_comparison_empties():
    """What is compared is gone when it is looked at."""

    def f(x):
        class Emptier:
            def __init__(self, other):
                self.other = other

            def __eq__(self, other):
                self.other.clear()
                return NotImplemented

        first, second = [], []
        first.append(Emptier(second))
        second.append(Emptier(first))
        return first == second, first, second, x + 1.0

    fast = dynoc.optimize(f, wait=True)
    for _ in range(4):
        for got, want in zip(fast(np.ones(3)), f(np.ones(3)), strict=True):
            assert np.array_equal(got, want)
