"""The text form of graphs: what the printer writes the parser reads, and the verifier refuses what breaks an invariant."""

import pytest

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

HEAD = """graph step
s0: int = dim(x, 0) hint 1000
s1: int = dim(x, 1) hint 5
s2: float = var(dt) hint 0.25
s3: int = sub(s0, 2) hint 998
"""

GOOD = {
    "elementwise": """%0: f64[s0, s1] C = input(x)
%1: f64[s0, s1] C = multiply(%0, s2)
%2: bool[s0, s1] C = greater(%1, 0.5) compute f64
%3: f64[s0, s1] C = where(%2, %1, 0)
outputs %3, %2
""",
    "broadcast": """%0: f32[s0, s1] C = input(x)
%1: f32[s1] C = input(self.w[0])
%2: f32[1, s1] C = input(args['a, b'])
%3: f32[s0, s1] C = add(%0, %1)
%4: f32[s0, s1] C = divide(%3, %2)
outputs %4
""",
    "reduction": """%0: f32[s0, s1] <1 0> = input(x)
%1: f32[s1] C = sum(%0) {0, 0}
%2: f32[s1] C = divide(%1, s0) compute f64
%3: f32[1, 1] C = max(%0) {1, 0, 1}
%4: f32[] C = min(%0) {0, 0, 1} npscalar
outputs %2, %3, %4
""",
    "views": """%0: f64[s0, s1] C = input(x)
%1: f64[s3, s1] C = slice(%0, 1, 999, 1, 0, s1, 1) {0, 0} view
%2: f64[s1, s0] <1 0> = permute(%0) {1, 0} view
%3: f64[1, s1] C = slice(%0, 3, 0, s1, 1) {2, 1, 0} view
%4: f64[s1, s1] <1 0> = broadcast(%3) view
%5: f64[5000] C = reshape(%0) view
%6: f64[5000] C = reshape(%2) copy
outputs %1, %2, %3, %4, %5, %6
""",
    "stores": """%0: f64[s0, s1] C = input(x)
%1: f64[s0, s1] C = add(%0, 1.5)
%2: f64[s0, s1] C = store(%0, %1)
%3: f64[s1] C = slice(%0, 0, 0, s1, 1) {1, 0} view
%4: f64[s1] C = store(%3, 0)
outputs %0
""",
    "made": """%0: f64[s0, s1] C = input(x)
%1: i64[s0] C = full(7)
%2: f64[s0, s1] C = full(_)
%3: f32[] C = scalar(s2) npscalar
%4: i32[s0, s1] C = copy(%0)
%5: bool[s0] C = full(True)
outputs %1, %2, %3, %4, %5
""",
    "extern": """%0: f64[s1, s1] C = input(x)
%1: f64[s1] C = input(b)
%2: f64[s1] C = extern(%0, %1)
outputs %2
""",
    "numbers": """%0: f64[s0, s1] C = input(x)
%1: f64[s0, s1] C = add(%0, inf)
%2: f64[s0, s1] C = add(%1, -inf)
%3: f64[s0, s1] C = add(%2, nan)
%4: f64[s0, s1] C = add(%3, -0.0)
%5: f64[s0, s1] C = add(%4, 1e+300)
%6: f64[s0, s1] C = add(%5, -9223372036854775807)
%7: f64[s0, s1] C = add(%6, 0.1)
outputs %7
""",
}


def with_symbols(body):
    """HEAD without the symbols that the body does not use, as the printer writes it, renumbered in order."""
    lines = HEAD.splitlines()
    used = {i for i in range(4) if f"s{i}" in body}
    used |= {0} if 3 in used else set()
    number = {old: new for new, old in enumerate(sorted(used))}
    text = "\n".join([lines[0], *(lines[1 + i] for i in sorted(used)), body])
    for old, new in sorted(number.items()):
        text = text.replace(f"s{old}", f"s{new}")
    return text


@pytest.mark.parametrize("name", GOOD)
def test_round_trip(name):
    text = with_symbols(GOOD[name])
    assert _dynoc._graph_roundtrip(text) == text


def test_comments_and_blank_lines_are_skipped():
    text = with_symbols(GOOD["elementwise"])
    noisy = "# a graph\n\n" + text.replace("\n", "  # heat.py:12\n")
    assert _dynoc._graph_roundtrip(noisy) == text


def test_unused_symbols_are_not_printed():
    assert "s2" not in _dynoc._graph_roundtrip(HEAD + "%0: f64[s0, s1] C = input(x)\noutputs %0\n")


