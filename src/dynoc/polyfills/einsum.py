"""What a call of `numpy.einsum` is made of."""

import numpy as np


def product(a, b):
    """A product of matrices as einsum makes it: without floating-point warnings."""
    with np.errstate(all="ignore"):
        return np.matmul(a, b)
