"""Rows of the test table about Python around arrays: control flow, containers, calls, closures, exceptions, effects, breaks.

Imported by functions.py.
"""

import ctypes
import functools
import io
import math
import operator
import random
import time
from collections import namedtuple

import numpy as np
from case import Call, b1, case, f32, f64, i64, pos, whole

SCALE = 2.5
WEIGHTS = np.array([1.0, 2.0, 3.0, 4.0])
SETTINGS = {"gain": 1.5, "shift": (1, 2)}
counter = 0
Pair = namedtuple("Pair", "first second")
labs = ctypes.CDLL(None).labs  # a C function that dynoc knows nothing of


class CustomError(Exception):
    pass


# ---- branches and loops


@case(lambda: (f64(4), 1.5), lambda: (f64(4), -1.5), lambda: (f64(4), 0), lambda: (f64(4), math.nan), lambda: (f64(4), True))
def branch_on_number(x, s):
    if s > 0:
        return x * s
    elif s == 0:
        return x
    return x - s


@case(lambda: (f64(4),), lambda: (f64(2, 3),), lambda: (f64(9),), lambda: (f64(0),))
def branch_on_shape(x):
    if x.ndim == 2:
        x = x.reshape(-1)
    if x.shape[0] > 5:
        return x[:5] * 2
    if len(x) == 0:
        return None
    return x + x.size


@case(lambda: (f64(4), None), lambda: (f64(4), f64(4)), lambda: (f64(4), 3))
def branch_on_none(x, y=None):
    return x if y is None else x + y


@case(lambda: (f64(4), "double"), lambda: (f64(4), "half"), lambda: (f64(4), "other"))
def branch_on_string(x, mode):
    if mode == "double":
        return x * 2
    return x / 2 if mode == "half" else mode


@case(lambda: (f64(4), True, 0), lambda: (f64(4), False, 3), lambda: (f64(4), [], ""), lambda: (f64(4), [1], (0,)))
def truth_of_things(x, a, b):
    y = x + 1 if a and not b else x - 1
    return y, a or b, a and b, not a


