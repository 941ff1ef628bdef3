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


def groupby_again(iterable, key, value):
    """A value waits in it, the first of a group that was given."""
    it = itertools.groupby(itertools.chain((value,), iterable), key)
    next(it)
    return it


def groupby_taken(iterable, key, target):
    """The value was taken by its group."""
    it = groupby_again(iterable, key, target)
    next(itertools._grouper(it, target))
    return it


def groupby_behind(iterable, key, target, value):
    """A value waits of which the group isn't given yet."""
    it = groupby_again(itertools.chain((value,), iterable), key, target)
    for _ in itertools._grouper(it, target):
        pass
    return it


def group_ended():
    """A group that gives nothing any more."""
    it = itertools.groupby((None,))
    for _, group in it:
        pass
    return group


def tee_again(iterable, *taken):
    """A tee that stands before what was taken."""
    return itertools.tee(itertools.chain(taken, iterable), 1)[0]
