"""The suite of bench/: every kernel gives NumPy's result in one graph, and what is printed and drawn is reckoned right.

Nothing is timed here; the processes and the peers' forms are tried as far as they are installed.
"""

import importlib
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from compare import check, dynoc

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import forms  # noqa: E402
import kernels  # noqa: E402
import memory  # noqa: E402
import plot  # noqa: E402
import suite  # noqa: E402
import table  # noqa: E402
from work import black_scholes  # noqa: E402

pytestmark = pytest.mark.any_interpreter

NAMES = [kernel.name for kernel in kernels.KERNELS]
EXACT = {"bool mask logic", "int8 chain", "histogram"}  # no rounding: every bit


@pytest.mark.parametrize("name", NAMES)
def test_kernel(name):
    kernel = kernels.named(name)
    fast = dynoc.optimize(kernel.fn, wait=True, fullgraph=True)
    for n in (10, 1000, 10):
        check(kernel.fn, fast, lambda n=n: kernel.make(n), "bits" if name in EXACT else "near", what=f"n={n}")
    assert {entry.tier for entry in fast.entries} == {"native"}


@pytest.mark.parametrize("name", NAMES)
def test_sizes_of_the_arguments(name):
    kernel = kernels.named(name)
    elements = [sum(a.size for a in kernels.arrays_of(kernel.make(n))) for n in (10, 1000, 100_000)]
    assert elements == sorted(elements)
    assert elements[0] < 20_000
    assert 100_000**0.5 <= elements[2] <= 5 * 100_000


def test_names_are_different():
    assert len(set(NAMES)) == len(set(map(plot.file_name, NAMES))) == len(NAMES)


def test_wrong_results_are_noticed():
    kernel = kernels.named("add")
    right = kernel.fn(*kernel.make(100))
    assert kernels.wrong(kernel, right, right.copy()) is None
    assert kernels.wrong(kernel, right, right * (1 + 1e-12)) is None
    assert kernels.wrong(kernel, right, right + np.eye(10)) == "10.00% of the elements differ"
    assert kernels.wrong(kernel, right, np.where(right > 1, np.nan, right)) is not None
    assert kernels.wrong(kernel, right, right.astype(np.float32)) == "float32, not float64"
    assert kernels.wrong(kernel, right, right[1:]) == "float64(9, 10), not float64(10, 10)"
    assert kernels.wrong(kernel, right, (right, right)) == "2 arrays, not 1"


@pytest.mark.parametrize("name", ["numba", "numexpr"])
def test_forms_of_a_peer(name):
    """Named as kernels are; those of numexpr, which compiles nothing, are tried."""
    pytest.importorskip(name)
    peer = importlib.import_module(f"peer_{name}")
    assert set(peer.FORMS) <= set(NAMES)
    for kernel in map(kernels.named, peer.FORMS) if name == "numexpr" else ():
        args = kernel.make(1000)
        assert kernels.wrong(kernel, kernel.fn(*args), peer.form(kernel).call(*args)) is None


def test_rebuilt_functions_use_the_other_module():
    class Counting:
        calls = 0

        def __getattr__(self, name):
            Counting.calls += 1
            return getattr(np, name)

    args = kernels.named("Black-Scholes").make(20)
    result = forms.rebuilt(black_scholes, Counting())(*args)
    assert Counting.calls == 9  # sqrt, log, exp, and in each of two calls of normal_cdf abs, exp, where
    assert all(np.array_equal(a, b) for a, b in zip(result, black_scholes(*args)))


def test_peak_of_memory():
    assert 15.9e6 <= memory.peak_of(lambda: np.ones(2_000_000)) <= 24e6  # some pages of what was there may go meanwhile


# ---- the table


def made_up(name="add", **seconds):
    seconds = {"numpy": 4e-3, "dynoc": 1e-3, "numba": 1.5e-3, "jax": 0.8e-3, "copy": 0.9e-3} | seconds
    return {
        "kernel": name,
        "size": 1000,
        "seconds": {peer: value for peer, value in seconds.items() if value},
        "unable": {"numexpr": "not an expression of elements"},
        "notes": {"dynoc": "calls matmul"},
        "memory": {"numpy": 8_000_000, "dynoc": 8_500_000},
        "moved": 24_000_000,
    }


def test_ratios():
    row = made_up()
    assert table.ratio(row, "numpy") == 4.0
    assert table.ratio(row, "torch") is None
    assert table.best_peer(row) == ("jax", 0.8)
    assert table.of_copy(row) == pytest.approx(0.9)
    assert not table.more_memory(row)
    alone = made_up(numba=None, jax=None, copy=None)
    assert table.best_peer(alone) is None
    assert table.of_copy(alone) is None


