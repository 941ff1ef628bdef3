"""Distances between all pairs of two sets of points by broadcasting: NumPy builds three large temporaries, dynoc none."""

import numpy as np

EXACT = False  # the sum over coordinates may be added in another order


def pairwise_distances(a, b):
    difference = a[:, None, :] - b[None, :, :]
    return np.sqrt((difference * difference).sum(axis=2))


def make_inputs(small=False):
    rng = np.random.default_rng(4)
    n, m = (9, 6) if small else (1000, 800)
    return rng.standard_normal((n, 3)), rng.standard_normal((m, 3))


FUNCTION = pairwise_distances


def main():
    a, b = make_inputs()
    distances = pairwise_distances(a, b)
    print(f"{a.shape[0]} x {b.shape[0]} distances: mean {distances.mean():.6f}, nearest {distances.min():.6f}")


if __name__ == "__main__":
    main()
