"""Functions of arrays, with the arguments to take their gradients at: test_gradient.py compares these with differences."""

import numpy as np

RNG = np.random.default_rng(0)
A, W = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3))
B, V, S = RNG.normal(size=(3, 5)), RNG.normal(size=3), RNG.normal(size=(3, 3))
P = RNG.uniform(0.5, 2, size=(4, 3))
Q = P[::-1] * 1.1 + 0.01
T, U = RNG.normal(size=(2, 4, 3)), RNG.normal(size=(2, 3, 4))
AT, COLUMNS = np.array([2, 0, 2, 1]), np.array([0, 1, 2, 2])
CASES = {}


def case(*args):
    def add(function):
        CASES[function.__name__] = (function, args)
        return function

    return add


def named(name, function, *args):
    CASES[name] = (function, args)


ANYWHERE = "sin cos tan exp exp2 expm1 sinh cosh tanh arctan arcsinh square negative positive absolute fabs degrees radians"
POSITIVE = "log log2 log10 log1p sqrt cbrt reciprocal"
INSIDE = "arcsin arccos arctanh"
PAIRS = "add subtract multiply divide power float_power maximum minimum fmax fmin hypot arctan2 logaddexp logaddexp2 copysign"


def weighed(ufunc):
    return lambda *x: (ufunc(*x) * W).sum()


for word, at in ((ANYWHERE, A), (POSITIVE, P), (INSIDE, P / 2.2)):
    for name in word.split():
        named(name, weighed(getattr(np, name)), at)
named("arccosh", weighed(np.arccosh), P + 1)
for name in PAIRS.split():
    named(name, weighed(getattr(np, name)), P, Q)
    named(f"{name} of a row", weighed(getattr(np, name)), P, Q[1])
    named(f"{name} of a column", weighed(getattr(np, name)), Q[:, :1].copy(), P)
for name in ("sum", "mean", "prod", "max", "min", "var", "std", "ptp"):
    for axis in (None, 0, 1, (0, 1)):
        for keep in (False, True):
            if name != "ptp" or axis != (0, 1):
                reduce = getattr(np, name)
                named(
                    f"{name} {axis} {keep}",
                    lambda x, reduce=reduce, axis=axis, keep=keep: np.sin(reduce(x, axis=axis, keepdims=keep) * 0.5).sum(),
                    A,
                )
PRODUCTS = {"matrices": (A, B), "matrix, vector": (A, V), "vector, matrix": (V, B), "vectors": (V, V + 1), "stacks": (T, U),
            "stack, matrix": (T, B), "matrix, stack": (B.T, U), "stack, vector": (T, V), "vector, stack": (V, U)}  # fmt: skip
for name, (x, y) in PRODUCTS.items():
    named(f"product of {name}", lambda x, y: np.sin(x @ y).sum(), x, y)
