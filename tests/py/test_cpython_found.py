"""What the language part of CPython's own tests found (tests/upstream/run_cpython.py), as small as it gets."""

import enum
import gc
import traceback
import weakref

import numpy as np
import pytest

import dynoc


@dynoc.skip
def outcome(fn, arguments):
    try:
        return repr(fn(*arguments()))
    except Exception as error:
        rows = [(row.name, row.lineno) for row in traceback.extract_tb(error.__traceback__) if row.name != "outcome"]
        return type(error), str(error), rows


@dynoc.skip
def same(fn, *arguments, again=None, turns=3):
    """Calls, alone and with every function offered to the recorder, give what plain Python gives."""
    again = again or (lambda: arguments)
    expected = outcome(fn, again)
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(turns):
        assert outcome(fast, again) == expected, f"call {turn + 1}"
    before = dynoc.config.record_all
    dynoc.config.record_all = True
    try:
        with dynoc.enabled(wait=True):
            for turn in range(turns):
                assert outcome(fn, again) == expected, f"call {turn + 1}, everything recorded"
    finally:
        dynoc.config.record_all = before


# ---- operations that give their operand itself


def frozenset_of(x, s):
    t = frozenset(s)
    return t is s, id(t) == id(s), x + 1, s.copy() is s, id(s.copy()) == id(s)


def frozenset_made_inside(x):
    s = frozenset(range(3))
    t, u = frozenset(s), s.copy()
    return id(t) == id(s), id(u) == id(s), x + 1


def repeated(x, t):
    both = [t, t * 1, 1 * t, t + (), () + t, t[:], tuple(t)]
    return [id(one) == id(t) for one in both], x + 1


def repeated_inside(x, n):
    made = []
    for m in range(4):
        s = tuple(range(m))
        made.append((id(s) == id(s * 1), id(s) == id(s + ()), id(s) == id(s[:]), id(s) == id(s * n)))
    return made, x + 1


def returned(x, t, s):
    return x + 1, t, t * 1, t[:], t + (), s, s.copy(), frozenset(s)


def test_operations_that_give_their_operand_itself():
    x = np.arange(3.0)
    same(frozenset_of, x, frozenset((1, 2, 3)))
    same(frozenset_made_inside, x)
    same(repeated, x, (1, 2.5, "a"))
    same(repeated, x, (x, [1]))
    same(repeated_inside, x, 1)
    same(repeated_inside, x, 2)


def test_what_is_given_back_is_the_operand_itself():
    x, t, s = np.arange(3.0), (1, [2]), frozenset((1, 2, 3))
    fast = dynoc.optimize(returned, wait=True)
    for _ in range(3):
        result = fast(x, t, s)
        assert all(one is t for one in result[1:5]) and all(one is s for one in result[5:])


# ---- keys that count how often they are hashed


class Counting(int):
    hashed = 0

    def __init__(self, *args):
        self.hashed = 0

    def __hash__(self):
        self.hashed += 1
        return int.__hash__(self)


def keys_hashed(kind):
    d = dict.fromkeys(map(Counting, range(10)))
    counts = [sum(key.hashed for key in d)]
    s = kind(d)
    counts.append(sum(key.hashed for key in d))
    s.difference(d)
    counts.append(sum(key.hashed for key in d))
    d2 = dict.fromkeys(set(d))
    counts.append(sum(key.hashed for key in d))
    d3 = dict.fromkeys(frozenset(d), 123)
    counts.append(sum(key.hashed for key in d))
    return counts, len(d2), d3 == dict.fromkeys(d, 123)


def test_keys_are_not_hashed_again():
    same(keys_hashed, set)
    same(keys_hashed, frozenset)


# ---- exceptions


@dynoc.skip
def lines_of_frames(fn):
    """The lines where the frames of a traceback stand that have ended."""
    try:
        fn()
    except Exception as error:
        step = error.__traceback__.tb_next
    lines = []
    while step is not None:
        if step.tb_frame.f_code.co_filename == __file__:
            line = step.tb_frame.f_lineno
            lines.append((step.tb_lineno, None if line is None else line - step.tb_frame.f_code.co_firstlineno))
        step = step.tb_next
    return lines


def in_except():
    try:
        1 / 0
    except ZeroDivisionError:
        1 / 0
        pass


def other_except():
    try:
        1 / 0
    except TypeError:
        pass


def in_named_except():
    try:
        1 / 0
    except Exception as ex:  # noqa: F841
        1 / 0
        pass


def in_try():
    try:
        1 / 0
    finally:
        pass


def in_finally_except():
    try:
        1 / 0
    finally:
        1 / 0
        pass


class Noop:
    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass


class ExitFails:
    def __enter__(self):
        return self

    def __exit__(self, *args):
        raise ValueError


