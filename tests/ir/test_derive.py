"""Gradients of graphs: the pass from the derivative column of the operator table, and each of its rows against differences."""

import numpy as np
import pytest

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

HEAD = """graph step
s0: int = dim(x, 0) hint 4
s1: int = dim(x, 1) hint 3
"""


def made(text):
    """A graph that can be run: in the built-in tier, or compiled where it has no kernel at all."""
    try:
        return _dynoc._graph_builtin(text)
    except RuntimeError:
        return _dynoc._graph_compile(text)


def run(unit, *arrays):
    status, outputs = _dynoc._graph_run(unit, list(arrays), [])
    assert status == 0
    return outputs


def differences(unit, arrays, weights, which, step=1e-6):
    """The gradient of sum(weights * outputs) with regard to one of the arrays, by central differences."""
    gradient = np.zeros_like(arrays[which])
    for at in np.ndindex(arrays[which].shape):
        sides = []
        for sign in (1, -1):
            moved = [a.copy() for a in arrays]
            moved[which][at] += sign * step
            sides.append(sum((w * o).sum() for w, o in zip(weights, run(unit, *moved), strict=True)))
        gradient[at] = (sides[0] - sides[1]) / (2 * step)
    return gradient


def check(text, *arrays, inputs=None):
    """What `_derive_text` makes of the graph gives the differences, for each input or those of `inputs`."""
    rng = np.random.default_rng(0)
    unit = made(text)
    outputs = run(unit, *arrays)
    weights = [rng.normal(size=o.shape) for o in outputs]
    inputs = range(len(arrays)) if inputs is None else inputs
    gradients = run(made(_dynoc._derive_text(text)), *arrays, *weights)
    assert len(gradients) == len(inputs)
    for which, gradient in zip(inputs, gradients, strict=True):
        expected = differences(unit, list(arrays), weights, which)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


# ---- rows

ELEMENTWISE = 1
FLOAT_RESULTS = (1, 2, 5)  # the dtype rules SAME, FLOAT and WHERE
ROWS = {r[1]: r for r in _dynoc._op_table() if r[3] == ELEMENTWISE and r[4] in FLOAT_RESULTS and r[8] is not None}
NOT_OF_FLOATS = {"int_power", "clip", "ldexp"}  # an operand of another kind: of numbers in other tests
DOMAIN = {  # where a row's value is a number, away from where it has no derivative
    "arcsin": (-0.9, 0.9), "arccos": (-0.9, 0.9), "arctanh": (-0.9, 0.9), "arccosh": (1.2, 3.0), "log": (0.2, 3.0),
    "log2": (0.2, 3.0), "log10": (0.2, 3.0), "log1p": (-0.5, 3.0), "sqrt": (0.2, 3.0), "power": (0.3, 2.5),
    "uniform_power": (0.3, 2.5), "scalar_power": (0.3, 2.5), "float_power": (0.3, 2.5),
    "cbrt": (0.2, 3.0), "fmod": (2.3, 2.9), "remainder": (2.3, 2.9),
    "floor_divide": (2.3, 2.9), "modf_fraction": (0.1, 0.9), "modf_whole": (0.1, 0.9), "spacing": (1.1, 1.9),
    "arctan2": (0.2, 2.0),
    "nextafter": (1.1, 1.9), "frexp_exponent": (0.6, 0.9), "floor": (0.1, 0.9), "ceil": (0.1, 0.9), "rint": (0.1, 0.4),
    "trunc": (0.1, 0.9),
    "divide": (0.4, 2.0), "reciprocal": (0.4, 2.0), "tan": (-1.0, 1.0), "hypot": (0.3, 2.0),
}  # fmt: skip


def of_row(name, shapes):
    arity = ROWS[name][2]
    lines = ["%0: f64[s0, s1] C = input(x)"]
    lines += [f"%{k}: f64[{shapes[k]}] C = input(y{k})" for k in range(1, arity)]
    if name in ("where", "keep"):
        lines.append("%3: bool[s0, s1] C = greater(%0, 0) compute f64")
        operands = "%3, %1, %2"
    else:
        operands = ", ".join(f"%{k}" for k in range(arity))
    lines.append(f"%{len(lines)}: f64[s0, s1] C = {name}({operands})")
    return HEAD + "\n".join(lines) + f"\noutputs %{len(lines) - 1}\n"


def array_for(name, k, shape, rng):
    low, high = DOMAIN.get(name, (-2.0, 2.0))
    if k == 1 and name in ("fmod", "remainder", "floor_divide"):
        low, high = 1.2, 1.8
    return rng.uniform(low, high, shape)


