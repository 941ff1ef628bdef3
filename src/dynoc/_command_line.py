"""python -m dynoc: run an unmodified program under dynoc, or look at what this machine offers.

    python -m dynoc [options] script.py [arguments]
    python -m dynoc [options] -m package.module [arguments]
    python -m dynoc explain FILE::FUNCTION [arguments]      run a program, and tell what became of one of its functions
    python -m dynoc minify FOLDER                           the smallest graph that still fails, from a debug folder
    python -m dynoc reason CODE                             what a reason means for a program, and what helps
    python -m dynoc doctor [--json]                         what dynoc needs and can use here
    python -m dynoc cache info|clear|prune [DAYS]           the folder of compiled objects

Options, before the script:
    --backend NAME   the back end (see dynoc.list_backends)
    --logs NAMES     log categories, comma separated; help lists them
    --wait           native code is ready before the call that recorded returns
    --report FILE    write an HTML file that shows what became of the program
    --summary        print what was compiled when the program ends
    --version        print the version of dynoc
    -h, --help       this text
"""

import builtins
import os
import runpy
import sys
import types
from importlib.machinery import BuiltinImporter, SourceFileLoader, SourcelessFileLoader
from importlib.util import MAGIC_NUMBER

import dynoc
from dynoc import _dynoc


def usage_error(message):
    print(f"python -m dynoc: {message}\n\n{__doc__.strip()}", file=sys.stderr)
    sys.exit(2)


def parse(words):
    """(options, "-m" or "script", target, its arguments) from the command line behind `python -m dynoc`."""
    options = {"backend": None, "logs": None, "report": None, "wait": None, "summary": False}
    words = list(words)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if word in ("-h", "--help"):
            print(__doc__.strip())
            sys.exit(0)
        elif word == "--version":
            print(f"dynoc {dynoc.__version__}")
            sys.exit(0)
        elif name in ("--backend", "--logs", "--report"):
            if not equals and not words:
                usage_error(f"{name} wants a value")
            options[name[2:]] = value if equals else words.pop(0)
        elif word in ("--wait", "--summary"):
            options[word[2:]] = True
        elif word == "-m":
            if not words:
                usage_error("-m wants the name of a module")
            return options, "-m", words[0], words[1:]
        elif word.startswith("-") and word != "-":
            usage_error(f"unknown option {word}")
        else:
            return options, "script", word, words
    if options["logs"] == "help":
        dynoc.config.logs = "help"  # which lists them
        sys.exit(0)
    usage_error("no script was given")


# What `python` itself does with the rest of its command line. tests/py/test_main.py holds it to that.


def run_script(path, arguments, code_of=None):
    """Run a file, or standard input (``-``), as `python path arguments` would. `code_of(source, name)` compiles it."""
    if path != "-" and is_on_path(path):
        run_folder(path, arguments)
        return
    sys.argv[:] = [path, *arguments]
    main = new_main()
    name, source = ("<stdin>", sys.stdin.buffer.read()) if path == "-" else (absolute(path), read(path))
    replace_path("" if path == "-" else os.path.dirname(os.path.realpath(path)))
    main.__file__ = name
    if path != "-":
        main.__loader__ = (SourcelessFileLoader if is_compiled(name) else SourceFileLoader)("__main__", name)
    code = (code_of or compiled)(source, name)
    forgive_calls(by_exec=True)
    exec(code, main.__dict__)


def run_folder(path, arguments):
    """Run ``__main__`` in a folder or zip file."""
    sys.argv[:] = [path, *arguments]
    replace_path(absolute(path), always=True)
    new_main()
    forgive_calls()
    runpy._run_module_as_main("__main__", alter_argv=False)


def run_module(name, arguments):
    """Run a module or package as `python -m name arguments` would."""
    sys.argv[:] = ["-m", *arguments]
    new_main()
    forgive_calls()
    runpy._run_module_as_main(name)


def forgive_calls(by_exec=False):
    """Let the program have as many calls before the limit of recursion as `python` itself gives it: ours don't count."""
    frame, calls = sys._getframe(1), 0
    while frame is not None:
        frame, calls = frame.f_back, calls + 1
    if sys.version_info < (3, 12):  # calls of functions in C count as well: of exec, by runpy and by us
        calls += 1 + by_exec
    _dynoc.forgive_calls(calls)


def new_main():
    """A module ``__main__`` with what is in it before a program runs. It is the one that Python itself made, as under `python`:
    another is taken apart by the collector when Python ends, which takes as long as half the program where many objects are left.
    """
    main = sys.modules["__main__"]
    spec = main.__dict__.get("__spec__")
    if spec is not None and spec.name == "dynoc.__main__":
        main.__dict__.clear()
        main.__dict__.update(types.ModuleType("__main__").__dict__)
    else:  # runpy runs us for a program, whose module that is
        main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __loader__=BuiltinImporter)
    if sys.version_info < (3, 14):
        main.__dict__.update(__annotations__={})
    if sys.version_info < (3, 15):
        main.__dict__.update(__cached__=None)
    sys.modules["__main__"] = main
    return main


