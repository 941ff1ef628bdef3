"""What backward alone reads of a part is one tensor for autograd, and nobody can tell: gradients of any order, hooks, modes."""

import pytest

torch = pytest.importorskip("torch")

from compare import dynoc  # noqa: E402


def gates(x, y):
    i, o = torch.sigmoid(x * 2), torch.tanh(y - 1)
    return torch.tanh(torch.exp(i * o) + i) * o


def joined(x, y):
    z = torch.cat([torch.exp(x), torch.sin(y)], -1)
    return torch.tanh(z) * torch.sigmoid(z * 3)


def of_two_types(x, y):
    a, b = torch.exp(x) * torch.tanh(x), torch.sigmoid(y).float()
    return torch.tanh(a * 2) * a + (torch.tanh(b) * torch.exp(b)).double()


def with_what_needs_none(x, y):
    mask = torch.exp(y.detach()) * torch.sigmoid(y.detach())
    return torch.tanh(torch.exp(x) * mask) * mask


def product(x, y):
    h = torch.tanh(x @ y.transpose(-1, -2))
    return torch.sigmoid(h) * torch.exp(h) * h


BODIES = [gates, joined, of_two_types, with_what_needs_none, product]
SHAPES = [(3, 5), (7, 1), (1, 1), (0, 4), (2, 64)]


def leaves(shape):
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(2)]


def orders(f, shape):
    """The value, and gradients of first, second and third order."""
    xs = leaves(shape)
    made = [f(*xs)]
    for _ in range(3):
        total = sum((t * t).sum() for t in made if t is not None and t.requires_grad)
        made = list(torch.autograd.grad(total, xs, create_graph=True, allow_unused=True))
        yield made


def assert_alike(got, expected, body=gates):
    close = {"rtol": 1e-5, "atol": 1e-6} if body is of_two_types else {"rtol": 1e-9, "atol": 1e-10}
    for a, b in zip(got, expected, strict=True):
        for x, y in zip(a, b, strict=True):
            assert (x is None) == (y is None) or torch.count_nonzero(x if y is None else y) == 0
            if x is not None and y is not None:
                torch.testing.assert_close(x, y, **close)


@pytest.mark.parametrize("options", [{}, {"verify": True}], ids=["code", "verified"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_gradients_of_gradients_go_through_a_block(body, shape, options):
    fast = dynoc.optimize(body, wait=True, options=options)
    fast(*leaves(shape))
    assert_alike(list(orders(fast, shape)), list(orders(body, shape)), body)
    assert fast.entries[0].hits > 0


def test_what_is_only_saved_is_one_tensor():
    fast = dynoc.optimize(gates, wait=True)
    for _ in range(2):
        y = fast(*leaves((16, 8)))
    saved = y.grad_fn.saved_tensors
    assert [t.ndim for t in saved].count(1) == 1 and len(saved) <= 3


def test_sizes_that_change_move_the_pieces():
    fast = dynoc.optimize(gates, wait=True)
    for shape in [(3, 5), (4, 7), (1, 9), (33, 17), (3, 5)]:
        assert_alike(list(orders(fast, shape)), list(orders(gates, shape)))


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_backward_that_is_made_twice_and_in_batches(body):
    fast = dynoc.optimize(body, wait=True)
    fast(*leaves((3, 5)))
    made = []
    for f in (body, fast):
        xs = leaves((3, 5))
        y = f(*xs)
        rows = torch.eye(y.numel(), dtype=y.dtype).reshape(-1, *y.shape)
        made.append([torch.autograd.grad(y, xs, rows, is_grads_batched=True, retain_graph=True, allow_unused=True)])
        for _ in range(2):
            made[-1].append(torch.autograd.grad(y.sum(), xs, retain_graph=True, allow_unused=True))
        y.sum().backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            y.sum().backward()
        made[-1].append([x.grad for x in xs])
    assert_alike(*made, body)


def test_a_call_that_is_served_before_there_is_code():
    fast = dynoc.optimize(gates)
    for _ in range(30):
        assert_alike(list(orders(fast, (40, 300))), list(orders(gates, (40, 300))))
