"""Graphs that are left in the middle: what the rest of the function sees is what eager sees there, for every operator and form.

Each function computes a value that nothing in its graph needs, asks whether an array has something true, and raises with the
value where it has. Recording sees that it hasn't; calls for which it has leave the graph: the value is made for the frame.
"""

import contextlib
import io

import numpy as np
import pytest
import test_numpy_samples as samples
from case import Call
from compare import check, dynoc, frames_of
from logs import counted

FILE = "<left>"


class Left(Exception):
    pass


def leaving(parameters, statements):
    """A function of the parameters and of `left`, and the same as it is called: what it raises with is its result."""
    body = "\n    ".join([*statements, "if left.any():", "    raise Left(r)", "return None"])
    space = {"np": np, "Left": Left}
    exec(compile(f"def sample({parameters}, left):\n    {body}\n", FILE, "exec"), space)
    return space["sample"]


def caught(fn):
    def call(*args, **kwargs):
        try:
            return fn(*args, **kwargs)
        except Left as error:
            return error.args, frames_of(error, FILE)

    return call


def leave_with(fn, makers, tol="near"):
    """With each kind of arguments the graph runs through, then it is left. How often it was."""
    fast = dynoc.optimize(fn, wait=True)
    before = counted("LEFT")
    for left in (False, True):
        for kind, maker in makers.items():

            def make(maker=maker, left=left):
                call = maker()
                return Call(*call.args, **call.kwargs, left=np.array([False, left]))

            with contextlib.redirect_stdout(io.StringIO()):
                check(caught(fn), caught(fast), make, tol, what=f"{kind}, left: {left}")
    return counted("LEFT") - before


# ---- every public name of NumPy


@pytest.fixture
def built_in(monkeypatch):
    monkeypatch.setenv("DYNOC_COMPILER", "/nonexistent")  # nothing is compiled


@pytest.fixture
def folder(tmp_path):
    samples.coverage.prepare(str(tmp_path))
    return str(tmp_path)


@pytest.mark.parametrize("sample", list(samples.rows()))
def test_every_name_of_numpy(sample, folder, built_in):
    statements = (sample if "r = " in sample else f"r = {sample}").split("; ", 1)
    fn = leaving(", ".join(samples.coverage.ARGUMENTS.split()), statements)
    leave_with(fn, {kind: lambda kind=kind: samples.make(folder, kind) for kind in samples.KINDS})


# ---- forms: every keyword of the functions that have rules; a line is a form, or several by semicolons

