"""Hooks that a program hangs on the nodes of captured graphs, which save values that eager's nodes don't have."""

import pytest

torch = pytest.importorskip("torch")

import dynoc  # noqa: E402


def saves_values(x):
    h = torch.tanh(x * 2)
    return torch.sin(h.exp() * x) + h


def two_ways(body):
    for fn in (saves_values, dynoc.optimize(saves_values, wait=True)):
        made = []
        for _ in range(3):
            x = torch.linspace(-1, 1, 5, dtype=torch.float64).requires_grad_()
            made.append(body(fn(x), x))
        yield made


def agree(body):
    eager, captured = two_ways(body)
    for a, b in zip(eager, captured, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_a_prehook_changes_the_gradient():
    def body(y, x):
        y.grad_fn.register_prehook(lambda gradients: (gradients[0] * 2,))
        y.sum().backward()
        return x.grad

    agree(body)


def test_hooks_see_the_gradients_of_results_alone():
    def body(y, x):
        seen = []
        y.grad_fn.register_prehook(lambda gradients: seen.append([g.clone() for g in gradients]))
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append([g.clone() for g in outputs]))
        y.sum().backward()
        return seen, x.grad

    agree(body)


def test_hooks_in_gradients_of_gradients():
    def body(y, x):
        seen = []
        y.grad_fn.register_prehook(lambda gradients: (gradients[0] * 2,))
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append(len(outputs)))
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), x)
        return first.detach(), second, seen

    agree(body)


def test_a_hook_that_was_removed():
    def body(y, x):
        y.grad_fn.register_prehook(lambda gradients: 1 // 0).remove()
        y.sum().backward()
        return x.grad

    agree(body)


@pytest.mark.parametrize(
    "hook", [lambda g: g[0], lambda g: [g[0]], lambda g: (g[0], g[0]), lambda g: 1 // 0], ids=["tensor", "list", "two", "raises"]
)
def test_a_prehook_that_is_wrong(hook):
    def body(y, x):
        y.grad_fn.register_prehook(hook)
        with pytest.raises((TypeError, RuntimeError, ZeroDivisionError)) as raised:
            y.sum().backward()
        return len(raised.type.__name__)

    agree(body)


def test_calls_that_are_wrong():
    y = dynoc.optimize(saves_values, wait=True)(torch.ones(3, requires_grad=True))
    for method in ("register_prehook", "register_hook"):
        with pytest.raises(TypeError, match=method):
            getattr(y.grad_fn, method)()
