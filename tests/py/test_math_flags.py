"""Mathematical functions raise the flags that eager's results imply and no others, on each instruction set that this machine has
and in the built-in tier, for infinities, nan, zeros, subnormal and huge numbers: those that generated code writes out itself
(ops_math.def), and those that it calls, whose lanes beyond a limit go elsewhere (DYN_VL, DYN_VM)."""

import numpy as np
import pytest
from compare import dynoc
from logs import counted
from test_accuracy import BUILT_IN, ISAS, special

pytestmark = pytest.mark.any_interpreter

NAMES = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "arcsin", "arccos", "arctan", "sinh", "cosh",
    "tanh", "arcsinh", "arctanh", "cbrt", "tan", "arccosh",
)  # fmt: skip


@pytest.fixture(params=ISAS)
def isa(request, monkeypatch):
    monkeypatch.setattr(dynoc.config, "cflags", ISAS[request.param])
    if request.param == BUILT_IN:
        monkeypatch.setattr(dynoc.config, "compiler", "/nonexistent/cc")


def points(dtype):
    top = np.log(np.finfo(dtype).max)
    return np.concatenate([special(dtype), np.array([top * 0.999, top * 1.001, -top * 1.2, -top, -1e300, 1e300]).clip(
        np.finfo(dtype).min, np.finfo(dtype).max).astype(dtype)])  # fmt: skip


def said(function, *x):
    """The kinds of floating-point error that a call makes."""
    found = set()
    with np.errstate(all="call", under="ignore", call=lambda kind, flags: found.add(kind)):
        function(*x)
    return found


def quiet(function, *x):
    with np.errstate(all="ignore"):
        return function(*x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_flags_are_those_of_the_results(isa, name, dtype):
    function = getattr(np, name)
    fast = dynoc.optimize(lambda x: function(x), wait=True, fullgraph=True)
    fast(np.full(20, 0.5, dtype))
    for value in points(dtype):
        x = np.full(20, value)
        before, kinds = counted("FLAGS"), said(function, x)
        assert said(fast, x) == kinds, value
        assert counted("FLAGS") - before == bool(kinds), value


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["arctan2", "hypot", "power", "float_power"])
def test_flags_of_two_arguments_are_those_of_the_results(isa, name, dtype):
    function = getattr(np, name)
    fast = dynoc.optimize(lambda x, y: function(x, y), wait=True, fullgraph=True)
    fast(np.full(20, 0.5, dtype), np.full(20, 0.75, dtype))
    few = points(dtype)
    for first in few:
        for second in few:
            if name.endswith("power") and np.isinf(second):  # C leaves it open whether that raises: NumPy does on AVX-512
                continue
            x, y = np.full(20, 0.5, dtype), np.full(20, 0.75, dtype)
            x[7], y[7] = first, second
            before, kinds = counted("FLAGS"), said(lambda x: function(x, y), x)
            assert said(lambda x: fast(x, y), x) == kinds, (first, second)
            assert counted("FLAGS") - before == bool(kinds), (first, second)


def test_a_point_in_the_middle_raises_nothing_where_arguments_are_written():
    """Eager can't be asked once more there: the flags of the kernel are all that is known."""

    def turn(xy, centre):
        x, y = xy.T
        angle = np.arctan2(y - centre, x - centre)
        xy[..., 0] = np.hypot(x - centre, y - centre)
        xy[..., 1] = angle

    def grid():
        return np.indices((20, 20), dtype=float).reshape(2, -1).T

    fast, expected = dynoc.optimize(turn, wait=True, fullgraph=True), grid()
    turn(expected, 10.0)
    for _ in range(3):
        xy = grid()
        with np.errstate(all="raise", under="ignore"):
            fast(xy, 10.0)
        np.testing.assert_allclose(xy, expected, rtol=1e-13, atol=1e-13)


# ---- what isn't chosen raises flags all the same, also where the processor has operations for chosen lanes alone

CHOICES = {
    "divide": lambda x, y: np.where(y != 0, x / y, 0),
    "divide_other_arm": lambda x, y: np.where(y == 0, 1, x / y),
    "both_arms": lambda x, y: np.where(y > 1, x / y, y / y),
    "reciprocal": lambda x, y: np.where(y != 0, 1 / y, x),
    "power": lambda x, y: np.where(y > 0, y**-1.0, 0),
    "square_root": lambda x, y: np.where(y >= 0, np.sqrt(y), 0),
    "logarithm": lambda x, y: np.where(y > 0, np.log(y), 0),
    "multiply": lambda x, y: np.where(y < 0, x * np.finfo(x.dtype).max, 0),
    "subtract": lambda x, y: np.where(y < 5, np.inf - np.where(y < 5, 1, np.inf).astype(x.dtype), 0),
    "nested": lambda x, y: np.where(y > 0, np.where(y > 2, x / y, 1), 0),
    "reduced": lambda x, y: np.where(y != 0, x / y, 0).sum(),
    "rows": lambda x, y: np.where(y != 0, x / y, 0).reshape(-1, 5).max(axis=1),
    "columns": lambda x, y: np.where(y != 0, x / y, 0).reshape(5, -1).sum(axis=0),
    "select": lambda x, y: np.select([y > 0, y < 0], [x / y, y], 0),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.complex128])
@pytest.mark.parametrize("name", CHOICES)
def test_choices_raise_the_flags_of_all_elements(isa, name, dtype):
    function = CHOICES[name]
    fast = dynoc.optimize(function, wait=True)
    for n in (5, 100):
        x, y = np.arange(1, n + 1).astype(dtype), (np.arange(n) - 1).astype(dtype)
        if np.iscomplexobj(x) and name == "multiply":
            continue  # the greatest complex number
        for first, second in ((x, y), (x, abs(y) + 1), (x, y)):
            assert said(fast, first, second) == said(function, first, second)
            near = 8 * np.finfo(dtype).eps  # of logarithms, and of sums of halves
            np.testing.assert_allclose(quiet(fast, first, second), quiet(function, first, second), near, strict=True)


def test_choices_of_tensors_are_not_made_to_raise():
    """PyTorch has no warnings, so that nobody pays for flags."""
    torch = pytest.importorskip("torch")
    fast = dynoc.optimize(lambda x, y: torch.where(y != 0, x / y, 0.0), wait=True)
    asked = dynoc.optimize(lambda x, y: np.where(y != 0, x / y, 0.0), wait=True)
    fast(torch.ones(40), torch.ones(40))
    asked(np.ones(40), np.ones(40))
    assert ["dyn_need" in f.entries[0].source for f in (fast, asked)] == [False, True]
