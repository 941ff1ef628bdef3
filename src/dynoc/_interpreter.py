"""`Interpreter`: runs a graph of `dynoc._graph` or of `torch.fx` node by node, as `torch.fx.Interpreter` does, without torch."""

from dynoc._graph import fetch, map_aggregate


class Interpreter:
    """Runs a graph node by node; methods are there to be overridden, as those of `torch.fx.Interpreter`.

    Parameters
    ----------
    module : GraphModule
        Of dynoc, or of `torch.fx`.
    garbage_collect_values : bool
        Let go of values that nobody needs any more.
    graph : Graph, optional
        Run this one in place of the module's.

    Examples
    --------
    >>> import numpy as np
    >>> import dynoc
    >>> gm = dynoc.trace(lambda x: np.sin(x) + 1)(np.zeros(2))
    >>> class Cosines(dynoc.Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(np.cos if target is np.sin else target, args, kwargs)
    >>> Cosines(gm).run(np.zeros(2)).tolist()
    [2.0, 2.0]
    """

    def __init__(self, module, garbage_collect_values=True, graph=None):
        self.module, self.graph = module, module.graph if graph is None else graph
        self.garbage_collect_values, self.env = garbage_collect_values, {}
        last = {used: n for n in self.graph.nodes for used in n.all_input_nodes}
        self.user_to_last_uses = {}
        for used, n in last.items():
            self.user_to_last_uses.setdefault(n, []).append(used)

    def run(self, *args, initial_env=None):
        """Run the graph.

        Parameters
        ----------
        *args
            One for each placeholder.
        initial_env : dict, optional
            Nodes whose values are known.
        """
        self.env, self.args_iter = dict(initial_env or {}), iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self.run_node(node)
            if node.op == "output":
                return self.env[node]
            if self.garbage_collect_values:
                for used in self.user_to_last_uses.get(node, ()):
                    del self.env[used]
        return None

    def run_node(self, n):
        """Run one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def fetch_args_kwargs_from_env(self, n):
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n):
        def load(a):
            if not isinstance(a, type(n)):
                return a
            if a not in self.env:
                raise RuntimeError(f"{n} uses {a}, which has no value")
            return self.env[a]

        return map_aggregate(args, load)

    def placeholder(self, target, args, kwargs):
        if target.startswith("*"):
            return list(self.args_iter)
        missing = object()
        value = next(self.args_iter, missing)
        if value is not missing:
            return value
        if args:
            return args[0]
        raise RuntimeError(f"no argument was given for {target}")

    def get_attr(self, target, args, kwargs):
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        return target(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target, args, kwargs):
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target, args, kwargs):
        return args[0]

    def fetch_attr(self, target):
        return fetch(self.module, target)
