"""Rows of the test table about graph breaks that are resumed: in loops, with, try, inlined calls, at branches on data.

Imported by functions.py. `see` is opaque to the recorder (a ufunc made of a Python function), and what it was given is compared.
"""

import contextlib
import threading

import numpy as np
from case import case, f64, i64, pos, whole

seen = []


def see(value):
    """Called through SEE, which is opaque."""
    seen.append(repr(value))
    if isinstance(value, Exception):
        raise value
    return len(seen)


SEE = np.frompyfunc(see, 1, 1)


def forget():
    seen.clear()


def look():
    return list(seen)


def broken(*makers, **kwargs):
    """A row whose opaque calls are compared."""
    return case(*makers, reset=forget, observe=look, **kwargs)


# ---- loops


@broken(lambda: (f64(5), 40), lambda: (f64(5), 3), lambda: (f64(5), 0), lambda: (f64(0), 17), lambda: (f64(3, 2), 18))
def long_loop_cut(x, n):
    for i in range(n):
        x = x * 0.5 + i
    return x - 1


@broken(lambda: (f64(5), 40), lambda: (f64(5), 2), lambda: (f64(2), 0), lambda: (f64(2), 17))
def break_in_a_loop(x, n):
    for i in range(n):
        x = x * 0.5 + i
        SEE(i)
        x = x - 1
    return x * 2


@broken(lambda: (f64(5), 40), lambda: (f64(5), 2))
def break_in_some_trips(x, n):
    for i in range(n):
        x = x * 0.5 + i
        if i % 7 == 3:
            SEE(x[0])
        elif i % 5 == 2:
            continue
        if i == 30:
            break
        x = x - 1
    else:
        x = x + 100
    return x * 2


@broken(lambda: (f64(5), 23), lambda: (f64(5), 2))
def while_loop_cut(x, n):
    i = 0
    while i < n:
        x = np.abs(x) * 0.5 + i
        i += 1
    return x, i


@broken(lambda: (pos(5), 1e-3), lambda: (pos(5), 10.0), lambda: (pos(2, 2), 1e-6), tol="near")
def until_it_converges(x, tolerance):
    steps = 0
    while True:
        y = 0.5 * (x + 2.0 / x)
        steps += 1
        if np.abs(y - x).max() < tolerance:
            return y, steps
        x = y


@broken(lambda: (whole(6),), lambda: (whole(6) + 10,), lambda: (whole(6) - 20,))
def branch_on_data_cut(x):
    y = x * 2
    if y.sum() > 0:
        z = y + 1
    elif y.max() > -100 and y.min() < 0:
        z = y - 1
    else:
        z = y
    return z * 3


@broken(lambda: (whole(6),), lambda: (-np.abs(whole(6)),))
def chosen_by_data(x):
    y = x.sum() or x.max()
    z = (x > 0).any() and x + 1
    return y, z, x if (x > 3).any() else None


@broken(lambda: (f64(3), 20, 18), lambda: (f64(3), 2, 30), lambda: (f64(3), 30, 1))
def nested_loops(x, n, m):
    total = 0
    for i in range(n):
        for j in range(m):
            x = x * 0.5 + (i - j)
        total += i
        x = x + total
    return x, total


@broken(lambda: ([f64(3, seed=k) for k in range(30)],), lambda: ([f64(3), i64(3)] * 10,), lambda: ([],), lambda: ([f64(2)] * 3,))
def loop_over_a_list(items):
    total = np.zeros(3) if len(items) != 3 else np.zeros(2)
    for item in items:
        total = total + item
    return total


@broken(lambda: (f64(20, 3),), lambda: (f64(3, 3),), lambda: (f64(0, 3),))
def loop_over_rows_cut(x):
    total = np.zeros(3)
    for row in x:
        total = total * 0.5 + row
    return total


