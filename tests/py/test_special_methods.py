"""Special methods that a function calls by syntax: looked up on the type, once, and held to what they may return."""

import sys
import warnings

import numpy as np
import pytest
from compare import dynoc
from outcomes import same



class Descriptor:
    def __init__(self, impl, record):
        self.impl = impl
        self.record = record

    def __get__(self, obj, owner):
        self.record.append(1)
        return self.impl.__get__(obj, owner)


def entered_by_descriptor(name):
    record = []

    class X:
        def __enter__(self):
            return self

        def __exit__(self, *args):
            pass

    setattr(X, name, Descriptor(lambda *args: None, record))
    with X():
        pass
    return record


def run_context(manager):
    with manager:
        pass


def entered_elsewhere(name):
    record = []

    class X:
        def __enter__(self):
            return self

        def __exit__(self, *args):
            pass

    setattr(X, name, Descriptor(lambda *args: None, record))
    run_context(X())
    return record


@pytest.mark.parametrize("name", ["__enter__", "__exit__"])
def test_descriptors_of_special_methods_are_asked_once(name):
    same(entered_by_descriptor, name)
    same(entered_elsewhere, name)


def lengths():
    said = []
    for bad in ["illegal", -1, 1 << 32, 1 << 70, 2.5, np.int64(3), True]:

        class A:
            def __len__(self):
                return bad  # noqa: B023

        for ask in (bool, len):
            try:
                said.append(ask(A()))
            except Exception as error:
                said.append((type(error), str(error)))
    return said


def bools():
    said = []
    for bad in ["illegal", 1, 0, None]:

        class A:
            def __bool__(self):
                return bad  # noqa: B023

        try:
            said.append(bool(A()))
        except Exception as error:
            said.append((type(error), str(error)))
    return said


def test_what_a_length_and_a_truth_may_be():
    same(lengths)
    same(bools)


class Mapping:
    """Both a mapping and a right operand: the operators of a dict ask for one of them each."""

    def keys(self):
        return ["k"]

    def __getitem__(self, key):
        return 5

    def __ror__(self, left):
        return "reflected"


def updated_and_joined(x):
    d = {0: x + 1.0}
    d |= Mapping()
    return d, {0: 1} | Mapping()


def test_a_dict_takes_a_mapping_in_place_before_the_mapping_is_asked():
    same(updated_and_joined, np.arange(3.0))


class GivesItself:
    """Its author forgot __next__."""

    def __iter__(self):
        return self


class GivesNumber:
    def __iter__(self):
        return 5


def over_in_a_loop(a, items):
    for item in items:
        a = a + item
    return a


def over_in_a_comprehension(a, items):
    try:
        return [a * 2 + item for item in items]
    except TypeError as error:
        return repr(error), a * 2


def over_in_a_generator(a, items):
    return a * 2 + sum(item for item in items)


@pytest.mark.parametrize("fn", [over_in_a_loop, over_in_a_comprehension, over_in_a_generator])
@pytest.mark.parametrize("kind", [GivesItself, GivesNumber])
def test_iter_gives_no_iterator(fn, kind):
    """The process crashed."""
    same(fn, np.arange(3.0), again=lambda: (np.arange(3.0), kind()))


class Undecided:
    def __contains__(self, item):
        return NotImplemented

    def __call__(self, item):
        return NotImplemented


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="NotImplemented has no truth there")
def test_truth_is_asked_for_once():
    """Each asking warns, in the recording call."""

    def f(a, undecided):
        return 1 in undecided, list(filter(undecided, [1])), any(undecided(item) for item in [1]), a * 2

    def said():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fast(np.arange(3.0), Undecided())
        return len(caught)

    fast = dynoc.optimize(f, wait=True)
    assert said() == 3
