"""Back ends: what graphs are handed to, by name or as a callable; `trace`; and graphs as `torch.fx` has them.

A back end is a callable ``(gm, example_inputs) -> callable``. The extension calls `hand_on` when a recorded call is through.
"""

import inspect
import sys
from shutil import which

from dynoc._capture import Capture, input_names
from dynoc._errors import BackendError, ConfigError
from dynoc._graph import Graph, GraphModule, map_arg
from dynoc._interpreter import Interpreter

OURS = ("dynoc", "eager")  # the extension's own
PASSED_ON = ("inductor", "cudagraphs")  # PyTorch's own, which get the graph as torch has graphs
NEEDS = {"onnxrt": ("onnxruntime",), "openxla": ("torch_xla",), "tensorrt": ("torch_tensorrt",), "tvm": ("tvm",)}  # packages
COMPILERS = ("c++", "g++", "clang++")
GROUP = "dynoc.backends"
registered = {}


def register_backend(name, fn):
    """Let ``backend=name`` stand for a back end.

    Parameters
    ----------
    name : str
    fn : callable
        ``(gm, example_inputs) -> callable``: gets a `GraphModule` and the arrays of the recorded call, and gives what a call of
        the function runs from then on. That takes the graph's inputs and returns a tuple of its outputs. With
        ``fn.dynamic = True`` sizes and Python numbers are leading inputs; else they are burnt in, and guarded.

    Examples
    --------
    >>> import numpy as np
    >>> import dynoc
    >>> def show(gm, example_inputs):
    ...     print([node.op for node in gm.graph.nodes])
    ...     return gm.forward
    >>> dynoc.register_backend("show", show)
    >>> dynoc.optimize(lambda x: np.sin(x), backend="show")(np.zeros(2)).tolist()
    ['placeholder', 'call_function', 'output']
    [0.0, 0.0]
    """
    if not isinstance(name, str) or name in OURS:
        raise ConfigError(f"register_backend: {name!r} is no name for a back end")
    if not callable(fn):
        raise ConfigError(f"register_backend: a callable is wanted, not {fn!r}")
    registered[name] = fn


def entry_points():
    """The back ends of other packages, by name."""
    from importlib import metadata

    return {point.name: point for point in metadata.entry_points(group=GROUP)}


def torch_names():
    """The names of torch's own back ends; none where the program has not imported torch."""
    if "torch" not in sys.modules:
        return []
    import torch._dynamo

    return [name for name in torch._dynamo.list_backends(exclude_tags=()) if name not in OURS]


def why_not(name):
    """Why a back end of PyTorch's by this name can't work here; None: nothing is known against it."""
    from importlib.util import find_spec

    needs = NEEDS.get(name, ())
    missing = [package for package in needs if find_spec(package) is None]
    if missing:
        return f"it needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
    if "torch" not in sys.modules:
        return "it is a back end of PyTorch, which the program has not imported"
    if name == "cudagraphs" and not sys.modules["torch"].cuda.is_available():
        return "it needs a GPU, of which PyTorch finds none"
    if name == "inductor" and not any(map(which, COMPILERS)):
        return "it needs a C++ compiler, of which none was found"
    return None


def names():
    """Every name there is: to None, or to why it does not work here."""
    found = dict.fromkeys([*OURS, *registered, *entry_points()])
    for name in (*PASSED_ON, *NEEDS):
        found.setdefault(name, why_not(name))
    if "torch" not in sys.modules:
        return found
    usual = {name for name in sys.modules["torch"]._dynamo.list_backends()} if torch_names() else set()
    for name in torch_names():
        found.setdefault(name, None if name in usual else "PyTorch has it for debugging")
    known = torch_names()
    for name in NEEDS:
        if found[name] is None and name not in known and name not in registered:
            found[name] = "this version of PyTorch has no back end of that name"
    return found


