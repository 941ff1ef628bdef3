"""docs/numpy_coverage.md says what a recording of each public name gives, and no public name is left out."""

import os
import re
import subprocess
import sys
from pathlib import Path

import dynoc
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "numpy_coverage.md"


def run_tool(option):
    environment = {**os.environ, "PYTHONPATH": str(Path(dynoc.__file__).parents[1])}
    command = [sys.executable, ROOT / "tools" / "numpy_coverage.py", option]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, "run tools/numpy_coverage.py and look at what changed:\n" + done.stderr


def test_each_public_name_has_a_sample():
    run_tool("--names")


def test_the_document_is_up_to_date():
    made_with = re.search(r"with NumPy (\d+\.\d+)", DOCUMENT.read_text()).group(1)
    if not np.__version__.startswith(made_with + "."):
        pytest.skip(f"made with NumPy {made_with}, this is {np.__version__}")
    run_tool("--check")
