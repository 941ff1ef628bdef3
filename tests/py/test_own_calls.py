"""Calls of NumPy's own functions that are made without them (a[mask], a[mask] = values, np.bincount): the same results, sizes,
exceptions and memory, at every dtype, order of elements, share of true places and number of threads."""

import re

import numpy as np
import pytest
from case import Call
from compare import check, dynoc, graphs_of

pytestmark = pytest.mark.any_interpreter

FILE = __file__
DTYPES = ["?", "i1", "u2", "f2", "i4", "f4", "i8", "f8", "c8", "c16"]
SHARES = [0, 0.01, 0.1, 0.5, 0.95, 1]
SIZES = [0, 1, 7, 8, 9, 63, 64, 65, 200, 1000, 16383, 16384, 16385, 40000]
OWN = re.compile(r"= (masked|put_masked|bincount) ")


def picked(a, mask):
    return a[mask]


def used(a, mask):
    b = a[mask]
    return b == b[:1], b.size, b.shape, mask.sum()


def put(a, mask, values):
    a[mask] = values
    return a == a[:1]


def grown(a, mask):
    a[mask] += 1
    return a


def turned(a, mask):
    a[mask] = a[mask][::-1].copy()
    return a


def positive(a):
    a[a < 0] = -a[a < 0]
    return a, a[a > 1]


def counts(x):
    return np.bincount(x)


def counts_at_least(x, least):
    return np.bincount(x, minlength=least) + 0


def weights(x, w):
    return np.bincount(x, weights=w) * 2


def weights_at_least(x, w, least):
    return np.bincount(x, w, least), np.bincount(x, None, least)


def numbers(shape, dtype="f8", seed=0):
    x = np.random.default_rng(seed).integers(0, 2 if dtype == "?" else 100, shape)
    return (x + 1j * x[::-1] if dtype[0] == "c" else x).astype(dtype)


def truths(shape, share, seed=1):
    return np.random.default_rng(seed).random(shape) < share


def same(fn, *makers, wait=False):
    fast = dynoc.optimize(fn, wait=wait)
    for _ in range(2):
        for maker in makers:
            check(fn, fast, lambda maker=maker: Call(*maker()))
    return fast


