"""The setting ``verify``: arrays and tensors copied, put back and compared. Called by src/evalframe/verify.c.

Values whose bits promise to be eager's are compared bit for bit. Others, which have rounded functions or sums behind them, may
differ by a tolerance of their dtype, and one element in a thousand may differ by more: where a rounded number is compared, or
made an integer, its last bit decides.
"""

import sys

import numpy as np

TOLERANCE = {"float16": 2e-2, "bfloat16": 5e-2, "float32": 1e-3, "complex64": 1e-3}  # others: 1e-9
MOST_OTHERS = 1 / 1000  # of the elements of a value that isn't exact
LINE = 64  # bytes: copies lie as their originals do within a line of the cache


def is_tensor(a):
    return not isinstance(a, (np.ndarray, np.generic))


def start_of(a):
    """The address of its first element."""
    return a.data_ptr() if is_tensor(a) else a.__array_interface__["data"][0]


def span(a):
    """The addresses of an array's or tensor's first byte, and behind its last."""
    if is_tensor(a):
        steps, size = [n * a.element_size() for n in a.stride()], a.element_size()
    else:
        steps, size = a.strides, a.itemsize
    start = start_of(a)
    if 0 in a.shape:
        return start, start
    ends = [(n - 1) * step for n, step in zip(a.shape, steps)]
    return start + sum(e for e in ends if e < 0), start + sum(e for e in ends if e > 0) + size


def merged(spans):
    """The pieces of memory that these spans make up, in order; those that overlap are one."""
    pieces = []
    for low, high in sorted(spans):
        if pieces and low < pieces[-1][1]:
            pieces[-1][1] = max(high, pieces[-1][1])
        else:
            pieces.append([low, high])
    return pieces


def copy_of_piece(low, high):
    """The bytes in a new array, and the address that stands for `low` in it."""
    import ctypes

    room = np.empty(high - low + 2 * LINE, np.uint8)
    first = (low - room.ctypes.data) % LINE
    ctypes.memmove(room.ctypes.data + first, low, high - low)
    return room, first


def over(a, room, offset):
    """An array or tensor like `a` in a piece of memory, at this offset."""
    if not is_tensor(a):
        return np.ndarray(a.shape, a.dtype, room, offset, a.strides)
    torch = sys.modules["torch"]
    count = (len(room) - offset) // a.element_size()
    return torch.frombuffer(room, dtype=a.dtype, count=count, offset=offset).as_strided(a.shape, a.stride(), 0)


def copies(arrays):
    """Copies in which those share memory that share it in the originals."""
    spans = [span(a) for a in arrays]
    pieces = merged(s for s in spans if s[0] != s[1])
    rooms = [copy_of_piece(low, high) for low, high in pieces]
    made = []
    for a, (low, high) in zip(arrays, spans):
        if low == high:
            made.append(a.detach().clone() if is_tensor(a) else a.copy())
            continue
        i = next(i for i, piece in enumerate(pieces) if piece[0] <= low < piece[1])
        room, first = rooms[i]
        made.append(over(a, room, first + start_of(a) - pieces[i][0]))
    return tuple(made)


def put_back(arrays, before):
    """Arrays and tensors get back what they held."""
    for a, old in zip(arrays, before):
        if is_tensor(a):
            with sys.modules["torch"].no_grad():
                a.detach().copy_(old)
        elif a.flags.writeable:
            np.copyto(a, old)


def dtype_of(a):
    return str(a.dtype).removeprefix("torch.")


def as_array(a):
    """As NumPy can compare it."""
    if not is_tensor(a):
        return np.asarray(a)
    a = a.detach()
    return (a.float() if dtype_of(a) == "bfloat16" else a).resolve_conj().numpy()


def differing(eager, compiled, exact, dtype):
    """Where two arrays of one shape differ, as an array of bools."""
    if eager.dtype.kind == "c":
        parts = (differing(getattr(eager, k), getattr(compiled, k), exact, dtype) for k in ("real", "imag"))
        return np.logical_or(*parts)
    if eager.dtype.kind != "f":
        return eager != compiled
    both_nan = np.isnan(eager) & np.isnan(compiled)
    if exact:
        return ~both_nan & ((eager != compiled) | (np.signbit(eager) != np.signbit(compiled)))
    rtol = TOLERANCE.get(dtype, 1e-9)
    wide = eager.astype(np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    allowed = rtol * (np.abs(wide) + (finite.max() if finite.size else 0.0))
    return ~both_nan & (eager != compiled) & ~(np.abs(wide - compiled) <= allowed)


def difference(eager, compiled, exact):
    """What is different between two values, as a text; None: they are the same."""
    if isinstance(eager, np.ndarray) and isinstance(compiled, np.generic):
        eager = eager[()]
    dtype = dtype_of(eager)
    if dtype != dtype_of(compiled) or tuple(eager.shape) != tuple(compiled.shape):
        one, other = (f"{dtype_of(a)} of shape {tuple(a.shape)}" for a in (eager, compiled))
        return f"eager gives {one}, compiled code {other}"
    eager, compiled = as_array(eager), as_array(compiled)
    with np.errstate(all="ignore"):
        where = differing(eager, compiled, exact, dtype)
    count = int(np.count_nonzero(where))
    if count == 0 or (not exact and count <= where.size * MOST_OTHERS):
        return None
    at = tuple(int(i) for i in np.argwhere(where)[0]) if where.ndim else ()
    place = f" at {list(at)}" if at else ""
    return f"{count} of {where.size} elements differ, the first{place}: {eager[at]} in eager, {compiled[at]} compiled"
