"""The object that optimize returns: CPython's argument binding, attributes, methods, pickles, changes of the function."""

import copy
import gc
import inspect
import pickle
import re
import sys
import weakref
from sys import intern

import numpy as np
import pytest
from compare import dynoc
from hypothesis import given, settings
from hypothesis import strategies as st

X = np.arange(6.0)


def outcome(fn, args, kwargs):
    """What a call gave: its result, or the type and text of its exception."""
    try:
        return "value", fn(*args, **kwargs)
    except TypeError as error:
        return "error", str(error)


def same(a, b):
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


# ---- binding


@st.composite
def signatures(draw):
    """The text of a parameter list, and its parameter names."""
    positional = draw(st.integers(0, 4))
    only = draw(st.integers(0, positional))
    defaults = draw(st.integers(0, positional))
    names, parts = [], []
    for i in range(positional):
        name = f"p{i}"
        names.append(name)
        parts.append(name if i < positional - defaults else f"{name}={i + 10}")
        if i + 1 == only:
            parts.append("/")
    star = draw(st.booleans())
    keyword = draw(st.integers(0, 3))
    if star:
        parts.append("*rest")
        names.append("rest")
    elif keyword:
        parts.append("*")
    for i in range(keyword):
        name = f"k{i}"
        names.append(name)
        parts.append(name if draw(st.booleans()) else f"{name}={i + 20}")
    if draw(st.booleans()):
        parts.append("**more")
        names.append("more")
    return ", ".join(parts), names


@st.composite
def calls(draw):
    args = draw(st.lists(st.integers(0, 5), max_size=6))
    keys = draw(st.lists(st.sampled_from(["p0", "p1", "p2", "p3", "k0", "k1", "k2", "odd", "x"]), unique=True, max_size=5))
    return args, {key: i for i, key in enumerate(keys)}


def with_signature(parameters, names, local="t"):
    """A function with these parameters behind an array that does array work and returns all it got."""
    space = {"np": np, "X": X}
    body = f"def f({parameters}):\n    {local} = X + 1.0\n    return {local} * 2.0, {', '.join(names)}{',' if names else ''}\n"
    exec(body, space)
    return space["f"]


@settings(max_examples=300, deadline=None)
@given(signatures(), st.lists(calls(), min_size=1, max_size=5))
def test_binds_as_cpython(signature, all_calls):
    plain = with_signature(*signature)
    fast = dynoc.optimize(with_signature(*signature), wait=True)
    for args, kwargs in all_calls + all_calls:
        expected, got = outcome(plain, args, dict(kwargs)), outcome(fast, args, dict(kwargs))
        assert same(expected, got), (signature[0], args, kwargs, expected, got)


def test_many_parameters():
    names = [f"a{i}" for i in range(200)]
    fn = with_signature(", ".join(names), names)
    fast = dynoc.optimize(with_signature(", ".join(names), names), wait=True)
    for _ in range(3):
        assert same(fn(*range(200)), fast(*range(200)))
        assert same(fn(**{n: 1 for n in names}), fast(**{n: 1 for n in names}))


def test_keyword_dict_is_fresh():
    @dynoc.optimize
    def f(x, **more):
        more["y"] = x + 1.0
        return more

    given = {"z": 3}
    for _ in range(3):
        result = f(X, **given)
        assert sorted(result) == ["y", "z"] and given == {"z": 3}


def test_odd_keyword_types():
    class Name(str):
        pass

    def f(x, y=1.0):
        return x + y

    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        assert same(fast(X, **{Name("y"): 2.0}), f(X, y=2.0))
        assert outcome(fast, (X,), {Name("q"): 2.0}) == outcome(f, (X,), {Name("q"): 2.0})


def test_calls_from_c():
    fast = dynoc.optimize(lambda x: x * 2.0, wait=True)
    assert [r.tolist() for r in map(fast, [X, X])] == [(X * 2.0).tolist()] * 2
    assert fast.__call__(X).tolist() == (X * 2.0).tolist()
    import functools

    assert functools.partial(fast, X)().tolist() == (X * 2.0).tolist()


# ---- descriptors


