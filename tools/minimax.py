"""The polynomials of src/ir/ops_math.def: coefficients of least greatest error, lowest first, by the exchange of Remez.

    tools/minimax.py            prints every row of FITS: name, log2 of the greatest error, coefficients

Each coefficient is rounded to the type in turn, and the rest is fitted again to what that left. Needs mpmath; called by nobody.
"""

import mpmath
import numpy as np

mpmath.mp.prec = 300
TINY = mpmath.mpf("1e-15")  # nearer to zero quotients are noise


def solve(f, powers, points, weight):
    """Coefficients whose errors at the points are of one size and of alternating signs."""
    n = len(powers)
    a, b = mpmath.matrix(n + 1), mpmath.matrix(n + 1, 1)
    for i, x in enumerate(points):
        for j, p in enumerate(powers):
            a[i, j] = x**p
        a[i, n] = (-1) ** i / weight(x)
        b[i] = f(x)
    return list(mpmath.lu_solve(a, b))[:n]


def extremes(points, errors, n):
    """The n outermost of alternating signs, the largest of each run."""
    found = []
    for i, e in enumerate(errors):
        if not found or errors[found[-1]] * e <= 0:
            found.append(i)
        elif abs(e) > abs(errors[found[-1]]):
            found[-1] = i
    while len(found) > n:
        found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
    return [points[i] for i in found]


def remez(f, powers, low, high, weight):
    n, middle, half = len(powers), (low + high) / 2, (high - low) / 2
    grid = [middle - half * mpmath.cos(mpmath.pi * i / (40 * n)) for i in range(40 * n + 1)]
    points = [middle - half * mpmath.cos(mpmath.pi * (2 * i + 1) / (2 * n + 2)) for i in range(n + 1)]
    for _ in range(12):
        c = solve(f, powers, points, weight)
        errors = [(f(x) - sum(a * x**p for a, p in zip(c, powers, strict=True))) * weight(x) for x in grid]
        moved = extremes(grid, errors, n + 1)
        if len(moved) <= n or moved == points:
            break
        points = moved
    return c, max(abs(e) for e in errors)


def fit(f, degree, low, high, weight, kind):
    powers, found, rest = list(range(degree + 1)), [], f
    while powers:
        c, error = remez(rest, powers, mpmath.mpf(low), mpmath.mpf(high), weight)
        a, p = kind(float(c[0])), powers.pop(0)
        found.append(float(a))
        rest = lambda x, rest=rest, a=mpmath.mpf(float(a)), p=p: rest(x) - a * x**p
    return found, float(mpmath.log(error, 2))


def steady(f):
    return lambda x: f(x if abs(x) > TINY else TINY)


HALF = mpmath.log(2) / 2 * mpmath.mpf("1.0001")
FITS = {
    "exp, float: (exp(r) - 1 - r) / r^2": (
        steady(lambda r: (mpmath.exp(r) - 1 - r) / r**2), 4, -HALF, HALF,
        lambda r: (abs(r) + mpmath.mpf("0.05")) ** 2 / mpmath.exp(r), np.float32),
    "erf, float: -log(erfc(x)) / x - 1": (
        steady(lambda x: -mpmath.log(mpmath.erfc(x)) / x - 1), 7, 0, 4,
        lambda x: x * mpmath.erfc(x) / mpmath.erf(x) if x > TINY else mpmath.sqrt(mpmath.pi) / 2, np.float32),
}  # fmt: skip

if __name__ == "__main__":
    for name, row in FITS.items():
        coefficients, error = fit(*row)
        print(f"{name}: 2^{error:.1f}", *(c.hex() for c in coefficients))
