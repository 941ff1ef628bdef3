"""What entries take: bytes of each, by part, counted and as the process grows; and a script that is run again and again.

    python bench/entries.py [RUNS]     RUNS of the script in each mode (150)
"""

import gc
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import memory
import numpy as np

import dynoc
from dynoc import _dynoc

FUNCTIONS = {
    "x + 1": ("x", "return x + 1"),
    "eight operators": ("x, y", "d = np.sin(x * 2.0 + y); d = d * d; return np.exp(d - x) / (1.0 + d) + y"),
}
COUNT, ALIKE = 40, 10  # functions that are measured; and made before, so that what is made once isn't counted

SCRIPT = """
import numpy as np

def helper(x, scale):
    return np.exp(-x * x) * scale

def main(x):
    for k in range(30):
        x = helper(x, 2.0) + np.sin(x) * k
    return x

answer = main(np.ones(1000))
"""


def make(name, i):
    """A function; from i = 0 on one of its own operators, so that it has an object of its own."""
    arguments, body = FUNCTIONS[name]
    own = " ".join(f"x = x {'*' if i >> bit & 1 else '+'} x;" for bit in range(6))
    space = {"np": np}
    exec(f"def f({arguments}):\n    {own if i >= 0 else ''} {body}\n", space)
    return space["f"]


def one_entry(name, distinct):
    arguments = [np.ones(100)] * (1 + FUNCTIONS[name][0].count(","))
    fns = [dynoc.optimize(make(name, i if distinct else -1), wait=True) for i in range(ALIKE + COUNT)]
    before = None
    for i, fn in enumerate(fns):
        if i == ALIKE:
            dynoc.wait()
            gc.collect()
            memory.trim()
            before = memory.status("VmRSS")
        for _ in range(3):
            fn(*arguments)
    dynoc.wait()
    memory.trim()
    grown = (memory.status("VmRSS") - before) // COUNT
    parts = fns[-1].entries[0]._bytes
    objects = _dynoc.memory()["object_bytes"] // max(1, _dynoc.memory()["objects"])
    text = ", ".join(f"{part} {n}" for part, n in parts.items())
    what = f"each with an object of its own, of about {objects} bytes" if distinct else "with one object for all"
    print(f"{name}, {what}: {sum(parts.values())} bytes counted ({text}); the process grew by {grown} for each")


def many_runs(runs, wait):
    path = Path(tempfile.mkdtemp()) / "script.py"
    path.write_text(SCRIPT)
    dynoc.enable(wait=wait)
    for i in range(runs):
        runpy.run_path(str(path), run_name="__main__")
        if i in (runs // 10, runs // 2, runs - 1):
            gc.collect()
            memory.trim()
            held = _dynoc.memory()
            counted = f"{held['entries']} entries of {held['entry_bytes']} bytes, {held['objects']} objects"
            print(f"wait={wait}, run {i + 1}: {counted}, process {memory.status('VmRSS') >> 20} MiB", flush=True)


def main():
    if sys.argv[1:2] == ["--one"]:
        one_entry(sys.argv[2], sys.argv[3] == "distinct")
    elif sys.argv[1:2] == ["--runs"]:
        many_runs(int(sys.argv[2]), sys.argv[3] == "wait")
    else:
        runs = sys.argv[1] if len(sys.argv) > 1 else "150"
        jobs = [["--one", name, how] for name in FUNCTIONS for how in ("shared", "distinct")]
        for arguments in [*jobs, ["--runs", runs, "wait"], ["--runs", runs, "default"]]:
            subprocess.run([sys.executable, __file__, *arguments], check=True)


if __name__ == "__main__":
    main()
