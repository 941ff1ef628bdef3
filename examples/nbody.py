"""A whole program that knows nothing of dynoc: bodies under gravity, leapfrog steps, energy printed at the end.

python examples/nbody.py                 plain
python -m dynoc examples/nbody.py        the same program, its array code compiled
"""

import sys
import time

import numpy as np

EXACT = False  # the sum over bodies may be added in another order
SOFTENING = 0.05


def accelerations(position, mass):
    offset = position[None, :, :] - position[:, None, :]
    distance2 = (offset * offset).sum(axis=2) + SOFTENING * SOFTENING
    strength = mass / (distance2 * np.sqrt(distance2))
    return (offset * strength[:, :, None]).sum(axis=1)


def step(position, velocity, mass, dt):
    half = velocity + 0.5 * dt * accelerations(position, mass)
    moved = position + dt * half
    return moved, half + 0.5 * dt * accelerations(moved, mass)


def energy(position, velocity, mass):
    kinetic = 0.5 * (mass * (velocity * velocity).sum(axis=1)).sum()
    offset = position[None, :, :] - position[:, None, :]
    distance = np.sqrt((offset * offset).sum(axis=2) + SOFTENING * SOFTENING)
    pairs = mass[:, None] * mass[None, :] / distance
    return kinetic - 0.5 * (pairs.sum() - (mass * mass).sum() / SOFTENING)


def make_inputs(small=False):
    rng = np.random.default_rng(8)
    n = 7 if small else 300
    position = rng.standard_normal((n, 3))
    velocity = 0.3 * rng.standard_normal((n, 3))
    return position, velocity, rng.uniform(0.5, 1.5, n) / n, 0.01


FUNCTION = step


def main(steps=50):
    position, velocity, mass, dt = make_inputs()
    before = energy(position, velocity, mass)
    start = time.perf_counter()
    for _ in range(steps):
        position, velocity = step(position, velocity, mass, dt)
    seconds = time.perf_counter() - start
    after = energy(position, velocity, mass)
    print(f"{mass.size} bodies, {steps} steps: energy {before:.8f} before, {after:.8f} after")
    print(f"{seconds:.3f} s", file=sys.stderr)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
