"""Graphs as `torch.fx` has them, without torch: `Node`, `Graph` and `GraphModule`.

Names, fields and behaviour follow `torch.fx`. Graphs are made by `dynoc._capture` from what the extension recorded, or by hand.
"""

import builtins
import contextlib
import keyword
import math
import operator
import re
import sys

OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
PLAIN = (str, int, float, bool, complex, bytes, type(None), type(...))
IMPURE = {operator.setitem, operator.delitem}
BINARY = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@"}
BINARY |= {"lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^"}
BINARY |= {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">="}
WRITTEN = {getattr(operator, name): f"{{}} {sign} {{}}" for name, sign in BINARY.items()}
WRITTEN |= {operator.neg: "-{}", operator.pos: "+{}", operator.invert: "~{}", operator.getitem: "{}[{}]"}


def map_arg(arg, function):
    """`arg` with every node in it (in tuples, lists, dicts and slices) replaced by what `function` gives for it."""
    return map_aggregate(arg, lambda a: function(a) if isinstance(a, Node) else a)


def map_aggregate(arg, function):
    """`arg` with everything in it that is no tuple, list, dict or slice replaced by what `function` gives for it."""
    if isinstance(arg, tuple):
        items = [map_aggregate(item, function) for item in arg]
        return type(arg)(*items) if hasattr(arg, "_fields") else tuple(items)
    if isinstance(arg, list):
        return [map_aggregate(item, function) for item in arg]
    if isinstance(arg, dict):
        return {key: map_aggregate(item, function) for key, item in arg.items()}
    if isinstance(arg, slice):
        return slice(*(map_aggregate(part, function) for part in (arg.start, arg.stop, arg.step)))
    return function(arg)


class Node:
    """One operation of a graph. Made by `Graph.create_node`.

    Attributes
    ----------
    op : str
        ``placeholder``, ``get_attr``, ``call_function``, ``call_method``, ``call_module`` or ``output``.
    target : callable or str
        What is called, or the name of the input, the attribute, the method or the module.
    args, kwargs : tuple, dict
        Arguments: nodes, plain values, and tuples, lists, dicts and slices of these.
    name : str
        Unique in the graph.
    meta : dict
        ``dtype``, ``shape``, ``device`` and ``place`` (file:line) of captured nodes.
    users : dict
        The nodes that use this one, in order.
    """

    def __init__(self, graph, name, op, target, args, kwargs, type=None):
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, type
        self.meta, self.users, self._erased = {}, {}, False
        self._args, self._kwargs, self._inputs = (), {}, {}
        self._prev = self._next = self
        self._set(args, kwargs)

    def _set(self, args, kwargs):
        for node in self._inputs:
            node.users.pop(self, None)
        self._args, self._kwargs, self._inputs = map_arg(tuple(args), lambda n: n), map_arg(dict(kwargs), lambda n: n), {}
        map_arg((self._args, self._kwargs), lambda n: self._inputs.setdefault(n))
        for node in self._inputs:
            node.users[self] = None
        if self.graph is not None:
            self.graph._changed()

    @property
    def args(self):
        return self._args

    @args.setter
    def args(self, args):
        self._set(args, self._kwargs)

    @property
    def kwargs(self):
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs):
        self._set(self._args, kwargs)

    @property
    def all_input_nodes(self):
        """The nodes that this one uses."""
        return list(self._inputs)

    @property
    def next(self):
        """The node behind this one."""
        return self._next

    @property
    def prev(self):
        """The node before this one."""
        return self._prev

    @property
    def stack_trace(self):
        return self.meta.get("stack_trace")

    def _place(self, following):
        self._prev._next, self._next._prev = self._next, self._prev
        self._prev, self._next = following._prev, following
        self._prev._next = following._prev = self
        self.graph._changed()

    def prepend(self, node):
        """Move `node` to before this one."""
        if node is not self:
            node._place(self)

    def append(self, node):
        """Move `node` to behind this one."""
        if node is not self:
            node._place(self._next if self._next is not node else node._next)

    def update_arg(self, index, arg):
        args = list(self._args)
        args[index] = arg
        self.args = args

    def update_kwarg(self, key, arg):
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old, new):
        """Use `new` where `old` is used."""
        change = lambda n: new if n is old else n  # noqa: E731
        self._set(map_arg(self._args, change), map_arg(self._kwargs, change))

    def replace_all_uses_with(self, new, delete_user_cb=lambda user: True, *, propagate_meta=False):
        """Let every user of this node use `new` in its place.

        Parameters
        ----------
        new : Node
        delete_user_cb : callable
            Called with each user: False leaves it as it is.
        propagate_meta : bool
            Give `new` this node's `meta`.

        Returns
        -------
        list of Node
            The users that were changed.
        """
        if propagate_meta:
            new.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, new)
        return changed

    def is_impure(self):
        """Does it do something besides giving a value?"""
        if self.op in ("placeholder", "output") or self.meta.get("impure"):
            return True
        if self.op == "call_method":
            return self.target.endswith("_") and not self.target.endswith("__")
        return self.op == "call_function" and self.target in IMPURE

    def format_node(self):
        """The node as one line of the graph's text."""
        if self.op == "output":
            return f"return {self._args[0]}"
        if self.op == "placeholder":
            return f"%{self.name} : [num_users={len(self.users)}] = placeholder[target={self.target}]"
        target = self.target if isinstance(self.target, str) else qualified_name(self.target)
        args = f"(args = {percent(self._args)}, kwargs = {percent(self._kwargs)})" if self.op != "get_attr" else ""
        return f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={target}]{args}"

    def __repr__(self):
        return self.name


