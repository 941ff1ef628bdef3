"""Softmax of the rows of a 1000 x 1000 array."""

import numpy as np

EXACT = False  # exp is within 4 ULP, and the row sums may be added in another order


def softmax(x):
    shifted = np.exp(x - x.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def make_inputs(small=False):
    rng = np.random.default_rng(5)
    n = 12 if small else 1000
    return (rng.standard_normal((n, n)).astype(np.float32),)


FUNCTION = softmax


def main():
    (x,) = make_inputs()
    result = softmax(x)
    print(f"softmax of {x.shape[0]} rows: rows add up to {result.sum(axis=1).mean():.6f}, largest {result.max():.6f}")


if __name__ == "__main__":
    main()
