"""Forced bail-outs and leaves: whatever the place where recording stops or a compiled graph is left, the call ends the same.

For each function of the table the recorder bails out at its first, second, third… instruction until there are no more. The
calls after it run the entry that was kept of the instructions before the bail-out.
"""

import dis

import pytest
from compare import check_case, dynoc
from functions import TABLE
from logs import counted

MOST = 600  # instructions tried in one function
QUIET = 25  # a bail-out before any array work leaves no trace; after so many without one the recording was over


@pytest.fixture
def no_compiler():
    """Recording is what is tested: entries stay in the eager tier, nothing is compiled."""
    dynoc.config.compiler = "/nonexistent/cc"
    yield
    dynoc.config.compiler = ""


def bail_out_everywhere(row, maker):
    """Try every N up to the end of what is recorded. Returns how many of the bail-outs left an entry or a count."""
    seen, quiet = 0, 0
    least = len(list(dis.get_instructions(row.make())))
    for n in range(MOST):
        plain, optimised = row.make(), row.make()
        fast = dynoc.optimize(optimised)
        before = counted("FORCED")
        dynoc.config.force_bail = n
        check_case(row, plain, fast, maker, f"bail-out at {n}")
        dynoc.config.force_bail = -1
        happened = counted("FORCED") > before
        check_case(row, plain, fast, maker, f"second call after a bail-out at {n}")
        dynoc.reset()
        seen += happened
        quiet = 0 if happened else quiet + 1
        if quiet > QUIET and n > least:
            break
    return seen


@pytest.mark.parametrize("row", TABLE, ids=repr)
def test_bail_out_at_every_instruction(row, no_compiler):
    bail_out_everywhere(row, row.makers[0])


def test_bail_outs_happen(no_compiler):
    """The option is there: the functions of the table are bailed out of in many places."""
    row = next(r for r in TABLE if r.name == "twelve_operations")
    assert bail_out_everywhere(row, row.makers[0]) > 25


@pytest.mark.parametrize("row", TABLE, ids=repr)
def test_compiled_part_before_a_bail_out(row):
    """A few places in each function, with native code for what was recorded before."""
    maker = row.makers[0]
    for n in (9, 17, 31):
        plain, optimised = row.make(), row.make()
        fast = dynoc.optimize(optimised, wait=True)
        dynoc.config.force_bail = n
        check_case(row, plain, fast, maker, f"bail-out at {n}")
        dynoc.config.force_bail = -1
        for turn in range(2):
            check_case(row, plain, fast, maker, f"call {turn + 2} after a bail-out at {n}")
        dynoc.reset()


# Without an extern call that warns, and is made again (docs/known_issues.md).
PIECES = [row for row in TABLE if row.name != "mean_of_nothing"]


@pytest.mark.parametrize("every", [1, 2, 3, 5, 11])
@pytest.mark.parametrize("row", PIECES, ids=repr)
def test_break_at_every_instruction(row, every):
    """The function in pieces of one instruction, of two, of three …: each piece is an entry."""
    maker = row.makers[0]
    plain, optimised = row.make(), row.make()
    fast = dynoc.optimize(optimised, backend="eager")
    dynoc.config.force_break = every
    for turn in range(4):
        check_case(row, plain, fast, maker, f"call {turn + 1} in pieces of {every}")


def test_breaks_happen():
    row = next(r for r in TABLE if r.name == "twelve_operations")
    fast = dynoc.optimize(row.make(), backend="eager")
    dynoc.config.force_break = 1
    for turn in range(2):
        check_case(row, row.make(), fast, row.makers[0], f"call {turn + 1}")
    assert len(fast.entries) > 25 and all(e.hits == 1 for e in fast.entries)


@pytest.mark.parametrize("row", TABLE, ids=repr)
def test_leave_at_every_snapshot(row):
    plain, optimised = row.make(), row.make()
    fast = dynoc.optimize(optimised, wait=True)
    maker = row.makers[0]
    for turn in range(2):
        check_case(row, plain, fast, maker, f"call {turn + 1}")
    for n in range(12):
        dynoc.config.force_leave = n
        check_case(row, plain, fast, maker, f"leave at snapshot {n}")
    dynoc.config.force_leave = -1
    check_case(row, plain, fast, maker, "after all leaves")
