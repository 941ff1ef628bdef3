"""Arrays of CuPy's, without a device: tests/cuda/cupy stands in for CuPy, tests/cuda/stand_in.c for the driver and NVRTC. What
eager gives, the stand-in gives on NumPy's arrays."""

import sys
from pathlib import Path

import numpy as np
import pytest
from test_cuda import device, library  # noqa: F401

import dynoc

HERE = Path(__file__).resolve().parent.parent / "cuda"


@pytest.fixture
def cp(device):  # noqa: F811
    sys.path.insert(0, str(HERE))
    import cupy

    yield cupy
    sys.path.remove(str(HERE))


def same(got, want):
    if isinstance(want, tuple):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
        return
    assert type(got) is type(want)
    if hasattr(want, "get"):
        assert (got.dtype, got.shape, got.strides) == (want.dtype, want.shape, want.strides)
        np.testing.assert_allclose(got.get(), want.get(), rtol=1e-5, atol=1e-5)
    else:
        assert got == want


def check(cp, f, *arrays, kernels=1, breaks=0, calls=3):
    def fresh():
        return [cp.array(a.copy()) if isinstance(a, np.ndarray) else a for a in arrays]

    want_in, fast = fresh(), dynoc.optimize(f, wait=True)
    want = f(*want_in)
    for _ in range(calls):
        got_in = fresh()
        same(fast(*got_in), want)
        for g, w in zip(got_in, want_in, strict=True):
            same(g, w)
    assert sum(entry.kernels for entry in fast.entries) >= kernels, fast.refusals
    assert len(fast.entries) <= 1 + breaks, fast.refusals
    return fast


