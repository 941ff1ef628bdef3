"""Training steps on a CUDA device: microseconds of dynoc beside eager and torch.compile, in one process.

    python bench/gpu_training.py [--compile] [--fused]

Needs PyTorch and a device. Each program is a model and a loss; its step is forward, backward and the optimiser's, eager but for
the model and `optimizer.step` (AdamW as it comes; with `--fused` in PyTorch's form of one kernel, which stays PyTorch's). Losses
of ten steps are compared with eager's. Host and device are waited for at both ends of a row of thirty steps; the median of seven
rows. The cell is examples/lltm's, forward and backward apart.
"""

import argparse
import copy
import sys
import time
from pathlib import Path

import torch

import dynoc

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "lltm"))
from cell import LLTM  # noqa: E402

F = torch.nn.functional
nn = torch.nn


def microseconds(f):
    times = []
    for _ in range(10):
        f()
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(30):
            f()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / 30 * 1e6)
    return sorted(times)[3]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = (a.view(n, length, self.heads, -1).transpose(1, 2) for a in self.qkv(self.first(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, length, width))
        h = self.up(self.second(x))
        return x + self.down(0.5 * h * (1 + torch.tanh(0.7978845608 * (h + 0.044715 * h**3))))


class Language(nn.Module):
    def __init__(self, words=1000, width=256, depth=4):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(128, width)
        self.blocks = nn.ModuleList(Block(width, 8) for _ in range(depth))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, x):
        h = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        return self.head(self.last(h))


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in ((3, 32), (32, 64), (64, 128)))
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (32, 64, 128))
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms):
            x = F.max_pool2d(F.silu(norm(layer(x))), 2)
        return self.head(x.mean((2, 3)))


class Rows(nn.Module):
    """Elementwise work and rows, written out."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(1024)), nn.Parameter(torch.zeros(1024))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        h = (x - mean) / torch.sqrt((x - mean).square().mean(-1, keepdim=True) + 1e-5) * self.weight + self.bias
        return torch.tanh(h) * torch.sigmoid(h * self.weight) + x


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in ((64, 256), (256, 256), (256, 64)))

    def forward(self, x):
        for layer in self.layers:
            x = F.elu(layer(x)) * 1.1 + 0.1
        return x


def programs():
    """Name, model, input, and the loss of its output."""
    words = torch.randint(0, 1000, (16, 128), device="cuda")
    yield (
        "language model, 16 x 128",
        Language(),
        words,
        lambda out: F.cross_entropy(out[:, :-1].flatten(0, 1), words[:, 1:].flatten()),
    )
    classes = torch.randint(0, 10, (64,), device="cuda")
    images = torch.randn(64, 3, 32, 32, device="cuda")
    yield "convolutional, 64", Convolutional(), images, lambda out: F.cross_entropy(out, classes)
    yield "rows written out, 65536 x 1024", Rows(), torch.randn(65536, 1024, device="cuda"), lambda out: out.square().mean()
    small = torch.randn(32, 64, device="cuda")
    yield "dense, 32 x 64", Dense(), small, lambda out: (out - small).square().mean()


def stepper(way, model, run, x, loss, fused):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=fused)
    plain = run is model or not isinstance(run, dynoc._dynoc.OptimizedFunction | torch.nn.Module)
    make = dynoc.optimize(optimizer.step) if way in ("dynoc", "replayed") else optimizer.step

    def step():
        optimizer.zero_grad()
        value = loss(run(x))
        value.backward()
        make()
        return value.detach()

    return step


def ways(model, beside):
    """Each way's name, model and what calls it."""
    yield "eager", *[copy.deepcopy(model)] * 2
    kept = copy.deepcopy(model)
    yield "dynoc", kept, dynoc.optimize(kept, wait=True)
    kept = copy.deepcopy(model)
    yield "replayed", kept, dynoc.optimize(kept, wait=True, mode="reduce-overhead")
    if beside:
        torch._dynamo.reset()
        kept = copy.deepcopy(model)
        yield "compile", kept, torch.compile(kept)


def cell(beside):
    model = LLTM(32, 128).cuda()
    x, h, c = (torch.randn(16, n, device="cuda", requires_grad=True) for n in (32, 128, 128))
    rows = {"LLTM forward": [], "LLTM backward": []}
    for _, _, run in ways(model, beside):
        made = [run(x, (h, c)) for _ in range(5)][-1]
        total = made[0].sum() + made[1].sum()
        rows["LLTM forward"].append(microseconds(lambda run=run: run(x, (h, c))))
        rows["LLTM backward"].append(microseconds(lambda total=total: total.backward(retain_graph=True)))
    return rows


def show(name, times):
    print(f"{name:32}" + "".join(f" {t:8.1f}" for t in times), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compile", action="store_true", help="torch.compile too")
    parser.add_argument("--fused", action="store_true", help="AdamW in PyTorch's form of one kernel")
    asked = parser.parse_args()
    beside, fused = asked.compile, asked.fused or None
    torch.manual_seed(0)
    print(torch.cuda.get_device_name(), torch.__version__)
    print(f"{'microseconds':32}    eager    dynoc replayed" + "  compile" * beside)
    for name, times in cell(beside).items():
        show(name, times)
    for name, model, x, loss in programs():
        steps = [stepper(*way, x, loss, fused) for way in ways(model.cuda(), beside)]
        losses = [[step().item() for _ in range(10)] for step in steps]
        off = max(abs(a - b) / abs(a) for other in losses[1:3] for a, b in zip(losses[0], other))
        show(name, [microseconds(step) for step in steps])
        print(f"    losses of ten steps: {off:.1e} from eager's")


if __name__ == "__main__":
    main()
