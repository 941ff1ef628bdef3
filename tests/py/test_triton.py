"""Kernels written in Triton, launched inside optimised functions. Triton is a stand-in here, with the classes and methods of its
own that matter: a launch runs a Python function on tensors of the processor, and gives a compiled kernel with its text."""

import sys
import types

import pytest

torch = pytest.importorskip("torch")

import dynoc  # noqa: E402
from dynoc import _dynoc  # noqa: E402


class KernelInterface:
    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(grid=grid, warmup=False, *args, **kwargs)


class Compiled:
    """What a launch gives."""

    def __init__(self, fn, text, signature):
        self.asm, self.src = {"ttir": text}, types.SimpleNamespace(fn=fn, signature=signature)


class JITFunction(KernelInterface):
    def __init__(self, fn, text):
        self.fn, self.text, self.pre_run_hooks, self.launches = fn, text, [], []
        self.arg_names = list(fn.__code__.co_varnames[: fn.__code__.co_argcount])
        self.__name__ = fn.__name__

    def run(self, *args, grid, warmup, **kwargs):
        bound = dict(zip(self.arg_names, args)) | kwargs
        self.launches.append(grid(bound) if callable(grid) else grid)
        self.fn(**bound)
        types_of = {name: "*fp32" if torch.is_tensor(value) else "i32" for name, value in bound.items()}
        return Compiled(self, self.text, types_of | {name: "constexpr" for name in bound if name.isupper()})


class Autotuner(KernelInterface):
    def __init__(self, fn, reset_to_zero=None):
        self.fn, self.arg_names, self.reset_to_zero, self.configs = fn, fn.arg_names, reset_to_zero, []

    def run(self, *args, **kwargs):
        return self.fn.run(*args, **kwargs, BLOCK=64)


@pytest.fixture(autouse=True)
def triton(monkeypatch):
    package = types.ModuleType("triton.runtime.jit")
    package.KernelInterface = KernelInterface
    monkeypatch.setitem(sys.modules, "triton.runtime.jit", package)


HEAD = "module {\n  tt.func public @kernel(%s) attributes {noinline = false} {\n"
TAIL = "    tt.return\n  }\n}\n"


def text(parameters, *lines):
    """TTIR; parameters by name, those of pointers with a star."""
    pointer = "%{}: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}"
    listed = ", ".join(pointer.format(p[1:]) if p[0] == "*" else f"%{p}: i32" for p in parameters)
    return HEAD % listed + "".join(f"    {line}\n" for line in lines) + TAIL


ADD = text(
    ["*x", "*y", "*out", "n"],
    "%0 = tt.get_program_id x : i32",
    "%1 = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>",
    "%2 = tt.addptr %1, %0 : tensor<64x!tt.ptr<f32>>, tensor<64xi32>",
    "%3 = tt.load %2 : tensor<64x!tt.ptr<f32>>",
    "%4 = tt.splat %y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>",
    "%5 = tt.load %4 : tensor<64x!tt.ptr<f32>>",
    "%6 = arith.addf %3, %5 : tensor<64xf32>",
    "%7 = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>",
    "tt.store %7, %6 : tensor<64x!tt.ptr<f32>>",
)


def written(source):
    known = _dynoc._triton_written(source)
    return None if known is None else [i for i in range(known[1]) if known[0] >> i & 1]


def test_what_a_store_reaches():
    assert written(ADD) == [2]


def test_pointers_that_go_round_a_loop():
    source = text(
        ["*a", "*b", "*c", "n"],
        "%acc:3 = scf.for %k = %n to %n step %n iter_args(%p = %a, %q = %b, %s = %n)"
        " -> (!tt.ptr<f32>, !tt.ptr<f32>, i32)  : i32 {",
        "  %0 = tt.load %p : !tt.ptr<f32>",
        "  %1 = tt.addptr %p, %k : !tt.ptr<f32>, i32",
        "  scf.yield %1, %q, %s : !tt.ptr<f32>, !tt.ptr<f32>, i32",
        "}",
        "%2 = tt.addptr %c, %k : !tt.ptr<f32>, i32",
        "tt.store %2, %acc#2 : !tt.ptr<f32>",
    )
    assert written(source) == [2]
    stores = source.replace("tt.load %p : !tt.ptr<f32>", "tt.addptr %q, %k : !tt.ptr<f32>, i32\n tt.store %0, %n")
    assert written(stores) == [0, 1, 2]


def test_a_pointer_is_chosen():
    source = text(
        ["*a", "*b", "*c", "n"],
        "%0 = scf.if %n -> (!tt.ptr<f32>) {",
        "  %p = tt.addptr %a, %n : !tt.ptr<f32>, i32",
        "  scf.yield %p : !tt.ptr<f32>",
        "} else {",
        "  %p = tt.addptr %b, %n : !tt.ptr<f32>, i32",
        "  scf.yield %p : !tt.ptr<f32>",
        "}",
        "%1 = tt.atomic_rmw add, acq_rel, gpu, %0, %n : (!tt.ptr<f32>, i32) -> i32",
    )
    assert written(source) == [0, 1]


