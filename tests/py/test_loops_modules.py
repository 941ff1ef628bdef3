"""Loops of modules, whose variables are items of a dict: what they leave there, in which order, and what others see of it."""

import io
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from contextlib import redirect_stdout

import numpy as np
import pytest
from going_over import HAS, enabled, go_over, gone_over  # noqa: F401
from process import environment_of

import dynoc


def native():
    return dynoc.counters["loops"].get("native", 0)


def places(e):
    return [(row.name, row.lineno, row.colno) for row in traceback.extract_tb(e.__traceback__)][1:]


def described(value):
    if isinstance(value, (int, float, str, np.ndarray, type(None))):
        return type(value), repr(value)
    items = list(value) if isinstance(value, (list, dict)) and len(repr(value)) < 1000 else None
    return type(value), items if items is None or "over" not in items else "names"


def outcome(source, over, **names):
    """What is in the module's dict in the end, what it printed, and its exception with the places of the traceback."""
    namespace, out, error = {"__name__": "program", "over": over, **names}, io.StringIO(), None
    code = compile(textwrap.dedent(source), "program.py", "exec")
    try:
        with redirect_stdout(out):
            exec(code, namespace)
    except BaseException as e:
        error = type(e), str(e), places(e)
    left = [(name, described(value)) for name, value in namespace.items() if name not in ("__builtins__", "over")]
    return left, out.getvalue(), error


PROGRAMS = {
    "sums": """
        s = 0
        for i in range(400_000):
            if i == 3: over()
            s += i * i % 7
    """,
    "while": """
        k, s = 0, 0.5
        while k < 300_000:
            k += 1
            if k == 3: over()
            s = s * 1.5 - 0.25 * s * s
        else:
            done = True
    """,
    "nested": """
        n = 0
        for i in range(600):
            if i == 3: over()
            for j in range(i):
                if i * j % 7 == 3: continue
                if j > 400: break
                n += j
    """,
    "new names": """
        total = 0
        for i in range(200_000):
            if i == 3: over()
            if i > 150_000:
                late = i
                later = late + total % 3
            total += i
        for p in range(1000):
            x = p * 2
            y = x + 1
    """,
    "new names in an order that data tells": """
        over_at = 3
        for i in range(300):
            if i == over_at: over()
            for j in range(2000):
                if j == 7:
                    if i % 2: one = j
                    else: two = j
                    three = i
    """,
    "deleted names": """
        s, t = 0, 1
        for i in range(100_000):
            if i == 3: over()
            s += i
            t = s
            if i % 1000 == 1:
                del t
                t = 5
    """,
    "an exception": """
        s = 0
        data = list(range(100_000, -5, -1))
        for i in range(200_000):
            if i == 3: over()
            v = data[i]
            s += 1000 // v
    """,
    "an exception that is caught": """
        s = 0
        for i in range(100_000):
            if i == 3: over()
            try:
                s += 10 // (i % 20_000)
            except ZeroDivisionError as e:
                print(i, s, e.__traceback__.tb_lineno, sorted(k for k in globals() if len(k) == 1))
    """,
    "overflow": """
        x = 3
        for i in range(100_000):
            if i == 3: over()
            x = x * 3 if i < 60 else x + 1
    """,
    "functions read globals": """
        count, shift = 0, 3
        def seen(): return count + shift
        total = 0
        for i in range(200_000):
            if i == 3: over()
            count += 1
            total += seen()
    """,
    "functions change globals": """
        count, total = 0, 0
        def bump():
            global count
            count += 1
        for i in range(50_000):
            if i == 3: over()
            if i % 10_000 == 9: bump()
            total += count
    """,
    "a function looks at all": """
        a, b = 0, 1
        def look(): print(a, b, globals()["a"], "late" in globals())
        for i in range(100_000):
            if i == 3: over()
            a += b
            if i == 70_000: late = i
            if i % 30_000 == 5: look()
    """,
    "the dict itself": """
        a, all_names = 0, globals()
        nested = [all_names]
        for i in range(100_000):
            if i == 3: over()
            a += all_names["a"] % 2 + 1 + nested[0]["a"] % 3
            all_names["b"] = a
    """,
    "recursion": """
        depth = 12
        def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2) + (0 if depth else 1)
        for i in range(60):
            if i == 3: over()
            depth = i % 2
            s = fib(depth + 11)
    """,
    "lists and texts": """
        out, words = [], "a b cc d".split() * 2000
        counts = {}
        for round in range(6):
            if round == 2: over()
            fresh = []
            for w in words:
                counts[w] = counts.get(w, 0) + 1
                fresh.append(len(w))
            out = fresh
        s = sum(out)
    """,
    "elements": """
        a = np.arange(40_000.0).reshape(200, 200)
        b = np.zeros((200, 200))
        for t in range(3):
            if t == 1: over()
            for i in range(1, 199):
                for j in range(1, 199):
                    b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
            a, b = b, a
        total = float(a.sum())
    """,
    "destructors": """
        class Last:
            def __init__(self, n): self.n = n
            def __del__(self): print("end", self.n, i)
        held = Last(-1)
        for i in range(30_000):
            if i == 3: over()
            if i % 10_000 == 7: held = Last(i)
        for i in range(20_000):
            kept = [held]
            if i == 15_000: held = None
    """,
    "comprehensions": """
        out = 0
        for i in range(2000):
            if i == 3: over()
            row = [k * i for k in range(20)]
            out += sum(row) + sum(k for k in range(5))
    """,
    "builtins": """
        s = 0
        for i in range(100_000):
            if i == 3: over()
            if i == 90_000: max = min
            s += max(i % 7, 3)
    """,
    "global at the top": """
        global g
        g = 0
        for i in range(50_000):
            if i == 3: over()
            g += i
    """,
}


