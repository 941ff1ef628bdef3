"""Random Python programs for the differential fuzzer: text of a module with a function `main`, and the arguments for its calls.

The generator knows the type of each variable, so that most programs run to their end; errors come from statements that are meant
to raise and from a few that may. Numbers in arrays are small and whole: whatever the order of a sum, it is exact. What a loop
changes grows by a little on each trip: nothing is doubled or squared there (`few`, `small`), as twenty trips of that fill the
memory.
"""

import random

import numpy as np
from iterator_statements import Iterators
from more_statements import More

PRELUDE = '''\
import contextlib
import dataclasses
import enum
import functools
import itertools
import operator
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple

import numpy as np

Pair = namedtuple("Pair", "first second")
log = []
table = {"a": 1, "b": 2.5}
count = 0


def opaque(v):
    log.append(type(v).__name__)
    return v


def twice(v, k=2, *rest, scale=1, **more):
    return v * k * scale + len(rest) + len(more)


def tail(n, acc=0):
    return acc if n <= 0 else tail(n - 1, acc + n)


def steps(n, start=0):
    for k in range(n):
        yield start + k


def scaled(k):
    return lambda v: v * k


def counting():
    made = 0

    def counted(v):
        nonlocal made
        made += 1
        return v + made

    return counted


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    def mixed(self, v):
        return v + self.value


class Mark(enum.Flag):
    A = 1
    B = 2


def bump(by=1):
    global count
    count += by
    return count


@contextlib.contextmanager
def noted(name):
    log.append("in " + name)
    try:
        yield len(name)
    finally:
        log.append("out " + name)


class Guard:
    def __init__(self, name, swallow=()):
        self.name, self.swallow = name, swallow

    def __enter__(self):
        log.append(self.name)
        return self

    def __exit__(self, kind, error, traceback):
        log.append((self.name, kind.__name__ if kind else None))
        return kind is not None and issubclass(kind, self.swallow)


class Box:
    shared = 3

    def __init__(self, value, extra=None):
        self.value = value
        self.extra = [] if extra is None else extra

    @property
    def doubled(self):
        return self.value * 2

    def add(self, v):
        self.value = self.value + v
        self.extra.append(v)
        return self

    def __add__(self, other):
        return Box(self.value + (other.value if isinstance(other, Box) else other))

    def __len__(self):
        return len(self.extra)

    def __iter__(self):
        return iter(self.extra)

    def __getitem__(self, i):
        return self.extra[i]

    def __call__(self, v):
        return self.value + v

    @classmethod
    def of(cls, v):
        return cls(v)

    @staticmethod
    def plus(a, b):
        return a + b


class Slim(Box):
    __slots__ = ("own",)

    def add(self, v):
        super().add(v)
        self.own = v
        return self


@dataclasses.dataclass
class Point:
    x: float
    y: float = 2.0

    def norm(self):
        return self.x * self.x + self.y * self.y


@dataclasses.dataclass(frozen=True, order=True)
class Still:
    x: int
    tags: list = dataclasses.field(default_factory=list, compare=False)
'''

CALLBACKS = '''

def failing(v, *rest):
    log.append("failing")
    if type(v) is not str:
        raise ValueError(f"failing of {type(v).__name__}")
    return v


def failing_items(n):
    yield 1.0
    raise LookupError(n)


class Bad:
    """Each of its methods raises."""

    def __init__(self, error=ZeroDivisionError):
        self.error = error

    def refuse(self, *args, **kwargs):
        raise self.error("bad")

    __array__ = __array_ufunc__ = __array_function__ = __index__ = __eq__ = __lt__ = __iter__ = __getitem__ = refuse
    __float__ = __bool__ = __call__ = __radd__ = __enter__ = refuse

    def __hash__(self):
        raise self.error("no hash")

    def __exit__(self, *args):
        return False
'''

