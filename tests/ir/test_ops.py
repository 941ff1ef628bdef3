"""The operator table: its columns hang together, and every C expression, compiled, gives what NumPy gives on awkward values."""

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pytest

from dynoc import _dynoc, _reference

pytestmark = pytest.mark.any_interpreter

C_TYPES = {
    "bool": "unsigned char", "i8": "signed char", "i16": "short", "i32": "int", "i64": "long", "u8": "unsigned char",
    "u16": "unsigned short", "u32": "unsigned int", "u64": "unsigned long", "f32": "float", "f64": "double",
}  # fmt: skip
NUMPY = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64", "f32": "float32", "f64": "float64",
}  # fmt: skip
ELEMENTWISE, REDUCE = 1, 2
FLOAT, COMPARE, LOGICAL, WHERE, BOOL = 2, 3, 4, 5, 7
VECTOR_CALL = 2
FLOATS_ONLY = {"power", "uniform_power", "scalar_power", "floor", "ceil", "trunc", "signbit"}
INTS_ONLY = {
    "invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "int_power", "gcd", "lcm", "bitwise_count",
    "scalar_add", "scalar_subtract", "scalar_multiply", "scalar_negative", "scalar_absolute",
}  # fmt: skip
UFUNCS = {
    "sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "any": "logical_or", "all": "logical_and",
    "uniform_power": "power",
    "int_power": "power", "keep": "where", "scalar_add": "add", "scalar_subtract": "subtract", "scalar_multiply": "multiply",
    "scalar_negative": "negative", "scalar_absolute": "absolute",
}  # fmt: skip
RESULTS = {"frexp_mantissa": 0, "frexp_exponent": 1, "modf_fraction": 0, "modf_whole": 1}


class Row:
    def __init__(self, row):
        (self.name, self.text, self.arity, self.kind, self.dtype, self.shape, self.guard, self.c, self.deriv, self.fpe,
         self.flags) = row  # fmt: skip
        if self.kind == REDUCE:
            self.arity = 2

    def dtypes(self):
        for s in C_TYPES:
            is_float = s[0] == "f"
            if (self.dtype == FLOAT or self.text in FLOATS_ONLY) and not is_float:
                continue
            if self.text in INTS_ONLY and (is_float or s == "bool"):
                continue
            if self.text == "philox" and s != "i64":
                continue
            if (self.dtype == LOGICAL) if s != "bool" else self.dtype not in (COMPARE, LOGICAL, WHERE, BOOL):
                continue
            yield s

    def result(self, s):
        return "bool" if self.dtype in (COMPARE, LOGICAL, BOOL) else s


ROWS = [Row(row) for row in _dynoc._op_table()]
COMPUTED = [(row, s) for row in ROWS if row.kind in (ELEMENTWISE, REDUCE) for s in row.dtypes()]


def wraps_in(s):
    return C_TYPES[s] if s[0] == "f" or s == "bool" else "unsigned long" if s.endswith("64") else "unsigned int"


