"""Native loops over lists that hold NumPy scalars and complex numbers, rows that are unpacked, texts that are compared as wholes,
and loops that are planned later because they are short."""

import math

import dynoc
import numpy as np
import pytest
from regions import Case, check


def relaxed(distance, weights, at):
    for j in range(len(distance)):
        through = distance[at] + weights[at, j]
        if through < distance[j]:
            distance[j] = through
    return distance


def collected(a, n, out):
    for i in range(n):
        out.append(a[i] * 2)
        out.append((a[i], i))
        if i > 2:
            out[i] = a[0]
    return out


def test_numpy_scalars_in_lists():
    weights = np.random.default_rng(1).random((5, 5))
    check(relaxed, ([0.0] + [math.inf] * 4, weights, 0), [iter(range(5))])
    check(relaxed, ([np.float64(0.0), 1.0, np.float64(math.nan), 2.5, np.float64(0.125)], weights, 0), [iter(range(5))])
    check(collected, (np.arange(6), 6, []), [iter(range(6))])
    check(collected, (np.arange(6.0) / 3, 6, [0.5]), [iter(range(6))])
    assert Case(collected, (np.arange(6, dtype=np.int8), 6, []), [iter(range(6))]).refusal()


def rotated(x, w):
    for k in range(len(x) // 2):
        u = x[k]
        v = x[k + len(x) // 2] * w
        x[k] = u + v
        x[k + len(x) // 2] = u - v
    return x


def test_complex_numbers_in_lists():
    check(rotated, ([1 + 2j, 0j, -1j, complex(-0.0, 2.5)], 0.5 + 1j), [iter(range(2))])
    check(rotated, ([1 + 2j, 3.0, 1j, complex(math.nan, 2.5)], 1j), [iter(range(2))])


def test_nans_in_lists_stay_the_objects_that_they_are():
    def moved(a):
        for i in range(len(a) - 1):
            a[i] = a[i + 1]
        return a

    fast = dynoc.optimize(moved, wait=True)
    for nan in (np.float64("nan"), complex(0, math.nan)):
        a = fast([1, nan, nan, type(nan)(1)])
        assert a[0] is a[1] is nan


def grey(image, out):
    for y in range(image.shape[0]):
        r, g, b = image[y]
        out[y] = 0.25 * r + 0.5 * g + b
    return out, r


def test_rows_are_unpacked():
    check(grey, (np.arange(12.0).reshape(4, 3), np.zeros(4)), [iter(range(4))])
    check(grey, (np.arange(12, dtype=np.uint8).reshape(3, 4).T, np.zeros(4)), [iter(range(4))])
    with pytest.raises(ValueError, match="too many values"):
        dynoc.optimize(grey, wait=True)(np.ones((4, 5)), np.zeros(4))


def counted(tokens, wanted, n):
    for token in tokens:
        if token == "+":
            n += 1
        elif token == wanted or token != "abc":
            n += 10
        else:
            n += 100
    return n


def runs(text, previous, n, out):
    for ch in text:
        if ch == previous:
            n += 1
        else:
            out.append((previous, n))
            previous, n = ch, 1
    return out, previous, n


def test_texts_are_compared():
    for wanted in ("", "+", "abc", "abd", "\xff", "\0"):
        tokens = ["+", 3, "abc", wanted, "", 2.5, "a", "abcd"]
        check(counted, (tokens, wanted, 0), [iter(tokens)])
    check(runs, ("aaabc\xff\xff", "a", 0, []), [iter("aabc\xff\xff")])
    check(runs, ("aaabc", "", 0, []), [iter("aabc")])


def ackermann(m, n):
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))


def test_a_function_that_calls_itself():
    def recursions(n, total):
        for k in range(n):
            total += ackermann(1, k)
        return total

    fast = dynoc.optimize(recursions, wait=True)
    assert fast(6, 0) == recursions(6, 0)


def test_a_short_loop_is_planned_when_it_has_run_for_a_while():
    def total(a, s):
        for x in a:
            s = (s * 3 + x) % 1009
        return s

    fast = dynoc.optimize(total)
    a = list(range(100))
    for n in (1, 5_000, 20_000, 1):
        assert fast(a * n, 1) == total(a * n, 1)
        dynoc.wait()
    assert fast.loops[0].startswith("native")
