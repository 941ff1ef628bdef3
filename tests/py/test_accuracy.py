"""Every row of the operator table that calls a vector function is within 4 ULP of the exact value, on each instruction set that
this machine has: over all exponents, with subnormal and huge arguments, beside multiples of pi/2, near 1, at the edges of
overflow and underflow. Where the result is no finite number, or zero, it is NumPy's. (One exception is the C library's own and
eager's too: beside the doubles that are nearest to a multiple of pi/2 its cos is 8 ULP off.)

float64 is held against mpmath; float32 and float16 against NumPy's float64, whose error is nothing in their units. All rows are
one function, so one kernel library is built for each dtype and instruction set; the built-in tier has its own, for the best set.
SOAK=1 takes many more points.
"""

import functools
import math
import os
import platform

import mpmath
import numpy as np
import pytest
from compare import dynoc
from element import ELEMENTWISE, VECTOR_CALL
from logs import counted

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

SOAK = os.environ.get("SOAK") == "1"
LIMITS = {np.float64: 4.0, np.float32: 4.0, np.float16: 0.51}  # halves are rounded from float32
WIDER = {np.float64: np.longdouble, np.float32: np.float64, np.float16: np.float64}
MP = mpmath.MPContext()
MP.prec = 120
# How to build for less than this processor has, best first.
LOWER = {"x86-64-v4": "", "x86-64-v3": "-mno-avx512f", "x86-64": "-mno-avx -mno-sse3"}


def instruction_sets():
    best = _dynoc.build_info()["isa"]
    levels = list(LOWER)
    return {name: LOWER[name] for name in levels[levels.index(best) :]} if platform.machine() == "x86_64" else {best: ""}


BUILT_IN = "built-in"
ISAS = {**instruction_sets(), BUILT_IN: ""}
ROWS = {row[1]: row[2] for row in _dynoc._op_table() if row[3] == ELEMENTWISE and row[10] & VECTOR_CALL}
del ROWS["erf"], ROWS["erfc"]  # NumPy has none: tests/py/test_torch_ops.py
UNARY = [n for n, arity in ROWS.items() if arity == 1]
BINARY = [n for n, arity in ROWS.items() if arity == 2 and n != "uniform_power"]
TRIG = ("sin", "cos", "tan")
NEAR_ONE = ("log", "log2", "log10", "arccosh", "arcsin", "arccos", "arctanh")
EXPONENTS = (0.5, 2.0, -1.0, 1.0, 0.0, 1 / 3, -2.5, 7.0, 1e-3, -40.0)  # of uniform_power: NumPy's short cuts, and others
EXACT = {
    "arcsin": MP.asin, "arccos": MP.acos, "arctan": MP.atan, "arcsinh": MP.asinh, "arccosh": MP.acosh, "arctanh": MP.atanh,
    "exp2": lambda x: MP.power(2, x), "log2": lambda x: MP.log(x, 2), "power": MP.power, "float_power": MP.power,
    "uniform_power": MP.power, "arctan2": MP.atan2, "cbrt": lambda x: MP.sign(x) * MP.cbrt(abs(x)),
    "logaddexp": lambda x, y: max(x, y) + MP.log1p(MP.exp(-abs(x - y))),
    "logaddexp2": lambda x, y: max(x, y) + MP.log1p(MP.power(2, -abs(x - y))) / MP.ln2,
}  # fmt: skip


# ---- points


def random_bits(rng, n, dtype):
    """Of every exponent, subnormal numbers among them."""
    size = np.dtype(dtype).itemsize
    x = rng.integers(0, 2 ** (8 * size), n, np.uint64).astype(f"u{size}").view(dtype)
    return np.where(np.isnan(x), dtype(np.nan), x)  # no signalling ones


