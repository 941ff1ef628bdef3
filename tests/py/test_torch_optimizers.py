"""Steps of PyTorch's optimisers in captured functions, and under dynoc.optimize: what eager makes of parameters and state."""

import copy
import itertools
import types

import pytest

torch = pytest.importorskip("torch")

from compare import dynoc  # noqa: E402

from dynoc import _optimizers  # noqa: E402

SERVED = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.01),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.01),
    "dampened": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, dampening=0.1, maximize=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1, betas=(0.8, 0.95)),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.01, weight_decay=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
    "foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "unfused": lambda p: torch.optim.Adam(p, lr=0.01, fused=False),
}
OTHERS = {
    "fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "tensor_rate": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
}


def combinations(**options):
    return [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]


DECAY = {"weight_decay": [0, 0.1], "maximize": [False, True]}
ALL_OPTIONS = {
    "SGD": [
        options
        for options in combinations(momentum=[0, 0.9], nesterov=[False, True], dampening=[0, 0.3], **DECAY)
        if not options["nesterov"] or (options["momentum"] and not options["dampening"])
    ],
    "Adam": combinations(amsgrad=[False, True], betas=[(0.9, 0.999), (0.3, 0.6)], **DECAY),
    "AdamW": combinations(amsgrad=[False, True], **DECAY),
    "Adagrad": combinations(lr_decay=[0, 0.1], initial_accumulator_value=[0, 0.5], **DECAY),
    "RMSprop": combinations(momentum=[0, 0.9], centered=[False, True], alpha=[0.99, 0.3], **DECAY),
}


@pytest.fixture
def steps(monkeypatch):
    """How many steps the extension has made."""
    made = []
    plain = _optimizers.make

    def counted(optimizer):
        done = plain(optimizer)
        made.extend([1] * done)
        return done

    monkeypatch.setattr(_optimizers, "make", counted)
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
@pytest.mark.parametrize("name", SERVED)
def test_a_step_inside_is_served(name, dtype, steps):
    expected, found = trained(SERVED[name], eager, dtype), trained(SERVED[name], dynoc.optimize(wait=True), dtype)
    same(expected, found, 5e-5 if dtype is torch.float32 else 1e-10)  # products have other last bits
    assert len(steps) >= 4  # neither the first, which makes the state, nor the call that is recorded


def test_a_step_behind_what_does_not_pay_is_served(steps):
    """In the default mode so small a forward pass is CPython's: what stands behind it is dynoc's all the same."""
    wrap = dynoc.optimize(options={"retire": True})
    same(trained(SERVED["adam"], eager, n=5), trained(SERVED["adam"], wrap, n=5))
    assert steps


@pytest.mark.parametrize("name", OTHERS)
def test_other_steps_are_pytorchs(name, steps):
    same(trained(OTHERS[name], eager), trained(OTHERS[name], dynoc.optimize(wait=True)))
    assert steps == []


def test_exact_functions_have_plain_steps(steps):
    same(trained(SERVED["adam"], eager), trained(SERVED["adam"], dynoc.optimize(wait=True, exact=True)))
    assert steps == []


@pytest.mark.parametrize("name", SERVED)
def test_the_method_itself(name, steps):
    model, twin = network(torch.float32), network(torch.float32)
    optimizers = [SERVED[name](m.parameters()) for m in (model, twin)]
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

    same(trained(SERVED["adam"], eager, each=each, n=8), trained(SERVED["adam"], wrap, each=each, n=8))
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
def test_what_the_loops_cannot_do_is_pytorchs(change, steps):
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


SHAPES = [(1000,), (37, 5), (), (3, 4, 5), (40, 70), (0, 3)]


def twins(kind, dtype, options, shapes=SHAPES):
    """Two optimisers of equal parameters, and those."""
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in shapes]
    both = [parameters, [torch.nn.Parameter(p.detach().clone()) for p in parameters]]
    return [getattr(torch.optim, kind)(ps, lr=0.01, **options) for ps in both], both


def give_gradients(both, size):
    for p, q in zip(*both, strict=True):
        p.grad = torch.randn_like(p) * size
        q.grad = p.grad.clone()


