from collections.abc import Callable
from types import CodeType
from typing import Any, Generic, Literal, ParamSpec, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
Mode = Literal["default", "reduce-overhead", "max-autotune"]
Backend = Literal["dynoc", "eager"]

__version__: str
counters: dict[str, dict[str, int]]

class Error(Exception): ...
class Unsupported(Error): ...
class BackendError(Error): ...

class CompileError(Error):
    command: str
    output: str
    def __init__(self, message: str, command: str = "", output: str = "") -> None: ...

class ConfigError(Error, ValueError): ...
class InternalError(Error): ...

class Config:
    wait: bool
    cache_dir: str
    cache_limit: int
    threads: int
    compiler: str
    cflags: str
    compile_timeout: int
    keep_memory: int
    fast_math: bool
    debug: bool
    debug_dir: str
    logs: str
    record_all: bool
    suppress_errors: bool
    dynamic: bool
    record_limit: int
    force_bail: int
    force_break: int
    force_leave: int

config: Config

class Graph:
    def print_readable(self, print_output: bool = True) -> str: ...

class Entry:
    guards: list[str]
    graph: Graph
    code: CodeType
    source: str
    tier: Literal["eager", "builtin", "native"]
    hits: int
    number: int
    end: Literal["return", "break", "leave"]
    reason: str | None
    failure: str | None
    times: dict[str, float]

class OptimizedFunction(Generic[P, R]):
    __name__: str
    __qualname__: str
    __wrapped__: Callable[P, R]
    entries: list[Entry]
    def source(self) -> str: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]: ...

class Explanation:
    graph_count: int
    graph_break_count: int
    op_count: int
    graphs: list[Graph]
    break_reasons: list[str]
    guards: list[str]
    compile_times: dict[str, float]

@overload
def optimize(
    fn: Callable[P, R],
    *,
    backend: Backend = "dynoc",
    fullgraph: bool = False,
    dynamic: bool = True,
    mode: Mode | None = None,
    wait: bool | None = None,
    exact: bool = False,
    disable: bool = False,
    options: dict[str, Any] | None = None,
    nopython: bool | None = None,
) -> OptimizedFunction[P, R]: ...
@overload
def optimize(
    fn: None = None,
    *,
    backend: Backend = "dynoc",
    fullgraph: bool = False,
    dynamic: bool = True,
    mode: Mode | None = None,
    wait: bool | None = None,
    exact: bool = False,
    disable: bool = False,
    options: dict[str, Any] | None = None,
    nopython: bool | None = None,
) -> Callable[[Callable[P, R]], OptimizedFunction[P, R]]: ...
def enable(
    *,
    backend: Backend = "dynoc",
    fullgraph: bool = False,
    dynamic: bool = True,
    mode: Mode | None = None,
    wait: bool | None = None,
    exact: bool = False,
    options: dict[str, Any] | None = None,
    nopython: bool | None = None,
) -> None: ...
def disable() -> None: ...

class enabled:
    def __init__(
        self,
        *,
        backend: Backend = "dynoc",
        fullgraph: bool = False,
        dynamic: bool = True,
        mode: Mode | None = None,
        wait: bool | None = None,
        exact: bool = False,
        options: dict[str, Any] | None = None,
        nopython: bool | None = None,
    ) -> None: ...
    def __enter__(self) -> enabled: ...
    def __exit__(self, *exception: object) -> None: ...

def skip(fn: F) -> F: ...
def run(fn: F) -> F: ...
def graph_break() -> None: ...
def is_tracing() -> bool: ...
def reset() -> None: ...
def wait() -> None: ...
@overload
def list_backends(all: Literal[False] = False) -> list[str]: ...
@overload
def list_backends(all: Literal[True]) -> dict[str, str | None]: ...
def set_logs(
    *,
    all: bool = False,
    guards: bool = ...,
    recompiles: bool = ...,
    graph_breaks: bool = ...,
    graph: bool = ...,
    bytecode: bool = ...,
    output_code: bool = ...,
    fusion: bool = ...,
    schedule: bool = ...,
    cache: bool = ...,
    perf: bool = ...,
) -> None: ...
def explain(fn: Callable[..., Any], **arguments: Any) -> Callable[..., Explanation]: ...
