"""The suite: what each kernel computes, as unmodified NumPy code, and how its arguments are made.

suite.py measures them under dynoc and under each peer. The functions return new arrays, so that compilers without stores can run
the same code; scalars that a function takes are arguments, as a program would hand them over. What a peer can't take as it is
written here has a form of its own in that peer's file (`peer_*.py`, FORMS, by the kernel's name).
"""

import math
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from work import add, black_scholes, cosine_sine, horizontal_diffusion, layer_norm, options  # noqa: E402
from work import pairwise_distances, softmax, transposed_add, twelve_operations  # noqa: E402

# work.py has the folder of the examples in the path
from nbody import step as n_body_step  # noqa: E402


class Kernel:
    """One row of the suite.

    make(n) gives the arguments of about n elements of work. memory: bound by memory, so its bytes for a second are held against
    a copy's. loose: part of the elements that may differ, where rounding decides a branch or a cell.
    """

    def __init__(self, name, fn, make, size=1_000_000, memory=False, loose=0.0):
        self.name = name
        self.fn = fn
        self.make = make
        self.size = size
        self.memory = memory
        self.loose = loose


# ---- arguments


def random(seed=0):
    return np.random.default_rng(seed)


def normal(*shape, seed=0, dtype=np.float64):
    return random(seed).standard_normal(shape).astype(dtype)


def uniform(low, high, *shape, seed=0, dtype=np.float64):
    return random(seed).uniform(low, high, shape).astype(dtype)


def side(n, least=1, dimensions=2):
    return max(least, round(n ** (1 / dimensions)))


def square(n, least=1, seed=0, dtype=np.float64):
    return normal(side(n, least), side(n, least), seed=seed, dtype=dtype)


def row_of(n, seed=0, dtype=np.float32):
    return normal(side(n), seed=seed, dtype=dtype)


def cube(n, least=1):
    return (normal(*[side(n, least, 3)] * 3),)


# ---- element by element


def polynomial(x):
    y = 0.125 * x - 0.25
    for c in (0.5, -0.75, 1.0, -1.25, 1.5, -1.75, 2.0):
        y = y * x + c
    return y


def clip_chain(x, low, high):
    y = np.clip(x * 1.5 + 0.25, low, high)
    y = np.clip(y * y - 0.5, low, high)
    return np.clip(y * 2.0 - x, low, high)


def great_circle(lat1, lon1, lat2, lon2, radius):
    """Vincenty's formula on a sphere."""
    d = lon2 - lon1
    a = np.cos(lat2) * np.sin(d)
    b = np.cos(lat1) * np.sin(lat2) - np.sin(lat1) * np.cos(lat2) * np.cos(d)
    c = np.sin(lat1) * np.sin(lat2) + np.cos(lat1) * np.cos(lat2) * np.cos(d)
    return radius * np.arctan2(np.sqrt(a * a + b * b), c)


def places(n):
    latitudes = [uniform(-1.5, 1.5, n, seed=s) for s in (0, 1)]
    longitudes = [uniform(-3.1, 3.1, n, seed=s) for s in (2, 3)]
    return latitudes[0], longitudes[0], latitudes[1], longitudes[1], 6371.0


def complex_rotation(z, angle):
    return z * (np.cos(angle) + 1j * np.sin(angle))


def int8_chain(x, y):
    z = x * y + x
    z = (z ^ y) - (x >> 2)
    return np.maximum(z & 63, y) + x


def int8(n, seed):
    return random(seed).integers(-128, 128, n, dtype=np.int8)


def float16_chain(x, y):
    z = x * y + x
    z = z * z - y
    return np.maximum(z, x) + y


def mask_logic(x, y, m):
    inside = (x > -0.5) & (x < 1.5)
    return (inside & m) | (~m & (y >= x)) ^ (y < 0.0)


def monte_carlo_pi(x, y):
    return 4.0 * (x * x + y * y <= 1.0).mean()


def mandelbrot_step(z, c, count):
    stays = z.real * z.real + z.imag * z.imag <= 4.0
    return np.where(stays, z * z + c, z), count + stays


def plane(n):
    height = side(n)
    c = (np.linspace(-2.0, 0.5, height) + 1j * np.linspace(-1.25, 1.25, height)[:, None]).astype(np.complex128)
    return c * c + c, c, np.zeros(c.shape, np.int64)


# ---- rows and columns


def softmax_columns(x):
    shifted = np.exp(x - x.max(axis=0, keepdims=True))
    return shifted / shifted.sum(axis=0, keepdims=True)


def log_softmax(x):
    shifted = x - x.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def log_softmax_columns(x):
    shifted = x - x.max(axis=0, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=0, keepdims=True))


