"""For tests of calls that go over to loop code in the midst of a loop, at a place of their own."""

import pytest

import dynoc
from dynoc import _dynoc

go_over = _dynoc._go_over


@pytest.fixture(autouse=True)
def enabled():
    dynoc.enable()
    yield
    dynoc.disable()


def gone_over():
    return dynoc.counters["loops"].get("gone over", 0)