@case(lambda: (whole(4),), lambda: (-np.abs(whole(4)) - 1,))
def branch_on_data(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


@case(lambda: (f64(4),), lambda: (f64(1),), lambda: (f64(0),))
def truth_of_an_array(x):
    y = x * 2
    if y:
        return y + 1
    return y


@case(lambda: (f64(4), 1.0, 2.0), lambda: (f64(4), 2.0, 1.0), lambda: (f64(4), 1, 5))
def chained_comparison(x, lo, hi):
    return x * hi if 0 < lo < hi <= 5 else x * lo


@case(lambda: (f64(4), 3), lambda: (f64(4), 0), lambda: (f64(4), 5), lambda: (f64(4), -1))
def loop_over_range(x, n):
    y = x
    for i in range(n):
        y = y * 2 + i
    return y


@case(lambda: (f64(4),))
def long_loop(x):
    for _ in range(40):
        x = x * 0.5 + 1
    return x


@case(lambda: (f64(4), 10), lambda: (f64(4), 33))
def while_loop(x, n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
        if steps > 20:
            break
    else:
        x = x + 0.5
    return x * steps, n


@case(lambda: (f64(4), (1.0, 2, f64(4, seed=1))), lambda: (f64(4), [3.0]), lambda: (f64(4), ()), lambda: (f64(4), {2: 1, 3: 1}))
def loop_over_container(x, items):
    for item in items:
        x = x + item
    return x


@case(lambda: (f64(3, 4),), lambda: (f64(1, 2),), lambda: (f64(0, 2),), lambda: (f64(3),))
def loop_over_rows(x):
    total = 0
    for row in x:
        total = total + row * 2
    return total


@case(
    lambda: (f64(4), [1, 2, 3], (4.0, 5.0)),
)
def zip_and_enumerate(x, a, b):
    for i, (p, q) in enumerate(zip(a, b)):
        x = x * p + q - i
    return x, list(zip(a, b)), [v for v in reversed(a)], sorted(b)


@case(lambda: (f64(4),))
def continue_and_break(x):
    for i in range(10):
        if i % 2:
            continue
        if i > 6:
            break
        x = x + i
    return x, i


@case(lambda: (f64(6),), lambda: (f64(2),))
def early_return(x):
    for i in range(5):
        if i * 2 > x.shape[0]:
            return x[i - 1 :]
        x = x + 1
    return x, "end"


@case(lambda: (f64(3, 3),), lambda: (f64(2, 3),))
def asserted(x):
    y = x + 1
    assert x.shape[0] == x.shape[1], f"not square: {x.shape}"
    return y.T


# ---- containers


@case(lambda: (f64(4), f64(4, seed=1)), lambda: (f64(2), f32(2)))
def containers_built(x, y):
    s = x + y
    return (s, x), [s, s], {"sum": s, "pair": (x, y), 3: None}, ()


@case(lambda: ((f64(3), f64(3, seed=1)), {"a": 2.0, "b": f64(3, seed=2)}), lambda: ((f64(2), 3), {"a": f64(2), "b": 1}))
def containers_unpacked(pair, table):
    a, b = pair
    c, d = table["a"], table["b"]
    (e, *f), g = [a, b, c], d
    return a + b * c - d, e, f, g


@case(lambda: ((f64(3),),), lambda: ([f64(3), 1, 2],), lambda: (f64(2, 3),), lambda: (f64(3, 3),))
def unpacking_that_fails(pair):
    z = pair[0] + 1
    a, b = pair
    return a + b + z


@case(lambda: ([f64(3)], f64(3)), lambda: ([], f64(3)))
def list_argument_mutated(items, x):
    y = x + 1
    items.append(y)
    items[0] = x
    items.extend([1, y])
    return items


@case(lambda: ({"a": f64(3)}, f64(3)), lambda: ({}, f64(3)))
def dict_argument_mutated(table, x):
    table["y"] = x * 2
    table.setdefault("z", []).append(x)
    table.update(a=1)
    return table.get("a"), table.get("nothing", x), "y" in table, table.pop("y")


@case(lambda: ({"a": f64(3)},), lambda: ({"b": f64(3)},))
def key_that_is_missing(table):
    out = []
    out.append(1)
    return table["a"] + 1


@case(lambda: (f64(3),))
def local_list(x):
    out = []
    for i in range(4):
        out.append(x + i)
    out[0] = out[-1] * 2
    out.insert(1, x)
    last = out.pop()
    return out, last, len(out), out[1:3], out + [1], [0] * 2


@case(lambda: (f64(3),))
def local_dict(x):
    d = {}
    for k in ("a", "b"):
        d[k] = x * len(d)
    d.update(c=x)
    return d, list(d), list(d.values()), [k for k, v in d.items()], "a" in d, {**d, "z": 1}


@case(
    lambda: (f64(3), [1, 2, 3]),
)
def comprehensions(x, n):
    a = [x * i for i in n if i != 2]
    b = {i: x + i for i in n}
    c = tuple(v + 1 for v in a)
    return a, b, c, {i % 2 for i in n}, [[i + j for j in range(i)] for i in n], sum(i * i for i in n)


@case(lambda: (f64(3), (1, 2, 3)), lambda: (f64(3), [1, 2, 3]))
def sequence_slices(x, items):
    return x * items[0] + items[-1], items[1:], items[::-1], items[0:1] + items, 2 in items, items.index(3)


@case(lambda: (f64(3),), lambda: (f64(2, 4),))
def strings(x):
    label = f"{x.ndim}-d {x.shape!r} {x.dtype} {x.size:04d} {SCALE:.1f}"
    return x + 1, label, "%d of %s" % (x.ndim, "them"), "{} {}".format(1, 2), label.upper(), str(x.shape), label[0] + "x"


@case(lambda: (whole(3),), lambda: (whole(2, 2),))
def string_of_data(x):
    y = x + 1
    return f"{y} and {y.sum():.2f}", y * 2


@case(
    lambda: (f64(3), 4),
)
def sets_and_slices_made(x, n):
    cut = slice(1, None)
    both = (slice(None), 0)
    return x[cut], {n, 1}, x.reshape(3, 1)[both], n in {1, 4}, range(n), range(n)[1:]


@case(lambda: (Pair(f64(3), 2.0),))
def named_tuple(p):
    return p.first * p.second, p[0] + 1, Pair(p.second, p.first)


# ---- calls


def helper(a, b=2, *rest, c=3.0, **others):
    total = a * b + c
    for r in rest:
        total = total + r
    return total, others


@case(lambda: (f64(3), f64(3, seed=1)), lambda: (f32(3), 2))
def calls_in_every_form(x, y):
    more = [y, 1]
    return helper(x), helper(x, y), helper(x, b=y, c=1), helper(x, y, 1, 2, c=0, d=y), helper(x, *more, **{"c": 5, "e": 6})


@case(lambda: Call(f64(3)), lambda: Call(f64(3), 4), lambda: Call(f64(3), b=4, c=f64(3)), lambda: Call(f64(3), 1, 2, 3, d=4))
def signature_in_every_form(a, b=2, /, *args, c=1.5, **kwargs):
    return a * b + c, args, kwargs


@case(lambda: Call(), lambda: Call(f64(3)), lambda: Call(f64(3), 1, z=2), lambda: Call(1, 2, 3), lambda: Call(b=1, a=f64(3)))
def wrong_arguments(a, b):
    return a + b


@case(lambda: (f64(3),))
def call_with_wrong_arguments(x):
    y = x + 1
    return helper(y, b=1, **{"b": 2})


def third(x):
    y = x[5]
    return y + 1


def second(x):
    return third(x * 2) + 1


@case(lambda: (f64(3),), lambda: (f64(7),))
def error_three_calls_deep(x):
    x += 1
    return second(x) + 1


@case(lambda: (f64(3), 4), lambda: (f64(3), 0))
def recursion(x, n):
    return x if n == 0 else recursion(x + n, n - 1) * 0.5


@case(lambda: (f64(3),))
def lambdas(x):
    double = lambda v: v * 2  # noqa: E731
    return double(x), (lambda a, b=1: a + b)(x), [f(x) for f in (double, np.abs)], sorted([3, 1], key=lambda v: -v)


@case(lambda: (f64(3), 2.0), lambda: (f64(3), f64(3, seed=1)))
def inner_functions(x, s):
    def scaled(v):
        return v * s + offset

    offset = 1.5
    a = scaled(x)
    offset = x
    return a, scaled(a)


@case(lambda: (f64(3),))
def inner_nonlocal(x):
    total = 0

    def more(v):
        nonlocal total
        total = total + v
        return total

    more(x)
    more(1)
    return total


@case(lambda: (f64(3),))
def inner_function_returned(x):
    y = x + 1

    def later(z):
        return y + z

    return later(1), later.__name__


@case(lambda: (f64(3),), factory=True)
def closure():
    scale, table = 3.0, [np.array([1.0, 2.0, 3.0])]

    def reads_cells(x):
        return x * scale + table[0]

    return reads_cells


@case(lambda: (f64(3),), factory=True)
def closure_that_counts():
    calls = 0

    def counts(x):
        nonlocal calls
        calls += 1
        return x + calls, calls

    return counts


@case(lambda: (f64(3),), lambda: Call(f64(3), s=7), factory=True)
def default_values():
    def with_defaults(x, w=np.array([1.0, 2.0, 3.0]), *, s=2.5):
        return x * w + s

    return with_defaults


@case(lambda: Call(f64(3)), lambda: Call(f64(3), f64(3)), factory=True)
def default_list_grows():
    def grows(x, seen=[]):  # noqa: B006
        seen.append(x.shape[0])
        return x * len(seen)

    return grows


class Model:
    """Methods, attributes, properties, class and static methods."""

    kind = "linear"

    def __init__(self, w, b):
        self.w = w
        self.b = b
        self.calls = 0

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        return self.scaled(x, self.w) + self.b

    @staticmethod
    def scaled(x, w):
        return x * w

    @classmethod
    def make(cls, x):
        return cls(x, 1.0)

    @property
    def total(self):
        return self.w + self.b

    def __add__(self, other):
        return Model(self.w + other, self.b)

    def __getitem__(self, i):
        return self.w[i]

    def __len__(self):
        return len(self.w)

    def __eq__(self, other):
        return isinstance(other, Model) and self.kind == other.kind

    __hash__ = None


class Deep(Model):
    __slots__ = ("extra",)

    def forward(self, x):
        self.extra = super().forward(x)
        return self.extra * 2


class Noisy:
    """Attribute access runs Python code."""

    def __init__(self):
        self.log = []

    def __getattr__(self, name):
        self.log.append(name)
        return len(self.log)


@case(lambda: (Model(f64(3), 1.5), f64(3)), lambda: (Model(2.0, f64(3)), f64(3)), lambda: (Deep(f64(3), 1), f64(3)))
def user_object_called(m, x):
    return m(x), m.forward(x) + m.total, m.kind, m.scaled(x, 2)


@case(
    lambda: (Model(f64(3), 1.5), f64(3)),
)
def attribute_stored(m, x):
    m.calls += 1
    m.last = x + m.w
    m.w = x
    return m.last * m.calls, m.w is x


@case(lambda: (Model(f64(3), 1.5), f64(3)), lambda: (Model(f64(3), 1.5), f64(4)))
def attribute_stored_then_error(m, x):
    m.calls = 5
    y = m.w + x
    m.calls = 6
    return y


@case(lambda: (f64(3),))
def object_made_inside(x):
    m = Model.make(x)
    n = m + 1
    return n(x), len(n), n[0], m == n, isinstance(m, Model), type(n).__name__


@case(lambda: (Model(f64(3), 1),), lambda: (Model(f64(3), 1),))
def attribute_missing(m):
    y = m.w * 2
    return y + m.nothing


@case(
    lambda: (Noisy(), f64(3)),
)
def attribute_that_runs_code(noisy, x):
    return x * noisy.a + noisy.b, noisy.log


@case(lambda: (f64(4),))
def global_values(x):
    return x * SCALE + WEIGHTS, SETTINGS["gain"] * x, SETTINGS["shift"][1] + x, math.pi * x, np.pi + x


def reset_counter():
    global counter
    counter = 0


@case(lambda: (f64(4),), lambda: (f64(5),), reset=reset_counter, observe=lambda: counter)
def global_written(x):
    global counter
    counter = counter + x.shape[0]
    y = x * counter
    counter += 1
    return y


@case(lambda: (f64(4),), reset=reset_counter, observe=lambda: counter)
def global_written_then_error(x):
    global counter
    counter = 7
    y = x * counter
    return y[counter]


@case(lambda: (f64(3),))
def name_that_is_missing(x):
    y = x + 1
    return y * not_defined_anywhere  # noqa: F821


@case(lambda: (f64(3), True), lambda: (f64(3), False))
def local_that_is_unbound(x, yes):
    if yes:
        y = x + 1
    x = x * 2
    return np.abs(y)


@case(lambda: (f64(3), True), lambda: (f64(3), False))
def local_deleted(x, yes):
    y = x + 1
    if yes:
        del y
    return y


# ---- numbers and builtins


@case(lambda: (f64(3), 2.25), lambda: (f64(3), 4), lambda: (f64(3), 0.0), lambda: (f64(3), -1.0), tol="near")
def math_functions(x, s):
    return x * math.sqrt(s) + math.floor(s), math.exp(s), math.sin(s) * x, math.isnan(s), math.hypot(s, 1), math.ceil(s)


@case(lambda: (f64(3), 3, 4.5), lambda: (f64(3), -3, 2), lambda: (f64(3), True, 1), lambda: (f64(3), 2**40, 3.0))
def builtin_functions(x, a, b):
    return x * max(a, b) + min(a, 1, b), abs(a), sum([a, b, 1]), round(b), divmod(a, 2), pow(a, 2), bool(a), float(a), int(b)


@case(
    lambda: (f64(3), 7, 2),
    lambda: (f64(3), -7, 2),
    lambda: (f64(3), 7, 0),
    lambda: (f64(3), 7.5, -2),
    lambda: (f64(3), 2**62, 8),
)
def python_arithmetic(x, a, b):
    c = a + b - 1
    d = a * b
    return x * (a // b) + a % b, c, d, a / b, -a, a**2, d - c


@case(lambda: (f64(3), 6, 3), lambda: (f64(3), -1, 70), lambda: (f64(3), 1, -1))
def python_bits(x, a, b):
    return x + (a & b), a | b, a ^ b, ~a, a << b, a >> b


@case(lambda: (f64(3), 0), lambda: (f64(3), 2))
def division_by_zero(x, n):
    y = x + 1
    k = 10 // n
    return y * k


@case(
    lambda: (f64(3), np.float64(2.5)),
    lambda: (f64(3), np.int64(2)),
    lambda: (f32(3), np.float64(2)),
    lambda: (f64(3), np.bool_(True)),
)
def numpy_scalar_argument(x, s):
    return x * s, s + 1, s * s, type(s).__name__


@case(lambda: (f64(3), 2 + 1j), lambda: (f64(3), 10**30), lambda: (f64(3), "text"), lambda: (f64(3), [1, 2, 3]))
def odd_operands(x, s):
    y = x * 2
    return y + s


@case(lambda: (f64(3),), lambda: (f64(1, 2),))
def identities(x):
    y = x[:]
    return (
        x is y,
        x is x,
        type(x) is np.ndarray,
        isinstance(x, np.ndarray),
        isinstance(x, (list, tuple)),
        callable(x),
        id(x) == id(x),
    )


@case(lambda: (f64(3),))
def attributes_by_name(x):
    return getattr(x, "shape"), getattr(x, "nothing", 5), hasattr(x, "T"), x.sum.__name__


# ---- what comes back


@case(lambda: (f64(3),), lambda: (5,), lambda: (None,), lambda: ([1],))
def argument_itself(x):
    return x


@case(lambda: (f64(3),))
def same_object_twice(x):
    y = x + 1
    return y, y, x, x, [y]


@case(lambda: (f64(3),))
def constants_back(x):
    x + 1
    return None, 1, 2.5, True, "text", b"bytes", (1, (2, 3)), ..., -0.0, 2**80, int


@case(lambda: (f64(5),), lambda: (f64(5, 2),))
def views_back(x):
    y = x * 2
    return x[1:], y[1:], y, y[1:][::-1], x.T, x.reshape(-1)


@case(lambda: (f64(3),))
def nothing_back(x):
    x * 2


# ---- exceptions


@case(lambda: (f64(3), 1), lambda: (f64(3), -1))
def error_raised(x, n):
    x += 1
    if n < 0:
        raise CustomError("negative", n)
    return x


@case(lambda: (f64(3), f64(4)), lambda: (f64(3), f64(3)))
def error_caught(x, y):
    try:
        z = x + y
    except ValueError as e:
        return x * 2, str(e)
    finally:
        x += 1
    return z


@case(lambda: (f64(3), 0), lambda: (f64(3), 2))
def error_from_error(x, n):
    try:
        y = x * (1 // n)
    except ZeroDivisionError as e:
        raise CustomError("no") from e
    return y


@case(lambda: (f64(3),))
def error_in_an_argument(x):
    return np.maximum(
        x * 2,
        x[[9]] + helper(x),
    )


@case(lambda: (f64(3),), lambda: (f64(3, 3),))
def error_in_a_comprehension(x):
    y = x + 1
    return [y[i] for i in range(5)]


@case(lambda: (f64(3),))
def error_of_type(x):
    y = x + 1
    return y + None


@case(
    lambda: (f64(3), io.StringIO()),
)
def with_block(x, out):
    with out:
        y = x + 1
        out.write("in")
    return y * 2, out.closed


# ---- breaks: calls that dynoc can't see into


@case(
    lambda: (f64(3), io.StringIO()),
)
def printing(x, out):
    y = x + 1
    print("shape", y.shape, file=out)
    z = y * 2
    print("sum", z.sum() > 0, file=out)
    return z - 1, out.getvalue()


@case(lambda: (f64(3),))
def clock_read(x):
    y = x * 2
    t = time.time()
    return y + 1, t > 0


@case(lambda: (f64(3), -5), lambda: (f64(3), 7))
def c_function_called(x, n):
    y = x * labs(n)
    return y + labs(n + 1)


@case(lambda: (f64(3),))
def opaque_calls_on_arrays(x):
    y = x + 1
    text = repr(y)
    items = y.tolist()
    return text, items, operator.add(y, 1), operator.itemgetter(0)(y), functools.reduce(operator.add, [y, y]), y.tobytes()


@case(
    lambda: (f64(3), [3, 1, 2]),
)
def opaque_calls_that_write(x, items):
    y = x * 2
    items.sort()
    random.Random(1).shuffle(items)
    np.copyto(y, 5, where=x > 0)
    y.fill(3) if items[0] > 5 else y.sort()
    return y + items[0], items


@case(lambda: (f64(3),))
def opaque_call_in_a_loop(x):
    seen = []
    for i in range(3):
        x = x + i
        seen.append(hash((i, x.shape)))
        x = x * 2
    return x, seen


def opaque_inside(x, out):
    y = x + 1
    out.write("a")
    return y * 2


@case(
    lambda: (f64(3), io.StringIO()),
)
def opaque_call_in_a_callee(x, out):
    y = opaque_inside(x, out) + 1
    return opaque_inside(y, out), out.getvalue()


def seed_random():
    np.random.seed(5)


@case(lambda: (f64(3),), reset=seed_random, observe=lambda: np.random.random(), tol="near")
def random_numbers(x):
    a = np.random.rand(3)
    y = x + a
    b = np.random.standard_normal(3)
    return y * b, np.random.randint(0, 9)


@case(
    lambda: (f64(3), np.random.default_rng(4)),
)
def random_generator(x, rng):
    return x + rng.random(3), rng.integers(0, 9)


@case(
    lambda: (f64(3), iter([1, 2, 3, 4])),
)
def iterator_of_the_caller(x, it):
    x = x + next(it)
    for v in it:
        x = x * v
        if v == 3:
            break
    return x, list(it)


def numbers(n):
    for i in range(n):
        yield i * 2


@case(
    lambda: (f64(3), 4),
)
def generator_used(x, n):
    for v in numbers(n):
        x = x + v
    return x, sum(numbers(3)), list(map(lambda v: v + 1, (1, 2))), any(v > 2 for v in (1, 2, 3))


class Operand:
    """Its operators are Python code that looks at the array."""

    __array_ufunc__ = None

    def __init__(self):
        self.seen = []

    def __radd__(self, other):
        self.seen.append(float(other[0]))
        return other * 2


@case(
    lambda: (whole(3), Operand()),
)
def operator_of_user_class(x, o):
    y = x + 1
    return y + o, o.seen


@case(lambda: (b1(4), f64(4)), lambda: (b1(2), f64(2)))
def any_and_all(m, x):
    return m.any(), np.all(m), any([1 > 2, x.ndim == 1]), x * m


@case(lambda: (f64(5),), lambda: (i64(5),), lambda: (pos(2, 3),))
def positions(x):
    return x.argmax(), np.argsort(x), np.cumsum(x), np.nonzero(x > 0)


@case(lambda: (f64(3),), factory=True)
def partial():
    return functools.partial(helper, b=3) if False else functools.wraps(helper)(lambda x: helper(x, b=3))