named("dot", lambda x, y: np.sin(np.dot(x, y)).sum(), A, B)
named("method dot", lambda x, y: np.sin(x.dot(y)).sum(), A, V)
named("outer", lambda x, y: np.sin(np.outer(x, y)).sum(), V, V + 1)
named("einsum", lambda x, y: np.sin(np.einsum("bij,bjk->bik", x, y)).sum(), T, U)
named("einsum to a number", lambda x, y: np.einsum("ij,ij->", x, y), A, W)
named("trace", lambda x: np.trace(x) * x[0, 1], S)
named("norm", lambda x: np.linalg.norm(x), A)
named("norm of rows", lambda x: np.linalg.norm(x, axis=1).prod(), A)
named("transpose", lambda x: (np.transpose(x, (2, 0, 1)) ** 2 * np.arange(24.0).reshape(3, 2, 4)).sum(), T)
named("reshape", lambda x: (x.T.reshape(2, 6) * np.arange(12.0).reshape(2, 6)).sum(), A)
named("ravel", lambda x: (x.ravel() * np.arange(12)).sum(), A)
named("moveaxis", lambda x: (np.moveaxis(x, 0, -1) * np.arange(24.0).reshape(4, 3, 2)).sum(), T)
named("slices", lambda x: (x[1:3, ::2] ** 2).sum() + x[0, 0] * x[-1, 1] + (x[::-1] * W).sum(), A)
named("new axes", lambda x: (x[:, None] * np.sin(x[None])).sum(), V)
named("rows by number", lambda x: (np.sin(x[AT]) * W).sum(), A)
named("columns by number", lambda x: np.sin(x[:, AT] * np.arange(4)).sum(), A)
named("take", lambda x: np.sin(np.take(x, AT, axis=1) * np.arange(4)).sum(), A)
named("take along the middle", lambda x: np.sin(np.take(x, AT, axis=1) * np.arange(3)).sum(), T)
named("elements by number", lambda x: np.sin(x[AT, COLUMNS] * np.arange(4)).sum(), A)
named("sorted rows", lambda x: (np.take_along_axis(x, np.argsort(x, axis=1), 1)[:, 0] ** 2).sum(), A)
named("elements by a mask", lambda x: np.sin(x[x > 0] * 2).sum() + (x[np.array([True, False, True, True])] ** 2).sum(), A)
named("rows by number of another order", lambda x: (np.sin(x.T[np.array([2, 0, 0])]) * W.T).sum(), A)
named("where", lambda x, y: np.where(x > 0, x * y, np.sin(y)).sum(), A, W)
named("clip", lambda x: (np.clip(x, -0.5, 0.5) * W).sum(), A)
named("clip by arrays", lambda x, y: (np.clip(x, -np.abs(y), np.abs(y)) * W).sum(), A, W)
named("concatenate", lambda x, y: np.sin(np.concatenate([x, y])).sum(), A, B.T)
named("stack", lambda x, y: (np.stack([x, y, x]) ** 2).sum(), A, W)
named("array of numbers", lambda x: (np.array([x[0] * 2, x[1] * x[2]]) ** 2).sum(), V)
named("tile", lambda x: (np.tile(x, (2, 2)) * np.arange(6)).sum(), V)
named("repeat", lambda x: (np.repeat(x, 3) * np.arange(9)).sum(), V)
named("roll", lambda x: (np.roll(x, 1) * np.arange(3)).sum(), V)
named("pad", lambda x: (np.pad(x, 1) ** 2).sum(), A)
named("broadcast_to", lambda x: (np.broadcast_to(x, (4, 3)) * W).sum(), V)
named("diff", lambda x: (np.diff(x) ** 2).sum(), A)
named("cumsum", lambda x: (np.cumsum(x, axis=1) ** 2).sum(), A)
named("cumsum of columns", lambda x: (np.cumsum(x, axis=0) ** 2).sum(), A)
named("cumsum of all", lambda x: (np.cumsum(x) ** 2).sum(), A)
named("diagonal", lambda x: (np.diag(x) ** 2).sum(), S)
named("diagonal matrix", lambda x: (np.diag(x) @ S).sum(), V)
named("tril", lambda x: (np.tril(x) ** 2).sum(), S)
named("average", lambda x: np.average(x, weights=np.abs(W)), A)
named("log of a sum of exponentials", lambda x: np.log(np.exp(x - x.max()).sum()) + x.max(), A)
named("trapezoid", lambda x: np.trapezoid(x**2), V)
named("a number", lambda a, x: (a * x).sum() * a**2, 2.0, V)
named("product where one is 0", lambda x: (x.prod(axis=1) * np.arange(1.0, 4)).sum(),
      np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0], [1.0, 2.0, 3.0]]))  # fmt: skip


@case(A)
def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True) * W).sum()


@case(V)
def loop(x):
    s = np.zeros(3)
    for i in range(30):
        s = np.tanh(s + x * i * 0.1)
    return s.sum()


# ---- memory that changes


@case(V, S)
def state_in_place(x, w):
    h = np.zeros(3)
    for _ in range(4):
        h[:] = np.tanh(w @ h + x)
    return (h**2).sum()


@case(V, S)
def states_in_rows(x, w):
    hs = np.zeros((5, 3))
    for t in range(5):
        hs[t] = np.tanh(w @ hs[t - 1] + x)
    return (hs**2).sum()


@case(V)
def sums_in_place(x):
    s = np.zeros(3)
    for i in range(5):
        s += x * x * i
        s *= x
    return (s * s).sum()


@case(V)
def read_before_it_changes(x):
    y = x.copy()
    z = y * y
    y += 1
    y *= z
    w = np.exp(y)
    y -= w
    return (y * y).sum()


@case(V)
def elements_that_change(x):
    y = x * 2
    z = np.sin(y)
    y *= z
    y *= y
    y[1] = y[0] * y[2]
    y[0] *= 3
    return y.prod()


@case(V)
def results_in_given_memory(x):
    y = np.empty_like(x)
    np.multiply(x, x, out=y)
    np.exp(y, out=y)
    return (y * x).sum()


@case(V)
def interleaved(x):
    y = np.zeros(6)
    y[::2] = x
    y[1::2] = x * x
    y[2:] *= y[:-2].copy()
    return (y**3).sum()


@case(V)
def extremes_of_what_changes(x):
    a = x.max()
    b = x.copy()
    b[0] = a * b[1]
    b /= b.sum()
    return (b * b).max()


@case(V)
def added_where_numbers_say(x):
    y = np.zeros(5)
    np.add.at(y, np.array([1, 1, 4]), x * x)
    return (y**2).sum()


@case(V)
def a_call_that_writes_constants(x):
    y = np.array([3.0, 1.0, 2.0])
    z = x * y
    y.sort()
    return (z * y * x).sum()
