"""What messages say to do: a hint that fits what was called, and a page for each reason."""

import re
import time
from pathlib import Path

import numpy as np
import pytest

import dynoc

ROOT = Path(__file__).resolve().parents[2]
REASONS = re.findall(r"^REASON\((\w+),", (ROOT / "src/base/reasons.def").read_text(), re.MULTILINE)
HINTS = dict(re.findall(r'^HINT\("([^"]+)", "([^"]+)"\)', (ROOT / "src/base/hints.def").read_text(), re.MULTILINE))
CALLS = {
    "print": lambda x: print(end="") or x,
    "id": lambda x: x + id(x),
    "open": lambda x: x + len(open("/dev/null").read()),
    "perf_counter": lambda x: x * time.perf_counter(),
    "locals": lambda x: x + len(locals()),
}


@pytest.mark.parametrize("called", CALLS)
def test_a_hint_fits_what_was_called(called):
    with pytest.raises(dynoc.Unsupported) as raised:
        dynoc.optimize(CALLS[called], fullgraph=True)(np.ones(3))
    assert f"({called})" in str(raised.value) and f"hint: {HINTS[called]}\n" in str(raised.value)


def test_a_ufunc_of_another_library_is_named_and_can_be_allowed():
    special = pytest.importorskip("scipy.special")

    def fn(x):
        return special.gammaln(x) * 2

    x = np.linspace(1, 2, 5)
    with pytest.raises(dynoc.Unsupported) as raised:
        dynoc.optimize(fn, fullgraph=True)(x)
    assert "(ufunc gammaln)" in str(raised.value) and HINTS["ufunc "] in str(raised.value)
    dynoc.allow_in_graph(special.gammaln)
    fast = dynoc.optimize(fn, fullgraph=True, wait=True)
    for _ in range(2):
        assert np.array_equal(fast(x), fn(x))
    assert fast.entries[0].hits == 1


def test_each_reason_has_a_page():
    pages = {path.stem: path.read_text() for path in (ROOT / "docs/reasons").glob("*.md")}
    assert set(pages) == set(REASONS)
    for code, text in pages.items():
        assert text.startswith(f"# {code}\n") and len(text) > 300, code
