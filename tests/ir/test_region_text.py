"""Region IR as text: it is read as it is printed, what breaks its rules is refused, and passes are text in, text out."""

import re

import pytest

from dynoc import _dynoc

# A sum over a[0:n]: counter r4, r5 trips left, bound in front of the loop or not at all.
SUM = """\
region header=16 slots=2 stack=1 extra=0
regs PPIIIIIIIIDDI
entry b1: array.f64.1.c(r0 r1 r2 r3) float(r10) | iter.1:2(r4 r5 r6)
b0 @0:
  jmp b1
b1 @5:
  br r5 b2 b3
b2 @6:
  r7 = int 1
  r8 = int -1
  r9 = idx r4 r2 else x1
  r12 = int 8
  r9 = imulw r9 r12
  r11 = ld.f64 r1 r9
  r10 = dadd r10 r11
  r4 = iaddw r4 r7
  r5 = iaddw r5 r8
  poll else x1
  r4 = imov r4
  jmp b1
b3 @9:
  leave x0
exit x0 at 30 stack=0 more=1 OK: array.f64.1.c(r0 r1 r2 r3) float(r10) | iter.1:2(r4 r5 r6)
exit x1 at 16 stack=1 more=0 EXCEPTION: array.f64.1.c(r0 r1 r2 r3) float(r10) | iter.1:2(r4 r5 r6)
"""
VALUES = """\
region header=2 slots=4 stack=0 extra=0
regs IDSIIII
entry b1: int(r0) float(r1) np.f32(r2) entry.d:3
b0 @0:
  jmp b1
b1 @0:
  r3 = int -9223372036854775808
  r1 = float 0x1.8p+1
  r4 = int 1
  r5 = imov r4
  r6 = imov r4
  ifits r0 -8 else x0
  leave x0
exit x0 at 4 stack=2 more=0 FLAGS: null const:7 np.f32(r2) int.dm:3(r3 r4) | tuple.2 bool(r4) entry.d:3 range.1(r3 r4 r5 r6)
"""
# b = np.exp(a * 2.0), computed into memory of its own and a new vector.
ARRAYS = """\
region header=2 slots=2 stack=0 extra=1
regs PPIIPPIIIDPPPPIDI
entry b1: array.f64.1.c(r0 r1 r2 r3) entry.d:1 | ufunc.1(r4 r5)
b0 @0:
  jmp b1
b1 @0:
  r6 = int 8
  r16 = int 0
  r7 = imul r6 r2 else x0
  r10 = scratch r7 r16 else x0
  r9 = float 0x1p+1
  r8 = int 0
  flags.clear
  jmp b2
b2 @0:
  r14 = ilt r8 r2
  br r14 b3 b4
b3 @0:
  r14 = imulw r8 r6
  r15 = rd.f64 r1 r14
  r15 = dmul r15 r9
  keep.f64 r10 r14 r15
  r14 = int 1
  r8 = iaddw r8 r14
  jmp b2
b4 @0:
  flags.none else x0
  array.hold r0
  r14 = int 11
  r11 = array.new r2 r14 else x0
  r12 = array.data r11
  operand r10 r6 r2
  flags.clear
  array.ufunc r4 r5 r12 else x0
  flags.none else x0
  leave x1
exit x0 at 2 stack=0 more=0 FLAGS: array.f64.1.c(r0 r1 r2 r3) entry.d:1
exit x1 at 8 stack=0 more=0 OK: array.f64.1.c(r0 r1 r2 r3) array.f64.1.cwd(r11 r12 r2 r6)
"""


@pytest.mark.parametrize("text", [SUM, VALUES, ARRAYS])
def test_text_is_read_as_it_is_printed(text):
    assert _dynoc._region_text(_dynoc._region_parse(text)) == text


