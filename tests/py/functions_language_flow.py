"""Rows of the capture table about control flow: generators, context managers, exceptions, match, comprehensions."""

import contextlib

import numpy as np  # noqa: F401
from case import f64
from language import row

EVENTS = []


def forget():
    EVENTS.clear()


def events():
    return list(EVENTS)


class Failure(Exception):
    def __init__(self, code, value=0):
        super().__init__(code)
        self.code = code
        self.value = value


class Manager:
    def __init__(self, k, swallow=False):
        self.k = k
        self.swallow = swallow
        self.open = False

    def __enter__(self):
        self.open = True
        return self

    def __exit__(self, kind, value, tb):
        self.open = False
        return self.swallow


@contextlib.contextmanager
def scaled(k):
    yield k * 2.0


@contextlib.contextmanager
def noted(name):
    EVENTS.append("enter " + name)
    try:
        yield
    finally:
        EVENTS.append("exit " + name)


def upto(n):
    i = 0
    while i < n:
        yield i
        i += 1


def scaled_all(x, ks):
    for k in ks:
        yield x * k


def both(x):
    yield from upto(2)
    yield x


def echo():
    got = yield 1.0
    while got is not None:
        got = yield got * 2.0


def returning(x):
    yield x
    return x + 1.0


def delegating(x):
    y = yield from returning(x)
    yield y * 2.0


def checked(v):
    if v < 0:
        raise ValueError("negative", v)
    return v


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y


# ---- generators


@row(ops=3)
def generator_loop(x):
    for k in upto(3):
        x = x + k
    return x


@row(ops=2)
def generator_of_arrays(x):
    return list(scaled_all(x, (1.0, 2.0)))


@row(ops=3)
def generator_yield_from(x):
    out = 0
    for v in both(x):
        out = out + v
    return out * 2.0 + 1.0


@row(ops=1)
def generator_expression(x):
    return x * sum(k * k for k in range(4))


@row(ops=2)
def generator_next(x):
    g = scaled_all(x, (1.0, 2.0, 3.0))
    a = next(g)
    return a + next(g) if False else next(g)


@row(ops=1)
def generator_send(x):
    g = echo()
    next(g)
    return g.send(x)


@row(ops=2)
def generator_returns(x):
    return [v for v in delegating(x)]


@row(ops=1)
def generator_closed(x):
    g = upto(5)
    a = next(g)
    g.close()
    return x + a, next(g, None)


@row(ops=2)
def generator_unpacked(x):
    a, b = scaled_all(x, (1.0, 2.0))
    return a, b


@row(ops=1)
def generator_zipped(x):
    return x * sum(a * b for a, b in zip(upto(3), upto(9)))


@row(ops=2)
def generator_local(x):
    def squares(n):
        for i in range(n):
            yield i * i

    return x * sum(squares(4)) + 0


@row(ops=1)
def generator_left_early(x):
    for k in upto(100):
        if k == 2:
            break
    return x * k


@row(ops=3)
def generator_of_pairs(x):
    for i, v in enumerate(scaled_all(x, (2.0,))):
        x = x + v * (i + 1)
    return x


# ---- context managers


@row(ops=1)
def with_class(x):
    with Manager(2.0) as m:
        y = x * m.k
    return y


@row(ops=2)
def with_two(x):
    with Manager(2.0) as a, Manager(3.0) as b:
        x = x * a.k
        x = x + b.k
    return x, a.open


@row(ops=1)
def with_return(x):
    with Manager(2.0) as m:
        return x * m.k


@row(lambda n: (f64(n), Manager(2.0)), ops=1)
def with_argument(x, m):
    with m:
        return x * m.k


@row(ops=1)
def with_contextlib(x):
    with scaled(2.0) as k:
        y = x * k
    return y


@row(ops=1, reset=forget, observe=events)
def with_effects(x):
    with noted("a"):
        EVENTS.append("in")
        y = x + 1.0
    return y


@row(ops=1)
def with_nothing(x):
    with contextlib.nullcontext(3.0) as k:
        return x * k


@row(ops=1)
def with_suppress(x):
    with contextlib.suppress(KeyError):
        x = x + 1.0
        {}["a"]
    return x


@row(ops=1)
def with_swallowed(x):
    with Manager(2.0, swallow=True) as m:
        x = x * m.k
        raise Failure(1)
    return x


# ---- exceptions


@row(ops=1)
def raised_and_caught(x):
    try:
        raise ValueError("a")
    except ValueError:
        return x + 1.0


@row(ops=1)
def raised_in_callee(x):
    try:
        return x + checked(-1)
    except ValueError as e:
        return x * e.args[1]


@row(ops=1)
def try_that_passes(x):
    try:
        y = x + checked(1)
    except ValueError:
        y = x
    else:
        y = y, 1
    return y


