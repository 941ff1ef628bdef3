"""dynoc.config: attributes, environment, pyproject.toml, which beats which, and what is said about mistakes."""

import importlib.util
import inspect
import pickle

import numpy as np
import pytest
from compare import dynoc
from process import output_of, run_script

SHOW = "import dynoc; print(dynoc.config.wait, dynoc.config.cache_limit, dynoc.config.cflags)"


@pytest.fixture(autouse=True)
def restored():
    before = {name: getattr(dynoc.config, name) for name in dynoc._config.NAMES}
    yield
    for name, value in before.items():
        setattr(dynoc.config, name, value)


def test_defaults_are_those_of_the_table():
    text = """
        import dynoc
        print(all(getattr(dynoc.config, name) == row[1] for name, row in dynoc._config.NAMES.items()))
    """
    assert output_of(text, DYNOC_CACHE_DIR=None, DYNOC_RETIRE=None, DYNOC_CFLAGS=None) == "True"


def test_set_and_read():
    dynoc.config.cache_limit = 17
    dynoc.config.fast_math = True
    dynoc.config.cflags = "-funroll-loops"
    assert (dynoc.config.cache_limit, dynoc.config.fast_math, dynoc.config.cflags) == (17, True, "-funroll-loops")


def test_paths_are_taken(tmp_path):
    dynoc.config.cache_dir = tmp_path
    assert dynoc.config.cache_dir == str(tmp_path)


@pytest.mark.parametrize(
    "name, value, valid",
    [
        ("cache_limit", 0, "integers from 1 to 4096"),
        ("cache_limit", 4097, "integers from 1 to 4096"),
        ("cache_limit", 2**100, "integers from 1 to 4096"),
        ("cache_limit", True, "integers from 1 to 4096"),
        ("cache_limit", 8.0, "integers from 1 to 4096"),
        ("cache_limit", "8", "integers from 1 to 4096"),
        ("wait", 1, "True and False"),
        ("wait", None, "True and False"),
        ("cflags", 3, "strings"),
        ("cflags", "a\0b", "strings without NUL"),
        ("logs", "guards,nonsense", "all, help, guards"),
    ],
)
def test_bad_value(name, value, valid):
    before = getattr(dynoc.config, name)
    with pytest.raises(dynoc.ConfigError, match=f"(?s)config.{name}.*{valid}"):
        setattr(dynoc.config, name, value)
    assert getattr(dynoc.config, name) == before


def test_options_count_while_recording():
    def fn(x):
        for _ in range(4):
            x = x + 1
        return x

    short = dynoc.optimize(fn, wait=True, options={"record_limit": 16})
    assert short(np.ones(3)).tolist() == [5.0] * 3
    assert dynoc.counters["graph_breaks"]["BUDGET"] > 0
    assert dynoc.optimize(fn, wait=True, fullgraph=True)(np.ones(3)).tolist() == [5.0] * 3


def test_unknown_name():
    with pytest.raises(dynoc.ConfigError, match="no setting 'cash_limit'.*cache_limit"):
        dynoc.config.cash_limit = 3
    with pytest.raises(dynoc.ConfigError, match="no setting 'cash_limit'.*cache_limit"):
        dynoc.config.cash_limit  # noqa: B018


def test_repr_and_dir_show_every_setting():
    text = repr(dynoc.config)
    for name in dynoc._config.NAMES:
        assert f"{name} = " in text
        assert name in dir(dynoc.config)


@pytest.mark.parametrize(
    "variable, text, name, value",
    [
        ("DYNOC_WAIT", "1", "wait", True),
        ("DYNOC_WAIT", "Yes", "wait", True),
        ("DYNOC_WAIT", "off", "wait", False),
        ("DYNOC_WAIT", "", "wait", False),
        ("DYNOC_CACHE_LIMIT", "33", "cache_limit", 33),
        ("DYNOC_FORCE_BAIL", "-1", "force_bail", -1),
        ("DYNOC_FORCE_BREAK", "7", "force_break", 7),
        ("DYNOC_CFLAGS", "-g -O3", "cflags", "-g -O3"),
        ("DYNOC_BUILD_DEBUG", "1", "wait", False),
    ],
)
def test_environment(variable, text, name, value):
    assert output_of(f"import dynoc; print(repr(dynoc.config.{name}))", **{variable: text}) == repr(value)


