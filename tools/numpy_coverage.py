"""What becomes of each public name of NumPy: docs/numpy_coverage.md, made by recording a sample call of each.

    tools/numpy_coverage.py [--check | --names | --show NAME]       as api_coverage.py has it

Needs the built extension on the path. The samples are in numpy_samples.py; a public name without one is an error, so a new NumPy
is noticed. Run by tests/py/test_numpy_coverage.py.
"""

import logging
import sys
import tempfile
from pathlib import Path

import api_coverage
import numpy as np
from numpy_samples import SAMPLES

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "numpy_coverage.md"
REFUSED = {"__delitem__", "__hash__"}  # there to raise
ARGUMENTS = "x y m n i j b c u s d t nan f k g folder"


def public(module):
    return {name for name in [*dir(module), *getattr(module, "__all__", [])] if not name.startswith("_")}


def public_names():
    """Section titles that are whole name spaces, and the names they have to have; None: what is left of numpy's own."""
    own = {"__version__", "__array_namespace_info__"} | public(np)
    dunder = {name for name in vars(np.ndarray) if name.startswith("__")} - REFUSED
    return {
        "Methods of universal functions": public(np.ufunc),
        "Methods and properties of ndarray": public(np.ndarray),
        "Operators and protocols of ndarray": dunder,
        "numpy.lib.stride_tricks": public(np.lib.stride_tricks),
        "numpy.linalg": public(np.linalg),
        "numpy.fft": public(np.fft),
        "numpy.random.Generator": public(np.random.Generator),
        "numpy.polynomial": public(np.polynomial),
        None: own,
    }


def missing_names():
    """Public names that have no sample."""
    spaces = public_names()
    shared = {name for title, samples in SAMPLES.items() if title not in spaces for name in samples}
    return sorted(
        f"{title or 'numpy'}: {name}"
        for title, names in spaces.items()
        for name in names - (shared if title is None else SAMPLES[title].keys())
    )


def make_arguments(folder):
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=12), np.sort(rng.normal(size=12))
    a, b = rng.normal(size=(2, 4, 4))
    return {
        "x": x,
        "y": y,
        "m": a @ a.T + np.eye(4),
        "n": b @ b.T + np.eye(4),
        "i": rng.integers(0, 6, 12),
        "j": rng.integers(1, 6, 12),
        "b": x > 0,
        "c": x + 1j * y,
        "u": np.arange(12, dtype=np.uint8),
        "s": np.array(["ab", "c", "de"]),
        "d": np.array(["2020-01-01", "2020-01-02", "2021-01-01"], dtype="datetime64[D]"),
        "t": rng.normal(size=(3, 4, 5)),
        "nan": np.where(x > 1, np.nan, x),
        "f": 2.5,
        "k": 2,
        "g": np.random.default_rng(5),
        "folder": folder,
    }


def prepare(folder):
    np.arange(5.0).tofile(folder + "/x.raw")
    np.save(folder + "/x.npy", np.arange(5.0))
    Path(folder, "x.txt").write_text("1\n2\n3\n")


def source_of(sample):
    """The function that is recorded: array work before the sample, so that a break in it has something to break."""
    statements = sample if "r = " in sample else f"r = {sample}"
    first, _, second = statements.partition("; ")
    lines = [f"def sample({', '.join(ARGUMENTS.split())}):", "    before = x * 2.0", f"    {first}"]
    lines += [f"    {second}"] if second else []
    return "\n".join([*lines, "    return before, r", ""])


def classify(sample, folder, reasons):
    space = {"np": np}
    exec(compile(source_of(sample), "<sample>", "exec"), space)
    prepare(folder)
    return api_coverage.classify(space["sample"], make_arguments(folder).values(), reasons)


def classify_all():
    """{section: {name: (word, reason)}} of the names that this NumPy has."""
    reasons = api_coverage.Reasons().listen()
    logging.getLogger("dynoc.graph_breaks").propagate = False
    spaces = public_names()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for title, samples in SAMPLES.items():
            names = spaces.get(title, spaces[None])
            found[title] = {name: classify(samples[name], folder, reasons) for name in sorted(samples.keys() & names)}
    return found


def report():
    made_with = ".".join(np.__version__.split(".")[:2])
    introduction = (
        f"Made by tools/numpy_coverage.py with NumPy {made_with}: one sample call of each of the {{count}} names was recorded "
        "(tools/numpy_samples.py). Other arguments of the same function may fare otherwise: a dtype, `axis` or `out=` that has "
        "no rule is a break."
    )
    title = "What becomes of each public name of NumPy"
    return api_coverage.document(title, introduction, api_coverage.words("NumPy"), classify_all())


def show(name):
    reasons = api_coverage.Reasons().listen(graph=True)
    with tempfile.TemporaryDirectory() as folder:
        for title, samples in SAMPLES.items():
            if name in samples:
                print(f"{title}\n{source_of(samples[name])}")
                print(*classify(samples[name], folder, reasons))


if __name__ == "__main__":
    api_coverage.same_order_of_sets()
    sys.exit(api_coverage.main(sys.argv[1:], DOCUMENT, missing_names, report, show))
