"""python -m dynoc explain, cache, doctor --json, --version; and the notebook's cell magic."""

import html
import json
import os
import re
import subprocess
import sys
import time
from html.parser import HTMLParser

import numpy as np
import pytest
from compare import dynoc
from process import environment_of, run_python

PROGRAM = """
import sys
import numpy as np

class Model:
    def step(self, x):
        print("a step")
        return np.cos(x) + x * 2

def unused(x):
    return x + 1

print(sys.argv[1:], __name__, Model().step(np.zeros(3)).tolist())
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_explain_runs_the_program_and_tells_of_one_function(program):
    code, out, err = run_python(["-m", "dynoc", "explain", f"{program}::Model.step", "-x", "7"])
    assert (code, out) == (0, "a step\n['-x', '7'] __main__ [1.0, 1.0, 1.0]\n")
    assert err.startswith("Model.step: 1 graph, 1 graph break, 3 operations\n\nbreaks\n  OPAQUE_CALL")
    assert f'{program}:7: in Model.step\n                print("a step")' in err


def test_explain_of_a_function_that_is_not_called(program):
    code, _, err = run_python(["-m", "dynoc", "explain", f"{program}::unused"])
    assert code == 0 and err.startswith("unused was not captured: the program never called it")


@pytest.mark.parametrize("words", [["doctor"], ["reason", "DTYPE"], ["cache", "info"], ["--help"], ["--version"]])
def test_commands_whose_reader_went_away_end_without_a_word(words):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        done = subprocess.run([sys.executable, "-m", "dynoc", *words], env=environment_of(), stdout=pipe, stderr=-1, text=True)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_program_whose_reader_went_away_ends_as_under_plain_python(program):
    read, write = os.pipe()
    os.close(read)
    said = []
    with os.fdopen(write, "w") as pipe:
        for before in (["-m", "dynoc"], []):
            command = [sys.executable, *before, str(program)]
            done = subprocess.run(command, env=environment_of(), stdout=pipe, stderr=-1, text=True)
            said.append((done.returncode, done.stderr))
    assert said[0] == said[1] and "BrokenPipeError" in said[0][1]


def test_a_report_that_cannot_be_written_is_said_before_the_program_runs(program, tmp_path):
    for path, why in ((tmp_path / "none" / "report.html", "is no folder that can be written"), (tmp_path, "it is a folder")):
        code, out, said = run_python(["-m", "dynoc", "--report", str(path), str(program)])
        assert (code, out) == (1, "") and said.startswith(f"python -m dynoc: --report {path}: ") and said.endswith(f"{why}\n")


ABSENT = [("::missing", "defines no function missing"), ("", "FILE::FUNCTION"), ("::Model", "no function")]


@pytest.mark.parametrize("target, said", ABSENT)
def test_explain_of_what_is_not_there(program, target, said):
    code, out, err = run_python(["-m", "dynoc", "explain", f"{program}{target}"])
    assert code != 0 and out == "" and said in err and "Traceback" not in err


def test_explain_of_a_program_that_fails(program):
    program.write_text("def f(x):\n    return x + 1\n\nf(1) + ''\n")
    code, _, err = run_python(["-m", "dynoc", "explain", f"{program}::f"])
    assert code == 1 and f'File "{program}", line 4, in <module>' in err and "__main__.py" not in err


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o700)
    for i, days in enumerate((0, 10, 100)):
        path = tmp_path / "cache" / f"{i:064x}.so"
        path.write_bytes(b"x" * 5000)
        os.utime(path, (time.time() - days * 86400,) * 2)
    (tmp_path / "cache" / "mine.so").write_text("not dynoc's")
    return tmp_path / "cache"


def cache(folder, *words):
    code, out, err = run_python(["-m", "dynoc", "cache", *words], DYNOC_CACHE_DIR=folder)
    return code, out + err


def test_cache_info(folder):
    code, said = cache(folder, "info")
    assert code == 0 and f"{folder}: 3 objects" in said and "between 0.0 and 100.0 days ago" in said


@pytest.mark.parametrize("words, left", [(["prune"], 2), (["prune", "5"], 1), (["clear"], 0)], ids=str)
def test_cache_objects_are_removed_and_nothing_else(folder, words, left):
    assert cache(folder, *words)[0] == 0
    assert len(list(folder.glob("0*.so"))) == left and (folder / "mine.so").exists()


def test_an_empty_cache(tmp_path):
    assert cache(tmp_path / "none", "info")[0] == cache(tmp_path / "none", "clear")[0] == 0


@pytest.mark.parametrize("words", [[], ["fill"], ["prune", "x"], ["prune", "1", "2"], ["info", "1"]], ids=str)
def test_cache_is_told_what_it_does_not_know(folder, words):
    code, said = cache(folder, *words)
    assert code == 2 and "cache clear" in said and len(list(folder.iterdir())) == 4


def test_what_was_removed_is_compiled_again(tmp_path):
    program = "import numpy as np, dynoc; print(dynoc.optimize(lambda x: np.cos(x) + x, wait=True)(np.zeros(3)).tolist())"
    for _ in range(2):
        assert run_python(["-c", program], DYNOC_CACHE_DIR=tmp_path / "cache")[:2] == (0, "[1.0, 1.0, 1.0]\n")
        assert list((tmp_path / "cache").glob("*.so"))
        assert cache(tmp_path / "cache", "clear")[0] == 0


def test_version():
    assert run_python(["-m", "dynoc", "--version"])[:2] == (0, f"dynoc {dynoc.__version__}\n")


def test_doctor_for_programs(tmp_path):
    code, out, _ = run_python(["-m", "dynoc", "doctor", "--json"], DYNOC_CACHE_DIR=tmp_path)
    said = json.loads(out)
    assert code == 0 and said["dynoc"] == dynoc.__version__
    assert said["checks"]["NumPy"] == {"state": "ok", "found": f"numpy {np.__version__}", "advice": ""}
    assert run_python(["-m", "dynoc", "doctor", "--xml"])[0] == 2


class Shell:
    """What the magic needs of IPython."""

    def __init__(self):
        self.magics, self.names = {}, {}

    def register_magic_function(self, function, kind, name):
        self.magics[kind, name] = function

    def run_cell(self, cell):
        exec(cell, self.names)


CELL = """
import numpy as np
def f(x):
    return np.sin(x) * 2 + x
