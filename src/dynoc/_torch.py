"""What the extension asks about PyTorch's callables: what their schemas say of effects.

Imported by the extension when the program has imported torch; never imports it first.
"""

import sys
import types

# As DYN_BIND_* of src/tracer/numpy/rec_np.h.
PURE, IN_PLACE, RANDOM, UNKNOWN, POINTWISE = range(5)


def classify(function):
    """What a call of a function or method in C of torch's does besides giving a result.

    Parameters
    ----------
    function : builtin_function_or_method or method_descriptor
        ``torch.addmm``, ``torch.Tensor.add_``, ``torch._C._nn.gelu`` …

    Returns
    -------
    int
        ``PURE``: nothing. ``IN_PLACE``: it changes its first argument and gives it back. ``RANDOM``: it draws
        from the generator. ``UNKNOWN``: something else, or there is no schema. ``POINTWISE``: nothing, and its result
        has the sizes to which its tensors broadcast.

    Examples
    --------
    >>> import pytest; torch = pytest.importorskip("torch")
    >>> classify(torch.addmm) == PURE, classify(torch.Tensor.add_) == IN_PLACE
    (True, True)
    >>> classify(torch.batch_norm) == UNKNOWN, classify(torch.Tensor.t_) == UNKNOWN
    (True, True)
    >>> classify(torch.erfc) == POINTWISE
    True
    """
    torch = sys.modules["torch"]
    owner = getattr(function, "__self__", None)
    if hasattr(function, "__name__") and (owner is None or isinstance(owner, (type, types.ModuleType))):
        schemas = torch._C._jit_get_schemas_for_operator("aten::" + function.__name__)
    else:
        schemas = _schemas_of_operator(torch, function)
    found = [(s, s.arguments) for s in schemas if _is_of_tensors(s)]
    kinds = {_kind(torch, s, arguments) for s, arguments in found if not any(argument.is_out for argument in arguments)}
    return kinds.pop() if len(kinds) == 1 else UNKNOWN


def _is_of_tensors(schema):
    """Does it take or give a tensor? Others are of TorchScript's lists and numbers."""
    text = str(schema).replace("Tensor[", "")
    return "(Tensor" in text or " Tensor" in text


def clamp_passes_at_bounds():
    """Does the gradient of ``clamp`` go through where an element equals a bound? Up to PyTorch 2.14 or so, and not from 2.15 on.

    Returns
    -------
    bool

    Examples
    --------
    >>> import pytest; torch = pytest.importorskip("torch")
    >>> clamp_passes_at_bounds() in (False, True)
    True
    """
    torch = sys.modules["torch"]
    # hooks of one's own stand in front of the program's
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        x = torch.zeros((), requires_grad=True, device="cpu")
        return bool(torch.autograd.grad(x.clamp(min=0), x)[0] == 1)


def _schemas_of_operator(torch, function):
    """What torch.ops.<space>.<name>, or one overload of it, calls in the end: a function that says nothing of itself."""
    spaces = [space for space in vars(torch.ops).values() if isinstance(space, torch._ops._OpNamespace)]
    for packet in [p for space in spaces for p in vars(space).values() if isinstance(p, torch._ops.OpOverloadPacket)]:
        overloads = [o for o in vars(packet).values() if isinstance(o, torch._ops.OpOverload)]
        if packet._op is function:
            return torch._C._jit_get_schemas_for_operator(packet._qualified_op_name)
        for overload in overloads:
            if overload._op is function:
                return [overload._schema]
    return []


def _tags(torch, schema):
    """As ``torch.ops`` has them, which would make Python objects for the operator and each overload of it first."""
    return torch._C._get_operation_overload(schema.name, schema.overload_name)[2]


def _kind(torch, schema, arguments):
    tags = _tags(torch, schema)
    writes = [a.alias_info is not None and a.alias_info.is_write for a in arguments]
    if any(writes[1:]) or not schema.returns or torch.Tag.inplace_view in tags or _writes_unsaid(arguments):
        return UNKNOWN
    if writes and writes[0]:
        return IN_PLACE
    if torch.Tag.nondeterministic_seeded in tags:
        return RANDOM
    returns = [str(r.type) for r in schema.returns]
    pointwise = torch.Tag.pointwise in tags or schema.name.startswith("aten::special_")  # of those the others have rules
    return POINTWISE if pointwise and returns == ["Tensor"] else PURE


