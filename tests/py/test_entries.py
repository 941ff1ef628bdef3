"""What can be seen of an optimised function: entries, source, counters; and how entries are limited, forgotten and counted."""

import re
import subprocess
import sys
import types
from sys import intern

import numpy as np
import pytest
from compare import dynoc
from logs import logged
from process import run_python, run_script

X = np.arange(6.0)


def test_entry_of_one_graph():
    @dynoc.optimize(wait=True)
    def f(x, y):
        return x * y + 1.0

    assert f.entries == [] and f.source() == ""
    f(X, 2.0)
    (entry,) = f.entries
    assert entry.hits == 0 and entry.end == "return" and entry.reason is None and entry.failure is None
    assert entry.tier == "native"
    f(X, 3.0), f(np.arange(3.0), 3.0)
    assert entry.hits == 2 and len(f.entries) == 1
    assert entry.guards and all(isinstance(guard, str) for guard in entry.guards)
    assert any("x.dtype" in guard for guard in entry.guards)
    assert "multiply" in str(entry.graph)
    assert isinstance(entry.source, str) and entry.source == f.source() != ""
    assert isinstance(entry.code, types.CodeType) and entry.code.co_name == "f"
    assert entry.code is entry.code
    assert set(entry.times) >= {"guards", "lower", "emit", "build"} and all(t >= 0 for t in entry.times.values())
    assert "entry" in repr(entry)
    with pytest.raises(TypeError):
        type(entry)()


def test_code_of_an_entry_runs():
    def f(x, y):
        return x * y

    fast = dynoc.optimize(f, wait=True)
    fast(X, 2.0)
    by_hand = types.FunctionType(fast.entries[0].code, f.__globals__)
    assert np.array_equal(by_hand(X, 5.0), X * 5.0)
    with pytest.raises(RuntimeError, match="guards"):
        by_hand("x", 5.0)
    dynoc.reset()
    code = by_hand.__code__
    del fast
    assert code is by_hand.__code__
    with pytest.raises(RuntimeError):
        by_hand(X, 5.0)


def test_entries_behind_a_break():
    @dynoc.optimize(wait=True)
    def f(x):
        y = x + 1.0
        intern("a")
        return y * 2.0

    for _ in range(3):
        assert np.array_equal(f(X), (X + 1.0) * 2.0)
    first, second = f.entries
    assert (first.end, second.end) == ("break", "return")
    assert first.reason == "OPAQUE_CALL" and first.hits == second.hits == 2
    assert first.code.co_name == second.code.co_name == "f"
    by_hand = types.FunctionType(first.code, f.__globals__)
    assert np.array_equal(by_hand(X), (X + 1.0) * 2.0)


def test_limit():
    @dynoc.optimize(wait=True, options={"cache_limit": 2})
    def f(x):
        return x + x

    types_ = [np.float64, np.float32, np.int64, np.int32, np.float64]
    for dtype in types_:
        a = np.arange(4).astype(dtype)
        for _ in range(2):
            assert f(a).dtype == dtype and np.array_equal(f(a), a + a)
    assert len(f.entries) == 2


def test_most_recent_entry_is_first():
    @dynoc.optimize(wait=True)
    def f(x):
        return x + x

    f(X), f(X.astype(np.float32))
    numbers = [entry.number for entry in f.entries]
    f(X)
    assert [entry.number for entry in f.entries] == numbers[::-1]


def test_reset():
    @dynoc.optimize(wait=True)
    def f(x):
        return x + 1.0

    f(X)
    old = f.entries
    dynoc.reset()
    assert f.entries == []
    assert np.array_equal(f(X), X + 1.0) and len(f.entries) == 1
    assert old[0].guards and old[0].number != f.entries[0].number


