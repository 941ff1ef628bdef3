"""PyTorch on the CPU: dynoc beside eager and torch.compile: first call, and time of a steady call.

    python bench/torch_table.py [--quick] [--only WORDS …] [--threads N] [--write bench/torch.md]

Each case of each peer is a process of its own, one after the other. Times are the least of many calls; a row is a ratio in one
run. torch.compile needs a C++ compiler. Called by hand; nothing reads its output.
"""

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

PEERS = ("eager", "compile", "cpp_wrapper", "dynoc")


def cases():
    """Name → (make, inputs): what is called, without gradients, and with what."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Lltm(nn.Module):
        def __init__(self, features, state):
            super().__init__()
            self.weights = nn.Parameter(torch.randn(3 * state, features + state) / math.sqrt(state))
            self.bias = nn.Parameter(torch.randn(3 * state) / math.sqrt(state))

        def forward(self, x, old_h, old_cell):
            gates = F.linear(torch.cat([old_h, x], dim=1), self.weights, self.bias).chunk(3, dim=1)
            new_cell = old_cell + F.elu(gates[2]) * torch.sigmoid(gates[0])
            return torch.tanh(new_cell) * torch.sigmoid(gates[1]), new_cell

    def mlp(*widths):
        layers = []
        for a, b in zip(widths, widths[1:], strict=False):
            layers += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*layers)

    def bert(batch):
        from transformers import BertConfig, BertModel

        torch.manual_seed(0)
        model = BertModel(BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)).eval()
        return model, [torch.randint(0, 30000, (batch, 64))]

    def gpt2(batch):
        from transformers import GPT2Config, GPT2Model

        torch.manual_seed(0)
        model = GPT2Model(GPT2Config(n_embd=256, n_layer=4, n_head=4, use_cache=False)).eval()
        return model, [torch.randint(0, 30000, (batch, 64))]

    class Block(nn.Module):
        def __init__(self, a, b, stride):
            super().__init__()
            self.c1, self.n1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
            self.c2, self.n2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
            straight = stride == 1 and a == b
            self.way = nn.Identity() if straight else nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))

        def forward(self, x):
            y = F.relu(self.n1(self.c1(x)))
            return F.relu(self.n2(self.c2(y)) + self.way(x))

    def resnet18():
        blocks = [Block(64, 64, 1), Block(64, 64, 1)]
        for a, b in ((64, 128), (128, 256), (256, 512)):
            blocks += [Block(a, b, 2), Block(b, b, 1)]
        stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).eval()

    def gelu(x):
        return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))

    found = {}
    for n in (10, 100, 1000, 100_000, 1_000_000):
        found[f"cos + sin, {n}"] = lambda n=n: (lambda x: torch.cos(x) + torch.sin(x), [torch.randn(n)])
        found[f"gelu by tanh, {n}"] = lambda n=n: (gelu, [torch.randn(n)])
    for n in (8, 64, 256, 512, 1024):
        found[f"softmax, {n} x {n}"] = lambda n=n: (lambda x: torch.softmax(x, -1), [torch.randn(n, n)])
        norm = lambda x: F.layer_norm(x, x.shape[-1:])  # noqa: E731
        found[f"layer norm, {n} x {n}"] = lambda n=n: (norm, [torch.randn(n, n)])
        entropy = lambda x, y: F.cross_entropy(x, y)  # noqa: E731
        found[f"cross entropy, {n} x {n}"] = lambda n=n: (entropy, [torch.randn(n, n), torch.randint(0, n, (n,))])
    layers = nn.Sequential(*[nn.Linear(4, 4) for _ in range(100)])
    found["100 linear layers of 4, batch 1"] = lambda: (layers, [torch.randn(1, 4)])
    found["LLTM, 16 x 32 x 128"] = lambda: (Lltm(32, 128), [torch.randn(16, 32), torch.randn(16, 128), torch.randn(16, 128)])
    for batch in (1, 16):
        found[f"MLP 256, batch {batch}"] = lambda b=batch: (mlp(256, 256, 256, 256), [torch.randn(b, 256)])
        found[f"BERT, 4 layers of 256, {batch} x 64"] = lambda b=batch: bert(b)
        found[f"GPT-2, 4 layers of 256, {batch} x 64"] = lambda b=batch: gpt2(b)
    found["resnet18, batch 1"] = lambda: (resnet18(), [torch.randn(1, 3, 224, 224)])
    return found


def prepared(peer, fn):
    import torch

    if peer == "compile":
        return torch.compile(fn, dynamic=None)
    if peer == "cpp_wrapper":
        return torch.compile(fn, options={"cpp_wrapper": True})
    if peer == "dynoc":
        import dynoc

        dynoc.config.threads = torch.get_num_threads()
        return dynoc.optimize(fn, wait=True)
    return fn


def least(fn, inputs, seconds):
    """Seconds of the fastest call in that time, of at least seven."""
    best, until, n = math.inf, time.perf_counter() + seconds, 0
    while n < 7 or time.perf_counter() < until:
        start = time.perf_counter()
        fn(*inputs)
        best, n = min(best, time.perf_counter() - start), n + 1
    return best


def tensors(value):
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else []
    return [t for item in values for t in tensors(item)]


def work(name, peer, seconds, threads):
    """One case by one peer: a line of JSON."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    fn, inputs = cases()[name]()
    with torch.no_grad():
        want = tensors(fn(*inputs))
        fast = prepared(peer, fn)
        start = time.perf_counter()
        got = tensors(fast(*inputs))
        first = time.perf_counter() - start
        fast(*inputs)
        same = len(got) == len(want) and all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(got, want, strict=True))
        print(json.dumps({"first": first, "steady": least(fast, inputs, seconds), "same": same}))


