"""Generators of Python functions in native loops, from the program's side: which are gone through, and that nobody sees it."""

import gc
import sys
import traceback

import numpy as np
import pytest
from test_loops_null import twin

import dynoc


def squares(n):
    i = 0
    while i < n:
        yield i * i
        i += 1


def inverses(n):
    for i in range(n, -n, -1):
        yield 60 // i


def rows(a):
    for i in range(len(a)):
        total = 0.0
        for x in a[i]:
            total += x
        yield i, total


SEEN = []


def tidy(n):
    try:
        yield from range(n)
    finally:
        SEEN.append("closed")


def total(n):
    s = 0
    for x in squares(n):
        s += x
    return s


def until(n):
    s = 0
    for i, x in enumerate(inverses(n)):
        s += x * i
        if s > 10**6:
            break
    return s


def of_rows(n):
    a = np.arange(3.0 * n).reshape(n, 3)
    best, at = -1.0, None
    for i, t in rows(a):
        if t > best:
            best, at = t, i
    return best, at, type(best)


def held(n):
    g = squares(n)
    s = 0
    for x in g:
        s += x
        if x > 50:
            break
    return s, list(g)


def twice(n):
    g = squares(n)
    out = []
    for x in g:
        out.append((x, next(g, None)))
    return out


def closes(n):
    s = 0
    for x in tidy(n):
        s += x
        if x == 7:
            break
    SEEN.append(s)
    return s


def grows(n):
    s = 1
    for x in squares(n):
        s = s * (x + 1)
    return s


def outcome(function, *args):
    del SEEN[:]
    try:
        result = function(*args)
    except Exception as e:
        result = type(e), str(e), [(f.name, f.lineno) for f in traceback.extract_tb(e.__traceback__)[1:]]
    return repr(result), SEEN[:]


@pytest.mark.parametrize("n", [0, 1, 3, 40])
@pytest.mark.parametrize("f", [total, until, of_rows, held, twice, closes, grows], ids=lambda f: f.__name__)
def test_as_in_cpython(f, n):
    wanted = outcome(f, n)
    fast = dynoc.optimize(twin(f), wait=True)
    for _ in range(3):
        result, seen = outcome(fast, n)
        assert (result, seen) == wanted


NO_ENUMERATE = pytest.mark.skipif(sys.version_info >= (3, 15), reason="the iterator of enumerate isn't known there")


@pytest.mark.parametrize("f", [total, pytest.param(until, marks=NO_ENUMERATE), of_rows], ids=lambda f: f.__name__)
def test_is_native(f):
    fast = dynoc.optimize(twin(f), wait=True)
    outcome(fast, 40)
    assert any(told.startswith("native: ") for told in fast.loops), fast.loops


def test_memory_is_flat():
    fast = dynoc.optimize(twin(grows), wait=True)
    before = None
    for k in range(60):
        for _ in range(50):
            fast(30)
            outcome(fast, 3)
        if k in (20, 59):
            gc.collect()
            now = sys.getallocatedblocks()
            assert before is None or now < before + 500
            before = now


def test_tracer_sees_the_generator():
    """A tracer that is there when the function is called: everything runs in CPython."""
    fast = dynoc.optimize(twin(total), wait=True)
    fast(10)
    names = []

    def trace(frame, event, arg):
        names.append(frame.f_code.co_name)

    sys.settrace(trace)
    try:
        assert fast(10) == total(10)
    finally:
        sys.settrace(None)
    assert names.count("squares") >= 11
