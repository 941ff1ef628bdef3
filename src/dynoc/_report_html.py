"""The report as one HTML file: `page` writes a `_report.Report` down.

Style and script are put in, from report.css and report.js; nothing is loaded.
"""

import io
import keyword
import linecache
import os
import platform
import re
import tokenize
from html import escape

import dynoc
from dynoc._explain import count, readable_bytes, readable_time
from dynoc._profile import SMALL, memory_bandwidth, readable
from dynoc._report import BROKE, CAPTURED, EAGER, LOOP, is_library
from dynoc._report_graph import svg

MEANINGS = {
    CAPTURED: "captured: runs in a graph",
    LOOP: "native loop",
    BROKE: "graph break, or not captured",
    EAGER: "plain Python: nothing was captured",
}
BARS = {"record": "recorded (runs the program)", "compile": "stages", "build": "C compiler or disk cache"}
C_WORDS = (
    "static inline const void char short int long float double unsigned signed if else for while do return struct typedef union "
    "break continue switch case default sizeof volatile extern restrict bool"
)
C_TOKENS = re.compile(
    r"(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<pre>^[ \t]*#[^\n]*)|(?P<string>\"(?:\\.|[^\"\\])*\")|(?P<number>\b\d[\w.]*\b)"
    rf"|(?P<word>\b(?:{'|'.join(C_WORDS.split())})\b)",
    re.MULTILINE | re.DOTALL,
)
NAMES = {tokenize.STRING: "string", tokenize.COMMENT: "comment", tokenize.NUMBER: "number"}


def highlighted_c(text):
    """C with a span around each comment, directive, string, number and word of the language."""
    parts, at = [], 0
    for found in C_TOKENS.finditer(text):
        parts.append(escape(text[at : found.start()], quote=False))
        parts.append(f'<span class="{found.lastgroup}">{escape(found[0], quote=False)}</span>')
        at = found.end()
    return "".join([*parts, escape(text[at:], quote=False)])


def spans_of(source):
    """{line: [(column, end column, class)]} of Python source; as far as it can be read."""
    spans = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            kind = NAMES.get(token.type)
            if token.type == tokenize.NAME and keyword.iskeyword(token.string):
                kind = "word"
            if kind is None:
                continue
            for line in range(token.start[0], token.end[0] + 1):
                start = token.start[1] if line == token.start[0] else 0
                end = token.end[1] if line == token.end[0] else None
                spans.setdefault(line, []).append((start, end, kind))
    except (tokenize.TokenError, SyntaxError):
        pass
    return spans


def highlighted_line(text, spans):
    parts, at = [], 0
    for start, end, kind in spans:
        end = len(text) if end is None else end
        parts.append(escape(text[at:start], quote=False))
        parts.append(f'<span class="{kind}">{escape(text[start:end], quote=False)}</span>')
        at = end
    return "".join([*parts, escape(text[at:], quote=False)])


# ---- parts of the page


def table(heads, rows, kind=""):
    """Rows are lists of HTML."""
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def place_link(file, line):
    return f'<a href="#{anchor(file, line)}">{escape(os.path.basename(file))}:{line}</a>'


def anchor(file, line):
    return "L" + re.sub(r"\W", "-", file) + f"-{line}"


def overview(report):
    rows = []
    for i, f in enumerate(report.functions):
        p = f.profile
        cells = [f'<a href="#f{i}">{escape(f.name)}</a>', place_link(f.file, f.line), len(f.entries), f.hits]
        cells += [len(f.breaks), len(f.refusals), readable_time(f.compile_seconds) if f.entries else ""]
        measured = p is not None and p.seconds > 0
        times = (p.guards, p.kernels, p.extern, p.loops) if measured else (0, 0, 0, 0)
        cells += [readable(seconds) if seconds else "" for seconds in times]
        rows.append(cells)
    heads = ("function", "place", "entries", "hits", "breaks", "not captured", "recorded and compiled")
    return table((*heads, "guards", "kernels", "extern", "loops"), rows, "functions")


def kernels(report):
    """The steps that were measured, the longest first, with their bandwidth beside the machine's."""
    steps = [(f, step) for f in report.functions if f.profile for step in f.profile.steps]
    if not steps:
        return "<p>No times were measured: run <code>python -m dynoc --report</code>, or use <code>dynoc.profile()</code>.</p>"
    whole = sum(step.seconds for _, step in steps)
    most = memory_bandwidth()
    rows = []
    for f, step in sorted(steps, key=lambda pair: -pair[1].seconds):
        file, _, line = step.place.rpartition(":")
        speed = step.bytes_per_second if step.bytes >= SMALL * step.calls else None
        share = 100 * step.seconds / whole
        bar = f'<span class="bar"><i style="width:{share:.1f}%"></i></span> {share:.0f} %'
        part = min(100.0, 100 * speed / most) if speed else 0
        moved = f'<span class="bar"><i style="width:{part:.1f}%"></i></span> {speed / 1e9:.3g} GB/s' if speed else ""
        cells = [escape(step.name), step.kind, escape(f.name), place_link(file, int(line)) if file else "", step.calls]
        rows.append([*cells, readable(step.seconds / step.calls), readable(step.seconds), bar, moved])
    heads = ("step", "kind", "function", "place", "calls", "each", "all", "share", f"bandwidth (memory: {most / 1e9:.3g} GB/s)")
    return table(heads, rows, "steps")


