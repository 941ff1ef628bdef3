"""Functions with a door that are left to CPython, and called from where no call site can pass the door by: by C functions, out of
containers, by code that nobody optimised. Such calls are asked nothing but what may change; what can be seen is CPython's."""

import functools
import sys
import textwrap
import traceback

import numpy as np
import pytest
from compare import dynoc, traced

SOURCE = """
def key(row, add=0, *, sign=1):
    seen.append(sys._getframe(1).f_code.co_name)
    return sign * (row["a"] + add)
def total(rows):
    return 0 if not rows else rows[0]["a"] + total(rows[1:])
rows = [{"a": k * 37 % 11} for k in range(12)]
"""

USES = [
    "list(map(key, rows))",
    "sorted(rows, key=key)",
    "functools.reduce(lambda x, row: x + key(row), rows, 0)",
    "list(map(functools.partial(key, add=3, sign=-1), rows))",
    "[call(row) for call in (key, key) for row in rows]",
    "{'k': key}['k'](*rows[:1], **{'add': 1})",
    "[total(rows[k:]) for k in range(3)]",
    "list(map(total, [rows, rows[:2]]))",
]


def make(source=SOURCE, names=("key", "total"), wait=True):
    spaces = []
    for k in range(2):
        space = {"__name__": f"m{k}", "sys": sys, "functools": functools, "seen": []}
        exec(compile(textwrap.dedent(source), "<left>", "exec"), space)
        for name in names if k else ():
            space[name] = dynoc.optimize(space[name], wait=wait)
        spaces.append(space)
    return spaces


def leave(space, call, times=80):
    for _ in range(times):
        eval(call, space)


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("use", USES)
def test_values(use, wait):
    plain, ours = make(wait=wait)
    for _ in range(150):
        assert eval(use, ours) == eval(use, plain)
    assert ours["seen"] == plain["seen"]


@pytest.mark.parametrize("wait", [True, False])
def test_nothing_is_asked(wait):
    _, ours = make(wait=wait)
    before = dynoc._dynoc._doors_left()
    leave(ours, "list(map(key, rows))")
    assert dynoc._dynoc._doors_left() > before
    assert isinstance(ours["key"], dynoc._dynoc.OptimizedFunction)


def test_an_array_is_asked_for():
    _, ours = make("def f(x):\n    return x * 2 + 1\n", ("f",))
    leave(ours, "list(map(f, range(20)))")
    assert not ours["f"].entries
    x = np.arange(1000.0)
    assert np.array_equal(ours["f"](x), x * 2 + 1)
    assert len(ours["f"].entries) == 1
    assert ours["f"](3) == 7


def test_reset_forgets_that_it_is_left():
    _, ours = make("def f(x, n):\n    return x * n + 1 if n < 10 else x\n", ("f",))
    leave(ours, "list(map(f, range(20), range(20)))")
    dynoc.reset()
    before = dynoc._dynoc._doors_left()
    leave(ours, "list(map(f, range(20), range(20)))")
    assert dynoc._dynoc._doors_left() > before


@pytest.mark.parametrize("name, use", [("key", "list(map(key, rows))"), ("total", "list(map(total, [rows, rows[:3]]))")])
def test_what_the_function_is_made_of_changes(name, use):
    source = SOURCE + "def other(row, add=0, *, sign=1):\n    return ('other', sign, add)\n"
    plain, ours = make(source)
    outcomes = []
    for space in (plain, ours):
        leave(space, use)
        space[name].__defaults__ = (5,)
        space["key"].__kwdefaults__ = {"sign": -1}
        outcome = [eval(use, space)]
        space[name].__code__ = space["other"].__code__
        space[name].__kwdefaults__ = {"sign": 7}
        outcomes.append([*outcome, eval(use, space), eval(use, space)])
    assert outcomes[0] == outcomes[1]


def test_exceptions_and_depth():
    source = """
    def down(n, next):
        return 1 // n if n == 0 else [n] + next[0](n - 1, next)
    """
    plain, ours = make(source, ("down",))
    rows = []
    for space in (plain, ours):
        space["next"] = [space["down"]]
        for _ in range(40):
            with pytest.raises(ZeroDivisionError) as e:
                space["down"](4, space["next"])
        rows.append([(r.lineno, r.name) for r in traceback.extract_tb(e.value.__traceback__)][1:])
        with pytest.raises(TypeError, match=r"down\(\) missing 1 required positional argument: 'next'"):
            list(map(space["down"], [1]))
        with pytest.raises(RecursionError):
            space["down"](10**7, space["next"])
    assert rows[0] == rows[1]


def test_a_tracer_sees_the_function_itself():
    plain, ours = make()
    seen = []
    for space in (plain, ours):
        leave(space, "list(map(total, [rows, rows[:2]]))")
        seen.append(traced(lambda space=space: eval("list(map(total, [rows, rows[:2]]))", space), "<left>"))
    assert seen[0] == seen[1]
