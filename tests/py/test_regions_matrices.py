"""Native loops over arrays of two axes that the loop makes: products, broadcasting, views, and what they are added up to."""

import math

import dynoc
import numpy as np
import pytest
from regions import Case, check


def rows(n, m, dtype=float):
    return (np.arange(n * m).reshape(n, m) * 0.37 - 3).astype(dtype)


def kalman(f, q, h, p, x, z, n):
    for i in range(n):
        x = f @ x
        p = f @ p @ f.T + q
        y = z[i] - h @ x
        s = h @ p @ h + 0.5
        k = p @ h / s
        x = x + k * y
        p = p - np.outer(k, h @ p)
    return x, p, k


def rotation(n, x):
    for i in range(n):
        t = i * 0.25
        r = np.array([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]])
        x = r @ x
        y = np.array([x[0], x[1], t])
        m = np.array([1.0, 2.0, i])
    return x, r, y, m


def made(n, m, k):
    for i in range(k):
        a = np.zeros((n, m)) + i
        b = np.ones((m, n), dtype=np.float64) * a.T
        c = np.eye(n) + np.eye(n, m + 1)[:, :n] * 2
        d = np.full((n, 2), 1.5)
        e = np.zeros_like(a) + np.ones_like(d[:, :1])
        g = np.zeros(n, dtype=int) + np.arange(n) * i
    return a, b, c, d, e, g


def broadcast(x, y, n):
    for i in range(n):
        a = x[:, None] * y + x[:, np.newaxis]
        b = a[None, :, :1] - y
        a -= x[:, None]
        a[:, 0] += x
        a[:] = y
        c = x[:, None] > y[None, :]
        y = y + i
    return a, b, c


def views(a, n):
    for i in range(n):
        b = a.reshape(-1, 2) * 2.0
        c = b.ravel()[1:] + a.reshape((a.size,))[:-1]
        d = np.reshape(b, (2, -1)).T.copy()
        e = b.flatten()
        b[0, 0] = i
        f = a[1:, ::-1].copy() + a.T.copy().T[1:]
        a = a + b.reshape(a.shape)
    return a, b, c, d, e, f


def joined(x, y, n):
    for i in range(n):
        a = np.concatenate((x, y, x[::2]))
        b = np.append(x, y)
        c = np.append(b, 2.0)
        d = np.concatenate([y, x * i])
        x = np.copy(c[:4]) + 1
    return a, b, c, d, x


def in_place(a, b, n):
    for i in range(n):
        a *= b
        a += a.T @ b
        a[i % 2] -= b[0]
        a -= a[:, :1]
        b = (a + a.T) / 2
    return a, b


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_filter_of_matrices(n):
    f, p, q = rows(3, 3) / 9 + np.eye(3), np.eye(3), np.eye(3) * 0.125
    check(kalman, (f, q, np.array([1.0, 0, 0.5]), p, np.ones(3), rows(1, 4)[0], n), [iter(range(n))])


def test_literals():
    check(rotation, (4, np.array([1.0, 2.0])), [iter(range(4))])


@pytest.mark.parametrize("n, m", [(1, 1), (2, 3), (3, 1), (4, 4)])
def test_matrices_are_made(n, m):
    check(made, (n, m, 3), [iter(range(3))], forced=n == 2)


@pytest.mark.parametrize("n, m", [(1, 1), (3, 1), (1, 3), (2, 3), (3, 3)])
def test_axes_of_one_element_are_repeated(n, m):
    check(broadcast, (rows(1, n)[0], rows(1, m)[0], 3), [iter(range(3))], forced=n == 2)


def test_a_loop_that_was_planned_for_other_axes():
    fast = dynoc.optimize(broadcast, wait=True)
    for n, m in [(3, 4), (1, 4), (3, 1), (1, 1), (0, 2), (3, 4)]:
        for _ in range(3):
            x, y = rows(1, n)[0], rows(1, m)[0]
            wanted, got = broadcast(x.copy(), y.copy(), 5), fast(x.copy(), y.copy(), 5)
            for w, g in zip(wanted, got):
                assert (w.shape, w.strides, w.dtype, w.tobytes()) == (g.shape, g.strides, g.dtype, g.tobytes())


@pytest.mark.parametrize("shape", [(2, 2), (4, 2), (3, 4)])
def test_views_and_copies(shape):
    check(views, (rows(*shape), 2), [iter(range(2))], forced=shape == (2, 2))


