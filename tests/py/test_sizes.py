"""One entry serves every size and every number; what an entry does depend on makes a new one, and the log says what it was."""

import math

import numpy as np
import pytest
from case import f32, f64, i64, pos
from compare import check, dynoc
from logs import logged

scale = 2.0


def chain(x, s):
    y = x * s + 1.0
    return y * y - x


def trigonometry(x, y):
    return np.cos(x) + np.sin(y)


def reduction(x):
    return (x - x.mean(axis=1, keepdims=True)).sum(axis=0)


def stencil(u, k):
    c = u[1:-1, 1:-1]
    c += k * (u[2:, 1:-1] + u[:-2, 1:-1] - 2.0 * c)
    return u


def by_shape(x):
    n, m = x.shape
    return x[: n // 2] * m + n


def fold(x):
    return x.reshape(-1) * 2.0


def rows(x, y):
    return x[:, None] * y[None, :] + x.shape[0]


def halves(x):
    n = x.shape[0] // 2
    return x[:n] + x[n : 2 * n]


ONE_DIMENSION = [
    (chain, lambda n: (f64(n), 1.5)),
    (trigonometry, lambda n: (f64(n), f64(n, seed=1))),
    (rows, lambda n: (f64(n), f64(n + 3))),
    (halves, lambda n: (f64(n + 2),)),
]
TWO_DIMENSIONS = [
    (reduction, lambda n, m: (f64(n, m),)),
    (stencil, lambda n, m: (f64(n, m), 0.1)),
    (by_shape, lambda n, m: (f64(n, m),)),
    (fold, lambda n, m: (f64(n, m),)),
    (chain, lambda n, m: (f32(n, m), 2.5)),
]


def names(rows_):
    return [fn.__name__ for fn, _ in rows_]


@pytest.mark.parametrize("fn, make", ONE_DIMENSION, ids=names(ONE_DIMENSION))
def test_one_entry_serves_100_sizes(fn, make):
    fast = dynoc.optimize(fn, wait=True)
    with logged("recompiles") as lines:
        for n in range(5, 105):
            check(fn, fast, lambda n=n: make(n), "near", what=f"n = {n}")
    assert len(fast.entries) == 1
    assert lines == []


@pytest.mark.parametrize("fn, make", TWO_DIMENSIONS, ids=names(TWO_DIMENSIONS))
def test_one_entry_serves_100_shapes(fn, make):
    fast = dynoc.optimize(fn, wait=True)
    with logged("recompiles") as lines:
        for i in range(100):
            n, m = 5 + i % 17, 6 + i % 23
            check(fn, fast, lambda n=n, m=m: make(n, m), "near", what=f"{n} x {m}")
    assert len(fast.entries) == 1
    assert lines == []


def numbers(x, s, t):
    return (x * s + t) / (s + 10.0) - math.sqrt(abs(t)) * x


def test_one_entry_serves_100_floats():
    fast = dynoc.optimize(numbers, wait=True)
    rng = np.random.default_rng(3)
    with logged("recompiles") as lines:
        for s, t in rng.uniform(0.3, 9.0, (100, 2)).tolist():
            check(numbers, fast, lambda s=s, t=t: (f64(9), s, t), "near", what=f"s = {s}, t = {t}")
    assert len(fast.entries) == 1
    assert lines == []


def whole_numbers(x, n, m):
    return x * n + (m - n) // 3


def test_one_entry_serves_100_ints():
    fast = dynoc.optimize(whole_numbers, wait=True)
    with logged("recompiles") as lines:
        for n in range(2, 102):
            check(whole_numbers, fast, lambda n=n: (i64(9), n, 7 * n), what=f"n = {n}")
    assert len(fast.entries) == 1
    assert lines == []


@pytest.mark.parametrize("fn, make", ONE_DIMENSION, ids=names(ONE_DIMENSION))
def test_entries_at_small_sizes(fn, make):
    """The entry of an ordinary size, met with sizes 0 to 3, and entries recorded at those, met with all others."""
    for first in (9, 0, 1, 2, 3):
        fast = dynoc.optimize(fn, wait=True)
        for n in (first, first, 0, 1, 2, 3, 9, 0, 1, 2, 3):
            check(fn, fast, lambda n=n: make(n), "near", what=f"n = {n}, recorded with {first}")
        dynoc.reset()


@pytest.mark.parametrize("fn, make", TWO_DIMENSIONS, ids=names(TWO_DIMENSIONS))
def test_entries_at_small_shapes(fn, make):
    for first in ((7, 8), (1, 5), (0, 2), (3, 1)):
        fast = dynoc.optimize(fn, wait=True)
        for turn in range(2):
            for shape in (first, *((n, m) for n in (0, 1, 2, 3, 7) for m in (0, 1, 2, 3, 8))):
                check(fn, fast, lambda s=shape: make(*s), "near", what=f"{shape}, recorded with {first}, turn {turn}")
        dynoc.reset()


def new_entry(fn, before, after, words, tol="near"):
    """fn runs with one set of arguments, then another that needs an entry of its own: one log line with all the words."""
    fast = dynoc.optimize(fn, wait=True)
    check(fn, fast, before, tol)
    check(fn, fast, before, tol)
    assert len(fast.entries) == 1
    with logged("recompiles") as lines:
        check(fn, fast, after, tol)
        check(fn, fast, after, tol)
    assert len(fast.entries) == 2, lines
    assert len(lines) == 1, lines
    for word in (fn.__name__, *words):
        assert word in lines[0], lines[0]
    check(fn, fast, before, tol)
    assert len(fast.entries) == 2
    return lines[0]


def test_dtype_changes():
    new_entry(chain, lambda: (f64(6), 1.5), lambda: (f32(6), 1.5), ["x", "dtype", "float64", "float32"])


def test_rank_changes():
    new_entry(chain, lambda: (f64(6), 1.5), lambda: (f64(6, 2), 1.5), ["x", "ndim", "1", "2"])


def test_type_of_number_changes():
    new_entry(chain, lambda: (f64(6), 1.5), lambda: (f64(6), 2), ["s", "float", "int"])


def by_sign(x, s):
    if s > 0:
        return x * s
    return x - s


def test_branch_outcome_changes():
    line = new_entry(by_sign, lambda: (f64(6), 1.5), lambda: (f64(6), -1.5), ["s"])
    assert "1.5" in line


def by_length(x):
    if x.shape[0] > 10:
        return x[:10] * 2
    return x * 3


def test_branch_on_size_changes():
    new_entry(by_length, lambda: (f64(6),), lambda: (f64(16),), ["x", "10"])


def test_branch_on_size_is_a_relation():
    fast = dynoc.optimize(by_length, wait=True)
    for n in range(2, 40):
        check(by_length, fast, lambda n=n: (f64(n),), what=f"n = {n}")
    assert len(fast.entries) == 2


def uses_global(x):
    return x * scale


def test_global_changes():
    global scale
    scale = 2.0
    fast = dynoc.optimize(uses_global, wait=True)
    check(uses_global, fast, lambda: (f64(4),))
    check(uses_global, fast, lambda: (f64(4),))
    with logged("recompiles") as lines:
        scale = "nothing"
        check(uses_global, fast, lambda: (f64(4),))
        scale = f64(4)
        check(uses_global, fast, lambda: (f64(4),))
    assert lines and "scale" in lines[0] and "float" in lines[0], lines


def test_closure_cell_changes():
    factor = 2.0

    def uses_cell(x):
        return x * factor

    fast = dynoc.optimize(uses_cell, wait=True)
    check(uses_cell, fast, lambda: (f64(4),))
    check(uses_cell, fast, lambda: (f64(4),))
    with logged("recompiles") as lines:
        factor = f64(4)
        check(uses_cell, fast, lambda: (f64(4),))
    assert len(lines) == 1 and "factor" in lines[0], lines
    factor = 3.0
    check(uses_cell, fast, lambda: (f64(4),))


def test_defaults_change():
    def with_defaults(x, s=2.0, *, t=1.0):
        return x * s + t

    fast = dynoc.optimize(with_defaults, wait=True)
    for defaults, keyword in (
        ((2.0,), 1.0),
        ((3.0,), 1.0),
        ((3,), 1.0),
        ((f64(4),), 1.0),
        ((2.0,), 4),
        ((2.0,), f64(4)),
        (None, 1.0),
    ):
        with_defaults.__defaults__ = defaults
        with_defaults.__kwdefaults__ = {"t": keyword}
        for _ in range(3):
            check(with_defaults, fast, lambda: (f64(4),), what=f"{defaults} {keyword}")


def test_code_changes():
    def first(x):
        return x + 1

    def second(x):
        return x * 5

    fast = dynoc.optimize(first, wait=True)
    check(first, fast, lambda: (f64(4),))
    check(first, fast, lambda: (f64(4),))
    first.__code__ = second.__code__
    check(first, fast, lambda: (f64(4),))
    assert fast(np.ones(2)).tolist() == [5.0, 5.0]


def test_function_called_changes():
    def use(x):
        return helper_of_test(x) + 1

    fast = dynoc.optimize(use, wait=True)
    original = helper_of_test.__code__
    check(use, fast, lambda: (f64(4),))
    check(use, fast, lambda: (f64(4),))
    try:
        helper_of_test.__code__ = (lambda v: v - 7).__code__
        check(use, fast, lambda: (f64(4),))
    finally:
        helper_of_test.__code__ = original
    check(use, fast, lambda: (f64(4),))


def helper_of_test(v):
    return v * 2


def writes(x, y):
    x += 1
    x += y
    return x


def same():
    a = f64(6)
    return a, a


def shifted():
    a = f64(8)
    return a[:6], a[2:]


def test_alias_pattern_changes():
    new_entry(writes, lambda: (f64(6), f64(6)), same, ["x", "y"], "bits")


def test_every_alias_pattern():
    fast = dynoc.optimize(writes, wait=True)
    for _ in range(3):
        for make in (
            lambda: (f64(6), f64(6)),
            same,
            shifted,
            lambda: shifted()[::-1],
            lambda: (f64(6), f64()),
            lambda: (f64(6), 2.0),
        ):
            check(writes, fast, make)


def test_layout_changes():
    fast = dynoc.optimize(trigonometry, wait=True)
    makers = (
        lambda: (f64(6, 4), f64(6, 4)),
        lambda: (f64(4, 6).T, f64(4, 6).T),
        lambda: (f64(4, 6).T, f64(6, 4)),
        lambda: (f64(6, 8)[:, ::2], f64(6, 4)[::-1]),
        lambda: (np.broadcast_to(f64(4), (6, 4)), f64(6, 1)),
    )
    for _ in range(3):
        for maker in makers:
            check(trigonometry, fast, maker, "near")


def test_unaligned_arrays():
    def unaligned(n):
        return np.frombuffer(b"x" + pos(n).tobytes(), dtype=np.float64, offset=1)

    fast = dynoc.optimize(trigonometry, wait=True)
    for _ in range(2):
        check(trigonometry, fast, lambda: (f64(9), f64(9)), "near")
        check(trigonometry, fast, lambda: (unaligned(9), f64(9)), "near")


class Weights:
    def __init__(self):
        self.w = 2.0


def uses_attribute(m, x):
    return x * m.w


def test_attribute_changes():
    fast = dynoc.optimize(uses_attribute, wait=True)
    m = Weights()
    for w in (2.0, 3.0, 4, f64(4), f32(4), None, 2.0):
        m.w = w
        for _ in range(3):
            check(uses_attribute, fast, lambda: (m, f64(4)))
    del m.w
    check(uses_attribute, fast, lambda: (m, f64(4)))
    Weights.w = 9.0
    try:
        check(uses_attribute, fast, lambda: (m, f64(4)))
    finally:
        del Weights.w


def test_more_entries_than_the_limit():
    dynoc.config.cache_limit = 2
    fast = dynoc.optimize(chain, wait=True)
    for _ in range(3):
        for shape in ((4,), (4, 3), (2, 3, 4), (2, 2, 2, 2), ()):
            check(chain, fast, lambda shape=shape: (f64(*shape), 1.5))
    assert len(fast.entries) <= 2


def test_reset_forgets_every_entry():
    fast = dynoc.optimize(chain, wait=True)
    check(chain, fast, lambda: (f64(4), 1.5))
    assert len(fast.entries) == 1
    dynoc.reset()
    assert len(fast.entries) == 0
    check(chain, fast, lambda: (f64(4), 1.5))
    assert len(fast.entries) == 1


def test_hits_are_counted():
    fast = dynoc.optimize(chain, wait=True)
    for _ in range(5):
        fast(f64(4), 1.5)
    assert [e.hits for e in fast.entries] == [4]
    assert fast.entries[0].tier == "native"
    assert any("x.dtype == float64" in guard for guard in fast.entries[0].guards)
