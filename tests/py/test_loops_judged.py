"""Which loops stay native and which are CPython's again, by a clock that tests set: no time is measured."""

import pytest

import dynoc
from dynoc import _dynoc


def searched(n):
    i = 0
    while i < n:
        i += 1
    return i


def summed(values):
    s = 0.0
    for x in values:
        s += x
    return s


class Clock:
    """Native time for a run of so many trips and CPython's time for a trip; and how much passes between two calls."""

    def __init__(self, native, plain, between=0.0):
        self.native, self.plain, self.between = native, plain, between
        self.fresh, self.trip, self.plain_trips, self.runs = True, 0, 0, 0

    def __call__(self, native, trips):
        between = self.between if self.fresh else 0.0
        self.trip = 0 if self.fresh else self.trip + 1
        self.fresh = False
        if native:
            self.runs += 1
            return float(self.native(trips))
        self.plain_trips += 1
        return float(between + self.plain(self))


def state_after(function, given, clock, calls, loop_of=0):
    """What becomes of the function's first loop, or another one, in so many calls."""
    loop = dynoc.optimize(function, wait=True, options={"retire": True})
    _dynoc._loops_time(clock)
    try:
        for _ in range(calls):
            clock.fresh = True
            assert loop(given) == function(given)
    finally:
        _dynoc._loops_time(None)
    return loop.loops[loop_of].split(":")[0]


VALUES = [i * 0.5 for i in range(100)]
NATIVE, RETIRED = "native", "CPython's for a while"


@pytest.mark.parametrize("between", [0, 20e3, 1e6])
def test_a_while_loop_is_weighed_by_its_runs(between):
    """A native run of it was compared with CPython's trip."""
    faster = Clock(lambda trips: 8000, lambda c: 200, between)
    assert state_after(searched, 200, faster, 400) == NATIVE
    slower = Clock(lambda trips: 8000, lambda c: 20, between)
    assert state_after(searched, 200, slower, 400) == RETIRED


@pytest.mark.parametrize("between", [0, 20e3, 1e6])
def test_what_lies_between_runs_tells_nothing(between):
    faster = Clock(lambda trips: 50 * trips, lambda c: 160, between)
    assert state_after(summed, VALUES, faster, 400) == NATIVE
    slower = Clock(lambda trips: 90 * trips, lambda c: 100, between)
    assert state_after(summed, VALUES, slower, 400) == RETIRED


def test_trips_that_cpython_makes_for_the_first_time_do_not_count():
    """Code that hasn't run is slow until CPython has specialised it."""
    slower = Clock(lambda trips: 90 * trips, lambda c: 2000 if c.plain_trips < 12 else 100)
    assert state_after(summed, VALUES, slower, 130) == RETIRED


def test_what_is_not_clear_is_weighed_again_soon():
    """The second time shows what the first one didn't."""
    slower = Clock(lambda trips: 90 * trips, lambda c: 190 if c.runs < 128 else 140)
    assert state_after(summed, VALUES, slower, 400) == RETIRED
    clear = Clock(lambda trips: 30 * trips, lambda c: 190 if c.runs < 128 else 140)
    assert state_after(summed, VALUES, clear, 400) == NATIVE


def test_what_is_clear_is_over_soon():
    """As CPython's runs of this loop take ten times as long as native ones, few of them tell enough."""
    clear = Clock(lambda trips: 2000, lambda c: 200)
    assert state_after(searched, 200, clear, 200) == NATIVE
    assert clear.plain_trips < 8 * 200


@pytest.mark.parametrize(("native", "state"), [(600, RETIRED), (400, NATIVE)])
def test_a_long_run_is_looked_at_early(native, state):
    """Three times as slow as CPython's trips: nobody waits for more than a few runs of it."""
    clock = Clock(lambda trips: native * trips, lambda c: 230 if native == 600 else 390)
    assert state_after(summed, VALUES * 2, clock, 5) == state
    assert clock.runs <= (3 if state == RETIRED else 5)


