"""Breaks in the places of functions_breaks_places.py: the same as plain Python at every call, and captured before and behind."""

import functions_breaks_places
import pytest
from compare import check_case, dynoc
from functions import TABLE

ROWS = [row for row in TABLE if row.make().__code__.co_filename == functions_breaks_places.__file__]


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_same_as_plain_and_bounded(row):
    plain, optimised = row.make(), row.make()
    fast = dynoc.optimize(optimised, wait=True)
    for turn in range(6):
        for i, maker in enumerate(row.makers):
            check_case(row, plain, fast, maker, f"arguments {i}, call {turn + 1}")
        made = len(fast.entries) if turn == 3 else 0 if turn < 3 else made
    assert len(fast.entries) == made
