"""`graph.py` of debug folders where a graph has tensors: the graph as a program of PyTorch's own calls.

Called by the extension (evalframe/debug.c), which writes the programs of graphs of NumPy arrays itself.
"""

import builtins
import keyword
import operator
import re
import sys
import types

import numpy as np

from dynoc import _capture
from dynoc._errors import BackendError
from dynoc._graph import PLAIN, Graph, Writer, qualified_name

LIBRARIES = ("torch", "numpy", "operator", "math", "dynoc")

HEADING = '''"""The graph of {name}, a line for each operation. Run by itself it takes random inputs of recorded shapes."""

{imports}


def random(shape, dtype, *axes):
    """Numbers around 1, of integers and truth 0 and 1; axes: in the order of memory, if that isn't C's."""
    x = torch.rand([shape[a] for a in axes or range(len(shape))], generator=rng, dtype=torch.float64) + 0.5
    x = torch.complex(x, x) if dtype.is_complex else x if dtype.is_floating_point else x.floor()
    return x.to(dtype).permute([axes.index(a) for a in range(len(shape))] if axes else list(range(len(shape))))


'''
MAIN = '''
rng = torch.Generator().manual_seed(0)

if __name__ == "__main__":
    results = graph(
{inputs}    )
    for name, result in zip({names}, results, strict=True):
        print(name, getattr(result, "dtype", type(result).__name__), tuple(getattr(result, "shape", ())))
'''


class Program(_capture.Capture):
    """A capture whose sizes are those of what comes in, and whose numbers come behind that, with the values that they had."""

    def take(self, names, get_input):
        for node, name in zip(self.data["inputs"], names, strict=True):
            self.nodes[node] = self.described(self.graph.placeholder(name), node)
        measured = {self.data["nodes"][node]["source"]: node for node in self.data["inputs"]}
        for number in self.symbols:
            s = self.data["symbols"][number]
            if s["op"] == "VAR" or s["a"] not in measured:
                self.numbers[number] = self.graph.placeholder(f"s{number}", default_value=s["value"])
        for number in self.symbols:
            if number not in self.numbers:
                s = self.data["symbols"][number]
                node = measured[s["a"]]
                self.numbers[number] = self.measured(s, self.nodes[node], self.tensors[node])

    def measured(self, s, node, torch):
        if s["op"] == "DIM":
            return self.size(node, s["index"], torch)
        if torch:
            return self.graph.call_method("stride", (node, s["index"]))
        return self.graph.call_function(operator.getitem, (self.call(getattr, node, "strides"), s["index"]))

    def extern(self, i, n, torch):
        x = self.data["externs"][n["extern"]]
        if is_written(x, n):
            return super().extern(i, n, torch)
        arrays = sum(kind in ("node", "object") for kind, *_ in x["results"])
        made = [self.stand_in(i + k, x["name"]) for k in range(max(arrays, 1))]
        self.of_call[i] = iter(made[1:])
        for kind, symbol, _ in x["results"]:
            if kind == "number":
                self.numbers[symbol] = self.data["symbols"][symbol]["value"]
        self.nodes[i] = made[0]
        return made[0]

    def stand_in(self, i, name):
        n = self.data["nodes"][i]
        shape = tuple(self.data["symbols"][k]["value"] for k in n["shape"])
        made = self.graph.create_node("call_function", random, (shape, self.dtype(n["dtype"], True)), name=f"value_{i}")
        made.meta["stands_for"] = name
        if not self.tensors[i]:
            return self.method("numpy", made)
        return made if self.device == "cpu" else self.method("to", made, self.device)


def random():
    """The name by which programs know the function in their heading."""


def home_of(function):
    """What a program imports a function of a library by; None: nothing that it could be sure to find."""
    if type(function).__module__ == "torch._ops":
        return f"torch.ops.{function}"
    name = qualified_name(function)
    known = getattr(builtins, name, None) is function or name.partition(".")[0] in LIBRARIES and "." in name
    return name if known else None


def has_text(value):
    """Is there an expression that gives it again?"""
    if type(value) in (tuple, list):
        return all(map(has_text, value))
    if type(value) is dict:
        return all(map(has_text, value)) and all(map(has_text, value.values()))
    if type(value) is slice:
        return all(map(has_text, (value.start, value.stop, value.step)))
    torch = sys.modules["torch"]
    if isinstance(value, (torch.dtype, torch.device, torch.memory_format, torch.layout)) or type(value) in PLAIN:
        return True
    return callable(value) and home_of(value) is not None


