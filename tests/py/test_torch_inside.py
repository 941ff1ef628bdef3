"""What PyTorch code calls inside a captured function: operators of torch.library, scripted and traced functions and modules,
fx GraphModules, checkpoints. Nodes or inlined, and right in any case."""

import warnings

import dynoc
import pytest
from process import output_of
from torch_cases import check, same, torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

CALLS = [(torch.randn(n, 6, generator=torch.Generator().manual_seed(n)),) for n in (2, 3, 8)]


def right(fn, *calls, **options):
    """Equal to eager at every call, in however many graphs."""
    return check(fn, *(calls or CALLS), captured=False, **options)


# ---- operators of the program's own


@torch.library.custom_op("dynoc_tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by + x.sum()


@scaled.register_fake
def _(x, by):
    return torch.empty_like(x)


@torch.library.custom_op("dynoc_tests::bump", mutates_args=("x",))
def bump(x: torch.Tensor) -> None:
    x += 1


@torch.library.custom_op("dynoc_tests::both", mutates_args=())
def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sin(), x[0].clone()


LIBRARY = torch.library.Library("dynoc_tests_defined", "DEF")
LIBRARY.define("halved(Tensor x) -> Tensor")
LIBRARY.impl("halved", lambda x: x / 2, "CompositeExplicitAutograd")


@pytest.mark.parametrize(
    "call",
    [
        lambda x: scaled(x * 2.0, 3.0) + 1.0,
        lambda x: torch.ops.dynoc_tests.scaled(x, 3.0) * 2.0,
        lambda x: torch.ops.dynoc_tests.scaled.default(x, 3.0) * 2.0,
        lambda x: torch.ops.dynoc_tests_defined.halved(x + 1.0) * 2.0,
        lambda x: [part + 1.0 for part in torch.ops.dynoc_tests.both(x * 2.0)],
        lambda x: torch.ops.aten.add.Tensor(x, x * 2.0) + 1.0,
        lambda x: torch.ops.aten.mm(x, x.T) * 2.0,
    ],
    ids=["object", "packet", "overload", "defined", "tuple", "aten overload", "aten packet"],
)
def test_operators_without_effect_are_nodes(call):
    check(lambda x: call(x), *CALLS)


def test_an_operator_that_writes():
    def fn(x):
        y = x * 2.0
        bump(y)
        torch.ops.dynoc_tests.bump(y)
        return y + 1.0

    right(fn)


# ---- scripted and traced code


with warnings.catch_warnings():
    warnings.simplefilter("ignore")

    @torch.jit.script
    def scripted(x, n: int):
        for _ in range(n):
            x = torch.tanh(x) + 0.5
        return x

    class Scripted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(6, 6)

        def forward(self, x):
            return self.inner(x).relu()

    torch.manual_seed(2)
    MODULE = torch.jit.script(Scripted().requires_grad_(False))
    TRACED = torch.jit.trace(Scripted().requires_grad_(False), torch.ones(2, 6))
    LAYER = Scripted().requires_grad_(False)
    GRAPH = torch.fx.symbolic_trace(LAYER)


@pytest.mark.parametrize(
    "call",
    [lambda x: scripted(x * 2.0, 3) * 2.0, lambda x: MODULE(x * 2.0) * 2.0, lambda x: TRACED(x * 2.0) * 2.0],
    ids=["function", "module", "traced"],
)
def test_scripted_code(call):
    right(lambda x: call(x))


def test_a_graph_of_fx():
    check(lambda x: GRAPH(x * 2.0) * 2.0, *CALLS)


def test_a_graph_of_fx_alone():
    fast = dynoc.optimize(GRAPH, wait=True)
    for args in CALLS * 2:
        same(fast(*args), GRAPH(*args))


# ---- checkpoints


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint(reentrant):
    def fn(x):
        return checkpoint(LAYER, x * 2.0, use_reentrant=reentrant) * 2.0

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right(fn)


def test_a_checkpoint_of_gradients():
    layer = Scripted()
    fast = dynoc.optimize(lambda x: checkpoint(layer, x * 2.0, use_reentrant=False).sum(), wait=True)
    for (x,) in CALLS * 2:
        grads = []
        for call in (fast, lambda x: checkpoint(layer, x * 2.0, use_reentrant=False).sum()):
            layer.zero_grad()
            call(x).backward()
            grads.append([p.grad.clone() for p in layer.parameters()])
        same(*grads)


def test_checkpoints_in_sequence():
    layers = [LAYER, torch.nn.Tanh(), LAYER]

    def fn(x):
        return checkpoint_sequential(layers, 2, x * 2.0, use_reentrant=False) * 2.0

    with torch.no_grad():
        right(fn)


# ---- other ways in which PyTorch code calls code


def test_an_autograd_function():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2.0

        @staticmethod
        def backward(ctx, grad):
            return grad * 2.0

    right(lambda x: Double.apply(x + 1.0) + 1.0)
    x = torch.ones(3, requires_grad=True)
    dynoc.optimize(lambda x: Double.apply(x + 1.0).sum())(x).backward()
    assert torch.equal(x.grad, torch.full((3,), 2.0))


def test_vmap_and_grad():
    right(lambda x: torch.func.vmap(lambda row: row.sin() * 2.0)(x + 1.0) * 2.0)
    right(lambda x: torch.func.grad(lambda y: (y**2).sum())(x + 1.0) * 2.0)


def test_hooks_and_parametrisations():
    torch.manual_seed(4)
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(6, 6)).requires_grad_(False)
    layer.register_forward_hook(lambda module, args, result: result + 1.0)
    right(lambda x: layer(x * 2.0) * 2.0)


def test_a_compiled_function_inside():
    """In a process of its own: torch.compile changes Module.__init__ for good."""
    said = output_of(
        """
        import dynoc, torch
        inner = torch.compile(lambda x: x.sin() + 1.0, backend="eager")
        def fn(x):
            return inner(x * 2.0) * 2.0
        fast = dynoc.optimize(fn, wait=True)
        for n in (2, 3, 8, 2, 3, 8):
            x = torch.randn(n, 6)
            want = fn(x)
            torch.testing.assert_close(fast(x), want)
        print("equal")
        """
    )
    assert said == "equal"
