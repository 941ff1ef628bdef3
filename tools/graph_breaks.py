"""Writes docs/graph_breaks.md from the table of reasons, src/base/reasons.def. `make check` holds the two together."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "base" / "reasons.def"
TARGET = ROOT / "docs" / "graph_breaks.md"
ROW = re.compile(r'^REASON\((\w+),\s*(\w+),\s*"((?:[^"\\]|\\.)*)",\s*"((?:[^"\\]|\\.)*)"\)', re.M)
SECTIONS = {
    "BREAK": "Graph breaks: the instruction runs as plain Python, and recording goes on behind it in a new graph",
    "ARRAY": "Graph breaks for an array or tensor that isn't captured: the operation runs as plain Python, and recording goes on",
    "BAIL": "Recording stops: what was captured before is kept, CPython runs the rest of the call",
    "REFUSE": "Nothing is recorded: the function, or this call of it, runs as plain Python",
    "BACKEND": "Building failed: the function runs as plain Python",
}


def text():
    rows = ROW.findall(SOURCE.read_text())
    lines = [
        "# Why a graph is broken",
        "",
        "The code is what `dynoc.counters` counts under and what the log `graph_breaks` shows. Made from src/base/reasons.def by",
        "tools/graph_breaks.py.",
    ]
    for where, title in SECTIONS.items():
        lines += ["", f"## {title}", "", "| code | what happened | what to do |", "|---|---|---|"]
        lines += [f"| `{code}` | {message} | {hint} |" for code, kind, message, hint in rows if kind == where]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text())
