"""src/base from C: arena, vectors, strings, hashes, layouts, logs and counters, built here as a module of its own."""

import ctypes
import hashlib
import importlib.machinery
import importlib.util
import logging
import os
import random
import shlex
import struct
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PARTS = ("base", "log", "arrays", "pool", "cuda", "cupy", "torch", "torch_new", "reasons", "cpy_signals")
SOURCES = [ROOT / "tests/c/base_test.c", *(ROOT / "src/base" / f"{name}.c" for name in PARTS)]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    target = tmp_path_factory.mktemp("base") / "dynoc_base_test.so"
    sanitizer = os.environ.get("DYNOC_BUILD_SANITIZE")
    flags = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"] if sanitizer else []
    compiler = shlex.split(os.environ.get("CC", "cc"))
    include = [f"-I{path}" for path in (ROOT / "src", sysconfig.get_path("include"), np.get_include())]
    command = [*compiler, "-std=c11", "-O1", "-g", "-fPIC", "-shared", *flags, *include, *map(str, SOURCES), "-o", str(target)]
    subprocess.run(command, check=True)
    loader = importlib.machinery.ExtensionFileLoader("dynoc_base_test", str(target))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("dynoc_base_test", loader))
    loader.exec_module(module)
    return module


def test_arena_gives_zeroed_blocks_apart(base):
    rng = random.Random(1)
    sizes = [rng.choice([0, 1, 7, 16, 17, 100, 5000, 20000, 70000]) for _ in range(400)]
    came, sound, used = base.arena(sizes)
    assert came == len(sizes) and sound
    assert used >= sum(sizes)


def test_arena_refuses_absurd_sizes(base):
    assert base.arena([16, 2**63])[0] == 1
    assert base.arena([2**64 - 1])[0] == 0


@pytest.mark.parametrize("n", [0, 1, 5])
def test_arena_fails_where_a_test_says(base, n):
    base.fail_after(n)
    try:
        assert base.arena([8] * 10)[0] == n
        assert base.arena([8])[0] == 0
    finally:
        base.fail_after(-1)
    assert base.arena([8] * 10)[0] == 10


@pytest.mark.parametrize("n", [0, 1, 8, 9, 100000])
def test_vec_keeps_what_is_pushed(base, n):
    assert base.vec(n) == (n, 0, True)


@pytest.mark.parametrize("text, times", [("", 0), ("a", 1), ("abc", 100), ("x" * 1000, 50)])
def test_str(base, text, times):
    assert base.str(text, times) == "".join(f"{text}-{i}{text}" for i in range(times))


def bits_of(value):
    return struct.unpack("<Q", struct.pack("<d", value))[0]


@pytest.mark.parametrize("i", [0, 7, -1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("wide", [0, -5, 2**63 - 1, -(2**63)])
def test_numbers_in_text(base, i, wide):
    wanted = f"{i}|{i % 2**32}|{wide}|c|%|text|"
    assert base.numbers(i, wide, "text", 64) == (f"{wanted}{i:5}|te", wanted)
    assert wanted.startswith(base.numbers(i, wide, "text", 6)[1])


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1.0, -1.0, 0.1, 1e22, 1e23, 1e-5, 1e300, 5e-324, 1.7976931348623157e308, 2.0**53 + 2, 1 / 3]
)
def test_putd_reads_back(base, value):
    text = base.putd(bits_of(value))
    assert bits_of(float(text)) == bits_of(value)
    assert "." in text or "e" in text, "an integer literal would be another type in C"


def test_putd_random_bits_in_c(base, tmp_path):
    rng = random.Random(2)
    special = [0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000123]
    finite = [n for n in (rng.getrandbits(64) for _ in range(500)) if n & 0x7FF0000000000000 != 0x7FF0000000000000]
    values = special + finite
    source = "double values[] = {%s};\n" % ",\n".join(base.putd(n) for n in values)
    (tmp_path / "values.c").write_text(source)
    library = tmp_path / "values.so"
    subprocess.run(["cc", "-w", "-shared", "-fPIC", str(tmp_path / "values.c"), "-o", str(library)], check=True)
    read = (ctypes.c_uint64 * len(values)).in_dll(ctypes.CDLL(str(library)), "values")
    assert [hex(n) for n in read] == [hex(n) for n in values]


@pytest.mark.parametrize("n", [0, 1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000, 100001])
def test_sha256(base, n):
    data = random.Random(n).randbytes(n)
    assert base.sha256(data) == hashlib.sha256(data).hexdigest()


def test_hash64_spreads(base):
    seen = {base.hash64(struct.pack("<I", i), 0) for i in range(20000)}
    assert len(seen) == 20000
    assert len({h & 0xFFFF for h in seen}) > 16000, "low bits repeat"
    assert base.hash64(b"abc", 1) != base.hash64(b"abc", 2)
    assert base.hash64(b"abc", 1) == base.hash64(b"abc", 1)


