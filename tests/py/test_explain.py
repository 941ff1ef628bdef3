"""dynoc.explain: what it counts, what its text says and in which order, and that a model fits on a screen."""

import asyncio
import functools
import html
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from compare import dynoc
from logs import logged


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


class Adds:
    def __call__(self, x):
        return x + 1

    def method(self, x):
        return x + 1

    @classmethod
    def of_class(cls, x):
        return x + 1


def adds(x, y):
    return x + y


def a_generator(x):
    yield x + 1


async def a_coroutine(x):
    return x + 1


SEEN_INTO = [functools.partial(adds, y=1), functools.partial(functools.partial(adds, y=1)), Adds(), Adds().method, Adds.of_class]


@pytest.mark.parametrize("fn", SEEN_INTO, ids=["partial", "partial of one", "instance", "method", "class method"])
def test_what_calls_a_function_is_explained_by_it(fn):
    explained = dynoc.explain(fn)(np.ones(3))
    assert (explained.graph_count, explained.op_count, explained.refusals) == (1, 1, [])


AS_IT_IS = [
    (a_generator, "GENERATOR: a_generator is not optimised: it is a generator function; it runs as it is"),
    (functools.partial(a_generator), "GENERATOR: a_generator is not optimised: it is a generator function; it runs as it is"),
    (len, "GENERATOR: len is not optimised: it is not written in Python; it runs as it is"),
    (functools.lru_cache(lambda x: 3), "it is not written in Python; it runs as it is"),
    (list, "GENERATOR: list is not optimised: it is a class; it runs as it is"),
    (dynoc.skip(lambda x: x + x), "SKIPPED_CALL: "),
]


@pytest.mark.parametrize("fn, why", AS_IT_IS, ids=["generator", "partial", "builtin", "cached", "class", "skipped"])
def test_no_graphs_have_a_reason(fn, why):
    explained = dynoc.explain(fn)((1, 2))
    assert explained.graph_count == 0 and len(explained.refusals) == 1 and why in explained.refusals[0]
    assert "not captured\n  " in str(explained)


def test_what_is_left_as_it_is_is_logged_and_counted():
    dynoc.counters.clear()
    with logged("graph_breaks") as lines:
        assert dynoc.optimize(a_generator) is a_generator
    assert dynoc.counters["refused"] == {"GENERATOR": 1}
    place = f"{__file__}:{a_generator.__code__.co_firstlineno}"
    assert lines == [f"GENERATOR: a_generator is not optimised: it is a generator function; it runs as it is\n{place}"]


def test_a_coroutine_function_has_a_reason_and_is_awaited_by_who_calls_it():
    fast = dynoc.optimize(a_coroutine)
    assert fast is a_coroutine and asyncio.run(fast(np.ones(2))).tolist() == [2, 2]


def called_from(x):
    return wrapper_of_own(x) + 1


@dynoc.skip
@functools.wraps(adds)
def wrapper_of_own(x):
    return x + 1


def test_what_broke_a_graph_is_called_by_its_name():
    (why,) = dynoc.explain(called_from)(np.ones(3)).breaks
    assert why.startswith("SKIPPED_CALL") and "(adds)" in why.splitlines()[0]


def sums_squares(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def counts_words(texts):
    count = {}
    for text in texts:
        count[text.encode()] = count.get(text.encode(), 0) + 1
    return count


def test_loops_are_counted_in_the_title_and_told_once():
    assert str(dynoc.explain(sums_squares)(1000)).splitlines()[0].endswith(", 0 operations, 1 native loop")
    explained = dynoc.explain(counts_words)(["a"] * 1000)
    assert explained.loops[0].startswith("CPython's: ") and any("UNSUPPORTED_VALUE" in text for text in explained.refusals)
    assert str(explained).count("UNSUPPORTED_VALUE") == 1 and explained._repr_html_().count("UNSUPPORTED_VALUE") == 1