def special(dtype):
    info = np.finfo(dtype)
    values = [0, info.smallest_subnormal, info.tiny, info.eps, 0.25, 0.5, 1, 1.5, 2, 3, 100.25, 1e4, info.max, np.inf]
    values += [np.nextafter(dtype(1), dtype(0)), np.nextafter(dtype(1), dtype(2)), np.nextafter(info.tiny, dtype(0))]
    return np.array([*values, *(-v for v in values), np.nan], dtype)


def beside(values, dtype, width=3):
    """The numbers and those next to them."""
    found = [np.asarray(values, dtype)]
    for _ in range(width):
        found = [np.nextafter(found[0], dtype(-np.inf)), *found, np.nextafter(found[-1], dtype(np.inf))]
    return np.concatenate(found)


def quarter_turns(rng, n, dtype):
    """Beside k * pi/2 for k of every size, and the numbers that are nearest to one: of doubles 6381956970095103 * 2**797."""
    most = np.log2(np.finfo(dtype).max) - 1
    k = [*range(1, 33), *(int(v) for v in np.floor(2.0 ** rng.uniform(0, most, n)))]
    with MP.workprec(1300):
        x = [float(v * MP.pi / 2) for v in k]
    nearest = [16367173.0 * 2.0**72, 6381956970095103.0 * 2.0**797]
    return beside([*x, *(v for v in nearest if v < np.finfo(dtype).max)], dtype, 1)


def edges(dtype):
    """Beside where exponentials overflow, become subnormal, and vanish."""
    info = np.finfo(dtype)
    powers = [np.log2(float(v)) for v in (info.max, info.tiny, info.smallest_subnormal)]
    powers += [powers[-1] - 1, powers[0] + 1, -powers[0]]
    return beside([p * scale for p in powers for scale in (1.0, np.log(2.0))], dtype)


def unary_points(name, dtype, n):
    rng = np.random.default_rng(len(name))
    widths = (1, 20, -float(np.log(np.finfo(dtype).tiny)))
    found = [special(dtype), edges(dtype), random_bits(rng, 2 * n, dtype), *(rng.uniform(-w, w, n) for w in widths)]
    found.append(rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-20, 0, n))
    if name in TRIG:
        found.append(quarter_turns(rng, n, dtype))
    if name in NEAR_ONE:
        found += [rng.choice([-1, 1], n) + rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-15, 0, n), beside([1, -1], dtype)]
    return (np.concatenate([x.astype(dtype) for x in found]),)


def pairs_for_power(rng, n, dtype):
    """Results over the whole range, from bases of every size, and near 1."""
    base = np.concatenate([np.abs(random_bits(rng, n, dtype)), 1 + rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-7, -1, n)])
    base = base.astype(dtype)
    result = rng.uniform(-1.1, 1.05, 2 * n) * np.log2(float(np.finfo(dtype).max))
    yield base, np.clip(result / np.log2(base.astype(np.float64)), np.finfo(dtype).min, np.finfo(dtype).max)
    yield rng.uniform(-9, 0, n), rng.integers(-40, 40, n)


def binary_points(name, dtype, n):
    rng = np.random.default_rng(len(name))
    s, x, small = special(dtype), random_bits(rng, n, dtype), rng.uniform(-3, 3, n)
    found = [(np.repeat(s, len(s)), np.tile(s, len(s))), (x, random_bits(rng, n, dtype)), (small, rng.uniform(-20, 20, n))]
    found += [(x, x * rng.uniform(-3, 3, n)), (small, small + rng.normal(size=n) * 10.0 ** rng.uniform(-12, 1, n))]
    found += pairs_for_power(rng, n, dtype) if "power" in name else ()
    return tuple(np.concatenate([pair[i].astype(dtype) for pair in found]) for i in (0, 1))


def points(name, dtype, n):
    if name == "uniform_power":
        return unary_points(name, dtype, n)
    return (unary_points if ROWS[name] == 1 else binary_points)(name, dtype, n)


# ---- the exact values


