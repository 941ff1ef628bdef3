"""tracer/asm: code that goes on in the middle of a function, and code that leaves only one of its instructions to Python."""

import dis
import gc
import sys
import types

import pytest

# ---- functions: resumed at and broken around each of their instructions ----


def arithmetic(a, b):
    c = a * b + 3
    d = [c, (a, b)][0] - b
    return (c, d, -a, a < b)


def calls(a, b=2, *rest, key=1, **more):
    x = max(a, len(str(b)))
    return dict(x=x, y=[a, abs(min(b, -key))], z=rest, w=more)


def loop(n):
    total = 0
    for i in range(n):
        if i == 1:
            continue
        total = total + i * i
    return total


def branches(a):
    text = str(a) if a else "none"
    while len(text) < 5:
        text = text + "."
    if not text:
        return None
    return [text, a is None]


def unbound(a):
    if a > 100:
        never = 1
    b = a
    del a
    c = [b, b]
    try:
        return (c, never)
    except UnboundLocalError as e:
        return str(e)


def fails(a):
    b = [a,
         a + 1]
    return (b, (b[0] /
                (a - a)), str(a))  # fmt: skip


def caught(a):
    b = a
    try:
        c = (b, -str(a))
        return c
    except TypeError as e:
        return b, str(e), e.__traceback__.tb_lineno
    finally:
        b = 0


def make_closure():
    m, k = 10, 3

    def closure(a):
        b = max(a * m, k)
        return (b, a + m, sorted(locals()))

    return closure


def cells(a, b):
    c = a + 1

    def inner():
        return b + c

    d = (inner(), a)
    c = str(d)
    return (inner.__name__, c, sorted(k for k in locals() if k != "inner"))


class Base:
    def value(self, a):
        return a + 1


class Derived(Base):
    def value(self, a):
        b = abs(a)
        s = super()
        return (s.value(b), super().value(b + 1), b)


LONG = "\n".join(f"    v{i} = a + {i}" for i in range(300))
scope = {}
exec(f"def long(a):\n{LONG}\n    return max(v0, v299, {', '.join(f'v{i}' for i in range(280))})", scope)
long = scope["long"]
closure = make_closure()
CASES = [
    (arithmetic, 4, 5), (calls, 3), (calls, 3, 4, 5, 6), (loop, 4), (branches, 12), (branches, None), (unbound, 3), (fails, 3),
    (caught, 3), (closure, 4), (cells, 3, 4), (Derived.value, Derived(), -3),
]  # fmt: skip


