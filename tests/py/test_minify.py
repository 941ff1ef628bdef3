"""`python -m dynoc minify`: the smallest graph that still fails. Compiled code is made wrong by a compiler flag."""

import re

import pytest
from process import program, run_python

from dynoc import _dynoc, _minify

PROGRAM = """
import numpy as np, dynoc
def fn(x, y, k):
    a = np.exp(x[1:]) * k
    r = np.sqrt(x * x + y * y)
    return r + 1, a, (a * a).sum(axis=0)
dynoc.optimize(fn, wait=True)(np.linspace(1, 2, 300).reshape(60, 5), np.ones((60, 5)), 2.5)
"""
WRONG = "-D__builtin_sqrt=__builtin_fabs"


def debug_folder(tmp_path, program):
    (tmp_path / "program.py").write_text(program)
    settings = {"DYNOC_DEBUG": 1, "DYNOC_DEBUG_DIR": tmp_path / "debug", "DYNOC_CACHE_DIR": tmp_path / "cache"}
    code, _, said = run_python([str(tmp_path / "program.py")], **settings)
    assert code == 0, said
    (folder,) = (tmp_path / "debug").glob("run_*/fn_0")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A debug folder of the program, in which nothing is wrong."""
    return debug_folder(tmp_path_factory.mktemp("minify"), PROGRAM)


def test_a_wrong_operator_is_what_is_left(folder):
    code, out, said = run_python(["-m", "dynoc", "minify", str(folder)], DYNOC_CFLAGS=WRONG)
    assert code == 0, said
    nodes = re.findall(r"^%\d+: f64\[.*\] C = (\w+)\(", out, re.MULTILINE)
    assert nodes == ["input", "sqrt"]
    assert "in eager" in out and re.search(r"hint 1$", out, re.MULTILINE)
    script = folder / "minified.py"
    assert "elements differ" in run_python([str(script)], DYNOC_CFLAGS=WRONG)[1]
    assert run_python([str(script)])[1] == "it doesn't fail here\n"


CALLING = """
import numpy as np, dynoc
def fn(x, k):
    y = np.sqrt(x * x + k)
    q, r = np.linalg.qr(y)
    places = np.nonzero(x[0] > 0.5)[0]
    m = (q @ r) * 2 + np.sort(y, axis=1)
    y[0] = 3.0
    return m.sum(axis=0), places * 2 + 1, np.sqrt(abs(m) + r) + r, x[:, places] * 2
dynoc.optimize(fn, wait=True)(np.random.default_rng(0).random((6, 6)), 2.0)
"""


def test_a_graph_with_calls_of_other_functions(tmp_path):
    folder = debug_folder(tmp_path, CALLING)
    code, out, said = run_python(["-m", "dynoc", "minify", str(folder)], DYNOC_CFLAGS=WRONG)
    assert code == 0, said + out
    assert re.findall(r"^%\d+: f64\[.*\] C = (\w+)\(", out, re.MULTILINE) == ["input", "sqrt"]
    code, out, _ = run_python(["-m", "dynoc", "minify", str(folder)])
    assert code == 1
    assert "with 4 calls of other functions made again" in out and "whatever 4 calls of other functions give" in out


def operators_of(out):
    return re.findall(r"^%\d+: \w+\[.*\] \S+ = (\w+)[ (]", out, re.MULTILINE)


NEEDS_ITS_CALL = """
import numpy as np, dynoc
def fn(x):
    y = np.exp(-x) + 1
    return np.sqrt(np.argsort(x)) + y.sum(), y * 2
dynoc.optimize(fn, wait=True)(np.linspace(3, 1, 60))
"""


def test_a_call_that_is_needed_is_made_again(tmp_path):
    """Random integers are 0 and 1, of which a wrong root gives the right one; those of argsort go up to 59."""
    folder = debug_folder(tmp_path, NEEDS_ITS_CALL)
    code, out, said = run_python(["-m", "dynoc", "minify", str(folder)], DYNOC_CFLAGS=WRONG)
    assert code == 0, said + out
    assert operators_of(out) == ["input", "extern", "sqrt"] and "extern argsort(%0)" in out
    script = str(folder / "minified.py")
    assert "elements differ" in run_python([script], DYNOC_CFLAGS=WRONG)[1]
    assert run_python([script])[1] == "it doesn't fail here\n"


OF_NUMBERS = """
import numpy as np, dynoc
def fn(x):
    low, n = float(x.min()), int(np.searchsorted(x, 3.5))
    return np.sqrt(x * n) + low, np.histogram(x, bins=4)[0] * 2
