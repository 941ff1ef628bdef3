"""bfloat16: conversions and operators over all 65536 values, numbers and other dtypes beside it, in place, both tiers.
Reductions, softmax, norms and losses of it: test_torch_ops.py."""

import numpy as np
import pytest
from torch_cases import check, same, torch

import dynoc

F = torch.nn.functional
B, H = torch.bfloat16, torch.float16
SIZES = (0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000)
DTYPES = (torch.float64, torch.float32, H, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


def every(dtype=B):
    return torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype)


def finite(dtype=B):
    return every(dtype)[every(dtype).isfinite()]


def t(*shape, dtype=B, seed=0):
    generator = torch.Generator().manual_seed(sum(shape) + len(shape) + seed)
    return (torch.randn(shape, generator=generator) * 3).to(dtype)


def compiled(fn, **options):
    return dynoc.optimize(lambda *args: fn(*args), wait=True, fullgraph=True, **options)


def exactly(fn, *args, **options):
    """The first call records, the second one is the graph: the same values, nan where nan is."""
    fast = compiled(fn, **options)
    want = fn(*args)
    for _ in range(2):
        got = fast(*args)
        assert got.dtype == want.dtype and got.shape == want.shape and got.stride() == want.stride()
        assert torch.equal(got.isnan(), want.isnan()), fn
        assert torch.equal(got.nan_to_num(7), want.nan_to_num(7)), fn
    assert fast.entries[0].hits == 1
    return got


def mostly(fn, *args):
    """The same but for a hundredth, where the last bit of an exponential or a logarithm decides."""
    fast = compiled(fn)
    want, got = fn(*args), [fast(*args), fast(*args)][1]
    assert (got != want).float().mean() <= 0.01 and fast.entries[0].hits == 1
    same(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions_from_all_values(dtype):
    x = every()
    if not dtype.is_floating_point and dtype != torch.bool:  # of others C leaves open what comes
        x = finite()[(finite().abs() < 100) & (finite() >= (0 if dtype == torch.uint8 else -100))]
    exactly(lambda x: x.to(dtype), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions_to_bfloat16(dtype):
    if dtype in (torch.float32, torch.float64):
        high = torch.arange(65536, dtype=torch.int64) << 16
        bits = torch.cat([high | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)])  # 0x8000: between two
        x = bits.to(torch.int32).view(torch.float32).to(dtype)
        x = torch.cat([x, torch.tensor([1e300, -1e300, 1e-300, 5e-324], dtype=torch.float64).to(dtype)])
    else:
        x = every(H) if dtype == H else (torch.arange(70000) * 977 - 2**24).to(dtype)
    for fn in (lambda x: x.to(B), lambda x: x.bfloat16()):
        exactly(fn, x)


UNARY = ["neg", "abs", "floor", "ceil", "trunc", "round", "frac", "square", "sqrt", "rsqrt", "reciprocal", "relu", "deg2rad"]
CLOSE = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh"]
CLOSE += ["tanh", "asinh", "acosh", "atanh", "sigmoid", "erf", "erfc"]
ACTIVATIONS = ["silu", "gelu", "mish", "softplus", "logsigmoid", "hardswish", "hardsigmoid", "elu", "celu", "selu", "relu6"]
ACTIVATIONS += ["leaky_relu", "hardtanh", "hardshrink", "softsign", "tanhshrink"]


@pytest.mark.parametrize("dtype", [B, H])
@pytest.mark.parametrize("name", UNARY)
def test_operators_of_all_values(name, dtype):
    exactly(getattr(torch, name), every(dtype))


@pytest.mark.parametrize("name", CLOSE + ACTIVATIONS)
def test_functions_of_all_values(name):
    fn = getattr(torch, name, None) or getattr(F, name)
    x = finite() if name in ACTIVATIONS or name in ("sin", "cos", "tan") else every()
    x = x[x.abs() < 80] if name in ("gelu", "sinh", "cosh") else x  # far out PyTorch overflows in some places of a tensor
    check(lambda x: fn(x), [x], [x.flip(0)])


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "signbit", "logical_not"])
def test_truths_of_all_values(name):
    exactly(lambda x: getattr(torch, name)(x), every())


NUMBERS = {
    "add": lambda x: x + 1.7,
    "add_front": lambda x: 1.7 + x,
    "subtract": lambda x: x - 1.7,
    "subtract_from": lambda x: 1.7 - x,
    "multiply": lambda x: x * 1.7,
    "multiply_front": lambda x: 1.7 * x,
    "divide": lambda x: x / 1.7,
    "divide_by": lambda x: 1.7 / x,
    "floor_divide": lambda x: x // 1.7,
    "div_trunc": lambda x: torch.div(x, 1.7, rounding_mode="trunc"),
    "remainder": lambda x: x % 1.7,
    "fmod": lambda x: torch.fmod(x, 1.7),
    "alpha": lambda x: torch.add(x, x, alpha=3),
    "scaled": lambda x: torch.addcmul(x, x, x, value=1.7),
    "clamp": lambda x: x.clamp(-1.7, 1.7),
    "where": lambda x: torch.where(x > 0, x, 1.7),
    "masked_fill": lambda x: x.masked_fill(x > 1, 1.7),
    "greater": lambda x: (x > 1.7) | (x == 0.3) | (x <= -1.7),
    "hardshrink": lambda x: F.hardshrink(x, 1.7),
    "leaky_relu": lambda x: F.leaky_relu(x, 1.7),
    "square": lambda x: x**2,
    "fourth": lambda x: x**4,
    "whole": lambda x: (x + 3) * 2 - 1,
    "scalar_tensor": lambda x: x * torch.tensor(1.7) + torch.tensor(1.7, dtype=torch.float64),
    "scalar_tensor_front": lambda x: torch.tensor(1.7) * x,
}


