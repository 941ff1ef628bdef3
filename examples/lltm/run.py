"""The LLTM cell as it is, by dynoc, and as a C++ extension: forward and backward side by side, and whether they agree.

python examples/lltm/run.py              needs PyTorch; the extension needs a C++ compiler, and ninja for the JIT build
python examples/lltm/run.py --no-build   without the extension, which takes a minute or two to build for the first time
python examples/lltm/run.py --code       dynoc's guards, graph and generated code too
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import dynoc  # noqa: E402
from cell import LLTM, in_cpp  # noqa: E402

BATCH, INPUTS, STATES = 16, 32, 128


def build_folder():
    """Where builds are kept, for this PyTorch and this Python."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "dynoc-examples", f"lltm-{torch.__version__}-{sys.implementation.cache_tag}")


def by_setuptools():
    """The extension module as setup.py builds it."""
    folder = os.path.join(build_folder(), "setuptools")
    found = [name for name in os.listdir(folder) if name.endswith(".so")] if os.path.isdir(folder) else []
    if not found:
        with tempfile.TemporaryDirectory() as scratch:
            command = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", folder, "--build-temp", scratch]
            subprocess.run(command, cwd=HERE, check=True, capture_output=True)
        found = [name for name in os.listdir(folder) if name.endswith(".so")]
    spec = importlib.util.spec_from_file_location("lltm_cpp", os.path.join(folder, found[0]))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_jit():
    """The same as PyTorch builds it when it is loaded."""
    from torch.utils import cpp_extension

    if shutil.which("ninja") is None:
        raise RuntimeError("ninja is not installed")
    folder = os.path.join(build_folder(), "jit")
    os.makedirs(folder, exist_ok=True)
    source = os.path.join(HERE, "lltm.cpp")
    return cpp_extension.load("lltm_jit", [source], extra_cflags=["-O3"], build_directory=folder)


def extensions():
    """Name and module of each build that works here."""
    for name, build in (("C++, by setuptools", by_setuptools), ("C++, by JIT load", by_jit)):
        try:
            yield name, build()
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            print(f"{name}: not built: {str(error).splitlines()[0]}")


def outcome(cell, x, state):
    """Results, and gradients of everything."""
    leaves = [x, *state, *cell.parameters()]
    h, c = cell(x, state)
    return [h, c, *torch.autograd.grad((h * 2 + c).sum(), leaves)]


def tenth(times):
    return sorted(times)[len(times) // 10] * 1e6


def timed(cells, x, state, seconds):
    """Microseconds of forward and of backward for each cell, taken in turns."""
    times = {name: ([], []) for name in cells}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, cell in cells.items():
            began = time.perf_counter()
            h, c = cell(x, state)
            middle = time.perf_counter()
            loss = h.sum() + c.sum()
            before = time.perf_counter()
            loss.backward()
            times[name][0].append(middle - began)
            times[name][1].append(time.perf_counter() - before)
    return {name: (tenth(forward), tenth(backward)) for name, (forward, backward) in times.items()}


def main(argv=None):
    parser = argparse.ArgumentParser(description="The LLTM cell, forward and backward.")
    parser.add_argument("--no-build", action="store_true", help="without the C++ extension")
    parser.add_argument("--code", action="store_true", help="what dynoc makes of it")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long to measure")
    options = parser.parse_args(argv)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    eager = LLTM(INPUTS, STATES)
    cells = {"PyTorch": eager, "dynoc": dynoc.optimize(eager, wait=True, fullgraph=True)}
    for name, extension in () if options.no_build else extensions():
        cells[name] = LLTM(INPUTS, STATES, in_cpp(extension))
        cells[name].load_state_dict(eager.state_dict())
    x = torch.randn(BATCH, INPUTS, requires_grad=True)
    state = tuple(torch.randn(BATCH, STATES, requires_grad=True) for _ in range(2))
    wanted = outcome(eager, x, state)
    for cell in cells.values():
        for _ in range(3):  # the call that records, and calls that run compiled code
            for got, want in zip(outcome(cell, x, state), wanted, strict=True):
                torch.testing.assert_close(got, want)
    times = timed(cells, x, state, options.seconds)
    print(f"LLTM, {BATCH} x {INPUTS} x {STATES}, one thread: forward with gradients recorded, and backward; all agree")
    forward, backward = times["PyTorch"]
    for name, (f, b) in times.items():
        print(f"{name:<20}{f:8.0f} us {f / forward:5.2f} {b:8.0f} us {b / backward:5.2f}")
    if options.code:
        module = cells["dynoc"]
        print(dynoc.explain(module)(x, state))
    return 0


if __name__ == "__main__":
    sys.exit(main())
