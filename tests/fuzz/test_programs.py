"""Random programs (programs.py), plain and optimised: values, dtypes, shapes, strides, exceptions, warnings, at several sizes.

Each statement stands alone: NumPy runs it on the operands that dynoc computed, so that rounding that is allowed in one doesn't
spread. The replay has real aliases, so a write is seen through every view. A second form of each program returns its last value
only, where everything before it can be fused away: it has to give the same bits. With DYNOC_SOAK=1 there are thousands;
FUZZ_SEED=n starts elsewhere. The number in a test's name is the program's seed.
"""

import os
import warnings

import numpy as np
import pytest
from compare import dynoc, strides_that_matter
from logs import counted
from programs import Program

SOAK = os.environ.get("SOAK") == "1"
FIRST = int(os.environ.get("FUZZ_SEED", "0"))
COUNT = int(os.environ.get("FUZZ_PROGRAMS", "3000" if SOAK else "150"))


def outcome(fn, args):
    """Result, exception, warnings with their lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result, error = fn(*args), None
        except Exception as e:
            frame = e.__traceback__
            while frame.tb_next is not None and frame.tb_frame.f_code.co_filename != "<generated>":
                frame = frame.tb_next
            result, error = None, (type(e), str(e), frame.tb_lineno)
    return result, error, [(w.category, str(w.message), w.lineno) for w in caught]


def real_parts(a):
    a = np.atleast_1d(a)
    return np.stack([a.real, a.imag]) if a.dtype.kind == "c" else a


def same_bits(a, b, open_sign=False):
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind not in "fc":
        return np.array_equal(a, b)
    x, y = real_parts(a), real_parts(b)
    signs = open_sign or np.array_equal(np.signbit(x[~np.isnan(x)]), np.signbit(y[~np.isnan(x)]))
    return np.array_equal(x, y, equal_nan=True) and signs


def close(kind, operands, want, got):
    """Within some units of the result; of a sum, or of complex numbers, within those of what went into it."""
    want, got = np.asarray(want), np.asarray(got)
    if want.dtype.kind not in "fc":
        return same_bits(want, got)
    eps, wide = np.finfo(want.dtype).eps, np.clongdouble if want.dtype.kind == "c" else np.longdouble
    x, y = want.astype(wide), got.astype(wide)
    finite = np.isfinite(x) & np.isfinite(y)
    nan = np.isnan(want) == np.isnan(got)
    if want.dtype.kind != "c" and not (nan.all() and np.array_equal(want[~finite], got[~finite], equal_nan=True)):
        top = np.finfo(want.dtype).max / 8  # on either side of the largest number
        return bool((finite | ((np.abs(want) > top) & (np.abs(got) > top)) | (np.isnan(want) & np.isnan(got))).all())
    size = np.abs(x) + np.finfo(want.dtype).tiny
    if kind == "sum":
        sizes = [np.abs(np.asarray(o, wide)) for o in operands[:1]]
        with np.errstate(all="ignore"):
            total = max((float(s[np.isfinite(s)].sum()) for s in sizes), default=0)
            size = size + total * (1 + float(np.max(sizes[0], initial=0)))
    return bool((np.abs(x - y)[finite] <= 64 * eps * np.broadcast_to(size, x.shape)[finite]).all())


def loose(s, operands):
    """Is a statement's result not NumPy's to the bit?"""
    kinds = {np.asarray(o).dtype.kind for o in operands}
    return s.kind in ("near", "sum") or ("c" in kinds and s.kind in ("exact", "write", "make"))


def check_value(s, want, got, operands, where):
    assert type(got) is type(want), f"{where}: {type(got)} instead of {type(want)}"
    if isinstance(want, (np.ndarray, np.generic)):
        said = f"{where}: {got.dtype} {got.shape} instead of {want.dtype} {want.shape}"
        assert (got.dtype, got.shape) == (want.dtype, want.shape), said
    if same_bits(want, got, s.kind == "open" or "x(" in s.form or "n(" in s.form):
        return
    assert loose(s, operands) and close(s.kind, operands, want, got), f"{where}: {got!r} instead of {want!r} from {operands!r}"


def take_over(space, name, got):
    """Go on with what dynoc computed."""
    own = space[name]
    if not isinstance(own, np.ndarray):
        space[name] = type(own)(got)
    elif own.flags.writeable:
        own[...] = got


def check_program(p, args, result):
    """Every statement against NumPy on the operands that dynoc had."""
    space = {"np": np} | {f"a{i}": a for i, a in enumerate(args)}
    seen, made = result
    final = dict(zip([s.target for s in p.statements if s.kind != "write"], made, strict=True))
    for i, s in enumerate(p.statements):
        operands = [np.copy(space[u]) if isinstance(space.get(u), np.ndarray) else space.get(u, 0) for u in s.used]
        exec(s.text(), space)
        name = s.used[0] if s.kind == "write" else s.target
        got = seen[i] if p.writes else final[name]
        want = np.copy(space[name]) if p.writes else space[name]
        check_value(s, want, got, operands, s.text())
        take_over(space, name, got)
    for name, got in final.items():
        if isinstance(got, np.ndarray):
            assert strides_that_matter(got) == strides_that_matter(space[name]), f"strides of {name}"
            assert got.flags.writeable == space[name].flags.writeable, f"{name} can be written"
            assert same_bits(space[name], got, open_sign=True), f"{name} at the end: {got!r} instead of {space[name]!r}"
    return space


def made_by_eager():
    """How many calls eager made wholly, or from where a graph was left on: their last bits are eager's."""
    return counted("FLAGS") + counted("LEFT")


