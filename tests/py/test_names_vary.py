"""Dicts whose keys vary from call to call, and items read by names that vary: one entry serves them all, from the first miss on,
and what eager gives is given for every one of them."""

import copy

import numpy as np
import pytest
from case import f64
from compare import dynoc


class Parameter:
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Parameter({self.value!r})"


class Parameters(dict):
    """A dict of other things too, as lmfit's is."""


class Scaled(dict):
    def __getitem__(self, name):
        return 2 * super().__getitem__(name)


def outcome(fn, arguments):
    """What a call gives or raises, and its arguments behind it."""
    try:
        result = fn(*arguments)
    except Exception as error:
        result = (type(error), str(error))
    return repr(result), repr(arguments)


def entries_for(fn, calls, wait=True):
    """How many entries these calls need; each gives what eager gives."""
    dynoc.counters.clear()
    fast = dynoc.optimize(fn, wait=wait)
    for arguments in calls:
        mine, its = copy.deepcopy(arguments), copy.deepcopy(arguments)
        assert outcome(fast, its) == outcome(fn, mine)
    return dynoc.counters.get("graphs", {}).get("captured", 0)


def dicts(names, make=dict, value=float, calls=12):
    return [(make({f"{name}{i}": value(k) for k, name in enumerate(names)}), f64(6)) for i in range(calls)]


def by_items(d, x):
    total = x * 0
    for _, v in d.items():
        total = total + v * x
    return total


def by_values_of_objects(d, x):
    total = x * 0
    for p in d.values():
        total = total + p.value * x
    return total


def by_keys(d, x):
    total = x * 0
    for name in d:
        total = total + d[name] * x
    return total


def by_zip(d, x):
    total = x * 0
    for (_, v), i in zip(d.items(), range(len(d))):
        total = total + v * i * x
    return total, list(d), tuple(d.items()), sum(d.values())


def by_enumerate(d, x):
    for i, name in enumerate(d):
        x = x + d[name] * i
    return x, [*d]


def by_hand(d, x):
    rest = iter(d.items())
    name, first = next(rest)
    return x * first, name, [*rest]


def broken(d, x):
    for name, v in d.items():
        x = x * v
        if name:
            dynoc.graph_break()
        x = x + 1
    return x


@pytest.mark.parametrize("fn", [by_items, by_keys, by_zip, by_enumerate, by_hand])
def test_one_entry_walks_over_all_names(fn):
    assert entries_for(fn, dicts("abc")) == 2


def test_values_that_are_objects():
    assert entries_for(by_values_of_objects, dicts("abc", value=Parameter)) == 2


def test_another_number_of_names_is_another_entry():
    calls = dicts("abc") + dicts("abcd") + dicts("abc")
    assert entries_for(by_items, calls) == 3


def test_a_loop_that_breaks():
    entries_for(broken, dicts("abc"))


def test_waiting_for_the_compiler():
    entries_for(by_items, dicts("abc", calls=40), wait=False)


def item(d, name, x):
    return d[name].value * x + 1


def items(d, names, x):
    total = x * 0
    for name in names:
        total = total + d[name].value * x
    return total


@pytest.mark.parametrize("make", [dict, Parameters])
def test_items_by_name(make):
    d = make({name: Parameter(float(i)) for i, name in enumerate("abcdefgh")})
    assert entries_for(item, [(d, name, f64(6)) for name in "abcdefgha"]) == 2
    triples = ["abc", "bcd", "cde", "aaa", "hgf", "aba"]
    calls = [(d, list(names), f64(6)) for names in triples]
    assert entries_for(items, calls) <= 3, "objects that are one where two were, or two where one was"


def test_an_item_of_any_other_kind_or_none():
    d = {"a": Parameter(1.0), "b": Parameter(2.0), "c": Parameter(np.float32(3)), "d": 4.0}
    entries_for(item, [(d, name, f64(6)) for name in ("a", "b", "c", "d", "e", "a", "e", 5, None)])


def test_a_class_with_an_item_access_of_its_own():
    def scaled(d, name, x):
        return d[name] * x

    calls = [(Scaled({"a": 1.0, "b": 2.0}), name, f64(3)) for name in "abab"]
    entries_for(scaled, [*calls, ({"a": 1.0, "b": 2.0}, "b", f64(3)), *calls])


class Name(str):
    def __hash__(self):
        return hash("a")

    def __eq__(self, other):
        return True


