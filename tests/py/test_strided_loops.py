"""How kernels walk memory: elements a few apart, backwards, turned, repeated, in rows of any length. Values are NumPy's bit for
bit, and what lies between and behind the elements is not touched."""

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter

DTYPES = [np.int8, np.uint16, np.float32, np.float64, np.complex128]


@pytest.fixture(params=DTYPES, ids=lambda t: np.dtype(t).name)
def dtype(request):
    return request.param


def numbers(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(-50, 50, shape).astype(dtype)


def fast_of(fn, *args):
    fast = dynoc.optimize(fn, wait=dynoc.config.compiler == "")
    fast(*args)
    return fast


def same(fn, fast, *args):
    want, got = fn(*args), fast(*args)
    assert got.dtype == want.dtype and got.shape == want.shape
    assert got.strides == want.strides or got.size <= 1 or 1 in got.shape
    np.testing.assert_array_equal(got, want)


@pytest.fixture(params=[0, 1, 2, 99], ids=["lowest", "middle", "highest", "own"])
def level(request):
    """Moves by each instruction set that this processor has."""
    if not dynoc._dynoc._moves_switch(request.param) and request.param != 99:
        pytest.skip("this processor hasn't that")
    yield
    dynoc._dynoc._moves_switch(99)


def times_plus(x, y):
    return x * y + x


@pytest.mark.parametrize("step", [2, 3, 4, 5, 7, -1, -2, -3])
def test_elements_apart(tier, level, dtype, step):
    """Every size up to some vectors, so that each has its rest; the last element is the last of its memory."""
    fast = fast_of(times_plus, numbers(40, dtype)[:: 4 * step], numbers(10, dtype)[: len(range(0, 40, abs(4 * step)))])
    for n in [*range(1, 70), 511, 512, 513, 529, 1500]:
        x = numbers((n - 1) * abs(step) + 1, dtype)[::step]
        assert len(x) == n
        same(times_plus, fast, x, numbers(n, dtype, 1))


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 8, 15, 16, 17])
def test_channels(tier, dtype, channels):
    def mixed(image):
        return image[:, :, 0] * image[:, :, -1] + image[:, :, channels // 2]

    fast = fast_of(mixed, numbers((5, 6, channels), dtype))
    for shape in [(1, 1), (1, 40), (3, 7), (16, 16), (31, 33), (7, 600)]:
        image = numbers((*shape, channels), dtype)
        same(mixed, fast, image)
        same(mixed, fast, image[::-1, ::2])


@pytest.mark.parametrize("fields", [5, 7, 8, 9, 17])
def test_fields_of_records(tier, level, dtype, fields):
    """Several fields of the same records are read and written together, whatever their order; the others stay as they were."""

    def moved(f, g, x):
        a, b, c, d, e = f[:, 4], f[:, 0], f[:, -1], f[:, 1], f[:, fields // 2]
        g[:, 3] = a * x + b
        g[:, 1] = c - d * x
        g[:, 2] = x + e
        g[:, 4] = b * c
        g[:, 0] = d - a
        return a * b + c * d + e * x

    fast = fast_of(moved, numbers((6, fields), dtype), numbers((6, fields), dtype, 1), numbers(6, dtype, 2))
    for n in [*range(1, 36), 227, 228, 512, 513, 1500]:
        f, g, x = numbers((n, fields), dtype), numbers((n, fields), dtype, 1), numbers(n, dtype, 2)
        again = g.copy()
        want, got = moved(f, g, x), fast(f, again, x)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(again, g)


@pytest.mark.parametrize("fields", [5, 8, 9, 17])
def test_records_are_summed(tier, dtype, fields):
    fast = fast_of(lambda f: f.sum(1), numbers((6, fields), dtype))
    for n in [*range(1, 36), 65, 511, 512, 513, 1500]:
        same(lambda f: f.sum(1), fast, numbers((n, fields + 2), dtype)[:, 1:-1].copy())
        same(lambda f: f.sum(1), fast, numbers((n, fields), dtype))


def test_fields_that_are_written_and_read_again(tier):
    """A field that is written isn't another one, unless an array overlaps itself."""

    def turned(f):
        f[:, 0] = f[:, 1] + 1.0
        f[:, 2] = f[:, 0] * f[:, 3]
        f[:, 1] = f[:, 2] - f[:, 0]
        return f

    fast = fast_of(turned, numbers((6, 9), np.float64))
    for n in (1, 5, 100, 1000):
        for memory in (numbers((n, 9), np.float64), numbers((9, n), np.float64).T, numbers((n, 20), np.float64)[:, ::2]):
            want, got = turned(memory.copy()), memory.copy()
            np.testing.assert_array_equal(fast(got), want)
        own = numbers(n + 8, np.float64)
        want, got = own.copy(), own.copy()
        over = np.lib.stride_tricks.as_strided
        turned(over(want, (n, 9), (8, 8)))
        fast(over(got, (n, 9), (8, 8)))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("inner", [1, 2, 3, 5, 8, 15, 16, 17, 63, 64, 65, 100, 511, 513, 1000])
def test_rows_and_columns_repeated(tier, level, dtype, inner):
    """Short rows are walked many at a time, long ones one by one, with the last lanes computed once more."""

    def outer(x, y, m):
        return x[:, None] * y + m[:, ::-1] * x[:, None]

    fast = fast_of(outer, numbers(3, dtype), numbers(4, dtype), numbers((3, 4), dtype))
    for rows in (1, 2, 7, 16, 40, 300):
        same(outer, fast, numbers(rows, dtype), numbers(inner, dtype, 1), numbers((rows, inner), dtype, 2))


@pytest.mark.parametrize("inner", [1, 2, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65])
def test_short_rows_of_windows(tier, dtype, inner):
    """Rows that are contiguous, but lie apart: each by itself or several together, whatever is less work."""

    def windows(x, y, scale):
        return x[1:, 1:-1] * y[:-1, 2:] + x[:-1, :-2] * scale

    def added(x, y, out):
        out[:, 1:] += x[:, 1:-1] * y[:, 2:]
        return out

    make = lambda *shape: (numbers(shape, dtype), numbers(shape, dtype, 1))  # noqa: E731
    first, second = fast_of(windows, *make(4, 5, 6), numbers(6, dtype)), fast_of(added, *make(5, 6), numbers((5, 5), dtype))
    for planes, rows in [(2, 1), (1, 3), (3, 40)]:
        x, y = make(planes + 1, rows + 2, inner)
        same(windows, first, x, y, numbers(inner, dtype, 3))
        x, y = make(rows, inner + 2)
        out = numbers((rows, inner + 1), dtype, 2)
        want, got = added(x, y, out.copy()), added_by(second, x, y, out.copy())
        np.testing.assert_array_equal(got, want)


def added_by(fast, x, y, out):
    assert fast(x, y, out) is out
    return out


def test_written_apart(tier, dtype):
    """Results that go a few apart leave what is between as it was, also where the rows are short and read in place."""

    def store(out, x):
        out[:, ::2] = x * x
        out[:, 1] += x[:, 0]
        return out

    fast = fast_of(store, numbers((3, 7), dtype), numbers((3, 4), dtype))
    for shape in [(1, 1), (5, 2), (40, 3), (300, 4), (3, 500), (2, 1031)]:
        out, x = numbers((shape[0], 2 * shape[1]), dtype), numbers(shape, dtype, 1)
        want, got = store(out.copy(), x), out.copy()
        fast(got, x)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("inner", [1, 2, 3, 7, 16, 31, 33, 48, 63])
def test_rounds(tier, dtype, inner):
    """Rows that are the same for all, of sizes of which some are no part of a block, also where the result is an argument."""

    def add(out, x, cube):
        out += x
        return cube * x + out * x[::-1]

    fast = fast_of(add, numbers((3, 4), dtype), numbers(4, dtype), numbers((2, 3, 4), dtype))
    for rows, planes in [(1, 2), (2, 1), (15, 4), (16, 2), (40, 3), (333, 2)]:
        out, x, cube = numbers((rows, inner), dtype), numbers(inner, dtype, 1), numbers((planes, rows, inner), dtype, 2)
        for left in (x, np.broadcast_to(x[:1], x.shape)):
            kept, changed = out.copy(), out.copy()
            want, got = add(kept, left, cube), fast(changed, left, cube)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(changed, kept)


@pytest.mark.parametrize("shape", [(1, 1), (15, 17), (16, 16), (16, 300), (33, 63), (64, 64), (65, 129), (130, 1030), (700, 70)])
def test_transposes(tier, dtype, shape):
    fast = fast_of(lambda x, y: x * y.T + x, numbers((3, 4), dtype), numbers((4, 3), dtype))
    x, y = numbers(shape, dtype), numbers(shape[::-1], dtype, 1)
    same(lambda x, y: x * y.T + x, fast, x, y)
    wide = numbers((shape[1] + 3, shape[0] + 5), dtype, 2)[3:, 2:-3]
    same(lambda x, y: x * y.T + x, fast, x, wide)


def test_several_turned(tier, dtype):
    def several(a, b, c, d, e, x):
        return x + a.T * b.T + c.T * d.T + e.T

    make = [lambda n, m, s=s: numbers((m, n), dtype, s) for s in range(5)]
    args = [*(m(4, 5) for m in make), numbers((4, 5), dtype, 9)]
    fast = fast_of(several, *args)
    same(several, fast, *[*(m(70, 90) for m in make), numbers((70, 90), dtype, 9)])
    args = [numbers((90, 70), dtype), *(numbers((70, 90), dtype, s).T for s in range(4)), numbers((70, 90), dtype, 9)]
    same(several, fast, *args)


@pytest.mark.parametrize("axes", [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_axes_in_any_order(tier, dtype, axes):
    def permuted(x, y):
        return np.ascontiguousarray(x.transpose(axes)) + y

    make = lambda shape: (numbers(shape, dtype), numbers([shape[a] for a in axes], dtype, 1))  # noqa: E731
    fast = fast_of(permuted, *make((2, 3, 4)))
    for shape in [(20, 30, 40), (64, 17, 16), (3, 70, 65), (40, 3, 80), (33, 80, 3), (1, 40, 70), (5, 1, 600)]:
        same(permuted, fast, *make(shape))


def test_one_and_many_threads(monkeypatch):
    """Bands of tiles and chunks of rows: the same bits whatever the threads."""

    def both(x, y, z):
        return np.sin(x) * y.T + z[:, ::3]

    x, y, z = (np.random.default_rng(s).standard_normal((900, 900 * w)) for s, w in [(0, 1), (1, 1), (2, 3)])
    fast = fast_of(both, x, y, z)
    found = set()
    for threads in (1, 2, 3):
        monkeypatch.setattr(dynoc.config, "threads", threads)
        found.add(fast(x, y, z).tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4", "c8"])
@pytest.mark.parametrize("shape", [(70, 100), (1000, 1000), (65, 81), (100, 129), (33, 97)])
def test_turned_rows_that_are_no_multiple_of_a_vector(dtype, shape):
    """What is read across the order of writing goes through a buffer; the last lanes of its rows stand in it too."""
    a, b = (np.arange(shape[0] * shape[1]).reshape(shape) % 50 + k for k in (1, 2))
    a, b = a.astype(dtype), np.asfortranarray(b.astype(dtype))

    for fn in (lambda a, b: a + b, lambda a, b: np.asfortranarray(a * a), lambda a, b: (b * b).copy(order="C")):
        fast = dynoc.optimize(fn, wait=True)
        fast(a, b)
        found, wanted = fast(a, b), fn(a, b)
        assert np.array_equal(found, wanted) and found.strides == wanted.strides


def put_apart(x, y):
    x[::3] = y[::2]
    x[1::3] = y[1::2]
    return x


def put_backwards(x, y):
    x[::-1] = y
    x[:, ::-1] = x[:, ::2].repeat(2, axis=1)[:, : x.shape[1]]
    return x


COPIES = [
    lambda x: x.copy(),
    lambda x: x[::-1].copy(),
    lambda x: x[:, ::-1].copy(),
    lambda x: x[::2, ::3].copy(),
    lambda x: x[:, 1:].copy(),
    lambda x: x.T.copy(),
    lambda x: np.stack((x, x[::-1]), -1),
    lambda x: np.concatenate((x[:, ::2], x), axis=1),
    lambda x: np.repeat(x, 3, axis=1),
    lambda x: np.tile(x[:, ::2], (2, 3)),
    lambda x: np.broadcast_to(x[:, :1], (len(x), 37)).copy(),
]


@pytest.mark.parametrize("fn", COPIES, ids=range(len(COPIES)))
def test_copies(tier, level, dtype, fn):
    """Straight from where elements lie to where they go."""
    fast = fast_of(fn, numbers((6, 7), dtype))
    for shape in [(1, 1), (2, 3), (1, 600), (600, 2), (33, 15), (40, 16), (9, 70), (3, 513)]:
        x = numbers(shape, dtype)
        for y in (x, x[::-1], np.asfortranarray(x), numbers((shape[0], 2 * shape[1]), dtype)[:, ::2]):
            same(fn, fast, y)


@pytest.mark.parametrize("put", [put_apart, put_backwards])
def test_copies_into(tier, level, dtype, put):
    shapes = [(6, 4), (3, 2), (9, 40), (300, 2), (33, 64), (3, 600)]
    fast = fast_of(put, numbers((6, 4), dtype), numbers((4, 4) if put is put_apart else (6, 4), dtype))
    for rows, columns in shapes:
        x, y = numbers((rows, columns), dtype), numbers((rows // 3 * 2 if put is put_apart else rows, columns), dtype, 1)
        np.testing.assert_array_equal(fast(x.copy(), y), put(x.copy(), y))


def test_copies_keep_bits():
    """Of halves that are signalling nans, and of truth that is another byte than 1."""
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    bytes_of_truth = np.arange(256, dtype=np.uint8).view(bool)
    for x in (halves, bytes_of_truth):
        for fn in (lambda x: x.copy(), lambda x: x[::3].copy(), lambda x: x[::-1].copy()):
            got, want = dynoc.optimize(fn, wait=True)(x), fn(x)
            np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
