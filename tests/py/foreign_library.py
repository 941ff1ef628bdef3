"""Libraries of C functions that tests compile and call through ctypes."""

import shutil
import subprocess

import pytest


def compiled(source, folder):
    """The path of the library that becomes of the C text, in the folder; skips where there is no compiler."""
    cc = shutil.which("cc") or shutil.which("gcc")
    if cc is None:
        pytest.skip("no compiler")
    (folder / "lib.c").write_text(source)
    subprocess.run([cc, "-O1", "-shared", "-fPIC", "-o", folder / "lib.so", folder / "lib.c"], check=True)
    return str(folder / "lib.so")
