"""Native loops that take items out of dicts and lists: del, pop, setdefault, by keys of ints and strings."""

import pytest
from regions import check


def emptied(d, n):
    for i in range(n):
        if i % 3 == 0:
            del d[i]
        else:
            d.pop(i)
        d[i + n] = 0.5 * i
    return d


def popped(d, n, missing, total):
    for i in range(n):
        total += d.pop(i % 4, missing)
        d[i % 5] = total
        d.setdefault(i % 3, i)
        total += d.setdefault(7, 1)
    return d, total


def grouped(words, d, n):
    for w in words:
        d.setdefault(w, 0)
        d[w] += 1
        if d[w] > n:
            del d[w]
    return d


def lists_in(d, n):
    for i in range(n):
        d.setdefault(i % 3, []).append(i)
        if len(d) == 3 and i % 4 == 0:
            d.pop(0)
    return d


def shortened(a, n, s):
    for i in range(n):
        s += a[i % len(a)]
        del a[(i * 2) % len(a)]
        del a[-1]
    return a, s


@pytest.mark.parametrize("n", [0, 1, 5])
def test_keys_are_deleted(n):
    check(emptied, ({i: i * 0.25 for i in range(6)}, n), [iter(range(n))])


def test_a_key_that_is_missing():
    check(emptied, ({0: 1.0, 1: 2.0}, 5), [iter(range(5))])
    check(emptied, ({0: 1.0, 1: 2.0, 2: 0.5, "a": 1}, 3), [iter(range(3))])


@pytest.mark.parametrize("missing", [0, 2.5])
def test_pop_and_setdefault(missing):
    check(popped, ({1: 10, 2: 300}, 9, missing, 0), [iter(range(9))])
    check(popped, ({1: 10.5, 2: 300}, 9, missing, 0), [iter(range(9))])


def test_keys_that_are_strings():
    words = [chr(97 + i % 3) * (1 + i % 2) for i in range(12)]
    check(grouped, (words, {"a": 1}, 2), [iter(words)])


def test_lists_that_are_set_by_default():
    check(lists_in, ({0: [1], 5: [2, 3]}, 8), [iter(range(8))])


@pytest.mark.parametrize("n", [0, 1, 3, 6])
def test_items_of_lists_are_deleted(n):
    check(shortened, ([0.5 * i for i in range(8)], n, 0), [iter(range(n))])
    check(shortened, (list(range(300, 308)), n, 0), [iter(range(n))])
