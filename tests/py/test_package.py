"""The package: its face, its files, its docstrings, the command line, and what the extension shows to the linker."""

import ast
import doctest
import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from compare import dynoc
from process import output_of, run_python

HERE = Path(dynoc.__file__).parent
MODULES = ("dynoc", "dynoc._config", "dynoc._control", "dynoc._errors", "dynoc._explain", "dynoc._optimize", "dynoc._graph")
MODULES += ("dynoc._capture", "dynoc._backends")


def test_all_is_there():
    for name in dynoc.__all__:
        assert getattr(dynoc, name) is not None
        assert name in dir(dynoc)


def test_files_for_type_checkers():
    assert (HERE / "py.typed").exists()
    tree = ast.parse((HERE / "__init__.pyi").read_text())
    declared = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    declared |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    assert set(dynoc.__all__) <= declared
    config = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Config")
    assert {node.target.id: node.annotation.id for node in config.body} == {
        name: row[0].__name__ for name, row in dynoc._config.NAMES.items()
    }


def test_stub_of_the_extension_names_what_it_has():
    tree = ast.parse((HERE / "_dynoc.pyi").read_text())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            assert callable(getattr(dynoc._dynoc, node.name))


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    module = __import__(name, fromlist=["_"])
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_public_functions_are_documented():
    for name in dynoc.__all__:
        value = getattr(dynoc, name)
        if callable(value):
            assert inspect.getdoc(value), name


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="nm of an ELF file")
def test_the_extension_exports_one_symbol():
    out = subprocess.run(
        ["nm", "-D", "--defined-only", dynoc._dynoc.__file__], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in out.splitlines() if line.split()[-2] in "TDBR"}
    assert {name for name in names if not name.startswith(("__asan", "__ubsan", "__odr_asan", "_init", "_fini"))} == {
        "PyInit__dynoc"
    }


def norm(x, y=2.0, *, z=1.0):
    """A docstring."""
    return np.sqrt(x * x + y) * z


def test_decorator_with_and_without_arguments():
    one, two = dynoc.optimize(norm), dynoc.optimize(fullgraph=False)(norm)
    for fast in (one, two):
        assert isinstance(fast, dynoc._dynoc.OptimizedFunction)
        assert fast.__wrapped__ is norm and fast.__name__ == "norm" and fast.__doc__ == "A docstring."
        assert inspect.signature(fast) == inspect.signature(norm)


def test_disable_gives_the_function_itself():
    assert dynoc.optimize(norm, disable=True) is norm
    assert dynoc.optimize(disable=True)(norm) is norm


def test_optimize_twice_is_optimize_once():
    fast = dynoc.optimize(dynoc.optimize(norm), wait=True)
    assert fast.__wrapped__ is norm
    x = np.arange(4.0)
    assert np.array_equal(fast(x), norm(x))


def test_what_is_no_function():
    for value in (3, None.__class__(), np.ones(3), "name"):
        if value is not None:
            with pytest.raises(TypeError, match="takes a function or method"):
                dynoc.optimize(value)


class Layer:
    def __init__(self, scale):
        self.scale = scale

    def apply(self, x):
        return x * self.scale

    def __call__(self, x):
        return x + self.scale

    @dynoc.optimize
    def decorated(self, x):
        return x - self.scale

    @dynoc.optimize
    @staticmethod
    def static(x):
        return x + x

    @dynoc.optimize
    @classmethod
    def name_of(cls, x):
        return cls.__name__, x + x


def test_methods_and_callables():
    layer, x = Layer(3.0), np.arange(3.0)
    assert dynoc.optimize(layer.apply)(x).tolist() == [0, 3, 6]
    assert dynoc.optimize(layer)(x).tolist() == [3, 4, 5]
    assert layer.decorated(x).tolist() == [-3, -2, -1]
    assert Layer.static(x).tolist() == layer.static(x).tolist() == [0, 2, 4]
    assert layer.name_of(x)[0] == "Layer"


