"""Random programs that index arrays (index_programs.py), eager and under dynoc. SOAK=1: a few thousand."""

import os

import index_programs
import pytest

pytestmark = pytest.mark.any_interpreter

COUNT = 4000 if os.environ.get("SOAK") == "1" else 200


@pytest.mark.parametrize("first", range(0, COUNT, 20))
def test_programs_do_what_eager_does(first):
    for seed in range(first, first + 20):
        assert index_programs.run_seed(seed) is None


def test_programs_natively():
    for seed in range(10_000, 10_004):
        assert index_programs.run_seed(seed, wait=True) is None
