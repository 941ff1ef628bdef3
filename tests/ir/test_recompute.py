"""Values that are read through windows, as text: graph in, loop IR out; and the text of windows and margins back in."""

import re

import pytest

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

HEAD = """graph f
s0: int = dim(u, 0) hint 5
s1: int = dim(u, 1) hint 4
s2: int = sub(s0, 1) hint 4
s3: int = sub(s1, 1) hint 3
%0: {dtype}[s0, s1] C = input(u)
"""
ROWS = "%2: {dtype}[s2, s1] C = slice(%1, 1, s0, 1, 0, s1, 1) {{0, 0}} view\n"
ROWS += "%3: {dtype}[s2, s1] C = slice(%1, 0, s2, 1, 0, s1, 1) {{0, 0}} view\n"
DIFFERENCE = ROWS + "%4: {dtype}[s2, s1] C = subtract(%2, %3)\noutputs %4\n"


def lowered(text, dtype="f64"):
    return _dynoc._lower_text((HEAD + text).replace("{{", "{").replace("}}", "}").replace("{dtype}", dtype))


def kernels(text):
    return [block for block in re.split(r"(?m)^(?=\S)", text) if block.startswith("kernel")]


def test_two_windows_of_a_square():
    square, difference = kernels(lowered("%1: {dtype}[s0, s1] C = multiply(%0, %0)\n" + DIFFERENCE))
    assert re.match(r"kernel \(\$0 \$1\) reduced 0 outside [01]:\$3 0:\$1  #", square)
    assert difference.splitlines()[1:] == [
        "  in 0: %0 f64 [0+1 1+0]",
        "  in 1: %0 f64 [0+0 1+0]",
        "  out 2: %4 f64 [0 1]",
        "  v0 = load 0 : f64",
        "  v1 = multiply v0 v0 : f64",
        "  v2 = load 1 : f64",
        "  v3 = multiply v2 v2 : f64",
        "  v4 = subtract v1 v3 : f64",
        "  store 2 v4",
    ]


def test_integers_give_no_warning_so_nothing_is_left_outside():
    (difference,) = kernels(lowered("%1: {dtype}[s0, s1] C = multiply(%0, %0)\n" + DIFFERENCE, "i64"))
    assert "outside" not in difference and difference.count("multiply") == 2


@pytest.mark.parametrize(
    "why, text",
    [
        ("it is handed out", "%1: {dtype}[s0, s1] C = multiply(%0, %0)\n" + DIFFERENCE.replace("outputs %4", "outputs %4, %1")),
        ("a window is", "%1: {dtype}[s0, s1] C = multiply(%0, %0)\n" + DIFFERENCE.replace("outputs %4", "outputs %4, %2")),
        ("it is dear", "%1: {dtype}[s0, s1] C = exp(%0)\n" + DIFFERENCE),
        ("a step of two", "%1: {dtype}[s0, s1] C = multiply(%0, %0)\n" + DIFFERENCE.replace("0, s2, 1, 0", "0, s2, 2, 0")),
    ],
)
def test_stays_as_it_is(why, text):
    both = lowered(text)
    assert "+" not in "".join(line for line in both.splitlines() if line.startswith("  in ")), why
    assert "outside" not in both


def test_what_is_dear_is_computed_once_for_its_one_window():
    text = "%1: {dtype}[s0, s1] C = exp(%0)\n" + ROWS.split("\n")[0] + "\n%3: {dtype}[s2, s1] C = negative(%2)\noutputs %3\n"
    margin, whole = kernels(lowered(text))
    assert "outside 1:$3 0:$1" in margin and "in 0: %0 f64 [0+1 1+0]" in whole


def test_windows_of_windows_are_windows_of_the_input():
    text = "%1: {dtype}[s0, s1] C = negative(%0)\n"
    text += "%2: {dtype}[s2, s1] C = slice(%1, 1, s0, 1, 0, s1, 1) {{0, 0}} view\n"
    text += "%3: {dtype}[s2, s3] C = slice(%2, 0, s2, 1, 1, s1, 1) {{0, 0}} view\n"
    text += "%4: {dtype}[s3, s2] <1 0> = permute(%3) {{1, 0}} view\n"
    text += "%5: {dtype}[s3, s2] <1 0> = negative(%4)\noutputs %5\n"
    assert "  in 0: %0 f64 [1+1 0+1]" in kernels(lowered(text))[-1]


def test_text_goes_back_in():
    graph = (HEAD + "%1: {dtype}[s0, s1] C = multiply(%0, %0)\n" + DIFFERENCE).format(dtype="f64")
    text = _dynoc._lower_text(graph)
    assert "outside" in text and "[0+1 1+0]" in text
    assert _dynoc._loops_roundtrip(graph, text) == text
