"""Every ufunc against NumPy, generated from what NumPy has: dtypes and pairs of them, awkward values, layouts, forms of the call.

Many ufuncs share one optimised function, so that few kernels are compiled; where warnings are compared each has its own. With
SOAK=1 every ufunc meets every pair of dtypes, else each pair some of them.
"""

import itertools
import os
import warnings

import numpy as np
import pytest
from case import Call
from compare import aliasing_of, compare_values, dynoc, run
from logs import counted

pytestmark = pytest.mark.any_interpreter

SOAK = os.environ.get("SOAK") == "1"
DTYPES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
# Products of matrices have other shapes; isnat takes datetimes only.
NOT_ELEMENTWISE = {"matmul", "vecdot", "matvec", "vecmat", "isnat"}
ALL = {f.__name__: f for n in dir(np) if isinstance(f := getattr(np, n), np.ufunc) and f.__name__ not in NOT_ELEMENTWISE}
UNARY = sorted(n for n, f in ALL.items() if f.nin == 1)
BINARY = sorted(n for n, f in ALL.items() if f.nin == 2)
# Functions that are not NumPy's to the bit: within some units of the last place.
NEAR = {
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "cos", "cosh", "exp", "exp2", "expm1",
    "float_power", "hypot", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "power", "sin", "sinh", "tan", "tanh",
}  # fmt: skip
# NumPy's own loops differ in the sign of a zero from element to element.
ZERO_SIGN_OPEN = {"fmax", "fmin", "maximum", "minimum"}


def awkward(dtype):
    dt = np.dtype(dtype)
    if dt.kind == "b":
        return np.array([False, True, True])
    if dt.kind == "f":
        info = np.finfo(dt)
        values = [0.0, -0.0, 1, -1, 0.5, -0.5, 2, 3.5, -7.25, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny]
        return np.array([*values, info.smallest_subnormal, -info.smallest_subnormal, info.eps, 100.25, 1e10, 0.99, 1.01], dt)
    low, high = int(np.iinfo(dt).min), int(np.iinfo(dt).max)
    wanted = (0, 1, 2, 3, 5, 7, 8, 31, 63, 64, 100, high, high - 1, low, low + 1, -1, -2, -3, -7, -8)
    return np.array(sorted({max(low, min(high, v)) for v in wanted}), dt)


def function(lines, parameters, result):
    """A function made of text."""
    text = f"def made({parameters}):\n" + "".join(f"    {line}\n" for line in lines) + f"    return {result}\n"
    space = {"np": np}
    exec(compile(text, __file__, "exec"), space)
    return space["made"]


def accepts(name, *dtypes):
    """Has the ufunc a loop for these dtypes whose result is captured? (Halves and objects are the dtype tests'.)"""
    f = ALL[name]
    try:
        loop = f.resolve_dtypes((*map(np.dtype, dtypes), *[None] * f.nout))
    except TypeError:
        return False
    return all(d.char in "?bhilqBHILQfd" for d in loop)


