from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from types import CodeType
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
Mode = Literal["default", "reduce-overhead", "max-autotune"]
Backend = str | Callable[[Any, list[Any]], Callable[..., Any]]

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
    loops: bool
    cache_dir: str
    cache_limit: int
    threads: int
    compiler: str
    cflags: str
    compile_timeout: int
    keep_memory: int
    memory_limit: int
    fast_math: bool
    fallback_random: bool
    debug: bool
    debug_dir: str
    logs: str
    retire: bool
    plain_loops: bool
    record_all: bool
    suppress_errors: bool
    verify: bool
    trace: str
    objects_dir: str
    dynamic: bool
    record_limit: int
    force_bail: int
    force_break: int
    force_leave: int

config: Config

class Node:
    graph: Graph
    name: str
    op: Literal["placeholder", "get_attr", "call_function", "call_method", "call_module", "output"]
    target: Callable[..., Any] | str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    meta: dict[str, Any]
    users: dict[Node, None]
    @property
    def all_input_nodes(self) -> list[Node]: ...
    @property
    def next(self) -> Node: ...
    @property
    def prev(self) -> Node: ...
    @property
    def stack_trace(self) -> str | None: ...
    def prepend(self, node: Node) -> None: ...
    def append(self, node: Node) -> None: ...
    def update_arg(self, index: int, arg: Any) -> None: ...
    def update_kwarg(self, key: str, arg: Any) -> None: ...
    def replace_input_with(self, old: Node, new: Node) -> None: ...
    def replace_all_uses_with(
        self, new: Node, delete_user_cb: Callable[[Node], bool] = ..., *, propagate_meta: bool = False
    ) -> list[Node]: ...
    def is_impure(self) -> bool: ...
    def format_node(self) -> str: ...

class Graph:
    owning_module: object
    def __init__(self, owning_module: object = None) -> None: ...
    @property
    def nodes(self) -> Any: ...
    def find_nodes(self, *, op: str, target: Callable[..., Any] | str | None = None) -> list[Node]: ...
    def output_node(self) -> Node: ...
    def print_readable(self, print_output: bool = True) -> str: ...
    def print_tabular(self) -> None: ...
    def to_dot(self) -> str: ...
    def create_node(
        self,
        op: str,
        target: Callable[..., Any] | str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node: ...
    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node: ...
    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node: ...
    def call_function(
        self, the_function: Callable[..., Any], args: Any = None, kwargs: dict[str, Any] | None = None, type_expr: Any = None
    ) -> Node: ...
    def call_method(
        self, method_name: str, args: Any = None, kwargs: dict[str, Any] | None = None, type_expr: Any = None
    ) -> Node: ...
    def call_module(
        self, module_name: str, args: Any = None, kwargs: dict[str, Any] | None = None, type_expr: Any = None
    ) -> Node: ...
    def output(self, result: Any, type_expr: Any = None) -> Node: ...
    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = ...) -> Node: ...
    def graph_copy(self, graph: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any: ...
    def inserting_before(self, n: Node | None = None) -> AbstractContextManager[None]: ...
    def inserting_after(self, n: Node | None = None) -> AbstractContextManager[None]: ...
    def erase_node(self, to_erase: Node) -> None: ...
    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool: ...
    def lint(self) -> None: ...
    def python_code(self, root_module: str = "self", verbose: bool = False) -> Any: ...

class GraphModule:
    graph: Graph
    code: str
    meta: dict[str, Any]
    def __init__(self, root: object, graph: Graph | None = None, class_name: str = "GraphModule") -> None: ...
    @property
    def forward(self) -> Callable[..., Any]: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def recompile(self) -> Any: ...
    def print_readable(self, print_output: bool = True) -> str: ...
    def to_dot(self) -> str: ...
    def to_torch_fx(self) -> Any: ...

class Interpreter:
    module: Any
    graph: Any
    env: dict[Any, Any]
    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Any = None) -> None: ...
    def run(self, *args: Any, initial_env: dict[Any, Any] | None = None) -> Any: ...
    def run_node(self, n: Any) -> Any: ...
    def fetch_args_kwargs_from_env(self, n: Any) -> tuple[tuple[Any, ...], dict[str, Any]]: ...
    def map_nodes_to_values(self, args: Any, n: Any) -> Any: ...
    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def call_function(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def output(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def fetch_attr(self, target: str) -> Any: ...

def register_backend(name: str, fn: Callable[[GraphModule, list[Any]], Callable[..., Any]]) -> None: ...
def trace(fn: Callable[..., Any]) -> Callable[..., GraphModule]: ...
def grad(fn: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Callable[P, Any]: ...
def value_and_grad(fn: Callable[P, R], argnums: int | Sequence[int] = 0) -> Callable[P, tuple[R, Any]]: ...

class Entry:
    guards: list[str]
    graph: Graph
    code: CodeType
    source: str
    tier: Literal["eager", "builtin", "native"]
    lengths: list[tuple[int, int]]
    hits: int
    number: int
    end: Literal["return", "break", "leave"]
    reason: str | None
    why: str | None
    kernels: int
    failure: str | None
    times: dict[str, float]

class Step:
    kind: Literal["kernel", "product", "extern", "loop"]
    name: str
    place: str
    calls: int
    seconds: float
    bytes: int
    @property
    def bytes_per_second(self) -> float | None: ...

class FunctionProfile:
    name: str
    place: str
    calls: int
    hits: int
    guards: float
    steps: list[Step]
    entries: list[Entry]
    @property
    def kernels(self) -> float: ...
    @property
    def products(self) -> float: ...
    @property
    def extern(self) -> float: ...
    @property
    def loops(self) -> float: ...
    @property
    def other(self) -> float: ...
    @property
    def seconds(self) -> float: ...

class profile:
    functions: list[FunctionProfile]
    def __enter__(self) -> profile: ...
    def __exit__(self, *exception: object) -> None: ...

def report(path: str | PathLike[str] | None = None) -> object: ...

class _Module(Protocol):
    training: bool
    def parameters(self, recurse: bool = ...) -> Any: ...
    def state_dict(self, *args: Any, **kwargs: Any) -> Any: ...

M = TypeVar("M", bound=_Module)

class OptimizedFunction(Generic[P, R]):
    __name__: str
    __qualname__: str
    __wrapped__: Callable[P, R]
    entries: list[Entry]
    refusals: list[str]
    loops: list[str]
    def source(self) -> str: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]: ...

class Explanation:
    graph_count: int
    graph_break_count: int
    op_count: int
    graphs: list[Graph]
    break_reasons: list[str]
    breaks: list[str]
    refusals: list[str]
    loops: list[str]
    guards: list[str]
    compile_times: dict[str, float]

@overload
def optimize(
    fn: M,
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
) -> M: ...
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
def allow_in_graph(fn: F) -> F: ...
def disallow_in_graph(fn: F) -> F: ...
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
    loops: bool = ...,
) -> None: ...
def explain(fn: Callable[..., Any], **arguments: Any) -> Callable[..., Explanation]: ...
def load_ipython_extension(shell: Any) -> None: ...
