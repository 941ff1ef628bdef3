"""dynoc, native code, compiled in the foreground."""

import re

import dynoc
from forms import Form

VERSION = dynoc.__version__


def start(threads):
    dynoc.config.threads = threads


def extern_calls(entries):
    lines = [line for entry in entries for line in str(entry.graph).splitlines()]
    return sorted({found[1] for line in lines if (found := re.search(r"= \w+ ([^\s(]+)\(", line))})


def remarks(entries):
    """What is not one native graph."""
    found = []
    reasons = [entry.reason for entry in entries if entry.reason is not None]
    if reasons:
        found.append(f"{len(reasons)} breaks: {', '.join(sorted(set(reasons)))}")
    tiers = {entry.tier for entry in entries} - {"native"}
    if tiers or not entries:
        found.append(f"runs {', '.join(sorted(tiers)) or 'as it is'}")
    called = extern_calls(entries)
    if called:
        found.append(f"calls {', '.join(called)}")
    return "; ".join(found)


def form(kernel):
    fast = dynoc.optimize(kernel.fn, wait=True)
    return Form(fast, check=lambda: remarks(fast.entries))
