"""Forms of NumPy that end up as calls, checks and symbols in one graph: objects that a call makes, flat, branches on data,
complex numbers that vary, calls with * of an array, lists that are stored."""

import copy
import os
import subprocess
import sys

import numpy as np
import pytest
from compare import compare_values, dynoc


def same(a, b, tol="near"):
    found = []
    compare_values(a, b, tol, "value", found.append)
    assert not found, "\n".join(found)


def one_graph(fn, make, sizes=(6, 6, 9, 4), entries=1):
    """One graph without a break, and eager's results at every size."""
    fast = dynoc.optimize(fn, wait=True, fullgraph=True)
    for call, n in enumerate(sizes):
        args = make(np.random.default_rng(call), n)
        mine = copy.deepcopy(args)
        same(fn(*args), fast(*mine))
        same(args, mine)
    assert len(fast.entries) <= entries
    return fast


def vector(rng, n):
    return (rng.normal(size=n),)


def matrix(rng, n):
    return (rng.normal(size=(n, 4)),)


# ---- random generators made inside


def seeded(n, seed):
    rng = np.random.default_rng(seed)
    return rng.random(n), rng.integers(0, 9, n), rng.normal()


def legacy(n, seed):
    rng = np.random.RandomState(seed)
    return rng.rand(n), rng.randint(0, 9, 5)


def by_hand(n, seed):
    rng = np.random.Generator(np.random.PCG64(seed))
    x = rng.standard_normal(n)
    rng.shuffle(x)
    return x


def handed_out(n, seed):
    rng = np.random.default_rng(seed)
    return rng.random(n) * 2, rng


def global_seed(n, seed):
    np.random.seed(seed)
    return np.random.rand(n)


@pytest.mark.parametrize("fn", [seeded, legacy, by_hand, global_seed], ids=lambda fn: fn.__name__)
def test_a_generator_made_inside(fn):
    one_graph(fn, lambda rng, n: (n, int(rng.integers(0, 99))))


def test_a_generator_that_is_handed_out_is_a_new_one_at_each_call():
    fast = dynoc.optimize(handed_out, wait=True, fullgraph=True)
    for n in (3, 4, 5):
        x, rng = handed_out(n, 7)
        y, mine = fast(n, 7)
        same(x, y)
        assert rng.bit_generator.state == mine.bit_generator.state
        same(rng.random(3), mine.random(3))


def test_a_warning_makes_no_second_draw():
    def f(x, seed):
        rng = np.random.default_rng(seed)
        return np.sqrt(x) + rng.random(len(x))

    fast = dynoc.optimize(f, wait=True)
    for x in (np.ones(3), np.ones(3), -np.ones(3)):
        with np.errstate(invalid="ignore"):
            expected = f(x, 3)
        if x[0] < 0:
            with pytest.warns(RuntimeWarning, match="invalid value encountered in sqrt"):
                got = fast(x, 3)
        else:
            got = fast(x, 3)
        same(expected, got)


# ---- objects


def lists(x):
    return x.tolist(), (x * 2).sum(axis=0).tolist(), x.sum().tolist(), x.tobytes()


def flat_read(x):
    return x.flat[3], x.flat[1:4], x.flat[[0, 2]], x.T.flat[2] * 2


def flat_written(x):
    x.flat[::2] = 0
    x.T.flat[1] = 5
    y = x * 2
    y.flat[[0, 3]] = [7, 8]
    y.flat = y.flat[::-1]
    return y, x + 1


def parts_written(z):
    z.real = z.imag * 2
    z.imag[1] = 4
    return z * 1


@pytest.mark.parametrize("fn", [lists, flat_read, flat_written], ids=lambda fn: fn.__name__)
def test_objects_made_of_arrays(fn):
    one_graph(fn, matrix)


def test_parts_are_written():
    one_graph(parts_written, lambda rng, n: (rng.normal(size=n) + 1j,))


# ---- branches on data


def clipped_when_large(x):
    if x.max() > 1.5:
        x = np.minimum(x, 1.5)
    elif np.any(x < -1.5):
        return x - 1
    return x * 2


