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


SMALL = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 32, "vocab_size": 50}
HEADS = {"num_key_value_heads": 2}
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 50}
VIT = {k: v for k, v in SMALL.items() if k != "vocab_size"} | {"image_size": 16, "patch_size": 8}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "vocab_size": 50}
OPT = {k: v for k, v in SMALL.items() if k != "intermediate_size"} | {"ffn_dim": 32, "word_embed_proj_dim": 16}
STAGES = {"hidden_sizes": [4, 8, 8, 8], "depths": [1, 1, 1, 1]}
SWIN = {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [1, 2], "num_heads": [2, 2], "window_size": 2}
DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 4}
WAVES = {"conv_dim": [8, 8], "conv_stride": [4, 2], "conv_kernel": [8, 4], "num_feat_extract_layers": 2}
PLACES = {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2}
XLNET = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32, "vocab_size": 50}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "head_dim": 8}
GEMMA = {"head_dim": 8, "sliding_window": 4}
SHIPPED = [
    ("Bert", "Model", SMALL, False),
    ("Bert", "Model", SMALL, True),
    ("Bert", "ForMaskedLM", SMALL, True),
    ("GPT2", "Model", GPT2 | {"use_cache": False}, False),
    ("GPT2", "LMHeadModel", GPT2, True),
    ("Roberta", "Model", SMALL, False),
    ("DistilBert", "Model", DISTIL, False),
    ("Albert", "Model", SMALL | {"embedding_size": 8}, False),
    ("Electra", "Model", SMALL | {"embedding_size": 8}, False),
    ("OPT", "Model", OPT, False),
    ("ViT", "Model", VIT, False),
    ("Llama", "ForCausalLM", SMALL, False),
    ("Qwen2", "ForCausalLM", SMALL | HEADS, True),
    ("GPT2", "Model", GPT2, False),
    ("DebertaV2", "Model", SMALL | DEBERTA, True),
    ("LayoutLM", "Model", SMALL, True),
    ("XLNet", "Model", XLNET, False),
    ("GPTNeoX", "Model", SMALL, False),
    ("Gemma2", "Model", SMALL | HEADS | GEMMA, False),
    ("Qwen3Moe", "Model", SMALL | HEADS | EXPERTS, False),
    ("Wav2Vec2", "Model", SMALL | WAVES | PLACES, False),
    ("Swin", "Model", SWIN, False),
    ("Segformer", "Model", STAGES | {"num_attention_heads": [1, 2, 2, 2]}, False),
]
PICTURES = {"ViT", "Swin", "Segformer"}


def shipped(kind, head, config):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    return getattr(transformers, kind + head)(getattr(transformers, kind + "Config")(**config)).eval()


def inputs(kind, b, n, mask):
    if kind in PICTURES:
        size = 64 if kind == "Segformer" else 16
        return {"pixel_values": torch.randn(b, 3, size, size)}
    if kind == "Wav2Vec2":
        return {"input_values": torch.randn(b, 100 * n)}
    given = {"input_ids": torch.randint(3, 50, (b, n))}
    if mask:
        given["attention_mask"] = torch.ones(b, n, dtype=torch.long)
        given["attention_mask"][0, -1] = 0
    return given


def tensors(o):
    if isinstance(o, torch.Tensor):
        return [o]
    if hasattr(o, "layers"):  # a cache of keys and values
        return [t for layer in o.layers for t in (layer.keys, layer.values)]
    items = o.values() if isinstance(o, dict) else o if isinstance(o, (tuple, list)) else ()
    return [t for v in items for t in tensors(v)]


@pytest.mark.parametrize(("kind", "head", "config", "mask"), SHIPPED, ids=lambda v: v if isinstance(v, str) else "")
def test_a_model_of_transformers_is_one_graph(kind, head, config, mask):
    model = shipped(kind, head, config)
    fast = dynoc.optimize(model, wait=True, fullgraph=True)
    with torch.no_grad():
        for b, n in SIZES * 2:
            given = inputs(kind, b, n, mask)
            want, got = model(**given), fast(**given)
            assert type(got) is type(want) and list(got) == list(want)
            same(tensors(got), tensors(want))
    assert len(fast.entries) == 1 and fast.entries[0].hits == 2 * len(SIZES) - 1


def test_hidden_states_of_a_model_of_transformers():
    """Hooks that fill lists through a context variable."""
    model = shipped("Bert", "Model", SMALL)
    fast = dynoc.optimize(model, wait=True)
    with torch.no_grad():
        for b, n in SIZES * 2:
            given = inputs("Bert", b, n, False)
            got, want = fast(**given, output_hidden_states=True), model(**given, output_hidden_states=True)
            assert list(got) == list(want) and len(got.hidden_states) == 3
            same(tensors(got), tensors(want))


@pytest.mark.parametrize(("kind", "config"), [("GPT2", GPT2 | {"eos_token_id": 2}), ("Llama", SMALL)])
def test_generation(kind, config):
    """One entry reads the prompt, one adds a token to the caches, however long they are."""
    model = shipped(kind, "LMHeadModel" if kind == "GPT2" else "ForCausalLM", config)
    fast = dynoc.optimize(model, wait=True)
    how = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    for b, n in [*SIZES, SIZES[0]]:
        ids = torch.randint(3, 50, (b, n))
        same(fast.generate(ids, **how), model.generate(ids, **how))
    assert len(fast.entries) == 2 and sum(entry.hits for entry in fast.entries) >= 3 * 5