@pytest.mark.parametrize(
    "old, new, error",
    [
        ("dadd r10 r11", "dadd r10 r9", "an operand of another type, r 9"),
        ("r11 = ld", "r12 = ld", "a result of another type, r 12"),
        ("  jmp b1\nb3", "  jmp b7\nb3", "no block 7"),
        ("  jmp b1\nb3", "b3", "a block that doesn't end with its jump 2"),
        ("  br r5 b2 b3", "  leave x0\n  br r5 b2 b3", "a block that doesn't end with its jump 1"),
        ("idx r4 r2 else x1", "idx r4 r2 else x5", "no exit 5"),
        ("float(r10) | iter.1:2(r4 r5 r6)\nb0", "entry:1 | iter.1:2(r4 r5 r6)\nb0", "isn't assigned, r 10"),
        ("more=1 OK: array.f64.1.c(r0 r1 r2 r3)", "more=1 OK: array.f64.1.c(r0 r1 r2)", "another number of registers than 4"),
        ("stack=1 more=0 EXCEPTION", "stack=2 more=0 EXCEPTION", "another number of values, x 1"),
        ("float(r10) | iter.1:2(r4 r5 r6)\nb0", "float(r10)\nb0", "an entry with another number of values than 3"),
        ("float(r10) |", "float(r11) |", "isn't assigned, r 10"),
        ("dadd", "dad", "line 15: no instruction at 'dad r10 r11"),
        ("regs P", "regs X", "line 2: no type of a register"),
        ("array.f64.1.c(r0 r1 r2 r3) float(r10) | iter.1:2(r4 r5 r6)\nb0", "arry\nb0", "line 3: no value at 'arry"),
    ],
)
def test_what_breaks_the_rules_is_refused(old, new, error):
    assert old in SUM
    with pytest.raises(ValueError, match=re.escape(error)):
        _dynoc._region_parse(SUM.replace(old, new, 1))


def optimised(text):
    region = _dynoc._region_parse(text)
    _dynoc._region_optimise(region)
    return _dynoc._region_text(region)


def blocks_of(text):
    return dict(re.findall(r"^(b\d+) @\d+:\n((?:  .*\n)+)", text, flags=re.MULTILINE))


@pytest.mark.parametrize("step", [1, 2, -1])
def test_indices_of_a_loop_that_counts_are_checked_in_front_of_it(step):
    text = optimised(SUM.replace("r7 = int 1", f"r7 = int {step}"))
    blocks = blocks_of(text)
    assert blocks["b1"] == "  br r5 b2 b3\n" and "idx r4 r2 else x1" in blocks["b2"]  # the loop as it was
    assert "  r9 = imov r4\n" in blocks["b5"] and "idx" not in blocks["b5"] and "jmp b4" in blocks["b5"]
    assert blocks["b6"].endswith(" b7 b1\n") and "ile" in blocks["b6"] and "ilt" in blocks["b6"]
    first = re.search(r"jmp (b\d+)", blocks["b0"])[1]
    assert f"entry {first}:" in text
    assert _dynoc._region_text(_dynoc._region_parse(text)) == text


def test_many_trips_ask_once_and_are_done_again_where_something_is_wrong():
    blocks = blocks_of(optimised(SUM.replace("r10 = dadd r10 r11\n", DOUBTED)))
    assert "poll" in blocks["b2"] and "poll" not in blocks["b5"] and "calm" in blocks["b6"]
    few = re.fullmatch(r"  (r\d+) = int 7\n  (r\d+) = ilt \1 r5\n  br \2 b6 b1\n", blocks["b12"])
    assert few and "jmp b12" in blocks["b0"]  # a loop of a few trips is the one with checks
    until = re.search(r"(r\d+) = imax0", blocks["b7"])[1]
    assert f"ine r5 {until}" in blocks["b4"] and blocks["b4"].endswith(" b5 b8\n")
    kept = re.search(r"(r\d+) = dmov r10\n", blocks["b7"])[1]
    assert re.fullmatch(r"  (r\d+) = dfinite r10\n  br \1 b10 b11\n", blocks["b8"])  # a sum that is finite had no doubts
    assert "dused r10\n" in blocks["b11"] and blocks["b11"].endswith(" b9 b10\n")
    assert f"r10 = dmov {kept}\n" in blocks["b9"] and blocks["b9"].endswith("jmp b1\n")
    assert blocks["b10"] == "  br r5 b6 b3\n"


def test_trips_that_call_something_ask_each_time():
    """Nobody knows how long the function takes."""
    text = SUM.replace("IIDDI\n", "IIDDII\n").replace("r10 = dadd r10 r11\n", "r10 = dadd r10 r11\n  r13 = dict.size r0\n")
    blocks = blocks_of(optimised(text))
    assert "poll else x1" in blocks["b5"] and "trouble" not in "".join(blocks.values())


