"""Memory of large results: owned by the array like any other, kept for the next results when it dies, given back when asked."""

import gc
import tracemalloc

import numpy as np
import pytest
from process import output_of

import dynoc
from dynoc import _dynoc

MANY = 1 << 17


def plus_one(x):
    return x + 1.0


@pytest.fixture
def fast():
    dynoc.reset()
    made = dynoc.optimize(plus_one, wait=True)
    made(np.zeros(3))
    yield made
    dynoc.reset()


def test_a_large_result_owns_its_memory_as_eagers_does(fast):
    x = np.arange(MANY, dtype=float)
    y = fast(x)
    assert y.flags.owndata and y.base is None and y.flags.writeable and y.flags.aligned and y.flags.c_contiguous
    assert y.ctypes.data % 64 == 0
    np.testing.assert_array_equal(y, plus_one(x))


def test_what_dies_is_kept_and_used_again(fast):
    x = np.zeros(MANY)
    y = fast(x)
    at = y.ctypes.data
    kept = _dynoc.kept_memory()
    del y
    assert _dynoc.kept_memory() >= kept + 8 * MANY
    assert fast(x[:-100]).ctypes.data == at
    dynoc.reset()
    assert _dynoc.kept_memory() == 0


def test_no_more_is_kept_than_the_setting_says(fast, monkeypatch):
    monkeypatch.setattr(dynoc.config, "keep_memory", 3)
    alive = [fast(np.zeros(MANY)) for _ in range(5)]
    del alive
    assert 0 < _dynoc.kept_memory() <= 3 << 20
    monkeypatch.setattr(dynoc.config, "keep_memory", 0)
    fast(np.zeros(MANY))
    assert _dynoc.kept_memory() == 0


def test_sizes_of_every_class(fast):
    for n in [8191, 8192, 8193, 9999, 10240, 12288, 14336, 16383, 16384, 16385, 123457, 1 << 19, (1 << 19) + 1]:
        x = np.random.default_rng(n).standard_normal(n)
        a, b = fast(x), fast(x)
        a += 1
        np.testing.assert_array_equal(b, plus_one(x))
        np.testing.assert_array_equal(a, plus_one(x) + 1)


def test_resize_in_place(fast):
    y = fast(np.arange(MANY, dtype=float))
    for n in (MANY // 2, MANY * 3, 10, MANY):
        before = y.copy()
        y.resize(n, refcheck=False)
        same = min(n, len(before))
        np.testing.assert_array_equal(y[:same], before[:same])
        assert not y[same:].any()


def test_another_dtype_or_shape_of_the_same_memory(fast):
    y = fast(np.zeros(MANY))
    y.dtype = np.int32
    y.shape = (2, MANY)
    del y
    gc.collect()
    np.testing.assert_array_equal(fast(np.zeros(MANY)), np.ones(MANY))


def test_tracemalloc_sees_it_as_numpys(fast):
    x = np.zeros(MANY)
    tracemalloc.start()
    try:
        y = fast(x)
        domain = np.lib.tracemalloc_domain
        found = [t.size for t in tracemalloc.take_snapshot().traces if t.domain == domain]
        assert 8 * MANY in found
        del y
        assert 8 * MANY not in [t.size for t in tracemalloc.take_snapshot().traces if t.domain == domain]
    finally:
        tracemalloc.stop()


def test_temporaries_are_kept_too(fast):
    def two_results(x):
        y = np.cumsum(x * 2.0)
        return y[::-1].copy() + y

    other = dynoc.optimize(two_results, wait=True)
    x = np.arange(MANY, dtype=float)
    for _ in range(3):
        np.testing.assert_array_equal(other(x), two_results(x))
    assert _dynoc.kept_memory() > 0


def handler_of(*array):
    return np._core.multiarray.get_handler_name(*array)


def test_large_results_of_numpys_own_functions_are_kept_too(fast):
    def product(a, b):
        return (a * 2.0) @ b

    other = dynoc.optimize(product, wait=True)
    a = np.arange(90000, dtype=complex).reshape(300, 300)
    other(a, a)
    y = other(a, a)
    assert handler_of(y) == "dynoc_pool" and handler_of() == handler_of(product(a, a)) == "default_allocator"
    at, kept = y.ctypes.data, _dynoc.kept_memory()
    np.testing.assert_array_equal(y, product(a, a))
    del y
    assert _dynoc.kept_memory() > kept
    assert at in [other(a, a).ctypes.data for _ in range(2)]
    assert handler_of(other(a[:20], a[:, :20])) == "default_allocator"  # a small one


def test_memory_is_numpys_again_behind_a_call_that_raises(fast):
    def repeated(x, times):
        return np.repeat(x * 2.0, times)

    other = dynoc.optimize(repeated, wait=True)
    x = np.arange(MANY, dtype=float)
    np.testing.assert_array_equal(other(x, 2), repeated(x, 2))
    for times in (3, -1, 2):
        try:
            wanted = repeated(x, times).sum()
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)):
                other(x, times)
        else:
            assert other(x, times).sum() == wanted
        assert handler_of() == "default_allocator"


