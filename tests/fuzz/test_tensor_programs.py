"""Random programs over tensors (tensor_programs.py), eager and under dynoc. SOAK=1: a thousand."""

import os

import pytest

torch = pytest.importorskip("torch")

import tensor_programs  # noqa: E402

COUNT = 1000 if os.environ.get("SOAK") == "1" else 60


@pytest.mark.parametrize("first", range(0, COUNT, 10))
def test_programs_do_what_eager_does(first):
    for seed in range(first, first + 10):
        assert tensor_programs.run(seed) is None


def test_programs_natively():
    for seed in range(10_000, 10_004):
        assert tensor_programs.run(seed, wait=True) is None
