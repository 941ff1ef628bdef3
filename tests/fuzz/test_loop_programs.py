"""Random programs with loops over numbers and elements (loop_grammar.py), over instances, dicts, sets and lists
(object_grammar.py), and over small arrays (array_grammar.py), in CPython and as native loops: values, types, exceptions,
warnings, and all that the arguments hold.

Sixty programs of each; SOAK=50000 runs as many.
"""

import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import array_grammar
import loop_grammar
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