def test_while_carries_pointers_from_its_end_to_its_beginning():
    source = text(
        ["*a", "*b", "n"],
        "%r:2 = scf.while (%p = %a, %q = %b) : (!tt.ptr<f32>, !tt.ptr<f32>) -> (!tt.ptr<f32>, !tt.ptr<f32>) {",
        "  scf.condition(%n) %p, %q : !tt.ptr<f32>, !tt.ptr<f32>",
        "} do {",
        "^bb0(%u: !tt.ptr<f32>, %v: !tt.ptr<f32>):",
        "  tt.store %u, %n : !tt.ptr<f32>",
        "  scf.yield %v, %u : !tt.ptr<f32>, !tt.ptr<f32>",
        "}",
    )
    assert written(source) == [0, 1]


@pytest.mark.parametrize(
    "line",
    [
        "tt.call @other(%a) : (!tt.ptr<f32>) -> ()",
        '%0 = tt.elementwise_inline_asm "st" %a : !tt.ptr<f32> -> i32',
        "cf.br ^bb1(%a : !tt.ptr<f32>)",
    ],
)
def test_what_is_not_known(line):
    assert written(text(["*a", "n"], line)) is None
    assert written("module {\n}\n") is None


def add_kernel(x, y, out, n, BLOCK):  # noqa: N803
    out.copy_(x + y)


def launched(kernel, x, y):
    out = torch.empty_like(x)
    n = out.numel()
    kernel[lambda meta: (-(-n // meta["BLOCK"]),)](x, y, out, n, BLOCK=64)
    return out


def check(f, *args, calls=3):
    fast = dynoc.optimize(f, wait=True, fullgraph=True)
    for _ in range(calls):
        mine, theirs = [a.clone() for a in args], [a.clone() for a in args]
        torch.testing.assert_close(fast(*mine), f(*theirs))
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
    assert len(fast.entries) == 1 and fast.entries[0].hits == calls - 1
    return fast


def test_a_launch_is_a_node():
    kernel = JITFunction(add_kernel, ADD)
    x, y = torch.randn(200), torch.randn(200)
    check(lambda x, y: launched(kernel, torch.sin(x) * 2, y) * 3 + x, x, y)
    assert set(kernel.launches) == {(4,)}


def test_values_read_before_and_behind_a_launch():
    kernel = JITFunction(add_kernel, ADD)

    def f(x, y):
        out = x * 2
        before = out + 1
        kernel[(1,)](x, y, out, 200, BLOCK=64)
        behind = out + 1
        kernel[(1,)](out, y, out, 200, BLOCK=64)
        return before, behind, out

    check(f, torch.randn(200), torch.randn(200))


def test_arguments_are_written():
    kernel = JITFunction(add_kernel, ADD)

    def f(x, y):
        before = y * 2
        kernel[(1,)](x, x, y, 200, BLOCK=64)
        return before, y + 1

    check(f, torch.randn(200), torch.randn(200))


TWO = text(["*x", "*a", "*b"], "tt.store %a, %x : !tt.ptr<f32>", "tt.store %b, %x : !tt.ptr<f32>")


def two_kernel(x, a, b):
    b.copy_(x - a)
    a.copy_(x + 1)


def test_a_launch_writes_several():
    kernel = JITFunction(two_kernel, TWO)

    def f(x):
        a, b = torch.cos(x), torch.exp(x)
        sums = a + b, b * 2
        kernel[(1,)](x, a, b)
        return *sums, a * 2, b * 2, a, b

    check(f, torch.randn(50))


def test_other_sizes_are_another_grid():
    kernel = JITFunction(add_kernel, ADD)
    fast = dynoc.optimize(lambda x, y: launched(kernel, x, y) + 1, wait=True, dynamic=True, fullgraph=True)
    for n in (64, 65, 300, 301):
        x, y = torch.randn(n), torch.randn(n)
        torch.testing.assert_close(fast(x, y), x + y + 1)
    assert kernel.launches == [(1,), (2,), (5,), (5,)] and len(fast.entries) == 1


def test_an_autotuner():
    kernel = Autotuner(JITFunction(add_kernel, ADD))
    fast = dynoc.optimize(lambda x, y: launched_by(kernel, x, y), wait=True, fullgraph=True)
    for _ in range(3):
        x, y = torch.randn(20), torch.randn(20)
        torch.testing.assert_close(fast(x, y), x + y + 1)


def launched_by(kernel, x, y):
    out = torch.empty_like(x)
    kernel[(1,)](x, y, out, 20)
    return out + 1


@pytest.mark.parametrize("how", ["hook", "reset"])
def test_hooks_are_calls_like_others(how):
    calls = []
    kernel = JITFunction(add_kernel, ADD)
    if how == "hook":
        kernel.pre_run_hooks.append(lambda *args, **kwargs: calls.append(1))
        call = lambda x, y: launched(kernel, x, y) + 1  # noqa: E731
    else:
        tuned = Autotuner(kernel, reset_to_zero=["out"])
        call = lambda x, y: launched_by(tuned, x, y)  # noqa: E731
    fast = dynoc.optimize(call, wait=True)
    for _ in range(3):
        x, y = torch.randn(20), torch.randn(20)
        torch.testing.assert_close(fast(x, y), x + y + 1)


def test_errors_of_a_launch():
    def fails(x, y, out, n, BLOCK):  # noqa: N803
        if n > 100:
            raise ValueError("too many")
        out.copy_(x + y)

    kernel = JITFunction(fails, ADD)
    fast = dynoc.optimize(lambda x, y: launched(kernel, x, y) + 1, wait=True, dynamic=True)
    for n in (20, 30, 40):
        fast(torch.randn(n), torch.randn(n))
    with pytest.raises(ValueError, match="too many"):
        fast(torch.randn(200), torch.randn(200))
