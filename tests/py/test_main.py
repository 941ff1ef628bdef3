"""`python -m dynoc` runs a program as `python` itself does: what the program sees of itself, what it writes, how it ends."""

import os
import py_compile
import signal
import subprocess
import sys
import zipfile

import pytest

from going_over import HAS
from process import run_python

LOOKS = """
import sys
shown = {name: repr(value).partition(" at 0x")[0] for name, value in globals().items() if name not in ("sys", "shown")}
print(sorted(shown.items()))
print(sys.argv, sys.path, sys.flags.optimize, sys.excepthook is sys.__excepthook__, sys.stdin.isatty())
print(sys.modules["__main__"].__dict__ is globals(), sys._getframe().f_code.co_filename, type(__builtins__).__name__)
"""
ENDS = {
    "its end": "print(1)",
    "exit 7": "import sys; sys.exit(7)",
    "exit None": "import sys; sys.exit()",
    "exit text": "import sys; sys.exit('a message')",
    "exit builtin": "raise SystemExit(3.5)",
    "os._exit": "import os; os._exit(9)",
    "exception": "def f(x):\n    return 1 / x\n\nprint('before')\nf(0)\n",
    "exception with a cause": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError(3) from error\n",
    "exception in a context": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    [][0]\n",
    "exception group": "raise ExceptionGroup('two', [ValueError(1), TypeError(2)])\n",
    "syntax error": "print(1)\nx = (1,\n  2 3)\n",
    "indentation error": "if 1:\nprint()\n",
    "keyboard interrupt": "raise KeyboardInterrupt\n",
    "signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "assertion": "assert 1 == 2, 'no'\n",
    "recursion": "def f(n):\n    return f(n + 1)\n\ntry:\n    f(0)\nexcept RecursionError as e:\n    print(e)\n",
    "depth of recursion": (
        "import sys\ndef f(n=0):\n    try:\n        return f(n + 1)\n    except RecursionError:\n        return n\n\nprint(f())\n"
        "sys.setrecursionlimit(300)\nprint(f())\ntry:\n    sys.setrecursionlimit(1)\nexcept RecursionError as e:\n    print(e)\n"
    ),
    "own excepthook": "import sys\nsys.excepthook = lambda *_: print(_[0], _[2].tb_frame.f_code.co_name, _[2].tb_next)\n[][0]\n",
    "last traceback": "import atexit, sys\natexit.register(lambda: print(sys.last_traceback.tb_next))\n[][0]\n",
    "hook at exit": "import atexit, sys\natexit.register(lambda: print(sys.excepthook is sys.__excepthook__))\n[][0]\n",
    "in a thread": "import threading\nt = threading.Thread(target=lambda: [][0], name='T')\nt.start()\nt.join()\n",
    "at exit": "import atexit\natexit.register(print, 'bye')\nraise ValueError\n",
    "traceback printed": "import traceback\ntry:\n    [][0]\nexcept IndexError:\n    traceback.print_exc()\n",
    "import error": "import nothing_of_this_name\n",
    "future": "from __future__ import annotations\ndef f(x: nowhere): pass\nprint(f.__annotations__)\n",
    "no futures of ours": "def f(x: int): pass\nprint(f.__annotations__)\n",
    "coding": "# coding: latin-1\nprint(ascii('\u00e4'))\n",
    "byte order mark": "\xef\xbb\xbfprint(1)\n",
    "warning of the compiler": "print(1 is 1)\nassert (1, 'never')\n",
    "flags of the compiler": "def f():\n    'a docstring'\n    assert 0\n\nprint(f.__code__.co_flags, f.__code__.co_consts)\n",
    "empty": "",
    "pickles": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)\n",
    "source of itself": "import inspect\ndef f(): pass\nprint(inspect.getsource(f))\n",
    "spawned children": (
        "import multiprocessing as mp\ndef f(x):\n    return x + 1\n"
        "if __name__ == '__main__':\n    with mp.get_context('spawn').Pool(1) as pool:\n        print(pool.map(f, [1, 2]))\n"
    ),
    "imports itself": "def f(): pass\nif __name__ == '__main__':\n    import program\n    print(program.f is f)\n",
}  # fmt: skip


