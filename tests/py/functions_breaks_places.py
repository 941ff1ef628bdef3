"""Rows of the test table about the places that a break can stand at: except blocks, handlers that a real exception leads to,
special methods, closures that came in, functions that look at their frame, generators.

Imported by functions.py. `LOOK` is opaque to the recorder; it writes down what it is given, and what is being handled: the
exception, what it came from, and the rows of its traceback.
"""

import contextlib
import json
import operator
import sys
import traceback

import numpy as np
from case import f64, whole
from functions_breaks import SEE, broken, seen


def rows_of(error):
    rows = traceback.extract_tb(error.__traceback__)
    return [(row.name, row.lineno, row.colno, row.end_colno) for row in rows if row.filename == __file__]


def handled():
    told, error = [], sys.exc_info()[1]
    while error is not None and len(told) < 5:
        told.append((type(error).__name__, str(error), rows_of(error), error.__suppress_context__))
        error = error.__cause__ or error.__context__
    return told


def look(value):
    seen.append((repr(value), handled()))
    if isinstance(value, Exception):
        raise value
    return value


LOOK = np.frompyfunc(look, 1, 1)


def fails(value):
    return int("x" + str(value))


FAILS = np.frompyfunc(fails, 1, 1)

# ---- exceptions raised by an opaque call


@broken(lambda: (f64(5),), lambda: (f64(0),))
def raised_and_caught_by_the_caller_of_c(x):
    y = x * 2
    try:
        y = y + 1
        FAILS(1)
        y = y * 100
    except ValueError as e:
        y = y - 1
        LOOK(str(e))
        y = y * 3
    LOOK("behind")
    return y + 1


@broken(lambda: (f64(5), 0), lambda: (f64(5), 1), lambda: (f64(5), 2))
def raised_at_some_calls(x, how):
    y = x * 2
    try:
        LOOK([1, ValueError("v"), KeyError("k")][how])
        y = y * 7
    except ValueError:
        LOOK("value")
        y = y + 1
    except KeyError as e:
        y = y + 2
        LOOK(repr(e))
    else:
        y = y + 3
        LOOK("else")
    finally:
        y = y * 2
        LOOK("finally")
    return y + 1


@broken(lambda: (f64(5), 40), lambda: (f64(5), 2), lambda: (f64(5), 0))
def raised_in_a_loop(x, n):
    for i in range(n):
        x = x * 0.5 + 1
        try:
            if i % 3 == 0:
                FAILS(i)
            x = x + 1
            SEE(i)
        except ValueError as e:
            LOOK(str(e))
            x = x - 2
        x = x * 0.75
    return x * 2


@broken(lambda: (f64(5), 40), lambda: (f64(5), 3))
def left_from_except_blocks(x, n):
    for i in range(n):
        x = x * 0.5 + 1
        try:
            LOOK(ValueError(i) if i % 4 == 1 else i)
        except ValueError:
            SEE("in")
            if i == 1:
                continue
            x = x + 1
            if i > 20:
                break
    else:
        return x - 1
    LOOK("out")
    return x * 2


@broken(lambda: (f64(5),))
def returned_from_an_except_block(x):
    y = x * 2
    try:
        FAILS(0)
    except ValueError:
        LOOK("in")
        return y + 1
    return y


@broken(lambda: (f64(5), 0), lambda: (f64(5), 1))
def goes_on_from_an_except_block(x, again):
    y = x * 2
    try:
        try:
            y = y + 1
            FAILS(0)
        except ValueError as e:
            y = y - 1
            LOOK("inner")
            if again:
                raise
            raise KeyError("other") from e
    except (ValueError, KeyError):
        LOOK("outer")
        y = y * 2
    LOOK("behind")
    return y + 1


