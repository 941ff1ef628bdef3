"""Whole models: one graph, one entry for every batch size and length, equal to eager."""

import pytest
from torch_cases import same, torch
from torch_models import MODELS

import dynoc

SIZES = [(2, 5), (3, 7), (4, 9)]


@pytest.mark.parametrize("name", MODELS)
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


SMALL = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "vocab_size": 50}


@pytest.mark.parametrize(("kind", "more"), [("Bert", {"intermediate_size": 32}), ("GPT2", {"use_cache": False})])
def test_models_of_transformers_give_what_eager_gives(kind, more):
    """Several graphs: what breaks is in docs/STATUS.md."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, kind + "Config")(**SMALL, **more)
    model = getattr(transformers, kind + "Model")(config).eval()
    fast = dynoc.optimize(model)
    with torch.no_grad():
        for b, n in [(2, 5), (2, 5), (3, 7)]:
            tokens = torch.randint(0, 50, (b, n))
            same(fast(tokens)[0], model(tokens)[0])
