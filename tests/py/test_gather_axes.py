"""Lookups and writes along other axes than the first (a[:, i], a[..., i], a[i, 0], a[1:, i, j]), of arrays in any order: results,
where they lie, whose memory it is, exceptions and what was written, at every rank, order of elements and number of threads."""

import numpy as np
import pytest
from case import Call
from compare import check, dynoc, graphs_of

pytestmark = pytest.mark.any_interpreter

LOOKUPS = [
    "a[:, i]", "a[..., i]", "a[i]", "a[i, 0]", "a[-1, i]", "a[i, 1]", "a[1:, i]", "a[:, i, ...]", "a[::-1, i]", "a[:, None, i]",
    "a[i, None]", "a[i, ::2]", "a.T[i]", "a.T[:, i]", "a[:, k]", "a[..., k]", "a[k, 0]", "a[i, :1]", "a[:, i[::-1]]",
]  # fmt: skip
DEEP = [
    "a[:, :, i]", "a[i, :, 0]", "a[0, :, i]", "a[0, i]", "a[:, 0, i]", "a[..., 0, i]", "a[:, i, i]", "a[1:, i, i]",
    "a[:, i, 1, ...]", "a[0, i, i]", "a[i, 0, i]", "a[i, i, 0]", "a.transpose(1, 2, 0)[:, i]", "a.swapaxes(0, 1)[i]",
    "a[:, ::2, i]", "a[:, k, k]", "a[:, k, 0]", "a[:, i, None, 0]", "a[i, :, None]",
]  # fmt: skip
CALLS = ["a[:, i, :, i]", "a[:, [0, 1]]", "a[True, i]", "a[:, np.array(1)]"]  # as NumPy makes them
ORDERS = {
    "C": lambda x: x,
    "F": np.asfortranarray,
    "back": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "part": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "turned": lambda x: np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1),
}


def function_of(*lines):
    scope = {"np": np}
    exec(compile("def program(a, i, k=None, v=None):\n" + "".join(f"    {x}\n" for x in lines), __file__, "exec"), scope)
    return scope["program"]


def numbers(shape, dtype="f8"):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def places(n, size=3, dtype="i8"):
    return np.random.default_rng(n if np.isscalar(n) else 7).integers(0 if dtype[0] == "u" else -size, size, n).astype(dtype)


def same(fn, *makers, wait=False):
    fast = dynoc.optimize(fn, wait=wait)
    for _ in range(2):
        for maker in makers:
            check(fn, fast, lambda maker=maker: Call(*maker()))
    return fast


def shapes_of(text):
    return ((4, 5), (3, 3), (7, 40), (33, 17)) if text in LOOKUPS else ((4, 5, 6), (3, 3, 3), (7, 9, 40), (6, 33, 4))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("text", LOOKUPS + DEEP)
def test_lookups(text, order):
    fn = function_of(f"return {text} * 2, {text}, {text} + 1 == v")
    sizes = [(s, n) for s in shapes_of(text) for n in (3, 1, 8, 0, 65)]
    same(fn, *(lambda s=s, n=n: (ORDERS[order](numbers(s)), places(n), places((2, n)), 5.0) for s, n in sizes))


@pytest.mark.parametrize("text", ["a[:, i]", "a[i, 0]", "a[..., 0, i]", "a[:, i, i]", "a.T[:, i]"])
@pytest.mark.parametrize("dtype", ["?", "i1", "f4", "c16", "f2"])
@pytest.mark.parametrize("index", ["i1", "u2", "i4", "u8"])
def test_natively(text, dtype, index):
    fn = function_of(f"b = {text}", "return (b != b) | (b == a.flat[0]), b")
    shape = (40, 100) if text not in DEEP else (20, 30, 40)
    same(fn, *(lambda n=n: (numbers(shape, dtype), places(n, 20, index)) for n in (1, 31, 300)), wait=True)


@pytest.mark.parametrize("text", LOOKUPS + DEEP)
def test_are_no_calls(text):
    graph = graphs_of(function_of(f"return {text} * 2"), numbers(shapes_of(text)[0]), places(3), places((2, 3)))
    assert "extern" not in graph and "gather(" in graph


@pytest.mark.parametrize("text", CALLS)
def test_calls(text):
    fn = function_of(f"return {text} + 1")
    same(fn, *(lambda n=n: (numbers((3, 4, 5, 6)), places(n)) for n in (3, 2, 1)))


@pytest.mark.parametrize("text", ["a[:, i]", "a.T[i]", "a.T[:, i]"])
@pytest.mark.parametrize("sizes", [(1, 5), (5, 1), (1, 1), (4, 5), (0, 3), (3, 0)])
def test_sizes_of_one_and_none(text, sizes):
    """The order in memory depends on them."""
    fn = function_of(f"b = {text}", "c = b * 2", "return b, c, c.ravel(order='K'), b.flags.c_contiguous, b.strides")
    made = [lambda s=s, n=n: (numbers(s), places(n, 1)) for s in (sizes, (4, 5)) for n in (1, 3)]
    same(fn, *made, *reversed(made))


