"""Building the package: what is in an sdist and a wheel, what a build says, and what it refuses."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.any_interpreter
ROOT = Path(__file__).resolve().parents[2]
PARTS = ("setup.py", "setup.cfg", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md")


@pytest.fixture
def tree(tmp_path):
    """A copy of the sources, without tests."""
    for folder in ("src", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in PARTS:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def setup(folder, *words, **environment):
    pytest.importorskip("setuptools")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("DYNOC_", "PYTHONPATH"))}
    command = [sys.executable, "setup.py", *words]
    return subprocess.run(command, cwd=folder, env={**env, **environment}, capture_output=True, text=True, timeout=300)


def forget_interpreters(folder):
    """Sources of a time when nobody knew the interpreter that runs this."""
    path = folder / "src" / "dynoc" / "_python.py"
    text, n = re.subn(r"KNOWN = \(.*\)  #", "KNOWN = ((3, 1), (3, 2))  #", path.read_text())
    assert n == 1
    path.write_text(text)


def test_an_sdist_has_all_that_is_compiled(tree):
    done = setup(tree, "-q", "sdist", "--formats=gztar", "-d", "out")
    assert done.returncode == 0, done.stderr
    (path,) = (tree / "out").glob("*.tar.gz")
    with tarfile.open(path) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    sources = {str(p.relative_to(tree)) for p in (tree / "src").rglob("*") if p.is_file() and "egg-info" not in str(p)}
    assert "src/codegen/build/build.h" in sources and sources | set(PARTS) <= names
    assert {str(p.relative_to(tree)) for p in (tree / "docs").rglob("*.md")} <= names


def test_an_sdist_builds_from_itself_where_there_is_no_extension(tree):
    forget_interpreters(tree)
    assert setup(tree, "-q", "sdist", "--formats=gztar", "-d", "out").returncode == 0
    (path,) = (tree / "out").glob("*.tar.gz")
    with tarfile.open(path) as packed:
        packed.extractall(tree / "unpacked", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (folder,) = (tree / "unpacked").iterdir()
    done = setup(folder, "bdist_wheel", "-d", str(tree / "wheels"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("dynoc: functions run as plain Python on") == 1
    (wheel,) = (tree / "wheels").glob("*.whl")
    assert f"cp{sys.version_info[0]}{sys.version_info[1]}" in wheel.name  # another interpreter may have the extension
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        packed.extractall(tree / "installed")
    assert not [name for name in names if name.endswith((".so", ".c", ".h"))]
    wanted = ("settings.def", "logs.def", "py.typed", "_dynoc.pyi", "polyfills/again.py")
    assert {f"dynoc/{name}" for name in wanted} <= set(names)
    text = "import dynoc; print(dynoc.optimize(lambda x: x + 1)(2), dynoc.__file__)"
    env = {**os.environ, "PYTHONPATH": str(tree / "installed")}
    done = subprocess.run([sys.executable, "-c", text], cwd=tree, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"3 {tree}/installed/dynoc/__init__.py\n" and "run as plain Python" in done.stderr


@pytest.mark.parametrize("gone", ["setup.cfg", "src/dynoc", "src/base", "README.md"])
def test_sources_that_are_not_complete_are_refused(tree, gone):
    shutil.rmtree(tree / gone) if (tree / gone).is_dir() else (tree / gone).unlink()
    done = setup(tree, "-q", "bdist_wheel")
    assert done.returncode == 1 and "not complete" in done.stderr and gone in done.stderr and "Traceback" not in done.stderr
    assert not (tree / "dist").exists()


TIER = """
static inline double dyn_double(double a) { return a + a; }
static void lanes_0(const Args *args) {
    args->out[0] = dyn_double(1);
}
static void columns_1(const Args *args) {
    args->out[0] = 2;
}
static void lanes_1(const Args *args) {
    args->out[0] = 3;
}
static void lanes_2(const Args *args) {
    args->out[0] = 4;
}
__attribute__((visibility("default"))) const struct {
    Function *kernels[4];
} dyn_kernels = {{lanes_0, columns_1, lanes_1, lanes_2}};
"""
USER = """
#include "types.h"
#include <stdio.h>
extern const struct { Function *kernels[4]; } dyn_kernels;
int main(void) {
    double out = 0;
    for (int i = 0; i < 4; i++) {
        dyn_kernels.kernels[i](&(Args){&out});
        printf("%g ", out);
    }
}
"""
TYPES = "typedef struct Args { double *out; } Args;\ntypedef void Function(const Args *args);\n"


def test_parts_of_the_tier_are_linked_to_one_object(tmp_path):
    cc = shutil.which("gcc") or shutil.which("cc")
    if cc is None:
        pytest.skip("no C compiler")
    pytest.importorskip("setuptools")
    import runpy

    parts = runpy.run_path(str(ROOT / "setup.py"), run_name="setup")["parts_of_tier"](TYPES + TIER)
    assert 2 < len(parts) and sum(part.count("args->out[0] = ") for part in parts) == 4
    (tmp_path / "types.h").write_text(TYPES)
    (tmp_path / "user.c").write_text(USER)
    for i, part in enumerate(parts):
        (tmp_path / f"part_{i}.c").write_text(part)
    subprocess.run([cc, "-o", "user", "user.c", *(f"part_{i}.c" for i in range(len(parts)))], cwd=tmp_path, check=True)
    assert subprocess.run(["./user"], cwd=tmp_path, capture_output=True, text=True).stdout == "2 2 3 4 "


def test_a_build_says_how_far_it_is(monkeypatch):
    pytest.importorskip("setuptools")
    import runpy

    progress = runpy.run_path(str(ROOT / "setup.py"), run_name="setup")["Progress"]
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    said = []
    shown = progress(said.append, "compiling", 3)
    for _ in range(3):
        shown.count()
    assert "compiling: 3 files" in said[0] and said[1:] == [f"compiling: {i} of 3" for i in (1, 2, 3)]
    progress(said.append, "nothing", 0)
    assert len(said) == 4


@pytest.mark.parametrize("portable", [False, True])
def test_the_built_in_tier_is_for_this_machine_or_for_all(portable):
    pytest.importorskip("setuptools")
    import runpy

    from dynoc import _dynoc

    program = runpy.run_path(str(ROOT / "setup.py"), run_name="setup")["SOURCE_OF_TIER"]
    command = [sys.executable, "-c", program, _dynoc.__file__, *["--portable"] * portable]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    named = [line.split()[0] for line in written.split("\n\n", 1)[0].splitlines()]
    levels = [name for name, _ in _dynoc._builtin_source()[1]]
    assert named == (levels if portable else [_dynoc.build_info()["isa"]])
    assert set(named) <= set(levels)
