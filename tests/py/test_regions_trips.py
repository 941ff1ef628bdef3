"""Loops that ask for signals and warnings once in many trips: what they give, raise and warn, wherever that is due."""

import math
import signal
import threading

import numpy as np
import pytest
from regions import check

import dynoc

N = 3000  # some times as many trips as are made between two questions
WHERE = [0, 1, 1023, 1024, 1025, 2047, N - 1]
HUGE = 1.7e308


def numbers(where=None, value=None, dtype=np.float64):
    a = np.linspace(0.5, 1.5, N).astype(dtype)
    if where is not None:
        a[where] = value
    return a


def total(a, s):
    for i in range(N):
        s += a[i]
    return s, i


def product(a, s):
    for i in range(N):
        s += a[i] * a[i] * 0.5
    return s


def last(a, s):
    for i in range(N):
        t = a[i] * a[i]
    return t, i


def compared(a, s):
    for i in range(N):
        if a[i] < 0.75:
            s += 1
    return s


def divided(a, s):
    for i in range(N):
        s += 1.0 / a[i]
    return s


def rooted(a, s):
    for i in range(N):
        s += math.sqrt(a[i])
    return s


def stored(a, b):
    for i in range(N):
        b[i] = a[i] * a[i]
    return b


def smoothed(a, s):
    for i in range(N):
        s = a[i] * 0.5 + s * 0.5
        a[i] = s
    return s


def breaks(a, s):
    for i in range(N):
        if a[i] > 2:
            break
        s += a[i]
    return s, i


def backwards(a, s):
    for i in range(N - 1, -1, -1):
        s = s * 0.5 + a[i]
    return s, i


def apart(a, s):
    for i in range(0, N, 7):
        s += a[i] * a[N - 1 - i]
    return s, i


def shifted(a, s, k):
    for i in range(N - 10):
        s += a[i + k]
    return s, i


def whole(n, s):
    for i in range(N):
        s += n
    return s, i


def left(a, s, k):
    for i in range(N):
        s += a[i]
        if i == k:
            break
    return s, i


def left_before(a, s, k):
    for i in range(N):
        t = a[i] * a[i]
        if i == k:
            return s
        s += t
    return s


def compared_and_left(a, s, k):
    for i in range(N):
        t = a[i] * a[i] < 1
        if i == k:
            break
        s += t
    return s


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("value", [HUGE, math.inf, -math.inf, math.nan, 0.0, -1.0])
@pytest.mark.parametrize("function", [product, compared, divided, rooted])
def test_numbers_out_of_the_ordinary(function, value, where):
    check(function, (numbers(where, value), 0.0), [iter(range(N))], forced=False)


@pytest.mark.parametrize("function", [total, product, last, compared, divided, rooted, smoothed, breaks])
def test_all_exits(function):
    check(function, (numbers(1500, 3.0), 0.0), [iter(range(N))])


@pytest.mark.parametrize("function", [total, product, last, smoothed, breaks])
@pytest.mark.parametrize("where", [0, 1024, 2500])
def test_sums_that_overflow(function, where):
    a = numbers(where, HUGE)
    a[where // 2] = HUGE
    check(function, (a, np.float64(0)), [iter(range(N))], forced=False)


def overwritten(a, s, n):
    for i in range(N):
        s *= a[i] / a[i]
        if a[i] < 0:
            n += 1
        s = a[i] + 1
    return n


@pytest.mark.parametrize("value", [0.0, math.inf])
def test_what_is_overwritten_behind_a_branch_is_looked_at(value):
    check(overwritten, (numbers(1500, value), 0.0, 0), [iter(range(N))], forced=False)


@pytest.mark.parametrize("k", [1500, 1501, 2047, 2048])
@pytest.mark.parametrize("function", [left, left_before, compared_and_left])
def test_what_is_due_before_a_loop_is_left(function, k):
    a = numbers(1500, HUGE)
    a[1501] = HUGE
    check(function, (a, np.float64(0), k), [iter(range(N))], forced=False)


@pytest.mark.parametrize("where", WHERE)
def test_what_was_written_stays(where):
    check(stored, (numbers(where, 1e200), np.zeros(N)), [iter(range(N))], forced=False)


@pytest.mark.parametrize("value", [3e38, np.nan, 0])
def test_singles(value):
    check(product, (numbers(2000, value, np.float32), np.float32(0)), [iter(range(N))], forced=False)


def test_steps():
    check(backwards, (numbers(), 0.0), [iter(range(N - 1, -1, -1))])
    check(apart, (numbers(), 0.0), [iter(range(0, N, 7))])


@pytest.mark.parametrize("k", [0, 10, 11, 500, -1, -N, 2**62])
def test_indices_with_a_number_that_stays(k):
    check(shifted, (numbers(), 0.0, k), [iter(range(N - 10))], forced=False)


@pytest.mark.parametrize("n", [1, 2**53, 2**62 // 700, -(2**62 // 1000)])
def test_ints_that_outgrow_64_bits(n):
    check(whole, (n, 0), [iter(range(N))], forced=False)


def wait_for(a, n):
    s = 0.0
    for k in range(n):
        for i in range(len(a)):
            s += a[i] * 0.5
        if s < 0:
            s = 0.0
    return s


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_signals_come():
    fast = dynoc.optimize(wait_for, wait=True)
    a = numbers()
    assert fast(a, 3) == wait_for(a, 3)

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            fast(a, 10**9)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run():
    fast = dynoc.optimize(wait_for, wait=True)
    a, ran = numbers(), []
    fast(a, 3)
    thread = threading.Thread(target=lambda: ran.append(a.__setitem__(slice(None), -1e300)))
    thread.start()  # its numbers end the loop's
    fast(a, 2000)
    thread.join()
    assert ran


@pytest.mark.parametrize("how", ["ignore", "warn", "raise"])
def test_errstate(how):
    fast = dynoc.optimize(wait_for, wait=True)
    a = numbers(1500, HUGE)
    fast(numbers(), 2)
    with np.errstate(over=how):
        if how == "raise":
            with pytest.raises(FloatingPointError, match="overflow encountered in scalar add"):
                fast(a, 3)
        elif how == "warn":
            with pytest.warns(RuntimeWarning, match="overflow encountered in scalar add"):
                fast(a, 3)
        else:
            assert fast(a, 3) == math.inf
