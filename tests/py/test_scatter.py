"""Elements written where an array of integers says (np.add.at and the like, a[index] = value, a[index] += value) as steps of a
graph: what is written in which order, exceptions with their traceback, warnings, what was written when one was raised, at every
dtype, rank, order of elements, overlap and number of threads."""

import numpy as np
import pytest
from case import Call
from compare import check, dynoc, graphs_of

pytestmark = pytest.mark.any_interpreter

FILE = __file__
DTYPES = ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
INDEX = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def added(a, index, value):
    np.add.at(a, index, value)
    return a * 2


def subtracted(a, index, value):
    np.subtract.at(a, index, value)
    return a


def multiplied(a, index, value):
    np.multiply.at(a, index, value)
    return a


def highest(a, index, value):
    np.maximum.at(a, index, value)
    return a


def lowest(a, index, value):
    np.minimum.at(a, index, value)
    return a


def replaced(a, index, value):
    a[index] = value
    return a


def grown(a, index, value):
    a[index] += value
    return a


def counts(n, index):
    made = np.zeros(n)
    np.add.at(made, index, 1)
    return made / made.sum()


def of_an_expression(n, index, value):
    made = np.zeros(n)
    np.add.at(made, index % n, value * value + 1)
    made[index[:2] % n] = -1.5
    return made, value + 1


def unused(a, index, value):
    made = np.zeros(3)
    np.add.at(made, index, value)
    return a


def by_number(a, index, x):
    a[index] = x
    np.add.at(a, index, x)
    return a


def two(a, index, value):
    np.add.at(a, index, value)
    np.subtract.at(a, index[::-1], value)
    return a


def behind_a_write(a, index, value):
    a += 1
    a[index] = value
    b = a * 2
    a[index] = 5
    return a + b


def added_by_two(a, i, j, value):
    np.add.at(a, (i, j), value)
    return a + 1


def replaced_by_two(a, i, j, value):
    a[i, j] = value
    return a + 1


def grown_by_two(a, i, j, value):
    a[i, j] += value
    return a + 1


def highest_by_two(a, i, j, value):
    np.maximum.at(a, (i, j), value)
    return a


def made_index_behind_a_write(a, index, value):
    a += 1
    a[index + 0] = value
    return a * 2


def seen_before_and_behind(a, index, value):
    b = a + 1
    part = a[1:]
    np.add.at(a, index, value)
    return b, part * 2, a[::-1] + 0


def through_a_view(a, index, value):
    np.add.at(a[::-2], index, value)
    a[1:][index] = 7
    return a


def caught(a, index, value):
    try:
        np.add.at(a, index, value)
    except IndexError:
        return a * 3
    return a * 2


def onto_itself(a, index):
    np.add.at(a, index, a[: len(index)])
    a[index] = a[: len(index)][::-1]
    np.add.at(a, index, a[: len(index)] * 2)
    return a


def itself_as_index(a):
    np.add.at(a, a, a)
    a %= len(a)
    a[a] = a[::-1]
    return a


def fast_of(fn):
    dynoc.config.wait = True
    return dynoc.optimize(fn)


def same(fn, *makers):
    fast = fast_of(fn)
    for _ in range(2):
        for maker in makers:
            check(fn, fast, lambda maker=maker: Call(*maker()))
    return fast


def numbers(shape, dtype="f8", seed=0):
    """Sums of the floats among them depend on the order."""
    rng = np.random.default_rng(seed)
    if dtype == "bool" or dtype[0] in "iu":
        return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    x = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)
    return (x + 1j * x[::-1] if dtype[0] == "c" else x).astype(dtype)


def places(n, size, dtype="i8", seed=1):
    low = 0 if dtype[0] == "u" else -size
    return np.random.default_rng(seed).integers(low, size, n).astype(dtype)


OPERATORS = [added, subtracted, multiplied, highest, lowest, replaced, grown]
SIZES = [(1, 1), (7, 0), (7, 3), (5, 7), (5, 8), (5, 9), (9, 15), (9, 16), (9, 17), (9, 31), (33, 63), (33, 65), (100, 511),
         (100, 512), (100, 513), (50, 5000)]


