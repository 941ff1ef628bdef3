"""The node of autograd's that a part of a captured graph is, while gradients are recorded.

The extension has parts as objects, and what such a node does (src/evalframe/follow_node.c): here is only the class by which
PyTorch makes nodes.
"""

import sys

from dynoc import _dynoc


def batch_of(gradient):
    """Whether a gradient is a batch of gradients (``vmap`` around ``torch.autograd.grad``, or ``is_grads_batched``), and whose.

    Returns
    -------
    tuple or None
        ``(batch, wrap)``: a tensor whose first axis is the batch, and what makes such a tensor a gradient of that kind.
    """
    c = sys.modules["torch"]._C
    if c._functorch.is_batchedtensor(gradient):
        level, axis = c._functorch.maybe_get_level(gradient), c._functorch.maybe_get_bdim(gradient)
        batch = c._functorch.get_unwrapped(gradient).movedim(axis, 0)
        return batch, lambda made: c._functorch._add_batch_dim(made, 0, level)
    if c._functorch.is_legacy_batchedtensor(gradient):
        level = c._vmapmode_increment_nesting() - 1
        c._vmapmode_decrement_nesting()
        batch = c._VariableFunctions._remove_batch_dim(gradient, level, -1, 0)
        return batch, lambda made: c._VariableFunctions._add_batch_dim(made, 0, level)
    return None


def plain(gradient):
    """The gradient as a tensor whose memory is its elements."""
    if gradient is None:
        return None
    dense = gradient if gradient.layout is sys.modules["torch"].strided else gradient.to_dense()
    there = dense.clone() if dense._is_zerotensor() else dense  # zeros without memory, as derivatives of derivatives give
    return there.resolve_conj().resolve_neg()


def backward(ctx, *gradients):
    """Backward for gradients that aren't plain tensors: of plain ones in their place, and of batches one by one."""
    batches = [None if g is None else batch_of(g) for g in gradients]
    first = next((b for b in batches if b is not None), None)
    if first is None:
        made = [plain(g) for g in gradients]
        if all(a is b for a, b in zip(made, gradients, strict=True)):
            raise TypeError("dynoc: a gradient that is no plain tensor")
        return _dynoc._part_backward(ctx, *made)
    pairs = list(zip(gradients, batches, strict=True))
    rows = [_dynoc._part_backward(ctx, *(g if b is None else b[0][i] for g, b in pairs)) for i in range(len(first[0]))]
    stack = sys.modules["torch"].stack
    return tuple(None if column[0] is None else first[1](stack(column)) for column in zip(*rows, strict=True))


def bind():
    """What the extension calls.

    Returns
    -------
    tuple
        ``(apply, is_anomaly_enabled, saved_tensors_hooks, backward)``: the function's ``apply``, two questions about autograd's
        modes, and `backward` for gradients that aren't plain.

    Examples
    --------
    >>> import pytest; torch = pytest.importorskip("torch")
    >>> len(bind())
    4
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
    return apply, torch.is_anomaly_enabled, torch._C._autograd._top_saved_tensors_default_hooks, backward
