"""Parts of graphs that are a few small calls of PyTorch's: made as those calls, as a node of autograd's would cost more."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from compare import dynoc  # noqa: E402
from process import run_script  # noqa: E402

FUNCTIONS = {
    "relu": F.relu, "relu6": F.relu6, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "silu": F.silu,
    "elu": lambda x: F.elu(x, 0.5), "leaky_relu": lambda x: F.leaky_relu(x, negative_slope=0.2),
    "softplus": lambda x: F.softplus(x, beta=2, threshold=5), "exp": torch.exp, "method": lambda x: x.tanh(),
}  # fmt: skip


class Beside:
    """A function beside what counts its calls: a graph of nothing but calls would be CPython's (test_torch_training.py)."""

    def __init__(self, function):
        counter = torch.zeros(())

        def both(*args):
            counter.add_(1)
            return function(*args)

        self.captured = dynoc.optimize(both, wait=True, options={"retire": True})

    def __call__(self, *args):
        return self.captured(*args)

    @property
    def entries(self):
        return self.captured.entries


def pays(function):
    """Captured, as it is where what doesn't pay is given up (tests/conftest.py says that it isn't)."""
    return Beside(function)


def leaf(*shape):
    return torch.linspace(-3, 3, torch.Size(shape).numel()).reshape(shape).requires_grad_()


def outcome(function, x):
    y = function(x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    second = torch.autograd.grad((g * g).sum(), x, allow_unused=True)[0] if g.requires_grad else None
    return y, g, second, type(y.grad_fn).__name__


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_small_call_is_pytorchs(name):
    function = FUNCTIONS[name]
    fast = pays(lambda x: function(x))
    for _ in range(3):
        expected, found = outcome(function, leaf(4, 5)), outcome(fast, leaf(4, 5))
        assert found[3] == expected[3]
        for a, b in zip(found[:3], expected[:3], strict=True):
            assert (a is None and b is None) or torch.equal(a, b)
    assert [e.hits for e in fast.entries] == [2]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_large_one_is_a_part(name):
    function = FUNCTIONS[name]
    fast = pays(lambda x: function(x))
    fast(leaf(4, 5))
    assert fast(leaf(100, 100)).grad_fn.name() == "CapturedBackward"
    expected, found = outcome(function, leaf(100, 100)), outcome(fast, leaf(100, 100))
    for a, b in zip(found[:2], expected[:2], strict=True):
        torch.testing.assert_close(a, b)
    assert len(fast.entries) == 1


def test_of_two_tensors():
    fast = pays(lambda x, y: torch.add(F.linear(x, y), x))
    x, y = leaf(4, 4), leaf(4, 4)
    fast(x, y)
    found = fast(x, y)
    assert found.grad_fn.name() == "AddBackward0"
    assert torch.equal(found, F.linear(x, y) + x)


CHAINS = {
    "two": lambda x: torch.tanh(torch.sigmoid(x)),
    "three": lambda x: torch.relu(torch.tanh(torch.sigmoid(x))),
    "views": lambda x: torch.exp(torch.tanh(x)[1:].unsqueeze(0).permute(0, 2, 1)),
    "operators": lambda x: (x * 2.0 - x) / 3.0,
    "negated": lambda x: -torch.exp(x),
    "branches": lambda x: torch.add(torch.exp(x), torch.tanh(x)),
    "joined": lambda x: torch.cat([torch.exp(x), x], dim=0),
    "shown": lambda x: (lambda h: (h, torch.tanh(h)))(torch.sigmoid(x)),
    "used_later": lambda x: (lambda h: torch.addmm(x, torch.cat([h, x], 1), torch.cat([h, h])))(F.relu(torch.addmm(x, x, x))),
}  # fmt: skip


def every(function, shape):
    """Results, gradients, and the nodes of autograd's."""
    x = leaf(*shape)
    made = function(x)
    made = made if isinstance(made, tuple) else (made,)
    names, todo = set(), [t.grad_fn for t in made]
    while todo:
        node = todo.pop()
        if node is not None:
            names.add(node.name())
            todo += [n for n, _ in node.next_functions]
    return [*made, *torch.autograd.grad(sum((t * t).sum() for t in made), x)], names


@pytest.mark.parametrize("name", CHAINS)
def test_few_small_calls_are_pytorchs(name):
    function = CHAINS[name]
    fast = pays(lambda x: function(x))
    for shape in ((4, 4), (4, 4), (5, 5), (0, 0)):
        (expected, names), (found, by) = every(function, shape), every(fast, shape)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        assert "CapturedBackward" not in by
    (expected, _), (found, by) = every(function, (100, 100)), every(fast, (100, 100))
    assert "CapturedBackward" in by
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 5), (2, 6, 3, 3)])
def test_a_norm_by_running_statistics_is_pytorchs(shape):
    norms = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d}
    model = torch.nn.Sequential(norms[len(shape)](6), torch.nn.ReLU()).eval()
    fast = pays(model)
    for rows in (shape[0], shape[0], 7):
        (expected, names), (found, by) = every(model, (rows, *shape[1:])), every(fast, (rows, *shape[1:]))
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        assert by == names
    (expected, _), (found, by) = every(model, (2000, *shape[1:])), every(fast, (2000, *shape[1:]))
    assert "CapturedBackward" in by
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)
    assert len(fast.entries) == 1


