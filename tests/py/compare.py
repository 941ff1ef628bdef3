"""Plain Python against dynoc: run a call both ways and list every difference that a program could see.

Compared are the result (types, dtypes, shapes, strides, values), what became of the arguments, the exception with message and
traceback (function, line and column of each frame), warnings with their place, and which arrays share memory or are one
object. Used by every test in this folder and by tests/fuzz.
"""

import enum
import math
import struct
import sys
import types
import warnings
from collections import deque

import numpy as np
from case import Call

try:
    import dynoc
except ModuleNotFoundError as error:
    if error.name != "dynoc":
        raise
    dynoc = None  # tests can be collected without the extension; none passes


class Outcome:
    """Everything that can be seen of one call. Keeps result and arguments alive, so that identities stay comparable."""

    def __init__(self):
        self.result = None
        self.error = None
        self.frames = []
        self.warnings = []
        self.seen = None
        self.call = None


def frames_of(error, file):
    """(function, line, end line, column, end column) of each frame of the traceback in the file."""
    frames = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if code.co_filename == file:
            position = list(code.co_positions())[step.tb_lasti // 2]
            frames.append((code.co_name, step.tb_lineno, *position))
        step = step.tb_next
    return frames


def chain_of(error):
    """The exception and what it came from: type, arguments, how they hang together."""
    chain = []
    while error is not None and len(chain) < 5:
        chain.append((type(error), repr(error.args), error.__suppress_context__))
        error = error.__cause__ or error.__context__
    return chain


def run(fn, call, file, observe=None):
    """One call, with everything that can be seen of it."""
    out = Outcome()
    out.call = call
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            out.result = fn(*call.args, **call.kwargs)
        except Exception as error:
            out.error = chain_of(error)
            out.frames = frames_of(error, file)
            error.__traceback__ = None
    out.warnings = [(w.category, str(w.message), w.filename, w.lineno) for w in caught]
    if observe is not None:
        out.seen = observe()
    return out


# ---- values


def float_bits(x):
    return b"nan" if math.isnan(x) else struct.pack("<d", x)


def array_difference(a, b, tol):
    """None, or how two arrays of one dtype and shape differ in their elements."""
    if a.dtype.kind not in "fc":
        return None if a.tobytes() == b.tobytes() else f"{b} instead of {a}"
    if a.dtype.kind == "c":
        a, b = np.atleast_1d(a.copy()).view(a.real.dtype), np.atleast_1d(b.copy()).view(b.real.dtype)
    nan = np.isnan(a)
    if not np.array_equal(nan, np.isnan(b)):
        return f"NaN elsewhere: {b} instead of {a}"
    x, y = a[~nan], b[~nan]
    if np.array_equal(x, y) and np.array_equal(np.signbit(x), np.signbit(y)):
        return None
    if tol == "bits":
        return f"other bits: {b!r} instead of {a!r}"
    finite = np.isfinite(x)
    if not np.array_equal(x[~finite], y[~finite]):
        return f"{b} instead of {a}"
    eps = np.finfo(a.dtype).eps
    x, y = x[finite], y[finite]
    largest = float(np.abs(x).max(initial=0.0))
    if np.allclose(x, y, rtol=64 * eps, atol=16 * eps * min(largest, 1e3)):
        return None
    return f"not near: {b!r} instead of {a!r}"


def strides_that_matter(a):
    return tuple(s for s, n in zip(a.strides, a.shape) if n > 1) if a.size else ()


def compare_arrays(a, b, tol, path, report):
    for what in ("dtype", "shape"):
        if getattr(a, what) != getattr(b, what):
            report(f"{path}.{what}: {getattr(b, what)} instead of {getattr(a, what)}")
            return
    if strides_that_matter(a) != strides_that_matter(b):
        report(f"{path}.strides: {b.strides} instead of {a.strides}")
    for flag in ("writeable", "aligned", "c_contiguous", "f_contiguous"):
        if getattr(a.flags, flag) != getattr(b.flags, flag):
            report(f"{path}.flags.{flag}: {getattr(b.flags, flag)}")
    difference = array_difference(a, b, tol) if a.dtype != object else None
    if difference:
        report(f"{path}: {difference}")


def attributes(o):
    """Instance attributes, those in slots too; None for what has none of its own."""
    if isinstance(o, (type, types.FunctionType, types.ModuleType, enum.Enum)):  # some CPythons' flags hold one another
        return None
    slots = [name for cls in type(o).__mro__ for name in getattr(cls, "__slots__", ()) if isinstance(cls.__slots__, tuple)]
    if not slots and not hasattr(o, "__dict__"):
        return None
    return {**{name: getattr(o, name) for name in slots if hasattr(o, name)}, **getattr(o, "__dict__", {})}


def compare_values(a, b, tol, path, report):
    """Report every difference between two values, the first the one that plain Python gave."""
    if type(a) is not type(b):
        report(f"{path}: {type(b).__name__} {b!r} instead of {type(a).__name__} {a!r}")
    elif isinstance(a, np.ndarray):
        compare_arrays(a, b, tol, path, report)
    elif isinstance(a, np.generic):
        difference = array_difference(np.asarray(a), np.asarray(b), tol)
        if difference:
            report(f"{path}: {difference}")
    elif isinstance(a, float):
        if float_bits(a) != float_bits(b) and not (tol == "near" and math.isclose(a, b, rel_tol=1e-13)):
            report(f"{path}: {b!r} instead of {a!r}")
    elif isinstance(a, (tuple, list, deque)):
        if len(a) != len(b):
            report(f"{path}: {len(b)} items instead of {len(a)}")
        for i, (x, y) in enumerate(zip(a, b)):
            compare_values(x, y, tol, f"{path}[{i}]", report)
    elif isinstance(a, dict):
        if list(a) != list(b):
            report(f"{path}: keys {list(b)} instead of {list(a)}")
            return
        for key in a:
            compare_values(a[key], b[key], tol, f"{path}[{key!r}]", report)
    elif isinstance(a, types.FunctionType):
        if a.__qualname__ != b.__qualname__:
            report(f"{path}: function {b.__qualname__} instead of {a.__qualname__}")
    elif isinstance(a, enum.Enum):
        if (a.name, a.value) != (b.name, b.value):
            report(f"{path}: {b!r} instead of {a!r}")
    elif isinstance(a, np.random.Generator):
        if a.bit_generator.state != b.bit_generator.state:
            report(f"{path}: the generator has another state")
    elif attributes(a) is not None:
        compare_values(attributes(a), attributes(b), tol, f"vars({path})", report)
    elif type(a).__eq__ is not object.__eq__ and a != b:
        report(f"{path}: {b!r} instead of {a!r}")


# ---- aliasing


def walk(value, into):
    """Mutable objects reachable from a value, in a fixed order, again and again where they appear again."""
    if isinstance(value, np.ndarray):
        into.append(value)
    elif isinstance(value, (tuple, list, deque)):
        if not isinstance(value, tuple):
            into.append(value)
        for item in value:
            walk(item, into)
    elif isinstance(value, dict):
        into.append(value)
        for item in value.values():
            walk(item, into)
    elif attributes(value) is not None:
        into.append(value)
        for item in attributes(value).values():
            walk(item, into)


def aliasing_of(out):
    """Which of the objects are one and the same, and which arrays share memory: the same for two runs that behave alike."""
    objects = []
    walk((out.result, out.call.args, out.call.kwargs, out.seen), objects)
    first = {}
    same = tuple(first.setdefault(id(o), i) for i, o in enumerate(objects))
    arrays = [(i, o) for i, o in enumerate(objects) if isinstance(o, np.ndarray) and same[i] == i]
    shared = tuple((i, j) for i, a in arrays for j, b in arrays if i < j and np.shares_memory(a, b))
    return same, shared


# ---- the comparison


def differences(plain, fast, tol):
    found = []
    if plain.error != fast.error:
        found.append(f"exception: {fast.error} instead of {plain.error}")
    if plain.frames != fast.frames:
        found.append(f"traceback: {fast.frames} instead of {plain.frames}")
    if plain.warnings != fast.warnings:
        found.append(f"warnings: {fast.warnings} instead of {plain.warnings}")
    compare_values(plain.result, fast.result, tol, "result", found.append)
    compare_values(plain.call.args, fast.call.args, tol, "args", found.append)
    compare_values(plain.call.kwargs, fast.call.kwargs, tol, "kwargs", found.append)
    compare_values(plain.seen, fast.seen, tol, "state", found.append)
    if not found and aliasing_of(plain) != aliasing_of(fast):
        found.append(f"aliasing: {aliasing_of(fast)} instead of {aliasing_of(plain)}")
    return found


def check(plain, fast, maker, tol="bits", reset=None, observe=None, what=""):
    """Assert that one call gives the same both ways. maker gives a Call or a tuple of arguments, fresh each time."""
    outcomes = []
    file = plain.__code__.co_filename
    for fn in (plain, fast):
        made = maker()
        if reset is not None:
            reset()
        outcomes.append(run(fn, made if isinstance(made, Call) else Call(*made), file, observe))
    found = differences(*outcomes, tol)
    assert not found, f"{plain.__name__} {what}\n" + "\n".join(found)


def check_case(row, plain, fast, maker, what=""):
    check(plain, fast, maker, row.tol, row.reset, row.observe, what)


def traced(call, file):
    """(event, line, function) of what a tracer is told of code in the file while `call()` runs."""
    events = []

    def trace(frame, event, arg):
        if frame.f_code.co_filename == file:
            events.append((event, frame.f_lineno, frame.f_code.co_name))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return events


def graphs_of(function, *args):
    """The text of the graphs that a call is captured in."""
    return "\n".join(map(str, dynoc.explain(function)(*args).graphs))
