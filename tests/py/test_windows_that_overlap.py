"""Arrays and tensors that come in and whose elements share memory with one another: who writes into them is left to NumPy and
PyTorch, also where the function was recorded with others before."""

import numpy as np
import pytest
from compare import dynoc
from numpy.lib.stride_tricks import as_strided


def lowest(x):
    x[:] = np.minimum(x, x[0] + 5) + 1


def doubled(x):
    x *= 2
    x += 1


def tripled(x):
    x *= 3


def turned(x):
    x += x[::-1]


def out(x):
    np.add(x, 1, out=x)


def through_a_view(x):
    y = x.T
    y[1:] *= 3


def running(x):
    np.cumsum(x, axis=0, out=x)


def by_rows(x):
    total = 0.0
    for i in range(len(x)):
        x[i] = x[i] * 2
        total += x[i].sum()
    return total


WRITERS = [lowest, doubled, tripled, turned, out, through_a_view, running, by_rows]
LAYOUTS = {  # rank 2; steps in elements
    "rows": (5, 1),
    "columns": (1, 4),
    "apart": (6, 1),
    "windows": (1, 1),
    "windows of pairs": (2, 1),
    "two by two": (1, 2),
    "backwards": (-1, -1),
    "one row": (0, 1),
    "one column": (1, 0),
}


def of(name, n=24):
    memory = np.arange(float(n))
    steps = LAYOUTS[name]
    start = memory[::-1] if steps[0] < 0 else memory
    return memory, as_strided(start, (4, 5), [8 * step for step in steps])


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("fn", WRITERS, ids=lambda fn: fn.__name__)
def test_what_is_written_twice(fn, name):
    fast = dynoc.optimize(fn, wait=True)
    for layout in ("apart", name, name, "apart", name):
        (expected, x), (got, y) = of(layout), of(layout)
        assert fn(x) == fast(y), layout
        assert np.array_equal(expected, got), layout


def test_windows_are_read_by_graphs():
    fast = dynoc.optimize(lambda x: x * 2 + 1, wait=True, fullgraph=True)
    for name in ("apart", "windows", "apart", "windows"):
        _, x = of(name)
        assert np.array_equal(fast(x), x * 2 + 1)
    assert [entry.hits > 0 for entry in fast.entries] == [True, True]


def test_tensors():
    torch = pytest.importorskip("torch")

    def fn(x):
        x += 1
        return x * 2

    def outcome(f, steps):
        memory = torch.arange(24.0)
        try:
            return repr(f(memory.as_strided((3, 4), steps))), repr(memory)
        except RuntimeError as error:
            return str(error)

    fast = dynoc.optimize(fn, wait=True)
    for steps in [(4, 1), (8, 2), (8, 2), (2, 1), (1, 1), (1, 3), (0, 1), (8, 2), (2, 1)]:
        assert outcome(fast, steps) == outcome(fn, steps), steps
