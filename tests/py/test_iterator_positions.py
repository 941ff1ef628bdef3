"""Iterators that outlive a segment stand where eager's do, whatever the segment did to their list before or since."""

import collections
import copy
import itertools
import math

import numpy as np
import pytest
from case import f64
from compare import check, dynoc
from outcomes import calls, same


def reversed_while_it_grows(xs, a):
    b = a + 1
    r = []
    for x in reversed(xs):
        xs.append(x)
        print(end="")
        r.append(x)
        b = b + x
    return r, b


def reversed_while_it_shrinks(xs, a):
    b = a + 1
    r = []
    for x in reversed(xs):
        xs.pop()
        print(end="")
        r.append(x)
        b = b + x
    return r, b




def kept_reversed(xs, a):
    b = a + 1
    it = reversed(xs)
    next(it)
    xs.append(9)
    print(end="")
    return list(it), b + 1


def zipped(xs, a):
    b = a + 1
    z = zip(xs, reversed(xs))
    xs.append(0)
    print(end="")
    return list(z), b


def cut_and_filled(xs, a):
    b = a + 1
    it = iter(xs)
    next(it)
    next(it)
    del xs[1:]
    print(end="")
    xs.extend([8, 9])
    return list(it), b


def filled_and_left(xs, a):
    b = a + 1
    ys = []
    for x in xs:
        ys.append(x * 2)
    it = iter(ys)
    first = next(it)
    print(end="")
    return first, list(it), b


def filled_and_reversed(xs, a):
    b = a + 1
    ys = []
    for x in xs:
        ys.append(x * 2)
    it = reversed(ys)
    first = next(it)
    print(end="")
    return first, list(it), b


def cleared_inside(xs, a):
    b = a + 1
    r = []
    for x in xs:
        r.append(x)
        if x == 2:
            xs.clear()
        print(end="")
        b = b + x
    return r, b


ALL = [
    reversed_while_it_grows, reversed_while_it_shrinks, kept_reversed, zipped, cut_and_filled, filled_and_left,
    filled_and_reversed, cleared_inside,
]  # fmt: skip


@pytest.mark.parametrize("fn", ALL, ids=lambda f: f.__name__)
def test_position(fn):
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(4):
        for xs in ([1, 2, 3], [1, 2, 3, 4], [5, 2]):
            check(fn, fast, lambda xs=xs: (list(xs), f64(2)), "same", what=str(xs))


def chained(ys, d, a):
    b = a + 1
    for x in itertools.chain(ys, d):
        if x in ys and x not in d:
            if isinstance(d, set):
                d.add(x)
            else:
                d[x] = len(d)
    return b


@pytest.mark.parametrize("make", [lambda: {5: 0}, lambda: {5}], ids=["dict", "set"])
def test_chain_asks_for_iterators_when_it_gets_there(make):
    fast = dynoc.optimize(chained, wait=True)
    for _ in range(3):
        d, e = make(), make()
        assert (fast([1, 2], d, f64(2)) == chained([1, 2], e, f64(2))).all() and d == e


class Len:
    def __init__(self, n):
        self.n = n
        self.asked = 0

    def __len__(self):
        self.asked += 1
        return self.n


def asked_in_if(o, a):
    b = a + 1
    if o:
        return b + 1, o.asked
    return b, o.asked


def test_a_length_is_asked_once():
    fast = dynoc.optimize(asked_in_if, wait=True)
    for n in (3, 3, 5, 0, 0, 3):
        want, got = asked_in_if(Len(n), f64(2)), fast(Len(n), f64(2))
        assert got[1] == want[1] == 1 and (got[0] == want[0]).all()


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


def reversed_in_a_variable(items, log):
    for i in range(5):
        backwards = reversed(list(items))
        for item in backwards:
            log.append((i, item))
            text = str(item)
        np.arange(4.0).ravel()
    return text


def reversed_left_in_the_middle(items, log):
    backwards = reversed(list(items))
    for item in backwards:
        log.append(item)
        str(item)
        if len(log) % 3 == 2:
            break
    return np.arange(3.0) + 1, backwards


@pytest.mark.parametrize("fn", [reversed_in_a_variable, reversed_left_in_the_middle], ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["eager", "dynoc"])
def test_an_iterator_over_a_reversed_list_is_as_far_as_it_was(fn, backend):
    fast = dynoc.optimize(fn, backend=backend, wait=True)
    for items in ([1, 2, 3, 4], [4, 3, 2, 1], [5], [1, 2], []) * 2:
        rest = lambda result: [list(part) for part in result] if isinstance(result, tuple) else result
        answers = []
        for call in (fn, fast):
            log = []
            try:
                answers.append((rest(call(items, log)), log))
            except UnboundLocalError as error:
                answers.append((str(error), log))
        assert answers[0] == answers[1]


def halves(items):
    for item in items:
        yield item


