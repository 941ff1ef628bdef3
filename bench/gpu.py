"""Programs on a CUDA device: microseconds of dynoc beside eager and torch.compile, in one process.

    python bench/gpu.py [--compile]

Needs PyTorch and a device. Kernels are timed by events around thirty calls (the median of seven rows), calls whose work is small
by the host's clock, without waiting for the device (the least of seven rows of three hundred). Everything runs under no_grad.
"""

import argparse
import time

import torch

import dynoc

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
    large, square, other, row, middle, tiny = (
        torch.randn(*shape, device="cuda")
        for shape in [(10**8,), (8192, 8192), (8192, 8192), (8192,), (1000, 1000), (16,)]
    )
    yield "cos + sin, 1e8", lambda x: torch.cos(x) + torch.sin(x), (large,), on_device
    yield "gelu chain, 1e8", gelu, (large,), on_device
    yield "softmax, 8192 x 8192", softmax, (square,), on_device
    yield "layer norm, 8192 x 8192", layer_norm, (square, row, row), on_device
    yield "sum of squares, 1e8", lambda x: (x * x).sum(), (large,), on_device
    yield "sum of columns, 8192 x 8192", lambda x: (x * 2).sum(0), (square,), on_device
    yield "transposed add, 8192 x 8192", lambda x, y: x + y.t(), (square, other), on_device
    yield "x + x.t(), 8192 x 8192", lambda x: x + x.t(), (square,), on_device
    yield "add, 1000 x 1000", lambda x: x + x, (middle,), on_device
    yield "chain of 3, 16", lambda x: torch.sin(x) + torch.cos(x) * 2, (tiny,), on_host
    yield "copy, 1e8", lambda x: x.clone(), (large,), on_device


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


if __name__ == "__main__":
    main()