def until_small(x):
    for i in range(8):
        x = x / 2
        if np.abs(x).max() < 0.1:
            break
    return x, i


def while_large(x):
    n = 0
    while (x * x).sum() > 1:
        x = x * 0.5
        n += 1
    return x, n


def logic(x):
    if not np.isnan(x).any() and (x.sum() > 0 or x[0] > 0):
        return x + 1
    return -x


@pytest.mark.parametrize("fn", [clipped_when_large, until_small, while_large, logic], ids=lambda fn: fn.__name__)
def test_branches_on_data(fn):
    fast = dynoc.optimize(fn, wait=True, fullgraph=True)
    rng = np.random.default_rng(5)
    for scale in (1.0, 1.0, 3.0, 0.01, -2.0, 1.0):
        for n in (5, 7):
            x = rng.normal(size=n) * scale
            same(fn(x), fast(x))
    assert len(fast.entries) == 1


def test_a_branch_behind_a_write():
    def f(x):
        x += 1
        if x[0] > 0:
            x *= 2
        x -= 3
        return x + 1

    fast = dynoc.optimize(f, wait=True)
    for first in (1.0, 1.0, -5.0, 2.0, -5.0):
        a = np.array([first, 2.0, 3.0])
        b = a.copy()
        same(f(a), fast(b))
        same(a, b)


# ---- complex numbers that vary


def modulated(x, f):
    return x * np.exp(-2j * np.pi * f * np.arange(len(x)))


def arithmetic(x, a, b):
    z = complex(a, b)
    w = (z * 2 + 1j) / (3 - z) - z.conjugate()
    v = -w + abs(z) * (1 + 0j)
    return x * w + v.real - v.imag, z, w / b



@pytest.mark.parametrize("fn", [modulated, arithmetic], ids=lambda fn: fn.__name__)
def test_complex_numbers_that_vary(fn):
    rest = (0.37,) if fn is modulated else (1.25, -0.5)
    one_graph(fn, lambda rng, n: (rng.normal(size=n), *(r + float(rng.random()) for r in rest)))


def test_complex_arithmetic_has_pythons_bits():
    def f(x, a, b, c, d):
        z, w = complex(a, b), complex(c, d)
        return x * 1, z + w, z - w, z * w, z / w, z / c, a / w, z * d, -z, w.conjugate()

    fast = dynoc.optimize(f, wait=True)
    rng = np.random.default_rng(2)
    x = np.ones(3)
    for i in range(40):
        numbers = [float(v) for v in rng.normal(size=4) * 10.0 ** rng.integers(-3, 4, 4)]
        if i % 5 == 0:
            numbers[i % 4] = -0.0
        try:
            expected = f(x, *numbers)
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                fast(x, *numbers)
            continue
        assert repr(expected) == repr(fast(x, *numbers))


# ---- small things


def starred(p):
    return np.arctan2(*p.T), np.add(*p[:2])


def stored(x):
    out = np.empty((3, 3))
    out[0] = x[0, 0], x[1, 1], 2.5
    out[1:] = [[1, 2, 3], x[0, :3]]
    out[2, :2] = 1, 2
    y = np.zeros(4, dtype=int)
    y[:2] = [x[0, 0] * 10, 3]
    return out, y


def nans(x):
    x[x > 0.5] = np.nan
    return np.nanmean(x, axis=0), np.nansum(x), np.nanstd(x, axis=1), np.nanmax(x), np.nanargmin(x), np.nanmedian(x)


@pytest.mark.parametrize("fn", [starred, stored, nans], ids=lambda fn: fn.__name__)
def test_small_forms(fn):
    width = 2 if fn is starred else 4
    one_graph(fn, lambda rng, n: (rng.normal(size=(n, width)),))


# ---- functions that NumPy calls


def relu_like(v, k=2):
    if v > 0:
        return v**k
    return -v


@np.vectorize
def decorated(a, b):
    return abs(a) + b


