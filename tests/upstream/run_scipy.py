"""SciPy's pure-Python parts under dynoc.enable(wait=True): their own tests pass and fail as without.

    run_scipy.py [GROUP or FILE ...] [--turns 2] [--jobs 1] ...

harness.py does the work.
"""

import sys
from pathlib import Path

import harness
import scipy

GROUPS = {
    "optimize": ["optimize/tests/test__numdiff.py", "optimize/tests/test_zeros.py", "optimize/tests/test_linesearch.py"],
    "signal": [
        f"signal/tests/test_{part}.py" for part in "windows waveforms savitzky_golay fir_filter_design filter_design splines".split()
    ],
    "interpolate": [f"interpolate/tests/test_{part}.py" for part in "polyint pade interpolate bary_rational rgi".split()],
    "stats": [f"stats/tests/test_{part}.py" for part in "distributions continuous_basic discrete_basic entropy variation".split()],
}


def files_of(word):
    if word not in GROUPS:
        return [Path(word).resolve()]
    return [Path(scipy.__file__).parent / name for name in GROUPS[word]]


if __name__ == "__main__":
    sys.exit(harness.main(__doc__, GROUPS, files_of))
