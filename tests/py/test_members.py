"""Sets of objects that are hashed by which one they are, and calls of what functools.lru_cache makes."""

import functools

import numpy as np
import pytest
from compare import dynoc


class Thing:
    def __init__(self, weight):
        self.weight = weight
        self.parts = []


class Like:
    """Equal where its weight is."""

    def __init__(self, weight):
        self.weight = weight
        self.parts = []

    def __eq__(self, other):
        return self.weight == other.weight

    def __hash__(self):
        return hash(self.weight)


def walk(thing, memo=None):
    memo = set() if memo is None else memo
    if thing not in memo:
        memo.add(thing)
        yield thing
        for part in thing.parts:
            yield from walk(part, memo)


def weighed(x, thing):
    seen = 0
    for t in walk(thing):
        x = x * t.weight + 1.0
        seen += 1
    return x, seen


def tree(kind):
    top = kind(2.0)
    shared = kind(3.0)
    top.parts = [kind(4.0), shared, shared]
    return top


@pytest.mark.parametrize("kind", [Thing, Like])
def test_objects_in_a_set(kind):
    fast = dynoc.optimize(weighed, wait=True, fullgraph=kind is Thing)
    things = [tree(kind), tree(kind)]
    for n in (3, 4, 5):
        for thing in things:
            x = np.ones(n)
            got, want = fast(x, thing), weighed(x, thing)
            np.testing.assert_array_equal(got[0], want[0])
            assert got[1] == want[1] == 3
    assert len(fast.entries) == 1 or kind is Like
    things[0].parts.append(things[0].parts[0])
    things[1].parts[1] = things[1].parts[0]
    things[1].parts[2] = kind(5.0)
    for thing in things:  # which are one object is guarded
        got, want = fast(x, thing), weighed(x, thing)
        np.testing.assert_array_equal(got[0], want[0])
        assert got[1] == want[1]


def test_a_class_that_gets_an_equality():
    class Late:
        weight, parts = 2.0, ()

    a = Late()
    b = Late()
    a.parts = (b,)
    fast = dynoc.optimize(weighed, wait=True)
    x = np.ones(3)
    for _ in range(2):
        assert fast(x, a)[1] == 2
    Late.__eq__ = lambda self, other: True
    Late.__hash__ = lambda self: 1
    assert fast(x, a)[1] == weighed(x, a)[1] == 1


def test_the_set_itself_comes_out():
    def f(x, a, b):
        found = set()
        found.add(a)
        if b not in found:
            found.add(b)
        y = np.linalg.norm(x)
        return y * 2.0, found, len(found), a in found

    fast = dynoc.optimize(f, wait=True, fullgraph=True)
    things = [Thing(1.0), Thing(2.0)]
    for x in (np.ones(3), np.ones(4)):
        assert fast(x, *things)[1:] == (set(things), 2, True)
        assert fast(x, *things)[1] is not fast(x, *things)[1]
    assert fast(x, things[0], things[0])[1:] == ({things[0]}, 1, True)


def test_listing_such_a_set_is_left_to_python():
    def f(x, a, b):
        found = set()
        found.add(a)
        found.add(b)
        for thing in found:
            x = x * thing.weight
        return x

    fast = dynoc.optimize(f, wait=True)
    for n in (3, 4):
        for weight in (2.0, 3.0):
            np.testing.assert_array_equal(fast(np.ones(n), Thing(weight), Thing(5.0)), np.full(n, weight * 5.0))


def cached():
    ran = []

    @functools.lru_cache
    def allowed(name, level=1):
        ran.append(name)
        return bool(STATE["allowed"])

    @functools.lru_cache(None)
    def factor():
        ran.append("factor")
        return STATE["factor"]

    @functools.lru_cache
    def warned(text):
        ran.append(text)

    def f(x):
        if allowed("this", level=2) and not allowed(name="that") == 3:
            x = x + 1.0
        warned("once")
        return x * factor() - 1.0

    return f, (allowed, factor, warned), ran


STATE = {}


def test_cached_functions_are_called_in_the_graph():
    STATE.update(allowed=True, factor=3)
    (f, caches, ran), (plain, others, also) = cached(), cached()
    fast = dynoc.optimize(f, wait=True, fullgraph=True)
    for n in (3, 4, 5, 3):
        np.testing.assert_array_equal(fast(np.ones(n)), plain(np.ones(n)))
    assert len(fast.entries) == 1 and fast.entries[0].hits == 3
    assert [c.cache_info() for c in caches] == [c.cache_info() for c in others]
    assert ran == also


@pytest.mark.parametrize("change", [{"allowed": False}, {"factor": 5}, {"factor": 2.5}, {}])
def test_a_cache_that_was_cleared(change):
    STATE.update(allowed=True, factor=3)
    (f, caches, ran), (plain, others, also) = cached(), cached()
    fast = dynoc.optimize(f, wait=True)
    for n in (3, 4):
        np.testing.assert_array_equal(fast(np.ones(n)), plain(np.ones(n)))
    STATE.update(change)
    for c in caches + others:
        c.cache_clear()
    for n in (3, 4, 5):
        np.testing.assert_array_equal(fast(np.ones(n)), plain(np.ones(n)))
    assert sorted(ran) == sorted(also)
    assert [c.cache_info().misses for c in caches] == [c.cache_info().misses for c in others]


