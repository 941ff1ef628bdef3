"""What native loops keep alive: nothing that the program has dropped, whatever became of the loop, when the collector has been.

Each program is a module of its own, whose functions have loops over instances of the module's class. The tests themselves are
CPython's: what a recording is in the middle of is another matter.
"""

import gc
import sys
import types
import weakref

import numpy as np
import pytest
from compare import dynoc
from process import output_of

TEXT = """
class Point:
    def __init__(self, x):
        self.x = x

    def twice(self):
        return self.x * 2

class Table(dict):
    pass

SCALE = Point(3)
TABLE = {"a": Point(1), "b": Point(2)}
POINTS = [Point(i) for i in range(50)]

def planned(points, table):
    s = 0
    for p in points:
        s += p.twice() * SCALE.x + table["a"].x
    return s

def refused(points, table):
    s = []
    for p in points:
        s.append(str(vars(p)))
    return s

def left(points, table):
    s = 0
    for k, p in enumerate(points):
        s += p.x
        if k % 2:
            table.setdefault(k, p)
    return s

def stores(points, table):
    for p in points:
        p.x = p.x + 1
        p.other = SCALE
        table[p.x] = p
    return points[0].x
"""
NAMES = "Point", "Table", "SCALE", "planned", "refused", "left", "stores"
FUNCTIONS = "planned", "refused", "left", "stores"


def module_of(text):
    module = types.ModuleType("held")
    exec(compile(text, "held.py", "exec"), module.__dict__)
    return module


def weak(module):
    points = [weakref.ref(point) for point in (module.POINTS[0], module.POINTS[-1], module.TABLE["a"])]
    return [weakref.ref(vars(module)[name]) for name in NAMES] + points + [weakref.ref(module)]


@dynoc.skip
def alive(refs):
    gc.collect()
    return [ref() for ref in refs if ref() is not None]


@pytest.fixture
def everything():
    dynoc.enable(wait=True)
    yield
    dynoc.disable()
    dynoc.reset()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("calls", [1, 3])
@dynoc.skip
def test_a_module_dies_whatever_became_of_its_loop(name, calls, everything):
    module = module_of(TEXT)
    for _ in range(calls):
        vars(module)[name](module.POINTS, module.TABLE)
    dead = weak(module)
    del module
    assert alive(dead) == []


@pytest.mark.parametrize("name", FUNCTIONS)
@dynoc.skip
def test_what_optimize_was_given_dies_too(name):
    module = module_of(TEXT)
    fast = dynoc.optimize(vars(module)[name], wait=True)
    for _ in range(3):
        fast(module.POINTS, module.TABLE)
    dead = weak(module)
    del module, fast
    assert alive(dead) == []


@pytest.mark.parametrize("name", FUNCTIONS)
@dynoc.skip
def test_reset_lets_go_at_once(name, everything):
    module = module_of(TEXT)
    vars(module)[name](module.POINTS, module.TABLE)
    point = weakref.ref(module.SCALE)
    dynoc.reset()
    vars(module).clear()
    gc.collect()
    assert point() is None


def total_of(points):
    """Its loop is planned for one module's class, and goes on for another's."""
    s = 0
    for p in points:
        s += p.x
    return s


@dynoc.skip
def test_what_was_planned_for_one_program_does_not_keep_it(everything):
    for _ in range(3):
        module = module_of(TEXT)
        assert total_of(module.POINTS) == sum(range(50))
        dead = weak(module)
        del module
        assert alive(dead) == []


def run_in_turn(modules, after):
    """A call that goes on: its inner loop is planned for objects that are dropped while it runs."""
    totals = []
    while modules:
        points = modules.pop()
        s = 0
        for p in points:
            s += p.x
        points = p = None
        totals.append(s)
        after()
    return totals


@dynoc.skip
def test_a_call_that_goes_on_keeps_nothing(everything):
    seen = []
    programs = [module_of(TEXT) for _ in range(3)]
    dead = [weak(module) for module in programs]
    points = [module.POINTS for module in programs]
    programs.clear()

    @dynoc.skip
    def after():
        seen.append(len(alive(dead[len(points)])))

    assert run_in_turn(points, after) == [sum(range(50))] * 3
    assert seen == [0, 0, 0]


@dynoc.skip
def test_arrays_in_loops_die_with_their_last_reference():
    def rows(a):
        s = 0.0
        for i in range(len(a)):
            s += a[i]
        return s

    fast = dynoc.optimize(rows, wait=True)
    a = np.ones(100)
    assert fast(a) == 100.0
    dead = weakref.ref(a)
    del a
    assert dead() is None


# A full collection drops the loops of found functions; their calls have no arrays, by which they would be recorded again.
COLLECTED = """
import gc, time
import numpy
import dynoc

dynoc.enable()

def total(n):
    s = 0
    for i in range(n):
        s += i * i % 7
    return s

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def becomes_native(f, n):
    before, until = dynoc.counters["loops"]["native"], time.monotonic() + 50
    while dynoc.counters["loops"]["native"] == before and time.monotonic() < until:
        f(n)
    until = time.monotonic() + 0.3  # it pays for being planned again
    while time.monotonic() < until:
        f(n)
    return dynoc.counters["loops"]["native"] > before

print(*[becomes_native(NAME, SIZE) for turn in range(3) if gc.collect() >= 0])
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="3.11 finds functions in windows, of which the next may be long in coming")
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("total", 300),
        pytest.param(
            "fib", 12, marks=pytest.mark.skipif(sys.version_info >= (3, 15), reason="there it passes its door (asm_loops.c)")
        ),
    ],
)
def test_a_loop_is_native_again_behind_a_full_collection(name, size):
    assert output_of(COLLECTED.replace("NAME", name).replace("SIZE", str(size)), timeout=170) == "True True True"
