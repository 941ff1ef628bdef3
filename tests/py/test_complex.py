"""Complex numbers against eager: every row of the operator table that NumPy has a complex loop for, in every layout, with
infinities, nan, zeros of both signs; literals, parts, conversions, reductions."""

import itertools
import warnings

import numpy as np
import pytest
from compare import check, dynoc
from element import ELEMENTWISE, REDUCE, function, has_loop, layouts, optimise, quietly, rows, same_numbers

pytestmark = pytest.mark.any_interpreter

DTYPES = (np.complex64, np.complex128)
UNARY = [r for r in rows(ELEMENTWISE) if r[1] == 1 and has_loop(r[0], "D")]
BINARY = [r for r in rows(ELEMENTWISE) if r[1] == 2 and has_loop(r[0], "DD")]
PRODUCTS = {"multiply", "square", "prod"}
# Eager's own loops differ there in the last bits from stride to stride, or call a hypot of their own.
NEAR = {"absolute": 2, "sign": 2, "reciprocal": 2, "divide": 2}


def usual(n, dtype, seed=0):
    rng = np.random.default_rng(seed + 3)
    return (rng.uniform(-3, 3, n) + 1j * rng.uniform(-3, 3, n)).astype(dtype)


def special(dtype):
    real = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 2.5], np.float64)
    z = np.empty(64, dtype)
    z.real, z.imag = np.repeat(real, 8), np.tile(real, 8)
    return z


def extreme(dtype):
    """Subnormal and huge numbers: no product of two is finite and normal."""
    info = np.finfo(dtype)
    real = np.array([info.tiny / 8, -info.tiny / 8, info.max, -info.max / 2, 1.0], info.dtype)
    z = np.empty(25, dtype)
    z.real, z.imag = np.repeat(real, 5), np.tile(real, 5)
    return z


def allowed(name, vector, plain, args):
    """Units in the last place, and of what."""
    if vector:
        return 8, np.abs(plain) if np.asarray(plain).dtype.kind == "c" else None
    if name in PRODUCTS:
        with np.errstate(all="ignore"):
            size = np.abs(args[0]) * np.abs(args[-1])
        return 2, np.broadcast_to(size, np.shape(plain))
    return NEAR.get(name, 0), np.abs(plain) if name in NEAR and np.asarray(plain).dtype.kind == "c" else None


def compare_row(name, vector, plain_fn, fast, args, what):
    plain, _ = quietly(plain_fn, *args)
    got, _ = quietly(fast, *args)
    with np.errstate(all="ignore"):
        ulp, scale = allowed(name, vector, plain, args)
        difference = same_numbers(plain, got, ulp, scale)
    assert difference is None, (name, what, difference)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", UNARY, ids=lambda row: row[0])
def test_unary(row, dtype):
    name, _, vector = row
    fast = optimise(function(name, 1))
    for what, x in layouts(usual(60, dtype)).items():
        for _ in range(2):
            compare_row(name, vector, function(name, 1), fast, (x,), what)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", BINARY, ids=lambda row: row[0])
def test_binary(row, dtype):
    name, _, vector = row
    fast = optimise(function(name, 2))
    others = layouts(usual(60, dtype, seed=1))
    for what, x in layouts(usual(60, dtype)).items():
        for y in (others[what], others["contiguous"][7:8].reshape(())):
            for _ in range(2):
                compare_row(name, vector, function(name, 2), fast, (x, y), what)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", UNARY, ids=lambda row: row[0])
def test_special_values_of_one(row, dtype):
    name, _, vector = row
    fast = optimise(function(name, 1))
    for x in (special(dtype), extreme(dtype)):
        for _ in range(2):
            compare_row(name, vector, function(name, 1), fast, (x,), "special")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", BINARY, ids=lambda row: row[0])