class Model:
    w = 3.0

    def __init__(self):
        self.b = 1.0

    @dynoc.optimize(wait=True)
    def method(self, x):
        return x * self.w + self.b

    @classmethod
    @dynoc.optimize(wait=True)
    def of_class(cls, x):
        return x * cls.w

    @staticmethod
    @dynoc.optimize(wait=True)
    def static(x):
        return x * 2.0

    @dynoc.optimize(wait=True)
    @classmethod
    def of_class_inside(cls, x):
        return x * cls.w

    @property
    @dynoc.optimize(wait=True)
    def value(self):
        return X * self.b


def test_methods():
    m = Model()
    for _ in range(3):
        assert same(m.method(X), X * 3.0 + 1.0)
        assert same(Model.method(m, X), X * 3.0 + 1.0)
        assert same(Model.of_class(X), X * 3.0) and same(m.of_class(X), X * 3.0)
        assert same(Model.of_class_inside(X), X * 3.0)
        assert same(Model.static(X), X * 2.0) and same(m.static(X), X * 2.0)
        assert same(m.value, X * 1.0)
    bound = m.method
    assert bound.__self__ is m and bound.__func__ is Model.__dict__["method"] and bound.__name__ == "method"
    m.b = 5.0
    assert same(bound(X), X * 3.0 + 5.0)
    with pytest.raises(TypeError):
        Model.method(X)


def test_optimize_a_bound_method():
    class Plain:
        def f(self, x):
            return x + 1.0

    fast = dynoc.optimize(Plain().f)
    assert same(fast(X), X + 1.0) and same(fast(X), X + 1.0)


# ---- attributes


def documented(x: np.ndarray, *, y: float = 2.0) -> np.ndarray:
    """Adds."""
    return x + y


def test_attributes():
    fast = dynoc.optimize(documented)
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__defaults__", "__kwdefaults__"):
        assert getattr(fast, name) == getattr(documented, name)
    for name in ("__code__", "__closure__", "__globals__", "__dict__"):
        assert getattr(fast, name) is getattr(documented, name)
    assert fast.__wrapped__ is documented
    assert inspect.signature(fast) == inspect.signature(documented)
    assert inspect.unwrap(fast) is documented
    assert inspect.getdoc(fast) == "Adds."
    assert inspect.getsource(fast) == inspect.getsource(documented)
    assert repr(fast) == f"<dynoc.optimize of {documented!r}>"
    assert callable(fast) and isinstance(fast, type(fast)) and not inspect.isclass(fast)
    assert type(fast) is dynoc._dynoc.OptimizedFunction
    with pytest.raises(TypeError):
        type(fast)()
    with pytest.raises(AttributeError):
        fast.nothing
    fast.mark = 1
    assert documented.mark == 1 and fast.mark == 1
    del fast.mark
    assert not hasattr(documented, "mark")


def test_type_parameters():
    if sys.version_info < (3, 12):
        pytest.skip("3.12 brings type parameters")
    space = {}
    exec("def f[T](x: T) -> T:\n    return x + 1.0\n", space)
    fast = dynoc.optimize(space["f"])
    assert fast.__type_params__ == space["f"].__type_params__ != ()
    assert same(fast(X), X + 1.0)


def test_hash_and_equality_are_identity():
    a, b = dynoc.optimize(documented), dynoc.optimize(documented)
    assert a == a and a != b and len({a, b}) == 2


def test_weak_references_and_collection():
    def make():
        def f(x, n):
            return f(x, n - 1) if n else x + 1.0

        f = dynoc.optimize(f, wait=True)
        return f

    fast = make()
    assert same(fast(X, 2), X + 1.0) and same(fast(X, 2), X + 1.0)
    r = weakref.ref(fast)
    assert r() is fast
    del fast
    gc.collect()
    assert r() is None


def test_collected_with_entries_that_know_each_other():
    class Owner:
        def __init__(self):
            self.fast = dynoc.optimize(self.work, wait=True)

        def work(self, x):
            return x + 1.0

    o = Owner()
    for _ in range(3):
        o.fast(X)
    r = weakref.ref(o)
    del o
    gc.collect()
    assert r() is None


# ---- pickles and copies


@dynoc.optimize(wait=True)
def by_name(x):
    return x + 1.0


def plain_named(x):
    return x - 1.0


