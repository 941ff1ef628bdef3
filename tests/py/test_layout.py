"""Views, creation and joining over every layout: values, dtypes, shapes, strides, flags, sharing and `.base` are NumPy's.

A form is an expression over an array x (or numbers n and s). Each is recorded with one array and then called with all the others,
so that guards have to tell apart whatever the result's layout rests on."""

import numpy as np
import pytest
from case import Call
from compare import check, dynoc, run

pytestmark = [pytest.mark.any_interpreter, pytest.mark.filterwarnings("ignore:future versions will not create")]

RANK0 = ["x.reshape(1, 1)", "np.atleast_2d(x)", "np.full((2, 2), x)", "x.ravel()", "x[..., None]", "x.astype(np.float32)"]
RANK1 = [
    "x[::2]",
    "x[::-1]",
    "x[-3::-2]",
    "x[1:][:-1]",
    "x[None, :, None]",
    "x[5:2]",
    "x.reshape(-1, 1)",
    "x[::2].reshape(-1, 1)",
    "x[::2].ravel()",
    "x[::-1].flatten()",
    "x.reshape(-1, order='F')",
    "np.flip(x)",
    "np.roll(x, 2)",
    "np.roll(x, -1, axis=0) + x",
    "np.repeat(x, 3)",
    "np.tile(x, 2)",
    "np.tile(x, (2, 3))",
    "np.pad(x, 2)",
    "np.pad(x, (1, 2), constant_values=3)",
    "np.diag(x)",
    "np.diag(x, -1)",
    "np.diagflat(x, 2)",
    "np.atleast_3d(x)",
    "np.column_stack([x, x * 2])",
    "np.dstack([x, x])",
    "np.vstack((x, x))",
    "np.hstack([x, x[:2]])",
    "np.stack([x, x + 1], axis=-1)",
    "np.append(x, x)",
    "np.append(x, 5)",
    "np.array([x, x])",
    "np.array_split(x, 3)",
    "np.split(x, [1, 3])",
    "np.meshgrid(x, x[:2])",
    "np.meshgrid(x, x[:2], indexing='ij', sparse=True)",
    "np.tril(x)",
    "np.broadcast_to(x, (2, 3) + x.shape)",
    "np.broadcast_arrays(x, x[:, None])",
    "np.ascontiguousarray(x)",
    "np.asfortranarray(x)",
    "np.ascontiguousarray(x[::2])",
    "np.lib.stride_tricks.sliding_window_view(x, 1)",
    "x.copy()",
    "x.view(np.int64)",
    "x.view()",
    "np.zeros_like(x)",
    "np.concatenate([x])",
    "np.concatenate([x, x.astype(np.float32), x > 0])",
    "np.insert(x, 0, 1.5)",
    "x.strides",
    "(x + 1).strides, (x + 1).base is None",
]
RANK2 = [
    "x.T",
    "x.mT",
    "x.T.reshape(-1)",
    "x.reshape(-1)",
    "x.reshape(-1, order='F')",
    "x.reshape(-1, order='A')",
    "x.reshape(x.shape[::-1])",
    "x.reshape(x.shape[::-1], order='F')",
    "x.reshape(x.shape)",
    "x[:, None].reshape(x.shape)",
    "x.reshape(x.shape + (1,))",
    "x.reshape(1, -1, x.shape[1])",
    "x.ravel()",
    "x.ravel('F')",
    "x.ravel('K')",
    "x.ravel('A')",
    "x.T.ravel()",
    "x.T.ravel('K')",
    "x.flatten()",
    "x.flatten('F')",
    "x.flatten('K')",
    "(x + 1).reshape(-1)",
    "(x * 2).T.reshape(-1)",
    "(x * 2).T.ravel()",
    "(x.T + 1).base is None",
    "x[:, ::2].reshape(-1)",
    "x[::-1, ::-1]",
    "x[:, 1:].T",
    "x[..., None, :]",
    "x[1:, :-1].copy()",
    "x.copy('F')",
    "x.copy('A')",
    "x.copy('K')",
    "x.T.copy()",
    "np.copy(x)",
    "np.copy(x, order='C')",
    "np.array(x, order='F')",
    "np.array(x, copy=None)",
    "np.array(x, copy=None, order='C')",
    "np.asarray(x, order='F')",
    "np.ascontiguousarray(x)",
    "np.asfortranarray(x)",
    "np.asfortranarray(x.T)",
    "x.astype(np.float32)",
    "x.astype(np.float32, order='C')",
    "x.astype(np.float32, order='F')",
    "x.astype(x.dtype, copy=False)",
    "x.astype(x.dtype, order='C', copy=False)",
    "x.astype(x.dtype, order='F', copy=False)",
    "np.zeros_like(x)",
    "np.ones_like(x, order='F')",
    "np.zeros_like(x, order='A')",
    "np.full_like(x, 2, order='C')",
    "np.ones_like(x, shape=(2, 3))",
    "np.zeros(x.shape, order='F')",
    "np.full(x.shape, 7, order='F') + x",
    "np.swapaxes(x, 0, 1)",
    "np.moveaxis(x, 0, -1)",
    "np.moveaxis(x, [0, 1], [1, 0])",
    "np.rollaxis(x, 1)",
    "np.rot90(x)",
    "np.rot90(x, 2)",
    "np.rot90(x, -1)",
    "np.flip(x)",
    "np.flip(x, 1)",
    "np.fliplr(x)",
    "np.flipud(x)",
    "np.diagonal(x)",
    "x.diagonal(1)",
    "x.diagonal(-2)",
    "np.diag(x, 1)",
    "np.trace(x)",
    "x.trace(1)",
    "np.tril(x)",
    "np.triu(x, 1)",
    "np.tril(x, -1)",
    "np.atleast_3d(x)",
    "np.expand_dims(x, (0, -1))",
    "np.squeeze(x[None])",
    "x[:, :1].squeeze(1)",
    "np.squeeze(x)",
    "np.broadcast_arrays(x, x[0])",
    "np.roll(x, 1)",
    "np.roll(x, 1, axis=1)",
    "np.roll(x, (1, -2), axis=(0, 1))",
    "np.repeat(x, 2)",
    "np.repeat(x, 2, axis=0)",
    "np.repeat(x, 3, axis=-1)",
    "np.tile(x, 2)",
    "np.tile(x, (2, 1))",
    "np.pad(x, 1)",
    "np.pad(x, ((1, 0), (0, 2)), constant_values=1.5)",
    "np.pad(x, ((1, 2), (2, 1)), mode='edge')",
    "np.concatenate([x, x])",
    "np.concatenate([x, x], axis=-1)",
    "np.concatenate([x, x.T], axis=None)",
    "np.concatenate([x, x], axis=1, dtype=np.float32)",
    "np.concatenate([x, x[:0]])",
    "np.stack([x, x], axis=1)",
    "np.stack([x])",
    "np.hstack([x, x[:, :1]])",
    "np.vstack([x, x[0]])",
    "np.dstack([x, x + 1])",
    "np.column_stack([x, x[:, 0]])",
    "np.block([[x, x], [x, x]])",
    "np.append(x, x, axis=0)",
    "np.append(x, x)",
    "np.insert(x, 1, 9, axis=1)",
    "np.delete(x, -1, axis=0)",
    "np.delete(x, 0)",
    "np.split(x, 1)",
    "np.array_split(x, 2, axis=1)",
    "np.hsplit(x, [1])",
    "np.vsplit(x, [1, 2])",
    "[a * 2 for a in np.array_split(x, 2)]",
    "np.array([x, x + 1])",
    "np.array([[x[0, 0], 1.0], [2, x[0, 0] + 1]])",
    "np.lib.stride_tricks.sliding_window_view(x, (1, 1))",
    "np.lib.stride_tricks.sliding_window_view(x, 1, axis=1)",
    "x.view(np.int64)[::-1]",
    "x.imag",
    "x.T.strides, x.nbytes, x.itemsize, x.size",
    "x[..., ::-1].T.reshape(-1, 1)",
    "np.eye(x.shape[0]) + x[:, :1]",
    "np.indices(x.shape)",
    "np.pad(x, 1, mode='reflect')",
    "np.delete(x, slice(0, 1), axis=0)",
]
RANK3 = [
    "x.T",
    "x.mT",
    "x.transpose(1, 0, 2)",
    "np.permute_dims(x, (2, 0, 1)).reshape(-1)",
    "np.moveaxis(x, (0, 1), (-1, -2))",
    "np.rollaxis(x, 2, 1)",
    "x.reshape(x.shape[0], -1)",
    "x.reshape(-1, x.shape[2])",
    "x.reshape(-1, x.shape[2], order='F')",
    "x[:, 0].reshape(-1)",
    "x[:, :, 0].reshape(-1)",
    "x[::2].reshape(-1, x.shape[2])",
    "x.ravel('K')",
    "x.diagonal(0, 1, 2)",
    "np.flip(x, (0, 2))",
    "np.concatenate([x, x], axis=2)",
    "x.copy('K')",
    "(x + 1).swapaxes(0, 2).reshape(-1)",
    "np.tril(x)",
]


