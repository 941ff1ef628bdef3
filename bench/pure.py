"""Programs without arrays: what they cost under dynoc.enable() beside plain Python. Run by run.py's group `python`.

    python bench/pure.py NAME plain|enabled

runs one and prints its CPU seconds. Each is a kind of Python that pays for a frame-evaluation hook in its own way: calls,
methods, generators, closures, containers, strings, exceptions.
"""

import sys
import time

# ---- calls


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def calls():
    return fib(31)


def ackermann(m, n):
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))


def deep_calls():
    sys.setrecursionlimit(20_000)
    return sum(ackermann(2, 180) for _ in range(25))


# ---- search and arithmetic


def free_columns(columns, rising, falling, row, n):
    for column in range(n):
        if not (columns >> column & 1 or rising >> (row + column) & 1 or falling >> (row - column + n) & 1):
            yield column


def place(columns, rising, falling, row, n):
    if row == n:
        return 1
    return sum(
        place(columns | 1 << c, rising | 1 << (row + c), falling | 1 << (row - c + n), row + 1, n)
        for c in free_columns(columns, rising, falling, row, n)
    )


def n_queens():
    return place(0, 0, 0, 0, 11)


class Planet:
    def __init__(self, position, velocity, mass):
        self.x, self.y, self.z = position
        self.vx, self.vy, self.vz = velocity
        self.mass = mass

    def pull(self, other, dt):
        dx, dy, dz = self.x - other.x, self.y - other.y, self.z - other.z
        scale = dt / (dx * dx + dy * dy + dz * dz) ** 1.5
        self.push(dx, dy, dz, -other.mass * scale)
        other.push(dx, dy, dz, self.mass * scale)

    def push(self, dx, dy, dz, scale):
        self.vx += dx * scale
        self.vy += dy * scale
        self.vz += dz * scale

    def move(self, dt):
        self.x += self.vx * dt
        self.y += self.vy * dt
        self.z += self.vz * dt


def n_body():
    planets = [Planet((float(i), i * 0.5, -i * 0.25), (0.0, 0.1 * i, 0.05), 1.0 / (1 + i)) for i in range(5)]
    for _ in range(15_000):
        for i, planet in enumerate(planets):
            for other in planets[:i]:
                planet.pull(other, 0.001)
        for planet in planets:
            planet.move(0.001)
    return planets[0].x


def flips(order):
    count = 0
    while order[0]:
        last = order[0]
        order[: last + 1] = order[last::-1]
        count += 1
    return count


def permutations(items):
    if len(items) <= 1:
        yield list(items)
        return
    for i, item in enumerate(items):
        for rest in permutations(items[:i] + items[i + 1 :]):
            yield [item, *rest]


def fannkuch():
    return max(flips(order) for order in permutations(list(range(8))))


