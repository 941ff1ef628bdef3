/* interp.c: the reference interpreter: nodes evaluated by NumPy's own functions.
 *
 * Called by tests and DYNOC_CHECK as the oracle, and by hit.c for values that a left graph had not made. Needs the GIL. A STORE
 * runs only when it is asked for itself: in program order that gives what eager gives; for values of a left graph the writes have
 * happened already. */
#include "base/log.h"
#include "base/torch.h"
#include "codegen/run/lanes.h"
#include "ir/extern.h"

typedef struct Interp {
    const DynGraph *g;
    const DynRun *run;
    PyObject **values;
    PyObject *arrays; /* dict: node -> array over a tensor's elements; NULL: none yet */
} Interp;

static PyObject *value_of(Interp *x, uint32_t id); /* borrowed from values */
static PyObject *array_of(Interp *x, uint32_t id); /* the same as NumPy sees it: of a tensor an array over its elements */

static PyObject *numpy_attr(const char *name) { return dyn_module_attr("numpy", name); }

static PyObject *descr_of(uint8_t dtype) { return (PyObject *)PyArray_DescrFromType(dyn_dtypes[dtype].npy); }

/* ---- bfloat16, which NumPy has not: arrays of it are of its bits, and it is computed with as floats that it can hold */

/* A new dense array in the order of `a`, of another type. */
static PyObject *converted(PyObject *a, int type) {
    PyObject *r = PyArray_NewLikeArray((PyArrayObject *)a, NPY_KEEPORDER, PyArray_DescrFromType(type), 0);
    if (r && PyArray_CopyInto((PyArrayObject *)r, (PyArrayObject *)a) < 0) {
        Py_CLEAR(r);
    }
    return r;
}

static PyObject *floats_of_bits(PyObject *bits) {
    PyObject *wide = converted(bits, NPY_UINT32);
    uint32_t *x = wide ? PyArray_DATA((PyArrayObject *)wide) : NULL;
    for (npy_intp i = 0; wide && i < PyArray_SIZE((PyArrayObject *)wide); i++) {
        x[i] <<= 16;
    }
    PyObject *r = wide ? PyArray_View((PyArrayObject *)wide, PyArray_DescrFromType(NPY_FLOAT32), NULL) : NULL;
    Py_XDECREF(wide);
    return r;
}

/* Rounded to nearest even. */
static PyObject *bits_of_numbers(PyObject *a) {
    PyObject *single = converted(a, NPY_FLOAT32);
    uint32_t *x = single ? PyArray_DATA((PyArrayObject *)single) : NULL;
    for (npy_intp i = 0; single && i < PyArray_SIZE((PyArrayObject *)single); i++) {
        bool nan = (x[i] & 0x7fffffff) > 0x7f800000;
        x[i] = (nan ? x[i] | 0x400000 : x[i] + 0x7fff + (x[i] >> 16 & 1)) >> 16;
    }
    PyObject *wide = single ? PyArray_View((PyArrayObject *)single, PyArray_DescrFromType(NPY_UINT32), NULL) : NULL;
    PyObject *r = wide ? converted(wide, NPY_UINT16) : NULL;
    Py_XDECREF(wide);
    Py_XDECREF(single);
    return r;
}

/* An array of one of dynoc's types as NumPy computes with another. Takes the reference. */
static PyObject *cast(PyObject *a, uint8_t from, uint8_t to) {
    if (a && from == DYN_BF16 && to != from) {
        Py_SETREF(a, floats_of_bits(a));
    }
    if (a && to == DYN_BF16 && from != to) {
        Py_SETREF(a, bits_of_numbers(a));
    } else if (a && from != to) {
        Py_SETREF(a, PyObject_CallMethod(a, "astype", "N", descr_of(to)));
    }
    return a;
}

/* ---- operands */

static PyObject *ints(const Interp *x, const uint32_t *syms, int n) {
    PyObject *t = PyTuple_New(n);
    for (int i = 0; t && i < n; i++) {
        PyObject *v = PyLong_FromLongLong(x->run->sym[syms[i]].i);
        if (!v) {
            Py_CLEAR(t);
            break;
        }
        PyTuple_SET_ITEM(t, i, v);
    }
    return t;
}

