"""`optimize` and `enable`: arguments checked and turned into the settings dict that C takes.

C keeps the settings beside a function: backend, fullgraph, dynamic, mode, wait, exact, options.
"""

import sys
import types
from _functools import partial  # functools imports collections, for what isn't needed here

from dynoc import _config, _dynoc
from dynoc._errors import ConfigError

MODES = (None, "default", "reduce-overhead", "max-autotune")
CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR = 0x20, 0x80, 0x200  # `inspect` has them too, but takes long to import


def flag(name, value):
    if type(value) is not bool:
        raise ConfigError(f"{name}={value!r}: valid values are True and False")
    return value


def settings_from(backend, fullgraph, dynamic, mode, wait, exact, options, nopython):
    """The settings dict; ConfigError for what is not valid."""
    if backend not in ("dynoc", "eager"):
        from dynoc import _backends

        if not callable(backend) and not (isinstance(backend, str) and _backends.is_known(backend)):
            raise ConfigError(f"there is no back end {backend!r}. Valid back ends: {', '.join(_backends.list_backends())}")
        dynamic = flag("dynamic", dynamic) and _backends.is_dynamic(backend)
    if mode not in MODES:
        raise ConfigError(f"there is no mode {mode!r}. Valid modes: {', '.join(map(repr, MODES))}")
    if options is not None and not isinstance(options, dict):
        raise ConfigError(f"options={options!r}: a dict of settings is wanted. Valid settings: {', '.join(_config.NAMES)}")
    return {
        "backend": backend,
        "fullgraph": flag("fullgraph", fullgraph) or (nopython is not None and flag("nopython", nopython)),
        "dynamic": flag("dynamic", dynamic),
        "mode": None if mode == "default" else mode,
        "wait": wait if wait is None else flag("wait", wait),
        "exact": flag("exact", exact),
        "options": {name: _config.checked_of_function(name, value) for name, value in (options or {}).items()},
    }


def as_it_is(fn, why):
    """Return `fn` unchanged, counting it and saying so in the log."""
    from dynoc import _logs

    _dynoc.counters["refused"]["GENERATOR"] += 1
    _logs.note_break(left_alone(fn, why))
    return fn


def left_alone(fn, why):
    """That a callable is left as it is, with its place where it has one."""
    code = getattr(fn, "__code__", None)
    place = f"\n{code.co_filename}:{code.co_firstlineno}" if isinstance(code, types.CodeType) else ""
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    return f"GENERATOR: {name} is not optimised: {why}; it runs as it is{place}"


def why_as_it_is(fn):
    """Why a callable is left as it is, in words that follow its name; None: it isn't, or its parts say so themselves."""
    if isinstance(fn, types.FunctionType):
        flags = fn.__code__.co_flags
        if flags & CO_COROUTINE:
            return "it is a coroutine function"
        return "it is a generator function" if flags & (CO_GENERATOR | CO_ASYNC_GENERATOR) else None
    if isinstance(fn, type):
        return "it is a class"
    if is_module(fn):
        scripted = isinstance(fn, sys.modules["torch"].jit.ScriptModule)
        return "it is not written in Python but in TorchScript" if scripted else None
    seen_into = (_dynoc.OptimizedFunction, classmethod, staticmethod, types.MethodType, partial)
    written = isinstance(fn, seen_into) or isinstance(getattr(type(fn), "__call__", None), types.FunctionType)
    return None if written else "it is not written in Python"


