"""``calls.txt`` of debug folders: a graph's calls of other functions, so that ``python -m dynoc minify`` can make them.

A line for each: its node, its name, and a pickle of what `entry._data` says of it (src/ir/graph_data.c) as base64. Written by
evalframe/debug.c. A call that can't be pickled has no line.
"""

import base64
import pickle
import re

HEADING = "# Calls of other functions in graph.txt, for `python -m dynoc minify`: node, name, and the call as a pickle (base64)\n"
LINE = re.compile(r"^%(\d+) (\S+) (\S+)$", re.MULTILINE)
TYPES = {"int": 0, "float": 1, "bool": 2}  # DynSymType of src/ir/sym.h
# What a pickle of something that isn't there any more raises: a function of a program that is another `__main__` now, say.
GONE = (pickle.UnpicklingError, AttributeError, ImportError, TypeError, ValueError, KeyError, IndexError, EOFError)


def packed(row):
    """One call as a text; None: there is something in it that no other process can have."""
    try:
        return base64.b64encode(pickle.dumps(row)).decode()
    except (pickle.PicklingError, AttributeError, TypeError, ValueError):
        return None


def unpacked(text):
    """The row of a call for `_dynoc._graph_compile`; None: what it needs isn't there."""
    try:
        return pickle.loads(base64.b64decode(text))
    except GONE:
        return None


def row_of(data, extern):
    """What is kept of a call: its numbers have types in place of symbols of a table that will be gone."""
    symbols = data["symbols"]
    results = tuple(
        (kind, TYPES[symbols[n]["type"]] if kind == "number" else n, obj) for kind, n, obj in extern["results"]
    )
    return {**extern, "results": results}


def text_of(data):
    """The text of ``calls.txt``.

    Parameters
    ----------
    data : dict
        ``entry._data``: the graph as the extension writes it down.

    Returns
    -------
    str
        A line for each call that another process can make.
    """
    lines = [HEADING]
    for i, node in enumerate(data["nodes"]):
        if node["kind"] == "extern" and node["extern"] >= 0 and not any(kind == "source" for kind, _ in node["args"]):
            extern = data["externs"][node["extern"]]
            text = None if extern["once"] else packed(row_of(data, extern))
            lines += [f"%{i} {extern['name'].replace(' ', '_')} {text}\n"] if text is not None else []
    return "".join(lines)


def read(text):
    """{node: its call as a text}."""
    return {int(node): call for node, _, call in LINE.findall(text)}
