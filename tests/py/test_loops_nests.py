"""Loops in loops, whose checks are made in front of the outer one (codegen/region/nest.c): values, exceptions, warnings and all
that arrays hold are CPython's, be what is asked in front true or not."""

import copy
import warnings

import numpy as np
import pytest

import dynoc


def window(a, out, width):
    for i in range(len(out)):
        s = 0.0
        for j in range(width):
            s += a[i + j]
        out[i] = s


def backwards(a, out, width):
    for i in range(len(out) - 1, -1, -1):
        s = 0.0
        for j in range(width - 1, -1, -1):
            s += a[i - j]  # wraps around in front of the array
        out[i] = s


def steps(a, out, width):
    for i in range(0, len(out), 2):
        s = 0.0
        for j in range(0, width, 3):
            s = s * 0.5 + a[i + j]
        out[i] = s


def triangle(a, out, width):
    for i in range(len(out)):
        s = 0.0
        for j in range(i):
            s += a[j] * a[i - j - 1]
        out[i] = s + width


def below(a, out, width):
    for i in range(len(out)):
        for j in range(i + 1, width):
            out[i] += a[i] - a[j]


def flat(a, out, width):
    n = len(out) // width if width > 0 else 0
    for i in range(n):
        for j in range(width):
            out[i * width + j] = a[i * width + j] + a[j * n + i]


def ends_early(a, out, width):
    for i in range(len(out)):
        s = 0.0
        for j in range(width):
            if a[i + j] < 0.1:
                break
            if a[i + j] > 0.8:
                continue
            s += a[i + j]
        else:
            s = -s
        if s > 3.0:
            break
        out[i] = s


def three_deep(a, out, width):
    for i in range(len(out) - width):
        s = 0.0
        for j in range(width):
            t = 0.0
            for k in range(j + 1):
                t += a[i + j - k] * a[k]
            s += t
        out[i] = s


def two_inner(a, out, width):
    for i in range(len(out)):
        most = a[i]
        for j in range(width):
            if a[i + j] > most:
                most = a[i + j]
        total = 0.0
        for j in range(width):
            out[i] = a[i + j] / most
            total += out[i]
        out[i] = total


def overwrites(a, out, width):
    for i in range(len(out)):
        for j in range(width):
            out[i] = out[i] * 0.5 + a[i + j]
            a[i + j] = out[i]


def counts(a, out, width):
    n = 0
    for i in range(len(out)):
        for j in range(width):
            if a[i + j] > 0.5:
                n += 1
        out[i] = n
    return n


def doubles(a, out, width):
    for i in range(len(out)):
        s = a[i]
        for j in range(width):
            s = s * s + a[i + j]  # overflows, and warns
        out[i] = s


def powers(a, out, width):
    for i in range(len(out)):
        p = i
        for j in range(width):
            p = p * 3 + j  # outgrows 64 bits
        out[i] = p % 7


NESTS = [window, backwards, steps, triangle, below, flat, ends_early, three_deep, two_inner, overwrites, counts, doubles, powers]
SIZES = [(0, 0, 0), (1, 1, 1), (1, 1, 2), (2, 1, 1), (3, 2, 2), (3, 3, 1), (9, 5, 0)]
SIZES += [(40, 20, 7), (40, 20, 30), (40, 33, 8), (90, 40, 45)]


def outcome(function, a, out, width):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = function(a, out, width)
        except Exception as error:
            result = type(error), str(error), error.__traceback__.tb_next.tb_lineno - function.__code__.co_firstlineno
    return result, a.tobytes(), out.tobytes(), [(w.category, str(w.message), w.lineno) for w in seen]


def arguments(n, m, width, shared):
    a = np.random.default_rng(n * 100 + m).random(n)
    if shared:  # what is written is read
        return a, a[:m], width
    return a, np.zeros(m), width


@pytest.mark.parametrize("function", NESTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shared", [False, True])
def test_nests_of_all_sizes(function, shared):
    fast = dynoc.optimize(function, wait=True)
    fast(*arguments(40, 20, 7, shared))
    for size in SIZES * 2:
        wanted = outcome(function, *arguments(*size, shared))
        assert outcome(fast, *arguments(*size, shared)) == wanted, size
    assert "native" in str(fast.loops)


@pytest.mark.parametrize("function", NESTS, ids=lambda f: f.__name__)
def test_numbers_that_are_reported_in_the_middle_of_a_nest(function):
    fast = dynoc.optimize(function, wait=True)
    fast(*arguments(60, 30, 9, False))
    for place in (0, 7, 29, 37):
        for number in (np.inf, np.nan, 1.7e308, -1e200):
            a, out, width = arguments(60, 30, 9, False)
            a[place] = number
            again = copy.deepcopy((a, out, width))
            assert outcome(fast, a, out, width) == outcome(function, *again), (place, number)


def test_views_of_one_array_that_run_in_all_directions():
    fast = dynoc.optimize(two_inner, wait=True)
    base = np.random.default_rng(1).random(200)
    views = [slice(None), slice(None, None, -1), slice(0, 120, 2), slice(150, 30, -3)]
    for x in views:
        for y in views:
            plain, native = base.copy(), base.copy()
            wanted = outcome(two_inner, plain[x], plain[y][:20], 6)
            assert outcome(fast, native[x], native[y][:20], 6) == wanted
            assert plain.tobytes() == native.tobytes()
