"""Random programs that index arrays: lookups, writes and ufunc.at by arrays of integers, masks, numbers and slices mixed,
bincount, histograms, take; eagerly and under dynoc, call after call with other sizes and orders of elements.

    python tests/fuzz/index_programs.py [--count N] [--seed FIRST] [--compiled 0] [--show SEED]

A program has one index of one to four axes and a few statements with it. Each call has sizes, values and layouts of its own: some
places lie outside, some masks have another length, some arrays can't be written or overlap what is written. Compared is all that
compare.py compares, and whether results own their elements. A few programs are run by tests/fuzz/test_index_programs.py.
"""

import argparse
import pathlib
import random
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).parents[1] / "py"))  # behind: tests/ir has modules of the same names
from case import Call  # noqa: E402
from compare import check, dynoc, run  # noqa: E402

DTYPES = ("f8", "f8", "f4", "i8", "i4", "u1", "i2", "?", "c16")
INDEX = ("i8", "i8", "i4", "u1", "i1", "i2", "u4", "u8", "u2")
SIZES = (1, 2, 3, 4, 5, 7, 9, 16, 17, 33)
SLICES = (":", ":", ":", "1:", "::-1", "::2", ":-1", "-3:", "0:0")
STATEMENTS = (
    "r.append({x}[{at}])", "r.append({x}[{at}] * 2)", "r.append({x}[{at}] + {x}[{at}])", "r.append(({x} + {x})[{at}])",
    "r.append({x}[{at}] == v)", "{x}[{at}] = v", "{x}[{at}] = 1", "{x}[{at}] += v", "{x}[{at}] = 1 - {x}[{at}]",
    "np.add.at({x}, {tuple}, v)", "np.add.at({x}, {tuple}, 1)", "np.maximum.at({x}, {tuple}, v)",
    "np.multiply.at({x}, {tuple}, v)", "{x}[{at}] = {x}[{at}][::-1]", "r.append(np.take({x}, i, axis={axis}) + 1)",
    "r.append({x}.take(i))", "r.append(np.bincount(i, minlength=3))", "r.append(np.bincount(i, weights=j))",
    "r.append(np.bincount(i) + 1)", "r.append(np.histogram({x}, 5))", "r.append(np.histogram({x}, 4, (0, 3)))",
    "r.append(np.histogram(i, 4, weights=j))", "r.append(np.cumsum({x}, axis={axis}))", "r.append({x}.T[i])",
    "{x}.T[i] = 1", "r.append({x}[i] - 1)", "{x}[full] = 1", "r.append({x}[full])", "{x}[full] += 1",
    "{x}[full] = {x}[full][::-1]", "r.append({x}[full] * 2)",
)  # fmt: skip


class Program:
    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.rank = rng.choice((1, 1, 2, 2, 2, 3, 3, 4))
        self.items = []  # (text, axis or None)
        axis, dots = 0, False
        while axis < self.rank and (not self.items or rng.random() < 0.85):
            kind = rng.choice("aaaaissnm." if self.items else "aaaiissm.")
            if kind == ".":
                if not dots and self.rank - axis > 1:
                    skipped = rng.randint(0, self.rank - axis - 1)
                    axis, dots = axis + skipped, True
                    self.items.append(("...", None))
                continue
            if kind == "n":
                self.items.append(("None", None))
                continue
            text = {
                "a": rng.choice("iiijk"), "i": rng.choice(("p", "0", "-1")), "s": rng.choice(SLICES), "m": "m",
            }[kind]  # fmt: skip
            self.items.append((text, axis))
            axis += 1
        if dots:  # the axes behind the dots are the last ones
            for n in range(self.rank - axis):
                self.items.append((":", axis + n))
        self.at = ", ".join(text for text, _ in self.items)
        as_tuple = "".join(f"np.s_[{t}], " if ":" in t or t == "..." else f"{t}, " for t, _ in self.items)
        lines = [rng.choice(STATEMENTS[:14] if rng.random() < 0.7 else STATEMENTS) for _ in range(rng.randint(1, 3))]
        arrays = any(text in "ijkm" for text, _ in self.items)
        if not arrays or self.items[0][1] is None or ":" in self.items[0][0]:
            lines = [line for line in lines if ".at(" not in line] or STATEMENTS[:1]
        self.has_at = any(".at(" in line for line in lines)
        names = {"at": self.at, "tuple": f"({as_tuple})" if len(self.items) > 1 else as_tuple[:-2], "x": "a"}
        self.lines = [line.format(axis=rng.randrange(self.rank), **names) for line in lines]

    def source(self):
        body = "".join(f"    {line}\n" for line in ["r = []", *self.lines, "return a, r"])
        return f"def program(a, i, j, k, m, full, p, v):\n{body}"

    def call(self, seed):
        """The arguments, made anew each time it is asked."""
        return lambda: Call(*Arguments(self, random.Random(seed)).all)


