"""Native loops over np.uint64, and over NumPy integers of other widths: what wraps, what is reported, and what makes them."""

import numpy as np
import pytest
from regions import Case, check

U = np.uint64
WORDS = [0, 1, 7, 2**32 + 5, 2**63 - 1, 2**63, 2**64 - 1]


def xorshift(n, x):
    for _ in range(n):
        x ^= x << U(13)
        x ^= x >> U(7)
        x ^= x << U(17)
    return x


def sums(a, b, n):
    for i in range(len(a)):
        a[i] = a[i] + b
        n += a[i] > b
    return n, i


def products(a, b, n):
    for i in range(len(a)):
        a[i] = a[i] * b
        b = b - a[i]
    return b, i


def divided(a, b, n):
    for w in a:
        n += int(w // b % 100) + (w % b == 3)
    return n, w


def shifted(a, out, k):
    for i in range(len(a)):
        out[i] = (a[i] << k) ^ (a[i] >> k) | ~a[i]
        k += 9
    return k, i


def compared(a, b, n):
    for w in a:
        n += (w < b) + 2 * (w <= b) + 4 * (w > b) + 8 * (w >= b) + 16 * (w == b) + 32 * (w != b)
        n += 1000 if w else 0
        if not w:
            n -= 5
    return n, type(w)


def with_ints(a, n):
    for w in a:
        x = w & 0xFF
        y = w ^ 11400714819323198485
        n += int(x) + (w > 5) + (y < 9223372036854775809) + (w != 3)
    return n, x, y


def as_floats(a, s):
    for w in a:
        s += w / 3 + float(w) + w * 0.5 + (w < 1e10)
    return s, w


def made(a, n):
    for v in a:
        x = U(v)
        y = np.uint32(v)
        z = np.int8(x)
        n += int(np.uint8(y)) + int(np.int16(v)) + int(z)
    return x, y, z, n


def cut(values, n):
    for v in values:
        x = np.uint8(v)
        y = np.int32(v)
        z = np.bool_(v)
        n += int(x) + int(y)
    return x, y, z, n


def looked_up(table, items, a, n):
    for w in a:
        n += table[w % U(len(table))] + items[w & U(1)]
    return n, w


def into_others(a, f, i32, u8, flags):
    for k in range(len(a)):
        f[k] = a[k]
        u8[k] = a[k] & U(127)
        i32[k] = a[k] & U(0xFFFF)
        flags[k] = a[k]
    return k


def narrow(a, b, k):
    for i in range(len(a)):
        a[i] = (a[i] << k) + (b[i] & ~a[i])
        k += 1
    return k


def stored(a, out, n):
    for i in range(len(a)):
        out[i] = a[i]
        n += 1
    return n


def items_of(a):
    return [iter(range(len(a)))]


def words(n=7):
    return np.array(WORDS[:n], dtype=U)


@pytest.mark.parametrize("seed", [1, 2**63, 2**64 - 3])
def test_xorshift(seed):
    text = check(xorshift, (9, U(seed)), [iter(range(9))])
    assert "ishlw" in text and "ushr" in text


@pytest.mark.parametrize("b", [0, 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("function", [sums, products])
def test_overflow_is_reported(function, b):
    check(function, (words(), U(b), 0), items_of(words()))


@pytest.mark.parametrize("function", [sums, products])
def test_overflow_that_is_ignored_wraps(function):
    with np.errstate(over="ignore"):
        case = Case(function, (words(), U(2**63 + 3), 0), items_of(words()))
        expected = case.eager()
        case.plan()
        result, (_, why) = case.run(True)
        assert result == expected and why == "OK"
        check(function, (words(), U(2**63 + 3), 0), items_of(words()))


@pytest.mark.parametrize("b", [1, 3, 2**63, 2**64 - 1, 0])
def test_division(b):
    check(divided, (words(), U(b), 0), [iter(words())])


@pytest.mark.parametrize("k", [0, 1, 63])
def test_shifts(k):
    check(shifted, (words(), np.zeros(7, U), U(k)), items_of(words()))


@pytest.mark.parametrize("b", [U(0), U(2**63), U(2**64 - 1), 5, -1, np.uint8(7), True, 2.5, np.float64(2**63)])
def test_comparisons(b):
    check(compared, (words(), b, 0), [iter(words())])


def test_beside_python_ints():
    check(with_ints, (words(), 0), [iter(words())])


def test_as_floats():
    check(as_floats, (words(), 0.0), [iter(words())])


@pytest.mark.parametrize("dtype", ["i8", "u8", "i4", "u1", "?"])
def test_made_of_numpy_integers(dtype):
    a = np.array([0, 1, 1, 0]) if dtype == "?" else np.array([3, 100, 127, 5])
    a = a.astype(dtype)
    check(made, (a, 0), [iter(a)])
    if dtype == "i8":
        a = np.array([-1, 300, 2**40 + 7, -(2**63)])
        check(made, (a, 0), [iter(a)])


@pytest.mark.parametrize("values", [[1, 200, 0], [1, 300], [True, False], [2.75, 0.5], [1.5, 256.0], [float("nan")]], ids=str)
def test_made_of_pythons_numbers(values):
    check(cut, (values, 0), [iter(values)])


def test_indices():
    table = np.arange(5.0)
    check(looked_up, (table, [10, 20], words(), 0), [iter(words())])


def test_stored_in_other_dtypes():
    a = words()
    check(into_others, (a, np.zeros(7), np.zeros(7, "i4"), np.zeros(7, "u1"), np.zeros(7, "?")), items_of(a))


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "i8", "u8"])
def test_narrow_integers(dtype):
    a, b = np.array([1, 3, 64, 127, 5]).astype(dtype), np.array([7, 0, 1, 100, 2]).astype(dtype)
    check(narrow, (a, b, 1), items_of(a))
    check(narrow, (a, b, np.dtype(dtype).type(6)), items_of(a))


@pytest.mark.parametrize("to", ["u1", "i1", "u2", "i2", "u4", "i4", "i8", "u8"])
@pytest.mark.parametrize("number", [5, 200, -1, 40000, 2**31, -(2**40), 2**62])
@pytest.mark.parametrize("dtype", ["i8", "i4", "u2", "u8"])
def test_integers_stored_as_narrower_ones(dtype, number, to):
    """NumPy cuts what is stored as an unsigned integer, and refuses what no signed one can hold."""
    if np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
        a = np.array([1, number, 2], dtype=dtype)
        check(stored, (a, np.zeros(3, to), 0), items_of(a))