def numbers(*shape):
    return np.arange(1.0, 1.0 + np.prod(shape, dtype=int)).reshape(shape)


def readonly(x):
    x.flags.writeable = False
    return x


LAYOUTS = {
    0: [lambda: numbers(), lambda: numbers(3)[1:2].reshape(())],
    1: [
        lambda: numbers(7),
        lambda: numbers(14)[::2],
        lambda: numbers(9)[::-1],
        lambda: numbers(3, 5)[:, 1],
        lambda: np.broadcast_to(numbers(1), (6,)),
        lambda: readonly(numbers(5)),
        lambda: numbers(4),
        lambda: numbers(0),
        lambda: numbers(1),
        lambda: numbers(2),
        lambda: numbers(3),
    ],
    2: [
        lambda: numbers(3, 4),
        lambda: np.asfortranarray(numbers(3, 4)),
        lambda: numbers(4, 6)[:, ::2],
        lambda: numbers(6, 4)[::2],
        lambda: numbers(5, 6)[1:4, 1:5],
        lambda: numbers(3, 4)[::-1],
        lambda: np.asfortranarray(numbers(4, 6))[::2, ::-1],
        lambda: np.broadcast_to(numbers(4), (3, 4)),
        lambda: np.broadcast_to(numbers(3, 1), (3, 4)),
        lambda: readonly(numbers(3, 3)),
        lambda: numbers(2, 3).T,
        lambda: numbers(5, 2),
        lambda: numbers(0, 4),
        lambda: numbers(3, 0),
        lambda: numbers(1, 4),
        lambda: numbers(3, 1),
        lambda: np.asfortranarray(numbers(1, 3)),
        lambda: numbers(1, 1),
        lambda: numbers(2, 2),
    ],
    3: [
        lambda: numbers(2, 3, 4),
        lambda: np.asfortranarray(numbers(2, 3, 4)),
        lambda: numbers(4, 2, 3).transpose(1, 2, 0),
        lambda: numbers(2, 6, 4)[:, ::2],
        lambda: numbers(3, 3, 3)[::-1],
        lambda: numbers(1, 3, 2),
        lambda: numbers(2, 0, 3),
        lambda: numbers(3, 2, 2),
    ],
}


