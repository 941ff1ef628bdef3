"""Programs of the kinds that Numba's tests and documentation show, written anew as plain functions: containers, texts, records,
generators, closures and exceptions. Those over numbers and arrays are in numba_usecases.py.

    python bench/numba_usecases_python.py [--only NAME] [--repeat N] [--why]

The columns are those of loops.py. `tests/py/test_numba_usecases.py` runs the same programs.
"""

import bisect
import collections
import heapq
import operator

import loops
import numpy as np

PROGRAMS = []
program = loops.collect(PROGRAMS)

Point = collections.namedtuple("Point", "x y")
PARTICLE = np.dtype([("mass", "f8"), ("x", "f8"), ("v", "f8"), ("kind", "i4")])
WORDS = "the quick brown fox jumps over the lazy dog and then the dog sleeps".split()


def rng(seed=5):
    return np.random.default_rng(seed)


def particles(n):
    made = np.zeros(n, dtype=PARTICLE)
    made["mass"], made["x"], made["v"] = rng().random(n) + 1, rng(2).random(n), rng(3).random(n)
    made["kind"] = np.arange(n) % 3
    return made


@program(lambda: (particles(200), 3))
def records_moved(p, steps):
    for _ in range(steps):
        for i in range(len(p)):
            p[i]["x"] += 0.1 * p[i]["v"]
            if p[i]["kind"] == 1:
                p[i]["v"] *= 0.5
    return p["x"].sum()


@program(lambda: (particles(200), 3))
def fields_by_element(p, steps):
    x, v, kind = p["x"], p["v"], p["kind"]
    for _ in range(steps):
        for i in range(len(x)):
            x[i] += 0.1 * v[i]
            if kind[i] == 1:
                v[i] *= 0.5
    return p


@program(lambda: (particles(200),))
def field_before_index(p):
    energy = 0.0
    for i in range(len(p)):
        energy += 0.5 * p["mass"][i] * p["v"][i] * p["v"][i]
    return energy


@program(lambda: (particles(15).view(np.recarray), particles(12).view(np.recarray)))
def pairs_of_records(a, b):
    for i in range(a.size):
        first = a[i]
        for j in range(b.size):
            second = b[j]
            second.x += first.mass * second.mass + first.x - first.v
        first.mass += second.mass
        first.v -= second.v
    return b.x


@program(lambda: (WORDS * 20,))
def word_counts(words):
    counts = {}
    for w in words:
        counts[w] = counts.get(w, 0) + 1
    return counts


@program(lambda: (WORDS * 20,))
def letters_by_default(words):
    seen = collections.defaultdict(int)
    for w in words:
        for ch in w:
            seen[ch] += 1
    return dict(seen)


@program(lambda: (rng().integers(0, 50, 600).tolist(),))
def grouped_by_remainder(numbers):
    groups = {}
    for n in numbers:
        k = n % 7
        if k in groups:
            groups[k].append(n)
        else:
            groups[k] = [n]
    return groups


@program(lambda: ({"px": np.array([1, 0.5, 2]), "vx": np.array([0.5, 0, 0.7])}, 60))
def arrays_in_a_dict(d, steps):
    for _ in range(steps):
        d["px"] += d["vx"] * 0.01
    return d


@program(lambda: (400,))
def list_that_grows(n):
    out = []
    for i in range(n):
        if i % 3:
            out.append(i * 0.5)
        elif out:
            out[-1] += 1.0
    return out, len(out)


@program(lambda: (30,))
def lists_in_lists(n):
    table = []
    for i in range(n):
        row = []
        for j in range(n):
            row.append(i * j)
        table.append(row)
    total = 0
    for row in table:
        total += sum(row)
    return table, total


@program(lambda: ([Point(k * 0.5, k % 7) for k in range(300)],))
def named_tuples_read(points):
    sx = sy = 0.0
    for p in points:
        sx += p.x * p.y
        sy += p.y
    return sx, sy


@program(lambda: (250,))
def named_tuples_made(n):
    p = Point(0.0, 1.0)
    for i in range(n):
        p = Point(p.x + 0.1 * p.y, p.y - 0.1 * p.x)
    return p


@program(lambda: (WORDS * 10,))
def words_upper(words):
    out = []
    for w in words:
        out.append(w.upper())
    return out


@program(lambda: ("alpha=1, beta = 22,gamma= 333 ,delta=4," * 12,))
def fields_of_a_text(text):
    total = 0
    names = []
    for part in text.split(","):
        if not part:
            continue
        name, _, value = part.partition("=")
        names.append(name.strip())
        if value.strip().isdigit():
            total += int(value)
    return names, total


@program(lambda: (200,))
def numbers_as_text(n):
    out = []
    for i in range(n):
        out.append("item" + str(i))
    return "-".join(out)


@program(lambda: (200,))
def formatted(n):
    length = 0
    for i in range(n):
        length += len(f"{i}:{i * i}")
    return length


@program(lambda: ("abracadabra" * 20, "abra"))
def places_found(text, word):
    at = text.find(word)
    places = []
    while at >= 0:
        places.append(at)
        at = text.find(word, at + 1)
    return places


@program(lambda: ("A man, a plan, a canal: Panama" * 8,))
def is_palindrome(text):
    i, j = 0, len(text) - 1
    while i < j:
        if not text[i].isalpha():
            i += 1
        elif not text[j].isalpha():
            j -= 1
        elif text[i].lower() != text[j].lower():
            return False
        else:
            i += 1
            j -= 1
    return True


@program(lambda: ("Hello, World" * 25, 3))
def caesar(text, key):
    out = ""
    for ch in text:
        if "a" <= ch <= "z":
            out += chr((ord(ch) - 97 + key) % 26 + 97)
        elif "A" <= ch <= "Z":
            out += chr((ord(ch) - 65 + key) % 26 + 65)
        else:
            out += ch
    return out


