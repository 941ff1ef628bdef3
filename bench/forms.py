"""What a peer makes of a kernel, and helpers that several peers use to make it. Each peer is a module `peer_<name>.py` with

VERSION             what is measured
start(threads)      called once, before anything else
form(kernel)        a Form; raises where the peer can't take the kernel, Unable where that is known beforehand
"""

import dis
from types import FunctionType

import numpy as np


class Unable(Exception):
    """The peer has no words for the kernel."""


class Form:
    """A kernel as one peer runs it.

    call(*args) works on what take() made of NumPy's arguments, outside the timing, and returns when the result is there. give()
    turns that result into NumPy's arrays for the comparison. note: what a reader of the table should know. check() is called
    after the first calls and adds to the note.
    """

    def __init__(self, call, take=None, give=None, note="", check=None):
        self.call = call
        self.take = take or (lambda args: args)
        self.give = give or (lambda result: result)
        self.note = note
        self.check = check or (lambda: "")


def rebuilt(fn, numpy, wrapped=lambda fn: fn):
    """The same code with another module as its np; so are the functions of its module that it calls, each wrapped."""
    space = dict(fn.__globals__)
    for name in {step.argval for step in dis.get_instructions(fn) if step.opname == "LOAD_GLOBAL"}:
        value = space.get(name)
        if value is np:
            space[name] = numpy
        elif isinstance(value, FunctionType):
            space[name] = wrapped(rebuilt(value, numpy, wrapped))
    return FunctionType(fn.__code__, space, fn.__name__, fn.__defaults__, fn.__closure__)


def each(convert, value):
    """The value with convert applied to its arrays; tuples and lists are gone through."""
    if isinstance(value, (tuple, list)):
        return tuple(each(convert, item) for item in value)
    return value if isinstance(value, (int, float, complex)) else convert(value)
