"""mode="reduce-overhead" on CUDA devices: calls of a graph are recorded and replayed. The device is a stand-in (test_cuda.py),
and so is torch.cuda.CUDAGraph: of calls that are no kernels of dynoc a graph has what the test says, on the host."""

import ctypes
import gc
import warnings
import weakref

import pytest

torch = pytest.importorskip("torch")

import dynoc  # noqa: E402
from dynoc import _dynoc  # noqa: E402
from test_cuda import device, layer_norm, library, pytestmark, randn, softmax  # noqa: E402, F401

HOST = ctypes.CFUNCTYPE(None)


class Graph:
    """torch.cuda.CUDAGraph over the stand-in."""

    library = None
    alive = weakref.WeakSet()

    def __init__(self, keep_graph=False):
        assert keep_graph
        self.alive.add(self)

    def capture_begin(self, pool=None, capture_error_mode="global"):
        assert capture_error_mode == "thread_local" and not gc.isenabled()
        self.library.stand_in_capture(1)

    def capture_end(self):
        self.graph = self.library.stand_in_capture(0)

    def instantiate(self):
        pass

    def raw_cuda_graph_exec(self):
        return self.graph


@pytest.fixture
def graphs(device, monkeypatch):  # noqa: F811
    device.stand_in_capture.restype = ctypes.c_void_p
    Graph.library = device
    streams = ["the usual one"]
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: "another one")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: streams[-1])
    monkeypatch.setattr(torch.cuda, "set_stream", streams.append)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_device", lambda i: None)
    dynoc.counters.clear()
    _dynoc._replays_always(True)
    yield device
    _dynoc._replays_always(False)
    assert streams[-1] == "the usual one" and gc.isenabled()


def replayed(library):  # noqa: F811
    return library.stand_in_count(b"cuGraphLaunch")


def optimise(f):
    return dynoc.optimize(f, mode="reduce-overhead", wait=True)


def chain(x, y):
    z = torch.sin(x) * y
    return z, (z * 2 + x).sum(-1)


def test_values_where_inputs_move(graphs):
    fast, before = optimise(chain), replayed(graphs)
    kept = []
    for i in range(8):
        args = randn(40, 30, seed=i), randn(40, 30, seed=50 + i)
        kept.append((fast(*args), chain(*args), args))
    for got, want, _ in kept:  # what a call gave is still that
        torch.testing.assert_close(got, want)
    assert replayed(graphs) - before >= 5 and dynoc.counters["cuda_graphs"]["recorded"] == 1


@pytest.mark.parametrize("rows", [softmax, lambda x: layer_norm(x, x[0], x[1])])
def test_groups(graphs, rows):
    fast, before = optimise(rows), replayed(graphs)
    for i in range(5):
        x = randn(6, 70, seed=i)
        torch.testing.assert_close(fast(x), rows(x))
    assert replayed(graphs) - before >= 3


def test_views_and_inputs_among_results(graphs):
    def f(x):
        y = torch.cos(x) + 1
        return x, y.t(), y[1:], x.reshape(-1)

    fast = optimise(f)
    for i in range(5):
        x = randn(5, 4, seed=i)
        got = fast(x)
        torch.testing.assert_close(got, f(x))
        assert got[0] is x and got[1]._base is got[2]._base is not None and got[3].data_ptr() == x.data_ptr()


def test_copies_that_are_reshaped(graphs):
    """The copy is a place of no node: recordings ask nodes what they are handed."""

    def f(x, y):
        return torch.sin(x).t().reshape(-1) * 2 + y

    fast = optimise(f)
    for seed in range(6):
        x, y = randn(8, 12, seed=seed), randn(96, seed=seed + 9)
        torch.testing.assert_close(fast(x, y), f(x, y))
    assert replayed(graphs) > 0


def test_sizes_and_numbers(graphs):
    fast = dynoc.optimize(lambda x, k: torch.exp(x) * k, mode="reduce-overhead", dynamic=True, wait=True)
    for turn in range(3):
        for n in (10, 20, 30):
            for k in (2.0, 3.5):
                x = randn(n, seed=turn)
                torch.testing.assert_close(fast(x, k), torch.exp(x) * k)
    assert dynoc.counters["cuda_graphs"]["recorded"] <= 6 * len(fast.entries)


def test_sizes_without_end(graphs):
    fast = dynoc.optimize(lambda x: torch.exp(x) * 3, mode="reduce-overhead", dynamic=True, wait=True)
    for n in range(3, 60):
        x = randn(n)
        torch.testing.assert_close(fast(x), torch.exp(x) * 3)
        gc.collect()
        assert len(Graph.alive) <= 8 * len(fast.entries)
    assert dynoc.counters["cuda_graphs"]["refused"] >= 1


