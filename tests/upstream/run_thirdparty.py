"""Test suites of other packages three ways, plain, under dynoc.enable() and under dynoc.enable(wait=True): the same outcomes,
exceptions and numbers of warnings, test by test; memory and CPU time beside plain's.

    run_thirdparty.py [SUITE ...] [--slice] [--ways default,wait] [--only ID] [--jobs 2] ...

Of each suite every n-th test is run, in the sorted order of their ids; `--slice` runs fewer, of a folder or two, in default mode.
A test that differs is run again by itself, and with exact=True: what is the same then differed in last bits. `--only` runs tests
by their ids. What is installed comes from tools/requirements-thirdparty.txt (tools/dev.py); a suite that isn't there is named and
left out. harness.py runs the processes.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import harness

SETTINGS = harness.HERE / "thirdparty.ini"  # in place of those of the packages
SOURCES = Path(sys.prefix) / "sources"  # where tools/dev.py unpacks what has no tests in its wheel
LEFT_OUT = "not slow and not network and not remote_data and not single_cpu"
WAYS = {"default": {}, "wait": {"wait": True}}
MEMORY_RATIO, MEMORY_MORE = 1.3, 100 << 20
SLOW_RATIO, SLOW_MORE = 3.0, 2.0


class Suite:
    """A package's tests: the folders and files of a whole run, those of a slice, and every how manieth test of them is run."""

    def __init__(self, name, where, every, part, part_every, module=None):
        self.name = name
        self.where, self.every = where.split(), every
        self.part, self.part_every = part.split(), part_every
        self.module = module or name

    def root(self):
        """The folder that `where` is relative to, or None."""
        sources = [folder for folder in sorted(SOURCES.glob(f"{self.name}-*")) if folder.is_dir()]
        if sources:
            return sources[-1]
        found = importlib.util.find_spec(self.module)
        return Path(found.origin).parent if found else None


SUITES = (
    Suite("pandas", "tests/arithmetic tests/reductions tests/window", 30, "tests/arithmetic/test_numeric.py", 60),
    Suite("pywt", "tests", 2, "tests/test_swt.py tests/test_dwt_idwt.py tests/test_multidim.py", 3),
    Suite("sklearn", ".", 60, "linear_model/tests/test_ridge.py cluster/tests/test_k_means.py", 25, "sklearn"),
    Suite("statsmodels", ".", 30, "regression/tests/test_glsar_gretl.py stats/tests/test_weightstats.py", 5),
    Suite("astropy", "units stats modeling convolution nddata timeseries coordinates", 25, "units/tests/test_quantity.py", 8),
    Suite("emcee", "tests", 4, "tests/unit", 3),
    Suite("lmfit", "tests", 3, "tests/test_parameters.py tests/test_basicfit.py", 2),
    Suite("control", "tests", 10, "tests/statesp_test.py tests/timeresp_test.py", 12),
    Suite("xarray", "tests", 25, "tests/test_variable.py", 12),
    Suite("skimage", ".", 15, "transform/tests/test_warps.py filters/tests/test_gaussian.py", 4),
    Suite("autograd", "tests", 3, "tests/test_scalar_ops.py tests/test_numpy.py", 4),
    Suite("arch", "tests", 15, "tests/univariate/test_volatility.py", 8),
)

SUMS = "sums are added in another order than NumPy's (README, Limits), and the test compares bits of two ways to one mean"
EXP = "exp differs from NumPy's in the last bit (README, Limits), and the test compares bits of two ways to one value"
# Ends of the ids of tests that differ in last bits only, and why.
KNOWN = {
    "test_brute.py::test_brute_lmfit_vs_scipy_Ns_stepsize": EXP,
    "test_bootstrap.py::test_conf_int_parametric": SUMS,
    "test_weightstats.py::test_alternative_deprecated_alias[2-sided-two-sided]": SUMS,
    "test_weightstats.py::test_alternative_deprecated_alias[2s-two-sided]": SUMS,
    "test_weightstats.py::test_alternative_deprecated_alias[l-larger]": SUMS,
    "test_weightstats.py::test_alternative_deprecated_alias[s-smaller]": SUMS,
}