def facts(result, x):
    """What comparing values does not see: who owns the bytes. NumPy keeps a helper object between a window and its array."""
    if isinstance(result, (tuple, list)):
        return [facts(item, x) for item in result]
    if not isinstance(result, np.ndarray):
        return None
    base = result.base if type(result.base).__name__ != "DummyArray" else result.base.base
    if isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    owner = x if x.base is None else x.base
    return result is x, result.flags.owndata, base is None, base is owner, np.shares_memory(result, x)


def function(expression, arguments="x"):
    space = {"np": np}
    exec(compile(f"def form({arguments}):\n    return {expression}\n", f"<{expression}>", "exec"), space)
    return space["form"]


def same_facts(plain, fast, make, what):
    for x in (make(), make()):
        expected = run(plain, Call(x), "")
        if expected.error is None:  # else the comparison before has seen that both raise the same
            assert facts(fast(x), x) == facts(expected.result, x), what


def forms(rank, expressions):
    return [pytest.param(rank, e, id=f"{rank}: {e}") for e in expressions]


ALL = forms(0, RANK0) + forms(1, RANK1) + forms(2, RANK2) + forms(3, RANK3)


@pytest.mark.parametrize("rank, expression", ALL)
def test_every_layout(rank, expression):
    plain, optimised = function(expression), function(expression)
    fast = dynoc.optimize(optimised, wait=True, options={"cache_limit": 64})
    for turn in range(2):
        for i, make in enumerate(LAYOUTS[rank]):
            check(plain, fast, lambda make=make: (make(),), "near", what=f"layout {i}, call {turn + 1}")
            same_facts(plain, fast, make, f"{expression}, layout {i}, call {turn + 1}")


@pytest.mark.parametrize("rank, expression", ALL)
def test_the_interpreter_gives_the_same(rank, expression):
    plain = function(expression)
    fast = dynoc.optimize(function(expression), backend="eager", wait=True, options={"cache_limit": 64})
    for i, make in enumerate(LAYOUTS[rank][:4] * 2):
        check(plain, fast, lambda make=make: (make(),), "near", what=f"layout {i}")


