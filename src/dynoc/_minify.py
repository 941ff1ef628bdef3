"""`python -m dynoc minify FOLDER`: the smallest graph that still fails, from the graph of a debug folder (``graph.txt``).

A graph fails where it can't be compiled, or where compiled code gives something else than the reference interpreter, on random
inputs of the sizes that were recorded. It is made smaller by leaving outputs out, by giving the first value that is wrong, by
cutting it (a value becomes an input), by putting a value's operand in its place, and by smaller sizes, as long as what is left
fails. Settings are those of the environment, as when it failed. Each graph is tried in another process (`Trial`), as it may take
its process along.

Calls of NumPy's and PyTorch's own functions are made again, from what ``calls.txt`` says of them. What can't be made (a
function of the program itself, a random generator of the caller's) is taken out: what it gave comes in. So are all, where the
graph doesn't fail with them: random inputs may be nothing that they accept.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

import numpy as np

from dynoc import _calls, _dynoc, _verify

USAGE = "python -m dynoc minify FOLDER        (a debug folder, which DYNOC_DEBUG=1 writes, or its graph.txt)"
SYMBOL = re.compile(r"^s(\d+): (\w+) = (\w+)\((.*)\) hint (.*)$")
NODE = re.compile(r"^%(\d+): (\w+)\[([^\]]*)\] (C|<[\d ]*>) = (.*?)(?:\s+# .*)?$")
REDUCE, VECTOR_CALL, PRODUCT = 2, 2, 128  # DYN_K_REDUCE and DYN_OPF_* of src/ir/ops.h
CALL = re.compile(r"\w+ [\w.<>]+\(|result\(")  # a call of another function, and what it gives besides
LATE = re.compile(r"(\d+), (\d+), (\d+), (\d+)")  # call, DYN_LATE_SIZE or DYN_LATE_NUMBER of src/ir/sym.h, node, axis
LATE_SIZE = "0"
OF_AUTOGRAD = re.compile(r" (grad|unfollowed)\b")  # marks that say what eager's autograd sees; nothing here requires gradients
SIZES = (1, 2, 3, 4, 8, 16, 17, 64)


class Graph:
    """A graph's text in parts: symbols {n: (type, operator, operands, hint)}, nodes {n: (dtype, sizes, layout, what)}, in
    which a size is a symbol (s3) or a number, and calls {n: a call as `_calls.packed` gives it}.

    Taken apart and put together as text: what an operator means is the parser's business.
    """

    def __init__(self, name, symbols, nodes, outputs, calls):
        self.name, self.symbols, self.nodes, self.outputs, self.calls = name, symbols, nodes, outputs, calls

    @classmethod
    def read(cls, text, calls=()):
        name, symbols, nodes, outputs = "graph", {}, {}, []
        for line in filter(None, map(str.rstrip, text.splitlines())):
            symbol, node = SYMBOL.match(line), NODE.match(line)
            if symbol:
                symbols[int(symbol[1])] = tuple(symbol.groups()[1:])
            elif node:
                nodes[int(node[1])] = (node[2], node[3].split(", ") if node[3] else [], node[4], OF_AUTOGRAD.sub("", node[5]))
            elif line.startswith("outputs "):
                outputs = [int(n) for n in re.findall(r"%(\d+)", line)]
            elif line.startswith("graph "):
                name = line[6:]
            else:
                raise ValueError(f"this line of the graph isn't understood: {line}")
        return cls(name, symbols, nodes, outputs, dict(calls))

    def made_calls(self):
        """Nodes that are calls of other functions."""
        return [n for n in self.nodes if CALL.match(self.nodes[n][3]) and not self.is_result(n)]

    def results(self, n):
        """Nodes of what a call gives besides its first array; they stand behind it."""
        return [k for k in self.nodes if self.is_result(k) and self.operands(k) == [n]]

    def without_call(self, n):
        """The graph in which what that call gave comes in, sizes and numbers too."""
        made = {n, *self.results(n)}
        nodes = dict(self.nodes)
        for k in made:
            nodes[k] = (*nodes[k][:3], f"input(call{k}){tensor_mark(nodes[k][3])}")
        symbols = {}
        for s, (kind, operator, operands, hint) in self.symbols.items():
            if operator == "late" and self.late(s)[0] == n:
                _, what, k, axis = LATE.match(operands).groups()
                operator, operands = ("dim", f"call{k}, {axis}") if what == LATE_SIZE else ("var", f"number{s}")
            symbols[s] = (kind, operator, operands, hint)
        return self.changed(nodes=nodes, symbols=symbols, calls={k: call for k, call in self.calls.items() if k != n})

    def without_calls(self, left=()):
        """The graph without all calls but those."""
        graph = self
        for n in self.made_calls():
            graph = graph if n in left else graph.without_call(n)
        return graph

    def late(self, s):
        """The call that gives a size or number, and the node whose size it is."""
        call, _, node, _ = LATE.match(self.symbols[s][2]).groups()
        return int(call), int(node)

    def operands(self, n):
        return [int(i) for i in re.findall(r"%(\d+)", self.nodes[n][3])]

    def is_input(self, n):
        return self.nodes[n][3].startswith("input(")

    def is_result(self, n):
        return self.nodes[n][3].startswith("result(")

    def is_tensor(self, n):
        return bool(tensor_mark(self.nodes[n][3]))

    def storage(self, n):
        """The node in whose memory the value lies, and a store writes."""
        what = self.nodes[n][3]
        in_operands = what.startswith("store(") or " view" in what[what.rfind(")") :]
        return self.storage(self.operands(n)[0]) if in_operands and self.operands(n) else n

    def input_name(self, n):
        """Where the value of an input comes from: x of ``input(x)``."""
        what = self.nodes[n][3]
        return what[len("input(") : what.rindex(")")]

    def size(self, text):
        return int(self.symbols[int(text[1:])][3] if text.startswith("s") else text)

    def needed(self):
        """Nodes that outputs need, stores into what they need included; symbols; and names of inputs."""
        stores = {k: self.storage(k) for k in self.nodes if self.nodes[k][3].startswith("store(")}
        nodes, symbols, waiting, memory = set(), set(), list(self.outputs), set()
        while waiting:
            n = waiting.pop()
            if n in nodes:
                continue
            nodes.add(n)
            memory.add(self.storage(n))
            symbols |= self.symbols_of(n, symbols)
            waiting += self.operands(n) + self.results(n) + [k for k, of in stores.items() if of in memory]
            waiting += [k for s in symbols if self.symbols[s][1] == "late" for k in self.late(s)]
        return nodes, symbols, {self.input_name(n) for n in nodes if self.is_input(n)}

    def symbols_of(self, n, known):
        """What a node's sizes and operands are made of, less what is known."""
        dtype, sizes, layout, what = self.nodes[n]
        found, waiting = set(), [int(s) for s in re.findall(r"\bs(\d+)\b", f"{' '.join(sizes)} {what}")]
        while waiting:
            s = waiting.pop()
            if s not in known and s not in found:
                found.add(s)
                waiting += [int(k) for k in re.findall(r"\bs(\d+)\b", self.symbols[s][2])]
        return found

    def text(self):
        return self.written()[0]

    def written(self):
        """As the parser takes it: numbers in order, without what nobody needs; sizes are those of the inputs that there are.
        And the calls by these numbers."""
        nodes, symbols, names = self.needed()
        new_s = {s: i for i, s in enumerate(sorted(symbols))}
        new_n = {n: i for i, n in enumerate(sorted(nodes))}

        def renamed(what):
            what = re.sub(r"\bs(\d+)\b", lambda m: f"s{new_s[int(m[1])]}", what)
            return re.sub(r"%(\d+)", lambda m: f"%{new_n[int(m[1])]}", what)

        lines = [f"graph {self.name}"]
        for s in sorted(symbols):
            kind, operator, operands, hint = self.symbols[s]
            if operator == "late":
                call, what, n, axis = LATE.match(operands).groups()
                operands = f"{new_n[int(call)]}, {what}, {new_n[int(n)]}, {axis}"
            elif operator in ("dim", "stride") and operands.rpartition(", ")[0] not in names:
                operator, operands = self.measured(s, nodes)
            lines.append(f"s{new_s[s]}: {kind} = {operator}({renamed(operands)}) hint {hint}")
        for n in sorted(nodes):
            dtype, sizes, layout, what = self.nodes[n]
            lines.append(f"%{new_n[n]}: {dtype}[{renamed(', '.join(sizes))}] {layout} = {renamed(what)}")
        lines.append("outputs " + ", ".join(f"%{new_n[n]}" for n in self.outputs))
        calls = {new_n[n]: call for n, call in self.calls.items() if n in nodes}
        return "\n".join(lines) + "\n", calls

    def measured(self, s, nodes):
        """An input that has the size, whose own input is gone."""
        for n in sorted(nodes):
            sizes = self.nodes[n][1]
            if self.is_input(n) and f"s{s}" in sizes:
                return "dim", f"{self.input_name(n)}, {sizes.index(f's{s}')}"
        raise ValueError(f"no input has the size s{s}")

    def changed(self, **parts):
        now = {"name": self.name, "symbols": self.symbols, "nodes": self.nodes, "outputs": self.outputs, "calls": self.calls}
        return Graph(**{**now, **parts})