def is_written(x, n):
    """Can a call be written as it was made?"""
    named = _capture.method_name(x["callable"]) is not None or home_of(x["callable"]) is not None
    made = any(kind in ("function", "cell") for kind, *_ in x["args"])
    plain = all(has_text(obj) for kind, _, obj in x["args"] if kind in ("const", "attr"))
    return named and plain and not made and not any(kind == "source" for kind, _ in n["args"])


class ProgramWriter(Writer):
    """Writes what a program can import, and nothing else."""

    def callee(self, function):
        if function is random:
            return "random"
        if str(getattr(function, "__module__", "")).startswith("dynoc"):
            return self.known_as(function, function.__name__)
        if type(function).__module__ == "torch._ops":
            self.globals["torch"] = sys.modules["torch"]
            return f"torch.ops.{function}"
        return super().callee(function)

    def text(self, arg):
        torch = sys.modules["torch"]
        if isinstance(arg, (torch.dtype, torch.device, torch.memory_format, torch.layout)):
            self.globals["torch"] = torch
            return f"torch.device({str(arg)!r})" if isinstance(arg, torch.device) else str(arg)
        if isinstance(arg, np.dtype):
            return f"numpy.dtype({arg.str!r})"
        return super().text(arg)

    def note(self, n):
        stands_for = n.meta.get("stands_for")
        return super().note(n) if stands_for is None else f': "stands for what {stands_for} gives"'


def imported(name, value):
    """The line that makes a global of the program."""
    if isinstance(value, types.ModuleType):
        return f"import {value.__name__}" if value.__name__ == name else f"import {value.__name__} as {name}"
    home = home_of(value)
    module, _, own = (home or "").rpartition(".")
    if not module:
        raise BackendError(f"a program can't import {value!r}")
    return f"from {module} import {own}" if own == name else f"from {module} import {own} as {name}"


def names_of(data):
    """Names for what comes in, none of which a program has another use for."""
    taken = {*LIBRARIES, *dir(builtins), "random", "rng", "graph"}
    return [f"{name}_" if name in taken or keyword.iskeyword(name) else name for name in _capture.input_names(data)]


def random_input(data, node, tensor, device):
    """The expression of an input of the shape and memory order that were recorded."""
    n = data["nodes"][node]
    shape = tuple(data["symbols"][k]["value"] for k in n["shape"])
    plain = n["order"] == tuple(range(len(shape)))
    axes = "" if plain else "".join(f", {axis}" for axis in n["order"])
    there = f".to({device!r})" if device != "cpu" else ""
    return f"random({shape}, torch.{_capture.DTYPES[n['dtype']]}{axes}){there if tensor else '.numpy()'}"


def text_of(data):
    """The program of a graph.

    Parameters
    ----------
    data : dict
        ``entry._data``: the graph as the extension writes it down.

    Returns
    -------
    str
        A module with the function ``graph``, which takes what comes into the graph and gives what comes out of it.
    """
    graph = Graph()
    try:
        captured = Program(graph, data, names_of(data), dynamic=True)
        results = captured.outputs()
        graph.output(results)
        graph.eliminate_dead_code()
        for unused in captured.objects.values():
            if not unused.users:
                graph.erase_node(unused)
        code = ProgramWriter(graph, "_", True).code()
        imports = {imported(name, value) for name, value in code.globals.items()} | {"import torch"}
    except BackendError as error:  # an operator that neither library has
        return f"raise SystemExit({str(error)!r})\n"
    paths = [data["sources"][data["nodes"][k]["source"]] for k in data["inputs"]]
    made = [random_input(data, k, captured.tensors[k], captured.device) for k in data["inputs"]]
    inputs = [f"        {value},  # {path}\n" for value, path in zip(made, paths, strict=True)]
    function = re.sub(r"^def forward\(_(, )?", "def graph(", code.src)
    main = MAIN.format(inputs="".join(inputs), names=[node.name for node in results])
    return HEADING.format(name=data["name"], imports="\n".join(sorted(imports))) + function + main
