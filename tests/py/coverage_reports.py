"""What the tests of the documents of coverage share: a tool of tools/ is run in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import dynoc
import pytest

ROOT = Path(__file__).resolve().parents[2]


def run_tool(name, option):
    environment = {**os.environ, "PYTHONPATH": str(Path(dynoc.__file__).parents[1])}
    command = [sys.executable, ROOT / "tools" / f"{name}.py", option]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"run tools/{name}.py and look at what changed:\n" + done.stderr


def need_version(name, library, version):
    """Skips where the document was made with another version of the library."""
    text = (ROOT / "docs" / f"{name}.md").read_text()
    made_with = re.search(library + r" (\d+\.\d+)", text).group(1)
    if not version.startswith(made_with + "."):
        pytest.skip(f"made with {library} {made_with}, this is {version}")