def test_where_a_loop_is_left_it_asks_about_the_trips_so_far():
    left = "  r13 = dle r10 r11\n  br r13 b3 b4\nb3 @7:\n"
    text = SUM.replace("b3", "b4").replace("IIDDI\n", "IIDDII\n")
    blocks = blocks_of(optimised(text.replace("  r10 = dadd r10 r11\n", f"  {DOUBTED}{left}")))
    asks = re.search(r"br r13 b7 (b\d+)\n", blocks["b6"])[1]
    assert "dused r10\n" in blocks[asks] and re.search(r"(r\d+) = trouble\n  br \1 b\d+ b4\n", blocks[asks])


def test_a_check_that_stays_does_the_trips_again():
    text = SUM.replace("r9 = idx r4 r2", "r9 = idx r9 r2").replace("r7 = int 1\n", "r7 = int 1\n  r9 = ixor r4 r4\n", 1)
    blocks = blocks_of(optimised(text))
    assert "r9 = idx r9 r2 else x1\n" in blocks["b2"] and "r9 = idx r9 r2 else b9\n" in blocks["b5"]


DOUBTED = "r10 = dadd r10 r11\n  dwarn r10 r10 r11 else x1\n"
STORED = DOUBTED + "  st.f64 r1 r9 r10\n"


def test_what_a_loop_overwrites_is_saved_and_comes_back():
    blocks = blocks_of(optimised(SUM.replace("r10 = dadd r10 r11\n", STORED)))
    assert "poll" not in blocks["b5"] and "dwarn" not in blocks["b5"] and "  st.f64 r1 r9 r10\n" in blocks["b5"]
    first, more, trips = re.search(r"  save (r\d+) (r\d+) (r\d+) 8\n", blocks["b7"]).groups()
    assert f"  restore {first} {more} {trips} 8\n" in blocks["b9"] and blocks["b9"].endswith("jmp b1\n")
    assert re.search(rf"{first} = padd r1 r\d+\n", blocks["b7"]) and f"{trips} = isubw r5 " in blocks["b7"]


def test_a_loop_in_which_nothing_can_go_wrong_saves_nothing():
    text = SUM.replace("r10 = dadd r10 r11\n", "st.f64 r1 r9 r11\n").replace("idx r4 r2 else x1", "imov r4")
    blocks = blocks_of(optimised(text))
    assert "poll" not in blocks["b5"] and not re.search("save|trouble", "".join(blocks.values()))


def test_a_store_that_another_one_may_hide_counts_for_nothing():
    """A compiler leaves out the first of two stores to one place, and what was computed for it alone."""
    twice = "r13 = dadd r11 r11\n  dwarn r13 r11 r11 else x1\n  st.f64 r1 r9 r13\n  st.f64 r1 r9 r11\n"
    text = SUM.replace("IIDDI\n", "IIDDID\n").replace("r10 = dadd r10 r11\n", twice)
    assert "dwarn r13 r11 r11 else x1\n" in blocks_of(optimised(text))["b5"]


@pytest.mark.parametrize(
    "old, new",
    [
        ("st.f64 r1 r9 r10", "st.f64 r1 r12 r10"),
        ("  st.f64", "  r9 = imulw r4 r4\n  st.f64"),
        ("  st.f64", "  r9 = ld.i64 r1 r9\n  st.f64"),
    ],
)
def test_a_loop_that_writes_where_nobody_knows_is_left_where_it_is(old, new):
    doubtful = STORED.replace("r10 = dadd r10 r11", "r10 = dadd r11 r11").replace("dwarn r10 r10", "dwarn r10 r11")
    blocks = blocks_of(optimised(SUM.replace("r10 = dadd r10 r11\n", doubtful.replace(old, new))))
    assert "poll" not in blocks["b5"] and "dwarn r10 r11 r11 else x1" in blocks["b5"]


ELEMENT = "r13 = int 16\n  r14 = ld.f64 r1 r13\n  r14 = dadd r14 r11\n  dwarn r14 r14 r11 else x1\n  st.f64 r1 r13 r14\n"


