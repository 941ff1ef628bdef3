/* arrays.c: dynoc's element types, memory layouts and new arrays. The one file that imports NumPy's C API.
 *
 * A program that hasn't imported NumPy has no arrays, and its loops may become native all the same. So NumPy's tables are ours
 * at first (dyn_arrays_init): their types are those of no object, and their functions refuse. NumPy's own take their place when
 * the program has imported it (dyn_arrays_load).
 *
 * Both are called by the module; the recorder asks for layouts and dtypes, the artifact for new arrays. Owns nothing. */
#define DYN_IMPORTS_ARRAY_API
#include "base/arrays.h"
#include "base/cpy.h"
#include "base/pool.h"
#include "base/scalar.h"
#include "base/tensors.h"
#include <math.h>

const DynDtypeInfo dyn_dtypes[DYN_DTYPE_COUNT] = {
#define DTYPE(name, npy, text, kind, size, ctype) [DYN_##name] = {text, ctype, npy, size, kind},
#include "base/dtype.def"
#undef DTYPE
};

/* ---- memory of new arrays: NumPy's own way (NEP 49) to say whose it is */

#define TRACE_DOMAIN 389047 /* under which NumPy reports its memory to tracemalloc */

static void *pool_malloc(void *ctx, size_t size) { return dyn_pool_take(size); }
static void pool_free(void *ctx, void *data, size_t size) { dyn_pool_give(data); }

static void *pool_calloc(void *ctx, size_t n, size_t size) {
    size_t bytes;
    void *data = __builtin_mul_overflow(n, size, &bytes) ? NULL : dyn_pool_take(bytes);
    return data == NULL ? NULL : memset(data, 0, bytes);
}

static void *pool_realloc(void *ctx, void *data, size_t size) { /* ndarray.resize */
    size_t room = data == NULL ? 0 : dyn_pool_room(data);
    if (size <= room && room / 2 <= size) {
        return data;
    }
    void *to = dyn_pool_take(size);
    if (to == NULL) {
        return NULL;
    }
    memcpy(to, data, size < room ? size : room);
    dyn_pool_give(data);
    return to;
}

static PyDataMem_Handler handler = {
    .name = "dynoc_pool", .version = 1, .allocator = {NULL, pool_malloc, pool_calloc, pool_realloc, pool_free}};
static PyObject *handler_capsule;

#define NUMBERS 32 /* NumPy's own types have lower numbers */
static uint8_t by_number[NUMBERS];

static void number_dtypes(void) {
    memset(by_number, DYN_NO_DTYPE, sizeof(by_number));
    for (int i = DYN_DTYPE_COUNT; i-- > 0;) { /* U16 in place of BF16 */
        by_number[dyn_dtypes[i].npy] = (uint8_t)i;
    }
}

/* ---- NumPy's tables */

#define FUNCTIONS 512 /* more than any version of NumPy has */

static PyTypeObject nothing = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc.nothing",
    .tp_doc = "Stands for each of NumPy's types while NumPy isn't there: no object is of it.",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};
static void *none_of_arrays[FUNCTIONS], *none_of_ufuncs[FUNCTIONS];
static bool loaded;

/* In place of any of NumPy's functions. */
static void *refuse(void) {
    PyErr_SetString(PyExc_ImportError, "dynoc: the program hasn't imported NumPy");
    return NULL;
}

static void fill_tables(void) {
    /* Where NumPy's ABI has types, not functions. */
    static const struct { int from, to; } types[] = {{2, 39}, {214, 218}};
    void *function;
    void *(*refuses)(void) = refuse;
    memcpy(&function, &refuses, sizeof(function));
    for (int i = 0; i < FUNCTIONS; i++) {
        none_of_arrays[i] = none_of_ufuncs[i] = function;
    }
    for (size_t k = 0; k < DYN_COUNTOF(types); k++) {
        for (int i = types[k].from; i <= types[k].to; i++) {
            none_of_arrays[i] = &nothing;
        }
    }
    none_of_ufuncs[0] = &nothing;
}

