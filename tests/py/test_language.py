"""The capture tables: each function gives what plain Python gives, on the recording call and on hits at several sizes, and is
captured as its row says: so many graphs, breaks and operators."""

import functions_language_classes
import functions_language_collections
import functions_language_containers
import functions_language_flow
import functions_language_functions  # noqa: F401
import functions_language_instances  # noqa: F401
import functions_language_library  # noqa: F401
import pytest
from compare import check, dynoc
from language import ROWS


# Right, but not captured whole: a class made inside is another one at each call.
PENDING = {"class_defined_inside"}


def operators(entry):
    """Lines of the graph that compute something."""
    lines = [line for line in str(entry.graph).splitlines() if line.startswith("%")]
    return sum(" input(" not in line and " scalar(" not in line for line in lines)


def test_table_is_large():
    assert len(ROWS) >= 150
    assert len({r.name for r in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_same_as_plain_and_captured(row):
    """By graphs alone, which are counted, and with native loops, which some of them are then."""
    sizes = (6, 6, 9, 4, 6)
    for loops in (True, False):
        plain, fast = row.make(), dynoc.optimize(row.make(), wait=True, options={"loops": loops})
        for turn, n in enumerate(sizes):
            check(plain, fast, lambda n=n: row.maker(n), row.tol, row.reset, row.observe, what=f"n = {n}, call {turn + 1}")
    if row.name in PENDING:
        return
    graphs = sum(operators(e) > 0 for e in fast.entries)
    breaks = sum(e.end != "return" for e in fast.entries)
    ops = sum(operators(e) for e in fast.entries)
    assert (graphs, breaks, ops) == (row.graphs, row.breaks, row.ops), [(e.end, e.reason, str(e.graph)) for e in fast.entries]
    assert max(e.hits for e in fast.entries) >= len(sizes) - 2