kernel = np.vectorize(relu_like)
whole = np.vectorize(lambda a: int(a > 0), otypes=[int])
products = np.vectorize(lambda v, w: v @ w, signature="(n),(n)->()")
drawn = []


def draws(v):
    drawn.append(1)
    return v


def vectorized(x, a):
    inner = np.vectorize(lambda t: t**2 if t > a else -t)
    return kernel(x), decorated(x, 2), whole(x), products(x, x[0]), inner(x) + 1, np.vectorize(relu_like)(x, 3)


def excluded(x, a):
    def f(t, y):
        s = 0.0
        for i in range(4):
            s += t * i
        return s + y

    return np.vectorize(f, excluded=["y"])(x, y=a), np.vectorize(f, otypes=[float])(x, a)


def along_axis(x, a):
    def trimmed(v, k):
        return np.sort(v)[k:].mean() * a

    lines = np.apply_along_axis(lambda v: (v - v.mean()) / (v.std() + 1), 1, x)
    return lines, np.apply_along_axis(np.sort, 0, x), np.apply_along_axis(trimmed, 1, x, 1), np.apply_along_axis(len, 0, x)


def over_axes(x, a):
    return np.apply_over_axes(np.sum, x, [0, 1]), np.fromfunction(lambda i, j: i * a + j, (3, len(x)))


def pieces(x, a):
    one = np.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v**2 + a])
    return one, np.piecewise(x[0], [x[0] < -1], [1, 2]), np.piecewise(x[:, 0], x[:, 0] > -9, [np.sin, 0])


@pytest.mark.parametrize("fn", [vectorized, excluded, along_axis, over_axes, pieces], ids=lambda fn: fn.__name__)
def test_functions_that_numpy_calls(fn):
    one_graph(fn, lambda rng, n: (rng.normal(size=(n, 4)), 0.25 + float(rng.random())))


def test_a_function_with_effects_is_called_as_often_as_in_numpy():
    def f(x):
        return np.vectorize(draws)(x) * 2

    def writes(x):
        def first_to_zero(v):
            v[0] = 0
            return v.sum()

        return np.apply_along_axis(first_to_zero, 1, x) + 1

    for fn in (f, writes):
        fast = dynoc.optimize(fn, wait=True)
        for _ in range(3):
            a, b = np.ones((3, 2)), np.ones((3, 2))
            drawn.clear()
            expected = fn(a)
            n = len(drawn)
            drawn.clear()
            same(expected, fast(b))
            same(a, b)
            assert len(drawn) == n


def test_a_name_of_a_vectorized_function_that_changes():
    space = {"np": np, "scale": lambda v: v * 2}
    exec("def f(x):\n    return np.vectorize(lambda v: scale(v) + 1)(x) * 1.0", space)
    fast = dynoc.optimize(space["f"], wait=True)
    x = np.arange(4.0)
    for scale in (lambda v: v * 2, lambda v: v * 3, lambda v: drawn.append(v) or v):
        space["scale"] = scale
        for _ in range(2):
            drawn.clear()
            expected = space["f"](x)
            n = len(drawn)
            drawn.clear()
            same(expected, fast(x))
            assert len(drawn) == n


# ---- views by strides