def percent(arg):
    """Arguments as text, nodes as %name."""
    if isinstance(arg, tuple):
        return "(" + ", ".join(map(percent, arg)) + (",)" if len(arg) == 1 else ")")
    if isinstance(arg, list):
        return "[" + ", ".join(map(percent, arg)) + "]"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {percent(item)}" for key, item in arg.items()) + "}"
    return f"%{arg.name}" if isinstance(arg, Node) else repr(arg)


MODULES = ("operator", "math", "numpy", "numpy.linalg", "torch", "torch.nn.functional", "torch._C._nn", "torch.special")


def qualified_name(function):
    """Where a callable is found, as ``numpy.sin``; its bare name where it is found nowhere."""
    own = getattr(function, "__name__", None) or type(function).__name__
    if getattr(builtins, own, None) is function:
        return own
    for name in (getattr(function, "__qualname__", own), own):
        for module in (str(getattr(function, "__module__", "")), *MODULES):
            module = {"_operator": "operator"}.get(module, module)
            found = sys.modules.get(module)
            for part in name.split("."):
                found = getattr(found, part, None)
            if found is not None and found is function:
                return f"{module}.{name}"
    return own


class NodeList:
    """The nodes of a graph in order."""

    def __init__(self, graph, backwards=False):
        self._graph, self._backwards = graph, backwards

    def __iter__(self):
        step = "_prev" if self._backwards else "_next"
        node = getattr(self._graph._root, step)
        while node is not self._graph._root:
            if not node._erased:
                yield node
            node = getattr(node, step)

    def __len__(self):
        return self._graph._len

    def __reversed__(self):
        return NodeList(self._graph, not self._backwards)

    def __repr__(self):
        return repr(list(self))


