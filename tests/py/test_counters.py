"""dynoc.counters["calls"]: what became of the calls of functions that work on arrays, under enable()."""

import numpy as np
from compare import dynoc


def test_calls_under_enable_are_counted():
    def whole(x):
        return x * 2 + 1

    def in_part(x):
        y = x * 2
        dynoc.graph_break()
        return y + 1

    def without_arrays(n):
        return n + 1

    def counted(fn, argument, n):
        before = dict(dynoc.counters["calls"])
        with dynoc.enabled(wait=True):
            for _ in range(n):
                fn(argument)
        return {key: count - before.get(key, 0) for key, count in dynoc.counters["calls"].items() if count != before.get(key, 0)}

    assert counted(whole, np.arange(3.0), 5) == {"eager": 1, "served": 4}
    assert counted(without_arrays, 3, 5) == {}
    assert counted(in_part, np.arange(3.0), 5) == {"eager": 1, "partly": 4}
