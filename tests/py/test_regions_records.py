"""Native loops over arrays with fields, np.recarray, and arrays whose elements aren't aligned."""

import weakref

import numpy as np
import pytest
from regions import Case, check, outcome
from test_loops_null import twin

import dynoc

PACKED = np.dtype([("m", "f8"), ("x", "f8"), ("k", "i4"), ("b", "u1"), ("t", "?"), ("z", "c16"), ("u", "u8"), ("f", "f4")])
ALIGNED = np.dtype(PACKED.descr, align=True)
MIXED = np.dtype([("x", "f8"), ("name", "S3"), ("pair", "f8", 2), ("inner", [("y", "f8")])])


def made(n=6, dtype=PACKED):
    a = np.zeros(n, dtype=dtype)
    for i, name in enumerate(dtype.names):
        if a[name].ndim == 1 and a[name].dtype.kind in "fiub?":
            a[name] = np.arange(n) + i
    return a


def moved(a, n):
    for i in range(len(a)):
        a[i]["x"] += 0.5 * a[i]["m"]
        if a[i]["t"] and a[i]["k"] != 3:
            a[i]["k"] = n
            a[i]["b"] -= 1
        n += a[i]["k"]
    return n, a


def columns_first(a, s):
    for i in range(a.shape[0]):
        s += a["m"][i] * a["f"][i] + a["u"][i]
        a["f"][i] = s
    return s, i


def kept(a, s):
    for i in range(a.size):
        r = a[i]
        x = a["x"]
        r["m"] = s
        s += r["m"] + x[i] + r["z"].real
    return s, r, x


def by_column(x, k, s):
    for i in range(len(x)):
        x[i] = x[i] * 2 + k[i]
        s += x[-1 - i]
        k[i] += 1
    return s, x.ndim, len(k)


def attributes(a, b, s):
    for i in range(a.size):
        first = a[i]
        for j in range(b.size):
            second = b[j]
            second.x += first.m * second.m + first.x
            s += b.x[j] + a[j].m
        first.m += second.m
    return s, first


def by_attribute(a, s):
    for i in range(len(a)):
        s += a.m[i]
    return s


def of_two_axes(a, s):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            s += a[i, j]["x"] - a["k"][i, j]
            a[i, j]["x"] = i - j
    return s


def others(a, s):
    for i in range(len(a)):
        s += a[i]["x"]
        name = a[i]["name"]
    return s, name


def by_name(a, names, s):
    for i in range(len(a)):
        for name in names:
            s += a[i][name]
    return s


def stored(a, v):
    for i in range(len(a)):
        a[i]["k"] = v
        a[i]["b"] = v
    return i


def reused(a, first, s):
    for i in range(len(a)):
        first = a[i]
        s += first["m"]
    return s, first


@pytest.mark.parametrize("kind", [np.ndarray, np.recarray])
def test_a_variable_that_has_a_record(kind):
    a = made().view(kind)
    check(reused, (a, a[2], 0.0), [iter(range(6))])


def test_a_record_that_somebody_watches():
    a = made().view(np.recarray)
    died = []
    for function in (reused, dynoc.optimize(twin(reused), wait=True)):
        for _ in range(2):
            first = a[1]
            watch = weakref.ref(first, died.append)
            holder = [first]
            del first
            assert function(a, holder.pop(), 0.0)[0] == reused(a, 0, 0.0)[0]
            assert watch() is None and died.pop() is watch


@pytest.mark.parametrize("dtype", [PACKED, ALIGNED], ids=["packed", "aligned"])
@pytest.mark.parametrize("function", [columns_first, kept])
def test_fields(function, dtype):
    args = {moved: 7, columns_first: 0.0, kept: 0.25}
    a = made(dtype=dtype)
    check(function, (a, args[function]), [iter(range(len(a)))])


def test_records():
    a = made()
    check(moved, (a, 7), [iter(range(len(a)))])
    check(moved, (a[::-2], 7), [iter(range(3))])


def test_an_index_outside():
    a = made()
    for function in (columns_first, kept):
        check(function, (a, 0.0), [iter(range(9))])


def test_columns_that_come_in():
    """Copies are aligned, so that these aren't checked at each exit."""
    fast = dynoc.optimize(twin(by_column), wait=True)
    before = dynoc.counters["loops"]["native"]
    for n in (6, 40, 0, 300):
        a, b = made(n), made(n)
        assert n == 0 or not a["m"].flags.aligned
        results = [outcome(lambda f=f, o=o: f(o["m"], o["k"], 0.0), [o]) for f, o in ((by_column, a), (fast, b))]
        assert results[0] == results[1]
    assert dynoc.counters["loops"]["native"] > before


def test_attributes():
    a, b = made(4).view(np.recarray), made(5).view(np.recarray)
    check(attributes, (a, b, 0.0), [iter(range(4))])
    check(attributes, (a, a, 0.0), [iter(range(4))])


def test_an_attribute_that_hides_a_field():
    """What lies in an array's own dictionary comes before its fields."""
    fast = dynoc.optimize(twin(by_attribute), wait=True)
    for hides in (False, False, True, True, False):
        a = made(40).view(np.recarray)
        if hides:
            a.__dict__["m"] = np.full(40, 3)
        assert fast(a, 0.0) == by_attribute(a, 0.0)


def test_two_axes():
    check(of_two_axes, (made(6).reshape(2, 3), 0.0), [iter(range(2))])


@pytest.mark.parametrize("v", [5, 300, -1, 2.75, True, np.int64(300), np.float32(3.5), 2**40])
def test_stores(v):
    check(stored, (made(), v), [iter(range(6))])


@pytest.mark.parametrize("function, args", [(others, (0.0,)), (by_name, (("m", "k"), 0.0)), (stored, ("a",))])
def test_what_else_there_is(function, args):
    make = {others: lambda: made(4, MIXED)}.get(function, lambda: made(4))
    fast = dynoc.optimize(twin(function), wait=True)
    results = []
    for f in (function, fast, fast):
        a = make()
        results.append((outcome(lambda f=f, a=a: f(a, *args), [])[0], a.tobytes()))
    assert results[1:] == results[:1] * 2


def test_read_only():
    a = made()
    a.flags.writeable = False
    assert Case(stored, (a, 1), [iter(range(6))]).refusal()[0] == "UNSUPPORTED_OP"


def test_another_dtype_at_the_next_call():
    fast = dynoc.optimize(twin(columns_first), wait=True)
    for dtype in (PACKED, ALIGNED, np.dtype([("u", "u8"), ("m", "i2"), ("f", "f8")]), PACKED):
        a, b = made(40, dtype), made(40, dtype)
        assert fast(a, 0.0) == columns_first(b, 0.0)
        assert a.tobytes() == b.tobytes()


def test_records_outlive_the_loop():
    a = made()
    fast = dynoc.optimize(twin(kept), wait=True)
    for _ in range(3):
        s, record, x = fast(a, 0.25)
        assert type(record) is np.void and record.base is a and record.dtype == PACKED
        record["m"] = 99
        assert a[5]["m"] == 99 and x.base is a
