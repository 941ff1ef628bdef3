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


def by_distribution(rnd, n, deck):
    out = []
    for k in range(n):
        out.append(rnd.gauss(0, 1) + rnd.gauss(k, 0.5) + rnd.gauss())
        out.append(rnd.normalvariate(2, k) + rnd.normalvariate())
        out.append(rnd.expovariate(k + 1) - rnd.expovariate(0.25))
        rnd.shuffle(deck)
        out.append(deck[0] * deck[-1])
    return out


def test_distributions():
    fast = dynoc.optimize(by_distribution, wait=True)
    for seed in range(3):
        a, b = random.Random(seed), random.Random(seed)
        for n in (1, 4, 301):
            for deck in ([5], [*range(52)], [x * 0.5 for x in range(7)]):
                p, q = [*deck], [*deck]
                assert fast(a, n, p) == by_distribution(b, n, q)
                assert p == q and a.getstate() == b.getstate() and a.gauss_next == b.gauss_next
    assert native(fast)


def test_a_rate_of_zero_is_cpythons():
    def waits(rnd, rates):
        total = 0.0
        for rate in rates:
            total += rnd.expovariate(rate)
        return total

    fast = dynoc.optimize(waits, wait=True)
    for rates in ([1.0] * 50, [1.0] * 20 + [0.0] + [1.0] * 5, [2.0] * 30):
        a, b = random.Random(1), random.Random(1)
        try:
            expected = waits(b, rates)
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                fast(a, rates)
        else:
            assert fast(a, rates) == expected
        assert a.getstate() == b.getstate()


def test_a_class_with_another_gauss():
    class Loaded(random.Random):
        def gauss(self, mu=0.0, sigma=1.0):
            return 7.0

    def total(rnd, n):
        s = 0.0
        for _ in range(n):
            s += rnd.gauss(0, 1)
        return s

    fast = dynoc.optimize(total, wait=True)
    for rnd in (random.Random(3), Loaded(3)):
        for n in (40, 41):
            again = copy.deepcopy(rnd)
            assert fast(rnd, n) == total(again, n)


NUMPYS = [np.random.default_rng, np.random.RandomState, lambda s: np.random.Generator(np.random.MT19937(s))]


@pytest.mark.parametrize("make", NUMPYS)
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
