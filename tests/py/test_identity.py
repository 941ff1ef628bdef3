"""Operations whose result is one of their operands give that very object, and no equal one."""

import numpy as np
from outcomes import same

import dynoc


def frozenset_of(x, s):
    t = frozenset(s)
    return t is s, id(t) == id(s), x + 1, s.copy() is s, id(s.copy()) == id(s)


def frozenset_made_inside(x):
    s = frozenset(range(3))
    t, u = frozenset(s), s.copy()
    return id(t) == id(s), id(u) == id(s), x + 1


def repeated(x, t):
    both = [t, t * 1, 1 * t, t + (), () + t, t[:], tuple(t)]
    return [id(one) == id(t) for one in both], x + 1


def repeated_inside(x, n):
    made = []
    for m in range(4):
        s = tuple(range(m))
        made.append((id(s) == id(s * 1), id(s) == id(s + ()), id(s) == id(s[:]), id(s) == id(s * n)))
    return made, x + 1


def returned(x, t, s):
    return x + 1, t, t * 1, t[:], t + (), s, s.copy(), frozenset(s)


def test_operations_that_give_their_operand_itself():
    x = np.arange(3.0)
    same(frozenset_of, x, frozenset((1, 2, 3)))
    same(frozenset_made_inside, x)
    same(repeated, x, (1, 2.5, "a"))
    same(repeated, x, (x, [1]))
    same(repeated_inside, x, 1)
    same(repeated_inside, x, 2)


def test_what_is_given_back_is_the_operand_itself():
    x, t, s = np.arange(3.0), (1, [2]), frozenset((1, 2, 3))
    fast = dynoc.optimize(returned, wait=True)
    for _ in range(3):
        result = fast(x, t, s)
        assert all(one is t for one in result[1:5]) and all(one is s for one in result[5:])