/* An operand in the dtype in which it is computed: arrays are converted, Python numbers too (they are weak). New reference. */
static PyObject *operand(Interp *x, DynArg arg, uint8_t dtype) {
    if (arg.kind == DYN_ARG_SYM) {
        PyObject *number = dyn_sym_object(x->g->syms, arg.id, x->run->sym[arg.id]);
        PyObject *a = number ? PyArray_FromAny(number, NULL, 0, 0, 0, NULL) : NULL;
        Py_XDECREF(number);
        if (a && dtype == DYN_BF16) {
            Py_SETREF(a, bits_of_numbers(a));
        } else if (a) {
            Py_SETREF(a, PyArray_CastToType((PyArrayObject *)a, (PyArray_Descr *)descr_of(dtype), 0));
        }
        return a;
    }
    return cast(Py_XNewRef(array_of(x, arg.id)), dyn_graph_node(x->g, arg.id)->dtype, dtype);
}

/* What was computed with floats in their place: rounded, and in the node's dtype. Takes the reference. */
static PyObject *of_brain_floats(const DynNode *n, PyObject *r) {
    PyObject *a = r && n->dtype != DYN_BOOL ? PyArray_FromAny(r, NULL, 0, 0, 0, NULL) : Py_XNewRef(r);
    Py_XDECREF(r);
    return a && n->dtype != DYN_BOOL ? cast(cast(a, DYN_F32, DYN_BF16), DYN_BF16, n->dtype) : a;
}

static PyObject *run_elementwise(Interp *x, const DynNode *n) {
    const DynOpInfo *op = &dyn_ops[n->op];
    int which;
    const char *module = op->flags & DYN_OPF_OURS ? "dynoc._reference" : "numpy";
    PyObject *f = dyn_module_attr(module, dyn_op_function((DynOp)n->op, &which)), *args = PyTuple_New(n->nargs), *r = NULL;
    for (uint32_t i = 0; f && args && i < n->nargs; i++) {
        bool boolean = op->dtype == DYN_DT_LOGICAL || (op->dtype == DYN_DT_WHERE && i == 0);
        bool integer = n->op == DYN_OP_LDEXP && i == 1;
        uint8_t dtype = n->compute;
        if (boolean || integer) {
            dtype = boolean ? DYN_BOOL : DYN_I64;
        }
        PyObject *a = operand(x, n->args[i], dtype);
        if (a && n->compute == DYN_BF16 && !boolean) {
            Py_SETREF(a, floats_of_bits(a));
        }
        if (!a) {
            Py_CLEAR(args);
            break;
        }
        PyTuple_SET_ITEM(args, i, a);
    }
    if (f && args) {
        r = PyObject_CallObject(f, args);
    }
    if (r && which >= 0) {
        Py_SETREF(r, Py_XNewRef(PyTuple_GetItem(r, which)));
    }
    r = n->compute == DYN_BF16 ? of_brain_floats(n, r) : r;
    Py_XDECREF(f);
    Py_XDECREF(args);
    return r;
}

static PyObject *run_reduce(Interp *x, const DynNode *n) {
    PyObject *f = numpy_attr(dyn_ops[n->op].text), *a = operand(x, n->args[0], n->compute), *axes = NULL, *r = NULL;
    if (n->naux == 1) {
        axes = Py_NewRef(Py_None);
    } else {
        axes = PyTuple_New(n->naux - 1);
        for (uint32_t i = 1; axes && i < n->naux; i++) {
            PyTuple_SET_ITEM(axes, i - 1, PyLong_FromLongLong(n->aux[i]));
        }
    }
    PyObject *args = f && a && axes ? PyTuple_Pack(2, a, axes) : NULL;
    PyObject *kwargs = args ? Py_BuildValue("{s:i}", "keepdims", (int)n->aux[0]) : NULL;
    if (kwargs && n->flags & DYN_NODE_OR_NOTHING) {
        DynPart identity = dyn_part_identity(n->op, n->compute);
        PyObject *initial = PyArray_ToScalar(&identity, (PyArrayObject *)a);
        if (!initial || PyDict_SetItemString(kwargs, "initial", initial) < 0) {
            Py_CLEAR(kwargs);
        }
        Py_XDECREF(initial);
    }
    if (kwargs) {
        r = PyObject_Call(f, args, kwargs);
    }
    Py_XDECREF(kwargs);
    Py_XDECREF(args);
    Py_XDECREF(axes);
    Py_XDECREF(a);
    Py_XDECREF(f);
    return r;
}

