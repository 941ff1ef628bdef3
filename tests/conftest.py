"""What every test needs: a cache folder that isn't the user's, and a configuration under which nothing depends on time.

The folder (DYNOC_CACHE_DIR where it is set: tools/dev.py shares one between suites) has to be in the environment before dynoc is
imported, hence no fixture. What doesn't pay is not retired (test_profit.py asks for it), as that goes by measured times.
DYNOC_SOAK=1 asks for many more cases; dynoc
refuses variables of its prefix that it doesn't know, so tests find it as SOAK.
"""

import gc
import os
import random
import shutil
import sys
import tempfile

import pytest

CACHE = tempfile.mkdtemp(prefix="dynoc-tests-") if "DYNOC_CACHE_DIR" not in os.environ else None
if CACHE:
    os.environ["DYNOC_CACHE_DIR"] = CACHE
os.environ.setdefault("DYNOC_RETIRE", "0")
if "DYNOC_SOAK" in os.environ:
    os.environ["SOAK"] = os.environ.pop("DYNOC_SOAK")


@pytest.fixture(autouse=True)
def seeded():
    """The same random numbers for a test whichever ran before it, so that none fails by the order of files."""
    random.seed(20261126)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(20261126)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(20261126)


@pytest.fixture
def no_collections():
    """For signal handlers that raise: an exception in a callback of the collector is lost, and hypothesis has such a callback."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def pytest_sessionfinish():
    if CACHE:
        shutil.rmtree(CACHE, ignore_errors=True)
