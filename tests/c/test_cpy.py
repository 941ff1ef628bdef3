"""base/cpy and tracer/decode: frames taken over and handed back at every instruction behave as in CPython."""

import dis
import gc
import importlib.util
import sys
import threading
import types

import pytest

# ---- functions: each is run with frames handed back at its first, second, … instruction ----


def arithmetic(a, b):
    c = a * b + 3
    d = [c, (a, b)][0] - b
    return (c, d, -a, a < b)


def outer(n):
    def inner(k):
        return helper(k) + n

    return inner(1) + helper(n)


def helper(k):
    return k * 2 + len(str(k))


def recursion(n):
    if n < 2:
        return n
    return recursion(n - 1) + recursion(n - 2)


def loop(n):
    total = 0
    for i in range(n):
        if i == 3:
            continue
        total = total + i * i
    return [total + x for x in (1, 2)]


def look(depth):
    return where(depth)


def where(depth):
    f = sys._getframe(depth)
    return f.f_code.co_name, f.f_lineno, position(f.f_code, f.f_lasti), sorted(f.f_locals), f.f_back.f_code.co_name


def position(code, lasti):
    """Inlined Python calls stand at another unit of their CALL than others, with the same place in the source."""
    return list(code.co_positions())[lasti // 2]


def counts(x):
    y = [x, x]
    return list(map(sys.getrefcount, [x, y])), len(y)  # no count is the stack's: from 3.14 on it may borrow


def keywords(a):
    return sorted([a, 3, 1], key=lambda v: -v, reverse=bool(a))


def fail_plain(a):
    b = a + 1
    return (b, b + (a / (b - b)))


def fail_nested(a):
    return 1 + fail_plain(a) + 1


def fail_first_in_try(a):
    try:
        a[1:2]
    except TypeError as e:
        return str(e), e.__traceback__.tb_lasti, e.__traceback__.tb_lineno
    return None


def fail_set_in_try(a):
    k = [a]
    try:
        {k, 1}
    except TypeError as e:
        return str(e), e.__traceback__.tb_lasti, e.__traceback__.tb_lineno
    return None


def fail_negative_in_try(a):
    x = str(a)
    try:
        -x
    except TypeError as e:
        return str(e), e.__traceback__.tb_lasti, e.__traceback__.tb_lineno
    return None


def fail_after_try(a):
    x = str(a)
    try:
        y = x
    except TypeError:
        return "wrong handler"
    -y


def fail_between_tries(a):
    x = str(a)
    try:
        try:
            y = x
        except TypeError:
            return "inner"
        -y
    except TypeError:
        return "outer"


def fail_unbound(a):
    if a == -1:
        never = 1
    try:
        never
    except UnboundLocalError as e:
        return str(e), e.__traceback__.tb_lasti, e.__traceback__.tb_lineno
    return None


def fail_finally(a):
    done = []
    try:
        done.append(-str(a))
    finally:
        done.append(sys._getframe().f_lineno)
        keep.append(done)


def fail_with_values_on_stack(a):
    return [a, (a, str(a), [a]), {[], a}]


def fail_reraise(a):
    try:
        return -str(a)
    except TypeError as e:
        raise ValueError("again") from e


def counts_when_failing(x):
    y = (x, [x])
    try:
        -x
    except TypeError:
        keep.append(sys.getrefcount(x))
    return [y, {y}]


def fail_in_callee_try(a):
    try:
        return fail_plain(a)
    except ZeroDivisionError as e:
        tb = e.__traceback__
        return tb.tb_lineno, tb.tb_next.tb_lineno, tb.tb_next.tb_lasti, tb.tb_next.tb_frame.f_back is tb.tb_frame


class Loud:
    """Says where it died."""

    def __del__(self):
        keep.append((sys._getframe(1).f_code.co_name, sys._getframe(1).f_lineno))


def fail_with_destructor(a):
    return (Loud(), -str(a))


keep = []
CASES = [
    (arithmetic, 4, 5), (outer, 7), (recursion, 6), (loop, 6), (look, 0), (look, 1), (keywords, 2), (counts, object()),
    (counts_when_failing, object()),
    (fail_plain, 3), (fail_nested, 3), (fail_first_in_try, 3), (fail_set_in_try, 3), (fail_negative_in_try, 3),
    (fail_after_try, 3),
    (fail_between_tries, 3), (fail_unbound, 3), (fail_finally, 3), (fail_with_values_on_stack, 3), (fail_reraise, 3),
    (fail_in_callee_try, 3), (fail_with_destructor, 3),
]  # fmt: skip


def all_codes(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from all_codes(const)


def describe(e):
    """All that can be told of an exception: type, text, and the frames with their columns."""
    lines = []
    tb = e.__traceback__
    while tb:
        code = tb.tb_frame.f_code
        if code.co_filename == __file__ and code.co_name != "outcome":
            lines.append((code.co_name, tb.tb_lineno, position(code, tb.tb_lasti), sorted(tb.tb_frame.f_locals)))
        tb = tb.tb_next
    cause = describe(e.__cause__) if e.__cause__ else None
    return type(e).__name__, str(e), lines, cause


def outcome(function, *args):
    del keep[:]
    things = [a for a in args if type(a) is object]
    before = [sys.getrefcount(a) for a in things]
    try:
        result = function(*args)
    except Exception as e:
        result = describe(e)
    after = [sys.getrefcount(a) for a in things]
    return result, list(keep), [b - a for a, b in zip(before, after, strict=True)]


@pytest.fixture
def recorder(minirec):
    for function, *_ in CASES:
        minirec.targets.update(all_codes(function.__code__))
    minirec.targets.update((helper.__code__, where.__code__))
    minirec.hook(True)
    yield minirec
    minirec.hook(False)
    minirec.hand_back(-1)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__)
def test_hand_back_everywhere(recorder, case):
    recorder.hook(False)
    expected = outcome(*case)
    assert outcome(*case) == expected
    recorder.hook(True)
    codes = [case[0].__code__, fail_plain.__code__, helper.__code__]
    steps = max(len(list(dis.get_instructions(c))) for c in codes) + 40
    for n in [-1, *range(steps)]:
        recorder.hand_back(n)
        assert outcome(*case) == expected, n
    assert recorder.hand_back(-1)[0] > 0


def test_exceptions_were_thrown(recorder):
    for case in CASES:
        if case[0].__name__.startswith("fail"):
            recorder.hand_back(-1)
            outcome(*case)
            taken, thrown, handed = recorder.hand_back(-1)
            assert taken and thrown, case


def test_no_leak(recorder):
    for case in CASES:
        outcome(*case)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(200):
        for case in CASES:
            outcome(*case)
    gc.collect()
    assert sys.getallocatedblocks() - before < 500


def test_recursion_limit(recorder):
    def deep(n):
        return 1 if n == 0 else deep(n - 1) + 1

    recorder.targets.update(all_codes(deep.__code__))
    assert deep(900) == 901
    with pytest.raises(RecursionError):
        deep(10**6)
    assert deep(900) == 901
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        with pytest.raises(RecursionError):
            deep(10**6)
    finally:
        sys.setrecursionlimit(old)


def test_plain_recursion_under_hook(recorder):
    """Functions that are not taken over recurse as deep as without a hook."""

    def deep(n):
        return 1 if n == 0 else deep(n - 1) + 1

    assert deep(900) == 901
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        with pytest.raises(RecursionError):
            deep(10**6)
    finally:
        sys.setrecursionlimit(old)


def test_threads_and_signals(recorder):
    import signal

    def spin(stop):
        n = 0
        while not stop:
            n = n + 1
        return n

    recorder.targets.update(all_codes(spin.__code__))
    stop = []
    timer = threading.Timer(0.1, stop.append, (1,))
    timer.start()
    assert spin(stop) > 0
    old = signal.signal(signal.SIGALRM, lambda *_: stop.append(2))
    try:
        del stop[:]
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert spin(stop) > 0 and stop == [2]
    finally:
        signal.signal(signal.SIGALRM, old)
    del stop[:]
    failed = []

    def run():
        try:
            spin(stop)
        except KeyError as e:
            failed.append(e)

    import ctypes

    thread = threading.Thread(target=run)
    thread.start()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(KeyError))
    thread.join(10)
    stop.append(1)
    assert len(failed) == 1


