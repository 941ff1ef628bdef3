"""Native loops over tuples as keys, dicts and sets that they make, and strings that they cut out and join."""

import sys

import dynoc
import numpy as np
import pytest
from regions import Case, check


def walk(steps, black, x, y, dx=0, dy=1):
    for _ in range(steps):
        if (x, y) in black:
            black.remove((x, y))
            dx, dy = -dy, dx
        else:
            black.add((x, y))
            dx, dy = dy, -dx
        x += dx
        y += dy
        if (y, x) not in black and x > 2:
            black.discard((x, x))
    return x, y


def paths(n, memo):
    for i in range(n):
        for j in range(n):
            if (i, j) == (0, 0) or i == 0:
                memo[i, j] = 1
            else:
                memo[i, j] = memo[i - 1, j] + memo.get((i, j - 1), 0)
    return memo[n - 1, n - 1]


def looked_up(d, parts, x, flag, word, found):
    for i in range(len(parts)):
        found += d.get((parts[i], i), 0) + d.get((x, flag), 10) + d.get((word[0], word, (i, i)), 100)
        if (parts[i], i) in d:
            del d[parts[i], i]
        d[x + i, None] = found
    return found


def gone_through(d, total):
    for a, b in d:
        total += a * b
    for (a, b), v in d.items():
        total += a - b * v
    return total


def same(pairs, goal, n):
    for k in range(len(pairs)):
        p = pairs[k]
        a, b = p
        n += (p == goal) + 2 * ((a, b) == (b, a)) + 4 * ((a, b) != goal) + 8 * (p == (k, k)) + 16 * ((a, (b, 1)) == (a, (k, 1)))
    return n


CELLS = {(1, 0), (2, 1), (0, 2), (1, 2), (2, 2)}


def test_sets_of_tuples():
    text = check(walk, (60, set(), 0, 0, 0, 1), [iter(range(60))])
    assert "key.tuple" in text and "set.has.key" in text
    check(walk, (9, set(CELLS), 1, 2, 1, 0), [iter(range(9))])


def test_dicts_by_tuples():
    check(paths, (5, {}), [iter(range(5))])


def test_parts_of_several_kinds():
    d = {("a", 0): 1, ("bc", 1): 2, (0.5, True): 3, ("x", "xyz", (1, 1)): 4, (1, 2): 5, 7: 6, "a": 7}
    check(looked_up, (d, ["a", "bc", "a", ""], 0.5, True, "xyz", 0), [iter(range(4))])
    check(looked_up, (d, [1, 2, 2**40, -1], 2.0, False, "\xe9", 0), [iter(range(4))])


def test_what_is_in_a_dict_is_gone_through():
    check(gone_through, ({(1, 2): 3, (4, 5): 6}, 0), [iter({(1, 2): 3, (4, 5): 6})])


def test_comparisons():
    check(same, ([(1, 2), (2, 2), (2, 3), (3, 3)], (2, 3), 0), [iter(range(4))])


class Odd:
    """Its instances are hashed and compared by Python code."""

    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return hash((1, 2))

    def __eq__(self, other):
        return other == (1, 2) or self is other


def test_keys_that_run_code_are_cpythons():
    def count(d, n):
        for i in range(4):
            n += d.get((i, i + 1), 10)
        return n

    assert Case(count, ({Odd(1): 5}, 0), [iter(range(4))]).eager()[0] == (int, 35)
    check(count, ({Odd(1): 5}, 0), [iter(range(4))], forced=False)
    check(count, ({(1, Odd(1)): 5, (2, 3): 1}, 0), [iter(range(4))], forced=False)


def test_a_hash_is_cpythons():
    """A key that a loop has stored is found by CPython, and the other way round."""

    def stored(keys, d):
        for a, b in keys:
            d[a, b] = a
        return d

    numbers = [0, 1, -1, -2, 2**30, -(2**30), 2**61 - 1, 2**61, -(2**63), 5, 256, 257]
    keys = [(a, b) for a in numbers for b in numbers]
    region = dynoc.optimize(stored, wait=True)
    for _ in range(3):
        d = region(keys, {})
        assert [*d] == keys and all(d[key] == key[0] for key in [(int(str(a)), int(str(b))) for a, b in keys])


# ---- what a loop makes


def displays(n, total):
    for i in range(n):
        d = {"a": i, "bc": 2.5}
        e = {i: 1, i + 1: total, (i, 0): 3}
        s = {i, i % 3, "x"}
        empty, nothing = set(), dict()
        empty.add(i)
        nothing["k"] = i
        total += d["a"] + e[i] + e[i, 0] + len(s) + len(empty) + (i in empty) + nothing["k"]
        if "x" in s and d["bc"] > 2:
            total += 1
    return total, d, e, s, empty, nothing


