"""A sample call for each public name of NumPy: the table of numpy_coverage.py.

SAMPLES[section][name] is a Python expression, or statements that set `r`. It may use

    x y float64 (12,)      m n float64 (4, 4), symmetric and positive definite      i j int64 (12,) from 0 to 5
    b bool (12,)           c complex128 (12,)     u uint8 (12,)     s str (3,)       d datetime64 (3,)
    t float64 (3, 4, 5)    nan float64 (12,) with NaN    f Python float    k Python int
    g Generator            folder: path of an empty folder
"""

SAMPLES = {}


def section(title):
    return SAMPLES.setdefault(title, {})


def family(into, template, names):
    """One template for many names: {} is the name."""
    for name in names.split():
        into[name] = template.replace("{}", name)


def rows(into, text):
    """`name  expression`, one a line."""
    for line in text.strip().splitlines():
        name, _, expression = line.strip().partition(" ")
        into[name] = expression.strip()


# ---- ufuncs

ufuncs = section("Universal functions")
family(
    ufuncs,
    "np.{}(x)",
    """abs absolute arctan arcsinh asinh atan cbrt ceil conj conjugate cos cosh deg2rad degrees exp exp2 expm1 fabs floor isfinite
    isinf isnan logical_not modf negative positive rad2deg radians rint sign signbit sin sinh spacing square tan tanh trunc
    frexp""",
)
family(ufuncs, "np.{}(abs(x) / 4)", "acos arccos arcsin asin arctanh atanh")
family(ufuncs, "np.{}(abs(x) + 1)", "acosh arccosh log log10 log1p log2 reciprocal sqrt")
family(
    ufuncs,
    "np.{}(x, y)",
    """add arctan2 atan2 copysign divide divmod equal float_power floor_divide fmax fmin fmod greater greater_equal heaviside
    hypot less less_equal logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum mod multiply nextafter not_equal
    remainder subtract true_divide""",
)
family(ufuncs, "np.{}(abs(x) + 1, y)", "pow power")
family(
    ufuncs,
    "np.{}(i, j)",
    """bitwise_and bitwise_or bitwise_xor gcd lcm left_shift right_shift bitwise_left_shift bitwise_right_shift""",
)
family(ufuncs, "np.{}(i)", "bitwise_not bitwise_invert invert bitwise_count")
rows(
    ufuncs,
    """
    isnat     np.isnat(d)
    ldexp     np.ldexp(x, i)
    matmul    np.matmul(m, n)
    matvec    np.matvec(m, n[0])
    vecdot    np.vecdot(x, y)
    vecmat    np.vecmat(n[0], m)
    """,
)

methods = section("Methods of universal functions")
rows(
    methods,
    """
    reduce          np.add.reduce(x)
    accumulate      np.add.accumulate(x)
    outer           np.multiply.outer(x, y)
    reduceat        np.add.reduceat(x, [0, 4, 8])
    at              np.add.at(x, i, 1.0); r = x
    resolve_dtypes  np.add.resolve_dtypes((x.dtype, y.dtype, None))
    identity        x + np.multiply.identity
    nargs           x * np.add.nargs
    nin             x * np.add.nin
    nout            x * np.add.nout
    ntypes          x * np.add.ntypes
    signature       np.add.signature is None
    types           len(np.add.types)
    """,
)

# ---- ndarray