def test_foreign_hook(minirec, other):
    """A hook that was there before is passed on to and put back; one that came later is left where it is."""

    def ours(a):
        return a + 1

    def theirs(a):
        return a + 2

    def taken():
        assert (ours(1), theirs(1)) == (2, 3)
        return minirec.hand_back(-1)[0], other.hand_back(-1)[0]

    minirec.targets.add(ours.__code__)
    other.targets.add(theirs.__code__)
    assert taken() == (0, 0)
    other.hook(True)
    assert taken() == (0, 1)
    minirec.hook(True)
    assert taken() == (1, 1)
    minirec.hook(False)
    assert taken() == (0, 1)
    minirec.hook(True)
    other.hook(False)  # ours is above it
    assert taken() == (1, 1)
    minirec.hook(False)
    other.hook(False)
    assert taken() == (0, 0)
    for _ in range(3):
        minirec.hook(True)
        other.hook(True)
        minirec.hook(False)  # theirs is above it
        assert taken() == (1, 1)
        minirec.hook(True)
        assert taken() == (1, 1)
        other.hook(False)
        minirec.hook(False)
        assert taken() == (0, 0)


@pytest.mark.skipif(sys.version_info < (3, 15), reason="a hook keeps calls from being specialised")
def test_calls_are_specialised_under_the_hook(minirec):
    space = {}
    exec("def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)", space)
    minirec.hook(True)
    try:
        assert space["fib"](15) == 610
    finally:
        minirec.hook(False)
    assert "CALL_PY_EXACT_ARGS" in [i.opname for i in dis.get_instructions(space["fib"], adaptive=True)]


