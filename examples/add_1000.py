"""Sum of two 1000 x 1000 arrays: one operation, nothing to fuse. What dynoc has to add nothing to."""

import numpy as np

EXACT = True  # arithmetic rounds as NumPy's does


def add(x, y):
    return x + y


def make_inputs(small=False):
    rng = np.random.default_rng(2)
    n = 13 if small else 1000
    return rng.standard_normal((n, n)).astype(np.float32), rng.standard_normal((n, n)).astype(np.float32)


FUNCTION = add


def main():
    x, y = make_inputs()
    result = add(x, y)
    print(f"x + y of {x.shape[0]} x {x.shape[1]} elements: mean {result.mean():.6f}, largest {result.max():.6f}")


if __name__ == "__main__":
    main()