/* np.histogram(a, bins, range, None, weights)[0] of edges. */
static PyObject *run_histogram(Interp *x, const DynNode *n) {
    PyObject *a = array_of(x, n->args[0].id), *edges = a ? array_of(x, n->args[1].id) : NULL;
    PyObject *weights = edges && n->nargs > 2 ? array_of(x, n->args[2].id) : Py_None;
    PyObject *f = edges && weights ? numpy_attr("histogram") : NULL;
    int64_t bins = x->run->sym[n->shape[0]].i;
    const double *e = edges ? PyArray_GETPTR1((PyArrayObject *)edges, 0) : NULL;
    const double *last = edges ? PyArray_GETPTR1((PyArrayObject *)edges, bins) : NULL;
    PyObject *both = f ? PyObject_CallFunction(f, "OL(dd)OO", a, (long long)bins, *e, *last, Py_None, weights) : NULL;
    PyObject *r = both ? Py_XNewRef(PyTuple_GetItem(both, 0)) : NULL;
    Py_XDECREF(both);
    Py_XDECREF(f);
    return r;
}

/* np.add.accumulate(a, axis), or np.argmax(a, axis=axis, keepdims=keepdims). */
static PyObject *run_scan(Interp *x, const DynNode *n) {
    static const char *const names[] = {"add", "multiply", "maximum", "minimum", "argmax", "argmin"};
    bool position = n->op == DYN_OP_ARGMAX || n->op == DYN_OP_ARGMIN, flat = n->aux[0] < 0;
    PyObject *f = numpy_attr(names[n->op - DYN_OP_CUMSUM]), *a = operand(x, n->args[0], n->compute), *r = NULL;
    int64_t along = flat ? 0 : n->aux[0]; /* an array taken flat is raveled */
    PyObject *axis = flat && position ? Py_NewRef(Py_None) : PyLong_FromLongLong(along);
    if (a && flat && !position) {
        Py_SETREF(a, PyObject_CallMethod(a, "ravel", NULL));
    }
    if (f && !position) {
        Py_SETREF(f, PyObject_GetAttrString(f, "accumulate"));
    }
    PyObject *args = f && a && axis ? PyTuple_Pack(2, a, axis) : NULL;
    PyObject *kwargs = args ? PyDict_New() : NULL;
    PyObject *dtype = kwargs ? descr_of(n->compute) : NULL;
    PyObject *keyword = dtype;
    if (dtype && position) {
        keyword = n->aux[1] ? Py_True : Py_False;
    }
    if (dtype && PyDict_SetItemString(kwargs, position ? "keepdims" : "dtype", keyword) == 0) {
        r = PyObject_Call(f, args, kwargs);
    }
    Py_XDECREF(dtype);
    Py_XDECREF(kwargs);
    Py_XDECREF(args);
    Py_XDECREF(axis);
    Py_XDECREF(a);
    Py_XDECREF(f);
    return r;
}

/* np.take(a, index, axis): places were looked at before. */
/* a[:, index]: what NumPy lays out in another order than np.take does. */
static PyObject *look_up(PyObject *a, PyObject *index, int axis) {
    PyObject *key = PyTuple_New(axis + 1), *all = PySlice_New(NULL, NULL, NULL);
    for (int i = 0; key && all && i < axis; i++) {
        PyTuple_SET_ITEM(key, i, Py_NewRef(all));
    }
    if (key) {
        PyTuple_SET_ITEM(key, axis, Py_NewRef(index));
    }
    PyObject *r = key && all ? PyObject_GetItem(a, key) : NULL;
    Py_XDECREF(key);
    Py_XDECREF(all);
    return r;
}

