"""docs/numpy_coverage.md says what a recording of each public name gives, and no public name is left out."""

import numpy as np
import pytest
from coverage_reports import need_version, run_tool

pytestmark = pytest.mark.any_interpreter


def test_each_public_name_has_a_sample():
    run_tool("numpy_coverage", "--names")


def test_the_document_is_up_to_date():
    need_version("numpy_coverage", "NumPy", np.__version__)
    run_tool("numpy_coverage", "--check")