def tensor_mark(what):
    return " tensor" if " tensor" in what[what.rfind(")") :] else ""


def random_array(rng, dtype, shape, layout):
    """Numbers around 1, of integers and truth 0 and 1, in that memory order."""
    kind = np.dtype("bool" if dtype == "bool" else f"{dtype[0]}{int(dtype[1:]) // 8}")
    axes = [int(a) for a in layout[1:-1].split()] if layout != "C" else list(range(len(shape)))
    x = rng.random([shape[a] for a in axes]) + 0.5
    x = x + 1j * x[::-1] if kind.kind == "c" and x.ndim else np.floor(x) if kind.kind in "biu" else x
    return np.asarray(x).astype(kind).transpose(np.argsort(axes) if axes else ())


def as_tensor(array, dtype):
    import torch

    tensor = torch.from_numpy(array)
    return tensor.bfloat16() if dtype == "bf16" else tensor


def inputs_of(graph):
    """Arrays and numbers for a run of what `text` gives."""
    nodes, symbols, _ = graph.needed()
    rng = np.random.default_rng(0)
    arrays = []
    for n in sorted(nodes):
        dtype, sizes, layout, _ = graph.nodes[n]
        if graph.is_input(n):
            array = random_array(rng, "f32" if dtype == "bf16" else dtype, [graph.size(s) for s in sizes], layout)
            arrays.append(as_tensor(array, dtype) if graph.is_tensor(n) else array)
    read = {"int": int, "float": float, "bool": lambda text: text == "True"}
    numbers = [read[graph.symbols[s][0]](graph.symbols[s][3]) for s in sorted(symbols) if graph.symbols[s][1] == "var"]
    return arrays, numbers