def random_array(rng):
    ndim = rng.randint(0, 5)
    a = np.zeros([rng.choice([0, 1, 1, 2, 3, 4]) if rng.random() < 0.9 else 5 for _ in range(ndim)])
    if ndim == 0:
        return a
    a = a.transpose(rng.sample(range(ndim), ndim))
    whole, part = slice(None), (slice(None, None, -1), slice(None, None, 2), slice(0, 2))
    a = a[tuple(rng.choice([whole, whole, *part]) for _ in range(ndim))]
    if rng.random() < 0.3:
        a = np.broadcast_to(a, (rng.choice([1, 2, 3]), *a.shape))
    return a


def test_layout_is_the_order_that_numpy_allocates_in(base):
    rng = random.Random(3)
    for _ in range(5000):
        a = random_array(rng)
        like, expected = base.layout(a)[3], np.asarray(np.negative(a))
        assert like.shape == expected.shape and like.dtype == expected.dtype
        seen = [axis for axis in range(a.ndim) if a.shape[axis] != 1]  # strides of axes of size 1 say nothing
        assert [like.strides[i] for i in seen] == [expected.strides[i] for i in seen], (a.shape, a.strides)


def test_layout_of_contiguous_arrays_is_c(base):
    for a in (np.zeros(()), np.zeros(3), np.zeros((2, 3)), np.zeros((0, 3)).T, np.zeros((1, 3)).T, np.zeros((3, 1, 2))):
        assert base.layout(a)[:2] == (0, tuple(range(a.ndim)))
    assert base.layout(np.zeros((2, 3)).T)[:2] == (1, (1, 0))
    assert base.layout(np.zeros((4, 6))[::2, ::-2])[:2] == (1, (0, 1))


@pytest.mark.parametrize(
    "dtype, name",
    [("?", "bool"), ("i1", "i8"), ("i2", "i16"), ("i4", "i32"), ("i8", "i64"), ("u1", "u8"), ("u2", "u16"), ("u4", "u32")]
    + [("u8", "u64"), ("f2", "f16"), ("f4", "f32"), ("f8", "f64"), ("c8", "c64"), ("c16", "c128")]
    + [(">f8", None), (">i4", None), ("O", None), ("S3", None), ("U2", None), ("M8[s]", None), ("m8", None), ("g", None)]
    + [("q", None), ([("a", "f8")], None), (np.dtype("f8", metadata={"unit": "m"}), None)],
)
def test_dtypes(base, dtype, name):
    assert base.layout(np.zeros(3, dtype))[2] == name


def test_reasons_have_texts(base):
    rows = base.reasons()
    assert rows[0][0] == "OK" and rows[-1][0] == "INTERNAL", "a number that is no reason is an internal error"
    assert len({code for code, *_ in rows[:-1]}) == len(rows) - 1
    assert all(message and hint for _, message, hint in rows)


def test_warnings_are_said_once(base, caplog):
    with caplog.at_level(logging.WARNING, logger="dynoc"):
        for text in ("one", "one", "two", "one"):
            base.say(text)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert said[0].startswith("NO_COMPILER: no C compiler was found: one (")


def test_log_needs_its_category_and_keeps_exceptions(base, caplog):
    with caplog.at_level(logging.DEBUG, logger="dynoc.guards"):
        base.say("quiet")
        base.set_log("guards", True)
        base.say("100% loud \N{GREEK SMALL LETTER ALPHA}")
        base.set_log("guards", False)
        base.say("quiet")
    assert [record.getMessage() for record in caplog.records if record.name == "dynoc.guards"] == ["guard: 100% loud \u03b1"]


def test_a_logger_that_raises_is_no_trouble(base):
    seen = []

    def broken(record):
        seen.append(base.busy())
        raise RuntimeError("broken filter")

    logger = logging.getLogger("dynoc.guards")
    logger.addFilter(broken)
    logger.setLevel(logging.DEBUG)
    base.set_log("guards", True)
    try:
        assert base.say("x") is False
    finally:
        base.set_log("guards", False)
        logger.removeFilter(broken)
        logger.setLevel(logging.NOTSET)
    assert seen == [True], "the hook can tell that a logger is running"


def test_counters(base):
    before = base.counters["said"]["counted"]
    base.say("counted")
    base.say("counted")
    assert base.counters["said"]["counted"] == before + 2
    assert base.counters["reasons"]["OPAQUE_CALL"] >= 2
    assert base.counters["nothing"]["here"] == 0 and base.counters["nothing"] == {}
    base.counters["said"] = "not a dict"
    base.say("counted")
    assert base.counters["said"] == {"counted": 1}
    base.counters["said"]["counted"] = "not a number"
    base.say("counted")
    assert base.counters["said"]["counted"] == "not a number"
    base.counters.clear()
    assert base.counters["said"]["counted"] == 0
