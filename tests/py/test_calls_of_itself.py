"""Functions with a door that call themselves by their global name: in loop code such a call doesn't pass the door, as long as the
name stands for it. What can be seen is CPython's."""

import gc
import sys
import textwrap
import traceback
import weakref

import pytest

import dynoc

TREE = """
def depth(tree, at=0, step=1):
    codes.append(sys._getframe().f_code)
    if tree is None:
        return at
    deepest = [at]
    for part in tree:
        deepest.append(depth(part, at + step))
    return max(deepest)
"""


def make(source, name, wait=True):
    """The function of this name, plain and optimised, each in a module of its own."""
    spaces = []
    for k in range(2):
        space = {"__name__": f"m{k}", "sys": sys, "codes": []}
        exec(compile(textwrap.dedent(source), f"<{name}>", "exec"), space)
        spaces.append(space)
    spaces[1][name] = dynoc.optimize(spaces[1][name], wait=wait)
    return spaces


def idle(space, name, *args):
    for _ in range(6):
        space[name](*args)


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="the stack borrows constants there, so it is passed (asm_loops.c)")
@pytest.mark.parametrize("wait", [True, False])
def test_the_door_is_not_passed(wait):
    plain, ours = make(TREE, "depth", wait)
    tree = [None, [None, [None, []]], []]
    idle(ours, "depth", tree)
    ours["codes"].clear()
    assert ours["depth"](tree) == plain["depth"](tree) == 3
    codes = ours["codes"]
    assert len(codes) == len(plain["codes"]) and len(set(map(id, codes))) == 1
    assert codes[0] is not ours["depth"].__code__


def test_arguments_of_all_kinds():
    source = """
    def f(n, a=1, /, b=2, *rest, c=3, d, **more):
        seen = (n, a, b, rest, c, d, sorted(more))
        return [seen] if n == 0 else [seen] + f(n - 1, d=n) + f(n - 1, b, a, *rest, 7, c=n, d=a, z=1)
    """
    plain, ours = make(source, "f")
    for n in (0, 1, 3, 3, 3, 3):
        assert ours["f"](n, d=0) == plain["f"](n, d=0)
    for space in (plain, ours):
        space["f"].__defaults__ = (10, 20)
        space["f"].__kwdefaults__ = {"c": 30}
    assert ours["f"](3, d=0) == plain["f"](3, d=0)
    errors = []
    for space in (plain, ours):
        with pytest.raises(TypeError) as e:
            space["f"](1)
        errors.append(str(e.value))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("change", ["f = other", "del f", "f = len"])
def test_its_name_is_bound_to_something_else(change):
    source = f"""
    def other(x):
        return ("other", x)
    def f(x):
        global f
        if len(x) == change_at:
            {change}
        return x if not x else f(x[1:])
    """
    plain, ours = make(source, "f")
    for space in (plain, ours):
        space["change_at"] = -1
    idle(ours, "f", [1, 2, 3, 4])
    outcomes = []
    for space in (plain, ours):
        f, space["change_at"] = space["f"], 2
        outcome = []
        for _ in range(2):
            try:
                outcome.append(f([1, 2, 3, 4]))
            except NameError as e:
                outcome.append((str(e), [(r.lineno, r.name) for r in traceback.extract_tb(e.__traceback__)][1:]))
            space["change_at"] = -1
        space["f"] = f
        outcome.append(f([1, 2, 3, 4]))
        outcomes.append(outcome)
    assert outcomes[0] == outcomes[1]


def test_its_code_is_changed():
    source = """
    def f(x):
        return [x] if x == 0 else [x] + f(x - 1)
    def g(x):
        return "g" if x == 0 else f(x - 1)
    """
    plain, ours = make(source, "f")
    idle(ours, "f", 3)
    for space in (plain, ours):
        space["f"].__code__ = space["g"].__code__
    for _ in range(5):
        assert ours["f"](3) == plain["f"](3) == "g"


