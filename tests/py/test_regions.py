"""Native loops, through the test door: values, types, bits, warnings and exceptions are CPython's, whichever exit is taken."""

import gc
import math
import signal
import sys
import weakref

import numpy as np
import pytest
from regions import INTERPRETED, NATIVE, Case, check, on_stack, seen, slots_of

from dynoc import _dynoc

A = np.array([0.5, -1.25, 3.0, 1e-300, 7.75, -0.0, 2.0, 9.5])
B = np.arange(24.0).reshape(4, 6) - 7.5
I64 = np.array([3, -4, 5, 7, -11, 2, 1, 1], dtype=np.int64)
N = len(A)


def total(a, s):
    for i in range(N):
        s += a[i]
    return s, i


def from_end(a, s):
    for i in range(N):
        s = s + a[-i - 1] * 0.5 - a[i]
    return s


def store(a, b):
    for i in range(N):
        b[i] = a[i] * 2.0 + i
    return b


def nested(b, s):
    for i in range(4):
        for j in range(6):
            if b[i, j] > 0:
                s += b[i, j]
            else:
                s -= 1
    return s, i, j


def rows(b, s):
    for i in range(4):
        row = b[i]
        for j in range(6):
            s += row[j] * b[i][j]
    return s, row


def breaks(a, s):
    for i in range(N):
        if a[i] < 0:
            continue
        if a[i] > 5:
            break
        s += 1
    else:
        s = -1
    return s, i


def while_loop(n, s):
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        s += 1
    return n, s


def fibonacci(n, a, b):
    for i in range(n):
        a, b = b, a + b
    return a, b


def logic(a, s):
    for i in range(N):
        if 0 < a[i] <= 3 and i != 2 or a[i] > 9:
            s += i
        s = s + 1 if not a[i] else s
        t = a[i] and 3
    return s, t


def bits(n, x):
    for i in range(n):
        x = (x ^ (x << 3)) & 0xFFFFFFFF
        x |= i
        x = ~x >> 1
    return x


def integers(n, x, y):
    for i in range(n):
        x += (i * 7 - 3) // 4 + (-i) % 5
        y = x / (i + 1) + (-x) // 3 * 0.5
    return x, y


def floats(a, s):
    for i in range(N):
        s = s * 0.5 + float(a[i]) % 0.75 - float(a[i]) // 0.3 + abs(float(a[i])) ** 0.5 + float(a[i]) ** 2 + float(i) ** 3
    return s


def elements(a, b):
    for i in range(N):
        b[i] = a[i] ** 2 - a[i] / 3 + (-a[i]) * abs(a[i]) - a[i] // 2 + a[i] % 3 + (a[i] > 1)
    return b


def functions(a, s):
    for i in range(N):
        x = float(a[i])
        s += math.sin(x) + math.cos(a[i]) * math.exp(-x * x) + math.atan2(x, 2) + math.sqrt(abs(x)) + math.tanh(x)
        s += math.floor(x) + math.ceil(x) + int(x) + round(x) + math.log(1 + x * x) + math.pi + len(a)
        s += math.fabs(x) + math.copysign(1.0, x) + math.pow(abs(x), 1.5) + math.isnan(x) + np.sqrt(abs(a[i]))
    return s


def extremes(a, low, high):
    for i in range(N):
        low = min(low, a[i])
        high = max(high, float(a[i]), 0.25)
    return low, high


def integer_elements(a, b):
    for i in range(N):
        b[i] = a[i] * 3 + (a[i] & 6) - (a[i] | 1) + a[i] // 2 + a[i] % 3 + (a[i] << 2) - (a[i] >> 1) ^ 5
    return b


def shapes(b, s):
    for i in range(b.shape[0]):
        n, m = b.shape
        for j in range(m):
            s += b[i, j] * n + b.size + b.ndim + len(b) + b.T[j, i]
    return s


