"""Names that are imported when they are used (PEP 810, from CPython 3.15 on): what imports them is CPython's."""

import sys
import textwrap

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.skipif(sys.version_info < (3, 15), reason="no lazy imports")

PROGRAM = """
import numpy as np
lazy import {module}
lazy from {module} import value as other

def by_module(a):
    return a * {module}.value + 1

def by_name(a):
    return a + other

def of_both(a):
    a = a * 2
    for _ in range(3):
        a = a + other - {module}.value
    return a
"""


@pytest.mark.parametrize("name", ["by_module", "by_name", "of_both"])
def test_same_as_plain(name, tmp_path, monkeypatch):
    module = f"dynoc_lazily_{name}"
    (tmp_path / f"{module}.py").write_text("value = 3.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    space = {"__name__": f"uses_{module}"}
    exec(textwrap.dedent(PROGRAM.format(module=module)), space)
    fast = dynoc.optimize(space[name], wait=True)
    assert module not in sys.modules
    got = [fast(np.arange(3.0)) for _ in range(4)]
    assert module in sys.modules
    for result in got:
        np.testing.assert_array_equal(result, space[name](np.arange(3.0)))
    assert fast.entries