void dyn_arrays_leave(void) {
    loaded = false;
    dyn_import_refuse("numpy");
    PyArray_API = none_of_arrays;
    PyUFunc_API = none_of_ufuncs;
}

bool dyn_arrays_loaded(void) { return loaded; }

int dyn_arrays_init(void) {
    number_dtypes();
    fill_tables();
    dyn_arrays_leave();
    return PyType_Ready(&nothing);
}

int dyn_arrays_load(void) {
    if (handler_capsule == NULL && (handler_capsule = PyCapsule_New(&handler, "mem_handler", NULL)) == NULL) {
        return -1;
    }
    loaded = _import_array() == 0 && _import_umath() == 0;
    if (!loaded) {
        dyn_arrays_leave(); /* of a NumPy that doesn't fit nothing is used */
    } else {
        dyn_import_refuse(NULL);
    }
    return loaded ? 0 : -1;
}

DynDtype dyn_dtype_of(PyArray_Descr *descr) {
    /* A descriptor with metadata hands it on to results, which new arrays of ours don't have; so does one with fields, which an
     * integer can have. */
    bool plain = PyDataType_METADATA(descr) == NULL && PyDataType_NAMES(descr) == NULL && PyArray_ISNBO(descr->byteorder);
    return plain && (unsigned)descr->type_num < NUMBERS ? (DynDtype)by_number[descr->type_num] : DYN_NO_DTYPE;
}

DynDtype dyn_dtype_parse(const char *name) {
    for (int i = 0; i < DYN_DTYPE_COUNT; i++) {
        if (strcmp(dyn_dtypes[i].name, name) == 0) {
            return (DynDtype)i;
        }
    }
    return DYN_NO_DTYPE;
}

/* ---- where elements lie */

bool dyn_array_is(PyObject *o) { return PyArray_CheckExact(o) || dyn_tensor_is(o); }

bool dyn_array_view(PyObject *o, DynArrayView *out) { return dyn_array_look(o, out) && out->device == 0; }

bool dyn_array_look(PyObject *o, DynArrayView *out) {
    if (!PyArray_CheckExact(o)) {
        return dyn_tensor_is(o) && dyn_tensor_look(o, out);
    }
    PyArrayObject *a = (PyArrayObject *)o;
    DynDtype dt = dyn_dtype_of(PyArray_DESCR(a));
    int ndim = PyArray_NDIM(a);
    if (dt == DYN_NO_DTYPE || ndim > DYN_MAX_NDIM) {
        return false;
    }
    out->data = PyArray_BYTES(a);
    out->ndim = (uint8_t)ndim;
    out->dtype = (uint8_t)dt;
    out->device = 0;
    out->aligned = PyArray_ISALIGNED(a);
    out->writeable = PyArray_ISWRITEABLE(a);
    for (int i = 0; i < ndim; i++) {
        out->dims[i] = PyArray_DIM(a, i);
        out->strides[i] = PyArray_STRIDE(a, i);
    }
    return true;
}

/* The bytes that elements may lie in: [low, high). */
static void extent(const DynArrayView *v, char **low, char **high) {
    *low = *high = v->data;
    if (dyn_view_empty(v)) {
        return;
    }
    *high += dyn_dtypes[v->dtype].size;
    for (int i = 0; i < v->ndim; i++) {
        *(v->strides[i] < 0 ? low : high) += (v->dims[i] - 1) * v->strides[i];
    }
}

bool dyn_views_overlap(const DynArrayView *v, const DynArrayView *w) {
    char *low_v, *high_v, *low_w, *high_w;
    extent(v, &low_v, &high_v);
    extent(w, &low_w, &high_w);
    bool both_have_bytes = low_v < high_v && low_w < high_w && v->device == w->device;
    return both_have_bytes && low_v < high_w && low_w < high_v;
}

