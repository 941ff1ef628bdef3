"""From what the extension recorded to a `Graph`: nodes of NumPy's and torch's own callables, which give what eager gives.

`entry._data` is the graph as src/ir/graph_data.c writes it down. Called by the extension for ``entry.graph``, and by
`dynoc._backends`.
"""

import keyword
import math
import operator
import re
import sys
import types

import numpy as np

from dynoc import _reference
from dynoc._errors import BackendError
from dynoc._graph import Graph

NPSCALAR, VIEW, READONLY, OBJECT, TENSOR, OR_NOTHING = 1, 2, 16, 64, 128, 2048  # DYN_NODE_* of src/ir/graph.h
DTYPES = {"bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16"}
DTYPES |= {"u32": "uint32", "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
DTYPES |= {"c64": "complex64", "c128": "complex128"}
LOGICAL = {"logical_and", "logical_or", "logical_xor", "logical_not"}
OPERATORS = {  # of arrays, by NumPy's name of the function
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "negative": operator.neg, "power": operator.pow,
    "greater": operator.gt, "greater_equal": operator.ge, "less": operator.lt, "less_equal": operator.le,
    "equal": operator.eq, "not_equal": operator.ne, "bitwise_and": operator.and_, "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor, "invert": operator.invert, "left_shift": operator.lshift, "right_shift": operator.rshift,
}  # fmt: skip
TORCH_NAMES = {"rint": "round", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh",
               "arccosh": "acosh", "arctanh": "atanh", "degrees": "rad2deg", "radians": "deg2rad", "conjugate": "conj",
               "fabs": "abs", "max": "amax", "min": "amin", "maximum_accumulate": "cummax", "minimum_accumulate": "cummin",
               "absolute": "abs"}  # fmt: skip


def modulus(a, b):
    """The size of a complex number, of its two parts."""
    return abs(complex(a, b))


NUMBERS = {  # symbols' operators, by their names in src/ir/sym.def
    "ADD": operator.add, "SUB": operator.sub, "MUL": operator.mul, "FLOORDIV": operator.floordiv, "MOD": operator.mod,
    "TRUEDIV": operator.truediv, "POW": operator.pow, "LSHIFT": operator.lshift, "RSHIFT": operator.rshift,
    "AND": operator.and_, "OR": operator.or_, "XOR": operator.xor, "NEG": operator.neg, "INVERT": operator.invert,
    "ABS": abs, "MIN": min, "MAX": max, "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le,
    "GT": operator.gt, "GE": operator.ge, "NOT": operator.not_, "BOOL": bool, "TO_FLOAT": float, "TO_INT": int,
    "FLOOR": math.floor, "CEIL": math.ceil, "ROUND": round, "SQRT": math.sqrt, "EXP": math.exp, "LOG": math.log,
    "LOG2": math.log2, "LOG10": math.log10, "SIN": math.sin, "COS": math.cos, "TAN": math.tan, "ATAN": math.atan,
    "TANH": math.tanh, "FABS": math.fabs, "FPOW": math.pow, "ATAN2": math.atan2, "HYPOT": math.hypot,
    "MODULUS": modulus,
    "ISFINITE": math.isfinite,
}  # fmt: skip

UNARY = {"NEG", "INVERT", "ABS", "NOT", "BOOL", "TO_FLOAT", "TO_INT", "FLOOR", "CEIL", "ROUND", "SQRT", "EXP", "LOG", "LOG2"}
UNARY |= {"LOG10", "SIN", "COS", "TAN", "ATAN", "TANH", "FABS", "ISFINITE"}


# ---- what the nodes of a graph call where neither NumPy nor torch has a function for it


def slice_start(start, length, step):
    """Where a slice begins, as `slice.indices` says."""
    return slice(start, None, step).indices(length)[0]


def slice_stop(stop, length, step):
    """Where a slice ends, as `slice.indices` says."""
    return slice(None, stop, step).indices(length)[1]


def slice_length(start, stop, step):
    """How many steps there are."""
    return len(range(start, stop, step))


def same_bits(a, b):
    """Are two floats the same, -0.0 and 0.0 not, and nan itself?"""
    return a == b and math.copysign(1, a) == math.copysign(1, b) or (a != a and b != b)


NUMBERS |= {"SLICE_START": slice_start, "SLICE_STOP": slice_stop, "SLICE_LEN": slice_length, "SAME_BITS": same_bits}


def check(holds):
    """What was taken for granted of a call's results."""
    if not holds:
        raise BackendError("a call in the graph gave something else than when it was recorded")


def window(a, start, shape, steps):
    """A view of `a` from the element `start` on; for each axis of `a`, steps along it of each axis of the view."""
    strides = a.stride() if hasattr(a, "untyped_storage") else a.strides
    along = [sum(step[i] * stride for step, stride in zip(steps, strides, strict=True)) for i in range(len(shape))]
    if 0 in shape:
        start = (0,) * len(start)
    if hasattr(a, "untyped_storage"):
        offset = a.storage_offset() + sum(i * s for i, s in zip(start, strides, strict=True))
        return a.as_strided(tuple(shape), tuple(along), offset)
    if 0 in shape:
        return np.lib.stride_tricks.as_strided(a, shape, along)
    first = a[tuple(slice(i, None) for i in start)]
    return np.lib.stride_tricks.as_strided(first, shape, along)


def store(a, value):
    """Write into an array whatever its flags say: views that only rules may write."""
    writeable = a.flags.writeable
    if not writeable:
        a.flags.writeable = True
    np.copyto(a, value, casting="unsafe")
    if not writeable:
        a.flags.writeable = False


def empty_in_order(shape, dtype, order):
    """A new array with its axes in memory in this order."""
    new = np.empty([shape[i] for i in order], dtype)
    return new.transpose(np.argsort(order))


def copy_in_order(a, dtype, order):
    """A copy with its axes in memory in this order."""
    if isinstance(a, (np.ndarray, np.generic)):
        new = empty_in_order(a.shape, dtype, order)
        np.copyto(new, a, casting="unsafe")
        return new
    back = [order.index(i) for i in range(len(order))]
    return a.permute(order).to(dtype, copy=True, memory_format=sys.modules["torch"].contiguous_format).permute(back)


def identity(name, dtype):
    """What "max" or "min" of no elements are where something follows that they are combined with."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if name == "max" else np.iinfo(dtype).max
    infinity = -np.inf if name == "max" else np.inf
    return complex(infinity, infinity) if dtype.kind == "c" else infinity


def product(a, dims, keepdim, dtype):
    """`torch.prod` over several axes."""
    for dim in sorted(dims, reverse=True):
        a = a.prod(dim, keepdim=keepdim, dtype=dtype)
    return a


def make_function(code, globals, closure, defaults, keywords):
    """A function that the recorded one made."""
    made = types.FunctionType(code, globals, code.co_name, defaults, closure)
    made.__kwdefaults__ = keywords
    return made


# ---- the conversion


def tensors_in(nodes):
    """Which nodes are tensors: those that Python saw, and what is made of them."""
    found = []
    mixed = any(n["flags"] & TENSOR for n in nodes)
    for n in nodes:
        operands = [found[i] for kind, i in n["args"] if kind == "node"]
        known = n["kind"] in ("input", "extern", "result")
        found.append(bool(n["flags"] & TENSOR) or (not known and (any(operands) if operands else mixed)))
    return found


class Capture:
    """Fills a graph from the data of an entry.

    Parameters
    ----------
    graph : Graph
    data : dict
        ``entry._data``.
    names : list of str
        Of the inputs, in order.
    dynamic : bool
        Sizes and numbers come as leading inputs; else they are those of the recording.
    get_input : callable, optional
        Makes the node of an input, from its number and name; left out, a placeholder.
    """

    def __init__(self, graph, data, names, dynamic=False, get_input=None):
        self.graph, self.data, self.dynamic = graph, data, dynamic
        self.nodes, self.numbers, self.objects, self.of_call = {}, {}, {}, {}
        self.modules = {}
        self.tensors = tensors_in(data["nodes"])
        self.device = f"cuda:{data['device'] - 1}" if data["device"] else "cpu"
        self.symbols = self.leading() if dynamic else []
        self.take(names, get_input)
        used = {a for n in data["nodes"] for kind, a in n["args"] if kind == "source"}
        self.sources = sorted(used)
        for source in self.sources:
            self.objects[source] = graph.placeholder(f"{identifier(data['sources'][source])}_object")
        for i, n in enumerate(data["nodes"]):
            if n["kind"] != "input":
                self.nodes[i] = self.convert(i, n)

    def take(self, names, get_input):
        """Makes what comes in: numbers first, then arrays."""
        for number in self.symbols:
            self.numbers[number] = self.graph.placeholder(f"s{number}")
        for k, node in enumerate(self.data["inputs"]):
            made = get_input(k, names[k]) if get_input else self.graph.placeholder(names[k])
            self.nodes[node] = self.described(made, node)

    def outputs(self):
        """The nodes of the graph's outputs."""
        return tuple(self.nodes[i] for i in self.data["outputs"])

    # ---- numbers

    def leading(self):
        used, symbols = set(), self.data["symbols"]

        def use(i):
            s = symbols[symbols[i]["root"]]
            if s["op"] in ("VAR", "DIM", "STRIDE"):
                used.add(symbols[i]["root"])
            elif s["op"] not in ("CONST", "LATE"):
                for operand in self.operands(s):
                    use(operand)

        for n in self.data["nodes"]:
            for i in [*n["shape"], *(a for kind, a in n["args"] if kind == "sym")]:
                use(i)
        for i in self.data["checks"]:
            use(i)
        return sorted(used)

    def operands(self, s):
        """The symbols that an operator is applied to."""
        if s["op"] in ("SLICE_START", "SLICE_STOP", "SLICE_LEN"):
            return [s["a"], s["b"], s["c"]]
        return [s["a"]] if s["op"] in UNARY else [s["a"], s["b"]]

    def number(self, i, checked=False):
        """A symbol: a Python number, or the node that gives it. checked: nothing is taken for granted of what calls give."""
        s = self.data["symbols"][i]
        root = self.data["symbols"][s["root"]]
        if s["root"] != i and (root["op"] == "CONST" or root["after"] == 0) and not (checked and s["after"]):
            return self.number(s["root"])
        if i in self.numbers:
            return self.numbers[i]
        if s["op"] == "CONST" or (s["after"] == 0 and not self.dynamic):
            return s["value"]
        if s["op"] == "LATE":
            made = self.size(self.nodes[s["a"]], s["index"], self.tensors[s["a"]])
        else:
            made = self.graph.call_function(NUMBERS[s["op"]], tuple(self.number(k, checked) for k in self.operands(s)))
        self.numbers[i] = made
        return made

    def evaluated(self, i, known):
        """A symbol's value, where those of some are known: sizes that stand for every call."""
        s = self.data["symbols"][i]
        if s["root"] != i:
            return self.evaluated(s["root"], known)
        if i not in known and s["op"] in NUMBERS:
            known[i] = NUMBERS[s["op"]](*(self.evaluated(k, known) for k in self.operands(s)))
        return known.get(i, s["value"])

    def size(self, node, axis, torch):
        if torch:
            return self.graph.call_method("size", (node, axis))
        return self.graph.call_function(operator.getitem, (self.graph.call_function(getattr, (node, "shape")), axis))

    def shape(self, n):
        return tuple(map(self.number, n["shape"]))

    # ---- nodes

    def described(self, node, i):
        n = self.data["nodes"][i]
        hints = [self.data["symbols"][i]["value"] for i in n["shape"]]
        if not n["flags"] & OBJECT:
            node.meta.update(dtype=self.dtype(n["dtype"], self.tensors[i]), shape=tuple(hints), device=self.device)
        if n["place"] is not None:
            file, line, name = n["place"]
            node.meta["place"] = f"{file}:{line}"
            node.meta["stack_trace"] = f'  File "{file}", line {line}, in {name}\n'
        return node

    def dtype(self, name, torch):
        return getattr(sys.modules["torch"], DTYPES[name]) if torch else np.dtype(DTYPES[name])

    def call(self, function, *args, **kwargs):
        return self.graph.call_function(function, args, kwargs)

    def method(self, name, *args, **kwargs):
        return self.graph.call_method(name, args, kwargs)

    def convert(self, i, n):
        torch = self.tensors[i]
        before = self.graph._anchor._prev
        made = getattr(self, n["kind"])(i, n, torch)
        made = self.as_eager_has_it(made, n) if made is not None and not torch else made
        node = before._next
        while node is not self.graph._anchor:
            if "place" not in node.meta:
                self.described(node, i)
            node = node._next
        return made

    def as_eager_has_it(self, made, n):
        """NumPy's functions give a scalar where they could give an array of rank 0; eager may have had the other."""
        if n["shape"] or n["kind"] in ("store", "extern", "result"):
            return made
        scalar = n["kind"] in ("elementwise", "reduce", "scan", "gather")
        if n["flags"] & NPSCALAR and not scalar:
            return self.call(operator.getitem, made, ())
        return self.call(np.asarray, made) if scalar and not n["flags"] & NPSCALAR else made

    def operand(self, arg, dtype, torch):
        """A node in the dtype in which it is computed, or a number of that kind."""
        kind, i = arg
        if kind == "sym":
            number = self.number(i)
            if isinstance(number, (bool, int, float)):
                letter = "f" if dtype == "bf16" else dtype[0]
                of = {"b": bool, "i": int, "u": int}.get(letter, float if letter != "c" else type(number))
                return of(number) if torch and not (of is int and isinstance(number, float)) else number
            return number
        node = self.nodes[i]
        if self.data["nodes"][i]["dtype"] == dtype:
            return node
        return self.method("to" if torch else "astype", node, self.dtype(dtype, torch))

    def elementwise(self, i, n, torch):
        name, compute = n["function"], n["compute"]
        args = []
        for k, arg in enumerate(n["args"]):
            boolean = name in LOGICAL or (name == "where" and k == 0)
            args.append(self.operand(arg, "bool" if boolean else "i64" if name == "ldexp" and k == 1 else compute, torch))
        made = self.call(self.function(name, torch, args), *args)
        if n["which"] >= 0:
            made = self.call(operator.getitem, made, n["which"])
        return self.converted(made, n, torch)

    def function(self, name, torch, args=()):
        if not torch or name == "philox":
            return getattr(np, name, None) or getattr(_reference, name)
        if name in OPERATORS:
            return OPERATORS[name]
        module, name = sys.modules["torch"], TORCH_NAMES.get(name, name)
        if name in ("maximum", "minimum") and any(isinstance(a, (int, float)) for a in args):
            return clamp_to_maximum if name == "minimum" else clamp_to_minimum
        found = getattr(module, name, None) or getattr(module.special, name, None)
        if found is None:
            raise BackendError(f"torch has no function for {name}")
        return found

    def converted(self, made, n, torch):
        """Where the result is of another dtype than what is computed in."""
        boolean = n["dtype"] == "bool"
        if n["dtype"] == n["compute"] or boolean or (n["compute"][0] == "c" and n["dtype"][0] == "f"):
            return made
        return self.method("to" if torch else "astype", made, self.dtype(n["dtype"], torch))

    def reduce(self, i, n, torch):
        a = self.operand(n["args"][0], n["compute"], torch)
        keep, axes = bool(n["aux"][0]), n["aux"][1:]
        if not torch:
            nothing = {"initial": identity(n["function"], self.dtype(n["compute"], False))} if n["flags"] & OR_NOTHING else {}
            return self.call(getattr(np, n["function"]), a, axis=axes or None, keepdims=keep, **nothing)
        rank = len(self.data["nodes"][n["args"][0][1]]["shape"])
        axes = axes or tuple(range(rank))
        if n["function"] == "prod":
            return self.call(product, a, axes, keep, self.dtype(n["compute"], True))
        if n["function"] == "sum":
            return self.call(sys.modules["torch"].sum, a, axes, keep, dtype=self.dtype(n["compute"], True))
        return self.converted(self.call(self.function(n["function"], True), a, axes, keep), n, True)

    def scan(self, i, n, torch):
        a, axis = self.operand(n["args"][0], n["compute"], torch), n["aux"][0]
        name = n["function"]
        if name == "histogram":
            edges = self.nodes[n["args"][1][1]]
            ends = tuple(self.call(operator.getitem, edges, k) for k in (0, -1))
            both = self.call(np.histogram, a, self.number(n["shape"][0]), ends)
            return self.call(operator.getitem, both, 0)
        if name in ("argmax", "argmin"):
            keep = {"keepdim" if torch else "keepdims": bool(n["aux"][1])}
            return self.call(self.function(name, torch), a, None if axis < 0 else axis, **keep)
        if axis < 0:
            a = self.method("reshape", a, (-1,)) if torch else self.method("ravel", a)
        if torch:
            made = self.call(self.function(name, True), a, max(axis, 0))
            return self.call(operator.getitem, made, 0) if name.endswith("accumulate") else made
        ufunc = getattr(np, {"cumsum": "add", "cumprod": "multiply"}.get(name, name.removesuffix("_accumulate")))
        return self.call(ufunc.accumulate, a, max(axis, 0), dtype=self.dtype(n["compute"], False))

    def gather(self, i, n, torch):
        a, index = (self.nodes[k] for _, k in n["args"])
        if not torch:
            return self.call(np.take, a, index, axis=n["aux"][0])
        if self.data["nodes"][n["args"][1][1]]["dtype"] != "i64":
            index = self.method("to", index, self.dtype("i64", True))
        return self.call(operator.getitem, a, (*[slice(None)] * n["aux"][0], index))

    def view(self, i, n, torch):
        base, op = self.nodes[n["args"][0][1]], n["op"]
        if op == "slice":
            made = self.call(operator.getitem, base, self.index(n, torch))
        elif op == "permute":
            made = self.method("permute" if torch else "transpose", base, n["aux"])
        elif op == "reshape":
            made = self.method("reshape", base, self.shape(n))
            made = made if torch or n["flags"] & VIEW else self.method("copy", made)
        elif op == "as_dtype":
            made = self.method("view", base, self.dtype(n["dtype"], torch))
        elif op in ("real", "imag"):
            made = self.call(getattr, base, op)
        elif op == "broadcast":
            made = self.method("expand", base, self.shape(n)) if torch else self.call(np.broadcast_to, base, self.shape(n))
        else:
            start, rank = tuple(self.number(a) for _, a in n["args"][1:]), len(n["shape"])
            steps = tuple(n["aux"][k * rank : (k + 1) * rank] for k in range(len(start)))
            made = self.call(window, base, start, self.shape(n), steps)
        return made

    def index(self, n, torch):
        numbers, sizes, items = iter(self.number(a) for _, a in n["args"][1:]), iter(n["shape"]), []
        for code in n["aux"]:
            if code == 1:
                items.append(next(numbers))
                continue
            size = self.number(next(sizes))
            if code == 2:
                items.append(None)
                continue
            start, _, step = next(numbers), next(numbers), next(numbers)
            stop = self.stop(start, size, step)
            items.append(slice(start, stop, step))
        return tuple(items) if n["shape"] or torch else (*items, ...)

    def stop(self, start, size, step):
        """The length is the shape's; a negative stop can't be written as it is."""
        if isinstance(start, int) and isinstance(size, int) and isinstance(step, int):
            stop = start + size * step
            return start if size == 0 else None if stop < 0 else stop
        return self.call(slice_end, start, size, step)

    def create(self, i, n, torch):
        shape, dtype, module = self.shape(n), self.dtype(n["dtype"], torch), sys.modules["torch"] if torch else np
        how = {"dtype": dtype} if self.device == "cpu" else {"dtype": dtype, "device": self.device}
        if n["op"] == "iota":
            return self.call(module.arange, shape[0], **how)
        fills = [self.number(a) for kind, a in n["args"] if kind == "sym"]
        order = n["order"]
        plain = order == tuple(range(len(order)))
        fill = self.call(complex, *fills) if n["op"] == "complex" else fills[0] if fills else None
        if plain and fill is None:
            return self.call(module.empty, shape, **how)
        if plain:
            return self.call(module.full, shape, fill, **how)
        back = tuple(order.index(k) for k in range(len(order)))
        turned = tuple(shape[k] for k in order)
        made = self.call(module.full, turned, 0 if fill is None else fill, **how)
        return self.method("permute" if torch else "transpose", made, back)

    def copy(self, i, n, torch):
        return self.call(copy_in_order, self.nodes[n["args"][0][1]], self.dtype(n["dtype"], torch), n["order"])

    def store(self, i, n, torch):
        target, dst = n["args"][0][1], self.nodes[n["args"][0][1]]
        to = self.data["nodes"][target]
        if n["op"] == "scatter":
            made = self.scatter(n, dst, torch)
        else:
            value = self.operand(n["args"][1], to["dtype"], torch)
            if torch:
                made = self.method("copy_" if n["args"][1][0] == "node" else "fill_", dst, value)
            elif to["flags"] & READONLY:
                made = self.call(store, dst, value)
            else:
                made = self.call(np.copyto, dst, value, casting="unsafe")
        made.meta["impure"] = True
        return made

    def scatter(self, n, dst, torch):
        value, index = self.nodes[n["args"][1][1]], self.nodes[n["args"][2][1]]
        if n["aux"][0] < 0:
            return self.call(operator.setitem, dst, index, value)
        name = n["at"]
        if not torch:
            return self.call(getattr(np, name).at, dst, index, value)
        if name != "add":
            raise BackendError(f"torch has no {name}.at")
        return self.method("index_put_", dst, (index,), value, accumulate=True)

    # ---- calls

    def extern(self, i, n, torch):
        x = self.data["externs"][n["extern"]]
        operands, forms = iter(n["args"]), iter(x["args"])
        args = self.argument(forms, operands)
        names = x["keywords"] or ()
        positional, keywords = args[: len(args) - len(names)], dict(zip(names, args[len(args) - len(names) :], strict=True))
        name = method_name(x["callable"])
        if name is not None and positional:
            made = self.graph.call_method(name, positional, keywords)
        elif is_module(x["callable"]):
            path = module_path(x["name"])
            self.modules[path] = x["callable"]
            made = self.graph.call_module(path, positional, keywords)
        else:
            made = self.graph.call_function(x["callable"], positional, keywords)
        if x["acts"]:
            made.meta["impure"] = True
        found, late = [], []
        self.results(iter(x["results"]), made, found, late)
        self.of_call[i] = iter(found[1:])
        for symbol, node in late:
            self.numbers[symbol] = node
        self.nodes[i] = found[0] if found else made
        if i + 1 == len(self.data["nodes"]) or self.data["nodes"][i + 1]["kind"] != "result":
            self.checks(i)
        return self.nodes[i]

    def result(self, i, n, torch):
        call = n["args"][0][1]
        self.nodes[i] = next(self.of_call[call])
        last = i + 1 == len(self.data["nodes"]) or self.data["nodes"][i + 1]["kind"] != "result"
        if last:
            self.checks(call)
        return self.nodes[i]

    def checks(self, call):
        for symbol in self.data["checks"]:
            if self.data["symbols"][symbol]["after"] == call + 1:
                self.call(check, self.number(symbol, True)).meta["impure"] = True

    def results(self, forms, node, found, late):
        """Walks along what a call gives: its arrays and numbers, as nodes."""
        kind, number, _ = next(forms)
        if kind in ("node", "object"):
            found.append(node)
        elif kind == "number":
            late.append((number, node))
        elif kind in ("tuple", "list", "named"):
            for k in range(number):
                self.results(forms, self.call(operator.getitem, node, k), found, late)

    def argument(self, forms, operands):
        kind, number, obj = next(forms)
        if kind in ("node", "number"):
            what, i = next(operands)
            return self.number(i) if what == "sym" else self.objects[i] if what == "source" else self.nodes[i]
        if kind == "const":
            return obj
        count = {"slice": 3, "complex": 2, "attr": 1, "function": 4, "cell": 1}.get(kind, number)
        items = [self.argument(forms, operands) for _ in range(count)]
        if kind == "list":
            return items
        if kind == "slice":
            return slice(*items)
        if kind == "complex":
            return complex(*items) if all(type(item) is float for item in items) else self.call(complex, *items)
        if kind == "attr":
            return self.call(getattr, items[0], obj)
        if kind == "function":
            return self.call(make_function, obj, *items)
        if kind == "cell":
            return self.call(types.CellType, items[0])
        return tuple(items)

    # ---- what the function returns

    def returned(self, i=None):
        """What the function returned, in terms of nodes; BackendError where that is more than arrays and plain values."""
        if self.data["result"] is None:
            raise BackendError(f"{self.data['name']} does more than to compute what it returns: it has no graph of its own")
        kind, number, obj, items = self.data["recipes"][self.data["result"] if i is None else i]
        if kind == "OUTPUT":
            return self.nodes[self.data["outputs"][number]]
        if kind == "CONST":
            return obj
        if kind == "SYM":
            return self.number(number)
        if kind == "SOURCE":
            for node in self.data["inputs"]:
                if self.data["nodes"][node]["source"] == number:
                    return self.nodes[node]
        made = [self.returned(item) for item in items]
        if kind in ("TUPLE", "LIST"):
            return tuple(made) if kind == "TUPLE" else made
        if kind == "DICT":
            return dict(zip(made[::2], made[1::2], strict=True))
        if kind == "NAMED":
            return self.call(obj._make, made[0])
        raise BackendError(f"{self.data['name']} returns something that a graph has no node for ({kind.lower()})")


def slice_end(start, size, step):
    """The end of a slice of so many elements."""
    stop = start + size * step
    return start if size == 0 else None if stop < 0 else stop


def clamp_to_minimum(a, b):
    """`torch.maximum` of a tensor and a number."""
    return a.clamp(min=b) if hasattr(a, "clamp") else b.clamp(min=a)


def clamp_to_maximum(a, b):
    """`torch.minimum` of a tensor and a number."""
    return a.clamp(max=b) if hasattr(a, "clamp") else b.clamp(max=a)


def method_name(function):
    """The name of a method in C of arrays or tensors; None: it is no such method."""
    if not isinstance(function, types.MethodDescriptorType) or issubclass(function.__objclass__, np.ufunc):
        return None
    return function.__name__


def is_module(function):
    """Is it a module of torch's, which is a node of its own?"""
    return "torch" in sys.modules and isinstance(function, sys.modules["torch"].nn.Module)


def words_of(path):
    """The names in a path, but those of the dicts in which a module keeps what hangs on it."""
    return [word for word in re.findall(r"\w+", path) if word not in ("_modules", "__dict__", "_parameters", "_buffers")]


def module_path(path):
    """What the module is called below the first one: ``self.layers[0]`` is ``layers.0``."""
    words = words_of(path)
    return ".".join(words[1:] or words)


def identifier(path):
    """A name made of where an object is found: ``self.layers[0].weight`` is ``self_layers_0_weight``."""
    name = "_".join(words_of(path)) or "_"
    return f"_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name


def input_names(data):
    """Names for the inputs, each another one: of the parameters where they are parameters."""
    names = []
    for node in data["inputs"]:
        name = wanted = identifier(data["sources"][data["nodes"][node]["source"]])
        while name in names:
            name = f"{wanted}_{len(names)}"
        names.append(name)
    return names


def graph_of(entry):
    """The graph of an entry. Its nodes are made when somebody looks at them."""
    graph = Graph()
    graph._text = entry._text

    def fill(graph):
        data = entry._data
        captured = Capture(graph, data, input_names(data))
        graph.output(captured.outputs())

    graph._pending = fill
    return graph
