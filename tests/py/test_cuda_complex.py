"""Complex numbers in kernels on CUDA devices, without one: tests/cuda/stand_in.c runs them. What eager gives, PyTorch on the CPU
gives, but where its kernels on a device do otherwise."""

import itertools

import pytest

torch = pytest.importorskip("torch")

import dynoc  # noqa: E402
from test_cuda import check, device, kernels, library, pytestmark, randn  # noqa: E402, F401

COMPLEX = {
    "magnitude": (lambda c: c.abs() * 2, 1),
    "made of reals": (lambda c: (c.real + 1j * c.imag).abs() + c.real, 1),
    "parts": (lambda c: c.real * 2 + c.imag, 1),
    "transform": (lambda c: torch.fft.fft(c.real).abs() + 1, 1),
    "compared": (lambda c: (c == c * 1) & (c.real > 0), 1),
    "angle": (lambda c: torch.angle(c * 2) + 1, 1),
    "as reals": (lambda c: torch.view_as_real(c) * 2, 1),
    "chosen": (lambda c: torch.where(c.real > 0, c, 0).abs() + 1, 1),
    "spread": (lambda c: c.var() + 1, 0),
    "polar": (lambda c: torch.polar(c.abs(), c.real).real + 1, 1),
    "made of nothing": (lambda c: torch.zeros(8, dtype=torch.complex64) + c, 1),
    "changed": (lambda c: c.clone().mul_(2).real + 1, 1),
    "matrix": (lambda c: torch.outer(c, c.conj()).real.sum(0) + 1, 1),
    "chain": (lambda c: torch.exp(c * 0.5j) / (c + 2) - c * c, 1),
    "quotients": (lambda c: c / 3 + 2 / c + 1j / (c - 0.5) + c.reciprocal() + c / c.real, 1),
    "functions": (lambda c: (c.sin() + c.cos() * c.tan()) / (c.sinh() - c.cosh() + 3) + c.tanh() + c.sqrt() + c.log(), 1),
    "logarithms": (lambda c: c.log2() + c.log10() - c.square() + torch.sgn(c), 1),
    "conjugates": (lambda c: c.conj_physical() * c + c.conj() - c.conj().imag, 1),
    "sums": (lambda c: (c * 2).sum() + (c[:, None] * c).sum(0) - (c[:, None] + c).sum(1), 1),
    "mean": (lambda c: (c * 2).mean() + c, 1),
    "rows": (lambda c: (c[:, None] * c[None]) / (c[:, None] * c[None]).abs().sum(1, keepdim=True), 1),
    "mixed": (lambda c: c + c.real.double() * (1 + 2j) + torch.arange(8) * c, 1),
    "strided": (lambda c: c[::2] * c[1::2].flip(0) + 1, 1),
    "in place": (lambda c: c.clone().add_(1j).div_(2 - 1j).sub_(c), 1),
    "part written": (lambda c: write_part(c * 2), 1),
    "filled": (lambda c: torch.full((8,), 2 - 3j) * c + torch.ones(8, dtype=torch.complex64), 1),
    "truth": (lambda c: torch.where(c != 0, c, 1 + 0j).isfinite() | (c * 0).isnan(), 1),
    "taken": (lambda c: c[torch.arange(7, -1, -1)] * 2 + 1j, 1),
    "product": (lambda c: (c * 2).prod() + 1, 0),
    "reals by a complex number": (lambda c: c.real / (1 - 2j) + (1 + 1j) / c.imag + torch.div(c, 4), 1),
}


def write_part(c):
    c.imag[2:] = 1
    c.real *= 2
    return c + 1


@pytest.mark.parametrize("name, dtype", list(zip(COMPLEX, itertools.cycle([torch.complex64, torch.complex128]))))
def test_complex_numbers(device, name, dtype, caplog):  # noqa: F811
    """What kernels have no operator for, PyTorch computes."""
    f, least = COMPLEX[name]
    check(f, torch.complex(randn(8), randn(8, seed=1)).to(dtype), least=least)
    assert not caplog.records


def chained_sum(c):
    return (c * (2 - 1j)).sum(), (c * c).sum(0), (c + 1).sum(1), c.sum((0, 1)) * c