def test_an_element_that_stays_is_held_where_nothing_else_is_in_its_place():
    text = optimised(SUM.replace("IIDDI\n", "IIDDIID\n").replace("r10 = dadd r10 r11\n", ELEMENT))
    blocks = blocks_of(text)
    assert blocks["b6"].endswith(" b8 b1\n")  # indices first
    begin, without = re.search(r"br r\d+ (b\d+) (b\d+)\n", blocks["b8"]).groups()
    place, zero = re.search(r"apart (r\d+) r\d+ r\d+ 8\n", blocks["b8"])[1], re.search(r"(r\d+) = int 0\n", blocks["b8"])[1]
    held = re.search(rf"(r\d+) = ld.f64 {place} {zero}\n", blocks[begin])[1]
    trip = blocks["b10"]
    assert f"  r14 = dmov {held}\n" in trip and f"  {held} = dmov r14\n" in trip
    assert "st.f64" not in trip and trip.count("ld.f64") == 1 and "dwarn" not in trip
    assert f"  st.f64 {place} {zero} {held}\n  br r5 b6 b3\n" in "".join(blocks.values())
    assert blocks[without].endswith("jmp b4\n") and "  st.f64 r1 r13 r14\n" in blocks["b5"]


@pytest.mark.parametrize(
    "old, new",
    [
        ("r13 = int 16", "r13 = imov r9"),  # it doesn't stay
        ("r14 = ld.f64 r1 r13\n  r14 = dadd r14 r11", "r14 = dadd r11 r11"),  # it isn't read
        ("r14 = dadd r14 r11", "r12 = ld.i64 r1 r9\n  r11 = ld.f64 r1 r12\n  r14 = dadd r14 r11"),  # something else is read
        ("r14 = dadd r14 r11", "r12 = ld.i64 r1 r13\n  r14 = dadd r14 r11"),  # it is read as something else
        ("  dwarn", "  poll else x1\n  r12 = dict.size r0\n  dwarn"),  # a call
    ],
)
def test_elements_that_are_not_held(old, new):
    assert old in ELEMENT
    text = SUM.replace("IIDDI\n", "IIDDIID\n").replace("r10 = dadd r10 r11\n", ELEMENT.replace(old, new))
    assert "apart" not in optimised(text)


def test_intermediate_numbers_that_are_looked_at_together_count_by_what_is_made_of_them():
    made = "r13 = dadd r11 r11\n  r10 = dadd r10 r13\n  r14 = dfinite r10\n  br r14 b4 b3\nb3 @7:\n  dwarn r13 r11 r11 else x1\n"
    made += "  dwarn r10 r10 r13 else x1\n  jmp b4\nb4 @7:\n"
    text = SUM.replace("b3", "b5").replace("IIDDI\n", "IIDDIDI\n").replace("r10 = dadd r10 r11\n", made)
    blocks = blocks_of(optimised(text))
    assert "dwarn" not in "".join(blocks[b] for b in blocks if int(b[1:]) > 5)


@pytest.mark.parametrize("used", [True, False])
def test_numbers_on_which_nothing_depends_are_looked_at(used):
    """A compiler computes them behind the loop, for the last trip alone."""
    doubtful = "  r14 = dmul r11 r11\n  dwarn r14 r11 r11 else x1\n"
    if used:
        doubtful += "  r10 = dadd r10 r14\n"
    text = SUM.replace("IIDDI\n", "IIDDIID\n").replace("  r10 = dadd r10 r11\n", doubtful + "  r10 = dadd r10 r11\n")
    assert ("dwarn" in blocks_of(optimised(text))["b5"]) != used


def test_numbers_that_are_overwritten_are_looked_at():
    doubtful = "  r14 = dmul r11 r11\n  dwarn r14 r11 r11 else x1\n  r10 = dmov r14\n  r10 = dmov r11\n"
    text = SUM.replace("IIDDI\n", "IIDDIID\n").replace("  r10 = dadd r10 r11\n", "  r10 = dadd r10 r11\n" + doubtful)
    assert "dwarn" in blocks_of(optimised(text))["b5"]


@pytest.mark.parametrize("old, new", [("br r5 b2 b3", "br r6 b2 b3"), ("r8 = int -1", "r8 = int -2")])
def test_loops_that_do_not_count_down_stay_as_they_are(old, new):
    text = SUM.replace(old, new, 1)
    assert optimised(text) == text


