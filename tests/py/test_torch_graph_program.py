"""graph.py of the debug folder where a graph has tensors: it runs by itself, and its function gives what the entry gives."""

import copy

import numpy as np
import pytest
from compare import dynoc
from process import run_python

torch = pytest.importorskip("torch")
F = torch.nn.functional
torch.manual_seed(0)
X, Y = torch.rand(6, 8) + 0.1, torch.rand(6, 8)


def elementwise(x, y):
    return torch.where(x > y, x.sigmoid() * 2, y.rsqrt()).clamp(min=0.3) + torch.maximum(x, y), x // y, x.lt(y)


def reductions(x, y):
    some = x.mean(), y.sum(dim=0, keepdim=True), x.amax(1), torch.argmax(y, 1), x.std(0)
    return *some, y.cumsum(1), (x * y).prod(), (x > y).any(1)


def views(x, y):
    some = x.t().reshape(-1)[3:] * 2, y[1:, ::2].unsqueeze(1) + 1, x.expand(2, 6, 8) - y
    return *some, torch.cat([x, y])[:, 1], x.split(3)[1] + 0


def written(x, y):
    z = x.clone()
    z[1:3] = 2.5
    z[:, 0].mul_(3)
    z.add_(y)
    return z


def narrow(x, y):
    h = x.to(torch.bfloat16) * 3 + y.to(torch.bfloat16)
    return h, h.float().sum(), x.half() * 2, (x * 9).int() % 4, h.to(torch.float64)


def library(x, y):
    n = F.layer_norm(x, (8,)) @ y.t()
    values, places = torch.topk(n, 2)
    return F.gelu(n), F.softmax(n, dim=-1), values, places + 1, torch.sort(x, dim=1)[0] * 2, torch.nonzero(x[0] > 0.5) * 2


def made(x, y):
    size, there = x.shape[0] * 2, x.device
    some = torch.arange(size, device=there) * 2, torch.zeros(size, 3, dtype=torch.float64, device=there) + 1
    return *some, torch.ones_like(x) * y, torch.full((2, 2), 7.0, device=there) + x[:2, :2]


def scaled(x, k=2, by=0.5):
    return x * k + by, x[:, -k:]


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.last = torch.nn.Linear(8, 4)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.norm(self.first(x))), 2)
        return self.last(x.mean((2, 3)))


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.out = torch.nn.Embedding(20, 16), torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, tokens):
        x = self.embed(tokens)
        q, k, v = self.qkv(self.norm(x)).view(*tokens.shape, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


TOKENS = torch.arange(10).reshape(2, 5)
CASES = {
    **{fn.__name__: (fn, X, Y) for fn in (elementwise, reductions, views, written, narrow, library, made)},
    "scaled": (scaled, X, 3, 0.25),
    "turned": (elementwise, X.t(), Y.t()),
    "Convolutions": (Convolutions().eval(), torch.rand(2, 3, 8, 8)),
    "Attention": (Attention().eval(), TOKENS),
    "LSTMCell": (torch.nn.LSTMCell(8, 4), X),
    "TransformerEncoderLayer": (torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(), torch.rand(2, 5, 16)),
}


def on_a_device(case):
    fn, *args = case
    fn = copy.deepcopy(fn).cuda() if isinstance(fn, torch.nn.Module) else fn
    return fn, *(a.cuda() if isinstance(a, torch.Tensor) else a for a in args)


@pytest.fixture
def graph(tmp_path, request):
    """Of a case: the folder, what the entry's second call gives, and what came into the graph."""
    return looked_into(tmp_path, *CASES[request.param])


def looked_into(tmp_path, fn, *args):
    with torch.no_grad():
        fast = dynoc.optimize(fn, wait=True, options={"debug": True, "debug_dir": str(tmp_path / "made")})
        fast(*args)
        result = fast(*args)
    (path,) = sorted((tmp_path / "made").rglob("graph.py"))
    (entry,) = fast.entries
    scope = {"self": fn, "args": args, **dict(zip(("x", "y"), args, strict=False))}
    if isinstance(fn, torch.nn.Module):
        names = fn.forward.__code__.co_varnames[1:]
        scope |= dict(zip(names, args, strict=False)) | {"input": args[0], "args": tuple(args), "src": args[0]}
    data = entry._data
    paths = [data["sources"][data["nodes"][node]["source"]] for node in data["inputs"]]
    return path, result, [eval(text, {"torch": torch, "np": np}, scope) for text in paths]


def flat(result):
    if isinstance(result, (tuple, list)):
        return [one for item in result for one in flat(item)]
    return [result]


@pytest.mark.parametrize("graph", CASES, indirect=True)
def test_it_gives_what_the_entry_gives(graph):
    gives_the_same(*graph)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", ["elementwise", "reductions", "narrow", "made", "Attention"])
def test_on_a_device(tmp_path, name):
    path, result, inputs = looked_into(tmp_path, *on_a_device(CASES[name]))
    gives_the_same(path, result, inputs)
    code, _, said = run_python([str(path)])
    assert code == 0, said


def gives_the_same(path, result, inputs):
    text = path.read_text()
    assert "stands for" not in text
    scope = {"__name__": "graph"}
    exec(compile(text, str(path), "exec"), scope)
    with torch.no_grad():
        found = scope["graph"](*inputs)
    for one in map(torch.as_tensor, flat(result)):
        same = [torch.as_tensor(other) for other in found if tuple(other.shape) == tuple(one.shape)]
        assert any(other.dtype == one.dtype and torch.allclose(one, other, rtol=1e-4, atol=1e-5) for other in same), (one, same)


@pytest.mark.parametrize("graph", ["narrow", "library", "Attention", "scaled"], indirect=True)
def test_it_runs_by_itself(graph):
    path, result, _ = graph
    code, out, said = run_python([str(path)])
    assert code == 0, said
    kinds = {line.split(" ")[1] for line in out.splitlines()}
    assert {str(one.dtype) for one in flat(result)} <= kinds


def test_what_cannot_be_imported_is_stood_for(tmp_path):
    scale = dynoc.allow_in_graph(lambda x: torch.tensor(x.tolist()) * 3)
    fast = dynoc.optimize(lambda x: scale(x) + 1, wait=True, options={"debug": True, "debug_dir": str(tmp_path / "made")})
    with torch.no_grad():
        fast(X)
    (path,) = sorted((tmp_path / "made").rglob("graph.py"))
    assert "stands for what" in path.read_text()
    code, out, said = run_python([str(path)])
    assert code == 0, said
    assert out.split(" ", 1)[1] == "torch.float32 (6, 8)\n"
