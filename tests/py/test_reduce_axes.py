"""Reductions over outer and middle axes, where lanes are results: every width and length at the edges of groups, strips, trees
and blocks, against exact sums; the same bits in whatever memory order, by native code and the built-in tier, on one thread and
three."""

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter

SHAPES = [(1, 40), (2, 33), (3, 64), (31, 32), (32, 100), (33, 31), (65, 2), (100, 1), (513, 70), (512, 7), (600, 1100)]
SHAPES += [(1100, 5), (1600, 33)]
CUBES = [(1, 1, 40), (5, 40, 3), (40, 5, 33), (3, 70, 100), (6, 600, 7), (2, 1100, 32)]


def optimised(fn):
    return dynoc.optimize(fn, wait=True, fullgraph=True)


def numbers(shape, dtype, seed=4):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return (rng.integers(-9, 9, shape) + 1j * rng.integers(-9, 9, shape)).astype(dtype) / dtype.type(7)
    if dtype.kind == "b":
        return rng.random(shape) < 0.9
    return (rng.normal(size=shape) * 10).astype(dtype) if dtype.kind != "u" else rng.integers(0, 200, shape).astype(dtype)


def layouts(a):
    """The same elements elsewhere, so that lines, columns or neither lie in one piece, or run backwards."""
    yield a
    yield np.asfortranarray(a)
    yield np.repeat(a, 2, axis=-1)[..., ::2]
    yield np.repeat(a, 3, axis=0)[::3]
    yield np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1]
    yield np.ascontiguousarray(np.moveaxis(a, 0, -1)[..., ::-1])[..., ::-1].transpose(a.ndim - 1, *range(a.ndim - 1))


def rows(x):
    return x.sum(axis=0), x.max(axis=0), x.min(axis=0), (x * x).sum(axis=0)


def products(x):
    return x.prod(axis=0), (x + x).prod(axis=-1), x.any(axis=0), x.all(axis=0)


def middle(x):
    return x.sum(axis=1), x.max(axis=1), (x * x).sum(axis=1, keepdims=True), x.sum(axis=(0, 1)), x.max(axis=(0, 2))


def weighted(x, w, v):
    """Elements of w stand still along the lanes, those of v along the rows."""
    return (x * w[:, None]).sum(axis=0), (v * x).sum(axis=0), (w[:, None] * v).sum(axis=0), (x - w[:, None] * v).max(axis=0)


def bits(results):
    return [(r.dtype, r.shape, np.ascontiguousarray(r).tobytes()) for r in results]


def every_way(fn, arguments, monkeypatch):
    """Native code on one thread and three, and without a compiler: the same bits, those of the first arguments given back."""
    found = {}
    with np.errstate(all="ignore"):
        for compiler, threads in [("", 1), ("", 3), ("/nonexistent/cc", 1), ("/nonexistent/cc", 3)]:
            monkeypatch.setattr(dynoc.config, "compiler", compiler)
            monkeypatch.setattr(dynoc.config, "threads", threads)
            fast = optimised(fn)
            for args in arguments:
                fast(*args)
            for i, args in enumerate(arguments):
                got = bits(fast(*args))
                assert got == found.setdefault(i, got), f"compiler {compiler!r}, {threads} threads, strides {args[0].strides}"
            assert {e.tier for e in fast.entries if e.source} == {"builtin" if compiler else "native"}
    return found[0]


def near_eager(fn, shapes, dtype):
    for shape in shapes:
        a = numbers(shape, dtype)
        fast = optimised(fn)
        for b in layouts(a):
            for _ in range(2):
                check(fn, fast, lambda b=b: (b,), "near", what=str((shape, b.strides)))


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_results_and_warnings(dtype):
    near_eager(rows, SHAPES, dtype)


@pytest.mark.parametrize("dtype", ["i4", "f4", "f8", "c16"])
def test_middle_axes(dtype):
    near_eager(middle, CUBES, dtype)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c16", "i2", "?"])
@pytest.mark.parametrize("fn, shapes", [(rows, SHAPES), (middle, CUBES), (products, CUBES)], ids=["rows", "middle", "products"])
def test_same_bits_every_way(fn, shapes, dtype, monkeypatch):
    for shape in shapes:
        every_way(fn, [(b,) for b in layouts(numbers(shape, dtype))], monkeypatch)


FEW = [(n, m, k) for n in (1, 15, 16, 33, 600) for m, k in [(1, 1), (1, 3), (40, 3), (7, 8), (3, 31), (2, 32), (5, 33)]]


def apart(x, y):
    """Few elements of many results: operands that stand still along the lanes, that lines share, and that are each line's own."""
    d = x[:, None, :] - y[None, :, :]
    return (d * d).sum(axis=2), d.max(axis=2), (d * x[:, None, :]).sum(axis=2, keepdims=True), x.sum(axis=1), (y * 2).min(axis=1)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c16", "i1", "u2", "i8"])
def test_few_elements_of_many_results(dtype, monkeypatch):
    pairs = []
    for n, m, k in FEW:
        x, y = numbers((n, k), dtype), numbers((m, k), dtype, 5)
        pairs += [(x, y), (np.asfortranarray(x), np.repeat(y, 2, axis=1)[:, ::2])]
        pairs += [(x[::-1].copy()[::-1], np.asfortranarray(y[:, ::-1])[:, ::-1])]
    fast = optimised(apart)
    for _ in range(2):
        for pair in pairs:
            check(apart, fast, lambda pair=pair: pair, "near", what=str([(a.shape, a.strides) for a in pair]))
    monkeypatch.setattr(dynoc.config, "cache_limit", 64)
    for i in range(0, len(pairs), 3):
        every_way(apart, pairs[i : i + 3], monkeypatch)


