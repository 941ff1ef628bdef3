"""Graphs on CUDA devices, without one: tests/cuda/stand_in.c is the driver and NVRTC, so that generated kernels run on this
machine's processor, and tensors in its memory count as those of device 0. What eager gives, PyTorch on the CPU gives."""

import copy
import ctypes
import os
import random
import re
import shutil
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dynoc  # noqa: E402
from dynoc import _dynoc  # noqa: E402

F = torch.nn.functional
HERE = Path(__file__).resolve().parent.parent / "cuda"
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compile kernels with")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cuda")
    path = folder / "libstandin.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-w", "-o", path, HERE / "stand_in.c", "-ldl"], check=True)
    old = dict(os.environ)
    os.environ |= {"DYN_STAND_IN_FOLDER": str(folder), "DYN_STAND_IN_HEADER": str(HERE / "stand_in.h")}
    made = ctypes.CDLL(str(path))
    made.stand_in_count.restype = ctypes.c_long
    yield made
    os.environ.clear()
    os.environ.update(old)


@pytest.fixture
def device(library):
    _dynoc._cuda_stand_in(library._name)
    dynoc.reset()
    yield library
    library.stand_in_fail(b"", 0, 0)
    _dynoc._cuda_stand_in(None)
    dynoc.reset()


def kernels(fast):
    return sum(entry.kernels for entry in fast.entries)


