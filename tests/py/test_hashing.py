"""How often keys are hashed can be seen, and is as without dynoc."""

import traceback

import dynoc


@dynoc.skip
def outcome(fn, arguments):
    try:
        return repr(fn(*arguments()))
    except Exception as error:
        rows = [(row.name, row.lineno) for row in traceback.extract_tb(error.__traceback__) if row.name != "outcome"]
        return type(error), str(error), rows


@dynoc.skip
def same(fn, *arguments, again=None, turns=3):
    """Calls, alone and with every function offered to the recorder, give what plain Python gives."""
    again = again or (lambda: arguments)
    expected = outcome(fn, again)
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(turns):
        assert outcome(fast, again) == expected, f"call {turn + 1}"
    before = dynoc.config.record_all
    dynoc.config.record_all = True
    try:
        with dynoc.enabled(wait=True):
            for turn in range(turns):
                assert outcome(fn, again) == expected, f"call {turn + 1}, everything recorded"
    finally:
        dynoc.config.record_all = before


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
