"""Classes with __getattr__: properties beside it, and modules of a class of their own."""

import types

import numpy as np

import dynoc


class Asked:
    def __init__(self):
        self.factor, self.known = 3.0, True
        self.asked = []

    @property
    def scale(self):
        return self.factor * 2

    @property
    def missing(self):
        if not self.known:
            raise AttributeError("missing")
        return self.factor

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        self.asked.append(name)
        return 10.0


def test_a_property_beside_getattr_is_recorded():
    o, x = Asked(), np.arange(5.0)
    fast = dynoc.optimize(lambda x: x * o.scale, wait=True, fullgraph=True)
    for factor in (3.0, 4.0, 5.0):
        o.factor = factor
        assert fast(x).tolist() == (x * factor * 2).tolist()
    assert len(fast.entries) == 1 and o.asked == []


def test_a_property_that_raises_asks_getattr_once():
    o, x = Asked(), np.arange(5.0)
    fast = dynoc.optimize(lambda x: x * o.missing + 1, wait=True)
    for known in (False, True, False, False, True):
        o.known = known
        o.asked.clear()
        assert fast(x).tolist() == (x * (3.0 if known else 10.0) + 1).tolist()
        assert o.asked == ([] if known else ["missing"])


class Descriptor:
    def __get__(self, o, cls):
        return o.base + 1

    def __set__(self, o, value):
        raise AttributeError("fixed")


class Mine(types.ModuleType):
    computed = Descriptor()

    def __init__(self):
        super().__init__("mine")
        self.base, self.inner = 2.0, types.SimpleNamespace(sin=np.sin, number=4.0)

    def __getattr__(self, name):
        return getattr(self.inner, name)


def test_modules_of_a_class_of_their_own():
    m, x = Mine(), np.arange(5.0)

    def fn(x):
        return m.sin(x) * m.base + m.computed * m.number

    fast, broken = dynoc.optimize(fn, wait=True, fullgraph=True), dynoc.optimize(fn, wait=True)
    for base, number in ((2.0, 4.0), (3.0, 4.0), (3.0, 5.0)):
        m.base, m.inner.number = base, number
        np.testing.assert_allclose(fast(x), np.sin(x) * base + (base + 1) * number)
    assert len(fast.entries) == 1
    m.sin = np.cos
    np.testing.assert_allclose(fast(x), np.cos(x) * 3.0 + 20.0)
    del m.sin
    np.testing.assert_allclose(fast(x), np.sin(x) * 3.0 + 20.0)
    m.__dict__["__getattr__"] = lambda name: 7.0 if name == "number" else getattr(m.inner, name)
    np.testing.assert_allclose(broken(x), np.sin(x) * 3.0 + 28.0)
    np.testing.assert_allclose(broken(x), np.sin(x) * 3.0 + 28.0)
