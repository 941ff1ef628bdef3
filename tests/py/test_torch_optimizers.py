"""Steps of PyTorch's optimisers in captured functions, and under dynoc.optimize: what eager makes of parameters and state."""

import copy

import pytest

torch = pytest.importorskip("torch")

from compare import dynoc  # noqa: E402

from dynoc import _optimizers  # noqa: E402

FUSED = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.01),
    "dampened": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, dampening=0.1, maximize=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1, betas=(0.8, 0.95)),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.01, weight_decay=0.01),
}
OTHERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
    "foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "unfused": lambda p: torch.optim.Adam(p, lr=0.01, fused=False),
    "tensor_rate": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)),
}


@pytest.fixture
def steps(monkeypatch):
    """How many steps were fused ones."""
    made = []
    plain = _optimizers.make_fused
    monkeypatch.setattr(_optimizers, "make_fused", lambda *args: (made.append(1), plain(*args))[1])
    return made


def network(dtype):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).to(dtype)


def record(model, optimizer):
    def kept(value):
        return (value.clone(), value._version) if isinstance(value, torch.Tensor) else value

    parameters = [(p.detach().clone(), p._version) for p in model.parameters()]
    return parameters, [{k: kept(v) for k, v in optimizer.state[p].items()} for p in model.parameters()], len(optimizer.state)


def same(a, b, off=1e-5):
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b, rtol=off, atol=off)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        same(list(a.values()), list(b.values()), off)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y, off)
    else:
        assert a == b


def trained(make, wrap, dtype=torch.float32, n=6, each=None):
    """Parameters and state behind each of n steps; each(i, model, optimizer) comes behind a step."""
    model = network(dtype)
    optimizer = make(model.parameters())
    batch = torch.linspace(-1, 1, 24, dtype=dtype).reshape(3, 8)

    @wrap
    def train(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    seen = []
    for i in range(n):
        seen.append((train(batch * (1 + i)), *record(model, optimizer)))
        if each is not None:
            each(i, model, optimizer)
    return seen, optimizer.state_dict()


def eager(function):
    return function


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FUSED)
def test_a_step_inside_is_fused(name, dtype, steps):
    expected, found = trained(FUSED[name], eager, dtype), trained(FUSED[name], dynoc.optimize(wait=True), dtype)
    same(expected, found, 1e-5 if dtype is torch.float32 else 1e-10)
    assert len(steps) >= 4  # neither the first, which makes the state, nor the call that is recorded


def test_a_step_behind_what_does_not_pay_is_fused(steps):
    """In the default mode so small a forward pass is CPython's: what stands behind it is dynoc's all the same."""
    wrap = dynoc.optimize(options={"retire": True})
    same(trained(FUSED["adam"], eager, n=5), trained(FUSED["adam"], wrap, n=5))
    assert steps


@pytest.mark.parametrize("name", OTHERS)
def test_other_steps_are_pytorchs(name, steps):
    same(trained(OTHERS[name], eager), trained(OTHERS[name], dynoc.optimize(wait=True)))
    assert steps == []


def test_exact_functions_have_plain_steps(steps):
    same(trained(FUSED["adam"], eager), trained(FUSED["adam"], dynoc.optimize(wait=True, exact=True)))
    assert steps == []


@pytest.mark.parametrize("name", FUSED)
def test_the_method_itself(name, steps):
    model, twin = network(torch.float32), network(torch.float32)
    optimizers = [FUSED[name](m.parameters()) for m in (model, twin)]
    makes = [optimizers[0].step, dynoc.optimize(optimizers[1].step)]
    for i in range(5):
        for m, optimizer, make in zip((model, twin), optimizers, makes, strict=True):
            for k, p in enumerate(m.parameters()):
                p.grad = torch.full_like(p, 0.1 * (k + i))
            assert make() is None
        same(record(model, optimizers[0]), record(twin, optimizers[1]))
    assert len(steps) >= 4  # Adagrad makes its state with itself