def test_counters():
    dynoc.counters.clear()

    def counted(x):
        return x + 1.0

    fast = dynoc.optimize(counted, wait=True)
    fast(X), fast(X), fast(X.astype(np.float32))
    assert dynoc.counters["frames"]["total"] == 2 and dynoc.counters["frames"]["recorded"] == 2
    assert dynoc.counters["graphs"]["compiled"] == 2
    assert dynoc.counters["recompiles"][counted.__qualname__] == 1


def test_functions_without_arrays_are_given_up():
    @dynoc.optimize(wait=True)
    def f(x):
        return x + 1

    for n in range(20):
        assert f(n) == n + 1
    assert f.entries == [] and dynoc.counters["refused"]["NO_ARRAYS"] > 0
    for _ in range(2):
        assert np.array_equal(f(X), X + 1)
    assert len(f.entries) == 1  # a call with an array is still worth a look
    assert f(3) == 4


def test_eager_back_end():
    @dynoc.optimize(backend="eager")
    def f(x, y):
        return x * y + 1.0

    for _ in range(3):
        assert np.array_equal(f(X, 2.0), X * 2.0 + 1.0)
    assert f.entries[0].hits == 2 and f.entries[0].source == "" and f.entries[0].tier == "eager"


def test_fullgraph():
    @dynoc.optimize(fullgraph=True)
    def f(x):
        y = x + 1.0
        intern("a")
        return y

    for _ in range(2):
        with pytest.raises(dynoc.Unsupported, match=r"OPAQUE_CALL(.|\n)*test_entries\.py:\d+: in (.|\n)*intern\(.a.\)\n +\^+\n"):
            f(X)


def test_exact():
    @dynoc.optimize(exact=True, wait=True)
    def f(x):
        return np.sin(x) + 1.0

    @dynoc.optimize(exact=True, wait=True)
    def g(x):
        return x * 2.0 + 1.0

    for _ in range(3):
        assert np.array_equal(f(X), np.sin(X) + 1.0) and np.array_equal(g(X), X * 2.0 + 1.0)
    assert f.entries[0].failure == "DISABLED" and g.entries[0].failure is None


def test_left_frames():
    """A recording that ends at an instruction which is left to CPython: hits run the graph, then CPython goes on in the frame."""

    @dynoc.optimize(wait=True)
    def f(x, flag, *rest, key=1, **more):
        y = x * 2.0
        z = [y, flag, {"a": y}]
        if "y" in sys._getframe().f_locals and flag:
            z.append("more")
        z.append(y.sum() > flag)
        return z, rest, key, more

    def run(fn, *args, **kwargs):
        result = fn(*args, **kwargs)
        assert result[0][0] is result[0][2]["a"]
        return repr(result)

    for flag in (0, 0, 1000, 0, 1000):
        assert run(f, X, flag, 7, 8, key=3, other=4) == run(f.__wrapped__, X, flag, 7, 8, key=3, other=4)
    assert any(entry.end == "leave" and entry.hits for entry in f.entries)


def test_left_frame_with_cells():
    def f(x):
        y = x * 2.0

        def inner():
            return y

        if y.sum() > 1.0:
            return inner() + 1.0
        return inner

    fast = dynoc.optimize(f, wait=True)
    for _ in range(3):
        assert np.array_equal(fast(X), f(X))


def test_enable():
    def f(x):
        return x * 2.0 + 1.0

    def broken(x):
        y = x + 1.0
        intern("a")
        return y * 2.0

    def fails(x, bad):
        y = x + 1.0
        intern("a")
        if bad:
            raise KeyError(bad)
        return y

    def rows(fn):
        try:
            fn(X, 1)
        except KeyError as error:
            tb, out = error.__traceback__, []
            while tb is not None:
                out.append((tb.tb_frame.f_code.co_name, tb.tb_lineno))
                tb = tb.tb_next
            return out[1:]
        return None

    expected = rows(fails)
    with dynoc.enabled(wait=True):
        for _ in range(4):
            assert np.array_equal(f(X), X * 2.0 + 1.0)
            assert np.array_equal(broken(X), (X + 1.0) * 2.0)
            assert np.array_equal(fails(X, 0), X + 1.0)
            assert rows(fails) == expected
        assert dynoc.counters["frames"]["total"] > 0
    assert np.array_equal(f(X), X * 2.0 + 1.0)