def check_once(p, plain, every, last, sizes, hit):
    text = f"{p.source(False)}{p.arguments} at {sizes}\n"
    expected, error, said = outcome(plain, p.args(sizes))
    args, again, before = p.args(sizes), p.args(sizes), made_by_eager()
    result, fast_error, heard = outcome(every, args)
    assert fast_error == error, f"{text}{fast_error} instead of {error}"
    if not p.writes:  # a graph that wrote an argument can't run again: docs/known_issues.md
        assert set(heard) == set(said), f"{text}{heard} instead of {said}"
    alone, last_error, _ = outcome(last, again)
    assert (last_error is None) == (error is None), f"{text}{last_error} instead of {error}"
    if error is not None:
        return
    with np.errstate(all="ignore"):
        try:
            space = check_program(p, p.args(sizes), result)
        except AssertionError as e:
            raise AssertionError(f"{text}{e}") from None
    for i, a in enumerate(args):
        if not isinstance(a, np.ndarray):
            continue
        assert same_bits(space[f"a{i}"], a, open_sign=True), f"{text}a{i} at the end: {a!r} instead of {space[f'a{i}']!r}"
        alike = made_by_eager() != before or same_bits(again[i], a, open_sign=True)
        assert alike, f"{text}a{i} at the end of the short form: {again[i]!r} instead of {a!r}"
    if hit and result[1] and made_by_eager() == before:
        assert type(alone) is type(result[1][-1]), text
        assert same_bits(result[1][-1], alone, open_sign=True), f"{text}alone {alone!r} instead of {result[1][-1]!r}"


@pytest.mark.skipif(dynoc is None, reason="dynoc is not built: make build")
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_program(seed):
    p = Program(seed)
    if not p.statements:
        return
    plain = p.function()
    every, last = (dynoc.optimize(p.function(short), wait=True) for short in (False, True))
    try:
        for turn in range(2):
            check_once(p, plain, every, last, p.sizes, turn)
        for n in range(4):
            sizes = tuple(n if i != n % 3 else m for i, m in enumerate(p.sizes))
            for turn in range(2):
                check_once(p, plain, every, last, sizes, turn)
    finally:
        dynoc.reset()
    assert counted("COMPILER_FAILED") == 0, p.source(False)
