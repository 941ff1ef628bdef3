"""Native loops that make instances which are no objects while nobody else has them: what CPython goes on with, at whichever exit,
is what it would have made, and several variables with one instance still have one."""

import gc
import math
import sys

import pytest
from regions import Thing, check

import dynoc


class Vector(Thing):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, k):
        return Vector(self.x * k, self.y * k)

    def dot(self, other):
        return self.x * other.x + self.y * other.y

    def unit(self):
        return self * (1.0 / math.sqrt(self.dot(self)))

    def grow(self, by):
        self.x += by
        if by > 1.0:
            self.y -= by
        return self


class Slotted(Thing):
    __slots__ = ("x", "y")
    __init__ = Vector.__init__
    dot = Vector.dot
    grow = Vector.grow

    def __add__(self, other):
        return Slotted(self.x + other.x, self.y + other.y)

    def __mul__(self, k):
        return Slotted(self.x * k, self.y * k)

    unit = Vector.unit


class Ray(Thing):
    def __init__(self, start, way):
        self.start, self.way = start, way
        self.twice = way

    def at(self, t):
        return self.start + self.way * t


class Late(Thing):
    count = 5

    def __init__(self, x):
        self.x = x


class Guarded(Thing):
    def __init__(self, x):
        self.y = x
        self.x = x

    @property
    def y(self):
        return 7

    @y.setter
    def y(self, value):
        pass


VECTORS = pytest.mark.parametrize("cls", [Vector, Slotted])


def orbit(p, v, n):
    for i in range(n):
        a = p * (-1.0 / p.dot(p))
        v = v + a * 0.125
        p = p + v * 0.25
    return p, v, a, i


def directions(cls, n, total):
    for i in range(n):
        d = cls(i - 1.5, 2.0).unit()
        total += d.x * d.dot(d)
    return total, d


@VECTORS
def test_results_of_operators(cls):
    text = check(orbit, (cls(1.0, 0.5), cls(0.0, 1.0), 5), [iter(range(5))])
    assert "new.instance" not in text
    text = check(directions, (cls, 6, 0.0), [iter(range(6))])
    assert "new.instance" not in text


def aliases(cls, n, kept):
    for i in range(n):
        a = cls(1.5 * i, 2)
        b = a
        b.x += 0.5
        if i % 2 == 1:
            kept = a
        c = a.grow(0.5 * i)
    return a.x, b is a, c is a, kept is a, a, b, kept


def passed_on(cls, n, s):
    for i in range(n):
        a = cls(0.5 * i, 1)
        r = Ray(a, a)
        r.way.x = r.start.x + 1
        s += r.at(2.0).x + r.twice.x
        a.grow(2.0)
    return s, r.start is r.way, r, a


def swapped(cls, n, a, b):
    for i in range(n):
        c = cls(a.x, i)
        a, b = b, c
        pair = a, b, c
    return a, b, c, pair[1] is pair[2], b is c


@VECTORS
def test_variables_that_have_one_instance(cls):
    check(aliases, (cls, 5, None), [iter(range(5))])
    check(passed_on, (cls, 5, 0.0), [iter(range(5))])
    assert "new.instance" not in check(swapped, (cls, 5, cls(1.0, 2), cls(3.0, 4)), [iter(range(5))])


def kept_in_list(out, cls, n):
    for i in range(n):
        v = cls(0.5 * i, i)
        if i % 2 == 0:
            out.append(v)
            v.x += 1
        w = [v, v, cls(1, 2)]
        w[0].y = 9
    return out, v, w, w[0] is v, w[1] is v


def kept_twice(out, n):
    for i in range(n):
        a = Vector(0.25 * i, i)
        pair = (a, a)
        out.append(pair)
        out.append(Ray(a, a))
        a.x = 1.0
    return out, out[0][0] is out[0][1], out[1].start is out[1].way, out[-1].start is a


def kept_in_dict(d, n):
    for i in range(n):
        d[i] = Vector(i, 1.0)
        d[i].x += 1
        d[-1] = d[i]
    return d, d[-1] is d[n - 1]


def test_instances_that_become_objects():
    for cls in Vector, Slotted:
        check(kept_in_list, ([], cls, 5), [iter(range(5))])
    check(kept_twice, ([], 4), [iter(range(4))])
    check(kept_in_dict, ({}, 4), [iter(range(4))])


def added_late(n, s):
    for i in range(n):
        late = Late(i)
        s += late.count
        late.count = late.count + 1
        late.x = late.count
        if i > 1:
            late.other = i
        s += late.count * late.x
    return s, late, list(late.__dict__)


def guarded(n, s):
    for i in range(n):
        g = Guarded(i)
        s += g.x + g.y
    return s, g


