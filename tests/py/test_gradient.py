"""dynoc.grad and dynoc.value_and_grad: gradients of NumPy functions."""

import functools
import math
import sys

import numpy as np
import pytest
from compare import dynoc
from gradient_cases import CASES, A, S, V, W

pytestmark = pytest.mark.skipif(not hasattr(dynoc._dynoc, "_op_table"), reason="needs the extension")


def differences(function, args, which, step=1e-6):
    """The gradient by central differences."""
    at = args[which]
    gradient = np.zeros(np.shape(at))
    for place in np.ndindex(gradient.shape):
        sides = []
        for sign in (1, -1):
            moved = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
            if isinstance(at, np.ndarray):
                moved[which][place] += sign * step
            else:
                moved[which] += sign * step
            sides.append(float(function(*moved)))
        gradient[place] = (sides[0] - sides[1]) / (2 * step)
    return gradient


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_the_differences(name):
    function, args = CASES[name]
    both = dynoc.value_and_grad(function, argnums=tuple(range(len(args))))
    for _ in range(2):  # the call that is recorded, and one that isn't
        value, gradients = both(*args)
        np.testing.assert_allclose(value, function(*args), rtol=1e-12)
        for which, gradient in enumerate(gradients):
            assert np.shape(gradient) == np.shape(args[which])
            np.testing.assert_allclose(gradient, differences(function, args, which), rtol=1e-5, atol=1e-6)


def test_other_sizes_and_numbers_are_the_same_entry():
    gradient = dynoc.grad(lambda x, k: (x**2 * k).sum())
    for n in (5, 7, 900):
        np.testing.assert_allclose(gradient(np.arange(float(n)), n / 2), np.arange(n) * n)
    both = dynoc.value_and_grad(loss := lambda x, k: (x * k).sum())
    assert dynoc.value_and_grad(loss) is both and dynoc.value_and_grad(loss, (0,)) is not both


# ---- arguments and results


def test_arguments_by_position():
    def f(x, y, *, z):
        return (x * y**2 * z).sum()

    np.testing.assert_allclose(dynoc.grad(f, 1)(V, V + 1, z=2.0), 2 * V * (V + 1) * 2)
    y, x = dynoc.grad(f, (1, 0))(V, V + 1, z=1.0)
    np.testing.assert_allclose((y, x), (2 * V * (V + 1), (V + 1) ** 2))
    (x,) = dynoc.grad(f, (0,))(V, V, z=1.0)
    np.testing.assert_allclose(x, V**2)


def test_containers_of_arrays():
    def f(p, x):
        return ((x @ p["w"][0] + p["b"]) ** 2).sum() * p["s"][1]

    p = {"w": [S], "b": V, "s": (1.0, 2.0)}
    gradient = dynoc.grad(f)(p, A)
    assert list(gradient) == ["w", "b", "s"] and type(gradient["w"]) is list and type(gradient["s"]) is tuple
    out = 4 * (A @ S + V)
    np.testing.assert_allclose(gradient["w"][0], A.T @ out)
    np.testing.assert_allclose(gradient["b"], out.sum(0))
    assert gradient["s"][0] == 0 and math.isclose(gradient["s"][1], (out**2).sum() / 16)


def test_kinds_of_results():
    square = dynoc.grad(lambda x: x * x)
    assert type(square(3.0)) is np.float64 and square(3.0) == 6 and square(3) == 6
    assert type(square(np.float32(3))) is np.float32
    assert type(square(np.array(3.0))) is np.ndarray and square(np.array(3.0)).shape == ()
    single = dynoc.grad(lambda x: (x * x).sum())(np.ones(3, np.float32))
    assert single.dtype == np.float32 and single.tolist() == [2, 2, 2]
    constant = dynoc.grad(lambda x: np.ones(3).sum())(V)
    assert constant.tolist() == [0, 0, 0]
    assert dynoc.grad(lambda x: x.sum())(np.zeros((0, 3))).shape == (0, 3)


def test_gradients_are_arrays_of_their_own():
    x, y = dynoc.grad(lambda x, y: (x + y).sum(), (0, 1))(V, V)
    assert x.flags.writeable and x.flags.owndata and not np.shares_memory(x, y)
    x += 1
    assert y.tolist() == [1, 1, 1]


def test_an_argument_counts_alone_where_it_is_met_twice():
    x = V.copy()
    np.testing.assert_allclose(dynoc.grad(lambda a, b: (a * b).sum())(x, x), x)
    np.testing.assert_allclose(dynoc.grad(lambda a: (a * x).sum())(x), x)


def test_functions_of_all_kinds():
    class Model:
        def __init__(self):
            self.w = W

        def loss(self, x):
            return (self.w * x).sum()

        def __call__(self, x):
            return (self.w * x * x).sum()

    model = Model()
    np.testing.assert_allclose(dynoc.grad(model.loss)(A), W)
    np.testing.assert_allclose(dynoc.grad(model)(A), 2 * W * A)
    np.testing.assert_allclose(dynoc.grad(functools.partial(lambda k, x: (k * x).sum(), 3.0))(V), [3, 3, 3])
    assert dynoc.grad(np.sin)(0.0) == 1
    assert dynoc.grad(model.loss).__name__ == "loss"


# ---- gradients within graphs


def test_gradients_of_gradients():
    fourth = dynoc.grad(lambda x: x**4)
    for order, expected in ((2, 48.0), (3, 48.0), (4, 24.0)):
        fourth = dynoc.grad(fourth)
        assert fourth(2.0) == expected, order

    def along(x, v):
        return (dynoc.grad(lambda z: (np.sin(z) * z**2).sum())(x) * v).sum()

    product = dynoc.grad(along)(V, V + 1)
    second = 2 * np.sin(V) + 4 * V * np.cos(V) - V**2 * np.sin(V)
    np.testing.assert_allclose(product, second * (V + 1))


