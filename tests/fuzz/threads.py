"""Threads that call, record, compile, evict, reset and change settings at once, for a time; results are compared with NumPy's.

    python tests/fuzz/threads.py [SECONDS] [THREADS]

Ends with status 0 and one line, or with the first difference. Run by `make tsan` with the thread sanitizer, and by hand.
"""

import gc
import random
import sys
import threading
import time

import numpy as np

import dynoc


def chain(x, k):
    y = np.sqrt(x * x + k) - x
    return y * 2.0 + np.abs(y)


def rows(x, k):
    return (x - x.max(axis=-1, keepdims=True)) * k


def elements(x, k):
    n = 0
    for i in range(len(x)):
        if x[i] < k:
            n += 1
    return n


def steps(x, k):
    for _ in range(20):
        x = np.minimum(x * 1.5, k) + 0.25
    return x


FUNCTIONS = (chain, rows, elements, steps)

# What threads set while others run kernels: none of it changes a result by more than same() allows.
SETTINGS = {
    "memory_limit": (0, 20_000, 200_000),
    "threads": (0, 1, 2),
    "keep_memory": (0, 1, 256),
    "cache_limit": (2, 8),
    "retire": (True, False),
    "dynamic": (True, False),
    "record_limit": (200, 20_000),
    "fast_math": (True, False),
    "cflags": ("", "-fno-unroll-loops"),
    "compile_timeout": (30, 60),
    "record_all": (True, False),
    "force_bail": (-1, 40),
    "force_leave": (-1, 0),
}


def fresh(function, name):
    """The same function as a new object, with a code object and globals of its own."""
    space = {"np": np, "__builtins__": __builtins__}
    return type(function)(function.__code__.replace(co_name=name), space)


def same(a, b):
    if isinstance(a, int):
        return a == b
    return a.dtype == b.dtype and np.allclose(a, b, rtol=32 * np.finfo(a.dtype).eps, atol=0)


class Worker(threading.Thread):
    def __init__(self, number, shared, until, wrong):
        super().__init__()
        self.random = random.Random(number)
        self.number, self.shared, self.until, self.wrong = number, shared, until, wrong
        self.calls = 0

    def one_call(self):
        plain = self.random.choice(FUNCTIONS)
        kind = self.random.random()
        if kind < 0.7:
            function = self.shared[plain]
        elif kind < 0.85:
            function = fresh(plain, f"{plain.__name__}_{self.number}")
        else:
            options = self.random.choice((None, {"threads": 1}, {"fast_math": False, "retire": False}))
            named = fresh(plain, f"{plain.__name__}_{self.number}")
            function = dynoc.optimize(named, wait=self.random.random() < 0.1, options=options)
        x = np.linspace(0.0, 1.0, self.random.choice((5, 60, 1000))).astype(self.random.choice(("f8", "f4")))
        k = self.random.choice((0.5, 2.0))
        for _ in range(self.random.choice((1, 3, 30))):
            got, wanted = function(x, k), plain.__wrapped__(x, k)
            self.calls += 1
            if not same(got, wanted):
                self.wrong.append(f"{plain.__name__}({x.dtype}, {len(x)}, {k}): {got} is not {wanted}")

    def run(self):
        while time.monotonic() < self.until and not self.wrong:
            self.one_call()
            what = self.random.random()
            if what < 0.02:
                dynoc.reset()
            elif what < 0.04:
                gc.collect()
            elif what < 0.15:
                name = self.random.choice(tuple(SETTINGS))
                setattr(dynoc.config, name, self.random.choice(SETTINGS[name]))


def main(seconds=20.0, count=16):
    for function in FUNCTIONS:
        function.__wrapped__ = dynoc.skip(fresh(function, "plain"))
    shared = {function: dynoc.optimize(fresh(function, function.__name__)) for function in FUNCTIONS}
    wrong = []
    until = time.monotonic() + float(seconds)
    workers = [Worker(number, shared, until, wrong) for number in range(int(count))]
    dynoc.enable()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    dynoc.disable()
    print(wrong[0] if wrong else f"{sum(worker.calls for worker in workers)} calls by {len(workers)} threads: nothing wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
