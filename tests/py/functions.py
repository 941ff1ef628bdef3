"""THE TEST TABLE: small functions of Python and NumPy, each with sets of arguments. case.py says what a row is.

Every test that goes through "all functions" goes through TABLE: plain against optimised (test_table.py), forced bail-outs and
leaves (test_forced_bail.py). A new operator or instruction gets its rows in one of the modules imported here.
"""

import functions_arrays  # noqa: F401
import functions_breaks  # noqa: F401
import functions_breaks_places  # noqa: F401
import functions_iterators  # noqa: F401
import functions_python  # noqa: F401
from case import TABLE

assert len({row.name for row in TABLE}) == len(TABLE), "two rows have one name"
