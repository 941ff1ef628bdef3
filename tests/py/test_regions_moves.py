"""Slices of lists that are stored in slices without a list between, and lists that are made for one instruction: what is in the
lists is CPython's, whichever exit is taken."""

import sys

import pytest
from regions import Thing, check

import dynoc

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="slices are constants there, which no loop knows yet")


class Item(Thing):
    def __init__(self, x):
        self.x = x


def flips(a, n):
    for k in range(n):
        a[: k + 1] = a[k::-1]
    return a


def moves(a, b, n):
    for k in range(n):
        a[k : k + 3] = b[-k - 3 : len(b) - k]
        b[1:] = a[:-1]
        a[::2] = a[1::2] if len(a) % 2 == 0 else a[::-2]
    return a, b


def other_lengths(a, b, n):
    for k in range(n):
        a[k:] = b[k : k + 2]
        b[: k + 1] = a[k:]
        a[1:1] = b[::k - 2]
    return a, b


def overlaps(a, n):
    for k in range(n):
        a[k:] = a[:-k] if k else a[:]
        a[1:4] = a[2:5]
        a[k + 1 :] = a[: -k - 1]
        a[k : k + 2] = a[k + 1 : k - 1 if k > 1 else None : -1]
    return a


def too_many(a, n):
    for k in range(n):
        a[::2] = a[:k]
    return a


def objects(a, b, n):
    for k in range(n):
        a[: k + 1] = a[k::-1]
        b[k:] = a[:k]
    return a, b


def lengths(a, n, s):
    for k in range(n):
        s += len(a[k::2]) - len(a[:-k]) + len(a[k:1:-1])
        a[k] += len(a[:])
    return s, a


def temporaries(a, n, s):
    for k in range(n):
        a = a[k + 1 :] + a[: k + 1]
        s += sum(a[:3]) + max([k, 2] + a) + len([k] * k + a[1:])
        a[k:k] = [k] + [s]
        b = [a, a + a]
    return a, s, b, b[0] is a


def kept_alive(a, n):
    for k in range(n):
        b = [Item(k), a[0]] + a[1:]
        c = sorted([k, 1 - k]) + [2] * k
        d = b + [Item(k + 1)]
    return a, b, c, d, b[0] is d[0]


def permuted(a, n):
    for k in range(n):
        a.insert(k, a.pop(0))
        del a[1]
        a.append(a.pop(1))
    return a


NUMBERS = [4, 1, 3, 2, 500, 7], [0.5, -1.0, 2.5, 1e300, 3.0], [True, None, 3, 2.5, False, 1 << 40]


@pytest.mark.parametrize("items", NUMBERS, ids=str)
def test_what_is_moved(items):
    n = len(items)
    assert "list.move" in check(flips, (items, n), [iter(range(n))])
    assert "list.move" in check(moves, (items, items[::-1] + [7], 3), [iter(range(3))])
    check(other_lengths, (items, items[1:], 2), [iter(range(2))])
    check(overlaps, (items, 4), [iter(range(4))])
    check(too_many, (items, n), [iter(range(n))])


def test_what_is_in_them():
    things = [Item(k) for k in range(5)]
    check(objects, (things, [1, 2, 3], 5), [iter(range(5))])
    check(kept_alive, (things, 4), [iter(range(4))])
    check(permuted, (things, 2), [iter(range(2))])
    check(permuted, (list(range(9)), 4), [iter(range(4))])


def test_lengths_of_slices():
    assert "list.slice" not in check(lengths, ([5, 4, 3, 2], 4, 0), [iter(range(4))])


def test_lists_for_one_instruction():
    assert "list.drop" in check(temporaries, ([3, 1, 2], 4, 0), [iter(range(4))])


def test_memory_is_flat():
    def shuffled(a, n):
        for k in range(n):
            a[: k % 5 + 1] = a[k % 5 :: -1]
            a = a[1:] + a[:1]
        return a

    marker = object()
    fast = dynoc.optimize(wait=True)(shuffled)
    things = [float(k) for k in range(6)] + [marker]
    assert fast(list(things), 4000) == shuffled(list(things), 4000)
    before = sys.getrefcount(marker), sys.getrefcount(things[3])
    for _ in range(300):
        fast(list(things), 60)
    assert (sys.getrefcount(marker), sys.getrefcount(things[3])) == before


def test_a_call_gives_the_list_that_it_was_handed():
    def rest(x, n):
        return x if n == 0 else rest(x[1:] + [n], n - 1)

    def ends(a, n):
        s = 0
        for k in range(n):
            t = rest(a[k % 3 :], 2)
            u = max(a[1:], a[:-1])
            s += t[0] + len(t) + u[0] + len(u)
        return s

    fast, alone = dynoc.optimize(wait=True)(ends), dynoc.optimize(wait=True)(rest)
    for n in (0, 1, 5, 200, 200, 200):
        assert fast([3, 1, 4, 1, 5, 9], n) == ends([3, 1, 4, 1, 5, 9], n)
        assert alone([3, 1, 4, 1, 5], n % 7) == rest([3, 1, 4, 1, 5], n % 7)