@broken(lambda: (f64(20, 3), f64(20)), lambda: (f64(2, 3), f64(2)))
def loop_over_pairs(x, y):
    total = np.zeros(3)
    for i, (row, scale) in enumerate(zip(x, y)):  # noqa: B905
        total = total * 0.5 + row * scale + i
    return total


@broken(lambda: ({"a": f64(3), "b": f64(3, seed=1)}, 3), lambda: ({k: f64(3) for k in range(20)}, 2))
def loop_over_a_dict(d, n):
    total = np.zeros(3)
    for key, value in d.items():
        total = total + value * n
        SEE(key)
    return total


@broken(lambda: (f64(4), 25), lambda: (f64(4), 3))
def loop_over_a_generator(x, n):
    def steps(n):
        for i in range(n):
            yield i * 0.5

    for s in steps(n):
        x = x + s
    return x


@broken(lambda: (f64(4), 25), lambda: (f64(4), 3))
def loop_that_collects(x, n):
    all_of_them = []
    for i in range(n):
        x = x * 0.5
        all_of_them.append(x + i)
    return all_of_them, len(all_of_them)


@broken(lambda: (f64(4), 25), lambda: (f64(4), 3))
def loop_that_writes(x, n):
    y = np.zeros_like(x)
    for i in range(n):
        y += x * i
        x[i % 4] = i
    return y


@broken(lambda: (f64(4),), lambda: (f64(2, 2),))
def loop_of_changing_kind(x):
    k = 1
    for i in range(22):
        x = x * k
        k = k * 0.5 if i % 2 else 2
        if i == 4:
            x = x.reshape(2, 2)
        if i == 9:
            x = x.astype(np.float32)
    return x


# ---- with and try


@contextlib.contextmanager
def noted(name):
    SEE("enter " + name)
    try:
        yield name
    finally:
        SEE("exit " + name)


@broken(lambda: (f64(4), 2), lambda: (f64(4), 20))
def break_in_a_with_block(x, n):
    with noted("outer") as name:
        y = x * 2
        for i in range(n):
            with noted("inner"):
                y = y + i
                SEE(i)
        y = y - 1
    return y, name


LOCK = threading.Lock()


class Refuses:
    def __init__(self, notes):
        self.notes = notes

    def __eq__(self, other):
        self.notes.append("eq")
        return NotImplemented

    def __lt__(self, other):
        self.notes.append("lt")
        return NotImplemented

    def __add__(self, other):
        self.notes.append("add")
        return NotImplemented

    def __radd__(self, other):
        self.notes.append("radd")
        return NotImplemented

    __iadd__ = None
    __pow__ = __sub__ = __rsub__ = __isub__ = __add__


class RefusesNot(Refuses):
    def __ne__(self, other):
        self.notes.append("ne")
        return NotImplemented


class Twice:
    __match_args__ = ("a", "a")
    a = 1.0


def outcome(f, *arguments):
    try:
        return f(*arguments)
    except (TypeError, ValueError) as error:
        return str(error)


@broken(lambda: (f64(4),), lambda: (f64(4),))
def methods_that_refuse_are_asked_once(x):
    notes = []
    a, b = Refuses(notes), RefusesNot(notes)
    results = [x * 2, a == b, a != b, b != a, a == 1, a != 1, 2 == b, a == a]
    for left, right in ((a, b), (b, a), (a, 1), (1, a), (a, [1])):
        results.append(outcome(lambda p, q: p < q, left, right))
        results.append(outcome(lambda p, q: p + q, left, right))
        results.append(outcome(lambda p, q: p - q, left, right))
        results.append(outcome(lambda p, q: p**q, left, right))
    for refused in (a, b):

        def add(p, q):
            p += q
            return p

        def subtract(p, q):
            p -= q
            return p

        results += [outcome(add, refused, 1), outcome(subtract, refused, 1), outcome(add, 1, refused), outcome(add, [1], refused)]
    return results, notes


def twice(o):
    match o:
        case Twice(p, q):
            return p, q
    return None


