"""A user's mistakes in PyTorch code: wrong shapes, dtypes and devices raise PyTorch's own message, from the user's line."""

import traceback

import dynoc
import pytest
from torch_cases import same, torch

F = torch.nn.functional
GOOD = torch.ones(2, 3)


def add(x, y):
    before = x * 2.0
    return before + y


def product(x, y):
    before = x * 2.0
    return before @ y


def linear(x, y):
    before = x * 2.0
    return F.linear(before, y) + 1.0


def in_place(x, y):
    z = x * 2
    z += y
    return z


def view(x, y):
    before = x * 2.0
    return before.view(y.shape) + 1.0


def joined(x, y):
    before = x * 2.0
    return torch.cat([before, y]) + 1.0


def looked_up(x, y):
    before = x * 2.0
    return before[y] + 1.0


def losses(x, y):
    before = x * 2.0
    return F.cross_entropy(before, y) + 1.0


def convolved(x, y):
    before = x * 2.0
    return F.conv1d(before, y) + 1.0


def normalised(x, y):
    before = x * 2.0
    return F.layer_norm(before, y.shape[1:]) + 1.0


def einsum(x, y):
    before = x * 2.0
    return torch.einsum("ij,jk->ik", before, y) + 1.0


META = torch.ones(2, 3, device="meta")
MISTAKES = [
    (add, (GOOD, torch.ones(2, 3)), (GOOD, torch.ones(2, 4))),
    (add, (GOOD, torch.ones(3)), (torch.ones(5), torch.ones(4))),
    (add, (GOOD, torch.ones(2, 3)), (GOOD, META)),
    (product, (GOOD, torch.ones(3, 4)), (GOOD, torch.ones(4, 3))),
    (product, (GOOD, torch.ones(3, 4)), (GOOD, torch.ones(3, 4, dtype=torch.float64))),
    (linear, (GOOD, torch.ones(4, 3)), (GOOD, torch.ones(4, 5))),
    (linear, (GOOD, torch.ones(4, 3)), (GOOD.double(), torch.ones(4, 3))),
    (in_place, (GOOD, torch.ones(3)), (GOOD, torch.ones(2, 2, 3))),
    (in_place, (GOOD, torch.ones(3)), (GOOD.long(), torch.ones(3))),
    (view, (GOOD, torch.ones(6)), (GOOD, torch.ones(7))),
    (joined, (GOOD, torch.ones(4, 3)), (GOOD, torch.ones(4, 4))),
    (joined, (GOOD, torch.ones(4, 3)), (GOOD, META)),
    (looked_up, (GOOD, torch.tensor([1, 0])), (GOOD, torch.tensor([1, 2]))),
    (looked_up, (GOOD, torch.tensor([1, 0])), (GOOD, torch.ones(2))),
    (losses, (GOOD, torch.tensor([1, 0])), (GOOD, torch.tensor([1, 7]))),
    (losses, (GOOD, torch.tensor([1, 0])), (GOOD, torch.tensor([1, 0, 1]))),
    (losses, (GOOD, torch.tensor([1, 0])), (GOOD, torch.tensor([1, 0], dtype=torch.int32))),
    (convolved, (torch.ones(1, 3, 8), torch.ones(4, 3, 3)), (torch.ones(1, 2, 8), torch.ones(4, 3, 3))),
    (convolved, (torch.ones(1, 3, 8), torch.ones(4, 3, 3)), (torch.ones(1, 3, 2), torch.ones(4, 3, 3))),
    (normalised, (GOOD, torch.ones(2, 3)), (GOOD, torch.ones(2, 4))),
    (einsum, (GOOD, torch.ones(3, 4)), (GOOD, torch.ones(4, 3))),
]


def raised(fn, args, function):
    """The type and the message of what a call raises, and the line of the user's function from which it comes."""
    with pytest.raises(Exception) as caught:
        fn(*args)
    lines = [f.lineno for f in traceback.extract_tb(caught.value.__traceback__) if f.name == function.__name__]
    return type(caught.value), str(caught.value), lines[-1:]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
@pytest.mark.parametrize("warm", [False, True])
def test_a_mistake(number, warm):
    fn, good, bad = MISTAKES[number]
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(3 * warm):
        same(fast(*good), fn(*good))
    for _ in range(2):
        assert raised(fast, bad, fn) == raised(fn, bad, fn)
    same(fast(*good), fn(*good))


def test_meta_tensors_alone():
    fast = dynoc.optimize(add, wait=True)
    for args in [(META, META), (GOOD, GOOD), (META, META)]:
        got, want = fast(*args), add(*args)
        assert got.device == want.device and got.shape == want.shape
