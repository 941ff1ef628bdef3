"""x[places] of PyTorch tensors: a lookup by one tensor of places is a part of the kernel that uses it."""

import pytest

torch = pytest.importorskip("torch")

import dynoc  # noqa: E402


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def places(*shape, below=30, dtype=torch.int64):
    """Some of them counted from the end."""
    return torch.randint(-below, below, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


LOOKUPS = {
    "rows": (lambda x, i: x[i] * 2 + 1, (30, 64), (17,)),
    "alone": (lambda x, i: x[i], (30, 64), (17,)),
    "elements": (lambda x, i: x[i] + x[0], (30,), (1000,)),
    "short places": (lambda x, i: x[i] + x[0], (30,), (1000,), torch.int32),
    "many places": (lambda x, i: torch.exp(x[i]), (30, 8), (7, 5)),
    "turned places": (lambda x, i: x[i.t()] * 2, (30, 8), (7, 5)),
    "a turned table": (lambda x, i: x.t()[i] * 2, (8, 30), (7,)),
    "a strided table": (lambda x, i: x[::2, 1:][i] * 2, (60, 9), (7,)),
    "sums": (lambda x, i: x[i].sum(0) + x[i].sum(1).sum(), (30, 40), (50,)),
    "halves": (lambda x, i: x.half()[i] * 2, (30, 24), (40,)),
    "computed places": (lambda x, i: x[(i + 1) // 2] + 1, (30, 10), (40,)),
    "of what is computed": (lambda x, i: torch.sin(x)[i] * 3, (30, 10), (40,)),
    "a product with the table": (lambda x, i: x[i] @ x.t(), (30, 10), (40,)),
    "no places": (lambda x, i: x[i] * 2, (30, 10), (0,)),
    "one place": (lambda x, i: x[i] * 2, (30, 10), ()),
    "empty rows": (lambda x, i: x[i] * 2, (30, 0), (5,)),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", LOOKUPS)
def test_results_and_gradients(name, grad):
    f, table, shape, *dtype = LOOKUPS[name]
    i, fast = places(*shape, dtype=dtype[0] if dtype else torch.int64), dynoc.optimize(f, wait=True)
    for seed in range(4):
        x = randn(*table, seed=seed).requires_grad_(grad)
        got, want = fast(x, i), f(x, i)
        assert (got.shape, got.dtype, got.stride()) == (want.shape, want.dtype, want.stride())
        torch.testing.assert_close(got, want)
        if grad:
            scale = torch.rand_like(want)
            for g, w in zip(*(torch.autograd.grad((y * scale).sum(), x) for y in (got, want)), strict=True):
                torch.testing.assert_close(g, w)
    assert fast.entries


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.complex64])
@pytest.mark.parametrize("f", [lambda x, i: x[i] * 2, lambda x, i: x[i]])
def test_gradients_of_places_that_are_named_often(f, dtype):
    i, fast = places(300), dynoc.optimize(f, wait=True)
    for seed in range(4):
        x = randn(30, 8, seed=seed).to(dtype).requires_grad_()
        scale = randn(300, 8, seed=seed + 9).to(dtype)
        got, want = (torch.autograd.grad((run(x, i) * scale).sum().abs(), x)[0] for run in (fast, f))
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want)


def test_a_lookup_is_fused():
    fast = dynoc.optimize(lambda x, i: torch.relu(x[i] * 2 + 1), wait=True)
    for _ in range(3):
        fast(randn(30, 8), places(17))
    assert "gather" in str(fast.entries[0].graph) and fast.entries[0].kernels == 1


@pytest.mark.parametrize("wrong", [30, -31])
@pytest.mark.parametrize("f", [lambda x, i: x[i] * 2, lambda x, i: x[i].sum(), lambda x, i: (x * 2)[i]])
def test_a_place_that_is_not_there(f, wrong):
    x, i, fast = randn(30, 8), places(20), dynoc.optimize(f, wait=True)
    for _ in range(3):
        fast(x, i)
    i[7] = wrong
    with pytest.raises(IndexError) as eager:
        f(x, i)
    with pytest.raises(IndexError) as ours:
        fast(x, i)
    assert str(ours.value) == str(eager.value)
    i[7] = 1
    torch.testing.assert_close(fast(x, i), f(x, i))


def test_nothing_is_written_before_a_place_is_missed():
    def f(x, i, out):
        out.add_(1)
        return x[i] * 2

    x, i, fast = randn(30, 8), places(20), dynoc.optimize(f, wait=True)
    for wrong in (1, 1, 1, 30, 1):
        i[7] = wrong
        outs = torch.zeros(3), torch.zeros(3)
        for run, out in zip((f, fast), outs, strict=True):
            try:
                run(x, i, out)
            except IndexError:
                assert wrong == 30
        assert torch.equal(*outs)


def test_gradients_of_gradients():
    def f(x, i):
        return (torch.sin(x[i]) * x[i]).sum()

    fast, i = dynoc.optimize(f, wait=True), places(40, below=9)
    for seed in range(3):
        results = []
        for run in (f, fast):
            x = randn(9, 3, seed=seed).double().requires_grad_()
            (first,) = torch.autograd.grad(run(x, i), x, create_graph=True)
            results.append((first, *torch.autograd.grad((first * first).sum(), x)))
        for g, w in zip(*results, strict=True):
            torch.testing.assert_close(g, w)
