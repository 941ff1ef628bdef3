"""Symbol arithmetic (src/ir/sym_eval.c) against Python: every operator of sym.def, on ints, bools and floats."""

import math
import operator
import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dynoc import _dynoc

INT_MIN, INT_MAX = -(2**63), 2**63 - 1


def slice_start(a, length, step):
    return slice(a, None, step).indices(length)[0]


def slice_stop(a, length, step):
    return slice(None, a, step).indices(length)[1]


def slice_len(a, b, step):
    return len(range(a, b, step))


def same_bits(a, b):
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b) or (a != a and b != b)
    return a == b


def modulus(a, b):
    return abs(complex(a, b))


PYTHON = {
    "ADD": operator.add, "SUB": operator.sub, "MUL": operator.mul, "FLOORDIV": operator.floordiv, "MOD": operator.mod,
    "TRUEDIV": operator.truediv, "POW": operator.pow, "LSHIFT": operator.lshift, "RSHIFT": operator.rshift,
    "AND": operator.and_, "OR": operator.or_, "XOR": operator.xor, "NEG": operator.neg, "INVERT": lambda a: ~(+a),
    "ABS": abs, "MIN": min, "MAX": max, "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le,
    "GT": operator.gt, "GE": operator.ge, "NOT": operator.not_, "BOOL": bool, "TO_FLOAT": float, "TO_INT": int,
    "FLOOR": math.floor, "CEIL": math.ceil, "ROUND": round, "SQRT": math.sqrt, "EXP": math.exp, "LOG": math.log,
    "LOG2": math.log2, "LOG10": math.log10, "SIN": math.sin, "COS": math.cos, "TAN": math.tan, "ATAN": math.atan,
    "TANH": math.tanh, "FABS": math.fabs, "FPOW": math.pow, "ATAN2": math.atan2, "HYPOT": math.hypot,
    "MODULUS": modulus,
    "ISFINITE": math.isfinite, "SLICE_START": slice_start, "SLICE_STOP": slice_stop, "SLICE_LEN": slice_len,
    "SAME_BITS": same_bits,
}  # fmt: skip
ONE_TYPE = {"MIN", "MAX", "SAME_BITS"}
INTS_ONLY = {"SLICE_START", "SLICE_STOP", "SLICE_LEN"}
ARITY = dict(_dynoc._sym_ops())

EDGE_INTS = [0, 1, -1, 2, -2, 3, 7, 62, 63, 64, 2**31, 2**32, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, INT_MAX, INT_MAX - 1,
             INT_MIN, INT_MIN + 1]  # fmt: skip
EDGE_FLOATS = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.0, 0.1, 1e-320, 1e300, -1e300, 2.0**53, 2.0**63, -(2.0**63),
               1e308, 5e-324, math.inf, -math.inf, math.nan]  # fmt: skip
ints = st.one_of(st.sampled_from(EDGE_INTS), st.integers(-70, 70), st.integers(INT_MIN, INT_MAX))
floats = st.one_of(st.sampled_from(EDGE_FLOATS), st.floats(), st.integers(-70, 70).map(float))
numbers = st.one_of(ints, floats, st.booleans())


def eager(name, args):
    """What Python gives, or None where it raises, leaves the reals or leaves int64."""
    huge = name in ("POW", "LSHIFT") and all(isinstance(a, int) for a in args) and abs(args[1]) > 200
    if huge and abs(args[0]) > 1:
        if name == "POW" and args[1] > 0 or name == "LSHIFT":
            return None
    if name == "LSHIFT" and huge and args[1] > 0:
        return None if args[0] else 0
    if name in ONE_TYPE and type(args[0]) is not type(args[1]):
        return None
    try:
        value = PYTHON[name](*args)
    except (ArithmeticError, ValueError, TypeError):
        return None
    if isinstance(value, complex) or (type(value) is int and not INT_MIN <= value <= INT_MAX):
        return None
    return value


def check(name, args):
    expected, got = eager(name, args), _dynoc._sym_eval(name, *args)
    assert type(got) is type(expected), (name, args, got, expected)
    if isinstance(expected, float):
        assert same_bits(got, expected), (name, args, got, expected)
    else:
        assert got == expected, (name, args, got, expected)


def test_every_operator_has_a_python_meaning():
    assert {name for name, arity in ARITY.items() if arity > 0} == set(PYTHON)


@pytest.mark.parametrize("name", sorted(PYTHON))
def test_edges(name):
    values = EDGE_INTS + [True, False] + ([] if name in INTS_ONLY else EDGE_FLOATS)
    if ARITY[name] == 1:
        for a in values:
            check(name, (a,))
    elif ARITY[name] == 2:
        for a in values:
            for b in values:
                check(name, (a, b))
    else:
        for a in EDGE_INTS:
            for b in [0, 1, 2, 5, 2**40, INT_MAX]:
                for c in [1, 2, -1, -3, 7, INT_MAX, 0]:
                    check(name, (a, b, c))


