"""Destructors and callbacks of weak references run when they do in CPython, whatever loops take out of other objects."""

import gc
import weakref

import pytest
from compare import dynoc

died = []


class Told:
    def __init__(self, x):
        self.x = x

    def __del__(self):
        died.append(self.x)


class Plain:
    def __init__(self, x):
        self.x = x


class Holder:
    def __init__(self, held):
        self.held = held


def replaced(objects, other, out):
    for i in range(5):
        objects[i] = other
        out.append(len(died))


def stored(objects, other, out):
    for o in objects:
        o.held = other
        out.append(len(died))


def put(holder, other):
    holder.held = other
    return len(died)


def stored_in_a_call(objects, other, out):
    for o in objects:
        out.append(put(o, other))


def popped(objects, out):
    s = 0
    while objects:
        s += objects.pop().x
        out.append(len(died))
    return s


def stored_in_a_dict(d, keys, other, out):
    for k in keys:
        d[k] = other
        out.append(len(died))


def rows_replaced(rows, out):
    for i in range(5):
        rows[i] = [1]
        out.append(len(died))


def told(n=5):
    return [Told(i) for i in range(n)]


def watched(n=5):
    items = [Plain(i) for i in range(n)]
    refs = [weakref.ref(item, lambda ref: died.append(-1)) for item in items]
    refs.append(items)  # they live on
    for item in items:
        item.refs = refs[:n]
    return items


class Node:
    def __init__(self, held):
        self.held, self.near, self.seen = held, [], False


def graph(hold, n=100):
    nodes = [Node(hold(i)) for i in range(n)]
    for i, node in enumerate(nodes):
        node.near = [nodes[(i + 1) % n], nodes[(i * 7 + 3) % n], nodes[i - 1]]
    return nodes


def chain(hold, n=100):
    first = None
    for i in range(n):
        first, next_one = Node(hold(i)), first
        first.near = next_one
    return first


def walked(start, spare, out):
    open_ones = [start]
    while open_ones:
        node = open_ones.pop()
        for other in node.near:
            if not other.seen:
                other.seen = True
                open_ones.append(other)
        if spare:
            node.held = spare.pop()
        else:
            node.held = None
        out.append(len(died))


def forgotten(nodes, spare, out):
    while nodes:
        node = nodes.pop()
        node.near = node.held
        if spare:
            nodes[0].held = spare.pop()
        node.held = None
        out.append(len(died))


def turned(node, out):
    before = None
    while node is not None:
        behind = node.near
        node.near = before
        before, node = node, behind
        out.append(len(died))
    before.near.near = None
    out.append(len(died))


def exchanged(nodes, spare, out):
    """What takes the place of a node is in a list that the node's graph refers to."""
    for node in nodes:
        if spare:
            node.near[0], spare[0] = spare[0], node.near[0]
        node.near = None
        out.append(len(died))


def emptied(node):
    near = node.near
    last = near.pop()
    node.near = None
    return last


def taken_by_calls(nodes, out):
    """The call takes away what holds the list that it was noted to have shortened."""
    for node in nodes:
        near = node.near
        last = emptied(node)
        near.append(last)
        near.append(last)
        out.append(len(near))


def cleared(node):
    table = node.held
    table[len(table)] = 1.5
    node.held = None


def taken_dicts(nodes, out):
    for node in nodes:
        table = node.held
        cleared(node)
        table[9] = 2.5
        out.append(len(table))


class Two:
    def __init__(self, n):
        self.near, self.held = list(range(n)), [n]


def given_up(two):
    two.near = two.held = None


def used_behind_calls(twos, out):
    """Two lists in each trip: the place for what is taken out ends in the middle of a call."""
    for two in twos:
        near, held = two.near, two.held
        given_up(two)
        near.append(1)
        held.append(2)
        out.append(len(near) + len(held))


