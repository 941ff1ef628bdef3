"""What a type checker has to make of dynoc's calls: test_types.py runs mypy over it."""

from typing import assert_type

import numpy as np
import numpy.typing as npt

import dynoc

Array = npt.NDArray[np.float64]


class Net:
    """As much of a torch.nn.Module as the types ask for."""

    training: bool = True

    def parameters(self, recurse: bool = True) -> list[Array]:
        return []

    def state_dict(self, *args: object, **kwargs: object) -> dict[str, Array]:
        return {}

    def __call__(self, x: Array) -> Array:
        return x


class Scale:
    def by(self, x: Array, factor: float = 2.0) -> Array:
        return x * factor


@dynoc.optimize
def double(x: Array, times: int = 1) -> Array:
    return x * 2 * times


@dynoc.optimize(fullgraph=True, options={"cache_limit": 4})
def triple(x: Array) -> Array:
    return x * 3


assert_type(double(np.ones(3), times=2), Array)
assert_type(triple(np.ones(3)), Array)
assert_type(dynoc.optimize(Net()), Net)
assert_type(dynoc.optimize(Scale().by)(np.ones(3), factor=1.0), Array)
double("no array")  # type: ignore[arg-type]
dynoc.optimize(Scale().by)(np.ones(3), 1.0, 2.0)  # type: ignore[call-arg]
with dynoc.profile() as measured:
    double(np.ones(3))
assert_type([step.bytes_per_second for function in measured.functions for step in function.steps], list[float | None])
dynoc.enable(wait=True, backend="eager")
dynoc.disable()
dynoc.set_logs(guards=True, all=False)
assert_type(dynoc.list_backends(), list[str])
assert_type(dynoc.list_backends(all=True), dict[str, str | None])