@row(ops=2)
def try_finally(x):
    try:
        x = x + 1.0
    finally:
        x = x * 2.0
    return x


@row(ops=2)
def try_all(x):
    try:
        checked(-1)
    except (KeyError, ValueError):
        x = x + 1.0
    else:
        x = x - 1.0
    finally:
        x = x * 2.0
    return x


@row(ops=1)
def missing_key(x):
    d = {"a": 1}
    try:
        k = d["b"]
    except KeyError:
        k = 2.0
    return x * k


@row(ops=1)
def missing_index(x):
    try:
        k = (1, 2)[5]
    except IndexError:
        k = 2.0
    return x * k


@row(ops=1)
def missing_attribute(x):
    try:
        k = x.nothing
    except AttributeError:
        k = 2.0
    return x * k


@row(ops=1)
def division_by_zero(x):
    try:
        k = 1 / 0
    except ZeroDivisionError:
        k = 2.0
    return x * k


@row(ops=1)
def own_exception(x):
    try:
        raise Failure("code", 3.0)
    except Failure as e:
        return x * e.value, e.code


@row(ops=1)
def raised_again(x):
    try:
        try:
            raise KeyError("a")
        except KeyError:
            raise
    except LookupError:
        return x + 1.0


@row(ops=1)
def raised_from(x):
    try:
        try:
            raise KeyError("a")
        except KeyError as e:
            raise ValueError("b") from e
    except ValueError as e:
        return x + 1.0, isinstance(e.__cause__, KeyError)


@row(ops=3)
def retry_loop(x):
    for k in range(3):
        try:
            if k < 2:
                raise Failure(k)
            x = x + 1.0
        except Failure as e:
            x = x * (e.code + 1)
    return x


@row(ops=1)
def converted(x):
    try:
        k = int("12")
    except ValueError:
        k = 0
    return x * k


@row(ops=1)
def assertion_that_holds(x):
    assert x.ndim == 1, "rank"
    return x * 2.0


# ---- match


@row(lambda n: (f64(n), "double"), ops=1)
def match_string(x, mode):
    match mode:
        case "half":
            return x / 2
        case "double" | "twice":
            return x * 2
        case _:
            return x


@row(ops=1)
def match_sequence(x):
    match (x, [1, 2, 3]):
        case (a, [b, *rest]) if len(rest) == 2:
            return a * b, rest
        case _:
            return None


@row(ops=1)
def match_mapping(x):
    match {"kind": "scale", "k": 2.0, "more": 1}:
        case {"kind": "scale", "k": k, **rest}:
            return x * k, rest
        case _:
            return x


@row(ops=1)
def match_class(x):
    match Point(x, 2.0):
        case Point(x=a, y=float(b)):
            return a * b
        case _:
            return x


@row(ops=1)
def match_positional(x):
    match Point(x, 0):
        case Point(a, 0):
            return a * 2.0
        case _:
            return x


@row(lambda n: (f64(n), 3), ops=1)
def match_number(x, k):
    match k:
        case 0:
            return x
        case int(n) if n > 2:
            return x * n
        case _:
            return None


@row(lambda n: (f64(n), None), ops=1)
def match_none(x, k):
    match k:
        case None | False:
            return x + 1.0
        case _:
            return x


# ---- comprehensions, walrus, del, loops


@row(ops=3)
def list_comprehension(x):
    return [x * k for k in range(5) if k % 2 == 0]


@row(ops=2)
def dict_comprehension(x):
    return {k: x * v for k, v in {"a": 1, "b": 2}.items()}


@row(ops=1)
def nested_comprehension(x):
    return x * sum([i * j for i in range(3) for j in range(i)]), {i for i in range(3)}


@row(ops=1)
def walrus(x):
    if (n := x.ndim) > 0:
        return x * n
    return x


@row(ops=3)
def while_loop(x):
    n = 0
    while n < 10:
        n += 1
        if n == 2:
            continue
        x = x + n
        if n > 3:
            break
    else:
        x = x * 0.0
    return x


@row(ops=2)
def for_else(x):
    for k in (1.0, 2.0):
        x = x + k
    else:
        x = x
    return x


@row(ops=1)
def deleted_local(x):
    y = x + 1.0
    del x
    return y


@row(ops=1)
def chained_comparison(x):
    return x * 2.0 if 0 < x.ndim <= 3 else x


@row(ops=1)
def conditional_imports(x):
    import math

    return x * math.pi


@row(ops=1)
def star_expressions(x):
    a = [1, *range(2), *(3,)]
    return x * len(a), {**{"a": 1}}, (*a, 0)


@row(ops=1)
def unpacking_in_for(x):
    t = 0
    for a, (b, *c) in [(1, (2, 3)), (4, (5, 6, 7))]:
        t += a * b + len(c)
    return x * t