def places(e, names):
    found = []
    tb = e.__traceback__
    while tb:
        code = tb.tb_frame.f_code
        if code.co_name in names:
            found.append((code.co_name, tb.tb_lineno, list(code.co_positions())[tb.tb_lasti // 2]))
        tb = tb.tb_next
    return found[-1:]


def outcome(function, *args, **kw):
    name = function.__code__.co_name
    try:
        return function(*args, **kw)
    except Exception as e:
        return type(e).__name__, str(e), places(e, {name})


def states(minirec, case, n, count=1):
    """The state before the n-th instruction of a run, and before the next ones; less when the run ended before."""
    function, *args = case
    minirec.capture(n, count)
    minirec.targets.add(function.__code__)
    minirec.hook(True)
    try:
        function(*args)
    except minirec.Stop:
        pass
    except Exception as e:
        assert not isinstance(e, (SystemError, MemoryError))
    finally:
        minirec.hook(False)
    return minirec.capture()


def resume_function(minirec, state, globals_):
    code, unit, bound, nulls, *_ = state
    return minirec.function(minirec._asm_resume(code, (unit, bound, nulls)), globals_)


def arguments(state):
    return [*state[4], *state[5]]


def steps(function):
    return range(3 * len(list(dis.get_instructions(function))) + 10)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__)
def test_resume_everywhere(minirec, case):
    expected = outcome(*case)
    reached = 0
    for n in steps(case[0]):
        found = states(minirec, case, n)
        if not found:
            break
        reached += 1
        if n == 0 and case[0].__closure__:
            with pytest.raises(ValueError, match="free variables"):
                resume_function(minirec, found[0], case[0].__globals__)
            continue
        resumed = resume_function(minirec, found[0], case[0].__globals__)
        assert resumed.__code__.co_name == case[0].__code__.co_name
        assert outcome(resumed, *arguments(found[0])) == expected, n
    assert reached > 3


def test_resume_of_resume(minirec):
    for case in CASES:
        expected = outcome(*case)
        for n in range(3, 40, 3):
            found = states(minirec, case, n)
            if not found:
                break
            first = resume_function(minirec, found[0], case[0].__globals__)
            again = (first, *arguments(found[0]))
            for m in range(30):
                later = states(minirec, again, m)
                again = (first, *arguments(states(minirec, case, n)[0]))
                if not later:
                    break
                second = resume_function(minirec, later[0], case[0].__globals__)
                assert outcome(second, *arguments(later[0])) == expected, (case, n, m)


def truth(values, wanted):
    return [v for v, ok in zip(values, wanted, strict=True) if ok]


def both_ways(code, instruction, before):
    """The states behind a conditional jump where it falls through and where it jumps."""
    instructions = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
    following = instructions[[i.offset for i in instructions].index(instruction.offset) + 1]
    prefix = 1 if code.co_code[following.offset - 2] == dis.opmap["EXTENDED_ARG"] else 0
    units = [following.offset // 2 - prefix, instruction.argval // 2]
    depths = [-1, -1]
    if instruction.opname == "FOR_ITER":
        units[1] += {11: 0, 12: 1}.get(sys.version_info[1], 2)  # the END_FOR and what drops the iterator
        depths = [1, -1]
    elif instruction.opname.endswith("OR_POP"):
        depths = [-1, 0]
    nulls = [(*before[3], False)[: len(before[3]) + d] for d in depths]
    return [(code, unit, before[2], null) for unit, null in zip(units, nulls, strict=True)]


def around(minirec, fresh, n):
    """(state before the n-th instruction, resume functions behind it as _asm_break takes them); None where the code before or
    behind it isn't straight.

    fresh() gives function and arguments that no run has touched."""
    case = fresh()
    function = case[0]
    code = function.__code__
    found = states(minirec, case, n, 2)
    if not found:
        return None
    before = states(minirec, fresh(), n)[0]
    behind = (i for i in dis.get_instructions(code) if i.offset >= before[1] * 2)
    instruction = next(i for i in behind if i.opname not in ("EXTENDED_ARG", "KW_NAMES"))
    if instruction.opname in ("RESUME", "COPY_FREE_VARS", "RETURN_VALUE", "RETURN_CONST"):
        return None
    jump = "JUMP" in instruction.opname or instruction.opname == "FOR_ITER"
    if len(found) < 2 and (jump or function not in (fails, caught)):
        return None  # or minirec does not know the instruction
    after = found[1] if len(found) > 1 else before
    ways = [after]
    if jump and "IF" in instruction.opname or instruction.opname == "FOR_ITER":
        ways = both_ways(code, instruction, before)
        assert after[1] in [w[1] for w in ways]
    resumes = [(resume_function(minirec, way, function.__globals__), way[1:4]) for way in ways]
    return before, [x for pair in resumes for x in pair]


def like(minirec, code, function):
    f = minirec.function(code, function.__globals__)
    if function.__closure__ is not None:
        f = types.FunctionType(code, function.__globals__, None, None, function.__closure__)
    f.__defaults__ = function.__defaults__
    f.__kwdefaults__ = function.__kwdefaults__
    return f


def broken(minirec, fresh, n, live):
    """The function with its n-th instruction left in Python, or None where that can't be."""
    found = around(minirec, fresh, n)
    if not found:
        return None
    before, resumes = found
    state = (*truth(before[4], before[2]), *(v for v, null in zip(before[5], before[3], strict=True) if not null))
    called = []

    def runner(*args):
        called.append(args)
        return state

    function = fresh()[0]
    new = minirec._asm_break(function.__code__, runner, live, before[1:4], *resumes)
    return like(minirec, new, function), called


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__)
def test_break_everywhere(minirec, case):
    expected = outcome(*case)
    code = case[0].__code__
    nparams = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    nslots = len(code.co_varnames) + len(code.co_freevars)
    live = [i < nparams or i >= len(code.co_varnames) for i in range(nslots)]
    done = 0
    for n in steps(case[0]):
        made = broken(minirec, lambda: case, n, live)
        if not made:
            continue
        function, called = made
        assert function.__code__.co_flags == code.co_flags and function.__code__.co_varnames == code.co_varnames
        assert outcome(function, *case[1:]) == expected, n
        assert len(called) == 1 and len(called[0]) == sum(live)
        done += 1
    assert done >= 2


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__)
def test_way_out_everywhere(minirec, case):
    """Waiting code: whether it stays at each pass or goes at the first in the recorded state, the function does what it does."""
    function, *args = case
    expected = outcome(*case)
    done = 0
    for n in steps(function):
        found = around(minirec, lambda: case, n)
        if not found:
            continue
        before, resumes = found
        for goes in (False, True):
            asked = []
            names = {name for name, bound in zip(function.__code__.co_varnames, before[2], strict=False) if bound}

            def way_out(asked=asked, names=names, goes=goes):
                frame = sys._getframe(1)
                asked.append(set(frame.f_locals) & set(frame.f_code.co_varnames) == names)
                return goes and asked[-1]

            new = minirec._asm_waiting(function.__code__, way_out, before[1:4], *resumes)
            assert new.co_flags == function.__code__.co_flags and new.co_varnames == function.__code__.co_varnames
            assert outcome(like(minirec, new, function), *args) == expected, (n, goes)
            assert any(asked)
            done += 1
    assert done >= 4


def test_positions_of_waiting_code(minirec):
    for case in CASES:
        code = case[0].__code__
        before, resumes = next(filter(None, (around(minirec, lambda: case, n) for n in range(2, 60))))
        new = minirec._asm_waiting(code, bool, before[1:4], *resumes)
        positions = list(code.co_positions())
        assert list(new.co_positions())[: len(positions)] == positions
        behind = {p[0] for p in list(new.co_positions())[len(positions) :]}
        assert behind <= {positions[before[1]][0], positions[before[1] + 1][0]}
        starts = [e.start for e in dis._parse_exception_table(new)]
        assert starts == sorted(set(starts))


def test_break_of_resume(minirec):
    done = 0
    for case in CASES:
        expected = outcome(*case)
        for n in range(3, 30, 2):
            found = states(minirec, case, n)
            if not found:
                break
            first = resume_function(minirec, found[0], case[0].__globals__)
            nargs = first.__code__.co_argcount
            live = [i < nargs for i in range(nargs + ("__class__" in first.__code__.co_freevars))]

            def fresh(case=case, n=n, first=first):
                return (first, *arguments(states(minirec, case, n)[0]))

            for m in range(40):
                made = broken(minirec, fresh, m, live)
                if made:
                    assert outcome(made[0], *fresh()[1:]) == expected, (case, n, m)
                    done += 1
    assert done > 500


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__)
def test_whole(minirec, case):
    function, *args = case
    got = []

    def runner(*values):
        got.append(values)
        return "result"

    new = minirec._asm_whole(function.__code__, runner)
    f = types.FunctionType(new, function.__globals__, "name", function.__defaults__, function.__closure__)
    f.__kwdefaults__ = function.__kwdefaults__
    assert f(*args) == "result"
    code = function.__code__
    expected = list(args[: code.co_argcount])
    if function is calls:
        expected = [args[0], args[1] if len(args) > 1 else 2, 1, tuple(args[2:]), {}]
    expected += function.__closure__ or ()
    assert list(got[0]) == expected


