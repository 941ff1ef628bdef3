"""Rows of the capture table about functions: closures, cells, globals, defaults, arguments, lambdas, decorators, functools."""

import functools
import itertools
import operator

import numpy as np
from case import Call, f64
from language import row

TOTAL = 0
WEIGHT = 2.0


def forget():
    global TOTAL
    TOTAL = 0


def total():
    return TOTAL


def helper(x, k=2.0, *, shift=1.0):
    return x * k + shift


def variadic(*args, **kwargs):
    return args[0] * kwargs.get("k", 1.0) + len(args)


def doubling(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs) * 2.0

    return wrapper


@doubling
def decorated(x):
    return x + 1.0


@functools.lru_cache(maxsize=None)
def cached(n):
    return n * 2.0


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


def power(x, n):
    return x if n == 1 else x * power(x, n - 1)


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


# ---- closures


@row(ops=1)
def closure_read(x):
    k = 2.0

    def inner(v):
        return v * k

    return inner(x)


@row(ops=1)
def closure_written(x):
    n = 0

    def count():
        nonlocal n
        n += 1
        return n

    count()
    count()
    return x * n


@row(ops=2)
def closure_array_written(x):
    acc = x

    def add(v):
        nonlocal acc
        acc = acc + v

    add(1.0)
    add(x)
    return acc


@row(ops=1)
def closure_returned(x):
    y = x + 1.0

    def get():
        return y

    return get()


@row(ops=1, factory=True)
def closure_of_factory():
    k = 2.0

    def scaled(x):
        return x * k

    return scaled


@row(ops=1, factory=True)
def counting_factory():
    n = 0

    def counting(x):
        nonlocal n
        n += 1
        return x * 2.0, n

    return counting


@row(ops=2, graphs=2, factory=True)
def remembering_factory():
    last = None

    def remembering(x):
        nonlocal last
        before, last = last, x + 1.0
        return before is None

    return remembering


@row(ops=2, graphs=2, factory=True)
def collecting_factory():
    seen = []

    def collecting(x):
        seen.append(x.shape[0])
        if len(seen) > 1:
            seen.pop()
        return x * 2.0

    return collecting


@row(ops=3)
def closures_in_a_list(x):
    fs = [lambda v, i=i: v + i for i in range(3)]
    for f in fs:
        x = f(x)
    return x


@row(ops=3)
def late_binding(x):
    fs = [lambda v: v * i for i in range(3)]
    return [f(x) for f in fs]


@row(ops=2)
def composed(x):
    def compose(f, g):
        return lambda v: f(g(v))

    return compose(lambda v: v + 1.0, lambda v: v * 2.0)(x)


@row(ops=1)
def nested_three_deep(x):
    def outer(k):
        def middle(m):
            def inner(v):
                return v * (k + m)

            return inner

        return middle

    return outer(1.0)(2.0)(x)


# ---- globals


@row(ops=1)
def global_read(x):
    return x * WEIGHT


@row(ops=1, reset=forget, observe=total)
def global_written(x):
    global TOTAL
    TOTAL = x.shape[0]
    return x + TOTAL


@row(ops=1, reset=forget, observe=total)
def global_counted(x):
    global TOTAL
    TOTAL += 1
    TOTAL += 1
    return x * 2.0


@row(ops=1, reset=forget, observe=total)
def global_array(x):
    global TOTAL
    TOTAL = x * 2.0


# ---- arguments


@row(ops=2)
def default_arguments(x):
    return helper(x)


@row(ops=2)
def keyword_arguments(x):
    return helper(shift=0.5, x=x)


@row(ops=2)
def star_arguments(x):
    args, kwargs = (x, 3.0), {"shift": 2.0}
    return helper(*args, **kwargs)


@row(ops=2)
def variadic_call(x):
    return variadic(x, 1, 2, k=3.0)


@row(ops=2)
def star_of_list_and_tuple(x):
    return variadic(*[x, 1], *(2, 3), **{"k": 2.0})


@row(lambda n: Call(f64(n), 1.0, 2.0, k=3.0), ops=3)
def variadic_itself(x, *args, **kwargs):
    for a in args:
        x = x + a
    return x * kwargs["k"]


@row(lambda n: Call(f64(n), b=2.0), ops=1)
def keyword_only_itself(x, *, a=1.0, b):
    return x * b if a == 1.0 else x


@row(ops=1)
def positional_only(x):
    def f(a, /, b):
        return a * b

    return f(x, b=2.0)


