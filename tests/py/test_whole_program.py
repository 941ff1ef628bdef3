"""Whole-program mode: enable() without wait finds functions that work on arrays with no hook installed."""

import dis
import gc
import sys
import threading
import types
import weakref

import numpy as np
import pytest
from compare import dynoc
from process import output_of, run_python

DOORS = sys.version_info >= (3, 12)  # functions have doors; on 3.11 the hook is put in for a while
X = np.linspace(0.1, 1.0, 50)
ENOUGH = 60  # calls after which a function that makes two arrays is found and recorded


@pytest.fixture(autouse=True)
def enabled():
    with dynoc.enabled():
        yield
    dynoc.wait()


@dynoc.skip  # or it is found itself, and calls are inlined into it
def served(fn, *args, calls=20):
    """Does an artifact answer all of so many calls, wholly or in part, once the function had time to be found?"""
    for _ in range(ENOUGH):
        fn(*args)
    dynoc.wait()
    before = count("served") + count("partly"), count("eager")
    for _ in range(calls):
        fn(*args)
    return count("served") + count("partly") - before[0] >= calls and count("eager") == before[1]


def count(key, group="calls"):
    return dynoc.counters[group].get(key, 0) if group in dynoc.counters else 0


# ---- what is found


def chain(x, y):
    z = x * 2.0 + y
    return np.sqrt(z * z + 1.0) - y


def test_a_function_in_a_loop_is_found():
    assert served(chain, X, X)


def test_the_results_are_eager_s():
    z = X * 2.0 + X
    expected = np.sqrt(z * z + 1.0) - X
    for _ in range(ENOUGH * 2):
        assert np.allclose(chain(X, X), expected, rtol=1e-15, atol=0)


class Body:
    def __init__(self):
        self.x = X.copy()

    def energy(self):
        return (self.x * self.x + self.x).sum()

    @property
    def twice(self):
        return self.x * 2.0 + self.x

    @staticmethod
    def still(x):
        return x * 3.0 - x

    @classmethod
    def of_class(cls, x):
        return x * 3.0 + x

    def __call__(self, x):
        return self.x * x + x

    def __add__(self, x):
        return self.x * x - x


@pytest.mark.parametrize(
    "call",
    [
        lambda body: body.energy(),
        lambda body: body.twice,
        lambda body: body.still(X),
        lambda body: body.of_class(X),
        lambda body: body(X),
        lambda body: body + X,
    ],
    ids=["method", "property", "static method", "class method", "call", "operator"],
)
def test_methods_are_found(call):
    body = Body()
    assert served(lambda: call(body))


def test_what_writes_into_arrays_and_makes_none_is_found():
    def in_place(x, y, out):
        np.multiply(x, y, out=out)
        out += x

    assert served(in_place, X, X, X.copy())


def test_closures_made_anew_at_each_call_are_found():
    def make(k):
        return lambda x: x * k + k * k - x

    def fresh(k):
        return make(k)(X)

    assert served(fresh, 3.0)


def test_closures_of_a_caller_that_is_no_array_function():
    """The function that makes the closure has no array work of its own once its closure is served."""

    def scaled(k):
        def scale(x):
            return x * k - k * x * x

        return scale

    results = []
    for i in range(ENOUGH * 4):
        f = scaled(float(i))
        results.append(f(X))
    for i, result in enumerate(results):
        assert np.allclose(result, X * i - i * X * X)
    assert count("served") > 0


def test_functions_defined_later_are_found():
    for _ in range(3):
        space = {"np": np}
        exec("def late(x):\n    return x * 2.0 + np.cos(x)\n", space)
        assert served(space["late"], X)


