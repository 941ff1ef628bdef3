"""Small products of matrices are made in the part of a graph that they stand in: with it they are one node of autograd's."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from compare import dynoc  # noqa: E402


def names_behind(*tensors):
    """What autograd's nodes are called, without those of leaves."""
    seen, todo = [], [t.grad_fn for t in tensors]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.append(node)
            todo += [n for n, _ in node.next_functions]
    return sorted(n.name() for n in seen if "AccumulateGrad" not in n.name())


def gated(x, h, weight, bias):
    i, o, c = F.linear(torch.cat([h, x], 1), weight, bias).chunk(3, 1)
    return torch.sigmoid(o) * torch.tanh(F.elu(c) * torch.sigmoid(i) + h)


def by_operators(x, h, weight, bias):
    return torch.tanh(torch.cat([h, x], 1) @ weight[:4].t() + bias[:4]) * torch.sigmoid(h) * torch.exp(-h * h)


def without_bias(x, h, weight, bias):
    return torch.exp(torch.tanh(F.linear(x, weight[:4, :3]))) * torch.sigmoid(h) * torch.sigmoid(bias[0])


def two_layers(x, h, weight, bias):
    y = torch.tanh(F.linear(torch.cat([h, x], 1), weight, bias))
    return torch.sigmoid(F.linear(y[:, :7], weight, bias)) * torch.exp(-y)


def along_more_axes(x, h, weight, bias):
    rows = torch.cat([h, x], 1).reshape(-1, 1, 7)
    y = torch.tanh(F.linear(rows, weight, bias)) * torch.exp(-rows.sum())
    return torch.sigmoid(y @ weight[:, :5].contiguous()).transpose(0, 2)


FUNCTIONS = {
    "gated": gated,
    "by_operators": by_operators,
    "without_bias": without_bias,
    "two_layers": two_layers,
    "along_more_axes": along_more_axes,
}


def leaves(rows=5, dtype=torch.float64):
    draw = torch.Generator().manual_seed(rows)
    sizes = (rows, 3), (rows, 4), (12, 7), (12,)
    return [torch.randn(s, generator=draw, dtype=dtype).requires_grad_() for s in sizes]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_node_with_eagers_gradients(name):
    function, fast = FUNCTIONS[name], dynoc.optimize(FUNCTIONS[name], wait=True)
    fast(*leaves())
    for rows in (5, 6, 1, 5):
        x, y = leaves(rows), leaves(rows)
        expected, found = function(*x), fast(*y)
        torch.testing.assert_close(found, expected)
        found.sin().sum().backward()
        expected.sin().sum().backward()
        for a, b in zip(x, y, strict=True):
            torch.testing.assert_close(a.grad, b.grad)
            assert rows == 1 or a.grad.stride() == b.grad.stride()
    assert fast.entries[0].hits >= 3


def test_the_product_is_in_the_node_of_what_follows_it():
    fast = dynoc.optimize(gated, wait=True)
    for _ in range(2):
        y = fast(*leaves())
    assert names_behind(y) == ["CapturedBackward"]