plain_fast = dynoc.optimize(plain_named, fullgraph=True)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol):
    assert pickle.loads(pickle.dumps(by_name, protocol)) is by_name
    other = pickle.loads(pickle.dumps(plain_fast, protocol))
    assert other is not plain_fast and other.__wrapped__ is plain_named and same(other(X), X - 1.0)
    assert other.__reduce__()[1][1]["fullgraph"] is True
    model = pickle.loads(pickle.dumps(Model.static, protocol))
    assert model is Model.static
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(dynoc.optimize(lambda x: x), protocol)


def test_copy():
    assert copy.copy(by_name) is by_name and copy.deepcopy({"f": by_name})["f"] is by_name


# ---- changes of the function


def test_code_changes():
    def f(x):
        return x + 1.0

    def g(x):
        return x - 1.0

    def two(x, y):
        return x * y

    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        assert same(fast(X), X + 1.0)
    f.__code__ = g.__code__
    for _ in range(3):
        assert same(fast(X), X - 1.0)
    assert len(fast.entries) == 1
    fast.__code__ = two.__code__
    for _ in range(3):
        assert same(fast(X, X), X * X)
    with pytest.raises(TypeError):
        fast(X)


def test_default_changes():
    def f(x, y=1.0, *, z=2.0):
        return x * y + z

    fast = dynoc.optimize(f, wait=True)
    for _ in range(2):
        assert same(fast(X), X * 1.0 + 2.0)
    f.__defaults__ = (5.0,)
    assert same(fast(X), X * 5.0 + 2.0)
    fast.__kwdefaults__ = {"z": 7.0}
    assert same(fast(X), X * 5.0 + 7.0)
    f.__kwdefaults__["z"] = 8.0
    assert same(fast(X), X * 5.0 + 8.0)
    assert len(fast.entries) == 1  # floats are run-time values
    f.__defaults__ = (np.ones(6),)
    assert same(fast(X), X * np.ones(6) + 8.0)
    f.__defaults__ = f.__kwdefaults__ = None
    with pytest.raises(TypeError):
        fast(X)


def test_closure_changes():
    n = 2.0

    def f(x):
        return x * n

    fast = dynoc.optimize(f, wait=True)
    assert same(fast(X), X * 2.0) and same(fast(X), X * 2.0)
    n = 3.0
    assert same(fast(X), X * 3.0)
    n = np.full(6, 4.0)
    assert same(fast(X), X * n)
    del n
    with pytest.raises(NameError):
        fast(X)


def test_one_code_many_closures():
    def make(n):
        def f(x):
            t = x * n
            intern("a")
            return t + n

        return f, dynoc.optimize(f, wait=True)

    pairs = [make(n) for n in (1.0, 2, X)]
    for _ in range(3):
        for plain, fast in pairs:
            assert same(plain(X), fast(X))


# ---- use


def test_optimize_twice():
    fast = dynoc.optimize(dynoc.optimize(documented), wait=True)
    assert fast.__wrapped__ is documented
    assert same(fast(X), X + 2.0) and same(fast(X, y=3.0), X + 3.0)


def test_wrong_arguments_of_the_c_function():
    for bad in (print, 3, None, Model):
        with pytest.raises(TypeError):
            dynoc._dynoc.optimize(bad, {})
    with pytest.raises(TypeError):
        dynoc._dynoc.optimize(documented, None)


def test_run_compiles_nothing():
    fast = dynoc.optimize(lambda x: x + 1.0, wait=True)
    only = dynoc.run(fast)
    assert same(only(X), X + 1.0) and only.entries == []
    fast(X)
    assert same(only(X), X + 1.0) and fast.entries[0].hits == 1
    assert same(only(X.astype(np.float32)), X.astype(np.float32) + 1.0) and len(fast.entries) == 1
    assert dynoc.run(documented) is documented


def test_skip():
    @dynoc.skip
    def inner(x):
        return x + 1.0

    fast = dynoc.optimize(inner, wait=True)
    for _ in range(3):
        assert same(fast(X), X + 1.0)
    assert fast.entries == []


def test_traced_calls_are_plain():
    seen = []

    def tracer(frame, event, arg):
        seen.append(frame.f_code.co_name)
        return None

    def traced_function(x):
        return x + 1.0

    fast = dynoc.optimize(traced_function, wait=True)
    fast(X), fast(X)
    sys.settrace(tracer)
    try:
        fast(X)
    finally:
        sys.settrace(None)
    assert "traced_function" in seen


