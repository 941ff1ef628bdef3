"""What native loops follow in place of min, max, sorted and list.sort with a key, or of items of any kind: these do what
CPython's own do, whose result is a matter of which comparisons are made in which order. Nothing else calls them.
"""

import keyword
import operator

NOTHING = object()


def found(best, mark, default, nothing):
    """The item, by whose mark there is one, or what is given for none."""
    if mark is nothing:
        if default is nothing:
            raise ValueError
        return default
    return best


def least(items, default=NOTHING, nothing=NOTHING):
    best = nothing
    for item in items:
        if best is nothing or item < best:
            best = item
    return found(best, best, default, nothing)


def greatest(items, default=NOTHING, nothing=NOTHING):
    best = nothing
    for item in items:
        if best is nothing or item > best:
            best = item
    return found(best, best, default, nothing)


def least_by(items, key, default=NOTHING, nothing=NOTHING):
    best = mark = nothing
    for item in items:
        value = key(item)
        if mark is nothing or value < mark:
            best, mark = item, value
    return found(best, mark, default, nothing)


def greatest_by(items, key, default=NOTHING, nothing=NOTHING):
    best = mark = nothing
    for item in items:
        value = key(item)
        if mark is nothing or value > mark:
            best, mark = item, value
    return found(best, mark, default, nothing)


def arrange(items, keys, reverse):
    """Sort a list by the keys of its items: native loops have an instruction for it."""
    waiting = iter(keys)
    items.sort(key=lambda _: next(waiting), reverse=reverse)


def listed(items):
    return [item for item in items]


def in_order(items, reverse):
    made = list(items)
    arrange(made, made, reverse)
    return made


def in_order_by(items, key, reverse):
    made = list(items)
    arrange(made, [key(item) for item in made], reverse)
    return made


def sort_by(items, key, reverse):
    """CPython's list is empty while the keys are made: a key that comes to the list itself isn't followed, as
    plan_leave_at_sorted has it, which finds the list in the first variable.
    """
    keys = [key(item) for item in items]
    arrange(items, keys, reverse)


def is_attribute(name):
    """The name, with dots, is that of the same attributes in an expression."""
    parts = name.split(".") if type(name) is str and name.isascii() else [""]
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in parts)


def getter(of):
    """A function that gives what an itemgetter or attrgetter does; TypeError where an expression would say something else."""
    kind, names = of.__reduce__()
    if not all(is_attribute(name) if kind is operator.attrgetter else type(name) in (int, str) for name in names):
        raise TypeError("names that aren't those of an expression")
    parts = [f"o.{name}" if kind is operator.attrgetter else f"o[{name!r}]" for name in names]
    return eval(f"lambda o: {parts[0] if len(parts) == 1 else ', '.join(parts).join('()')}")
