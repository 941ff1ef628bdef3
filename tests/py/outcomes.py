"""Calls of one function, plain and optimised, that have to end the same: with one result, or one exception and its lines."""

import traceback

import numpy as np
from compare import check

import dynoc


@dynoc.skip
def outcome_of(fn, given):
    """What a call with these arguments gives, as text, or its exception with the lines it came through."""
    try:
        return repr(fn(*given))
    except Exception as error:
        rows = [(row.name, row.lineno) for row in traceback.extract_tb(error.__traceback__) if row.name != "outcome_of"]
        return type(error), str(error), rows


@dynoc.skip
def same(fn, *arguments, again=None, turns=3):
    """Calls, alone and with every function offered to the recorder, give what plain Python gives."""
    again = again or (lambda: arguments)
    expected = outcome_of(fn, again())
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(turns):
        assert outcome_of(fast, again()) == expected, f"call {turn + 1}"
    before = dynoc.config.record_all
    dynoc.config.record_all = True
    try:
        with dynoc.enabled(wait=True):
            for turn in range(turns):
                assert outcome_of(fn, again()) == expected, f"call {turn + 1}, everything recorded"
    finally:
        dynoc.config.record_all = before


def calls(fn, *arguments):
    """Three calls give what plain Python gives."""
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(3):
        check(fn, fast, lambda: [a.copy() if isinstance(a, np.ndarray) else a for a in arguments], what=f"call {turn + 1}")


def calls_of(fn, *makers):
    """Four rounds of calls with what each maker gives do what plain Python does."""
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(4):
        for maker in makers:
            check(fn, fast, maker, "near", what=f"call {turn + 1}")
