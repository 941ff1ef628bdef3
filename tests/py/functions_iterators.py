"""Rows of the test table about generators and iterators: made, driven, left in the middle, with breaks in them and around them.

Imported by functions.py. What their code does besides is kept in `notes` and compared; SEE is opaque to the recorder.
"""

import contextlib
import functools
import itertools
import operator

import numpy as np
from case import f64
from functions_breaks import SEE, broken, seen

X = (lambda: (f64(5),), lambda: (f64(3, 2),))


def note(what):
    """Kept with what SEE was given."""
    seen.append(what)


def scaled(x, ks):
    for k in ks:
        yield x * k


def noting(x, n):
    for i in range(n):
        note(f"before {i}")
        yield x + i
        note(f"after {i}")


def guarded(x, n):
    try:
        for i in range(n):
            yield x + i
    finally:
        note("closed")


def breaking(x, n):
    for i in range(n):
        SEE(i)
        yield x + i


def echo(x):
    while True:
        got = yield x
        if got is None:
            return x + 1.0
        x = x * got


def constants():
    yield 2.0
    return 3.0


def outer(x):
    back = yield from echo(x)
    yield back
    yield from (x, 2.0)
    return 7


# ---- generators driven by the function that makes them


@broken(*X)
def steps_with_a_break_between(x):
    g = scaled(x, (1.0, 2.0, 3.0))
    a = next(g)
    SEE(1)
    b = next(g)
    SEE(2)
    return a, b, list(g), next(g, "over")


@broken(*X)
def not_begun_at_a_break(x):
    g = scaled(x + 1.0, [2.0, 3.0])
    SEE(1)
    return list(g)


@broken(*X)
def returned_half_done(x):
    def squares():
        total = x
        for i in range(4):
            total = total + i
            yield total

    g = squares()
    first = next(g)
    return first * 2.0, [v + 0.0 for v in itertools.islice(g, 2)], sum(1 for _ in g)


@broken(*X)
def effects_between_steps(x):
    g = noting(x, 3)
    a = next(g)
    note("middle")
    b = next(g)
    return a + b


@broken(*X)
def break_inside_a_generator(x):
    out = []
    for v in breaking(x * 2.0, 3):
        out.append(v + 1.0)
    return out


@broken(*X)
def break_inside_one_that_is_listed(x):
    y = x * 2.0
    return [v * 2.0 for v in list(breaking(y, 2))], y


@broken(*X)
def break_in_the_loop_over_one(x):
    for v in scaled(x, (1.0, 2.0, 3.0)):
        x = x + v
        SEE(1)
        x = x * 0.5
    return x


@broken(*X)
def sent_values(x):
    g = echo(x)
    a = next(g)
    b = g.send(2.0)
    SEE(1)
    c = g.send(x)
    return a, b, c


@broken(*X)
def delegated(x):
    g = outer(x)
    next(g)
    a = g.send(3.0)
    SEE(0)
    return a, list(g)


@broken(*X)
def end_of_one_without_slots(x):
    g, ends = constants(), []
    y = x * next(g)
    try:
        next(g)
    except StopIteration as stop:
        ends.append(stop.value)
    return y, ends, next(constants()), list(constants()), next(g, 5.0)


@broken(*X)
def value_of_the_end(x):
    def gives():
        yield x
        return x * 3.0

    def asks():
        y = yield from gives()
        yield y

    g = gives()
    a = next(g)
    try:
        next(g)
    except StopIteration as stop:
        b = stop.value
    return a, b, list(asks())


@broken(*X)
def end_is_caught(x):
    g = scaled(x, (2.0,))
    out = [next(g)]
    try:
        out.append(next(g))
    except StopIteration:
        out.append(x + 1.0)
    return out


@broken(*X)
def end_is_not_caught(x):
    g = scaled(x, ())
    y = x + 1.0
    return next(g), y


@broken(*X)
def closed_in_the_middle(x):
    g = noting(x, 3)
    a = next(g)
    g.close()
    return a * 2.0, next(g, None), list(g)


@broken(*X)
def closed_in_a_try(x):
    g = guarded(x, 3)
    a = next(g) + 1.0
    g.close()
    note("behind")
    return a


@broken(*X)
def left_in_a_try(x):
    for v in guarded(x, 3):
        x = x + v
        break
    y = x * 2.0
    return y


