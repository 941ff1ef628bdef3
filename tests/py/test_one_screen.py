"""A model of Hugging Face's, a program of NumPy's and a program of loops: each is explained in one screen."""

import math
import sys

import numpy as np
import pytest
from compare import dynoc

LINES, COLUMNS = 50, 120


def shown(fn, *args):
    """The explanation of a call, which has to fit."""
    text = str(dynoc.explain(fn)(*args))
    lines = text.splitlines()
    assert len(lines) <= LINES and max(map(len, lines)) <= COLUMNS, text
    return text


def test_a_model_of_transformers():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=64
    )  # fmt: skip
    model = transformers.BertModel(config).eval()
    with torch.no_grad():
        text = shown(model, torch.arange(24).reshape(2, 12))
    assert text.startswith("BertModel: ") and "\ngraphs " in text and "\nguards: " in text


def test_a_program_of_numpy():
    def step(u, v, dt, log):
        lap = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        v[1:-1, 1:-1] += dt * lap
        u += dt * v
        print("energy", file=log)
        return np.sqrt((u * u).mean()), np.sort(u, axis=1)[:, -1] / (1 + abs(v).max())

    class Log:
        def write(self, text):
            pass

    text = shown(step, np.ones((40, 50)), np.zeros((40, 50)), 0.1, Log())
    assert "breaks\n  OPAQUE_CALL" in text and 'print("energy", file=log)' in text and text.count("native") == 2


def test_a_program_of_loops():
    def primes(n):
        found = [True] * n
        for i in range(2, math.isqrt(n) + 1):
            if found[i]:
                for k in range(i * i, n, i):
                    found[k] = False
        total = 0.0
        for i in range(2, n):
            if found[i]:
                total += 1 / i
        return total, [str(i) for i in range(3)]

    text = shown(primes, 20000)
    inlined = sys.version_info >= (3, 12)  # the comprehension is one of its loops
    assert "loops\n" in text and text.count("native: ") == 2 + inlined
