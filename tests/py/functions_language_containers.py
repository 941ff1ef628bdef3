"""Rows of the capture table about containers: made inside, and ones that come in and are changed; strings, sets, iteration."""

import copy
import operator
from collections import OrderedDict, defaultdict, deque

import numpy as np  # noqa: F401
from case import f64
from language import row

LOG = []
REGISTRY = {}


def forget():
    LOG.clear()
    REGISTRY.clear()


def state():
    return copy.deepcopy((LOG, REGISTRY))


# ---- lists


@row(ops=2)
def list_methods(x):
    a = [x]
    a.append(x + 1.0)
    a.extend((x * 2.0, 5))
    a.insert(0, 7)
    a.reverse()
    last = a.pop()
    del a[0]
    return a, last


@row(ops=1)
def list_of_numbers(x):
    a = [3, 1, 2]
    a.sort()
    return x * a[0], a.index(2), a.count(3), 2 in a


@row(ops=1)
def list_slices(x):
    a = [1, 2, 3, x, 5]
    a[1:3] = [9]
    b = a[::-1]
    return b[1] * 2.0, b, a


@row(ops=1)
def list_sort_key(x):
    a = sorted([(2, "b"), (1, "a")], key=lambda t: t[0], reverse=True)
    return x * a[0][0]


@row(ops=1)
def list_remove_clear(x):
    a = [1, 2, 3]
    a.remove(2)
    b = a.copy()
    a.clear()
    return x * len(b), a


@row(ops=1)
def list_multiplied(x):
    return [x + 1.0] * 3, [1] + [2], (1,) * 2


@row(ops=1)
def list_compared(x):
    return x + 1.0 if [1, 2] == [1, 2] and (1, 2) < (1, 3) and [1] != [2] else x


@row(lambda n: (f64(n), []), ops=1)
def list_argument_appended(x, out):
    out.append(x * 2.0)


@row(lambda n: (f64(n), [1.0, f64(n)]), ops=3)
def list_argument_changed(x, a):
    a[0] = x + 1.0
    a.append(a[0] * 2.0)
    a.insert(0, "first")
    a.extend([x, 1])
    b = a.pop()
    del a[1]
    return a[1] + b, len(a)


@row(lambda n: (f64(n), [3, 1, 2]), ops=1)
def list_argument_sorted(x, a):
    a.sort()
    a.reverse()
    return x * a[0]


@row(lambda n: (f64(n), [1]), ops=1)
def list_argument_extended(x, a):
    a += [x + 1.0]
    return a


@row(lambda n: (f64(n), *([[]] * 2)), ops=1)
def same_list_twice(x, a, b):
    a.append(x + 1.0)
    b.append(len(a))
    return a is b, len(b)


@row(lambda n: (f64(n), [], []), ops=1)
def two_lists(x, a, b):
    a.append(x + 1.0)
    b.append(a)
    return len(b)


@row(lambda n: (f64(n), [f64(n), f64(n)]), ops=2)
def list_argument_items_replaced(x, a):
    for i in range(len(a)):
        a[i] = a[i] + x


@row(lambda n: (f64(n), [f64(n), 2.0, 3]), ops=3)
def list_argument_iterated(x, a):
    for v in a:
        x = x + v
    return x


# ---- tuples


@row(ops=1)
def tuple_swapped(x):
    a, b = x + 1.0, 2
    a, b = b, a
    return a, b


@row(ops=1)
def tuple_starred(x):
    first, *middle, last = (x, 1, 2, 3)
    return first * last, middle


@row(ops=1)
def tuple_nested(x):
    (a, (b, c)), d = (x, (2.0, 3)), 4
    return a * b, c + d


# ---- dicts


@row(ops=2)
def dict_methods(x):
    d = {"a": x}
    d["b"] = d["a"] * 2.0
    d.update(c=3, a=x + 1.0)
    d.setdefault("e", []).append(1)
    last = d.pop("c")
    del d["b"]
    return d, last, d.get("z"), d.get("z", 4), "a" in d, len(d)


@row(ops=1)
def dict_of_ints(x):
    d = {i: i * i for i in range(4)}
    return x * d[3], list(d), sum(d.values())


@row(ops=1)
def dict_views(x):
    d = {"a": 1, "b": 2}
    return x * sum(v for k, v in d.items() if k in d.keys()), list(d.keys()), list(d.values())


@row(ops=1)
def dict_union(x):
    d = {"a": 1} | {"b": x + 1.0}
    d |= {"c": 3}
    return {**d, "a": 0}


@row(ops=1)
def dict_from_pairs(x):
    d = dict([("a", x + 1.0), ("b", 2)], c=3)
    return d, dict.fromkeys(("p", "q"), 0)


@row(ops=1)
def dict_of_tuples(x):
    d = {(0, 1): x * 2.0, None: 3, True: 4}
    return d[0, 1], d[None]


@row(ops=1)
def dict_order(x):
    d = {"b": 1, "a": 2}
    d["b"] = x + 1.0
    return list(d), sorted(d), d.popitem()[0], next(iter(d)), list(reversed(d))


