"""Numba: the same function, parallel and with fast math; loops by hand where Numba has no such array function (an axis of mean,
var or max, products of stacks, add.at), or would compute in a wider type.
"""

import math

import numba
import numpy as np
from forms import Form, rebuilt
from numba import prange

VERSION = numba.__version__


def start(threads):
    numba.set_num_threads(threads)


def compiled(fn):
    return numba.njit(parallel=True, fastmath=True)(fn)


def softmax(x):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        row, to = x[i], out[i]
        largest = row.max()
        total = x.dtype.type(0)
        for j in range(row.size):
            to[j] = math.exp(row[j] - largest)
            total += to[j]
        for j in range(row.size):
            to[j] /= total
    return out


def log_softmax(x):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        row, to = x[i], out[i]
        largest = row.max()
        total = x.dtype.type(0)
        for j in range(row.size):
            total += math.exp(row[j] - largest)
        lower = largest + math.log(total)
        for j in range(row.size):
            to[j] = row[j] - lower
    return out


def largest_of_columns(x):
    largest = x[0].copy()
    for i in range(1, x.shape[0]):
        largest = np.maximum(largest, x[i])
    return largest


def softmax_columns(x):
    largest = numba_largest_of_columns(x)
    total = np.zeros_like(largest)
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        out[i] = np.exp(x[i] - largest)
    for i in range(x.shape[0]):
        total += out[i]
    for i in prange(x.shape[0]):
        out[i] /= total
    return out


def log_softmax_columns(x):
    largest = numba_largest_of_columns(x)
    total = np.zeros_like(largest)
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        total += np.exp(x[i] - largest)
    lower = largest + np.log(total)
    for i in prange(x.shape[0]):
        out[i] = x[i] - lower
    return out


def moments(row):
    """Mean and variance in two passes."""
    mean = row.sum() / row.dtype.type(row.size)
    squares = row.dtype.type(0)
    for j in range(row.size):
        squares += (row[j] - mean) * (row[j] - mean)
    return mean, squares / row.dtype.type(row.size)


def layer_norm(x, weight, bias):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        mean, variance = numba_moments(x[i])
        scale = x.dtype.type(1) / np.sqrt(variance + x.dtype.type(1e-5))
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * scale * weight[j] + bias[j]
    return out


def batch_norm_rows(x, gamma, beta):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        mean, variance = numba_moments(x[i])
        scale = gamma[i] / np.sqrt(variance + x.dtype.type(1e-5))
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * scale + beta[i]
    return out


def moments_of_columns(x):
    mean = np.zeros_like(x[0])
    for i in range(x.shape[0]):
        mean += x[i]
    mean /= x.dtype.type(x.shape[0])
    squares = np.zeros_like(mean)
    for i in range(x.shape[0]):
        squares += (x[i] - mean) * (x[i] - mean)
    return mean, squares / x.dtype.type(x.shape[0])


def batch_norm(x, gamma, beta):
    mean, variance = numba_moments_of_columns(x)
    scale = gamma / np.sqrt(variance + x.dtype.type(1e-5))
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        out[i] = (x[i] - mean) * scale + beta
    return out


def layer_norm_columns(x, weight, bias):
    mean, variance = numba_moments_of_columns(x)
    scale = x.dtype.type(1) / np.sqrt(variance + x.dtype.type(1e-5))
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        out[i] = (x[i] - mean) * scale * weight[i] + bias[i]
    return out


def variance_0(x):
    out = np.empty(x.shape[1:], x.dtype)
    for j in prange(x.shape[1]):
        out[j] = numba_moments_of_columns(x[:, j])[1]
    return out


def variance_1(x):
    out = np.empty((x.shape[0], x.shape[2]), x.dtype)
    for i in prange(x.shape[0]):
        out[i] = numba_moments_of_columns(x[i])[1]
    return out


def variance_2(x):
    out = np.empty(x.shape[:2], x.dtype)
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = numba_moments(x[i, j])[1]
    return out


def pairwise(a, b):
    out = np.empty((a.shape[0], b.shape[0]), a.dtype)
    for i in prange(a.shape[0]):
        for j in range(b.shape[0]):
            total = 0.0
            for k in range(a.shape[1]):
                total += (a[i, k] - b[j, k]) * (a[i, k] - b[j, k])
            out[i, j] = math.sqrt(total)
    return out


def int8_chain(x, y):
    out = np.empty_like(x)
    for i in prange(x.size):
        a, b = x[i], y[i]
        z = np.int8(np.int8(a * b) + a)
        z = np.int8(np.int8(z ^ b) - np.int8(a >> 2))
        out[i] = max(np.int8(z & 63), b) + a
    return out


def cumulative_sum_rows(x):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        total = 0.0
        for j in range(x.shape[1]):
            total += x[i, j] * 0.5 + 1.0
            out[i, j] = total
    return out


