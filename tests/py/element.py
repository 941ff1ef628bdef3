"""What test_complex.py and test_float16.py share: functions made from the operator table, operands in every layout, and the
comparison with eager, to the bit or to a number of units in the last place."""

import warnings

import numpy as np
from compare import dynoc

from dynoc import _dynoc

ELEMENTWISE, REDUCE, VECTOR_CALL = 1, 2, 2


def rows(kind):
    """(NumPy's function, arity, does it call the C library's mathematics) of each row that is a function of NumPy."""
    found = []
    for row in _dynoc._op_table():
        text, arity, row_kind, flags = row[1], row[2], row[3], row[10]
        if row_kind == kind and hasattr(np, text):
            found.append((text, arity, bool(flags & VECTOR_CALL)))
    return found


def has_loop(name, types):
    """Has NumPy a loop of this ufunc for operands of these characters?"""
    function = getattr(np, name)
    if not isinstance(function, np.ufunc):
        return True
    return any(loop.split("->")[0] == types for loop in function.types)


def function(name, arity):
    ufunc = getattr(np, name)
    if arity == 1:
        return lambda x: ufunc(x)
    if arity == 2:
        return lambda x, y: ufunc(x, y)
    return lambda x, y: ufunc(x == y, x, y)


def layouts(data):
    """The same kind of numbers in every layout: name -> array."""
    n = len(data)
    grid = data[: n // 6 * 6].reshape(-1, 6)
    spaced = np.zeros(2 * n, data.dtype)
    spaced[::2] = data
    return {
        "contiguous": data,
        "strided": spaced[::2],
        "backwards": data[::-1],
        "rows": grid,
        "fortran": np.asfortranarray(grid),
        "turned": grid.T,
        "every other column": grid[:, ::2],
        "element": data[3:4].reshape(()),
        "one": data[:1],
        "two": data[5:7],
        "three": data[2:5],
        "none": data[:0],
        "no rows": np.zeros((0, 3), data.dtype),
        "spread": np.broadcast_to(data[:6], (4, 6)),
    }


def quietly(fn, *args):
    """The result, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = fn(*args)
    return result, sorted({str(w.message) for w in caught})


def parts(a):
    a = np.asarray(a).flatten()
    return a.view(a.real.dtype) if a.dtype.kind == "c" else a


def same_numbers(plain, fast, ulp, scale=None):
    """None, or how two results differ. ulp: 0 for the bits (nan is nan), else how many units in the last place of the number,
    or of `scale` where that is more (products of complex numbers cancel)."""
    if type(plain) is not type(fast) or plain.dtype != fast.dtype or plain.shape != fast.shape:
        return f"{type(fast)} {fast.dtype} {fast.shape} instead of {type(plain)} {plain.dtype} {plain.shape}"
    a, b = parts(plain), parts(fast)
    if a.dtype.kind not in "fc":
        return None if np.array_equal(a, b) else f"{b} instead of {a}"
    nan = np.isnan(a)
    if not np.array_equal(nan, np.isnan(b)):
        return f"nan elsewhere: {b} instead of {a}"
    equal = (a == b) & ((np.signbit(a) == np.signbit(b)) | (ulp > 0)) | nan
    if equal.all():
        return None
    at = ~equal
    if ulp == 0 or not (np.isfinite(a[at]).all() and np.isfinite(b[at]).all()):
        return f"{b[at][:4]} instead of {a[at][:4]}"
    size = np.abs(a) if scale is None else np.maximum(np.abs(a), np.repeat(np.ravel(scale), a.size // np.size(scale)))
    size = np.minimum(size, np.finfo(a.dtype).max).astype(a.dtype)
    far = np.abs(a[at].astype(np.longdouble) - b[at]) > ulp * np.spacing(size[at]).astype(np.longdouble)
    return f"{b[at][far][:4]} instead of {a[at][far][:4]}" if far.any() else None


def optimise(fn):
    return dynoc.optimize(fn, wait=True, fullgraph=True)
