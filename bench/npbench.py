"""NPBench's programs as they are: under NumPy, under dynoc and, with --numba, in the variants that NPBench has for Numba.

    python bench/npbench.py CHECKOUT [--preset S] [--only NAME ...] [--wait] [--numba] [--cpu] [--seconds N] [--timeout N]

CHECKOUT is a checkout of https://github.com/spcl/npbench. Each program runs in a process of its own. NumPy's form is loaded
twice, so that plain calls share no code with those through `dynoc.optimize`; arguments are copied before each call. After the
first calls both take turns for N seconds, and the medians are compared: "dynoc" is NumPy's time over dynoc's, "Numba" is NumPy's
over that of the fastest variant whose results are right. --cpu compares the CPU time of the process, all its threads together:
on a machine that is busy with something else, which of two calls is interrupted says more than how long they take. "result" is
"bits" where all that is returned and all arguments have NumPy's bits, else the largest difference beside the largest number.
"""

import argparse
import contextlib
import copy
import importlib.util
import io
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np

VARIANTS = ("n", "np", "npr")
FIRST_CALLS, FIRST_SECONDS = 60, 4.0
clock = time.perf_counter


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Program:
    def __init__(self, checkout, name):
        self.info = json.loads((checkout / "bench_info" / f"{name}.json").read_text())["benchmark"]
        self.stem = checkout / "npbench" / "benchmarks" / self.info["relative_path"] / self.info["module_name"]

    def arguments(self, preset):
        values = dict(self.info["parameters"][preset])
        init = self.info.get("init")
        if init:
            made = getattr(load(f"{self.stem}.py", "made"), init["func_name"])(*(values[a] for a in init["input_args"]))
            names = init["output_args"]
            values.update(zip(names, made if len(names) > 1 else (made,)))
        return [values[a] for a in self.info["input_args"]]

    def function(self, form, name):
        return getattr(load(f"{self.stem}_{form}.py", name), self.info["func_name"])


def difference(a, b):
    """0 if both have the same bits, the largest difference beside the largest number, or infinity if they aren't of a kind."""
    if isinstance(a, (tuple, list)):
        same = isinstance(b, (tuple, list)) and len(a) == len(b)
        return max(map(difference, a, b), default=0.0) if same else math.inf
    if a is None or b is None:
        return 0.0 if a is b else math.inf
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return math.inf
    if a.dtype == b.dtype and a.tobytes() == b.tobytes():
        return 0.0
    if a.dtype.kind not in "iufcb" or b.dtype.kind not in "iufcb":
        return math.inf
    both = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~both], b[~both], equal_nan=a.dtype.kind in "fc"):
        return math.inf
    largest = np.abs(a[both]).max(initial=0.0)
    apart = np.abs(a[both].astype(complex) - b[both].astype(complex)).max(initial=0.0)
    return float(apart / largest) if largest else float(apart)


def called(function, args):
    """(seconds, what is returned and the arguments behind the call)."""
    args = copy.deepcopy(args)
    began = clock()
    result = function(*args)
    return clock() - began, (result, args)


def warm(function, args, pause):
    began = time.perf_counter()
    for _ in range(FIRST_CALLS):
        result = called(function, args)[1]
        pause()
        if time.perf_counter() - began > FIRST_SECONDS:
            break
    return result


def in_turns(functions, args, seconds):
    times = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for function, taken in zip(functions, times):
            taken.append(called(function, args)[0])
    return [statistics.median(taken) for taken in times]


def numba_variant(program, args, variant, wanted, seconds):
    """Seconds of a call, or None if the variant isn't there, fails, or gives something else."""
    import numba

    unknown = numba.core.errors.NumbaError, ImportError, OSError, TypeError, ValueError, NotImplementedError, AttributeError
    try:
        function = program.function(f"numba_{variant}", variant)
        if difference(wanted, warm(function, args, lambda: None)) > 1e-5:
            return None
        return in_turns([function], args, seconds)[0]
    except unknown:  # there is no such variant, or it isn't in Numba's language
        return None


def child(options):
    """Prints the measured figures of one program."""
    global clock
    clock = time.process_time if options.cpu else clock
    program = Program(options.checkout, options.child)
    args = program.arguments(options.preset)
    plain = program.function("numpy", "plain")
    wanted = called(plain, args)[1]
    if options.variant:
        print(json.dumps({"numba": numba_variant(program, args, options.variant, wanted, options.seconds)}))
        return
    import dynoc

    fast = dynoc.optimize(program.function("numpy", "fast"), wait=options.wait)
    first, got = called(fast, args)
    apart = max(difference(wanted, got), difference(wanted, warm(fast, args, dynoc.wait)))
    plain_time, fast_time = in_turns([plain, fast], args, options.seconds)
    loops = [line.split("\n")[0] for line in fast.loops]
    print(json.dumps({"plain": plain_time, "dynoc": fast_time, "first": first, "apart": apart, "loops": loops}))


def measured(options, name, *more):
    command = [sys.executable, __file__, str(options.checkout), "--child", name, "--preset", options.preset, *more]
    command += ["--seconds", str(options.seconds)] + ["--wait"] * options.wait + ["--cpu"] * options.cpu
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"error": "timeout"}
    except (ValueError, IndexError):
        return {"error": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]}


def row(options, name):
    """(NumPy's time over dynoc's, over Numba's; NaN where there is none), printed."""
    figures = measured(options, name)
    if "error" in figures:
        print(f"{name:26}{figures['error']}", flush=True)
        return math.nan, math.nan
    ratio, peer = figures["plain"] / figures["dynoc"], math.nan
    if options.numba:
        times = [measured(options, name, "--variant", v).get("numba") for v in VARIANTS]
        peer = figures["plain"] / min((t for t in times if t), default=math.nan)
    native = sum(loop.startswith("native") for loop in figures["loops"])
    said = "bits" if figures["apart"] == 0 else f"{figures['apart']:.0e}"
    print(f"{name:26}{figures['plain'] * 1e3:10.3f}{figures['first'] / figures['plain']:8.2f}{ratio:9.2f}{peer:9.2f}  "
          f"{said:8}{native} of {len(figures['loops'])}", flush=True)  # fmt: skip
    return ratio, peer


def mean(values):
    values = [math.log(v) for v in values if not math.isnan(v)]
    return math.exp(sum(values) / len(values)) if values else math.nan


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--preset", default="S")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--numba", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        sys.path.insert(0, str(options.checkout))
        said = io.StringIO()  # some programs print
        warnings.simplefilter("ignore")
        with contextlib.redirect_stderr(said):
            child(options)
        return
    print(f"{'program':26}{'NumPy, ms':>10}{'first':>8}{'dynoc':>9}{'Numba':>9}  {'result':8}loops")
    names = sorted(path.stem for path in (options.checkout / "bench_info").glob("*.json"))
    rows = [row(options, name) for name in names if not options.only or name in options.only]
    ratios = [r for r, _ in rows if not math.isnan(r)]
    print(f"{len(ratios)} programs, geometric means: dynoc {mean(ratios):.2f}, Numba {mean([p for _, p in rows]):.2f}; "
          f"least {min(ratios, default=math.nan):.2f}; below .97: {sum(r < 0.97 for r in ratios)}")  # fmt: skip


if __name__ == "__main__":
    main()
