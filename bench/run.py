"""The figures of `make bench`: each measured beside plain NumPy in one run, with the bound that it has to meet.

    python bench/run.py [--json] [--only WORD] [--quick]

Plain and dynoc calls take turns, so that both see the same machine; a figure is the ratio of the medians. README.md here says how
each is taken.
"""

import argparse
import dis
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

import numpy as np
from pure import PROGRAMS
from small_programs import BODIES
from small_programs import PROGRAMS as SMALL_PROGRAMS
from work import CALLS, KERNELS, LOOPS

HERE = os.path.dirname(os.path.abspath(__file__))


class Figure:
    """One row of the table. met: None where there is no bound."""

    def __init__(self, name, measured, aim, met, detail=""):
        self.name = name
        self.measured = measured
        self.aim = aim
        self.met = met
        self.detail = detail

    def line(self):
        met = {True: "yes", False: "NO", None: ""}[self.met]
        return f"{self.name:<52}{self.measured:>11}{self.aim:>12}{met:>6}   {self.detail}"


def at_most(name, value, bound, unit, detail=""):
    return Figure(name, f"{value:.3g} {unit}", f"<= {bound:g} {unit}", value <= bound, detail)


def at_least(name, value, bound, detail=""):
    return Figure(name, f"{value:.2f} x", f">= {bound:g} x", value >= bound, detail)


def seconds(call, times):
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def in_turns(calls, budget):
    """Median seconds of each call; the calls take turns until the budget (seconds for all) is spent."""
    times = [max(1, int(2e-3 / max(seconds(call, 3), 1e-8))) for call in calls]
    taken = [[] for _ in calls]
    stop = time.perf_counter() + budget
    while len(taken[0]) < 7 or time.perf_counter() < stop:
        for call, n, into in zip(calls, times, taken):
            into.append(seconds(call, n))
    return [statistics.median(t) for t in taken]


def in_words(value):
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value * 1e9:.0f} ns"


def compared(plain, args, dynoc, budget):
    """Median seconds of plain and of dynoc's native code."""
    fast = dynoc.optimize(plain, wait=True)
    for _ in range(3):
        fast(*args)
    tiers = {entry.tier for entry in fast.entries}
    plain_seconds, fast_seconds = in_turns([lambda: plain(*args), lambda: fast(*args)], budget)
    note = "" if tiers == {"native"} else f"  tiers: {sorted(tiers)}"
    return plain_seconds, fast_seconds, f"{in_words(plain_seconds)} -> {in_words(fast_seconds)}{note}"


def calls_of_small_arrays(dynoc, budget):
    for name, fn, make, bound in CALLS:
        plain, fast, detail = compared(fn, make(), dynoc, budget)
        yield at_most(f"call: {name}, part of NumPy's", fast / plain, bound, "x", detail)


def kernels(dynoc, budget):
    for name, fn, make, bound in KERNELS:
        plain, fast, detail = compared(fn, make(), dynoc, budget)
        yield at_least(name, plain / fast, bound, detail)


# ---- loops in Python


def loops(dynoc, budget):
    """Whole functions with a long loop inside: their first call, and those that find native code."""
    for name, fn, make, first_bound, bound in LOOPS:
        args, firsts = make(), []
        fn(*args)
        plain = min(seconds(lambda args=args, fn=fn: fn(*args), 1) for _ in range(3))
        for _ in range(3):
            dynoc.reset()
            fast = dynoc.optimize(fn)
            firsts.append(seconds(lambda args=args, fast=fast: fast(*args), 1) / plain)
            dynoc.wait()
        yield at_most(f"first call: {name}", statistics.median(firsts), first_bound, "x", f"{in_words(plain)} eager")
        plain, later, detail = compared(fn, args, dynoc, budget)
        yield at_least(f"later calls: {name}", plain / later, bound, detail)


ADDITIONS = 5000


def additions(dynoc, budget):
    text = "def f(x):\n" + "    x = x + 1.0\n" * ADDITIONS + "    return x\n"
    taken = []
    for _ in range(3):
        plain, fast = first_call(text, (np.ones(10),), dynoc)
        taken.append(fast - plain)
        dynoc.wait()
    extra = statistics.median(taken) * 1e3
    yield at_most(f"first call of {ADDITIONS} additions, beyond eager", extra, 50.0, "ms", in_words(plain))


