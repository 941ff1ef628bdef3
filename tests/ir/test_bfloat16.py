"""bfloat16 in graphs: NumPy has none, so inputs and outputs are its bits (uint16). Conversions over all values, and every row of
the operator table, in native code, the built-in tier and the interpreter."""

import numpy as np
import pytest
from test_builtin import awkward
from test_ops import COMPUTED, ELEMENTWISE, LOGICAL, NUMPY, WHERE

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

SIZES = (0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000)


def bits_of(x):
    """Rounded to nearest even; nan stays nan."""
    u = np.asarray(x, "f4").view("u4")
    rounded = (u.astype("u8") + 0x7FFF + (u >> 16 & 1)) >> 16
    return np.where(np.isnan(x), u >> 16 | 0x40, rounded).astype("u2")


def floats_of(bits):
    return (bits.astype("u4") << 16).view("f4")


def results(text, *arrays, numbers=()):
    """Of the interpreter and both tiers, bits as floats; the tiers give the same bits."""
    native, builtin = _dynoc._graph_compile(text), _dynoc._graph_builtin(text)
    with np.errstate(all="ignore"):
        status, fast = _dynoc._graph_run(native, list(arrays), numbers)
        again = _dynoc._graph_run(builtin, list(arrays), numbers)
        wide = _dynoc._graph_interp(native, list(arrays), numbers)
    assert status == again[0] and len(fast) == len(again[1]) == len(wide)
    for a, b in zip(fast, again[1], strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return fast, wide


def head(dtype="u16", axes=1):
    sizes = ", ".join(f"s{i}" for i in range(axes))
    text = "graph g\n" + "".join(f"s{i}: int = dim(x, {i}) hint 100\n" for i in range(axes))
    text += f"%0: {dtype}[{sizes}] C = input(x)\n"
    return text + (f"%1: bf16[{sizes}] C = as_dtype(%0) {{{BF16}}} view\n" if dtype == "u16" else "")


BF16 = 10  # its number in dtype.def
ALL = np.arange(65536).astype("u2")


@pytest.mark.parametrize("to", ["f64", "f32", "f16", "i64", "i8", "u16", "bool", "c64"])
def test_conversions_of_every_value(to):
    x = floats_of(ALL)
    usual = np.isfinite(x) & (abs(x) < 100) if to[0] in "iu" else np.full(ALL.shape, True)  # of others C leaves open what comes
    some = ALL[usual if to[0] != "u" else usual & (x >= 0)]
    wide = {"f16": "f2", "c64": "c8"}.get(to) or NUMPY[to]
    with np.errstate(all="ignore"):
        want = floats_of(some).astype(wide)
    for got in results(head() + f"%2: {to}[s0] C = copy(%1)\noutputs %2\n", some):
        assert np.array_equal(got[0], want, equal_nan=to[0] in "fc")


@pytest.mark.parametrize("of", ["f64", "f32", "f16", "i64", "i8", "u16", "bool"])
def test_conversions_to_bfloat16(of):
    text = head(of) if of != "u16" else head().rpartition("%1")[0]
    text += "%1: bf16[s0] C = copy(%0)\noutputs %1\n"
    if of in ("f32", "f64"):
        near = [ALL.astype("u4") << 16 | below for below in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]  # 0x8000: half way
        with np.errstate(invalid="ignore"):
            x = np.concatenate(near).view("f4").astype(NUMPY[of])
    else:
        x = ALL.view("f2") if of == "f16" else ALL.astype("i8") * 977 - 2**24 if of == "i64" else ALL.astype(NUMPY[of])
    with np.errstate(all="ignore"):
        want = floats_of(bits_of(x.astype("f4")))
    for got in results(text, x):
        assert got[0].dtype == np.uint16 and np.array_equal(floats_of(got[0]), want, equal_nan=True)


def numbers_of(n, seed):
    return bits_of(awkward("f32", n, seed))


def test_every_row():
    """Computed in floats, and rounded behind each operator."""
    rows = [row for row, s in COMPUTED if s == "f32" and row.kind == ELEMENTWISE and row.dtype != LOGICAL]
    rows = [row for row in rows if row.text not in ("ldexp", "nextafter", "spacing")]  # of the format itself: never made
    text = "graph g\ns0: int = dim(x, 0) hint 100\n"
    text += "".join(f"%{i}: {'u16' if i < 3 else 'bool'}[s0] C = input({n})\n" for i, n in enumerate("xyzm"))
    text += "".join(f"%{4 + i}: bf16[s0] C = as_dtype(%{i}) {{{BF16}}} view\n" for i in range(3))
    text += "".join(f"%{7 + i}: f32[s0] C = copy(%{4 + i})\n" for i in range(3))
    at, pairs = 10, []
    for row in rows:
        for base, dtype in ((4, "bf16"), (7, "f32")):
            args = [f"%{base}", f"%{base + 1}", f"%{base + 2}"]
            args = ["%3", *args[:2]] if row.dtype == WHERE else args
            text += f"%{at}: {row.result(dtype)}[s0] C = {row.text}({', '.join(args[: row.arity])}) compute {dtype}\n"
            at += 1
        pairs.append((row.text, at - 2, at - 1))
    for i in range(0, len(pairs), 5):
        some = pairs[i : i + 5]
        graph = text + "outputs " + ", ".join(f"%{a}, %{b}" for _, a, b in some) + "\n"
        for n in SIZES:
            arrays = [numbers_of(n, 2 + k) for k in range(3)] + [awkward("bool", n, 5)]
            for got in results(graph, *arrays):
                for (name, _, _), short, wide in zip(some, got[::2], got[1::2], strict=True):
                    if wide.dtype == bool:
                        assert np.array_equal(short, wide), name
                    else:
                        assert np.array_equal(floats_of(short), floats_of(bits_of(wide)), equal_nan=True), name


@pytest.mark.parametrize("step", [1, 3, -1])
def test_strides_and_numbers(step):
    text = head().replace("%0", "s1: float = var(k) hint 0.5\n%0", 1)
    text += "%2: bf16[s0] C = multiply(%1, s1)\n%3: bf16[s0] C = multiply(%1, s1) compute f32\n%4: bf16[s0] C = add(%2, %3)\n"
    for n in SIZES:
        bits = numbers_of(3 * n, 7)[::step][:n] if n else numbers_of(0, 7)
        x = floats_of(bits.copy())
        with np.errstate(all="ignore"):
            rounded, exact = (floats_of(bits_of(x * k)) for k in (floats_of(bits_of(np.float32(1.7)))[()], np.float32(1.7)))
            want = floats_of(bits_of(rounded + exact))
        for got in results(text + "outputs %2, %3, %4\n", bits.copy(), numbers=[1.7]):
            for a, b in zip(got, (rounded, exact, want), strict=True):
                assert np.array_equal(floats_of(a), b, equal_nan=True)


def test_writes_and_lookups():
    """Elements that only move keep their bits, signalling nan too."""
    text = """graph g
s0: int = dim(x, 0) hint 100
s1: int = dim(i, 0) hint 100
%0: u16[s0] C = input(x)
%1: i64[s1] C = input(i)
%2: bf16[s0] C = as_dtype(%0) {10} view
%3: bf16[s1] C = gather(%2, %1) {0}
outputs %3
"""
    rng = np.random.default_rng(3)
    for n in SIZES[1:]:
        index = rng.integers(0, 65536, n)
        for got in results(text, ALL, index):
            assert np.array_equal(got[0], ALL[index]) or np.isnan(floats_of(got[0])[got[0] != ALL[index]]).all()