@pytest.mark.parametrize("fn", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(fn, dtype):
    if dtype == "bool" and fn is subtracted:
        return
    same(fn, *(lambda n=n, m=m: (numbers((n,), dtype), places(m, n), numbers((m,), dtype, 2)) for n, m in SIZES))
    if dtype[0] != "c" or fn in (added, replaced):
        same(fn, *(lambda w=w: (numbers((9, w), dtype), places(600, 9), numbers((600, w), dtype, 2)) for w in (1, 3, 7, 8, 33)))


@pytest.mark.parametrize("fn", [added, replaced, grown])
@pytest.mark.parametrize("index", INDEX)
def test_dtypes_of_an_index(fn, index):
    same(fn, *(lambda n=n, m=m: (numbers((n,)), places(m, n, index), numbers((m,), seed=2)) for n, m in SIZES))


@pytest.mark.parametrize("to", DTYPES)
@pytest.mark.parametrize("value", ["bool", "u1", "i4", "i8", "f4", "f8", "c16"])
def test_dtypes_of_a_value(to, value):
    def make():
        return numbers((9,), to), places(40, 9), abs(numbers((40,), value, 3)) if value[0] == "f" else numbers((40,), value, 3)

    for fn in (added, replaced, highest):
        same(fn, make)


@pytest.mark.parametrize("dtype", ["u1", "i4", "i8", "f2", "f4", "f8", "c16", "bool"])
def test_numbers(dtype):
    for x in (3, 2.5, -1, True, 0.0, 1e30, 2**40, 1 + 2j, np.float32(3.5), np.int64(7)):
        for fn in (replaced, added, by_number):
            same(fn, lambda fn=fn, x=x: (numbers((9,), dtype), places(20, 9), x))


A = {
    "vector": lambda: numbers((40,)),
    "stepped": lambda: numbers((80,))[::2],
    "backwards": lambda: numbers((40,))[::-1],
    "rows": lambda: numbers((40, 6)),
    "long rows": lambda: numbers((40, 100)),
    "F": lambda: np.asfortranarray(numbers((40, 12))),
    "turned": lambda: numbers((6, 40)).T,
    "part": lambda: numbers((60, 60))[3:43, ::-2],
    "box": lambda: numbers((40, 4, 5)),
    "turned box": lambda: numbers((4, 40, 5)).transpose(1, 2, 0),
    "rows of size 1": lambda: numbers((40, 1)),
    "no columns": lambda: numbers((40, 0)),
}
INDICES = {
    "vector": lambda: places(600, 40),
    "stepped": lambda: places(600, 40)[::3],
    "backwards": lambda: places(600, 40)[::-1],
    "one again": lambda: np.broadcast_to(places(1, 40), (60,)),
    "one": lambda: places(1, 40),
    "matrix": lambda: places((20, 30), 40),
    "F": lambda: np.asfortranarray(places((20, 30), 40)),
    "matrix backwards": lambda: places((20, 30), 40)[:, ::-1],
    "turned": lambda: places((20, 30), 40, "i4").T,
    "deep": lambda: places((4, 3, 5), 40),
    "one row": lambda: places((1, 30), 40),
    "none": lambda: places((0,), 40),
    "rank 0": lambda: np.array(3),
    "NumPy scalar": lambda: np.int64(-3),
}
VALUES = {
    "whole": lambda shape: numbers(shape, seed=3),
    "F": lambda shape: np.asfortranarray(numbers(shape, seed=3)),
    "backwards": lambda shape: numbers(shape, seed=3)[::-1],
    "stepped": lambda shape: numbers((*shape[:-1], 2 * shape[-1]), seed=3)[..., ::2],
    "again": lambda shape: np.broadcast_to(numbers((*shape[:-1], 1), seed=3), shape),
    "last axis": lambda shape: numbers(shape[-1:], seed=3),
    "a column": lambda shape: numbers((*shape[:-1], 1), seed=3),
    "one": lambda shape: numbers((1,), seed=3),
    "rank 0": lambda shape: np.array(1.25),
    "one axis more": lambda shape: numbers((1, *shape), seed=3),
}


@pytest.mark.parametrize("a", A)
@pytest.mark.parametrize("index", INDICES)
def test_orders(a, index):
    shape = INDICES[index]().shape + A[a]().shape[1:]
    spread = ("again", "last axis", "a column", "one")
    for fn in (added, replaced):
        values = [v for v in VALUES if len(shape) or v in ("rank 0", "whole")]
        if fn is added and INDICES[index]().ndim > 1:  # NumPy 2.4 reads behind a value that is spread over such an index
            values = [v for v in values if v not in spread]
        same(fn, *(lambda v=v: (A[a](), INDICES[index](), VALUES[v](shape)) for v in values))


@pytest.mark.parametrize("fn", [two, seen_before_and_behind, through_a_view, behind_a_write, made_index_behind_a_write, unused])
def test_numpy_forms(fn):
    def make(n, m):
        size = 3 if fn is unused else n // 2 if fn is through_a_view else n
        return lambda: (numbers((n,)), places(m, size), numbers((m,), seed=2))

    same(fn, make(9, 2), make(10, 40), make(200, 3000))


def test_made_memory():
    same(counts, *(lambda n=n, m=m: (n, places(m, n)) for n, m in SIZES if m))
    same(of_an_expression, *(lambda n=n, m=m: (n, places(m, n), numbers((m,))) for n, m in SIZES if m > 1))


@pytest.mark.parametrize("dtype", ["f8", "i8", "f4"])
def test_onto_itself(dtype):
    same(onto_itself, *(lambda n=n, m=m: (numbers((n,), dtype), places(m, n)) for n, m in [(5, 5), (600, 599), (40, 0)]))
    same(itself_as_index, *(lambda n=n: (np.random.default_rng(n).integers(0, n // 2, n),) for n in (3, 40, 1000)))


def test_arguments_that_overlap():
    def parts(i, j, k):
        def make():
            base = np.random.default_rng(0).integers(0, 9, 200)
            return base[i], base[j], base[k]

        return make

    some = [slice(0, 100), slice(50, 150), slice(10, 110), slice(99, None, -1)]
    for fn in (added, replaced):
        same(fn, *(parts(i, j, k) for i in some for j in some for k in some))


ALL = [*OPERATORS, two, behind_a_write, made_index_behind_a_write, seen_before_and_behind, through_a_view, caught, unused]


@pytest.mark.parametrize("fn", ALL)
@pytest.mark.parametrize("wrong", [10, -11, 2**40, -(2**63), 2**63 - 1])
def test_not_there(fn, wrong):
    def make(at=None):
        index = places(10, 3)
        if at is not None:
            index[at] = wrong
        return numbers((10,)), index, numbers((10,), seed=2)

    same(fn, make, lambda: make(0), make, lambda: make(9), lambda: make(4))


@pytest.mark.parametrize("size", [700, 40000])
def test_nothing_is_written_before_the_exception(size):
    def make(at=None):
        index = places(size, size)
        if at is not None:
            index[at] = size
        return numbers((size,)), index, numbers((size,), seed=2)

    for fn in (added, replaced, grown, two, behind_a_write, made_index_behind_a_write):
        same(fn, make, lambda: make(size - 1))


def test_empty_arrays():
    def make(n, m, *row):
        return lambda: (np.zeros((n, *row)), np.zeros(m, np.int64), np.zeros((m, *row)))

    for fn in (added, replaced):
        same(fn, make(3, 2), make(0, 0), make(0, 2), make(3, 0))
        same(fn, make(3, 2, 4), make(0, 0, 4), make(0, 2, 4), make(3, 2, 0), make(0, 2, 0))


def test_read_only():
    def make(writeable):
        a = numbers((9,))
        a.flags.writeable = writeable
        return a, places(5, 9), numbers((5,))

    for fn in (added, replaced):
        same(fn, lambda: make(True), lambda: make(False))


@pytest.mark.parametrize("rows", [(), (3,)])
@pytest.mark.parametrize("fn", OPERATORS)
def test_warnings(fn, rows):
    """Overflow, infinities and nan; the latter NumPy's maximum.at speaks of along one axis."""
    def make(x, y):
        return lambda: (np.full((5, *rows), x), np.array([0, 1, 1, -1]), np.full((4, *rows), y))

    same(fn, make(1.0, 2.0), make(1.5e308, 1.5e308), make(np.inf, -np.inf), make(np.inf, np.inf))
    same(fn, make(1.0, np.nan), make(np.inf, 0.0), make(np.nan, 1.0))


def test_scatters_are_no_calls():
    args = numbers((9,)), places(30, 9), numbers((30,))
    for fn in OPERATORS:
        graph = graphs_of(fn, *args)
        assert "extern" not in graph and "scatter(" in graph


@pytest.mark.parametrize("fn", [added, replaced, grown])
def test_threads_give_the_same_bits(fn):
    make = [lambda: (numbers((3000,)), places(1_000_000, 3000), numbers((1_000_000,), seed=2)),
            lambda: (numbers((300, 50)), places(20000, 300), numbers((20000, 50), seed=2))]
    before = dynoc.config.threads
    try:
        for dynoc.config.threads in (1, 2):
            same(fn, *make)
    finally:
        dynoc.config.threads = before


PAIRS = {
    "vectors": lambda: (places(600, 20), places(600, 15, seed=2)),
    "backwards": lambda: (places(600, 20)[::-1], places(600, 15, seed=2)[::-1]),
    "one backwards": lambda: (places(600, 20), places(600, 15, seed=2)[::-1]),
    "other dtypes": lambda: (places(600, 20, "u1"), places(600, 15, "i4", 2)),
    "matrices": lambda: (places((20, 30), 20), places((20, 30), 15, seed=2)),
    "turned": lambda: (places((20, 30), 20).T, places((20, 30), 15, seed=2).T),
    "a grid": lambda: np.ix_(places(20, 20), places(17, 15, seed=2)),
    "a row of the second": lambda: (places((20, 30), 20), places(30, 15, seed=2)),
    "none": lambda: (places(0, 20), places(0, 15)),
    "one": lambda: (places(1, 20), places(1, 15)),
}
MATRICES = {
    "C": lambda *more: numbers((20, 15, *more)),
    "i4": lambda *more: numbers((20, 15, *more), "i4"),
    "F": lambda *more: np.asfortranarray(numbers((20, 15, *more))),
    "part": lambda *more: numbers((21, 16, *more))[1:, 1:],
}


@pytest.mark.parametrize("fn", [added_by_two, replaced_by_two, grown_by_two, highest_by_two])
@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("pair", PAIRS)
def test_two_arrays(fn, matrix, pair):
    def make(*more):
        shape = np.broadcast_shapes(*(i.shape for i in PAIRS[pair]()))
        value = numbers((*shape, *more), "i4" if matrix == "i4" else "f8", 5)
        value[..., :1] = value[..., :1] if matrix == "i4" else np.nan
        return lambda: (MATRICES[matrix](*more), *PAIRS[pair](), value)

    same(fn, make(), make(3))
    same(fn, lambda: (MATRICES[matrix](), *PAIRS[pair](), 2))


@pytest.mark.parametrize("wrong", [(0, 20), (0, -21), (1, 15), (1, -16), (0, 2**62), (1, -(2**63))])
def test_one_of_two_is_not_there(wrong):
    def make(at=None):
        pair = PAIRS["vectors"]()
        if at is not None:
            pair[wrong[0]][at] = wrong[1]
        return (MATRICES["C"](), *pair, numbers((600,), seed=2))

    for fn in (added_by_two, replaced_by_two, grown_by_two):
        same(fn, make, lambda: make(0), lambda: make(599), make)
