"""Reductions, running sums and positions in every form, against plain NumPy: dtypes, axes, memory orders, awkward values,
keywords, small sizes through one entry, warnings, and that each form is one graph."""

import platform

import numpy as np
import pytest
from case import Call, f64
from compare import check, dynoc
from logs import counted, logged

pytestmark = pytest.mark.any_interpreter

FLOATS = ["float32", "float64"]
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", *FLOATS]
SUMS = ["sum", "prod", "any", "all"]
EXTREMES = ["max", "min", "argmax", "argmin"]
MEANS = ["mean", "var", "std"]
SCANS = ["cumsum", "cumprod"]
POSITIONS = ["argmax", "argmin"]
AXES = ["", "axis=0", "axis=-1", "axis=(0, 1)", "axis=0, keepdims=True", "keepdims=True"]
made = 0


def function(lines, arguments="x"):
    """A function that returns these expressions, one to a line, so that warnings tell them apart."""
    global made
    made += 1
    names = {"np": np}
    text = f"def f({arguments}):\n    return (\n" + "".join(f"        {line},\n" for line in lines) + "    )\n"
    exec(compile(text, f"<reductions {made}>", "exec"), names)
    return names["f"]


def optimised(fn, **options):
    return dynoc.optimize(fn, wait=True, **options)


def forms(ops, axes=AXES):
    lines = [f"x.{op}({axis})" for op in ops for axis in axes]
    return [line for line in lines if "arg" not in line or "(0, 1)" not in line]


def whole(dtype, *shape):
    """Numbers whose sums are exact in float32 and wrap in small integers."""
    rng = np.random.default_rng(7)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    low, high = (0, 120) if dtype[0] == "u" else (-8, 9) if dtype in FLOATS else (-100, 101)
    return rng.integers(low, high, shape).astype(dtype)


def layouts(a):
    """The same elements elsewhere: C, Fortran, strided, backwards, an axis that stands still, turned."""
    wide = np.zeros([2 * n for n in a.shape], a.dtype)
    wide[::2, ::2] = a
    yield lambda: (a.copy(),)
    yield lambda: (np.asfortranarray(a),)
    yield lambda: (wide[::2, ::2],)
    yield lambda: (a[::-1, ::-1],)
    yield lambda: (np.broadcast_to(a[:1], a.shape),)
    yield lambda: (a.T,)