static bool is_c_contiguous(const DynArrayView *v) { /* as NumPy sees it: axes of one element have no stride */
    int64_t step = dyn_dtypes[v->dtype].size;
    bool fits = true;
    for (int i = v->ndim; i-- > 0;) {
        if (v->dims[i] == 0) {
            return true;
        }
        fits = fits && (v->dims[i] == 1 || v->strides[i] == step);
        step *= v->dims[i];
    }
    return fits;
}

/* |stride| as NumPy's iterator sees it: an axis of size 1 has none, and (like a broadcast axis) no say in the order. */
static int64_t weight(const DynArrayView *v, int axis) {
    int64_t stride = v->dims[axis] == 1 ? 0 : v->strides[axis];
    return stride < 0 ? -stride : stride;
}

/* The order in which NumPy's iterator would keep the axes (order='K'): an insertion sort from the innermost axis out in which
 * a pair with a weightless axis is left as it stands. `inner` is innermost first. */
static void sort_axes(const DynArrayView *v, int *inner) {
    for (int i = 0; i < v->ndim; i++) {
        inner[i] = v->ndim - 1 - i;
    }
    for (int i = 1; i < v->ndim; i++) {
        int axis = inner[i], to = i;
        int64_t mine = weight(v, axis);
        for (int j = i - 1; j >= 0 && mine != 0; j--) {
            int64_t other = weight(v, inner[j]);
            if (other == 0) {
                continue;
            }
            if (other <= mine) {
                break;
            }
            to = j;
        }
        for (int j = i; j > to; j--) {
            inner[j] = inner[j - 1];
        }
        inner[to] = axis;
    }
}

/* May an element share bytes with another one? Not where each axis steps over all that the axes within it reach. */
static bool is_folded(const DynArrayView *v, const int *inner) {
    int64_t reach = dyn_dtypes[v->dtype].size;
    for (int i = 0; i < v->ndim; i++) {
        int64_t step = weight(v, inner[i]);
        if (step != 0 && step < reach) {
            return true;
        }
        reach += step * (v->dims[inner[i]] - 1);
    }
    return false;
}

void dyn_layout_of(const DynArrayView *v, DynLayout *out) {
    int inner[DYN_MAX_NDIM];
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < DYN_MAX_NDIM; i++) {
        out->perm[i] = (uint8_t)i;
    }
    if (is_c_contiguous(v)) {
        return;
    }
    out->kind = DYN_LAYOUT_STRIDED;
    sort_axes(v, inner);
    out->folded = is_folded(v, inner);
    for (int i = 0; i < v->ndim; i++) {
        out->perm[i] = (uint8_t)inner[v->ndim - 1 - i];
        if (v->strides[i] == 0 && v->dims[i] != 1) {
            out->still |= (uint8_t)(1u << i);
        }
    }
}

bool dyn_layout_same(const DynLayout *a, const DynLayout *b, int ndim) {
    return a->kind == b->kind && a->still == b->still && a->folded == b->folded &&
           memcmp(a->perm, b->perm, (size_t)(ndim < DYN_MAX_NDIM ? ndim : DYN_MAX_NDIM)) == 0;
}

bool dyn_layout_fits(const DynLayout *l, const DynArrayView *v) {
    DynLayout layout;
    dyn_layout_of(v, &layout);
    return dyn_layout_same(&layout, l, v->ndim);
}

bool dyn_layout_is_dense(const DynLayout *l, const DynArrayView *v) {
    int64_t strides[DYN_MAX_NDIM];
    bool dense = dyn_layout_dense(l, (DynDtype)v->dtype, v->ndim, v->dims, strides);
    for (int i = 0; i < v->ndim && dense; i++) {
        dense = v->dims[i] == 1 || v->strides[i] == strides[i];
    }
    return dense || dyn_view_empty(v);
}