@broken(lambda: (f64(5), 0), lambda: (f64(5), 1), lambda: (f64(5), 2))
def leaves_from_an_except_block(x, how):
    y = x * 2
    try:
        FAILS(0)
    except ValueError as e:
        y = y - 1
        LOOK(str(y[0]))
        if how == 0:
            raise
        if how == 1:
            raise TypeError("other") from None
        raise e


@broken(lambda: (f64(5),))
def except_block_in_an_except_block(x):
    y = x * 2
    try:
        FAILS(0)
    except ValueError:
        y = y + 1
        LOOK("one")
        try:
            LOOK(KeyError("k"))
        except KeyError:
            y = y * 2
            LOOK("two")
            y = y + 3
        LOOK("one again")
        y = y - 1
    LOOK("none")
    return y


@broken(lambda: (f64(5), False), lambda: (f64(5), True))
def finally_reached_by_an_exception(x, caught):
    y = x * 2
    try:
        try:
            FAILS(0)
        finally:
            y = y + 1
            LOOK("finally")
            y = y * 2
            SEE("still")
    except ValueError:
        LOOK("caught")
        y = y - 1
        if not caught:
            raise
    return y * 3


def halves(x, how):
    y = x * 0.5
    LOOK("half")
    if how:
        FAILS(how)
    z = y + 1
    LOOK("half done")
    return z * 2


@broken(lambda: (f64(5), 0), lambda: (f64(5), 1))
def raised_in_an_inlined_call(x, how):
    y = x * 2
    try:
        y = halves(y, how)
    except ValueError as e:
        y = y + 1
        LOOK(str(e))
        y = y * 2
    LOOK("behind")
    return y + 1


def careful(x, how):
    try:
        y = halves(x + 1, how)
    except ValueError:
        LOOK("careful")
        y = x - 1
        if how == 2:
            raise
    return y * 2


@broken(lambda: (f64(5), 0), lambda: (f64(5), 1), lambda: (f64(5), 2))
def handled_in_an_inlined_call(x, how):
    y = x * 2
    try:
        y = careful(y, how) + y
    except ValueError:
        LOOK("after all")
        y = y * 5
    return y + 1


@broken(lambda: (f64(5), 30), lambda: (f64(5), 2))
def inlined_calls_in_a_loop_that_raise(x, n):
    good = 0
    for i in range(n):
        try:
            x = halves(x, i % 3 == 1)
            good += 1
        except ValueError:
            LOOK(i)
            x = x + 1
    return x, good


# ---- exceptions that the function raises itself, or that follow from what is known


@broken(lambda: (f64(5), 0), lambda: (f64(5), 1))
def raise_statement_and_a_break_in_its_handler(x, how):
    y = x * 2
    try:
        y = y + 1
        if how:
            raise ValueError("mine", how)
        y = y * 2
    except ValueError as e:
        y = y - 1
        LOOK(e.args)
        y = y * 3
    return y + 1


class Mine(Exception):
    def __init__(self, code):
        super().__init__("code", code)
        self.code = code


@broken(lambda: (f64(5),))
def exception_of_a_class_of_its_own(x):
    y = x * 2
    try:
        raise Mine(7)
    except Mine as e:
        LOOK(e.code)
        y = y + e.code
    return y + 1


@broken(lambda: (f64(5), {"a": 1}), lambda: (f64(5), {"b": 2}))
def missing_key_and_a_break_in_its_handler(x, d):
    y = x * 2
    try:
        n = d["b"]
    except KeyError as e:
        LOOK(str(e))
        n = 3
    LOOK("behind")
    return y * n


def checked(x, least):
    if x.shape[0] < least:
        raise ValueError(f"fewer than {least}")
    return x + 1


@broken(lambda: (f64(5), 3), lambda: (f64(2), 3))
def raised_by_a_check_in_an_inlined_call(x, least):
    y = x * 2
    try:
        y = checked(y, least)
    except ValueError as e:
        LOOK(str(e))
        y = y - 1
    return y * 3


