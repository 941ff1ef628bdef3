"""Classes that change at every call. In what a function does not read: its entries stay. In what it reads: it is recorded
again."""

import abc
import gc
import weakref

import numpy as np
import pytest
from compare import dynoc


def alternate(make, calls=50):
    """The results of a program's function, plain and optimised, which share nothing. The optimised function."""
    plain, fast = make(), dynoc.optimize(make(), wait=True)
    for i in range(calls):
        x = np.linspace(0.0, 1.0, 7 + i % 3)
        want, got = plain(x), fast(x)
        assert np.array_equal(want[0], got[0]) and want[1:] == got[1:], i
    return fast


def counts_instances():
    class Sample:
        made = 0

        def __init__(self, x):
            Sample.made += 1
            self.x = x

        def doubled(self):
            return self.x * 2 + 1

    def step(x):
        return Sample(x).doubled(), Sample.made

    return step


def counts_by_type():
    class Base:
        made = 0

        def __init__(self, x):
            type(self).made += 1
            self.x = x

    class Sample(Base):
        def doubled(self):
            return self.x * 2 + 1

    def step(x):
        s = Sample(x)
        return s.doubled(), s.made, Base.made

    return step


def counts_calls_of_a_method():
    class Layer:
        calls = 0
        factor = 3.0

        def __call__(self, x):
            Layer.calls += 1
            return x * self.factor - 1

    layer = Layer()

    def step(x):
        return layer(x), Layer.calls

    return step


def says_which_is_active():
    class Layer:
        active = None

        def __init__(self, factor):
            self.factor = factor

        def run(self, x):
            before = Layer.active
            Layer.active = self
            try:
                return x * self.factor + 1
            finally:
                Layer.active = before

    layers = [Layer(2.0), Layer(3.0)]

    def step(x):
        for layer in layers:
            x = layer.run(x)
        return x, Layer.active

    return step


def below_an_abstract_class():
    class Base(abc.ABC):
        calls = 0

        @abc.abstractmethod
        def inner(self, x): ...

        def run(self, x):
            Base.calls += 1
            return self.inner(x) + 1

    class Layer(Base):
        def inner(self, x):
            return super().__class__.__name__ and x * 2

    layer = Layer()

    def step(x):
        return layer.run(x), 0

    return step


PROGRAMS = [
    counts_instances,
    counts_by_type,
    counts_calls_of_a_method,
    says_which_is_active,
    below_an_abstract_class,
]


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda f: f.__name__)
def test_a_class_that_counts_has_few_entries(make):
    dynoc.counters.clear()
    fast = alternate(make, 10)
    made = len(fast.entries)
    assert made <= 6 and not dynoc.counters["recompiles"]
    for i in range(40):
        fast(np.linspace(0.0, 1.0, 7 + i % 3))
    assert len(fast.entries) == made


def program():
    """A class, an instance, and a function that reads a good deal of the class."""

    class Root:
        def shift(self, x):
            return x + 1.0

    class Base(Root):
        scale = 2.0
        unread = 0

        def shift(self, x):
            return super().shift(x) * 2.0

        @staticmethod
        def half(x):
            return x / 2.0

    class Layer(Base):
        def __init__(self):
            self.own = 3.0

        @property
        def factor(self):
            return self.scale + self.own

        def __len__(self):
            return 1

        def run(self, x):
            if not self:
                return x
            return self.shift(self.half(x)) * self.factor

    layer = Layer()

    def step(x):
        return layer.run(x)

    return step, Root, Base, Layer, layer


def replace_shift(root, base, layer, instance):
    layer.shift = lambda self, x: x - 5.0


def replace_behind_super(root, base, layer, instance):
    root.shift = lambda self, x: x - 7.0


def replace_scale(root, base, layer, instance):
    base.scale = 5.0


def hide_scale(root, base, layer, instance):
    layer.scale = 7.0


def replace_half(root, base, layer, instance):
    base.half = staticmethod(lambda x: x / 4.0)


def half_by_a_method(root, base, layer, instance):
    base.half = lambda self, x: x / self.own


