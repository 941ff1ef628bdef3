"""np.histogram of so many bins between two numbers as a step of a graph: counts and edges are eager's at every edge, dtype and
size, and so is what it raises."""

import math

import numpy as np
import pytest
from case import Call
from compare import check, dynoc, graphs_of
from logs import counted as flags

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter


def counted(x, bins, low, high):
    return np.histogram(x, bins=bins, range=(low, high))


def ten(x):
    return np.histogram(x * 1.0, range=(0, 1))[0] * 2


def weighed(x, weights, bins, low, high):
    return np.histogram(x, bins, (low, high), weights=weights)


def around(x, bins):
    return np.histogram(x * 1.0, bins)


def weighed_around(x, weights):
    counts, edges = np.histogram(x, weights=weights + 1.0)
    return counts * 2, edges


def edges_only(x):
    return np.histogram(x, bins=5, range=(-1.5, 2))[1] + 1


def unused(x, low, high):
    np.histogram(x, 3, (low, high))
    return x * 2


def written(x, y, bins, low, high):
    x += 1.0
    counts, edges = np.histogram(y, bins, (low, high))
    return x * 2, counts, edges


def chained(x, y):
    counts, edges = np.histogram(np.sqrt(x * x + y * y), bins=20, range=(0.0, 3.0))
    return counts / counts.sum(), (edges[1:] + edges[:-1]) * 0.5


def same(fn, *makers):
    dynoc.config.wait = True
    fast = dynoc.optimize(fn)
    for _ in range(2):
        for maker in makers:
            check(fn, fast, lambda maker=maker: Call(*maker()))
    return fast


def normal(n, seed=0):
    return np.random.default_rng(seed).normal(size=n)


RANGES = [(0.0, 1.0), (-1.5, 2.25), (0.1, 0.3), (-1e300, 1e300), (1.0, math.nextafter(2.0, 0)), (-0.0, 1e-12), (0, 1), (-3, 7)]


@pytest.mark.parametrize("low, high", RANGES)
@pytest.mark.parametrize("bins", [1, 2, 3, 7, 10, 64, 1000])
def test_elements_at_the_edges(bins, low, high):
    """Each edge, its neighbours, and what lies outside."""
    edges = np.linspace(low, high, bins + 1)
    close = [edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf), (edges[1:] + edges[:-1]) / 2]
    hard = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e308, low - 1, high + 1])
    some = low + (high / 2 - low / 2) * np.random.default_rng(1).random(999)
    x = np.random.default_rng(bins).permutation(np.concatenate([*close, hard, some]))
    same(counted, *(lambda n=n: (x[:n].copy(), bins, low, high) for n in (0, 1, 2, 511, 512, 513, len(x))))
    same(counted, lambda: (x[::-1], bins, low, high), lambda: (np.stack([x, x]).T, bins, low, high))


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c16"])
@pytest.mark.parametrize("low, high", [(0.0, 100.0), (-20, 80), (3.5, 9.25)])
def test_dtypes(dtype, low, high):
    x = np.random.default_rng(0).integers(0, 2 if dtype == "?" else 120, 1000).astype(dtype)
    same(counted, lambda: (x, 13, low, high), lambda: (x.reshape(10, 100), 13, low, high))


def test_many_sizes_and_numbers_through_one_entry():
    made = [(n, b, lo, hi) for n in (0, 1, 10, 5000) for b in (2, 5, 100) for lo, hi in ((0.0, 1.0), (-2.5, 0.5), (0.0, 1e-300))]
    fast = same(counted, *(lambda m=m: (normal(m[0]), *m[1:]) for m in made))
    assert len(fast.entries) <= 8


REFUSED = [(0, 0.0, 1.0), (-2, 0.0, 1.0), (5, 1.0, 0.0), (5, 0.0, math.inf), (5, math.nan, 1.0), (5, 1.0, 1.0)]
REFUSED += [(5, -1.7e308, 1.7e308), (50, 1.0, math.nextafter(1.0, 2)), (3, 0.0, 5e-324), (2, 0.0, 5e-324)]


@pytest.mark.parametrize("fn", [counted, unused, written])
@pytest.mark.parametrize("bins, low, high", REFUSED)
def test_what_eager_refuses(fn, bins, low, high):
    def make(*numbers):
        x = normal(700)
        return (x, *numbers[1:]) if fn is unused else (x, normal(700, 1), *numbers) if fn is written else (x, *numbers)

    with np.errstate(all="ignore"):
        same(fn, lambda: make(5, 0.0, 1.0), lambda: make(bins, low, high), lambda: make(5, 0.0, 2.0))