def windows_by_strides(x):
    step = x.strides[0]
    view = np.lib.stride_tricks.as_strided(x, shape=(x.size - 2, 3), strides=(step, step))
    y = np.lib.stride_tricks.as_strided(x, (x.size // 2,), (2 * step,))
    y[:] = 0
    return view.max(axis=1), view[1:] * 2, np.lib.stride_tricks.as_strided(x, (3, x.size), (0, step))


def blocks_by_strides(a):
    rows, columns = a.strides
    h, w = a.shape
    tiles = np.lib.stride_tricks.as_strided(a, (h // 2, w // 2, 2, 2), (2 * rows, 2 * columns, rows, columns))
    return tiles.sum(axis=(2, 3)), np.lib.stride_tricks.as_strided(a, (h - 1, w - 1, 2, 2), a.strides * 2, writeable=False)


def toeplitz(x):
    v = np.concatenate([x[::-1], x[1:]])
    n = len(x)
    return np.lib.stride_tricks.as_strided(v[n - 1 :], (n, n), (-v.strides[0], v.strides[0])).copy()


@pytest.mark.parametrize("fn", [windows_by_strides, toeplitz], ids=lambda fn: fn.__name__)
def test_vectors_by_strides(fn):
    one_graph(fn, vector)


def test_matrices_by_strides():
    one_graph(blocks_by_strides, matrix)


# ---- out= of calls


def products_into(a, b, c):
    np.dot(a, b, out=c)
    d = np.empty_like(c)
    e = np.matmul(c, b, d)
    c @= b
    np.matmul(b, b, out=b)
    return d + 1, e is d, c * 2


def picked_into(a, b, c):
    x = np.take(a, [0, 2], axis=0, out=c[:2])
    z = np.empty((2, 4))
    np.compress([True, False, True], a, axis=0, out=z)
    m = np.median(a, axis=0, out=b[0])
    e = np.einsum("ij->j", a, out=np.empty(4))
    return x * 2, z, m + 1, e, np.concatenate([a, a], out=np.empty((2 * len(a), 4)))


@pytest.mark.parametrize("fn", [products_into, picked_into], ids=lambda fn: fn.__name__)
def test_calls_that_write_into_out(fn):
    one_graph(fn, lambda rng, n: (rng.normal(size=(n, 4)), rng.normal(size=(4, 4)), np.zeros((n, 4))), entries=2)


def test_random_numbers_into_out():
    def f(rng, x):
        rng.random(out=x)
        return rng.standard_normal(out=np.empty(3)) + x[:3]

    fast = dynoc.optimize(f, wait=True, fullgraph=True)
    plain, mine = np.random.default_rng(1), np.random.default_rng(1)
    for n in (4, 4, 6):
        a, b = np.zeros(n), np.zeros(n)
        same(f(plain, a), fast(mine, b))
        same(a, b)


# ---- loops over arrays, functions made inside


def zipped(p, q):
    t = 0
    for a, b in zip(p, q):
        if b > 0:
            t = t + a * b
    for i, v in enumerate(q):
        q[i - 1] += v
    return t, q


def comprehended(p, q):
    label = (p[:, 0] > 0).astype(int)
    return np.array([p[label == k].sum(axis=0) for k in range(2)]), [np.unique(q[q > k]) for k in range(-1, 2)]


def made_function(p, q):
    def scaled(v, *, by=2.0):
        return v[v > 0] * by + q[0]

    square = lambda v, k=2: v**k  # noqa: E731
    return square(scaled(q)), np.unique(square(p)), scaled(q, by=3.0)


def chosen(p, q):
    return max(q[0], 0.0) + min(q[1], q[0]) * max([q[1], 0.5, q[2]])


@pytest.mark.parametrize("fn", [zipped, comprehended, made_function, chosen], ids=lambda fn: fn.__name__)
def test_loops_and_functions(fn):
    one_graph(fn, lambda rng, n: (rng.normal(size=(n, 2)), rng.normal(size=n)), entries=3)


def test_a_function_that_is_handed_out():
    def f(x):
        top = np.unique(x)[-1]

        def scaled(v, by=2.0):
            return v * by + top

        return scaled

    fast = dynoc.optimize(f, wait=True, fullgraph=True)
    for n in (3, 4, 4):
        x = np.arange(float(n))
        one, two = f(x), fast(x)
        assert one(3.0) == two(3.0) and one.__qualname__ == two.__qualname__ and one.__defaults__ == two.__defaults__
        assert one.__globals__ is two.__globals__ and two(1.0, by=5.0) == 5.0 + x[-1]


def wide_stencil(a):
    p = np.pad(a, 2)
    return sum(p[i : i + a.shape[0], j : j + a.shape[1]] * (i + j + 0.5) for i in range(5) for j in range(5))


def long_chain(a):
    y = a
    for _ in range(15):
        y = y * 0.3 + a / (1 + y * y)
        y = y * 0.2 - a + abs(y) * 0.1 - 1
        y = np.where(y > 0, y, -y) + a * 0.1
        y = y + 0.5 * a - 0.3 * (y - a)
    return y


@pytest.mark.parametrize("fn", [wide_stencil, long_chain], ids=lambda fn: fn.__name__)
def test_kernels_are_split(fn):
    one_graph(fn, matrix)
    assert not dynoc.counters.get("refused", {}).get("LOWERING")


def looked_at(x):
    return 3.0 in x, x[0, 0] in x, 7 not in x, x.flags.c_contiguous, x.T.flags["F_CONTIGUOUS"], np.iterable(x)


def grids(x):
    n = len(x)
    y, z = np.ogrid[-1.5 : 1.5 : n * 1j, 0:1:3j]
    return y + z, np.r_[0:1:5j, x[:, 0], 2], np.mgrid[0:n:0.5]


@pytest.mark.parametrize("fn", [looked_at, grids], ids=lambda fn: fn.__name__)
def test_small_calls(fn):
    one_graph(fn, matrix)


def builtins_of_arrays(x):
    y = x[0]
    return sum(y), min(y), max(x[:, 1]), sorted(x[1]), list(y), set(np.round(y)), any(y > 0), sum(x), sum(y, 0.5)


def numbers_taken_out(x):
    t = 0
    for v in x[0].tolist():
        t += v * v
    return t, x.tolist(), x[1].tolist()[:3]


@pytest.mark.parametrize("fn", [builtins_of_arrays, numbers_taken_out], ids=lambda fn: fn.__name__)
def test_builtins_of_arrays(fn):
    one_graph(fn, matrix)


def permuted_rows(x):
    rng = np.random.default_rng(1)
    i, rows = rng.permutation(len(x)), rng.permutation(x)
    drawn = rng.multivariate_normal([0, 1], np.eye(2), size=len(x))
    parts = rng.dirichlet(np.ones(3), size=4), rng.multinomial(5, [0.2, 0.8], size=(2, 3)), rng.choice(x, 3)
    return x[i[:2]], x[i[2:]], rows[:3] * 2, drawn[:, 0] + x[:, 1], parts[0][1:], parts[1][0], parts[2][:1]


def test_sizes_of_draws():
    one_graph(permuted_rows, matrix)


@pytest.mark.parametrize("text", ["np.array(None)", "np.asarray(None)", "np.sum(None)", "np.copy(None)", "np.zeros_like(None)"])
def test_none_as_an_operand(text):
    space = {"np": np}
    exec(f"def f(x):\n    return x * 2, {text}", space)
    fast = dynoc.optimize(space["f"], wait=True)
    for _ in range(3):
        try:
            expected = space["f"](np.ones(2))
        except Exception as e:
            with pytest.raises(type(e)) as got:
                fast(np.ones(2))
            assert str(got.value) == str(e)
        else:
            assert repr(expected) == repr(fast(np.ones(2)))


FRESH_ATTRIBUTES = """
import types
import dynoc
import numpy as np

module = types.ModuleType("fresh")
made = {"method": lambda: (1.5).conjugate, "part": lambda: types.ModuleType("part"), "number": lambda: 2.5}
module.__getattr__ = lambda name: made[name]()
for called in (
    lambda v: len(module.__dir__()) * v,
    lambda v: module.method() * v,
    lambda v: len(module.part.__dir__()) * v,
    lambda v: module.number * v,
):
    fn = lambda x: np.vectorize(called)(x) * 2
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(3):
        assert (fast(np.arange(5.0)) == fn(np.arange(5.0))).all()
"""


def test_attributes_that_a_module_makes_each_time_are_kept_while_they_are_looked_at():
    env = {**os.environ, "PYTHONMALLOC": "debug"}  # an object that is gone is overwritten
    done = subprocess.run([sys.executable, "-c", FRESH_ATTRIBUTES], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
