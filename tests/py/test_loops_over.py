"""Calls that go over to loop code in the midst of a loop: what they give, raise and show is what they would have without."""

import gc
import io
import os
import sys
import threading
import time
import traceback
import types

import numpy as arrays  # a module that has `np` has its functions recorded
import pytest
from going_over import HAS, enabled, go_over, gone_over  # noqa: F401

import dynoc


def twin(function):
    """The function once more: dynoc keeps what it knows for a code object."""
    code, name = function.__code__.replace(), function.__name__
    return types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)


def places(e):
    return [(row.name, row.lineno, row.colno) for row in traceback.extract_tb(e.__traceback__)]


def outcome(function, *args):
    """What a call gives, or its exception with the places of the traceback."""
    try:
        value = function(*args)
    except Exception as e:
        return type(e), str(e), places(e)[1:]
    return type(value), repr(value), places(value) if isinstance(value, Exception) else None


def sums(over, n):
    s = 0
    for i in range(n):
        if i == 3:
            over()
        s += i * i
    return s


def leaves_by_break(over, n):
    for i in range(n):
        if i == 2:
            over()
        if i * i > 50:
            break
    else:
        return "whole", i
    return "broken", i


def goes_on(over, n):
    out = []
    for i in range(n):
        over()
        if i % 3 == 0:
            continue
        out.append(i)
    return out


def raises(over, n):
    total = 0
    for i in range(n):
        over()
        total += 10 // (5 - i)
    return total


def catches(over, n):
    seen = []
    for i in range(n):
        try:
            over()
            seen.append(10 // (3 - i))
        except ZeroDivisionError as e:
            seen.append((str(e), e.__traceback__.tb_lineno))
        finally:
            seen.append(-i)
    return seen


def whiles(over, n):
    k = 0
    while k < n:
        k += 1
        over()
        if k == 100:
            break
    else:
        return -k
    return k


def forever(over, n):
    k = 0
    while True:
        k += 1
        if k == 2:
            over()
        if k > n:
            return k


def nested(over, n):
    out = []
    for i in range(n):
        for j in range(i):
            if j == 1:
                over()
            if j == 4:
                break
            out.append(i * j)
    return out


class Within:
    depth = 0

    def __enter__(self):
        self.depth += 1

    def __exit__(self, *raised):
        self.depth -= 1


def in_with(over, n):
    within = Within()
    for i in range(n):
        with within:
            for j in range(3):
                over()
    return i, j, within.depth


def with_cells(over, n):
    made = []
    for i in range(n):
        over()
        made.append(lambda: i)
    return [f() for f in made]


def deletes(over, n):
    for i in range(n):
        over()
        if i > 4:
            del i
    return i


def over_generator(over, n):
    def squares():
        for k in range(n):
            over()
            yield k * k

    return [x + 1 for x in squares()], sum(squares())


def over_many(over, n):
    out = []
    for i, (k, v) in enumerate(zip("abcdefghij", [1.5] * n, strict=False)):
        over()
        out.append((i, k, v))
    for x in {"a": 1, "b": 2}.items():
        over()
        out.append(x)
    return out


def deep_stack(over, n):
    return [0, 1, 2, [sum([i, over() is None, *[k for k in range(i)]]) for i in range(n)], 4]


def calls_itself(over, n):
    total = 0
    for i in range(n):
        if i == 1:
            over()
        total += calls_itself(over, n - 1) + 1
    return total


def shows_locals(over, n):
    seen = []
    for i in range(n):
        over()
        seen.append(sorted(k for k in locals() if k != "over"))
    return seen, i


def holds_frame(over, n, frame=sys._getframe):
    frames = []
    for i in range(n):
        frames.append(frame())
        over()
    return {(f.f_lineno, f.f_code.co_name) for f in frames}, frames[0].f_locals["i"], i


def keeps_traceback(over, n):
    kept = None
    for i in range(n):
        try:
            if i == 1:
                raise ValueError(i)
        except ValueError as e:
            kept = e
        over()
    return kept


def collects(over, n, collect=gc.collect):
    for i in range(n):
        over()
        collect()
    return i


PROGRAMS = (sums, leaves_by_break, goes_on, raises, catches, whiles, forever, nested, in_with, with_cells, deletes)
PROGRAMS += (over_generator, over_many, deep_stack, shows_locals, holds_frame, keeps_traceback, collects)


STAY = (holds_frame, over_generator)  # a frame object is held in each trip; a generator's frame
VARIES = (deep_stack, shows_locals, collects)  # from version to version


@pytest.mark.parametrize("n", (0, 1, 2, 5, 12))
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_without(program, n):
    wanted = outcome(twin(program), bool, n)
    fast = twin(program)
    for _ in range(3):
        assert outcome(fast, go_over, n) == wanted


@pytest.mark.skipif(not HAS, reason="calls stay in their code")
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p not in VARIES], ids=lambda p: p.__name__)
def test_goes_over(program):
    before = gone_over()
    outcome(twin(program), go_over, 9)
    assert (gone_over() > before) == (program not in STAY)