static PyObject *run_gather(Interp *x, const DynNode *n) {
    PyObject *a = array_of(x, n->args[0].id), *index = a ? array_of(x, n->args[1].id) : NULL;
    if (index && (n->layout.kind != DYN_LAYOUT_C || n->flags & DYN_NODE_TURNED)) {
        return look_up(a, index, (int)n->aux[0]);
    }
    PyObject *places = index ? PyArray_CastToType((PyArrayObject *)index, PyArray_DescrFromType(NPY_INTP), 0) : NULL;
    PyObject *r = places ? PyArray_TakeFrom((PyArrayObject *)a, places, (int)n->aux[0], NULL, NPY_RAISE) : NULL;
    Py_XDECREF(places);
    return r;
}

static PyObject *slice_index(Interp *x, const DynNode *n) {
    bool element = n->ndim == 0; /* with an Ellipsis behind it a view of it, not a scalar */
    PyObject *index = PyTuple_New(n->naux + element);
    uint32_t arg = 1;
    int axis = 0;
    for (uint32_t i = 0; index && i < n->naux; i++) {
        PyObject *item;
        if (n->aux[i] == 2) {
            item = Py_NewRef(Py_None);
            axis++;
        } else if (n->aux[i] == 1) {
            item = PyLong_FromLongLong(x->run->sym[n->args[arg++].id].i);
        } else { /* start and step are normalised, the length is the shape's: a negative stop can't be written as it is */
            int64_t start = x->run->sym[n->args[arg].id].i, step = x->run->sym[n->args[arg + 2].id].i;
            int64_t length = x->run->sym[n->shape[axis++]].i, stop = start + length * step;
            PyObject *a = PyLong_FromLongLong(start), *c = PyLong_FromLongLong(step);
            PyObject *b;
            if (length == 0) {
                b = Py_XNewRef(a);
            } else {
                b = stop < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(stop);
            }
            item = a && b && c ? PySlice_New(a, b, c) : NULL;
            Py_XDECREF(a);
            Py_XDECREF(b);
            Py_XDECREF(c);
            arg += 3;
        }
        if (!item) {
            Py_CLEAR(index);
            break;
        }
        PyTuple_SET_ITEM(index, i, item);
    }
    if (index && element) {
        PyTuple_SET_ITEM(index, n->naux, Py_NewRef(Py_Ellipsis));
    }
    return index;
}

/* An AFFINE view by its strides, which are sums of the base's. */
static PyObject *affine_view(Interp *x, const DynNode *n, PyArrayObject *base) {
    DynArrayView v = {.data = PyArray_BYTES(base), .ndim = n->ndim, .dtype = n->dtype};
    for (int i = 0; i < n->ndim; i++) {
        v.dims[i] = x->run->sym[n->shape[i]].i;
    }
    bool none = dyn_view_empty(&v);
    for (int k = 0; k < PyArray_NDIM(base); k++) {
        v.data += none ? 0 : x->run->sym[n->args[1 + k].id].i * PyArray_STRIDE(base, k);
        for (int i = 0; i < n->ndim; i++) {
            v.strides[i] += n->aux[k * n->ndim + i] * PyArray_STRIDE(base, k);
        }
    }
    return dyn_array_over((PyObject *)base, &v, PyArray_ISWRITEABLE(base));
}

static PyObject *run_view(Interp *x, const DynNode *n) {
    PyObject *base = array_of(x, n->args[0].id), *how = NULL, *r = NULL;
    if (!base) {
        return NULL;
    }
    if (n->op == DYN_OP_SLICE) {
        how = slice_index(x, n);
        r = how ? PyObject_GetItem(base, how) : NULL;
    } else if (n->op == DYN_OP_PERMUTE) {
        how = PyTuple_New(n->naux);
        for (uint32_t i = 0; how && i < n->naux; i++) {
            PyTuple_SET_ITEM(how, i, PyLong_FromLongLong(n->aux[i]));
        }
        r = how ? PyObject_CallMethod(base, "transpose", "(O)", how) : NULL;
    } else if (n->op == DYN_OP_RESHAPE) {
        how = ints(x, n->shape, n->ndim);
        r = how ? PyObject_CallMethod(base, "reshape", "(O)", how) : NULL;
        if (r && !(n->flags & DYN_NODE_VIEW)) {
            Py_SETREF(r, PyObject_CallMethod(r, "copy", NULL));
        }
    } else if (n->op == DYN_OP_AFFINE) {
        r = affine_view(x, n, (PyArrayObject *)base);
    } else if (n->op == DYN_OP_AS_DTYPE) {
        r = PyObject_CallMethod(base, "view", "N", descr_of(n->dtype));
    } else if (n->op == DYN_OP_REAL || n->op == DYN_OP_IMAG) {
        r = PyObject_GetAttrString(base, dyn_ops[n->op].text);
        if (r && !PyArray_Check(r)) {
            Py_SETREF(r, PyArray_FromScalar(r, NULL));
        }
    } else {
        how = ints(x, n->shape, n->ndim);
        PyObject *f = how ? numpy_attr("broadcast_to") : NULL;
        r = f ? PyObject_CallFunctionObjArgs(f, base, how, NULL) : NULL;
        Py_XDECREF(f);
        if (r && (n->flags & DYN_NODE_WRITE_WARNS) && PyArray_ISWRITEABLE((PyArrayObject *)base)) {
            PyArray_ENABLEFLAGS((PyArrayObject *)r, NPY_ARRAY_WRITEABLE | DYN_ARRAY_WARN_ON_WRITE);
        }
    }
    Py_XDECREF(how);
    return r;
}

