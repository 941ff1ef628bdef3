"""dynoc makes unmodified NumPy functions fast: it records what a function does to arrays and runs it as fused native code.

>>> import numpy as np
>>> import dynoc
>>> @dynoc.optimize
... def wave(x):
...     return np.cos(x) + np.sin(x)
>>> bool(np.allclose(wave(np.zeros(3)), 1.0))
True

See `optimize` for one function, `enable` for the whole process, `config` for settings, `set_logs` and `explain` to see inside.
"""

import os
import sys

from dynoc import _python

if _python.is_known():
    from dynoc import _dynoc

    os.register_at_fork(before=_dynoc._hold_start, after_in_parent=_dynoc._let_start, after_in_child=_dynoc._let_start)
else:
    from dynoc import _plain as _dynoc

    sys.modules["dynoc._dynoc"] = _dynoc

from dynoc._errors import BackendError, CompileError, ConfigError, Error, InternalError, Unsupported
from dynoc._config import config

__version__ = "0.1.0"
__all__ = [
    "BackendError",
    "CompileError",
    "ConfigError",
    "Error",
    "Explanation",
    "Graph",
    "GraphModule",
    "InternalError",
    "Interpreter",
    "Node",
    "Unsupported",
    "allow_in_graph",
    "config",
    "counters",
    "disable",
    "disallow_in_graph",
    "enable",
    "enabled",
    "explain",
    "grad",
    "graph_break",
    "is_tracing",
    "list_backends",
    "optimize",
    "profile",
    "register_backend",
    "report",
    "reset",
    "run",
    "set_logs",
    "skip",
    "trace",
    "value_and_grad",
    "wait",
]

counters = _dynoc.counters
graph_break = _dynoc.graph_break  # The recorder is to find these two in this module.
is_tracing = _dynoc.is_tracing
MODULES = {  # imported when one of their names is asked for: a short program under ``python -m dynoc`` needs few of them
    "_backends": ("list_backends", "register_backend", "trace"),
    "_control": ("allow_in_graph", "disallow_in_graph", "reset", "run", "set_logs", "skip", "wait"),
    "_explain": ("Explanation", "explain"),
    "_gradient": ("grad", "value_and_grad"),
    "_graph": ("Graph", "GraphModule", "Node"),
    "_interpreter": ("Interpreter",),
    "_optimize": ("disable", "enable", "enabled", "optimize"),
    "_profile": ("profile",),
    "_report": ("report",),
}  # fmt: skip
LATER = {name: module for module, names in MODULES.items() for name in names}


def __getattr__(name):
    if name in LATER:
        from importlib import import_module

        found = globals()[name] = getattr(import_module(f"dynoc.{LATER[name]}"), name)
        return found
    raise AttributeError(f"module 'dynoc' has no attribute {name!r}")


def load_ipython_extension(shell):
    """``%load_ext dynoc`` in a notebook: gives it the cell magic ``%%dynoc``."""
    from dynoc import _notebook

    _notebook.register(shell)


def __dir__():
    return sorted([*globals(), *LATER])



def _is_own_program():
    """Is this package imported as the program of ``python -m dynoc``?"""
    import sys

    words = getattr(sys, "orig_argv", [])
    return sys.argv[:1] == ["-m"] and any(pair == ("-m", "dynoc") for pair in zip(words, words[1:]))


try:
    config._load()
except ConfigError as error:
    if _is_own_program():
        raise SystemExit(f"python -m dynoc: {error}") from None
    raise
