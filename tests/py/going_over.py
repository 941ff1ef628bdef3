"""For tests of calls that go over to loop code in the midst of a loop, at a place of their own."""

import sys

import pytest

import dynoc
from dynoc import _dynoc

go_over = _dynoc._go_over
HAS = sys.version_info < (3, 14)  # from 3.14 on calls stay in the code that they began in


@pytest.fixture(autouse=True)
def enabled():
    dynoc.enable()
    yield
    dynoc.disable()


def gone_over():
    return dynoc.counters["loops"].get("gone over", 0)