class Graph:
    """A graph of nodes, as `torch.fx.Graph`. Of a captured one ``str(graph)`` is the text that the recorder gives, as long as
    nobody changes it.

    Examples
    --------
    >>> import numpy as np
    >>> import dynoc
    >>> graph = dynoc.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(np.sin, (x,))
    >>> out = graph.output(y)
    >>> float(dynoc.GraphModule(graph)(0.0))
    0.0
    """

    def __init__(self, owning_module=None):
        self.owning_module = owning_module
        self._text, self._pending, self._filling = None, None, False
        self._start()

    def _start(self):
        self._anchor, self._len, self._names = Node(None, "", "root", "", (), {}), 0, {}
        self._before = self._anchor

    @property
    def _root(self):
        if self._pending is not None:
            fill, self._pending, self._filling, done = self._pending, None, True, False
            try:
                fill(self)
                done = True
            finally:
                self._filling = False
                if not done:  # whoever looks next gets the same exception
                    self._start()
                    self._pending = fill
        return self._anchor

    def _changed(self):
        if not self._filling:
            self._text = None

    # ---- looking

    @property
    def nodes(self):
        """The nodes in order."""
        self._root  # noqa: B018 a captured graph's nodes are made when somebody looks
        return NodeList(self)

    def find_nodes(self, *, op, target=None):
        """The nodes of a kind, and of a target if one is given."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self):
        return self.find_nodes(op="output")[-1]

    def __str__(self):
        if self._text is not None:
            return self._text
        names = ", ".join(f"%{n.name}" for n in self.nodes if n.op == "placeholder")
        return "\n".join([f"graph({names}):", *(f"    {n.format_node()}" for n in self.nodes)])

    def __repr__(self):
        return f"<dynoc graph of {len(str(self).splitlines())} lines>"

    def _repr_html_(self):
        from dynoc import _report_graph

        return _report_graph.in_notebook(self)

    def print_readable(self, print_output=True):
        """Print the graph and return its text.

        Parameters
        ----------
        print_output : bool
            False: return the text only.

        Returns
        -------
        str
        """
        if print_output:
            print(self)
        return str(self)

    def print_tabular(self):
        """Print the nodes as a table."""
        rows = [["opcode", "name", "target", "args", "kwargs"]]
        for n in self.nodes:
            target = n.target if isinstance(n.target, str) else qualified_name(n.target)
            rows.append([n.op, n.name, target, str(n.args), str(n.kwargs)])
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        rows.insert(1, ["-" * width for width in widths])
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def to_dot(self):
        """The graph in Graphviz' language."""
        lines = ["digraph {", '    node [shape="box"];']
        for n in self.nodes:
            target = n.target if isinstance(n.target, str) else qualified_name(n.target)
            lines.append(f'    "{n.name}" [label="{n.name}\\n{n.op} {target}"];'.replace("\n", " "))
            lines += [f'    "{i.name}" -> "{n.name}";' for i in n.all_input_nodes]
        return "\n".join([*lines, "}"])

    # ---- making

    def _unique(self, wanted):
        name = re.sub(r"\W", "_", wanted) or "_"
        name = f"_{name}" if name[0].isdigit() else name
        if keyword.iskeyword(name) or hasattr(builtins, name) or name == "self":
            name += "_1"
        while name in self._names:
            base, _, number = name.rpartition("_")
            name = f"{base}_{int(number) + 1}" if base and number.isdigit() else f"{name}_1"
        self._names[name] = None
        return name

    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None):
        """Make a node, at the end of the graph or where `inserting_before` or `inserting_after` says."""
        if op not in OPS:
            raise ValueError(f"there is no op {op!r}. Valid ops: {', '.join(OPS)}")
        self._root  # noqa: B018 a captured graph's nodes come first
        wanted = name or (target if isinstance(target, str) else getattr(target, "__name__", "call"))
        node = Node(self, self._unique(wanted.replace(".", "_")), op, target, args or (), kwargs or {}, type_expr)
        node._place(self._before)
        self._len += 1
        return node

    def placeholder(self, name, type_expr=None, default_value=...):
        """An input."""
        return self.create_node("placeholder", name, () if default_value is ... else (default_value,), type_expr=type_expr)

    def get_attr(self, qualified_name, type_expr=None):
        """An attribute of the module, by its path."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None):
        return self.create_node("call_function", the_function, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        """A call of the method of that name of ``args[0]``."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def output(self, result, type_expr=None):
        """What the graph returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node, arg_transform=lambda n: n):
        """A copy of a node of another graph, its operands mapped by `arg_transform`."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        new = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        new.meta = dict(node.meta)
        return new

    def graph_copy(self, graph, val_map, return_output_node=False):
        """Copy the nodes of another graph to here; what it returns, in terms of the copies."""
        for node in graph.nodes:
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            if node not in val_map:
                val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo=None):
        new, made = Graph(), {}
        new.output(new.graph_copy(self, made)).meta = dict(self.output_node().meta)
        new._text = self._text
        return new

    # ---- changing

    @contextlib.contextmanager
    def _inserting(self, before):
        saved, self._before = self._before, before
        try:
            yield
        finally:
            self._before = saved

    def inserting_before(self, n=None):
        """``with graph.inserting_before(node):`` new nodes go to before `n`; left out, to the beginning."""
        return self._inserting(self._root._next if n is None else n)

    def inserting_after(self, n=None):
        """``with graph.inserting_after(node):`` new nodes go to behind `n`; left out, to the end."""
        return self._inserting(self._root if n is None else n._next)

    def erase_node(self, to_erase):
        """Take a node out that nobody uses."""
        if to_erase.users:
            raise RuntimeError(f"{to_erase} can't be erased: it is used by {', '.join(map(str, to_erase.users))}")
        if to_erase.graph is not self or to_erase._erased:
            raise RuntimeError(f"{to_erase} is not in this graph")
        to_erase._prev._next, to_erase._next._prev = to_erase._next, to_erase._prev
        to_erase._set((), {})
        to_erase._erased = True
        self._len -= 1

    def eliminate_dead_code(self, is_impure_node=None):
        """Take out what nobody uses and has no effect. True: something was."""
        impure, before = is_impure_node or Node.is_impure, self._len
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
        return self._len < before

    def lint(self):
        """Look whether the graph hangs together; RuntimeError where it doesn't."""
        seen, names = set(), set()
        for node in self.nodes:
            if node.graph is not self or node.op not in OPS:
                raise RuntimeError(f"{node} is not a node of this graph, or of an unknown op {node.op!r}")
            for other in node.all_input_nodes:
                if other not in seen:
                    raise RuntimeError(f"{node} uses {other}, which is not before it in this graph")
                if node not in other.users:
                    raise RuntimeError(f"{node} is not among the users of {other}")
            if node.name in names:
                raise RuntimeError(f"there are two nodes {node.name}")
            if node.op != "call_function" and not isinstance(node.target, str):
                raise RuntimeError(f"{node}: the target of {node.op} is a name, not {node.target!r}")
            if node.op == "call_function" and not callable(node.target):
                raise RuntimeError(f"{node}: {node.target!r} can't be called")
            if node.op in ("get_attr", "call_module") and self.owning_module is not None:
                fetch(self.owning_module, node.target)
            seen.add(node)
            names.add(node.name)

    def python_code(self, root_module="self", verbose=False):
        """The graph as Python source, and the globals that it needs.

        Parameters
        ----------
        root_module : str
            The name of the module in it.
        verbose : bool
            Say what each value is and where it comes from.

        Returns
        -------
        Code
            With `src` and `globals`.
        """
        return Writer(self, root_module, verbose).code()