def by_mpmath(name, args, around):
    """As long doubles, where those are finite and not zero: their 11 bits more than a double's are enough to count ULP with."""
    function = EXACT.get(name) or getattr(MP, name)
    exact, columns = around.copy(), [a.tolist() for a in args]
    for i in np.flatnonzero(np.isfinite(around) & (around != 0) & np.isfinite(args).all(axis=0)):
        mantissa, exponent = MP.frexp(function(*(MP.mpf(c[i]) for c in columns)))
        high = float(mantissa)
        exact[i] = np.ldexp(np.longdouble(high) + np.longdouble(float(mantissa - high)), int(exponent))
    return exact


@functools.cache
def reference(name, dtype, n, exponent=None):
    """Points, their exact values, and eager's."""
    args = points(name, dtype, n)
    function = getattr(np, "power" if exponent is not None else name)
    with np.errstate(all="ignore"):
        given = args if exponent is None else (*args, np.full_like(args[0], exponent))
        exact = function(*(a.astype(WIDER[dtype]) for a in given))
        exact = by_mpmath(name, given, exact) if dtype is np.float64 else exact
        return args, exact, function(*args) if exponent is None else args[0] ** exponent


# ---- the comparison


def units(name, args, exact, dtype):
    """One in the last place of each result. log(exp(x) + exp(y)) cancels near zero: of its operands there."""
    info = np.finfo(dtype)
    size = np.abs(exact) + np.abs(np.maximum(*args)) if name.startswith("logaddexp") else np.abs(exact)
    size = np.minimum(size, info.max)
    return np.ldexp(exact.dtype.type(1), np.maximum(np.frexp(size)[1] - 1, info.minexp) - info.nmant)


def errors(name, args, exact, eager, got):
    """Of each result, in ULP; inf where it should have been eager's and isn't. What is too large is the next power of two."""
    dtype = got.dtype.type
    top = np.ldexp(exact.dtype.type(1), np.finfo(dtype).maxexp)
    countable = np.isfinite(exact) & (exact != 0) & ~np.isnan(eager)
    with np.errstate(all="ignore"):
        want, have = (np.clip(np.where(countable, x, 1), -top, top) for x in (exact, got.astype(exact.dtype)))
        error = np.abs(have - want) / units(name, args, want, dtype)
    cancels = name.startswith("logaddexp")  # the sign is lost too
    error[np.isnan(error) | ((np.signbit(want) != np.signbit(have)) & (not cancels))] = np.inf
    same = (got == eager) & (np.signbit(got) == np.signbit(eager)) | (np.isnan(got) & np.isnan(eager))
    error = np.where(countable, error, np.where(same, 0, np.inf))
    if name not in TRIG or dtype is not np.float64:
        return error
    return np.where((same | is_of_c(name, args[0], got)) & (np.abs(args[0]) > 1e250), 0, error)


def is_of_c(name, x, got):
    """Which results are C's own, who may be far off next to a pole. On AVX-512 NumPy's vectors aren't."""
    return np.array([np.isfinite(v) and getattr(math, name)(v) == r for v, r in zip(x, got, strict=True)])


def worst(name, args, exact, eager, got):
    """One line for the worst result, where that is too far away."""
    error = errors(name, args, exact, eager, got)
    i = int(np.argmax(error))
    if error[i] <= LIMITS[got.dtype.type]:
        return []
    where = ", ".join(repr(a[i]) for a in args)
    return [f"{name}({where}) = {got[i]!r}, not {exact[i]!r} (eager {eager[i]!r}): {error[i]:.2f} ULP"]


def optimised(text, parameters):
    space = {"np": np}
    exec(compile(f"def every_row({parameters}):\n    return {text}\n", __file__, "exec"), space)
    return dynoc.optimize(space["every_row"], wait=True, fullgraph=True)


def every(names):
    """One function of them all: argument i is the tuple of the operands of row i."""
    return optimised("(" + "".join(f"np.{name}(*a[{i}]), " for i, name in enumerate(names)) + ")", "a")


