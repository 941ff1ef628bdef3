"""Other looks at a tensor's memory: by strides, as another dtype, parts of complex numbers, parts along an axis, grids.

One graph, for every size one entry, and equal to eager in values, sizes, strides and memory.
"""

import threading

import numpy as np
import pytest
from torch_cases import check, same, torch

import dynoc

C64 = torch.complex64


def t(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.randn(shape, generator=generator).to(dtype)


CASES = {
    "as_strided": (lambda x: x.as_strided((2, 2), (1, 2)) + 1, [t(3, 4)], [t(5, 6)]),
    "as_strided across rows": (lambda x: torch.as_strided(x, (3, 4), (1, 3)) * 2, [t(3, 4)], [t(5, 6)]),
    "as_strided by sizes": (lambda x: torch.as_strided(x, (x.shape[0],), (x.shape[1],), 1), [t(3, 4)], [t(5, 6)]),
    "as_strided windows": (lambda x: torch.as_strided(x, (x.shape[0] - 2, 3), (1, 1)), [t(8)], [t(15)]),
    "as_strided from": (lambda x: (x * 2).as_strided((2, 3), (3, 1), 2), [t(3, 4)], [t(5, 6)]),
    "as_strided of a view": (lambda x: x[1:].as_strided((2, 2), (1, 2), 5) + 1, [t(3, 4)], [t(5, 6)]),
    "as_strided transposed": (lambda x: x.t().as_strided((x.shape[1], 2), (1, x.shape[1])) + 1, [t(3, 4)], [t(5, 6)]),
    "as_strided of one": (lambda x: x.sum().as_strided((3,), (0,)) + 1, [t(3, 4)], [t(5, 6)]),
    "view_as_real": (lambda x: (torch.view_as_real(x), torch.view_as_real(x) + 1), [t(3, 4, dtype=C64)], [t(5, 6, dtype=C64)]),
    "view_as_real of a column": (
        lambda x: (torch.view_as_real(x[:, 1]), torch.view_as_real(x.t()) + 1),
        [t(3, 4, dtype=C64)],
        [t(5, 6, dtype=C64)],
    ),
    "view_as_real of one": (lambda x: torch.view_as_real(x[0, 0]), [t(3, 4, dtype=C64)], [t(5, 6, dtype=C64)]),
    "view_as_complex": (
        lambda x: (torch.view_as_complex(x), torch.view_as_complex(x.view(-1, 2)), torch.view_as_complex(x) * 2),
        [t(3, 4, 2)],
        [t(5, 6, 2)],
    ),
    "view_as_complex of one": (lambda x: torch.view_as_complex(x[0]) + 1, [t(3, 2)], [t(5, 2)]),
    "rotary": (
        lambda x, f: torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * f).flatten(2),
        [t(3, 4, 8), t(4, 4, dtype=C64)],
        [t(5, 6, 8), t(6, 4, dtype=C64)],
    ),
    "real and imag": (
        lambda x: (x.real, torch.real(x), x.imag, torch.imag(x), x.real + x.imag, x.t().imag * 2),
        [t(3, 4, dtype=C64)],
        [t(5, 6, dtype=C64)],
    ),
    "real of real": (lambda x: (x.real, torch.real(x) + 1), [t(3, 4)], [t(5, 6)]),
    "conjugates of real": (
        lambda x: (x.conj(), torch.conj(x), x.conj_physical(), x.resolve_conj(), x.resolve_neg(), x + 1),
        [t(3, 4)],
        [t(5, 6)],
    ),
    "conjugates": (
        lambda x: (x.conj_physical() + 1, torch.conj_physical(x), x.resolve_conj(), x.resolve_neg()),
        [t(3, 4, dtype=C64)],
        [t(5, 6, dtype=C64)],
    ),
    "conj_physical_": (lambda x: x.conj_physical_(), [t(3, 4, dtype=C64)], [t(5, 6, dtype=C64)]),
    "conj_physical_ of real": (lambda x: (x + 1).conj_physical_(), [t(3, 4)], [t(5, 6)]),
    "H": (lambda x: (x.H, x.mH, x.mT, x.H + 1), [t(3, 4)], [t(5, 6)]),
    "mH": (lambda x: x.mH + 1, [t(2, 3, 4)], [t(4, 5, 6)]),
    "view as other dtypes": (
        lambda x: (x.view(torch.int16), x.view(torch.float64), x.t().view(torch.int32), x.view(torch.uint8) + 1),
        [t(3, 4)],
        [t(5, 6)],
    ),
    "view of bytes": (lambda x: x.view(torch.int64) + 1, [torch.arange(16).to(torch.uint8)], [torch.arange(40).to(torch.uint8)]),
    "view of one": (lambda x: x.max().view(torch.int32), [t(3, 4)], [t(5, 6)]),
    "tensor_split": (lambda x: x.tensor_split((2, 4), dim=-1), [t(3, 7)], [t(4, 10)]),
    "tensor_split from behind": (lambda x: torch.tensor_split(x, [1, 2, -1], dim=0), [t(6, 7)], [t(8, 10)]),
    "tensor_split at no place": (lambda x: torch.tensor_split(x, [4, 2, 50]), [t(6, 7)], [t(8, 10)]),
    "tensor_split by sizes": (lambda x: x.tensor_split((x.shape[0] // 2,)), [t(6, 7)], [t(9, 10)]),
    "hsplit": (lambda x: (torch.hsplit(x, 2), x.hsplit((1, 3))), [t(4, 6)], [t(8, 10)]),
    "hsplit of a vector": (lambda x: (x.hsplit(2), torch.hsplit(x, [1])[1] + 1), [t(4)], [t(8)]),
    "vsplit": (lambda x: (x.vsplit(2), torch.vsplit(x, [1, 2])), [t(4, 6)], [t(8, 10)]),
    "dsplit": (lambda x: (torch.dsplit(x, 2), x.dsplit([1, 2])), [t(4, 6, 6)], [t(8, 10, 4)]),
    "unsafe": (
        lambda x: (torch.unsafe_split(x, 2), x.unsafe_chunk(2, 1), torch.unsafe_split_with_sizes(x, [1, 3], 1)),
        [t(3, 4)],
        [t(4, 4)],
    ),
    "atleast of a vector": (
        lambda x, y: (torch.atleast_1d(x), torch.atleast_2d(x), torch.atleast_3d(x), torch.atleast_2d(x, y)),
        [t(4), t(3)],
        [t(5), t(7)],
    ),
    "atleast of one": (
        lambda x: (torch.atleast_1d(x.sum()), torch.atleast_2d(x.sum()), torch.atleast_3d(x.sum()) + 1, torch.atleast_3d(x)),
        [t(4, 2)],
        [t(5, 3)],
    ),
    "meshgrid": (lambda x, y: torch.meshgrid(x, y, indexing="ij"), [t(4), t(3)], [t(5), t(7)]),
    "meshgrid xy": (lambda x, y: torch.meshgrid([x, y, x], indexing="xy"), [t(4), t(3)], [t(5), t(7)]),
    "meshgrid used": (
        lambda x, y: [g * 2 for g in torch.meshgrid(x, torch.arange(1.0, y.shape[0]), y.sum(), indexing="xy")],
        [t(4), t(3)],
        [t(5), t(7)],
    ),
    "cartesian_prod": (lambda x, y: torch.cartesian_prod(x, y), [t(4), t(3)], [t(5), t(7)]),
    "broadcast_tensors": (lambda x, y: torch.broadcast_tensors(x, y), [t(4, 1), t(3)], [t(5, 1), t(7)]),
    "broadcast_tensors used": (lambda x, y: [a + 1 for a in torch.broadcast_tensors(x, y)], [t(4, 3), t(3)], [t(5, 7), t(7)]),
    "broadcast_shapes": (
        lambda x, y: (x.expand(torch.broadcast_shapes(x.shape, y.shape, (1,))) + 1, torch.broadcast_shapes(x.shape, 1)),
        [t(4, 1), t(3)],
        [t(5, 1), t(7)],
    ),
    "data": (lambda x: (x.data, x.data + 1), [t(4, 2)], [t(5, 3)]),
    "untracked": (lambda x: ((x * 2).detach_(), (x * 3).requires_grad_(False) + 1), [t(4, 2)], [t(5, 3)]),
    "counts": (lambda x: x + x.ndimension() + x.nelement(), [t(4, 2)], [t(5, 3)]),
    "type": (lambda x: (x.type(torch.float64), x.type(), x.type("torch.IntTensor"), x.type(torch.float32)), [t(4, 2)], [t(5, 3)]),
    "new": (
        lambda x: (x.new_tensor([1.0, 2]) + x, x.new(2, x.shape[0]).shape, x.new_tensor(3) + x, x.new_tensor([1])),
        [t(4, 2)],
        [t(5, 2)],
    ),
    "facts": (
        lambda x: (x + 1, x.is_signed(), x.element_size(), x.is_conj(), x.is_neg(), x.get_device(), x.is_ipu),
        [t(4, 2)],
        [t(5, 3)],
    ),
    "layout": (
        lambda x: (x.is_contiguous(), x.t().is_contiguous(), x.stride(), x.t().stride(), x.stride(-1), x[:, 1:].stride(0), x + 1),
        [t(4, 3)],
        [t(5, 6)],
    ),
    "branch by layout": (lambda x: x.view(-1) + 1 if x.is_contiguous() and x.stride(-1) == 1 else x * 2, [t(4, 3)], [t(5, 6)]),
}


@pytest.mark.parametrize("name", CASES)
def test_captured(name):
    fn, *calls = CASES[name]
    check(fn, *calls)


def by_strides(x):
    return x.as_strided((2, x.shape[0]), (1, x.shape[1]))


SHARED = {
    "as_strided": by_strides,
    "as_strided of a part": lambda x: x[1:].as_strided((2, 2), (1, 2), 3),
    "bytes": lambda x: x.view(torch.uint8),
    "wider": lambda x: x.view(torch.float64),
    "complex": lambda x: torch.view_as_complex(x.view(x.shape[0], -1, 2)),
    "its parts": lambda x: torch.view_as_complex(x.view(x.shape[0], -1, 2)).imag,
    "and back": lambda x: torch.view_as_real(torch.view_as_complex(x.view(x.shape[0], -1, 2)))[1:],
    "split": lambda x: x.tensor_split((1, 3), 1)[1],
    "hsplit": lambda x: x.hsplit(2)[1],
    "grid": lambda x: torch.broadcast_tensors(x, x[:1])[0],
    "atleast": lambda x: torch.atleast_3d(x),
    "data": lambda x: x.data,
    "adjoint": lambda x: x.mH,
}


@pytest.mark.parametrize("name", SHARED)
def test_a_look_shares_the_memory(name):
    """It has the address and the strides of eager's, and what is written in one is seen in the other, inside and outside."""
    look = SHARED[name]

    def reads(x):
        view = look(x)
        before = view + 0
        x.add_(1)
        return view, before, view + 0

    def writes(x):
        view = look(x)
        view.mul_(3)
        return x + 0, view

    for fn in (look, reads, writes):
        fast = dynoc.optimize(fn, wait=True, fullgraph=True)
        for n in (4, 6, 6):
            x, y = t(n, 4), t(n, 4)
            got, want = fast(x), fn(y)
            same(got, want)
            same(x, y)
            view, other = (a if isinstance(a, torch.Tensor) else a[0 if fn is reads else 1] for a in (got, want))
            assert view.data_ptr() - x.data_ptr() == other.data_ptr() - y.data_ptr()
            view.zero_()
            other.zero_()
            same(x, y)
        assert len(fast.entries) == 1


def test_looks_of_inputs_that_lie_otherwise():
    """No elements, one, turned round, every second: entries of their own, but never another result."""

    def looks(x):
        parts = torch.view_as_complex(x)
        return parts, parts.imag + 1, x.view(torch.int32), x.stride(), x.is_contiguous(), x.tensor_split((1, 2)), x.mT.mH

    def grids(x):
        a, b = torch.meshgrid(x[:, 0, 0], x[0, :, 0], indexing="xy")
        return a + 0, b + 0, torch.broadcast_tensors(x, x[:1]), torch.atleast_3d(x[0, 0])

    inputs = [t(3, 4, 2), t(0, 4, 2), t(1, 1, 2), t(1, 4, 2), t(4, 3, 2).transpose(0, 1), t(6, 4, 2)[::2], t(3, 4, 4)[..., 1:3]]
    for fn in (looks, grids):
        fast = dynoc.optimize(fn, wait=True)
        for x in inputs + inputs:
            if x.shape[1] > 0 and not (fn is grids and x.shape[0] == 0):
                try:
                    want = fn(x)
                except RuntimeError as error:
                    with pytest.raises(RuntimeError) as caught:
                        fast(x)
                    assert str(caught.value) == str(error)
                else:
                    same(fast(x), want)


WRONG = {
    "odd": (lambda x: torch.view_as_complex(x) + 1, t(3, 2), t(7)[1:].view(3, 2)),
    "not of two": (lambda x: torch.view_as_complex(x) + 1, t(3, 2), t(3, 3)),
    "apart": (lambda x: torch.view_as_complex(x) + 1, t(3, 2), t(2, 3).t()),
    "not real": (lambda x: torch.view_as_real(x) + 1, t(3, dtype=C64), t(3)),
    "no imaginary part": (lambda x: x.imag + 1, t(3, dtype=C64), t(3)),
    "size of bytes": (lambda x: x.view(torch.float64) + 1, t(3, 4), t(3, 3)),
    "outside": (lambda x: x.as_strided((4,), (3,)) + 1, t(12), t(5)),
    "unequal parts": (lambda x: x.hsplit(2)[0] + 1, t(3, 4), t(3, 5)),
    "too few axes": (lambda x: x.dsplit(2)[0] + 1, t(3, 4, 2), t(3, 4)),
    "grid of matrices": (lambda x: torch.meshgrid(x, x, indexing="ij")[0] + 1, t(3), t(3, 3)),
    "no common size": (lambda x: torch.broadcast_tensors(x, x[:2])[0] + 1, t(2), t(3)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_eager_refuses_is_refused(name):
    fn, right, wrong = WRONG[name]
    fast = dynoc.optimize(fn, wait=True)
    with pytest.raises((RuntimeError, TypeError)) as expected:
        fn(wrong)
    for _ in range(3):
        same(fast(right), fn(right))
        with pytest.raises(type(expected.value)) as caught:
            fast(wrong)
        assert str(caught.value) == str(expected.value)


def test_looks_from_several_threads():
    def look(x):
        z = torch.view_as_complex(x.view(x.shape[0], -1, 2))
        return torch.view_as_real(z * z).flatten(1), x.view(torch.int32) + 1

    fast, failed = dynoc.optimize(look, wait=True), []

    def work(n):
        try:
            for _ in range(50):
                x = t(n, 8)
                same(fast(x), look(x))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 5, 5, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(fast.entries) == 1


def test_the_numpy_view_of_other_sizes_is_unchanged():
    fast = dynoc.optimize(lambda x: x.view(np.int32) + 1, wait=True)
    for x in (np.arange(4.0), np.arange(6.0)):
        np.testing.assert_array_equal(fast(x), x.view(np.int32) + 1)


def test_looks_of_parameters_say_whether_autograd_follows_them():
    """Without gradients views of a parameter still say that they require them; what is detached, or of another dtype, doesn't."""

    def looks(x):
        pairs = torch.view_as_complex(x)
        return x.data, x.detach(), x.view(-1), x.view(torch.int32), x.view(x.dtype), pairs, torch.view_as_real(pairs), pairs.imag

    fast = dynoc.optimize(looks, wait=True)
    with torch.no_grad():
        for n in (3, 5, 5):
            x = torch.nn.Parameter(t(n, 2))
            got, want = fast(x), looks(x)
            same(got, want)
            assert [a._version for a in got] == [a._version for a in want]
    assert len(fast.entries) == 1


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
