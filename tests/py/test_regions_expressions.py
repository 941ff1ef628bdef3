"""Native loops over arithmetic of whole arrays: slices and rows that are computed, stored and added up."""

import dynoc
import numpy as np
import pytest
from regions import INTERPRETED, Case, check


def smoothed(a, b, n):
    for i in range(n):
        b[1:-1] = 0.33 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.33 * (b[:-2] + b[1:-1] + b[2:])
    return a


def axpy(a, b, c):
    for i in range(len(a)):
        a[i] += b[i] * c[i, 0]
        a[i, 1:] -= c[i, :-1] / (b[i, 1:] * b[i, 1:] + 1.0)
        a[i] *= 2
        b[i, ::2] = -a[i, ::2] ** 2
    return a, b


def overlapping(a, n):
    for i in range(n):
        a[1:] = a[:-1] + a[1:]
        a[::-1] += a
        a[2:] = a[:-2]
    return a


def filled(a, n):
    for i in range(n):
        a[i] = i
        a[:, i] = 2.5
        a[i:, i:] = a[0, 0] + i
    return a


def added_up(a, b, out):
    for i in range(len(a)):
        out[i] = (a[i] - b).sum() + np.sum(a[i, :i]) + a[i].max() - (a[i] * b).min() + np.mean(b[i:])
    return out


def functions(a, b):
    for i in range(len(a)):
        b[i] = np.sqrt(np.abs(a[i])) + np.multiply(a[i], 3) - np.add(1, a[i])
    return b


def rows(n, m, dtype=float):
    return (np.arange(n * m).reshape(n, m) * 0.37 - 3).astype(dtype)


@pytest.mark.parametrize("n", [2, 3, 4, 17, 64])
def test_slices_are_computed(n):
    check(smoothed, (rows(1, n)[0], rows(1, n)[0] * 2, 3), [iter(range(3))])
    check(smoothed, (rows(n, 3)[:, 1], rows(1, n)[0][::-1], 3), [iter(range(3))])
    check(smoothed, (rows(1, n, np.float32)[0], rows(1, n, np.float32)[0], 3), [iter(range(3))])


def test_operands_that_overlap():
    check(overlapping, (rows(1, 9)[0], 3), [iter(range(3))])
    check(overlapping, (rows(1, 9, np.int64)[0][::-1], 3), [iter(range(3))])
    check(overlapping, (rows(9, 2)[:, 0], 3), [iter(range(3))])


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (5, 9)])
def test_rows_are_changed_in_place(shape):
    check(axpy, (rows(*shape), rows(*shape) + 1, rows(*shape) * 3), [iter(range(shape[0]))])
    check(axpy, (rows(*shape)[:, ::-1], rows(*shape[::-1]).T, rows(*shape)), [iter(range(shape[0]))])


@pytest.mark.parametrize("dtype", [float, np.float32, np.int64, np.int8, bool])
def test_numbers_are_stored(dtype):
    check(filled, (rows(4, 5, dtype), 4), [iter(range(4))])


def test_reductions():
    check(added_up, (rows(4, 7), rows(1, 7)[0], np.zeros(4)), [iter(range(4))])
    check(added_up, (rows(4, 7)[:, ::-1], rows(7, 2)[:, 1], np.zeros(4)), [iter(range(4))])


def test_functions():
    check(functions, (rows(4, 7), rows(4, 7)), [iter(range(4))])
    check(functions, (rows(4, 7), rows(4, 7) * np.nan), [iter(range(4))])


def test_sums_are_bit_by_bit_those_of_numpy():
    def sums(a, b, out):
        for i in range(len(out)):
            out[i] = a[:i].sum() + (a[:i] * b[:i]).sum() + np.sum(b[i::3] - a[i::3])
        return out

    fast = dynoc.optimize(sums, wait=True)
    rng = np.random.default_rng(5)
    for scale in (1.0, 1e-200, -0.0):
        a, b = rng.normal(size=(2, 1000)) * scale
        assert fast(a, b, np.zeros(1000)).tobytes() == sums(a, b, np.zeros(1000)).tobytes()
    assert fast.loops[0].startswith("native")


def test_what_numpy_reports():
    big = np.array([[1.0, 1e300], [1e308, -1e308], [0.0, 5.0]])
    check(axpy, (big.copy(), big * 10, big.copy()), [iter(range(3))])
    check(smoothed, (np.array([1e308, 1e308, 1e308, 1.0]), np.zeros(4), 2), [iter(range(2))])


def test_shapes_that_differ_raise():
    def stored(a, b, n):
        for i in range(n):
            a[:i] = b[i:] + 1
        return a

    check(stored, (np.zeros(8), np.ones(8), 6), [iter(range(6))])


def distances(x, out):
    for i in range(len(x)):
        for j in range(len(x)):
            d = x[i] - x[j]
            out[i, j] = np.sqrt((d * d).sum()) + d[0]
    return out, d


def leapfrog(x, v, n, before):
    for _ in range(n):
        force = -x * 2.0
        v = v + 0.1 * force
        x = x + v
        x[0] += before[0]
        before = v
    return x, v, before is v, force


def shared(a, n, first, made):
    for i in range(n):
        made = a[i] + first
        other = made
        other[i % 2] = 7.0
        part = made[1:]
        made[-1] += len(part)
        if i == 2:
            first = part * 1.0
            a = a[:, 1:]
    return made, other, part, first, made is other, part.base is made


def started(a, n):
    for i in range(n):
        total = np.zeros(3)
        for row in a:
            total += row
        a[i % len(a)] = total + np.ones(3)
    return a, total


def decay(x, k):
    return -k * x if k > 0 else x * 3.0


