"""A copy that moves as many bytes as a kernel's arguments and results have together, by all threads. No peer: suite.py holds the
kernels that say `memory` against it.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from forms import Form
from kernels import arrays_of

VERSION = f"numpy.copyto {np.__version__}"
POOL = []


def start(threads):
    POOL.append(ThreadPoolExecutor(threads))
    POOL.append(threads)


def moved(kernel, args):
    """Bytes that the kernel has to read and write at least."""
    return sum(a.nbytes for a in arrays_of((args, kernel.fn(*args))))


def form(kernel):
    pool, threads = POOL

    def take(args):
        source = np.ones(moved(kernel, args) // 2, np.uint8)
        goal = np.zeros_like(source)
        return list(zip(np.array_split(goal, threads), np.array_split(source, threads)))

    def call(*parts):
        for done in [pool.submit(np.copyto, goal, source) for goal, source in parts]:
            done.result()

    return Form(call, take, note="copy")