bool dyn_layout_dense(const DynLayout *l, DynDtype dt, int ndim, const int64_t *dims, int64_t *strides) {
    int64_t step = dyn_dtypes[dt].size;
    for (int i = ndim; i-- > 0;) {
        int axis = l == NULL ? i : l->perm[i];
        strides[axis] = step;
        if (dims[axis] != 0 && __builtin_mul_overflow(step, dims[axis], &step)) {
            return false;
        }
    }
    return true;
}

/* Has the program no memory handler of its own? */
static bool is_plain_memory(void) {
    PyObject *current = PyDataMem_GetHandler();
    bool plain = current == PyDataMem_DefaultHandler;
    if (current == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(current);
    return plain;
}

PyObject *dyn_arrays_lend_pool(void) {
    PyObject *before = is_plain_memory() ? PyDataMem_SetHandler(handler_capsule) : NULL;
    if (before == NULL) {
        PyErr_Clear();
    }
    return before;
}

void dyn_arrays_own(PyObject *before) {
    PyObject *pool = PyDataMem_SetHandler(before);
    if (pool == NULL) { /* memory is out; the pool's arrays are as good */
        PyErr_Clear();
    }
    Py_XDECREF(pool);
    Py_DECREF(before);
}

/* A large array over memory of the pool, which it owns as any array owns its own. */
static PyObject *array_of_pool(PyArray_Descr *descr, int ndim, npy_intp *shape, npy_intp *strides, void *data, size_t bytes) {
    PyObject *a =
        PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, strides, data, NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED, NULL);
    if (a == NULL) {
        dyn_pool_give(data);
        return NULL;
    }
    PyArrayObject_fields *fields = (PyArrayObject_fields *)a;
    fields->flags |= NPY_ARRAY_OWNDATA;
    fields->mem_handler = Py_NewRef(handler_capsule);
    PyTraceMalloc_Track(TRACE_DOMAIN, (uintptr_t)data, bytes);
    return a;
}

PyObject *dyn_array_new(DynDtype dt, int ndim, const int64_t *dims, const DynLayout *layout) {
    npy_intp shape[DYN_MAX_NDIM];
    int64_t strides[DYN_MAX_NDIM];
    if (ndim < 0 || ndim > DYN_MAX_NDIM) {
        PyErr_Format(PyExc_SystemError, "dynoc: no array of rank %d", ndim);
        return NULL;
    }
    bool ordered = layout != NULL && layout->kind != DYN_LAYOUT_C && ndim > 1, fits = true;
    size_t bytes = dyn_dtypes[dt].size;
    for (int i = 0; i < ndim; i++) {
        shape[i] = (npy_intp)dims[i];
        fits = fits && dims[i] >= 0 && !__builtin_mul_overflow(bytes, (size_t)dims[i], &bytes);
    }
    ordered = ordered && dyn_layout_dense(layout, dt, ndim, dims, strides); /* NumPy refuses others with its own words */
    PyArray_Descr *descr = PyArray_DescrFromType(dyn_dtypes[dt].npy);
    if (descr == NULL) {
        return NULL;
    }
    bool large = fits && bytes >= DYN_POOL_LEAST && bytes <= PY_SSIZE_T_MAX;
    void *data = large && is_plain_memory() ? dyn_pool_take(bytes) : NULL;
    if (data != NULL) {
        return array_of_pool(descr, ndim, shape, ordered ? (npy_intp *)strides : NULL, data, bytes);
    }
    return PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, ordered ? (npy_intp *)strides : NULL, NULL, 0, NULL);
}

PyObject *dyn_array_blank(DynDtype dt, int ndim) {
    static char nowhere[16];
    npy_intp dims[DYN_MAX_NDIM] = {0};
    return PyArray_NewFromDescr(&PyArray_Type, PyArray_DescrFromType(dyn_dtypes[dt].npy), ndim, dims, NULL, nowhere, 0, NULL);
}

