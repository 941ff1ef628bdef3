"""Calls of functions of C between array operations: each is a node of the graph, in its place, made once a call, by ctypes."""

import copy
import ctypes
import errno
import operator
import traceback

import numpy as np
import pytest
from compare import dynoc
from foreign_library import compiled

SOURCE = r"""
#include <errno.h>
static long calls;
long called(void) { return calls; }
double total(const double *x, long n) { calls++; double s = 0; for (long i = 0; i < n; i++) s += x[i]; return s; }
void scale(double *x, long n, double by) { calls++; for (long i = 0; i < n; i++) x[i] *= by; }
void bump(long *x, long n) { calls++; for (long i = 0; i < n; i++) x[i]++; }
static double *kept; static long nkept;
void keep(double *x, long n) { calls++; kept = x; nkept = n; }
double step(double by) { calls++; double s = 0; for (long i = 0; i < nkept; i++) s += kept[i] += by; return s; }
long fails(int e) { calls++; errno = e; return -1; }
unsigned long wide(unsigned long x) { calls++; return x; }
double *same(double *x) { calls++; return x; }
static long (*back)(long);
void set_back(long (*f)(long)) { back = f; }
long call_back(long x) { calls++; return back(x); }
long call_given(long (*f)(long), long x) { calls++; return f(x); }
"""
DOUBLES = ctypes.POINTER(ctypes.c_double)
BACK = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return compiled(SOURCE, tmp_path_factory.mktemp("foreign"))


@pytest.fixture
def lib(path):
    return declared(ctypes.CDLL(path, use_errno=True))


def declared(lib):
    def declare(name, result, *args):
        function = getattr(lib, name)
        function.argtypes, function.restype = list(args), result

    declare("called", ctypes.c_long)
    declare("total", ctypes.c_double, DOUBLES, ctypes.c_long)
    declare("scale", None, DOUBLES, ctypes.c_long, ctypes.c_double)
    declare("bump", None, np.ctypeslib.ndpointer(np.int64, ndim=1, flags="C_CONTIGUOUS"), ctypes.c_long)
    declare("keep", None, ctypes.c_void_p, ctypes.c_long)
    declare("step", ctypes.c_double, ctypes.c_double)
    declare("fails", ctypes.c_long, ctypes.c_int)
    declare("wide", ctypes.c_ulong, ctypes.c_ulong)
    declare("same", DOUBLES, DOUBLES)
    declare("call_back", ctypes.c_long, ctypes.c_long)
    declare("call_given", ctypes.c_long, BACK, ctypes.c_long)
    return lib


def outcome(fn, lib, given):
    before = lib.called()
    try:
        result = fn(*given)
    except Exception as error:
        lines = [line.line for line in traceback.extract_tb(error.__traceback__)]
        result = type(error), str(error), lines[1:]
    return repr(result), [a.tolist() for a in given if isinstance(a, np.ndarray)], lib.called() - before


def check(fn, lib, make, calls=4, whole=True, **options):
    """The function gives, writes and calls what it does in CPython, each time, with what `make` gives for a call's number."""
    fast = dynoc.optimize(fn, wait=True, fullgraph=whole, **options)
    for k in range(calls):
        assert outcome(fast, lib, make(k)) == outcome(fn, lib, make(k)), k
    return fast


def ramp(k):
    return (np.arange(1.0, 6.0 + k % 2) * (k + 1),)


# ---- its place among what the graph reads and writes


def test_what_is_given_is_written_before_and_read_behind(lib):
    def fn(x):
        y = x * 2 + 1
        lib.scale(y.ctypes.data_as(DOUBLES), y.size, 3.0)
        t = lib.total(x.ctypes.data_as(DOUBLES), len(x))
        return y + x * 2 + t

    fast = check(fn, lib, ramp)
    assert len(fast.entries) == 1


def test_values_of_before_stay_what_they_were(lib):
    def fn(x):
        before = x * 2
        z = before + x
        lib.scale(x.ctypes.data_as(DOUBLES), x.size, 2.0)
        after = x * 2  # not the same as before
        return before - 1, z, after, before + after

    check(fn, lib, ramp)