def test_other_forms_are_eagers():
    def forms(x, w):
        a = np.histogram(x, 4, (0.0, 1.0), weights=w)[0], np.histogram(x, 4, (0.0, 1.0), density=True)[0]
        return a, np.histogram(x, 4), np.histogram(x, np.array([0.0, 0.5, 2.0])), np.histogram(x, 4, (0.0, 1.0), False)

    same(forms, lambda: (normal(100), normal(100, 1)), lambda: (normal(33), normal(33, 1)))


def test_more_forms():
    same(ten, lambda: (normal(1000),), lambda: (normal(0),))
    same(edges_only, lambda: (normal(1000),))
    same(chained, lambda: (normal(1000), normal(1000, 1)), lambda: (normal(9), normal(9, 1)))


def between_extremes(x, bins):
    return np.histogram(x, bins)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4"])
def test_integers_between_their_extremes(dtype):
    """Edges are eager's, whatever lies between, also of all of the dtype's numbers and of one number alone."""
    ends = [np.iinfo(dtype).min, np.iinfo(dtype).max]
    x = np.random.default_rng(0).integers(*ends, 1000).astype(dtype)
    made = [x, x // 3, np.append(x, ends).astype(dtype), np.arange(100).astype(dtype), x[:1], np.full(9, 7, dtype), x[:0]]
    same(between_extremes, *(lambda a=a, b=b: (a, b) for a in made for b in (1, 2, 7, 10, 64)))
    graph = graphs_of(between_extremes, x, 7)
    assert "extern" not in graph and "histogram(" in graph


def test_it_is_no_call():
    graph = graphs_of(counted, normal(30), 4, 0.0, 1.0)
    assert "extern" not in graph and "histogram(" in graph


def test_a_warning_is_eagers():
    def of_root(x):
        return np.histogram(np.sqrt(x), 4, (0.0, 1.0))[0]

    same(of_root, lambda: (abs(normal(900)),), lambda: (normal(900),))


def test_nan_raises_no_flag():
    with np.errstate(all="raise"):
        same(counted, lambda: (np.array([np.nan, -np.nan, 0.5, np.inf] * 300), 4, 0.0, 1.0))
    before = flags("FLAGS")
    same(counted, lambda: (np.array([np.nan, -np.nan, 0.3, 7.0] * 700), 4, 0.0, 1.0))
    assert flags("FLAGS") == before


@pytest.mark.parametrize("low, high", RANGES)
@pytest.mark.parametrize("bins", [1, 3, 64, 1000])
def test_blocks_without_an_element_at_an_edge(bins, low, high):
    """With what lies outside; then one that is at an edge, at each place of a block in turn."""
    edges = np.linspace(low, high, bins + 1)
    inside = edges[:-1] + (edges[1:] / 2 - edges[:-1] / 2)
    outside = np.array([np.nan, np.inf, -np.inf, low - 1 - abs(low), high + 1 + abs(high)])
    x = np.random.default_rng(bins).choice(np.concatenate([inside, outside]), 1500)
    at = [x.copy() for _ in range(5)]
    for i, edge in zip((0, 511, 512, 1023, 1499), (low, high, edges[bins // 2], edges[1], edges[-2])):
        at[i % 5][i] = edge
    same(counted, lambda: (x, bins, low, high), *(lambda a=a: (a, bins, low, high) for a in at))


def test_threads_give_the_same_counts():
    x = normal(1_000_003)
    dynoc.config.wait = True
    fast = dynoc.optimize(counted)
    for threads in (1, 2, 5):
        dynoc.config.threads = threads
        for _ in range(2):
            assert np.array_equal(fast(x, 50, -3.0, 3.0)[0], counted(x, 50, -3.0, 3.0)[0])


GRAPH = """graph g
s0: int = dim(x, 0) hint 30
s1: int = var(n) hint 4
s2: int = add(s1, 1) hint 5
%0: f64[s0] C = input(x)
%1: f64[s2] C = input(e)
%2: i64[s1] C = histogram(%0, %1) {-1, 0} compute f64
outputs %2
"""


def test_a_graph_of_it():
    unit = _dynoc._graph_compile(GRAPH)
    x, edges = normal(1000), np.linspace(-1.0, 1.0, 5)
    status, (r,) = _dynoc._graph_run(unit, [x, edges], [4])
    assert status == 0 and np.array_equal(r, np.histogram(x, 4, (-1.0, 1.0))[0])
    for wrong in ([4.0, 3, 2, 1, 0], [0.0] * 5, [0.0, 1, 1, 2, 3], [-np.inf, 0, 1, 2, 3], [np.nan, 0, 1, 2, 3]):
        assert _dynoc._graph_run(unit, [x, np.array(wrong)], [4])[0] == 2
    assert "scan %2" in _dynoc._lower_text(GRAPH)


@pytest.mark.parametrize("low, high", RANGES)
@pytest.mark.parametrize("bins", [1, 3, 10, 64, 1000])
def test_floats_at_the_edges(bins, low, high):
    """Each edge and its neighbours, of edges in float and in double; a range that floats don't hold is eager's affair."""
    with np.errstate(all="ignore"):
        edges = np.linspace(low, high, bins + 1).astype("f4")
        close = [edges, np.nextafter(edges, np.float32(np.inf)), np.nextafter(edges, np.float32(-np.inf))]
        hard = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38, low - 1, high + 1], "f4")
        some = (low + (high / 2 - low / 2) * np.random.default_rng(1).random(999)).astype("f4")
    x = np.random.default_rng(bins).permutation(np.concatenate([*close, hard, some]))
    w = np.random.default_rng(2).normal(size=len(x))
    same(counted, *(lambda n=n: (x[:n].copy(), bins, low, high) for n in (0, 1, 2, 511, 512, 513, len(x))))
    same(counted, lambda: (x[::-1], bins, low, high), lambda: (np.stack([x, x]).T, bins, low, high))
    same(weighed, lambda: (x, w, bins, low, high), lambda: (x[::-2], w.astype("f4")[::2], bins, low, high))


@pytest.mark.parametrize("x", ["f4", "f8", "i4"])
@pytest.mark.parametrize("weights", ["f4", "f8", "i8", "c16", "?"])
def test_weights(x, weights):
    """Eager adds up stretches of 65536 elements by themselves: the bits say so."""
    def make(n, scale=1e3):
        data = (normal(n) * 10).astype(x)
        w = (normal(n, 1) * 10.0 ** np.random.default_rng(2).integers(-3, 4, n) * scale).astype(weights)
        return lambda: (data, w, 17, -12.5, 20.0)

    same(weighed, *(make(n) for n in (1, 0, 2, 511, 512, 513, 65535, 65536, 65537, 200_000)))
    same(weighed, lambda: (make(600)()[0].reshape(20, 30).T, make(600)()[1].reshape(30, 20), 5, 0.0, 9.0))
    same(weighed, lambda: (make(600)()[0][::-2], make(600)()[1][::2], 5, 0.0, 9.0))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, -0.0])
