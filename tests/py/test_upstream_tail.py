"""What NumPy's own tests found in the last full run, as small as it gets."""

from collections import deque
from fractions import Fraction

import numpy as np
import pytest
from case import f64
from compare import check, dynoc


def calls(fn, *makers):
    fast = dynoc.optimize(fn, wait=True)
    for turn in range(4):
        for maker in makers:
            check(fn, fast, maker, "near", what=f"call {turn + 1}")


# ---- an iterator over what the same segment filled, left in the middle


class Tagged(np.ndarray):
    @property
    def plain(self):
        return np.ndarray.view(self, np.ndarray)


def plain_of(x):
    return x.plain


def joined(a, b):
    both = []
    if a.ndim == 0:
        raise ValueError
    both.append(a)
    both.append(b)
    return np.concatenate([plain_of(x) for x in both]) + 1


def test_list_that_was_filled_before_the_loop_broke():
    calls(joined, lambda: (f64(3).view(Tagged), f64(5).view(Tagged)))


def opaque(x):
    return x


dynoc.skip(opaque)


def fill_list(x, into):
    into.append(x)
    into.extend([x * 2, x * 3])
    return [opaque(v) + 1 for v in into]


def fill_dict(x, into):
    into["a"] = x
    into["b"] = x * 2
    return [opaque(into[k]) + 1 for k in into], [opaque(v) * 2 for v in into.values()], [opaque(k) for k, v in into.items()]


def fill_set(x, into):
    into.add(3)
    into.add(5)
    return [x * opaque(k) for k in into]


def fill_deque(x, into):
    into.append(x)
    into.appendleft(x * 2)
    return [opaque(v) + 1 for v in into]


def fill_attribute(x, into):
    into.append(x)
    into.append(x * 2)
    holder.it = iter(into)
    next(holder.it)
    y = opaque(x)
    return y, list(holder.it)


def fill_zipped(x, into):
    into.append(x)
    into.append(x * 2)
    return [opaque(v) * i for i, (v, w) in enumerate(zip(into, into))]


def fill_reversed(x, into):
    into.append(x)
    into.append(x * 2)
    return [opaque(v) + 1 for v in reversed(into)]


class Holder:
    it = None


holder = Holder()
FILLED = [(fill_list, list), (fill_dict, dict), (fill_set, set), (fill_deque, deque), (fill_attribute, list), (fill_zipped, list)]
FILLED += [(fill_reversed, list), (fill_reversed, deque)]


@pytest.mark.parametrize("fn, kind", FILLED, ids=[f"{fn.__name__} {kind.__name__}" for fn, kind in FILLED])
def test_container_that_was_filled_before_the_loop_broke(fn, kind):
    calls(fn, lambda: (f64(3), kind()))


# ---- an operator that an instance doesn't take is the array's


def blended(a, b, t):
    d = b - a
    return d * t, t * d, a + d * t, d / t, d - t


class Refuses:
    def __mul__(self, other):
        return NotImplemented

    __add__ = __pow__ = __sub__ = __mul__


def refused(x, other):
    return [
        tried(x, lambda a, b: a * b, other),
        tried(x, lambda a, b: a + b, other),
        tried(x, lambda a, b: a**b, other),
        tried(x, lambda a, b: a - b, other),
    ]


def tried(x, operation, other):
    try:
        return type(operation(Refuses(), other)), x + 1
    except TypeError as error:
        return str(error), x + 2


OTHERS = {
    "array": lambda: np.arange(3.0),
    "objects": lambda: np.array([Fraction(1, 2), 3], dtype=object),
    "0-d": lambda: np.array(Fraction(1, 2), dtype=object),
    "scalar": lambda: np.float64(2.5),
    "complex": lambda: 2j,
    "bytes": lambda: b"ab",
    "bytearray": lambda: bytearray(b"ab"),
    "deque": lambda: deque([1]),
    "list": lambda: [1],
    "range": lambda: range(3),
    "set": lambda: {1},
    "None": lambda: None,
    "int": lambda: 3,
    "fraction": lambda: Fraction(1, 3),
    "type": lambda: int,
}


@pytest.mark.parametrize("kind", ["array", "objects", "0-d", "scalar"])
def test_fractions_with_arrays(kind):
    with np.errstate(all="ignore"):
        calls(blended, lambda: (Fraction(1, 4), Fraction(3, 4), OTHERS[kind]() + 1))


@pytest.mark.parametrize("kind", OTHERS)
def test_what_an_instance_refuses(kind):
    calls(refused, lambda: (f64(3), OTHERS[kind]()))


# ---- what np.broadcast_arrays gives warns when it is written, and when it is asked whether it can be


def written_after_asking(x):
    first, second = np.broadcast_arrays(0, x)
    asked = first.flags.writeable
    first[:] = 4
    return asked, first.flags.writeable, first, second


def written_view(x):
    first, second = np.broadcast_arrays(1.5, x)
    view = first[1:]
    view += 1
    return view, first


def written_view_of_array(x):
    first, second = np.broadcast_arrays(x[:1] * 2, np.zeros(4))
    view = first[1:]
    view += 1
    return view, first


def only_read(x):
    first, second = np.broadcast_arrays(x[:1] + 1, x)
    return first * second + 1


def written(x):
    x += 1
    return x


def asked_for(x):
    return x.flags.writeable, x * 2


@pytest.mark.filterwarnings("ignore::FutureWarning")  # compare.py asks
@pytest.mark.parametrize("fn", [written_after_asking, written_view, written_view_of_array, only_read])
def test_views_that_warn(fn):
    calls(fn, *(lambda n=n: (f64(n),) for n in (4, 4, 0, 1, 2)))


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("fn", [written, asked_for])
def test_views_that_warn_come_in(fn):
    calls(fn, lambda: (f64(3),), lambda: (np.broadcast_arrays(1.5, f64(3))[0],), lambda: (np.broadcast_to(1.5, 3),))


def test_reading_such_views_is_no_break():
    dynoc.optimize(only_read, wait=True, fullgraph=True)(f64(3))


@pytest.mark.parametrize("number", [np.float32(1.5), np.float64(2.5), np.int16(3), np.uint8(7), 2.5, 3])
def test_round_to_no_digits_is_a_python_int(number):
    def rounded(s):
        return round(s, None), round(s), round(s, ndigits=None)

    fast = dynoc.optimize(rounded)
    for _ in range(3):
        got = fast(number)
        assert got == rounded(number) and all(type(n) is int for n in got)
