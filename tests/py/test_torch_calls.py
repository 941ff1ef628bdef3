"""Calls of PyTorch's own functions whose sizes are known before they are made: one entry for all sizes."""

import pytest
from process import run_script
from torch_cases import check, same, torch

import dynoc
from torch.nn import functional as F


def t(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


B, W1, W2, W3 = t(4), t(4, 3, 3), t(4, 3, 3, 3), t(4, 3, 3, 3, 3)
IMAGES = [t(2, 3, 9, 11)], [t(3, 3, 12, 10)], [t(1, 3, 7, 8)]

WINDOWS = {
    "conv2d": (lambda x: F.conv2d(x, W2, B) + 1, IMAGES),
    "stride": (lambda x: F.conv2d(x, W2, stride=2, padding=1).relu(), IMAGES),
    "tuples": (lambda x: F.conv2d(x, W2, None, (2, 1), (1, 0), (1, 2)) * 2, IMAGES),
    "same": (lambda x: F.conv2d(x, W2, padding="same") + x[:, :1], IMAGES),
    "valid": (lambda x: F.conv2d(x, W2, padding="valid") + 1, IMAGES),
    "groups": (lambda x: F.conv2d(x, W2[:3, :1], groups=3) + 1, IMAGES),
    "unbatched": (lambda x: F.conv2d(x, W2) + 1, ([t(3, 9, 11)], [t(3, 12, 8)])),
    "conv1d": (lambda x: F.conv1d(x, W1, padding=1) + 1, ([t(2, 3, 9)], [t(3, 3, 17)])),
    "conv3d": (lambda x: F.conv3d(x, W3, stride=2) + 1, ([t(2, 3, 9, 8, 7)], [t(3, 3, 5, 6, 7)])),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2) + 1, IMAGES),
    "max_pool2d of a stem": (lambda x: F.max_pool2d(x, 3, 2, 1) + 1, IMAGES),
    "ceil_mode": (lambda x: F.max_pool2d(x, 2, ceil_mode=True) + 1, IMAGES),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2) + 1, ([t(2, 3, 9)], [t(3, 3, 17)])),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, (2, 3), (1, 2)) + 1, IMAGES),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)) + 1, IMAGES),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 4) + 1, ([t(2, 3, 9)], [t(3, 3, 17)])),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name):
    fn, calls = WINDOWS[name]
    check(fn, *calls)


def test_a_window_that_does_not_fit_raises_as_eager():
    import dynoc

    fast = dynoc.optimize(lambda x: F.conv2d(x, W2) + 1, wait=True)
    fast(t(2, 3, 9, 9))
    with pytest.raises(RuntimeError, match="Kernel size can't be greater than actual input size"):
        fast(t(2, 3, 2, 9))


def test_products_that_add():
    check(lambda b, x, y: torch.addmm(b, x, y) + 1, [t(5), t(3, 4), t(4, 5)], [t(9), t(7, 8), t(8, 9)])
    calls = [t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)], [t(3, 7, 9), t(3, 7, 8), t(3, 8, 9)]
    check(lambda b, x, y: torch.baddbmm(b, x, y, beta=2) + 1, *calls)


def test_embeddings():
    table = t(10, 4)
    calls = [torch.tensor([[1, 2, 3], [4, 5, 9]])], [torch.arange(10).reshape(5, 2)]
    check(lambda i: F.embedding(i, table) + 1, *calls)
    check(lambda i: F.embedding(i, table, padding_idx=0) + 1, *calls)


def test_attention():
    attend = F.scaled_dot_product_attention
    calls = [t(2, 2, 5, 4)] * 3, [t(3, 2, 7, 4)] * 3
    check(lambda q, k, v: attend(q, k, v) + 1, *calls)
    check(lambda q, k, v: attend(q, k, v, is_causal=True) + 1, *calls)
    check(lambda q, k, v, m: attend(q, k, v, attn_mask=m, scale=0.5) + 1, [*calls[0], t(5, 5)], [*calls[1], t(7, 7)])


def test_dropout_of_evaluation_is_nothing():
    check(lambda x: F.dropout(x, 0.3, False) + F.dropout2d(x, 0.3, training=False) + 1, [t(2, 3, 4, 5)], [t(3, 4, 5, 6)])
    check(lambda x: F.dropout(x + 1, 0.0, True) * 2, [t(3, 4)], [t(5, 6)])


