"""What the differential fuzzer (tests/fuzz) found, each in a few lines."""

import traceback

import numpy as np
import pytest

import dynoc


class Slotted:
    __slots__ = ("own",)


class Plain:
    pass


UNCACHED = "n" * 101  # CPython's cache of what is looked up on types holds no names of more than 100 characters
exec(f"def missing(o, x):\n    y = x + 1\n    try:\n        o.{UNCACHED}\n    finally:\n        x += 1\n    return y\n")
exec(f"def missing_method(o, x):\n    return o.{UNCACHED}(x + 1)\n")
exec(f"def missing_and_caught(o, x):\n    try:\n        o.{UNCACHED}\n    except AttributeError:\n        return x + 1\n")


@dynoc.skip
def outcome(fn, given):
    try:
        return repr(fn(*given))
    except Exception as error:
        rows = [(row.name, row.lineno) for row in traceback.extract_tb(error.__traceback__) if row.name != "outcome"]
        return type(error), str(error), rows


@pytest.mark.parametrize("name", ["missing", "missing_method", "missing_and_caught"])
@pytest.mark.parametrize("value", [Plain(), Slotted(), np.float64(2.0), 1, None, np], ids=lambda v: type(v).__name__)
def test_a_missing_attribute_whose_lookup_is_not_cached(name, value):
    fn = globals()[name]
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(3):
        assert outcome(fast, (value, np.arange(3.0))) == outcome(fn, (value, np.arange(3.0)))


def handled_behind_a_break(x, names):
    try:
        try:

            def joined(n, *, q=3):
                assert False, "-".join(str(v) for v in [n])

            joined(names)
        except AssertionError:
            pass
        undefined_name  # noqa: F821
    finally:
        pass


def raised_in_a_handler(x, names):
    y = x * 2
    try:
        int(names)
    except ValueError as error:
        z = y + 1
        raise KeyError(
            z.sum()
        ) from error


def raised_behind_a_handler(x, names):
    y = x * 2
    for _ in range(2):
        with np.errstate(all="ignore"):
            try:
                int(names)
            except ValueError:
                y = y + 1
    return y.reshape(
        7
    )


@pytest.mark.parametrize("fn", [handled_behind_a_break, raised_in_a_handler, raised_behind_a_handler], ids=lambda f: f.__name__)
@pytest.mark.parametrize("everything", [False, True])
def test_lines_of_tracebacks_from_handlers_behind_a_break(fn, everything):
    given = lambda text: (np.arange(3.0), text)
    texts = ("a", "a", "a", "1", "a")
    plain = [outcome(fn, given(text)) for text in texts]
    if not everything:
        fast = dynoc.optimize(fn, backend="eager")
        assert [outcome(fast, given(text)) for text in texts] == plain
        return
    dynoc.config.record_all = True
    try:
        with dynoc.enabled(backend="eager"):
            got = [outcome(fn, given(text)) for text in texts]
    finally:
        dynoc.config.record_all = False
    assert got == plain


def reversed_in_a_variable(items, log):
    for i in range(5):
        backwards = reversed(list(items))
        for item in backwards:
            log.append((i, item))
            text = str(item)
        np.arange(4.0).ravel()
    return text


def reversed_left_in_the_middle(items, log):
    backwards = reversed(list(items))
    for item in backwards:
        log.append(item)
        str(item)
        if len(log) % 3 == 2:
            break
    return np.arange(3.0) + 1, backwards


@pytest.mark.parametrize("fn", [reversed_in_a_variable, reversed_left_in_the_middle], ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["eager", "dynoc"])
def test_an_iterator_over_a_reversed_list_is_as_far_as_it_was(fn, backend):
    fast = dynoc.optimize(fn, backend=backend, wait=True)
    for items in ([1, 2, 3, 4], [4, 3, 2, 1], [5], [1, 2], []) * 2:
        rest = lambda result: [list(part) for part in result] if isinstance(result, tuple) else result
        answers = []
        for call in (fn, fast):
            log = []
            try:
                answers.append((rest(call(items, log)), log))
            except UnboundLocalError as error:
                answers.append((str(error), log))
        assert answers[0] == answers[1]


def deletes(n):
    def generator(k):
        try:
            yield k
        finally:
            pass

    it = generator(n)
    first = next(it, -1)
    del it
    return first


def calls_what_deletes(x, n):
    y = x * 2
    return y, deletes(n)


def calls_a_closure_that_deletes(x, n):
    y = x * 2

    def closure(k):
        def generator():
            try:
                yield k
            finally:
                pass

        it = generator()
        first = next(it)
        del it
        return first

    return y, closure(n)


@pytest.mark.parametrize("fn", [calls_what_deletes, calls_a_closure_that_deletes], ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["eager", "dynoc"])
def test_an_inlined_function_deletes_a_generator_that_runs_code(fn, backend):
    fast = dynoc.optimize(fn, backend=backend, wait=True)
    for n in (1, 2, 3, 2.5):
        assert outcome(fast, (np.arange(3.0), n)) == outcome(fn, (np.arange(3.0), n))


def test_lists_that_their_comparison_empties():
    """What is compared is gone when it is looked at."""

    def f(x):
        class Emptier:
            def __init__(self, other):
                self.other = other

            def __eq__(self, other):
                self.other.clear()
                return NotImplemented

        first, second = [], []
        first.append(Emptier(second))
        second.append(Emptier(first))
        return first == second, first, second, x + 1.0

    fast = dynoc.optimize(f, wait=True)
    for _ in range(4):
        for got, want in zip(fast(np.ones(3)), f(np.ones(3)), strict=True):
            assert np.array_equal(got, want)
