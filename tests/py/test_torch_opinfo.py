"""PyTorch's own operator samples: dynoc equals eager, for a slice of the operators. All of them: make test-torch-ops."""

import warnings

import pytest
from torch_cases import torch

pytest.importorskip("expecttest")  # PyTorch's samples need it

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch_ops

# Every ninth operator, and those whose rules decide most from sizes and layouts.
CHOSEN = set("view reshape squeeze expand split cat stack ravel t transpose repeat narrow clone addbmm".split())
SLICE = [op for number, op in enumerate(torch_ops.operators()) if number % 9 == 4 or op.name in CHOSEN]


@pytest.mark.parametrize("op", SLICE, ids=lambda op: op.formatted_name)
def test_equals_eager(op, monkeypatch):
    monkeypatch.setenv("DYNOC_COMPILER", "/nonexistent")  # the built-in tier: nothing is compiled
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        if dtype in op.supported_dtypes("cpu"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                n, wrong = torch_ops.check(op, dtype, 1)
            assert not wrong, wrong


@pytest.mark.parametrize("op", SLICE[::3], ids=lambda op: op.formatted_name)
def test_gradients_equal_eagers(op, monkeypatch):
    """Also those of gradients."""
    monkeypatch.setenv("DYNOC_COMPILER", "/nonexistent")
    if torch.float64 in op.supported_backward_dtypes("cpu"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            n, wrong = torch_ops.check_gradients(op, torch.float64, 3)
        assert not wrong, wrong