@pytest.mark.parametrize("group", [SUMS, EXTREMES, MEANS], ids=lambda g: g[0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_axes_and_layouts(dtype, group):
    plain = function(forms(group))
    fast = optimised(plain, fullgraph=True)
    for maker in layouts(whole(dtype, 37, 70)):
        for turn in range(2):
            check(plain, fast, maker, "near", what=f"call {turn}")


@pytest.mark.parametrize("dtype", ["bool", "int16", "float64"])
def test_ranks(dtype):
    three = ["axis=(0, 2)", "axis=1", "axis=(-1, 0), keepdims=True", "axis=()", "axis=-2"]
    ops = ["sum", "prod", "any", "max", "mean", "std"]
    for shape, axes in [((9, 4, 33), three), ((50,), ["", "axis=0", "axis=(-1,)", "keepdims=True"]), ((), ["", "axis=()"])]:
        plain = function(forms(ops, axes) + ([] if len(shape) > 1 else forms(SCANS + POSITIONS, [""])))
        fast = optimised(plain, fullgraph=True)
        a = whole(dtype, *shape)
        for maker in (lambda a=a: (a,), lambda a=a: (a.T,), lambda a=a: (np.moveaxis(a, 0, -1) if a.ndim > 1 else a,)):
            for turn in range(2):
                check(plain, fast, maker, "near", what=f"{shape}, call {turn}")


def test_functions_are_their_methods():
    names = [*SUMS, "max", "min", "amax", "amin", *MEANS, *SCANS, *POSITIONS, "ptp", "count_nonzero"]
    lines = [f"np.{name}(x, {axis})" for name in names for axis in ("axis=0", "axis=-1", "axis=None")]
    lines += [f"np.{name}(x, 1, keepdims=True)" for name in (*EXTREMES, "ptp", "count_nonzero")]
    plain = function(lines)
    fast = optimised(plain, fullgraph=True)
    for maker in layouts(whole("int32", 12, 31)):
        check(plain, fast, maker, "near")


# ---- elements one after the other: eager's bits


@pytest.mark.parametrize("dtype", DTYPES)
def test_scans_and_positions(dtype):
    lines = forms(SCANS, ["", "axis=0", "axis=1"]) + forms(POSITIONS, ["", "axis=0", "axis=1", "axis=0, keepdims=True"])
    lines += ["np.cumulative_sum(x, axis=0)", "np.cumulative_prod(x, axis=-1)"]
    plain = function(lines)
    fast = optimised(plain, fullgraph=True)
    a = whole(dtype, 41, 300)
    a = (a * 1.37).astype(dtype) if dtype in FLOATS else a
    for maker in layouts(a):
        for _ in range(2):
            with np.errstate(all="ignore"):
                check(plain, fast, maker)


@pytest.mark.parametrize("dtype", FLOATS)
def test_positions_of_awkward_numbers(dtype):
    """The first nan, the first of equals, zeros of either sign, infinities: at every position of a line, and of a column."""
    plain = function(forms(POSITIONS, ["axis=-1", "axis=0", ""]))
    fast = optimised(plain, fullgraph=True)
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5.0, -5.0], dtype)
    for n in (1, 2, 15, 16, 17, 40, 256, 257, 600):
        rng = np.random.default_rng(n)
        a = rng.choice(np.array([0.0, -0.0, 1.0, -1.0], dtype), (24, n))
        a[rng.integers(0, 24, 30), rng.integers(0, n, 30)] = rng.choice(values, 30)
        for maker in (lambda a=a: (a,), lambda a=a: (np.asfortranarray(a),), lambda a=a: (np.repeat(a, 2, 1)[:, ::2],)):
            check(plain, fast, maker, what=f"n = {n}")


def awkward_floats(dtype, shape):
    """Of every exponent, and now and then no number, of either sign."""
    rng = np.random.default_rng(shape[1])
    bits = rng.integers(0, 2 ** (8 * np.dtype(dtype).itemsize), shape, np.uint64).astype(f"u{np.dtype(dtype).itemsize}")
    number = np.isfinite(bits.view(dtype))
    x = np.where(number, bits.view(dtype), rng.choice(np.array([np.inf, -np.inf, 0.0, -0.0], dtype), shape))
    nan = np.array([np.nan, -np.nan], dtype)
    yield x
    yield np.where(rng.random(shape) < 0.02, rng.choice(nan, shape), x)
    yield np.full(shape, -np.inf, dtype)
    yield np.full(shape, np.inf, dtype)
    yield np.full(shape, -np.nan, dtype)


