"""NumPy functions that are Python code: captured by recording into NumPy's own source, or, where that ends early, as a call of
NumPy's function in the middle of the graph. Each form gives what eager gives, and the whole function is one graph."""

import numpy as np
import pytest
from case import b1, f32, f64, i64, pos
from compare import check

dynoc = pytest.importorskip("dynoc")

CASES = []  # (name, function, maker of arguments, why it is no single graph, or None)


def row(fn, *makers, why=None):
    for maker in makers:
        CASES.append((fn, maker, why))


def a():
    return (f64(7),)


def m():
    return (f64(4, 6),)


def s():
    return (f32(9)[::2],)


def t():
    return (f64(4, 6).T,)


def i():
    return (i64(3, 5),)


def two():
    return f64(7), f64(7, seed=1)


def mats():
    return f64(4, 6), f64(4, 6, seed=1)


def vectors():
    return f64(5, 3), f64(5, 3, seed=1)


def nans():
    x = f64(4, 6)
    x[1, 2] = x[3, 0] = np.nan
    return (x,)


row(lambda x: np.diff(x), a, m, s, t, i)
row(lambda x: np.diff(x, n=2, axis=0), m, t, i)
row(lambda x: np.diff(x, axis=1, append=x[:, :1]), m, t)
row(lambda x: np.gradient(x), a, m)
row(lambda x: np.gradient(x, 0.5), a)
row(lambda x: np.gradient(x, axis=1), m, t)
row(lambda x: np.gradient(x, edge_order=2), a)
row(lambda x: np.trapezoid(x), a, m, s)
row(lambda x: np.trapezoid(x, dx=0.1, axis=0), m, t)
row(lambda x, y: np.trapezoid(x, y), two)
row(lambda x: np.average(x), a, m, i)
row(lambda x: np.average(x, axis=0), m, t)
row(lambda x: np.flip(x), a, m, s)
row(lambda x: np.flip(x, axis=1), m, t)
row(lambda x: np.flip(x, (0, 1)), m)
row(lambda x: np.fliplr(x), m)
row(lambda x: np.flipud(x), m, t)
row(lambda x: np.rot90(x, 2), m)
row(lambda x, y: np.cross(x, y), vectors)
row(lambda x: np.tile(x, 3), a)
row(lambda x: np.tile(x, (2, 3)), m)
row(lambda p, x: np.polyval(p, x), lambda: (f64(4), f64(7)))
row(lambda p, x: np.polyval(p, x) + 1, lambda: (f32(3), f32(7)))
row(lambda x: np.cov(x), m)
row(lambda x, y: np.cov(x, y), two)
row(lambda x: np.corrcoef(x), m)
row(lambda x, y: np.isclose(x, y), two, mats)
row(lambda x: np.isclose(x, 0.5, rtol=1e-3), a, i)
row(lambda x, y: np.where(np.isclose(x, y), x, 0.0), two)
row(lambda x: np.sinc(x), a, s)
row(lambda x: np.angle(x), a)
row(lambda x: np.unwrap(x), a, m)
row(lambda x: np.unwrap(x, axis=0), m)
row(lambda x: np.moveaxis(x, 0, -1) + 0, m, t)
row(lambda x: np.atleast_2d(x) * 2, a, m)
row(lambda x, y: np.atleast_2d(x, y)[0] * 2, two)
row(lambda x: np.expand_dims(x, (0, 2)), m)
row(lambda x, y: np.kron(x, y), two, mats)
row(lambda x: x + np.linspace(0, 1, 7), a)
row(lambda x: x + np.logspace(0, 1, 7), a)
row(lambda x: np.pad(x, 2), a)
row(lambda x: np.pad(x, ((1, 1), (2, 2)), mode="edge"), m)
row(lambda x: np.isposinf(x) | np.isneginf(x), a)
row(lambda x: x * np.ndim(x) + np.shape(x)[0] + np.size(x), m)
row(lambda x: x.astype(np.result_type(x, np.float32)), a, s)
row(lambda x: x + np.finfo(x.dtype).eps, a, s)
row(lambda x: x * 2 if np.issubdtype(x.dtype, np.floating) else x * 3, a, i)
row(lambda x: x * 2 if np.iscomplexobj(x) else x * 3, a)
row(lambda x: np.median(x), a, m)
row(lambda x: np.column_stack((x, x)), a)
row(lambda x, y: np.append(x, y), two)
row(lambda x, y: np.allclose(x, y), two)
row(lambda x, y: np.array_equal(x, y), two)
row(lambda x: np.linalg.norm(x, np.inf, axis=0), m)
row(lambda x, y: np.linalg.cross(x, y), vectors)
row(lambda x: np.fft.fftshift(x), a)
row(lambda x: x * np.hanning(7), a)
row(lambda x: np.array(x, ndmin=3), a, m)
row(lambda x: np.array(x, copy=None, subok=True, ndmin=2) * 2, a, m)
# How floats round is the caller's; which of these is reached depends on rules of other rooms too, so the count isn't fixed:
row(lambda x: np.nanmean(x, axis=1), nans, why="stores where a mask says so")
row(lambda x: np.nansum(x), nans, why="stores where a mask says so")
row(lambda x: np.nan_to_num(x), nans, why="stores where a mask says so")
row(lambda x, w: np.average(x, weights=w), lambda: (f64(7), pos(7)), why="asks whether the weights add up to 0")
row(lambda x: np.rot90(x), m, why="axes are looked up in an array")
row(lambda x, y: np.meshgrid(x, y), two, why="assigns to .shape")
row(lambda x: np.fix(x), a, why="NumPy 2.5 warns that it is deprecated")
row(lambda x: np.vander(x), a, why="ufunc.accumulate")
row(lambda x: np.ptp(x, axis=1), m, why="ufunc.reduce")
row(lambda x: np.piecewise(x, [x < 0], [lambda v: -v, lambda v: v * 2]), a, why="a list of arrays becomes an array")
row(lambda x: np.apply_along_axis(lambda v: v * 2, 0, x), m, why="converters of NumPy's own")
row(lambda x: np.count_nonzero(x > 0, axis=0), lambda: (f64(4, 6),), why="an exception is caught")


