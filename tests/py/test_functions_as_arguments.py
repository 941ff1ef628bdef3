"""Functions that come in (as arguments, in containers, attributes, cells) serve by their code: what is read of them is guarded,
which object they are only where somebody looks at that."""

import types

import numpy as np
import pytest
from case import f64
from compare import dynoc

SCALE = 2.0


def scaled(k):
    return lambda v: v * k


def counter():
    n = 0

    def count(v):
        nonlocal n
        n += 1
        return v * n

    return count


class Holder:
    def __init__(self, f):
        self.f = f


class Model:
    def __init__(self, k):
        self.k = k

    def apply(self, x):
        return x * self.k


def applied(x, f):
    return f(x) + 1.0


def in_list(x, f):
    for g in f:
        x = g(x)
    return x


def in_dict(x, f):
    return f["first"](f["second"](x))


def in_attribute(x, f):
    return f.f(x) + 1.0


def or_none(x, f):
    if f is None or not f:
        return x
    return f(x) if callable(f) and isinstance(f, types.FunctionType) else x * 0.0


def handed_on(x, f):
    return applied(x, f) * 2.0


def wrapped(x, f):
    def inner(v):
        return f(v) * 3.0

    return inner(x)


def in_comprehension(x, f):
    return [f(v) for v in (x, x + 1.0)]


def starred(x, f):
    return f(*(x,), **{})


def kept(x, f):
    return f(x), f, [f]


CASES = {
    "a lambda": (applied, lambda i: lambda v: v * 2.0),
    "a closure": (applied, lambda i: scaled(float(i))),
    "a closure of an array": (applied, lambda i: scaled(f64(4) + i)),
    "a default": (applied, lambda i: lambda v, k=float(i): v * k),
    "a keyword default": (applied, lambda i: lambda v, *, k=float(i): v * k),
    "a closure of a closure": (applied, lambda i: (lambda f: lambda v: f(v) + i)(scaled(2.0 + i))),
    "a global": (applied, lambda i: lambda v: v * SCALE),
    "a bound method": (applied, lambda i: Model(float(i)).apply),
    "a method of a lambda": (applied, lambda i: types.MethodType(lambda self, v: v * self.k, Model(float(i)))),
    "a list": (in_list, lambda i: [scaled(2.0), scaled(i + 0.5)]),
    "a tuple": (in_list, lambda i: (scaled(2.0), scaled(i + 0.5))),
    "a dict": (in_dict, lambda i: {"first": scaled(2.0), "second": lambda v: v + i}),
    "an attribute": (in_attribute, lambda i: Holder(scaled(float(i)))),
    "not None": (or_none, lambda i: scaled(float(i))),
    "handed on": (handed_on, lambda i: scaled(float(i))),
    "in a closure made here": (wrapped, lambda i: scaled(float(i))),
    "in a comprehension": (in_comprehension, lambda i: scaled(float(i))),
    "with a star": (starred, lambda i: scaled(float(i))),
    "that counts": (applied, lambda i: counter()),
}


@pytest.mark.parametrize("name", CASES)
def test_new_function_at_every_call_is_one_entry(name):
    fn, make = CASES[name]
    fast = dynoc.optimize(fn, wait=True)
    for i in range(2, 14):
        np.testing.assert_array_equal(fast(f64(4), make(i)), fn(f64(4), make(i)))
    assert [e.end for e in fast.entries] == ["return"]
    assert fast.entries[0].hits == 11


def test_function_that_is_given_back_is_the_one_that_came():
    fast = dynoc.optimize(kept, wait=True)
    for i in range(5):
        f = scaled(float(i))
        y, g, fs = fast(f64(4), f)
        assert g is f and fs[0] is f
        np.testing.assert_array_equal(y, f(f64(4)))
    assert len(fast.entries) == 1


def test_cell_that_is_written_lives_on():
    fast, f, g = dynoc.optimize(applied, wait=True), counter(), counter()
    for i in range(1, 6):
        np.testing.assert_array_equal(fast(f64(4), f), applied(f64(4), g))
    assert len(fast.entries) == 1


def twice(x, f, g):
    return f(g(x))


def test_one_function_in_two_places():
    fast = dynoc.optimize(twice, wait=True)
    for _ in range(3):
        f, g = counter(), counter()
        np.testing.assert_array_equal(fast(f64(4), f, f), f64(4) * 1.0 * 2.0)
        np.testing.assert_array_equal(fast(f64(4), f, g), f64(4) * 1.0 * 3.0)
        np.testing.assert_array_equal(fast(f64(4), f, g), f64(4) * 2.0 * 4.0)
    assert len(fast.entries) == 2


def compared(x, f, g):
    return x + 1.0 if f is g else x - 1.0


def is_the_helper(x, f):
    return x + 1.0 if f is applied else f(x)


