"""graph.py of the debug folder: it runs by itself, and its function gives what the recorded function gives."""

import subprocess
import sys

import numpy as np
import pytest
from compare import dynoc

RNG = np.random.default_rng(4)
F, G = RNG.random((9, 8)), RNG.random((8, 9)).astype(np.float32)
INTEGERS, TRUTH, Z = np.arange(10, dtype=np.int8), RNG.random(12) > 0.5, RNG.random(6) + 1j * RNG.random(6)


def stencil(u, dt):
    w = u.copy()
    w[1:-1, 1:-1] += dt * (u[2:, 1:-1] + u[:-2, 1:-1] - 4 * u[1:-1, 1:-1])
    return w[::-1, ::2], w[-2::-3] ** 2


def reductions(x, k):
    wide = x.mean(axis=0, dtype=np.float32), x.sum(axis=(0, 1), keepdims=True), x.max(), (x > 0.5).any(axis=1)
    return *wide, k.sum(), k.prod(dtype=np.int8), np.cumsum(k), k.argmax(), x.argmin(axis=1, keepdims=True), np.cumsum(x)


def halves(x):
    h = x.astype(np.float16)
    return h * 2, np.frexp(h)[1], np.modf(x)[0], np.ldexp(h, 2)


def views(x, y):
    wide = np.broadcast_to(x[None, 0], (3, x.shape[1])) + 1
    return x.T.reshape(-1), x.T @ y.T, np.diagonal(x), wide, y.T.view(np.int32), np.lib.stride_tricks.sliding_window_view(x, 3, 1)


def choices(x, t, k):
    return np.where(t, 1.5, -x[0, 0]), t & ~t[::-1], np.logical_or(k, 0), k // 3, k >> 1, x[k[:3]], np.take(x, k[1:4], axis=1)


def extremes(x, k):
    return np.min(x, initial=0.5), np.max(k, axis=0, initial=3, keepdims=True), np.max(-x, axis=1, initial=-1)


def calls(x):
    q, r = np.linalg.qr(x[:8])
    values, vectors = np.linalg.eigh(x[:8] @ x[:8].T)
    return q @ r, values, vectors[:, -1], np.sort(x, axis=1)[0], np.round(x, 1)[x.shape[1] // 2], np.nonzero(x[0] >= 0)[0] + 1


def making(x, n):
    z = np.zeros((n, 3), np.complex64)
    z[1] = 2 - 1j
    z.imag[0] = 3
    return z, np.arange(n) * 2, np.full_like(x, n), np.eye(n), np.full((n, n), 2.0, order="F")


def scattered(x, k):
    total = np.zeros(12)
    np.add.at(total, k, x[0, 0])
    total[k[:2]] = 7
    return total, np.histogram(x, bins=7, range=(0.0, 1.0))[0]


def complexes(z):
    return z.conj() * 2j, abs(z), z.real + z.imag, z.astype(np.complex64)


def methods(x, np=2, v1=3):
    return x * np + v1


CASES = [
    (stencil, F, 0.1),
    (reductions, F, INTEGERS),
    (halves, F),
    (views, F, G),
    (choices, F, TRUTH, INTEGERS[:12]),
    (extremes, F, INTEGERS.reshape(5, 2)),
    (calls, F),
    (making, F, 4),
    (scattered, F, INTEGERS),
    (complexes, Z),
    (methods, F),
    (methods, np.asfortranarray(F), 1.5, 1e300),
]


def graphs(tmp_path, fn, args):
    fast = dynoc.optimize(fn, wait=True, options={"debug": True, "debug_dir": str(tmp_path / "made")})
    fast(*args)
    paths = sorted((tmp_path / "made").rglob("graph.py"))
    assert len(paths) == len(fast.entries) == 1
    return paths[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_it_gives_what_the_function_gives(tmp_path, case):
    fn, *args = case
    path = graphs(tmp_path, fn, args)
    text = path.read_text()
    assert "stands for" not in text and f"The graph of {fn.__name__}" in text and "test_graph_python.py:" in text
    made = {"__name__": "graph"}
    exec(compile(text, str(path), "exec"), made)
    wanted = fn(*args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    arrays = [x for x in args if isinstance(x, np.ndarray)]
    found = made["graph"](*arrays)
    for one in wanted:
        assert any(np.asarray(one).dtype == np.asarray(other).dtype and np.allclose(one, other) for other in found
                   if np.shape(one) == np.shape(other)), (one, found)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_it_runs_by_itself(tmp_path, case):
    fn, *args = case
    path = graphs(tmp_path, fn, args)
    said = subprocess.run([sys.executable, path.name], cwd=path.parent, check=True, capture_output=True, text=True).stdout
    wanted = fn(*args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    shapes = [line.split(" ", 2)[2] for line in said.splitlines()]
    assert {str(np.shape(one)) for one in wanted} <= set(shapes)


def test_what_is_not_numpys_is_stood_for(tmp_path):
    """A call that can't be written: an array of the recorded shape, and a word of it."""
    rng = np.random.default_rng(1)
    path = graphs(tmp_path, lambda x: x + rng.standard_normal(len(x)), (np.ones(5),))
    assert "random((5,), \"f8\")  # stands for what random.Generator.standard_normal gives" in path.read_text()
    said = subprocess.run([sys.executable, path.name], cwd=path.parent, check=True, capture_output=True, text=True).stdout
    assert said.split(" ", 1)[1] == "float64 (5,)\n"
