"""Gradients of halves and of complex numbers, and training under autocast: as eager's."""

import pytest

import dynoc
from dynoc import _dynoc

torch = pytest.importorskip("torch")
functional = torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore:Casting complex values to real")

ELEMENTWISE, FLOAT_RESULTS = 1, (1, 2)  # the dtype rules SAME and FLOAT
ROWS = [r for r in _dynoc._op_table() if r[3] == ELEMENTWISE and r[4] in FLOAT_RESULTS and r[8] is not None]
OTHER_NAMES = {"power": "pow", "absolute": "abs", "arcsin": "asin", "remainder": "remainder"}


def functions():
    """PyTorch's function of each row of the table that it has one of, with how many tensors it takes."""
    for row in ROWS:
        function = getattr(torch, OTHER_NAMES.get(row[1], row[1]), None)
        if function is not None and row[1] not in ("clip", "where", "ldexp", "nextafter"):
            yield row[1], function, row[2]


BY_ROW = {name: (function, arity) for name, function, arity in functions()}


def called(function, arity):
    """The function as a Python function, of as many tensors, with another operator on either side."""
    if arity == 1:
        return lambda x, y: function(x * y) * y
    return lambda x, y: function(x, y) * y


def gradients(function, arguments, weights, create_graph=False):
    leaves = [a.detach().clone().requires_grad_() for a in arguments]
    out = function(*leaves)
    weighed = out * weights[: out.numel()].view(out.shape).to(out.dtype)
    total = torch.view_as_real(weighed).sum() if out.is_complex() else weighed.sum()
    return out, torch.autograd.grad(total, leaves, create_graph=create_graph, allow_unused=True)


def applicable(function, arguments):
    try:
        out, seen = gradients(function, arguments, torch.ones(100))
    except (RuntimeError, TypeError):
        return False
    return out.requires_grad and any(g is not None for g in seen)


# ---- halves: an operator rounds where PyTorch's rounds, so that the bits are eager's but where libraries differ in the last one

@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", BY_ROW)
def test_a_row_of_halves(name, dtype):
    function = called(*BY_ROW[name])
    torch.manual_seed(len(name))
    fast = dynoc.optimize(function, wait=True)
    if not applicable(function, [torch.rand(2, 3).to(dtype)] * 2):
        pytest.skip("PyTorch has no gradient of it")
    for _ in range(3):
        arguments = [(torch.rand(5, 7) * 0.8 + 0.1).to(dtype) for _ in range(2)]
        weights = torch.randn(100).to(dtype)
        (expected, of_eager), (seen, of_fast) = (gradients(f, arguments, weights) for f in (function, fast))
        for a, b in zip((expected, *of_eager), (seen, *of_fast), strict=True):
            assert a is b is None or (a.dtype, a.stride()) == (b.dtype, b.stride())
            if a is not None:
                torch.testing.assert_close(b, a, rtol=4 * torch.finfo(dtype).eps, atol=0.02, equal_nan=True)
    assert sum(e.hits for e in fast.entries) == 2


