"""How often keys are hashed can be seen, and is as without dynoc."""

from outcomes import same

import dynoc


class Counting(int):
    hashed = 0

    def __init__(self, *args):
        self.hashed = 0

    def __hash__(self):
        self.hashed += 1
        return int.__hash__(self)


def keys_hashed(kind):
    d = dict.fromkeys(map(Counting, range(10)))
    counts = [sum(key.hashed for key in d)]
    s = kind(d)
    counts.append(sum(key.hashed for key in d))
    s.difference(d)
    counts.append(sum(key.hashed for key in d))
    d2 = dict.fromkeys(set(d))
    counts.append(sum(key.hashed for key in d))
    d3 = dict.fromkeys(frozenset(d), 123)
    counts.append(sum(key.hashed for key in d))
    return counts, len(d2), d3 == dict.fromkeys(d, 123)


def test_keys_are_not_hashed_again():
    same(keys_hashed, set)
    same(keys_hashed, frozenset)