def test_identity_is_guarded_where_it_is_looked_at():
    fast = dynoc.optimize(compared, wait=True)
    for i in range(3):
        f = scaled(1.0)
        np.testing.assert_array_equal(fast(f64(4), f, f), f64(4) + 1.0)
        np.testing.assert_array_equal(fast(f64(4), f, scaled(1.0)), f64(4) - 1.0)
    assert len(fast.entries) == 2
    fast = dynoc.optimize(is_the_helper, wait=True)
    for i in range(4):
        np.testing.assert_array_equal(fast(f64(4), scaled(3.0 + i)), f64(4) * (3.0 + i))
        np.testing.assert_array_equal(fast(f64(4), applied), f64(4) + 1.0)
    assert len(fast.entries) == 2


def changed(f, **parts):
    for name, value in parts.items():
        setattr(f, name, value)
    return f


def other_globals(f, **names):
    return types.FunctionType(f.__code__, {"__builtins__": __builtins__, **names}, f.__name__, f.__defaults__, f.__closure__)


def base(v, a=1.0, b=2.0):
    return v * a + b


def globally(v):
    return v * SCALE


def builtin(v):
    return v * len((1, 2))


CHANGES = [
    lambda: base,
    lambda: changed(types.FunctionType(base.__code__, globals(), "base", (3.0, 4.0)), __kwdefaults__=None),
    lambda: types.FunctionType(base.__code__, globals(), "base", (5.0, 1.0, 2.0)),
    lambda: types.FunctionType(base.__code__, globals(), "base", (5, f64(4))),
    lambda: globally,
    lambda: other_globals(globally, SCALE=3.0),
    lambda: other_globals(globally, SCALE=7),
    lambda: builtin,
    lambda: types.FunctionType(builtin.__code__, {"__builtins__": {"len": lambda o: 5}}),
    lambda: scaled(2.0),
    lambda: scaled(2),
    lambda: scaled(f64(4)),
    lambda: np.negative,
    lambda: np.flip,
    lambda: Model(2.0).apply,
    lambda: abs,
]


def test_what_is_read_of_a_function_is_guarded():
    fast, made = dynoc.optimize(applied, wait=True, options={"cache_limit": 64}), [make() for make in CHANGES]
    for turn in range(3):
        for f in made:
            np.testing.assert_array_equal(fast(f64(4), f), applied(f64(4), f))
    assert len(fast.entries) <= len(CHANGES)


def test_fewer_defaults_than_recorded():
    fast = dynoc.optimize(applied, wait=True)
    fast(f64(4), base)
    short = types.FunctionType(base.__code__, globals(), "base", (1.0,))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        fast(f64(4), short)


def broken(x, f):
    y = f(x + 1.0)
    dynoc.graph_break()
    return f(y) * 2.0


def breaks_inside(x, f):
    return f(x + 1.0) * 2.0


def inner_break(v):
    y = v * 2.0
    dynoc.graph_break()
    return y + SCALE


def test_breaks_beside_functions_that_came_in():
    fast = dynoc.optimize(broken, wait=True)
    for i in range(5):
        np.testing.assert_array_equal(fast(f64(4), scaled(float(i))), broken(f64(4), scaled(float(i))))
    assert len(fast.entries) == 2
    fast = dynoc.optimize(breaks_inside, wait=True)
    for i in range(4):
        f = inner_break if i % 2 else other_globals(inner_break, dynoc=dynoc, SCALE=float(i))
        np.testing.assert_array_equal(fast(f64(4), f), breaks_inside(f64(4), f))


def raising(x, f):
    try:
        return f(x)
    except ZeroDivisionError:
        return x


def test_exception_in_a_function_that_came_in():
    fast = dynoc.optimize(raising, wait=True)
    for i in range(6):
        f = (lambda d: lambda v: v * (1 // d))(i % 3)
        np.testing.assert_array_equal(fast(f64(4), f), raising(f64(4), f))


def named(x, f):
    return x + 1.0, f.__name__, f"{f.__module__}.{f.__qualname__}"


def test_the_name_of_a_function_is_read_and_guarded():
    """A function's names have getters in place of slots; they are guarded, also where a memo answers most guards."""
    f = scaled(2.0)
    fast = dynoc.optimize(named, wait=True, fullgraph=True)
    x = f64(3)
    for name in ("first", "second", "first"):
        f.__name__ = name
        f.__qualname__ = f"of.{name}"
        for _ in range(3):
            assert str(fast(x, f)) == str(named(x, f))
    assert len(fast.entries) == 2


class Deep:
    def __init__(self, inner, f):
        self.inner, self.f, self.a, self.b, self.c = inner, f, 1.0, 2.0, 3.0


def named_below(deep, x):
    o = deep.inner.inner
    return x * o.a + o.b * o.c + deep.inner.a, 1.0 if o.f.__name__ == "first" else 2.0


def test_the_name_of_a_function_behind_a_memo():
    deep = Deep(Deep(Deep(None, scaled(1.0)), None), None)
    fast = dynoc.optimize(named_below, wait=True, fullgraph=True)
    x = f64(3)
    for name in ("first", "second", "first"):
        deep.inner.inner.f.__name__ = name
        for _ in range(8):
            assert str(fast(deep, x)) == str(named_below(deep, x))
    assert len(fast.entries) == 2
