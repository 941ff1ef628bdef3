"""What becomes of each public name of NumPy: docs/numpy_coverage.md, made by recording a sample call of each.

    tools/numpy_coverage.py            write the file
    tools/numpy_coverage.py --check        exit status 1 where it is out of date, with the lines that differ
    tools/numpy_coverage.py --names        exit status 1 where a public name has no sample
    tools/numpy_coverage.py --show NAME    the sample of one name and what dynoc says of it

Needs the built extension on the path. The samples are in numpy_samples.py; a public name without one is an error, so a new NumPy
is noticed. Run by tests/py/test_numpy_coverage.py.
"""

import contextlib
import difflib
import io
import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from numpy_samples import SAMPLES

import dynoc

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "numpy_coverage.md"
WORDS = {  # in this order
    "fused": "in the graph, compiled or a view",
    "value": "known when recording and guarded, or a size: nothing is left to do at a call",
    "extern": "in the graph as a call of NumPy's own function",
    "break": "run by NumPy between two graphs; the reason is a row of graph_breaks.md",
    "eager": "the function that calls it runs as plain Python",
}
REFUSED = {"__delitem__", "__hash__"}  # there to raise
ARGUMENTS = "x y m n i j b c u s d t nan f k g folder"


def public(module):
    return {name for name in [*dir(module), *getattr(module, "__all__", [])] if not name.startswith("_")}


def public_names():
    """Section titles that are whole name spaces, and the names they have to have; None: what is left of numpy's own."""
    own = {"__version__", "__array_namespace_info__"} | public(np)
    dunder = {name for name in vars(np.ndarray) if name.startswith("__")} - REFUSED
    return {
        "Methods of universal functions": public(np.ufunc),
        "Methods and properties of ndarray": public(np.ndarray),
        "Operators and protocols of ndarray": dunder,
        "numpy.lib.stride_tricks": public(np.lib.stride_tricks),
        "numpy.linalg": public(np.linalg),
        "numpy.fft": public(np.fft),
        "numpy.random.Generator": public(np.random.Generator),
        "numpy.polynomial": public(np.polynomial),
        None: own,
    }


def missing_names():
    """Public names that have no sample."""
    spaces = public_names()
    shared = {name for title, samples in SAMPLES.items() if title not in spaces for name in samples}
    return sorted(
        f"{title or 'numpy'}: {name}"
        for title, names in spaces.items()
        for name in names - (shared if title is None else SAMPLES[title].keys())
    )


def make_arguments(folder):
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=12), np.sort(rng.normal(size=12))
    a, b = rng.normal(size=(2, 4, 4))
    return {
        "x": x,
        "y": y,
        "m": a @ a.T + np.eye(4),
        "n": b @ b.T + np.eye(4),
        "i": rng.integers(0, 6, 12),
        "j": rng.integers(1, 6, 12),
        "b": x > 0,
        "c": x + 1j * y,
        "u": np.arange(12, dtype=np.uint8),
        "s": np.array(["ab", "c", "de"]),
        "d": np.array(["2020-01-01", "2020-01-02", "2021-01-01"], dtype="datetime64[D]"),
        "t": rng.normal(size=(3, 4, 5)),
        "nan": np.where(x > 1, np.nan, x),
        "f": 2.5,
        "k": 2,
        "g": np.random.default_rng(5),
        "folder": folder,
    }


def prepare(folder):
    np.arange(5.0).tofile(folder + "/x.raw")
    np.save(folder + "/x.npy", np.arange(5.0))
    Path(folder, "x.txt").write_text("1\n2\n3\n")


def source_of(sample):
    """The function that is recorded: array work before the sample, so that a break in it has something to break."""
    statements = sample if "r = " in sample else f"r = {sample}"
    first, _, second = statements.partition("; ")
    lines = [f"def sample({', '.join(ARGUMENTS.split())}):", "    before = x * 2.0", f"    {first}"]
    lines += [f"    {second}"] if second else []
    return "\n".join([*lines, "    return before, r", ""])


class Reasons(logging.Handler):
    def __init__(self):
        super().__init__()
        self.found = []

    def emit(self, record):
        """`callee CODE: …`, `break CODE: …`, `refused CODE: …`"""
        self.found.append(tuple(record.getMessage().split(":")[0].split()[-2:]))

    def first(self, *kinds):
        return next((code for kind, code in self.found if kind in kinds), "")


