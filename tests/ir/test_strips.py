"""Functions of strips (emit_strips.c) give the bits of what they stand for, by each instruction set that this processor has, and
raise no flag."""

import ctypes
import operator
import shutil
import subprocess

import numpy as np
import pytest

from dynoc import _dynoc

pytestmark = pytest.mark.any_interpreter

NEEDED = {"x86-64-v3": {"avx2", "fma", "f16c", "bmi2"}, "x86-64-v4": {"avx2", "avx512bw", "avx512dq", "avx512vl"}}
LEVELS = _dynoc._builtin_source()[1]
TESTS = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le, "eq": operator.eq, "ne": operator.ne}
C = {"f32": "float", "f64": "double", "i8": "signed char", "u8": "unsigned char"}


def function(name, first, second, call):
    return (
        f"int t_{name}(void *to, const {first} *a, {second}, int n) "
        f"{{ feclearexcept(FE_ALL_EXCEPT); dyn_{name}({call}); return fetestexcept(FE_ALL_EXCEPT); }}\n"
    )


@pytest.fixture(scope="module", params=LEVELS, ids=lambda level: level[0])
def compiled(request, tmp_path_factory):
    name, flags = request.param
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    with open("/proc/cpuinfo") as f:
        if not NEEDED.get(name, set()) <= set(f.read().split()):
            pytest.skip("this processor hasn't that")
    helpers = _dynoc._op_helpers()
    source = helpers.pop("prologue")[1] + "".join(text for needs, text in helpers.values())
    source += function("mul_bytes", "void", "const void *b", "to, a, b, n")
    for s in ("i8", "u8"):
        for shift in "lr":
            source += function(f"{shift}shift_{s}s", C[s], f"{C[s]} b", "to, a, b, n")
    for s in ("f32", "f64"):
        for test in TESTS:
            source += function(f"{test}_{s}s", C[s], f"const {C[s]} *b", "to, a, b, n")
    folder = tmp_path_factory.mktemp("strips")
    command = ["gcc", *flags.split(), "-x", "c", "-", "-o", str(folder / "strips.so"), "-lm"]
    subprocess.run([w for w in command if w != "-nostdlib"], input=source, text=True, check=True, capture_output=True)
    return ctypes.CDLL(str(folder / "strips.so"))


def at(array):
    return ctypes.c_void_p(array.ctypes.data)


def test_products(compiled):
    a, b = (part.ravel().astype(np.uint8) for part in np.indices((256, 256)))
    to = np.empty(65536 + 1, np.uint8)
    to[-1] = 77
    for x, y in ((a, b), (np.roll(a, 1), np.roll(b, 7))):
        assert compiled.t_mul_bytes(at(to), at(x), at(y), 65536) == 0
        np.testing.assert_array_equal(to[:-1], x * y)
    assert to[-1] == 77


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("shift", [np.left_shift, np.right_shift])
def test_shifts(compiled, shift, dtype):
    x = np.random.default_rng(0).permutation(np.arange(256)).astype(dtype)
    to = np.empty(256, dtype)
    run = getattr(compiled, f"t_{shift.__name__[0]}shift_{'i' if dtype is np.int8 else 'u'}8s")
    for by in range(256):
        number = np.uint8(by).astype(dtype)
        assert run(at(to), at(x), ctypes.c_int(int(number)), 256) == 0
        np.testing.assert_array_equal(to, shift(x, number), str(number))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", TESTS)
def test_comparisons(compiled, name, dtype):
    rng = np.random.default_rng(1)
    values = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 5e-324, 2.5], dtype)
    run, to = getattr(compiled, f"t_{name}_f{8 * np.dtype(dtype).itemsize}s"), np.empty(640, np.uint8)
    for _ in range(20):
        a, b = rng.choice(values, 640), rng.choice(values, 640)
        assert run(at(to), at(a), at(b), 640) == 0
        np.testing.assert_array_equal(to, TESTS[name](a, b).view(np.uint8))