def test_modules_imported_later_are_found(tmp_path, monkeypatch):
    (tmp_path / "imported_later.py").write_text("import numpy as np\ndef f(x):\n    return np.sin(x) * 2.0 + x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import imported_later

    assert served(imported_later.f, X)


def test_a_function_with_code_shared_by_many():
    twins = [types.FunctionType(chain.__code__, globals(), f"twin{i}") for i in range(5)]
    for twin in twins:
        assert served(twin, X, X)


def test_a_found_function_inlines_another_found_one():
    def inner(x):
        return x * 2.0 + 1.0

    def outer(x):
        return inner(x) * inner(x + 1.0)

    assert served(inner, X)
    assert served(outer, X)
    assert np.allclose(outer(X), (X * 2 + 1) * (X * 2 + 3))


def test_a_running_function_gets_its_door_for_the_next_call():
    def long_one(x, n):
        for _ in range(n):
            x = x * 0.5 + 0.25
        return x

    first = long_one(X, 40)
    assert all(np.allclose(long_one(X, 40), first) for _ in range(3))
    assert count("recorded", "frames") > 0


def test_recursion():
    def halves(x, n):
        return x * 1.0 + 0.0 if n == 0 else halves(x * 0.5, n - 1) + halves(x * 0.5, n - 1)

    for _ in range(6):
        assert np.allclose(halves(X, 5), X)


def test_generators_are_left_alone():
    def steps(x, n):
        for _ in range(n):
            x = x * 0.5 + 1.0
            yield x

    expected = [y.copy() for y in steps(X, 30)]
    for _ in range(5):
        assert all(np.array_equal(a, b) for a, b in zip(steps(X, 30), expected, strict=True))


# ---- what changes under way


def test_code_that_is_replaced():
    def f(x):
        return x * 2.0 + 1.0

    def g(x):
        return x * 3.0 - 1.0

    served(f, X)
    f.__code__ = g.__code__
    for _ in range(ENOUGH):
        assert np.allclose(f(X), X * 3.0 - 1.0)


def test_defaults_and_keywords():
    def f(x, k=2.0, *, scale=1.0):
        return x * k + scale * x

    served(f, X)
    f.__defaults__ = (5.0,)
    f.__kwdefaults__ = {"scale": 2.0}
    for _ in range(5):
        assert np.allclose(f(X), X * 7.0) and np.allclose(f(X, scale=0.0), X * 5.0) and np.allclose(f(k=1.0, x=X), X * 3.0)
    with pytest.raises(TypeError, match=r"f\(\) missing 1 required positional argument: 'x'"):
        f()


def test_an_exception_has_the_function_s_own_traceback():
    def f(x, n):
        y = x * 2.0 + 1.0
        return y / [1][n]

    served(f, X, 0)
    for _ in range(3):
        with pytest.raises(IndexError) as error:
            f(X, 7)
        rows = [entry.name for entry in error.traceback]
        assert rows == ["test_an_exception_has_the_function_s_own_traceback", "f"]


def test_dead_functions_are_not_kept():
    def make():
        return lambda x: x * 2.0 + x

    functions = [make() for _ in range(3)]
    for f in functions:
        served(f, X)
    alive = [weakref.ref(f) for f in functions]
    del f, functions
    gc.collect()
    assert [ref() for ref in alive] == [None] * 3


def test_code_made_without_end_is_not_kept():
    alive = []
    for i in range(2500):
        space = {}
        exec(f"def f(x):\n    return x * {i}.0 + x - x * x + x * x - x * x\n", space)
        f = space["f"]
        for _ in range(3):
            f(X)
        alive.append(weakref.ref(f.__code__))
    del f, space
    gc.collect()
    assert sum(ref() is not None for ref in alive) <= 2000


def test_skip_is_heeded():
    @dynoc.skip
    def f(x):
        return x * 2.0 + 1.0

    def g(x):
        return x * 3.0 + 1.0

    served(g, X)
    dynoc.skip(g)
    assert not served(f, X) and not served(g, X)


def test_reset_forgets_and_finds_again():
    assert served(chain, X, X)
    dynoc.reset()
    before = count("recorded", "frames")
    assert served(chain, X, X)
    assert count("recorded", "frames") > before


# ---- on and off


def test_disable_takes_everything_back():
    def f(x):
        return x * 2.0 + 1.0

    assert served(f, X)
    dynoc.disable()
    before = {group: dict(dynoc.counters[group]) for group in ("calls", "frames", "finder")}
    for _ in range(ENOUGH):
        assert np.array_equal(f(X), X * 2.0 + 1.0)
        assert np.array_equal((lambda x: x * 2.0 + x)(X), X * 2.0 + X)
    assert {group: dict(dynoc.counters[group]) for group in ("calls", "frames", "finder")} == before
    with dynoc.enabled():
        assert served(f, X)


def test_nested_contexts():
    def f(x):
        return x * 2.0 + 1.0

    with dynoc.enabled(wait=True):
        f(X)
        before = count("served")
        f(X)
        assert count("served") == before + 1
        with dynoc.enabled():
            assert served(f, X)
        f(X), f(X)
    assert served(f, X)


def test_an_optimised_function_inside():
    fast = dynoc.optimize(lambda x: x + 3.0, wait=True)

    def f(x):
        return fast(x) * 2.0

    for _ in range(ENOUGH):
        assert np.array_equal(f(X), (X + 3.0) * 2.0) and np.array_equal(fast(X), X + 3.0)


PURE = """
import dynoc
dynoc.enable()
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def total(n):
    s = 0
    for i in range(n):
        s += i
    return s + len([str(i) for i in range(n)])
print(fib(15), total(1000), "frames" in dynoc.counters, "functions" in dynoc.counters.get("finder", {}))
"""


def test_pure_python_is_not_looked_at():
    assert output_of(PURE) == "610 500500 False False"


def test_a_function_that_stops_working_on_arrays_gets_its_own_way_back(monkeypatch):
    monkeypatch.setattr(dynoc.config, "loops", False)  # else the loop below becomes native, with all calls in it

    def either(x):
        return x * 2 + 1

    assert served(either, X)
    before = count("doors", "finder"), count("windows", "finder")
    for i in range(120_000):  # longer than the first window
        assert either(i) == i * 2 + 1
    assert served(either, X)  # found again
    assert (count("doors", "finder"), count("windows", "finder")) != before


@dynoc.skip
def passes_a_door(fn, argument):
    """Tools are told of a function with a door as of one in C; and it has none any more."""
    seen, tool = [], sys.monitoring.PROFILER_ID
    sys.monitoring.use_tool_id(tool, "doors")
    sys.monitoring.register_callback(tool, sys.monitoring.events.C_RETURN, lambda code, at, called, first: seen.append(called))
    sys.monitoring.set_events(tool, sys.monitoring.events.CALL)
    (lambda: fn(argument))()
    sys.monitoring.set_events(tool, 0)
    sys.monitoring.free_tool_id(tool)
    return fn in seen


@dynoc.skip
def is_specialised(call):
    """CPython makes calls from this place without asking how the function wants to be called."""
    for _ in range(2000):
        call()
    return any(i.opname.startswith("CALL_PY_") for i in dis.get_instructions(call, adaptive=True))


@pytest.mark.skipif(not DOORS, reason="a function without a door costs nothing")
def test_a_function_with_a_loop_of_few_trips_gets_its_own_way_back(monkeypatch):
    """A door took three times as long as the call behind it, for ever."""
    monkeypatch.setattr(dynoc.config, "plain_loops", False)  # it would be found again
    dynoc.disable()

    def make():  # found when it is made, as it has a loop and NumPy at hand
        def ones(n):
            total = 0
            while n:
                total += n & 1
                n >>= 1
            return total if total >= 0 else np.nan

        return ones

    with dynoc.enabled():
        assert passes_a_door(make(), 3)
        ones = make()
        for i in range(30_000):
            assert ones(i & 3) < 3
        assert not passes_a_door(ones, 3)
        assert is_specialised(lambda: ones(3))


# ---- others who look


def test_tracers_see_every_call():
    def f(x):
        return x * 2.0 + 1.0

    events = []

    def tracer(frame, event, arg):
        if frame.f_code is f.__code__:
            events.append(event)
        return tracer

    served(f, X)
    sys.settrace(tracer)
    try:
        f(X), f(X)
    finally:
        sys.settrace(None)
    assert events == ["call", "line", "return"] * 2
    assert served(f, X)


def test_profilers_see_every_call():
    def f(x):
        return x * 2.0 + 1.0

    events = []
    served(f, X)
    sys.setprofile(lambda frame, event, arg: events.append(event) if frame.f_code is f.__code__ else None)
    try:
        f(X), f(X)
    finally:
        sys.setprofile(None)
    assert events == ["call", "return"] * 2


@pytest.mark.skipif(not DOORS, reason="sys.monitoring")
def test_monitoring_tools_see_every_call():
    monitoring = sys.monitoring
    events = monitoring.events
    seen = []

    def f(x):
        return x * 2.0 + 1.0

    def run():
        for _ in range(3):
            f(X)

    served(f, X)
    monitoring.use_tool_id(3, "test")
    monitoring.register_callback(3, events.PY_START, lambda code, at: seen.append(code))
    monitoring.set_events(3, events.PY_START)
    try:
        run()
    finally:
        monitoring.set_events(3, 0)
        monitoring.free_tool_id(3)
    assert seen.count(f.__code__) == 3
    assert monitoring.get_tool(3) is None and all(monitoring.get_tool(i) is None for i in range(6))
    assert served(f, X)


def test_threads():
    def f(x, k):
        y = x * k + 1.0
        return np.sqrt(y * y) - x

    wrong = []

    def work(k):
        for _ in range(300):
            if not np.allclose(f(X, k), X * k + 1.0 - X):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and served(f, X, 2.0)


FORK = """
import os, sys, warnings
import numpy as np
import dynoc
warnings.simplefilter("ignore")
dynoc.enable()
x = np.linspace(0.1, 1.0, 50)
def f(x):
    return x * 2.0 + np.cos(x)
expected = f(x)
def run():
    for _ in range(200):
        assert np.allclose(f(x), expected, rtol=1e-14)
run()
child = os.fork()
run()
if child == 0:
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


def test_fork():
    assert output_of(FORK) == "0"


FORKED_LOOPS = """
import os, warnings
BEFORE
import dynoc
warnings.simplefilter("error")
def count(n):
    total = 0
    for i in range(n):
        total += i % 7
    return total
def found():
    return "finder" in dynoc.counters and dynoc.counters["finder"].get("functions", 0)
dynoc.enable()
child = os.fork()
while not found():
    count(200_000)
if child == 0:
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.parametrize("before", ["import numpy", ""])
def test_loops_are_found_behind_a_fork(before):
    """In both processes; and whoever forks isn't warned of a thread."""
    assert output_of(FORKED_LOOPS.replace("BEFORE", before), OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1) == "0"


WARNED = """
import logging, os, warnings  # logging has functions of Python's that run behind a fork
import dynoc
warnings.simplefilter("always")
dynoc.enable()
def hot(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total
def slow(n):
    texts = {}
    for i in range(n):
        texts[str(i)] = [i]
        texts.pop(str(i - 5), None)
for count in (0, 3_000_000, 3_000_000):
    hot(count)
    slow(40_000)
    dynoc.wait()
    for _ in range(2):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
hot(1000)
print("done")
"""


@pytest.mark.parametrize("way", [[], ["-m", "dynoc"]])
def test_who_forks_is_not_warned_of_threads(way, tmp_path):
    """Neither of the one that ticks, nor of the one that builds, where nothing is being built."""
    program = tmp_path / "forks.py"
    program.write_text(WARNED)
    assert run_python([*way, program], OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1) == (0, "done\n", "")


DEEP = """
import sys
import numpy as np
import dynoc
x = np.ones(3)
def down(x, n):
    y = x + 1.0
    return y if n == 0 else down(x, n - 1)
dynoc.enable()
for _ in range(20):
    down(x, 3)
dynoc.wait()
for _ in range(20):
    down(x, 900)
def count(n):
    x + 1.0
    return 0 if n == 0 else 1 + count(n - 1)
for _ in range(20):
    count(5)
sys.setrecursionlimit(30_000)
print(count(25_000))
try:
    count(40_000)
except RecursionError as error:
    print(str(error)[:32])
"""


def test_deep_recursion():
    assert output_of(DEEP, timeout=120).split("\n") == ["25000", "maximum recursion depth exceeded"]


PROGRAM = """
import numpy as np
class Grid:
    def __init__(self, n):
        self.u = np.zeros((n, n))
        self.u[0] = 1.0
    def step(self):
        u = self.u
        v = u.copy()
        v[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
        self.u = v
grid = Grid(20)
for _ in range(20_000):
    grid.step()
print(round(float(grid.u.sum()), 6))
"""


def test_a_script_ends_up_in_compiled_code(tmp_path):
    script = tmp_path / "grid.py"
    script.write_text(PROGRAM)
    plain = run_python([str(script)])[1]
    code, out, err = run_python(["-m", "dynoc", "--summary", str(script)])
    rows = {words[1]: int(words[2]) for words in (line.split() for line in err.split("\n")) if words[:1] == ["calls"]}
    assert code == 0 and out == plain
    assert rows["served"] > 1000, err


ONE_CALL = """
import numpy as np
def main(n):
    u = np.linspace(0.0, 1.0, 1000)
    for _ in range(n):
        v = u * 0.5 + 0.25
        u = np.sqrt(v * v + u) * 0.9
    print(round(float(u.sum()), 6))
main(30_000)
"""


def test_a_function_that_is_called_once_and_has_its_loop_inside(tmp_path):
    script = tmp_path / "once.py"
    script.write_text(ONE_CALL)
    plain = run_python([str(script)])[1]
    code, out, err = run_python(["-m", "dynoc", "--summary", str(script)])
    rows = {tuple(words[:2]): int(words[2]) for words in (line.split() for line in err.split("\n")) if len(words) == 3}
    assert code == 0 and out == plain
    served = ("tier", "native"), ("tier", "builtin"), ("loops", "planned")  # it can be over before the compiler is
    assert sum(rows.get(row, 0) for row in served) >= 1, err


LATE_ENABLE = """
import numpy as np
import dynoc
def main(n):
    u = np.linspace(0.0, 1.0, 1000)
    for _ in range(n):
        u = np.sqrt(u * u + 1.0) * 0.9
    return u
def without_loop(x):
    return x + 1.0
dynoc.config.loops = False
dynoc.enable()
main(100)
without_loop(np.ones(3))
print(dynoc.counters["frames"]["recorded"])
dynoc.disable()
"""


def test_functions_that_were_there_before():
    assert int(output_of(LATE_ENABLE)) >= 1


PURE_LOOPS = """
import numpy as np
import dynoc
dynoc.enable()
def count(n):
    total = 0
    for i in range(n):
        total += i
    return total
print(sum(count(200) for _ in range(2000)))
"""


def test_loops_without_arrays_beside_numpy():
    assert output_of(PURE_LOOPS) == str(2000 * 19900)


EXIT = """
import atexit
import numpy as np
import dynoc
dynoc.enable()
x = np.ones(10)
def f(x):
    return x * 2.0 + 1.0
class Late:
    def __del__(self, f=f, x=x):
        for _ in range(50):
            f(x)
        print("done")
late = Late()
for _ in range(50):
    f(x)
atexit.register(f, x)
"""


def test_the_end_of_the_process():
    assert output_of(EXIT) == "done"