def layer_norm_columns(x, weight, bias):
    mean = x.mean(axis=0, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(axis=0, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * weight[:, None] + bias[:, None]


def batch_norm(x, gamma, beta):
    return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5) * gamma + beta


def batch_norm_rows(x, gamma, beta):
    mean, variance = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gamma[:, None] + beta[:, None]


def variance_0(x):
    return x.var(axis=0)


def variance_1(x):
    return x.var(axis=1)


def variance_2(x):
    return x.var(axis=2)


def flat(n, seed=0):
    return (square(n, seed=seed, dtype=np.float32),)


def weighted(n):
    return square(n, dtype=np.float32), row_of(n, 1), row_of(n, 2)


# ---- neighbours


def stencil_5(u):
    return u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1])


def stencil_9(u):
    edges = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    corners = u[2:, 2:] + u[2:, :-2] + u[:-2, 2:] + u[:-2, :-2]
    return (4.0 * edges + corners - 20.0 * u[1:-1, 1:-1]) / 6.0


def stencil_3d(u):
    around = u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1]
    around = around + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2]
    return u[1:-1, 1:-1, 1:-1] + 0.05 * (around - 6.0 * u[1:-1, 1:-1, 1:-1])


def gradient_magnitude(image):
    gray = 0.299 * image[:, :, 0] + 0.587 * image[:, :, 1] + 0.114 * image[:, :, 2]
    gx = gray[1:-1, 2:] - gray[1:-1, :-2]
    gy = gray[2:, 1:-1] - gray[:-2, 1:-1]
    return np.sqrt(gx * gx + gy * gy)


def picture(n):
    return (uniform(0.0, 1.0, side(n, 4), side(n, 4), 3, dtype=np.float32),)


# ---- pairs, scans, indices


def outer_products(x, y, u, v):
    return np.outer(x, y) + np.outer(u, v)


def cumulative_sum(x):
    return np.cumsum(x)


def cumulative_sum_rows(x):
    return np.cumsum(x * 0.5 + 1.0, axis=1)


def cumulative_sum_columns(x):
    return np.cumsum(x * 0.5 + 1.0, axis=0)


def histogram(x):
    return np.histogram(x, bins=64, range=(0.0, 1.0))[0]


def gather(table, index, weight):
    return table[index] * weight + 1.0


def scatter(table, index, values):
    sums = np.zeros_like(table)
    np.add.at(sums, index, values)
    return sums + table