def test_stores_of_before_are_seen_and_of_behind_are_not(lib):
    def fn(x):
        x[1:] += 1
        first = lib.total(x.ctypes.data_as(DOUBLES), x.size)
        x *= 3
        second = lib.total(x.ctypes.data_as(DOUBLES), x.size)
        x -= 1
        return first, second

    check(fn, lib, ramp)


def test_views_and_parts(lib):
    def fn(x):
        z = x + 1j * x
        row = z.real + 1
        lib.scale(z.ctypes.data_as(DOUBLES), 2, 5.0)
        y = np.sin(x)
        lib.scale(y[2:].ctypes.data_as(DOUBLES), 2, 5.0)
        return row, z.real + z.imag, y + y[::-1]

    check(fn, lib, ramp)

    def parts(z):
        re = z.real * 2
        lib.scale(z.ctypes.data_as(DOUBLES), 4, 5.0)
        return re, z.real + z.imag

    check(parts, lib, lambda k: (np.arange(3.0) + 1j,))


def test_places_that_a_call_writes(lib):
    def fn(x, index):
        first = x[index]
        lib.bump(index, index.size)
        return first, x[index], np.take(x, index)

    check(fn, lib, lambda k: (np.arange(9.0), np.array([0, 3, 5 + k % 2])))


def test_addresses_as_numbers(lib):
    def fn(x):
        y = x + 1
        p = y.ctypes.data
        lib.keep(p + 8, y.size - 1)
        a = lib.step(1.0)
        b = lib.step(10.0)
        return y, a, b

    check(fn, lib, ramp)


def test_memory_whose_address_was_given_before_the_call(lib):
    kept = np.arange(4.0)
    lib.keep(kept.ctypes.data, kept.size)

    def fn(x, y):
        doubled = x * 2
        s = lib.step(1.0)  # writes into y
        return doubled + s, x * 2 + y, kept

    def make(k):
        y = np.ones(4) * k
        lib.keep(y.ctypes.data, y.size)
        return np.arange(4.0), y

    check(fn, lib, make)

    def alias(x):
        doubled = x * 2
        lib.step(1.0)  # writes into x
        return doubled, x * 2

    def one(k):
        x = np.ones(4) * k
        lib.keep(x.ctypes.data, x.size)
        return (x,)

    check(alias, lib, one)


def test_addresses_and_pointers_that_come_in(lib):
    def fn(x, at, pointer):
        a = x + 1
        lib.keep(at, x.size)
        lib.step(2.0)
        b = x + 1
        lib.scale(pointer, x.size, 2.0)
        return a, b, x + 1

    def make(k):
        (x,) = ramp(k)
        return x, x.ctypes.data, x.ctypes.data_as(DOUBLES)

    check(fn, lib, make)


def test_a_read_only_array_may_be_given(lib):
    def fn(x):
        return lib.total(x.ctypes.data_as(DOUBLES), x.size) + x

    def make(k):
        (x,) = ramp(k)
        x.flags.writeable = False
        return (x,)

    check(fn, lib, make)


def test_numbers_that_are_made_for_the_call(path):
    lib = declared(ctypes.CDLL(path))
    lib.scale.argtypes = lib.total.argtypes = None

    def fn(x):
        y = x * 2
        lib.scale(ctypes.c_void_p(y.ctypes.data), ctypes.c_long(y.size), ctypes.c_double(0.5 * len(x)))
        return y + lib.total(x.ctypes, ctypes.c_long(x.size))

    check(fn, lib, ramp)


# ---- arguments that don't fit


def test_ndpointer_says_what_is_wrong(lib):
    def fn(x, n):
        y = x + 1
        lib.bump(y, n)
        return y * 2

    check(fn, lib, lambda k: (np.arange(4) * k, 3))
    check(fn, lib, lambda k: (np.arange(4.0 if k == 2 else 4), 3), whole=False)

    def given(x, n):
        n += 1
        lib.bump(x, n)
        return x + n

    wrong = [np.arange(4), np.arange(4.0), np.zeros((2, 2), int), np.arange(8)[::2], np.arange(4), [1, 2]]
    check(given, lib, lambda k: (copy.deepcopy(wrong[k]), 3), calls=len(wrong), whole=False)


