"""Changes in place while gradients are recorded: in their place among the steps of one graph, and for autograd as in eager."""

import copy

import pytest

torch = pytest.importorskip("torch")

from compare import dynoc  # noqa: E402

F = torch.nn.functional
KEPT, COUNT = torch.zeros(4, dtype=torch.float64), torch.zeros((), dtype=torch.long)


@pytest.fixture(autouse=True)
def doubles():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    dynoc.counters.clear()
    yield
    torch.set_default_dtype(before)


def augmented(x):
    h = x * 2
    h += 0.5
    h -= x[0]
    return h * 3


def through_a_view_behind_a_change(x):
    h = x * 2
    y = torch.zeros(4, 3)
    h[:, 0] = h[:, 1] * 2
    h[h < 0] = 0.1
    y[:, 1:] = h[:, :2]
    y[:, 0] += h[:, 2]
    return (y * y).sum() + h.mean()


def activation(x):
    h = x * 2
    F.relu_(h)
    return torch.tanh(h)


def activation_by_flag(x):
    h = F.relu(x * 2, inplace=True)
    return h * 2 + F.leaky_relu(h * 1, 0.2, inplace=True) + F.elu(x * 3, inplace=True)


def items(x):
    h = x * 2
    h[:, 0] = 1.0
    h[:, 1:3] *= 0.5
    h[1] = x.sum(0)
    return h.exp()


def filled(x):
    out = torch.zeros(4, 4)
    out.copy_(x * 2)
    out[out < -0.5] = 0
    return torch.sigmoid_(out.clone()) + out


def rows(x):
    out = torch.empty(3, 4, 4)
    for i in range(3):
        out[i] = x * i
    return out.sum(0).tanh()


def running_mean(x):
    h = x * 2
    with torch.no_grad():
        KEPT.mul_(0.9).add_(h.mean(0), alpha=0.1)
    return h + KEPT


def counter(x):
    y = x + COUNT
    COUNT.add_(1)
    COUNT.add_(2)
    return y + x * COUNT


def read_before_and_behind(x):
    before = KEPT * 2
    KEPT.add_(1)
    behind = KEPT * 3
    KEPT.mul_(2)
    return x * before + x * behind + KEPT


def detached(x):
    h = x * 2
    h.detach().add_(1)
    return h * 3


def seen_through_a_view(x):
    h = x.clone()
    v = h[0]
    h.mul_(2)
    v.add_(1)
    return v * h.sum() + h


def square_before(x):
    h = x * 2
    h2 = h + h.exp()
    h.add_(1)
    return h2 * h


def filled_in_turns(x):
    a = torch.zeros(4, 4)
    a[0] = 5.0
    b = a * 2
    a[1] = x[1]
    c = a - x
    with torch.no_grad():
        a[2] = 7.0
    return b * x + c + a


def leaf_under_no_grad(x):
    y = x * 1
    with torch.no_grad():
        x += 1
        x.mul_(0.5)
    return y + x


def batch_norm(x):
    return F.batch_norm(x, KEPT, KEPT.exp(), training=True)


def saved_and_changed(x):
    h = torch.tanh(x)
    h.mul_(2)
    return h


def leaf(x):
    x.add_(1)
    return x * 2


FUNCTIONS = [
    through_a_view_behind_a_change,
    augmented, activation, activation_by_flag, items, filled, rows, running_mean, counter, read_before_and_behind, detached,
    seen_through_a_view, square_before, filled_in_turns, leaf_under_no_grad, batch_norm,
]  # fmt: skip


def outcome(function):
    """The function's value, its gradient, and what it changed; a new tensor each time, as it may be changed."""
    torch.manual_seed(0)
    KEPT.copy_(torch.arange(4.0))
    COUNT.fill_(3)
    versions = KEPT._version, COUNT._version
    x = torch.randn(4, 4, requires_grad=True)
    y = function(x)
    version = y._version
    (gradient,) = torch.autograd.grad((y * y).sum(), x)
    changes = KEPT._version - versions[0], COUNT._version - versions[1], version, x._version
    return y.detach(), gradient, x.detach(), KEPT.clone(), COUNT.clone(), changes


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_changes_are_part_of_one_graph(function):
    fast = dynoc.optimize(function, wait=True)
    expected = outcome(function)
    for _ in range(3):
        seen = outcome(fast)
        assert all(torch.allclose(a, b) for a, b in zip(expected[:5], seen[:5], strict=True)), (expected, seen)
        assert expected[5] == seen[5]
    assert len(fast.entries) == 1 and fast.entries[0].hits == 2 and not fast.refusals


@pytest.mark.parametrize("function", [saved_and_changed, leaf], ids=lambda f: f.__name__)
def test_errors_are_pytorchs(function):
    fast = dynoc.optimize(function, wait=True)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="inplace|in-place"):
            outcome(fast)