def test_a_scheduler_changes_the_rate_and_nothing_is_recorded_again(steps):
    schedulers = {}

    def each(i, model, optimizer):
        if optimizer not in schedulers:
            schedulers[optimizer] = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        else:
            schedulers[optimizer].step()

    made = []

    def wrap(function):
        made.append(dynoc.optimize(function, wait=True))
        return made[-1]

    same(trained(FUSED["adam"], eager, each=each, n=8), trained(FUSED["adam"], wrap, each=each, n=8))
    assert len(steps) >= 4
    assert max(e.hits for e in made[0].entries) >= 5


def test_groups_and_parameters_without_gradients(steps):
    def make(parameters):
        first, *rest = parameters
        first.requires_grad_(False)
        return torch.optim.AdamW([{"params": [first, rest[0]], "lr": 0.1}, {"params": rest[1:], "weight_decay": 0.5}], lr=0.01)

    same(trained(make, eager), trained(make, dynoc.optimize(wait=True)))
    assert len(steps) >= 4


def test_hooks_of_the_optimiser_see_what_they_see_in_eager(steps):
    def watched(wrap):
        seen = []

        def make(parameters):
            optimizer = torch.optim.Adam(parameters, lr=0.01)
            optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(o.param_groups[0]["fused"]))
            return optimizer

        return trained(make, wrap), seen

    same(watched(eager), watched(dynoc.optimize(wait=True)))
    assert steps == []


def test_a_closure_is_called_by_the_plain_step(steps):
    def run(wrap):
        model = network(torch.float32)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        x = torch.ones(2, 8)

        @wrap
        def train():
            def closure():
                optimizer.zero_grad()
                loss = (model(x) ** 2).sum()
                loss.backward()
                return loss

            return optimizer.step(closure)

        return [train().detach() for _ in range(4)], record(model, optimizer)

    same(run(eager), run(dynoc.optimize(wait=True)))
    assert steps == []


def changed_layout(model):
    """Parameters and gradients whose elements don't lie in order."""
    for p in model.parameters():
        if p.ndim == 2:
            p.data = p.data.t().contiguous().t()


@pytest.mark.parametrize("change", ["layout", "sparse", "half", "gradient_layout"])
def test_what_fused_operators_cannot_do_is_pytorchs(change, steps):
    makes = []
    for wrap in (eager, dynoc.optimize):
        model = network(torch.bfloat16 if change == "half" else torch.float32)
        if change == "layout":
            changed_layout(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        make = wrap(optimizer.step)
        for i in range(4):
            for p in model.parameters():
                p.grad = torch.linspace(0, 1 + i, p.numel()).reshape(p.shape).to(p.dtype)
                if change == "sparse" and p.ndim == 2:
                    p.grad = p.grad.to_sparse()
                if change == "gradient_layout" and p.ndim == 2:
                    p.grad = p.grad.t().contiguous().t()
            make()
        makes.append([p.detach().clone() for p in model.parameters()])
    same(*makes)
    assert steps == []


def test_an_error_leaves_the_groups_as_they_were(monkeypatch):
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([parameter])
    step = dynoc.optimize(optimizer.step)
    parameter.grad = torch.ones(3)
    step()
    monkeypatch.setattr(torch, "_fused_adam_", lambda *args, **kwargs: 1 / 0)
    before = copy.deepcopy(optimizer.param_groups[0]["fused"]), sorted(optimizer.__dict__)
    with pytest.raises(ZeroDivisionError):
        step()
    assert (optimizer.param_groups[0]["fused"], sorted(optimizer.__dict__)) == before
    monkeypatch.undo()
    step()


def test_a_state_that_was_loaded(steps):
    make = FUSED["adam"]
    _, state = trained(make, eager)

    def loaded(parameters):
        optimizer = make(parameters)
        optimizer.load_state_dict(copy.deepcopy(state))
        return optimizer

    same(trained(loaded, eager), trained(loaded, dynoc.optimize(wait=True)))
    assert len(steps) == 5


def test_a_saved_parameter_that_the_step_changes_is_an_error():
    weights = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weights])
    step = dynoc.optimize(optimizer.step)
    for _ in range(2):
        weights.grad = torch.ones(3)
        step()
    loss = (weights**2).sum()
    step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