MAY_STAY = {"recursion", "global at the top"}  # 3.11 waits for a jump for some lines alone; it has no variable that is a slot


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_without(program):
    wanted = outcome(PROGRAMS[program], bool, np=np)
    before = gone_over()
    assert outcome(PROGRAMS[program], go_over, np=np) == wanted
    assert not HAS or program in MAY_STAY or gone_over() > before


# They run until their loops are native, and then for so many trips more.
LONG = {
    "numbers": """
        s, x, left = 0, 0.5, 100_000
        for i in range(10**9):
            if i == 3: over()
            s = (s * 7 + i) % 1000003
            x = x * 1.5 - 0.25 * x * x
            if i % 50_000 == 7 and there(): left = 0
            if left == 0: break
    """,
    "functions": """
        count, shift, total = 0, 3, 0
        def seen(): return count % 5 + shift
        while True:
            count += 1
            if count == 3: over()
            total = (total + seen()) % 1000
            if count % 50_000 == 7 and there(): break
    """,
    "nested": """
        a, t = np.ones((50, 50)), 0
        while not there():
            t += 1
            if t == 2: over()
            for i in range(50):
                for j in range(50):
                    a[i, j] = a[i, j] * 1.5 - 0.25 * a[i, j] * a[i, j]
    """,
}


@pytest.mark.skipif(not HAS, reason="code stays in the loop that it began in")
@pytest.mark.parametrize("program", LONG)
def test_is_native(program):
    before, until, trips = native(), time.monotonic() + 60, []

    def there():
        trips.append(native() > before or time.monotonic() > until)
        return len(trips) > 2 and trips[-3]

    got = outcome(LONG[program], go_over, np=np, there=there)
    assert native() > before
    assert got == outcome(LONG[program], bool, np=np, there=replayed(trips))


def replayed(answers):
    left = list(answers)

    def there():
        left.pop(0)
        return not left

    return there


def test_dicts_of_other_kinds_stay():
    class Names(dict):
        pass

    source = "for i in range(50):\n    over()\n    x = i"
    before = gone_over()
    for namespaces in (({"over": go_over}, {}), ({"over": go_over}, Names()), ({"over": go_over, "x": 1}, {"i": 0})):
        exec(source, *namespaces)
        assert namespaces[1]["x"] == 49
    exec("class C:\n    for i in range(50):\n        over()\n        x = i", {"over": go_over})
    assert gone_over() == before


def test_threads_see_each_other():
    source = """
        seen, done, n = [], False, 0
        def look():
            while not done:
                seen.append(n)
        thread = threading.Thread(target=look)
        thread.start()
        for i in range(4_000_000):
            if i == 3: over()
            n += 1
        done = True
        thread.join()
        grows = all(a <= b for a, b in zip(seen, seen[1:]))
    """
    left = dict(outcome(source, go_over, threading=threading)[0])
    assert left["grows"] == (bool, "True")
    assert left["n"] == (int, "4000000")


def test_the_same_code_in_several_dicts():
    code = compile("for i in range(60_000):\n    if i == k: over()\n    s += i\n", "program.py", "exec")
    spaces = [{"s": n, "k": 3, "over": go_over} for n in range(4)]
    threads = [threading.Thread(target=exec, args=(code, space)) for space in spaces]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [space["s"] for space in spaces] == [sum(range(60_000)) + n for n in range(4)]


def test_a_tracer_that_comes_in_the_middle():
    """The line of the loop may be told twice where its header is arrived at (docs/known_issues.md)."""
    source = """
        lines = []
        def trace(frame, what, arg):
            if lines[-1:] != [(what, frame.f_lineno)]:
                lines.append((what, frame.f_lineno))
            return trace
        s = 0
        for i in range(20_000):
            if i == 3: over()
            if i == 15_000:
                sys.settrace(trace)
                sys._getframe().f_trace = trace
            if i == 15_002:
                sys.settrace(None)
            s += i
    """
    assert outcome(source, go_over, sys=sys) == outcome(source, bool, sys=sys)


def test_counts_of_references_stay():
    value = object()
    before = sys.getrefcount(value)
    for _ in range(20):
        outcome("for i in range(50):\n    over()\n    held = value\n", go_over, value=value)
    assert sys.getrefcount(value) == before


def run(*words, text=None):
    done = subprocess.run([sys.executable, *words], input=text, capture_output=True, text=True, env=environment_of(), timeout=300)
    return done.returncode, done.stdout, done.stderr


SCRIPT = """
import sys
s = 0
x = 0.5
def seen():
    return s
for i in range(8_000_000):
    s = (s * 7 + i) % 1000003
    x = x * 1.5 - 0.25 * x * x
print(s, x, i, seen(), list(globals())[-4:])
data = [1, 2, 3]
for k in range(5):
    print(data[k])
"""


def test_scripts(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    wanted, got = run(str(script)), run("-m", "dynoc", str(script))
    assert got[:2] == wanted[:2] == (1, wanted[1])
    assert got[2] == wanted[2]
    assert run("-m", "dynoc", "-", text=SCRIPT)[1] == wanted[1]
