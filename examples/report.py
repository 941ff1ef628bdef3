"""A program to look at in a report: `python -m dynoc --report out.html examples/report.py`.

It has what a report shows: lines that run in kernels, a call that breaks the graph, and a loop over numbers.
"""

import math

import numpy as np


def distance(x, y):
    return np.sqrt(x * x + y * y)


def smooth(field):
    inner = (field[1:-1, 2:] + field[1:-1, :-2] + field[2:, 1:-1] + field[:-2, 1:-1]) / 4
    change = np.abs(inner - field[1:-1, 1:-1]).max()
    print(end="")  # what dynoc can't see into breaks the graph
    return np.pad(inner, 1), change


def series(n):
    total = 0.0
    for k in range(1, n):
        total += math.sin(k) / k
    return total


def main():
    grid = np.linspace(-1, 1, 400)
    field = distance(grid[:, None], grid[None, :])
    change = total = 0.0
    for _ in range(60):
        field, change = smooth(field)
    for _ in range(20):
        total = series(100000)
    print(f"last change {change:.2e}, series {total:.4f}")


if __name__ == "__main__":
    main()
