"""Tensors that a function writes: versions, looks at one memory that overlap, and what PyTorch's own loops write."""

import dynoc
import pytest
from torch_cases import torch

F = torch.nn.functional
NAN, INF = float("nan"), float("inf")


def calls(fn, make, turns=3):
    """Three calls give what plain Python gives: the result, the arguments, their versions, the error's first line."""

    def outcome(f):
        x, result, error = make(), None, None
        try:
            result = f(x)
        except RuntimeError as e:
            error = str(e).splitlines()[0]
        return repr(result), repr(x), x._version, error

    fast = dynoc.optimize(fn, wait=True)
    for turn in range(turns):
        assert outcome(fast) == outcome(fn), f"call {turn + 1}"
    return fast


# ---- x.data has x's memory, and a version of its own


def double(x):
    x.data.mul_(2)


def a_part(x):
    x.data[1:].add_(1)


def by_item(x):
    x.data[0] = 3


def by_places(x):
    x.data[torch.tensor([0, 1])] = 5.0


def by_call(x):
    x.data.normal_(generator=torch.Generator().manual_seed(3))


def both_ways(x):
    x.data.mul_(2)
    x.detach().mul_(2)


def out_of_order(x):
    x.detach().mul_(2)
    y = x.data
    y.mul_(2)
    y[1:].sub_(1)


@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("fn", [double, a_part, by_item, by_places, by_call, both_ways, out_of_order])
def test_versions_of_what_is_written_through_data(fn, wants):
    calls(fn, lambda: torch.ones(4).requires_grad_(wants))


def test_data_that_is_handed_out_has_its_own_version():
    fast = dynoc.optimize(lambda x: x.data, wait=True)
    for turn in range(3):
        x = torch.ones(4)
        y = fast(x)
        y.add_(1)
        assert (x._version, y._version, x.tolist()) == (0, 1, [2.0] * 4), f"call {turn + 1}"


@pytest.mark.parametrize("inside", [False, True])
def test_weights_are_clipped_between_forward_and_backward(inside):
    def clip(w):
        w.data.clamp_(-0.5, 0.5)

    def forward_and_clip(w, x):
        y = (w * w * x).sum()
        w.data.clamp_(-0.5, 0.5)
        return y

    forward = dynoc.optimize(forward_and_clip, wait=True) if inside else lambda w, x: (w * w * x).sum()
    fast = dynoc.optimize(clip, wait=True)
    for turn in range(3):
        w, x = torch.ones(4, requires_grad=True), torch.arange(4.0)
        y = forward(w, x)
        fast(w)
        y.backward()  # w's version is that of the forward; its values aren't
        assert w.grad.tolist() == [0.0, 1.0, 2.0, 3.0], f"call {turn + 1}"


# ---- two looks at one memory that overlap in part: PyTorch raises, or its loops decide


def in_place(x):
    x[1:] += x[:-1]


def in_place_of_names(x):
    y, z = x[1:], x[:-1]
    y *= z


def copied(x):
    x[1:].copy_(x[:-1])


@pytest.mark.parametrize("make", [lambda: torch.zeros(20)[::2], lambda: torch.zeros(10), lambda: torch.zeros(10, 3).t()])
@pytest.mark.parametrize("fn", [in_place, in_place_of_names, copied])
def test_looks_that_overlap_in_part(fn, make):
    def filled():
        x = make()
        return x.copy_(torch.arange(float(x.numel())).reshape(x.shape)) if x._version == 0 else x

    calls(fn, filled)


def test_a_look_at_the_same_elements_stays_in_the_graph():
    def fn(x):
        x[1:] += x[1:]
        x.copy_(x)

    fast = calls(fn, lambda: torch.arange(6.0))
    assert [len(e.graph.externs) if hasattr(e.graph, "externs") else 0 for e in fast.entries] == [0]


# ---- zeros of both signs


BOUNDED = {
    "relu": torch.relu,
    "relu in place": lambda x: F.relu(x, inplace=True),
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, 0.0, 1.0),
    "min": lambda x: x.clamp(min=0),
    "max": lambda x: x.clamp(max=0.0),
    "both": lambda x: x.clamp(0, 0.0),
    "negative": lambda x: x.clamp(min=-0.0),
    "out": lambda x: torch.clamp(x, 0, 1, out=x),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", BOUNDED)
