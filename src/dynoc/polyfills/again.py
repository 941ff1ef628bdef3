"""How objects of the library are made anew on the compiled path, where a recipe is more than a call."""

import itertools


def call(function, names, /, *args):
    """The call whose last arguments are those of the keywords `names`."""
    first = len(args) - len(names)
    return function(*args[:first], **dict(zip(names, args[first:])))


def ended(cls, /):
    """An iterator of this class that is at its end."""
    args = {
        itertools.batched if hasattr(itertools, "batched") else None: ((), 1),
        itertools.compress: ((), ()),
        itertools.dropwhile: (None, ()),
        itertools.takewhile: (None, ()),
    }
    it = cls(*args.get(cls, ((),)))
    for _ in it:
        pass
    return it