def test_traced(minirec):
    assert not minirec.traced()
    seen = []
    sys.setprofile(lambda *_: None)
    try:
        seen.append(minirec.traced())
    finally:
        sys.setprofile(None)
    assert seen == [True] and not minirec.traced()
    if sys.version_info >= (3, 12):
        sys.monitoring.use_tool_id(3, "test")
        seen.append(minirec.traced())
        sys.monitoring.free_tool_id(3)
        assert seen == [True, True] and not minirec.traced()


def test_dict_tokens(minirec):
    d = {"a": 1}
    changes = [lambda: d.update(b=2), lambda: d.pop("a"), lambda: d.__setitem__("b", 3), d.clear, lambda: d.setdefault("x", 1)]
    for change in changes:
        token = minirec.token(d)
        assert minirec.same(d, token) and minirec.same(d, minirec.token(d))
        assert d.get("nothing") is None and minirec.same(d, token)
        change()
        assert not minirec.same(d, token)
    assert not minirec.same({}, minirec.token(d))
    module = types.ModuleType("m")
    token = minirec.token(module.__dict__)
    module.x = 1
    assert not minirec.same(module.__dict__, token)

    class C:
        pass

    token = minirec.token(globals())
    exec("fresh_name = 1", globals())
    assert not minirec.same(globals(), token)
    o = C()
    o.x = 1
    token = minirec.token(o.__dict__)
    o.x = 2
    assert not minirec.same(o.__dict__, token)


def test_dict_cells_are_used_again(minirec):
    for _ in range(3):
        dicts = [{i: i} for i in range(1000)]
        tokens = [minirec.token(d) for d in dicts]
        assert all(map(minirec.same, dicts, tokens))
        del dicts
        fresh = [{i: i} for i in range(1000)]
        assert not any(map(minirec.same, fresh, tokens))
        assert all(minirec.same(d, minirec.token(d)) for d in fresh)


# ---- the decoder against dis ----

# No instructions of their own: prefixes, what follows a loop's end, and what CPython puts in while it runs.
NOT_DECODED = set(
    """CACHE EXTENDED_ARG KW_NAMES PRECALL END_FOR INTERPRETER_EXIT RESERVED EXIT_INIT_CHECK ENTER_EXECUTOR TRACE_RECORD
    BINARY_OP_INPLACE_ADD_UNICODE""".split()
)


def test_every_opcode_is_known(minirec):
    for name, number in dis.opmap.items():
        if number < 256 and not name.startswith("INSTRUMENTED"):
            unknown = minirec._decode_opcode(number) == "UNSUPPORTED"
            assert unknown == (name in NOT_DECODED), name


def decoded(minirec, code):
    """(start, at, next, name, first, {arg, sub, to}) of each canonical instruction."""
    for line in minirec._decode(code).splitlines():
        number, units, name, *rest = line.split()
        start, at, following = map(int, units.split(":"))
        pairs = dict(p.split("=") for p in rest if "=" in p)
        yield start, at, following, name.lstrip("+"), not name.startswith("+"), {k: int(v) for k, v in pairs.items()}


def test_decoder_against_dis(minirec):
    import argparse
    import ast
    import inspect
    import textwrap

    for module in (argparse, ast, inspect, textwrap, sys.modules[__name__]):
        with open(module.__file__) as f:
            top = compile(f.read(), module.__file__, "exec")
        for code in all_codes(top):
            check_code(minirec, code)


