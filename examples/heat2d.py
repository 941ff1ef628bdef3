"""One explicit step of the heat equation on a plate, in place: the five-point stencil as overlapping slices."""

import numpy as np

EXACT = True  # arithmetic rounds as NumPy's does


def heat_step(u, k):
    centre = u[1:-1, 1:-1]
    centre += k * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * centre)
    return u


def make_inputs(small=False):
    n = 11 if small else 1000
    u = np.full((n, n), 20.0)
    u[n // 4 : n // 2, n // 4 : n // 2] = 100.0
    u[0, :] = 50.0
    return u, 0.2


FUNCTION = heat_step


def main():
    u, k = make_inputs()
    for _ in range(20):
        heat_step(u, k)
    print(f"{u.shape[0]} x {u.shape[1]} plate after 20 steps: mean {u.mean():.4f}, hottest {u.max():.4f}")


if __name__ == "__main__":
    main()