@broken(*X)
def run_out_in_a_try(x):
    for v in guarded(x, 3):
        x = x + v
    return x * 2.0


@broken(*X)
def thrown_into(x):
    def catching():
        try:
            yield x
        except KeyError:
            yield x + 1.0

    g = catching()
    a = next(g)
    return a, g.throw(KeyError("k"))


@broken(*X)
def raises_in_the_middle(x):
    def failing():
        yield x + 1.0
        raise ValueError("in the middle")

    out = []
    for v in failing():
        out.append(v * 2.0)
    return out


@broken(*X)
def raised_and_caught_outside(x):
    def failing():
        yield x + 1.0
        raise ValueError("in the middle")

    out = []
    try:
        for v in failing():
            out.append(v * 2.0)
    except ValueError as error:
        note(str(error))
    return out


@broken(*X)
def closes_over_what_changes(x):
    n = 1.0

    def count():
        nonlocal n
        while n < 4.0:
            n = n + 1.0
            yield x * n

    g = count()
    a = next(g)
    n = n + 1.0
    SEE(n)
    b = next(g)
    return a, b, n


@broken(*X)
def appends_as_it_goes(x):
    log = []

    def logging():
        for i in range(3):
            log.append(i)
            yield x + i

    g = logging()
    a = next(g)
    SEE(len(log))
    return a, list(g), log


@broken(*X)
def same_item_twice(x):
    def twice():
        yield x
        yield x

    a, b = twice()
    return a is b, a is x, a + b


@broken(*X)
def linear_algebra_in_one(x):
    return [v for v in (np.linalg.norm(x + k) * x for k in (1.0, 2.0))]


@broken(*X)
def sums_of_expressions(x):
    return sum(x * k for k in (1.0, 2.0)) + sum((x[i] for i in range(2)), 1.0) + max(k for k in (1, 3, 2))


@broken(*X)
def truths_stop_early(x):
    seen_by = []

    def asks(ks):
        for k in ks:
            seen_by.append(k)
            yield k > 1

    a, b = any(asks((1, 2, 3))), all(asks((2, 1, 3)))
    return x * 2.0, a, b, seen_by


@broken(*X)
def membership_and_joins(x):
    pairs = dict((k, x * k) for k in (1, 2))
    return x + 1.0, ",".join(str(k) for k in (1, 2)), 2 in (k for k in (1, 2, 3)), pairs, {k for k in (3, 4)}


@broken(*X)
def extended_by_one_that_looks(x):
    out = [1]
    out.extend(k for k in (1, 2, 2, 3) if k not in out)
    return out, x * len(out)


@broken(*X)
def spread_into_a_call(x):
    def take(a, b, *rest, k=1.0):
        return a + b * k + len(rest)

    return take(*(x * k for k in (1.0, 2.0, 3.0)), k=2.0), [*(x + k for k in (1,)), *map(float, (1, 2))], (*scaled(x, (2.0,)),)


@broken(*X, tol="near")
def calls_in_generators_that_are_used_up(x):
    """Each call in them may be left in the middle: the generator is then where it was before."""
    y = sum(np.linalg.norm(x * k) * x for k in (1.0, 2.0, 3.0))
    items = list(np.outer(x, x).sum() + k for k in noting(y, 3))
    rows = tuple(np.linalg.norm(x + k) for k in range(4))
    return y, items, rows, sum(map(np.linalg.norm, [x, y, x]))


@broken(*X, tol="near")
def spread_into_a_call_that_breaks(x):
    def inner(a, b, *rest):
        SEE(len(rest))
        return np.outer(a, b).sum() + rest[0]

    return inner(*noting(x, 3)) * 2.0


@broken(*X, tol="near")
def spread_into_a_call_left_in_the_middle(x):
    def inner(a, b, c):
        if np.linalg.norm(a) > 1.0:
            a = a + 1.0
        return a, np.outer(a, b), c

    pairs = (x * k for k in (2.0, 3.0))
    y = inner(*pairs, **{"c": x.sum()})
    return y, list(pairs), x * 2.0


@broken(*X)
def spread_of_what_raises(x):
    def giving():
        yield x * 2.0
        raise KeyError("no more")

    try:
        return np.add(*giving())
    except KeyError as e:
        return e.args, x + 1.0


