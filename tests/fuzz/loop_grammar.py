"""Random programs with loops over numbers and elements, for test_loops.py: deterministic from their seed.

A program is the text of one function of ints, floats and arrays, whose loops are nested, have every way out of them, raise,
overflow, mix types and write arrays that share memory. All of them end: ranges are short, and each while loop has fuel.
"""

import random
import warnings

import numpy as np

HEAD = "def f(n, m, k, x, y, a, b, c, d, e, p, q):"
NUMBERS = ("n", "m", "k", "x", "y", "s", "t", "u")
TARGETS = ("s", "t", "u", "x", "y")
BOUNDED = " and ".join(f"-1e30 < {name} < 1e30" for name in TARGETS)  # no ints of a million digits
ARRAYS = ("a", "b", "d", "e")
MOST_ITEMS = 24  # of a list that grows
DEPTH = 3


class Writer:
    """Writes one program.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = [HEAD, "    s = 0", "    t = 0.0", "    u = 1", "    w = [1, 0]"]
        self.loops, self.counter, self.indices = 0, 0, []

    def program(self):
        for _ in range(self.random.randint(1, 3)):
            self.loop(1, 0)
        self.lines.append("    return n, m, k, x, y, s, t, u, w")
        return "\n".join(self.lines) + "\n"

    def put(self, indent, text):
        self.lines.append("    " * indent + text)

    # ---- expressions

    def index(self):
        r = self.random.random()
        if self.indices and r < 0.75:
            i = self.random.choice(self.indices)
            return self.random.choice((i, i, i, f"{i} - 1", f"{i} + 1", f"-{i}", f"{i} // 2"))
        return self.random.choice(("0", "1", "-1", "2", "n", "k", "7"))

    def element(self):
        if self.random.random() < 0.3:
            return self.random.choice(("c[{}, {}]", "c[{}][{}]", "q[{}][{}]")).format(self.index(), self.index())
        if self.random.random() < 0.25:
            return f"{self.random.choice('pw')}[{self.index()}]"
        return f"{self.random.choice(ARRAYS)}[{self.index()}]"

    def atom(self):
        r = self.random.random()
        if r < 0.45:
            return self.random.choice(NUMBERS + tuple(self.indices))
        if r < 0.65:
            return self.element()
        numbers = ("0", "1", "2", "3", "-1", "7", "0.5", "1.5", "-2.0", "1e10", "True", "4611686018427387904", "len(a)", "len(p)")
        return self.random.choice(numbers)

    def condition(self, depth):
        r = self.random.random()
        if r < 0.7:
            return f"{self.value(depth)} {self.random.choice(('<', '<=', '>', '>=', '==', '!='))} {self.value(depth)}"
        if r < 0.8:
            return f"0 < {self.value(depth)} < {self.value(depth)}"
        if r < 0.9:
            return f"({self.condition(0)} {self.random.choice(('and', 'or'))} {self.condition(0)})"
        return f"not {self.value(depth)}"

    def value(self, depth):
        if depth <= 0:
            return self.atom()
        r = self.random.random()
        if r < 0.55:
            operator = self.random.choice(("+", "-", "*", "+", "-", "*", "/", "//", "%"))
            return f"({self.value(depth - 1)} {operator} {self.value(depth - 1)})"
        if r < 0.62:
            return f"({self.value(depth - 1)} if {self.condition(0)} else {self.value(depth - 1)})"
        if r < 0.68:
            return f"{self.random.choice(('abs', 'int', 'float', '-', 'bool'))}({self.value(depth - 1)})"
        if r < 0.74:
            return f"{self.random.choice(('min', 'max'))}({self.value(depth - 1)}, {self.value(depth - 1)})"
        if r < 0.78:
            return f"math.{self.random.choice(('sqrt', 'floor', 'sin', 'exp'))}({self.value(depth - 1)})"
        if r < 0.82:
            return f"({self.value(0)} {self.random.choice(('&', '|', '^', '>>', '<<'))} {self.random.choice(('1', '3', '62'))})"
        if r < 0.88:
            fold, over = self.random.choice(("sum", "any", "all", "max", "min")), self.random.choice(("p", "w", "range(m)", "a"))
            return f"{fold}({self.value(0)} * z for z in {over})"
        if r < 0.91:
            return f"({self.value(0)} ** {self.random.choice(('2', '3', '0.5', '-1'))})"
        return self.atom()

    # ---- statements

    def body(self, indent, depth):
        for _ in range(self.random.randint(1, 3)):
            self.statement(indent, depth)

    def statement(self, indent, depth):
        r = self.random.random()
        if r < 0.3:
            self.put(indent, f"{self.random.choice(TARGETS)} = {self.value(2)}")
        elif r < 0.5:
            operator = self.random.choice(("+=", "-=", "*=", "+="))
            self.put(indent, f"{self.random.choice(('s', 't', 'u', 'x'))} {operator} {self.value(1)}")
        elif r < 0.65:
            self.store(indent)
        elif r < 0.7:
            self.put(indent, self.random.choice(("s, t = t, s", f"w = {self.made()}")))
        elif r < 0.8:
            self.put(indent, f"if {self.condition(1)}:")
            self.body(indent + 1, depth)
            if self.random.random() < 0.4:
                self.put(indent, "else:")
                self.body(indent + 1, depth)
        elif r < 0.85 and self.indices:
            self.put(indent, f"if {self.condition(1)}:")
            self.put(indent + 1, self.random.choice(("break", "continue", "continue", "return s, t")))
        elif r < 0.88:
            self.put(indent, "try:")
            self.body(indent + 1, depth)
            self.put(indent, "except (ZeroDivisionError, IndexError, OverflowError):")
            self.put(indent + 1, "u += 1")
        elif depth < DEPTH and self.loops < 5:
            self.loop(indent, depth)
        else:
            self.put(indent, f"t = {self.value(1)}")

    def made(self):
        """A new list, of a few items that don't grow."""
        item = self.random.choice(("z", "z * 0.5", "k", "z > 1", "n - z"))
        condition = self.random.choice(("", "", " if z != 2", " if z < n"))
        return self.random.choice((f"[{item} for z in range(4){condition}]", "[0] * n", "[0.5, 1.5] + [k]", "[n, m]", "[True]"))

    def store(self, indent):
        element = self.element()
        if element[0] not in "pqw":
            self.put(indent, f"{element} {self.random.choice(('=', '+=', '-=', '*='))} {self.value(1)}")
            return
        self.put(indent, f"t = {self.value(1)}")
        self.put(indent, "if -1e30 < t < 1e30:")
        r = self.random.random()
        if r < 0.3:
            self.put(indent + 1, f"if len(p) < {MOST_ITEMS}:")
            self.put(indent + 2, "p.append(t)")
        elif r < 0.5:
            self.put(indent + 1, f"p[0], p[{self.index()}] = p[{self.index()}], t")
        else:
            self.put(indent + 1, f"{element} = t")

    def loop(self, indent, depth):
        self.loops += 1
        self.counter += 1
        name = f"i{self.counter}"
        r = self.random.random()
        if r < 0.65:
            span = self.random.choice(("n", "m", "len(a)", "1, n", "0, 7, 2", "m, -1, -1", "3", "n - 1", "0", "c.shape[0]"))
            self.put(indent, f"for {name} in range({span}):")
        elif r < 0.75:
            self.put(indent, f"for {name} in {self.random.choice(('a', 'b', 'p', 'q[0]', '(1, 2, 3)', '[0.5, 2]'))}:")
        else:
            self.put(indent, f"{name} = 0")
            self.put(indent, f"while {name} < {self.random.choice(('n', 'm', '4'))}:")
            self.put(indent + 1, f"{name} += 1")
        self.put(indent + 1, f"if not ({BOUNDED}):")
        self.put(indent + 2, f"{' = '.join(TARGETS)} = 1")
        self.indices.append(name)
        self.body(indent + 1, depth + 1)
        self.indices.pop()
        if self.random.random() < 0.2:
            self.put(indent, "else:")
            self.body(indent + 1, DEPTH)