def test_a_product_along_three_axes_is_in_the_node_too():
    fast = dynoc.optimize(lambda x, w, b: torch.tanh(F.linear(x, w, b)) * 2, wait=True)
    for _ in range(2):
        y = fast(*(torch.ones(s, requires_grad=True) for s in ((2, 3, 4), (5, 4), (5,))))
    assert names_behind(y) == ["CapturedBackward"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_gradients(name):
    fast = dynoc.optimize(FUNCTIONS[name], wait=True)
    fast(*leaves(2))
    assert torch.autograd.gradcheck(fast, leaves(2), fast_mode=True)
    assert torch.autograd.gradgradcheck(fast, leaves(2), fast_mode=True)


LYING = {  # sizes of x and of the weight, and what is computed of both
    "product": ((6, 5), (5, 7), lambda x, w: torch.tanh(x @ w) * 2 + x.sum()),
    "by_rows": ((6, 5), (7, 5), lambda x, w: torch.tanh(x @ w.t()) * 2),
    "of_columns": ((5, 6), (5, 7), lambda x, w: torch.tanh(x.t() @ w) * 2),
    "both": ((5, 6), (7, 5), lambda x, w: torch.tanh(x.T @ w.mT) * 2),
    "layer": ((6, 5), (7, 5), lambda x, w: torch.tanh(F.linear(x, w)) * 2),
    "layer_of_columns": ((5, 6), (5, 7), lambda x, w: torch.tanh(F.linear(x.t(), w.t())) * 2),
    "twice": ((6, 5), (5, 7), lambda x, w: torch.tanh(x.t().t() @ w.transpose(0, 1).t()) * 2),
    "piece": ((6, 5), (7, 9), lambda x, w: torch.tanh(x @ w[:, :5].t()) * 2),
    "layer_of_piece": ((6, 5), (7, 9), lambda x, w: torch.tanh(F.linear(x, w[:, :5])) * 2),
    "bias_first": ((6, 5), (7, 5), lambda x, w: torch.tanh(torch.addmm(w[:, 0], x, w.t())) * 2),
    "with_itself": ((6, 5), (7, 5), lambda x, w: torch.tanh(w @ w.t()) * 2 + x.sum()),
    "sequence": ((2, 6, 5), (7, 5), lambda x, w: torch.tanh(F.linear(x, w)) * 2),
    "stack": ((3, 2, 6, 5), (5, 7), lambda x, w: torch.tanh(x @ w) * 2),
    "turned_sequence": ((5, 6, 2), (7, 5), lambda x, w: torch.tanh(F.linear(x.permute(2, 1, 0), w)).permute(2, 1, 0) * 2),
    "sequence_alone": ((2, 6, 5), (7, 5), lambda x, w: F.linear(torch.tanh(x), w)),
    "one_unit": ((6, 5), (1, 5), lambda x, w: torch.exp(F.linear(x, w)) * 2),
}


@pytest.mark.parametrize("name", LYING)
def test_gradients_lie_in_memory_as_eagers_do(name):
    """Those that autograd.grad gives, which no parameter's layout decides, and gradients of them."""
    size, weight_size, function = LYING[name]
    fast = dynoc.optimize(function, wait=True)
    draw = torch.Generator().manual_seed(3)
    x, w = (torch.randn(s, generator=draw, dtype=torch.float64).requires_grad_() for s in (size, weight_size))
    fast(x, w)
    made = []
    for f in (function, fast):
        first = torch.autograd.grad(f(x, w).sum(), (x, w), create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), (x, w), allow_unused=True)
        made.append([*first, *second])
    for a, b in zip(*made, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b)
            assert a.stride() == b.stride() or 1 in a.shape
    assert fast.entries[0].hits >= 1


