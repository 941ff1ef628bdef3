"""Tracebacks and error messages of exceptions that leave or pass a recorded function: frames, lines, what they are about."""

import numpy as np
import pytest
from outcomes import outcome_of, same

import dynoc


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


def handled_behind_a_break(x, names):
    try:
        try:

            def joined(n, *, q=3):
                assert False, "-".join(str(v) for v in [n])

            joined(names)
        except AssertionError:
            pass
        undefined_name  # noqa: F821
    finally:
        pass


def raised_in_a_handler(x, names):
    y = x * 2
    try:
        int(names)
    except ValueError as error:
        z = y + 1
        raise KeyError(
            z.sum()
        ) from error


def raised_behind_a_handler(x, names):
    y = x * 2
    for _ in range(2):
        with np.errstate(all="ignore"):
            try:
                int(names)
            except ValueError:
                y = y + 1
    return y.reshape(
        7
    )


@pytest.mark.parametrize("fn", [handled_behind_a_break, raised_in_a_handler, raised_behind_a_handler], ids=lambda f: f.__name__)
@pytest.mark.parametrize("everything", [False, True])
def test_lines_of_tracebacks_from_handlers_behind_a_break(fn, everything):
    given = lambda text: (np.arange(3.0), text)
    texts = ("a", "a", "a", "1", "a")
    plain = [outcome_of(fn, given(text)) for text in texts]
    if not everything:
        fast = dynoc.optimize(fn, backend="eager")
        assert [outcome_of(fast, given(text)) for text in texts] == plain
        return
    dynoc.config.record_all = True
    try:
        with dynoc.enabled(backend="eager"):
            got = [outcome_of(fn, given(text)) for text in texts]
    finally:
        dynoc.config.record_all = False
    assert got == plain