@pytest.mark.parametrize("text", ["a[:, i]", "a[i, 0]", "a[0, i]", "a[..., i]", "np.take(a, i, axis=1)"])
def test_whose_memory(text):
    fn = function_of(f"return {text}")
    fast = dynoc.optimize(fn)
    for n in (3, 1, 4, 3):
        want, got = fn(numbers((4, 5)), places(n)), fast(numbers((4, 5)), places(n))
        assert (want.base is None) == (got.base is None) and want.flags.owndata == got.flags.owndata
        assert want.base is None or want.base.shape == got.base.shape


@pytest.mark.parametrize("text", ["a[:, i]", "a[i, 0]", "a[..., i, 0]", "a[:, i, i]", "a[i, 0, i]"])
@pytest.mark.parametrize("wrong", [9, -10])
def test_places_that_are_not_there(text, wrong):
    def at(n, where):
        i = places(n)
        i[where] = wrong
        return i

    fn = function_of("a += 1", f"b = {text} * 2", "return b")
    made = [lambda: (numbers((4, 5, 6)), places(6))] + [lambda w=w: (numbers((4, 5, 6)), at(6, w)) for w in (0, 5)]
    same(fn, *made)
    same(function_of(f"b = {text} * 2", "return b"), *made)


WRITES = ["a[:, i]", "a[..., i]", "a[i, 0]", "a[-1, i]", "a[1:, i]", "a.T[i]", "a.T[:, i]", "a[i, ::2]", "a[::-1, i]"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("text", WRITES)
def test_writes(text, order):
    """Of places that are named more than once the last value stays; += adds one of them."""
    shape = numbers((9, 9))

    def made(n, dtype="f8", how=None):
        a = ORDERS[order](numbers((9, 9), dtype))
        i = places(n, 9)
        v = numbers(eval(text, {"a": shape, "i": i, "np": np}).shape, dtype) + 100
        return a, i, None, v if how is None else how(v)

    for line in ("{} = v", "{} += v", "{} = 1", "{} -= 2", "{0} = {0}[::-1] * 2"):
        fn = function_of(line.format(text), "return a + 1")
        sizes = [lambda n=n: made(n) for n in (4, 1, 9, 40)]
        spread = [lambda how=how: made(4, "f8", how) for how in (lambda v: v[..., :1], lambda v: v[-1])]
        same(fn, *sizes, lambda: made(4, "i4"), *spread)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum"])
@pytest.mark.parametrize("index", ["(np.s_[:], i)", "(i, 0)", "(np.s_[:], i, i)", "(1, i)"])
def test_ufunc_at(name, index):
    fn = function_of(f"np.{name}.at(a, {index}, v)", "return a")
    shape = (4, 5) if "i, i" not in index else (4, 5, 5)

    def made(n, dtype):
        a, i = numbers(shape, dtype), places(n)
        return a, i, None, numbers(a[eval(index, {"np": np, "i": i})].shape, dtype) + 2

    same(fn, *(lambda n=n, d=d: made(n, d) for n in (4, 1, 30) for d in ("f8", "i2")))


def test_writes_are_no_calls():
    for line in ("a[:, i] = 1", "a[i, 0] += 2", "np.add.at(a, (np.s_[:], i), 1)"):
        graph = graphs_of(function_of(line, "return a * 2"), numbers((4, 5)), places(3))
        assert "extern" not in graph and "scatter(" in graph


def test_threads():
    """The same bits, whoever looks up."""
    fn = function_of("return a[:, i] * 0.1 + a[:, i[::-1]]")
    fast = dynoc.optimize(fn, wait=True)
    a, i = np.random.default_rng(0).random((300, 1000)), places(700, 1000)
    before = dynoc.config.threads
    try:
        for threads in (1, 2):
            dynoc.config.threads = threads
            assert np.array_equal(fast(a, i), fn(a, i))
    finally:
        dynoc.config.threads = before


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
@pytest.mark.parametrize("how", ["along the first axis", "along the second", "added"])
def test_places_beyond_an_array_of_nothing(shape, how):
    def write(a, i):
        b = a * 2
        if how == "along the first axis":
            b[i] = -1
        elif how == "along the second":
            b[:, i] = -1
        else:
            np.add.at(b, (slice(None), i), 2)
        return b

    fast = dynoc.optimize(write, wait=True)
    for a, i in ((np.ones((3, 4)), np.array([1])), (np.ones(shape), np.array([7])), (np.ones(shape), np.array([7, 1]))):
        for _ in range(2):
            outcomes = []
            for fn in (write, fast):
                try:
                    outcomes.append(fn(a, i).tolist())
                except IndexError as error:
                    outcomes.append(str(error))
            assert outcomes[0] == outcomes[1]
