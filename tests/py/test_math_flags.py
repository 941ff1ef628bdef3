"""Mathematical functions raise the flags that eager's results imply and no others, on each instruction set that this machine has
and in the built-in tier, for infinities, nan, zeros, subnormal and huge numbers: those that generated code writes out itself
(ops_math.def), and those that it calls, whose lanes beyond a limit go elsewhere (DYN_VL)."""

import numpy as np
import pytest
from compare import dynoc
from logs import counted
from test_accuracy import BUILT_IN, ISAS, special

pytestmark = pytest.mark.any_interpreter

# Not arccosh and tan, which raise flags for nothing with AVX2 or less: for 1, huge numbers and nan, and for huge numbers.
NAMES = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "arcsin", "arccos", "arctan", "sinh", "cosh",
    "tanh", "arcsinh", "arctanh", "cbrt",
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


def said(function, x):
    """The kinds of floating-point error that a call makes."""
    found = set()
    with np.errstate(all="call", under="ignore", call=lambda kind, flags: found.add(kind)):
        function(x)
    return found


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