def bars_of(report):
    """(row, what, start, seconds, hint) of what is in the timeline."""
    bars = []
    for f in report.functions:
        for entry in f.entries:
            recorded, compiled = entry.times["record"], sum(entry.times.values()) - entry.times["record"]
            name = f"{f.name}, entry {entry.number}"
            bars.append(("functions", "record", entry.made - recorded, recorded, f"{name}: recorded"))
            bars.append(("functions", "compile", entry.made, compiled, f"{name}: compiled, without the C compiler"))
    for kind, name, start, ns, _, _ in report.events:
        if kind == "build":
            bars.append(("C compiler", "build", start * 1e-9, ns * 1e-9, name))
    return bars


def timeline(report):
    """When functions were recorded and compiled, and when the C compiler ran."""
    bars = bars_of(report)
    if not bars:
        return "<p>Nothing was compiled.</p>"
    first, last = min(b[2] for b in bars), max(b[2] + b[3] for b in bars)
    width, whole = 1000, max(last - first, 1e-9)
    rows = {name: 24 + 34 * i for i, name in enumerate(dict.fromkeys(b[0] for b in bars))}
    parts = [f'<text x="0" y="{y - 6}">{name}</text>' for name, y in rows.items()]
    for row, kind, start, seconds, hint in bars:
        x, length = (start - first) / whole * width, max(1.0, seconds / whole * width)
        hint = escape(f"{hint}, {readable(seconds)}, {readable(start - first)} behind the first")
        corner = f'x="{x:.1f}" y="{rows[row]}" width="{length:.1f}" height="16"'
        parts.append(f'<rect class="{kind}" {corner}><title>{hint}</title></rect>')
    height = max(rows.values()) + 40
    parts.append(f'<text x="0" y="{height - 8}">0</text><text class="end" x="{width}" y="{height - 8}">{readable(whole)}</text>')
    legend = " ".join(f'<span class="key {kind}">{text}</span>' for kind, text in BARS.items())
    drawn = f'<svg class="timeline" viewBox="0 0 {width} {height}" role="img" aria-label="timeline">{"".join(parts)}</svg>'
    return f"<p>{legend}</p>{drawn}"


def reasons(heading, texts):
    return "".join(f'<div class="reason"><h4>{escape(heading)}</h4><pre>{escape(text)}</pre></div>' for text in texts)


def guards(entry):
    groups = (
        f"<details><summary>{escape(heading)}: {len(texts)}</summary><pre>{escape(chr(10).join(texts))}</pre></details>"
        for heading, texts in entry.guards.items()
    )
    return f"<h4>{count(sum(map(len, entry.guards.values())), 'guard')}</h4>{''.join(groups)}"


def steps_table(entry):
    rows = []
    for k, step in enumerate(entry.steps):
        moved = sum(map(entry.bytes_of, step["outputs"]))
        rows.append([k, step["kind"], escape(step["name"]), ", ".join(f"%{n}" for n in step["outputs"]), readable_bytes(moved)])
    return table(("step", "kind", "operators", "makes", "writes"), rows) if rows else ""


def entry_part(entry):
    tags = [f"tier {entry.tier}", count(entry.hits, "hit"), count(entry.operations, "operation")]
    tags += [f"ends at {entry.reason}"] if entry.reason else []
    tags += [f"runs as plain Python: {entry.failure}"] if entry.failure else []
    parts = [guards(entry), f"<h4>graph</h4>{svg(entry)}{steps_table(entry)}"]
    parts.append(f"<details><summary>graph as text</summary><pre>{escape(entry.text)}</pre></details>")
    times = ", ".join(f"{stage} {readable(seconds)}" for stage, seconds in entry.times.items())
    parts.append(f"<p>{times}</p>")
    if entry.source:
        code = highlighted_c(entry.source)
        parts.append(f'<details class="code"><summary>generated code</summary><pre>{code}</pre></details>')
    title = f"<summary>entry {entry.number} <small>{escape(' · '.join(tags))}</small></summary>"
    return f'<details class="entry">{title}{"".join(parts)}</details>'


