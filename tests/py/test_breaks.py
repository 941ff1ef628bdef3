"""Graph breaks that resume: how many entries come of them, that these serve later trips and calls, and that nothing piles up.

What a break must not change (results, exceptions, traces, effects, lifetimes) is tested with the rows of functions_breaks.py.
"""

import contextlib
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from compare import dynoc
from functions_breaks import SEE, forget, seen
from process import output_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from work import heat, k_means, power_iteration  # noqa: E402


@pytest.mark.parametrize(
    ("function", "array", "more"),
    [(heat, (20, 20), (300,)), (k_means, (60, 3), (4, 40)), (power_iteration, (20, 20), (200,))],
    ids=["heat", "k_means", "power_iteration"],
)
def test_long_loops_are_three_entries(function, array, more):
    x = np.random.default_rng(5).uniform(size=array)
    fast = dynoc.optimize(function, wait=True, options={"loops": False})
    for _ in range(4):
        assert np.allclose(fast(x.copy(), *more), function(x, *more), rtol=1e-10)
    assert len(fast.entries) <= 3
    assert max(entry.hits for entry in fast.entries) >= 2 * (more[-1] - 2)


def test_a_while_loop_that_begins_with_two_loads():
    """On 3.13 they are one instruction, in front of which the loop is cut."""

    def f(x, y, n):
        i = 0
        while i < n:
            y = x * 0.5 + y
            i += 1
        return y

    x = np.linspace(0.0, 1.0, 20)
    fast = dynoc.optimize(f, wait=True, options={"loops": False})
    for _ in range(2):
        assert np.array_equal(fast(x, x, 100), f(x, x, 100))
    assert max(entry.hits for entry in fast.entries) > 60


def test_break_in_a_long_loop():
    def f(x, n):
        for i in range(n):
            x = x * 0.5 + i
            SEE(i)
            x = x - 1
        return x

    fast = dynoc.optimize(f, wait=True)
    x = np.arange(5.0)
    for _ in range(3):
        forget()
        assert np.array_equal(fast(x, 1000), f(x, 1000))
        assert seen == [repr(i) for i in range(1000)] * 2
    assert len(fast.entries) <= 4
    assert sum(entry.hits for entry in fast.entries) > 3 * 1000
    entries = fast.entries
    fast(x, 10), fast(x, 0), fast(np.arange(9.0), 500)
    assert len(fast.entries) <= len(entries) + 2


def test_loops_do_not_recurse():
    def f(x, n):
        for _ in range(n):
            x = x + 1
        return x

    fast = dynoc.optimize(f, wait=True)
    fast(np.zeros(3), 20)
    assert fast(np.zeros(3), 50_000).tolist() == [50_000] * 3


def test_both_sides_of_a_branch_on_data():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            z = y + 1
        else:
            z = y - 1
        return z * 3

    fast = dynoc.optimize(f, wait=True)
    x = np.arange(1.0, 4)
    for _ in range(3):
        assert np.array_equal(fast(x), f(x)) and np.array_equal(fast(-x), f(-x))
    entries = fast.entries
    assert len(entries) == 3 or (len(entries) == 4 and sys.version_info >= (3, 13))
    assert {entry.end for entry in entries} == {"break", "return"}
    assert all(entry.hits > 0 for entry in entries)


def test_a_branch_that_raises_is_a_check():
    def f(x):
        y = x * 2
        if (y < 0).any():
            raise ValueError("negative")
        return y + 1

    fast = dynoc.optimize(f, wait=True)
    x = np.arange(4.0)
    fast(x), fast(x)
    (entry,) = fast.entries
    assert entry.end == "return" and entry.hits == 1
    with pytest.raises(ValueError, match="negative"):
        fast(-x)
    assert np.array_equal(fast(x), f(x)) and len(fast.entries) == 1


def test_callee_resumes_and_then_its_caller():
    def inner(x):
        y = x * 2
        SEE("inside")
        return y + 1

    def f(x):
        y = x - 1
        z = inner(y)
        return z * y

    fast = dynoc.optimize(f, wait=True)
    x = np.arange(4.0)
    for _ in range(4):
        assert np.array_equal(fast(x), f(x))
    names = {entry.code.co_name for entry in fast.entries}
    assert names == {"f", "inner"}
    assert all(entry.hits >= 2 for entry in fast.entries)


def test_lists_that_are_appended_to_make_no_entries():
    def f(x, history, n):
        for i in range(n):
            x = x * 0.5
            history.append(x + i)
        return x

    fast = dynoc.optimize(f, wait=True)
    x = np.arange(4.0)
    for k in range(5):
        mine, plain = [k] * k, [k] * k
        assert np.array_equal(fast(x, mine, 30 + k), f(x, plain, 30 + k))
        assert len(mine) == len(plain) and np.array_equal(mine[-1], plain[-1])
    assert len(fast.entries) <= 3


