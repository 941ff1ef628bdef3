"""What is recorded for CUDA devices otherwise than for the processor: where PyTorch's own kernels are the faster ones, and loops.
tests/cuda/stand_in.c runs the kernels."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import dynoc  # noqa: E402
from test_cuda import check, device, kernels, library, places, pytestmark, randn  # noqa: E402, F401


@pytest.mark.parametrize(
    "columns, made, grad, ours",
    [(10, False, False, False), (10, True, False, True), (10, True, True, False), (2000, False, False, True)],
)
def test_losses_of_classes(device, columns, made, grad, ours):
    """Of short rows that stand in memory, and where gradients are followed, PyTorch's kernels are fewer than a formula's."""

    def loss(x, t):
        return F.cross_entropy(x * 2 if made else x, t)

    classes = places(20, below=columns).abs() % columns
    fast = dynoc.optimize(loss, wait=True)
    for seed in range(3):
        x = randn(20, columns, seed=seed).requires_grad_(grad)
        got, want = fast(x, classes), loss(x, classes)
        torch.testing.assert_close(got, want)
        if grad:
            torch.testing.assert_close(*(torch.autograd.grad(loss, x)[0] for loss in (got, want)))
    assert ("cross_entropy" not in str(fast.entries[0].graph)) == ours


@pytest.mark.parametrize(
    "shape, dim, made, ours",
    [
        ((6, 40), 1, False, False),
        ((6, 40), 1, True, True),
        ((6, 2000), -1, False, True),
        ((3, 6, 5, 4), 1, False, True),
    ],
)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_is_kernels_where_that_pays(device, name, shape, dim, made, ours):
    def f(x):
        return getattr(torch, name)(x * 2 if made else x, dim)

    for dtype in (torch.float32, torch.bfloat16):
        fast = dynoc.optimize(f, wait=True)
        for seed in range(3):
            x = randn(*shape, seed=seed).to(dtype)
            torch.testing.assert_close(fast(x), f(x))
        assert ("softmax" not in str(fast.entries[0].graph).split("\n", 1)[1]) == ours


def test_short_trips_of_known_number_are_one_graph(device):
    def short(x, c):
        z, n = c * 0, torch.zeros_like(x)
        for _ in range(30):
            z = z * 0.5 + x
            n = n + (z * z < c)
        return n

    def long(x, c):
        for _ in range(200):
            x = x * 0.5 + c
        return x

    for f, entries in ((short, 1), (long, 2)):
        assert len(check(f, randn(7, 9), randn(7, 9, seed=1)).entries) == entries


def test_a_quotient_by_a_number_is_a_product_by_its_reciprocal(device):
    """As PyTorch's kernels on devices have it, in single precision but for doubles."""
    for dtype, factor in ((torch.float32, torch.tensor(1.0) / torch.tensor(448.7)), (torch.float64, 1 / 448.7)):
        fast = dynoc.optimize(lambda x: x / 448.7 + 1, wait=True)
        x = randn(300).to(dtype)
        for _ in range(3):
            got = fast(x)
        assert torch.equal(got, x * factor + 1)


def test_an_exponential_is_computed_for_each_of_two_passes_over_columns(device):
    """What is written and read twice is as dear; of rows it is held in registers."""
    fast = check(lambda x: torch.softmax(x, 1), randn(3, 40, 6, 7))
    assert kernels(fast) == 3
