"""Training with torch.distributions, whose objects compute attributes when they are first read: no entry is recorded in vain."""

import pytest

torch = pytest.importorskip("torch")

from compare import dynoc  # noqa: E402
from torch.distributions import Categorical, Normal  # noqa: E402


def scores(model, x, action, force):
    h = torch.tanh(model[0](x))
    choice, push = Categorical(logits=model[1](h)), Normal(model[2](h), model[3].weight.exp())
    if action is None:
        action, force = choice.sample(), push.sample()
    entropy = choice.entropy() + push.entropy().sum(-1)
    return action, force, choice.log_prob(action) + push.log_prob(force).sum(-1), entropy


def train(wrap, steps=6):
    torch.manual_seed(0)
    linear = torch.nn.Linear
    model = torch.nn.ModuleList([linear(4, 8), linear(8, 3), linear(8, 2), linear(2, 1, bias=False)]).double()
    call, optimiser, losses = wrap(scores), torch.optim.Adam(model.parameters(), lr=1e-2), []
    for _ in range(steps):
        x = torch.randn(6, 4, dtype=torch.float64)
        with torch.no_grad():
            action, force, before, _ = call(model, x, None, None)
        _, _, now, entropy = call(model, x, action, force)
        loss = -(now - before).exp().clamp(0.8, 1.2).mean() - 0.01 * entropy.mean() - now.mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses), [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("options", [{}, {"wait": True}], ids=["default", "wait"])
def test_a_policy_is_trained_as_in_eager(options):
    made = []

    def wrap(function):
        made.append(dynoc.optimize(function, **options))
        return made[0]

    expected, parameters = train(lambda f: f)
    losses, found = train(wrap)
    torch.testing.assert_close(losses, expected, rtol=1e-9, atol=1e-9)
    for a, b in zip(found, parameters, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)
    recorded = len(made[0].entries)
    train(lambda f: made[0], steps=3)
    assert len(made[0].entries) == recorded