array = section("Methods and properties of ndarray")
family(array, "x.{}()", "all any argmax argmin argsort conj conjugate copy cumprod cumsum max mean min nonzero prod std sum var")
family(array, "m.{}()", "flatten ravel squeeze transpose diagonal trace")
family(array, "x.{}", "nbytes ndim size itemsize shape strides dtype real imag base flags data ctypes flat device")
family(array, "m.{}", "T mT")
rows(
    array,
    """
    argpartition  x.argpartition(3)
    astype        x.astype(np.float32)
    byteswap      x.byteswap()
    choose        (i % 2).choose([x, y])
    clip          x.clip(-1.0, 1.0)
    compress      x.compress(b)
    dot           m.dot(n)
    dump          x.dump(folder + "/dump")
    dumps         x.dumps()
    fill          x.fill(1.0); r = x
    getfield      x.getfield(np.float64)
    item          x.item(0)
    partition     x.partition(3); r = x
    put           x.put(i, 1.0); r = x
    repeat        x.repeat(2)
    reshape       x.reshape(3, 4)
    resize        r = x * 1.0; r.resize(6, refcheck=False)
    round         x.round(1)
    searchsorted  y.searchsorted(x)
    setfield      x.setfield(1.0, np.float64); r = x
    setflags      x.setflags(write=True); r = x
    sort          x.sort(); r = x
    swapaxes      t.swapaxes(0, 2)
    take          x.take(i)
    to_device     x.to_device("cpu")
    tobytes       x.tobytes()
    tofile        x.tofile(folder + "/raw")
    tolist        x.tolist()
    view          x.view(np.int64)
    """,
)

operators = section("Operators and protocols of ndarray")
BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
for word, sign in BINARY.items():
    a, o = {"@": ("m", "n"), "**": ("x", "i")}.get(sign, ("i", "j") if sign in "& | ^ << >>".split() else ("x", "y"))
    plain = "k" if a == "i" else "f"
    operators[f"__{word}__"] = f"{a} {sign} {o}"
    operators[f"__r{word}__"] = f"{[[1.0] * 4] * 4} @ m" if sign == "@" else f"{plain} {sign} {a}"
    operators[f"__i{word}__"] = f"{a} {sign}= {o}; r = {a}"
for word, sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
    operators[f"__{word}__"] = f"x {sign} y"
rows(
    operators,
    """
    __neg__               -x
    __pos__               +x
    __abs__               abs(x)
    __invert__            ~i
    __divmod__            divmod(x, y)
    __rdivmod__           divmod(f, x)
    __getitem__           x[2:7:2]
    __setitem__           x[1:4] = y[1:4]; r = x
    __contains__          1.0 in x
    __len__               len(x)
    __iter__              [a + y for a in m[:, :1]]
    __bool__              bool(x[0] > 5)
    __float__             float(x[0])
    __int__               int(i[0])
    __index__             [5, 6, 7, 8, 9, 10][i[0]]
    __complex__           complex(x[0])
    __array__             x.__array__()
    __array_finalize__    x.view()
    __array_function__    np.mean(x)
    __array_interface__   x.__array_interface__["shape"]
    __array_namespace__   x.__array_namespace__().sum(x)
    __array_priority__    x.__array_priority__
    __array_struct__      x.__array_struct__ is None
    __array_ufunc__       np.add(x, y)
    __array_wrap__        x.__array_wrap__(y)
    __buffer__            memoryview(x).nbytes
    __class_getitem__     np.ndarray[int] is None
    __copy__              x.__copy__()
    __deepcopy__          __import__("copy").deepcopy(x)
    __dlpack__            np.from_dlpack(x)
    __dlpack_device__     x.__dlpack_device__()
    __doc__               len(np.ndarray.__doc__) > 0
    __format__            format(x[0], ".2f")
    __new__               np.ndarray((3, 4), buffer=x)
    __reduce__            x.__reduce__()[0]
    __reduce_ex__         __import__("pickle").dumps(x)
    __setstate__          __import__("pickle").loads(__import__("pickle").dumps(x))
    __repr__              repr(x)
    __str__               str(x)
    __sizeof__            x.__sizeof__()
    __release_buffer__    memoryview(x).release()
    """,
)

# ---- creation

