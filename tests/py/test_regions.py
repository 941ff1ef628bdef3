"""Native loops, through the test door: values, types, bits, warnings and exceptions are CPython's, whichever exit is taken."""

import math

import numpy as np
import pytest
from regions import check

A = np.array([0.5, -1.25, 3.0, 1e-300, 7.75, -0.0, 2.0, 9.5])
B = np.arange(24.0).reshape(4, 6) - 7.5
I64 = np.array([3, -4, 5, 7, -11, 2, 1, 1], dtype=np.int64)
N = len(A)


def total(a, s):
    for i in range(N):
        s += a[i]
    return s, i


def from_end(a, s):
    for i in range(N):
        s = s + a[-i - 1] * 0.5 - a[i]
    return s


def store(a, b):
    for i in range(N):
        b[i] = a[i] * 2.0 + i
    return b


def nested(b, s):
    for i in range(4):
        for j in range(6):
            if b[i, j] > 0:
                s += b[i, j]
            else:
                s -= 1
    return s, i, j


def rows(b, s):
    for i in range(4):
        row = b[i]
        for j in range(6):
            s += row[j] * b[i][j]
    return s, row


def breaks(a, s):
    for i in range(N):
        if a[i] < 0:
            continue
        if a[i] > 5:
            break
        s += 1
    else:
        s = -1
    return s, i


def while_loop(n, s):
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        s += 1
    return n, s


def fibonacci(n, a, b):
    for i in range(n):
        a, b = b, a + b
    return a, b


def logic(a, s):
    for i in range(N):
        if 0 < a[i] <= 3 and i != 2 or a[i] > 9:
            s += i
        s = s + 1 if not a[i] else s
        t = a[i] and 3
    return s, t


def bits(n, x):
    for i in range(n):
        x = (x ^ (x << 3)) & 0xFFFFFFFF
        x |= i
        x = ~x >> 1
    return x


def integers(n, x, y):
    for i in range(n):
        x += (i * 7 - 3) // 4 + (-i) % 5
        y = x / (i + 1) + (-x) // 3 * 0.5
    return x, y


def floats(a, s):
    for i in range(N):
        s = s * 0.5 + float(a[i]) % 0.75 - float(a[i]) // 0.3 + abs(float(a[i])) ** 0.5 + float(a[i]) ** 2 + float(i) ** 3
    return s


def elements(a, b):
    for i in range(N):
        b[i] = a[i] ** 2 - a[i] / 3 + (-a[i]) * abs(a[i]) - a[i] // 2 + a[i] % 3 + (a[i] > 1)
    return b


def functions(a, s):
    for i in range(N):
        x = float(a[i])
        s += math.sin(x) + math.cos(a[i]) * math.exp(-x * x) + math.atan2(x, 2) + math.sqrt(abs(x)) + math.tanh(x)
        s += math.floor(x) + math.ceil(x) + int(x) + round(x) + math.log(1 + x * x) + math.pi + len(a)
        s += math.fabs(x) + math.copysign(1.0, x) + math.pow(abs(x), 1.5) + math.isnan(x) + np.sqrt(abs(a[i]))
    return s


def extremes(a, low, high):
    for i in range(N):
        low = min(low, a[i])
        high = max(high, float(a[i]), 0.25)
    return low, high


def integer_elements(a, b):
    for i in range(N):
        b[i] = a[i] * 3 + (a[i] & 6) - (a[i] | 1) + a[i] // 2 + a[i] % 3 + (a[i] << 2) - (a[i] >> 1) ^ 5
    return b


def shapes(b, s):
    for i in range(b.shape[0]):
        n, m = b.shape
        for j in range(m):
            s += b[i, j] * n + b.size + b.ndim + len(b) + b.T[j, i]
    return s


def helper(x, y=2.0):
    if x > y:
        return x - y
    for k in range(3):
        x = x * 0.5 + k
    return x


def calls(a, s):
    for i in range(N):
        s += helper(a[i]) + helper(float(a[i]), 0.5)
    return s


def over_array(b, s):
    for i in range(2):
        for row in b:
            for x in row:
                s += x * i
    return s, x


def steps(n, s):
    for i in range(3):
        for j in range(n, -n, -3):
            s = s * 3 + j
        for j in range(-n, n, 2):
            s -= j
    return s, j


def nothing_bound(n, s):
    for i in range(n):
        if i == 3:
            t = i
        if i > 3:
            s += t
    return s, t


CASES = {
    "total": (total, (A, 0.0), [range(N)]),
    "total of ints": (total, (I64, 0), [range(N)]),
    "total of singles": (total, (A.astype(np.float32), 0.0), [range(N)]),
    "total of bools": (total, (A > 1, 0), [range(N)]),
    "total, strided": (total, (np.repeat(A, 3)[::3], 0.0), [range(N)]),
    "total, backwards": (total, (A[::-1], 0.0), [range(N)]),
    "total, no trip": (total, (A, 0.0), [range(3, 4)]),
    "from the end": (from_end, (A, 0), [range(N)]),
    "store": (store, (A, np.zeros(N)), [range(N)]),
    "store over itself": (store, (A, A.copy()), [range(N)]),
    "store singles": (store, (A, np.zeros(N, np.float32)), [range(N)]),
    "store ints": (store, (A, np.zeros(N, np.int32)), [range(N)]),
    "store bytes": (store, (A, np.zeros(N, np.int8)), [range(N)]),
    "store bools": (store, (A, np.zeros(N, bool)), [range(N)]),
    "nested": (nested, (B, 0.0), [range(4)]),
    "nested, Fortran": (nested, (np.asfortranarray(B), 0), [range(4)]),
    "rows": (rows, (B, 0.0), [range(4)]),
    "breaks": (breaks, (A, 0), [range(N)]),
    "breaks not": (breaks, (A * 0.1, 0), [range(N)]),
    "while": (while_loop, (27, 0), []),
    "fibonacci": (fibonacci, (50, 0, 1), [range(50)]),
    "fibonacci beyond 64 bits": (fibonacci, (120, 0, 1), [range(120)]),
    "fibonacci of floats": (fibonacci, (50, 0.0, 1), [range(50)]),
    "logic": (logic, (A, 0), [range(N)]),
    "bits": (bits, (20, 12345), [range(20)]),
    "integers": (integers, (20, 3, 0.0), [range(20)]),
    "floats": (floats, (A, 0.0), [range(N)]),
    "elements": (elements, (A, np.zeros(N)), [range(N)]),
    "elements, in place": (elements, (A, A), [range(N)]),
    "functions": (functions, (A, 0.0), [range(N)]),
    "extremes": (extremes, (A, 1.0, 1), [range(N)]),
    "integer elements": (integer_elements, (I64, np.zeros(N, np.int64)), [range(N)]),
    "integer elements, short": (integer_elements, (I64.astype(np.int16), np.zeros(N, np.int64)), [range(N)]),
    "integer elements, unsigned": (integer_elements, (abs(I64).astype(np.uint8), np.zeros(N, np.int64)), [range(N)]),
    "shapes": (shapes, (B, 0.0), [range(4)]),
    "calls": (calls, (A, 0.0), [range(N)]),
    "over an array": (over_array, (B, 0.0), [range(2)]),
    "steps": (steps, (10, 1), [range(3)]),
    "bound later": (nothing_bound, (8, 0), [range(8)]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_loop_does_what_cpython_does(name):
    function, args, ranges = CASES[name]
    check(function, args, [iter(r) for r in ranges])
