"""Steps of PyTorch's optimisers over all parameters at once: SGD, Adam, AdamW, Adagrad, RMSprop, with each option.

`step` stands in for an optimiser's own step where a captured function makes one (src/evalframe/hook.c), and is what
`dynoc.optimize(optimizer.step)` calls. Hyperparameters are read from the groups as ever, so that schedulers need nothing; what is
done to parameters and state is one pass of loops in C (src/codegen/run/descent.c), with the bits and the versions that PyTorch's
operators give them, one parameter after another (``foreach=False``) or all together (``foreach=True``), and on a CUDA device one
kernel, or a few (src/codegen/cuda/descent.c), with those of its operators for all together. The first step of a
parameter, which makes its state, is the optimiser's own, and so is whatever `plan` or the extension finds that it can't do.
`clip` does the same for `torch.nn.utils.clip_grad_norm_`.
"""

import functools
import math
import sys
import types

from dynoc import _dynoc

#: As descent.h has them.
SGD, ADAM, ADAGRAD, RMSPROP = range(4)
LERP = -1  #: In the place of a number of versions: as many as `lerp_versions` says.
DECAYS, DECOUPLED, AVERAGES, NESTEROV, CENTERED, MAXIMA = (1 << i for i in range(6))


def optimizer_of(step):
    """The optimiser whose method `step` is, also if a learning rate scheduler has wrapped it; None: it is no such method."""
    optimizers = getattr(sys.modules.get("torch"), "optim", None)
    if optimizers is None:
        return None
    owner = step.__self__ if isinstance(step, types.MethodType) else step
    if is_wrapped_by_scheduler(step):
        names = step.__code__.co_freevars
        owner = step.__closure__[names.index("opt_ref")].cell_contents() if "opt_ref" in names else None
    return owner if isinstance(owner, optimizers.Optimizer) else None


def is_wrapped_by_scheduler(step):
    """Is it what a learning rate scheduler puts in the place of an optimiser's step?"""
    return getattr(step, "_wrapped_by_lr_sched", False) and isinstance(step, types.FunctionType)


def has_own_step(optimizer):
    """Is it exactly one of the classes below, whose step the program has not replaced?"""
    cls = type(optimizer)
    known = cls.__name__ in FORMS and cls is getattr(sys.modules["torch"].optim, cls.__name__)
    if not known or not is_pytorchs(cls.step):
        return False
    step = optimizer.__dict__.get("step")
    return step is None or (is_wrapped_by_scheduler(step) and getattr(step, "__wrapped__", None) is cls.step)


@functools.lru_cache(maxsize=16)
def is_pytorchs(step):
    """Is the function, and each that it wraps, of torch.optim?"""
    while step is not None:
        if not isinstance(step, types.FunctionType) or not step.__globals__["__name__"].startswith("torch.optim."):
            return False
        step = getattr(step, "__wrapped__", None)
    return True


@functools.lru_cache(maxsize=1)
def rounds_once():
    """Do PyTorch's operators round products together with the sums that take them, as they do where the processor can?"""
    return sys.modules["torch"].backends.cpu.get_cpu_capability() in ("AVX2", "AVX512", "SVE256")


def is_watched(optimizer):
    """Would somebody see the groups while the step runs, or does a gradient scaler take part in it?"""
    shared = sys.modules["torch.optim.optimizer"]
    hooks = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    hooks = hooks or shared._global_optimizer_pre_hooks or shared._global_optimizer_post_hooks
    return bool(hooks) or hasattr(optimizer, "grad_scale") or hasattr(optimizer, "found_inf")


@functools.cache
def lerp_versions(device):
    """How many versions an average of gradients gets: on CUDA devices the operator of PyTorch 2.11 for lists gives it none."""
    torch = sys.modules["torch"]
    if device.type == "cpu":
        return 1
    with torch.no_grad():
        average = torch.zeros(1, device=device)
        torch._foreach_lerp_([average], [average], 0.5)
    return average._version


def of_sgd(group, is_decoupled):
    """Of what `_dynoc._descend` takes for a group: rule, form, versions of tensors, numbers; and names.

    These are those of the count of steps and of three tensors, empty where there is none.
    """
    momentum, decay = group["momentum"], group["weight_decay"]
    averages = momentum != 0
    form = DECAYS * (decay != 0) | averages * (AVERAGES | NESTEROV * bool(group["nesterov"]))
    numbers = (group["lr"], decay, momentum, group["dampening"], 0, 0, 0, 0)
    return SGD, form, (1, 2, 0, 0), numbers, ("", "momentum_buffer" * averages, "", "")


def of_adam(group, is_decoupled):
    decay, (first, second), greatest = group["weight_decay"], group["betas"], bool(group["amsgrad"])
    decoupled = group.get("decoupled_weight_decay", is_decoupled)
    form = MAXIMA * greatest | (decay != 0) * (DECOUPLED if decoupled else DECAYS)
    numbers = (group["lr"], decay, 0, 0, first, second, group["eps"], 0)
    names = ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq" * greatest)
    return ADAM, form, (2 if form & DECOUPLED else 1, LERP, 2, 1), numbers, names


def of_adagrad(group, is_decoupled):
    decay = group["weight_decay"]
    numbers = (group["lr"], decay, 0, 0, 0, 0, group["eps"], group["lr_decay"])
    return ADAGRAD, DECAYS * (decay != 0), (1, 1, 0, 0), numbers, ("step", "sum", "", "")