def measure(name, peer, seconds, threads):
    """The same in a process of its own; None where it fails."""
    command = [sys.executable, __file__, "--worker", name, peer, "--seconds", str(seconds), "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"{name}, {peer}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def row_of(name, found):
    def shown(peer):
        one = found.get(peer)
        return "–" if one is None else f"{one['steady'] * 1e6:.1f}" + ("" if one["same"] else " (differs)")

    def ratio(peer):
        both = found.get(peer) and found.get("dynoc")
        return f"{found[peer]['steady'] / found['dynoc']['steady']:.2f}" if both else "–"

    first = [f"{found[p]['first']:.2f}" if found.get(p) else "–" for p in ("compile", "dynoc")]
    return f"| {name} | {' | '.join(shown(p) for p in PEERS)} | {ratio('eager')} | {ratio('compile')} | {' / '.join(first)} |"


def mean_ratio(results, peer):
    ratios = [f[peer]["steady"] / f["dynoc"]["steady"] for f in results.values() if f.get(peer) and f.get("dynoc")]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", nargs=2)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--peers", nargs="*", default=PEERS)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    if options.worker:
        return work(*options.worker, options.seconds, options.threads)
    results = {}
    lines = ["| work | " + " | ".join(f"{p}, µs" for p in PEERS) + " | eager / dynoc | compile / dynoc | first call, s |"]
    lines.append("|---|" + "---|" * (len(PEERS) + 3))
    print("\n".join(lines))
    for name in cases():
        if options.only and not any(word in name for word in options.only):
            continue
        results[name] = {p: measure(name, p, options.seconds, options.threads) for p in options.peers}
        lines.append(row_of(name, results[name]))
        print(lines[-1], flush=True)
    means = [f"{peer} / dynoc {mean_ratio(results, peer):.2f}" for peer in PEERS[:-1]]
    end = f"Geometric means: {', '.join(means)}."
    print(end)
    if options.write:
        machine = f"{platform.machine()}, {options.threads} threads, CPython {platform.python_version()}"
        how = f"`python bench/torch_table.py`, {machine}; least of the calls of {options.seconds} s."
        head = ["# PyTorch on the CPU", "", how]
        options.write.write_text("\n".join([*head, "", *lines, "", end, ""]))
    return None


if __name__ == "__main__":
    main()
