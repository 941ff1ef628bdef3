"""What dynoc.allow_in_graph marks, with tensors: it runs as gradients are recorded without dynoc."""

import dynoc
import pytest
from torch_cases import same, torch

nn = torch.nn


def test_gradients_are_recorded_inside():
    seen = []

    @dynoc.allow_in_graph
    def cubed(x):
        seen.append(torch.is_grad_enabled())
        y = x.detach().requires_grad_()
        return torch.autograd.grad((y**3).sum(), y)[0]

    fast = dynoc.optimize(lambda x: torch.sin(cubed(x + 1)) * 2, wait=True, fullgraph=True)
    for n in (2, 2, 5):
        same(fast(torch.ones(n)), torch.sin(torch.full((n,), 12.0)) * 2)
    assert seen == [True] * 3 and torch.is_grad_enabled() and len(fast.entries) == 1
    with torch.no_grad(), pytest.raises(RuntimeError, match="does not require grad"):
        fast(torch.ones(2))
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("scripted", [False, True])
def test_a_module_whose_parameters_begin_to_want_gradients(scripted):
    linear = nn.Linear(3, 3).requires_grad_(False)
    linear = torch.jit.script(linear) if scripted else dynoc.allow_in_graph(linear)
    fast, x = dynoc.optimize(lambda x: linear(x + 1) * 2, wait=True), torch.ones(2, 3)
    for wants in (False, False, True, True, False, True):
        for p in linear.parameters():
            p.requires_grad_(wants)
        y = fast(x)
        same(y.detach(), (linear(x + 1) * 2).detach())
        assert y.requires_grad == wants
        if wants:
            linear.zero_grad()
            y.sum().backward()
            assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in linear.parameters())


def test_positive_is_the_tensor_itself():
    def fn(x):
        y, z = +x, torch.positive(x * 2)
        y.add_(10)
        return x, y is x, z.positive() is z, z

    fast = dynoc.optimize(fn, wait=True)
    for n in (2, 2, 3):
        same(fast(torch.zeros(n)), fn(torch.zeros(n)))


def test_reductions_compute_in_the_dtype_of_out():
    def fn(x):
        total, mean, running = torch.empty((), dtype=torch.float32), torch.empty(()), torch.empty(x.shape[0])
        torch.sum(x, 0, out=total)
        torch.mean(x, 0, dtype=torch.float32, out=mean)
        torch.cumsum(x, 0, out=running)
        return total, mean, running, torch.add(x, 1, out=torch.empty(x.shape[0]))

    fast = dynoc.optimize(fn, wait=True)
    for n in (300, 300, 100):
        same(fast(torch.full((n,), 1000.0, dtype=torch.float16)), fn(torch.full((n,), 1000.0, dtype=torch.float16)))