def helper(x, y=2.0):
    if x > y:
        return x - y
    for k in range(3):
        x = x * 0.5 + k
    return x


def calls(a, s):
    for i in range(N):
        s += helper(a[i]) + helper(float(a[i]), 0.5)
    return s


def over_array(b, s):
    for i in range(2):
        for row in b:
            for x in row:
                s += x * i
    return s, x


def steps(n, s):
    for i in range(3):
        for j in range(n, -n, -3):
            s = s * 3 + j
        for j in range(-n, n, 2):
            s -= j
    return s, j


def nothing_bound(n, s):
    for i in range(n):
        if i == 3:
            t = i
        if i > 3:
            s += t
    return s, t


CASES = {
    "total": (total, (A, 0.0), [range(N)]),
    "total of ints": (total, (I64, 0), [range(N)]),
    "total of singles": (total, (A.astype(np.float32), 0.0), [range(N)]),
    "total of bools": (total, (A > 1, 0), [range(N)]),
    "total, strided": (total, (np.repeat(A, 3)[::3], 0.0), [range(N)]),
    "total, backwards": (total, (A[::-1], 0.0), [range(N)]),
    "total, no trip": (total, (A, 0.0), [range(3, 4)]),
    "from the end": (from_end, (A, 0), [range(N)]),
    "store": (store, (A, np.zeros(N)), [range(N)]),
    "store over itself": (store, (A, A.copy()), [range(N)]),
    "store singles": (store, (A, np.zeros(N, np.float32)), [range(N)]),
    "store ints": (store, (A, np.zeros(N, np.int32)), [range(N)]),
    "store bytes": (store, (A, np.zeros(N, np.int8)), [range(N)]),
    "store bools": (store, (A, np.zeros(N, bool)), [range(N)]),
    "nested": (nested, (B, 0.0), [range(4)]),
    "nested, Fortran": (nested, (np.asfortranarray(B), 0), [range(4)]),
    "rows": (rows, (B, 0.0), [range(4)]),
    "breaks": (breaks, (A, 0), [range(N)]),
    "breaks not": (breaks, (A * 0.1, 0), [range(N)]),
    "while": (while_loop, (27, 0), []),
    "fibonacci": (fibonacci, (50, 0, 1), [range(50)]),
    "fibonacci beyond 64 bits": (fibonacci, (120, 0, 1), [range(120)]),
    "fibonacci of floats": (fibonacci, (50, 0.0, 1), [range(50)]),
    "logic": (logic, (A, 0), [range(N)]),
    "bits": (bits, (20, 12345), [range(20)]),
    "integers": (integers, (20, 3, 0.0), [range(20)]),
    "floats": (floats, (A, 0.0), [range(N)]),
    "elements": (elements, (A, np.zeros(N)), [range(N)]),
    "elements, in place": (elements, (A, A), [range(N)]),
    "functions": (functions, (A, 0.0), [range(N)]),
    "extremes": (extremes, (A, 1.0, 1), [range(N)]),
    "integer elements": (integer_elements, (I64, np.zeros(N, np.int64)), [range(N)]),
    "integer elements, short": (integer_elements, (I64.astype(np.int16), np.zeros(N, np.int64)), [range(N)]),
    "integer elements, unsigned": (integer_elements, (abs(I64).astype(np.uint8), np.zeros(N, np.int64)), [range(N)]),
    "shapes": (shapes, (B, 0.0), [range(4)]),
    "calls": (calls, (A, 0.0), [range(N)]),
    "over an array": (over_array, (B, 0.0), [range(2)]),
    "steps": (steps, (10, 1), [range(3)]),
    "bound later": (nothing_bound, (8, 0), [range(8)]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_loop_does_what_cpython_does(name):
    function, args, ranges = CASES[name]
    check(function, args, [iter(r) for r in ranges])


def index_error(a, n):
    for i in range(n):
        a[i] = i
    return a


def index_error_below(a, n):
    for i in range(n):
        a[-i] = i
    return a


def divides(n, s):
    for i in range(n):
        s += 10 // (5 - i)
    return s


def divides_floats(n, s):
    for i in range(n):
        s += 10.0 / (5 - i)
    return s


def squares(n, x):
    for i in range(n):
        x = x * x
    return x


def element_squares(a, n):
    for i in range(n):
        a[1] = a[0] * a[0]
        a[0] = a[1] - 1
    return a


def element_quotient(a, n):
    for i in range(n):
        a[2] = a[i] / a[n - 1 - i]
    return a


def roots(a, s):
    for i in range(N):
        s += math.sqrt(a[i])
    return s


def unbound(n, s):
    for i in range(n):
        if i == 5:
            s += t
        elif i > 6:
            t = 1
    return s


def prints(a, s, say):
    for i in range(N):
        if a[i] > 5:
            say(i)
        s += a[i]
    return s


def shifts(n, x):
    for i in range(n):
        x = (x << i) - (x >> (3 - i))
    return x


def powers(n, x):
    for i in range(n):
        x += 3**i + (-2) ** i + 2 ** (i - 4)
    return x


def halves(a, s):
    for i in range(N):
        s = a[i] * s
    return s


FULL = np.full(3, 1e200)
LEAVES = {
    "index too large": (index_error, (A.copy(), 20), [range(20)], "EXCEPTION"),
    "index too small": (index_error_below, (A.copy(), 20), [range(20)], "EXCEPTION"),
    "division by 0": (divides, (20, 0), [range(20)], "EXCEPTION"),
    "division of floats by 0": (divides_floats, (20, 0), [range(20)], "EXCEPTION"),
    "an int of many digits": (squares, (8, 3), [range(8)], "EXCEPTION"),
    "a float that overflows": (squares, (12, 3.5), [range(12)], "OK"),
    "a NumPy scalar that overflows": (squares, (12, np.float64(3.5)), [range(12)], "FLAGS"),
    "a NumPy integer that overflows": (squares, (8, np.int64(3)), [range(8)], "FLAGS"),
    "a single that overflows": (squares, (12, np.float32(3.5)), [range(12)], "FLAGS"),
    "elements that overflow": (element_squares, (FULL, 3), [range(3)], None),
    "elements that divide by 0": (element_quotient, (np.arange(4.0), 4), [range(4)], None),
    "elements of nan": (element_quotient, (np.full(4, np.nan), 4), [range(4)], "OK"),
    "a domain error": (roots, (A, 0.0), [range(N)], "EXCEPTION"),
    "a variable without a value": (unbound, (10, 0), [range(10)], "EXCEPTION"),
    "a call that isn't known": (prints, (A, 0.0, lambda i: None), [range(N)], None),
    "shifts": (shifts, (12, 3), [range(12)], "EXCEPTION"),
    "powers": (powers, (8, 1), [range(8)], "EXCEPTION"),
    "infinities": (halves, (np.full(N, np.inf), 1.0), [range(N)], "OK"),
}


@pytest.mark.parametrize("name", LEAVES)
def test_what_is_due_is_cpythons(name):
    function, args, ranges, why = LEAVES[name]
    check(function, args, [iter(r) for r in ranges], leaves=why)


def test_an_array_that_cannot_be_written():
    a = A.copy()
    a.flags.writeable = False
    case = Case(index_error, (a, N), [iter(range(N))])
    reason, _, what = case.refusal()
    assert reason == "EXCEPTION" and "written" in what


def test_a_loop_with_nothing_in_it_that_is_known_is_refused():
    def loop(n, f):
        for i in range(n):
            f.send(i)

    assert Case(loop, (3, object()), [iter(range(3))]).refusal()[0] == "UNSUPPORTED_VALUE"


def test_headers_are_those_of_natural_loops():
    def loops(n):
        for i in range(n):
            while n:
                n -= 1
        for j in range(n):
            pass

    def generator(n):
        for i in range(n):
            yield i

    assert len(_dynoc._region_headers(loops)) == 3
    assert _dynoc._region_headers(generator) == []


def test_the_types_of_a_later_trip_are_a_way_in_too():
    case = Case(total, (A, 0.0), [iter(range(N))])
    case.plan()
    for s in (0.0, np.float64(1.0)):
        slots, stack = [A, s, 1], on_stack(iter(range(2, N)))
        end = _dynoc._region_run(case.region, slots, stack, INTERPRETED, -1, 0)
        assert seen(end[0][1:]) == seen([sum(A[2:], start=s), N - 1])


def test_other_types_do_not_enter():
    case = Case(total, (A, 0.0), [iter(range(N))])
    region = case.plan()
    for args in ((A.astype(np.float32), 0.0), (A, 1 + 2j), (A, np.float32(1)), (B, 0.0), (A, "text"), (A.tolist(), 0.0)):
        slots = slots_of(total, args)
        assert _dynoc._region_run(region, slots, on_stack(iter(range(N))), INTERPRETED, -1, 0) is None, args


def test_a_global_that_changed_does_not_enter():
    scope = {}
    exec("def f(n, s):\n    for i in range(n):\n        s += scale * i\n    return s", scope)
    scope["scale"] = 3
    case = Case(scope["f"], (4, 0), [iter(range(4))])
    case.plan()
    assert case.run(INTERPRETED)[0] == case.eager()
    scope["scale"] = 4
    assert _dynoc._region_run(case.region, [4, 0, ...], on_stack(iter(range(4))), INTERPRETED, -1, 0) is None
    scope["scale"] = 3
    scope["range"] = reversed
    assert case.run(INTERPRETED)[0] == case.eager()


def test_an_array_of_the_module_may_be_another_one():
    scope = {"table": A}
    exec("def f(n, s):\n    for i in range(n):\n        s += table[i]\n    return s", scope)
    case = Case(scope["f"], (4, 0), [iter(range(4))])
    case.plan()
    scope["table"] = A[::-1].copy()
    assert case.run(INTERPRETED)[0] == case.eager()


def test_underflow_that_is_to_be_reported_is_cpythons():
    case = Case(element_quotient, (np.full(4, 1e-300), 4), [iter(range(4))])
    case.plan()
    slots, stack = case.begin()
    with np.errstate(under="raise"):
        assert _dynoc._region_run(case.region, slots, stack, INTERPRETED, -1, 0) is None


def test_an_object_that_says_the_same_stays():
    def loop(n, x, y):
        for i in range(n):
            y = x
            x = y
        return x, y

    x = float("1.5")
    case = Case(loop, (4, x, 0), [iter(range(4))])
    case.plan()
    slots, _, stack = [*case.begin()[0]], None, on_stack(iter(range(4)))
    end = _dynoc._region_run(case.region, slots, stack, INTERPRETED, -1, 0)
    assert end[0][1] is x


def test_an_iterator_that_somebody_else_has_is_advanced():
    def loop(it, s):
        for i in it:
            if i > 5:
                break
            s += i
        return s

    for n in (3, 20):
        it = iter(range(n))
        check(loop, (it, 0), [it], forced=False)
        case = Case(loop, (it, 0), [it])
        case.plan()
        _dynoc._region_run(case.region, [it, 0, ...], on_stack(it), INTERPRETED, -1, 0)
        assert list(it) == list(range(n))[7:]


def test_signals_are_served_at_the_jump_back():
    def loop(n, s):
        while n:
            s += 1
        return s

    class Caught(Exception):
        pass

    def handler(*_):
        raise Caught

    before = signal.signal(signal.SIGALRM, handler)
    try:
        case = Case(loop, (1, 0))
        assert _dynoc._region_build(case.plan(), False) == 1
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Caught):
            end = _dynoc._region_run(case.region, [1, 0], [], NATIVE, -1, 0)
            case.go_on(end[0], end[1], end[2])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_what_was_replaced_is_freed():
    gc.collect()
    refs = sys.getrefcount(A)
    for _ in range(3):
        check(store, (A, np.zeros(N)), [iter(range(N))])
    gc.collect()
    assert sys.getrefcount(A) == refs


def items(a, s):
    for x in a:
        s += x
    return s, x


def numbered(a, s):
    for i, x in enumerate(a):
        s += i * x
    return s, i


def together(a, b, s):
    for x, y in zip(a, b):
        s += x * y
    return s, x, y


def inside(a, b, s):
    for k in range(3):
        for i, (x, y) in enumerate(zip(a, b), k):
            if y > 4:
                break
            s += x * y + i
        for i, row in enumerate(B):
            s += row[k] * i
    return s, i


def any_step(n, s, step):
    for i in range(3):
        for j in range(n, -n, step - i):
            s = s * 3 + j
    return s


def powers_of_two(n, s):
    for i in range(n):
        x = s * 5 - 17 * i
        s = x % 8 + x // 16 + -x % 1024 + -x // 1
    return s


ITERATORS = {
    "items": (items, (A, 0.0), lambda: [iter(A)]),
    "numbered": (numbered, (A, 0.0), lambda: [enumerate(A)]),
    "numbered from 5": (numbered, (I64, 0), lambda: [enumerate(I64, 5)]),
    "numbered range": (numbered, (A, 0), lambda: [enumerate(range(3, 40, 7))]),
    "together": (together, (A, I64, 0.0), lambda: [zip(A, I64)]),
    "together, the first is shorter": (together, (A[:5], I64, 0.0), lambda: [zip(A[:5], I64)]),
    "together, the second is shorter": (together, (A, I64[:5], 0.0), lambda: [zip(A, range(5))]),
}


@pytest.mark.parametrize("name", ITERATORS)
def test_iterators_that_come_in(name):
    function, args, stack = ITERATORS[name]
    check(function, args, stack())


def test_iterators_that_are_made_in_the_loop():
    check(inside, (A, I64, 0.0), [iter(range(3))])
    check(any_step, (10, 1, 5), [iter(range(3))])
    check(any_step, (10, 1, 1), [iter(range(3))])
    check(powers_of_two, (30, 12345), [iter(range(30))])


def sieve(marks, n):
    for i in range(2, n):
        last = None
        if marks[i]:
            for j in range(i * i, n, i):
                marks[j] = False
            last = True
    return last, n + -1


def test_constants_that_are_no_constants_of_the_code():
    check(sieve, (np.ones(50, dtype=np.bool_), 50), [iter(range(2, 50))], leaves="OK")


def inner_break(a, limit):
    for i in range(N):
        s = 0.0
        for j in range(i, N):
            if a[j] > limit:
                break
            s += a[j]
        limit = limit + s * 0.5
    return s, limit


def test_a_break_out_of_an_inner_loop():
    check(inner_break, (A, 2.5), [iter(range(N))], leaves="OK")


def test_the_members_of_zip_are_taken_as_cpython_takes_them():
    def loop(both, s):
        for x, y in both:
            s += x * y
        return s

    for n, m in ((4, 9), (9, 4), (5, 5), (0, 3)):
        ours, cpythons = [(iter(range(n)), iter(range(m))) for _ in range(2)]
        both = zip(*ours)
        case = Case(loop, (None, 0), [both])
        case.stack = on_stack(zip(range(3), range(3)))
        case.plan()
        end = _dynoc._region_run(case.region, [None, 0, ..., ...], on_stack(both), INTERPRETED, -1, 0)
        assert loop(zip(*cpythons), 0) == end[0][1]
        assert [list(it) for it in ours] == [list(it) for it in cpythons]


def test_one_iterator_that_is_zipped_with_itself_is_cpythons():
    it = iter(range(10))
    assert Case(together, (A, A, 0), [zip(it, it)]).refusal()[0] == "UNSUPPORTED_VALUE"


def test_variables_of_enclosing_functions():
    scale, table = 2.5, A

    def add(x):
        return x + scale

    def loop(n, s):
        for i in range(n):
            s += add(table[i]) * scale
        return s

    case = Case(loop, (N, 0.0), [iter(range(N))])
    cells = dict(zip(loop.__code__.co_freevars, loop.__closure__))
    slots = [N, 0.0, ..., *(cells[name] for name in loop.__code__.co_freevars)]
    region = _dynoc._region_plan(loop, case.header, slots, on_stack(iter(range(N))))
    end = _dynoc._region_run(region, slots, on_stack(iter(range(N))), INTERPRETED, -1, 0)
    assert seen(end[0][1]) == seen(loop(N, 0.0))
    scale = 3.5
    end = _dynoc._region_run(region, slots, on_stack(iter(range(N))), INTERPRETED, -1, 0)
    assert seen(end[0][1]) == seen(loop(N, 0.0))


def ufuncs(a, s):
    for i in range(N):
        x = float(a[i])
        s += np.exp(-abs(a[i])) + np.sin(a[i]) * np.cos(x) + np.tanh(x) + np.log1p(abs(x)) + np.arctan(a[i]) + np.cbrt(x)
    return s


def logarithms(a, s):
    for i in range(N):
        s += np.log(a[i])
    return s


def test_ufuncs_of_numbers_have_numpys_bits():
    check(ufuncs, (A, 0.0), [iter(range(N))])
    check(ufuncs, (np.linspace(-700, 700, N), 0.0), [iter(range(N))])
    check(logarithms, (abs(A) + 1, 0.0), [iter(range(N))])
    check(logarithms, (A, 0.0), [iter(range(N))])


def kept(a, s):
    for i in range(N):
        row = range(i, 300 + i, 3)
        pair = s, i * 1000
        s += a[i] * len(row) + pair[1]
    return s, i, row, pair


def test_memory_that_is_out_for_the_way_out():
    """Ranges, tuples and new iterators are made of spare objects as well; spare ones are made anew for the next run."""
    check(kept, (A, 1.5), [iter(range(N))])
    check(kept, (A, np.float32(1.5)), [iter(range(N))])


def replaced(a, b, out):
    for i in range(3):
        out[i] = a[0]
        a = b
    return out


def test_the_end_of_an_array_is_seen_where_it_is():
    """An array that someone refers to weakly isn't dropped in the loop: that would be seen too late."""
    watched = np.arange(3.0)
    slots, stack = slots_of(replaced, (watched, B[0], np.zeros(3))), on_stack(iter(range(3)))
    header = _dynoc._region_headers(replaced)[0]
    region = _dynoc._region_plan(replaced, header, slots, stack)
    reference = weakref.ref(watched)
    assert _dynoc._region_run(region, slots, stack, INTERPRETED, -1, 0) is None
    reason, _, what = _dynoc._region_plan(replaced, header, slots, stack)
    assert (reason, what) == ("UNSUPPORTED_VALUE", "STORE_FAST: an object is dropped whose end may be seen")
    assert reference() is watched
    check(replaced, (np.arange(3.0), B[0], np.zeros(3)), [iter(range(3))])


class Finalized:
    def __del__(self):
        pass


def beside(n, kept):
    while n > 3:
        n -= 1
    kept = n  # the variable isn't read, and the loop leaves what it holds alone
    return kept


def test_a_variable_that_a_loop_leaves_alone_may_hold_anything():
    case = Case(beside, (9, []))
    slots, _ = case.begin()
    region = case.plan()
    assert _dynoc._region_run(region, slots, [], INTERPRETED, -1, 0)[0][0] == 3
    assert _dynoc._region_run(region, [9, [Finalized()]], [], INTERPRETED, -1, 0)[0][0] == 3