def test_arguments_that_the_graph_can_t_tell_from_good_ones(lib):
    def fn(x, pointer):
        x += 1
        lib.scale(pointer, x.size, 2.0)
        return x + 1

    def make(k):
        (x,) = ramp(0)
        return x, x.ctypes.data_as(DOUBLES) if k % 2 == 0 else "no pointer"

    check(fn, lib, make, whole=False)


# ---- errors


def test_errno(lib):
    def fn(x, e):
        r = lib.fails(e)
        return x * r

    fast = check(fn, lib, lambda k: (np.ones(3), errno.ENOENT))
    ctypes.set_errno(0)
    fast(np.ones(3), errno.EACCES)
    assert ctypes.get_errno() == errno.EACCES

    def asks(x, e):
        y = x + 1
        lib.fails(e)
        return y * ctypes.get_errno()

    check(asks, lib, lambda k: (np.ones(3), k), whole=False)


def test_errcheck(lib):
    seen = []

    def looks(result, function, arguments):
        seen.append((result, arguments))
        if arguments[0] == 13:
            raise PermissionError(arguments[0], "denied")
        return result - 5

    lib.fails.errcheck = looks

    def fn(x, e):
        x += 1
        r = lib.fails(e)
        x += r
        return x * 2

    check(fn, lib, lambda k: (np.ones(3), (1, 2, 13, 4, 13)[k]), calls=5, whole=False)
    assert seen == [(-1, (e,)) for e in (1, 1, 2, 2, 13, 13, 4, 4, 13, 13)]


def test_errcheck_that_is_no_python_code(lib):
    def fn(x, e):
        x += 1
        r = lib.fails(e)
        x += 1
        return x * 2, r

    fast = dynoc.optimize(fn, wait=True)
    for errcheck in (None, None, operator.itemgetter(0), max, None, len):
        if errcheck is None:
            del lib.fails.errcheck
        else:
            lib.fails.errcheck = errcheck
        assert outcome(fast, lib, (np.ones(2), 3)) == outcome(fn, lib, (np.ones(2), 3))


def test_results_of_another_kind_are_taken_on_behind_the_call(lib):
    def fn(x, n):
        y = x * 2
        z = (y, lib.wide(n), x + 1)
        return z[0] + z[1] % 7, z[1], z[2]

    numbers = [1, 2, 2**63 - 1, 2**64 - 1, 5, 2**63]
    given = [ctypes.c_ulong(n) for n in numbers]
    check(fn, lib, lambda k: (np.arange(3.0), given[k]), calls=len(numbers), whole=False)

    lib.fails.restype = ctypes.c_long

    def other(x):
        return x + 1, lib.fails(1)

    fast = dynoc.optimize(other, wait=True)
    for result in (ctypes.c_long, ctypes.c_long, ctypes.c_double, None, ctypes.c_char, lambda r: f"{r}!", ctypes.c_long):
        lib.fails.restype = result
        if result is ctypes.c_double:
            continue  # what lies in the register isn't the function's
        assert outcome(fast, lib, (np.ones(2),)) == outcome(other, lib, (np.ones(2),))


def test_left_behind_the_call_in_a_function_that_was_followed_into(lib):
    def inner(x, n):
        a = x + 1
        try:
            return [a, lib.wide(n), "x"]
        finally:
            a += 1

    def fn(x, n):
        t = 3
        got = inner(x * 2, n)
        return t, got[0] * t, got[1], got[2]

    numbers = [1, 2, 2**64 - 1, 3, 2**63]
    given = [ctypes.c_ulong(n) for n in numbers]
    check(fn, lib, lambda k: (np.arange(3.0), given[k]), calls=len(numbers), whole=False)