@pytest.fixture
def host_calls(graphs):
    """torch.logcumsumexp is a node of the graph that is captured, on the host."""
    nodes = []

    def again(x, dim):
        result = x.exp().cumsum(dim).log()
        nodes.append(HOST(lambda: result.copy_(x.exp().cumsum(dim).log()) is None))
        graphs.stand_in_host(nodes[-1])
        return result

    override = torch.library.Library("aten", "IMPL", "CPU")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        override.impl("_logcumsumexp", again)
    yield nodes
    override._destroy()


def test_calls_read_copies_and_their_results_are_copied(graphs, host_calls):
    def f(x, w):
        y = torch.logcumsumexp(x, 0) + 1
        return y * w, torch.logcumsumexp(torch.sin(w), 0), torch.logcumsumexp(x, 1).t()

    fast, before = optimise(f), replayed(graphs)
    w, kept = randn(9, 7, seed=3), []
    for i in range(8):
        x = randn(9, 7, seed=i)
        kept.append((fast(x, w), f(x, w), x))
    for got, want, _ in kept:
        torch.testing.assert_close(got, want)
        assert got[2].stride() == want[2].stride()
    assert replayed(graphs) - before >= 5 and len(fast.entries) == 1 and host_calls


def test_what_is_written_is_launched(graphs):
    def f(x):
        x += torch.sin(x)
        return x * 2

    fast, before = optimise(f), replayed(graphs)
    for i in range(4):
        x, y = randn(20, seed=i), randn(20, seed=i)
        torch.testing.assert_close(fast(x), f(y))
        torch.testing.assert_close(x, y)
    assert replayed(graphs) == before and dynoc.counters["cuda_graphs"]["refused"] == 1


def test_a_stream_that_the_program_captures(graphs):
    fast = optimise(lambda x: torch.sin(x) + 4)
    x = randn(10)
    for _ in range(4):
        fast(x)
    before = replayed(graphs)
    graphs.stand_in_capture(1)
    fast(x)
    graphs.stand_in_capture(0)
    assert replayed(graphs) == before
    torch.testing.assert_close(fast(x), torch.sin(x) + 4)
    assert replayed(graphs) == before + 1


@pytest.mark.parametrize("function", [b"cuStreamGetCaptureInfo_v2", b"cuStreamIsCapturing"])
def test_without_a_recording_calls_are_launched(graphs, function):
    graphs.stand_in_fail(function, 900, 0)
    fast, before = optimise(chain), replayed(graphs)
    for i in range(4):
        args = randn(40, 30, seed=i), randn(40, 30, seed=50 + i)
        torch.testing.assert_close(fast(*args), chain(*args))
    assert replayed(graphs) == before


def test_errors_of_a_replay(graphs):
    fast = optimise(lambda x: torch.sin(x) + 5)
    x = randn(10)
    for _ in range(4):
        fast(x)
    graphs.stand_in_fail(b"cuGraphLaunch", 719, 0)
    with pytest.raises(RuntimeError, match=r"CUDA error: CUDA_ERROR_LAUNCH_FAILED.*replaying"):
        fast(x)


def test_recordings_go_with_their_function(graphs):
    fast = optimise(lambda x: torch.sin(x) + 6)
    for i in range(4):
        fast(randn(10, seed=i))
    before = len(Graph.alive)
    del fast
    dynoc.reset()
    gc.collect()
    assert len(Graph.alive) < before


def test_training(graphs):
    def f(x, w):
        y = torch.tanh(x * w) + torch.sin(w)
        return (y * y).sum()

    fast, before = optimise(f), replayed(graphs)
    for i in range(6):
        mine, theirs = ([randn(9, 7, seed=i).requires_grad_(), randn(7, seed=9).requires_grad_()] for _ in range(2))
        for g, args in ((fast, mine), (f, theirs)):
            g(*args).backward()
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a.grad, b.grad)
    assert replayed(graphs) - before >= 6  # forward and backward


def test_what_does_not_pay_is_launched(graphs):
    _dynoc._replays_always(False)

    def sums(x):
        for i in range(6):
            x = torch.sin(x) + x.sum() * i
        return x

    small, long, before = optimise(lambda x: torch.sin(x) + 7), optimise(sums), replayed(graphs)
    x = randn(10)
    for _ in range(4):
        torch.testing.assert_close(small(x), torch.sin(x) + 7)
    assert replayed(graphs) == before and dynoc.counters["cuda_graphs"]["refused"] == 1
    for _ in range(4):
        torch.testing.assert_close(long(x), sums(x))
    assert replayed(graphs) >= before + 2
