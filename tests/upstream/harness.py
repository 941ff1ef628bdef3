"""Runs a project's own tests twice, as they are and under dynoc.enable(), and compares what became of each test.

Used by run_numpy.py, run_scipy.py and run_cpython.py, which say which files, and by run_thirdparty.py, which runs whole suites
and compares more. Each file has a process of its own with a limit of time. Where one crashes or hangs, the test it was in is
written down and a new process goes on behind it. Runs without dynoc are kept beside the build (they depend on nothing that
changes here).
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Report:
    """What became of the tests of one file in one way of running them."""

    def __init__(self):
        self.tests = {}  # id: (outcome, why)
        self.warnings = {}  # id: {category: how many}
        self.taken = {}  # id: seconds of CPU time
        self.counters = {}
        self.seconds = 0.0
        self.cpu = 0.0  # seconds of the processes themselves
        self.compiling = 0.0  # CPU seconds of processes that they started
        self.peak = 0  # bytes of the largest process
        self.complete = True

    def count(self, more):
        for group, rows in more.items():
            into = self.counters.setdefault(group, {})
            for key, n in rows.items():
                into[key] = into.get(key, 0) + n

    def to_json(self):
        return vars(self)

    @classmethod
    def from_json(cls, text):
        self = cls()
        vars(self).update(json.loads(text))
        self.tests = {test: tuple(outcome) for test, outcome in self.tests.items()}
        return self


def read_record(path, report):
    """Take in the lines of one process; returns the test that it was in when it ended, or None."""
    inside = None
    for line in path.read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:  # the process ended in the middle of it
            continue
        if "start" in row:
            inside = row["start"]
        elif "id" in row:
            report.tests[row["id"]] = (row["outcome"], row["why"])
            report.taken[row["id"]] = row.get("seconds", 0.0)
            inside = None
        elif "warned" in row:
            categories = report.warnings.setdefault(row["warned"], {})
            categories[row["category"]] = categories.get(row["category"], 0) + 1
        elif "usage" in row:
            report.cpu += row["usage"]["cpu"]
            report.compiling += row["usage"]["compiling"]
            report.peak = max(report.peak, row["usage"]["peak"])
        else:
            report.count(row["counters"])
    return inside


def pytest_command(path, arguments):
    command = [sys.executable, "-X", "faulthandler", "-m", "pytest", "-q", "-p", "watch_tests", "-p", "no:cacheprovider"]
    return [*command, "-W", "ignore::pytest.PytestWarning", f"--rootdir={path.parent}", *arguments.pytest, str(path)]


def run_file(path, how, arguments, leave_out=()):
    """Tests of one file, through as many processes as it takes. how: the environment of watch_tests.py."""
    report, start = Report(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        while True:
            record = folder / "record"
            record.write_text("")
            (folder / "done").write_text("\n".join([*report.tests, *leave_out]))
            environment = {
                "DYNOC_CACHE_DIR": str(arguments.keep / "cache"),
                **os.environ,
                **how,
                "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
                "UPSTREAM_RECORD": str(record),
                "UPSTREAM_DONE": str(folder / "done"),
            }
            left = arguments.limit - (time.monotonic() - start)
            status, output = run_process(arguments.command(path, arguments), environment, left, folder)
            known = len(report.tests)
            inside = read_record(record, report)
            if status is None:  # out of time: whether the test it is in hangs is not known
                report.complete = False
                if inside is not None and len(report.tests) == known:
                    report.tests[inside] = ("hangs", "")
                break
            if inside is None and status in (0, 1, 5):
                break
            if inside is None:
                report.tests[f"{path.name}::(no test)"] = (f"ended with status {status}", crash_text(output))
                report.complete = False
                break
            name = signal.Signals(-status).name if status < 0 else f"status {status}"
            report.tests[inside] = (f"crash: {name}", crash_text(output))
    report.seconds = time.monotonic() - start
    return report


def crash_text(output):
    """What faulthandler wrote, or the end of the output where it wrote nothing."""
    starts = [at for word in ("Fatal Python error", "Timeout (") if (at := output.rfind(word)) >= 0]
    return output[max(starts) :][:3000] if starts else output[-3000:]


def run_process(command, environment, seconds, folder):
    """(exit status or None where it was killed, output)"""
    with open(folder / "output", "w+") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            status = process.wait(max(seconds, 1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = None
        output.seek(0)
        return status, output.read()


def kept(name, arguments, key, make):
    """What make() gives, from the folder of kept runs where it was made before with the same key."""
    key = hashlib.sha256(repr((sys.version, arguments.pytest, key)).encode()).hexdigest()[:16]
    file = arguments.keep / f"{name}-{key}.json"
    if file.exists():
        return Report.from_json(file.read_text())
    report = make()
    if report.complete and report.tests:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(report.to_json()))
    return report


def differences(plain, fast):
    """[(test, outcome without dynoc, outcome with, why)]"""
    found = []
    for test in sorted(plain.tests.keys() | fast.tests.keys()):
        before, after = plain.tests.get(test, ("not run", "")), fast.tests.get(test, ("not run", ""))
        if before[0] != after[0] and not (after[0] == "not run" and not fast.complete):
            found.append((test, before[0], after[0], after[1]))
    return found


def only_last_bits(path, how, arguments, plain, found):
    """Those of the tests that differ no more where every bit has to be NumPy's."""
    again = {test for test, *_ in found}
    how = {**how, "UPSTREAM_DYNOC": json.dumps({**json.loads(how["UPSTREAM_DYNOC"]), "exact": True})}
    exact = run_file(path, how, arguments, plain.tests.keys() - again)
    return {test for test in again if exact.tests.get(test, ("not run",))[0] == plain.tests[test][0]} if exact.complete else set()