def list_backends(all=False):
    """Names of the back ends that `optimize` takes.

    Parameters
    ----------
    all : bool
        Also those that do not work here.

    Returns
    -------
    list of str, or dict
        With ``all=True`` name to None, or to why it does not work here.

    Examples
    --------
    >>> import dynoc
    >>> dynoc.list_backends()[:2]
    ['dynoc', 'eager']
    """
    found = names()
    return found if all else [name for name, why in found.items() if why is None]


def is_known(name):
    """Is there a back end of that name? Looks no further than it has to."""
    return name in OURS or name in registered or name in entry_points() or name in torch_names()


def resolve(backend):
    """The callable that a back end is."""
    if callable(backend):
        return backend
    if backend in registered:
        return registered[backend]
    points = entry_points()
    return points[backend].load() if backend in points else torch_backend(backend)


def is_dynamic(backend):
    """Does it say that it takes sizes as inputs? What another package would have to be loaded for is not asked."""
    loads = isinstance(backend, str) and backend not in registered and backend in entry_points()
    return not loads and getattr(resolve(backend), "dynamic", False) is True


class Torchs:
    """A back end that torch has under a name, whoever wrote it: it gets the graph as torch has graphs.

    Parameters
    ----------
    backend : callable
    """

    def __init__(self, backend):
        self.backend, self.dynamic = backend, getattr(backend, "dynamic", False)

    def __call__(self, gm, example_inputs):
        return self.backend(gm, example_inputs)


def torch_backend(name):
    """One of torch's own, or what the program has registered there."""
    import torch._dynamo

    return Torchs(torch._dynamo.lookup_backend(name))


def is_torchs(backend):
    """Does it expect a `torch.fx.GraphModule`? torch's own do, and what torch has registered."""
    return isinstance(backend, Torchs) or str(getattr(backend, "__module__", None)).partition(".")[0] == "torch"


def hand_on(entry, settings, examples, suppress):
    """Called by the extension: what a hit of `entry` calls.

    Returns
    -------
    tuple
        The callable; the symbols and the sources whose values it takes before and behind the graph's inputs; and whether a
        failure of it is suppressed.
    """
    try:
        backend = resolve(settings["backend"])
        data, graph = entry._data, Graph()
        captured = Capture(graph, data, input_names(data), dynamic=settings["dynamic"])
        graph.output(captured.outputs())
        gm = GraphModule(captured.modules, graph)
        numbers = [data["symbols"][i]["value"] for i in captured.symbols]
        gm.meta.update(name=data["name"], data=captured)
        given = to_torch_fx(gm) if is_torchs(backend) else gm
        if given is not gm and settings["dynamic"]:
            describe_with_symbols(given, captured, examples)
        made = backend(given, [*numbers, *examples])
        if not callable(made):
            raise TypeError(f"a back end gives a callable, not {made!r}")
    except Exception as error:
        name = settings["backend"] if isinstance(settings["backend"], str) else getattr(settings["backend"], "__name__", "?")
        raise BackendError(f"the back end {name} failed: {type(error).__name__}: {error}") from error
    return made, tuple(captured.symbols), tuple(captured.sources), bool(suppress)


# ---- trace


