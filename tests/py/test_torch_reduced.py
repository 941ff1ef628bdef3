"""Functions made of reductions: fused, and equal to eager also of nan, of nothing and of what lies otherwise."""

import pytest
from torch_cases import check, refused, same, torch

import dynoc
from torch.nn import functional as F

NAN = float("nan")


def t(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    x = torch.randn(shape, generator=generator)
    x[..., 0] = NAN if sum(shape) % 2 else 0.0
    return x.to(dtype)


CASES = {
    "nansum": lambda x: (torch.nansum(x), x.nansum(1), x.nansum((0, 1), keepdim=True), torch.nansum(x, 0, dtype=torch.float64)),
    "nanmean": lambda x: (torch.nanmean(x), x.nanmean(1), torch.nanmean(x, -1, True)),
    "aminmax": lambda x: (torch.aminmax(x), x.aminmax(dim=1), torch.aminmax(x, dim=0, keepdim=True).max + 1),
    "diff": lambda x: (torch.diff(x), x.diff(dim=0) * 2, torch.diff(x > 0, dim=-1)),
    "cosine_similarity": lambda x: (F.cosine_similarity(x, x.flip(1)), torch.cosine_similarity(x, x[:1], dim=-1, eps=0.1)),
    "pairwise_distance": lambda x: (F.pairwise_distance(x, x.flip(0)), F.pairwise_distance(x, x[:1], p=1.0, keepdim=True)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_fused(name, dtype):
    fast = check(CASES[name], [t(3, 4, dtype=dtype)], [t(6, 7, dtype=dtype)], [t(40, 33, dtype=dtype)])
    assert "extern" not in str(fast.entries[0].graph)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("name", ["aminmax", "diff", "nansum"])
def test_other_dtypes(name, dtype):
    calls = [[t(3, 5).nan_to_num().mul(9).to(dtype)], [t(6, 8).mul(9).to(dtype)]]
    check(CASES[name], *calls)


@pytest.mark.parametrize("name", CASES)
def test_inputs_that_lie_otherwise(name):
    fast = dynoc.optimize(CASES[name], wait=True)
    for x in [t(4, 3).t(), t(6, 4)[::2], t(1, 4), t(4, 1), t(2, 0 + 2), t(4, 3).t()]:
        same(fast(x), CASES[name](x))


WRONG = {
    "least of nothing": lambda x: torch.aminmax(x[:0]),
    "an axis that isn't there": lambda x: torch.diff(x, dim=3),
    "sizes": lambda x: F.cosine_similarity(x, x[:, :2]),
    "sum of an axis that isn't there": lambda x: torch.nansum(x, 2),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_pytorchs(name):
    refused(WRONG[name], lambda: t(3, 4), RuntimeError, IndexError)
