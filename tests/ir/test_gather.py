"""Lookups (gather) as text: graph in, loop IR out and back in; both tiers' bits; where places are looked at."""

import re

import numpy as np
import pytest
from test_builtin import same

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

HEAD = """graph f
s0: int = dim(t, 0) hint 5
s1: int = dim(t, 1) hint 4
s2: int = dim(i, 0) hint 6
%0: {dtype}[s0, s1] C = input(t)
%1: {index}[s2] C = input(i)
"""
VECTORS = """graph f
s0: int = dim(t, 0) hint 5
s1: int = dim(i, 0) hint 6
%0: {dtype}[s0] C = input(t)
%1: {index}[s1] C = input(i)
"""
VECTOR_GATHER = "%2: {dtype}[s1] C = gather(%0, %1) {{0}}\n"


def graph(text, dtype="f64", index="i64"):
    return text.replace("{{", "{").replace("}}", "}").replace("{dtype}", dtype).replace("{index}", index)


def lowered(text):
    return _dynoc._lower_text(graph(text))


def steps(text):
    return [line.split("  #")[0] for line in lowered(text).splitlines() if re.match(r"kernel|check|extern|scan", line)]


def test_a_lookup_becomes_part_of_a_kernel():
    text = HEAD + "%2: {dtype}[s2, s1] C = gather(%0, %1) {{0}}\n%3: {dtype}[s2, s1] C = multiply(%2, %2)\noutputs %3\n"
    lines = lowered(text).splitlines()
    assert [line for line in lines if not line.startswith(("place", "kernel"))] == [
        "  in 0: %0 f64 [- 1] along 0 by 1",
        "  in 1: %1 i64 [0 -]",
        "  out 2: %3 f64 [0 1]",
        "  v0 = load 0 : f64",
        "  v1 = multiply v0 v0 : f64",
        "  store 2 v1",
    ]
    assert steps(text) == ["kernel ($2 $1) reduced 0"]


def test_an_index_of_rank_2_along_the_last_axis():
    text = """graph f
s0: int = dim(t, 0) hint 5
s1: int = dim(t, 1) hint 4
s2: int = dim(i, 0) hint 6
s3: int = dim(i, 1) hint 7
%0: f64[s0, s1] C = input(t)
%1: u8[s2, s3] C = input(i)
%2: f64[s0, s2, s3] C = gather(%0, %1) {1}
outputs %2
"""
    assert "  in 0: %0 f64 [0 - -] along 1 by 1\n  in 1: %1 u8 [- 0 1]\n" in _dynoc._lower_text(text)
    assert _dynoc._loops_roundtrip(text, _dynoc._lower_text(text)) == _dynoc._lower_text(text)


def test_two_lookups_at_one_index():
    text = VECTORS + VECTOR_GATHER + "%3: {dtype}[s0] C = input(u)\n%4: {dtype}[s1] C = gather(%3, %1) {{0}}\n"
    text += "%5: {dtype}[s1] C = add(%2, %4)\noutputs %5\n"
    assert len(re.findall("along 0 by 1", lowered(text))) == 2 and len(steps(text)) == 1
    assert _dynoc._loops_roundtrip(graph(text), lowered(text)) == lowered(text)


def test_places_are_looked_at_where_nobody_looks_up():
    text = VECTORS + VECTOR_GATHER + "%3: {dtype}[s0] C = negative(%0)\noutputs %3\n"
    assert steps(text) == ["kernel ($0) reduced 0", "check %2"]


def test_places_are_looked_at_before_an_input_is_written():
    text = VECTORS + VECTOR_GATHER + "%3: {dtype}[s1] C = input(out)\n%4: {dtype}[s1] C = store(%3, %2)\noutputs %2\n"
    assert steps(text)[0] == "check %2"


def test_a_made_index_is_in_memory_before_it_is_used():
    text = VECTORS + "%2: i64[s1] C = negative(%1)\n%3: {dtype}[s1] C = gather(%0, %2) {{0}}\noutputs %3\n"
    assert steps(text) == ["kernel ($1) reduced 0", "kernel ($1) reduced 0"]
    assert "  in 0: %0 f64 [-] along 0 by 1\n  in 1: %2 i64 [0]\n" in lowered(text)


def test_lanes_that_are_results_lie_side_by_side():
    text = HEAD + "%2: {dtype}[s2, s1] C = gather(%0, %1) {{0}}\n%3: {dtype}[s{kept}] C = sum(%2) {{0, {axis}}}\noutputs %3\n"
    assert len(steps(text.replace("{kept}", "2").replace("{axis}", "1"))) == 1
    assert len(steps(text.replace("{kept}", "1").replace("{axis}", "0"))) == 2


@pytest.mark.parametrize("loops", ["along 2 by 1", "along 1 by 1", "along 0 by 0", "along 0 by 2", "along 0 by 9"])
def test_the_verifier_refuses(loops):
    text = graph(HEAD + "%2: {dtype}[s2, s1] C = gather(%0, %1) {{0}}\noutputs %2\n")
    with pytest.raises(ValueError, match="indirect|axes"):
        _dynoc._loops_roundtrip(text, _dynoc._lower_text(text).replace("along 0 by 1", loops))


