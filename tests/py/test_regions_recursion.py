"""Native functions that call themselves: as regions, whole and left at every exit, and from the program's side."""

import copy
import gc
import math
import signal
import sys
import textwrap
import threading
import time
import traceback
import types
import warnings

import numpy as np
import pytest
from regions import check

import dynoc
from dynoc import _dynoc


def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


def gcd(a, b):
    return a if b == 0 else gcd(b, a % b)


def extended_gcd(a, b):
    if b == 0:
        return a, 1, 0
    g, x, y = extended_gcd(b, a % b)
    return g, y, x - (a // b) * y


def power(x, n):
    if n == 0:
        return 1.0
    half = power(x, n // 2)
    return half * half * x if n % 2 else half * half


def hanoi(n, source, target, other):
    if n == 0:
        return 0
    return hanoi(n - 1, source, other, target) + 1 + hanoi(n - 1, other, target, source)


def binomial(n, k, one=1):
    if k == 0 or k == n:
        return one
    return binomial(n - 1, k - 1) + binomial(n - 1, k)


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


def collatz(n, steps):
    if n == 1:
        return steps
    return collatz(n // 2 if n % 2 == 0 else 3 * n + 1, steps + 1)


def inverse_sum(n):
    return 0.0 if n < -2 else 1.0 / n + inverse_sum(n - 1)


def integral(a, b, depth):
    middle = (a + b) / 2
    if depth == 0:
        return (b - a) * math.sin(middle) * np.float64(0.5)
    return integral(a, middle, depth - 1) + integral(middle, b, depth - 1)


def partitions(n, largest):
    if n == 0:
        return 1
    s = 0
    for i in range(1, min(n, largest) + 1):
        s += partitions(n - i, i)
    return s


def knapsack(weights, values, i, room):
    if i == len(weights):
        return 0
    best = knapsack(weights, values, i + 1, room)
    if weights[i] <= room:
        taken = values[i] + knapsack(weights, values, i + 1, room - weights[i])
        best = max(best, taken)
    return best


def search(items, x, low, high):
    if low >= high:
        return -1
    middle = (low + high) // 2
    if items[middle] == x:
        return middle
    if items[middle] < x:
        return search(items, x, middle + 1, high)
    return search(items, x, low, middle)


def distance(a, b, i, j):
    if i == 0 or j == 0:
        return i + j
    if a[i - 1] == b[j - 1]:
        return distance(a, b, i - 1, j - 1)
    return 1 + min(distance(a, b, i - 1, j), distance(a, b, i, j - 1), distance(a, b, i - 1, j - 1))


def swap_sort(a, low, high):
    if low >= high:
        return
    pivot, i, j = a[(low + high) // 2], low, high
    while i <= j:
        while a[i] < pivot:
            i += 1
        while a[j] > pivot:
            j -= 1
        if i <= j:
            a[i], a[j] = a[j], a[i]
            i += 1
            j -= 1
    swap_sort(a, low, j)
    swap_sort(a, i, high)


def queens(row, n, columns, falling, rising):
    if row == n:
        return 1
    found = 0
    for c in range(n):
        if not columns[c] and not falling[row + c] and not rising[row - c + n]:
            columns[c] = falling[row + c] = rising[row - c + n] = True
            found += queens(row + 1, n, columns, falling, rising)
            columns[c] = falling[row + c] = rising[row - c + n] = False
    return found


def permutations(a, k, out):
    if k == len(a):
        out.append(a[0] * 100 + a[1] * 10 + a[-1])
        return
    for i in range(k, len(a)):
        a[k], a[i] = a[i], a[k]
        permutations(a, k + 1, out)
        a[k], a[i] = a[i], a[k]


def combinations(n, k, start, chosen, out):
    if len(chosen) == k:
        out[0] += chosen[0] * chosen[-1]
        return
    for i in range(start, n):
        chosen.append(i)
        combinations(n, k, i + 1, chosen, out)
        chosen.pop()


def flood(grid, r, c, value):
    if r < 0 or c < 0 or r >= len(grid) or c >= len(grid[0]) or grid[r][c] != 0:
        return 0
    grid[r][c] = value
    beside = flood(grid, r, c + 1, value) + flood(grid, r, c - 1, value)
    return 1 + flood(grid, r + 1, c, value) + flood(grid, r - 1, c, value) + beside


def memo_fib(n, memo):
    if n in memo:
        return memo[n]
    if n < 2:
        return n
    memo[n] = memo_fib(n - 1, memo) + memo_fib(n - 2, memo)
    return memo[n]


def paths(r, c, memo):
    if r == 0 or c == 0:
        return 1.0
    if (r, c) not in memo:
        memo[r, c] = paths(r - 1, c, memo) + paths(r, c - 1, memo)
    return memo[r, c]


def counted(n, seen):
    """Values of keys that are there already are replaced, floats in their place too."""
    if n > 0:
        seen[n % 3] = seen[n % 3] + 0.5
        seen[n] = n * 1.5
        counted(n - 1, seen)
        counted(n - 2, seen)


def ints_over_floats(n, a):
    """What is stored last is an int where a float was that nobody else has, and that one has been changed in its place."""
    if n == 0:
        a[1] = 1
        return 1 // n
    a[1] += n
    a[0] = a[1]
    return ints_over_floats(n - 1, a)


def visit(graph, node, seen):
    seen[node] = True
    s = node
    for other in graph[node]:
        if not seen[other]:
            s += visit(graph, other, seen)
    return s


WHOLE = [
    (fib, (9,)),
    (factorial, (12,)),
    (factorial, (30,)),
    (ackermann, (2, 3)),
    (gcd, (1071, 462)),
    (extended_gcd, (240, 46)),
    (power, (1.5, 11)),
    (power, (1e200, 5)),
    (hanoi, (4, 0, 1, 2)),
    (binomial, (6, 3)),
    (collatz, (27, 0)),
    (inverse_sum, (4,)),
    (integral, (0.0, 1.0, 3)),
    (partitions, (7, 7)),
    (knapsack, ([3, 4, 2, 5], [10, 14, 7, 20], 0, 9)),
    (knapsack, ([3, 4, 2, 5], [10, 14, 7, 2**70], 0, 9)),
    (search, ([1, 3, 5, 7, 9, 11], 7, 0, 6)),
    (search, ([1, 3, 5, 7, 9, 11], 4, 0, 7)),
    (swap_sort, ([3.5, 1.0, 2.25, 9.0, -1.0, 4.0, 4.0], 0, 6)),
    (swap_sort, ([3, 1, 2, 2**70, 5], 0, 4)),
    (queens, (0, 4, [False] * 4, [False] * 8, [False] * 9)),
    (permutations, ([1, 2, 3, 4], 0, [0])),
    (combinations, (5, 3, 0, [0], [0])),
    (flood, ([[0, 0, 1], [1, 0, 1], [0, 0, 0]], 0, 0, 7)),
    (memo_fib, (9, {})),
    (memo_fib, (95, {})),
    (paths, (3, 4, {})),
    (counted, (5, {0: 0.25, 1: 1.5, 2: 2.5})),
    (ints_over_floats, (4, [1.5, 2.25, 3.5])),
    (visit, ([[1, 2], [3], [3, 0], []], 0, [False] * 4)),
    (distance, ("kitten", "sitting", 4, 4)),
]


@pytest.mark.parametrize("function, args", WHOLE, ids=lambda o: getattr(o, "__name__", None))
def test_whole_functions(function, args):
    text = check(function, args)
    assert "routine b" in text, text


def sum_of_calls(f, n, s):
    for i in range(n):
        s += is_even(i) + fib(i) * 2
    return s


def stored_between(out, n):
    for i in range(n):
        out[i] = factorial(i)
        out[0] += gcd(i, 6)
    return out


def test_calls_from_loops():
    for n in (0, 1, 9):
        check(sum_of_calls, (None, n, 0), [iter(range(n))])
    check(stored_between, ([0] * 24, 24), [iter(range(24))])


def unending(n):
    return unending(n + 1) + 1


def of_two_kinds(n):
    return 0 if n == 0 else of_two_kinds(n - 1) + 0.5


def printing(n):
    if n > 3:
        print(n)
    return n if n < 2 else printing(n - 1) + 1


@pytest.mark.parametrize("function", [unending, of_two_kinds])
def test_refused(function):
    slots = [5]
    why = _dynoc._region_plan(function, _dynoc._region_headers(function)[0], slots, [])
    assert "calls itself" in why[2], why


def test_a_path_that_is_not_in_the_language():
    for n in (2, 3, 6):
        check(printing, (n,))


def deep(n, a, b, c, d):
    if n == 0:
        return a
    x = deep(n - 1, b, c, d, a) + deep(n - 1, d, a, b, c)
    return x * 2 - a + b * c - d


def test_callers_keep_their_registers():
    check(deep, (5, 1, 2, 3, 5))


# ---- from the program's side


def outcome(function, *args):
    """What a call gives, warns and raises, the lines that its traceback names at its end, and what becomes of arguments."""
    args = copy.deepcopy(args)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = function(*args)
            result = repr(value), type(value)
        except Exception as error:
            rows = [(row.name, row.lineno) for row in traceback.extract_tb(error.__traceback__)]
            result = type(error), str(error), len(rows), rows[-3:]
    return result, [str(w.message) for w in caught], repr(args)


def twins(function):
    """The function twice, in globals of their own: as it is, and optimised, so that it calls the optimised one."""
    made = []
    for fast in (False, True):
        own = dict(function.__globals__)
        code, name = function.__code__.replace(), function.__name__
        twin = types.FunctionType(code, own, name, function.__defaults__, function.__closure__)
        own[name] = dynoc.optimize(twin, wait=True) if fast else twin
        made.append(own[name])
    return made


def native():
    return dynoc.counters.get("loops", {}).get("native", 0)


@pytest.mark.parametrize("function, args", WHOLE, ids=lambda o: getattr(o, "__name__", None))
def test_programs(function, args):
    plain, fast = twins(function)
    wanted, before = outcome(plain, *args), native()
    for _ in range(4):
        assert outcome(fast, *args) == wanted
    assert native() > before


def depth(n):
    return 0 if n == 0 else depth(n - 1) + 1


def divided(n):
    return 1 // n if n == 0 else divided(n - 1) + 1


def test_exceptions_deep_in_calls():
    """The traceback has all frames, and the limit of recursion is CPython's to the call."""
    plain, fast = twins(divided)
    for n in (0, 3, 40):
        assert [outcome(fast, n) for _ in range(3)] == [outcome(plain, n)] * 3
    plain, fast = twins(depth)

    def deepest(function):
        return max(n for n in range(100, 260) if outcome(function, n)[0][1] is int)

    limit = sys.getrecursionlimit()
    fast(3)
    sys.setrecursionlimit(len(traceback.extract_stack()) + 220)
    try:
        assert deepest(fast) == deepest(plain)
        assert outcome(fast, 5000)[0][:2] == outcome(plain, 5000)[0][:2]
    finally:
        sys.setrecursionlimit(limit)


def test_deep_recursion():
    plain, fast = twins(depth)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20000)
    try:
        for n in (10, 15000, 19000, 10):
            assert fast(n) == plain(n) == n
        results = []
        thread = threading.Thread(target=lambda: results.append(fast(15000)))
        thread.start()
        thread.join()
        assert results == [15000]
    finally:
        sys.setrecursionlimit(limit)


def test_what_it_calls_is_looked_at():
    """A global that gets another value is seen by the next call."""
    plain, fast = twins(fib)
    assert fast(12) == plain(12)
    for function in (plain, fast):
        inner = function if function is plain else function.__wrapped__
        inner.__globals__["fib"] = lambda n: 100
    assert fast(12) == plain(12) == 200


def test_another_thread_and_signals_get_their_turn():
    plain, fast = twins(partitions)
    fast(10, 10)
    wanted, seen = plain(30, 30), []
    ticks = threading.Thread(target=lambda: [seen.append(time.monotonic()) or time.sleep(0.001) for _ in range(20)])
    ticks.start()
    while ticks.is_alive():
        assert fast(30, 30) == wanted
    assert len(seen) == 20

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            while True:
                fast(60, 60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert fast(30, 30) == wanted


def test_tracers_see_every_call():
    plain, fast = twins(fib)
    fast(8)
    told = []
    for function in (plain, fast):
        calls = []
        sys.setprofile(lambda frame, event, arg, to=calls: to.append(event) if frame.f_code.co_name == "fib" else None)
        try:
            function(6)
        finally:
            sys.setprofile(None)
        told.append([event for event in calls if event in ("call", "return")])
    assert told[0] == told[1]
    assert fast(8) == plain(8)


def test_memory_is_flat():
    _, fast = twins(extended_gcd)
    _, gives_up = twins(factorial)

    def many(n):
        for i in range(n):
            fast(i * 7919, 104729)
            gives_up(24)
        gc.collect()
        return sys.getallocatedblocks()

    many(300)
    before = many(2000)
    assert many(4000) - before < 100


def test_what_gives_up_each_time_is_left_to_cpython():
    plain, fast = twins(factorial)
    before = dynoc.counters.get("loops", {}).get("retired", 0)
    for _ in range(40):
        assert fast(60) == plain(60)
    assert dynoc.counters["loops"]["retired"] > before


def test_inner_functions():
    """A function that calls itself by a variable of the function that it was made in."""

    def solve(n, factor):
        def rec(k):
            return factor if k < 2 else rec(k - 1) + rec(k - 2) * factor

        return rec(n)

    fast = dynoc.optimize(solve, wait=True)
    for n, factor in ((9, 2), (9, 3), (12, 2), (12, 0.5)):
        assert outcome(fast, n, factor) == outcome(solve, n, factor)


class Tree:
    def __init__(self, base):
        self.base = base

    def count(self, depth):
        return self.base if depth == 0 else self.count(depth - 1) + self.count(depth - 1)


def test_methods():
    def run(tree, n):
        s = 0
        for i in range(n):
            s += tree.count(i)
        return s

    fast = dynoc.optimize(run, wait=True)
    for base in (1, 2, 1.5):
        assert outcome(fast, Tree(base), 7)[:2] == outcome(run, Tree(base), 7)[:2]


class Node:
    def __init__(self, value, left, right):
        self.value, self.left, self.right, self.seen = value, left, right, 0

    def total(self):
        self.seen += 1
        s = self.value
        if self.left is not None:
            s += self.left.total()
        if self.right is not None:
            s += self.right.total()
        return s

    def all(self):
        return [self] + (self.left.all() + self.right.all() if self.left is not None else [])


def tree(depth):
    left, right = (None, None) if depth == 0 else (tree(depth - 1), tree(depth - 1))
    return Node(depth * 2**60, left, right)


def test_trees_of_instances():
    """The sum outgrows 64 bits; what has been stored in the nodes by then is undone."""
    results = []
    for optimised in (False, True):
        plain = Node.total
        if optimised:
            Node.total = dynoc.optimize(Node.total, wait=True)
        try:
            for depth in (2, 5, 3):
                top = tree(depth)
                results.append([top.total() for _ in range(3)] + [node.seen for node in top.all()])
        finally:
            Node.total = plain
    assert results[:3] == results[3:]


EFFECTS_BEHIND_CALLS = {
    "append": """
        def f(n, out):
            if n:
                f(n - 1, out)
                out.append(n)
                f(n - 1, out)
    """,
    "a tuple": """
        def f(n, out):
            if n:
                f(n - 1, out)
                out.append((n, n + 1))
    """,
    "an item": """
        def f(n, out):
            if n:
                f(n - 1, out)
                out[n % 2] = n + 1
    """,
    "one calls the other": """
        def f(n, out):
            if n:
                f(n - 1, out)
                h(n - 1, out)
                f(n - 1, out)
        def h(n, out):
            if n:
                h(n - 1, out)
                out.append(n)
    """,
}


@pytest.mark.parametrize("name", EFFECTS_BEHIND_CALLS)
def test_effects_behind_calls_stay(name):
    """The way through a function that ends it without an effect is known before the one that has an effect."""
    spaces = []
    for k in range(2):
        space = {}
        exec(compile(textwrap.dedent(EFFECTS_BEHIND_CALLS[name]), f"<{name}>", "exec"), space)
        spaces.append(space)
    spaces[1]["f"] = dynoc.optimize(spaces[1]["f"], wait=True)
    for n in (4, 4, 7, 0, 3):
        outs = [7, 8], [7, 8]
        for space, out in zip(spaces, outs, strict=True):
            space["f"](n, out)
        assert outs[0] == outs[1]
    assert any(found.startswith("native") for found in spaces[1]["f"].loops)
