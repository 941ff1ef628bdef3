"""Native loops that call functions of C through ctypes: conversions as ctypes has them, and what runs beside such a call."""

import ctypes
import math
import sys
import threading
import time

import dynoc
import numpy as np
import pytest
from dynoc import _dynoc
from foreign_library import compiled
from regions import INTERPRETED, NATIVE, Case, check

SOURCE = r"""
#include <errno.h>
#include <unistd.h>
#define TYPED(name, type) type name##_of(type x) { return (type)(x + 1); }
TYPED(byte, signed char) TYPED(ubyte, unsigned char) TYPED(short, short) TYPED(ushort, unsigned short) TYPED(int, int)
TYPED(uint, unsigned) TYPED(long, long) TYPED(float, float) TYPED(double, double)
_Bool bool_of(_Bool x) { return !x; }
unsigned long ulong_of(unsigned long x) { return x; }
static _Atomic long calls;
long count(void) { return ++calls; }
void bump(int by) { calls += by; }
long called(void) { return calls; }
double mixed(double a, int b, float c, long d, _Bool e, signed char f, double g) {
    return a + 2 * b + 3 * c + 4 * (double)d + 5 * e + 6 * f + 7 * g;
}
long seven(long a, long b, long c, long d, long e, long f, int g) { return a + 2*b + 3*c + 4*d + 5*e + 6*f + 7*g; }
double total(const double *x, long n) { double s = 0; for (long i = 0; i < n; i++) s += x[i]; return s; }
void scale(double *x, long n, double by) { for (long i = 0; i < n; i++) x[i] *= by; }
long is_null(void *p) { return p == 0; }
long eight(long a, long b, long c, long d, long e, long f, long g, long h) { return a + h; }
long sleeps(int us) { usleep(us); return us; }
long fails(int e) { errno = e; return -1; }
long swapped(int e) { long was = errno; errno = e; return was; }
static long (*back)(long);
void set_back(long (*f)(long)) { back = f; }
long call_back(long x) { return back(x); }
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return compiled(SOURCE, tmp_path_factory.mktemp("foreign"))


@pytest.fixture
def lib(path):
    lib = ctypes.CDLL(path)
    for name in "byte ubyte short ushort int uint long ulong float double bool".split():
        declare(lib, f"{name}_of", getattr(ctypes, f"c_{name}"), getattr(ctypes, f"c_{name}"))
    longs = [ctypes.c_long] * 8
    declare(lib, "count", ctypes.c_long)
    declare(lib, "called", ctypes.c_long)
    declare(lib, "bump", None, ctypes.c_int)
    declare(lib, "mixed", ctypes.c_double, *(getattr(ctypes, f"c_{t}") for t in "double int float long bool byte double".split()))
    declare(lib, "seven", ctypes.c_long, *longs[:6], ctypes.c_int)
    declare(lib, "eight", ctypes.c_long, *longs)
    declare(lib, "sleeps", ctypes.c_long, ctypes.c_int)
    declare(lib, "call_back", ctypes.c_long, ctypes.c_long)
    return lib


def declare(lib, name, result, *args):
    function = getattr(lib, name)
    function.argtypes, function.restype = list(args), result
    return function


def libm(name, *args, result=ctypes.c_double):
    return declare(ctypes.CDLL("libm.so.6"), name, result, *(args or [ctypes.c_double]))


def native(fast):
    return all(loop.startswith("native") for loop in fast.loops)


def summed(f, n, scale, total):
    for i in range(n):
        total += f(i * scale)
    return total


def gathered(f, xs, out):
    for x in xs:
        out.append(f(x))
    return out


# ---- values


@pytest.mark.parametrize("name", ["cos", "exp", "lgamma", "j0"])
def test_functions_of_the_mathematics_library(name):
    f = libm(name)
    text = check(summed, (f, 20, 0.37, 0.0), [iter(range(20))])
    assert "call.float" in text and "release" not in text


def test_two_arguments_and_an_int():
    def pairs(ldexp, hypot, xs, total):
        for k, x in enumerate(xs):
            total += ldexp(x, k - 2) + hypot(x, k)
        return total

    ldexp, hypot = libm("ldexp", ctypes.c_double, ctypes.c_int), libm("hypot", ctypes.c_double, ctypes.c_double)
    check(pairs, (ldexp, hypot, [0.5, 1.25, -3.0], 0.0), [enumerate([0.5, 1.25, -3.0])])


INTS = [0, 1, -1, 127, 128, 255, 256, -129, 32767, 65536, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**62, -(2**63), 2**63 - 1, True]


@pytest.mark.parametrize("name", "byte ubyte short ushort int uint long".split())
def test_ints_wrap_around_as_ctypes_has_them(lib, name):
    f = getattr(lib, f"{name}_of")
    text = check(gathered, (f, INTS, []), [iter(INTS)])
    assert "call.int" in text and "release" in text and "unchanged" in text


FLOATS = [0.0, -0.0, 1.1, 1e300, -1e-45, math.inf, math.pi]


@pytest.mark.parametrize("name", ["float", "double"])
def test_floats_are_rounded_as_ctypes_rounds_them(lib, name):
    check(gathered, (getattr(lib, f"{name}_of"), FLOATS, []), [iter(FLOATS)])
    check(gathered, (getattr(lib, f"{name}_of"), INTS[:-1], []), [iter(INTS[:-1])])


@pytest.mark.parametrize("xs", [INTS[:-1], FLOATS, [True, False]])
def test_truth(lib, xs):
    check(gathered, (lib.bool_of, xs, []), [iter(xs)])


def test_numpy_scalars(lib):
    def over(f, a, out):
        for i in range(len(a)):
            out.append(f(a[i]))
        return out

    doubles = [np.arange(3.0), np.arange(3), np.arange(3, dtype=np.float32)]
    cases = [(lib.double_of, a) for a in doubles] + [(lib.long_of, np.arange(3)), (lib.byte_of, np.arange(250, 256))]
    for f, a in [*cases, (lib.float_of, np.arange(3, dtype=np.float32))]:
        check(over, (f, a, []), [iter(range(len(a)))])


def test_many_arguments_of_several_types(lib):
    def many(mixed, seven, n, total):
        for i in range(n):
            total += mixed(i * 0.5, i * 2**31 + i, i * 0.1, i - 3, i, 200 + i, -0.25)
            total += seven(i, 1, 2, 3, 4, i * i, 2**33 + i)
        return total

    check(many, (lib.mixed, lib.seven, 5, 0.0), [iter(range(5))])


def test_addresses_of_arrays(lib):
    """What is stored through an address is seen behind the call."""

    def rows(total, scale, a, at, out):
        for i in range(len(a)):
            scale(at + 32 * i, 4, 0.5 * i)
            out.append(total(at, 4 * (i + 1)) + a[i, 1])
        return out

    total = declare(lib, "total", ctypes.c_double, ctypes.c_void_p, ctypes.c_long)
    scale = declare(lib, "scale", None, ctypes.c_void_p, ctypes.c_long, ctypes.c_double)
    fast = dynoc.optimize(rows, wait=True)
    for _ in range(3):
        found = []
        for function in (rows, fast):
            a = np.arange(20.0).reshape(5, 4)
            found.append((function(total, scale, a, a.ctypes.data, []), a.tolist()))
        assert found[0] == found[1]
    assert native(fast)


DOUBLES = ctypes.POINTER(ctypes.c_double)


def both_ways(function, *make, native_too=True):
    """The function gives and stores the same in CPython and as a native loop, three times."""
    fast = dynoc.optimize(function, wait=True)
    for _ in range(3):
        found = []
        for f in (function, fast):
            given = [m() for m in make]
            try:
                result = f(*given)
            except (TypeError, ctypes.ArgumentError) as error:
                result = type(error), str(error)
            found.append((repr(result), [a.tolist() for a in given if isinstance(a, np.ndarray)]))
        assert found[0] == found[1]
    assert native(fast) or not native_too, fast.loops
    return fast


def matrix():
    return np.arange(20.0).reshape(5, 4)


@pytest.mark.parametrize("how", ["data", "data_as", "ctypes"])
def test_addresses_of_rows_and_of_new_arrays(lib, how):
    pointer = DOUBLES if how == "data_as" else ctypes.c_void_p
    total = declare(lib, "total", ctypes.c_double, pointer, ctypes.c_long)
    scale = declare(lib, "scale", None, pointer, ctypes.c_long, ctypes.c_double)

    def data(a, out):
        for i in range(len(a)):
            scale(a[i].ctypes.data, a.shape[1], 0.5 * i)
            row = a[i, 1:] * 2
            scale(row.ctypes.data, len(row), 1.0 / (i + 1))
            out.append(total(a.ctypes.data, 4 * (i + 1)) + a[i, 1] + row[1] + total(row.ctypes.data + 8, 2))
        return out

    def data_as(a, out):
        for i in range(len(a)):
            scale(a[i].ctypes.data_as(DOUBLES), a.shape[1], 0.5 * i)
            row = a[i, 1:] * 2
            scale(row.ctypes.data_as(DOUBLES), len(row), 1.0 / (i + 1))
            out.append(total(a.ctypes.data_as(DOUBLES), 4 * (i + 1)) + a[i, 1] + row[1])
        return out

    def itself(a, out):
        for i in range(len(a)):
            scale(a[i].ctypes, a.shape[1], 0.5 * i)
            out.append(total(a[i:].ctypes, 4) + a[i, 1])
        return out

    both_ways({"data": data, "data_as": data_as, "ctypes": itself}[how], matrix, list)


ASKED = {
    "a vector": ({"dtype": np.float64, "ndim": 1, "flags": "C_CONTIGUOUS"}, lambda: np.arange(4.0), True),
    "a vector of any steps": ({"dtype": np.float64}, lambda: np.arange(8.0)[::2], True),
    "steps": ({"dtype": np.float64, "flags": "C_CONTIGUOUS"}, lambda: np.arange(8.0)[::2], False),
    "another dtype": ({"dtype": np.int64}, lambda: np.arange(4.0), False),
    "another rank": ({"ndim": 2}, lambda: np.arange(4.0), False),
    "a matrix": ({"ndim": 2, "flags": "C_CONTIGUOUS,ALIGNED,WRITEABLE"}, lambda: np.arange(4.0).reshape(2, 2), True),
    "a matrix the other way round": ({"ndim": 2, "flags": "C_CONTIGUOUS"}, lambda: np.arange(4.0).reshape(2, 2).T, False),
    "a shape": ({"shape": (4,)}, lambda: np.arange(4.0), False),
    "Fortran's order": ({"flags": "F_CONTIGUOUS"}, lambda: np.arange(4.0), False),
    "no array": ({"dtype": np.float64}, lambda: [1.0, 2.0], False),
}


@pytest.mark.parametrize("what", ASKED)
def test_ndpointer(lib, what):
    asked, make, is_native = ASKED[what]
    scale = declare(lib, "scale", None, np.ctypeslib.ndpointer(**asked), ctypes.c_long, ctypes.c_double)

    def scales(a, n, total):
        for i in range(n):
            scale(a, 2, 0.5 + i)
            total += i
        return total

    both_ways(scales, make, lambda: 6, lambda: 0, native_too=is_native)


def test_ndpointer_asks_for_what_may_be_written(lib):
    scale = declare(lib, "scale", None, np.ctypeslib.ndpointer(flags="W"), ctypes.c_long, ctypes.c_double)

    def scales(a, n):
        for i in range(n):
            scale(a, 2, 0.5 + i)
        return n

    fast = both_ways(scales, lambda: np.arange(4.0), lambda: 6)
    for function in (scales, fast):
        a = np.arange(4.0)
        a.flags.writeable = False
        with pytest.raises(ctypes.ArgumentError, match="WRITEABLE"):
            function(a, 3)


def test_pointers_of_other_types_are_cpythons(lib):
    longs = ctypes.POINTER(ctypes.c_long)
    total = declare(lib, "total", ctypes.c_double, DOUBLES, ctypes.c_long)

    def wrong(a, n):
        for i in range(n):
            total(a.ctypes.data_as(longs), 1)
        return n

    def number(a, n):
        for i in range(n):
            total(a.ctypes.data, 1)
        return n

    def itself(a, n):
        for i in range(n):
            total(a.ctypes, 1)
        return n

    def kept(a, n):
        p = None
        for i in range(n):
            p = a.ctypes.data_as(DOUBLES)
            total(p, i)
        return p[1], a.ctypes.data == ctypes.addressof(p.contents)

    for function in (wrong, number, itself, kept):
        both_ways(function, lambda: np.arange(4.0), lambda: 4, native_too=False)


def test_what_is_not_known_behind_a_pointer(lib):
    """An exit between the pointer and its call goes on in front of both."""
    total = declare(lib, "total", ctypes.c_double, DOUBLES, ctypes.c_long)

    def divides(a, xs, s):
        for x in xs:
            s += total(a.ctypes.data_as(DOUBLES), 12 // x)
        return s

    fast = dynoc.optimize(divides, wait=True)
    for xs in ([4, 6, 3], [4, 4, 0], [3, 2**70, 4], [4, 3, True]):
        for f in (divides, fast):
            if 0 in xs:
                with pytest.raises(ZeroDivisionError):
                    f(np.arange(12.0), xs, 0.0)
            else:
                assert f(np.arange(12.0), xs, 0.0) == divides(np.arange(12.0), xs, 0.0)


@pytest.mark.parametrize("xs", [[0, 1, -1, 2**62], [True, False]])
def test_addresses_are_ints(lib, xs):
    f = declare(lib, "is_null", ctypes.c_long, ctypes.c_void_p)
    text = check(gathered, (f, xs, []), [iter(xs)])
    assert "i64(ptr)" in text


def test_what_is_no_address_is_cpythons(lib):
    f = declare(lib, "is_null", ctypes.c_long, ctypes.c_void_p)
    fast = dynoc.optimize(gathered, wait=True)
    for xs in ([None, None, 0], [b"x", b"y", 1], [ctypes.c_double(1.0)] * 2):
        for function in (gathered, fast):
            if isinstance(xs[0], ctypes.c_double):
                with pytest.raises(ctypes.ArgumentError):
                    function(f, xs, [])
            else:
                assert function(f, xs, []) == [int(not x) for x in xs]
    with pytest.raises(ctypes.ArgumentError):
        fast(f, np.arange(3), [])
    pointer = declare(lib, "long_of", ctypes.c_void_p, ctypes.c_long)
    assert fast(pointer, [-1, 0], []) == [None, 1]


def test_the_mathematics_library_stores_where_it_is_told():
    def parts(modf, xs, at, whole, out):
        for x in xs:
            out.append(modf(x, at))
            out.append(whole[0])
        return out

    modf = libm("modf", ctypes.c_double, ctypes.c_void_p)
    whole = np.zeros(1)
    fast = dynoc.optimize(parts, wait=True)
    for _ in range(2):
        assert fast(modf, [1.5, -2.25], whole.ctypes.data, whole, []) == [0.5, 1.0, -0.25, -2.0]
    assert native(fast)


def test_a_function_of_cython_blas_by_its_address():
    blas = pytest.importorskip("scipy.linalg.cython_blas")
    capsule = blas.__pyx_capi__["ddot"]
    api = ctypes.pythonapi
    name, pointer = ctypes.c_char_p, ctypes.c_void_p
    get_name = ctypes.PYFUNCTYPE(name, ctypes.py_object)(("PyCapsule_GetName", api))
    get_pointer = ctypes.PYFUNCTYPE(pointer, ctypes.py_object, name)(("PyCapsule_GetPointer", api))
    ddot = ctypes.CFUNCTYPE(ctypes.c_double, *[pointer] * 5)(get_pointer(capsule, get_name(capsule)))

    def dots(ddot, at, n, one, rows, row, out):
        for i in range(rows):
            out.append(ddot(n, at, one, at + i * row, one))
        return out

    a, sizes = np.arange(24.0).reshape(4, 6), np.array([6, 1], np.intc)
    n = sizes.ctypes.data
    fast = dynoc.optimize(dots, wait=True)
    for _ in range(2):
        assert fast(ddot, a.ctypes.data, n, n + sizes.itemsize, 4, a.strides[0], []) == (a @ a[0]).tolist()
    assert native(fast)


def test_without_argtypes_ints_are_c_ints(path):
    f = ctypes.CDLL(path).int_of
    check(gathered, (f, INTS, []), [iter(INTS)])


def test_nothing_runs_twice(lib):
    def counts(count, bump, n, first, last):
        for i in range(n):
            first = count()
            last = bump(i)
        return first, last

    case = Case(counts, (lib.count, lib.bump, 5, 0, None), [iter(range(5))])
    region = case.plan()
    assert _dynoc._region_build(region, True) == 1
    for force in [-1, *range(len(_dynoc._region_exits(region)))]:
        for how in (INTERPRETED, NATIVE):
            for after in (0, 1, 3):
                before = lib.called()
                (result, *_), _ = case.run(how, force, after)
                assert lib.called() == before + 5 + 10
                assert result[1][0][1] == before + 11


def test_an_address_is_no_part_of_what_is_cached(lib):
    case = Case(gathered, (lib.long_of, [1], []), [iter([1])])
    source = _dynoc._region_source(case.plan())
    address = ctypes.cast(lib.long_of, ctypes.c_void_p).value
    assert str(address) not in source and f"{address:x}" not in source


# ---- what is found and what isn't


def test_a_function_is_found_wherever_it_is_named():
    cos, library = libm("cos"), ctypes.CDLL("libm.so.6")
    declare(library, "sin", ctypes.c_double, ctypes.c_double)
    names = {"cos": cos, "library": library}
    exec("def of_global(n):\n total = 0.0\n for i in range(n):\n  total += cos(i) + library.sin(i)\n return total", names)

    def of_cell(n):
        total = 0.0
        for i in range(n):
            total += cos(i) + library.sin(i)
        return total

    for f in names["of_global"], of_cell:
        fast = dynoc.optimize(f, wait=True)
        assert fast(100) == f(100)
        assert native(fast)


def test_it_is_called_from_functions_that_are_followed_into():
    cos = libm("cos")

    def inner(x):
        return cos(x) + 1

    def outer(n):
        total = 0.0
        for i in range(n):
            total += inner(i)
        return total

    fast = dynoc.optimize(outer, wait=True)
    assert fast(100) == outer(100)
    assert native(fast)


def test_errno_is_the_one_that_ctypes_keeps(path):
    lib = ctypes.CDLL(path, use_errno=True)
    fails, sleeps = declare(lib, "fails", ctypes.c_long, ctypes.c_int), declare(lib, "sleeps", ctypes.c_long, ctypes.c_int)
    cos = declare(ctypes.CDLL("libm.so.6", use_errno=True), "cos", ctypes.c_double, ctypes.c_double)
    swapped = declare(lib, "swapped", ctypes.c_long, ctypes.c_int)

    def over(fails, sleeps, cos, xs, total):
        for x in xs:
            total += fails(x) + sleeps(1) + cos(x) + swapped(x + 1)
        return total

    fast = dynoc.optimize(over, wait=True)
    seen = []

    def run(function):
        ctypes.set_errno(77)
        result = function(fails, sleeps, cos, [1, 2, 5], 0.0)
        seen.append((result, ctypes.get_errno(), swapped(0)))

    for function in (over, fast, fast, over):
        run(function)
        thread = threading.Thread(target=run, args=(function,))
        thread.start()
        thread.join()
    assert seen == [seen[0]] * 8 and seen[0][1] == 6 and native(fast)
    check(gathered, (fails, [1, 2, 3], []), [iter([1, 2, 3])])


REFUSED = {
    "errcheck": lambda lib, path: lib.long_of,
    "Python code": lambda lib, path: ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(abs),
    "keeps the GIL": lambda lib, path: declare(ctypes.PyDLL(path), "long_of", ctypes.c_long, ctypes.c_long),
    "restype isn't known": lambda lib, path: declare(lib, "long_of", ctypes.c_char, ctypes.c_long),
    "argtypes aren't known": lambda lib, path: declare(lib, "long_of", ctypes.c_long, ctypes.py_object),
    "may not fit": lambda lib, path: lib.ulong_of,
    "number of arguments": lambda lib, path: lib.seven,
    "so many parameters": lambda lib, path: lib.eight,
    "have flags": lambda lib, path: ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(("long_of", lib), ((1, "x", 3),)),
    "takes for no int": lambda lib, path: lib.long_of,
}


@pytest.mark.parametrize("why", REFUSED)
def test_other_functions_are_refused_with_a_reason(lib, path, why):
    f = REFUSED[why](lib, path)
    if why == "errcheck":
        f.errcheck = lambda result, function, args: result
    xs = [0.5] if why == "takes for no int" else [1]
    reason, _, what = Case(gathered, (f, xs, []), [iter(xs)]).refusal()
    assert reason == "OPAQUE_CALL" and why in what


def test_what_ctypes_does_not_take_raises_where_it_is_due(lib):
    fast = dynoc.optimize(gathered, wait=True)
    assert fast(lib.long_of, [1] * 100, []) == [2] * 100
    for bad in (0.5, "x", None):
        out = []
        with pytest.raises(ctypes.ArgumentError):
            fast(lib.long_of, [1] * 100 + [bad], out)
        assert out == [2] * 100


# ---- what may change


def test_argtypes_and_restype_are_guarded(lib):
    f = lib.int_of
    fast = dynoc.optimize(gathered, wait=True)
    xs = [300] * 50
    assert fast(f, xs, []) == [301] * 50
    assert native(fast)
    f.argtypes = [ctypes.c_byte]
    assert fast(f, xs, []) == [45] * 50
    f.restype = ctypes.c_bool
    assert fast(f, xs, [])[0] is True
    f.restype = lambda code: f"code {code}"
    assert fast(f, xs, [])[0] == "code 45"
    f.restype, f.errcheck = ctypes.c_int, lambda result, function, args: -result
    assert fast(f, xs, [])[0] == -45


def test_a_list_of_argtypes_that_changes_later_is_not_looked_at(lib):
    types = [ctypes.c_byte]
    lib.int_of.argtypes = types
    types[0] = ctypes.c_double
    check(gathered, (lib.int_of, [300, 5], []), [iter([300, 5])])


def test_another_address_in_the_same_object(lib):
    pointer = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)
    f = pointer(ctypes.cast(lib.long_of, ctypes.c_void_p).value)
    fast = dynoc.optimize(gathered, wait=True)
    assert fast(f, [1] * 50, []) == [2] * 50
    assert native(fast)
    ctypes.c_void_p.from_address(ctypes.addressof(f)).value = ctypes.cast(lib.ulong_of, ctypes.c_void_p).value
    assert fast(f, [1] * 50, []) == [1] * 50


def calls_back(lib, function):
    """The library calls it from its call_back."""
    back = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(function)
    lib.set_back(back)
    return back


def test_what_is_called_back_may_change_everything(lib):
    def over(call, rows, a, n):
        total = 0
        for i in range(n):
            row = rows[i % 2]
            total += call(i) + row[0] + int(a[0])
        return total

    def run(function, n=60):
        rows, a = [[1], [2]], np.arange(4)

        def change(x):
            if x == 40:
                rows[0], rows[1] = [10], [20]
                lib.call_back.restype = ctypes.c_byte
                a.resize(100000, refcheck=False)
                a[0] = 7
                junk = [[i] for i in range(1000)]
                del junk
            return x + 200

        back = calls_back(lib, change)
        lib.call_back.restype = ctypes.c_long
        result = function(lib.call_back, rows, a, n)
        del back
        return result

    fast = dynoc.optimize(over, wait=True)
    for _ in range(3):
        assert run(fast) == run(over)
    assert native(fast)


def test_what_is_called_back_sees_globals_and_cells(lib):
    names = {"call": lib.call_back, "factor": 2}
    exec("def over(n):\n total = 0\n for i in range(n):\n  total += call(i) * factor\n return total", names)
    back = calls_back(lib, lambda x: names.__setitem__("factor", 3 if x > 50 else 2) or x)
    fast = dynoc.optimize(names["over"], wait=True)
    for _ in range(3):
        assert fast(100) == names["over"](100)
    assert native(fast)
    del back


def test_a_stored_cell_beside_a_call_stays_with_cpython(lib):
    def outer(call, n):
        total = 0

        def add(i):
            nonlocal total
            total += i

        for i in range(n):
            total = total + call(i)
        add(1)
        return total

    fast = dynoc.optimize(outer, wait=True)
    assert fast(lib.long_of, 50) == outer(lib.long_of, 50)
    assert any("inner functions share" in loop for loop in fast.loops)


def test_other_threads_run_while_it_blocks(lib):
    def waits(sleeps, n):
        for _ in range(n):
            sleeps(20000)

    fast = dynoc.optimize(waits, wait=True)
    fast(lib.sleeps, 2)
    assert native(fast)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    fast(lib.sleeps, 10)
    done.set()
    other.join()
    assert len(ticks) > 20


def test_two_threads_run_the_same_loop(lib):
    def work(count, xs, n):
        out = []
        for i in range(n):
            count()
            out.append(xs[i % 3] + i)
        return out

    fast = dynoc.optimize(work, wait=True)
    wanted = work(lib.count, [1, 2, 3], 3000)
    assert fast(lib.count, [1, 2, 3], 3000) == wanted
    results = []
    before = lib.called()
    threads = [threading.Thread(target=lambda: results.append(fast(lib.count, [1, 2, 3], 3000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [wanted] * 4
    assert lib.called() == before + 12000


def test_a_profiler_that_is_switched_on_meanwhile(lib):
    def over(call, n):
        total = 0
        for i in range(n):
            total += call(i)
        return total

    told = []

    def switch(x):
        if x == 40:
            sys.setprofile(lambda frame, event, arg: told.append(frame.f_code.co_name))
        return x

    back = calls_back(lib, switch)

    def names(function):
        told.clear()
        total = function(lib.call_back, 60)
        sys.setprofile(None)
        return total, [name for name in told if name == "switch"]

    fast = dynoc.optimize(over, wait=True)
    wanted = names(over)
    for _ in range(3):
        assert names(fast) == wanted
    assert wanted[1]
    del back


def test_a_loop_that_is_removed_while_it_runs(lib):
    def over(call, n):
        total = 0
        for i in range(n):
            total += call(i)
        return total

    fast = dynoc.optimize(over, wait=True)
    plain = calls_back(lib, lambda x: x)
    assert fast(lib.call_back, 60) == sum(range(60))
    assert native(fast)
    back = calls_back(lib, lambda x: (dynoc.reset() if x == 30 else None, x)[1])
    assert fast(lib.call_back, 60) == sum(range(60))
    assert fast(lib.call_back, 60) == sum(range(60))
    del plain, back


# ---- text in, text out

TEXT = """\
region header=2 slots=2 stack=0 extra=0
regs PIDPID
entry b1: foreign:92(r0) int(r1)
b0 @0:
  jmp b1
