"""SciPy's pure-Python parts under dynoc.enable(wait=True): their own tests pass and fail as without.

    run_scipy.py [GROUP or FILE ...] [--turns 2] [--jobs 1] ...

harness.py does the work.
"""

import sys
from pathlib import Path

import harness
import scipy

GROUPS = {
    "optimize": "_numdiff zeros linesearch",
    "signal": "windows waveforms savitzky_golay fir_filter_design filter_design splines",
    "interpolate": "polyint pade interpolate bary_rational rgi",
    "stats": "distributions continuous_basic discrete_basic entropy variation",
}


def files_of(word):
    if word not in GROUPS:
        return [Path(word).resolve()]
    return [Path(scipy.__file__).parent / word / "tests" / f"test_{part}.py" for part in GROUPS[word].split()]


if __name__ == "__main__":
    sys.exit(harness.main(__doc__, GROUPS, files_of))