def test_a_slow_run_alone_does_not_end_it():
    times = iter([400_000, 20_000, 300_000, 20_000] + [20_000] * 400)
    clock = Clock(lambda trips: next(times), lambda c: 700)
    assert state_after(summed, VALUES, clock, 6) == NATIVE


@pytest.mark.parametrize(("least", "state"), [(20, NATIVE), (0, RETIRED)])
def test_a_triangle_is_judged_by_all_of_its_trips(least, state):
    """CPython's first trips are faster than native ones are on average, as in Durbin's recursion."""
    clock = Clock(lambda trips: 500 * trips, lambda c: 40 + least * c.trip)
    assert state_after(summed, VALUES * 10, clock, 60) == state


def test_long_runs_at_first_do_not_spare_short_ones():
    """The loop's first runs are long, and gain; then it is left again and again, which doesn't: what was found of runs is no
    answer for what lies between them."""
    clock = Clock(lambda trips: (400 if clock.runs < 8 else 30) * trips, lambda c: 1000 if c.runs < 8 else 20)
    assert state_after(summed, VALUES, clock, 400) == RETIRED


def test_what_was_left_of_another_iterator_does_not_count():
    """Its first runs are sampled, and it is weighed when they take less: the trips that were left then were taken for some of
    CPython's that took no time at all."""
    clock = Clock(lambda trips: (26 if clock.runs < 4 else 16) * trips, lambda c: 150)
    assert state_after(summed, VALUES * 5, clock, 300) == NATIVE


def run_lengths(values):
    i, out = 0, []
    while i < len(values):
        j = i
        while j < len(values) and values[j] == values[i]:
            j += 1
        out.append(id(values) * 0 + j - i)
        i = j
    return out


@pytest.mark.parametrize(("length", "native", "state"), [(2, 900, RETIRED), (20, 300, NATIVE)])
def test_runs_of_a_while_loop_are_told_apart_by_what_is_around_it(length, native, state):
    """In one call, in which no iterator says that the loop around it has gone on."""
    values = [(k // length) % 7 for k in range(400 * length)]
    assert state_after(run_lengths, values, Clock(lambda trips: native, lambda c: 200), 2, -1) == state


@pytest.mark.parametrize(("plain", "state"), [(110, RETIRED), (160, NATIVE)])
def test_what_asking_takes_is_no_part_of_cpythons_trips(plain, state):
    """The open way is asked at each trip that is weighed, which takes 40 to 100 ns; 70 are taken off."""
    assert state_after(summed, VALUES, Clock(lambda trips: 50 * trips, lambda c: plain), 400) == state
    assert state_after(searched, 100, Clock(lambda trips: 50 * 100, lambda c: plain), 400) == state


@pytest.mark.parametrize(("values", "calls"), [(VALUES * 3, 400), (VALUES * 300, 20)])
def test_a_trip_may_take_less_than_asking(values, calls):
    """Beside 1 ns natively."""
    assert state_after(summed, values, Clock(lambda trips: trips, lambda c: 48), calls) == NATIVE


SELF = """
def count(tree):
    if not tree:
        return 1
    total = 0
    for part in tree:
        total += count(part)
    return total
"""


@pytest.mark.parametrize(("native", "plain", "state"), [(3000, 9000, NATIVE), (3000, 2900, RETIRED), (3000, 40000, NATIVE)])
def test_whole_calls_of_a_function_that_calls_itself_are_compared(native, plain, state):
    """Few of CPython's calls tell, where the difference is clear."""
    space = {}
    exec(SELF, space)
    count = space["count"] = dynoc.optimize(space["count"], wait=True, options={"retire": True})
    tree, made = [[[], []], [[], [[]]]], 0
    assert count(tree) == 4
    _dynoc._loops_turns(native, plain)
    try:
        for _ in range(60):
            assert count(tree) == 4
            if count.loops[0].startswith(RETIRED):  # it is tried again some time later
                break
    finally:
        made = _dynoc._loops_turns(0, 0)
    assert count.loops[0].startswith(state)
    assert 1 <= made <= (1 if plain > 4 * native else 10)
