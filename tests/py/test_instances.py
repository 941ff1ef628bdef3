"""Instances that a recorded function makes: a class that makes instances of another."""

import numpy as np
from outcomes import calls


class Sorted:
    """As sortedcontainers.SortedList: a key makes an instance of a class below."""

    def __new__(cls, values, key=None):
        return object.__new__(cls if key is None else SortedByKey)

    def __init__(self, values, key=None):
        assert key is None
        self.values = values


class SortedByKey(Sorted):
    def __init__(self, values, key=None):
        self.values = -values
        self.key = key


class Listed:
    def __new__(cls, values):
        return object.__new__(cls) if cls is not Listed else list.__new__(ListedBelow)


class ListedBelow(list):
    pass


def test_a_class_that_makes_instances_of_another():
    def plain(x):
        return Sorted(x * 2).values, x + 1

    def by_key(x):
        made = Sorted(x * 2, key=abs)
        return made.values, made.key, type(made) is SortedByKey, x + 1

    def of_no_kin(x):
        return Listed(x), x * 2

    for fn in (plain, by_key, of_no_kin):
        calls(fn, np.arange(3.0))
