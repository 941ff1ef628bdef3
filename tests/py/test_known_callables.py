"""callables.def: what has a row is known wherever it came from, and what took a library function's place is not taken for it."""

import subprocess
import sys

import numpy as np
import pytest
from compare import check, dynoc


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


PATCHED = """
import functools, itertools, math, operator
seen = []
{patch}
import numpy as np, dynoc
def fn(x):
    return x + {call}
fast = dynoc.optimize(fn, wait=True)
for _ in range(3):
    got = fast(np.ones(2))
print(len(seen), got.tolist())
"""


@pytest.mark.parametrize(
    "patch, call, result",
    [
        ("plain = math.sqrt\nmath.sqrt = lambda v: (seen.append(v), plain(v) + 1)[1]", "math.sqrt(4.0)", 4.0),
        ("add = operator.add\noperator.add = lambda a, b: (seen.append(a), add(a, b) * 2)[1]", "operator.add(1.0, 2.0)", 7.0),
        (
            "def reduce(f, items):\n    seen.append(items)\n    return 5.0\nfunctools.reduce = reduce",
            "functools.reduce(operator.add, [1.0, 2.0])",
            6.0,
        ),
        (
            "import builtins\nold = builtins.divmod\nbuiltins.divmod = lambda *a: (seen.append(1), old(*a))[1]",
            "divmod(7.0, 2.0)[0]",
            4.0,
        ),
    ],
)
def test_functions_that_were_replaced(patch, call, result):
    seen, values = run(PATCHED.format(patch=patch, call=call)).split(" ", 1)
    assert values.strip() == str([result, result])
    assert int(seen) >= 3


def test_module_that_is_imported_after_dynoc():
    out = run(
        "import dynoc, sys, numpy as np\n"
        "def fn(x):\n"
        "    import inspect\n"
        "    return x + len(inspect.signature(other).parameters)\n"
        "def other(a, b): pass\n"
        "fast = dynoc.optimize(fn, wait=True)\n"
        "print([fast(np.ones(1)).tolist() for _ in range(4)])\n"
    )
    assert out.strip() == "[[3.0], [3.0], [3.0], [3.0]]"


def any_function_of_math(x):
    import math

    return x + math.comb(5, 2) + math.gamma(4.0) + math.lcm(4, 6)


def class_methods(x):
    return x + len(dict.fromkeys("abc")) + int.from_bytes(b"ab", "big") + float.fromhex("0x1p3"), bytes.fromhex("ff00")


def from_iterable(x):
    from itertools import chain

    return [x + i for i in chain.from_iterable([[1, 2], [3]])]


@pytest.mark.parametrize("fn", [any_function_of_math, class_methods, from_iterable])
def test_no_break(fn):
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(3):
        check(fn, fast, lambda: (np.arange(3.0),), "near")
    assert dynoc.explain(fn)(np.arange(3.0)).break_reasons == []


class Stack(list):
    """A subclass whose append counts."""

    counted = 0

    def append(self, item):
        Stack.counted += 1
        super().append(item)

    def __len__(self):
        return super().__len__() + 100


def builtin_methods_of_a_subclass(x, stack):
    stack.append(x)
    list.append(stack, 1)
    list.reverse(stack)
    return len(stack), list.index(stack, 1), x + list.__len__(stack)


def test_methods_on_instances_of_subclasses():
    fast = dynoc.optimize(builtin_methods_of_a_subclass, wait=True)
    for _ in range(4):
        check(builtin_methods_of_a_subclass, fast, lambda: (np.ones(2), Stack()), "near")


def methods_by_their_type(x, items, names):
    list.append(items, x)
    dict.update(names, b=x)
    return dict.get(names, "b") + list.pop(items), str.upper("ab"), dict.__len__(names), dict.__contains__(names, "a")


def test_methods_that_are_read_off_their_type():
    fast = dynoc.optimize(methods_by_their_type, wait=True)
    for _ in range(4):
        check(methods_by_their_type, fast, lambda: (np.ones(2), [1], {"a": 1}), "near")


def wrong_arguments(x, which):
    import operator

    calls = [
        lambda: list.append(1, 2),
        lambda: operator.add(1),
        lambda: dict.get(),
        lambda: dict.get([], 1),
        lambda: str.join(",", 5),
        lambda: set.add(frozenset(), 1),
        lambda: object.__setattr__(x, "a", 1),
    ]
    try:
        return x + 1, calls[which]()
    except (TypeError, AttributeError) as error:
        return x + 1, str(error)


@pytest.mark.parametrize("which", range(7))
def test_wrong_arguments(which):
    fast = dynoc.optimize(wrong_arguments, wait=True)
    for _ in range(3):
        check(wrong_arguments, fast, lambda: (np.ones(2), which), "near")
