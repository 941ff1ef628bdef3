"""What a function read is changed between calls: the next call gives what plain Python gives, no stale entry is served."""

import builtins
import collections
import itertools

import numpy as np
import pytest
from case import f64
from compare import check, dynoc

FACTOR = 2.0
TABLE = {"a": 1.0, "b": 2.0}
ITEMS = [1.0, 2.0]


class Model:
    gain = 2.0

    def __init__(self, w=1.0):
        self.w = w

    def scaled(self, x):
        return x * self.w

    @property
    def double(self):
        return self.w * 2.0

    def __len__(self):
        return 3

    def __add__(self, x):
        return x + self.w

    def __call__(self, x):
        return x - self.w


class Child(Model):
    pass


MODEL = Model()


def helper(x, k=2.0, *, shift=1.0):
    return x * k + shift


def compare(fn, steps, maker=lambda: (f64(5),)):
    """Calls before and after each step: a function that changes something. Each step is undone by the caller's fixture."""
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(3):
        check(fn, fast, maker, what=f"call {turn}")
    for i, step in enumerate(steps):
        step()
        for turn in range(3):
            check(fn, fast, maker, what=f"step {i}, call {turn}")
    return fast


@pytest.fixture(autouse=True)
def restored():
    saved = dict(globals())
    attrs = {cls: dict(vars(cls)) for cls in (Model, Child)}
    code, defaults, kwdefaults = helper.__code__, helper.__defaults__, helper.__kwdefaults__
    yield
    globals().update(saved)
    TABLE.clear()
    TABLE.update(a=1.0, b=2.0)
    ITEMS[:] = [1.0, 2.0]
    helper.__code__, helper.__defaults__, helper.__kwdefaults__ = code, defaults, kwdefaults
    for cls, names in attrs.items():
        for name in set(vars(cls)) - set(names):
            delattr(cls, name)
        for name, value in names.items():
            if vars(cls).get(name) is not value and name not in ("__dict__", "__weakref__", "__doc__"):
                setattr(cls, name, value)
    Child.__bases__ = (Model,)
    MODEL.__dict__.clear()
    MODEL.w = 1.0
    builtins.__dict__.pop("FACTOR2", None)


def setter(name):
    return lambda value: lambda: globals().__setitem__(name, value)


def test_global():
    change = setter("FACTOR")
    compare(lambda x: x * FACTOR, [change(3.0), change(4), change(f64(5)), change(None), change(2.0)])


def test_global_function():
    compare(lambda x: helper(x), [lambda: globals().__setitem__("helper", lambda x: x - 1.0)])


def test_global_becomes_builtin_and_back():
    builtins.FACTOR2 = 5.0
    compare(
        lambda x: x * FACTOR2,  # noqa: F821
        [
            lambda: globals().__setitem__("FACTOR2", 6.0),
            lambda: globals().pop("FACTOR2"),
            lambda: setattr(builtins, "FACTOR2", 7.0),
        ],
    )


def test_builtin(monkeypatch):
    def f(x):
        return x * len((1, 2))

    compare(f, [lambda: monkeypatch.setattr(builtins, "len", lambda o: 9)])


@pytest.mark.parametrize(
    "change",
    [
        lambda: setattr(helper, "__defaults__", (5.0,)),
        lambda: setattr(helper, "__defaults__", (5,)),
        lambda: setattr(helper, "__defaults__", None),
        lambda: setattr(helper, "__kwdefaults__", {"shift": 7.0}),
        lambda: helper.__kwdefaults__.update(shift=8.0) or setattr(helper, "__kwdefaults__", {"shift": 8.0}),
        lambda: setattr(helper, "__code__", (lambda x, k=2.0, *, shift=1.0: x - k).__code__),
    ],
)
def test_defaults_and_code(change):
    compare(lambda x: helper(x), [change])


def use_class(x):
    m = Model(2.0)
    return m.scaled(x) * m.gain + m.double, len(m)


def use_instance(x):
    return MODEL.scaled(x) * MODEL.gain + MODEL.double, len(MODEL)


def use_child(x):
    m = Child(2.0)
    return m.scaled(x) + m.gain, (m + x), m(x)


def use_bool(x):
    return x + 1.0 if Model(0.0) else x


def use_missing(x):
    return x + getattr(MODEL, "offset", 1.0), hasattr(MODEL, "offset"), hasattr(Model(), "offset")


def get_twelve(self, name):
    return 12.0 if name == "w" else object.__getattribute__(self, name)


