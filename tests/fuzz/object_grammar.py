"""Random programs with loops over instances, dicts, sets, lists of tuples and strings, for test_loop_programs.py: deterministic
from their seed.

A program is a few classes and one function. What it is given are objects that share others; what is compared is all that can be
reached from them afterwards, in its order and with who is whom, what the function returns or raises, and what has died by then.
"""

import random

import loop_grammar

CLASSES = """
class P:
    scale = 2

    def __init__(self, x, y):
        self.x = x
        self.y = y

    def norm(self):
        return self.x * self.x + self.y

    def move(self, d):
        self.x += d
        return self.x

    def swap(self):
        self.x, self.y = self.y, self.x

    def fails(self, k):
        self.y = k
        return self.x // k

    @property
    def double(self):
        return self.x * 2

    def __add__(self, other):
        return P(self.x + other.x, self.y)

    def __mul__(self, k):
        return P(self.x * k, k)

    def __eq__(self, other):
        return isinstance(other, P) and self.x == other.x

    __hash__ = None

class Q(P):
    scale = 0.5

    def norm(self):
        return self.y

class S:
    __slots__ = "x", "y", "z"

    def __init__(self, x, y):
        self.x = x
        self.y = y

    def norm(self):
        return self.x

    def move(self, d):
        self.y = self.x
        self.x = d
        return d

class Told:
    def __init__(self, x, y):
        self.x = x
        self.y = y

    def norm(self):
        return self.y

    def move(self, d):
        self.x = d

    def __del__(self):
        died.append(self.x)

class Late:
    def __init__(self, x, y):
        if x:
            self.y = y
        self.x = x

    def norm(self):
        self.z = self.x
        return self.z

    def __getattr__(self, name):
        if name == "double":
            return 7
        raise AttributeError(name)

died = []

def helper(o, d, k):
    o.x = k
    d[k] = o.y
    return o.x + len(d)

def pick(a, k):
    if k in a:
        return a[k]
    return k

"""
HEAD = "def f(n, m, x, o, v, objects, table, names, pairs, seen, items, text, rows):"
NUMBERS = ("n", "m", "x", "s", "t", "u")
TARGETS = ("s", "t", "u", "x")
BOUNDED = " and ".join(f"-1e30 < {name} < 1e30" for name in TARGETS)
MOST = 20  # items of what grows
DEPTH = 3


