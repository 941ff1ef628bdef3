"""Lines of an array that are stored into other lines of it: NumPy stores each element before it reads the next, where they lie in
other steps, whether or not they overlap."""

import numpy as np
import pytest
from compare import dynoc


def lines_of_one_array(c):
    c[:, 1] = c[3, :]
    c[:, 2] = c[0, :]
    c[:, 3] = c[1, :]
    c[0, :] = c[:, 2]
    return c.sum()


def steps_of_one_array(c):
    x = c.reshape(-1)
    x[::2] = x[:8]
    x[3:11] = x[::2]
    x[:8] = x[::-2]
    x[1:] = x[:-1]
    return x[::3] + 1


@pytest.mark.parametrize("f", [lines_of_one_array, steps_of_one_array])
def test_lines_that_overlap_are_stored_in_numpys_order(f):
    fast = dynoc.optimize(f, wait=True)
    for seed in range(5):
        mine, theirs = (np.random.default_rng(seed).integers(0, 9, (4, 4)).astype(float) for _ in range(2))
        np.testing.assert_array_equal(fast(mine), f(theirs))
        np.testing.assert_array_equal(mine, theirs)
    assert len(fast.entries) == 1 and fast.entries[0].hits == 4


def lines_in_a_loop(c, n):
    for i in range(n):
        c[:, (i + 1) % 4] = c[(i - 1) % 4, :]
        c[1, :] = c[:, i % 4]
        c[i % 4] += 1
    return c[0] * 2


def test_lines_that_overlap_in_a_native_loop():
    fast = dynoc.optimize(lines_in_a_loop, wait=True)
    for seed in range(5):
        mine, theirs = (np.random.default_rng(seed).integers(0, 9, (4, 4)).astype(float) for _ in range(2))
        np.testing.assert_array_equal(fast(mine, 40), lines_in_a_loop(theirs, 40))
        np.testing.assert_array_equal(mine, theirs)
