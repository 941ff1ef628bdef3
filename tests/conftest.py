"""What every test needs: a cache folder that isn't the user's, and the plain configuration.

The folder (DYNOC_CACHE_DIR where it is set: tools/dev.py shares one between suites) has to be in the environment before dynoc is
imported, hence no fixture. DYNOC_SOAK=1 asks for many more cases; dynoc
refuses variables of its prefix that it doesn't know, so tests find it as SOAK.
"""

import os
import shutil
import tempfile

CACHE = tempfile.mkdtemp(prefix="dynoc-tests-") if "DYNOC_CACHE_DIR" not in os.environ else None
if CACHE:
    os.environ["DYNOC_CACHE_DIR"] = CACHE
if "DYNOC_SOAK" in os.environ:
    os.environ["SOAK"] = os.environ.pop("DYNOC_SOAK")


def pytest_sessionfinish():
    if CACHE:
        shutil.rmtree(CACHE, ignore_errors=True)