class Code:
    """Source and the globals that it needs."""

    def __init__(self, src, globals):
        self.src, self.globals = src, globals


def fetch(module, target):
    """The attribute of a module at a path."""
    for part in target.split("."):
        if not hasattr(module, part):
            raise RuntimeError(f"there is no {target!r} in {type(module).__name__}")
        module = getattr(module, part)
    return module


class Writer:
    """Writes a graph as Python source."""

    def __init__(self, graph, root, verbose):
        self.graph, self.root, self.verbose = graph, root, verbose
        self.globals, self.taken = {}, {n.name for n in graph.nodes} | {root}

    def known_as(self, value, wanted):
        """A global name for an object."""
        for name, other in self.globals.items():
            if other is value:
                return name
        name, number = re.sub(r"\W", "_", wanted), 0
        while name in self.taken or name in self.globals or hasattr(builtins, name) or keyword.iskeyword(name):
            number += 1
            name = re.sub(r"\W", "_", f"{wanted}_{number}")
        self.globals[name] = value
        return name

    def callee(self, function):
        name = qualified_name(function)
        if getattr(builtins, name, None) is function and name not in self.taken:
            return name
        top = name.partition(".")[0]
        module = sys.modules.get(top)
        if "." in name and module is not None and top not in self.taken and self.globals.get(top, module) is module:
            self.globals[top] = module
            return name
        return self.known_as(function, name.rpartition(".")[2])

    def text(self, arg):
        if isinstance(arg, Node):
            return arg.name
        if isinstance(arg, tuple) and not hasattr(arg, "_fields"):
            return "(" + ", ".join(map(self.text, arg)) + (",)" if len(arg) == 1 else ")")
        if type(arg) is list:
            return "[" + ", ".join(map(self.text, arg)) + "]"
        if type(arg) is dict:
            return "{" + ", ".join(f"{self.text(key)}: {self.text(item)}" for key, item in arg.items()) + "}"
        if isinstance(arg, slice):
            return f"slice({self.text(arg.start)}, {self.text(arg.stop)}, {self.text(arg.step)})"
        if isinstance(arg, tuple):
            return f"{self.callee(type(arg))}({', '.join(map(self.text, arg))})"
        if type(arg) is float and not math.isfinite(arg):
            return f"float({str(arg)!r})"
        if type(arg) in PLAIN:
            return "..." if arg is ... else repr(arg)
        if isinstance(arg, type) or callable(arg):
            return self.callee(arg)
        if type(arg).__module__ == "torch" and type(arg).__name__ == "dtype" and "torch" not in self.taken:
            self.globals["torch"] = sys.modules["torch"]
            return repr(arg)
        return self.known_as(arg, f"_{type(arg).__name__}")

    def arguments(self, args, kwargs):
        return ", ".join([*map(self.text, args), *(f"{key}={self.text(item)}" for key, item in kwargs.items())])

    def found(self, target):
        """What a path names; layers of a container have numbers for names."""
        text = self.root
        for part in target.split("."):
            plain = part.isidentifier() and not keyword.iskeyword(part)
            text = f"{text}.{part}" if plain else f"getattr({text}, {part!r})"
        return text

    def expression(self, n):
        if n.op == "get_attr":
            return self.found(n.target)
        if n.op == "call_module":
            return f"{self.found(n.target)}({self.arguments(n.args, n.kwargs)})"
        if n.op == "call_method":
            return f"{self.text(n.args[0])}.{n.target}({self.arguments(n.args[1:], n.kwargs)})"
        if n.target is getattr and len(n.args) == 2 and isinstance(n.args[0], Node) and str(n.args[1]).isidentifier():
            return f"{n.args[0].name}.{n.args[1]}"
        if n.target in WRITTEN and not n.kwargs and len(n.args) == WRITTEN[n.target].count("{}"):
            return WRITTEN[n.target].format(*(a.name if isinstance(a, Node) else self.text(a) for a in n.args))
        return f"{self.callee(n.target)}({self.arguments(n.args, n.kwargs)})"

    def note(self, n):
        shape, dtype = n.meta.get("shape"), n.meta.get("dtype")
        return "" if not self.verbose or dtype is None else f': "{dtype}{list(shape)}"'

    def code(self):
        parameters, lines, last, place = [self.root], [], {}, None
        for n in self.graph.nodes:
            for used in n.all_input_nodes:
                last[used] = n
        ends = {}
        for used, n in last.items():
            ends.setdefault(n, []).append(used.name)
        for n in self.graph.nodes:
            if n.op == "placeholder":
                default = f" = {self.text(n.args[0])}" if n.args else ""
                parameters.append(f"{n.target}{self.note(n)}{default}")
                if n.name != n.target:
                    lines.append(f"{n.name} = {n.target}")
                continue
            if self.verbose and n.meta.get("place") not in (None, place):
                place = n.meta["place"]
                lines.append(f"# {place}")
            if n.op == "output":
                lines.append(f"return {self.text(n.args[0])}")
                continue
            over = "" if self.verbose or n not in ends else f";  {' = '.join(ends[n])} = None"
            lines.append(f"{n.name}{self.note(n)} = {self.expression(n)}{over}")
        body = "".join(f"    {line}\n" for line in lines or ["pass"])
        return Code(f"def forward({', '.join(parameters)}):\n{body}", self.globals)