def after_with():
    with Noop():
        1 / 0
        pass


def after_with_that_fails():
    with ExitFails():
        1 / 0


@pytest.mark.parametrize(
    "fn",
    [in_except, other_except, in_named_except, in_try, in_finally_except, after_with, after_with_that_fails],
    ids=lambda fn: fn.__name__,
)
def test_frames_that_an_exception_left_stand_where_they_ended(fn):
    def called():
        return lines_of_frames(fn)

    same(called, turns=1)  # a served call has another frame where the exception was raised than where it left


def suggestion():
    class A:
        blech = None

        def __getattr__(self, attr):
            raise AttributeError()

    try:
        A().bluch
    except AttributeError as error:
        return error.name, type(error.obj).__name__, error.args


def suggestion_given():
    class A:
        blech = None

        def __getattr__(self, attr):
            raise AttributeError(23, name="other", obj=3)

    try:
        A().bluch
    except AttributeError as error:
        return error.name, error.obj, error.args


def suggestion_by_getattribute():
    class A:
        def __getattribute__(self, attr):
            raise AttributeError("no")

    try:
        A().bluch
    except AttributeError as error:
        return error.name, type(error.obj), error.args


def a_property_that_lacks_something():
    class A:
        @property
        def blech(self):
            raise AttributeError("no")

    class B(A):
        def __getattr__(self, name):
            return name + "!"

    try:
        return B().blech, getattr(B(), "blech"), A().blech
    except AttributeError as error:
        return error.name, type(error.obj).__name__, B().blech, getattr(B(), "blech"), B().other


def suggestion_by_getattr():
    class A:
        def __getattr__(self, attr):
            raise AttributeError()

    try:
        getattr(A(), "bluch")
    except AttributeError as error:
        return error.name, type(error.obj).__name__, error.args


def suggestion_by_a_call():
    class A:
        def __getattr__(self, attr):
            raise AttributeError()

    try:
        A().bluch(1)
    except AttributeError as error:
        return error.name, type(error.obj).__name__, error.args


def test_an_attribute_error_says_of_what():
    same(a_property_that_lacks_something)
    same(suggestion_by_getattr)
    same(suggestion_by_a_call)
    same(suggestion)
    same(suggestion_given)
    same(suggestion_by_getattribute)


# ---- special methods


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


# ---- iterators


def extended_behind_its_end(x):
    a = list(range(5))
    b = iter(a)
    first = list(b)
    a.extend(range(5, 10))
    return first, list(b), x + 1


def extended_before_its_end(x, a):
    b = iter(a)
    first = [next(b), next(b)]
    a.append(7)
    return first, list(b), list(b), x + 1


def looped_to_its_end(x, a):
    b = iter(a)
    for _ in b:
        pass
    a.append(7)
    return list(b), next(b, None), x + 1


def test_an_iterator_stays_at_its_end():
    x = np.arange(3.0)
    same(extended_behind_its_end, x)
    same(extended_before_its_end, again=lambda: (x, [1, 2, 3]))
    same(looped_to_its_end, again=lambda: (x, [1, 2, 3]))


def listed(x, pairs, more):
    return list(enumerate(more)) == pairs, x + 1


def test_long_lists_are_listed_and_compared_in_time():
    same(listed, np.arange(3.0), list(enumerate(range(10000))), range(10000))


# ---- enums, sorting


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


def sorted_alike(values):
    first = sorted(values)
    second = [pair[1] for pair in sorted([(0, v) for v in values])]
    return all(a is b for a, b in zip(first, second)), [a in [b] for a, b in zip(first, second)]


def sorted_nans():
    return sorted_alike([float("nan")] * 20), sorted_alike([float("nan") for _ in range(20)])


def test_sorting_keeps_nans():
    same(sorted_nans)


# ---- collected


def class_collected():
    class Parent:
        pass

    class Child(Parent):
        pass

    before = len(Parent.__subclasses__())
    del Child
    gc.collect()
    return before, Parent.__subclasses__()


def class_seen_by_a_reference():
    class A:
        pass

    seen = []
    a = weakref.ref(A, seen.append)
    A = None
    gc.collect()
    return a(), len(seen)


def class_collected_by_count():
    class A:
        pass

    A.a = A
    gc.collect()
    del A
    return gc.collect() != 0


@pytest.mark.parametrize("fn", [class_collected, class_seen_by_a_reference, class_collected_by_count])
def test_what_is_deleted_is_gone_after_a_collection(fn):
    same(fn)


# ---- coroutines


def from_coroutine():
    async def bar():
        return 10

    coro = bar()

    def foo():
        yield from coro

    try:
        return list(foo())
    except TypeError as error:
        return str(error)
    finally:
        coro.close()


def test_yield_from_a_coroutine():
    same(from_coroutine)


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
