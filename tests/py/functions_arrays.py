"""Rows of the test table about arrays: operators, promotion, reductions, views, writes. Imported by functions.py."""

import numpy as np
from case import b1, case, f32, f64, hard, i64, pos, readonly, vary1, vary2, whole

# ---- elementwise


@case(*vary2(), *vary2(f32))
def add(x, y):
    return x + y


@case(*vary2(), lambda: (hard(30), hard(30)[::-1]), lambda: (i64(9), i64(9, seed=1)))
def arithmetic(x, y):
    return x * y - (x - y) * 2 + -x


@case(*vary1(), lambda: (hard(28),), lambda: (hard(28, dtype=np.float32),), lambda: (f32(4, 5),), lambda: (i64(6),))
def affine(x):
    return x * 2.5 + 1.0


@case(lambda: (f64(5), pos(5)), lambda: (hard(14), hard(14)[::-1]), lambda: (i64(5), i64(5, seed=3)), lambda: (b1(4), b1(4)))
def divide(x, y):
    return x / y


@case(lambda: (f64(9), pos(9)), lambda: (hard(196), np.repeat(hard(14), 14)), lambda: (f32(9), f32(9, seed=2)))
def floor_and_remainder(x, y):
    return x // y, x % y


@case(lambda: (i64(9), i64(9, seed=4)), lambda: (i64(9), np.array(3)), lambda: (np.array([-(2**63)]), np.array([-1])))
def integer_floor_and_remainder(x, y):
    return x // y, x % y


@case(*vary1(), *vary1(f32), tol="near")
def cosine_plus_sine(x):
    return np.cos(x) + np.sin(x)


@case(*vary1(pos), lambda: (hard(28),), lambda: (hard(28, dtype=np.float32),), lambda: (i64(5),), tol="near")
def transcendentals(x):
    return np.sqrt(x), np.exp(x), np.log(x), np.tanh(x)


@case(lambda: (pos(6),), lambda: (pos(6, dtype=np.float32),), lambda: (hard(28),))
def square_root_is_exact(x):
    return np.sqrt(x) * 3.0


@case(*vary2(), lambda: (hard(30), hard(30)[::-1]), lambda: (i64(4), f32(4)), lambda: (b1(4), b1(4, seed=1)))
def extremes(x, y):
    return np.maximum(x, y), np.minimum(x, y)


@case(lambda: (f64(5),), lambda: (i64(5),), lambda: (b1(4),), lambda: (hard(14),), lambda: (f32(2, 2),))
def absolute(x):
    return abs(x), np.abs(x)


@case(*vary2(), lambda: (hard(30), hard(30)[::-1]), lambda: (i64(4), f32(4)), lambda: (b1(4), i64(4)))
def comparisons(x, y):
    return x < y, x <= y, x == y, x != y, x > y, x >= y


@case(lambda: (b1(5), b1(5, seed=1)), lambda: (i64(5), i64(5, seed=1)), lambda: (b1(5), i64(5)))
def bit_operators(x, y):
    return x & y, x | y, x ^ y, ~x


@case(lambda: (i64(5), np.arange(5)), lambda: (np.arange(4), np.array([0, 62, 63, 64])))
def shifts(x, n):
    return x << n, x >> n


@case(
    lambda: (f64(6), f64(6, seed=1)), lambda: (f32(3, 1), f64(4)), lambda: (i64(4), f32(4)), lambda: (hard(14), hard(14)[::-1])
)
def where_picks(x, y):
    return np.where(x > y, x, y)


@case(lambda: (f64(6),), lambda: (f32(6),), lambda: (i64(6),), lambda: (b1(6),))
def where_weak_scalars(x):
    return np.where(x > 0, x, 0), np.where(x > 0, 1, 0), np.where(x > 0, 1.5, x)


@case(lambda: (f64(8),), lambda: (f32(8),), lambda: (i64(8),), lambda: (hard(28),))
def powers(x):
    return x**2, x**1, x**0, x * x * x


@case(lambda: (pos(8),), lambda: (pos(8, dtype=np.float32),), tol="near")
def powers_of_float(x):
    return x**0.5, x**-1, x**1.5, x**3