def test_an_element_that_equals_its_bound_stays(name, dtype):
    def fn(x):
        return torch.signbit(BOUNDED[name](x + 0)), torch.signbit(BOUNDED[name](x * 1))

    for n in (1, 5, 40):
        calls(fn, lambda n=n: torch.tensor([-0.0, 0.0, -2.5, -1.0, 1.0] * n, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.complex64], ids=str)
def test_running_sums_begin_with_zero(dtype):
    def fn(x):
        return x.cumsum(0), x.T.cumsum(-1), x.cumprod(0), x.cumsum_(0)

    calls(fn, lambda: torch.tensor([[-0.0, -0.0, 1.0], [-0.0, 0.0, -1.0], [-0.0, -2.0, -0.0]], dtype=dtype))


# ---- sums of complex numbers: PyTorch adds other * (1 + 0j)


SUMS = {
    "x + y": lambda x: x + x.flip(0),
    "x - y": lambda x: x - x.flip(0),
    "torch.add": lambda x: torch.add(x.flip(0), x),
    "torch.sub": lambda x: torch.sub(x, x * 1),
    "in place": lambda x: x.add_(x.flip(0)),
    "by a number": lambda x: (x + INF, x - INF, 1 + x, 1 - x, INF + x, complex(0, INF) + x, x + complex(0, INF)),
    "real": lambda x: (x + x.real, x.real + x, x - x.imag, x.real - x),
    "alpha": lambda x: torch.add(x, x.flip(0), alpha=2),
}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_infinite_complex_numbers(name, dtype):
    values = [complex(INF, 1), complex(1, -INF), complex(NAN, 0), complex(-0.0, -0.0), 2 - 3j, complex(-INF, INF), 0j]
    for n in (1, 5):
        calls(SUMS[name], lambda n=n: torch.tensor(values * n, dtype=dtype))


# ---- reciprocals and powers of complex numbers: PyTorch divides, and multiplies

REMARKABLE = [complex(x, y) for x in (0.0, -0.0, 1.5, -2.5, INF, -INF, NAN) for y in (0.0, -0.0, 1.5, -2.5, INF, -INF, NAN)]
RECIPROCALS = {
    "reciprocal": lambda z: (z.reciprocal(), torch.reciprocal(z * 1)),
    "number / z": lambda z: (1 / z, 2.5 / z, 1j / z, complex(1, -2) / (z * 1)),
    "in place": lambda z: (z.clone().reciprocal_(), z.rsqrt_()),
    "rsqrt": lambda z: torch.rsqrt(z),
    "powers": lambda z: (z**2, z**3, z**0.5, z**-0.5, z**-1, z**-2),
    "other powers": lambda z: (z**0, z**1, z**4, z**1.5, z ** (1 + 1j), z**z, 2**z),
    "torch.pow": lambda z: (torch.pow(z, 2), torch.pow(z, -1), z.clone().pow_(3)),
    "sgn": lambda z: (torch.sgn(z), (z * 1).sgn()),
}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", RECIPROCALS)
def test_reciprocals_of_remarkable_complex_numbers(name, dtype):
    for n in (1, 2):
        calls(RECIPROCALS[name], lambda n=n: torch.tensor(REMARKABLE * n, dtype=dtype))


@pytest.mark.parametrize("name", ["reciprocal", "number / z", "rsqrt", "powers"])
def test_gradients_of_reciprocals_of_complex_numbers(name):
    values = torch.tensor([1 + 2j, -3 + 0.5j, 2j, -1 - 1j], dtype=torch.complex128)

    def gradient(fn, z):
        out = fn(z)
        total = sum(t.abs().sum() for t in (out if isinstance(out, tuple) else (out,)))
        return torch.autograd.grad(total, z)[0]

    def fn(z):
        return gradient(RECIPROCALS[name], z)

    fast = dynoc.optimize(fn, wait=True)
    for _ in range(3):
        expected, got = (f(values.clone().requires_grad_()) for f in (fn, fast))
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=0)
