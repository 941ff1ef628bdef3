/* rec_numpy_make.c: new arrays: zeros, full, copies, conversions. Called through the binding table. */
#include "tracer/numpy/rec_np.h"

int dyn_np_burn_rest(DynRec *r, const NpCall *c, int first) {
    for (int i = first; i < NP_MAX_SLOTS; i++) {
        if (c->slot[i].v != NULL && dyn_rec_burn(r, c->slot[i].v, c->slot[i].real) < 0) {
            return -1;
        }
    }
    return 0;
}

static int burn_rest(DynRec *r, const NpCall *c, int first) { return dyn_np_burn_rest(r, c, first); }

int dyn_np_order_guards(DynRec *r, DynOperand order, uint32_t a) {
    if (order.v == NULL) {
        return 0;
    }
    if (dyn_rec_burn(r, order.v, order.real) < 0 || !PyUnicode_Check(order.real)) {
        return -1;
    }
    if (PyUnicode_CompareWithASCIIString(order.real, "C") == 0 || a == DYN_NONE) {
        return 0;
    }
    if (PyUnicode_CompareWithASCIIString(order.real, "A") == 0 &&
        (dyn_np_contiguous(r, a, false) < 0 || dyn_np_contiguous(r, a, true) < 0)) {
        return -1;
    }
    return dyn_np_hold_sizes(r, a);
}

uint32_t dyn_np_full(DynRec *r, DynDtype dt, int ndim, const uint32_t *shape, DynArg fill) {
    bool failed = dt == DYN_NO_DTYPE || (fill.kind == DYN_ARG_SYM && fill.id == DYN_NONE);
    for (int i = 0; i < ndim; i++) {
        failed = failed || shape[i] == DYN_NONE;
    }
    uint32_t id = failed ? DYN_NONE : dyn_np_add(r, DYN_OP_FULL, dt, ndim, 1, 0);
    if (id == DYN_NONE) {
        dyn_np_refuse(r, dt == DYN_NO_DTYPE ? DYN_R_DTYPE : DYN_R_UNSUPPORTED_VALUE);
        return id;
    }
    memcpy(dyn_np_node_at(r, id)->shape, shape, sizeof(*shape) * (size_t)ndim);
    dyn_np_node_at(r, id)->args[0] = fill;
    return id;
}

/* An order that isn't C's shows only in sizes above 1. */
static DynVal *filled(DynRec *r, DynArg fill, int ndim, const uint32_t *shape, DynOperand order, PyObject *result) {
    uint32_t id = dyn_np_full(r, dyn_np_dtype_of(result), ndim, shape, fill);
    return id == DYN_NONE || (order.v != NULL && dyn_np_hold_sizes(r, id) < 0) ? NULL : dyn_np_result(r, id, result);
}

static uint32_t number_of_kind(DynSyms *t, char kind, int value) {
    if (kind == 'b') {
        return dyn_sym_bool(t, value == 1);
    }
    return kind == 'f' ? dyn_sym_float(t, value) : dyn_sym_int(t, value);
}

DynArg dyn_np_fill(DynRec *r, DynDtype dt, int what) {
    if (what == 0 || dt == DYN_NO_DTYPE) {
        return (DynArg){DYN_ARG_NONE, DYN_NONE};
    }
    return (DynArg){DYN_ARG_SYM, number_of_kind(dyn_rec_syms(r), dyn_dtypes[dt].kind, what - 1)};
}

DynVal *np_rule_create(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = c->slot[0].v == NULL ? -1 : dyn_np_shape_arg(r, c->slot[0], false, shape);
    if (ndim < 0 || burn_rest(r, c, 1) < 0) {
        return NULL;
    }
    DynArg fill = dyn_np_fill(r, dyn_np_dtype_of(c->result), c->b->op);
    return filled(r, fill, ndim, shape, c->slot[2], c->result);
}

