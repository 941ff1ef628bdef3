"""What the verifier says of windows and of kernels that run outside of a box, as text that it refuses."""

import pytest

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

GRAPH = """graph f
s0: int = dim(u, 0) hint 5
s1: int = dim(u, 1) hint 4
s2: int = sub(s0, 1) hint 4
%0: f64[s0, s1] C = input(u)
%1: f64[s0, s1] C = multiply(%0, %0)
%2: f64[s2, s1] C = slice(%1, 1, s0, 1, 0, s1, 1) {0, 0} view
%3: f64[s2, s1] C = slice(%1, 0, s2, 1, 0, s1, 1) {0, 0} view
%4: f64[s2, s1] C = subtract(%2, %3)
outputs %4
"""
FIXED = """graph f
%0: f64[6, 4] C = input(u)
%1: f64[6, 4] C = multiply(%0, %0)
%2: f64[5, 4] C = slice(%1, 1, 6, 1, 0, 4, 1) {0, 0} view
%3: f64[5, 4] C = slice(%1, 0, 5, 1, 0, 4, 1) {0, 0} view
%4: f64[5, 4] C = subtract(%2, %3)
outputs %4
"""


def refused(graph, why, *changes):
    text = _dynoc._lower_text(graph)
    assert _dynoc._loops_roundtrip(graph, text) == text
    for old, new in changes:
        assert old in text, text
        text = text.replace(old, new, 1)
    with pytest.raises(ValueError, match=why):
        _dynoc._loops_roundtrip(graph, text)


@pytest.mark.parametrize(
    "why, old, new",
    [
        ("a window lies outside of its place", "[0+1 1+0]", "[0+1 1+1]"),
        ("a window lies outside of its place", "[0+1 1+0]", "[0+-1 1+0]"),
        ("a window is written", "%4 f64 [0 1]", "%4 f64 [0+0 1+0]"),
        ("along an axis that it doesn't walk", "[0+1 1+0]", "[-+1 1+0]"),
    ],
)
def test_windows(why, old, new):
    refused(GRAPH, why, (old, new))


def test_windows_of_known_sizes():
    refused(FIXED, "a window lies outside of its place", ("[0+1 1+0]", "[0+2 1+0]"))


def box_of(graph):
    (line,) = [line for line in _dynoc._lower_text(graph).splitlines() if "outside" in line]
    return line.split("outside ")[1].split("  #")[0]


@pytest.mark.parametrize("graph", [GRAPH, FIXED], ids=["symbols", "constants"])
def test_boxes(graph):
    box = box_of(graph)
    first, second = box.split(" ")
    refused(graph, "its box lies outside of its space", (box, f"-1:{first.split(':')[1]} {second}"))
    refused(graph, "its box lies outside of its space", (box, f"{first} 1:{second.split(':')[1]}"))


def test_boxes_of_known_sizes():
    first, second = box_of(FIXED).split(" ")
    refused(FIXED, "its box lies outside of its space", (f"{first} {second}", f"2:{first.split(':')[1]} {second}"))


def test_what_runs_outside_of_a_box_only():
    refused(GRAPH, "what it writes is read", ("in 1: %0 f64 [0+0 1+0]", "in 1: %1 f64 [0+0 1+0]"))
    refused(GRAPH, "reduces or is in a group", (" outside", " group 0 outer 1 outside"))
