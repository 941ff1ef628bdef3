"""Random programs with loops (loop_grammar.py), in CPython and as native loops: values, types, exceptions, warnings and arrays.

A hundred programs; DYNOC_SOAK=50000 runs as many.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import loop_grammar

import dynoc

SOAK = int(os.environ.get("SOAK", "0"))
FIRST = int(os.environ.get("FUZZ_FIRST", "0"))
COUNT = SOAK if SOAK > 1 else 5000 if SOAK else 100


def differences(seed):
    """Where the program's calls differ from CPython's: a text, or None."""
    text = loop_grammar.program(seed)
    fast = dynoc.optimize(loop_grammar.make(text), wait=True)
    plain = loop_grammar.make(text)
    for call in range(3):
        args = seed + 1000003 * (call // 2)
        wanted = loop_grammar.outcome(plain, loop_grammar.arguments(args))
        got = loop_grammar.outcome(fast, loop_grammar.arguments(args))
        if got != wanted:
            return f"seed {seed}, call {call}:\n{text}\nwanted {wanted}\ngot    {got}"
    return None


def test_programs_with_loops_do_what_they_do_without_dynoc():
    found = [text for text in map(differences, range(FIRST, FIRST + COUNT)) if text is not None]
    assert not found, "\n\n".join(found[:3])
