"""`dynoc.explain(fn)(*args)`: one call of a function, and what dynoc made of it."""

import html
from _functools import partial
from math import prod
from types import MethodType

from dynoc import _dynoc
from dynoc._optimize import is_module, left_alone, optimize, why_as_it_is

LINES, COLUMNS = 50, 120  # of the screen that a printed explanation is made for
MOST_SHOWN = 4  # guards of one group, and places of one kind, that it has at most; the others are counted
MOST_GRAPHS = 8
ITEM_BYTES = {"bool": 1, "bf16": 2}


def count(n, word):
    return f"{n} {word}{'' if n == 1 else 's'}"


def operations_in(graph):
    """How many nodes of a printed graph are operations: one node a line, `%3: f64[s0] C = add(%1, %2)`."""
    return sum(line.startswith("%") and " = input(" not in line for line in str(graph).splitlines())


def bytes_of(data, node):
    """How much memory a node's elements take, with the sizes of the call that was recorded."""
    dtype = data["nodes"][node]["dtype"]
    size = ITEM_BYTES[dtype] if dtype in ITEM_BYTES else int(dtype[1:]) // 8
    return size * prod(data["symbols"][i]["value"] for i in data["nodes"][node]["shape"])


def in_and_out(data):
    """How many bytes a graph has to read and write at least: what comes in, and what goes out."""
    return sum(bytes_of(data, node) for node in {*data["inputs"], *data["outputs"]})


