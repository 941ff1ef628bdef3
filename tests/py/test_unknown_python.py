"""Interpreters that the extension isn't made for: the package is there, and functions run as plain Python."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compare import dynoc
from process import output_of, run_python, run_script

ROOT = Path(__file__).resolve().parents[2]
FAKE = "import sys; sys.version_info = (3, 16, 0, 'final', 0); import dynoc; "
OTHERS = [python for python in Path.home().glob(".pyenv/versions/*/bin/python") if python.parts[-3].startswith("3.10.")]

USE = """
import copy, inspect, json, pickle, sys
import dynoc
def f(x, y=2, *, z=3):
    "A docstring."
    return x + y + z
class A:
    @dynoc.optimize
    def method(self, x):
        return x
    @dynoc.optimize
    @staticmethod
    def static(x):
        return x
    @dynoc.optimize
    @classmethod
    def named(cls):
        return cls.__name__
fast = dynoc.optimize(f, wait=True)
def depth():
    return len(inspect.stack())
def fails():
    raise KeyError(3)
out = {"value": fast(1), "entries": fast.entries, "source": fast.source(), "name": fast.__name__, "doc": fast.__doc__}
out["signature"] = str(inspect.signature(fast))
out["defaults"] = [list(fast.__defaults__), fast.__kwdefaults__, fast.__code__ is f.__code__, fast.__wrapped__ is f]
out["methods"] = [A().method(3), A.method(A(), 4), A().static(5), A.static(6), A.named()]
out["frames"] = dynoc.optimize(depth)() - depth()
out["twice"] = dynoc.optimize(fast).__wrapped__ is f
out["copies"] = [copy.copy(fast) is fast, copy.deepcopy(fast) is fast, dynoc.run(fast) is fast]
out["pickled"] = [pickle.loads(pickle.dumps(fast))(1), pickle.loads(pickle.dumps(A.method)) is A.method]
out["marks"] = [dynoc.skip(f) is f, dynoc.allow_in_graph(f) is f, dynoc.disallow_in_graph(f) is f]
out["explained"] = str(dynoc.explain(f)(1)).splitlines()[0]
out["counters"] = [dynoc.counters["frames"]["recorded"], dynoc.counters["nothing"]["of this name"]]
dynoc.enable(); dynoc.disable(); dynoc.reset(); dynoc.wait(); dynoc.set_logs(graph=True); dynoc.set_logs()
with dynoc.enabled(fullgraph=True):
    out["tracing"] = [f(1), dynoc.is_tracing(), dynoc.graph_break()]
dynoc.config.cache_limit = 16
out["config"] = [dynoc.config.cache_limit, dynoc.config.cache_dir, "cache_limit = 16  #" in repr(dynoc.config)]
said = []
for wrong in (lambda: setattr(dynoc.config, "cache_limit", 0), lambda: dynoc.optimize(f, mode="x"), lambda: dynoc.config.nothing):
    try:
        wrong()
    except dynoc.ConfigError as error:
        said.append(str(error).partition(":")[0])
out["wrong"] = said
try:
    dynoc.optimize(fails)()
except KeyError as error:
    out["traceback"] = error.__traceback__.tb_next.tb_frame.f_code.co_name
