"""Runs one module of CPython's own tests and writes down what becomes of each test as it happens.

    watch_unittest.py test_grammar [TEST ...]

Started by run_cpython.py, which says in the environment where to write and how to run; the variables are those of watch_tests.py.
NumPy and dynoc are imported either way, so that the two ways differ in nothing but dynoc.enable().
"""

import json
import os
import sys
import unittest

import dynoc

record = open(os.environ["UPSTREAM_RECORD"], "a", buffering=1)


def write(**row):
    record.write(json.dumps(row) + "\n")


class Watch(unittest.TestResult):
    """Writes a line where a test begins and one where it ends. A test counts as what was worst of its parts and turns."""

    WORST_LAST = ("passed", "skipped", "xfailed", "xpassed", "failed", "error")

    def __init__(self):
        super().__init__()
        self.outcomes = {}  # id: (outcome, why)

    def startTest(self, test):
        super().startTest(test)
        write(start=test.upstream_id)
        self.outcomes.setdefault(test.upstream_id, ("passed", ""))

    def stopTest(self, test):
        super().stopTest(test)
        outcome, why = self.outcomes[test.upstream_id]
        write(id=test.upstream_id, outcome=outcome, why=why)

    def note(self, test, outcome, why=""):
        name = getattr(test, "upstream_id", None)
        if name is None:  # what stands for a class or module that couldn't be set up
            write(id=test.id(), outcome=outcome, why=why)
        elif self.WORST_LAST.index(outcome) > self.WORST_LAST.index(self.outcomes.get(name, ("passed",))[0]):
            self.outcomes[name] = outcome, why

    def addError(self, test, err):
        self.note(test, "error", self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        self.note(test, "failed", self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addExpectedFailure(self, test, err):
        self.note(test, "xfailed")

    def addUnexpectedSuccess(self, test):
        self.note(test, "xpassed")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.note(test, "failed", self._exc_info_to_string(err, test))


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def ids_in(variable):
    path = os.environ.get(variable)
    return set(open(path).read().splitlines()) if path else set()


def chosen_tests(name, wanted):
    """The module's tests in their order, each with an id that no other has, each as many times as it is to be run."""
    done, once, turns = ids_in("UPSTREAM_DONE"), ids_in("UPSTREAM_ONCE"), int(os.environ.get("UPSTREAM_TURNS", "1"))
    suite, seen = unittest.TestSuite(), {}
    for test in tests_of(unittest.defaultTestLoader.loadTestsFromName(f"test.{name}")):
        seen[test.id()] = seen.get(test.id(), 0) + 1
        test.upstream_id = test.id() if seen[test.id()] == 1 else f"{test.id()} {seen[test.id()]}"
        if test.upstream_id not in done and (not wanted or any(word in test.upstream_id for word in wanted)):
            suite.addTests([test] * (1 if test.upstream_id in once else turns))
    return suite


def main(name, *wanted):
    from test import support

    support.verbose = False
    support.use_resources = []
    for option, value in json.loads(os.environ.get("UPSTREAM_OPTIONS", "{}")).items():
        setattr(dynoc.config, option, value)
    if "UPSTREAM_DYNOC" in os.environ:
        dynoc.enable(**json.loads(os.environ["UPSTREAM_DYNOC"]))
    chosen_tests(name, wanted).run(Watch())
    dynoc.disable()
    write(counters={group: dict(rows) for group, rows in dynoc.counters.items()})
    record.close()


if __name__ == "__main__":
    sys.path[0] = os.getcwd()
    main(*sys.argv[1:])
