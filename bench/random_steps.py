"""Random programs that are a few steps in a row: gpu_check.py's and gpu_cupy.py's."""

import random


def program(seed, kinds):
    """Two to seven steps of these kinds, lists of functions of two arrays; three results are given."""
    r = random.Random(seed)
    steps = [r.choice(r.choice(kinds)) for _ in range(r.randint(2, 7))]

    def f(x, y):
        made = []
        for step in steps:
            x, y = step(x, y), x
            made.append(x)
        return made[-1], made[len(made) // 2], y

    return f
