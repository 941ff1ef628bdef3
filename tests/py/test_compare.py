"""The comparison that all other tests stand on: it notices each kind of difference, and nothing where there is none."""

import warnings

import numpy as np
import pytest
from case import f64
from compare import check

pytestmark = pytest.mark.any_interpreter


def plain(x, out):
    y = x * 2.0
    out.append(y)
    if x.shape[0] > 4:
        raise ValueError(f"{x.shape[0]} is too many")
    return y[1:], y.sum(), out


def with_result(change):
    """plain, with its result changed."""

    def fn(x, out):
        return change(*plain(x, out))

    return fn


def with_argument(change):
    def fn(x, out):
        result = plain(x, out)
        change(x, out)
        return result

    return fn


def warns(x, out):
    warnings.warn("never heard of", stacklevel=1)
    return plain(x, out)


def other_message(x, out):
    if x.shape[0] > 4:
        raise ValueError("too many")
    return plain(x, out)


def no_error(x, out):
    return plain(x[:3], out)


DIFFERENT = {
    "one bit": with_result(lambda v, s, o: (np.nextafter(v, 9.0), s, o)),
    "sign of zero": with_result(lambda v, s, o: (v * -0.0, s, o)),
    "dtype": with_result(lambda v, s, o: (v.astype(np.float32), s, o)),
    "copy for a view": with_result(lambda v, s, o: (v.copy(), s, o)),
    "strides": with_result(lambda v, s, o: (np.repeat(v, 2)[::2], s, o)),
    "shape": with_result(lambda v, s, o: (v[None], s, o)),
    "writeable": with_result(lambda v, s, o: (np.broadcast_to(v, v.shape), s, o)),
    "array for a scalar": with_result(lambda v, s, o: (v, np.array(s), o)),
    "float for a NumPy scalar": with_result(lambda v, s, o: (v, float(s), o)),
    "list copied": with_result(lambda v, s, o: (v, s, list(o))),
    "list for a tuple": with_result(lambda v, s, o: [v, s, o]),
    "argument written": with_argument(lambda x, out: x.fill(3)),
    "argument grown": with_argument(lambda x, out: out.append(1)),
    "item of an argument copied": with_argument(lambda x, out: out.__setitem__(0, out[0].copy())),
    "warning": warns,
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_difference_is_noticed(kind):
    with pytest.raises(AssertionError):
        check(plain, DIFFERENT[kind], lambda: (f64(4), []))


@pytest.mark.parametrize(
    "fn", [other_message, no_error, with_result(lambda *r: r)], ids=["message", "no error", "another frame"]
)
def test_difference_of_exceptions_is_noticed(fn):
    with pytest.raises(AssertionError):
        check(plain, fn, lambda: (f64(6), []))


@pytest.mark.parametrize("size", [4, 6])
def test_no_difference(size):
    check(plain, plain, lambda: (f64(size), []))


def test_near_is_not_far():
    check(np_exp, lambda x: np_exp(x) * (1 + 4e-16), lambda: (f64(4),), "near")
    with pytest.raises(AssertionError):
        check(np_exp, lambda x: np_exp(x) * (1 + 1e-12), lambda: (f64(4),), "near")


def np_exp(x):
    return np.exp(x)
