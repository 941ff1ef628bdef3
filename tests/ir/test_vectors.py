"""Loops of generated code become vectors: what gcc says of choices that follow one another, which it once refused."""

import shutil
import subprocess

import numpy as np
import pytest

import dynoc

FLAGS = "-std=gnu11 -O3 -w -fPIC -fopenmp-simd -ffp-contract=off -fno-math-errno -fno-trapping-math -fwrapv"


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


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc tells what it made vectors of")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "fn", [clipped, bounded, bounded_otherwise, chosen, chosen_by_two, selected, without_nan], ids=lambda f: f.__name__
)
def test_choices_become_vectors(fn, dtype, tmp_path):
    fast = dynoc.optimize(fn, wait=True)
    fast(np.linspace(-3, 3, 100).astype(dtype), -1.0, 1.0)
    source = fast.source()
    for isa in ("-mavx2 -mfma", "-mavx512f -mavx512bw -mavx512dq -mavx512vl"):
        command = ["gcc", *FLAGS.split(), *isa.split(), "-fopt-info-vec", "-c", "-x", "c", "-", "-o", str(tmp_path / "kernels.o")]
        said = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stderr
        assert said.count("loop vectorized") >= source.count("#pragma omp simd") > 0, isa
