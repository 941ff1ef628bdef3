"""What dynoc's hook costs calls of functions that have nothing for it: a function that calls itself, and a method in a loop.

    python bench/hook.py

Prints nanoseconds of CPU time for a call, plain and under `dynoc.enable()`, each the least of forty turns.
"""

import platform
import time

CALLS = 8361  # that fibonacci(18) makes


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


class Item:
    def given(self, x):
        return x


def methods(n):
    item, total = Item(), 0
    for i in range(n):
        total += item.given(i)
    return total


def least(function, argument, calls):
    turns = []
    for _ in range(40):
        start = time.process_time()
        function(argument)
        turns.append(time.process_time() - start)
    return 1e9 * min(turns) / calls


def measured():
    return least(fibonacci, 18, CALLS), least(methods, 20_000, 20_000)


def main():
    plain = measured()
    import dynoc

    with dynoc.enabled():
        hooked = measured()
    for name, before, after in zip(("recursion", "methods"), plain, hooked, strict=True):
        print(f"{platform.python_version()} {name:9} {before:6.1f} ns plain, {after:6.1f} ns with the hook, {after / before:.3f}")


if __name__ == "__main__":
    main()
