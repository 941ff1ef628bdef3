"""Containers of `collections`, named tuples and enums that come in: what is read of them is guarded, what is changed is changed
again, and identity and aliasing hold."""

import copy
import enum
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import pytest
from case import f64
from compare import dynoc

Pair = namedtuple("Pair", "first second")
Other = namedtuple("Other", "first second")


class WithDict(Pair):
    pass


class Strange(Pair):
    def __len__(self):
        return 7

    def __iter__(self):
        return iter((5.0, 6.0))


class Missing(dict):
    def __missing__(self, key):
        return 4.0


def same(fn, arguments, limit=64):
    """fn gives the same, and changes its arguments alike, in this order of calls."""
    fast = dynoc.optimize(fn, wait=True, options={"cache_limit": limit})
    for make in arguments:
        for _ in range(2):
            mine, its = make(), make()
            try:
                want = fn(f64(4), *mine)
            except Exception as error:
                with pytest.raises(type(error), match=r".*"):
                    fast(f64(4), *its)
            else:
                assert repr(fast(f64(4), *its)) == repr(want)
            assert repr(its) == repr(mine)
            assert [type(a) for a in its] == [type(a) for a in mine]
    return fast


def moved(od, key, last=True):
    od.move_to_end(key, last)
    return od


def hidden(od):
    od.get = lambda key: 9.0
    return od


def tagged(p):
    p.tag = 3.0
    return p


def read_dict(x, d):
    total = x
    for key, value in d.items():
        total = total + value if key != "c" else total * value
    return total, d.get("a"), d["b"], list(d), "z" in d, len(d)


def test_dicts_of_all_kinds():
    same(
        read_dict,
        [
            lambda: (OrderedDict(a=1.0, b=2.0),),
            lambda: (OrderedDict(b=1.0, a=2.0),),
            lambda: (moved(OrderedDict(b=1.0, a=2.0), "b"),),
            lambda: (moved(OrderedDict(b=1.0, a=2.0, c=3), "c", False),),
            lambda: (OrderedDict(a=1, b=2.0),),
            lambda: (OrderedDict(a=f64(4), b=2.0),),
            lambda: (OrderedDict(a=1.0),),
            lambda: (hidden(OrderedDict(a=1.0, b=2.0)),),
            lambda: (dict(a=1.0, b=2.0),),
            lambda: (defaultdict(float, a=1.0, b=2.0),),
            lambda: (defaultdict(float, a=1.0),),
            lambda: (defaultdict(None, a=1.0),),
            lambda: (defaultdict(int, a=1.0),),
            lambda: (Counter(a=1.0, b=2.0),),
            lambda: (Missing(a=1.0),),
        ],
    )


def change_dict(x, d):
    d["n"] = x * d["a"]
    d["a"] += 1
    d.setdefault("s", []).append(2)
    d.pop("b", None)
    d.update(u=x)
    return len(d)


def test_dicts_are_changed():
    fast = same(change_dict, [lambda: (OrderedDict(a=1.0, b=2),)] * 3 + [lambda: (defaultdict(list, a=1.0, b=2),)] * 3)
    assert [e.end for e in fast.entries] == ["return"] * 2


def shift(x, d):
    d.append(x + d[0])
    d.appendleft(2.0)
    return d.pop(), len(d), d.maxlen


def test_deques():
    fast = same(
        shift,
        [
            lambda: (deque([1.0, 2.0]),),
            lambda: (deque([3.0, 2.0]),),
            lambda: (deque([1.0, 2.0], maxlen=2),),
            lambda: (deque([1.0, 2.0], maxlen=3),),
            lambda: (deque([1.0, 2.0], maxlen=0 + 2),),
            lambda: (deque([f64(4), 2.0]),),
            lambda: (deque([1.0]),),
            lambda: (deque(),),
            lambda: ([1.0, 2.0],),
        ],
    )
    assert sum(e.end == "return" for e in fast.entries) == 5


def two(x, a, b):
    a.append(x)
    b.append(len(a))
    return a is b, len(b), list(a)


def test_aliasing():
    def once(make):
        def arguments():
            a = make()
            return a, a

        return arguments

    for kind in (deque, list):
        fast = same(two, [lambda: (kind(), kind()), once(kind), lambda: (kind(), kind()), once(kind)])
        assert len(fast.entries) <= 2


def named(x, p):
    a, b = p
    return x * p.first + p[1], p._replace(second=x), a, b, len(p), type(p).__name__


