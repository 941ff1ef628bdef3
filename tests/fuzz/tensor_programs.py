"""Random programs over PyTorch tensors, run eagerly and under dynoc, call after call with other sizes, dtypes and layouts.

    python tests/fuzz/tensor_programs.py [--count N] [--seed FIRST] [--compiled 20] [--show SEED]

A program grows statement by statement: each is tried eagerly on one set of arguments, and what raises is mostly left out. Then
all calls are compared: results, exceptions, what was written into the arguments, and which tensors share memory. Programs that
differ are shrunk by leaving statements out. A few are run by tests/fuzz/test_tensor_programs.py.
"""

import argparse
import ast
import random
import sys
import warnings

import torch

import dynoc

UNARY = (
    "torch.sin({x})", "torch.cos({x})", "torch.exp({x} / 9)", "{x}.abs()", "-{x}", "torch.relu({x})",
    "torch.sigmoid({x})", "{x}.tanh()", "{x}.abs().sqrt()", "{x}.floor()", "torch.round({x})", "torch.sign({x})",
    "{x}.square()", "~({x} > 1)", "torch.isnan({x})", "{x}.float()", "{x}.double()", "{x}.int()", "{x}.bool()",
    "{x}.bfloat16()", "{x}.to(torch.int8)", "{x}.long()", "F.gelu({x}, approximate='tanh')", "F.silu({x})",
    "F.softplus({x})", "F.leaky_relu({x}, 0.1)", "{x}.clamp(-1, 2)", "{x}.clamp(min=0)", "torch.erf({x})",
    "{x}.reciprocal()", "torch.log1p({x}.abs())", "{x}.trunc()", "{x}.rsqrt()", "F.hardswish({x})",
    "torch.nan_to_num({x})", "{x}.exp2()", "{x}.logical_not()", "{x}.bitwise_not()", "torch.frac({x})", "{x}.clone()",
    "{x}.detach()", "{x}.contiguous()", "torch.conj({x})", "F.dropout({x}, 0.5, False)",
)  # fmt: skip
BINARY = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / {y}", "{x} // {y}", "{x} % {y}", "torch.maximum({x}, {y})",
    "torch.minimum({x}, {y})", "{x} > {y}", "{x} == {y}", "{x} <= {y}", "{x} != {y}", "torch.where({x} > 0, {x}, {y})",
    "torch.atan2({x}, {y})", "torch.hypot({x}, {y})", "torch.fmod({x}, {y})", "{x} & {y}", "{x} | {y}", "{x} ^ {y}",
    "torch.lerp({x}, {y}, 0.3)", "torch.add({x}, {y}, alpha=2)", "torch.addcmul({x}, {x}, {y}, value=0.5)",
    "{x}.logical_and({y})", "torch.copysign({x}, {y})", "{x} @ {y}", "torch.where({x} > {y}, 1, 0)",
    "F.mse_loss({x}, {y}.to({x}.dtype))", "torch.cat([{x}, {y}])", "torch.cat([{x}, {y}], -1)", "torch.stack([{x}, {y}])",
    "torch.stack([{x}, {y}], 1)", "{x}.expand_as({y})", "{x}.type_as({y})", "torch.sub({y}, {x})",
    "torch.float_power({x}.abs(), {y})", "torch.outer({x}.flatten()[:3], {y}.flatten()[:4])",
    "torch.heaviside({x}, {y}.to({x}.dtype))", "torch.eq({x}, {y}).sum()", "{x}.view_as({y})",
    "torch.broadcast_tensors({x}, {y})[0] + 1", "torch.logaddexp({x}, {y})", "torch.fmax({x}, {y})", "F.linear({x}, {y})",
    "torch.dist({x}, {y})",
)  # fmt: skip
NUMBER = (
    "{x} + {k}", "{k} - {x}", "{x} * {k}", "{x} / {k}", "{x} // {k}", "{x} % {k}", "{x} ** 2", "{k} / {x}", "{x} > {k}",
    "{x} + n", "{x} * f", "{x} - 0.5", "f - {x}", "torch.pow({x}, 3)", "torch.full_like({x}, {k})",
    "{x}.masked_fill({x} > {k}, 7)", "2 ** {x}", "{x}.add({k}, alpha=3)", "{x} << 1", "{x}.eq({k})",
    "torch.where({x} > 0, {x}, {k})", "torch.clamp({x}, max={k})", "{x}.remainder({k})",
)  # fmt: skip
VIEWS = (
    "{x}.T", "{x}.t()", "{x}[0]", "{x}[-1]", "{x}[:, 1]", "{x}[1:]", "{x}[::2]", "{x}[..., None]", "{x}[None]",
    "{x}.unsqueeze(0)", "{x}.squeeze()", "{x}.reshape(-1)", "{x}.view(-1)", "{x}.flatten()", "{x}.transpose(0, 1)",
    "{x}.transpose(-1, -2)", "{x}.chunk(2)[0]", "{x}.chunk(2, -1)[-1]", "{x}.split(2)[0]", "{x}.unbind()[0]",
    "{x}.narrow(0, 1, 1)", "{x}.select(-1, 0)", "{x}.flip(0)", "torch.roll({x}, 1, 0)", "{x}.diagonal()",
    "{x}.movedim(0, -1)", "{x}[:, :-1]", "{x}[:, 1:]", "{x}[1:-1, 1:-1]", "{x}[..., ::2]", "{x}.permute(1, 0)",
    "{x}.permute(1, 2, 0)", "{x}.expand(2, *{x}.shape)", "{x}.reshape({x}.shape[0], -1)", "{x}.unflatten(-1, (-1, 1))",
    "{x}.repeat(2, 1)", "{x}.unfold(0, 2, 1)", "{x}.tile(2)", "{x}[n % {x}.shape[0]]", "{x}.swapaxes(0, -1)",
    "{x}.ravel()", "{x}.mT", "{x}.as_strided((2, 2), (1, 1))", "{x}.int().view(torch.uint8)", "{x}.tensor_split(2)[1]",
    "torch.atleast_2d({x})", "{x}.repeat_interleave(2, 0)",
)  # fmt: skip
REDUCTIONS = (
    "{x}.sum()", "{x}.sum(0)", "{x}.sum(-1)", "{x}.mean()", "{x}.mean(0)", "{x}.mean(-1, keepdim=True)", "{x}.amax(-1)",
    "{x}.max()", "{x}.max(0)[0]", "{x}.max(-1)[1]", "{x}.argmax()", "{x}.argmax(-1)", "{x}.prod()", "{x}.var()",
    "{x}.var(0)", "{x}.std(-1)", "{x}.norm()", "{x}.any()", "{x}.all(0)", "{x}.cumsum(0)", "{x}.cumsum(-1)",
    "F.softmax({x}, -1)", "F.log_softmax({x}, 0)", "torch.logsumexp({x}, -1)", "torch.count_nonzero({x})",
    "{x}.min(0)[0]", "{x}.amin((0, 1))", "F.layer_norm({x}, {x}.shape[-1:])", "{x}.sum((0, 1), keepdim=True)",
    "torch.var_mean({x}, -1)[1]", "{x}.nansum()", "{x}.sort(-1)[0]", "{x}.topk(1)[0]", "torch.cumprod({x} / 2, -1)",
    "{x}.median()", "{x}.sum(dtype=torch.float64)", "{x}.argsort(-1)", "F.normalize({x}, dim=-1)",
    "torch.linalg.norm({x})", "{x}.unique()", "{x}.quantile(0.5)",
)  # fmt: skip
PLACES = (
    "{x}[c]", "{x}[:, c % {x}.shape[1]]", "{x}[{x} > 0]", "torch.gather({x}, 0, {x}.long().abs() % {x}.shape[0])",
    "{x}.index_select(0, c)", "{x}.nonzero()", "{x}[c, c % {x}.shape[-1]]",
    "torch.take_along_dim({x}, {x}.argsort(-1), -1)", "F.one_hot(c, 4)", "F.embedding(c, {x})",
    "{x}.masked_select({x} > 0)", "{x}.take(c)", "torch.bincount(c)", "{x}.index_add(0, c[:1], {x}[:1])",
    "{x}.scatter(0, c[None], 5)",
)  # fmt: skip
MADE = (
    "torch.zeros_like({x})", "torch.ones({x}.shape)", "torch.arange({x}.shape[0])", "torch.arange(n) * 2",
    "{x}.new_zeros(3)", "torch.eye(n)", "torch.tril({x})", "torch.triu({x}, 1)", "torch.full((n,), f)",
    "torch.tensor([1.0, 2.0])", "torch.empty_like({x}).fill_(2)", "torch.stack([{x}[i] for i in range({x}.shape[0])])",
    "sum([{x}, {x} * 2])", "{x} + {x}.sum().item()", "{x} * float({x}.double().mean())",
    "{x} if {x}.sum() > 0 else {x} - 1", "torch.cat([p * 2 for p in {x}.split(1)])", "[{x}.abs() for _ in range(3)][1]",
    "(lambda t: t + 1)({x})", "{x}.new_full(({x}.shape[0],), n)", "max({x}.unbind(), key=lambda t: t.shape)",
    "next(iter({x})) * 2", "torch.add(*{x}.chunk(2)[:1] * 2)", "torch.linspace(0, 1, n)",
    "torch.zeros(2, n, dtype={x}.dtype)", "torch.tensor(f)", "torch.ones_like({x}, dtype=torch.float64)",
)  # fmt: skip
WRITES = (
    "{x}.add_({y})", "{x}.mul_({k})", "{x}[0] = {k}", "{x}[:, 0] = {y}", "{x}[{x} > 1] = 0", "{x}.copy_({y})",
    "{x}.clamp_(-1, 1)", "{x}.relu_()", "{x} += {y}", "{x} *= {k}", "{x}.zero_()", "{x}.fill_({k})", "{x}[1:] = {x}[:-1]",
    "{x}[c] = {k}", "{x}[..., 0] += {k}", "{x}.sub_({y}, alpha=2)", "{x}.neg_()", "{x}.masked_fill_({x} > 0, {k})",
    "{x}[1:].add_({x}[:-1])", "{x}[::2] *= 2", "{x}.T.add_({k})", "{x}.div_({k})", "{x}.exp_()",
    "{x}.index_fill_(0, c[:1], 3)", "{x}.lerp_({y}, 0.5)", "{x} //= {k}", "{x}.pow_(2)", "{x}.t_()", "{x}.data.mul_(2)",
    "{x}.unsqueeze_(0)", "torch.add({x}, {y}, out={x})", "torch.sin({x}, out={x})", "{x}.index_add_(0, c[:1], {x}[:1])",
    "{x}.cumsum_(0)", "{x}.squeeze_()", "{x}.sigmoid_()", "{x}.round_()", "{x}.copy_({x}.flip(0))", "{x}[-1].copy_({y})",
)  # fmt: skip
FORMS = ((UNARY, 5), (BINARY, 6), (NUMBER, 4), (VIEWS, 6), (REDUCTIONS, 3), (PLACES, 1.5), (MADE, 1.5), (WRITES, 3))


