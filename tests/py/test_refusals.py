"""What isn't captured says why: arrays and tensors of a kind that no graph takes, in counters, logs, errors and explanations."""

import warnings

import numpy as np
import pytest
from compare import dynoc
from process import run_python


@pytest.fixture(autouse=True)
def nothing_counted():
    dynoc.counters.clear()


class Units(np.ndarray):
    pass


def doubled(x):
    return x * 2


def first(x):
    return x[0]


def joined(parts):
    return np.concatenate(parts)


def shifted(x):
    return np.add(x, 1)


def misaligned():
    return np.frombuffer(bytearray(8 * 4 + 1), np.uint8)[1:].view(np.float64)


KINDS = {
    "SUBCLASS": lambda: np.arange(4.0).view(Units),
    "DTYPE": lambda: np.array([1, 2.5, 3], dtype=object),
    "LAYOUT": misaligned,
}


@pytest.mark.parametrize("reason", KINDS)
@pytest.mark.parametrize("function", [doubled, shifted, first])
def test_an_array_that_is_not_captured(reason, function):
    x = KINDS[reason]()
    fast = dynoc.optimize(function, wait=True)
    for _ in range(100):
        assert np.array_equal(fast(x), function(x))
    assert set(dynoc.counters["refused"]) <= {reason, "NO_ARRAYS"}
    assert dynoc.counters["refused"][reason] > 0
    refusal = fast.refusals[0]
    assert refusal.startswith(reason + ": ") and f"in {function.__name__}" in refusal and "hint: " in refusal


def test_big_endian_and_structured_elements():
    for x in (np.arange(3.0).astype(">f8"), np.zeros(3, [("a", "f8"), ("b", "i4")])):
        fast = dynoc.optimize(first, wait=True)
        assert fast(x) == x[0]
        assert fast.refusals[0].startswith("DTYPE: ")


def test_an_item_of_a_list():
    parts = [np.arange(2.0), np.arange(3.0).view(Units)]
    fast = dynoc.optimize(joined, wait=True)
    assert np.array_equal(fast(parts), joined(parts))
    assert fast.refusals[0].startswith("SUBCLASS: ")


def test_an_array_beside_one_that_is_captured():
    def both(x, y):
        z = np.sin(x) * 2
        return z + y

    x, y = np.arange(4.0), np.arange(4.0).view(Units)
    fast = dynoc.optimize(both, wait=True)
    for _ in range(3):
        assert np.allclose(fast(x, y), both(x, y)) and type(fast(x, y)) is Units
    assert dynoc.counters["graph_breaks"] == {"SUBCLASS": 1}


def test_fullgraph_says_what_it_is_that_is_not_captured():
    with pytest.raises(dynoc.Unsupported, match="SUBCLASS"):
        dynoc.optimize(doubled, fullgraph=True, wait=True)(np.arange(4.0).view(Units))


def test_operations_that_are_not_captured_are_not_blamed_on_arrays_that_are():
    def own(x):
        return x.item() + len(str(x))

    fast = dynoc.optimize(own, wait=True)
    x = np.array(2.5)
    assert fast(x) == own(x)
    assert not set(dynoc.counters["graph_breaks"]) & {"SUBCLASS", "DTYPE", "LAYOUT", "REQUIRES_GRAD"}


def test_nothing_at_all_says_so():
    fast = dynoc.optimize(lambda n: n + 1, wait=True)
    fast(1)
    assert [text.split(":")[0] for text in fast.refusals] == ["NO_ARRAYS"]


def test_refusals_are_few_and_forgotten_by_reset():
    lines = "".join(f"    x{i} = x * {i}\n" for i in range(40))
    names = {}
    exec(f"def many(x):\n{lines}    return x0\n", names)
    fast = dynoc.optimize(names["many"], wait=True)
    fast(np.arange(4.0).view(Units))
    assert 0 < len(fast.refusals) <= 8 and len(set(fast.refusals)) == len(fast.refusals)
    dynoc.reset()
    assert fast.refusals == []


def test_explain_says_why_there_is_no_graph():
    report = dynoc.explain(doubled)(np.arange(4.0).view(Units))
    assert report.graph_count == 0
    assert [text.split(":")[0] for text in report.refusals] == ["SUBCLASS"]
    assert "not captured\n  SUBCLASS: " in str(report) and "return x * 2" in str(report) and "^^^^^" in str(report)


def test_the_log_says_it_too(caplog):
    dynoc.set_logs(graph_breaks=True)
    try:
        dynoc.optimize(doubled, wait=True)(np.arange(4.0).view(Units))
    finally:
        dynoc.set_logs()
    assert "refused SUBCLASS" in caplog.text


# ---- tensors


def tanh_sum(w):
    import torch

    return (torch.tanh(w) * 2 + 1).sum()


def handed(graph, examples, **options):
    return graph


def test_gradients_in_a_graph_that_is_handed_on():
    torch = pytest.importorskip("torch")
    w = torch.randn(8, requires_grad=True)
    fast = dynoc.optimize(tanh_sum, backend=handed, wait=True)
    for _ in range(20):
        w.grad = None
        fast(w).backward()
        expected = torch.autograd.grad(tanh_sum(w), w)[0]
        assert torch.equal(w.grad, expected)
    assert dynoc.counters["refused"]["REQUIRES_GRAD"] > 0
    assert fast.refusals[0].startswith("REQUIRES_GRAD: ")


