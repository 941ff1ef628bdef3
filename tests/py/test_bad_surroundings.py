"""A machine that isn't as it should be: a bad compiler or none, a useless cache, wrong settings. Programs still run."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from process import output_of, run_script

PROGRAM = """
    import numpy as np
    import dynoc

    def f(x):
        return np.sin(x) * 2.0 + x * x

    fast = dynoc.optimize(f, wait=True)
    x = np.linspace(0.0, 1.0, 100)
    for _ in range(3):
        assert np.allclose(fast(x), f(x), rtol=1e-14)
    print(fast.entries[0].tier)
"""


def script_file(folder, text):
    path = folder / "cc"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_with_a_compiler(tmp_path):
    assert output_of(PROGRAM, DYNOC_CACHE_DIR=tmp_path) == "native"


COMPILERS = {
    "fails": "echo 'no such thing' >&2; exit 1",
    "writes garbage": 'while [ $# -gt 0 ]; do [ "$1" = -o ] && echo garbage > "$2"; shift; done',
    "writes nothing": "exit 0",
    "is killed": "kill -9 $$",
    "writes an empty file": 'while [ $# -gt 0 ]; do [ "$1" = -o ] && : > "$2"; shift; done',
}


@pytest.mark.parametrize("kind", COMPILERS)
def test_compiler_that_is_no_good(kind, tmp_path):
    compiler = script_file(tmp_path, COMPILERS[kind])
    code, out, err = run_script(PROGRAM, DYNOC_CACHE_DIR=tmp_path / "cache", DYNOC_COMPILER=compiler)
    assert code == 0, err
    assert out.strip() != "native"
    assert err.strip(), "nothing was said"


def test_compiler_that_hangs(tmp_path):
    compiler = script_file(tmp_path, "sleep 600")
    environment = {"DYNOC_CACHE_DIR": tmp_path / "cache", "DYNOC_COMPILER": compiler, "DYNOC_COMPILE_TIMEOUT": 1}
    code, out, err = run_script(PROGRAM, timeout=30, **environment)
    assert code == 0, err
    assert out.strip() != "native"


def test_no_compiler(tmp_path):
    code, out, err = run_script(PROGRAM, DYNOC_CACHE_DIR=tmp_path, DYNOC_COMPILER="/nonexistent/cc")
    assert code == 0, err
    assert out.strip() != "native"
    assert "compiler" in err
    assert len(err.strip().splitlines()) <= 3, "it should be said once"


def test_cache_folder_is_a_file(tmp_path):
    place = tmp_path / "file"
    place.write_text("in the way")
    code, _, err = run_script(PROGRAM, DYNOC_CACHE_DIR=place)
    assert code == 0, err
    assert place.read_text() == "in the way"


@pytest.mark.skipif(not os.path.exists("/dev/full") or not os.path.isdir("/proc"), reason="needs Linux")
def test_cache_folder_cannot_be_made():
    code, _, err = run_script(PROGRAM, DYNOC_CACHE_DIR="/proc/no/such/place")
    assert code == 0, err


def test_cache_folder_that_others_can_write(tmp_path):
    tmp_path.chmod(0o777)
    code, _, err = run_script(PROGRAM, DYNOC_CACHE_DIR=tmp_path)
    assert code == 0, err


def cached_files(folder):
    return [os.path.join(root, name) for root, _, names in os.walk(folder) for name in names]


SPOILT = {
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "one byte flipped": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 0xFF]) + data[len(data) // 2 + 1 :],
    "foreign": lambda data: b"\x7fELF" + bytes(5000),
    "longer": lambda data: data + b"more",
}


@pytest.mark.parametrize("kind", SPOILT)
def test_spoilt_cache_file(kind, tmp_path):
    assert output_of(PROGRAM, DYNOC_CACHE_DIR=tmp_path) == "native"
    files = cached_files(tmp_path)
    assert files
    for path in files:
        with open(path, "rb") as f:
            data = f.read()
        os.chmod(path, 0o600)
        with open(path, "wb") as f:
            f.write(SPOILT[kind](data))
    assert output_of(PROGRAM, DYNOC_CACHE_DIR=tmp_path) == "native"


def test_many_processes_share_a_cache(tmp_path):
    with ThreadPoolExecutor(6) as pool:
        outputs = list(pool.map(lambda _: output_of(PROGRAM, DYNOC_CACHE_DIR=tmp_path), range(6)))
    assert outputs == ["native"] * 6


@pytest.mark.parametrize("name, value", [("DYNOC_WAIT", "perhaps"), ("DYNOC_CACHE_LIMIT", "-3"), ("DYNOC_THREADS", "many")])
def test_wrong_setting(name, value):
    code, out, err = run_script("import dynoc; print(dynoc.config.wait)", **{name: value})
    assert code != 0 or name in err, out
    assert name in err and value in err


def test_settings_from_the_environment():
    text = "import dynoc; print(dynoc.config.wait, dynoc.config.cache_limit)"
    assert output_of(text, DYNOC_WAIT="1", DYNOC_CACHE_LIMIT="5") == "True 5"


def test_settings_from_the_project_file(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.dynoc]\ncache_limit = 3\nwait = true\n")
    text = f"import os; os.chdir({str(tmp_path)!r}); import dynoc; print(dynoc.config.wait, dynoc.config.cache_limit)"
    assert output_of(text, DYNOC_CACHE_LIMIT=None, DYNOC_WAIT=None) == "True 3"
    assert output_of(text, DYNOC_CACHE_LIMIT="6", DYNOC_WAIT=None) == "True 6"