def check(f, *args, calls=3, rtol=1e-5, least=1):
    want = f(*[a.clone() for a in args])
    fast = dynoc.optimize(f, wait=True)
    for _ in range(calls):
        got = fast(*[a.clone() for a in args])
    for g, w in zip(*((x,) if torch.is_tensor(x) else x for x in (got, want)), strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        assert [s for s, n in zip(g.stride(), g.shape, strict=True) if n > 1] == [
            s for s, n in zip(w.stride(), w.shape, strict=True) if n > 1
        ]
        torch.testing.assert_close(g, w, rtol=rtol, atol=1e-5, equal_nan=True)
    assert kernels(fast) >= least, fast.refusals
    return fast


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def softmax(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def layer_norm(x, w, b):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + 1e-5) * w + b


CASES = {
    "chain": (lambda x: torch.sin(x) * 2 + torch.cos(x), (37, 130)),
    "broadcast": (lambda x, y: x + y[:, None], (37, 130), (37,)),
    "transposed": (lambda x, y: x + y.t(), (64, 96), (96, 64)),
    "transposed, ragged": (lambda x, y: x + y.t(), (33, 95), (95, 33)),
    "and its transpose": (lambda x: x + x.t() * 2, (96, 96)),
    "and its transpose, four patches a side": (lambda x: x - x.t() + 1, (128, 128)),
    "and its transpose, one patch": (lambda x: x - x.t(), (32, 32)),
    "and their transposes": (lambda x: x - x.transpose(1, 2) * 3, (3, 64, 64)),
    "and their transposes, outside": (lambda x: x - x.transpose(0, 2) * 3, (64, 3, 64)),
    "strided": (lambda x: x[1:, ::2] * 3, (40, 41)),
    "three axes": (lambda x, y: x * y.permute(2, 0, 1), (8, 9, 10), (9, 10, 8)),
    "no axis": (lambda x: x.sum() * 2 + 1, (5,)),
    "where": (lambda x: torch.where(x > 0, x, -x), (1000,)),
    "sum": (lambda x: x.sum(), (300000,)),
    "sum of rows": (lambda x: (x * 2).sum(1), (3, 100001)),
    "sum of short rows": (lambda x: x.sum(1), (700, 3)),
    "sum of columns": (lambda x: (x * x).sum(0), (3000, 8)),
    "sum of ragged columns": (lambda x: x.sum(0), (3000, 7)),
    "sum of one row": (lambda x: x.sum(0), (1, 9)),
    "outer and inner": (lambda x: x.sum((0, 2)), (8, 40, 64)),
    "extremes": (lambda x: x.amax(0) - x.amin(0), (37, 130)),
    "product": (lambda x: x.prod(1), (20, 5)),
    "any": (lambda x: (x > 2).any(1) | (x < -2).all(1), (37, 130)),
    "softmax": (softmax, (37, 130)),
    "softmax of aligned rows": (softmax, (9, 4096)),
    "softmax of long rows": (softmax, (3, 20004)),
    "softmax of halves": (lambda x: softmax(x.half()), (5, 1000)),
    "layer norm": (layer_norm, (37, 130), (130,), (130,)),
    "layer norm of aligned rows": (layer_norm, (5, 256), (256,), (256,)),
    "variance": (lambda x: x.var(1), (37, 130)),
    "gelu": (lambda x: F.gelu(x) + F.gelu(x, approximate="tanh") + F.silu(x), (37, 130)),
    "linear": (lambda x, w: F.relu(F.linear(x, w) + 1), (37, 130), (20, 130)),
    "nothing in, zero out": (lambda x: x.sum(0) + 1, (0, 5)),
    "nothing out": (lambda x: x * 2 + 1, (5, 0)),
    "library kernels": (lambda x: F.softmax(x * 2, -1) + 1, (37, 130)),
    "calls between": (lambda x: x.cumsum(0) * 2 + x.argmax(1)[:, None], (37, 130)),
    "made inside": (lambda x: torch.zeros_like(x) + x + torch.ones(130), (37, 130)),
    "several results": (lambda x: (x + 1, x.sum(1), (x * 2).t()), (37, 130)),
}


@pytest.mark.parametrize("name", CASES)
def test_results(device, name):
    f, *shapes = CASES[name]
    check(f, *[randn(*shape, seed=i) for i, shape in enumerate(shapes)])


def places(*shape, below=30, dtype=torch.int64):
    """Some of them counted from the end."""
    return torch.randint(-below, below, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


LOOKUPS = {
    "rows": (lambda x, i: x[i] * 2 + 1, (30, 64), (17,)),
    "ragged rows": (lambda x, i: x[i] * 2 + 1, (30, 63), (17,)),
    "rows of many places": (lambda x, i: torch.exp(x[i]), (30, 8), (7, 5)),
    "elements": (lambda x, i: x[i] + x[0], (30,), (1000,)),
    "elements of short places": (lambda x, i: x[i] + x[0], (30,), (1001,), torch.int32),
    "beside what lies as it is": (lambda x, i: x[i] + x[:17], (30, 64), (17,)),
    "a strided table": (lambda x, i: x[::2, 1:][i] * 2, (60, 65), (17,)),
    "a turned table": (lambda x, i: x.t()[i] * 2, (64, 30), (17,)),
    "turned places": (lambda x, i: x[i.t()] * 2, (30, 16), (5, 7)),
    "places of several lanes": (lambda x, i: x[i] - i[:, None], (30, 64), (17,)),
    "sums of rows": (lambda x, i: x[i].sum(1), (30, 100), (300,)),
    "sums of places": (lambda x, i: x[i].sum(0), (30, 100), (300,)),
    "sum of all": (lambda x, i: (x[i] * x[i]).sum(), (30, 100), (300,)),
    "rows that are normalised": (lambda x, i: softmax(x[i] * 2), (30, 100), (9,)),
    "computed places": (lambda x, i: x[(i * 7) % 30] + 1, (30, 10), (40,)),
    "halves": (lambda x, i: x.half()[i] * 2, (30, 24), (40,)),
    "two lookups": (lambda x, i: x[i] + x[i.flip(0)], (30, 24), (40,)),
    "from what is computed": (lambda x, i: (x * x)[i] + 1, (30, 24), (40,)),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_lookups(device, name):
    f, table, shape, *dtype = LOOKUPS[name]
    fast = check(f, randn(*table), places(*shape, dtype=dtype[0] if dtype else torch.int64))
    called = name in ("a strided table", "a turned table", "turned places")  # results lie as PyTorch's call lays them
    assert ("gather" in str(fast.entries[0].graph)) != called


def test_lookups_of_other_sizes(device):
    fast = dynoc.optimize(lambda x, i: x[i] * 2 + 1, wait=True, dynamic=True)
    for rows, columns, n in [(30, 64, 17), (30, 64, 1), (5, 63, 100), (1, 1, 1), (300, 8, 0), (40, 16, 7)]:
        x, i = randn(rows, columns), places(n, below=rows)
        assert torch.equal(fast(x, i), x[i] * 2 + 1), (rows, columns, n)
    assert len(fast.entries) <= 3


@pytest.mark.parametrize("f", [lambda x, i: x[i] * 2, lambda x, i: x[i].sum(0)])
@pytest.mark.parametrize("wrong", [30, -31])
def test_a_place_that_is_not_there_is_the_devices_to_tell(device, f, wrong):
    """By an assertion in the kernel, as PyTorch's has one. Here the launch fails for it, and eager makes the call."""
    fast = dynoc.optimize(f, wait=True)
    x, i = randn(30, 8), places(20)
    for _ in range(2):
        fast(x, i)
    i[7] = wrong
    with pytest.raises(IndexError, match="out of bounds"):
        fast(x, i)
    i[7] = 3
    torch.testing.assert_close(fast(x, i), f(x, i))


def test_lookups_that_autograd_follows_are_pytorchs(device):
    def f(table, i, x):
        return (table[i] * x).sum()

    fast, i = dynoc.optimize(f, wait=True), places(20)
    for seed in range(3):
        table, x = randn(30, 8, seed=seed).requires_grad_(), randn(20, 8, seed=9).requires_grad_()
        want = torch.autograd.grad(f(table, i, x), (table, x))
        for g, w in zip(torch.autograd.grad(fast(table, i, x), (table, x)), want, strict=True):
            torch.testing.assert_close(g, w)


def causal(x):
    n = x.shape[-1]
    at = torch.arange(n)
    return torch.where(at[:, None] >= at, x, float("-inf"))


POSITIONS = {
    "alone": (lambda x: x + torch.arange(x.shape[1]), (37, 130)),
    "ragged": (lambda x: x + torch.arange(x.shape[1]), (37, 131)),
    "from and by": (lambda x: x * torch.arange(3, 3 + 2 * x.shape[1], 2), (37, 130)),
    "down": (lambda x: x * torch.arange(x.shape[1], 0, -1), (37, 130)),
    "floats": (lambda x: x * torch.arange(x.shape[1], dtype=torch.float32), (37, 130)),
    "columns": (lambda x: x * torch.arange(x.shape[0])[:, None], (37, 130)),
    "causal mask": (causal, (4, 33, 33)),
    "turned": (lambda x: x + torch.arange(x.shape[1]).flip(0), (37, 130)),
    "a part": (lambda x: x + torch.arange(2 * x.shape[1])[1::2], (37, 130)),
    "reshaped": (lambda x: x + torch.arange(x.numel()).reshape(x.shape), (37, 130)),
    "sums": (lambda x: (x * torch.arange(x.shape[1]) / 130).sum(1), (37, 130)),
    "softmax": (lambda x: softmax(causal(x)), (64, 64)),
    "given out": (lambda x: (torch.arange(x.shape[1]), x + 1), (37, 130)),
    "a part given out": (lambda x: (torch.arange(x.shape[1])[2:7], x + torch.arange(x.shape[1])), (37, 130)),
    "changed": (lambda x: x + torch.arange(x.shape[1]).add_(3), (37, 130)),
    "their bytes": (lambda x: x + torch.arange(x.shape[1] // 2).view(torch.int32), (37, 130)),
    "to a call": (lambda x: x.cumsum(0) + torch.arange(x.shape[1]).roll(2), (37, 130)),
    "looked up": (lambda x: x[torch.arange(5)] * 2, (37, 130)),
    "as places": (lambda x: x[torch.arange(20) % 3] + x[1], (37, 130)),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions(device, name):
    f, shape = POSITIONS[name]
    check(f, randn(*shape))


def test_positions_are_no_memory(device):
    """A mask made of positions is part of the kernel that uses it, which the launches tell."""
    fast = check(causal, randn(4, 33, 33))
    before = device.stand_in_count(b"cuLaunchKernel")
    fast(randn(4, 33, 33))
    assert kernels(fast) == 1 and device.stand_in_count(b"cuLaunchKernel") - before == 1


TAILS = {
    "mean": (lambda x: x.mean(), 1),
    "mean of a chain": (lambda x: ((x - 1) ** 2).mean(), 1),
    "norm": (lambda x: (x * x).sum().sqrt(), 1),
    "kept axes": (lambda x: x.mean((0, 1), keepdim=True), 1),
    "several": (lambda x: (x.mean(), x.sum() * 2 + 1, x.amax() - x.amin()), 2),
    "with others": (lambda x: x.mean() * x[0, 0] + x[1, 1], 1),
    "halves": (lambda x: x.half().mean(), 1),
    "used behind": (lambda x: x / x.mean(), 2),
    "given out and used": (lambda x: (x.mean(), x / x.mean()), 2),
    "one of each": (lambda x: x.mean() + (x[:3] * 2).mean(), 2),
    "a long one": (lambda x: torch.tanh(x.mean()).exp().sin().cos().sqrt() + 1, 1),
    "of calls between": (lambda x: x.cumsum(0).mean() + x.mean(), None),
    "stored": (lambda x: torch.stack([x.mean(), x.sum() / 7]), None),
}


@pytest.mark.parametrize("shape", [(5, 6), (700, 1000)])
@pytest.mark.parametrize("name", TAILS)
def test_what_is_made_of_a_sum_of_everything_is_its_threads(device, name, shape):
    f, launches = TAILS[name]
    fast = check(f, randn(*shape), rtol=1e-3)
    before = device.stand_in_count(b"cuLaunchKernel")
    fast(randn(*shape))
    assert launches is None or device.stand_in_count(b"cuLaunchKernel") - before == launches


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_dtypes(device, dtype):
    x = (randn(40, 31) * 50).to(getattr(torch, dtype))
    loose = 1e-2 if dtype in ("float16", "bfloat16") else 1e-5
    check(lambda x: torch.where(x == x[:1], x, x + x) * x, x, rtol=loose)
    check(lambda x: (x.float() + 1).sum(0), x, rtol=loose)
    check(lambda x: x.to(torch.float32) / 3, x, rtol=loose)
    if "int" in dtype:
        check(lambda x: x // 7 + x % 5, x)
        check(lambda x: (x & 3 | x ^ 1) + (x << 1), x)


@pytest.mark.parametrize("rank", [5, 6, 7, 8])
def test_many_axes(device, rank):
    x = randn(*range(2, 2 + rank // 2), *[2] * (rank - rank // 2))
    f = dynoc.optimize(lambda x: (x.transpose(0, -1) * 2 + 1).sum(1), wait=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of more axes than kernels are handed
        for _ in range(2):
            torch.testing.assert_close(f(x), (x.transpose(0, -1) * 2 + 1).sum(1))


def test_in_place(device):
    x = randn(64, 3)
    want, got = x.clone(), x.clone()

    def f(x):
        x.add_(1).mul_(2)
        x[0] = 5
        return x.sum()

    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        torch.testing.assert_close(fast(got), f(want))
    torch.testing.assert_close(got, want)
    assert kernels(fast) > 0


UNARY = [torch.exp, torch.tanh, torch.abs, torch.neg, torch.relu, torch.sigmoid, lambda a: a * a, lambda a: 2 - a]
BINARY = [torch.add, torch.mul, torch.sub, torch.maximum, lambda a, b: torch.where(a > b, a, b * 2)]
REDUCE = [torch.sum, torch.mean, torch.amax, torch.amin]


def program(rng):
    steps = [
        (rng.choice("uubbrvlp"), *(rng.randrange(100) for _ in range(3)), rng.random() < 0.5)
        for _ in range(rng.randint(2, 6))
    ]

    def f(*inputs):
        values = list(inputs)
        for kind, a, b, c, flag in steps:
            x, y = values[a % len(values)], values[c % len(values)]
            if kind == "u":
                x = UNARY[b % len(UNARY)](x)
            elif kind == "b" and x.shape == y.shape:
                x = BINARY[b % len(BINARY)](x, y)
            elif kind == "r" and x.dim() > 0:
                x = REDUCE[b % len(REDUCE)](x, c % x.dim(), keepdim=flag)
            elif kind == "v" and x.dim() > 1:
                x = x.transpose(b % x.dim(), c % x.dim())
            elif kind == "l" and x.dim() > 0:
                x = x[torch.arange(b % 7) * (2 * flag - 1) % x.shape[0] - c % 2 * x.shape[0]]
            elif kind == "p" and x.dim() > 0:
                at = torch.arange(c, c + x.shape[-1])
                x = x * (at.flip(0) if flag else at)
            values.append(x)
        return values[-1] + 0, values[-2] * 1

    return f


def random_input(rng, seed):
    sizes = [rng.choice([1, 2, 3, 5, 8, 16, 33, 64, 130]) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.3:
        return randn(*sizes[::-1], seed=seed).permute(*reversed(range(len(sizes))))
    if rng.random() < 0.3:
        return randn(*[2 * s for s in sizes], seed=seed)[tuple(slice(None, None, 2) for _ in sizes)]
    return randn(*sizes, seed=seed)


@pytest.mark.parametrize("seed", range(16))
def test_random_programs(device, seed):
    rng = random.Random(seed)
    x = random_input(rng, seed)
    f = program(rng)
    want = f(x, x + 1)
    fast = dynoc.optimize(f, wait=True)
    for _ in range(2):
        for g, w in zip(fast(x, x + 1), want, strict=True):
            torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-4)


def test_one_binary_for_every_size(device):
    fast = dynoc.optimize(lambda x: torch.sin(x) + x * 2, wait=True)
    x = randn(100, 7)
    fast(x), fast(x)
    dynoc.wait()
    before = device.stand_in_count(b"nvrtcCompileProgram"), device.stand_in_count(b"cuLibraryLoadData")
    for n in range(2, 102):
        x = randn(n, 7, seed=n)
        torch.testing.assert_close(fast(x), torch.sin(x) + x * 2)
    assert (device.stand_in_count(b"nvrtcCompileProgram"), device.stand_in_count(b"cuLibraryLoadData")) == before
    assert len(fast.entries) == 1


def test_rows_longer_than_those_seen_first(device):
    """Threads hold rows in registers; those that don't fit go another way, by the same binary."""
    fast = dynoc.optimize(softmax, wait=True)
    for n in (1000, 1000, 20, 4, 7, 20000, 16384, 16388, 1000):
        x = randn(3, n, seed=n)
        torch.testing.assert_close(fast(x), softmax(x))
    assert len(fast.entries) == 1 and "held" in fast.entries[0].source


def test_rows_of_halves_are_held_as_rows_of_floats(device):
    """A layer norm, squares of halves among it, is one launch: its rows stay in registers."""
    fast = dynoc.optimize(layer_norm, wait=True)
    x, w, b = randn(7, 1024).half(), randn(1024, seed=1).half(), randn(1024, seed=2).half()
    for _ in range(3):
        torch.testing.assert_close(fast(x, w, b), layer_norm(x, w, b), rtol=2e-2, atol=2e-2)
    (entry,) = fast.entries
    assert "held_group" in entry.source and entry.source.count("_held_group, ") == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_quotients_by_what_stands_in_the_row_are_rounded(device, dtype):
    """They are made with the divisor's reciprocal, but for numbers near the ends of the type."""

    def f(x, z):
        return x.abs() / z.sum(-1, keepdim=True), x * 1 / z.sum(-1, keepdim=True)

    info = torch.finfo(dtype)
    ends = [0.0, -0.0, 1.0, 3.0, -7.0, torch.inf, -torch.inf, torch.nan]
    ends += [info.max, -info.max, info.tiny, info.tiny / 8, 1e-30, 1e30]
    x = torch.cat([torch.tensor(ends, dtype=dtype).repeat(40, 2), randn(40, 100).to(dtype)], 1)
    z = torch.zeros(40, 128, dtype=dtype)
    z[: len(ends), 0] = torch.tensor(ends, dtype=dtype)
    z[len(ends) :, 0] = randn(40 - len(ends), seed=3)
    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        for got, want in zip(fast(x, z), f(x, z), strict=True):
            same = (got == want) & (torch.signbit(got) == torch.signbit(want)) | (got.isnan() & want.isnan())
            assert same.all(), (got[~same][:5], want[~same][:5])
    assert fast.entries[0].source.count("dyn_quotients<V>(d") == 2


def test_results_of_a_row_meet_in_turns(device):
    """Warps leave what they have of a result in one half of a block's memory or the other, so that one barrier is enough."""

    def f(x):
        return torch.tanh(x) + x.amax(-1, keepdim=True) * x.amin(-1, keepdim=True) + x.sum(-1, keepdim=True)

    fast = check(f, randn(9, 4096))
    turns = set(re.findall(r"\(char \*\)shared, \((\d) \* \(COLUMNS \? V : 1\) \+ j\) & 1\)", fast.entries[0].source))
    assert turns == {"0", "1", "2"}


def test_held_rows_have_a_line_of_threads_each(device):
    """Where all else that a row has in memory is one element, nothing is kept to go on with another; and who makes one element of
    what it made itself isn't waited for."""

    def windows(x):
        y = torch.exp(x - x.amax(-1, keepdim=True))
        return (y[:, 1:] - y[:, :-1]) / y.sum(-1, keepdim=True)

    w, b = randn(1024, seed=1), randn(1024, seed=2)
    for f, others, alone in ((softmax, (), True), (layer_norm, (w, b), True), (windows, (), False)):
        fast = dynoc.optimize(f, wait=True)
        for rows in (7, 1, 100):
            x = randn(rows, 1024)
            torch.testing.assert_close(fast(x, *others), f(x, *others), rtol=1e-4, atol=1e-5)
        (entry,) = fast.entries
        held = [text for text in entry.source.split("DYN_KERNEL(")[1:] if "held_group" in text.split(",")[1]]
        assert held and all(("first < a.rows" in text) != alone for text in held), f
        if f is layer_norm:
            assert all(text.count("__syncthreads();") == 2 for text in held)


def test_layers_alike_are_one_function(device):
    """… of however many places: rows that threads hold are told among those of their group."""

    def f(x, y):
        for _ in range(14):
            x = softmax(torch.bmm(torch.tanh(x) * 2, y)) + 1
        return softmax(torch.bmm(x, y) * 3)

    fast = dynoc.optimize(f, wait=True)
    for n in (40, 40, 100, 7):
        x, y = randn(2, n, n, seed=n), randn(2, n, n, seed=n + 1)
        torch.testing.assert_close(fast(x, y), f(x, y))
    assert len(fast.entries) == 1
    text = fast.entries[0].source
    functions = [text.count(f"DYN_KERNEL({threads}, ") for threads in (256, 512)]
    assert functions == [4, 9], functions  # in front, between two layers, behind the last one, at the end


@pytest.mark.parametrize("columns", [1, 5, 31, 33, 130, 1001, 4097])
@pytest.mark.parametrize("name", ["map", "rows", "columns", "held", "kept"])
def test_lines_that_do_not_come_out_even(device, name, columns):
    """Rows that aren't aligned, and the last elements of what isn't a multiple of 16 bytes."""
    f = {
        "map": lambda x, y: x * 2 + y,
        "rows": lambda x, y: (x * y).sum(1),
        "columns": lambda x, y: (x + y).amax(0),
        "held": lambda x, y: softmax(x + y),
        "kept": lambda x, y: layer_norm(x, y[0], y[1]),
    }[name]
    fast = dynoc.optimize(f, wait=True)
    x, y = randn(37, columns), randn(37, columns, seed=1)
    whole = randn(37, columns + 3, seed=2)
    slices, others = [(whole[:, 3:], y), (whole[:, 1:-2], whole[:, 2:-1])], [(x.half(), y.half()), (x.double(), y.double())]
    for a, b in [(x, y), (x, y), *slices, *others]:
        torch.testing.assert_close(fast(a, b), f(a, b), rtol=1e-3 if a.dtype == torch.half else 1e-5, atol=1e-3)


@pytest.mark.parametrize("f", [lambda x, y: (x[:, None] - y[None]).abs().sum(-1), lambda x, y: (x[0] * y).sum(0)])
def test_an_operand_stands_still(device, f):
    """Which way threads go is told by an operand that has elements along axes of either kind."""
    check(f, randn(9, 300), randn(9, 300, seed=1), rtol=1e-4)


@pytest.mark.parametrize("rows, columns, launches", [(1100, 1025, 3), (1120, 1000, 2), (1120, 1024, 1), (11, 100003, 1)])
def test_what_patches_leave(device, rows, columns, launches):
    """Strips beside whole patches of a large transposed tensor have launches of their own."""
    fast = dynoc.optimize(lambda x, y: x + y.t(), wait=True)
    x, y = randn(rows, columns), randn(columns, rows, seed=1)
    fast(x, y), fast(x, y)
    dynoc.wait()
    before = device.stand_in_count(b"cuLaunchKernel")
    assert torch.equal(fast(x, y), x + y.t())
    assert device.stand_in_count(b"cuLaunchKernel") == before + launches


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize(
    "f, first, other",
    [
        (lambda x: torch.sin(x) * 2 + torch.cos(x), randn(32, 64), randn(64, 32).t()),
        (lambda x: torch.sin(x) * 2 + torch.cos(x), randn(33, 64), randn(33, 65)[:, 1:]),
        (lambda x: (x * x).sum(1), randn(32, 64), randn(64, 32).t()),
        (lambda x: (x * x).sum(0), randn(700, 64), randn(64, 700).t()),
        (softmax, randn(8, 64), randn(64, 8).t()),
    ],
)
def test_what_the_recorded_call_does_not_need_is_compiled_behind_it(device, f, first, other, wait):
    dynoc.wait()
    parts = dynoc.counters["tier"].get("native", 0)
    fast = dynoc.optimize(f, wait=wait)
    fast(first)
    for x in (other, first, other) if wait else (other, first):
        torch.testing.assert_close(fast(x), f(x), rtol=1e-5, atol=1e-5)
    dynoc.wait()
    before = device.stand_in_count(b"cuLaunchKernel")
    for x in (first, other):
        torch.testing.assert_close(fast(x), f(x), rtol=1e-5, atol=1e-5)
    assert device.stand_in_count(b"cuLaunchKernel") - before >= 2
    assert dynoc.counters["tier"]["native"] - parts >= 2


def test_a_call_waits_for_the_rest_where_the_function_does(device):
    """The recorded call of these needed no function for rows that don't come out even."""
    for f in (lambda x: x.sum(1), lambda x: (x * 3).amax(1), lambda x: x.sum()):
        fast = dynoc.optimize(f, wait=True)
        fast(randn(30, 64)), fast(randn(30, 64))
        before = device.stand_in_count(b"cuLaunchKernel")
        torch.testing.assert_close(fast(randn(31, 65)), f(randn(31, 65)), rtol=1e-4, atol=1e-4)
        assert device.stand_in_count(b"cuLaunchKernel") == before + 1 and len(fast.entries) == 1


def test_blocks_that_share_a_result_are_one_launch(device):
    """The last of them to be done puts their parts together, at every call."""
    for f in (lambda x: x.sum(), lambda x: (x * 3).amax(), lambda x: x.mean(), lambda x: (x.sum(), (x * x).sum() + 1)):
        fast = dynoc.optimize(f, wait=True)
        for n in (1000, 4000000, 4000001, 100000, 4000000):
            before = device.stand_in_count(b"cuLaunchKernel")
            got, want = fast(randn(n)), f(randn(n))
            torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-2)
            assert device.stand_in_count(b"cuLaunchKernel") - before == 1 or n == 1000


def test_calls_that_cannot_be_made_again_are_compiled_at_once(device):
    def f(x, y):
        y += 1
        return torch.sin(x) * 2 + y.sum()

    dynoc.wait()
    before = dynoc.counters["tier"].get("native", 0)
    fast = dynoc.optimize(f, wait=True)
    for x in (randn(32, 64), randn(64, 32).t(), randn(32, 64)):
        want, got = torch.ones(40), torch.ones(40)
        torch.testing.assert_close(fast(x, got), f(x, want), rtol=1e-5, atol=1e-5)
        assert torch.equal(want, got)
    assert dynoc.counters["tier"]["native"] - before == len(fast.entries)


def test_what_stores_of_the_graph_fill_keeps_no_values(device):
    """Such a call is made again as a whole where one behind it fails: nothing is kept for who goes on."""
    layer = torch.nn.Conv1d(4, 4, 1)  # a call

    def joins(x, y):
        return layer(torch.cat([torch.sin(x) * 2 + 1, torch.exp(y) - x], 1))

    x, y = randn(4, 4), randn(4, 4, seed=1)
    with torch.no_grad():
        fast = check(joins, x, y)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            fast(x, y)
    assert [e.count for e in profile.key_averages() if e.key == "aten::empty_strided"] == [1]


@pytest.mark.parametrize("batch, launches", [(2, 1), (9000, 2)])
def test_what_channels_share_is_computed_for_each_element_of_few(device, batch, launches):
    x, m, v = randn(batch, 32, 4, 4), randn(32, 1, 1), randn(32, 1, 1, seed=1).abs()
    fast = check(lambda x, m, v: (x - m) / torch.sqrt(v + 1e-5), x, m, v)
    assert kernels(fast) == launches


def test_what_rows_share_is_computed_once_for_each(device):
    fast = check(lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5), randn(8, 64))
    assert kernels(fast) == 3


def test_launches(device):
    fast = dynoc.optimize(lambda x: (torch.sin(x) * 2 + 1) / (x * x + 1), wait=True)
    x = randn(1000)
    fast(x), fast(x)
    before = device.stand_in_count(b"cuLaunchKernel")
    for _ in range(5):
        fast(x)
    assert device.stand_in_count(b"cuLaunchKernel") == before + 5


def test_memories_are_not_mixed(device):
    a = np.arange(5.0)

    def f(x):
        return x * 2 + torch.from_numpy(np.sqrt(a) * 3).float()

    fast = dynoc.optimize(f, wait=True)
    x = randn(5)
    for _ in range(3):
        torch.testing.assert_close(fast(x), f(x))


def test_a_tensor_of_the_other_memory_is_another_entry(device):
    fast = dynoc.optimize(lambda x: torch.sin(x) * 2, wait=True)
    x = randn(10)
    fast(x), fast(x)
    assert [entry.kernels for entry in fast.entries] == [1]
    _dynoc._cuda_stand_in(None)
    torch.testing.assert_close(fast(x), torch.sin(x) * 2)
    assert len(fast.entries) == 2
    _dynoc._cuda_stand_in(device._name)


@pytest.mark.parametrize("function", ["cuLaunchKernel", "cuLibraryGetKernel", "cuCtxGetCurrent"])
def test_a_driver_that_fails(device, function):
    def f(x):
        return torch.sin(x) + x.sum(0)

    fast = dynoc.optimize(f, wait=True)
    x = randn(20, 8)
    if function != "cuLibraryGetKernel":
        fast(x), fast(x)
    device.stand_in_fail(function.encode(), 719, 0)
    for _ in range(3):  # eager makes the call, and PyTorch would raise what it does there
        torch.testing.assert_close(fast(x), f(x))
    device.stand_in_fail(b"", 0, 0)
    torch.testing.assert_close(fast(x), f(x))


def test_the_end_of_a_program_cancels_a_compilation(library, tmp_path):
    script = f"""
    import time, torch, dynoc
    from dynoc import _dynoc
    _dynoc._cuda_stand_in({library._name!r})
    dynoc.optimize(lambda x: torch.sin(x) * 2)(torch.randn(10))
    time.sleep(0.5)
    """
    env = os.environ | {"DYN_STAND_IN_ENDLESS": "1", "DYNOC_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "cancelled\n")


@pytest.mark.parametrize(
    "function, reason", [("nvrtcCompileProgram", "COMPILER_FAILED"), ("cuLibraryLoadData", "LOAD_FAILED")]
)
def test_text_that_becomes_no_kernel(device, function, reason, monkeypatch, tmp_path):
    monkeypatch.setattr(dynoc.config, "cache_dir", str(tmp_path))  # where nobody has compiled it
    device.stand_in_fail(function.encode(), 6, 0)
    fast = dynoc.optimize(lambda x: torch.sin(x) * 7 + 1, wait=True)
    x = randn(50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            torch.testing.assert_close(fast(x), torch.sin(x) * 7 + 1)
    dynoc.wait()
    assert dynoc.counters["build"][reason] == 2  # of what the call needs, and of the rest


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)
        self.rows, self.batch = torch.nn.LayerNorm(16), torch.nn.BatchNorm1d(16)

    def forward(self, x):
        h = self.batch(F.gelu(self.rows(self.first(x))))
        h = h + softmax(h * torch.sigmoid(h))
        return self.second(torch.tanh(h) * h.mean(0))


@pytest.mark.parametrize("wait", [True, False])
def test_models_are_trained(device, wait):
    torch.manual_seed(0)
    model = Net()
    eager = copy.deepcopy(model)
    fast = dynoc.optimize(model, wait=wait)
    ways = [(m, f, torch.optim.Adam(m.parameters(), lr=0.01)) for m, f in ((eager, eager), (model, fast))]
    for step in range(12):
        x = randn(32 if step < 8 else 17, 8, seed=step)
        for _, f, optimizer in ways:
            optimizer.zero_grad()
            (f(x) - x[:, :4]).square().mean().backward()
            optimizer.step()
        if step == 2:
            dynoc.wait()
        for a, b in zip(model.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
        for a, b in zip(model.buffers(), eager.buffers(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert kernels(fast) > 0 and fast.entries[0].tier == "native"


def gradients(f, *args):
    leaves = [a.clone().requires_grad_() for a in args]
    made = f(*leaves)
    return [made.detach(), *torch.autograd.grad(made.sum(), leaves)]


GRADIENTS = [
    "chain",
    "broadcast",
    "transposed, ragged",
    "strided",
    "three axes",
    "no axis",
    "where",
    "sum of rows",
    "outer and inner",
    "softmax of aligned rows",
    "layer norm",
    "variance",
    "gelu",
    "linear",
    "library kernels",
]


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_eagers(device, name):
    f, *shapes = CASES[name]
    args = [randn(*shape, seed=i) for i, shape in enumerate(shapes)]
    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        for got, want in zip(gradients(fast, *args), gradients(f, *args), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert kernels(fast) > 0, fast.refusals


def two(x, y):
    return torch.sin(x) * y, torch.exp(x * 0.1) + y


def test_gradients_that_nobody_expected(device):
    x, y = randn(30).requires_grad_(), randn(30, seed=1).requires_grad_()
    fast = dynoc.optimize(two, wait=True)
    for _ in range(2):
        fast(x, y)
    for wanted in ((x,), (y,), (x, y)):
        for i in range(2):  # one output has a gradient, and not each input is asked for its own
            got = torch.autograd.grad(fast(x, y)[i].sum(), wanted)
            torch.testing.assert_close(got, torch.autograd.grad(two(x, y)[i].sum(), wanted))
    (slope,) = torch.autograd.grad(fast(x, y)[0].sum(), x, create_graph=True)
    (want,) = torch.autograd.grad(two(x, y)[0].sum(), x, create_graph=True)
    for leaf in (x, y):
        got = torch.autograd.grad(slope.sum(), leaf, retain_graph=True)
        torch.testing.assert_close(got, torch.autograd.grad(want.sum(), leaf, retain_graph=True))


def fill(x, counter):
    with torch.no_grad():
        counter += 1
    return torch.sin(x) * 3


@pytest.mark.parametrize("function", ["nvrtcCompileProgram", "cuLaunchKernel"])
def test_gradients_without_kernels(device, function, monkeypatch, tmp_path):
    """Where there is no kernel (any more) when backward needs one, the values are computed on this machine."""
    monkeypatch.setattr(dynoc.config, "cache_dir", str(tmp_path))
    x, y, counter = randn(30).requires_grad_(), randn(30, seed=1).requires_grad_(), torch.zeros(3)
    fast, counting = dynoc.optimize(two, wait=True), dynoc.optimize(fill, wait=True)
    for _ in range(2):
        made, _ = fast(x, y)[0], counting(x, counter)
    device.stand_in_fail(function.encode(), 6, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (got,) = torch.autograd.grad(made.sum(), y)
        torch.testing.assert_close(got, torch.sin(x))
        torch.testing.assert_close(counting(x, counter), torch.sin(x) * 3)
        assert counter.tolist() == [3, 3, 3] and counter._version == 3
    assert dynoc.counters["graph_breaks"]["COMPILER_FAILED" if function == "nvrtcCompileProgram" else "DEVICE"] > 0


def test_training_without_a_compiler_is_eagers(device, monkeypatch, tmp_path):
    monkeypatch.setattr(dynoc.config, "cache_dir", str(tmp_path))
    device.stand_in_fail(b"nvrtcCompileProgram", 6, 0)
    fast = dynoc.optimize(lambda x: torch.sin(x) * 7 + 1, wait=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            for got, want in zip(gradients(fast, randn(50)), gradients(lambda x: torch.sin(x) * 7 + 1, randn(50)), strict=True):
                torch.testing.assert_close(got, want)
    assert fast.entries[0].hits == 0 and dynoc.counters["build"]["COMPILER_FAILED"] > 0


def test_guards_name_the_device(device):
    fast = dynoc.optimize(lambda x: torch.sin(x) * 2, wait=True)
    fast(randn(10))
    assert any("cuda:0" in str(guard) for guard in fast.entries[0].guards)


GRAPH = """graph f on cuda:0
s0: int = dim(x, 0) hint 1000
%0: f32[s0] C = input(x) tensor
%1: f32[s0] C = sin(%0) tensor
%2: f32[s0] C = add(%1, 2.0) tensor
outputs %2
"""


def test_graph_text_names_the_device():
    assert _dynoc._graph_roundtrip(GRAPH) == GRAPH


def test_text_of_a_kernel(device):
    text = _dynoc._emit_text(GRAPH)
    assert text.startswith("// sm_90\n")
    body = text[text.index("DYN_KERNEL(256, k0_map") :]
    assert "const float v1 = sinf(v0);" in body
    assert "dyn_take_some<V, 1>(x0, b0 + g * (V * 4), m)" in body
    assert "DYN_KERNEL(256, k0_any_map, Args<1, 2, 1>)" in body


# ---- products of matrices


def launched(device, f, *args):
    """What f(*args) gives, and how many kernels and products of cuBLAS's it launched."""
    names = (b"cuLaunchKernel", b"cublasLtMatmul", b"cublasDgemm_v2")
    before = [device.stand_in_count(name) for name in names]
    result = f(*args)
    after = [device.stand_in_count(name) for name in names]
    return result, after[0] - before[0], after[1] - before[1] + after[2] - before[2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_small_product_is_a_sum(device, dtype):
    x, w, b = (torch.randn(*shape, dtype=dtype) for shape in ((16, 40), (24, 40), (24,)))
    for f, args in (
        (lambda x, w, b: torch.relu(F.linear(x, w, b)), (x, w, b)),
        (lambda x, w: torch.relu(F.linear(x, w)), (x.view(2, 8, 40), w)),
        (lambda x, y: torch.relu(x @ y), (x, w.t())),
        (lambda x, y: torch.mm(x, y) * 2, (x, w.t().contiguous())),
    ):
        fast = check(f, *args)
        assert launched(device, fast, *args)[2] == 0


@pytest.mark.parametrize("shape", [(5, 7, 3), (120, 90, 130)])
@pytest.mark.parametrize("turned", [(), (0,), (1,), (0, 1)])
def test_gradients_of_a_product_lie_as_its_operands(device, shape, turned):
    m, k, n = shape

    def leaves():
        x, y = randn(m, k), randn(k, n, seed=1)
        return [(z.t().contiguous().t() if i in turned else z).requires_grad_() for i, z in enumerate((x, y))]

    for f in (
        lambda x, y: torch.tanh(x @ y),
        lambda x, y: torch.tanh(torch.mm(x, y + 1)),
        lambda x, y: torch.tanh(F.linear(x, y.t())),
        lambda x, y: torch.tanh(y.t() @ x.t()),
    ):
        fast = dynoc.optimize(f, wait=True)
        for _ in range(3):
            want, got = ((z, torch.autograd.grad(g(*z).sum(), z)) for g, z in ((f, leaves()), (fast, leaves())))
            for a, b in zip(want[1], got[1], strict=True):
                torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-4)
                assert b.stride() == a.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_product_by_cublas(device, dtype):
    x, w = torch.randn(80, 130, dtype=dtype), torch.randn(140, 130, dtype=dtype)
    for f, args in (
        (lambda x, w: torch.relu(F.linear(x, w)), (x, w)),
        (lambda x, w: torch.relu(F.linear(x, w)), (x.view(2, 40, 130), w)),
        (lambda x, w: torch.relu(F.linear(x, w)), (x.t().contiguous().t(), w)),
        (lambda x, y: torch.relu(x @ y), (x, w.t())),
        (lambda x, y: torch.relu(x @ y), (x[:, :120], w.t().contiguous()[:120])),
        (lambda x, y: torch.relu(x.t() @ y), (x.t().contiguous(), w.t())),
    ):
        fast = check(f, *args, rtol=1e-4)
        for _ in range(3):  # a clone of what isn't dense is
            result, kernels, products = launched(device, fast, *args)
        torch.testing.assert_close(result, f(*args), rtol=1e-4, atol=1e-5)
        assert (kernels, products) == (1, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [1, 20, 80])
def test_product_with_its_bias_by_cublas(device, dtype, rows):
    k, n = 1060, 1030
    x, w, b = (torch.randn(*shape, dtype=dtype) / 8 for shape in ((rows, k), (n, k), (n,)))
    for f, args in (
        (lambda x, w, b: torch.relu(F.linear(x, w, b)), (x, w, b)),
        (lambda x, w, b: torch.relu(F.linear(x, w, b)), (x.view(rows, 1, k), w, b)),
        (lambda x, w, b: torch.relu(F.linear(x, w, b)), (x.view(1, rows, k), w.t().contiguous().t(), b)),
        (lambda x, w, b: torch.relu(torch.addmm(b, x, w.t())), (x, w, b)),
    ):
        fast = check(f, *args, rtol=1e-4)
        for _ in range(3):
            result, kernels, products = launched(device, fast, *args)
        torch.testing.assert_close(result, f(*args), rtol=1e-4, atol=1e-4)
        assert (kernels, products) == (1, dtype == torch.float32)  # in double precision it is PyTorch's call


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w, b: torch.relu(F.linear(x, w, b[::2])),
        lambda x, w, b: torch.relu(torch.addmm(b[None, ::2], x, w.t())),
        lambda x, w, b: torch.relu(torch.addmm(x[:, :1], x, w.t())),
        lambda x, w, b: torch.relu(torch.addmm(b[::2], x, w.t(), beta=2)),
        lambda x, w, b: torch.relu(torch.addmm(b[::2], x, w.t(), alpha=2)),
    ],
)
def test_bias_that_cublas_does_not_add(device, f):
    x, w, b = torch.randn(40, 1060), torch.randn(1030, 1060), torch.randn(2060)
    fast = check(f, x, w, b, rtol=1e-4, least=0)
    assert launched(device, fast, x, w, b)[2] == 0


@pytest.mark.parametrize(
    "shapes", [((1000, 1500), (1500, 1)), ((1100, 1), (1, 1000)), ((0, 1500), (1500, 1000))]
)
def test_product_that_cublas_is_not_asked_for(device, shapes):
    x, y = (torch.randn(*shape) for shape in shapes)
    fast = check(lambda x, y: torch.relu(x @ y), x, y, rtol=1e-4, least=0)
    assert launched(device, fast, x, y)[2] == 0


def test_cublas_refuses(device):
    x, w = torch.randn(80, 130), torch.randn(140, 130)
    fast = check(lambda x, w: torch.relu(F.linear(x, w)), x, w)
    device.stand_in_fail(b"cublasLtMatmul", 13, 0)
    torch.testing.assert_close(fast(x, w), torch.relu(F.linear(x, w)))


def test_deterministic_algorithms_are_pytorchs(device):
    x, w = torch.randn(80, 130), torch.randn(140, 130)
    fast = check(lambda x, w: torch.relu(F.linear(x, w)), x, w)
    assert launched(device, fast, x, w)[2] == 1
    torch.use_deterministic_algorithms(True)
    try:
        fast(x, w)
        assert launched(device, fast, x, w)[2] == 0
    finally:
        torch.use_deterministic_algorithms(False)


def test_sizes_leave_those_of_a_sum(device):
    fast = dynoc.optimize(lambda x, w: torch.relu(F.linear(x, w)), wait=True)
    w = torch.randn(140, 130)
    for rows in (8, 8, 8, 80, 80, 80, 8, 80):
        x = torch.randn(rows, 130)
        torch.testing.assert_close(fast(x, w), torch.relu(F.linear(x, w)), rtol=1e-4, atol=1e-5)
    assert len(fast.entries) == 2


@pytest.mark.parametrize("rows", [8, 160])
def test_layers_that_are_trained_are_one_part(device, rows):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(60, 140), torch.nn.Tanh(), torch.nn.Linear(140, 50), torch.nn.Tanh())
    fast = dynoc.optimize(model, wait=True)
    x = torch.randn(rows, 60)
    for _ in range(3):
        result, _, products = launched(device, fast, x)
        gradients, kernels, more = launched(
            device, lambda result=result: torch.autograd.grad(result.square().sum(), list(model.parameters()))
        )
    assert type(result.grad_fn).__name__ != "TanhBackward0"
    assert kernels > 0 and (products > 0, more > 0) == (rows > 8, rows > 8)
    want = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    for got, w in zip(gradients, want, strict=True):
        torch.testing.assert_close(got, w, rtol=1e-3, atol=1e-4)
        assert got.stride() == w.stride()