def program(seed):
    """The text of the program with this seed."""
    return Writer(seed).program()


def arguments(seed):
    """Arguments for the program, made anew at each call; some of its arrays share memory."""
    r = random.Random(~seed)
    base = np.array([r.choice((0.0, 1.5, -2.25, 3.0, 1e3)) for _ in range(12)])
    a, e = base[:6], r.choice((base[:6], base[3:9], base[::2], base[6:]))
    b = np.array([r.choice((0, 1, 2, -3, 2**40)) for _ in range(6)])
    c = np.array([[r.choice((0.0, 0.5, -1.0, 4.0)) for _ in range(4)] for _ in range(4)], order=r.choice("CF"))
    d = np.array([r.choice((0, 1, 2, 3)) for _ in range(6)], dtype=r.choice(("f4", "i4", "?", "u1", "i8", "f8")))
    number = r.choice((2.5, -0.5, 0.0, np.float64(1.25), np.float64(-3.0)))
    numbers = r.choice((0, 1, 4, 5)), r.choice((0, 2, 3)), r.choice((1, 2, np.int64(3))), number, r.choice((1.0, 3, True))
    items = r.choice(((0.0, 1.5, -2.25), (1, 2, -3, 2**40), (True, False), (0, 0.5, True, 7)))
    p = [r.choice(items) for _ in range(r.choice((1, 5, 6)))]
    q = [[r.choice((0.0, 0.5, -1.0, 4.0)) for _ in range(4)] for _ in range(4)]
    if r.random() < 0.2:
        q[1] = p
    return (*numbers, a, b, c, d, e, p, q)


def plain(value):
    """The value as text that is the same where types and bits are (of NaN, whose sign says nothing)."""
    if isinstance(value, (tuple, list)):
        return tuple(map(plain, value))
    if isinstance(value, np.ndarray):
        return str(value.dtype), repr(np.where(value != value, 0, value).tolist()), repr((value != value).tolist())
    text = repr(value)
    return type(value).__name__, "nan" if text in ("nan", "-nan", "np.float64(nan)") else text


def lines_of(error):
    """The lines of a program that an exception came through; 0: one of something else."""
    at, lines = error.__traceback__, []
    while at.tb_next is not None and at.tb_next.tb_frame.f_code.co_filename == "<loops>":
        at = at.tb_next
    while at is not None:
        lines.append(at.tb_lineno if at.tb_frame.f_code.co_filename == "<loops>" else 0)
        at = at.tb_next
    return lines


def outcome(function, args):
    """What a call does: its value or exception with the line it came from, its warnings, and what its arrays hold."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = plain(function(*args))
        except Exception as error:
            result = type(error).__name__, str(error), lines_of(error)[-1]
    told = [(w.category.__name__, str(w.message), w.lineno) for w in caught]
    return result, told, tuple(plain(v) for v in args if isinstance(v, (np.ndarray, list)))


def make(text):
    """The function of a program's text."""
    import math

    scope = {"math": math, "np": np}
    exec(compile(text, "<loops>", "exec"), scope)
    return scope["f"]
