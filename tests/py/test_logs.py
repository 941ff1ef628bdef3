"""Log categories: how they are turned on, where records go, and that a program's own logging is left alone."""

import inspect
import logging
import re
from pathlib import Path

import pytest
from compare import dynoc
from process import output_of, run_python, run_script

CATEGORIES = "guards recompiles graph_breaks graph bytecode output_code fusion schedule cache perf loops".split()
RECORD = """
import numpy as np
import dynoc
dynoc.optimize(lambda x: np.cos(x) + x, wait=True)(np.ones(3))
"""


@pytest.fixture(autouse=True)
def quiet():
    yield
    dynoc.set_logs()


def levels():
    return {name for name in CATEGORIES if logging.getLogger(f"dynoc.{name}").level == logging.DEBUG}


def test_categories():
    assert list(dynoc._dynoc.log_names()) == CATEGORIES


def test_set_logs_and_its_stub_name_each_category():
    parameters = [name for name in inspect.signature(dynoc.set_logs).parameters if name not in ("all", "others")]
    stub = (Path(dynoc.__file__).parent / "__init__.pyi").read_text()
    typed = re.findall(r"(\w+): bool = \.\.\.,", re.search(r"def set_logs\((.*?)\) ->", stub, re.S)[1])
    assert parameters == typed == CATEGORIES
    assert ", ".join(CATEGORIES) + " : bool" in dynoc.set_logs.__doc__


def test_set_logs_names_what_is_on():
    dynoc.set_logs(guards=True, cache=True)
    assert levels() == {"guards", "cache"}
    dynoc.set_logs(fusion=True)
    assert levels() == {"fusion"}
    dynoc.set_logs(all=True, perf=False)
    assert levels() == set(CATEGORIES) - {"perf"}
    dynoc.set_logs()
    assert levels() == set()


def test_config_logs():
    dynoc.config.logs = "guards, perf"
    assert levels() == {"guards", "perf"}
    dynoc.config.logs = "all"
    assert levels() == set(CATEGORIES)
    dynoc.config.logs = ""
    assert levels() == set()


def test_unknown_category():
    with pytest.raises(dynoc.ConfigError, match="Valid categories: all, guards"):
        dynoc.set_logs(gards=True)
    with pytest.raises(dynoc.ConfigError, match="True and False"):
        dynoc.set_logs(guards="loud")


def test_environment_writes_to_stderr():
    code, out, err = run_script(RECORD, DYNOC_LOGS="graph,guards")
    assert code == 0, err
    assert out == ""
    assert "[dynoc.graph] " in err and "[dynoc.guards] " in err
    assert "[dynoc.output_code]" not in err


def test_nothing_is_said_unasked():
    assert run_script(RECORD) == (0, "", "")


def test_help_lists_the_categories_once_and_goes_on():
    code, out, err = run_script("import dynoc; print('went on')", DYNOC_LOGS="help")
    assert (code, out) == (0, "went on\n")
    for name in CATEGORIES:
        assert sum(line.split()[:1] == [name] for line in err.splitlines()) == 1


def test_a_program_that_set_up_logging_gets_each_record_once():
    text = "import logging; logging.basicConfig(format='mine %(name)s')\n" + RECORD
    code, _, err = run_script(text, DYNOC_LOGS="graph")
    assert code == 0
    assert "mine dynoc.graph" in err and "[dynoc.graph]" not in err


def test_logging_that_is_set_up_later():
    text = RECORD.replace("dynoc.optimize", "import logging; logging.basicConfig(format='mine %(name)s')\ndynoc.optimize")
    code, _, err = run_script(text, DYNOC_LOGS="graph")
    assert code == 0
    assert "mine dynoc.graph" in err and "[dynoc.graph]" not in err


def test_import_does_not_import_logging_or_parsers():
    text = "import sys, numpy; before = set(sys.modules); import dynoc; print(*sorted(set(sys.modules) - before))"
    new = set(output_of(text, DYNOC_LOGS=None).split())
    allowed = {"dynoc", "dynoc._dynoc", "dynoc._config", "dynoc._control", "dynoc._errors", "dynoc._optimize", "dynoc._python"}
    allowed.add("gc")  # is built in
    assert new <= allowed


def test_what_is_left_alone_is_logged(caplog):
    async def coroutine():
        pass

    def generator():
        yield 1

    with caplog.at_level(logging.INFO, logger="dynoc"):
        for fn in (len, int, generator, coroutine):
            assert dynoc.optimize(fn) is fn
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 4
    assert "not written in Python" in said[0] and "a class" in said[1]
    assert "generator" in said[2] and "coroutine" in said[3]


def test_help_needs_no_script():
    code, out, err = run_python(["-m", "dynoc", "--logs", "help"])
    assert (code, out) == (0, "")
    assert all(f"  {name}" in err for name in CATEGORIES)
