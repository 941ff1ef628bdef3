"""Random programs of up to thirty operators, and what of a result can be held against NumPy to the bit.

A program is a list of statements over arguments a0, a1 … and the names t0, t1 … that earlier ones made. It is made by running it:
a statement that NumPy refuses is thrown away, so what is left works (on the arguments that it was made with). Arguments are
arrays of every captured dtype in every layout, NumPy scalars and Python numbers; statements are operators, ufuncs, reductions,
views, conversions, new arrays, and writes into what is there.
"""

import numpy as np

DTYPES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "e", "f", "d", "F", "D")
COMMON = ("d", "d", "f", "i8", "i4")
NUMBERS = ("2", "-1", "0.5", "3", "1.5", "True", "7", "0", "-2.25", "100", "1e-3", "(1+2j)", "300")

# {0} {1} {2} are operands. "near": not NumPy's to the bit; "open": NumPy's own loops differ in the sign of a zero.
EXACT_UNARY = (
    "-{0}", "abs({0})", "+{0}", "~{0}", "np.sign({0})", "np.square({0})", "np.floor({0})", "np.ceil({0})", "np.trunc({0})",
    "np.rint({0})", "np.isnan({0})", "np.isfinite({0})", "np.isinf({0})", "np.signbit({0})", "np.logical_not({0})",
    "np.conj({0})", "np.reciprocal({0})", "np.sqrt(abs({0}))", "np.positive({0})", "np.deg2rad({0})", "np.bitwise_count({0})",
    "np.round({0}, 1)", "np.frexp({0})[0]", "np.frexp({0})[1]", "np.modf({0})[0]", "np.modf({0})[1]", "np.spacing({0})",
    "np.nan_to_num({0})", "np.real({0})", "np.imag({0})", "{0}.conj()", "np.fabs({0})",
)  # fmt: skip
EXACT_BINARY = (
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / {1}", "{0} // {1}", "{0} % {1}", "{0} & {1}", "{0} | {1}", "{0} ^ {1}",
    "{0} << ({1} & 7)", "{0} >> ({1} & 7)", "{0} < {1}", "{0} <= {1}", "{0} > {1}", "{0} >= {1}", "{0} == {1}", "{0} != {1}",
    "np.logical_and({0}, {1})", "np.logical_or({0}, {1})", "np.logical_xor({0}, {1})", "np.copysign({0}, {1})",
    "np.heaviside({0}, {1})", "np.nextafter({0}, {1})", "np.fmod({0}, {1})", "divmod({0}, {1})[0]", "divmod({0}, {1})[1]",
    "np.gcd({0}, {1})", "np.lcm({0}, {1})", "np.where({0}, {1}, {0})", "np.where({0} > 0, {0}, {1})", "np.float_power({0}, 2)",
    "np.add({0}, {1}, dtype='d')", "np.subtract({0}, {1}, dtype='f', casting='same_kind')", "np.add.outer({0}, {1})",
    "np.divide({0}, {1}, out=np.zeros(np.broadcast({0}, {1}).shape), where={1} != 0)",
)  # fmt: skip
OPEN = (
    "np.maximum({0}, {1})", "np.minimum({0}, {1})", "np.fmax({0}, {1})", "np.fmin({0}, {1})", "np.clip({0}, {1}, {2})",
    "np.clip({0}, -1, 3)",
)  # fmt: skip
NEAR_UNARY = tuple(
    f"np.{name}({{0}})"
    for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh",
        "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "cbrt", "sqrt",
    )
)  # fmt: skip
NEAR_BINARY = (
    "np.hypot({0}, {1})", "np.arctan2({0}, {1})", "np.power({0}, {1})", "{0} ** {1}", "{0} ** 2", "{0} ** 3", "{0} ** -1",
    "{0} ** 0.5", "2 ** {0}", "np.logaddexp({0}, {1})",
)  # fmt: skip
ALSO_NEAR = ("np.float_power({0}, 2)",)  # near, though it stands among the exact ones, so that seeds keep their programs
AXES = ("", "axis=0", "axis=-1", "axis=0, keepdims=True", "axis=-1, keepdims=True", "axis=None")
SUMS = (
    *(f"{{0}}.{name}({axis})" for name in ("sum", "mean", "prod", "std", "var") for axis in AXES),
    "{0}.cumsum()", "{0}.cumsum(axis=0)", "{0}.cumsum(axis=-1)",
)  # fmt: skip
EXTREMES = tuple(f"{{0}}.{name}({axis})" for name in ("max", "min", "any", "all") for axis in AXES)
PLACES = ("{0}.argmax()", "{0}.argmin(axis=-1)", "np.count_nonzero({0})", "np.count_nonzero({0}, axis=0)", "np.ptp({0})")
VIEWS = (
    "{0}[::-1]", "{0}[1:]", "{0}[:-1]", "{0}[..., ::2]", "{0}[..., ::-2]", "{0}.T", "{0}.reshape(-1)", "{0}.ravel()", "{0}[None]",
    "{0}[..., None]", "{0}[0]", "{0}[-1]", "{0}[..., 0]", "{0}[:, 1:]", "{0}[:2]", "np.swapaxes({0}, 0, -1)", "np.flip({0})",
    "np.squeeze({0})", "{0}.real", "{0}.imag", "np.broadcast_to({0}, (2, *{0}.shape))", "{0}[()]", "np.atleast_1d({0})",
    "np.expand_dims({0}, 0)",
)  # fmt: skip
MAKERS = (
    "{0}.astype('{dtype}')", "np.zeros_like({0})", "np.ones({0}.shape, '{dtype}')", "np.full_like({0}, 3)", "{0}.copy()",
    "np.concatenate([{0}, {1}])", "np.stack([{0}, {0}])", "np.arange({0}.shape[0])", "np.ascontiguousarray({0})", "{0} * 1",
    "np.asarray({0}, '{dtype}')", "np.tril({0})", "np.diff({0})", "np.repeat({0}, 2)", "np.roll({0}, 1)", "{0}.dtype.type(3)",
    "{0}.shape[0]", "{0}.size", "len({0})", "np.outer({0}, {1})", "np.array({0})",
)  # fmt: skip
WRITES = (
    "{0} += {1}", "{0} -= {1}", "{0} *= {1}", "{0} /= {1}", "{0} //= {1}", "{0} %= {1}", "{0} &= {1}", "{0} |= {1}",
    "{0} **= 2", "{0}[1:] = {1}", "{0}[...] = {1}", "{0}[0] = {1}", "{0}[::2] += {1}", "{0}[:-1] *= 2", "{0}[..., 0] = 1",
    "np.add({0}, {1}, out={0})", "np.multiply({0}, {1}, out={0}, casting='unsafe')", "{0}[1:] -= {0}[:-1]", "{0}.fill(2)",
    "np.negative({0}, out={0})", "{0}[{0} > 1] = 0", "{0}[:] = {0}[::-1]",
)  # fmt: skip
KINDS = {
    "exact": (EXACT_BINARY, EXACT_BINARY, EXACT_BINARY, EXACT_UNARY, EXACT_UNARY),
    "open": (OPEN,),
    "near": (NEAR_UNARY, NEAR_BINARY),
    "sum": (SUMS,),
    "place": (EXTREMES, PLACES),
    "view": (VIEWS, VIEWS),
    "make": (MAKERS,),
    "write": (WRITES,),
}
REFUSED = (ValueError, TypeError, IndexError, OverflowError, AttributeError, ZeroDivisionError)
FORMS = [(kind, forms) for kind, groups in KINDS.items() for forms in groups]


