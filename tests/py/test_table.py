"""Every function of the table with every set of arguments: the recording call and three more give what plain Python gives."""

import pytest
from compare import check_case, dynoc
from functions import TABLE


def test_table_is_large():
    assert len(TABLE) >= 120


@pytest.mark.parametrize("row", TABLE, ids=repr)
def test_same_as_plain(row):
    plain, optimised = row.make(), row.make()
    fast = dynoc.optimize(optimised, wait=True)
    for turn in range(4):
        for i, maker in enumerate(row.makers):
            check_case(row, plain, fast, maker, f"arguments {i}, call {turn + 1}")


@pytest.mark.parametrize("row", TABLE, ids=repr)
def test_each_set_first(row):
    """Each set of arguments as the one that is recorded, then the others on that entry."""
    for i in range(1, min(len(row.makers), 4)):
        plain, optimised = row.make(), row.make()
        fast = dynoc.optimize(optimised, wait=True)
        for j in (i, i, 0, i):
            check_case(row, plain, fast, row.makers[j], f"arguments {j}, recorded with {i}")
        dynoc.reset()