def status_of(report, f):
    kinds = {report.lines.kind(f.file, line) for line in report.lines.files.get(f.file, ())} if not f.entries else set()
    found = [CAPTURED] if any(e.operations for e in f.entries) else []
    found += [BROKE] if f.breaks or f.refusals else []
    found += [LOOP] if any(text.startswith("native: ") for text in f.loops) else []
    return found or ([EAGER] if EAGER in kinds or not f.entries else [CAPTURED])


def function_part(report, i, f):
    parts = [reasons("graph break", f.breaks), reasons("not captured", f.refusals), reasons("loop", f.loops)]
    parts += map(entry_part, f.entries)
    kinds = " ".join(status_of(report, f))
    entries = f"{len(f.entries)} entr{'y' if len(f.entries) == 1 else 'ies'}"
    title = f"{escape(f.name)} <small>{place_link(f.file, f.line)} · {entries}, {count(f.hits, 'hit')}</small>"
    return f'<section class="function" id="f{i}" data-kinds="{kinds}"><h3>{title}</h3>{"".join(parts)}</section>'


def source_line(report, file, line, spans):
    text = linecache.getline(file, line).rstrip("\n")
    kind = report.lines.kind(file, line) or ""
    notes = report.lines.notes(file, line)
    said = "\n".join(dict.fromkeys(note for _, note in notes))
    shown = next((note for k, note in notes if k == kind), "")
    more = f" +{len(said.splitlines()) - 1}" if len(said.splitlines()) > 1 else ""
    note = f'<span class="note">{escape(shown)}{more}</span>' if shown else ""
    return (
        f'<div class="line {kind}" id="{anchor(file, line)}" title="{escape(said)}"><span class="no">{line}</span>'
        f"<code>{highlighted_line(text, spans.get(line, ()))}</code>{note}</div>"
    )


def file_part(report, file, parts):
    source = "".join(linecache.getlines(file))
    spans = spans_of(source)
    if not source:
        return f'<details class="file"><summary>{escape(file)} <small>its source is not there</small></summary></details>'
    shown = (
        f'<div class="stretch">{"".join(source_line(report, file, line, spans) for line in range(first, last + 1))}</div>'
        for first, last in parts
    )
    is_open = "" if is_library(file) else " open"
    kinds = {report.lines.kind(file, line) for line in report.lines.files.get(file, ())} - {None}
    return (
        f'<details class="file" data-kinds="{" ".join(sorted(kinds))}"{is_open}><summary>{escape(file)}</summary>'
        f"{''.join(shown)}</details>"
    )


def counters(report):
    counted = ((group, key, n) for group, counts in sorted(report.counters.items()) for key, n in sorted(counts.items()))
    return table(("group", "counter", "n"), [[escape(group), escape(str(key)), n] for group, key, n in counted])


def beside(name):
    """A text that lies beside this file."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def page(report):
    """The HTML of a report."""
    graphs = sum(bool(e.operations) for f in report.functions for e in f.entries)
    breaks = sum(len(f.breaks) for f in report.functions)
    entries = sum(len(f.entries) for f in report.functions)
    counted = ((len(report.functions), "function"), (graphs, "graph"), (breaks, "graph break"))
    totals = ", ".join([*(count(*pair) for pair in counted), f"{entries} cache entries"])
    keys = "".join(
        f'<label class="key {kind}"><input type="checkbox" data-kind="{kind}" checked>{meaning}</label>'
        for kind, meaning in MEANINGS.items()
    )
    about = f"dynoc {dynoc.__version__}, Python {platform.python_version()}, {report.written}"
    sections = {
        "Functions": overview(report),
        "Source": "".join(file_part(report, file, parts) for file, parts in report.files),
        "Timeline": timeline(report),
        "Kernels and calls": kernels(report),
        "Entries": "".join(function_part(report, i, f) for i, f in enumerate(report.functions)),
        "Counters": counters(report),
    }
    links = "".join(f'<a href="#{name.split()[0].lower()}">{name}</a>' for name in sections)
    parts = (f'<section id="{name.split()[0].lower()}"><h2>{name}</h2>{text}</section>' for name, text in sections.items())
    body = "".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>dynoc: {escape(report.program)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{beside("report.css")}</style></head><body>'
        f"<header><h1>{escape(report.program)}</h1><p>{totals} <small>{about}</small></p>"
        f'<nav>{links}<input id="search" type="search" placeholder="search functions, source, guards, code" aria-label="search">'
        f'<button id="theme" type="button">light / dark</button></nav><div id="keys">{keys}</div></header>'
        f"<main>{body}</main><script>{beside('report.js')}</script></body></html>\n"
    )
