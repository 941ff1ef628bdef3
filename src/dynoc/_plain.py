"""What stands in for the extension on interpreters that it isn't made for: functions run as plain Python.

It has the names that the Python face asks the extension for. Settings, log categories and counters are there and answer; what
`optimize` makes looks like an optimised function and has no entries.
"""

import functools
import os
import re
import sys
import types

from dynoc import _python

TRUTH = {"true": True, "false": False}
LIMITS = {"INT64_MAX": 2**63 - 1}
said = []  # the line that says once why nothing is optimised


def rows_of(table):
    """(kind, name, columns between, last column) for each row of a table, which stands beside this file."""
    with open(os.path.join(os.path.dirname(__file__), table), encoding="utf-8") as file:
        return re.findall(r'^([A-Z]+)\((\w+), (?:(.*), )?"([^"]*)"\)$', file.read(), re.MULTILINE)


def setting(kind, columns, what):
    """The row of a setting as the extension gives it: (type, default, low, high, what)."""
    if kind == "BOOLEAN":
        return bool, TRUTH[columns], None, None, what
    if kind == "TEXT":
        return str, columns[1:-1], None, None, what
    default, low, high = (LIMITS[word] if word in LIMITS else int(word) for word in columns.split(", "))
    return int, default, low, high, what


SETTINGS = {name: setting(kind, columns, what) for kind, name, columns, what in rows_of("settings.def")}
LOGS = {name: what for _, name, _, what in rows_of("logs.def")}
values = {name: row[1] for name, row in SETTINGS.items()}


class Counts(dict):
    """Counters of one group."""

    def __missing__(self, key):
        return 0


class Counters(dict):
    """Counters in groups."""

    def __missing__(self, group):
        self[group] = Counts()
        return self[group]


counters = Counters()


def say_once():
    """Say on the logger ``dynoc`` why functions run as plain Python."""
    if not said:
        import logging

        said.append(f"UNKNOWN_PYTHON: this version of Python is not known: {_python.description()} ({_python.ADVICE})")
        logging.getLogger("dynoc").warning("%s; functions run as plain Python", said[0])


def forwarded(name):
    """An attribute that is the function's own."""
    return property(lambda self: getattr(self.func, name), lambda self, value: setattr(self.func, name, value))


class OptimizedFunction(functools.partial):
    """A function that runs as plain Python. Made by dynoc.optimize.

    A call of it is a call of the function, with no Python frame between.
    """

    __code__, __defaults__, __kwdefaults__ = map(forwarded, ("__code__", "__defaults__", "__kwdefaults__"))
    __closure__, __globals__ = map(forwarded, ("__closure__", "__globals__"))

    @property
    def __class__(self):
        """That of the function, so that `inspect` finds its file."""
        return type(self.func)

    @property
    def entries(self):
        """Cache entries: there are none."""
        return []

    def source(self):
        """The generated code of all entries: there is none."""
        return ""

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        """By name where the name stands for this object, else the function and its options."""
        at = sys.modules.get(self.__module__)
        for name in self.__qualname__.split("."):
            at = getattr(at, name, None)
        return self.__qualname__ if at is self else (optimize, (self.__wrapped__, self._settings))

    def __repr__(self):
        return f"<dynoc.optimize of {self.__wrapped__!r}>"


def optimize(fn, settings):
    say_once()
    made = functools.update_wrapper(OptimizedFunction(fn), fn)
    made._settings = settings
    return made


optimize.__module__ = "dynoc._dynoc"  # so that pickles can be read where there is an extension


def enable(settings):
    say_once()


def do_nothing(*_):
    pass


_begin_gradient = disable = skip = allow_in_graph = disallow_in_graph = graph_break = reset = wait = set_errors = do_nothing
forgive_calls = do_nothing


def compile_program(source, name):
    return compile(source, name, "exec", dont_inherit=True)


def run(fn):
    return fn


def _in_gradient():
    return False


def _gradients(value, wanted):
    from dynoc._errors import Unsupported

    raise Unsupported("no gradient is known: this version of Python is not known, and functions run as plain Python")


def has_arrays():
    return True


def is_started():
    return True


def start(arrays):
    pass


def is_tracing():
    return False


def kept_memory():
    return 0


def memory():
    return {}


def _watch(bits):
    pass


def _watching():
    return 0


def _events():
    return []


_peek = _events


def _watched(all):
    return []


def config_names():
    return SETTINGS


def get_config(name):
    return values[name]


def set_config(name, value):
    values[name] = value


def log_names():
    return LOGS


def set_log(name, on):
    pass