void dyn_array_lay(PyArrayObject *a, PyObject *owner, const DynArrayView *v, bool writeable) {
    ((PyArrayObject_fields *)a)->data = v->data;
    for (int k = 0; k < v->ndim; k++) {
        PyArray_DIMS(a)[k] = v->dims[k];
        PyArray_STRIDES(a)[k] = v->strides[k];
    }
    if (writeable) {
        PyArray_ENABLEFLAGS(a, NPY_ARRAY_WRITEABLE);
    }
    /* This can only fail where there is a base already: it allocates nothing. */
    if (PyArray_SetBaseObject(a, Py_NewRef(owner)) < 0) {
        PyErr_Clear();
    }
    PyArray_UpdateFlags(a, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED);
}

PyObject *dyn_array_over(PyObject *owner, const DynArrayView *v, bool writeable) {
    PyObject *a = dyn_array_blank((DynDtype)v->dtype, v->ndim);
    if (a != NULL) {
        dyn_array_lay((PyArrayObject *)a, owner, v, writeable);
    }
    return a;
}

PyObject *dyn_array_turned(DynDtype dt, int ndim, const int64_t *dims, const DynLayout *layout) {
    int64_t lain[DYN_MAX_NDIM];
    npy_intp back[DYN_MAX_NDIM];
    for (int i = 0; i < ndim; i++) {
        lain[i] = dims[layout->perm[i]];
        back[layout->perm[i]] = i;
    }
    PyObject *owner = dyn_array_new(dt, ndim, lain, NULL);
    PyArray_Dims order = {back, ndim};
    PyObject *view = owner == NULL ? NULL : PyArray_Transpose((PyArrayObject *)owner, &order);
    Py_XDECREF(owner); /* the view has it */
    return view;
}

static double half_value(uint16_t h) {
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double x;
    if (exponent == 31) {
        x = fraction ? NAN : HUGE_VAL;
    } else if (exponent == 0) { /* subnormal: no leading one */
        x = ldexp(fraction, -24);
    } else {
        x = ldexp(fraction + 1024, exponent - 25);
    }
    return h >> 15 ? -x : x;
}

static double complex_part(PyObject *o, bool imag) {
    if (Py_IS_TYPE(o, &PyCFloatArrType_Type)) {
        npy_cfloat z = PyArrayScalar_VAL(o, CFloat);
        return imag ? (double)npy_cimagf(z) : (double)npy_crealf(z);
    }
    return imag ? PyComplex_ImagAsDouble(o) : PyComplex_RealAsDouble(o); /* NumPy's complex128 is one of Python's */
}

void dyn_npscalar_value(PyObject *o, int how, DynScalar *out) {
    switch (how) {
    case DYN_READ_REAL: out->f = complex_part(o, false); break;
    case DYN_READ_IMAG: out->f = complex_part(o, true); break;
    case DYN_BOOL: out->i = PyArrayScalar_VAL(o, Bool); break;
    case DYN_I8: out->i = PyArrayScalar_VAL(o, Byte); break;
    case DYN_I16: out->i = PyArrayScalar_VAL(o, Short); break;
    case DYN_I32: out->i = PyArrayScalar_VAL(o, Int); break;
    case DYN_U8: out->i = PyArrayScalar_VAL(o, UByte); break;
    case DYN_U16: out->i = PyArrayScalar_VAL(o, UShort); break;
    case DYN_U32: out->i = PyArrayScalar_VAL(o, UInt); break;
    case DYN_F16: out->f = half_value(PyArrayScalar_VAL(o, Half)); break;
    case DYN_F32: out->f = (double)PyArrayScalar_VAL(o, Float); break;
    case DYN_F64: out->f = PyArrayScalar_VAL(o, Double); break;
    default: out->i = PyArrayScalar_VAL(o, Long); break;
    }
}