@broken(lambda: (f64(5),))
def an_exception_is_kept(x):
    y = x * 2
    e = ValueError("kept", 3)
    LOOK(repr(e))
    return y + 1, repr(e)


@broken(lambda: (f64(5),), lambda: (np.zeros(5),))
def solver_that_fails(x):
    a = np.outer(x, x)
    y = x * 2
    try:
        y = np.linalg.solve(a + (np.eye(5) if x[0] else 0), y)
    except np.linalg.LinAlgError as e:
        LOOK(str(e))
        y = y * 3 + 1
    return y * 2


@broken(lambda: (f64(5), "[1, 2]"), lambda: (f64(5), "["))
def parser_that_fails(x, text):
    y = x * 2
    try:
        n = sum(json.loads(text))
    except json.JSONDecodeError:
        LOOK("no list")
        n = 1
    return y * n + 1


# ---- with statements that an exception goes through


class Room:
    def __init__(self, quiet):
        self.quiet = quiet
        self.visits = 0

    def __enter__(self):
        self.visits += 1
        LOOK("in")
        return self

    def __exit__(self, kind, error, tb):
        LOOK(("out", kind and kind.__name__))
        return self.quiet


@broken(lambda: (f64(5), Room(True), 1), lambda: (f64(5), Room(False), 0), lambda: (f64(5), Room(False), 1))
def with_statement_that_an_exception_ends(x, room, how):
    y = x * 2
    with room:
        y = y + 1
        LOOK("body")
        if how:
            FAILS(how)
        y = y * 2
    LOOK("behind")
    return y + 1, room.visits


@broken(lambda: (f64(5), 30), lambda: (f64(5), 1))
def with_statement_in_a_loop_that_exceptions_end(x, n):
    room = Room(True)
    for i in range(n):
        with room:
            x = x * 0.5 + 1
            LOOK(ValueError(i) if i % 3 == 0 else i)
            x = x + 1
        x = x - 0.5
    return x


@broken(lambda: (f64(5), 1), lambda: (f64(5), 0))
def suppressed(x, how):
    y = x * 2
    with contextlib.suppress(ValueError, KeyError):
        y = y + 1
        LOOK(KeyError("k") if how else 1)
        y = y * 5
    LOOK("behind")
    return y - 1


@broken(lambda: (whole(6),), lambda: (-whole(6),))
def branch_on_data_in_an_except_block(x):
    y = x * 2
    try:
        FAILS(0)
    except ValueError:
        if y.sum() > 0:
            y = y + 1
            LOOK("more")
        else:
            LOOK("less")
            y = y - 1
    return y * 3


# ---- special methods


class Vector:
    """Each of its methods does array work before and behind an opaque call."""

    scale = 2.0

    def __init__(self, data, name="v"):
        self.data = data * self.scale
        LOOK("init")
        self.total = self.data + 1
        self.name = name

    def __add__(self, other):
        y = self.data + 1
        LOOK("add")
        return y + other

    def __radd__(self, other):
        y = self.data - 1
        LOOK("radd")
        return y * other

    def __isub__(self, other):
        self.data = self.data - other
        LOOK("isub")
        self.total = self.data * 2
        return self

    def __neg__(self):
        y = -self.data
        LOOK("neg")
        return y * 2

    def __lt__(self, other):
        y = self.data * other
        LOOK("lt")
        return y < 3

    def __getitem__(self, i):
        y = self.data[i] * 2
        LOOK(("getitem", i))
        return y + 1

    def __setitem__(self, i, value):
        y = value * 2
        LOOK("setitem")
        self.data = self.data + y

    def __delitem__(self, i):
        y = self.data * 2
        LOOK("delitem")
        self.data = y + i

    def __contains__(self, item):
        self.data = self.data + item
        LOOK("contains")
        self.data = self.data * 2
        return self.name

    def __iter__(self):
        y = self.data * 2
        LOOK("iter")
        return iter([y + 1, y + 2])

    def __call__(self, x, *more, factor=1):
        y = x + self.data
        LOOK("call")
        return y * factor + len(more)

    @property
    def norm(self):
        y = self.data * self.data
        LOOK("norm")
        return np.sqrt(y)

    @norm.setter
    def norm(self, value):
        self.data = self.data * value
        LOOK("set norm")
        self.data = self.data + 1

    def __getattr__(self, name):
        if name != "missing":
            raise AttributeError(name)
        y = self.data * 3
        LOOK("getattr")
        return y + 1

    def method(self, x):
        y = self.data + x
        LOOK("method")
        return y * 2

    @classmethod
    def made(cls, x):
        y = x + 1
        LOOK("made")
        return cls(y * 2)