BAD = [
    ("%0: f64[s0] C = input(x)\n%1: f64[s0] C = add(%0, %1)", "operand does not stand earlier"),
    ("%0: f64[s0] C = input(x)\n%1: f64[s0] C = sin(%0, %0)", "wrong number of operands"),
    ("%0: f64[s0] C = input(x)\n%1: f64[s0] C = sin(_)", "operand is absent"),
    ("%0: f64[s0] C = input(x)\n%1: f64[s1] C = sin(%0)", "does not broadcast"),
    ("%0: f64[s0] C = input(x)\n%1: f64[s0] C = less(%0, 1)", "result is not bool"),
    ("%0: f64[s0] C = input(x)\n%1: f64[s0] C = sin(%0) npscalar", "NumPy scalar of a rank"),
    ("%0: f64[s2] C = input(x)", "size is no int symbol"),
    ("%0: f64[-3] C = input(x)", "negative size"),
    ("%0: f64[s0, s1] <1 1> = input(x)", "layout is no permutation"),
    ("%0: f64[s0, s1] C = input(x)\n%1: f64[s0, s1] C = sin(%0) view", "flags are not those of its kind"),
    ("%0: f64[s0, s1] C = input(x)\n%1: f64[s1, s0] C = permute(%0) {1, 0}", "flags are not those of its kind"),
    ("%0: f64[s0, s1] C = input(x)\n%1: f64[s1, s0] C = permute(%0) {1, 1} view", "no permutation"),
    ("%0: f64[s0, s1] C = input(x)\n%1: f64[s0, s1] C = permute(%0) {1, 0} view", "sizes are not the operand's"),
    ("%0: f64[s0, s1] C = input(x)\n%1: f64[s0] C = reshape(%0) view", "number of elements changes"),
    ("%0: f64[s0, s1] C = input(x)\n%1: f64[s1] C = sum(%0) {0, 1}", "sizes are not those that are left"),
    ("%0: f64[s0, s1] C = input(x)\n%1: f64[] C = sum(%0) {0, 1, 0}", "axes are not sorted"),
    ("%0: f64[s0, s1] C = input(x)\n%1: f64[] C = sum(%0)", "aux does not begin with keepdims"),
    ("%0: f64[s0, s1] C = input(x)\n%1: f64[s0] C = slice(%0, 0, s0, 1) {0} view", "index does not fit"),
    ("%0: f64[s0] C = input(x)\n%1: f32[s0] C = store(%0, 1)", "dtype is not the destination's"),
    ("%0: f64[s0] C = input(x)\n%1: f64[s0] C = store(%0, 1)\n%2: f64[s0] C = sin(%1)", "operand is a store"),
    ("%0: f64[s0] C = input(x)\n%1: f64[s0] C = store(%0, 1)\noutputs %1", "no node with a value"),
    ("%0: f64[s0] C = input(x)\noutputs %3", "no node with a value"),
]


@pytest.mark.parametrize("body, message", BAD)
def test_verifier(body, message):
    with pytest.raises(ValueError, match=message):
        _dynoc._graph_roundtrip(HEAD + body + "\n")


SYNTAX = [
    ("%1: f64[s0] C = input(x)", "nodes are not in order"),
    ("%0: f65[s0] C = input(x)", "no such dtype"),
    ("%0: f64[s0] C = inputs(x)", "no such operator"),
    ("%0: f64[s9] C = input(x)", "no such symbol"),
    ("%0: f64[s0 C = input(x)", "expected ,"),
    ("%0: f64[s0] D = input(x)", "expected <"),
    ("%0: f64[s0] C = input(x) {0", "expected"),
    ("%0: f64[s0] C = full(1) further", "end of the line"),
    ("s9: int = var(n) hint 1", "symbols are not in order"),
    ("s4: int = nothing(n) hint 1", "no such operator on numbers"),
    ("s4: int = var(n) hint 1.5", "another type"),
    ("s4: int = floordiv(s0, 0) hint 1", "fails on the hints"),
    ("nonsense", "expected a symbol or a node"),
    ("%0: f64[1, 1, 1, 1, 1, 1, 1, 1, 1] C = input(x)", "too many sizes"),
]


@pytest.mark.parametrize("body, message", SYNTAX)
def test_syntax_errors_name_the_line(body, message):
    with pytest.raises(ValueError, match=message) as e:
        _dynoc._graph_roundtrip(HEAD + body + "\n")
    assert str(e.value).startswith("line 6:")
