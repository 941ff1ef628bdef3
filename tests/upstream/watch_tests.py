"""A pytest plugin: writes down what becomes of each test as it happens, so that a crash loses one test and no more.

Loaded with `-p watch_tests` by harness.py, which says in the environment where to write and how to run the tests.

    UPSTREAM_RECORD   the file to write, a JSON object a line: {"start": id}, {"id", "outcome", "why", "seconds"}, then
                      {"warned": id, "category"} for each warning that pytest collected; last {"usage"} and {"counters"}
    UPSTREAM_DONE     a file with ids, one a line, of tests that were run before: deselected
    UPSTREAM_EVERY    n: of the ids in sorted order every n-th is run
    UPSTREAM_ONLY     a file with the ids of those that are run, in place of every n-th
    UPSTREAM_SEED     the seed of `random` and np.random, set before each test
    UPSTREAM_PATIENCE seconds after which a test is taken for hanging: the process ends with a traceback of every thread
    UPSTREAM_TURNS    how often the body of each test is called; it fails where one of the calls does
    UPSTREAM_ONCE     a file with ids of tests that can't be called twice, dynoc or not
    UPSTREAM_DYNOC    JSON arguments of dynoc.enable(); not set: without dynoc
    UPSTREAM_OPTIONS  JSON, names and values for dynoc.config
"""

import faulthandler
import json
import os
import random
import resource
import sys
import time

import pytest


def ids_in(variable):
    path = os.environ.get(variable)
    return set(open(path).read().splitlines()) if path else set()


record = open(os.environ["UPSTREAM_RECORD"], "a", buffering=1)
done = ids_in("UPSTREAM_DONE")
once = ids_in("UPSTREAM_ONCE")
only = ids_in("UPSTREAM_ONLY")
turns = int(os.environ.get("UPSTREAM_TURNS", "1"))
every = int(os.environ.get("UPSTREAM_EVERY", "1"))
seed = os.environ.get("UPSTREAM_SEED")
patience = float(os.environ.get("UPSTREAM_PATIENCE", "0"))
stderr = os.dup(2)  # pytest puts a file in the place of the real one
outcomes = {}
started = 0.0
dynoc = None

if "UPSTREAM_DYNOC" in os.environ:
    import dynoc

    for name, value in json.loads(os.environ.get("UPSTREAM_OPTIONS", "{}")).items():
        setattr(dynoc.config, name, value)
    dynoc.enable(**json.loads(os.environ["UPSTREAM_DYNOC"]))


def write(**row):
    record.write(json.dumps(row) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    wanted = only or set(sorted(item.nodeid for item in items)[::every])
    left_out = [item for item in items if item.nodeid in done or item.nodeid not in wanted]
    items[:] = [item for item in items if item.nodeid in wanted - done]
    config.hook.pytest_deselected(items=left_out)


def pytest_collectreport(report):
    if report.failed:
        write(id=report.nodeid, outcome="not collected", why=str(report.longrepr))


def pytest_runtest_logstart(nodeid, location):
    global started
    write(start=nodeid)
    outcomes[nodeid] = ("passed", "")
    started = time.process_time()
    if patience:
        faulthandler.dump_traceback_later(patience, exit=True, file=stderr)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if seed is not None:
        random.seed(int(seed))
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(int(seed))


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
    if patience:
        faulthandler.cancel_dump_traceback_later()
    outcome, why = outcomes.pop(nodeid)
    write(id=nodeid, outcome=outcome, why=why, seconds=time.process_time() - started)


def pytest_warning_recorded(warning_message, when, nodeid):
    if when == "runtest":
        write(warned=nodeid, category=warning_message.category.__name__)


def pytest_sessionfinish(session):
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    write(
        usage={
            "peak": own.ru_maxrss * 1024,
            "cpu": own.ru_utime + own.ru_stime,
            "compiling": others.ru_utime + others.ru_stime,
        }
    )
    if dynoc is not None:
        dynoc.disable()
        write(counters={group: dict(rows) for group, rows in dynoc.counters.items()})
