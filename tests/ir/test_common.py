"""Values that are computed twice, as text: graph in, loop IR out."""

import pytest

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

HEAD = """graph f
s0: int = dim(x, 0) hint 1000
s1: int = dim(x, 1) hint 500
%0: f64[s0, s1] C = input(x)
"""


def lowered(text):
    return _dynoc._lower_text(HEAD + text)


def sums(text):
    return lowered(text).count("reduce sum")


def numbered(*lines):
    """Nodes from %1 on, named by the letter before the colon."""
    text = "\n".join(lines) + "\n"
    for i, line in enumerate(lines):
        text = text.replace("%" + line[1], f"%{i + 1}") if line.startswith("%") else text
    return text


SUM = "f64[s0] C = sum(%0) {0, 1}"
A, B = f"%a: {SUM}", f"%b: {SUM}"
READERS = ("%c: f64[s0] C = exp(%a)", "%d: f64[s0] C = exp2(%b)", "outputs %c, %d")


def test_a_sum_is_made_once():
    assert sums(numbered(A, B, *READERS)) == 1


def test_sums_of_equal_values_are_made_once():
    squares = [f"%{name}: f64[s0, s1] C = multiply(%0, %0)" for name in "xy"]
    both = [line.replace("%0", of) for line, of in ((A, "%x"), (B, "%y"))]
    assert sums(numbered(*squares, *both, *READERS)) == 1


def test_through_equal_views():
    turned = [f"%{name}: f64[s1, s0] <1 0> = permute(%0) {{1, 0}} view" for name in "xy"]
    both = [line.replace("%0", of).replace("[s0]", "[s1]") for line, of in ((A, "%x"), (B, "%y"))]
    readers = [line.replace("[s0]", "[s1]") for line in READERS]
    assert sums(numbered(*turned, *both, *readers)) == 1


@pytest.mark.parametrize("alive", [True, False])
def test_a_value_that_is_alive_is_read_again(alive):
    """Behind its last reader it would be kept for longer than eager keeps it."""
    first = ["%x: f64[s0, s1] C = exp(%0)", "%a: f64[s0, 1] C = sum(%x) {1, 1}"]
    again, last = "%y: f64[s0, s1] C = exp(%0)", "%d: f64[s0, s1] C = subtract(%x, %a)"
    end = ["%e: f64[s0, s1] C = multiply(%d, %y)", "outputs %e"]
    text = lowered(numbered(*first, *([again, last] if alive else [last, again]), *end))
    assert text.count("= exp v") == (1 if alive else 2)


@pytest.mark.parametrize(
    "why, lines",
    [
        ("what they read is written between", (A, "%s: f64[s0, s1] C = store(%0, 1)", B, *READERS)),
        ("both are handed out", (A, B, "outputs %a, %b")),
        (
            "what one of them is of is written later",
            (
                "%x: f64[s0, s1] C = multiply(%0, %0)",
                "%y: f64[s0, s1] C = multiply(%0, %0)",
                A.replace("%0", "%x"),
                "%s: f64[s0, s1] C = store(%y, 1)",
                B.replace("%0", "%y"),
                *READERS,
            ),
        ),
        ("one of them is written into", (A, B, "%s: f64[s0] C = store(%b, 1)", "%c: f64[s0] C = exp(%a)", "outputs %c, %b")),
    ],
)
def test_stays_two(why, lines):
    assert sums(numbered(*lines)) == 2, why


def test_other_axes():
    other = (B.replace("{0, 1}", "{0, 0}").replace("[s0]", "[s1]"), READERS[0], READERS[1].replace("[s0]", "[s1]"), READERS[2])
    assert sums(numbered(A, *other)) == 2
