"""Rows of the capture table about what `collections` and `enum` have: made inside, and coming in and changed."""

import enum
import typing
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple

import numpy as np
from case import f64
from language import row

Pair = namedtuple("Pair", "first second", defaults=[3.0])


class Cell(typing.NamedTuple):
    u: np.ndarray
    dt: float = 0.5

    def step(self):
        return self._replace(u=self.u * (1.0 - self.dt))

    @property
    def rate(self):
        return self.dt * 2.0

    @classmethod
    def of(cls, u):
        return cls(u)

    @staticmethod
    def scale():
        return 3.0


# ---- named tuples


@row(ops=2)
def named_tuple_default(x):
    p = Pair(x + 1.0)
    return p.first * p.second


@row(ops=3)
def named_tuple_methods(x):
    c = Cell.of(x)
    return c.step().u * c.rate * Cell.scale() if c.rate == 1.0 and c._fields == ("u", "dt") else x


@row(ops=1)
def named_tuple_as_tuple(x):
    p = Pair(1, 2)
    a, *rest = Pair(x * 2.0, 7)
    return a, rest, p == (1, 2), 2 in p, p + (3,), p[:1], len(p), [*p], p < (1, 3), isinstance(p, tuple), type(p) is Pair


@row(ops=1)
def named_tuple_made_of_list(x):
    return Pair._make([x * 2.0, 5])


@row(lambda n: (f64(n), Cell(f64(n), 0.25)), ops=1)
def named_tuple_stepped(x, c):
    return c.step(), x


@row(lambda n: (f64(n), Pair(f64(n), 2.0)), ops=1)
def named_tuple_replaced_argument(x, p):
    q = p._replace(second=p.first * p.second)
    return q, p is q, p


@row(lambda n: (f64(n), [Pair(f64(n), 2.0), Pair(f64(n), 3.0)]), ops=4)
def named_tuples_in_a_list(x, ps):
    for a, b in ps:
        x = x + a * b
    return x


# ---- default dicts, ordered dicts, counters


@row(ops=2)
def default_dict_of_function(x):
    d = defaultdict(lambda: x * 2.0)
    return d["a"] + d["a"], len(d), d.get("b"), list(d)


@row(ops=1)
def default_dict_made_of_dict(x):
    d = defaultdict(dict, {"a": {"b": 1}}, c={"d": x * 2.0})
    d["e"]["f"] = d["c"]["d"]
    return d, d.default_factory is dict


@row(lambda n: (f64(n), defaultdict(list, k=[1.0])), ops=1)
def default_dict_argument(x, d):
    d["k"].append(x * 2.0)
    d["new"].append(x)
    d.pop("k")
    return len(d)


@row(lambda n: (f64(n), defaultdict(lambda: n, a=1)), ops=1)
def default_dict_argument_with_function(x, d):
    d["b"] += d["a"]
    return x * d["b"]


@row(lambda n: (f64(n),), ops=1)
def default_dict_whose_factory_stores_another(x):
    d = defaultdict(lambda: d.setdefault("k", 1) and 2)
    return x + d["k"], d["k"], list(d.items())


@row(ops=1)
def ordered_dict_methods(x):
    d = OrderedDict([("a", x + 1.0), ("b", 2)], c=3)
    d.move_to_end("a")
    d.move_to_end("c", last=False)
    last = d.popitem()
    d.update(e=5)
    d.setdefault("b", 7)
    del d["b"]
    return last, d.popitem(last=False), d, list(d.items()), d.copy()


def ordered(n):
    d = OrderedDict(a=2.0, b=f64(n), c=3)
    d.move_to_end("a")
    return f64(n), d


@row(ordered, ops=2)
def ordered_dict_argument(x, d):
    for key, value in d.items():
        x = x * value if key != "c" else x
    d.move_to_end("b")
    d["n"] = len(d)
    return x, d.popitem(False)


@row(ops=1)
def counter(x):
    c = Counter("abca")
    c["z"] += 1
    return x * c["a"], c["none"], c, len(c), "none" in c, list(c.items())


# ---- deques


@row(ops=2)
def deque_methods(x):
    d = deque((1, 2, 3))
    d.rotate(1)
    d.appendleft(x * 2.0)
    d.extendleft([7, 8])
    d.extend((9,))
    d.reverse()
    d.insert(1, "i")
    d[2] = x + 1.0
    del d[0]
    e = d.copy()
    e.clear()
    return d, e, [v for v in d], 9 in deque([9, 8]), bool(e), list(d), d.pop(), deque([1, 2, 1]).count(1)


@row(ops=1)
def deque_with_maxlen(x):
    d = deque([1, 2, 3, 4], 3)
    d.append(x * 2.0)
    d.extendleft([5, 6])
    return d, d.maxlen, deque(maxlen=2)


@row(lambda n: (f64(n), deque([f64(n), 2.0, 3], maxlen=3)), ops=3)
def deque_argument_shifted(x, d):
    for v in d:
        x = x + v
    d.append(x)
    d.rotate(-1)
    return d.popleft(), len(d)


