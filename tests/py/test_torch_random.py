"""Random numbers of PyTorch: the calls stay in their places, so the same seed gives eager's stream; sizes are known before."""

import dynoc
import pytest
from torch_cases import same, torch

F = torch.nn.functional
SIZES = [(2, 5), (3, 7), (4, 16)]


def check(fn, *calls, captured=True):
    """As torch_cases.check, with a seed before each call, and the generator's state compared behind it."""
    fast = dynoc.optimize(fn, wait=True, fullgraph=captured)
    for args in calls * 2:
        torch.manual_seed(3)
        want, state = fn(*args), torch.get_rng_state()
        torch.manual_seed(3)
        same(fast(*args), want)
        assert torch.equal(torch.get_rng_state(), state)
    if captured:
        assert len(fast.entries) == 1 and fast.entries[0].tier == "native"
    return fast


DRAWS = {
    "rand": lambda x: torch.rand(x.shape) + torch.rand(x.shape[0], x.shape[1], dtype=torch.float64),
    "randn": lambda x: torch.randn(*x.shape) + x,
    "like": lambda x: torch.rand_like(x) + torch.randn_like(x) + torch.randint_like(x, 9),
    "randint": lambda x: torch.randint(9, x.shape) + torch.randint(3, 7, (x.shape[1],)),
    "randperm": lambda x: x[:, torch.randperm(x.shape[1])] + 1,
    "bernoulli": lambda x: torch.bernoulli(x.abs() / 9) + (x.abs() / 9).bernoulli() + x.bernoulli(0.3),
    "normal": lambda x: torch.normal(x, 2.0) + torch.normal(0.0, 1.0, x.shape),
    "poisson": lambda x: torch.poisson(x.abs()) + 1,
    "multinomial": lambda x: torch.multinomial(x.abs(), 2) + 1,
    "dropout": lambda x: F.dropout(x, 0.4) + F.alpha_dropout(x, 0.2, training=True) + F.alpha_dropout(x, 0.2),
    "dropout of features": lambda x: F.dropout1d(x[None], 0.4) + F.dropout2d(x[None, None], 0.4),
    "in place": lambda x: x.clone().normal_() + torch.empty(x.shape).uniform_(2, 3) + x.clone().exponential_(),
    "in place of a part": lambda x: (y := x * 1.0, y[:1].random_(9), y + 1)[-1],
    "a draw that nobody uses": lambda x: (torch.rand(3), x + torch.rand(1))[-1],
    "in order": lambda x: (torch.rand(2), x + 1, torch.randn(2) * torch.rand(2), x.clone().uniform_(), torch.rand(1)),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.3) + 1,
    "rrelu": lambda x: F.rrelu(x, training=True) + 1,
    "gumbel": lambda x: F.gumbel_softmax(x) + 1,
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_stream_is_eagers(name):
    check(DRAWS[name], *[(torch.randn(n, m, generator=torch.Generator().manual_seed(n)),) for n, m in SIZES])


def test_a_generator_of_the_program():
    def fn(x, g):
        return torch.randn(x.shape, generator=g) + x + torch.rand(2, 1, generator=g)

    fast = dynoc.optimize(fn, wait=True)
    theirs, mine = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    for n in (3, 4, 5, 3):
        x = torch.ones(2, n)
        same(fast(x, mine), fn(x, theirs))
        assert torch.equal(mine.get_state(), theirs.get_state())


def test_a_seed_in_the_function():
    def fn(x):
        torch.manual_seed(7)
        return x + torch.randn(x.shape)

    check(fn, (torch.ones(2, 3),), (torch.ones(4, 3),), captured=False)


def test_a_layer_in_training():
    torch.manual_seed(1)
    layer = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Dropout(0.3), torch.nn.GELU(), torch.nn.Dropout(0.1))
    layer.requires_grad_(False).train()

    def fn(x):
        return layer(x) * 2

    check(fn, *[(torch.ones(n, 4),) for n in (2, 3, 8)])


def test_dropout_between_recurrent_layers():
    torch.manual_seed(1)
    layer = torch.nn.LSTM(4, 6, num_layers=2, dropout=0.3).requires_grad_(False)
    check(lambda x: layer(x)[0] * 2, *[(torch.ones(n, 2, 4),) for n in (2, 3, 8)])
