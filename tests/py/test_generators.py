"""Generators and coroutines that a recorded function delegates to or deletes."""

import numpy as np
import pytest
from outcomes import outcome_of, same

import dynoc


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


def deletes(n):
    def generator(k):
        try:
            yield k
        finally:
            pass

    it = generator(n)
    first = next(it, -1)
    del it
    return first


def calls_what_deletes(x, n):
    y = x * 2
    return y, deletes(n)


def calls_a_closure_that_deletes(x, n):
    y = x * 2

    def closure(k):
        def generator():
            try:
                yield k
            finally:
                pass

        it = generator()
        first = next(it)
        del it
        return first

    return y, closure(n)


@pytest.mark.parametrize("fn", [calls_what_deletes, calls_a_closure_that_deletes], ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["eager", "dynoc"])
def test_an_inlined_function_deletes_a_generator_that_runs_code(fn, backend):
    fast = dynoc.optimize(fn, backend=backend, wait=True)
    for n in (1, 2, 3, 2.5):
        assert outcome_of(fast, (np.arange(3.0), n)) == outcome_of(fn, (np.arange(3.0), n))
