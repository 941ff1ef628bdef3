"""Whole training programs: losses, gradients, parameters, buffers and versions are eager's at each step."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from compare import dynoc  # noqa: E402
from training_programs import PROGRAMS  # noqa: E402

STEPS = 8
FEW_ENTRIES = {  # programs whose modules are one graph
    "mlp": 1, "convolutional": 1, "language": 1, "vae": 1, "unet": 1, "graph_network": 1, "dlrm": 1, "half_weights": 1,
    "changes_in_place": 1, "recurrent": 1, "contrastive": 2, "gan": 3,
}  # fmt: skip


@pytest.fixture(autouse=True)
def doubles():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, of schedulers and hooks
        yield
    torch.set_default_dtype(before)


def flat(value):
    if isinstance(value, tuple | list):
        return [x for item in value for x in flat(item)]
    return [value.detach().clone() if isinstance(value, torch.Tensor) else value]


def state(modules):
    for module in modules:
        for name, p in module.named_parameters():
            yield name, p.detach().clone()
            yield f"gradient of {name}", None if p.grad is None else p.grad.clone()
            yield f"version of {name}", p._version
        for name, b in module.named_buffers():
            yield name, b.clone()
            yield f"version of {name}", b._version


def trained(name, wrap):
    torch.manual_seed(0)
    step, modules = PROGRAMS[name](wrap, wrap)
    return [[(f"value {k}", v) for k, v in enumerate(flat(step(i)))] + list(state(modules)) for i in range(STEPS)]


def close(a, b):
    if isinstance(a, torch.Tensor):
        same = a.shape == b.shape and a.dtype == b.dtype and a.stride() == b.stride()
        return same and torch.allclose(a.double(), b.double(), rtol=1e-6, atol=1e-8, equal_nan=True)
    return a == pytest.approx(b, rel=1e-6, abs=1e-8) if isinstance(a, float) else a == b


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_trained_as_in_eager(name):
    made = []

    def optimised(function):
        made.append(dynoc.optimize(function, wait=True))
        return made[-1]

    expected, seen = trained(name, lambda f: f), trained(name, optimised)
    for i, (a, b) in enumerate(zip(expected, seen, strict=True)):
        for (what, x), (_, y) in zip(a, b, strict=True):
            assert close(x, y), (i, what, x, y)
    if name in FEW_ENTRIES:
        assert sum(len(f.entries) for f in made) == FEW_ENTRIES[name]
        assert sum(e.hits for f in made for e in f.entries) > STEPS // 2
