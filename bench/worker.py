"""One peer in a process of its own. suite.py starts it, writes requests as lines of JSON and reads as many lines of answers.

    python bench/worker.py PEER THREADS

    {"do": "prepare", "kernel": NAME, "size": N}   compile, compare with NumPy   {"note": TEXT}
    {"do": "time", "seconds": S}                   of what was prepared          {"median": S, "least": S}
    {"do": "memory", "kernel": NAME, "size": N}    one call                      {"bytes": N}

The first line comes unasked: {"version": TEXT}. An answer {"unable": REASON} stands for what can't be done.
"""

import gc
import importlib
import json
import os
import statistics
import sys
import time

import kernels
from forms import Unable
from memory import peak_of

WARM_UP = 3
LINE_END = "\n"


class Worker:
    def __init__(self, peer):
        self.peer = peer
        self.forms = {}
        self.call = None

    def form(self, kernel):
        if kernel.name not in self.forms:
            self.forms[kernel.name] = self.peer.form(kernel)
        return self.forms[kernel.name]

    def prepare(self, request):
        kernel = kernels.named(request["kernel"])
        self.call = None  # the arrays of the kernel before
        form = self.form(kernel)
        args = kernel.make(request["size"])
        own = form.take(args)
        for _ in range(WARM_UP):
            result = form.call(*own)
        if form.note != "copy":
            differs = kernels.wrong(kernel, kernel.fn(*args), form.give(result))
            if differs:
                return {"unable": f"wrong: {differs}"}
        self.call = lambda: form.call(*own)
        return {"note": "; ".join(filter(None, (form.note, form.check())))}

    def time(self, request):
        """Median and least seconds of a call; short calls are taken together."""
        call, stop = self.call, time.perf_counter() + request["seconds"]
        times = max(1, int(1e-3 / max(taken(call, 1), 1e-8)))
        samples = []
        while len(samples) < 3 or time.perf_counter() < stop:
            samples.append(taken(call, times))
        return {"median": statistics.median(samples), "least": min(samples)}

    def memory(self, request):
        """Compiled at a small size before; a peer that compiles for each size has its compiler in the figure."""
        kernel = kernels.named(request["kernel"])
        form = self.form(kernel)
        for _ in range(WARM_UP):
            form.call(*form.take(kernel.make(1000)))
        own = form.take(kernel.make(request["size"]))
        gc.collect()
        return {"bytes": peak_of(lambda: form.call(*own))}


def taken(call, times):
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def answered(worker, request):
    try:
        return getattr(worker, request["do"])(request)
    except Unable as reason:
        return {"unable": str(reason)}
    except Exception as error:  # whatever a peer's compiler raises is its answer
        return {"unable": f"{type(error).__name__}: {str(error).strip().partition(LINE_END)[0]}"[:120]}


def main(name, threads):
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    try:
        peer = importlib.import_module(f"peer_{name}")
        peer.start(threads)
    except ImportError as error:
        print(json.dumps({"unable": str(error)}), file=answers)
        return
    print(json.dumps({"version": peer.VERSION}), file=answers)
    worker = Worker(peer)
    for line in sys.stdin:
        print(json.dumps(answered(worker, json.loads(line))), file=answers)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
