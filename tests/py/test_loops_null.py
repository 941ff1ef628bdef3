"""The way in and out of loops, tested with the null region: it is left after every number of instructions, in every program."""

import gc
import signal
import sys
import threading
import traceback
import types

import pytest
from loop_programs import PROGRAMS, nested, reference_counts, total

import dynoc
from dynoc import _dynoc

MOST = 150


def twin(function):
    """The function once more: dynoc keeps what it knows for a code object."""
    code, name = function.__code__.replace(), function.__name__
    return types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)


@pytest.fixture
def leave():
    """Makes regions null regions that are left after so many instructions."""
    yield lambda after: _dynoc._loops_null(after)
    _dynoc._loops_null(-2)


def outcome(function, args):
    """What a call gives: value and types, or the exception with the lines of its traceback in the function."""
    try:
        value = function(*args)
    except Exception as e:
        unsure = isinstance(e, UnboundLocalError)  # CPython's own superinstructions don't tell the columns
        rows = []
        for row in traceback.extract_tb(e.__traceback__)[1:]:
            rows.append((row.name, row.lineno, *(() if unsure else (row.colno, row.end_colno))))
        return type(e), str(e), rows, args
    return repr(value), type(value), args


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p[0].__name__)
def test_left_everywhere(program, leave):
    function, arguments = program
    wanted = [outcome(function, args) for args in arguments()]
    for after in [-1, *range(0, MOST), 10**6]:
        leave(after)
        fast = dynoc.optimize(twin(function))
        for _ in range(2):
            got = [outcome(fast, args) for args in arguments()]
            assert got == wanted, after


def test_loops_are_taken(leave):
    leave(10)
    before = dynoc.counters["loops"]["planned"]
    fast = dynoc.optimize(twin(nested))
    assert fast(5, 5) == nested(5, 5)
    assert dynoc.counters["loops"]["planned"] > before


def test_nothing_is_kept(leave):
    """Reference counts, and memory over many entries and exits."""
    a, b = [1.5, 2.5, 3.5], (10**30, 10**31)
    for after in (0, 3, 7, 12, 20, 31, 10**6):
        leave(after)
        fast = dynoc.optimize(twin(reference_counts))
        wanted = reference_counts(a, b, 9)
        fast(a, b, 9)
        counts = [sys.getrefcount(o) for o in (a, b, *a, *b)]
        for _ in range(200):
            assert fast(a, b, 9) == wanted
        assert counts == [sys.getrefcount(o) for o in (a, b, *a, *b)], after


def test_memory_is_flat(leave):
    leave(5)
    fast = dynoc.optimize(twin(total))
    fast(10)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(10_000):
        fast(10)
    gc.collect()
    assert sys.getallocatedblocks() - before < 50


def once(told, line):
    """Before 3.13 without repetitions, and without the line on which the trace function was set."""
    if sys.version_info >= (3, 13):
        return told
    rows = [row for k, row in enumerate(told) if k == 0 or told[k - 1] != row]
    return rows[1:] if rows[0][1] == line else rows


def test_trace_function_set_in_mid_loop(leave):
    """The lines that a trace function is told of are CPython's; before 3.13 one may come twice (docs/known_issues.md)."""

    def run(function, told):
        def trace(frame, event, arg):
            if frame.f_code.co_name == "traced" and event != "opcode":
                told.append((event, frame.f_lineno))
            return trace

        def start(i):
            if i == 3:
                sys.settrace(trace)
                sys._getframe(1).f_trace = trace
            return i

        try:
            return function(6, start)
        finally:
            sys.settrace(None)

    def traced(n, start):
        s = 0
        for i in range(n):
            s += start(i)
            for j in range(2):
                s += j
        return s

    wanted = []
    value = run(traced, wanted)
    for after in (-1, 0, 4, 9, 40):
        leave(after)
        fast, told = dynoc.optimize(twin(traced)), []
        for _ in range(2):
            told.clear()
            assert run(fast, told) == value
            line = traced.__code__.co_firstlineno + 3
            told_once, wanted_once = once(told, line), once(wanted, line)
            assert told_once == wanted_once, after


def test_traced_from_the_beginning(leave):
    leave(7)
    told = []

    def trace(frame, event, arg):
        if frame.f_code.co_name == "nested":
            told.append((event, frame.f_lineno))
        return trace

    fast = dynoc.optimize(twin(nested))
    fast(3, 3)
    seen = []
    for function in (nested, fast):
        told.clear()
        sys.settrace(trace)
        try:
            function(3, 2)
        finally:
            sys.settrace(None)
        seen.append(list(told))
    assert seen[0] == seen[1]
    assert fast(3, 3) == nested(3, 3)


def test_signal_in_a_loop_that_never_ends(leave, no_collections):
    def forever():
        i = 0
        try:
            while True:
                i += 1
        except KeyboardInterrupt:
            return i > 0

    for after in (-1, 0, 3, 5):
        leave(after)
        fast = dynoc.optimize(twin(forever))
        for _ in range(2):
            old = signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            try:
                assert fast()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, old)


def test_threads(leave):
    leave(6)
    fast = dynoc.optimize(twin(nested))
    wanted, wrong = nested(40, 40), []

    def work():
        for _ in range(100):
            if fast(40, 40) != wanted:
                wrong.append(1)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_frame_is_the_functions_own(leave):
    leave(4)

    def looks(n):
        seen = []
        for i in range(n):
            f = sys._getframe()
            seen.append((f.f_code.co_name, f.f_lineno, f.f_back.f_code.co_name, dict(f.f_locals)["i"]))
        return seen

    fast = dynoc.optimize(twin(looks))
    for _ in range(3):
        assert fast(4) == looks(4)


def test_destructor_calls_the_function_again(leave):
    """What is dropped when a loop is left runs code, which comes to the same header."""

    class Item:
        def __init__(self, inner):
            self.inner = inner

        def __del__(self):
            if self.inner:
                log.append(self.inner(2, []))

    def loop(n, items):
        s = 0
        for i in range(n):
            for x in items[:]:
                s += i
            s += 1
        return s

    log = []
    for after in (0, 2, 5, 9, 14):
        leave(after)
        fast = dynoc.optimize(twin(loop))
        for _ in range(2):
            log.clear()
            assert fast(3, [Item(fast), Item(fast)]) == 9
            assert log == [2, 2]


def test_reset_in_mid_loop(leave):
    leave(8)

    def loop(n, at):
        s = 0
        for i in range(n):
            if i == at:
                dynoc.reset()
            s += i
        return s

    fast = dynoc.optimize(twin(loop))
    for _ in range(3):
        assert fast(8, 20) == 28
        assert fast(8, 4) == 28


def test_recursion(leave):
    leave(9)

    def ackermann_like(n):
        s = 1
        for i in range(n):
            s += ackermann_like(i)
        return s

    plain = ackermann_like
    wanted = plain(9)
    ackermann_like = dynoc.optimize(twin(plain))
    assert ackermann_like(9) == wanted


def test_off_by_config(leave, monkeypatch):
    leave(5)
    before = dict(dynoc.counters["loops"])
    monkeypatch.setattr(dynoc.config, "loops", False)
    assert dynoc.optimize(twin(total))(9) == total(9)
    assert dict(dynoc.counters["loops"]) == before
