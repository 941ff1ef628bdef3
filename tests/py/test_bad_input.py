"""What dynoc is given that it can't compile, and what happens to a call from outside: a clear error or plain Python's result."""

import asyncio
import inspect
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from case import f64
from compare import check, dynoc
from process import output_of


def work(x):
    y = x + x
    return y, x[:1], y == x


class Tagged(np.ndarray):
    """A user's subclass with an attribute of its own."""

    def __array_finalize__(self, other):
        self.tag = getattr(other, "tag", "new")


def tagged():
    a = f64(4).view(Tagged)
    a.tag = "mine"
    return (a,)


ODD_ARRAYS = {
    "object": lambda: (np.array([1, 2.5, 10**30], dtype=object),),
    "object strings": lambda: (np.array(["a", "b"], dtype=object),),
    "string": lambda: (np.array(["ab", "c"]),),
    "new string": lambda: (np.array(["ab", "c"], dtype=np.dtypes.StringDType()),),
    "bytes": lambda: (np.array([b"ab", b"c"]),),
    "datetime": lambda: (np.array(["2020-01-01", "2021-02-03"], dtype="datetime64[D]"),),
    "timedelta": lambda: (np.array([1, 2], dtype="timedelta64[s]"),),
    "structured": lambda: (np.zeros(3, dtype=[("a", "f8"), ("b", "i4")]),),
    "record": lambda: (np.zeros(3, dtype=[("a", "f8")]).view(np.recarray),),
    "byte-swapped": lambda: (f64(4).astype(">f8"),),
    "byte-swapped ints": lambda: (np.arange(4).astype(">i4"),),
    "matrix": lambda: (np.matrix([[1.0, 2.0], [3.0, 4.0]]),),
    "masked": lambda: (np.ma.MaskedArray([1.0, 2.0, 3.0], mask=[0, 1, 0]),),
    "subclass": tagged,
    "half": lambda: (f64(4).astype(np.float16),),
    "long double": lambda: (f64(4).astype(np.longdouble),),
    "complex": lambda: (f64(4) + 1j,),
    "small ints": lambda: (np.arange(4, dtype=np.int8),),
    "unsigned": lambda: (np.arange(4, dtype=np.uint64),),
    "rank 12": lambda: (f64(*(1,) * 12),),
    "empty of rank 3": lambda: (f64(3, 0, 2),),
    "memory map of bytes": lambda: (np.frombuffer(bytes(32), dtype=np.float64),),
    "unaligned": lambda: (np.frombuffer(bytes(33), dtype=np.float64, offset=1),),
    "odd strides": lambda: (np.ndarray(3, np.float64, bytearray(64), 0, (12,)),),
    "list": lambda: ([1, 2],),
    "string not array": lambda: ("text",),
    "None": lambda: (None,),
}


@pytest.mark.parametrize("kind", ODD_ARRAYS)
def test_odd_arrays(kind):
    fast = dynoc.optimize(work, wait=True)
    for turn in range(3):
        check(work, fast, lambda: (f64(4),), what=f"turn {turn}")
        if kind == "masked":
            plain, got = work(*ODD_ARRAYS[kind]()), fast(*ODD_ARRAYS[kind]())
            assert [repr(v) for v in plain] == [repr(v) for v in got]
        else:
            check(work, fast, ODD_ARRAYS[kind], what=f"turn {turn}")


def in_place(x, y):
    x += y
    x[1:] = y[:-1]
    return x


@pytest.mark.parametrize("kind", ["object", "byte-swapped", "subclass", "half", "complex", "small ints", "matrix"])
def test_odd_arrays_written(kind):
    fast = dynoc.optimize(in_place, wait=True)
    for _ in range(3):
        check(in_place, fast, lambda: (f64(3), f64(3)))
        check(in_place, fast, lambda: (ODD_ARRAYS[kind]()[0], ODD_ARRAYS[kind]()[0]))


# ---- what optimize is given


def test_builtin_function_comes_back():
    assert dynoc.optimize(len) is len


def test_generator_function_comes_back():
    def numbers(n):
        yield from range(n)

    assert list(dynoc.optimize(numbers)(3)) == [0, 1, 2]


def test_coroutine_function_comes_back():
    async def answer(x):
        await asyncio.sleep(0)
        return x + 1

    assert asyncio.run(dynoc.optimize(answer)(np.ones(1)))[0] == 2.0


def test_lambda():
    fast = dynoc.optimize(lambda x: x * 2 + 1, wait=True)
    for _ in range(3):
        assert fast(np.arange(3.0)).tolist() == [1.0, 3.0, 5.0]


class Point:
    def __init__(self, x):
        self.x = x * 2

    def twice(self, y):
        return self.x + y

    @classmethod
    def origin(cls, x):
        return cls(x * 0)

    @staticmethod
    def free(x):
        return x - 1


def test_class():
    """A class is no function: refused with a clear message, or it goes on making its instances."""
    try:
        made = dynoc.optimize(Point)
    except TypeError as error:
        assert "function" in str(error)
    else:
        assert made(np.ones(2)).x.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("thing", [42, "text", 2.5, [1], {}], ids=str)
