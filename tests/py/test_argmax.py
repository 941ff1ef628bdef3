"""argmax and argmin: the first of the best, nan before all, in lines of every length and stride, whatever the bytes of truth."""

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter

SHAPES = [(1, 1, 1), (2, 3, 5), (3, 17, 33), (4, 5, 1030), (1, 1, 2500), (2, 16, 64), (7, 1, 15)]
SHAPES += [(3, 2, 63), (2, 2, 65), (1, 3, 513), (1, 2, 9000)]


def arrays(dtype, shape, rng):
    """Few values, many values, and what is odd of the dtype."""
    few, many = rng.integers(-3, 4, shape), rng.integers(-120, 120, shape)
    if np.dtype(dtype).kind == "u":
        few, many = abs(few), abs(many)
    yield few.astype(dtype)
    yield many.astype(dtype)
    if dtype == "?":  # true is any byte but 0
        yield (few.astype(bool).view(np.uint8) * rng.integers(1, 255, shape, dtype=np.uint8)).view(bool)
    if np.dtype(dtype).kind == "f":
        odd = (rng.standard_normal(shape) * 50).astype(dtype)
        for value in (-0.0, np.inf, np.nan):
            odd = odd.copy()
            odd.ravel()[rng.integers(0, odd.size, odd.size // 3 + 1)] = value
            yield odd
        yield np.full(shape, -0.0, dtype)
        yield np.full(shape, -np.inf, dtype)


@pytest.mark.parametrize("dtype", "?bBhHiIlLefd")
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_argmax(name, axis, dtype):
    fn = {"argmax": lambda x: x.argmax(axis=axis), "argmin": lambda x: np.argmin(x, axis=axis)}[name]
    fast, rng = dynoc.optimize(fn, wait=True, options={"cache_limit": 1000}), np.random.default_rng(3)
    with np.errstate(all="raise"):
        for shape in SHAPES:
            for x in arrays(dtype, shape, rng):
                for y in (x, x[:, ::-1], x.transpose(2, 0, 1), x[..., ::2]):
                    wanted = fn(y)
                    for _ in range(2):
                        found = fast(y)
                        assert type(found) is type(wanted) and np.array_equal(found, wanted)
    assert {entry.tier for entry in fast.entries} == {"native"}


@pytest.mark.parametrize("dtype", "fd")
def test_one_nan(dtype):
    """At every place of lines around a group, what is looked at side by side, and a stretch; with infinities at the ends."""
    fast = dynoc.optimize(lambda x: (x.argmax(axis=1), x.argmin(axis=1)), wait=True)
    for n in (17, 31, 64, 65, 100, 513):
        x = np.tile(np.linspace(-1, 1, n).astype(dtype), (n, 1))
        x[:, 0], x[:, n - 1] = -np.inf, np.inf
        assert all((found == wanted).all() for found, wanted in zip(fast(x), (x.argmax(1), x.argmin(1)), strict=True))
        np.fill_diagonal(x, np.nan)
        assert all((found == np.arange(n)).all() for found in fast(x))