@pytest.mark.parametrize(
    "variable, text, said",
    [
        ("DYNOC_WAIT", "perhaps", "1, true, yes, on and 0, false, no, off"),
        ("DYNOC_CACHE_LIMIT", "0", "integers from 1 to 4096"),
        ("DYNOC_CACHE_LIMIT", "eight", "integers from 1 to 4096"),
        ("DYNOC_LOGS", "gards", "guards, recompiles"),
        ("DYNOC_CASH_LIMIT", "3", "cache_dir, cache_limit"),
    ],
)
def test_wrong_environment_is_one_clear_error(variable, text, said):
    code, _, err = run_script("import dynoc", **{variable: text})
    last = err.strip().splitlines()[-1]
    assert code == 1
    assert last.startswith("dynoc.ConfigError: ") and variable in last and said in last


def run_in(folder, text, **environment):
    unset = dict.fromkeys(("DYNOC_WAIT", "DYNOC_CACHE_LIMIT", "DYNOC_CFLAGS"))
    return run_script(f"import os; os.chdir({str(folder)!r})\n{text}", **{**unset, **environment})


def test_pyproject_of_the_nearest_folder(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.dynoc]\nwait = true\ncache_limit = 21\ncflags = '-g'\n")
    assert run_in(inner, SHOW)[1].split() == ["True", "21", "-g"]
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert run_in(inner, SHOW)[1].split() == ["False", "8"]


@pytest.mark.parametrize(
    "text", ["tool.dynoc.cache_limit = 5", "[tool]\ndynoc = {cache_limit = 5}", "[tool.dynoc]\ncache_limit=5"]
)
def test_every_way_to_write_a_table(tmp_path, text):
    (tmp_path / "pyproject.toml").write_text(text)
    assert run_in(tmp_path, "import dynoc; print(dynoc.config.cache_limit)")[1] == "5\n"


@pytest.mark.parametrize(
    "table, said",
    [
        ("cache_limit = 'eight'", "integers from 1 to 4096"),
        ("cache_limit = 0", "integers from 1 to 4096"),
        ("cash_limit = 3", "no setting 'cash_limit'"),
        ("wait = [", "pyproject.toml"),
    ],
)
def test_wrong_pyproject(tmp_path, table, said):
    (tmp_path / "pyproject.toml").write_text(f"[tool.dynoc]\n{table}\n")
    code, _, err = run_in(tmp_path, "import dynoc")
    last = err.strip().splitlines()[-1]
    assert code == 1 and last.startswith("dynoc.ConfigError: ") and said in last and "pyproject.toml" in last


def test_a_file_without_our_table_is_not_parsed(tmp_path):
    (tmp_path / "pyproject.toml").write_text("this is [ no toml, and dynoc is no tool")
    code, out, err = run_in(tmp_path, SHOW)
    assert code == 0, err
    assert out.split() == ["False", "8"]


def test_a_working_directory_that_is_gone(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    leave = f"import os, numpy; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})"
    code, _, err = run_script(f"{leave}\n{SHOW}")
    assert code == 0, err


def test_precedence(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.dynoc]\ncache_limit = 21\n")
    text = "import dynoc; print(dynoc.config.cache_limit); dynoc.config.cache_limit = 23; print(dynoc.config.cache_limit)"
    script = f"import os; os.chdir({str(tmp_path)!r})\n{text}"
    assert output_of(script, DYNOC_CACHE_LIMIT=None).split() == ["21", "23"]
    assert output_of(script, DYNOC_CACHE_LIMIT="22").split() == ["22", "23"]


def plain(x):
    return x + x


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"backend": "numba"}, "Valid back ends: dynoc, eager"),
        ({"backend": None}, "Valid back ends: dynoc, eager"),
        ({"mode": "fast"}, "'reduce-overhead', 'max-autotune'"),
        ({"fullgraph": 1}, "True and False"),
        ({"wait": "yes"}, "True and False"),
        ({"disable": 0}, "True and False"),
        ({"options": [1]}, "a dict of settings"),
        ({"options": {"cash_limit": 3}}, "cache_dir, cache_limit"),
        ({"options": {"cache_limit": 0}}, "integers from 1 to 4096"),
    ],
)
def test_wrong_arguments_of_optimize(arguments, said):
    with pytest.raises(dynoc.ConfigError, match=said):
        dynoc.optimize(plain, **arguments)
    with pytest.raises(dynoc.ConfigError, match=said):
        dynoc.optimize(**arguments)