def test_a_change_that_raises_in_the_middle_leaves_the_graph_there():
    """What was changed before stays changed, once, and the exception comes from its line."""

    def function(x, y):
        KEPT.add_(1)
        h = x * 2
        h.add_(y)
        return h * KEPT

    fast = dynoc.optimize(function, wait=True)
    x, y = torch.randn(4, 4, requires_grad=True), torch.randn(4)
    for _ in range(2):
        fast(x, y)
    assert fast.entries[0].hits == 1
    KEPT.zero_()
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape|must match the size"):
        fast(x, torch.randn(2, 4, 4))
    assert KEPT.tolist() == [1.0] * 4


def test_rows_of_a_tensor_are_unpacked():
    def function(x):
        a, b = x
        return a * b + sum(p * q for p, q in zip(x, x.flip(0), strict=True))

    fast = dynoc.optimize(function, wait=True)
    x = torch.randn(2, 5, requires_grad=True)
    for _ in range(3):
        assert torch.allclose(fast(x), function(x))
    assert [e.hits for e in fast.entries] == [2]
    with pytest.raises(ValueError, match="too many values"):
        fast(torch.randn(3, 5, requires_grad=True))
    with pytest.raises(TypeError, match="0-d tensor"):
        fast(torch.tensor(1.0))


def test_gradients_of_halves_are_not_lost():
    """A row of ops.def that autograd follows in single and double precision alone."""

    def function(x, w):
        return F.relu(x @ w).tanh().sum()

    fast = dynoc.optimize(function, wait=True)
    x, w = torch.randn(4, 4, dtype=torch.bfloat16), torch.randn(4, 4, dtype=torch.bfloat16, requires_grad=True)
    for _ in range(3):
        assert torch.equal(torch.autograd.grad(fast(x, w), w)[0], torch.autograd.grad(function(x, w), w)[0])


def test_a_change_comes_behind_what_makes_the_memory():
    def function(y, z):
        v = z.sum(0, keepdim=True).expand(3, 4)
        w = v * 1
        w[0] = 1.0
        return y.floor(), v, w

    fast = dynoc.optimize(function, wait=True)
    y, z = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    for _ in range(3):
        assert all(torch.allclose(a, b) for a, b in zip(fast(y, z), function(y, z), strict=True))
    assert [e.hits for e in fast.entries] == [2]


def test_a_graph_that_is_left_has_made_the_changes_before_the_call_and_no_others():
    """The first waits for what is computed, the last for nothing: neither goes past the call, which raises."""

    def function(x, m, before, behind):
        h = (x * 2).sin()
        before.copy_(h.detach())
        root = torch.linalg.cholesky(m)
        behind.add_(1)
        return h.sum() * root

    def outcome(of, x, m):
        before, behind = torch.zeros(3), torch.tensor(0)
        try:
            of(x, m, before, behind)
        except torch.linalg.LinAlgError:
            behind = -behind
        return before, before._version, behind, behind._version

    fast = dynoc.optimize(function, wait=True)
    for sign in (1, 1, 1, -1, 1):
        x, m = torch.randn(3, requires_grad=True), sign * torch.eye(3)
        found, expected = outcome(fast, x, m), outcome(function, x, m)
        assert torch.allclose(found[0], expected[0]) and found[1:] == expected[1:]
    assert fast.entries[0].hits == 4


def test_batches_are_counted_once_beside_a_spectral_norm():
    """The graph is left at a product of the power method, and the counter of the layer behind that waits for nothing."""
    layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(6, 6))
    plain = torch.nn.Sequential(layer, torch.nn.BatchNorm1d(6))
    model = copy.deepcopy(plain)
    fast, x = dynoc.optimize(model, wait=True), torch.randn(7, 6)
    for _ in range(4):
        fast(x).square().mean().backward()
        plain(x).square().mean().backward()
    for (name, found), expected in zip(model.named_buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(found, expected, msg=name)


def test_a_graph_is_left_at_a_call_with_several_results():
    """Experts of a mixture: each takes the rows that chose it, which the next look for rows comes behind."""

    def mixture(x, weights, chosen, shares):
        total = torch.zeros_like(x)
        for i in range(3):
            rows, place = torch.where(chosen == i)
            if rows.numel() == 0:
                continue
            total.index_add_(0, rows, torch.relu(x[rows] @ weights[i]) * shares[rows, place, None])
        return total * 2.0

    fast = dynoc.optimize(mixture, wait=True)
    weights = torch.randn(3, 4, 4, dtype=torch.float64, requires_grad=True)
    shares = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, 4, dtype=torch.float64)
    full = [[0, 1], [1, 2], [2, 0]]
    for chosen in (full, full, [[0, 1], [1, 0], [0, 1]], [[0, 2], [2, 0], [0, 2]], [[1, 2], [2, 1], [1, 2]], full):
        given = x, weights, torch.tensor(chosen), shares
        found, expected = fast(*given), mixture(*given)
        torch.testing.assert_close(found, expected)
        gradients = [torch.autograd.grad(t.square().sum(), (weights, shares)) for t in (found, expected)]
        for a, b in zip(*gradients, strict=True):
            torch.testing.assert_close(a, b)