X = np.random.default_rng(0).standard_normal((37, 130)).astype("f4")
Y = np.random.default_rng(1).standard_normal(130).astype("f4")
Z = (X + 1j * np.random.default_rng(3).standard_normal((37, 130))).astype("c8")
N = np.random.default_rng(2).integers(-50, 50, (37, 130)).astype("i4")
CASES = {
    "chain": (lambda cp, x: cp.sin(x) * 2 + cp.cos(x) ** 2 - x / 3, X),
    "broadcast": (lambda cp, x, y: x + y - x[:, :1], X, Y),
    "transposed": (lambda cp, x: x.T * 2 + x.transpose().reshape(130, 37), X),
    "strided": (lambda cp, x: x[1:, ::2] * 3 + 1, X),
    "integers": (lambda cp, n: (n // 7) * 3 + n % 5 - (n << 2), N),
    "true division of integers": (lambda cp, n: n / 4 + 1, N),
    "mixed": (lambda cp, x, n: x * n + (n > 3), X, N),
    "where": (lambda cp, x: cp.where(x > 0, x, -x * 2), X),
    "clip": (lambda cp, x: cp.clip(x, -1, 1) + x.clip(-0.5, 0.5), X),
    "comparisons": (lambda cp, x, y: (x > y) & (x < 1) | ~(x == y), X, Y),
    "sum": (lambda cp, x: (x * x).sum(), X),
    "softmax": (lambda cp, x: softmax(cp, x), X),
    "layer norm": (lambda cp, x: (x - x.mean(1, keepdims=True)) / cp.sqrt(x.var(axis=1, keepdims=True) + 1e-5), X),
    "functions that reduce": (lambda cp, x: cp.sum(x, axis=0) + cp.max(x, axis=0) - cp.amin(x, axis=0) * cp.mean(x), X),
    "integers reduced": (lambda cp, n: (n.sum(axis=0), n.sum(), n.max(axis=1), (n > 0).any(axis=1), n.prod(axis=1)), N),
    "std": (lambda cp, x: cp.std(x, axis=0) + x.std(ddof=1), X),
    "dtypes": (lambda cp, x: (x.astype("f8") * 2, x.astype(cp.int32) + 1, x.sum(dtype="f8")), X),
    "several results": (lambda cp, x: (x + 1, x.sum(1), (x * 2).T, x[3]), X),
    "made inside": (lambda cp, x: cp.zeros_like(x) + x + cp.ones(130, dtype="f4") + cp.full((37, 1), 2.0, "f4"), X),
    "only made": (lambda cp: cp.zeros((5, 6)) + 2,),
    "a scalar of NumPy's": (lambda cp, x: x * np.float32(2) + np.float64(3), X),
    "a number that comes in": (lambda cp, x, s: x * s + s, X, 2.5),
    "views": (lambda cp, x: (x[:, None, ::3].squeeze(1) * 2, cp.expand_dims(x, 0) + 1, x.swapaxes(0, 1) * 2, x.ravel() + 1), X),
    "broadcast to": (lambda cp, y: cp.broadcast_to(y, (5, 130)) * 2, Y),
    "joined": (lambda cp, x: cp.concatenate([x, x * 2], axis=0) + cp.concatenate((x + 1, x), axis=0), X),
    "calls between": (lambda cp, x: cp.sort(x * 2, axis=1) + 1, X),
    "a running sum": (lambda cp, x: x.cumsum(axis=0) * 2, X),
    "a product": (lambda cp, x: (x * 2) @ (x.T + 1) - 1, X),
    "dot": (lambda cp, x: cp.dot(x, x.T) + 1, X),
    "NumPy's ufunc": (lambda cp, x: np.exp(x) + np.maximum(x, 0), X),
    "NumPy's function": (lambda cp, x: np.sum(x * 2, axis=0) + 1, X),
    "sizes": (lambda cp, x: x * x.shape[0] + x.size + x.ndim + len(x), X),
    "two results": (lambda cp, x: cp.modf(x * 2)[0] + cp.modf(x)[1], X),
    "nothing in": (lambda cp, x: (x * 2 + 1).sum(axis=0), X[:0]),
    "rows": (lambda cp, x: [row * 2 for row in x[:3]][1] + 1, X),
    "a lookup": (lambda cp, x: x[[3, 1, 2]] * 2 + x[x.shape[0] - 5], X),
    "complex numbers": (lambda cp, z, x: abs(z - 1j * x) * 2 + z * x - cp.exp(z * 2j), Z, X),
    "complex sums": (lambda cp, z: (z * 2 + 1).sum(axis=0) - z.sum() + (z == z).any(), Z),
    "complex choices": (lambda cp, z: cp.where(z == z[0], z, -z) * (1 - 2j) + z.astype("c16"), Z),
    "an element": (lambda cp, x: x * x[0, 0] + x[-1, -1], X),
}


def softmax(cp, x):
    e = cp.exp(x - cp.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("name", CASES)
def test_gives_what_cupy_gives(cp, name):
    f, *arrays = CASES[name]
    got = check(cp, lambda *a: f(cp, *a), *arrays, kernels=1)
    assert not got.refusals


IN_PLACE = {
    "operators": (lambda cp, x, y: in_place(x, y), X, Y),
    "out=": (lambda cp, x, y: cp.add(x * 2, y, out=x), X, Y),
    "a slice": (lambda cp, x, y: store(x, y), X, Y),
    "a mask": (lambda cp, x, y: store_masked(x, y), X, Y),
    "two looks at one array": (lambda cp, x, y: shift(x), X, Y),
}


def in_place(x, y):
    x += y
    x *= 2
    return x - 1


def store(x, y):
    x[1:3] = y * 2
    x[:, 0] = 7
    return x + 1


def store_masked(x, y):
    x[x > 1] = 1
    x[[0, 2]] = y
    return x * 2


def shift(x):
    x[1:] = x[:-1] + 1
    return x[::2] * 2


@pytest.mark.parametrize("name", IN_PLACE)
def test_changes_what_cupy_changes(cp, name):
    f, *arrays = IN_PLACE[name]
    check(cp, lambda *a: f(cp, *a), *arrays)


def test_a_branch_on_a_sum_is_taken_as_it_falls(cp):
    def f(x):
        z = cp.sin(x) * 2
        if float(z.sum()) > 0:
            z = z + 1
        return z

    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        for sign in (1, -1):
            x = cp.array(sign * np.arange(1, 2, 0.01, "f4"))
            same(fast(x), f(x))


def test_other_dtypes_ranks_and_orders_have_entries_of_their_own(cp):
    fast = dynoc.optimize(lambda x: x * 2 + 1, wait=True)
    for x in (X, X.astype("f8"), X[0], N, np.asfortranarray(X)):
        a = cp.array(x)
        for _ in range(2):
            same(fast(a), a * 2 + 1)
    assert len(fast.entries) == 5
    assert "x.dtype is float32" in str([e.guards for e in fast.entries])
    assert "x.flags.c_contiguous" in str([e.guards for e in fast.entries])


def test_sizes_share_an_entry(cp):
    fast = dynoc.optimize(lambda x: (x * 2).sum(axis=0), wait=True)
    for n in range(2, 30):
        a = cp.array(X[:n])
        same(fast(a), (a * 2).sum(axis=0))
    assert len(fast.entries) == 1


def test_an_operand_of_numpys_is_cupys_error(cp):
    fast = dynoc.optimize(lambda x: x * 2 + np.ones(130), wait=True)
    for _ in range(3):
        with pytest.raises(TypeError, match="Unsupported type"):
            fast(cp.array(X))


def test_both_kinds_of_arrays_in_one_function(cp):
    def f(x, y):
        return (x * 2 + 1).sum(axis=0), (y * 2 + 1).sum(axis=0)

    fast = dynoc.optimize(f, wait=True)
    x = cp.array(X)
    for _ in range(3):
        got, plain = fast(x, X)
        same(got, f(x, X)[0])
        np.testing.assert_array_equal(plain, f(x, X)[1])


def test_a_function_for_either_module(cp):
    def f(xp, x):
        return xp.exp(x - xp.max(x)) / xp.sum(xp.exp(x))

    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        same(fast(cp, cp.array(X)), f(cp, cp.array(X)))
        np.testing.assert_allclose(fast(np, X), f(np, X), rtol=1e-6)


def test_kernels_of_the_program_are_nodes(cp):
    k = cp.ElementwiseKernel("T x, T y", "T z", "x * y + 1", "k")
    fast = dynoc.optimize(lambda x: k(x * 2, x) + 1, wait=True, fullgraph=True)
    x = cp.array(X)
    for _ in range(3):
        same(fast(x), k(x * 2, x) + 1)
    assert len(fast.entries) == 1


def test_a_raw_kernel_is_launched_between_what_it_reads_and_what_reads_it(cp):
    def body(a, b, n):
        b[:n] = a[:n] * 3
        a[0] = 5

    raw = cp.RawKernel(body)

    def f(x):
        out, y = cp.zeros_like(x), x + 1
        raw((1,), (32,), (y, out, 2))
        z = out * 2 + y
        raw((1,), (32,), (z, out, 30))
        return out * 2, y + z

    fast = dynoc.optimize(f, wait=True, fullgraph=True)
    x = cp.array(X)
    for _ in range(3):
        same(fast(x), f(x))
    assert len(fast.entries) == 1 and fast.entries[0].kernels >= 2


def test_without_waiting_calls_are_cupys_until_kernels_are_there(cp):
    f = dynoc.optimize(lambda x: cp.sin(x) * 2 + x.sum())
    x = cp.array(X)
    for _ in range(300):
        same(f(x), cp.sin(x) * 2 + x.sum())


def test_memory_is_flat(cp):
    import tracemalloc

    fast = dynoc.optimize(lambda x: (x * 2 + 1).sum(axis=0) + x[0], wait=True)
    x = cp.array(X)
    for _ in range(20):
        fast(x)
    tracemalloc.start()
    for _ in range(20):
        fast(x)
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(500):
        fast(x)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000


def test_graphs_of_cupy_say_so_in_their_text(cp):
    fast = dynoc.optimize(lambda x: x * 2 + 1, wait=True)
    fast(cp.array(X))
    assert "on cuda:0 of cupy" in str(fast.entries[0].graph)


def test_random_numbers_are_drawn_once_and_in_their_place(cp):
    def f(n):
        a = cp.random.rand(n, 3)
        b = cp.random.normal(1.0, 2.0, size=(n, 3), dtype="f4")
        return (a * 2 + b).sum(axis=0), a

    fast = dynoc.optimize(f, wait=True, fullgraph=True)
    cp.random.seed(3)
    want = [f(5) for _ in range(4)]
    cp.random.seed(3)
    for w in want:
        same(fast(5), w)


def test_quotients_of_floats_are_cupys(cp):
    """Which are infinite where NumPy's are nan: the stand-in gives NumPy's, and counts the calls."""
    calls = []

    class Counted(cp.ufunc):
        def __call__(self, *args, **kwargs):
            calls.append(1)
            return super().__call__(*args, **kwargs)

    divide = Counted(np.floor_divide)
    fast = dynoc.optimize(lambda x: np.floor_divide(x * 2, 3.0) + 1, wait=True)
    old, cp.floor_divide = cp.floor_divide, divide
    try:
        for _ in range(4):
            same(fast(cp.array(X)), cp.array(np.floor_divide(X * 2, np.float32(3)) + 1))
    finally:
        cp.floor_divide = old
    assert len(calls) == 4