@pytest.mark.skipif(not HAS, reason="calls stay in their code")
def test_is_asked_again_where_it_could_not():
    def program(over, n, frame=sys._getframe):
        held = frame()
        for i in range(n):
            if i == 4:
                held = None
            over()
        return i

    before = gone_over()
    assert twin(program)(go_over, 4, sys._getframe) == 3
    assert gone_over() == before
    assert program(go_over, 8) == 7
    assert gone_over() == before + 1


@pytest.mark.skipif(not HAS, reason="code stays in the loop that it began in")
@pytest.mark.parametrize("beside", (time, io.StringIO(), Within(), threading.Lock()), ids=lambda o: type(o).__name__)
def test_what_lies_beside_the_loop_does_not_matter(beside):
    def program(over, n, beside):
        began, total = time.perf_counter(), 0
        for i in range(n):
            if i == 3:
                over()
            total += i * i
        return total, beside, sys.byteorder, time.perf_counter() >= began

    before = gone_over()
    assert program(go_over, 9, beside) == (204, beside, sys.byteorder, True)
    assert gone_over() == before + 1


@pytest.mark.parametrize("within", (time, io.StringIO(), arrays.ones(40).flat), ids=lambda o: type(o).__name__)
def test_what_it_comes_to_does(within):
    def program(over, n, within):
        for i in range(n):
            over()
            if within is None:
                i = None
        return i

    before = gone_over()
    assert program(go_over, 9, within) == 8
    assert gone_over() == before


@pytest.mark.parametrize("beside", (arrays, arrays.float64(0.5), arrays.ones(3), arrays.add), ids=lambda o: type(o).__name__)
def test_a_function_that_has_arrays_is_to_be_recorded(beside):
    def program(over, n, beside):
        total = 0
        for i in range(n):
            over()
            total += i * i
        return total, beside is not None, sys.byteorder

    before = gone_over()
    assert program(go_over, 9, beside) == (204, True, sys.byteorder)
    assert gone_over() == before


def test_in_calls_of_itself():
    assert calls_itself(go_over, 5) == calls_itself(lambda: None, 5)


@pytest.mark.skipif(not HAS, reason="calls stay in their code")
def test_runs_natively():
    def long(n):
        s, x = 0.0, 0.5
        for i in range(n):
            if i == 10:
                go_over()
            x = x * 1.5 - 0.25 * x * x
            s += x
        return s, i

    before = gone_over()
    plain = twin(long)
    assert long(3_000_000) == plain(3_000_000)
    assert gone_over() > before


