"""The language part of CPython's own tests with every function offered to the recorder, array work in it or not (`record_all`):
they pass and fail as without dynoc.

    run_cpython.py [GROUP or MODULE ...] [--limit 280] [--jobs 1] ...

harness.py compares; watch_unittest.py runs one module in a process of its own. The tests come with the interpreter.
"""

import sys
from pathlib import Path

import harness

GROUPS = {
    # Cheap and broad: `make test` runs these.
    "third": "test_grammar test_generators test_listcomps test_scope test_raise test_with test_property"
    " test_super test_slice test_unpack test_extcall test_keywordonlyarg test_patma test_augassign"
    " test_binop test_compare test_decorators test_named_expressions",
    "rest": "test_genexps test_set test_tuple test_dict test_list test_exceptions test_contextlib test_class"
    " test_descr test_functools"
    " test_itertools test_operator test_iter test_unpack_ex test_call test_positional_only_arg test_dataclasses test_enum"
    " test_fstring test_format test_bool test_defaultdict test_deque test_enumerate test_richcmp test_sort test_string"
    " test_traceback test_types test_userdict test_weakref test_sys_settrace test_sys_setprofile test_monitoring"
    " test_coroutines test_asyncgen test_threading test_gc",
}

GUARDED = "an entry holds the objects that it guards by identity"
KEPT = "what an iterator gave is kept while it is recorded: the next tuple is another one"
COUNTED = "the real C stack is measured where CPython (3.12 and later) counts: one level beyond its count may fit"
LEFT = "what is left of recording the caller counts"
KNOWN = {
    "TestLRUPy.test_lru_cache_weakrefable": GUARDED,
    "TestLRUC.test_lru_cache_weakrefable": GUARDED,
    "combinations_tuple_reuse": KEPT,
    "combinations_with_replacement_tuple_reuse": KEPT,
    "permutations_tuple_reuse": KEPT,
    "product_tuple_reuse": KEPT,
    "zip_longest_tuple_reuse": KEPT,
    "test_zip_tuple_reuse": KEPT,
    "EnumerateTestCase.test_tuple_reuse": KEPT,
    "EnumerateStartTestCase.test_tuple_reuse": KEPT,
    "SubclassTestCase.test_tuple_reuse": KEPT,
    "TestLongStart.test_tuple_reuse": KEPT,
    "TestStart.test_tuple_reuse": KEPT,
    "TestThreadSafety.test_tuple_reuse": KEPT,
    "WeakMethodTestCase.test_method_dead": GUARDED,
    "WeakMethodTestCase.test_callback_when_method_dead": GUARDED,
    "ReferencesTestCase.test_callback_in_cycle_resurrection": GUARDED,
    "DictTest.test_repr_deep": COUNTED,
    "FinalizeTestCase.test_all_freed": GUARDED,
    "ReferencesTestCase.test_cfunction": GUARDED,
    "test_09_settrace_and_raise": "3.11: a frame that is handed back when tracing is on gives one more call event",
    "GCTests.test_get_count": LEFT,
    "GCTests.test_heap_size": LEFT,
    "ClassPropertiesAndMethods.test_slots": LEFT,
    "ListTest.test_list_overwrite_local": "from 3.14 on: a call that is recorded into counts its arguments once more",
    "TestStack.test_walk_stack": "behind a break a function goes on in another frame, that of its resume function",
    "test_colorized_traceback_from_exception_group": "variables of a traceback's frame have moved on to the resume function",
}


def present(module):
    """Not every version has every module, and 3.13 made a package of some of them."""
    import test

    for folder in test.__path__:
        for path in (Path(folder) / f"{module}.py", Path(folder) / module / "__init__.py"):
            if path.exists():
                return [path]
    return []


def files_of(word):
    return [path for module in GROUPS.get(word, word).split() for path in present(module)]


def command(path, arguments):
    module = path.parent.name if path.name == "__init__.py" else path.stem
    return [sys.executable, "-X", "faulthandler", str(harness.HERE / "watch_unittest.py"), module]


if __name__ == "__main__":
    sys.exit(harness.main(__doc__, GROUPS, files_of, KNOWN, command, {"record_all": True}))