class GraphModule:
    """A graph as something to call, as `torch.fx.GraphModule`.

    Parameters
    ----------
    root : object, dict or Graph
        Where ``get_attr`` and ``call_module`` nodes find what they name; a graph alone: nowhere.
    graph : Graph
    class_name : str

    Attributes
    ----------
    graph : Graph
        Assigning another one recompiles.
    code : str
        The Python source that runs.
    """

    def __init__(self, root, graph=None, class_name="GraphModule"):
        if graph is None:
            root, graph = {}, root
        self.__dict__.update(_class_name=class_name, meta={})
        for n in graph.nodes:
            if n.op in ("get_attr", "call_module"):
                self._take(root, n.target)
        self.graph = graph

    def _take(self, root, target):
        value, at = root[target] if isinstance(root, dict) else fetch(root, target), self
        *path, name = target.split(".")
        for part in path:
            if not hasattr(at, part):
                setattr(at, part, type("Holder", (), {})())
            at = getattr(at, part)
        setattr(at, name, value)

    @property
    def graph(self):
        return self._graph

    @graph.setter
    def graph(self, graph):
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    def recompile(self):
        """Make the code anew, after the graph was changed."""
        made = self._graph.python_code()
        scope = dict(made.globals)
        exec(compile(made.src, f"<dynoc {self._class_name}>", "exec"), scope)
        self.code, self._forward = made.src, scope["forward"]
        return made

    @property
    def forward(self):
        return self._forward.__get__(self)

    def __call__(self, *args, **kwargs):
        return self._forward(self, *args, **kwargs)

    def print_readable(self, print_output=True):
        """The code with the type and shape of each value, and where it comes from."""
        made = self._graph.python_code(verbose=True).src
        text = f"class {self._class_name}:\n" + "".join(f"    {line}\n" if line else "\n" for line in made.splitlines())
        if print_output:
            print(text)
        return text

    def to_dot(self):
        """The graph in Graphviz' language."""
        return self._graph.to_dot()

    def to_torch_fx(self):
        """The same as a `torch.fx.GraphModule`. Needs torch."""
        from dynoc import _backends

        return _backends.to_torch_fx(self)

    def __deepcopy__(self, memo):
        import copy

        return GraphModule(self, copy.deepcopy(self._graph, memo), self._class_name)

    def _repr_html_(self):
        return self._graph._repr_html_()

    def __repr__(self):
        return f"{self._class_name}()\n\n{self.code}"
