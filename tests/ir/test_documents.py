"""docs/ir.md: its examples are read as they stand, hold their rules, and are printed as they stand."""

import re
from pathlib import Path

import pytest

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

PAGE = Path(__file__).parents[2] / "docs" / "ir.md"
BLOCKS = re.findall(r"^```(graph|loops|region)\n(.*?)^```", PAGE.read_text(), re.S | re.M)


def graph_before(n):
    return next(text for kind, text in reversed(BLOCKS[:n]) if kind == "graph")


def printed(n):
    kind, text = BLOCKS[n]
    if kind == "graph":
        return _dynoc._graph_roundtrip(text)
    if kind == "loops":
        return _dynoc._loops_roundtrip(graph_before(n), text)
    return _dynoc._region_text(_dynoc._region_parse(text))


def test_each_representation_has_an_example():
    assert {kind for kind, _ in BLOCKS} == {"graph", "loops", "region"}


@pytest.mark.parametrize("n", range(len(BLOCKS)))
def test_an_example_is_printed_as_it_stands(n):
    assert printed(n) == BLOCKS[n][1]


@pytest.mark.parametrize("n", [n for n, (kind, _) in enumerate(BLOCKS) if kind == "loops"])
def test_loop_ir_is_what_its_graph_becomes(n):
    assert _dynoc._lower_text(graph_before(n)) == BLOCKS[n][1]
