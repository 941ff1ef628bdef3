"""fmod, %, // and divmod of floats: NumPy's bits and warnings, whatever the quotient, on each instruction set."""

import warnings

import numpy as np
import pytest
from compare import dynoc
from logs import counted

pytestmark = pytest.mark.any_interpreter

SETS = ["", "-mno-avx512f", "-mno-avx -mno-sse3", "built-in"]
FUNCTIONS = {
    "fmod": lambda x, y: np.fmod(x, y),
    "%": lambda x, y: x % y,
    "//": lambda x, y: x // y,
    "all": lambda x, y: (*divmod(x, y), np.fmod(y, x), x % 0.7, x // -3.5, 2.5 % y),
}


@pytest.fixture(params=SETS)
def instructions(request, monkeypatch):
    if request.param == "built-in":
        monkeypatch.setattr(dynoc.config, "compiler", "/nonexistent/cc")
    else:
        monkeypatch.setattr(dynoc.config, "cflags", request.param)
    return request.param


def awkward(rng, n, dtype):
    """Any bits, whole numbers, their multiples, numbers of one size, and what is special."""
    info = np.finfo(dtype)
    bits = rng.integers(0, 256, n * np.dtype(dtype).itemsize, np.uint8).view(dtype)
    near, whole = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4, n), rng.integers(-50, 50, n)
    with np.errstate(all="ignore"):
        x = np.choose(rng.integers(0, 4, n), [bits, near.astype(dtype), whole.astype(dtype), (near * whole).astype(dtype)])
        least = info.smallest_subnormal
        special = np.array([0, -0.0, np.inf, -np.inf, np.nan, info.tiny, least, -info.max, info.max, info.eps], dtype)
    places = rng.integers(0, n, n // 10)
    x[places] = rng.choice(special, len(places))
    return x.astype(dtype)


def same_bits(got, want):
    if got.dtype != want.dtype or not np.array_equal(np.isnan(got), np.isnan(want)):
        return False
    return got[~np.isnan(got)].tobytes() == want[~np.isnan(want)].tobytes()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits(name, dtype, instructions):
    fn, rng = FUNCTIONS[name], np.random.default_rng(4)
    fast = dynoc.optimize(fn, wait=True, fullgraph=True)
    with np.errstate(all="ignore"):
        for n in (64, 1, 3, 7, 16, 17, 33, 1000, 5003, 5003):
            x, y = awkward(rng, max(n, 10), dtype)[:n], awkward(rng, max(n, 10), dtype)[:n]
            got, want = fast(x, y), fn(x, y)
            for a, b in zip(*[r if type(r) is tuple else (r,) for r in (got, want)], strict=True):
                assert same_bits(a, b), (x, y)
        strided = awkward(rng, 3000, dtype)[::3]
        assert same_bits(np.atleast_2d(fast(strided, strided[::-1])[0]), np.atleast_2d(fn(strided, strided[::-1])[0]))
    assert fast.entries[0].tier == ("builtin" if instructions == "built-in" else "native")


@pytest.mark.parametrize("name", ["fmod", "%", "//"])
def test_warnings(name, instructions):
    """What is raised for one pair of numbers, among many for which nothing is."""
    fn, numbers = FUNCTIONS[name], (0.0, -0.0, 1.0, -7.5, np.inf, -np.inf, np.nan, 1e308, -1e-308, 5e-324)
    fast = dynoc.optimize(fn, wait=True)
    fast(np.ones(40), np.ones(40))
    before = counted("FLAGS")
    for a in numbers:
        for b in numbers:
            x, y = np.full(40, 5.0), np.full(40, 3.0)
            x[17], y[17] = a, b
            seen = []
            for f in (fast, fn):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    f(x, y)
                seen.append([str(w.message) for w in caught])
            assert seen[0] == seen[1], (a, b)
    assert counted("FLAGS") > before
