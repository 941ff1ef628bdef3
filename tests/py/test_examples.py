"""The examples at small sizes: the same results both ways, and their programs run."""

import importlib
import os
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from compare import check, dynoc
from process import run_python

EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "examples")
sys.path.insert(0, os.path.abspath(EXAMPLES))
run_all = importlib.import_module("run_all")


@pytest.mark.parametrize("name", run_all.EXAMPLES)
def test_example(name):
    module = importlib.import_module(name)
    fast = dynoc.optimize(module.FUNCTION, wait=True)
    for turn in range(3):
        check(
            module.FUNCTION,
            fast,
            lambda: module.make_inputs(small=True),
            "bits" if module.EXACT else "near",
            what=f"turn {turn}",
        )


@pytest.mark.parametrize("name", run_all.EXAMPLES)
def test_example_is_one_graph(name):
    module = importlib.import_module(name)
    fast = dynoc.optimize(module.FUNCTION, wait=True, fullgraph=True)
    fast(*module.make_inputs(small=True))
    fast(*module.make_inputs(small=True))
    assert [entry.tier for entry in fast.entries] == ["native"]
    assert fast.entries[0].hits == 1


def test_demo(capsys):
    assert run_all.main(["--small"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in run_all.EXAMPLES)


def test_demo_notices_a_wrong_result(monkeypatch, capsys):
    def wrong(fn, **_):
        return lambda *args: fn(*[a + 1 for a in args])

    monkeypatch.setattr(dynoc, "optimize", wrong)
    monkeypatch.setattr(run_all, "EXAMPLES", ("cosine_sine",))
    assert run_all.main(["--small"]) == 1
    assert "DIFFERENT" in capsys.readouterr().out


def test_whole_program_with_and_without():
    program = os.path.join(EXAMPLES, "nbody.py")
    plain, fast = run_python([program, "5"]), run_python(["-m", "dynoc", program, "5"])
    assert plain[0] == 0, plain[2]
    assert fast[0] == 0, fast[2]
    assert fast[1] == plain[1]


def test_lltm():
    """Compares results and gradients itself."""
    pytest.importorskip("torch")
    code, out, err = run_python([os.path.join(EXAMPLES, "lltm", "run.py"), "--no-build", "--seconds", "0.05"], timeout=120)
    assert code == 0, err
    assert "all agree" in out and "dynoc" in out


def test_training_digits(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    training, file = importlib.import_module("training"), tmp_path / "digits.csv"
    np.savetxt(file, np.random.default_rng(0).integers(0, 10, (200, 65)), fmt="%d", delimiter=",")
    assert training.main(["digits", "--data", str(file), "--steps", "7", "--wait"]) == 0
    assert "both learn the same" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(SystemExit, match="pip install scikit-learn"):
        training.main(["digits"])


def test_training_language(tmp_path, capsys):
    pytest.importorskip("torch")
    training, curves = importlib.import_module("training"), tmp_path / "curves.svg"
    assert training.main(["language", "--steps", "5", "--picture", str(curves)]) == 0
    assert "both learn the same" in capsys.readouterr().out
    lines = ElementTree.parse(curves).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.get("points").split()) for line in lines] == [5, 5]