/* Sizes and memory order of what is made like an array; shape= says other sizes. The rank, or -1. */
static int like_shape(DynRec *r, uint32_t a, DynOperand order, DynOperand other, uint32_t *shape) {
    if (a == DYN_NONE || dyn_np_order_guards(r, order, a) < 0) {
        return -1;
    }
    if (other.v != NULL) {
        return dyn_np_hold_sizes(r, a) < 0 ? -1 : dyn_np_shape_arg(r, other, false, shape);
    }
    memcpy(shape, dyn_np_node_at(r, a)->shape, sizeof(*shape) * dyn_np_node_at(r, a)->ndim);
    return dyn_np_node_at(r, a)->ndim;
}

DynVal *np_rule_create_like(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]), shape[DYN_MAX_NDIM];
    DynOperand other = c->slot[4], order = other.v != NULL ? other : c->slot[2];
    int ndim = like_shape(r, a, c->slot[2], other, shape);
    c->slot[4].v = NULL;
    if (ndim < 0 || burn_rest(r, c, 1) < 0) {
        return NULL;
    }
    return filled(r, dyn_np_fill(r, dyn_np_dtype_of(c->result), c->b->op), ndim, shape, order, c->result);
}

/* full of a Python number is a FULL; of an array or NumPy scalar, a copy of it broadcast. */
static DynVal *full(DynRec *r, DynOperand value, int ndim, const uint32_t *shape, DynOperand order, PyObject *result) {
    NpArg v;
    DynDtype dt = dyn_np_dtype_of(result);
    if (dt == DYN_NO_DTYPE || value.v == NULL || dyn_np_operand(r, value, &v) < 0) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE);
    }
    if (v.arg.kind == DYN_ARG_NODE) {
        uint32_t view = dyn_np_broadcast_view(r, v.arg.id, ndim, shape);
        uint32_t id = view == DYN_NONE ? DYN_NONE : dyn_np_copy(r, view, dt);
        return id == DYN_NONE || (order.v != NULL && dyn_np_hold_sizes(r, id) < 0) ? NULL : dyn_np_result(r, id, result);
    }
    if (v.code == NP_WEAK_FLOAT && dyn_dtype_is_integer(dt)) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    return dyn_np_convert_guard(r, v.arg.id, dt) < 0 ? NULL : filled(r, v.arg, ndim, shape, order, result);
}

DynVal *np_rule_full(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = c->slot[0].v == NULL ? -1 : dyn_np_shape_arg(r, c->slot[0], false, shape);
    return ndim < 0 || burn_rest(r, c, 2) < 0 ? NULL : full(r, c->slot[1], ndim, shape, c->slot[3], c->result);
}

DynVal *np_rule_full_like(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]), shape[DYN_MAX_NDIM];
    DynOperand other = c->slot[5], order = other.v != NULL ? other : c->slot[3];
    int ndim = like_shape(r, a, c->slot[3], other, shape);
    c->slot[5].v = NULL;
    return ndim < 0 || burn_rest(r, c, 2) < 0 ? NULL : full(r, c->slot[1], ndim, shape, order, c->result);
}

/* ---- copies and conversions */

static DynVal *copied(DynRec *r, uint32_t a, PyObject *result) {
    DynDtype dt = dyn_np_dtype_of(result);
    return dt == DYN_NO_DTYPE ? dyn_np_refuse(r, DYN_R_DTYPE) : dyn_np_result(r, dyn_np_copy(r, a, dt), result);
}

/* Is the array contiguous as order= wants it (K and A: any way), at every call? */
static int fits_order(DynRec *r, DynOperand order, uint32_t a) {
    bool f = order.v != NULL && PyUnicode_CompareWithASCIIString(order.real, "F") == 0;
    return f || (order.v != NULL && PyUnicode_CompareWithASCIIString(order.real, "C") == 0) ? dyn_np_contiguous(r, a, f) : 1;
}

/* Is what came back the operand itself, or new? That rests on the dtype, which is guarded, and with order= on the layout. */
static DynVal *same_or_copied(DynRec *r, NpCall *c, uint32_t a, DynOperand order) {
    bool same = c->result == c->slot[0].real, converted = c->slot[0].v->kind == DV_NPSCALAR;
    converted = converted || dyn_np_dtype_of(c->result) != (DynDtype)dyn_np_node_at(r, a)->dtype;
    if (dyn_np_order_guards(r, order, a) < 0) {
        return NULL;
    }
    if (!converted && fits_order(r, order, a) != same) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    return same ? c->slot[0].v : copied(r, a, c->result);
}

