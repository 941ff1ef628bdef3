"""sum(), math.prod(), min() and max() of what a graph can't follow, or of which a step warns: each step is made once."""

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