for _ in range(4):
    y = f(np.ones(2000))
"""


def test_the_cell_magic_runs_a_cell_under_dynoc():
    shell = Shell()
    dynoc.load_ipython_extension(shell)
    dynoc.counters.clear()
    shell.magics["cell", "dynoc"]("--wait", CELL)
    assert dynoc.counters["graphs"]["captured"] >= 1
    assert np.array_equal(shell.names["y"], np.sin(np.ones(2000)) * 2 + 1)
    with pytest.raises(dynoc.ConfigError, match="--fast.*--wait"):
        shell.magics["cell", "dynoc"]("--fast", CELL)


PROGRAM_OF_ARRAYS = """
import numpy as np, dynoc
for k in range(3):
    print(dynoc.optimize(eval(f"lambda x: x * {k + 2} + np.sqrt(x)"), wait=True)(np.ones(3)))
"""
WRONG_SETTINGS = [
    ({"DYNOC_COMPILER": "/bin/false"}, "COMPILER_FAILED"),
    ({"DYNOC_CFLAGS": "-no-such-option"}, "COMPILER_FAILED"),
    ({"DYNOC_COMPILER": "/nonexistent"}, "NO_COMPILER"),
    ({"DYNOC_CACHE_DIR": "/proc/none"}, "CACHE_IO"),
    ({"DYNOC_DEBUG": 1, "DYNOC_DEBUG_DIR": "/proc/none"}, "NO_FOLDER"),
    ({"DYNOC_TRACE": "/proc/none/trace.json"}, "DYNOC_TRACE"),
]


@pytest.mark.parametrize("settings, what", WRONG_SETTINGS)
def test_what_cannot_be_used_is_said_once_by_dynoc(tmp_path, settings, what):
    (tmp_path / "program.py").write_text(PROGRAM_OF_ARRAYS)
    plain = run_python([str(tmp_path / "program.py")], DYNOC_CACHE_DIR=tmp_path / "cache")
    code, out, said = run_python([str(tmp_path / "program.py")], **{"DYNOC_CACHE_DIR": tmp_path / "none", **settings})
    assert (code, out) == plain[:2] and plain[2] == ""
    assert said.startswith("[dynoc] ") and said.count(what) == 1 and "Traceback" not in said


BAD_SETTINGS = [("WAIT", "maybe"), ("THREADS", "x"), ("NO_SUCH", "1"), ("LOGS", "x"), ("CACHE_LIMIT", "-1")]


@pytest.mark.parametrize("name, text", BAD_SETTINGS)
def test_a_wrong_setting_ends_the_command_in_one_line(tmp_path, name, text):
    (tmp_path / "program.py").write_text("print('never')")
    code, out, said = run_python(["-m", "dynoc", str(tmp_path / "program.py")], **{f"DYNOC_{name}": text})
    assert code == 1 and out == "" and said.count("\n") == 1
    assert said.startswith("python -m dynoc: ") and name.lower() in said.lower()


class Boxes(HTMLParser):
    """How many nodes and arrows are drawn, and whether tags close as they open."""

    def __init__(self, text):
        super().__init__()
        self.open, self.classes = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.classes.append(dict(attributes).get("class", "").split(" ")[0])

    def handle_startendtag(self, tag, attributes):
        self.classes.append(dict(attributes).get("class", ""))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_notebook_draws_graphs_and_shows_reports_and_profiles(tmp_path):
    fast = dynoc.optimize(lambda x, y: np.cos(x) * y + y, wait=True)
    with dynoc.profile() as profile:
        fast(np.ones(3), np.ones(3))
    traced = dynoc.trace(lambda x, y: np.cos(x) * y + y)(np.ones(3), np.ones(3))
    for graph in (fast.entries[0].graph, traced, traced.graph):
        drawn = Boxes(graph._repr_html_()).classes
        assert (drawn.count("node"), drawn.count("edge")) == (5, 5)
    assert "dynoc profile" in profile._repr_html_()
    report = dynoc.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    frame = re.fullmatch(r'<iframe srcdoc="([^"]*)".*', report._repr_html_(), re.DOTALL)
    assert html.unescape(frame[1]) == page and repr(report).endswith(f"in {tmp_path / 'report.html'}>")
    assert "<iframe" in dynoc.report()._repr_html_()
