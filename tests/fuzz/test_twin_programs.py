"""Random programs of twin_programs.py."""

import numpy as np
import pytest
from twin_programs import differs, source

import dynoc

pytestmark = pytest.mark.any_interpreter


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_programs(first, monkeypatch):
    monkeypatch.setattr(dynoc.config, "compiler", "/nonexistent/cc")
    with np.errstate(all="ignore"):
        for seed in range(first, first + 20):
            assert differs(seed, dynoc.optimize) is None, source(seed)
