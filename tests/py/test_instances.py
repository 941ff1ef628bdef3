"""Instances that a recorded function makes: a class that makes instances of another."""

import gc

import numpy as np
from outcomes import calls

import dynoc


class Sorted:
    """As sortedcontainers.SortedList: a key makes an instance of a class below."""

    def __new__(cls, values, key=None):
        return object.__new__(cls if key is None else SortedByKey)

    def __init__(self, values, key=None):
        assert key is None
        self.values = values


class SortedByKey(Sorted):
    def __init__(self, values, key=None):
        self.values = -values
        self.key = key


class Listed:
    def __new__(cls, values):
        return object.__new__(cls) if cls is not Listed else list.__new__(ListedBelow)


class ListedBelow(list):
    pass


def test_a_class_that_makes_instances_of_another():
    def plain(x):
        return Sorted(x * 2).values, x + 1

    def by_key(x):
        made = Sorted(x * 2, key=abs)
        return made.values, made.key, type(made) is SortedByKey, x + 1

    def of_no_kin(x):
        return Listed(x), x * 2

    for fn in (plain, by_key, of_no_kin):
        calls(fn, np.arange(3.0))


WEIGHED = """
class Scaled:
    kind = "plain"
    def __init__(self, w):
        self.w, self.b = w, 1.0
    def bias(self):
        return self.b
    def __getattr__(self, name):
        if name == "offset":
            return 0.5
        raise AttributeError(name)
def f(o, x):
    if hasattr(o, "extra"):
        return x * o.extra
    y = x * o.w + o.bias() + o.offset + getattr(o, "shift", 0.0)
    return y * len(o.kind) if o.kind else y
"""


def test_guards_of_instances_make_no_dicts():
    """Up to CPython 3.12 the methods of an instance with a dict are looked up anew at each call. What an instance has is guarded
    all the same, with and without a dict."""

    def changed(o, k):
        if k == 6:
            o.w = 3.0
        elif k == 12:
            o.kind = "other kind"
        elif k == 18:
            o.bias = lambda: 10.0
        elif k == 24:
            o.offset = 7.0
        elif k == 30:
            o.__dict__["shift"] = 100.0
        elif k == 36:
            o.extra = 2.0

    outcomes = []
    for optimise in (lambda f: f, dynoc.optimize(wait=True)):
        space = {}
        exec(WEIGHED, space)
        f, o, rows = optimise(space["f"]), space["Scaled"](2.0), []
        for k in range(42):
            changed(o, k)
            rows.append(f(o, np.arange(4.0) + k).tolist())
            assert k > 28 or not any(type(held) is dict for held in gc.get_referents(o))
        outcomes.append(rows)
    assert outcomes[0] == outcomes[1]
