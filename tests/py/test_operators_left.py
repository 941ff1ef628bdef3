"""Operators in Python that ask a builtin type's method, which leaves them to the right operand: an array or another number."""

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter


class Count(int):
    """Operators that call int's own."""

    def __add__(self, other):
        return int.__add__(self, other)

    def __sub__(self, other):
        return int.__sub__(self, other)

    def __mul__(self, other):
        return super().__mul__(other)

    def __truediv__(self, other):
        return int.__truediv__(self, other)

    def __pow__(self, other):
        return int.__pow__(self, other)


def sums(x, n, other):
    y = x * 2
    return y, n + other, n - other


def products(x, n, other):
    y = x * 2
    return y, n * other, n / other, n**other


def in_place(x, n, other):
    y = x * 2
    n += other
    return y, n


def in_loop(x, n, other):
    total = 0
    for i in range(3):
        total = n + x[i]
    return total


OTHERS = [2.5, np.float64(1.5), np.int32(2), np.array([1.0, 2.0]), 3, True, 1j, "text", None]


@pytest.mark.parametrize("other", OTHERS, ids=repr)
@pytest.mark.parametrize("fn", [sums, products, in_place, in_loop])
def test_the_right_operand_is_asked(fn, other):
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(3):
        check(fn, fast, lambda: (np.arange(4.0), Count(3), other), what=f"call {turn + 1}")
