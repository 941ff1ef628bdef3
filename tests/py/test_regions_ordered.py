"""Native loops with min, max, sorted and list.sort: keys, defaults, reverse, and items of any kind."""

from operator import attrgetter, itemgetter

import pytest
from regions import Thing, check

import dynoc

NAN = float("nan")
SECOND = itemgetter(1)
KEY = None  # a test's own


def nearest(at, points, s):
    for x in at:
        a = min(points, key=lambda p: abs(p[0] - x))
        b = max(points, key=lambda p: (p[0] - x) * p[1])
        s += a[0] * 2 + b[1]
    return s


def largest_row(rows, n, out):
    for k in range(n):
        r = max(range(k, len(rows)), key=lambda i: abs(rows[i][k]))
        out.append(r)
    return out


def by_name(lists, out):
    for items in lists:
        a = min(items, key=SECOND)
        b = max(items, key=itemgetter(1, 0))
        c = sorted(items, key=SECOND, reverse=True)
        out.append(a[0] + b[0])
        out.append(c[0][0])
    return out


def by_key(items, n, out):
    for _ in range(n):
        out.append(min(items, key=KEY))
    return out


def getters_of_their_own(n, same):
    last = None
    for _ in range(n):
        made = itemgetter(1)
        same += made is last
        last = made
    return same


