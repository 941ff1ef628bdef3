"""Graphs of tensors that are left in the middle: the value that the rest of the function needs is what eager has there, for a
sample of each of PyTorch's operators."""

import warnings

import pytest
from logs import counted
from torch_cases import torch

import dynoc

pytest.importorskip("expecttest")  # PyTorch's samples need it

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch_ops

EVERY = 9  # operators, of which one is taken
DTYPES = (torch.float32, torch.int64)


class Left(Exception):
    pass


def leave(op, dtype):
    """What differs in the form that is a function, and in place: recorded, run through, and left."""
    found, left_graphs = [], 0
    for sample in torch_ops.samples(op, dtype, 2):
        arguments = (sample.input, sample.args, sample.kwargs)
        for form, fn in torch_ops.variants(op):

            def call(input, args, kwargs, left, fn=fn):
                r = fn(input, *args, **kwargs)
                if left.any():
                    raise Left(r)
                return None

            def caught(of, input, args, kwargs, left):
                try:
                    return of(input, args, kwargs, left)
                except Left as error:
                    return error.args

            fast = dynoc.optimize(call, wait=True)
            before = counted("LEFT")
            for left in (False, False, True):
                given = (*arguments, torch.tensor([False, left]))
                got, want = (torch_ops.outcome(caught, (of, *given)) for of in (fast, call))
                difference = torch_ops.differs(got[0], want[0])
                if difference is None and not isinstance(want[0], Exception):
                    difference = torch_ops.differs(got[1][1:], want[1][1:], "arguments")
                if difference is not None:
                    found.append(f"{form}, left: {left}: {difference}")
            left_graphs += counted("LEFT") - before
            dynoc.reset()
    return found, left_graphs


@pytest.mark.parametrize("op", torch_ops.operators()[1::EVERY], ids=lambda op: op.formatted_name)
def test_equals_eager(op, monkeypatch):
    monkeypatch.setenv("DYNOC_COMPILER", "/nonexistent")  # the built-in tier: nothing is compiled
    for dtype in DTYPES:
        if dtype in op.supported_dtypes("cpu"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found, _ = leave(op, dtype)
            assert not found, found


def test_graphs_are_left(monkeypatch):
    monkeypatch.setenv("DYNOC_COMPILER", "/nonexistent")
    op = next(op for op in torch_ops.operators() if op.name == "logaddexp")
    found, left = leave(op, torch.float64)
    assert not found and left == 4  # two samples, function and method


def test_an_empty_view_behind_a_graph_that_was_left():
    def fn(x):
        bits = x.int().view(torch.uint8)
        return bits, x * float(x.double().mean()), x[..., ::2]

    fast = dynoc.optimize(fn, wait=True)
    for n in (3, 3, 0, 2, 0):
        x = torch.ones(n, 4, dtype=torch.int64)
        for got, want in zip(fast(x), fn(x), strict=True):
            assert got.dtype == want.dtype and got.shape == want.shape
            assert n == 0 or got.stride() == want.stride()


def test_a_view_behind_a_graph_that_was_left():
    """The view is the graph's, the branch is on a size that is only known behind a call."""

    def fn(x, n):
        first, parts, turned = x[n % x.shape[0]], x[x > 0], x[1:].view(-1, 1)
        if parts.shape[0] > 2:
            parts = parts * first
        return first, parts, turned, x.detach()[:1]

    fast = dynoc.optimize(fn, wait=True)
    for n, positive in ((4, 2), (4, 1), (6, 4), (5, 3), (3, 0)):
        x = torch.where(torch.arange(n) < positive, 1.5, -2.0)
        for got, want in zip(fast(x, 2), fn(x, 2), strict=True):
            assert torch.equal(got, want) and got.stride() == want.stride()
            assert got.storage_offset() == want.storage_offset()
            shares = want.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            assert (got.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == shares
