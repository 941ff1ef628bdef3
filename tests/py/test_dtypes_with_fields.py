"""Integers whose dtype has fields are left to NumPy."""

import numpy as np
from compare import check, dynoc


def calls(fn, *arguments):
    """Three calls give what plain Python gives."""
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(3):
        check(fn, fast, lambda: [a.copy() if isinstance(a, np.ndarray) else a for a in arguments], what=f"call {turn + 1}")


WITH_FIELDS = np.dtype(("i4", [("a", "<i2"), ("b", "<i2")]))


def integers_with_fields():
    x = np.zeros(4, WITH_FIELDS)
    return repr(x), x + 1, x["a"]


def sum_of_integers_with_fields(x):
    return x * 2, x["a"] + 1


def test_integers_with_fields_are_not_plain_integers():
    calls(integers_with_fields)
    calls(sum_of_integers_with_fields, np.arange(4, dtype="i4").view(WITH_FIELDS))
