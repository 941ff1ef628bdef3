"""Half precision against eager: every row of the operator table that NumPy has such a loop for, over all values and in every
layout; each operator rounds to half. Reductions, conversions, flags, weak numbers. And integers that are NumPy scalars, whose
overflow eager warns of."""

import numpy as np
import pytest
from compare import check, dynoc
from element import ELEMENTWISE, REDUCE, function, has_loop, layouts, optimise, quietly, rows, same_numbers

pytestmark = pytest.mark.any_interpreter

UNARY = [r for r in rows(ELEMENTWISE) if r[1] == 1 and has_loop(r[0], "e")]
BINARY = [r for r in rows(ELEMENTWISE) if r[1] == 2 and has_loop(r[0], "ee")]
H = np.float16


def everything():
    """All halves, signalling nan left out."""
    bits = np.arange(65536, dtype=np.uint16)
    h = bits.view(H)
    return h[~np.isnan(h) | (bits & 0x200 != 0)]


def awkward():
    """Zeros, subnormals, the limits, and what lies beside them."""
    values = [0.0, 5.96e-8, 1e-7, 6.1e-5, 6.104e-5, 0.333, 1, 1.001, 2, 3, 5.5, 100, 2047, 2048, 4097, 32768, 65504, np.inf]
    return np.array([*values, *(-v for v in values), np.nan], H)


def usual(n, seed=0):
    return np.random.default_rng(seed + 7).uniform(-3, 3, n).astype(H)


def compare_row(name, vector, fast, args, what):
    plain_fn = function(name, len(args))
    plain, got = quietly(plain_fn, *args)[0], quietly(fast, *args)[0]
    difference = same_numbers(plain, got, 1 if vector else 0)
    assert difference is None, (name, what, difference)


@pytest.mark.parametrize("row", UNARY, ids=lambda row: row[0])
def test_unary(row):
    name, _, vector = row
    fast = optimise(function(name, 1))
    for _ in range(2):
        compare_row(name, vector, fast, (everything(),), "everything")
        for what, x in layouts(usual(60)).items():
            compare_row(name, vector, fast, (x,), what)


@pytest.mark.parametrize("row", BINARY, ids=lambda row: row[0])
def test_binary(row):
    name, _, vector = row
    fast = optimise(function(name, 2))
    h = awkward()
    others = layouts(usual(60, seed=1))
    pairs = {"awkward": (np.repeat(h, len(h)), np.tile(h, len(h)))}
    pairs["many"] = (everything(), np.roll(everything(), 12345))
    for what, x in layouts(usual(60)).items():
        pairs[what] = (x, others[what])
        pairs[what + " and one"] = (x, others["element"])
    for _ in range(2):
        for what, args in pairs.items():
            compare_row(name, vector, fast, args, what)


@pytest.mark.parametrize("row", UNARY + BINARY, ids=lambda row: row[0])
def test_warnings(row):
    name, arity, _ = row
    plain, fast = function(name, arity), optimise(function(name, arity))
    for value in awkward():
        for other in (awkward()[5], awkward()[16], H(0)):
            args = (np.full(5, value), np.full(5, other))[:arity]
            quietly(fast, *args)
            assert quietly(fast, *args)[1] == quietly(plain, *args)[1], (name, value, other)


def chain(x, y):
    return np.sqrt(np.abs(x * y + x - y / 3)) * 7 - np.where(x > y, x, -y) + x * x


def test_each_operator_rounds():
    fast = optimise(chain)
    h = awkward()
    pairs = [(usual(1000), usual(1000, seed=2)), (np.repeat(h, len(h)), np.tile(h, len(h))),
             (everything(), np.roll(everything(), 777))]  # fmt: skip
    for _ in range(2):
        for x, y in pairs:
            assert same_numbers(quietly(chain, x, y)[0], quietly(fast, x, y)[0], 0) is None