class Difference:
    def __init__(self, test, what, why):
        self.test, self.what, self.why = test, what, why
        self.note = ""


def command(suite, arguments):
    root = suite.root()
    wanted = arguments.only or [root / folder for folder in (suite.part if arguments.slice else suite.where)]
    files = dict.fromkeys(str(word).partition("::")[0] for word in wanted)
    return [
        *(sys.executable, "-X", "faulthandler", "-m", "pytest", "-q", "-c", str(SETTINGS), f"--rootdir={root.parent}"),
        *("-p", "watch_tests", "-p", "no:cacheprovider", "--continue-on-collection-errors", "--hypothesis-seed=0"),
        *("-m", LEFT_OUT, *arguments.pytest),
        *(str(root.parent / file) for file in files),
    ]


def environment(suite, arguments, enable=None, ids=()):
    how = {
        "UPSTREAM_EVERY": str(suite.part_every if arguments.slice else suite.every),
        "UPSTREAM_SEED": "0",
        "UPSTREAM_PATIENCE": str(arguments.patience),
        "MPLBACKEND": "agg",
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }
    if enable is not None:
        how["UPSTREAM_DYNOC"] = json.dumps({**enable, **arguments.enable})
        how["UPSTREAM_OPTIONS"] = json.dumps(arguments.option)
    return how


def run(suite, arguments, enable=None, only=()):
    """A Report of the suite, or of the tests `only` of it. enable: arguments of dynoc.enable(); None runs it plain."""
    how = environment(suite, arguments, enable)
    if not only:
        return harness.run_file(suite, how, arguments)
    with tempfile.NamedTemporaryFile("w", suffix=".ids") as ids:
        ids.write("\n".join(only))
        ids.flush()
        narrowed = argparse.Namespace(**{**vars(arguments), "only": list(only)})
        return harness.run_file(suite, {**how, "UPSTREAM_ONLY": ids.name}, narrowed)


def in_words(categories):
    return ", ".join(f"{n} {category}" for category, n in sorted(categories.items())) or "no warning"


def differences(plain, fast):
    rows = harness.differences(plain, fast)
    found = [Difference(test, f"{after} instead of {before}", why) for test, before, after, why in rows]
    elsewhere = {row.test for row in found}
    for test in sorted(plain.tests.keys() & fast.tests.keys() - elsewhere):
        before, after = plain.warnings.get(test, {}), fast.warnings.get(test, {})
        if before != after:
            found.append(Difference(test, f"{in_words(after)} instead of {in_words(before)}", ""))
    return found


def explain(suite, arguments, enable, plain, found):
    """Say of each difference what becomes of it when the test is run by itself, and with exact=True."""
    only = [row.test for row in found if row.test in plain.tests]
    if not only:
        return
    alone = {row.test for row in differences(run(suite, arguments, None, only), run(suite, arguments, enable, only))}
    exact = {row.test for row in differences(plain, run(suite, arguments, {**enable, "exact": True}, only))}
    for row in found:
        known = [why for end, why in KNOWN.items() if row.test.endswith(end)]
        if known:
            row.note = f"known: {known[0]}"
        elif row.test in only and row.test not in alone:
            row.note = "not when these tests run alone"
        elif row.test in only and row.test not in exact:
            row.note = "not with exact=True"


def slow_tests(plain, fast):
    taken = ((test, plain.taken.get(test, 0.0), seconds) for test, seconds in fast.taken.items())
    rows = [row for row in taken if row[2] > SLOW_RATIO * row[1] and row[2] > row[1] + SLOW_MORE]
    return sorted(rows, key=lambda row: row[1] - row[2])


def excerpt(row, shown, most):
    """The lines of a failure to print: its end, or the begin of faulthandler's text; one line where that was printed before."""
    if row.note.startswith("known") or not row.why:
        return []
    lines = row.why.strip().splitlines()
    end = "\n".join(lines[-3:])
    if end in shown:
        return [lines[-1]]
    shown.add(end)
    return lines[:most] if lines[0].startswith(("Fatal Python error", "Timeout (")) else lines[-most:]