@pytest.mark.parametrize("name", sorted(PYTHON))
def test_any_operands(name):
    source = ints if name in INTS_ONLY else numbers

    @settings(max_examples=60, deadline=None)
    @given(st.lists(source, min_size=ARITY[name], max_size=ARITY[name]))
    def run(args):
        if name in ("SLICE_START", "SLICE_STOP"):
            args[1] = abs(args[1]) % 2**40
        check(name, tuple(args))

    run()


@settings(max_examples=500, deadline=None)
@given(ints, ints)
@example(2**53 + 1, 3)
@example(INT_MAX, INT_MAX - 1)
@example(INT_MIN, 3)
@example(0, -5)
def test_true_division_is_rounded_once(a, b):
    check("TRUEDIV", (a, b))


@settings(max_examples=300, deadline=None)
@given(ints, st.floats(-(2.0**64), 2.0**64))
@example(2**53 + 1, 2.0**53)
@example(INT_MAX, 2.0**63)
def test_mixed_comparisons_are_exact(a, b):
    for name in ("EQ", "NE", "LT", "LE", "GT", "GE"):
        check(name, (a, b))
        check(name, (b, a))


def code():
    pass


OPERATORS = sorted(set(PYTHON) - {"HYPOT"})


@st.composite
def programs(draw):
    """Rows over a size, an int and a bool, some constants, then operators that favour the algebra's patterns."""
    rows = [("DIM",), ("VAR",), ("VAR",)] + [("CONST", k) for k in (0, 1, -1, 2, draw(st.integers(-4, 4)))]
    favoured = ["ADD", "SUB", "MUL", "SLICE_START", "SLICE_STOP", "SLICE_LEN", "FLOORDIV", "MOD"]
    favoured += ["MIN", "MAX", "EQ", "LT", "GE", "NOT"]
    for _ in range(draw(st.integers(1, 12))):
        name = draw(st.sampled_from(favoured) | st.sampled_from(OPERATORS))
        rows.append((name, *(draw(st.integers(0, len(rows) - 1)) for _ in range(ARITY[name]))))
    return rows


def evaluate(rows, size, n, flag):
    """Values row by row, None from the first row on that has none."""
    values = []
    for row in rows:
        if row[0] in ("DIM", "VAR"):
            value = (size, n, flag)[len(values)]
        elif row[0] == "CONST":
            value = row[1]
        else:
            operands = tuple(values[i] for i in row[1:])
            if row[0] in INTS_ONLY and any(isinstance(v, float) for v in operands):
                value = None
            elif row[0] in ("SLICE_START", "SLICE_STOP") and operands[1] < 0:
                value = None
            else:
                value = eager(row[0], operands)
        if value is None:
            break
        values.append(value)
    return values


@settings(max_examples=400, deadline=None)
@given(programs(), st.tuples(st.integers(0, 6), st.integers(-5, 5), st.booleans()),
       st.lists(st.tuples(st.integers(0, 6), st.integers(-5, 5), st.booleans()), min_size=1, max_size=6))  # fmt: skip
def test_algebra_keeps_the_meaning(rows, recorded, calls):
    """Values of simplified rows equal Python's for other arguments, too, or the check misses where Python has no such value."""
    good = evaluate(rows, *recorded)
    rows = rows[: len(good)]
    types = [type(v) for v in good]
    sources = [("LOCAL", -1, 0, "x", None), ("LOCAL", -1, 1, "n", None), ("LOCAL", -1, 2, "flag", None)]
    symbols = [("DIM", 0, 0, recorded[0]), ("VAR", 1, recorded[1]), ("VAR", 2, recorded[2])] + rows[3:]
    program = _dynoc._guards_new(code.__code__, sources, symbols, [], [("SYM", i, None, ()) for i in range(len(rows))])
    for size, n, flag in [recorded, *calls]:
        args = (np.empty(size), n, flag)
        got = _dynoc._guards_check(program, None, args)
        expected = evaluate(rows, size, n, flag)
        whole = len(expected) == len(rows) and types == [type(v) for v in expected]
        if whole:
            assert got is not None, (rows, recorded, (size, n, flag), _dynoc._guards_explain(program, None, args))
        if got is not None:
            assert whole, (rows, recorded, (size, n, flag))
            for (value,), wanted in zip(got, expected, strict=True):
                assert type(value) is type(wanted) and same_bits(value, wanted), (rows, recorded, (size, n, flag))
