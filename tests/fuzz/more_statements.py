"""Statements of generated programs that are about the language: match, unpacking, comprehensions over dicts and sets, del,
classes made inside, chained exceptions; and about arrays in places: views that are written through, arrays in containers and
attributes, loops until an array says so.

A part of python_programs.Generator.
"""


class More:
    def more(self, depth):
        forms = (self.matched, self.unpacked, self.comprehended, self.deleted, self.classy, self.chained, self.sets, self.starred)
        arrays = (self.aliased, self.contained, self.until, self.mapped) if self.arrays and self.name("array") else ()
        return self.one(*forms, *arrays)(depth)

    def keep(self, depth, kind, value):
        name = self.new(kind)
        self.emit(depth, f"{name} = {value}")
        self.names[kind].append(name)
        return name

    def matched(self, depth):
        kind = self.one("int", "tuple", "dict", "list", "named", "str", "box", "float")
        self.emit(depth, f"match {self.expression(kind, 1)}:")
        got = self.new("int")
        cases = {
            "int": ("0", "1 | 2", f"int({got}) if {got} > 3", "-1"),
            "float": ("0.0", f"float({got})", "1.5"),
            "str": ("'a'", f"'key' as {got}", "''"),
            "tuple": (f"({got}, _)", f"({got}, _, _)", f"[{got}, *_]"),
            "list": ("[]", f"[{got}]", f"[_, {got}, *_]", f"[{got}, *_] if {got}"),
            "dict": (f"{{'a': {got}}}", f"{{'b': {got}, **rest}}", "{}"),
            "named": (f"Pair(first={got})", f"Pair({got}, 2.0)"),
            "box": (f"Slim(value={got})", f"Box(value={got})", "Point()"),
        }[kind]
        for case in self.random.sample(cases, self.random.randint(1, 2)):
            self.emit(depth + 1, f"case {case}:")
            if got in case and kind not in ("str",):
                self.emit(depth + 2, f"log.append({got})")
            self.block(depth + 2, 1)
        if self.chance(0.6):
            self.emit(depth + 1, "case _:")
            self.block(depth + 2, 1)

    def unpacked(self, depth):
        a, b = self.new("int"), self.new("int")
        form = self.random.randrange(5)
        if form == 0:
            self.emit(depth, f"{a}, {b} = {self.expression('int', 1)}, {self.expression('int', 1)}")
            self.emit(depth, f"{a}, {b} = {b}, {a}")
            self.names["int"] += [a, b]
        elif form == 1:
            rest = self.new("list")
            self.emit(depth, f"{a}, *{rest} = {self.one('[4, 5]', '(1, 2, 3)', 'steps(3)', 'range(2)')}")
            self.names["int"].append(a)
            self.names["list"].append(rest)
        elif form == 2:
            self.emit(depth, f"{a}, {b} = {self.expression(self.one('list', 'named', 'queue'), 1)}")
            self.names["int"].append(a)
        elif form == 3:
            self.emit(depth, f"({a}, _), {b} = {self.expression('named', 1)}, {self.expression('int', 1)}")
            self.names["int"] += [a, b]
        else:
            self.emit(depth, f"{a} = {b} = {self.expression('int', 1)}")
            self.emit(depth, f"{a} += 1")
            self.names["int"] += [a, b]

    def comprehended(self, depth):
        e = lambda kind: self.expression(kind, 1)
        form = self.random.randrange(5)
        if form == 0:
            self.keep(depth, "dict", f"{{str(k): v for k, v in enumerate({self.few(e('list'))})}}")
        elif form == 1:
            self.keep(depth, "list", f"sorted({{x % 4 for x in {e('list')}}})")
        elif form == 2:
            self.keep(depth, "list", f"[x + y for x in {self.few(e('list'))} for y in range(2) if x != y]")
        elif form == 3:
            self.keep(depth, "list", f"[(last := x) + {e('int')} for x in {e('list')}]")
        else:
            self.keep(depth, "list", f"[[y * 2 for y in (x, 1)][0] for x in {e('list')}]")

    def deleted(self, depth):
        """A variable goes, and is asked for."""
        name = self.keep(depth, "int", self.expression("int", 1))
        self.names["int"].remove(name)
        if self.chance(0.4):
            self.emit(depth, f"if {self.expression('bool', 1)}:")
            self.emit(depth + 1, f"del {name}")
            self.emit(depth, "try:")
            self.emit(depth + 1, f"log.append({name})")
            self.emit(depth, "except NameError:")
            self.emit(depth + 1, "log.append('gone')")
        else:
            self.emit(depth, f"log.append({name})")
            self.emit(depth, f"del {name}")

    def classy(self, depth):
        """A class made inside, with a method that reads and writes."""
        if depth > 2 or self.functions >= 3:
            return self.assign(depth)
        self.functions += 1
        name, it = self.new("Class"), self.new("box")
        self.emit(depth, f"class {name}{self.one('', '(Box)')}:")
        self.emit(depth + 1, f"kept = {self.random.randint(0, 5)}")
        self.emit(depth + 1, "def __init__(self, v):")
        self.emit(depth + 2, "self.value, self.extra = v, [v]")
        self.emit(depth + 1, f"def __{self.one('add', 'sub', 'mul')}__(self, other):")
        self.emit(depth + 2, f"return {name}(self.value + self.small(other))")
        self.emit(depth + 1, "def small(self, v):")
        self.emit(depth + 2, f"self.{self.one('kept', 'value')} = v % 7")
        self.emit(depth + 2, "return v % 10 + self.kept")
        self.emit(depth, f"{it} = {name}({self.expression('int', 1)})")
        n = self.keep(depth, "int", f"{it}.small({self.expression('int', 1)})")
        self.emit(depth, f"log.append(({it}.value, {it}.kept, {name}.kept, {n}))")
        if self.chance(0.4):
            self.emit(depth, f"{it} = {it} {self.one('+', '-', '*')} {n}")

    def chained(self, depth):
        kind = self.random.randrange(3)
        self.emit(depth, "try:")
        if kind == 0:
            self.emit(depth + 1, "try:")
            self.emit(depth + 2, f"log.append({self.expression('list', 1)}[{self.one('7', '0')}])")
            self.emit(depth + 1, "except IndexError as error:")
            self.emit(depth + 2, f"raise ValueError({self.expression('int', 1)}){self.one('', ' from error', ' from None')}")
        elif kind == 1:
            self.emit(depth + 1, f"for {self.new('int')} in range(3):")
            self.emit(depth + 2, "try:")
            self.emit(depth + 3, f"if {self.expression('bool', 1)}: {self.one('continue', 'break', 'raise KeyError(1)')}")
            self.block(depth + 3, 1)
            self.emit(depth + 2, "finally:")
            self.emit(depth + 3, "log.append('trip')")
        else:
            self.emit(depth + 1, f"with Guard('c', {self.one('KeyError', 'ValueError')}):")
            raised = self.one("KeyError", "ValueError")
            self.emit(depth + 2, f"if {self.expression('bool', 1)}: raise {raised}({self.simple_int(0)})")
            self.block(depth + 2, 1)
        self.emit(depth, "except (ValueError, KeyError) as error:")
        self.emit(depth + 1, "log.append((type(error).__name__, repr(error.__cause__), error.args))")
        if self.chance(0.3):
            self.emit(depth + 1, self.one("raise", "raise TypeError('again') from error"))

    def sets(self, depth):
        name, e = self.new("set"), lambda kind: self.expression(kind, 1)
        self.emit(depth, f"{name} = {self.one('set(', 'frozenset(')}{e('list')})")
        form = self.random.randrange(4)
        if form == 0:
            self.emit(depth, f"if type({name}) is set: {name}.add({e('int')})")
        elif form == 1:
            self.emit(depth, f"{name} {self.one('|=', '&=', '-=', '^=')} {{{e('int')}, 1}}")
        elif form == 2:
            self.emit(depth, f"log.append({e('int')} in {name})")
        self.keep(depth, "int", self.one(f"len({name})", f"sum({name})", f"max({name}, default=0)", f"int({name} > {{1}})"))

    def starred(self, depth):
        e = lambda kind: self.expression(kind, 1)
        if depth > 3:
            return self.assign(depth)
        name = self.new("function")
        self.emit(depth, f"def {name}(a, *rest, b=1, **more):")
        self.emit(depth + 1, self.one("rest += (b,)", "more['z'] = a", "log.append(sorted(more))", "a += b"))
        self.emit(depth + 1, "return (a, len(rest), b, sum(more.values()))")
        calls = (f"*{self.few('[1, *' + e('list') + ']')}", f"{e('int')}, b={e('int')}", f"{e('int')}, **dict(x={e('int')}, b=2)")
        call = self.one(*calls, f"3, *range(2), q={e('int')}")
        self.emit(depth, f"log.append({name}({call}))")

    # ---- arrays

    def aliased(self, depth):
        x, view = self.name("array"), self.new("array")
        self.emit(depth, f"{view} = {x}[{self.one(':', '1:', '::-1', '::2', '...', ':-1')}]")
        e = self.expression("int", 1)
        for _ in range(self.random.randint(1, 3)):
            a, b = self.one((x, view), (view, x))
            writes = (f"{a} += {e}", f"{a}[0] = {e}", f"{a}[...] = {b}.max()", f"{a} *= 2", f"{a}[-1:] -= 1")
            writes += (f"np.negative({a}, out={a})", f"{b}[1:] = {a}[:-1]")
            self.emit(depth, self.one(*writes, f"log.append(float({b}.sum()))", f"if {a}.sum() > {e}: {b}[:1] = 0"))
        self.names["array"].append(view)

    def contained(self, depth):
        x, name, e = self.name("array"), self.new("tuple"), self.expression("int", 1)
        form = self.random.randrange(5)
        if form == 0:
            self.emit(depth, f"{name} = [{x}, {x} + {e}]")
            self.emit(depth, f"{name}[{self.one('0', '1')}] {self.one('+=', '*=')} {e}")
            self.keep(depth, "array", f"{name}[{self.one('0', '-1')}]")
        elif form == 1:
            self.emit(depth, f"{name} = {{'x': {x}}}")
            self.emit(depth, self.one(f"{name}['y'] = {name}['x'] * {e}", f"{name}['x'] -= 1", f"{name}.update(z={x})"))
            self.emit(depth, f"log.append(sorted({name}))")
            self.keep(depth, "array", f"{name}['x']")
        elif form == 2:
            self.emit(depth, f"{name} = Box({x})")
            self.emit(depth, self.one(f"{name}.value = {name}.value + {e}", f"{name}.value += {e}", f"{name}.add({x})"))
            self.keep(depth, "array", f"{name}.{self.one('value', 'doubled', 'value')}")
        elif form == 3:
            self.emit(depth, f"{name} = []")
            self.emit(depth, f"for {self.new('int')} in range({self.one('2', '3', '18')}):")
            self.emit(depth + 1, f"{name}.append({x}{self.one('', ' + 1', '.sum()', '[:1]')})")
            self.keep(depth, "int", f"len({name})")
            if self.chance(0.5):
                self.keep(depth, "array", f"np.asarray({name}[-1]) + {x}")
        else:
            self.emit(depth, f"{name} = ({x}, {e})")
            self.keep(depth, "array", f"{name}[0] {self.one('+', '-', '*')} {name}[1]")

    def until(self, depth):
        """A loop that an array ends."""
        x, i = self.name("array"), self.new("until")
        self.emit(depth, f"{i} = 0")
        condition = self.one(f"{x}.sum() < {self.expression('int', 1)}", f"np.any({x} > 0)", f"{x}.max() > 1")
        self.emit(depth, f"while {condition}:")
        self.emit(depth + 1, f"{i} += 1")
        self.emit(depth + 1, f"if {i} > {self.one('2', '5', '19')}: break")
        step = self.one(f"{x} = {x} - 1", f"{x} += 1", f"{x}[:] = {x} * 0.5", f"log.append(float({x}.max()))")
        self.emit(depth + 1, step)
        self.trips += 1
        self.loops += 1
        self.block(depth + 1, 1)
        self.loops -= 1
        self.trips -= 1

    def mapped(self, depth):
        x, e = self.name("array"), self.expression("int", 1)
        name = self.new("function")
        self.emit(depth, f"def {name}(w, k={e}):")
        self.emit(depth + 1, self.one("w = w + k", "w += k", "log.append(w.shape)", "if w.sum() > k: return w", "w[0] = k"))
        self.emit(depth + 1, self.one("return w * k", "return w", "return np.where(w > k, w, 0.0)"))
        calls = (f"{name}({x})", f"{name}({x}, {self.random.randint(-1, 3)})", f"list(map({name}, [{x}, {x}]))[0]")
        calls += (f"sum([{name}({x}) for _ in range(2)])", f"functools.reduce({name}, [1, 2], {x})")
        self.keep(depth, "array", self.one(*calls))
