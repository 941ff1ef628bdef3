"""`grad` and `value_and_grad`: gradients of functions of NumPy arrays.

`derived` is recorded as a whole: the extension knows three functions in it (src/tracer/numpy/rec_gradient.c), and adds the
gradient's nodes to the graph of the function. In CPython there is no gradient, so recordings never break, and entries stay.
"""

import functools
import operator
import types

import numpy as np

from dynoc import _dynoc
from dynoc._optimize import optimize

OPTIONS = {"loops": False, "retire": False, "cache_limit": 4096}


def watched(value, leaves):
    """`value` with an array or number of its own in the place of each that is in it; `leaves` gets them in order."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([watched(item, leaves) for item in value])
    if kind is dict:
        return {key: watched(item, leaves) for key, item in value.items()}
    if kind is np.ndarray:
        leaf = value[...]
    else:
        leaf = np.positive(np.float64(value) if kind is float or kind is int else value)
    leaves.append(leaf)
    return leaf


def in_place_of(value, leaves):
    """The items of the iterator `leaves` as `value` has its arrays and numbers."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([in_place_of(item, leaves) for item in value])
    if kind is dict:
        return {key: in_place_of(item, leaves) for key, item in value.items()}
    return next(leaves)


def places_of(argnums):
    """The positions as a tuple."""
    places = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
    try:
        places = tuple(map(operator.index, places))
    except TypeError:
        places = ()
    if not places or min(places) < 0:
        raise TypeError(f"argnums={argnums!r}: the position of an argument is wanted, or a tuple of positions")
    return places


def derived_of(fn, places, single):
    """A function with the arguments of `fn`, for the recorder."""

    def derived(*args, **kwargs):
        _dynoc._begin_gradient()
        leaves, given = [], list(args)
        for place in places:
            given[place] = watched(args[place], leaves)
        value = fn(*given, **kwargs)
        gradients = iter(_dynoc._gradients(value, tuple(leaves)))
        found = tuple([in_place_of(args[place], gradients) for place in places])
        return value, (found[0] if single else found)

    return derived


def value_and_grad(fn, argnums=0):
    """Make a function that gives what `fn` gives, and the gradient of that.

    `fn` becomes one graph, its Python loops and calls unrolled, and the gradient is found in reverse mode: nodes of the same
    graph, which is compiled. Floating-point warnings are off while it runs. Sizes and numbers are run-time values, and what
    decides a branch in `fn` is guarded, as with `optimize`.

    Parameters
    ----------
    fn : callable
        A Python function of NumPy arrays and Python numbers, whose result is a number of NumPy's: np.float64 or np.float32, or an
        array without axes.
    argnums : int or tuple of int
        With regard to which arguments, by position: arrays of float64 or float32, numbers (a Python number counts as np.float64),
        and tuples, lists and dicts of these.

    Returns
    -------
    callable
        Takes the arguments of `fn`, and gives a tuple: the value, and the gradient, which has the form of the argument (of
        several arguments a tuple).

    Raises
    ------
    Unsupported
        At a call, where `fn` doesn't fit into one graph, or has no known derivative; the message names the operator and its line.

    Examples
    --------
    >>> import numpy as np
    >>> import dynoc
    >>> def loss(w, x, y):
    ...     return ((x @ w - y) ** 2).mean()
    >>> x, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 2.0])
    >>> value, gradient = dynoc.value_and_grad(loss)(np.zeros(2), x, y)
    >>> float(value), gradient.tolist()
    (2.5, [-7.0, -10.0])
    """
    if not callable(fn):
        raise TypeError(f"dynoc.value_and_grad takes a callable, not {type(fn).__name__}")
    places, single = places_of(argnums), not isinstance(argnums, (tuple, list))
    if _dynoc._in_gradient():
        return derived_of(fn, places, single)
    known = getattr(fn, "__dict__", {}).get("__dynoc_gradients__", {})
    key = places, single
    made = known.get(key)
    if made is None or made.__wrapped__ is not fn:
        made = new_function(fn, places, single)
        if known.get("of") is not fn:
            known = {"of": fn}
            if isinstance(fn, types.FunctionType):
                fn.__dynoc_gradients__ = known
        known[key] = made
    return made


def new_function(fn, places, single):
    derived = derived_of(fn, places, single)
    fast = optimize(derived, fullgraph=True, wait=True, options=OPTIONS)

    def value_and_gradient(*args, **kwargs):
        if _dynoc._in_gradient():
            return derived(*args, **kwargs)
        if len(args) <= max(places):
            raise TypeError(f"a gradient with regard to argument {max(places)} is wanted, and {len(args)} are given by position")
        with np.errstate(all="ignore"):
            return fast(*args, **kwargs)

    _dynoc.skip(value_and_gradient)
    value_and_gradient.__wrapped__ = fn
    for name in functools.WRAPPER_ASSIGNMENTS:
        if hasattr(fn, name):
            setattr(value_and_gradient, name, getattr(fn, name))
    return value_and_gradient


def grad(fn, argnums=0):
    """Make a function that gives the gradient of what `fn` gives. See `value_and_grad`.

    Parameters
    ----------
    fn : callable
        A Python function of NumPy arrays and Python numbers, whose result is a number of NumPy's.
    argnums : int or tuple of int
        With regard to which arguments, by position.

    Returns
    -------
    callable
        Takes the arguments of `fn`, and gives the gradient, which has the form of the argument (of several a tuple).

    Raises
    ------
    Unsupported
        At a call, where `fn` doesn't fit into one graph, or has no known derivative; the message names the operator and its line.

    Examples
    --------
    >>> import numpy as np
    >>> import dynoc
    >>> slope = dynoc.grad(lambda x: np.sin(x) * x)
    >>> round(float(slope(2.0)), 6)
    0.077004
    >>> dynoc.grad(slope)(0.0)
    np.float64(2.0)
    """
    both = value_and_grad(fn, argnums)

    @functools.wraps(fn)
    def gradient(*args, **kwargs):
        return both(*args, **kwargs)[1]

    return gradient


for function in (value_and_grad, grad):  # elsewhere than in a gradient they are CPython's
    _dynoc.skip(function)
