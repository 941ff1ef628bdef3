"""What is printed of the suite's rows, and what is reckoned from them. A row is what suite.measured() gives, with "memory" (bytes
at the peak, by peer) and, for kernels bound by memory, "moved" (bytes that have to be read and written).
"""

import statistics

EAGER, OURS, COPY = "numpy", "dynoc", "copy"
MARKERS = ("<!-- suite: written by suite.py --write-readme -->", "<!-- end of suite -->")
SLACK = 1 << 20  # of a peak of memory: pages that a thread's first call or the kernel's huge pages add


def ratio(row, name):
    """How many times as long as dynoc the peer takes, or None."""
    seconds = row["seconds"]
    return seconds[name] / seconds[OURS] if name in seconds and OURS in seconds else None


def best_peer(row):
    """(name, ratio) of the fastest that is neither NumPy nor dynoc, or None."""
    names = [name for name in row["seconds"] if name not in (EAGER, OURS, COPY)]
    if not names or OURS not in row["seconds"]:
        return None
    name = min(names, key=row["seconds"].get)
    return name, ratio(row, name)


def of_copy(row):
    """The part of a copy's bandwidth that dynoc reaches, or None."""
    return ratio(row, COPY) if "moved" in row else None


def more_memory(row):
    memory = row.get("memory", {})
    return EAGER in memory and OURS in memory and memory[OURS] > memory[EAGER] + SLACK


def mean_of(values):
    values = [v for v in values if v is not None]
    return statistics.geometric_mean(values) if values else None


# ---- in words


def time_words(seconds):
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def ratio_words(value):
    return "" if value is None else f"{value:.2f}"


def memory_words(row):
    memory = row.get("memory", {})
    return " / ".join(f"{memory[name] / 1e6:.1f}" if name in memory else "?" for name in (OURS, EAGER)) if memory else ""


def remarks(row):
    found = [row["notes"].get(OURS, "")]
    best = best_peer(row)
    if best and best[1] < 0.9:
        found.append("BEHIND")
    if more_memory(row):
        found.append("MORE MEMORY")
    if OURS in row["unable"]:
        found.append(f"dynoc: {row['unable'][OURS]}")
    return "; ".join(filter(None, found))


def others(peers):
    return [name for name in peers if name != OURS]


def cells(row, peers):
    """The columns of both tables: ratios over 1 are dynoc's."""
    seconds, best = row["seconds"], best_peer(row)
    return [
        row["kernel"],
        *(time_words(seconds[name]) if name in seconds else "" for name in (EAGER, OURS)),
        *(ratio_words(ratio(row, name)) or "–" for name in others(peers)),
        best[0] if best else "",
        f"{of_copy(row):.0%}" if of_copy(row) else "",
        memory_words(row),
        remarks(row),
    ]


def titles(peers):
    return ["kernel", "NumPy", "dynoc", *others(peers), "best", "of copy", "memory, MB", "remarks"]


def aligned(words, peers):
    widths = [28, 9, 9, *[8] * len(others(peers)), 8, 8, 14]
    first, *rest = words
    padded = [f"{first:<{widths[0]}}"] + [f"{word:>{width}}" for word, width in zip(rest, widths[1:])]
    return "".join(padded) + "  " + words[-1]


def heading(peers):
    return aligned(titles(peers), peers)


def line(row, peers):
    return aligned(cells(row, peers), peers)


def left_out(rows):
    """A line for each reason of a peer, with the kernels."""
    kernels = {}
    for row in rows:
        for name, reason in row["unable"].items():
            kernels.setdefault(f"{name}, {reason}", []).append(row["kernel"])
    return [f"Without {reason}: {', '.join(names)}." for reason, names in kernels.items()]


def summary_lines(rows):
    bests = {row["kernel"]: best_peer(row) for row in rows}
    behind = [f"{name} ({best[1]:.2f} of {best[0]})" for name, best in bests.items() if best and best[1] < 0.9]
    slow = [f"{row['kernel']} ({of_copy(row):.0%})" for row in rows if of_copy(row) and of_copy(row) < 0.85]
    more = [row["kernel"] for row in rows if more_memory(row)]
    over_eager = mean_of(ratio(row, EAGER) for row in rows)
    over_best = mean_of(best[1] for best in bests.values() if best)
    if over_eager:
        yield f"Against NumPy: geometric mean {over_eager:.2f} (aim 5)."
    if over_best:
        yield f"Against the best peer of each kernel: geometric mean {over_best:.2f} (aim 1.3)."
    yield f"Under 0.9 of the best peer: {', '.join(behind) or 'none'}."
    yield f"Bound by memory and under 85% of a copy's bandwidth: {', '.join(slow) or 'none'}."
    yield f"More memory at the peak than eager: {', '.join(more) or 'none'}."
    yield from left_out(rows)


def summary(rows):
    return "\n".join(summary_lines(rows))


def markdown(rows, peers, where):
    heads = titles(peers)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(cells(row, peers)) + " |" for row in rows]
    lines += ["", *(f"* {text}" for text in summary_lines(rows)), ""]
    lines.append("The run: " + ", ".join(f"{key} {value}" for key, value in where.items()) + ".")
    return "\n".join(lines)


def between_markers(text, table):
    """The text with the table in place of what stands between the markers."""
    first, last = MARKERS
    before, _, rest = text.partition(first)
    _, _, after = rest.partition(last)
    return f"{before}{first}\n{table}\n{last}{after}"
