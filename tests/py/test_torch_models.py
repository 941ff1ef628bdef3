"""Whole models: one graph, one entry for every batch size and length, equal to eager."""

import pytest
from torch_cases import same, torch
from torch_models import MODELS

import dynoc

CAPTURED = ["dlrm", "gru", "lltm", "lstm", "mlp", "resnet18", "resnext", "unet", "vae", "vit"]
SIZES = [(2, 5), (3, 7), (4, 9)]


@pytest.mark.parametrize("name", CAPTURED)
def test_a_model_is_one_graph(name):
    make, args = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    fast = dynoc.optimize(model, wait=True, fullgraph=True)
    with torch.no_grad():
        for b, n in SIZES * 2:
            given = args(b, n)
            torch.manual_seed(1)
            want = model(*given)
            torch.manual_seed(1)
            same(fast(*given), want)
    assert len(fast.entries) == 1 and fast.entries[0].hits == 2 * len(SIZES) - 1 and fast.entries[0].tier == "native"


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(CAPTURED)))
def test_a_model_that_breaks_gives_what_eager_gives(name):
    make, args = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    fast = dynoc.optimize(model)
    with torch.no_grad():
        for given in [args(2, 5)] * 2 + [args(3, 7)]:
            same(fast(*given), model(*given))
