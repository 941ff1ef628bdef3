"""Functions with loops over numbers, lists and elements, for the tests of loops: each with the arguments of a few calls.

A row is a function and a function that makes the arguments of its calls anew. What the functions do is Python's ordinary
business: nested loops with every way out of them, stacks of iterators, blocks around them, cells, deletes, exceptions.
"""

import math

PROGRAMS = []


def calls(*arguments):
    """Makes the decorated function a row of PROGRAMS: it is called with each tuple of arguments."""

    def add(function):
        PROGRAMS.append((function, lambda: [tuple(list(a) if isinstance(a, list) else a for a in args) for args in arguments]))
        return function

    return add


@calls((0,), (1,), (7,))
def total(n):
    s = 0
    for i in range(n):
        s += i * i
    return s


@calls((0,), (1,), (9,))
def countdown(n):
    s = 0.0
    while n > 0:
        s = s * 0.5 + n
        n -= 1
    return s, n


@calls((0, 3), (3, 0), (4, 5))
def nested(n, m):
    s = 0
    for i in range(n):
        t = i
        for j in range(m):
            t += i * j
            s += t
    return s, n


@calls((5,), (0,))
def three_deep(n):
    out = []
    for i in range(n):
        for j in range(i):
            for k in range(j):
                out.append(i * 100 + j * 10 + k)
    return out


@calls((10, 3), (10, 20), (0, 0))
def breaks(n, stop):
    found = -1
    for i in range(n):
        if i == stop:
            found = i
            break
    else:
        found = -2
    return found


@calls((12,), (1,), (0,))
def continues(n):
    s = 0
    for i in range(n):
        if i % 3 == 0:
            continue
        if i % 5 == 4:
            s -= 1
            continue
        s += i
    else:
        s += 1000
    return s


@calls((9, 4), (9, 100), (0, 1))
def returns_early(n, limit):
    s = 0
    for i in range(n):
        for j in range(i):
            s += j
            if s > limit:
                return "early", i, j, s
    return "late", s


@calls((8,), (0,))
def stacked(n):
    s = 0
    values = [1, 2, 3]
    for v in values:
        for w in (4, 5):
            for i in range(n):
                if i == 5:
                    break
                s += v * w * i
            s += 1
    return s


@calls(([3, 1, 2, 9, 7],), ([],), ([1],))
def sorts(a):
    for i in range(len(a)):
        for j in range(i + 1, len(a)):
            if a[j] < a[i]:
                a[i], a[j] = a[j], a[i]
    return a


@calls((27,), (1,), (97,))
def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
        if steps > 60:
            break
    return steps, n


@calls((10, 4), (10, 0), (3, 2))
def and_or(n, m):
    s = 0
    for i in range(n):
        if i > 1 and m or i == 0:
            s += (i and m) - (i or 7)
        s += 1 if 0 < i < m else 2
    return s


@calls((60,), (10,))
def overflows(n):
    x = 3
    for i in range(n):
        x = x * x % 1000003 + (x << 3) + i
        if i > 6:
            x = x * 12345678901
    return x


@calls(([1, 2, 3], 5), ([1, 2, 3], 3), ([], 1))
def index_error(a, n):
    s = 0
    for i in range(n):
        s += a[i]
    return s


@calls(([1.0, 2.0, 0.0, 4.0],), ([1.0],), ([],))
def zero_division(a):
    s = 0.0
    for i in range(len(a)):
        s += 1.0 / a[i]
    return s


@calls(([2, 0, 3, 0],), ([0],), ([],))
def caught_inside(a):
    s = bad = 0
    for x in a:
        try:
            s += 6 // x
        except ZeroDivisionError:
            bad += 1
        finally:
            s += 100
    return s, bad


@calls((8, 3), (8, 20), (0, 0))
def caught_around(n, at):
    s = 0
    try:
        for i in range(n):
            s += 10 // (i - at)
            for j in range(3):
                s += j
    except ZeroDivisionError as e:
        return "caught", s, i, str(e)
    else:
        s += 1
    finally:
        s += 1000
    return s


@calls((5,), (0,))
def unbound_later(n):
    for i in range(n):
        if i > 2:
            s = s + i  # noqa: F821, F841
    return s  # noqa: F821


@calls((5,), (1,))
def deletes(n):
    s = 0
    x = 1
    for i in range(n):
        s += x
        del x
        if i < 3:
            x = i
        s += i
    return s


@calls((6,), (0,))
def cells(n):
    s = 0

    def add(k):
        nonlocal s
        s += k
        return s

    for i in range(n):
        s += i
        t = s
        if i == 3:
            add(100)
    return s, add(0), n


@calls((6, 2), (6, 9))
def closure_is_called(n, k):
    f = [lambda x, y=y: x + y + k for y in range(3)]
    s = 0
    for i in range(n):
        s += f[i % 3](i)
    return s


@calls((7,), (0,))
def changes_type(n):
    x = 0
    for i in range(n):
        if i == 3:
            x = x + 0.5
        if i == 5:
            x = x * 2
    return x


@calls((4,), (0,))
def keeps_iterators(n):
    it = iter(range(10))
    s = 0
    for i in range(n):
        for j in it:
            s += j
            if j % 3 == 2:
                break
        s += 100 * i
    return s, list(it)


@calls((5,), (0,))
def two_in_a_row(n):
    s = 0
    for i in range(n):
        s += i
    for j in range(n):
        s -= j * j
    while n:
        n -= 1
        s += 1
    return s


@calls(([5, 4, 3, 2],), ([],))
def over_a_list_that_changes(a):
    s = 0
    for x in a:
        s += x
        if x > 3 and len(a) < 7:
            a.append(x - 1)
    return s, a


@calls((0.3, 50), (2.0, 50), (-1.0, 3))
def mandelbrot(c, n):
    z = 0.0
    for i in range(n):
        z = z * z + c
        if abs(z) > 2.0:
            return i
    return -1


@calls((9,), (0,))
def calls_in_expressions(n):
    s = 0.0
    for i in range(n):
        s += max(min(i, 4), abs(i - 5)) + math.sqrt(i)
    return s


@calls((3,), (0,))
def while_true(n):
    i = 0
    while True:
        i += 1
        if i > n:
            while True:
                i += 2
                if i > 20:
                    break
            break
    return i


@calls((4,), (0,))
def with_around(n):
    class Manager:
        def __enter__(self):
            log.append("in")
            return 3

        def __exit__(self, *what):
            log.append(what[0] and what[0].__name__)
            return True

    log = []
    s = 0
    for k in range(2):
        with Manager() as m:
            for i in range(n):
                s += m // (2 - i)
    return s, log


@calls((6,), (0,))
def exception_in_handler(n):
    s = 0
    try:
        raise KeyError(3)
    except KeyError as e:
        for i in range(n):
            s += e.args[0] // (4 - i)
    return s


def many(lines):
    """A loop whose body is so long that jumps need prefixes."""
    body = "\n".join(f"        if i % {k + 2} == {k % 3}:\n            s += {k}" for k in range(lines))
    scope = {}
    exec(f"def many_lines(n):\n    s = 0\n    for i in range(n):\n{body}\n    return s", scope)
    return scope["many_lines"]


calls((5,), (0,))(many(60))


def reference_counts(a, b, n):
    s = 0
    for i in range(n):
        t = a[i % 3]
        s = s + t
        for x in b:
            s = s + x
            if i == 3:
                break
    return s
