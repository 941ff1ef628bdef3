"""Every test in this folder starts with nothing compiled and the configuration as it was."""

import pytest
from compare import dynoc

CHANGED = {"wait": False, "cache_limit": 64, "force_bail": -1, "force_break": 0, "force_leave": -1, "compiler": "", "threads": 0}


@pytest.fixture(autouse=True)
def clean():
    if dynoc is None:
        pytest.fail("dynoc is not built: make build")
    dynoc.reset()
    for name, value in CHANGED.items():
        setattr(dynoc.config, name, value)
    yield
    for name, value in CHANGED.items():
        setattr(dynoc.config, name, value)


@pytest.fixture(params=["native", "builtin"])
def tier(request, monkeypatch):
    """Who runs kernels: code of the compiler's, or the built-in tier, as there is no compiler."""
    if request.param == "builtin":
        monkeypatch.setattr(dynoc.config, "compiler", "/nonexistent/cc")
    dynoc.reset()
    return request.param