@case(lambda: (i64(5),))
def negative_power_of_ints(x):
    return x**-1


@case(lambda: (i64(5), 3), lambda: (i64(5), 0), lambda: (i64(5), -2), lambda: (f64(5), 2), lambda: (f64(5), -1))
def power_by_argument(x, n):
    return x**n


@case(lambda: (f64(10),), lambda: (f64(4, 4),), tol="near")
def twelve_operations(x):
    y = x * 2.0 + 1.0
    y = y * x - 0.5
    y = np.sqrt(np.abs(y)) + x
    y = y / (1.0 + x * x)
    return np.maximum(y, 0.1) - x * 0.25


@case(lambda: (f64(9),), lambda: (f32(3, 4),), tol="near")
def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


@case(lambda: (f64(9),), lambda: (f32(9),), lambda: (hard(28),), tol="near")
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@case(lambda: (f64(5),), lambda: (i64(5),), lambda: (b1(5),))
def unary(x):
    return +x, x * -1


@case(lambda: (b1(5),))
def minus_of_bools(x):
    return -x


@case(lambda: (b1(5), b1(5, seed=1)), lambda: (b1(3, 1), b1(2)))
def bool_arithmetic(x, y):
    return x + y, x * y, x / (y + 1), x + 1, x + 1.5, x * True


# ---- promotion


@case(
    lambda: (f32(4), f64(4)),
    lambda: (f32(4), i64(4)),
    lambda: (i64(4), b1(4)),
    lambda: (b1(4), f32(4)),
    lambda: (f32(4), b1(4)),
)
def promotion(x, y):
    return x + y, x * y, x / y, x - y * 2


@case(lambda: (f32(4),), lambda: (i64(4),), lambda: (b1(4),), lambda: (f64(4),))
def weak_numbers(x):
    return x + 1, x + 1.0, 2 * x, 0.5 * x, x / 2, 1 - x + 0


@case(lambda: (f32(4),), lambda: (i64(4),))
def strong_numbers(x):
    return x + np.float64(1.5), x * np.float32(2.0), x + np.int64(3), x + np.bool_(True)


@case(lambda: (f32(4), 1e40), lambda: (f32(4), 1e-50), lambda: (f32(4), 3), lambda: (f32(4), True), lambda: (f32(4), 2**70))
def weak_argument(x, s):
    return x * s


@case(lambda: (i64(4), 2**63), lambda: (i64(4), 2**62), lambda: (i64(4), -(2**63)), lambda: (i64(4), 1.5), lambda: (b1(4), 300))
def integers_and_big_numbers(x, s):
    return x + s


@case(lambda: (i64(4),), lambda: (np.array([2**62, -(2**62)]),))
def integers_wrap(x):
    return x * 4, x + 2**62


@case(lambda: (f32(2, 3),), lambda: (i64(5),), lambda: (b1(4),), lambda: (f64(4, 2).T,))
def casts(x):
    return x.astype(np.float64), x.astype(np.float32), x.astype(np.int64), x.astype(bool), x.astype("float32")


@case(lambda: (hard(14),), lambda: (np.array([1e20, -1e20, 2.5]),))
def cast_out_of_range(x):
    return x.astype(np.int64)


@case(lambda: (f32(4), f64()), lambda: (f32(4), np.array(2)), lambda: (i64(), f32()))
def zero_dimensional_operands(x, y):
    return x * y, y * 2, y + y


# ---- reductions


@case(*vary1(), *vary1(f32), tol="near")
def sums(x):
    return x.sum(), np.sum(x), x.mean()


@case(*vary1(whole), *vary1(i64), lambda: (b1(9),))
def exact_sums(x):
    return x.sum()


@case(
    *vary1()[:1],
    *vary1()[5:8],
    lambda: (hard(13),),
    lambda: (i64(3, 4),),
    lambda: (b1(4),),
    lambda: (f64(0),),
    lambda: (f64(3, 0),),
)
def maximum_and_minimum(x):
    return x.max(), np.min(x)


