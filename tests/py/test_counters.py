"""dynoc.counters: what became of the calls of functions that work on arrays, under enable(), and going over the counters."""

import operator

import numpy as np
import pytest
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


@pytest.mark.parametrize("go_over", [iter, *map(operator.methodcaller, ("keys", "values", "items"))])
def test_counting_goes_on_while_a_loop_goes_over_the_counters(go_over):
    """The thread that compiles counts too, and so may the loop's own calls."""
    counters = type(dynoc.counters)()
    counters["graphs"]["captured"] = 1
    for _ in go_over(counters):
        counters["breaks"]["captured"] += 1
    for _ in go_over(counters["graphs"]):
        counters["graphs"]["compiled"] += 1
    assert dict(counters) == {"graphs": {"captured": 1, "compiled": 1}, "breaks": {"captured": 1}}
    assert list(zip(counters, counters.values(), strict=True)) == list(counters.items())