def vector():
    return Vector(f64(4))


def behind(*makers, **kwargs):
    """The makers' own objects are made outside of what is compared."""
    return broken(*makers, **kwargs)


@behind(lambda: (f64(4), vector()))
def special_binary(x, v):
    y = x * 2
    z = v + y
    w = v + v
    return z * 2, w - 1


@behind(lambda: (f64(4), vector()))
def special_reflected_and_in_place(x, v):
    y = x * 2
    z = 3 + v
    v -= y
    return z * 2, v.total + y


@behind(lambda: (f64(4), vector()))
def special_unary_and_compared(x, v):
    y = x * 2
    z = -v
    w = v < 3
    return z + y, w, y * 2


@behind(lambda: (f64(4), vector()))
def special_items(x, v):
    y = x * 2
    z = v[1:]
    v[0] = y
    del v[1]
    w = v[2] + y
    return z * 2, w, v.data + 1


@behind(lambda: (f64(4), vector()))
def special_membership(x, v):
    y = x * 2
    inside = 3 in v
    outside = 4 not in v
    return y + 1, inside, outside, v.data * 2


@behind(lambda: (f64(4), vector()))
def special_iteration(x, v):
    y = x * 2
    for row in v:
        y = y + row
    return y * 2


@behind(lambda: (f64(4), vector()))
def special_attributes(x, v):
    y = x * 2
    z = v.norm + y
    v.norm = 3
    w = v.missing * z
    return w + v.data, y


class Length:
    """Its length, which is a break, needn't be a plain number."""

    def __init__(self, x, said):
        self.x, self.said = x, said

    def __len__(self):
        LOOK("asked")
        return self.said


class Truth(Length):
    def __bool__(self):
        y = self.x + 1
        LOOK(y[0])
        return bool(self.said)


def said(*answers):
    return [lambda answer=answer: (f64(4), answer) for answer in answers]


@broken(*said(1, 0, True, np.int64(2), False))
def branches_on_a_truth_that_breaks(x, said):
    y = x * 2
    if Truth(x, said):
        y = y + 1
    else:
        y = y - 1
    o = Truth(x, said)
    while o:
        y = y * 3
        o.said = 0
    return y + 1


@broken(*said(1, 0, True, np.int64(2), -1, "long"))
def branches_on_a_length(x, said):
    y = x * 2
    if not Length(x, said):
        y = y - 1
    z = Length(x, said) and 5
    w = Length(x, said) or 7
    return y * 3, z == 5, w == 7


@behind(lambda: (f64(4), vector()))
def special_call(x, v):
    y = x * 2
    z = v(y, 1, 2, factor=3)
    w = v(*(z,), **{"factor": 2})
    return z + w + v.method(y)


@behind(lambda: (f64(4),))
def special_construction(x):
    y = x * 2
    v = Vector(y)
    w = Vector.made(v.total + 1)
    return v.total * 2, w.total + y, v.name


@behind(lambda: (f64(4), 30), lambda: (f64(4), 2))
def special_methods_in_a_loop(x, n):
    v = Vector(x)
    for i in range(n):
        x = x * 0.5 + v[i % 2]
        v.norm = 0.5
    return x, v.data