def test_enable_with_optimised_functions_inside():
    fast = dynoc.optimize(lambda x: x + 3.0, wait=True)

    def f(x):
        return fast(x) * 2.0

    with dynoc.enabled(wait=True):
        for _ in range(4):
            assert np.array_equal(f(X), (X + 3.0) * 2.0) and np.array_equal(fast(X), X + 3.0)


def test_logs_say_what_happened(caplog):
    import logging

    dynoc.set_logs(recompiles=True, graph_breaks=True)
    try:

        @dynoc.optimize(wait=True)
        def f(x):
            y = x + 1.0
            intern("a")
            return y

        with caplog.at_level(logging.DEBUG, "dynoc"):
            f(X), f(X.astype(np.float32))
    finally:
        dynoc.set_logs()
    text = caplog.text
    assert "OPAQUE_CALL" in text and "intern(" in text and "^^^^" in text and "hint: " in text
    assert "float64" in text and "float32" in text and "test_entries.py" in text


def test_debug_folder(tmp_path):
    options = {"debug": True, "debug_dir": str(tmp_path / "made")}

    @dynoc.optimize(wait=True, options=options)
    def dumped(x):
        return x + 1.0

    assert np.array_equal(dumped(X), X + 1.0)
    (run,) = (tmp_path / "made").iterdir()
    (folder,) = run.iterdir()
    assert folder.name.startswith("dumped_")
    assert sorted(p.name for p in folder.iterdir()) == [
        "bytecode.txt",
        "fusion.txt",
        "graph.py",
        "graph.txt",
        "guards.txt",
        "kernels.c",
        "schedule.txt",
        "timing.txt",
    ]
    assert "add" in (folder / "graph.py").read_text() and "x.dtype" in (folder / "guards.txt").read_text()


def test_timing_has_each_build(tmp_path):
    """The stages, then a line for each object, when it is there: from the compiler first, from the cache folder next time."""
    options = {"debug": True, "debug_dir": str(tmp_path / "made"), "cache_dir": str(tmp_path / "cache")}

    def lines(fn):
        before = set((tmp_path / "made").rglob("timing.txt"))
        dynoc.optimize(fn, wait=True, options=options)(X)
        (path,) = set((tmp_path / "made").rglob("timing.txt")) - before
        return path.read_text().splitlines()

    first, again = lines(lambda x: np.exp(x) * 7.25 - 1), lines(lambda x: np.exp(x) * 7.25 - 1)
    build = r"compiler +[\d.]+ us, object \w{16}"
    assert first[0].startswith("verify ") and re.fullmatch(build + ", by the compiler, the graph", first[-1])
    assert re.fullmatch(build + ", was loaded already, the graph", again[-1])
    assert len([line for line in first if line.startswith("compiler ")]) == 1


ROWS = """
import numpy as np, dynoc
def fn(x):
    m = x.max(axis=1, keepdims=True)
    e = np.exp(x - m)
    return e / e.sum(axis=1, keepdims=True), x.sum(axis=0)
dynoc.optimize(fn, wait=True)(np.ones((300, 400)))
"""


def test_fusion_says_which_kernels_run_together(tmp_path):
    (tmp_path / "rows.py").write_text(ROWS)
    code, _, said = run_python([str(tmp_path / "rows.py")], DYNOC_DEBUG=1, DYNOC_DEBUG_DIR=tmp_path / "made")
    assert code == 0, said
    (path,) = (tmp_path / "made").rglob("fusion.txt")
    together, _, steps = path.read_text().partition("# What a call does")
    assert "    with %5 divide (rows.py:6)\n    row by row together: a row stays in the cache\n" in together
    assert "    not with what comes behind, %6 sum (rows.py:6): it reduces other axes than those of a row\n" in together
    assert together.endswith("aren't the leading ones: what it reduces is no row\n")
    rows = [line for line in steps.splitlines() if " g0 kernel " in line]
    assert [re.findall(r"%\d+ (\w+) \(rows.py:\d\)", line) for line in rows] == [["max"], ["exp", "sum"], ["divide"]]