# A consumer, and items of which it refuses one that isn't the last: CPython has taken no more of them by then.
REFUSES = [
    (sum, [1, 2, "x", 3, 4]),
    (sum, [1.5, 2, "x", 3, 4]),
    (sum, [f64(4), f64(4), f64(3), f64(4)]),
    (lambda it: sum(it, f64(4)), [f64(4), f64(3), f64(4)]),
    (lambda it: sum(it, ""), [1, 2]),
    (lambda it: sum(it, []), [[1], 2, [3]]),
    (math.prod, [2, f64(4), f64(3), f64(4)]),
    (math.prod, [2, {}, 3]),
    (max, [1, 2, "x", 3, 4]),
    (min, [(1, 2), (1, "x"), (1, 3), (2, 3)]),
    (max, [f64(4), f64(4), f64(4)]),
    (lambda it: max(it, default=0), [1, 2j, 3]),
    (set, [1, 2, [], 3]),
    (frozenset, [f64(3), 1, 2]),
    (dict, [(1, 2), ([], 2), (3, 4)]),
    (dict, [(1, 2), (2, 3, 4), (3, 4)]),
]


@pytest.mark.parametrize("make", [iter, halves, lambda items: (item for item in items), lambda items: map(lambda v: v, items)])
@pytest.mark.parametrize("consume, items", REFUSES)
def test_refused_item(consume, items, make):
    """A builtin that refuses an item leaves those behind it in the iterator, in the recording call too."""

    def f(a):
        it = make(items)
        b = a * 2
        try:
            return consume(it)
        except (TypeError, ValueError) as error:
            return repr(error), list(it), b

    same(f, f64(4))


def test_warnings_of_sums_in_turn():
    """What a generator warns of an item comes before what sum() warns of adding it, and behind what it warned of the last one."""

    def f(a):
        return sum(-item for item in a)

    calls(f, np.array([-128, 1, -128, -128], np.int8))


def stops_at_three(value):
    if value == 3:
        raise StopIteration
    return value


class StopsAtThree:
    def __init__(self, value):
        self.value = value

    def __bool__(self):
        return stops_at_three(self.value) > 0


def reads_in_a_loop(it):
    seen = []
    for item in it:
        seen.append(type(item))
    return seen


def reads_rest(it):
    first = next(it)
    return type(first), [type(item) for item in it]


MAKERS = [
    lambda: map(stops_at_three, [1, 2, 3, 4]),
    lambda: filter(stops_at_three, [1, 2, 3, 4]),
    lambda: filter(None, [StopsAtThree(value) for value in [1, 2, 3, 4]]),
    lambda: itertools.starmap(stops_at_three, [(1,), (2,), (3,), (4,)]),
    lambda: itertools.takewhile(stops_at_three, [1, 2, 3, 4]),
    lambda: itertools.filterfalse(lambda value: stops_at_three(value) < 0, [1, 2, 3, 4]),
]
READERS = [
    reads_in_a_loop,
    reads_rest,
    lambda it: len(list(it)),
    lambda it: len([*it]),
    lambda it: sum(1 for _ in it),
    lambda it: any(item is None for item in it),
    lambda it: len(list(zip(it, "abcd", strict=False))),
    lambda it: len(list(map(str, it))),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("read", READERS)
def test_function_that_raises_stop_iteration(make, read):
    """Its caller's reader takes that for the end; it came out of list() and for loops in a recorded function."""

    def f(a):
        it = make()
        b = a * 2
        return read(it), len(list(it)), b

    same(f, f64(3))


def adds(c, i):
    if isinstance(c, dict):
        c[i + 70] = i
    elif isinstance(c, set):
        c.add(i + 70)
    else:
        c.append(i + 70)


def stores(c, i):
    if isinstance(c, dict):
        c[3] = i


CONTAINERS = [{1: 2, 3: 4, 5: 6}, {1, 3, 5}, collections.deque([1, 3, 5]), {1: 2}, [1, 3, 5]]
WAYS = [
    enumerate,
    lambda c: enumerate(c, 2),
    lambda c: zip(c, c),
    lambda c: zip([7, 8, 9], c, strict=False),
    lambda c: enumerate(c.values()) if isinstance(c, dict) else enumerate(c),
    lambda c: zip(c.items(), c) if isinstance(c, dict) else zip(c, [1, 2]),
    lambda c: reversed(c) if not isinstance(c, set) else iter(c),
    lambda c: reversed(c.items()) if isinstance(c, dict) else iter(c),
    lambda c: enumerate(reversed(c) if not isinstance(c, set) else c),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", [adds, stores])
@pytest.mark.parametrize("before", [False, True], ids=["behind the break", "in front of it"])
def test_a_container_that_changes_beside_its_loop(way, change, before):
    """The iterator outlives a break in its loop: it has to be one of the container, which says so, and shows what was stored."""

    def f(c, a):
        b = a + 1
        seen = []
        for n, item in enumerate(way(c)):
            if before:
                change(c, n)
            print(end="")
            seen.append(item)
            if not before:
                change(c, n)
            if n > 4:
                break
        return seen, b

    def g(c, a):
        b = a + 1
        seen = []
        n = 0
        for item in way(c):
            n += 1
            if before:
                change(c, n)
            print(end="")
            seen.append(item)
            if not before:
                change(c, n)
            if n > 4:
                break
        return seen, b

    for fn in (f, g):
        fast = dynoc.optimize(fn, wait=True)
        for container in CONTAINERS * 3:
            outcomes = []
            for call in (fn, fast):
                own = copy.copy(container)
                try:
                    outcomes.append((call(own, f64(2))[0], list(own)))
                except RuntimeError as error:
                    outcomes.append((str(error), list(own)))
            assert outcomes[0] == outcomes[1], container