def peak_of(fn, *args):
    fn(*args)
    tracemalloc.start()
    fn(*args)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_arrays_around_calls_go_when_they_are_used_up():
    def layers(x):
        for _ in range(10):
            x = np.sort(x * 1.5, axis=0) + 1.0
            x = np.cumsum(x[::-1], axis=0) * 0.5
        return x

    x = np.random.default_rng(0).random((300, 1000))
    fast = dynoc.optimize(layers, wait=True)
    np.testing.assert_allclose(fast(x), layers(x))
    assert peak_of(fast, x) < peak_of(layers, x) * 1.2


def test_what_is_left_in_the_middle_has_what_it_needs():
    def layers(x, limit):
        parts = [x]
        for i in range(6):
            y = np.sort(parts[-1] * 1.5 + i, axis=0)
            z = y[::-1] * 2.0
            parts.append(np.linalg.solve(np.eye(3) * (i != limit), z))
        return sum(parts)

    def told(fn, *args):
        try:
            return fn(*args)
        except np.linalg.LinAlgError as error:
            names = error.__traceback__
            while names.tb_frame.f_code.co_name != "layers":
                names = names.tb_next
            local = names.tb_frame.f_locals
            return [local["y"], local["z"], *local["parts"]]

    x = np.random.default_rng(0).random((3, 3))
    fast = dynoc.optimize(layers, wait=True)
    for limit in (9, 9, 0, 3, 5, 9):
        for got, want in zip(told(fast, x, limit), told(layers, x, limit), strict=True):
            np.testing.assert_allclose(got, want)


def running(x, y):
    return np.cumsum(np.cumsum(x + y, axis=0), axis=1)[0, 0]


def every_second(x, y):
    return (x + y).reshape(-1)[::2].sum()


@pytest.mark.parametrize("fn", [running, every_second])
def test_too_large_for_any_memory_is_eagers_error(fn):
    fast = dynoc.optimize(fn, wait=True)

    def wide(n, m):
        return np.broadcast_to(1.0, (n, 1)), np.broadcast_to(1.0, (1, m))

    for n, m in ((100, 300), (200, 100), (300, 400)):
        assert fast(*wide(n, m)) == fn(*wide(n, m))
    for n, m in ((2**40, 2**21), (2**31, 2**33), (2**32, 2**30)):
        said = []
        for f in (fn, fast):
            with pytest.raises((ValueError, MemoryError)) as info:
                f(*wide(n, m))
            said.append((type(info.value), str(info.value)))
        assert said[0] == said[1]


def test_what_is_kept_makes_room_before_memory_runs_out():
    text = """
    import resource
    import numpy as np, dynoc
    fast = dynoc.optimize(lambda x: x + 1.0, wait=True)
    for n in (20000, 30000, 40000):
        fast(np.broadcast_to(1.0, (n,)))
    kept = [fast(np.broadcast_to(1.0, (3_000_000,))) for _ in range(9)]
    del kept
    used = int(open("/proc/self/statm").read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + (60 << 20),) * 2)
    print(fast(np.broadcast_to(1.0, (10_000_000,))).sum())
    """
    assert output_of(text) == "20000000.0"


LOOP_OVER_A_DICT = """
import resource
import dynoc
import numpy as np

big = {f"k{i}": i for i in range(1000)}

def merged(into):
    for key, value in big.items():
        if key not in into:
            into[key] = value
    return into

def outer():
    return merged({})

dynoc.enable(wait=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert outer() == big
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_recording_a_loop_over_a_large_dict_takes_no_list_of_items_at_each_trip():
    assert int(output_of(LOOP_OVER_A_DICT)) < 20_000  # kB; a list at each trip takes 260,000