@case(lambda: (whole(4, 5),), lambda: (whole(0, 5),), lambda: (whole(4, 5).T,), lambda: (i64(3, 1),), lambda: (f32(1, 3) * 0,))
def sums_along_axes(x):
    return x.sum(axis=0), x.sum(axis=1), x.sum(axis=-1, keepdims=True), x.sum((0, 1)), np.sum(x, axis=0, keepdims=True)


@case(lambda: (whole(2, 3, 4),), lambda: (whole(2, 3, 4).transpose(1, 2, 0),), lambda: (i64(3, 2, 1),))
def sums_of_rank_three(x):
    return x.sum(axis=(0, 2)), x.sum(axis=1), x.sum(axis=(1, 2), keepdims=True), x.max(axis=(0, -1)), x.min(2)


@case(lambda: (f64(4, 5),), lambda: (i64(4, 5),), lambda: (b1(4, 5),), lambda: (f32(4, 5)[:, ::2],), tol="near")
def means(x):
    return x.mean(axis=0), np.mean(x, axis=-1, keepdims=True), x.mean()


@case(lambda: (f64(0),), lambda: (f64(0, 3),))
def mean_of_nothing(x):
    return x.mean(axis=0)


@case(lambda: (f64(4, 5),), lambda: (f64(5),))
def axis_out_of_range(x):
    return x.sum(axis=1)


@case(lambda: (f64(6),), lambda: (f64(3, 2),), tol="near")
def reduce_then_broadcast(x):
    return (x - x.mean()) / (x.max() - x.min())


@case(lambda: (f32(4, 6),), lambda: (f64(4, 6),), lambda: (f64(6, 4).T,), tol="near")
def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@case(lambda: (f32(4, 6), f32(6), f32(6, seed=1)), lambda: (f64(2, 3), f64(3), f64(3, seed=1)), tol="near")
def layer_norm(x, w, b):
    m = x.mean(axis=-1, keepdims=True)
    c = x - m
    v = (c * c).mean(axis=-1, keepdims=True)
    return c / np.sqrt(v + 1e-5) * w + b


@case(lambda: (f64(5, 3), f64(4, 3, seed=1)), lambda: (f64(0, 3), f64(4, 3)), tol="near")
def pairwise(a, b):
    d = a[:, None, :] - b[None]
    return np.sqrt((d * d).sum(axis=-1))


@case(lambda: (i64(5),), lambda: (b1(5),), lambda: (f32(5),))
def sum_of_comparison(x):
    return (x > 0).sum(), (x > 0).mean()


@case(lambda: (f32(4),), lambda: (f64(3, 3),), tol="near")
def scalar_results_go_on(x):
    m = x.mean()
    return m * 2, m + 1.0, m.dtype, np.sqrt(abs(m)), x * m


@case(lambda: (whole(7),), lambda: (whole(3, 2),))
def numpy_scalar_to_python(x):
    return float(x.sum()), int(x.max()), bool(x.min() < 0), x.sum().item()


# ---- views and shapes


@case(*vary1()[:6], lambda: (f64(9, 4),), lambda: (i64(8)[::2],))
def slices(x):
    return x[1:], x[:-1], x[::2], x[::-1], x[2:5], x[-3:], x[5:2]


@case(
    lambda: (f64(5, 6),), lambda: (f64(6, 5).T,), lambda: (f64(5, 6)[::-1, ::2],), lambda: (f64(1, 2),), lambda: (f64(2, 2, 2),)
)
def two_dimensional_slices(x):
    return x[0], x[-1], x[:, 0], x[..., -1], x[0, 1], x[:, 1:], x[None, 0], x[:, None], x[1:, ::-1]


@case(lambda: (f64(5),), lambda: (f64(2),))
def index_past_the_end(x):
    y = x * 2
    return y[3]


@case(lambda: (f64(4, 6),), lambda: (f64(6, 4).T,), lambda: (np.asfortranarray(f64(4, 6)),), lambda: (f64(8, 6)[::2],))
def reshapes(x):
    return x.reshape(-1), x.reshape(6, 4), x.reshape((2, -1)), np.reshape(x, (24,)), x.reshape(x.shape[0], 2, 3)