class Writer:
    """Writes one program.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed):
        self.random = random.Random(seed * 2 + 1)
        self.lines = [HEAD, "    s = 0", "    t = 0.0", "    u = 1", "    w = [1, 0]", "    e = {}", "    c = 'a'"]
        self.loops, self.counter, self.indices, self.instances = 0, 0, [], ["o", "v", "o", "v"]
        self.oddity = self.random.choice((0.0, 0.02, 0.02, 0.1, 0.4))  # how much of it loops in native code don't know
        self.slotted = slotted(seed)

    def program(self):
        for _ in range(self.random.randint(1, 2)):
            self.loop(1, 0)
        self.lines.append("    return n, m, x, s, t, u, c, w, e, o, v")
        return CLASSES + "\n".join(self.lines) + "\n"

    def put(self, indent, text):
        self.lines.append("    " * indent + text)

    def choose(self, *choices, odd=()):
        return self.random.choice(odd if odd and self.random.random() < self.oddity else choices)

    # ---- expressions

    def index(self):
        if self.indices and self.random.random() < 0.7:
            i = self.random.choice(self.indices)
            return self.choose(i, i, i, f"{i} - 1", f"-{i}", f"{i} % 3")
        return self.choose("0", "1", "-1", "2", "n", "9")

    def instance(self):
        return self.choose(*self.instances, odd=(f"objects[{self.index()}]",))

    def key(self):
        common = ["n", "m", f"names[{self.index()}]", f"names[{self.index()}]", "'a'", "'key'", *self.indices, *self.indices, "7"]
        return self.choose(*common, odd=("True", "x", "(n, m)", "2 ** 70", "s", "c", f"text[{self.index()}]"))

    def mapping(self):
        return self.choose("table", "table", "e")

    def value(self, depth=1):
        r = self.random.random()
        if depth > 0 and r < 0.3:
            return f"({self.value(depth - 1)} {self.choose('+', '-', '*', '+', '//', '%', '/')} {self.value(depth - 1)})"
        if r < 0.5:
            return self.choose(*NUMBERS, *self.indices, "1", "2", "0.5", "-3", "10 ** 12")
        if r < 0.7:
            more = () if self.slotted else ("scale", "double")
            name = self.choose("x", "x", "y", "y", "norm()", "move(1)", *more, odd=("z", "scale", "double",
                    f"fails({self.key()})"))
            return f"{self.instance()}.{name}"
        if r < 0.8:
            mapping, key = self.mapping(), self.key()
            return self.choose(f"{mapping}[{key}]", f"{mapping}.get({key}, 0)",
                    f"{mapping}.get({key}, {self.value(0)})", f"len({mapping})",
                               f"pick({mapping}, {key})")
        if r < 0.95:
            i = self.index()
            common = (f"items[{i}]", f"items[{i}]", f"pairs[{i}][0]", f"pairs[{i}][1]", f"rows[{i}][{self.index()}]",
                    "len(items)", "items[-1]")
            called = f"helper({self.instance()}, {self.mapping()}, {self.value(0)})"
            odd = f"w[{i}]", f"ord(text[{i}])", "len(seen)", f"items.count({self.value(0)})", "sum(items)", called
            return self.choose(*common, "items.pop()", called, odd=odd)
        return f"({self.value(0)} if {self.condition()} else {self.value(0)})"

    def condition(self):
        r = self.random.random()
        if r < 0.35:
            return f"{self.value(0)} {self.choose('<', '<=', '==', '!=', '>')} {self.value(0)}"
        if r < 0.6:
            over = self.choose(self.mapping(), 'seen', 'seen', 'names', 'items')
            return f"{self.key()} {self.choose('in', 'not in')} {over}"
        if r < 0.75:
            return f"{self.instance()} {self.choose('is', 'is not', odd=('==',))} {self.choose(self.instance(), 'None')}"
        odd = (f"c == {self.choose(repr('a'), repr('b'), f'text[{self.index()}]')}", "table", "e", "seen",
                f"{self.instance()}")
        common = (f"isinstance({self.instance()}, P)", "items", f"table.get({self.key()}) is None",
                f"not {self.value(0)}", f"names[{self.index()}] == 'key'")
        return self.choose(*common, odd=odd)

    # ---- statements

    def body(self, indent, depth):
        for _ in range(self.random.randint(1, 4)):
            self.statement(indent, depth)

    def statement(self, indent, depth):
        r = self.random.random()
        if r < 0.2:
            self.put(indent, f"{self.random.choice(TARGETS)} {self.choose('=', '=', '+=', '-=')} {self.value()}")
        elif r < 0.35:
            name = f"{self.instance()}.{self.choose('x', 'y', odd=('z', 'w'))}"
            self.put(indent, f"{name} {self.choose('=', '=', '+=')} {self.value()}")
        elif r < 0.47:
            self.store(indent)
        elif r < 0.6:
            self.change(indent)
        elif r < 0.66:
            self.rebind(indent)
        elif r < 0.78:
            self.put(indent, f"if {self.condition()}:")
            self.body(indent + 1, depth)
            if self.random.random() < 0.4:
                self.put(indent, "else:")
                self.body(indent + 1, depth)
        elif r < 0.82 and self.indices:
            self.put(indent, f"if {self.condition()}:")
            self.put(indent + 1, self.choose("break", "continue", "continue", "return s, o"))
        elif r < 0.87 and self.random.random() < 0.1 + self.oddity:
            self.put(indent, "try:")
            self.body(indent + 1, depth)
            self.put(indent, "except (ZeroDivisionError, LookupError, AttributeError, TypeError, OverflowError):")
            self.put(indent + 1, "u += 1")
        elif depth < DEPTH and self.loops < 5:
            self.loop(indent, depth)
        else:
            self.put(indent, self.choose("s += 1", f"c = names[{self.index()}]", odd=("c = text[n]",
                    "c = c + 'b' if len(c) < 4 else 'a'")))

    def store(self, indent):
        mapping, key = self.mapping(), self.key()
        common = (f"{mapping}[{key}] = {self.value()}", f"{mapping}[{key}] += 1",
                f"{mapping}[{key}] = {mapping}.get({key}, 0) + 1",
                  f"seen.add({key})", f"seen.discard({key})", f"items[{self.index()}] = {self.value()}",
                          f"objects[{self.index()}] = {self.instance()}",
                  f"rows[{self.index()}][{self.index()}] = {self.value(0)}", f"items[{self.index()}] += {self.value(0)}")
        odd = (f"{mapping}[{key}] = {self.instance()}", f"{mapping}.setdefault({key}, {self.value(0)})",
                f"seen.remove({key})", f"del {mapping}[{key}]", f"s = {mapping}.pop({key}, 0)",
                f"{mapping}.pop({key})", f"s = {mapping}.setdefault({key}, 1)", f"del items[{self.index()}]")
        self.put(indent, self.choose(*common, odd=odd))

    def change(self, indent):
        grows = self.choose(("items", f"items.append({self.value()})"), ("pairs",
                f"pairs.append(({self.value(0)}, {self.value(0)}))"),
                            ("objects", f"objects.append({self.new()}({self.value(0)}, {self.value(0)}))"),
                            ("items", f"items.insert({self.index()}, {self.value(0)})"), ("items",
                                    f"items.extend([{self.value(0)}, n])"),
                            ("items", "items[n:n] = w"), ("rows", f"rows.append([{self.value(0)}] * 2)"), ("items",
                                    "items += w"),
                            ("pairs", f"pairs.append((c, {self.instance()}))"))
        if self.random.random() < 0.6:
            self.put(indent, f"if len({grows[0]}) < {MOST}:")
            self.put(indent + 1, grows[1])
        else:
            i, j = self.index(), self.index()
            common = ("items.reverse()", f"items[{i}:{j}] = [n, m]", f"w = items[{i}:{j}]", f"w = items[{i}:]",
                    "w = items[::-1]",
                      f"items[{i}:] = items[:{j}]", "w = [z for z in items]", "w = [q.x for q in objects]",
                              f"pairs[{i}] = ({self.value(0)}, n)")
            odd = ("items.sort()", f"del items[{i}:{j}]", "objects.pop()", f"objects.pop({i})", "items.clear()",
                    f"w = list(items)[:{MOST}]",
                   f"w = rows[{i}]", "w = [k for k in names if k in table]")
            self.put(indent, self.choose(*common, odd=odd))

    def rebind(self, indent):
        a, b = self.instance(), self.instance()
        new = f"{self.new()}({self.value(0)}, {self.value(0)})"
        made = () if self.slotted else ("o = v + o", f"v = o * {self.value(0)}", "o.swap()")
        odd = (f"o = table[{self.key()}]", "o = None", "e = table", f"w = ({self.value(0)}, 2)")
        common = (f"o = {a}", f"v = {a}", f"o, v = {a}, {b}", f"o = {new}", f"v = {new}", "e = {}",
                f"s, t = pairs[{self.index()}]")
        self.put(indent, self.choose(*common, *made, odd=odd))

    def new(self):
        return self.choose("S" if self.slotted else "P", odd=("P", "Q", "S", "Told", "Late"))

    def loop(self, indent, depth):
        self.loops += 1
        self.counter += 1
        name, other = f"i{self.counter}", f"o{self.counter}"
        r = self.random.random()
        instances = list(self.instances)
        if r < 0.45:
            self.put(indent, f"for {name} in range({self.choose('n', 'm', 'len(items)', '6', 'len(objects)', '1, 9, 2')}):")
        elif r < 0.75:
            over = self.choose("enumerate(objects)", "zip(range(9), objects)", "zip(items, objects)",
                    odd=("enumerate(table.values())",))
            self.put(indent, f"for {name}, {other} in {over}:")
            self.instances += [other, other]
        elif r < 0.9:
            tables = "enumerate(table)", "enumerate(seen)", "enumerate(table.values())", "zip(items, e)", "enumerate(e.keys())"
            odd = "enumerate(sorted(seen, key=str))", "table.items()", "e.items()", "rows"
            over = self.choose("enumerate(names)", "enumerate(text)", "pairs", *tables, odd=odd)
            self.put(indent, f"for {name}, c in {over}:")
        else:
            self.put(indent, f"{name} = 0")
            self.put(indent, f"while {name} < {self.choose('n', 'm', '5')}:")
            self.put(indent + 1, f"{name} += 1")
        self.put(indent + 1, f"if not ({BOUNDED}):")
        self.put(indent + 2, f"{' = '.join(TARGETS)} = 1")
        self.put(indent + 1, "fuel[0] -= 1")
        self.put(indent + 1, "if fuel[0] < 0:")
        self.put(indent + 2, "return 'out of fuel'")
        self.indices.append(name)
        self.body(indent + 1, depth + 1)
        self.indices.pop()
        self.instances = instances


def slotted(seed):
    """Are its objects of the class with slots, or of the others?"""
    return seed % 3 == 0


def program(seed):
    """The text of the program with this seed."""
    return Writer(seed).program()


def make(text):
    """The namespace of a program's text."""
    scope = {"fuel": [0]}
    exec(compile(text, "<loops>", "exec"), scope)
    return scope


