"""Programs with functions of C in their loops (ctypes, cffi, SciPy): values, exceptions and effects are as without dynoc,
whether the loop is native, a graph's or CPython's."""

import ctypes
import sys

import dynoc
import numpy as np
import pytest
from foreign_library import compiled

SOURCE = r"""
#include <errno.h>
#include <stdarg.h>
#include <string.h>
typedef struct { double x, y; } Pair;
double add(double a, double b) { return a + b; }
int iadd(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
double total(const double *a, long n) { double s = 0; for (long i = 0; i < n; i++) s += a[i]; return s; }
void scale(double *a, long n, double by) { for (long i = 0; i < n; i++) a[i] *= by; }
double norm(Pair p) { return p.x * p.x + p.y * p.y; }
void shift(Pair *p, double by) { p->x += by; }
Pair turned(Pair p) { Pair q = {-p.y, p.x}; return q; }
long length(const char *s) { return (long)strlen(s); }
const char *name(int i) { static const char *all[] = {"a", "bc", "def"}; return i < 0 ? 0 : all[i % 3]; }
int fails(int x) { if (x % 5 == 0) { errno = x + 1; return -1; } return x; }
double apply(double (*f)(double), double x) { return f(x) + 1; }
int sum_of(int n, ...) { va_list l; va_start(l, n); int s = 0; while (n-- > 0) s += va_arg(l, int); va_end(l); return s; }
void square(int x, int *out) { *out = x * x; }
unsigned long twice(unsigned long x) { return x * 2 + 1; }
float tenth(float x) { return x * 0.1f; }
_Bool odd(int x) { return x & 1; }
char following(char c) { return (char)(c + 1); }
long nine(long a, long b, long c, long d, long e, long f, long g, long h, long i) { return a + b - c + d - e + f - g + h - i; }
void *address(double *a, long i) { return a + i; }
static long count;
long counted(void) { return ++count; }
void restart(void) { count = 0; }
"""
DECLARED = """
typedef struct { double x, y; } Pair;
double add(double, double); int iadd(int, int); double total(const double *, long); void scale(double *, long, double);
double norm(Pair); void shift(Pair *, double); long length(const char *); const char *name(int); int fails(int);
double apply(double (*)(double), double); int sum_of(int, ...); void square(int, int *); unsigned long twice(unsigned long);
float tenth(float); _Bool odd(int); char following(char); long counted(void); void restart(void);
"""
c_double, c_int, c_long = ctypes.c_double, ctypes.c_int, ctypes.c_long
doubles, ints = ctypes.POINTER(c_double), ctypes.POINTER(c_int)


class Pair(ctypes.Structure):
    _fields_ = [("x", c_double), ("y", c_double)]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return compiled(SOURCE, tmp_path_factory.mktemp("programs"))


def declared(path, name, result, *args, library=ctypes.CDLL, **how):
    function = getattr(library(path, **how), name)
    function.restype, function.argtypes = result, list(args)
    return function


# ---- ctypes: a loop, and what it calls


def floats(f, n, start=0.0):
    total = start
    for i in range(n):
        total = f(total, i)
    return total


def one_int(f, n, by=1):
    total = 0
    for i in range(n):
        total += f(i * by)
    return total


def two_ints(f, n, by=1):
    out = []
    for i in range(n):
        out.append(f(i, by))
    return out


def of_array(f, n, values=(1.0, 2.0, 3.0)):
    a = np.array(values)
    total = 0.0
    for i in range(n):
        a[i % 3] = i
        total += f(a.ctypes.data_as(doubles), 3)
    return total, a.tolist()


def by_address(f, n):
    a = np.arange(4.0)
    for i in range(n):
        f(a.ctypes.data, 4, 1.0 + i % 2)
    return a.tolist()


def of_ctypes_array(f, n):
    a = (c_double * 5)(*range(5))
    total = 0.0
    for i in range(n):
        a[i % 5] = i * 0.5
        total += f(a, 5) + a[3]
    return total, list(a)


def pointer_from_outside(f, n):
    a = np.arange(5.0)
    p, total = a.ctypes.data_as(doubles), 0.0
    for i in range(n):
        p[i % 5] = i
        total += f(p, 5) - p[0] + p.contents.value
    return total, a.tolist()


def by_reference(f, n):
    out, total = c_int(), 0
    for i in range(n):
        f(i, ctypes.byref(out))
        total += out.value
    return total


def by_pointer(f, n):
    out = c_int()
    p, total = ctypes.pointer(out), 0
    for i in range(n):
        f(i, p)
        total += p[0]
    return total


