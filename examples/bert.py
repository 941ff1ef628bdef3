"""BERT from transformers, as it ships, with random weights: one graph for every batch and length.

Needs PyTorch and transformers (nothing is downloaded). A small one unless told: python examples/bert.py --base
"""

import math
import sys
import time

import torch
from transformers import BertConfig, BertModel

import dynoc


def milliseconds(fn, **given):
    best = math.inf
    for _ in range(20):
        start = time.perf_counter()
        fn(**given)
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def inputs(batch, length):
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[0, length // 2 :] = 0  # the first text is shorter
    return {"input_ids": torch.randint(0, 1000, (batch, length)), "attention_mask": mask}


def main():
    torch.manual_seed(0)
    small = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 1000}
    model = BertModel(BertConfig(**({} if "--base" in sys.argv else small))).eval()
    fast = dynoc.optimize(model, wait=True, fullgraph=True)
    with torch.no_grad():
        for batch, length in ((2, 8), (3, 16), (4, 12)):
            given = inputs(batch, length)
            got, want = fast(**given), model(**given)
            torch.testing.assert_close(got.last_hidden_state, want.last_hidden_state)
            torch.testing.assert_close(got.pooler_output, want.pooler_output)
        given = inputs(2, 16)
        times = milliseconds(model, **given), milliseconds(fast, **given)
    entry = fast.entries[0]
    print(f"{len(fast.entries)} graph, {len(entry.guards)} guards, {entry.hits} hits; the same as without dynoc")
    print("BERT, 2 texts of 16: {:.2f} ms as it is, {:.2f} ms by dynoc".format(*times))


if __name__ == "__main__":
    main()
