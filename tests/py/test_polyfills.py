"""dynoc.polyfills against what they stand for: the generators by themselves, and what a recorded function sees of them."""

import contextlib
import functools
import importlib
import itertools
import operator
import sys
import traceback
import types
import warnings

import numpy as np
import pytest
from compare import dynoc
from dynoc.polyfills import itertools as polyfills
from process import output_of

NEW = [] if sys.version_info < (3, 12) else ["batched"]
STRICT = [(("abcde", 2), {"strict": True})] if sys.version_info >= (3, 13) else []

# Arguments, with the iterables at the places that ITERABLES says (None: all of them).
ITERABLES = {
    "accumulate": [0],
    "batched": [0],
    "compress": [0, 1],
    "cycle": [0],
    "dropwhile": [1],
    "from_iterable": [0],
    "pairwise": [0],
    "takewhile": [1],
    "zip_longest": None,
}
FORMS = {
    "accumulate": [
        (([],), {}),
        (([1, 2, 3],), {}),
        ((range(5), operator.mul), {"initial": 2}),
        (([], operator.add), {"initial": 7}),
        (([None, None, None], operator.is_), {}),
        (("abc",), {"func": lambda a, b: b + a}),
        (([1, 2], None), {"initial": None}),
    ],
    "batched": [(("abcdefg", 3), {}), (("abcd", 2), {}), (([], 2), {}), (("ab", 5), {}), *STRICT],
    "compress": [(("abcdef", [1, 0, 1, 0, 1, 1]), {}), (("abc", [1, 1]), {}), (([], [1]), {}), (([1, 2], ["", "x", "y"]), {})],
    "cycle": [(([],), {}), (("abc",), {}), (([1],), {})],
    "dropwhile": [((lambda v: v < 3, [1, 2, 5, 1]), {}), ((bool, []), {}), ((bool, [1, 1]), {}), ((lambda v: "", [1, 2]), {})],
    "from_iterable": [((["ab", "", "cd"],), {}), (([],), {}), (([[], ()],), {}), (([(1, 2), 3],), {})],
    "pairwise": [(([],), {}), (([1],), {}), (("abcd",), {})],
    "takewhile": [((lambda v: v < 3, [1, 2, 5, 1]), {}), ((bool, []), {}), ((bool, [0]), {}), ((lambda v: [v], [1, 2]), {})],
    "zip_longest": [((), {}), (("abc", "x", "yz"), {}), (("a", "bcd"), {"fillvalue": 0}), (([], []), {}), (([1, 2],), {})],
}
ORIGINALS = {**vars(itertools), "from_iterable": itertools.chain.from_iterable}
NAMES = [name for name in FORMS if name not in ("batched",)] + NEW
CASES = [(name, i) for name in NAMES for i in range(len(FORMS[name]))]


class Watched:
    """An iterator that notes what is asked of it."""

    def __init__(self, items, seen):
        self.items, self.seen = iter(items), seen

    def __iter__(self):
        return self

    def __next__(self):
        try:
            item = next(self.items)
        except StopIteration:
            self.seen.append("end")
            raise
        self.seen.append(item)
        return item


def arguments(name, args, wrap):
    at = ITERABLES[name]
    return [wrap(a) if at is None or i in at else a for i, a in enumerate(args)]


def steps(it, seen, limit=8):
    """What it gives, with what it had taken by then."""
    out = []
    for _ in range(limit):
        try:
            item = next(it)
        except Exception as e:
            out.append((type(e), str(e), list(seen)))
            break
        out.append((item, list(seen)))
    return out


def as_the_original_calls(name, args, kwargs):
    """The polyfill gets iterators, functions that say True or False, and the default of `func`."""
    args = arguments(name, args, iter)
    if name in ("dropwhile", "takewhile"):
        predicate = args[0]
        args[0] = lambda v: bool(predicate(v))
    if name == "compress":
        args[1] = map(bool, args[1])
    if name == "accumulate":
        func = args[1] if len(args) > 1 else kwargs.get("func")
        args = [args[0], func or operator.add]
        kwargs = {k: v for k, v in kwargs.items() if k != "func"}
    return getattr(polyfills, name)(*args, **kwargs)