def megabytes(size):
    return f"{size / 2**20:.0f} MB"


def compare(suite, arguments):
    """(text, how much is wrong) of one suite in all ways."""
    versions = sorted(f"{each.name} {each.version}" for each in importlib.metadata.distributions())
    watch = harness.HERE.joinpath("watch_tests.py").read_text()
    key = (versions, watch, command(suite, arguments), environment(suite, arguments))
    plain = harness.kept(suite.name, arguments, key, lambda: run(suite, arguments, only=arguments.only))
    lines = [f"{suite.name}: {len(plain.tests)} tests, plain {plain.cpu:.0f} s of CPU time, {megabytes(plain.peak)}"]
    if not plain.complete:
        nowhere = [row for test, row in plain.tests.items() if test.endswith("(no test)")]
        lines += [f"    plain: {what}\n{why}" for what, why in nowhere]
    wrong = not plain.complete
    for way in arguments.ways:
        fast = run(suite, arguments, WAYS[way], arguments.only)
        found = differences(plain, fast)
        explain(suite, arguments, WAYS[way], plain, found)
        new = [row for row in found if not row.note.startswith("known")]
        too_large = fast.peak > MEMORY_RATIO * plain.peak + MEMORY_MORE
        wrong += len(new) + too_large + (not fast.complete)
        lines.append(
            f"  {way}: {len(fast.tests)} tests, {len(new)} differ ({len(found) - len(new)} known), {fast.cpu:.0f} s of CPU time"
            f" ({fast.cpu / max(plain.cpu, 1e-3):.2f} x), {fast.compiling:.0f} s of compilers,"
            f" {megabytes(fast.peak)} ({fast.peak / max(plain.peak, 1):.2f} x{', TOO MUCH' if too_large else ''})"
            f"{'' if fast.complete else ', NOT ALL'}"
        )
        shown = set()
        for row in found:
            lines.append(f"    {row.test}: {row.what}{f' ({row.note})' if row.note else ''}")
            lines += [f"        {line}" for line in excerpt(row, shown, arguments.lines)]
        lines += [f"    slow: {test}: {before:.1f} -> {after:.1f} s" for test, before, after in slow_tests(plain, fast)]
    return "\n".join(lines), wrong


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("suites", nargs="*", help=f"of {', '.join(suite.name for suite in SUITES)}; all if none is given")
    parser.add_argument("--slice", action="store_true", help="a part of each, in default mode, in a minute or two")
    parser.add_argument("--ways", type=lambda text: text.split(","), help="of default,wait; both if not given")
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="one test, by its id")
    parser.add_argument("--limit", type=float, default=2400, help="seconds for one suite in one way")
    parser.add_argument("--patience", type=float, default=240, help="seconds after which a test hangs")
    parser.add_argument("--jobs", type=int, default=2, help="suites at once")
    parser.add_argument("--lines", type=int, default=10, help="lines of each failure that are printed")
    parser.add_argument("--keep", type=Path, default=harness.ROOT / "build" / "upstream", help="where plain runs are kept")
    parser.add_argument("--enable", type=json.loads, default={}, help="JSON: more arguments of dynoc.enable()")
    parser.add_argument("--option", type=json.loads, default={}, help="JSON: settings of dynoc.config")
    parser.add_argument("--pytest", action="append", default=[], help="one more argument for pytest")
    return parser.parse_args()


def main():
    arguments = parse()
    arguments.command = command
    arguments.ways = arguments.ways or (["default"] if arguments.slice else list(WAYS))
    wanted = [suite for suite in SUITES if not arguments.suites or suite.name in arguments.suites]
    missing = [suite.name for suite in wanted if suite.root() is None]
    if missing:
        print(f"not installed, left out: {', '.join(missing)}", flush=True)
    wrong = 0
    present = [suite for suite in wanted if suite.name not in missing]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for text, more in pool.map(lambda suite: compare(suite, arguments), present):
            print(text, flush=True)
            wrong += more
    print(f"{len(present)} suites: {wrong or 'nothing'} wrong", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