creation = section("Creation")
family(creation, "np.{}((3, 4))", "empty ones zeros")
family(creation, "np.{}(x)", "empty_like ones_like zeros_like array asarray asanyarray ascontiguousarray asfortranarray copy")
family(creation, "np.{}(x)", "asarray_chkfinite diagflat")
family(creation, "np.{}(4)", "identity eye tri")
family(creation, "np.{}(x.size)", "bartlett blackman hamming hanning")
family(creation, "np.{}(m)", "diag tril triu tril_indices_from triu_indices_from diag_indices_from asmatrix")
family(creation, "np.{}(4)", "diag_indices tril_indices triu_indices")
rows(
    creation,
    """
    arange        np.arange(x.size)
    bmat          np.bmat([[m, n]])
    c_            np.c_[x, y]
    r_            np.r_[x, y]
    s_            x[np.s_[1:3]]
    index_exp     x[np.index_exp[1:3]]
    mgrid         np.mgrid[0:3, 0:4]
    ogrid         np.ogrid[0:3, 0:4]
    from_dlpack   np.from_dlpack(x)
    frombuffer    np.frombuffer(x)
    fromfile      np.fromfile(folder + "/x.raw")
    fromfunction  np.fromfunction(lambda p, q: p + q, (3, 4))
    fromiter      np.fromiter([1.0, 2.0], float)
    fromregex     np.fromregex(folder + "/x.txt", r"(\\d+)", [("n", int)])
    fromstring    np.fromstring("1 2 3", sep=" ")
    full          np.full((3, 4), f)
    full_like     np.full_like(x, f)
    genfromtxt    np.genfromtxt(folder + "/x.txt")
    geomspace     np.geomspace(1.0, 100.0, 5)
    indices       np.indices((3, 4))
    ix_           np.ix_([0, 1], [1, 2])
    kaiser        np.kaiser(x.size, 5.0)
    linspace      np.linspace(0.0, 1.0, 7)
    load          np.load(folder + "/x.npy")
    loadtxt       np.loadtxt(folder + "/x.txt")
    logspace      np.logspace(0.0, 2.0, 5)
    mask_indices  np.mask_indices(4, np.triu)
    meshgrid      np.meshgrid(x, y)
    require       np.require(x, requirements="C")
    vander        np.vander(x, 3)
    """,
)

# ---- shape

shape = section("Shape and joining")
family(
    shape,
    "np.{}(m)",
    """ravel transpose matrix_transpose squeeze flip fliplr flipud rot90 permute_dims diagonal atleast_1d atleast_2d
    atleast_3d""",
)
family(shape, "np.{}([x, y])", "concatenate concat stack hstack vstack dstack column_stack row_stack")
family(shape, "np.{}(m, 2)", "split array_split hsplit vsplit")
family(shape, "np.{}(m)", "shape size ndim")
rows(
    shape,
    """
    append            np.append(x, y)
    astype            np.astype(x, np.float32)
    block             np.block([[m, n], [n, m]])
    broadcast         np.broadcast(m, n[0]).shape
    broadcast_arrays  np.broadcast_arrays(m, n[0])
    broadcast_shapes  np.broadcast_shapes((3, 1), (4,))
    broadcast_to      np.broadcast_to(x, (3, 12))
    delete            np.delete(x, 2)
    dsplit            np.dsplit(t[:, :, :4], 2)
    expand_dims       np.expand_dims(x, 0)
    insert            np.insert(x, 2, 1.0)
    moveaxis          np.moveaxis(t, 0, 2)
    newaxis           x[:, np.newaxis]
    pad               np.pad(x, 2)
    repeat            np.repeat(x, 2)
    reshape           np.reshape(x, (3, 4))
    resize            np.resize(x, 20)
    roll              np.roll(x, 2)
    rollaxis          np.rollaxis(t, 2)
    swapaxes          np.swapaxes(t, 0, 2)
    tile              np.tile(x, 2)
    trim_zeros        np.trim_zeros(x)
    unstack           np.unstack(m)
    """,
)

strides = section("numpy.lib.stride_tricks")
rows(
    strides,
    """
    as_strided           np.lib.stride_tricks.as_strided(x, (5, 3), (8, 8))
    sliding_window_view  np.lib.stride_tricks.sliding_window_view(x, 3)
    """,
)

# ---- reductions and statistics