def states(optimizer, parameters):
    return [(k, v, v._version) for p in parameters for k, v in optimizer.state[p].items() if v is not None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("kind", ALL_OPTIONS)
def test_each_option(kind, foreach, dtype):
    """State and versions are the same, and parameters, too, unless PyTorch takes square roots, which it rounds in its own way."""
    eps = 0 if kind == "SGD" else 4 * torch.finfo(dtype).eps
    for options in ALL_OPTIONS[kind]:
        (plain, fast), both = twins(kind, dtype, {**options, "foreach": foreach})
        for i in range(4):
            give_gradients(both, 10.0 ** (i - 2))
            with torch.no_grad():
                for p, q in zip(*both, strict=True):
                    q.data.copy_(p)
            before = [p.detach().clone() for p in both[0]]
            plain.step()
            longest = max(float((p.detach() - old).abs().max()) for p, old in zip(both[0], before, strict=True) if p.numel())
            if not _optimizers.make(fast):
                assert i == 0
                fast.step()
            for p, q in zip(*both, strict=True):
                torch.testing.assert_close(q, p, rtol=eps, atol=eps * longest, msg=lambda text, o=options: f"{o}: {text}")
                assert q._version == p._version
            for (name, mine, n), (_, theirs, m) in zip(states(fast, both[1]), states(plain, both[0]), strict=True):
                if name != "momentum_buffer" or kind == "SGD":  # RMSprop's holds quotients by roots
                    assert torch.equal(mine, theirs), (options, name)
                assert n == m, (options, name)


def test_threads_share_the_elements():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        (plain, fast), both = twins("SGD", torch.float32, {"momentum": 0.9}, [(300, 500), (3,), (70000,)])
        for i in range(3):
            give_gradients(both, 1)
            plain.step()
            assert _optimizers.make(fast) or not i or fast.step()
            if i == 0:
                fast.step()
        assert all(torch.equal(p, q) for p, q in zip(*both, strict=True))
    finally:
        torch.set_num_threads(before)


def test_without_operations_that_round_once(monkeypatch):
    """As on a processor that has none: within the rounding of one sum."""
    monkeypatch.setattr(_optimizers, "rounds_once", lambda: False)
    for kind in ALL_OPTIONS:
        (plain, fast), both = twins(kind, torch.float64, {})
        for _ in range(3):
            give_gradients(both, 1)
            plain.step()
            fast.step() if not _optimizers.make(fast) else None
        for p, q in zip(*both, strict=True):
            torch.testing.assert_close(p, q, rtol=1e-14, atol=1e-14)


def test_any_order_of_axes_without_gaps(steps):
    makes = []
    for wrap in (eager, dynoc.optimize):
        weights = torch.nn.Parameter(torch.linspace(0, 1, 120).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last))
        step = wrap(torch.optim.SGD([weights], lr=0.1, momentum=0.9).step)
        for i in range(3):
            weights.grad = (weights.detach() * i).sin()
            step()
        makes.append(weights.detach())
    assert torch.equal(*makes)
    assert len(steps) == 2


@pytest.mark.parametrize("shared", ["parameters", "state", "gradient"])
def test_shared_memory_is_pytorchs(shared, steps):
    """Steps whose order would show."""
    makes = []
    for wrap in (eager, dynoc.optimize):
        a, b = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(4))
        if shared == "parameters":
            b.data = a.data
        optimizer = torch.optim.SGD([a, b], lr=0.1, momentum=0.9, weight_decay=0.1)
        step = wrap(optimizer.step)
        for i in range(3):
            a.grad, b.grad = torch.full((4,), 1.0 + i), torch.full((4,), 2.0)
            if shared == "gradient":
                a.grad = a.detach()
            step()
            if shared == "state":
                optimizer.state[b]["momentum_buffer"] = optimizer.state[a]["momentum_buffer"]
        makes.append(torch.stack((a.detach(), b.detach())))
    assert torch.equal(*makes)
    assert steps == []


def test_an_error_of_a_later_group(steps):
    """PyTorch's step has changed the first group when it raises; what it has done, and to what, is the same."""

    def run(wrap):
        first, second = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
        optimizer = torch.optim.Adam([{"params": [first]}, {"params": [second], "lr": 0.1}])
        step = wrap(optimizer.step)
        first.grad, second.grad = torch.ones(3), torch.ones(3)
        step()
        optimizer.param_groups[1]["betas"] = ("first", 0.9)
        with pytest.raises(TypeError) as raised:
            step()
        return str(raised.value), first.detach(), second.detach(), optimizer.state_dict()

    same(run(eager), run(dynoc.optimize), 0)
    assert steps == []


def test_a_number_that_floats_cannot_hold():
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=1e300)
    parameter.grad = torch.ones(3)
    with pytest.raises(RuntimeError, match="overflow"):
        dynoc.optimize(optimizer.step)()
    assert torch.equal(parameter, torch.ones(3))
    assert parameter._version == 0


def test_a_scheduler_sees_that_there_was_a_step(steps, recwarn):
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    parameter.grad = torch.ones(3)
    dynoc.optimize(optimizer.step)()
    scheduler.step()
    assert steps == [1]
    assert [str(w.message) for w in recwarn if "lr_scheduler" in str(w.message)] == []