@pytest.mark.skipif(not HAS, reason="calls stay in their code")
def test_a_loop_is_left_alone_while_the_one_around_it_is_compiled(tmp_path, monkeypatch):
    def nest(n):
        s = 0.0
        for i in range(n):
            if i == 10:
                go_over()
            for j in range(200):
                s += j * 0.5
        return s

    slow = tmp_path / "slow"
    slow.write_text('#!/bin/sh\nsleep 1\nexec cc "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setattr(dynoc.config, "compiler", str(slow))
    monkeypatch.setattr(dynoc.config, "cache_dir", str(tmp_path))
    before, planned = gone_over(), dynoc.counters["loops"].get("planned", 0)
    assert nest(40_000) == 398000000.0
    assert gone_over() == before + 1 and dynoc.counters["loops"]["planned"] == planned + 1


def test_not_where_somebody_traces():
    lines = []

    def trace(frame, what, arg):
        lines.append((frame.f_code.co_name, what, frame.f_lineno - frame.f_code.co_firstlineno))
        return trace

    def traced(over):
        lines.clear()
        sys.settrace(trace)
        try:
            value = twin(goes_on)(over, 4)
        finally:
            sys.settrace(None)
        return value, [row for row in lines if row[0] == "goes_on"]

    assert traced(go_over) == traced(bool)


def test_a_tracer_that_comes_in_the_middle():
    lines = []

    def trace(frame, what, arg):
        lines.append(frame.f_lineno - frame.f_code.co_firstlineno)
        return trace

    def program(over, n):
        for i in range(n):
            if i == 1:
                over()
            if i == 3:
                sys.settrace(trace)
                sys._getframe().f_trace = trace
            if i == 5:
                sys.settrace(None)
        return i

    assert program(go_over, 8) == 7
    assert sys.gettrace() is None
    assert lines


def test_another_thread_runs_the_same_code():
    results = []

    def work():
        results.append(nested(go_over, 40))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    wanted = nested(go_over, 40)
    for thread in threads:
        thread.join()
    assert results == [wanted] * 4


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tools are there from 3.12 on")
def test_no_tool_is_left():
    monitoring = sys.monitoring
    sums(go_over, 9)
    dynoc.disable()
    assert all(monitoring.get_tool(i) is None for i in range(6))
    monitoring.use_tool_id(monitoring.OPTIMIZER_ID, "mine")
    try:
        dynoc.enable()
        assert sums(go_over, 9) == sums(bool, 9)
        assert monitoring.get_tool(monitoring.OPTIMIZER_ID) == "mine"
    finally:
        monitoring.free_tool_id(monitoring.OPTIMIZER_ID)


@pytest.mark.skipif(not HAS or sys.version_info < (3, 12), reason="calls go over by a tool")
def test_the_tool_is_free_as_soon_as_a_call_has_gone_over():
    def program(over, n, tool):
        seen = []
        for i in range(n):
            over()
            over = bool
            seen.append(tool(5))
        return seen

    before = gone_over()
    assert program(go_over, 4, sys.monitoring.get_tool) == ["dynoc", None, None, None]
    assert gone_over() == before + 1


@pytest.mark.skipif(not HAS or sys.version_info < (3, 12), reason="calls go over by a tool")
@pytest.mark.filterwarnings("ignore:This process")  # it has threads: of NumPy's, too
def test_no_loop_is_waited_for_behind_a_fork():
    def program(over, n, tool, fork):
        total = 0
        for i in range(n):
            total += i
            if i == n - 1:
                asked, child = over(), fork()
        return asked, child, tool(5)

    asked, child, tool = program(go_over, 9, sys.monitoring.get_tool, os.fork)
    if child == 0:
        os._exit(tool is not None)
    assert (asked, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), tool) == (True, 0, None)


def test_counts_of_references_stay():
    value = object()

    def program(over, n, it):
        for i in range(n):
            held = it
            over()
        return i

    before = sys.getrefcount(value)
    for _ in range(50):
        twin(program)(go_over, 5, value)
    assert sys.getrefcount(value) == before