def function(row, s):
    text = row.c.replace("{T}", C_TYPES[s]).replace("{U}", wraps_in(s)).replace("{s}", s)
    text = text.replace("{f}", "f" if s == "f32" else "")
    text = re.sub(r"\{(\d)\}", r"x\1", text)
    types = [C_TYPES["bool"] if row.dtype == WHERE and i == 0 else C_TYPES[s] for i in range(row.arity)]
    parameters = ", ".join(f"const {t} *a{i}" for i, t in enumerate(types))
    loads = " ".join(f"{t} x{i} = a{i}[k];" for i, t in enumerate(types))
    return (
        f"void t_{row.text}_{s}(long n, {C_TYPES[row.result(s)]} *out, {parameters}) "
        f"{{ for (long k = 0; k < n; k++) {{ {loads} out[k] = {text}; }} }}\n"
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("ops")
    helpers = _dynoc._op_helpers()
    source = helpers.pop("prologue")[1] + "".join(text for needs, text in helpers.values())
    source += "".join(function(row, s) for row, s in COMPUTED)
    (folder / "ops.c").write_text(source)
    command = [compiler, "-std=c11", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "ops.c", "-o", "ops.so", "-lm"]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return ctypes.CDLL(str(folder / "ops.so"))


def awkward(s):
    dt = np.dtype(NUMPY[s])
    if s == "bool":
        return np.array([False, True])
    if dt.kind == "f":
        info = np.finfo(dt)
        values = [0.0, -0.0, 1, -1, 0.5, -0.5, 2, 3, -3, 7.5, -7.5, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny, 1e-40]
        return np.array([*values, info.eps, 100.25, -0.3, 1e10], dt)
    low, high = int(np.iinfo(dt).min), int(np.iinfo(dt).max)
    wanted = (0, 1, 2, 3, 5, 7, 8, 31, 63, 64, 100, high, high - 1, low, low + 1, -1, -2, -3, -7, -8)
    return np.array(sorted({max(low, min(high, v)) for v in wanted}), dt)


def eager(text, args):
    """What NumPy gives."""
    if text in RESULTS:
        return getattr(np, text.split("_")[0])(*args)[RESULTS[text]]
    if text == "clip":  # of bounds that are one number, element by element
        return np.array([np.clip(x, low, high) for x, low, high in zip(*args, strict=True)])
    if text == "uniform_power":
        return np.array([np.power(np.array([x]), np.array(e))[0] for x, e in zip(*args, strict=True)])
    if text in ("erf", "erfc", "modulus", "philox"):
        return getattr(_reference, text)(*args)
    if text == "scalar_power":
        return _reference.power(*args)
    if text == "ldexp":
        args = args[0], args[1].astype(np.int64)
    return np.asarray(getattr(np, UFUNCS.get(text, text))(*args))


@pytest.mark.parametrize("row, s", COMPUTED, ids=[f"{row.text}-{s}" for row, s in COMPUTED])
def test_c_expression_is_numpys(compiled, row, s):
    a, b = (np.ascontiguousarray(grid.ravel()) for grid in np.meshgrid(awkward(s), awkward(s)))
    args = [a != 0, b, np.roll(a, 3)] if row.dtype == WHERE else [a, b, np.roll(b, 3)][: row.arity]
    if row.text == "int_power":
        args = [x[b >= 0] for x in args]
    if row.text == "ldexp":
        args[1] = np.trunc(np.nan_to_num(b, posinf=2.0**40, neginf=-(2.0**40)).clip(-(2.0**50), 2.0**50))
    out = np.empty(len(args[0]), NUMPY[row.result(s)])
    pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (out, *args)]
    getattr(compiled, f"t_{row.text}_{s}")(ctypes.c_long(len(out)), *pointers)
    with np.errstate(all="ignore"):
        want = eager(row.text, args).astype(out.dtype)
    if out.dtype.kind != "f":
        np.testing.assert_array_equal(out, want)
    elif row.flags & VECTOR_CALL:
        np.testing.assert_allclose(out, want, rtol=1e-6 if s == "f32" else 1e-14)
    else:
        np.testing.assert_array_equal(out, want)
        if row.text not in ("fmax", "fmin"):  # NumPy's own loops differ there from element to element
            known = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(out)[known], np.signbit(want)[known])


def test_names_are_unique():
    for column in ("name", "text"):
        seen = [getattr(row, column) for row in ROWS]
        assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
def test_columns(row):
    assert set(row.fpe) <= set("diou") and len(set(row.fpe)) == len(row.fpe)
    assert set(re.findall(r"\{(\w+)\}", row.c)) <= {"0", "1", "2", "T", "U", "s", "f"}
    if row.kind in (ELEMENTWISE, REDUCE):
        assert {int(i) for i in re.findall(r"\{(\d)\}", row.c)} == set(range(row.arity))
        helpers = {name for name in re.findall(r"dyn_\w+_", row.c)}
        assert all(f"{name}{s}" in _dynoc._op_helpers() for name in helpers for s in row.dtypes())
    if row.deriv is not None:
        assert len(row.deriv.split(";")) == (1 if row.kind == REDUCE else row.arity)
        texts = {other.text for other in ROWS}
        assert set(re.findall(r"(\w+)\(", row.deriv)) <= texts
