"""Native code of graphs given as text, against NumPy through the reference interpreter, at many sizes and memory orders."""

import itertools
import random

import numpy as np
import pytest

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

SIZES = [0, 1, 2, 3, 15, 16, 17, 63, 64, 100, 513]
EXACT = {
    "f": (
        "add subtract multiply divide maximum minimum sqrt negative absolute square floor ceil trunc where sign reciprocal"
    ).split(),
    "i": (
        "add subtract multiply maximum minimum negative absolute square bitwise_and bitwise_xor where floor_divide remainder"
    ).split(),
}
INEXACT = "exp log sin cos tanh log1p expm1 arctan power".split()
COMPARE = "greater less equal not_equal less_equal greater_equal".split()
BINARY = "add subtract multiply divide maximum minimum bitwise_and bitwise_xor floor_divide"
ARITY = {"where": 3} | dict.fromkeys(BINARY.split(), 2)
ARITY |= dict.fromkeys(["remainder", "power"], 2)


def layouts(a):
    """The same elements in other places: contiguous, reversed, strided, Fortran order."""
    yield a
    wide = np.zeros([2 * n + 1 for n in a.shape], a.dtype)
    view = wide[tuple(slice(1, 2 * n + 1, 2) for n in a.shape)]
    view[...] = a
    yield view
    back = np.ascontiguousarray(a[tuple(slice(None, None, -1) for _ in a.shape)])
    yield back[tuple(slice(None, None, -1) for _ in a.shape)]
    yield np.asfortranarray(a)


