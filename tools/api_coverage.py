"""What the reports of coverage share (numpy_coverage.py, torch_coverage.py): a call is recorded and what became of it is a word,
and a document lists the names by words.

    TOOL               write the document
    TOOL --check       exit status 1 where it is out of date, with the lines that differ
    TOOL --names       exit status 1 where a public name has no sample
    TOOL --show NAME   the sample of one name and what dynoc says of it
"""

import contextlib
import difflib
import io
import logging
import os
import re
import sys
import tempfile
import warnings

import dynoc


def words(library):
    """In this order."""
    return {
        "fused": "in the graph, compiled or a view",
        "value": "known when recording and guarded, or a size: nothing is left to do at a call",
        "extern": f"in the graph as a call of {library}'s own function",
        "break": f"run by {library} between two graphs; the reason is a row of graph_breaks.md",
        "eager": "the function that calls it runs as plain Python",
    }


class Reasons(logging.Handler):
    def __init__(self):
        super().__init__()
        self.found = []

    def emit(self, record):
        """`callee CODE: …`, `break CODE: …`, `refused CODE: …`"""
        self.found.append(tuple(record.getMessage().split(":")[0].split()[-2:]))

    def first(self, *kinds):
        return next((code for kind, code in self.found if kind in kinds), "")

    def listen(self, **also):
        dynoc.set_logs(graph_breaks=True, **also)
        logging.getLogger("dynoc.graph_breaks").addHandler(self)
        return self


def failures():
    """How many graphs could not be compiled so far, by reason."""
    return dict(dynoc.counters.get("graphs_failed", {}))


def classify(function, arguments, reasons):
    """(word, reason): what a recording of the call makes of it. One operation of the function is not the sample's."""
    fast = dynoc.optimize(function, wait=False)
    reasons.found.clear()
    before = failures()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        fast(*arguments)
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
    return "extern" if any(re.search(r"= \w+ [^\s(]+\(", line) for line in work) else "fused", ""


def wrapped(text, indent="  "):
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + len(word) > 125:
            lines.append(line)
            line = indent
        line += ("" if line in ("", indent) else " ") + word
    return "\n".join([*lines, line])


def document(title, introduction, meanings, found):
    """`found`: {section: {name: (word, reason)}}; {count} in the introduction is the number of names."""
    total = {word: sum(row[0] == word for rows in found.values() for row in rows.values()) for word in meanings}
    lines = [f"# {title}", "", wrapped(introduction.format(count=sum(total.values())), ""), ""]
    lines += ["| word | names | what it means |", "|---|---|---|"]
    lines += [f"| {word} | {total[word]} | {meaning} |" for word, meaning in meanings.items()]
    for section, rows in found.items():
        lines += ["", f"## {section}", ""]
        groups = {}
        for name, (word, reason) in rows.items():
            groups.setdefault((list(meanings).index(word), reason), []).append(f"`{name}`")
        for (word, reason), names in sorted(groups.items()):
            label = list(meanings)[word] + (f" ({reason})" if reason else "")
            lines.append(wrapped(f"- {label}: {' '.join(names)}"))
    return "\n".join(lines) + "\n"


def main(arguments, path, missing_names, report, show):
    """`report`: gives the text of the document; `show`: prints one name's sample."""
    os.chdir(tempfile.gettempdir())  # dynoc reads the pyproject.toml of the working directory
    if arguments[:1] == ["--show"]:
        return show(arguments[1])
    missing = missing_names() if arguments != ["--check"] else []
    if missing:
        return "there is no sample for\n  " + "\n  ".join(missing)
    if arguments == ["--names"]:
        return None
    text = report()
    if arguments == ["--check"]:
        before = path.read_text() if path.exists() else ""
        lines = before.splitlines(), text.splitlines()
        changes = difflib.unified_diff(*lines, f"docs/{path.name}", "as recorded", n=0, lineterm="")
        return "\n".join(changes) or None
    path.write_text(text)


def same_order_of_sets():
    """Sets of strings are walked in the same order every time: the program starts again with a fixed seed of hashes."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
