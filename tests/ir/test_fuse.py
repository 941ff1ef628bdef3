"""What becomes one kernel, as text: graph in, loop IR out."""

import re

import pytest

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

GRAPH = """graph f
s0: int = dim(x, 0) hint 1000
s1: int = dim(x, 1) hint {columns}
%0: f64[s0, s1] C = input(x)
%1: f64[s0, s1] C = {op}(%0)
%2: f64[s0] C = sum(%1) {{{axes}}}
{more}
"""
READ_AGAIN = "%3: f64[s0, s1] C = multiply(%1, %0)\noutputs %2, %3"


def kernels(columns, op, more, axes="0, 1"):
    text = _dynoc._lower_text(GRAPH.format(columns=columns, op=op, more=more, axes=axes))
    return [block for block in re.split(r"(?m)^(?=\S)", text) if block.startswith("kernel")]


@pytest.mark.parametrize("columns, more", [(15, "outputs %2"), (16, "outputs %2"), (16, READ_AGAIN), (16, "outputs %1, %2")])
def test_a_sum_has_its_elements_in_registers(columns, more):
    (summed,) = [k for k in kernels(columns, "exp", more) if "reduce sum" in k]
    assert "exp" in summed and ("store" in summed) == (more != "outputs %2")


@pytest.mark.parametrize("more", [READ_AGAIN, "outputs %1, %2"])
def test_short_rows_are_summed_from_memory_if_their_elements_are_kept(more):
    """Results lie side by side then, and what is stored as well would take them row by row."""
    made, summed = kernels(15, "exp", more)[0], [k for k in kernels(15, "exp", more) if "reduce sum" in k][0]
    assert "exp" in made and "store" in made and "reduce sum" not in made
    assert "exp" not in summed and "store" not in summed


FIELDS = """graph f
s0: int = dim(x, 0) hint 1000
s1: int = dim(x, 1) hint 9
s2: int = var(k) hint 1
%0: f64[s0, s1] {layout} = input(x)
%1: f64[s0] <0> = slice(%0, 0, s0, 1, {first}) {{0, 1}} view
%2: f64[s0] <0> = slice(%0, 0, s0, 1, {second}) {{0, 1}} view
%3: f64[s0] <0> = slice(%0, 0, s0, 1, 2) {{0, 1}} view
%4: f64[s0] C = exp(%3)
%5: f64[s0] <0> = store(%1, %4)
%6: f64[s0] <0> = store(%2, %4)
outputs %0
"""


@pytest.mark.parametrize(
    "layout, first, second, count", [("C", 0, 1, 1), ("C", 0, 0, 1), ("C", 0, "s2", 2), ("<0 1>", 0, 1, 3), ("<1 0>", 3, 4, 3)]
)
def test_fields_of_records_are_written_by_one_kernel(layout, first, second, count):
    """If they are known to be others: not where an index is a variable, nor where an array may overlap itself."""
    text = _dynoc._lower_text(FIELDS.format(layout=layout, first=first, second=second))
    assert text.count("\nkernel") == count


RANK_ONE = """graph f
s0: int = dim(m, 0) hint {n}
s1: int = dim(m, 1) hint {n}
s2: int = var(k) hint 1
%0: f64[s0, s1] C = input(m)
%1: f64[s0] <0> = slice(%0, 0, s0, 1, s2) {{0, 1}} view
%2: f64[s1] C = slice(%0, s2, 0, s1, 1) {{1, 0}} view
%3: f64[s0, 1] C = slice(%1, 0, s0, 1) {{0, 2}} view
%4: f64[s0, s1] C = multiply(%3, %2)
%5: f64[s0, s1] C = subtract(%0, %4)
%6: f64[s0, s1] C = store(%0, %5)
outputs %0
"""


@pytest.mark.parametrize("n, count, in_place", [(100, 3, True), (16, 2, False)])
def test_a_row_and_a_column_are_copied_before_a_matrix_is_written(n, count, in_place):
    """In place of a copy of the whole, unless that is small."""
    text = _dynoc._lower_text(RANK_ONE.format(n=n))
    kernels = [block for block in re.split(r"(?m)^(?=\S)", text) if block.startswith("kernel")]
    assert len(kernels) == count and ("subtract" in kernels[-1]) == in_place
