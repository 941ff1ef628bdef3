"""A pytest plugin: writes down what becomes of each test as it happens, so that a crash loses one test and no more.

Loaded with `-p watch_tests` by harness.py, which says in the environment where to write and how to run the tests.

    UPSTREAM_RECORD   the file to write, a JSON object a line: {"start": id}, then {"id", "outcome", "why"}; last {"counters"}
    UPSTREAM_DONE     a file with ids, one a line, of tests that were run before: deselected
    UPSTREAM_TURNS    how often the body of each test is called; it fails where one of the calls does
    UPSTREAM_ONCE     a file with ids of tests that can't be called twice, dynoc or not
    UPSTREAM_DYNOC    JSON arguments of dynoc.enable(); not set: without dynoc
    UPSTREAM_OPTIONS  JSON, names and values for dynoc.config
"""

import json
import os

import pytest


def ids_in(variable):
    path = os.environ.get(variable)
    return set(open(path).read().splitlines()) if path else set()


record = open(os.environ["UPSTREAM_RECORD"], "a", buffering=1)
done = ids_in("UPSTREAM_DONE")
once = ids_in("UPSTREAM_ONCE")
turns = int(os.environ.get("UPSTREAM_TURNS", "1"))
outcomes = {}
dynoc = None

if "UPSTREAM_DYNOC" in os.environ:
    import dynoc

    for name, value in json.loads(os.environ.get("UPSTREAM_OPTIONS", "{}")).items():
        setattr(dynoc.config, name, value)
    dynoc.enable(**json.loads(os.environ["UPSTREAM_DYNOC"]))


def write(**row):
    record.write(json.dumps(row) + "\n")


def pytest_collection_modifyitems(config, items):
    again = [item for item in items if item.nodeid in done]
    items[:] = [item for item in items if item.nodeid not in done]
    config.hook.pytest_deselected(items=again)


def pytest_collectreport(report):
    if report.failed:
        write(id=report.nodeid, outcome="not collected", why=str(report.longrepr))


def pytest_runtest_logstart(nodeid, location):
    write(start=nodeid)
    outcomes[nodeid] = ("passed", "")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """The turns before the last; pytest itself calls the last one."""
    if pyfuncitem.nodeid not in once:
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        for _ in range(turns - 1):
            pyfuncitem.obj(**arguments)


def pytest_runtest_logreport(report):
    expected = hasattr(report, "wasxfail")
    if report.skipped:
        outcomes[report.nodeid] = ("xfailed" if expected else "skipped", "")
    elif report.failed:
        outcomes[report.nodeid] = ("failed" if report.when == "call" else f"error in {report.when}", report.longreprtext)
    elif expected:
        outcomes[report.nodeid] = ("xpassed", "")


def pytest_runtest_logfinish(nodeid, location):
    outcome, why = outcomes.pop(nodeid)
    write(id=nodeid, outcome=outcome, why=why)


def pytest_sessionfinish(session):
    if dynoc is not None:
        dynoc.disable()
        write(counters={group: dict(rows) for group, rows in dynoc.counters.items()})
