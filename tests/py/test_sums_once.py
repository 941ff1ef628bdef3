"""sum(), math.prod(), min(), max(), sets and dicts of what a graph can't follow, or of which a step warns: each step is made
once, and in the order in which CPython makes it."""

import math

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter


class Money:
    """Adds and multiplies, and writes down that it did."""

    def __init__(self, amount, book):
        self.amount = amount
        self.book = book

    def __add__(self, other):
        self.book.append("add")
        return Money(self.amount + getattr(other, "amount", other), self.book)

    __radd__ = __add__

    def __mul__(self, other):
        self.book.append("multiply")
        return Money(self.amount * getattr(other, "amount", other), self.book)

    __rmul__ = __mul__


def summed(x, book):
    y = x * 2
    return y, sum([Money(1, book), Money(2, book)]).amount, book


def summed_from(x, book):
    y = x * 2
    return y, sum((Money(1, book), 3), Money(2, book)).amount, book


def summed_late(x, book):
    y = x * 2
    return y, sum([1, 2, Money(1, book), 0.1]).amount, book


def multiplied(x, book):
    y = x * 2
    return y, math.prod([Money(3, book), Money(2, book)]).amount, book


def multiplied_late(x, book):
    y = x * 2
    return y, math.prod([2, 3, Money(2, book), 4]).amount, book


def generated(x, book):
    y = x * 2
    return y, sum(Money(i, book) for i in range(3)).amount, book


@pytest.mark.parametrize("fn", [summed, summed_from, summed_late, multiplied, multiplied_late, generated])
def test_objects_are_added_once(fn):
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(3):
        check(fn, fast, lambda: (np.arange(3.0), []), what=f"call {turn + 1}")


def largest(x, n):
    return max(x[0], n)


def least_of_list(x, n):
    return min([n, x[0], x[1], 1e10])


def sum_of_halves(x, n):
    return sum([x[0], x[0], "and"[:n]])


def halves_and_text(x, n):
    return sum([x[0], x[0], {}])


def product_of_halves(x, n):
    return math.prod([x[0], x[0], [n]])


def product_of_shapes(x, n):
    return sum([x, x[:1], x[:2], x[:0]])


@pytest.mark.parametrize("fn", [largest, least_of_list, sum_of_halves, halves_and_text, product_of_halves, product_of_shapes])
def test_steps_warn_and_raise_once(fn):
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(3):
        check(fn, fast, lambda: (np.array([60000, 1, 5], dtype=np.float16), 70000), what=f"call {turn + 1}")


def floats_behind_ints(n, tenth):
    close = sum([n, True, tenth, 1e16, 1.0, -1e16])
    return sum([n, n, tenth, tenth, tenth, -3 * tenth]), math.prod([n, n, tenth, 3, tenth]), close


def test_floats_are_added_with_the_builtins_care():
    fast = dynoc.optimize(floats_behind_ints, wait=True)
    for turn in range(3):
        check(floats_behind_ints, fast, lambda: (3, 0.1), what=f"call {turn + 1}")


# ---- what a generator gives is looked at before the next one is taken


class Seen(Money):
    """Compares and hashes too, and writes down that it was made."""

    def __init__(self, amount, book):
        super().__init__(amount, book)
        book.append(f"made {amount}")

    def __lt__(self, other):
        self.book.append("less")
        return self.amount < other.amount

    def __hash__(self):
        self.book.append("hash")
        return 1

    def __eq__(self, other):
        self.book.append("equal")
        return self is other

    def __float__(self):
        self.book.append("float")
        return float(self.amount)


def given(book, n=3):
    for i in range(n):
        book.append(f"step {i}")
        yield Seen(i, book)


def many_kinds(x, book):
    y = x * 2
    total = sum(given(book)).amount, math.prod(given(book)).amount, sum((Seen(i, book) for i in range(2)), 5).amount
    best = min(given(book)).amount, max(given(book), key=float).amount
    sizes = len(set(given(book))), len(frozenset(given(book)))
    pairs = len(dict((k, 1) for k in given(book))), len(dict(zip(given(book), "ab")))
    return y, total, best, sizes, pairs, book


def stopped(x, book):
    y = x * 2
    try:
        return y, max(given(book, 1000))
    except TypeError as error:
        return y, str(error), book


@pytest.mark.parametrize("fn", [many_kinds, stopped])
def test_items_are_looked_at_in_turn(fn):
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(3):
        check(fn, fast, lambda: (np.arange(3.0), []), what=f"call {turn + 1}")


def numbers(x):
    total, least = sum(x[i] * 2 for i in range(3)), min(i - 1 for i in range(4))
    return total, least, dict((k, x[k]) for k in range(2)), set(i for i in range(3))


def test_numbers_of_generators_stay_in_the_graph():
    fast = dynoc.optimize(numbers, wait=True, fullgraph=True)
    check(numbers, fast, lambda: (np.arange(3.0),))
