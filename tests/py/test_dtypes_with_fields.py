"""Integers whose dtype has fields are left to NumPy."""

import numpy as np
from outcomes import calls


WITH_FIELDS = np.dtype(("i4", [("a", "<i2"), ("b", "<i2")]))


def integers_with_fields():
    x = np.zeros(4, WITH_FIELDS)
    return repr(x), x + 1, x["a"]


def sum_of_integers_with_fields(x):
    return x * 2, x["a"] + 1


def test_integers_with_fields_are_not_plain_integers():
    calls(integers_with_fields)
    calls(sum_of_integers_with_fields, np.arange(4, dtype="i4").view(WITH_FIELDS))