def entry(i, j):
    return 1.0 / ((i + j) * (i + j + 1) // 2 + i + 1)


def times_vector(v):
    return [sum(entry(i, j) * x for j, x in enumerate(v)) for i in range(len(v))]


def spectral_norm():
    v = [1.0] * 200
    for _ in range(20):
        v = times_vector(v)
        norm = max(v)
        v = [x / norm for x in v]
    return norm


# ---- objects


class Tree:
    __slots__ = ("left", "right")

    def __init__(self, depth):
        self.left = Tree(depth - 1) if depth else None
        self.right = Tree(depth - 1) if depth else None

    def count(self):
        return 1 + (self.left.count() + self.right.count() if self.left else 0)


def binary_trees():
    return sum(Tree(12).count() for _ in range(60))


class Packet:
    def __init__(self, kind, work):
        self.kind = kind
        self.work = work


class Task:
    def __init__(self, number):
        self.number = number
        self.waiting = []
        self.done = 0

    def accept(self, packet):
        self.waiting.append(packet)
        return self

    def is_ready(self):
        return bool(self.waiting)

    def step(self, scheduler):
        packet = self.waiting.pop(0)
        self.done += 1
        packet.work -= 1
        if packet.work > 0:
            self.forward(scheduler, packet)

    def forward(self, scheduler, packet):
        scheduler.task((self.number + 1) % scheduler.size).accept(packet)


class Device(Task):
    def forward(self, scheduler, packet):
        packet.kind = "device" if packet.kind == "work" else "work"
        super().forward(scheduler, packet)


class Scheduler:
    def __init__(self, size):
        self.size = size
        self.tasks = [(Device if i % 2 else Task)(i) for i in range(size)]

    def task(self, number):
        return self.tasks[number]

    def run(self):
        busy = True
        while busy:
            busy = False
            for task in self.tasks:
                if task.is_ready():
                    task.step(self)
                    busy = True


def richards():
    scheduler = Scheduler(6)
    for i in range(40):
        scheduler.task(i % 6).accept(Packet("work", 5000))
    scheduler.run()
    return sum(task.done for task in scheduler.tasks)


class Variable:
    def __init__(self, value):
        self.value = value
        self.constraints = []

    def assign(self, value):
        if value != self.value:
            self.value = value
            for constraint in self.constraints:
                constraint.propagate()


class Constraint:
    def __init__(self, source, target):
        self.source = source
        self.target = target
        source.constraints.append(self)

    def propagate(self):
        self.target.assign(self.compute(self.source.value))

    def compute(self, value):
        return value


class Scaled(Constraint):
    def compute(self, value):
        return value * 3 % 1009 + 1


def delta_blue():
    variables = [Variable(-1) for _ in range(120)]
    for i, (a, b) in enumerate(zip(variables, variables[1:])):
        (Scaled if i % 3 else Constraint)(a, b)
    for value in range(4000):
        variables[0].assign(value)
    return variables[-1].value


# ---- text


def skip_blanks(text, at):
    while text[at] in " \n":
        at += 1
    return at


def parse_value(text, at):
    at = skip_blanks(text, at)
    first = text[at]
    if first == "{":
        return parse_object(text, at + 1)
    if first == "[":
        return parse_list(text, at + 1)
    if first == '"':
        end = text.index('"', at + 1)
        return text[at + 1 : end], end + 1
    end = at
    while text[end] in "0123456789.-":
        end += 1
    return float(text[at:end]), end


def parse_list(text, at):
    values = []
    while True:
        value, at = parse_value(text, at)
        values.append(value)
        at = skip_blanks(text, at)
        if text[at] == "]":
            return values, at + 1
        at += 1


def parse_object(text, at):
    values = {}
    while True:
        key, at = parse_value(text, at)
        at = skip_blanks(text, at)
        values[key], at = parse_value(text, at + 1)
        at = skip_blanks(text, at)
        if text[at] == "}":
            return values, at + 1
        at += 1


def json_parsing():
    row = '{"name": "a value", "numbers": [1, 2.5, -3, 4e], "inner": {"deep": [[1], [2, 3]]}}'.replace("4e", "4")
    text = "[" + ",\n".join([row] * 60) + "]"
    return sum(len(parse_value(text, 0)[0]) for _ in range(250))


class Tokens:
    def __init__(self, text):
        self.text = text
        self.at = 0

    def peek(self):
        return self.text[self.at] if self.at < len(self.text) else ""

    def take_while(self, accepted):
        start = self.at
        while self.peek() and accepted(self.peek()):
            self.at += 1
        return self.text[start : self.at]

    def __iter__(self):
        return self

    def __next__(self):
        self.take_while(str.isspace)
        first = self.peek()
        if not first:
            raise StopIteration
        if first.isalpha():
            return "name", self.take_while(str.isalnum)
        if first.isdigit():
            return "number", self.take_while(str.isdigit)
        self.at += 1
        return "sign", first


def tokenizer():
    text = "total = first + 42 * (second - third9) / 7;\n" * 250
    return sum(len(word) for _ in range(30) for _, word in Tokens(text))


def strings():
    words = []
    for i in range(350_000):
        word = f"{i:05d}-{i * 7 % 1000}"
        words.append(word.replace("-", "_").upper() if i % 2 else word[::-1])
    return len(" ".join(words).split())


# ---- containers, functions


def sort_key(pair):
    return -pair[1], pair[0]


def dicts_and_sorting():
    counts = {}
    x = 12345
    for _ in range(150_000):
        x = x * 1103515245 + 12345 & 0x7FFFFFFF
        counts[x % 5003] = counts.get(x % 5003, 0) + 1
    return sum(sorted(counts.items(), key=sort_key)[i][1] for i in range(10) for _ in range(8))


def numbers(n):
    yield from range(n)


def only_odd(source):
    for n in source:
        if n % 2:
            yield n


def running_sum(source):
    total = 0
    for n in source:
        total += n
        yield total


def generators():
    return sum(x & 7 for x in running_sum(n * n for n in only_odd(numbers(1_500_000))))


def adder(n):
    def add(x):
        return x + n

    return add


def composed(*functions):
    def call(x):
        for f in functions:
            x = f(x)
        return x

    return call


def closures():
    total = 0
    for i in range(250_000):
        total += composed(adder(i), adder(1), lambda x: x * 2)(i)
    return total


class NotFound(Exception):
    pass


def look_up(table, key):
    try:
        return table[key]
    except KeyError:
        raise NotFound(key) from None


def exceptions():
    table = {i: i for i in range(0, 1000, 3)}
    missing = 0
    for i in range(250_000):
        try:
            look_up(table, i % 1000)
        except NotFound:
            missing += 1
    return missing


PROGRAMS = (
    calls,
    deep_calls,
    n_queens,
    n_body,
    fannkuch,
    spectral_norm,
    binary_trees,
    richards,
    delta_blue,
    json_parsing,
    tokenizer,
    strings,
    dicts_and_sorting,
    generators,
    closures,
    exceptions,
)


def main(name, how):
    import dynoc  # both ways: objects that are there make the garbage collector's first rounds longer

    if how == "enabled":
        dynoc.enable()
    (program,) = (p for p in PROGRAMS if p.__name__ == name)
    start = time.process_time()
    program()
    print(time.process_time() - start)


if __name__ == "__main__":
    main(*sys.argv[1:])
