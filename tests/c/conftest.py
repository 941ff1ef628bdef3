"""Builds tests/c/*.c with the rooms they try out, without the extension."""

import importlib.util
import pathlib
import shutil
import subprocess
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def minirec(tmp_path_factory):
    """The module made of minirec.c and the rooms below the recorder."""
    target = tmp_path_factory.mktemp("minirec") / "minirec.so"
    sources = [ROOT / "tests/c/minirec.c", ROOT / "src/base/base.c"]
    sources += sorted((ROOT / "src/base").glob("cpy*.c")) + sorted((ROOT / "src/tracer/bytecode").glob("*.c"))
    command = [sysconfig.get_config_var("CC").split()[0], "-std=c11", "-O1", "-g", "-fPIC", "-shared"]
    command += ["-I", ROOT / "src", "-I", sysconfig.get_path("include"), *sources, "-o", target, "-lm"]
    subprocess.run(command, check=True)
    return load(target)


@pytest.fixture(scope="session")
def other(minirec, tmp_path_factory):
    """A second copy of minirec, with a hook of its own."""
    target = tmp_path_factory.mktemp("other") / "minirec.so"
    shutil.copy(minirec.__file__, target)
    return load(target)


def load(path):
    spec = importlib.util.spec_from_file_location("minirec", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
