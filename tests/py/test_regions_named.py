"""Native loops over named tuples: fields read, instances made, and those that aren't what their class says."""

import collections
import typing

import pytest
from regions import Case, check
from test_loops_null import twin

import dynoc

Point = collections.namedtuple("Point", "x y")
WithDefault = collections.namedtuple("WithDefault", "a b c", defaults=[7])


class Typed(typing.NamedTuple):
    name: str
    value: float
    count: int = 3

    def twice(self):
        return 2 * self.value


class Deriving(Point):
    __slots__ = ()

    @property
    def length(self):
        return self.x * self.x + self.y * self.y


class Own(Point):
    def __new__(cls, x):
        return super().__new__(cls, x, x)


class Asked(Point):
    def __getattribute__(self, name):
        return 5


def read(points, s):
    for p in points:
        s += p.x * 2 + p.y
    return s, p


def of_one(p, n, s):
    for i in range(n):
        s += p.x * i - p.y
    return s


def made(p, n):
    for _ in range(n):
        p = Point(p.x + 0.5 * p.y, p.y - 1)
    return p, p.x, p.y


def collected(n, out):
    for i in range(n):
        out.append(Point(i, i * 0.5))
    return out


def by_default(n, s):
    for i in range(n):
        w = WithDefault(i, 2)
        s += w.c + w.b * w.a
    return s, w


def typed(rows, s):
    for row in rows:
        if row.name == "b":
            s += row.twice() * row.count
        t = Typed(row.name, s)
    return s, t


def derived(points, s):
    for p in points:
        s += p.length
        q = Deriving(p.y, p.x)
    return s, q


def stored(points):
    for p in points:
        p.x = 3
    return p


def of_own(n, s):
    for i in range(n):
        s += Own(i).y
    return s


POINTS = [Point(k * 0.5, k) for k in range(6)]


def test_fields():
    check(read, (POINTS, 0.0), [iter(POINTS)])


def test_fields_of_several_types():
    mixed = [Point(1, 2.5), Point(0.5, True), Point(2**70, 1), Point("a", 1)]
    check(read, (mixed, 0), [iter(mixed)])


def test_one_too_short():
    fast = dynoc.optimize(twin(read), wait=True)
    for points in (POINTS * 5, [*POINTS, tuple.__new__(Point, (1,))]):
        results = []
        for function in (read, fast, fast):
            try:
                results.append(function(points, 0.0))
            except IndexError as error:
                results.append(str(error))
        assert results == results[:1] * 3


def test_of_one():
    check(of_one, (Point(3, 4), 5, 0), [iter(range(5))])


@pytest.mark.parametrize("p", [Point(1.0, 2.0), Point(1, 2)])
def test_made(p):
    check(made, (p, 5), [iter(range(5))])


def test_collected():
    check(collected, (6, []), [iter(range(6))])


def test_defaults():
    check(by_default, (5, 0), [iter(range(5))])


def test_typed():
    rows = [Typed("a", 1.5), Typed("b", 2.5), Typed("b", 0.5, 9)]
    check(typed, (rows, 0.0), [iter(rows)])


def test_derived():
    points = [Deriving(k, k + 1) for k in range(4)]
    check(derived, (points, 0), [iter(points)])


def test_stores_raise():
    assert Case(stored, (POINTS,), [iter(POINTS)]).refusal()[0] == "EXCEPTION"


@pytest.mark.parametrize("function, args", [(of_own, (5, 0)), (read, ([Asked(1, 2)] * 3, 0))])
def test_left_to_cpython(function, args):
    fast = dynoc.optimize(twin(function), wait=True)
    for _ in range(3):
        assert fast(*args) == function(*args)


def test_a_class_that_changes():
    Other = collections.namedtuple("Other", "x y")
    points = [Other(1, 2)] * 50
    fast = dynoc.optimize(twin(read), wait=True)
    for _ in range(3):
        assert fast(points, 0)[0] == 200
    Other.x = property(lambda self: 10)
    assert fast(points, 0)[0] == 1100