def test_special_values_of_two(row, dtype):
    name, _, vector = row
    fast = optimise(function(name, 2))
    z = special(dtype)
    for x, y in ((np.repeat(z, 64), np.tile(z, 64)), (np.repeat(extreme(dtype), 25), np.tile(extreme(dtype), 25))):
        for _ in range(2):
            compare_row(name, vector, function(name, 2), fast, (x, y), "special")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [r[0] for r in UNARY + BINARY])
def test_warnings(name, dtype):
    arity = next(r[1] for r in UNARY + BINARY if r[0] == name)
    plain, fast = function(name, arity), optimise(function(name, arity))
    for data in (special(dtype), usual(40, dtype)):
        for value in data:
            args = (np.full(5, value, dtype), np.full(5, data[-1], dtype))[:arity]
            quietly(fast, *args)
            assert quietly(fast, *args)[1] == quietly(plain, *args)[1], (name, value)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_starts_from_1(dtype):
    numbers = dtype(np.inf), np.array(np.nan, dtype), np.array(2 - 1j, dtype)
    for fn in (lambda z: z.prod(), lambda z: z.prod(axis=-1), lambda z: z.prod(axis=())):
        fast = optimise(fn)
        for z in (*numbers, *numbers):
            check(fn, fast, lambda: (z,))  # noqa: B023
    fn = lambda z: z.prod(axis=())  # noqa: E731
    check(fn, optimise(fn), lambda: (special(dtype),))


@pytest.mark.parametrize("dtype", DTYPES)
def test_division_is_smiths(dtype):
    """To the bit, also where parts are zero, infinite or nan."""
    z = np.concatenate([special(dtype), usual(40, dtype)])
    x, y = np.repeat(z, len(z)), np.tile(z, len(z))
    fast = optimise(lambda x, y: x / y)
    for _ in range(2):
        assert same_numbers(quietly(np.divide, x, y)[0], quietly(fast, x, y)[0], 0) is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_flag_is_raised_for_nothing(dtype):
    """A flag that eager would not raise shows as a warning where an operand was written."""

    def fn(x, y):
        x /= y
        x *= y
        x += np.sign(y) - y**-1 + np.maximum(x, y)
        return x

    fast = optimise(fn)
    for y in (2j, 2, -0.5, complex(0.0, -3.0), complex(-0.0, 1.0)):
        for _ in range(3):
            assert quietly(fast, usual(50, dtype), np.full(50, y, dtype))[1] == []


@pytest.mark.parametrize("size", (1, 7, 500))
@pytest.mark.parametrize("fn", (lambda x, y: x / y, lambda _, y: 1 / y, lambda _, y: np.reciprocal(y)))
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_part_that_is_zero_is_no_division_by_zero(dtype, fn, size):
    """Nor is the call made again by CPython, which is what follows from a flag."""
    parts = np.resize(np.array([2j, 1.0, -0.5, complex(-0.0, 1.0), 3 - 1j], dtype), size)
    fast = optimise(fn)
    before = dynoc.counters["graph_breaks"].get("FLAGS", 0)
    for _ in range(3):
        assert quietly(fast, usual(size, dtype), parts)[1] == []
    assert dynoc.counters["graph_breaks"].get("FLAGS", 0) == before


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", (0, 1, 2, 3, 5, -1, -2, 0.5, 2.0, -1.0, 1.5, 2j))
def test_powers(exponent, dtype):
    for fn in (lambda z: z**exponent, lambda z: np.power(z, exponent)):
        fast = optimise(fn)
        for z in (usual(30, dtype), special(dtype)):
            plain = quietly(fn, z)[0]
            for _ in range(2):
                with np.errstate(all="ignore"):
                    difference = same_numbers(plain, quietly(fast, z)[0], 8, np.abs(plain))
                assert difference is None, difference


