"""Iterators of `itertools`, as generators.

Each has the parameters of what it stands for. What is iterated comes in as an iterator; functions are given where the original
has a default, and say True or False where it asks for a truth. A generator here runs no other code of the program's than these;
it changes no container (its steps are taken back where they turn out not to be known), and leaves exceptions to the original,
which takes the same steps behind it.

NAME_again(...) makes the original as it is between two of its steps, behind the first, of locals of the generator.
"""

import itertools


def accumulate(iterable, func, *, initial=None):
    if initial is None:
        for first in iterable:
            initial = first
            break
        else:
            return
    total = initial
    yield total
    for item in iterable:
        total = func(total, item)
        yield total


def accumulate_again(iterable, func, total):
    it = itertools.accumulate(itertools.chain((total,), iterable), func)
    next(it)
    return it


def batched(iterable, n, *, strict=False):
    while True:
        batch = ()
        for item in iterable:
            batch = batch + (item,)
            if len(batch) == n:
                break
        if not batch or (strict and len(batch) < n):
            return
        yield batch


def batched_again(iterable, n, strict):
    return itertools.batched(iterable, n, **({"strict": True} if strict else {}))


def compress(data, selectors):
    for item in data:
        for selected in selectors:
            break
        else:
            return
        if selected:
            yield item


def compress_again(data, selectors):
    return itertools.compress(data, selectors)


def cycle(iterable, /):
    saved = ()
    index = -1
    for item in iterable:
        saved = saved + (item,)
        yield item
    while saved:
        for index in range(len(saved)):
            yield saved[index]


def cycle_again(iterable, saved, index):
    it = itertools.cycle(itertools.chain(saved, iterable))
    for _ in range(len(saved) + index + 1):
        next(it)
    return it


def dropwhile(predicate, iterable, /):
    for item in iterable:
        if not predicate(item):
            yield item
            for item in iterable:
                yield item
            return


def dropwhile_again(iterable):
    it = itertools.dropwhile(bool, itertools.chain((False,), iterable))
    next(it)
    return it


def from_iterable(iterables, /):
    for iterable in iterables:
        for item in iterable:
            yield item


def from_iterable_again(iterables, iterable):
    return itertools.chain.from_iterable(itertools.chain((iterable,), iterables))


def pairwise(iterable, /):
    for old in iterable:
        break
    else:
        return
    for new in iterable:
        yield old, new
        old = new


def pairwise_again(iterable, new):
    return itertools.pairwise(itertools.chain((new,), iterable))


def takewhile(predicate, iterable, /):
    for item in iterable:
        if not predicate(item):
            return
        yield item


def takewhile_again(predicate, iterable):
    return itertools.takewhile(predicate, iterable)


def zip_longest(*iterables, fillvalue=None):
    active = len(iterables)
    while active:
        items = ()
        for i in range(len(iterables)):
            if iterables[i] is None:
                items = items + (fillvalue,)
                continue
            for item in iterables[i]:
                items = items + (item,)
                break
            else:
                active -= 1
                if not active:
                    return
                iterables = iterables[:i] + (None,) + iterables[i + 1 :]
                items = items + (fillvalue,)
        yield items


def zip_longest_again(iterables, fillvalue):
    return itertools.zip_longest(*(() if it is None else it for it in iterables), fillvalue=fillvalue)