def test_many_slots(minirec):
    """Slots and arguments beyond 255, jumps that need EXTENDED_ARG."""
    expected = long(5)
    total = sum(i.opname not in ("EXTENDED_ARG", "PRECALL", "CACHE") for i in dis.get_instructions(long))
    for n in (5, total // 4, total // 2, total // 4 * 3):
        found = states(minirec, (long, 5), n)
        resumed = resume_function(minirec, found[0], long.__globals__)
        assert resumed(*arguments(found[0])) == expected
        made = broken(minirec, lambda: (long, 5), n, [i == 0 for i in range(301)])
        if made:
            assert made[0](5) == expected


def test_bad_unit(minirec):
    with pytest.raises(ValueError, match="no instruction starts at code unit 9999"):
        minirec._asm_resume(arithmetic.__code__, (9999, [], []))


def test_tables_are_kept(minirec):
    """Every unit of the copy has the position of the original, and the exception table covers the same instructions."""
    for function in (caught, fails, calls, long):
        code = function.__code__
        nslots = len(code.co_varnames)
        new = minirec._asm_resume(code, (0, [True] * nslots, []))
        old_positions, new_positions = list(code.co_positions()), list(new.co_positions())
        shift = len(new_positions) - len(old_positions)
        assert new_positions[shift:] == old_positions
        assert list(new.co_lines())[-1][2] == list(code.co_lines())[-1][2]
        old, kept = dis._parse_exception_table(code), dis._parse_exception_table(new)
        moved = [(e.start + 2 * shift, e.end + 2 * shift, e.target + 2 * shift, e.depth, e.lasti) for e in old]
        assert [tuple(e) for e in kept] == moved


def test_references_are_moved(minirec):
    """The break code holds nothing while the resume function runs."""

    class Thing:
        pass

    def f(a, b):
        return (a, print, b)

    seen = []
    code = f.__code__
    unit = next(i.offset for i in dis.get_instructions(code) if i.opname == "BUILD_TUPLE") // 2
    thing = Thing()
    plain = sys.getrefcount(thing)

    def runner(a, b):
        return (a, b, a, print, b)

    def resume(*args):
        seen.append(sys.getrefcount(thing) - plain)

    after = (unit + 1, [True, True], [False])
    new = minirec._asm_break(code, runner, [True, True], (unit, [True, True], [False] * 3), resume, after)
    types.FunctionType(new, globals())(thing, 1)
    assert len(seen) == 1 and seen[0] <= 4  # the caller's argument, args (slot and tuple), not more


def test_no_leak(minirec):
    def work():
        for n in (4, 8):
            for case in CASES:
                for state in states(minirec, case, n):
                    outcome(resume_function(minirec, state, case[0].__globals__), *arguments(state))
                minirec._asm_whole(case[0].__code__, print)
        minirec.capture()

    work()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(50):
        work()
    gc.collect()
    assert sys.getallocatedblocks() - before < 300
