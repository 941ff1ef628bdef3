"""Which interpreters the extension is made for. The package asks when it is imported, and setup.py when it is built."""

import sys

KNOWN = ((3, 11), (3, 12), (3, 13), (3, 14), (3, 15))  # versions of CPython, built with the global interpreter lock
NAMES = [".".join(map(str, version)) for version in KNOWN]
ADVICE = f"use CPython {', '.join(NAMES[:-1])} or {NAMES[-1]}"


def is_known():
    """Is the extension made for the interpreter that runs this?"""
    has_lock = "t" not in getattr(sys, "abiflags", "")
    return sys.implementation.name == "cpython" and has_lock and sys.version_info[:2] in KNOWN


def description():
    """The interpreter as a user would name it."""
    lock = ", free-threaded" if "t" in getattr(sys, "abiflags", "") else ""
    names = {"cpython": "CPython", "pypy": "PyPy"}
    name = names.get(sys.implementation.name, sys.implementation.name)
    return f"{name} {'.'.join(map(str, sys.version_info[:3]))}{lock}"
