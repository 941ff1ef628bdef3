"""`python -m dynoc minify FOLDER`: the smallest graph that still fails, from the graph of a debug folder (``graph.txt``).

A graph fails where it can't be compiled, or where compiled code gives something else than the reference interpreter, on random
inputs of the sizes that were recorded. It is made smaller by leaving outputs out, by cutting it (a value becomes an input), by
putting a value's operand in its place, and by smaller sizes, as long as what is left fails. Settings are those of the
environment, as when it failed.

Calls of other functions, which compiled code makes just as the program does, are taken out first: what they give comes in.
"""

import os
import re
import sys

import numpy as np

from dynoc import _dynoc, _verify

USAGE = "python -m dynoc minify FOLDER        (a debug folder, which DYNOC_DEBUG=1 writes, or its graph.txt)"
SYMBOL = re.compile(r"^s(\d+): (\w+) = (\w+)\((.*)\) hint (.*)$")
NODE = re.compile(r"^%(\d+): (\w+)\[([^\]]*)\] (C|<[\d ]*>) = (.*?)(?:\s+# .*)?$")
REDUCE, VECTOR_CALL, PRODUCT = 2, 2, 128  # DYN_K_REDUCE and DYN_OPF_* of src/ir/ops.h
CALL = re.compile(r"(extern|matmul) [\w.<>]+\(|result\(")  # a call of another function, and what it gives besides
LATE = re.compile(r"(\d+), (\d+), (\d+), (\d+)")  # call, kind, node, axis: DynLateKind of src/ir/sym.h
SIZES = (1, 2, 3, 4, 8, 16, 17, 64)


class Graph:
    """A graph's text in parts: symbols {n: (type, operator, operands, hint)}, nodes {n: (dtype, sizes, layout, what)}.

    Taken apart and put together as text: what an operator means is the parser's business.
    """

    def __init__(self, name, symbols, nodes, outputs):
        self.name, self.symbols, self.nodes, self.outputs = name, symbols, nodes, outputs

    @classmethod
    def read(cls, text):
        name, symbols, nodes, outputs = "graph", {}, {}, []
        for line in filter(None, map(str.rstrip, text.splitlines())):
            symbol, node = SYMBOL.match(line), NODE.match(line)
            if symbol:
                symbols[int(symbol[1])] = tuple(symbol.groups()[1:])
            elif node:
                nodes[int(node[1])] = (node[2], re.findall(r"s(\d+)", node[3]), node[4], node[5])
            elif line.startswith("outputs "):
                outputs = [int(n) for n in re.findall(r"%(\d+)", line)]
            elif line.startswith("graph "):
                name = line[6:]
            else:
                raise ValueError(f"this line of the graph isn't understood: {line}")
        return cls(name, symbols, nodes, outputs)

    def without_calls(self):
        """The graph in which what calls gave comes in, sizes and numbers too; and how many calls there were."""
        nodes = {n: (*row[:3], f"input(call{n})") if CALL.match(row[3]) else row for n, row in self.nodes.items()}
        symbols = {}
        for s, (kind, operator, operands, hint) in self.symbols.items():
            if operator == "late":
                _, what, n, axis = LATE.match(operands).groups()
                operator, operands = ("dim", f"call{n}, {axis}") if what == "0" else ("var", f"number{s}")
            symbols[s] = (kind, operator, operands, hint)
        calls = sum(row[3].startswith(("extern ", "matmul ")) for row in self.nodes.values())
        return self.changed(nodes=nodes, symbols=symbols), calls

    def operands(self, n):
        return [int(i) for i in re.findall(r"%(\d+)", self.nodes[n][3])]

    def is_input(self, n):
        return self.nodes[n][3].startswith("input(")

    def input_name(self, n):
        """Where the value of an input comes from: x of ``input(x)``."""
        return self.nodes[n][3][len("input(") : -1]

    def hint(self, s):
        return self.symbols[s][3]

    def needed(self):
        """Nodes that outputs need, stores into what they need included; symbols; and names of inputs."""
        nodes, waiting = set(), list(self.outputs)
        while waiting:
            n = waiting.pop()
            if n not in nodes:
                nodes.add(n)
                waiting += self.operands(n)
                stores = (k for k in self.nodes if self.nodes[k][3].startswith("store(") and self.operands(k)[0] in nodes)
                waiting += [k for k in stores if k not in nodes]
        words = " ".join(f"{' '.join('s' + s for s in self.nodes[n][1])} {self.nodes[n][3]}" for n in nodes)
        names = {self.input_name(n) for n in nodes if self.is_input(n)}
        symbols, waiting = set(), [int(s) for s in re.findall(r"\bs(\d+)\b", words)]
        while waiting:
            s = waiting.pop()
            if s not in symbols:
                symbols.add(s)
                waiting += [int(k) for k in re.findall(r"\bs(\d+)\b", self.symbols[s][2])]
        return nodes, symbols, names

    def text(self):
        """As the parser takes it: numbers in order, without what nobody needs; sizes are those of the inputs that there are."""
        nodes, symbols, names = self.needed()
        new_s = {s: i for i, s in enumerate(sorted(symbols))}
        new_n = {n: i for i, n in enumerate(sorted(nodes))}

        def renamed(what):
            what = re.sub(r"\bs(\d+)\b", lambda m: f"s{new_s[int(m[1])]}", what)
            return re.sub(r"%(\d+)", lambda m: f"%{new_n[int(m[1])]}", what)

        lines = [f"graph {self.name}"]
        for s in sorted(symbols):
            kind, operator, operands, hint = self.symbols[s]
            if operator in ("dim", "stride") and operands.rpartition(", ")[0] not in names:
                operator, operands = self.measured(s, nodes)
            lines.append(f"s{new_s[s]}: {kind} = {operator}({renamed(operands)}) hint {hint}")
        for n in sorted(nodes):
            dtype, sizes, layout, what = self.nodes[n]
            shape = ", ".join(f"s{new_s[int(s)]}" for s in sizes)
            lines.append(f"%{new_n[n]}: {dtype}[{shape}] {layout} = {renamed(what)}")
        lines.append("outputs " + ", ".join(f"%{new_n[n]}" for n in self.outputs))
        return "\n".join(lines) + "\n"

    def measured(self, s, nodes):
        """An input that has the size, whose own input is gone."""
        for n in sorted(nodes):
            sizes = self.nodes[n][1]
            if self.is_input(n) and str(s) in sizes:
                return "dim", f"{self.input_name(n)}, {sizes.index(str(s))}"
        raise ValueError(f"no input has the size s{s}")

    def changed(self, **parts):
        return Graph(**{"name": self.name, "symbols": self.symbols, "nodes": self.nodes, "outputs": self.outputs, **parts})