def numbers(rng, shape, dtype):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith(("i", "u")):
        return rng.integers(-50 if dtype[0] == "i" else 0, 50, shape).astype(dtype[0] + str(int(dtype[1:]) // 8))
    return (rng.standard_normal(shape) * 3).astype("f" + str(int(dtype[1:]) // 8))


def ulps(a, b):
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b)
    with np.errstate(all="ignore"):
        step = np.spacing(np.abs(b)).astype(np.float64)
        d = np.abs(a - b.astype(np.float64)) / step
    return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, d)


def check(capsule, arrays, scalars=(), limit=0.0):
    with np.errstate(all="ignore"):
        status, got = _dynoc._graph_run(capsule, [a.copy("K") if not a.flags.owndata else a for a in arrays], scalars)
        want = _dynoc._graph_interp(capsule, arrays, scalars)
    assert status == 0
    for g, w in zip(got, want, strict=True):
        assert type(g) is type(w)
        assert g.dtype == w.dtype and g.shape == w.shape
        if limit == 0 or g.dtype.kind != "f":
            assert np.array_equal(g, w, equal_nan=g.dtype.kind == "f"), (g, w)
        elif g.size:
            assert ulps(g, w).max() <= limit, (ulps(g, w).max(), g, w)
    return got


def random_graph(r, dtype, nops, inexact):
    """Elementwise operators over x[n, m], y[n, m], z[m], w[n, 1] and a number."""
    kind = dtype[0]
    text = "graph g\ns0: int = dim(x, 0) hint 1000\ns1: int = dim(x, 1) hint 500\n"
    text += f"s2: {'float' if kind == 'f' else 'int'} = var(k) hint {'0.5' if kind == 'f' else '3'}\n"
    shapes = ["s0, s1", "s0, s1", "s1", "s0, 1"]
    lines = [f"%{i}: {dtype}[{shape}] C = input({name})" for i, (name, shape) in enumerate(zip("xyzw", shapes))]
    values, booleans = [0, 1, 2, 3], []
    names = EXACT[kind] + (INEXACT * 2 if inexact else [])
    for i in range(4, 4 + nops):
        if r.random() < 0.15:
            a, b = r.choice(values), r.choice(values)
            lines.append(f"%{i}: bool[s0, s1] C = {r.choice(COMPARE)}(%{a}, %{b}) compute {dtype}")
            lines[-1] = lines[-1].replace("s0, s1", join(lines, a, b))
            booleans.append(i)
            continue
        op = r.choice(names)
        n = ARITY.get(op, 1)
        args = [r.choice(values[-3:] + values[:4]) for _ in range(n)]
        if op == "where" and booleans:
            args[0] = r.choice(booleans)
        shape = join(lines, *args)
        texts = [f"%{a}" for a in args]
        if n == 2 and r.random() < 0.3:
            texts[1] = "s2"
            shape = join(lines, args[0])
        lines.append(f"%{i}: {dtype}[{shape}] C = {op}({', '.join(texts)})")
        values.append(i)
    outputs = [i for i in values[-2:] if i > 3]
    return text + "\n".join(lines) + "\noutputs " + ", ".join(f"%{i}" for i in outputs) + "\n"


def join(lines, *args):
    shapes = [lines[a].split("[")[1].split("]")[0].split(", ") for a in args]
    rank = max(len(s) for s in shapes)
    shapes = [["1"] * (rank - len(s)) + s for s in shapes]
    return ", ".join(next((d for d in dims if d != "1"), "1") for dims in zip(*shapes))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", ["f64", "f32", "i64", "i32"])
def test_elementwise(seed, dtype):
    r, rng = random.Random(seed * 100 + len(dtype)), np.random.default_rng(seed)
    capsule = _dynoc._graph_compile(random_graph(r, dtype, 8, False))
    for n, m in itertools.product(SIZES[:7], SIZES[:9]):
        if 1 in (n, m):
            continue  # a size of 1 is a constant of the graph: other guards
        x, y, z, w = (numbers(rng, s, dtype) for s in ((n, m), (n, m), (m,), (n, 1)))
        for a, b in zip(layouts(x), itertools.islice(itertools.cycle(layouts(y)), 1, None)):
            check(capsule, [a, b, z, w], [0.75 if dtype[0] == "f" else 3])


FUNCTIONS = "exp log sin cos tan tanh log1p expm1 arctan arcsin arccos sinh cosh exp2 log2 log10 cbrt".split()


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("first", range(0, len(FUNCTIONS), 6))
def test_functions(dtype, first):
    """Within 4 ULP of NumPy's double, and the same bits at every position, stride and size."""
    names = FUNCTIONS[first : first + 6]
    text = f"graph g\ns0: int = dim(x, 0) hint 1000\n%0: {dtype}[s0] C = input(x)\n"
    text += "".join(f"%{i}: {dtype}[s0] C = {name}(%0)\n" for i, name in enumerate(names, 1))
    text += "outputs " + ", ".join(f"%{i}" for i in range(1, len(names) + 1)) + "\n"
    capsule = _dynoc._graph_compile(text)
    np_type = np.float64 if dtype == "f64" else np.float32
    x = np.concatenate([np.linspace(-0.99, 0.99, 200), np.linspace(0.01, 20, 313), np.geomspace(1e-30, 80, 100)]).astype(np_type)
    with np.errstate(all="ignore"):
        whole = _dynoc._graph_run(capsule, [x], [])[1]
        wide = x.astype(np.longdouble if dtype == "f64" else np.float64)
        for name, got in zip(names, whole):
            want = getattr(np, name)(wide).astype(np_type)
            assert ulps(got, want).max() <= 4, name
        for part in (slice(0, 1), slice(7, 9), slice(3, 40), slice(None, None, -1), slice(5, 300, 7)):
            for got, all_of_it in zip(_dynoc._graph_run(capsule, [x[part]], [])[1], whole):
                assert np.array_equal(got.view("u1"), all_of_it[part].copy().view("u1"))


REDUCE = """graph g
s0: int = dim(x, 0) hint 1000
s1: int = dim(x, 1) hint 500
s2: int = dim(x, 2) hint 30
%0: {t}[s0, s1, s2] C = input(x)
%1: {t}[{shape}] C = {op}(%0) {{{aux}}}{scalar}
outputs %1
"""
AXES = [
        ("", "0, 0, 1, 2"),
        ("s0, s1", "0, 2"),
        ("s1, s2", "0, 0"),
        ("s0, 1, s2", "1, 1"),
        ("s1", "0, 0, 2"),
        ("1, 1, s2", "1, 0, 1"),
    ]


@pytest.mark.parametrize("op", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("dtype", ["f64", "f32", "i64"])
def test_reduce(op, dtype):
    rng = np.random.default_rng(1)
    for shape, aux in AXES:
        text = REDUCE.format(t=dtype, shape=shape, op=op, aux=aux, scalar="" if shape else " npscalar")
        capsule = _dynoc._graph_compile(text)
        empty = [(0, 2, 3), (2, 0, 3), (2, 3, 0)]
        for dims in [(2, 3, 5), (3, 17, 100), (2, 600, 3), (40, 33, 2), (700, 2, 3), (2, 3, 1100), *empty]:
            if op in ("max", "min") and 0 in dims:
                continue
            x = numbers(rng, dims, dtype)
            axes = tuple(int(v) for v in aux.split(", ")[1:])
            for a in layouts(x):
                got = check(capsule, [a], limit=1e9)[0]
                assert np.asarray(got).tobytes() == np.asarray(getattr(np, op)(a, axis=axes, keepdims=aux[0] == "1")).tobytes()


def test_nan_and_zero_signs():
    for op in ("max", "min"):
        capsule = _dynoc._graph_compile(
            "graph g\ns0: int = dim(x, 0) hint 9\n%0: f64[s0] C = input(x)\n"
            f"%1: f64[] C = {op}(%0) {{0, 0}}\noutputs %1\n"
        )
        for n in (1, 2, 40, 600, 1500):
            for at in {0, n // 2, n - 1}:
                x = np.arange(n, dtype=float)
                x[at] = np.nan
                assert np.isnan(_dynoc._graph_run(capsule, [x], [])[1][0])
    capsule = _dynoc._graph_compile(
        "graph g\ns0: int = dim(x, 0) hint 9\n%0: f64[s0] C = input(x)\n%1: f64[] C = sum(%0) {0, 0}\noutputs %1\n"
    )
    for n in (0, 1, 2, 33, 700):
        got = _dynoc._graph_run(capsule, [np.full(n, -0.0)], [])[1][0]
        assert np.signbit(got) == np.signbit(np.sum(np.full(n, -0.0)))


SOFTMAX = """graph g
s0: int = dim(x, 0) hint 1000
s1: int = dim(x, 1) hint 500
%0: {t}[s0, s1] C = input(x)
%1: {t}[s0, 1] C = max(%0) {{1, 1}}
%2: {t}[s0, s1] C = subtract(%0, %1)
%3: {t}[s0, s1] C = exp(%2)
%4: {t}[s0, 1] C = sum(%3) {{1, 1}}
%5: {t}[s0, s1] C = divide(%3, %4)
outputs %5
"""
LAYER_NORM = """graph g
s0: int = dim(x, 0) hint 1000
s1: int = dim(x, 1) hint 500
%0: {t}[s0, s1] C = input(x)
%1: {t}[s0, 1] C = sum(%0) {{1, 1}}
%2: {t}[s0, 1] C = divide(%1, s1)
%3: {t}[s0, s1] C = subtract(%0, %2)
%4: {t}[s0, s1] C = multiply(%3, %3)
%5: {t}[s0] C = sum(%4) {{0, 1}}
%6: {t}[s0] C = divide(%5, s1)
%7: {t}[s0] C = add(%6, 1e-05)
%8: {t}[s0] C = sqrt(%7)
%9: {t}[s0, 1] C = slice(%8, 0, s0, 1) {{0, 2}} view
%10: {t}[s0, s1] C = divide(%3, %9)
outputs %10
"""


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("text", [SOFTMAX, LAYER_NORM], ids=["softmax", "layer_norm"])
def test_rows(text, dtype):
    rng = np.random.default_rng(3)
    text = text.format(t=dtype)
    loops = _dynoc._lower_text(text)
    assert "group 0" in loops and loops.count("kernel (") <= 5
    capsule = _dynoc._graph_compile(text)
    for n, m in [(2, 3), (3, 17), (5, 512), (2, 513), (1000, 40), (7, 3000), (0, 5), (400, 700)]:
        x = numbers(rng, (n, m), dtype)
        results = []
        for a in layouts(x):
            with np.errstate(all="ignore"):
                status, (got,) = _dynoc._graph_run(capsule, [a], [])
                (want,) = _dynoc._graph_interp(capsule, [a], [])
            assert status == 0 and got.shape == want.shape
            assert np.allclose(got, want, rtol=1e-5 if dtype == "f32" else 1e-13, atol=1e-6 if dtype == "f32" else 1e-14)
            results.append(got)
        if "exp" in text:  # what it adds lies the same, however the input does
            assert all(np.array_equal(r, results[0]) for r in results)


STORES = {
    "shifted": """%0: f64[s0] C = input(x)
%1: f64[999] C = slice(%0, 1, s0, 1) {0} view
%2: f64[999] C = slice(%0, 0, 999, 1) {0} view
%3: f64[999] C = store(%1, %2)
%4: f64[s0] C = multiply(%0, 2)
outputs %0, %4
""",
    "old value": """%0: f64[s0] C = input(x)
%1: f64[s0] C = add(%0, 1)
%2: f64[s0] C = store(%0, 0)
%3: f64[s0] C = multiply(%1, %0)
outputs %3, %1
""",
    "in place": """%0: f64[s0] C = input(x)
%1: f64[s0] C = multiply(%0, %0)
%2: f64[s0] C = store(%0, %1)
%3: f64[s0] C = add(%0, 1)
%4: f64[s0] C = store(%0, %3)
%5: f64[] C = sum(%0) {0, 0} npscalar
outputs %0, %5
""",
    "part": """%0: f64[s0] C = input(x)
%1: f64[s0] C = full(_)
%2: f64[s0] C = store(%1, 1.5)
%3: f64[500] C = slice(%1, 0, s0, 2) {0} view
%4: f64[500] C = slice(%0, 0, s0, 2) {0} view
%5: f64[500] C = store(%3, %4)
%6: f64[500] C = slice(%1, 999, -1, -2) {0} view
outputs %1, %6
""",
    "reshape": """%0: f64[s0] C = input(x)
%1: f64[10, 100] C = reshape(%0) view
%2: f64[100, 10] <1 0> = permute(%1) {1, 0} view
%3: f64[1000] C = reshape(%2) copy
%4: f64[1000] C = add(%3, %0)
%5: f64[1, 10, 100] C = slice(%1, 0, 10, 1, 0, 100, 1) {2, 0, 0} view
%6: f64[3, 10, 100] C = broadcast(%5) view
%7: f64[10, 100] C = sum(%6) {0, 0}
outputs %3, %4, %2, %7, %6
""",
}


@pytest.mark.parametrize("name", STORES)
def test_memory(name):
    text = "graph g\ns0: int = dim(x, 0) hint 1000\n" + STORES[name].replace("999] C", "s1] C")
    text = text.replace("%0: f64[s0]", "s1: int = sub(s0, 1) hint 999\n%0: f64[s0]", 1)
    capsule = _dynoc._graph_compile(text)
    for x in layouts(np.linspace(-2, 3, 1000)):
        mine, theirs = x.copy("K"), x.copy("K")
        if not x.flags.c_contiguous:
            mine, theirs = (np.zeros(3000)[500:2500:2] for _ in range(2))
            mine[:] = theirs[:] = x
        status, got = _dynoc._graph_run(capsule, [mine], [])
        want = _dynoc._graph_interp(capsule, [theirs], [])
        assert status == 0 and np.array_equal(mine, theirs)
        for g, w in zip(got, want, strict=True):
            assert type(g) is type(w) and (np.array_equal(g, w) if np.ndim(g) else np.isclose(g, w, rtol=1e-14)), name
            assert np.shape(g) == np.shape(w)
            if isinstance(g, np.ndarray):
                assert g.strides == w.strides and np.shares_memory(g, mine) == np.shares_memory(w, theirs)
                assert g.flags.writeable == w.flags.writeable


def test_warnings_make_eager_run_again():
    text = "graph g\ns0: int = dim(x, 0) hint 1000\n%0: f64[s0] C = input(x)\n%1: f64[s0] C = {op}(%0{more})\noutputs %1\n"
    again = _dynoc._graph_compile(text.format(op="divide", more=", 0.0"))
    fine = _dynoc._graph_compile(text.format(op="sin", more=""))
    for n in (1, 5, 16, 100, 300000):
        x = np.linspace(1, 2, n)
        assert _dynoc._graph_run(again, [x], [])[0] == 2
        with np.errstate(divide="ignore"):
            assert _dynoc._graph_run(again, [x], [])[0] == 0
        assert _dynoc._graph_run(fine, [x], [])[0] == 0


@pytest.mark.parametrize("text", [SOFTMAX, LAYER_NORM], ids=["softmax", "layer_norm"])
def test_text_form(text):
    text = text.format(t="f32")
    loops = _dynoc._lower_text(text)
    again = _dynoc._loops_roundtrip(text, loops)
    assert again == loops
    with pytest.raises(ValueError, match="no earlier value"):
        _dynoc._loops_roundtrip(text, loops.replace("= exp v", "= exp v9", 1).replace("= sqrt v", "= sqrt v9", 1))


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_functions_of_single_elements(dtype):
    """A function of something that is the same for all lanes gives the bits that it gives elsewhere."""
    np_type = np.float64 if dtype == "f64" else np.float32
    x = np.linspace(0.1, 7, 400).astype(np_type)
    whole = f"graph g\ns0: int = dim(x, 0) hint 1000\n%0: {dtype}[s0] C = input(x)\n%1: {dtype}[s0] C = exp(%0)\noutputs %1\n"
    single = f"graph g\n%0: {dtype}[] C = input(x)\n%1: {dtype}[] C = exp(%0)\noutputs %1\n"
    number = f"graph g\ns0: float = var(k) hint 0.5\n%0: {dtype}[] C = scalar(s0)\n%1: {dtype}[] C = exp(%0)\noutputs %1\n"
    (expected,) = _dynoc._run_graph_text(whole, [x], [])
    one, scalar = _dynoc._graph_compile(single), _dynoc._graph_compile(number)
    for i in range(0, 400, 7):
        assert _dynoc._graph_run(one, [x[i : i + 1].reshape(())], [])[1][0] == expected[i]
        assert _dynoc._graph_run(scalar, [], [float(x[i])])[1][0] == expected[i]