class Trace:
    """A back end that keeps the graph, with what the function returned.

    Parameters
    ----------
    bound : inspect.BoundArguments
        The call's arguments.
    """

    def __init__(self, bound):
        self.arguments, self.defaults, self.made = {}, {}, None
        for name, value in bound.arguments.items():
            parameter = bound.signature.parameters[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.defaults = {} if value else self.defaults
                self.arguments.update({f"{name}_{i}": item for i, item in enumerate(value)})
            elif parameter.kind is parameter.VAR_KEYWORD:
                self.arguments.update(value)
            else:
                self.arguments[name] = value
                self.defaults[name] = ... if parameter.default is parameter.empty else parameter.default

    def __call__(self, gm, examples):
        data, graph, constants = gm.meta["data"].data, Graph(), {}
        inputs = {name: graph.placeholder(name, None, self.defaults.get(name, ...)) for name in self.arguments}

        def input_node(k, name):
            for argument, value in self.arguments.items():
                if value is examples[k]:
                    return inputs[argument]
            constants[f"_{name}"] = examples[k]
            return graph.get_attr(f"_{name}")

        captured = Capture(graph, data, input_names(data), get_input=input_node)
        graph.output(captured.returned())
        graph._text = None
        self.made = GraphModule(constants | captured.modules, graph)
        return gm.forward


def trace(fn):
    """The graph of one call of a function, as `torch.fx.symbolic_trace` gives it, with the sizes and numbers of that call.

    Parameters
    ----------
    fn : callable
        A Python function, a method, or an object that is called.

    Returns
    -------
    callable
        Takes the arguments of `fn`, calls it, and returns a `GraphModule` that takes the same arguments and returns the same.
        Arrays that are no arguments (parameters of a module, globals) are attributes of it.

    Raises
    ------
    Unsupported
        Where the call does not fit into one graph.

    Examples
    --------
    >>> import numpy as np
    >>> import dynoc
    >>> gm = dynoc.trace(lambda x, y: np.sin(x) + y)(np.zeros(3), np.ones(3))
    >>> print(gm.code)
    def forward(self, x, y):
        sin = numpy.sin(x);  x = None
        add = numpy.add(sin, y);  sin = y = None
        return add
    <BLANKLINE>
    >>> gm(np.zeros(2), np.ones(2)).tolist()
    [1.0, 1.0]
    """
    from dynoc._optimize import optimize

    def call(*args, **kwargs):
        bound = inspect.signature(fn).bind(*args, **kwargs)
        bound.apply_defaults()
        keep = Trace(bound)
        optimize(fn, backend=keep, fullgraph=True, options={"suppress_errors": False})(*args, **kwargs)
        if keep.made is None:
            raise BackendError(f"{getattr(fn, '__qualname__', fn)} does nothing with arrays that could be a graph")
        return keep.made

    return call


# ---- torch


def to_torch_fx(gm):
    """A graph module as a `torch.fx.GraphModule`."""
    import torch

    graph, made, root = torch.fx.Graph(), {}, {}
    for n in gm.graph.nodes:
        if n.op in ("get_attr", "call_module"):
            root[n.target] = Interpreter(gm).fetch_attr(n.target)
        args, kwargs = map_arg((n.args, n.kwargs), made.__getitem__)
        made[n] = graph.create_node(n.op, n.target, args, kwargs, n.name, n.type)
        made[n].meta.update({key: value for key, value in n.meta.items() if key in ("stack_trace", "place")})
    return torch.fx.GraphModule(root, graph)


def describe_with_symbols(gm, captured, examples):
    """Give the inputs of a `torch.fx.GraphModule` a ``meta["val"]``: sizes as SymInts, tensors as fake ones of such sizes.

    Parameters
    ----------
    gm : torch.fx.GraphModule
        Its first placeholders are the symbols, then come the arrays.
    captured : Capture
    examples : sequence of torch.Tensor or numpy.ndarray
        The arrays of the recorded call.
    """
    import torch
    from torch._dynamo.source import ConstantSource
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

    env, numbers = ShapeEnv(), {}
    mode = FakeTensorMode(shape_env=env)
    placeholders = iter(n for n in gm.graph.nodes if n.op == "placeholder")
    for i in captured.symbols:
        value, source = captured.data["symbols"][i]["value"], ConstantSource(f"s{i}")
        if type(value) is int:
            symbol = env.create_unspecified_symbol(value, source, DimDynamic.DYNAMIC)
            value = env.create_symintnode(symbol, hint=value, source=source)
        numbers[i] = next(placeholders).meta["val"] = value
    for node, example in zip(captured.data["inputs"], examples, strict=True):
        at = next(placeholders)
        if not isinstance(example, torch.Tensor):
            continue
        shape = [captured.evaluated(k, numbers) for k in captured.data["nodes"][node]["shape"]]
        strides, step = [0] * len(shape), 1
        for axis in sorted(range(len(shape)), key=lambda a: (example.stride(a), -a)):
            if example.stride(axis) != 0:
                strides[axis], step = step, step * shape[axis]
        with mode:
            at.meta["val"] = torch.empty_strided(shape, strides, dtype=example.dtype)
