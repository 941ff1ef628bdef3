"""Training steps: eager, dynoc and torch.compile, the same programs (tests/py/training_programs.py), one thread.

    python bench/training.py                 the table of ten models, as docs/lab/training.md has it
    python bench/training.py mlp whole_adam  these programs
    python bench/training.py --no-compile    without torch.compile, which takes a minute a model
    python bench/training.py --first         the first 20 steps in all, beside eager's

Each pair is a process of its own: eager and the other in turns, the tenth percentile of the steps, after 20 steps in which
the losses are compared. Memory is what the process has at most beyond what it has before the first step, in a process for each
that makes 20 steps; torch.compile's own is in it. Of the first steps the least of some processes counts: what the calling thread
computes, and how long they take, which on a busy machine has the build thread's time in it. Python's bytecode is written by the
first of them, as it is where dynoc is installed.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TEN = ("mlp", "lltm", "convolutional", "language", "vae", "gan", "unet", "graph_network", "siren", "dlrm")
MODES = ("default", "wait", "whole", "compile")
WARM, SECONDS, PROCESSES = 20, 3.0, 3


def same(function):
    return function


def wrappers(mode):
    """What the model goes through, and the step."""
    if mode == "eager":
        return same, same
    if mode == "compile":
        import torch

        return torch.compile, same
    import dynoc

    if mode == "default":
        return dynoc.optimize, same
    made = dynoc.optimize(wait=True) if mode == "wait" else None
    return (made, same) if made else (dynoc.optimize, dynoc.optimize)


def program(name, mode):
    import torch

    torch.manual_seed(0)
    step, _ = PROGRAMS[name](*wrappers(mode))
    return step


def numbers(value):
    items = value if isinstance(value, (tuple, list)) else [value]
    return [float(v.detach().double().sum()) if hasattr(v, "detach") else float(v) for v in items if v is not None]


def trained(step, first, n, draws):
    """n steps, each with the random numbers of its own that it would have alone."""
    import torch

    losses = []
    for i in range(first, first + n):
        torch.set_rng_state(draws[0])
        losses.append(numbers(step(i)))
        draws[0] = torch.get_rng_state()
    return losses


def pair(name, mode):
    """Losses that differ by at most, and seconds of a step: eager's and the other's."""
    import torch

    steps = [program(name, "eager"), program(name, mode)]
    draws = [[torch.get_rng_state()], [torch.get_rng_state()]]
    losses = [trained(step, 0, WARM, draw) for step, draw in zip(steps, draws, strict=True)]
    off = max(abs(a - b) / max(1e-3, abs(a)) for x, y in zip(*losses, strict=True) for a, b in zip(x, y, strict=True))
    times, at, end = ([], []), WARM, time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times[0]) < 20:
        for which, step in enumerate(steps):
            torch.set_rng_state(draws[which][0])
            began = time.perf_counter()
            step(at)
            times[which].append(time.perf_counter() - began)
            draws[which][0] = torch.get_rng_state()
        at += 1
    return {"off": off, "seconds": [sorted(t)[len(t) // 10] for t in times]}


def memory(name, mode):
    """KiB at most, beyond what there was before the first step."""
    step = program(name, mode)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(WARM):
        step(i)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def first(name, mode):
    """Milliseconds of the first steps: of the calling thread, and until they are made."""
    step = program(name, mode)
    began = time.thread_time(), time.perf_counter()
    for i in range(WARM):
        step(i)
    return [(time.thread_time() - began[0]) * 1e3, (time.perf_counter() - began[1]) * 1e3]


def first_row(name):
    """The least of some processes in turns."""
    taken = {mode: [] for mode in ("eager", *MODES[:-1])}
    for mode in list(taken) * PROCESSES:
        taken[mode].append(child("first", name, mode)[0])
    least = {mode: [min(of) for of in zip(*found, strict=True)] for mode, found in taken.items()}
    thread, wall = least["eager"]
    ratios = (f"{a / thread:.2f} {b / wall:.2f}" for a, b in (least[mode] for mode in MODES[:-1]))
    print(f"| {name} | {thread:.1f} {wall:.1f} | {' | '.join(ratios)} |", flush=True)


def child(what, name, mode):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, os.path.abspath(__file__), "--child", what, name, mode]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return json.loads(done.stdout.splitlines()[-1]), None


def geometric_mean(values):
    product = 1.0
    for v in values:
        product *= v
    return product ** (1 / len(values))


def row(name, modes):
    cells, ratios, eager = [], {}, None
    for mode in modes:
        found, why = child("pair", name, mode)
        if found is None:
            print(f"{name}, {mode}: {why}", file=sys.stderr)
            cells.append("-")
            continue
        eager, other = found["seconds"]
        ratios[mode] = other / eager
        cells.append(f"{other / eager:.2f} ({found['off']:.0e})")
    kib = [child("memory", name, mode)[0] for mode in ("eager", *modes)]
    mib = " / ".join("-" if k is None else f"{k / 1024:.1f}" for k in kib)
    eager_text = "-" if eager is None else f"{eager * 1e6:.0f}"
    print(f"| {name} | {eager_text} | {' | '.join(cells)} | {mib} |", flush=True)
    return ratios


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="*", default=TEN)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--child", nargs=3)
    arguments = parser.parse_args()
    if arguments.child:
        import torch

        torch.set_num_threads(1)
        sys.path.insert(0, os.path.join(HERE, "..", "tests", "py"))
        global PROGRAMS
        from training_programs import PROGRAMS

        what, name, mode = arguments.child
        print(json.dumps({"pair": pair, "memory": memory, "first": first}[what](name, mode)))
        return
    if arguments.first:
        print(f"| program | eager, ms: thread, wall | {' | '.join(MODES[:-1])} |")
        print("|---" * (len(MODES) + 1) + "|")
        for name in arguments.programs:
            first_row(name)
        return
    modes = MODES[:-1] if arguments.no_compile else MODES
    print(f"| program | eager, µs | {' | '.join(modes)} | MiB: eager / {' / '.join(modes)} |")
    print("|---" * (len(modes) + 3) + "|")
    rows = [row(name, modes) for name in arguments.programs]
    means = [geometric_mean([r[mode] for r in rows if mode in r]) for mode in modes if any(mode in r for r in rows)]
    print(f"| geometric mean | | {' | '.join(f'{m:.2f}' for m in means)} | |")


if __name__ == "__main__":
    main()