def safe(name, a, b=None):
    """Arguments that do not raise: integer powers have no negative exponents."""
    if name == "power" and b is not None and np.result_type(a, b).kind in "iu" and b.dtype.kind == "i":
        return a, np.abs(b // 2)
    return (a,) if b is None else (a, b)


def open_sign(value):
    """The value with +0.0 for -0.0."""
    return value + 0.0 if np.asarray(value).dtype.kind == "f" else value


def near_zero(a, b):
    """log(exp(a) + exp(b)) loses its digits near zero, NumPy's and ours alike."""
    a, b = np.asarray(a), np.asarray(b)
    return np.allclose(a, b, rtol=32 * np.finfo(a.dtype).eps, atol=8 * np.finfo(a.dtype).eps, equal_nan=True)


def same(name, plain, fast, report):
    name = name.split()[0]
    if name in ZERO_SIGN_OPEN:
        plain, fast = open_sign(plain), open_sign(fast)
    if name.startswith("logaddexp") and np.asarray(plain).dtype.kind == "f" and near_zero(plain, fast):
        fast = plain if type(plain) is type(fast) else fast
    compare_values(plain, fast, "near" if name in NEAR else "bits", name, report)


def compare_calls(names, plain, fast, make, turns=2):
    """Both functions on the same arguments: results one by one, arguments after the call, and what shares memory."""
    for _ in range(turns):
        found = []
        with np.errstate(all="ignore"):
            a, b = (run(f, Call(*make()), __file__) for f in (plain, fast))
        assert a.error == b.error, (names, b.error, a.error)
        if a.error is None:
            for name, x, y in zip(names, a.result, b.result, strict=True):
                same(name, x, y, found.append)
        compare_values(a.call.args, b.call.args, "near" if NEAR & set(names) else "bits", "arguments", found.append)
        if aliasing_of(a) != aliasing_of(b):
            found.append("other arrays share memory")
        assert not found, "\n".join(found)


def native(fast):
    assert fast.entries and all(e.tier == "native" for e in fast.entries)
    assert sum(e.hits for e in fast.entries) > 0


# ---- dtypes


@pytest.mark.parametrize("dtype", DTYPES)
def test_unary(dtype):
    names = [n for n in UNARY if accepts(n, dtype)]
    plain = function([], "a", "(" + "".join(f"np.{n}(a), " for n in names) + ")")
    fast = dynoc.optimize(plain, wait=True, fullgraph=True)
    compare_calls(names, plain, fast, lambda: (awkward(dtype),), turns=3)
    if dtype != "u8":  # a scalar argument of uint64 is no symbol
        compare_calls(names, plain, fast, lambda: (awkward(dtype)[1],))
    native(fast)


def grid(a, b):
    x, y = np.meshgrid(awkward(a), awkward(b))
    return np.ascontiguousarray(x.ravel()), np.ascontiguousarray(y.ravel())


def pair_function(names, a, b):
    lines = ["c = abs(b // 2)"] if "power" in names and len(safe("power", *grid(a, b))) and a[0] in "iu?" and b[0] == "i" else []
    second = {"power": "c" if lines else "b"}
    return function(lines, "a, b", "(" + "".join(f"np.{n}(a, {second.get(n, 'b')}), " for n in names) + ")")


def usable(name, a, b):
    """Signed exponents of integers may raise: they are refused, and tested apart."""
    return accepts(name, a, b) and not (name == "power" and a[0] in "iu?" and b[0] == "i")


@pytest.mark.parametrize("dtype", DTYPES)
def test_binary_of_one_dtype(dtype):
    names = [n for n in BINARY if usable(n, dtype, dtype)]
    plain = function([], "a, b", "(" + "".join(f"np.{n}(a, b), " for n in names) + ")")
    fast = dynoc.optimize(plain, wait=True, fullgraph=True)
    compare_calls(names, plain, fast, lambda: grid(dtype, dtype))
    compare_calls(names, plain, fast, lambda: (grid(dtype, dtype)[0].reshape(-1, 1), awkward(dtype)))
    native(fast)


@pytest.mark.parametrize("dtype", DTYPES)
def test_binary_of_two_dtypes(dtype):
    """The dtype against each other one, all in one function."""
    others = [d for d in DTYPES if d != dtype]
    names, calls, turn = [], [], itertools.count(DTYPES.index(dtype))
    for k, other in enumerate(others):
        fitting = [n for n in BINARY if usable(n, dtype, other)]
        chosen = fitting if SOAK else {fitting[(5 * next(turn) + 7 * i) % len(fitting)] for i in range(5)} if fitting else []
        for n in sorted(chosen):
            names.append(f"{n} {dtype} {other}")
            calls.append(f"np.{n}(a[:, None], b[{k}])")
    for at in range(0, len(names), 60):
        plain = function([], "a, b", "(" + ", ".join(calls[at : at + 60]) + ",)")
        fast = dynoc.optimize(plain, wait=True, fullgraph=True)
        compare_calls(names[at : at + 60], plain, fast, lambda: (awkward(dtype), [awkward(d) for d in others]))
        native(fast)


# ---- warnings


def warned(fn, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = fn(*args)
    return result, [(w.category, str(w.message)) for w in caught]


INTEGERS_WARN = ("reciprocal", "floor_divide", "remainder", "fmod", "divmod")


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i8", "u2"])
def test_warnings(dtype):
    """Each ufunc by itself, on each value and pair of values: a flag that stays away would be a warning that is lost."""
    values = awkward(dtype)
    for name in (UNARY + BINARY) if dtype[0] == "f" else INTEGERS_WARN:
        unary = ALL[name].nin == 1
        if dtype == "f4" and "?" in ALL[name].types[-1] and not SOAK:
            continue
        if not accepts(name, *[dtype] * ALL[name].nin):
            continue
        plain = function([], "a" if unary else "a, b", f"np.{name}(a)" if unary else f"np.{name}(a, b)")
        fast = dynoc.optimize(plain, wait=True, fullgraph=True)
        lone = [np.repeat(v, 2) for v in values]
        sets = [(v,) for v in lone] if unary else [(v, lone[j]) for i, v in enumerate(lone) for j in range(i % 4, len(lone), 4)]
        warned(fast, *sets[0])
        for args in sets:
            if name in ("power", "float_power") and np.isinf(args[1][0]):  # C leaves it open: NumPy warns on AVX-512
                continue
            want, got = warned(plain, *args), warned(fast, *args)
            assert got[1] == want[1], (name, args, got, want)


def test_warnings_of_a_call_that_writes_its_input():
    def divide(a, b):
        np.divide(a, b, out=a)
        return a

    fast = dynoc.optimize(divide, wait=True, fullgraph=True)
    for b in (1.0, 0.0, 1.0):
        for _ in range(2):
            (x, said), (y, heard) = (warned(f, np.array([1.0, 2.0]), np.array([2.0, b])) for f in (divide, fast))
            assert x.tobytes() == y.tobytes() and said == heard


def test_masked_operators_raise_no_flags():
    """Elements that where= leaves out are no reason to call eager again."""

    def masked(a, b):
        quotient = np.divide(a, b, out=np.zeros_like(a), where=b != 0)
        logarithm = np.log(a, out=np.full_like(a, -1.0), where=a > 0)
        sums = np.logaddexp(np.where(b == 0, -np.inf, a), -np.inf)
        return quotient, logarithm, sums, np.clip(np.where(b == 0, np.nan, a), 0, 1)

    fast = dynoc.optimize(masked, wait=True, fullgraph=True)
    args, before = (np.linspace(-1, 1, 101), np.resize([0.0, 1.0, 2.0], 101)), counted("FLAGS")
    for _ in range(3):
        assert warned(fast, *args)[1] == []
    assert counted("FLAGS") == before


# ---- layouts


def unaligned(a):
    return np.frombuffer(b"x" + a.tobytes(), dtype=a.dtype, offset=1)[: a.size].reshape(a.shape)


def readonly(a):
    a.flags.writeable = False
    return a


LAYOUTS = {
    "contiguous": lambda a: (a[:6].reshape(2, 3), a[6:12].reshape(2, 3)),
    "one axis": lambda a: (a[:7], a[7:14]),
    "strided": lambda a: (a[::2][:4], a[1::3][:4]),
    "reversed": lambda a: (a[::-1], a),
    "strided rows": lambda a: (a[:12].reshape(3, 4)[:, ::2], a[:6].reshape(3, 2)),
    "fortran": lambda a: (np.asfortranarray(a[:6].reshape(2, 3)), np.asfortranarray(a[6:12].reshape(2, 3))),
    "mixed order": lambda a: (np.asfortranarray(a[:6].reshape(2, 3)), a[6:12].reshape(2, 3)),
    "transposed": lambda a: (a[:12].reshape(2, 3, 2).transpose(2, 0, 1), a[:2]),
    "empty": lambda a: (a[:0], a[:0]),
    "empty rows": lambda a: (a[:0].reshape(0, 3), a[:3]),
    "no axes": lambda a: (a[1:2].reshape(()), a[2:3].reshape(())),
    "no axes and some": lambda a: (a[1:2].reshape(()), a),
    "broadcast": lambda a: (a[:3, None], a[3:7]),
    "repeated": lambda a: (np.broadcast_to(a[:3], (4, 3)), np.broadcast_to(a[4:5], (4, 3))),
    "read-only": lambda a: (readonly(a[:5].copy()), readonly(a[5:10].copy())),
    "unaligned": lambda a: (unaligned(a[:5]), a[5:10]),
    "one object": lambda a: (a, a),
    "scalars": lambda a: (a[1], a[2]),
    "scalar and array": lambda a: (a[1], a[:3]),
}
PLACED = ("add", "divmod", "frexp", "less", "logical_and", "maximum", "sqrt", "bitwise_count", "ldexp", "square")


@pytest.mark.parametrize("dtype", ["?", "i2", "u8", "f4", "f8"])
def test_layouts(dtype):
    names, calls = [], []
    for n in PLACED:
        if accepts(n, *[dtype] * ALL[n].nin):
            names += [n, n]
            calls += [f"np.{n}(a, b)", f"np.{n}(b, a)"] if ALL[n].nin == 2 else [f"np.{n}(a)", f"np.{n}(b)"]
    plain = function([], "a, b", "(" + ", ".join(calls) + ",)")
    for layout_name, layout in LAYOUTS.items():
        if dtype == "u8" and "scalar" in layout_name:  # a scalar argument of uint64 is no symbol
            continue
        fast = dynoc.optimize(plain, wait=True, fullgraph=layout_name != "unaligned")
        compare_calls(names, plain, fast, lambda: layout(np.resize(awkward(dtype)[1:], 15)))


# ---- forms of the call


def form(text, *makers, fullgraph=True, near=False):
    return pytest.param(text, makers, fullgraph, near, id=text)


def floats(n=5, seed=1):
    return np.random.default_rng(seed).uniform(0.5, 3.0, n)


def with_zeros(n=5):
    a = floats(n, 3)
    a[::2] = 0
    return a


def mask(n=5):
    return np.arange(n) % 2 == 1


TWO = lambda: (floats(), floats(5, 2))
FORMS = [
    form("np.add(a, b, c)", lambda: (*TWO(), np.empty(5))),
    form("np.add(a, b, out=c)", lambda: (*TWO(), np.empty(5)), lambda: (*TWO(), np.empty(5, "f4"))),
    form("np.add(a, b, out=(c,))", lambda: (*TWO(), np.empty(5)), lambda: (*TWO(), np.empty((3, 5)))),
    form("np.add(a, b, out=None)", lambda: (*TWO(), None)),
    form("np.add(a, b, out=a)", lambda: (*TWO(), 0), lambda: (floats(5).astype("f4"), floats(5), 0)),
    form("np.subtract(a[1:], b[1:], out=a[:-1])", lambda: (*TWO(), 0), lambda: ((x := floats()), x, 0)),
    form("np.subtract(a[:-1], b[1:], out=a[1:])", lambda: (*TWO(), 0), lambda: ((x := floats()), x, 0)),
    form("np.multiply(a, a[::-1], out=a)", lambda: (floats(), 0, 0)),
    form("np.divmod(a, b, out=(a, b))", lambda: (*TWO(), 0)),
    form("np.divmod(a, b, c, None)", lambda: (*TWO(), np.empty(5))),
    form("np.modf(a, out=(None, c))", lambda: (*TWO(), np.empty(5))),
    form("np.frexp(a, out=(a, c))", lambda: (*TWO(), np.empty(5, "i4")), lambda: (*TWO(), np.empty(5, "i8"))),
    form("np.add(a, b, dtype=np.float32, casting='same_kind')", lambda: (*TWO(), 0)),
    form("np.add(a, b, dtype='f4')", lambda: (*TWO(), 0), lambda: (np.arange(5), np.arange(5), 0)),
    form("np.add(a, b, dtype='f8')", lambda: (np.arange(5), np.arange(5, dtype="u1"), 0)),
    form("np.add(a, b, dtype=int, casting='unsafe')", lambda: (np.arange(5.0), np.arange(5), 0)),
    form("np.multiply(a, 3, dtype='u1', casting='unsafe')", lambda: (np.arange(5), 0, 0)),
    form("np.less(a, b, dtype=bool)", lambda: (*TWO(), 0)),
    form("np.less(a, b, out=c)", lambda: (*TWO(), np.empty(5, bool)), lambda: (*TWO(), np.empty(5, "f8"))),
    form("np.logical_and(a, b, out=c)", lambda: (*TWO(), np.empty(5, bool))),
    form("np.add(a, b, order='K', subok=True)", lambda: (*TWO(), 0)),
    form("np.add(a, b, order='C')", lambda: (np.asfortranarray(floats(6).reshape(2, 3)), floats(3), 0)),
    form("np.add(a, b, order='F')", lambda: (floats(6).reshape(2, 3), floats(3), 0)),
    form("np.add(a, b, where=True)", lambda: (*TWO(), 0)),
    form("np.add(a, b, out=c, where=mask())", lambda: (*TWO(), np.ones(5)), fullgraph=False),
    form("np.divide(a, b, out=np.zeros_like(a), where=b != 0)", lambda: (floats(), with_zeros(), 0)),
    form("np.divide(a, b, out=a, where=b != 0)", lambda: (floats(), with_zeros(), 0)),
    form("np.divide(a, b, out=c, where=b != 0)", lambda: (floats(), with_zeros(), np.ones(5, "f4"))),
    form("np.log(a, out=c, where=a > 0)", lambda: (with_zeros(), 0, np.full(5, 9.0)), near=True),
    form("np.arctanh(a, out=c, where=a < 1)", lambda: (with_zeros() / 2, 0, np.full(5, 9.0)), near=True),
    form("np.floor_divide(a, b, out=c, where=b != 0)", lambda: (np.arange(5), np.arange(5) % 2, np.full(5, 9))),
    form("np.add(a, b, out=c, where=False)", lambda: (*TWO(), np.ones(5)), fullgraph=False),
    form("np.sqrt(a, where=b > 1, out=c)", lambda: (floats(), floats(3)[:, None], np.zeros((3, 5)))),
    form("np.divmod(a, b, out=(c, a), where=b != 0)", lambda: (floats(), with_zeros(), np.ones(5))),
    form("divmod(a, b)", TWO_AND := lambda: (*TWO(), 0), lambda: (floats(1)[0], floats(1, 2)[0], 0)),
    form("divmod(a, 2)", lambda: (np.arange(-4, 5), 0, 0)),
    form("divmod(7.5, a)", lambda: (floats(), 0, 0)),
    form("pow(a, 2)", TWO_AND),
    form("pow(2.0, a)", TWO_AND, near=True),
    form("abs(a)", lambda: (-floats(), 0, 0), lambda: (np.array([-128, 3], "i1"), 0, 0), lambda: (np.int8(-128), 0, 0)),
    form("a ** b.max(), np.power(a, c), a ** (c * 1)", *(lambda e=e: (awkward("f8"), np.array([e]), np.array(e))
         for e in (2.0, 0.5, -1.0, 0.0, 1.0, 2.5)), near=True),
    form("round(a[0], 2)", TWO_AND),
    form("+a, -a, ~c", lambda: (*TWO(), np.arange(3)), lambda: (*TWO(), np.array([True, False]))),
    form("(a < b) & (b < 2.5)", TWO_AND),
    form("(a > 1) | (a == c)", lambda: (floats(), 0, 2)),
    form("1 - a, 2 / a, 3 // a, 4 % a, 2 < a", TWO_AND),
    form("np.float32(1) - a, a - np.float64(2), np.int8(3) * a", lambda: (floats().astype("f4"), 0, 0)),
    form("np.add.reduce(a)", TWO_AND, lambda: (floats(6).reshape(2, 3), 0, 0), lambda: (np.arange(5, dtype="i1"), 0, 0)),
    form("np.add.reduce(a, axis=None)", lambda: (floats(6).reshape(2, 3), 0, 0), near=True),
    form("np.add.reduce(a, 1, keepdims=True)", lambda: (floats(6).reshape(2, 3), 0, 0)),
    form("np.add.reduce(a, dtype='f4')", lambda: (np.arange(5), 0, 0)),
    form("np.multiply.reduce(a)", lambda: (np.arange(1, 5), 0, 0)),
    form("np.maximum.reduce(a), np.minimum.reduce(a, axis=-1)", lambda: (floats(6).reshape(2, 3), 0, 0)),
    form("np.logical_or.reduce(c), np.logical_and.reduce(a)", lambda: (floats(), 0, mask())),
    form("np.bitwise_or.reduce(c), np.bitwise_and.reduce(c)", lambda: (0, 0, mask())),
    form("np.multiply.outer(a, b)", TWO_AND, lambda: (floats(6).reshape(2, 3), floats(2), 0)),
    form("np.subtract.outer(a, b, out=c)", lambda: (*TWO(), np.empty((5, 5)))),
    form("np.divmod.outer(a, b)", TWO_AND),
    form("np.add.accumulate(a), np.add.reduceat(a, [0, 2])", TWO_AND),
    form("np.subtract.reduce(a), np.maximum.accumulate(b), np.add.reduce(a, initial=2.0, where=b > 1)", TWO_AND),
    form("np.add.at(a, c, b[:3])", lambda: (*TWO(), np.array([0, 0, 1]))),
    form("np.matvec(a, b), np.vecdot(b, b), np.vecmat(b[:2], a)", lambda: (floats(6).reshape(2, 3), floats(3), 0), near=True),
    form("a ** b, np.power(a, b), a ** 2, 2 ** b, np.power(a, b[:1])", lambda: (np.arange(5), np.arange(5), 0)),
    form("a ** b[:1], a ** b[:, None]", TWO_AND, near=True),
    form("np.clip(a, 1, 2), np.clip(a, 1, None), np.clip(a, None, 2)", TWO_AND, lambda: (np.arange(9, dtype="u1"), 0, 0)),
    form("np.clip(a, b, c), a.clip(b), a.clip(max=c)", lambda: (floats(), floats(5, 2), 1.5)),
    form("np.clip(a, b, b + 1, out=a)", TWO_AND),
    form("np.clip(a, -0.0, 0.0), np.clip(a, 0.0, np.inf)", lambda: (awkward("f8"), 0, 0), lambda: (awkward("f4"), 0, 0)),
    form("np.clip(a, np.nan, 1.0), np.clip(a, b, 1.0)", lambda: (awkward("f8"), awkward("f8")[::-1].copy(), 0)),
    form("np.clip(a, b, c)", lambda: (awkward("f8"), np.resize([0.0, -0.0], 22), np.float64(0.0))),
    form("np.clip(a, -1, 300), np.clip(a, 3, 256), np.clip(a, -5, 100)", lambda: (np.arange(200, dtype="u1"), 0, 0)),
    form("np.clip(a, b, c)", lambda: (np.arange(9, dtype="i1"), -200, 5), lambda: (np.arange(9, dtype="i1"), 2, 127)),
    form("np.clip(a, min=1, max=2)", TWO_AND),
    form("np.clip(a, b[:1], c)", lambda: (np.arange(6), np.arange(2), np.int64(4))),
    form("np.round(a), np.round(a, 2), a.round(-1), np.around(a, 1)", lambda: (floats(50) * 97, 0, 0)),
    form("np.round(a), np.round(a, 2), a.round(-1)", *(lambda d=d: (np.arange(-40, 40).astype(d), 0, 0) for d in ("i8", "u1"))),
    form("np.round(a, 12), a.round(3)", lambda: (floats().astype("f4"), 0, 0), lambda: (awkward("f8"), 0, 0)),
    form("np.round(a, 1, c)", lambda: (*TWO(), np.empty(5))),
    form("np.round(a, 1)", lambda: (np.asfortranarray(floats(6).reshape(2, 3)), 0, 0)),
    form("a.conj(), a.conjugate(), np.conj(a)", TWO_AND, lambda: (np.arange(3), 0, 0)),
    form("a < b, a <= b, a > b, a >= b, a == b, a != b", lambda: (*grid("i8", "u8"), 0), lambda: (*grid("u8", "i1"), 0)),
    form("a < 300, a <= -1, a > 300, 255 >= a, 256 == a, a != -1, -1 < a", lambda: (np.arange(9, dtype="u1"), 0, 0)),
    form("a < c, a > c, a == c", *(lambda c=c: (awkward("i1"), 0, c) for c in (0, 127, 128, -128, -129, 10**15))),
    form("a < c, a > c, a == c", *(lambda c=c: (awkward("u8"), 0, c) for c in (0, -1, -(2**62)))),
]


@pytest.mark.parametrize("text, makers, fullgraph, near", FORMS)
def test_numpy_forms(text, makers, fullgraph, near):
    plain = function([f"r = {text}"], "a, b, c", "r")
    plain.__globals__["mask"] = mask
    fast = dynoc.optimize(plain, wait=True, fullgraph=fullgraph)
    for _ in range(3):
        for make in makers:
            x, y = (run(f, Call(*make()), __file__) for f in (plain, fast))
            found = [] if x.error == y.error else [f"{y.error} instead of {x.error}"]
            compare_values(x.result, y.result, "near" if near else "bits", "result", found.append)
            compare_values(x.call.args, y.call.args, "near" if near else "bits", "arguments", found.append)
            if aliasing_of(x) != aliasing_of(y):
                found.append("other arrays share memory")
            said, heard = ([(w[0], w[1]) for w in o.warnings] for o in (x, y))
            if said != heard:
                found.append(f"warnings {heard} instead of {said}")
            assert not found, "\n".join(found)
    if fullgraph:
        native(fast)


IN_PLACE = ("+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^=", "<<=", ">>=")


@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_in_place_operators(dtype):
    """Mixed dtypes too: what eager refuses raises the same."""
    makers = [
        *(lambda d=d: (np.arange(1, 6).astype(dtype), np.arange(1, 6).astype(d)) for d in ("?", "i1", "i8", "f8")),
        *(lambda v=v: (np.arange(1, 6).astype(dtype), v) for v in (2, 0, 1.5, True, np.int8(2), np.float64(3), 10**6)),
    ]
    for op in IN_PLACE:
        plain = function([f"a {op} b"], "a, b", "(a,)")
        fast = dynoc.optimize(plain, wait=True)
        for make in makers:
            with np.errstate(all="ignore"):
                compare_calls(["power" if op == "**=" else op], plain, fast, make)


OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", "&", "|", "^", "<<", ">>")
MET_BY_ALL = ("+", "*", "/", "<", "==", "<<")
NUMBERS = (0, 1, -1, 3, 127, 128, 255, 256, -128, -129, 2**31, 2**53 + 1, 2**63, -(2**63), 1.5, -0.0, 1e39, np.inf, np.nan, True)
NUMPY_NUMBERS = (np.int8(-3), np.uint8(200), np.int64(3), np.uint64(2**63), np.float32(1.5), np.float64(1e300), np.bool_(True))


@pytest.mark.parametrize(
    "dtype, reflected", [("?", False), ("u1", False), ("u1", True), ("i8", False), ("f4", False), *[("f4", True)] * SOAK]
)
def test_numbers(dtype, reflected):
    """Python's numbers are weak and raise where the dtype doesn't hold them; NumPy's are not."""
    for op in OPERATORS:
        plain = function([], "a, b", f"(b {op} a,)" if reflected else f"(a {op} b,)")
        fast = dynoc.optimize(plain, wait=True)
        for value in (*NUMBERS, *NUMPY_NUMBERS) if SOAK or (op in MET_BY_ALL and dtype != "?") else NUMBERS[1::4]:
            compare_calls(["power" if op == "**" else op], plain, fast, lambda v=value: (awkward(dtype), v))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i8", "u8", "f4"])
def test_numpy_scalars(dtype):
    """Operators of NumPy scalars: integers warn where they overflow."""
    for op in ("+", "-", "*", "//", "%", "/", "<"):
        plain = function([], "a, i, j", f"a[i].max() {op} a[j].min()")
        fast = dynoc.optimize(plain, wait=True, fullgraph=True)
        values = awkward(dtype)[::2].reshape(-1, 1)
        for i, j in itertools.product(range(len(values)), repeat=2):
            want, got = warned(plain, values, i, j), warned(fast, values, i, j)
            said = [(c, m) for c, m in want[1]]
            assert said == got[1], (op, values[i], values[j], got, want)
            found = []
            compare_values(want[0], got[0], "bits", "result", found.append)
            assert not found, (op, values[i], values[j], found)


@pytest.mark.parametrize("dtype", "?bBhHiIlL")
def test_small_integer_powers(dtype):
    """Exponents 2 and 3 are products, and wrap as powers do; others are powers."""
    x = np.arange(-200, 200).astype(dtype)
    for exponent in (0, 1, 2, 3, 4, np.int64(2), np.uint8(3)):
        for fn in (lambda x, e=exponent: x**e, lambda x, e=exponent: np.power(x, e)):
            got, want = dynoc.optimize(fn, wait=True)(x), fn(x)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)

    def power(x, e):
        return x**e

    fast = dynoc.optimize(power, wait=True)
    for exponent in (2, 5, 3, 2, 1, 3):
        np.testing.assert_array_equal(fast(x, exponent), power(x, exponent))


@pytest.mark.parametrize("dtype", "fdbI")
def test_exponents_of_float_power(dtype):
    """NumPy has np.power's loop for np.float_power or the C library's pow, by processor: their last bits differ."""
    x = np.random.default_rng(5).uniform(0, 120, (60, 33)).astype(dtype)
    for exponent in (2, 2.0, 0.5, -1, np.float64(2), 1, 0):
        fn = lambda x, e=exponent: np.float_power(x, e)  # noqa: E731
        fast = dynoc.optimize(fn, wait=True, exact=True)
        for a in (x, x[:, ::2], x.T, x[0]):
            with np.errstate(all="ignore"):
                for _ in range(2):
                    np.testing.assert_array_equal(fast(a), fn(a))
