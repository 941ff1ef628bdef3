"""The demo: every example as plain NumPy and under dynoc, with both times, the speed-up, and whether the results are the same.

python examples/run_all.py            exit status 1 if a result differs
python examples/run_all.py --small    tiny inputs: a quick check, the times mean nothing
"""

import argparse
import importlib
import os
import statistics
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = (
    "cosine_sine",
    "add_1000",
    "black_scholes",
    "heat2d",
    "pairwise",
    "softmax",
    "layer_norm",
    "image_filter",
    "nbody",
)


def arrays_of(value):
    """The arrays in a result or in arguments, in order."""
    if isinstance(value, (tuple, list)):
        return [a for item in value for a in arrays_of(item)]
    return [value] if isinstance(value, np.ndarray) else []


def compare(plain, fast, exact):
    """What to print about two results, and whether they agree as far as was promised."""
    worst = 0.0
    bits = True
    for a, b in zip(arrays_of(plain), arrays_of(fast), strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"DIFFERENT: {a.dtype}{a.shape} and {b.dtype}{b.shape}", False
        if a.tobytes() == b.tobytes():
            continue
        bits = False
        tolerance = 256 * np.finfo(a.dtype).eps
        if not np.allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(a).max()))):
            return f"DIFFERENT by up to {np.abs(a - b).max():.3g}", False
        worst = max(worst, float(np.abs(a - b).max() / np.abs(a).max()))
    if bits:
        return "yes, every bit", True
    return (f"no, off by {worst:.1e}" if exact else f"yes, within {worst:.1e}"), not exact


def seconds_of(function, args):
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start


def medians(plain, fast, plain_args, fast_args, budget):
    """Median seconds of one call each, taken in turns so that both see the same machine."""
    plain_times, fast_times = [], []
    stop = time.perf_counter() + budget
    while len(plain_times) < 5 or (time.perf_counter() < stop and len(plain_times) < 2000):
        plain_times.append(seconds_of(plain, plain_args))
        fast_times.append(seconds_of(fast, fast_args))
    return statistics.median(plain_times), statistics.median(fast_times)


def measure(name, optimize, small=False, budget=1.0):
    """Run one example: (plain seconds, dynoc seconds, text about the result, agreed)."""
    if HERE not in sys.path:
        sys.path.insert(0, HERE)
    module = importlib.import_module(name)
    function = module.FUNCTION
    fast = optimize(function, wait=True)
    agreed, text = True, ""
    for _ in range(3):  # the call that records, and calls that run compiled code
        plain_args, fast_args = module.make_inputs(small), module.make_inputs(small)
        plain_result, fast_result = function(*plain_args), fast(*fast_args)
        text, same = compare((plain_result, plain_args), (fast_result, fast_args), module.EXACT)
        agreed = agreed and same
        if not agreed:
            break
    plain_seconds, fast_seconds = medians(function, fast, module.make_inputs(small), module.make_inputs(small), budget)
    return plain_seconds, fast_seconds, text, agreed


def in_words(seconds):
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.2f} us"


def main(argv=None):
    parser = argparse.ArgumentParser(description="Run every example as plain NumPy and under dynoc.")
    parser.add_argument("--small", action="store_true", help="tiny inputs: a quick check, the times mean nothing")
    options = parser.parse_args(argv)
    import dynoc

    print(f"{'example':<15}{'NumPy':>12}{'dynoc':>12}{'speed-up':>10}   same result")
    agreed = True
    for name in EXAMPLES:
        budget = 0.02 if options.small else 1.0
        plain, fast, text, same = measure(name, dynoc.optimize, options.small, budget)
        agreed = agreed and same
        print(f"{name:<15}{in_words(plain):>12}{in_words(fast):>12}{plain / fast:>9.2f}x   {text}", flush=True)
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
