"""Operators that write: out= and in-place forms of those that are PyTorch's own calls, and norms that keep statistics."""

import copy
import warnings

import pytest
from torch_cases import check, refused, same, torch

import dynoc
from torch import nn
from torch.nn import functional as F


def t(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def i(*values):
    return torch.tensor(values)


OUT = {
    "mm": (lambda x, y, o: torch.mm(x, y, out=o) + 1, [t(3, 4), t(4, 5), t(3, 5)], [t(5, 6), t(6, 7), t(5, 7)]),
    "matmul": (lambda x, y, o: torch.matmul(x, y, out=o), [t(3, 4), t(4, 5), t(3, 5)], [t(5, 6), t(6, 7), t(5, 7)]),
    "addmm": (
        lambda b, x, y, o: torch.addmm(b, x, y, out=o),
        [t(5), t(3, 4), t(4, 5), t(3, 5)],
        [t(7), t(5, 6), t(6, 7), t(5, 7)],
    ),
    "cat": (lambda x, o: torch.cat([x, x * 2], out=o), [t(3, 4), t(6, 4)], [t(5, 6), t(10, 6)]),
    "stack": (lambda x, o: torch.stack([x, x], out=o), [t(3, 4), t(2, 3, 4)], [t(5, 6), t(2, 5, 6)]),
    "lgamma": (lambda x, o: (torch.lgamma(x, out=o), o + 1), [t(3, 4), t(3, 4)], [t(5, 6), t(5, 6)]),
    "of a part": (lambda x, o: (torch.lgamma(x, out=o[:, 1:]), o + 1), [t(3, 4), t(3, 5)], [t(5, 6), t(5, 7)]),
    "turned": (lambda x, o: torch.digamma(x, out=o.t()), [t(3, 4), t(4, 3)], [t(5, 6), t(6, 5)]),
    "its own operand": (lambda x: (torch.digamma(x, out=x), x * 2), [t(3, 4)], [t(5, 6)]),
    "softmax": (lambda x, o: torch.softmax(x, 1, out=o), [t(3, 4), t(3, 4)], [t(5, 6), t(5, 6)]),
    "gather": (
        lambda x, j, o: torch.gather(x, 1, j, out=o),
        [t(3, 4), i([0, 1], [1, 3], [2, 0]), t(3, 2)],
        [t(5, 6), i([0, 5], [1, 2]), t(2, 2)],
    ),
    "index_select": (
        lambda x, j, o: torch.index_select(x, 0, j, out=o),
        [t(3, 4), i(0, 1), t(2, 4)],
        [t(5, 6), i(1, 2, 0), t(3, 6)],
    ),
    "linspace": (lambda x, o: torch.linspace(0, 1, x.shape[0], out=o), [t(3, 4), t(3)], [t(5, 6), t(5)]),
    "tril": (lambda x, o: torch.tril(x, out=o), [t(3, 4), t(3, 4)], [t(5, 6), t(5, 6)]),
    "into a new one": (lambda x: torch.lgamma(x, out=torch.empty(x.shape)) + 1, [t(3, 4)], [t(5, 6)]),
}

IN_PLACE = {
    "activations": (
        lambda x: (F.celu_(x * 2), F.elu_(x * 3), F.selu_(x * 4), F.leaky_relu_(x * 5), F.hardtanh_(x)),
        [t(3, 4)],
        [t(5, 6)],
    ),
    "addmv_": (lambda x, m, v: x.addmv_(m, v), [t(3), t(3, 4), t(4)], [t(5), t(5, 6), t(6)]),
    "addmm_": (lambda x, a, b: x.addmm_(a, b, alpha=2), [t(3, 3), t(3, 4), t(4, 3)], [t(5, 5), t(5, 4), t(4, 5)]),
    "index_add_": (lambda x, j, s: x.index_add_(0, j, s), [t(3, 4), i(0, 2), t(2, 4)], [t(5, 6), i(1, 1, 0), t(3, 6)]),
    "index_copy_": (lambda x, j, s: x.index_copy_(0, j, s), [t(3, 4), i(0, 2), t(2, 4)], [t(5, 6), i(1, 2, 0), t(3, 6)]),
    "index_fill_": (lambda x, j: x.index_fill_(1, j, 2.0), [t(3, 4), i(0, 2)], [t(5, 6), i(1, 1, 0)]),
    "index_put_": (lambda x, j, s: x.index_put_((j,), s), [t(3, 4), i(0, 2), t(2, 4)], [t(5, 6), i(1, 1, 0), t(3, 6)]),
    "put_": (lambda x, j, s: x.put_(j, s), [t(3, 4), i(0, 2), t(2)], [t(5, 6), i(1, 2, 0), t(3)]),
    "scatter_": (lambda x, j, s: x.scatter_(0, j, s), [t(3, 4), i([0, 2]), t(2, 4)], [t(5, 6), i([1, 1, 0]), t(3, 6)]),
    "masked_scatter_": (lambda x, s: x.masked_scatter_(x > 0, s), [t(3, 4), t(12)], [t(5, 6), t(30)]),
    "of a view": (lambda x: (x[1:].lgamma_(), x.t().digamma_(), x + 1), [t(3, 4)], [t(5, 6)]),
    "tril_": (lambda x: (x.tril_(), x.fill_diagonal_(3.0)), [t(3, 4)], [t(5, 6)]),
}

NORMS = {
    "instance_norm": (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), [t(2, 3, 8), t(3), t(3)], [t(4, 3, 10), t(3), t(3)]),
    "instance_norm keeps": (lambda x, m, v: F.instance_norm(x, m, v), [t(2, 3, 8), t(3), t(3)], [t(4, 3, 10), t(3), t(3)]),
    "instance_norm by kept": (
        lambda x, m, v: F.instance_norm(x, m, v.abs(), use_input_stats=False),
        [t(2, 3, 8), t(3), t(3)],
        [t(4, 3, 10), t(3), t(3)],
    ),
    "batch_norm": (
        lambda x, m, v: torch.batch_norm(x, None, None, m, v.abs(), False, 0.1, 1e-5, False),
        [t(2, 3, 8), t(3), t(3)],
        [t(4, 3, 10), t(3), t(3)],
    ),
    "batch_norm keeps": (
        lambda x, m, v: torch.batch_norm(x, m, v, m, v, True, 0.2, 1e-5, False),
        [t(2, 3, 8), t(3), t(3)],
        [t(4, 3, 10), t(3), t(3)],
    ),
}

