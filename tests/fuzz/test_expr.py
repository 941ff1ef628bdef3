"""Random functions of up to twelve operations over random arrays, plain against optimised.

Each operation stands alone: what it gave is compared with what NumPy gives for the very operands that dynoc computed, so that
rounding allowed in one operation doesn't spread. A second form of the same function returns the last value only, where
everything before it can be fused away: it has to give the same bits. The functions are the same from run to run;
FUZZ_SEED=n makes others, FUZZ_EXAMPLES=n so many.
"""

import os

import numpy as np
import pytest
from compare import array_difference, dynoc, strides_that_matter
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.any_interpreter

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))
SEED = os.environ.get("FUZZ_SEED")
seeded = seed(int(SEED)) if SEED else lambda test: test
DTYPES = (np.float64, np.float32, np.int64, np.bool_)
BINARY = ("{} + {}", "{} - 1 * {}", "{} * {}", "np.maximum({}, {})", "np.minimum({}, {})", "{} / {}")
COMPARE = ("{} < {}", "{} >= {}", "{} == {}", "{} != {}")
UNARY = (
    "-(1 * {})",
    "abs({})",
    "{} * 2",
    "{} + 1.5",
    "0.5 * {}",
    "np.sqrt(abs({}))",
    "np.where({} > 0, 1, 0)",
    "np.zeros_like({})",
)
VECTOR_MATH = ("np.exp({})", "np.sin({})", "np.cos({})", "np.tanh({})", "np.log(abs({}))")
REDUCE = ("{}.sum()", "{}.mean()", "{}.sum(axis=0)", "{}.sum(axis=-1, keepdims=True)", "{}.mean(axis=0, keepdims=True)")
EXTREME = ("{}.max()", "{}.min(axis=0)", "{}.max(axis=-1, keepdims=True)")
VIEWS = (
    "{}[::-1]",
    "{}[1:]",
    "{}[..., ::2]",
    "{}.T",
    "{}.reshape(-1)",
    "{}[None]",
    "{}[:, None]",
    "{}[0]",
    "{}.astype(np.float64)",
)
NEAR = (*VECTOR_MATH, *REDUCE)


@st.composite
def programs(draw):
    """(statements, number of arguments): lines like "t3 = t1 * a0", each using earlier names."""
    count = draw(st.integers(1, 3))
    names = [f"a{i}" for i in range(count)]
    lines = []
    for i in range(draw(st.integers(1, 12))):
        kind = draw(
            st.sampled_from((BINARY, BINARY, BINARY, UNARY, UNARY, VECTOR_MATH, REDUCE, EXTREME, VIEWS, VIEWS, COMPARE, None))
        )
        latest = st.sampled_from(names[-4:])
        operands = [draw(latest), draw(latest), draw(latest)]
        if kind is None:
            form, used = "np.where({} > 0, {}, {})", operands
        else:
            form = draw(st.sampled_from(kind))
            used = operands[: form.count("{}")]
        lines.append((f"t{i}", form, used))
        names.append(f"t{i}")
    return lines, count


@st.composite
def arrays(draw, shape):
    """An array that broadcasts with the shape, in any layout."""
    shape = tuple(draw(st.sampled_from((n, n, 1))) for n in shape)[
        draw(st.integers(0, len(shape))) if draw(st.booleans()) else 0 :
    ]
    dtype = draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    layout = draw(st.sampled_from(("C", "C", "F", "strided", "reversed", "broadcast")))
    room = tuple(2 * n for n in shape) if layout == "strided" else shape
    data = rng.integers(-4, 5, room) if dtype in (np.int64, np.bool_) else rng.uniform(-4.0, 4.0, room)
    data = np.asarray(data).astype(dtype)
    if layout == "F":
        return np.asfortranarray(data)
    if layout == "strided":
        return data[(slice(None, None, 2),) * data.ndim]
    if layout == "reversed":
        return data[(slice(None, None, -1),) * data.ndim]
    if layout == "broadcast" and data.ndim:
        return np.broadcast_to(data[:1], data.shape)
    return data


