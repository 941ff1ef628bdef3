"""Programs of windows: values cut to common sizes by slices, turned, written into, reduced; against eager with its warnings.

    FUZZ_SEED=7 FUZZ_PROGRAMS=2000 python -m pytest tests/fuzz/test_stencils.py
"""

import os
import random
import warnings

import numpy as np
import pytest

import dynoc

pytestmark = pytest.mark.any_interpreter

SEED = int(os.environ.get("FUZZ_SEED", "0"))
PROGRAMS = int(os.environ.get("FUZZ_PROGRAMS", "40"))
SHAPES = [(9, 11), (7, 7), (24, 18), (40, 70), (5, 9)]


class Writer:
    """Text of one function. A value is a name, and how much of each axis of the input it lacks."""

    def __init__(self, r):
        self.r = r
        self.lines = []
        self.values = [("u", (0, 0)), ("w", (0, 0))]
        self.count = 0

    def new(self, text, lacks):
        self.count += 1
        self.lines.append(f"    v{self.count} = {text}")
        self.values.append((f"v{self.count}", lacks))

    def cut(self, value, lacks):
        """Text of a window of the value that lacks so much."""
        name, have = value
        parts = []
        for has, wants in zip(have, lacks, strict=True):
            first = self.r.randint(0, wants - has)
            last = wants - has - first
            parts.append(f"{first or ''}:{-last if last else ''}")
        return name if parts == [":", ":"] and self.r.random() < 0.9 else f"{name}[{', '.join(parts)}]"

    def step(self):
        r = self.r
        a, b, c = (r.choice(self.values[-4:] + self.values[:2]) for _ in range(3))
        lacks = tuple(min(4, max(x) + r.choice((0, 0, 1, 1, 2))) for x in zip(a[1], b[1], c[1], strict=True))
        lacks = tuple(max(low, *have) for low, have in zip(lacks, zip(a[1], b[1], c[1]), strict=True))
        x, y, z = (self.cut(v, lacks) for v in (a, b, c))
        kind = r.random()
        if kind < 0.55:
            self.new(f"{x} {r.choice('+-*')} {y}", lacks)
        elif kind < 0.65:
            self.new(f"np.where({x} > {y}, {z}, {r.choice((0.0, 0.5))})", lacks)
        elif kind < 0.75:
            self.new(f"np.{r.choice(('maximum', 'minimum'))}({x}, {y})", lacks)
        elif kind < 0.8:
            self.new(f"{x} / {y}", lacks)
        elif kind < 0.85:
            self.new(f"np.sqrt(np.abs({x}))", lacks)
        elif kind < 0.9:
            self.new(f"({x}.T * {y}.T).T", lacks)
        elif kind < 0.95:
            self.new(f"{x} - {y}.mean(axis={r.choice((0, 1))}, keepdims=True)", lacks)
        else:
            self.new(f"{x}.copy()", lacks)
            self.lines.append(f"    v{self.count}[{r.choice(('1:-1', '1:', ':, 1:', '::2'))}] {r.choice(('=', '+=', '*='))} 2.0")

    def text(self):
        for _ in range(self.r.randint(3, 9)):
            self.step()
        given = [self.values[-1][0]]
        if self.r.random() < 0.3:
            given.append(self.r.choice(self.values[2:])[0])
        if self.r.random() < 0.3:
            given.append(f"{self.values[-1][0]}.sum(axis={self.r.choice((None, 0, 1))})")
        return "def f(u, w):\n" + "\n".join(self.lines) + f"\n    return {', '.join(given)}\n"


def outcome(fn, u, w):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            value = fn(u, w)
        except (ValueError, IndexError) as e:
            return repr(e), []
    return value if isinstance(value, tuple) else (value,), sorted({str(m.message) for m in said})


def same(got, want):
    if isinstance(want, str) or isinstance(got, str):
        return got == want
    # sums may be added in another order, and what is near zero is then a difference of large numbers
    return all(
        a.dtype == b.dtype and a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True)
        for a, b in zip(got, want, strict=True)
    )


@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_program(seed):
    text = Writer(random.Random(seed)).text()
    space = {"np": np}
    exec(text, space)
    dynoc.reset()
    fast = dynoc.optimize(space["f"], wait=seed % 4 == 0)
    rng = np.random.default_rng(seed)
    adds = "sum(" in text or "mean(" in text  # in another order, which is another number beside 1e300
    for shape in SHAPES:
        for bad in (None, np.inf) if adds else (None, np.inf, 1e300):
            u, w = rng.standard_normal(shape), rng.standard_normal(shape[::-1]).T
            if bad is not None:
                u[rng.integers(shape[0]), rng.integers(shape[1])] = bad
            want, said = outcome(space["f"], u.copy(), w.copy("K"))
            got, got_said = outcome(fast, u, w)
            assert same(got, want), f"seed {seed}, {shape}, {bad}\n{text}"
            assert got_said == said, f"seed {seed}, {shape}, {bad}\n{text}"
