"""Floating-point warnings where a call can't simply be made again: graphs that write into an argument, extern calls that warn."""

import warnings

import numpy as np
import pytest
from compare import check, dynoc


def calls(fn, *arguments, **how):
    """Three calls give what plain Python gives: results, arguments, warnings with their lines, exceptions."""
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(3):
        check(fn, fast, lambda: [a.copy() if isinstance(a, np.ndarray) else a for a in arguments], what=f"call {turn + 1}", **how)


# ---- graphs that write into an argument


def floor_divide(x, y):
    before = x * 2.0
    x //= y
    return before


def remainder(x, y):
    before = x * 2.0
    x %= y
    return before


def power(x, y):
    before = x * 2.0
    x **= y
    return before


def subtract(x, y):
    before = x * 2.0
    x -= y
    x /= y
    return before


def several_lines(x, y):
    x += y
    x *= 1e200
    y /= x
    return np.sqrt(y)


def into_out(x, y):
    np.divide(x, y, out=y)
    y[1:] -= x[1:] * 1e300
    return np.log(y)


def every_other(x, y):
    z = x[::2]
    z /= y[::2]
    return z - 1.0


def overlapping(x, y):
    x[1:] = x[:-1] / y[1:]
    return x


IN_PLACE = [floor_divide, remainder, power, subtract, several_lines, into_out, every_other, overlapping]
VALUES = {
    "small": ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]),
    "nan": ([np.nan, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]),
    "inf": ([1.0, np.inf, -np.inf, 4.0], [1.0, np.inf, 3.0, -np.inf]),
    "zero": ([1.0, 0.0, 3.0, -4.0], [0.0, 0.0, 3.0, 2.0]),
    "large": ([1e308, 1e300, 3.0, 4.0], [1e308, -1e300, 3.0, 1e-308]),
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("fn", IN_PLACE, ids=lambda fn: fn.__name__)
def test_in_place(fn, values):
    calls(fn, *(np.array(v) for v in values))


@pytest.mark.parametrize("fn", IN_PLACE, ids=lambda fn: fn.__name__)
def test_in_place_raises(fn):
    with np.errstate(all="raise"):
        calls(fn, np.array([1.0, 0.0, np.inf, 1e300]), np.array([0.0, 0.0, np.inf, 1e-300]))


def test_in_place_of_what_is_not_in_one_piece():
    base = np.arange(24.0).reshape(4, 6)
    fast = dynoc.optimize(several_lines, wait=True)
    for _ in range(3):
        check(several_lines, fast, lambda: [base.copy()[::2, ::-2], base.copy()[1::2, 1::2] - 7.0])


def test_arguments_that_share_memory():
    def shift(x, y):
        x /= y
        y -= 1.0
        return x

    fast = dynoc.optimize(shift, wait=True)

    def arguments():
        base = np.array([0.0, 1.0, 2.0, np.inf, 4.0, 0.0])
        return [base[:4], base[2:]]

    for _ in range(3):
        check(shift, fast, arguments)


# ---- extern calls


def product_and_root(a, b):
    c = a @ b
    return np.sqrt(-1.0 - b), c


def root_and_product(a, b):
    d = np.sqrt(-1.0 - b)
    return d @ a


def quotient_and_error(a, b):
    d = 1.0 / b
    return np.linalg.inv(a), d


def products(a, b):
    c = a @ b
    d = c @ a
    e = d - a
    return np.dot(e, b)


def product_in_callee(a, b):
    return product_and_root(a, b)[0] + 1.0


def product_caught(a, b):
    try:
        return a @ b
    except FloatingPointError as error:
        return str(error)


def mean_of_nothing(a, b):
    return a[:0].mean(), np.mean(b[3:] - 1.0), np.median(a[:0])


EXTERNS = [mean_of_nothing, product_and_root, root_and_product, quotient_and_error, products, product_in_callee, product_caught]


def matrices(kind):
    a = np.ones((3, 3)) if kind == "singular" else np.eye(3) + 1.0
    if kind == "infinite":
        a[0] = np.inf
    return a, np.eye(3)


@pytest.mark.parametrize("kind", ["plain", "infinite", "singular"])
@pytest.mark.parametrize("fn", EXTERNS, ids=lambda fn: fn.__name__)
def test_extern(fn, kind):
    calls(fn, *matrices(kind))


