"""Values that are computed twice, and what is written between."""

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter


def copies(x):
    best, cur = x.copy(), x.copy()
    cur[1] = 50
    return best.mean(), cur.mean()


def filled(x):
    a, b = x.copy(), x.copy()
    s = a.mean()
    b[:] = 0
    return s, b.mean(), a, b


def descent(x):
    best, cur = x * 1.0, x * 1.0
    e0 = np.sqrt((best**2).sum())
    cur -= 0.1 * cur
    return np.sqrt((cur**2).sum()) < e0


def deviations(x):
    a, b = x + 1, x + 1
    s = a.std()
    b *= 3
    return s, b.std()


def elements(x):
    a, b = x + 1, x + 1
    s = a * 2
    b += 10
    return s.sum(), (b * 2).sum(), a, b


def in_turns(x):
    a, b = x.copy(), x.copy()
    for _ in range(2):
        b[0] = a.mean()
        a[1] = b.mean()
    return a, b


def by_calls(x):
    a, b = x.copy(), x.copy()
    s = a.mean()
    b.sort()
    b[0] = 1000
    np.add.at(b, np.array([1, 2]), 5.0)
    return s, b.mean()


def shuffled(x):
    a, b = x.copy(), x.copy()
    weights = np.arange(x.size)
    s, t = (a * weights).sum() + 1, (x * weights).sum() + 1
    np.random.default_rng(0).shuffle(b)
    np.random.default_rng(1).shuffle(x)
    return s, t, (b * weights).sum() + 1, (x * weights).sum() + 1


def through_views(x):
    a, b = x.copy(), x.copy()
    head, tail = b[:2], b[2:]
    s = a[:2].sum() + 1
    head[:] = 7
    tail += 1
    return s, b[:2].sum() + 1, a[2:].sum() + 1, tail.sum() + 1


def inputs(x):
    s = (x * 2).sum() + 1
    y = x[::2]
    y *= 3
    return s, (x * 2).sum() + 1, x


def moments(x):
    m, v, found = np.zeros_like(x), np.zeros_like(x), []
    for _ in range(3):
        found.append((m + 1).mean())
        m += x
        found.append((v + 1).mean())
        v += x * x
        found.append((v + 1).mean() - (m + 1).mean())
    return found


def handed_out(x):
    return x + 1, x + 1, (x + 1).sum(), (x + 1).sum()


FUNCTIONS = (copies, filled, descent, deviations, elements, in_turns, by_calls, shuffled, through_views, inputs, moments)


def arrays(value):
    return [np.asarray(part) for part in value] if isinstance(value, (tuple, list)) else [np.asarray(value)]


@pytest.mark.parametrize("size", [4, 20, 5000])
@pytest.mark.parametrize("fn", [*FUNCTIONS, handed_out])
def test_as_eager_has_it(fn, size):
    x = np.arange(1.0, size + 1) % 97
    fast, right = dynoc.optimize(fn, wait=True), arrays(fn(x.copy()))
    for _ in range(3):
        for expected, got in zip(right, arrays(fast(x.copy()))):
            np.testing.assert_allclose(got, expected, rtol=1e-13)


def test_two_that_are_handed_out_are_two():
    fast = dynoc.optimize(handed_out, wait=True)
    for _ in range(3):
        a, b, _, _ = fast(np.ones(9))
        a += 1
        assert a is not b and b.tolist() == [2.0] * 9
