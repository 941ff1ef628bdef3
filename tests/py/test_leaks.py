"""Memory stays flat: hits, misses, recordings and resets, errors on the way, entries that go."""

import ctypes
import gc
import os
import sys
import weakref

import numpy as np
import pytest
from case import f64
from compare import dynoc

PAGE = os.sysconf("SC_PAGE_SIZE")


# AddressSanitizer keeps what is freed for a while; it knows how much is in use.
in_use = getattr(ctypes.CDLL(None), "__sanitizer_get_current_allocated_bytes", None)
if in_use is not None:
    in_use.restype = ctypes.c_size_t


def resident():
    if in_use is not None:
        return in_use()
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * PAGE


def grown(action, rounds, warm):
    """Bytes that the process is larger after `rounds` more times, when it has done it `warm` times already.

    It is the least of up to three turns, for what leaks does so in each of them, where an allocator that asks
    the system for its next piece does so in one.
    """
    for _ in range(warm):
        action()
    least = None
    for _ in range(3):
        gc.collect()
        before = resident()
        for _ in range(rounds):
            action()
        gc.collect()
        larger = resident() - before
        least = larger if least is None else min(least, larger)
        if least < PAGE:
            break
    return least


def blocks_grown(action, rounds):
    for _ in range(10):
        action()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(rounds):
        action()
    gc.collect()
    return sys.getallocatedblocks() - before


def chain(x, s):
    y = np.sin(x) * s + 1.0
    return y, y.sum(), (x[1:], [y])


def test_hits():
    fast = dynoc.optimize(chain, wait=True)
    x = f64(20)
    fast(x, 1.5)
    references = sys.getrefcount(x)
    assert grown(lambda: fast(x, 1.5), 100_000, 2000) < 2 << 20
    assert sys.getrefcount(x) == references
    assert blocks_grown(lambda: fast(x, 1.5), 2000) < 50


def written(x, y):
    x += y
    x[1:] = y[:-1]
    return x


def test_hits_that_write():
    fast = dynoc.optimize(written, wait=True)
    x, y = np.zeros(20), np.zeros(20)
    fast(x, y)
    references = sys.getrefcount(x), sys.getrefcount(y)
    assert grown(lambda: fast(x, y), 20_000, 2000) < 1 << 20
    assert (sys.getrefcount(x), sys.getrefcount(y)) == references


def broken(x, out):
    y = x * 2
    out.append(y.shape[0])
    z = float(y.sum())
    out.clear()
    return y + z


def test_hits_with_breaks():
    fast = dynoc.optimize(broken, wait=True)
    x, out = f64(20), []
    fast(x, out)
    references = sys.getrefcount(x), sys.getrefcount(out)
    assert grown(lambda: fast(x, out), 20_000, 2000) < 1 << 20
    assert (sys.getrefcount(x), sys.getrefcount(out)) == references


def fails(x):
    y = x + 1
    return y[100]


def test_errors():
    fast = dynoc.optimize(fails, wait=True)
    x = f64(20)

    def call():
        with pytest.raises(IndexError):
            fast(x)

    call()
    references = sys.getrefcount(x)
    assert grown(call, 3000, 500) < 1 << 20
    assert sys.getrefcount(x) == references


def test_recordings_and_resets():
    fast = dynoc.optimize(chain)
    dynoc.config.compiler = "/nonexistent/cc"
    x = f64(20)

    def call():
        fast(x, 1.5)
        fast(x, 1.5)
        dynoc.reset()

    references = sys.getrefcount(x)
    assert grown(call, 300, 100) < 1 << 20
    assert blocks_grown(call, 100) < 100
    assert sys.getrefcount(x) == references


def test_native_code_and_resets():
    fast = dynoc.optimize(chain, wait=True)
    x = f64(20)

    def call():
        fast(x, 1.5)
        fast(x, 1.5)
        dynoc.reset()

    assert grown(call, 100, 30) < 4 << 20


@pytest.mark.parametrize("fn", [broken, fails], ids=["break", "error"])
def test_recordings_that_end_early(fn):
    dynoc.config.compiler = "/nonexistent/cc"
    fast = dynoc.optimize(fn)
    x = f64(20)
    args = (x, []) if fn is broken else (x,)

    def call():
        try:
            fast(*args)
        except IndexError:
            pass
        dynoc.reset()

    call()
    references = sys.getrefcount(x)
    assert grown(call, 300, 100) < 1 << 20
    assert sys.getrefcount(x) == references


def test_forced_bail_outs():
    dynoc.config.compiler = "/nonexistent/cc"
    fast = dynoc.optimize(chain)
    x = f64(20)

    def call():
        for n in range(0, 40, 3):
            dynoc.config.force_bail = n
            fast(x, 1.5)
            dynoc.reset()
        dynoc.config.force_bail = -1

    references = sys.getrefcount(x)
    assert grown(call, 30, 10) < 1 << 20
    assert sys.getrefcount(x) == references


def test_nothing_keeps_arrays_alive():
    """After a call neither arguments nor results nor what the function made inside live on."""
    fast = dynoc.optimize(chain, wait=True)
    for _ in range(3):
        x = f64(20)
        y, _, (view, _) = fast(x, 1.5)
        dead = [weakref.ref(x), weakref.ref(y), weakref.ref(view)]
        del x, y, view, _
        assert [r() for r in dead] == [None, None, None]


def test_functions_die():
    """An optimised function that is dropped goes, and its entries and the function with it."""

    def make():
        big = f64(100_000)

        def inner(x):
            return x + big

        return inner

    def call():
        plain = make()
        fast = dynoc.optimize(plain)
        fast(f64(100_000))
        fast(f64(100_000))
        return weakref.ref(plain)

    dynoc.config.compiler = "/nonexistent/cc"
    assert grown(call, 60, 20) < 8 << 20
    dead = call()
    gc.collect()
    assert dead() is None


def test_garbage_collector_in_the_middle():
    def makes_garbage(x):
        a = [x + 1]
        a.append(a)
        gc.collect()
        return a[0] * 2

    fast = dynoc.optimize(makes_garbage, wait=True)
    for _ in range(5):
        assert fast(np.ones(3)).tolist() == [4.0] * 3
    old = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(5):
            dynoc.reset()
            assert fast(np.ones(3)).tolist() == [4.0] * 3
            assert fast(np.ones(3)).tolist() == [4.0] * 3
    finally:
        gc.set_threshold(*old)