def twice_by_key(o, key):
    match o:
        case {key.name: p, "a": q}:
            return p, q
    return None


class Key:
    name = "a"


@broken(lambda: (f64(4),), lambda: (f64(4),))
def patterns_that_ask_twice(x):
    return x + 1.0, outcome(twice, Twice()), outcome(twice_by_key, {"a": x, "b": 2.0}, Key), x * 2.0


@broken(lambda: (f64(4), 3), lambda: (f64(4), 20))
def class_statement_in_the_middle(x, n):
    y = x * 2

    class Base:
        scale = n

        def __init__(self, v):
            self.v = v + y

        def grow(self):
            self.v = self.v * 0.5 + self.scale
            return self

    class Derived(Base, metaclass=type):
        def __init__(self, v):
            super().__init__(v)
            self.trips = 0

        def grow(self):
            super().grow()
            self.trips += 1
            return self

    d = Derived(x + 1)
    for _ in range(n):
        d = d.grow()
    return d.v, d.trips, Derived.__mro__[1].__name__, Derived.__qualname__


@broken(lambda: (f64(4), f64(4)), lambda: (f64(4), f64(4)))
def break_behind_changed_keywords(x, out):
    def f(x, out, *rest, **keywords):
        y = x * 2
        keywords["out"] = out
        keywords["x"] = y
        rest += (y,)
        SEE(len(keywords))
        return keywords, rest, y + 1

    return f(x, out, 1, axis=0), f(x, out)


@broken(lambda: (f64(4), 2), lambda: (f64(4), 20), lambda: (f64(4), -1))
def break_in_a_block_of_a_lock(x, n):
    y = x * 2
    with LOCK:
        y = y + 1
        SEE(LOCK.locked())
        for i in range(n):
            y = y + i
            SEE(i)
        if n < 0:
            y = y + y[n + 100]
        y = y - 1
    SEE(LOCK.locked())
    return y * 3


@broken(lambda: (f64(4), 2), lambda: (f64(4), 20), lambda: (f64(4), 0), lambda: (f64(4), -1))
def break_in_a_block_of_errstate(x, n):
    y = x * 2
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.sqrt(y - 3.0)
        SEE(np.geterr()["invalid"])
        for i in range(n):
            y = np.log(y) + i
            SEE(i)
        if n < 0:
            y = y + y[n + 100]
        y = y / 0.0
    SEE(np.geterr()["invalid"])
    return y * 3


@broken(lambda: (f64(4),))
def not_a_context_manager(x):
    y = x * 2
    with y:
        pass
    return y


@broken(lambda: (f64(4), 0), lambda: (f64(4), 1), lambda: (f64(4), 2), lambda: (f64(4), 3))
def break_in_a_try_block(x, how):
    y = x * 2
    try:
        SEE(1)
        y = y + 1
        if how == 1:
            SEE(ValueError("one"))
        y = y * 2
        if how == 2:
            raise KeyError("two")
        y = y + y[how]
    except ValueError as e:
        y = y - 100
        SEE(str(e))
    except KeyError:
        y = y - 200
        SEE("key")
        y = y - 1
    else:
        y = y + 1
    finally:
        SEE("finally")
        y = y * 3
    return y


@broken(lambda: (f64(4), 30), lambda: (f64(4), 3))
def try_in_a_loop(x, n):
    failed = 0
    for i in range(n):
        try:
            x = x * 0.5 + i
            if i % 5 == 4:
                SEE(ValueError(i))
            x = x + 1
        except ValueError:
            failed += 1
            continue
        finally:
            x = x - 1
    return x, failed


@broken(lambda: (f64(4), 2), lambda: (f64(4), 1))
def raised_behind_a_break(x, how):
    y = x * 2
    SEE(1)
    z = y + 1
    if how == 1:
        raise LookupError("behind")
    return z.reshape(3, 3)


