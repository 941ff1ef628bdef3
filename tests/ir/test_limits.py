"""Limits of loop IR: what is larger is refused with a reason of its own."""

import pytest

from dynoc import _dynoc

HEAD = """graph f
s0: int = dim(x, 0) hint 1000
s1: int = dim(x, 1) hint 16
%0: f64[s0, s1] C = input(x)
%1: f64[s1] C = sum(%0) {0, 0}
"""


def sums(n):
    """A chain of n sums, each of which needs the whole of the one before: none of them can be in another's kernel."""
    lines = []
    for i in range(2, 2 * n, 2):
        lines += [f"%{i}: f64[s0, s1] C = add(%0, %{i - 1})", f"%{i + 1}: f64[s1] C = sum(%{i}) {{0, 0}}"]
    return HEAD + "\n".join([*lines, f"outputs %{2 * n - 1}"])


@pytest.mark.parametrize("n, expected", [(3, "OK"), (2000, "OK"), (2001, "TOO_MANY_KERNELS")])
def test_a_graph_of_too_many_kernels_says_so(n, expected):
    reason, sentence, _ = _dynoc._lower_failing(sums(n), 1 << 30)
    assert reason == expected
    assert sentence == ("" if expected == "OK" else f"{n} kernels")
