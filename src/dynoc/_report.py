"""`dynoc.report(path)` and ``python -m dynoc --report out.html``: what became of a program, as one HTML file.

This module collects what is known of each function and of each line of its source. `_report_html` writes it down, `_report_graph`
draws graphs.
"""

import ast
import functools
import linecache
import os
import re
import sys
import time
from html import escape
from math import prod

from dynoc import _dynoc
from dynoc._explain import ITEM_BYTES, grouped, operations_in
from dynoc._profile import Step, functions_of

BROKE, LOOP, CAPTURED, EAGER = "broke", "loop", "captured", "eager"
WORTH = (BROKE, LOOP, CAPTURED, EAGER)  # of what happened to a line, the first is its colour
PLACE = re.compile(r"^(.*?):(\d+): in (.*)$", re.MULTILINE)
NODE = re.compile(r"^%(\d+): (\w+(?:\[[^\]]*\])?).*? = (\w+)", re.MULTILINE)
LIBRARY = os.path.dirname(os.__file__) + os.sep
OBJECT = 64  # DYN_NODE_OBJECT of src/ir/graph.h


def said_place(text):
    """(file, line) of the place that a reason's text names; None: it names none."""
    found = PLACE.search(text)
    return (found[1], int(found[2])) if found else None


def is_library(file):
    """Is it a file of Python's own or of a package that was installed, rather than the program's?"""
    return file.startswith(LIBRARY) or "site-packages" in file or file.startswith("<frozen")


class Entry:
    """What the report tells of a cache entry."""

    others = "not computed in a step of its own"  # as a frame of its graph's drawing is called

    def __init__(self, row):
        entry = row["entry"]
        self.number, self.hits, self.tier, self.source = entry.number, entry.hits, entry.tier, entry.source
        self.reason, self.why, self.failure, self.times = entry.reason, entry.why, entry.failure, entry.times
        self.made = entry._made
        self.guards = grouped(zip(entry._groups, entry.guards))
        self.text, self.data, self.steps = entry._text, entry._data, entry._steps
        self.operations = operations_in(self.text)
        self.timed = [Step(step) for step in row["steps"]]
        self.kinds = {int(n): (dtype, op) for n, dtype, op in NODE.findall(self.text)}

    def place_of(self, node):
        """(file, line) of a node; None: it has none."""
        place = self.data["nodes"][node]["place"]
        return None if place is None else place[:2]

    def bytes_of(self, node):
        """The memory that a node's elements took when it was recorded."""
        n = self.data["nodes"][node]
        if n["flags"] & OBJECT:
            return 0
        size = ITEM_BYTES[n["dtype"]] if n["dtype"] in ITEM_BYTES else int(n["dtype"][1:]) // 8
        return size * prod(self.data["symbols"][i]["value"] for i in n["shape"])

    def kernel_of(self):
        """{node: number of the step that computes it}; a value that several steps compute again is of the first."""
        found = {n: k for k, step in enumerate(self.steps) for n in step["outputs"]}
        for k, step in enumerate(self.steps):
            waiting = list(step["outputs"])
            while waiting:
                for kind, n in self.data["nodes"][waiting.pop()]["args"]:
                    if kind == "node" and n not in found and self.data["nodes"][n]["kind"] != "input":
                        found[n] = k
                        waiting.append(n)
        return found


class Function:
    """What the report tells of a function: the rows of its own cache and of its resume functions, together."""

    def __init__(self, row):
        self.name, self.file, self.line = row["function"], row["file"], row["line"]
        self.entries, self.refusals, self.loops, self.profile = [], [], [], None

    def add(self, row):
        self.entries += map(Entry, row["entries"])
        self.refusals += [text for text in row["refusals"] if text not in self.refusals]
        self.loops += [text for text in row["said of loops"] if text not in self.loops]
        self.entries.sort(key=lambda entry: entry.number)

    @property
    def hits(self):
        return sum(entry.hits for entry in self.entries)

    @property
    def breaks(self):
        return list(dict.fromkeys(entry.why for entry in self.entries if entry.why))

    @property
    def compile_seconds(self):
        return sum(sum(entry.times.values()) for entry in self.entries)


class Lines:
    """What happened to each line of each file: {file: {line: {(kind, note): None}}}, notes in the order in which they came."""

    def __init__(self):
        self.files = {}

    def add(self, place, kind, note):
        if place is not None:
            self.files.setdefault(place[0], {}).setdefault(place[1], {})[kind, note] = None

    def kind(self, file, line):
        """What colours a line; None: nothing was said of it."""
        kinds = {kind for kind, _ in self.files.get(file, {}).get(line, ())}
        return next((kind for kind in WORTH if kind in kinds), None)

    def notes(self, file, line):
        return list(self.files.get(file, {}).get(line, ()))


def note_entry(lines, entry):
    kernels = entry.kernel_of()
    for n, (_, op) in entry.kinds.items():
        if op != "input":
            step = entry.steps[kernels[n]] if n in kernels else None
            where = f" in {step['kind']} {kernels[n]} of entry {entry.number}" if step else f" in entry {entry.number}"
            lines.add(entry.place_of(n), CAPTURED, f"{op}{where}")
    if entry.why:
        lines.add(said_place(entry.why), BROKE, f"graph break: {entry.why.splitlines()[0]}")