@broken(lambda: (f64(4),))
def raised_by_the_opaque_call(x):
    y = x * 2
    z = (y +
         SEE(ArithmeticError("opaque")))  # fmt: skip
    return z


@broken(lambda: (f64(4), 20))
def returned_from_a_with_block(x, n):
    for i in range(n):
        with noted("block"):
            x = x + i
            if i == 17:
                return x
    return None


# ---- inlined calls


def inner(x, scale=2):
    y = x * scale
    SEE(scale)
    return y + 1


def middle(x, *more, key=3):
    y = inner(x, key) - 1
    return y + sum(inner(x, scale=m) for m in more) if more else y


@broken(lambda: (f64(4),), lambda: (f64(2, 3),))
def break_in_an_inner_function(x):
    y = x - 1
    z = inner(y)
    return z * y


@broken(lambda: (f64(4),))
def break_two_calls_deep(x):
    y = x - 1
    z = middle(y) + middle(y, key=5)
    return z * y


@broken(lambda: (f64(4),))
def inner_in_an_expression(x):
    return [inner(x) + inner(x, 3), (x, inner(*[x], **{"scale": 4}))]


@broken(lambda: (f64(4), 20), lambda: (f64(4), 3))
def inner_in_a_loop(x, n):
    for i in range(n):
        x = inner(x * 0.25, i)
    return x


def loops_inside(x, n):
    for i in range(n):
        x = x * 0.5 + i
    return x + 1


@broken(lambda: (f64(4), 20), lambda: (f64(4), 3))
def loop_in_an_inner_function(x, n):
    y = loops_inside(x, n)
    return y - loops_inside(y, 2)


def fails_inside(x, how):
    y = x + 1
    SEE(how)
    if how:
        raise ValueError("inside")
    return y * 2


@broken(lambda: (f64(4), 0), lambda: (f64(4), 1))
def caught_from_an_inner_function(x, how):
    y = x * 2
    try:
        z = fails_inside(y, how)
    except ValueError as e:
        return y, str(e), e.__traceback__.tb_next.tb_lineno
    return z


@broken(lambda: (f64(4), 1))
def raised_from_an_inner_function(x, how):
    y = x * 2
    z = fails_inside(y, how)
    return z


class Model:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        y = x * self.scale
        SEE("called")
        return y + 1

    def step(self, x, n):
        for _ in range(n):
            x = self(x) * 0.5
        return x


@broken(lambda: (Model(2.0), f64(3), 20), lambda: (Model(3), f64(3), 2))
def break_in_methods(model, x, n):
    return model.step(x, n) + model(x)


@broken(lambda: (f64(4), 6))
def recursive_with_a_break(x, n):
    def down(x, n):
        if n == 0:
            return x
        SEE(n)
        return down(x * 0.5, n - 1) + n

    return down(x, n)


# ---- cells and lifetimes


@broken(lambda: (f64(4), 20), lambda: (f64(4), 3))
def cells_in_a_loop(x, n):
    count = 0

    def add(y):
        nonlocal count
        count += 1
        return y + count

    for i in range(n):
        x = add(x * 0.5)
        SEE(i)
    return x, count


@broken(lambda: (f64(4),))
def closure_made_two_levels_down(x):
    def outer():
        def inner():
            def add(y):
                return y + shift

            return add

        return inner()

    shift = 1
    add = outer()
    SEE("a")
    a = add(x)
    shift = 10
    SEE("b")
    return a, add(x), outer()(x)


class Dies:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        seen.append("dies " + self.name)


@broken(lambda: (f64(4),), lambda: (f64(2),))
def objects_die_on_time(x):
    first = Dies("first")
    y = x * 2
    SEE("a")
    second = Dies("second")
    SEE("b")
    del first
    SEE("c")
    y = y + 1
    second = None
    SEE("d")
    return y, second


@broken(lambda: (f64(4),))
def locals_behind_a_break(x):
    y = x * 2
    SEE("a")
    z = y + 1
    return sorted(locals()), z
