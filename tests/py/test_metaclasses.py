"""Classes made while recording: metaclasses that fill them, and the cell of `super()`."""

import enum

import numpy as np
import pytest
from outcomes import same

import dynoc


def filled_in():
    class auto_enum(type(enum.Enum)):
        def __new__(metacls, cls, bases, classdict):
            temp = type(classdict)()
            temp._cls_name = cls
            names = set(classdict._member_names)
            i = 0
            for k in classdict._member_names:
                v = classdict[k]
                if v is Ellipsis:
                    v = i
                else:
                    i = v
                i += 1
                temp[k] = v
            for k, v in classdict.items():
                if k not in names:
                    temp[k] = v
            return super(auto_enum, metacls).__new__(metacls, cls, bases, temp)

    class Numbered(enum.Enum, metaclass=auto_enum):
        pass

    class Made(Numbered):
        a = ...
        b = 3
        c = ...

    return [(one.name, one.value) for one in Made]


def test_a_metaclass_of_enums():
    same(filled_in)


class Filled(enum.EnumMeta):
    def __new__(metacls, name, bases, members):
        base = np.arange(3.0) + 1
        filled = []
        i = 0
        for k in list(members._member_names):
            v = members[k]
            if v is Ellipsis:
                v = i
            else:
                i = v
            i += 1
            filled.append((k, v))
        made = super().__new__(metacls, name, bases, members)
        made.filled = filled, base
        return made


def the_cell_of_super():
    class Made(enum.Enum, metaclass=Filled):
        a = ...
        b = 3
        c = ...

    return Made.filled


def test_the_cell_of_super_is_no_stack_value():
    same(the_cell_of_super)


class Counting(type):
    """Its classes count how often they were shown."""

    def __str__(cls):
        cls.shown += 1
        return str(cls.shown)

    def __repr__(cls):
        return "again " + str(cls)


class Shown(metaclass=Counting):
    shown = 0


class Hue(enum.Enum):
    RED = 1

    def __str__(self):
        Shown.shown += 1
        return f"{self.name} {Shown.shown}"


def text_of(x, thing):
    return x + 1, str(thing), repr(thing)


@pytest.mark.parametrize("thing", [Shown, Hue.RED])
def test_what_shows_a_class_runs_each_time(thing):
    fast = dynoc.optimize(text_of, wait=True)
    Shown.shown = 0
    want = [text_of(np.ones(2), thing)[1:] for _ in range(4)]
    Shown.shown = 0
    assert [fast(np.ones(2), thing)[1:] for _ in range(4)] == want
