"""Gradients where graphs begin and end within torch.no_grad and torch.enable_grad, and through views that reinterpret memory."""

import pytest

torch = pytest.importorskip("torch")

from compare import dynoc  # noqa: E402


@pytest.fixture(autouse=True)
def doubles():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def before_and_behind(w, x):
    d = (x @ w).sin()
    with torch.no_grad():
        y = x * 2
        dynoc.graph_break()
    return (d * y).sum()


def nothing_within(w, x):
    d = (x @ w).exp()
    with torch.no_grad():
        dynoc.graph_break()
    return (d * x).sum()


def values_of_what_has_gradients(w, x):
    d = (x @ w).sin()
    with torch.no_grad():
        y = d * 2
        dynoc.graph_break()
        z = d * y + (x @ w).cos()
    return (d * z).sum() + (z * w).sum()


def on_within_off(w, x):
    with torch.no_grad():
        y = x * 2
        dynoc.graph_break()
        with torch.enable_grad():
            d = (y @ w).sin()
            dynoc.graph_break()
            d = d.exp()
        e = d * 3
    return (d * e).sum()


def in_a_list(w, x):
    held = [w.exp()]
    with torch.no_grad():
        y = torch.normal(x, 1.0)
        dynoc.graph_break()
    return (held[0].sum() * y).sum()


def off_by_a_call(w, x):
    d = x @ w
    torch.set_grad_enabled(False)
    y = (x @ w).sin()
    dynoc.graph_break()
    torch.set_grad_enabled(True)
    return (d * y).sum()


@torch.no_grad()
def averaged(w, x):
    dynoc.graph_break()
    with torch.enable_grad():
        return (x @ w).sin().sum()


BROKEN = [before_and_behind, nothing_within, values_of_what_has_gradients, on_within_off, in_a_list, off_by_a_call, averaged]


def gradients(function, seed):
    torch.manual_seed(seed)
    w = torch.randn(4, 4).requires_grad_()
    y = function(w, torch.randn(4, 4))
    assert torch.is_grad_enabled()
    return y.requires_grad, y.detach(), torch.autograd.grad(y, w)[0]


@pytest.mark.parametrize("function", BROKEN, ids=lambda f: f.__name__)
def test_breaks_where_gradients_are_off(function):
    fast = dynoc.optimize(function, wait=True)
    for seed in range(5):
        found, expected = gradients(fast, seed), gradients(function, seed)
        assert found[0] is expected[0] is True
        for a, b in zip(found[1:], expected[1:], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    assert sum(e.hits for e in fast.entries) > 4


def test_a_call_that_raises_behind_no_grad():
    """The graph that begins where gradients are off is left where they are on."""

    def function(w, x):
        d = x @ w
        with torch.no_grad():
            dynoc.graph_break()
        try:
            return torch.linalg.cholesky(d @ d.T + x).sum()
        except torch.linalg.LinAlgError:
            assert torch.is_grad_enabled()
            return (d * 2).sum()

    fast = dynoc.optimize(function, wait=True)
    for shift in (9.0, 9.0, -900.0, 9.0, -900.0):
        seen = []
        for f in (fast, function):
            torch.manual_seed(0)
            w = torch.randn(4, 4).requires_grad_()
            y = f(w, torch.eye(4) * shift)
            seen.append((y.detach(), torch.autograd.grad(y, w)[0]))
        for a, b in zip(*seen, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def rotary(w, x):
    turned = torch.view_as_complex((x @ w).float().reshape(4, 2, 2)) * torch.polar(torch.ones(2), torch.arange(2.0))
    return (torch.view_as_real(turned).flatten(1).type_as(x) * x).sum()


VIEWS = {
    "as complex": lambda w, x: (torch.view_as_complex(w.view(4, 2, 2)) * (2 + 1j)).abs().sum(),
    "as complex, of what is computed": lambda w, x: (torch.view_as_complex((w * x).view(4, 2, 2)) * (2 + 1j)).imag.sum(),
    "parts": lambda w, x: (torch.view_as_complex(w.view(4, 2, 2)).real * 1.5).sum(),
    "and back": lambda w, x: (torch.view_as_real(torch.view_as_complex(w.view(4, 2, 2)))[1:] * 2).sin().sum(),
    "a view of one": lambda w, x: (torch.view_as_complex(w.view(4, 2, 2))[1:].T.real * 3).exp().sum(),
    "rotary": rotary,
    "bytes, which have none": lambda w, x: (w * x).sum() + (w.view(torch.int64) & 1).sum() + w.view(4, 4).view(torch.int64).sum(),
    "detached": lambda w, x: (w.detach()[1:] * w[1:]).sum() + (w.view(2, 8).detach().T @ w.view(2, 8)).sum(),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_that_reinterpret(name):
    function = VIEWS[name]
    fast = dynoc.optimize(function, wait=True)
    for seed in range(4):
        found, expected = gradients(fast, seed), gradients(function, seed)
        for a, b in zip(found[1:], expected[1:], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    assert [e.hits for e in fast.entries] == [3]