@row(lambda n: (f64(n), deque([f64(n), f64(n)])), ops=1)
def deque_argument_stored(x, d):
    d[0] = d[-1] * 2.0
    del d[1]
    d.extend([x, 1])
    return len(d)


# ---- enums


class Mode(enum.Enum):
    ADD = 1
    MUL = 2

    def apply(self, x):
        return x + 1.0 if self is Mode.ADD else x * 2.0

    @property
    def twice(self):
        return self.value * 2

    @classmethod
    def best(cls):
        return cls.MUL


class Part(enum.Flag):
    HEAD = 1
    BODY = 2
    TAIL = 4


class Number(enum.IntFlag):
    ONE = 1
    TWO = 2


@row(ops=2)
def enum_iterated(x):
    for mode in Mode:
        x = mode.apply(x)
    return x, list(Mode), len(Mode), Mode.MUL in Mode, Mode.MUL.twice, Mode.best()


@row(ops=1)
def enum_flags(x):
    f = Part.HEAD | Part.BODY
    g = f & ~Part.HEAD
    f |= Part.TAIL
    known = Part.HEAD in f and Part.TAIL not in g and bool(f & Part.TAIL) and Part(3) is Part.HEAD | Part.BODY
    return x * g.value if known else x, f, g, f ^ Part.HEAD, Number.ONE | 4, Number(3), Number.ONE + 1


@row(lambda n: (f64(n), Mode.MUL), ops=1)
def enum_method_of_argument(x, mode):
    return mode.apply(x), Mode(mode.value) is mode, Mode[mode.name]


# ---- sorting with a key


class Weight:
    def __init__(self, w):
        self.w = w

    def of(self, v):
        return v * self.w


@row(lambda n: (f64(n), [float(n), 1.5, 2.5]), ops=1)
def sorted_by_key(x, a):
    first, second = sorted(a, key=lambda v: -v), sorted(a, key=Weight(2.0).of, reverse=True)
    return x * first[0], first == second, max(a, key=abs), min(3, 1, 2, key=lambda v: v % 3)


@row(ops=2)
def sorted_arrays(x):
    pairs = sorted([(2, x + 1.0), (1, x * 2.0)], key=lambda t: t[0])
    return [y for _, y in pairs]


@row(ops=1)
def sorted_by_methods(x):
    d = {"b": 2, "a": 1}
    return sorted(d.items(), key=lambda t: t[1]), max(d, key=d.get), sorted(["B", "a"], key=str.lower), x * len(d)


@row(lambda n: (f64(n), [3, 1, 2]), ops=1)
def list_argument_sorted_by_key(x, a):
    a.sort(key=lambda v: -v)
    a.sort(key=lambda v: v % 2, reverse=True)
    return x * a[0]


# ---- views


@row(ops=1)
def views_are_live(x):
    d = {"a": 1, "b": 2}
    keys, values, items = d.keys(), d.values(), d.items()
    d["b"] = x * 2.0
    d["c"] = 3
    return list(keys), list(values), list(items), len(items), "c" in keys, keys, values


@row(ops=1)
def views_as_sets(x):
    d, e = {"a": 1, "b": 2}, {"b": 2, "c": 3}
    return d.keys() & e.keys(), d.keys() - {"a"}, d.keys() | e, d.items() ^ e.items(), d.keys() == {"a", "b"}, x * sum(d.values())


@row(ops=2)
def stored_in_a_loop_over_items(x):
    d, out = {"a": 1, "b": x}, []
    for key, value in d.items():
        d["b"] = x * 3.0
        out.append(value)
    return out, d


# ---- comparisons, sets in place, keys


@row(ops=1)
def sequences_compared(x):
    a, b = [1, (2.0, x)], [1, (3.0, x)]
    return a < b, a == b, (1, x) == (1, x), [x] == [], (1, 2) < (1, 2, x), x * 2.0


@row(ops=1)
def sets_in_place(x):
    s = t = {1, 2}
    s |= {3}
    s -= {1}
    s &= {2, 3}
    s ^= {9}
    return s is t, s, x * len(s)


@row(ops=1)
def keyed_by_types(x):
    d = {int: 1, float: x * 2.0}
    return d[type(1.0)], d[int], list(d)


@row(ops=1)
def fresh_objects_compared(x):
    a, b = Weight(1.0), Weight(1.0)
    return a == b, a != b, a is b, [] is [], x * 2.0


# ---- members of enums as keys, Counters that come in

SCALES = {Mode.ADD: 2.0, Mode.MUL: 0.5}


@row(lambda n: (f64(n), Mode.MUL), ops=1)
def enum_as_key(x, mode):
    return x * SCALES[mode]


@row(ops=2)
def enum_keys_made_inside(x):
    rows = {mode: x * scale for mode, scale in SCALES.items()}
    return rows[Mode.ADD], Mode.MUL in rows, rows


@row(lambda n: (f64(n), Counter("aab")), ops=2)
def counter_came_in(x, c):
    c["a"] += 1
    return x * c["a"] + c["nothing"], len(c), c.get("b"), [k for k, _ in c.items()]