def of_two_kinds(n, s):
    for i in range(n):
        v = Vector(1, 2) if i % 3 == 0 else Slotted(0.5, i)
        s += v.dot(v)
        other = None if i % 2 else v
        s += 1 if other is None else other.x
    return s, v, other


def nothing_found(n, best):
    for i in range(n):
        for j in range(3):
            v = Vector(i * j % 5, j)
            t = None if v.x < 2 else v.x / (j - 1)
            if t is not None and (best is None or t < best):
                best = t
    return best, t, v


def test_attributes():
    for function in guarded, added_late, of_two_kinds:
        check(function, (5, 0), [iter(range(5))])
    check(nothing_found, (4, None), [iter(range(4))], forced=False)


def overflown(n):
    for i in range(n):
        v = Vector(i, 1 << 62)
        v.x = 3
        v.y = v.y + (1 << 61) * i
    return v.y, v.x


def divided(n, total):
    for i in range(n):
        v = Vector(3 - i, 1.0)
        w = v
        w.x = w.y / v.x
        total += v.x
    return total


def test_where_it_is_left():
    assert check(overflown, (5,), [iter(range(5))])
    check(divided, (5, 0.0), [iter(range(5))], leaves="EXCEPTION")


def routine(v, n):
    return 0.0 if n == 0 else v.x + routine(v * 0.5, n - 1)


def calls_routine(n):
    s = 0.0
    for i in range(n):
        s += routine(Vector(1.0 * i, 2.0), 3)
    return s


def test_functions_that_call_themselves():
    fast = dynoc.optimize(wait=True)(calls_routine)
    for n in 0, 1, 7, 50:
        assert fast(n) == calls_routine(n)


def many(n):
    v = Vector(1.0, 0.0)
    for i in range(n):
        v = v + Vector(0.5, 1.0)
        w = v * 2.0
    return v.x, w.y


def test_nothing_is_left_over():
    fast = dynoc.optimize(wait=True)(many)
    assert fast(300) == many(300)
    assert any(str(loop).startswith("native") for loop in fast.loops)
    for n in range(3):
        assert fast(3 + n) == many(3 + n)
    gc.collect()
    found, references = sum(type(o) is Vector for o in gc.get_objects()), sys.getrefcount(Vector)
    for _ in range(2000):
        fast(4)
    gc.collect()
    assert sum(type(o) is Vector for o in gc.get_objects()) == found == 0
    assert abs(sys.getrefcount(Vector) - references) < 20


class Counted(Thing):
    __slots__ = ("n", "half")

    def __init__(self, n):
        self.half = n / 2
        self.n = n


class Branched(Thing):
    def __init__(self, n):
        if n % 2 == 1:
            self.odd = n
        self.x = 0.25
        self.name = "b"
        if n % 3 == 0:
            self.x = n * 1.5


def read_where_made(cls, n, kept, total):
    for _ in range(2):
        made = []
        for i in range(n):
            made.append(cls(i, 0.5 * i))
        for m in made:
            total += m.x
            m.x += 1.5
            m.y -= 1
        kept.append(made)
    return total, kept


def stored(cls, n, kept):
    for i in range(n):
        kept.append(cls(i))
    return [list(vars(o).items()) if cls is Branched else (o.half, o.n) for o in kept]


@VECTORS
def test_attributes_of_instances_that_were_made_are_read_where_they_lie(cls):
    cls(0, 0.5)
    text = check(read_where_made, (cls, 5, [], 0.0), [iter(range(2))], leaves="OK")
    assert "new.instance" in text
    check(read_where_made, (cls, 300, [], 0.0), [iter(range(2))], leaves="OK", forced=False)


@pytest.mark.parametrize("cls", [Counted, Branched])
def test_instances_that_were_made_have_attributes_in_the_order_of_stores(cls):
    [cls(i) for i in range(4)]
    text = check(stored, (cls, 6, []), [iter(range(6))])
    assert cls is Counted or "name.object" in text  # of what is constant


def test_references_to_instances_that_were_made_and_stored():
    function, shared = dynoc.optimize(stored, wait=True), 0.125 * 3

    def calls(n):
        for _ in range(n):
            function(Vector1, 300, [])

    class Vector1:
        def __init__(self, i):
            self.half, self.n = shared, i

    calls(3)
    gc.collect()
    before = sys.getrefcount(shared), sys.getrefcount(Vector1), len(gc.get_objects())
    calls(20)
    gc.collect()
    assert (sys.getrefcount(shared), sys.getrefcount(Vector1)) == before[:2]
    assert len(gc.get_objects()) - before[2] < 20
