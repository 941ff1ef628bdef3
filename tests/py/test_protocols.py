"""Subclasses of ndarray, objects with NumPy's protocols, and arrays that are not compiled: handled as NumPy handles them, when
recorded and behind it, beside an ordinary array and alone."""

import re
import warnings

import numpy as np
import pytest
from compare import dynoc


class Tagged(np.ndarray):
    def __array_finalize__(self, other):
        self.tag = getattr(other, "tag", "new")

    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        args = [np.asarray(a) if isinstance(a, Tagged) else a for a in args]
        if "out" in kwargs:
            kwargs["out"] = tuple(np.asarray(o) if isinstance(o, Tagged) else o for o in kwargs["out"])
        return "tagged", ufunc.__name__, getattr(ufunc, method)(*args, **kwargs)


class Plain(np.ndarray):
    pass


class Duck:
    def __array_function__(self, function, types, args, kwargs):
        return "function", function.__name__

    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        return "ufunc", ufunc.__name__, method


class Convertible:
    def __array__(self, dtype=None, copy=None):
        return np.asarray([1.0, 2.0, 3.0, 4.0], dtype)


class NoUfuncs:
    __array_ufunc__ = None

    def __radd__(self, other):
        return "radd"

    def __add__(self, other):
        return "add"


class Priority:
    __array_priority__ = 1000

    def __radd__(self, other):
        return "priority"


OTHERS = {
    "tagged": lambda: np.arange(4.0).view(Tagged),
    "plain": lambda: np.arange(4.0).view(Plain),
    "duck": Duck,
    "convertible": Convertible,
    "no ufuncs": NoUfuncs,
    "priority": Priority,
    "matrix": lambda: np.matrix([[1.0, 2], [3, 4]]),
    "masked": lambda: np.ma.masked_array([1.0, 2, 3, 4], [0, 1, 0, 0]),
    "record": lambda: np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "list": lambda: [1.0, 2.0, 3.0, 4.0],
    "memory": lambda: memoryview(np.arange(4.0)),
    "objects": lambda: np.array([1, 2.0, "a", None], dtype=object),
    "swapped": lambda: np.arange(4.0).astype(">f8"),
    "strings": lambda: np.array(["a", "b", "c", "d"]),
    "days": lambda: np.array(["2020-01-01"] * 4, dtype="M8[D]"),
}
FUNCTIONS = (
    lambda x, y: x + y,
    lambda x, y: np.add(x, y),
    lambda x, y: np.sin(y),
    lambda x, y: np.concatenate([x, y]),
    lambda x, y: np.sum(y),
    lambda x, y: y.sum(),
    lambda x, y: np.where(x > 1, x, y),
    lambda x, y: x * 2 + np.asarray(y),
    lambda x, y: y[1:],
    lambda x, y: np.mean(y, axis=0),
    lambda x, y: np.dot(x, y),
    lambda x, y: x == y,
    lambda x, y: y.__iadd__(1),
    lambda x, y: np.stack([x, y]),
    lambda x, y: np.multiply(x, y, out=x),
    lambda x, y: x.__setitem__(slice(None), y),
    lambda x, y: np.maximum.reduce(y),
    lambda x, y: np.exp(x) @ y,
    lambda x, y: np.zeros_like(y),
    lambda x, y: y.reshape(-1),
)


def told(value):
    if isinstance(value, np.ndarray):
        text = re.sub(" at 0x[0-9a-f]+", "", repr(value))
        return type(value).__name__, value.dtype.str, value.shape, value.strides, text, getattr(value, "tag", None)
    if isinstance(value, tuple):
        return tuple(told(v) for v in value)
    return type(value).__name__, re.sub(" at 0x[0-9a-f]+", "", repr(value))


def outcome(function, x, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = told(function(x, y))
        except Exception as e:
            result = "raised", type(e).__name__, str(e)
    return result, told(x), told(y), [(w.category.__name__, str(w.message)) for w in caught]


@pytest.mark.parametrize("kind", OTHERS)
def test_handled_as_numpy_does(kind):
    for number, function in enumerate(FUNCTIONS):
        fast = dynoc.optimize(function, wait=True)
        for call in range(3):
            expected = outcome(function, np.arange(4.0), OTHERS[kind]())
            assert outcome(fast, np.arange(4.0), OTHERS[kind]()) == expected, (number, call)
