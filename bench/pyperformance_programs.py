"""Programs of pyperformance that call much and have no arrays, under `python` and under `python -m dynoc`: the ratio of the CPU
times of a turn.

    python bench/pyperformance_programs.py FOLDER [--rounds 5] [--seconds 1] [NAME ...]

FOLDER is `pyperformance/data-files/benchmarks` where pyperformance is installed, in any environment; pyperf isn't needed. Each
program runs in processes of its own, in turns with and without dynoc, and in each for some seconds or three turns, of which the
least counts; of a program with several parts their sum.

Which names and classes share an entry of CPython's type cache goes by how many classes there were before, and moves richards by a
tenth without dynoc. So each round makes some more classes first, and the ratio is the median of the rounds' ratios: a round in
which the machine had other work doesn't count.
"""

import argparse
import json
import os
import runpy
import statistics
import subprocess
import sys
import time
import types

LEAST_TURN = 0.02
NAMES = ("richards", "deltablue", "hexiom", "go", "raytrace", "float", "chaos", "nqueens", "generators")


class Runner:
    """Stands for pyperf's: times turns by CPU time and writes them down."""

    def __init__(self, seconds):
        self.argparser, self.metadata, self.seconds = argparse.ArgumentParser(), {}, seconds

    def parse_args(self):
        return self.argparser.parse_args([])

    def turns(self, once):
        taken, start = [], time.process_time()
        while len(taken) < 3 or time.process_time() - start < self.seconds:
            taken.append(once())
        print("turns", json.dumps(taken))

    def bench_func(self, name, function, *args, **how):
        def once():
            start = time.process_time()
            function(*args)
            return time.process_time() - start

        self.turns(once)

    def bench_time_func(self, name, function, *args, **how):
        loops = 1  # of a turn: so many that the clock's own time doesn't count
        while function(loops, *args) < LEAST_TURN:
            loops *= 2
        self.turns(lambda: function(loops, *args) / loops)


def drive(program, seconds, classes):
    """Run the program in this process, behind so many classes; it sees Runner in place of pyperf's."""
    before = [type(f"Class{i}", (), {"item": i}) for i in range(classes)]
    for made in before:
        made.item  # noqa: B018: what is looked up in a class is what gives it a number in the cache
    pyperf = types.ModuleType("pyperf")
    pyperf.Runner = lambda *args, **how: Runner(seconds)
    pyperf.perf_counter = time.process_time
    pyperf.python_implementation = lambda: "cpython"
    sys.modules["pyperf"] = pyperf
    sys.argv = [program]
    sys.path.insert(0, os.path.dirname(program))
    runpy.run_path(program, run_name="__main__")


def turns_of(program, seconds, classes, *how):
    command = [sys.executable, *how, __file__, "--drive", program, str(seconds), str(classes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line.partition(" ")[2]) for line in done.stdout.splitlines() if line.startswith("turns ")]


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_intermixed_args(argv)
    ratios = []
    for name in options.names:
        program = os.path.join(options.folder, f"bm_{name}", "run_benchmark.py")
        plain, fast = [], []
        for turn in range(options.rounds):
            ways = ((plain, ()), (fast, ("-m", "dynoc")))
            for taken, how in reversed(ways) if turn % 2 else ways:
                taken.append(sum(min(turns) for turns in turns_of(program, options.seconds, turn, *how)))
        pairs = [after / before for before, after in zip(plain, fast)]
        ratios.append(statistics.median(pairs))
        scatter = f"rounds {min(pairs):.2f} to {max(pairs):.2f}"
        least = 1000 * min(plain)
        print(f"{name:12} {least:9.3f} ms plain, {ratios[-1]:.3f} times that with dynoc, {scatter}", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.3f}")


if __name__ == "__main__":
    if sys.argv[1] == "--drive":
        drive(sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
    else:
        main(sys.argv[1:])
