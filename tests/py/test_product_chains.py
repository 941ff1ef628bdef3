"""Products and the kernels around them, a block of rows at a time: values, warnings and exceptions are NumPy's, and the bits are
the same for any number of threads and in the built-in tier."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter

DTYPES = [np.float32, np.float64]
ROWS = [0, 1, 2, 7, 47, 48, 49, 95, 96, 97, 191, 192, 193, 1000]


def numbers(*shape, dtype=np.float64, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * 0.3).astype(dtype)


def layer(x, w, b):
    return np.maximum(x @ w + b, 0.0)


def two_layers(x, w, b):
    return np.tanh(np.tanh(x @ w + b) @ w + b)


def before(x, w, b):
    return ((x - b) * 2.0) @ w + 1.0


def in_place(x, w, b):
    h = x @ w
    h += b
    np.maximum(h, 0, out=h)
    return h


def both(x, w, b):
    h = x @ w
    return h, np.exp(h) * b, h.sum(axis=1)


def columns(x, w, b):
    h = x @ w
    h[:, :2] *= 2.0
    return h + h[:, :1], h.max(axis=1) - h.min(axis=1)


def other_rows(x, w, b):
    h = x @ w
    return h + h[::-1], h - h.mean(axis=0)


def turned(x, w, b):
    return (x @ w.T).T * 2.0 + 1.0


def shared(x, w, b):
    h = (x + 1) @ w
    k = (x - 1) @ w
    return h * k + (h - k) @ w


def written_before(x, w, b):
    out = np.zeros((x.shape[0], w.shape[1]), x.dtype)
    out += 1
    out += x @ w
    return out * out


def results(value):
    return value if isinstance(value, tuple) else (value,)


def same(want, got, dtype):
    for x, y in zip(results(want), results(got), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        eps = np.finfo(dtype).eps * 100
        np.testing.assert_allclose(y, x, rtol=eps, atol=eps)


FUNCTIONS = [layer, two_layers, before, in_place, both, columns, other_rows, turned, shared, written_before]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("width", [5, 16, 33, 64, 100])
def test_values(function, width, dtype):
    fast = dynoc.optimize(function, wait=True)
    w, b = numbers(width, width, dtype=dtype, seed=1), numbers(width, dtype=dtype, seed=2)
    for rows in ROWS[3:] + ROWS[:3]:
        x = numbers(rows, width, dtype=dtype)
        if rows == 0 and function is not other_rows or rows > 0:
            same(function(x, w, b), fast(x, w, b), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shapes_and_strides(dtype):
    fast = dynoc.optimize(layer, wait=True)
    sizes = [(1, 40), (40, 1), (17, 3), (3, 17), (300, 48), (340, 33), (341, 33), (342, 33), (500, 33), (64, 1100), (10, 784)]
    for k, n in sizes:
        x, w, b = numbers(200, k, dtype=dtype), numbers(k, n, dtype=dtype, seed=1), numbers(n, dtype=dtype, seed=2)
        wide = np.zeros((400, k + 5), dtype)
        wide[::2, :k] = x
        for left in (x, x.copy("F"), wide[::2, :k], x[::-1], np.broadcast_to(x[0], x.shape)):
            for right in (w, w.copy("F"), np.repeat(w, 2, axis=1)[:, ::2]):
                for _ in range(2):
                    same(layer(left, right, b), fast(left, right, b), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_bits(function, dtype, monkeypatch):
    """The same for any number of threads."""
    x, w, b = numbers(3000, 64, dtype=dtype), numbers(64, 64, dtype=dtype, seed=1), numbers(64, dtype=dtype, seed=2)
    fast = dynoc.optimize(function, wait=True)
    fast(x, w, b)
    want = [a.tobytes() for a in results(fast(x, w, b))]
    for threads in (1, 2, 3):
        monkeypatch.setattr(dynoc.config, "threads", threads)
        assert [a.tobytes() for a in results(fast(x, w, b))] == want


def test_exact_is_numpys_own():
    fast = dynoc.optimize(before, wait=True, exact=True)
    x, w, b = numbers(1000, 64), numbers(64, 64, seed=1), numbers(64, seed=2)
    for _ in range(3):
        assert fast(x, w, b).tobytes() == before(x, w, b).tobytes()


def said(fn, *args):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        value = fn(*args)
    return value, [(str(w.message), w.lineno) for w in seen]


def log_of_product(x, w, b):
    h = np.exp(x) @ w
    return np.log(h + b)


@pytest.mark.parametrize("row", [0, 50, 999])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e200, 1e-200, 800.0])
def test_warnings(row, value):
    for function in (layer, in_place, before, log_of_product):
        fast = dynoc.optimize(function, wait=True)
        x, w, b = numbers(1000, 40), np.abs(numbers(40, 40, seed=1)), numbers(40, seed=2) + 1
        fast(x, w, b)
        for factor in (1.0, 0.0, value):
            x[row] = value
            y = w * factor
            (want, why), (got, got_why) = said(function, x, y, b), said(fast, x, y, b)
            np.testing.assert_allclose(got, want, rtol=1e-12)
            assert got_why == why


def test_errors_and_ignored_flags():
    fast = dynoc.optimize(log_of_product, wait=True)
    x, w, b = numbers(1000, 40), np.abs(numbers(40, 40, seed=1)), numbers(40, seed=2) + 1
    fast(x, w, b)
    x[500] = 1e4
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(fast(x, w, b), log_of_product(x, w, b), rtol=1e-12)
    with np.errstate(all="raise"):
        with pytest.raises(FloatingPointError) as want:
            log_of_product(x, w, b)
        with pytest.raises(FloatingPointError, match=str(want.value)):
            fast(x, w, b)
    with pytest.raises(ValueError):
        fast(x[:500, :39], w, b)


def test_input_is_written():
    """Not in a chain: what it held is still needed where eager makes the call again."""

    def add_to(x, w, out):
        out += x @ w
        return np.log(out)

    fast = dynoc.optimize(add_to, wait=True)
    x, w = numbers(700, 40), numbers(40, 40, seed=1)
    for value in (100.0, -100.0):
        a, b = np.full((700, 40), value), np.full((700, 40), value)
        (want, why), (got, got_why) = said(add_to, x, w, a), said(fast, x, w, b)
        np.testing.assert_allclose(got, want, rtol=1e-9)
        np.testing.assert_allclose(b, a, rtol=1e-12)
        assert got_why == why


def test_lookups():
    """Rows that an index names, and an index that names none."""

    def looked_up(x, w, table, i):
        return (x @ w + table[i]) * 2.0

    fast = dynoc.optimize(looked_up, wait=True)
    x, w, table = numbers(1000, 40), numbers(40, 30, seed=1), numbers(7, 30, seed=2)
    i = np.arange(1000) % 7
    for _ in range(3):
        np.testing.assert_allclose(fast(x, w, table, i), looked_up(x, w, table, i), rtol=1e-12, atol=1e-12)
    i[900] = 7
    with pytest.raises(IndexError):
        fast(x, w, table, i)


def steps_of(function, *args, folder):
    """What schedule.txt says of the steps that are in chains and of those that aren't: their kinds."""
    fast = dynoc.optimize(function, wait=True, options={"debug": True, "debug_dir": str(folder)})
    fast(*args)
    (text,) = [path.read_text() for path in folder.rglob("schedule.txt")]
    planned = text.split("# scheduled")[1]
    lines = [line.split("  #")[0] for line in planned.splitlines() if line.startswith(("kernel", "extern", "view"))]
    chained = [line.split()[0] for line in lines if " chain " in line]
    return chained, [line.split()[0] for line in lines if " chain " not in line]


