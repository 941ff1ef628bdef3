"""The exceptions that dynoc raises. Only a wrong use of dynoc's own calls and `fullgraph=True` raise; see docs."""

from dynoc import _dynoc


class Error(Exception):
    """Base of every exception that dynoc raises."""


class Unsupported(Error):
    """A graph break in a function that was optimised with ``fullgraph=True``: what, where, and what to do."""


class BackendError(Error):
    """A back end failed, or does not exist here."""


class CompileError(Error):
    """The compiler of generated code failed.

    Attributes
    ----------
    command : str
        The compiler's command line.
    output : str
        What the compiler wrote.
    """

    def __init__(self, message, command="", output=""):
        super().__init__(message, command, output)
        self.command = command
        self.output = output

    def __str__(self):
        return "\n".join(part for part in (str(self.args[0]), self.command, self.output) if part)


class ConfigError(Error, ValueError):
    """An unknown name or a bad value of a setting or an argument. The message lists what is valid."""


class InternalError(Error):
    """dynoc found a mistake of its own."""


KINDS = (Error, Unsupported, BackendError, CompileError, ConfigError, InternalError)
for kind in KINDS:
    kind.__module__ = "dynoc"  # where users find them: tracebacks and pickles say so
_dynoc.set_errors({kind.__name__: kind for kind in KINDS})
