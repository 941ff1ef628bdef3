"""Views that one call gives (split, chunk, unbind) are made by that call where autograd follows them: backward joins their
gradients once."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from compare import dynoc  # noqa: E402


def heads(q, k, v):
    return torch.stack([F.avg_pool1d(x, 2) for x in (q, k, v)])


FUNCTIONS = {
    "split": lambda x: heads(*x.split(4, 2)),
    "split_by_sizes": lambda x: [F.avg_pool1d(p, 2) for p in x.split([2, 6, 4], 2)],
    "a_last_that_is_shorter": lambda x: [F.avg_pool1d(p, 2) for p in x.split(5, dim=-1)],
    "chunk": lambda x: heads(*x.chunk(3, dim=-1)),
    "unbind": lambda x: heads(*x.reshape(2, 3, 6, 2).unbind(1)),
    "two_of_three": lambda x: [F.avg_pool1d(p, 2) for p in x.split(4, 2)[:2]],
    "one_of_three": lambda x: F.avg_pool1d(x.split(4, 2)[1], 2),
    "last_first": lambda x: [F.avg_pool1d(p, 2) for p in x.split(4, 2)[::-1]],
    "of_what_is_computed": lambda x: heads(*torch.tanh(x * 2).split(4, 2)),
    "computed_and_called": lambda x: (F.avg_pool1d(x.split(4, 2)[0], 2), torch.tanh(x.split(4, 2)[1]) * 3),
    "of_a_part": lambda x: [F.avg_pool1d(p, 2) for p in x.split(4, 2)[2].split(2, 2)],
    "with_a_sum_between": lambda x: [F.avg_pool1d(p + x.sum(), 2) for p in x.split(4, 2)],
    "results_themselves": lambda x: x.split(4, 2),
    "unsafe_split": lambda x: [F.avg_pool1d(p, 2) for p in torch.unsafe_split(x, 4, 2)],
    "tensor_split": lambda x: heads(*torch.tensor_split(x, 3, 2)),
}


def leaf(last=12, dtype=torch.float64):
    return torch.randn(2, 3, last, dtype=dtype, generator=torch.Generator().manual_seed(last)).requires_grad_()


def tensors(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def names_behind(result):
    """What autograd's nodes are called, but for those that dynoc or eager make of computations."""
    seen, todo = [], [t.grad_fn for t in tensors(result)]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.append(node)
            todo += [n for n, _ in node.next_functions]
    return sorted(n.name() for n in seen if any(k in n.name() for k in ("Split", "Unbind", "Slice", "Select")))


def gradients(function, x, create_graph=False):
    loss = sum(t.sin().sum() * (i + 1) for i, t in enumerate(tensors(function(x))))
    return torch.autograd.grad(loss, x, create_graph=create_graph)[0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_and_gradients_are_eagers(name):
    function, fast = FUNCTIONS[name], dynoc.optimize(FUNCTIONS[name], wait=True, options={"retire": False})
    fast(leaf())
    for x in (leaf(), leaf(), leaf(dtype=torch.float32)):
        torch.testing.assert_close(tensors(fast(x)), tensors(function(x)))
        torch.testing.assert_close(gradients(fast, x), gradients(function, x))
    assert sum(e.hits for e in fast.entries) >= 3


OTHERWISE = {"computed_and_called", "unsafe_split", "one_of_three", "of_a_part", "with_a_sum_between"}  # within parts, or alone


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in OTHERWISE])
def test_autograd_has_the_node_that_it_has_in_eager(name):
    function, fast = FUNCTIONS[name], dynoc.optimize(FUNCTIONS[name], wait=True, options={"retire": False})
    fast(leaf())
    assert names_behind(fast(leaf())) == names_behind(function(leaf()))
    assert fast.entries[0].hits == 1


@pytest.mark.parametrize("name", ["split", "unbind", "split_by_sizes"])
def test_gradients_of_gradients(name):
    function, fast = FUNCTIONS[name], dynoc.optimize(FUNCTIONS[name], wait=True, options={"retire": False})
    x = leaf()
    fast(x)
    first, expected = (gradients(f, x, create_graph=True).square().sum() for f in (fast, function))
    torch.testing.assert_close(torch.autograd.grad(first, x), torch.autograd.grad(expected, x))


def test_other_sizes_of_the_whole():
    function = FUNCTIONS["chunk"]
    fast = dynoc.optimize(function, wait=True, options={"retire": False})
    for last in (12, 18, 24, 12):
        torch.testing.assert_close(gradients(fast, leaf(last)), gradients(function, leaf(last)))


def test_a_change_in_place_of_a_view_is_refused_as_in_eager():
    function = FUNCTIONS["results_themselves"]
    fast, said = dynoc.optimize(function, wait=True, options={"retire": False}), []
    for f in (function, fast, fast):
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace") as raised:
            f(leaf() * 1)[0].add_(1)
        said.append(str(raised.value))
    assert len(set(said)) == 1 and fast.entries[0].hits == 1


def test_within_no_grad_they_are_views_like_others():
    def function(x):
        with torch.no_grad():
            a, b, c = x.split(4, 2)
        return F.avg_pool1d(a, 2) + F.avg_pool1d(b, 2), F.avg_pool1d(x, 2), c

    fast = dynoc.optimize(function, wait=True, options={"retire": False})
    for _ in range(3):
        x, y = leaf(), leaf()
        found, expected = fast(x), function(y)
        torch.testing.assert_close(found, expected)
        assert [t.requires_grad for t in found] == [t.requires_grad for t in expected]


def test_a_change_of_the_whole_between_its_views_and_their_use():
    def function(x):
        y = F.avg_pool1d(x, 1)
        a, b, c = y.split(4, 2)
        y.mul_(2)
        return F.avg_pool1d(a, 2), F.avg_pool1d(b, 2) * torch.tanh(c)[..., :2]

    fast, said = dynoc.optimize(function, wait=True, options={"retire": False}), []
    for f in (function, fast, fast, fast):
        with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace") as raised:
            f(leaf())
        said.append(str(raised.value))
    assert len(set(said)) == 1