LITERALS = {
    "times": lambda x: 1j * x,
    "plus": lambda x: x + (1.5 - 2j),
    "over": lambda x: 2j / (x + 10),
    "folded": lambda x: x * (2j * np.pi),
    "minus": lambda x: -1j * x,
    "where": lambda x: np.where(x > 0, x, 1j),
    "global": lambda x: x * UNIT,
    "exp": lambda x: np.exp(1j * x),
    "infinite": lambda x: x * INFINITE,
    "one": lambda x: np.complex64(1 + 2j) * x,
}
UNIT = 3 - 4j
INFINITE = complex(np.inf, -0.0)


@pytest.mark.parametrize("name", LITERALS)
def test_literals_are_weak(name):
    fn = LITERALS[name]
    fast = optimise(fn)
    for dtype in (np.bool_, np.int8, np.uint32, np.int64, np.float16, np.float32, np.float64, np.complex64, np.complex128):
        x = np.array([0, 1, 2, 3, 1, 0, 5], np.int64).astype(dtype)
        plain = quietly(fn, x)[0]
        for _ in range(2):
            got = quietly(fast, x)[0]
            difference = same_numbers(plain, got, 4, np.abs(plain))
            assert difference is None, (name, dtype, difference)


@pytest.mark.parametrize("dtype", DTYPES)
def test_weak_numbers(dtype):
    fn = lambda z, n, a: (z * n + a - 2) / (a + 1)  # noqa: E731
    fast = optimise(fn)
    z = usual(20, dtype)
    for n, a in ((2, 1.5), (-3, 0.25), (7, 1e10), (0, -0.0), (True, 3)):
        assert same_numbers(fn(z, n, a), fast(z, n, a), 2, np.abs(fn(z, n, a))) is None


@pytest.mark.parametrize("dtype", (np.float32, *DTYPES))
def test_complex_arguments(dtype):
    """Python's are weak, NumPy's are not; other values don't make another entry."""
    for make in (complex, np.complex64, np.complex128):
        fn = lambda x, w: x * w + w  # noqa: E731
        fast = optimise(fn)
        x = usual(9, np.complex128).real.astype(dtype) if dtype is np.float32 else usual(9, dtype)
        for w in (1 + 2j, -3j, complex(-0.0, np.inf), 2.5 - 1j):
            with np.errstate(all="ignore"):
                plain, got = fn(x, make(w)), fast(x, make(w))
                difference = same_numbers(plain, got, 4, np.abs(plain))
            assert difference is None, (make, w, difference)
        assert len(fast.entries) == 1


def test_a_number_too_large_for_single_precision_is_eagers():
    fn = lambda z, a: z * a  # noqa: E731
    fast = dynoc.optimize(fn, wait=True)
    z = usual(4, np.complex64)
    fast(z, 2.0)
    for a in (1e30, 1e300, 2.0, np.inf):
        assert quietly(fast, z, a)[1] == quietly(fn, z, a)[1]
        assert same_numbers(quietly(fn, z, a)[0], quietly(fast, z, a)[0], 2) is None
    fn = lambda z: z * 1e300j  # noqa: E731
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(3):
        assert quietly(fast, z)[1] == quietly(fn, z)[1]


# ---- parts


def part_functions():
    def both(z):
        return z.real, z.imag

    def squared(z):
        return z.real**2 + z.imag**2

    def of_a_result(z):
        w = z * 2
        return w.imag, w

    def sliced(z):
        return z.real[1:], z[1:].imag[::2], z.T.real

    def written(z):
        r = z.real
        r[...] = 7
        z.imag[1:] += 1
        return r

    def functions(z):
        return np.real(z), np.imag(z), np.angle(z), np.conj(z), z.conjugate(), np.abs(z)

    def scalar(z):
        s = z.sum()
        return s.real, s.imag, abs(s), s.conjugate()

    return both, squared, of_a_result, sliced, written, functions, scalar


