"""Native loops over strings by character, bytes and bytearrays."""

import pytest
from regions import Case, check

TEXTS = ["the quick brown fox", "", "a", "aé\xffb", "\x00\x01"]


def hashed(s, h):
    for ch in s:
        h = (h * 33 + ord(ch)) & 0xFFFFFFFF
        last = ch
    return h, last


def vowels(s, n):
    for ch in s:
        if ch in "aeiou":
            n += 1
        elif ch == " " or ch not in s:
            n -= 1
    return n, ch


def compared(a, b, n):
    for i in range(len(a)):
        if a[i] == b[-i - 1]:
            n += 1
        n += (a[i] < b[i]) + (a[i] >= "m") + (b[i] != "ab") if i % 2 else len(a[i])
    return n, i


def checksum(data, c):
    for b in data:
        c = (c >> 1) ^ 0xEDB88320 ^ b if c & 1 else (c >> 1) + data[0]
    return c, b


def inverted(data, out):
    for i, b in enumerate(data):
        out[i] = 255 - b
        if 255 in data:
            out[-1] = b + i * 20
    return out


def shifted(s, n):
    for i in range(len(s)):
        c = chr(ord(s[i]) + n)
        if c and s and i > 3:
            break
    return c


@pytest.mark.parametrize("text", [t for t in TEXTS if t], ids=ascii)
def test_strings(text):
    check(hashed, (text, 5381), [iter(text)])
    check(vowels, (text, 0), [iter(text)])
    check(compared, (text, text[::-1], 0), [iter(range(len(text)))])
    for n in (0, 1, 200):
        check(shifted, (text, n), [iter(range(len(text)))])


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_bytes(kind):
    data = kind(range(250, 256)) + kind(b"some bytes")
    check(checksum, (data, 1), [iter(data)])
    check(inverted, (data, bytearray(len(data))), [enumerate(data)])
    check(inverted, (data, bytearray(3)), [enumerate(data)])


def test_a_string_with_large_codes_is_left_alone():
    text = "a€b"
    assert Case(hashed, (text, 1), [iter(text)]).refusal()[0] == "UNSUPPORTED_VALUE"


def iterated_inside(texts, s):
    for text in texts:
        for k, ch in enumerate(text):
            s += k * ord(ch)
            s += 7 // (k - 4)
    return s, ch


@pytest.mark.parametrize("texts", [["ab", "x\xe9z\xff"], ["x\xe9zabc"], ["ab", "abcdefg"], ["\xe9"]])
def test_an_iterator_that_is_made_at_an_exit_is_of_its_text(texts):
    check(iterated_inside, (texts, 0), [iter(texts)])


def asked(s, n):
    for i in range(len(s)):
        c = s[i]
        n = n * 3 % 1000003 + c.isspace() + 2 * c.isalpha() + 4 * c.isdigit() + 8 * c.isalnum()
        if c.isupper() or (c.islower() and c.isdecimal() is False):
            n += 16 + c.isnumeric()
    return n, c.isspace(), type(c.isalpha())


def test_what_a_character_is_asked():
    text = "".join(map(chr, range(256)))
    check(asked, (text, 0), [iter(range(256))])
    check(asked, ("aB 7\xb2\xbd\xdf", 0), [iter(range(7))])
