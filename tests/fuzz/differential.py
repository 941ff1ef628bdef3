"""Runs generated programs (python_programs.py) eagerly and under dynoc and compares what can be seen of each call: result,
the exception, and every object that an argument, a global or an earlier result leads to, with identities and shared memory.

    python tests/fuzz/differential.py [--count N] [--seed FIRST] [--compiled 50] [--default] [--show SEED]

Programs run in forked children, so that a crash is one finding and not the end. A program that differs is shrunk by leaving
statements out. Seeds are printed: --show SEED runs and prints one.
"""

import argparse
import ast
import collections
import contextlib
import marshal
import os
import pickle
import signal
import sys
import time
import types
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import python_programs

import dynoc

TURNS = 5
FOUND_TURNS = 150  # under enable(), which has to find the program's functions first
# What CPython 3.15 says of a size depends on whether the instruction is specialised yet (docs/known_issues.md).
SIZE_MESSAGES = ("Python int too large to convert to C ssize_t", "cannot fit 'int' into an index-sized integer")
TOO_LONG = "it takes too long without dynoc"
PRELUDE = marshal.dumps(compile(python_programs.PRELUDE, "<prelude>", "exec"))  # each program has code objects of its own


class Seen:
    """What objects look like: nested tuples with numbers for objects that were met before, and the arrays' values apart."""

    def __init__(self):
        self.known, self.arrays, self.kept = {}, [], []

    def look(self, value, depth=0):
        if isinstance(value, (float, np.floating)):
            text = "nan" if value != value else round(float(value), 9)
            return (type(value).__name__, text)
        if isinstance(value, str) and value in SIZE_MESSAGES:
            value = SIZE_MESSAGES[0]
        if value is None or isinstance(value, (bool, int, str, bytes, np.generic)):
            return (type(value).__name__, repr(value))
        if id(value) in self.known:
            return ("again", self.known[id(value)])
        if isinstance(value, tuple):
            return (type(value).__name__, *[self.look(item) for item in value])
        self.known[id(value)] = len(self.known)
        self.kept.append(value)
        if isinstance(value, np.ndarray):
            return self.look_at_array(value)
        if isinstance(value, list):
            return ("list", *[self.look(item) for item in value])
        if isinstance(value, collections.deque):
            return ("deque", value.maxlen, *[self.look(item) for item in value])
        if isinstance(value, dict):
            return (type(value).__name__, *[(self.look(key), self.look(item)) for key, item in value.items()])
        if isinstance(value, BaseException):
            return (type(value).__name__, *self.look(value.args), self.look(value.__context__), self.look(value.__cause__))
        if hasattr(value, "__dict__") and type(value).__name__ in ("Box", "Slim", "Point", "Guard"):
            return (type(value).__name__, self.look(vars(value)), self.look(getattr(value, "own", None)))
        return (type(value).__name__,)

    def look_at_array(self, value):
        sharing = tuple(i for i, other in enumerate(self.arrays) if np.shares_memory(value, other))
        self.arrays.append(value)
        order = sorted(range(value.ndim), key=lambda i: -abs(value.strides[i])) if value.size > 1 else None
        items = [self.look(item) for item in value.astype(object).ravel().tolist()[:100]] if value.size else []
        return ("array", value.dtype.str, value.shape, order, sharing, value.flags.writeable, *items)


def lines_of(error):
    """Line numbers of the program that the traceback goes through, but for where a variable has no value: CPython 3.11 says the
    line before once it has made one instruction of two (STORE_FAST__LOAD_FAST)."""
    found, at = [], error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == "<program>":
            found.append((at.tb_frame.f_code.co_name, at.tb_lineno))
        at = at.tb_next
    return found[:-1] if isinstance(error, UnboundLocalError) else found


def module(source):
    """The globals of a program, whose functions are new."""
    space = {"__name__": "program"}
    exec(marshal.loads(PRELUDE), space)
    exec(compile(source, "<program>", "exec"), space)
    space["Box"].shared = 3
    return space


