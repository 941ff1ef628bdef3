"""dynoc.optimize(module): one and the same module for its user, compiled calls; and the original stays eager."""

import copy
import inspect
import io
import pickle
import warnings

import pytest
from torch_cases import same, torch

import dynoc
from torch import nn


class Net(nn.Module):
    """A net."""

    def __init__(self, width=8):
        super().__init__()
        self.first, self.second = nn.Linear(4, width), nn.Linear(width, 2)
        self.register_buffer("scale", torch.tensor(2.0))
        self.calls = 0

    def forward(self, x, twice=False):
        y = self.second(torch.relu(self.first(x))) * self.scale
        return y * 2 if twice else y

    def double(self, x):
        return self(x) * 2


@pytest.fixture
def pair():
    net = Net().eval()
    with torch.no_grad():
        yield net, dynoc.optimize(net, wait=True, fullgraph=True)


def x(n=3):
    return torch.randn(n, 4)


def test_calls_are_compiled_and_the_original_is_eager(pair):
    net, fast = pair
    for n in (3, 7, 2):
        a = x(n)
        same(fast(a), net(a))
    assert len(fast.entries) == 1 and fast.entries[0].tier == "native" and fast.entries[0].hits == 2
    assert fast.source() == fast.entries[0].source and "for" in fast.source()
    a = x()
    same(fast(a, twice=True), net(a, twice=True))
    same(fast.double(a), net.double(a))
    assert not hasattr(net, "entries")


def test_it_is_a_module_of_its_class(pair):
    net, fast = pair
    assert isinstance(fast, Net) and issubclass(type(fast), Net) and type(fast) is not Net
    assert repr(fast) == repr(net) and fast.__doc__ == net.__doc__ and fast.__wrapped__ is net
    assert type(fast).__qualname__ == "Net" and type(fast).__module__ == Net.__module__
    assert list(fast.state_dict()) == list(net.state_dict())
    assert [n for n, _ in fast.named_modules()] == [n for n, _ in net.named_modules()]
    assert [a is b for a, b in zip(fast.parameters(), net.parameters(), strict=True)] == [True] * 4
    assert inspect.signature(fast.forward) == inspect.signature(net.forward)


def test_attributes_are_shared(pair):
    net, fast = pair
    a = x()
    fast(a)
    fast.calls = 5
    assert net.calls == 5
    net.first = nn.Linear(4, 8)
    assert fast.first is net.first
    same(fast(a), net(a))
    fast.scale = torch.tensor(3.0)
    same(fast(a), net(a))
    assert fast.train() is fast and net.training and net.first.training
    assert net.eval() is net and not fast.training
    fast.load_state_dict(Net().state_dict())
    same(fast(a), net(a))
    assert fast.double(a) is not None
    fast.to(torch.float64)
    same(fast(a.double()), net(a.double()))
    del fast.calls
    assert not hasattr(net, "calls")


def test_hooks_are_shared(pair):
    net, _ = pair
    fast = dynoc.optimize(net, wait=True)
    a, seen = x(), []
    fast(a)
    handle = net.register_forward_hook(lambda module, args, out: seen.append(module) or out + 1)
    same(fast(a), net(a))
    assert len(seen) == 2
    handle.remove()
    same(fast(a), net(a))
    assert len(seen) == 2
    with fast.register_forward_pre_hook(lambda module, args: (args[0] * 2,)):
        same(fast(a), net(a))
    same(fast(a), net(a))


