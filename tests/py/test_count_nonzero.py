"""Truth that is counted: lanes of bytes hold the sums of up to 255 groups, so lengths around that, and all true."""

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter

LENGTHS = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000, 8159, 8160, 8161, 8192, 16321, 30000]
FUNCTIONS = {
    "positive": lambda x: (x > 0).sum(),
    "count_nonzero": np.count_nonzero,
    "both": lambda x: ((x > 0).sum(), (x > 1).sum(), (x != 0).max() if len(x) else 0, x.sum()),
    "narrow": lambda x: (x > 0).sum(dtype=np.int8),
    "product": lambda x: ((x > 0).sum(), (x > 0).prod()),
    "rows": lambda x: (np.stack([x, x[::-1]]) > 0).sum(axis=1),
    "columns": lambda x: (np.stack([x, x[::-1]], axis=1) > 0).sum(axis=0),
    "mean": lambda x: (x > 0).mean() if len(x) else 0,
}


def check(fast, fn, x):
    wanted, found = fn(x), fast(x)
    for one, other in zip(np.atleast_1d(np.array(wanted)), np.atleast_1d(np.array(found)), strict=True):
        assert one == other and type(one) is type(other)
    assert type(wanted) is type(found)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", "?bBhefdq")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_count_nonzero(name, dtype, threads):
    fn, rng = FUNCTIONS[name], np.random.default_rng(5)
    fast = dynoc.optimize(fn, wait=True, options={"cache_limit": 1000})
    dynoc.config.threads, before = threads, dynoc.config.threads
    try:
        for n in LENGTHS:
            x = rng.integers(0, 3, 2 * n).astype(dtype)
            check(fast, fn, x[:n])
            check(fast, fn, x[n:][::-1])
            check(fast, fn, x[::2])
            check(fast, fn, np.ones(n, dtype))
    finally:
        dynoc.config.threads = before


def test_true_is_any_byte_but_0():
    x = np.random.default_rng(5).integers(0, 256, 20_000, dtype=np.uint8).view(bool)
    fast = dynoc.optimize(lambda x: (x.sum(), np.count_nonzero(x)), wait=True)
    fast(x[:3])
    assert fast(x) == ((x.view(np.uint8) != 0).sum(),) * 2