@case(lambda: (f64(1, 6),), lambda: (f64(2, 6),))
def view_or_copy(x):
    y = x[:, :3].reshape(-1)
    y += 1
    return y, x


@case(lambda: (f64(5, 2),))
def reshape_that_fails(x):
    return (x + 1).reshape(3, -1)


@case(lambda: (whole(2, 4),), lambda: (whole(5, 4),), lambda: (whole(1, 4),), lambda: (whole(3, 3),))
def order_of_a_view_that_had_one_row(x):
    v = x[1:].T
    return v + 1, v.astype(np.float32), np.zeros_like(v), v.sum(axis=0, keepdims=True)


@case(lambda: (f64(2, 4),), lambda: (f64(5, 4),))
def order_of_a_view_that_had_no_rows(x):
    return x[2:].T + 1


@case(lambda: (f64(2, 3).T,), lambda: (f64(4, 5).T,))
def order_of_a_view_of_fortran_order(x):
    return x[:, 1:] * 2


@case(
    lambda: (np.broadcast_to(f64(4), (3, 4)),),
    lambda: (f64(6, 8)[:3, :4],),
    lambda: (np.broadcast_to(f64(3, 1), (3, 4)),),
    lambda: (np.broadcast_to(f64(3, 1, 4), (3, 2, 4)),),
)
def copies_of_broadcast_views(x):
    return x.astype(np.float32), x.copy("K"), np.zeros_like(x), x + 1


@case(lambda: (f64(3, 4),), lambda: (f64(2, 3, 4),), lambda: (f64(4),), lambda: (f64(4, 3).T,))
def transposes(x):
    return x.T, x.T + 1, np.transpose(x), (x * 2).T


@case(lambda: (f64(3, 4), f64(4, 3)), lambda: (f64(3, 4), f64(3, 4).T), lambda: (f64(6, 8)[::2, ::2], f64(4, 3)))
def transposed_add(x, y):
    return x + y.T


@case(lambda: (f64(2, 3, 4),), lambda: (f64(3, 1, 2),))
def axes_moved(x):
    return x.transpose(1, 0, 2) * 2, x.swapaxes(0, 2), np.moveaxis(x, 0, -1)


@case(lambda: (f64(2, 3),), lambda: (f64(3),), lambda: (f64(),))
def shape_facts(x):
    return x.shape, x.ndim, x.size, x.dtype, x.itemsize, x.nbytes, len(x.shape)


