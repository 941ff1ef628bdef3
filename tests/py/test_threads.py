"""Threads that call, record and reset at the same time."""

import subprocess
import sys
import threading
from sys import intern

import numpy as np
import pytest
from compare import dynoc
from process import program

X = np.arange(64.0)


@pytest.fixture(autouse=True)
def switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def counted_loops(name):
    return dynoc.counters["loops"].get(name, 0)


def in_threads(n, work):
    """Run work(i) in n threads that start together; raises what any of them raised."""
    barrier, errors = threading.Barrier(n), []

    def body(i):
        barrier.wait()
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_first_call_in_64_threads():
    @dynoc.optimize
    def f(x, k):
        y = x * 2.0 + k
        return np.maximum(y, x)

    def work(i):
        for _ in range(5):
            assert np.array_equal(f(X + i, float(i)), np.maximum((X + i) * 2.0 + float(i), X + i))

    in_threads(64, work)
    assert len(f.entries) == 1


def test_different_functions_and_breaks():
    def make(n):
        def f(x):
            y = x + n
            intern("a")
            return y * n

        return dynoc.optimize(f)

    fast = [make(float(n)) for n in range(8)]

    def work(i):
        for _ in range(10):
            for n in range(8):
                assert np.array_equal(fast[n](X), (X + n) * n)

    in_threads(16, work)


def test_reset_while_others_call():
    @dynoc.optimize
    def f(x):
        y = x + 1.0
        intern("a")
        return y * 2.0

    def work(i):
        for k in range(40):
            if i == 0:
                dynoc.reset()
            assert np.array_equal(f(X), (X + 1.0) * 2.0)

    in_threads(8, work)


def test_code_changes_while_others_call():
    def plus(x):
        return x + 1.0

    def minus(x):
        return x - 1.0

    def f(x):
        return x + 1.0

    fast = dynoc.optimize(f)

    def work(i):
        for k in range(60):
            if i == 0:
                f.__code__ = (plus, minus)[k % 2].__code__
            result = fast(X)
            assert np.array_equal(result, X + 1.0) or np.array_equal(result, X - 1.0)

    in_threads(8, work)


def test_threads_that_come_to_a_loop_while_one_waits_for_its_compiler(tmp_path, monkeypatch):
    """With wait=True the first of them waits without the GIL, and the way into the loop is open: another loop is native."""
    monkeypatch.setattr(dynoc.config, "compiler", program(tmp_path / "cc", 'sleep 0.3; exec cc "$@"'))
    monkeypatch.setattr(dynoc.config, "cache_dir", str(tmp_path))

    def weighted(rows, factor):
        total = 0.0
        for row in rows:
            for value in row:
                total += value * factor
        if factor > 0:
            for row in rows:
                for value in row:
                    total -= value * value
        return total

    fast = dynoc.optimize(weighted, wait=True)
    rows = [[float(i + k) for k in range(40)] for i in range(40)]
    expected = weighted(rows, 0.5)
    assert fast(rows, -1.0) == weighted(rows, -1.0)
    before = counted_loops("native")

    def work(i):
        for _ in range(3):
            assert fast(rows, 0.5) == expected

    in_threads(8, work)
    assert counted_loops("native") > before



def test_recursion_near_the_limit():
    def deep(x, n):
        return x + 1.0 if n == 0 else deep(x, n - 1) + 0.0

    plain = deep
    deep = dynoc.optimize(deep, wait=True)
    for n in (3, 50, 3):
        assert np.array_equal(deep(X, n), X + 1.0)
    with pytest.raises(RecursionError):
        deep(X, 10**6)
    assert np.array_equal(deep(X, 3), X + 1.0) and plain is deep.__wrapped__


SMALL_STACK = """
import sys, threading
import numpy as np
import dynoc

def inner(x, y):
    z = np.exp(x[::2]) * y[::2] + x[1::2]
    return z.sum(axis=1), z.T.max(axis=0), (x[:, None, :3] - y[None, :4, :3]).sum(axis=2), [float(v) for v in z[0, :3]]

def f(x, y):
    return inner(x, y)

size, enabled = int(sys.argv[1]) << 10, sys.argv[2] == "enabled"
if enabled:
    dynoc.enable(wait=True)
fast = f if enabled else dynoc.optimize(f, wait=True)
x, y = np.random.default_rng(1).random((2, 64, 50))
done = []

def work():
    for _ in range(4):
        done.append([np.asarray(v).tolist() for v in fast(x, y)])

threading.stack_size(size)
for _ in range(2):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    threading.stack_size(0)
assert len(done) == 8, "a thread died"
assert all(np.allclose(a, b) for d in done for a, b in zip(d, done[0]))
"""


@pytest.mark.parametrize("mode", ["optimised", "enabled"])
@pytest.mark.parametrize("size", [64, 128, 256, 384, 600, 1100])
def test_threads_with_small_stacks(size, mode):
    """They run as plain Python, whatever the others do."""
    done = subprocess.run([sys.executable, "-c", SMALL_STACK, str(size), mode], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
