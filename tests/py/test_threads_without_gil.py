"""Threads of dynoc's own never have the GIL: what they run calls nothing of CPython that needs it, and writes loops' C right."""

import gc
import re
import shutil
import subprocess
import textwrap

import numpy as np
import pytest
from test_loops_null import twin

import dynoc
from dynoc import _dynoc

# Where such threads begin, and what they come to through a table of functions.
ROOTS = {"thread_main", "write_region", "dyn_compiler_find", "dyn_compiler_flags", "dyn_compiler_run", "dyn_load_object"}
# What they hand to a thread that has it.
HANDED = {"on_tick"}
# What CPython documents, or its source shows, to need neither the GIL nor a thread state.
ALLOWED = re.compile(r"PyMem_Raw\w+|PyThread_\w+|Py_AddPendingCall|PyInterpreterState_Main|_?Py_IsFinalizing")


def call_graph(library):
    """{address: name} of all functions in its text, and {address: addresses that it calls, or takes}."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True).stdout
    names, calls, here = {}, {}, None
    for line in text.splitlines():
        begin = re.match(r"([0-9a-f]+) <(.+)>:", line)
        if begin:
            here = int(begin[1], 16)
            names[here] = begin[2].removesuffix("@plt")
            calls[here] = set()
            continue
        to = re.search(r"\t(?:call|j\w+|lea)\s.*?([0-9a-f]+) <[^>+]+>", line)
        if to and here is not None:
            calls[here].add(int(to[1], 16))
    return names, calls


@pytest.mark.skipif(shutil.which("objdump") is None, reason="there is no objdump")
def test_calls_nothing_that_needs_the_gil():
    names, calls = call_graph(_dynoc.__file__)
    ways = {at: (name,) for at, name in names.items() if name in ROOTS}
    if not {"thread_main", "write_region"} <= {way[0] for way in ways.values()}:
        pytest.skip("the library has no names of its own functions, or these are inlined")
    todo = list(ways)
    while todo:
        at = todo.pop()
        for to in {to for to in calls[at] & names.keys() - ways.keys() if names[to] not in HANDED}:
            ways[to] = (*ways[at], names[to])
            todo.append(to)
    wrong = [way for way in ways.values() if re.match("_?Py", way[-1]) and not ALLOWED.fullmatch(way[-1])]
    assert len(ways) > 50
    assert not wrong, "\n".join(" calls ".join(way) for way in wrong)


def call_until_native(function, *arguments):
    """What its calls gave, until a call before the last found its first loop native."""
    results = set()
    for _ in range(100_000):
        native = bool(function.loops) and function.loops[0].startswith("native")
        results.add(repr(function(*arguments)))
        if native:
            break
    assert native, function.loops
    return results


CONSTANTS = "0.0 -0.0 0.1 1.5 1e308 -2.5e-308 5e-324 -1e-310 1e999 -1e999 0.30000000000000004 3.14159265358979 1e16 123456789.125"


@pytest.mark.parametrize("constant", CONSTANTS.split())
def test_constants(constant):
    """CPython writes a float into memory of the thread's interpreter, of which the thread that writes the loop has none."""
    text = textwrap.dedent(f"""
        def add(n):
            s = last = 0.0
            for i in range(n):
                s = last * 0.5 + i
                last = {constant}
            return s, last
    """)
    made = {}
    exec(text, made)
    want = repr(made["add"](3000))
    assert call_until_native(dynoc.optimize(twin(made["add"])), 3000) == {want}


def test_functions_go_while_their_loops_are_written():
    """A loop that nobody needs any more is freed behind the thread that writes it, however the two meet."""

    def mean(a, n):
        s = 0.5
        for i in range(n):
            s = s * 0.25 + a[i] * 1.75
        return s

    a = np.linspace(0.0, 1.0, 400)
    want = mean(a, 400)
    for turn in range(60):
        fast = dynoc.optimize(twin(mean))
        for _ in range(1 + turn % 7):
            assert fast(a, 400) == want
        del fast
        if turn % 5 == 0:
            gc.collect()
        if turn % 20 == 19:
            dynoc.reset()
    assert call_until_native(dynoc.optimize(twin(mean)), a, 400) == {repr(want)}