@pytest.fixture(params=ISAS)
def isa(request, monkeypatch):
    monkeypatch.setattr(dynoc.config, "cflags", ISAS[request.param])
    if request.param == BUILT_IN:
        monkeypatch.setattr(dynoc.config, "compiler", "/nonexistent/cc")
    with np.errstate(all="ignore"):
        yield request.param


@pytest.fixture(autouse=True)
def counted_before():
    native.before = counted("FLAGS")


def native(fast, isa=None):
    """Every call behind the first ran compiled code to its end."""
    tier = "builtin" if isa == BUILT_IN else "native"
    assert {e.tier for e in fast.entries} == {tier} and counted("FLAGS") == native.before


N = 20000 if SOAK else 200
DTYPES = (np.float64, np.float32, np.float16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("names", [UNARY, BINARY], ids=["unary", "binary"])
def test_within_four_units(isa, dtype, names):
    names = [n for n in names if not (n == "float_power" and dtype is not np.float64)]  # it computes in float64
    found = [reference(name, dtype, N if dtype is np.float64 else 5 * N) for name in names]
    fast = every(names)
    args = tuple(row[0] for row in found)
    fast(tuple(tuple(a[:3] for a in row) for row in args))
    far = [line for name, row, got in zip(names, found, fast(args), strict=True) for line in worst(name, *row, got)]
    assert not far, "\n".join(far)
    native(fast, isa)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_exponent_for_all(isa, dtype):
    fast = optimised("a ** e", "a, e")
    fast(np.ones(3, dtype), 0.3)
    far = []
    for e in EXPONENTS:
        found = reference("uniform_power", dtype, N // 4, float(dtype(e)))
        far += worst(f"power of {e}", *found, fast(*found[0], e))
    assert not far, "\n".join(far)
    native(fast, isa)


STEP = 257 if SOAK else 40009


def test_float32_from_end_to_end(isa):
    fast, far = every(UNARY), []
    fast(((np.ones(3, np.float32),),) * len(UNARY))
    for start in range(0, 2**32, STEP << 17):
        bits = np.arange(start, min(start + (STEP << 17), 2**32), STEP, np.uint64)
        x = bits.astype(np.uint32).view(np.float32)
        for name, got in zip(UNARY, fast(((x,),) * len(UNARY)), strict=True):
            function = getattr(np, name)
            far += worst(name, (x,), function(x.astype(np.float64)), function(x), got)
    assert not far, "\n".join(far)
    native(fast, isa)


COMPLEX = {
    "exp": MP.exp, "log": MP.log, "sin": MP.sin, "cos": MP.cos, "tan": MP.tan, "sqrt": MP.sqrt, "sinh": MP.sinh,
    "cosh": MP.cosh, "tanh": MP.tanh, "arcsin": MP.asin, "arccos": MP.acos, "arctan": MP.atan, "arcsinh": MP.asinh,
    "arccosh": MP.acosh, "arctanh": MP.atanh, "exp2": lambda z: MP.power(2, z), "log2": lambda z: MP.log(z) / MP.ln2,
    "log10": lambda z: MP.log(z) / MP.ln10,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_complex(dtype):
    """To units of the absolute value, or to eager's bits: exp2 is, as NumPy's, exp of a rounded product."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, N)) * 10.0 ** rng.uniform(-3, 0.9, (2, N))
    z = (x + 1j * y).astype(dtype)
    fast = every(list(COMPLEX))
    args = tuple((z,) for _ in COMPLEX)
    fast(args)
    for (name, function), got in zip(COMPLEX.items(), fast(args), strict=True):
        for x, y, eager in zip(z.tolist(), got, getattr(np, name)(z), strict=True):
            exact = function(MP.mpc(x))
            error = abs(MP.mpc(complex(y)) - exact) / float(np.spacing(np.abs(y)))
            assert error <= 4 or y == eager, f"{name}({x}) = {y}, not {complex(exact)}: {float(error):.2f} ULP"
    native(fast)
