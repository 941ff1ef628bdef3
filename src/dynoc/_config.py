"""`dynoc.config`: settings from code, the environment and pyproject.toml.

The settings themselves, with their types, ranges and defaults, are one table in C (src/base/log.h). This module turns text into
values, finds where settings come from, and raises ConfigError for what is wrong.
"""

import os

from dynoc import _dynoc
from dynoc._errors import ConfigError

PREFIX = "DYNOC_"
BUILD_PREFIX = "DYNOC_BUILD_"  # read by setup.py alone
TRUE = ("1", "true", "yes", "on")
FALSE = ("0", "false", "no", "off")
OF_PROCESS = ("logs", "trace")
NAMES = _dynoc.config_names()


def row_of(name, said):
    """The (type, default, low, high, what) of a setting. `said` is how the user wrote it, for the message."""
    if name not in NAMES:
        raise ConfigError(f"{said}: there is no setting {name!r}. Valid settings: {', '.join(NAMES)}")
    return NAMES[name]


def from_text(name, text, said):
    """The value that a text from the environment or the command line stands for."""
    kind = row_of(name, said)[0]
    if kind is bool:
        lowered = text.lower()
        if lowered not in TRUE + FALSE:
            raise ConfigError(f"{said}={text!r}: valid values are {', '.join(TRUE)} and {', '.join(FALSE)}")
        return lowered in TRUE
    if kind is int:
        try:
            return int(text)
        except ValueError:
            _, _, low, high, _ = row_of(name, said)
            raise ConfigError(f"{said}={text!r}: valid values are integers from {low} to {high}") from None
    return text


def checked(name, value, said):
    """`value` as the setting takes it, without setting it; ConfigError where it does not fit."""
    kind, _, low, high, _ = row_of(name, said)
    if kind is str and hasattr(value, "__fspath__"):
        value = os.fspath(value)
    if name == "logs" and isinstance(value, str):
        from dynoc._logs import parse

        parse(value, said)
    if type(value) is not kind:
        wanted = {bool: "True and False", int: f"integers from {low} to {high}", str: "strings"}[kind]
        raise ConfigError(f"{said} = {value!r}: valid values are {wanted}")
    if kind is int and not low <= value <= high:
        raise ConfigError(f"{said} = {value!r}: valid values are integers from {low} to {high}")
    if kind is str and "\0" in value:
        raise ConfigError(f"{said} = {value!r}: valid values are strings without NUL")
    return value


def checked_of_function(name, value):
    """A setting that is to hold for one function; ConfigError for one that can only hold for the process."""
    said = f"options[{name!r}]"
    if name in OF_PROCESS:
        raise ConfigError(f"{said}: it holds for the whole process: use dynoc.config.{name}")
    return checked(name, value, said)


def apply(name, value, said):
    value = checked(name, value, said)
    if name == "objects_dir" and value:
        try:
            os.makedirs(value, mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{said} = {value!r}: {error.strerror}") from None
    try:
        _dynoc.set_config(name, value)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"{said} = {value!r}: {error.args[0]}") from None
    if name == "logs":
        from dynoc import _logs

        _logs.turn_on(_logs.parse(value, said))
        if _logs.asks_for_help(value):
            _logs.show_help()
    elif name == "trace":
        from dynoc import _profile

        _profile.trace_to(value)


def nearest_pyproject():
    """Path and bytes of the pyproject.toml nearest to the working directory, or None."""
    try:
        folder = os.getcwd()
    except OSError:  # the working directory was removed
        return None
    while True:
        path = os.path.join(folder, "pyproject.toml")
        try:
            with open(path, "rb") as file:
                return path, file.read()
        except OSError:
            parent = os.path.dirname(folder)
            if parent == folder:
                return None
            folder = parent


def load_file():
    found = nearest_pyproject()
    if found is None or b"dynoc" not in found[1] or b"tool" not in found[1]:
        return
    path, data = found
    try:
        import tomllib  # costs milliseconds, and few projects have settings of ours
    except ImportError:  # before 3.11, where functions run as plain Python whatever the settings are
        return
    try:
        table = tomllib.loads(data.decode()).get("tool", {}).get("dynoc", {})
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        if b"[tool.dynoc]" not in data:
            return  # another tool's problem
        raise ConfigError(f"{path}: {error}") from None
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: tool.dynoc is not a table")
    for name, value in table.items():
        apply(name, value, f"{path}: [tool.dynoc] {name}")


def load_environment():
    """Settings from DYNOC_NAME variables. An empty one counts as not set."""
    for variable, text in os.environ.items():
        if not variable.startswith(PREFIX) or variable.startswith(BUILD_PREFIX) or not text:
            continue
        name = variable[len(PREFIX) :].lower()
        row_of(name, f"environment variable {variable}")
        apply(name, from_text(name, text, variable), f"environment variable {variable}")


class UnknownSetting(ConfigError, AttributeError):
    """A setting that isn't there, as an attribute: what `hasattr` and `getattr` look for."""


class Config:
    """Settings as attributes: ``dynoc.config.cache_limit = 16``.

    A value that is set here beats the environment (``DYNOC_CACHE_LIMIT=16``), which beats the table ``[tool.dynoc]`` of the
    ``pyproject.toml`` nearest to the working directory. The ``options`` of one `optimize` beat all of them.

    Raises
    ------
    ConfigError
        For an unknown name or a value of the wrong type or range; the message lists the valid ones.

    Examples
    --------
    >>> import dynoc
    >>> dynoc.config.cache_limit = 16
    >>> dynoc.config.cache_limit
    16
    >>> dynoc.config.cache_limit = 0
    Traceback (most recent call last):
    dynoc.ConfigError: dynoc.config.cache_limit = 0: valid values are integers from 1 to 4096
    """

    __slots__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            row_of(name, f"dynoc.config.{name}")
        except ConfigError as error:
            raise UnknownSetting(*error.args) from None
        return _dynoc.get_config(name)

    def __setattr__(self, name, value):
        apply(name, value, f"dynoc.config.{name}")

    def __dir__(self):
        return [*super().__dir__(), *NAMES]

    def __repr__(self):
        return "\n".join(f"{name} = {_dynoc.get_config(name)!r}  # {what}" for name, (*_, what) in NAMES.items())

    def _load(self):
        """Take over pyproject.toml and the environment. Called once, by the package when it is imported."""
        load_file()
        load_environment()


config = Config()