CHANGES = {
    "class attribute": lambda: setattr(Model, "gain", 5.0),
    "class attribute of another type": lambda: setattr(Model, "gain", f64(5)),
    "method": lambda: setattr(Model, "scaled", lambda self, x: x + self.w),
    "method made static": lambda: setattr(Model, "scaled", staticmethod(lambda x: x - 9.0)),
    "property": lambda: setattr(Model, "double", property(lambda self: 7.0)),
    "property made a plain attribute": lambda: setattr(Model, "double", 3.0),
    "attribute made a property": lambda: setattr(Model, "gain", property(lambda self: 6.0)),
    "init": lambda: setattr(Model, "__init__", lambda self, w=1.0: setattr(self, "w", 10.0)),
    "new": lambda: setattr(Model, "__new__", staticmethod(lambda cls, w=1.0: object.__new__(Child))),
    "len": lambda: setattr(Model, "__len__", lambda self: 4),
    "add": lambda: setattr(Model, "__add__", lambda self, x: x * 3.0),
    "call": lambda: setattr(Model, "__call__", lambda self, x: x * 4.0),
    "bool": lambda: setattr(Model, "__bool__", lambda self: False),
    "getattr": lambda: setattr(Model, "__getattr__", lambda self, name: 11.0),
    "getattribute": lambda: setattr(Model, "__getattribute__", get_twelve),
    "setattr": lambda: setattr(Model, "__setattr__", lambda self, name, v: object.__setattr__(self, name, v * 2)),
    "offset": lambda: setattr(Model, "offset", 4.0),
    "instance attribute": lambda: setattr(MODEL, "w", 3.0),
    "instance attribute of another type": lambda: setattr(MODEL, "w", f64(5)),
    "instance attribute over a method": lambda: setattr(MODEL, "scaled", lambda x: x * 0.5),
    "instance attribute over a class attribute": lambda: setattr(MODEL, "gain", 0.25),
    "instance offset": lambda: setattr(MODEL, "offset", 3.0),
    "class of the instance": lambda: setattr(MODEL, "__class__", Child),
    "child method": lambda: setattr(Child, "scaled", lambda self, x: x * 100.0),
    "child bases": lambda: setattr(Child, "__bases__", (type("Other", (Model,), {"gain": 8.0, "__call__": lambda s, x: x}),)),
}


@pytest.mark.parametrize("fn", [use_class, use_instance, use_child, use_bool, use_missing], ids=lambda f: f.__name__)
@pytest.mark.parametrize("change", CHANGES, ids=repr)
def test_classes(fn, change):
    compare(fn, [CHANGES[change]])


def test_dict_values_keys_and_order():
    def f(x):
        out = x
        for key, value in TABLE.items():
            out = out * value + len(key)
        return out, TABLE.get("c", 1.0), "b" in TABLE, list(TABLE)

    compare(
        f,
        [
            lambda: TABLE.__setitem__("a", 5.0),
            lambda: TABLE.__setitem__("a", 5),
            lambda: TABLE.__setitem__("c", 3.0),
            lambda: TABLE.pop("b"),
            lambda: TABLE.__setitem__("b", TABLE.pop("a")),
            lambda: TABLE.update(a=TABLE.pop("c")),
            TABLE.clear,
        ],
    )


def test_list_length_and_items():
    def f(x):
        for k in ITEMS:
            x = x * k
        return x, len(ITEMS), ITEMS[-1] if ITEMS else None

    compare(
        f,
        [
            lambda: ITEMS.append(3.0),
            lambda: ITEMS.__setitem__(0, 7),
            lambda: ITEMS.__setitem__(0, f64(5)),
            lambda: ITEMS.pop(),
            ITEMS.clear,
        ],
    )


def test_cell():
    k, other = 2.0, [1.0]

    def f(x):
        return x * k + other[0]

    def set_cell(value):
        def change():
            nonlocal k
            k = value

        return change

    compare(f, [set_cell(3.0), set_cell(3), set_cell(f64(5)), lambda: other.__setitem__(0, 2), set_cell(2.0)])


def test_set():
    names = {"a", "b"}

    def f(x):
        return x * len(names), "a" in names, "c" in names

    compare(f, [lambda: names.add("c"), lambda: names.discard("a"), names.clear])


def test_default_dict_factory():
    d = collections.defaultdict(float, a=1.0)

    def f(x):
        return x * d["a"]

    compare(f, [lambda: d.__setitem__("a", 3.0), lambda: d.pop("a"), lambda: setattr(d, "default_factory", int)])


