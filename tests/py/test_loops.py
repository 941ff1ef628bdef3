"""Loops that run natively, from the program's side: results and exceptions, how they become native, what is told of them."""

import collections
import gc
import heapq
import logging
import math
import operator
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from loop_programs import PROGRAMS, collatz, nested, total
from test_loops_null import outcome, twin

import dynoc


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p[0].__name__)
def test_programs(program):
    function, arguments = program
    wanted = [outcome(function, args) for args in arguments()]
    fast = dynoc.optimize(twin(function), wait=True)
    for _ in range(3):
        assert [outcome(fast, args) for args in arguments()] == wanted


def elements(a, b, n):
    s = 0
    for i in range(n):
        for j in range(a.shape[1]):
            a[i, j] = a[i, j] * 2 + b[j]
            s = s + a[i, -1 - j]
    return s, type(s), i


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "?"])
@pytest.mark.parametrize("n", [0, 1, 3, 4])
def test_elements(dtype, n):
    """At n = 0 the last line raises; at 4 the index is out of range, deep in the nest, behind what was written already."""
    results = []
    for function in (elements, dynoc.optimize(twin(elements), wait=True)):
        for _ in range(2):
            a = np.arange(6).reshape(3, 2).astype(dtype)
            b = np.array([1, 3])
            try:
                result = function(a, b, n)
            except Exception as e:
                result = type(e), str(e)
            results.append((repr(result), a.tolist(), a.dtype))
    assert results[0] == results[1] == results[2] == results[3]


def test_is_native_and_told():
    fast = dynoc.optimize(twin(nested), wait=True)
    assert fast(4, 5) == nested(4, 5)
    assert fast.loops[0].startswith("native: ")
    assert "for i in range(n):" in fast.loops[0]
    assert "int64_t" in fast.source() or "long" in fast.source()
    report = dynoc.explain(twin(nested))(4, 5)
    assert report.loops[0].startswith("native: ")
    assert "loops\n  native: " in str(report)


def test_refusal_is_told(caplog):
    def reads(lines):
        out = []
        for line in lines:
            out.append(line.encode())
        return out

    before = dynoc.counters["loops"]["refused"]
    dynoc.set_logs(loops=True)
    try:
        with caplog.at_level(logging.DEBUG, "dynoc.loops"):
            logging.getLogger("dynoc.loops").addHandler(caplog.handler)
            fast = dynoc.optimize(reads, wait=True)
            assert fast(["a,b", " c"]) == [b"a,b", b" c"]
    finally:
        dynoc.set_logs(loops=False)
        logging.getLogger("dynoc.loops").removeHandler(caplog.handler)
    assert dynoc.counters["loops"]["refused"] > before
    assert "a loop stays in CPython: " in caplog.text and "^" in caplog.text
    assert fast.refusals


def long_loop(n):
    s = 0
    for i in range(n):
        s = (s * 3 + i) % 1000003
    return s


def becomes_native(function, most):
    """A first call with so many trips at the most has native code before it ends, and the function's result."""
    n = 20_000
    while True:
        n *= 8
        fast = dynoc.optimize(twin(function))
        result = fast(n)
        if fast.loops[0].startswith("native"):
            break
        assert n < most
    assert result == function(n)


def test_becomes_native_in_its_middle():
    """The first call: the loop begins in CPython, and the compiler is through before it ends."""
    becomes_native(long_loop, 10**9)


def long_while(n):
    s, i = 0, 0
    while i < n:
        s = (s * 3 + i) % 1000003
        i += 1
    return s


def outer_while(n):
    s, i = 0, 0
    while i < n:
        i += 1
        for k in (i, 2, 3):
            s = (s * 3 + k) % 1000003
    return s


@pytest.mark.parametrize("function", [long_while, outer_while])
def test_while_becomes_native_in_its_middle(function):
    """Nobody can say how long it will run: after a few trips it is left alone until it has run for a while."""
    becomes_native(function, 10**8)


def test_nothing_to_record():
    """A call that has no arrays isn't recorded: its loops are CPython's until they have run for a while. One with an array is."""

    def double(x, n):
        for i in range(n):
            x = x + x
        return x

    dynoc.reset()
    fast = dynoc.optimize(double)
    assert fast(1, 3) == 8 and not fast.refusals
    assert [loop.split(":")[0] for loop in fast.loops] == ["CPython's until it has run for a while"]
    assert (fast(np.ones(4), 3) == 8).all() and fast(1, 4) == 16