RAISED = (RuntimeError, IndexError, ValueError, TypeError, AttributeError, NotImplementedError)
SIZES = ((3, 4), (5, 4), (3, 4), (2, 7), (4, 4), (3, 1), (6, 33), (0, 4))
DTYPES = ("float32", "float32", "float32", "bfloat16", "int64", "float64", "float16", "bool", "uint8", "int32")


def arguments(call, kind):
    """The arguments of the call with that number, by the kind of program: two tensors, places, an int and a float."""
    rows, columns = SIZES[call]
    g = torch.Generator().manual_seed(call)
    wide = torch.float64 if call == 4 else getattr(torch, DTYPES[kind])
    a = (torch.randn(rows, columns, generator=g) * (3 if kind > 3 else 1)).to(wide)
    a = a.T.contiguous().T if call == 2 else a
    b = torch.randn(columns, generator=g).to(torch.float32 if kind % 2 else a.dtype)
    return [a, b, torch.arange(rows) % 2, call + 2, 0.5 + call]


class Program:
    """The source of a function of (a, b, c, n, f), made of random statements that work for the first arguments."""

    def __init__(self, seed):
        self.random, self.lines, self.count = random.Random(seed), [], 0
        self.kind = self.random.randrange(len(DTYPES))
        self.scope = {"torch": torch, "F": torch.nn.functional, **dict(zip("abcnf", arguments(0, self.kind), strict=True))}
        self.names = ["a", "a", "b"]
        while len(self.lines) < self.random.randint(4, 14):
            self.grow()
        self.names = [n for n in dict.fromkeys(self.names) if n not in "ab"][-5:] or ["a"]
        self.names += [n for n in "ab" if self.random.random() < 0.2]

    def grow(self):
        forms = self.random.choices([f for f, _ in FORMS], [w for _, w in FORMS])[0]
        x, y = (self.random.choice(self.names[-6:]) for _ in range(2))
        text = self.random.choice(forms).format(x=x, y=y, k=self.random.choice(("2", "3", "-1.5", "n", "f")))
        name = x
        if forms is not WRITES:
            self.count += 1
            name = f"t{self.count}"
            text = f"{name} = {text}"
        if self.random.random() < 0.08:
            value = text.partition(" = ")[2]
            text = f"for _ in range(n): {text}" if forms is WRITES else f"if {x}.shape[0] > 2: {x} = {value}"
            name = x
        before = {k: (v, v._version) for k, v in self.scope.items() if isinstance(v, torch.Tensor)}
        try:
            exec(compile(text, "<grown>", "exec"), self.scope)
        except RAISED:
            if self.random.random() > 0.02 or any(v._version != version for v, version in before.values()):
                return  # (half done: what follows may mean something else than it did)
            self.lines.append(text)
            return
        if isinstance(self.scope[name], torch.Tensor) and self.scope[name].numel() < 10_000:
            self.lines.append(text)
            if name not in self.names:
                self.names.append(name)

    def source(self, lines=None):
        lines = self.lines if lines is None else lines
        names = [n for n in self.names if n in "ab" or any(line.startswith(f"{n} =") for line in lines)]
        body = "".join(f"    {line}\n" for line in lines)
        return f"def program(a, b, c, n, f):\n{body}    return ({', '.join(names)},)\n"