def test_unknown_arguments_of_enable():
    with pytest.raises(dynoc.ConfigError, match="Valid arguments: backend, fullgraph"):
        dynoc.enable(full_graph=True)
    with pytest.raises(dynoc.ConfigError, match="Valid back ends"):
        dynoc.enabled(backend="numba")


def test_list_backends():
    assert dynoc.list_backends()[:2] == ["dynoc", "eager"]
    found = dynoc.list_backends(all=True)
    assert {"dynoc": None, "eager": None}.items() <= found.items()
    assert {"inductor", "cudagraphs", "onnxrt", "tensorrt", "tvm"} <= set(found)
    for name, package in (("onnxrt", "onnxruntime"), ("tvm", "tvm"), ("tensorrt", "torch_tensorrt")):
        if importlib.util.find_spec(package) is None:
            assert found[name] == f"it needs {package}, which is not installed" and name not in dynoc.list_backends()


def test_unknown_settings_are_unknown_attributes_too():
    assert not hasattr(dynoc.config, "nonsense") and getattr(dynoc.config, "nonsense", 3) == 3
    with pytest.raises(dynoc.ConfigError, match="Valid settings"):
        dynoc.config.nonsense


@pytest.mark.parametrize("name", ["logs", "trace"])
def test_what_holds_for_the_process_is_no_option_of_a_function(name):
    with pytest.raises(dynoc.ConfigError, match=f"use dynoc.config.{name}"):
        dynoc.optimize(abs, options={name: "guards"})


def test_the_arguments_of_enable_have_names():
    wanted = set(inspect.signature(dynoc.optimize).parameters) - {"fn", "disable"}
    for function in (dynoc.enable, dynoc.enabled):
        assert set(inspect.signature(function).parameters) - {"others"} == wanted


def test_is_tracing_is_a_constant_of_a_graph():
    def fn(x):
        return x + 1 if dynoc.is_tracing() else x + 2

    fast = dynoc.optimize(fn, fullgraph=True, wait=True)
    assert [fast(np.zeros(1)).item() for _ in range(3)] == [1, 1, 1]
    assert fn(np.zeros(1)).item() == 2 and fast.entries[0].hits == 2


def test_errors_have_one_base_and_pickle():
    for kind in (dynoc.Unsupported, dynoc.BackendError, dynoc.CompileError, dynoc.ConfigError, dynoc.InternalError):
        assert issubclass(kind, dynoc.Error) and kind.__module__ == "dynoc"
    error = pickle.loads(pickle.dumps(dynoc.CompileError("cc failed", "cc -O2 x.c", "x.c:1: error")))
    assert (error.command, error.output) == ("cc -O2 x.c", "x.c:1: error")
    assert str(error) == "cc failed\ncc -O2 x.c\nx.c:1: error"


def test_a_functions_own_number_of_threads_holds_for_its_runs_alone():
    """Threads of regions are there from the first that has some; each function says how many there may be in its own."""
    out = output_of(
        """
        import os
        import numpy as np
        import dynoc

        def threads():
            return len(os.listdir("/proc/self/task"))

        dynoc.config.threads = 2
        alone = dynoc.optimize(lambda x: np.sqrt(x * x + 1) - x, wait=True, options={"threads": 1})
        many = dynoc.optimize(lambda x: np.sqrt(x * x + 2) - x, wait=True)
        x = np.linspace(0.0, 1.0, 1_000_000)
        alone(x)
        before = threads()
        alone(x)
        with_one = threads() - before
        many(x)
        many(x)
        print(with_one, threads() - before)
        """,
        OPENBLAS_NUM_THREADS="1",
    )
    assert out == "0 1"
