"""Writes where an index says (scatter) as text: graph in, loop IR out; both tiers' bits; where places are looked at."""

import re

import numpy as np
import pytest
from test_builtin import same

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

HEAD = """graph f
s0: int = dim(a, 0) hint 50
s1: int = dim(i, 0) hint 6
%0: {dtype}[s0] C = input(a)
%1: {index}[s1] C = input(i)
%2: {dtype}[s1] C = input(v)
"""
ROWS = """graph f
s0: int = dim(a, 0) hint 50
s1: int = dim(a, 1) hint 3
s2: int = dim(i, 0) hint 6
%0: f64[s0, s1] C = input(a)
%1: i64[s2] C = input(i)
%2: f64[s2, s1] C = input(v)
"""
ADD = [row[0] for row in _dynoc._op_table()].index("ADD")


def graph(text, dtype="f64", index="i64"):
    return text.replace("{dtype}", dtype).replace("{index}", index).replace("{ADD}", f"{{{ADD}}}")


def steps(text):
    return [line.split("  #")[0] for line in _dynoc._lower_text(text).splitlines() if re.match(r"kernel|check|extern|scan", line)]


def test_a_value_that_is_made_is_in_memory_before():
    text = graph(HEAD + "%3: f64[s1] C = multiply(%2, %2)\n%4: f64[s0] C = scatter(%0, %3, %1) {ADD}\noutputs\n")
    assert steps(text) == ["kernel ($1) reduced 0", "scan %4"]
    lowered = _dynoc._lower_text(text)
    assert _dynoc._loops_roundtrip(text, lowered) == lowered


def test_kernels_stay_on_their_side():
    text = graph(HEAD + "%3: f64[s0] C = negative(%0)\n%4: f64[s0] C = scatter(%0, %2, %1) {-1}\n")
    text += "%5: f64[s0] C = add(%0, %3)\noutputs %5\n"
    assert steps(text) == ["kernel ($0) reduced 0", "scan %4", "kernel ($0) reduced 0"]


def test_nobody_reads_it_but_its_places_are_looked_at():
    text = graph(HEAD + "%3: f64[s0] C = full(0.0)\n%4: f64[s0] C = scatter(%3, %2, %1) {ADD}\n")
    text += "%5: f64[s0] C = negative(%0)\noutputs %5\n"
    assert "scan %4" in steps(text)


def test_places_are_looked_at_before_an_input_is_written():
    text = graph(HEAD + "%3: f64[s0] C = store(%0, 1.0)\n%4: f64[s0] C = scatter(%0, %2, %1) {ADD}\noutputs\n")
    assert steps(text) == ["check %4", "kernel ($0) reduced 0", "scan %4"]
    text = graph(HEAD + "%3: f64[s0] C = full(1.0)\n%4: f64[s0] C = scatter(%3, %2, %1) {ADD}\noutputs %3\n")
    assert steps(text) == ["kernel ($0) reduced 0", "scan %4"]


@pytest.mark.parametrize("line, why", [
    ("%3: f64[s0] C = scatter(%0, %2, %2) {ADD}", "places are no integers"),
    ("%3: f64[s0] C = scatter(%0, %1, %1) {ADD}", "value does not fit"),
    ("%3: f64[s0] C = scatter(%0, %2, %1) {999}", "aux is no operator"),
    ("%3: f32[s0] C = scatter(%0, %2, %1) {ADD}", "dtype is not the destination's"),
    ("%3: f64[s0] C = scatter(%0, %0, %1) {ADD}", "does not broadcast to the places"),
    ("%3: f64[s0] C = scatter(%0, %2, %1) {ADD}\n%4: f64[s0] C = negative(%3)", "operand is a store"),
])
def test_the_verifier_refuses(line, why):
    with pytest.raises(ValueError, match=why):
        _dynoc._graph_roundtrip(graph(HEAD + line + "\noutputs\n"))


DTYPES = {"f64": "f8", "f32": "f4", "f16": "f2", "i8": "i1", "u16": "u2", "i64": "i8", "bool": "?", "c128": "c16"}
INDEX = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", INDEX)
def test_both_tiers_and_numpy(dtype, index):
    adds = dtype not in ("f16", "bool")
    copied = "%3: {dtype}[s0] C = copy(%0)\n%4: {dtype}[s1] C = copy(%2)\n"
    copied += "%5: {dtype}[s0] C = scatter(%3, %4, %1) {OP}\noutputs %3\n"
    rng = np.random.default_rng(1)
    for op in [-1, ADD] if adds else [-1]:
        text = graph(HEAD + copied.replace("{OP}", f"{{{op}}}"), dtype, index)
        unit = _dynoc._graph_compile(text)
        both = []
        for n, m in [(7, 1), (50, 100), (50, 513), (9, 0), (100, 1000)]:
            a, v = (rng.integers(0, 2 if dtype == "bool" else 99, k).astype(DTYPES[dtype]) for k in (n, m))
            i = rng.integers(0 if index[0] == "u" else -n, n, m).astype(INDEX[index])
            both += [(a, i, v), (a.repeat(2)[::2], i[::-1], v[::-1]), (a[::-1], i.repeat(3)[::3], v.repeat(2)[1::2])]
        same(text, both)
        for a, i, v in both:
            status, (r,) = _dynoc._graph_run(unit, [a, i, v], ())
            want = a.copy()
            if op < 0:
                want[i.astype("i8")] = v
            else:
                np.add.at(want, i.astype("i8"), v)
            assert status == 0 and r.tobytes() == want.tobytes()


@pytest.mark.parametrize("tier", ["_graph_compile", "_graph_builtin"])
@pytest.mark.parametrize("index", INDEX)
def test_what_is_not_there_is_eagers(tier, index):
    info = np.iinfo(INDEX[index])
    wrong = {100, min(info.max, 2**62)} | ({info.min} - {0}) | ({-101} if info.min < -101 else set())
    for to in (0, 4):
        text = HEAD + "%3: f64[s1] C = negative(%2)\n%4: f64[s0] C = negative(%0)\n"
        text += f"%5: f64[s0] C = scatter(%{to}, %3, %1) {{ADD}}\noutputs %{to}\n"
        unit = getattr(_dynoc, tier)(graph(text, "f64", index))
        for n, at in [(1, 0), (600, 599), (600, 300)]:
            i = np.zeros(n, INDEX[index])
            a = np.ones(100)
            assert _dynoc._graph_run(unit, [a, i, np.ones(n)], ())[0] == 0
            before = a.copy()
            for i[at] in sorted(wrong):
                assert _dynoc._graph_run(unit, [a, i, np.ones(n)], ())[0] == 2, (index, i[at])
                assert a.tobytes() == before.tobytes()


def test_rows_that_the_value_is_spread_over():
    text = ROWS.replace("%2: f64[s2, s1] C = input(v)", "%2: f64[s1] C = input(v)")
    text += "%3: f64[s0, s1] C = scatter(%0, %2, %1) {ADD}\noutputs %0\n"
    unit = _dynoc._graph_compile(graph(text))
    for width in (1, 3, 7, 8, 9, 100):
        i, v = np.random.default_rng(0).integers(-9, 9, 70), np.random.default_rng(1).normal(size=width)
        for a in (np.zeros((9, width)), np.zeros((width, 9)).T, np.zeros((18, 2 * width))[::2, ::-2]):
            want = a.copy()
            np.add.at(want, i, v)
            assert _dynoc._graph_run(unit, [a, i, v], ())[0] == 0 and a.tobytes() == want.tobytes()