def has_eagers_bits(graph):
    """Do all its operators promise eager's bits?"""
    rounded = {text for _, text, _, kind, *_, flags in _dynoc._op_table() if kind == REDUCE or flags & (VECTOR_CALL | PRODUCT)}
    return not any(re.match(r"\w+", what)[0] in rounded for *_, what in graph.nodes.values())


def outcome(run, *args):
    """What it gives, and the exception that it raises."""
    try:
        return run(*args), None
    except Exception as error:  # noqa: BLE001 whatever the called functions raise
        return None, error


def said_of(error):
    return "no exception" if error is None else f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def quietly():
    """Without warnings of numbers, and without gradients."""
    torch = sys.modules.get("torch")
    with np.errstate(all="ignore"), contextlib.nullcontext() if torch is None else torch.no_grad():
        yield


def failure(graph, exact):
    """How a graph fails in this process; None: it doesn't."""
    try:
        text, calls = graph.written()
        rows = {n: _calls.unpacked(call) for n, call in calls.items()}
        _dynoc._graph_roundtrip(text)
        arrays, numbers = inputs_of(graph)
    except (ValueError, KeyError, RecursionError):
        return None  # it is no graph
    if None in rows.values():
        return None
    try:
        compiled = _dynoc._graph_compile(text, rows)
    except LookupError:
        return None  # a call without its node
    except (ValueError, RuntimeError) as error:
        return f"it can't be compiled: {error}"
    with quietly():
        ran, raised = outcome(_dynoc._graph_run, compiled, _verify.copies(arrays), numbers)
        wanted, expected = outcome(_dynoc._graph_interp, compiled, list(_verify.copies(arrays)), numbers)
    if raised is not None or expected is not None:
        differ = type(raised) is not type(expected)
        return f"eager: {said_of(expected)}, compiled code: {said_of(raised)}" if differ else None
    status, got = ran
    if status != 0:
        return None
    found = (_verify.difference(*pair, exact) for pair in zip(wanted, got, strict=True))
    return next(filter(None, found), None)


