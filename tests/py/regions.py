"""Helpers for tests of native loops: the loop of a function is run by CPython alone, and as a region that CPython goes on behind.

A case is a function whose loop comes first, so that its arguments are its slots at the header, and the iterator that lies on
the stack there. What is compared is what the function returns or raises, what it warns, and the arrays that it was given:
values, types and bits.
"""

import collections
import copy
import gc
import itertools
import operator
import re
import struct
import sys
import types
import warnings

import numpy as np

from dynoc import _dynoc

NATIVE, INTERPRETED = False, True
ITERATORS = type(iter(range(0))), type(iter(np.zeros(0))), type(iter([])), type(iter(())), enumerate, zip
ITERATORS = *ITERATORS, *(type(iter(over)) for over in ("a", "\xff", b"", bytearray()))
VIEWS = {type(iter(view({}))): view for view in (iter, dict.values, dict.items)} | {type(iter(set())): iter}


class Thing:
    """Whatever a test makes instances of is made of this, so that its cases are compared by their attributes."""

    __slots__ = ()


def again(iterator, memo):
    """An iterator over a copy of the dict or set that this one goes over, as far as it has come."""
    over = next(o for o in gc.get_referents(iterator) if isinstance(o, (dict, set)))
    made = iter(VIEWS[type(iterator)](copy.deepcopy(over, memo)))
    for _ in range(len(over) - operator.length_hint(iterator)):
        next(made)
    return made


def left_in(iterator):
    try:
        return list(copy.copy(iterator))
    except RuntimeError as error:
        return str(error)


COPIED = np.ndarray, list, bytearray, dict, set, collections.deque, Thing, *ITERATORS
CHANGED = np.ndarray, list, bytearray, dict, set, collections.deque, Thing


def slots_of(function, args):
    code = function.__code__
    names = [*code.co_varnames, *(name for name in code.co_cellvars if name not in code.co_varnames), *code.co_freevars]
    given = dict(zip(code.co_varnames, args))
    return [cell_of(given, name) if name in code.co_cellvars else given.get(name, ...) for name in names]


def cell_of(given, name):
    return types.CellType(given[name]) if name in given else types.CellType()


def own(items):
    """Every other number of a list of lists becomes one that nobody else has."""
    for i, item in enumerate(items):
        if isinstance(item, list):
            own(item)
        elif type(item) is float and i % 2 == 0:
            items[i] = struct.unpack("d", struct.pack("d", item))[0]
        elif type(item) is int and i % 2 == 0:
            items[i] = int(str(item))


def on_stack(*iterators):
    """The stack at a header: an iterator has a second place from 3.15 on, which is empty for those that loops know."""
    return [place for it in iterators for place in ([it, ...] if sys.version_info >= (3, 15) else [it])]


def fresh(values):
    """Copies of arrays, lists and iterators; what is the same object stays one."""
    memo = {}
    copies = [copy.deepcopy(value, memo) if isinstance(value, COPIED) else value for value in values]
    copies = [again(made, memo) if type(made) in VIEWS else made for made in copies]
    for i, value in enumerate(copies):
        if isinstance(value, types.CellType):
            copies[i] = types.CellType(*([value.cell_contents] if value != types.CellType() else []))
    for made in copies:
        if isinstance(made, list):
            own(made)
    for value, made in zip(values, copies):
        if isinstance(value, np.ndarray):
            made.flags.writeable = value.flags.writeable
    return copies


def seen(value):
    """Type and bits of a value."""
    if isinstance(value, np.ndarray):
        return "array", value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, np.generic):
        return type(value), value.tobytes()
    if isinstance(value, float):
        return float, struct.pack("d", value)
    if isinstance(value, complex):
        return complex, seen(value.real), seen(value.imag)
    if isinstance(value, (tuple, list)):
        return type(value), tuple(seen(item) for item in value)
    if type(value) in VIEWS:
        return type(value), seen(left_in(value))
    if isinstance(value, collections.deque):
        return type(value), value.maxlen, tuple(seen(item) for item in value)
    if isinstance(value, set):
        return set, tuple(seen(item) for item in value)
    if isinstance(value, dict):
        return dict, tuple((seen(key), seen(item)) for key, item in value.items())
    if isinstance(value, Thing):
        return type(value), seen(attributes(value))
    if isinstance(value, ITERATORS):
        return type(value), seen(rest(value))
    return type(value), bytes(value) if isinstance(value, bytearray) else value


def rest(iterator):
    """What is left in it; a generator can't be copied, and is over then."""
    try:
        return list(copy.deepcopy(iterator))
    except TypeError:
        return list(iterator)