@pytest.mark.parametrize("name, form", CASES)
def test_generator_takes_the_same_steps(name, form):
    args, kwargs = FORMS[name][form]
    seen, seen_too = [], []
    it = ORIGINALS[name](*arguments(name, args, lambda a: Watched(a, seen)), **kwargs)
    other = as_the_original_calls(name, arguments(name, args, lambda a: Watched(a, seen_too)), kwargs)
    assert isinstance(other, types.GeneratorType)
    if kwargs.get("strict"):  # what a strict one says at the end, it leaves to the original
        assert steps(it, seen)[:-1] == steps(other, seen_too)[:-1]
    else:
        assert steps(it, seen) == steps(other, seen_too)


# ---- recorded


def outcome(fn, *args):
    try:
        result = fn(*args)
    except Exception as e:
        rows = [(f.filename, f.name, f.lineno) for f in traceback.extract_tb(e.__traceback__) if f.filename == __file__]
        every = [f.name for f in traceback.extract_tb(e.__traceback__)]
        return type(e), str(e), rows[1:], every[1:]
    return result


def same_as_plain(make, sizes=(6, 6, 9, 6), whole=True):
    """make() gives a function of an array; it notes what it does in a list that it returns."""
    plain, fast = make(), dynoc.optimize(make(), wait=True)
    for n in sizes:
        x = np.arange(n) * 1.0
        a, b = outcome(plain, x.copy()), outcome(fast, x.copy())
        assert repr(a) == repr(b)
    if whole:
        assert [e.end for e in fast.entries] == ["return"]
        assert fast.entries[0].hits >= len(sizes) - 2
    return fast


@pytest.mark.parametrize("name, form", CASES)
def test_recorded_from_containers(name, form):
    args, kwargs = FORMS[name][form]
    original = ORIGINALS[name]
    args = arguments(name, args, list)

    def make():
        def fn(x):
            it = original(*args, **kwargs)
            first = [item for item, _ in zip(it, range(3))]
            return x * 2.0, first, type(it) is type(original(*args, **kwargs))

        return fn

    same_as_plain(make, whole=False)


@pytest.mark.parametrize("name, form", CASES)
def test_half_done_ones_are_handed_out(name, form):
    """They are made anew at later calls: where they stand, and no further."""
    args, kwargs = FORMS[name][form]
    original = ORIGINALS[name]

    def make():
        def fn(x, k):
            a = [iter(list(v)) if at is None or i in at else v for i, v in enumerate(args)]
            it = original(*a, **kwargs)
            if k:
                next(it, None)
            if k > 1:
                next(it, None)
            return x + 1.0, it, a

        return fn

    at = ITERABLES[name]
    plain, fast = make(), dynoc.optimize(make(), wait=True)
    for k in (0, 0, 1, 1, 2, 2):
        if kwargs.get("strict"):
            continue
        x = np.arange(4.0)
        e, o = plain(x, k), fast(x, k)
        assert type(e[1]) is type(o[1])
        assert steps(e[1], []) == steps(o[1], [])
        for i, (p, q) in enumerate(zip(e[2], o[2])):
            assert not hasattr(p, "__next__") or list(p) == list(q), (k, i)


def test_functions_are_called_in_the_same_order_and_once():
    def make():
        def fn(x):
            seen = []

            def add(a, b):
                seen.append(("add", b))
                return a + b

            def small(v):
                seen.append(("small", v))
                return v < 3

            def source():
                for v in (1, 2, 3, 1):
                    seen.append(("take", v))
                    yield v

            out = list(itertools.accumulate(itertools.takewhile(small, source()), add, initial=10))
            out += list(itertools.dropwhile(small, source()))
            out += list(itertools.pairwise(source())) + list(itertools.zip_longest(source(), source()))
            return x * sum(out[:3]), out, seen

        return fn

    same_as_plain(make)


def test_arrays_go_through():
    def make():
        def fn(x):
            total = list(itertools.accumulate([x, x * 2.0, 1.0], lambda a, b: a * b + 1.0))
            d = [b - a for a, b in itertools.pairwise(total)]
            z = [a + b for a, b in itertools.zip_longest(d, [x], fillvalue=0.5)]
            return z + [v for v in itertools.compress(total, (True, 0, "yes"))]

        return fn

    same_as_plain(make)