HALVES = {
    "an activation by hand": lambda x, y: x * torch.sigmoid(x) * y,
    "a norm by hand": lambda x, y: x / (x.pow(2).mean(-1, keepdim=True) + 1e-3).sqrt() * y[0],
    "softmax": lambda x, y: (x * y).softmax(-1),
    "broadcasting sums": lambda x, y: torch.tanh(x * y[:1] + y[:, :1]),
    "memory that is written": lambda x, y: torch.cat([x * 2, y.sin()], 1).cos(),
    "rolled": lambda x, y: torch.maximum(x, y.roll(1, 0)),
    "numbers": lambda x, y: (x * 0.1 + 1) / 3 - y,
    "to float and back": lambda x, y: (x.float() * 1.1).to(x.dtype) * y,
    "activations": lambda x, y: functional.gelu(x) + functional.silu(y) + functional.softplus(x),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", HALVES)
def test_halves(name, dtype):
    torch.manual_seed(0)
    fast = dynoc.optimize(HALVES[name], wait=True)
    for _ in range(4):
        arguments = [torch.randn(5, 7).to(dtype) for _ in range(2)]
        weights = torch.randn(100).to(dtype)
        (expected, of_eager), (seen, of_fast) = (gradients(f, arguments, weights) for f in (HALVES[name], fast))
        for a, b in zip((expected, *of_eager), (seen, *of_fast), strict=True):
            assert a.dtype == b.dtype
            torch.testing.assert_close(b, a, rtol=8 * torch.finfo(dtype).eps, atol=0.02)
    assert sum(e.hits for e in fast.entries) == 3


# ---- complex numbers

COMPLEX = {
    "numbers": lambda x, y: x * 1j + 2.5 - y / (1 + 2j),
    "real and imaginary parts": lambda x, y: x.real * y.imag + x.imag.sin(),
    "real with complex": lambda x, y: x.real * y + x * y.imag,
    "conjugates": lambda x, y: torch.conj_physical(x) * y + x.conj(),
    "negative tensors": lambda x, y: x.conj().imag * 2 + y.conj().imag,
    "absolute values": lambda x, y: (x * y).abs() + y.angle(),
    "squared absolute values": lambda x, y: (x * x.conj()).real * y.real,
    "sums": lambda x, y: (x * y).sum(1) + x.mean(),
    "broadcasting": lambda x, y: x * y[:, :1] + y[0].real,
    "views": lambda x, y: (x[:, 1:] * y[:, :-1]).t().reshape(-1).exp(),
    "written memory": lambda x, y: torch.stack([x, y * x]).square().sum(0),
    "products of matrices": lambda x, y: (x * y) @ y.mH,
    "put together": lambda x, y: torch.complex(x.real * 2, y.imag.sin()) + torch.polar(x.abs(), y.angle()),
    "transforms": lambda x, y: torch.fft.ifft(torch.fft.fft(x * y) * x),
    "converted": lambda x, y: x.real.to(torch.complex128) * y,
    "lookups": lambda x, y: x[torch.tensor([0, 1, 1])] * y[0],
}
COMPLEX |= {name: called(*pair) for name, pair in BY_ROW.items()}


@pytest.mark.parametrize("name", COMPLEX)
def test_gradients_of_complex_numbers(name):
    function = COMPLEX[name]
    torch.manual_seed(len(name))

    def arguments():
        return [torch.complex(torch.rand(3, 4) + 0.2, torch.rand(3, 4) - 0.4).to(torch.complex128) for _ in range(2)]

    if not applicable(function, arguments()):
        pytest.skip("PyTorch has no gradient of it")
    fast = dynoc.optimize(function, wait=True)
    for i in range(4):
        given, weights = arguments(), torch.randn(100, dtype=torch.complex128)
        weights = weights if function(*given).is_complex() else weights.real
        first = [gradients(f, given, weights, create_graph=i == 3) for f in (function, fast)]
        for a, b in zip(*((out, *found) for out, found in first), strict=True):
            assert a is b is None or a.dtype == b.dtype
            if a is not None:
                torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9, equal_nan=True)
    assert torch.autograd.gradcheck(fast, [a.requires_grad_() for a in arguments()])
    assert torch.autograd.gradgradcheck(fast, [a.requires_grad_() for a in arguments()])


def conjugates():
    given = torch.randn(4, dtype=torch.complex128).conj()
    assert given.is_conj()
    return given


def negatives():
    given = torch.randn(4, dtype=torch.complex128).conj().imag
    assert given.is_neg()
    return given


@pytest.mark.parametrize("gradient", [conjugates, negatives])
def test_a_backward_that_gets_bits_that_memory_does_not_show(gradient):
    def function(x):
        return torch.exp(x) * x

    fast = dynoc.optimize(function, wait=True)
    for _ in range(3):
        given = gradient()
        x = torch.randn(4, dtype=given.dtype, requires_grad=True)
        expected, seen = (torch.autograd.grad(f(x), x, given)[0] for f in (function, fast))
        torch.testing.assert_close(seen, expected)


def test_a_backward_that_gets_zeros_without_memory():
    """The derivative of a derivative of `masked_fill` by its mask is such a tensor."""

    def function(x, mask):
        return torch.masked_fill(torch.exp(x) * x, mask, 0.5).clamp(-1, 1)

    fast = dynoc.optimize(function, wait=True)
    draw = torch.Generator().manual_seed(1)
    for _ in range(3):
        x = torch.randn(3, 4, dtype=torch.float64, generator=draw).requires_grad_()
        made = []
        for f in (function, fast):
            first = torch.autograd.grad(f(x, x.detach() > 0).sum(), x, create_graph=True)[0]
            made.append((first, torch.autograd.grad(first.square().sum(), x)[0]))
            made[-1] += torch.autograd.grad(f(x, x.detach() > 0), x, torch._efficientzerotensor((3, 4), dtype=x.dtype))
        torch.testing.assert_close(made[1], made[0])