@pytest.mark.parametrize(
    "function, chained, alone",
    [
        (layer, ["extern", "kernel"], []),
        (two_layers, ["extern", "kernel", "extern", "kernel"], []),
        (before, ["kernel", "extern", "kernel"], []),
        (in_place, ["extern", "kernel"], []),
        (written_before, ["kernel", "extern", "kernel"], []),
        (shared, ["kernel", "extern", "kernel", "extern", "kernel", "extern", "kernel"], []),
    ],
)
def test_what_is_in_a_chain(function, chained, alone, tmp_path):
    x, w, b = numbers(100, 40), numbers(40, 40, seed=1), numbers(40, seed=2)
    got, rest = steps_of(function, x, w, b, folder=tmp_path)
    assert [kind for kind in got if kind != "view"] == chained
    assert [kind for kind in rest if kind != "view"] == alone


def add_to(x, w, b):
    x += x @ w
    return x


def sorted_before(x, w, b):
    out = np.sort(x, axis=1)
    out += x @ w
    return out


@pytest.mark.parametrize("function", [other_rows, add_to, sorted_before])
def test_what_is_not(function, tmp_path):
    """Rows of the product that are read before they are made, and what held something before."""
    x, w, b = numbers(100, 40), numbers(40, 40, seed=1), numbers(40, seed=2)
    chained, _ = steps_of(function, x, w, b, folder=tmp_path)
    assert chained == []


PROGRAM = """
import json, sys
import numpy as np
import dynoc


def f(x, w, b):
    h = np.tanh(x @ w + b)
    return np.tanh(h @ w + b), (h @ w).max(axis=1)


fast = dynoc.optimize(f)
rng = np.random.default_rng(1)
found = []
for rows, width in ((97, 40), (1000, 64), (4000, 33)):
    x, w, b = rng.standard_normal((rows, width)), rng.standard_normal((width, width)), rng.standard_normal(width)
    fast(x, w, b)
    found.append([r.tobytes().hex() for r in fast(x, w, b)])
json.dump([fast.entries[0].tier, found], sys.stdout)
"""


def bits(**environment):
    done = subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_both_tiers_give_the_same_bits():
    tier, native = bits(DYNOC_WAIT="1")
    assert tier == "native"
    for threads in ("1", "3"):
        tier, builtin = bits(DYNOC_COMPILER="/nonexistent/cc", DYNOC_THREADS=threads)
        assert tier == "builtin" and builtin == native
