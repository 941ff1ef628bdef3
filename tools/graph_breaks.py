"""Writes docs/graph_breaks.md and docs/reasons/ from the table of reasons, src/base/reasons.def, and tools/reason_texts.py.

`make check` holds them together.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "base" / "reasons.def"
TARGET = ROOT / "docs" / "graph_breaks.md"
PAGES = ROOT / "docs" / "reasons"
sys.path.insert(0, str(ROOT / "tools"))
from reason_texts import TEXTS  # noqa: E402

ROW = re.compile(r'^REASON\((\w+),\s*(\w+),\s*"((?:[^"\\]|\\.)*)",\s*"((?:[^"\\]|\\.)*)"\)', re.M)
SECTIONS = {
    "BREAK": "Graph breaks: the instruction runs as plain Python, and recording goes on behind it in a new graph",
    "ARRAY": "Graph breaks for an array or tensor that isn't captured: the operation runs as plain Python, and recording goes on",
    "BAIL": "Recording stops: what was captured before is kept, CPython runs the rest of the call",
    "REFUSE": "Nothing is recorded: the function, or this call of it, runs as plain Python",
    "BACKEND": "Building failed: the function runs as plain Python",
}


def row(code, message, hint):
    return f"| [`{code}`](reasons/{code}.md) | {message} | {hint} |"


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
        lines += [row(code, message, hint) for code, kind, message, hint in rows if kind == where]
    return "\n".join(lines) + "\n"


def pages():
    """{path: text} of a page for each reason. A reason without a text, and a text without a reason, is an error."""
    rows = {code: (where, message, hint) for code, where, message, hint in ROW.findall(SOURCE.read_text())}
    if set(rows) != set(TEXTS):
        raise ValueError(f"reason_texts.py and reasons.def differ in {', '.join(sorted(set(rows) ^ set(TEXTS)))}")
    made = {}
    for code, (where, message, hint) in rows.items():
        what = f"*{SECTIONS[where]}.*"
        parts = [f"# {code}", f"{message[0].upper()}{message[1:]}.", what, TEXTS[code], f"In short: {hint}."]
        links = "All reasons: [graph_breaks.md](../graph_breaks.md). Finding out more: [debugging.md](../debugging.md)."
        made[PAGES / f"{code}.md"] = "\n\n".join([*parts, links]) + "\n"
    return made


def wrong():
    """Paths of documents that aren't as they would be made."""
    wanted = {TARGET: text(), **pages()}
    there = {TARGET, *PAGES.glob("*.md")}
    return sorted(path for path in there | set(wanted) if not path.exists() or path.read_text() != wanted.get(path))


def main():
    PAGES.mkdir(exist_ok=True)
    for path in PAGES.glob("*.md"):
        path.unlink()
    for path, content in {TARGET: text(), **pages()}.items():
        path.write_text(content)


if __name__ == "__main__":
    main()