reductions = section("Reductions, scans and statistics")
family(
    reductions,
    "np.{}(x)",
    """all amax amin any argmax argmin average count_nonzero cumprod cumsum cumulative_prod cumulative_sum diff ediff1d gradient
    max mean median min prod ptp std sum trapezoid var""",
)
family(
    reductions,
    "np.{}(nan)",
    "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar nan_to_num",
)
family(reductions, "np.{}(x, 0.3)", "quantile nanquantile")
family(reductions, "np.{}(x, 30)", "percentile nanpercentile")
family(reductions, "np.{}(m)", "corrcoef cov trace")
rows(
    reductions,
    """
    bincount             np.bincount(i)
    digitize             np.digitize(x, [-1.0, 0.0, 1.0])
    histogram            np.histogram(x)
    histogram2d          np.histogram2d(x, y)
    histogram_bin_edges  np.histogram_bin_edges(x)
    histogramdd          np.histogramdd(m)
    apply_along_axis     np.apply_along_axis(np.sort, 0, m)
    apply_over_axes      np.apply_over_axes(np.sum, t, [0, 2])
    """,
)

# ---- selecting, sorting, sets

selecting = section("Selecting, sorting and sets")
family(selecting, "np.{}(x)", "argsort argwhere flatnonzero nonzero sort sort_complex")
family(selecting, "np.{}(i)", "unique unique_all unique_counts unique_inverse unique_values")
family(selecting, "np.{}(i, j)", "intersect1d isin setdiff1d setxor1d union1d")
family(selecting, "np.{}(x, 3)", "argpartition partition")
rows(
    selecting,
    """
    choose             np.choose(i % 2, [x, y])
    clip               np.clip(x, -1.0, 1.0)
    compress           np.compress(b, x)
    copyto             np.copyto(x, y); r = x
    extract            np.extract(b, x)
    fill_diagonal      np.fill_diagonal(m, 0.0); r = m
    lexsort            np.lexsort((x, i))
    piecewise          np.piecewise(x, [x < 0, x >= 0], [-1.0, 1.0])
    place              np.place(x, b, [1.0]); r = x
    put                np.put(x, i, 1.0); r = x
    put_along_axis     np.put_along_axis(x, i, 1.0, 0); r = x
    putmask            np.putmask(x, b, y); r = x
    ravel_multi_index  np.ravel_multi_index((i, j), (6, 6))
    searchsorted       np.searchsorted(y, x)
    select             np.select([x < 0, x > 1], [x, y])
    take               np.take(x, i)
    take_along_axis    np.take_along_axis(x, i, 0)
    unravel_index      np.unravel_index(i, (3, 4))
    where              np.where(b, x, y)
    """,
)

# ---- mathematics

maths = section("Other mathematics")
family(
    maths,
    "np.{}(x)",
    """angle around round fix i0 imag real iscomplex isneginf isposinf isreal sinc unwrap poly roots real_if_close""",
)
family(
    maths,
    "np.{}(x, y)",
    """convolve correlate dot inner outer vdot polyadd polymul polysub polydiv kron isclose allclose array_equal array_equiv""",
)
family(maths, "np.{}(x)", "polyder polyint")
rows(
    maths,
    """
    cross        np.cross(m[:, :3], n[:, :3])
    einsum       np.einsum("pq,qr->pr", m, n)
    einsum_path  np.einsum_path("pq,qr->pr", m, n)[0]
    interp       np.interp(x, np.arange(12.0), y)
    packbits     np.packbits(b)
    poly1d       np.poly1d([1.0, 2.0])(x)
    polyfit      np.polyfit(x, y, 2)
    polyval      np.polyval([1.0, 2.0, 3.0], x)
    tensordot    np.tensordot(m, n, 1)
    unpackbits   np.unpackbits(u)
    vectorize    np.vectorize(lambda a: a + 1.0)(x)
    frompyfunc   np.frompyfunc(lambda a: a + 1.0, 1, 1)(x)
    """,
)

# ---- types and scalars