def arguments(seed, scope):
    """Arguments for the program, of its own classes."""
    r = random.Random(~seed)
    usual = ("S",) if slotted(seed % 1000003) else r.choice((("P",), ("P",), ("Q",), ("P", "Q")))
    kinds = usual if r.random() < 0.8 else r.choice((("P", "S", "Told"), ("Late",), ("P", "Late", "Q"), ("S",)))
    odd = r.random() < 0.2
    mixed = (1, 2.5, True) if odd else (3, 3, 3)
    number = r.choice((lambda: r.randrange(-3, 9), lambda: r.choice((0.5, 1.5, -2.25)), lambda: r.choice(mixed)))
    objects = [scope[r.choice(kinds)](number(), number()) for _ in range(r.choice((0, 3, 6) if odd else (3, 6, 9)))]
    for o in objects[: 2 * odd]:
        o.z = 5
    names = [r.choice(("a", "b", "key", "\xe9", "name", "long name")) for _ in range(6)]
    values = r.choice((number, lambda: scope["P"](1, 2), lambda: r.choice((None, 3, "text")))) if odd else number
    table = {key: values() for key in r.sample(["a", "b", "key", "name",
            1, 2, 5, 7] + [2**70, 1.5] * odd, r.choice((0, 3, 6) if odd else (3, 6)))}
    pairs = [(number(), number()) for _ in range(4)]
    if odd:
        pairs.append((1, 2, 3))
    seen = set(r.sample(["a", "b", 1, 2, 3, 4] + [2**70, 2.5] * odd, r.choice((0, 2, 5))))
    items = [number() for _ in range(r.choice((0, 4, 8) if odd else (4, 8)))]
    rows = [[number(), number()] for _ in range(3)]
    if r.random() < 0.3:
        rows[1] = items
    o, v = (scope[r.choice(kinds)](number(), number()) for _ in range(2))
    if objects and r.random() < 0.4:
        o = objects[0]
    text = r.choice(("abcab", "", "x\xe9z"))
    return r.choice((0, 3, 5)), r.choice((1, 2)), number(), o, v, objects, table, names, pairs, seen, items, text, rows