def test_gradients_of_what_is_changed_in_place():
    torch = pytest.importorskip("torch")

    def shifted(w):
        h = w * 2
        h += 1
        return h.tanh().sum()

    w = torch.randn(8, requires_grad=True)
    fast = dynoc.optimize(shifted, wait=True)
    for _ in range(5):
        mine, eager = (torch.autograd.grad(f(w), w)[0] for f in (fast, shifted))
        assert torch.allclose(mine, eager, rtol=1e-4, atol=1e-6)
    assert dict(dynoc.counters["graph_breaks"]) == {} and [e.hits for e in fast.entries] == [4]


def test_a_function_that_was_given_up_for_gradients_is_captured_where_they_are_off():
    torch = pytest.importorskip("torch")
    w = torch.randn(8, requires_grad=True)
    fast = dynoc.optimize(tanh_sum, backend=handed, wait=True)
    for _ in range(3):
        for _ in range(10):
            assert fast(w).requires_grad
        tried = dynoc.counters["refused"]["REQUIRES_GRAD"]
        for _ in range(100):
            assert fast(w).requires_grad
        assert dynoc.counters["refused"]["REQUIRES_GRAD"] == tried
        with torch.no_grad():
            assert torch.allclose(fast(w), tanh_sum(w))
    assert [entry.end for entry in fast.entries] == ["return"]


def test_the_same_under_enable():
    torch = pytest.importorskip("torch")
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x = torch.randn(4, 8)
    dynoc.enable(wait=True)
    try:
        for _ in range(50):
            layers(x).sum().backward()
        captured = dynoc.counters["graphs"].get("captured", 0)
        with torch.no_grad():
            for _ in range(50):
                y = layers(x)
        assert dynoc.counters["graphs"]["captured"] > captured
    finally:
        dynoc.disable()
    assert torch.allclose(y, layers(x).detach(), rtol=1e-5, atol=1e-6)


def test_gradients_of_a_module_in_fullgraph():
    torch = pytest.importorskip("torch")
    fast = dynoc.optimize(torch.nn.Linear(4, 4), fullgraph=True, wait=True, backend=handed)
    with pytest.raises(dynoc.Unsupported, match="REQUIRES_GRAD"):
        fast(torch.randn(2, 4))
    with torch.no_grad():
        assert fast(torch.randn(2, 4)).shape == (2, 4)


def test_gradients_of_an_item_of_a_list():
    torch = pytest.importorskip("torch")
    parts = [torch.ones(2), torch.ones(2, requires_grad=True)]
    fast = dynoc.optimize(torch.cat, wait=True)
    assert torch.equal(fast(parts), torch.cat(parts))

    def cat(parts):
        return torch.cat(parts)

    fast = dynoc.optimize(cat, backend=handed, wait=True)
    assert torch.equal(fast(parts), cat(parts))
    assert fast.refusals[0].startswith("REQUIRES_GRAD: ")


def tensors(torch):
    class Marked(torch.Tensor):
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "SUBCLASS": torch.ones(3).as_subclass(Marked),
            "DEVICE": torch.ones(3, device="meta"),
            "DTYPE": torch.ones(3).to(torch.float8_e5m2),
            "LAYOUT": torch.eye(3).to_sparse(),
        }


@pytest.mark.parametrize("reason", ["SUBCLASS", "DEVICE", "DTYPE", "LAYOUT"])
def test_a_tensor_that_is_not_captured(reason):
    torch = pytest.importorskip("torch")

    def flat(x):
        return x.clone()

    x = tensors(torch)[reason]
    fast = dynoc.optimize(flat, wait=True)
    for _ in range(10):
        y = fast(x)
        assert type(y) is type(x) and y.shape == x.shape and y.dtype == x.dtype and y.device == x.device
    assert fast.refusals[0].startswith(reason + ": ")


def test_a_function_that_was_called_without_arrays_is_captured_when_it_is_handed_a_tensor():
    torch = pytest.importorskip("torch")

    def twice(x):
        return None if x is None else x * 2

    fast = dynoc.optimize(twice, wait=True)
    for _ in range(20):
        assert fast(None) is None
    x = torch.arange(4.0)
    assert torch.equal(fast(x), twice(x))
    assert any(str(entry.graph).count("multiply") for entry in fast.entries)


PROFILED = """
import sys
import numpy as np
import dynoc

def double(x):
    return np.sin(x) * 2

fast = dynoc.optimize(double, wait=True)
names, x = set(), np.ones(3)
sys.setprofile(lambda frame, what, _: names.add(frame.f_code.co_name))
for _ in range(3):
    fast(x)
START
sys.setprofile(None)
print(dynoc.counters["refused"]["TRACING"], sorted(names), [entry.hits for entry in fast.entries])
"""


def test_what_a_profiler_sees_is_said_in_one_line():
    code, out, said = run_python(["-c", PROFILED.replace("START", "")])
    assert (code, out) == (0, "3 ['<module>', 'double'] []\n"), said
    assert said.startswith("[dynoc] TRACING: ") and said.count("\n") == 1


def test_enable_under_a_profiler_says_so():
    code, _, said = run_python(["-c", PROFILED.replace("fast(x)", "pass").replace("START", "dynoc.enable(); dynoc.disable()")])
    assert code == 0 and said.startswith("[dynoc] TRACING: ") and said.count("\n") == 1
