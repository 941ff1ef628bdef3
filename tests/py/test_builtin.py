"""The built-in tier under whole functions: without a compiler every function of the table gives what plain Python gives."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from compare import check_case, dynoc
from functions import TABLE


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setattr(dynoc.config, "compiler", "/nonexistent/cc")


@pytest.mark.parametrize("row", TABLE, ids=repr)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_same_as_plain(row, no_compiler, capfd):
    plain, optimised = row.make(), row.make()
    fast = dynoc.optimize(optimised)
    for turn in range(3):
        for i, maker in enumerate(row.makers):
            check_case(row, plain, fast, maker, f"arguments {i}, call {turn + 1}")
    assert {e.tier for e in fast.entries if e.source} <= {"builtin"}


def test_the_second_call_does_not_wait_for_a_compiler(no_compiler):
    fast = dynoc.optimize(lambda x: np.sin(x) * 2 + x.sum())
    x = np.linspace(0, 1, 1000)
    before = dynoc.counters["tier"].get("builtin", 0)
    first, second, _ = fast(x), fast(x), fast(x)
    (entry,) = fast.entries
    assert entry.tier == "builtin" and entry.hits == 2
    assert dynoc.counters["tier"]["builtin"] == before + 1
    np.testing.assert_allclose(first, second, rtol=1e-14)


PROGRAM = """
import json, sys
import numpy as np
import dynoc

def f(x, y, k):
    z = np.exp(x) * k + y.astype(np.float64)
    return z, z.sum(axis=0), z.max(axis=1), (z > k) & (y != 0), np.sqrt(np.abs(x)).mean()

fast = dynoc.optimize(f)
rng = np.random.default_rng(1)
found = []
for n in (2, 3, 40, 700):
    x, y = rng.standard_normal((n, 37)), rng.integers(-5, 5, (n, 37), dtype=np.int16)
    fast(x, y, 1.5)
    found.append([np.asarray(r).tobytes().hex() for r in fast(x, y, 1.5)])
json.dump([fast.entries[0].tier, found], sys.stdout)
"""


def results(**environment):
    done = subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_both_tiers_give_the_same_bits_on_any_number_of_threads():
    tier, native = results(DYNOC_WAIT="1")
    assert tier == "native"
    for threads in ("1", "3"):
        tier, builtin = results(DYNOC_COMPILER="/nonexistent/cc", DYNOC_THREADS=threads)
        assert tier == "builtin" and builtin == native