@pytest.mark.parametrize("old, new", [("idx r4 r2", "idx r6 r2"), ("  r4 = imov r4\n", "  r2 = imov r4\n")])
def test_indices_that_cannot_be_told_are_checked_in_each_trip(old, new):
    blocks = blocks_of(optimised(SUM.replace("r7 = int 1\n", "r7 = int 1\n  r6 = ixor r4 r4\n", 1).replace(old, new, 1)))
    assert "idx" in blocks["b5"]


COUNT = "r13 = dle r10 r11\n  br r13 b3 b4\nb3 @7:\n  r14 = iadd r14 r7 else x1\n  jmp b4\nb4 @7:\n"


def with_ranges(code):
    """SUM with more in its trips; r13 is an int, r14 another one that slot 2 holds."""
    text = SUM.replace("b3", "b5").replace("IIDDI\n", "IIDDIII\n").replace("slots=2", "slots=3")
    text = text.replace("float(r10) |", "float(r10) int(r14) |")
    return text.replace("  r10 = dadd r10 r11\n", "  r10 = dadd r10 r11\n  " + code)


def fast_and_front(text):
    """The blocks behind those of the text: the loop without checks, and what is asked in front of it."""
    return "".join(block for name, block in blocks_of(optimised(text)).items() if int(name[1:]) > 5)


def test_what_is_counted_is_bounded_by_the_number_of_trips():
    fast = fast_and_front(with_ranges(COUNT))
    assert "r14 = iaddw r14 r7\n" in fast and " iadd r" not in fast and "dmul" in fast


def test_products_of_the_counter_are_indices_and_do_not_overflow():
    code = "r13 = imul r4 r3 else x1\n  r13 = iadd r13 r4 else x1\n  r13 = idx r13 r2 else x1\n  " + COUNT
    fast = fast_and_front(with_ranges(code))
    assert "r13 = imulw r4 r3\n  r13 = iaddw r13 r4\n  r13 = imov r13\n" in fast and "else x1" not in fast


def test_what_is_done_in_some_trips_alone_keeps_its_index():
    code = COUNT.replace("r14 = iadd r14 r7", "r13 = imulw r4 r4\n  r13 = idx r13 r2")
    assert " = idx r13 r2 else b" in fast_and_front(with_ranges(code))


def test_small_ints_in_memory_do_not_overflow_and_are_no_indices():
    code = "r13 = ld.u8 r1 r9\n  r13 = imul r13 r13 else x1\n  r13 = idx r13 r2 else x1\n  " + COUNT
    fast = fast_and_front(with_ranges(code))
    assert "r13 = imulw r13 r13\n" in fast and "r13 = idx r13 r2 else b" in fast


def test_what_is_carried_from_trip_to_trip_in_another_way_stays_checked():
    code = COUNT.replace("r14 = iadd r14 r7", "r14 = imul r14 r14")
    assert "r14 = imul r14 r14 else b" in fast_and_front(with_ranges(code))


def test_an_index_behind_a_branch_is_checked_for_the_trips_that_come_to_it():
    code = COUNT.replace("r13 = dle r10 r11", "r13 = ilt r8 r4")
    code = code.replace("r14 = iadd r14 r7", "r13 = iadd r4 r8 else x1\n  r13 = idx r13 r2")
    fast = fast_and_front(with_ranges(code))
    assert "r13 = iaddw r4 r8\n  r13 = imov r13\n" in fast
    assert re.search(r"(r\d+) = ilt r4 (r\d+)\n  r\d+ = iselect \1 \2 r4\n", fast)
    stored = fast_and_front(with_ranges(code.replace("idx r13 r2 else x1", "idx r13 r2 else x1\n  st.f64 r1 r13 r11")))
    assert "iselect" not in stored and "r13 = iaddw r4 r8\n  r13 = imov r13\n" in stored


CUT = """r15 = int 69069
  r16 = imul r14 r15 else x1
  r16 = iadd r16 r7 else x1
  r17 = int 65535
  r13 = iand r16 r17
  r14 = imov r13
  jmp b3
b3 @7:
  jmp b4
b4 @7:
"""


def with_cut(code=CUT):
    return with_ranges(code).replace("DDIII\n", "DDIIIIII\n")


