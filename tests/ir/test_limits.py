"""Limits of loop IR: what is larger is refused with a reason of its own."""

import pytest

from dynoc import _dynoc


def exponentials(n):
    """n arrays of different sizes, each with a kernel of its own."""
    sizes = [f"s{i}: int = dim(x{i}, 0) hint 1000" for i in range(n)]
    inputs = [f"%{i}: f64[s{i}] C = input(x{i})" for i in range(n)]
    work = [f"%{n + i}: f64[s{i}] C = exp(%{i})" for i in range(n)]
    outputs = ", ".join(f"%{n + i}" for i in range(n))
    return "\n".join(["graph f", *sizes, *inputs, *work, f"outputs {outputs}"])


@pytest.mark.parametrize("n, reason, sentence", [(3, "OK", ""), (2000, "OK", ""), (2001, "TOO_MANY_KERNELS", "2001 kernels")])
def test_a_graph_of_too_many_kernels_says_so(n, reason, sentence):
    assert _dynoc._lower_failing(exponentials(n), 1 << 30)[:2] == (reason, sentence)