@pytest.mark.parametrize("fn", part_functions(), ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_are_views(fn, dtype):
    fast = optimise(fn)
    for maker in (lambda: (usual(12, dtype),), lambda: (usual(24, dtype)[::2],), lambda: (usual(24, dtype).reshape(4, 6).T,),
                  lambda: (usual(9, dtype)[::-1],), lambda: (usual(2, dtype),)):  # fmt: skip
        for _ in range(3):
            check(fn, fast, maker, "near")


def test_parts_of_real_numbers():
    fn = lambda x: (x.real, np.real(x), x.conj(), np.conj(x), np.angle(x))  # noqa: E731
    fast = optimise(fn)
    for dtype in (np.float32, np.float64, np.int64):
        for _ in range(3):
            check(fn, fast, lambda d=dtype: (np.array([1, -2, 0, 3], d),), "near")


# ---- conversions, comparisons, stores


@pytest.mark.parametrize("source", ("?", "b", "H", "i", "l", "L", "e", "f", "d", "F", "D"))
@pytest.mark.parametrize("target", ("F", "D", "?"))
def test_conversions(source, target):
    fn = lambda x: x.astype(target)  # noqa: E731
    fast = optimise(fn)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = special(np.complex128)[:40].real.astype(source) if source not in "FD" else special(source)
    for _ in range(3):
        assert same_numbers(quietly(fn, x)[0], quietly(fast, x)[0], 0) is None


@pytest.mark.parametrize("target", ("d", "f", "e", "i"))
def test_dropping_the_imaginary_part_warns(target):
    fn = lambda z: z.astype(target)  # noqa: E731
    fast = dynoc.optimize(fn, wait=True)

    def store(z, out):
        out[...] = z
        return out

    stored = dynoc.optimize(store, wait=True)
    z = usual(6, np.complex128)
    for _ in range(3):
        assert quietly(fast, z)[1] == quietly(fn, z)[1] != []
        out, want = np.zeros(6, target), np.zeros(6, target)
        assert quietly(stored, z, out)[1] == quietly(store, z, want)[1] != []
        assert np.array_equal(out, want)


def test_writing():
    def fn(z, x):
        z[0] = 1j
        z[1:3] *= 2
        z[3] = x[0]
        z += x
        z[x > 1] = 0.5
        return z

    fast = optimise(fn)
    for dtype in DTYPES:
        for _ in range(3):
            check(fn, fast, lambda d=dtype: (usual(8, d), np.arange(8, dtype=np.float32) / 3), "near")


def test_making():
    def fn(z):
        n = z.shape[0]
        return (np.zeros(n, complex), np.ones(n, np.complex64), np.full(n, 2j), np.full(n, 3, np.complex64), np.zeros_like(z),
                np.concatenate([z, z * 2]), np.stack([z, z]), np.complex128(2.5) * z, z.copy())  # fmt: skip

    fast = optimise(fn)
    for dtype in DTYPES:
        for _ in range(3):
            check(fn, fast, lambda d=dtype: (usual(6, d),), "near")


# ---- reductions

REDUCTIONS = [r[0] for r in rows(REDUCE)] + ["mean", "var", "std"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, dtype):
    method = getattr(np, name)
    for axis in (None, 0, 1, (0, 1)):
        for keepdims in (False, True):
            fn = lambda z: method(z, axis=axis, keepdims=keepdims)  # noqa: B023, E731
            fast = optimise(fn)
            grids = [usual(24, dtype).reshape(4, 6), np.asfortranarray(usual(24, dtype).reshape(4, 6)),
                     usual(1200, dtype).reshape(30, 40), usual(48, dtype).reshape(8, 6)[::-2]]  # fmt: skip
            for z in grids:
                z = z / np.abs(z).astype(z.real.dtype) if name == "prod" else z
                plain = fn(z)
                for _ in range(2):
                    ulp = 0 if name in ("max", "min", "any", "all") else 64
                    scale = np.full(np.shape(plain), 5.0) if ulp else None
                    difference = same_numbers(plain, fast(z), ulp, scale)
                    assert difference is None, (name, axis, difference)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ("sum", "prod", "any", "all"))
