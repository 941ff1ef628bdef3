"""Small calls that steer dynoc: what is traced, what is forgotten, what is logged."""

from dynoc import _dynoc
from dynoc._errors import ConfigError


def function_only(fn, caller):
    if not callable(fn):
        raise TypeError(f"dynoc.{caller} takes a callable, not {type(fn).__name__}")
    return fn


def skip(fn):
    """Never trace `fn`: it runs as plain Python, and a call of it breaks the graph.

    Parameters
    ----------
    fn : callable
        Also usable as a decorator.

    Returns
    -------
    callable
        `fn` itself.
    """
    _dynoc.skip(function_only(fn, "skip"))
    return fn


def allow_in_graph(fn):
    """Never look into `fn`: a call of it is one node of the graph, which calls it for real, in its place, once for each call.

    What it reads and writes besides its arguments is not ordered against what the function around it does to Python objects
    later: that is read before the graph runs. Where it gives another kind of result than when it was recorded (another dtype or
    rank, None, a longer list), or one that requires gradients, the call is made again by CPython, which goes on from there.

    Parameters
    ----------
    fn : callable
        A function, or an object that is called, such as a module. It takes arrays, numbers and what else a graph can hand on, and
        gives arrays, numbers, or tuples and lists of these. Also usable as a decorator.

    Returns
    -------
    callable
        `fn` itself.

    Examples
    --------
    >>> import numpy as np
    >>> import dynoc
    >>> @dynoc.allow_in_graph
    ... def table(x):
    ...     return np.array([hash(v) % 7 for v in x.tolist()])
    >>> fast = dynoc.optimize(lambda x: table(x) * 2 + 1, fullgraph=True)
    >>> [fast(np.arange(3)).tolist() for _ in range(2)]
    [[1, 3, 5], [1, 3, 5]]
    """
    _dynoc.allow_in_graph(function_only(fn, "allow_in_graph"))
    return fn


def disallow_in_graph(fn):
    """Leave `fn` out of every graph: a call of it is a graph break, whatever dynoc knows of it.

    Parameters
    ----------
    fn : callable
        Of Python or of a library, ``np.sort`` for one. What it calls may be captured where it is optimised itself.

    Returns
    -------
    callable
        `fn` itself.
    """
    _dynoc.disallow_in_graph(function_only(fn, "disallow_in_graph"))
    return fn


def run(fn):
    """Use what is compiled for `fn`, and compile nothing new.

    Parameters
    ----------
    fn : callable
        What `optimize` returned. A plain function comes back as it is.

    Returns
    -------
    callable
        Runs compiled code where an entry fits the arguments, else plain Python.
    """
    return _dynoc.run(function_only(fn, "run"))


def reset():
    """Forget every entry and every compiled graph, and give their memory and what is kept back to the system.

    The next call of an optimised function records again. Memory of large arrays that have died is kept for the next ones, at most
    ``dynoc.config.keep_memory`` MiB of it.
    """
    _dynoc.reset()


def wait():
    """Return when no compilation is pending in the background."""
    _dynoc.wait()


def set_logs(
    *,
    all=False,
    guards=None,
    recompiles=None,
    graph_breaks=None,
    graph=None,
    bytecode=None,
    output_code=None,
    fusion=None,
    schedule=None,
    cache=None,
    perf=None,
    loops=None,
    **others,
):
    """Turn log categories on; those that are not named are off.

    Records go to the loggers ``dynoc.<category>`` at level DEBUG, and to stderr while the program has set up no handlers.

    Parameters
    ----------
    all : bool
        Turn every category on but those named with False.
    guards, recompiles, graph_breaks, graph, bytecode, output_code, fusion, schedule, cache, perf, loops : bool
        One category each. ``DYNOC_LOGS=help`` tells what they show.
    **others
        What is no category.

    Raises
    ------
    ConfigError
        For an unknown category; the message lists the valid ones.

    Examples
    --------
    >>> import dynoc
    >>> dynoc.set_logs(recompiles=True, graph_breaks=True)
    >>> dynoc.set_logs()
    """
    named = {name: on for name, on in locals().items() if name not in ("all", "others") and on is not None} | others
    from dynoc import _logs

    names = _dynoc.log_names()
    for name, on in named.items():
        if name not in names:
            raise ConfigError(f"set_logs: there is no log category {name!r}. Valid categories: all, {', '.join(names)}")
        if not isinstance(on, bool):
            raise ConfigError(f"set_logs: {name}={on!r}: valid values are True and False")
    _logs.turn_on({name for name in names if named.get(name, all)})