class Arguments:
    def __init__(self, program, rng):
        self.rng = rng
        self.numbers = np.random.default_rng(rng.randrange(1 << 30))
        shape = [0 if rng.random() < 0.02 else rng.choice(SIZES) for _ in range(program.rank)]
        dtype = np.dtype(rng.choice(DTYPES))
        a = self.laid_out(shape, dtype)
        axes = {text: axis for text, axis in program.items if axis is not None}
        named = [shape[axis] for text, axis in program.items if text in ("i", "j", "k")]
        low = min([*named, shape[0]])
        n = rng.choice(SIZES)
        kind = np.dtype(rng.choice(INDEX))
        i, j = self.places(low, (n,), kind), self.places(low, (n,), np.dtype(rng.choice(INDEX)))
        k = self.places(low, (rng.choice((1, 2, 3)), n), kind)
        length = shape[axes["m"]] if "m" in axes else 3
        m = self.numbers.random(length + (rng.random() < 0.03)) < rng.choice((0.1, 0.5, 0.9))
        full = self.laid_out(shape, np.dtype("?"))
        p = rng.randrange(-low, low) if low else 0
        scope = {"a": a, "i": i, "j": j, "k": k, "m": m, "p": p, "np": np}
        try:
            found = eval(f"a[{program.at}]", scope).shape
        except IndexError:
            found = (n,)
        # of values of a lower rank NumPy's ufunc.at reads what nobody has written
        v = self.laid_out(found, dtype) if program.has_at and found else self.value(found, dtype, a)
        if rng.random() < 0.03:
            a.flags.writeable = False
        self.all = (a, i, j, k, m, full, p, v)

    def laid_out(self, shape, dtype):
        """In C order, or turned, backwards, a part of something."""
        how = self.rng.choice(("c", "c", "c", "f", "turned", "back", "part"))
        order = list(range(len(shape)))
        if how == "turned":
            self.rng.shuffle(order)
        if how == "f":
            order.reverse()
        lain = [shape[axis] for axis in order]
        if how == "part":
            lain = [2 * size + 1 for size in lain]
        x = self.numbers.integers(0, 2 if dtype.kind == "b" else 5, lain).astype(dtype)
        x = x[tuple(slice(1, None, 2) for _ in lain)] if how == "part" else x[::-1] if how == "back" else x
        return x.transpose(np.argsort(order))

    def places(self, size, shape, dtype):
        low = 0 if dtype.kind == "u" or self.rng.random() < 0.5 else -size
        x = self.numbers.integers(low, max(size, 1), shape).astype(dtype)
        if self.rng.random() < 0.04:
            x.flat[self.rng.randrange(x.size)] = 99
        return x[..., ::-1] if self.rng.random() < 0.2 else x

    def value(self, shape, dtype, a):
        how = self.rng.random()
        if how < 0.1:
            return a[..., : shape[-1]] if shape and len(shape) <= a.ndim else a  # of the same memory
        if how < 0.2:
            return np.array(2, dtype)
        if how < 0.3 and shape:
            shape = shape[1:]
        if how < 0.4 and len(shape) > 1:
            shape = (1, *shape[1:])
        if self.rng.random() < 0.2:
            dtype = np.dtype(self.rng.choice(DTYPES))
        return self.laid_out(shape, dtype) if shape else np.array(3, dtype)


def owners(out):
    items = out.result[1] if out.error is None else []
    return [x.base is None for x in items if isinstance(x, np.ndarray)]


def compared(program, wait=False, calls=5):
    """None, or what differs."""
    scope = {"np": np}
    code = compile(program.source(), "<index program>", "exec")
    exec(code, scope)
    plain = scope["program"]
    fast = dynoc.optimize(plain, wait=wait)
    seed = program.rng.randrange(1 << 30)
    for n in (0, 0, *range(1, calls), 0):
        make = program.call(seed + n)
        try:
            check(plain, fast, make, tol="near" if "histogram" in program.source() else "bits")
        except AssertionError as error:
            return str(error)
        want, got = (owners(run(fn, make(), plain.__code__.co_filename)) for fn in (plain, fast))
        if want != got:
            return f"results that own their elements: {got} instead of {want}"
    return None


def run_seed(seed, wait=False):
    """None, or a text that says what the program of that seed does differently."""
    program = Program(seed)
    found = compared(program, wait)
    return None if found is None else f"seed {seed}\n{program.source()}{found}\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", type=int, default=0, help="every so many natively, others built-in")
    parser.add_argument("--show", type=int)
    options = parser.parse_args()
    if options.show is not None:
        print(Program(options.show).source())
        options.seed, options.count = options.show, 1
    failed = 0
    for seed in range(options.seed, options.seed + options.count):
        found = run_seed(seed, wait=options.compiled > 0 and seed % options.compiled == 0)
        if found:
            failed += 1
            print(f"\n{found}", flush=True)
        if seed % 50 == 0:
            dynoc.reset()
    print(f"\n{options.count} programs, {failed} differ")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
