"""What CPython and NumPy call back in dynoc on their own account is called with an exception set too, and leaves it as it is."""

import gc
import importlib.util
import pathlib
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

import dynoc

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = "KeyError('kept')"


@pytest.fixture(scope="module")
def raising(tmp_path_factory):
    target = tmp_path_factory.mktemp("callbacks") / "callbacks.so"
    command = [sysconfig.get_config_var("CC").split()[0], "-std=c11", "-Wall", "-Werror", "-fPIC", "-shared"]
    command += [ROOT / "tests/c/callbacks_test.c"]
    command += ["-I", sysconfig.get_path("include"), "-I", np.get_include(), "-o", target]
    subprocess.run(command, check=True)
    spec = importlib.util.spec_from_file_location("callbacks", target)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["default", "wait"])
def enabled(request):
    dynoc.enable(wait=request.param == "wait")
    yield
    dynoc.disable()
    dynoc.reset()


def with_loop(x):
    for _ in range(3):
        x = np.add(x, 1.0)
    return x


def twice(x):
    return x * 2.0 + 1.0


def fresh(function):
    """The same function with a code object of its own, which nobody has met."""
    return type(function)(function.__code__.replace(co_name=function.__name__), function.__globals__)


def test_a_new_function(raising, enabled):
    for function in (with_loop, twice):
        for _ in range(20):
            assert raising.make_function(fresh(function)) == (type(twice), KEPT)


def test_a_frame_as_cython_makes_it(raising, enabled):
    for _ in range(3):
        made, error = raising.make_frame(globals())
        assert made.__name__ == "frame" and error == KEPT


def test_new_arrays(raising, enabled):
    def found(n):
        return raising.make_arrays(n)

    for _ in range(30):
        last, error = found(40)
        assert last.tolist() == [0.0] * 39 and error == KEPT


def test_a_ufunc_that_writes(raising, enabled):
    a = np.arange(4.0)
    dynoc.disable()
    plain = raising.call(np.add, (a, a, a.copy()))
    dynoc.enable()
    for _ in range(30):
        came = raising.call(np.add, (a, a, a.copy()))
        assert came[1] == plain[1] and type(came[0]) is type(plain[0])


@pytest.mark.parametrize("before", [0, 40])
def test_a_call(raising, enabled, before):
    def calls(function):
        for _ in range(before):
            function(x)
        dynoc.wait()
        return [str(raising.call(function, (x,))) for _ in range(20)]

    x = np.arange(5.0)
    calls(fresh(twice))  # NumPy's first call of an operator is another
    with_dynoc = calls(fresh(twice))
    dynoc.disable()
    assert with_dynoc == calls(fresh(twice))


def test_a_call_of_an_optimised_function(raising):
    fast = dynoc.optimize(wait=True)(fresh(twice))
    x = np.arange(5.0)
    plain = raising.call(twice, (x,))
    for _ in range(3):
        assert str(raising.call(fast, (x,))) == str(plain)
        fast(x)
    assert fast.entries[0].hits > 0


def test_a_guarded_dict(raising):
    space = {"np": np, "offset": 1.0}
    exec("def shifted(x):\n    return np.sqrt(x * 2.0) + offset", space)
    fast = dynoc.optimize(wait=True)(space["shifted"])
    x = np.arange(5.0)
    for offset in (2.0, 3.0, 4.0):
        fast(x), fast(x)
        assert raising.set_item(space, "offset", offset) == (True, KEPT)
        assert np.array_equal(fast(x), np.sqrt(x * 2.0) + offset)


class Loud:
    """Raises and catches where it dies, as destructors do."""

    def __del__(self):
        try:
            raise ValueError("in a destructor")
        except ValueError:
            self.value = with_loop(np.ones(3))


def test_what_dies(raising):
    x = np.arange(5.0)
    dead = []
    for _ in range(3):
        held = Loud()

        def closure(x):
            return x * 2.0 + (held is not None)

        fast = dynoc.optimize(wait=True)(closure)
        fast(x), fast(x)
        dead.append([fast, fast.entries[0], closure])
        del fast, closure, held
    for items in dead:
        assert raising.let_die(items) == (True, KEPT)
    gc.collect()


def test_the_stack_of_handlers_survives_a_search(enabled):
    """An array that is made while an exception is handled, and one while it is on its way."""

    def f(n):
        try:
            raise LookupError(n)
        except LookupError as error:
            with_loop(np.ones(n))
            assert sys.exc_info()[1] is error
            return str(error)

    assert [f(n) for n in range(1, 60)] == [str(n) for n in range(1, 60)]


SHUTDOWN = """
import numpy as np, os, sys, dynoc
dynoc.enable()
class Late:
    def __del__(self, x=np.ones(2), write=os.write, times=range(3)):
        def late(x, times):
            for i in times:
                x = x + 1.0
            return x
        write(1, b"%d " % late(x, times)[0])
sys.late = Late()
late_too = Late()
"""


def outcome(text):
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_at_the_end_of_the_process():
    assert outcome(SHUTDOWN) == outcome(SHUTDOWN.replace("dynoc.enable()", "")) == (0, "4 4 ", "")


FROM_CYTHON = """
import dynoc
dynoc.enable()
from numpy.random import RandomState
for _ in range(3):
    try:
        RandomState("x")
    except (TypeError, ValueError) as error:
        print(type(error).__name__)
"""


def test_exceptions_of_cython():
    plain = outcome(FROM_CYTHON.replace("dynoc.enable()", ""))
    assert plain[0] == 0 and plain[1] and outcome(FROM_CYTHON) == plain
