"""Attributes that a descriptor computes when they are first read, and stores in the object under its own name."""

import numpy as np
import pytest
from compare import dynoc


class Lazy:
    """As torch.distributions has it."""

    def __init__(self, function):
        self.function = function

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        value = self.function(instance)
        setattr(instance, self.function.__name__, value)
        return value


class Called:
    """A descriptor's function that is no Python function."""

    def __call__(self, descriptor, instance, owner):
        instance.total = instance.x * 3.0
        return instance.total


class ByObject:
    __get__ = Called()


class Lines:
    def __init__(self, x):
        self.x = x

    @Lazy
    def doubled(self):
        return self.x * 2.0

    @Lazy
    def scale(self):
        return lambda y: y + self.x

    total = ByObject()


def opaque():
    return len(repr(object()))


def read(x):
    lines = Lines(x)
    opaque()
    return lines.doubled + lines.doubled


def read_behind(x):
    lines = Lines(x)
    first = lines.doubled
    opaque()
    return lines.doubled + first


def call(x):
    lines = Lines(x)
    opaque()
    return lines.scale(x) * lines.scale(x * 2.0)


def by_object(x):
    lines = Lines(x)
    opaque()
    return lines.total + lines.total


def came_in(lines):
    return lines.doubled + lines.x


@pytest.mark.parametrize("function", [read, read_behind, call, by_object], ids=lambda f: f.__name__)
def test_it_is_computed_once_and_found_again(function):
    fast = dynoc.optimize(function, wait=True)
    for i in range(6):
        x = np.arange(4.0) + i
        np.testing.assert_array_equal(fast(x), function(x))
    recorded = len(fast.entries)
    for i in range(12):
        fast(np.arange(4.0) + i)
    assert len(fast.entries) == recorded <= 6


def test_of_an_object_that_came_in():
    fast = dynoc.optimize(came_in, wait=True)
    for i in range(8):
        lines = Lines(np.arange(3.0) + i)
        for _ in range(2):
            np.testing.assert_array_equal(fast(lines), lines.x * 3.0)
        assert lines.__dict__["doubled"] is lines.doubled
    assert len(fast.entries) <= 3


def test_the_class_or_the_object_is_given_another_later():
    fast = dynoc.optimize(read, wait=True)
    x = np.arange(4.0)
    for _ in range(3):
        fast(x)
    before = Lines.doubled
    try:
        Lines.doubled = Lazy(lambda self: self.x * 10.0)
        Lines.doubled.function.__name__ = "doubled"
        np.testing.assert_array_equal(fast(x), x * 20.0)
    finally:
        Lines.doubled = before
    np.testing.assert_array_equal(fast(x), x * 4.0)