DynVal *np_rule_astype(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    bool copy = true;
    if (a == DYN_NONE || burn_rest(r, c, 1) < 0) {
        return NULL;
    }
    if (dyn_np_order_guards(r, c->slot[2], a) < 0 || dyn_np_flag(r, c->slot[5], &copy) < 0) {
        return NULL;
    }
    return copy ? copied(r, a, c->result) : same_or_copied(r, c, a, c->slot[2]);
}

/* A list, a tuple or a Python number: an array is made of it. */
static bool is_items(DynOperand o) {
    PyTypeObject *const types[] = {&PyList_Type, &PyTuple_Type, &PyFloat_Type, &PyLong_Type, &PyBool_Type};
    return o.v != NULL && rec_has_type_of(o.real, types, DYN_COUNTOF(types));
}

static DynOperand named_order(DynRec *r, const char *order) {
    PyObject *name = PyUnicode_InternFromString(order);
    DynOperand o = {name == NULL ? NULL : dyn_rec_const(r, name), name};
    Py_XDECREF(name); /* the shadow keeps it */
    return o;
}

/* asarray (operator 0), ascontiguousarray (1), asfortranarray (2). */
DynVal *np_rule_same(DynRec *r, NpCall *c) {
    DynOperand order = c->slot[2];
    if (c->b->op != 0) {
        order = named_order(r, c->b->op == 1 ? "C" : "F");
    }
    if (burn_rest(r, c, 1) < 0) {
        return NULL;
    }
    if (is_items(c->slot[0])) {
        return c->b->op == 0 && order.v == NULL ? dyn_np_from_items(r, c->slot[0], c->result)
                                                : dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    uint32_t a = dyn_np_node(r, c->slot[0]);
    return a == DYN_NONE ? NULL : same_or_copied(r, c, a, order);
}

/* copy(a), np.array(a): new unless copy= says otherwise. */
DynVal *np_rule_copy(DynRec *r, NpCall *c) {
    bool always = true, array = strcmp(c->b->path, "array") == 0;
    DynOperand order = c->slot[array ? 3 : 1];
    if (array) {
        if (c->slot[2].v != NULL && dyn_np_flag(r, c->slot[2], &always) < 0) {
            return NULL;
        }
        for (int i = 0; i < c->npos + c->nkw; i++) { /* copy=None was taken for "not given", and means False here */
            always = always && c->args[i].real != Py_None;
        }
    }
    if (burn_rest(r, c, 1) < 0) {
        return NULL;
    }
    if (array && is_items(c->slot[0])) {
        return order.v == NULL ? dyn_np_from_items(r, c->slot[0], c->result) : dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    uint32_t a = dyn_np_node(r, c->slot[0]);
    if (a == DYN_NONE || dyn_np_order_guards(r, order, a) < 0) {
        return NULL;
    }
    return always ? copied(r, a, c->result) : same_or_copied(r, c, a, order);
}

/* The mask and the value of copyto; casting= is the same at every call. */
static int copyto_operands(DynRec *r, const NpCall *c, NpArg *args) {
    if (c->slot[1].v == NULL || dyn_np_operand(r, c->slot[3], &args[0]) < 0 || args[0].code != DYN_BOOL) {
        return -1;
    }
    if (dyn_np_operand(r, c->slot[1], &args[1]) < 0) {
        return -1;
    }
    return c->slot[2].v == NULL ? 0 : dyn_rec_burn(r, c->slot[2].v, c->slot[2].real);
}

/* np.copyto(a, value, where=mask): each element is the value or what is there. The value has to fit a's dtype: else converting
 * those that are not written could raise a flag. */
DynVal *np_rule_copyto(DynRec *r, NpCall *c) {
    NpArg args[3];
    DynDtype compute, result;
    bool all = true;
    for (int i = 0; i < c->npos + c->nkw; i++) {
        if (c->args[i].real == Py_None) {
            return dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE);
        }
    }
    if (c->slot[3].v == NULL || PyBool_Check(c->slot[3].real)) {
        if (dyn_np_flag(r, c->slot[3], &all) < 0 ||
            (c->slot[2].v != NULL && dyn_rec_burn(r, c->slot[2].v, c->slot[2].real) < 0)) {
            return NULL;
        }
        return all ? np_rule_fill(r, c) : dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    uint32_t dst = dyn_np_node(r, c->slot[0]);
    if (dst == DYN_NONE || copyto_operands(r, c, args) < 0) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE);
    }
    args[2] = dyn_np_node_arg(r, dst);
    if (args[1].arg.kind == DYN_ARG_SYM) {
        if (dyn_sym_at(dyn_rec_syms(r), args[1].arg.id)->type == DYN_T_FLOAT && dyn_dtypes[args[2].code].kind != 'f') {
            return dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE);
        }
        compute = (DynDtype)args[2].code;
        if (dyn_np_convert_guard(r, args[1].arg.id, compute) < 0) {
            return NULL;
        }
    } else if (dyn_np_types(r, DYN_OP_MAXIMUM, args[1].code, args[2].code, &compute, &result) < 0 || compute != args[2].code) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    uint32_t chosen = dyn_np_elementwise_as(r, DYN_OP_WHERE, compute, compute, args, 3);
    if (chosen == DYN_NONE || dyn_np_store_into(r, c->slot[0], dyn_np_node_arg(r, chosen)) == NULL) {
        return NULL;
    }
    return dyn_rec_const(r, c->result);
}

