"""Functions and modules of TorchScript inside a captured function: nodes where their graph says what they do."""

import copy

import dynoc
import pytest
from torch_cases import check, same, torch

nn = torch.nn
SIZES = [(2, 4), (3, 4), (7, 4)]


def inputs():
    return [(torch.randn(size, generator=torch.Generator().manual_seed(size[0])),) for size in SIZES]


@torch.jit.script
def stacked(x: torch.Tensor, n: int):
    y = x + 1
    y.relu_()
    parts = []
    for i in range(n):
        parts.append(y * i)
    if n > 2:
        y = y - 1
    return torch.stack(parts), y


@torch.jit.script
def noisy(x: torch.Tensor):
    return x + torch.rand_like(x)


@torch.jit.script
def writes(x: torch.Tensor):
    return x.add_(1) * 2


@torch.jit.script
def writes_a_part(x: torch.Tensor):
    y = x[0]
    y.mul_(3)
    return y + 1


@torch.jit.script
def says(x: torch.Tensor):
    print("scripted")
    return x + 1


def block():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.Dropout(0.5))
    return torch.jit.script(layers)


class Model(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), inner])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x * 2) + 1
        return x


def test_functions():
    check(lambda x: stacked(torch.sin(x), 3)[0].sum(0) + stacked(x, n=2)[1], *inputs())


def test_traced_functions_and_modules():
    linear = torch.jit.trace(nn.Linear(4, 4), torch.ones(2, 4))
    halved = torch.jit.trace(lambda x: x / 2, torch.ones(2))
    with torch.no_grad():
        check(lambda x: linear(halved(x) + 1) * 2, *inputs())


def test_a_function_that_draws():
    fast = dynoc.optimize(lambda x: noisy(x * 2) + 1, wait=True, fullgraph=True)
    for (x,) in inputs():
        torch.manual_seed(1)
        want, state = noisy(x * 2) + 1, torch.get_rng_state()
        torch.manual_seed(1)
        same(fast(x), want)
        assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("fn", [writes, writes_a_part], ids=["all", "a part"])
def test_what_changes_its_argument_is_a_break(fn):
    check(lambda x: fn(x) + x, *inputs(), captured=False)
    with pytest.raises(dynoc.Unsupported, match="OPAQUE_CALL"):
        dynoc.optimize(lambda x: fn(x) + 1, fullgraph=True)(torch.ones(2, 4))


def test_what_prints_is_a_break(capfd):
    fast = dynoc.optimize(lambda x: says(x * 2) + 1, wait=True)
    for _ in range(3):
        same(fast(torch.ones(2)), torch.full((2,), 4.0))
    assert capfd.readouterr().out.split() == ["scripted"] * 3


@pytest.mark.parametrize("training", [False, True])
def test_modules(training):
    mine, theirs = Model(block()).train(training), Model(block()).train(training)
    theirs.load_state_dict(mine.state_dict())
    fast = dynoc.optimize(mine, wait=True, fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            for (x,) in inputs():
                torch.manual_seed(2)
                want = theirs(x)
                torch.manual_seed(2)
                same(fast(x), want)
    assert len(dynoc.optimize(mine).state_dict()) == len(theirs.state_dict())
    for a, b in zip(mine.buffers(), theirs.buffers(), strict=True):  # running statistics
        same(a, b)


def test_train_and_eval_of_one_entry():
    model = Model(block()).eval()
    fast, plain = dynoc.optimize(model, wait=True), Model(block()).eval()
    plain.load_state_dict(model.state_dict())
    x = torch.randn(5, 4)
    with torch.no_grad():
        for mode in (False, False, True, False, True):
            model.train(mode), plain.train(mode)
            torch.manual_seed(3)
            want = plain(x)
            torch.manual_seed(3)
            same(fast(x), want)


def test_gradients_of_its_parameters():
    model = Model(block()).eval()
    fast, x = dynoc.optimize(model, wait=True), torch.randn(3, 4)
    with torch.no_grad():
        fast(x)
        fast(x)
    for _ in range(2):
        y = fast(x)
        assert y.requires_grad
        model.zero_grad()
        y.sum().backward()
        got = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model(x).sum().backward()
        same(got, [p.grad for p in model.parameters()])


def test_another_module_in_its_place_is_seen():
    model = Model(block()).eval()
    fast, x = dynoc.optimize(model, wait=True), torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(2):
            same(fast(x), model(x))
        torch.manual_seed(9)
        model.layers[1] = torch.jit.script(nn.Linear(4, 4))
        for _ in range(2):
            same(fast(x), model(x))


def test_nodes_are_call_module():
    model, x = Model(block()).eval(), torch.randn(3, 4)
    with torch.no_grad():
        gm = dynoc.trace(model)(x)
        calls = [n for n in gm.graph.nodes if n.op == "call_module"]
        assert [n.target for n in calls] == ["layers.1"]
        same(gm(x), model(x))
        same(gm.to_torch_fx()(x), model(x))
        same(dynoc.Interpreter(gm).run(x), model(x))
        same(copy.deepcopy(gm)(x), model(x))
        for backend in ("eager", "aot_eager", lambda gm, examples: gm.forward):
            fast = dynoc.optimize(model, backend=backend, fullgraph=True)
            for n in (3, 3, 5):
                same(fast(torch.ones(n, 4)), model(torch.ones(n, 4)))


def test_a_module_that_was_marked():
    model = Model(nn.Sequential(nn.Linear(4, 4), nn.Tanh())).eval()
    dynoc.allow_in_graph(model.layers[1])
    with torch.no_grad():
        gm = dynoc.trace(model)(torch.ones(2, 4))
        assert "layers.1" in [n.target for n in gm.graph.nodes if n.op == "call_module"]
        fast = dynoc.optimize(model, wait=True, fullgraph=True)
        for (x,) in inputs() * 2:
            same(fast(x), model(x))
        assert len(fast.entries) == 1 if hasattr(fast, "entries") else True