def random_array(rng, dtype, shape, layout):
    """Numbers around 1, of integers and truth 0 and 1, in that memory order."""
    kind = np.dtype("bool" if dtype == "bool" else f"{dtype[0]}{int(dtype[1:]) // 8}")
    axes = [int(a) for a in layout[1:-1].split()] if layout != "C" else list(range(len(shape)))
    x = rng.random([shape[a] for a in axes]) + 0.5
    x = x + 1j * x[::-1] if kind.kind == "c" and x.ndim else np.floor(x) if kind.kind in "biu" else x
    return np.asarray(x).astype(kind).transpose(np.argsort(axes) if axes else ())


def inputs_of(graph):
    """Arrays and numbers for a run of what `text` gives."""
    nodes, symbols, _ = graph.needed()
    rng = np.random.default_rng(0)
    arrays = []
    for n in sorted(nodes):
        dtype, sizes, layout, _ = graph.nodes[n]
        if graph.is_input(n):
            arrays.append(random_array(rng, dtype, [int(graph.hint(int(s))) for s in sizes], layout))
    read = {"int": int, "float": float, "bool": lambda text: text == "True"}
    numbers = [read[graph.symbols[s][0]](graph.hint(s)) for s in sorted(symbols) if graph.symbols[s][1] == "var"]
    return arrays, numbers


def has_eagers_bits(graph):
    """Do all its operators promise eager's bits?"""
    rounded = {text for _, text, _, kind, *_, flags in _dynoc._op_table() if kind == REDUCE or flags & (VECTOR_CALL | PRODUCT)}
    return not any(what.partition("(")[0] in rounded for *_, what in graph.nodes.values())