@pytest.mark.parametrize("source", "?bBhHiIlLefd")
def test_conversions_to_half(source):
    fn = lambda x: x.astype(H)  # noqa: E731
    fast = optimise(fn)
    values = np.random.default_rng(1).uniform(-70000, 70000, 5000)
    small = [values * scale for scale in (1e-4, 1e-9, 1e-12)]
    values = np.concatenate([values, *small, awkward().astype(float), [65519.99, 65520, -65520]])
    edge = (everything()[:31743].astype(float) + everything()[1:31744].astype(float)) / 2  # half way between neighbours
    values = np.concatenate([values, edge, np.nextafter(edge, 0), np.nextafter(edge, np.inf)])
    x = quietly(lambda: (values if source in "efd" else np.nan_to_num(values, posinf=0, neginf=0)).astype(source))[0]
    for _ in range(2):
        for data in (x, x[np.abs(x.astype(float)) < 65000]):
            plain, got = quietly(fn, data), quietly(fast, data)
            assert same_numbers(plain[0], got[0], 0) is None and plain[1] == got[1]


@pytest.mark.parametrize("target", "?bBhHiIlLefdFD")
def test_conversions_from_half(target):
    fn = lambda x: x.astype(target)  # noqa: E731
    fast = optimise(fn)
    h = everything()
    h = h if target in "?efdFD" else h[(np.abs(h) < 100) & (h > (0 if target.isupper() else -100))]
    for _ in range(2):
        for x in (h, h[::2], h[:3]):
            assert same_numbers(quietly(fn, x)[0], quietly(fast, x)[0], 0) is None


def test_weak_numbers():
    fn = lambda x, a: (x * a + a - x / a) if a else x + a  # noqa: E731
    fast = dynoc.optimize(fn, wait=True)
    x = usual(20)
    for a in (1.1, 3, 65504, 2049, -7.3, 1e-8, 0.0, -0.0, np.inf, np.nan, 65519.0, 65520.0, 70000, 1e300, True, 2049.0, 1e-5):
        for _ in range(2):
            plain, got = quietly(fn, x, a), quietly(fast, x, a)
            assert same_numbers(plain[0], got[0], 0) is None and plain[1] == got[1], a


def test_numpy_scalars():
    def fn(x, s):
        return x * s, s * s + 1, x[0] * x[1], x.sum() * 2, np.float16(1.3) * x, s * 1.7

    fast = optimise(fn)
    for s in (H(1.1), H(-0.0), H(6e-8), H(65504), H(np.nan)):
        for _ in range(2):
            with np.errstate(all="ignore"):
                for a, b in zip(fn(usual(9), s), fast(usual(9), s), strict=True):
                    assert same_numbers(a, b, 1) is None


def test_mixed_types():
    fn = lambda x, y: (x + y, x * y, np.maximum(x, y), x < y)  # noqa: E731
    for other in "?bBhHilfdFD":
        fast = optimise(fn)
        y = np.arange(20).astype(other)
        for _ in range(2):
            for a, b in zip(fn(usual(20), y), fast(usual(20), y), strict=True):
                assert same_numbers(a, b, 1) is None, other


def test_powers():
    for exponent in (2, 3, 0.5, -1, 0, 1, 2.5, -2):
        for fn in (lambda x: x**exponent, lambda x: np.power(x, exponent)):  # noqa: B023
            fast = optimise(fn)
            for _ in range(2):
                assert same_numbers(quietly(fn, everything())[0], quietly(fast, everything())[0], 1) is None, exponent


def test_clipping_and_choosing():
    def fn(x, y):
        return np.clip(x, -1, 1.5), np.clip(x, y, None), x.clip(max=0.1), np.where(x > y, x, 0.1), np.minimum(x, 0)

    fast = optimise(fn)
    h = awkward()
    for x, y in ((np.repeat(h, len(h)), np.tile(h, len(h))), (usual(40), usual(40, seed=1)[::-1])):
        for _ in range(2):
            for a, b in zip(quietly(fn, x, y)[0], quietly(fast, x, y)[0], strict=True):
                assert same_numbers(a, b, 0) is None


# ---- reductions

