"""`optimize` of a torch.nn.Module: an object that shares the module's attributes, and whose calls are compiled.

Imported when a module is met, so by programs that have imported torch.
"""

import copy
import types

from dynoc import _dynoc


class Wrapped:
    """``__wrapped__`` of optimised modules: the module itself. Their classes have none, so that `inspect` finds their source."""

    def __get__(self, module, cls):
        if module is None:
            raise AttributeError("__wrapped__")
        return cls._dynoc_module


class OfCalls:
    """What the module's calls have by this name; where the module has something by that name, that."""

    def __init__(self, name):
        self.name = name

    def __get__(self, module, cls):
        if module is None:
            return self
        own = module.__wrapped__
        return getattr(own if hasattr(own, self.name) else calls_of(module), self.name)


def calls_of(module):
    """The optimised function that an optimised module calls."""
    return type(module).__call__.__func__


class Optimized:
    """What an optimised module has before its own class: pickling and copying go by the module that was optimised.

    Every optimised module is of a class of its own, so that its call is found there and needs no Python frame.
    """

    __slots__ = ()
    __wrapped__ = Wrapped()

    def __init_subclass__(cls, **_):
        pass  # the module's class has no new kind of module to register

    entries = OfCalls("entries")  # cache entries
    refusals = OfCalls("refusals")  # what wasn't captured
    loops = OfCalls("loops")  # what loops became
    source = OfCalls("source")  # () gives the generated code

    def __reduce_ex__(self, protocol):
        return optimized, (self.__wrapped__, self._dynoc_settings)

    def __copy__(self):
        return optimized(copy.copy(self.__wrapped__), self._dynoc_settings)

    def __deepcopy__(self, memo):
        return optimized(copy.deepcopy(self.__wrapped__, memo), self._dynoc_settings)


def title_of(cls):
    """What profiles and logs call the module: its class, and where that computes: (name, file, line)."""
    code = getattr(cls.forward, "__code__", cls.__call__.__code__)
    return cls.__qualname__, code.co_filename, code.co_firstlineno


def optimized(module, settings):
    """Make the object that `dynoc.optimize` gives for `module`.

    Parameters
    ----------
    module : torch.nn.Module
        Its calls stay eager.
    settings : dict
        As `_optimize.settings_from` makes it.

    Returns
    -------
    torch.nn.Module
        Of a subclass of the module's class. It has the module's ``__dict__``, so attributes, parameters and hooks are one
        and the same.
    """
    if isinstance(module, Optimized):
        module = module.__wrapped__
    cls = type(module)
    call = types.MethodType(_dynoc.optimize(cls.__call__, settings | {"title": title_of(cls)}), module)
    names = {
        "__call__": call,
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__slots__": (),
        "_dynoc_module": module,
        "_dynoc_settings": settings,
    }
    new = object.__new__(type(cls)(cls.__name__, (Optimized, cls), names))
    object.__setattr__(new, "__dict__", module.__dict__)
    return new