def function(source):
    scope = {"torch": torch, "F": torch.nn.functional}
    exec(compile(source, "<tensor program>", "exec"), scope)
    return scope["program"]


def outcome(fn, call, kind):
    args = arguments(call, kind)
    try:
        given = fn(*args)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}", args
    return given, args


def shares(tensors):
    """For each two: do they share storage, and how far apart do they begin."""
    tensors = [t for t in tensors if isinstance(t, torch.Tensor) and t.numel()]
    where = [(t.untyped_storage().data_ptr(), t.storage_offset() * t.element_size()) for t in tensors]
    return [(p == q and i - j) for p, i in where for q, j in where]


def steps(x):
    """Strides, but those of axes along which nobody goes a step."""
    return [step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1] if x.numel() else []


def difference(mine, theirs):
    """What differs between two outcomes; None: nothing."""
    (got, args), (want, eager_args) = mine, theirs
    if isinstance(got, str) or isinstance(want, str):
        both = isinstance(got, str) and isinstance(want, str)
        return None if both and got[:60] == want[:60] else f"{got} for {want}"
    for name, x, y in [*((f"result {i}", *p) for i, p in enumerate(zip(got, want, strict=True))), *zip("abc", args, eager_args)]:
        if type(x) is not type(y):
            return f"{name}: {type(x)} for {type(y)}"
        if x.dtype != y.dtype or x.shape != y.shape or steps(x) != steps(y):
            return f"{name}: {x.dtype, x.shape, x.stride()} for {y.dtype, y.shape, y.stride()}"
        if x.is_floating_point():
            tolerance = {torch.bfloat16: 0.05, torch.float16: 0.01, torch.float32: 1e-4, torch.float64: 1e-4}[x.dtype]
            close = torch.isclose(x.double(), y.double(), rtol=tolerance, atol=tolerance, equal_nan=True).all()
        else:
            close = torch.equal(x, y)
        if not close:
            return f"{name}: {x} for {y}"
    if shares([*got, *args]) != shares([*want, *eager_args]):
        return "memory is shared otherwise"
    return None