CASES = [
    (used_behind_calls, lambda: ([Two(i % 9) for i in range(1500)], [])),
    (exchanged, lambda: (graph(lambda i: None), told(1), [])),
    (exchanged, lambda: (graph(lambda i: None), told(1) + told(5), [])),
    (taken_by_calls, lambda: (graph(lambda i: None), [])),
    (taken_dicts, lambda: (graph(lambda i: {0: 1.5, 1: 2.5}), [])),
    (walked, lambda: (graph(lambda i: None)[0], [], [])),
    (walked, lambda: (graph(Told)[0], [], [])),
    (walked, lambda: (graph(lambda i: Told(i) if i == 60 else 1.5)[0], [None] * 40 + told(20), [])),
    (walked, lambda: (graph(Plain)[0], [Plain(i) for i in range(30)] + [Plain([t]) for t in told(50)], [])),
    (forgotten, lambda: (graph(lambda i: [i]), [], [])),
    (forgotten, lambda: (graph(lambda i: [i]), told(30), [])),
    (forgotten, lambda: (graph(lambda i: Told(i) if i % 9 == 0 else None), told(8), [])),
    (turned, lambda: (chain(Plain), [])),
    (turned, lambda: (chain(lambda i: Told(i) if i == 50 else None), [])),
    (replaced, lambda: (told(), Plain(9), [])),
    (replaced, lambda: (told(), Told(9), [])),
    (replaced, lambda: (told() * 2, Plain(9), [])),
    (replaced, lambda: (watched(), Plain(9), [])),
    (replaced, lambda: ([Holder(Told(i)) for i in range(5)], Holder(None), [])),
    (replaced, lambda: ([Holder([Plain((Told(i), 2))]) for i in range(5)], Holder(None), [])),
    (stored, lambda: ([Holder(Told(i)) for i in range(5)], Plain(1), [])),
    (stored, lambda: ([Holder(Told(i)) for i in range(5)], 3, [])),
    (stored_in_a_call, lambda: ([Holder(Told(i)) for i in range(5)], Plain(1), [])),
    (stored_in_a_call, lambda: ([Holder(t) for t in told() for _ in range(2)], Plain(1), [])),
    (popped, lambda: (told(), [])),
    (stored_in_a_dict, lambda: ({k: Told(k) for k in range(5)}, list(range(5)), Told(7), [])),
    (stored_in_a_dict, lambda: ({k: Told(1) for k in "abc"}, ["a", "b", "c"], 3, [])),
    (rows_replaced, lambda: ([[Told(i)] for i in range(5)], [])),
    (rows_replaced, lambda: ([[Plain(Told(i))] for i in range(5)], [])),
]


def outcome(function, make):
    gc.collect()
    gc.disable()  # graphs are cycles
    died.clear()
    args = make()
    function(*args)
    out, at_end = list(args[-1]), list(died)
    del args
    gc.enable()
    gc.collect()
    return out, at_end, sorted(died)


@pytest.mark.parametrize("function, make", CASES, ids=[f"{case[0].__name__}-{k}" for k, case in enumerate(CASES)])
def test_what_dies_in_a_loop_dies_at_its_time(function, make):
    wanted = outcome(function, make)
    fast = dynoc.optimize(function, wait=True)
    assert [outcome(fast, make) for _ in range(3)] == [wanted] * 3


def test_a_graph_is_walked_natively():
    fast = dynoc.optimize(walked, wait=True)
    for _ in range(3):
        nodes, out = graph(Plain), []
        fast(nodes[0], [Plain(i) for i in range(20)], out)
        assert len(out) == 101 and all(node.seen for node in nodes)
    assert fast.loops[0].startswith("native")


def test_what_dies_quietly_is_taken_out_natively():
    fast = dynoc.optimize(replaced, wait=True)
    for _ in range(3):
        objects, other, out = [Plain(Holder([i, (1.5, "x")])) for i in range(5)], Plain(0), []
        fast(objects, other, out)
        assert objects[:5] == [other] * 5
    assert fast.loops[0].startswith("native")
