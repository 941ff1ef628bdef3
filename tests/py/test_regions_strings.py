"""Native loops that call CPython's functions of strings: methods, str() and its like, formats, operators."""

import pytest
from regions import Case, check


def cased(words, out):
    for w in words:
        out.append(w.upper() + w.lower() + w.title())
        out.append(w.capitalize() + w.swapcase() + w.casefold())
    return out


def stripped(words, out):
    for w in words:
        out.append(w.strip() + "|" + w.lstrip("a") + "|" + w.rstrip(None) + "|")
        out.append(w.replace("a", "bb") + w.replace("b", "", 1) + w.removeprefix("a") + w.removesuffix("c"))
        out.append(w.zfill(5) + w.ljust(4) + w.rjust(6, "*") + w.center(7, "-"))
    return out


WORDS = ["abc", "", " a b ", "Xy", "été", "ß\xff", "+7", "a"]


@pytest.mark.parametrize("loop", [cased, stripped])
def test_methods_that_give_a_string(loop):
    check(loop, (WORDS, []), [iter(WORDS)])


def split(lines, out):
    for line in lines:
        for part in line.split():
            out.append(part)
        a, b, c = line.partition(",")
        out.append("-".join(line.split(",")) + a + b + c)
        out.append("".join(line.rsplit(",", 1)) + line.rpartition("y")[0])
        n = len(line.splitlines()) + len(line.split(None, 1))
    return out, n


def joined(parts, out):
    for i in range(4):
        out.append(", ".join(parts[i:]))
        out.append(":".join(("x", "y")) + "/".join("abc"))
    return out


def test_methods_that_give_or_take_lists_of_strings():
    lines = ["a,b,c", "x y,z", "\xe9,\xff\n1", ","]
    check(split, (lines, []), [iter(lines)])
    check(joined, (["a", "", "bc"], []), [iter(range(4))])


def test_a_list_of_something_else_is_joined_by_cpython():
    check(joined, (["a", "b", 7], []), [iter(range(4))])


def asked(words, n):
    for w in words:
        n = n * 3 % 1000003 + w.startswith("a") + 2 * w.endswith(("c", "y")) + 4 * w.isalpha() + 8 * w.isdigit()
        n += 16 * w.isspace() + 32 * w.isupper() + 64 * w.islower() + 128 * w.isalnum() + 256 * w.istitle()
        n += w.isdecimal() + w.isnumeric() + w.isidentifier()
        n += w.find("b") + w.rfind("a", 1) + w.count("a") + w.index("") + w.rindex("")
        last = w.startswith("b", 1)
    return n, last


def test_methods_that_ask():
    check(asked, (WORDS, 0), [iter(WORDS)])


def sought(words, n):
    for w in words:
        n += w.index("c")
    return n


def test_an_exception_is_cpythons():
    check(sought, (["abc", "c", "ab"], 0), [iter(["abc", "c", "ab"])])


def made(numbers, out):
    for x in numbers:
        out.append(str(x) + repr(x) + ascii(x))
    return out


def in_bases(n, out):
    for i in range(n):
        out.append(hex(i * 7) + oct(i) + bin(-i))
        out.append(str(i == 2) + str(None) + str("x") + repr("q'\xe9"))
    return out


@pytest.mark.parametrize("numbers", [[1, -7, 2**62], [0.1, -0.0, 1e300], [True, False], ["a", "\xe9'"]])
def test_objects_become_strings(numbers):
    check(made, (numbers, []), [iter(numbers)])


def test_numbers_in_other_bases():
    check(in_bases, (3, []), [iter(range(3))])


def formatted(n, x, w, out):
    for i in range(n):
        out.append(f"{i}:{x:.3f} {w!r:>6}{i * i:04x}{x}{w}{x > i}{None}")
        out.append(f"{w}" + f"{i:>{i + 1}}" + format(x, "e") + format(i) + f"{w!s}{w!a}")
    return out


def by_percent(n, x, w, out):
    for i in range(n):
        out.append("%d" % i + "%s-%5.2f" % (w, x) + "%s" % w + "%r" % x + "%%%i" % True)
        out.append(w * i + i * "ab" + w * -1)
    return out


def test_formats():
    for w in ("a", "\xe9", ""):
        check(formatted, (3, 2.5, w, []), [iter(range(3))])
        check(by_percent, (3, 2.5, w, []), [iter(range(3))])


def wrong_formats(n, w, out):
    for i in range(n):
        out.append("%s" % i)
        if i == 2:
            out.append("%d" % w)
    return out


def wrong_specs(n, out):
    for i in range(n):
        out.append(f"{i:{'d' if i < 2 else 'zz'}}")
    return out


def test_a_format_that_does_not_fit_is_cpythons():
    check(wrong_formats, (4, "a", []), [iter(range(4))])
    check(wrong_specs, (4, []), [iter(range(4))])


def read(words, n, x):
    for w in words:
        n += int(w) + int(w, 8) + int("7")
        x += float(w) + float(w + ".5")
    return n, x


@pytest.mark.parametrize("words", [["1", "-22", " 7 "], ["1", "x"], ["1", str(2**70)], ["1", ""], ["7", "8"], ["1_0", "1__0"]])
def test_numbers_are_read(words):
    check(read, (words, 0, 0.0), [iter(words)])


def compared(words, n):
    for w in words:
        n = n * 2 + (w < "b") + (w >= words[0]) + ("a" in w) * 3 + ("ab" in w) * 5 + ("ab" not in w + "b") + (w in "xabc")
        n += w[::-1] == w
    return n


def stepped(words, out):
    for w in words:
        out.append(w[::-1] + w[::2] + w[-2::-1] + w[1:9:3])
        for k in range(1, 3):
            out.append(w[k::k])
        out.extend(sorted_letters(w))
    return out


def sorted_letters(w):
    return list(w)


def test_operators():
    check(compared, (WORDS, 0), [iter(WORDS)])
    check(stepped, (WORDS, []), [iter(WORDS)])


def characters(s, out, n):
    for c in s:
        n += ord(c) + ord(s[:1]) + int("7") + ord("x")
        out.append(c.upper() + c * 2 + str(c) + c.replace("a", "\xe9"))
        n += ord(c.lower()) + len(f"{c}") + (c < "b") + ("a" + c < "ab") + c.isdigit() + c.istitle()
    return out, n


def test_characters_have_the_methods_of_strings():
    check(characters, ("abc7 \xe9", [], 0), [iter("abc7 \xe9")])
    check(characters, ("a\xb5\xdf\xff", [], 0), [iter("a\xb5\xdf\xff")])


def unknown(n, w, out):
    for i in range(n):
        out.append(w.translate(i))
    return out


def not_plain(n, x, out):
    for i in range(n):
        out.append(f"{x}" + str(i))
    return out


def test_what_is_not_known_is_left_alone():
    assert Case(unknown, (3, "a", []), [iter(range(3))]).refusal()[0] in ("OPAQUE_CALL", "UNSUPPORTED_VALUE")
    assert Case(not_plain, (3, [1], []), [iter(range(3))]).refusal()[0] == "UNSUPPORTED_OP"