# ---- recording


def fresh_function(text, name="f"):
    space = {"np": np}
    exec(text, space)
    return space[name]


def recorded_text(repeats):
    body = "    n = x.shape[0]\n    y = x\n"
    body += "    t = (n, n + 1)\n    a, b = t\n    n = a + b - n\n    y = y * 0.5 + 1.0\n" * repeats
    return f"def f(x):\n{body}    return y\n"


def first_call(text, args, dynoc):
    """(plain seconds, seconds of the first call under dynoc), of a function that nobody has seen before."""
    plain = fresh_function(text)
    plain(*args)
    plain_seconds = min(seconds(lambda: plain(*args), 1) for _ in range(5))
    fast = dynoc.optimize(fresh_function(text))
    return plain_seconds, seconds(lambda: fast(*args), 1)


def recording(dynoc, budget):
    """Cost of one more recorded instruction: between a short and a long function of the same kind, less the eager work."""
    args = (np.ones(10),)
    short, long = recorded_text(4), recorded_text(44)
    extra = len(list(dis.get_instructions(fresh_function(long)))) - len(list(dis.get_instructions(fresh_function(short))))
    costs = []
    for _ in range(15):
        plain_short, fast_short = first_call(short, args, dynoc)
        plain_long, fast_long = first_call(long, args, dynoc)
        dynoc.wait()
        costs.append(((fast_long - plain_long) - (fast_short - plain_short)) / extra)
    yield at_most(
        "recording, one instruction", statistics.median(costs) * 1e6, 3.0, "us", f"{extra} instructions more, pipeline included"
    )


LOOP = """
def f(x, n):
    total = 0
    for i in range(n):
        total = total + i % 7 * 2
    return x + total
"""


def scalar_loop(dynoc, budget):
    ratios = []
    for _ in range(5):
        plain, fast = first_call(LOOP, (np.ones(10), 1_000_000), dynoc)
        ratios.append(fast / plain)
    yield at_most("first call of a loop of 1e6 scalar steps", statistics.median(ratios), 1.2, "x", f"{in_words(plain)} eager")


# ---- other processes

READY = """
    import time
    import numpy as np
    import dynoc

    def f(x, y):
        return np.cos(x) + np.sin(y) * {number}.0

    fast = dynoc.optimize(f)
    x = np.ones(1000)
    f(x, x)
    asked = time.perf_counter()
    fast(x, x)
    dynoc.wait()
    print(time.perf_counter() - asked, fast.entries[0].tier)
"""
IMPORTED = """
    import time
    import numpy
    start = time.perf_counter()
    import dynoc
    print(time.perf_counter() - start)
"""


def in_process(text, cache):
    env = dict(os.environ, DYNOC_CACHE_DIR=cache, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], env=env, capture_output=True, text=True, check=True)
    return done.stdout.split()


def other_processes(dynoc, budget):
    compiled, loaded, tiers = [], [], set()
    for number in range(7):
        with tempfile.TemporaryDirectory() as cache:
            for into in (compiled, loaded):
                taken, tier = in_process(READY.format(number=number), cache)
                into.append(float(taken))
                tiers.add(tier)
    detail = "" if tiers == {"native"} else f"tiers: {sorted(tiers)}"
    yield at_most("native code ready, empty cache", statistics.median(compiled), 0.2, "s", detail)
    yield at_most("native code ready, from the disk cache", statistics.median(loaded) * 1e3, 5.0, "ms", detail)
    with tempfile.TemporaryDirectory() as cache:
        imports = [float(in_process(IMPORTED, cache)[0]) for _ in range(11)]
    yield at_most("import dynoc, beyond import numpy", statistics.median(imports) * 1e3, 20.0, "ms")


# ---- programs without arrays, under enable()