@row(ops=1)
def default_that_is_mutable(x):
    def f(v, acc=None):
        acc = [] if acc is None else acc
        acc.append(v)
        return acc

    return f(x + 1.0), f(1)


# ---- recursion, lambdas, decorators


@row(ops=1)
def recursion_of_numbers(x):
    return x * factorial(5)


@row(ops=3)
def recursion_of_arrays(x):
    return power(x, 4)


@row(ops=1)
def mutual_recursion(x):
    return x * 2.0 if even(4) else x


@row(ops=1)
def local_recursion(x):
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    return x * down(3)


@row(ops=1)
def lambdas(x):
    return (lambda v: v * 2.0)(x)


@row(ops=2)
def decorated_outside(x):
    return decorated(x)


@row(ops=2)
def decorated_inside(x):
    @doubling
    def local(v):
        return v + 1.0

    return local(x)


@row(lambda n: (f64(n), np.sin), ops=1, tol="near")
def function_argument(x, f):
    return f(x)


@row(lambda n: (f64(n), lambda v: v * 2.0), ops=1, graphs=1)
def lambda_argument(x, f):
    return x + 1.0


# ---- functools, operator, itertools


@row(ops=2)
def partials(x):
    return functools.partial(helper, k=3.0)(x)


@row(ops=2)
def reduced(x):
    return functools.reduce(lambda a, b: a + b, [x, 1.0, 2.0])


@row(ops=2)
def reduced_with_start(x):
    return functools.reduce(operator.mul, (2.0, x), x)


@row(ops=1, breaks=1)  # the cache counts its calls: it is asked for real
def cached_function(x):
    return x * cached(3)


@row(ops=3)
def operators(x):
    return operator.neg(operator.add(x, operator.mul(x, 2.0)))


@row(ops=1)
def method_caller(x):
    return operator.attrgetter("shape")(x)[0] * x


@row(ops=2)
def mapped(x):
    return list(map(lambda v: v + 1.0, [x, 2, x]))


@row(ops=1)
def mapped_two(x):
    return [a * b for a, b in zip(map(float, [1, 2]), [x, 3])]


@row(ops=1)
def filtered(x):
    return x * sum(filter(lambda v: v > 1, [1, 2, 3]))


@row(ops=2)
def zipped(x):
    for a, b in zip((1.0, 2.0), [3, 4], strict=True):
        x = x * (a + b)
    return x


@row(ops=3)
def enumerated(x):
    for i, v in enumerate([1.0, 2.0, 3.0], start=1):
        x = x + i * v
    return x


@row(ops=2)
def reversed_items(x):
    for v in reversed([1.0, 2.0]):
        x = x / v
    return x


@row(ops=2)
def extremes(x):
    return x * max([1, 3, 2]) * 1 if min(3, 2, key=lambda v: -v) == 3 else x


@row(ops=2)
def chained(x):
    for v in itertools.chain([1.0], (2.0,)):
        x = x + v
    return x


@row(ops=4)
def products(x):
    for a, b in itertools.product((1, 2), (3, 4)):
        x = x + a * b
    return x


@row(ops=3)
def combinations(x):
    for a, b in itertools.combinations([1, 2, 3], 2):
        x = x + a * b
    return x


@row(ops=3)
def counted(x):
    for i, v in zip(itertools.count(1), [x, x, x]):
        x = x + i * 1.0
    return x


@row(ops=2)
def accumulated(x):
    return list(itertools.accumulate([x, 1.0, 2.0]))


@row(ops=2)
def sliced(x):
    for v in itertools.islice([1.0, 2.0, 3.0], 2):
        x = x + v
    return x


@row(ops=3)
def repeated(x):
    for v in itertools.repeat(2.0, 3):
        x = x * v
    return x


@row(ops=2)
def paired(x):
    return [b - a for a, b in itertools.pairwise([x, 2.0, 3.0])][0] + 1.0


@row(ops=2)
def zipped_longest(x):
    for a, b in itertools.zip_longest([1.0, 2.0], [3.0], fillvalue=0.0):
        x = x + (a + b)
    return x


@row(ops=1)
def truths(x):
    return x + 1.0 if all(v > 0 for v in (1, 2)) and any([0, 1]) and not all([]) is False else x


@row(ops=1)
def starmapped(x):
    return x * sum(itertools.starmap(lambda a, b: a * b, [(1, 2), (3, 4)]))
