"""`dynoc.profile` and ``DYNOC_TRACE``: what they count, name and write. No time is compared with another."""

import json

import numpy as np
import pytest
from process import output_of, run_script

import dynoc
from dynoc import _profile


def mixed(x, y):
    root = np.sqrt(x * x + y * y)
    return np.sort(root).sum() + 1, np.exp(x)


def profiled(fast, *args, calls=4):
    fast(*args)
    with dynoc.profile() as p:
        for _ in range(calls):
            fast(*args)
    return p


def test_steps_are_named_counted_and_placed():
    x = np.linspace(1, 2, 1000)
    (f,) = profiled(dynoc.optimize(mixed, wait=True, options={"retire": False}), x, x).functions
    assert (f.name, f.calls, f.hits) == ("mixed", 4, 4)
    steps = {step.name: step for step in f.steps}
    assert {step.kind for step in f.steps} == {"kernel", "extern"}
    assert steps["sort"].kind == "extern" and steps["sort"].bytes == 0
    first = mixed.__code__.co_firstlineno
    assert steps["sort"].place == f"{__file__}:{first + 2}"
    (kernel,) = [step for step in f.steps if "sqrt" in step.name]
    assert kernel.calls == 4 and kernel.bytes_per_second > 0
    assert all(step.seconds > 0 for step in f.steps)
    assert f.seconds >= f.guards + f.kernels + f.extern > 0


def test_bytes_are_those_of_each_memory_once():
    x, y = np.ones(1000), np.ones(1000)
    (f,) = profiled(dynoc.optimize(lambda x, y: (x + y) * x, wait=True, options={"retire": False}), x, y).functions
    (step,) = f.steps
    assert step.bytes == 4 * 3 * 8000
    (f,) = profiled(dynoc.optimize(lambda x, y: x[1:] + x[:-1], wait=True, options={"retire": False}), x, y).functions
    (step,) = f.steps
    assert step.bytes == 4 * 2 * 999 * 8


def test_loops_and_functions_left_to_cpython():
    def loop(n):
        total = 0.0
        for i in range(n):
            total += i * 0.5
        return total

    fast = dynoc.optimize(loop, wait=True)
    fast(1000)
    with dynoc.profile() as p:
        fast(1000)
    (f,) = p.functions
    assert [step.kind for step in f.steps] == ["loop"] and f.loops > 0
    assert f.steps[0].place.endswith(f":{loop.__code__.co_firstlineno + 2}")


def test_modules_have_the_name_of_their_class():
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
    p = profiled(dynoc.optimize(net, wait=True, options={"retire": False}), torch.ones(4, 8))
    assert [f.name for f in p.functions] == ["Sequential"]
    assert any(step.name == "linear" for step in p.functions[0].steps)


def test_a_second_profile_begins_anew_and_prints():
    fast = dynoc.optimize(lambda x: np.cos(x) + 1, wait=True, options={"retire": False})
    x = np.ones(100000)
    assert profiled(fast, x, calls=7).functions[0].calls == 7
    p = profiled(fast, x, calls=2)
    assert p.functions[0].steps[0].calls == 2
    text = str(p)
    assert "cos, add" in text and "GB/s" in text and "memory of this machine" in text
    assert max(map(len, text.splitlines())) < 130


def test_nothing_is_counted_when_nobody_looks():
    fast = dynoc.optimize(lambda x: np.cos(x) + 1, wait=True)
    with dynoc.profile() as p:
        pass
    fast(np.ones(10))
    assert p.functions == [] and str(p) == "dynoc profile: no optimised function was called"


PROGRAM = """
import numpy as np, dynoc
fast = dynoc.optimize(lambda x: np.cos(x) + np.sin(x), wait=True)
for _ in range(3):
    fast(np.ones(1000))
"""


def test_a_trace_is_written_when_the_program_ends(tmp_path):
    path = tmp_path / "trace.json"
    output_of(PROGRAM, DYNOC_TRACE=str(path), DYNOC_CACHE_DIR=str(tmp_path / "cache"))
    rows = json.loads(path.read_text())["traceEvents"]
    events = [row for row in rows if row["ph"] == "X"]
    kinds = {row["cat"] for row in events}
    assert kinds == {"record", "compile", "stage", "build", "guards", "call", "kernel"}
    assert [row["name"] for row in events if row["cat"] == "kernel"] == ["cos, sin, add"] * 2
    assert [row["name"] for row in events if row["cat"] == "build"] == ["compiler"]
    call, kernel = ([row for row in events if row["cat"] == kind][0] for kind in ("call", "kernel"))
    assert call["ts"] <= kernel["ts"] and kernel["ts"] + kernel["dur"] <= call["ts"] + call["dur"]
    assert kernel["args"]["bytes"] == 16000
    assert {row["args"]["name"] for row in rows if row["ph"] == "M"} == {"dynoc", "compiler"}


