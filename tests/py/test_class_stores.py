"""Attributes of classes and modules that a captured function stores: one graph, the store behind it, as attributes of instances
are. What descriptors, metaclasses and functions have a say in is CPython's."""

import types

import numpy as np
import pytest
from compare import dynoc

X = np.linspace(0.0, 1.0, 9)


def by_name():
    class Model:
        calls = 0

    def step(x):
        y = x * 2.0
        Model.calls += 1
        return (y + Model.calls).sum(), Model.calls

    return step, lambda: Model.calls


def by_type():
    class Model:
        calls, last = 0, None

        def run(self, x):
            type(self).calls += 1
            self.__class__.last = x + self.calls
            return self.last * 2.0

    model = Model()
    return lambda x: (model.run(x), model.calls), lambda: (Model.calls, Model.last)


def inherited():
    class Root:
        calls, own = 0, 10

    class Between(Root):
        pass

    class Leaf(Between):
        own = 20

    leaf = Leaf()

    def step(x):
        Root.calls += 1
        Leaf.own += Leaf.calls
        Root.own -= 1
        read = Leaf.own, Between.own, leaf.own, getattr(Leaf, "calls", None), hasattr(Leaf, "calls")
        return x * leaf.calls + Between.calls, read

    return step, lambda: (Root.calls, Root.own, Leaf.own, "calls" in vars(Leaf))


def made_by_the_store():
    class Model:
        pass

    def step(x):
        Model.count = getattr(Model, "count", 0) + 1
        return x + Model.count

    return step, lambda: Model.count


def hides_the_class():
    class Model:
        scale = 1.0

        def __init__(self, own):
            if own:
                self.scale = 5.0

    some = [Model(False), Model(True)]

    def step(x):
        Model.scale = Model.scale * 0.5
        return [x * m.scale for m in some] + [Model(True).scale, Model(False).scale]

    return step, lambda: Model.scale


def a_list_that_grows():
    class Log:
        rows = ()

    def step(x):
        rows = [float(len(x))]
        Log.rows = rows
        rows.append(2.0)
        Log.rows.append(3.0)
        return x * len(Log.rows)

    return step, lambda: Log.rows


def by_setattr():
    class Model:
        calls = 0

    def step(x):
        setattr(Model, "calls", Model.calls + 2)
        return x - Model.calls

    return step, lambda: Model.calls


def of_a_module():
    module = types.ModuleType("settings")
    module.calls = 0

    def step(x):
        module.calls += 1
        setattr(module, "seen", module.calls * 2)
        return x * module.calls + module.seen

    return step, lambda: (module.calls, module.seen)


def in_order():
    class Model:
        first = second = 0

    class Other:
        pass

    other = Other()

    def step(x):
        Model.first += 1
        other.now = Model.first + Model.second
        Model.second = Model.first
        Model.first += 1
        return x + other.now, Model.first, Model.second

    return step, lambda: (Model.first, Model.second, other.now)


ONE_GRAPH = [
    by_name, by_type, inherited, made_by_the_store, a_list_that_grows, by_setattr, of_a_module, in_order,
]


def same(a, b):
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and np.array_equal(a, b)


def alternate(make, calls):
    """The same program plain and optimised: equal in what they return and leave behind. The optimised one."""
    (plain, was), (made, is_now) = make(), make()
    fast = dynoc.optimize(made, wait=True)
    for i in range(calls):
        x = X[: 5 + i % 3]
        assert same(plain(x), fast(x)) and same(was(), is_now()), i
    return fast


@pytest.mark.parametrize("make", ONE_GRAPH, ids=lambda f: f.__name__)
def test_the_store_is_behind_the_graph(make):
    dynoc.counters.clear()
    fast = alternate(make, 6)
    assert not dynoc.counters["breaks"], dict(dynoc.counters)
    made = len(fast.entries)
    for i in range(20):
        fast(X[: 5 + i % 3])
    assert len(fast.entries) == made