@broken(*X)
def spread_into_what_does_not_take_it(x):
    try:
        return (lambda a: a)(*(x * k for k in (1.0, 2.0)))
    except TypeError:
        return x + 1.0


@broken(*X)
def unpacked_with_a_star(x):
    a, *rest = scaled(x, (1.0, 2.0, 3.0))
    return a, rest


# ---- map, filter, zip, enumerate, reduce


@broken(*X)
def mapped_and_left(x):
    m = map(lambda v: v * 2.0, [x, x + 1.0, x + 2.0])
    a = next(m)
    SEE(1)
    return a, list(m), type(m) is map


@broken(*X)
def mapped_over_arrays(x):
    return list(map(np.add, x, x[::-1])), list(map(operator.mul, (x, x), (2.0, 3.0)))


@broken(*X)
def mapped_with_a_break(x):
    def f(v):
        SEE(1)
        return v + 1.0

    y = x * 2.0
    return list(map(f, [y, y])), y


@broken(*X)
def loop_over_map_with_a_break(x):
    for v in map(lambda k: k * 2.0, (1.0, 2.0, 3.0)):
        x = x * v
        SEE(v)
        x = x + 1.0
    return x


@broken(*X)
def filtered_and_left(x):
    f = filter(lambda k: k % 2, range(9))
    a = next(f)
    SEE(a)
    return x * a, x + next(f), list(f), list(filter(None, (0, 1, "", "a")))


@broken(*X)
def filter_of_data(x):
    return [v for v in filter(lambda v: v.sum() > 1e9, [x, x + 1.0])], x * 2.0


@broken(*X)
def zipped_with_generators(x):
    out = []
    for a, b in zip(scaled(x, (1.0, 2.0, 3.0)), itertools.count()):
        out.append(a + b)
    return out


@broken(*X)
def shared_iterator(x):
    it = iter([x, 1.0, x, 2.0, x])
    pairs = [a * b for a, b in zip(it, it)]
    return pairs, list(it)


@broken(*X)
def shared_by_map_and_loop(x):
    it = iter((1.0, 2.0, 3.0, 4.0))
    m = map(lambda k: x * k, it)
    a = next(m)
    b = next(it)
    SEE(b)
    return a, b, next(m), list(it), list(m)


@broken(*X)
def enumerated_map(x):
    e = enumerate(map(lambda k: x * k, (1.0, 2.0, 3.0)), 5)
    a = next(e)
    SEE(a[0])
    return a, next(e), list(e), type(e) is enumerate


@broken(*X)
def strict_zip_of_lengths(x):
    return [a * b for a, b in zip((x, x), (1.0, 2.0), strict=True)], list(zip((1,), (2, 3), strict=False))


@broken(*X)
def strict_zip_too_short(x):
    y = x * 2.0
    return list(zip((x, x), (1.0,), strict=True)), y


@broken(*X)
def strict_zip_too_long(x):
    out = []
    try:
        for a, b in zip([x], (k for k in (1.0, 2.0)), strict=True):
            out.append(a * b)
    except ValueError as error:
        note(str(error))
    return out


@broken(*X)
def list_that_grows_under_map(x):
    xs = [x]
    out = []
    for v in map(lambda v: v + 1.0, xs):
        out.append(v)
        if len(xs) < 3:
            xs.append(v)
    return out, len(xs)


@broken(*X)
def list_that_changes_under_enumerate(x):
    xs = [x, x, x]
    for i, v in enumerate(xs):
        if i < 2:
            xs[i + 1] = v + 1.0
        x = x + v
    return x, xs


@broken(*X)
def list_that_changes_under_zip(x):
    xs = [x, x, x]
    out = []
    for a, b in zip(xs, (1.0, 2.0, 3.0)):
        out.append(a * b)
        xs[2] = b
    return out


@broken(*X)
def folded(x):
    def add(a, b):
        return a + b

    return (
        functools.reduce(add, [x, 1.0, 2.0]),
        functools.reduce(add, (x * k for k in (1.0, 2.0)), x),
        functools.reduce(add, (), x) is x,
        functools.reduce(add, [x]) is x,
        functools.reduce(lambda a, b: a * b, range(1, 5)),
    )


@broken(*X)
def folded_with_a_break(x):
    def add(a, b):
        SEE(1)
        return a + b

    y = x + 1.0
    return functools.reduce(add, [y, 1.0, 2.0]) * 2.0


