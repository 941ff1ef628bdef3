"""Native loops over dicts and sets: their order, the kinds of keys and values, and what happens where they change in mid-loop."""

import gc
import sys

import dynoc
import pytest
from dynoc import _dynoc
from regions import Case, check


def keys(d, out):
    for k in d:
        out.append(k)
    return out


def values(d, out):
    for v in d.values():
        out.append(v)
    return out


def items(d, out):
    for k, v in d.items():
        out.append(k)
        out.append(v)
    return out


MIXED = {1: 2.5, "a": True, 2: None, "name": "x", 3.5: 7, True: 1.0, None: "\xff", False: "none"}
DICTS = {
    "ints": {i * 7 % 11: i for i in range(11)},
    "strs": {name: len(name) * 0.5 for name in "a few words of several lengths".split()},
    "floats": {i * 0.25: -i for i in range(5)},
    "bools": {True: 1, False: 0},
    "empty": {},
    "large": {i: i * i for i in range(1000)},
}


def with_holes():
    d = {i: str(i) for i in range(20)}
    for i in (0, 1, 7, 19):
        del d[i]
    d[7] = "again"
    return d


DICTS["holes"] = with_holes()


@pytest.mark.parametrize("of", [d for d in DICTS if d not in ("empty", "large")])
def test_keys_values_and_items(of):
    d = DICTS[of]
    for function, view in ((keys, d), (values, d.values()), (items, d.items())):
        text = check(function, (d, []), [iter(view)])
        assert "dict.next" in text and "same.size" in text


def test_keys_and_values_of_several_kinds():
    check(keys, (MIXED, []), [iter(MIXED)])
    check(values, (MIXED, []), [iter(MIXED.values())])


def test_in_their_middle():
    d = DICTS["holes"]
    for function, view in ((keys, d), (values, d.values()), (items, d.items())):
        it = iter(view)
        next(it), next(it)
        check(function, (d, []), [it])


def test_sets():
    s = {3, 1, 100, 7}
    s.discard(1)
    check(keys, (s, []), [iter(s)])
    check(keys, ({"b", "a", "cc"}, []), [iter({"b", "a", "cc"})])
    check(keys, ({1, "a", 2.5, None}, []), [iter({1, "a", 2.5, None})])


def test_enumerate_and_zip():
    def counted(d, out, each):
        for i, k in each:
            out.append(i)
            out.append(k)
        return out

    d = DICTS["ints"]
    check(counted, (d, [], None), [enumerate(d)])
    check(counted, (d, [], None), [zip(range(9), d.values())])

    def pairs(d, out):
        for i, (k, v) in enumerate(d.items()):
            out.append(i * k + v)
        return out

    check(pairs, (d, []), [enumerate(d.items())])


def test_within_other_loops():
    def inner(rows, total):
        for row in rows:
            for k in row:
                total += k
            for v in row.values():
                total += v
            for k, v in row.items():
                total += k * v
            for i, k in enumerate(row.keys()):
                total += i * k
        return total

    rows = [{1: 2, 3: 4}, {5: 6}, {7: 8, 9: 10, 11: 12}]
    check(inner, (rows, 0), [iter(rows)])

    def of_sets(rows, total):
        for row in rows:
            for k in row:
                total += k
        return total

    check(of_sets, ([{1, 2}, {3}, {70, 4}], 0), [iter([{1, 2}, {3}, {70, 4}])])


def test_comprehensions_and_sums():
    def by_sum(d, n, out):
        for _ in range(n):
            out.append(sum(d[k] for k in d))
            out.append(len([v for v in d.values()]))
        return out

    d = DICTS["ints"]
    fast = dynoc.optimize(by_sum, wait=True)
    for _ in range(3):
        assert fast(d, 50, []) == by_sum(d, 50, [])


# ---- dicts that change


def test_values_that_are_stored_on_the_way():
    def update(d):
        for k in d:
            d[k] += 1
        return d

    def by_items(d):
        for k, v in d.items():
            d[k] = v * 2
        return d

    d = DICTS["ints"]
    check(update, (d,), [iter(d)])
    check(by_items, (d,), [iter(d.items())])


def grow(d, at):
    for k in d:
        if k == at:
            d[k + 1000] = 1
    return d


def swap(d, at):
    for k in d:
        if k == at:
            del d[k]
            d[-1] = 5
    return d


def test_a_dict_that_changes_in_mid_loop_raises_as_in_cpython():
    d = {i: i for i in range(50)}
    for function in (grow, swap):
        for at in (0, 30, 49):
            check(function, (d, at), [iter(d)], forced=at == 30)
    fast = dynoc.optimize(grow, wait=True)
    fast(dict(d), -1)
    fast(dict(d), -1)
    with pytest.raises(RuntimeError, match="dictionary changed size during iteration") as native:
        fast(dict(d), 30)
    with pytest.raises(RuntimeError) as plain:
        grow(dict(d), 30)
    assert [e.value.__traceback__.tb_next.tb_lineno for e in (native, plain)] == [grow.__code__.co_firstlineno + 1] * 2


