"""What NumPy's own tests and the samples found, as small as it gets. Each row is known to be wrong: a strict xfail, so the mark
goes when the fault does, and the row stays.

The ones that are about warnings compare messages, files and lines.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from compare import check, dynoc
from outcomes import calls

wrong = pytest.mark.xfail(strict=True)


def resize_after_break(x):
    a = x * 2
    text = np.array2string(x)
    a.resize(10)
    return text, a


def floor_divide_in_place(x, y):
    before = x * 2.0
    x //= y
    return before


def divide_in_place(x, y):
    before = x * 2.0
    x /= y
    return before


def python_warning_and_flag(x, y):
    c = np.polyfit(x, y, 2)
    return np.sqrt(-1.0 - x), c


def extern_and_flag(a, b):
    c = a @ b
    return np.sqrt(-1.0 - b), c


def extern_with_stacklevel(x, y):
    return np.polyfit(x, y, 2)


def integer_scalars(x, y):
    return x[0] * y[1]


def test_resize_is_allowed_after_a_break():
    calls(resize_after_break, np.arange(5.0))


def test_floor_divide_of_nan_does_not_warn():
    calls(floor_divide_in_place, np.array([np.nan, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]))


def test_warnings_of_a_graph_that_writes_into_a_large_argument():
    calls(divide_in_place, np.ones(100_000), np.zeros(100_000))


@wrong
def test_warning_that_python_code_of_numpy_gives_comes_once():
    calls(python_warning_and_flag, np.ones(1), np.ones(1))


def test_warning_of_an_extern_comes_once_and_names_its_line():
    infinite = np.ones((4, 4))
    infinite[0] = np.inf
    calls(extern_and_flag, infinite, np.eye(4))


def test_warning_with_stacklevel_names_the_line_of_the_call():
    calls(extern_with_stacklevel, np.ones(1), np.ones(1))


def test_integer_scalars_warn_of_overflow():
    calls(integer_scalars, np.full(3, 99, dtype=np.uint8), np.full(3, 9, dtype=np.uint8))


def test_reduction_of_a_numpy_scalar_compiles():
    def reduce_scalar(x):
        n = np.isnan(x)
        return n, n.any()

    before = dynoc.counters.get("build", {}).get("COMPILER_FAILED", 0)
    calls(reduce_scalar, np.float64(3.0))
    assert dynoc.counters.get("build", {}).get("COMPILER_FAILED", 0) == before


def test_generator_methods_do_not_refuse_the_function():
    def draw(rng, x):
        p = rng.integers(0, 5, 3)
        return p, x + x

    fast = dynoc.optimize(draw, wait=True)
    fast(np.random.default_rng(1), np.arange(4.0))
    assert fast.entries


@pytest.mark.parametrize("name", ["hstack", "vstack"])
def test_joining_arrays_of_rank_0_does_not_crash(name):
    program = f"import numpy as np, dynoc; print(dynoc.optimize(lambda a, b: np.{name}([a, b]))(np.array(1), np.array(2)).sum())"
    environment = {"PYTHONPATH": str(Path(dynoc.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "3\n")


def test_a_random_call_that_gives_an_empty_array():
    def drawn(rng, x):
        return rng.permutation(x)

    fast = dynoc.optimize(drawn, wait=True)
    for n in (5, 5, 0):
        check(drawn, fast, lambda: (np.random.default_rng(1), np.arange(float(n))))