# ---- effects on objects whose identity changes


class Box:
    def __init__(self, v=0):
        self.v = v


def test_same_and_different_objects():
    def f(x, a, b):
        a.v = x + 1.0
        b.v = 5
        return a.v, b.v

    def same():
        box = Box()
        return f64(5), box, box

    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        check(f, fast, lambda: (f64(5), Box(), Box()))
        check(f, fast, same)


def test_same_and_different_lists():
    def f(x, a, b):
        a.append(x + 1.0)
        n = len(b)
        b.append(2)
        return n, len(a), a[-1]

    def same():
        items = []
        return f64(5), items, items

    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        check(f, fast, lambda: (f64(5), [], []))
        check(f, fast, same)


def test_object_read_after_another_was_changed():
    def f(x, a, b):
        a.v = x.shape[0]
        return x * b.v

    def same():
        box = Box(3.0)
        return f64(5), box, box

    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        check(f, fast, lambda: (f64(5), Box(), Box(3.0)))
        check(f, fast, same)


def test_object_inside_a_container():
    def f(x, a, boxes):
        a.v = x.shape[0]
        return x * boxes[0].v

    def same():
        box = Box(3.0)
        return f64(5), box, [box]

    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        check(f, fast, lambda: (f64(5), Box(), [Box(3.0)]))
        check(f, fast, same)


def test_list_that_is_the_global_one():
    def f(x, a):
        a.append(2.0)
        return x * len(ITEMS)

    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        ITEMS[:] = [1.0, 2.0]
        check(f, fast, lambda: (f64(5), [1.0]))
        for fn in (f, fast):
            ITEMS[:] = [1.0, 2.0]
            assert np.array_equal(fn(f64(5), ITEMS), f64(5) * 3)


def test_globals_dict_as_an_argument():
    def f(x, d):
        global FACTOR
        FACTOR = 7.0
        return x * d["FACTOR"]

    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        for fn in (f, fast):
            globals()["FACTOR"] = 2.0
            assert np.array_equal(fn(f64(5), {"FACTOR": 3.0}), f64(5) * 3)
        for fn in (f, fast):
            globals()["FACTOR"] = 2.0
            assert np.array_equal(fn(f64(5), globals()), f64(5) * 7)


def test_unused_argument_is_not_guarded():
    def f(x, unused):
        return x * 2.0

    fast = dynoc.optimize(f, wait=True)
    for other in (1, "a", None, [1], Box(), f64(3)):
        check(f, fast, lambda o=other: (f64(5), o))
    assert len(fast.entries) == 1


def test_unused_attributes_and_items_are_not_guarded():
    def f(x, box, items, table):
        return x * box.v + items[0] + table["a"]

    fast = dynoc.optimize(f, wait=True)
    for other in (1, "a", None, f64(3)):
        box = Box(2.0)
        box.other = other
        check(f, fast, lambda b=box, o=other: (f64(5), b, [1.0, o], {"a": 1.0, "b": o}))
    assert len(fast.entries) == 1


class Slotted:
    __slots__ = ("x",)


def deleted(o, y):
    try:
        del o.x
    except AttributeError:
        return y - 1.0
    return y + 1.0


def deleted_by_object(o, y):
    try:
        object.__delattr__(o, "x")
    except AttributeError:
        return y - 1.0
    return y + 1.0


def deleted_uncaught(o, y):
    z = y * 2.0
    del o.x
    return z


@pytest.mark.parametrize("order", list(itertools.product((False, True), repeat=3)), ids=str)
@pytest.mark.parametrize("kind", (Model, Slotted))
@pytest.mark.parametrize("fn", (deleted, deleted_by_object, deleted_uncaught))
def test_attribute_that_is_deleted_may_not_be_there(fn, kind, order):
    def maker(there):
        o = kind()
        if there:
            o.x = 1.0
        return o, f64(5)

    fast = dynoc.optimize(fn, wait=True)
    for there in order:
        check(fn, fast, lambda there=there: maker(there), what=f"there: {there}")


def test_attribute_that_is_deleted_is_not_guarded_otherwise():
    fast = dynoc.optimize(deleted, wait=True)
    for value in (1.0, "text", None, [1], f64(3)):
        o = Model()
        o.x = value
        assert (fast(o, f64(5)) == f64(5) + 1.0).all() and not hasattr(o, "x")
    assert len(fast.entries) == 1 and "'x' in o.__dict__" in "\n".join(fast.entries[0].guards)