def test_named_tuples():
    fast = same(
        named,
        [
            lambda: (Pair(2.0, 3.0),),
            lambda: (Pair(4.0, 5.0),),
            lambda: (Pair(4, f64(4)),),
            lambda: (Other(2.0, 3.0),),
            lambda: (WithDict(2.0, 3.0),),
            lambda: (tagged(WithDict(2.0, 3.0)),),
            lambda: (Strange(2.0, 3.0),),
            lambda: ((2.0, 3.0),),
        ],
    )
    assert len(fast.entries) <= 7


def field(x, p):
    return x * p.first


def test_class_of_a_named_tuple_is_changed():
    class Local(namedtuple("Local", "first second")):
        __slots__ = ()

    fast = dynoc.optimize(field, wait=True)
    assert fast(f64(4), Local(2.0, 1.0))[0] == f64(4)[0] * 2.0
    assert fast(f64(4), Local(3.0, 1.0))[0] == f64(4)[0] * 3.0
    assert len(fast.entries) == 1
    Local.first = property(lambda self: 10.0)
    assert fast(f64(4), Local(2.0, 1.0))[0] == f64(4)[0] * 10.0


class Shade(enum.Enum):
    DARK = 1
    LIGHT = 2

    @classmethod
    def _missing_(cls, value):
        SEEN.append(value)
        return cls.DARK


class Plain(enum.Enum):
    DARK = 1
    LIGHT = 2


SEEN = []


def looked_up(x, kind, value):
    return x * kind(value).value, kind(value)


def test_enum_looked_up():
    same(looked_up, [lambda: (Plain, 1), lambda: (Plain, 2), lambda: (Shade, 2), lambda: (Shade, 7), lambda: (Plain, 7)])
    SEEN.clear()
    fast = dynoc.optimize(looked_up, wait=True)
    for _ in range(3):
        fast(f64(4), Shade, 9)
    assert SEEN == [9] * 6


def made(x):
    d, e, g, c = deque([x + 1.0, 2], maxlen=5), OrderedDict(a=x * 2.0), defaultdict(list, {1: [x]}), Counter("ab")
    p = Pair(x, d)
    dynoc.graph_break()
    d.append(e["a"])
    g[2].append(1)
    return d, e, g, c, p, p.second is d, x * 3.0


def test_they_live_on_behind_a_break():
    fast = dynoc.optimize(made, wait=True)
    for _ in range(3):
        assert repr(fast(f64(4))) == repr(made(f64(4)))
    assert len(fast.entries) == 2


def result_is_its_own(x):
    d, q = defaultdict(list), deque([[x]])
    d["a"].append(q)
    return d, q, x + 1.0


def test_results_are_new_at_every_call():
    fast = dynoc.optimize(result_is_its_own, wait=True)
    first, second = fast(f64(4)), fast(f64(4))
    assert first[0]["a"][0] is first[1] and second[0]["a"][0] is second[1]
    assert first[0] is not second[0] and first[1] is not second[1] and first[1][0] is not second[1][0]
    assert copy.copy(first[0]).default_factory is list
    np.testing.assert_array_equal(first[2], second[2])


def least_of(x, a, b):
    return min(a, b), max(a, b), x + 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: (deque([1, 2]), deque([1, 3])),
        lambda: (deque([2.0, 2.0]), deque([1.0, 3.0], maxlen=4)),
        lambda: (deque(), deque([1])),
        lambda: (Pair(1.0, 2.0), Pair(1.0, 3.0)),
        lambda: (Pair(3, 2), (1, 5)),
        lambda: ({"a": 1}.keys(), {"a": 2, "b": 3}.keys()),
        lambda: (deque([1j]), deque([2j])),
        lambda: (deque(["a"]), deque([1])),
        lambda: (deque([1]), [1]),
        lambda: (deque([1]), 3),
        lambda: ({"a": 1}, {"b": 2}),
        lambda: (iter([1]), iter([2])),
    ],
    ids="deques maxlen empty named mixed views complex texts list number dicts iterators".split(),
)
def test_min_and_max_compare_what_they_are_given(make):
    """Several arguments are compared as they are; only the items of one argument are taken out of it."""
    fast = dynoc.optimize(least_of, wait=True)
    for _ in range(2):
        try:
            want = repr(least_of(f64(4), *make()))
        except TypeError as error:
            with pytest.raises(TypeError) as caught:
                fast(f64(4), *make())
            assert str(caught.value) == str(error)
        else:
            assert repr(fast(f64(4), *make())) == want