@pytest.mark.parametrize("fn", EXTERNS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("mode", ["ignore", "raise"])
def test_extern_under_errstate(fn, mode):
    with np.errstate(all="ignore"):
        fast = dynoc.optimize(fn, wait=True)
        fast(*matrices("plain"))
    with np.errstate(all=mode):
        for _ in range(2):
            check(fn, fast, lambda: matrices("infinite"))


def test_extern_calls_back():
    seen = []
    with np.errstate(all="call", call=lambda *error: seen.append(error)):
        fast = dynoc.optimize(root_and_product, wait=True)
        for _ in range(3):
            seen.clear()
            root_and_product(*matrices("infinite"))
            expected = list(seen)
            seen.clear()
            fast(*matrices("infinite"))
            assert seen == expected and seen


# ---- extern calls that have done part of their work when they raise


def at(x):
    np.log.at(x, [2, 1, 0])
    return x


def at_a_copy(x):
    y = x * 2.0
    np.log.at(y, [2, 1, 0])
    return y


def at_caught(x):
    try:
        np.log.at(x, [2, 1, 0])
    except FloatingPointError as error:
        return str(error), x + 0.0
    return x


@pytest.mark.parametrize("fn", [at, at_a_copy, at_caught], ids=lambda fn: fn.__name__)
def test_work_that_was_begun_is_not_done_twice(fn):
    fast = dynoc.optimize(fn, wait=True)
    with np.errstate(all="ignore"):
        fast(np.array([1.0, 2.0, 3.0]))
    with np.errstate(all="raise"):
        for _ in range(2):
            check(fn, fast, lambda: [np.array([np.inf, 0.0, -np.inf])])
    for _ in range(2):
        check(fn, fast, lambda: [np.array([np.inf, 0.0, -np.inf])])


def test_random_numbers_are_not_drawn_twice():
    def draw(generator, n):
        return generator.normal(size=3), generator.choice(5, n, replace=False)

    fast = dynoc.optimize(draw, wait=True)
    for n in (2, 3, 9, 2, 9):
        check(draw, fast, lambda: [np.random.default_rng(1), n])


def written_behind_a_division(x, y):
    t = 1.0 / y
    x[1:-1] = t[2:] + t[:-2]


@pytest.mark.parametrize("n", [100, 100_000])
def test_nothing_is_written_where_a_warning_raises(n):
    fast = dynoc.optimize(written_behind_a_division, wait=True)
    for size in (50, 60, n):
        fast(np.ones(size), np.ones(size))
    y = np.ones(n)
    y[5] = 0
    x = np.ones(n)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        fast(x, y)
    assert x.sum() == n
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fast(x, y)
    assert [w.lineno for w in said] == [written_behind_a_division.__code__.co_firstlineno + 1]


NAN_FUNCTIONS = {
    "mean": lambda x: np.nanmean(x, axis=0) + 1.0,
    "var": lambda x: np.nanvar(x * 2.0, axis=0),
    "std": lambda x: np.nanstd(x, axis=1) * x.T,
    "median": lambda x: np.nanmedian(x, axis=0) - x,
    "percentile": lambda x: np.nanpercentile(x, 50, axis=0) + x,
    "of all": lambda x: (np.nanmean(x), np.nanvar(x), np.nanmedian(x)),
}


@pytest.mark.parametrize("name", NAN_FUNCTIONS)
def test_what_numpys_python_code_says_of_nan_is_said_once(name):
    """Empty, nan throughout, and nan in one column; no operator behind the call has anything to warn of."""
    fn = NAN_FUNCTIONS[name]
    fast = dynoc.optimize(fn, wait=True)
    column = np.ones((3, 4))
    column[:, 0] = np.nan
    for x in (np.ones((3, 4)), np.full((3, 4), np.nan), column, np.zeros((0, 4)), np.zeros((4, 0)), column):
        check(fn, fast, lambda x=x: [x.copy()])


DISCARDING = {
    "asarray": lambda z: np.asarray(z, "u1"),
    "array": lambda z: (np.array(z, "f8") + 1.0, np.tanh(z) * 2.0),
    "astype": lambda z: z.astype("i4") * 2,
    "ascontiguousarray": lambda z: np.ascontiguousarray(z, "f4") + 1.0,
}


@pytest.mark.parametrize("name", DISCARDING)
def test_parts_that_are_discarded_are_told_where_they_are(name):
    calls(DISCARDING[name], np.arange(5) * (1 + 2j))


# ---- calls that can't be made again: the warning has the line of its operator


def behind_a_write(x, y):
    np.put(x, [0], 0)
    t = x + 1
    return t / y


def behind_a_seed(x, y):
    np.random.seed(3)
    x *= np.fmod(x, y)


def behind_a_store_of_integers(x, y):
    np.put(x, [0, 1], x)
    x[:] = ~y
    return np.sqrt(x)


def written_at_once(x, y):
    x += 1
    x /= y


def written_in_a_call(x, y):
    t = x * 2
    written_at_once(x, y)
    return t


LINES = [behind_a_write, behind_a_seed, behind_a_store_of_integers, written_at_once, written_in_a_call]


@pytest.mark.parametrize("n", [4, 100_000])
@pytest.mark.parametrize("fn", LINES, ids=lambda fn: fn.__name__)
def test_calls_that_are_not_made_again_warn_with_the_line(fn, n):
    calls(fn, np.ones(n), np.zeros(n, "i8"))


def test_calls_that_are_not_made_again_raise_with_the_line():
    x, y = np.ones(4), np.zeros(4)
    fast = dynoc.optimize(behind_a_write, wait=True)
    for _ in range(3):
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError) as raised:
            fast(x, y)
        assert raised.traceback[-1].lineno == behind_a_write.__code__.co_firstlineno + 2
        assert [row.name for row in raised.traceback].count("behind_a_write") == 1


