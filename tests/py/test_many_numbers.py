"""Operations with more numbers than one kernel takes by value are more kernels than one; what a number is in another type than
the one that a kernel asks for raises no floating-point flag."""

import warnings

import numpy as np
import pytest
from compare import check, dynoc

LIMIT = 64  # DYN_MAX_PARAMS


def steps(n, text):
    """A function of `n` such lines."""
    space = {"np": np}
    lines = "".join(f"    {text.format(i, i + 0.25, 1 / (i + 1))}\n" for i in range(n))
    exec(f"def f(x, y):\n{lines}    return x, y\n", space)
    return space["f"]


TEXTS = {
    "one": "x = x + {1}",
    "two": "x = x * {2} + {1}",
    "where": "x = np.where(x > {1}, x - {2}, y + {0})",
    "both": "x, y = x + {1}, y * {2}",
    "types": "x = x + y * {1}; y = y + {0}",
    "reduced": "x = x + (x * {2} + {1}).sum() * {0}",
}


@pytest.mark.parametrize("n", [LIMIT // 2 - 1, LIMIT // 2, LIMIT - 3, LIMIT, LIMIT + 1, 3 * LIMIT])
@pytest.mark.parametrize("text", TEXTS)
def test_more_numbers_than_a_kernel_takes(text, n, capfd):
    plain = steps(n, TEXTS[text])
    fast = dynoc.optimize(steps(n, TEXTS[text]), wait=True)
    for x in np.linspace(0, 1, 5), np.linspace(-1, 1, 33):
        with np.errstate(all="ignore"):
            for _ in range(2):
                check(plain, fast, lambda: [x, x.astype(np.float32)], "near")
    assert capfd.readouterr().err == ""
    assert [entry.tier for entry in fast.entries if entry.hits] == ["native"]


# What the bits of an integer say as a double (here a signalling nan, and a subnormal), and a double beyond float's range.
NUMBERS = {"huge": 1e300, "small": 1e-300, "nan": 0x7FF0000000000001, "subnormal": 1 << 40}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("compiler", ["/nonexistent/cc", None])
def test_numbers_raise_no_flag(name, compiler, monkeypatch):
    if compiler:
        monkeypatch.setattr(dynoc.config, "compiler", compiler)

    def f(x, y, k):
        np.matmul(x, y, out=x)  # what was written in a call of NumPy's own is not written again
        return x * 0.5 + k, x.sum() < k

    fast = dynoc.optimize(f, wait=True)
    with np.errstate(all="warn"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in 3, 12, 100:
            check(f, fast, lambda: [np.linspace(1, 2, n)[:, None], np.eye(1), NUMBERS[name]], "near")
    assert [entry.hits for entry in fast.entries if entry.hits] == [2]