def attributes(thing):
    slots = [name for cls in type(thing).__mro__ for name in getattr(cls, "__slots__", ()) if hasattr(thing, name)]
    return {name: getattr(thing, name) for name in slots} | getattr(thing, "__dict__", {})


def outcome(run, arrays):
    """What a call gives, raises and warns, and what is in the arrays then."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = seen(run())
        except Exception as error:
            result = type(error), str(error)
    said = sorted((w.category.__name__, str(w.message)) for w in caught)
    return result, said, [seen(array) for array in arrays]


class Case:
    """A function, its arguments, and the iterators on the stack at the header of its loop.

    Parameters
    ----------
    function : function
    args : tuple
    stack : list or callable
        The iterators, or what makes them; of a while loop none.
    loop : int
        Which of the function's headers.
    """

    def __init__(self, function, args, stack=(), loop=0):
        self.function, self.args, self.stack = function, args, stack if callable(stack) else on_stack(*stack)
        self.header = _dynoc._region_headers(function)[loop]
        self.region = None

    def begin(self):
        slots = slots_of(self.function, self.args)
        if callable(self.stack):
            return fresh(slots), on_stack(*self.stack())
        values = fresh([*slots, *self.stack])
        return values[: len(slots)], values[len(slots) :]

    def go_on(self, slots, at, stack):
        return _dynoc._region_go_on(self.function, self.args, slots, at, stack)

    def eager(self):
        slots, stack = self.begin()
        arrays = [value for value in slots if isinstance(value, CHANGED)]
        return outcome(lambda: self.go_on(slots, self.header, stack), [*arrays, *stack])

    def plan(self):
        slots, stack = self.begin()
        region = _dynoc._region_plan(self.function, self.header, slots, stack)
        assert not isinstance(region, tuple), region
        self.region = region
        return region

    def refusal(self):
        """(reason, code unit, what) of a loop that has no region."""
        slots, stack = self.begin()
        why = _dynoc._region_plan(self.function, self.header, slots, stack)
        assert isinstance(why, tuple), _dynoc._region_text(why)
        return why

    def run(self, interpreted, force=-1, after=0):
        """The outcome, and the exit that was taken. It is run anew where a poll left because another thread wants this one."""
        polls = set(re.findall(r"(?:poll|routine \d+) else x(\d+)", _dynoc._region_text(self.region)))
        for _ in range(5):
            result, left = self.run_once(interpreted, force, after)
            if str(left[0]) not in polls - {str(force)}:
                break
        return result, left

    def run_once(self, interpreted, force, after):
        slots, stack = self.begin()
        arrays = [value for value in slots if isinstance(value, CHANGED)]
        left = []

        def run():
            end = _dynoc._region_run(self.region, slots, stack, interpreted, force, after)
            assert end is not None, "not entered"
            left.append(end[3:])
            return self.go_on(end[0], end[1], end[2])

        return outcome(run, [*arrays, *stack]), left[0]


def check(function, args, stack=(), loop=0, forced=True, native=True, leaves=None):
    """Compare a case's ways of running, and every exit of it that can be forced.

    Parameters
    ----------
    leaves : str, optional
        The reason for which the region has to be left.

    Returns
    -------
    str
        The region as text.
    """
    case = Case(function, args, stack, loop)
    expected = case.eager()
    region = case.plan()
    text = _dynoc._region_text(region)
    assert _dynoc._region_text(_dynoc._region_parse(text)) == text
    result, (_, why) = case.run(INTERPRETED)
    assert result == expected, text
    assert leaves is None or why == leaves, (why, text)
    if native:
        assert _dynoc._region_build(region, forced) == 1
        assert case.run(NATIVE) == (result, case.run(INTERPRETED)[1]), text
    for force in range(len(_dynoc._region_exits(region)) if forced else 0):
        for after in (0, 1, 3):
            result, left = case.run(INTERPRETED, force, after)
            assert result == expected, (force, after, text)
            if native:
                assert case.run(NATIVE, force, after) == (expected, left), (force, after, text)
    if forced:
        check_without_memory(case, expected)
    return text


def without_memory(case, after, *how):
    """The outcome where memory is out for what an exit makes, after so many objects; and whether it was."""
    _dynoc._region_starve(after)
    try:
        result, _ = case.run(INTERPRETED, *how)
    finally:
        left = _dynoc._region_starve(-1)
    return result, left == 0


def check_without_memory(case, expected):
    """Each object that the last exit makes can't be had in turn, and at every exit none."""
    for after in itertools.count():
        result, out = without_memory(case, after)
        assert result == expected, after
        if not out:
            break
    for force in range(len(_dynoc._region_exits(case.region))):
        for passed in (0, 2):
            result, _ = without_memory(case, 0, force, passed)
            assert result == expected, (force, passed)
