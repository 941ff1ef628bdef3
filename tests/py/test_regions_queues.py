"""Native loops with heapq's functions, and with deques."""

import heapq
import random
from collections import deque
from heapq import heappop, heappush

import numpy as np
import pytest
from regions import Thing, check

NAN = float("nan")


def pushed(values, h):
    for x in values:
        heappush(h, x)
    return h


def popped(h, n, s):
    for i in range(n):
        s += heappop(h) * i
    return h, s


def shortest(h, near, best):
    while h:
        d, u = heapq.heappop(h)
        if d > best[u]:
            continue
        for v, w in near[u]:
            if d + w < best[v]:
                best[v] = d + w
                heapq.heappush(h, (d + w, v))
    return best


def merged(h, n, s):
    for _ in range(n):
        a = heappop(h)
        b = heappop(h)
        s += a + b
        heappush(h, a + b)
    return h, s


def named(h, words, n):
    for i in range(n):
        heappush(h, (i % 3, words[i % len(words)], i))
        if len(h) > 4:
            heappop(h)
    return h


def replaced(values, h, s):
    for x in values:
        y = heapq.heapreplace(h, x)
        s.append(y)
    return h, s


def pushed_and_popped(values, h, s):
    for x in values:
        y = heapq.heappushpop(h, x)
        s.append(y)
    return h, s


def made_heaps(lists, s):
    for h in lists:
        heapq.heapify(h)
        s += len(h)
    return lists, s


def merged_runs(h, runs, out):
    while h:
        v, i, j = h[0]
        out.append(v)
        if j + 1 < len(runs[i]):
            heapq.heapreplace(h, (runs[i][j + 1], i, j + 1))
        else:
            heappop(h)
    return out


def searched(q, near, far):
    while q:
        u = q.popleft()
        for v in near[u]:
            if far[v] < 0:
                far[v] = far[u] + 1
                q.append(v)
    return far


def flooded(q, cells, n, steps):
    while q:
        r, c = q.popleft()
        steps += 1
        for a, b in ((r + 1, c), (r, c + 1), (r - 1, c)):
            if 0 <= a < n and 0 <= b < n and cells[a][b] == 0:
                cells[a][b] = steps
                q.append((a, b))
    return steps


def largest(a, k, q, out):
    for i in range(len(a)):
        while q and a[q[-1]] <= a[i]:
            q.pop()
        q.append(i)
        if q[0] <= i - k:
            q.popleft()
        if i >= k - 1:
            out.append(a[q[0]])
    return q, out


def averaged(values, window, total):
    for x in values:
        if len(window) == 3:
            total -= window[0]
        window.append(x)
        total += x
        window.appendleft(total)
    return window, total


def turned(q, n):
    for i in range(n):
        q.append(q.popleft())
        q.appendleft(i)
        q[i % len(q)]
    return q