@pytest.mark.parametrize("name", sorted(ROWS.keys() - NOT_OF_FLOATS))
@pytest.mark.parametrize("broadcast", [False, True])
def test_a_row_against_differences(name, broadcast):
    arity = ROWS[name][2]
    if broadcast and arity == 1:
        pytest.skip("nothing to broadcast with")
    rng = np.random.default_rng(len(name))
    second = ("s1", (3,)) if broadcast else ("s0, s1", (4, 3))
    third = ("s0, 1", (4, 1)) if broadcast else ("s0, s1", (4, 3))
    shapes = [("s0, s1", (4, 3)), second, third][:arity]
    arrays = [array_for(name, k, shape, rng) for k, (_, shape) in enumerate(shapes)]
    text = of_row(name, [s for s, _ in shapes])
    with_gradient = [1, 2] if name in ("where", "keep") else range(arity)
    check(text, *arrays, inputs=with_gradient)


def test_every_float_row_says_what_its_derivative_is():
    """Or that there is none that is right for every use of it."""
    for name, row in ROWS.items():
        assert len(row[8].split(";")) == row[2], name


# ---- the pass

GRAPHS = {
    "a sum over an axis": """%0: f64[s0, s1] C = input(x)
%1: f64[s0] C = sum(%0) {0, 1}
%2: f64[s0] C = square(%1)
%3: f64[s0, 1] C = sum(%0) {1, 1}
outputs %2, %3
""",
    "a sum over all axes": """%0: f64[s0, s1] C = input(x)
%1: f64[] C = sum(%0) {0, 0, 1}
%2: f64[s0, s1] C = multiply(%0, %1)
outputs %2
""",
    "views": """%0: f64[s0, s1] C = input(x)
%1: f64[s1, s0] <1 0> = permute(%0) {1, 0} view
%2: f64[s1, 2] <1 0> = slice(%1, 0, s1, 1, 1, 3, 1) {0, 0} view
%3: f64[s1] C = slice(%1, 0, s1, 1, 3) {0, 1} view
%4: f64[s1, 2] <1 0> = exp(%2)
%5: f64[s1] C = sin(%3)
%6: f64[12] C = reshape(%0) view
%7: f64[12] C = tanh(%6)
outputs %4, %5, %7
""",
    "products, extremes and running sums": """%0: f64[s0, s1] C = input(x)
%1: f64[s0] C = prod(%0) {0, 1}
%2: f64[1, s1] C = max(%0) {1, 0}
%3: f64[] C = min(%0) {0, 0, 1}
%4: f64[s0, s1] C = cumsum(%0) {1, 0}
%5: f64[12] C = cumsum(%0) {-1, 0}
%6: f64[s0, s1] C = square(%4)
%7: f64[12] C = square(%5)
outputs %1, %2, %3, %6, %7
""",
    "a diagonal": """%0: f64[s0, s1] C = input(x)
%1: f64[3] C = affine(%0, 0, 0) {1, 1} view
%2: f64[3] C = square(%1)
outputs %2
""",
    "values that are overwritten": """%0: f64[s0, s1] C = input(x)
%1: f64[s0, s1] C = copy(%0)
%2: f64[s0, s1] C = multiply(%1, %1)
%3: f64[s0, s1] C = sin(%1)
%4: f64[s0, s1] C = store(%1, %3)
%5: f64[2, s1] C = slice(%1, 1, 3, 1, 0, s1, 1) {0, 0} view
%6: f64[2, s1] C = exp(%5)
%7: f64[2, s1] C = store(%5, %6)
%8: f64[s0, s1] C = multiply(%1, %2)
%9: f64[s0, s1] C = store(%1, 2)
outputs %8
""",
    "slices that overlap": """%0: f64[s0, s1] C = input(x)
%1: f64[3, s1] C = slice(%0, 0, 3, 1, 0, s1, 1) {0, 0} view
%2: f64[3, s1] C = slice(%0, 1, 4, 1, 0, s1, 1) {0, 0} view
%3: f64[3, s1] C = multiply(%1, %2)
outputs %3
""",
    "parts that are joined": """%0: f64[s0, s1] C = input(x)
%1: f64[s0, 6] C = full(_)
%2: f64[s0, s1] C = slice(%1, 0, s0, 1, 0, 3, 1) {0, 0} view
%3: f64[s0, s1] C = store(%2, %0)
%4: f64[s0, s1] C = slice(%1, 0, s0, 1, 3, 6, 1) {0, 0} view
%5: f64[s0, s1] C = sin(%0)
%6: f64[s0, s1] C = store(%4, %5)
%7: f64[s0, 6] C = square(%1)
outputs %7
""",
    "memory that is written twice": """%0: f64[s0, s1] C = input(x)
%1: f64[s0, s1] C = full(1.5)
%2: f64[s0, s1] C = store(%1, %0)
%3: f64[2, s1] C = slice(%1, 1, 3, 1, 0, s1, 1) {0, 0} view
%4: f64[s1] C = sum(%0) {0, 0}
%5: f64[2, s1] C = store(%3, %4)
%6: f64[s0, s1] C = exp(%1)
outputs %6, %1
""",
    "a lookup": """%0: f64[s0, s1] C = input(x)
%1: i64[3] C = iota()
%2: i64[3] C = floor_divide(%1, 2)
%3: f64[3, s1] C = gather(%0, %2) {0}
%4: f64[3, s1] C = square(%3)
outputs %4
""",
    "a lower precision between": """%0: f64[s0, s1] C = input(x)
%1: f64[s0, s1] C = multiply(%0, 0.5)
%2: f64[s0, s1] C = copy(%1)
%3: f64[s0, s1] C = power(%2, 3)
outputs %3
""",
    "bounds": """%0: f64[s0, s1] C = input(x)
%1: f64[s0, s1] C = clip(%0, -0.5, 0.75)
%2: f64[s0, s1] C = multiply(%1, %0)
outputs %2
""",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_against_differences(name):
    check(HEAD + GRAPHS[name], np.random.default_rng(1).uniform(-2, 2, (4, 3)))


@pytest.mark.parametrize("name", [name for name in GRAPHS if name != "a lookup"])
def test_a_gradient_of_a_gradient_against_differences(name):
    rng = np.random.default_rng(2)
    arrays = [rng.uniform(-1, 1, (4, 3))]
    text = HEAD + GRAPHS[name]
    for order in range(2):
        outputs = run(made(text), *arrays)
        arrays += [rng.normal(size=o.shape) for o in outputs]
        text = _dynoc._derive_text(text).replace("input(g", f"input(h{order}_")
    unit = made(text)
    weights = [rng.normal(size=o.shape) for o in run(unit, *arrays)]
    gradients = run(made(_dynoc._derive_text(text)), *arrays, *weights)
    expected = [differences(unit, arrays, weights, i) for i in range(len(arrays))]
    gradients, expected = ([a for a in each if np.abs(a).max() > 1e-6] for each in (gradients, expected))
    assert len(gradients) == len(expected) > 0
    for gradient, difference in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, difference, rtol=1e-4, atol=1e-5)