def compare_file(path, arguments):
    """(path, plain report, dynoc report, differences, those that are in the last bits of a transcendental function or a sum).
    A test that fails on being called again is called once both ways."""
    text = path.read_bytes()
    first = kept(path.stem, arguments, (text, "once"), lambda: run_file(path, {}, arguments))
    with tempfile.NamedTemporaryFile("w", suffix=".ids") as once:
        plain, how = first, {}
        if arguments.turns > 1:
            how["UPSTREAM_TURNS"] = str(arguments.turns)
            more = kept(path.stem, arguments, (text, f"turns {arguments.turns}"), lambda: run_file(path, how, arguments))
            once.write("\n".join(test for test in first.tests if first.tests[test][0] != more.tests.get(test, ("",))[0]))
            once.flush()
            how["UPSTREAM_ONCE"] = once.name
        how["UPSTREAM_DYNOC"] = json.dumps({"wait": True, **arguments.enable})
        how["UPSTREAM_OPTIONS"] = json.dumps({"retire": False, **arguments.option})  # what doesn't pay has to be right too
        fast = run_file(path, how, arguments)
        found = differences(plain, fast)
        known = [row for row in found if row[0] in plain.tests]
        exact = known and arguments.command is pytest_command  # what NumPy computes: rounding can be what differs
        return path, plain, fast, found, only_last_bits(path, how, arguments, plain, known) if exact else set()


def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "none"


def summary(fast_reports):
    """Counters of all files together, as text."""
    total = Report()
    for report in fast_reports:
        total.count(report.counters)
    lines = []
    calls = total.counters.get("calls", {})
    served, partly = calls.get("served", 0), calls.get("partly", 0)
    every = served + partly + calls.get("eager", 0)
    lines.append(
        f"array-function calls that ran in artifacts: {served + partly} of {every} ({percent(served + partly, every)}), "
        f"{served} ({percent(served, every)}) of them from beginning to end"
    )
    frames = total.counters.get("frames", {})
    lines.append(f"frames recorded: {frames.get('recorded', 0)} of {frames.get('total', 0)} that were tried")
    for group in ("graphs", "graphs_failed", "tier", "refused", "graph_breaks"):
        rows = sorted(total.counters.get(group, {}).items(), key=lambda row: -row[1])
        lines.append(f"{group}: " + (", ".join(f"{key} {n}" for key, n in rows) or "none"))
    return "\n".join(lines)


def parse(description, groups):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("what", nargs="*", help=f"groups ({', '.join(groups)}) or test files; all groups if none is given")
    parser.add_argument("--limit", type=float, default=1200, help="seconds for one file in one way")
    parser.add_argument("--turns", type=int, default=2, help="calls of each test; the second one meets what the first compiled")
    parser.add_argument("--jobs", type=int, default=1, help="files at once")
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / "upstream", help="where runs without dynoc are kept")
    parser.add_argument("--enable", type=json.loads, default={}, help="JSON: more arguments of dynoc.enable()")
    parser.add_argument("--option", type=json.loads, default={}, help="JSON: settings of dynoc.config")
    parser.add_argument("--pytest", action="append", default=["-m", "not slow"], help="one more argument for pytest")
    return parser.parse_args()


def main(description, groups, files_of, known=(), command=pytest_command, options=()):
    """files_of(word): the test files of a group, or [Path(word)]. known: ends of the names of tests that differ, and why.
    command: what runs one file. options: settings of dynoc.config, besides those on the command line. Exit status 1 where others
    differ."""
    arguments = parse(description, groups)
    arguments.command = command
    arguments.option = {**dict(options), **arguments.option}
    files = [file for word in (arguments.what or groups) for file in files_of(word)]
    reports, different, near, expected, cut = [], 0, 0, 0, 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for path, plain, fast, found, bits in pool.map(lambda file: compare_file(file, arguments), files):
            reports.append(fast)
            excused = {row[0]: why for row in found for end, why in dict(known).items() if row[0].endswith(end)}
            new = [row for row in found if row[0] not in bits and row[0] not in excused]
            different += len(new)
            near += len(bits)
            expected += len(found) - len(new) - len(bits)
            cut += not fast.complete
            late = "" if fast.complete else f", NOT ALL: {len(plain.tests) - len(fast.tests)} tests were not run"
            name = "/".join(path.parts[-4:])
            print(f"{name}: {len(fast.tests)} tests, {len(new)} differ, {fast.seconds:.0f} s{late}", flush=True)
            for test, before, after, why in found:
                last_bits = " (in last bits: not with exact=True)" if test in bits else ""
                note = f" (known: {excused[test]})" if test in excused else last_bits
                print(f"  {test.rpartition('/')[2]}: {after} instead of {before}{note}")
                if not note:
                    print("".join(f"      {line}\n" for line in why.strip().splitlines()[-25:]), end="", flush=True)
    tests, seconds = sum(len(report.tests) for report in reports), sum(report.seconds for report in reports)
    worse = f"{different} differ, {cut} files were not run to their end"
    none = "no test ran: the package isn't found, or the tests aren't there"
    same = none if tests == 0 else worse if different or cut else "same passes and failures"
    print(f"\n{summary(reports)}\n\n{tests} tests in {seconds:.0f} s: {same}", end=" ")
    print(f"({expected} known to differ, {near} in last bits only)", flush=True)
    return bool(different or cut or tests == 0)