def test_a_name_that_is_no_plain_string():
    def plain(d, name, x):
        return d[name] * x

    entries_for(plain, [({"a": 1.0, "b": 2.0}, name, f64(3)) for name in ("a", "b", Name("b"), "a", Name("z"))])


# ---- what the names are is asked for after all


def compared(d, x):
    total = x * 0
    for name, v in d.items():
        total = total - v * x if name == "b1" else total + v * x
    return total


def looked_up_behind(d, x):
    total = x * 0
    for v in d.values():
        total = total + v * x
    return total, d.get("a1"), "b2" in d, d.keys() | {"z"}


def copied(d, x):
    total = x * sum(d.values())
    return total, d.copy(), dict(d), {**d}, d | {"z": 1.0}


def written(d, x):
    for name in list(d):
        d[name] = d[name] * 2
        x = x + d[name]
    return x


def written_behind(d, x):
    for v in d.values():
        x = x * v
    d["new"] = x.sum()
    for v in d.values():
        x = x + v
    return x


def grown_on_the_way(d, x):
    for name, v in d.items():
        x = x * v
        d[name + "_"] = 1.0
    return x


def emptied(d, x):
    for v in d.values():
        x = x * v
    last = d.popitem()
    d.clear()
    return x, last


def stored_by_name(d, x):
    view = d.keys()
    d[next(iter(d))] = 7.0
    return x * len(d), view, sorted(d), d


@pytest.mark.parametrize(
    "fn",
    [compared, looked_up_behind, copied, written, written_behind, grown_on_the_way, emptied, stored_by_name],
)
def test_names_that_matter(fn):
    entries_for(fn, dicts("abc", calls=6) + dicts("abc", calls=6))


def test_the_same_names_in_another_order():
    orders = ["abc", "bca", "cab", "acb"]
    calls = [({name: float(ord(name)) for name in order}, f64(4)) for order in orders * 2]
    for fn in (by_items, by_keys, compared, looked_up_behind, written):
        entries_for(fn, calls)


def test_dicts_with_holes():
    def with_hole(i):
        d = {f"{name}{i}": float(k) for k, name in enumerate("abcd")}
        del d[f"b{i}"]
        return d, f64(4)

    assert entries_for(by_keys, [with_hole(i) for i in range(6)]) == 2


def test_keys_that_are_no_strings_and_very_many():
    numbers = [({i: 1.0, (i, 2): 2.0, f"c{i}": 3.0}, f64(4)) for i in range(5)]
    many = [({f"n{k}_{i}": float(k) for k in range(40)}, f64(4)) for i in range(4)]
    entries_for(by_items, numbers)
    entries_for(by_keys, many)


# ---- two names for one dict


def two(d, e, x):
    total = x * 0
    for v in d.values():
        total = total + v * x
    e["a"] = 5.0
    for v in d.values():
        total = total + v * x
    return total


def one_by_name(d, e, name, x):
    first = d[name] * x
    e["a"] = 5.0
    return first + d[name] * x, d[name]


def test_one_dict_as_two():
    def calls(fn):
        dynoc.counters.clear()
        fast = dynoc.optimize(fn, wait=True)
        for turn in range(8):
            for alike in (True, False):

                def arguments(turn=turn, alike=alike):
                    d = {"a": 1.0, "b": 2.0, f"c{turn}": 3.0}
                    e = d if alike else dict(d)
                    return (d, e, "ab"[turn % 2], f64(3)) if fn is one_by_name else (d, e, f64(3))

                assert outcome(fast, arguments()) == outcome(fn, arguments())

    calls(two)
    calls(one_by_name)


def test_one_array_under_two_names():
    def add(d, name, x):
        d["a"] += 1
        return d[name] + x

    dynoc.counters.clear()
    fast = dynoc.optimize(add, wait=True)
    for alike in (False, True, False, True):
        for name in ("a", "b", "c"):

            def arguments(alike=alike, name=name):
                a, b = f64(3), f64(3) + 1
                return {"a": a, "b": a if alike else b, "c": b}, name, f64(3)

            assert outcome(fast, arguments()) == outcome(add, arguments())


def test_the_log_says_what_is_guarded(caplog, monkeypatch):
    monkeypatch.setattr(dynoc.config, "logs", "guards")
    fast = dynoc.optimize(by_keys, wait=True)
    for arguments in dicts("ab", calls=3):
        fast(*arguments)
    assert "len(d) == 2" in caplog.text
    assert "type(list(d.values())[1]) is float" in caplog.text