@case(lambda: (f64(4, 3),), lambda: (f64(2, 9),), lambda: (f64(1, 5),))
def shape_arithmetic(x):
    n, m = x.shape
    return x[: n // 2 + 1] * (n - m) + n * m / 2, x * len(x), n % 3, m**2, -n


@case(lambda: (f64(3, 1), f64(1, 4)), lambda: (f64(1), f64(3)), lambda: (f64(3, 4), f64(4)))
def broadcast_rules(x, y):
    return (x + y).shape, np.broadcast_to(y, (2,) + y.shape) + 1, x * y[..., None].sum()


@case(lambda: (f64(3), f64(4)), lambda: (f64(2, 3), f64(2)))
def broadcast_that_fails(x, y):
    z = x * 2
    return z + y


@case(lambda: (f64(4),), lambda: (f64(2, 3),))
def fancy_and_mask_indexing(x):
    return x[x > 0], x[[1, 0]], (x * 2)[np.array([0, 0])]


@case(lambda: (f64(4), f64(4)), lambda: (f64(2, 3), f64(2, 3)))
def joined(x, y):
    return np.concatenate([x, y]), np.stack((x, y)), np.concatenate((x * 2, y + 1))


@case(
    lambda: (f64(3, 4), f64(4, 2)),
    lambda: (f64(4), f64(4)),
    lambda: (f32(2, 3, 4), f32(4, 2)),
    lambda: (i64(3, 2), i64(2, 3)),
    tol="near",
)
def matrix_product(x, y):
    return x @ y, (x * 2) @ (y + 1)


@case(lambda: (f64(3, 4), f64(3, 2)))
def matrix_product_that_fails(x, y):
    z = x + 1
    return z @ y


@case(lambda: (f64(3, 3) + 5 * np.eye(3), f64(3)), lambda: (np.zeros((2, 2)), f64(2)), tol="near")
def linear_algebra(a, b):
    x = np.linalg.solve(a * 2, b)
    return x + 1, np.linalg.inv(a), np.linalg.norm(b)


# ---- fresh arrays


@case(*vary1()[:8], lambda: (np.asfortranarray(f64(3, 4)),), lambda: (f32(4)[::-1],), lambda: (i64(3),))
def fresh_arrays(x):
    z = np.zeros_like(x)
    e = np.empty_like(x)
    e[...] = x + 1
    return z, e, np.ones_like(x) + x


@case(lambda: (f64(4),), lambda: (f64(2, 3),))
def arrays_made_inside(x):
    return x + np.zeros(x.shape), np.ones(x.shape[0]), np.arange(x.size) + 1, np.full(x.shape, 2.5) * x


@case(lambda: (f64(18),))
def array_from_list(x):
    return np.array(list(range(2, 38, 2))) + x


@case(lambda: (f64(4),), lambda: (f64(4, 3).T,), lambda: (f32(6)[::2],))
def copies(x):
    y = x.copy()
    y += 1
    return x, y, x + 0


# ---- writes


@case(*vary1()[:15], lambda: (f32(4),), lambda: (readonly(f64(4)),), lambda: (i64(4),))
def in_place(x):
    x += 1
    x *= 2
    return x


@case(lambda: (i64(4),), lambda: (f32(4),), lambda: (b1(4),))
def in_place_casting(x):
    x -= 1
    x *= 1.5
    return x


@case(lambda: (f64(5), f64(5)), lambda: (f32(5), f64(5)), lambda: (f64(3, 4), f64(4)), lambda: (f64(4), f64(3, 4)))
def in_place_by_array(x, y):
    x += y
    x /= 2
    return None


@case(lambda: (f64(6),), lambda: (f64(2),), lambda: (i64(6),), lambda: (f64(6, 3),), lambda: (f64(12)[::2],))
def slice_assignment(x):
    x[0] = 1
    x[1:] = x[:-1] * 2
    x[::2] = 0.5
    return x


@case(lambda: (f64(6),), lambda: (f64(7, 2),), lambda: (f64(2),), lambda: (f64(14)[::-2],))
def overlapping_writes(x):
    x[1:] += x[:-1]
    x[:-1] = x[1:]
    return x


@case(lambda: (f64(6),), lambda: (f64(3, 3),))
def reversed_onto_itself(x):
    x[...] = x[::-1]
    x += x[::-1]
    return x


@case(
    lambda: (f64(6, 7), 0.1),
    lambda: (f64(3, 3), 0.2),
    lambda: (f64(2, 2), 0.2),
    lambda: (f32(5, 5), 0.1),
    lambda: (f64(6, 7).T, 0.1),
)
def heat_step(u, k):
    c = u[1:-1, 1:-1]
    c += k * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * c)
    return u


@case(lambda: (f64(6),), lambda: (f64(4, 2),))
def writes_into_temporaries(x):
    y = x * 2
    z = y[1:]
    z += 10
    y[0] = -1
    return y, z, x


@case(lambda: (f64(6),), lambda: (f64(4, 3),))
def view_sees_later_write(x):
    v = x[1:]
    s = v + 0
    x[...] = 7
    return v, s, v + 1


@case(lambda: (f64(6),))
def write_through_a_view_of_a_view(x):
    x[1:][::2][1:] = 9
    return x


def same_array():
    a = f64(5)
    return a, a


def overlapping_arrays():
    a = f64(8)
    return a[:6], a[2:]


@case(lambda: (f64(5), f64(5, seed=1)), same_array, overlapping_arrays)
def aliased_arguments(x, y):
    x += 1
    y *= 2
    x -= y
    return x, y


@case(lambda: (f64(5), f64(5, seed=1)), same_array, overlapping_arrays)
def aliased_but_only_read(x, y):
    return x + y, x


