"""Random programs that compute the same values again and again, and write into some of them between, as source text.

    python tests/fuzz/twin_programs.py --seed N --count 500     by the built-in tier; prints the programs that differ from eager
"""

import argparse
import random

import numpy as np

VALUES = ("x + 1", "x + 1", "x * x", "x.copy()", "x.copy()", "np.exp(x * 0.1)", "x[::-1] + 1", "np.zeros_like(x)")
OF_OTHERS = ("{a} + 1", "{a} * 2")
WRITES = ("{a} += 1", "{a}[1:] *= 2", "{a}[:] = {b}", "{a}[::2] = 3", "{a} -= {b} * 0.5", "{a}[0] = {b}.mean()")
WRITES += ("v = {a}[1:]\n    v += 1",)
FOUND = ("{a}.mean()", "{a}.std()", "({a} * 2).sum()", "({a} * {a}).sum() + 1", "{a}.max() * 2")
FOUND += ("np.exp({a} - {a}.max()).sum()", "({a} - {b}).var()", "{a}[1:].sum() + 1", "np.cumsum({a})[-1] + 1")
NAMES = "abc"


def source(seed):
    """A function f(x), with every kind of line about as often as any other."""
    rng = random.Random(seed)
    lines = [f"{name} = {rng.choice(VALUES)}" for name in NAMES]
    for _ in range(rng.randrange(4, 14)):
        text = rng.choice((rng.choice(WRITES), f"found.append({rng.choice(FOUND)})", f"{{b}} = {rng.choice(VALUES + OF_OTHERS)}"))
        a, b = rng.sample(NAMES, 2)
        lines.append(text.format(a=a, b=b))
    lines.append(f"return found, {rng.choice(NAMES)}, {rng.choice(NAMES)} * 2")
    return "def f(x):\n    found = []\n    " + "\n    ".join(lines) + "\n"


def function(seed):
    namespace = {"np": np}
    exec(source(seed), namespace)
    return namespace["f"]


def differs(seed, optimize, sizes=(7, 40, 7, 300)):
    """What is different from eager, or None."""
    fn = function(seed)
    fast = optimize(fn)
    for size in sizes:
        x = np.linspace(0.5, 1.5, size)
        right, got = fn(x.copy()), fast(x.copy())
        for expected, value in zip([*right[0], *right[1:]], [*got[0], *got[1:]]):
            if not np.allclose(value, expected, rtol=1e-9, equal_nan=True):
                return f"{size} elements: {expected!r}, not {value!r}"
    return None


def main():
    import dynoc

    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    options = parser.parse_args()
    dynoc.config.compiler = "/nonexistent/cc"
    np.seterr(all="ignore")
    bad = 0
    for seed in range(options.seed, options.seed + options.count):
        what = differs(seed, dynoc.optimize)
        if what is not None:
            bad += 1
            print(f"seed {seed}: {what}\n{source(seed)}", flush=True)
    print(f"{options.count} programs, {bad} differ")


if __name__ == "__main__":
    main()
