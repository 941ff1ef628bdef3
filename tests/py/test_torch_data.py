"""x.data and x.detach(): whose versions count what is changed through them, and what may be changed in place later."""

import types

import pytest

torch = pytest.importorskip("torch")

import dynoc  # noqa: E402


def multiplied(p, x):
    p.data.mul_(x)
    return x + 1


def detached(p, x):
    p.detach().mul_(x)
    return x + 1


def kept(p, x):
    d = p.data
    d.mul_(x)
    d[0].add_(1)
    return d


def asked(p, x):
    d = p.data
    d.mul_(x)
    return d._version, p.data._version


def assigned(p, x):
    p.data = x * 2
    return x + 1


def of_a_result(p, x):
    y = x * 2
    z = y.data
    z.add_(1)
    return y, z


def between_reads(p, x):
    y = x * p
    p.data.mul_(0.5)
    return y, y * 2


def two_of_one(p, x):
    first, second = p.data, p.data
    first.mul_(2)
    return first, second


def copied_and_cut(p, x):
    p.data.copy_(x)
    p.data.clamp_(-1, 1)
    p.data[1:].zero_()
    return p * x


def of_a_followed_result(p, x):
    y = torch.sin(p) * x
    y.data.mul_(2)
    return y


def of_what_gradients_read(p, x):
    y = torch.exp(p * x)
    y.data.mul_(2)
    return y


def of_what_gradients_read_detached(p, x):
    y = torch.exp(p * x)
    y.detach().mul_(2)
    return y


def by_calls(p, x):
    torch.nn.init.normal_(p.data)
    p.data.uniform_(-1, 1)
    p.data.add_(p.data.sort()[0])
    return p.data


def within_no_grad(p, x):
    with torch.no_grad():
        q = p.data
        q += 1
        p.data -= x
        p.data[...] = q
    return (p * x).tanh()


def both(p, x):
    d = p.detach()
    d.add_(1)
    e = d.data
    e.mul_(2)
    return d, e


def of_no_parameter(p, x):
    w = x.data
    w += 1
    return w * 2, x, torch.exp(x).detach(), torch.exp(x).data, x.detach(), x[1:].data, x.data[1:]


def step_by_hand(p, x):
    loss = torch.tanh(p * x)
    (gradient,) = torch.autograd.grad(loss.sum(), p) if p.requires_grad else (x,)
    p.data.add_(gradient, alpha=-0.1)
    return loss.detach()


FUNCTIONS = [
    multiplied, detached, kept, asked, assigned, of_a_result, between_reads, two_of_one, copied_and_cut, of_a_followed_result,
    of_what_gradients_read, by_calls, within_no_grad, both, of_no_parameter, step_by_hand,
]  # fmt: skip
CASES = [(f, requires_grad) for f in FUNCTIONS for requires_grad in (True, False)]
CASES += [(of_what_gradients_read_detached, True)]


def numbers(t):
    return [round(v, 10) for v in t.detach().view(-1).tolist()]


def told(result, p, x):
    """Of each result what it holds, its version, what autograd knows of it, and its gradient or the error of that."""
    results = result if isinstance(result, tuple) else (result,)
    out = [p._version, x._version, numbers(p), numbers(x), p.is_leaf, p.requires_grad]
    for t in results:
        if not isinstance(t, torch.Tensor):
            out.append(t)
            continue
        known = (t._version, t.requires_grad, t.is_leaf, t.grad_fn is None, t._is_view(), t.data_ptr() == p.data_ptr())
        out.append((numbers(t), known))
        if t.requires_grad:
            try:
                out.append(numbers(torch.autograd.grad(t.sum(), p, retain_graph=True)[0]))
            except RuntimeError as error:
                out.append(str(error)[:60])
    return out


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("function, requires_grad", CASES)
def test_versions_are_those_of_eager(function, requires_grad, wait):
    fast = dynoc.optimize(types.FunctionType(function.__code__, globals()), wait=wait)
    both = []
    for f in (function, fast):
        torch.manual_seed(1)
        p = torch.nn.Parameter(torch.randn(5, dtype=torch.float64), requires_grad=requires_grad)
        x, seen = torch.randn(5, dtype=torch.float64), []
        for i in range(4):
            torch.manual_seed(i)
            seen.append(told(f(p, x), p, x))
        both.append(seen)
    assert repr(both[1]) == repr(both[0])


def test_a_parameter_that_was_saved_may_be_changed_by_its_data():
    """As in weight clipping and averages of weights between forward and backward: eager doesn't notice."""

    def forward(p, x):
        y = (torch.sin(p) * x).sum()
        p.data.clamp_(-0.5, 0.5)
        return y

    fast, gradients = dynoc.optimize(forward, wait=True), []
    for f in (forward, fast, fast):
        p = torch.nn.Parameter(torch.linspace(-1, 1, 7, dtype=torch.float64))
        f(p, torch.arange(7.0, dtype=torch.float64)).backward()
        gradients.append(p.grad)
    assert torch.allclose(gradients[0], gradients[1]) and torch.allclose(gradients[0], gradients[2])
    assert fast.entries[0].hits == 1


def test_what_leaves_a_graph_without_gradients_may_be_changed_where_there_are():
    """A view that eager makes while gradients are recorded is no view of no_grad."""

    def views(x):
        return x[1:], (x * 3)[1:], x.detach(), (x * 2).detach(), x.view(-1)

    def within(x):
        with torch.no_grad():
            y = x[1:]
        return y, y[1:], (x * 2)[1:]

    p = torch.nn.Parameter(torch.ones(5))
    for f in (views, within):
        fast, seen = dynoc.optimize(f, wait=True), []
        for g in (f, fast, fast):
            x, made = torch.arange(5.0), []
            for y in g(x):
                try:
                    y += p[: len(y)]
                    made.append((type(y.grad_fn).__name__, y.tolist(), x.requires_grad))
                except RuntimeError as error:
                    made.append(str(error)[:50])
            seen.append(made)
        assert seen[0] == seen[1] == seen[2]
        assert fast.entries[0].hits == 1