def reached(value, known):
    """All that can be reached from a value, as text; what was seen before by its number."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return loop_grammar.plain(value)
    if id(value) in known:
        return "again", known[id(value)][0]
    known[id(value)] = len(known), value
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(reached(item, known) for item in value)
    if isinstance(value, dict):
        return type(value).__name__, tuple((reached(key, known), reached(item, known)) for key, item in value.items())
    if isinstance(value, set):
        return "set", tuple(sorted(map(repr, value)))
    if type(value).__module__ == "builtins" and not hasattr(type(value), "x"):
        names = sorted(vars(value)) if hasattr(value, "__dict__") else ["x", "y", "z"]
        order = list(vars(value)) if hasattr(value, "__dict__") else []
        return type(value).__name__, order, tuple(reached(getattr(value, name), known) for
                name in names if hasattr(value, name))
    return type(value).__name__, [reached(getattr(value, name), known) for name in ("x", "y", "z") if hasattr(value, name)]


def outcome(scope, function, seed):
    """What a call does."""
    args = arguments(seed, scope)
    scope["died"].clear()
    scope["fuel"][0] = 300
    known = {}
    try:
        result = reached(function(*args), known)
    except Exception as error:
        result = type(error).__name__, str(error), loop_grammar.lines_of(error)
    return result, tuple(reached(arg, known) for arg in args), sorted(map(repr, scope["died"]))
