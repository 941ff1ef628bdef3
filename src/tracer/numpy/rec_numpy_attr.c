/* rec_numpy_attr.c: attributes of arrays: sizes, strides, parts of complex numbers, the base of a view, flags, and what is
 * reached through x.flat and x.flags. Called by the recorder's handlers through rec.h, and through the binding table (np.real,
 * np.angle). */
#include "base/tensors.h"
#include "tracer/numpy/rec_np.h"

DynVal *dyn_np_shape_tuple(DynRec *r, uint32_t a, PyObject *result) {
    DynVal *items[DYN_MAX_NDIM];
    for (int i = 0; i < dyn_np_node_at(r, a)->ndim; i++) {
        if ((items[i] = dyn_rec_sym(r, dyn_np_node_at(r, a)->shape[i])) == NULL) {
            return NULL;
        }
    }
    return dyn_rec_seq(r, DV_TUPLE, dyn_np_node_at(r, a)->ndim, items, result);
}

uint32_t dyn_np_part(DynRec *r, DynOp op, uint32_t a) {
    DynNode *n = dyn_np_node_at(r, a);
    uint32_t id = dyn_np_unary_node(r, op, dyn_dtype_real((DynDtype)n->dtype), a, n->ndim, 0);
    if (id == DYN_NONE) {
        return id;
    }
    n = dyn_np_node_at(r, a);
    memcpy(dyn_np_node_at(r, id)->shape, n->shape, sizeof(*n->shape) * n->ndim);
    dyn_np_node_at(r, id)->layout = n->layout;
    dyn_np_node_at(r, id)->layout.kind = n->ndim ? DYN_LAYOUT_STRIDED : DYN_LAYOUT_C;
    return id;
}

/* z.real, z.imag: views of the parts; of a NumPy scalar a value. */
static DynVal *part_of(DynRec *r, DynOperand a, DynOp op, PyObject *result) {
    uint32_t node = dyn_np_node(r, a), id = node == DYN_NONE ? node : dyn_np_part(r, op, node);
    if (id != DYN_NONE && a.v->kind == DV_NPSCALAR) {
        id = dyn_np_copy(r, id, (DynDtype)dyn_np_node_at(r, id)->dtype);
    }
    return dyn_np_result(r, id, result);
}

/* np.angle(z): arctan2 of the parts; of real numbers arctan2 of 0 and the number. */
DynVal *np_rule_angle(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    if (a == DYN_NONE || c->slot[1].v != NULL) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    NpArg args[2] = {{{DYN_ARG_SYM, dyn_np_int(r, 0)}, NP_WEAK_INT}, dyn_np_node_arg(r, a)};
    if (dyn_dtypes[dyn_np_node_at(r, a)->dtype].kind == 'c') {
        uint32_t imag = dyn_np_part(r, DYN_OP_IMAG, a), real = imag == DYN_NONE ? imag : dyn_np_part(r, DYN_OP_REAL, a);
        if (real == DYN_NONE) {
            return NULL;
        }
        args[0] = dyn_np_node_arg(r, imag);
        args[1] = dyn_np_node_arg(r, real);
    }
    return dyn_np_result(r, dyn_np_elementwise(r, DYN_OP_ARCTAN2, args, 2, NP_UFUNC), c->result);
}

/* Steps along axes of size 1, and of arrays without elements, are NumPy's own business: sizes stay above 1 where steps come from
 * them. */
static DynVal *strides_tuple(DynRec *r, uint32_t a, PyObject *result) {
    DynVal *items[DYN_MAX_NDIM];
    uint32_t strides[DYN_MAX_NDIM];
    const DynNode *owner = dyn_np_node_at(r, dyn_np_node_at(r, a)->storage);
    for (int i = 0; i < owner->ndim; i++) {
        if (owner->op != DYN_OP_INPUT && dyn_np_hint(r, owner->shape[i]) == 0) {
            return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
        }
    }
    if (dyn_np_hold_sizes(r, dyn_np_node_at(r, a)->storage) < 0) {
        return NULL;
    }
    if (dyn_np_strides(r, a, strides) < 0) {
        return NULL;
    }
    for (int i = 0; i < dyn_np_node_at(r, a)->ndim; i++) {
        PyObject *real = PyTuple_GET_ITEM(result, i);
        if (dyn_np_hint(r, strides[i]) != PyLong_AsLongLong(real) || (items[i] = dyn_rec_sym(r, strides[i])) == NULL) {
            return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
        }
    }
    return dyn_rec_seq(r, DV_TUPLE, dyn_np_node_at(r, a)->ndim, items, result);
}

DynVal *dyn_np_transposed(DynRec *r, uint32_t a, bool matrix, PyObject *result) {
    int perm[DYN_MAX_NDIM], ndim = dyn_np_node_at(r, a)->ndim, first = matrix && ndim > 2 ? ndim - 2 : 0;
    for (int i = 0; i < ndim; i++) {
        perm[i] = i < first ? i : ndim - 1 - (i - first);
    }
    return dyn_np_result(r, dyn_np_permute(r, a, perm), result);
}

