"""Every kernel of kernels.py under NumPy, dynoc and each peer that is installed, on the same data, with the same threads.

    python bench/suite.py [--quick] [--only WORD] [--peers a,b] [--sizes] [--json] [--write-readme] [--python PATH] [--threads N]

Each peer is a process of its own (worker.py), which compiles a kernel and compares its result with NumPy's. Then they take turns,
so that a machine that is slow for a while is slow for all. A figure is the median over the turns. README.md here says more.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile

import plot
import table
from kernels import KERNELS, arrays_of
from memory import MALLOC_ENVIRONMENT
from run import HERE, machine

PEERS = ("numpy", "dynoc", "numba", "numexpr", "jax", "torch")
SIZES = tuple(10**power for power in range(1, 8))
LIMIT = 240  # seconds for one answer: a compiler that takes longer is left out
THREADS = ("OMP", "MKL", "OPENBLAS", "NUMBA", "NUMEXPR", "NUMEXPR_MAX")


class Process:
    """One peer's process. Started when it is first asked, and again after it died or took too long."""

    def __init__(self, name, options, environment):
        self.name = name
        self.command = [options.python, os.path.join(HERE, "worker.py"), name, str(options.threads)]
        self.environment = environment
        self.worker = None
        self.greeting = {}

    def start(self):
        self.worker = subprocess.Popen(
            self.command,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        self.greeting = self.answer()

    def answer(self):
        ready, _, _ = select.select([self.worker.stdout], [], [], LIMIT)
        line = self.worker.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        self.end()
        return {"unable": "the process died" if ready else f"more than {LIMIT} s"}

    def ask(self, **request):
        if self.worker is None:
            self.start()
        if "unable" in self.greeting:
            return self.greeting
        with contextlib.suppress(BrokenPipeError):  # answer() finds out
            self.worker.stdin.write(json.dumps(request).encode() + b"\n")
        return self.answer()

    def end(self):
        """Ends what start() started, compilers of its own included."""
        if self.worker is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.worker.pid, signal.SIGKILL)
            with contextlib.suppress(BrokenPipeError):
                self.worker.communicate()
            self.worker = None


def environment(options, cache, **more):
    env = dict(os.environ, DYNOC_CACHE_DIR=os.path.join(cache, "dynoc"), TORCHINDUCTOR_CACHE_DIR=os.path.join(cache, "inductor"))
    env.update({f"{name}_THREADS" if "MAX" in name else f"{name}_NUM_THREADS": str(options.threads) for name in THREADS})
    env.update(TORCHINDUCTOR_COMPILE_THREADS="1", PYTHONHASHSEED="0", **more)
    dynoc = importlib.util.find_spec("dynoc")
    if dynoc is not None:
        env["PYTHONPATH"] = os.path.dirname(os.path.dirname(dynoc.origin))
    return env


def measured(processes, kernel, size, options):
    """{"kernel", "size", "seconds": {peer: S}, "unable": {peer: REASON}, "notes": {peer: TEXT}}"""
    row = {"kernel": kernel.name, "size": size, "seconds": {}, "unable": {}, "notes": {}}
    able = []
    for process in processes:
        answer = process.ask(do="prepare", kernel=kernel.name, size=size)
        if "unable" in answer:
            row["unable"][process.name] = answer["unable"]
        else:
            able.append(process)
            row["notes"][process.name] = answer["note"]
    turns = {process.name: [] for process in able}
    for turn in range(options.rounds):
        for process in able[turn % len(able) :] + able[: turn % len(able)]:
            answer = process.ask(do="time", seconds=options.seconds)
            turns[process.name].append(answer.get("least" if options.least else "median"))
    for name, figures in turns.items():
        if None in figures:
            row["unable"][name] = "died while it was measured"
        else:
            row["seconds"][name] = min(figures) if options.least else statistics.median(figures)
    return row


def peaks(processes, kernel, size):
    """{peer: bytes}"""
    answers = {process.name: process.ask(do="memory", kernel=kernel.name, size=size) for process in processes}
    return {name: answer["bytes"] for name, answer in answers.items() if "bytes" in answer}


