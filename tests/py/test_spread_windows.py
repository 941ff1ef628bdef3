"""One column of a transposed array, spread over what it is computed with, in a value that is read through a view itself."""

import pytest
from compare import dynoc, np


def transposed_twice(y, g):
    v = y.T
    r = (g * v[:, 1:2]).T
    return r + r


def with_a_part_that_is_written(y, g):
    v = y.T
    b = np.zeros((4, 3))
    b[:, 1:2] = (g * v).sum(1, keepdims=True)
    r = (g * v[:, 2:3] + b).T
    return r * 2 + r


@pytest.mark.parametrize("function", [transposed_twice, with_a_part_that_is_written])
def test_the_column_is_the_one_that_was_asked_for(function):
    fast = dynoc.optimize(function, wait=True)
    rng = np.random.default_rng(0)
    y, g = rng.standard_normal((3, 4)), rng.standard_normal((4, 3))
    for _ in range(3):
        assert np.allclose(fast(y, g), function(y, g))
    assert [e.hits for e in fast.entries] == [2]