types = section("Types and scalars")
family(
    types,
    "np.{}(2) * x",
    """bool bool_ byte double float16 float32 float64 half int16 int32 int64 int8 int_ intc intp long longlong short single ubyte
    uint uint16 uint32 uint64 uint8 uintc uintp ulong ulonglong ushort cdouble clongdouble complex128 complex256 complex64 csingle
    float128 longdouble""",
)
family(
    types,
    "np.issubdtype(x.dtype, np.{})",
    "character complexfloating flexible floating generic inexact integer number signedinteger unsignedinteger issubdtype",
)
types["issubdtype"] = "np.issubdtype(x.dtype, np.floating)"
family(types, "np.{}(x)", "common_type min_scalar_type iscomplexobj isrealobj isfortran isscalar iterable mintypecode")
rows(
    types,
    """
    bytes_         np.bytes_(b"ab")
    can_cast       np.can_cast(x.dtype, np.int64)
    datetime64     np.datetime64("2020-01-01") - d
    timedelta64    d + np.timedelta64(1, "D")
    dtype          np.dtype(np.float32).itemsize * x
    finfo          np.finfo(x.dtype).eps * x
    iinfo          np.iinfo(i.dtype).max - i
    isdtype        np.isdtype(x.dtype, "real floating")
    mintypecode    np.mintypecode("fd")
    object_        np.object_(2) * x
    promote_types  np.promote_types(x.dtype, i.dtype)
    result_type    np.result_type(x, i)
    sctypeDict     np.sctypeDict["float64"](2) * x
    str_           np.str_("ab")
    typecodes      np.typecodes["Float"]
    typename       np.typename("d")
    void           np.void(b"ab")
    ScalarType     np.ScalarType[0]
    datetime_data  np.datetime_data(d.dtype)
    """,
)

# ---- constants, modules, settings

others = section("Constants, settings, text, files, iteration")
family(others, "x * np.{}", "e euler_gamma inf nan pi")
family(others, "np.{}", "False_ True_ little_endian __version__")
family(
    others,
    "np.{} is None",
    """char core ctypeslib dtypes emath exceptions f2py fft lib linalg ma polynomial random rec strings testing typing test""",
)
family(
    others,
    "np.{}()",
    """get_include show_config show_runtime __array_namespace_info__ get_printoptions getbufsize geterr geterrcall""",
)
family(others, "np.{}(x)", "array2string array_repr array_str recarray memmap matrix ndenumerate")
family(others, "np.{}(x, y)", "may_share_memory shares_memory")
rows(
    others,
    """
    array2string             np.array2string(x)
    base_repr                np.base_repr(5)
    binary_repr              np.binary_repr(5)
    busday_count             np.busday_count("2020-01-01", "2020-02-01")
    busday_offset            np.busday_offset("2020-01-01", 3)
    busdaycalendar           np.busdaycalendar().weekmask
    info                     np.info(np.add)
    is_busday                np.is_busday(d)
    datetime_as_string       np.datetime_as_string(d)
    errstate                 with np.errstate(all="ignore"): r = x / y
    flatiter                 np.sum(x.flat[2:4])
    format_float_positional  np.format_float_positional(f)
    format_float_scientific  np.format_float_scientific(f)
    matrix                   np.matrix(m) * 2
    memmap                   np.memmap(folder + "/x.raw") + 1
    ndarray                  np.ndarray((3, 4), buffer=x)
    ndenumerate              [v for _, v in np.ndenumerate(x)]
    ndindex                  [p for p in np.ndindex(2, 2)]
    nditer                   [float(v) for v in np.nditer(x)]
    nested_iters             len(np.nested_iters(m, [[0], [1]]))
    printoptions             with np.printoptions(precision=3): r = str(x)
    recarray                 np.recarray((2,), dtype=[("a", int)]).shape
    record                   np.zeros(2, dtype=[("a", int)]).view(np.recarray)[0].a
    save                     np.save(folder + "/a.npy", x)
    savetxt                  np.savetxt(folder + "/a.txt", x)
    savez                    np.savez(folder + "/a.npz", x)
    savez_compressed         np.savez_compressed(folder + "/a.npz", x)
    set_printoptions         np.set_printoptions(precision=8)
    setbufsize               np.setbufsize(8192)
    seterr                   np.seterr()
    seterrcall               np.seterrcall(None)
    ufunc                    isinstance(np.add, np.ufunc)
    """,
)