def test_what_is_cut_off_in_each_trip_does_not_overflow():
    fast = fast_and_front(with_cut())
    assert "r16 = imulw r14 r15\n  r16 = iaddw r16 r7\n" in fast and " imul r" not in fast
    assert re.search(r"(r\d+) = int 65535\n(.*\n)*  r\d+ = ile r14 \1\n", fast)


def test_numbers_modulo_a_power_of_two_are_computed_from_the_first_trips():
    fast = fast_and_front(with_cut())
    first = re.search(r"(r\d+) = imov r14\n  r\d+ = int 8\n", fast)[1]
    a, c = 69069, 1
    for _ in range(7):
        a, c = a % 65536 * 69069, c % 65536 * 69069 + 1
        numbers = rf"(r\d+) = int {a}\n  (r\d+) = int {c}\n  "
        assert re.search(numbers + rf"(r\d+) = imulw {first} \1\n  (r\d+) = iaddw \3 \2\n  r13 = iand \4 r17\n", fast)


@pytest.mark.parametrize("old, new", [("iadd r16 r7", "iadd r16 r4"), ("int 65535", "int 65534"), ("int 69069", "int 1")])
def test_other_numbers_wait_for_each_trip(old, new):
    fast = fast_and_front(with_cut(CUT.replace(old, new)))
    assert not re.search(r"r\d+ = imov r14\n  r\d+ = int 8\n", fast)


def test_a_root_of_ints_is_an_int():
    code = "r13 = imul r4 r4 else x1\n  r11 = i2dx r13 else x1\n  r11 = sqrt r11 else x1\n  r13 = d2i r11 else x1\n  " + COUNT
    fast = fast_and_front(with_ranges(code))
    assert "r11 = i2d r13\n  r11 = root r11\n  r13 = d2iw r11\n" in fast


def test_a_divisor_that_stays_is_looked_at_once():
    text = with_ranges("r11 = ddiv r11 r15 else x1\n  " + COUNT).replace("DDIII\n", "DDIIID\n").replace("slots=3", "slots=4")
    fast = fast_and_front(text.replace("int(r14) |", "int(r14) float(r15) |"))
    assert "r11 = cdiv r11 r15\n" in fast and "ddiv" not in fast and " = dne r15 " in fast


# A sum over a[0:n, 0:3], whose inner loop says in front of it how many trips it has.
FEW = """\
region header=16 slots=2 stack=1 extra=0
regs PPIIIIIIIDDIIII
entry b1: array.f64.1.c(r0 r1 r2 r3) float(r10) | iter.1:2(r4 r5 r6)
b0 @0:
  jmp b1
b1 @5:
  br r5 b2 b3
b2 @6:
  r7 = int 1
  r8 = int -1
  r4 = iaddw r4 r7
  r5 = iaddw r5 r8
  r11 = int 3
  r12 = int 0
  r13 = isub r11 r12 else x1
  jmp b4
b3 @9:
  leave x0
b4 @10:
  br r13 b5 b6
b5 @11:
  r11 = idx r12 r2 else x1
  r14 = iaddw r13 r8
  r9 = ld.f64 r1 r11
  r10 = dadd r10 r9
  r12 = iaddw r12 r7
  r13 = imov r14
  jmp b4
b6 @12:
  poll else x1
  jmp b1
exit x0 at 30 stack=0 more=1 OK: array.f64.1.c(r0 r1 r2 r3) float(r10) | iter.1:2(r4 r5 r6)
exit x1 at 16 stack=1 more=0 EXCEPTION: array.f64.1.c(r0 r1 r2 r3) float(r10) | iter.1:2(r4 r5 r6)
"""


def test_a_loop_of_a_few_trips_becomes_straight_code():
    text = optimised(FEW)
    blocks = blocks_of(text)
    assert "b5" not in blocks and "r13 = isub" in blocks["b2"] and blocks["b2"].endswith("jmp b7\n")
    assert [blocks[f"b{i}"] for i in (7, 9, 11, 13)] == [f"  jmp b{i}\n" for i in (8, 10, 12, 6)]
    for i, block in enumerate(blocks[f"b{i}"] for i in (8, 10, 12)):
        assert f"r12 = int {i + 1}\n" in block and f"r13 = int {2 - i}\n" in block and " br " not in block
    assert "  r9 = ld.f64 r1 r11\n" in text and re.search(r"br r\d+ b\d+ b1\n", text)  # the outer loop has its copy


