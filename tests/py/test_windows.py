"""Values that are only read through windows are computed where they are read: the results, the warnings and what was written are
eager's, at every size."""

import warnings

import numpy as np
import pytest

import dynoc

pytestmark = pytest.mark.any_interpreter


def laplace(u):
    return 4.0 * u[1:-1, 1:-1] - (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])


def twice(u):
    return laplace(laplace(u))


def thrice(u):
    return laplace(laplace(laplace(u)))


def limited(u):
    lap = laplace(u)
    fx = lap[1:, 1:-1] - lap[:-1, 1:-1]
    fx = np.where(fx * (u[2:-1, 2:-2] - u[1:-2, 2:-2]) > 0.0, 0.0, fx)
    fy = lap[1:-1, 1:] - lap[1:-1, :-1]
    fy = np.where(fy * (u[2:-2, 2:-1] - u[2:-2, 1:-2]) > 0.0, 0.0, fy)
    return u[2:-2, 2:-2] - 0.1 * (fx[1:] - fx[:-1] + fy[:, 1:] - fy[:, :-1])


def differences(u):
    d = u * u
    return d[1:] - d[:-1]


def turned(u):
    d = u + 1.0
    return d.T[1:] * d.T[:-1]


def new_axis(u):
    d = u * 2.0
    return d[1:, None, :] + d[:-1, None, :]


def summed(u):
    d = u * u + 1.0
    return (d[1:] * d[:-1]).sum(axis=1), (d[1:, 1:] - d[1:, :-1]).max()


def handed_out(u):
    d = u * 3.0
    return d, d[1:] + d[:-1]


def kept_view(u):
    d = u * 3.0
    return d[1:] + d[:-1], d[2:]


def overwritten_between(u):
    u = u.copy()
    d = u * 2.0
    u[:] = 7.0
    return d[1:] + d[:-1] + u[1:]


def written_by_the_reader(u):
    u = u.copy()
    d = u * 2.0
    u[1:-1] = d[2:] + d[:-2]
    return u


def every_second(u):
    d = u * 2.0
    return d[::2] + 1.0, d[1:] - d[:-1]


def backwards(u):
    d = u + 0.5
    return d[::-1] * d


def by_rows(u):
    d = u - u.mean(axis=1)[:, None]
    return d[1:] * d[:-1]


def broadcast(u):
    d = u[0] * 2.0
    return d[1:] + u[:, 1:] - d[:-1]


def dear(u):
    d = np.exp(u)
    return d[1:] - d[:-1]


def dear_once(u):
    d = np.exp(u)
    return d[1:] * 2.0


def single_row(u):
    d = u * 2.0
    return d[0] + d[1:]


def casts(u):
    d = (u * 10.0).astype(np.int32)
    return d[1:] * d[:-1], (d[1:] > 3)[:, 1:]


def scanned(u):
    d = u * 2.0
    return d[1:] - d[:-1], np.cumsum(d, axis=0)


ALL = [
    laplace, twice, thrice, limited, differences, turned, new_axis, summed, handed_out, kept_view, overwritten_between,
    written_by_the_reader, every_second, backwards, by_rows, broadcast, dear, dear_once, single_row, casts, scanned,
]  # fmt: skip
EXACT = {laplace, twice, thrice, limited, differences, turned, new_axis, handed_out, kept_view, overwritten_between}


def outcome(fn, *args):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            value = fn(*args)
        except Exception as e:
            return type(e), str(e), []
    return value if isinstance(value, tuple) else (value,), None, [str(w.message) for w in said]


def steps(a):
    return [step for step, size in zip(a.strides, a.shape, strict=True) if size > 1 and a.size]


def same(fn, fast, *args):
    want, why, said = outcome(fn, *[a.copy("K") for a in args])
    got, got_why, got_said = outcome(fast, *[a.copy("K") for a in args])
    assert got_why == why and got_said == said
    if why is not None:
        assert got is want
        return
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and steps(a) == steps(b)
        if fn in EXACT:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("tier", ["native", "builtin"])
@pytest.mark.parametrize("fn", ALL, ids=lambda f: f.__name__)
def test_every_size(fn, tier):
    dynoc.reset()
    fast = dynoc.optimize(fn, wait=tier == "native")
    rng = np.random.default_rng(0)
    for shape in [(20, 30), (9, 7), (7, 9), (5, 5), (4, 6), (3, 3), (2, 5), (1, 4), (6, 1), (0, 3), (64, 65), (130, 40)]:
        u = rng.standard_normal(shape)
        same(fn, fast, u)
        same(fn, fast, np.asfortranarray(u))
        same(fn, fast, rng.standard_normal((shape[0], 2 * shape[1]))[:, ::2])


@pytest.mark.parametrize("fn", [laplace, twice, limited, differences, kept_view, every_second], ids=lambda f: f.__name__)
def test_a_warning_of_an_element_that_no_window_holds(fn):
    dynoc.reset()
    fast = dynoc.optimize(fn, wait=True)
    u = np.random.default_rng(1).standard_normal((12, 14))
    same(fn, fast, u)
    for i in (0, 1, 5, 10, 11):
        for j in (0, 1, 7, 12, 13):
            for bad in (1e308, np.inf):
                v = u.copy()
                v[i, j] = bad
                same(fn, fast, v)


def test_integers_have_no_margin():
    dynoc.reset()
    fast = dynoc.optimize(differences, wait=True)
    u = np.arange(60).reshape(6, 10)
    same(differences, fast, u)
    same(differences, fast, u[:, :3])


def test_threads_and_large_arrays():
    dynoc.reset()
    u = np.random.default_rng(2).standard_normal((700, 900))
    for fn in (twice, limited, summed):
        same(fn, dynoc.optimize(fn, wait=True), u)
