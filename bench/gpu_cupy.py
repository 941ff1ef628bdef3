"""Arrays of CuPy's on a CUDA device: every ufunc and random programs compared with CuPy's own results, and times beside CuPy's.

    python bench/gpu_cupy.py [random] [ufuncs] [time] [--count N]

Needs CuPy and a device. Says what differs, and how much was run; the exit status is 1 where something differs.
"""

import argparse
import random
import sys
import time
import warnings

import cupy as cp
import numpy as np
from random_steps import program

import dynoc

DTYPES = "?bBilefd"
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, 1e-3, 1e3, -7.25, float("inf"), float("-inf"), float("nan"), 1e-30, 65504.0]
INTEGERS = [0, 1, 2, 3, -1, -2, -7, 5, 100, 127, -128, 7]

ELEMENTWISE = [
    lambda x, y: cp.sin(x) * y,
    lambda x, y: cp.where(x > 0, x, y * 0.1),
    lambda x, y: cp.exp(-(x * x)) - cp.tanh(y),
    lambda x, y: cp.sqrt(abs(x - y)) + 1 / (1 + cp.exp(-y)),
    lambda x, y: cp.minimum(x, y) * 2 - cp.maximum(x, y) / 3,
    lambda x, y: x.clip(-1, 1) + cp.arctan2(y, x),
    lambda x, y: x.astype(cp.float32) * y + np.float32(0.5),
    lambda x, y: (x > y) * x - (x <= y) * y,
]
REDUCING = [
    lambda x, y: x - x.mean(-1, keepdims=True) + y,
    lambda x, y: x.sum(0, keepdims=True) * 0.1 + y,
    lambda x, y: cp.exp(x - x.max(-1, keepdims=True)) * y,
    lambda x, y: x / (1 + (x * x).sum()) + y,
    lambda x, y: x.var(axis=0, keepdims=True) + cp.std(y, axis=1, keepdims=True),
    lambda x, y: x * (x > 0).any(axis=1, keepdims=True) + y.argmax(1)[:, None],
]
MOVING = [
    lambda x, y: (x - y).T.copy(),
    lambda x, y: cp.concatenate([x[:5], y[5:]]),
    lambda x, y: x[::-1] + y,
    lambda x, y: cp.roll(x, 3, 1) * y,
    lambda x, y: x[:, ::-1] + y,
    lambda x, y: cp.tril(x) + cp.triu(y, 1),
    lambda x, y: x.reshape(-1)[: y.size].reshape(y.shape) + y,
]
CALLS = [
    lambda x, y: (x @ y) / x.shape[0],
    lambda x, y: cp.cumsum(x, 0) / 10 + y,
    lambda x, y: cp.sort(x, -1) + y,
    lambda x, y: cp.dot(x, y) / x.shape[0],
]


def stores(x, y):
    z = x.copy()
    z[1:4] = y[0]
    z[:, 2] += 1
    z[z > 2] = 2
    return z


KINDS = [ELEMENTWISE, ELEMENTWISE, REDUCING, MOVING, CALLS, [stores]]


def differs(got, want, tolerance):
    if type(got) is not type(want) or (got.shape, got.dtype, got.strides) != (want.shape, want.dtype, want.strides):
        return f"{got.shape} {got.dtype} {got.strides}, not {want.shape} {want.dtype} {want.strides}"
    off = ~cp.isclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    if float(off.mean() if off.size else 0) > 1e-3:
        at = int(cp.argmax(off.ravel()))
        return f"{int(off.sum())} of {off.size} elements, as {got.ravel()[at]} for {want.ravel()[at]}"
    return None


def values(dtype):
    if dtype == "?":
        return np.array([True, False, True])
    if dtype in "efd":
        return np.array(FLOATS, dtype)
    return np.array([v for v in INTEGERS if v >= 0] if dtype.isupper() else INTEGERS).astype(dtype)


def works(f, args):
    try:
        f(*args)
    except (TypeError, ValueError, ZeroDivisionError):
        return False
    return True


def check_some(functions, args, tolerance):
    """What differs of these functions of the arguments, captured together."""
    fast = dynoc.optimize(lambda *given: [f(*given) for f in functions], wait=True)
    for _ in range(2):
        got = fast(*args)
    for f, g, w in zip(functions, got, [f(*args) for f in functions], strict=True):
        several = isinstance(w, tuple)
        for each, wanted in zip(g if several else [g], w if several else [w], strict=True):
            why = differs(each, wanted, tolerance)
            if why:
                yield f"{f.name}: {why}"