def failures():
    """How many graphs could not be compiled so far, by reason."""
    return dict(dynoc.counters.get("graphs_failed", {}))


def classify(sample, folder, reasons):
    """(word, reason): what a recording of the sample makes of it."""
    space = {"np": np}
    exec(compile(source_of(sample), "<sample>", "exec"), space)
    fast = dynoc.optimize(space["sample"], wait=False)
    reasons.found.clear()
    before = failures()
    prepare(folder)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        fast(**make_arguments(folder))
    nodes = [line for entry in fast.entries for line in str(entry.graph).splitlines() if line.startswith("%")]
    work = [line for line in nodes if " = input(" not in line]
    if failures() != before:
        return "eager", "LOWERING"
    if not work:
        return "eager", reasons.first("refused")
    if any(entry.reason for entry in fast.entries):
        return "break", reasons.first("callee", "break")
    if len(work) == 1:
        return "value", ""
    return "extern" if any("= extern " in line for line in work) else "fused", ""


def classify_all():
    """{section: {name: (word, reason)}} of the names that this NumPy has."""
    reasons, logger = Reasons(), logging.getLogger("dynoc.graph_breaks")
    dynoc.set_logs(graph_breaks=True)
    logger.addHandler(reasons)
    logger.propagate = False
    spaces = public_names()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for title, samples in SAMPLES.items():
            names = spaces.get(title, spaces[None])
            found[title] = {name: classify(samples[name], folder, reasons) for name in sorted(samples.keys() & names)}
    return found


def wrapped(text, indent="  "):
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + len(word) > 125:
            lines.append(line)
            line = indent
        line += ("" if line in ("", indent) else " ") + word
    return "\n".join([*lines, line])


def document(found):
    total = {word: sum(row[0] == word for rows in found.values() for row in rows.values()) for word in WORDS}
    count = sum(total.values())
    lines = ["# What becomes of each public name of NumPy", ""]
    lines += [
        wrapped(
            f"Made by tools/numpy_coverage.py with NumPy {'.'.join(np.__version__.split('.')[:2])}: one sample call of each "
            f"of the {count} names was recorded (tools/numpy_samples.py). Other arguments of the same function may fare "
            "otherwise: a dtype, `axis` or `out=` that has no rule is a break.",
            "",
        ),
        "",
        "| word | names | what it means |",
        "|---|---|---|",
        *(f"| {word} | {total[word]} | {meaning} |" for word, meaning in WORDS.items()),
    ]
    for title, rows in found.items():
        lines += ["", f"## {title}", ""]
        groups = {}
        for name, (word, reason) in rows.items():
            groups.setdefault((list(WORDS).index(word), reason), []).append(f"`{name}`")
        for (word, reason), names in sorted(groups.items()):
            label = list(WORDS)[word] + (f" ({reason})" if reason else "")
            lines.append(wrapped(f"- {label}: {' '.join(names)}"))
    return "\n".join(lines) + "\n"


def show(name):
    reasons = Reasons()
    logging.getLogger("dynoc.graph_breaks").addHandler(reasons)
    dynoc.set_logs(graph_breaks=True, graph=True)
    with tempfile.TemporaryDirectory() as folder:
        for title, samples in SAMPLES.items():
            if name in samples:
                print(f"{title}\n{source_of(samples[name])}")
                print(*classify(samples[name], folder, reasons))


def main(arguments):
    os.chdir(tempfile.gettempdir())  # dynoc reads the pyproject.toml of the working directory
    if arguments[:1] == ["--show"]:
        return show(arguments[1])
    missing = missing_names()
    if missing:
        return "tools/numpy_samples.py has no sample for\n  " + "\n  ".join(missing)
    if arguments == ["--names"]:
        return None
    text = document(classify_all())
    if arguments == ["--check"]:
        before = DOCUMENT.read_text() if DOCUMENT.exists() else ""
        lines = before.splitlines(), text.splitlines()
        changes = difflib.unified_diff(*lines, "docs/numpy_coverage.md", "as recorded", n=0, lineterm="")
        return "\n".join(changes) or None
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of strings are walked in the same order every time
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main(sys.argv[1:]))