def with_values(n, share, dtype, more=0):
    a, mask = numbers(n, dtype), truths(n, share)
    return a, mask, numbers(int(mask.sum()) + more, dtype, 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", SHARES)
def test_dtypes(dtype, share):
    same(picked, *(lambda n=n: (numbers(n, dtype), truths(n, share)) for n in SIZES))
    same(put, *(lambda n=n: with_values(n, share, dtype) for n in SIZES))


@pytest.mark.parametrize("dtype", ["u2", "f4", "f8", "c16"])
@pytest.mark.parametrize("run", [64, 100, 1000])
def test_runs(dtype, run):
    """Groups of 64 places of which all are taken stand beside such of which some or none are."""

    def stretch(n):
        return numbers(n, dtype), np.arange(n) // run % 2 == 0

    same(picked, *(lambda n=n: stretch(n) for n in SIZES[3:]))
    same(put, *(lambda n=n: (*stretch(n), numbers(int(stretch(n)[1].sum()), dtype, 2)) for n in SIZES[3:]))


@pytest.mark.parametrize("fn", [used, turned, grown])
def test_programs(fn):
    same(fn, *(lambda n=n, s=s: (numbers(n), truths(n, s)) for n in SIZES[1:] for s in (0.02, 0.5)), wait=fn is used)
    same(positive, *(lambda n=n: (numbers(n) - 50,) for n in SIZES))


ORDERS = {
    "C": lambda x: x,
    "F": np.asfortranarray,
    "back": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "step": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "part": lambda x: np.pad(x, 3)[3:-3, 3:-3],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("other", ORDERS)
def test_orders(order, other):
    shapes = [(5, 40), (40, 5), (3, 7), (1, 100), (300, 70), (0, 4)]

    def made(shape):
        mask = truths(shape, 0.4)
        return ORDERS[order](numbers(shape)), ORDERS[other](mask), numbers(int(mask.sum()), seed=3)

    same(picked, *(lambda s=s: made(s)[:2] for s in shapes))
    same(put, *(lambda s=s: made(s) for s in shapes))


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8", "c16"])
@pytest.mark.parametrize("row", [(), (1,), (2,), (3,), (4, 5), (0,)])
def test_rows(dtype, row):
    def made(n, values):
        mask = truths(n, 0.4)
        a = numbers((n, *row), dtype)
        return (a, mask, numbers((int(mask.sum()), *row), dtype, 2)) if values else (a, mask)

    same(picked, *(lambda n=n: made(n, False) for n in (10, 1, 100, 20000)))
    same(put, *(lambda n=n: made(n, True) for n in (10, 1, 100, 20000)))
    same(picked, lambda: (np.asfortranarray(numbers((30, 4), dtype)), truths(30, 0.5)))


def test_what_is_refused():
    """Masks of another length, values of another length, arrays that can't be written: nothing is written."""
    good = [lambda: with_values(100, 0.4, "f8")]

    def locked():
        a, mask, values = with_values(100, 0.4, "f8")
        a.flags.writeable = False
        return a, mask, values

    bad = [
        lambda: with_values(100, 0.4, "f8", 1), lambda: with_values(100, 0.4, "f8", -1), locked,
        lambda: (numbers(100), truths(99, 0.4), numbers(40)), lambda: (numbers(100), truths(101, 0.4), numbers(40)),
        lambda: (numbers(100), truths(100, 0.4), numbers(1)), lambda: (numbers(100), truths(100, 0), numbers(0)),
    ]  # fmt: skip
    same(put, *good, *bad, *good)
    same(picked, *(lambda m=m: m()[:2] for m in good + bad))


def test_values_that_are_what_is_written():
    def within(start):
        a, mask = numbers(100), truths(100, 0.4)
        return a, mask, a[start : start + int(mask.sum())]

    def own_mask():
        a = truths(100, 0.5)
        return a, a, truths(int(a.sum()), 0.5, 4)

    same(put, lambda: with_values(100, 0.4, "f8"), lambda: within(0), lambda: within(50))
    same(put, lambda: with_values(100, 0.4, "?"), own_mask)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(threads):
    before = dynoc.config.threads
    dynoc.config.threads = threads
    try:
        same(picked, lambda: (numbers(700_001), truths(700_001, 0.5)), lambda: (numbers((900, 1000)), truths((900, 1000), 0.1)))
        same(put, lambda: with_values(700_001, 0.5, "f4"), lambda: with_values(700_001, 0.01, "f8"))
    finally:
        dynoc.config.threads = before


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_bincount(dtype):
    sizes = (5, 1, 3, 511, 512, 513, 5000)
    x = [lambda n=n: numbers(n, dtype) for n in sizes]
    same(counts, *(lambda m=m: (m(),) for m in x), lambda: (numbers(100, dtype)[::3],), lambda: (numbers(0, dtype),))
    same(counts_at_least, *(lambda m=m, k=k: (m(), k) for m in x for k in (0, 7, 200)))
    same(weights, *(lambda m=m: (m(), numbers(len(m())) * 0.1) for m in x), lambda: (numbers(0, dtype), numbers(0)))
    same(weights_at_least, *(lambda m=m, k=k: (m(), numbers(2 * len(m()))[::2] * 0.1, k) for m in x for k in (3, 300)))


def test_bincount_of_large_numbers():
    same(counts, lambda: (np.arange(70_000)[::-1],), lambda: (np.array([3, 3, 1_000_000]),), lambda: (np.full(300_000, 7),))


def test_what_bincount_refuses():
    same(counts, lambda: (numbers(9, "i8"),), lambda: (numbers(9, "i8") - 50,), lambda: (np.array([2, -(2**63)]),))
    same(counts_at_least, lambda: (numbers(9, "i8"), 3), lambda: (numbers(9, "i8"), -1))
    same(weights, lambda: (numbers(9, "i8"), numbers(9)), lambda: (numbers(9, "i8"), numbers(8)))
    same(weights, lambda: (numbers(9, "i8"), numbers(9, "i4")), lambda: (numbers(9, "i8"), numbers(9, "c16")))


def test_which_calls():
    a, mask, x = numbers(9), truths(9, 0.5), numbers(9, "i4")
    mine = [(picked, a, mask), (put, a, mask, a[mask]), (counts, x), (weights, x, a), (weights_at_least, x, a, 3)]
    others = [(put, a, mask, x[mask]), (weights, x, a.astype("f4"))]
    for fn, *args in mine:
        assert OWN.search(graphs_of(fn, *args)), fn
    for fn, *args in others:
        assert not OWN.search(graphs_of(fn, *args)), fn