def test_exception_of_a_function():
    """It has the rows that it has without dynoc, and the iterator goes on behind it."""

    def make():
        def fn(x):
            calls = []

            def add(a, b):
                calls.append(b)
                if b == 2:
                    raise ValueError("two")
                return a + b

            it = itertools.accumulate([x, 1.0, 2, 3.0], add)
            out = [next(it), next(it)]
            try:
                next(it)
            except ValueError as e:
                out.append([f.name for f in traceback.extract_tb(e.__traceback__)])
                out.append(e.__context__)
            return out, next(it), calls, next(it, "end")

        return fn

    same_as_plain(make, whole=False)


def test_exception_that_leaves():
    def make():
        def fn(x):
            def source():
                yield x + 1.0
                raise KeyError("gone")

            for v in itertools.pairwise(itertools.takewhile(lambda v: True, source())):
                x = x + v
            return x

        return fn

    same_as_plain(make, whole=False)


WRONG = """
accumulate() / accumulate(1) / accumulate([1], 2) / accumulate([1], start=2) / pairwise() / pairwise(3) / cycle(1, 2) /
takewhile(1) / takewhile(bool, 1) / takewhile(1, [x]) / dropwhile(predicate=bool, iterable=[]) / zip_longest(1) /
zip_longest([x], fill=3) / compress([1]) / compress([1], 2) / compress(data=[1], selectors=[1]) / accumulate([1, 'a']) /
accumulate(iterable=[x], func=None) / batched([1], 0) / batched([1])
"""


@pytest.mark.parametrize("call", [call.strip() for call in WRONG.split("/")])
def test_wrong_arguments(call):
    code = compile(f"def fn(x):\n    return list(itertools.{call}), x + 1.0\n", __file__, "exec")

    def make():
        names = {"itertools": itertools}
        exec(code, names)
        return names["fn"]

    same_as_plain(make, whole=False)


def test_callers_are_seen_as_without():
    """Functions that the iterators call are called by the function that asks for a step."""

    def make():
        def fn(x):
            names = []

            def add(a, b):
                names.append(sys._getframe(1).f_code.co_name)
                warnings.warn("here", stacklevel=2)
                return a + b

            def source():
                for v in (x, 1.0):
                    names.append(sys._getframe(1).f_code.co_name)
                    yield v

            return list(itertools.accumulate(source(), add)), names

        return fn

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        same_as_plain(make, whole=False)
    lines = {(w.filename, w.lineno) for w in seen}
    assert len(lines) == 1 and next(iter(lines))[0] == __file__


def test_opaque_calls_see_the_real_object():
    class Holder:
        pass

    def make():
        def fn(x):
            it = itertools.accumulate([x, 1.0, 2.0])
            next(it)
            holder = Holder()
            holder.it = it
            kind = type(it), isinstance(it, itertools.accumulate), repr(it)[:11], hasattr(it, "send")
            dynoc.graph_break()
            y = next(it) + 1.0
            return y, kind, list(holder.it)

        return fn

    fast = same_as_plain(make, whole=False)
    assert any(e.end == "break" for e in fast.entries)


def test_a_source_is_not_asked_twice_at_its_end():
    def make():
        def fn(x):
            a = iter([1, 2, 3, 4])
            out = list(itertools.chain(zip(a, iter([])), [5])), list(itertools.islice(zip(a, iter([])), 5))
            return x * 2.0, out, list(a)

        return fn

    same_as_plain(make)


def test_import_of_dynoc_loads_none():
    code = "import dynoc, sys; print([m for m in sys.modules if m.startswith('dynoc.polyfills')])"
    assert output_of(code) == "[]"


def test_every_polyfill_has_its_original():
    for name, value in vars(importlib.import_module("dynoc.polyfills.itertools")).items():
        if isinstance(value, types.FunctionType) and not name.endswith("_again"):
            assert name in FORMS


def test_a_class_attribute_that_a_property_hides():
    class Pretends:
        @property
        def __class__(self):
            return int

    def make():
        return lambda x: (x + 1.0, Pretends().__class__)

    same_as_plain(make)


