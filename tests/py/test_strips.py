"""Halves are converted and rounded by strips, between loops over the strip's lanes (emit_c.c): values that cross from one loop to
another, beside other dtypes, in every size about a strip's, in place, and all of it to eager's bits and flags."""

import numpy as np
import pytest
from compare import dynoc
from element import quietly, same_numbers

pytestmark = pytest.mark.any_interpreter

H = np.float16
SIZES = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000]


def halves(n, seed):
    bits = np.random.default_rng(seed).integers(0, 65536, n, dtype=np.uint16)
    h = bits.view(H)
    return np.where(np.isnan(h), H(seed), h)


def chain(x, y, m, b, d):
    z = x * y + x
    return np.maximum(z, x) + y, z * z - y


def chosen(x, y, m, b, d):
    bigger = x * y > x + y
    return np.where(bigger & m, x * H(3), y), bigger, ~bigger | m


def beside_bytes(x, y, m, b, d):
    return (x * y + b).astype(np.float32) * 2, (b * b + b) ^ b, x - m


def beside_doubles(x, y, m, b, d):
    return x * d + y, (d * 3).astype(H) * x, np.sqrt(np.abs(x * y)) + d


def untouched(x, y, m, b, d):
    return np.where(m, x, y), np.abs(x), -y, np.positive(x)


def summed(x, y, m, b, d):
    return (x * y).sum(), (x * H(0.5) + y).max(initial=0), np.where(m, x, 0).sum()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("fn", [chain, chosen, beside_bytes, beside_doubles, untouched, summed], ids=lambda fn: fn.__name__)
def test_strips(fn, threads, monkeypatch):
    monkeypatch.setattr(dynoc.config, "threads", threads)
    fast = dynoc.optimize(fn, wait=True)
    for n in SIZES:
        rng = np.random.default_rng(n)
        args = (halves(n, 1), halves(n, 2), rng.random(n) < 0.5, rng.integers(-128, 128, n, dtype=np.int8), rng.normal(size=n))
        steps = (args, tuple(np.repeat(a, 2)[::2] for a in args), tuple(a[::-1] for a in args))
        for given in steps:
            plain, got = quietly(fn, *given), quietly(fast, *given)
            assert plain[1] == got[1], n
            for a, b in zip(plain[0], got[0], strict=True):
                assert same_numbers(a, b, 0) is None, n


@pytest.mark.parametrize("n", SIZES)
def test_in_place(n):
    def fn(x, y):
        x *= y
        x[1:] += y[:-1]
        return x

    fast = dynoc.optimize(fn, wait=True)
    for _ in range(2):
        results = []
        for f in (fn, fast):
            x = halves(n, 3)
            results.append(quietly(f, x, halves(n, 4)))
        assert results[0][1] == results[1][1]
        assert same_numbers(results[0][0], results[1][0], 0) is None


def test_signalling_nan_keeps_its_bits():
    """A load by the processor would make it quiet, and raise a flag."""
    fn = lambda x, m: (np.where(m, x, 0), -x, np.abs(x), x.copy())  # noqa: E731
    fast = dynoc.optimize(fn, wait=True)
    x = np.arange(65536, dtype=np.uint16).view(H)
    m = np.ones(x.size, bool)
    for _ in range(2):
        plain, got = quietly(fn, x, m), quietly(fast, x, m)
        assert plain[1] == got[1]
        for a, b in zip(plain[0], got[0], strict=True):
            assert (a.view(np.uint16) == b.view(np.uint16)).all()


def byte_chain(x, y, u, f, d, m):
    z = x * y + x
    z = (z ^ y) - (x >> 2)
    return np.maximum(z & 63, y) + x, (u * u) << 3, u >> 1, x << 9, (x * 3) * y, np.square(u)


def masks(x, y, u, f, d, m):
    inside = (d > -0.5) & (d < 1.5)
    return (inside & m) | (~m & (f >= d)) ^ (f < 0.0), (f == f) & m, f != f, (d * 2 <= f + 1) | m


def masks_that_choose(x, y, u, f, d, m):
    bigger = d > 0.25
    return np.where(bigger & m, d, f), bigger, np.where(f > 0, x * y, y), (f > 0).astype(np.int8) * x


def written_between(x, y, u, f, d, m):
    out = d > 0
    d = d + 1
    m = m & (d > f)
    x *= y
    x += y * x
    return out, m, x


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("fn", [byte_chain, masks, masks_that_choose, written_between], ids=lambda fn: fn.__name__)
def test_strips_of_bytes(fn, threads, monkeypatch):
    monkeypatch.setattr(dynoc.config, "threads", threads)
    for dtype in (np.float32, np.float64):
        fast = dynoc.optimize(fn, wait=True)
        for n in [*SIZES, 127, 128, 129, 70001]:
            rng = np.random.default_rng(n)
            odd = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, 0.25, -0.5], n).astype(dtype)
            args = [*(rng.integers(-128, 128, n, dtype=np.int8) for _ in range(2)), rng.integers(0, 256, n, dtype=np.uint8)]
            args += [rng.normal(size=n).astype(dtype), np.where(rng.random(n) < 0.5, odd, rng.normal(size=n)).astype(dtype)]
            args.append(rng.random(n) < 0.5)
            for given in (args, [np.repeat(a, 2)[::2] for a in args], [a[::-1] for a in args]):
                plain, got = (quietly(f, *(a.copy() if a is given[0] else a for a in given)) for f in (fn, fast))
                assert plain[1] == got[1], n
                for a, b in zip(plain[0], got[0], strict=True):
                    assert same_numbers(a, b, 0) is None, n


@pytest.mark.parametrize("fn", [np.abs, np.negative, lambda x: np.where(x == x, -x, x), lambda x: np.where(x > 0, x, x[::-1])])
def test_halves_that_are_not_rounded_keep_their_bits(fn):
    """Signalling nans too, alone among numbers and side by side."""
    x = np.arange(65536, dtype=np.uint16).view(H)
    fast = dynoc.optimize(lambda x: fn(x), wait=True)
    mixed = np.random.default_rng(0).permutation(x)
    for given in (x, mixed, mixed[:33], mixed[:32], mixed[:5], mixed[::3]):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(fast(given).view(np.uint16), fn(given).view(np.uint16))