@pytest.mark.parametrize("old, new", [("r11 = int 3", "r11 = int 9"), ("r13 = imov r14", "r13 = iaddw r14 r2")])
def test_a_loop_of_many_trips_or_of_nobody_knows_how_many_stays_one(old, new):
    blocks = blocks_of(optimised(FEW.replace(old, new)))
    assert blocks["b2"].endswith("jmp b4\n") or "idx r12 r2 else x1" in blocks["b5"]


# while r1 <= r0: …, with r0 an int and r2 an axis's size. What is made in the loop is r3 to r7.
WHILE = """\
region header=2 slots=3 stack=0 extra=0
regs IIIIIIIII
entry b1: int(r0) int(r1) int(r2)
b0 @0:
  jmp b1
b1 @0:
  r3 = int 0
  r4 = int 1
  r8 = ile r3 r0
  br r8 b2 b3
b2 @0:
CODE  jmp b1
b3 @0:
  leave x0
exit x0 at 4 stack=0 more=0 OK: int(r0) int(r1) int(r2)
"""


KEPT = "idx r0 r2 else x0", "idx.low r0 r2 else x0"


@pytest.mark.parametrize(
    "code, becomes",
    [
        ("r0 = isub r0 r4 else x0", "r0 = isubw r0 r4"),
        ("r0 = iadd r0 r4 else x0", None),
        ("r1 = isub r1 r4 else x0", None),
        (f"r5 = {KEPT[0]}", f"r5 = {KEPT[1]}"),
        ("r5 = idx r1 r2 else x0", None),
        (f"r5 = {KEPT[0]}; r6 = iadd r0 r4 else x0", f"r5 = {KEPT[1]}; r6 = iaddw r0 r4"),
        (f"r5 = {KEPT[0]}; r6 = idx r0 r2 else x0", f"r5 = {KEPT[1]}; r6 = imov r0"),
        (f"r5 = {KEPT[0]}; r2 = imov r1; r6 = {KEPT[0]}", f"r5 = {KEPT[1]}; r2 = imov r1; r6 = {KEPT[1]}"),
        (f"r5 = {KEPT[0]}; r0 = imov r1; r6 = {KEPT[0]}", f"r5 = {KEPT[1]}; r0 = imov r1; r6 = {KEPT[0]}"),
        ("r5 = iadd r0 r1 else x0; r5 = ishrw r5 r4; r6 = idx r5 r2 else x0", None),
        (
            "r5 = iadd r0 r0 else x0; r5 = ishrw r5 r4; r6 = idx r5 r2 else x0",
            "r5 = iadd r0 r0 else x0; r5 = ishrw r5 r4; r6 = idx.low r5 r2 else x0",
        ),
    ],
)
def test_checks_that_a_branch_or_another_check_makes_needless(code, becomes):
    lines = [f"  {line}\n" for line in code.split("; ")]
    got = blocks_of(optimised(WHILE.replace("CODE", "".join(lines))))["b2"]
    assert got.splitlines()[-1 - len(lines) : -1] == [f"  {line}" for line in (becomes or code).split("; ")]


def test_what_holds_on_one_way_alone_is_not_known_behind_both():
    text = WHILE.replace("CODE", "  r5 = idx r1 r2 else x0\n").replace("br r8 b2 b3", "br r8 b2 b2")
    assert "r5 = idx r1 r2 else x0" in optimised(text)
    text = WHILE.replace("CODE", "  r5 = idx r0 r2 else x0\n").replace("br r8 b2 b3", "br r8 b2 b2")
    assert "r5 = idx r0 r2 else x0" in optimised(text)


def test_a_number_that_is_too_small_to_be_followed_says_nothing_of_what_is_not_that_number():
    code = "  r5 = int -99\n  r5 = isubw r5 r4\n  r6 = ine r1 r5\n  br r6 b4 b1\n"
    text = WHILE.replace("CODE  jmp b1\n", code).replace("exit x0", "b4 @0:\n  r1 = isub r1 r4 else x0\n  jmp b1\nexit x0")
    assert "  r1 = isub r1 r4 else x0\n" in blocks_of(optimised(text))["b4"]