REST = {
    "upsample": (lambda x: F.upsample(x, scale_factor=2), [t(2, 3, 4, 4)], [t(3, 3, 5, 6)]),
    "upsample_bilinear": (lambda x: F.upsample_bilinear(x, size=(5, 7)) + 1, [t(2, 3, 4, 4)], [t(3, 3, 5, 6)]),
    "unravel_index": (lambda j: torch.unravel_index(j, (3, 4)), [torch.arange(4)], [torch.arange(10)]),
    "asarray": (lambda x: (torch.asarray(x), torch.asarray([1.0, 2.0]) + x), [t(3, 2)], [t(5, 2)]),
    "tolist": (lambda x: ((x * 2).tolist(), x + 1), [t(2, 3)], [t(4, 5)]),
    "threads": (lambda x: x * torch.get_num_threads(), [t(2, 3)], [t(4, 5)]),
}


@pytest.mark.parametrize("name", OUT)
def test_out(name):
    fn, *calls = OUT[name]
    check(fn, *calls)


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name):
    fn, *calls = IN_PLACE[name]
    check(fn, *calls)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_norms(name, dtype):
    fn, *calls = NORMS[name]
    check(fn, *([a.to(dtype) for a in args] for args in calls))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REST)
def test_the_rest(name):
    fn, *calls = REST[name]
    check(fn, *calls)


@pytest.mark.parametrize("name", ["lgamma", "mm", "cat", "linspace"])
def test_an_out_of_another_size_is_resized_as_eager_does(name):
    fn, right, _ = OUT[name]
    fast = dynoc.optimize(fn, wait=True)
    for first in (t(0), t(1, 1), right[-1].clone()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mine, theirs = [*right[:-1], first.clone()], [*right[:-1], first.clone()]
            same(fast(*mine), fn(*theirs))
            same(mine, theirs)


def test_the_number_of_threads_is_asked_for_at_each_call():
    fast, before = dynoc.optimize(lambda x: x * torch.get_num_threads(), wait=True), torch.get_num_threads()
    try:
        for n in (1, 2, 1):
            torch.set_num_threads(n)
            same(fast(t(3)), t(3) * n)
    finally:
        torch.set_num_threads(before)


WRONG = {
    "out of integers": lambda x: torch.lgamma(x, out=torch.empty(3, dtype=torch.int64)) + 1,
    "product of another dtype": lambda x: torch.mm(x.view(1, 3), x.view(3, 1), out=torch.empty(1, 1, dtype=torch.float64)) + 1,
    "one value": lambda x: F.instance_norm(x.view(1, 3, 1)) + 1,
    "places outside": lambda x: x.index_add_(0, i(0, 3), x[:2]) + 1,
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_pytorchs(name):
    refused(WRONG[name], lambda: t(3), RuntimeError, ValueError, IndexError)


@pytest.mark.parametrize("options", [{}, {"affine": True}, {"affine": True, "track_running_stats": True}])
@pytest.mark.parametrize("training", [True, False])
def test_instance_norm_as_a_module(options, training):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv1d(3, 4, 3), nn.InstanceNorm1d(4, **options), nn.ReLU()).train(training)
    model = copy.deepcopy(plain)
    fast = dynoc.optimize(model, wait=True, fullgraph=True)
    with torch.no_grad():
        for shape in ((2, 3, 9), (4, 3, 12), (2, 3, 9)):
            same(fast(t(*shape)), plain(t(*shape)))
            same(dict(model.state_dict()), dict(plain.state_dict()))
    assert len(fast.entries) == 1