NESTED = """
import numpy as np, threading, dynoc
def inner(x):
    return np.sort(np.sin(x) * 2 + np.cos(x)) + 1
def outer(x):
    y = inner(x) * 2
    return np.sort(inner(y) + np.tanh(x)) * y
def work():
    for n in range(20):
        fast(np.linspace(0, 1, 50 + n))
fast = dynoc.optimize(outer)
dynoc.enable()
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
work()
"""


def test_events_of_a_thread_lie_within_one_another_or_apart(tmp_path):
    path = tmp_path / "trace.json"
    output_of(NESTED, DYNOC_TRACE=str(path), DYNOC_CACHE_DIR=str(tmp_path / "cache"))
    rows = [row for row in json.loads(path.read_text())["traceEvents"] if row["ph"] == "X"]
    assert len({row["tid"] for row in rows}) >= 4
    for thread in {row["tid"] for row in rows}:
        around = []
        for row in sorted((row for row in rows if row["tid"] == thread), key=lambda row: (row["ts"], -row["dur"])):
            while around and around[-1] <= row["ts"] + 1e-3:
                around.pop()
            assert not around or row["ts"] + row["dur"] <= around[-1] + 1e-3, row
            around.append(row["ts"] + row["dur"])


def test_builds_side_by_side_have_a_compiler_each():
    events = [("build", "compiler", 0, 10, 0, 7), ("build", "compiler", 5000, 10, 0, 7), ("build", "disk cache", 5, 10, 0, 8)]
    rows = [row["tid"] for row in _profile.as_chrome(events, 1)["traceEvents"] if row["ph"] == "X"]
    assert rows[0] == rows[1] != rows[2]


def test_a_trace_that_cannot_be_written_is_a_warning(tmp_path):
    code, _, said = run_script(PROGRAM, DYNOC_TRACE=str(tmp_path / "none" / "trace.json"))
    assert "DYNOC_TRACE: [Errno 2]" in said and code == 0


def test_objects_are_files_with_symbols_where_asked(tmp_path):
    output_of(PROGRAM, DYNOC_OBJECTS_DIR=str(tmp_path / "objects"), DYNOC_CACHE_DIR=str(tmp_path / "cache"))
    (path,) = (tmp_path / "objects").iterdir()
    assert b"lanes_0_cos_sin_add" in path.read_bytes()
    code, _, said = run_script("import dynoc", DYNOC_OBJECTS_DIR=str(path / "below"))
    assert code == 1 and "DYNOC_OBJECTS_DIR" in said


LATE = """
import os, shutil, sys, dynoc, numpy as np
kept = dynoc.config.objects_dir
shutil.rmtree(kept)
open(kept, "w").close()
f = dynoc.optimize(lambda x: np.cos(x) + np.sin(x), wait=True)
f(np.ones(3)), f(np.ones(3))
print(f.entries[0].tier)
"""


@pytest.mark.parametrize("made", ["by the compiler", "before"])
def test_objects_that_cannot_be_kept_are_a_warning_and_run(tmp_path, made):
    """The folder was there when it was named. In the second process the object is in the cache folder."""
    folder, cache = tmp_path / "objects", tmp_path / "cache"
    for _ in range(1 if made == "by the compiler" else 2):
        folder.unlink(missing_ok=True)
        code, out, said = run_script(LATE, DYNOC_OBJECTS_DIR=str(folder), DYNOC_CACHE_DIR=str(cache))
    assert (code, out) == (0, "native\n")
    advice = "(set DYNOC_DEBUG_DIR or DYNOC_OBJECTS_DIR to a folder that you can write)"
    assert said.split("cannot be written: ")[1] == f"{folder}: Not a directory {advice}\n"


def test_torchs_profiler_has_ranges_of_calls_and_kernels():
    torch = pytest.importorskip("torch")
    from torch.profiler import ProfilerActivity, profile

    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
    fast = dynoc.optimize(net, wait=True, options={"retire": False})
    x = torch.ones(4, 8)
    for _ in range(2):
        fast(x)
    with profile(activities=[ProfilerActivity.CPU]) as p:
        fast(x)
    names = [event.name for event in p.events()]
    assert "dynoc: Sequential" in names
    assert any(name.startswith("dynoc kernel: ") for name in names)