def test_exceptions_of_the_interpreter():
    raises = ctypes.pythonapi.PyErr_BadArgument
    raises.argtypes, raises.restype = [], ctypes.c_int

    def fn(x, bad):
        x += 1
        if bad:
            raises()
        x += 1
        return x * 2

    fast = dynoc.optimize(fn, wait=True)
    for bad in (False, True, True, False):
        for f in (fast, fn):
            x = np.ones(3)
            try:
                assert f(x, bad).tolist() == [6.0] * 3
            except TypeError as error:
                assert bad and "bad argument" in str(error)
                assert traceback.extract_tb(error.__traceback__)[-1].line == "raises()"
                assert x.tolist() == [2.0] * 3


# ---- code that is called back

state = {"factor": 2.0, "array": None, "list": []}
factor = 2.0


class Holder:
    def __init__(self):
        self.by = 3.0
        self.array = np.ones(4)


def changes_a_global(holder, array):
    global factor
    factor += 1.0


def changes_an_attribute(holder, array):
    holder.by *= 2


def changes_which_array(holder, array):
    holder.array = holder.array[::2] * 5 + array.sum()


def changes_a_shape(holder, array):
    array.shape = (2, 2) if array.ndim == 1 else (4,)


def changes_elements(holder, array):
    array *= 3
    holder.array += 1


def changes_nothing(holder, array):
    holder.by += 0


@pytest.mark.parametrize(
    "change", [changes_a_global, changes_an_attribute, changes_which_array, changes_a_shape, changes_elements, changes_nothing]
)
@pytest.mark.parametrize("when", [lambda k: True, lambda k: k in (2, 3), lambda k: False])
def test_what_a_callback_changes_is_seen_behind_the_call(lib, change, when):
    global factor

    def fn(holder, x):
        a = x * factor * holder.by
        b = holder.array + 1
        n = lib.call_back(len(x))
        return a, b, n, x * factor * holder.by, holder.array + 1, x.shape

    results = []
    for f in (fn, dynoc.optimize(fn, wait=True)):
        factor = 2.0
        holder, got, x = Holder(), [], None

        def called(n):
            if when(len(got)):
                change(holder, x)
            return n + len(got)

        thunk = BACK(called)
        lib.set_back(thunk)
        for k in range(6):
            x = np.arange(4.0) + k
            if change is changes_which_array:
                holder.array = np.ones(4)
            got.append(repr((outcome(f, lib, (holder, x)), holder.by, holder.array)))
        results.append(got)
    assert results[0] == results[1]


def test_a_callback_that_raises(lib, capsys, monkeypatch):
    import sys

    said = []
    monkeypatch.setattr(sys, "unraisablehook", lambda e: said.append((e.exc_type, str(e.exc_value))))

    def bad(n):
        raise KeyError(n)

    thunk = BACK(bad)

    def fn(x, thunk):
        y = x + 1
        lib.call_given(thunk, len(x))  # what it gives isn't known
        return y + 1

    check(fn, lib, lambda k: (np.ones(3), thunk), whole=False)
    assert said == [(KeyError, "3")] * 8


def test_a_callback_that_calls_the_function_again(lib):
    depth = []

    def fn(x, thunk):
        y = x + 1
        n = lib.call_given(thunk, len(x))
        return y * n + x

    fast = dynoc.optimize(fn, wait=True)
    for f in (fn, fast, fast, fn, fast):

        def again(n):
            depth.append(n)
            return 1 if n == 1 else int(f(np.ones(n - 1), thunk).sum())

        thunk = BACK(again)
        assert f(np.ones(3), thunk).tolist() == [29.0] * 3
        assert depth == [3, 2, 1]
        depth.clear()


def test_what_was_changed_before_is_seen_by_what_is_called_back(lib):
    seen = []
    thunk = BACK(lambda n: seen.append(list(noted)) or n)
    noted = []

    def fn(x):
        y = x + 1
        noted.append(len(x))
        lib.call_given(thunk, 1)
        return y * 2

    for f in (fn, dynoc.optimize(fn, wait=True)):
        noted.clear()
        seen.clear()
        for k in range(3):
            assert f(np.ones(2)).tolist() == [4.0, 4.0]
        assert seen == [[2], [2, 2], [2, 2, 2]]


