"""Nests of loops in region IR: what nest.c asks in front of them, text in, text out."""

import re

import pytest
from test_region_text import optimised


# for r9 in …: r10 = 0.0; for r12 in range(r15): r10 += a[r9 + r12]
NEST = """\
region header=16 slots=3 stack=1 extra=0
regs PPIIIIIIIIDDIIIIIIII
entry b1: array.f64.1.c(r0 r1 r2 r3) float(r10) int(r15) | iter.1:3(r4 r5 r6)
b0 @0:
  jmp b1
b1 @5:
  br r5 b2 b3
b2 @6:
  r7 = int 1
  r8 = int -1
  r9 = imov r4
  r4 = iaddw r4 r7
  r5 = iaddw r5 r8
  r10 = float 0x0p+0
  r12 = int 0
  r16 = isubw r15 r12
  r13 = imax0 r16
  jmp b4
b3 @9:
  leave x0
b4 @10:
  br r13 b5 b6
b5 @11:
  r17 = iadd r9 r12 else x1
  r17 = idx r17 r2 else x1
  r18 = int 8
  r17 = imulw r17 r18
  r11 = ld.f64 r1 r17
  r10 = dadd r10 r11
  r14 = int 1
  r12 = iaddw r12 r14
  r14 = int -1
  r13 = iaddw r13 r14
  poll else x1
  jmp b4
b6 @12:
  poll else x1
  jmp b1
exit x0 at 30 stack=0 more=1 OK: array.f64.1.c(r0 r1 r2 r3) float(r10) int(r15) | iter.1:3(r4 r5 r6)
exit x1 at 16 stack=1 more=0 EXCEPTION: array.f64.1.c(r0 r1 r2 r3) float(r10) int(r15) | iter.1:3(r4 r5 r6)
"""


def parts_of(text):
    """The blocks; the number of the one in front of the nest, or None where the nest has no copy; the nest's copy."""
    blocks = {int(i): block for i, block in re.findall(r"^b(\d+) @\d+:\n((?:  .*\n)+)", text, flags=re.MULTILINE)}
    front = int(re.search(r"jmp b(\d+)", blocks[0])[1])
    if front == 1 or "calm" not in blocks[front]:
        return blocks, None, ""
    seen, new = set(), [int(re.search(r"br r\d+ b(\d+) b1\n", blocks[front])[1])]
    while new:
        block = new.pop()
        if block not in seen:
            seen.add(block)
            new += [int(i) for i in re.findall(r" b(\d+)", blocks[block])]
    return blocks, front, "".join(blocks[i] for i in sorted(seen))


def test_the_inner_loop_asks_nothing_where_the_front_has():
    blocks, front, copy = parts_of(optimised(NEST))
    assert blocks[1] == "  br r5 b2 b3\n" and "idx r17 r2 else x1" in blocks[5]  # the nest as it was
    assert "idx" not in copy and "iadd " not in copy and copy.count("poll else x1") == 1
    assert "r17 = iaddw r9 r12\n" in copy and "r17 = imov r17\n" in copy
    # The first and the last index that any trip has: r4, and r4 + (r5 - 1) + (max(r15, 0) - 1).
    assert re.search(r" = imax0 r15\n", blocks[front]) and re.search(r" = ile r\d+ r4\n", blocks[front])


@pytest.mark.parametrize(
    "old, new",
    [
        ("r13 = imax0 r16", "r13 = ld.i64 r1 r12"),  # nobody knows how many trips there are
        ("r17 = iadd r9 r12", "r17 = iadd r9 r6"),  # r6 is the loop's own: it stays
        ("r9 = imov r4", "r9 = ld.i64 r1 r4"),
    ],
)
def test_what_cannot_be_known_in_front(old, new):
    assert old in NEST
    _, front, _ = parts_of(optimised(NEST.replace(old, new)))
    assert (front is None) == ("r6" not in new)


def test_triangles_are_asked_about_by_their_corners():
    text = NEST.replace("r16 = isubw r15 r12", "r16 = isubw r9 r12")
    blocks, front, copy = parts_of(optimised(text))
    assert "idx" not in copy and "imax0" not in blocks[front]


def test_sums_of_ints_from_memory_keep_their_check():
    text = NEST.replace("r11 = ld.f64 r1 r17", "r19 = ld.i64 r1 r17").replace("r10 = dadd r10 r11", "r15 = iadd r15 r19 else x1")
    _, front, copy = parts_of(optimised(text.replace("r16 = isubw r15 r12", "r16 = isubw r6 r12")))
    assert front is not None and "idx" not in copy and "r15 = iadd r15 r19 else" in copy