@broken(*X)
def folded_nothing(x):
    try:
        return functools.reduce(lambda a, b: a, [])
    except TypeError as error:
        note(str(error))
    return x * 2.0


@broken(*X)
def fold_that_raises(x):
    return functools.reduce(lambda a, b: a[b], [x, 99, 1])


@broken(*X)
def nested_lazily(x):
    m = map(lambda p: p[0] * p[1], zip(scaled(x, (1.0, 2.0)), filter(lambda k: k > 1, (1, 2, 3))))
    return sum(m), next(m, None)


@broken(*X)
def map_that_raises(x):
    y = x + 1.0
    out = []
    try:
        for v in map(lambda k: (x * k, (1, 2)[k]), (0, 1, 2, 3)):
            out.append(v)
    except IndexError as error:
        note(str(error))
    return out, y


# ---- contextlib


@contextlib.contextmanager
def scope(name, value):
    note("enter " + name)
    try:
        yield value
    finally:
        note("exit " + name)


@contextlib.contextmanager
def plainly(value):
    yield value * 2.0


@broken(*X)
def manager_of_a_generator(x):
    with scope("a", 2.0) as k, plainly(3.0) as m:
        y = x * k * m
    return y


@broken(*X)
def manager_with_a_break(x):
    with scope("a", 2.0) as k:
        y = x * k
        SEE(1)
        y = y + 1.0
    return y


@broken(*X)
def manager_that_sees_an_error(x):
    try:
        with scope("a", 2.0) as k:
            y = x * k
            raise KeyError("k")
    except KeyError:
        y = x + 1.0
    return y


@broken(*X)
def manager_left_by_return(x):
    with scope("a", x) as y:
        return y * 2.0


@broken(*X)
def raised_again_through_a_call(x):
    def inner():
        try:
            {}["k"]
        finally:
            note("finally")

    with contextlib.suppress(ValueError):
        y = x + 1.0
        inner()
    return y


# ---- itertools


@broken(*X)
def chained_and_left(x):
    c = itertools.chain(scaled(x, (1.0, 2.0)), [x, 3.0], (k for k in (1,)))
    a = next(c)
    SEE(1)
    b = next(c)
    return a, b, next(c), list(c), type(c) is itertools.chain


@broken(*X)
def loop_over_a_chain_with_a_break(x):
    for v in itertools.chain([1.0], (2.0, 3.0)):
        x = x * v
        SEE(v)
        x = x + 1.0
    return x


@broken(*X)
def slices_of_iterators(x):
    it = iter([x, 1.0, 2.0, 3.0, 4.0, 5.0])
    first = list(itertools.islice(it, 1, 4, 2))
    SEE(1)
    s = itertools.islice(it, 1)
    a = next(s)
    return first, a, list(s), list(it), list(itertools.islice((x, 2.0), None)), list(itertools.islice([1, 2, 3], 5, 2))


@broken(*X)
def slice_left_half_done(x):
    it = iter((1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    s = itertools.islice(it, 1, 5, 2)
    x = x * next(s)
    SEE(1)
    x = x * next(s)
    return x, list(s), next(it)


@broken(*X)
def counts_and_repeats(x):
    c, r = itertools.count(3, 2), itertools.repeat(x, 3)
    a, b = next(c), next(r)
    SEE(a)
    return a, b is x, next(c), list(r), [i * v for i, v in zip(c, itertools.repeat(2.0, times=2))], next(c)


@broken(*X)
def all_pairs_with_a_break(x):
    for a, b in itertools.product([1.0, 2.0], repeat=2):
        x = x + a * b
        SEE(a)
        x = x * 0.5
    for a, b in itertools.permutations((x, 2.0, 3.0), 2):
        x = x + b
        SEE(1)
    return x


@broken(*X)
def combined(x):
    xs = [1, 2, 3]
    c = itertools.combinations(xs, r=2)
    xs.append(4)
    pairs = [a * b for a, b in c]
    return x * sum(pairs), list(itertools.combinations_with_replacement("ab", 2)), list(itertools.product((1, 2), (x,), [3]))


@broken(*X)
def tools_given_nonsense(x):
    y = x + 1.0
    try:
        itertools.islice([1], -1)
    except ValueError as error:
        note(str(error))
    return list(itertools.repeat(1, -2)), list(itertools.product()), y
