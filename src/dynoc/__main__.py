"""python -m dynoc: run an unmodified program under dynoc, or look at what this machine offers.

    python -m dynoc [options] script.py [arguments]
    python -m dynoc [options] -m package.module [arguments]
    python -m dynoc doctor

Options, before the script:
    --backend NAME   the back end (see dynoc.list_backends)
    --logs NAMES     log categories, comma separated; help lists them
    --wait           native code is ready before the call that recorded returns
    --summary        print what was compiled when the program ends
    -h, --help       this text
"""

import builtins
import os
import sys
import types

import dynoc


def usage_error(message):
    print(f"python -m dynoc: {message}\n\n{__doc__.strip()}", file=sys.stderr)
    sys.exit(2)


def parse(words):
    """(options, "-m" or "script", target, its arguments) from the command line behind `python -m dynoc`."""
    options = {"backend": None, "logs": None, "wait": None, "summary": False}
    words = list(words)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if word in ("-h", "--help"):
            print(__doc__.strip())
            sys.exit(0)
        elif name in ("--backend", "--logs"):
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
    usage_error("no script was given")


def run_script(path, arguments):
    """Run a file as __main__, as `python path arguments` would."""
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        sys.exit(f"python -m dynoc: can't open file {path!r}: {error.strerror}")
    sys.argv[:] = [path, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.abspath(path))
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=builtins)
    sys.modules["__main__"] = main
    sys.excepthook = without_own_frames(sys.excepthook)
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


def without_own_frames(hook):
    """An excepthook that shows the traceback that the program would have without us: frames of this file are no part of it."""

    def show(kind, error, traceback):
        while traceback is not None and traceback.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
            traceback = traceback.tb_next
        hook(kind, error.with_traceback(traceback), traceback)

    return show


def run_module(name, arguments):
    import runpy

    sys.argv[:] = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def print_summary():
    lines = [
        f"  {group:<14}{key:<28}{n}" for group, counts in sorted(dynoc.counters.items()) for key, n in sorted(counts.items())
    ]
    print("\n".join(["dynoc summary:", *(lines or ["  nothing was recorded"])]), file=sys.stderr)


def turn_on(options):
    if options["logs"] is not None:
        dynoc.config.logs = options["logs"]
    if options["summary"]:
        import atexit

        atexit.register(print_summary)
    dynoc.enable(**{name: options[name] for name in ("backend", "wait") if options[name] is not None})


def main():
    words = sys.argv[1:]
    if words == ["doctor"]:
        from dynoc import _doctor

        sys.exit(_doctor.main())
    options, how, target, arguments = parse(words)
    try:
        turn_on(options)
    except dynoc.ConfigError as error:
        sys.exit(f"python -m dynoc: {error}")
    (run_module if how == "-m" else run_script)(target, arguments)


if __name__ == "__main__":
    main()