def test_what_cannot_be_called(thing):
    with pytest.raises((TypeError, dynoc.Error)) as caught:
        dynoc.optimize(thing)
    assert str(caught.value)


def test_unknown_argument_and_option():
    with pytest.raises(TypeError):
        dynoc.optimize(work, nonsense=1)
    with pytest.raises(dynoc.ConfigError, match="wait"):
        dynoc.optimize(work, options={"nonsense": 1})
    with pytest.raises(dynoc.ConfigError, match="cache_limit"):
        dynoc.config.nonsense = 1
    with pytest.raises(dynoc.ConfigError):
        dynoc.config.cache_limit = "many"


def test_optimize_twice():
    once = dynoc.optimize(work, wait=True)
    twice = dynoc.optimize(once, wait=True)
    for _ in range(3):
        check(work, twice, lambda: (f64(4),))
        check(work, once, lambda: (f64(4),))
    assert inspect.unwrap(twice) is work


def test_methods():
    class Fast(Point):
        twice = dynoc.optimize(Point.twice, wait=True)
        origin = classmethod(dynoc.optimize(Point.origin.__func__, wait=True))
        free = staticmethod(dynoc.optimize(Point.free, wait=True))

    p = Fast(np.ones(2))
    for _ in range(3):
        assert p.twice(np.ones(2)).tolist() == [3.0, 3.0]
        assert Fast.twice(p, 1).tolist() == [3.0, 3.0]
        assert Fast.origin(np.ones(2)).x.tolist() == [0.0, 0.0]
        assert type(p.origin(np.ones(2))) is Fast
        assert p.free(np.ones(2)).tolist() == [0.0, 0.0]
    bound = dynoc.optimize(p.twice, wait=True)
    for _ in range(3):
        assert bound(np.ones(2)).tolist() == [3.0, 3.0]


def test_looks_like_the_function():
    def documented(a, b: int = 2, /, *args, c, **kwargs) -> None:
        """What it says."""

    fast = dynoc.optimize(documented)
    assert fast.__name__ == "documented"
    assert fast.__qualname__ == documented.__qualname__
    assert fast.__doc__ == "What it says."
    assert fast.__module__ == __name__
    assert fast.__wrapped__ is documented
    assert fast.__annotations__ == documented.__annotations__
    assert inspect.signature(fast) == inspect.signature(documented)


def test_decorator_forms():
    @dynoc.optimize
    def first(x):
        return x + 1

    @dynoc.optimize(wait=True)
    def second(x):
        return x + 1

    @dynoc.optimize(disable=True)
    def third(x):
        return x + 1

    for fn in (first, second, third):
        for _ in range(3):
            assert fn(np.zeros(2)).tolist() == [1.0, 1.0]


# ---- from outside, in the middle of a call


def interrupted(x, trace):
    x += 1
    trace.append("before")
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass
    x += 1
    trace.append("after")
    return x


