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

# Those of which some loop stays in CPython: for what its language lacks, or because graphs serve the function.
LEFT = """
    singles_of_complex days_before reductions_along_axes blocks_of_views logistic_steps arrays_in_a_dict
    kept_in_order enumerated_and_zipped functions_passed
    instance_methods tuples_unpacked
""".split()
NEAR = {"singles_of_complex"}  # a graph computes the product of scalars as NumPy does that of arrays


def shown(value):
    """An argument, with what is in instances."""
    if isinstance(value, list):
        return [shown(item) for item in value]
    own = isinstance(value, (numba_usecases_python.Bag, numba_usecases_python.Interval))
    return vars(value) if own else value


def called(function, make):
    """The outcome of a call, and what is in its arguments then."""
    args = copy.deepcopy(make())
    result, said, _ = outcome(lambda: function(*args), [])
    arrays = [shown(arg) for arg in args if not isinstance(arg, np.random.Generator)]
    return result, said, seen(arrays)


@pytest.mark.parametrize("name", PROGRAMS)
def test_usecase(name):
    function, make = PROGRAMS[name]
    wanted = called(function, make)
    fast = dynoc.optimize(twin(function), wait=True)
    before = dict(dynoc.counters["loops"])
    for _ in range(3):
        got = called(fast, make)
        assert got == wanted or name in NEAR
    loops = {key: count - before.get(key, 0) for key, count in dynoc.counters["loops"].items()}
    whole = loops.get("native", 0) > 0 and loops.get("refused", 0) == 0
    assert whole == (name not in LEFT), fast.loops