# Calls that raise: in Cython, in C, and in Python code that C or Cython calls. {x}: an array, {l}: a list, {i}: an int.
RAISING = (
    "np.random.RandomState('x')",
    "np.random.default_rng('seed')",
    "np.random.default_rng(3).integers(5, 1)",
    "np.random.default_rng(3).choice([], {i} + 20)",
    "np.random.default_rng(3).permuted({x}, axis=9)",
    "np.random.RandomState(3).multinomial(-1, [1.0])",
    "np.random.default_rng(3).normal(Bad())",
    "np.dot({x}, np.ones(77))",
    "np.add.reduce({x}, axis=7)",
    "np.concatenate([{x}, np.ones((2, 2, 2))])",
    "{x}.view('not a dtype')",
    "{x}.astype({i}).missing",
    "np.fromiter(failing_items({i}), float)",
    "np.frompyfunc(failing, 1, 1)({x})",
    "np.vectorize(failing)({x})",
    "np.apply_along_axis(failing, 0, {x})",
    "np.fromfunction(failing, (3,))",
    "np.piecewise({x}, [{x} > -9], [failing])",
    "np.asarray(Bad(), dtype=float)",
    "{x} + Bad()",
    "{x}[Bad()]",
    "np.sum(Bad(KeyError))",
    "np.array([1.0, Bad()], dtype=float)",
    "sorted([3, 'a', {i}])",
    "sorted({l} + [1], key=failing)",
    "max({l} + [1], key=failing)",
    "list(map(failing, {l} + [{i}]))",
    "functools.reduce(failing, {l} + [1, 2])",
    "[Bad()].index(4)",
    "{{Bad(): 1}}",
    "sum(failing_items({i}))",
    "operator.itemgetter(9)({l}[:2])",
    "int('q' * {i} + 'q')",
    "bool(Bad())",
    "sorted([Bad(), Bad()])",
    "dict.fromkeys(failing_items({i}))",
    "np.linalg.inv(np.zeros((2, 2)))",
    "np.load('no/such/file.npy')",
)