def test_calls_that_are_not_made_again_warn_from_their_module():
    fast = dynoc.optimize(behind_a_write, wait=True)
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", module=__name__)
            fast(np.ones(4), np.zeros(4))


# ---- blocks of np.errstate that a break leaves open


def ignored_before(x):
    with np.errstate(all="ignore"):
        y = np.sort(x)
    try:
        x %= y - y
    finally:
        y += 1


def raising_before(x, y):
    with np.errstate(all="raise"):

        def inner(z):
            return z * y

    if y.ndim != 1:
        x += np.cumsum(x)
    return np.allclose(x, y)


def test_the_end_of_errstate_is_not_put_off():
    calls(ignored_before, np.array([1.0, 2.0, 3.0]))
    calls(raising_before, np.array([1]), np.array([0.35], "e"))
    calls(raising_before, np.array([1.0, 1e-300]), np.array([0.0, 1e-310]))


# ---- a branch on a comparison, which is one instruction from 3.13 on


def passed(x, limit):
    assert x[0] > limit


def between(x, limit):
    return 1 if x[1] < limit < x[0] else 2


def one_arm(x, limit):
    if not x[0] == limit:
        return x + 1
    return x


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("fn", [passed, between, one_arm])
def test_a_comparison_that_a_branch_asks_for_is_made_once(fn, dtype):
    calls(fn, np.ones(3, dtype), 1e300)


# ---- values that are overwritten


def number_overwritten(x, t):
    x[0] -= t
    x[0] = -1
    return x


def elements_overwritten(x, t):
    x[1:] = x[1:] / t
    x[1:] = 2
    return x + 1


def made_and_overwritten(x, t):
    y = np.empty_like(x)
    y[:] = x - t
    y[:] = x
    return y


def chosen_and_overwritten(x, t):
    y = x + 1
    y[:] = np.where(y > 0, x, x / t)
    y[:] = x * 2
    return y


@pytest.mark.parametrize("fn", [number_overwritten, elements_overwritten, made_and_overwritten, chosen_and_overwritten])
@pytest.mark.parametrize("t", [np.inf, 0.0, 1.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_overwritten_warns(fn, t, dtype):
    calls(fn, np.array([np.inf, 1.0, 0.0], dtype), dtype(t))


# ---- warnings of casts


def unsafe(x, out):
    return np.add(x, 2, out=out, where=out > 1, casting="unsafe")


def real_into_complex(out, x):
    return np.maximum(x, 2.5, out=out, where=x > 1)


@pytest.mark.parametrize("fn", [unsafe, real_into_complex])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_imaginary_parts_that_an_output_with_a_mask_discards(fn, dtype):
    calls(fn, np.arange(3) * (1 + 1j), np.arange(3).astype(dtype))


# ---- which operator warns, where the call can't be made again


def divides_behind_a_masked_store(x, c, w):
    y = 0.0
    for i in range(4):
        w[w < -1.0] += 1
        y = y + x / c[i, i // 2]
    return y


def roots_behind_a_masked_store(x, c, w):
    w[w > 0] -= 1.5
    y = np.sqrt(c - 1) * x
    w[w > 0.25] *= 2.0
    return y / c


@pytest.mark.parametrize("f", [divides_behind_a_masked_store, roots_behind_a_masked_store])
def test_the_operator_that_ran_warns(f):
    c = np.ones((4, 4))
    c[2, 1] = 0
    calls(f, 0.0, c, np.linspace(-3, 3, 16))