/* The imaginary part of a real array: zeros that can't be written. */
static DynVal *no_imaginary_part(DynRec *r, uint32_t a, PyObject *result) {
    const DynNode *n = dyn_np_node_at(r, a);
    DynDtype dt = (DynDtype)n->dtype;
    int ndim = n->ndim;
    if (dyn_dtypes[dt].kind == 'c') {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if ((ndim > 1 && dyn_np_contiguous(r, a, true) < 0) || dyn_np_hold_sizes(r, a) < 0) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    DynSyms *t = dyn_rec_syms(r);
    uint32_t zero = dyn_dtypes[dt].kind == 'b' ? dyn_sym_bool(t, false) : dyn_sym_int(t, 0);
    uint32_t id = zero == DYN_NONE ? DYN_NONE : dyn_np_add(r, DYN_OP_FULL, dt, ndim, 1, 0);
    if (id == DYN_NONE) {
        return NULL;
    }
    dyn_np_node_at(r, id)->args[0] = (DynArg){DYN_ARG_SYM, zero};
    dyn_np_node_at(r, id)->flags |= DYN_NODE_READONLY;
    memcpy(dyn_np_node_at(r, id)->shape, dyn_np_node_at(r, a)->shape, sizeof(uint32_t) * (size_t)ndim);
    return dyn_np_result(r, id, result);
}

/* None where the array owns its bytes; of a view of something that the graph made, that. Whether an input owns its bytes isn't
 * guarded. */
static DynVal *base_of(DynRec *r, uint32_t a, PyObject *result) {
    const DynNode *n = dyn_np_node_at(r, a), *owner = dyn_np_node_at(r, n->storage);
    if (owner->op == DYN_OP_INPUT || dyn_node_calls(owner)) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if ((n->flags & DYN_NODE_VIEW) == 0 && result == Py_None) {
        return dyn_rec_const(r, result);
    }
    return (n->flags & DYN_NODE_VIEW) != 0 && PyArray_CheckExact(result) ? dyn_np_result(r, n->storage, result)
                                                                         : dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
}

/* np.real(z), np.imag(z). */
DynVal *np_rule_part(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    if (a == DYN_NONE) {
        return NULL;
    }
    if (dyn_dtypes[dyn_np_node_at(r, a)->dtype].kind == 'c') {
        return part_of(r, c->slot[0], (DynOp)c->b->op, c->result);
    }
    if (c->b->op == DYN_OP_IMAG && c->slot[0].v->kind == DV_ARRAY) {
        return no_imaginary_part(r, a, c->result);
    }
    /* False is its own imaginary part, and True isn't. */
    bool same = c->b->op == DYN_OP_REAL && c->result == c->slot[0].real;
    return same ? c->slot[0].v : dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
}

/* x.flat, x.flags, x.ctypes: made anew from the array wherever it is needed, since nothing that is recorded moves or changes it.
 */
static DynVal *attribute_object(DynRec *r, DynOperand a, PyObject *name) {
    return rec_new_attribute(r, a.v, name); /* a name of a code object that is being recorded */
}

PyObject *dyn_np_function(const char *module, const char *name) {
    PyObject *f = dyn_module_attr(module, name);
    PyErr_Clear();
    Py_XDECREF(f); /* the module has it */
    return f;
}

/* Is it what `flags` of an array gives? */
static bool is_flags(PyObject *o) {
    static PyObject *type;
    if (type == NULL) {
        type = dyn_np_function("numpy._core.multiarray", "flagsobj");
        PyErr_Clear();
    }
    return (PyObject *)Py_TYPE(o) == type;
}

/* Does the flag say whether the array owns its bytes? The graph doesn't know that. */
static bool tells_owner(PyObject *name) {
    static const char *const names[] = {"owndata", "OWNDATA", "O",      "writebackifcopy", "WRITEBACKIFCOPY",
                                        "X",       "num",     "farray", "FARRAY"};
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        if (!PyUnicode_CheckExact(name) || PyUnicode_CompareWithASCIIString(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

DynVal *dyn_np_flag_attr(DynRec *r, DynOperand flags, PyObject *name, PyObject *result) {
    DynOperand args[2] = {flags, {dyn_rec_const(r, name), name}};
    if (PyUnicode_CompareWithASCIIString(flags.v->attribute.name, "ctypes") == 0) {
        return dyn_np_address(r, flags, name, result);
    }
    if (!is_flags(flags.real) || tells_owner(name) || args[1].v == NULL) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    return dyn_np_extern(r, dyn_np_function("builtins", "getattr"), "getattr", args, 2, NULL, result);
}

DynVal *dyn_np_contains(DynRec *r, DynOperand a, DynOperand item, PyObject *result) {
    DynOperand args[2] = {a, item};
    return dyn_np_extern(r, dyn_np_function("operator", "contains"), "contains", args, 2, NULL, result);
}

DynVal *dyn_np_flat_item(DynRec *r, DynOperand flat, DynOperand index, PyObject *result) {
    DynOperand args[2] = {flat, index};
    if (is_flags(flat.real) && tells_owner(index.real)) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    return dyn_np_extern(r, dyn_np_function("operator", "getitem"), "getitem", args, 2, NULL, result);
}

int dyn_np_flat_store(DynRec *r, DynOperand flat, DynOperand index, DynOperand value) {
    DynOperand args[3] = {flat, index, value};
    if (Py_TYPE(flat.real) != &PyArrayIter_Type) {
        return dyn_np_refuse(r, DYN_R_SIDE_EFFECT), -1;
    }
    return dyn_np_extern_write(r, dyn_np_function("operator", "setitem"), "setitem", args, 3, NULL, Py_None) == NULL ? -1 : 0;
}

int dyn_np_store_attr(DynRec *r, DynOperand a, PyObject *name, DynOperand value) {
    bool real = PyUnicode_CompareWithASCIIString(name, "real") == 0, imag = PyUnicode_CompareWithASCIIString(name, "imag") == 0;
    bool flat = PyUnicode_CompareWithASCIIString(name, "flat") == 0;
    DynOperand args[3] = {a, {real || imag || flat ? dyn_rec_const(r, name) : NULL, name}, value};
    return args[1].v == NULL ||
                   dyn_np_extern_write(r, dyn_np_function("builtins", "setattr"), "setattr", args, 3, NULL, Py_None) == NULL
               ? -1
               : 0;
}

static DynVal *attr_of(DynRec *r, DynOperand a, uint32_t node, PyObject *name, PyObject *result) {
    const char *attr = PyUnicode_AsUTF8(name);
    const DynNode *n = dyn_np_node_at(r, node);
    bool array = a.v->kind == DV_ARRAY;
    if (strcmp(attr, "shape") == 0) {
        return dyn_np_shape_tuple(r, node, result);
    }
    if (strcmp(attr, "size") == 0) {
        return dyn_rec_sym(r, dyn_np_product(r, n->ndim, n->shape));
    }
    if (strcmp(attr, "nbytes") == 0) {
        return dyn_rec_sym(
            r, dyn_np_op(r, DYN_S_MUL, dyn_np_product(r, n->ndim, n->shape), dyn_np_int(r, dyn_dtypes[n->dtype].size)));
    }
    if (strcmp(attr, "ndim") == 0 || strcmp(attr, "dtype") == 0 || strcmp(attr, "itemsize") == 0) {
        return dyn_rec_const(r, result);
    }
    if (result == a.real && (strcmp(attr, "real") == 0 || strcmp(attr, "T") == 0)) {
        return a.v;
    }
    if (dyn_dtypes[n->dtype].kind == 'c' && (strcmp(attr, "real") == 0 || strcmp(attr, "imag") == 0)) {
        return part_of(r, a, attr[0] == 'r' ? DYN_OP_REAL : DYN_OP_IMAG, result);
    }
    if (array && (strcmp(attr, "T") == 0 || strcmp(attr, "mT") == 0)) {
        return dyn_np_transposed(r, node, attr[0] == 'm', result);
    }
    if (array && strcmp(attr, "strides") == 0) {
        return strides_tuple(r, node, result);
    }
    if (array && strcmp(attr, "imag") == 0) {
        return no_imaginary_part(r, node, result);
    }
    if (array && strcmp(attr, "flags") == 0 && dyn_rec_reads_flags(r, node, a.real) < 0) {
        return NULL;
    }
    if (array && (strcmp(attr, "flat") == 0 || strcmp(attr, "flags") == 0 || strcmp(attr, "ctypes") == 0)) {
        return attribute_object(r, a, name);
    }
    return array && strcmp(attr, "base") == 0 ? base_of(r, node, result) : dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
}

DynVal *dyn_np_attr(DynRec *r, DynOperand a, PyObject *name, PyObject *result) {
    uint32_t node = dyn_np_node(r, a), nnodes = dyn_rec_graph(r)->nodes.n;
    const char *attr = PyUnicode_AsUTF8(name);
    if (attr == NULL) {
        PyErr_Clear();
    }
    if (node == DYN_NONE || attr == NULL) {
        return NULL;
    }
    if (dyn_cupy_is(a.real)) {
        return dyn_cupy_has_rule_for(name) ? attr_of(r, a, node, name, result) : dyn_np_unsupported(r);
    }
    bool tensor = dyn_np_node_at(r, node)->flags & DYN_NODE_TENSOR;
    return dyn_np_take_back(r, nnodes, tensor ? dyn_torch_attr(r, a, node, name, result) : attr_of(r, a, node, name, result));
}
