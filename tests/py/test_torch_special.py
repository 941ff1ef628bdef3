"""Elementwise functions made of several operators: fused, and equal to eager in each case that they tell apart."""

import pytest
from torch_cases import check, refused, same, torch

import dynoc
from torch.nn import functional as F

INF, NAN = float("inf"), float("nan")
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 0.25, 1e-6, -1e-6, 2.5, -2.5, 17.0, -30.0, 1e30, -1e30, 1e-30, INF, -INF, NAN]

ONE = {
    "sign": lambda x: (x.sign(), torch.sgn(x)),
    "signbit": lambda x: torch.signbit(x),
    "isposinf": lambda x: (torch.isposinf(x), torch.isneginf(x)),
    "entr": lambda x: torch.special.entr(x),
    "logit": lambda x: (torch.logit(x), x.logit(0.2), torch.special.logit(x, eps=1e-3)),
    "sinc": lambda x: (torch.sinc(x), torch.special.sinc(x)),
    "nan_to_num": lambda x: (torch.nan_to_num(x), x.nan_to_num(1.5, 2.5, -3.5), torch.nan_to_num(x, posinf=1)),
    "erfc": lambda x: (torch.erfc(x), x.erfc(), torch.special.erfc(x)),
    "angle": lambda x: torch.angle(x),
    "softshrink": lambda x: (F.softshrink(x), F.softshrink(x, 0.3)),
    "rrelu": lambda x: (F.rrelu(x), F.rrelu(x, 0.1, 0.2, training=False)),
    "float_power": lambda x: (torch.float_power(x, 2), x.float_power(-1.5), torch.float_power(2, x)),
    "xlogy with a number": lambda x: (torch.xlogy(0, x), torch.xlogy(x, 2.0), torch.special.xlog1py(x, 2)),
    "in place": lambda x: (F.celu_(x * 2), F.selu_(x * 3), F.elu_(x * 4), F.leaky_relu_(x, 0.2), F.threshold_(x * 5, 0.1, 9.0)),
}

TWO = {
    "heaviside": lambda x, y: torch.heaviside(x, y),
    "xlogy": lambda x, y: (torch.xlogy(x, y), torch.special.xlogy(x, y), torch.special.xlog1py(x, y)),
    "float_power": lambda x, y: torch.float_power(x, y),
    "isclose": lambda x, y: (torch.isclose(x, y), x.isclose(y + 1e-6), torch.isclose(x, y, rtol=0.5, atol=0.1)),
    "lerp": lambda x, y: (torch.lerp(x, y, x * 0 + 0.3), x.lerp(y, y.sign()), x.lerp(y, y[0] * 0 + 0.7)),
    "ldexp": lambda x, y: (torch.ldexp(x, y.sign()), torch.ldexp(x, y.sign().nan_to_num().int())),
}

INTEGERS = {
    "gcd": lambda x, y: (torch.gcd(x, y), x.lcm(y)),
    "shifts": lambda x, y: (x << y, x >> y, torch.bitwise_left_shift(x, 2), x.bitwise_right_shift(1), x << 1, 1 << (y & 3)),
    "signs": lambda x, y: (x.sign(), torch.signbit(x), torch.heaviside(x, y)),
    "floats of them": lambda x, y: (torch.xlogy(x, y), torch.special.entr(x), torch.sinc(x), torch.logit(x), torch.angle(x)),
    "power": lambda x, y: (torch.float_power(x, 2), torch.ldexp(x, y)),
    "addcmul": lambda x, y: (torch.addcmul(x, x, y), torch.addcmul(x, x, y, value=3)),
}


def values(dtype, times=1):
    return torch.tensor(FLOATS * times).to(dtype)


def check_fused(fn, *calls):
    """As check, and the graph has no call."""
    fast = check(fn, *calls)
    assert "extern" not in str(fast.entries[0].graph)


def unless_halves(name, dtype):
    """What halves are left to: PyTorch rounds these between the steps, or has none."""
    if dtype in (torch.bfloat16, torch.float16) and name in {"logit", "sinc", "rrelu", "isclose", "ldexp"}:
        return check
    return check_fused


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ONE)
def test_of_one(name, dtype):
    unless_halves(name, dtype)(ONE[name], [values(dtype)], [values(dtype, 40)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", TWO)
def test_of_two(name, dtype):
    calls = [[x.repeat_interleave(x.numel()), x.repeat(x.numel())] for x in (values(dtype), values(dtype, 3))]
    unless_halves(name, dtype)(TWO[name], *calls)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.int8], ids=str)
@pytest.mark.parametrize("name", INTEGERS)
def test_of_integers(name, dtype):
    def operands(n):
        x = torch.arange(n).to(dtype) - (0 if dtype is torch.uint8 else 9)
        return [x.repeat_interleave(n), x.repeat(n)]

    check_fused(INTEGERS[name], operands(20), operands(33))


def test_one_value_and_none():
    """Tensors of rank 0, of one element and of none, and such that don't lie in order."""

    def several(x):
        return torch.nan_to_num(x), x.sign(), torch.xlogy(x, 2), torch.logit(x, 0.1), F.softshrink(x), torch.float_power(x, 2)

    fast = dynoc.optimize(several, wait=True)
    apart = [torch.randn(3, 4).t(), torch.randn(8)[::2]]
    inputs = [torch.tensor(0.3), torch.tensor([NAN]), torch.zeros(0), torch.zeros(0, 3), *apart]
    for x in inputs + inputs:
        same(fast(x), several(x))


def test_integers_are_rounded_to_themselves():
    x = torch.tensor([2**53 + 1, -(2**62) - 1, 5])
    fast = dynoc.optimize(lambda x: torch.round(x) * 1, wait=True)
    for _ in range(3):
        same(fast(x), x)


WRONG = {
    "gcd of floats": lambda x: torch.gcd(x, x),
    "heaviside of two dtypes": lambda x: torch.heaviside(x, x.double()),
    "sign of complex": lambda x: torch.sign(torch.complex(x, x)),
    "float_power_": lambda x: (x + 1).float_power_(2),
    "softshrink below 0": lambda x: F.softshrink(x, -1.0),
    "sizes": lambda x: torch.xlogy(x, x[:-1]),
    "isclose of two dtypes": lambda x: torch.isclose(x, x.double()),
    "shift of floats": lambda x: torch.gcd(x.int(), x),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_pytorchs(name):
    refused(WRONG[name], lambda: torch.arange(4.0), RuntimeError, NotImplementedError)