class Odd:
    def __init__(self, how):
        self.how = how

    def __add__(self, other):
        LOOK("add")
        if self.how == 0:
            return NotImplemented
        raise ValueError("no add")

    def __eq__(self, other):
        LOOK("eq")
        return NotImplemented

    def __lt__(self, other):
        LOOK("lt")
        return NotImplemented

    __hash__ = None


@behind(lambda: (f64(4), Odd(0)), lambda: (f64(4), Odd(1)))
def special_methods_that_fail(x, odd):
    y = x * 2
    same = odd == 3
    try:
        z = odd + 3
    except (TypeError, ValueError) as e:
        LOOK(str(e))
        z = y - 1
    y = z + same
    return y, odd < "s"


class Wrong:
    def __init__(self, x):
        self.x = x * 2
        LOOK("wrong")
        return x


@behind(lambda: (f64(4),))
def init_that_gives_something(x):
    y = x * 2
    try:
        Wrong(y)
    except TypeError as e:
        LOOK(str(e))
        y = y + 1
    return y * 2


class Base:
    def __init__(self, x):
        self.x = x * 2
        LOOK("base")
        self.y = self.x + 1

    def step(self, x):
        y = self.x + x
        LOOK("base step")
        return y * 2


class Derived(Base):
    def __init__(self, x, more):
        super().__init__(x + 1)
        LOOK("derived")
        self.more = self.y * more

    def step(self, x):
        y = x - 1
        LOOK("derived step")
        z = super().step(y)
        LOOK(__class__.__name__)
        return z + super().step(z)


@behind(lambda: (f64(4), 3.0))
def constructors_with_super(x, more):
    d = Derived(x, more)
    y = d.more * 2
    return y + d.step(y)


@behind(lambda: (Derived(f64(4), 2), f64(4)))
def methods_with_super(d, x):
    y = d.step(x * 2)
    LOOK("behind")
    return y + d.x


# ---- closures that came in


def counted(fn):
    calls = 0

    def wrapper(x, *args):
        nonlocal calls
        y = x * 2
        LOOK(calls)
        calls += 1
        z = fn(y, *args) + calls
        LOOK("done")
        return z * 2

    wrapper.forget = lambda: None
    return wrapper


@broken(lambda: (f64(4), 30), lambda: (f64(4), 2), factory=True)
def decorated_elsewhere():
    @counted
    def inner(x, n):
        return x - n

    def decorated_elsewhere(x, n):
        y = inner(x, n) + 1
        for _ in range(n):
            y = inner(y, 1) * 0.25
        return y

    return decorated_elsewhere


# ---- functions that look at their own frame


@broken(lambda: (f64(4), 2))
def names_of_attributes_only(x, n):
    y = np.stack([x, x * n])
    LOOK("stacked")
    z = y + 1
    LOOK("again")
    return z * 2


@broken(lambda: (f64(4), 2))
def locals_asked_for_twice(x, n):
    y = x * n
    LOOK("first")
    z = y + 1
    names = sorted(locals())
    LOOK(names)
    z = z * 2
    return z, names, "{n}".format(**locals())


@broken(lambda: (f64(4), 2))
def locals_that_are_kept(x, n):
    y = x * n
    seen_first = locals()
    LOOK("first")
    z = y + 1
    n = 5
    LOOK(sorted(seen_first))
    locals()
    return z * 2, seen_first["n"], sorted(seen_first)


@broken(lambda: (f64(4), 2))
def evaluated(x, n):
    y = x * n
    LOOK("first")
    z = eval("y + n")
    LOOK("second")
    hold = lambda: z * n  # noqa: E731
    return hold() + eval("z * 2"), sorted(vars()), sorted(dir())


@behind(lambda: (f64(4), vector()))
def special_methods_by_functions(x, v):
    y = x * 2
    z = operator.add(v, y)
    w = operator.neg(v) + operator.getitem(v, 1)
    return z + w, y * 2