def is_module(fn):
    """Is it a torch.nn.Module?"""
    return isinstance(fn, getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", ()))


def wrap(fn, settings):
    """What `optimize` returns for `fn`."""
    if isinstance(fn, _dynoc.OptimizedFunction):  # which says that it is a function, too
        fn = fn.__wrapped__
    if not callable(fn) and not isinstance(fn, (classmethod, staticmethod)):
        raise TypeError(f"dynoc.optimize takes a function or method, not {type(fn).__name__}")
    if getattr(fn, "__name__", None) == "step" and "torch" in sys.modules and not settings["exact"]:
        from dynoc import _optimizers

        if _optimizers.stand_in(fn, fn) is not None:
            return types.MethodType(_optimizers.step, fn)
    why = why_as_it_is(fn)
    if why is not None:
        return as_it_is(fn, why)
    if isinstance(fn, types.FunctionType):
        return _dynoc.optimize(fn, settings)
    if isinstance(fn, (classmethod, staticmethod)):
        return type(fn)(wrap(fn.__func__, settings))
    if isinstance(fn, types.MethodType):
        return types.MethodType(wrap(fn.__func__, settings), fn.__self__)
    if isinstance(fn, partial):
        return partial(wrap(fn.func, settings), *fn.args, **fn.keywords)
    if is_module(fn):
        from dynoc import _module

        return _module.optimized(fn, settings)
    return types.MethodType(wrap(type(fn).__call__, settings), fn)


def optimize(
    fn=None,
    *,
    backend="dynoc",
    fullgraph=False,
    dynamic=True,
    mode=None,
    wait=None,
    exact=False,
    disable=False,
    options=None,
    nopython=None,
):
    """Make a function fast: record what it does to arrays, and run that as fused native code from then on.

    Parameters
    ----------
    fn : callable, optional
        A Python function or method, or a torch.nn.Module: of a module comes an object of a subclass of its class that shares its
        ``__dict__``, and whose calls are compiled; the module itself stays eager. Left out, a decorator is returned. A
        generator, coroutine or builtin function and a class
        come back as they are, with a line in the log.
    backend : str or callable
        One of `list_backends`, or a callable ``(gm, example_inputs) -> callable``: see `register_backend`.
    fullgraph : bool
        Raise `Unsupported` where a graph would break, saying what, where and what to do. `nopython` is its older name.
    dynamic : bool
        True: sizes and Python float and int arguments are run-time values. False: each is burned in and guarded.
    mode : {None, "default", "reduce-overhead", "max-autotune"}
        How hard to try. ``"max-autotune"`` compiles a graph in several ways, times them in the first calls, keeps the fastest,
        and remembers it in the cache folder; all have the same bits. ``"reduce-overhead"`` replays calls on a CUDA device
        as CUDA graphs; on a CPU it is the default.
    wait : bool, optional
        True: native code is ready before the call that recorded returns. False: a call never waits for the compiler.
        Left out, ``dynoc.config.wait`` says.
    exact : bool
        Use only kernels whose bits equal those of plain NumPy.
    disable : bool
        Return `fn` itself.
    options : dict, optional
        Settings (see `config`) for this function alone.

    Returns
    -------
    callable
        With the name, signature and docstring of `fn`, and ``__wrapped__``, ``entries`` and ``source()`` to look inside. Of a
        functools.partial comes one, whose ``func`` has these.

    Raises
    ------
    ConfigError
        For an argument that is not valid; the message lists what is.

    Examples
    --------
    >>> import numpy as np
    >>> import dynoc
    >>> @dynoc.optimize(wait=True)
    ... def norm(x, y):
    ...     return np.sqrt(x * x + y * y)
    >>> norm(np.array([3.0, 5.0]), np.array([4.0, 12.0])).tolist()
    [5.0, 13.0]
    """
    settings = settings_from(backend, fullgraph, dynamic, mode, wait, exact, options, nopython)
    if flag("disable", disable):
        return (lambda fn: fn) if fn is None else fn
    if fn is None:
        return lambda fn: wrap(fn, settings)
    return wrap(fn, settings)


active = None  # the settings of enable(), None while it is off
running = False  # are they in force? Not while neither arrays nor loops have been seen
waiting = None  # the finder that tells when the program has arrays, None while it isn't needed
ends_at_exit = False


def setting(settings, name):
    return settings["options"].get(name, getattr(_config.config, name))


def wants_all(settings):
    """Are functions without arrays to be recorded too?"""
    wait = setting(settings, "wait") if settings["wait"] is None else settings["wait"]
    return wait or setting(settings, "record_all")


def install(settings):
    """Put `settings` in force; None: switch off. What works on arrays isn't started before the program has any."""
    global active, running
    if waiting is not None:
        stop_waiting()
    active, running = settings, False
    if settings is None:
        if _dynoc.is_started():
            _dynoc.disable()
    elif _dynoc.has_arrays() or wants_all(settings) or is_there():
        start(settings)
    elif setting(settings, "plain_loops"):
        import atexit

        atexit.register(_dynoc.watch_loops, None)  # no call is asked for while the interpreter ends
        _dynoc.watch_loops(start_for_loops)
    if not _dynoc.has_arrays() and (active is not None or _dynoc.is_started()):
        wait_for_arrays()


def is_there():
    """Has the program imported what makes arrays?"""
    from dynoc import _watch

    return _watch.is_there()


def wait_for_arrays():
    """Rooms that were started without arrays are told of them, whether `enable` is on by then or not."""
    global waiting
    from dynoc import _watch

    waiting = _watch.Finder(start_late)
    waiting.start()


def stop_waiting():
    global waiting
    _dynoc.watch_loops(None)
    waiting.stop()
    waiting = None


def start_for_loops():
    """Called when a loop has run for long in a program without arrays: loops over numbers need none."""
    if active is not None and not running:
        start(active, arrays=False)


def start_late():
    """Called when the program has imported what makes arrays."""
    global waiting
    _dynoc.watch_loops(None)
    waiting = None
    try:
        if active is None or running:
            _dynoc.start(True)
        else:
            start(active)
    except (ImportError, RuntimeError) as error:  # the extension and this NumPy don't fit
        from dynoc import _logs

        _logs.warn(f"functions run as plain Python: {error}")


def start(settings, arrays=True):
    global ends_at_exit, running
    _dynoc.start(arrays)
    if not ends_at_exit:  # what is known of functions holds their globals, which are to die as they do without dynoc
        import atexit

        atexit.register(disable)
        ends_at_exit = True
    _dynoc.enable(settings)
    running = True


def settings_of_process(arguments, others):
    """Settings from the arguments of enable(), which are those of optimize() without `fn` and `disable`; `others` are none."""
    for name in others:
        raise ConfigError(f"there is no argument {name!r}. Valid arguments: {', '.join(arguments)}")
    return settings_from(**arguments)


def enable(
    *,
    backend="dynoc",
    fullgraph=False,
    dynamic=True,
    mode=None,
    wait=None,
    exact=False,
    options=None,
    nopython=None,
    **others,
):
    """Optimise every Python function of the process that works on arrays, from now on.

    Arrays themselves tell who makes them: a function is found when it (or what it calls) has made some, and is recorded at its
    next call. A program without arrays pays next to nothing. Unless ``config.plain_loops`` is off, its long loops are found too:
    when a function with a loop over numbers has run for about a fifth of a second, or for less where it is seen to have long to
    go (over objects: when the program has taken ten seconds), such loops are looked at. NumPy is not imported for that. On
    CPython 3.11 found functions are served by the frame-evaluation hook, which is in only while it pays.

    With ``wait=True``, or with ``config.record_all``, every function is offered to the recorder at its first call: the hook stays
    in, and calls of Python functions cost 1.4 to 1.9 times as much. This is for tests, which want the same from run to run.

    Parameters
    ----------
    backend, fullgraph, dynamic, mode, wait, exact, options, nopython
        Those of `optimize`.
    **others
        What is no argument.
    """
    arguments = {name: value for name, value in locals().items() if name != "others"}
    install(settings_of_process(arguments, others))


def disable():
    """Undo `enable`. Functions that went through `optimize` stay optimised."""
    install(None)


class enabled:
    """``with dynoc.enabled():`` optimises the Python functions that work on arrays in the block, as `enable` does.

    Parameters
    ----------
    backend, fullgraph, dynamic, mode, wait, exact, options, nopython
        Those of `optimize`.
    **others
        What is no argument.

    Examples
    --------
    >>> import numpy as np
    >>> import dynoc
    >>> def double(x):
    ...     return x + x
    >>> with dynoc.enabled():
    ...     double(np.arange(3.0)).tolist()
    [0.0, 2.0, 4.0]
    """

    def __init__(
        self,
        *,
        backend="dynoc",
        fullgraph=False,
        dynamic=True,
        mode=None,
        wait=None,
        exact=False,
        options=None,
        nopython=None,
        **others,
    ):
        arguments = {name: value for name, value in locals().items() if name not in ("self", "others")}
        self._settings = settings_of_process(arguments, others)
        self._before = []

    def __enter__(self):
        self._before.append(active)
        install(self._settings)
        return self

    def __exit__(self, *_):
        install(self._before.pop())
