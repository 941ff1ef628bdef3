"""A function gives the same bits whatever else its loop does, vectorised or not; conversions out of range are NumPy's; arguments
that are huge raise no flag for nothing."""

import numpy as np
import pytest
from compare import dynoc
from logs import counted

pytestmark = pytest.mark.any_interpreter

NAMES = ("exp", "sin", "cbrt", "log2", "tanh")



@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_beside_what_can_not_be_vectorised(name, dtype):
    """Powers of complex numbers and remainders keep compilers from making vectors of a loop."""
    function, x = getattr(np, name), np.linspace(0.25, 4, 100).astype(dtype)
    one = dynoc.optimize(lambda x: function(x), wait=True, fullgraph=True)
    two = dynoc.optimize(lambda x: (function(x), np.power(x, 1 + 2j), np.fmod(x, 0.3)), wait=True, fullgraph=True)
    for _ in range(2):
        a, b = one(x), two(x)[0]
    assert a.tobytes() == b.tobytes()


def test_one_value_for_all_lanes():
    """hypot of one number: an operand that no lane changes."""
    fast = dynoc.optimize(lambda x, y: np.hypot(x.sum(), y), wait=True, fullgraph=True)
    x = np.array([1.0])
    both = [fast(x, y) for _ in range(2) for y in (np.ones(40), np.ones(1), np.float64(1.0))]
    assert len({np.asarray(b).ravel()[0].tobytes() for b in both[3:]}) == 1


@pytest.mark.parametrize("flags", ["", "-mno-avx512f"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_to_uint64_out_of_range(dtype, flags, monkeypatch):
    monkeypatch.setattr(dynoc.config, "cflags", flags)
    fast = dynoc.optimize(lambda x: x.astype(np.uint64), wait=True, fullgraph=True)
    values = [0.0, -0.0, 1.5, -1.0, -1e4, np.nan, np.inf, -np.inf]
    values += [2.0**63, 2.0**63 + 4096, 1.8e19, 2.0**64, 1e30, -(2.0**63), -1e30]
    with np.errstate(all="ignore"):
        x = np.array(values).astype(dtype)
        for _ in range(2):
            assert fast(x).tolist() == x.astype(np.uint64).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_arguments_raise_no_flag(dtype):
    fast = dynoc.optimize(lambda x: (np.sin(x), np.cos(x), np.exp(-abs(x)), np.exp(-np.sqrt(np.inf * abs(x)))), wait=True)
    x = np.array([1e5, 1e8, 1e20, 1e30, -1e37, 3.0]).astype(dtype)
    fast(x)
    before = counted("FLAGS")
    for _ in range(2):
        fast(x)
    assert counted("FLAGS") == before


def test_signs_of_halves():
    """gcc 12 makes an instruction that it doesn't know of vectors of __builtin_signbitf."""
    x = np.linspace(-3, 3, 99).astype(np.float16)
    fast = dynoc.optimize(lambda x: (np.signbit(x), np.heaviside(x, 0.5), np.where(np.signbit(x), x, x * x)), wait=True)
    for _ in range(2):
        a, b, c = fast(x)
    assert a.tolist() == np.signbit(x).tolist() and b.tolist() == np.heaviside(x, 0.5).tolist()
    assert counted("COMPILER_FAILED") == 0 and c.tolist() == np.where(np.signbit(x), x, x * x).tolist()