@pytest.fixture(autouse=True)
def fresh():
    dynoc.reset()
    dynoc.config.wait = True
    yield
    dynoc.config.wait = False


@pytest.mark.parametrize("n", range(len(CASES)))
def test_same_as_eager(n):
    fn, maker, why = CASES[n]
    fast = dynoc.optimize(fn)
    for _ in range(3):
        check(fn, fast, maker, tol="near")
    if why is None:
        seen = dynoc.explain(fn)(*maker())
        assert (seen.graph_count, seen.graph_break_count) == (1, 0), str(seen)


@pytest.mark.parametrize("n", range(len(CASES)))
def test_other_sizes(n):
    fn, maker, _ = CASES[n]
    fast = dynoc.optimize(fn)
    check(fn, fast, maker, tol="near")

    def smaller():
        return tuple(x[..., :-1].copy() if x.ndim and x.shape[-1] > 4 else x for x in maker())

    for make in (smaller, maker):
        check(fn, fast, make, tol="near")


# ---- what is recorded through: each a mechanism of its own


def counts(fn, *args):
    seen = dynoc.explain(fn)(*args)
    return seen.graph_count, seen.graph_break_count


def whole(fn, *makers):
    """Same results, and one graph for each."""
    fast = dynoc.optimize(fn)
    for maker in makers:
        for _ in range(2):
            check(fn, fast, maker)
        assert counts(fn, *maker()) == (1, 0)


def test_generator_expressions():
    def as_tuple(x):
        parts = tuple(x * k for k in range(3))
        return parts[1] + parts[2]

    def unpacked(x, y):
        p, q = (v if isinstance(v, float) else np.asarray(v) * 2 for v in (x, y))
        return p + q

    def in_a_loop(x):
        out = x
        for v in (x * k for k in (1, 2)):
            out = out + v
        return out

    def with_closure(x, n):
        k = n + 1
        return x * 2 if all(j < k for j in range(n)) else x

    def added(x):
        return sum(x * k for k in (1, 2, 3)) + max(k for k in (1, 4))

    def generator_function(x):
        def parts(y, n):
            for k in range(n):
                yield y + k

        return list(parts(x, 2))

    whole(as_tuple, a)
    whole(unpacked, lambda: (f64(5), 2.0))
    whole(in_a_loop, a)
    whole(with_closure, lambda: (f64(5), 3))
    whole(added, a)
    whole(generator_function, a)