@functools.cache  # a file is asked for by each of its functions and loops; a report begins anew
def blocks_of(file):
    """The functions, classes and loops of a file, as nodes; none where it can't be read."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    kinds = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.While
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def first_line(block):
    """Of a function or class with its decorators; of a loop."""
    return min([block.lineno, *(d.lineno for d in getattr(block, "decorator_list", ()))])


def note_loops(lines, function):
    for text in function.loops:
        state, _, said = text.partition(": ")
        place = said_place(said)
        if place is None or state != "native":
            continue
        loops = (b for b in blocks_of(place[0]) if isinstance(b, (ast.For, ast.While)) and b.lineno == place[1])
        last = next((loop.end_lineno for loop in loops), place[1])
        for line in range(place[1], last + 1):
            lines.add((place[0], line), LOOP, "runs as a native loop")


def note_eager(lines, function):
    """A function of which nothing was captured is CPython's, whole."""
    if function.entries or function.loops:
        return
    why = function.refusals[0].splitlines()[0] if function.refusals else "no call was captured"
    for block in blocks_of(function.file):
        if function.line in (first_line(block), block.lineno) and not isinstance(block, (ast.For, ast.While)):
            for line in range(block.body[0].lineno, block.end_lineno + 1):
                lines.add((function.file, line), EAGER, why)
            return


def lines_of(functions):
    lines = Lines()
    for function in functions:
        for entry in function.entries:
            note_entry(lines, entry)
        for text in function.refusals:
            lines.add(said_place(text), BROKE, f"not captured: {text.splitlines()[0]}")
        note_loops(lines, function)
        note_eager(lines, function)
    return lines


def stretches(file, noted, functions):
    """The parts of a file to show: (first, last) of the outermost functions with lines that something was said of, or that were
    looked at, and other lines with some around them."""
    blocks = [b for b in blocks_of(file) if not isinstance(b, (ast.For, ast.While))]
    wanted = {*noted, *(f.line for f in functions if f.file == file)}
    found = set()
    for line in sorted(wanted):
        around = [b for b in blocks if first_line(b) <= line <= b.end_lineno]
        outer = [b for b in around if not isinstance(b, ast.ClassDef)]
        if outer:
            b = min(outer, key=lambda b: b.lineno)
            found.add((first_line(b), b.end_lineno))
        else:
            found.add((max(1, line - 2), line + 2))
    merged = []
    for first, last in sorted(found):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


class Report:
    """All that the HTML is made from."""

    def __init__(self, rows, events=()):
        blocks_of.cache_clear()
        found = {}
        for row in rows:
            key = row["function"], row["file"], row["line"]
            found.setdefault(key, Function(row)).add(row)
        seen = (f for f in found.values() if f.entries or f.refusals or f.loops)
        self.functions = sorted(seen, key=lambda f: (is_library(f.file), -f.hits, f.file, f.line))
        profiles = {(p.name, p.place): p for p in functions_of(rows)}
        for f in self.functions:
            f.profile = profiles.get((f.name, f"{f.file}:{f.line}"))
        self.lines = lines_of(self.functions)
        self.events = list(events)
        self.counters = {group: dict(counts) for group, counts in _dynoc.counters.items()}
        self.program = " ".join(sys.argv) or "interactive"
        self.written = time.strftime("%Y-%m-%d %H:%M:%S")

    @property
    def files(self):
        """Each file with what to show of it, those of the program first."""
        files = {*self.lines.files, *(f.file for f in self.functions)}
        order = sorted(files, key=lambda file: (is_library(file), file))
        return [(file, stretches(file, self.lines.files.get(file, ()), self.functions)) for file in order]


class Written:
    """What `report` gives: a notebook shows the page."""

    def __init__(self, path, text):
        self.path, self._text = path, text

    def __repr__(self):
        return f"<dynoc report of {len(self._text)} characters{'' if self.path is None else f' in {self.path}'}>"

    def _repr_html_(self):
        return f'<iframe srcdoc="{escape(self._text)}" style="width: 100%; height: 40em; border: 1px solid #8888"></iframe>'


def report(path=None):
    """Write what dynoc made of this process so far into one HTML file, which needs no network.

    It shows the source of every function that was looked at, its lines coloured by what happened to them and why; graphs, guards
    and hits of each entry; when what was compiled; and the generated code. Times of kernels are in it where they were measured:
    under ``python -m dynoc --report``, in a block of `profile`, or with ``DYNOC_TRACE``.

    Parameters
    ----------
    path : str or path-like, optional
        The file. Left out, none is written.

    Returns
    -------
    object
        As which a notebook shows the page.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import dynoc
    >>> fast = dynoc.optimize(lambda x: np.cos(x) + np.sin(x), wait=True)
    >>> _ = fast(np.ones(4))
    >>> path = os.path.join(tempfile.mkdtemp(), "report.html")
    >>> _ = dynoc.report(path)
    >>> open(path).read().startswith("<!doctype html>")
    True
    """
    from dynoc import _report_html

    text = _report_html.page(Report(_dynoc._watched(True), _dynoc._peek()))
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return Written(path, text)