def test_exceptions_and_depth():
    source = """
    def f(x):
        try:
            return 1 / x if x == 0 else [x] + f(x - 1)
        finally:
            codes.append(x)
    def endless(x):
        return [x] + endless(x + 1)
    """
    plain, ours = make(source, "f")
    ours["endless"] = dynoc.optimize(ours["endless"], wait=True)
    rows = []
    for space in (plain, ours):
        for _ in range(5):
            with pytest.raises(ZeroDivisionError) as e:
                space["f"](3)
        rows.append([(r.lineno, r.name) for r in traceback.extract_tb(e.value.__traceback__)][1:])
        for _ in range(4):
            with pytest.raises(RecursionError):
                space["endless"](0)
    assert rows[0] == rows[1] and plain["codes"] == ours["codes"]


def test_it_dies():
    _, ours = make(TREE, "depth")
    idle(ours, "depth", [None, []])
    door, function = weakref.ref(ours["depth"]), weakref.ref(ours["depth"].__wrapped__)
    gc.disable()
    try:
        del ours["depth"]
        assert door() is None and function() is None
    finally:
        gc.enable()


def test_a_door_of_the_same_address_is_not_taken_for_it():
    _, ours = make(TREE, "depth")
    idle(ours, "depth", [None, []])
    wrapped = ours["depth"].__wrapped__
    for _ in range(20):
        del ours["depth"]
        ours["depth"] = dynoc.optimize(wrapped, wait=True)
        idle(ours, "depth", [None, []])
        ours["depth"], kept = (lambda *args, **named: -5), ours["depth"]
        assert kept([None, []], -9) == -5
        ours["depth"] = kept


def test_reset_while_it_runs():
    source = """
    def f(x):
        if x == 2:
            sys.modules["dynoc"].reset()
        return [] if x == 0 else [x] + f(x - 1)
    """
    plain, ours = make(source, "f")
    for _ in range(6):
        assert ours["f"](5) == plain["f"](5)


WITHIN = {
    "a generator expression": "sum(f(part) for part in tree)",
    "two of them": "sum(max((f(part) for part in pair), default=0) for pair in (tree,))",
    "a list": "sum([f(part) for part in tree])",
    "a lambda": "sum(map(lambda part: f(part), tree))",
    "a key": "f(max(tree, key=lambda part: f(part))) if tree else 1",
}


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="the stack borrows constants there, so it is passed (asm_loops.c)")
@pytest.mark.parametrize("body", WITHIN.values(), ids=WITHIN)
def test_calls_in_code_within(body):
    source = f"""
    def f(tree):
        codes.append(sys._getframe().f_code)
        return 1 if tree is None else {body}
    """
    plain, ours = make(source, "f")
    tree = [None, [None, [None, [None]], [None]], [[None]]]
    for _ in range(8):
        assert ours["f"](tree) == plain["f"](tree)
    ours["codes"].clear()
    plain["codes"].clear()
    assert ours["f"](tree) == plain["f"](tree)
    codes = ours["codes"]
    assert len(codes) == len(plain["codes"]) and len(set(map(id, codes))) == 1
    assert codes[0] is not ours["f"].__code__


@pytest.mark.parametrize("body", WITHIN.values(), ids=WITHIN)
def test_its_name_is_bound_to_something_else_within(body):
    source = f"""
    def other(tree):
        return 1000
    def f(tree):
        global f
        if tree == [0]:
            f = other
        return 1 if not isinstance(tree, list) else {body}
    """
    plain, ours = make(source, "f")
    tree = [1, [2, [0, 4, 5], [6]], [7]]
    idle(ours, "f", tree)
    results = []
    for space in (plain, ours):
        f = space["f"]
        results.append([f([1, [0], [2]]), space["f"] is space["other"], f(tree)])
        space["f"] = f
        results[-1].append(f(tree))
    assert results[0] == results[1]


def test_what_is_made_within_outlives_the_door():
    source = """
    def f(n):
        codes.append(sys._getframe().f_code)
        return (f(k) for k in range(n)) if n > 1 else lambda: f(n + 2) if n else 0
    """
    results = []
    for space in make(source, "f"):
        for _ in range(8):
            list(space["f"](3))
        parts, last = space["f"](3), space["f"](1)
        zero = next(parts)()
        space["f"] = lambda n: ("another", n)
        gc.collect()
        results.append([zero, next(parts), last(), list(parts)])
    assert results[0] == results[1]