def test_vectors_are_joined():
    check(joined, (rows(1, 4)[0], rows(1, 3)[0], 3), [iter(range(3))])


def test_matrices_are_changed_in_place():
    check(in_place, (rows(2, 2), rows(2, 2) / 3, 3), [iter(range(3))])
    check(in_place, (rows(3, 3) * 1e200, rows(3, 3), 3), [iter(range(3))])


def test_products_of_other_sizes_raise():
    def product(a, b, n):
        for i in range(n):
            c = a[:, i:] @ b
        return c

    check(product, (rows(3, 3), rows(3, 2), 3), [iter(range(3))])


OPERANDS = "a", "a.T", "a[:, ::-1]", "a[::2]", "b", "b.T", "a[:, :1]", "a[:1]", "(a * 2).T"
RESULTS = "{0} + {1}", "-{0}", "np.copy({0})", "{0}.copy()", "({0} > {1})", "np.zeros_like({0})", "np.where({0} > 0, {0}, {1})"


def test_results_lie_as_those_of_numpy():
    for form in RESULTS:
        for x in OPERANDS:
            for y in OPERANDS if "{1}" in form else ["a"]:
                scope = {"np": np}
                text = form.format(x, y)
                exec(f"def f(a, b, n):\n    for i in range(n):\n        r = {text}\n    return r\n", scope)
                fast = dynoc.optimize(scope["f"], wait=True)
                a, b = rows(3, 3), rows(3, 3)[::-1]
                outcomes = []
                for f in (scope["f"], fast, fast):
                    try:
                        r = f(a, b, 20)
                        outcomes.append((r.strides, r.shape, r.dtype.str, r.tobytes(), r.flags.owndata, r.flags.c_contiguous))
                    except ValueError as error:
                        outcomes.append(str(error))
                assert outcomes[0] == outcomes[1] == outcomes[2], text


def compared(x, y, t, n):
    for i in range(n):
        a = x > t
        b = (x[::-1] <= y) & a | ~(y == 3)
        c = np.where(a ^ b, x, y * 2)
        d = np.where(b, 1.0, c)
        e = np.where(x != y, 1, 0)
        some = a.any(), np.all(b), b.sum(), np.count_nonzero(c > 1), (x > y).any(), (x * 2 > y).all(), x.any()
        s = b.mean() if len(b) else 0
        t = t + 0.5
    return a, b, c, d, e, s, some


def masked(x, y, n):
    for i in range(n):
        a = x[x > y]
        x[y > 2] = 0.5
        x[x < -1] += 1
        x[(x > 0) & (y < 4)] *= 0.5
        m = y >= i
        y[m] = x[m]
        b = y[~m]
        x = x + 0.25
    return x, y, a, b, m


def masked_matrix(a, n):
    for i in range(n):
        b = a[a > 0]
        a[a < i] = -1
        a[a == 2] += 5
        g = (a > 0).sum(axis=0)
        h = (a > 0).any(axis=1)
    return a, b, g, h


def looked_up(x, idx, n):
    for i in range(n):
        a = x[idx]
        x[idx] = a * 2
        x[idx[::-1]] += 1
        b = x[idx - 1]
        x[idx] = i
    return x, a, b


def life(g, n):
    for _ in range(n):
        c = g[:-2, 1:-1] + g[2:, 1:-1] + g[1:-1, :-2] + g[1:-1, 2:] + g[:-2, :-2] + g[2:, 2:] + g[:-2, 2:] + g[2:, :-2]
        born = (c == 3) & (g[1:-1, 1:-1] == 0)
        stays = ((c == 2) | (c == 3)) & (g[1:-1, 1:-1] == 1)
        g[:, :] = 0
        g[1:-1, 1:-1][born | stays] = 1
    return g, c


@pytest.mark.parametrize("n", [0, 1, 4, 19])
def test_comparisons(n):
    check(compared, (rows(1, n)[0], rows(1, n)[0][::-1], 0.5, 3), [iter(range(3))], forced=n == 4)
    check(compared, (rows(1, n, int)[0], rows(1, n)[0][::-1], 0.5, 3), [iter(range(3))], forced=False)


def test_comparisons_with_what_is_no_number():
    x = rows(1, 6)[0]
    x[2] = np.nan
    check(compared, (x, rows(1, 6)[0], 0.5, 3), [iter(range(3))])


