"""Native loops that call functions of C through cffi: what it opens, and what it compiles."""

import importlib
import math
import sys

import dynoc
import numpy as np
import pytest
from regions import check

cffi = pytest.importorskip("cffi")
pytest.importorskip("setuptools")  # with which cffi compiles

SOURCE = r"""
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#define TYPED(name, type) type name##_of(type x) { return (type)(x + 1); }
TYPED(byte, signed char) TYPED(ubyte, uint8_t) TYPED(short, short) TYPED(ushort, unsigned short) TYPED(int, int)
TYPED(uint, uint32_t) TYPED(long, long) TYPED(float, float) TYPED(double, double)
long size_of(size_t x) { return (long)(x / 2); }
int swap_errno(int e) { int was = errno; errno = e; return was; }
static long calls;
long count(void) { return ++calls; }
void bump(int by) { calls += by; }
double mixed(double a, int b, float c, long d, signed char e) { return a + 2 * b + 3 * c + 4 * (double)d + 5 * e; }
double first(double *x) { return *x; }
_Bool negate(_Bool x) { return !x; }
int variable = 3;
"""
DECLARED = """
signed char byte_of(signed char); uint8_t ubyte_of(uint8_t); short short_of(short); unsigned short ushort_of(unsigned short);
int int_of(int); uint32_t uint_of(uint32_t); long long_of(long); float float_of(float); double double_of(double);
long size_of(size_t); int swap_errno(int); long count(void); void bump(int);
double mixed(double, int, float, long, signed char); double first(double *); _Bool negate(_Bool);
"""
CALLBACK = 'extern "Python" long back(long);'


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cffi")
    ffi = cffi.FFI()
    ffi.cdef(DECLARED + CALLBACK + "double cos(double); extern int variable;")
    ffi.set_source("_dynoc_test_cffi", SOURCE, libraries=["m"])
    ffi.compile(tmpdir=str(folder), verbose=False)
    sys.path.insert(0, str(folder))
    yield importlib.import_module("_dynoc_test_cffi")
    sys.path.remove(str(folder))


@pytest.fixture(params=["opened", "compiled"])
def both(request, compiled):
    """ffi and lib."""
    if request.param == "compiled":
        return compiled.ffi, compiled.lib
    ffi = cffi.FFI()
    ffi.cdef(DECLARED)
    return ffi, ffi.dlopen(compiled.__file__)


@pytest.fixture
def libm():
    ffi = cffi.FFI()
    ffi.cdef("double cos(double); double log(double); double ldexp(double, int);")
    return ffi, ffi.dlopen("libm.so.6")


def gathered(f, xs, out):
    for x in xs:
        out.append(f(x))
    return out


def native(fast):
    return all(loop.startswith("native") for loop in fast.loops)


INTS = [0, 1, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32, 2**63 - 1, -1, -128, -129, -(2**31), -(2**63)]
FLOATS = [0.0, -0.0, 1.1, 1e300, -1e-45, math.inf, math.pi]


@pytest.mark.parametrize("name", "byte ubyte short ushort int uint long size".split())
def test_ints_that_fit(both, name):
    f = getattr(both[1], f"{name}_of")
    fitting = [i for i in INTS if fits(f, i)]
    text = check(gathered, (f, fitting, []), [iter(fitting)])
    assert "call.int" in text and "errno.back" in text and "release" in text and "unchanged" in text


def fits(f, i):
    try:
        f(i)
    except OverflowError:
        return False
    return True


@pytest.mark.parametrize("name", "byte ubyte short ushort int uint size".split())
def test_ints_that_do_not_fit_are_errors(both, name):
    f = getattr(both[1], f"{name}_of")
    fast = dynoc.optimize(gathered, wait=True)
    for i in (i for i in INTS if not fits(f, i)):
        for function in (gathered, fast):
            out = []
            with pytest.raises(OverflowError):
                function(f, [1, 2, i, 3], out)
            assert len(out) == 2
    assert native(fast)


@pytest.mark.parametrize("name", ["float", "double"])
@pytest.mark.parametrize("xs", [FLOATS, INTS])
def test_floats(both, name, xs):
    text = check(gathered, (getattr(both[1], f"{name}_of"), xs, []), [iter(xs)])
    assert "call.float" in text


def test_numpy_scalars(both):
    def over(f, a, out):
        for i in range(len(a)):
            out.append(f(a[i]))
        return out

    lib = both[1]
    for f, a in [
        (lib.double_of, np.arange(3.0)),
        (lib.double_of, np.arange(3, dtype=np.float32)),
        (lib.long_of, np.arange(3)),
        (lib.byte_of, np.arange(3, dtype=np.uint8)),
    ]:
        check(over, (f, a, []), [iter(range(len(a)))])


