"""Rows of a length that comes often get a function of their own beside the general one: the same bits and the same warnings."""

import gc
import logging
import threading
import warnings

import numpy as np
import pytest
from compare import dynoc
from test_build import run

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

NEVER = 1 << 60
VERSIONS = 3


@pytest.fixture(autouse=True)
def often():
    """A length comes often after so many rows."""
    usual = _dynoc._rows_often(NEVER)
    yield _dynoc._rows_often
    _dynoc._rows_often(usual)


def lengths(fast):
    return sorted({pair for entry in fast.entries for pair in entry.lengths})


def bits(result):
    return [(a.dtype, a.shape, a.tobytes()) for a in map(np.asarray, result if isinstance(result, tuple) else (result,))]


def both(fn, *sizes):
    """The function with the general code alone, and with versions for rows of these sizes, once they are loaded."""
    usual, fast = (dynoc.optimize(lambda *args: fn(*args), wait=True) for _ in range(2))
    for args in sizes[:VERSIONS]:
        usual(*args), fast(*args)  # a call that records gives NumPy's bits
    _dynoc._rows_often(1)
    for args in sizes[:VERSIONS]:
        fast(*args)
    fast(*sizes[0])  # asks for the last one
    dynoc.wait()
    _dynoc._rows_often(NEVER)
    return usual, fast


def moments(x):
    c = x - x.mean(axis=1, keepdims=True)
    return x.sum(axis=1), (c * c).mean(axis=1), c, x.max(axis=1), x.prod(axis=1), (x > 0).sum(axis=1)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def floats(rows, n, dtype):
    return np.random.default_rng(n).standard_normal((rows, n)).astype(dtype)


@pytest.mark.parametrize("first", range(32, 64, VERSIONS))
def test_each_rest_gives_the_same_bits(first):
    args = [(floats(7, n, np.float64), floats(5, n, np.float32)) for n in range(first, min(first + VERSIONS, 64))]
    usual, fast = both(lambda x, y: (x.sum(axis=1), x.var(axis=1), y.max(axis=1), y.var(axis=1)), *args)
    assert len(lengths(fast)) >= 4 * len(args) and lengths(usual) == []
    for x in args:
        assert bits(fast(*x)) == bits(usual(*x))


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "c16", "c8", "i8", "i4", "i2", "i1", "u8", "u2", "u1", "?"])
def test_each_dtype_gives_the_same_bits(dtype):
    def fn(x):
        return x.sum(axis=1), x.prod(axis=1), (x == x).sum(axis=1), (x if dtype in ("c16", "c8") else x * x).max(axis=1)

    args = [((floats(9, n, "f8") * 3).astype(dtype),) for n in (17, 100, 511)]
    with warnings.catch_warnings(action="ignore"):
        usual, fast = both(fn, *args)
        assert {n for _, n in lengths(fast)} == {17, 100, 511}
        for x in args:
            assert bits(fast(*x)) == bits(usual(*x))


@pytest.mark.parametrize("fn", [moments, softmax])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
def test_rows_that_keep_something_give_the_same_bits(fn, dtype):
    args = [(floats(70, n, dtype),) for n in (20, 63, 131)]
    usual, fast = both(fn, *args)
    assert {n for _, n in lengths(fast)} == {20, 63, 131}
    for (x,) in args:
        assert bits(fast(x)) == bits(usual(x))
        assert bits(fast(x[::-2])) == bits(usual(x[::-2]))
        apart = np.repeat(x, 2, axis=1)[:, ::2]  # not where they lie
        assert bits(fast(apart)) == bits(usual(apart)) == bits(usual(x))
    for n in (0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 130, 132, 512, 513, 1000):
        x = floats(3, n, dtype)
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            said = [pytest.raises(ValueError, f, x) if n == 0 else bits(f(x)) for f in (usual, fast)]
        assert n == 0 or said[0] == said[1]