def runge_kutta(x, k, h, n):
    for i in range(n):
        k1 = decay(x, k)
        k2 = decay(x + 0.5 * h * k1, k - i)
        x = x + h / 2 * (k1 + decay(x, k) + k2 * 1)
    return x, k1, k2


def test_vectors_are_made():
    check(runge_kutta, (rows(1, 4)[0], 1.5, 0.125, 4), [iter(range(4))])
    check(distances, (rows(4, 3), np.zeros((4, 4))), [iter(range(4))])
    check(leapfrog, (rows(1, 5)[0], rows(1, 5)[0] + 1, 4, np.ones(5)), [iter(range(4))])
    check(shared, (rows(5, 6), 5, np.ones(6), None), [iter(range(5))])
    check(started, (rows(2, 3), 4), [iter(range(4))])


def test_vectors_of_a_loop_that_is_left_again_and_again():
    fast = dynoc.optimize(leapfrog, wait=True)
    for n in (1, 2, 3, 1000):
        for _ in range(3):
            x, v = rows(1, 4)[0], rows(1, 4)[0] * 3
            with np.errstate(all="ignore"):
                wanted, got = leapfrog(x.copy(), v.copy(), n, v), fast(x.copy(), v.copy(), n, v)
            assert [np.asarray(w).tobytes() for w in wanted] == [np.asarray(g).tobytes() for g in got]
            assert all(g.flags.owndata and g.base is None for g in got[:2])


def iterated(a, x, n):
    for i in range(n):
        x = a @ (x * 1.0)
        y = x / np.linalg.norm(x) + (x - 1) @ a
        z = np.dot(a, y) + a.T[::-1] @ y[::-1] + np.dot(y * 2, a[:, :])
        x = y / np.linalg.norm(z[::2]) - z * (x - y).dot(x)
    return x, y, z


def squashed(x, out, n):
    for i in range(n):
        s = np.exp(-x) + np.sin(out[i])
        out[i] = 1.0 / (1.0 + s) + np.maximum(x, 0.5) * np.clip(x, -1, 1.5)
        x = np.minimum(s, np.flip(out[i])) + np.flip(x)
    return x, out, s


@pytest.mark.parametrize("n", [1, 2, 5, 33])
def test_products_with_matrices(n):
    check(iterated, (rows(n, n) / n, rows(1, n)[0], 3), [iter(range(3))])


LOOSE = "a.T[:n, :n]", "a[:n, :n][:, ::-1]", "a[:n, : 2 * n : 2]"
MATRICES = "a[:n, :n]", "a[:n][::-1, :n]", "a[: 2 * n : 2, :n]", "a[1:][:n, :n]", *LOOSE
VECTORS = "x[:n]", "x[: 2 * n : 2]", "x[:n][::-1]", "x[1:][:n]"


@pytest.mark.parametrize("product", ["m @ v", "v @ m", "np.dot(m, v)", "np.dot(v, m)"])
def test_products_with_matrices_are_bit_by_bit_those_of_numpy(product):
    a, x = np.random.default_rng(3).normal(size=(2, 40, 40))
    for matrix in MATRICES:
        for vector in VECTORS:
            scope = {"np": np}
            exec(
                "def products(a, x, out, n, t):\n    for i in range(t):\n"
                f"        m = {matrix}\n        v = {vector}\n        out[:n] = {product}\n    return out\n",
                scope,
            )
            for n in (1, 2, 5, 17):
                case = Case(scope["products"], (a, x[0], np.zeros(n), n, 2), [iter(range(2))])
                wanted = case.eager()
                if product.startswith("np.dot") and matrix in LOOSE:
                    assert "whose rows aren't dense" in case.refusal()[2]
                    continue
                case.plan()
                assert case.run(INTERPRETED)[0] == wanted, (matrix, vector, n)


@pytest.mark.parametrize("n", [1, 4, 19])
def test_ufuncs_of_vectors(n):
    check(squashed, (rows(1, n)[0] / 9, rows(3, n) / 9, 3), [iter(range(3))])
    check(squashed, (rows(n, 2)[:, 1] / 9, rows(3, n)[:, ::-1] * 0, 3), [iter(range(3))])


def test_products_of_other_sizes_raise():
    check(iterated, (rows(3, 4), rows(1, 4)[0], 3), [iter(range(3))])
    check(iterated, (rows(3, 3), np.full(3, np.inf), 3), [iter(range(3))])


def folded(x, y, out, n):
    for i in range(n):
        out[0, i:] = out[1, i:] = x[i:] * 2 + y[i]
        out[2, i] = x[::-1] @ y + x[:i] @ y[:i][::-1]
        out[3, i] = np.dot(x[::-1], y) + np.dot(x[:i], np.flip(y[:i])) + x[::-3].dot(x[::-3])
    return out


def test_products_of_vectors_that_lie_backwards():
    for n in (1, 4, 40):
        x, y = np.random.default_rng(n).normal(size=(2, n))
        check(folded, (x, y, np.zeros((4, n)), n), [iter(range(n))], forced=n < 9)


def looked_at(a, n, total):
    for i in range(n):
        for x in a[i] * 2:
            total += x
        first, second, _ = a[i] - 1
        total += (a[i] + a[0])[i] + (a[i] * 3)[1:].sum() + (a[i] / 2).shape[0] + first * second
    return total


def test_expressions_are_looked_at():
    check(looked_at, (rows(3, 3), 3, 0.0), [iter(range(3))])


def test_nothing_is_stored_before_flags_are_read():
    text = check(smoothed, (rows(1, 5)[0], rows(1, 5)[0], 2), [iter(range(2))])
    steps = ["flags.clear", "keep.f64", "flags.none", "st.f64"]
    order = [line.split()[0] for line in text.splitlines() if line.split()[0] in steps]
    assert order == steps * 2
