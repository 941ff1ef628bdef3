"""Lists that grow from call to call and are read at their end: one recording serves every length."""

import copy

import numpy as np
import pytest
from compare import compare_values, dynoc
from test_loops_null import twin

X = np.linspace(0.5, 1.5, 7)


def arrays(n):
    return [X * i for i in range(1, n + 1)]


def one_step(seen, x):
    seen.append(seen[-1] * 0.5 + x)
    return seen[-1].sum()


def two_steps(seen, x):
    seen.append(seen[-1] + seen[-2] * x)
    seen.append(seen[-1] - seen[-3])
    return seen[-2], seen[-4]


def numbers(seen, x):
    seen.append(seen[-1] * 0.5 + 1.0)
    return x * seen[-1]


def in_place(seen, x):
    seen[-1] += x
    seen.append(x * 1.0)
    return seen[-2] * 2.0


def read_alone(seen, x):
    seen[-1].fill(3.0)
    last = seen[-1] * x
    seen.append(x)
    return last - seen[-2]


class Model:
    def __init__(self):
        self.states = arrays(2)

    def step(self, x):
        self.states.append(np.sqrt(self.states[-1] * self.states[-1] + x))
        return self.states[-1] - self.states[-2]


def both_ways(fn, lists, calls):
    """fn with and without dynoc, call by call, on lists of their own: how many recordings that took."""
    dynoc.counters.clear()
    fast = dynoc.optimize(twin(fn), wait=True, exact=True)
    plain_list, fast_list = lists(), lists()
    for call in calls:
        outcomes = []
        for f, items in ((fn, plain_list), (fast, fast_list)):
            try:
                outcomes.append(f(items, *call(items)))
            except (IndexError, TypeError, ValueError) as error:
                outcomes.append(repr(error))
        report = []
        compare_values([outcomes[0], plain_list], [outcomes[1], fast_list], "bits", "", report.append)
        assert report == []
    return dynoc.counters.get("graphs", {}).get("captured", 0)


@pytest.mark.parametrize(
    "fn, lists",
    [(one_step, lambda: arrays(1)), (two_steps, lambda: arrays(3)), (numbers, lambda: [2.0]), (read_alone, lambda: arrays(1))],
)
def test_one_recording_for_every_length(fn, lists):
    assert both_ways(fn, lists, [lambda items: (X * 2.0,)] * 20) == 1


def test_lists_of_instances():
    dynoc.counters.clear()
    plain, model = Model(), Model()
    step = dynoc.optimize(twin(Model.step), wait=True, exact=True)
    for _ in range(20):
        assert step(model, X).tobytes() == plain.step(X).tobytes()
    assert dynoc.counters["graphs"]["captured"] == 1 and len(model.states) == 22


def test_a_list_that_is_too_short():
    both_ways(two_steps, lambda: [X * 1.0], [lambda items: (X,)] * 6)
    both_ways(numbers, list, [lambda items: (X,)] * 6)
    shrinks = [lambda items: (X,), lambda items: (items.clear() or X,)]
    both_ways(one_step, lambda: arrays(4), shrinks * 4)


def test_an_end_of_another_type():
    kinds = [2.0, 3, X, True, None, np.float32(2.0), "text"]
    both_ways(numbers, lambda: [1.0], [lambda items, kind=kind: (items.append(copy.copy(kind)) or X,) for kind in kinds * 2])


def test_an_end_that_is_an_argument_too():
    """What is written into is the other argument, too, in every other call."""
    one, other = (lambda items: (items[-1],)), (lambda items: (X * 3.0,))
    both_ways(in_place, lambda: arrays(2), [other, one, other, other, one, one, other])


def two_lists(seen, other, x):
    seen.append(x)
    other.append(x * 2.0)
    return seen[-1] - other[-2]


def test_two_lists_that_are_one_at_times():
    apart, one = [X, X + 1.0, X + 2.0], (lambda items: (items, X))
    both_ways(two_lists, lambda: arrays(3), [lambda items: (list(apart), X), one, lambda items: (list(apart), X), one, one])


def looked_at_behind(seen, x):
    last = seen[-1]
    last += x
    return seen[0] + 1.0, len(seen), seen[len(seen) - 1] is last, [item.sum() for item in seen]


def test_what_was_read_at_the_end_is_found_again_when_all_is_read():
    both_ways(looked_at_behind, lambda: arrays(1), [lambda items: (X,)] * 3)
    both_ways(looked_at_behind, lambda: [X * 1.0] * 3, [lambda items: (X,)] * 3)
    both_ways(looked_at_behind, lambda: arrays(3), [lambda items: (X,), lambda items: (items.append(items[0]) or X,)] * 3)
