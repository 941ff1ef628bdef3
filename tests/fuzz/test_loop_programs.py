"""Random programs with loops over numbers and elements (loop_grammar.py), over instances, dicts, sets and lists
(object_grammar.py), and over small arrays (array_grammar.py), in CPython and as native loops: values, types, exceptions,
warnings, and all that the arguments hold. The first of them also as modules, whose variables are items of a dict.

Sixty programs of each; SOAK=50000 runs as many.
"""

import math
import os
import re
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import array_grammar
import loop_grammar
import numpy as np
import object_grammar
import pytest

import dynoc

SOAK = int(os.environ.get("SOAK", "0"))
FIRST = int(os.environ.get("FUZZ_FIRST", "0"))
COUNT = SOAK if SOAK > 1 else 5000 if SOAK else 60


def differences(seed, grammar=loop_grammar):
    """Where the program's calls differ from CPython's: a text, or None."""
    text = grammar.program(seed)
    fast = dynoc.optimize(loop_grammar.make(text), wait=True)
    plain = loop_grammar.make(text)
    for call in range(3):
        args = seed + 1000003 * (call // 2)
        wanted = loop_grammar.outcome(plain, loop_grammar.arguments(args))
        got = loop_grammar.outcome(fast, loop_grammar.arguments(args))
        if got != wanted:
            return f"seed {seed}, call {call}:\n{text}\nwanted {wanted}\ngot    {got}"
    return None


def module_outcome(code, names, seed):
    """What the program leaves in its dict, in order, its warnings, and its exception with the line."""
    own = {"math": math, "np": np, "__builtins__": __builtins__, "__warningregistry__": {}}
    space, error = {**own, **dict(zip(names, loop_grammar.arguments(seed), strict=True))}, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(code, space)
        except Exception as e:
            error = type(e).__name__, str(e), loop_grammar.lines_of(e)[-1]
    left = [(name, loop_grammar.plain(value)) for name, value in space.items() if name not in own]
    return left, [(w.category.__name__, str(w.message), w.lineno) for w in caught], error


def as_module(seed):
    """The body of the program's function as a module's text, and the names of its arguments. None: it returns within a loop."""
    head, *body, last = loop_grammar.program(seed).rstrip().split("\n")
    text = "\n".join(line[4:] for line in body)
    return None if "return" in text else (text, re.findall(r"\w+", head[head.index("(") :]))


def differences_of_modules(seed, after):
    program = as_module(seed)
    if program is None:
        return None
    plain, fast = (compile(program[0], "<loops>", "exec") for _ in range(2))
    for call in range(2):
        wanted = module_outcome(plain, program[1], seed + 1000003 * call)
        dynoc._dynoc._loops_null(after)
        dynoc.enable(wait=True)
        try:
            got = module_outcome(fast, program[1], seed + 1000003 * call)
        finally:
            dynoc.disable()
            dynoc._dynoc._loops_null(-2)
        if got != wanted:
            return f"seed {seed}, left after {after}, call {call}:\n{program[0]}\nwanted {wanted}\ngot    {got}"
    return None


@pytest.mark.parametrize("after", (-2, -1, 0, 1, 2, 5, 11, 30, 10**6), ids=lambda after: "native" if after < -1 else str(after))
def test_modules_with_loops_do_what_they_do_without_dynoc(after):
    n = COUNT // 6 if after == -2 else COUNT
    found = [text for text in (differences_of_modules(seed, after) for seed in range(FIRST, FIRST + n)) if text is not None]
    assert not found, "\n\n".join(found[:3])


def differences_of_objects(seed):
    text = object_grammar.program(seed)
    own, others = object_grammar.make(text), object_grammar.make(text)
    fast = dynoc.optimize(own["f"], wait=True)
    for call in range(3):
        args = seed + 1000003 * (call // 2)
        wanted, got = (
            re.sub("0x[0-9a-f]+", "at", repr(object_grammar.outcome(scope, function, args)))
            for scope, function in ((others, others["f"]), (own, fast))
        )
        if got != wanted:
            return f"seed {seed}, call {call}:\n{text}\nwanted {wanted}\ngot    {got}"
    return None


def test_programs_with_loops_do_what_they_do_without_dynoc():
    found = [text for text in map(differences, range(FIRST, FIRST + COUNT)) if text is not None]
    assert not found, "\n\n".join(found[:3])


def differences_of_arrays(seed):
    return differences(seed, array_grammar)


@pytest.mark.parametrize("differences_of", [differences_of_arrays, differences_of_objects], ids=["small arrays", "objects"])
def test_programs_with_loops_over_things_do_what_they_do_without_dynoc(differences_of):
    before = dict(dynoc.counters.get("loops", {}))
    found = [text for text in map(differences_of, range(FIRST, FIRST + COUNT)) if text is not None]
    assert not found, "\n\n".join(found[:3])
    counted = dynoc.counters["loops"]
    assert counted.get("malformed", 0) == before.get("malformed", 0)
    assert counted["native"] - before.get("native", 0) > COUNT // 2
