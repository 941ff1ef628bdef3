"""What is read across the order in which it is written: tiles, squares and strips of every element size, joined rows or not, and
what only is copied, which goes there without a buffer."""

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter

SHAPES = [(15, 16), (16, 16), (17, 31), (33, 16), (64, 17), (65, 63), (66, 130), (16, 300), (300, 17), (128, 128), (70, 1030)]


def arrays(dtype, shape):
    n = int(np.prod(shape))
    values = np.arange(2 * n) % 251
    x = (values % 2 == 0 if dtype == "?" else values.astype(dtype)) + np.dtype(dtype).type(0)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * x[::-1].astype(x.dtype)
    x = x.astype(dtype)
    yield x[:n].reshape(shape)
    yield x.reshape(shape[0], -1)[:, ::2]
    yield x[:n].reshape(shape)[::-1, ::-1]
    yield x[:n].reshape(shape[::-1]).T


FUNCTIONS = {
    "copy": lambda x: x.T.copy(),
    "into": lambda x: np.ascontiguousarray(x[:, 1:].T),
    "stack": lambda x: np.stack([x, x], axis=2).transpose(1, 0, 2).copy(),
    "beside": lambda x: x.T[:, :16].copy(order="C") * x.reshape(-1)[: 16 * x.shape[1]].reshape(-1, 16),
    "row": lambda x: x.T.copy() + x[:, 0],
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", "?bhefdFD")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_transposes(name, dtype, threads):
    fn = FUNCTIONS[name]
    fast = dynoc.optimize(fn, wait=True, options={"cache_limit": 1000})
    dynoc.config.threads, before = threads, dynoc.config.threads
    try:
        for shape in SHAPES:
            if name == "beside" and shape[0] < 16:
                continue
            for x in arrays(dtype, shape):
                wanted, found = fn(x), fast(x)
                assert found.dtype == wanted.dtype and found.strides == wanted.strides
                assert np.array_equal(found, wanted), (shape, x.strides)
    finally:
        dynoc.config.threads = before


@pytest.mark.parametrize("dtype", "bhfd")
def test_turned_into_a_place(dtype):
    """Rows of what is written lie apart; what lies between them stays as it is."""

    def fn(x, y):
        y[:, 1:-1] = x.T
        return y

    fast = dynoc.optimize(fn, wait=True, options={"cache_limit": 1000})
    for shape in SHAPES:
        for x in arrays(dtype, shape):
            wanted, found = (np.full((shape[1], shape[0] + 2), 7, dtype) for _ in range(2))
            assert np.array_equal(fast(x, found), fn(x, wanted))


def test_turned_onto_itself():
    def fn(x):
        x[...] = x.T
        return x

    fast = dynoc.optimize(fn, wait=True)
    for n in (3, 16, 17, 100):
        x = np.arange(float(n * n)).reshape(n, n)
        assert np.array_equal(fast(x.copy()), x.T)