def pair_by_value(f, n):
    p, total = Pair(1, 2), 0.0
    for i in range(n):
        p.x = i
        total += f(p)
    return total


def pair_by_reference(f, n):
    p = Pair(1, 2)
    for _ in range(n):
        f(ctypes.byref(p), 0.5)
    return p.x, p.y


def pair_returned(f, n):
    p = Pair(1, 2)
    for _ in range(n):
        p = f(p)
    return p.x, p.y


def texts(f, n):
    total = 0
    for i in range(n):
        total += f(b"hello" if i % 2 else b"a\0b")
    return total


def names(f, n):
    out = []
    for i in range(-1, n):
        out.append(f(i))
    return out


def with_callback(f, n):
    seen = []
    back = ctypes.CFUNCTYPE(c_double, c_double)(lambda x: seen.append(x) or x * 2)
    total = 0.0
    for i in range(n):
        total += f(back, i)
    return total, seen


def variable_arguments(f, n):
    total = 0
    for i in range(n):
        total += f(3, i, 1, 2) + f(1, i)
    return total


def asks_errno(f, n):
    ctypes.set_errno(0)
    out = []
    for i in range(n):
        if f(i) < 0:
            out.append(ctypes.get_errno())
    return out


def nine_arguments(f, n):
    total = 0
    for i in range(n):
        total += f(i, 1, 2, 3, 4, 5, 6, 7, 8)
    return total


def numbers_of_ctypes(f, n):
    total = 0.0
    for i in range(n):
        total = f(c_double(total), c_double(i))
    return total


def addresses(f, n):
    a, out = np.arange(10.0), []
    for i in range(n):
        out.append(f(a.ctypes.data, i % 10) - a.ctypes.data)
    return out


def of_whole_array(f, n):
    a, total = np.arange(6.0), 0.0
    for i in range(n):
        total += f(a, 6)
        a += 1.0
    return total


def restype_changes(f, n):
    out = []
    for i in range(n):
        if i == n // 2:
            f.restype = c_long
        out.append(f(i * 2**30, i))
    f.restype = c_int
    return out


def error_in_the_middle(f, n):
    out = []
    try:
        for i in range(n):
            out.append(f(i if i < n - 3 else "x", 2))
    except ctypes.ArgumentError as error:
        return out, str(error), error.__traceback__.tb_lineno - error_in_the_middle.__code__.co_firstlineno
    return out


def other_types(f, n):
    out = []
    for x in [1, 2.5, True, np.float64(0.5), np.float32(1.5), 3] * n:
        out.append(f(x, 2))
    return out


def effects_once(f, n):
    out = []
    for i in range(n):
        out.append(f())
        if i == n - 2:
            out.append(None)
            out[0] = 10**30
    return out, f()


def checked(function):
    def check(result, f, args):
        if result == 30:
            raise OSError(result, "thirty")
        return -result

    function.errcheck = check
    return function


def caught(f, n):
    out = []
    for i in range(n):
        try:
            out.append(f(i, i))
        except OSError as error:
            out.append(str(error))
    return out


def with_restype(function, restype):
    function.restype = restype
    return function


