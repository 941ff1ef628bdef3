"""np.errstate(under=...): underflow is ignored unless asked for, and then eager's own warning, exception and line are given."""

import numpy as np
import pytest
from compare import check, dynoc
from logs import counted

pytestmark = pytest.mark.any_interpreter


def scale(x):
    y = x * 0.5
    return y * 1e-300


def decay(x):
    return np.exp(-x) + 1.0


def square(x):
    return np.square(x).sum()


def shrink(x):
    x *= 1e-200
    x *= 1e-200
    return x


def quotient(x):
    return 1e-300 / (x * 1e200)


def power(x):
    return np.power(1e-200, x)


def narrowed(x):
    return (x * 1e-60).astype(np.float32)


FUNCTIONS = (scale, decay, square, shrink, quotient, power, narrowed)
POINTS = ([1.0, 2.0, 3.0], [1e-10, 1.0, 800.0], [1e-200, 2.0, 1e-170], [0.0, -0.0, 0.0], [1e-300, 1e300, np.inf])
MODES = ({}, {"under": "warn"}, {"under": "raise"}, {"all": "ignore"}, {"all": "warn"}, {"all": "raise"})


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_underflow_is_what_eager_says(fn):
    fast = dynoc.optimize(fn, wait=True)
    check(fn, fast, lambda: (np.ones(3),), "near")
    for mode in MODES:
        with np.errstate(**mode):
            for point in POINTS:
                check(fn, fast, lambda p=point: (np.array(p),), "near", what=f"{mode} {point}")


def test_ignored_underflow_costs_no_second_call():
    fast = dynoc.optimize(decay, wait=True, fullgraph=True)
    fast(np.ones(3))
    before = counted("FLAGS")
    for _ in range(3):
        assert fast(np.array([1.0, 800.0])).tolist() == [decay(1.0), 1.0]
    assert counted("FLAGS") == before
