"""JAX: the same code object with jax.numpy as its np, jitted, float64 as NumPy has it. Results are waited for and left where they are."""

import jax
import jax.numpy
import numpy as np
from forms import Form, each, rebuilt

VERSION = jax.__version__


def start(threads):
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)


def scatter(table, index, values):
    return jax.numpy.zeros_like(table).at[index].add(values) + table


FORMS = {"scatter": scatter}


def form(kernel):
    own = FORMS.get(kernel.name)
    fast = jax.jit(own or rebuilt(kernel.fn, jax.numpy))
    return Form(
        lambda *args: jax.block_until_ready(fast(*args)),
        lambda args: each(jax.numpy.asarray, args),
        lambda result: each(np.asarray, result),
        "own form" if own else "",
    )