class Generator(Iterators, More):
    """One program. `names` maps a type to the variables in scope that surely have it."""

    TYPES = ("int", "float", "list", "dict", "str", "array", "box", "tuple", "bool")
    TYPES += ("queue", "bins", "named", "fun")

    def __init__(self, seed, arrays, raising=False):
        """raising: with calls that raise in C, in Cython, and in what these call."""
        self.raising = raising
        self.random = random.Random(seed)
        self.arrays = arrays
        self.lines = []
        self.fresh = 0
        self.budget = self.random.choice((4, 8, 14, 22))
        self.loops = 0  # loops around the current statement, inside this function
        self.trips = 0  # the same with those around the function
        self.functions = 0
        self.names = {kind: [] for kind in self.TYPES}

    # ---- small things

    def one(self, *choices):
        return self.random.choice(choices)

    def chance(self, p):
        return self.random.random() < p

    def name(self, kind):
        """A variable of the type, most often the latest ones; None where there is none."""
        known = self.names[kind]
        return known[-1 - min(int(self.random.expovariate(0.7)), len(known) - 1)] if known else None

    def emit(self, depth, line):
        self.lines.append("    " * depth + line)

    def new(self, kind):
        self.fresh += 1
        return f"{kind[0]}{self.fresh}"

    def small(self, number):
        """The text of an int as a factor."""
        return f"({number} % 10)" if self.trips else number

    def few(self, sequence):
        """The text of a list or string, short where a loop may join it to itself."""
        return f"{sequence}[:9]" if self.trips else sequence

    # ---- expressions

    def expression(self, kind, depth=2):
        simple = depth <= 0 or self.chance(0.3)
        if simple and self.name(kind):
            return self.name(kind)
        return getattr(self, kind if not simple else f"simple_{kind}")(depth - 1)

    def simple_int(self, depth):
        return str(self.random.randint(-4, 9))

    def simple_float(self, depth):
        return repr(self.random.randint(-6, 12) / 2)

    def simple_str(self, depth):
        return repr(self.one("a", "b", "xy", "", "key"))

    def simple_bool(self, depth):
        return self.one("True", "False")

    def simple_list(self, depth):
        return "[" + ", ".join(self.expression("int", 0) for _ in range(self.random.randint(0, 3))) + "]"

    def simple_tuple(self, depth):
        return f"({self.expression('int', 0)}, {self.expression('float', 0)})"

    def simple_dict(self, depth):
        return "{" + ", ".join(f'"{key}": {self.expression("int", 0)}' for key in self.random.sample("abc", 2)) + "}"

    def simple_array(self, depth):
        return "np.arange(4.0)" if self.arrays else "[1.0, 2.0]"

    def simple_box(self, depth):
        return f"{self.one('Box', 'Box', 'Slim')}({self.expression('int', 0)})"

    def simple_queue(self, depth):
        return f"deque({self.simple_list(0)}{self.one('', ', maxlen=3')})"

    def simple_bins(self, depth):
        return f"{self.one('defaultdict(int, ', 'OrderedDict(', 'defaultdict(lambda: 3, ')}{self.simple_dict(0)})"

    def simple_named(self, depth):
        return f"Pair({self.expression('int', 0)}, {self.expression('float', 0)})"

    def simple_fun(self, depth):
        return self.one("twice", "abs", f"scaled({self.small(self.expression('int', 0))})", "(lambda q: q - 1)", "counting()")

    def int(self, depth):
        e = lambda kind="int": self.expression(kind, depth)
        form = self.random.randrange(33)
        if form < 5:
            left, sign, right = e(), self.one("+", "-", "*", "&", "|"), e()
            return f"({left} {sign} {self.small(right) if sign == '*' else right})"
        if form == 5:
            return f"({e()} {self.one('//', '%')} {self.one(e(), '3', '5')})"
        if form == 6:
            return f"len({self.expression(self.one('list', 'dict', 'str', 'tuple', 'box'), depth)})"
        if form == 7:
            return f"sum({e('list')})"
        if form == 8:
            return f"{self.one('max', 'min')}({e()}, {e()})"
        if form == 9:
            return f"({e()} if {e('bool')} else {e()})"
        if form == 10:
            return f"abs({e()})"
        if form == 11:
            return f"twice({e()}, {self.one('3', 'k=3', '2, 5', 'scale=2', '3, z=1', '*(2, 3)', '**{chr(107): 2}')})"
        if form == 12:
            return f"tail({self.random.randint(0, 5)})"
        if form == 13:
            return f"(lambda q, r={e()}: q + r)({e()})"
        if form == 14:
            return f"bump({self.one('', e())})"
        if form == 15:
            return f"int({e('float')})"
        if form == 16:
            items = self.one(e("list"), "range(3)", "steps(3)", "steps(2, 1)")
            return f"sum({self.one('x * 2', 'x + ' + e(), 'x')} for x in {items})"
        if form == 17:
            return f"{e('dict')}.get({self.simple_str(0)}, {e()})"
        if form == 18 and self.name("list"):
            return f"({self.name('list')} or [7])[{self.one('0', '-1', '0')}]"
        if form == 19:
            return f"functools.reduce(operator.add, {e('list')}, {e()})"
        if form == 20:
            return f"len({e(self.one('queue', 'bins', 'named'))})"
        if form == 21 and self.name("queue"):
            return f"({self.name('queue')}[{self.one('0', '-1')}] if {self.name('queue')} else {e()})"
        if form == 22:
            return f"{e('bins')}.get({self.simple_str(0)}, {e()})"
        if form == 23 and self.name("bins"):
            return f"{self.name('bins')}[{self.simple_str(0)}]"
        if form == 24:
            return f"{e('named')}{self.one('.first', '[0]')}"
        if form in (25, 26, 27):
            return f"{e('fun')}({e()})"
        if form == 28:
            return f"{self.one('max', 'min')}({e('list')} + [1], key={e('fun')})"
        if form == 29:
            return f"Color({self.one('1', '2', '3 - ' + self.one('1', '2'))}).{self.one('value', f'mixed({e()})')}"
        if form == 30:
            return f"Still({e()}).x"
        if form == 31:
            return f"Counter({self.simple_str(0)})[{self.simple_str(0)}]"
        if form == 32:
            return f"sum({e('bins')}.values())"
        return f"opaque({e()})"

    def float(self, depth):
        e = lambda kind="float": self.expression(kind, depth)
        form = self.random.randrange(10)
        if form < 3:
            return f"({e()} {self.one('+', '-', '*')} {e(self.one('float', 'int'))})"
        if form == 3:
            return f"({e()} / {self.one('2', '4.0', '0.5')})"
        if form == 4:
            return f"float({e('int')})"
        if form == 5 and self.arrays:
            return f"float({self.array_value(depth)})"
        if form == 6:
            return f"Point({e()}).norm()"
        if form == 7:
            return f"({e()} if {e('bool')} else {e()})"
        if form == 8:
            return f"opaque({e()})"
        return f"round({e()}, 1)"

    def bool(self, depth):
        e = lambda kind: self.expression(kind, depth)
        form = self.random.randrange(16)
        if form == 11:
            return f"({e('int')} in {e('queue')})"
        if form == 12:
            return f"({self.simple_str(0)} {self.one('in', 'not in')} {e('bins')})"
        if form == 13:
            kind = self.one("fun", "queue", "bins", "named")
            return f"({e(kind)} {self.one('is', 'is not')} {e(kind)})"
        if form == 14:
            return f"({e('named')} {self.one('==', '!=', '<')} {e(self.one('named', 'tuple'))})"
        if form == 15:
            return f"(Mark.A in (Mark(3) & Mark.{self.one('A', 'B')}))"
        if form < 4:
            kind = self.one("int", "float", "int", "str")
            return f"({e(kind)} {self.one('<', '<=', '==', '!=', '>')} {e(kind)})"
        if form == 4:
            return f"(not {e('bool')})"
        if form == 5:
            return f"({e('bool')} {self.one('and', 'or')} {e('bool')})"
        if form == 6:
            return f"({e('int')} in {e(self.one('list', 'tuple'))})"
        if form == 7:
            return f"({self.simple_str(0)} {self.one('in', 'not in')} {e('dict')})"
        if form == 8:
            kind = self.one("list", "dict", "box", "array", "str")
            return f"({e(kind)} {self.one('is', 'is not')} {e(kind)})"
        if form == 9:
            return f"isinstance({e(self.one('int', 'float', 'list', 'box'))}, {self.one('int', 'float', '(int, list)', 'Box')})"
        return f"bool({self.array_value(depth)} > {e('int')})" if self.arrays else f"any({e('list')})"

    def in_text(self, kind):
        """An expression for the inside of an f-string, where 3.11 takes neither its quotes nor backslashes nor further braces."""
        value = self.expression(kind, 1)
        return self.name(kind) or "7" if any(c in value for c in "\"\\{}:") else value

    def str(self, depth):
        e = lambda kind="str": self.expression(kind, depth)
        form = self.random.randrange(7)
        if form == 0:
            return f"({e()} + {self.few(e())})"
        if form == 1:
            return f'f"{{{self.in_text("int")}}}:{{{self.in_text("float")}:.2f}}"'
        if form == 2:
            return f"str({e(self.one('int', 'float', 'tuple', 'list'))})"
        if form == 3:
            return f"{e()}.{self.one('upper()', 'strip()', 'replace(chr(97), chr(98))', 'title()')}"
        if form == 4:
            return f'"-".join(str(x) for x in {e("list")})'
        if form == 5:
            return f'"%s %d" % ({e()}, {e("int")})'
        return f"{e()}[{self.one('1:', ':1', '::-1')}]"

    def list(self, depth):
        e = lambda kind="list": self.expression(kind, depth)
        form = self.random.randrange(16)
        if form == 10:
            return f"[*{e('queue')}]"
        if form == 11:
            return f"list({e('bins')}{self.one('.values()', '.values()', '.values()')})"
        if form == 12:
            return f"sorted({e()}, key={e('fun')}{self.one('', ', reverse=True')})"
        if form == 13:
            return f"[{e('fun')}(x) for x in {e()}]"
        if form == 14:
            return f"[y for x in {self.few(e())} for y in ({e('named')}.first, x)]"
        if form == 15:
            return f"list(map({e('fun')}, {e()}))"
        if form == 0:
            return f"[{e('int')}, *{e()}]"
        if form == 1:
            return f"[x {self.one('+', '*')} {self.small(e('int'))} for x in {e()}{self.one('', ' if x > 1', ' if x % 2')}]"
        if form == 2:
            return f"list(range({self.random.randint(0, 5)}))"
        if form == 3:
            return f"sorted({e()}{self.one('', ', reverse=True', ', key=lambda z: -z')})"
        if form == 4:
            return f"({e()} + {self.few(e())})"
        if form == 5:
            return f"{e()}[{self.one('1:', ':-1', '::-1', ':')}]"
        if form == 6:
            return f"[x * {self.small('y')} for x, y in zip({e()}, {self.one(e(), 'range(9)', 'itertools.count(1)')})]"
        if form == 7:
            return f"[i * x for i, x in enumerate({e()})]"
        if form == 8:
            made = self.one("map(abs, {})", "filter(None, {})", "reversed({})", "steps(len({}))", "set({})")
            return f"sorted({made.format(e())})"
        return f"opaque({e()})"

    def tuple(self, depth):
        e = lambda kind: self.expression(kind, depth)
        return self.one(
            f"({e('int')}, {e('float')}, {e('int')})",
            f"tuple({e('list')})",
            f"({e('int')},) + {e('tuple')}",
            f"divmod({e('int')}, 3)",
        )

    def dict(self, depth):
        e = lambda kind: self.expression(kind, depth)
        return self.one(
            f'{{"a": {e("int")}, "c": {e("int")}}}',
            f"{{**{e('dict')}, {self.simple_str(0)}: {e('int')}}}",
            f"{{str(k): k for k in {e('list')}}}",
            f"dict(a={e('int')}, k={e('int')})",
            f"({e('dict')} | {e('dict')})",
        )

    def queue(self, depth):
        e = lambda kind: self.expression(kind, depth)
        return self.one(f"deque({e('list')})", f"deque({e('list')}, {self.one('2', 'maxlen=4')})", f"{e('queue')}.copy()")

    def bins(self, depth):
        e = lambda kind: self.expression(kind, depth)
        return self.one(f"defaultdict(int, {e('dict')})", f"OrderedDict({e('dict')})", f"{e('bins')}.copy()")

    def named(self, depth):
        e = lambda kind: self.expression(kind, depth)
        return self.one(
            f"Pair({e('int')}, {e('float')})",
            f"Pair(second={e('float')}, first={e('int')})",
            f"{e('named')}._replace(second={e('float')})",
            f"{e('named')}._replace(first={e('int')})",
            f"Pair._make([{e('int')}, {e('float')}])",
        )

    def fun(self, depth):
        e = lambda kind: self.expression(kind, depth)
        return self.one(
            f"scaled({self.small(e('int'))})",
            f"(lambda q, r={e('int')}: q + r)",
            f"(lambda q: q * ({self.name('int') or '2'} % 10))",  # a loop may change it behind
            f"functools.partial(twice, k={self.small(e('int'))})",
            "counting()",
        )

    def box(self, depth):
        e = lambda kind: self.expression(kind, depth)
        return self.one(
            f"Box({e('int')}, {e('list')})",
            f"({e('box')} + {e('int')})",
            f"Slim({e('int')}).add({e('int')})",
            f"Box.of({e('int')})",
        )

    def array(self, depth):
        if not self.arrays:
            return f"[float(v) for v in {self.expression('list', depth)}]"
        e = lambda kind="array": self.expression(kind, depth)
        x = self.name("array") or "np.arange(4.0)"
        form = self.random.randrange(13)
        if form < 4:
            return f"({e()} {self.one('+', '-', '*')} {self.one(e('int'), e('float'), x, x + '.sum()')})"
        if form == 4:
            return f"np.{self.one('maximum', 'minimum')}({x}, {self.one(e('int'), x + '[::-1]', '0.5')})"
        if form == 5:
            return f"np.where({x} > {e('int')}, {x}, {self.one(e('int'), '-' + x)})"
        if form == 6:
            return f"{x}[{self.one('::-1', '1:', ':', '...', ':2')}]"
        if form == 7:
            return f"np.{self.one('zeros_like', 'ones_like', 'abs', 'sign', 'cumsum', 'copy')}({x})"
        if form == 8:
            form = self.one("copy()", "clip(-3, 4)", "reshape(-1)", "astype(np.int64)", "astype(np.float32)", "T", "ravel()")
            return f"{x}.{form}"
        if form == 9:
            return f"np.array({e('list')} + [1, 2], dtype=float)"
        if form == 10:
            return f"opaque({x})"
        if form == 11:
            return f"twice({x}, {e('int')})"
        return f"Box({x}).doubled"

    def array_value(self, depth):
        x = self.name("array") or "np.arange(4.0)"
        return f"{x}.{self.one('sum()', 'max()', 'min()', 'sum()', 'size')}"

    # ---- statements

    def block(self, depth, size=None):
        """A block with a scope of its own: what it assigns may be missing behind it."""
        before = {kind: list(names) for kind, names in self.names.items()}
        for _ in range(size or self.random.randint(1, 3)):
            self.statement(depth)
        self.names = before

    def assign(self, depth, kind=None):
        kind = kind or self.one(*self.TYPES, "int", "float", "list", "array", "array")
        value = self.expression(kind, 2)
        old = self.name(kind)
        target = old if old and self.chance(0.3) else self.new(kind)
        if self.chance(0.05):
            self.emit(depth, f"if ({target} := {value}) is None:")
            self.emit(depth + 1, "bump()")
        else:
            self.emit(depth, f"{target} = {value}")
        if target not in self.names[kind]:
            self.names[kind].append(target)

    def statement(self, depth):
        self.budget -= 1
        if self.budget < 0 or depth > 5:
            return self.assign(depth)
        if self.raising and self.chance(0.25):
            return self.call_that_raises(depth)
        form = self.random.choices(
            (self.assign, self.change, self.branch, self.loop, self.attempt, self.context)
            + (self.function, self.trouble, self.leave, self.iterators, self.more),
            (30, 22, 12, 12, 8, 6, 5, 4, 2, 14, 20),
        )[0]
        return form(depth)

    def change(self, depth):
        """Something outside of the frame changes, or a name is rebound in place."""
        e = self.expression
        forms = [f"log.append({e(self.one('int', 'str', 'float'), 1)})", f"bump({e('int', 1)})"]
        forms += [f"table[{self.simple_str(0)}] = {e('int', 1)}"]
        if self.name("list"):
            x = self.name("list")
            forms += [f"{x}.append({e('int', 1)})", f"{x}.extend({self.few(e('list', 1))})", f"{x}.insert(0, {e('int', 1)})"]
            forms += [f"{x}.reverse()", f"{x}.sort()", f"{x} += [{e('int', 1)}]", f"{x}[:1] = [{e('int', 1)}]"]
            forms += [f"{x}[-1:] = []", f"del {x}[:1]"]
        if self.name("dict"):
            d = self.name("dict")
            forms += [f"{d}[{self.simple_str(0)}] = {e('int', 1)}", f"{d}.update(z={e('int', 1)})"]
            forms += [f"{d}.pop({self.simple_str(0)}, None)", f"{d}.setdefault({self.simple_str(0)}, {e('int', 1)})"]
        if self.name("box"):
            b = self.name("box")
            forms += [f"{b}.value = {e('int', 1)}", f"{b}.add({e('int', 1)})", f"{b}.value += 1"]
            forms += [f"setattr({b}, 'extra', {e('list', 1)})", f"Box.shared += {e('int', 0)}", f"{b}.later = {e('int', 1)}"]
        if self.name("queue"):
            q = self.name("queue")
            forms += [f"{q}.append({e('int', 1)})", f"{q}.appendleft({e('int', 1)})", f"{q}.extend({self.few(e('list', 1))})"]
            forms += [f"{q}.rotate({self.one('', '-1', '2')})", f"{q}.extendleft({self.few(e('list', 1))})", f"{q}.reverse()"]
            forms += [f"if {q}: log.append({q}.{self.one('pop', 'popleft')}())"]
            forms += [f"if {q}: {q}[{self.one('0', '-1')}] = {e('int', 1)}"]
            forms += [f"if {q}: del {q}[0]", f"{q}.insert(1, 5) if {q}.maxlen is None else {q}.clear()"]
        if self.name("bins"):
            d = self.name("bins")
            forms += [f"{d}[{self.simple_str(0)}] = {e('int', 1)}", f"{d}.update(z={e('int', 1)})"]
            forms += [f"{d}.pop({self.simple_str(0)}, None)", f"{d}.setdefault({self.simple_str(0)}, {e('int', 1)})"]
            forms += [f"{d}[{self.simple_str(0)}] += {e('int', 1)}", f"if {d}: log.append({d}.popitem())"]
            forms += [f"if type({d}) is OrderedDict and 'a' in {d}: {d}.move_to_end('a'{self.one('', ', last=False')})"]
        if self.name("named"):
            forms += [f"{self.name('named')} = {self.name('named')}._replace(first={e('int', 1)})"]
        for kind in ("int", "float"):
            if self.name(kind):
                name, sign, value = self.name(kind), self.one("+=", "-=", "*="), e(kind, 1)
                forms.append(f"{name} {sign} {self.small(value) if sign == '*=' else value}")
        if self.arrays and self.name("array"):
            x = self.name("array")
            forms += 2 * [f"{x} {self.one('+=', '-=', '*=')} {e('int', 1)}"]
            forms += 2 * [f"{x}[{self.one('0', '-1', ':', '::2', '1:')}] = {e('int', 1)}"]
            forms += [f"{x}[{self.one(':', '...')}] += {self.one('1', x)}", f"np.add({x}, 1, out={x})"]
            forms += [f"{x}.fill({e('int', 1)})", f"{x} = {e('array', 2)}", f"log.append({x}.shape)"]
        self.emit(depth, self.one(*forms))

    def condition(self):
        if self.arrays and self.chance(0.3):
            return f"{self.array_value(1)} {self.one('>', '<', '==')} {self.expression('int', 1)}"
        return self.expression(self.one("bool", "bool", "int", "list"), 2)

    def branch(self, depth):
        self.emit(depth, f"if {self.condition()}:")
        self.block(depth + 1)
        if self.chance(0.2):
            self.emit(depth, f"elif {self.condition()}:")
            self.block(depth + 1)
        if self.chance(0.5):
            self.emit(depth, "else:")
            self.block(depth + 1)

    def loop(self, depth):
        e = self.expression
        form = self.random.randrange(11)
        before = {kind: list(names) for kind, names in self.names.items()}
        self.loops += 1
        self.trips += 1
        if form == 0:
            i = self.new("while")
            self.emit(depth, f"{i} = 0")
            self.emit(depth, f"while {i} < {self.random.randint(1, 5)} and {self.condition()}:")
            self.emit(depth + 1, f"{i} += 1")
        elif form in (1, 2, 3):
            i = self.new("int")
            self.emit(depth, f"for {i} in range({self.one('2', '3', '5', '1, 4', 'len(log) % 5', '20', '4, 0, -1')}):")
            self.names["int"].append(i)
        elif form == 4:
            i = self.new("int")
            self.emit(depth, f"for {i} in {self.one('list(%s)' % e('list', 1), e('tuple', 1), 'steps(3)', 'steps(2, 5)')}:")
            self.names["int"].append(i)
        elif form == 5:
            i, j = self.new("int"), self.new("int")
            pairs = self.one("enumerate((3, 1, 2))", "enumerate([4, 5], 1)", "zip((3, 1), (2, 6))", "zip([4, 5], steps(3))")
            self.emit(depth, f"for {i}, {j} in {pairs}:")
            self.names["int"] += [i, j]
        elif form == 6:
            i, j = self.new("str"), self.new("float")
            self.emit(depth, f"for {i}, {j} in sorted({e('dict', 1)}.items()):")
            self.names["str"].append(i)
            self.names["float"].append(j)
        elif form == 8:
            i = self.new("int")
            self.emit(depth, f"for {i} in {e('queue', 1)}:")
            self.names["int"].append(i)
        elif form == 9:
            i, j = self.new("str"), self.new("int")
            self.emit(depth, f"for {i}, {j} in {e(self.one('bins', 'dict'), 1)}.items():")
            self.names["str"].append(i)
            self.names["int"].append(j)
        elif form == 10:
            i, j = self.new("int"), self.new("float")
            self.emit(depth, f"for {i}, {j} in [{e('named', 1)}, {e('named', 1)}]:")
            self.names["int"].append(i)
            self.names["float"].append(j)
        elif self.arrays and self.name("array"):
            i = self.new("float")
            self.emit(depth, f"for {i} in {self.name('array')}[:3]:")
        else:
            i = self.new("int")
            self.emit(depth, f"for {i} in range(3):")
            self.names["int"].append(i)
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth + 1)
        if self.chance(0.25):
            self.emit(depth + 1, f"if {self.condition()}:")
            self.emit(depth + 2, self.one("break", "continue"))
        self.names = before
        self.loops -= 1
        self.trips -= 1
        if self.chance(0.15):
            self.emit(depth, "else:")
            self.block(depth + 1)

    def attempt(self, depth):
        self.emit(depth, "try:")
        before = {kind: list(names) for kind, names in self.names.items()}
        self.block(depth + 1)
        if self.chance(0.6):
            self.trouble(depth + 1)
        kind = self.random.randrange(3)
        if kind < 2:
            caught = self.one("ValueError", "(KeyError, IndexError)", "Exception", "ArithmeticError", "LookupError")
            self.emit(depth, f"except {caught} as error:")
            self.emit(depth + 1, "log.append(str(error))")
            self.block(depth + 1, 1)
        if kind == 1 and self.chance(0.4):
            self.emit(depth, "else:")
            self.block(depth + 1, 1)
        if kind > 0:
            self.emit(depth, "finally:")
            self.names = before
            self.block(depth + 1, 1)
        self.names = before

    def context(self, depth):
        form = self.one(
            "noted('n')",
            "noted('mm') as width",
            "Guard('g')",
            "Guard('g', ValueError) as guard",
            "Guard('g', (LookupError, ArithmeticError))",
            "noted('a'), Guard('b', ValueError)",
            "contextlib.suppress(ValueError, ZeroDivisionError)",
            "np.errstate(all='ignore')" if self.arrays else "contextlib.nullcontext()",
        )
        self.emit(depth, f"with {form}:")
        self.block(depth + 1)
        if self.chance(0.2):
            self.trouble(depth + 1)

    def function(self, depth):
        """A function in the function, and a call of it."""
        if self.functions >= 2:
            return self.assign(depth)
        self.functions += 1
        name, loops = self.new("function"), self.loops
        outer = {kind: list(names) for kind, names in self.names.items()}
        self.loops = 0
        kind = self.one("int", "int", "array", "list")
        rebound, given = self.name("int"), self.new("int")
        self.emit(depth, f"def {name}({given}{self.one('', ', q=2', ', *, q=3')}):")
        if rebound and self.chance(0.5):
            self.emit(depth + 1, f"nonlocal {rebound}")
            self.emit(depth + 1, f"{rebound} += {given}")
        else:  # names of the outer function are read only
            rebound = None
        self.names = {k: [n for n in names if n == rebound] for k, names in outer.items()}
        self.names["int"].append(given)
        read = outer[kind][-1:] if kind != "int" else []
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth + 1)
        value = self.expression(kind, 2)
        self.emit(depth + 1, f"return {read[0] + ' + ' + value if read and kind == 'list' else value}")
        self.names, self.loops = outer, loops
        target = self.new(kind)
        self.emit(depth, f"{target} = {name}({self.expression('int', 1)})")
        self.names[kind].append(target)

    def trouble(self, depth):
        e = self.expression
        forms = [
            f"raise ValueError({e('str', 1)})",
            f"{e('list', 1)}[{self.one('9', '0', '2')}]",
            f"{e('dict', 1)}[{self.simple_str(0)}]",
            f"{e('int', 1)} // {e('int', 1)}",
            f"assert {e('bool', 1)}, {e('str', 1)}",
            f"int({e('str', 1)})",
            f"{e('int', 1)} + {e('str', 1)}",
            f"{e('box', 1)}.missing",
            "undefined_name",
            f"if {e('bool', 1)}: raise KeyError({e('int', 1)})",
        ]
        if self.arrays:
            x = self.name("array") or "np.arange(3.0)"
            forms += [f"{x} + np.ones(77)", f"{x}[99]", f"{x}.reshape(2, 2)", f"{x} @ np.ones((9, 9))"]
        self.emit(depth, self.one(*forms))

    def call_that_raises(self, depth):
        x = self.name("array") if self.name("array") and self.chance(0.8) else "np.arange(4.0)"
        index = f"abs({self.small(self.expression('int', 0))}) % 10"
        call = self.one(*RAISING).format(x=x, l=self.expression("list", 0), i=index)
        self.emit(depth, "try:")
        self.emit(depth + 1, f"{self.one('', 'log.append', 'opaque')}({call})")
        self.emit(depth, f"except {self.one('Exception', 'Exception', '(ValueError, TypeError)')} as error:")
        self.emit(depth + 1, "log.append((type(error).__name__, str(error)))")
        if self.chance(0.3):
            self.emit(depth, "finally:")
            self.block(depth + 1, 1)

    def leave(self, depth):
        if self.loops and self.chance(0.6):
            self.emit(depth, f"if {self.condition()}: {self.one('break', 'continue')}")
        elif self.chance(0.5):
            self.emit(depth, f"if {self.condition()}: return {self.expression(self.one('int', 'list', 'array'), 1)}")
        else:
            self.assign(depth)

    def program(self):
        self.emit(0, "def main(n, f, xs, d, s, b, u, v, dq, dd, p, fn):")
        self.names.update(int=["n"], float=["f"], list=["xs"], dict=["d"], str=["s"], box=["b"], array=["u", "v"])
        self.names.update(queue=["dq"], bins=["dd"], named=["p"], fun=["fn"])
        while self.budget > 0:
            self.statement(1)
        known = [names[-1] for names in self.names.values() if names]
        chosen = self.random.sample(known, min(len(known), 4))
        if self.arrays and self.chance(0.5):
            chosen.append(self.names["array"][-1])
        self.emit(1, f"return {', '.join(chosen)}")
        return "\n".join(self.lines) + "\n"