@pytest.mark.parametrize("n", [0, 1, 4, 19])
def test_masks(n):
    check(masked, (rows(1, n)[0], rows(1, n)[0][::-1].copy(), 3), [iter(range(3))], forced=n == 4)
    check(masked_matrix, (rows(n, 3), 3), [iter(range(3))], forced=n == 4)
    check(masked_matrix, (rows(n, 3, np.int32), 3), [iter(range(3))], forced=False)


@pytest.mark.parametrize("idx", [[0, 1, -1], [2, 2, 5, 0], [], [0, 6], [-7]])
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_lookups(idx, dtype):
    forced = dtype == np.int64 and idx[:1] == [0]
    check(looked_up, (rows(1, 6)[0], np.array(idx, dtype=dtype), 3), [iter(range(3))], forced=forced)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int8, np.int32, float])
def test_life(dtype):
    g = (np.random.default_rng(2).random((9, 8)) < 0.4).astype(dtype)
    check(life, (g, 4), [iter(range(4))], forced=dtype == np.uint8)


def small_integers(a, b, n):
    for i in range(n):
        c = a * b + a - 3
        d = (c > 100) | (c * 1.5 < b)
        b = -c ^ b
        a += 7
        e = ~a & 15
        f = c.max() + b.min()
    return a, b, c, d, e, f, (c * 2).sum()


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4"])
def test_small_integers_wrap(dtype):
    a, b = (np.arange(12) * 37 % 120).astype(dtype), (np.arange(12) * 91 % 127).astype(dtype)
    check(small_integers, (a, b, 3), [iter(range(3))], forced=False)


def folded(a, n):
    for i in range(n):
        b = a.sum(axis=0) + np.sum(a * 2, axis=0)
        c = a.sum(axis=1) + a.mean(axis=-1) + np.max(a, axis=1) - a.min(axis=1)
        d = a.max(axis=0) - np.min(a, 0) + a.mean(axis=0)
        e = a / a.sum(axis=1, keepdims=True) + np.max(a, axis=0, keepdims=True)
        f = a.sum() + (a * a).sum() + a.max() + (a - 1).min() + a.mean()
        g = a.argmax(axis=1) + np.argmin(a, axis=1)
        h = [a.argmax(), np.argmin(a), a[0].argmax(), (a * -1).argmin()]
        a = a + 0.125
    return a, b, c, d, e, f, g, h


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (3, 4), (2, 9), (9, 2)])
def test_folds(shape):
    check(folded, (rows(*shape), 3), [iter(range(3))], forced=shape == (3, 4))


def test_folds_of_what_is_no_number():
    a = rows(3, 4)
    a[1, 2] = a[2, 0] = np.nan
    check(folded, (a, 3), [iter(range(3))], forced=False)


def test_folds_of_nothing():
    check(folded, (rows(0, 4), 2), [iter(range(2))], forced=False)
    check(folded, (rows(3, 0), 2), [iter(range(2))], forced=False)


def activated(a, b, w, n):
    for i in range(n):
        h = np.maximum(a @ w, 0.0)
        y = np.exp(-h) + np.minimum(h, a[:, ::-1] * 1)
        c = np.cross(b, w[0]) + np.cross(w[:, 1], b[::-1])
        b = b / (1 + np.abs(c).max())
    return h, y, c, b


def test_ufuncs_of_matrices():
    check(activated, (rows(3, 3) / 9, rows(1, 3)[0], rows(3, 3)[::-1] / 7, 3), [iter(range(3))])
    check(activated, (rows(3, 3) / 9, rows(1, 3)[0] * 1e300, rows(3, 3) * 1e10, 3), [iter(range(3))], forced=False)


def windows(a, out, n):
    for i in range(n):
        for j in range(n):
            w = a[2 * i : 2 * i + 2, j : j + 3]
            out[i, j] = w.max() + w.min() - w.sum() + a[:, j:].mean() + w.T.sum()
    return out


@pytest.mark.parametrize("n", [1, 3])
def test_folds_of_windows(n):
    check(windows, (rows(6, 6), np.zeros((3, 3)), n), [iter(range(n))])
    check(windows, (rows(6, 6)[::-1, ::-1], np.zeros((3, 3)), n), [iter(range(n))], forced=False)
    check(windows, (rows(6, 6) * 0, np.zeros((3, 3)), n), [iter(range(n))], forced=False)
    check(windows, (rows(6, 6) * np.inf, np.zeros((3, 3)), n), [iter(range(n))], forced=False)