class Trial:
    """Another process that tries graphs; one that ends by it is followed by the next."""

    def __init__(self):
        self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process is not None:
            self.ended()

    def start(self):
        self.said = tempfile.TemporaryFile("w+")
        code = "from dynoc import _minify; _minify.serve()"
        reading, writing = os.pipe()
        command = [sys.executable, "-c", code, str(writing)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self.said, pass_fds=(writing,), text=True
        )
        os.close(writing)
        self.answers = os.fdopen(reading, encoding="utf-8")

    def ended(self):
        """How the process ended, with the last line that it said."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        code = self.process.wait()
        self.answers.close()
        self.said.seek(0)
        last = self.said.read().strip().rpartition("\n")[2]
        self.said.close()
        self.process = None
        how = signal.Signals(-code).name if code < 0 else f"status {code}"
        return f"the process that compiles and runs it ends by {how}{': ' if last else ''}{last}"

    def failure(self, graph, exact):
        """How a graph fails; None: it doesn't."""
        if self.process is None:
            self.start()
        tables = [list(table.items()) for table in (graph.symbols, graph.nodes, graph.calls)]
        asked = [graph.name, *tables, graph.outputs, exact]
        try:
            print(json.dumps(asked), file=self.process.stdin, flush=True)
            answer = self.answers.readline()
        except BrokenPipeError:
            answer = ""
        return json.loads(answer) if answer else self.ended()


def serve():
    """The other process: graphs come in by standard input, a line each, and how they fail goes out."""
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as out:
        for line in sys.stdin:
            name, symbols, nodes, calls, outputs, exact = json.loads(line)
            if any(tensor_mark(row[3]) for _, row in nodes):
                import torch  # noqa: F401 before the graph is made, which has its operators
            graph = Graph(name, dict(symbols), dict(nodes), outputs, dict(calls))
            print(json.dumps(failure(graph, exact)), file=out, flush=True)


def cut(graph, n):
    """The graph in which that value comes in."""
    dtype, sizes, layout, _ = graph.nodes[n]
    mark = tensor_mark(graph.nodes[n][3])
    return graph.changed(nodes={**graph.nodes, n: (dtype, sizes, layout, f"input(cut{n}){mark}")})


def bypassed(graph, n, operand):
    """The graph in which an operand of the node stands in its place."""
    nodes = {k: (*row[:3], re.sub(rf"%{n}\b", f"%{operand}", row[3])) for k, row in graph.nodes.items()}
    return graph.changed(nodes=nodes, outputs=[operand if k == n else k for k in graph.outputs])


