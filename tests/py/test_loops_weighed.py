"""Loops that may be CPython's again: how many trips are left, and ways in that are closed."""

import dis
import math
import sys

import numpy as np
import pytest

import dynoc
from dynoc import _dynoc


@pytest.mark.parametrize(
    "make",
    [
        lambda: range(3, 20, 2),
        lambda: [1, 2, 3],
        lambda: (1, 2, 3),
        lambda: "abcd",
        lambda: "abcd\u20ac",
        lambda: b"abc",
        lambda: bytearray(b"abcdef"),
        lambda: np.zeros((4, 2)),
        lambda: enumerate([1.5, 2.5]),
        lambda: enumerate(zip("abc", range(2))),
        lambda: zip([1, 2, 3], "abcd", np.zeros(5)),
        lambda: {1: 2, 3: 4, 5: 6},
        lambda: {1: 2, 3: 4}.values(),
        lambda: enumerate({1: 2, 3: 4}.items()),
        lambda: {1, 2, 3},
    ],
)
def test_trips_that_are_left(make):
    """An iterator that told a constant number made each trip of CPython's count as so many, and the loop was CPython's then."""
    n = len(list(make()))
    it = iter(make())
    assert [_dynoc._loops_trips(it)] + [_dynoc._loops_trips(it) for _ in it] == list(range(n, -1, -1))


def test_trips_that_nobody_knows():
    for it in (map(abs, [1]), zip([1], map(abs, [1])), (x for x in "a"), reversed({1: 2}), enumerate(iter(int, 1)), zip()):
        assert _dynoc._loops_trips(it) == -1


class Sized:
    """It counts who asks for its length."""

    asked = 0

    def __len__(self):
        Sized.asked += 1
        return 3

    def __getitem__(self, i):
        raise IndexError


def test_asking_runs_no_code():
    assert _dynoc._loops_trips(iter(Sized())) == -1
    assert Sized.asked == 0


def test_a_unit_is_known_in_warm_code():
    """The way to a far block begins with EXTENDED_ARG, and CPython 3.11 has another one in warm code: it wasn't closed."""
    source = "def far(n):\n    x = 0\n    for i in range(n):\n" + "        x = x * 3 % 1000 + 1\n" * 60
    space = {}
    exec(source, space)
    code = space["far"].__code__
    units = [code.co_code[i : i + 2] for i in range(0, len(code.co_code), 2)]
    at = next(i for i, unit in enumerate(units) if unit[0] == dis.EXTENDED_ARG)
    for _ in range(50):
        space["far"](3)
    warm = code._co_code_adaptive[2 * at]
    assert (warm != dis.EXTENDED_ARG) == (sys.version_info[:2] == (3, 11))
    assert _dynoc._loops_swap(code, at, units[at])
    assert code._co_code_adaptive[2 * at] == dis.EXTENDED_ARG
    assert not _dynoc._loops_swap(code, at, bytes([units[at][0], units[at][1] ^ 1]))
    space["far"](3)


def summed(values):
    s = 0.0
    for x in values:
        s += x
    return s


def counted(n):
    s = 0
    for i in range(n):
        s += i
    return s


@pytest.mark.parametrize(("function", "given"), [(summed, [i * 0.5 for i in range(3000)]), (counted, 3000)])
def test_a_short_trip_is_not_taken_for_none(function, given):
    """What asking costs was taken for more than these trips take: loops that were twenty times as fast were given up for good."""
    loop = dynoc.optimize(function, wait=True)
    for _ in range(300):
        assert loop(given) == function(given)
    assert loop.loops[0].startswith("native")


def short_before_long(emit, trans, seen):
    """As Viterbi's algorithm begins: a graph of the few trips would keep the long loops in CPython."""
    n, steps = trans.shape[0], len(seen)
    best = np.full((steps, n), -np.inf)
    for s in range(n):
        best[0, s] = math.log(emit[s, seen[0]])
    for t in range(1, steps):
        for s in range(n):
            for q in range(n):
                v = best[t - 1, q] + math.log(trans[q, s]) + math.log(emit[s, seen[t]])
                if v > best[t, s]:
                    best[t, s] = v
    return best


def vectors_between(x, y):
    n = len(x)
    steps, slopes, work = np.zeros(n), np.zeros(n), np.ones(n)
    for i in range(n - 1):
        steps[i] = x[i + 1] - x[i]
    for i in range(1, n - 1):
        slopes[i] = (y[i + 1] - y[i]) / steps[i] - (y[i] - y[i - 1]) / steps[i - 1]
    for i in range(1, n - 1):
        work[i] = 2 * (x[i + 1] - x[i - 1]) - steps[i - 1] * work[i - 1]
    out = np.empty(n)
    for i, v in enumerate(slopes):
        out[i] = v / work[i] - steps[i]
    return out


RNG = np.random.default_rng(7)
HIDDEN = (RNG.random((5, 4)), RNG.random((5, 5)), RNG.integers(0, 4, 60))
POINTS = (np.linspace(0, 10, 40), np.sin(np.linspace(0, 10, 40)))


@pytest.mark.parametrize(("function", "given"), [(short_before_long, HIDDEN), (vectors_between, POINTS)])
def test_a_short_loop_does_not_keep_long_ones_from_being_native(function, given):
    loop = dynoc.optimize(function, wait=True)
    for _ in range(3):
        assert loop(*given).tobytes() == function(*given).tobytes()
    assert len(loop.loops) > 1 and all(said.startswith("native") for said in loop.loops), loop.loops


def in_pieces(text, k):
    total = 0
    for i in range(len(text) - k + 1):
        total += len(text[i : i + k].encode())
    return total


def test_a_loop_that_stays_in_cpython_is_not_planned_at_each_call():
    """It was, four times behind one another, and the calls between ran in loop code for nothing."""
    loop = dynoc.optimize(in_pieces, wait=True)
    before = dynoc.counters["loops"]["refused"]
    for _ in range(6):
        assert loop("abcdef" * 20, 3) == in_pieces("abcdef" * 20, 3)
    assert 1 <= dynoc.counters["loops"]["refused"] - before < 4


def first_items(rows):
    total = 0
    for row in rows:
        total += row[0]
    return total


def test_with_other_values_it_is_planned_at_once():
    loop = dynoc.optimize(first_items, wait=True)
    with pytest.raises(TypeError):
        loop([{0: "a"}] * 3)
    for _ in range(2):
        assert loop([(2, 3)] * 50) == 100
    assert loop.loops[0].startswith("native"), loop.loops