@st.composite
def cases(draw):
    lines, count = draw(programs())
    shape = tuple(draw(st.lists(st.sampled_from((0, 1, 2, 3, 5, 17)), max_size=3)))
    other = tuple(n if n < 2 else n + 3 for n in shape)
    return lines, [[draw(arrays(s)) for _ in range(count)] for s in (shape, other)]


def source_of(lines, count, last_only):
    text = [f"def generated({', '.join(f'a{i}' for i in range(count))}):"]
    text += [f"    {name} = {form.format(*used)}" for name, form, used in lines]
    text.append(f"    return {lines[-1][0] if last_only else '(' + ', '.join(n for n, _, _ in lines) + ',)'}")
    return "\n".join(text) + "\n"


def compiled(text):
    space = {"np": np}
    exec(compile(text, "<generated>", "exec"), space)
    return space["generated"]


def outcome(fn, args):
    try:
        return fn(*args), None
    except (ValueError, TypeError, IndexError) as error:
        return None, (type(error), str(error))


def near(form, operands, expected, got):
    """Vector math within its few ULP, a sum as good as a pairwise one."""
    if form in VECTOR_MATH:
        difference = np.abs(np.asarray(got, np.longdouble) - np.asarray(expected, np.longdouble))
        return bool((difference <= 8 * np.spacing(np.abs(expected))).all())
    dtype = np.asarray(got).dtype
    if dtype.kind != "f":
        return np.array_equal(got, expected)
    size = float(np.abs(np.asarray(operands[0], np.float64)).sum()) + 1e-30
    return bool(
        (np.abs(np.asarray(got, np.float64) - np.asarray(expected, np.float64)) <= 16 * np.finfo(dtype).eps * size).all()
    )


def check_operation(line, values, got):
    """One statement's value against NumPy's for the same operands."""
    name, form, used = line
    operands = [values[u] for u in used]
    expected = eval(form.format(*(f"v[{i}]" for i in range(len(operands)))), {"np": np, "v": operands})
    assert type(got) is type(expected), line
    assert got.dtype == expected.dtype and got.shape == expected.shape, line
    if array_difference(np.asarray(expected), np.asarray(got), "bits") is None:
        return
    assert form in NEAR, f"{line}: {got!r} instead of {expected!r}"
    finite = np.isfinite(expected)
    assert np.array_equal(np.asarray(expected)[~finite], np.asarray(got)[~finite], equal_nan=True), line
    assert near(form, operands, np.asarray(expected)[finite], np.asarray(got)[finite]), (
        f"{line}: {got!r} instead of {expected!r}"
    )


def strides_of(results):
    return [strides_that_matter(r) if isinstance(r, np.ndarray) else None for r in results]


def check_program(lines, args, results):
    values = {f"a{i}": a for i, a in enumerate(args)}
    for line, got in zip(lines, results, strict=True):
        check_operation(line, values, got)
        values[line[0]] = got


@pytest.mark.skipif(dynoc is None, reason="dynoc is not built: make build")
@seeded
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=SEED is None,
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(cases())
@np.errstate(all="ignore")
def test_generated_function(case):
    lines, sets = case
    count = len(sets[0])
    plain = compiled(source_of(lines, count, last_only=False))
    every = dynoc.optimize(compiled(source_of(lines, count, last_only=False)), wait=True)
    last = dynoc.optimize(compiled(source_of(lines, count, last_only=True)), wait=True)
    for turn in range(3):
        for args in sets:
            expected, error = outcome(plain, args)
            results, fast_error = outcome(every, args)
            assert fast_error == error
            final, last_error = outcome(last, args)
            assert last_error == error
            if error is not None:
                continue
            check_program(lines, args, results)
            assert strides_of(results) == strides_of(expected)
            if turn:
                assert type(final) is type(results[-1])
                assert array_difference(np.asarray(results[-1]), np.asarray(final), "bits") is None
    dynoc.reset()