def test_functions_that_nothing_is_known_of():
    opaque = [len, dynoc.graph_break]

    def make():
        def fn(x):
            def add(a, b):
                if b == 2.0:
                    opaque[1]()
                return a + b

            out = list(itertools.accumulate([x, 1.0, 2.0, 3.0], add))
            it = itertools.takewhile(opaque[0], iter(["a", "bc", "", "d"]))
            return out, list(it), next(it, "end"), x * 3.0

        return fn

    same_as_plain(make, whole=False)


def test_managers_and_exceptions():
    class Mine(Exception):
        pass

    def make():
        def fn(x):
            seen = []

            @contextlib.contextmanager
            def manager(name, swallow):
                seen.append("open " + name)
                try:
                    yield x * 2.0
                except Mine as e:
                    seen.append((name, str(e), len(traceback.extract_tb(e.__traceback__))))
                    if not swallow:
                        raise
                finally:
                    seen.append("close " + name)

            with manager("a", True) as y:
                raise Mine("first")
            try:
                with manager("b", False) as z, manager("c", False):
                    raise Mine("second")
            except Mine as e:
                seen.append([f.name for f in traceback.extract_tb(e.__traceback__)])
            with contextlib.suppress(Mine):
                raise Mine("third")
            return y + z, seen

        return fn

    same_as_plain(make, whole=False)


def test_managers_that_are_wrong():
    @contextlib.contextmanager
    def never():
        if False:
            yield

    @contextlib.contextmanager
    def twice():
        yield 1.0
        yield 2.0

    def make(manager):
        def fn(x):
            with manager() as v:
                x = x + 1.0
            return x, v

        return fn

    same_as_plain(lambda: make(never), whole=False)
    same_as_plain(lambda: make(twice), whole=False)


def test_partials_are_the_programs_own():
    def scaled(x, k=1.0, *, shift=0.0):
        return x * k + shift

    def make():
        def fn(x):
            p = functools.partial(scaled, k=2.0)
            q = functools.partial(p, x, shift=3.0)
            q.note = "mine"
            return p(x), q(), q.func is scaled, q.keywords, q.args[0] is x, vars(q), p is not q, type(p) is functools.partial

        return fn

    same_as_plain(make, whole=False)

    def changed(x, p):
        return p(x)

    p = functools.partial(scaled, k=2.0)
    fast = dynoc.optimize(changed, wait=True)
    x = np.arange(4.0)
    for k in (2.0, 2.0, 5.0, 5.0):
        p.keywords["k"] = k
        assert (fast(x, p) == x * k).all()
    p.keywords["shift"] = 1.0
    assert (fast(x, p) == x * 5.0 + 1.0).all()
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        fast(x, functools.partial(scaled, nothing=1))


def test_wrapped_functions_are_handed_out():
    def make():
        def fn(x):
            """What it says."""

            def inner(v: int) -> int:
                "Inner."
                return v

            inner_plain = lambda v: v * 2.0  # noqa: E731

            @functools.wraps(fn)
            def outer(v):
                return inner_plain(v)

            return outer(x), outer, inner.__name__, inner.__doc__, outer.__name__

        return fn

    plain, fast = make(), dynoc.optimize(make(), wait=True)
    for n in (4, 4, 5):
        x = np.arange(n) * 1.0
        e, o = plain(x), fast(x)
        assert (e[0] == o[0]).all() and e[2:] == o[2:]
        for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
            assert getattr(e[1], name) == getattr(o[1], name)
        assert o[1].__wrapped__.__name__ == "fn" and (o[1](x) == x * 2.0).all()
    assert o[1] is not fast(x)[1]


def ended_before_it_gave(items, x):
    it = itertools.takewhile(lambda v: v < 3, tuple(items))
    first = next(it, "none")
    print(end="")
    return first, next(it, "end"), x + 1


def test_a_takewhile_that_ended_at_its_first_item_stays_at_its_end_behind_a_break():
    fast = dynoc.optimize(ended_before_it_gave, wait=True)
    for items in ([7, -3, 1], [1, 7, 2], [], [1, 2]):
        for _ in range(2):
            assert fast(items, 1.0) == ended_before_it_gave(items, 1.0)
            assert fast(items, np.ones(1)) == ended_before_it_gave(items, np.ones(1))