def cumulative_sum_columns(x):
    out = np.empty_like(x)
    parts = numba.get_num_threads()
    width = (x.shape[1] + parts - 1) // parts
    for part in prange(parts):
        first, last = part * width, min(x.shape[1], (part + 1) * width)
        for i in range(x.shape[0]):
            for j in range(first, last):
                out[i, j] = x[i, j] * 0.5 + 1.0 + (out[i - 1, j] if i else 0.0)
    return out


def gather(table, index, weight):
    out = np.empty_like(weight)
    for i in prange(index.size):
        out[i] = table[index[i]] * weight[i] + 1.0
    return out


def scatter(table, index, values):
    sums = np.zeros_like(table)
    for i in range(index.size):
        sums[index[i]] += values[i]
    return sums + table


def histogram(x):
    parts = numba.get_num_threads()
    counts = np.zeros((parts, 64), np.int64)
    width = (x.size + parts - 1) // parts
    for part in prange(parts):
        own = counts[part]
        for i in range(part * width, min(x.size, (part + 1) * width)):
            if 0.0 <= x[i] <= 1.0:
                own[min(63, int(x[i] * 64.0))] += 1
    return counts.sum(axis=0)


def batched_matmul(x, w, b):
    out = np.empty((x.shape[0], x.shape[1], w.shape[1]), x.dtype)
    zero = x.dtype.type(0)
    for n in prange(x.shape[0]):
        for i in range(x.shape[1]):
            row = b.copy()
            for k in range(x.shape[2]):
                for j in range(w.shape[1]):
                    row[j] += x[n, i, k] * w[k, j]
            for j in range(w.shape[1]):
                out[n, i, j] = max(row[j], zero)
    return out


def k_means_step(x, centres):
    parts, k = numba.get_num_threads(), centres.shape[0]
    sums, counts = np.zeros((parts, k, x.shape[1])), np.zeros((parts, k))
    width = (x.shape[0] + parts - 1) // parts
    for part in prange(parts):
        for i in range(part * width, min(x.shape[0], (part + 1) * width)):
            nearest, least = 0, np.inf
            for c in range(k):
                distance = 0.0
                for j in range(x.shape[1]):
                    distance += (x[i, j] - centres[c, j]) * (x[i, j] - centres[c, j])
                if distance < least:
                    nearest, least = c, distance
            counts[part, nearest] += 1.0
            for j in range(x.shape[1]):
                sums[part, nearest, j] += x[i, j]
    return sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1.0).reshape(-1, 1)


def accelerations(position, mass):
    out = np.empty_like(position)
    for i in prange(position.shape[0]):
        ax = ay = az = 0.0
        for j in range(position.shape[0]):
            x, y, z = position[j, 0] - position[i, 0], position[j, 1] - position[i, 1], position[j, 2] - position[i, 2]
            distance2 = x * x + y * y + z * z + 0.05 * 0.05
            strength = mass[j] / (distance2 * math.sqrt(distance2))
            ax, ay, az = ax + x * strength, ay + y * strength, az + z * strength
        out[i, 0], out[i, 1], out[i, 2] = ax, ay, az
    return out


def n_body_step(position, velocity, mass, dt):
    half = velocity + 0.5 * dt * numba_accelerations(position, mass)
    moved = position + dt * half
    return moved, half + 0.5 * dt * numba_accelerations(moved, mass)


def mlp_forward(x, w1, b1, w2, b2, w3, b3):
    zero = x.dtype.type(0)
    h = np.maximum(np.dot(x, w1) + b1, zero)
    h = np.maximum(np.dot(h, w2) + b2, zero)
    return numba_softmax(np.dot(h, w3) + b3)


numba_largest_of_columns = compiled(largest_of_columns)
numba_moments = numba.njit(fastmath=True)(moments)
numba_moments_of_columns = numba.njit(fastmath=True)(moments_of_columns)
numba_accelerations = compiled(accelerations)
numba_softmax = compiled(softmax)

FORMS = {
    "softmax, rows": softmax,
    "softmax, columns": softmax_columns,
    "log-softmax, rows": log_softmax,
    "log-softmax, columns": log_softmax_columns,
    "layer norm, rows": layer_norm,
    "layer norm, columns": layer_norm_columns,
    "batch norm, rows": batch_norm_rows,
    "batch norm, columns": batch_norm,
    "variance, axis 0 of 3": variance_0,
    "variance, axis 1 of 3": variance_1,
    "variance, axis 2 of 3": variance_2,
    "pairwise distance": pairwise,
    "int8 chain": int8_chain,
    "cumulative sum, rows": cumulative_sum_rows,
    "cumulative sum, columns": cumulative_sum_columns,
    "histogram": histogram,
    "gather": gather,
    "scatter": scatter,
    "batched matmul, bias, relu": batched_matmul,
    "n-body step": n_body_step,
    "k-means step": k_means_step,
    "MLP forward": mlp_forward,
}


def form(kernel):
    own = FORMS.get(kernel.name)
    return Form(compiled(own or rebuilt(kernel.fn, np, compiled)), note="loops by hand" if own else "")