b1 @0:
  r2 = float 0x1.8p+1
  arg.float r2 0
  arg.int r1 1
  keep r0 else x0
  r3 = release
  r5 = call.float r0 f64(f64,i32)
  hold r3
  unchanged else x0
  r4 = call.int r0 i8()
  call.none r0 none(u64)
  leave x0
exit x0 at 4 stack=0 more=0 OK: null int(r1) |
"""


def test_calls_as_text():
    text = TEXT.replace(" |\n", "\n")
    assert _dynoc._region_text(_dynoc._region_parse(text)) == text
    source = _dynoc._region_source(_dynoc._region_parse(text))
    assert "r5 = (D)((double (*)(double, int))r0)((double)F[0].f, (int)F[1].i);" in source
    assert "r4 = (I)((signed char (*)(void))r0)();" in source


@pytest.mark.parametrize("bad", ["f64(f64", "i8(f64)", "f64(none)", "f64", "f64(f64,)", "x(f64)", "f64(" + "i8," * 8 + "i8)"])
def test_signatures_that_are_none_are_refused(bad):
    text = TEXT.replace(" |\n", "\n").replace("f64(f64,i32)", bad)
    with pytest.raises(ValueError, match="line|signature"):
        _dynoc._region_parse(text)


# ---- scipy.special.cython_special


@pytest.mark.parametrize("name", ["j0", "gamma", "ndtr", "erf"])
def test_functions_of_cython_special(name):
    special = pytest.importorskip("scipy.special.cython_special")

    def over(special, out, n):
        for i in range(n):
            out.append(special(i * 0.3 - 0.5))
        return out

    f = getattr(special, name)
    check(over, (f, [], 20), [iter(range(20))])
    fast = dynoc.optimize(over, wait=True)
    for _ in range(2):
        assert fast(f, [], 200) == over(f, [], 200)
    assert native(fast)


def test_ints_of_cython_special():
    special = pytest.importorskip("scipy.special.cython_special")

    def over(f, x, out, n):
        for i in range(n):
            out.append(f(i, x))
        return out

    check(over, (special.eval_hermite, 0.75, [], 8), [iter(range(8))])
    fast = dynoc.optimize(over, wait=True)
    with pytest.raises(TypeError) as plain:
        over(special.eval_hermite, "x", [], 8)
    for x in (1.5, 1.5, 2, True):
        assert fast(special.eval_hermite, x, [], 50) == over(special.eval_hermite, x, [], 50)
        assert native(fast)
    with pytest.raises(TypeError, match=str(plain.value)):
        fast(special.eval_hermite, "x", [], 8)


def test_what_a_function_for_several_types_makes_of_an_int_is_cpythons():
    special = pytest.importorskip("scipy.special.cython_special")

    def over(gamma, n):
        for i in range(n):
            gamma(i)

    reason, _, what = Case(over, (special.gamma, 5), [iter(range(5))]).refusal()
    assert reason == "OPAQUE_CALL" and "other types" in what


def test_errors_that_scipy_reports_are_cpythons():
    special, scipy = pytest.importorskip("scipy.special.cython_special"), pytest.importorskip("scipy.special")

    def over(f, a, out):
        for i in range(40):
            out.append(f(a, 1.0, 0.5))
        return out

    fast = dynoc.optimize(over, wait=True)
    for a in (1.0, -1.0):
        assert repr(fast(special.betainc, a, [])) == repr(over(special.betainc, a, []))
    assert native(fast)
    with scipy.errstate(all="raise"):
        for f in (over, fast):
            out = []
            with pytest.raises(SystemError):
                f(special.betainc, -1.0, out)
            assert out == []
    assert repr(fast(special.betainc, -1.0, [])) == repr(over(special.betainc, -1.0, []))
