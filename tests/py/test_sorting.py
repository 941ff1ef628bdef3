"""Lists that are sorted and compared: keys with nan, long lists, lists that a comparison changes."""

import traceback

import numpy as np

import dynoc


@dynoc.skip
def outcome(fn, arguments):
    try:
        return repr(fn(*arguments()))
    except Exception as error:
        rows = [(row.name, row.lineno) for row in traceback.extract_tb(error.__traceback__) if row.name != "outcome"]
        return type(error), str(error), rows


@dynoc.skip
def same(fn, *arguments, again=None, turns=3):
    """Calls, alone and with every function offered to the recorder, give what plain Python gives."""
    again = again or (lambda: arguments)
    expected = outcome(fn, again)
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(turns):
        assert outcome(fast, again) == expected, f"call {turn + 1}"
    before = dynoc.config.record_all
    dynoc.config.record_all = True
    try:
        with dynoc.enabled(wait=True):
            for turn in range(turns):
                assert outcome(fn, again) == expected, f"call {turn + 1}, everything recorded"
    finally:
        dynoc.config.record_all = before


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
