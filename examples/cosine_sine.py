"""Cosine plus sine of 10,000 elements: two passes over memory and a temporary in NumPy, one fused loop under dynoc."""

import numpy as np

EXACT = False  # cos and sin are within 4 ULP, not bit for bit NumPy's


def cosine_sine(x, y):
    a = np.cos(x)
    b = np.sin(y)
    return a + b


def make_inputs(small=False):
    rng = np.random.default_rng(1)
    n = 37 if small else 10_000
    return rng.standard_normal(n), rng.standard_normal(n)


FUNCTION = cosine_sine


def main():
    x, y = make_inputs()
    result = cosine_sine(x, y)
    print(f"cos(x) + sin(y) of {x.size} elements: mean {result.mean():.6f}, largest {result.max():.6f}")


if __name__ == "__main__":
    main()