def test_dropout_of_training_draws_as_eager():
    import dynoc

    def fn(x):
        return F.dropout(x + 1, 0.5, True) * 2

    fast = dynoc.optimize(fn, wait=True, fullgraph=True)
    x = t(30, 40)
    for _ in range(3):
        torch.manual_seed(3)
        want = fn(x), torch.rand(3)
        torch.manual_seed(3)
        got = fast(x), torch.rand(3)
        assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])
    assert len(fast.entries) == 1


def test_group_norm():
    check(lambda x: F.group_norm(x, 2) + 1, [t(3, 4, 5)], [t(5, 4, 7)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_classes_are_fused(dtype, reduction):
    def made(rows, classes):
        return [torch.randn(rows, classes, dtype=dtype) * 3, torch.randint(0, classes, (rows,))]

    sizes = [made(2, 2), made(8, 8), made(17, 33), made(65, 100), made(3, 1000)]
    entropy = check(lambda x, y: F.cross_entropy(x, y, reduction=reduction), *sizes)
    assert "extern" not in str(entropy.entries[0].graph)
    check(lambda x, y: F.nll_loss(F.log_softmax(x, 1), y, reduction=reduction) * 2, *sizes)
    ignoring = [[x, torch.where(torch.arange(len(y)) % 3 == 1, -100, y)] for x, y in sizes]
    check(lambda x, y: F.cross_entropy(x, y, reduction=reduction), *ignoring)
    check(lambda x, y: F.cross_entropy(x * 2, y, ignore_index=1, reduction=reduction), *sizes)
    x, y = made(4, 5)
    nothing, infinite = torch.full_like(y, -100), torch.where(x > 2, torch.inf, x)
    odd = [x, nothing], [infinite, y], [-infinite, y], [x + torch.nan, y]
    check(lambda x, y: F.cross_entropy(x, y, reduction=reduction), *odd)
    check(lambda x, y: F.cross_entropy(x.T, y, reduction=reduction), made(5, 5))
    check(lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, reduction=reduction), *sizes)


def test_classes_that_there_are_not():
    fast = dynoc.optimize(lambda x, y: F.cross_entropy(x, y), wait=True)
    x, y = torch.randn(4, 5), torch.tensor([0, 4, 2, 1])
    same(fast(x, y), F.cross_entropy(x, y))
    for wrong in (5, -1, 2**40, -(2**62), 6):
        with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
            fast(x, torch.tensor([0, 1, wrong, 2]))
    same(fast(x, y), F.cross_entropy(x, y))


def test_functions_of_torch_that_the_program_has_put_in_the_place_of_others():
    code, out, err = run_script("""
        import torch
        import dynoc

        torch.relu, torch.special.erf, torch.Tensor.exp = torch.sigmoid, torch.erfc, torch.Tensor.sin

        def f(x):
            return torch.sigmoid(x) + torch.relu(x) * 2 + torch.erfc(x) + torch.special.erf(x) + x.sin() + x.exp()

        fast, x = dynoc.optimize(f, wait=True, options={"retire": False}), torch.arange(-3., 3)
        print([torch.allclose(fast(x), f(x)) for _ in range(3)])
    """)
    assert (code, out) == (0, "[True, True, True]\n"), err


def test_functions_that_the_program_has_replaced():
    code, out, err = run_script("""
        import torch
        from torch.nn import functional as F
        import dynoc

        def relu(x, inplace=False):
            return x * 2 - 1

        def tanh(self):
            return self + 3

        F.relu, torch.special.expit, torch.Tensor.tanh = relu, relu, tanh
        fast = dynoc.optimize(lambda x: F.relu(x) + torch.special.expit(x) + x.tanh() + x.sigmoid() + torch.relu(x), wait=True)
        x = torch.arange(-3., 3)
        plain = relu(x) + relu(x) + x + 3 + x.sigmoid() + torch.relu(x)
        print([torch.equal(fast(x), plain) for _ in range(3)])
    """)
    assert (code, out) == (0, "[True, True, True]\n"), err
