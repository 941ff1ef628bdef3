"""What a user waits for under dynoc, torch.compile, Numba and JAX: the numbers of docs/comparison.md.

    python bench/beside.py [--python PATH] [--torch-python PATH]

PATH are interpreters that have Numba and JAX, and PyTorch; a tool that isn't there has no column. Each tool runs in a process of
its own with an empty cache, three times; the least of each figure is printed, as a table in Markdown. The function is a chain of
eight operations and a sum. Calls are timed to the end of their result.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

FIGURES = {
    "import": "importing the tool, behind NumPy (torch: PyTorch itself)",
    "first": "first call, until its result is there",
    "ready": "until calls run compiled code",
    "size": "first call with another size",
    "dtype": "first call with float32",
    "number": "first call with another Python float",
    "small": "a call on 8 elements",
    "large": "a call on 1e6 elements",
}


def wave(np, x, y, k):
    r = np.sqrt(x * x + y * y)
    return (np.exp(-r) * k + np.cos(x) * np.sin(y)).sum()


def maker(tool):
    """(function of NumPy arrays and a number, what waits for compiled code, how arrays are made)."""
    import numpy as np

    def as_they_are(x):
        return x

    if tool == "NumPy":
        return lambda x, y, k: wave(np, x, y, k), lambda: None, as_they_are
    if tool == "dynoc":
        import dynoc

        return dynoc.optimize(lambda x, y, k: wave(np, x, y, k)), dynoc.wait, as_they_are
    if tool == "Numba":
        import numba

        scope = {"np": np}
        exec("def wave(x, y, k):\n    r = np.sqrt(x * x + y * y)\n"
             "    return (np.exp(-r) * k + np.cos(x) * np.sin(y)).sum()", scope)  # fmt: skip
        return numba.njit(parallel=True)(scope["wave"]), lambda: None, as_they_are
    if tool == "JAX":
        import jax

        jax.config.update("jax_enable_x64", True)
        fast = jax.jit(lambda x, y, k: wave(jax.numpy, x, y, k))
        return lambda x, y, k: fast(x, y, k).block_until_ready(), lambda: None, jax.numpy.asarray
    import torch

    return torch.compile(lambda x, y, k: wave(torch, x, y, k)), lambda: None, torch.from_numpy


def once(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def often(call, seconds=0.5):
    """The median of calls for half a second."""
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        times.append(once(call))
    return sorted(times)[len(times) // 2]


def measure(tool):
    import numpy as np

    def made(n, dtype=np.float64):
        rng = np.random.default_rng(0)
        return [array(rng.random(n).astype(dtype)) for _ in range(2)]

    start = time.perf_counter()
    call, wait, array = maker(tool)
    found = {"import": time.perf_counter() - start}
    large, other, small, single = made(10**6), made(999_000), made(8), made(10**6, np.float32)
    start = time.perf_counter()
    call(*large, 1.5)
    found["first"] = time.perf_counter() - start
    wait()
    found["ready"] = time.perf_counter() - start
    found["size"] = once(lambda: call(*other, 1.5))
    found["number"] = once(lambda: call(*large, 2.25))
    found["dtype"] = once(lambda: call(*single, 1.5))
    call(*small, 1.5)
    wait()
    found["large"] = often(lambda: call(*large, 1.5))
    for _ in range(3):
        call(*small, 1.5)
    found["small"] = often(lambda: call(*small, 1.5))
    return found


def in_process(python, tool):
    """The figures of a tool, or None where it isn't installed."""
    best = None
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            caches = {"DYNOC_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": folder, "NUMBA_CACHE_DIR": folder}
            caches["JAX_PLATFORMS"] = "cpu"
            command = [python, os.path.abspath(__file__), "--measure", tool]
            done = subprocess.run(command, env={**os.environ, **caches}, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{tool}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return None
        found = json.loads(done.stdout.splitlines()[-1])
        best = found if best is None else {name: min(best[name], value) for name, value in found.items()}
    return best


def readable(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--measure")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    pythons = {"NumPy": sys.executable, "dynoc": sys.executable, "torch.compile": options.torch_python}
    tools = {tool: in_process(pythons.get(tool, options.python), tool) for tool in (*pythons, "Numba", "JAX")}
    tools = {tool: found for tool, found in tools.items() if found}
    print("| | " + " | ".join(tools) + " |\n|---|" + "---|" * len(tools))
    for name, what in FIGURES.items():
        print(f"| {what} | " + " | ".join(readable(found[name]) for found in tools.values()) + " |")


if __name__ == "__main__":
    main()