REDUCED = """
a.{0}(); a.{0}(axis=0); a.{0}(axis=-1, keepdims=True); a.{0}(axis=(0, 1)); np.{0}(a, keepdims=True); np.{0}(h, axis=0)
"""
SUMS = """
np.{0}(a, initial=2); np.{0}(a, axis=1, initial=2.5); np.{0}(a, where=b); np.{0}(a, axis=0, where=b, initial=3); np.{0}(u)
np.{0}(a, dtype=np.float32); np.{0}(i, dtype=np.int8); np.{0}(a, axis=0, out=o); np.{0}(b); np.{0}(c, axis=1)
"""
EXTREMES = """
np.{0}(a, initial=0.5); np.{0}(a, axis=0, initial=-np.inf); np.{0}(a, axis=1, initial=np.inf, keepdims=True)
np.{0}(u, initial=3)
np.{0}(i, initial=3); np.{0}(i, axis=1, initial=-3); np.{0}(u, axis=0, initial=3); np.{0}(c, initial=1j); np.{0}(h, initial=1)
np.{0}(a, where=b, initial=1); np.{0}(a, axis=0, where=b, initial=1.0); np.{0}(a, axis=0, out=o); np.{0}(b)
np.{0}(b, initial=False)
np.{0}(a, axis=(0, 1), initial=9, keepdims=True); np.{0}(a.T, axis=0, initial=7.0); a[a > 0].{0}(initial=2); a[a > 0].{0}()
min(a[0, 0], np.{0}(v, initial=np.inf)); np.{0}(v, initial=np.float64(-1)); np.{0}(np.exp(a), initial=0)
a.{0}(1, initial=i[0, 0])
"""
VARIANCES = """
np.{0}(a, ddof=1); np.{0}(a, axis=0, ddof=2, keepdims=True); np.{0}(a, where=b); np.{0}(a, axis=1, where=b, ddof=1)
np.{0}(a, dtype=np.float32); np.{0}(i, axis=0); np.{0}(a, axis=0, out=o); np.{0}(a, axis=0, mean=a.mean(0, keepdims=True))
np.{0}(a, correction=1); np.{0}(c); np.{0}(h, axis=1)
"""
MEANS = """
np.{0}(a, where=b); np.{0}(a, axis=0, where=b); np.{0}(a, dtype=np.float32); np.{0}(i); np.{0}(a, axis=0, out=o); np.{0}(c)
"""
POSITIONS = "np.{0}(a, axis=1, keepdims=True); np.{0}(a); np.{0}(i, axis=0, keepdims=True); a.{0}(axis=0, out=p)"
RUNNING = """
np.{0}(a); np.{0}(a, axis=0); np.{0}(a, 1, dtype=np.float32); np.{0}(i, axis=1); np.{0}(u, axis=0); np.{0}(a, axis=0, out=w)
"""
UFUNCS = """
np.{0}(a, a, out=w); np.{0}(a, 2.5, where=b, out=w); np.{0}(a, i); np.{0}(a, a[:, :1]); np.{0}(a, a, dtype=np.float32)
np.{0}(u, u)
np.{0}(i, 3, casting="unsafe"); np.{0}.reduce(a, axis=1, initial=2); np.{0}.reduce(a, axis=0, keepdims=True); np.{0}(h, h)
np.{0}.accumulate(a, axis=0); np.{0}.outer(a[:, 0], a[0]); np.{0}.reduce(a, axis=1, where=b, initial=1)
np.{0}.reduce(a, axis=1, dtype=np.float32); np.{0}.reduce(v)
"""
OTHERS = """
np.average(a, weights=abs(a) + 1); np.average(a, axis=0, weights=abs(a) + 1, returned=True)
np.average(a, 1, weights=[1, 2, 3, 4])
np.ptp(a, axis=0, keepdims=True); np.count_nonzero(a, axis=1, keepdims=True); np.count_nonzero(a > 0)
np.any(a, 0, keepdims=True)
np.cumulative_sum(a, axis=0, include_initial=True); np.all(a, axis=1, where=b); np.any(a, axis=0, out=p)
np.clip(a, 0, None); np.clip(a, min=-0.5); np.clip(a, -1, 1, out=w); a.clip(max=0); np.clip(i, 1, 3); np.clip(a, i, 5)
np.round(a, 2); np.round(a, decimals=-1); np.round(a, out=w); a.round(1); np.around(i, -1)
np.where(b, a, 0); np.where(b, i, a); np.where(a > 0)
np.take(a, [2, 0], axis=1); np.take(a, [[1, 2]], mode="wrap"); np.take(a, 5, axis=1, mode="clip"); np.take(a, v.astype(int))
a[:, ::-1]; a[..., None]; a[:, [0, 2]]; a[b]; a[:0]; a[:, 1:3].T; a[:, -1]; a[None, :, 1]
np.sort(a, axis=0, kind="stable"); np.argsort(-a, axis=1, kind="stable"); np.sort(a, axis=None); np.partition(a, 1)
np.linspace(0, 1, 5, endpoint=False); np.linspace(0, 1, 5, retstep=True); np.linspace([0, 1], 3, 4, axis=1)
np.arange(1, 9, 2, dtype=np.float32); np.full((2, 3), 7.5, dtype=np.int16); np.full_like(a, 3, dtype=np.int8); np.arange(len(a))
np.zeros_like(a, order="F"); np.ones_like(a, shape=(2, 2)); np.array(a, dtype=np.float32, ndmin=3); np.eye(len(a), k=1)
np.array(a, copy=True, order="F"); a.astype(np.int8, casting="unsafe"); a.astype(np.float64, copy=False); a.astype(np.float32)
np.concatenate((a, i), axis=1); np.concatenate((a, a), axis=None); np.stack((a, a), axis=-1); np.append(a, a, axis=0)
np.concatenate((a, a), dtype=np.float32); np.hstack((a, b)); np.block([[a, a], [a, a]])
np.column_stack((a, v[:1].repeat(len(a))))
np.repeat(a, 2, axis=1); np.tile(a, (2, 2)); np.roll(a, 1, axis=0); np.roll(a, (1, 2), (0, 1)); a.repeat(3)
np.pad(a, 1); np.pad(a, ((0, 1), (2, 0)), constant_values=3); np.pad(a, 1, mode="edge"); np.pad(a, 2, mode="reflect")
np.insert(a, 1, 5.0, axis=1); np.delete(a, 0, axis=1); np.diff(a, n=2, axis=1); np.diff(a, prepend=0); np.ediff1d(v, to_end=1)
np.histogram(a, bins=4, range=(-2, 2)); np.histogram(a, bins=3, range=(0, 1), density=True)
np.bincount(i.ravel() + 9, minlength=20)
np.histogram(a, bins=4, range=(-2, 2), weights=abs(a)); np.searchsorted(a[:, 0], 0.5, side="right")
np.digitize(a, [0, 1], right=True)
np.trace(a, offset=1); np.diagonal(a, offset=-1); np.tril(a, k=1); np.eye(3, 4, k=1); np.rot90(a, k=3); np.triu(a, -1)
np.einsum("ij,ij->i", a, a); np.einsum("ij,kj->ik", a, a); a @ a.T; a.T.dot(a); np.dot(a, a.T, out=None); np.inner(a, a)
np.reshape(a, (4, -1), order="F"); np.ravel(a, order="F"); a.flatten("F"); np.squeeze(a[:, :1], axis=1); np.swapaxes(a, 0, 1)
np.linalg.norm(a, axis=1); np.linalg.norm(a, ord=1, axis=0, keepdims=True); np.linalg.norm(a); np.linalg.norm(a, 2)
np.median(a, axis=0, keepdims=True); np.quantile(a, [0.2, 0.5], axis=1); np.percentile(a, 30)
np.quantile(a, 0.5, method="lower")
np.nansum(a, axis=0, initial=2); np.nanmax(a, axis=1, initial=3, where=b); np.nanmean(a, axis=0, keepdims=True)
np.nan_to_num(a, nan=5, posinf=6); np.interp(a[:, 0], [0, 1], [2, 3], left=-1); np.unique(i, return_counts=True)
np.cov(a, ddof=0); np.cross(a[:, :3], a[:, 1:]); np.gradient(a, 0.5, axis=1); np.trapezoid(a, dx=0.1, axis=0)
np.logical_and(a, i); np.divmod(i, 3); np.modf(a); np.frexp(a); np.heaviside(a, 0.5); np.ldexp(a, 2); np.isclose(a, a, rtol=0.1)
np.maximum(h, 1); np.exp(h); np.sqrt(c); np.abs(c); c.real * 2; c.imag; np.angle(c, deg=True); c.conj(); np.isnan(a)
np.add(a, i, dtype=np.float32, casting="same_kind"); np.exp(a, where=b, out=w); np.hypot(a, a, out=w); np.power(u, 2)
np.add.reduce(a, axis=None, initial=4.0); np.fmax.reduce(a, axis=None, initial=-np.inf); np.multiply.reduce(i, axis=(0, 1))
v.max() if len(v) else None; float(a.sum()); [len(a), a.shape, a.size, a.ndim, a.dtype]; {"k": a + 1, "l": (a * 2, a.T)}
1 / a; a ** -1.0; np.log(a); i // 2; i % -3; i << 2; np.sqrt(a); a / a.sum(); a ** 0.5; a ** 3; a // 0.3; a % 0.7; -u
(a - a.mean(0)) / a.std(0); np.exp(a - a.max(1, keepdims=True)); a[0, 0] / a[0, 1]; (a * 2).tolist(); i / i; a[0, 0] * 2
"""
FORMS = {
    "sum prod": REDUCED + ";" + SUMS,
    "max min": REDUCED + ";" + EXTREMES,
    "var std": REDUCED + ";" + VARIANCES,
    "mean": REDUCED + ";" + MEANS,
    "argmax argmin": POSITIONS,
    "cumsum cumprod": RUNNING,
    "add subtract multiply divide maximum minimum fmax power arctan2 hypot": UFUNCS,
    "": OTHERS,
}