static PyObject *complex_number(Interp *x, const DynNode *n) {
    PyObject *number = PyComplex_FromDoubles(x->run->sym[n->args[0].id].f, x->run->sym[n->args[1].id].f);
    PyObject *a = number ? PyArray_FromAny(number, NULL, 0, 0, 0, NULL) : NULL;
    Py_XDECREF(number);
    if (a) {
        Py_SETREF(a, PyArray_CastToType((PyArrayObject *)a, (PyArray_Descr *)descr_of(n->dtype), 0));
    }
    return a;
}

static PyObject *run_create(Interp *x, const DynNode *n) {
    if (n->op == DYN_OP_IOTA) {
        return PyArray_Arange(0, (double)x->run->sym[n->shape[0]].i, 1, NPY_LONG);
    }
    int64_t dims[DYN_MAX_NDIM];
    for (int i = 0; i < n->ndim; i++) {
        dims[i] = x->run->sym[n->shape[i]].i;
    }
    PyObject *a = dyn_array_new((DynDtype)n->dtype, n->ndim, dims, &n->layout);
    if (a && n->nargs && n->args[0].kind == DYN_ARG_SYM) {
        PyObject *fill = n->op == DYN_OP_COMPLEX ? complex_number(x, n) : operand(x, n->args[0], n->dtype);
        int failed = fill ? PyArray_CopyInto((PyArrayObject *)a, (PyArrayObject *)fill) : -1;
        Py_XDECREF(fill);
        if (failed) {
            Py_CLEAR(a);
        }
    }
    return a;
}

static PyObject *run_copy(Interp *x, const DynNode *n) {
    PyObject *from = operand(x, n->args[0], n->dtype);
    int64_t dims[DYN_MAX_NDIM];
    for (int i = 0; i < n->ndim; i++) {
        dims[i] = x->run->sym[n->shape[i]].i;
    }
    PyObject *a = from ? dyn_array_new((DynDtype)n->dtype, n->ndim, dims, &n->layout) : NULL;
    PyObject *array = a ? PyArray_FromAny(from, NULL, 0, 0, 0, NULL) : NULL;
    if (!array || PyArray_CopyInto((PyArrayObject *)a, (PyArrayObject *)array) < 0) {
        Py_CLEAR(a);
    }
    Py_XDECREF(array);
    Py_XDECREF(from);
    return a;
}

/* np.add.at(dst, index, value), or dst[index] = value. */
static PyObject *run_scatter(Interp *x, const DynNode *n) {
    PyObject *dst = array_of(x, n->args[0].id), *value = dst ? array_of(x, n->args[1].id) : NULL;
    PyObject *index = value ? array_of(x, n->args[2].id) : NULL, *r = NULL;
    int which;
    if (index && n->aux[0] < 0) {
        return PyObject_SetItem(dst, index, value) < 0 ? NULL : Py_NewRef(Py_None);
    }
    PyObject *f = index ? numpy_attr(dyn_op_function((DynOp)n->aux[0], &which)) : NULL;
    r = f ? PyObject_CallMethod(f, "at", "OOO", dst, index, value) : NULL;
    Py_XDECREF(f);
    return r;
}

