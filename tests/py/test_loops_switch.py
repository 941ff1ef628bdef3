"""Calls that are under way when their function is found: a frame goes over to loop code in the middle of a for loop."""

import sys
import traceback

import dynoc
import numpy as np
import pytest
from dynoc import _dynoc
from process import run_python

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="frames go over on 3.11 to 3.13")


def switched():
    return dict(dynoc.counters["loops"]).get("switched", 0)


class Offers:
    """Called in a function's trips: at the trips of `at` it offers the frame."""

    def __init__(self, at):
        self.at, self.n, self.fast = set(at), 0, None

    def __call__(self):
        if self.n in self.at:
            _dynoc._loops_offer(self.fast)
        self.n += 1


def outcome(function, offers, args):
    """(what it gives, or the exception with its lines; what was left in the arguments)."""
    try:
        result = function(offers, *args)
    except Exception as error:
        lines = [(entry.name, entry.lineno, entry.line) for entry in traceback.extract_tb(error.__traceback__)[1:]]
        result = type(error), str(error), lines, error.__context__ and str(error.__context__)
    return repr((result, args))


def summed(offer, n):
    total = 0
    for i in range(n):
        offer()
        total += i * i
    return total, i


def without_a_call(offer, n):
    offer()
    total = 0
    for k in range(2):
        for i in range(n):
            total += i
        offer()
    return total


def nested(offer, n):
    total = 0.0
    for i in range(n):
        for j in range(n):
            offer()
            total += i * 0.5 - j
            if j > i:
                continue
        total *= 1.5
    return total


def breaks(offer, n):
    for i in range(n):
        offer()
        if i == 7:
            break
    else:
        return "else"
    return i


def with_else(offer, n):
    for i in [1, 2, 3, n]:
        offer()
    else:
        i = -i
    return i


def returns(offer, n):
    for i in range(n):
        for j in (1.5, 2.5, i):
            offer()
            if i == 5:
                return i, j
    return None


def raises(offer, n):
    total = 0
    for i in range(n):
        offer()
        total += 10 // (6 - i)
    return total


def handles(offer, n):
    out = []
    for i in range(n):
        try:
            offer()
            out.append(12 / (i - 4))
        except ZeroDivisionError as error:
            out.append(str(error))
        finally:
            out.append(i)
    return out


def handled_around(offer, n):
    total = 0
    try:
        for i in range(n):
            offer()
            total += [1, 2, 3, 4, 5][i]
    except IndexError as error:
        return total, str(error), error.__traceback__.tb_lineno - handled_around.__code__.co_firstlineno
    return total


def overflows(offer, n):
    product = 1
    for i in range(1, n * 4):
        offer()
        product *= i
    return product


def changes_type(offer, n):
    x = 0
    for i in range(n):
        offer()
        if i == 9:
            x = float(x)
        x += i
    return x


def closure(offer, n):
    total = 0

    def add(i):
        nonlocal total
        total += i

    for i in range(n):
        offer()
        add(i)
    return total


def cells_first(n):
    def run(offer, k):
        total = n
        for i in range(k):
            offer()
            total += i + n
        return total

    return run


def lists(offer, n):
    out, items = [], list(range(n))
    for i in items:
        offer()
        if i < 3:
            items.append(i + 100)
        out.append(i)
    return out


def while_inside(offer, n):
    steps = 0
    for start in range(1, n):
        k = start
        while k != 1:
            offer()
            k = k // 2 if k % 2 == 0 else 3 * k + 1
            steps += 1
    return steps


def objects(offer, n):
    out = []
    for word in ["a", "bc", "d"] * n:
        offer()
        out.append(word.upper() + str(len(out)))
    return out


def enumerates(offer, n):
    out = {}
    for i, (a, b) in enumerate(zip(range(n), "abcdefghijk")):
        offer()
        out[b] = a * i
    return out


def with_statement(offer, n):
    import contextlib

    seen = []
    for i in range(n):
        with contextlib.suppress(KeyError):
            offer()
            seen.append(i)
            {}[i]
    return seen


def many_variables(offer, n):
    a = b = c = d = e = f = g = h = 1
    for i in range(n):
        offer()
        a, b, c, d, e, f, g, h = b + 1, c, d + a, e, f, g + i, h, a
    return a, b, c, d, e, f, g, h


def arrays(offer, n):
    x = np.zeros(n)
    for i in range(n):
        offer()
        x[i] = x[i - 1] + i
    return x.tolist()