# ---- submodules

linalg = section("numpy.linalg")
family(
    linalg,
    "np.linalg.{}(m)",
    """cholesky cond det diagonal eig eigh eigvals eigvalsh inv matrix_norm matrix_rank matrix_transpose""",
)
family(linalg, "np.linalg.{}(m)", "norm pinv qr slogdet svd svdvals trace vector_norm")
family(linalg, "np.linalg.{}(m, n)", "matmul solve tensordot vecdot")
rows(
    linalg,
    """
    LinAlgError   np.linalg.LinAlgError is None
    cross         np.linalg.cross(m[:, :3], n[:, :3])
    lstsq         np.linalg.lstsq(m, n[0])
    matrix_power  np.linalg.matrix_power(m, 3)
    multi_dot     np.linalg.multi_dot([m, n, m])
    outer         np.linalg.outer(x, y)
    tensorinv     np.linalg.tensorinv(m, 1)
    tensorsolve   np.linalg.tensorsolve(m, n[0])
    test          np.linalg.test is None
    """,
)

fft = section("numpy.fft")
family(fft, "np.fft.{}(x)", "fft fftshift hfft ifft ifftshift ihfft irfft rfft")
family(fft, "np.fft.{}(m)", "fft2 fftn ifft2 ifftn irfft2 irfftn rfft2 rfftn")
family(fft, "np.fft.{}(x.size)", "fftfreq rfftfreq")
fft["test"] = "np.fft.test is None"

random = section("numpy.random.Generator")
family(
    random,
    "g.{}(size=5)",
    """random normal uniform standard_normal standard_exponential standard_cauchy exponential gumbel laplace logistic
    lognormal poisson rayleigh""",
)
family(random, "g.{}(2.0, size=5)", "chisquare pareto power standard_gamma standard_t weibull zipf gamma")
family(random, "g.{}(0.5, size=5)", "geometric logseries")
family(random, "g.{}(2.0, 3.0, size=5)", "beta f noncentral_chisquare vonmises wald")
family(random, "g.{}(x)", "permutation permuted")
rows(
    random,
    """
    binomial                 g.binomial(5, 0.5, size=5)
    bit_generator            g.bit_generator.state["bit_generator"]
    bytes                    g.bytes(4)
    choice                   g.choice(x, 5)
    dirichlet                g.dirichlet([1.0, 2.0])
    hypergeometric           g.hypergeometric(5, 5, 3, size=5)
    integers                 g.integers(0, 9, size=5)
    multinomial              g.multinomial(5, [0.5, 0.5])
    multivariate_hypergeometric  g.multivariate_hypergeometric([3, 4], 2)
    multivariate_normal      g.multivariate_normal([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    negative_binomial        g.negative_binomial(5, 0.5, size=5)
    noncentral_f             g.noncentral_f(2.0, 3.0, 1.0, size=5)
    shuffle                  g.shuffle(x); r = x
    spawn                    len(g.spawn(2))
    triangular               g.triangular(0.0, 1.0, 2.0, size=5)
    """,
)

polynomial = section("numpy.polynomial")
family(
    polynomial,
    "np.polynomial.{}([1.0, 2.0, 3.0])(x)",
    "Chebyshev Hermite HermiteE Laguerre Legendre Polynomial",
)
for module, short in {"chebyshev": "cheb", "hermite": "herm", "hermite_e": "herme", "laguerre": "lag", "legendre": "leg"}.items():
    polynomial[module] = f"np.polynomial.{module}.{short}val(x, [1.0, 2.0, 3.0])"
rows(
    polynomial,
    """
    polynomial             np.polynomial.polynomial.polyval(x, [1.0, 2.0, 3.0])
    polyutils              np.polynomial.polyutils.trimseq([1.0, 2.0, 0.0])
    set_default_printstyle np.polynomial.set_default_printstyle("unicode")
    test                   np.polynomial.test is None
    """,
)