# ---- other ways in


def test_the_eager_back_end(lib):
    def fn(x, n):
        before = x * 2
        lib.scale(x.ctypes.data_as(DOUBLES), x.size, 2.0)
        return before, x * 2, lib.wide(n)

    numbers = [1, 2, 2**64 - 1, 3]
    given = [ctypes.c_ulong(n) for n in numbers]
    check(fn, lib, lambda k: (*ramp(0), given[k]), whole=False, backend="eager")


def test_loops_and_branches_around_a_call(lib):
    def fn(x):
        y = x * 1
        for i in range(3):
            y += i
            if lib.total(y.ctypes.data_as(DOUBLES), y.size) > 40:
                y -= 2
            lib.scale(y.ctypes.data_as(DOUBLES), y.size, 1.5)
        return y

    check(fn, lib, ramp, whole=False)


def test_a_call_that_map_makes(lib):
    def fn(x):
        y = x + 1
        return y, list(map(lib.wide, (1, 2, 3))), max((3, 1), key=lib.wide)

    check(fn, lib, ramp, whole=False)


def test_pointers_outlive_the_call(lib):
    def fn(x):
        y = x + 1
        p = y.ctypes.data_as(DOUBLES)
        q = lib.same(p)
        return y, p, q, y.ctypes

    for f in (fn, dynoc.optimize(fn, wait=True, fullgraph=True)):
        for k in range(3):
            y, p, q, c = f(np.arange(3.0))
            assert p[1] == q[1] == 2.0 and type(p) is type(q) is DOUBLES
            y[1] = 7
            assert p[1] == 7.0 and q[1] == 7.0 and c.data == y.ctypes.data == ctypes.addressof(p.contents)


def test_forced_leaves(lib):
    def fn(x):
        y = x + 1
        lib.scale(y.ctypes.data_as(DOUBLES), y.size, 3.0)
        t = lib.total(y.ctypes.data_as(DOUBLES), y.size)
        return y * t

    for at in range(4):
        dynoc.config.force_leave = at
        dynoc.reset()
        check(fn, lib, ramp, whole=False)


def test_without_array_work_it_is_cpythons(lib):
    """Nothing would be gained by a graph of calls of C alone."""

    def fn(xs, out):
        lib.fails(ctypes.c_int(len(xs)))
        for x in xs:
            out.append(lib.wide(x))
        return out

    fast = check(fn, lib, lambda k: ([1, "x", 2][k % 2 : 1 + k % 2], []), whole=False)
    assert not fast.entries


def test_values_of_before_are_kept_where_the_call_changes_their_operands_and_guards(lib):
    class Holder:
        pass

    def fn(o):
        y = o.x * 2
        t = lib.call_back(1)
        return y + o.x + t

    holder = Holder()

    def change(k):
        holder.x += 1
        holder.x = holder.x * 3
        return k

    fast = dynoc.optimize(fn, wait=True)
    quiet, loud = BACK(abs), BACK(change)
    lib.set_back(quiet)  # recorded while nothing but C runs in it
    for k in range(3):
        holder.x = np.arange(3.0) + k
        fast(holder)
    lib.set_back(loud)
    for k in range(3):
        holder.x = np.arange(3.0) + k
        given = fast(holder)
        holder.x = np.arange(3.0) + k
        assert given.tolist() == fn(holder).tolist()


def test_functions_of_pythons_own_interface_change_what_is_known(lib):
    class Holder:
        pass

    put = ctypes.PyDLL(None).PyObject_SetAttrString
    put.argtypes, put.restype = [ctypes.py_object, ctypes.c_char_p, ctypes.py_object], ctypes.c_int

    def fn(x, o):
        y = x * o.a
        put(o, b"a", 5.0)
        return y + o.a

    def make(k):
        holder = Holder()
        holder.a = float(k)
        return np.arange(3.0), holder

    check(fn, lib, make, whole=False)