out["all"] = [name for name in dynoc.__all__ if name not in dir(dynoc)]
out["numpy"] = "numpy" in sys.modules
print(json.dumps(out))
"""
USED = {
    "value": 6,
    "entries": [],
    "source": "",
    "name": "f",
    "doc": "A docstring.",
    "signature": "(x, y=2, *, z=3)",
    "defaults": [[2], {"z": 3}, True, True],
    "methods": [3, 4, 5, 6, "A"],
    "frames": 0,
    "twice": True,
    "copies": [True, True, True],
    "pickled": [6, True],
    "marks": [True, True, True],
    "explained": "f: 0 graphs, 0 graph breaks, 0 operations",
    "counters": [0, 0],
    "tracing": [6, False, None],
    "config": [16, "", True],
    "wrong": ["dynoc.config.cache_limit = 0", "there is no mode 'x'. Valid modes", "dynoc.config.nothing"],
    "traceback": "fails",
    "all": [],
    "numpy": False,
}


def test_what_the_package_answers_there():
    code, out, err = run_script(FAKE + USE, DYNOC_CACHE_DIR=None)
    assert code == 0, err
    assert json.loads(out) == USED
    assert err.count("\n") == 1 and "CPython 3.16.0" in err and "run as plain Python" in err and "CPython 3.11" in err


def test_the_words_are_those_of_the_extension():
    text = "from dynoc import _dynoc; print(_dynoc.config_names(), _dynoc.log_names())"
    assert output_of(FAKE + text) == output_of(text)
    assert "UNKNOWN_PYTHON" in (ROOT / "src/base/reasons.def").read_text()


def test_functions_of_the_stub_are_there():
    names = [name for name in dir(dynoc._dynoc) if not name.startswith("_")]
    missing = output_of(FAKE + f"print([name for name in {names} if not hasattr(dynoc._dynoc, name)])")
    # Of what is recorded and compiled, and of waiting for NumPy or for long loops.
    assert missing == "['Entry', 'Part', 'build_info', 'call_in_turn', 'cuda_info', 'watch_loops']"


def test_settings_come_from_the_environment():
    assert output_of(FAKE + "print(dynoc.config.threads)", DYNOC_THREADS=3) == "3"
    code, _, err = run_script(FAKE, DYNOC_THREADS="many")
    assert code == 1 and "ConfigError" in err


def test_pickles_go_from_one_to_the_other():
    text = "import json, pickle, dynoc; print(pickle.dumps(dynoc.optimize(json.dumps)).hex())"
    for before, data in ((FAKE, output_of(text)), ("", output_of(FAKE + text))):
        assert output_of(before + f"import pickle; print(pickle.loads(bytes.fromhex('{data}'))([1]))") == "[1]"


@pytest.mark.parametrize("version, flags, known", [((3, 11), "", True), ((3, 10), "", False), ((3, 11), "t", False)])
def test_which_interpreters_are_known(monkeypatch, version, flags, known):
    from dynoc import _python

    monkeypatch.setattr(sys, "version_info", (*version, 0, "final", 0))
    monkeypatch.setattr(sys, "abiflags", flags)
    assert _python.is_known() is known
    assert ("free-threaded" in _python.description()) is (flags == "t")
    monkeypatch.setattr(sys.implementation, "name", "pypy")
    assert not _python.is_known() and "PyPy" in _python.description()


def test_doctor_shows_it(tmp_path):
    path = tmp_path / "doctor.py"
    path.write_text(FAKE + "sys.argv = ['-m', 'doctor']; import runpy; runpy.run_module('dynoc', run_name='__main__')")
    code, out, err = run_python([str(path)])
    assert code == 1 and err == ""
    assert "MISSING" in out.splitlines()[1] and "CPython 3.16.0" in out.splitlines()[1] and "plain Python" in out.splitlines()[1]
    assert "NumPy" in out and "compiler" not in out


def test_a_whole_program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import sys; print(__file__, sys.argv[1:]); sys.exit(4)")
    main = f"sys.argv = ['dynoc', {str(path)!r}, 'a']; import runpy; runpy.run_module('dynoc', run_name='__main__')"
    assert run_script(FAKE + main)[:2] == (4, f"{path} ['a']\n")


@pytest.mark.any_interpreter
@pytest.mark.skipif(not OTHERS, reason="no CPython 3.10 here")
def test_on_an_interpreter_that_is_not_known(tmp_path):
    shutil.copytree(ROOT / "src" / "dynoc", tmp_path / "dynoc")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("DYNOC_", "PYTHON"))}
    done = subprocess.run([OTHERS[0], "-c", USE], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == USED
    assert done.stderr.count("\n") == 1 and "CPython 3.10." in done.stderr