def numbers_of_process(program, *words, **more):
    """The numbers that one of the programs here prints."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p), PYTHONHASHSEED="0", **more)
    command = [sys.executable, os.path.join(HERE, program), *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def plain_and_enabled(program, name, turns, **more):
    """What processes print that run it plain and enabled in turns: ([numbers of each plain one], [of each enabled one])."""
    taken = {"plain": [], "enabled": []}
    for turn in range(turns):
        for how in sorted(taken, reverse=bool(turn % 2)):
            taken[how].append(numbers_of_process(program, name, how, **more))
    return taken["plain"], taken["enabled"]


def python(dynoc, budget):
    """Each program in processes of its own, plain and enabled in turns; the least CPU time of each."""
    ratios = []
    for program in PROGRAMS:
        taken = plain_and_enabled("pure.py", program.__name__, 9 if budget > 1 else 3)
        plain, enabled = (min(numbers)[0] for numbers in taken)
        ratios.append(enabled / plain)
        yield at_most(f"enable(), no arrays: {program.__name__}", ratios[-1], 1.05, "x", f"{in_words(plain)} plain")
    yield at_most("enable(), no arrays: geometric mean", statistics.geometric_mean(ratios), 1.05, "x")


# ---- small programs of several kinds, under enable()


def median_first(rows):
    return statistics.median(row[0] for row in rows)


def programs(dynoc, budget):
    """Each program in processes of its own, plain and enabled in turns: the ratio of the medians of their CPU time. Native code
    is kept from run to run; the first enabled run compiles."""
    ratios = []
    for program in SMALL_PROGRAMS:
        with tempfile.TemporaryDirectory() as cache:
            times = 7 if budget > 1 else 3
            plain, enabled = plain_and_enabled("small_programs.py", program.__name__, times, DYNOC_CACHE_DIR=cache)
        ratios.append(median_first(enabled) / median_first(plain))
        detail = f"{in_words(median_first(plain))} plain, {in_words(max(row[1] for row in enabled))} of compilers"
        yield at_most(f"enable(), small program: {program.__name__}", ratios[-1], 1.02, "x", detail)
    yield at_most("enable(), small programs: geometric mean", statistics.geometric_mean(ratios), 1.02, "x")


def bodies(dynoc, budget):
    """Bodies of loops over elements, a trip after the first second, in processes as above."""
    for body in BODIES:
        with tempfile.TemporaryDirectory() as cache:
            taken = plain_and_enabled("small_programs.py", body.__name__, 5 if budget > 1 else 1, DYNOC_CACHE_DIR=cache)
        plain, enabled = (median_first(rows) for rows in taken)
        detail = f"{plain:.0f} -> {enabled:.0f} ns a trip"
        yield at_most(f"enable(), loop: {body.__name__}", enabled / plain, 1.05, "x", detail)


# ---- peers


def numba_version(fn):
    import numba

    return numba.njit(parallel=True)(fn)


def numexpr_version(fn):
    import numexpr

    return lambda x: numexpr.evaluate("cos(x) + sin(x)")


def peers(dynoc, budget):
    """Numba and numexpr, where they are installed, on cos + sin: for the reader, no bound."""
    name, fn, make, _ = KERNELS[0]
    args = make()
    for make_rival in (numba_version, numexpr_version):
        try:
            rival = make_rival(fn)
        except ImportError:
            continue
        rival(*args)
        (taken,) = in_turns([lambda rival=rival: rival(*args)], budget)
        yield Figure(f"peer: {make_rival.__name__.split('_')[0]}, {name}", in_words(taken), "", None)


GROUPS = (
    calls_of_small_arrays,
    kernels,
    loops,
    additions,
    recording,
    scalar_loop,
    other_processes,
    python,
    programs,
    bodies,
    peers,
)


def machine():
    with open("/proc/cpuinfo") as f:
        models = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description="Measure dynoc's figures beside plain NumPy.")
    parser.add_argument("--json", action="store_true", help="write results.json beside this file")
    parser.add_argument("--only", default="", metavar="WORD", help="only the groups whose name has this word in it")
    parser.add_argument("--quick", action="store_true", help="a tenth of the time, less exact")
    options = parser.parse_args(argv)
    import dynoc

    where = machine()
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    print(f"{'figure':<52}{'measured':>11}{'aim':>12}{'met':>6}")
    figures = []
    for group in GROUPS:
        if options.only not in group.__name__:
            continue
        for figure in group(dynoc, 0.15 if options.quick else 1.5):
            figures.append(figure)
            print(figure.line(), flush=True)
        dynoc.reset()
    bounded = [f for f in figures if f.met is not None]
    print(f"{sum(f.met for f in bounded)} of {len(bounded)} met")
    if options.json:
        with open(os.path.join(HERE, "results.json"), "w") as f:
            json.dump({"machine": where, "figures": [vars(figure) for figure in figures]}, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
