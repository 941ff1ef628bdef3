"""What the recorder needs of `functools` and `operator` in Python."""


def held_again(cls, names, *args):
    """A callable that holds arguments, made anew: the last ones are those of the keywords `names`."""
    first = len(args) - len(names)
    return cls(*args[:first], **dict(zip(names, args[first:])))
