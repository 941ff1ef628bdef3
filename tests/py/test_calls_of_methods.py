"""Methods with a door that call themselves through `self`: where they are left to CPython these calls pass the door by, as long
as the class has it by that name. What can be seen is CPython's."""

import gc
import sys
import textwrap
import traceback

import pytest

import dynoc

NODE = """
class Node:
    def __init__(self, value, parts=()):
        self.value = value
        self.parts = parts
    def total(self, add=0):
        seen.append(sys._getframe(1).f_code.co_name)
        if not self.parts:
            return self.value + add
        return self.value + sum(part.total(add) for part in self.parts)
    def first(self):
        return self.parts[0].first() if self.parts else self.value
tree = Node(1, [Node(2, [Node(3), Node(4)]), Node(5)])
"""

PARSER = """
class Parser:
    def __init__(self, text):
        self.text, self.at = text, 0
    def look(self):
        return self.text[self.at] if self.at < len(self.text) else ""
    def sums(self):
        value = self.factor()
        while self.look() == "+":
            self.at += 1
            value += self.factor()
        return value
    def factor(self):
        if self.look() == "(":
            self.at += 1
            value = self.sums()
            self.at += 1
            return value
        self.at += 1
        return int(self.text[self.at - 1])
"""


def make(source, *methods, wait=True):
    """The source's names, plain and with these methods optimised."""
    spaces = []
    for k in range(2):
        space = {"__name__": f"m{k}", "sys": sys, "seen": []}
        exec(compile(textwrap.dedent(source), "<methods>", "exec"), space)
        spaces.append(space)
    for method in methods:
        name, attribute = method.split(".")
        cls = spaces[1][name]
        setattr(cls, attribute, dynoc.optimize(getattr(cls, attribute), wait=wait))
    return spaces


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="sites are left alone there (cpy_methods.c)")
@pytest.mark.parametrize("wait", [True, False])
def test_the_door_is_passed_by(wait):
    before = dynoc._dynoc._sites_replaced()
    plain, ours = make(NODE, "Node.total", "Node.first", wait=wait)
    for _ in range(60):
        assert ours["tree"].total(1) == plain["tree"].total(1) == 18
        assert ours["tree"].first() == plain["tree"].first() == 3
    assert ours["seen"] == plain["seen"]
    assert isinstance(ours["Node"].__dict__["total"], dynoc._dynoc.OptimizedFunction)
    assert dynoc._dynoc._sites_replaced() >= before + 2


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="sites are left alone there (cpy_methods.c)")
def test_methods_that_call_each_other():
    before = dynoc._dynoc._sites_replaced()
    plain, ours = make(PARSER, "Parser.sums", "Parser.factor", "Parser.look")
    for _ in range(200):
        assert ours["Parser"]("1+(2+3)+((4)+5)").sums() == plain["Parser"]("1+(2+3)+((4)+5)").sums() == 15
    assert dynoc._dynoc._sites_replaced() >= before + 5  # of look(), factor() and sums()


@pytest.mark.parametrize("change", ["Node.total = lambda self, add=0: 100", "del Node.total", "Node.total = other"])
def test_the_class_is_changed(change):
    source = NODE + "def other(self, add=0):\n    return ('other', add)\n"
    plain, ours = make(source, "Node.total")
    outcomes = []
    for space in (plain, ours):
        for _ in range(60):
            space["tree"].total(1)
        root = space["Node"].__dict__["total"]
        exec(change, space)
        try:
            outcome = root(space["tree"], 3)
        except (AttributeError, TypeError) as e:
            outcome = type(e), str(e), [(r.lineno, r.name) for r in traceback.extract_tb(e.__traceback__)][1:]
        outcomes.append(outcome)
    assert outcomes[0] == outcomes[1]


def test_a_subclass_and_an_instance_have_their_own():
    source = NODE + textwrap.dedent("""
        class Other(Node):
            def total(self, add=0):
                return 1000
        """)
    plain, ours = make(source, "Node.total")
    results = []
    for space in (plain, ours):
        for _ in range(60):
            space["tree"].total(1)
        space["tree"].parts[0].parts.append(space["Other"](1))
        space["tree"].parts[1].total = lambda add: 500
        results.append(space["tree"].total(1))
    assert results[0] == results[1] == 1 + (2 + 4 + 5 + 1000) + 500


def test_defaults_and_code_are_changed():
    source = NODE + "def code(self, add=0):\n    return ('code', add)\n"
    plain, ours = make(source, "Node.total")
    results = []
    for space in (plain, ours):
        total = space["Node"].__dict__["total"]
        for _ in range(60):
            space["tree"].total()
        total.__defaults__ = (10,)
        result = [space["tree"].total(), space["tree"].total(1)]
        total.__code__ = space["code"].__code__
        results.append([*result, space["tree"].total(), space["tree"].total(1)])
    assert results[0] == results[1]


def test_exceptions_and_depth():
    source = """
    class Deep:
        def down(self, n):
            return 1 // n if n == 0 else [n] + self.down(n - 1)
    deep = Deep()
    """
    plain, ours = make(source, "Deep.down")
    rows = []
    for space in (plain, ours):
        for _ in range(30):
            with pytest.raises(ZeroDivisionError) as e:
                space["deep"].down(4)
        rows.append([(r.lineno, r.name) for r in traceback.extract_tb(e.value.__traceback__)][1:])
        with pytest.raises(RecursionError):
            space["deep"].down(10**7)
    assert rows[0] == rows[1]


WALK = """
class Walk:
    def __init__(self):
        self.steps = 1
    def count(self, tree):
        n = 1
        for part in tree:
            n += self.count(part)
        return n
walk = Walk()
"""


def test_looking_for_a_method_makes_no_dict():
    """Up to CPython 3.12 an instance with a dict of its own has its methods looked up anew at each call, for good."""
    for space in make(WALK, "Walk.count"):
        walk = space["walk"]
        for _ in range(50):
            assert walk.count(((), ((), ()), ())) == 6
        assert not any(type(held) is dict for held in gc.get_referents(walk))


def test_a_method_that_the_instance_hides_is_the_instance_s():
    for space in make(WALK, "Walk.count"):
        walk = space["walk"]
        counts = []
        for k in range(60):
            if k == 30:
                walk.count = lambda tree: 100
            if k == 45:
                del walk.count
            counts.append(space["Walk"].count(walk, ((), ())))
        assert counts == [3] * 30 + [201] * 15 + [3] * 15