def numbers(rng, dtype, shape):
    """Mostly ordinary ones; in one array of four also what is awkward."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if kind in "iu":
        info = np.iinfo(dtype)
        wide = rng.integers(4) == 0
        low, high = (max(info.min, -(2**62)), min(info.max, 2**62)) if wide else (max(-9, info.min), 10)
        return np.asarray(rng.integers(low, high, shape)).astype(dtype)
    x = rng.uniform(-4, 4, shape) + (1j * rng.uniform(-4, 4, shape) if kind == "c" else 0)
    x = np.asarray(x).astype(dtype)
    if rng.integers(4) == 0 and x.size:
        info = np.finfo(dtype)
        awkward = [0.0, -0.0, np.inf, -np.inf, np.nan, info.tiny, info.smallest_subnormal, float(info.max), 1.0]
        x.flat[rng.integers(0, x.size, 2)] = rng.choice(awkward, 2)
    return x


class Argument:
    """How to make an argument for each size: the same dtype, rank and layout."""

    def __init__(self, rng):
        self.seed = int(rng.integers(1 << 30))
        self.kind = rng.choice(["array", "array", "array", "array", "scalar", "number"])
        self.dtype = str(rng.choice(DTYPES if rng.integers(3) else COMMON))
        self.number = eval(str(rng.choice(NUMBERS)))
        self.layout = str(rng.choice(["C", "C", "F", "strided", "reversed", "broadcast", "moved"]))
        self.ndim = int(rng.choice([0, 1, 1, 2, 2, 3]))
        self.ones = rng.integers(4, size=self.ndim) == 0

    def make(self, sizes):
        rng = np.random.default_rng(self.seed)
        if self.kind == "number":
            return self.number
        if self.kind == "scalar":
            return numbers(rng, self.dtype, ())[()]
        shape = tuple(1 if one else n for one, n in zip(self.ones, sizes[3 - self.ndim :], strict=True))
        if self.layout == "strided":
            return numbers(rng, self.dtype, tuple(2 * n for n in shape))[(slice(None, None, 2),) * self.ndim]
        if self.layout == "reversed":
            return numbers(rng, self.dtype, shape)[(slice(None, None, -1),) * self.ndim]
        if self.layout == "broadcast" and self.ndim and shape[0]:
            return np.broadcast_to(numbers(rng, self.dtype, (1, *shape[1:])), shape)
        data = numbers(rng, self.dtype, shape)
        if self.layout == "moved" and self.ndim > 1:
            return np.moveaxis(np.ascontiguousarray(np.moveaxis(data, 0, -1)), -1, 0)
        return np.asfortranarray(data) if self.layout == "F" else data

    def __repr__(self):
        return f"{self.kind} {self.number!r}" if self.kind == "number" else f"{self.kind} {self.dtype} {self.layout} {self.ndim}"


class Statement:
    def __init__(self, kind, form, used, target):
        self.kind = "near" if form in ALSO_NEAR else kind
        self.form, self.used, self.target = form, used, target

    def text(self):
        call = self.form.format(*self.used)
        return call if self.kind == "write" else f"{self.target} = {call}"


class Program:
    """Statements, and the arguments that they are for."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.arguments = [Argument(rng) for _ in range(rng.integers(1, 5))]
        self.statements = []
        self.sizes = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 17], 3))
        self.writes = bool(rng.integers(3) == 0)
        wanted, space = int(rng.integers(2, 31)), {"np": np, "__builtins__": __builtins__}
        for i, a in enumerate(self.arguments):
            space[f"a{i}"] = a.make(self.sizes)
        with np.errstate(all="ignore"):
            for _ in range(4 * wanted):
                self.add(rng, space)
                if len(self.statements) == wanted:
                    break

    def add(self, rng, space):
        kind, forms = FORMS[rng.integers(len(FORMS))]
        if kind == "write" and not self.writes:
            return
        form = str(rng.choice(forms)).replace("{dtype}", str(rng.choice(DTYPES)))
        names = [name for name in space if name[0] in "at"]
        recent = names[-5:] if rng.integers(3) else names
        used = [str(rng.choice(recent)) for _ in range(3)]
        if kind != "view" and rng.integers(4) == 0:
            used[1] = str(rng.choice(NUMBERS))
        s = Statement(kind, form, used, f"t{len(self.statements)}")
        before = {n: v.copy() for n, v in space.items() if isinstance(v, np.ndarray)}
        try:
            exec(s.text(), space)
        except REFUSED:
            for n, v in before.items():  # a write may have been half done
                if isinstance(v, np.ndarray) and space[n].flags.writeable:
                    space[n][...] = v
            return
        if kind != "write" and not fits(space[s.target]):
            del space[s.target]
            return
        self.statements.append(s)

    def source(self, last_only):
        text = [f"def generated({', '.join(f'a{i}' for i in range(len(self.arguments)))}):"]
        results = []
        for i, s in enumerate(self.statements):
            text.append(f"    {s.text()}")
            if self.writes and not last_only:  # what it was here
                text.append(f"    s{i} = np.copy({s.used[0] if s.kind == 'write' else s.target})")
                results.append(f"s{i}")
        made = [s.target for s in self.statements if s.kind != "write"]
        if last_only:
            text.append(f"    return {made[-1] if made else 'None'}")
        else:
            text.append(f"    return ({''.join(n + ', ' for n in results)}), ({''.join(n + ', ' for n in made)})")
        return "\n".join(text) + "\n"

    def function(self, last_only=False):
        space = {"np": np}
        exec(compile(self.source(last_only), "<generated>", "exec"), space)
        return space["generated"]

    def args(self, sizes):
        return [a.make(sizes) for a in self.arguments]


def fits(value):
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.char in "?bhilqBHILQefdFD" and value.ndim < 5 and value.size < 3000
    return isinstance(value, (bool, int, float, complex)) and not (isinstance(value, int) and abs(value) > 2**40)
