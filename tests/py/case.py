"""What a row of the test table is, and the makers of its arguments.

A row is a function and one or more makers. A maker gives the arguments of one call, fresh and the same at every use, so that
one set can go to the plain function and another to the optimised one. functions.py gathers the rows.
"""

import numpy as np

TABLE = []


class Call:
    """Arguments of one call that has keyword arguments."""

    def __init__(self, *args, **kwargs):
        self.args = args
        self.kwargs = kwargs


class Case:
    """One row: see case() for what the fields mean."""

    def __init__(self, make, name, makers, tol, reset, observe):
        self.make = make
        self.name = name
        self.makers = makers
        self.tol = tol
        self.reset = reset
        self.observe = observe

    def __repr__(self):
        return self.name


def nothing():
    return None


def case(*makers, tol="bits", reset=nothing, observe=nothing, factory=False):
    """Put the decorated function into the table.

    makers: each returns a tuple of arguments or a Call.
    tol: "bits" where every value has to be the plain one's bit for bit, "near" where a transcendental function or a floating
    reduction is in it.
    reset, observe: put the state outside the arguments back before a call; return it after a call, to be compared.
    factory: the decorated function returns the function to test, a fresh one each time (closures).
    """

    def add(fn):
        make = fn if factory else (lambda: fn)
        TABLE.append(Case(make, fn.__name__, [to_call(m) for m in makers], tol, reset, observe))
        return fn

    return add


def to_call(maker):
    def call():
        made = maker()
        return made if isinstance(made, Call) else Call(*made)

    return call


def f64(*shape, seed=0):
    """Ordinary numbers between -3 and 3."""
    return np.array(np.random.default_rng(seed + 11).uniform(-3.0, 3.0, shape))


def f32(*shape, seed=0):
    return f64(*shape, seed=seed).astype(np.float32)


def pos(*shape, seed=0, dtype=np.float64):
    """Ordinary numbers between 1/4 and 4."""
    return np.array(np.random.default_rng(seed + 13).uniform(0.25, 4.0, shape), dtype=dtype)


def i64(*shape, seed=0):
    return np.array(np.random.default_rng(seed + 17).integers(-9, 10, shape))


def b1(*shape, seed=0):
    return np.random.default_rng(seed + 19).integers(0, 2, shape).astype(bool)


def whole(*shape, seed=0, dtype=np.float64):
    """Whole numbers as floats: sums of them are exact in any order."""
    return i64(*shape, seed=seed).astype(dtype)


def hard(*shape, dtype=np.float64):
    """Zeros of both signs, infinities, NaN, the smallest and the largest numbers, repeated."""
    info = np.finfo(dtype)
    values = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, info.tiny, info.max, -info.max, 0.5, 2.0, 1e-3, 700.0]
    return np.resize(np.array(values, dtype=dtype), shape)


def readonly(a):
    a.flags.writeable = False
    return a


def vary1(make=f64):
    """Makers of one array: sizes 0 to 3 and more, and every kind of layout."""
    return [
        lambda: (make(7),),
        lambda: (make(0),),
        lambda: (make(1),),
        lambda: (make(2),),
        lambda: (make(3),),
        lambda: (make(70),),
        lambda: (make(),),
        lambda: (make(3, 5),),
        lambda: (make(0, 4),),
        lambda: (make(5, 1),),
        lambda: (make(20)[::2],),
        lambda: (make(20)[::-1],),
        lambda: (make(9)[1:],),
        lambda: (np.asfortranarray(make(4, 6)),),
        lambda: (make(4, 6).T,),
        lambda: (make(4, 6)[:, ::-2],),
        lambda: (np.broadcast_to(make(5), (3, 5)),),
        lambda: (readonly(make(6)),),
        lambda: (make(2, 3, 4).transpose(2, 0, 1),),
    ]


def vary2(make=f64):
    """Makers of two arrays that broadcast together."""
    return [
        lambda: (make(7), make(7, seed=1)),
        lambda: (make(0), make(0)),
        lambda: (make(1), make(7, seed=1)),
        lambda: (make(3, 1), make(4, seed=1)),
        lambda: (make(3, 4), make(seed=1)),
        lambda: (make(3, 4), make(4, seed=1)),
        lambda: (make(12)[::3], make(4, seed=1)[::-1]),
        lambda: (np.asfortranarray(make(4, 6)), make(4, 6, seed=1)),
        lambda: (np.asfortranarray(make(4, 6)), np.asfortranarray(make(4, 6, seed=1))),
        lambda: (make(4, 6).T, make(6, 1, seed=1)),
        lambda: (make(2, 1, 3), make(4, 1, seed=1)),
        lambda: (make(3), make(4, seed=1)),
    ]
