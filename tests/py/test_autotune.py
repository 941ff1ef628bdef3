"""mode="max-autotune": ways to compile the same kernels take turns in the first calls, with the same bits; the best is kept."""

import logging
import warnings

import numpy as np
import pytest
from compare import dynoc

pytestmark = pytest.mark.any_interpreter

WAYS, TRIALS = 3, 8


def work(x, w):
    y = np.exp(x * w) + np.maximum(x, 0.5)
    return y / y.sum(axis=1, keepdims=True), (x > w).sum(axis=0), y.var()


def arguments(n, m):
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, m)), rng.standard_normal(m)


def bits(fn, *args):
    return [np.asarray(a).tobytes() for a in fn(*args)]


@pytest.fixture
def said(caplog):
    dynoc.set_logs(perf=True)
    caplog.set_level(logging.DEBUG, "dynoc")
    yield lambda: [line.split("autotune: ")[1] for line in caplog.text.splitlines() if "autotune: " in line]
    dynoc.set_logs()


def tuned(folder, **more):
    return dynoc.optimize(lambda x, w: work(x, w), mode="max-autotune", wait=True, options={"cache_dir": str(folder), **more})


@pytest.fixture
def folder(tmp_path):
    kept, dynoc.config.cache_dir = dynoc.config.cache_dir, str(tmp_path / "cache")
    yield tmp_path / "cache"
    dynoc.config.cache_dir = kept


def recorded(fast, args):
    """The call that records, and all ways compiled."""
    fast(*args)
    dynoc.wait()


def tried(fast, args):
    """Calls until one way is taken."""
    recorded(fast, args)
    for _ in range(WAYS * TRIALS):
        fast(*args)


def ways_in(folder):
    return sorted(folder.glob("*.way"))


def test_ways_take_turns_and_one_is_kept(folder, said):
    fast, usual, args = tuned(folder), dynoc.optimize(work, wait=True), arguments(37, 53)
    fast(*args), usual(*args)  # a call that records gives NumPy's bits
    wanted = bits(usual, *args)
    dynoc.wait()
    assert not ways_in(folder)
    for _ in range(WAYS * TRIALS):
        assert bits(fast, *args) == wanted
    assert [entry.tier for entry in fast.entries] == ["native"]
    (line,) = said()
    assert line.startswith("as usual ") and "vectors of 256 bits" in line and "loops unrolled" in line and "; taken: " in line
    (kept,) = ways_in(folder)
    assert kept.read_text().strip() in set("012")
    for n, m in [(0, 3), (1, 1), (5, 64), (200, 31)]:
        args = arguments(n, m)
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            assert bits(fast, *args) == bits(usual, *args)


@pytest.mark.parametrize("way", range(WAYS))
def test_what_was_found_is_compiled_alone(folder, said, way):
    args = arguments(20, 30)
    first = tuned(folder)
    recorded(first, args)
    for _ in range(WAYS * TRIALS):
        wanted = bits(first, *args)
    (kept,) = ways_in(folder)
    kept.write_text(f"{way}\n")
    again = tuned(folder)
    again(*args)
    for _ in range(3):
        assert bits(again, *args) == wanted
    assert said()[-1].endswith(", as found before") and len(said()) == 2


def test_all_ways_have_the_same_bits(folder, said):
    """Calls of vector functions, complex products, halves, narrow integers, sums: a narrower vector rounds nothing otherwise."""

    def mixed(x, s, h, z, k):
        y = np.tanh(x) + np.sin(s * 3.0) * np.log1p(np.abs(x)) + np.power(np.abs(x), 1.7)
        halves = np.maximum(h * h + h, np.float16(0.25))
        return y, y.sum(axis=0), np.prod(z * z + 1j, axis=1), halves, k * k - (k >> 2), np.arctan2(s, x), s.mean(), halves.sum()

    x, w = arguments(45, 29)
    args = x, x.astype(np.float32), x.astype(np.float16), x + 1j * w, (x * 50).astype(np.int8)
    found = []
    for way in range(WAYS):
        fast = dynoc.optimize(lambda *args: mixed(*args), mode="max-autotune", wait=True)
        fast(*args)
        dynoc.wait()
        if way == 0:
            for _ in range(WAYS * TRIALS):
                fast(*args)
        found.append([bits(fast, *args) for _ in range(2)])
        (kept,) = ways_in(folder)
        kept.write_text(f"{(way + 1) % WAYS}\n")
    assert len(said()) == WAYS
    assert all(bits_of_call == found[0][0] for calls in found for bits_of_call in calls)


@pytest.mark.parametrize("text", ["", "9\n", "x", "1\n\n"[:1], "\x00\x00"])
def test_a_damaged_choice_is_none(folder, said, text):
    args = arguments(4, 5)
    tried(tuned(folder), args)
    (kept,) = ways_in(folder)
    kept.write_text(text)
    tried(tuned(folder), args)
    assert len(said()) == 2 and "taken: " in said()[1] and kept.read_text().strip() in set("012")


def test_calls_of_other_sizes_are_not_compared(folder, said):
    fast = tuned(folder)
    fast(*arguments(8, 9))
    dynoc.wait()
    for turn in range(WAYS * TRIALS - 1):
        fast(*arguments(8, 9))
        fast(*arguments(9 + turn % 5, 9))
    assert not said()
    fast(*arguments(8, 9))
    assert len(said()) == 1


def test_no_folder_for_the_choice(tmp_path, said):
    blocked = tmp_path / "file"
    blocked.write_text("")
    kept, dynoc.config.cache_dir = dynoc.config.cache_dir, str(blocked / "cache")
    try:
        fast, args = tuned(blocked / "cache"), arguments(6, 7)
        fast(*args)
        dynoc.wait()
        wanted = bits(fast, *args)
        for _ in range(WAYS * TRIALS):
            assert bits(fast, *args) == wanted
    finally:
        dynoc.config.cache_dir = kept
    assert len(said()) == 1


def test_other_modes_do_not_try(folder, said):
    for mode in (None, "default", "reduce-overhead"):
        fast = dynoc.optimize(work, mode=mode, wait=True)
        for _ in range(WAYS * TRIALS + 2):
            fast(*arguments(3, 4))
    assert not said() and not ways_in(folder)