class Name(str):
    """A key of a dict that is equal to no other."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return self is other


class Body(Thing):
    __slots__ = ("x", "m")

    def __init__(self, x, m):
        self.x, self.m = x, m


def heaviest(lists, s):
    for bodies in lists:
        a = max(bodies, key=attrgetter("m"))
        b = min(bodies, key=lambda b: (b.m, b.x))
        s += a.x * 3 + b.x
    return s


def bodies_in_order(bodies, n, out):
    for i in range(n):
        bodies.sort(key=lambda b: b.x * (i - 2))
        out.append(bodies[0].m)
        first = sorted(bodies, key=attrgetter("m", "x"))
        out.append(first[-1].x)
    return bodies, out


def defaults(lists, s):
    for items in lists:
        s += min(items, default=7)
        s += max(items, key=lambda x: -x, default=0.5)
    return s


def of_any(lists, out):
    for items in lists:
        a = min(items)
        b = max(items)
        out.append(a)
        out.append(b)
    return out


def in_order(lists, out):
    for items in lists:
        a = sorted(items)
        b = sorted(items, reverse=True)
        items.sort(reverse=True)
        out.append(a[0] == b[-1])
        out.append(a)
        out.append(b)
    return lists, out


def of_others(d, n, out):
    for i in range(n):
        a = sorted(d)
        b = sorted(d.items(), key=lambda pair: (pair[1], pair[0]))
        c = list(d.values())
        out.append(a[0] + b[0][0] + c[-1])
        d[i] = i % 2
    return out


def of_generators(points, n, out):
    for i in range(n):
        near = sorted(((x - i) ** 2, k) for k, x in enumerate(points))[:2]
        far = sorted((x * i for x in points), key=lambda x: -x, reverse=True)
        out.append(near[0][1] + near[1][0])
        out.append(far[0])
    return out


def of_an_iterator(lists, s):
    for items in lists:
        waiting = iter(items)
        s += max(waiting, key=lambda x: -x)
        s += min(waiting, default=100)
    return s


def by_place(order, places, n):
    for i in range(n):
        order.sort(key=places)
    return order


def by_weight(order, weights, n):
    for i in range(n):
        order.sort(key=lambda k: weights[k] * (i - 1))
    return order


def by_length(lists, s):
    for items in lists:
        items.sort(key=len)
        s += len(items)
    return lists, s


def by_index(order, n, s):
    for i in range(n):
        order.sort(key=lambda k: order[k])
        s += i
    return order, s


def raising(lists, s):
    for items in lists:
        items.sort(key=lambda x: 10 // x)
        s += items[0]
    return lists, s


def growing(items, n):
    for i in range(n):
        items.sort(key=lambda x: -x if i < 2 else items.append(x) or x)
    return items


def test_keys_are_followed():
    points = [(0.0, 1), (2.0, -1), (1.0, 3), (1.0, 2)]
    check(nearest, ([0.5, 1.5, 9.0], points, 0.0), [iter([0.5, 1.5, 9.0])])
    check(nearest, ([1, 2, 0], [(0, 1), (2, -1), (1, 3)], 0), [iter([1, 2, 0])])
    check(nearest, ([0.5], [(NAN, 1), (2.0, NAN), (1.0, 3.0)], 0.0), [iter([0.5])])


def test_a_pivot():
    rows = [[1.0, 2.0, 0.5], [-3.0, 1.0, 2.0], [0.5, -4.0, 1.0]]
    check(largest_row, (rows, 3, []), [iter(range(3))])


@pytest.mark.parametrize("kind", [int, float])
def test_getters(kind):
    lists = [[(kind(1), kind(5)), (kind(2), kind(3)), (kind(3), kind(5))], [(kind(4), kind(0))]]
    check(by_name, (lists, []), [iter(lists)])


@pytest.mark.parametrize("names", [("x + 1",), ("x.real if 0 else o.m",), ("x", "\ufb01"), ("x.if",)])
def test_names_that_are_no_attributes(names, monkeypatch):
    monkeypatch.setitem(globals(), "KEY", attrgetter(*names))
    fast = dynoc.optimize(by_key, wait=True)
    for _ in range(3):
        with pytest.raises(AttributeError, match="has no attribute"):
            fast([Body(1.0, 3), Body(2.0, 5)], 50, [])


def test_a_key_of_a_dict_that_is_equal_to_no_other(monkeypatch):
    monkeypatch.setitem(globals(), "KEY", itemgetter(Name("a")))
    fast = dynoc.optimize(by_key, wait=True)
    for _ in range(3):
        with pytest.raises(KeyError, match="a"):
            fast([{"a": 3}, {"a": 1}], 50, [])


def test_each_trip_makes_a_getter_of_its_own():
    fast = dynoc.optimize(getters_of_their_own, wait=True)
    for _ in range(3):
        assert fast(100, 0) == 0


def test_attributes():
    lists = [[Body(1.0, 3), Body(2.0, 5), Body(3.0, 5)], [Body(4.0, 1), Body(0.5, 1)]]
    check(heaviest, (lists, 0.0), [iter(lists)])
    check(bodies_in_order, (lists[0], 4, []), [iter(range(4))], forced=False)


def test_nothing_has_a_least():
    lists = [[3, 1], [], [2]]
    check(defaults, (lists, 0), [iter(lists)])
    check(of_any, (lists, []), [iter(lists)])


def test_items_of_other_kinds():
    for lists in ([[(2, 1), (1, 9), (1, 3)]] * 2, [["b", "a", "c"], ["z"]], [[True, False], [False]], [(3, 1, 2), (5, 4)]):
        check(of_any, (lists, []), [iter(lists)])
    check(of_any, ([[1, 2.5, 0], [2.5, 1]], []), [iter([[1, 2.5, 0], [2.5, 1]])])
    check(of_any, ([[1, "a"], [2]], []), [iter([[1, "a"], [2]])])


def test_lists_in_order():
    numbers = [[3, 1, 2, 1], [0.5, -0.0, 0.0, NAN, 1.0], [2**70, 1, -(2**70)], [1, 0.5, True], list(range(40, 0, -1)) * 2]
    check(in_order, (numbers[:1] * 3, []), [iter(numbers[:1] * 3)], forced=False)
    for items in numbers:
        check(in_order, ([list(items)], []), [iter([list(items)])], forced=len(items) < 6)
    others = [["b", "a", "\xff", "\u20ac"]]
    others += [[(2, 1), (1, 9)], [(1, None), (1, None)], [(1, None), (1, 2)], [(1,), (1, 2)], [1, "a"]]
    for items in others:
        check(in_order, ([list(items)], []), [iter([list(items)])])


def test_generators_in_order():
    check(of_generators, ([0.5, 2.5, -1.0], 3, []), [iter(range(3))], forced=False)
    check(of_generators, ([5, 2, 9], 3, []), [iter(range(3))])


def test_an_iterator_comes_on():
    lists = [[3, 1, 2], [5], [4, 4]]
    fast = dynoc.optimize(of_an_iterator, wait=True)
    for _ in range(4):
        assert fast(lists * 30, 0) == of_an_iterator(lists * 30, 0)


def test_a_method_of_the_list_is_its_key():
    for _ in range(3):
        order = [2, 0, 1]
        with pytest.raises(ValueError, match="not in list"):
            dynoc.optimize(by_place, wait=True)(order, order.index, 5)
        assert order == [2, 0, 1]
    order = [2, 0, 1]
    assert dynoc.optimize(by_place, wait=True)(order, [1, 2, 0].index, 50) == [1, 2, 0]


def test_dicts_in_order():
    check(of_others, ({3: 1, 1: 1, 2: 0}, 3, []), [iter(range(3))], forced=False)


def test_a_key_reads_another_list():
    check(by_weight, ([0, 1, 2, 3], [2.0, 1.0, 2.0, 0.5], 3), [iter(range(3))])
    check(by_weight, ([0, 1, 2, 3], [2, 1, 2, 0], 3), [iter(range(3))])
    lists = [[[1, 2], [], [3]], [[], [1]]]
    check(by_length, (lists, 0), [iter(lists)])


def test_the_list_is_empty_while_its_keys_are_made():
    check(by_index, ([2, 0, 1], 2, 0), [iter(range(2))])
    check(growing, ([1, 3, 2], 4), [iter(range(4))])


def test_a_key_raises():
    lists = [[3, 1, 2], [4, 0, 5], [1]]
    check(raising, (lists, 0), [iter(lists)])
