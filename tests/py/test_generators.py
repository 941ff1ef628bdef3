"""Generators and coroutines that a recorded function delegates to or deletes."""

import itertools

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


class Guarded:
    """Iterators in C over a generator that runs code when it is left before its end."""

    def __init__(self, make):
        self.log, self.make = [], make

    def numbers(self, n):
        try:
            for i in range(n):
                yield i
        finally:
            self.log.append("end")

    def first_above(self, x, limit):
        for v in self.make(self.numbers(10)):
            x = x + 1
            if (v if isinstance(v, int) else v[-1]) > limit:
                break
        self.log.append("after")
        return x, self.log[:]

    def one_only(self, x, n):
        it = self.make(self.numbers(n))
        next(it, None)
        it = None
        self.log.append("after")
        return x * 2, self.log[:]


ITERATORS = {
    "enumerate": enumerate,
    "zip": lambda it: zip("abcdefghijklmn", it),
    "map": lambda it: map(abs, it),
    "filter": lambda it: filter(None, it),
    "islice": lambda it: itertools.islice(it, 1, None),
    "chain": lambda it: itertools.chain((-1,), it),
    "takewhile": lambda it: itertools.takewhile(lambda v: v < 8, it),
    "pairwise": itertools.pairwise,
    "accumulate": itertools.accumulate,
    "iter": iter,
    "nested": lambda it: enumerate(i for i in it),
}


@pytest.mark.parametrize("name", ["first_above", "one_only"])
@pytest.mark.parametrize("make", ITERATORS.values(), ids=ITERATORS)
def test_a_generator_that_an_iterator_holds_runs_its_code_when_it_dies(make, name):
    fast = dynoc.optimize(getattr(Guarded, name), wait=True)
    for n in (5, 3, 20, 5, 1):
        got, expected = (f(Guarded(make), np.arange(3.0), n) for f in (fast, getattr(Guarded, name)))
        assert (got[0].tolist(), got[1]) == (expected[0].tolist(), expected[1]), n


# ---- generator expressions, which ask for their iterator before they begin from 3.15 on


class Numbers:
    """Its __iter__ is a function in Python."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        for i in range(self.n):
            yield i + 0.5


class Raises:
    """Its __iter__ raises."""

    def __iter__(self):
        raise ValueError("none")


class Holds:
    """Its __iter__ is a function in Python that gives another object's iterator, and counts."""

    def __init__(self, items):
        self.items, self.asked = items, 0

    def __iter__(self):
        self.asked += 1
        return iter(self.items)


class Shows(Holds):
    """Its __iter__ has a break in it."""

    def __iter__(self):
        print(end="")
        return super().__iter__()


def over_what_holds(a, xs):
    held = Holds(xs)
    return a + sum(x * 2 for x in held), [x for x in held], held.asked


def over_what_shows(a, xs):
    held = Shows(xs)
    return a + sum(x * 2 for x in held), max((x + y for x in held for y in held if x < 3), default=0), held.asked


def over_an_object(a, xs):
    return a + sum(x * 2 for x in Numbers(3)), [x for x in Numbers(4)]


def over_what_raises(a, xs):
    try:
        return a + sum(x for x in Raises())
    except ValueError as error:
        return a * 2, str(error)


def left_half_done(a, xs):
    numbers = (x * 2 for x in xs)
    first = next(numbers)
    print(end="")
    return a + first, list(numbers)


def left_not_begun(a, xs):
    numbers = (x + y for x in xs for y in xs)
    print(end="")
    return a + 1, list(numbers)


def left_in_the_middle(a, xs):
    total = 0
    for x in (y for y in xs):
        total += x
        if total > 3:
            break
    print(end="")
    return a + total


def as_arguments(a, xs):
    kept = tuple(x for x in xs), list(x for x in xs), any(x > 2 for x in xs), all(x > 2 for x in xs)
    return a + len(kept), kept, {x for x in xs}


def delegated(a, xs):
    def numbers():
        yield from xs
        yield from (x + 1 for x in xs)

    for x in numbers():
        a = a + x
        print(end="")
    return a


EXPRESSIONS = [
    *(over_an_object, over_what_holds, over_what_shows, over_what_raises),
    *(left_half_done, left_not_begun, left_in_the_middle, as_arguments, delegated),
]


@pytest.mark.parametrize("make", [list, tuple, iter], ids=lambda m: m.__name__)
@pytest.mark.parametrize("fn", EXPRESSIONS, ids=lambda f: f.__name__)
def test_generator_expressions(fn, make):
    fast = dynoc.optimize(fn, wait=True)
    for n in (5, 5, 30, 5):
        got, expected = fast(np.arange(4.0), make(range(1, n))), fn(np.arange(4.0), make(range(1, n)))
        assert repr(got) == repr(expected)


def test_an_iter_in_python_is_recorded_with_what_goes_over_it():
    fast = dynoc.optimize(lambda a, held: a + sum(a * x for x in held), wait=True, fullgraph=True)
    for n in (1, 2, 3):
        a, held = np.arange(4.0) + n, Holds([1.5, 2.5])
        assert (fast(a, held) == a + a * 1.5 + a * 2.5).all() and held.asked == 1


def sent_to_a_sequence(a, xs):
    def numbers():
        yield from xs

    generator = numbers()
    first = next(generator)
    shown = type(generator.gi_yieldfrom).__name__
    try:
        generator.send(1)
    except AttributeError as error:
        return a + first, shown, str(error)
    return None


@pytest.mark.parametrize("make", [list, tuple, iter], ids=lambda m: m.__name__)
def test_what_is_delegated_to_is_shown(make):
    fast = dynoc.optimize(sent_to_a_sequence, wait=True)
    for _ in range(3):
        got, expected = (fn(np.arange(4.0), make([1, 2, 3])) for fn in (fast, sent_to_a_sequence))
        assert repr(got) == repr(expected)
