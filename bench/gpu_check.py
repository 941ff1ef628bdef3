"""Programs on CUDA devices, compared with eager: random ones, default and replayed, on one device, on several, under DDP; steps
of PyTorch's optimisers, to the bit; complex numbers, with infinities and nans where eager has them.

    python bench/gpu_check.py [random] [several] [ddp] [steps] [complex] [--count N] [--first SEED]

Needs PyTorch and a device; `several` and `ddp` need two. Says what differs, and how much was run; the exit status is 1 where
something differs.
"""

import argparse
import itertools
import os
import sys
import threading

import torch
from random_steps import program

import dynoc
from dynoc import _optimizers

F = torch.nn.functional
MODES = (None, "reduce-overhead")


def at(x, first=0):
    """Positions along its rows."""
    return torch.arange(first, first + x.shape[0], device=x.device)


ELEMENTWISE = [
    lambda x, y: torch.sin(x) * y,
    lambda x, y: F.gelu(x) + y,
    lambda x, y: torch.where(x > 0, x, y * 0.1),
    lambda x, y: torch.exp(-(x * x)) - torch.tanh(y),
    lambda x, y: (x - y).abs().sqrt() + torch.sigmoid(y),
    lambda x, y: torch.minimum(x, y) * 2 - torch.maximum(x, y) / 3,
    lambda x, y: (x + 1j * y).abs() if x.dtype.is_floating_point else x + y,
]
REDUCING = [
    lambda x, y: x - x.mean(-1, keepdim=True) + y,
    lambda x, y: x.sum(0, keepdim=True) * 0.1 + y,
    lambda x, y: F.softmax(x, -1) + y,
    lambda x, y: F.layer_norm(x, x.shape[-1:]) * y,
    lambda x, y: (x - x.amax(-1, keepdim=True)).exp() * y,
    lambda x, y: x / (1 + (x * x).sum()) + y,
    lambda x, y: x.var(0, keepdim=True) + y,
    lambda x, y: x / (1 + x.abs().mean()) + y.std(),
    lambda x, y: x * F.mse_loss(x, y).sqrt().clamp(0, 3) + (x * y).mean().tanh(),
]
MOVING = [
    lambda x, y: (x - y).t(),
    lambda x, y: torch.cat([x[:5], y[5:]]),
    lambda x, y: x.flip(0) + y,
    lambda x, y: torch.roll(x, 3, 1) * y,
    lambda x, y: x[:, torch.arange(x.shape[1] - 1, -1, -1, device=x.device)] + y,
    lambda x, y: torch.tril(x) + torch.triu(y, 1),
]
PLACES = [
    lambda x, y: x[at(x) * 5 // 7] + y,
    lambda x, y: x[-1 - at(x)] * 0.5 + y[at(x, 1) // 3],
    lambda x, y: x.reshape(-1)[at(x)[:, None] * 3 - at(x)] + y,
    lambda x, y: torch.where(at(x)[:, None] >= at(x), x, y),
    lambda x, y: x + at(x) % 3 - y,
    lambda x, y: F.softmax(torch.where(at(x) <= at(x)[:, None], x, -5.0), -1) + y[at(x).flip(0)],
]
CALLS = [
    lambda x, y: (x @ y) / x.shape[0],
    lambda x, y: torch.cumsum(x, 0) / 10 + y,
    lambda x, y: F.linear(x, y) / x.shape[0],
    lambda x, y: torch.sort(x, -1)[0] + y,
]


KINDS = [ELEMENTWISE, ELEMENTWISE, REDUCING, MOVING, PLACES, CALLS]


def differs(got, want, tolerance):
    """By more than roundings, which grow from step to step; a comparison may turn where two numbers nearly agree."""
    for g, w in zip(got, want, strict=True):
        if (g.shape, g.dtype, g.stride()) != (w.shape, w.dtype, w.stride()):
            return f"{g.shape} {g.dtype} {g.stride()}, not {w.shape} {w.dtype} {w.stride()}"
        off = ~torch.isclose(g, w, rtol=tolerance, atol=tolerance, equal_nan=True)
        if off.double().mean() > 1e-3:
            return f"{off.sum().item()} of {off.numel()} elements, by {(g - w).abs().max().item()}"
    return None


def check_random(count, device="cuda:0", first=0, kinds=KINDS, dtypes=(torch.float32, torch.float64)):
    wrong = 0
    for seed in range(first, first + count):
        f = program(seed, kinds)
        dtype = dtypes[seed % 2]
        fast = dynoc.optimize(f, mode=MODES[seed // 2 % 2], wait=True)
        g = torch.Generator(device).manual_seed(seed)
        for turn in range(5):
            n = 33 if turn == 4 else 64
            x, y = (torch.randn(n, n, device=device, dtype=dtype, generator=g) for _ in range(2))
            with torch.no_grad():
                got, want = fast(x, y), f(x, y)
            why = differs(got, want, 2e-3 if dtype == dtypes[0] else 1e-7)
            if why is not None:
                wrong += 1
                print(f"seed {seed}, call {turn}, {device}: {why}", flush=True)
                break
        if seed % 16 == 15:
            dynoc.reset()
    print(f"{count} random programs on {device}, {wrong} wrong, {dict(dynoc.counters['cuda_graphs'])}", flush=True)
    return wrong


def rows(x, w):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True)) @ w, (x * x).sum(), x.sum(0) + 1


def check_several(count):
    """One function on each device's tensors, whichever device is current; then a thread for each."""
    wrong, n = 0, torch.cuda.device_count()
    for mode in MODES:
        fast = dynoc.optimize(rows, mode=mode, wait=True)
        for turn in range(6 * n):
            device, current = turn % n, turn // n % n
            with torch.no_grad(), torch.cuda.device(current):
                x, w = torch.randn(70, 300, device=f"cuda:{device}"), torch.randn(300, 4, device=f"cuda:{device}")
                got, want = fast(x, w), rows(x, w)
                wrong += differs(got, want, 1e-4) is not None or torch.cuda.current_device() != current
                wrong += any(t.device.index != device for t in got)
    found = []

    def work(i):
        with torch.cuda.device(i):
            found.append(check_random(count, f"cuda:{i}", first=10**6))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{n} devices, {wrong} wrong; a thread for each: {found} wrong", flush=True)
    return wrong + sum(found) + (len(found) != n)


def train(rank, n, port, out):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=n)
    losses = []
    for way in (lambda m: m, lambda m: dynoc.optimize(m, wait=True)):
        torch.manual_seed(0)
        layers = [torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 10)]
        model = DistributedDataParallel(torch.nn.Sequential(*layers).cuda(), device_ids=[rank])
        run, optimizer = way(model), torch.optim.AdamW(model.parameters(), lr=1e-3)
        g = torch.Generator("cuda").manual_seed(rank)
        for _ in range(20):
            x, y = torch.randn(32, 64, device="cuda", generator=g), torch.randint(10, (32,), device="cuda", generator=g)
            optimizer.zero_grad()
            loss = F.cross_entropy(run(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    out.put((rank, max(abs(a - b) for a, b in zip(losses[:20], losses[20:], strict=True))))
    dist.destroy_process_group()


def check_ddp(n=None):
    n = torch.cuda.device_count() if n is None else n
    context = torch.multiprocessing.get_context("spawn")
    out = context.Queue()
    processes = [context.Process(target=train, args=(i, n, 29511, out)) for i in range(n)]
    for p in processes:
        p.start()
    for p in processes:
        p.join()
    off = dict(out.get(timeout=10) for _ in processes)
    print(f"DDP over NCCL, {n} devices: losses of 20 steps differ from eager's by {off}", flush=True)
    return max(off.values()) > 1e-5


DECAY = {"weight_decay": [0, 0.1], "maximize": [False, True]}
STEPS = {
    "SGD": {"momentum": [0, 0.9], "nesterov": [False, True], "dampening": [0, 0.3], **DECAY},
    "Adam": {"amsgrad": [False, True], "betas": [(0.9, 0.999), (0.3, 0.6), (0.5, 0.0)], **DECAY},
    "AdamW": {"amsgrad": [False, True], **DECAY},
    "Adagrad": {"lr_decay": [0, 0.1], "initial_accumulator_value": [0, 0.5], **DECAY},
    "RMSprop": {"momentum": [0, 0.9], "centered": [False, True], "alpha": [0.99, 0.3], **DECAY},
}
SHAPES = [(1000,), (37, 5), (), (3, 4, 5), (40, 70), (0, 3), (300, 500), *[(9,)] * 80]


def steps_of(kind, options, dtype, wrap):
    """Parameters, versions and state behind each of five steps."""
    g = torch.Generator("cuda").manual_seed(0)
    draw = lambda shape: torch.randn(shape, device="cuda", dtype=torch.float64, generator=g).to(dtype)  # noqa: E731
    parameters = [torch.nn.Parameter(draw(shape)) for shape in SHAPES]
    parameters.append(torch.nn.Parameter(draw((6, 8, 5, 5)).to(memory_format=torch.channels_last)))
    parameters.append(torch.nn.Parameter(draw((1001,))[1:]))  # not aligned
    optimizer = getattr(torch.optim, kind)(parameters, lr=0.01, **options)
    step, seen = wrap(optimizer.step), []
    for i in range(5):
        for p in parameters:
            p.grad = (draw(p.shape) * 10.0 ** (i - 2)).to(memory_format=torch.preserve_format)
            if p.ndim == 4:
                p.grad = p.grad.to(memory_format=torch.channels_last)
        step()
        named = [("parameter", p) for p in parameters] + [x for p in parameters for x in optimizer.state.get(p, {}).items()]
        seen += [(name, t.detach().cpu().clone(), t._version) for name, t in named if torch.is_tensor(t)]
    return seen


def check_steps():
    wrong = cases = 0
    make, made = _optimizers.make, []
    _optimizers.make = lambda optimizer: made.append(make(optimizer)) or made[-1]
    for kind, choices in STEPS.items():
        for values in itertools.product(*choices.values()):
            options = dict(zip(choices, values, strict=True))
            if options.get("nesterov") and (not options["momentum"] or options["dampening"]):
                continue
            for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
                want, got = (steps_of(kind, options, dtype, wrap) for wrap in (lambda f: f, dynoc.optimize))
                off = set()
                for (name, p, v), (_, q, w) in zip(want, got, strict=True):
                    off |= {name} if not torch.equal(p.nan_to_num(7), q.nan_to_num(7)) else set()
                    off |= {f"version of {name}"} if v != w else set()
                cases += 1
                wrong += bool(off)
                if off:
                    print(f"{kind} {options} {dtype}: {off}", flush=True)
    print(f"{cases} optimisers, five steps each, {wrong} wrong; {sum(made)} of {len(made)} steps were dynoc's", flush=True)
    return wrong


def half(x):
    """Every second column, of the same sizes again."""
    return torch.cat([x[:, ::2], x[:, 1::2]], 1)


def written(x, y):
    """Parts changed in place."""
    x = x * 1
    x.imag[1:] = y.real[1:]
    x[:, 0] = 1 - 1j
    return x.mul_(0.5).add_(y).sub_(1j)


COMPLEX_ELEMENTWISE = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / (y + 2),
    lambda x, y: x / 3 + y / (1 + 2j),
    lambda x, y: 2 / (x + 3) - 1j / (y + 3),
    lambda x, y: (x + 2).reciprocal() * y,
    lambda x, y: x * (1 - 1j) + 2 - y * 3,
    lambda x, y: -x + y.conj_physical(),
    lambda x, y: x.abs() + 1j * y.real,
    lambda x, y: x.real * y + x.imag * 1j,
    lambda x, y: torch.exp(x * 0.1j) * y,
    lambda x, y: torch.sin(x * 0.3) - torch.cos(y * 0.3),
    lambda x, y: torch.tanh(x) + torch.sinh(y * 0.1) - torch.cosh(y * 0.1),
    lambda x, y: torch.sqrt(x) + torch.log(y + 5),
    lambda x, y: torch.tan(x * 0.2) + torch.log10(y + 7) - torch.log2(x + 9),
    lambda x, y: torch.sgn(x) + torch.square(y) * 0.1,
    lambda x, y: torch.where(x.real > 0, x, y * 0.5),
    lambda x, y: torch.where(x == y, x, y) + (x != y),
    lambda x, y: x * y.real + torch.arange(x.shape[1], device=x.device) * 0.01,
    lambda x, y: x.to(torch.complex128).mul(1j).to(x.dtype) + y,
    lambda x, y: torch.angle(x) + y,
    written,
]
COMPLEX_REDUCING = [
    lambda x, y: x - x.sum(1, keepdim=True) * 0.1 + y,
    lambda x, y: x.sum(0, keepdim=True) * 0.1 + y,
    lambda x, y: x * 0.5 + (x * y).sum() * 0.01,
    lambda x, y: x - x.mean(-1, keepdim=True) + y.mean(),
    lambda x, y: x / (1 + x.abs().sum(1, keepdim=True)) + y,
]
COMPLEX_MOVING = [
    lambda x, y: (x - y).t(),
    lambda x, y: x.t() * 0.5 + y,
    lambda x, y: x[:, 0:1] * 0.5 + y,
    lambda x, y: half(x) + y,
    lambda x, y: x.flip(0) + y.conj(),
    lambda x, y: x[at(x) * 5 // 7] + y,
    lambda x, y: torch.view_as_complex(torch.view_as_real(x) * 2) - y,
    lambda x, y: (x.conj() * y).conj() * 0.5,
    lambda x, y: x.conj().imag * 0.5 + y,
    lambda x, y: torch.fft.fft(x) / x.shape[0] + y,
]
COMPLEX_KINDS = [COMPLEX_ELEMENTWISE, COMPLEX_ELEMENTWISE, COMPLEX_REDUCING, COMPLEX_MOVING]
COMPLEX_ONE = [
    "reciprocal", "sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sgn", "square", "abs",
    "neg", "conj_physical", "angle", "isnan", "isinf", "isfinite",
]  # fmt: skip
COMPLEX_TWO = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "equal": lambda x, y: x == y,
    "add a number": lambda x, y: x + 2 - (y - 1j),
    "from a number": lambda x, y: (2 - x) - (1j - y),
    "multiply by a number": lambda x, y: x * 2 + y * (1 - 1j),
    "divide by a number": lambda x, y: (x / 2, x / (1 + 1j), y / 0.0, y / 3j),
    "divide a number": lambda x, y: (2 / x, 1j / y, (1 + 1j) / x),
    "reals": lambda x, y: (x.real * y, x / y.imag, x.real / y, x + y.real),
    "sums": lambda x, y: (x.sum(1), y.sum(0), x[:3, :3].sum()),
    "means": lambda x, y: (x.mean(1), y.mean(0), x[:3, :3].mean()),
    "choices": lambda x, y: torch.where(x.real > 0, x, y),
}


def pattern(x):
    """Where infinities, of which sign, and nans are; of a number that is as large as its format ends, nothing."""
    x = torch.view_as_real(x) if x.is_complex() else x.double() if x.dtype == torch.bool else x
    return torch.where(x.isnan(), 3, torch.where(x.isinf(), x.sign(), 0)), x


def special_differs(got, want):
    got, want = ((x,) if torch.is_tensor(x) else x for x in (got, want))
    for g, w in zip(got, want, strict=True):
        (shape, x), (other, y) = pattern(g), pattern(w)
        off = (shape != other) | ~torch.isclose(x, y, rtol=1e-4, atol=1e-4, equal_nan=True)
        if (g.dtype, g.shape) != (w.dtype, w.shape) or off.any():
            first = off.nonzero()[0].tolist()[:1] if off.any() else None
            return f"{off.sum().item()} of {off.numel()}, {g[first[0]] if first else g} not {w[first[0]] if first else w}"
    return None


def check_specials():
    """Each operator of all pairs of special parts."""
    wrong = 0
    for dtype, large, steep in ((torch.float32, 3e38, 89.5), (torch.float64, 1.5e308, 710.5)):
        inf = float("inf")
        parts = [0.0, -0.0, 1.0, -2.5, 1e-30, large, -large, steep, inf, -inf, inf - inf]
        parts = torch.tensor(parts, dtype=dtype, device="cuda")
        c = torch.complex(*(x.reshape(-1) for x in torch.meshgrid(parts, parts, indexing="ij")))
        n = len(c)
        x, y = c[:, None].expand(n, n).contiguous(), c.expand(n, n).contiguous()
        tests = {name: (lambda x, y, name=name: getattr(torch, name)(x[:, 0] * 1)) for name in COMPLEX_ONE} | COMPLEX_TWO
        for name, f in tests.items():
            fast = dynoc.optimize(f, wait=True)
            with torch.no_grad():
                for _ in range(3):
                    got = fast(x, y)
                why = special_differs(got, f(x, y))
            wrong += why is not None
            if why is not None:
                print(f"{name} of {c.dtype}: {why}", flush=True)
    print(f"{2 * len(tests)} operators of special values, {wrong} wrong", flush=True)
    return wrong


def check_complex_gradients(count, first):
    """What of elementwise steps the gradients of both operands are."""
    wrong = made = 0
    for seed in range(first, first + count):
        f = program(seed, [COMPLEX_ELEMENTWISE[:16], COMPLEX_REDUCING])
        dtype = (torch.complex64, torch.complex128)[seed % 2]
        fast = dynoc.optimize(lambda x, y, f=f: f(x, y)[0].abs().mean(), wait=True)
        g = torch.Generator("cuda").manual_seed(seed)
        leaves = [torch.randn(24, 24, device="cuda", dtype=dtype, generator=g).requires_grad_() for _ in range(2)]
        want = torch.autograd.grad(f(*leaves)[0].abs().mean(), leaves, allow_unused=True)
        for _ in range(3):
            got = torch.autograd.grad(fast(*leaves), leaves, allow_unused=True)
        made += any(entry.kernels for entry in fast.entries)
        pairs = [(a, b) for a, b in zip(got, want, strict=True) if a is not None and b is not None]
        why = differs(*zip(*pairs, strict=True), 2e-3 if dtype == torch.complex64 else 1e-7) if pairs else None
        if why is not None or any((a is None) != (b is None) for a, b in zip(got, want, strict=True)):
            wrong += 1
            print(f"gradients of seed {seed}: {why}", flush=True)
        if seed % 16 == 15:
            dynoc.reset()
    print(f"gradients of {count} complex programs, {made} with kernels, {wrong} wrong", flush=True)
    return wrong


def check_complex(count, first):
    wrong = check_specials()
    wrong += check_random(count, first=first, kinds=COMPLEX_KINDS, dtypes=(torch.complex64, torch.complex128))
    return wrong + check_complex_gradients(count // 2, first)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    choices = ["random", "several", "ddp", "steps", "complex"]
    parser.add_argument("what", nargs="*", choices=choices, help="random if none is given")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed, so that several processes share the work")
    asked = parser.parse_args()
    asked.what = asked.what or ["random"]
    print(torch.cuda.device_count(), torch.cuda.get_device_name(), torch.__version__)
    wrong = check_random(asked.count, first=asked.first) if "random" in asked.what else 0
    wrong += check_several(asked.count // 4) if "several" in asked.what else 0
    wrong += check_ddp() if "ddp" in asked.what else 0
    wrong += check_complex(asked.count, asked.first) if "complex" in asked.what else 0
    if "steps" in asked.what:
        dynoc.config.wait = True
        wrong += check_steps()
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
