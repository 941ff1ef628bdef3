"""The hundred snippets: results are plain NumPy's, and nearly all are one graph without a break."""

import logging

import numpy as np
import pytest
from compare import check, dynoc
from numpy_snippets import SNIPPETS

WANTED = 95  # of a hundred: what issue 4 asks for
CAPTURED = 100  # what is reached: raise it with the captures, it is never lowered


def maker(snippet, seed, n):
    return lambda: snippet.make(np.random.default_rng(seed), n)


def test_there_are_a_hundred():
    assert len({snippet.function.__name__ for snippet in SNIPPETS}) == len(SNIPPETS) == 100


@pytest.mark.parametrize("snippet", SNIPPETS, ids=repr)
def test_same_as_plain(snippet):
    fast = dynoc.optimize(snippet.function, wait=True)
    for call, n in enumerate(snippet.sizes):
        check(snippet.function, fast, maker(snippet, call, n), snippet.tol, what=f"size {n}, call {call + 1}")


class Reasons(logging.Handler):
    """What the log says about breaks and refusals: a refused function has no entry that could tell."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        """`break CODE: what it means`, place, source line, caret, hint: the first and the source line are enough here."""
        lines = record.getMessage().splitlines()
        self.lines.append(" | ".join([lines[0].partition(":")[0], *(line.strip() for line in lines[2:3])]))


@pytest.fixture
def reasons():
    handler, logger = Reasons(), logging.getLogger("dynoc.graph_breaks")
    before = logger.propagate
    dynoc.set_logs(graph_breaks=True)
    logger.addHandler(handler)
    logger.propagate = False
    yield handler.lines
    logger.propagate = before
    logger.removeHandler(handler)
    dynoc.set_logs(graph_breaks=False)


def test_nearly_all_are_one_graph(reasons, capsys):
    broken = []
    for snippet in SNIPPETS:
        reasons.clear()
        report = dynoc.explain(snippet.function, options={"loops": False})(*maker(snippet, 0, snippet.sizes[0])())
        if report.graph_count != 1 or report.graph_break_count:
            broken.append(f"{snippet}: {report.graph_count} graphs, breaks: {'; '.join(reasons) or report.break_reasons}")
    captured = len(SNIPPETS) - len(broken)
    with capsys.disabled():
        print(f"\n{captured} of {len(SNIPPETS)} snippets are one graph ({WANTED} wanted)", *broken, sep="\n  ")
    assert captured >= CAPTURED
