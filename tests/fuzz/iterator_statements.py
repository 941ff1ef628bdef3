"""Statements of generated programs about generators and iterators: made, driven by hand, given to builtins, left in the middle.

A part of python_programs.Generator. Values are ints, so that what comes out goes into variables of the kind `int`; iterators in
variables have names that nothing else uses.
"""


class Iterators:
    def source(self, depth):
        """An iterable of ints."""
        e = lambda kind: self.expression(kind, 1)
        made = f"range({e('int')} % 6)", "steps(3)", f"steps(2, {e('int')})", f"iter({e('list')})"
        return self.one(e("list"), e("tuple"), "(3, 1, 2)", "[4, 0]", *made)

    def pair(self, depth, body):
        """The name of a new function of two ints, or a lambda, whose body may do more than give a value."""
        if self.chance(0.6) or depth > 4:
            return f"lambda p, q=1: {body}"
        name = self.new("pair")
        self.emit(depth, f"def {name}(p, q=1):")
        fails = f"if p == {self.random.randint(0, 4)}: raise KeyError(p)"
        self.emit(depth + 1, self.one("log.append(p)", "bump(1)", "opaque(p)", "pass", fails))
        self.emit(depth + 1, f"return {body}")
        return name

    def lazy(self, depth):
        """The text of an iterator of ints."""
        s = lambda: self.source(depth)
        form = self.random.randrange(14)
        if form == 0:
            return f"map({self.pair(depth, 'p + 1')}, {s()})"
        if form == 1:
            return f"map({self.pair(depth, 'p * ' + self.small('q'))}, {s()}, {s()})"
        if form == 2:
            return f"filter({self.one('None', self.pair(depth, 'p % 2'))}, {s()})"
        if form == 3:
            return f"(p + {self.expression('int', 1)} for p in {s()})"
        if form == 4:
            return f"(p * {self.small('q')} for p, q in zip({s()}, {s()}))"
        if form == 5:
            return f"(p - q for p, q in enumerate({s()}, {self.random.randint(-1, 3)}))"
        if form == 6:
            return f"itertools.chain({s()}, {s()})"
        if form == 7:
            return f"itertools.islice({s()}, {self.one('2', '1, 3', '0, 4, 2', 'None')})"
        if form == 8:
            return f"itertools.accumulate({s()}{self.one('', ', ' + self.pair(depth, 'p * ' + self.small('q')), ', initial=2')})"
        if form == 9:
            of = self.one("pairwise({})", "combinations({}, 2)", "product({}, repeat=2)").format(s())
            return f"(p + q for p, q in itertools.{of})"
        if form == 10:
            return f"itertools.takewhile({self.pair(depth, 'p < 3')}, {s()})"
        if form == 11:
            return f"itertools.starmap({self.pair(depth, 'p - q')}, zip({s()}, {s()}))"
        if form == 12:
            return f"reversed({self.one(self.expression('list', 1), '(1, 2)')})"
        return f"itertools.{self.one('filterfalse', 'dropwhile')}({self.pair(depth, 'p > 1')}, {s()})"

    def written(self, depth):
        """A generator function with a body; its name."""
        name = self.new("gen")
        self.emit(depth, f"def {name}(k, step=1):")
        self.emit(depth + 1, self.one("got = None", "log.append('begun')", "pass"))
        inner = depth + 1
        guarded = self.chance(0.3)
        if guarded:
            self.emit(inner, "try:")
            inner += 1
        self.emit(inner, f"for p in range(k % {self.random.randint(1, 5)}):")
        self.emit(inner + 1, self.one("log.append(p)", "bump(1)", "opaque(p)", "pass", "pass"))
        got = "got = yield p\n" + "    " * (inner + 1) + "log.append(got)"
        self.emit(inner + 1, self.one("yield p * step", got, "yield from (p, step)"))
        if self.chance(0.3):
            self.emit(inner, self.one("yield from steps(2)", "return 5", "raise ValueError('generator')"))
        if guarded:
            self.emit(depth + 1, "finally:")
            # Nothing to be seen: what dies while it is recorded may die late (docs/known_issues.md).
            self.emit(depth + 2, "k = step")
        return name

    def iterators(self, depth):
        """An iterator in a variable, a few things done with it, and what came of it in variables."""
        it = self.new("it")
        if depth < 4 and self.chance(0.4):
            self.emit(depth, f"{it} = {self.written(depth)}({self.expression('int', 1)})")
        else:
            self.emit(depth, f"{it} = {self.lazy(depth)}")
        for _ in range(self.random.randint(1, 3)):
            form = self.random.randrange(12)
            if form < 3:
                i = self.new("int")
                self.emit(depth, f"{i} = next({it}, {self.random.randint(-2, 2)})")
                self.names["int"].append(i)
            elif form == 3:
                i = self.new("list")
                self.emit(depth, f"{i} = [{self.one('*', 'v for v in ')}{it}]")
                self.names["list"].append(i)
            elif form == 4:
                i = self.new("int")
                take = self.one("sum({})", "sum({}, 3)", "max({}, default=1)", "int(any({}))", "int(all({}))", "len(list({}))")
                self.emit(depth, f"{i} = {take.format(it)}")
                self.names["int"].append(i)
            elif form == 5:
                i = self.new("int")
                self.emit(depth, f"{i} = functools.reduce({self.pair(depth, 'p + q')}, {it}, 0)")
                self.names["int"].append(i)
            elif form == 6:
                v = self.new("int")
                self.emit(depth, f"for {v} in {it}:")
                before = {kind: list(names) for kind, names in self.names.items()}
                self.names["int"].append(v)
                self.trips += 1
                self.statement(depth + 1)
                self.trips -= 1
                if self.chance(0.3):
                    self.emit(depth + 1, "break")
                self.names = before
            elif form == 7:
                self.emit(depth, self.one(f"if hasattr({it}, 'close'): {it}.close()", f"del {it}", f"log.extend({it})"))
                if self.lines[-1].strip().startswith("del"):
                    break
            elif form == 8:
                self.emit(depth, f"if hasattr({it}, 'send') and next({it}, None) is not None:")
                self.emit(depth + 1, f"log.append({it}.send({self.random.randint(0, 3)}) if count % 2 else 0)")
            elif form == 9:
                self.emit(depth, f"opaque({self.expression('int', 1)})")
            elif form == 10 and self.arrays and self.name("array"):
                x, y = self.name("array"), self.new("array")
                self.emit(depth, f"{y} = {self.one('sum', 'list')}({x} * v for v in {it})")
                if "sum" in self.lines[-1]:
                    self.emit(depth, f"{y} = {y} + {x}")
                    self.names["array"].append(y)
            else:
                self.emit(depth, f"{self.new('tuple')} = tuple(map({self.pair(depth, 'p + q')}, {it}))")