@pytest.mark.parametrize("dtype", [B, H])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name, dtype):
    """Which operators round a number to the tensor's dtype first, and which compute with it in float."""
    exactly(NUMBERS[name], finite(dtype))


@pytest.mark.parametrize("dtype", [B, H])
def test_formulas_that_round_once(dtype):
    x, y = finite(dtype)[::5], finite(dtype).flip(0)[::5]
    x, y = x[(x.abs() < 90) & (y.abs() < 90)], y[(x.abs() < 90) & (y.abs() < 90)]
    check(lambda x, y: (torch.lerp(x, y, 0.3), torch.lerp(x, y, 0.7)), [x, y], [x[:1000], y[:1000]])
    check(lambda x, y: (torch.addcmul(x, y, y, value=0.3), torch.addcdiv(x, y, y + 1), x**3, x**0.3), [x, y], [x[:99], y[:99]])
    check(lambda x, y: (torch.add(x, y, alpha=0.3), torch.sub(x, y, alpha=2)), [x, y], [x[:99], y[:99]])


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64])
def test_promotion(dtype):
    def fn(x, y):
        differs = y - x if dtype != torch.bool else y * x
        return x + y, x * y, differs, torch.maximum(x, x + y.real), x > y.real, torch.where(x > 0, x, y)

    def operands(n):
        return [t(n), t(n, seed=1).to(dtype)]

    check(fn, operands(9), operands(40), captured=dtype != torch.complex64)
    check(lambda x, y: (x + y[0].real, x[0] * y), operands(9), operands(40), captured=dtype != torch.complex64)


@pytest.mark.parametrize("fn", [torch.add, torch.mul, torch.div, torch.atan2, torch.hypot, torch.fmax, torch.copysign])
def test_pairs(fn):
    x, y = finite()[::7], finite().flip(0)[::7]
    check(lambda x, y: fn(x, y), [x, y], [x[:1000], y[:1000]])


def test_sizes_and_layouts():
    def fn(x, y):
        return torch.exp(x) * y + 0.3, (x - y).abs().sum(-1), x.amax(0), (x > y).sum()

    fast = compiled(fn)
    for n in SIZES[1:] * 2:
        for args in (
            [t(n, 5), t(n, 5, seed=1)],
            [t(5, n).T, t(n, 5, seed=1)],
            [t(2 * n, 15)[::2, ::3], t(5)],
            [t(7, n, 9)[3].T, t(9, n)],
        ):
            same(fast(*args), fn(*args))
    check(lambda x: (x * 2, x.sum()), [t(34)], *([t(n)] for n in SIZES))
    check(lambda x: (x.sigmoid() * 3, x.float().mean()), [t(100003)], [t(5)])


def step(x, y):
    x += y
    x.mul_(1.5).clamp_(-2, 2)
    y[1:] = x[:-1]
    x[0] = 0.3
    x.copy_(x.float() * 2)
    return x


def test_in_place():
    check(step, *([t(n), t(n, seed=1)] for n in (2, 9, 33, 1000)))
    check(lambda x, w: x.add_(w), [t(9), t(9, dtype=torch.float32)], [t(33), t(33, dtype=torch.float32)])
    check(lambda x, w: w.add_(x), [t(9), t(9, dtype=torch.float32)], [t(33), t(33, dtype=torch.float32)])
    check(lambda x, o: torch.exp(x, out=o), [t(9), t(9)], [t(33), t(33)])


def test_views_and_new_tensors():
    def fn(x):
        y = torch.cat([x, x * 2], -1).reshape(-1)
        made = torch.zeros_like(x), torch.full_like(x, 1.7), x.new_ones(3), torch.zeros(2, dtype=B)
        return y, made, x.T, x.clone(), x[:, 1:], x[0]

    check(fn, [t(3, 4)], [t(5, 6)])
    places = torch.tensor([2, 0]), torch.tensor([1])
    check(lambda x, i: (x[i] + 1, x.index_select(0, i), x[None, ..., 0]), [t(3, 4), places[0]], [t(5, 6), places[1]])
    check(lambda x: torch.tensor([1.7, 2], dtype=B) * x, [t(3, 2)], [t(5, 2)])
    x = t(6)
    fast = compiled(lambda x: x[1:])
    for _ in range(2):
        assert fast(x).data_ptr() == x.data_ptr() + 2