def forms():
    for names, text in FORMS.items():
        for name in names.split() or [""]:
            for form in text.replace("\n", ";").split(";"):
                if form.strip():
                    yield (form.format(name) if name else form).strip()


def arguments(rows, special=()):
    """a float64, b bool, c complex128, h float16, i int64, u uint8 of (rows, 4); v (rows,); o p w to write into."""
    rng = np.random.default_rng(rows)
    a = rng.normal(size=(rows, 4))
    a.flat[: len(special)] = special
    i = rng.integers(-4, 5, (rows, 4))
    u = rng.integers(0, 9, (rows, 4)).astype(np.uint8)
    return Call(a=a, b=i > 0, c=a + 1j * i, h=a.astype(np.float16), i=i, u=u, v=a[:, 0].copy(), o=np.zeros(4), p=np.zeros(4, int),
                w=np.zeros((rows, 4)))  # fmt: skip


ROWS = {
    "six rows": lambda: arguments(6),
    "zeros": lambda: arguments(6, (0.0, -0.0, 0.0, 5.0, 0.5, 700.0)),
    "infinite": lambda: arguments(6, (np.inf, 1.0, np.nan)),
    "three rows": lambda: arguments(3),
    "no rows": lambda: arguments(0),
    "one row": lambda: arguments(1),
}


