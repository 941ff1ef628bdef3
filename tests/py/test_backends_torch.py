"""Graphs of tensors handed on: to back ends of the user's, to torch.fx, to torch's own back ends; the seeds' Interpreter."""

import pytest
from torch_cases import torch

import dynoc


class NegSigmSwapInterpreter(dynoc.Interpreter):  # of the seeds, but for the import
    def call_function(self, target, args, kwargs):
        if target == torch.sigmoid:
            return torch.neg(*args, **kwargs)
        return super().call_function(target)

    def call_method(self, target, args, kwargs):
        if target == "neg":
            call_self, *args_tail = args
            return call_self.sigmoid(*args_tail, **kwargs)
        return super().call_method(target)


def fn(x):
    return torch.sigmoid(x).neg()


@pytest.mark.parametrize("trace", [torch.fx.symbolic_trace, lambda fn: dynoc.trace(fn)(torch.ones(2, 2))])
def test_interpreter_of_the_seeds(trace):
    x = torch.randn(3, 4)
    assert torch.equal(NegSigmSwapInterpreter(trace(fn)).run(x), torch.neg(x).sigmoid())


def keep(gm, example_inputs):
    assert all(type(x) in (torch.Tensor, torch.nn.Parameter) for x in example_inputs)
    return gm.forward


def keep_fx(gm, example_inputs):
    made = gm.to_torch_fx()
    made.graph.lint()
    assert type(made) is not dynoc.GraphModule and isinstance(made, torch.fx.GraphModule)
    return made.forward


def many(a, b):
    x = a / (torch.abs(a) + 1)
    c = x * b.sum(0)
    return c, torch.nn.functional.softmax(c, -1), c.T, torch.where(c > 0, c, 0.0) * 2, a[1:, 0], c.reshape(-1)[2:]


def writes(a, b):
    a[0] = 3
    a.mul_(2)
    a += b
    return a, a.sum()


@pytest.mark.parametrize("backend", [keep, keep_fx, "aot_eager"])
@pytest.mark.parametrize("function", [many, writes])
def test_functions(backend, function):
    fast = dynoc.optimize(function, backend=backend, fullgraph=True, options={"suppress_errors": False})
    for seed in range(3):
        torch.manual_seed(seed)
        a, b = torch.randn(4, 4), torch.randn(4, 4)
        mine, theirs = a.clone(), a.clone()
        got, expected = fast(mine, b), function(theirs, b)
        for x, y in zip(got, expected, strict=True):
            torch.testing.assert_close(x, y)
            assert x.stride() == y.stride()
        assert torch.equal(mine, theirs) and (got[0] is mine) == (expected[0] is theirs)
    assert fast.entries[0].hits == 2


@pytest.mark.parametrize("backend", [keep, "inductor"])
def test_modules(backend):
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)).eval()
    with torch.no_grad():
        gm = dynoc.trace(model)(torch.ones(3, 4))
        x = torch.randn(3, 4)
        torch.testing.assert_close(gm(x), model(x))
        assert len(gm.graph.find_nodes(op="get_attr")) == 4
        torch.testing.assert_close(gm.to_torch_fx()(x), model(x))
        fast = dynoc.optimize(model, backend=backend, options={"suppress_errors": False})
        for _ in range(3):
            torch.testing.assert_close(fast(x), model(x))
            x = torch.randn(3, 4)


def test_names():
    assert "inductor" in dynoc.list_backends() and "aot_eager" in dynoc.list_backends(all=True)
    graph = dynoc.trace(many)(torch.randn(3, 4), torch.randn(2, 4)).graph
    assert graph.find_nodes(op="call_function", target=torch.abs)[0].meta["dtype"] is torch.float32


def test_sizes_are_symbols_for_a_dynamic_back_end_of_torchs():
    """What the program registers with torch gets a torch.fx graph; where it is dynamic, with SymInts and fake tensors."""
    seen = []

    def theirs(gm, example_inputs):
        assert isinstance(gm, torch.fx.GraphModule)
        seen.append(([n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"], example_inputs))
        return gm.forward

    theirs.dynamic = True
    torch._dynamo.register_backend(theirs, name="dynoc_dynamic_test")

    def scaled(x, y, k):
        return (x.T * k + y[:, 1:].T).sum(0), x.reshape(-1)[:-1] - 1

    fast = dynoc.optimize(scaled, backend="dynoc_dynamic_test", fullgraph=True, options={"suppress_errors": False})
    for n, m, k in ((3, 4, 2), (3, 4, 2), (6, 5, 7), (2, 9, -1)):
        x, y = torch.randn(m, n).T, torch.randn(n, m + 1)
        for got, want in zip(fast(x, y, k), scaled(x, y, k), strict=True):
            torch.testing.assert_close(got, want)
    assert len(fast.entries) == 1 and len(seen) == 1
    values, examples = seen[0]
    ints, (a, b) = values[:-2], values[-2:]
    assert all(type(s) is torch.SymInt for s in ints) and examples[: len(ints)] == [s.node.hint for s in ints]
    assert type(examples[-1]) is torch.Tensor and type(a) is type(b) is torch._subclasses.FakeTensor
    assert {str(s) for s in (*a.shape, b.shape[0])} <= {str(s) for s in ints}
    assert tuple(d.node.hint for d in a.shape) == (3, 4) and a.stride(0) == 1 and str(a.stride(1)) == str(a.shape[0])
    assert tuple(d.node.hint for d in b.shape) == (3, 5)