OF_GRADIENTS = """
import torch, dynoc
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
fast = dynoc.optimize(model, wait=True)
for _ in range(3):
    fast(torch.ones(32, 8)).sum().backward()
"""


def test_timing_and_fusion_of_gradients(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "training.py").write_text(OF_GRADIENTS)
    for built in "by the compiler", "from the cache folder":
        settings = {"DYNOC_DEBUG": 1, "DYNOC_DEBUG_DIR": tmp_path / built[:2], "DYNOC_CACHE_DIR": tmp_path / "cache"}
        code, _, said = run_python([str(tmp_path / "training.py")], **settings)
        assert code == 0, said
        (timing,) = (tmp_path / built[:2]).rglob("timing.txt")
        for part in "part 0: forward, for gradients", "part 0: backward":
            assert re.search(rf"^stages +[\d.]+ us, \d+ nodes, {part}$", timing.read_text(), re.MULTILINE)
            assert re.search(rf"^compiler +[\d.]+ us, object \w+, {built}, {part}$", timing.read_text(), re.MULTILINE)
        fusion = (timing.parent / "fusion.txt").read_text()
        forward, _, backward = fusion.partition("# part 0: backward")
        assert "# part 0: forward, for gradients" in forward and "one kernel" in forward and "one kernel" in backward


def test_fusion_says_why_of_each_pair(tmp_path):
    @dynoc.optimize(wait=True, options={"debug": True, "debug_dir": str(tmp_path / "made")})
    def dumped(x):
        y = np.exp(x) * 2
        r, c = y.sum(axis=0), np.sort(y, axis=0)
        return y - r, c + y, x[1:] * x[:-1]

    dumped(np.ones((30, 400)))
    (path,) = (tmp_path / "made").rglob("fusion.txt")
    line = dumped.__code__.co_firstlineno + 2
    first, second, third = (rf"\(test_entries\.py:{line + i}\)" for i in range(3))
    for wanted in (
        rf"%\d+ exp {first}\n    with %\d+ multiply {first}\n    one kernel: it is computed where it is read",
        rf"%\d+ multiply {first}\n    with %\d+ sum {second}\n    apart: one of them reduces leading axes",
        rf"%\d+ subtract {third}\n    with %\d+ add {third}\n    one kernel",
        rf"%\d+ multiply {third}\n    with what stands before %\d+ sort {second}\n    apart: no kernel moves across a call",
    ):
        assert re.search(rf"^{wanted}", path.read_text(), re.MULTILINE), (wanted, path.read_text())


def test_debug_kernels_time_themselves(tmp_path):
    """kernels.c is a program: what it says at its top compiles it, and it names every kernel with its elements."""

    @dynoc.optimize(wait=True, options={"debug": True, "debug_dir": str(tmp_path / "made")})
    def dumped(x, h, z, k, n):
        picked = np.where(x > n, x, -x)
        return picked.sum(axis=1), np.exp(picked).max(), h * h, z * 2j, k << 3, np.zeros((0, 3)) + 1.0

    x = np.arange(12.0).reshape(3, 4)
    dumped(x, x.astype(np.float16), x.astype(np.complex64), np.arange(5, dtype=np.int8), 1.5)
    (source,) = (tmp_path / "made").rglob("kernels.c")
    (command,) = [line[2:] for line in source.read_text().splitlines() if line.startswith(" *     cc ")]
    subprocess.run(command, shell=True, cwd=source.parent, check=True)
    said = subprocess.run(["./kernels", "0.001"], cwd=source.parent, check=True, capture_output=True, text=True).stdout
    lines = said.splitlines()
    assert len(lines) == 2 * len([line for line in lines if line.startswith("kernel ")]) > 6
    assert all(text in said for text in ("kernel 0  (3 x 4)", "    12 elements, ", "    5 elements, ", "    0 elements, 0 calls"))