def shorter(graph):
    for n in graph.outputs if len(graph.outputs) > 1 else ():
        yield graph.changed(outputs=[n])
    nodes, symbols, _ = graph.needed()
    for n in sorted(nodes):  # the first value that is wrong
        of_call = CALL.match(graph.nodes[n][3])  # no kernel's, and maybe no array
        if not graph.is_input(n) and not of_call and graph.storage(n) == n and [n] != graph.outputs:
            yield graph.changed(outputs=[n])
    for n in sorted(nodes, reverse=True):
        if graph.is_input(n) or n in graph.outputs:
            continue
        if graph.is_result(n):
            continue  # it goes with its call
        yield graph.without_call(n) if CALL.match(graph.nodes[n][3]) else cut(graph, n)
    for n in sorted(nodes, reverse=True):
        same = [k for k in ([] if graph.is_input(n) else graph.operands(n)) if graph.nodes[k][:3] == graph.nodes[n][:3]]
        for operand in same:
            yield bypassed(graph, n, operand)
    for s in sorted(symbols):
        kind, operator, operands, hint = graph.symbols[s]
        for size in SIZES if operator == "dim" else ():
            if size < int(hint):
                yield graph.changed(symbols={**graph.symbols, s: (kind, operator, operands, str(size))})


def minified(graph, exact, trial):
    """The smallest graph that was found, and how it fails."""
    said = trial.failure(graph, exact)
    searching = said is not None
    while searching:
        searching = False
        for smaller in shorter(graph):
            why = trial.failure(smaller, exact)
            if why is not None:
                graph, said, searching = smaller, why, True
                break
    return graph, said


SCRIPT = '''"""A graph that fails, made small by `python -m dynoc minify`. Run it with the settings that it failed with."""

from dynoc import _minify

GRAPH = """
{text}"""
CALLS = {calls}  # of other functions, by node: pickles

with _minify.Trial() as trial:
    print(trial.failure(_minify.Graph.read(GRAPH, CALLS), exact={exact}) or "it doesn't fail here")
'''


def read_folder(path):
    """The graph of ``graph.txt`` with its calls, where they are written beside it."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    beside = os.path.join(os.path.dirname(path), "calls.txt")
    calls = {}
    if os.path.exists(beside):
        with open(beside, encoding="utf-8") as file:
            calls = _calls.read(file.read())
    graph = Graph.read(text, calls)
    _dynoc._graph_roundtrip(graph.text())
    return graph


def candidates(graph):
    """The graph with what calls can be made again, and without any; each with a sentence on them."""
    calls = graph.made_calls()
    there = [n for n in calls if n in graph.calls and _calls.unpacked(graph.calls[n]) is not None]
    if there:
        left_out = len(calls) - len(there)
        said = f" ({left_out} more can't be made again: what they gave comes in)" if left_out else ""
        yield graph.without_calls(there), f", with {len(there)} calls of other functions made again{said}"
    yield graph.without_calls(), f", whatever {len(calls)} calls of other functions give" if calls else ""


def main(words):
    """The exit status of ``python -m dynoc minify``: 0, a failing graph was made small; 1, it doesn't fail; 2, misuse."""
    if len(words) != 1 or not os.path.exists(words[0]):
        print(USAGE, file=sys.stderr)
        return 2
    path = os.path.join(words[0], "graph.txt") if os.path.isdir(words[0]) else words[0]
    try:
        graph = read_folder(path)
    except (OSError, ValueError, KeyError) as error:
        print(f"python -m dynoc minify: {path}: {error}", file=sys.stderr)
        return 2
    with Trial() as trial:
        for tried, how in candidates(graph):
            # What is wrong by more than rounding is looked for first.
            exact = has_eagers_bits(tried) and trial.failure(tried, False) is None
            small, said = minified(tried, exact, trial)
            if said is not None:
                break
            print(f"python -m dynoc minify: {path}: its graph gives what the reference interpreter gives{how}")
        else:
            return 1
    target = os.path.join(os.path.dirname(path), "minified.py")
    text, calls = small.written()
    with open(target, "w", encoding="utf-8") as file:
        file.write(SCRIPT.format(text=text, calls=calls, exact=exact))
    print(f"{text}\n{said}\nwritten to {target}")
    return 0
