"""The examples of the documents that dynoc grew from, with NumPy arrays."""

import math

import numpy as np
import pytest
from compare import check, dynoc


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def cosine_and_sine(x, y):
    a = np.cos(x)
    b = np.sin(y)
    return a + b


def add(x, y):
    return x + y


def numbers_plus(x):
    return np.array(list(range(2, 40, 2))) + x


def jit_example(a, b):
    c = a + b
    d = c * c
    e = np.tanh(d * c)
    return d + (e + e)


def sin_add(x, y):
    return np.sin(x) + np.sin(y)


def add_into_zeros(x, y):
    output = np.zeros_like(x)
    n_elements = output.size
    output[:n_elements] = x + y
    return output


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def sigmoid_neg(x):
    return -sigmoid(x)


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * (np.exp(x) - 1))


class LLTM:
    """The recurrent cell of the C++ extension tutorial: forward, and backward by hand."""

    def __init__(self, input_features, state_size):
        self.input_features = input_features
        self.state_size = state_size
        stdv = 1.0 / math.sqrt(self.state_size)
        rng = np.random.default_rng(9)
        self.weights = rng.uniform(-stdv, stdv, (3 * state_size, input_features + state_size)).astype(np.float32)
        self.bias = rng.uniform(-stdv, stdv, 3 * state_size).astype(np.float32)

    def forward(self, x, state):
        old_h, old_cell = state
        features = np.concatenate([old_h, x], axis=1)
        gate_weights = features @ self.weights.T + self.bias
        gates = np.split(gate_weights, 3, axis=1)
        input_gate = sigmoid(gates[0])
        output_gate = sigmoid(gates[1])
        candidate_cell = elu(gates[2])
        new_cell = old_cell + candidate_cell * input_gate
        new_h = np.tanh(new_cell) * output_gate
        return new_h, new_cell


def lltm_pointwise(gate_weights, old_cell):
    """The part that the tutorial writes as one CUDA kernel."""
    n = old_cell.shape[1]
    input_gate = sigmoid(gate_weights[:, :n])
    output_gate = sigmoid(gate_weights[:, n : 2 * n])
    candidate_cell = elu(gate_weights[:, 2 * n :])
    new_cell = old_cell + candidate_cell * input_gate
    return np.tanh(new_cell) * output_gate, new_cell, input_gate, output_gate, candidate_cell


def d_sigmoid(z):
    s = sigmoid(z)
    return (1 - s) * s


def d_tanh(z):
    t = np.tanh(z)
    return 1 - t * t


def d_elu(z, alpha=1.0):
    e = np.exp(z)
    mask = (alpha * (e - 1)) < 0
    return (z > 0).astype(z.dtype) + mask.astype(z.dtype) * (alpha * e)


def lltm_backward(grad_h, grad_cell, new_cell, input_gate, output_gate, candidate_cell, gates):
    d_output_gate = np.tanh(new_cell) * grad_h
    d_tanh_new_cell = output_gate * grad_h
    d_new_cell = d_tanh(new_cell) * d_tanh_new_cell + grad_cell
    d_candidate_cell = input_gate * d_new_cell
    d_input_gate = candidate_cell * d_new_cell
    a, b, c = gates
    return d_input_gate * d_sigmoid(a), d_output_gate * d_sigmoid(b), d_candidate_cell * d_elu(c), d_new_cell


EXAMPLES = [
    (cosine_and_sine, lambda: (normal(10_000), normal(10_000)), "near"),
    (add, lambda: (normal(1000, 1000), normal(1000, 1000, seed=1)), "bits"),
    (numbers_plus, lambda: (normal(1),), "bits"),
    (numbers_plus, lambda: (normal(19, dtype=np.float64),), "bits"),
    (jit_example, lambda: (np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)), "near"),
    (add, lambda: (normal(3), normal(3, seed=1)), "bits"),
    (sin_add, lambda: (normal(50), normal(50, seed=1)), "near"),
    (add_into_zeros, lambda: (normal(4), normal(4, seed=1)), "bits"),
    (sigmoid_neg, lambda: (normal(3, 4),), "near"),
    (lltm_pointwise, lambda: (normal(16, 384), normal(16, 128, seed=1)), "near"),
    (lltm_backward, lambda: (*(normal(16, 8, seed=s) for s in range(6)), tuple(normal(3, 16, 8))), "near"),
]


@pytest.mark.parametrize("fn, make, tol", EXAMPLES, ids=[fn.__name__ for fn, _, _ in EXAMPLES])
def test_example(fn, make, tol):
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(3):
        check(fn, fast, make, tol, what=f"turn {turn}")


def test_cell():
    cell = LLTM(32, 128)
    fast = dynoc.optimize(LLTM.forward, wait=True)
    for turn in range(3):
        check(
            LLTM.forward,
            fast,
            lambda: (cell, normal(16, 32), (normal(16, 128), normal(16, 128, seed=2))),
            "near",
            what=f"turn {turn}",
        )