def test_stack_effects_against_dis(minirec):
    import argparse
    import ast
    import inspect
    import typing

    for module in (argparse, ast, inspect, typing, sys.modules[__name__]):
        with open(module.__file__) as f:
            top = compile(f.read(), module.__file__, "exec")
        for code in all_codes(top):
            check_stack_effects(minirec, code)


def check_stack_effects(minirec, code):
    """CPython's bytecode instructions, prefixes included, leave the stack as deep as the canonical ones made of them."""
    effects = minirec._decode_stack(code)
    by_at, theirs_at = {}, {}
    for (start, at, *_, name, _, _), effect in zip(decoded(minirec, code), effects, strict=True):
        by_at.setdefault((start, at), []).append((name, effect))
    for theirs in dis.get_instructions(code):
        theirs_at[theirs.offset // 2] = theirs
    for (start, at), ours in by_at.items():
        if ours[0][0] in ("UNSUPPORTED", "RETURN_GENERATOR"):  # the generator lies on the stack for the POP_TOP behind it
            continue
        units = [theirs_at[i] for i in range(start, at + 1) if i in theirs_at]
        units = [t for t in units if t.opname not in ("EXTENDED_ARG", "CACHE")]

        def net(jump, units=units):
            left = sum(dis.stack_effect(t.opcode, t.arg if t.opcode >= dis.HAVE_ARGUMENT else None, jump=jump) for t in units)
            return min(left, -1) if units[-1].opname == "RETURN_VALUE" else left  # 3.14 counts what it gives to the caller

        assert sum(pushes - pops for _, (pops, pushes, _) in ours) == net(False), (ours, units)
        pops, _, jumped = ours[0][1]
        if jumped is not None and ours[0][0] != "FOR_ITER":  # it skips the END_FOR at its target
            assert jumped - pops == net(True), (ours, units)


# What has no opcode of its own, on some version.
OTHER_NAMES = ("LOAD_METHOD", "UNARY_POSITIVE", "LIST_TO_TUPLE", "BINARY_SUBSCR", "BEFORE_WITH", "GET_YIELD_FROM_ITER")
IN_SEQUENCE = {"COPY", "LOAD_SPECIAL", "SWAP"}  # of a with statement's beginning, from 3.14 on: one instruction, at its CALL


def check_code(minirec, code):
    ours = list(decoded(minirec, code))
    starts = {start: i for i, (start, *_, first, _) in enumerate(ours) if first}
    by_at = {}
    for at, name, arg, first in ((o[1], o[3], o[5], o[4]) for o in ours):
        by_at.setdefault(at, []).append((name, arg, first))
    prefixes = {"EXTENDED_ARG", "KW_NAMES", "PRECALL", "CACHE"}
    for theirs in dis.get_instructions(code):
        at = theirs.offset // 2
        if theirs.opname in prefixes:
            assert at not in by_at
            continue
        if at not in by_at and sys.version_info >= (3, 14) and theirs.opname in IN_SEQUENCE:
            continue
        name, arg, first = by_at.pop(at)[0]
        assert first
        assert name == minirec._decode_opcode(theirs.opcode) or name in OTHER_NAMES, theirs
        if "to" in arg and name != "FOR_ITER":
            assert ours[arg["to"]][0] * 2 == theirs.argval, theirs
        if name == "FOR_ITER":
            skipped = {(3, 11): 0, (3, 12): 1}.get(sys.version_info[:2], 2)  # END_FOR and what drops the iterator
            assert ours[arg["to"]][0] == theirs.argval // 2 + skipped
        if name == "COMPARE_OP":
            operator = theirs.argval.removeprefix("bool(").removesuffix(")")
            assert ["<", "<=", "==", "!=", ">", ">="][arg["sub"]] == operator
        if name in ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "LOAD_SUPER_ATTR", "IMPORT_NAME"):
            assert code.co_names[arg["arg"]] == theirs.argval
    assert not by_at
    assert starts[0] == 0


def all_codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from all_codes(constant)


@pytest.mark.parametrize("module", ["argparse", "typing", "inspect", "statistics", "textwrap", "this"])
def test_positions_are_those_of_the_code(minirec, module):
    """Read on from the last one, and looked for again behind it: both as co_positions has them."""
    path = importlib.util.find_spec(module).origin
    with open(path, encoding="utf-8") as file:
        top = compile(file.read() + "\n" * 3 + "x = [\n\n\n1 +\n" + " " * 300 + "y]\n", path, "exec")
    for code in all_codes(top):
        wanted = [tuple(-1 if n is None else n for n in position) for position in code.co_positions()]
        assert minirec._positions(code) == wanted + wanted[::-1], code