def full_table(chosen, processes, copy, lean, options):
    """Rows, printed as they come. lean: processes in which memory is measured, not time."""
    peers = [process.name for process in processes]
    print(table.heading(peers))
    for kernel in chosen:
        row = measured(processes + [copy] * kernel.memory, kernel, kernel.size, options)
        row["memory"] = peaks(lean, kernel, kernel.size)
        if kernel.memory:
            args = kernel.make(kernel.size)
            row["moved"] = sum(a.nbytes for a in arrays_of((args, kernel.fn(*args))))
        print(table.line(row, peers), flush=True)
        yield row


def pictures(chosen, processes, options):
    """Rows for each size, and one picture a kernel. What is compiled for one size stays for the next, if the peer can use it."""
    folder = os.path.join(HERE, "plots")
    os.makedirs(folder, exist_ok=True)
    for kernel in chosen:
        rows = [measured(processes, kernel, size, options) for size in SIZES]
        series = {}
        for row in rows:
            for name, seconds in row["seconds"].items():
                series.setdefault(name, []).append((row["size"], seconds))
        path = os.path.join(folder, plot.file_name(kernel.name))
        with open(path, "w") as f:
            f.write(plot.svg(kernel.name, {name: series[name] for name in PEERS if name in series}))
        print(path, flush=True)
        yield from rows


def installed(processes):
    """Those that start; the others are named."""
    for process in processes:
        process.start()
        if "unable" in process.greeting:
            print(f"{process.name} is left out: {process.greeting['unable']}")
    return [process for process in processes if "unable" not in process.greeting]


def options_of(argv):
    parser = argparse.ArgumentParser(description="Measure dynoc's kernels beside NumPy's and the peers'.")
    python = os.environ.get("PEERS_PYTHON", sys.executable)
    parser.add_argument("--json", action="store_true", help="write suite.json (sizes.json) beside this file")
    parser.add_argument("--only", action="append", metavar="WORD", help="only kernels with this word in their name")
    parser.add_argument("--quick", action="store_true", help="two short turns in place of seven: less exact")
    parser.add_argument("--least", action="store_true", help="the least of all calls, not medians: for a busy machine")
    parser.add_argument("--sizes", action="store_true", help="sizes from 10 to 1e7, drawn into plots/, in place of the table")
    parser.add_argument("--peers", default=",".join(PEERS), help="beside numpy and dynoc: numba,numexpr,jax,torch")
    parser.add_argument("--python", default=python, help="interpreter of the processes, where the peers are")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--write-readme", action="store_true", help="put the table into README.md")
    options = parser.parse_args(argv)
    options.rounds, options.seconds = (2, 0.03) if options.quick else (7, 0.15)
    return options


def main(argv=None):
    options = options_of(argv)
    asked = {"numpy", "dynoc", *options.peers.split(",")}
    chosen = [kernel for kernel in KERNELS if any(word in kernel.name for word in options.only or [""])]
    with tempfile.TemporaryDirectory() as cache:
        env, lean_env = environment(options, cache), environment(options, cache, **MALLOC_ENVIRONMENT)
        processes = [Process(name, options, env) for name in PEERS if name in asked]
        copy = Process("copy", options, env)
        lean = [Process(name, options, lean_env) for name in ("numpy", "dynoc")]
        try:
            able = installed(processes)
            if options.sizes:
                rows = list(pictures(chosen, able, options))
            else:
                rows = list(full_table(chosen, able, copy, lean, options))
        finally:
            for process in (*processes, copy, *lean):
                process.end()
    versions = {process.name: process.greeting["version"] for process in able}
    where = dict(machine(), threads=options.threads, turns=options.rounds, **versions)
    if options.json:
        with open(os.path.join(HERE, "sizes.json" if options.sizes else "suite.json"), "w") as f:
            json.dump({"machine": where, "rows": rows}, f, indent=1)
            f.write("\n")
    if options.sizes:
        return
    print("", table.summary(rows), "", ", ".join(f"{key} {value}" for key, value in where.items()), sep="\n")
    if options.write_readme:
        path = os.path.join(HERE, "README.md")
        with open(path) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(table.between_markers(text, table.markdown(rows, [process.name for process in able], where)))


if __name__ == "__main__":
    main()
