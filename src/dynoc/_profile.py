"""`dynoc.profile()` and ``DYNOC_TRACE=file.json``: where the time of calls goes.

What is measured is added up in C while somebody watches (src/base/watch.h); here it is collected, printed and written.
"""

import json
import os

from dynoc import _dynoc

ADD_UP, LIST = 1, 2  # DYN_WATCH_* of src/base/watch.h
COPY_BYTES = 1 << 25  # that each thread copies to measure the machine
MOST_STEPS = 6  # of one function that a printed profile has
SMALL = 4096  # bytes: what moves less isn't about memory
bandwidth = None  # what memory_bandwidth() found


def memory_bandwidth():
    """Bytes a second that this machine reads and writes when all threads of dynoc copy memory that no cache holds."""
    global bandwidth
    if bandwidth is None:
        import time
        from concurrent.futures import ThreadPoolExecutor

        import numpy as np

        n = _dynoc.get_config("threads") or len(os.sched_getaffinity(0))
        pairs = [(np.ones(COPY_BYTES // 8), np.ones(COPY_BYTES // 8)) for _ in range(n)]
        with ThreadPoolExecutor(n) as pool:
            least = float("inf")
            for _ in range(5):
                start = time.perf_counter()
                list(pool.map(lambda pair: np.copyto(*pair), pairs))
                least = min(least, time.perf_counter() - start)
        bandwidth = 2 * COPY_BYTES * n / least
    return bandwidth


def readable(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


class Step:
    """A kernel, a product or an extern call of a graph: how often it ran, how long, and what it moved.

    Attributes
    ----------
    kind : str
        ``"kernel"``, ``"product"`` (of matrices, made by dynoc) or ``"extern"`` (NumPy's or PyTorch's own
        function) or ``"loop"`` (a native loop).
    name : str
        Its operators.
    place : str
        ``file:line`` of the first of them.
    calls : int
    seconds : float
    bytes : int
        What kernels had to read and write at least.
    """

    def __init__(self, row):
        self.kind, self.name, self.calls, self.seconds, self.bytes = (
            row[name] for name in ("kind", "name", "calls", "seconds", "bytes")
        )
        self.place = f"{row['file']}:{row['line']}" if row["file"] else ""

    @property
    def bytes_per_second(self):
        """What it moved in a second, or None where nothing was counted."""
        return self.bytes / self.seconds if self.bytes and self.seconds else None

    def __repr__(self):
        return f"<dynoc step {self.name}: {self.calls} calls, {readable(self.seconds)}>"


class Function:
    """What the calls of one function took.

    Attributes
    ----------
    name, place : str
        Its qualified name, and ``file:line``.
    calls : int
        Calls that came to dynoc.
    hits : int
        … that an entry served.
    guards, kernels, products, extern, loops, other : float
        Seconds until it was known which entry serves a call; in kernels; in products of matrices; in functions of NumPy and
        PyTorch that a graph calls; in native loops; and in what else there is: memory for results, Python objects made anew.
        What plain Python does is in none of them.
    steps : list of Step
        The parts of its graphs, the longest first.
    entries : list
        As ``fast.entries`` has them, those that served calls.
    """

    def __init__(self, row):
        self.name, self.place = row["function"], f"{row['file']}:{row['line']}"
        self.calls = self.hits = 0
        self.guards = self._run = 0.0
        self.steps, self.entries = [], []

    def _add(self, row):
        if not row["resumed"]:  # a resume function's calls are parts of calls
            self.calls += row["hits"] + row["missed"]
            self.hits += row["hits"]
        self.guards += row["guards"]
        self._run += row["run"]
        for entry in row["entries"]:
            self.entries.append(entry["entry"])
            self.steps += map(Step, entry["steps"])
        self.steps += map(Step, row["loops"])
        self.steps.sort(key=lambda step: -step.seconds)

    def _of(self, kind):
        return sum(step.seconds for step in self.steps if step.kind == kind)

    @property
    def kernels(self):
        return self._of("kernel")

    @property
    def products(self):
        return self._of("product")

    @property
    def extern(self):
        return self._of("extern")

    @property
    def loops(self):
        return self._of("loop")

    @property
    def other(self):
        return max(0.0, self._run - self.kernels - self.products - self.extern)

    @property
    def seconds(self):
        """All that dynoc did for it."""
        return self.guards + self.kernels + self.products + self.extern + self.loops + self.other

    def __repr__(self):
        return f"<dynoc profile of {self.name}: {self.calls} calls, {readable(self.seconds)}>"


def functions_of(rows):
    """`Function` objects, the longest first."""
    found = {}
    for row in rows:
        key = row["function"], row["file"], row["line"]
        found.setdefault(key, Function(row))._add(row)
    return sorted(found.values(), key=lambda function: -function.seconds)


class profile:
    """``with dynoc.profile() as p:`` measures where the time of dynoc's calls goes in the block, in all threads.

    Attributes
    ----------
    functions : list
        What each function took, the longest first; each has ``calls``, ``hits``, ``guards``, ``kernels``, ``products``,
        ``extern``, ``loops``, ``other`` and ``seconds``, and its ``steps`` with ``bytes_per_second``. There when the block has
        ended.

    Notes
    -----
    Calls take some 0.2 µs longer, and steps 0.1 µs, while they are measured; the figures have that in them. Of functions and
    entries that died in the block nothing is told. What a function leaves to CPython isn't measured: ``cProfile`` can't be used
    for it, as dynoc steps aside under a profiler; use ``perf`` or a sampling profiler.

    Examples
    --------
    >>> import numpy as np
    >>> import dynoc
    >>> fast = dynoc.optimize(lambda x: np.cos(x) + np.sin(x), wait=True)
    >>> _ = fast(np.ones(1000))
    >>> with dynoc.profile() as p:
    ...     for _ in range(10):
    ...         _ = fast(np.ones(1000))
    >>> p.functions[0].calls, p.functions[0].hits, [step.name for step in p.functions[0].steps]
    (10, 10, ['cos, sin, add'])
    """

    def __init__(self):
        self.functions = []

    def __enter__(self):
        _dynoc._watch(_dynoc._watching() & ~ADD_UP)
        _dynoc._watch(_dynoc._watching() | ADD_UP)
        return self

    def __exit__(self, *_):
        self.functions = functions_of(_dynoc._watched(False))
        _dynoc._watch(_dynoc._watching() & ~ADD_UP)

    def __repr__(self):
        return f"<dynoc profile: {len(self.functions)} functions>"

    def _repr_html_(self):
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self):
        if not self.functions:
            return "dynoc profile: no optimised function was called"
        lines = ["dynoc profile       calls     hits    guards   kernels  products    extern     loops     other"]
        moves = False
        for f in self.functions:
            parts = (f.guards, f.kernels, f.products, f.extern, f.loops, f.other)
            lines.append(f"{f.name}  ({f.place})")
            lines.append(f"{f.calls:>25}{f.hits:>9}" + "".join(f"{readable(seconds):>10}" for seconds in parts))
            for step in f.steps[:MOST_STEPS]:
                moved = step.bytes_per_second
                speed = f"  {moved / 1e9:.3g} GB/s" if moved and step.bytes >= SMALL * step.calls else ""
                moves = moves or bool(speed)
                lines.append(f"    {step.kind:<8}{readable(step.seconds / step.calls):>9} x{step.calls:<8}{step.name}{speed}")
            if len(f.steps) > MOST_STEPS:
                lines.append(f"    … and {len(f.steps) - MOST_STEPS} more (.steps)")
        if moves:
            lines.append(f"memory of this machine: {memory_bandwidth() / 1e9:.3g} GB/s (what fits a cache is faster)")
        return "\n".join(lines)


def watch_all():
    """Add times up and list events from now on, for a report of all that the process does."""
    _dynoc._watch(ADD_UP | LIST)


# ---- traces


SECOND_COMPILER = 1 << 30  # above any thread's number


def as_chrome(events, process):
    """Events as Chrome's and Perfetto's trace viewers read them: those of a thread lie within one another or apart."""
    rows, ends = [], [0]  # of each compiler that runs beside others: when its last run ends
    for kind, name, start, ns, moved, thread in events:
        row = {"name": name, "cat": kind, "ph": "X", "ts": start / 1e3, "dur": ns / 1e3, "pid": process, "tid": thread}
        if moved:
            row["args"] = {"bytes": moved, "GB/s": round(moved / max(ns, 1), 2)}
        rows.append(row)
    for row in sorted((row for row in rows if row["cat"] == "build"), key=lambda row: row["ts"]):  # whichever thread tells of it
        lane = next((i for i, end in enumerate(ends) if end <= row["ts"]), len(ends))
        ends[lane:lane + 1] = [row["ts"] + row["dur"]]
        row["tid"] = lane and SECOND_COMPILER + lane
    named = {0: "compiler"} | {SECOND_COMPILER + i: f"compiler {i + 1}" for i in range(1, len(ends))}
    names = [{"name": "process_name", "ph": "M", "pid": process, "args": {"name": "dynoc"}}]
    names += [{"name": "thread_name", "ph": "M", "pid": process, "tid": i, "args": {"name": name}} for i, name in named.items()]
    return {"traceEvents": names + rows, "displayTimeUnit": "ns"}


def write_trace(path):
    """Write the events so far into a file; what goes wrong is a warning."""
    events = _dynoc._events()
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(as_chrome(events, os.getpid()), file)
    except OSError as error:
        from dynoc import _logs

        _logs.warn(f"DYNOC_TRACE: {error}")


trace = {"path": "", "process": 0}  # where to, and whose it is: a child of a fork has none of it


def end_trace():
    if trace["path"] and trace["process"] == os.getpid():
        write_trace(trace["path"])


def trace_to(path):
    """List events from now on, for a file that is written when the program ends. "": there is to be none."""
    if path and not trace["process"]:
        import atexit

        atexit.register(end_trace)
    trace.update(path=os.path.abspath(path) if path else "", process=os.getpid())
    _dynoc._watch(_dynoc._watching() | LIST if path else _dynoc._watching() & ~LIST)
    if not path:
        _dynoc._events()
