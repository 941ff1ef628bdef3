"""Native loops with collections' defaultdict and Counter."""

import collections
from collections import Counter, defaultdict

import pytest
from regions import Case, check

import dynoc


def counted(words, d):
    for w in words:
        d[w] += 1
    return d


def summed(n, d, total):
    for i in range(n):
        d[i % 3] += i * 0.5
        total += d[i % 4]
        d[i] = total
    return d, total


def grouped(n, d):
    for i in range(n):
        d[i % 3].append(i)
    return d


def nested(n, d):
    for i in range(n):
        d[i % 3][i % 2] = i
    return d


def asked(n, d, total):
    for i in range(n):
        total += d[i] + d.get(i, 7) + (i in d) + len(d)
        if i % 3 == 0:
            d.setdefault(i, 5)
        if i == 4:
            d.pop(0, None)
    return total, d


def gone_through(d, total):
    for k, v in d.items():
        total += k * v + d[k + 100]
    return total


WORDS = ["to", "be", "or", "not", "to", "be", "a", "a"]


@pytest.mark.parametrize(
    "d", [defaultdict(int), Counter(), Counter({"to": 3}), defaultdict(float), defaultdict(int, {"be": 2**70})]
)
def test_words_are_counted(d):
    check(counted, (WORDS, d), [iter(WORDS)])
    check(counted, (WORDS[-2:], d), [iter(WORDS[-2:])])


@pytest.mark.parametrize("d", [defaultdict(int), defaultdict(float), Counter(), defaultdict(float, {0: 1, 2: 2.5})])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_items_that_are_not_there(d, n):
    check(summed, (n, d, 0.0), [iter(range(n))])
    check(asked, (n, d, 0), [iter(range(n))])


def test_lists_and_dicts_by_default():
    check(grouped, (8, defaultdict(list)), [iter(range(8))])
    check(grouped, (8, defaultdict(list, {1: [7.5]})), [iter(range(8))])
    check(nested, (8, defaultdict(dict)), [iter(range(8))])


def test_a_dict_that_is_gone_through_grows():
    for d in (defaultdict(int, {1: 2, 3: 4}), Counter({1: 2, 3: 4})):
        check(gone_through, (d, 0), [iter(d.items())])


class Own(Counter):
    def __missing__(self, key):
        return 5


@pytest.mark.parametrize("d", [defaultdict(lambda: 3), defaultdict(None), defaultdict(set), Own()])
def test_other_defaults_are_left_alone(d):
    def run(n, d, total):
        for i in range(n):
            if i > 100:
                total += d[i]
            total += i
        return total

    check(run, (5, d, 0), [iter(range(5))])


def test_a_counter_that_is_changed(monkeypatch):
    """Its class is looked at when the loop is entered."""
    case = Case(counted, (WORDS, Counter()), [iter(WORDS)])
    case.plan()
    monkeypatch.setattr(collections.Counter, "__missing__", lambda self, key: 10)
    slots, stack = case.begin()
    assert dynoc._dynoc._region_run(case.region, slots, stack, True, -1, 0) is None


def test_keys_of_a_counter_are_deleted():
    def run(n, d):
        for i in range(n):
            d[i + 1] += 2
            if i % 2 == 0:
                del d[i + 1]
        return d

    check(run, (5, defaultdict(int, {0: 1})), [iter(range(5))])
    check(run, (5, Counter({0: 1})), [iter(range(5))])