def test_entries_and_source():
    fast = dynoc.optimize(norm, wait=True)
    assert list(fast.entries) == []
    x = np.arange(4.0)
    fast(x)
    (entry,) = fast.entries
    assert any("x.dtype == float64" in guard for guard in entry.guards)
    text = entry.graph.print_readable(print_output=False)
    assert "sqrt" in text
    assert entry.tier == "native" and "sqrt" in entry.source and fast.source() == entry.source
    assert entry.code.co_name == "norm"
    before = entry.hits
    fast(x)
    assert fast.entries[0].hits == before + 1
    dynoc.reset()
    assert list(fast.entries) == []


PROGRAM = """
import sys
import numpy as np

def work(x):
    return np.cos(x) + np.sin(x)

def main():
    for _ in range(3):
        y = work(np.zeros(4))
    print(__name__, sys.argv[1:], y.tolist())

main()
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_run_a_script(program):
    code, out, err = run_python(["-m", "dynoc", "--wait", str(program), "--wait", "a b"])
    assert (code, out, err) == (0, "__main__ ['--wait', 'a b'] [1.0, 1.0, 1.0, 1.0]\n", "")


def test_run_a_module(program):
    text = f"import sys; sys.path.insert(0, {str(program.parent)!r}); sys.argv[1:] = ['-m', 'program', 'a']"
    text += "\nimport runpy; runpy.run_module('dynoc', run_name='__main__', alter_sys=True)"
    assert output_of(text) == "__main__ ['a'] [1.0, 1.0, 1.0, 1.0]"


def test_summary(program):
    code, _, err = run_python(["-m", "dynoc", "--summary", "--wait", str(program)])
    assert code == 0 and "dynoc summary:" in err and "graphs" in err


def test_a_script_that_fails_fails_as_without_dynoc(tmp_path):
    path = tmp_path / "fails.py"
    path.write_text("def f(x):\n    return 1 / x\n\nprint('before')\nf(0)\n")
    plain, fast = run_python([str(path)]), run_python(["-m", "dynoc", str(path)])
    assert plain == fast and plain[0] == 1


def test_exit_codes_are_kept(tmp_path):
    path = tmp_path / "exits.py"
    path.write_text("import sys; sys.exit(7)")
    assert run_python(["-m", "dynoc", str(path)])[0] == 7


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "no script was given"),
        (["--nonsense", "x.py"], "unknown option --nonsense"),
        (["--backend"], "wants a value"),
        (["--backend=numba", "x.py"], "Valid back ends: dynoc, eager"),
        (["--logs", "gards", "x.py"], "Valid categories"),
        (["-m"], "wants the name of a module"),
        (["nowhere.py"], "can't open file"),
    ],
)
def test_wrong_command_lines(words, said):
    code, _, err = run_python(["-m", "dynoc", *words])
    assert code in (1, 2) and said in err and "Traceback" not in err


def test_doctor(tmp_path):
    code, out, _ = run_python(["-m", "dynoc", "doctor"], DYNOC_CACHE_DIR=tmp_path)
    assert code == 0
    for word in (
        "Python",
        "compiler",
        "instruction sets",
        "OpenMP",
        "NVRTC",
        "NumPy",
        "PyTorch",
        "CuPy",
        "cache folder",
        str(tmp_path),
    ):
        assert word in out


def test_doctor_without_a_compiler(tmp_path):
    code, out, _ = run_python(["-m", "dynoc", "doctor"], DYNOC_COMPILER="/nonexistent/cc")
    assert code == 1 and "install gcc or clang" in out


def test_doctor_says_when_others_can_write_to_the_cache(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    code, out, _ = run_python(["-m", "dynoc", "doctor"], DYNOC_CACHE_DIR=folder)
    assert code == 1 and "write to it" in out


def test_version_is_the_one_of_the_metadata():
    setup = Path(__file__).resolve().parents[2] / "setup.cfg"
    assert f"version = {dynoc.__version__}\n" in setup.read_text()
    assert os.path.basename(HERE) == "dynoc"
