"""NumPy's own test suites under dynoc.enable(wait=True): same passes and failures as without.

    run_numpy.py [GROUP or FILE ...] [--turns 2] [--jobs 1] ...

They ship with NumPy's wheel. harness.py does the work.
"""

import sys
from pathlib import Path

import harness
import numpy

GROUPS = {name.strip("_"): name for name in ("lib", "linalg", "fft", "polynomial", "ma", "random", "_core")}
KNOWN = {
    "test_api.py::test___array___refcount": "what was compiled holds a reference to the dtype, which sys.getrefcount sees",
    "test_arrayobject.py::test_cleanup_with_refs_non_contig": "the same",
    "test_arrayprint.py::TestArray2String::test_refcount": "a recursive closure made anew is a cycle until it is collected",
    "test_umath.py::TestReplaceLoopBySignature::test_replace_loop": "a ufunc's loop is replaced while the program runs",
}


def files_of(word):
    if word not in GROUPS:
        return [Path(word).resolve()]
    return sorted((Path(numpy.__file__).parent / GROUPS[word] / "tests").glob("test_*.py"))


if __name__ == "__main__":
    sys.exit(harness.main(__doc__, GROUPS, files_of, known=KNOWN))