def a_metaclass_that_looks():
    seen = []

    class Meta(type):
        def __setattr__(cls, name, value):
            seen.append((name, value))
            super().__setattr__(name, value)

    class Model(metaclass=Meta):
        calls = 0

    def step(x):
        Model.calls += 1
        return x + Model.calls

    return step, lambda: (Model.calls, list(seen))


def a_property_of_the_metaclass():
    class Meta(type):
        @property
        def calls(cls):
            return cls.inner

        @calls.setter
        def calls(cls, value):
            cls.inner = value

    class Model(metaclass=Meta):
        inner = 0

    def step(x):
        Model.calls += 1
        return x + Model.calls + Model.inner

    return step, lambda: Model.inner


def another_method():
    class Model:
        def scale(self, x):
            return x * 2.0

    other = [lambda self, x: x * 3.0, lambda self, x: x - 1.0]
    model = Model()

    def step(x):
        Model.scale = other[0]
        other.reverse()
        return model.scale(x) + 1.0

    return step, lambda: None


def a_property_goes():
    class Model:
        pass

    model = Model()

    def step(x):
        Model.size = property(lambda self: 3.0)
        y = x * model.size
        Model.size = 4.0
        return y + model.size

    return step, lambda: Model.size


def special_names():
    class Model:
        pass

    model = Model()

    def step(x):
        Model.__len__ = lambda self: 2
        y = x * len(model)
        Model.__doc__ = "counted"
        return y, Model.__doc__

    return step, lambda: Model.__doc__


def a_base_takes_over():
    class Root:
        scale = 1.0

    class Leaf(Root):
        pass

    def step(x):
        y = x * Leaf.scale
        Root.scale += 1.0
        y = y * Leaf.scale
        Leaf.scale = 7.0
        y = y * Leaf.scale
        del Leaf.scale
        return y * Leaf.scale

    return step, lambda: (Root.scale, "scale" in vars(Leaf))


def an_array_with_a_class():
    class Counted(np.ndarray):
        made = 0

    def step(x):
        c = x.view(Counted)
        Counted.made += 1
        return np.asarray(c) + c.made

    return step, lambda: Counted.made


def an_exception_in_between():
    class Model:
        calls = done = 0

    def step(x):
        Model.calls += 1
        try:
            if len(x) % 2:
                Model.done = {}["x"]
            Model.done += 1
        except KeyError:
            Model.done -= 10
        return x + Model.done, Model.calls

    return step, lambda: (Model.calls, Model.done)


def in_a_loop():
    class Model:
        total = 0

    def step(x):
        for i in range(50):
            Model.total += i
        return x + Model.total

    return step, lambda: Model.total


LEFT = [
    hides_the_class,
    a_metaclass_that_looks,
    a_property_of_the_metaclass,
    another_method,
    a_property_goes,
    special_names,
    a_base_takes_over,
    an_array_with_a_class,
    an_exception_in_between,
    in_a_loop,
]


@pytest.mark.parametrize("make", LEFT, ids=lambda f: f.__name__)
def test_what_others_have_a_say_in_is_as_in_cpython(make):
    alternate(make, 12)


def test_what_raises_behind_the_store_leaves_it_done():
    class Model:
        calls = 0

    def step(x, y):
        Model.calls += 1
        return (x + y) * Model.calls

    fast = dynoc.optimize(step, wait=True)
    for i in range(1, 6):
        assert np.array_equal(fast(X, X), X * 2 * (2 * i - 1))
        with pytest.raises(ValueError):
            fast(X, X[:4])
        assert Model.calls == 2 * i


def test_other_code_sees_the_new_version_of_the_class():
    class Model:
        scale = 1.0

    model = Model()
    reads = dynoc.optimize(lambda x: x * model.scale, wait=True)
    by_class = dynoc.optimize(lambda x: x * Model.scale, wait=True)

    def step(x):
        Model.scale += 1.0
        return x + Model.scale

    fast = dynoc.optimize(step, wait=True)
    for i in range(1, 12):
        assert np.array_equal(fast(X), X + 1.0 + i)
        assert np.array_equal(reads(X), X * (1.0 + i)) and np.array_equal(by_class(X), X * (1.0 + i))
        if i == 6:
            del Model.scale
            Model.scale = 7.0