def _writes_unsaid(arguments):
    """Is it one of those whose schema doesn't say what they change: running statistics, or whether gradients are wanted?"""
    names = {a.name for a in arguments}
    return any(n.startswith("running_") for n in names) or "requires_grad" in names


# ---- TorchScript

STATE = "state of the module"  # where what is written comes from
FRESH = "made inside"
OUTSIDE = "an argument, or part of one"


def classify_script(scripted):
    """What a call of a scripted or traced function or module does besides giving a result.

    Parameters
    ----------
    scripted : torch.jit.ScriptFunction or torch.jit.ScriptModule

    Returns
    -------
    int
        ``PURE``: nothing. ``RANDOM``: it draws, or changes what belongs to the module, which nobody else looks at in a graph.
        ``UNKNOWN``: it changes its arguments, prints, or is a module while gradients are recorded, which its
        parameters may want.

    Examples
    --------
    >>> import pytest; torch = pytest.importorskip("torch")
    >>> classify_script(torch.jit.trace(lambda x: (x + 1).relu_(), torch.ones(2))) == PURE
    True
    >>> classify_script(torch.jit.trace(lambda x: x.add_(1), torch.ones(2))) == UNKNOWN
    True
    """
    torch = sys.modules["torch"]
    if torch.is_grad_enabled() and isinstance(scripted, torch.jit.ScriptModule):
        return UNKNOWN
    graph = scripted.inlined_graph
    origins = {v.debugName(): OUTSIDE for v in graph.inputs()}
    if isinstance(scripted, torch.jit.ScriptModule):
        origins[next(graph.inputs()).debugName()] = STATE
    return max((_kind_in_script(torch, n, origins) for n in _script_nodes(graph)), default=PURE)


def _script_nodes(block):
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _script_nodes(inner)


def _kind_in_script(torch, node, origins):
    """Of one node; `origins` says of values by name whose memory they are, and gets what the node gives."""
    kind, inputs = node.kind(), [v.debugName() for v in node.inputs()]
    if kind == "prim::GetAttr":
        return _gives(node, origins, origins.get(inputs[0], OUTSIDE))
    if node.schema() == "(no schema)":
        return _gives(node, origins, FRESH if kind.endswith("Construct") else OUTSIDE) if kind in HARMLESS else UNKNOWN
    if kind == "prim::RaiseException":
        return PURE
    schema = torch._C.parse_schema(node.schema())
    written = {origins.get(name, OUTSIDE) for name, a in zip(inputs, schema.arguments) if a.alias_info and a.alias_info.is_write}
    views = [a.alias_info is not None for a in schema.returns]
    _gives(node, origins, origins.get(inputs[0], OUTSIDE) if any(views) and inputs else FRESH)
    if OUTSIDE in written or not schema.returns:
        return UNKNOWN
    return RANDOM if STATE in written or _acts_unsaid(torch, node, schema) else PURE


def _gives(node, origins, origin):
    origins.update((v.debugName(), origin) for v in node.outputs())
    return PURE


def _acts_unsaid(torch, node, schema):
    """Does it draw, or change running statistics? Not where its argument says so, as a constant."""
    names = [a.name for a in schema.arguments]
    asked = next((i for i, n in enumerate(names) if n in ("training", "train", "use_input_stats")), None)
    if asked is not None:
        flag = list(node.inputs())[asked].toIValue()
        return flag is None or bool(flag)
    space, _, name = schema.name.partition("::")
    if space == "prim":
        return False
    return torch.Tag.nondeterministic_seeded in _tags(torch, schema)


HARMLESS = {f"prim::{name}" for name in (
    "Constant", "If", "Loop", "ListConstruct", "ListUnpack", "TupleConstruct", "TupleUnpack", "TupleIndex", "TupleSlice",
    "DictConstruct", "Uninitialized", "unchecked_cast", "unchecked_unwrap_optional", "isinstance", "NumToTensor",
)}  # fmt: skip
