"""Native loops over lists, and tuples that are objects: what they do is CPython's, to the bit, whichever exit is taken."""

import copy
import gc
import tracemalloc

import numpy as np
import pytest
from regions import INTERPRETED, Case, check, on_stack, slots_of

import dynoc
from dynoc import _dynoc

FLOATS = [0.5, -1.25, 3.0, -0.0, 7.75, 1e300, 2.0, float("nan")]
INTS = [3, -4, 500, 7, 1 << 40, 2, -(1 << 62), 1]
BOOLS = [True, False, True, True]
TABLE = [[1.5, 2.5, -3.0], [4.0, 5.5, 6.0], [7.0, -8.5, 9.0]]
N = len(FLOATS)


def total(a, s):
    for i in range(len(a)):
        s = s + a[i] - a[-i - 1]
    return s, i


def over(a, s):
    for x in a:
        s = s * 0.5 + x
    return s, x


def written(a, b):
    for i in range(len(a)):
        b[i] = a[i] * 3
    return b


def swapped(a):
    for i in range(len(a) - 1):
        if a[i] > a[i + 1]:
            a[i], a[i + 1] = a[i + 1], a[i]
    return a


def running(a, out, s):
    for x in a:
        s += x
        out.append(s)
    return out, s


def table(a, s):
    for i in range(len(a)):
        row = a[i]
        for j in range(len(row)):
            s += row[j] * a[i][j]
            a[i][j] = s
    return s, row, j


def changes_kind(a):
    for i in range(len(a)):
        a[i] = a[i] / 2 if i % 2 else i > 2
    return a


def grows(a):
    for x in a:
        if len(a) < 40:
            a.append(x + 1)
    return a


def outside(a):
    for i in range(len(a) + 1):
        a[i] = i
    return a


def pairs(a, s):
    for i, x in enumerate(a):
        for p, q in ((1, 2), (3, 4)):
            s += x * p - q * i
    return s


def points(a, s):
    for x, y in a:
        s += x * y
    return s, x, y


def together(a, b, s):
    for x, y in zip(a, b):
        s += x * y
    return s


def same(a, b, s):
    for i in range(3):
        for j in range(3):
            if a[i] is not b[j]:
                s += a[i][j]
    return s


def emptied(a, s):
    while a:
        s += a[-1]
        if s > 2:
            break
        a.append(s)
    return s


def replaced(a, b, s):
    for i in range(4):
        s += a[0]
        a, b = b, a
    return s, a, b


def replaced_unread(a, b, s):
    for i in range(4):
        s += i
        a, b = b, a
    return s, a, b


def rows_made(a, b, cur):
    for i in range(len(a)):
        cur = [i + 1] + [0] * len(b)
        for j in range(len(b)):
            cur[j + 1] = min(cur[j] + 1, a[i] - b[j])
    return cur


def tables_made(n, t, s):
    for i in range(n):
        t = [[0.5] * 3 for _ in range(i)]
        for row in t:
            row[1] = row[0] + i
            s += row[1]
    return t, s


def filtered(a, s, kept):
    for k in range(3):
        kept = [x * k for x in a if x > k]
        s += len(kept)
    return s, kept


def repeated(a, n, b):
    for i in range(n - 3, n):
        b = a * (2 - i) + [i]
        b.append(i * 0.5)
    return b


CASES = {
    "floats": (total, (FLOATS, 0.5), [iter(range(N))]),
    "ints": (total, (INTS, 2), [iter(range(N))]),
    "bools": (total, (BOOLS, 0), [iter(range(4))]),
    "mixed": (total, ([1, 2.5, True, 4], 0), [iter(range(4))]),
    "with_others": (total, ([1, 2.5, 1 << 70, 3], 0), [iter(range(4))]),
    "written": (written, (FLOATS, [0] * N), [iter(range(N))]),
    "written_ints": (written, (INTS, [1 << 20] * N), [iter(range(N))]),
    "written_over_others": (written, (INTS, [1, "x", 2, 3, None, 5, [], 8]), [iter(range(N))]),
    "swapped": (swapped, (INTS,), [iter(range(N - 1))]),
    "swapped_floats": (swapped, (FLOATS,), [iter(range(N - 1))]),
    "table": (table, (TABLE, 0.5), [iter(range(3))]),
    "changes_kind": (changes_kind, (INTS,), [iter(range(N))]),
    "outside": (outside, (INTS,), [iter(range(N + 1))]),
    "same": (same, (TABLE, TABLE, 0.0), [iter(range(3))]),
    "rows_made": (rows_made, ([5, 7], [1, 2, 3], None), [iter(range(2))]),
    "tables_made": (tables_made, (3, None, 0.0), [iter(range(3))]),
    "filtered": (filtered, (INTS, 0, None), [iter(range(3))]),
    "filtered_floats": (filtered, (FLOATS, 0, None), [iter(range(3))]),
    "repeated": (repeated, ([1, 2], 4, None), [iter(range(1, 4))]),
    "emptied": (emptied, ([0.25], 0.0), []),
    "replaced": (replaced, ([1.5], [2.5], 0.0), [iter(range(4))]),
}


