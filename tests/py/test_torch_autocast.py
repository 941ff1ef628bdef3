"""Functions that are captured under torch.autocast, or use it: dtypes, values and gradients as eager's."""

import contextlib

import pytest

torch = pytest.importorskip("torch")

from compare import dynoc  # noqa: E402

functional = torch.nn.functional
HALVES = [torch.bfloat16, torch.float16]


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.scale = torch.nn.Linear(8, 32), torch.nn.Linear(32, 4), torch.nn.Parameter(torch.ones(32))
        self.norm = torch.nn.LayerNorm(32)

    def forward(self, x):
        h = self.first(x)
        h = h * torch.sigmoid(h) * self.scale
        h = self.norm(torch.tanh(h)) + 1
        return self.last(h.relu() + h)


def network():
    torch.manual_seed(0)
    return Network()


def entered(function, dtype=torch.bfloat16, enabled=True, cache=None):
    def call(*args):
        with torch.autocast("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache):
            return function(*args)

    return call


def equal(found, expected):
    """The same dtype and bits; products of doubles are summed in another order."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        if a.dtype is torch.float64:
            torch.testing.assert_close(a, b, rtol=1e-14, atol=1e-14)
        else:
            assert torch.equal(a, b)


def flat(result):
    return list(result) if isinstance(result, tuple) else [result]


def products(x):
    h = x @ x.T
    return h, h.relu() * 2 + 1, (h.float() @ h.float()) * 3, x.double() @ x.double().T + 1


def casts(x):
    """Operators that autocast makes in float32, or in the widest type that comes in."""
    h = x @ x.T
    rows = torch.arange(h.shape[0])
    losses = functional.mse_loss(h * 2, h + 1), functional.cross_entropy(h, rows), functional.smooth_l1_loss(h, h * 2)
    return *losses, torch.cat([h, h.float()]), torch.stack([h * 2, h]), h.prod(0), functional.softmax(h * 2, -1), h.cumsum(0)


def gathers(x):
    return torch.einsum("ij,kj->ik", x, x) * 2, torch.bmm(x[None], x.T[None]) + 1, functional.linear(x, x).abs()


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("function", [products, casts, gathers])
def test_a_function_within_autocast_is_one_graph(function, dtype):
    fast = dynoc.optimize(function, wait=True)
    for i in range(4):
        torch.manual_seed(i)
        x = torch.randn(8, 8)
        equal(flat(entered(fast, dtype)(x)), flat(entered(function, dtype)(x)))
    assert [e.hits for e in fast.entries] == [3]


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("dtype", HALVES)
def test_gradients(dtype, cache):
    """Layers that are used twice: whether casts of their weights are kept is seen by where gradients are rounded."""
    model, plain = network(), network()

    def twice(m, x):
        return m(x) + m(x * 2)

    fast = dynoc.optimize(twice, wait=True)
    for i in range(4):
        torch.manual_seed(i)
        x = torch.randn(16, 8)
        for m, f in ((model, fast), (plain, twice)):
            m.zero_grad()
            entered(f, dtype, cache=cache)(m, x).float().sin().sum().backward()
        for p, q in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-6, atol=1e-6)
        for name in ("first", "last"):
            assert torch.equal(getattr(model, name).weight.grad, getattr(plain, name).weight.grad)
    assert [e.hits for e in fast.entries] == [3]


def test_autocast_is_guarded():
    def function(x):
        return (x @ x.T) * 2 + 1

    fast = dynoc.optimize(function, wait=True)
    states = [{"enabled": False}, {"dtype": torch.bfloat16}, {"dtype": torch.float16}, {"cache": False}]
    x = torch.randn(8, 8)
    for _ in range(3):
        for state in states:
            equal([entered(fast, **state)(x)], [entered(function, **state)(x)])
    assert len(fast.entries) == len(states)
    assert "get_autocast_dtype" in "".join(str(g) for e in fast.entries for g in e.guards)


@pytest.mark.parametrize("dtype", HALVES)
def test_autocast_inside(dtype):
    def function(m, x):
        with torch.autocast("cpu", dtype=dtype):
            y = m(x)
            with torch.autocast("cpu", enabled=False):
                z = (y.float() @ y.float().T) * 2
            y = y * 2 + z.sum()
            w = z @ z
        return y, z, w + 1, x @ x.T

    model, plain = network(), network()
    fast = dynoc.optimize(function, wait=True)
    for i in range(4):
        torch.manual_seed(i)
        x = torch.randn(8, 8)
        x = x * 0.1  # in float16 the products of products are finite
        model.zero_grad()
        plain.zero_grad()
        found, expected = fast(model, x), function(plain, x)
        equal(found, expected)
        sum(t.float().mean() for t in found).backward()
        sum(t.float().mean() for t in expected).backward()
        for p, q in zip(model.parameters(), plain.parameters(), strict=True):
            assert (p.grad - q.grad).norm() <= 2e-3 * q.grad.norm()  # sums in another order, cast to halves
    assert not torch.is_autocast_enabled("cpu")
    assert [(e.end, e.hits) for e in fast.entries] == [("return", 3)]


def test_an_exception_within_leaves_autocast_as_it_was():
    def function(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = (x @ x.T) * 2
            if x.shape[0] > 4:
                raise ValueError("large")
        return y + 1

    fast = dynoc.optimize(function, wait=True)
    for n in (3, 3, 5, 3, 5):
        x = torch.randn(n, 8)
        if n == 5:
            with pytest.raises(ValueError, match="large"):
                fast(x)
        else:
            equal([fast(x)], [function(x)])
        assert not torch.is_autocast_enabled("cpu")
        assert torch.autocast_increment_nesting() == 1
        torch.autocast_decrement_nesting()


def test_the_decorator():
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def function(x):
        return (x @ x.T) * 2 + 1

    fast = dynoc.optimize(function, wait=True)
    for i in range(4):
        x = torch.full((4, 8), 0.1 * i)
        equal([fast(x)], [function(x)])
    assert [(e.end, e.hits) for e in fast.entries] == [("return", 3)]


def settings():
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()


@pytest.mark.parametrize("dtype", HALVES)
def test_calls_keep_their_side_of_autocast(dtype):
    """What is used behind autocast may have been computed before it, and the other way round."""

    def function(x):
        before = x @ x.T
        with torch.autocast("cpu", dtype=dtype):
            within = x @ x.T
            with torch.autocast("cpu", enabled=False):
                without = x @ x.T
            again = torch.exp(x @ x.T)
        half = x.to(dtype)
        return before + 1, within * 2, without - 1, again * 3, x @ x.T, torch.exp(half @ half.T), torch.exp(half)

    fast = dynoc.optimize(function, wait=True)
    for i in range(4):
        torch.manual_seed(i)
        for requires in (False, True):
            x = (torch.randn(8, 8) * 0.3).requires_grad_(requires)
            equal(fast(x), function(x))
    assert [(e.end, e.hits) for e in fast.entries] == [("return", 3), ("return", 3)]


def test_casts_are_kept_until_the_outermost_autocast_is_left():
    """A layer that is used twice within one autocast has one cast of its weight, and within two of them two."""
    model, plain = network(), network()

    def once(m, x):
        with torch.autocast("cpu"):
            return m(x).float() + m(x * 2).float()

    def twice(m, x):
        with torch.autocast("cpu"):
            y = m(x).float()
        with torch.autocast("cpu"):
            return y + m(x * 2).float()

    for function in (once, twice):
        fast = dynoc.optimize(function, wait=True)
        for i in range(4):
            torch.manual_seed(i)
            x = torch.randn(16, 8)
            for m, f in ((model, fast), (plain, function)):
                m.zero_grad()
                f(m, x).sin().sum().backward()
            for p, q in zip(model.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(p.grad, q.grad, rtol=1e-6, atol=1e-6)
            assert torch.equal(model.last.weight.grad, plain.last.weight.grad)
        assert [(e.end, e.hits) for e in fast.entries] == [("return", 3)]


def test_settings_at_the_beginning_are_guarded_and_put_back():
    def function(x):
        with torch.autocast("cpu"):
            y = x @ x.T
        return y * 2 + 1

    fast, x = dynoc.optimize(function, wait=True), torch.randn(8, 8)
    surroundings = [{"enabled": False}, {"dtype": torch.float16}, {"cache": False}, {"dtype": torch.bfloat16}]
    try:
        for _ in range(3):
            equal([fast(x)], [function(x)])
            for around in surroundings:
                equal([entered(fast, **around)(x)], [entered(function, **around)(x)])
            torch.set_autocast_dtype("cpu", torch.float16)
            equal([fast(x)], [function(x)])
            assert settings() == (0, False, torch.float16, True)
            torch.set_autocast_dtype("cpu", torch.bfloat16)
            assert settings() == (0, False, torch.bfloat16, True)
    finally:
        torch.set_autocast_dtype("cpu", torch.bfloat16)
    assert all(e.end == "return" for e in fast.entries)


def test_a_break_within():
    seen = []

    def function(x):
        with torch.autocast("cpu"):
            y = x @ x.T
            seen.append(settings())
            dynoc.graph_break()
            z = y @ x.T
        return z * 2 + 1

    fast = dynoc.optimize(function, wait=True)
    for i in range(4):
        x = torch.full((4, 4), 0.1 * i)
        equal([fast(x)], [function(x)])
    assert set(seen) == {(1, True, torch.bfloat16, True)} and settings()[0] == 0


@pytest.mark.parametrize("requires", [False, True])
def test_a_call_that_raises_within(requires):
    """The graph is left at the call, and the program handles its exception with the settings that it would find."""
    seen = []

    def function(x, w):
        try:
            with torch.autocast("cpu", dtype=torch.float16):
                y = x @ x.T * 2
                y = torch.linalg.cholesky(y.float() + w) * 2
        except torch.linalg.LinAlgError:
            seen.append(settings())
            y = x @ x.T
        return y + 1

    fast = dynoc.optimize(function, wait=True)
    for shift in (10.0, 10.0, -1000.0, 10.0, -1000.0, 10.0):
        torch.manual_seed(0)
        x, w = torch.randn(6, 6).requires_grad_(requires), torch.eye(6) * shift
        equal([fast(x, w)], [function(x, w)])
        assert settings() == (0, False, torch.bfloat16, True)
    assert set(seen) == {(0, False, torch.bfloat16, True)}


def test_types_that_autocast_does_not_have():
    def function(x):
        with torch.autocast("cpu", dtype=torch.float32):
            return (x @ x.T) * 2

    fast, x = dynoc.optimize(function, wait=True), torch.randn(4, 4)
    for _ in range(3):
        with pytest.warns(UserWarning, match="CPU Autocast only supports"):
            found = fast(x)
        with pytest.warns(UserWarning, match="CPU Autocast only supports"):
            equal([found], [function(x)])


def test_autocast_for_another_device():
    """Without a device it is off, with a warning; with one, what is computed here isn't cast."""

    def function(x):
        with torch.autocast("cuda", dtype=torch.float16):
            y = x @ x.T
            with torch.autocast("cpu"):
                z = x @ x.T
        return y + 1, z * 2

    fast = dynoc.optimize(function, wait=True)
    for i in range(3):
        with pytest.warns(UserWarning) if not torch.cuda.is_available() else contextlib.nullcontext():
            x = torch.full((4, 4), 0.3 + i)
            equal(fast(x), function(x))


class Scaled(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a.mm(b)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad.mm(b.t()), a.t().mm(grad)


class InFloat(Scaled):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a.mm(b)


@pytest.mark.parametrize("kind", [Scaled, InFloat])
def test_functions_with_derivatives_of_their_own(kind):
    def function(a, b):
        return kind.apply(a * 2, b) * 3 + 1

    fast = dynoc.optimize(function, wait=True)
    for i in range(4):
        torch.manual_seed(i)
        a, b = torch.randn(4, 8), torch.randn(8, 5)
        seen = []
        for f in (fast, function):
            a_, b_ = a.clone().requires_grad_(), b.clone().requires_grad_()
            y = entered(f)(a_, b_)
            y.float().sum().backward()
            seen.append((y.detach(), a_.grad, b_.grad))
        equal(*seen)


def test_backward_within_autocast():
    def function(x, w):
        return (torch.tanh(x @ w) * 2).float()

    fast = dynoc.optimize(function, wait=True)
    torch.manual_seed(0)
    for _ in range(3):
        x, w = torch.randn(4, 8), torch.randn(8, 8)
        seen = []
        for f in (fast, function):
            w_ = w.clone().requires_grad_()
            entered(lambda f=f, w_=w_, x=x: f(x, w_).sum().backward())()
            seen.append([w_.grad])
        equal(*seen)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("make", [lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.Adam(p, lr=0.01)])
def test_training_with_a_gradient_scaler(make, whole):
    """The scale grows, and steps whose gradients are infinite are left out."""

    def run(wrap):
        model = network()
        optimizer, scaler = make(model.parameters()), torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
        forward = model if whole else wrap(model)
        seen = []

        def train(x, target):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = functional.mse_loss(forward(x).float(), target)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            return loss.detach()

        train = wrap(train) if whole else train
        for i in range(8):
            torch.manual_seed(i)
            x = torch.randn(16, 8) * (1 if i != 4 else 1e6)
            seen.append((train(x, torch.randn(16, 4)), scaler.get_scale()))
        return seen, [p.detach() for p in model.parameters()], optimizer.state_dict()["state"]

    expected, found = run(lambda f: f), run(dynoc.optimize(wait=True))
    before = dynoc.counters["graphs"]["captured"]
    run(dynoc.optimize(wait=True))
    assert dynoc.counters["graphs"]["captured"] - before <= 6  # the scaler's own work, tensor by tensor, is in none of them
    assert [scale for _, scale in found[0]] == [scale for _, scale in expected[0]]
    for (a, _), (b, _) in zip(found[0], expected[0], strict=True):
        torch.testing.assert_close(a, b, rtol=2e-3, atol=1e-4, equal_nan=True)
    for a, b in zip(found[1], expected[1], strict=True):
        torch.testing.assert_close(a, b, rtol=2e-3, atol=2e-3)
    assert [sorted(s) for s in found[2].values()] == [sorted(s) for s in expected[2].values()]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("sizes", [(3, 8), (2, 3, 8)])
def test_a_small_product_that_is_cast_around_the_function_has_eagers_gradients(sizes, dtype):
    def function(x, w):
        return torch.tanh(functional.linear(torch.tanh(x), w))

    fast = dynoc.optimize(function, wait=True, options={"retire": False})
    for call in range(4):
        torch.manual_seed(call)
        x, w, seen = torch.randn(sizes, requires_grad=True), torch.randn(4, 8, requires_grad=True), []
        for f in (fast, function):
            with torch.autocast("cpu", dtype=dtype, enabled=call < 3):
                result = f(x, w)
            seen.append((result, *torch.autograd.grad(result.sum(), (x, w))))
        for a, b in zip(*seen, strict=True):
            torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2)
    assert sum(e.hits for e in fast.entries) == 2


def test_which_devices_there_are_is_known():
    def f(x):
        device = "cuda" if torch.cuda.is_available() and torch.cuda.device_count() > 0 else "cpu"
        return x.to(device) * 2 + torch.cuda.is_available()

    fast = dynoc.optimize(f, wait=True, fullgraph=True)
    for _ in range(3):
        assert torch.equal(fast(torch.ones(5)), f(torch.ones(5)))
    assert len(fast.entries) == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no device")
@pytest.mark.parametrize("dtype", HALVES)
def test_on_a_device(dtype):
    def function(m, x):
        with torch.autocast("cuda", dtype=dtype):
            y = m(x)
            with torch.autocast("cuda", enabled=False):
                z = (y.float() @ y.float().T) * 2
            w = torch.exp(y @ y.T * 0.01)
        return y, z, w + 1, x @ x.T

    model, plain = network().cuda(), network().cuda()
    for around in (False, True):
        fast = dynoc.optimize(function, wait=True)
        for i in range(4):
            torch.manual_seed(i)
            x = torch.randn(8, 8, device="cuda") * 0.1
            seen = []
            for m, f in ((model, fast), (plain, function)):
                m.zero_grad()
                with torch.autocast("cuda", dtype=dtype, enabled=around):
                    seen.append(f(m, x))
                sum(t.float().mean() for t in seen[-1]).backward()
            for a, b in zip(*seen, strict=True):
                assert a.dtype == b.dtype
                torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2)
            for p, q in zip(model.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(p.grad, q.grad, rtol=1e-1, atol=5e-2)
        assert [(e.end, e.hits) for e in fast.entries] == [("return", 3)]
