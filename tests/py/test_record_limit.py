"""How long a recording may be: operations pay for instructions, and what spins without making any ends it, in networks too."""

import numpy as np
import pytest
from compare import dynoc
from logs import logged

@pytest.fixture(autouse=True)
def no_native_loops(monkeypatch):
    """The loops here are the recorder's."""
    monkeypatch.setattr(dynoc.config, "loops", False)


LIMIT = 1000


def ended(fn, *args):
    """How often the recording of a call came to an end, of an inlined one too, because it was too long; and the function."""
    fast = dynoc.optimize(fn, wait=True, options={"record_limit": LIMIT})
    with logged("graph_breaks") as lines:
        np.testing.assert_allclose(fast(*args), fn(*args))
    # the break in the caller that a callee's end becomes names it again, with the way there
    return sum("BUDGET: the function is too long" in line and "called from" not in line for line in lines), fast


def steps(n, scalars):
    """A function of n operations, each behind as many additions of Python numbers."""
    lines, space = ["    i = i + 1"] * scalars + ["    x = x + 1.0"], {}
    exec(compile("\n".join(["def fn(x):", "    i = 0", *lines * n, "    return x + i"]), "<steps>", "exec"), space)
    return space["fn"]


@pytest.mark.parametrize(("n", "scalars"), [(400, 1), (200, 2)])
def test_a_long_recording_that_makes_operations_goes_on(n, scalars):
    times, fast = ended(steps(n, scalars), np.ones(3))
    assert times == 0 and len(fast.entries) == 1
    hits = fast.entries[0].hits
    fast(np.ones(3))
    assert fast.entries[0].hits == hits + 1


def test_one_that_makes_few_ends():
    assert ended(steps(200, 10), np.ones(3))[0] == 1


def spins(x, trips):
    x, i = x + 1, 0
    while i < trips:
        i += 1
    return x * i


@pytest.mark.parametrize(("trips", "times"), [(20, 0), (500, 1)])
def test_what_spins_ends(trips, times):
    assert ended(spins, np.ones(3), trips)[0] == times


@pytest.mark.parametrize(("trips", "times"), [(20, 0), (500, 1)])
def test_what_spins_in_a_network_ends(trips, times):
    torch = pytest.importorskip("torch")

    class Spins(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x):
            return spins(self.layer(x), trips)

    with torch.no_grad():
        assert ended(Spins(), torch.ones(2, 3))[0] == times


def test_many_operations_do_not_pay_for_spinning():
    """There are operations enough for all instructions of the call, but at most as many as the limit go by without a new one."""

    def fn(x, trips):
        return spins(many(x), trips)

    many = steps(400, 1)
    assert ended(fn, np.ones(3), 20)[0] == 0
    assert ended(fn, np.ones(3), 200)[0] > 0
