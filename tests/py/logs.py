"""Reading dynoc's log categories and counters in tests."""

import contextlib
import logging

from compare import dynoc


class Lines(logging.Handler):
    """Keeps the messages of one logger."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


@contextlib.contextmanager
def logged(category):
    """The messages of a log category, collected while the block runs."""
    logger = logging.getLogger(f"dynoc.{category}")
    handler = Lines()
    level = logger.level
    dynoc.set_logs(**{category: True})
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        dynoc.set_logs(**{category: False})


def counted(key):
    """How often something was counted under this key, in whatever group."""
    return sum(group.get(key, 0) for group in dynoc.counters.values())