def test_a_method_lookup_that_changes_its_form():
    """CPython specialises a method lookup: first a bound method, later function and self. A break there has no one shape."""

    class Odd:
        def __getattr__(self, name):
            raise AttributeError(name)

        def step(self, x, n):
            return x + n

        def run(self, x):
            y = x * 2.0
            return self.step(y, 1.0)

    dynoc.config.record_all = True
    try:
        with dynoc.enabled(wait=True):
            odd = Odd()
            for _ in range(40):
                assert np.array_equal(odd.run(X), X * 2.0 + 1.0)
    finally:
        dynoc.config.record_all = False


def by_axis(x, y, n):
    return x.sum(axis=n) + y


def test_recompiles_name_the_closest_entry_first_and_what_helps():
    fast = dynoc.optimize(by_axis)
    x = np.ones((3, 4))
    fast(x, 1.0, 0)
    fast(x.astype("f4"), 1.0, 0)
    numbers = sorted(entry.number for entry in fast.entries)
    with logged("recompiles") as lines:
        fast(x, 1.0, 1)
    first, hint, other = lines[0].splitlines()
    assert f"is recorded again: entry {numbers[0]}: n == 0: 0 → 1" in first
    assert hint.startswith("  hint: ")
    assert other.startswith(f"  entry {numbers[1]}: x.dtype == float32: float32 → float64 (and 1 more of ")


@pytest.mark.parametrize("kind", ["NumPy", "PyTorch"])
def test_of_an_array_dtype_and_rank_are_two_things(kind):
    """The entry of another rank is closer than that of another rank and dtype, whichever was made last."""
    fast = dynoc.optimize(lambda x: x * 2)
    ones = np.ones if kind == "NumPy" else pytest.importorskip("torch").ones
    short, long = ("f4", "f8") if kind == "NumPy" else (sys.modules["torch"].float32, sys.modules["torch"].float64)
    fast(ones(3, dtype=long))
    fast(ones(3, dtype=short))
    with logged("recompiles") as lines:
        fast(ones((3, 3), dtype=long))
    assert re.search(r"is recorded again: entry \d+: x.ndim == 1: 1 → 2$", lines[0].splitlines()[0])


AGAIN = """
import numpy as np
import dynoc
def half(x):
    return x / 2
fast = dynoc.optimize(half)
fast(np.ones(3))
fast(np.ones((3, 3)))
"""


def test_recompiles_are_summed_up_at_the_end():
    code, _, err = run_script(AGAIN, DYNOC_LOGS="recompiles")
    assert code == 0 and err.endswith("recorded again in this program:\n[dynoc.recompiles]       1 times half\n")
    assert "in this program" not in run_script(AGAIN, DYNOC_LOGS="graph_breaks")[2]


GIVERS = {"place": lambda f, x: f(x), "keyword": lambda f, x: f(x=x), "second": lambda f, x: f(1.0, x)}


@pytest.mark.parametrize("how", GIVERS)
def test_calls_without_arrays_are_let_through_until_there_is_one(how):
    @dynoc.optimize(wait=True)
    def twice(x, y=0.0):
        return x * 2 + y

    for _ in range(50):
        assert twice(3) == 6
        assert twice(x=1.5, y=1) == 4.0
    assert len(twice.entries) == 0
    x, give = np.arange(64.0), GIVERS[how]
    for _ in range(3):
        assert np.array_equal(give(twice, x), give(twice.__wrapped__, x))
    assert len(twice.entries) == 1
    assert twice(3) == 6
