"""What the extension asks about PyTorch's callables: what their schemas say of effects.

Imported by the extension when the program has imported torch; never imports it first.
"""

import sys

# As DYN_BIND_* of src/tracer/rec_np.h.
PURE, IN_PLACE, RANDOM, UNKNOWN = range(4)


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
        from the generator. ``UNKNOWN``: something else, or there is no schema.

    Examples
    --------
    >>> import pytest; torch = pytest.importorskip("torch")
    >>> classify(torch.addmm) == PURE, classify(torch.Tensor.add_) == IN_PLACE
    (True, True)
    """
    torch = sys.modules["torch"]
    schemas = torch._C._jit_get_schemas_for_operator("aten::" + function.__name__)
    kinds = {_kind(torch, s) for s in schemas if not s.overload_name.endswith("out")}
    return kinds.pop() if len(kinds) == 1 else UNKNOWN


def _kind(torch, schema):
    packet = getattr(torch.ops.aten, schema.name.partition("::")[2])
    tags = getattr(packet, schema.overload_name or "default").tags
    if torch.Tag.inplace_view in tags:  # it changes the sizes of its first argument
        return UNKNOWN
    writes = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
    if any(writes[1:]):
        return UNKNOWN
    if writes and writes[0]:
        return IN_PLACE
    return RANDOM if torch.Tag.nondeterministic_seeded in tags else PURE
