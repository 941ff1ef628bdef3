"""Half precision and complex numbers in the forms of other rooms: masks and dtypes of ufuncs, clip and round, reductions with
their arguments, layouts of parts, creation, joining."""

import numpy as np
import pytest
from compare import check, dynoc

pytestmark = pytest.mark.any_interpreter


def masked_divide(x, y, m):
    out = np.zeros_like(x)
    np.divide(x, y, out=out, where=m)
    return out


def masked_greater(x, y, m):
    out = np.zeros(x.shape, bool)
    np.greater(x, y, out=out, where=m)
    return out


def masked_by_weak_number(x, y, m):
    out = np.ones_like(x)
    np.multiply(x, 2, out=out, where=m)
    return out


def dtype_asked_for(x, y, m):
    return np.add(x, y, dtype=np.complex128), np.float_power(x, y)


def clips(x, y, m):
    return np.clip(x, y[0, 0], y[1, 1]), x.clip(min=0), np.clip(x, -0.5, 0.5), np.clip(x, y, x + y)


def rounds(x, y, m):
    return np.round(x), x.round(2)


def formats(x, y, m):
    if x.dtype.kind == "c":
        return np.arcsinh(x), np.arctanh(x)
    return np.spacing(y), np.nextafter(y, x), np.ldexp(x, 2), np.frexp(x), np.modf(x)


def sums(x, y, m):
    return x.sum(), x.sum(axis=1), x.sum(axis=()), np.sum(x, where=m), np.sum(x, initial=3), x.prod(axis=0)


def extremes(x, y, m):
    return x.max(), x.min(axis=1), np.max(x, initial=0), np.max(x, where=m, initial=-5), np.ptp(x, axis=0)


def means(x, y, m):
    return x.mean(), x.mean(axis=0), np.mean(x, where=m), np.average(x, axis=1), np.average(x, weights=np.abs(y))


def mean_into(x, y, m):
    out = np.zeros(x.shape[1], x.dtype)
    np.mean(x, axis=0, out=out)
    return out


def variances(x, y, m):
    return x.var(), x.std(axis=1), x.std(ddof=1), np.var(x, where=m)


def running(x, y, m):
    return np.cumsum(x, axis=0), np.add.accumulate(x), np.subtract.accumulate(x), x.argmax(), np.add.reduce(x)


def layouts_of_parts(x, y, m):
    r = x.real
    return r.strides, r.reshape(-1), r.T.ravel(), r.flatten(), x.imag[::2].reshape(-1), np.imag(x), np.real(x)


def made(x, y, m):
    dt = x.dtype
    return np.full_like(x, 2), np.eye(3, dtype=dt), np.full(4, 1.5, dt), np.array([1j, 2.0]), np.arange(4, dtype=dt)


def joined(x, y, m):
    return np.concatenate([x, y]), np.append(x, 1.5), np.where(m, x, 1.5), np.where(m, x, 2j), np.diagonal(x)


FUNCTIONS = [
    masked_divide, masked_greater, masked_by_weak_number, dtype_asked_for, clips, rounds, formats, sums, extremes, means,
    mean_into, variances, running, layouts_of_parts, made, joined,
]  # fmt: skip


def operands(dtype, special):
    rng = np.random.default_rng(5)
    pair = rng.uniform(-2, 2, (2, 5, 7)).astype(dtype)
    if pair.dtype.kind == "c":
        pair.imag = rng.uniform(-2, 2, pair.shape)
    if special:
        pair[0, 1, 2], pair[0, 2, 3], pair[1, 0, 0] = np.inf, np.nan, 0
    return pair[0].copy(), pair[1].copy(), rng.random((5, 7)) > 0.4


@pytest.mark.parametrize("dtype", [np.float16, np.complex64, np.complex128])
@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_same_as_eager(fn, dtype):
    fast = dynoc.optimize(fn, wait=True)
    for special in (False, False, True):
        check(fn, fast, lambda special=special: operands(dtype, special), tol="near")