@pytest.mark.parametrize("form", list(forms()))
def test_every_form(form, built_in):
    left = leave_with(leaving("a, b, c, h, i, u, v, o, p, w", [f"r = {form}"]), ROWS)
    assert left > 0


# ---- what is due where a value is made


def where_divided(x, left):
    y = np.where(x != 0, 1 / x, 0)  # divides by zero all the same
    if left.any():
        raise Left(y)
    return x


def written_before(x, left):
    y = x + 1
    x *= 2
    z = x - y
    x += 1
    if left.any():
        raise Left((x, y, z))
    return x


def in_a_call(x, left):
    return smallest(x, left) * 2


def smallest(x, left):
    low = np.min(x, initial=5.0)
    high = np.max(x * 2, initial=-1)
    if left.any():
        raise Left((low, high))
    return x


X = {
    "ordinary": lambda: (np.array([1.0, 2.0, 4.0]),),
    "zero": lambda: (np.array([1.0, 0.0, 4.0, -2.0]),),
    "empty": lambda: (np.zeros(0),),
    "nan": lambda: (np.array([np.nan, np.inf, -np.inf]),),
}


@pytest.mark.parametrize("state", ["warn", "raise", "ignore"])
@pytest.mark.parametrize("fn", [where_divided, written_before, in_a_call], ids=lambda fn: fn.__name__)
def test_warnings_and_errors(fn, state):
    fast = dynoc.optimize(fn, wait=True)
    for left in (False, True, False, True):
        for kind, maker in X.items():
            with np.errstate(all=state):
                check(fn, fast, lambda: (*maker(), np.array([left])), what=f"{kind}, left: {left}")


def path_extents(points, values):
    points[0] = min(points[0], np.min(values, initial=np.inf))
    points[1] = max(points[1], np.max(values, initial=-np.inf))
    return points


@pytest.mark.parametrize("backend", ["dynoc", "eager"])
def test_extremes_of_nothing(backend):
    """As matplotlib's Bbox.update_from_path has it: the smaller of two, of which the first is taken from then on."""
    fast = dynoc.optimize(path_extents, wait=True, backend=backend)
    for values in (np.arange(5.0), np.arange(7.0) - 3, np.zeros(0), np.arange(3.0) - 9, np.zeros(0), np.array([np.nan])):
        check(path_extents, fast, lambda: (np.array([0.0, 1.0]), values))


def test_what_a_graph_shows_of_extremes_of_nothing():
    """The nodes that other back ends get have the identity too."""

    def f(a, i):
        return np.min(a, initial=3.0), np.max(i, axis=0, initial=2), np.min(a + 1j, initial=2j)

    gm = dynoc.trace(f)(np.arange(5.0), np.arange(8).reshape(4, 2))
    for n in (5, 0):
        a, i = np.arange(float(n)), np.arange(2 * n).reshape(n, 2)
        for got, want in zip(gm(a, i), f(a, i), strict=True):
            np.testing.assert_array_equal(got, want)
