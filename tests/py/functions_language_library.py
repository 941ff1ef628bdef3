"""Rows of the capture table about library functions: itertools, functools, operator and contextlib."""

import contextlib
import functools
import itertools
import operator

import numpy as np
from case import f64
from language import row

first = operator.itemgetter(0)
EVENTS = []


def forget():
    EVENTS.clear()


def events():
    return list(EVENTS)


def scaled(x, k=2.0, *, shift=1.0):
    return x * k + shift


class Point:
    def __init__(self, x):
        self.x = x
        self.other = self

    def total(self, k, *, shift=0.0):
        return self.x * k + shift

    @property
    def double(self):
        return self.x * 2.0


@contextlib.contextmanager
def opened(x):
    EVENTS.append("open")
    try:
        yield x * 2.0
    finally:
        EVENTS.append("close")


# ---- operator


@row(ops=6)
def operators_in_place(x):
    y = x + 1.0
    z = operator.iadd(y, x)
    return operator.imul(z, 2.0), operator.is_(y, z), operator.ixor(5, 1), operator.truediv(y, 4.0)


@row(ops=2)
def operators_of_containers(x):
    d = {"a": x}
    operator.setitem(d, "b", x + 1.0)
    operator.delitem(d, "a")
    return operator.getitem(d, "b") * 2.0, operator.contains(d, "a"), operator.not_(d), operator.truth(d), operator.eq([1], [1])


@row(ops=2)
def mapped_operator(x):
    return list(map(operator.mul, [x, 2, x], (2.0, 3, x)))


@row(ops=2)
def getters(x):
    p = Point(x)
    same = operator.attrgetter("x", "other")(p)[1] is p
    return operator.attrgetter("other.double")(p), operator.itemgetter(1, 0)([x + 1.0, 2]), first((x,)), same


@row(ops=4)
def method_callers(x):
    return operator.methodcaller("total", 3.0, shift=1.0)(Point(x)), operator.methodcaller("clip", 0.0, 1.0)(x).sum()


@row(ops=1)
def sorted_by_getter(x):
    pairs = sorted([(2, "b"), (1, "c"), (3, "a")], key=operator.itemgetter(1))
    return x * pairs[0][0], max(pairs, key=first), pairs


@row(lambda n: (f64(n), first), ops=1)
def getter_argument(x, get):
    return get([x]) * 2.0


# ---- functools


@row(ops=2)
def partial_of_partial(x):
    p = functools.partial(functools.partial(scaled, k=3.0), shift=5.0)
    return p(x, shift=4.0)


@row(lambda n: (f64(n), functools.partial(scaled, shift=4.0)), ops=2)
def partial_argument(x, p):
    return p(x)


@row(ops=1)
def partial_mapped(x):
    return [x * v for v in map(functools.partial(operator.add, 1.0), [1.0])]


@row(ops=2)
def partial_returned(x):
    return functools.partial(np.add, x * 2.0)(x)


@row(ops=1)
def wrapped_inside(x):
    def twice(fn):
        @functools.wraps(fn)
        def wrapper(v):
            return fn(v) * 2.0

        return wrapper

    @twice
    def same(v):
        return v

    return same(x), same.__wrapped__ is not same


@row(ops=2)
def reduced_by_operator(x):
    return functools.reduce(operator.add, map(operator.itemgetter(0), [(x,), (x * 2.0,)]))


# ---- itertools


@row(ops=10)
def groups_of_rows_by_shape(x):
    rows = [x, x * 2.0, x[:2], x]
    return [sum(a.max() for a in group) for _, group in itertools.groupby(rows, key=lambda a: a.shape)]


@row(ops=2)
def group_that_is_left_half_taken(x):
    groups = itertools.groupby("aabc")
    key, group = next(groups)
    y = x * ord(next(group))
    return y + 1.0, key, group, [k for k, _ in groups]


@row(ops=2)
def two_ends_of_a_tee(x):
    old, new = itertools.tee([x, 2.0, 3.0])
    next(new)
    return [b - a for a, b in zip(old, new)][0] + 1.0, list(new)


@row(ops=2)
def accumulated_with_function(x):
    return list(itertools.accumulate([x, 2.0], lambda a, b: a * b, initial=1.0))


@row(ops=2)
def accumulated_lazily(x):
    it = itertools.accumulate([x, 1.0, 2.0, 3.0])
    next(it)
    return next(it) * 2.0


@row(ops=1)
def taken_while(x):
    return x * sum(itertools.takewhile(lambda v: v < 3, [1, 2, 5, 1]))


@row(ops=1)
def dropped_while(x):
    return x * sum(itertools.dropwhile(lambda v: v < 3, [1, 2, 5, 1]))


@row(ops=2)
def compressed(x):
    return [x * v for v in itertools.compress([1.0, 2.0, 3.0], [1, "", "a"])]


@row(ops=3)
def chained_from_generators(x):
    return [x * v for v in itertools.chain.from_iterable((float(k) for k in r) for r in (range(1, 3), [3]))]


@row(ops=5)
def cycled(x):
    for v, _ in zip(itertools.cycle([1.0, 2.0]), range(5)):
        x = x + v
    return x


@row(ops=3)
def zipped_longest_of_generators(x):
    return [a + b for a, b in itertools.zip_longest((x * k for k in (2.0,)), [1.0, 2], fillvalue=x)]


# ---- contextlib


@row(ops=2, reset=forget, observe=events)
def manager_with_finally(x):
    with opened(x) as y:
        EVENTS.append("in")
        return y + 1.0


@row(ops=3, reset=forget, observe=events)
def managers_nested(x):
    with opened(x) as y, opened(y) as z:
        return z + 1.0


@row(ops=2)
def manager_defined_inside(x):
    @contextlib.contextmanager
    def doubled(v):
        yield v * 2.0

    with doubled(x) as y:
        y = y + 1.0
    return y


@row(ops=1, reset=forget, observe=events)
def manager_left_by_break(x):
    for k in (1.0, 2.0):
        with contextlib.nullcontext(k) as v:
            EVENTS.append(v)
            break
    return x * v


# ---- functools: what is called in the end


@functools.singledispatch
def sized(o, k):
    return "other", k


@sized.register
def _(o: np.ndarray, k):
    return o * k


@sized.register
def _(o: list, k):
    return [sized(v, k) for v in o]


@row(ops=2)
def single_dispatch(x):
    return sized(x, 2.0), sized([x, None], 3.0), sized("text", 1)


class Measured:
    def __init__(self, x):
        self.x = x

    @functools.cached_property
    def top(self):
        return self.x.max()

    @functools.cached_property
    def scaled(self):
        return self.x / self.top


@row(lambda n: (Measured(f64(n)),), ops=2)
def cached_property_came_in(m):
    return m.scaled, m.scaled is m.scaled, m.top


@row(ops=2)
def cached_property_of_one_made_inside(x):
    m = Measured(x)
    return m.scaled, m.scaled is m.scaled, m.top