@pytest.mark.parametrize(
    "shape, dtype", [((300, 700), torch.complex64), ((3, 20001), torch.complex128), ((5000, 8), torch.complex128)]
)
def test_complex_sums(device, shape, dtype):  # noqa: F811
    """Blocks share results, whose accumulators are wider than a word; a sum beside them of real numbers is kept as wide."""
    c = torch.complex(randn(*shape), randn(*shape, seed=1)).to(dtype)
    check(chained_sum, c, rtol=1e-4)
    check(lambda c: ((c.abs() + c.real).sum(), (c * 2).sum(), c.imag.sum()), c, rtol=1e-4)


SPECIAL = [0.0, -0.0, 1.0, -2.5, 1e9, float("inf"), -float("inf"), float("nan")]
SPECIAL_OF = {
    "sum": lambda c, d: c + d,
    "difference": lambda c, d: c - d,
    "product": lambda c, d: c * d,
    "quotient": lambda c, d: c / d,
    "by a number": lambda c, d: (c + 0) * 2 + (c * 1j),
    "magnitude": lambda c, d: (c.abs() + 0, d.abs() * 1),
    "equal": lambda c, d: (c == d) | (c.isinf() & d.isnan()) | c.isfinite(),
}


@pytest.mark.parametrize("name, dtype", list(zip(SPECIAL_OF, itertools.cycle([torch.complex64, torch.complex128]))))
def test_complex_infinities(device, name, dtype):  # noqa: F811
    """Each of all pairs of special parts with each other; PyTorch's kernels on the processor give the same of these."""
    parts = torch.tensor(SPECIAL)
    c = torch.complex(*(x.reshape(-1) for x in torch.meshgrid(parts, parts, indexing="ij"))).to(dtype)
    check(SPECIAL_OF[name], c[:, None].expand(64, 64).clone(), c.expand(64, 64).clone())


@pytest.mark.parametrize("number", [0, 2, 1 + 1j, 3j])
def test_complex_quotients_of_numbers(device, number):  # noqa: F811
    """As PyTorch's kernels on a device do it, the processor's don't."""
    parts = torch.tensor(SPECIAL)
    c = torch.complex(*(x.reshape(-1) for x in torch.meshgrid(parts, parts, indexing="ij")))
    fast, back = dynoc.optimize(lambda c: c / number, wait=True), dynoc.optimize(lambda c: number / c, wait=True)
    inverse = torch.ones(64, dtype=torch.complex64) / torch.full((64,), number, dtype=torch.complex64)
    reciprocal = torch.ones(64, dtype=torch.complex64) / c
    reciprocal[c.isnan() | (c.real.isinf() & c.imag.isinf())] = complex(float("nan"), float("nan"))
    fast(c), back(c)  # what is recorded is eager's
    for _ in range(2):
        torch.testing.assert_close(fast(c), c * inverse, equal_nan=True)
        got = back(c)
        for part in (torch.real, torch.imag):
            fine = reciprocal.isfinite() | reciprocal.isnan()
            torch.testing.assert_close(part(got)[fine], part(reciprocal * (number + 0j))[fine], equal_nan=True)
    assert kernels(fast) == kernels(back) == 1


@pytest.mark.parametrize("name", ["chain", "functions", "sums", "quotients", "mixed", "rows"])
def test_gradients_of_complex_numbers(device, name):  # noqa: F811
    f = COMPLEX[name][0]
    fast = dynoc.optimize(lambda c: f(c).abs().sum(), wait=True)
    c = torch.complex(randn(8), randn(8, seed=1)).requires_grad_()
    for _ in range(3):
        (got,) = torch.autograd.grad(fast(c), c)
    (want,) = torch.autograd.grad(f(c).abs().sum(), c)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert kernels(fast) > 0, fast.refusals


def test_pairs_that_begin_between_complex_numbers(device):  # noqa: F811
    """Kernels read a complex number at once, from where its size is: what isn't there PyTorch refuses, and does so here."""
    fast = dynoc.optimize(lambda x: torch.view_as_complex(x) * 2 + 1, wait=True)
    memory = randn(40)
    for _ in range(3):
        fast(memory[:16].view(8, 2))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="divisible by 2"):
            fast(memory[1:17].view(8, 2))
    got = fast(memory[2:18].view(8, 2))
    torch.testing.assert_close(got, torch.view_as_complex(memory[2:18].view(8, 2)) * 2 + 1)
    assert fast.entries[0].hits >= 3