def failure(graph, exact):
    """How a graph fails; None: it doesn't."""
    try:
        text = graph.text()
        _dynoc._graph_roundtrip(text)
        arrays, numbers = inputs_of(graph)
    except (ValueError, KeyError):
        return None  # it is no graph
    try:
        compiled = _dynoc._graph_compile(text)
    except (ValueError, RuntimeError) as error:
        return f"it can't be compiled: {error}"
    with np.errstate(all="ignore"):
        status, got = _dynoc._graph_run(compiled, _verify.copies(arrays), numbers)
        wanted = _dynoc._graph_interp(compiled, list(_verify.copies(arrays)), numbers)
    if status != 0:
        return None
    found = (_verify.difference(*pair, exact) for pair in zip(wanted, got, strict=True))
    return next(filter(None, found), None)


def cut(graph, n):
    """The graph in which that value comes in."""
    dtype, sizes, layout, _ = graph.nodes[n]
    return graph.changed(nodes={**graph.nodes, n: (dtype, sizes, layout, f"input(cut{n})")})


def bypassed(graph, n, operand):
    """The graph in which an operand of the node stands in its place."""
    nodes = {k: (*row[:3], re.sub(rf"%{n}\b", f"%{operand}", row[3])) for k, row in graph.nodes.items()}
    return graph.changed(nodes=nodes, outputs=[operand if k == n else k for k in graph.outputs])


def shorter(graph):
    for n in graph.outputs if len(graph.outputs) > 1 else ():
        yield graph.changed(outputs=[n])
    nodes, symbols, _ = graph.needed()
    for n in sorted(nodes, reverse=True):
        if graph.is_input(n) or n in graph.outputs:
            continue
        yield cut(graph, n)
    for n in sorted(nodes, reverse=True):
        same = [k for k in ([] if graph.is_input(n) else graph.operands(n)) if graph.nodes[k][:3] == graph.nodes[n][:3]]
        for operand in same:
            yield bypassed(graph, n, operand)
    for s in sorted(symbols):
        kind, operator, operands, hint = graph.symbols[s]
        for size in SIZES if operator == "dim" else ():
            if size < int(hint):
                yield graph.changed(symbols={**graph.symbols, s: (kind, operator, operands, str(size))})


def minified(graph, exact):
    """The smallest graph that was found, and how it fails."""
    said = failure(graph, exact)
    searching = said is not None
    while searching:
        searching = False
        for smaller in shorter(graph):
            why = failure(smaller, exact)
            if why is not None:
                graph, said, searching = smaller, why, True
                break
    return graph, said


SCRIPT = '''"""A graph that fails, made small by `python -m dynoc minify`. Run it with the settings that it failed with."""

from dynoc import _minify

GRAPH = """
{text}"""

print(_minify.failure(_minify.Graph.read(GRAPH), exact={exact}) or "it doesn't fail here")
'''


def main(words):
    """The exit status of ``python -m dynoc minify``: 0, a failing graph was made small; 1, it doesn't fail; 2, misuse."""
    if len(words) != 1 or not os.path.exists(words[0]):
        print(USAGE, file=sys.stderr)
        return 2
    path = os.path.join(words[0], "graph.txt") if os.path.isdir(words[0]) else words[0]
    try:
        with open(path, encoding="utf-8") as file:
            graph, calls = Graph.read(file.read()).without_calls()
        if any(row[0] == "bf16" and graph.is_input(n) for n, row in graph.nodes.items()):
            raise ValueError("a graph that bfloat16 comes into isn't made smaller: NumPy has no such arrays to try it with")
        _dynoc._graph_roundtrip(graph.text())
    except (OSError, ValueError, KeyError) as error:
        print(f"python -m dynoc minify: {path}: {error}", file=sys.stderr)
        return 2
    exact = has_eagers_bits(graph) and failure(graph, False) is None  # what is wrong by more than rounding is looked for first
    small, said = minified(graph, exact)
    if said is None:
        given = f", whatever its {calls} calls of other functions give" if calls else ""
        print(f"python -m dynoc minify: {path}: its graph gives what the reference interpreter gives{given}")
        return 1
    target = os.path.join(os.path.dirname(path), "minified.py")
    with open(target, "w", encoding="utf-8") as file:
        file.write(SCRIPT.format(text=small.text(), exact=exact))
    print(f"{small.text()}\n{said}\nwritten to {target}")
    return 0
