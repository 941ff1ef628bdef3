"""Gradients that aren't plain tensors, on their way into a part of a captured graph that autograd follows.

What a node of such a part does is the extension's (src/evalframe/follow_node.c), which imports this when the first gradient comes
that is sparse, a batch, or has memory that isn't its elements.
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