def compared(source, kind, wait):
    """What differs in one of the calls, eager and under dynoc."""
    plain, fast = function(source), dynoc.optimize(function(source), wait=wait)
    for call in (0, 0, 1, 2, 1, 3, 4, 5, 6, 7, 6, 0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = difference(outcome(fast, call, kind), outcome(plain, call, kind))
        if found is not None:
            return f"call {call}: {found}"
    return None


def shrunk(program, wait):
    lines, k = list(program.lines), 0
    while k < len(lines):
        fewer = lines[:k] + lines[k + 1 :]
        try:
            ast.parse(program.source(fewer))
            found = compared(program.source(fewer), program.kind, wait)
        except SyntaxError:
            found = None
        lines, k = (fewer, k) if found and "NameError" not in found else (lines, k + 1)
    return program.source(lines)


def run(seed, wait=False):
    """None, or a text that says what a program of that seed does differently."""
    program = Program(seed)
    found = compared(program.source(), program.kind, wait)
    if found is None:
        return None
    small = shrunk(program, wait)
    return f"seed {seed} ({DTYPES[program.kind]}): {found}\n{small}{compared(small, program.kind, wait)}\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", type=int, default=20, help="every so many natively, others built-in")
    parser.add_argument("--show", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.show is not None:
        print(Program(options.show).source())
        options.seed, options.count = options.show, 1
    failed = 0
    for seed in range(options.seed, options.seed + options.count):
        print(f"\r{seed}", end="", file=sys.stderr, flush=True)
        found = run(seed, wait=options.compiled > 0 and seed % options.compiled == 0)
        if found:
            failed += 1
            print(f"\n{found}", flush=True)
        if seed % 50 == 0:
            dynoc.reset()
    print(f"\n{options.count} programs, {failed} differ")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
