"""The built-in tier: what it does for a graph, and the bits of native code, for every row of the operator table, every dtype,
size and memory order."""

import itertools
import random

import numpy as np
import pytest
from test_kernels import AXES, REDUCE, layouts, numbers, random_graph
from test_ops import COMPUTED, ELEMENTWISE, LOGICAL, NUMPY, WHERE

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter


def same(text, arrays, scalars=()):
    """Both tiers, on arrays in several memory orders: bytes and kinds of results."""
    native, builtin = _dynoc._graph_compile(text), _dynoc._graph_builtin(text)
    for some in arrays:
        with np.errstate(all="ignore"):
            want, got = _dynoc._graph_run(native, list(some), scalars), _dynoc._graph_run(builtin, list(some), scalars)
        assert want[0] == got[0]
        for a, b in zip(want[1], got[1], strict=True):
            assert type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
            equal = np.asarray(a).tobytes() == np.asarray(b).tobytes()
            assert equal or np.array_equal(a, b, equal_nan=True), (text, a, b)  # nan may have any sign
            assert equal or not np.any(np.signbit(np.where(np.isnan(a), 0, a)) != np.signbit(np.where(np.isnan(b), 0, b)))


def test_steps_of_a_graph():
    text = """graph g
s0: int = dim(x, 0) hint 100
s1: float = var(k) hint 0.5
%0: f64[s0] C = input(x)
%1: f32[s0] C = input(y)
%2: f64[s0] C = multiply(%0, s1)
%3: f64[s0] C = sin(%2)
%4: f64[s0] C = copy(%1)
%5: f64[s0] C = add(%3, %4)
%6: bool[s0] C = greater(%5, %0) compute f64
outputs %5, %6
"""
    assert _dynoc._builtin_text(text).splitlines() == [
        "kernel 0: 3 blocks",
        "  b1 = multiply_f64 a0 b0",
        "  b2 = sin_f64 b1",
        "  b1 = cast_f32 a1",
        "  a2 = add_f64 b2 b1",
        "  a3 = greater_f64 a2 a0",
    ]


@pytest.mark.parametrize("dtype", ["f64", "f32", "i64", "i32"])
@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(dtype, seed):
    r, rng = random.Random(seed), np.random.default_rng(seed)
    text = random_graph(r, dtype, 12, dtype[0] == "f")
    sizes = [(3, 2), (17, 16), (2, 100), (33, 1023), (5, 3000)]
    orders = [
        (a, b, numbers(rng, (m,), dtype), numbers(rng, (n, 1), dtype))
        for n, m in sizes
        for a, b in zip(layouts(numbers(rng, (n, m), dtype)), itertools.islice(layouts(numbers(rng, (n, m), dtype)), 1, None))
    ]
    same(text, orders, [0.75 if dtype[0] == "f" else 3])


def awkward(dtype, n, seed):
    rng = np.random.default_rng(seed)
    name = NUMPY[dtype]
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dtype[0] == "f":
        some = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-310, 3e38, 0.5], name)
        return np.where(rng.random(n) < 0.2, rng.choice(some, n), (rng.standard_normal(n) * 4).astype(name))
    info = np.iinfo(name)
    some = np.array([info.min, info.max, 0, 1], name)
    return np.where(rng.random(n) < 0.2, rng.choice(some, n), rng.integers(0, 60, n).astype(name))


@pytest.mark.parametrize("dtype", NUMPY)
def test_every_row(dtype):
    """All elementwise rows of a dtype in one graph, on awkward numbers."""
    rows = [row for row, s in COMPUTED if s == dtype and row.kind == ELEMENTWISE]
    text = "graph g\ns0: int = dim(x, 0) hint 100\n"
    text += "".join(f"%{i}: {dtype if i < 3 else 'bool'}[s0] C = input({n})\n" for i, n in enumerate("xyzm"))
    outputs = []
    for i, row in enumerate(rows, 4):
        args = ["%3", "%0", "%1"] if row.dtype == WHERE else ["%0", "%1", "%2"]
        args = args if row.dtype != LOGICAL or dtype == "bool" else ["%3", "%3"]
        text += f"%{i}: {row.result(dtype)}[s0] C = {row.text}({', '.join(args[: row.arity])}) compute {dtype}\n"
        outputs.append(i)
    for i in range(0, len(outputs), 12):  # a kernel has a limit of operands
        some = ", ".join(f"%{o}" for o in outputs[i : i + 12])
        arrays = [
            tuple(awkward(dtype, 3 * n, k)[::step][:n] for k in range(3)) + (awkward("bool", n, 5),)
            for n in (1, 16, 40, 1100)
            for step in (1, 3)
        ]
        same(text + f"outputs {some}\n", arrays)


@pytest.mark.parametrize("dtype", [*NUMPY, "f16", "c64", "c128"])
def test_casts(dtype):
    wide = {"f16": "f2", "c64": "c8", "c128": "c16"}.get(dtype) or NUMPY[dtype]
    to = [t for t in (*NUMPY, "f16", "c64", "c128") if t != dtype and (t[0] == "c" or dtype[0] != "c")]
    text = f"graph g\ns0: int = dim(x, 0) hint 100\n%0: {dtype}[s0] C = input(x)\n"
    text += "".join(f"%{i}: {t}[s0] C = copy(%0)\n" for i, t in enumerate(to, 1))
    for i in range(0, len(to), 6):
        some = ", ".join(f"%{o}" for o in range(i + 1, min(i + 7, len(to) + 1)))
        same(text + f"outputs {some}\n", [(np.linspace(0, 100, n).astype(wide),) for n in (1, 33, 2000)])


@pytest.mark.parametrize("op", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("dtype", ["f64", "f32", "i64", "i32"])
def test_reductions(op, dtype):
    rng = np.random.default_rng(2)
    for shape, aux in AXES:
        text = REDUCE.format(t=dtype, shape=shape, op=op, aux=aux, scalar="" if shape else " npscalar")
        sizes = [(2, 3, 5), (3, 17, 100), (2, 600, 3), (40, 33, 2)]
        same(text, [(a,) for dims in sizes for a in layouts(numbers(rng, dims, dtype))])


def test_a_reduction_of_what_is_stored_too():
    text = """graph g
s0: int = dim(x, 0) hint 100
s1: int = dim(x, 1) hint 100
s2: float = var(k) hint 0.5
%0: f64[s0, s1] C = input(x)
%1: f64[s0, s1] C = multiply(%0, s2)
%2: f64[s1] C = sum(%1) {0, 0}
%3: f64[s0] C = max(%1) {0, 1}
outputs %1, %2, %3
"""
    rng = np.random.default_rng(3)
    same(text, [(a,) for dims in [(3, 2), (40, 70), (700, 33)] for a in layouts(rng.standard_normal(dims))], [1.5])
