"""Programs on a CUDA device: microseconds of dynoc beside eager and torch.compile, in one process.

    python bench/gpu.py [--compile]

Needs PyTorch and a device. Kernels are timed by events around thirty calls (the median of seven rows), calls whose work is small
by the host's clock, without waiting for the device (the least of seven rows of three hundred). Everything runs under no_grad.
"""

import argparse
import sys
import time
from pathlib import Path

import torch
from torch import nn

import dynoc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
from resnet18 import resnet18  # noqa: E402

F = torch.nn.functional


def on_device(f, args):
    """Microseconds of a call, as the device needs them."""
    times = []
    for _ in range(5):
        f(*args)
    for _ in range(7):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(30):
            f(*args)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 30 * 1e3)
    return sorted(times)[3]


def on_host(f, args):
    """Microseconds of a call until it is back, while the device works on."""
    best = float("inf")
    for _ in range(20):
        f(*args)
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(300):
            f(*args)
        best = min(best, (time.perf_counter() - start) / 300 * 1e6)
    torch.cuda.synchronize()
    return best


def softmax(x):
    """Written out."""
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def layer_norm(x, w, b):
    """Written out."""
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + 1e-5) * w + b


def gelu(x):
    """Its approximation by tanh, written out."""
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def programs():
    """Name, function, arguments, and the clock that times it."""
    large, square, other, row, middle, tiny, odd, short = (
        torch.randn(*shape, device="cuda")
        for shape in [(10**8,), (8192, 8192), (8192, 8192), (8192,), (1000, 1000), (16,), (3162, 3162), (100003, 33)]
    )
    yield "cos + sin, 1e8", lambda x: torch.cos(x) + torch.sin(x), (large,), on_device
    yield "gelu chain, 1e8", gelu, (large,), on_device
    yield "softmax, 8192 x 8192", softmax, (square,), on_device
    yield "layer norm, 8192 x 8192", layer_norm, (square, row, row), on_device
    yield "softmax, 3162 x 3162", softmax, (odd,), on_device
    yield "softmax, 100003 x 33", softmax, (short,), on_device
    yield "sum of squares, 1e8", lambda x: (x * x).sum(), (large,), on_device
    yield "sum of columns, 8192 x 8192", lambda x: (x * 2).sum(0), (square,), on_device
    yield "transposed add, 8192 x 8192", lambda x, y: x + y.t(), (square, other), on_device
    yield "x + x.t(), 8192 x 8192", lambda x: x + x.t(), (square,), on_device
    yield "x + x.t(), 3162 x 3162", lambda x: x + x.t(), (odd,), on_device
    yield "add, 1000 x 1000", lambda x: x + x, (middle,), on_device
    yield "chain of 3, 16", lambda x: torch.sin(x) + torch.cos(x) * 2, (tiny,), on_host
    yield "copy, 1e8", lambda x: x.clone(), (large,), on_device


class Layer(nn.Module):
    """Of BERT."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x):
        y = F.scaled_dot_product_attention(self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x)))
        x = self.norm1(x + self.out(y.transpose(1, 2).reshape(x.shape)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """BERT-base without its tokenizer: 12 layers of 768 in 12 heads."""

    def __init__(self, words=30522, width=768, layers=12, heads=12):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(words, width), nn.Embedding(512, width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.pool = nn.Linear(width, width)

    def forward(self, ids):
        x = self.norm(self.words(ids) + self.places.weight[: ids.shape[1]])
        for layer in self.layers:
            x = layer(x)
        return x, torch.tanh(self.pool(x[:, 0]))


def models():
    """Name, model and an argument: calls whose many small parts are more the host's work than the device's."""
    resnet, bert = resnet18().cuda().eval(), Bert().cuda().eval()
    for batch in (1, 16):
        yield f"resnet18, batch {batch}", resnet, torch.randn(batch, 3, 224, 224, device="cuda")
    for batch, length in ((1, 16), (8, 128)):
        yield f"BERT-base, {batch} x {length}", bert, torch.randint(0, 30522, (batch, length), device="cuda")
    yield "chain of 40, 1000", chain_of_40, torch.randn(1000, device="cuda")


def chain_of_40(x):
    """Sums of all elements between, so that no two steps are one kernel."""
    for i in range(20):
        x = torch.sin(x) + x.sum() * i
    return x


def show_models(beside):
    """Microseconds of a call, one after another: with each of them the way it is called by default, and replayed."""
    print(f"\n{'microseconds':28} {'eager':>8} {'dynoc':>8} {'replayed':>8}" + " compile  graphs" * beside)
    for name, model, x in models():
        ways = [model, dynoc.optimize(model, wait=True), dynoc.optimize(model, wait=True, mode="reduce-overhead")]
        if beside:
            torch._dynamo.reset()
            ways += [torch.compile(model), torch.compile(model, mode="reduce-overhead")]
        times = [on_device(way, (x,)) for way in ways]
        want, got = ([r.double() for r in (ways[i](x) if isinstance(ways[i](x), tuple) else (ways[i](x),))] for i in (0, 2))
        off = max(((a - b).abs().max() / a.abs().max()).item() for a, b in zip(want, got, strict=True))
        print(f"{name:28}" + "".join(f" {t:8.1f}" for t in times) + f"  {off:.0e} from eager", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compile", action="store_true", help="torch.compile too")
    beside = parser.parse_args().compile
    print(torch.cuda.get_device_name(), torch.__version__)
    print(f"{'microseconds':28} {'eager':>8} {'dynoc':>8} {'compile' if beside else '':>8}  until loaded")
    with torch.no_grad():
        for name, f, args, clock in programs():
            fast = dynoc.optimize(f, wait=True)
            start = time.perf_counter()
            fast(*args), fast(*args)
            loaded = time.perf_counter() - start
            line = f"{name:28} {clock(f, args):8.1f} {clock(fast, args):8.1f}"
            if beside:
                torch._dynamo.reset()
                line += f" {clock(torch.compile(f), args):8.1f}"
            print(f"{line}  {loaded * 1e3:.0f} ms", flush=True)
        show_models(beside)
    print({group: dict(dynoc.counters[group]) for group in ("cuda_graphs", "graph_breaks")})


if __name__ == "__main__":
    main()