@case(
    lambda: (f64(5), f64(5)), lambda: (f32(5), f64(5)), lambda: (f64(5), f32(5)), lambda: (f64(3, 4), f64(4, 3).T), same_array
)
def out_argument(x, o):
    r = np.add(x, 1, out=o)
    np.multiply(o, 2, o)
    return r, r is o


@case(lambda: (f64(5), f64(6)), lambda: (f64(5), i64(5)), lambda: (f64(5), readonly(f64(5))))
def out_argument_that_fails(x, o):
    y = x * 2
    return np.add(y, 1, out=o)


@case(lambda: (f64(4, 3), np.zeros(3)), lambda: (f64(4, 3), np.zeros(4)), tol="near")
def out_argument_of_sum(x, o):
    return np.sum(x, axis=0, out=o)


@case(lambda: (readonly(f64(5)), f64(5)), lambda: (f64(5), f64(5)))
def write_to_read_only(x, y):
    y += 1
    x[0] = 3
    y += 1
    return y


@case(lambda: (f64(4), f64(3)), lambda: (f64(4), f64(4)), lambda: (f64(4, 4), f64(3)))
def assignment_that_fails(x, y):
    x += 1
    x[:] = y
    return x


@case(lambda: (f64(5), 2), lambda: (f64(5), -1), lambda: (f64(5), 9), lambda: (f64(5, 3), 0), lambda: (f64(5), True))
def index_by_argument(x, i):
    y = x + 1
    y[i] = 0
    return y, y[i], x[i:]


@case(lambda: (f64(9), 1, 5, 2), lambda: (f64(9), -3, None, None), lambda: (f64(9), 8, 2, -3), lambda: (f64(9), 0, 9, 0))
def slice_by_arguments(x, start, stop, step):
    return x[start:stop:step] * 2


@case(
    lambda: (f64(5), 1.5),
    lambda: (f64(5), np.nan),
    lambda: (i64(5), 1),
    lambda: (i64(5), np.inf),
    lambda: (b1(5), 3),
    lambda: (f64(5), b1(5)),
)
def assign_a_number(x, v):
    x[1:3] = v
    return x


@case(lambda: (f64(6), b1(6)), lambda: (f64(2, 3), b1(2, 3)))
def masked_writes(x, m):
    x[m] = 0
    x[~m] += 1
    return x


# ---- special data and floating-point warnings


@case(
    lambda: (f64(4), np.zeros(4)),
    lambda: (np.zeros(4), np.zeros(4)),
    lambda: (f64(4), pos(4)),
    lambda: (i64(4), np.zeros(4, int)),
)
def division_warnings(x, y):
    a = x + 1
    b = a / y
    return b * 2


@case(lambda: (hard(28),), lambda: (hard(28, dtype=np.float32),), lambda: (pos(5),), tol="near")
def warnings_in_order(x):
    a = np.log(x)
    b = np.sqrt(x)
    c = np.exp(x) * x
    return a + b + c


@case(lambda: (f64(4) * 1e300,), lambda: (f64(4) * 1e-200,), lambda: (f64(4),))
def overflow_and_underflow(x):
    return x * x * 1e100


@case(lambda: (f64(4), 0.0), lambda: (f64(4), -0.0), lambda: (f64(4), np.inf), lambda: (f64(4), np.nan), lambda: (f64(4), 0))
def divide_by_argument(x, s):
    return x / s


@case(lambda: (f64(4), np.zeros(4)), lambda: (f64(4), pos(4)))
def error_state_inside(x, y):
    z = x * 2
    with np.errstate(divide="ignore", invalid="ignore"):
        w = z / y
    return w + z / 2


@case(lambda: (f64(4), np.zeros(4)), lambda: (f64(4), pos(4)))
def error_state_raises(x, y):
    x += 1
    with np.errstate(all="raise"):
        x += x / y
    return x


@case(lambda: (hard(28),), lambda: (hard(28, dtype=np.float32),))
def signed_zeros_and_nans(x):
    return x + 0.0, x * -1, np.maximum(x, 0.0), np.minimum(x, -0.0), x == x, 0.0 - x
