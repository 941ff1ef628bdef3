"""Captures made row by row, for tests of guards (src/evalframe/guards/guards_hook.c)."""

from dynoc import _dynoc


def function(x=1, *, key="a"):
    return cell


cell = 5


class Program:
    """A capture built row by row, then checked."""

    def __init__(self):
        self.sources, self.symbols, self.guards, self.recipes = [], [], [], []
        self.capsule = None

    def source(self, kind, base=-1, index=0, obj=None, key=None):
        self.sources.append((kind, base, index, obj, key))
        return len(self.sources) - 1

    def local(self, index, name):
        return self.source("LOCAL", index=index, obj=name)

    def symbol(self, *row):
        self.symbols.append(row)
        return len(self.symbols) - 1

    def guard(self, kind, source, obj=None, *, other=-1, number=0, array=None):
        self.guards.append((kind, source, other, number, obj, array))

    def recipe(self, kind, id=0, obj=None, items=()):
        self.recipes.append((kind, id, obj, items))
        return len(self.recipes) - 1

    def made(self):
        if self.capsule is None:
            self.capsule = _dynoc._guards_new(function.__code__, self.sources, self.symbols, self.guards, self.recipes)
        return self.capsule

    def check(self, *locals, func=function):
        """The rebuilt recipes, or None on a miss. The explanation always agrees."""
        result = _dynoc._guards_check(self.made(), func, locals)
        text = _dynoc._guards_explain(self.made(), func, locals)
        assert (result is None) == bool(text), text
        return result

    def explain(self, *locals, func=function):
        assert self.check(*locals, func=func) is None
        return _dynoc._guards_explain(self.made(), func, locals)