def test_reductions_of_nothing(name, dtype):
    fn = getattr(np, name)
    wrapped = lambda z: fn(z)  # noqa: E731
    fast = optimise(wrapped)
    for _ in range(2):
        assert same_numbers(fn(np.zeros(0, dtype)), fast(np.zeros(0, dtype)), 0) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ("max", "min"))
def test_extremes_are_lexicographic_and_keep_nan(name, dtype):
    fn = getattr(np, name)
    wrapped = lambda z: fn(z)  # noqa: E731
    fast = optimise(wrapped)
    clean = special(dtype)[~np.isnan(special(dtype))]
    for data in (clean, usual(70, dtype), np.array([1 + 2j, 1 - 2j, 1 + 5j, -1 + 9j], dtype), np.array([-np.inf + 1j], dtype)):
        for order in (data, data[::-1]):
            for _ in range(2):
                assert fn(order) == fast(order)
    for at in range(0, 40, 3):
        z = usual(40, dtype)
        z[at] = complex(1, np.nan)
        assert np.isnan(fn(z)) and np.isnan(fast(z)) and quietly(fn, z)[1] == quietly(fast, z)[1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_are_as_accurate_as_pairwise(dtype):
    fast = optimise(lambda z: z.sum())
    for n in (10, 1000, 100_000):
        z = usual(n, dtype)
        exact = z.real.astype(np.longdouble).sum() + 1j * z.imag.astype(np.longdouble).sum()
        bound = np.finfo(dtype).eps * (np.log2(n) + 2) * np.abs(z).sum()
        fast(z)
        assert abs(fast(z) - exact) <= bound


INTERPRETED = {
    "products": lambda x, y: (x * y / (y + 2j) - 1j, x @ y, x.real * y.imag, np.abs(x)),
    "reductions": lambda x, y: (x.sum(), y.mean(), x.var(), (x * y).max(), np.angle(y)),
    "scalars": lambda x, y: (x[0] * y[1], abs(x[0]), x[0].real + 1, x.conj(), x**2, y**-1),
}


@pytest.mark.parametrize("dtype", (np.float16, *DTYPES))
@pytest.mark.parametrize("name", INTERPRETED)
def test_the_interpreter_agrees(name, dtype):
    """The oracle, node by node with NumPy's functions, and the kernels."""
    fn = INTERPRETED[name]
    x, y = (usual(20, np.complex128, seed=seed).real.astype(dtype) if dtype is np.float16 else usual(20, dtype, seed=seed)
            for seed in (1, 2))  # fmt: skip
    if dtype is np.float16 and name == "products":
        fn = lambda x, y: (x * y / (y + 2) - 1, x * 2j, np.abs(x))  # noqa: E731
    interpreted, native = dynoc.optimize(fn, backend="eager", fullgraph=True, wait=True), optimise(fn)
    for _ in range(2):
        for plain, one, two in zip(fn(x, y), interpreted(x, y), native(x, y), strict=True):
            with np.errstate(all="ignore"):
                for got in (one, two):
                    assert same_numbers(plain, got, 16, np.full(np.shape(plain), 20.0)) is None, (name, plain, got)


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_numbers_give_equal_bits_everywhere(dtype):
    fast = optimise(lambda x, y: x * y + x / y - np.abs(x))
    x, y = usual(70, dtype), usual(70, dtype, seed=5)
    fast(x, y)
    want = fast(x, y)
    for n in (*range(1, 20), 31, 33, 70):
        for step in (1, 2, -1):
            a, b = (np.zeros(n * 2, dtype) for _ in "xy")
            a, b = (v[:: abs(step)][:n][:: 1 if step > 0 else -1] for v in (a, b))
            a[...], b[...] = x[:n], y[:n]
            assert fast(a, b).tobytes() == want[:n].tobytes(), (n, step)


@pytest.mark.parametrize("size", (3, 600))
def test_products_stay_numpys(size):
    fn = lambda a, b: (a @ b, np.dot(a, b), a @ (b * 1j))  # noqa: E731
    fast = optimise(fn)
    for _ in range(3):
        for one, two in zip(fn(usual(size, complex), usual(size, complex)), fast(usual(size, complex), usual(size, complex))):
            assert abs(one - two) <= 1e-12 * size


def part_chains():
    def of_values(z, w):
        return (z * w).real + (z * w).imag * 2

    def of_one_value_twice(z, w):
        p = np.exp(z) / w
        return p.real**2 + p.imag**2, p.real.sum(), p

    def spread(z, w):
        p = (z * w).real
        return p[:, None] * p[None, :], (z[:, None] * w).imag.sum(axis=1)

    def written(z, w):
        p = z * w
        q = p.real
        r = q * 2
        p += 1
        return q + r, q * 1

    def of_a_view(z, w):
        return z[1:].real * w.real[:-1], (z * w)[::2].imag + 1

    def looked_at(z, w):
        p = (z + w).imag
        return p[::-1] * p, p[None]

    def reduced(z, w):
        return (z * w).real.sum(), (z * w).imag.max(), np.cumsum((z + w).real)

    return of_values, of_one_value_twice, spread, written, of_a_view, looked_at, reduced


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fn", part_chains(), ids=lambda fn: fn.__name__)
def test_parts_are_taken_in_the_kernel(fn, dtype):
    fast = optimise(fn)
    for n in (9, 40, 2):
        for _ in range(3):
            check(fn, fast, lambda n=n: (usual(n, dtype), usual(n, dtype, seed=4)), "near")


def complex_arithmetic(x, a, b):
    z = complex(a, b)
    return x + 1.0, z * complex(b, a), z / complex(2.0, b), z * a, a * z, z - a, a - z, z + a, z / a


def test_python_complex_numbers_of_all_kinds():
    """Zeros of both signs, infinities and NaN: Python's rules for complex and real numbers together, which 3.14 changed."""
    fast = dynoc.optimize(complex_arithmetic, wait=True)
    values = (0.0, -0.0, 1.5, float("inf"), -float("inf"), float("nan"), -2.0)
    x = np.ones(3)
    for a, b in [(1.0, 2.0), (3.0, 4.0), *itertools.product(values, repeat=2)]:
        outcomes = []
        for fn in (complex_arithmetic, fast):
            try:
                outcomes.append(repr(fn(x, a, b)))
            except ZeroDivisionError as error:
                outcomes.append(repr(error))
        assert outcomes[0] == outcomes[1], (a, b)


def sizes_of_numbers(z, a, b):
    return abs(z[0]), np.abs(z[0]), abs(z.sum()), abs(complex(a, b)), abs(z) * 2.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes_of_single_numbers_are_the_c_library_s(dtype):
    """The last bit: NumPy's loop over arrays, math.hypot and abs() of one number round differently."""
    fast, draw = dynoc.optimize(sizes_of_numbers, wait=True), np.random.default_rng(5)
    sizes_of_each = dynoc.optimize(lambda z: [abs(z[i]) for i in range(len(z))], wait=True)
    for _ in range(100):
        z = (draw.normal(size=4) + 1j * draw.normal(size=4)).astype(dtype)
        a, b = draw.normal(size=2).tolist()
        assert repr(fast(z, a, b)) == repr(sizes_of_numbers(z, a, b))
        assert list(map(repr, sizes_of_each(z))) == [repr(abs(one)) for one in z]
    for a, b in [(1.7e308, 1.7e308), (np.inf, np.nan), (0.0, -0.0)]:
        z = np.full(3, complex(1, 2), dtype)
        check(sizes_of_numbers, fast, lambda z=z, a=a, b=b: (z.copy(), a, b))