def test_a_cached_function_of_a_size():
    @functools.lru_cache
    def power_above(n):
        return 1 << (n - 1)

    @functools.lru_cache
    def mask(n):
        return np.tril(np.ones((n, n)))

    def f(x):
        return x * power_above(x.shape[0])

    def g(x):
        return mask(x.shape[0]) @ (x * 2.0)

    fast, breaking = dynoc.optimize(f, wait=True, fullgraph=True), dynoc.optimize(g, wait=True)
    for n in (3, 5, 9, 4, 3):
        np.testing.assert_array_equal(fast(np.ones(n)), f(np.ones(n)))
        np.testing.assert_array_equal(breaking(np.ones(n)), g(np.ones(n)))
    assert len(fast.entries) == 1 and len(breaking.entries) <= 2
    assert power_above.cache_info()[:2] == (6, 4)


def test_a_cached_method():
    class Logger:
        @functools.lru_cache(None)  # noqa: B019
        def once(self, text):
            LOGGED.append(text)

    LOGGED = []
    logger = Logger()

    def f(x):
        logger.once("slow")
        return x * 2.0

    fast = dynoc.optimize(f, wait=True, fullgraph=True)
    for n in (3, 4, 5):
        np.testing.assert_array_equal(fast(np.ones(n)), np.full(n, 2.0))
    assert LOGGED == ["slow"] and len(fast.entries) == 1 and Logger.once.cache_info().hits == 2
    Logger.once.cache_clear()
    fast(np.ones(3))
    assert LOGGED == ["slow", "slow"]


def test_a_cache_that_keeps_nothing_runs_its_function_once_a_call():
    @functools.lru_cache(maxsize=0)
    def tick():
        ticks.append(1)
        return len(ticks)

    ticks = []
    fast = dynoc.optimize(lambda x: x * tick() + 1, wait=True)
    assert [fast(np.ones(1)).tolist() for _ in range(4)] == [[2.0], [3.0], [4.0], [5.0]]


def test_a_cache_of_one_and_one_that_is_cleared():
    @functools.lru_cache(maxsize=1)
    def tick(k):
        ticks.append(k)
        return len(ticks)

    def fn(x, clears):
        if clears:
            tick.cache_clear()
        return x * tick(1) + tick(2) - tick(1)

    seen = []
    for call in (fn, dynoc.optimize(fn, wait=True)):
        ticks = []
        tick.cache_clear()
        results = [call(np.ones(1), clears).tolist() for clears in (False, False, True, False, True)]
        seen.append((results, ticks))
    assert seen[0] == seen[1]


def test_a_cached_function_of_sizes_that_looks_at_what_the_program_changes():
    @functools.cache
    def looks(n):
        return n + state[0]

    @functools.cache
    def counts(n):
        state[1] += 1
        return n

    def fn(x):
        state[0] = len(x)
        return x.sum() * looks(len(x)), counts(len(x)), state[1]

    seen = []
    for call in (fn, dynoc.optimize(fn, wait=True)):
        state = [0, 0]
        looks.cache_clear(), counts.cache_clear()
        seen.append([call(np.ones(n)) for n in (3, 3, 4, 5, 3)])
    assert seen[0] == seen[1]


class Meta(type):
    def __setattr__(cls, name, value):
        super().__setattr__(name, value)


class Compared(type):
    """Its classes are equal where their names have the same length: asking whether one is in a set runs code."""

    asked = []

    def __eq__(cls, other):
        Compared.asked.append(cls.__name__)
        return isinstance(other, Compared) and len(cls.__name__) == len(other.__name__)

    def __hash__(cls):
        return 1


def registered(x, kind, known, table):
    return x + (1.0 if kind in known else 2.0) + table.get(kind, 4.0)


@pytest.mark.parametrize("meta", [type, Meta, Compared])
def test_classes_in_a_set_and_as_keys(meta):
    """Classes of a metaclass that leaves hash and equality alone are known by which one they are."""
    first, second, third = meta("First", (), {}), meta("Other", (), {}), meta("Longer", (), {})
    known, table = {first}, {second: 8.0, "name": 0.0}
    fast = dynoc.optimize(registered, wait=True, fullgraph=meta is not Compared)
    x = np.ones(3)
    for change in (lambda: None, lambda: known.add(third), lambda: table.update({first: 16.0}), lambda: known.discard(first)):
        change()
        for kind in (first, second, third):
            for _ in range(2):
                Compared.asked.clear()
                want = registered(x, kind, known, table)
                asked = list(Compared.asked)
                Compared.asked.clear()
                assert (fast(x, kind, known, table) == want).all()
                assert Compared.asked == asked