def test_its_text():
    graph = HEAD + "%0: f64[s0, s1] C = input(x)\n%1: f64[s1] C = input(w)\n%2: f64[s0, s1] C = multiply(%0, %1)\n"
    graph += "%3: f64[s0, s1] C = tanh(%2)\noutputs %3\n"
    lines = _dynoc._derive_text(graph).splitlines()
    assert [line.split(": ", 1)[1] for line in lines if line.startswith("%")] == [
        "f64[s0, s1] C = input(x)",
        "f64[s1] C = input(w)",
        "f64[s0, s1] C = input(g0)",
        "f64[s0, s1] C = multiply(%0, %1)",
        "f64[s0, s1] C = tanh(%3)",
        "f64[s0, s1] C = square(%4)",
        "f64[s0, s1] C = subtract(1.0, %5)",
        "f64[s0, s1] C = multiply(%2, %6)",
        "f64[s0, s1] C = multiply(%7, %1)",
        "f64[s0, s1] C = multiply(%7, %0)",
        "f64[s1] C = sum(%9) {0, 0}",
    ]


def test_what_does_not_depend_on_an_input_has_no_gradient():
    graph = HEAD + "%0: f64[s0, s1] C = input(x)\n%1: f64[s1] C = input(w)\n%2: f64[s0, s1] C = sin(%0)\noutputs %2\n"
    assert "cos" in _dynoc._derive_text(graph) and "outputs %4\n" in _dynoc._derive_text(graph)


@pytest.mark.parametrize(
    "node, says",
    [
        ("%1: f64[s0, s1] C = frexp_mantissa(%0)", "(frexp_mantissa): no derivative is known"),
        ("%1: f64[s0, s1] C = cumprod(%0) {1, 0}", "(cumprod): no derivative is known"),
        ("%1: f64[3, 2, s1] <2 0 1> = affine(%0, 0, 0) {1, 1, 0, 0, 0, 1} view", "(affine): no derivative is known of windows"),
    ],
)
def test_an_operator_without_a_derivative_is_named(node, says):
    with pytest.raises(ValueError, match="^%1 " + __import__("re").escape(says)):
        _dynoc._derive_text(HEAD + "%0: f64[s0, s1] C = input(x)\n" + node + "\noutputs %1\n")