def program(seed, arrays, raising=False):
    text = Generator(seed, arrays, raising).program()
    return CALLBACKS.lstrip() + "\n\n" + text if raising else text


def array(rng, size, arrays):
    values = rng.integers(-3, 6, size)
    return values.astype(float) if arrays else [float(v) for v in values.ravel()]


def arguments(namespace, seed, turn, arrays):
    """Arguments of main for call number `turn`: the same for the same numbers."""
    rng = np.random.default_rng((seed, turn if turn != 1 else 0))  # the second call has the values of the first
    shape = (int(rng.choice((2, 3, 4, 5, 8))),) if seed % 4 else (int(rng.integers(2, 5)), int(rng.integers(2, 5)))
    u, v = array(rng, shape, arrays), array(rng, shape, arrays)
    if seed % 7 == 0 and turn == 2:
        v = u
    numbers = [int(n) for n in rng.integers(-3, 8, int(rng.integers(0, 5)))]
    n, f = int(rng.integers(-3, 7)), float(rng.integers(-8, 9)) / 2
    text = str(rng.choice(("a", "b", "key", "Some Text")))
    mapping = {key: int(rng.integers(-2, 5)) for key in ("a", "b", "c")[: int(rng.integers(1, 4))]}
    if turn == 3 and seed % 5 == 0:
        n = 10**20
    box = namespace["Box"](n, numbers if seed % 3 == 0 else None)
    queue = namespace["deque"](numbers, maxlen=None if seed % 2 else 4)
    bins = namespace["defaultdict"](int, mapping) if seed % 3 else namespace["OrderedDict"](mapping)
    function = namespace["scaled"](n) if turn < 3 or seed % 2 else namespace["counting"]()
    return [n, f, numbers, mapping, text, box, u, v, queue, bins, namespace["Pair"](n, f), function]
