"""Functions of C that take and give objects, called by native loops: with numbers, to CPython's last bit, and with its errors."""

import cmath
import math
import random
import sys
import warnings

import numpy as np
import pytest

import dynoc


def outcome(function, *args):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            return repr(function(*args)), [str(w.message) for w in warned]
        except Exception as error:
            return type(error), str(error), error.__traceback__.tb_next.tb_lineno


def hypotenuses(xs):
    total = 0.0
    for x in xs:
        total += math.hypot(x, 3) + math.hypot(x, x * 0.1, 2.5) + math.hypot(x)
    return total


def rounded(xs):
    total, cents = 0.0, 0
    for i in range(len(xs)):
        total += round(xs[i] * 1.2345, 2)
        cents += round(i * 37, -1)
    return total, cents


def special(xs):
    out = []
    for x in xs:
        out.append(math.erf(x) + math.gamma(x) * math.degrees(x) - math.log(x, 3) + math.remainder(x, 0.7) + math.ldexp(x, 3))
    return out


def whole_numbers(n):
    total = 0
    for i in range(n):
        total += math.gcd(i, 84) + math.isqrt(i * 7) + math.comb(i % 20, 3) + math.factorial(i % 12) + pow(3, i, 1009)
    return total


def of_complex_numbers(n):
    z = 0.3 + 0.1j
    for k in range(n):
        w = cmath.exp(-2j * cmath.pi * k / n)
        z = z * 0.5 + w + cmath.sqrt(z - 1) * 0.25 + cmath.rect(0.1, k)
    return z, cmath.phase(z)


def of_singles(a):
    total = 0.0
    for i in range(len(a)):
        total += math.hypot(a[i], 1.0)
        total += round(a[i], 2)
    return total


def grows(n):
    total = 0
    for i in range(n):
        total += math.factorial(i)
    return total


def meets_zero(n):
    total = 0.0
    for i in range(n):
        total += math.gamma(i - n + 2.5) + math.log(n - 2 - i + 0.5, 2)
    return total


def inverse(n):
    total = 0
    for i in range(n):
        total += pow(i, -1, 7)
    return total


def normals(n, make):
    rng = make()
    total = 0.0
    for _ in range(n):
        total += rng.normal() + rng.normal(1.5) + rng.normal(0, 2.5)
        total += rng.standard_normal() + rng.exponential(2) + rng.uniform(-1, 3)
    return total, rng.random()


def whole_draws(n, make):
    rng = make()
    counts, kind = [0] * 10, None
    for _ in range(n):
        k = rng.randint(0, 10) if isinstance(rng, np.random.RandomState) else rng.integers(0, 10)
        counts[k] += 1
        kind = type(k)
    return counts, kind, rng.poisson(3), rng.random()


def of_the_module(n, seed):
    np.random.seed(seed)
    total = 0.0
    for _ in range(n):
        total += np.random.normal(0, 1) + np.random.randint(3) + np.random.randn()
    return total


def wrong_scale(n, make):
    rng = make()
    total = 0.0
    for i in range(n):
        total += rng.normal(0.0, n - 3 - i)
    return total


def state():
    return np.random.RandomState(5)


def generator():
    return np.random.default_rng(5)


XS = [0.25 + 0.37 * i for i in range(40)]
CALLS = [
    (hypotenuses, XS),
    (rounded, XS),
    (rounded, [*XS, math.inf, math.nan]),
    (special, XS),
    (special, [*XS, -1.0]),
    (special, [*XS, math.nan]),
    (whole_numbers, 60),
    (of_complex_numbers, 40),
    (of_singles, np.array(XS)),
    (of_singles, np.array(XS, dtype=np.float32)),
    (grows, 30),
    (meets_zero, 20),
    (inverse, 9),
    (normals, 30, state),
    (normals, 30, generator),
    (whole_draws, 50, state),
    (whole_draws, 50, generator),
    (of_the_module, 30, 3),
    (wrong_scale, 20, state),
    (wrong_scale, 20, generator),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0].__name__)
def test_calls(call):
    function, *args = call
    fast = dynoc.optimize(function, wait=True)
    for _ in range(4):
        assert outcome(fast, *args) == outcome(function, *args)


NATIVE = [(hypotenuses, XS), (rounded, XS), (special, XS), (whole_numbers, 60), (of_complex_numbers, 40), (normals, 30, state)]


@pytest.mark.parametrize("call", [*NATIVE, (normals, 30, generator), (of_the_module, 30, 3)], ids=lambda call: call[0].__name__)
def test_they_run_natively(call):
    function, *args = call
    fast = dynoc.optimize(function, wait=True)
    for _ in range(2):
        fast(*args)
    assert fast.loops and fast.loops[0].startswith("native"), fast.loops


def test_memory_is_flat():
    fast = dynoc.optimize(of_complex_numbers, wait=True)
    fast(40)
    before = sys.getallocatedblocks()
    for _ in range(300):
        fast(40)
    assert sys.getallocatedblocks() - before < 200


def replaced(n):
    total = 0.0
    for i in range(n):
        total += math.hypot(i, 1.0)
    return total


def test_a_function_that_is_replaced(monkeypatch):
    fast = dynoc.optimize(replaced, wait=True)
    assert fast(30) == replaced(30)
    monkeypatch.setattr(math, "hypot", lambda x, y: random.Random(int(x)).random())
    assert fast(30) == replaced(30)