/* The array that NumPy made before it put axes in front of it for ndmin=: the operand itself, or a copy. New reference. */
static PyObject *before_ndmin(const NpCall *c, int ndim) {
    PyArrayObject *result = (PyArrayObject *)c->result;
    npy_intp *dims = PyArray_DIMS(result) + PyArray_NDIM(result) - ndim;
    if (PyArray_CheckExact(c->slot[0].real) && PyArray_DATA((PyArrayObject *)c->slot[0].real) == PyArray_DATA(result)) {
        return Py_NewRef(c->slot[0].real);
    }
    PyArray_Dims shape = {dims, ndim};
    return PyArray_Newshape(result, &shape, NPY_CORDER);
}

/* The rank of the operand of np.array(a, ndmin=n); -1: ndmin= isn't given, or the operand is no array or NumPy scalar. */
static int rank_before_ndmin(const NpCall *c) {
    PyObject *a = c->slot[0].real;
    if (c->slot[5].v == NULL || dyn_np_dtype_of(a) == DYN_NO_DTYPE) {
        return -1;
    }
    return PyArray_CheckExact(a) ? PyArray_NDIM((PyArrayObject *)a) : 0;
}

/* np.array(a, ndmin=n) is np.array(a) with new axes in front. */
DynVal *np_rule_array(DynRec *r, NpCall *c) {
    int ndim = rank_before_ndmin(c);
    if (ndim < 0 || !PyArray_CheckExact(c->result) || PyArray_NDIM((PyArrayObject *)c->result) <= ndim) {
        return np_rule_copy(r, c);
    }
    NpCall inner = *c;
    inner.result = before_ndmin(c, ndim);
    DynVal *v = inner.result == NULL ? NULL : np_rule_copy(r, &inner);
    int all = PyArray_NDIM((PyArrayObject *)c->result);
    DynVal *out =
        v == NULL ? NULL : dyn_np_result(r, dyn_np_newaxis(r, rec_node_of(v), (1u << (all - ndim)) - 1, all), c->result);
    PyErr_Clear();
    Py_XDECREF(inner.result);
    return out;
}

/* x.fill(value), np.copyto(x, value): a store. */
DynVal *np_rule_fill(DynRec *r, NpCall *c) {
    NpArg v;
    bool known = c->slot[1].v != NULL && dyn_np_operand(r, c->slot[1], &v) == 0;
    if (!known || dyn_np_may_not_fit(c->slot[1].real, v.code, dyn_np_dtype_of(c->slot[0].real))) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE);
    }
    return dyn_np_store_into(r, c->slot[0], v) == NULL ? NULL : dyn_rec_const(r, c->result);
}
