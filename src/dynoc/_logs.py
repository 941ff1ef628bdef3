"""Log categories: one logger ``dynoc.<category>`` each, turned on by `set_logs`, ``dynoc.config.logs`` or ``DYNOC_LOGS``.

Imported when logs are asked for, never by a plain ``import dynoc``: `logging` costs milliseconds.
"""

import atexit
import logging
import sys

from dynoc import _dynoc
from dynoc._errors import ConfigError


class Fallback(logging.Handler):
    """Writes to stderr while the program has set no handler of its own."""

    def emit(self, record):
        if logging.root.handlers or len(logging.getLogger("dynoc").handlers) > 1:
            return
        try:
            print(self.format(record), file=sys.stderr)
        except (OSError, ValueError):  # stderr is closed
            self.handleError(record)


class EachLine(logging.Formatter):
    """Every line of a record begins with its logger's name: so it is told from what the program writes."""

    def format(self, record):
        start = f"[{record.name}] "
        return "\n".join(f"{start}{line}".rstrip() for line in super().format(record).split("\n"))


def words(text):
    return [word for word in (part.strip() for part in text.split(",")) if word]


def parse(text, said):
    """The set of categories that a text like ``guards,fusion`` names. ``all`` is all of them; ``help`` names none."""
    names = _dynoc.log_names()
    wanted = set(words(text)) - {"help"}
    for name in wanted:
        if name != "all" and name not in names:
            raise ConfigError(f"{said}: there is no log category {name!r}. Valid categories: all, help, {', '.join(names)}")
    return set(names) if "all" in wanted else wanted


def asks_for_help(text):
    return "help" in words(text)


def show_help():
    lines = [f"  {name:<13}{what}" for name, what in _dynoc.log_names().items()]
    print("\n".join(["dynoc log categories (comma separated, or all):", *lines]), file=sys.stderr)


@atexit.register
def summarise_recompiles():
    """At the end of a program whose log ``recompiles`` is on: which functions were recorded again, and how often."""
    log = logging.getLogger("dynoc.recompiles")
    counts = sorted(_dynoc.counters.get("recompiles", {}).items(), key=lambda item: -item[1])
    if counts and log.isEnabledFor(logging.DEBUG):
        lines = [f"  {n:>5} times {name}" for name, n in counts]
        log.debug("%s", "\n".join(["recorded again in this program:", *lines]))


def logger(name):
    """The logger of that name, with a handler for programs that have none: each line that it writes begins with ``[dynoc``."""
    top = logging.getLogger("dynoc")
    if not any(isinstance(handler, Fallback) for handler in top.handlers):
        handler = Fallback()
        handler.setFormatter(EachLine())
        top.addHandler(handler)
    return logging.getLogger(name)


def turn_on(categories):
    """These categories are on, the others off."""
    if categories:
        logger("dynoc")
    for name in _dynoc.log_names():
        on = name in categories
        logging.getLogger(f"dynoc.{name}").setLevel(logging.DEBUG if on else logging.NOTSET)
        _dynoc.set_log(name, on)


def note_break(text):
    """About what dynoc leaves alone: in the log ``graph_breaks``, or for whoever listens to the logger ``dynoc``."""
    log = logging.getLogger("dynoc.graph_breaks")
    if log.isEnabledFor(logging.DEBUG):
        log.debug("%s", text)
    else:
        logging.getLogger("dynoc").info("%s", text)


def warn(text):
    """One line about what went wrong, on the logger ``dynoc``."""
    logger("dynoc").warning(text)
