"""Random programs with loops over small arrays, for test_loop_programs.py: those of loop_grammar.py with statements among them
that compute rows, slices, vectors and matrices, compare them, store them, change them in place, add them up and hand them to
functions.

Most vectors have four elements, and matrices four rows of those; some statements don't fit, and raise.
"""

import loop_grammar
from loop_grammar import arguments, make, outcome  # noqa: F401

MOST_MATRICES = 3  # statements of a program that compute matrices: each is many loops, and compiled for all types that it meets
HELPERS = """def g(x, y):
    z = x * 2
    return z - y if len(x) > 3 else x

def h(x, i):
    x[i] = 1.5
    return x[1:]

"""


class Writer(loop_grammar.Writer):
    """Writes one program."""

    def __init__(self, seed):
        super().__init__(seed)
        self.lines += ["    v = np.zeros(4)", "    r = a[1:5]", "    z = v > 0", "    j = np.array([0, 2, -1])", "    w2 = c * 1"]
        self.first, self.again, self.matrices = len(self.lines), seed % 2 == 1, 0

    def program(self):
        """Every other one has its loops in one of more trips than a graph would have one behind the other."""
        text = super().program()
        if self.again:
            loops = ["    for again in range(18):", *("    " + line for line in self.lines[self.first : -1])]
            text = "\n".join([*self.lines[: self.first], *loops, self.lines[-1]]) + "\n"
        return HELPERS + text.replace("return n, m, k, x, y, s, t, u, w\n", "return n, m, k, x, y, s, t, u, w, v, r, z, j, w2\n")

    # ---- vectors

    def place(self):
        """A slice, row or column that can be stored to."""
        i = self.index()
        places = ("a[:4]", "a[1:5]", "a[2:]", "a[5:1:-1]", "e[:4]", "e[-4:]", "c[{}]", "c[:, {}]", "c[{}, :]", "v[:]", "v", "r")
        rare = ("b[:4]", "d[2:]", "c[1:, 1:]", "c[{}, 1:]", "a[::2]", "a[{}:]", "v[{}:]", "c")
        return self.random.choice(places if self.random.random() < 0.85 else rare).format(f"({i}) % 4")

    def vector(self, depth):
        r = self.random.random()
        if depth <= 0 or r < 0.15:
            return self.place()
        if r < 0.6:
            operator = self.random.choice(("+", "-", "*", "+", "-", "*", "/"))
            return f"({self.vector(depth - 1)} {operator} {self.vector(depth - 1)})"
        if r < 0.75:
            number = self.random.choice(("2", "0.5", "x", "t", "k", "1e3", "-1"))
            form = self.random.choice(("({1} * {0})", "({0} + {1})", "({0} / {1})", "({1} - {0})"))
            return form.format(self.vector(depth - 1), number)
        if r < 0.8:
            return self.random.choice(("-{}", "{} ** 2")).format(self.vector(depth - 1))
        if r < 0.86:
            return f"np.{self.random.choice(('sqrt', 'abs', 'negative', 'exp', 'flip', 'copy'))}({self.vector(depth - 1)})"
        if r < 0.92:
            return f"g({self.vector(depth - 1)}, {self.vector(depth - 1)})"
        if r < 0.96:
            return f"({self.vector(depth - 1)} if {self.condition(0)} else {self.vector(depth - 1)})"
        if r < 0.975:
            return self.picked(depth - 1)
        if r < 0.985:
            return f"({self.random.choice(('c @ {}', '{} @ c', 'c.T @ {}', 'np.dot(c, {})')).format(self.vector(depth - 1))})"
        function = self.random.choice(("add", "multiply", "subtract", "maximum", "minimum"))
        return f"np.{function}({self.vector(depth - 1)}, {self.vector(depth - 1)})"

    def picked(self, depth):
        """A vector that is chosen, joined, looked up, or a matrix added up along an axis."""
        forms = (
            "np.where({m}, {v}, {w})",
            "np.where({m}, {n}, {v})",
            "({v})[{m}]",
            "np.append({v}, {n})[:4]",
            "np.concatenate(({v}, {w}))[2:6]",
            "({v})[j]",
            "{a}.sum(axis={x})",
            "{a}.max({x})",
            "np.min({a}, axis={x})",
            "{a}.mean(axis={x})",
            "np.array([{n}, {n}, {i}, 1.0])",
            "({a} * {v})[1]",
            "{a}.ravel()[4:8]",
        )
        return self.fill(self.random.choice(forms), depth)

    def fill(self, form, depth):
        values = {"v": self.vector(depth), "w": self.vector(depth), "m": self.mask(depth), "a": self.matrix(depth)}
        numbers = {"n": self.random.choice(("2.5", "t", "x", "-1.0")), "x": self.random.choice("011"), "i": self.atom()}
        return form.format(**values, **numbers)

    def mask(self, depth):
        if depth <= 0 or self.random.random() < 0.3:
            return self.random.choice(("z", "z", "(v > 0)", "~z", "(a[:4] == b[:4])"))
        if self.random.random() < 0.3:
            return f"({self.mask(depth - 1)} {self.random.choice('&|^')} {self.mask(depth - 1)})"
        operator = self.random.choice(("<", "<=", ">", ">=", "==", "!="))
        return f"({self.vector(depth - 1)} {operator} {self.random.choice((self.vector(0), '0.5', 't', 'k'))})"

    def matrix(self, depth):
        if depth <= 0 or self.random.random() < 0.3:
            return self.random.choice(("c", "c", "w2", "w2", "c.T", "c[:, ::-1]", "w2[:4, :4]", "np.eye(4)", "np.ones((4, 4))"))
        forms = (
            "({a} + {b})",
            "({a} * {b})",
            "({a} - {v})",
            "({a} @ {b})",
            "({v}[:, None] * {w})",
            "np.outer({v}, {w})",
            "np.where({a} > {n}, {b}, {n})",
            "({a} / {n})",
            "-{a}",
            "{a}.T.copy()",
            "{a}.reshape(2, -1).reshape(4, 4)",
            "({a} - {b}.max(axis={x}, keepdims=True))",
        )
        form = self.random.choice(forms)
        values = {"a": self.matrix(depth - 1), "b": self.matrix(depth - 1), "v": self.place(), "w": self.place()}
        return form.format(**values, n=self.random.choice(("2.0", "t", "x")), x=self.random.choice("01"))

    def of_matrices(self, indent):
        forms = (
            "w2 = {a}",
            "w2[:] = {a}",
            "w2 += {a}",
            "w2[{a} > {n}] = {n}",
            "w2[w2 < {n}] += 1",
            "z = {m}",
            "v[{m}] = {n}",
            "v[{m}] *= 0.5",
            "v[j] = {v}[:3]",
            "v[j] += {n}",
            "d[:4][{m}] = {i}",
            "b[:4] = {m}",
            "j = np.array([{i}, 1, k]) % 4",
            "t = {m}.sum() + {m}.any() + {a}.argmax()",
            "t = {a}.sum() + {a}.min() + {m}.mean()",
            "v = b[:4] * k + b[2:]",
            "v = (b[:4] & 3) - (b[2:] == {i})",
            "v = np.zeros_like(v) + j[0]",
        )
        self.put(indent, self.fill(self.random.choice(forms), 1))

    def statement(self, indent, depth):
        r = self.random.random()
        if r < 0.5 or not self.indices:
            super().statement(indent, depth)
        elif r < 0.56 and self.matrices < MOST_MATRICES:
            self.matrices += 1
            self.of_matrices(indent)
        elif r < 0.62:
            self.put(indent, f"v = {self.vector(2)}")
        elif r < 0.66:
            others = "r = v", "r = a[1:5]", "v, r = r, v", "r = v[::-1]", "v = np.ones(4)", "r = h(v, 1)"
            self.put(indent, self.random.choice(others))
        elif r < 0.78:
            self.put(indent, f"{self.place()} = {self.vector(2)}")
        elif r < 0.82:
            self.put(indent, f"{self.place()} = {self.atom()}")
        elif r < 0.92:
            self.put(indent, f"{self.place()} {self.random.choice(('+=', '-=', '*='))} {self.vector(1)}")
        elif r < 0.97:
            self.put(indent, f"t = ({self.vector(1)}).{self.random.choice(('sum', 'max', 'min', 'mean'))}()")
        else:
            whole = self.random.choice(("np.sum({})", "np.linalg.norm({})", "({} @ v)", "len({})")).format(self.vector(1))
            self.put(indent, f"t = {whole} + {self.vector(0)}[{self.index()}]")


def program(seed):
    """The text of the program with this seed."""
    return Writer(seed).program()