def test_arguments_of_several_types(both):
    def many(mixed, n, total):
        for i in range(n):
            total += mixed(i * 0.5, i - 7, i * 0.1, i * 2**33, -i)
        return total

    check(many, (both[1].mixed, 5, 0.0), [iter(range(5))])


def test_a_wrong_argument_is_an_error(both):
    fast = dynoc.optimize(gathered, wait=True)
    for x in (1.5, "1", None, 1j):
        for function in (gathered, fast):
            with pytest.raises(TypeError):
                function(both[1].int_of, [1, 2, x], [])


def test_errno_is_kept_from_call_to_call(both):
    ffi, lib = both

    def swapped(swap, out, n):
        for e in range(n):
            out.append(swap(e))
        return out

    fast = dynoc.optimize(swapped, wait=True)
    for _ in range(3):
        for function in (swapped, fast):
            ffi.errno = 77
            assert function(lib.swap_errno, [], 5) == [77, 0, 1, 2, 3]
            assert ffi.errno == 4
    assert native(fast)


def test_nothing_runs_twice(both):
    def counts(count, bump, n):
        last = 0
        for i in range(n):
            last = count()
            bump(i)
        return last

    lib = both[1]
    fast = dynoc.optimize(counts, wait=True)
    for _ in range(3):
        before = lib.count()
        assert fast(lib.count, lib.bump, 5) == before + 5 + 6
        assert lib.count() == before + 5 + 10 + 1
    assert native(fast)


def test_the_mathematics_library_is_called_without_releasing_anything(libm):
    f = libm[1].cos
    text = check(gathered, (f, FLOATS, []), [iter(FLOATS)])
    assert "call.float" in text and "release" not in text
    ffi, lib = libm
    fast = dynoc.optimize(gathered, wait=True)
    for _ in range(2):
        for xs, errno in ([1.0, -1.0], 33), ([1.0, 2.0], 0), ([0.0], 34):
            ffi.errno = 0
            got = fast(lib.log, xs, [])
            assert ffi.errno == errno
            np.testing.assert_array_equal(got, gathered(lib.log, xs, []))


def test_attributes_of_libraries(compiled, libm):
    names = {"lib": compiled.lib, "libm": libm[1]}
    exec("def both(n):\n total = 0.0\n for i in range(n):\n  total += lib.cos(i * 0.5) + libm.ldexp(i, 2)\n return total", names)
    fast = dynoc.optimize(names["both"], wait=True)
    for n in (5, 50, 5):
        assert fast(n) == names["both"](n)
    assert native(fast)


def test_a_closed_library_is_an_error_again(compiled):
    ffi = cffi.FFI()
    ffi.cdef(DECLARED)
    names = {"lib": ffi.dlopen(compiled.__file__)}
    exec("def total(n):\n s = 0\n for i in range(n):\n  s += lib.int_of(i)\n return s", names)
    fast = dynoc.optimize(names["total"], wait=True)
    for _ in range(3):
        assert fast(10) == 55
    assert native(fast)
    ffi.dlclose(names["lib"])
    for function in (names["total"], fast):
        with pytest.raises((AttributeError, ValueError)):
            function(10)


def test_a_function_that_calls_python_back(compiled):
    """It changes what the loop goes over."""
    names = {"lib": compiled.lib, "limit": 100}

    @compiled.ffi.def_extern(name="back")
    def back(x):
        if x == 5:
            names["limit"] = 3
        return x + names["limit"]

    exec("def total(n):\n s = 0\n for i in range(n):\n  s += lib.back(i) * limit\n return s", names)
    fast = dynoc.optimize(names["total"], wait=True)
    for _ in range(3):
        wanted, got = [], []
        for function, out in (names["total"], wanted), (fast, got):
            names["limit"] = 100
            out.append(function(10))
        assert got == wanted


@pytest.mark.parametrize("name", ["first", "negate"])
def test_pointers_and_truth_are_left_to_cpython(both, name):
    ffi, lib = both
    xs = [ffi.new("double *", 2.5)] * 3 if name == "first" else [True, False, 1]
    fast = dynoc.optimize(gathered, wait=True)
    for _ in range(3):
        assert fast(getattr(lib, name), xs, []) == gathered(getattr(lib, name), xs, [])
    assert not native(fast) and any("cffi" in loop or "loops in native code" in loop for loop in fast.loops)