def test_constants_and_items():
    constant = t(7, seed=3)
    check(lambda x: x * constant + constant[2], [t(3, 7)], [t(5, 7)])
    check(lambda x: (x.sum().item(), float(x[0]), bool(x[1] > 0), x.tolist()), [t(4)], captured=False)
    check(lambda x: x * float(x.numel()), [t(4)], [t(9)])


def test_products():
    linear = torch.nn.Linear(6, 5, dtype=B)
    with torch.no_grad():
        check(lambda x: linear(x).relu(), [t(3, 6)], [t(9, 6)])
        check(lambda x: F.linear(x, linear.weight) + 1, [t(3, 6)], [t(9, 6)])
        check(lambda x, y: (x @ y) * 2, [t(3, 4), t(4, 5)], [t(6, 7), t(7, 8)])


LOSSES = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth_l1": F.smooth_l1_loss,
    "huber": F.huber_loss,
    "huber_near": lambda x, y, reduction: F.huber_loss(x, y, reduction=reduction, delta=0.3),
    "kl_div_log": lambda x, y, reduction: F.kl_div(x, y, reduction=reduction, log_target=True),
    "logits": lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction=reduction),
    "weighted": lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, y.sigmoid(), pos_weight=y, reduction=reduction),
}


@pytest.mark.parametrize("dtype", [B, H])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_round_where_pytorch_rounds(name, dtype):
    x, y = t(5000, dtype=dtype), t(5000, dtype=dtype, seed=1)
    mostly(lambda x, y: LOSSES[name](x, y, reduction="none"), x, y)
    check(lambda x, y: LOSSES[name](x, y, reduction="sum") / 64, [x[:400], y[:400]], [x[:33], y[:33]])


@pytest.mark.parametrize("dtype", [B, H])
def test_softmax_rounds_where_pytorch_rounds(dtype):
    for n in (4, 33, 100):
        mostly(lambda x: x.log_softmax(-1), t(30, n, dtype=dtype))
        mostly(lambda x: x.log_softmax(0), t(30, n, dtype=dtype))


def test_mixed_layer_norm():
    w, b = torch.rand(9), torch.rand(9)
    check(lambda x: F.layer_norm(x, (9,), w, b), [t(3, 9)], [t(5, 9)])
    check(lambda x: F.layer_norm(x, (9,), w), [t(3, 9)], [t(5, 9)])


def test_both_tiers_give_the_same_bits(monkeypatch):
    def fn(x, y):
        return F.gelu(x) * 1.7 + y, F.softmax(x, -1), F.layer_norm(x, x.shape[-1:]), x.sum(0), x.var(1), x.argmax(1), x.cumsum(1)

    for n in SIZES[2:]:
        args = t(5, n), t(5, n, seed=1)
        fast, plain = compiled(fn), compiled(fn)
        want = [fast(*args), fast(*args)][1]
        assert fast.entries[0].tier == "native"
        with monkeypatch.context() as m:
            m.setattr(dynoc.config, "compiler", "/nonexistent/cc")
            got = [plain(*args), plain(*args)][1]
        assert plain.entries[0].tier != "native" and plain.entries[0].hits == 1
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def test_guards_and_graphs():
    fast = dynoc.optimize(lambda x: (x * 2).exp(), wait=True)
    for dtype in (B, torch.float32, H, B, H):
        same(fast(t(5, dtype=dtype)), (t(5, dtype=dtype) * 2).exp())
    assert len(fast.entries) == 3
    (entry,) = (e for e in fast.entries if "x.dtype is torch.bfloat16" in str(e.guards))
    assert any(node.meta.get("dtype") is B for node in entry.graph.nodes)
    same(dynoc.trace(lambda x: (x * 1.7 + 1).softmax(-1))(t(3, 5))(t(4, 6)), (t(4, 6) * 1.7 + 1).softmax(-1))


def test_numpy_has_none():
    """Arrays of 16-bit integers are what they were, beside tensors too."""
    fast = dynoc.optimize(lambda a, x: (a + 1, x + 1), wait=True)
    a = np.arange(9, dtype=np.uint16)
    for _ in range(3):
        got = fast(a, t(9))
        assert got[0].dtype == np.uint16 and (got[0] == a + 1).all()
        same(got[1], t(9) + 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("exponent", [2, 2.0, 3, 3.0, -2, 0.5, -1, 0, True])
def test_powers_of_all_halves(dtype, exponent):
    """A square is a kernel's; what torch's kernels round in their own way stays torch's. All 65,536 numbers."""
    x = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype)
    f = lambda x, e: (x + 0) ** e * 1  # noqa: E731
    fast = dynoc.optimize(f, wait=True)
    for e in (exponent, exponent, 2, 3, exponent):
        got, want = fast(x, e), f(x, e)
        assert got.dtype == want.dtype
        assert ((got == want) | (got.isnan() & want.isnan())).all()
    assert ("pow" in str(fast.entries[0].graph)) == (exponent not in (2, 2.0))
