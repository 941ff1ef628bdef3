"""Random functions of NumPy arrays: gradients by dynoc against those of PyTorch's autograd of the same program over tensors.

Beside a fixed number of seeds, FUZZ_SEEDS=first:count runs more.
"""

import os
import random
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dynoc  # noqa: E402

FIRST, COUNT = map(int, os.environ.get("FUZZ_SEEDS", "0:40").split(":"))

# Each from 4 x 4 to 4 x 4. m: numpy or torch; x, y: earlier values.
STEPS = [
    "m.sin(x)", "m.exp(-x * x)", "m.tanh(x)", "m.sqrt(x * x + 1)", "m.log(m.exp(x) + 1)", "m.abs(x)",
    "x / (y * y + 1)", "x * y", "x - y", "x @ y", "x.T @ y", "x @ y[0] + x", "y[:, 1] @ x + y",
    "(x[2] @ y[:, 3]) * x", "m.maximum(x, y)", "m.minimum(x, y * 0.5)", "m.where(x > 0, x, y * 2)",
    "m.where(x > y, m.sin(y), x)", "x.sum(0) + y", "x.mean(1)[:, None] * y", "x - x.max()", "x.T + y",
    "m.concatenate((x[1:], y[:1]))", "m.stack((x[0], y[1], x[2], y[3]))", "x.reshape(2, 8).T.reshape(4, 4)",
    "x[[3, 1, 1, 0]]", "x[:, [0, 0, 2, 3]] * y", "x.cumsum(0) * 0.3", "x.clip(-0.7, 0.8)", "x.prod(1)[:, None] + y",
    "x[0] * y[:, :1]", "x ** 2", "x ** 3 * 0.1", "m.exp(x - x.max()) / m.exp(x - x.max()).sum()", "m.hypot(x, y + 2)",
    "m.arctan2(x, y * y + 1)", "x.diagonal() * y", "-x", "x + 0.5",
]  # fmt: skip
CHANGES = [
    "z = x * 1.0; z[1:3] = y[:2] * x[1:3]",
    "z = x + y; z *= y",
    "z = y * 2; z += m.sin(x); z[0] = z[1] * 1.0 + z[2] * 0.5",
    "z = x * y; z[:, 1] *= 0.5",
    "z = x - y; z[::2] -= x[1::2] * y[:2]",
]


def program(seed):
    """The text of a function of three arrays."""
    rng = random.Random(seed)
    lines, names = ["def f(m, a, b, c):"], ["a", "b", "c"]
    for i in range(rng.randrange(3, 10)):
        x, y = rng.choice(names[-4:]), rng.choice(names)
        step = f"z = {rng.choice(STEPS)}" if rng.random() < 0.8 else rng.choice(CHANGES)
        names.append(f"v{i}")
        words = {"x": x, "y": y, "z": f"v{i}"}
        for word in ("x", "y", "z"):
            step = re.sub(rf"(?<![\w.]){word}(?!\w)", words[word], step)
        lines.append(f"    {step}")
    lines.append(f"    return ({' + '.join(f'{name} * {k + 1}' for k, name in enumerate(names[-3:]))}).mean()")
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_gradients_are_autograds(seed):
    text, scope = program(seed), {}
    exec(text, scope)
    f, rng = scope["f"], np.random.default_rng(seed)
    args = [rng.normal(size=(4, 4)) * 0.8 for _ in range(3)]
    tensors = [torch.tensor(a, requires_grad=True) for a in args]
    expected = f(torch, *tensors)
    gradients = torch.autograd.grad(expected, tensors, allow_unused=True)
    both = dynoc.value_and_grad(lambda a, b, c: f(np, a, b, c), argnums=(0, 1, 2))
    for _ in range(2):
        value, found = both(*args)
        np.testing.assert_allclose(value, expected.item(), rtol=1e-9, err_msg=text)
        for a, b in zip(found, gradients, strict=True):
            np.testing.assert_allclose(a, 0 if b is None else b.numpy(), rtol=1e-8, atol=1e-10, err_msg=text)
