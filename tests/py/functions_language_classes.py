"""Rows of the capture table about classes: instances made inside, instances that come in, protocols, data classes."""

import abc
import dataclasses
import enum
import typing
from collections import namedtuple

import numpy as np
from case import f64
from language import row


class Point:
    scale = 2.0

    def __init__(self, x, y=1.0):
        self.x = x
        self.y = y

    def moved(self, by):
        return Point(self.x + by, self.y)

    def total(self):
        return self.x * self.y

    @property
    def double(self):
        return self.x * 2.0

    @double.setter
    def double(self, value):
        self.x = value / 2.0

    @staticmethod
    def twice(v):
        return v * 2.0

    @classmethod
    def unit(cls, x):
        return cls(x, cls.scale)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a = a
        self.b = b


class Base:
    def __init__(self, w):
        self.w = w

    def apply(self, x):
        return x * self.w


class Derived(Base):
    def __init__(self, w, b):
        super().__init__(w)
        self.b = b

    def apply(self, x):
        return super().apply(x) + self.b


class Vector:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return Vector(self.v + other.v)

    def __radd__(self, other):
        return Vector(other + self.v)

    def __mul__(self, k):
        return Vector(self.v * k)

    def __neg__(self):
        return Vector(-self.v)

    def __iadd__(self, other):
        self.v = self.v + other.v
        return self

    def __eq__(self, other):
        return self.v.shape == other.v.shape

    __hash__ = None

    def __lt__(self, other):
        return len(self.v) < len(other.v)

    def __matmul__(self, other):
        return (self.v * other.v).sum()


class Bag:
    def __init__(self, *items):
        self.items = list(items)

    def __len__(self):
        return len(self.items)

    def __iter__(self):
        return iter(self.items)

    def __getitem__(self, i):
        return self.items[i]

    def __setitem__(self, i, v):
        self.items[i] = v

    def __delitem__(self, i):
        del self.items[i]

    def __contains__(self, v):
        return any(v is x for x in self.items)

    def __call__(self, x):
        for item in self.items:
            x = x + item
        return x


class Falsy:
    def __bool__(self):
        return False


class Lazy:
    def __init__(self, x):
        self.known = x

    def __getattr__(self, name):
        return self.known * len(name)


class Counting:
    made = 0

    def __new__(cls, x):
        self = super().__new__(cls)
        self.fresh = x
        return self


class Descriptor:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return getattr(obj, self.name) * 2.0

    def __set__(self, obj, value):
        setattr(obj, self.name, value + 1.0)


class Described:
    value = Descriptor()

    def __init__(self, x):
        self.value = x


@dataclasses.dataclass
class State:
    u: np.ndarray
    t: float = 0.0
    tags: list = dataclasses.field(default_factory=list)

    def step(self, dt):
        return State(self.u * (1.0 - dt), self.t + dt, self.tags)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: np.ndarray
    b: float = 2.0


@dataclasses.dataclass
class Post:
    a: np.ndarray
    total: float = dataclasses.field(init=False)

    def __post_init__(self):
        self.total = self.a * 2.0


Pair = namedtuple("Pair", "first second")


class Typed(typing.NamedTuple):
    a: np.ndarray
    k: float = 3.0

    def product(self):
        return self.a * self.k


class Mode(enum.Enum):
    ADD = 1
    MUL = 2