def test_inputs_written_in_place():
    def fn(x):
        x -= x.mean(axis=1, keepdims=True)
        return (x * x).sum(axis=1)

    usual, fast = both(fn, (floats(9, 45, "f8"),))
    x, y = floats(9, 45, "f8"), floats(9, 45, "f8")
    assert bits(usual(x)) == bits(fast(y)) and bits(x) == bits(y) and lengths(fast) != []


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0])
def test_special_values_warn_as_they_do_in_general(special):
    def said(fn, x):
        with warnings.catch_warnings(record=True, action="always") as caught:
            result = bits(fn(x))
        return result, [str(w.message) for w in caught]

    usual, fast = both(moments, (floats(4, 50, "f8"),))
    for at in (0, 31, 32, 33, 49):
        x = floats(4, 50, "f8")
        x[1, at] = x[2, :] = special
        assert said(fast, x) == said(usual, x)
    assert lengths(fast) != []


def test_what_is_counted(often, caplog):
    def fn(x):
        return x.sum(axis=1)

    fast = dynoc.optimize(fn, wait=True)
    before = dynoc.counters["sizes"]["built"] if "sizes" in dynoc.counters else 0
    fast(floats(10, 40, "f8"))
    often(100)
    for _ in range(9):  # as many of each, and others between them
        for n in (41, 42, 43, 44, 45, 46):
            fast(floats(10, n, "f8"))
    fast(floats(10, 40, "f8"))
    dynoc.wait()
    assert lengths(fast) == []
    dynoc.set_logs(perf=True)
    caplog.set_level(logging.DEBUG, "dynoc")
    try:
        for n in (50, 51, 52, 53):  # three get one
            for _ in range(50):
                fast(floats(10, n, "f8"))
        dynoc.wait()
    finally:
        dynoc.set_logs()
    assert lengths(fast) == [(0, 50), (0, 51), (0, 52)]
    assert dynoc.counters["sizes"]["built"] == before + 3
    assert sum("rows of 5" in line and "fn" in line for line in caplog.text.splitlines()) == 3


@pytest.mark.parametrize("shape, axis", [((50, 20), 0), ((20, 16), 1), ((4, 513), 1), ((4, 30, 30), (1, 2)), ((40, 5, 6), 1)])
def test_rows_that_are_not_worth_it(often, shape, axis):
    fast = dynoc.optimize(lambda x: x.sum(axis=axis), wait=True)
    x = np.ones(shape)
    fast(x)
    often(1)
    for _ in range(3):
        fast(x)
    dynoc.wait()
    assert lengths(fast) == []


def test_axes_that_are_one_row(often):
    args = [(floats(6, 60, "f8").reshape(6, 5, 12),)]
    usual, fast = both(lambda x: x.var(axis=(1, 2)), *args)
    assert {n for _, n in lengths(fast)} == {60}
    assert bits(fast(*args[0])) == bits(usual(*args[0]))


def test_nobody_waits_and_the_general_function_serves(often, tmp_path):
    script = """
    import numpy as np, dynoc, os, stat, time
    x = np.random.default_rng(0).standard_normal((30, 77))
    fast = dynoc.optimize(lambda x: x.var(axis=1), wait=True)
    fast(x)
    wanted = fast(x).tobytes()
    slow = %r
    with open(slow, "w") as f:
        f.write("#!/bin/sh\\nsleep 2\\nexec gcc $*\\n")
    os.chmod(slow, 0o700)
    dynoc.config.compiler = slow
    other = dynoc.optimize(lambda x: x.var(axis=1))
    other(x)
    dynoc.wait()
    _dynoc._rows_often(1)
    other(x)
    start = time.monotonic()
    other(x), other(x)
    took, early = time.monotonic() - start, other.entries[0].lengths
    dynoc.wait()
    same = other(x).tobytes() == wanted
    out([took < 1, early, [n for _, n in other.entries[0].lengths], same])
    """ % str(tmp_path / "slow")
    assert run(script, tmp_path / "cache")[0] == [True, [], [77, 77], True]