def both(before, after, folder, *, stdin="", **environment):
    """(returncode, stdout, stderr) of `python` and of `python -m dynoc`, with the same words before and behind."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **environment}
    for command in ([], ["-m", "dynoc"]):
        words = [sys.executable, *before, *command, *after]
        done = subprocess.run(words, cwd=folder, env=env, input=stdin, capture_output=True, text=True, timeout=60)
        yield done.returncode, done.stdout, done.stderr


def assert_same(before, after, folder, **how):
    plain, ours = both(before, after, folder, **how)
    assert ours == plain
    return plain


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "program.py").write_text(LOOKS)
    (tmp_path / "below" / "program.py").write_text(LOOKS)
    (tmp_path / "below" / "__main__.py").write_text(LOOKS)
    (tmp_path / "below" / "__init__.py").write_text("")
    (tmp_path / "link.py").symlink_to("below/program.py")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as packed:
        packed.writestr("__main__.py", LOOKS)
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as packed:
        packed.writestr("other.py", LOOKS)
    (tmp_path / "hollow").mkdir()
    py_compile.compile(str(tmp_path / "program.py"), str(tmp_path / "compiled.pyc"), doraise=True)
    return tmp_path


@pytest.mark.parametrize("flags", [[], ["-P"], ["-O"]], ids=str)
@pytest.mark.parametrize(
    "target",
    ["program.py", "./program.py", "below/program.py", "below/../program.py", "link.py", "compiled.pyc", "below", "packed.zip"],
)
def test_what_a_program_sees_of_itself(folder, target, flags):
    code, out, err = assert_same(flags, [target, "-x", "--wait", "a b"], folder)
    assert code == 0 and "--wait" in out and err == ""


def test_absolute_paths(folder):
    assert assert_same([], [str(folder / "link.py")], "/")[0] == 0
    assert assert_same([], [str(folder / "below")], "/")[0] == 0


@pytest.mark.parametrize("flags", [[], ["-P"]], ids=str)
@pytest.mark.parametrize("name", ["program", "below", "below.program", "below.nothing", "nothing", "hollow", "os.path"])
def test_modules(folder, name, flags):
    environment = {"PYTHONPATH": os.pathsep.join([*(p for p in sys.path if p), str(folder)])} if flags else {}
    code, out, _ = assert_same(flags, ["-m", name, "-x", "--wait"], folder, **environment)
    if name != "os.path":  # a module that CPython may have frozen, which can't be run then
        assert (code == 0) == (name.rpartition(".")[2] in ("program", "below")) and (code != 0 or out)


@pytest.mark.parametrize("name", ["hollow", "empty.zip", "nowhere.py", "nowhere/at/all.py"])
def test_what_cant_be_run(folder, name):
    code, _, err = assert_same([], [name], folder)
    assert code != 0 and name.partition("/")[0] in err


def test_standard_input(folder):
    code, out, _ = assert_same([], ["-", "a"], folder, stdin=LOOKS)
    assert code == 0 and "['-', 'a']" in out


@pytest.mark.parametrize("text", ENDS.values(), ids=ENDS.keys())
def test_how_a_program_ends(tmp_path, text):
    (tmp_path / "program.py").write_text(text, encoding="latin-1")
    assert_same([], ["program.py"], tmp_path)


def test_a_program_that_is_not_utf8_is_not_run(tmp_path):
    (tmp_path / "program.py").write_bytes(b"print(1)\n# \xe4\n")
    for way in ([], ["-m", "dynoc"]):
        done = subprocess.run([sys.executable, *way, tmp_path / "program.py"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines()[-1].startswith("SyntaxError: Non-UTF-8 code starting with '\\xe4' in file ")


@pytest.mark.parametrize("end", ["exception", "exit 7", "keyboard interrupt", "syntax error", "import error"])
def test_how_other_forms_end(tmp_path, end):
    (tmp_path / "__main__.py").write_text(ENDS[end])
    (tmp_path / "module.py").write_text(ENDS[end])
    assert assert_same([], ["."], tmp_path)[0] != 0
    assert assert_same([], ["-m", "module"], tmp_path)[0] != 0


@pytest.mark.parametrize("words", [["program.py"], ["-m", "program"]])
def test_the_program_has_the_main_module_that_python_made(tmp_path, words):
    """Python takes that one apart at its end; another would be left to the collector, with all that the program holds."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.first_main = sys.modules['__main__']\n")
    text = "import sys\nprint(sys.modules['__main__'] is sys.first_main, sys.first_main.__name__)\n"
    (tmp_path / "program.py").write_text(text)
    path = os.pathsep.join([str(tmp_path), *(p for p in sys.path if p)])
    ends = [subprocess.run([sys.executable, *how, *words], env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path,
                           capture_output=True, text=True, check=False) for how in ([], ["-m", "dynoc"])]
    assert [(end.returncode, end.stdout) for end in ends] == [(0, "True __main__\n")] * 2, ends[1].stderr