def test_copies_and_pickles(pair):
    net, fast = pair
    a = x()
    fast(a)
    for other in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert isinstance(other, Net) and hasattr(other, "entries") and not other.training
        same(other(a), net(a))
        assert other.first is not net.first
        with torch.no_grad():
            other.first.weight.zero_()
        same(other(a), other.__wrapped__(a))
        assert len(other.entries) == 1
    shallow = copy.copy(fast)
    shallow.calls = 7
    assert net.calls == 0 and shallow.first is net.first
    same(shallow(a), net(a))
    both = pickle.loads(pickle.dumps([net, fast]))
    assert type(both[0]) is Net and both[1].__dict__ is both[0].__dict__
    file = io.BytesIO()
    torch.save(fast, file)
    file.seek(0)
    same(torch.load(file, weights_only=False)(a), net(a))
    file = io.BytesIO()
    torch.save(fast.state_dict(), file)
    file.seek(0)
    net.load_state_dict(torch.load(file))


def test_options_and_forms(pair):
    net, fast = pair
    assert dynoc.optimize(net, disable=True) is net
    again = dynoc.optimize(fast, wait=True)
    assert again.__wrapped__ is net and again is not fast
    assert isinstance(dynoc.optimize(wait=True)(net), Net)
    with pytest.raises(dynoc.Unsupported):

        class Breaks(nn.Module):
            def forward(self, x):
                dynoc.graph_break()
                return x + 1

        dynoc.optimize(Breaks(), fullgraph=True)(x())


def test_two_modules_of_a_class_have_entries_of_their_own(pair):
    net, fast = pair
    other = dynoc.optimize(Net(16).eval(), wait=True, fullgraph=True)
    a = x()
    for _ in range(2):
        same(fast(a), net(a))
        same(other(a), other.__wrapped__(a))
    assert len(fast.entries) == len(other.entries) == 1


def test_an_optimised_module_inside_another(pair):
    net, fast = pair
    outer = nn.Sequential(fast, nn.Linear(2, 2))
    a = x()
    same(outer(a), outer[1](net(a)))
    whole = dynoc.optimize(outer, wait=True)
    same(whole(a), outer[1](net(a)))
    same(whole(x(5)).shape, torch.Size([5, 2]))
    function = dynoc.optimize(lambda a: fast(a) + 1, wait=True)
    for _ in range(3):
        same(function(a), net(a) + 1)


def test_gradients_reach_the_parameters():
    net = Net()
    fast = dynoc.optimize(net, wait=True)
    for _ in range(2):
        net.zero_grad()
        fast(x()).sum().backward()
        assert net.first.weight.grad is not None and fast.first.weight.grad is net.first.weight.grad


def test_a_class_that_looks_at_its_subclasses():
    seen = []

    class Registered(nn.Module):
        def __init_subclass__(cls, **kwargs):
            seen.append(cls)

        def __call__(self, x):
            return super().__call__(x) + 1

        def forward(self, x):
            return x * 2

    fast = dynoc.optimize(Registered(), wait=True)
    a = x()
    same(fast(a), a * 2 + 1)
    same(fast(a), a * 2 + 1)
    assert seen == []


def test_torchscript_comes_back_as_it_is():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the deprecated call
        scripted = torch.jit.trace(Net().eval(), x())
    assert dynoc.optimize(scripted) is scripted


class OwnNames(torch.nn.Module):
    """Has attributes by names that optimised modules have."""

    def __init__(self):
        super().__init__()
        self.entries = [1, 2]
        self.source = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.source(x) * self.entries[0]


def test_names_of_the_module_itself_come_first():
    module = OwnNames()
    fast = dynoc.optimize(module)
    for _ in range(3):
        assert torch.equal(fast(torch.ones(2)), module(torch.ones(2)))
    assert fast.entries is module.entries and fast.source is module.source
    fast.entries = [3]
    assert module.entries == [3]
    assert dynoc.explain(module)(torch.ones(2)).graph_count == 1


def test_a_module_of_which_nothing_is_captured_says_why():
    class Draws(torch.nn.Module):
        def forward(self, x):
            return id(x)

    module = Draws()
    fast = dynoc.optimize(module)
    fast(torch.ones(2))
    assert fast.loops == [] and fast.refusals and dynoc.explain(module)(torch.ones(2)).refusals == fast.refusals
