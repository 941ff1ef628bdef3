"""Native loops that read attributes of objects, and call methods of them."""

import sys

import numpy as np
import pytest

import dynoc


class Grid:
    scale = 2

    def __init__(self, n):
        self.k, self.h, self.n = 3, 0.5, n
        self.u = np.linspace(0.0, 1.0, n)
        self.weights = [1.5, 2.5, -1.0]

    def weight(self, i, factor=2):
        return self.weights[i % 3] * factor + self.k

    def smooth(self):
        for t in range(3):
            for i in range(1, self.n - 1):
                self.u[i] += self.h * (self.u[i - 1] - 2 * self.u[i] + self.u[i + 1])
        return self.u

    def total(self, m):
        s = 0.0
        for i in range(m):
            s += self.weight(i) - self.weight(i, 3) * self.h
        return s

    def counts(self, m):
        for i in range(m):
            self.k += i % self.n
        return self.k


class Slots:
    __slots__ = ("k",)


class Computed:
    @property
    def k(self):
        Computed.asked += 1
        return 2


class Hooked:
    def __getattr__(self, name):
        Hooked.asked += 1
        return 3


def reads(o, n):
    s = 0
    for i in range(n):
        s += o.k * i
    return s


def twice(a, b, n):
    s = 0
    for i in range(n):
        s += a.k - b.k * i
    return s


def test_methods_of_a_class():
    fast = {name: dynoc.optimize(getattr(Grid, name), wait=True) for name in ("smooth", "total", "counts")}
    for n in (9, 5, 9):
        mine, plain = Grid(n), Grid(n)
        for _ in range(2):
            np.testing.assert_array_equal(fast["smooth"](mine), plain.smooth())
            assert fast["total"](mine, 50) == plain.total(50)
            assert fast["counts"](mine, 20) == plain.counts(20)
            mine.h = plain.h = 0.25
            mine.k = plain.k = 7.5
    for name in ("smooth", "total"):
        assert fast[name].loops[0].startswith("native"), fast[name].loops


def test_what_a_method_is_may_change():
    fast = dynoc.optimize(Grid.total, wait=True)
    mine = Grid(5)
    before = Grid.weight
    try:
        assert fast(mine, 30) == mine.total(30)
        Grid.weight = lambda self, i, factor=2: i * factor
        assert fast(mine, 30) == mine.total(30)
        mine.weight = lambda i, factor=2: 1.5 * i
        assert fast(mine, 30) == mine.total(30)
        del mine.weight
    finally:
        Grid.weight = before
    assert fast(mine, 30) == mine.total(30)


def test_attributes_of_other_objects():
    fast = dynoc.optimize(reads, wait=True)
    Computed.asked = Hooked.asked = 0
    slots, missing = Slots(), Grid(4)
    slots.k = 4
    del missing.k
    for o, value in ((Grid(4), 3 * 45), (slots, 4 * 45), (Computed(), 2 * 45), (Hooked(), 3 * 45), (Grid(4), 3 * 45)):
        assert fast(o, 10) == value
    assert Computed.asked == Hooked.asked == 10
    with pytest.raises(AttributeError):
        fast(missing, 10)


def test_attributes_of_two_objects():
    fast = dynoc.optimize(twice, wait=True)
    a, b = Grid(3), Grid(4)
    for k in (1, 2.5, True, np.float64(0.5), [1], "x", None):
        a.k = k
        try:
            expected = twice(a, b, 9)
        except TypeError:
            with pytest.raises(TypeError):
                fast(a, b, 9)
        else:
            got = fast(a, b, 9)
            assert got == expected and type(got) is type(expected)


class Level:
    def __init__(self, height):
        self.height = height

    @property
    def marks(self):
        Level.asked += 1
        return [self.height] * 3

    @marks.setter
    def marks(self, height):
        self.height = height


def sets_a_property(o, n):
    for i in range(n):
        o.marks = i
    return o.height


def test_a_property_that_is_set_is_not_asked_for():
    Level.asked = 0
    fast = dynoc.optimize(sets_a_property, wait=True)
    for n in (30, 50, 40):
        assert fast(Level(2), n) == n - 1
    assert Level.asked == 0