SUMS = "a.sum(axis=0)", "a.sum(axis=1)", "a.mean(axis=0)", "a.mean(1)", "a.sum()", "a[1:, 1:].mean()", "(a * b).sum(axis=0)"


@pytest.mark.parametrize("form", SUMS)
def test_sums_of_matrices_are_bit_by_bit_those_of_numpy(form):
    scope = {"np": np}
    exec(f"def f(a, b, n):\n    for i in range(n):\n        r = {form}\n    return r\n", scope)
    for shape in [(2, 3), (3, 33), (40, 3), (37, 41), (1, 200), (200, 1), (150, 9), (9, 150)]:
        a, b = np.random.default_rng(4).normal(size=(2, *shape)) * 1e3
        for x in (a, a[::-1], a[:, ::-1], a.T.copy().T, a[:, : shape[1] // 2 + 1]):
            case = Case(scope["f"], (x, b[:, : x.shape[1]], 2), [iter(range(2))])
            wanted = case.eager()
            case.plan()
            assert case.run(True)[0] == wanted, (shape, x.strides)


def deep_nest(g, h, d, out, n):
    for i in range(n):
        for j in range(g.shape[1]):
            for k in range(d.shape[0]):
                for m in range(d.shape[1]):
                    for p in range(d.shape[-2]):
                        for q in range(d.shape[-1]):
                            for a in range(h.shape[0]):
                                if j - m >= 0:
                                    left = g[i, j - m, a] @ h[a, p]
                                    right = h[a, q] * d[k, m, a, p, q, 0]
                                    out[i, j, a] += left @ right
    return out


@pytest.mark.parametrize("unit", [1.0, 1j])
def test_a_nest_of_seven_loops_has_few_versions(unit):
    """The variables of inner loops are unset in each loop's first trip. For a combination of these each its innermost loop
    was written, and left where there were too many."""
    g, h = (rows(4, 8) * unit).reshape(2, 2, 2, 2, 2), (rows(4, 4) * unit).reshape(2, 2, 2, 2)
    d = (rows(4, 8) * unit).reshape(2, 2, 2, 2, 2, 1)
    text = check(deep_nest, (g, h, d, np.zeros_like(g), 2), [iter(range(2))], forced=False)
    assert "GRAPH_SIZE" not in text


def test_a_nest_of_many_trips_is_not_left_to_a_graph():
    """Each of its loops has two trips, but a recording would go through a hundred times as many."""
    g, h = (rows(4, 8) * 1j).reshape(2, 2, 2, 2, 2), (rows(4, 4) * 1j).reshape(2, 2, 2, 2)
    given = g, h, (rows(4, 8) * 1j).reshape(2, 2, 2, 2, 2, 1)
    fast = dynoc.optimize(deep_nest, wait=True)
    for _ in range(3):
        assert fast(*given, np.zeros_like(g), 2).tobytes() == deep_nest(*given, np.zeros_like(g), 2).tobytes()
    assert len(fast.loops) == 1 and fast.loops[0].startswith("native")


def six_axes(a, b, total, n):
    for i in range(n):
        made = np.zeros((1, 2, 1, 2, 3, 2))
        made[0] = b
        sums = a * 2 + b
        total += (sums * made).sum() + sums.max() + a[0, 1, 0, 1].T.sum() + made.mean()
        for row in sums[0]:
            total += row[0].sum()
        piece = sums[:, ::-1, 0, :, :, 1:]
        total += sums.sum(axis=-1).reshape(-1)[3] + piece.sum()
        sums[0, 1, 0, 1, 2] = total
    return total, made, sums, piece


@pytest.mark.parametrize("order", ["C", "F"])
def test_six_axes(order):
    a, b = rows(4, 6).reshape(1, 2, 1, 2, 3, 2), rows(4, 6)[::-1].reshape(2, 1, 2, 3, 2)
    check(six_axes, (np.asarray(a, order=order), b, 0.0, 3), [iter(range(3))], forced=False)
    check(six_axes, (a[:, ::-1, ..., ::-1], b, 0.0, 3), [iter(range(3))], forced=False)
