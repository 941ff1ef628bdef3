"""Calls of PyTorch's own whose sizes are known before they are made: one graph and one entry for every size, with what follows
fused."""

import pytest
from torch_cases import check, torch

F = torch.nn.functional
SIZES = [(2, 5), (3, 7), (4, 16)]


def tensors(*shapes, seed=0):
    made = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(*shape, generator=made) for shape in shapes)


def behind(y, *others):
    """What would be a break if sizes were known only behind the call: a branch on them."""
    return (y * 2.0 + 1.0 if y.shape[-1:] != (1,) else y), *others


@pytest.mark.parametrize(
    "equation", ["ij,jk->ik", "ij,jk", "ij,jk->ki", "ij,jk->", "bij, bjk -> bik", "ij,ij->i", "i,j->ij"]
)
def test_einsum(equation):
    labels = equation.replace(" ", "").partition("->")[0].split(",")

    def fn(*given):
        return behind(torch.einsum(equation, *given))

    def operands(n):
        return tensors(*[[n + "bijk".index(label) for label in part] for part in labels])

    check(fn, *[operands(n) for n in (3, 4, 6)])


def test_einsum_of_a_list_that_broadcasts():
    def fn(x, y):
        return behind(torch.einsum("bi,bi->b", [x, y]))

    check(fn, *[tensors((b, i), (1, i)) for b, i in SIZES])


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_pad(mode):
    def fn(x):
        return behind(F.pad(x, (1, 2), mode=mode))

    check(fn, *[tensors((2, n, m + 2)) for n, m in SIZES])


def test_pad_by_numbers_of_the_call():
    def fn(x, k):
        return behind(F.pad(x, (k, 0, 1, -1), value=2.0))

    check(fn, *[(*tensors((n, m)), k) for (n, m), k in zip(SIZES, (2, 3, 4), strict=True)])


@pytest.mark.parametrize(
    "how", [{"scale_factor": 2}, {"scale_factor": 1.7}, {"scale_factor": (0.5, 3.0)}, {"size": (5, 6)}, {"size": 7}]
)
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_interpolate(how, mode):
    def fn(x):
        return behind(F.interpolate(x, mode=mode, **how))

    check(fn, *[tensors((2, 3, n + 1, m)) for n, m in SIZES])


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("how", [{}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2, "dilation": 2}])
def test_conv_transpose(axes, how):
    call = getattr(F, f"conv_transpose{axes}d")

    def fn(x, w):
        return behind(call(x, w, **how))

    check(fn, *[tensors((n, 4, *[m] * axes), (4, 3, *[3] * axes)) for n, m in SIZES])


def test_pixel_shuffle():
    def fn(x):
        y = F.pixel_shuffle(x, 2)
        return behind(y, F.pixel_unshuffle(y, 2))

    check(fn, *[tensors((n, 8, m, n)) for n, m in SIZES])


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("how", [{}, {"bidirectional": True, "batch_first": True, "num_layers": 2}])
def test_recurrent(kind, how):
    torch.manual_seed(1)
    layer = getattr(torch.nn, kind)(5, 6, **how).requires_grad_(False)

    def fn(x):
        y, state = layer(x)
        return behind(y[:, -1], state)

    check(fn, *[tensors((n, m, 5)) for n, m in SIZES])


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_recurrent_cells(kind):
    torch.manual_seed(1)
    cell = getattr(torch.nn, kind)(5, 6).requires_grad_(False)

    def fn(x):
        state = cell(x)
        return behind(state[0] if kind == "LSTMCell" else state)

    check(fn, *[tensors((n, 5)) for n, _ in SIZES])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.sort(x, dim=0)[0],
        lambda x: x.sort().indices,
        lambda x: x.topk(2).values,
        lambda x: torch.topk(x, 2, dim=0)[1],
        lambda x: torch.cummax(x, 1)[0],
        lambda x: torch.argsort(x),
        lambda x: torch.erfc(x),
        lambda x: torch.special.i0(x),
        lambda x: torch.nan_to_num(x),
        lambda x: x.int() // 2 + x.long() % 3 + (x.int() << 2),
        lambda x: torch.xlogy(x.abs(), x[:1].abs()),
        lambda x: torch.nextafter(x, x[0]),
        lambda x: torch.take_along_dim(x, x.argsort(0)[:1], 0),
        lambda x: torch.take_along_dim(x, x.argsort(1) % 2),
        lambda x: torch.mv(x, x[0]),
        lambda x: torch.outer(x[0], x[:, 0]),
        lambda x: torch.dot(x[0], x[1]).reshape(1, 1).expand(2, 2),
        lambda x: torch.eye(x.shape[0]) + torch.eye(x.shape[0], x.shape[1])[:, :1],
        lambda x: torch.linspace(0, 1, x.shape[1]) * x,
        lambda x: torch.logspace(0, 1, x.shape[1]) * x,
        lambda x: torch.arange(0.0, x.shape[1] / 2, 0.5) + x,
        lambda x: F.one_hot(x.argmax(1), 20),
    ],
    ids=range(22),
)
def test_sizes(call):
    def fn(x):
        return behind(call(x))

    check(fn, *[tensors((n, m)) for n, m in SIZES])


@pytest.mark.parametrize(
    "call", [torch.relu_, torch.neg_, torch.clamp_min_, F.relu_, F.elu_, F.leaky_relu_, F.hardtanh_], ids=lambda f: f.__name__
)
def test_functions_in_place(call):
    def fn(x):
        y = x * 2.0
        call(y, *[0.5] * (call is torch.clamp_min_))
        return behind(y)

    check(fn, *[tensors((n, m)) for n, m in SIZES])


def test_operators_in_place_of_integers():
    def fn(x):
        i = x.long() * 3
        i //= 2
        i %= 5
        i <<= 2
        return behind(i)

    check(fn, *[tensors((n, m)) for n, m in SIZES])
