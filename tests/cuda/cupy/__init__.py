"""What tests of CuPy's arrays have where there is no device: the part of CuPy's surface that dynoc looks at, on NumPy's arrays in
this machine's memory, which tests/cuda/stand_in.c's kernels read and write. What CuPy does otherwise than NumPy is done so here:
results of reductions and items are arrays, those of operators lie in C order, an operand of NumPy's is an error, there are no
warnings."""

import functools

import numpy as _np

float32, float64, int32, int64, bool_ = _np.float32, _np.float64, _np.int32, _np.int64, _np.bool_


class _Pointer:
    def __init__(self, memory, offset=0):
        self.mem, self.offset, self.device_id = memory, offset, 0

    @property
    def ptr(self):
        return self.mem.ctypes.data + self.offset

    def __add__(self, offset):
        return _Pointer(self.mem, self.offset + offset)


class _Cuda:
    @staticmethod
    def alloc(size):
        return _Pointer(_np.zeros(size + 16, _np.uint8))

    @staticmethod
    def get_current_stream():
        raise AssertionError("the stand-in has no streams")


cuda = _Cuda()


class ndarray:
    __slots__ = ("_a", "_pointer")
    __array_priority__ = 100

    def __new__(cls, shape, dtype=float, memptr=None, strides=None, order="C"):
        self = object.__new__(cls)
        dtype = _np.dtype(dtype)
        if memptr is None:
            memptr = cuda.alloc(int(_np.prod(shape)) * dtype.itemsize)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        base = memptr.mem if memptr.mem.base is None else memptr.mem.base
        offset = memptr.ptr - base.ctypes.data
        self._a = _np.ndarray(shape, dtype, base, offset, strides, order)
        self._pointer = memptr
        return self

    data = property(lambda self: self._pointer)
    shape = property(lambda self: self._a.shape)
    strides = property(lambda self: self._a.strides)
    dtype = property(lambda self: self._a.dtype)
    ndim = property(lambda self: self._a.ndim)
    size = property(lambda self: self._a.size)
    nbytes = property(lambda self: self._a.nbytes)
    T = property(lambda self: _view(self, self._a.T))

    def __len__(self):
        return len(self._a)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index):
        index = _plain(index)
        got = self._a[index]
        parts = index if isinstance(index, tuple) else (index,)
        basic = not [i for i in parts if isinstance(i, (list, _np.ndarray))]
        if basic:
            got = self._a[(*index, ...) if isinstance(index, tuple) and ... not in index else got is None or (index, ...)] if (
                not isinstance(got, _np.ndarray)
            ) else got
            return _view(self, got)
        return _own(got)

    def __setitem__(self, index, value):
        self._a[_plain(index)] = _checked(value)

    def get(self):
        return self._a.copy()

    def item(self):
        return self._a.item()

    def __float__(self):
        return float(self._a)

    def __int__(self):
        return int(self._a)

    def __bool__(self):
        return bool(self._a)

    def copy(self, order="C"):
        return _own(self._a.copy(order))

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        return self if not copy and self.dtype == dtype else _own(self._a.astype(dtype, order))

    def reshape(self, *shape, order="C"):
        new = self._a.reshape(*shape, order=order)
        return _view(self, new) if _np.shares_memory(new, self._a) else _own(new)

    def ravel(self, order="C"):
        return self.reshape(-1)

    def flatten(self, order="C"):
        return _own(self._a.flatten(order))

    def transpose(self, *axes):
        return _view(self, self._a.transpose(*axes))

    def squeeze(self, axis=None):
        return _view(self, self._a.squeeze(axis))

    def swapaxes(self, axis1, axis2):
        return _view(self, self._a.swapaxes(axis1, axis2))

    def __pos__(self):
        return positive(self)

    def __neg__(self):
        return negative(self)

    def __abs__(self):
        return absolute(self)

    def __invert__(self):
        return invert(self)

    def __matmul__(self, other):
        return _own(_np.matmul(self._a, _checked(other)))

    def __array_ufunc__(self, f, method, *args, **kwargs):
        assert method == "__call__", method
        return globals()[f.__name__](*args, **kwargs)

    def __array_function__(self, f, types, args, kwargs):
        return globals()[f.__name__](*args, **kwargs)


def _own(array):
    """An array of its own with these elements, and their order."""
    array = _np.asarray(array)
    memory = cuda.alloc(array.nbytes)
    new = ndarray(array.shape, array.dtype, memory, array.strides if array.size and not _is_odd(array) else None)
    new._a[...] = array
    return new


def _is_odd(array):
    return bool(array.strides) and sorted(array.strides)[0] <= 0 or not (array.flags.c_contiguous or array.flags.f_contiguous)


def _view(base, array):
    offset = array.ctypes.data - base._a.ctypes.data if array.size else 0
    return ndarray(array.shape, array.dtype, base._pointer + offset, array.strides)