def test_line_of_the_table():
    peers = ["numpy", "dynoc", "numba", "numexpr", "jax"]
    words = table.line(made_up(), peers).split()
    assert words[:11] == ["add", "4", "ms", "1", "ms", "4.00", "1.50", "–", "0.80", "jax", "90%"]
    assert table.line(made_up(), peers).endswith("calls matmul; BEHIND")
    died = made_up(dynoc=None)
    died["unable"]["dynoc"] = "the process died"
    assert table.line(died, peers).endswith("dynoc: the process died")


def test_summary():
    greedy = made_up("gather", jax=None, copy=2e-4)
    greedy["memory"]["dynoc"] = 16_000_000
    text = table.summary([made_up(), greedy])
    assert "Against NumPy: geometric mean 4.00" in text
    assert f"geometric mean {(0.8 * 1.5) ** 0.5:.2f} (aim 1.3)" in text
    assert "Under 0.9 of the best peer: add (0.80 of jax)." in text
    assert "under 85% of a copy's bandwidth: gather (20%)." in text
    assert "at the peak than eager: gather." in text
    assert "Without numexpr, not an expression of elements: add, gather." in text
    assert "Under 0.9 of the best peer: none." in table.summary([])


def test_readme_has_the_table_between_its_markers():
    first, last = table.MARKERS
    readme = Path(suite.HERE, "README.md").read_text()
    assert readme.count(first) == readme.count(last) == 1
    text = table.markdown([made_up()], ["numpy", "dynoc", "jax"], {"cpu": "a"})
    once = table.between_markers(readme, text)
    assert text in once
    assert table.between_markers(once, text) == once
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1


# ---- pictures


def test_durations():
    assert [plot.duration(power) for power in (2, 0, -1, -4, -6, -8, -9, -10)] == [
        "100 s", "1 s", "100 ms", "100 µs", "1 µs", "10 ns", "1 ns", "1e-10 s"
    ]  # fmt: skip


def test_picture():
    series = {"numpy": [(10, 1e-6), (1000, 1e-4)], "dynoc": [(10, 2e-7), (1000, 1e-6)], "jax": [(10, 2e-5)]}
    picture = plot.svg("a < b", series)
    root = ElementTree.fromstring(picture)
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    points = {line.get("stroke"): line.get("points") for line in lines}
    across, up = plot.Axis([10, 1000], 70, 530), plot.Axis([2e-7, 1e-4], 350, 40)
    assert points[plot.COLOURS["numpy"]] == f"70.0,{up.at(1e-6)} 530.0,40.0"
    assert points[plot.COLOURS["jax"]] == f"{across.at(10)},{up.at(2e-5)}"
    assert len(points) == 3
    assert picture == plot.svg("a < b", series)


def test_places_on_an_axis():
    axis = plot.Axis([10, 1000], 100, 300)
    assert [axis.at(v) for v in (10, 100, 1000)] == [100, 200, 300]
    assert list(axis.ticks()) == [1, 2, 3]
    assert plot.decades([5.0]) == (0, 1)
    assert plot.decades([10.0]) == (1, 2)


# ---- processes


def test_suite_in_processes(capsys, monkeypatch):
    """The whole way, without a peer: two kernels' rows, with what a copy takes and the memory."""
    monkeypatch.setattr(suite, "LIMIT", 60)
    suite.main(["--quick", "--only", "Monte", "--only", "batched", "--peers", "absent"])
    out = capsys.readouterr().out
    monte = next(line for line in out.splitlines() if line.startswith("Monte Carlo pi"))
    assert "%" in monte
    assert re.search(r"\d / \d", monte)
    assert "calls matmul" in out
    assert "Against NumPy: geometric mean" in out


def test_a_worker_that_dies_is_started_again(tmp_path):
    options = suite.options_of(["--quick"])
    process = suite.Process("numpy", options, suite.environment(options, str(tmp_path)))
    try:
        assert process.ask(do="prepare", kernel="add", size=10) == {"note": ""}
        process.worker.kill()
        process.worker.wait()
        assert process.ask(do="prepare", kernel="add", size=10) == {"unable": "the process died"}
        assert process.ask(do="prepare", kernel="add", size=10) == {"note": ""}
        assert "unable" in process.ask(do="prepare", kernel="no such", size=10)
        assert process.ask(do="time", seconds=0.001)["least"] > 0
    finally:
        process.end()
    absent = suite.Process("absent", options, suite.environment(options, str(tmp_path)))
    assert absent.ask(do="time") == {"unable": "No module named 'peer_absent'"}
    absent.end()