def run(source, seed, arrays, wrap, around=contextlib.nullcontext, calls=TURNS):
    """What is seen after each call of main; around() is entered for the calls, not for what makes functions and arguments."""
    space = module(source)
    main, seen = wrap(space["main"]), []
    turns = [python_programs.arguments(space, seed, turn, arrays) for turn in range(calls)]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with around():
            for given in turns:
                try:
                    outcome = ("returned", main(*given))
                except Exception as error:
                    outcome = ("raised", error, lines_of(error))
                now = Seen()
                state = (space["log"], space["table"], space["count"], space["Box"].shared)
                said = sorted({str(w.message) for w in warned})
                seen.append((now.look(outcome), now.look(tuple(given)), now.look(state), said))
                warned.clear()
    return seen


def codes_in(code):
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from codes_in(inner)


def keep_out():
    """The recorder gets the program's functions and none of those that look at what they did."""
    looking = (lines_of, run, Seen.__init__, Seen.look, Seen.look_at_array)
    for code in [code for function in looking for code in codes_in(function.__code__)]:
        cells = tuple(types.CellType() for _ in code.co_freevars)
        dynoc.skip(types.FunctionType(code, {}, closure=cells))


def under_dynoc(source, seed, arrays, how):
    """how: door, everything (enable() with every function offered), compiled (native code is there at once), broken (a graph
    break in front of every so many instructions), left (native code is left at one of its snapshots) or default (enable() as it
    is)."""
    dynoc.reset()
    if how == "default":  # every second time what doesn't pay is served, too
        before, dynoc.config.retire = dynoc.config.retire, seed % 2 == 0
        try:
            return run(source, seed, arrays, lambda main: main, dynoc.enabled, FOUND_TURNS)
        finally:
            dynoc.config.retire = before
    if how in ("broken", "left"):
        setting, on, off = ("force_break", 1 + seed % 13, 0) if how == "broken" else ("force_leave", seed // 10 % 3, -1)
        setattr(dynoc.config, setting, on)
        try:
            return under_dynoc(source, seed, arrays, "door" if how == "broken" else "compiled")
        finally:
            setattr(dynoc.config, setting, off)
    if how == "compiled":
        return run(source, seed, arrays, lambda main: dynoc.optimize(main, wait=True))
    if how == "door":
        return run(source, seed, arrays, lambda main: dynoc.optimize(main, backend="eager"))
    dynoc.config.record_all = True
    try:
        return run(source, seed, arrays, lambda main: main, lambda: dynoc.enabled(backend="eager"))
    finally:
        dynoc.config.record_all = False


class TooLong(BaseException):
    """A program that takes long without dynoc is no program for this."""


def too_long(number, frame):
    raise TooLong


@contextlib.contextmanager
def within(seconds):
    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def difference(source, seed, arrays, how):
    """None, or a text that says what differs."""
    with within(2):
        plain = run(source, seed, arrays, lambda main: main, calls=FOUND_TURNS if how == "default" else TURNS)
    signal.alarm(60)
    fast = under_dynoc(source, seed, arrays, how)
    for turn, (before, after) in enumerate(zip(plain, fast)):
        for what, a, b in zip(("outcome", "arguments", "globals", "warnings"), before, after):
            if a != b:
                return f"call {turn}: {what}\n  plain {a}\n  dynoc {b}"
    return None


def way(seed, every):
    """(arrays, how) of a seed; every: "default", or how often one is compiled."""
    if every == "default":
        return True, "default"
    if every and seed % every == 0:
        return True, "left" if seed % (4 * every) == 0 else "compiled"
    if seed % 10 == 7:
        return True, "broken"
    return seed % 3 != 0, ("door", "everything", "everything")[seed % 3 if seed % 2 else 0] if seed % 3 else "everything"


def child(work):
    """What work() yields, from a forked process; then how that ended, None where it came to its end."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(read)
        status = 1
        with contextlib.suppress(BaseException), os.fdopen(write, "wb", buffering=0) as out:
            for item in work():
                out.write(pickle.dumps(item))
            status = 0
        os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as back, contextlib.suppress(EOFError):
        while True:
            yield pickle.load(back)
    status = os.waitpid(process, 0)[1]
    yield f"the process ended with status {status}" if status else None


def checked(source, seed, arrays, how):
    try:
        return difference(source, seed, arrays, how)
    except TooLong:
        return TOO_LONG
    except Exception as error:
        return f"the harness: {type(error).__name__}: {error}"
    finally:
        signal.alarm(0)


def checked_alone(source, seed, arrays, how):
    """The same in a process of its own."""
    answers = [text for text in child(lambda: iter([checked(source, seed, arrays, how)])) if text]
    return answers[0] if answers and answers[0] != TOO_LONG else None


def checks(seeds, every):
    """(seed, None) as a program begins, (seed, text) as it ends."""
    for seed in seeds:
        yield seed, None
        arrays, how = way(seed, every)
        yield seed, checked(python_programs.program(seed, arrays, how == "default"), seed, arrays, how) or ""


def findings(seeds, every, batch=200, skipped=None):
    """(seed, text) of every program among the seeds that differs, crashes or hangs; `skipped` gets the seeds of those that take
    too long without dynoc."""
    seeds = list(seeds)
    while seeds:
        part, bad = seeds[:batch], None
        for item in child(lambda: checks(part, every)):
            if not isinstance(item, tuple):
                if item and bad is None:
                    raise RuntimeError(f"{item} before the first program")
                if item:
                    yield bad, item
            elif item[1] is None:
                bad = item[0]
            elif item[1] == TOO_LONG:
                if skipped is not None:
                    skipped.append(bad)
            elif item[1]:
                yield item
        seeds = seeds[seeds.index(bad) + 1 :]


# ---- shrinking


def without(lines, i):
    """The program without statement i and what is in it; None where there is nothing left."""
    depth = len(lines[i]) - len(lines[i].lstrip())
    end = i + 1
    while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > depth:
        end += 1
    yield lines[:i] + lines[end:]
    yield lines[:i] + [" " * depth + "pass"] + lines[end:]
    if end > i + 1:  # the body in place of the statement
        yield lines[:i] + [line[4:] for line in lines[i + 1 : end]] + lines[end:]


def shrink(source, seed, arrays, how, seconds=30):
    lines, smaller, start = source.splitlines(), True, time.monotonic()
    while smaller:
        smaller = False
        for i in range(len(lines) - 1, 0, -1):
            for candidate in without(lines, i):
                text = "\n".join(candidate) + "\n"
                if len(text) >= len("\n".join(lines)) + 1 or time.monotonic() - start > seconds:
                    continue
                with contextlib.suppress(SyntaxError):
                    ast.parse(text)
                    compile(text, "<program>", "exec")
                    found = checked_alone(text, seed, arrays, how)
                    if found and "the harness" not in found and "status 14" not in found:
                        lines, smaller = candidate, True
                        break
            if i >= len(lines):
                break
    return "\n".join(lines) + "\n"


def report(seed, text, every, shrunk=True):
    arrays, how = way(seed, every)
    source = python_programs.program(seed, arrays, how == "default")
    if shrunk and not checked_alone(source, seed, arrays, how):
        text += "\n(with the programs before it only)"
    elif shrunk:
        source = shrink(source, seed, arrays, how)
        text = checked_alone(source, seed, arrays, how) or text
    return f"---- seed {seed}, {how}\n{source}\n{text}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", type=int, default=50, help="one program in so many is compiled to native code")
    parser.add_argument("--default", dest="compiled", action="store_const", const="default", help="enable() as it is")
    parser.add_argument("--show", type=int, help="this program only")
    parser.add_argument("--most", type=int, default=10, help="findings to shrink and print")
    options = parser.parse_args()
    if options.show is not None:
        arrays, how = way(options.show, options.compiled)
        source = python_programs.program(options.show, arrays, how == "default")
        print(source, checked(source, options.show, arrays, how), sep="\n")
        return 0
    print(f"seeds {options.seed} to {options.seed + options.count - 1}", flush=True)
    n, skipped = 0, []
    for seed, text in findings(range(options.seed, options.seed + options.count), options.compiled, skipped=skipped):
        n += 1
        print(report(seed, text, options.compiled) if n <= options.most else f"---- seed {seed}", flush=True)
    print(f"{options.count - len(skipped)} programs, {n} differ; too long without dynoc: {skipped or 'none'}", flush=True)
    return int(n > 0)


keep_out()

if __name__ == "__main__":
    sys.exit(main())