def check_ufuncs():
    """All ufuncs, of each dtype alone, with a number and with the same dtype, on special values."""
    wrong = ran = 0
    ufuncs = [f for f in (getattr(cp, name) for name in sorted(dir(cp))) if isinstance(f, cp.ufunc)]
    for a in DTYPES:
        x = cp.array(np.repeat(values(a), 15))
        for args in ((x,), (x, 3), (x, cp.array(np.resize(values(a), x.size)))):
            functions = [f for f in ufuncs if f.nin == len(args) and works(f, args)]
            for i in range(0, len(functions), 8):
                for why in check_some(functions[i : i + 8], args, 2e-3 if a == "e" else 3e-6):
                    wrong += 1
                    print(f"{a}, {len(args)} operands, {type(args[-1]).__name__}: {why}", flush=True)
            ran += len(functions)
    print(f"ufuncs: {ran} cases, {wrong} differ")
    return wrong


def check_random(count, first=0):
    wrong = 0
    for seed in range(first, first + count):
        f, n = program(seed, KINDS), random.Random(seed).choice([17, 64, 129])
        dtype, tolerance = (("f4", 2e-3), ("f8", 1e-9))[seed % 2]
        x, y = (cp.array(np.random.default_rng(seed + i).standard_normal((n, n)).astype(dtype)) for i in range(2))
        want, fast = f(x, y), dynoc.optimize(f, wait=True)
        for call in range(3):
            for g, w in zip(fast(x, y), want, strict=True):
                why = differs(g, w, tolerance)
                if why:
                    wrong += 1
                    print(f"seed {seed}, call {call}: {why}", flush=True)
    print(f"random programs: {count}, {wrong} results differ")
    return wrong


def softmax(x):
    e = cp.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def saxpy_chain(x, y):
    return cp.sqrt(cp.abs(2.5 * x + y)) * cp.exp(-y * y) + cp.sin(x)


def black_scholes(s, k, t):
    d1 = (cp.log(s / k) + (0.03 + 0.045) * t) / (0.3 * cp.sqrt(t))
    d2 = d1 - 0.3 * cp.sqrt(t)
    return s / (1 + cp.exp(-1.7 * d1)) - k * cp.exp(-0.03 * t) / (1 + cp.exp(-1.7 * d2))


def measure(f, *args, seconds=0.3):
    """The median of microseconds of a call, the device's work included."""
    f(*args)
    cp.cuda.Device().synchronize()
    n, taken = 10, []
    while sum(taken) < seconds:
        start = time.perf_counter()
        for _ in range(n):
            f(*args)
        cp.cuda.Device().synchronize()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[len(taken) // 2] / n * 1e6


def show_times():
    rows = [("tiny chain, 16", saxpy_chain, 16, 2), ("chain, 1000 x 1000", saxpy_chain, (1000, 1000), 2)]
    rows += [("chain, 1e8", saxpy_chain, 100_000_000, 2), ("softmax, 8192 x 8192", softmax, (8192, 8192), 1)]
    rows += [("sum of squares, 1e8", lambda x: (x * x).sum(), 100_000_000, 1)]
    rows += [("Black-Scholes, 1e7", black_scholes, 10_000_000, 3)]
    print("| work | CuPy | dynoc | cupy.fuse |\n|---|---:|---:|---:|")
    for name, f, shape, n in rows:
        args = [cp.random.random(shape, dtype="f4") + 0.5 for _ in range(n)]
        fast, fused = dynoc.optimize(f, wait=True), None
        try:
            fused = measure(cp.fuse(f), *args)
        except Exception as error:  # what fuse can't take, it says in several ways
            fused = f"{type(error).__name__}"
        for _ in range(3):
            fast(*args)
        mine, theirs = measure(fast, *args), measure(f, *args)
        print(f"| {name} | {theirs:.1f} | {mine:.1f} | {fused if isinstance(fused, str) else f'{fused:.1f}'} |", flush=True)


ALL = ["random", "ufuncs", "time"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="*", choices=ALL, help="all if none is given")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    what = options.what or ALL
    warnings.simplefilter("ignore")
    wrong = check_random(options.count, options.first) if "random" in what else 0
    wrong += check_ufuncs() if "ufuncs" in what else 0
    if "time" in what:
        show_times()
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
