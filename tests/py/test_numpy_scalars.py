"""NumPy scalars and arrays of rank 0: rounding, methods, round(), and arrays made of them."""

import numpy as np
import pytest
from compare import dynoc
from outcomes import calls


def test_square_of_a_scalar_is_rounded_as_eager_does():
    def newton(x):
        return x**2 - 2 * x - 1

    fast = dynoc.optimize(newton, wait=True)
    values = np.random.default_rng(0).normal(size=500) * 3
    assert sum(fast(x) != newton(x) for x in values) == 0


def test_methods_of_scalars_are_served():
    def number(x):
        return x.sum().item(), x.max().astype(np.float32)

    calls(number, np.arange(3.0))
    with dynoc.enabled(wait=True):
        number(np.arange(3.0))
        before = dict(dynoc.counters["calls"])
        number(np.arange(3.0))
    assert dynoc.counters["calls"]["served"] == before.get("served", 0) + 1
    assert dynoc.counters["calls"]["partly"] == before.get("partly", 0)


@pytest.mark.parametrize("number", [np.float32(1.5), np.float64(2.5), np.int16(3), np.uint8(7), 2.5, 3])
def test_round_to_no_digits_is_a_python_int(number):
    def rounded(s):
        return round(s, None), round(s), round(s, ndigits=None)

    fast = dynoc.optimize(rounded)
    for _ in range(3):
        got = fast(number)
        assert got == rounded(number) and all(type(n) is int for n in got)


def test_parts_of_booleans():
    def parts(x):
        t = x.all()
        return np.imag(t), np.real(t), t.imag, t.real

    fast = dynoc.optimize(parts, wait=True)
    for x in (np.zeros(3), np.zeros(3), np.ones(3), np.ones(0)):
        assert fast(x) == parts(x)


def raveled(x):
    s = x.max()
    a = s.ravel()
    a[0] = 77
    return a, s.ravel(), s, s + 1


def reshaped(x):
    s = x.max()
    a, b = s.reshape(1), np.ravel(s)
    a += 77
    return a, b, s + 1


@pytest.mark.parametrize("fn", [raveled, reshaped])
def test_an_array_of_a_scalar_is_one_of_its_own(fn):
    fast, x = dynoc.optimize(fn, wait=True), np.linspace(0, 1, 20).reshape(4, 5)
    for _ in range(3):
        right, got = fn(x), fast(x)
        assert [np.asarray(a).tolist() for a in got] == [np.asarray(a).tolist() for a in right]
        assert not np.shares_memory(got[0], got[1]) and got[0].base is not None and right[0].base is not None


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("number", [np.float64(3), np.complex128(3 + 4j), np.int16(3), np.bool_(True)])
def test_an_array_made_of_a_scalar_has_memory_of_its_own(number, within):
    def written(x):
        if within:
            x = x + number
        column = np.expand_dims(x, (0, 1))
        np.logical_not(column, out=column, casting="unsafe")
        return column, np.add(x, 1), x

    fast = dynoc.optimize(written, wait=True, fullgraph=True)
    for _ in range(3):
        got, want = fast(number), written(number)
        assert repr(got) == repr(want)


@pytest.mark.parametrize("options", [{}, {"compiler": "/none"}], ids=["native", "built in"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_powers_of_scalars_are_the_c_librarys(dtype, options):
    """Those of arrays come from vectors, whose last bit is another in a quarter of all cases."""
    fast = dynoc.optimize(lambda a, y: (a.sum() ** y, a * y ** a.sum()), wait=True, options=options)
    rng = np.random.default_rng(7)
    for y in (0.5, -1, 3, 1.7, 2, dtype(1.3), -2.5, 4):
        for n in range(40):
            a = (rng.random(1 + n % 3) * 3).astype(dtype)
            with np.errstate(all="ignore"):
                want, got = (a.sum() ** y, a * y ** a.sum()), fast(a, y)
                assert type(got[0]) is type(want[0]) and got[0] == want[0], (a, y)
                np.testing.assert_array_equal(got[1], want[1])