@program(lambda: (rng().integers(0, 60, 400).tolist(),))
def distinct(numbers):
    seen = set()
    twice = set()
    for n in numbers:
        if n in seen:
            twice.add(n)
        else:
            seen.add(n)
    return len(seen), sorted(twice)


@program(lambda: (rng().integers(0, 999, 200).tolist(),))
def merged_by_heap(numbers):
    heap = []
    for n in numbers:
        heapq.heappush(heap, n)
        if len(heap) > 20:
            heapq.heappop(heap)
    return sorted(heap)


@program(lambda: (rng().integers(0, 999, 200).tolist(),))
def kept_in_order(numbers):
    kept = []
    for n in numbers:
        at = bisect.bisect_left(kept, n)
        if at == len(kept) or kept[at] != n:
            kept.insert(at, n)
    return kept


@program(lambda: ([(k * 7 % 13, k) for k in range(60)], 20))
def sorted_by_key(pairs, times):
    s = 0
    for i in range(times):
        by = sorted(pairs, key=lambda p: (p[0] + i) % 13)
        s += by[0][1] - by[-1][1]
    return s


@program(lambda: ([3, 1, 2] * 40, [0.5, 0.25, 0.125] * 40))
def enumerated_and_zipped(a, b):
    s = 0.0
    for i, (x, y) in enumerate(zip(a, b)):
        s += i * x * y
    for x, y in zip(reversed(a), b):
        s -= x * y
    return s


def fibonacci(n):
    a, b = 0, 1
    while a < n:
        yield a
        a, b = b, a + b


@program(lambda: (10**9, 8))
def generator_consumed(limit, times):
    s = 0
    for _ in range(times):
        for x in fibonacci(limit):
            s += x & 7
    return s


def scaled_windows(a, k):
    for i in range(len(a) - k):
        s = 0.0
        for j in range(k):
            s += a[i + j]
        yield s / k


@program(lambda: (rng().random(150), 4))
def windows_by_generator(a, k):
    most = 0.0
    for mean in scaled_windows(a, k):
        if mean > most:
            most = mean
    return most


@program(lambda: (3, 300))
def closure_called(k, n):
    def step(x):
        return x * k % 101

    s = 1
    for i in range(n):
        s = step(s) + i
    return s


def compose(f, g, x):
    return f(g(x))


def double(x):
    return 2 * x


def lessened(x):
    return x - 1


@program(lambda: (300, [double, lessened]))
def functions_passed(n, fs):
    s = 0
    for i in range(n):
        s += compose(fs[0], fs[1], i)
    return s


class Bag:
    def __init__(self, value):
        self.value = value
        self.items = np.zeros(value, dtype=np.float32)

    @property
    def size(self):
        return self.items.size

    def increment(self, by):
        for i in range(self.size):
            self.items[i] += by
        return self.items

    @staticmethod
    def add(x, y):
        return x + y


@program(lambda: (Bag(21), 10))
def instance_methods(bag, n):
    s = 0
    for i in range(n):
        bag.increment(i)
        s = bag.add(s, bag.value)
    return bag.items, s


class Interval:
    def __init__(self, low, high):
        self.low = low
        self.high = high

    @property
    def width(self):
        return self.high - self.low


@program(lambda: ([Interval(k * 0.5, k) for k in range(50)], 4))
def intervals(made, times):
    total, inside = 0.0, 0
    for t in range(times):
        for interval in made:
            total += interval.width
            if interval.low <= t * 5 < interval.high:
                inside += 1
    return total, inside


@program(lambda: (200,))
def instances_made(n):
    s = 0.0
    for i in range(n):
        s += Interval(i * 0.5, i + 1).width
    return s


@program(lambda: ([4, 9, -1, 16] * 30,))
def raised_and_caught(numbers):
    s = 0.0
    bad = 0
    for n in numbers:
        try:
            if n < 0:
                raise ValueError("negative")
            s += n**0.5
        except ValueError:
            bad += 1
    return s, bad


@program(lambda: ([5, 3, 2, 0, 7],))
def divided_by_zero(numbers):
    s = 0
    for n in numbers:
        s += 100 // n
    return s


@program(lambda: (rng().random(30), 31))
def index_outside(a, n):
    s = 0.0
    for i in range(n):
        s += a[i]
    return s


@program(lambda: (list(range(100)), 250))
def ended_by_raise(numbers, limit):
    s = 0
    for n in numbers:
        s += n
        if s > limit:
            raise RuntimeError("too much", s)
    return s


@program(lambda: (operator.add, list(range(300))))
def folded(op, numbers):
    s = 0
    for n in numbers:
        s = op(s, n)
    return s


@program(lambda: ([True, False, None, 3, 2.5] * 40,))
def and_or(values):
    n = 0
    for v in values:
        if (v and v is not True) or v is None:
            n += 1
        n += 2 if not v else 0
    return n


@program(lambda: (15,))
def mutual_recursion(n):
    s = 0
    for i in range(n):
        s += is_even(i) + 2 * is_odd(i)
    return s


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


@program(lambda: ([(1, 2.0), (3, 4.5), (5, 0.5)] * 60,))
def tuples_unpacked(pairs):
    s = 0.0
    low = (9, 9.0)
    for pair in pairs:
        a, b = pair
        s += a * b
        low = min(low, pair)
    return s, low


@program(lambda: ([[1, 2], [3], [], [4, 5, 6]] * 40,))
def comprehended(lists):
    s = 0
    for items in lists:
        squares = [x * x for x in items if x != 3]
        s += len(squares) + sum(squares)
    return s


if __name__ == "__main__":
    loops.main(PROGRAMS, __doc__)