def test_a_step_that_the_program_has_replaced(steps):
    class Counted(torch.optim.SGD):
        def step(self, closure=None):
            self.n = getattr(self, "n", 0) + 1
            return super().step(closure)

    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    optimizer = Counted([parameter], lr=0.1)
    dynoc.optimize(optimizer.step)()
    assert optimizer.n == 1
    plain = torch.optim.SGD([parameter], lr=0.1)
    called = []
    plain.step = types.MethodType(lambda self: called.append(1), plain)
    torch.optim.lr_scheduler.StepLR(plain, 1)
    dynoc.optimize(plain.step)()
    assert called == [1]
    assert steps == []


def test_a_profiler_sees_pytorchs_step(steps):
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    step = dynoc.optimize(torch.optim.SGD([parameter], lr=0.1).step)
    with torch.profiler.profile() as profile:
        step()
    assert any(e.name == "Optimizer.step#SGD.step" for e in profile.events())
    assert steps == []


def test_a_state_that_was_loaded(steps):
    make = SERVED["adam"]
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


# ---- clipping


def clipped(wrap, clip, gradients):
    """What `clip` gives, gradients, and their versions, of some calls within a function; or the error that is raised."""
    parameters = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(shape)) for shape in SHAPES[:5]])
    x = torch.ones(3)

    @wrap
    def train():
        return clip(parameters.parameters()), x * 2 + 1

    seen = []
    for i in range(4):
        torch.manual_seed(i)
        for p in parameters:
            p.grad = gradients(p)
        try:
            result = train()[0]
        except RuntimeError as error:
            result = str(error)
        grads = [p.grad if p.grad is None or p.grad.layout == torch.sparse_coo else p.grad.clone() for p in parameters]
        seen.append((result, grads, [None if p.grad is None else p.grad._version for p in parameters]))
    return seen


@pytest.fixture
def shrunk(monkeypatch):
    made = []
    plain = _optimizers.shrink

    def counted(*args, **kwargs):
        total = plain(*args, **kwargs)
        made.extend([1] * (total is not None))
        return total

    monkeypatch.setattr(_optimizers, "shrink", counted)
    return made


CLIPS = {
    "norm": lambda ps: torch.nn.utils.clip_grad_norm_(ps, 0.5),
    "far": lambda ps: torch.nn.utils.clip_grad_norm_(parameters=ps, max_norm=1e6),
    "one": lambda ps: torch.nn.utils.clip_grad_norm_(ps, 2, norm_type=1),
    "greatest": lambda ps: torch.nn.utils.clip_grad_norm_(ps, 0.5, float("inf"), True),
}
GRADIENTS = {
    "random": torch.randn_like,
    "none": lambda p: torch.randn_like(p) if p.ndim != 1 else None,
    "nan": lambda p: torch.randn_like(p).masked_fill_(torch.zeros_like(p).bernoulli_(0.1).bool(), float("nan")),
    "infinite": lambda p: torch.full_like(p, float("inf")) if p.ndim == 0 else torch.randn_like(p),
}


@pytest.mark.parametrize("gradients", GRADIENTS)
@pytest.mark.parametrize("name", CLIPS)
def test_norms_are_limited_as_in_eager(name, gradients, shrunk):
    dynoc.reset()  # of the entries of other cases, which are the same function's
    expected = clipped(eager, CLIPS[name], GRADIENTS[gradients])
    found = clipped(dynoc.optimize(wait=True), CLIPS[name], GRADIENTS[gradients])
    for (total, grads, versions), (theirs, plain, m) in zip(found, expected, strict=True):
        assert type(total) is type(theirs)
        assert total == theirs if isinstance(total, str) else torch.equal(total, theirs) or (total.isnan() and theirs.isnan())
        for g, p in zip(grads, plain, strict=True):
            assert (g is None and p is None) or torch.equal(g.nan_to_num(7), p.nan_to_num(7))
        assert versions == m
    raises = name == "greatest" and gradients in ("nan", "infinite")
    assert len(shrunk) == (0 if raises else 3)


@pytest.mark.parametrize(
    "clip",
    [
        lambda ps: torch.nn.utils.clip_grad_norm_(ps, 0.5, foreach=False),
        lambda ps: torch.nn.utils.clip_grad_norm_(list(ps)[0], 0.5),
        lambda ps: torch.nn.utils.clip_grad_value_(ps, 0.1),
    ],
)
def test_other_clipping_is_pytorchs(clip, shrunk):
    expected, found = (clipped(wrap, clip, torch.randn_like) for wrap in (eager, dynoc.optimize(wait=True)))
    same(expected, found, 0)
    assert shrunk == []


def test_gradients_that_do_not_fit_are_clipped_by_pytorch(shrunk):
    def strided(p):
        return torch.randn(*p.shape, 2)[..., 0]

    clip = CLIPS["norm"]
    same(*(clipped(wrap, clip, strided) for wrap in (eager, dynoc.optimize(wait=True))), 0)
    assert shrunk == []
