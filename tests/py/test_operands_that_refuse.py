"""Operators between arrays and objects that refuse them (NotImplemented, exceptions, fractions): who is asked, and in order."""

from collections import deque
from fractions import Fraction

import numpy as np
import pytest
from case import f64
from outcomes import calls_of


def blended(a, b, t):
    d = b - a
    return d * t, t * d, a + d * t, d / t, d - t


class Refuses:
    def __mul__(self, other):
        return NotImplemented

    __add__ = __pow__ = __sub__ = __mul__


def refused(x, other):
    return [
        tried(x, lambda a, b: a * b, other),
        tried(x, lambda a, b: a + b, other),
        tried(x, lambda a, b: a**b, other),
        tried(x, lambda a, b: a - b, other),
    ]


def tried(x, operation, other):
    try:
        return type(operation(Refuses(), other)), x + 1
    except TypeError as error:
        return str(error), x + 2


OTHERS = {
    "array": lambda: np.arange(3.0),
    "objects": lambda: np.array([Fraction(1, 2), 3], dtype=object),
    "0-d": lambda: np.array(Fraction(1, 2), dtype=object),
    "scalar": lambda: np.float64(2.5),
    "complex": lambda: 2j,
    "bytes": lambda: b"ab",
    "bytearray": lambda: bytearray(b"ab"),
    "deque": lambda: deque([1]),
    "list": lambda: [1],
    "range": lambda: range(3),
    "set": lambda: {1},
    "None": lambda: None,
    "int": lambda: 3,
    "fraction": lambda: Fraction(1, 3),
    "type": lambda: int,
}


@pytest.mark.parametrize("kind", ["array", "objects", "0-d", "scalar"])
def test_fractions_with_arrays(kind):
    with np.errstate(all="ignore"):
        calls_of(blended, lambda: (Fraction(1, 4), Fraction(3, 4), OTHERS[kind]() + 1))


@pytest.mark.parametrize("kind", OTHERS)
def test_what_an_instance_refuses(kind):
    calls_of(refused, lambda: (f64(3), OTHERS[kind]()))
