"""Guards that are not checked one by one while nothing on the way to what they are about has changed: every kind of change is
noticed, whenever it comes."""

import gc
from collections import OrderedDict

import numpy as np
import pytest

import dynoc


class Scale:
    factor = 2.0

    def __init__(self, n):
        self.w = np.arange(1.0, n + 1.0)
        self.power = 2

    def apply(self, x, shift=1.0):
        return x * self.w * self.factor + shift


class Other(Scale):
    def apply(self, x, shift=1.0):
        return x - self.w


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Net:
    def __init__(self, n=4):
        self.first = Scale(n)
        self.layers = {"a": Scale(n), "b": Scale(n)}
        self.listed = [1.0, 2.0, Scale(n)]
        self.pair = (3.0, Scale(n))
        self.ordered = OrderedDict(p=1.0, q=2.0)
        self.slotted = Slotted(2.0)
        self.training = False
        self.nothing = None
        self.hooks = OrderedDict()

    def __call__(self, x):
        x = self.first.apply(x)
        for name in self.layers:
            x = self.layers[name].apply(x)
        if not self.hooks and self.nothing is None and not hasattr(self, "extra"):
            x = x + self.listed[0] * self.listed[1]
        else:
            x = x * 3.0
        x = self.listed[2].apply(x) * self.pair[0] + self.pair[1].apply(x)
        for key in self.ordered:
            x = x * self.ordered[key] + len(key)
        x = x + self.slotted.value ** self.first.power
        return x if self.training else -x


def code_of(fn):
    def put():
        fn.__code__ = (lambda self, x, shift=1.0: x + self.w + shift).__code__

    return put


CHANGES = {
    "attribute": lambda n: setattr(n, "training", True),
    "attribute of an inner object": lambda n: setattr(n.first, "power", 3),
    "attribute is added": lambda n: setattr(n, "extra", 1),
    "attribute hides a class's": lambda n: setattr(n.first, "factor", 5.0),
    "method of the instance": lambda n: setattr(n.first, "apply", lambda x: x * 7.0),
    "array in place": lambda n: n.first.w.__setitem__(0, 100.0),
    "another array": lambda n: setattr(n.first, "w", np.full(4, 2.0)),
    "an array of another layout": lambda n: setattr(n.first, "w", np.arange(8.0)[::2]),
    "an array of another type": lambda n: setattr(n.first, "w", np.arange(4, dtype=np.float32)),
    "the array gets another shape": lambda n: n.layers["a"].w.resize((1, 4), refcheck=False),
    "another object": lambda n: setattr(n, "first", Scale(4)),
    "an object of another class": lambda n: setattr(n, "first", Other(4)),
    "its class is assigned": lambda n: setattr(n.first, "__class__", Other),
    "its dict is assigned": lambda n: setattr(n.first, "__dict__", {"w": np.ones(4), "power": 1, "factor": 4.0}),
    "an inner dict": lambda n: n.layers.__setitem__("b", Other(4)),
    "an inner dict grows": lambda n: n.layers.__setitem__("c", Scale(4)),
    "an inner dict in another order": lambda n: n.layers.__setitem__("a", n.layers.pop("a")),
    "a number in a list": lambda n: n.listed.__setitem__(1, 9.0),
    "an object in a list": lambda n: n.listed.__setitem__(2, Other(4)),
    "a list is emptied and filled": lambda n: n.listed.__setitem__(slice(None), [5.0, 6.0, Scale(4)]),
    "an OrderedDict in another order": lambda n: n.ordered.move_to_end("p"),
    "an OrderedDict gets a key": lambda n: n.ordered.__setitem__("r", 3.0),
    "an empty one is filled": lambda n: n.hooks.__setitem__(1, 1),
    "a slot": lambda n: setattr(n.slotted, "value", 4.0),
    "an object in a tuple": lambda n: setattr(n.pair[1], "factor", 0.5),
    "an attribute is deleted and put back": lambda n: (delattr(n, "training"), setattr(n, "training", False)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_what_was_settled_is_noticed(name):
    plain, net = Net(), Net()
    fast = dynoc.optimize(Net.__call__, wait=True)
    for turn in range(8):
        x = np.arange(1.0, 5.0) + turn
        np.testing.assert_array_equal(fast(net, x), plain(x), err_msg=f"call {turn}")
        if turn == 4:
            CHANGES[name](net)
            CHANGES[name](plain)


def look_up(self, name):
    return 3.0 if name == "factor" else object.__getattribute__(self, name)


CLASS_CHANGES = {
    "a number": lambda c: setattr(c, "factor", 8.0),
    "a method": lambda c: setattr(c, "apply", lambda self, x: x - self.w),
    "the code of a method": lambda c: code_of(c.apply)(),
    "a default": lambda c: setattr(c.apply, "__defaults__", (9.0,)),
    "a property": lambda c: setattr(c, "factor", property(lambda self: 0.25)),
    "__getattribute__": lambda c: setattr(c, "__getattribute__", look_up),
}


@pytest.mark.parametrize("name", CLASS_CHANGES)
def test_a_change_of_a_class_is_noticed(name):
    def make():
        def apply(self, x, shift=1.0):
            return x * self.w * self.factor + shift

        return type("Fresh", (), {"factor": 2.0, "apply": apply, "__init__": Scale.__init__})

    def use(objects, x):
        for o in objects:
            x = o.apply(x)
        return x

    a, b = make(), make()
    left, right = [a(4) for _ in range(3)], [b(4) for _ in range(3)]
    holder, other = Slotted(None), Slotted(None)
    holder.value, other.value = tuple(left), tuple(right)
    fast = dynoc.optimize(lambda h, x: use(h.value, x), wait=True)
    for turn in range(8):
        x = np.arange(1.0, 5.0) + turn
        np.testing.assert_array_equal(fast(holder, x), use(other.value, x), err_msg=f"call {turn}")
        if turn == 4:
            CLASS_CHANGES[name](a)
            CLASS_CHANGES[name](b)


def test_objects_in_turn_and_new_ones_at_the_same_place():
    fast = dynoc.optimize(Net.__call__, wait=True)
    nets = [Net(), Net()]
    nets[1].first.w = np.full(4, 3.0)
    for turn in range(40):
        net = nets[turn // 3 % 2]
        x = np.arange(1.0, 5.0) * turn
        np.testing.assert_array_equal(fast(net, x), net(x))
    for turn in range(60):
        net = Net()
        net.first.factor = float(turn)
        for _ in range(3):
            np.testing.assert_array_equal(fast(net, np.ones(4)), net(np.ones(4)))
        del net
        if turn % 7 == 0:
            gc.collect()


def test_nothing_is_kept_alive():
    import weakref

    fast = dynoc.optimize(Net.__call__, wait=True)
    net = Net()
    for _ in range(5):
        fast(net, np.ones(4))
    seen = [weakref.ref(net), weakref.ref(net.first), weakref.ref(net.layers["a"])]
    del net
    gc.collect()
    assert [r() for r in seen] == [None, None, None]


def test_what_changes_at_each_call_goes_on_being_right():
    class Counting(Net):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def __call__(self, x):
            self.calls += 1
            return super().__call__(x) + self.calls

    fast, net, plain = dynoc.optimize(Counting.__call__, wait=True), Counting(), Counting()
    for turn in range(200):
        np.testing.assert_array_equal(fast(net, np.ones(4)), plain(np.ones(4)))
    assert net.calls == plain.calls == 200