class Flag(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        """Area."""


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side * self.side


class Mixin:
    def describe(self, x):
        return self.apply(x) + 1.0


class Mixed(Mixin, Derived):
    pass


class Meta(type):
    pass


class WithMeta(metaclass=Meta):
    def __init__(self, x):
        self.x = x


class Layer:
    def __init__(self, w, b):
        self.w = w
        self.b = b
        self.calls = 0
        self.last = None

    def __call__(self, x):
        return x * self.w + self.b


# ---- instances made inside


@row(ops=1)
def instance(x):
    p = Point(x, 2.0)
    return p.x * p.y


@row(ops=2)
def instance_method(x):
    return Point(x).moved(1.0).total()


@row(ops=1)
def instance_returned(x):
    return Point(x * 2.0, 3)


@row(ops=1)
def instance_twice_in_result(x):
    p = Point(x + 1.0)
    return p, [p, p.x]


@row(ops=2)
def instance_property(x):
    p = Point(x)
    p.double = p.double
    return p.x


@row(ops=1)
def instance_static(x):
    return Point(x).twice(x)


@row(ops=1)
def instance_class_method(x):
    p = Point.unit(x)
    return p.x * p.y


@row(ops=1)
def class_attribute(x):
    return x * Point(x).scale


@row(ops=2)
def slots(x):
    s = Slotted(x, x * 2.0)
    return s.a + s.b


@row(ops=1)
def slots_returned(x):
    return Slotted(x * 2.0, 1), 5


@row(ops=2)
def inheritance(x):
    return Derived(2.0, 1.0).apply(x)


@row(ops=3)
def mixin(x):
    return Mixed(2.0, 1.0).describe(x)


@row(ops=1)
def made_by_new(x):
    return Counting(x).fresh * 2.0


@row(ops=1)
def attribute_written_twice(x):
    p = Point(x)
    p.x = 5
    p.x = x * 2.0
    return p


@row(ops=1)
def attribute_added(x):
    p = Point(x)
    p.z = p.x * 2.0
    return p.z, p


@row(ops=1)
def attribute_deleted(x):
    p = Point(x)
    del p.y
    return p, hasattr(p, "y"), p.x + 1.0


@row(ops=1)
def instance_in_loop(x):
    p = Point(x, 0)
    for _ in range(3):
        p = Point(p.x, p.y + 1)
    return p.x * p.y


@row(ops=1)
def instances_in_a_list(x):
    ps = [Point(x, i) for i in range(3)]
    return x * sum(p.y for p in ps)


@row(ops=3)
def mutated_in_loop(x):
    p = Point(x)
    for _ in range(3):
        p.x = p.x * 2.0
    return p.x


@row(ops=1)
def metaclass_instance(x):
    return WithMeta(x).x * 2.0


@row(ops=1)
def abstract_base(x):
    return Square(x).area()


@row(ops=1)
def get_attribute_fallback(x):
    return Lazy(x).four


@row(ops=2)
def data_descriptor(x):
    return Described(x).value


@row(ops=1)
def class_defined_inside(x):
    class Local:
        def __init__(self, v):
            self.v = v

    return Local(x).v * 2.0


@row(ops=2)
def builder(x):
    class_ = Point if x.ndim == 1 else Slotted
    return class_(x, 2.0).total() + 1.0


# ---- protocols


@row(ops=1)
def overloaded_add(x):
    return (Vector(x) + Vector(x)).v


@row(ops=3)
def overloaded_operators(x):
    v = -(Vector(x) * 2.0)
    return (1.0 + v).v


@row(ops=1)
def overloaded_inplace(x):
    v = Vector(x)
    w = v
    v += Vector(x)
    return w.v, v is w


@row(ops=1)
def overloaded_compare(x):
    a, b = Vector(x), Vector(x)
    return (a == b), (a < b), x + 1.0


@row(ops=2, tol="near")
def overloaded_matmul(x):
    return Vector(x) @ Vector(x)


@row(ops=1)
def protocol_len(x):
    return x * len(Bag(1, 2, 3))


@row(ops=3)
def protocol_iter(x):
    for v in Bag(1, 2.0, x):
        x = x + v
    return x


@row(ops=1)
def protocol_getitem(x):
    return Bag(1, x)[1] * 2.0


@row(ops=1)
def protocol_setitem(x):
    b = Bag(1, 2)
    b[0] = x * 2.0
    del b[1]
    return b[0], len(b)


@row(ops=1)
def protocol_contains(x):
    b = Bag(x)
    return x * 2.0 if x in b else x


@row(ops=2)
def protocol_call(x):
    return Bag(1, 2.0)(x)


@row(ops=1)
def protocol_bool(x):
    return x + 1.0 if not Falsy() else x


@row(ops=1)
def truth_by_len(x):
    return x + 1.0 if Bag(1) and not Bag() else x


# ---- data classes, named tuples, enums


@row(ops=1)
def data_class(x):
    s = State(x, 1.0)
    return s.u * s.t


@row(ops=2)
def data_class_returned(x):
    return State(x * 2.0).step(0)


@row(ops=1)
def data_class_factory(x):
    s = State(x)
    s.tags.append(x * 2.0)
    return s.tags[0]


@row(ops=1)
def data_class_frozen(x):
    f = Frozen(x)
    return f.a * f.b


@row(ops=1)
def data_class_frozen_returned(x):
    return Frozen(x * 2.0)


@row(ops=1)
def data_class_replace(x):
    return dataclasses.replace(State(x, 1.0), u=x * 2.0).u


@row(ops=1)
def data_class_post_init(x):
    return Post(x).total


@row(ops=2)
def data_class_steps(x):
    s = State(x)
    for _ in range(2):
        s = s.step(0.5)
    return s.u


@row(ops=1)
def named_tuple(x):
    p = Pair(x, 2.0)
    return p.first * p.second


@row(ops=1)
def named_tuple_returned(x):
    return Pair(x * 2.0, second=1)


@row(ops=1)
def named_tuple_unpacked(x):
    a, b = Pair(x, 2.0)
    return a * b


@row(ops=1)
def named_tuple_replace(x):
    return Pair(x, 1)._replace(second=x * 2.0)


@row(ops=1)
def named_tuple_method(x):
    return Typed(x).product()


@row(lambda n: (f64(n), Mode.MUL), ops=1)
def enum_argument(x, mode):
    return x + 2.0 if mode is Mode.ADD else x * 2.0


@row(lambda n: (f64(n), Mode.MUL), ops=1)
def enum_equal(x, mode):
    return x * 2.0 if mode == Mode.MUL else x


@row(ops=1)
def enum_value(x):
    return x * Mode.MUL.value


@row(ops=1)
def enum_lookup(x):
    return x * 2.0 if Mode(2) is Mode.MUL and Mode["ADD"].name == "ADD" else x


@row(ops=1)
def int_enum(x):
    return x * 2.0 if Flag.LOW < Flag.HIGH else x


# ---- instances that come in


@row(lambda n: (f64(n), Point(2.0)), ops=1)
def attribute_read(x, p):
    return x * p.x


@row(lambda n: (f64(n), Point(f64(n), 3.0)), ops=1)
def method_of_argument(x, p):
    return p.total()


@row(lambda n: (f64(n), Point(3.0)), ops=1)
def property_of_argument(x, p):
    return x * p.double


@row(lambda n: (f64(n), Point(3.0)), ops=1)
def attribute_stored(x, p):
    p.x = x * 2.0


@row(lambda n: (f64(n), Point(3.0)), ops=2)
def attribute_stored_and_read(x, p):
    p.x = x * 2.0
    p.y = 7
    return p.x + p.y


@row(lambda n: (f64(n), Point(3)), ops=1)
def attribute_counted(x, p):
    p.y += 1.0
    p.x = p.x + 1
    return x * p.x


@row(lambda n: (f64(n), Point(3.0)), ops=1)
def attribute_of_argument_deleted(x, p):
    del p.y
    return x * p.x


@row(lambda n: (f64(n), Layer(2.0, f64(n))), ops=2)
def callable_argument(x, layer):
    return layer(x)


@row(lambda n: (f64(n), Layer(2.0, 1.0)), ops=2)
def layer_with_memory(x, layer):
    y = layer(x)
    layer.calls += 1
    layer.last = y
    return y


@row(lambda n: (f64(n), [Layer(2.0, 1.0), Layer(f64(n), 0)]), ops=4)
def layers(x, stack):
    for layer in stack:
        x = layer(x)
    return x


@row(lambda n: (f64(n), State(f64(n), 1.0)), ops=2)
def data_class_updated(x, s):
    s.u = s.u + x
    s.t += 0.5
    return s.u * s.t


@row(lambda n: (f64(n), Frozen(f64(n))), ops=1)
def frozen_argument(x, f):
    return f.a * f.b


@row(lambda n: (f64(n), Pair(f64(n), 2.0)), ops=2)
def named_tuple_argument(x, p):
    return x + p.first * p[1]


@row(lambda n: (f64(n), Slotted(f64(n), 2.0)), ops=1)
def slots_argument(x, s):
    s.b = s.a * s.b
    return s


@row(lambda n: (f64(n), Bag(1.0, f64(n))), ops=2)
def container_argument(x, bag):
    for v in bag:
        x = x + v
    return x


@row(lambda n: (f64(n), Vector(f64(n))), ops=1)
def operator_of_argument(x, v):
    return (v + v).v


@row(lambda n: (f64(n), Point(Point(2.0))), ops=1)
def nested_attributes(x, p):
    p.x.y = x * p.x.x
    return p


@row(lambda n: (f64(n), Point(1.0)), ops=1)
def set_and_get_by_name(x, p):
    setattr(p, "z", x + 1.0)
    return getattr(p, "z"), getattr(p, "none", 3), hasattr(p, "y")


@row(lambda n: (f64(n), Point(1.0)), ops=1)
def instance_checks(x, p):
    return x * 2.0 if isinstance(p, Point) and type(p) is Point and issubclass(Derived, Base) else x


@row(lambda n: (f64(n), Point(1.0)), ops=1)
def same_object_stored(x, p):
    p.x = p.y = x + 1.0
    return p.x is p.y


@row(lambda n: (f64(n), Bag()), ops=1)
def container_of_argument_grown(x, bag):
    bag.items.append(x * 2.0)
    return len(bag.items)
