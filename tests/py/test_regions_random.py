"""Native loops that draw random numbers from generators in variables, and from those that modules' functions are bound to."""

import copy
import random
import threading

import dynoc
import numpy as np
import pytest


def by_instance(rnd, n):
    out = []
    for k in range(n):
        x = rnd.random()
        out.append(x)
        out.append(rnd.randint(-3, k))
        out.append(rnd.randrange(1 << 40))
        out.append(rnd.randrange(k, k + 7) + rnd.uniform(-1, x))
    return out


def by_numpy(g, n):
    total, inside = 0.0, 0
    for _ in range(n):
        x, y = g.random(), g.random()
        total += x
        inside += x * x + y * y < 1
    return total, inside


def by_modules(n):
    out = []
    for _ in range(n):
        out.append(random.randint(0, 5) + random.random())
        out.append(np.random.rand() + np.random.random() + np.random.random_sample())
        out.append(random.uniform(2.5, 3))
    return out


def native(fast):
    return all(loop.startswith("native") for loop in fast.loops)


def test_instances():
    fast = dynoc.optimize(by_instance, wait=True)
    for seed in range(3):
        a, b = random.Random(seed), random.Random(seed)
        for n in (4, 300):
            assert fast(a, n) == by_instance(b, n)
            assert a.getstate() == b.getstate()
    assert native(fast)


def twister(seed):
    return np.random.Generator(np.random.MT19937(seed))


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, twister])
def test_numpy(make):
    fast = dynoc.optimize(by_numpy, wait=True)
    for seed in range(3):
        a, b = make(seed), make(seed)
        assert fast(a, 500) == by_numpy(b, 500)
        assert a.random() == b.random()
    assert native(fast)


def test_modules():
    fast = dynoc.optimize(by_modules, wait=True)
    for seed in range(3):
        random.seed(seed), np.random.seed(seed)
        wanted = by_modules(200), random.random(), np.random.rand()
        random.seed(seed), np.random.seed(seed)
        assert (fast(200), random.random(), np.random.rand()) == wanted
    assert native(fast)


def test_empty_ranges_raise():
    def drawn(rnd, bounds):
        out = 0
        for bound in bounds:
            out += rnd.randrange(bound)
        return out

    fast, rnd = dynoc.optimize(drawn, wait=True), random.Random(1)
    fast(rnd, [3] * 100)
    with pytest.raises(ValueError, match="empty range"):
        fast(rnd, [3] * 100 + [0])


class Loaded(random.Random):
    def random(self):
        return 0.25


def test_own_methods_are_called():
    def drawn(rnd, n):
        total = 0.0
        for _ in range(n):
            total += rnd.random()
        return total

    fast, patched = dynoc.optimize(drawn, wait=True), random.Random(1)
    assert fast(random.Random(1), 100) == drawn(random.Random(1), 100)
    patched.random = lambda: 0.5
    assert fast(patched, 100) == 50.0
    assert fast(Loaded(1), 100) == 25.0
    assert fast(random.Random(1), 100) == drawn(random.Random(1), 100)


def test_a_generator_that_is_locked_is_waited_for():
    g = np.random.default_rng(1)
    fast = dynoc.optimize(by_numpy, wait=True)
    wanted = [by_numpy(g_, 100) for g_ in [copy.deepcopy(g)] for _ in range(2)]
    assert fast(g, 100) == wanted[0]
    held, done = threading.Event(), threading.Event()

    def hold():
        with g.bit_generator.lock:
            held.set()
            done.wait()

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    threading.Timer(0.05, done.set).start()
    assert fast(g, 100) == wanted[1]
    other.join()
