"""What `inspect` says of what `optimize` gives is what it says of the function, method, module or class itself."""

import inspect
import types

import numpy as np
import pytest
from compare import dynoc

X = np.arange(4.0)


def scaled(x, by: float = 2.0, *rest: int, last=None) -> np.ndarray:
    """Scaled."""
    return x * by


class Holder:
    def method(self, x, n=1):
        return x + n

    @classmethod
    def of_class(cls, x):
        return x * 2

    @staticmethod
    def of_none(x, y=0):
        return x - y


class Fast:
    method = dynoc.optimize(Holder.__dict__["method"])
    of_class = dynoc.optimize(Holder.__dict__["of_class"])
    of_none = dynoc.optimize(Holder.__dict__["of_none"])


HOLDER, FAST = Holder(), Fast()
PAIRS = {
    "function": (scaled, dynoc.optimize(scaled)),
    "again": (scaled, dynoc.optimize(dynoc.optimize(scaled), fullgraph=True)),
    "method": (HOLDER.method, FAST.method),
    "bound": (HOLDER.method, dynoc.optimize(HOLDER.method)),
    "of class": (Holder.of_class, Fast.of_class),
    "of none": (Holder.of_none, FAST.of_none),
    "in the class": (Holder.method, Fast.method),
}
QUESTIONS = [
    inspect.getfile, inspect.getsourcefile, inspect.getsource, inspect.getsourcelines, inspect.signature, inspect.getfullargspec,
    inspect.getmodule, inspect.getdoc, inspect.isfunction, inspect.ismethod, inspect.isroutine, inspect.iscoroutinefunction,
    inspect.getclosurevars, inspect.getcomments,
]  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.__name__)
@pytest.mark.parametrize("name", PAIRS)
def test_answers_are_those_of_the_function(name, question):
    plain, fast = PAIRS[name]
    assert question(fast) == question(plain)


def test_its_type_is_its_own():
    fast = dynoc.optimize(scaled)
    assert isinstance(fast, types.FunctionType) and isinstance(fast, dynoc._dynoc.OptimizedFunction)
    assert type(fast) is dynoc._dynoc.OptimizedFunction and fast.__class__ is types.FunctionType
    assert dynoc.optimize(fast).__wrapped__ is scaled


def test_inside_a_graph_too():
    inner = dynoc.optimize(lambda x: x + 1)

    def asking(x):
        return inner(x), isinstance(inner, types.FunctionType), inner.__class__, type(inner), callable(inner)

    fast = dynoc.optimize(asking, wait=True)
    for _ in range(3):
        assert fast(X)[1:] == asking(X)[1:] == (True, types.FunctionType, dynoc._dynoc.OptimizedFunction, True)
        assert np.array_equal(fast(X)[0], X + 1)


def test_modules_of_pytorch():
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def forward(self, x, k: int = 2):
            return x * k

    net = Net()
    fast = dynoc.optimize(net)
    assert fast.__wrapped__ is net and not hasattr(type(fast), "__wrapped__")
    for question in (inspect.signature, inspect.getmodule, inspect.getdoc):
        assert question(fast) == question(net)
    for question in (inspect.getfile, inspect.getsource, inspect.getsourcelines, inspect.signature):
        assert question(fast.forward) == question(net.forward)
        assert question(type(fast)) == question(Net)
    assert dynoc.optimize(fast).__wrapped__ is net
