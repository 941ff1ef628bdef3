"""Programs for a CUDA device of the kinds that users write: microseconds of dynoc beside eager and torch.compile, in one process.

    python bench/gpu_programs.py [--compile] [NAME ...]

Needs PyTorch and a device. Each is called under no_grad; the least of three rows of thirty calls, by the device's events. Results
are compared with eager's, dtypes and strides too.
"""

import argparse
import math

import torch

import dynoc

F = torch.nn.functional
PROGRAMS = {}


def program(inputs):
    """The function below is called with what inputs() gives."""

    def add(f):
        PROGRAMS[f.__name__] = (f, inputs)
        return f

    return add


def rand(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda").to(dtype)


def positive(*shape):
    return rand(*shape).abs() + 0.1


def below(n, *shape, dtype=torch.int64):
    return torch.randint(n, shape, device="cuda", dtype=dtype)


def halves(*shape):
    return rand(*shape, dtype=torch.bfloat16)


@program(lambda: (halves(4096, 4096), halves(4096)))
def rmsnorm(x, w):
    v = x.float().pow(2).mean(-1, keepdim=True)
    return (x.float() * torch.rsqrt(v + 1e-6)).to(x.dtype) * w


@program(lambda: (halves(8, 32, 1024, 128), halves(1024, 128), halves(1024, 128)))
def rotary(q, c, s):
    a, b = q[..., :64], q[..., 64:]
    return q * c + torch.cat((-b, a), -1) * s


@program(lambda: (halves(4096, 8192),))
def swiglu(x):
    a, b = x.chunk(2, -1)
    return F.silu(a) * b


@program(lambda: (rand(4096, 32000), below(32000, 4096)))
def xent(x, t):
    m = x.max(-1, keepdim=True).values
    l = (x - m).exp().sum(-1).log() + m[:, 0]
    return (l - x.gather(1, t[:, None])[:, 0]).mean()


@program(lambda: (rand(4096, 32000), below(32000, 4096)))
def xent_F(x, t):
    return F.cross_entropy(x, t)


@program(lambda: (rand(16, 12, 512, 512), torch.rand(16, 1, 1, 512, device="cuda") > 0.1))
def masked_softmax(x, m):
    return torch.softmax(torch.where(m, x * 0.125, float("-inf")), -1)


@program(lambda: (rand(8192, 8192),))
def cumsum_last(x):
    return (x * 2 + 1).cumsum(-1)


@program(lambda: (rand(8192, 8192),))
def cumsum_first(x):
    return (x * 2 + 1).cumsum(0)


@program(lambda: (rand(100000, 64), below(100000, 1000000), below(100000, 1000000), rand(1000000, 1)))
def messages(x, src, dst, w):
    return torch.zeros_like(x).index_add_(0, dst, x[src] * w)


@program(lambda: (below(50000, 32, 512), rand(50000, 768), rand(512, 768), rand(768), rand(768)))
def embed_ln(t, e, p, w, b):
    h = e[t] + p
    m = h.mean(-1, keepdim=True)
    v = ((h - m) ** 2).mean(-1, keepdim=True)
    return (h - m) * torch.rsqrt(v + 1e-5) * w + b


@program(lambda: (rand(32, 256, 56, 56), rand(256), rand(256)))
def group_norm(x, w, b):
    n = x.view(32, 32, -1)
    m = n.mean(-1, keepdim=True)
    v = n.var(-1, unbiased=False, keepdim=True)
    return ((n - m) / (v + 1e-5).sqrt()).view_as(x) * w[:, None, None] + b[:, None, None]


@program(lambda: (rand(64, 256, 56, 56), rand(256), rand(256).abs(), rand(256), rand(256)))
def bn_relu(x, m, v, w, b):
    q = lambda t: t[None, :, None, None]
    return torch.relu((x - q(m)) / torch.sqrt(q(v) + 1e-5) * q(w) + q(b))


@program(lambda: (rand(2048, 64), rand(2048, 64)))
def pairwise(x, y):
    return ((x[:, None] - y[None]) ** 2).sum(-1).sqrt()


@program(lambda: (rand(64, 256, 56, 56),))
def bn_stats(x):
    return x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)


@program(lambda: (rand(8192, 8192),))
def argmax_rows(x):
    return x.argmax(-1), x.amax(-1)


@program(lambda: (below(1000, 65536),))
def one_hot(t):
    return (t[:, None] == torch.arange(1000, device="cuda")).float() * 0.9 + 0.0001


@program(lambda: (rand(1000, 1000), rand(1000, 1000)))
def mandel(x, y):
    zr, zi, n = x * 0, y * 0, torch.zeros_like(x)
    for _ in range(30):
        zr, zi = zr * zr - zi * zi + x, 2 * zr * zi + y
        n = n + (zr * zr + zi * zi < 4)
    return n


@program(lambda: (rand(10_000_000), rand(10_000_000)))
def rk4(x, v):
    h = 0.01
    a = lambda x, v: -x - 0.1 * v * v * v
    k1x, k1v = v, a(x, v)
    k2x, k2v = v + h / 2 * k1v, a(x + h / 2 * k1x, v + h / 2 * k1v)
    k3x, k3v = v + h / 2 * k2v, a(x + h / 2 * k2x, v + h / 2 * k2v)
    k4x, k4v = v + h * k3v, a(x + h * k3x, v + h * k3v)
    return x + h / 6 * (k1x + 2 * k2x + 2 * k3x + k4x), v + h / 6 * (k1v + 2 * k2v + 2 * k3v + k4v)


