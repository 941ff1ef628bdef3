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

from dynoc import _dynoc
from dynoc._errors import BackendError, CompileError, ConfigError, Error, InternalError, Unsupported
from dynoc._config import config
from dynoc._control import graph_break, is_tracing, reset, run, set_logs, skip, wait
from dynoc._optimize import disable, enable, enabled, list_backends, optimize

__version__ = "0.1.0"
__all__ = [
    "BackendError",
    "CompileError",
    "ConfigError",
    "Error",
    "Explanation",
    "InternalError",
    "Unsupported",
    "config",
    "counters",
    "disable",
    "enable",
    "enabled",
    "explain",
    "graph_break",
    "is_tracing",
    "list_backends",
    "optimize",
    "reset",
    "run",
    "set_logs",
    "skip",
    "wait",
]

counters = _dynoc.counters


def __getattr__(name):
    if name in ("explain", "Explanation"):  # not needed by a program that only runs
        from dynoc import _explain

        return getattr(_explain, name)
    raise AttributeError(f"module 'dynoc' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), "Explanation", "explain"])


config._load()