@pytest.fixture
def interrupts():
    """A process that was started in the background of a shell ignores them."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def test_keyboard_interrupt_in_the_middle(interrupts):
    fast = dynoc.optimize(interrupted, wait=True)
    for _ in range(3):
        for fn in (interrupted, fast):
            x, trace = np.zeros(3), []
            with pytest.raises(KeyboardInterrupt):
                fn(x, trace)
            assert x.tolist() == [1.0, 1.0, 1.0] and trace == ["before"]


def endless(x, turns):
    while True:
        x = x * 0.5
        turns[0] += 1


def test_timer_interrupts_a_loop(no_collections):
    """A signal is served in a loop that is being recorded, and in one that runs compiled."""

    def stop(signum, frame):
        raise TimeoutError("stop")

    fast = dynoc.optimize(endless)
    previous = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(3):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            start = time.perf_counter()
            with pytest.raises(TimeoutError, match="stop"):
                fast(np.ones(3), [0])
            assert time.perf_counter() - start < 5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_a_signal_is_not_lost_while_a_build_starts(no_collections):
    """The main thread blocks signals while it starts a thread: then another thread takes them, and CPython hears of it late."""

    def stop(signum, frame):
        raise TimeoutError("stop")

    previous = signal.signal(signal.SIGALRM, stop)
    try:
        for turn in range(40):
            space = {}
            exec("def endless(x):\n    while True:\n        x = x * 0.5", space)
            fast = dynoc.optimize(space["endless"])
            start = time.perf_counter()
            with pytest.raises(TimeoutError, match="stop"):
                signal.setitimer(signal.ITIMER_REAL, 1e-4 * (turn + 1), 2.0)
                fast(np.ones(3))
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert time.perf_counter() - start < 1.9
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def fused(x):
    return np.sin(x) * 2 + np.cos(x) * x


def test_first_call_on_64_threads_at_once():
    fast = dynoc.optimize(fused)
    barrier = threading.Barrier(64)
    failures = []

    def call(i):
        x = f64(50 + i % 3, seed=i)
        barrier.wait()
        for _ in range(5):
            got = fast(x)
            if not np.allclose(got, fused(x), rtol=1e-13, atol=1e-13):
                failures.append((i, got))

    threads = [threading.Thread(target=call, args=(i,)) for i in range(64)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads)
    assert not failures
    dynoc.wait()
    assert len(fast.entries) == 1


def test_threads_while_entries_change():
    """Calls, resets and new dtypes at the same time."""
    fast = dynoc.optimize(fused)
    stop = time.perf_counter() + 1.0
    failures = []

    def call(i):
        x = f64(20 + i).astype((np.float32, np.float64)[i % 2])
        expected = fused(x)
        while time.perf_counter() < stop:
            if not np.allclose(fast(x), expected, rtol=1e-5, atol=1e-5):
                failures.append(i)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    while time.perf_counter() < stop:
        dynoc.reset()
        time.sleep(0.02)
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads)
    assert not failures


def test_fork_after_threads_have_run():
    text = """
        import os, sys, threading
        import numpy as np
        import dynoc

        def f(x):
            return np.exp(x) * 2 + np.sin(x) * x

        def g(x):
            return np.cos(x) - x * 3

        fast, other = dynoc.optimize(f, wait=True), dynoc.optimize(g)
        big = np.linspace(0.0, 1.0, 2_000_000)
        fast(big), fast(big)
        small = np.ones(5)
        other(small)
        pid = os.fork()
        ok = np.allclose(fast(big), f(big)) and np.allclose(other(small), g(small))
        late = dynoc.optimize(lambda x: x * 7 + 1, wait=True)
        ok = ok and late(small).tolist() == [8.0] * 5 and late(small).tolist() == [8.0] * 5
        if pid == 0:
            os._exit(0 if ok else 1)
        print(ok, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    assert output_of(text, timeout=60) == "True 0"


def test_process_ends_while_compiling():
    text = """
        import numpy as np, dynoc
        fs = [dynoc.optimize(eval(f"lambda x: x * {i} + {i}.5")) for i in range(20)]
        for f in fs:
            f(np.ones(3))
        print("done")
    """
    assert output_of(text, timeout=60) == "done"


def traced(x):
    y = x + 1
    if x.shape[0] > 2:
        y = y * 2
    for i in range(2):
        y = y - i
    return y


def events_of(fn, install):
    events = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name == "traced":
            events.append((event, frame.f_lineno))
        return tracer

    install(tracer)
    try:
        fn(np.ones(3))
    finally:
        install(None)
    return events


@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile], ids=["settrace", "setprofile"])
def test_trace_function_sees_every_line(install):
    fast = dynoc.optimize(traced, wait=True)
    expected = events_of(traced, install)
    assert expected
    assert events_of(fast, install) == expected
    for _ in range(3):
        check(traced, fast, lambda: (f64(5),))
    assert events_of(fast, install) == expected


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12")
def test_monitoring_tool_sees_every_line():
    def lines_of(fn):
        lines = []
        mon = sys.monitoring
        mon.use_tool_id(mon.DEBUGGER_ID, "test")
        mon.register_callback(mon.DEBUGGER_ID, mon.events.LINE, lambda code, line: lines.append((code.co_name, line)))
        mon.set_events(mon.DEBUGGER_ID, mon.events.LINE)
        try:
            fn(np.ones(3))
        finally:
            mon.set_events(mon.DEBUGGER_ID, 0)
            mon.free_tool_id(mon.DEBUGGER_ID)
        return [line for name, line in lines if name == "traced"]

    fast = dynoc.optimize(traced, wait=True)
    expected = lines_of(traced)
    assert lines_of(fast) == expected
    for _ in range(3):
        check(traced, fast, lambda: (f64(5),))
    assert lines_of(fast) == expected


def deep(x, n):
    return x if n == 0 else deep(x * 1.0, n - 1) + 1


def test_recursion_to_the_limit():
    fast = dynoc.optimize(deep)
    for _ in range(2):
        for n in (5, 200):
            assert fast(np.zeros(1), n)[0] == n
        with pytest.raises(RecursionError):
            fast(np.zeros(1), 10**6)
    assert fast(np.zeros(1), 5)[0] == 5


def looks_at_its_frame(x):
    y = x + 1
    names = sorted(sys._getframe().f_locals)
    return y, names, sys._getframe().f_lineno, inspect.currentframe().f_code.co_name


def test_frames_are_real():
    fast = dynoc.optimize(looks_at_its_frame, wait=True)
    for _ in range(3):
        check(looks_at_its_frame, fast, lambda: (f64(3),))


def test_enable_and_disable():
    dynoc.enable(wait=True)
    try:
        for _ in range(3):
            assert traced(np.ones(3)).tolist() == [3.0] * 3
    finally:
        dynoc.disable()
    with dynoc.enabled():
        for _ in range(3):
            assert traced(np.ones(3)).tolist() == [3.0] * 3
    assert traced(np.ones(3)).tolist() == [3.0] * 3