@pytest.mark.parametrize("rank, expression", ALL)
def test_one_graph(rank, expression):
    fast = dynoc.optimize(function(expression), fullgraph=True, wait=True)
    fast(LAYOUTS[rank][0]())


DTYPES = [np.bool_, np.int8, np.uint16, np.int32, np.uint64, np.float32]
BY_DTYPE = ["x.T.reshape(-1)", "np.diag(x[0])", "np.concatenate([x, x * 2.5])", "np.tril(x)", "np.pad(x, 1)", "x.copy('F')"]


@pytest.mark.parametrize("expression", BY_DTYPE)
def test_every_dtype(expression):
    plain, fast = function(expression), dynoc.optimize(function(expression), wait=True, options={"cache_limit": 64})
    for _ in range(2):
        for dtype in DTYPES:
            check(plain, fast, lambda dtype=dtype: (numbers(3, 3).astype(dtype),), "near", what=f"{dtype}")


@pytest.mark.parametrize("other", [np.bool_, np.int8, np.uint8, np.int64, np.float32])
def test_joining_promotes(other):
    plain = function("np.concatenate([x, y]), np.stack([x, y]), np.array([x, y]), np.hstack((y, x))", "x, y")
    fast = dynoc.optimize(plain, wait=True, options={"cache_limit": 64})
    for dtype in DTYPES:
        for _ in range(2):
            check(plain, fast, lambda dtype=dtype: (numbers(4).astype(dtype), numbers(4).astype(other)), what=f"{dtype}")


# ---- creation

NUMBERS = [(5, 2.5), (4, 0.1), (1, -3.0), (0, 1.5), (2, 1e300), (3, 0.0), (7, 1.0), (-2, 0.3)]
CREATION = [
    "np.arange(n)",
    "np.arange(n, 8)",
    "np.arange(1, n, 2)",
    "np.arange(n, 0, -1)",
    "np.arange(n) * s + 1",
    "np.arange(n) ** 2",
    "np.arange(s)",
    "np.arange(s, 3)",
    "np.arange(0, 1, 0.1)",
    "np.arange(0.1, 1.3, 0.1)",
    "np.arange(-0.0, -1.0, -0.25)",
    "np.arange(1, 2, s)",
    "np.arange(n, dtype=float)",
    "np.arange(n, dtype=np.float32)",
    "np.arange(n, n + 3, 0.5)",
    "np.arange(n).reshape(-1, 1) + np.arange(3)",
    "np.linspace(0, s, 5)",
    "np.zeros(n)",
    "np.ones((n, 2), order='F')",
    "np.full((n, n), s)",
    "np.eye(n)",
    "np.eye(n, 3, 1)",
    "np.eye(n, k=-1, dtype=np.int32)",
    "np.eye(3, n, order='F')",
    "np.identity(n)",
    "np.tri(n)",
    "np.tri(n, 4, -1, dtype=bool)",
    "np.tri(3, k=n)",
    "np.indices((n, 2))",
    "np.indices((2, n), sparse=True)",
    "np.indices((n,), dtype=np.int16)",
    "np.array([n, s])",
    "np.array([[n, 1], [2, 3]])",
    "np.array([1.0, 2.0, 3.0]) * s",
    "np.array([[1, 2], [3, 4]], dtype=np.float32) + s",
    "np.array([])",
    "np.array(n)",
    "np.array(s)",
    "np.asarray([s, 1, True])",
    "np.array((n, n), dtype=np.int64)",
    "np.array([True, False]), np.array([[]])",
    "np.repeat(np.arange(4.0), 2) + s",
    "np.roll(np.arange(5), n)",
    "np.pad(np.ones(2), n, constant_values=s)",
    "np.tile(np.arange(3), n)",
    "np.mgrid[0:1:5j]",
    "np.mgrid[0:n]",
    "np.mgrid[0:n, 1:4]",
    "np.mgrid[n:0:-1, 0:5:2] * s",
    "np.ogrid[0:n, 0:3]",
    "np.ogrid[:n]",
    "np.r_[np.arange(n), 1, s]",
    "np.r_[0:n, 3, np.arange(3)]",
    "np.c_[np.arange(3), np.arange(3) * s]",
    "np.arange(12.0).reshape(3, 4)[np.s_[1:, ::2]] + s",
]


