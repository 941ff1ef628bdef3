"""Steps of PyTorch's optimisers, by its fused operators: all parameters of a group in one call.

`step` stands in for an optimiser's own step where a captured function makes one (src/evalframe/hook.c), and is what
`dynoc.optimize(optimizer.step)` calls. A step is PyTorch's own, with the option ``fused`` on while it runs: hyperparameters are
read from the groups as ever, and the state is what it would be. SGD's fused operators give the bits of the others; those of Adam,
AdamW and Adagrad differ by rounding. The first step of a parameter, which makes its state, is the optimiser's own.
"""

import sys
import types

from dynoc import _dynoc

NUMBERS = (int, float)
#: The state that a fused step changes, by class of optimiser: names, and how many versions the plain step gives each.
CHANGES = {
    "SGD": {"momentum_buffer": 2},
    "Adam": {"exp_avg": 1, "exp_avg_sq": 2, "max_exp_avg_sq": 1},
    "AdamW": {"exp_avg": 1, "exp_avg_sq": 2, "max_exp_avg_sq": 1},
    "Adagrad": {"sum": 1},
}


def optimizer_of(step):
    """The optimiser whose method `step` is, also if a learning rate scheduler has wrapped it; None: it is no such method."""
    optimizers = getattr(sys.modules.get("torch"), "optim", None)
    if optimizers is None:
        return None
    owner = step.__self__ if isinstance(step, types.MethodType) else step
    if getattr(step, "_wrapped_by_lr_sched", False) and isinstance(step, types.FunctionType):
        names = step.__code__.co_freevars
        owner = step.__closure__[names.index("opt_ref")].cell_contents() if "opt_ref" in names else None
    return owner if isinstance(owner, optimizers.Optimizer) else None


def has_fused_step(optimizer):
    """Is it one of the classes that have fused operators, exactly?"""
    name = type(optimizer).__name__
    return name in CHANGES and type(optimizer) is getattr(sys.modules["torch"].optim, name)


def is_watched(optimizer):
    """Would somebody see the groups while the step runs, or does a gradient scaler take part in it?"""
    shared = sys.modules["torch.optim.optimizer"]
    hooks = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    hooks = hooks or shared._global_optimizer_pre_hooks or shared._global_optimizer_post_hooks
    return bool(hooks) or hasattr(optimizer, "grad_scale") or hasattr(optimizer, "found_inf")


def is_plain_group(optimizer, group):
    """Does nothing in the group ask for another form of the step?"""
    get = group.get
    asked = get("fused") is not None or get("foreach") or get("capturable") or get("differentiable")
    if asked or (type(optimizer).__name__ == "SGD" and group["momentum"] == 0):
        return False
    return all(type(x) in NUMBERS for x in (group["lr"], group["weight_decay"], *get("betas", ()), get("momentum", 0)))


def plan_group(optimizer, group, changed):
    """Add to `changed`, for each parameter of the group, the tensors that its step changes and the versions that they get.

    Returns
    -------
    bool
        False: the fused operators can't make the step.
    """
    name, states, tensors = type(optimizer).__name__, optimizer.state, []
    names = [(key, n) for key, n in CHANGES[name].items() if key != "max_exp_avg_sq" or group["amsgrad"]]
    decays = group.get("decoupled_weight_decay", name == "AdamW") and group["weight_decay"] != 0
    counts = name != "SGD"
    for parameter in group["params"]:
        gradient = parameter.grad
        if gradient is not None:
            state = states.get(parameter)
            if not state or (counts and "step" not in state):
                return False
            tensors += (parameter, gradient)
            changed.append((parameter, 1 + decays))
            for key, n in names:
                tensor = state.get(key)
                tensors.append(tensor)
                changed.append((tensor, n))
    return _dynoc._fit_fused(tensors, 2 + len(names))


def plan(optimizer):
    """The tensors that a fused step changes, with the versions that they get; None: the step is to be the optimiser's own."""
    changed = []
    possible = has_fused_step(optimizer) and not is_watched(optimizer) and not sys.modules["torch"].is_inference_mode_enabled()
    for group in optimizer.param_groups if possible else ():
        if not is_plain_group(optimizer, group) or not plan_group(optimizer, group, changed):
            return None
    return changed or None


def make_fused(optimizer, call, changed):
    """Make the step with the option on. Fused operators don't count versions, so that is done here."""
    before = [tensor._version for tensor, _ in changed]
    asked = "_need_device_dtype_check_for_fused" in optimizer.__dict__
    groups = list(optimizer.param_groups)
    for group in groups:
        group["fused"] = True
    try:
        return call()
    finally:
        for group in groups:
            group["fused"] = None
        if not asked:
            optimizer.__dict__.pop("_need_device_dtype_check_for_fused", None)
        count_versions(changed, before)


def count_versions(changed, before):
    """Give each tensor the versions that it lacks."""
    missing = []
    for (tensor, n), version in zip(changed, before, strict=True):
        missing += (tensor,) * (version + n - tensor._version)
    sys.modules["torch"]._C._increment_version(missing)


def stand_in(func, of):
    """`step`, if `func`, which has that name, is the step of the optimiser `of`, or that step is `of`; else None.

    None, too, where there are no fused operators.
    """
    optimizer = optimizer_of(of)
    return step if optimizer is not None and has_fused_step(optimizer) else None


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
    call = of.step if optimizer is of or not callable(of) else of
    changed = None if args or kwargs or optimizer is None else plan(optimizer)
    return call(*args, **kwargs) if changed is None else make_fused(optimizer, call, changed)
