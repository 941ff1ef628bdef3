"""The setting `verify`: compiled code that gives something else than eager is found, named and left alone.

Compiled code is made wrong by a compiler flag that has another function in place of the square root.
"""

import logging

import numpy as np
import pytest
from process import run_script

import dynoc
from dynoc import _verify

WRONG = {"cflags": "-D__builtin_sqrt=__builtin_fabs", "verify": True, "retire": False}


@pytest.fixture(autouse=True)
def counts():
    dynoc.counters.clear()
    yield dynoc.counters
    dynoc.counters.clear()


def length(x, y):
    twice = np.exp(x) * 2
    root = np.sqrt(x * x + y * y)
    return root + 1, twice


def change(x, y):
    view = x[::2]
    view += np.sqrt(y)
    x *= 3
    return view.sum()


def test_right_code_is_compared_in_its_first_calls_and_stays(counts):
    fast = dynoc.optimize(length, wait=True, options={"verify": True, "retire": False})
    x = np.linspace(1, 2, 100)
    for _ in range(6):
        for one, other in zip(fast(x, x), length(x, x)):
            assert np.allclose(one, other, rtol=1e-12)
    assert counts["verify"] == {"same": 3}
    assert fast.entries[0].failure is None and fast.entries[0].hits == 5


def test_wrong_code_is_named_by_its_node_and_left_to_cpython(counts, caplog):
    fast = dynoc.optimize(length, wait=True, options=WRONG)
    x = np.linspace(1, 2, 100)
    with caplog.at_level(logging.WARNING, "dynoc"):
        for _ in range(4):
            for one, other in zip(fast(x, x), length(x, x)):
                assert np.array_equal(one, other)
    assert counts["verify"] == {"differs": 1}
    assert counts["graph_breaks"]["DIFFERS"] == 1
    assert fast.entries[0].failure == "DIFFERS"
    (said,) = [record.getMessage() for record in caplog.records]
    assert "= sqrt: 100 of 100 elements differ" in said
    line = length.__code__.co_firstlineno + 2
    assert f"test_verify.py:{line}: in length" in said and "^^^" in said
    assert f"test_verify.py:{line}: in length" in fast.refusals[0]


def test_memory_that_wrong_code_wrote_into_is_put_back(counts):
    fast = dynoc.optimize(change, wait=True, options=WRONG)
    for _ in range(4):
        x = np.arange(10.0) + 2
        expected, y = x.copy(), np.arange(5.0) + 4
        assert fast(x, y) == change(expected, y)
        assert np.array_equal(x, expected)
    assert counts["verify"] == {"differs": 1}


def test_inputs_that_share_memory_are_compared_as_such(counts):
    fast = dynoc.optimize(change, wait=True, options={"verify": True, "retire": False})
    for _ in range(5):
        x = np.arange(10.0) + 2
        expected = x.copy()
        assert fast(x, x[1::2]) == change(expected, expected[1::2])
        assert np.array_equal(x, expected)
    assert "differs" not in counts["verify"]


def test_calls_with_effects_are_made_once(counts):
    calls = []

    @dynoc.allow_in_graph
    def seen(x):
        calls.append(1)
        return x + 1

    fast = dynoc.optimize(lambda x: seen(x) * 2, wait=True, options={"verify": True, "retire": False})
    for n in range(1, 5):
        assert fast(np.arange(3.0)).tolist() == [2, 4, 6]
        assert len(calls) == n
    assert counts["verify"] == {"skipped": 1}


def test_gradients_of_wrong_code_are_eagers(counts):
    torch = pytest.importorskip("torch")

    def loss(x):
        return (torch.sqrt(x * x + 1) * x).sum()

    fast = dynoc.optimize(loss, wait=True, options=WRONG)
    for _ in range(4):
        one, other = (torch.linspace(1, 2, 50, dtype=torch.float64, requires_grad=True) for _ in range(2))
        got, expected = fast(one), loss(other)
        got.backward()
        expected.backward()
        assert torch.allclose(got, expected) and torch.allclose(one.grad, other.grad)
    assert counts["verify"]["differs"] >= 1


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128", "int32", "bool"])
def test_a_difference_is_seen_in_every_dtype(dtype):
    a = (np.arange(64) % 2).astype(dtype).reshape(8, 8)
    b = a.copy()
    assert _verify.difference(a, b, exact=True) is None
    assert _verify.difference(a, b, exact=False) is None
    b[3, 4] = not b[3, 4]
    for exact in (True, False):
        assert "1 of 64 elements differ, the first at [3, 4]" in _verify.difference(a, b, exact)


def test_what_counts_as_the_same():
    nan, zero = np.array([np.nan, 1.0]), np.array([0.0])
    assert _verify.difference(nan, nan.copy(), exact=True) is None
    assert _verify.difference(zero, -zero, exact=True) is not None
    assert _verify.difference(zero, -zero, exact=False) is None
    last_bit = np.nextafter(nan, 2)
    assert _verify.difference(nan, last_bit, exact=True) is not None
    assert _verify.difference(nan, last_bit, exact=False) is None
    assert "float32" in _verify.difference(zero, zero.astype(np.float32), exact=False)
    assert "shape" in _verify.difference(zero, zero[0], exact=False)


EMPTY = """
import numpy as np, dynoc
def fn(x):
    room = np.empty((4, 5))
    room[:2] = x * 2
    whole = np.empty((2, 5))
    whole[...] = x + 1
    return room, whole
fast = dynoc.optimize(fn, wait=True)
for _ in range(4):
    garbage = [np.full((4, 5), float(k)) for k in range(40)]
    del garbage
    room, whole = fast(np.ones((2, 5)))
    assert (room[:2] == 2).all() and (whole == 2).all()
print(dict(dynoc.counters["verify"]))
"""


def test_elements_that_nobody_wrote_are_not_compared(tmp_path):
    code, out, said = run_script(EMPTY, DYNOC_VERIFY=1, DYNOC_CACHE_DIR=tmp_path)
    assert code == 0 and out.startswith("{'same': ") and "DIFFERS" not in said, said + out