def looked_up(n):
    entries = max(2, n // 16)
    return normal(entries), random(1).integers(0, entries, n), normal(n, seed=2)


# ---- products of matrices


def batched_matmul(x, w, b):
    return np.maximum(x @ w + b, 0.0)


def batch(n):
    count = max(1, n // 256)
    return tuple(normal(*shape, seed=s, dtype=np.float32) for s, shape in enumerate([(count, 16, 16), (16, 16), (16,)]))


def mlp_forward(x, w1, b1, w2, b2, w3, b3):
    h = np.maximum(x @ w1 + b1, 0.0)
    h = np.maximum(h @ w2 + b2, 0.0)
    z = h @ w3 + b3
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layers(n):
    shapes = [(max(1, n // 256), 64), (64, 128), (128,), (128, 64), (64,), (64, 10), (10,)]
    return tuple(normal(*shape, seed=s, dtype=np.float32) * np.float32(0.2) for s, shape in enumerate(shapes))


def bodies(n):
    count = side(n, 2)
    return normal(count, 3), 0.3 * normal(count, 3, seed=1), uniform(0.5, 1.5, count, seed=2) / count, 0.01


def k_means_step(x, centres):
    nearest = ((x[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
    member = (nearest[:, None] == np.arange(centres.shape[0])[None, :]).astype(x.dtype)
    return (member.T @ x) / np.maximum(member.sum(axis=0), 1.0)[:, None]


KERNELS = (
    Kernel("cos + sin, float32", cosine_sine, lambda n: (normal(n, dtype=np.float32),)),
    Kernel("cos + sin, float64", cosine_sine, lambda n: (normal(n),)),
    Kernel("add", add, lambda n: (square(n), square(n, seed=1)), memory=True),
    Kernel("twelve operations", twelve_operations, lambda n: (normal(n),), memory=True),
    Kernel("polynomial", polynomial, lambda n: (normal(n),), memory=True),
    Kernel("Black-Scholes", black_scholes, options),
    Kernel("clip chain", clip_chain, lambda n: (normal(n, dtype=np.float32), -1.0, 1.0), memory=True),
    Kernel("softmax, rows", softmax, flat),
    Kernel("softmax, columns", softmax_columns, flat),
    Kernel("log-softmax, rows", log_softmax, flat),
    Kernel("log-softmax, columns", log_softmax_columns, flat),
    Kernel("layer norm, rows", layer_norm, weighted),
    Kernel("layer norm, columns", layer_norm_columns, weighted),
    Kernel("batch norm, rows", batch_norm_rows, weighted),
    Kernel("batch norm, columns", batch_norm, weighted),
    Kernel("variance, axis 0 of 3", variance_0, cube),
    Kernel("variance, axis 1 of 3", variance_1, cube),
    Kernel("variance, axis 2 of 3", variance_2, cube),
    Kernel("pairwise distance", pairwise_distances, lambda n: (normal(side(n), 3), normal(side(n), 3, seed=1))),
    Kernel("great-circle distance", great_circle, places),
    Kernel("5-point stencil", stencil_5, lambda n: (square(n, 3),), memory=True),
    Kernel("9-point stencil", stencil_9, lambda n: (square(n, 3),), memory=True),
    Kernel("3-D stencil", stencil_3d, lambda n: cube(n, 3), memory=True),
    Kernel("horizontal diffusion", horizontal_diffusion, lambda n: (square(n, 6),)),
    Kernel("RGB to gradient magnitude", gradient_magnitude, picture),
    Kernel("complex rotation", complex_rotation, lambda n: (normal(n) + 1j * normal(n, seed=1), uniform(-3, 3, n, seed=2))),
    Kernel("int8 chain", int8_chain, lambda n: (int8(n, 0), int8(n, 1)), memory=True),
    Kernel("float16 chain", float16_chain, lambda n: (normal(n, dtype=np.float16), normal(n, seed=1, dtype=np.float16))),
    Kernel("bool mask logic", mask_logic, lambda n: (normal(n), normal(n, seed=1), normal(n, seed=2) > 0), memory=True),
    Kernel("transposed add", transposed_add, lambda n: (*flat(n), *flat(n, 1)), memory=True),
    Kernel("outer products", outer_products, lambda n: tuple(row_of(n, seed, np.float64) for seed in range(4)), memory=True),
    Kernel("cumulative sum", cumulative_sum, lambda n: (normal(n),), memory=True),
    Kernel("cumulative sum, rows", cumulative_sum_rows, lambda n: (square(n),), memory=True),
    Kernel("cumulative sum, columns", cumulative_sum_columns, lambda n: (square(n),), memory=True),
    Kernel("histogram", histogram, lambda n: (uniform(0, 1, n),)),
    Kernel("gather", gather, looked_up),
    Kernel("scatter", scatter, looked_up),
    Kernel("batched matmul, bias, relu", batched_matmul, batch),
    Kernel("Monte Carlo pi", monte_carlo_pi, lambda n: (uniform(0, 1, n), uniform(0, 1, n, seed=1)), memory=True),
    Kernel("n-body step", n_body_step, bodies, size=250_000),
    Kernel("k-means step", k_means_step, lambda n: (normal(max(8, n // 8), 3), normal(8, 3, seed=1))),
    Kernel("Mandelbrot step", mandelbrot_step, plane, loose=1e-4),
    Kernel("MLP forward", mlp_forward, layers),
)


def named(name):
    (kernel,) = (k for k in KERNELS if k.name == name)
    return kernel


# ---- results


def arrays_of(value):
    """The arrays of a result or of arguments, numbers of a result as arrays."""
    if isinstance(value, (tuple, list)):
        return [a for item in value for a in arrays_of(item)]
    return [np.asarray(value)]


def tolerance(dtype):
    """Relative to the largest value. Half of the digits have to be there: peers add in other orders, and with fast math."""
    if dtype.kind not in "fc":
        return 0.0
    return math.sqrt(np.finfo(dtype).eps) * 0.5 if dtype.itemsize > 2 else 0.02


def wrong(kernel, expected, result):
    """What is wrong with a result, or None. Both are what the function returned, in NumPy's arrays."""
    expected, result = arrays_of(expected), arrays_of(result)
    if len(expected) != len(result):
        return f"{len(result)} arrays, not {len(expected)}"
    for right, found in zip(expected, result):
        if found.shape != right.shape or found.dtype.kind != right.dtype.kind:
            return f"{found.dtype}{found.shape}, not {right.dtype}{right.shape}"
        if found.dtype.itemsize < right.dtype.itemsize and right.dtype.kind in "fc":
            return f"{found.dtype}, not {right.dtype}"
        if right.size == 0:
            continue
        scale = max(1.0, float(np.abs(right).max())) if right.dtype.kind in "fc" else 1.0
        differ = ~(np.abs(right.astype(complex) - found.astype(complex)) <= tolerance(right.dtype) * scale)
        if differ.mean() > kernel.loose:
            return f"{differ.mean():.2%} of the elements differ"
    return None
