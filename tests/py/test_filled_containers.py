"""Containers that a loop had filled before it broke are as full behind the break as without dynoc."""

from collections import deque

import numpy as np
import pytest
from case import f64
from compare import dynoc
from outcomes import calls_of


class Tagged(np.ndarray):
    @property
    def plain(self):
        return np.ndarray.view(self, np.ndarray)


def plain_of(x):
    return x.plain


def joined(a, b):
    both = []
    if a.ndim == 0:
        raise ValueError
    both.append(a)
    both.append(b)
    return np.concatenate([plain_of(x) for x in both]) + 1


def test_list_that_was_filled_before_the_loop_broke():
    calls_of(joined, lambda: (f64(3).view(Tagged), f64(5).view(Tagged)))


def opaque(x):
    return x

dynoc.skip(opaque)


def fill_list(x, into):
    into.append(x)
    into.extend([x * 2, x * 3])
    return [opaque(v) + 1 for v in into]


def fill_dict(x, into):
    into["a"] = x
    into["b"] = x * 2
    return [opaque(into[k]) + 1 for k in into], [opaque(v) * 2 for v in into.values()], [opaque(k) for k, v in into.items()]


def fill_set(x, into):
    into.add(3)
    into.add(5)
    return [x * opaque(k) for k in into]


def fill_deque(x, into):
    into.append(x)
    into.appendleft(x * 2)
    return [opaque(v) + 1 for v in into]


def fill_attribute(x, into):
    into.append(x)
    into.append(x * 2)
    holder.it = iter(into)
    next(holder.it)
    y = opaque(x)
    return y, list(holder.it)


def fill_zipped(x, into):
    into.append(x)
    into.append(x * 2)
    return [opaque(v) * i for i, (v, w) in enumerate(zip(into, into))]


def fill_reversed(x, into):
    into.append(x)
    into.append(x * 2)
    return [opaque(v) + 1 for v in reversed(into)]


class Holder:
    it = None


holder = Holder()


FILLED = [(fill_list, list), (fill_dict, dict), (fill_set, set), (fill_deque, deque), (fill_attribute, list), (fill_zipped, list)]
FILLED += [(fill_reversed, list), (fill_reversed, deque)]


@pytest.mark.parametrize("fn, kind", FILLED, ids=[f"{fn.__name__} {kind.__name__}" for fn, kind in FILLED])
def test_container_that_was_filled_before_the_loop_broke(fn, kind):
    calls_of(fn, lambda: (f64(3), kind()))