@pytest.mark.parametrize("frozen", range(4))
def test_some_want_no_gradient(frozen):
    fast = dynoc.optimize(gated, wait=True)
    for _ in range(3):
        x = leaves()
        x[frozen].requires_grad_(False)
        wanted = [t for t in x if t.requires_grad]
        expected = torch.autograd.grad(gated(*x).sum(), wanted)
        for a, b in zip(torch.autograd.grad(fast(*x).sum(), wanted), expected, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("rows", [lambda x: x.transpose(0, 1), lambda x: x[:, ::2], lambda x: x])
def test_rows_that_are_changed_later(rows):
    """Of rows that don't lie in turn eager saves a copy, which no change of them touches."""

    def function(x, w):
        t = x.detach()
        y = torch.tanh(t @ w)
        t.mul_(2)
        return y

    fast = dynoc.optimize(function, wait=True)
    for _ in range(3):
        outcomes = []
        for f in (function, fast):
            draw = torch.Generator().manual_seed(5)
            x, w = torch.randn(2, 4, 3, generator=draw), torch.randn(3, 5, generator=draw, requires_grad=True)
            try:
                f(rows(x), w).sum().backward()
            except RuntimeError as error:
                outcomes.append("modified by an inplace operation" in str(error))
            else:
                outcomes.append(w.grad)
        torch.testing.assert_close(outcomes[1], outcomes[0])


def test_a_weight_that_was_changed_raises():
    fast = dynoc.optimize(gated, wait=True)
    fast(*leaves())
    x = leaves()
    y = fast(*x)
    with torch.no_grad():
        x[2].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    x[2].grad = None
    fast(*x).sum().backward()
    assert x[2].grad is not None


def test_backward_twice_and_batches_of_gradients():
    fast = dynoc.optimize(gated, wait=True)
    fast(*leaves())
    x = leaves()
    y, expected = fast(*x), gated(*x)
    batch = torch.randn(3, *y.shape, dtype=y.dtype)
    found = torch.autograd.grad(y, x, batch, retain_graph=True, is_grads_batched=True)
    for a, b in zip(found, torch.autograd.grad(expected, x, batch, is_grads_batched=True), strict=True):
        torch.testing.assert_close(a, b)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_large_products_are_pytorchs():
    fast = dynoc.optimize(lambda x, w, b: torch.exp(torch.tanh(F.linear(x, w, b))) * torch.sigmoid(x[:, :1]), wait=True)
    sizes = (8, 300), (300, 300), (300,)
    for _ in range(2):
        y = fast(*(torch.ones(s, requires_grad=True) for s in sizes))
    assert "AddmmBackward0" in names_behind(y)


def test_exact_has_eagers_bits():
    fast = dynoc.optimize(gated, wait=True, exact=True)
    for _ in range(3):
        x = leaves(16, torch.float32)
        expected, found = gated(*x), fast(*x)
        assert torch.equal(found, expected)
        for a, b in zip(torch.autograd.grad(found.sum(), x), torch.autograd.grad(expected.sum(), x), strict=True):
            assert torch.equal(a, b)


def test_a_break_behind_a_product():
    def function(x, h, weight, bias):
        y = torch.tanh(F.linear(torch.cat([h, x], 1), weight, bias)) * torch.sigmoid(bias)
        print(end="")
        return torch.exp(y) + y

    fast = dynoc.optimize(function, wait=True)
    for rows in (5, 5, 7):
        x = leaves(rows)
        expected, found = function(*x), fast(*x)
        for a, b in zip(torch.autograd.grad(found.sum(), x), torch.autograd.grad(expected.sum(), x), strict=True):
            torch.testing.assert_close(a, b)


def test_a_model_is_trained_as_in_eager():
    def trained(wrap):
        torch.manual_seed(0)
        layers = [torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16), torch.nn.SiLU(), torch.nn.Linear(16, 3)]
        model = torch.nn.Sequential(*layers).double()
        step, optimizer = wrap(model), torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        x, y = torch.randn(10, 6).double(), torch.randn(10, 3).double()
        losses = []
        for _ in range(12):
            optimizer.zero_grad()
            loss = F.mse_loss(step(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack([*losses, *(p.detach().sum() for p in model.parameters())])

    torch.testing.assert_close(trained(lambda m: dynoc.optimize(m, wait=True)), trained(lambda m: m))


SIZES = [(16, 384, 160), (12, 160, 384), (384, 16, 160), (17, 129, 65), (13, 383, 33), (16, 500, 40), (64, 128, 128)]


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("rows, terms, columns", SIZES)
def test_the_order_of_sums_is_the_librarys(rows, terms, columns, turned):
    """Loops of dynoc's own make a product only with the library's bits: of libraries whose order of sums is known."""
    if dynoc._dynoc._panel_order(16, 160, 384, False, False) <= 0:
        pytest.skip("another library, or a processor without AVX-512")
    order = dynoc._dynoc._panel_order(rows, terms, columns, *turned)
    if turned[1] and rows > 16:
        assert order == -1  # the library packs the right matrix in less time
    else:
        assert order == (terms if terms <= 192 else terms // 2 if terms <= 384 else 192)


def test_gradients_of_layers_of_that_size():
    """Forward and backward of layers whose products are as large as a small network's."""

    def layer(x, weight, bias):
        return torch.tanh(F.linear(x, weight, bias)).sigmoid().exp()

    fast = dynoc.optimize(layer, wait=True)
    draw = torch.Generator().manual_seed(4)
    for rows, terms, columns in [(16, 160, 384), (16, 160, 384), (15, 161, 129), (33, 70, 130), (64, 128, 128), (16, 384, 160)]:
        tensors = [torch.randn(s, generator=draw) for s in ((rows, terms), (columns, terms), (columns,))]
        x, y = ([t.clone().requires_grad_() for t in tensors] for _ in range(2))
        direction = torch.randn((rows, columns), generator=draw)
        for _ in range(2):
            products = [torch.autograd.grad(f(*v), v, direction) for f, v in ((layer, x), (fast, y))]
            for a, b in zip(*products, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("columns", [384, 390])
def test_sums_that_underflow_have_the_librarys_sign(columns):
    fast = dynoc.optimize(lambda x, y: (x @ y) * 2, wait=True)
    x, weight = torch.full((16, 160), -1e-30), torch.full((columns, 160), 1e-30)
    for right in (weight.t(), weight.t().contiguous()):
        wanted = torch.signbit(torch.matmul(x, right))
        for _ in range(3):
            assert torch.equal(torch.signbit(fast(x, right)), wanted)
