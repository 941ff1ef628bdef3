"""What tests/fuzz/tensor_programs.py found."""

import pytest
from torch_cases import check, torch

import dynoc


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_sign_of_a_remainder_of_zero(dtype):
    a = torch.tensor([0.0, -0.0, 4.0, -4.0, 3.0, -3.0, float("inf"), float("nan")], dtype=dtype)
    b = torch.tensor([-2.0, 2.0], dtype=dtype)[:, None]

    def fn(x, y):
        return [1 / (x % y), 1 / torch.remainder(x, 2.0), 1 / (x % -2), 1 / (4 % y), 1 / torch.fmod(x, y), x // y]

    check(fn, (a, b), (a[:3], b), (a[2:], b))


def test_writes_through_looks_that_overlap():
    """PyTorch raises where it sees that, and goes its own way where it doesn't: that is its call's."""

    def shifted(x):
        x[1:].add_(x[:-1])
        return x * 2

    def copied(x):
        x[1:] = x[:-1]
        return x + 1

    def apart(x):
        x[::2] = x[1::2]
        x[0] += x[1]
        x[:, 1:] *= x[:, 1:]
        return x + 1

    for fn in (shifted, copied):
        fast = dynoc.optimize(fn, wait=True)
        for n in (2, 2, 3, 5):
            for x in (torch.rand(n, 3), torch.rand(3, n).T, torch.rand(n)):
                mine, theirs = x.clone(), x.clone()
                try:
                    want = fn(theirs)
                except RuntimeError as error:
                    with pytest.raises(RuntimeError, match="refer to a single memory location") as caught:
                        fast(mine)
                    assert str(caught.value) == str(error)
                else:
                    assert torch.equal(fast(mine), want)
                assert torch.equal(mine, theirs)
    check(apart, (torch.rand(4, 3),), (torch.rand(6, 5),))


def test_an_empty_view_behind_a_graph_that_was_left():
    def fn(x):
        bits = x.int().view(torch.uint8)
        return bits, x * float(x.double().mean()), x[..., ::2]

    fast = dynoc.optimize(fn, wait=True)
    for n in (3, 3, 0, 2, 0):
        x = torch.ones(n, 4, dtype=torch.int64)
        for got, want in zip(fast(x), fn(x), strict=True):
            assert got.dtype == want.dtype and got.shape == want.shape
            assert n == 0 or got.stride() == want.stride()


def test_a_view_behind_a_graph_that_was_left():
    """The view is the graph's, the branch is on a size that is only known behind a call."""

    def fn(x, n):
        first, parts, turned = x[n % x.shape[0]], x[x > 0], x[1:].view(-1, 1)
        if parts.shape[0] > 2:
            parts = parts * first
        return first, parts, turned, x.detach()[:1]

    fast = dynoc.optimize(fn, wait=True)
    for n, positive in ((4, 2), (4, 1), (6, 4), (5, 3), (3, 0)):
        x = torch.where(torch.arange(n) < positive, 1.5, -2.0)
        for got, want in zip(fast(x, 2), fn(x, 2), strict=True):
            assert torch.equal(got, want) and got.stride() == want.stride()
            assert got.storage_offset() == want.storage_offset()
            shares = want.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            assert (got.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == shares