dynoc.optimize(fn, wait=True)(np.arange(1.0, 9.0))
"""


def test_numbers_that_calls_give(tmp_path):
    folder = debug_folder(tmp_path, OF_NUMBERS)
    code, out, said = run_python(["-m", "dynoc", "minify", str(folder)], DYNOC_CFLAGS=WRONG)
    assert code == 0 and operators_of(out)[-1] == "sqrt", said + out


OWN = """
import numpy as np, dynoc
@dynoc.allow_in_graph
def own(x):
    return x[::-1].copy()
def fn(x):
    return np.sqrt(own(x) + 2) + np.sort(x)
dynoc.optimize(fn, wait=True)(np.linspace(3, 1, 60))
"""


def test_a_function_of_the_program_is_taken_out(tmp_path):
    folder = debug_folder(tmp_path, OWN)
    code, out, _ = run_python(["-m", "dynoc", "minify", str(folder)])
    assert code == 1 and "with 2 calls of other functions made again (1 more can't be made again" in out
    code, out, said = run_python(["-m", "dynoc", "minify", str(folder)], DYNOC_CFLAGS=WRONG)
    assert code == 0 and operators_of(out) == ["input", "sqrt"], said


OF_TENSORS = """
import torch, dynoc
def fn(x, w):
    y = torch.nn.functional.linear(x, w).sqrt() + 1
    order = torch.argsort(x, dim=1)
    return torch.sqrt(order.double()), torch.linalg.qr(y)[1] + 1
dynoc.optimize(fn, wait=True)(torch.rand(6, 6) + 1, torch.rand(6, 6))
"""


def test_a_graph_of_tensors(tmp_path):
    pytest.importorskip("torch")
    folder = debug_folder(tmp_path, OF_TENSORS)
    code, out, said = run_python(["-m", "dynoc", "minify", str(folder)], DYNOC_CFLAGS=WRONG)
    assert code == 0, said + out
    operators = operators_of(out)
    assert operators[0] == "input" and operators[-1] == "sqrt", out
    code, out, said = run_python(["-m", "dynoc", "minify", str(folder)])
    assert code == 1 and "made again" in out, said


CRASHING = '''\
for word in "$@"; do
    case "$word" in *.c) grep -q "sqrt" "$word" && kill -SEGV $$ ;; esac
done
exec cc "$@"'''


def test_a_graph_that_crashes_the_compiler(folder, tmp_path):
    settings = {"DYNOC_COMPILER": program(tmp_path / "crashing-cc", CRASHING), "DYNOC_CACHE_DIR": tmp_path / "cache"}
    code, out, said = run_python(["-m", "dynoc", "minify", str(folder)], **settings)
    assert code == 0, said + out
    assert operators_of(out) == ["input", "sqrt"]
    assert "it can't be compiled: COMPILER_FAILED" in out


def test_a_graph_that_takes_its_process_along(folder, tmp_path):
    """A generated kernel that stops at an instruction that there isn't."""
    crash = "-D__builtin_sqrt(x)=(__builtin_trap(),x)"
    code, out, said = run_python(["-m", "dynoc", "minify", str(folder)], DYNOC_CFLAGS=crash, DYNOC_CACHE_DIR=tmp_path / "cache")
    assert code == 0, said + out
    assert operators_of(out) == ["input", "sqrt"]
    assert "ends by SIGILL" in out


def test_a_graph_that_is_right_and_misuse(folder, tmp_path):
    code, out, _ = run_python(["-m", "dynoc", "minify", str(folder / "graph.txt")])
    assert code == 1 and "gives what the reference interpreter gives" in out
    code, _, said = run_python(["-m", "dynoc", "minify", str(tmp_path / "none")])
    assert code == 2 and said.startswith("python -m dynoc minify FOLDER")
    (tmp_path / "graph.txt").write_text("no graph\n")
    code, _, said = run_python(["-m", "dynoc", "minify", str(tmp_path)])
    assert code == 2 and "isn't understood" in said


def test_a_graph_is_read_and_written_as_it_is(folder):
    text = (folder / "graph.txt").read_text()
    written = _minify.Graph.read(text).text()
    assert _dynoc._graph_roundtrip(written) == _dynoc._graph_roundtrip(text)


def test_what_is_left_out_leaves_a_graph(folder):
    graph = _minify.Graph.read((folder / "graph.txt").read_text())
    graphs = 0
    for smaller in _minify.shorter(graph):
        try:
            graphs += len(_dynoc._graph_roundtrip(smaller.text())) > 0
        except ValueError:  # a size without an input, or one that doesn't go with another
            continue
    assert graphs > 8
