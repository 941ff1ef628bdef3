"""Waiting for the program to import NumPy or PyTorch. Until then there are no arrays, and the extension uses no NumPy either.

`enable` puts a finder in front of `sys.meta_path`. When one of these packages is looked for, the others find it, and its loader
gets a stand-in, which is gone before the package's own code runs. Behind that the finder is taken away, and `enable` goes on.
"""

import sys
from _functools import partial  # functools imports collections, for what isn't needed here

from dynoc import _dynoc

AWAITED = ("numpy", "torch")


class Loader:
    """Stands in for the loader of an awaited package until the package is loaded.

    Parameters
    ----------
    spec : importlib.machinery.ModuleSpec
        Of the package; its loader is this object afterwards.
    loaded : callable
        Called with the module when its code has run without an exception.
    """

    def __init__(self, spec, loaded):
        self._spec, self._loader = spec, spec.loader
        # No frame of ours is between the importer and the package, whose traceback would show it.
        self.exec_module = partial(_dynoc.call_in_turn, (self._leave, self._loader.exec_module, loaded))
        spec.loader = self

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def _leave(self, module):
        self._spec.loader = module.__loader__ = self._loader


class Finder:
    """A finder for `sys.meta_path` that lets the others find.

    Parameters
    ----------
    loaded : callable
        Called once, when an awaited package is loaded.
    """

    def __init__(self, loaded):
        self._loaded, self._waiting = loaded, False

    def find_spec(self, name, path=None, target=None):
        if name not in AWAITED:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    Loader(spec, self._on_load)
                return spec
        return None

    def _on_load(self, module):
        if self._waiting:
            self.stop()
            self._loaded()

    def start(self):
        self._waiting = True
        sys.meta_path.insert(0, self)

    def stop(self):
        self._waiting = False
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def is_there():
    """Has the program imported an awaited package?"""
    return any(name in sys.modules for name in AWAITED)