@pytest.mark.parametrize("name", CASES)
def test_lists(name):
    function, args, stack = CASES[name]
    check(function, copy.deepcopy(args), copy.deepcopy(stack))


@pytest.mark.parametrize("items", [FLOATS, INTS, BOOLS, [1, 2.5, True, 4], [1, "x"], [0.5, None]], ids=str)
def test_loops_over_lists(items):
    items = list(items)
    check(over, (items, 0.5), [iter(items)])
    check(over, (tuple(items), 0.5), [iter(tuple(items))])
    if all(type(x) is type(items[0]) for x in items):
        check(pairs, (items, 0.5), [enumerate(items)])
        check(together, (items, FLOATS, 0.5), [zip(items, FLOATS)])


def test_lists_that_grow():
    check(running, (FLOATS, [], 0.0), [iter(FLOATS)])
    check(running, (INTS[:4], [5], 0), [iter(INTS[:4])])
    for items in ([1, 2], [0.5]):
        items = list(items)
        check(grows, (items,), [iter(items)])


def test_tuples_in_lists():
    check(points, ([(1.5, 2.5), (3.0, 4.0)], 0.0), [iter([(1.5, 2.5), (3.0, 4.0)])])
    check(points, ([(1, 2), (3, 4, 5)], 0), [iter([(1, 2), (3, 4, 5)])])
    check(points, ([[1, 2], [3, 4]], 0), [iter([[1, 2], [3, 4]])])


def test_a_number_that_others_have_stays():
    """A float in a list gets another number in place where nobody else has it; else it is another float."""
    mine = [float("1.5"), float("2.5")]
    kept = mine[0]
    slots, stack = slots_of(written, ([7.0, 8.0], mine)), on_stack(iter(range(2)))
    region = _dynoc._region_plan(written, _dynoc._region_headers(written)[0], slots, stack)
    assert _dynoc._region_run(region, slots, stack, INTERPRETED, -1, 0) is not None
    assert mine == [21.0, 24.0] and kept == 1.5


def test_an_iterator_that_ended_stays_so():
    items = [1.5, 2.5]
    it = iter(items)
    slots, stack = slots_of(over, (items, 0.0)), on_stack(it)
    region = _dynoc._region_plan(over, _dynoc._region_headers(over)[0], slots, stack)
    assert _dynoc._region_run(region, slots, stack, INTERPRETED, -1, 0) is not None
    items.append(3.5)
    assert list(it) == []


class Ended:
    def __del__(self):
        Ended.seen += 1


def test_the_end_of_a_list_is_seen_where_it_is():
    """A list of objects that is overwritten isn't dropped in the loop."""
    case = Case(replaced_unread, ([1.5, Ended()], [2.5], 0.0), [iter(range(4))])
    Ended.seen = 0
    assert case.refusal()[2].startswith("STORE_FAST: an object is dropped")
    del case
    gc.collect()
    assert Ended.seen > 0


def test_another_list_is_another_region():
    slots, stack = slots_of(total, (FLOATS, 0.0)), on_stack(iter(range(N)))
    region = _dynoc._region_plan(total, _dynoc._region_headers(total)[0], slots, stack)
    for other in (INTS, (1.5, 2.5), "ab", [[1.5]]):
        assert _dynoc._region_run(region, slots_of(total, (other, 0.0)), stack, INTERPRETED, -1, 0) is None


def many_made(n):
    s = 0
    for i in range(n):
        row = [i] * 50
        s += row[i % 50]
    return s


def test_lists_that_are_made_dont_pile_up():
    """So many lives at once: a run ends when there are too many, and CPython goes on."""
    fast = dynoc.optimize(many_made, wait=True)
    assert fast(3000) == many_made(3000) == fast(3000)
    tracemalloc.start()
    try:
        fast(30000)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert fast.loops[0].startswith("native"), fast.loops
    assert gc.isenabled()


def added_in_place(xs, k):
    for i in range(20):
        xs += [k, i]
        xs *= 1
    return xs


def test_an_operator_in_place_changes_the_list_itself():
    fast = dynoc.optimize(added_in_place, wait=True)
    for _ in range(3):
        given, expected = [0], added_in_place([0], 7)
        assert fast(given, 7) is given and given == expected


NANS = [float("nan") for _ in range(100)]


def copied(values):
    return [v for v in values], [(0, v) for v in values], {i: v for i, v in enumerate(values)}


def appended(values):
    made, pairs = [], []
    for v in values:
        made.append(v)
        pairs.append((v, v))
    return made, pairs


