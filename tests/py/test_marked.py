"""dynoc.allow_in_graph and dynoc.disallow_in_graph."""

import gc
import weakref

import numpy as np
import pytest
from compare import dynoc

calls = []


@dynoc.allow_in_graph
def noted(x, scale=2):
    calls.append(len(x))
    return x * scale if hash(len(x)) >= 0 else None


class Doubles:
    def __init__(self):
        self.n = 0

    def __call__(self, x):
        self.n += 1
        return x * 2

    def method(self, x):
        self.n += 10
        return x + self.n


def test_a_call_is_one_node_and_is_made_once_a_call():
    def fn(x):
        noted(x + 1)  # nobody uses it
        return noted(np.sin(x), scale=3) + 1

    fast = dynoc.optimize(fn, wait=True, fullgraph=True)
    for n in (3, 5, 4):
        calls.clear()
        np.testing.assert_allclose(fast(np.arange(n) * 0.1), np.sin(np.arange(n) * 0.1) * 3 + 1)
        assert calls == [n, n]
    assert len(fast.entries) == 1
    assert [n.target for n in fast.entries[0].graph.nodes].count(noted) == 2


def test_objects_and_methods():
    doubles = Doubles()
    dynoc.allow_in_graph(doubles)
    fast = dynoc.optimize(lambda f, x: f(x + 1) - 1, wait=True, fullgraph=True)
    for k in (1, 2, 3):
        assert fast(doubles, np.ones(2)).tolist() == [3.0, 3.0]
        assert doubles.n == k
    assert len(fast.entries) == 1
    other = Doubles()
    assert fast(other, np.ones(2)).tolist() == [3.0, 3.0] and other.n == 1  # which is followed into, by an entry of its own

    assert dynoc.allow_in_graph(other.method) == other.method
    by_method = dynoc.optimize(lambda f, x: f.method(x + 1) * 2, wait=True)
    for k in (1, 2):
        assert by_method(other, np.zeros(1)).tolist() == [2 * (1 + 1 + 10 * k)]


def test_what_it_raises_comes_from_its_line():
    @dynoc.allow_in_graph
    def picky(x):
        if len(x) > 3:
            raise ValueError(f"{len(x)} is too long")
        return x + 1

    fast = dynoc.optimize(lambda x: picky(x * 2) * 3, wait=True, fullgraph=True)
    for _ in range(2):
        assert fast(np.ones(2)).tolist() == [9.0, 9.0]
    with pytest.raises(ValueError, match="4 is too long") as caught:
        fast(np.ones(4))
    assert caught.traceback[-1].name == "picky"
    assert fast(np.ones(3)).tolist() == [9.0] * 3


def test_several_results_of_any_kind():
    @dynoc.allow_in_graph
    def parts(x):
        return x.copy(), [float(x.sum()), x[:1].copy()], None

    def fn(x):
        a, (total, first), nothing = parts(x)
        return a + total, first * 2, nothing

    fast = dynoc.optimize(fn, wait=True, fullgraph=True)
    for n in (2, 3, 6):
        (a, first, nothing), want = fast(np.ones(n)), fn(np.ones(n))
        assert a.tolist() == want[0].tolist() and first.tolist() == want[1].tolist() and nothing is None


def test_what_comes_back_as_it_was_is_a_break():
    same = dynoc.allow_in_graph(lambda x: x)
    fast = dynoc.optimize(lambda x: same(x) + 1, wait=True)
    for _ in range(3):
        assert fast(np.ones(2)).tolist() == [2.0, 2.0]


def test_an_optimised_function_is_not_looked_into():
    inner = dynoc.allow_in_graph(dynoc.optimize(lambda x: np.sqrt(x) + 1, wait=True))
    fast = dynoc.optimize(lambda x: inner(x) * 2, wait=True, fullgraph=True)
    for _ in range(3):
        assert fast(np.ones(2)).tolist() == [4.0, 4.0]
    assert len(inner.entries) == 1 and len(fast.entries[0].graph.nodes) == 4


def test_a_mark_dies_with_its_function():
    fn = dynoc.allow_in_graph(lambda x: x + 1)
    alive = weakref.ref(fn)
    del fn
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("wrong", [3, None, "sin"])
def test_only_callables(wrong):
    for mark in (dynoc.allow_in_graph, dynoc.disallow_in_graph):
        with pytest.raises(TypeError, match="takes a callable"):
            mark(wrong)


def test_disallowed_functions_break_the_graph():
    @dynoc.disallow_in_graph
    def plain(x):
        return x + 1

    breaks = dynoc.counters["graph_breaks"]
    fast = dynoc.optimize(lambda x: plain(np.sin(x)) * 2, wait=True)
    before = breaks.get("SKIPPED_CALL", 0)
    for _ in range(3):
        np.testing.assert_allclose(fast(np.ones(3)), (np.sin(1) + 1) * 2)
    assert breaks["SKIPPED_CALL"] == before + 1
    with pytest.raises(dynoc.Unsupported, match="SKIPPED_CALL.*plain"):
        dynoc.optimize(lambda x: plain(x) * 2, fullgraph=True)(np.ones(3))


def test_functions_of_a_library():
    """np.i0, which no other test of this process uses."""
    dynoc.disallow_in_graph(np.i0)
    with pytest.raises(dynoc.Unsupported, match="SKIPPED_CALL.*i0"):
        dynoc.optimize(lambda x: np.i0(x) + 1, fullgraph=True)(np.zeros(3))
    assert dynoc.optimize(lambda x: np.i0(x) + 1, wait=True)(np.zeros(2)).tolist() == [2.0, 2.0]
    dynoc.allow_in_graph(np.i0)  # the later mark holds
    assert dynoc.optimize(lambda x: np.i0(x) + 1, wait=True, fullgraph=True)(np.zeros(2)).tolist() == [2.0, 2.0]


def test_other_kinds_of_results_than_while_recording():
    @dynoc.allow_in_graph
    def moody(x):
        n = len(x)
        return [x * 2, None, x.astype(np.float32), x[None] * 1, n, x.tolist(), (x * 1, x * 2), np.float64(3)][n % 8]

    def fn(x):
        x = x + 1
        found = moody(x)
        return x, found

    fast = dynoc.optimize(fn, wait=True)
    for n in (8, 8, 9, 10, 11, 12, 13, 14, 15, 16, 9, 8):
        (x, got), (y, want) = fast(np.ones(n)), fn(np.ones(n))
        assert x.tolist() == y.tolist() and type(got) is type(want)
        np.testing.assert_equal(got, want)


def test_what_the_program_changed_before_is_changed():
    class State:
        n = 0

    state, numbers = State(), [0]

    @dynoc.allow_in_graph
    def looks(x):
        return x * state.n + numbers[0]

    def fn(x):
        state.n = len(x)
        numbers[0] = 7
        a = looks(x)
        state.n = 6
        return a

    fast = dynoc.optimize(fn, wait=True)
    for n in (3, 3, 4):
        assert fast(np.ones(n)).tolist() == [n + 7.0] * n and state.n == 6
