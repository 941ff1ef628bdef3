"""What a reading of the back end found, as small as it gets."""

import warnings

import numpy as np
import pytest
from process import output_of

import dynoc

# ---- what is written in place and reduced, where results lie side by side and their number is no multiple of a group


def doubled_sums(x):
    x *= 2
    return x.sum(axis=1)


def doubled_largest(x):
    x *= 2
    return x.max(axis=1)


@pytest.mark.parametrize("fn", [doubled_sums, doubled_largest])
def test_written_once_where_columns_are_reduced(fn):
    fast = dynoc.optimize(fn, wait=True)
    for n in (100, 100, 33, 40, 64, 70, 7):
        for m in (50, 20, 5, 600):
            a = np.asfortranarray(np.random.default_rng(n).random((n, m)))
            b = a.copy("K")
            want, got = fn(a), fast(b)
            np.testing.assert_array_equal(a, b)
            np.testing.assert_allclose(got, want)


# ---- sizes whose bytes don't fit a number; memory that isn't there


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


# ---- an exception that NumPy raises before anything is written


def written_behind_a_division(x, y):
    t = 1.0 / y
    x[1:-1] = t[2:] + t[:-2]


@pytest.mark.parametrize("n", [100, 100_000])
def test_nothing_is_written_where_a_warning_raises(n):
    fast = dynoc.optimize(written_behind_a_division, wait=True)
    for size in (50, 60, n):
        fast(np.ones(size), np.ones(size))
    y = np.ones(n)
    y[5] = 0
    x = np.ones(n)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        fast(x, y)
    assert x.sum() == n
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fast(x, y)
    assert [w.lineno for w in said] == [written_behind_a_division.__code__.co_firstlineno + 1]


def raveled(x):
    s = x.max()
    a = s.ravel()
    a[0] = 77
    return a, s.ravel(), s, s + 1


def reshaped(x):
    s = x.max()
    a, b = s.reshape(1), np.ravel(s)
    a += 77
    return a, b, s + 1


@pytest.mark.parametrize("fn", [raveled, reshaped])
def test_an_array_of_a_scalar_is_one_of_its_own(fn):
    fast, x = dynoc.optimize(fn, wait=True), np.linspace(0, 1, 20).reshape(4, 5)
    for _ in range(3):
        right, got = fn(x), fast(x)
        assert [np.asarray(a).tolist() for a in got] == [np.asarray(a).tolist() for a in right]
        assert not np.shares_memory(got[0], got[1]) and got[0].base is not None and right[0].base is not None


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