def test_a_list_that_was_appended_to_is_looked_at_behind():
    def f(x, history):
        y = x * 2
        history.append(y)
        history.append(y + 1)
        return len(history), history[0] + history[-1], y * 3

    fast = dynoc.optimize(f, wait=True)
    x = np.arange(3.0)
    for k in range(4):
        mine, plain = [x] * k, [x] * k
        got, wanted = fast(x, mine), f(x, plain)
        assert got[0] == wanted[0] and np.array_equal(got[1], wanted[1]) and np.array_equal(got[2], wanted[2])
        assert all(np.array_equal(a, b) for a, b in zip(mine, plain, strict=True))


def test_one_list_in_two_places():
    def f(x, a, b):
        a.append(x + 1)
        return b[0], len(b)

    fast = dynoc.optimize(f, wait=True)
    x = np.arange(3.0)
    for _ in range(2):
        for make in (lambda: ([1], [2]), lambda: 2 * ([3],)):
            assert fast(x, *make()) == f(x, *make())


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers")
def test_signals_end_a_long_loop(no_collections):
    def f(x):
        n = 0
        while True:
            x = x * 0.5 + n
            n += 1

    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    fast = dynoc.optimize(f, wait=True)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        for _ in range(3):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(Alarm):
                fast(np.zeros(3))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_loops_in_threads():
    def f(x, n):
        for i in range(n):
            x = x * 0.5 + i
            if i % 50 == 7:
                x = x + 1
        return x

    fast = dynoc.optimize(f, wait=True)
    x = np.arange(6.0)
    wanted, wrong = f(x, 400), []

    def work():
        for _ in range(10):
            if not np.array_equal(fast(x, 400), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_reset_in_the_middle():
    def f(x, n):
        for i in range(n):
            x = x + i
            if i == 30:
                dynoc.reset()
        return x

    fast = dynoc.optimize(f, wait=True)
    for _ in range(4):
        assert np.array_equal(fast(np.arange(3.0), 60), f(np.arange(3.0), 60))


def test_cells_as_values():
    """A cell object is a value like any other, also where it is put into another cell."""

    def outside():
        value = 42

        def inner():
            return value

        return inner.__closure__[0]

    def f(x, cell):
        kept = cell

        def inner():
            return kept

        y = x * 2
        SEE(1)
        return y, inner() is cell, inner.__closure__[0] is cell, kept.cell_contents

    fast = dynoc.optimize(f, wait=True)
    for _ in range(4):
        got = fast(np.arange(3.0), outside())
        assert got[1:] == (True, False, 42)


def test_cells_are_shared_with_closures_that_came_in():
    """Behind a break the function's cell comes in twice: as its own, and in the closure of a function that is called."""

    def f(x):
        def add(y):
            return y + shift

        shift = 1
        SEE(add)
        a = add(x)
        shift = 10
        b = add(x)
        SEE(add)
        shift = shift + 10
        return a, b, add(x)

    fast = dynoc.optimize(f, wait=True)
    x = np.arange(3.0)
    for _ in range(4):
        assert [r.tolist() for r in fast(x)] == [(x + 1).tolist(), (x + 10).tolist(), (x + 20).tolist()]


@pytest.mark.parametrize("enabled", [False, True])
def test_keywords_that_are_changed_before_a_break(enabled):
    def f(x, out, *rest, key=1, **keywords):
        y = x * 2
        keywords["out"] = out
        keywords["x"] = y
        rest += (y, key)
        SEE(len(keywords))
        return keywords, rest, y + 1

    x = np.arange(4.0)
    fast = f if enabled else dynoc.optimize(f, wait=True)
    for arguments in ({}, {"axis": 0}, {"axis": 0, "key": 3}, {"axis": 0}):
        expected = repr(f(x, x, 1, **arguments))
        forget()
        with dynoc.enabled(wait=True) if enabled else contextlib.nullcontext():
            for _ in range(3):
                assert repr(fast(x, x, 1, **arguments)) == expected
    assert len(seen) == 3


def test_a_generator_dies_between_two_stores_that_are_one_instruction():
    """3.13 stores two locals at once; the first store's old value is a generator, and nothing is recorded from there on."""
    out = output_of(
        """
        import typing

        import dynoc

        class Intervals:
            def __init__(self, intervals=()):
                self.intervals = typing.cast(tuple, tuple(tuple(v) for v in intervals))
                pairs = (len(v) == 2 for v in self.intervals)
                whole = all(pairs)
                if not whole:
                    raise AssertionError(pairs)
                pairs = whole = None
                self.offsets = [0]
                for u, v in self.intervals:
                    self.offsets.append(self.offsets[-1] + v - u + 1)
                self.size = self.offsets.pop()

            def union(self, other):
                assert isinstance(other, type(self))
                x, y = self.intervals, other.intervals
                if not x:
                    return Intervals(y)
                if not y:
                    return Intervals(x)
                return Intervals(sorted(x + y))

        def query(key):
            if not key:
                return ()
            return Intervals(query(key[:-1])).union(Intervals(TABLE[key[-1]])).intervals

        TABLE = [[(i, i + 2), (i + 5, i + 9)] for i in range(20)]
        dynoc.config.record_all = True
        dynoc.enable(wait=True)
        print([len(query(tuple(range(k)))) for k in range(1, 20)])
        """
    )
    assert out == str([2 * k for k in range(1, 20)])