def test_equal_rows_of_two_graphs_share_an_object_and_the_disk(tmp_path):
    script = """
    import numpy as np, dynoc
    x = np.random.default_rng(0).standard_normal((30, 77))
    def made(fn):
        fast = dynoc.optimize(fn, wait=True)
        _dynoc._rows_often(1)
        fast(x), fast(x), fast(x)
        dynoc.wait()
        return fast
    fasts = [made(lambda x: x.sum(axis=1)), made(lambda x: (np.exp(x[0]), x.sum(axis=1)))]
    out([[f.entries[0].lengths for f in fasts], dict(dynoc.counters["cache"]), _dynoc._load_limit(4000)])
    """
    expected = [[[[0, 77]], [[1, 77]]], {"miss": 3, "hit": 1}, 3]
    assert run(script, tmp_path)[0] == expected
    expected[1] = {"hit": 4}
    assert run(script, tmp_path)[0] == expected


def test_versions_go_with_their_function(tmp_path):
    script = """
    import gc, numpy as np, dynoc
    x = np.random.default_rng(0).standard_normal((30, 77))
    _dynoc._rows_often(1)
    for k in range(4):  # each has two objects, and there is room for two
        _dynoc._load_limit(2)
        scope = {}
        exec(f"def f(x): return (x + {k}.5 * x{' * x' * k}).sum(axis=1)", scope)
        fast = dynoc.optimize(scope["f"], wait=True)
        fast(x), fast(x), fast(x)
        dynoc.wait()
        assert [n for _, n in fast.entries[0].lengths] == [77], k
        del fast, scope
        dynoc.reset()
        gc.collect()
    out(dict(dynoc.counters["build"]) if "build" in dynoc.counters else {})
    """
    assert run(script, tmp_path)[0] == {}


def test_without_a_compiler_there_are_none(tmp_path):
    script = """
    import numpy as np, dynoc
    dynoc.config.compiler = "/nowhere/cc"
    x = np.random.default_rng(0).standard_normal((30, 77))
    fast = dynoc.optimize(lambda x: x.sum(axis=1))
    _dynoc._rows_often(1)
    for _ in range(5):
        fast(x)
        dynoc.wait()
    out([fast.entries[0].tier, fast.entries[0].lengths, np.allclose(fast(x), x.sum(axis=1))])
    """
    assert run(script, tmp_path)[0] == ["builtin", [], True]


def test_versions_are_built_with_the_function_s_own_settings(often, tmp_path):
    fast = dynoc.optimize(lambda x: (x * x * x - 7.25).sum(axis=1), wait=True, options={"cache_dir": str(tmp_path)})
    x = floats(5, 90, "f8")
    fast(x)
    often(1)
    fast(x), fast(x)
    dynoc.wait()
    assert lengths(fast) == [(0, 90)] and len(list(tmp_path.rglob("*.so"))) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_of_many_threads(often, threads):
    kept, dynoc.config.threads = dynoc.config.threads, threads
    fast = dynoc.optimize(softmax, wait=True)
    args = [floats(3000 if n == 100 else 50, n, "f4") for n in (20, 33, 100, 64, 500, 512)]
    wanted = [bits(fast(x)) and bits(fast(x)) for x in args]
    often(1)
    wrong = []

    def calls():
        for _ in range(60):
            wrong.extend(x.shape for x, y in zip(args, wanted, strict=True) if bits(fast(x)) != y)

    runners = [threading.Thread(target=calls) for _ in range(4)]
    try:
        for r in runners:
            r.start()
        for r in runners:
            r.join()
    finally:
        dynoc.config.threads = kept
    dynoc.wait()
    assert wrong == [] and len(lengths(fast)) >= VERSIONS
    del fast
    gc.collect()
