"""Back ends that get the graph: as a callable, by name, dynamic, failing."""

import logging

import numpy as np
import pytest
from test_graphs import CASES, matrix, same

import dynoc
from dynoc import _backends


class Keep:
    """A back end that runs the graph and keeps what it was given."""

    def __init__(self, dynamic=False):
        self.dynamic, self.graphs, self.examples, self.calls = dynamic, [], [], 0

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        self.examples.append(example_inputs)

        def run(*args):
            self.calls += 1
            return gm(*args)

        return run


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_gives_what_eager_gives(name, dynamic):
    keep = Keep(dynamic)
    fast = dynoc.optimize(CASES[name], backend=keep, fullgraph=True)
    for seed, (n, m) in enumerate([(3, 4), (3, 4), (5, 6), (5, 6), (3, 4)]):
        x = np.random.default_rng(seed).standard_normal((n, m))
        assert same(fast(x.copy()), CASES[name](x))
    assert keep.calls >= 2 and len(keep.graphs) >= 1 + (not dynamic)


def test_sizes_are_burnt_in_unless_asked_for():
    def fn(x, k):
        return x * k + x.shape[0]

    keep, dynamic = Keep(), Keep(dynamic=True)
    for n, k in ((3, 2.0), (4, 3.0), (5, 4.0)):
        for backend in (keep, dynamic):
            fast = dynoc.optimize(fn, backend=backend) if n == 3 else fast_of[backend]
            fast_of = {**(fast_of if n > 3 or backend is dynamic else {}), backend: fast}
            assert np.array_equal(fast(np.ones(n), k), fn(np.ones(n), k))
    assert len(keep.graphs) == 3 and [len(e) for e in keep.examples] == [1, 1, 1]
    assert len(dynamic.graphs) == 1 and len(dynamic.examples[0]) == 3
    assert fast_of[dynamic].entries[0].hits == 2


def test_example_inputs_are_the_arrays_of_the_call():
    keep, x = Keep(), matrix()
    dynoc.optimize(lambda a, b: a + b[0], backend=keep)(x, x[1:])
    assert sorted(e.base is x for e in keep.examples[0]) == [False, True] and any(e is x for e in keep.examples[0])


def test_inputs_that_are_returned_are_the_very_objects():
    fast, x = dynoc.optimize(lambda x: (x, x * 2), backend=Keep()), matrix()
    assert fast(x)[0] is x and fast(x)[0] is x


def test_what_is_written_is_written():
    def fn(x):
        x[0] = x[1] * 2
        return x.sum()

    fast = dynoc.optimize(fn, backend=Keep(), fullgraph=True)
    for _ in range(3):
        a, b = matrix(), matrix()
        assert fast(a) == fn(b) and np.array_equal(a, b)


def test_graph_breaks():
    keep = Keep()

    def fn(x):
        y = np.sin(x)
        dynoc.graph_break()
        return y * 2

    fast = dynoc.optimize(fn, backend=keep)
    for _ in range(3):
        assert np.array_equal(fast(matrix()), fn(matrix()))
    assert len(keep.graphs) == 2 and keep.calls == 4


def test_eager_raises_and_warns():
    fast = dynoc.optimize(lambda x: x[[9]] / 0.0, backend=Keep())
    with pytest.warns(RuntimeWarning, match="divide"):
        fast(np.ones(10))
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="divide"):
            assert fast(np.ones(10))[0] == np.inf


def raises(gm, example_inputs):
    raise ValueError("not today")


@pytest.mark.parametrize("backend", [raises, lambda gm, example_inputs: 3])
def test_one_that_fails(backend, caplog):
    fast = dynoc.optimize(lambda x: x + 1, backend=backend)
    with caplog.at_level(logging.WARNING):
        assert fast(np.zeros(2))[0] == fast(np.zeros(2))[0] == 1
    assert fast.entries[0].failure == "BACKEND_FAILED"
    fast = dynoc.optimize(lambda x: x + 2, backend=backend, options={"suppress_errors": False})
    with pytest.raises(dynoc.BackendError, match="failed"):
        fast(np.zeros(2))


@pytest.mark.parametrize("result", [3, (), (np.zeros(2), 3), ("a",)])
def test_one_whose_callable_gives_something_else(result):
    fast = dynoc.optimize(lambda x: x + 1, backend=lambda gm, inputs: lambda *args: result)
    for _ in range(3):
        assert fast(np.zeros(2)).tolist() == [1, 1]
    options = {"suppress_errors": False}
    fast = dynoc.optimize(lambda x: x + 1, backend=lambda gm, inputs: lambda *args: result, options=options)
    fast(np.zeros(2))
    with pytest.raises(TypeError, match="back end"):
        fast(np.zeros(2))


def test_by_name(monkeypatch):
    monkeypatch.setattr(_backends, "registered", {})
    keep = Keep()
    with pytest.raises(dynoc.ConfigError, match="there is no back end 'mine'"):
        dynoc.optimize(lambda x: x, backend="mine")
    dynoc.register_backend("mine", keep)
    assert "mine" in dynoc.list_backends() and dynoc.list_backends(all=True)["mine"] is None
    dynoc.optimize(np_sum, backend="mine")(np.ones(3))
    assert len(keep.graphs) == 1
    for name, fn in (("dynoc", keep), (3, keep), ("other", 3)):
        with pytest.raises(dynoc.ConfigError):
            dynoc.register_backend(name, fn)


def np_sum(x):
    return np.sum(x) + 1


class Point:
    name = "theirs"

    def load(self):
        return Keep()


def test_of_another_package(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Point()] if group == "dynoc.backends" else [])
    assert "theirs" in dynoc.list_backends()
    assert dynoc.optimize(np_sum, backend="theirs")(np.ones(3)) == 4


def test_random_numbers_are_drawn_once():
    def fn(generator, x):
        return x + generator.standard_normal(3)

    fast = dynoc.optimize(fn, backend=Keep())
    mine, theirs = np.random.default_rng(0), np.random.default_rng(0)
    for _ in range(3):
        assert np.array_equal(fast(mine, np.zeros(3)), fn(theirs, np.zeros(3)))
