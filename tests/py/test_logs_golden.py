"""What each log category says of one program, word for word: golden/<category>.txt.

A change that is meant is written down with ``GOLDEN=write`` in the environment. Times, keys of objects and where the program lies
are whatever they are; code objects are those of one version of Python.
"""

import os
import re
import sys
from pathlib import Path

import pytest
from compare import dynoc
from process import run_python

GOLDEN = Path(__file__).with_name("golden")
PROGRAM = '''\
import numpy as np
import dynoc


@dynoc.optimize(wait=True)
def wave(x, k):
    y = np.sin(x) * k
    repr(k)
    return y + x.sum(axis=0)


@dynoc.optimize(wait=True)
def trips(n):
    total = 0
    for i in range(n):
        total += i * i
    for i in map(str, range(n)):
        total += len(i)
    return total


wave(np.ones((4, 80)), 2.5)
wave(np.ones((40, 80)), 3)
trips(100000)
dynoc.wait()
'''


def same_everywhere(text, path):
    """Without what differs from run to run, and of generated C the functions that go over elements alone."""
    if "[dynoc.output_code]" in text:
        text = re.sub(r"^\[dynoc.output_code\] ?", "", text, flags=re.MULTILINE)
        text = "".join(re.findall(r"^\w+, entry \d+:\n|^static void lanes_.*?^}\n", text, re.MULTILINE | re.DOTALL))
    text = text.replace(str(path), "PROGRAM").replace(path.name, "PROGRAM")
    text = re.sub(r" at 0x[0-9a-f]+", " at 0x…", text)
    text = re.sub(r"\b[0-9a-f]{16}\b", "KEY", text)
    text = re.sub(r" *\^+$", "        ^", text, flags=re.MULTILINE)  # what is underlined, and how many instructions a line has,
    text = re.sub(r"\b\d+ instructions", "… instructions", text)  # differs from one CPython to the next
    return re.sub(r" *\b\d+\.\d+ (us|ms)\b", r" … \1", text)


@pytest.mark.parametrize("category", dynoc._dynoc.log_names())
def test_a_category_says_what_it_said(tmp_path, category):
    version = "-{}.{}".format(*sys.version_info) if category == "bytecode" else ""
    golden = GOLDEN / f"{category}{version}.txt"
    writes = os.environ.get("GOLDEN") == "write"
    if version and not golden.exists() and not writes:
        pytest.skip(f"no code objects of Python {version[1:]} are written down")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    code, _, said = run_python([str(path)], DYNOC_LOGS=category, DYNOC_CACHE_DIR=str(tmp_path / "cache"), DYNOC_THREADS="2")
    assert code == 0, said
    assert all(line.startswith(f"[dynoc.{category}]") for line in said.splitlines())
    said = same_everywhere(said, path)
    if writes:
        GOLDEN.mkdir(exist_ok=True)
        golden.write_text(said)
    assert said and said == golden.read_text()
