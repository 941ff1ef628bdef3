"""Reductions that need another's result over the same elements, as text: graph in, which of them are a pair out.

The sums are PyTorch's: NumPy's order has no place for a piece that is gone over twice."""

import numpy as np
import pytest
from test_common import HEAD, numbered

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

COLUMN, WHOLE = "f64[s1] C", "f64[s0, s1] C"
SUM = f"%a: {COLUMN} = sum(%0) {{0, 0}}"
MEAN = f"%b: {COLUMN} = divide(%a, s0)"
APART = f"%c: {WHOLE} = subtract(%0, %b)"
SQUARE = f"%d: {WHOLE} = multiply(%c, %c)"
SQUARES = f"%e: {COLUMN} = sum(%d) {{0, 0}}"
END = f"%f: {COLUMN} = divide(%e, s0)"
VARIANCE = (SUM, MEAN, APART, SQUARE, SQUARES, END, "outputs %f")
MOST = f"%a: {COLUMN} = max(%0) {{0, 0}}"
LESS = f"%b: {WHOLE} = subtract(%0, %a)"
POWER = f"%c: {WHOLE} = exp(%b)"
POWERS = f"%d: {COLUMN} = sum(%c) {{0, 0}}"
LOG = f"%e: {COLUMN} = log(%d)"
TOGETHER = f"%f: {COLUMN} = add(%e, %a)"
EXPONENTIALS = (MOST, LESS, POWER, POWERS, LOG, TOGETHER, "outputs %f")


def tensors(*lines):
    text = HEAD + numbered(*lines)
    return "".join(line + (" tensor\n" if "sum(" in line or "prod(" in line else "\n") for line in text.splitlines())


def pairs(lines):
    text = _dynoc._lower_text(tensors(*lines))
    return sum("pair 1" in line for line in text.splitlines() if line.startswith("kernel"))


@pytest.mark.parametrize("lines", [VARIANCE, EXPONENTIALS])
def test_a_pair(lines):
    assert pairs(lines) == 2


def test_sums_in_numpys_order_are_no_pair():
    assert "pair" not in _dynoc._lower_text(HEAD + numbered(*VARIANCE))


def changed(lines, old, new):
    assert old in "\n".join(lines)
    return [line.replace(old, new) for line in lines]


@pytest.mark.parametrize(
    "why, lines",
    [
        ("no mean", changed(VARIANCE, "divide(%a, s0)", "multiply(%a, s0)")),
        ("of something else", changed(VARIANCE, "subtract(%0, %b)", "add(%0, %b)")),
        ("the other way round", changed(VARIANCE, "subtract(%0, %b)", "subtract(%b, %0)")),
        ("no squares", changed(VARIANCE, "multiply(%c, %c)", "multiply(%c, %0)")),
        ("about the least", changed(EXPONENTIALS, "max(%0)", "min(%0)")),
        ("a product", changed(EXPONENTIALS, "sum(%c)", "prod(%c)")),
        ("elements are kept", changed(EXPONENTIALS, "outputs %f", "outputs %f, %c")),
        ("the mean is written", [*VARIANCE[:2], f"%s: {COLUMN} = store(%b, 1)", *VARIANCE[2:]]),
        ("the maximum is written", [MOST, f"%s: {COLUMN} = store(%a, 1)", *EXPONENTIALS[1:]]),
        ("the sum is handed out", changed(VARIANCE, "outputs %f", "outputs %f, %e")),
    ],
)
def test_no_pair(why, lines):
    assert pairs(lines) == 0, why


def test_text_comes_back():
    graph = tensors(*VARIANCE)
    text = _dynoc._lower_text(graph)
    assert _dynoc._loops_roundtrip(graph, text) == text
    with pytest.raises(ValueError, match="step . can't be in pair 1"):
        _dynoc._loops_roundtrip(graph, text.replace("= subtract v0 v1", "= add v0 v1"))


def variance(x):
    return x.var(axis=0)


def log_sum_exp(x):
    most = x.max(axis=0)
    return np.log(np.exp(x - most).sum(axis=0)) + most


@pytest.mark.parametrize("lines, function", [(VARIANCE, variance), (EXPONENTIALS, log_sum_exp)])
@pytest.mark.parametrize("shape", [(1100, 1003), (40_000, 29), (5, 3), (600, 2000)])
def test_values(lines, function, shape):
    """Of so much memory that it is gone over once, and of less; however it lies."""
    capsule = _dynoc._graph_compile(tensors(*lines))
    x = np.random.default_rng(1).standard_normal((2 * shape[0], shape[1])) * 2 + 3
    for y in (x[: shape[0]], x[::2], x[::-2], np.asfortranarray(x[: shape[0]])):
        _, (got,) = _dynoc._graph_run(capsule, [y], [])[:2]
        np.testing.assert_allclose(got, function(y), rtol=2e-13)