def replace_factor(root, base, layer, instance):
    layer.factor = property(lambda self: 11.0)


def factor_without_property(root, base, layer, instance):
    layer.factor = 13.0


def own_by_descriptor(root, base, layer, instance):
    layer.own = property(lambda self: 17.0)


def replace_truth(root, base, layer, instance):
    layer.__bool__ = lambda self: False


def replace_length(root, base, layer, instance):
    layer.__len__ = lambda self: 0


def forget_length(root, base, layer, instance):
    del layer.__len__
    root.__bool__ = lambda self: False


def add_getattribute(root, base, layer, instance):
    def get(self, name):
        return 19.0 if name == "own" else object.__getattribute__(self, name)

    root.__getattribute__ = get


def another_base(root, base, layer, instance):
    class New(root):
        scale = -1.0

        @staticmethod
        def half(x):
            return x * 3.0

    layer.__bases__ = (New,)


CHANGES = [
    replace_shift,
    replace_behind_super,
    replace_scale,
    hide_scale,
    replace_half,
    half_by_a_method,
    replace_factor,
    factor_without_property,
    own_by_descriptor,
    replace_truth,
    replace_length,
    forget_length,
    add_getattribute,
    another_base,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("repeats", [1, 4])
def test_what_is_read_counts(change, repeats):
    """A change that is read is seen, with another change that isn't read before, beside and behind it."""
    step, *classes = program()
    fast, x = dynoc.optimize(step, wait=True), np.linspace(0.0, 1.0, 9)
    for _ in range(repeats):
        assert np.array_equal(fast(x), step(x))
    made = len(fast.entries)
    for i in range(5):
        classes[1].unread = i
        classes[2].also_unread = [i]
        assert np.array_equal(fast(x), step(x))
    assert len(fast.entries) == made
    before = step(x)
    classes[1].unread = 9
    change(*classes)
    classes[1].unread = 10
    assert not np.array_equal(step(x), before)
    for i in range(repeats):
        assert np.array_equal(fast(x), step(x))
        classes[1].unread = i


def test_functions_at_the_address_of_dead_ones_are_others():
    step, root, base, layer, instance = program()
    fast, x = dynoc.optimize(step, wait=True), np.linspace(0.0, 1.0, 9)
    for i in range(40):
        scope = {}
        exec(f"def half(x): return x * {i}.0", scope)
        base.half = staticmethod(scope.pop("half"))
        assert np.array_equal(fast(x), step(x)), i


def test_more_changes_than_a_class_has_versions():
    """CPython 3.13 gives a class a thousand version tags, and then no more."""
    step, root, base, layer, instance = program()
    fast, x = dynoc.optimize(step, wait=True), np.linspace(0.0, 1.0, 9)
    for i in range(1500):
        layer.unread = i
        fast(x)
    assert len(fast.entries) == 1
    layer.scale = 23.0
    assert np.array_equal(fast(x), step(x))


def test_nothing_of_a_class_is_kept_alive():
    dynoc.enable(wait=True)
    try:
        step, root, base, layer, instance = program()
        for _ in range(5):
            step(np.linspace(0.0, 1.0, 9))
            layer.unread = object()
    finally:
        dynoc.disable()
    died = [weakref.ref(o) for o in (root, base, layer, layer.run)]
    del step, root, base, layer, instance
    for _ in range(3):
        gc.collect()
    assert [r() for r in died] == [None] * len(died)


def test_a_class_whose_bases_are_being_decided():
    """Its metaclass looks at it while it has none yet."""
    seen = []

    class Meta(type):
        def mro(cls):
            seen.append((cls.__mro__ is None, cls.__dict__["scale"], cls.__name__))
            return super().mro()

    def step(x):
        made = Meta("Made", (), {"scale": 2.0})
        return x * made.scale, len(seen) > 0

    fast = dynoc.optimize(step, wait=True)
    with dynoc.enabled(wait=True):
        for _ in range(4):
            assert np.array_equal(fast(np.ones(3))[0], np.full(3, 2.0))
    assert seen == [(True, 2.0, "Made")] * 4