def recursive(offer, n):
    total = 0
    for i in range(n):
        offer()
        if i == 3:
            total += recursive(offer, 2)
        total += i
    return total


PROGRAMS = [
    summed, without_a_call, nested, breaks, with_else, returns, raises, handles, handled_around, overflows, changes_type, closure,
    cells_first(3), lists, while_inside, objects, enumerates, with_statement, many_variables, arrays, recursive,
]  # fmt: skip


@pytest.fixture(params=["native", "null"])
def engine(request):
    """Loops run natively, or instruction by instruction and are left behind each."""
    if request.param == "null":
        _dynoc._loops_null(3)
    yield request.param
    _dynoc._loops_null(-2)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("at", [[0], [1], [4], [0, 1, 2], range(40)], ids=str)
def test_a_call_goes_over(function, at, engine):
    wanted = outcome(function, Offers([]), (12,))
    offers = Offers(at)
    offers.fast = dynoc.optimize(function, wait=True)
    before = switched()
    for _ in range(2):
        offers.n = 0
        assert outcome(function, offers, (12,)) == wanted
    assert switched() > before or len(at) < 40 or function is without_a_call
    offers.n = 0
    assert outcome(offers.fast, offers, (12,)) == wanted


def test_code_and_iterator_are_what_they_were():
    code = summed.__code__
    offers = Offers(range(3))
    offers.fast = dynoc.optimize(summed, wait=True)
    summed(offers, 10)
    before = bytes(code.co_code), sys.getrefcount(code)
    for _ in range(5):
        offers.n = 0
        assert summed(offers, 10) == (285, 9)
    assert bytes(code.co_code) == before[0]
    assert sys.getrefcount(code) == before[1]


def test_what_is_held_dies_in_time():
    class Item:
        dead = 0

        def __del__(self):
            Item.dead += 1

    def over(offer, items):
        seen = []
        for item in items:
            offer()
            seen.append(Item.dead)
            del item
        return seen

    def run(function):
        offers.n, Item.dead = 0, 0
        return function(offers, iter([Item() for _ in range(6)]))

    offers = Offers([])
    wanted = run(over)
    offers.at = {1}
    offers.fast = dynoc.optimize(over, wait=True)
    for _ in range(20):
        assert run(over) == wanted


def test_a_loop_that_is_left_before_it_is_arrived_at():
    def over(offer, n):
        for i in range(n):
            for _ in range(2):
                offer()
            if i == 0:
                break
        return i

    offers = Offers([0])
    offers.fast = dynoc.optimize(over, wait=True)
    for _ in range(3):
        offers.n = 0
        assert over(offers, 5) == 0


def test_a_frame_that_is_traced_stays():
    def over(offer, n):
        total = 0
        for i in range(n):
            offer()
            total += i
        return total

    offers = Offers(range(5))
    offers.fast = dynoc.optimize(over, wait=True)
    lines = []

    def trace(frame, event, arg):
        if frame.f_code is over.__code__ and event == "line":
            lines.append(frame.f_lineno - over.__code__.co_firstlineno)
        return trace

    sys.settrace(trace)
    try:
        result = over(offers, 3)
    finally:
        sys.settrace(None)
    assert result == 3 and lines == [1, 2, 3, 4, 2, 3, 4, 2, 3, 4, 2, 5]


def test_at_the_end_of_the_recursion_limit():
    def over(offer, n):
        total = 0
        for i in range(n):
            offer()
            total += i
        return total

    offers = Offers(range(100))
    offers.fast = dynoc.optimize(over, wait=True)

    def down(k):
        offers.n = 0
        try:
            return down(k + 1)
        except RecursionError:
            return over(offers, 4) if k % 3 == 0 else down_again(k)

    def down_again(k):
        try:
            return over(offers, 4)
        except RecursionError:
            raise

    assert down(0) == 6


SCRIPT = """
import time
def main(n):
    total = 0.0
    x = 0.5
    for i in range(n):
        x = x * 1.5 - 0.25 * x * x
        if x > 1:
            x -= 1
        total += x
    return total
def again(n):
    began = time.monotonic()
    total = 0.0
    for k in range(1000):
        total = main(n)
        if time.monotonic() - began > 20 or "dynoc" in __import__("sys").modules and switched():
            break
    return total
def switched():
    return dict(__import__("dynoc").counters["loops"]).get("switched", 0)
print(main(3_000_000) == again(3_000_000) == main(3_000_000), switched() > 0)
"""


def test_a_program_with_one_long_call(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)
    assert run_python(["-m", "dynoc", str(path)]) == (0, "True True\n", "")
