"""Attributes that are missing, of objects of each kind: the same exception, also where CPython keeps no cache of the lookup."""

import numpy as np
import pytest
from outcomes import outcome_of

import dynoc


class Slotted:
    __slots__ = ("own",)


class Plain:
    pass


UNCACHED = "n" * 101  # CPython's cache of what is looked up on types holds no names of more than 100 characters

exec(f"def missing(o, x):\n    y = x + 1\n    try:\n        o.{UNCACHED}\n    finally:\n        x += 1\n    return y\n")

exec(f"def missing_method(o, x):\n    return o.{UNCACHED}(x + 1)\n")

exec(f"def missing_and_caught(o, x):\n    try:\n        o.{UNCACHED}\n    except AttributeError:\n        return x + 1\n")


@pytest.mark.parametrize("name", ["missing", "missing_method", "missing_and_caught"])
@pytest.mark.parametrize("value", [Plain(), Slotted(), np.float64(2.0), 1, None, np], ids=lambda v: type(v).__name__)
def test_a_missing_attribute_whose_lookup_is_not_cached(name, value):
    fn = globals()[name]
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(3):
        assert outcome_of(fast, (value, np.arange(3.0))) == outcome_of(fn, (value, np.arange(3.0)))