def grown(q, n, s):
    for i in range(n):
        q.append(i * 0.5)
        q.appendleft(-i)
        if i % 3 == 2:
            s += q.pop() + q.popleft()
        s += q[i // 2] - q[-1 - i // 3]
    return q, s


def test_items_are_pushed():
    for values in ([3, 1, 2, 1], [0.5, NAN, 2.5, 1.0, -0.0, 0.0], [3, 2**70, 1], ["b", "a", "c"], [(1, "x"), (0, "y"), (1, "w")]):
        check(pushed, (values, []), [iter(values)])
        check(pushed, (values, [values[0]]), [iter(values)])


def test_items_are_popped():
    for h in (list(range(20)), [0.5, 1.5, 0.75, 3.0, 2.0, 1.0], [1, 2.5, 3, 4.5, 2**70], [1]):
        check(popped, (h, 6, 0), [iter(range(6))])


def test_ways_are_those_of_heapq():
    draw = random.Random(3).randrange
    for n in range(1, 12):
        check(popped, ([draw(6) for _ in range(n)], n, 0), [iter(range(n))], forced=n == 5)
    check(popped, ([(draw(3) * 0.5) for _ in range(9)], 9, 0), [iter(range(9))], forced=False)


def test_items_that_cannot_be_compared():
    check(pushed, ([1, "a", 2], [3]), [iter([1, "a", 2])])
    check(pushed, ([(1, None), (1, None), (1, 2)], [(1, 3)]), [iter([(1, None), (1, None), (1, 2)])])
    check(popped, ([1, 2, "a", 4, 5], 3, 0), [iter(range(3))])


class Queue(Thing):
    __slots__ = ("h", "n", "most")

    def __init__(self, h):
        self.h, self.n, self.most = h, 0, 0

    def push(self, rank, what):
        heappush(self.h, (rank, self.n, what))
        self.n += 1
        if len(self.h) > self.most:
            self.most = len(self.h)

    def pop(self):
        rank, n, what = heappop(self.h)
        self.n -= n % 2
        return what if rank % 2 else -what

    def turn(self, x):
        a = heapq.heapreplace(self.h, (x, self.n, x))
        b = heapq.heappushpop(self.h, (x % 3, 0, a[2]))
        heappush(self.h, a)
        c = heappop(self.h)
        if c[0] > self.most:
            self.most += c[0]
        return b[2] * c[1]


def queued(queue, n, total):
    for i in range(n):
        queue.push(i * 7 % 5, i)
        queue.push(i % 3, i)
        total += queue.turn(i)
        if i % 3 != 1:
            total += queue.pop()
    return queue, total


def test_heaps_of_a_method_that_is_left():
    """All that it did to the heap is undone, and CPython calls it."""
    for h in ([], [(0, 1, 2)], [(i // 2, i, i) for i in range(9)]):
        check(queued, (Queue(h), 6, 0), [iter(range(6))])


HEAPS = [[1, 3, 2, 7, 4], [0.5, 1.5, 0.75, NAN, 2.0, 1.0], [1, 2.5, 3, 4.5], [1, 2**70], ["a", "b", "c"], [(1, "x"), (1, "y")]]


@pytest.mark.parametrize("h", HEAPS)
def test_the_least_is_replaced(h):
    for values in ([5, 0, 2, 2], [0.5, 9.5, -1.0, NAN], ["b", "", "c"], [(0, "z"), (2, "a"), (1, "x")], [2**70, 1]):
        check(replaced, (values, h, []), [iter(values)], forced=values[0] == 5)
        check(pushed_and_popped, (values, h, []), [iter(values)], forced=values[0] == 5)


def test_nothing_is_replaced_in_an_empty_heap():
    check(replaced, ([1, 2], [], []), [iter([1, 2])])
    check(pushed_and_popped, ([1, 2], [], []), [iter([1, 2])])


def test_lists_become_heaps():
    draw = random.Random(4).randrange
    lists = [[draw(9) for _ in range(n)] for n in range(12)]
    check(made_heaps, (lists, 0), [iter(lists)], forced=False)
    for lists in ([[3, 1, 2]] * 2, [[2.5, NAN, 1.0, 0.5, -1.0]], [["b", "a"], [(2, 1), (1, 2), (1, 1)], [], [1]]):
        check(made_heaps, (lists, 0), [iter(lists)])
    lists = [[3, 2, 1], [5, "a", 1, 0], [2, 1]]
    check(made_heaps, (lists, 0), [iter(lists)])


def test_runs_are_merged():
    runs = [[1, 5, 9], [2, 2, 8], [0], [7, 10]]
    h = [(run[0], i, 0) for i, run in enumerate(runs)]
    heapq.heapify(h)
    check(merged_runs, (h, runs, []))
    check(merged_runs, ([(float(v), i, j) for v, i, j in h], [[float(v) for v in run] for run in runs], []))


class Rank(Thing):
    __slots__ = ("rank",)

    def __init__(self, rank):
        self.rank = rank

    def __lt__(self, other):
        return self.rank < other.rank


def test_items_that_compare_themselves():
    things = [Rank(3), Rank(1), Rank(2)]
    check(pushed, (things, []), [iter(things)])


def test_dijkstra():
    near = [[(1, 2.0), (2, 0.5)], [(3, 1.0)], [(1, 1.0), (3, 4.0)], [(0, 1.0)]]
    check(shortest, ([(0.0, 0)], near, [0.0] + [9e9] * 3))
    check(shortest, ([(0, 0)], [[(v, int(2 * w)) for v, w in row] for row in near], [0] + [10**9] * 3))
    check(shortest, ([(0.0, 0)], near, np.array([0.0] + [9e9] * 3)))


def test_huffman():
    check(merged, ([1, 2, 3, 4, 7], 3, 0), [iter(range(3))])
    check(merged, ([1, 2, 3, 4, 7], 6, 0), [iter(range(6))])


def test_tuples_with_strings():
    check(named, ([], ["b", "a"], 7), [iter(range(7))])
    check(named, ([(0, "a", 1)], ["b", "a"], 7), [iter(range(7))])


def test_a_breadth_first_search():
    near = [[1, 2], [3], [3, 4], [0, 5], [], [2]]
    check(searched, (deque([0]), near, [0] + [-1] * 5))
    check(searched, (deque([0]), near, np.array([0] + [-1] * 5)))
    check(flooded, (deque([(0, 0)]), [[0, 0, 1], [1, 0, 0], [0, 1, 0]], 3, 0))


def test_a_sliding_window():
    for a in ([3.0, 1.0, 2.0, 5.0, 4.0, 4.5], [3, 1, 2, 5, 4, 4]):
        check(largest, (a, 2, deque(), []), [iter(range(len(a)))])
    check(largest, ([1, 2, 3], 2, deque([0]), [7]), [iter(range(3))])


@pytest.mark.parametrize("most", [None, 0, 1, 3])
def test_a_deque_may_be_bounded(most):
    values = [0.5, 1.5, 2.5, 3.5]
    check(averaged, (values, deque([], most), 0.0), [iter(values)])
    check(averaged, (values, deque([1.0, 2.0], most), 0.0), [iter(values)])


def test_a_bounded_deque_drops_lists_and_instances():
    items = [[1], [2], [3]]
    check(pushed_last, (items, deque([[5]], 2)), [iter(items)])
    things = [Rank(1), Rank(2), Rank(3)]
    check(pushed_last, (things, deque([Rank(0)], 2)), [iter(things)])


def pushed_last(items, q):
    for x in items:
        q.append(x)
    return q


def test_items_at_both_ends():
    check(turned, (deque([1, 2, 3]), 5), [iter(range(5))])
    check(turned, (deque([1, 2.5, "a", None]), 5), [iter(range(5))])


def test_many_blocks():
    check(grown, (deque(), 300, 0), [iter(range(300))], forced=False)
    check(grown, (deque(range(1000)), 300, 0), [iter(range(300))], forced=False)


def ringed(cells, n, total):
    for r in range(1, n):
        for a, b in ((r + 1, r), (r, r + 1), (r - 1, r), (r, r - 1)):
            total += cells[a % n][b % n]
        for k in (r, total, -1):
            total -= k // 3
    return total


def test_tuples_that_are_gone_through():
    check(ringed, ([[3, 1, 4], [1, 5, 9], [2, 6, 5]], 3, 0), [iter(range(1, 3))])
    check(ringed, ([[3, 1.5, 4], [1, 5, 9], [2, 6, 5]], 3, 0), [iter(range(1, 3))])


def levels(near, n, out):
    """A search from each node, with a queue that is made for it."""
    for s in range(n):
        far = [-1] * len(near)
        far[s] = 0
        q = deque([s])
        while q:
            u = q.popleft()
            for v in near[u]:
                if far[v] < 0:
                    far[v] = far[u] + 1
                    q.append(v)
        out.append(far[-1])
    return out


def windows(values, n, out):
    for i in range(n):
        q = deque()
        for x in values:
            q.append(x * i)
            if len(q) > 3:
                q.popleft()
        out.append(q[0] + q[-1] * 2)
    return out


@pytest.mark.parametrize("n", [0, 1, 3])
def test_made_in_the_loop(n):
    near = [[1, 2], [0], [0, 1]]
    assert "new.deque" in check(levels, (near, n, []), [iter(range(n))])
    assert "new.deque" in check(windows, ([1.5, 2.0, -3.5, 4.0, 1e300], n, []), [iter(range(n))])
