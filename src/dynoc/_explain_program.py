"""`python -m dynoc explain FILE::FUNCTION`: runs a program, and explains what became of one of its functions."""

import ast
import atexit
import sys

from dynoc._explain import explanation_of
from dynoc._optimize import optimize

USAGE = "python -m dynoc explain FILE::FUNCTION [arguments of the program]        (FUNCTION may be Class.method)"


def definition(tree, name):
    """The node that defines a function, by its qualified name; None: there is none."""
    node = tree
    for part in name.split("."):
        node = next((n for n in node.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == part), None)
        if node is None:
            return None
    return node if isinstance(node, ast.FunctionDef) else None


def watch(function):
    """Decorator: optimise a function, and print at the end of the program what became of it."""
    fast = optimize(function, wait=True)
    atexit.register(lambda: print(explained(function, fast), file=sys.stderr))
    return fast


def explained(function, fast):
    report = explanation_of(function.__qualname__, fast)
    if not (report.compile_times or report.refusals or report.loops):
        why = "the program never called it with arrays, or it is a generator or coroutine"
        return f"{function.__qualname__} was not captured: {why}"
    return report


def compile_watched(source, file, name):
    """The program's code, in which `watch` is the innermost decorator of the function."""
    tree = ast.parse(source, file)
    node = definition(tree, name)
    if node is None:
        sys.exit(f"python -m dynoc explain: {file} defines no function {name}")
    watched = ast.parse("__import__('dynoc._explain_program')._explain_program.watch", mode="eval").body
    for part in ast.walk(watched):
        part.lineno, part.end_lineno, part.col_offset, part.end_col_offset = node.lineno, node.lineno, 0, 0
    node.decorator_list.append(watched)
    return compile(tree, file, "exec", dont_inherit=True)


def split(words):
    """(file, function, arguments of the program) of a command line; a usage error ends the program."""
    file, colons, name = words[0].rpartition("::") if words else ("", "", "")
    if not (file and colons and name):
        print(USAGE, file=sys.stderr)
        sys.exit(2)
    return file, name, words[1:]