def test_an_interrupt_from_outside(tmp_path):
    path = tmp_path / "program.py"
    # A signal that comes just before a sleep waits for its end.
    path.write_text("import time\nprint('ready', flush=True)\nwhile True:\n    time.sleep(.1)\n")
    ends = []
    for words in ([str(path)], ["-m", "dynoc", str(path)]):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        process = subprocess.Popen(
            [sys.executable, *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        files = [line.split(", ")[0] for line in err.splitlines() if line.startswith("  File")]
        ends.append((process.returncode, files, err.splitlines()[-1]))  # which line it hits is a matter of time
    assert ends[0] == ends[1] == (-signal.SIGINT, [f'  File "{path}"'], "KeyboardInterrupt")


def test_a_program_without_arrays_loads_no_numpy(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import sys; print('numpy' in sys.modules, sys.modules['dynoc']._dynoc.is_started())")
    assert run_python(["-m", "dynoc", str(path)]) == (0, "False False\n", "")


REFUSED = """
import sys
text = "ab"
for i in range(2_000_000):
    t = {of_trip}
print("numpy" in sys.modules, sys.modules["dynoc"]._dynoc.is_started())
"""


@pytest.mark.parametrize("of_trip", ["print(end='')", "'{}-{}'.format(i, i + 1)", "text.encode()", "'-'.join([text, text])"])
def test_no_numpy_for_loops_that_stay_with_cpython(tmp_path, of_trip):
    path = tmp_path / "program.py"
    path.write_text(REFUSED.replace("{of_trip}", of_trip))
    assert run_python(["-m", "dynoc", str(path)]) == (0, "False False\n", "")


LONG = """
import sys, time
def long(n):
    s = 0
    for i in range(n):
        s = (s * 7 + i) % 1000003
    return s
began, total = time.monotonic(), 0
while time.monotonic() - began < 4 and not sys.modules['dynoc']._dynoc.is_started():
    total += long(200_000)
print(total == 0, 'numpy' in sys.modules, sys.modules['dynoc']._dynoc.is_started())
"""


@pytest.mark.parametrize("plain_loops", [False, True])
def test_long_loops_without_arrays_are_found_where_that_is_wanted(tmp_path, plain_loops):
    path = tmp_path / "program.py"
    path.write_text(LONG)
    found = run_python(["-m", "dynoc", str(path)], DYNOC_PLAIN_LOOPS=int(plain_loops))
    assert found == (0, f"False False {plain_loops}\n", "")


@pytest.mark.skipif(not HAS, reason="what the loop comes to is seen where a call may go over to it")
def test_a_long_loop_beside_a_clock_is_found(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(LONG.replace("    s = 0\n", "    s = 0 if time.perf_counter() > 0 and sys.argv else 1\n"))
    assert run_python(["-m", "dynoc", str(path)]) == (0, "False False True\n", "")


FRAMES = """
import time
class Items:
    def __init__(self, n):
        self.n = n
    def __iter__(self):
        return self
    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        return self.n
    def __del__(self):
        sum(range(2000))
class Manager:
    def __enter__(self):
        return self
    def __exit__(self, *_):
        return False
def managed(n):
    with Manager():
        for i in [1, 2, 3]:
            for j in range(n):
                yield_less(j)
def yield_less(j):
    for k in (1, 2):
        j += k
    return j
def own(n):
    for i, item in enumerate(Items(n)):
        for other in list(range(20)):
            i += other
    return [i * x for x in range(n)]
def caught(n):
    i = 0
    for i in range(n):
        try:
            for x in Items(3):
                1 // x
        except ZeroDivisionError:
            pass
        finally:
            for y in range(5):
                i += y
    return i
began = time.process_time()
while time.process_time() - began < 1:
    for f in managed, own, caught:
        for n in 0, 1, 1000:
            f(n)
print("done")
"""


def test_who_looks_at_frames_leaves_them_alone(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(FRAMES)
    assert run_python(["-m", "dynoc", str(path)]) == (0, "done\n", "")


SIGNAL = """
import os, signal, sys, time, traceback
class Due(Exception): pass
def handle(number, frame):
    raise Due(frame.f_code.co_name)
signal.signal(signal.SIGALRM, handle)
class Finder:
    sent = 0
    def find_spec(self, name, path=None, target=None):
        if name in ("math", "gc"):
            Finder.sent += 1
            os.kill(os.getpid(), signal.SIGALRM)
            for _ in range(100):
                pass
sys.meta_path.insert(0, Finder())
def long(n):
    s = 0
    for i in range(n):
        s = (s * 7 + i) % 1000003
    return s
began, caught = time.monotonic(), None
while time.monotonic() - began < 20 and caught is None:
    try:
        long(200_000)
    except Due as due:
        caught = str(due), traceback.extract_tb(due.__traceback__)[1].name
print(caught, Finder.sent > 0)
"""


def test_what_a_handler_raises_while_modules_are_imported_for_a_loop_is_the_programs(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(SIGNAL)
    assert run_python(["-m", "dynoc", str(path)]) == (0, "('long', 'long') True\n", "")


OBJECTS = """
import sys, time
class Item:
    def __init__(self, following):
        self.following, self.value = following, 1
def walk(item, total):
    while item is not None:
        total += item.value
        item = item.following
    return total
last = None
for _ in range(1000):
    last = Item(last)
began, total = time.monotonic(), 0
while time.monotonic() - began < 0.7:
    total = walk(last, total)
print(total > 0, 'numpy' in sys.modules, sys.modules['dynoc']._dynoc.is_started())
"""


def test_nothing_is_started_for_loops_over_linked_objects(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(OBJECTS)
    assert run_python(["-m", "dynoc", str(path)]) == (0, "True False False\n", "")


FOUND = """
import sys
before = len(sys.meta_path)
{first}
import numpy as np
def work(x):
    for _ in range(3):
        x = np.cos(x) + np.sin(x)
    return x
for _ in range(40):
    y = work(np.zeros(4))
import dynoc
print(before - len(sys.meta_path), np.__spec__.loader is np.__loader__, type(np.__loader__).__name__)
print(dynoc.counters["frames"]["recorded"] > 0)
"""


@pytest.mark.parametrize(
    "first",
    [
        "",
        "import importlib.util; assert importlib.util.find_spec('numpy').origin.endswith('__init__.py')",
        "import threading; t = threading.Thread(target=__import__, args=('numpy',)); t.start(); t.join()",
        "import importlib; importlib.import_module('numpy')",
        "import dynoc; dynoc.disable(); sys.meta_path.append(None); sys.meta_path.pop(); dynoc.enable()",
    ],
)
def test_functions_are_found_from_the_import_of_numpy_on(tmp_path, first):
    path = tmp_path / "program.py"
    path.write_text(FOUND.format(first=first))
    assert run_python(["-m", "dynoc", str(path)]) == (0, "1 True SourceFileLoader\nTrue\n", "")


def test_a_numpy_that_fails_fails_as_without_dynoc(tmp_path):
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text("def f():\n    raise ImportError('broken')\n\nf()\n")
    program = "for _ in range(2):\n    try:\n        import numpy\n    except ImportError:\n        traceback.print_exc()\n"
    (tmp_path / "program.py").write_text(f"import traceback\n{program}import numpy\n")
    code, _, err = assert_same([], ["program.py"], tmp_path)
    assert code == 1 and err.count("broken") == 6


def test_a_numpy_that_isnt_one_leaves_the_program_alone(tmp_path):
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text("name = 'mine'\n")
    (tmp_path / "program.py").write_text("import numpy\nprint(numpy.name)\n")
    _, ours = both([], ["program.py"], tmp_path)
    assert ours[:2] == (0, "mine\n") and "run as plain Python" in ours[2]


@pytest.mark.parametrize("option", ["--wait", "--summary"])
def test_options_of_ours_are_not_the_programs(tmp_path, option):
    path = tmp_path / "program.py"
    path.write_text("import sys; print(sys.argv[1:])")
    code, out, _ = run_python(["-m", "dynoc", option, str(path), "a"])
    assert (code, out) == (0, "['a']\n")
