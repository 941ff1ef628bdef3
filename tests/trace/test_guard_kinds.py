"""Every row of src/ir/guards.def: its texts have no part that nobody prints, it holds for what it was made of and misses
otherwise, and a guard whose object is of another kind than the row says is refused."""

from collections import deque

import numpy as np
import pytest
from guard_program import Program

from dynoc import _dynoc

ROWS = {name: (subject, wanted) for name, subject, wanted in _dynoc._guards_rows()}


def one(a=1):
    return a


def two(a, b=1, c=2):
    return a


# kind -> (object, number, what it holds for, what it misses), each made anew; a pair is two arguments
CASES = {
    "TYPE": (int, 0, lambda: 3, lambda: "3"),
    "ID": (one, 0, lambda: one, lambda: two),
    "EQ": ("a", 0, lambda: "a", lambda: "b"),
    "LEN": (None, 2, lambda: [1, 2], lambda: [1]),
    "KEYS": (("a", "b"), 0, lambda: {"a": 1, "b": 2}, lambda: {"b": 1, "a": 2}),
    "CODE": (one.__code__, 0, lambda: one, lambda: two),
    "BUILTIN": (list.append, 0, lambda: [].append, lambda: [].extend),
    "DEFAULTS": (None, 1, lambda: one, lambda: two),
    "MEMBER": ("a", 1, lambda: {"a"}, lambda: {"b"}),
    "PRESENT": (None, 0, lambda: 3, lambda: ...),
    "MAXLEN": (3, 0, lambda: deque(maxlen=3), lambda: deque(maxlen=4)),
}
PAIRS = {
    "SAME": (None, lambda: (one, one), lambda: (one, two)),
    "DIFFERENT": (None, lambda: (one, two), lambda: (one, one)),
    "GLOBALS": (one.__globals__, lambda: (one, one.__builtins__), lambda: (np.mean.__wrapped__, one.__builtins__)),
}
# Below, and in test_guards.py; TENSOR and TORCH in the tests of PyTorch.
OF_THEIR_OWN = {"ARRAY", "TENSOR", "TORCH", "SYM", "MISSING", "CLASS", "DISJOINT"}
WANTING = [name for name, (_, wanted) in ROWS.items() if wanted in ("TYPE", "TUPLE", "DICT", "CODE")]
WANTING_NONE = [name for name, (_, wanted) in ROWS.items() if wanted == "NONE" and name not in ("SYM", "TORCH")]


def test_each_row_has_a_case():
    assert set(CASES) | set(PAIRS) | OF_THEIR_OWN == set(ROWS)
    assert {name for name, (subject, _) in ROWS.items() if subject == "PAIR"} == set(PAIRS)


def check_both(p, holds, misses):
    """Before a memo, with one, and behind a miss."""
    for _ in range(4):
        assert p.check(*holds()) == []
    told = p.explain(*misses())
    assert "{" not in told.partition("→")[0].replace("{'a'", "").replace("globals of", ""), told
    assert "→" in told and not told.endswith("→ ")
    assert p.check(*holds()) == []


@pytest.mark.parametrize("kind", CASES)
def test_it_holds_and_misses(kind):
    obj, number, holds, misses = CASES[kind]
    p = Program()
    p.guard(kind, p.local(0, "x"), obj, number=number)
    (text,) = _dynoc._guards_text(p.made())
    assert "x" in text and "{" not in text
    check_both(p, lambda: (holds(),), lambda: (misses(),))


@pytest.mark.parametrize("kind", PAIRS)
def test_a_pair_holds_and_misses(kind):
    obj, holds, misses = PAIRS[kind]
    p = Program()
    p.guard(kind, p.local(0, "x"), obj, other=p.local(1, "y"))
    (text,) = _dynoc._guards_text(p.made())
    assert "x" in text and "{" not in text
    check_both(p, holds, misses)


def test_a_class_holds_until_it_changes():
    class Base:
        scale = 2

    class Derived(Base):
        def method(self):
            return 1

    p = Program()
    p.guard("CLASS", p.local(0, "x"), number=_dynoc._guards_class_version(Derived))
    (text,) = _dynoc._guards_text(p.made())
    assert text == "x is as it was"
    check_both(p, lambda: (Derived,), lambda: (Base,))
    assert p.explain(3) == "x is as it was: as it was → no class"
    Base.scale = 3
    assert p.explain(Derived) == "x is as it was: as it was → changed, or another class"
    q = Program()
    q.guard("CLASS", q.local(0, "x"), number=_dynoc._guards_class_version(Derived))
    assert q.check(Derived) == []
    assert _dynoc._guards_class_version(Derived) != 0


def test_a_class_without_a_version_misses():
    p = Program()
    p.guard("CLASS", p.local(0, "x"), number=0)
    assert p.check(int) is None


@pytest.mark.parametrize("kind", WANTING)
def test_an_object_of_another_kind_is_refused(kind):
    p = Program()
    p.guard(kind, p.local(0, "x"), 3, other=p.local(1, "y"), array=np.zeros(2) if kind == "TENSOR" else None)
    assert "a guard's object isn't of the kind that guards.def says" in _dynoc._guards_verify(p.made())


@pytest.mark.parametrize("kind", WANTING_NONE)
def test_an_object_where_none_belongs_is_refused(kind):
    p = Program()
    p.guard(kind, p.local(0, "x"), 3, other=p.local(1, "y"), array=np.zeros(2) if kind == "ARRAY" else None)
    assert "a guard's object isn't of the kind that guards.def says" in _dynoc._guards_verify(p.made())