PyObject *dyn_npscalar_new(DynDtype dt, DynScalar value) {
    union {
        npy_bool b;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
    } bits;
    switch (dt) {
    case DYN_BOOL: bits.b = value.i != 0; break;
    case DYN_I8:
    case DYN_U8: bits.i8 = (int8_t)value.i; break;
    case DYN_I16:
    case DYN_U16: bits.i16 = (int16_t)value.i; break;
    case DYN_I32:
    case DYN_U32: bits.i32 = (int32_t)value.i; break;
    case DYN_F32: bits.f32 = (float)value.f; break;
    case DYN_F64: bits.f64 = value.f; break;
    default: bits.i64 = value.i; break;
    }
    PyArray_Descr *descr = PyArray_DescrFromType(dyn_dtypes[dt].npy);
    PyObject *o = descr == NULL ? NULL : PyArray_Scalar(&bits, descr, NULL);
    Py_XDECREF(descr);
    return o;
}

void dyn_npscalar_set(PyObject *o, DynDtype dt, DynScalar value) {
    switch (dt) {
    case DYN_I8: PyArrayScalar_VAL(o, Byte) = (npy_byte)value.i; break;
    case DYN_I16: PyArrayScalar_VAL(o, Short) = (npy_short)value.i; break;
    case DYN_I32: PyArrayScalar_VAL(o, Int) = (npy_int)value.i; break;
    case DYN_U8: PyArrayScalar_VAL(o, UByte) = (npy_ubyte)value.i; break;
    case DYN_U16: PyArrayScalar_VAL(o, UShort) = (npy_ushort)value.i; break;
    case DYN_U32: PyArrayScalar_VAL(o, UInt) = (npy_uint)value.i; break;
    case DYN_F32: PyArrayScalar_VAL(o, Float) = (npy_float)value.f; break;
    case DYN_F64: PyArrayScalar_VAL(o, Double) = value.f; break;
    default: PyArrayScalar_VAL(o, Long) = value.i; break;
    }
}

bool dyn_npscalar_is(PyObject *o, int how) {
    switch (how) {
    case DYN_READ_REAL:
    case DYN_READ_IMAG:
        return PyComplex_CheckExact(o) || Py_IS_TYPE(o, &PyCDoubleArrType_Type) || Py_IS_TYPE(o, &PyCFloatArrType_Type);
    case DYN_BOOL: return Py_IS_TYPE(o, &PyBoolArrType_Type);
    case DYN_I8: return Py_IS_TYPE(o, &PyByteArrType_Type);
    case DYN_I16: return Py_IS_TYPE(o, &PyShortArrType_Type);
    case DYN_I32: return Py_IS_TYPE(o, &PyIntArrType_Type);
    case DYN_I64: return Py_IS_TYPE(o, &PyLongArrType_Type);
    case DYN_C64: return Py_IS_TYPE(o, &PyCFloatArrType_Type);
    case DYN_C128: return Py_IS_TYPE(o, &PyCDoubleArrType_Type);
    case DYN_U8: return Py_IS_TYPE(o, &PyUByteArrType_Type);
    case DYN_U16: return Py_IS_TYPE(o, &PyUShortArrType_Type);
    case DYN_U32: return Py_IS_TYPE(o, &PyUIntArrType_Type);
    case DYN_U64: return Py_IS_TYPE(o, &PyULongArrType_Type);
    case DYN_F16: return Py_IS_TYPE(o, &PyHalfArrType_Type);
    case DYN_F32: return Py_IS_TYPE(o, &PyFloatArrType_Type);
    case DYN_F64: return Py_IS_TYPE(o, &PyDoubleArrType_Type);
    default: return false;
    }
}

PyObject *dyn_module_attr(const char *module, const char *name) {
    PyObject *m = dyn_import(module), *o = m == NULL ? NULL : PyObject_GetAttrString(m, name);
    Py_XDECREF(m);
    return o;
}

PyObject *dyn_int_tuple(int n, const int64_t *values, int64_t divisor) {
    PyObject *t = PyTuple_New(n);
    for (int i = 0; i < n && t != NULL; i++) {
        PyObject *o = PyLong_FromLongLong(values[i] / divisor);
        if (o == NULL) {
            Py_CLEAR(t);
        } else {
            PyTuple_SET_ITEM(t, i, o);
        }
    }
    return t;
}
