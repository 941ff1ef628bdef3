"""np.einsum as products, sums and products of matrices; forms that aren't known stay NumPy's own."""

import itertools
import warnings

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter

SIZE = {"a": 3, "b": 2, "i": 4, "j": 5, "k": 6, "l": 1}
RNG = np.random.default_rng(5)


def array(labels, dtype=np.float64, size=SIZE):
    values = RNG.standard_normal([size[c] for c in labels]) * 8
    return values.astype(dtype)


def calls(entry):
    return [line for line in str(entry.graph).splitlines() if "extern einsum(" in line]


def check(text, *arrays, own=False):
    """As eager: values, dtype, strides, kind. own: not NumPy's einsum."""

    def fn(*arrays):
        return np.einsum(text, *arrays)

    fast, wanted = dynoc.optimize(fn, wait=True, fullgraph=True), fn(*arrays)
    for _ in range(2):
        found = fast(*arrays)
        assert type(found) is type(wanted) and found.dtype == wanted.dtype and np.shape(found) == np.shape(wanted)
        assert np.allclose(found, wanted, rtol=1e-5 if wanted.dtype == np.float32 else 1e-12, atol=1e-4, equal_nan=True)
        if isinstance(wanted, np.ndarray) and wanted.size:
            assert found.strides == wanted.strides and found.flags.writeable == wanted.flags.writeable
            assert (found.base is None) == (wanted.base is None)
    (entry,) = fast.entries
    assert not own or not calls(entry), entry.graph


PRODUCTS = ["ij,jk->ik", "ji,jk->ik", "ij,kj->ik", "aij,ajk->aik", "abij,abjk->abik", "aij,akj->aik", "ij,jk", "jk,ij->ik"]
SUMS = ["ij,ij->i", "ij,ij->", "ij,j->i", "i,i", "i,j->ij", "ij->i", "ij->", "aij,aij->a", "i,i->i", "ij,i->ij", "aij,j->ai"]
DTYPES = [np.float64, np.float32, np.int64, np.uint8, np.int16]


@pytest.mark.parametrize("text", [*PRODUCTS, *SUMS, "a i , i j->a j"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_own(text, dtype):
    """Of integers no library makes products of matrices."""
    labels = text.replace(" ", "").split("->")[0].split(",")
    check(text, *(array(names, dtype) for names in labels), own=np.dtype(dtype).kind == "f" or text in SUMS)


def test_every_order_of_labels():
    """Products of matrices and of stacks with the labels in each order: strides as eager's, by whoever makes it."""
    for stack in ("", "a"):
        for x in itertools.permutations(stack + "ij"):
            for y in itertools.permutations(stack + "jk"):
                out = "".join(RNG.permutation(list(stack + "ik")))
                check(f"{''.join(x)},{''.join(y)}->{out}", array(x), array(y))


@pytest.mark.parametrize(
    "text, arrays",
    [
        ("ii->i", [array("ii", size={"i": 4})]),
        ("ii", [array("ii", size={"i": 4})]),
        ("ij->ji", [array("ij")]),
        ("...j,jk->...k", [array("aij"), array("jk")]),
        ("ij,jk,kl->il", [array("ij"), array("jk"), array("kl")]),
        ("ij,jk->ik", [array("ij", np.complex128), array("jk", np.complex128)]),
        ("ij,jk->ik", [array("ij", np.float16), array("jk", np.float16)]),
        ("ij,jk->ik", [array("ij", np.bool_), array("jk", np.bool_)]),
        ("ij,jk->ik", [array("ij", np.float32), array("jk")]),
        ("ij,ij->ij", [array("ij"), array("ji").T]),
        ("ij,ij->ji", [array("ij"), array("ij")]),
        ("ij,jk->ik", [array("ij")[::-1, ::-1], array("jk")[:, ::2]]),
        ("ij,ij->ij", [array("ij"), array("lj")]),
        ("ij,jk->ik", [np.zeros((0, 5)), array("jk")]),
        ("ij,jk->ik", [np.zeros((3, 0)), np.zeros((0, 4))]),
        ("lj,jk->lk", [array("lj"), array("jk")]),
    ],
)
def test_other_forms(text, arrays):
    def fn(*arrays):
        return np.einsum(text, *arrays)

    fast, wanted = dynoc.optimize(fn, wait=True), fn(*arrays)
    for _ in range(2):
        found = fast(*arrays)
        assert found.dtype == wanted.dtype and np.shape(found) == np.shape(wanted)
        assert np.allclose(found, wanted, rtol=1e-3 if wanted.dtype == np.float16 else 1e-5)
        assert wanted.size == 0 or np.ndim(wanted) == 0 or found.strides == wanted.strides


def test_other_strides_and_sizes_later():
    def fn(x, y):
        return np.einsum("ij,jk->ik", x, y), np.einsum("ij,ij->i", x, x)

    fast = dynoc.optimize(fn, wait=True)
    for n, m, k in [(3, 4, 5), (30, 2, 7), (1, 4, 5), (3, 1, 5), (3, 4, 1), (0, 3, 2), (2, 0, 3)]:
        x, y = RNG.standard_normal((n, m)), RNG.standard_normal((m, k))
        for a, b in [(x, y), (np.asfortranarray(x), y), (x, np.asfortranarray(y)), (x[::-1], y[:, ::-1])]:
            for _ in range(2):
                for found, wanted in zip(fast(a, b), fn(a, b)):
                    assert np.allclose(found, wanted) and (found.size == 0 or found.strides == wanted.strides)


def test_no_warnings_and_no_negative_zero():
    def fn(x, y):
        outer, table = np.einsum("i,j->ij", x, y), np.einsum("ij,jk->ik", x[:, None], y[None, :])
        return outer, table, np.einsum("i,i->", x, y), np.einsum("i->", x)

    fast = dynoc.optimize(fn, wait=True)
    x, y = np.array([-0.0, 1e300, np.inf, np.nan]), np.array([1.0, 1e300, 0.0, -0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            for found, wanted in zip(fast(x, y), fn(x, y)):
                assert np.array_equal(found, wanted, equal_nan=True) and np.array_equal(np.signbit(found), np.signbit(wanted))


def test_errors_are_numpys():
    fast = dynoc.optimize(lambda x, y: np.einsum("ij,jk->ik", x, y), wait=True)
    fast(array("ij"), array("jk"))
    for x, y in [(array("ij"), array("ik")), (array("i"), array("jk"))]:
        with pytest.raises(ValueError, match="einsum|operand"):
            fast(x, y)
