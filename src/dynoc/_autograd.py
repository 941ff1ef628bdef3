"""The node of autograd's that a part of a captured graph is, while gradients are recorded.

The extension has parts as objects (src/evalframe/follow_part.c): what they compute, what of that is saved, and the parts that
compute their gradients, which are called here as any other. So hooks, ``retain_graph``, ``create_graph``, saved tensors and their
versions are PyTorch's own.
"""

import sys


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
    return _function(torch).apply, torch.is_anomaly_enabled, torch._C._autograd._top_saved_tensors_default_hooks


def _function(torch):
    class Captured(torch.autograd.Function):
        """Takes a part, the values of its symbols as bytes, and tensors; gives the part's outputs and what else it saves."""

        @staticmethod
        def forward(ctx, part, numbers, *tensors):
            made = part.run(numbers, tensors, True)
            fixed, saved = part.plan(ctx.needs_input_grad[2:])
            ctx.part, ctx.numbers = part, numbers
            ctx.set_materialize_grads(False)
            ctx.mark_non_differentiable(*[made[i] for i in fixed])
            values = tensors + made
            ctx.save_for_backward(*[values[i] for i in saved])
            return made

        @staticmethod
        def backward(ctx, *gradients):
            given = tuple(g is not None for g in gradients)
            part, reads, gives = ctx.part.gradient(given, ctx.needs_input_grad[2:])
            saved = ctx.saved_tensors
            inputs = (*[g for g in gradients if g is not None], *[saved[i] for i in reads])
            if torch.is_grad_enabled() and any(t.requires_grad for t in inputs):
                made = Captured.apply(part, ctx.numbers, *inputs)
            else:
                made = part.run(ctx.numbers, inputs, False)
            return (None, None, *[None if i is None else made[i] for i in gives])

    return Captured
