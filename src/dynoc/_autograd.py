"""The node of autograd's that a part of a captured graph is, while gradients are recorded.

The extension has parts as objects, and what such a node does (src/evalframe/follow_node.c): here is only the class by which
PyTorch makes nodes.
"""

import sys

from dynoc import _dynoc


def bind():
    """What the extension calls: the function's ``apply``, and two questions about autograd's modes.

    Returns
    -------
    tuple
        ``(apply, is_anomaly_enabled, saved_tensors_hooks)``.

    Examples
    --------
    >>> import pytest; torch = pytest.importorskip("torch")
    >>> len(bind())
    3
    """
    torch = sys.modules["torch"]

    class Captured(torch.autograd.Function):
        forward = staticmethod(_dynoc._part_forward)
        backward = staticmethod(_dynoc._part_backward)

    for name in ("setup_context", "clear_saved_tensors_on_access", "boxed_grads_call"):  # what `apply` looks up each time is near
        base = next((c for c in Captured.__mro__ if name in c.__dict__), None)
        if base is not None:
            setattr(Captured, name, base.__dict__[name])
    Captured._backward_cls.apply = _dynoc._part_backward_method  # PyTorch's would look for the functions above each time
    apply = super(torch.autograd.Function, Captured).apply  # … and so would that of Function
    return apply, torch.is_anomaly_enabled, torch._C._autograd._top_saved_tensors_default_hooks
