"""Native loops that call functions which an inner `def` or lambda makes anew at each call: what counts is their code, not which
object they are."""

import gc
import weakref

import numpy as np
import pytest
from regions import on_stack

import dynoc
from dynoc import _dynoc


def with_a_lambda(n, k):
    f = lambda x: x * x + k  # noqa: E731
    s = 0.0
    for i in range(n):
        s += f(i * 0.5)
    return s


def roots(n, _):
    parent = list(range(n))

    def find(x):
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    joined = 0
    for i in range(1, n):
        a, b = find(i), find(i // 2)
        if a != b:
            parent[a] = b
            joined += 1
    return joined, parent


def one_calls_another(n, k):
    def inner(x):
        return x + k

    def outer(x):
        return inner(x) * 2

    total = 0
    for i in range(n):
        total += outer(i)
    return total


def stores_what_it_shares(n, k):
    count = k

    def bump(x):
        nonlocal count
        count += x
        return count

    total = 0
    for i in range(n):
        total += bump(i)
        if i == n - 3:
            count = 1
    return total, count


def with_a_default(n, k):
    def scaled(x, by=3):
        return x * by + k

    total = 0
    for i in range(n):
        total += scaled(i) + scaled(i, 2)
    return total


def with_a_default_of_its_own(n, k):
    def scaled(x, by=k):
        return x * by

    total = 0
    for i in range(n):
        total += scaled(i)
    return total


def over_an_array(n, k):
    a = np.arange(n * 1.0)

    def at(i):
        return a[i % n] * k

    total = 0.0
    for i in range(n):
        total += at(i + 1)
        a[i] = total % 7
    return total, a.tolist()


def is_replaced(n, k):
    f = lambda x: x + k  # noqa: E731
    total = 0
    for i in range(n):
        total += f(i)
        if i == n - 4:
            f = abs
    return total


def raises_within(n, k):
    f = lambda x: 100 // (x - n + 2)  # noqa: E731
    total = 0
    for i in range(n):
        total += f(i) + k
    return total


def overflows_within(n, k):
    f = lambda x: x * 3 + k  # noqa: E731
    x = 1
    for _ in range(n):
        x = f(x)
    return x


def is_compared(n, k):
    f = g = lambda x: x + k  # noqa: E731
    total = 0
    for i in range(n):
        h = f if i % 2 else g
        total += h(i) if h is f else 1000
        if f is None or not f:
            total += 10**6
    return total


def hands_it_on(n, k):
    def twice(f, x):
        return f(f(x))

    add = lambda x: x + k  # noqa: E731
    total = 0
    for i in range(n):
        total += twice(add, i)
    return total


MAKERS = [
    with_a_lambda,
    roots,
    one_calls_another,
    stores_what_it_shares,
    with_a_default,
    with_a_default_of_its_own,
    over_an_array,
    is_replaced,
    raises_within,
    overflows_within,
    is_compared,
    hands_it_on,
]
PLANNED_ONCE = [with_a_lambda, roots, one_calls_another, stores_what_it_shares, with_a_default, over_an_array, raises_within]


def outcome(function, *args):
    try:
        return repr(function(*args))
    except Exception as error:
        lines, at = [], error.__traceback__.tb_next
        while at is not None:
            lines.append((at.tb_frame.f_code.co_name, at.tb_lineno))
            at = at.tb_next
        return type(error), str(error), lines


@pytest.mark.parametrize("function", MAKERS)
def test_calls(function):
    fast = dynoc.optimize(function, wait=True)
    for n in (50, 50, 7, 60, 0, 1, 50, 50, 50, 50):
        assert outcome(fast, n, n + 3) == outcome(function, n, n + 3)


@pytest.mark.parametrize("function", PLANNED_ONCE)
def test_a_loop_is_planned_once_for_all_calls(function):
    fast = dynoc.optimize(function, wait=True)
    outcome(fast, 50, 1)
    planned = dynoc.counters["loops"]["planned"]
    for k in range(12):
        outcome(fast, 50, k)
    assert dynoc.counters["loops"]["planned"] == planned
    assert fast.loops and fast.loops[0].startswith("native"), fast.loops


def applied(f, n):
    total = 0
    for i in range(n):
        total += f(i)
    return total


def test_functions_of_several_codes_as_arguments():
    def by(k):
        return lambda x: x * k

    def plus(k):
        return lambda x: x + k

    def counter(start):
        def count(x):
            nonlocal start
            start += x
            return start

        return count

    fast = dynoc.optimize(applied, wait=True)
    for k in range(10):
        for make in (by, plus, counter):
            assert fast(make(k), 40) == applied(make(k), 40)
        assert fast(by(k * 0.5), 40) == applied(by(k * 0.5), 40)
        assert fast(abs, 40) == applied(abs, 40)


def test_a_variable_that_two_functions_share_in_other_ways():
    """Once the variables of two functions are one and the same, once they aren't."""

    def pair(k, together):
        a = b = k

        def put(x):
            nonlocal a
            a += x
            return a

        def first():
            return a

        def second():
            return b

        return put, first if together else second

    def both(put, get, n):
        total = 0
        for i in range(n):
            total += put(i) + get()
        return total

    fast = dynoc.optimize(both, wait=True)
    for k in range(6):
        for together in (False, True, True, False):
            assert fast(*pair(k, together), 30) == both(*pair(k, together), 30)


def test_a_function_of_the_frame_s_own_variable_among_others():
    """The function shares the variable that the loop stores to, or one of another call."""

    def run(n, other):
        total = 0

        def now():
            return total

        get = now if other is None else other
        for i in range(n):
            total += get() % 5 + i
        return total, now

    fast = dynoc.optimize(run, wait=True)
    for _ in range(4):
        assert fast(20, None)[0] == run(20, None)[0]
        assert fast(20, fast(7, None)[1])[0] == run(20, run(7, None)[1])[0]


def test_functions_die_when_the_call_ends():
    alive = []

    def watched(n):
        class Held:
            pass

        held = Held()
        f = lambda x: x + (held is None)  # noqa: E731
        alive[:] = [weakref.ref(held), weakref.ref(f)]
        total = 0
        for i in range(n):
            total += f(i)
        return total

    fast = dynoc.optimize(watched, wait=True)
    for _ in range(6):
        assert fast(50) == watched(50)
        gc.collect()
        assert [ref() for ref in alive] == [None, None]


def returned(n, k):
    f = lambda x: x + k  # noqa: E731
    total = 0
    for i in range(n):
        total += f(i)
    return total, f


def test_every_exit_hands_out_the_function_itself():
    for interpreted in (True, False):
        force = 0
        while True:
            f = returned(3, 4)[1]
            cell = f.__closure__[0]
            names = [*returned.__code__.co_varnames, *returned.__code__.co_cellvars]
            given = {"n": 9, "k": cell, "f": f, "total": 0}
            slots = [given.get(name, ...) for name in dict.fromkeys(names)]
            region = _dynoc._region_plan(returned, _dynoc._region_headers(returned)[0], slots, on_stack(iter(range(9))))
            assert not isinstance(region, tuple), region
            if force == len(_dynoc._region_exits(region)):
                break
            assert _dynoc._region_build(region, True) == 1
            left = _dynoc._region_run(region, slots, on_stack(iter(range(9))), interpreted, force, 2)
            assert left is not None and slots[names.index("f")] is f
            force += 1
