"""What the extension asks about PyTorch's callables: what their schemas say of effects.

Imported by the extension when the program has imported torch; never imports it first.
"""

import re
import sys
import types

# As DYN_BIND_* of src/tracer/rec_np.h.
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
    if owner is None or isinstance(owner, (type, types.ModuleType)):
        schemas = torch._C._jit_get_schemas_for_operator("aten::" + function.__name__)
    else:
        schemas = _schemas_of_operator(torch, function)
    schemas = [s for s in schemas if re.search(r"[( ]Tensor(?!\[)", str(s))]  # others are of TorchScript's lists and numbers
    kinds = {_kind(s, tags) for s in schemas if torch.Tag.out not in (tags := _tags(torch, s))}
    return kinds.pop() if len(kinds) == 1 else UNKNOWN


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
    space, _, name = schema.name.partition("::")
    packet = getattr(getattr(torch.ops, space), name)
    return getattr(packet, schema.overload_name or "default").tags


def _kind(schema, tags):
    tags = {tag.name for tag in tags}
    writes = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
    if any(writes[1:]) or not schema.returns or "inplace_view" in tags or _writes_unsaid(schema):
        return UNKNOWN
    if writes and writes[0]:
        return IN_PLACE
    if "nondeterministic_seeded" in tags:
        return RANDOM
    returns = [str(r.type) for r in schema.returns]
    pointwise = "pointwise" in tags or schema.name.startswith("aten::special_")  # of those the others have rules
    return POINTWISE if pointwise and returns == ["Tensor"] else PURE


def _writes_unsaid(schema):
    """Is it one of those whose schema doesn't say what they change: running statistics, or whether gradients are wanted?"""
    names = {a.name for a in schema.arguments}
    return any(n.startswith("running_") for n in names) or "requires_grad" in names