ND = np.ctypeslib.ndpointer(float, 1, flags="C")
BACK = ctypes.CFUNCTYPE(c_double, c_double)
CTYPES = {
    "floats": (floats, lambda p: declared(p, "add", c_double, c_double, c_double)),
    "floats with the GIL": (floats, lambda p: declared(p, "add", c_double, c_double, c_double, library=ctypes.PyDLL)),
    "single precision": (one_int, lambda p: declared(p, "tenth", ctypes.c_float, ctypes.c_float)),
    "ints": (two_ints, lambda p: declared(p, "iadd", c_int, c_int, c_int)),
    "undeclared": (two_ints, lambda p: ctypes.CDLL(p).iadd),
    "unsigned": (one_int, lambda p: declared(p, "twice", ctypes.c_ulong, ctypes.c_ulong)),
    "bools": (one_int, lambda p: declared(p, "odd", ctypes.c_bool, c_int)),
    "characters": (names, lambda p: declared(p, "following", ctypes.c_char, ctypes.c_byte)),
    "array": (of_array, lambda p: declared(p, "total", c_double, doubles, c_long)),
    "address": (by_address, lambda p: declared(p, "scale", None, ctypes.c_void_p, c_long, c_double)),
    "ndpointer": (of_whole_array, lambda p: declared(p, "total", c_double, ND, c_long)),
    "array of ctypes": (of_ctypes_array, lambda p: declared(p, "total", c_double, doubles, c_long)),
    "pointer": (pointer_from_outside, lambda p: declared(p, "total", c_double, doubles, c_long)),
    "reference": (by_reference, lambda p: declared(p, "square", None, c_int, ints)),
    "pointer to a number": (by_pointer, lambda p: declared(p, "square", None, c_int, ints)),
    "structure": (pair_by_value, lambda p: declared(p, "norm", c_double, Pair)),
    "structure by reference": (pair_by_reference, lambda p: declared(p, "shift", None, ctypes.POINTER(Pair), c_double)),
    "structure returned": (pair_returned, lambda p: declared(p, "turned", Pair, Pair)),
    "bytes": (texts, lambda p: declared(p, "length", c_long, ctypes.c_char_p)),
    "names": (names, lambda p: declared(p, "name", ctypes.c_char_p, c_int)),
    "callback": (with_callback, lambda p: declared(p, "apply", c_double, BACK, c_double)),
    "variable arguments": (variable_arguments, lambda p: ctypes.CDLL(p).sum_of),
    "errno": (asks_errno, lambda p: declared(p, "fails", c_int, c_int, use_errno=True)),
    "errno of others": (asks_errno, lambda p: declared(p, "fails", c_int, c_int)),
    "nine arguments": (nine_arguments, lambda p: declared(p, "nine", c_long, *[c_long] * 9)),
    "numbers of ctypes": (numbers_of_ctypes, lambda p: declared(p, "add", c_double, c_double, c_double)),
    "numbers undeclared": (numbers_of_ctypes, lambda p: with_restype(ctypes.CDLL(p).add, c_double)),
    "addresses returned": (addresses, lambda p: declared(p, "address", ctypes.c_void_p, ctypes.c_void_p, c_long)),
    "errcheck": (caught, lambda p: checked(declared(p, "iadd", c_int, c_int, c_int))),
    "restype that is called": (two_ints, lambda p: with_restype(ctypes.CDLL(p).iadd, lambda code: f"code {code}")),
    "restype that changes": (restype_changes, lambda p: with_restype(ctypes.CDLL(p).iadd, c_int)),
    "error": (error_in_the_middle, lambda p: declared(p, "add", c_double, c_double, c_double)),
    "types": (other_types, lambda p: declared(p, "add", c_double, c_double, c_double)),
    "types that are refused": (error_in_the_middle, lambda p: declared(p, "iadd", c_int, c_int, c_int)),
}


def outcome(function, *args):
    try:
        return repr(function(*args))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def check(loop, f, sizes=(1, 20, 20, 40, 3, 0)):
    """Each call is made as without dynoc, which first makes all of them."""
    wanted = [outcome(loop, f, n) for n in sizes]
    fast = dynoc.optimize(loop, wait=True)
    assert [outcome(fast, f, n) for n in sizes] == wanted
    return fast


@pytest.mark.parametrize("name", CTYPES)
def test_programs_of_ctypes(path, name):
    loop, make = CTYPES[name]
    check(loop, make(path))


def test_every_call_is_made_once(path):
    lib = ctypes.CDLL(path)

    def run(function):
        lib.restart()
        return function(lib.counted, 30)

    wanted = run(effects_once)
    fast = dynoc.optimize(effects_once, wait=True)
    assert [run(fast) for _ in range(4)] == [wanted] * 4


def test_one_loop_calls_many_functions(path):
    """The types, the number and the kind of what it calls change from call to call."""
    fast = dynoc.optimize(two_ints, wait=True)
    makers = [CTYPES[name][1] for name in ("ints", "undeclared", "floats", "errcheck", "restype that is called")] * 2
    for make in [*makers, lambda p: max, lambda p: divmod, lambda p: declared(p, "twice", ctypes.c_ulong, ctypes.c_ulong)]:
        f = make(path)
        assert outcome(fast, f, 12, 3) == outcome(two_ints, f, 12, 3)


# ---- cffi


def cffi_pointer(ffi, f, n):
    a, total = np.arange(5.0), 0.0
    p = ffi.cast("double *", ffi.from_buffer(a))
    for i in range(n):
        p[i % 5] = i
        total += f(p, 5)
    return total, a.tolist()


def cffi_buffer(ffi, f, n):
    a, total = np.arange(5.0), 0.0
    for i in range(n):
        a[i % 5] = i
        total += f(ffi.from_buffer("double[]", a), 5)
    return total


def cffi_array(ffi, f, n):
    a, total = ffi.new("double[5]"), 0.0
    for i in range(n):
        a[i % 5] = i
        total += f(a, 5) + a[2]
    return total


def cffi_number(ffi, f, n):
    out, total = ffi.new("int *"), 0
    for i in range(n):
        f(i, out)
        total += out[0]
    return total


