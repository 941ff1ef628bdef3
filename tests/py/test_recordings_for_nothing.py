"""Recordings that came to nothing: they aren't made again for values of the same kinds."""

import sys
import textwrap

import pytest

import dynoc


def spaces(source, name, wait, *others):
    """The function of this name (and others), plain and optimised, each in a module of its own."""
    made = []
    for k in range(2):
        made.append({"__name__": f"m{k}", "sys": sys})
        exec(compile(textwrap.dedent(source), f"<{name}>", "exec"), made[k])
    for each in (name, *others):
        made[1][each] = dynoc.optimize(made[1][each], wait=wait)
    dynoc.reset()
    dynoc.counters.clear()
    return made


@pytest.mark.parametrize("wait", [True, False])
def test_a_long_recording_for_nothing_is_made_once(wait):
    source = """
    def part(n, at, moves):
        if n > 0:
            part(n - 1, at + 1, moves)
            moves.append(at)
            part(n - 1, at - 1, moves)
    def work(n):
        moves = []
        part(n, 0, moves)
        return sys.intern(str(len(moves)))
    """
    plain, ours = spaces(source, "work", wait)
    for _ in range(8):
        assert ours["work"](8) == plain["work"](8)
    assert dynoc.counters["frames"]["total"] <= 1
    for n in (True, 2.0 - 1):  # other kinds of values are recorded, and what the function raises is seen
        try:
            wanted = plain["work"](n)
        except Exception as e:
            with pytest.raises(type(e)):
                ours["work"](n)
        else:
            assert ours["work"](n) == wanted


def test_a_refused_loop_is_not_recorded_again():
    source = """
    def work(text):
        counts = {}
        for word in text:
            word = "".join(reversed(word))
            counts[word] = counts.get(word, 0) + 1
        return counts
    """
    plain, ours = spaces(source, "work", True)
    totals = []
    for given in [["a.", "B"], ["b"], [b"d."]]:
        try:
            assert ours["work"](given) == plain["work"](given)
        except TypeError:
            with pytest.raises(TypeError):
                plain["work"](given)
        totals.append(dynoc.counters["frames"]["total"])
    assert totals[0] == totals[1] < totals[2]


@pytest.mark.parametrize("wait", [True, False])
def test_functions_that_call_each_other(wait):
    source = """
    def value(tree):
        return tree if isinstance(tree, int) else apply(tree)
    def apply(tree):
        op, a, b = tree
        return value(a) + value(b) if op == "+" else value(a) * value(b)
    """
    plain, ours = spaces(source, "value", wait, "apply")
    tree = ("+", ("*", 2, 3), ("*", ("+", 4, 5), 6))
    assert ours["value"](tree) == plain["value"](tree)
    total = dynoc.counters["frames"]["total"]
    for _ in range(8):
        assert ours["value"](tree) == plain["value"](tree)
    assert dynoc.counters["frames"]["total"] <= total + 2  # value() of a number is of another kind
