"""Programs of the kinds that Numba's tests and documentation show (bench/numba_usecases.py, bench/numba_usecases_python.py), run
unmodified: what they give, raise, warn and write is plain Python's, and those whose loops can be native are."""

import copy
import sys
from pathlib import Path

import numpy as np
import pytest
from regions import outcome, seen
from test_loops_null import twin

import dynoc

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import numba_usecases  # noqa: E402
import numba_usecases_python  # noqa: E402

PROGRAMS = {function.__name__: (function, make) for function, make in numba_usecases.PROGRAMS + numba_usecases_python.PROGRAMS}

# Those of which some loop stays in CPython, or takes so little time that native code isn't kept; each time for another reason.
LEFT = """
""".split()


def called(function, make):
    """The outcome of a call, and what is in its arguments then."""
    args = copy.deepcopy(make())
    shown = [vars(arg) if hasattr(arg, "__dict__") and not isinstance(arg, np.ndarray) else arg for arg in args]
    return outcome(lambda: function(*args), [arg for arg in shown if not isinstance(arg, np.random.Generator)])


@pytest.mark.parametrize("name", PROGRAMS)
def test_usecase(name):
    function, make = PROGRAMS[name]
    wanted = called(function, make)
    fast = dynoc.optimize(twin(function), wait=True)
    for _ in range(3):
        assert called(fast, make) == wanted
