"""Loops of generated code become vectors: what gcc says of choices, which it once refused: those that follow one another, and
those of what a function gives, whose call it made only where it was chosen."""

import shutil
import subprocess

import numpy as np
import pytest

import dynoc
from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

LEVELS = [flags for name, flags in _dynoc._builtin_source()[1] if name != "x86-64"]  # the flags that kernels are compiled with


def clipped(x, low, high):
    y = np.clip(x * 1.5 + 0.25, low, high)
    return np.clip(y * 2.0 - x, low, high)


def bounded(x, low, high):
    y = np.minimum(np.maximum(x * 2, low), high)
    return np.minimum(np.maximum(y * y - x, low), high)


def bounded_otherwise(x, low, high):
    return np.fmin(np.fmax(x, low), high)


def chosen(x, low, high):
    return np.where(x > high, high, np.where(x < low, low, x))


def chosen_by_two(x, low, high):
    return np.where((x > low) & (x < high), x, np.where(x > 0, high, low))


def selected(x, low, high):
    return np.select([x < low, x < high], [x, x * x], 0)


def without_nan(x, low, high):
    return np.where(np.isnan(x), 0, x) + np.sign(x) * np.where(x < 0, -x, x)


def function_in_one_arm(x, low, high):
    return np.where(x > 0, x, np.expm1(x)) * np.where(x > low, np.log1p(np.abs(x)), high)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc tells what it made vectors of")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "fn",
    [clipped, bounded, bounded_otherwise, chosen, chosen_by_two, selected, without_nan, function_in_one_arm],
    ids=lambda f: f.__name__,
)
def test_choices_become_vectors(fn, dtype, tmp_path):
    fast = dynoc.optimize(fn, wait=True)
    fast(np.linspace(-3, 3, 100).astype(dtype), -1.0, 1.0)
    source = fast.source()
    for flags in LEVELS:
        # copies are vectors too, were they not made calls of memcpy
        options = ["-fopt-info-vec", "-fno-tree-loop-distribute-patterns"]
        command = ["gcc", *flags.split(), *options, "-x", "c", "-", "-o", str(tmp_path / "kernels.so")]
        said = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stderr
        assert said.count("loop vectorized") >= source.count("#pragma omp simd") > 0, flags
