"""Exceptions raised, caught, raised again and let out, with everything that can be seen of them: as without dynoc, on the
recording call and later."""

import contextlib
import sys
import traceback

import numpy as np
import pytest
from case import f64
from compare import check, dynoc


class Failure(Exception):
    def __init__(self, code):
        super().__init__(code, "failed")
        self.code = code


def fail(k):
    if k > 0:
        raise Failure(k)
    return k


def escapes(x, k):
    y = x * 2.0
    fail(k)
    return y


def escapes_from_try(x, k):
    try:
        y = x * 2.0
        fail(k)
    except KeyError:
        y = x
    return y


def escapes_through_finally(x, k, out):
    try:
        y = x * 2.0
        fail(k)
    finally:
        out.append("done")
    return y


def swallowed_by_finally(x, k):
    try:
        fail(k)
    finally:
        return x * 3.0  # noqa: B012


def raised_in_handler(x, k):
    try:
        fail(k)
    except Failure as e:
        raise ValueError(e.code) from e
    return x + 1.0


def raised_without_from(x, k):
    try:
        fail(k)
    except Failure:
        raise KeyError("other")  # noqa: B904
    return x + 1.0


def raised_again(x, k, out):
    try:
        fail(k)
    except Failure:
        out.append(1)
        raise
    return x + 1.0


def handled_state(x, k):
    try:
        fail(k)
    except Failure:
        kind = sys.exc_info()[0]
        return x + 1.0, kind.__name__, sys.exc_info()[1].code
    return x + 2.0, sys.exc_info()


def state_afterwards(x, k):
    try:
        fail(k)
    except Failure:
        x = x * 2.0
    return x + 1.0, sys.exc_info()


def text_of_error(x, k):
    try:
        fail(k)
    except Failure as e:
        return x + 1.0, str(e), repr(e), e.args
    return x


def kept_error(x, k):
    error = None
    try:
        fail(k)
    except Failure as e:
        error = e
    return x + 1.0, error is None, None if error is None else [f.name for f in traceback.extract_tb(error.__traceback__)]


def returned_error(x, k):
    try:
        fail(k)
    except Failure as e:
        return x + 1.0, e
    return x, None


def nested(x, k):
    try:
        try:
            fail(k)
        except KeyError:
            x = x * 100.0
        finally:
            x = x + 1.0
    except Failure as e:
        try:
            raise KeyError(e.code)
        except KeyError as inner:
            x = x * inner.args[0]
    return x


def loop_with_continue(x, k):
    total = 0
    for i in range(5):
        try:
            if i == k:
                continue
            fail(i - 3)
            total += i
        except Failure:
            break
        finally:
            total += 100
    return x * total


def else_and_finally(x, k):
    log = []
    try:
        fail(k)
    except Failure:
        log.append("except")
    else:
        log.append("else")
    finally:
        log.append("finally")
    return x + len(log), log


def effects_before_and_after(x, k, out):
    out.append("a")
    try:
        out.append("b")
        fail(k)
        out.append("c")
    except Failure:
        out.append(x + 1.0)
    out.append("d")
    return len(out)


def missing_key(x, k, d=None):
    table = {1: 2.0}
    try:
        return x * table[k]
    except KeyError as e:
        return x + 1.0, e.args


def index(x, k):
    items = [1.0, 2.0]
    try:
        return x * items[k]
    except IndexError:
        return x - 1.0


def division(x, k):
    try:
        return x * (6 // k)
    except ZeroDivisionError:
        return x - 1.0


def not_an_exception(x, k):
    try:
        raise k
    except TypeError:
        return x + 1.0


def assertion(x, k):
    try:
        assert k == 0, k
    except AssertionError as e:
        return x + 1.0, e.args
    return x


def suppressed(x, k):
    with contextlib.suppress(Failure):
        x = x * 2.0
        fail(k)
        x = x * 3.0
    return x + 1.0


def not_suppressed(x, k):
    with contextlib.suppress(KeyError):
        x = x * 2.0
        fail(k)
    return x + 1.0


def numpy_error(x, k):
    try:
        return x.reshape(k + 100, 7)
    except ValueError:
        return x + 1.0


def numpy_error_unknown(x, k):
    try:
        return x + np.ones(x.shape[0] + k)
    except ValueError as e:
        return x + 1.0, str(e)


FUNCTIONS = [
    escapes, escapes_from_try, escapes_through_finally, swallowed_by_finally, raised_in_handler,
    raised_without_from, raised_again, handled_state, state_afterwards, text_of_error, kept_error, returned_error,
    nested, loop_with_continue, else_and_finally, effects_before_and_after, missing_key, index, division,
    not_an_exception, assertion, suppressed, not_suppressed, numpy_error, numpy_error_unknown,
]  # fmt: skip


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_without_dynoc(fn, first):
    fast = dynoc.optimize(fn, wait=True)
    out = fn.__code__.co_varnames[: fn.__code__.co_argcount][-1] == "out"
    for k in (first, first, 0, 1, 2, 0, 1, 2):
        for n in (5, 8):
            check(fn, fast, lambda n=n, k=k: (f64(n), k, []) if out else (f64(n), k), what=f"k = {k}")
    assert sys.exc_info() == (None, None, None)


def test_inside_a_handler():
    """The function is called while its caller handles an exception."""

    def f(x, k):
        try:
            fail(k)
        except Failure:
            x = x + 1.0
        return x * 2.0, type(sys.exc_info()[1]).__name__

    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        for k in (0, 1):
            try:
                raise OSError("outer")
            except OSError:
                check(f, fast, lambda k=k: (f64(4), k))
                assert isinstance(sys.exc_info()[1], OSError)


def test_a_breakpoint_in_a_handler_keeps_the_exception():
    def f(x, k):
        try:
            fail(k)
        except Failure:
            y = x * 2.0
            sys.intern("a")
            return y, sys.exc_info()[1].code
        return x

    fast = dynoc.optimize(f, wait=True)
    for k in (1, 1, 0, 1, 0):
        check(f, fast, lambda k=k: (f64(4), k))


TAKEN = {
    "next": lambda f, items: next(map(f, items)),
    "list": lambda f, items: list(map(f, items)),
    "sum": lambda f, items: sum(map(f, items)),
    "sorted": lambda f, items: sorted(items, key=f),
    "filter": lambda f, items: list(filter(f, items)),
    "a loop": lambda f, items: [i for i in map(f, items)],
    "zip": lambda f, items: dict(zip(items, map(f, items), strict=False)),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_was_done_before_an_item_raised(name):
    """The handler is recorded, and what the function did until then is done at every call."""
    log, take = [], TAKEN[name]

    def noting(k):
        log.append(k)
        return fail(k)

    def f(x, items):
        try:
            take(noting, items)
        except Failure:
            pass
        return x * 2.0

    fast = dynoc.optimize(f, wait=True)
    for _ in range(5):
        log.clear()
        fast(f64(4), [0, 1, 2])
        assert log == ([0] if name == "next" else [0, 1])
