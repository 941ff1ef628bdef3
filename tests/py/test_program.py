"""dynoc.enable() over programs without arrays, every function offered to the recorder: what CPython's own suite found."""

import sys
import weakref

import dynoc
import numpy as np
import pytest
from process import output_of


@pytest.fixture
def everything(monkeypatch):
    monkeypatch.setattr(dynoc.config, "record_all", True)
    with dynoc.enabled():
        yield
    dynoc.reset()


def is_same(a, b):
    return a is b


def test_equal_strings_are_one_object_only_where_they_are(everything):
    text = "abc def"
    other = "".join(["abc ", "def"])
    assert [is_same(text, text), is_same(text, other), is_same(other, other)] == [True, False, True]
    assert [is_same(text, text), is_same(text, other), is_same(other, other)] == [True, False, True]


def largest(x):
    return max(x), min(x)


def test_extremes_of_what_is_no_sequence(everything):
    for _ in range(2):
        assert largest({3: "a", 5: "b"}) == (5, 3)
        assert largest({4, 2}) == (4, 2)


def test_spread_arguments_are_the_very_tuple(everything):
    testcapi = pytest.importorskip("_testcapi")
    args = (0, 1, 2)

    def spread(f, args):
        return f(*args)

    for _ in range(3):
        assert spread(testcapi.MethodDescriptorNopGet(), args) is args


class Thing:
    pass


def test_an_object_dies_where_it_is_dropped(everything):
    def drop():
        things = [Thing()]
        gone = weakref.ref(things[0])
        for _ in range(2):  # recording is over in here
            things.append([])
            things[0] = None
        return gone() is None

    assert [drop() for _ in range(3)] == [True] * 3


DEEP = """
import sys, dynoc
def down(n):
    return 0 if n == 0 else 1 + down(n - 1)
dynoc.config.record_all = True
sys.setrecursionlimit(60_000)
with dynoc.enabled():
    print(down(50_000))
    try:
        down(70_000)
    except RecursionError as error:
        print(str(error)[:32])
"""


def test_deep_recursion_needs_no_c_stack():
    assert output_of(DEEP).split("\n") == ["50000", "maximum recursion depth exceeded"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring")
def test_monitoring_tools_see_python_calls_as_such(everything):
    monitoring = sys.monitoring
    events = monitoring.events
    seen = []

    def inner():
        pass

    def watched():
        inner()

    def run():
        monitoring.use_tool_id(3, "test")
        monitoring.register_callback(3, events.C_RETURN, lambda code, at, f, arg: seen.append(f))
        try:
            go_on()
        finally:
            monitoring.free_tool_id(3)

    def go_on():
        monitoring.set_events(3, events.CALL)
        try:
            watched()
        finally:
            monitoring.set_events(3, 0)

    run()
    run()
    assert inner not in seen and watched not in seen


def branch_before_a_write(x, n):
    if x.sum() < n:
        return "small"
    x += 1
    return x


def test_a_branch_that_goes_the_other_way_in_the_eager_back_end():
    fast = dynoc.optimize(branch_before_a_write, backend="eager")
    for size, n in ((3, 2), (3, 2), (4, 20), (8, 1)):
        x, y = np.arange(float(size)), np.arange(float(size))
        assert str(fast(x, n)) == str(branch_before_a_write(y, n))
        assert np.array_equal(x, y)


def as_many_as_drawn(rng):
    return [int(k) for k in rng.integers(-3, 8, int(rng.integers(0, 5)))]


@pytest.mark.parametrize("backend", ["eager", "dynoc"])
def test_a_loop_over_an_array_whose_size_only_a_call_can_tell(backend):
    fast = dynoc.optimize(as_many_as_drawn, backend=backend, wait=True)
    ours, theirs = np.random.default_rng(7), np.random.default_rng(7)
    assert [fast(ours) for _ in range(12)] == [as_many_as_drawn(theirs) for _ in range(12)]
    first = dynoc.optimize(as_many_as_drawn, backend=backend, wait=True)  # the first array is empty
    seed = next(s for s in range(100) if as_many_as_drawn(np.random.default_rng(s)) == [])
    ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
    assert [first(ours) for _ in range(12)] == [as_many_as_drawn(theirs) for _ in range(12)]
