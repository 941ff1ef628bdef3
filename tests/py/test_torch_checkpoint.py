"""torch.utils.checkpoint inside a captured function: without gradients the function alone, with them PyTorch's own."""

import dynoc
import pytest
from torch_cases import check, same, torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

nn = torch.nn


class Model(nn.Module):
    def __init__(self, **options):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)])
        self.options = options

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x * 2, **self.options) + 1
        return x


def inputs():
    return [torch.randn(n, 4) for n in (2, 5, 3)]


def test_without_gradients_it_is_one_graph():
    model = Model(use_reentrant=False, preserve_rng_state=False)
    fast = dynoc.optimize(model, wait=True, fullgraph=True)
    with torch.no_grad():
        for x in inputs() * 2:
            same(fast(x), model(x))
        check(lambda x: checkpoint(lambda a, b: a * b + 1, x, x + 1, use_reentrant=False) - 1, *[(x,) for x in inputs()])
        check(lambda x: checkpoint(lambda a, k: a * k, x, k=3, use_reentrant=False) - 1, *[(x,) for x in inputs()])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{"use_reentrant": True}, {}, {"use_reentrant": False, "debug": True}], ids=repr)
def test_other_forms_are_right(options):
    model = Model(**options)
    fast = dynoc.optimize(model, wait=True)
    with torch.no_grad():
        for x in inputs() * 2:
            same(fast(x), model(x))


def test_with_gradients_it_is_pytorchs():
    model, runs = Model(use_reentrant=False), []
    model.layers[1].register_forward_pre_hook(lambda *_: runs.append(1))
    fast = dynoc.optimize(model, wait=True)
    with torch.no_grad():
        fast(inputs()[0])
    for x in inputs():
        grads = []
        for call in (fast, model):
            model.zero_grad()
            runs.clear()
            call(x).sum().backward()
            assert len(runs) == 2  # made again for the gradients
            grads.append([p.grad for p in model.parameters()])
        same(*grads)


def test_a_break_and_an_error_inside():
    def inner(x):
        if x.shape[0] > 4:
            raise ValueError("too long")
        dynoc.graph_break()
        return x * 2

    def fn(x):
        return checkpoint(inner, x + 1, use_reentrant=False) + 1

    fast = dynoc.optimize(fn, wait=True)
    with torch.no_grad():
        for n in (2, 3, 2, 5, 3):
            if n > 4:
                with pytest.raises(ValueError, match="too long"):
                    fast(torch.ones(n))
            else:
                same(fast(torch.ones(n)), fn(torch.ones(n)))


def test_checkpoint_sequential():
    layers = nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)])
    fast = dynoc.optimize(lambda x: checkpoint_sequential(layers, 2, x * 2, use_reentrant=False) + 1, wait=True)
    with torch.no_grad():
        for x in inputs() * 2:
            same(fast(x), layers(x * 2) + 1)
