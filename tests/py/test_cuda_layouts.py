"""Kernels on CUDA devices over several axes, without a device: how operands lie chooses the function, and each gives what eager
gives. tests/cuda/stand_in.c runs them."""

import pytest

torch = pytest.importorskip("torch")

import dynoc  # noqa: E402
from test_cuda import check, device, kernels, library, pytestmark, randn  # noqa: E402, F401


def cut(*shape, seed=0, front=1, step=1):
    """A tensor whose rows aren't aligned, or whose elements lie apart."""
    whole = randn(*shape[:-1], front + shape[-1] * step, seed=seed)
    return whole[..., front::step]


def softmax(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


# name: (function, of tensors (4, 6, n) and whatever is spread over them)
FUNCTIONS = {
    "map": lambda x, y, c: (x - c[:, None]) * y + 1,
    "halves": lambda x, y, c: (x * y + c[:, None]).half() * 2,
    "part": lambda x, y, c: x[:, 1:-1] * 2 + y[:, 2:] - c[1:5, None],
    "turned": lambda x, y, c: x.permute(1, 0, 2) * 2 + y.permute(1, 0, 2) * c[:, None, None],
    "rows": lambda x, y, c: (x * y + c[:, None]).sum(-1),
    "two of three": lambda x, y, c: (x + y * c[:, None]).sum((0, 2)),
    "all": lambda x, y, c: (x * c[:, None] + y).sum(),
    "columns": lambda x, y, c: (x + y * c[:, None]).sum(1),
    "leading": lambda x, y, c: (x + y * c[:, None]).amax((0, 1)),
    "held": lambda x, y, c: softmax(x * c[:, None] + y),
    "masked": lambda x, y, c: softmax(torch.where(y > c[:, None], x, float("-inf"))),
    "lookup": lambda x, y, c: x[:, torch.arange(5, -1, -1)] * 2 + y,
    "row for each": lambda x, y, c: x[torch.tensor([3, 0, 1, 2])].sum(-1) + y.amax(-1),
    "positions": lambda x, y, c: x * torch.arange(x.shape[-1]) + y - torch.arange(6)[:, None],
    "truths": lambda x, y, c: (x > y) & (c[:, None] > 0),
    "doubled": lambda x, y, c: (x.double() + y * c[:, None]).mean(-1),
}
LAYOUTS = {
    "aligned": lambda n, s: randn(4, 6, n, seed=s),
    "unaligned": lambda n, s: cut(4, 6, n, seed=s),
    "apart": lambda n, s: cut(4, 6, n, seed=s, step=2),
    "across": lambda n, s: randn(n, 6, 4, seed=s).permute(2, 1, 0),
    "padded": lambda n, s: cut(4, 6, n, seed=s, front=4),
    "spread": lambda n, s: randn(6, n, seed=s).expand(4, 6, n),
    "backwards": lambda n, s: randn(6, 4, n, seed=s).transpose(0, 1),
}


@pytest.mark.parametrize("n", [1, 4, 7, 32, 64, 129, 1032])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_layouts(device, name, n):
    """One function, and arguments that lie in another way at each call: the same entry serves all."""
    f = FUNCTIONS[name]
    fast = dynoc.optimize(f, wait=True)
    c = randn(6, seed=9)
    for one in LAYOUTS:
        for other in ("aligned", one):
            x, y = LAYOUTS[one](n, 1), LAYOUTS[other](n, 2)
            torch.testing.assert_close(fast(x, y, c), f(x, y, c), rtol=1e-4, atol=1e-4, equal_nan=True)


def test_places_are_found_once_for_several_groups(device):
    """Where there are enough elements a thread has several of each line: the last visit may have fewer."""
    for n in (1600, 1604, 3137):
        f = lambda x, c: (x * c[:, None]).abs() + 1  # noqa: E731
        check(f, randn(90, 16, n), randn(16, seed=1), calls=1)
    check(lambda x: (x * 2).sum((0, 2)), randn(300, 5, 1600), calls=1, rtol=1e-3)


@pytest.mark.parametrize(
    "f, launches",
    [
        (lambda x: (x * 0.5).permute(0, 2, 1).contiguous(), 1),
        (lambda x: (torch.exp(x)[:, 1:] - torch.exp(x)[:, :-1]) * 2, 1),
        (lambda x: ((x + 1).transpose(1, 2) * 2).sum(0), 1),
        (lambda x: (lambda y: (y[..., 1:] - y[..., :-1]).sum(-1))(x * 2 + 1), 1),
    ],
)
def test_what_windows_read_is_computed_where_it_is_read(device, f, launches):
    for x in (randn(3, 9, 8), cut(3, 9, 8)):
        assert kernels(check(f, x)) == launches


@pytest.mark.parametrize("rows", [3, 40])
def test_what_says_where_rows_are_does_not_halve_groups(device, rows):
    """Places are integers of 8 bytes, and stand still along the rows that are looked up."""

    def f(table, at, w):
        x = table[at] + 1
        return x / (x * x).sum(-1, keepdim=True) * w

    at = torch.arange(rows * 2).reshape(rows, 2) % 9
    fast = check(f, randn(9, 128), at, randn(128, seed=1))
    assert "held_group" in fast.entries[0].source


def test_what_has_too_many_places_is_refused_before_anything_is_written(device):
    """Kernels over several axes count to 2^31. The call that has one, and writes into what came in, is eager's as a whole."""

    def f(count, x):
        count.mul_(2)
        return x.amax()

    fast = dynoc.optimize(f, wait=True)
    for rows, n in ((4, 5), (4, 5), (35_300_000, 61), (5, 7)):
        count, x = torch.ones(3), torch.full((rows, 2), 3, dtype=torch.int8)[:, :1].expand(rows, n)
        assert fast(count, x).item() == 3
        assert count.tolist() == [2, 2, 2]
    assert kernels(fast) > 1