static PyObject *run_store(Interp *x, const DynNode *n) {
    PyObject *dst = array_of(x, n->args[0].id);
    PyObject *value = dst ? operand(x, n->args[1], dyn_graph_node(x->g, n->args[0].id)->dtype) : NULL;
    PyObject *array = value ? PyArray_FromAny(value, NULL, 0, 0, 0, NULL) : NULL;
    bool readonly = dyn_graph_node(x->g, n->args[0].id)->flags & DYN_NODE_READONLY; /* rules write through such views (np.eye) */
    if (readonly && dst) {
        PyArray_ENABLEFLAGS((PyArrayObject *)dst, NPY_ARRAY_WRITEABLE);
    }
    int failed = array ? PyArray_CopyInto((PyArrayObject *)dst, (PyArrayObject *)array) : -1;
    if (readonly && dst) {
        PyArray_CLEARFLAGS((PyArrayObject *)dst, NPY_ARRAY_WRITEABLE);
    }
    Py_XDECREF(array);
    Py_XDECREF(value);
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyObject *extern_operand(void *ctx, DynArg arg) {
    Interp *x = ctx;
    if (arg.kind == DYN_ARG_SOURCE) {
        return Py_NewRef(x->run->sources[arg.id]);
    }
    if (arg.kind == DYN_ARG_SYM) {
        return dyn_sym_object(x->g->syms, arg.id, x->run->sym[arg.id]);
    }
    return Py_XNewRef(value_of(x, arg.id));
}

static PyObject *finish(const Interp *x, const DynNode *n, PyObject *r);

/* The call, which gives all its arrays at once. */
static DynExternStatus call_extern(Interp *x, uint32_t call, PyObject **given) {
    const DynGraph *g = x->g;
    PyObject **arrays = PyMem_Calloc(g->nodes.n + 1, sizeof(*arrays));
    DynExternStatus status =
        arrays ? dyn_extern_run(g, call, extern_operand, x, arrays, x->run->sym, false, given) : DYN_EXTERN_ERROR;
    if (status == DYN_EXTERN_OTHER) {
        PyErr_Format(PyExc_SystemError, "dynoc: %s gave another kind of result than before",
                     g->externs.at[dyn_graph_node(g, call)->extern_index].name);
    }
    bool made = status == DYN_EXTERN_OK;
    for (uint32_t i = call; made && i < g->nodes.n; i++) {
        bool known = x->values[i] != NULL;
        PyObject *r = arrays[i] == NULL && i == call ? Py_NewRef(Py_None) : arrays[i];
        if (r && !known && !(x->values[i] = finish(x, dyn_graph_node(g, i), r))) {
            status = DYN_EXTERN_ERROR;
        } else if (known) {
            Py_XDECREF(r);
        }
    }
    PyMem_Free(arrays);
    return status;
}

static PyObject *run_input(Interp *x, uint32_t id) {
    for (uint32_t i = 0; i < x->g->inputs.n; i++) {
        if (x->g->inputs.at[i] == id) {
            return Py_NewRef(x->run->inputs[i]);
        }
    }
    PyErr_SetString(PyExc_SystemError, "dynoc: an input of the graph is not in its list");
    return NULL;
}

/* Array or scalar as eager gives it, in the node's dtype. */
static PyObject *finish(const Interp *x, const DynNode *n, PyObject *r) {
    bool no_array = !r || r == Py_None || (n->flags & DYN_NODE_OBJECT);
    if (no_array || dyn_torch_is(r)) {
        return r;
    }
    if (!PyArray_Check(r)) {
        Py_SETREF(r, PyArray_FromAny(r, NULL, 0, 0, 0, NULL));
    }
    if (r && PyArray_TYPE((PyArrayObject *)r) != dyn_dtypes[n->dtype].npy) {
        Py_SETREF(r, n->dtype == DYN_BF16 ? bits_of_numbers(r) : PyObject_CallMethod(r, "astype", "N", descr_of(n->dtype)));
    }
    if (r && (n->flags & DYN_NODE_READONLY)) {
        PyArray_CLEARFLAGS((PyArrayObject *)r, NPY_ARRAY_WRITEABLE);
    }
    PyObject *base = r && n->flags & DYN_NODE_VIEW ? x->values[n->args[0].id] : NULL;
    DynArrayView view;
    bool of_tensor = base && dyn_torch_is(base);
    if (of_tensor && dyn_array_view(r, &view) && !dyn_view_empty(&view)) { /* NumPy forgets the steps of none */
        view.dtype = n->dtype;
        Py_SETREF(r, dyn_run_window(x->g, n, base, &view));
    } else if (r && (n->flags & DYN_NODE_TENSOR)) { /* over memory that is its own */
        Py_SETREF(r, dyn_torch_from_numpy(r, (DynDtype)n->dtype));
    }
    if (r && (n->flags & DYN_NODE_NPSCALAR)) {
        Py_SETREF(r, PyArray_ToScalar(PyArray_DATA((PyArrayObject *)r), (PyArrayObject *)r));
    }
    return r;
}

/* An extern call, or one of its results. */
static PyObject *value_of_call(Interp *x, uint32_t call, uint32_t id) {
    PyObject *given = NULL;
    DynExternStatus status = call_extern(x, call, &given);
    Py_XDECREF(given);
    if (status != DYN_EXTERN_OK) {
        return NULL;
    }
    return x->values[id] ? x->values[id] : (x->values[id] = Py_NewRef(Py_None));
}

static PyObject *value_of(Interp *x, uint32_t id) {
    if (x->values[id]) {
        return x->values[id];
    }
    const DynNode *n = dyn_graph_node(x->g, id);
    PyObject *r = NULL;
    if (Py_EnterRecursiveCall(" while evaluating a graph")) {
        return NULL;
    }
    switch (dyn_ops[n->op].kind) {
    case DYN_K_INPUT: r = run_input(x, id); break;
    case DYN_K_ELEMENTWISE: r = run_elementwise(x, n); break;
    case DYN_K_REDUCE: r = run_reduce(x, n); break;
    case DYN_K_SCAN: r = n->op == DYN_OP_HISTOGRAM ? run_histogram(x, n) : run_scan(x, n); break;
    case DYN_K_GATHER: r = run_gather(x, n); break;
    case DYN_K_VIEW: r = run_view(x, n); break;
    case DYN_K_CREATE: r = run_create(x, n); break;
    case DYN_K_COPY: r = run_copy(x, n); break;
    case DYN_K_STORE: r = n->op == DYN_OP_SCATTER ? run_scatter(x, n) : run_store(x, n); break;
    case DYN_K_RESULT: r = value_of_call(x, n->args[0].id, id); break;
    default: r = value_of_call(x, id, id);
    }
    Py_LeaveRecursiveCall();
    return x->values[id] ? r : (x->values[id] = finish(x, n, r));
}

static PyObject *array_of(Interp *x, uint32_t id) {
    PyObject *o = value_of(x, id), *key = NULL, *a = NULL;
    if (!o || !dyn_torch_is(o)) {
        return o;
    }
    if ((x->arrays || (x->arrays = PyDict_New())) && (key = PyLong_FromUnsignedLong(id)) &&
        !(a = PyDict_GetItemWithError(x->arrays, key)) && !PyErr_Occurred() && (a = dyn_torch_to_numpy(o))) {
        int failed = PyDict_SetItem(x->arrays, key, a);
        Py_DECREF(a); /* the dict has it */
        a = failed ? NULL : a;
    }
    Py_XDECREF(key);
    return a;
}

DynExternStatus dyn_interp_extern(const DynGraph *g, const DynRun *run, PyObject **values, uint32_t call, PyObject **given) {
    Interp x = {.g = g, .run = run, .values = values};
    DynExternStatus status = call_extern(&x, call, given);
    Py_XDECREF(x.arrays);
    return status;
}

PyObject *dyn_interp_node(const DynGraph *g, const DynRun *run, PyObject **values, uint32_t wanted) {
    Interp x = {.g = g, .run = run, .values = values};
    PyObject *known = values[wanted];
    PyObject *r = value_of(&x, wanted);
    Py_XDECREF(x.arrays);
    if (r && !known) { /* the slot is the caller's to fill: the reference in it goes to him */
        values[wanted] = NULL;
        return r;
    }
    return Py_XNewRef(r);
}