@pytest.mark.parametrize("isa", ["", "-mno-avx512f", "-mno-avx -mno-sse3", "built-in"])
@pytest.mark.parametrize("dtype", ["float16", *FLOATS])
def test_extremes_of_awkward_floats(dtype, isa, monkeypatch):
    """By every way along rows, columns and all, alone and beside a sum; nan is no reason for a second call."""
    monkeypatch.setattr(dynoc.config, "compiler", "/nonexistent/cc" if isa == "built-in" else dynoc.config.compiler)
    monkeypatch.setattr(dynoc.config, "cflags", isa if isa != "built-in" and platform.machine() == "x86_64" else "")

    def plain(x):
        return x.max(-1), x.min(-1), x.max(0), x.min(0), x.max(), x.min(), (x > 0).sum(0), (-x).max(0), x[:, ::2].max(-1)

    fast = optimised(plain, fullgraph=True)
    fast(np.ones((2, 2), dtype))
    before = counted("FLAGS")
    for shape in ((1, 1), (40, 2), (3, 7), (33, 16), (40, 17), (17, 31), (64, 32), (5, 33), (9, 100), (3, 1030), (1030, 3)):
        for x in awkward_floats(dtype, shape):
            for want, got in zip(plain(x), fast(x), strict=True):
                np.testing.assert_array_equal(got, want)
    assert counted("FLAGS") == before


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "float64"])
def test_positions_in_a_long_line(dtype):
    plain = function(["x.argmax()", "x.argmin()"])
    fast = optimised(plain, fullgraph=True)
    info = np.finfo(dtype) if dtype in FLOATS else np.iinfo(dtype)
    for at in (0, 1, 70_000, 131_071, 199_999):
        a = np.ones(200_000, dtype)
        a[at] = info.max
        a[at // 2] = info.min if dtype in FLOATS else 0
        a[-1] = info.max
        check(plain, fast, lambda a=a: (a,), what=str(at))
        check(plain, fast, lambda a=a: (np.repeat(a, 2)[::2],), what=str(at))
        if dtype in FLOATS:
            a[at // 3] = np.nan
            check(plain, fast, lambda a=a: (a,), what=f"nan, {at}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_short_lines_are_laid_side_by_side(dtype):
    """Few elements of many results: what lines share is laid out once, and positions are found column by column."""
    rng = np.random.default_rng(5)

    def nearest(x, c):
        apart = (x[:, None, :] - c[None, :, :]) if x.dtype != bool else (x[:, None, :] ^ c[None, :, :])
        return apart.sum(axis=2), apart.argmin(axis=1), apart.sum(axis=2).argmin(axis=1), apart.max(axis=2).argmax(axis=1)

    fast = optimised(nearest)
    for n, k, m in ((3, 2, 2), (40, 8, 3), (700, 5, 3), (1100, 16, 9), (600, 17, 2), (513, 3, 33)):
        x, c = (rng.integers(0, 5, (r, m)).astype(dtype) for r in (n, k))
        if dtype in FLOATS:
            x[rng.random(x.shape) < 0.05] = np.nan
        for layout in layouts(x):
            check(nearest, fast, lambda layout=layout, c=c: (*layout(), c), 0 if dtype not in FLOATS else 1e-6)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float32", "float64"])
def test_accumulate(dtype):
    ops = ("add", "multiply", "maximum", "minimum")
    plain = function([f"np.{op}.accumulate(x{more})" for op in ops for more in ("", ", axis=1")])
    fast = optimised(plain, fullgraph=True)
    awkward = np.resize(np.array([0.0, -0.0, 1, 0.0, -1, -0.0, np.nan, 3, np.inf, -np.inf]), (30, 33))
    arrays = [whole(dtype, 9, 70)]
    if dtype in FLOATS:
        arrays += [np.roll(awkward.astype(dtype), -i, 1)[: i + 2] for i in range(12)]
    for a in arrays:
        for maker in layouts(a):
            with np.errstate(all="ignore"):
                check(plain, fast, maker)


def test_a_scan_reads_and_is_read_inside_the_graph():
    plain = function(["(x * 2).cumsum(axis=1) + 1", "np.cumsum(x[::-1], axis=0)[::-1]", "(x - x.mean()).argmax(axis=0) * 3", "x"])
    fast = optimised(plain, fullgraph=True)
    for maker in layouts(f64(20, 33)):
        check(plain, fast, maker, "near")

    def softened(x):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        c = e.cumsum(axis=1)
        c /= c[:, -1:]
        return c, c.argmax(axis=1), e.sum(axis=1)

    fast = optimised(softened, fullgraph=True)
    for n in (100, 5, 1):
        check(softened, fast, lambda n=n: (f64(40, n),), "near")
        check(softened, fast, lambda n=n: (f64(40, n),), "near")


def test_a_scan_of_what_is_as_long_as_it_comes_out():
    def late(x):
        u = np.unique(x)
        return u.cumsum(), u.argmax(), (u * 2).argmin(), np.add.accumulate(u[::-1]), u.sum(), np.mean(u)

    fast = optimised(late)
    for n in (9, 9, 3, 40, 1):
        check(late, fast, lambda n=n: (np.round(f64(n) * 2),), "near")


# ---- awkward values


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("values", [[np.nan, 1], [np.inf, 1], [np.inf, -np.inf], [-np.inf, 2, 3], [-0.0], [0.0, 1e30]])
def test_awkward_numbers(dtype, values):
    plain = function(forms([*SUMS, "max", "min", *MEANS, *SCANS, "argmax"], ["axis=0", "axis=1", ""]))
    fast = optimised(plain)
    for n in (1, 3, 40):
        a = np.resize(np.array(values, np.float64), (n, 2 * n)).astype(dtype)
        check(plain, fast, lambda a=a: (a,), "near", what=f"n = {n}")
        check(plain, fast, lambda a=a: (a.T,), "near", what=f"n = {n}, turned")


def test_sums_and_products_of_integers_wrap():
    plain = function(forms(["sum", "prod", "cumsum", "cumprod", "max", "min"], ["axis=0", "axis=1, dtype=np.int8", ""][:1]))
    for dtype in DTYPES[1:9]:
        fast = optimised(plain, fullgraph=True)
        a = np.full((40, 33), np.iinfo(dtype).max, dtype)
        for _ in range(2):
            check(plain, fast, lambda a=a: (a,))


# ---- keywords

KEYWORDS = [
    "dtype=np.float32", "dtype='int64'", "dtype=float, axis=0", "dtype=np.int16, axis=1", "dtype=bool, axis=0",
    "initial=3, axis=0", "initial=n, axis=1, keepdims=True", "initial=s, axis=0, dtype=float",
    "where=m, axis=0, initial=1", "where=m, initial=n", "where=m[:, :1], axis=1, initial=2", "where=m[0], axis=0, initial=n",
    "where=x > 2, axis=1, keepdims=True, initial=0",
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["bool", "int16", "uint8", "float32", "float64"])
def test_keywords(dtype):
    sums = [f"np.{op}(x, {words})" for op in ("sum", "prod") for words in [*KEYWORDS, "where=m", "where=m, axis=1"]]
    extremes = [f"x.{op}({words})" for op in ("max", "min") for words in KEYWORDS if "dtype" not in words]
    truths = [f"np.{op}(x, {words})" for op in ("any", "all") for words in ("where=m", "where=m[0], axis=1", "where=m, axis=0")]
    if dtype == "bool":
        sums = [line for line in sums if "initial=n" not in line or "dtype" in line]
        extremes = [line for line in extremes if "initial=2" not in line and "initial=n" not in line]
        sums = [line.replace("x > 2", "x > 0") for line in sums]
        extremes = [line.replace("x > 2", "x > 0") for line in extremes]
    for lines in (sums, extremes, truths):
        plain = function(lines, "x, m, n, s")
        fast = optimised(plain, fullgraph=True)
        for n, s in ((3, 0.5), (4, 2.5), (0, 0.0)):
            a, m = whole(dtype, 23, 40), np.random.default_rng(5).integers(0, 2, (23, 40)).astype(bool)
            m[:, 7] = m[11] = False
            with np.errstate(all="ignore"):
                check(plain, fast, lambda a=a, m=m, n=n, s=s: (a, m, n, s), "near")
                check(plain, fast, lambda a=a, m=m, n=n, s=s: (a.T.copy().T, m, n, s), "near")


def test_a_negative_zero_to_start_from():
    plain = function(["x.sum(initial=s)", "x.prod(initial=s)", "x.max(initial=s)"], "x, s")
    fast = optimised(plain)
    for s in (1.5, -0.0, 0.0, float("nan"), float("inf")):
        for x in (np.array([-0.0, -0.0]), np.array([1.0, 2.0])):
            check(plain, fast, lambda x=x, s=s: (x, s), "near", what=f"{s} {x}")
    for line in ("x.sum(initial=None)", "x.max(initial=None)", "x.sum(where=None)", "x.sum(where=False)"):
        plain = function([line])
        fast = optimised(plain)
        for n in (2, 2, 0):
            check(plain, fast, lambda n=n: (np.full(n, -0.0),), "near", what=line)


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "float64"])
def test_mean_var_and_std(dtype):
    words = ("dtype=np.float32", "axis=0, dtype=np.float64", "axis=1, where=m")
    lines = [f"np.{op}(x, {word})" for op in MEANS for word in words]
    lines += [f"x.mean({words})" for words in ("where=m", "axis=0, where=m[0], keepdims=True", "axis=1, dtype=np.int64")]
    words = ("ddof=1", "axis=0, ddof=d", "axis=1, ddof=s, keepdims=True")
    lines += [f"x.{op}({word})" for op in ("var", "std") for word in words]
    lines += [f"np.{op}(x, axis=0, correction=1)" for op in ("var", "std")]
    lines += ["np.var(x, axis=0, mean=np.mean(x, axis=0, keepdims=True))", "x.std(axis=1, where=m, ddof=1)"]
    lines += ["x.var(where=m, ddof=s)", "x.mean(axis=())", "x.std(axis=(0, 1), ddof=d)"]
    plain = function(lines, "x, m, d, s")
    fast = optimised(plain, fullgraph=True)
    m = np.random.default_rng(5).integers(0, 3, (23, 40)) > 0
    for d, s in ((1, 0.5), (2, 1.5), (0, -1.0)):
        for maker in layouts(whole(dtype, 23, 40)):
            if maker()[0].shape == m.shape:
                check(plain, fast, lambda maker=maker, d=d, s=s: (*maker(), m, d, s), "near", what=f"{d} {s}")


MASKED = [
    ("x.mean(axis=0, where=m)", False), ("np.var(x, axis=1, where=m)", False), ("x.std(axis=0, where=m, ddof=2)", False),
    ("x.mean(where=m)", False), ("np.sum(x, axis=0, where=m)", True),
]  # fmt: skip


@pytest.mark.parametrize("state", ["warn", "ignore", "raise"])
@pytest.mark.parametrize("line", [line for line, _ in MASKED])
def test_a_mask_that_leaves_nothing_warns_as_eager(line, state):
    plain = function([line], "x, m")
    fast = optimised(plain)
    x = f64(6, 5)
    x[1] = np.nan
    some, few, none = np.ones((6, 5), bool), np.ones((6, 5), bool), np.zeros((6, 5), bool)
    few[:, 2] = few[3] = False
    few[1, 2] = few[3, 0] = True
    for m in (some, some, few, none, some, few):
        with np.errstate(all=state):
            check(plain, fast, lambda m=m: (x, m), "near")


def test_a_mean_that_may_warn_beside_a_write():
    def both(x, m):
        x += 1
        return x.mean(axis=0, where=m)

    fast = optimised(both)
    with np.errstate(all="ignore"):
        for m in (np.ones((4, 3), bool), np.ones((4, 3), bool), np.zeros((4, 3), bool)):
            check(both, fast, lambda m=m: (f64(4, 3), m), "near")


@pytest.mark.parametrize("of", ["bool", "int8", "uint64", "float64"])
def test_out(of):
    """Every operator into arrays of every dtype that it may be cast to."""
    lines = [f"np.{op}(x, axis=0, out=OUT)" for op in (*SUMS, "max", "min", *MEANS)]
    lines += ["np.cumsum(x, axis=1, out=OUT)", "x.cumprod(axis=1, out=OUT)"]
    lines += ["x.argmax(axis=0, out=OUT)", "np.argmin(x, axis=0, out=OUT)"]

    def allowed(line, into):
        shape = (7, 9) if "cum" in line else (9,)
        try:
            function([line.replace("OUT", "o")], "x, o")(whole(of, 7, 9), np.ones(shape, into))
        except (TypeError, ValueError):
            return False
        return True

    for into in {"bool", "int64", "uint64", "int8", "float32", "float64", of}:
        with np.errstate(all="ignore"):
            wanted = [line for line in lines if allowed(line, into)]
        plain = function([line.replace("OUT", f"outs[{i}]") for i, line in enumerate(wanted)], "x, outs")
        fast = optimised(plain)

        def maker(into=into, wanted=wanted):
            return whole(of, 7, 9), [np.ones((7, 9) if "cum" in line else 9, into) for line in wanted]

        for turn in range(3):
            check(plain, fast, maker, "near", what=f"{of} into {into}, call {turn}")


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64"])
def test_average(dtype):
    lines = ["np.average(x)", "np.average(x, axis=0)", "np.average(x, weights=w)", "np.average(x, 1, w, keepdims=True)"]
    lines += ["np.average(x, axis=1, weights=w[0])", "np.average(x, axis=0, weights=w[:, 2])", "np.average(x, (0, 1), w)"]
    plain = function(lines, "x, w")
    fast = optimised(plain, fullgraph=True)
    for of in ("int64", "float32", "float64"):
        for maker in layouts(whole(dtype, 20, 31)):
            if maker()[0].shape == (20, 31):
                check(plain, fast, lambda maker=maker, of=of: (*maker(), whole("uint8", 20, 31).astype(of) + 1), "near", what=of)


@pytest.mark.parametrize("state", ["warn", "ignore"])
def test_average_without_weight_raises_as_eager(state):
    plain = function(["np.average(x, axis=0, weights=w)"], "x, w")
    fast = optimised(plain)
    x, some, none = f64(5, 4), np.ones((5, 4)), np.ones((5, 4))
    x[2, 1] = np.nan
    none[:, 1] = [1.0, -1.0, 2.0, -2.0, 0.0]
    for w in (some, some, none, some):
        with np.errstate(all=state):
            check(plain, fast, lambda w=w: (x, w), "near")


def test_out_overlaps_the_operand():
    plain = function(["np.sum(x, axis=0, out=x[0])", "np.cumsum(x, axis=0, out=x)", "x.max(axis=1, out=x[:, 0])"])
    fast = optimised(plain)
    for n in (5, 6, 40):
        check(plain, fast, lambda n=n: (f64(n, n),), "near")


# ---- sizes


@pytest.mark.parametrize("axis", ["axis=0", "axis=1", "axis=None", "axis=(0, 1)", "axis=1, keepdims=True"])
def test_small_sizes_through_one_entry(axis):
    for ops in (SUMS + SCANS + ["count_nonzero"], ["max"], ["min"], ["argmax", "argmin"], ["mean"], ["var", "std"]):
        ops = [op for op in ops if (op not in SCANS or "keep" not in axis) and (op not in SCANS + POSITIONS or "(" not in axis)]
        if not ops:
            continue
        plain = function([f"np.{op}(x, {axis})" for op in ops])
        for first in ((5, 4), (2, 3)):
            fast = optimised(plain)
            check(plain, fast, lambda first=first: (f64(*first),), "near")
            for n in range(4):
                for m in range(4):
                    check(plain, fast, lambda n=n, m=m: (f64(n, m),), "near", what=f"{n} x {m}")
            check(plain, fast, lambda: (f64(70, 33),), "near")
            dynoc.reset()


def test_one_entry_serves_all_sizes():
    lines = ["x.sum(axis=0)", "x.cumsum(axis=1)", "x.argmax(axis=0)", "x.std(axis=1, ddof=1)", "x.max(where=x > 0, initial=0)"]
    plain = function(lines)
    fast = optimised(plain, fullgraph=True)
    with logged("recompiles") as recompiles:
        for n, m in ((5, 6), (3, 2), (100, 40), (2, 700), (513, 2), (64, 64)):
            check(plain, fast, lambda n=n, m=m: (f64(n, m),), "near", what=f"{n} x {m}")
    assert len(fast.entries) == 1 and recompiles == []


@pytest.mark.parametrize("dtype", FLOATS)
def test_equal_columns_have_eagers_sums_wherever_they_are(dtype):
    plain = function(["x.sum(axis=0)", "x.mean(axis=0)", "x.prod(axis=0)"])
    fast = optimised(plain)
    for n in (1, 2, 31, 32, 33, 500, 513, 5000):
        column = (f64(n) * 1.1).astype(dtype)
        for x in (
            np.repeat(column[:, None], 3, 1), np.repeat(column[:, None], 70, 1), np.repeat(column[None], 40, 0).T,
            np.repeat(column[:, None], 70, 1)[:, ::3], np.asfortranarray(np.repeat(column[:, None], 5, 1)),
        ):  # fmt: skip
            with np.errstate(all="ignore"):
                for _ in range(2):
                    results = fast(x)
                assert [r.tobytes() for r in results] == [r.tobytes() for r in plain(x)]
            assert len({tuple(float(v).hex() for v in r) for r in zip(*results)}) == 1
            assert [r.dtype for r in results] == [np.dtype(dtype)] * 3


def test_threads_make_no_difference():
    plain = function(forms(["sum", "max", "argmax"], ["", "axis=0"]) + ["x.cumsum(axis=0)", "x.prod(axis=1)"])
    fast = optimised(plain)
    for shape in ((700, 1100), (5000, 133), (12, 50_000), (90_000, 7)):
        x, found = f64(*shape), []
        for threads in (1, 2, 3):
            dynoc.config.threads = threads
            with np.errstate(all="ignore"):
                results = [fast(x) for _ in range(2)][1]
            found.append([r.tobytes() for r in results])
        assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("dtype", FLOATS)
def test_large_sums_are_eagers(dtype):
    plain = function(["x.sum()", "x.sum(axis=0)"])
    fast = optimised(plain)
    rng = np.random.default_rng(1)
    for shape in ((1_000_003, 1), (40_000, 33)):
        x = rng.uniform(0.1, 1.0, shape).astype(dtype)
        for _ in range(2):
            assert [np.asarray(r).tobytes() for r in fast(x)] == [np.asarray(r).tobytes() for r in plain(x)]


# ---- copyto with a mask


@pytest.mark.parametrize("into", ["bool", "int32", "float32", "float64"])
def test_masked_store(into):
    lines = ["np.copyto(y, v, where=m)", "np.copyto(y, y[::-1], where=m)", "np.copyto(y, 1, where=m)"]
    lines += ["np.copyto(y[1:], 0, where=m[0])"]
    lines += ["np.copyto(y, v, where=m, casting='unsafe')", "np.copyto(y, v, 'same_kind', np.isnan(v))"]
    for line in lines:
        for of in ("bool", "int32", "float32", "float64"):
            plain = function([line, "y"], "y, v, m")
            fast = optimised(plain)

            def maker(of=of):
                v = whole(of, 6, 5)
                if of in FLOATS:
                    v[2, 3], v[1, 1] = np.nan, np.finfo(of).max
                m = np.random.default_rng(3).integers(0, 2, (6, 5)).astype(bool)
                m[1, 1] = m[2, 3] = False
                return whole(into, 6, 5), v, m

            for turn in range(2):
                check(plain, fast, maker, what=f"{line} {of} into {into}, call {turn}")


def test_sum_without_nan_as_numpy_writes_it():
    def nansum(x):
        mask = np.isnan(x)
        a = np.array(x, copy=True)
        np.copyto(a, 0, where=mask)
        return np.sum(a, axis=0), np.sum(~mask, axis=0, dtype=np.intp)

    fast = optimised(nansum, fullgraph=True)
    x = f64(20, 9)
    x[3, 4] = x[:, 2] = np.nan
    for _ in range(2):
        check(nansum, fast, lambda: (x,), "near")


def test_arguments_in_their_places():
    plain = function(
        [
            "x.any(0, None, None, True)", "x.sum(0, np.float32, None, True)", "np.sum(x, 0, np.float32)", "x.max(1, None, True)",
            "np.max(x, 1, None, True)", "x.mean(0, None, None, True)", "x.var(0, None, None, 1, True)",
            "np.any(x, 1, None, True)",
            "x.argmax(0, keepdims=True)", "x.cumsum(1, np.float32)", "np.cumsum(x, 0, np.float64)",
        ]
    )  # fmt: skip
    fast = optimised(plain, fullgraph=True)
    for maker in layouts(f64(9, 12)):
        check(plain, fast, maker, "near")


def test_errors_are_eagers():
    def call(x, how):
        return getattr(x, how[0])(*how[1:])

    fast = dynoc.optimize(call, wait=True)
    for how in (("sum", 5), ("max", (0, 0)), ("sum", 1.5), ("argmax", (0, 1)), ("cumsum", 3), ("var", 0, int, None, "x")):
        for _ in range(2):
            check(call, fast, lambda how=how: Call(f64(3, 4), how))
    for op in (*EXTREMES, "ptp"):
        plain = function([f"np.{op}(x)"])
        fast = optimised(plain)
        for n in (4, 4, 0):
            check(plain, fast, lambda n=n: (f64(n),), "near")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("first", [7, 15, 16, 17, 33, 64])
def test_short_rows_of_a_group(first, dtype):
    """How rows are walked follows from the sizes that were seen first; the entry serves all."""

    def softmax(x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def norm(x):
        return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)

    rng = np.random.default_rng(first)
    for fn in (softmax, norm):
        fast = optimised(fn)
        for rows, columns in [(5, first), (2, 2), (3, 9), (33, 16), (17, 31), (1000, 17), (2, 1000), (0, 5), (300, 63)]:
            x = rng.normal(size=(rows, columns)).astype(dtype)
            for case in (x, x[::-1, ::-1], np.asfortranarray(x)[:, ::1]):
                np.testing.assert_allclose(fast(case), fn(case), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
def test_truth_is_looked_at_no_longer_than_needed(threads, monkeypatch):
    """any, all and extremes of truth, of one long row and of rows, with the one that says it at the ends of what is looked at."""
    monkeypatch.setattr(dynoc.config, "threads", threads)

    def ends(x, m):
        return m.any(), m.all(), m.max(), m.min(), (x > 0).any(), (x == 0).all(), (np.sqrt(x) > 2).any()

    def rows(x, m):
        return m.any(axis=1), m.all(axis=1), m.max(axis=1), m.min(axis=0), (x != 0).any(axis=1)

    for fn, shape in ((ends, (100_003,)), (rows, (3, 70_001)), (rows, (70_001, 3))):
        fast = dynoc.optimize(fn, wait=True)
        for at in (None, 0, 31, 511, 512, 32767, 32768, 32769, 65535, 65536, 70_000):
            x, m = np.zeros(shape), np.zeros(shape, bool)
            for given in (m, ~m):
                if at is not None:
                    x.ravel()[at], given.ravel()[at] = 1, not given.ravel()[at]
                for a, b in zip(fn(x, given), fast(x, given), strict=True):
                    np.testing.assert_array_equal(a, b)

    with np.errstate(all="raise"):  # behind the first that says it there is one that eager warns of
        x = np.full(100_000, 9.0)
        x[-1] = -1
        with pytest.raises(FloatingPointError):
            dynoc.optimize(lambda x: (np.sqrt(x) > 2).any(), wait=True)(x)