def replace_path(folder, always=False):
    """Make `folder` the first of ``sys.path``, in place of what `python -m dynoc` put there."""
    is_safe = getattr(sys.flags, "safe_path", False)  # -P: nothing was put there
    if not is_safe:
        sys.path[0] = folder
    elif always:
        sys.path.insert(0, folder)


def is_on_path(path):
    """Can modules be imported from here: is it a folder or zip file?"""
    for hook in sys.path_hooks:
        try:
            hook(path)
        except ImportError:
            continue
        return True
    return False


def absolute(path):
    """As CPython spells it: what the path says is left as it is."""
    return path if os.path.isabs(path) else os.getcwd() if path == "." else os.path.join(os.getcwd(), path)


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        said = f"can't open file {absolute(path)!r}: [Errno {error.errno}] {error.strerror}"
        print(f"{sys.orig_argv[0]}: {said}", file=sys.stderr)
        sys.exit(2)


def is_compiled(path):
    return path.endswith(".pyc")


def compiled(source, name):
    if is_compiled(name):
        import marshal

        if source[:4] != MAGIC_NUMBER:
            raise RuntimeError("Bad magic number in .pyc file")
        return marshal.loads(source[16:])
    if b"\0" in source:
        return compile(source, name, "exec", dont_inherit=True)
    if not any(b"coding" in line for line in source.split(b"\n", 2)[:2]):
        refuse_other_than_utf8(source, name)
    return _dynoc.compile_program(source, name)


def refuse_other_than_utf8(source, name):
    """As `python` does with a file that names no encoding; bytes that are compiled may have anything in a comment."""
    try:
        source.decode()
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        raise SyntaxError(
            f"Non-UTF-8 code starting with '\\x{source[error.start]:02x}' in file {name} on line {line}, "
            "but no encoding declared; see https://peps.python.org/pep-0263/ for details"
        ) from None


def without_own_frames(hook):
    """An excepthook that shows the traceback that the program would have without us: its first frames are no part of it."""

    def show(kind, error, traceback):
        sys.excepthook = hook
        own, at = traceback, traceback
        while at is not None:
            own, at = at.tb_next if at.tb_frame.f_code.co_filename == __file__ else own, at.tb_next
        sys.last_traceback = own
        hook(kind, error.with_traceback(own), own)

    return show


def print_summary():
    lines = [
        f"  {group:<14}{key:<28}{n}" for group, counts in sorted(dynoc.counters.items()) for key, n in sorted(counts.items())
    ]
    print("\n".join(["dynoc summary:", *(lines or ["  nothing was recorded"])]), file=sys.stderr)


def check_folder(path):
    """ConfigError where a report can't be written: said before the program runs, which may take long."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.access(folder, os.W_OK):
        why = "it is a folder" if os.path.isdir(path) else f"{folder} is no folder that can be written"
        raise dynoc.ConfigError(f"--report {path}: {why}")


def turn_on(options):
    if options["report"]:
        check_folder(options["report"])
    if options["logs"] is not None:
        dynoc.config.logs = options["logs"]
    if options["summary"]:
        import atexit

        atexit.register(print_summary)
    if options["report"]:
        from dynoc import _profile, _report_html  # noqa: F401 now, as what it imports and compiles is no part of the program

        _profile.watch_all()
    dynoc.enable(**{name: options[name] for name in ("backend", "wait") if options[name] is not None})


def doctor(words):
    from dynoc import _doctor

    sys.exit(_doctor.main(words))


def cache(words):
    from dynoc import _cache

    sys.exit(_cache.main(words))


def minify(words):
    from dynoc import _minify

    sys.exit(_minify.main(words))


def reason(words):
    from dynoc import _reason

    sys.exit(_reason.main(words))


def explain(words):
    from dynoc import _explain_program

    file, function, arguments = _explain_program.split(words)
    run_script(file, arguments, lambda source, name: _explain_program.compile_watched(source, name, function))


def run(words):
    options, how, target, arguments = for_reader(parse, words)
    try:
        turn_on(options)
    except dynoc.ConfigError as error:
        sys.exit(f"python -m dynoc: {error}")
    try:
        (run_module if how == "-m" else run_script)(target, arguments)
    finally:
        if options["report"]:
            write_report(options["report"])


def write_report(path):
    try:
        dynoc.report(path)
    except OSError as error:
        print(f"dynoc: --report: {error}", file=sys.stderr)


def for_reader(command, words):
    """Call what prints for dynoc, not for the program. Where the reader goes away, as ``head`` does, it ends without a word."""
    try:
        try:
            return command(words)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more at its end
        sys.exit(1)


COMMANDS = {"doctor": doctor, "cache": cache, "minify": minify, "reason": reason}
PROGRAMS = {"explain": explain}  # commands that run a program, whose output is its own


def main():
    words = sys.argv[1:]
    name = words[0] if words else None
    try:
        if name in COMMANDS:
            for_reader(COMMANDS[name], words[1:])
        elif name in PROGRAMS:
            PROGRAMS[name](words[1:])
        else:
            run(words)
    except BaseException as error:
        if not isinstance(error, SystemExit):
            sys.excepthook = without_own_frames(sys.excepthook)
        raise