@pytest.mark.parametrize("expression", CREATION)
def test_creation(expression):
    plain = function(expression, "n, s")
    for first in range(3):
        fast = dynoc.optimize(function(expression, "n, s"), wait=True, options={"cache_limit": 64})
        for _ in range(2):
            for call in NUMBERS[first:] + NUMBERS[:first]:
                check(plain, fast, lambda call=call: call, "near", what=f"{call}, recorded with {NUMBERS[first]}")


@pytest.mark.parametrize("expression", [e for e in CREATION if "float32" not in e and "5j" not in e])
def test_creation_is_one_graph(expression):
    dynoc.optimize(function(expression, "n, s"), fullgraph=True, wait=True)(5, 2.5)


def test_arange_gives_numpys_elements():
    """First, second, and first + i * (second - first): other formulas differ in the last bit."""
    plain = function("np.arange(a, b, c)", "a, b, c")
    fast = dynoc.optimize(plain, wait=True)
    rng = np.random.default_rng(5)
    for _ in range(300):
        a, c = float(rng.normal()), float(rng.normal() * 10.0 ** rng.integers(-8, 8))
        n = int(rng.integers(1, 30))
        check(plain, fast, lambda: (a, a + c * n, c), what=f"{a!r} {c!r} {n}")
    assert len(fast.entries) <= 3


def test_constant_lists_are_fresh_each_time():
    def fn(x):
        w = np.array([1.0, 2.0, 3.0])
        w[0] = x[0]
        return w

    fast = dynoc.optimize(fn, wait=True)
    for _ in range(3):
        first = fast(numbers(3) + 5)
        first[:] = -1
        check(fn, fast, lambda: (numbers(3),))


# ---- writing through views

WRITES = [
    "x.T[...] = 1",
    "x[::-1] += 1",
    "x[:, ::2] = 3",
    "x.reshape(-1)[1:3] = 7",
    "x.ravel()[:] = 2",
    "x[None][0, :1] = 5",
    "np.flip(x)[:1] = 1",
    "np.rot90(x)[0] *= 2",
    "np.moveaxis(x, 0, 1)[0] -= 1",
    "x[:] = x[::-1]",
    "x[1:] = x[:-1]",
    "x[:, 1:] += x[:, :-1]",
    "x.T[1:] -= x[:, :1].T",
    "x.fill(3)",
    "x[()] = 4",
    "x[..., 0] = 1.5",
    "x.swapaxes(0, 1)[0] = 9",
    "x.view(np.int64)[0] = 3",
    "np.concatenate([x[:1], x[:1]], out=x[:2])",
    "np.concatenate([x * 2, x + 1], out=np.zeros((2 * x.shape[0], x.shape[1])))",
    "np.copyto(x, 2)",
    "np.array_split(x, 2)[0][...] = 8",
    "x.diagonal()[0] = 1",
    "np.broadcast_to(x[0], x.shape)[0] = 1",
]


@pytest.mark.parametrize("statement", WRITES)
def test_writes(statement):
    space = {"np": np}
    exec(compile(f"def form(x):\n    y = x + 1\n    {statement}\n    return x, y, x * 2\n", f"<{statement}>", "exec"), space)
    plain = space["form"]
    fast = dynoc.optimize(plain, wait=True, options={"cache_limit": 64})
    for turn in range(2):
        for i, make in enumerate(LAYOUTS[2]):
            check(plain, fast, lambda make=make: (make(),), what=f"layout {i}, call {turn + 1}")


# ---- one entry for many sizes

MANY_SIZES = [
    ("np.roll(x, 3)", 1),
    ("np.arange(x.shape[0]) * x", 1),
    ("np.concatenate([x[:2], x, x * 2])", 1),
    ("np.diag(x)", 1),
    ("np.pad(x, 2)", 1),
    ("np.flip(x) + x", 1),
    ("np.tril(x).reshape(-1)", 2),
    ("x.T.reshape(-1)", 2),
    ("np.rot90(x).ravel()", 2),
    ("np.eye(x.shape[0]) @ x", 2),
    ("np.tile(x, (2, 2))", 2),
]


@pytest.mark.parametrize("expression, rank", MANY_SIZES)
def test_one_entry_serves_many_sizes(expression, rank):
    plain, fast = function(expression), dynoc.optimize(function(expression), wait=True)
    for n in range(4, 40, 3):
        check(plain, fast, lambda n=n: (numbers(*(n, n + 2)[:rank]),), "near", what=f"n = {n}")
    assert len(fast.entries) == 1