@row(lambda n: (f64(n), {}), ops=1)
def dict_argument_stored(x, out):
    out["y"] = x * 2.0


@row(lambda n: (f64(n), {"a": f64(n), "n": 1}), ops=2)
def dict_argument_changed(x, d):
    d["a"] = d["a"] + x
    d["n"] += 1
    d["list"] = [d["a"] * 2.0]
    d.setdefault("k", 3)
    d.update(z=1)
    return len(d), d.pop("n")


@row(lambda n: (f64(n), {"w": f64(n), "b": 1.0}), ops=2)
def dict_argument_read(x, params):
    return x * params["w"] + params["b"]


@row(lambda n: (f64(n), {"w": f64(n), "b": 1.0}), ops=2)
def dict_argument_iterated(x, params):
    for key, value in params.items():
        x = x + value if key != "c" else x
    return x


@row(lambda n: (f64(n), {1: 2.0, "b": 1.0}), ops=1)
def dict_argument_deleted(x, d):
    del d["b"]
    return x * d[1]


@row(ops=1)
def default_dict(x):
    d = defaultdict(list)
    d["a"].append(x + 1.0)
    d["a"].append(2)
    return d["a"], len(d), "b" in d


@row(ops=1)
def default_dict_returned(x):
    d = defaultdict(int)
    d["n"] += 3
    return d, x * d["n"]


@row(ops=1)
def ordered_dict(x):
    d = OrderedDict()
    d["b"] = 1
    d["a"] = x + 1.0
    d.move_to_end("b")
    return list(d), d["a"]


# ---- sets


@row(ops=1)
def sets(x):
    s = {1, 2} | {3}
    s.add(4)
    s.discard(1)
    return x * len(s), 2 in s, s & {2, 9}, s - {2}, s ^ {5}, s <= {2, 3, 4}


@row(ops=1)
def set_of_strings(x):
    s = {name for name in ("a", "b", "a")}
    return x * len(s), "a" in s, sorted(s)


@row(ops=1)
def frozen_sets(x):
    s = frozenset((1, 2))
    return x * len(s), 1 in s, s | {3}


@row(lambda n: (f64(n), {1, 2}), ops=1)
def set_argument(x, s):
    s.add(7)
    return x * len(s), 1 in s


# ---- deques, ranges, bytes


@row(ops=2)
def deques(x):
    d = deque([x], maxlen=2)
    d.append(x + 1.0)
    d.append(x * 2.0)
    return d.popleft(), len(d), d[0]


@row(lambda n: (f64(n), deque()), ops=1)
def deque_argument(x, d):
    d.append(x + 1.0)
    d.appendleft(2)
    return len(d)


@row(ops=1)
def ranges(x):
    r = range(2, 10, 3)
    return x * r[1], len(r), 5 in r, list(r), r.start, r[::-1], r.stop


@row(ops=1)
def byte_strings(x):
    b = b"abc"
    return x * b[0], b + b"d", b[1:], len(b), b.hex()


@row(ops=2)
def slices(x):
    s = slice(1, None, 2)
    return x[s] * 2.0, s.start, s.step, s.indices(5)


# ---- strings


@row(lambda n: (f64(n), "Name,other"), ops=1)
def string_methods(x, s):
    a, b = s.split(",")
    t = a.lower() + b.upper() + "-".join([a, b]) + a[1:] + s.replace("o", "0").strip()
    return x * len(t), t.startswith("name"), t.find("-"), "me" in s, f"{a}:{b!r:>10}"


@row(lambda n: (f64(n), 3), ops=1)
def formatted(x, k):
    return x * k, f"{k}", f"{k:>4d} {k!r}", "%d %s" % (k, "a"), "{} {a}".format(k, a="b"), str(k)


@row(ops=1)
def formatted_shape(x):
    return x + 1.0, f"{x.ndim}-d {x.dtype}"


@row(ops=1)
def characters(x):
    return x * sum(ord(c) - 96 for c in "abc"), "".join(reversed("abc")), [*"ab"]


# ---- effects on globals


@row(ops=1, reset=forget, observe=state)
def global_list(x):
    LOG.append(x + 1.0)
    return len(LOG)


@row(ops=1, reset=forget, observe=state)
def global_dict(x):
    REGISTRY["x"] = x + 1.0
    REGISTRY[3] = len(REGISTRY)


@row(ops=2, reset=forget, observe=state)
def effects_in_order(x):
    LOG.append(1)
    REGISTRY["a"] = LOG
    y = x * 2.0
    LOG.append(y)
    LOG[0] = y + 1.0
    return REGISTRY["a"] is LOG


@row(lambda n: (f64(n), []), ops=4)
def array_and_list(x, out):
    x += 1.0
    out.append(x)
    x *= 2.0


@row(lambda n: (f64(n), []), ops=2)
def views_in_a_list(x, out):
    out.append(x[1:])
    out.append(out[0] * 2.0)


@row(ops=1)
def item_operators(x):
    d = {"a": x, "b": (1, 2)}
    return operator.itemgetter("a")(d) * 2.0, operator.itemgetter(0, 1)(d["b"]), operator.getitem([5], 0)
