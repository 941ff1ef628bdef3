"""`dynoc.explain(fn)(*args)`: one call of a function, and what dynoc made of it."""

import html

from dynoc._optimize import optimize


def count(n, word):
    return f"{n} {word}{'' if n == 1 else 's'}"


def operations_in(graph):
    """How many nodes of a printed graph are operations: one node a line, `%3: f64[s0] C = add(%1, %2)`."""
    return sum(line.startswith("%") and " = input(" not in line for line in str(graph).splitlines())


class Explanation:
    """What became of one call.

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
    refusals : list of str
        What was not captured: a code as in `break_reasons`, the place, and what can be done. Of a call of which nothing at all
        was captured it says why.
    loops : list of str
        What became of each loop that was arrived at, and its place: native, or CPython's, for which `refusals` says why.
    guards : list of str
        What has to hold for the compiled code to be used, as Python expressions over the arguments.
    compile_times : dict of str to float
        Seconds by stage.
    """

    def __init__(self, name, entries, refusals, loops=()):
        self.name = name
        self.graphs = [graph for graph in (entry.graph for entry in entries) if operations_in(graph)]
        self.graph_count = len(self.graphs)
        self.break_reasons = [entry.reason for entry in entries if entry.reason is not None]
        self.graph_break_count = len(self.break_reasons)
        self.op_count = sum(map(operations_in, self.graphs))
        self.refusals = list(refusals)
        self.loops = list(loops)
        self.guards = [guard for entry in entries for guard in entry.guards]
        self.compile_times = {}
        for entry in entries:
            for stage, seconds in entry.times.items():
                self.compile_times[stage] = self.compile_times.get(stage, 0.0) + seconds

    def __str__(self):
        counts = (
            count(self.graph_count, "graph"),
            count(self.graph_break_count, "graph break"),
            count(self.op_count, "operation"),
        )
        lines = [f"{self.name}: {', '.join(counts)}"]
        lines += [f"  break: {reason}" for reason in self.break_reasons]
        lines += ["  not captured: " + refusal.replace("\n", "\n    ") for refusal in self.refusals]
        lines += ["  loop, " + loop.replace("\n", "\n    ") for loop in self.loops]
        lines += [f"  guard: {guard}" for guard in self.guards]
        lines += [f"  time: {stage}, {seconds * 1e6:.0f} us" for stage, seconds in self.compile_times.items()]
        for graph in self.graphs:
            lines += ["", str(graph).rstrip()]
        return "\n".join(lines)

    def _repr_html_(self):
        return f"<pre>{html.escape(str(self))}</pre>"


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
        name = getattr(fn, "__qualname__", repr(fn))
        parts = (getattr(fresh, part, []) for part in ("entries", "refusals", "loops"))
        return Explanation(name, *parts)

    return call
