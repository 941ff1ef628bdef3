"""dynoc.explain: what it counts, what its text says and in which order, and that a model fits on a screen."""

import html
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from compare import dynoc


def norm(x):
    return np.sqrt((x * x).sum()) + 1.0


def broken(x, dt):
    y = x[1:] - x[:-1]
    print("a step")
    return (y * dt).sum(axis=0)


def many(*arrays):
    return [x + 1 for x in arrays]


def pattern(text):
    """A regular expression: where this file lies is wherever it lies."""
    return re.escape(text).replace("HERE", r"\S*test_explain\.py:\d+")


def test_what_is_counted():
    report = dynoc.explain(norm)(np.arange(4.0))
    assert (report.graph_count, report.graph_break_count, report.op_count) == (1, 0, 4)
    assert len(report.graphs) == 1 and report.break_reasons == report.breaks == report.refusals == []
    assert report.compile_times["record"] > 0 and report.compile_times["build"] > 0
    assert repr(report) == "<dynoc explanation of norm: 1 graph, 0 graph breaks, 4 operations>"


def test_breaks_come_first_with_their_place():
    report = dynoc.explain(broken)(np.ones((100, 5)), 0.25)
    assert len(report.breaks) == len(report.break_reasons) == report.graph_break_count
    expected = """broken: 2 graphs, 1 graph break, 5 operations

breaks
  OPAQUE_CALL: call of a function that dynoc cannot see into (print)
    HERE: in broken
            print("a step")
            ^^^^^^^^^^^^^^^
    hint: print behind the function, or return what is to be printed

graphs      operations  kernels  in and out  tier
  0                  3        1     7.96 kB  native
  1                  2        1        4 kB  native

guards: """
    assert re.match(pattern(expected), str(report)), str(report)
    assert re.search(r"\ncompiled in \d+\.\d\d ms: ", str(report))


def test_guards_are_grouped_and_counted():
    report = dynoc.explain(many)(*(np.ones(3, np.float32) for _ in range(7)))
    text = str(report)
    assert "  arrays and tensors: 7\n    arrays[0].dtype == float32" in text
    assert "    … and 3 more (all of them: .guards)" in text
    assert len([guard for guard in report.guards if ".dtype == float32" in guard]) == 7


def test_nothing_was_captured():
    text = str(dynoc.explain(lambda n: n + 1)(1))
    assert text.splitlines()[0].endswith(": 0 graphs, 0 graph breaks, 0 operations")
    assert "not captured\n  NO_ARRAYS: " in text and "graphs   " not in text


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_is_well_formed_and_says_the_same():
    report = dynoc.explain(broken)(np.ones((100, 5)), 0.25)
    tags = Tags()
    page = report._repr_html_()
    tags.feed(page)
    assert tags.open == [] and {"h4", "h5", "table", "details", "pre"} <= tags.seen
    assert "print(&quot;a step&quot;)" in page and all(html.escape(guard) in page for guard in report.guards)


def test_a_model_fits_on_a_screen_in_its_own_words():
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    with torch.no_grad():
        report = dynoc.explain(model)(torch.ones(5, 8))
    text = str(report)
    assert text.startswith("Sequential: 1 graph, 0 graph breaks, ")
    assert len(text.splitlines()) < 60
    assert any("self[0].weight.shape[0] == self[0].bias.shape[0]" in guard for guard in report.guards)
    assert not any("__dict__['_parameters']" in guard or " at 0x" in guard for guard in report.guards)
