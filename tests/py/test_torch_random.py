"""Random numbers of PyTorch: the calls stay in their places, so the same seed gives eager's stream; sizes are known before."""

import math

import dynoc
import pytest
from dynoc import _reference
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


# ---- numbers made by kernels


@pytest.fixture
def kernels():
    dynoc.config.fallback_random = False
    yield
    dynoc.config.fallback_random = True


def bits(shape, *, other=False):
    """What Philox gives for the seed that comes next."""
    seed = torch.randint(-(2**63), 2**63 - 1, ())
    place = torch.arange(math.prod(shape)).reshape(shape)
    first = _reference.philox(seed, place)
    return (first, _reference.philox(seed, ~place)) if other else first


def uniform(shape):
    return (bits(shape) >> 39).float() * 2**-24


def normal_doubles(shape):
    first, second = bits(shape, other=True)
    angle = (second & 2**53 - 1).double() * 2**-53 * (2 * math.pi)
    return (((first >> 10) + 1).double() * 2**-53).log().mul(-2).sqrt() * angle.cos()


def normal_floats(shape):
    both = bits(shape)
    angle = (both & 2**24 - 1).float() * 2**-24 * (2 * math.pi)
    return (((both >> 39) + 1).float() * 2**-24).log().mul(-2).sqrt() * angle.cos()


def masked(x, shape, share):
    return x * ((uniform(shape) >= share).to(x.dtype) / (1 - share))


MADE = {
    "rand": (lambda x: torch.rand(x.shape) + 1, lambda x: uniform(x.shape) + 1),
    "rand of doubles": (
        lambda x: torch.rand(x.shape[0], dtype=torch.float64),
        lambda x: (bits(x.shape[:1]) >> 10).double() * 2**-53,
    ),
    "randn": (lambda x: torch.randn(*x.shape) * x, lambda x: normal_floats(x.shape) * x),
    "randn of doubles": (lambda x: torch.randn(x.shape, dtype=torch.float64), lambda x: normal_doubles(x.shape)),
    "like": (lambda x: torch.rand_like(x) - torch.randn_like(x), lambda x: uniform(x.shape) - normal_floats(x.shape)),
    "randint": (lambda x: torch.randint(-3, 9, x.shape), lambda x: ((bits(x.shape) >> 31) * 12 >> 32) - 3),
    "dropout": (lambda x: F.dropout(x, 0.3) - 1, lambda x: masked(x, x.shape, 0.3) - 1),
    "dropout of channels": (lambda x: F.dropout1d(x[None], 0.5) * 3, lambda x: masked(x[None], (1, x.shape[0], 1), 0.5) * 3),
    "none": (lambda x: F.dropout(x, 0.0) + F.dropout(x, 0.5, False), lambda x: x + x),
    "an empty one": (lambda x: torch.rand(0, x.shape[0]).sum() + x, lambda x: (uniform((0, 1)), x)[1]),
}


@pytest.mark.parametrize("backend", ["dynoc", "eager"])
@pytest.mark.parametrize("name", MADE)
def test_kernels_make_them(name, backend, kernels):
    fn, want = MADE[name]
    fast = dynoc.optimize(fn, wait=True, fullgraph=True, backend=backend)
    fast(torch.ones(4, 6))
    for size in ((2, 3), (33, 70), (300, 1001), (1, 0)):
        x = torch.randn(size, generator=torch.Generator().manual_seed(1))
        torch.manual_seed(7)
        expected, state = want(x), torch.get_rng_state()
        torch.manual_seed(7)
        torch.testing.assert_close(fast(x), expected, rtol=1e-5, atol=1e-6)
        assert torch.equal(torch.get_rng_state(), state)


def test_they_are_fused_and_even(kernels):
    fast = dynoc.optimize(lambda x: F.dropout(torch.relu(x), 0.25).bfloat16(), wait=True, fullgraph=True)
    x = torch.ones(1000, 1000)
    fast(x)
    kept = fast(x)
    assert fast.source().count("#pragma omp simd") == 1
    assert kept.unique().numel() == 2 and abs(kept.bool().float().mean() - 0.75) < 0.003
    draw = dynoc.optimize(lambda n: torch.randint(0, 10, (n,)), wait=True, fullgraph=True)
    draw(5)
    assert ((torch.bincount(draw(100_000)) - 10_000).abs() < 500).all()


def test_what_stays_eagers(kernels):
    def fn(x, g):
        return torch.rand(3, generator=g), torch.randint(0, 2**40, x.shape), torch.rand(2, dtype=torch.float16), F.dropout(x, 1.0)

    fast = dynoc.optimize(fn, wait=True)
    for n in (3, 3, 5):
        torch.manual_seed(4)
        want = fn(torch.ones(n), torch.Generator().manual_seed(5))
        torch.manual_seed(4)
        same(fast(torch.ones(n), torch.Generator().manual_seed(5)), want)


def test_for_one_function_and_not_where_bits_are_eagers():
    option = {"fallback_random": False}
    made = dynoc.optimize(lambda n: torch.rand(n), wait=True, options=option)
    exact = dynoc.optimize(lambda n: torch.rand(n), wait=True, exact=True, options=option)
    for fast in (made, exact):
        fast(3)
    torch.manual_seed(2)
    want = uniform((5,))
    torch.manual_seed(2)
    assert torch.equal(made(5), want)
    torch.manual_seed(2)
    want = torch.rand(5)
    torch.manual_seed(2)
    assert torch.equal(exact(5), want)


def test_the_reference_is_philox():
    """The first two words for counter and key 0, of the paper's own known answers."""
    assert _reference.philox(torch.tensor(0), torch.tensor(0)).item() == 0xE169C58D6627E8D5 & 2**63 - 1
    keys, places = torch.randint(-(2**63), 2**63 - 1, (2, 100))
    assert _reference.philox(keys.numpy(), places.numpy()).tolist() == _reference.philox(keys, places).tolist()


def test_parameters_filled_without_gradients():
    """What torch.nn.init does: the call writes into a parameter and gives nothing that the graph uses."""

    def fill(weight, low, high, generator=None):
        with torch.no_grad():
            return weight.uniform_(low, high, generator=generator)

    fast = dynoc.optimize(fill, wait=True)
    for rows in (3, 4, 5):
        made = []
        for fn in (fill, fast):
            torch.manual_seed(rows)
            parameter = torch.nn.Parameter(torch.empty(rows, 4))
            assert fn(parameter, -0.5, 0.5) is parameter
            made.append(parameter.detach())
        assert torch.equal(*made)
    assert sum(entry.hits for entry in fast.entries) > 0
