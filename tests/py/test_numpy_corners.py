"""Corners of NumPy, and what programs with arrays do around them, that other files have no row for."""

import itertools
from collections import deque

import numpy as np
import pytest
from case import f64
from compare import check, dynoc


def many_calls(fn, makers, entries):
    """Every call gives what plain Python gives, and these many entries serve them all."""
    fast = dynoc.optimize(fn, wait=True)
    for turn, maker in enumerate(makers):
        check(fn, fast, maker, "near", what=f"call {turn}")
    assert len(fast.entries) <= entries, dynoc.explain(fn)(*makers[0]())


# ---- a builtin method that comes in, bound to another object at each call


def appending(xs, n):
    out = []
    append = out.append
    for i in range(n):
        append(xs * i)
    return out


def given(xs, method):
    method(xs * 2)
    return xs + 1


def test_a_bound_append_serves_every_list():
    many_calls(appending, [lambda n=n: (f64(3), n) for n in range(20, 32)], 2)
    fast, kept = dynoc.optimize(given, wait=True), []
    for out in ([], [], kept, [], kept):
        assert fast(f64(3), out.append).tolist() == (f64(3) + 1).tolist()
        assert out[-1].tolist() == (f64(3) * 2).tolist()
    assert len(kept) == 2 and len(fast.entries) == 1


class Listed(list):
    """Its extend is list's own."""

    def append(self, item):
        super().append(item * 0)


def asked(x, method):
    return x * method()


def test_other_methods_get_entries_of_their_own():
    fast = dynoc.optimize(given, wait=True)
    for _ in range(3):
        for make, name in ((list, "append"), (Listed, "append"), (list, "extend"), (Listed, "extend"), (deque, "append")):
            one, other = make(), make()
            given(f64(3), getattr(other, name))
            fast(f64(3), getattr(one, name))
            assert [type(v) for v in one] == [type(v) for v in other]
            assert np.array_equal(np.array(one), np.array(other))
    many_calls(asked, [lambda x=x: (f64(3), x.sum) for x in (f64(4), f64(5), f64(2, 3))], 2)
    many_calls(asked, [lambda x=x: (f64(3), x.bit_length) for x in (1, 2, 300)], 3)


# ---- indices


def each_index(x):
    out = np.empty(x.shape)
    for i in np.ndindex(x.shape):
        out[i] = x[i] * 2
    return out


def each_pair(x):
    out = np.zeros(x.shape)
    for i, j in itertools.product(range(x.shape[0]), range(x.shape[1])):
        out[i, j] = x[i, j] + i - j
    return out


def few_indices(x):
    return [x[i] * j for i, j in np.ndindex(2, 3)], list(np.ndindex(2, 0)), tuple(np.ndindex()), next(np.ndindex(x.shape))


@pytest.mark.parametrize("fn", [each_index, each_pair])
def test_one_entry_for_all_shapes(fn):
    many_calls(fn, [lambda n=n: (f64(n, 10),) for n in (*range(4, 14), 0, 1)], 7)


def test_few_indices():
    many_calls(few_indices, [lambda n=n: (f64(n),) for n in (2, 2, 3, 5)], 14)


def extremes(shape, x):
    return x * min(shape, default=7), max((), default=x), min([], default=None), max(shape, default=None)


def test_default_of_min_and_max():
    fast = dynoc.optimize(extremes, wait=True, fullgraph=True)
    for shape in ((3, 2), (1, 4), (), (2,), ()):
        check(extremes, fast, lambda shape=shape: (shape, f64(3)))


# ---- out=(c,)


def products(a, b):
    c, d = np.empty((a.shape[0], b.shape[1])), np.zeros(2)
    same = np.matmul(a, b, out=(c,))
    np.add.reduceat(a[0], [0, 1], out=(d,))
    np.vecdot(a, a, out=(e := np.empty(a.shape[0]),))
    return same is c, c + 1, d, e


def test_out_of_a_product_is_a_tuple():
    fast = dynoc.optimize(products, wait=True, fullgraph=True)
    for n in (4, 4, 2, 7):
        check(products, fast, lambda n=n: (f64(n, 3), f64(3, n)), "near")