def through(graph, start):
    seen = {start}
    queue = collections.deque([start])
    while queue:
        for other in graph[queue.popleft()]:
            if other not in seen:
                seen.add(other)
                queue.append(other)
    return sorted(seen)


def smallest(items):
    heap = []
    for item in items:
        heapq.heappush(heap, -item if operator.gt(item, 4) else item)
    return heap[0]


@pytest.mark.parametrize("program", [(through, ([[1, 2], [3], [], [0]], 0)), (smallest, ([3, 1, 7],))])
def test_nothing_to_record_with_modules(program):
    """Modules whose functions and classes native loops know have no arrays in them."""
    function, arguments = program
    fast = dynoc.optimize(twin(function))
    assert fast(*arguments) == function(*arguments) and not fast.refusals
    assert {loop.split(":")[0] for loop in fast.loops} == {"CPython's until it has run for a while"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_fork_while_loops_are_written(tmp_path, monkeypatch):
    """The build thread may be in the midst of writing a loop's C. The child's values are CPython's, and so are the parent's."""
    monkeypatch.setattr(dynoc.config, "cache_dir", str(tmp_path))
    want = long_while(200_000)
    for _ in range(4):
        fast = dynoc.optimize(twin(long_while))
        assert fast(200_000) == want
        pid = os.fork()
        if pid == 0:
            os._exit(0 if fast(200_000) == want == fast(200_000) else 1)
        assert fast(200_000) == want
        assert os.waitpid(pid, 0)[1] == 0


def test_signal_in_a_native_loop(no_collections):
    """The handler's exception comes out of the loop. (A `try` in the function catches it where CPython's table says so.)"""

    def forever(n):
        i = 0
        while n > 0:
            i = (i + 1) % 1000
        return i

    fast = dynoc.optimize(forever, wait=True)
    assert fast(0) == 0
    for _ in range(2):
        old = signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            with pytest.raises(KeyboardInterrupt) as caught:
                fast(1)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
        frame = caught.traceback[-1]
        assert (frame.name, frame.frame.f_locals["n"]) == ("forever", 1)
    assert fast.loops[0].startswith("native")


def test_threads_run_beside_a_native_loop():
    fast = dynoc.optimize(twin(long_loop), wait=True)
    fast(10)
    ticks = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(1)
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    wanted = fast(100)
    began = time.monotonic()
    while time.monotonic() - began < 0.3:
        fast(2_000_000)
    done.set()
    thread.join()
    assert wanted == long_loop(100)
    assert len(ticks) > 5


def test_array_that_is_replaced_and_resized():
    def changes(a, b, n):
        s = 0.0
        for i in range(n):
            if i == 3:
                a = b
            s += a[i % len(a)]
        return s

    fast = dynoc.optimize(twin(changes), wait=True)
    a, b = np.arange(4.0), np.arange(10.0).astype("f4")
    for _ in range(3):
        assert repr(fast(a, b, 9)) == repr(changes(a, b, 9))


def test_other_types_at_later_calls():
    fast = dynoc.optimize(twin(total_of), wait=True)
    lists = [1, 2, 3], [1.5, 2], [True, 4.0], [10**30, 1], [], ["a"]
    for values in (*lists, np.arange(5.0), np.arange(5), (1, 2), np.ones((2, 2))):
        for _ in range(2):
            assert same_outcome(fast, total_of, values)


def total_of(values):
    s = 0
    for i in range(len(values)):
        s += values[i]
    return s


def same_outcome(fast, plain, *args):
    results = []
    for function in (plain, fast):
        try:
            value = function(*args)
            results.append((type(value), repr(value)))
        except Exception as e:
            results.append((type(e), str(e)))
    return results[0] == results[1]


def test_memory_is_flat():
    fast = dynoc.optimize(twin(elements), wait=True)
    a, b = np.ones((3, 2)), np.array([1, 3])
    fast(a, b, 2)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(20_000):
        a[:] = 1.0
        fast(a, b, 2)
    gc.collect()
    assert sys.getallocatedblocks() - before < 50


def test_trace_function_set_between_calls():
    fast = dynoc.optimize(twin(collatz), wait=True)
    assert fast(27) == collatz(27)
    told = []

    def trace(frame, event, arg):
        if frame.f_code.co_name == "collatz":
            told.append((event, frame.f_lineno))
        return trace

    seen = []
    for function in (collatz, fast):
        told.clear()
        sys.settrace(trace)
        try:
            function(6)
        finally:
            sys.settrace(None)
        seen.append(list(told))
    assert seen[0] == seen[1]
    assert fast(27) == collatz(27)


def test_array_work_before_a_short_loop_stays_a_graph():
    def mixed(x):
        y = np.sin(x) * 2 + np.cos(x) * x - x / 3
        s = 0
        for i in range(2):
            s += i
        return y + s

    fast = dynoc.optimize(mixed, wait=True)
    x = np.arange(5.0)
    fast(x)
    np.testing.assert_allclose(fast(x), mixed(x))
    assert fast.entries


def test_dropped_function_is_collected():
    import weakref

    scope = {"np": np}
    exec("def f(n):\n    s = 0\n    for i in range(n):\n        s += i * K\n    return s\nK = 3", scope)
    fast = dynoc.optimize(scope["f"], wait=True)
    assert fast(5) == 30
    assert fast.loops
    seen = weakref.ref(scope["f"])
    scope["fast"] = fast
    del fast, scope
    gc.collect()
    gc.collect()
    assert seen() is None


def run(code, *arguments, **environment):
    import os

    result = subprocess.run(
        [sys.executable, *arguments, "-c", textwrap.dedent(code)] if "-m" not in arguments else [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("wait", [True, False])
def test_under_enable(wait, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import numpy as np
        import dynoc

        def work(a):
            s = 0.0
            for i in range(len(a)):
                s += a[i] * i
            return s

        a = np.arange(2000.0)
        wanted = sum(x * i for i, x in enumerate(a))
        for _ in range(300):
            assert work(a) == wanted
            if dynoc.counters["loops"]["native"]:
                break
            dynoc.wait()
        assert work(a) == wanted
        print(dynoc.counters["loops"]["native"])
        """)
    )
    out = run("", "-m", "dynoc", str(program), DYNOC_WAIT="1" if wait else "0")
    assert int(out) >= 1


def test_total_of_large_ints():
    fast = dynoc.optimize(twin(total), wait=True)
    for n in (10, 3_000_000):
        assert fast(n) == (n - 1) * n * (2 * n - 1) // 6


def test_a_quotient_of_zero_has_pythons_sign():
    """Ints that floats don't hold are divided another way than small ones."""

    def signs(b, n):
        s = 0.0
        for i in range(n):
            s += math.copysign(1.0, (i - i) / b)
        return s

    fast = dynoc.optimize(signs, wait=True)
    for b in (-(2**53) - 1, 2**53 + 1, -(2**63), -3):
        assert fast(b, 5) == fast(b, 5) == signs(b, 5)


def borders_first(a, b):
    d = np.zeros((len(a) + 1, len(b) + 1))
    for i in range(len(a) + 1):
        d[i, 0] = i
    for j in range(len(b) + 1):
        d[0, j] = j
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i, j] = min(d[i - 1, j] + 1.0, d[i, j - 1] + 1.0, d[i - 1, j - 1] + abs(a[i - 1] - b[j - 1]))
    return d[len(a), len(b)]


def total_then_scaled(x, n):
    total = 0
    for i in range(n):
        total += i
    return x * total


def test_a_small_loop_in_front_of_larger_ones_is_native_and_one_in_front_of_an_operation_on_arrays_is_not():
    fast = dynoc.optimize(twin(borders_first), wait=True)
    a, b = np.arange(12.0), np.arange(15.0)[::-1].copy()
    assert all(fast(a, b) == borders_first(a, b) for _ in range(3))
    assert len(fast.loops) >= 3 and all(loop.startswith("native") for loop in fast.loops)
    fast = dynoc.optimize(twin(total_then_scaled), wait=True)
    assert np.array_equal(fast(a, 9), total_then_scaled(a, 9))
    assert [entry.end for entry in fast.entries] == ["return"]
