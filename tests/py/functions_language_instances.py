"""Rows of the capture table about instances that look attributes up in Python, that are dicts, and what they are asked through:
``__dict__``, ``super().__getattribute__``, ``hasattr``, context variables, signatures."""

import collections.abc
import inspect
from collections import OrderedDict
from contextvars import ContextVar
from dataclasses import dataclass, fields

from case import f64
from language import row


class Renaming:
    renamed = {"size": "number"}
    factor = 3.0

    def __init__(self):
        self.number = 2.0
        self.nothing = None

    def __getattribute__(self, name):
        if super().__getattribute__("__dict__").get("hidden") is not None:
            return 5.0
        if name != "renamed" and name in super().__getattribute__("renamed"):
            name = super().__getattribute__("renamed")[name]
        return super().__getattribute__(name)

    @property
    def twice(self):
        return self.number * 2.0

    @staticmethod
    def half(x):
        return x / 2.0

    @classmethod
    def scaled(cls, x):
        return x * cls.factor


class Asking:
    def __init__(self):
        self.values = {"z": 1.0}

    def __getattr__(self, name):
        if name in self.__dict__["values"]:
            return self.__dict__["values"][name]
        raise AttributeError(f"{type(self).__name__!r} has no {name!r}")


class Output(OrderedDict):
    def __post_init__(self):
        for field in fields(self):
            value = self.__dict__.get(field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key):
        return dict(self.items())[key] if isinstance(key, str) else self.to_tuple()[key]

    def __setattr__(self, name, value):
        if name in {field.name for field in fields(self)} and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[k] for k in self.keys())


@dataclass
class Three(Output):
    first: object = None
    second: object = None
    third: object = None


class Shuffled(OrderedDict):
    pass


class Registry(dict):
    def __setitem__(self, key, value):
        super().__setitem__(str(key), value)

    def get(self, key):
        return super().get(str(key)) or 1.0


class Counted(collections.abc.Sequence):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i >= len(self):
            raise IndexError("out of range")
        return float(i)


current = ContextVar("current", default=None)
known = {Renaming, Three}


@row(lambda n: (f64(n), Renaming()), ops=4)
def looked_up_in_python(x, a):
    return (x * a.size + a.twice) * a.factor + a.number


@row(lambda n: (f64(n), Renaming()), ops=1)
def looked_up_and_missing(x, a):
    return x + getattr(a, "none", 7.0), hasattr(a, "none"), hasattr(a, "nothing"), getattr(a, "size", 0.0)


@row(lambda n: (f64(n), Renaming()), ops=3)
def static_and_class_method_of_argument(x, a):
    return a.half(x) + a.scaled(x)


@row(ops=2)
def made_and_looked_up_in_python(x):
    a = Renaming()
    a.extra = x + 1.0
    try:
        return a.none
    except AttributeError:
        return a.extra * a.size, a


@row(ops=1)
def asked_and_forgiven(x):
    a = Asking()
    return x + getattr(a, "z", 5.0), hasattr(a, "y"), getattr(a, "k", 4)


@row(ops=4)
def an_instance_that_is_a_dict(x):
    o = Three(first=x + 1.0, third=x * 2.0)
    o["second"] = o[0] + o["third"] + o.first
    return o


@row(ops=2)
def a_dict_instance_is_asked(x):
    o = Registry()
    o["a"] = x + 1.0
    o[3] = 4.0
    del o["3"]
    total = 0
    for key in o:
        total += len(key)
    return (o["a"] * total if "a" in o and o else x), len(o), o.get("nothing"), list(o.values())


@row(ops=1, graphs=1, breaks=1)
def the_order_of_a_dict_instance_is_gone_past(x):
    o = Shuffled()
    o["a"] = 1
    o["b"] = x + 1.0
    dict.__delitem__(o, "a")
    try:
        return list(o.items())
    except KeyError:
        return "lost"


filled = Registry()
filled["a"] = 3.0


@row(ops=1)
def a_registry_is_asked(x):
    return x * filled.get("a"), filled.get("b"), "a" in filled


@row(lambda n: (f64(n), Renaming()), ops=1)
def attributes_by_dict(x, a):
    return x + vars_of(a)["number"], "none" in a.__dict__, a.__dict__.get("none", 3), a.__dict__.get("number")


def vars_of(o):
    return o.__dict__


def from_context():
    return current.get()


@row(ops=2)
def context_variable(x):
    token = current.set({"s": x + 1.0})
    try:
        return from_context()["s"] * 2.0
    finally:
        current.reset(token)


@row(ops=2, observe=from_context, reset=lambda: current.set(None))
def context_variable_stays_set(x):
    token = current.set("a")
    first = from_context()
    current.set(first + "b")
    return x * 2.0 + len(current.get()), token is None


@row(ops=1)
def signature_and_code(x):
    def inner(a, b=3):
        return a

    names = looked_up_in_python.__code__.co_varnames
    n = len(inspect.signature(looked_up_in_python).parameters)
    return x * n, "a" in names, names.index("a"), inner.__code__.co_argcount


@row(ops=1)
def member_of_a_set_of_classes(x):
    return x + 1.0 if Three in known and Asking not in known else x


@row(ops=2)
def annotated_function_made_inside(x):
    def scaled(a: int, b: float = 2.0) -> float:
        return x * a + b

    return scaled(3), scaled


@row(lambda n: (f64(n), Counted(3)), ops=1)
def sequence_protocol(x, s):
    total = 0.0
    for v in s:
        total += v
    pairs = [a + b for a, b in zip([1.0, 2.0], s)]
    return x + total, pairs


def other_and_same_set(n):
    some = {"a", "b"}
    return f64(n), some, some


@row(other_and_same_set, ops=1)
def set_asked_then_changed(x, s, same):
    had = "z" in s
    s.discard("z")
    again = "b" in same
    same.add("c")
    return x + 1.0, had, again, sorted(s), len(same)


class Holding:
    def __init__(self):
        self.held = {"k": 1.0}


@row(lambda n: (f64(n), Holding()), ops=1)
def dict_changed_that_was_reached_in_two_ways(x, o):
    inner = o.__dict__.get("held")
    known = "k" in inner
    o.held["k"] = x + 1.0
    return known, inner["k"], inner is o.held


@row(lambda n: (f64(n), Renaming()), ops=1)
def parts_of_a_method(x, a):
    return x + 1.0, getattr(a.scaled, "__func__", None) is Renaming.scaled.__func__, a.scaled.__self__ is Renaming
