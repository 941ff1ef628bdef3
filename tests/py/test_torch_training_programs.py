"""Whole training programs: losses, gradients, parameters, buffers and versions are eager's at each step."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from compare import dynoc  # noqa: E402
from training_programs import PROGRAMS  # noqa: E402

STEPS = 8
FEW_ENTRIES = {  # programs whose modules are one graph
    "mlp": 1, "convolutional": 1, "language": 1, "vae": 1, "unet": 1, "graph_network": 1, "dlrm": 1, "half_weights": 1,
    "changes_in_place": 1, "recurrent": 1, "siren": 1, "contrastive": 2, "gan": 3,
}  # fmt: skip


@pytest.fixture(autouse=True)
def doubles():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, of schedulers and hooks
        yield
    torch.set_default_dtype(before)


def flat(value):
    if isinstance(value, tuple | list):
        return [x for item in value for x in flat(item)]
    return [value.detach().clone() if isinstance(value, torch.Tensor) else value]


def state(modules):
    for module in modules:
        for name, p in module.named_parameters():
            yield name, p.detach().clone()
            yield f"gradient of {name}", None if p.grad is None else p.grad.clone()
            yield f"version of {name}", p._version
        for name, b in module.named_buffers():
            yield name, b.clone()
            yield f"version of {name}", b._version


def trained(name, wrap):
    torch.manual_seed(0)
    step, modules = PROGRAMS[name](wrap, wrap)
    return [[(f"value {k}", v) for k, v in enumerate(flat(step(i)))] + list(state(modules)) for i in range(STEPS)]


def close(a, b):
    if isinstance(a, torch.Tensor):
        same = a.shape == b.shape and a.dtype == b.dtype and a.stride() == b.stride()
        return same and torch.allclose(a.double(), b.double(), rtol=1e-6, atol=1e-8, equal_nan=True)
    return a == pytest.approx(b, rel=1e-6, abs=1e-8) if isinstance(a, float) else a == b


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_trained_as_in_eager(name):
    made = []

    def optimised(function):
        made.append(dynoc.optimize(function, wait=True))
        return made[-1]

    expected, seen = trained(name, lambda f: f), trained(name, optimised)
    for i, (a, b) in enumerate(zip(expected, seen, strict=True)):
        for (what, x), (_, y) in zip(a, b, strict=True):
            assert close(x, y), (i, what, x, y)
    if name in FEW_ENTRIES:
        assert sum(len(f.entries) for f in made) == FEW_ENTRIES[name]
        assert sum(e.hits for f in made for e in f.entries) > STEPS // 2


# ---- torch.autograd.Function

class Cube(torch.autograd.Function):
    calls = []  # a class that changes would be another one

    @staticmethod
    def forward(ctx, x, factor=1.0):
        Cube.calls.append(factor)
        ctx.save_for_backward(x)
        ctx.factor = factor
        return factor * x**3, x.detach() * 2

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return 3 * ctx.factor * x**2 * g + 2 * h, None


class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(0.5)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g * 0.5


def test_a_written_backward_is_one_step_of_the_graph():
    def function(x, k):
        a, b = Cube.apply(torch.sin(x) * k, 2.0)
        return torch.tanh(a) * b + k

    fast = dynoc.optimize(function, wait=True)
    x = torch.randn(3, 4, requires_grad=True)
    for k in (2.0, 3.0, 4.0):
        before = len(Cube.calls)
        seen = torch.autograd.grad(fast(x, k).sum(), x)[0]
        assert len(Cube.calls) == before + 1
        assert torch.allclose(seen, torch.autograd.grad(function(x, k).sum(), x)[0])
    assert [e.hits for e in fast.entries] == [2]
    assert torch.autograd.gradgradcheck(lambda x: fast(x, 2.0), x)
    with torch.no_grad():
        assert torch.equal(fast(x, 2.0), function(x, 2.0))


def test_a_function_that_changes_its_argument():
    def function(x):
        h = x * 2
        y = Half.apply(h)
        return y * h + x

    fast = dynoc.optimize(function, wait=True)
    x = torch.randn(3, 4, requires_grad=True)
    for _ in range(3):
        assert torch.allclose(torch.autograd.grad(fast(x).sum(), x)[0], torch.autograd.grad(function(x).sum(), x)[0])


def test_a_backward_that_raises():
    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise KeyError("the program's own")

    fast = dynoc.optimize(lambda x: Raises.apply(x * 2).exp(), wait=True)
    x = torch.randn(3, requires_grad=True)
    for _ in range(3):
        with pytest.raises(KeyError, match="the program's own"):
            fast(x).sum().backward()
    assert [e.hits for e in fast.entries] == [2]
