"""Views of np.broadcast_arrays, which warn when they are written: warned as eager does, and read without a break."""

import numpy as np
import pytest
from case import f64
from compare import dynoc
from outcomes import calls_of


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
    calls_of(fn, *(lambda n=n: (f64(n),) for n in (4, 4, 0, 1, 2)))


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("fn", [written, asked_for])
def test_views_that_warn_come_in(fn):
    calls_of(fn, lambda: (f64(3),), lambda: (np.broadcast_arrays(1.5, f64(3))[0],), lambda: (np.broadcast_to(1.5, 3),))


def test_reading_such_views_is_no_break():
    dynoc.optimize(only_read, wait=True, fullgraph=True)(f64(3))