REDUCTIONS = [r[0] for r in rows(REDUCE)] + ["mean", "var", "std"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    method = getattr(np, name)
    for axis in (None, 0, 1, (0, 1)):
        for keepdims in (False, True):
            fn = lambda x: method(x, axis=axis, keepdims=keepdims)  # noqa: B023, E731
            fast = optimise(fn)
            for x in (usual(24).reshape(4, 6), np.asfortranarray(usual(24).reshape(4, 6)), usual(48).reshape(8, 6)[::-2]):
                for _ in range(2):
                    difference = same_numbers(fn(x), fast(x), 0 if name in ("max", "min", "any", "all") else 4)
                    if difference and name in ("sum", "prod", "mean", "var", "std"):
                        exact = method(x.astype(np.float64), axis=axis, keepdims=keepdims)
                        ours, theirs = np.abs(fast(x) - exact).max(), np.abs(fn(x) - exact).max()
                        assert ours <= theirs, (name, axis, difference)
                    else:
                        assert difference is None, (name, axis, difference)


def test_sums_are_rounded_once():
    fast = optimise(lambda x: (x.sum(), x.mean()))
    for n in (10, 1000, 20_000):
        x = np.random.default_rng(n).uniform(0, 1, n).astype(H)
        exact = x.astype(np.float64).sum()
        fast(x)
        total, mean = fast(x)
        assert total.dtype == mean.dtype == H
        assert abs(float(total) - exact) <= np.spacing(H(exact)) and abs(float(mean) - exact / n) <= np.spacing(H(exact / n))


def test_a_sum_that_overflows_warns():
    fn = lambda x: x.sum()  # noqa: E731
    fast = optimise(fn)
    for x in (np.full(3, 60000, H), np.full(3, 60000, H) * H(1), np.array([60000, 5000, -60000], H)):
        for _ in range(3):
            assert quietly(fn, x) == quietly(fast, x)


@pytest.mark.parametrize("name", ("max", "min"))
def test_extremes_keep_nan(name):
    method = getattr(np, name)
    fn = lambda x: method(x)  # noqa: E731
    fast = optimise(fn)
    for at in range(0, 40, 3):
        x = usual(40)
        x[at] = np.nan
        assert np.isnan(fast(x)) and quietly(fast, x)[1] == []
    for _ in range(2):
        for x in (usual(70), np.array([-np.inf, np.inf, 3], H), np.array([-5], H), np.full(5, -np.inf, H)):
            assert fn(x) == fast(x)


def test_writing_and_making():
    def fn(x):
        n = x.shape[0]
        x[0] = 1.1
        x[1:3] += 2
        x *= 3
        x[x > 4] = 0.1
        return np.zeros(n, H), np.full(n, 1.1, H), np.ones_like(x), np.concatenate([x, x]), x[::2].copy(), x.reshape(-1, 1)

    fast = optimise(fn)
    for _ in range(3):
        check(fn, fast, lambda: (usual(8),))


def test_equal_numbers_give_equal_bits_everywhere():
    fast = optimise(lambda x: np.exp(x) * x - np.sin(x))
    x = usual(70)
    fast(x)
    want = fast(x)
    for n in (*range(1, 20), 31, 33, 65, 70):
        for step in (1, 2, 3):
            room = np.zeros(n * step + 1, H)
            view = room[1::step][:n]
            view[...] = x[:n]
            assert fast(view).tobytes() == want[:n].tobytes(), (n, step)


# ---- integers that are NumPy scalars

OPERATORS = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "neg": lambda x, y: -x, "abs": lambda x, y: abs(x),
    "//": lambda x, y: x // y, "%": lambda x, y: x % y, "**": lambda x, y: x ** np.uint8(3), "<<": lambda x, y: x << np.uint8(2),
    "weak": lambda x, y: x * 2 + y, "reflected": lambda x, y: 100 - x, "np.add": lambda x, y: np.add(x, y),
}  # fmt: skip


@pytest.mark.parametrize("code", "bBhHiIlL")
@pytest.mark.parametrize("name", OPERATORS)
def test_overflow_of_integer_scalars_warns(name, code):
    """As arguments, and as elements of an array."""
    plain = OPERATORS[name]
    of_elements = lambda a: plain(a[0], a[1])  # noqa: E731
    fast, fast_elements = dynoc.optimize(plain, wait=True), dynoc.optimize(of_elements, wait=True)
    info = np.iinfo(code)
    values = [3, 7, int(info.max), int(info.min), int(info.max) // 2 + 1, 1, int(info.max) - 1]
    for a in values:
        for b in (1, 2, int(info.max), int(info.min) or 5):
            x, y = (np.dtype(code).type(v) for v in (a, b))
            for _ in range(2):
                assert quietly(plain, x, y) == quietly(fast, x, y), (a, b)
                assert quietly(of_elements, np.array([x, y])) == quietly(fast_elements, np.array([x, y])), (a, b)


def test_integer_scalars_without_overflow_run_natively():
    fast = optimise(lambda a: a[0] * 2 + a[1])
    for _ in range(3):
        fast(np.array([3, 4]))
    assert fast.entries[0].tier == "native"
