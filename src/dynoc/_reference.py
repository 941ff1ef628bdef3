"""Operators of dynoc's that NumPy has no function for, in Python: what its compiled loops are compared with.

Called by the reference interpreter (codegen/run/interp.c), by ``graph.py`` in debug folders, and from graphs that are handed on.
"""

import math

import numpy as np


def erf(x):
    """The error function, element by element.

    Parameters
    ----------
    x : numpy.ndarray
        Numbers, of any shape.

    Returns
    -------
    numpy.ndarray
        float64, of the same shape.

    Examples
    --------
    >>> float(erf(np.array([0.5]))[0])
    0.5204998778130465
    """
    return np.vectorize(math.erf, otypes="d")(x)


def erfc(x):
    """The complementary error function, element by element.

    Parameters
    ----------
    x : numpy.ndarray
        Numbers, of any shape.

    Returns
    -------
    numpy.ndarray
        float64, of the same shape.

    Examples
    --------
    >>> float(erfc(np.array([0.5]))[0])
    0.4795001221869535
    """
    return np.vectorize(math.erfc, otypes="d")(x)


def modulus(x):
    """Distances of complex numbers from 0, each as ``abs`` of a NumPy scalar gives it.

    Parameters
    ----------
    x : numpy.ndarray
        Numbers, of any shape.

    Returns
    -------
    numpy.ndarray
        Real numbers, of the same shape.

    Examples
    --------
    >>> float(modulus(np.array([3 + 4j]))[0])
    5.0
    """
    with np.errstate(all="ignore"):
        return np.hypot(x.real, x.imag)


def power(x, y):
    """Powers of floats, each as ``**`` of two NumPy scalars gives it.

    Parameters
    ----------
    x, y : numpy.ndarray
        Bases and exponents, of one float dtype and of shapes that broadcast.

    Returns
    -------
    numpy.ndarray
        Of the same dtype.

    Examples
    --------
    >>> float(power(np.array([2.0]), np.array([0.5]))[0])
    1.4142135623730951
    """
    x, y = np.broadcast_arrays(x, y)
    out = np.empty(x.shape, x.dtype)
    with np.errstate(all="ignore"):
        out.flat = [a**b for a, b in zip(x.flat, y.flat, strict=True)]
    return out


def philox(key, counter):
    """Random bits by a counter: equal arguments give equal bits, and nothing else does in any way that shows.

    Philox 4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); of the four words of
    a result the first two are kept, less the highest bit.

    Parameters
    ----------
    key, counter : numpy.ndarray or torch.Tensor
        int64, of shapes that broadcast. The two words of the key, and the first two of the counter.

    Returns
    -------
    numpy.ndarray or torch.Tensor
        int64 from 0 to 2**63 - 1.

    Examples
    --------
    >>> hex(philox(np.array([0]), np.array([0]))[0])
    '0x6169c58d6627e8d5'
    """
    low = 0xFFFFFFFF
    a, b, c, d = counter & low, counter >> 32 & low, counter & 0, counter & 0
    k, m = key & low, key >> 32 & low
    with np.errstate(over="ignore"):  # products wrap: their bits are what counts
        for _ in range(10):
            p, q = a * 0xD2511F53, c * 0xCD9E8D57
            a, b, c, d = (q >> 32 & low) ^ b ^ k, q & low, (p >> 32 & low) ^ d ^ m, p & low
            k, m = k + 0x9E3779B9 & low, m + 0xBB67AE85 & low
    return (b & low >> 1) << 32 | a
