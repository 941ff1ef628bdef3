"""Groups of rows in text: which kernels have rows as their lanes, what the verifier says of those that can't; and that rows done
several at a time give what rows done one by one give."""

import numpy as np
import pytest

pytestmark = pytest.mark.any_interpreter

_dynoc = pytest.importorskip("dynoc._dynoc")

MOMENTS = """graph g
s0: int = dim(x, 0) hint 1000
s1: int = dim(x, 1) hint 100
%0: f64[s0, s1] C = input(x)
%1: f64[s0, 1] C = sum(%0) {1, 1}
%2: f64[s0, 1] C = divide(%1, s1)
%3: f64[s0, s1] C = subtract(%0, %2)
%4: f64[s0, s1] C = square(%3)
%5: f64[s0, 1] C = sum(%4) {1, 1}
%6: f64[s0, 1] C = divide(%5, s1)
%7: f64[s0, 1] C = sqrt(%6)
%8: f64[s0, s1] C = divide(%3, %7)
outputs %7, %8
"""


def kernels(text):
    return [line.split("  #")[0] for line in text.splitlines() if line.startswith("kernel")]


def test_kernels_of_one_element_go_across():
    text = _dynoc._lower_text(MOMENTS)
    across = [line.endswith(" across") for line in kernels(text)]
    assert True in across and False in across and across == ["reduced 0" in line and "$1" not in line for line in kernels(text)]
    assert _dynoc._loops_roundtrip(MOMENTS, text) == text


@pytest.mark.parametrize("wrong", ["reduced 2 like %0 group 0 outer 1", "reduced 0 group 0 outer 1"])
def test_what_can_not_go_across(wrong):
    text = _dynoc._lower_text(MOMENTS).replace(" across", "")
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("kernel ($0 $1) ") and wrong in line or i == len(lines) - 1)
    lines[at] = lines[at].replace(wrong, wrong + " across")
    with pytest.raises(ValueError, match="rows can't be its lanes"):
        _dynoc._loops_roundtrip(MOMENTS, "\n".join(lines) + "\n")


def test_batches_of_rows():
    """Rows so short that many go together, so long that none do; numbers of rows around a batch, and in two axes."""
    capsule = _dynoc._graph_compile(MOMENTS)
    rng = np.random.default_rng(2)
    for rows in (1, 2, 15, 16, 17, 31, 33, 100):
        for n in (1, 3, 64, 100, 130, 600, 3000):
            x = rng.normal(3, 2, (rows, n))
            with np.errstate(all="ignore"):
                _, (deviation, scaled) = _dynoc._graph_run(capsule, [x], [])[:2]
                expected = x.std(axis=1, keepdims=True)
                np.testing.assert_allclose(deviation, expected, rtol=1e-13)
                np.testing.assert_allclose(scaled, (x - x.mean(axis=1, keepdims=True)) / expected, rtol=1e-11, atol=1e-11)


def test_batches_give_the_bits_of_the_built_in_tier():
    """Rows of native code are one call for many; the built-in tier does them one by one."""
    native, builtin = _dynoc._graph_compile(MOMENTS), _dynoc._graph_builtin(MOMENTS)
    rng = np.random.default_rng(3)
    for rows in (1, 2, 7, 33):
        for n in (1, 15, 16, 31, 32, 33, 511, 512, 513, 1000, 1025, 9000):
            x = rng.normal(3, 2, (rows, n))
            apart = np.repeat(x, 2, axis=1)[:, ::2], np.repeat(x, 3, axis=0)[::3]
            for a in (x, np.asfortranarray(x), x[::-1], x[:, ::-1], *apart):
                with np.errstate(all="ignore"):
                    want, got = _dynoc._graph_run(builtin, [a], [])[1], _dynoc._graph_run(native, [a], [])[1]
                for w, g in zip(want, got, strict=True):
                    assert w.tobytes() == g.tobytes(), (rows, n, a.strides)