@pytest.mark.parametrize("copy", [copied, appended])
def test_a_nan_stays_the_object_that_it_is(copy):
    """Lists, tuples and dicts of nans are equal where the nans are the same objects."""
    values = [1.0, *NANS, 2.0]
    fast = dynoc.optimize(copy, wait=True)
    for _ in range(4):
        assert fast(values) == copy(values)


def of_ranges(n):
    total, last = 0, None
    for k in range(n):
        a = list(range(k))
        b = list(range(10, -k, -3))
        c = list(a)
        c.append(k)
        d = list()
        d.append(len(b))
        a.append(c[-1] + d[0])
        total += sum(x for x in a) + len(c)
        last = a, b, c, d
    return total, last


def digits(text):
    total = 0
    for c in text:
        total = total * 10 + int(c)
    return total


@pytest.mark.parametrize(
    "function, given",
    [(of_ranges, 0), (of_ranges, 12), (digits, "0123456789"), (digits, "12\xb2"), (digits, "3x"), (digits, "5\u0663" * 3)],
)
def test_lists_and_ints_by_their_types(function, given):
    def outcome(called):
        try:
            return repr(called(given))
        except ValueError as error:
            return str(error), error.__traceback__.tb_next.tb_lineno

    fast = dynoc.optimize(function, wait=True)
    for _ in range(4):
        assert outcome(fast) == outcome(function)


def zipped_with_what_changes(numbers, items, x, n):
    """The items become ints and floats, so that zip's next one is of two kinds."""
    for i in range(n):
        for a, b in zip(numbers, items):
            items = items + [x] if len(items) < 9 else [0]
    return items


def test_zip_of_a_list_of_several_kinds():
    for x in (5.5, 2):
        check(zipped_with_what_changes, (np.arange(6.0), [1, 2, 3], x, 5), [iter(range(5))])


def summed(rows, out):
    """Of lists and tuples of ints, or of floats: what their items are is looked at in each trip."""
    for row in rows:
        out.append((sum(row), max(row), min(row)))
    return out


ROWS = {
    "ints": [[3, 1, 2], [5], [-4, 10**12, 7]],
    "floats": [[1e16, 1.0, -1e16, 2.5], [-0.0], [NANS[0], 1.0], [1.0, NANS[1], 3.0], [0.1] * 10],
    "tuples": [(1, 2), (3, 4), (-1, 0)],
    "large": [[2**62, 1], [2**62, 2**62], [2**70], [1]],
    "empty": [[1.5], [2.5], []],
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_sums_and_extremes(rows):
    check(summed, (rows, []), [iter(rows)])


def asked_of_lists(values, of, n, out):
    for v in of:
        if v in values:
            out.append(values.index(v))
        n = n * 3 + values.count(v) + (v not in values[1:]) + (v in (1, "b", None, 2.5))
    return n, out


def removed(values, of):
    for v in of:
        values.remove(v)
    return values


@pytest.mark.parametrize(
    "values", [[3, 1, 2, 1], [0.5, -0.0, 2.5, 1.0], ["a", "b", "", "\xe9"], [1, "b", None, 2.5, True], [(1, 2), (3, "x")]]
)
def test_lists_are_asked_about_values(values):
    check(asked_of_lists, (values, values, 0, []), [iter(values)])
    of = values[::2] + [values[-1]]
    check(removed, (values, of), [iter(of)])


def test_nan_is_cpythons_to_find():
    nan = float("nan")
    check(asked_of_lists, ([1.0, nan, 2.0], [1.0, nan], 0, []), [iter([1.0, nan])])
    check(asked_of_lists, ([1.0, 2.0], [1.0, nan], 0, []), [iter([1.0, nan])])


def ordered(rows, best, n):
    for row in rows:
        if row < best:
            best = row
        n = n * 2 + (row == best) + (row >= rows[0]) + (row != rows[-1])
    return best, n


def test_lists_and_tuples_are_compared():
    for rows in ([[3, 1], [2, 5], [2, 4, 0], []], [["b", 1.5], ["a", 2]], [(3, "x"), (2, "y"), (2, "a")], [[1, [2]], [1, [3]]]):
        check(ordered, (rows, rows[0], 0), [iter(rows)])
    check(ordered, ([[1, 2], ["a"]], [3], 0), [iter([[1, 2], ["a"]])])


def all_sorted(rows, out):
    for row in rows:
        out.append(sorted(row))
        row.sort()
        out.append(row[:1])
    return out


@pytest.mark.parametrize("rows", [[[3, 1, 2], []], [[2.5, -1.0]], [["b", "a", "ab"], ["x"]], [[3, "a"]]])
def test_lists_are_sorted(rows):
    check(all_sorted, (rows, []), [iter(rows)])


def letters_sorted(words, out):
    for w in words:
        out.append("".join(sorted(w)))
    return out


def test_letters_are_sorted():
    check(letters_sorted, (["hello", "", "a", "\xe9b"], []), [iter(["hello", "", "a", "\xe9b"])])
