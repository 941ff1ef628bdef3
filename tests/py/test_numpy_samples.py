"""The sample call of each public name of NumPy (tools/numpy_samples.py): with arrays of ten kinds, one function gives what
plain NumPy gives.

The samples are there for docs/numpy_coverage.md; as a test they are a call of everything.
"""

import contextlib
import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from case import Call
from compare import check, dynoc

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import numpy_coverage as coverage  # noqa: E402
from numpy_samples import SAMPLES  # noqa: E402

# Results that are another each time, hold addresses or memory that is not the array's, or compare by identity.
NOT_COMPARED = re.compile(
    r"np\.empty|as_strided|__sizeof__|ctypes|\.data$|x\.flat$|spawn|memoryview|__array_interface__|bit_generator"
)


def rows():
    spaces = coverage.public_names()
    for title, samples in SAMPLES.items():
        names = spaces.get(title, spaces[None])
        for name in sorted(samples.keys() & names):
            if not NOT_COMPARED.search(samples[name]):
                yield pytest.param(samples[name], id=f"{title.rpartition('.')[2].replace(' ', '-')}-{name}")


@pytest.fixture
def folder(tmp_path):
    coverage.prepare(str(tmp_path))
    return str(tmp_path)


def strided(a):
    """The same elements, every second place in memory."""
    spread = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), dtype=a.dtype)
    spread[..., ::2] = a
    return spread[..., ::2]


def typed(dtype):
    return lambda a: a.astype(dtype) if a.dtype == np.float64 else a


def itself(a):
    return a


KINDS = {  # of array arguments, in the order of the calls of one compiled function; NumPy refuses some, with its own exception
    "as they are": itself,
    "strided": strided,
    "float32": typed(np.float32),
    "int64": typed(np.int64),
    "as they are again": itself,
    "complex128": typed(np.complex128),
    "empty": lambda a: a[..., :0],
    "of length one": lambda a: a[..., :1],
    "in Fortran order": np.asfortranarray,
    "backwards": lambda a: a[..., ::-1],
}


def make(folder, kind):
    arguments = coverage.make_arguments(folder)
    change = KINDS[kind]
    with np.errstate(invalid="ignore"):  # NaN as an integer
        return Call(**{name: change(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()})


@pytest.mark.parametrize("sample", list(rows()))
def test_same_as_plain(sample, folder):
    space = {"np": np}
    exec(compile(coverage.source_of(sample), "<sample>", "exec"), space)
    plain = space["sample"]
    fast = dynoc.optimize(plain, wait=True)
    with contextlib.redirect_stdout(io.StringIO()):
        for kind in KINDS:
            check(plain, fast, lambda: make(folder, kind), "near", what=f"of {sample} with arrays {kind}")