@pytest.mark.parametrize("weights", ["f4", "f8"])
def test_hard_weights(value, weights):
    def make():
        with np.errstate(all="ignore"):
            w = np.full(140_000, value, weights)
            w[70_000] = -w[70_000]
        return np.linspace(0.0, 1.0, 140_000), w, 3, 0.0, 1.0

    same(weighed, make)


def test_weights_that_do_not_fit():
    same(weighed, lambda: (normal(9), normal(9), 3, 0.0, 1.0), lambda: (normal(9), normal(8), 3, 0.0, 1.0))
    same(weighed, lambda: (normal(9), normal(9).reshape(3, 3), 3, 0.0, 1.0), lambda: (normal(9), 2.0, 3, 0.0, 1.0))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1"])
def test_between_the_lowest_and_the_highest(dtype):
    def make(n, bins):
        return lambda: ((normal(n) * 9).astype(dtype), bins)

    same(around, make(100, 10), make(5000, 7), make(1, 3), make(2, 1), make(0, 4), make(1000, 1000))
    odd = [np.nan, np.inf, 1e308, 5e-324]
    same(around, make(10, 3), *(lambda v=v: (np.array([0.0, v, -1.0]), 3) for v in odd), lambda: (np.full(9, 2.5), 4))
    same(around, lambda: (np.array([-1.7e308, 1.7e308]), 3), lambda: (np.array([1.0, math.nextafter(1.0, 2.0)]), 9))
    same(weighed_around, lambda: (normal(500).reshape(5, 100), normal(500, 1).reshape(5, 100)), lambda: (normal(0), normal(0)))


def test_weights_with_threads():
    before = dynoc.config.threads
    try:
        for dynoc.config.threads in (1, 2):
            same(weighed, lambda: (normal(2_000_000), normal(2_000_000, 1), 64, -3.0, 3.0))
            same(weighed, lambda: (normal(300_000).astype("f4"), normal(300_000, 1).astype("f4"), 100_000, -3.0, 3.0))
    finally:
        dynoc.config.threads = before


def test_forms_are_no_calls():
    x = normal(9)
    for fn, args in [(weighed, (x, x, 3, 0.0, 1.0)), (around, (x, 3)), (counted, (x.astype("f4"), 3, 0.0, 1.0))]:
        graph = graphs_of(fn, *args)
        assert "extern" not in graph and "histogram(" in graph