def readable_bytes(n):
    for unit in ("B", "kB", "MB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} GB"


def readable_time(seconds):
    if seconds < 1e-4:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def cut(line):
    """A line that fits on the screen."""
    return line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…"


def some_of(texts, most, indent, name):
    """Lines of the first few texts, and how many more there are under which attribute."""
    lines = [f"{indent}{text}".replace("\n", f"\n{indent}  ") for text in texts[:most]]
    if len(texts) > most:
        lines.append(f"{indent}… and {len(texts) - most} more (all of them: .{name})")
    return [line for text in lines for line in text.splitlines()]


def grouped(pairs):
    """{heading: texts} of (heading, text), in the order in which they first come, each text once."""
    groups = {}
    for heading, text in pairs:
        texts = groups.setdefault(heading, [])
        if text not in texts:
            texts.append(text)
    return groups


class Explanation:
    """What became of one call.

    Printed, it begins with what matters most: what broke the graphs or wasn't captured, with its place. The graphs follow, what
    has to hold for them to be used again, and where compile time went.

    Attributes
    ----------
    graph_count : int
        Graphs with array operations that were captured.
    graph_break_count : int
        Places where a graph was broken or recording stopped.
    op_count : int
        Array operations in all graphs.
    graphs : list
        The graphs; ``print_readable()`` shows one.
    break_reasons : list of str
        Why each break was one: codes that docs/graph_breaks.md explains.
    breaks : list of str
        The same in a sentence, with the place, the source line, and what can be done.
    refusals : list of str
        What was not captured: a code as in `break_reasons`, the place, and what can be done. Of a call of which nothing at all
        was captured it says why.
    loops : list of str
        What became of each loop that was arrived at, and its place: native, or CPython's, for which `refusals` says why.
    guards : list of str
        What has to hold for the compiled code to be used, as Python expressions over the arguments.
    compile_times : dict of str to float
        Seconds by stage. The stage ``record`` has the program's own work in it.
    """

    def __init__(self, name, entries, refusals, loops=()):
        self.name = name
        looked_at = [(entry, graph, operations_in(graph)) for entry, graph in ((entry, entry.graph) for entry in entries)]
        working = [(entry, graph, operations) for entry, graph, operations in looked_at if operations]
        self.graphs = [graph for _, graph, _ in working]
        self.graph_count = len(self.graphs)
        self.break_reasons = [entry.reason for entry in entries if entry.reason is not None]
        self.breaks = [entry.why for entry in entries if entry.why is not None]
        self.graph_break_count = len(self.break_reasons)
        self.op_count = sum(operations for _, _, operations in working)
        self.refusals = list(refusals)
        self.loops = list(loops)
        guards = [pair for entry in entries for pair in zip(entry._groups, entry.guards)]
        self.guards = [guard for _, guard in guards]
        self._guards = grouped(guards)
        self._graphs = [
            (str(operations), str(entry.kernels), readable_bytes(in_and_out(entry._data)), entry.tier)
            for entry, _, operations in working
        ]
        self.compile_times = {}
        for entry in entries:
            for stage, seconds in entry.times.items():
                self.compile_times[stage] = self.compile_times.get(stage, 0.0) + seconds

    def _title(self):
        counts = (
            count(self.graph_count, "graph"),
            count(self.graph_break_count, "graph break"),
            count(self.op_count, "operation"),
        )
        native = sum(text.startswith("native") for text in self.loops)
        counts += (count(native, "native loop"),) if native else ()
        return f"{self.name}: {', '.join(counts)}"

    def _findings(self):
        """(heading, texts, where all of them are) of what a reader wants to know first."""
        by_loops = {line.strip() for text in self.loops for line in text.splitlines()}  # refusals that are told there already
        refusals = [text for text in self.refusals if not {line.strip() for line in text.splitlines()} <= by_loops]
        found = (("breaks", self.breaks, "breaks"), ("loops", self.loops, "loops"), ("not captured", refusals, "refusals"))
        return [(heading, list(dict.fromkeys(texts)), name) for heading, texts, name in found if texts]

    def _times(self):
        """The sum of all stages, and those that make a hundredth of it, the longest first."""
        total = sum(self.compile_times.values())
        longest = sorted(self.compile_times.items(), key=lambda item: -item[1])
        parts = [f"{stage} {readable_time(seconds)}" for stage, seconds in longest if seconds >= total / 100]
        return f"{readable_time(total)}: {', '.join(parts)}" if total else ""

    def __repr__(self):
        return f"<dynoc explanation of {self._title()}>"

    def __str__(self):
        lines = [self._title()]
        for heading, texts, name in self._findings():
            lines += ["", heading, *some_of(texts, MOST_SHOWN, "  ", name)]
        if self._graphs:
            rows = [
                f"{i:<9} {operations:>10}  {kernels:>7}  {size:>10}  {tier}"
                for i, (operations, kernels, size, tier) in enumerate(self._graphs)
            ]
            lines += ["", "graphs      operations  kernels  in and out  tier", *some_of(rows, MOST_GRAPHS, "  ", "graphs")]
        times = ["", f"compiled in {self._times()}"] if self._times() else []
        lines += self._guard_lines(LINES - len(lines) - len(times)) + times
        return "\n".join(map(cut, lines))

    def _guard_lines(self, room):
        """Guards in groups: as many of each as there is room for in so many lines, and counts."""
        if not self.guards:
            return []
        most = max(0, min(MOST_SHOWN, (room - 2) // len(self._guards) - 2))
        lines = ["", f"guards: {sum(map(len, self._guards.values()))}"]
        for heading, guards in self._guards.items():
            lines.append(f"  {heading}: {len(guards)}")
            lines += some_of(guards, most, "    ", "guards") if most else []
        return lines

    def _repr_html_(self):
        def listed(texts):
            return "".join(f"<pre>{html.escape(text)}</pre>" for text in texts)

        parts = [f"<h4>{html.escape(self._title())}</h4>"]
        for heading, texts, _ in self._findings():
            parts.append(f"<h5>{heading}</h5>{listed(texts)}")
        if self._graphs:
            cells = [("graph", "operations", "kernels", "in and out", "tier")]
            cells += [(str(i), *row) for i, row in enumerate(self._graphs)]
            rows = ("".join(f"<td>{cell}</td>" for cell in row) for row in cells)
            parts.append(f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>")
        for heading, guards in self._guards.items():
            shown = html.escape("\n".join(guards))
            parts.append(f"<details><summary>guards, {heading}: {len(guards)}</summary><pre>{shown}</pre></details>")
        if self._times():
            parts.append(f"<p>compiled in {self._times()}</p>")
        return "".join(parts)


def innermost(fn):
    """What a partial, a method or an optimised module calls."""
    while True:
        if isinstance(fn, partial):
            fn = fn.func
        elif isinstance(fn, MethodType):
            fn = fn.__func__
        elif is_module(fn) and hasattr(type(fn), "_dynoc_module"):
            fn = type(fn).__call__
        else:
            return fn


def name_of(fn):
    """What a callable is called: by its own name, or that of its class."""
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__qualname__


def explanation_of(name, fast):
    """What became of the calls of an optimised function so far; of one that was given back as it is, why."""
    inner = innermost(fast)
    entries, refusals, loops = (getattr(inner, part, []) for part in ("entries", "refusals", "loops"))
    why = None if isinstance(inner, _dynoc.OptimizedFunction) else why_as_it_is(inner)
    if why is not None:
        refusals = [left_alone(inner, why)]
    return Explanation(name, entries, refusals, loops)


def explain(fn, **arguments):
    """Run a function once and tell what dynoc made of the call.

    Parameters
    ----------
    fn : callable
        A function, optimised or not. What was compiled for it before plays no part.
    **arguments
        Those of `optimize`.

    Returns
    -------
    callable
        Takes the arguments of `fn`; returns an `Explanation`.

    Examples
    --------
    >>> import numpy as np
    >>> import dynoc
    >>> report = dynoc.explain(lambda x: np.cos(x) + np.sin(x))(np.ones(4))
    >>> report.graph_count, report.graph_break_count, report.op_count
    (1, 0, 3)
    """
    fresh = optimize(fn, **{"wait": True, **arguments})

    def call(*args, **kwargs):
        fresh(*args, **kwargs)
        return explanation_of(name_of(fn), fresh)

    return call