DTYPES = {"f64": "f8", "f32": "f4", "f16": "f2", "i8": "i1", "u16": "u2", "i64": "i8", "bool": "?", "c128": "c16"}
INDEX = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", INDEX)
def test_both_tiers_and_numpy(dtype, index):
    text = "%2: {dtype}[s2, s1] C = gather(%0, %1) {{0}}\n%3: {dtype}[s2, s1] C = copy(%2)\noutputs %3\n"
    text = graph(HEAD + text, dtype, index)
    rng = np.random.default_rng(1)
    both = []
    for rows, width, n in [(7, 1, 1), (50, 3, 100), (50, 64, 33), (9, 700, 5), (100, 31, 1000)]:
        t = rng.integers(0, 2 if dtype == "bool" else 99, (rows, width)).astype(DTYPES[dtype])
        i = rng.integers(0 if index[0] == "u" else -rows, rows, n).astype(INDEX[index])
        both += [(t, i), (t.repeat(2, axis=1)[:, ::2], i[::-1]), (np.asfortranarray(t), i.repeat(3)[::3]), (t[::-1, ::-1], i)]
    same(text, both)
    unit = _dynoc._graph_compile(text)
    for t, i in both:
        status, (r,) = _dynoc._graph_run(unit, [t, i], ())
        assert status == 0 and r.tobytes() == t[i.astype("i8")].tobytes()


@pytest.mark.parametrize("tier", ["_graph_compile", "_graph_builtin"])
@pytest.mark.parametrize("index", INDEX)
def test_what_is_not_there_is_eagers(tier, index):
    info = np.iinfo(INDEX[index])
    wrong = {100, min(info.max, 2**62)}  # eager takes 2**64 - 1 for -1
    wrong |= ({info.min} - {0}) | ({-101} if info.min < -101 else set())
    for tail in ("%3: {dtype}[s1] C = negative(%2)\noutputs %3\n", "%3: {dtype}[s0] C = negative(%0)\noutputs %3\n"):
        unit = getattr(_dynoc, tier)(graph(VECTORS + VECTOR_GATHER + tail, "f64", index))
        for n, at in [(1, 0), (600, 599), (600, 300)]:
            i = np.zeros(n, INDEX[index])
            assert _dynoc._graph_run(unit, [np.ones(100), i], ())[0] == 0
            for i[at] in sorted(wrong):
                for some in (i, i[::-1], i.repeat(2)[::2]):
                    assert _dynoc._graph_run(unit, [np.ones(100), some], ())[0] == 2, (index, i[at])
            i[at] = 99
            assert _dynoc._graph_run(unit, [np.ones(100), i], ())[0] == 0
            assert _dynoc._graph_run(unit, [np.ones(0), i], ())[0] == 2


SIZES = [1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", INDEX)
def test_the_kernels_own_lookup(dtype, index):
    text = graph(VECTORS + VECTOR_GATHER + "%3: {dtype}[s1] C = copy(%2)\noutputs %3\n", dtype, index)
    assert "static void lookup_0" in _dynoc._emit_text(text)
    unit, rng = _dynoc._graph_compile(text), np.random.default_rng(2)
    for n in SIZES:
        t = rng.integers(0, 2 if dtype == "bool" else 99, 3 * n).astype(DTYPES[dtype])
        for entries in (1, min(n, 100)):
            i = rng.integers(0 if index[0] == "u" else -entries, entries, n).astype(INDEX[index])
            for table in (t[:entries], t[: 3 * entries : 3], t[entries - 1 :: -1]):
                for at in (i, i[::-1], i.repeat(2)[::2]):
                    status, (r,) = _dynoc._graph_run(unit, [table, at], ())
                    assert status == 0 and r.tobytes() == table[at.astype("i8")].tobytes()


def test_the_kernels_own_lookup_of_two_tables():
    text = VECTORS + "%2: f64[s1] C = input(w)\n%3: {dtype}[s0] C = input(u)\n%4: {dtype}[s1] C = gather(%0, %1) {{0}}\n"
    text += "%5: {dtype}[s1] C = gather(%3, %1) {{0}}\n%6: {dtype}[s1] C = multiply(%4, %2)\n%7: {dtype}[s1] C = add(%6, %5)\n"
    text, rng = graph(text + "outputs %7\n"), np.random.default_rng(3)
    assert _dynoc._emit_text(text).count("wrong |=") == 2
    unit = _dynoc._graph_compile(text)
    for n in SIZES:
        t, w, u, i = rng.normal(size=50), rng.normal(size=n), rng.normal(size=50), rng.integers(-50, 50, n)
        t[7] = np.nan
        same(text, [(t, i, w, u), (t, i, w, u[::-1]), (t, i, np.repeat(w, 2)[::2], u)])
        for at in {0, n // 2, n - 1}:
            wrong = i.copy()
            for wrong[at] in (50, -51, 2**63 - 1, -(2**63)):
                assert _dynoc._graph_run(unit, [t, wrong, w, u], ())[0] == 2
        status, (r,) = _dynoc._graph_run(unit, [t, i, w, u], ())
        assert status == 0 and np.array_equal(r, t[i] * w + u[i], equal_nan=True)


def test_no_lookup_of_its_own_where_functions_are_called():
    text = graph(VECTORS + VECTOR_GATHER + "%3: {dtype}[s1] C = sin(%2)\noutputs %3\n")
    assert "static void lookup_0" not in _dynoc._emit_text(text)
