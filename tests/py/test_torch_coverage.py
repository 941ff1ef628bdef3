"""docs/torch_coverage.md says what a recording of each public name of PyTorch gives, and no public name is left out."""

import pytest
from coverage_reports import need_version, run_tool
from torch_cases import torch

pytestmark = pytest.mark.any_interpreter

pytest.importorskip("expecttest")  # PyTorch's samples need it


@pytest.mark.parametrize("option", ["--names", "--check"])
def test_the_document_is_up_to_date(option):
    need_version("torch_coverage", "PyTorch", torch.__version__)
    run_tool("torch_coverage", option)
