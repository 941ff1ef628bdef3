"""Elements that stand where an array of integers says (a[index], np.take) as part of kernels: results, memory order, exceptions
with their traceback, what was written when one was raised, at every dtype, rank, order of elements and number of threads."""

import itertools
import threading

import numpy as np
import pytest
from case import Call
from compare import check, dynoc, graphs_of
from logs import counted

pytestmark = pytest.mark.any_interpreter

FILE = __file__
DTYPES = ["bool", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"]
INDEX = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def scaled(table, index, weight):
    return table[index] * weight + 1.0


def plain(table, index):
    return table[index]


def taken(table, index):
    return np.take(table, index) * 2


def taken_rows(table, index):
    return np.take(table, index, axis=0) * 2


def taken_columns(table, index):
    return table.take(index, axis=-1) + table.take(index, axis=1)


def with_index(table, index):
    return table[index] + index


def by_two(table, i, j):
    return table[i, j] * 2


def by_two_and_slices(table, i, j):
    return table[i, j, :] + 1.0, table[i, :] * 2, table[j, :, :]


def by_three(table, i, j):
    return table[i, j, i] - table[i, j, j] * 2


def along(table, index):
    return np.take_along_axis(table, index, -1) * 2, np.take_along_axis(table, index[:, :1], 1)


def of_sums(table, index):
    return (table + table)[index], (table * 2)[index - 1]


def twice(table, index):
    return table[index] - table[index[::-1]] + table[table[index].astype(np.int64) % len(table)]


def row_sums(table, index):
    return table[index].sum(axis=-1), table[index].sum(axis=0), table[index].max(), (table[index] * 2).sum(axis=0)


def short_sums(table, index):
    return table[index].sum(axis=-1), (table[index] * index).sum(axis=-1), table[index].max(axis=-1) + table[index].min(axis=-1)


def softmax(table, index):
    rows = table[index]
    e = np.exp(rows - rows.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def unused(table, index):
    table[index]
    return table + 1


def unused_of_what_is_not_made(table, index):
    bigger = table * 2.0
    bigger[index]
    return table + 1


def unused_in_the_end(table, index):
    y = np.empty(len(index))
    y[:] = table[index]
    y[:] = 2.0
    return y


def spread(table, index, more):
    return table[index] + more


def windows(table, index):
    rows = table[index]
    return rows[1:] - rows[:-1]


def index_of_a_node(table, x):
    index = (x * len(table)).astype(np.int64)
    return table[index] * x


def permuted_in_place(a, index):
    a[...] = a[index]
    return a * 2


def index_written(a, index):
    b = a[index]
    index += 1
    return b * a[index]


def index_overwritten_by_what_it_finds(table, index):
    index[...] = table[index]
    return index * 2


def table_written_between(a, index):
    b = a[index]
    a += 1.0
    return b * a


def written_before(a, index):
    a += 1.0
    return a[index] * 2


def written_behind(a, b, index):
    c = a[index] * 2
    b += c
    return c


def product_behind(a, index):
    return np.linalg.inv(a), a[index] * 2


def product_before(a, index):
    b = a[index]
    return np.linalg.inv(a[:2]) * 2, b * 2


def kept_for_whoever_leaves(x, y, index):
    """Behind the sort nobody could make the products again: they are kept, with all that they are made of."""
    a = x.max() + y
    a[index] * index
    a * index
    index += 1
    return np.sort(x)


def caught(a, index):
    try:
        b = a[index]
    except IndexError:
        return a * 3
    return b * 2


def fast_of(fn):
    dynoc.config.wait = True
    return dynoc.optimize(fn)


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2 if dtype == "bool" else 100, shape)
    return (x + 1j * x[::-1] if dtype[0] == "c" else x).astype(dtype)


def places(n, size, dtype="i8", seed=1):
    low = 0 if dtype[0] == "u" else -size
    return np.random.default_rng(seed).integers(low, size, n).astype(dtype)


def same(fn, *makers):
    fast = fast_of(fn)
    for _ in range(2):
        for maker in makers:
            check(fn, fast, lambda maker=maker: Call(*maker()), tol="near" if fn is softmax else "bits")
    return fast




@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", INDEX)
def test_dtypes(dtype, index):
    sizes = [(1, 1), (7, 3), (100, 1000), (100, 513), (5, 0)]
    same(plain, *(lambda n=n, m=m: (numbers((n,), dtype), places(m, n, index)) for n, m in sizes))
    same(row_sums if dtype not in ("f2", "f4", "c8", "c16") else plain,
         *(lambda n=n, m=m: (numbers((n, 5), dtype), places(m, n, index)) for n, m in sizes if m))
    if dtype != "bool" and index != "u8":
        same(taken, *(lambda n=n, m=m: (numbers((n, 4), dtype), places(m, 4 * n, index)) for n, m in sizes))


@pytest.mark.parametrize("fn", [scaled, spread])
def test_more_operands(fn):
    sizes = [(10, 1), (10, 17), (100, 1000), (3, 4099), (100, 0)]
    same(fn, *(lambda n=n, m=m: (numbers((n,), "f8"), places(m, n), numbers((m,), "f8", 2)) for n, m in sizes))


def test_spread_over_a_larger_space():
    def make(m, k):
        return lambda: (numbers((10,), "f8"), places((m, 1), 10), numbers((k,), "f8"))

    same(spread, make(3, 5), make(40, 100), make(7, 0))

    def wrong():
        return numbers((10,), "f8"), np.array([[3], [10]]), numbers((0,), "f8")

    same(spread, make(2, 4), wrong)


TABLES = {
    "vector": lambda: numbers((40,), "f8"),
    "stepped": lambda: numbers((80,), "f8")[::2],
    "backwards": lambda: numbers((40,), "f8")[::-1],
    "one element again": lambda: np.broadcast_to(numbers((1,), "f8"), (40,)),
    "rows": lambda: numbers((40, 40), "f8"),
    "short rows": lambda: numbers((40, 3), "f8"),
    "long rows": lambda: numbers((40, 700), "f8"),
    "F": lambda: np.asfortranarray(numbers((40, 40), "f8")),
    "turned": lambda: numbers((40, 50), "f8").T,
    "part": lambda: numbers((60, 60), "f8")[3:43:1, ::-2],
    "box": lambda: numbers((40, 4, 5), "f8"),
    "rows of size 1": lambda: numbers((40, 1), "f8"),
    "no columns": lambda: numbers((40, 0), "f8"),
}
INDICES = {
    "vector": lambda: places(600, 40),
    "stepped": lambda: places(600, 40)[::3],
    "backwards": lambda: places(600, 40)[::-1],
    "one again": lambda: np.broadcast_to(places(1, 40), (600,)),
    "one": lambda: places(1, 40),
    "matrix": lambda: places((20, 30), 40),
    "F": lambda: np.asfortranarray(places((20, 30), 40)),
    "turned": lambda: places((20, 30), 40, "i4").T,
    "deep": lambda: places((4, 3, 5), 40),
    "none": lambda: places((0,), 40),
    "rank 0": lambda: np.array(3),
    "NumPy scalar": lambda: np.int64(-3),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("index", INDICES)
def test_orders(table, index):
    def make():
        return TABLES[table](), INDICES[index]()

    fns = [plain, taken, taken_rows]
    if index not in ("rank 0", "NumPy scalar") and (make()[1].ndim < 2 or make()[0].ndim == 1):
        fns += [with_index, windows]
    for fn in fns:
        if fn is with_index and (make()[0].ndim > 1 or make()[1].ndim > 1):
            continue
        same(fn, make)
    if make()[0].ndim == 2 and make()[0].shape[1] >= 40:
        same(taken_columns, make)
    if make()[0].ndim > 1 and 0 not in make()[0].shape + make()[1].shape and make()[1].ndim:
        same(row_sums, make)


@pytest.mark.parametrize("fn", [of_sums, twice, unused, unused_in_the_end, with_index])
def test_numpy_forms(fn):
    same(fn, *(lambda n=n, m=m: (numbers((n,), "f8"), places(m, n)) for n, m in [(10, 30), (200, 3000), (9, 1)]))


@pytest.mark.parametrize("width", [1, 3, 31, 32, 64, 65, 700])
def test_rows_through_reductions(width):
    same(row_sums, *(lambda m=m: (numbers((50, width), "f8"), places(m, 50)) for m in (1, 2, 16, 33, 1000)))
    same(softmax, *(lambda m=m: (numbers((50, width), "f8"), places(m, 50)) for m in (1, 16, 200)))


@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("width", [1, 2, 8, 15, 16, 17, 33])
def test_short_rows_of_an_index(width, index):
    def of(n, turned=False):
        at = places(n * width, 50, index).reshape(n, width)
        return numbers((50,), "f8"), np.asfortranarray(at) if turned else at

    same(short_sums, *(lambda n=n, turned=turned: of(n, turned) for n in (1, 16, 31, 32, 65, 1000) for turned in (False, True)))


def test_index_that_is_made():
    same(index_of_a_node, *(lambda n=n: (numbers((9,), "f8"), np.random.default_rng(n).random(n)) for n in (1, 5, 1000)))
    same(index_of_a_node, lambda: (numbers((9,), "f8"), np.linspace(0.0, 1.0, 20)))


WRITERS = [permuted_in_place, index_written, table_written_between, written_before]


@pytest.mark.parametrize("fn", WRITERS)
def test_writers(fn):
    def make(n):
        return lambda: (numbers((n,), "f8"), np.random.default_rng(n).permutation(n) - n)

    same(fn, make(5), make(600), make(40000))


def test_what_is_kept_for_whoever_leaves():
    same(kept_for_whoever_leaves, lambda: (numbers((9,), "i8"), numbers((3,), "i8"), places(3, 2) * 1))
    before = counted("LOWERING")  # other tests' too
    graph = dynoc.explain(kept_for_whoever_leaves)(numbers((9,), "i8"), numbers((3,), "i8"), places(3, 2))
    assert graph.graph_count == 1 and counted("LOWERING") == before


def test_index_overwritten():
    fn = index_overwritten_by_what_it_finds
    same(fn, *(lambda n=n: (np.random.default_rng(n).permutation(n), places(n, n)) for n in (5, 5000)))


ALL = [plain, taken, taken_rows, with_index, of_sums, unused, unused_of_what_is_not_made]
ALL += [unused_in_the_end, caught, *WRITERS, product_before]


@pytest.mark.parametrize("fn", ALL)
@pytest.mark.parametrize("wrong", [10, -11, 2**40, -(2**63), 2**63 - 1])
def test_not_there(fn, wrong):
    def make(at=None):
        index = places(10, 9)
        if at is not None:
            index[at] = wrong
        return (numbers((10, 10) if fn is product_before else (10,), "f8"), index)

    if fn is product_before:
        return
    same(fn, make, lambda: make(0), make, lambda: make(9), lambda: make(4))


@pytest.mark.parametrize("size", [10, 700, 40000])
def test_nothing_is_written_before_the_exception(size):
    def make(at=None):
        index = places(size, size)
        if at is not None:
            index[at] = size
        return numbers((size,), "f8"), numbers((size,), "f8", 1), index

    same(written_behind, make, lambda: make(0), make, lambda: make(size - 1))
    for fn in WRITERS:
        same(fn, lambda: make()[1:], lambda: make(size - 1)[1:])


def test_which_exception_comes_first():
    def make(singular, wrong):
        a = np.zeros((3, 3)) if singular else np.eye(3)
        return a, np.array([0, 3 if wrong else 2])

    def first(a, index):
        b = a[index]
        return np.linalg.inv(a) + 1, b * 2

    for fn in (product_behind, first):
        same(fn, *(lambda s=s, w=w: make(s, w) for s, w in [(False, False), (True, False), (False, True), (True, True)]))


def test_unsigned_places_wrap_as_eagers():
    same(plain, *(lambda i=i: (numbers((9,), "f8"), np.array([0, i], np.uint64)) for i in (3, 9, 2**63, 2**64 - 1, 2**64 - 9)))


def test_lookups_are_no_calls():
    args = numbers((9,), "f8"), abs(places(30, 9)) % 9
    for fn in (plain, taken, with_index, of_sums, twice, unused):
        graph = graphs_of(fn, *args)
        assert "extern" not in graph and "gather(" in graph


def test_empty_tables():
    def make(n, m):
        return lambda: (np.zeros(n), np.zeros(m, np.int64))

    for fn in (plain, taken, unused):
        same(fn, make(3, 2), make(0, 0), make(0, 2), make(3, 0), make(0, 2))


def test_warning_behind_a_lookup():
    def root(table, index):
        return np.sqrt(table[index])

    same(root, lambda: (numbers((9,), "f8"), places(30, 9)), lambda: (-numbers((9,), "f8") - 1, places(30, 9)))


@pytest.mark.parametrize("fn", [plain, scaled, row_sums])
def test_threads_give_the_same_bits(fn):
    rng = np.random.default_rng(3)
    big = fn is row_sums
    table = rng.normal(size=(3000, 100) if big else 30000)
    index = rng.integers(-3000, 3000, 20000 if big else 1_000_000)
    args = (table, index, rng.normal(size=1_000_000)) if fn is scaled else (table, index)
    fast = fast_of(fn)
    dynoc.config.threads = 1
    fast(*args)
    want = fast(*args)
    dynoc.config.threads = 4
    got = fast(*args)
    for a, b in zip(want if big else (want,), got if big else (got,), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    index[-7] = 30001
    with pytest.raises(IndexError, match="index 30001 is out of bounds for axis 0 with size"):
        fast(*args)


def test_an_index_that_another_thread_writes():
    """Each element is one of the table, or the call raises."""
    table, index = np.ones(1000), np.zeros(100_000, np.int64)
    fast = fast_of(scaled)
    weight = np.ones(100_000)
    fast(table, index, weight)
    stop = threading.Event()

    def write():
        for value in itertools.cycle([0, 2**50, -(2**50), 999]):
            index[:] = value
            if stop.is_set():
                return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(200):
            try:
                assert np.all(fast(table, index, weight) == 2.0)
            except IndexError:
                pass
    finally:
        stop.set()
        thread.join()


PAIRS = {
    "vectors": lambda: (places(600, 40), places(600, 30, seed=2)),
    "backwards": lambda: (places(600, 40)[::-1], places(600, 30, seed=2)[::-2][:300].repeat(2)),
    "other dtypes": lambda: (places(600, 40, "u1"), places(600, 30, "i4", 2)),
    "u8": lambda: (places(600, 40, "u8"), places(600, 30, "i1", 2)),
    "matrices": lambda: (places((20, 30), 40), places((20, 30), 30, seed=2)),
    "turned": lambda: (places((20, 30), 40).T, places((20, 30), 30, seed=2).T),
    "a grid": lambda: np.ix_(places(20, 40), places(17, 30, seed=2)),
    "a turned grid": lambda: np.ix_(places(20, 30, seed=2), places(17, 40))[::-1],
    "one of the first": lambda: (places(1, 40), places(600, 30, seed=2)),
    "a row of the second": lambda: (places((20, 30), 40), places(30, 30, seed=2)),
    "none": lambda: (places(0, 40), places(0, 30)),
    "one": lambda: (places(1, 40), places(1, 30)),
    "rank 0": lambda: (places(9, 40), np.array(3)),
}
MATRICES = {
    "C": lambda *more: numbers((40, 30, *more), "f8"),
    "i1": lambda *more: numbers((40, 30, *more), "i1"),
    "F": lambda *more: np.asfortranarray(numbers((40, 30, *more), "f8")),
    "part": lambda *more: numbers((41, 31, *more), "f8")[1:, 1:],
}


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("pair", PAIRS)
def test_two_arrays(matrix, pair):
    same(by_two, lambda: (MATRICES[matrix](), *PAIRS[pair]()), lambda: (MATRICES[matrix](3), *PAIRS[pair]()))
    same(by_two, lambda: (MATRICES[matrix](0), *PAIRS[pair]()), lambda: (MATRICES[matrix](2, 2), *PAIRS[pair]()))


def test_three_arrays_and_slices():
    def make(n, *shape):
        return lambda: (numbers(shape, "f8"), places(n, min(shape)), places(n, min(shape), seed=2))

    same(by_three, make(100, 9, 8, 7), make(0, 9, 8, 7), make(1, 3, 2, 2, 5), make(70, 1, 1, 1))
    same(by_two_and_slices, make(100, 9, 8, 7), make(3, 9, 8, 1), make(0, 5, 5, 5))


def test_along_an_axis():
    def make(rows, n, m):
        return lambda: (numbers((rows, n), "f8"), places((rows, m), n))

    same(along, make(7, 9, 20), make(1, 1, 1), make(40, 100, 3), make(3, 2, 0))


@pytest.mark.parametrize("wrong", [(0, 40), (0, -41), (1, 30), (1, -31), (0, 2**62), (1, 2**62), (1, -(2**63))])
def test_one_of_two_is_not_there(wrong):
    def make(at=None):
        pair = PAIRS["vectors"]()
        if at is not None:
            pair[wrong[0]][at] = wrong[1]
        return (MATRICES["C"](), *pair)

    same(by_two, make, lambda: make(0), lambda: make(599), make)


def test_two_arrays_are_no_call():
    graph = graphs_of(by_two, MATRICES["C"](), *PAIRS["vectors"]())
    assert "extern" not in graph and "gather(" in graph