def cffi_structure(ffi, f, n):
    p = ffi.new("Pair *", {"x": 1.0, "y": 2.0})
    for _ in range(n):
        f(p, 0.5)
    return p.x, p.y


def cffi_structure_by_value(ffi, f, n):
    p, total = ffi.new("Pair *", [1.0, 2.0]), 0.0
    for i in range(n):
        p.x = i
        total += f(p[0])
    return total


def cffi_texts(ffi, f, n):
    out = []
    for i in range(-1, n):
        text = f(i)
        out.append(ffi.string(text) if text else None)
    return out


def cffi_callback(ffi, f, n):
    back = ffi.callback("double(double)", lambda x: x * 2)
    total = 0.0
    for i in range(n):
        total += f(back, i)
    return total


def cffi_errno(ffi, f, n):
    out = []
    for i in range(n):
        if f(i) < 0:
            out.append(ffi.errno)
    return out


def cffi_variable(ffi, f, n):
    total = 0
    for i in range(n):
        total += f(2, ffi.cast("int", i), ffi.cast("int", 1))
    return total


def of_ffi(loop):
    def run(ffi, f, n):
        return loop(f, n)

    run.__name__ = loop.__name__
    return run


CFFI = {
    "add": of_ffi(floats), "iadd": of_ffi(two_ints), "twice": of_ffi(one_int), "tenth": of_ffi(one_int), "odd": of_ffi(one_int),
    "length": of_ffi(texts), "total": cffi_pointer, "square": cffi_number, "shift": cffi_structure,
    "norm": cffi_structure_by_value, "name": cffi_texts, "apply": cffi_callback, "fails": cffi_errno, "sum_of": cffi_variable,
}  # fmt: skip


@pytest.fixture(scope="module", params=["opened", "compiled"])
def foreign(request, path, tmp_path_factory):
    """(ffi, lib) of a library that was opened, or of a module that was compiled."""
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    ffi.cdef(DECLARED)
    if request.param == "opened":
        yield ffi, ffi.dlopen(path)
        return
    pytest.importorskip("setuptools")
    folder = str(tmp_path_factory.mktemp("module"))
    ffi.set_source("_dynoc_foreign_programs", SOURCE)
    ffi.compile(tmpdir=folder, verbose=False)
    sys.path.insert(0, folder)
    import _dynoc_foreign_programs as module

    yield module.ffi, module.lib
    sys.path.remove(folder)


@pytest.mark.parametrize("name", [*CFFI, "buffer", "array", "address"])
def test_programs_of_cffi(foreign, name):
    ffi, lib = foreign
    loop = {"buffer": cffi_buffer, "array": cffi_array}.get(name) or CFFI.get(name) or of_ffi(floats)
    function = getattr(lib, name if name in CFFI else "total" if name in ("buffer", "array") else "add")
    f = ffi.addressof(lib, "add") if name == "address" else function
    sizes = (1, 20, 20, 40, 3, 0)
    wanted = [outcome(loop, ffi, f, n) for n in sizes]
    fast = dynoc.optimize(loop, wait=True)
    assert [outcome(fast, ffi, f, n) for n in sizes] == wanted


def test_errors_of_cffi(foreign):
    ffi, lib = foreign
    fast = dynoc.optimize(two_ints, wait=True)
    for by in (1, 2, 2**31, -(2**31) - 1, 2**70, 1.5, "x", None, True):
        assert outcome(fast, lib.iadd, 12, by) == outcome(two_ints, lib.iadd, 12, by)


# ---- SciPy


def special_values(f, n):
    total = 0.0
    for i in range(n):
        total += f(i * 0.25 + 0.5)
    return total


def special_pairs(f, n):
    total = 0.0
    for i in range(n):
        total += f(0.5, i * 0.25)
    return total


@pytest.mark.parametrize("name", ["j0", "gamma", "erf", "expit", "loggamma"])
def test_functions_of_cython_special(name):
    special = pytest.importorskip("scipy.special.cython_special")
    check(special_values, getattr(special, name))


@pytest.mark.parametrize("name", ["jv", "beta", "hyp0f1"])
def test_functions_of_cython_special_for_several_types(name):
    special = pytest.importorskip("scipy.special.cython_special")
    check(special_pairs, getattr(special, name))


def test_low_level_callables():
    scipy, integrate = pytest.importorskip("scipy"), pytest.importorskip("scipy.integrate")
    function = scipy.LowLevelCallable(declared("libm.so.6", "cos", c_double, c_double))

    def integrals(f, n):
        out = []
        for i in range(n):
            out.append(integrate.quad(f, 0.0, i * 0.1)[0])
        return out

    check(integrals, function, sizes=(1, 5, 5, 5))