@program(lambda: (rand(10_000_000).abs() + 1, rand(10_000_000).abs() + 1, rand(10_000_000).abs() + 0.1))
def black(S, K, T):
    d1 = (torch.log(S / K) + (0.02 + 0.045) * T) / (0.3 * T.sqrt())
    d2 = d1 - 0.3 * T.sqrt()
    N = lambda z: 0.5 * (1 + torch.erf(z / math.sqrt(2)))
    return S * N(d1) - K * torch.exp(-0.02 * T) * N(d2)


@program(lambda: (rand(8192, 8192),))
def stencil(x):
    return (x[1:-1, 1:-1] * 0.6 + 0.1 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])).tanh()


@program(lambda: (rand(8192, 8192), rand(8192, 8192)))
def kl(p, q):
    a, b = torch.log_softmax(p, -1), torch.log_softmax(q, -1)
    return (a.exp() * (a - b)).sum(-1).mean()


@program(lambda: (rand(64, 256, 56, 56),))
def l2_channels(x):
    return x / x.norm(dim=1, keepdim=True).clamp_min(1e-6)


@program(lambda: ([rand(256, k * 16) for k in range(1, 41)],))
def clip(gs):
    n = torch.stack([g.pow(2).sum() for g in gs]).sum().sqrt()
    c = (1 / (n + 1e-6)).clamp(max=1.0)
    return [g * c for g in gs]


@program(
    lambda: (torch.randint(-128, 127, (4096, 4096), device="cuda", dtype=torch.int8), halves(4096, 1), halves(16, 4096))
)
def dequant_mm(w, s, x):
    return x @ (w.to(torch.bfloat16) * s).t()


@program(lambda: (rand(1000000, 20), (torch.rand(1000000, 20, device="cuda") > 0.9).float()))
def focal(x, y):
    p = torch.sigmoid(x)
    ce = -(y * torch.log(p + 1e-8) + (1 - y) * torch.log(1 - p + 1e-8))
    pt = p * y + (1 - p) * (1 - y)
    return ((0.25 * y + 0.75 * (1 - y)) * ce * (1 - pt) ** 2).mean()


@program(lambda: (halves(8192, 8192),))
def fp8_quant(x):
    s = x.abs().amax(-1, keepdim=True).float() / 448
    return (x.float() / s).clamp(-448, 448).to(torch.float8_e4m3fn), s


@program(lambda: (rand(32, 512, 16, 64),))
def heads(x):
    return (x * 0.125).permute(0, 2, 1, 3).contiguous()


@program(lambda: (rand(32, 64, 56, 56),))
def upsample(x):
    return torch.relu(x).repeat_interleave(2, -1).repeat_interleave(2, -2)


@program(lambda: (rand(64, 128, 64, 64),))
def avgpool(x):
    return torch.relu(x).view(64, 128, 32, 2, 32, 2).mean((3, 5))


@program(lambda: (rand(64, 256, 56, 56),))
def softmax_channels(x):
    return torch.softmax(x, 1)


@program(lambda: (rand(65536, 256),))
def var_rows(x):
    return x.var(0), (x * x).mean(0)


@program(lambda: (rand(64, 512, 512),))
def sum_middle(x):
    return x.exp().sum(1)


@program(lambda: (rand(128, 1024, 256), rand(128, 1024, 256)))
def cosine(x, y):
    return F.cosine_similarity(x, y, dim=-1)


@program(lambda: (rand(4096, 4096), below(4096, 4096)))
def take_rows(x, i):
    return torch.relu(x[i]) * 2 + x


@program(lambda: (rand(1 << 24),))
def stats(x):
    return x.mean(), x.std(), x.min(), x.max(), x.abs().sum()


@program(lambda: (rand(4096, 4096),))
def tri(x):
    return torch.tril(x) * 2 + torch.triu(x, 1)


@program(lambda: (rand(64, 3, 224, 224), rand(3), rand(3).abs() + 0.1))
def normalise(x, m, s):
    return ((x - m[:, None, None]) / s[:, None, None]).clamp(-3, 3).half()


@program(lambda: (rand(2000, 2000).half(), rand(2000, 2000).half()))
def outer_mask(x, y):
    return torch.where(x > y.t(), x, y.t() * 2)


def microseconds(f):
    for _ in range(3):
        f()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    least = math.inf
    for _ in range(3):
        start.record()
        for _ in range(30):
            f()
        end.record()
        torch.cuda.synchronize()
        least = min(least, start.elapsed_time(end) / 30 * 1000)
    return least


def agree(a, b):
    if isinstance(a, tuple | list):
        return all(agree(x, y) for x, y in zip(a, b, strict=True))
    if (a.dtype, a.shape, a.stride()) != (b.dtype, b.shape, b.stride()):
        return False
    tolerance = 1e-3 if a.dtype.itemsize >= 4 else 0.1 if a.dtype.itemsize == 1 else 2e-2
    a, b = a.float(), b.float()
    return torch.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True).float().mean().item() > 0.9999


def measure(name, compile):
    f, inputs = PROGRAMS[name]
    args = inputs()
    fast = dynoc.optimize(f, wait=True)
    want = f(*args)
    for _ in range(4):
        got = fast(*args)
    verdict = "" if agree(want, got) else "  not eager's"
    eager, ours = microseconds(lambda: f(*args)), microseconds(lambda: fast(*args))
    theirs = math.nan
    if compile:
        compiled = torch.compile(f)
        theirs = microseconds(lambda: compiled(*args))
    print(f"{name:18s} eager {eager:8.1f}  dynoc {ours:8.1f}  torch.compile {theirs:8.1f}{verdict}", flush=True)
    torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    parser.add_argument("--compile", action="store_true", help="torch.compile too")
    options = parser.parse_args()
    torch.manual_seed(0)
    with torch.no_grad():
        for name in options.names or PROGRAMS:
            measure(name, options.compile)


if __name__ == "__main__":
    main()
