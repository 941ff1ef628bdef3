"""The stubs as mypy reads them, where it is installed: over themselves and types_example.py. `make check` has mypy and pyright
read the example programs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import dynoc

HERE = Path(__file__).resolve().parent
MYPY = os.environ.get("MYPY") or shutil.which("mypy")
pytestmark = pytest.mark.skipif(MYPY is None, reason="mypy is not installed")


def checked(*arguments):
    """What mypy says of these files, with the dynoc that this process uses."""
    environment = {**os.environ, "MYPYPATH": str(Path(dynoc.__file__).parents[1])}
    command = [MYPY, "--cache-dir", os.devnull, "--python-version", "3.11", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout


def test_the_stubs_fit_together():
    assert checked("--strict", Path(dynoc.__file__).parent / "__init__.pyi").startswith("Success")


def test_calls_have_the_types_of_what_is_called():
    assert checked("--strict", "--warn-unused-ignores", HERE / "types_example.py").startswith("Success")