def test_few_elements_that_an_index_names(monkeypatch):
    table, w = numbers((50, 4), "f8"), numbers(4, "f8", 6)
    index = np.random.default_rng(2).integers(-50, 50, 700)
    for n in (1, 40, 700):
        places = index[:n]
        every_way(lambda t, i, w: (t[i] * w).sum(axis=1), [(table, places, w), (table, places.repeat(2)[::2], w)], monkeypatch)


def test_threads_share_long_columns(monkeypatch):
    """So few results that threads share their elements; so many that they share the results."""
    for shape in [(70_000, 3), (100_000, 40), (40, 70_000), (33_000, 100)]:
        a = numbers(shape, "f8")
        every_way(lambda x: (x.sum(axis=0), (x * x).max(axis=0)), [(a,), (a.copy(order="F"),)], monkeypatch)


def test_what_stands_still(monkeypatch):
    for n, m in [(40, 33), (100, 100), (700, 20), (33, 5), (5, 600)]:
        x, w, v = numbers((n, m), "f8"), numbers(n, "f8", 5), numbers(m, "f8", 6)
        elsewhere = [(np.asfortranarray(x), w, v), (x, np.repeat(w, 2)[::2], v[::-1].copy()[::-1])]
        every_way(weighted, [(x, w, v), *elsewhere], monkeypatch)
        fast = optimised(weighted)
        for _ in range(2):
            check(weighted, fast, lambda x=x, w=w, v=v: (x, w, v), "near")


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_fast_math_is_as_accurate_as_pairwise_sums(dtype, monkeypatch):
    """Numbers of one sign and size: a plain sum of 100 000 of them, which NumPy's is here, loses four digits more than pairs."""
    monkeypatch.setattr(dynoc.config, "fast_math", True)
    for shape in [(100, 100), (1000, 64), (100_000, 8), (20_000, 40)]:
        a = (1 + numbers(shape, "f8") / 1000).astype(dtype)
        exact = a.astype(np.longdouble).sum(axis=0)
        fast = optimised(lambda x: x.sum(axis=0))
        fast(a)
        worst = np.abs(fast(a) - exact).max() / (np.finfo(dtype).eps * exact.max())
        pairs = np.abs(a.T.copy().sum(axis=1) - exact).max() / (np.finfo(dtype).eps * exact.max())
        assert worst <= max(2 * pairs, 3)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_nan_and_infinities(dtype):
    def extremes(x):
        return x.max(axis=0), x.min(axis=0), x.sum(axis=0), np.fmax.reduce(x, axis=0)

    fast = dynoc.optimize(extremes, wait=True)
    for n, m in [(5, 40), (40, 33), (70, 5)]:
        for seed in range(3):
            rng = np.random.default_rng(seed)
            a = rng.choice(np.array([0, 1, -1, np.inf, -np.inf, np.nan], dtype), (n, m), p=[0.5, 0.2, 0.2, 0.04, 0.04, 0.02])
            for _ in range(2):
                check(extremes, fast, lambda a=a: (a,))


@pytest.mark.parametrize("dtype", ["?", "i4", "f4", "c16"])
def test_empty_and_one(dtype):
    def sums(x):
        return x.sum(axis=0), x.prod(axis=1), x.any(axis=0), x.all(axis=(0, 1), keepdims=True), x.sum(axis=-1)

    fast = optimised(sums)
    for shape in [(0, 40, 2), (40, 0, 2), (40, 40, 0), (1, 40, 2), (40, 1, 33), (1, 1, 1), (33, 40, 1)]:
        for _ in range(2):
            check(sums, fast, lambda shape=shape: (numbers(shape, dtype),), "near", what=str(shape))


def test_initial_and_where():
    def forms(x, mask):
        return (
            x.sum(axis=0, initial=2.5),
            x.max(axis=1, initial=-1.0),
            x.sum(axis=0, where=mask),
            x.min(axis=0, where=mask, initial=9.0),
            np.add.reduce(x, axis=1, keepdims=True),
            x.mean(axis=0, keepdims=True),
            x.var(axis=1, ddof=1),
        )

    fast = dynoc.optimize(forms, wait=True)
    for shape in [(40, 33), (70, 5), (2, 100)]:
        a = numbers(shape, "f8")
        for b in layouts(a):
            for _ in range(2):
                check(forms, fast, lambda b=b: (b, b > 0), "near")


def doubled_sums(x):
    x *= 2
    return x.sum(axis=1)


def doubled_largest(x):
    x *= 2
    return x.max(axis=1)


@pytest.mark.parametrize("fn", [doubled_sums, doubled_largest])
def test_written_once_where_columns_are_reduced(fn):
    fast = dynoc.optimize(fn, wait=True)
    for n in (100, 100, 33, 40, 64, 70, 7):
        for m in (50, 20, 5, 600):
            a = np.asfortranarray(np.random.default_rng(n).random((n, m)))
            b = a.copy("K")
            want, got = fn(a), fast(b)
            np.testing.assert_array_equal(a, b)
            np.testing.assert_allclose(got, want)