def test_a_backward_that_gets_batches():
    def function(x, y):
        return torch.exp(x) * x + torch.sin(y), x * y

    fast = dynoc.optimize(function, wait=True)
    for i in range(3):
        x, y = torch.randn(2, 4, dtype=torch.float64).unbind()
        x.requires_grad_()
        y.requires_grad_(i == 1)
        given = torch.randn(3, 4, dtype=torch.float64)
        expected, seen = (torch.autograd.grad(f(x, y)[0], x, given, is_grads_batched=True)[0] for f in (function, fast))
        torch.testing.assert_close(seen, expected)
        outs = [f(x, y) for f in (function, fast)]
        expected, seen = (torch.vmap(lambda g, o=o: torch.autograd.grad(o, x, (g, g[0] + x)))(given)[0] for o in outs)
        torch.testing.assert_close(seen, expected)
    jacobians = [torch.autograd.functional.jacobian(lambda x, f=f: f(x, y)[0], x, vectorize=True) for f in (function, fast)]
    torch.testing.assert_close(jacobians[1], jacobians[0])
    assert torch.autograd.gradcheck(fast, (x, y), check_batched_grad=True)


def test_a_backward_that_gets_a_sparse_gradient():
    def function(x):
        return torch.exp(x) * x

    fast = dynoc.optimize(function, wait=True)
    rows = torch.tensor([0, 2, 2])
    for _ in range(3):
        x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
        grads = []
        for f in (function, fast):
            torch.nn.functional.embedding(rows, f(x), sparse=True).square().sum().backward()
            grads.append(x.grad)
            x.grad = None
        torch.testing.assert_close(*(g.to_dense() for g in grads))


@pytest.mark.parametrize("options", [{}, {"wait": True}])
def test_forward_mode(options):
    """Tensors have tangents, which their memory doesn't show."""
    forward = torch.autograd.forward_ad

    def function(x):
        return (x * x.sin()).exp()

    def inside(x, t):
        with forward.dual_level():
            return forward.unpack_dual(function(forward.make_dual(x, t))).tangent

    fast, fast_inside = dynoc.optimize(function, **options), dynoc.optimize(inside, **options)
    for _ in range(4):
        x, t = torch.randn(2, 3).unbind()
        fast(x)
        with forward.dual_level():
            out = forward.unpack_dual(fast(forward.make_dual(x, t)))
        torch.testing.assert_close(out.primal, function(x))
        torch.testing.assert_close(out.tangent, inside(x, t))
        torch.testing.assert_close(fast_inside(x, t), inside(x, t))


# ---- autocast

class Network(torch.nn.Module):
    def __init__(self, dtype=None):
        super().__init__()
        self.first, self.last, self.scale = torch.nn.Linear(8, 32), torch.nn.Linear(32, 4), torch.nn.Parameter(torch.ones(32))
        self.dtype = dtype

    def layers(self, x):
        h = self.first(x)
        h = h * torch.sigmoid(h) * self.scale
        h = torch.tanh(h / (h.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt())
        return self.last(h + h.exp().clamp(max=3))

    def forward(self, x):
        if self.dtype is None:
            return self.layers(x)
        with torch.autocast("cpu", dtype=self.dtype):
            y = self.layers(x)
        return y.float() * 2


def trained(wrap, inside, outside, parameters):
    torch.manual_seed(0)
    model = Network(inside).to(parameters)
    served, optimizer = wrap(model), torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(8):
        x, target = torch.randn(16, 8, dtype=parameters), torch.randn(16, 4)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=outside or torch.bfloat16, enabled=outside is not None):
            loss = functional.mse_loss(served(x).float(), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("options", [{}, {"wait": True}])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("where", ["inside", "outside", "parameters"])
def test_training_in_lower_precision(where, dtype, options):
    how = {"inside": (dtype, None, torch.float32), "outside": (None, dtype, torch.float32), "parameters": (None, None, dtype)}
    expected = trained(lambda m: m, *how[where])
    seen = trained(lambda m: dynoc.optimize(m, **options), *how[where])
    assert seen[0] == pytest.approx(expected[0], rel=1e-2, nan_ok=True)
    for a, b in zip(expected[1], seen[1], strict=True):
        torch.testing.assert_close(b, a, rtol=2e-2, atol=2e-2, equal_nan=True)
