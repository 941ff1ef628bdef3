"""What a row of the capture tables is (functions_language_*.py): a function, its arguments, and what it is captured as."""

from case import Call, f64, nothing

ROWS = []


class Row:
    """One row: see row() for what the fields mean."""

    def __init__(self, fn, maker, ops, graphs, breaks, factory, tol, reset, observe):
        self.make = fn if factory else (lambda: fn)
        self.name = fn.__name__
        self.maker, self.ops, self.graphs, self.breaks = maker, ops, graphs, breaks
        self.tol, self.reset, self.observe = tol, reset, observe

    def __repr__(self):
        return self.name


def arrays(n):
    return (f64(n),)


def row(maker=arrays, *, ops, graphs=1, breaks=0, factory=False, tol="bits", reset=nothing, observe=nothing):
    """Put the decorated function into the table.

    maker: the arguments for size n, a tuple or a Call, fresh each time.
    ops: operators in its graphs. graphs: entries with array work. breaks: segments that end before the function does.
    factory: the decorated function returns the function to test, a fresh one each time.
    reset, observe: put the state outside the arguments back before a call; return it after a call, to be compared.
    """

    def add(fn):
        def call(n):
            made = maker(n)
            return made if isinstance(made, Call) else Call(*made)

        ROWS.append(Row(fn, call, ops, graphs, breaks, factory, tol, reset, observe))
        return fn

    return add
