"""What run.py measures: functions, their arguments, and the bound of each.

CALLS: small arrays, where a call's overhead is everything; the bound is a part of NumPy's own time.
KERNELS: large arrays; the bound is how many times faster than NumPy.
"""

import logging
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
from black_scholes import black_scholes  # noqa: E402
from heat2d import heat_step  # noqa: E402
from layer_norm import layer_norm  # noqa: E402
from pairwise import pairwise_distances  # noqa: E402
from softmax import softmax  # noqa: E402


def normal(*shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def cosine_sine(x):
    return np.cos(x) + np.sin(x)


def twelve_operations(x):
    y = x * 2.0 + 1.0
    y = y * x - 0.5
    y = y * 0.25 + x
    y = y * y + 3.0
    y = y - x * 0.125
    return y * 0.5 + x


def add(x, y):
    return x + y


def horizontal_diffusion(u):
    lap = 4.0 * u[1:-1, 1:-1] - (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
    flux_x = lap[1:, 1:-1] - lap[:-1, 1:-1]
    flux_x = np.where(flux_x * (u[2:-1, 2:-2] - u[1:-2, 2:-2]) > 0.0, 0.0, flux_x)
    flux_y = lap[1:-1, 1:] - lap[1:-1, :-1]
    flux_y = np.where(flux_y * (u[2:-2, 2:-1] - u[2:-2, 1:-2]) > 0.0, 0.0, flux_y)
    return u[2:-2, 2:-2] - 0.1 * (flux_x[1:] - flux_x[:-1] + flux_y[:, 1:] - flux_y[:, :-1])


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def sum_of_squares(x):
    return (x * x).sum()


def transposed_add(x, y):
    return x + y.T


def options(n):
    rng = np.random.default_rng(3)
    return rng.uniform(50.0, 150.0, n), rng.uniform(60.0, 140.0, n), rng.uniform(0.1, 3.0, n), 0.03, rng.uniform(0.1, 0.6, n)


def f32(*shape, seed=0):
    return normal(*shape, seed=seed, dtype=np.float32)


def heat(u, steps):
    for _ in range(steps):
        v = u.copy()
        v[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
        u = v
    return u


LOG = logging.getLogger("bench")


def heat_with_a_log(u, steps):
    """A graph break in the middle of the loop's body."""
    for step in range(steps):
        v = u.copy()
        v[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
        LOG.debug("step %d", step)
        u = v * 0.999 + 0.001
    return u


def k_means(x, k, steps):
    centres = x[:k]
    for _ in range(steps):
        nearest = ((x[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
        member = (nearest[:, None] == np.arange(k)[None, :]).astype(x.dtype)
        centres = (member.T @ x) / np.maximum(member.sum(axis=0), 1)[:, None]
    return centres


def power_iteration(a, steps):
    v = np.ones(a.shape[0])
    for _ in range(steps):
        v = a @ v
        v = v / np.sqrt((v * v).sum())
    return v @ a @ v


CALLS = (
    ("cos + sin of 10 float64", cosine_sine, lambda: (normal(10),), 0.4),
    ("cos + sin of 10 float32", cosine_sine, lambda: (f32(10),), 0.4),
    ("twelve operations on 10 float64", twelve_operations, lambda: (normal(10),), 0.4),
    ("x + y of 10 float64", add, lambda: (normal(10), normal(10, seed=1)), 1.0),
)
KERNELS = (
    ("cos + sin, 1e6 float32", cosine_sine, lambda: (f32(1_000_000),), 4.0),
    ("twelve operations, 1e6 float64", twelve_operations, lambda: (normal(1_000_000),), 15.0),
    ("Black-Scholes, 1e6 float64", black_scholes, lambda: options(1_000_000), 6.0),
    ("softmax of rows, 1000 x 1000 float32", softmax, lambda: (f32(1000, 1000),), 8.0),
    ("layer norm, 1000 x 1000 float32", layer_norm, lambda: (f32(1000, 1000), f32(1000), f32(1000, seed=1)), 9.0),
    ("pairwise distances, 1000 x 800 float64", pairwise_distances, lambda: (normal(1000, 3), normal(800, 3)), 4.0),
    ("heat step, 1000 x 1000 float64", heat_step, lambda: (normal(1000, 1000), 0.2), 4.0),
    ("horizontal diffusion, 1000 x 1000 float64", horizontal_diffusion, lambda: (normal(1000, 1000),), 20.0),
    ("GELU, 1e6 float32", gelu, lambda: (f32(1_000_000),), 9.0),
    ("sum of squares, 1e6 float64", sum_of_squares, lambda: (normal(1_000_000),), 9.0),
    ("transposed add, 1000 x 1000 float32", transposed_add, lambda: (f32(1000, 1000), f32(1000, 1000, seed=1)), 4.0),
)
LOOPS = (
    ("heat equation, 1000 steps, 200 x 200", heat, lambda: (normal(200, 200), 1000), 1.3, 3.0),
    ("heat equation with a logger's call in each of 1000 steps", heat_with_a_log, lambda: (normal(200, 200), 1000), 1.3, 1.0),
    ("k-means, 40 steps, 40000 x 3, 8 centres", k_means, lambda: (normal(40_000, 3), 8, 40), 1.3, 3.0),
    ("power iteration, 1000 steps, 200 x 200", power_iteration, lambda: (normal(200, 200), 1000), 1.3, 3.0),
)