def test_a_set_that_changes_in_mid_loop_raises_as_in_cpython():
    def change(s, at):
        for k in s:
            if k == at:
                s.add(k + 1000)
        return s

    def discards(s, at):
        for k in s:
            if k == at:
                s.discard(k)
        return s

    s = set(range(40))
    for function in (change, discards):
        for at in (0, 20, 39):
            check(function, (s, at), [iter(s)], forced=at == 20)


def test_iterators_that_others_have():
    def rest(it, n, out):
        for k in it:
            out.append(k)
            if k == n:
                break
        return out

    fast = dynoc.optimize(rest, wait=True)
    d, s = {i: i for i in range(300)}, set(range(300))
    for make in (lambda: iter(d), lambda: iter(d.values()), lambda: iter(s)):
        for _ in range(2):
            a, b = make(), make()
            assert fast(a, 100, []) == rest(b, 100, [])
            assert fast(a, 500, []) == rest(b, 500, [])
            assert next(a, "end") == "end"
    assert all(loop.startswith("native") for loop in fast.loops)


# ---- sets that are asked and changed


def test_discard_and_remove():
    def change(s, xs, out):
        for x in xs:
            s.discard(x)
            out.append(x in s)
            if x + 1 in s:
                s.remove(x + 1)
            s.add(x + 100)
        return len(s)

    def by_name(s, xs):
        for x in xs:
            s.discard(x)
        return len(s)

    xs = [3, 1, 7, 90, 3, -1]
    check(change, (set(range(10)), xs, []), [iter(xs)])
    check(by_name, ({"a", "bb", "c"}, ["bb", "x", "a"]), [iter(["bb", "x", "a"])])


def test_remove_of_what_is_not_there_raises():
    def take(s, xs):
        for x in xs:
            s.remove(x)
        return len(s)

    xs = [1, 2, 3, 2, 5]
    check(take, (set(range(10)), xs), [iter(xs)])


def test_what_is_stored_later_has_its_kind_too():
    def fill(d, n, out):
        for i in range(n):
            d["k" + str(i)] = i
        for k in d:
            out.append(k)
        return out

    fast = dynoc.optimize(fill, wait=True)
    for _ in range(3):
        assert fast({5: 5, 6: 6}, 40, []) == fill({5: 5, 6: 6}, 40, [])

    def both(d, n, out):
        for i in range(n):
            d[i] = i
            for k in d:
                out.append(k)
        return out

    check(both, ({"a": 1.5}, 3, []), [iter(range(3))])


def test_nothing_lives_longer():
    class Thing:
        pass

    def over(d, total):
        for k, v in d.items():
            total += k * v
        return total

    fast = dynoc.optimize(over, wait=True)
    d = {i: i + 1000 for i in range(100)}
    fast(d, 0)
    gc.collect()
    before = sys.getrefcount(d)
    for _ in range(50):
        fast(d, 0)
    assert sys.getrefcount(d) == before


# ---- what isn't native


@pytest.mark.parametrize("of", [frozenset({1, 2}), {i: [1, i][i % 2 :] for i in range(3)}.keys() & {1}])
def test_frozen_sets_stay_with_cpython_or_are_right(of):
    fast = dynoc.optimize(keys, wait=True)
    for _ in range(3):
        assert fast(of, []) == keys(of, [])


def test_items_of_several_kinds_are_refused_with_a_reason():
    d = {1: 2, "a": 3.0}
    reason, _, what = Case(items, (d, []), [iter(d.items())]).refusal()
    assert reason == "UNSUPPORTED_VALUE" and "several kinds" in what


TEXT = """\
region header=2 slots=1 stack=1 extra=0
regs PIIIIPI
entry b1: dict(r0) | keyiter.1:1(r1 r2 r3) dict(r0)
b0 @0:
  jmp b1
b1 @0:
  r4 = int 16
  same.size r0 r3 r4 else x1
  r6 = dict.next r0 r1
  r5 = found.key
  r5 = found.value
  leave x0
exit x0 at 4 stack=1 more=0 OK: dict(r0) | itemiter.1(r6 r2 r3) dict(r0)
exit x1 at 2 stack=1 more=0 EXCEPTION: dict(r0) | keyiter.1:1(r1 r2 r3) dict(r0)
"""


def test_loops_over_dicts_as_text():
    assert _dynoc._region_text(_dynoc._region_parse(TEXT)) == TEXT
