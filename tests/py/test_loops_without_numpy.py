"""Programs that haven't imported NumPy: their loops become native without it, and what they import later is served as ever."""

import textwrap

import pytest
from going_over import HAS
from process import output_of

pytestmark = pytest.mark.skipif(not HAS, reason="calls stay in the code that they began in")

# `over()` makes the loop of the function that calls it native, as if it had run for long.
HEAD = """
import sys
import dynoc
from dynoc import _dynoc, _optimize
dynoc.enable()
_optimize.start_for_loops()
over = _dynoc._go_over
def native():
    return dynoc.counters["loops"].get("native", 0)
def made_native(function, *args):
    before = native()
    got = [function(*args)]
    while native() == before and len(got) < 100:
        dynoc.wait()
        got.append(function(*args))
    assert native() > before, dynoc.counters["loops"]
    assert all(repr(one) == repr(got[0]) for one in got), got
    return got[0]
"""


def output(program):
    return output_of(HEAD + textwrap.dedent(program))


LOOPS = {
    "ints": """
        def loop(n):
            s = 0
            for i in range(n):
                if i == 3:
                    over()
                s = (s * 7 + i) % 1000003
            return s
        """,
    "floats": """
        def loop(n):
            s, i = 0.0, 0
            while i < n:
                if i == 3:
                    over()
                s += i ** 0.5 / (i + 1.5)
                i += 1
            return s
        """,
    "complex numbers": """
        def loop(n):
            z = 0j
            for i in range(n):
                if i == 3:
                    over()
                z = z * z * 0.25 + 0.5j
            return z
        """,
    "lists": """
        def loop(n):
            xs = [0.5] * 10
            for i in range(n):
                if i == 3:
                    over()
                xs[i % 10] += xs[(i + 3) % 10] * 0.5
                if i % 100 == 0:
                    xs.append(float(i))
            return xs
        """,
    "texts": """
        def loop(n):
            text, found = "abcdefgh" * 10, 0
            for i in range(n):
                if i == 3:
                    over()
                if text[i % 80] == "c":
                    found += 1
            return found
        """,
    "dicts": """
        def loop(n):
            d = {}
            for i in range(n):
                if i == 3:
                    over()
                d[i % 7] = d.get(i % 7, 0) + i
            return d
        """,
    "functions": """
        import math
        def part(x, y):
            return math.sqrt(x * x + y * y) + abs(-x)
        def loop(n):
            s = 0.0
            for i in range(n):
                if i == 3:
                    over()
                s += part(i, 2.5)
            return s
        """,
    "instances": """
        class Body:
            def __init__(self):
                self.x, self.v = 0.0, 1.0
            def step(self, dt):
                self.x += self.v * dt
        def loop(n):
            body = Body()
            for i in range(n):
                if i == 3:
                    over()
                body.step(0.125)
            return body.x, body.v
        """,
    "an integer that overflows": """
        def loop(n):
            s = 1
            for i in range(n):
                if i == 3:
                    over()
                s += s if i > n - 80 else 1
            return s
        """,
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_loops_become_native_without_numpy(loop):
    program = textwrap.dedent(loop) + "print(made_native(loop, 3000) is not None, 'numpy' in sys.modules, _dynoc.has_arrays())\n"
    assert output(program) == "True False False"


def test_a_loop_that_raises():
    program = """
        import traceback
        def loop(n):
            s = 0
            for i in range(n):
                if i == 3:
                    over()
                s += 10 // (n - 2 - i)
            return s
        lines = set()
        for _ in range(4):
            try:
                loop(3000)
            except ZeroDivisionError as e:
                lines.add((str(e), traceback.extract_tb(e.__traceback__)[1].line))
            dynoc.wait()
        print(len(lines), native() > 0, "numpy" in sys.modules)
        """
    assert output(program) == "1 True False"


# The same loop is native on both sides of the import; the arrays are those of a function that is captured.
LATE = """
import warnings
def late():
    {imports}
def halves(xs, n):
    s = 0.0
    for i in range(n):
        if i == 3:
            over()
        if i == 2000 and xs is None:
            late()
        s += i * 0.5
    return s
def total(xs):
    s = 0
    for i, x in enumerate(xs):
        if i == 3:
            over()
        s = s + x
    return s
def work(x):
    for _ in range(3):
        x = np.cos(x) + np.sin(x)
    return x
before = made_native(halves, [], 3000)
numbers = [float(i) for i in range(300)]
sums = [made_native(total, numbers)]
assert "numpy" not in sys.modules
after = halves(None, 3000)
import numpy as np
sums += [total([np.float64(i) for i in range(300)]), total(numbers), total(np.arange(300.0)), total([np.int8(100)] * 1)]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    sums.append(total([np.int8(100), np.int8(100)]))
for _ in range(40):
    y = work(np.zeros(4))
dynoc.wait()
print(before == after == halves([], 3000), _dynoc.has_arrays(), dynoc.counters["frames"]["recorded"] > 0)
print([(type(s).__name__, s.item() if hasattr(s, "item") else s) for s in sums], [w.category.__name__ for w in caught])
"""


@pytest.mark.parametrize(
    "imports",
    [
        "exec('import numpy')",
        "import importlib; importlib.import_module('numpy.linalg')",
        "import threading; t = threading.Thread(target=__import__, args=('numpy',)); t.start(); t.join()",
        "(lambda: __import__('numpy'))()",
        "exec('dynoc.disable(); import numpy; dynoc.enable()')",
    ],
)
def test_numpy_comes_in_the_midst_of_a_loop(imports):
    sums = (
        "[('float', 44850.0), ('float64', 44850.0), ('float', 44850.0), ('float64', 44850.0), ('int8', 100), ('int8', -56)] "
        "['RuntimeWarning']"
    )
    assert output(LATE.replace("{imports}", imports)) == "True True True\n" + sums


LIST = """
def total(xs):
    s = 0.0
    for i in range(len(xs)):
        if i == 3:
            over()
        s = s + xs[i]
    return s
plain = [0.5] * 2000
made_native(total, plain)
{then}
"""


def test_numbers_of_numpy_come_into_a_loop_that_was_native_before():
    then = """
import numpy as np
mixed = plain[:1000] + [np.float64(0.5)] + plain[:999]
got = [total(mixed), total(plain), total(np.array(plain)), total([np.float32(0.5)] * 8)]
print([(type(x).__name__, float(x)) for x in got])
"""
    kinds = "[('float64', 1000.0), ('float', 1000.0), ('float64', 1000.0), ('float32', 4.0)]"
    assert output(LIST.replace("{then}", then)) == kinds


def test_a_function_that_is_optimised_later_has_arrays():
    then = """
f = dynoc.optimize(lambda x: x * 2 + 1, wait=True)
import numpy as np
print(f(np.arange(3)).tolist(), f(np.arange(3)).tolist(), len(f.entries), _dynoc.has_arrays(), total(plain))
"""
    assert output(LIST.replace("{then}", then)) == "[1, 3, 5] [1, 3, 5] 1 True 1000.0"


def test_a_child_process_imports_it():
    then = """
import os
child = os.fork()
import_it = child == 0
if import_it:
    import numpy as np
    print(total(plain), total([np.float64(1.5)] * 4), _dynoc.has_arrays(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(total(plain), "numpy" in sys.modules)
"""
    assert output(LIST.replace("{then}", then)) == "1000.0 6.0 True\n1000.0 False"


def test_numpy_that_cannot_be_imported():
    then = """
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            raise ImportError("broken")
sys.meta_path.insert(0, Broken())
for _ in range(2):
    try:
        import numpy
    except ImportError as e:
        print(e)
try:
    dynoc.optimize(lambda x: x)
except ImportError as e:
    print("optimize:", e)
print(total(plain), _dynoc.has_arrays())
"""
    assert output(LIST.replace("{then}", then)) == "broken\nbroken\noptimize: broken\n1000.0 False"


def test_a_numpy_that_does_not_fit():
    then = """
from importlib.machinery import ModuleSpec
class Other:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name == "numpy" else None
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        module.float64 = float
sys.meta_path.append(sys.meta_path.pop(0))
sys.meta_path.insert(0, Other())
_optimize.wait_for_arrays()
import numpy
print(numpy.float64(1), total(plain), _dynoc.has_arrays())
"""
    assert output(LIST.replace("{then}", then)).splitlines()[-1] == "1.0 1000.0 False"


# What the recorder's start imports runs Python code: it finds functions that can't be recorded yet.
WHILE_IT_STARTS = """
import builtins
import collections
import enum
import functools
class Color(enum.Enum):
    RED = 1
def work(x, d):
    c = collections.OrderedDict(a=x)
    return sorted([x * 2, x + 1]), c["a"], Color.RED, functools.partial(max, x)(2), len(d), isinstance(x, int)
called, plain_import = [], builtins.__import__
def watched(name, *args, **keywords):
    if sys._getframe(1).f_code.co_name == "start_late" and not name.startswith("numpy") and not _dynoc.has_arrays():
        f = dynoc.optimize(lambda x, d: work(x, d), wait=True)
        called.append((f, [f(3, {1: 2}) == work(3, {1: 2}) for _ in range(3)]))
    return plain_import(name, *args, **keywords)
builtins.__import__ = watched
import numpy as np
builtins.__import__ = plain_import
print(_dynoc.has_arrays(), len(called) > 3, {len(f.entries) for f, _ in called}, all(all(same) for _, same in called))
f = dynoc.optimize(lambda x: x * 2 + 1, wait=True)
print(f(np.arange(3)).tolist(), len(f.entries))
"""


def test_nothing_is_recorded_while_the_recorder_starts():
    assert output(WHILE_IT_STARTS) == "True True {0} True\n[1, 3, 5] 1"
