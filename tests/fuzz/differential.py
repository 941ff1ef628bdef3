"""Runs generated programs (python_programs.py) eagerly and under dynoc and compares what can be seen of each call: result,
the exception, and every object that an argument, a global or an earlier result leads to, with identities and shared memory.

    python tests/fuzz/differential.py [--count N] [--seed FIRST] [--every-nth-compiled 50] [--show SEED]

Programs run in forked children, so that a crash is one finding and not the end. A program that differs is shrunk by leaving
statements out. Seeds are printed: --show SEED runs and prints one.
"""

import argparse
import ast
import collections
import contextlib
import io
import os
import pickle
import re
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import python_programs

import dynoc

TURNS = 5


class Seen:
    """What objects look like: nested tuples with numbers for objects that were met before, and the arrays' values apart."""

    def __init__(self):
        self.known, self.arrays, self.kept = {}, [], []

    def look(self, value, depth=0):
        if isinstance(value, (float, np.floating)):
            text = "nan" if value != value else round(float(value), 9)
            return (type(value).__name__, text)
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
        order = np.argsort([-abs(stride) for stride in value.strides], kind="stable").tolist() if value.size > 1 else None
        items = [self.look(item) for item in value.astype(object).ravel().tolist()[:100]] if value.size else []
        return ("array", value.dtype.str, value.shape, order, sharing, value.flags.writeable, *items)


def lines_of(error):
    """Line numbers of the program that the traceback goes through."""
    found, at = [], error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == "<program>":
            found.append((at.tb_frame.f_code.co_name, at.tb_lineno))
        at = at.tb_next
    return found


def run(source, seed, arrays, wrap):
    """What is seen after each call of main."""
    space = {"__name__": "program"}
    exec(compile(python_programs.PRELUDE, "<prelude>", "exec"), space)
    exec(compile(source, "<program>", "exec"), space)
    main, seen = wrap(space["main"]), []
    space["Box"].shared = 3
    for turn in range(TURNS):
        given = python_programs.arguments(space, seed, turn, arrays)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                outcome = ("returned", main(*given))
            except Exception as error:
                outcome = ("raised", error, lines_of(error))
        now = Seen()
        state = (space["log"], space["table"], space["count"], space["Box"].shared)
        seen.append((now.look(outcome), now.look(tuple(given)), now.look(state), sorted({str(w.message) for w in warned})))
    return seen


def under_dynoc(source, seed, arrays, how):
    """how: door, everything (enable() with every function offered), or compiled (native code is there at once)."""
    dynoc.reset()
    if how == "compiled":
        return run(source, seed, arrays, lambda main: dynoc.optimize(main, wait=True))
    if how == "door":
        return run(source, seed, arrays, lambda main: dynoc.optimize(main, backend="eager"))
    dynoc.config.record_all = True
    try:
        with dynoc.enabled(backend="eager"):
            return run(source, seed, arrays, lambda main: main)
    finally:
        dynoc.config.record_all = False


def difference(source, seed, arrays, how):
    """None, or a text that says what differs."""
    plain = run(source, seed, arrays, lambda main: main)
    fast = under_dynoc(source, seed, arrays, how)
    for turn, (before, after) in enumerate(zip(plain, fast)):
        for what, a, b in zip(("outcome", "arguments", "globals", "warnings"), before, after):
            if a != b:
                return f"call {turn}: {what}\n  plain {a}\n  dynoc {b}"
    return None


def way(seed, every):
    """(arrays, how) of a seed."""
    if every and seed % every == 0:
        return True, "compiled"
    return seed % 3 != 0, ("door", "everything", "everything")[seed % 3 if seed % 2 else 0] if seed % 3 else "everything"


def in_child(work, seconds):
    """What work() returns, from a forked process; a text that says how the process ended where it returned nothing."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with contextlib.suppress(BaseException):
            signal.alarm(seconds)
            with os.fdopen(write, "wb") as out:
                out.write(pickle.dumps(work()))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as back:
        data = back.read()
    status = os.waitpid(child, 0)[1]
    if data:
        return pickle.loads(data)
    return f"the process ended with status {status}"


def findings_in(seeds, every):
    """(seed, text) of programs that differ, up to a crash; a file keeps the seed that is being run."""
    found = []
    for seed in seeds:
        arrays, how = way(seed, every)
        progress.seek(0)
        progress.write(f"{seed:>20}")
        progress.flush()
        text = checked(python_programs.program(seed, arrays), seed, arrays, how)
        if text:
            found.append((seed, text))
    return found


def checked(source, seed, arrays, how):
    try:
        return difference(source, seed, arrays, how)
    except Exception as error:
        return f"the harness: {type(error).__name__}: {error}"


progress = None


def findings(seeds, every, batch=200):
    """(seed, text) of every program among the seeds that differs, crashes or hangs."""
    global progress
    at = 0
    with tempfile.TemporaryFile("w+") as progress:
        while at < len(seeds):
            part = seeds[at : at + batch]
            result = in_child(lambda: findings_in(part, every), 300)
            at += len(part)
            if isinstance(result, str):  # those before the crash run again, without it
                progress.seek(0)
                bad = int(progress.read() or part[0])
                before = part[: part.index(bad)]
                at += len(before) + 1 - len(part)
                yield bad, result
                result = in_child(lambda: findings_in(before, every), 300) if before else []
                result = [] if isinstance(result, str) else result
            yield from result


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
                    found = in_child(lambda text=text: checked(text, seed, arrays, how), 3)
                    if found and "the harness" not in found and "status 14" not in found:
                        lines, smaller = candidate, True
                        break
            if i >= len(lines):
                break
    return "\n".join(lines) + "\n"


def report(seed, text, every, shrunk=True):
    arrays, how = way(seed, every)
    source = python_programs.program(seed, arrays)
    if shrunk:
        smaller = shrink(source, seed, arrays, how)
        text = in_child(lambda: checked(smaller, seed, arrays, how), 20) or text
        source = smaller
    return f"---- seed {seed}, {how}\n{source}\n{text}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", type=int, default=50, help="one program in so many is compiled to native code")
    parser.add_argument("--show", type=int, help="this program only")
    parser.add_argument("--most", type=int, default=10, help="findings to shrink and print")
    options = parser.parse_args()
    if options.show is not None:
        arrays, how = way(options.show, options.compiled)
        source = python_programs.program(options.show, arrays)
        print(source, checked(source, options.show, arrays, how), sep="\n")
        return 0
    print(f"seeds {options.seed} to {options.seed + options.count - 1}", flush=True)
    n = 0
    for seed, text in findings(range(options.seed, options.seed + options.count), options.compiled):
        n += 1
        print(report(seed, text, options.compiled) if n <= options.most else f"---- seed {seed}", flush=True)
    print(f"{options.count} programs, {n} differ")
    return int(n > 0)


if __name__ == "__main__":
    sys.exit(main())