def comprehensions(n, rows):
    for i in range(n):
        squares = {k: k * k for k in range(i)}
        rest = {k % 3 for k in range(i)}
        pairs = {(k, i): 0.5 for k in range(3)}
        rows.append(len(squares) + len(rest) + len(pairs))
        rows.append(squares)
    return rows, rest, pairs


def replaced(steps, cells):
    for _ in range(steps):
        counts = {}
        for x, y in cells:
            for dx in (-1, 0, 1):
                key = (x + dx, y + 1)
                counts[key] = counts.get(key, 0) + 1
        new = set()
        for key, v in counts.items():
            if v > 1:
                new.add(key)
        cells = new
    return cells


def stacked(n, seen):
    for k in range(n):
        stack = [(k, 0)]
        while stack:
            a, b = stack.pop()
            seen[a][b] += 1
            if b + 1 < n and a > 0:
                stack.append((a - 1, b + 1))
    return seen


def test_displays():
    check(displays, (4, 0), [iter(range(4))])


def test_comprehensions():
    check(comprehensions, (4, []), [iter(range(4))])


def test_a_set_that_is_replaced():
    check(replaced, (3, set(CELLS)), [iter(range(3))])


def test_a_list_of_tuples_in_place_of_a_stack():
    text = check(stacked, (4, [[0] * 4 for _ in range(4)]), [iter(range(4))])
    assert "sweep" in text


# ---- strings


def cut(s, k, counts):
    for i in range(len(s) - k + 1):
        w = s[i : i + k]
        if w in counts:
            counts[w] += 1
        else:
            counts[w] = 1
    return w, s[:2] + w


def joined(n, seen, out):
    for i in range(n):
        s = ""
        for j in range(3):
            s += "a\xe9"[i >> j & 1]
        t = s + "/" + s[:2] + s[-1]
        if s not in seen:
            out.append(t)
        seen[t[1:]] = i
        if t == "aaa/aaa":
            out.append(s[5:])
    return s, t, seen, out


@pytest.mark.parametrize("text", ["banana", "a\xe9a\xe9a", "ab"])
def test_slices_of_strings(text):
    check(cut, (text, 2, {"na": 1}), [iter(range(len(text) - 1))])


def test_strings_that_are_joined():
    check(joined, (9, {"x": 1}, []), [iter(range(9))])


def test_a_long_string_is_cpythons():
    def grown(n, s):
        for _ in range(n):
            s += "abc"
        return s

    check(grown, (120, "x"), [iter(range(120))], forced=False)


# ---- what is dropped on the way


def churn(n, d, words, keep=None):
    for i in range(n):
        pair = (i, words[i % 3])
        text = words[i % 3] + words[(i + 1) % 3]
        row = [pair, (text, i)]
        if i % 97 == 0:
            keep = row
        d[i % 5, text] = pair
        if i % 50 == 49:
            d.pop((i % 5, text))
        last = row[1]
    return keep, last, text, pair, d


def test_what_no_value_is_any_more_is_dropped():
    expected = churn(4000, {}, ["ab", "cd", "e"])
    region = dynoc.optimize(churn, wait=True)
    for _ in range(3):
        assert region(4000, {}, ["ab", "cd", "e"]) == expected
    check(churn, (700, {}, ["ab", "cd", "e"], None), [iter(range(700))], forced=False)


def test_memory_stays_flat():
    region = dynoc.optimize(churn, wait=True)
    for _ in range(3):
        region(3000, {}, ["ab", "cd", "e"])
    before = sys.getallocatedblocks()
    for _ in range(20):
        region(3000, {}, ["ab", "cd", "e"])
    assert sys.getallocatedblocks() - before < 100


def test_a_value_that_was_a_key_outlives_it():
    def kept(n, words, seen, out):
        for i in range(n):
            w = words + chr(97 + i % 26)
            seen.add(w)
            if i % 3 == 0:
                seen.discard(w)
            v = words[:3] + w
            out.append(len(v))
            if i % 7 == 0:
                out.append(w)
        return out, seen

    check(kept, (40, "word", set(), []), [iter(range(40))])
    expected = kept(5000, "word", set(), [])
    region = dynoc.optimize(kept, wait=True)
    for _ in range(3):
        assert region(5000, "word", set(), []) == expected


def test_numpys_scalars_in_tuples_are_cpythons():
    def count(d, keys, n):
        for k in keys:
            n += d.get((k, 1), 5)
        return n

    keys = [np.int64(1), np.float64(2.0)]
    region = dynoc.optimize(count, wait=True)
    for _ in range(3):
        assert region({(1, 1): 2, (2, 1): 3}, keys, 0) == 5


def test_other_slices_are_refused():
    def stepped(s, n):
        for i in range(3):
            n += len(s[::2])
        return n

    assert "bytes" in Case(stepped, (b"abcdef", 0), [iter(range(3))]).refusal()[2]
    assert "slice" in Case(cut, ("\u20acx\u20ac", 2, {"na": 1}), [iter(range(2))]).refusal()[2]