def test_products_are_pytorchs_where_little_is_computed_beside_them():
    torch.manual_seed(0)
    layers, rows = [torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)], (3, 3, 3000)
    for model in (layers[0], torch.nn.Sequential(*layers[:2]), torch.nn.Sequential(*layers)):
        fast = pays(model)
        for n in rows:
            (expected, names), (found, by) = every(model, (n, 8)), every(fast, (n, 8))
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
            assert by == names
    model = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[2])
    fast = pays(model)
    assert [("CapturedBackward" in every(fast, (n, 8))[1]) for n in rows] == [False, False, True]


def test_many_calls_are_a_part():
    fast = pays(lambda x: torch.exp(torch.tanh(torch.relu(torch.tanh(torch.sigmoid(x))))))
    fast(leaf(4))
    assert fast(leaf(4)).grad_fn.name() == "CapturedBackward"


def test_an_argument_that_changes_is_seen():
    layer = torch.nn.LeakyReLU(0.1)
    fast = pays(lambda x: layer(x))
    for slope in (0.1, 0.1, 0.3, 0.3, 0.1):
        layer.negative_slope = slope
        assert torch.equal(fast(leaf(6)), F.leaky_relu(leaf(6), slope))


def test_a_number_that_only_a_call_tells_stays_one():
    fast = pays(lambda x, y, k: torch.add(x, y, alpha=k))
    for k in (0.5, 0.25, 2.0, 3.0):
        torch.testing.assert_close(fast(leaf(6), leaf(6), k), torch.add(leaf(6), leaf(6), alpha=k))
    assert len(fast.entries) == 1


def test_it_raises_what_pytorch_raises_in_backward():
    fast = pays(lambda x: F.linear(torch.exp(x), torch.ones(3, 4)))
    fast(leaf(2, 4))
    x = leaf(2, 4)
    y = fast(x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_networks_in_both_modes():
    for wrap in (pays, lambda m: dynoc.optimize(m, options={"retire": True})):
        torch.manual_seed(0)
        layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.ELU(), torch.nn.Linear(16, 2)
        model = torch.nn.Sequential(*layers)
        fast, x = wrap(model), torch.randn(5, 8)
        for _ in range(4):
            expected = torch.autograd.grad((model(x) ** 2).sum(), list(model.parameters()))
            found = torch.autograd.grad((fast(x) ** 2).sum(), list(model.parameters()))
            for a, b in zip(found, expected, strict=True):
                torch.testing.assert_close(a, b)


def test_joined_tensors_are_joined_by_pytorch():
    fast = pays(lambda x, y: torch.cat([F.linear(x, y), x, y], dim=1))
    x, y = leaf(4, 4), leaf(4, 4)
    fast(x, y)
    found = fast(x, y)
    assert found.grad_fn.name() == "CatBackward0"
    assert torch.equal(found, torch.cat([F.linear(x, y), x, y], dim=1))


def test_calls_beside_other_work_stand_alone():
    def function(x, y):
        a, b = torch.addmm(x, x, y), torch.addmm(x, y, x)
        return torch.relu(a), torch.sin(b) * torch.exp(b), torch.tanh(b), torch.tensor([1, 2, 3])

    fast, x, y = dynoc.optimize(function, wait=True, options={"retire": True}), leaf(4, 4), leaf(4, 4)
    fast(x, y)
    names = [t.grad_fn.name() for t in fast(x, y)[:3]]
    assert names == ["ReluBackward0", "CapturedBackward", "TanhBackward0"]
    expected, found = (torch.autograd.grad(sum(t.sum() for t in f(x, y)), (x, y)) for f in (function, fast))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


ONE_ELEMENT = {
    "expand": ((), lambda x: torch.cumsum((x * 2).expand(()), 0)),
    "permute": ((), lambda x: torch.cumsum((x * 2).permute(()), 0)),
    "view": ((1,), lambda x: torch.cumsum((x * 2).view(()), 0)),
    "reshape": ((1, 1), lambda x: torch.cumsum((x * 2).reshape(()), 0)),
    "in_a_part": ((1,), lambda x: (x * 2).view(()).permute(()).expand(()).sin() * 3),
}


@pytest.mark.parametrize("options", [{"wait": True}, {"backend": "eager"}])
@pytest.mark.parametrize("name", ONE_ELEMENT)
def test_views_without_axes(name, options):
    size, function = ONE_ELEMENT[name]
    fast = dynoc.optimize(function, **options)
    for value in (1.5, 2.5, 0.5):
        x = torch.full(size, value, dtype=torch.float64, requires_grad=True)
        expected, found = (f(x) for f in (function, fast))
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found, x), torch.autograd.grad(expected, x))


UNIMPORTED = """
import sys, torch, dynoc
function = dynoc.optimize(lambda x: (x.exp() * x).tanh(), wait=True)
for _ in range(3):
    x = torch.ones(32, 32, requires_grad=True)
    y = function(x)
    y.backward(torch.ones(32, 32))
print(y.grad_fn.name(), "dynoc._autograd" in sys.modules)
y = function(x)
sparse = torch.ones(32, 32).to_sparse()
print((torch.autograd.grad(y, x, sparse)[0] == x.grad).all().item(), "dynoc._autograd" in sys.modules)
"""


def test_no_module_is_imported_for_gradients_that_are_plain():
    code, out, said = run_script(UNIMPORTED)
    assert code == 0, said
    assert out.split("\n")[:2] == ["CapturedBackward False", "True True"]