def _plain(x):
    if isinstance(x, tuple):
        return tuple(_plain(i) for i in x)
    return x._a if isinstance(x, ndarray) else x


def _checked(x):
    if isinstance(x, _np.ndarray):
        raise TypeError(f"Unsupported type {type(x)}")
    return x._a if isinstance(x, ndarray) else x


class ufunc:
    def __init__(self, f):
        self.f, self.name, self.__name__ = f, "cupy_" + f.__name__, f.__name__

    def __call__(self, *args, out=None, dtype=None, casting="same_kind"):
        with _np.errstate(all="ignore"):
            got = self.f(*(_checked(a) for a in args), dtype=dtype) if dtype else self.f(*(_checked(a) for a in args))
        if isinstance(got, tuple):
            return tuple(_own(_np.ascontiguousarray(g).reshape(_np.shape(g))) for g in got)
        if out is None:
            return _own(_np.asarray(got).copy("C"))
        out._a[...] = got
        return out


for _name in dir(_np):
    if isinstance(getattr(_np, _name), _np.ufunc) and _name not in ("matmul", "vecdot", "matvec", "vecmat"):
        globals()[_name] = ufunc(getattr(_np, _name))

_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
_COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
for _short, _name in {**_OPERATORS, **_COMPARISONS}.items():
    setattr(ndarray, f"__{_short}__", lambda a, b, f=globals()[_name]: f(a, b))
    if _short in _OPERATORS:
        setattr(ndarray, f"__r{_short}__", lambda a, b, f=globals()[_name]: f(b, a))
        setattr(ndarray, f"__i{_short}__", lambda a, b, f=globals()[_name]: f(a, b, out=a))
ndarray.__hash__ = None


def _reduction(name, *keywords):
    f = getattr(_np, name)

    def reduction(a, axis=None, dtype=None, out=None, keepdims=False, **more):
        given = {} if dtype is None else {"dtype": dtype}
        with _np.errstate(all="ignore"):
            got = _own(_np.asarray(f(a._a, axis=axis, keepdims=keepdims, **given, **more)))
        if out is None:
            return got
        out._a[...] = got._a
        return out

    reduction.__name__ = name
    return reduction


for _name in ("sum", "prod", "mean", "var", "std", "max", "min", "amax", "amin", "any", "all"):
    globals()[_name] = _reduction(_name)
    if _name not in ("amax", "amin"):
        setattr(ndarray, _name, _reduction(_name))


def _function(name, as_view=False):
    f = getattr(_np, name)

    @functools.wraps(f)
    def function(*args, **kwargs):
        got = f(*(_listed(a) for a in args), **{k: _listed(v) for k, v in kwargs.items()})
        return _view(args[0], got) if as_view and _np.shares_memory(got, args[0]._a) else _own(got)

    return function


def _listed(x):
    return [_checked(i) for i in x] if isinstance(x, (list, tuple)) and [i for i in x if isinstance(i, ndarray)] else _plain(x)


for _name in ("where", "clip", "concatenate", "stack", "sort", "argsort", "cumsum", "argmax", "dot", "zeros", "ones", "empty",
              "full", "zeros_like", "ones_like", "full_like", "arange", "linspace", "eye", "matmul", "outer"):  # fmt: skip
    globals()[_name] = _function(_name)
for _name in ("reshape", "transpose", "squeeze", "expand_dims", "swapaxes", "broadcast_to", "flip"):
    globals()[_name] = _function(_name, as_view=True)
for _name in ("argmax", "cumsum", "dot", "clip"):
    setattr(ndarray, _name, lambda self, *args, f=globals()[_name], **kwargs: f(self, *args, **kwargs))


def asarray(x, dtype=None):
    return x if isinstance(x, ndarray) and dtype in (None, x.dtype) else _own(_np.asarray(_plain(x), dtype))


array = asarray


def asnumpy(x):
    return x.get()


class random:
    _state = _np.random.RandomState(0)

    def seed(seed):
        random._state.seed(seed)

    def rand(*shape, dtype=float):
        return _own(random._state.rand(*shape).astype(dtype))

    def normal(loc=0.0, scale=1.0, size=None, dtype=float):
        return _own(_np.asarray(random._state.normal(loc, scale, size)).astype(dtype))


class ElementwiseKernel:
    """Of the tests' own: the operation is Python's text on whole arrays."""

    def __init__(self, inputs, outputs, operation, name="kernel"):
        self.names = [part.split()[1] for part in inputs.split(",")]
        self.operation = operation

    def __call__(self, *args):
        return _own(eval(self.operation, {}, dict(zip(self.names, map(_checked, args), strict=True))))


class RawKernel:
    """Of the tests' own: a Python function on the arrays themselves."""

    def __init__(self, f):
        self.f = f

    def __call__(self, grid, block, args):
        self.f(*(_plain(a) for a in args))


def show_config():
    """The last name, which tells that the module is whole."""
