"""The differential fuzzer (differential.py): 500 programs; DYNOC_SOAK=50000 runs as many, from a seed that depends on the day."""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import differential

SOAK = int(os.environ.get("SOAK", "0"))  # DYNOC_SOAK, which conftest.py takes out


def test_generated_programs_do_what_they_do_without_dynoc():
    first = int(time.time()) // 86400 * 10**6 if SOAK else 0
    seeds = range(first, first + (SOAK if SOAK > 1 else 50_000 if SOAK else 500))
    print(f"seeds {seeds.start} to {seeds.stop - 1}")
    found = [differential.report(seed, text, 50) for seed, text in differential.findings(seeds, 50)]
    assert not found, "\n".join(found[:10])


def test_calls_that_raise_in_the_default_mode():
    """enable() as it is, and exceptions out of Cython, C, and the Python code that these call."""
    seeds = range(SOAK if SOAK > 1 else 1000 if SOAK else 25)
    found = [differential.report(seed, text, "default") for seed, text in differential.findings(seeds, "default")]
    assert not found, "\n".join(found[:10])