def test_generators_that_end_early_or_raise():
    def too_many(x):
        p, q = (x * k for k in range(3))
        return p + q

    def too_few(x):
        p, q = (x * k for k in range(1))
        return p + q

    def raises(x):
        return tuple(x * (1 // k) for k in (1, 0))

    def first_wins(x):
        seen = []
        found = any(seen.append(k) or k > 1 for k in range(5))
        return x * len(seen), found

    def left_in_the_middle(x):
        parts = (x * k for k in (1, 2, 3))
        first = next(parts)
        return first, list(parts)

    def data(x):
        return tuple(x + k if k else float(x.sum()) for k in range(2))

    for fn in (too_many, too_few, raises, first_wins, left_in_the_middle, data):
        fast = dynoc.optimize(fn)
        for _ in range(3):
            check(fn, fast, a)


def test_errstate_block():
    def quiet(x):
        with np.errstate(divide="ignore", invalid="ignore"):
            y = 1 / x
        return y * 2

    def zero():
        x = f64(6)
        x[2] = 0
        return (x,)

    whole(quiet, a)
    fast = dynoc.optimize(quiet)
    for _ in range(3):
        check(quiet, fast, zero)
    with np.errstate(all="raise"):
        for _ in range(3):
            check(quiet, fast, zero)

    def half(x):
        with np.errstate(divide="ignore"):
            y = 1 / x
        return 1 / x + y

    def louder(x):
        with np.errstate(divide="raise"):
            return 1 / x

    def writes(x):
        with np.errstate(divide="ignore"):
            y = 1 / x
        x[0] = 2.0
        return y

    def wrote(x):
        x[0] = 2.0
        with np.errstate(divide="ignore"):
            return 1 / x

    for fn in (half, louder, writes, wrote):
        fast = dynoc.optimize(fn)
        for state in ("warn", "ignore"):
            with np.errstate(all=state):
                for _ in range(3):
                    check(fn, fast, zero)


def test_values_made_of_numbers_decide():
    def by_scalar(x, k):
        return x * 2 if np.absolute(k - 3) == 1 else x

    fast = dynoc.optimize(by_scalar)
    for k in (2, 4, 5, 3):
        check(by_scalar, fast, lambda k=k: (f64(5), k))
    assert counts(by_scalar, f64(5), 2) == (1, 0)


def test_indexing_an_instance():
    def through(x):
        return x[np.s_[1:-1]] * 2

    whole(through, a)


def test_an_override_is_called():
    class Own:
        def __array_function__(self, func, types, args, kwargs):
            return "mine"

    own = Own()

    def fn(x):
        return x * 2, np.diff(own), np.column_stack([own])

    fast = dynoc.optimize(fn)
    for _ in range(2):
        assert fast(f64(5))[1:] == ("mine", "mine")

    class Plain:
        pass

    plain = Plain()

    def shape_of(x):
        return x * 2, np.shape(plain)

    fast = dynoc.optimize(shape_of)
    for _ in range(2):
        assert fast(f64(5))[1] == ()
    Plain.__array_function__ = lambda self, func, types, args, kwargs: "learnt"
    assert fast(f64(5))[1] == "learnt"


def test_subclasses_stay_numpys():
    def fn(x):
        return np.diff(x), np.flip(x)

    fast = dynoc.optimize(fn)
    masked = np.ma.masked_array([1.0, 2.0, 4.0], [0, 1, 0])
    for _ in range(2):
        for got, want in zip(fast(masked), fn(masked)):
            assert type(got) is type(want) and np.array_equal(got.mask, want.mask) and str(got) == str(want)


def test_exceptions_are_numpys():
    def bad_axis(x):
        return np.diff(x * 2, axis=3)

    def bad_order(x):
        return np.gradient(x * 2, edge_order=7)

    def bad_keyword(x):
        return np.flip(x * 2, axiss=1)

    for fn in (bad_axis, bad_order, bad_keyword):
        fast = dynoc.optimize(fn)
        for _ in range(3):
            check(fn, fast, a)


def test_an_exception_in_the_middle_of_numpys_code():
    def inverse(x):
        return np.linalg.matrix_power(x * 1.0, -1) + 1

    def regular():
        return (np.array([[2.0, 1.0], [0.0, 3.0]]),)

    def singular():
        return (np.zeros((2, 2)),)

    fast = dynoc.optimize(inverse)
    for maker in (regular, regular, singular, regular, singular):
        check(inverse, fast, maker, tol="near")


def test_a_changed_default_is_seen():
    def callee(x, k=2):
        return x * k

    def fn(x):
        return callee(x) + 1

    fast = dynoc.optimize(fn)
    check(fn, fast, a)
    callee.__defaults__ = (3,)
    for _ in range(2):
        check(fn, fast, a)


def test_a_callee_that_bails_leaves_no_guards():
    def fn(x, n):
        return np.pad(x, n, mode=mode) * 2

    mode = "wrap"
    fast = dynoc.optimize(fn)
    for n in (1, 2, 3, 4):
        check(fn, fast, lambda n=n: (f64(7), n))
    assert len(fast.entries) == 1


def test_under_enable():
    def fn(x, flag):
        return np.diff(x) if flag.any() else np.flip(x)

    with dynoc.enabled(wait=True):
        for _ in range(3):
            got = fn(f64(7), b1(3))
    assert np.array_equal(got, fn(f64(7), b1(3)))
