"""What every test needs: a cache folder of its own, and the plain configuration.

The folder has to be in the environment before dynoc is imported, hence no fixture.
"""

import os
import shutil
import tempfile

CACHE = tempfile.mkdtemp(prefix="dynoc-tests-")
os.environ["DYNOC_CACHE_DIR"] = CACHE


def pytest_sessionfinish():
    shutil.rmtree(CACHE, ignore_errors=True)