def of_rmsprop(group, is_decoupled):
    momentum, decay, alpha = group["momentum"], group["weight_decay"], group["alpha"]
    averages, centered = momentum > 0, bool(group["centered"])
    form = DECAYS * (decay != 0) | AVERAGES * averages | CENTERED * centered
    numbers = (group["lr"], decay, momentum, 0, alpha, alpha, group["eps"], 0)
    return RMSPROP, form, (1, 2, 2, LERP), numbers, ("step", "square_avg", "momentum_buffer" * averages, "grad_avg" * centered)


FORMS = {"SGD": of_sgd, "Adam": of_adam, "AdamW": of_adam, "Adagrad": of_adagrad, "RMSprop": of_rmsprop}


def rows(optimizer, group, names):
    """For each parameter that has a gradient: it, the gradient, and what the state has by these names; None: nothing."""
    found, states, nothing = [], optimizer.state.get, {}
    count, first, second, third = names
    for parameter in group["params"]:
        gradient = parameter.grad
        if gradient is not None:
            get = states(parameter, nothing).get
            found += (parameter, gradient, get(count), get(first), get(second), get(third))
    return found


def plan_group(optimizer, group):
    """What the extension takes for a group; None: the step is to be the optimiser's own."""
    get, name = group.get, type(optimizer).__name__
    if get("fused") or get("capturable") or get("differentiable"):
        return None
    try:
        rule, form, versions, numbers, names = FORMS[name](group, name == "AdamW")
    except (KeyError, TypeError, ValueError):  # a group that PyTorch's step has something to say about
        return None
    if not all(isinstance(x, (int, float)) for x in numbers):
        return None
    signed, tensors = (-1.0 if get("maximize") else 1.0, *numbers), rows(optimizer, group, names)
    if tensors and LERP in versions:
        versions = tuple(lerp_versions(tensors[0].device) if n is LERP else n for n in versions)
    return rule, form, get("foreach") is not False, versions, signed, tensors


def plan(optimizer):
    """What the extension takes for all groups; None: the step is to be the optimiser's own."""
    if not has_own_step(optimizer) or is_watched(optimizer) or sys.modules["torch"].is_inference_mode_enabled():
        return None
    planned = [plan_group(optimizer, group) for group in optimizer.param_groups]
    return None if None in planned else planned


def make(optimizer):
    """Make the step, if it is one for us.

    Returns
    -------
    bool
        False: nothing was done.
    """
    planned = plan(optimizer)
    made = planned is not None and _dynoc._descend(planned, rounds_once())
    if made and "step" in optimizer.__dict__:
        optimizer._opt_called = True  # which a scheduler looks at
    return made


def stand_in(func, of):
    """What later calls make in the place of `func`, a function of one of the names here; None: there is nothing.

    `of` is the object whose method it is, or the function that is called.
    """
    if func.__name__ == "clip_grad_norm_":
        return clip if of is getattr(sys.modules.get("torch.nn.utils.clip_grad"), "clip_grad_norm_", None) else None
    optimizer = optimizer_of(of)
    return step if optimizer is not None and has_own_step(optimizer) else None


def clip(of, *args, **kwargs):
    """Make the call of `torch.nn.utils.clip_grad_norm_`, which is `of`: gradients are multiplied in one pass; in none, if by 1.

    Norms are PyTorch's own, so that gradients have the bits that they have in eager.
    """
    asked = {**dict(zip(("parameters", "max_norm", "norm_type", "error_if_nonfinite"), args, strict=False)), **kwargs}
    known = len(args) < 5 and asked.keys() <= {"parameters", "max_norm", "norm_type", "error_if_nonfinite"}
    if known and isinstance(asked.get("parameters"), types.GeneratorType):
        args, kwargs = (), {**asked, "parameters": list(asked["parameters"])}
        asked = kwargs
    total = shrink(**asked) if known and isinstance(asked.get("parameters"), (list, tuple)) and "max_norm" in asked else None
    return of(*args, **kwargs) if total is None else total


def shrink(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    """The norm of the gradients, which have been clipped; None: nothing was done."""
    torch = sys.modules["torch"]
    gradients = [p.grad for p in parameters if getattr(p, "grad", None) is not None]
    numbers = isinstance(max_norm, (int, float)) and isinstance(norm_type, (int, float))
    if not numbers or not _dynoc._shrink(gradients):
        return None
    with torch.no_grad():
        norms = torch._foreach_norm(gradients, float(norm_type))
        total = torch.linalg.vector_norm(torch.stack(norms), float(norm_type))
    value = total.item()
    refused = error_if_nonfinite and not math.isfinite(value)
    return None if refused or not _dynoc._shrink(gradients, value, float(max_norm)) else total


def step(of, *args, **kwargs):
    """Make the step of an optimiser.

    Parameters
    ----------
    of : torch.optim.Optimizer or callable
        The optimiser, or its method ``step``.
    *args, **kwargs
        What the method is called with. With a closure, the step is the optimiser's own.

    Returns
    -------
    object
        What the method returns.

    Examples
    --------
    >>> import pytest; torch = pytest.importorskip("torch")
    >>> weights = torch.nn.Parameter(torch.ones(3))
    >>> optimizer = torch.optim.Adam([weights], lr=0.5)
    >>> for _ in range(2):
    ...     weights.grad = torch.ones(3)
    ...     step(optimizer)
    >>> weights.detach().round(decimals=4)
    tensor([0., 0., 0.])
    """
    optimizer = optimizer_of(of)
    if not args and not kwargs and optimizer is not None and make(optimizer):
        return None
    call = of.step if optimizer is of or not callable(of) else of
    return call(*args, **kwargs)


# None of this is the program's, wherever it is called from.
for function in list(vars().values()):
    if isinstance(function, types.FunctionType) and function.__module__ == __name__:
        _dynoc.skip(function)