@pytest.mark.parametrize("name", ["product of matrices", "softmax", "states_in_rows", "columns by number", "max 0 False"])
def test_gradients_of_norms_of_gradients(name):
    function, args = CASES[name]

    def norm(*args):
        return (dynoc.grad(function)(*args) ** 2).sum()

    np.testing.assert_allclose(dynoc.grad(norm)(*args), differences(norm, args, 0), rtol=1e-4, atol=1e-5)


def test_within_an_optimised_function():
    def step(w, x):
        value, gradient = dynoc.value_and_grad(lambda w: ((x @ w) ** 2).sum())(w)
        return w - 0.1 * gradient, value

    fast, w, v = dynoc.optimize(step), np.ones(3), np.ones(3)
    for _ in range(5):
        w, value = fast(w, S)
        v, expected = v - 0.1 * 2 * S.T @ (S @ v), ((S @ v) ** 2).sum()
        np.testing.assert_allclose((value, *w), (expected, *v))


def test_random_numbers_are_drawn_once():
    rng, seen = np.random.default_rng(1), []

    def f(x):
        noise = rng.normal(size=3)
        noise.sort()
        return (x * noise).sum(), noise

    gradient = dynoc.grad(lambda x: f(x)[0])
    other = np.random.default_rng(1)
    for _ in range(3):
        seen.append(np.sort(other.normal(size=3)))
        np.testing.assert_array_equal(gradient(V), seen[-1])


def test_no_warnings(recwarn):
    assert dynoc.grad(lambda x: np.log(x).sum())(np.zeros(2)).tolist() == [math.inf, math.inf]
    assert not recwarn.list


# ---- what has no gradient


def raises_at_its_line(function, *args):
    with pytest.raises(dynoc.Unsupported) as error:
        dynoc.grad(function)(*args)
    assert f"{__file__}:{function.__code__.co_firstlineno}" in str(error.value)
    return str(error.value)


NONE = {
    "sort": lambda x: np.sort(x, axis=0).sum(),
    "linalg.inv": lambda x: np.linalg.inv(x[:3]).sum(),
    "median": lambda x: np.median(x[:, 0]),
    "cumprod": lambda x: np.cumprod(x).sum(),
    "maximum_accumulate": lambda x: np.maximum.accumulate(x[0]).sum(),
    "as_dtype": lambda x: x.view(np.int64).sum() * x[0, 0],
}


@pytest.mark.parametrize("name", NONE)
def test_errors_name_the_operator_and_the_line(name):
    assert f"with {name}: " in raises_at_its_line(NONE[name], A)


def test_what_needs_another_arithmetic():
    assert "complex" in raises_at_its_line(lambda x: np.abs(x * 1j).sum(), V)
    assert "halves" in raises_at_its_line(lambda x: x.astype(np.float16).sum().astype(float), V)


def test_a_changed_argument():
    def f(x):
        x *= 2
        return x.sum()

    x = V.copy()
    with pytest.raises(dynoc.Unsupported, match="changes an array"):
        dynoc.grad(f)(x)


def test_graph_breaks_are_errors():
    with pytest.raises(dynoc.Unsupported, match="DATA_DEPENDENT"):
        dynoc.grad(lambda x: x.sum() if x.max() > x[0] else x.prod())(V)
    with pytest.raises(dynoc.Unsupported, match="DATA_DEPENDENT"):
        dynoc.grad(lambda x: x.sum() if x.shape[0] * 2 > x[0] else x.prod())(V)
    with pytest.raises(dynoc.Unsupported, match="DATA_DEPENDENT"):
        dynoc.grad(lambda x: math.sin(x) * x)(2.0)


WRONG = {
    "dtype('int64')": lambda: dynoc.grad(lambda x: (x * 2.0).sum())(np.arange(3)),
    "no number of NumPy's": lambda: dynoc.grad(lambda x: x * 2)(V),
    "but 3.0": lambda: dynoc.grad(lambda x: 3.0)(V),
    "argument 3": lambda: dynoc.grad(lambda x: x.sum(), 3)(V),
    "argnums='a'": lambda: dynoc.grad(np.sin, "a"),
    "argnums=-1": lambda: dynoc.grad(np.sin, -1),
    "callable": lambda: dynoc.grad(3),
    "isn't float64": lambda: dynoc.grad(lambda x: (x > 0).sum())(V),
}


@pytest.mark.parametrize("words", WRONG)
def test_mistakes(words):
    with pytest.raises(TypeError) as error:
        WRONG[words]()
    assert words in str(error.value)


def test_the_functions_own_errors():
    with pytest.raises(ZeroDivisionError):
        dynoc.grad(lambda x: x.sum() * (1 // 0))(V)
    with pytest.raises(ValueError, match="shapes"):
        dynoc.grad(lambda x: (x + np.ones(7)).sum())(V)
    gradient = dynoc.grad(lambda x, i: x[i].sum())
    assert gradient(V, np.array([0, 0])).tolist() == [2, 0, 0]
    with pytest.raises(IndexError):
        gradient(V, np.array([10, 0]))
    assert gradient(V, np.array([1, 0])).tolist() == [1, 1, 0]


def test_under_a_debugger():
    gradient = dynoc.grad(lambda x: (x * x).sum())
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        with pytest.raises(dynoc.Unsupported, match="debugger"):
            gradient(V)
    finally:
        sys.settrace(before)
    np.testing.assert_allclose(gradient(V), 2 * V)