def test_tracebacks_show_each_function_once():
    def fails(x, bad):
        t = x + 1.0
        intern("a")
        u = t * 2.0
        if bad:
            raise ValueError("bad")
        return u

    fast = dynoc.optimize(fails, wait=True)

    def lines(fn):
        try:
            fn(X, 1)
        except ValueError as error:
            tb, rows = error.__traceback__.tb_next, []
            while tb is not None:
                rows.append((tb.tb_frame.f_code.co_name, tb.tb_lineno))
                tb = tb.tb_next
            return rows
        return None

    for _ in range(3):
        fast(X, 0)
    for _ in range(4):
        assert lines(fast) == lines(fails)


def test_reference_counts():
    def f(x, y):
        t = x + y
        intern("a")
        return t * 2.0

    fast = dynoc.optimize(f, wait=True)
    a, b = np.arange(4.0), np.arange(4.0)
    for _ in range(3):
        fast(a, b)
    before = sys.getrefcount(a), sys.getrefcount(b)
    plain = f(a, b)
    for _ in range(50):
        result = fast(a, y=b)
        assert sys.getrefcount(result) == sys.getrefcount(plain)
    assert (sys.getrefcount(a), sys.getrefcount(b)) == before


def test_del_behind_a_break_is_the_end_of_an_object():
    class Thing:
        pass

    def f(x):
        thing, array = Thing(), np.ones(3)
        seen = weakref.ref(thing), weakref.ref(array)
        y = x * 2.0
        intern("a")
        del thing
        dead = seen[0]() is None
        intern("b")
        del array
        intern("c")
        return y, dead, seen[1]() is None

    def check(fn):
        for _ in range(5):
            y, *dead = fn(X)
            assert same(y, X * 2.0) and dead == [True, True]

    check(dynoc.optimize(f, wait=True))
    with dynoc.enabled(wait=True):
        check(f)


def test_enabled_keeps_no_function_alive():
    def make():
        k = np.float64(2.0)
        return lambda x: x * k

    with dynoc.enabled(wait=True):
        functions = [make() for _ in range(3)]
        for f in functions:
            assert same(f(X), X * 2.0) and same(f(X), X * 2.0)
        alive = [weakref.ref(f) for f in functions]
        del f, functions
        gc.collect()
        assert [ref() for ref in alive] == [None] * 3


def test_tracing_switched_on_by_the_function():
    events = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name in ("callee", "f"):
            events.append((frame.f_code.co_name, event))
        return tracer

    def callee(x):
        return x + 5.0

    def f(x):
        y = x * 2.0
        sys.settrace(tracer)
        z = callee(y) + 1.0
        sys.settrace(None)
        return z

    fast = dynoc.optimize(f, wait=True)
    for _ in range(4):
        events.clear()
        assert same(fast(X), X * 2.0 + 6.0)
        assert events == [("callee", "call"), ("callee", "line"), ("callee", "return")]


def test_fullgraph_names_the_place_in_the_callee():
    def inner(v):
        return v + intern("a").count("a")

    @dynoc.optimize(fullgraph=True)
    def f(x):
        return inner(x * 2.0)

    with pytest.raises(dynoc.Unsupported) as raised:
        f(X)
    said = str(raised.value)
    lines = r"OPAQUE_CALL: .*\(intern\)", r".*in .*inner", r".*intern\(.*", r" +\^+", "hint: .*", "called from", r".*in .*f", ""
    assert re.match("\n".join(lines), said), said
    assert said.endswith("more: python -m dynoc reason OPAQUE_CALL")


def test_fullgraph_names_each_call_on_the_way():
    def innermost(v):
        return print() or v

    def middle(v):
        return innermost(v) + 1

    def outer(v):
        return middle(v) * 2

    with pytest.raises(dynoc.Unsupported) as raised:
        dynoc.optimize(outer, fullgraph=True)(X)
    places = re.findall(r"test_door\.py:(\d+): in (.*)", str(raised.value))
    functions = (innermost, middle, outer)
    assert places == [(str(f.__code__.co_firstlineno + 1), f.__qualname__) for f in functions]
    assert "hint: print behind the function" in str(raised.value)
