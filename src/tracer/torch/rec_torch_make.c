/* rec_torch_make.c: new tensors: zeros, full, arange and their like, copies, casts and moves, and what is written whole. Called
 * through the binding table. Which dtype a new tensor has eager says; what that rests on is the same at every call: arguments
 * that are burnt in, the operand's dtype, and the default dtype, which the guards hold. */
#include "tracer/torch/rec_torch.h"

/* ---- arguments */

/* Keywords of a call whose rule lays out its arguments itself: each is the same at every call, and none says where the result
 * goes. `first`: positional arguments before. */
static int burn_keywords(DynRec *r, const NpCall *c) {
    static const char *const known[] = {"dtype",      "device",        "layout",       "requires_grad",
                                        "pin_memory", "memory_format", "non_blocking", "copy"};
    for (int i = 0; i < c->nkw; i++) {
        DynOperand o = c->args[c->npos + i];
        bool found = false;
        for (size_t k = 0; k < DYN_COUNTOF(known); k++) {
            found = found || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, i), known[k]) == 0;
        }
        if (!found || dyn_rec_burn(r, o.v, o.real) < 0) {
            return dyn_np_unsupported(r), -1;
        }
    }
    return 0;
}

static bool is_named(PyObject *o, const char *name) { /* torch.<name> */
    PyObject *named = PyObject_GetAttrString(dyn_torch_module, name);
    PyErr_Clear();
    Py_XDECREF(named); /* the module has it */
    return o == named && o != NULL;
}

static bool is_format(PyObject *o) { return is_named((PyObject *)Py_TYPE(o), "memory_format"); }

/* ---- filled ones */

/* A new tensor as eager's. An order other than C's shows only in sizes above 1. */
static DynVal *filled(DynRec *r, DynArg fill, int ndim, const uint32_t *shape, PyObject *result) {
    DynArrayView view;
    DynLayout layout;
    dyn_tt_default(r); /* torch's state counts though no tensor came in */
    if (!dyn_torch_is(result) || !dyn_array_look(result, &view)) {
        return dyn_np_unsupported(r);
    }
    uint32_t id = dyn_np_full(r, (DynDtype)view.dtype, ndim, shape, fill);
    dyn_layout_of(&view, &layout);
    return id == DYN_NONE || (layout.kind != DYN_LAYOUT_C && dyn_np_hold_sizes(r, id) < 0) ? NULL : dyn_np_result(r, id, result);
}

static DynArg fill_of(DynRec *r, PyObject *result, int what) { return dyn_np_fill(r, dyn_np_dtype_of(result), what); }

/* Sizes as arguments, or as one tuple. */
static int sizes(DynRec *r, const NpCall *c, int first, uint32_t *shape) {
    NpCall positional = *c;
    positional.nkw = 0;
    return burn_keywords(r, c) < 0 ? -1 : dyn_tt_sizes(r, &positional, first, false, shape);
}

/* zeros (operator 1), ones (2), empty (0): 0 … 2 as dyn_np_fill has it; new_zeros and its like (operator 4 more); new (8), which
 * takes lists for elements. */
DynVal *tt_rule_create(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM];
    if (c->b->op == 8 && (c->npos < 2 || !PyLong_CheckExact(c->args[1].real))) {
        return dyn_np_unsupported(r);
    }
    int like = c->b->op >= 4,
        ndim = like && (c->npos == 0 || dyn_tt_tensor_of(r, c->args[0]) == DYN_NONE) ? -1 : sizes(r, c, like, shape);
    return ndim < 0 ? dyn_np_unsupported(r) : filled(r, fill_of(r, c->result, c->b->op % 4), ndim, shape, c->result);
}

/* Guards for the memory order of a tensor of a's sizes, where that isn't C's at every call. */
static int hold_order(DynRec *r, uint32_t a) { return dyn_np_always_c(r, a) ? 0 : dyn_np_hold_sizes(r, a); }

DynVal *tt_rule_create_like(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), shape[DYN_MAX_NDIM];
    if (a == DYN_NONE || dyn_np_burn_rest(r, c, 1) < 0 || hold_order(r, a) < 0) {
        return NULL;
    }
    int ndim = dyn_np_node_at(r, a)->ndim;
    memcpy(shape, dyn_np_node_at(r, a)->shape, sizeof(*shape) * (size_t)ndim);
    return filled(r, fill_of(r, c->result, c->b->op), ndim, shape, c->result);
}

/* A number as what a tensor of the result's dtype is filled with. */
static int fill_number(DynRec *r, DynOperand o, PyObject *result, DynArg *out) {
    NpArg v;
    DynDtype dt = dyn_np_dtype_of(result);
    if (dt == DYN_NO_DTYPE || o.v == NULL || dyn_np_operand(r, o, &v) < 0) {
        return dyn_np_unsupported(r), -1;
    }
    bool truncates = v.code == NP_WEAK_FLOAT && dyn_dtypes[dt].kind != 'f';
    bool becomes_truth = dt == DYN_BOOL && v.code != DYN_BOOL;
    if (v.arg.kind != DYN_ARG_SYM || truncates || becomes_truth) {
        return dyn_np_unsupported(r), -1;
    }
    *out = v.arg;
    return dyn_np_convert_guard(r, v.arg.id, dt);
}

/* full (operator 0), full_like (1), new_full (2). */
DynVal *tt_rule_full(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM], a = c->b->op == 0 ? DYN_NONE : dyn_tt_tensor_of(r, c->slot[0]);
    DynOperand value = c->slot[c->b->op == 2 ? 2 : 1];
    DynArg fill;
    int ndim = -1;
    if (c->b->op != 0 && a == DYN_NONE) {
        return NULL;
    }
    if (c->b->op == 1 && (ndim = dyn_np_node_at(r, a)->ndim) >= 0) {
        memcpy(shape, dyn_np_node_at(r, a)->shape, sizeof(*shape) * (size_t)ndim);
    } else {
        ndim = dyn_np_shape_arg(r, c->slot[c->b->op == 2], false, shape);
    }
    if (ndim < 0 || dyn_np_burn_rest(r, c, c->b->op == 2 ? 3 : 2) < 0) {
        return NULL;
    }
    if (fill_number(r, value, c->result, &fill) < 0 || (c->b->op == 1 && hold_order(r, a) < 0)) {
        return NULL;
    }
    return filled(r, fill, ndim, shape, c->result);
}

/* ---- from numbers */

/* Does a tensor of that dtype take such a number as it is? */
static bool takes_number(DynDtype dt, int code) {
    if (code == DYN_BOOL || dyn_dtypes[dt].kind == 'f') {
        return true;
    }
    return code == NP_WEAK_INT && dt != DYN_BOOL;
}

/* Numbers in lists are stored one by one. */
static int store_items(DynRec *r, uint32_t into, DynOperand o, int *left) {
    DynOperand items[64];
    NpArg v;
    if (!PyList_CheckExact(o.real) && !PyTuple_CheckExact(o.real)) {
        if (dyn_np_node_at(r, into)->ndim != 0 || (*left)-- == 0) {
            return dyn_np_unsupported(r), -1;
        }
        if (dyn_np_operand(r, o, &v) < 0 || v.arg.kind != DYN_ARG_SYM) {
            return dyn_np_unsupported(r), -1;
        }
        bool fits = takes_number((DynDtype)dyn_np_node_at(r, into)->dtype, v.code);
        return fits && v.arg.id != DYN_NONE ? dyn_np_store(r, into, v) : (dyn_np_unsupported(r), -1);
    }
    int n = dyn_np_items(r, o, items, 64);
    for (int i = 0; i < n; i++) {
        uint32_t row = dyn_np_node_at(r, into)->ndim == 0 ? DYN_NONE : dyn_np_pick(r, into, 0, dyn_np_int(r, i));
        if (row == DYN_NONE || store_items(r, row, items[i], left) < 0) {
            return dyn_np_unsupported(r), -1;
        }
    }
    return n < 0 ? -1 : 0;
}

/* torch.tensor, as_tensor, scalar_tensor of numbers; as_tensor of a tensor that it gives back. new_tensor (operator 1): of the
 * operand's dtype. */
DynVal *tt_rule_tensor(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM];
    DynOperand data = c->slot[c->b->op];
    DynArrayView view;
    DynArg fill;
    int left = 64;
    if (dyn_np_burn_rest(r, c, c->b->op + 1) < 0 || data.v == NULL) {
        return dyn_np_unsupported(r);
    }
    if (c->b->op == 1 && dyn_tt_tensor_of(r, c->slot[0]) == DYN_NONE) {
        return dyn_np_unsupported(r);
    }
    if (c->result == data.real) {
        return data.v;
    }
    if (!dyn_torch_is(c->result) || !dyn_array_look(c->result, &view) || dyn_torch_is(data.real)) {
        return dyn_np_unsupported(r);
    }
    if (view.ndim == 0) {
        return fill_number(r, data, c->result, &fill) < 0 ? NULL : filled(r, fill, 0, NULL, c->result);
    }
    for (int i = 0; i < view.ndim; i++) {
        shape[i] = dyn_np_int(r, view.dims[i]);
    }
    dyn_tt_default(r);
    uint32_t id = dyn_np_full(r, (DynDtype)view.dtype, view.ndim, shape, (DynArg){DYN_ARG_NONE, DYN_NONE});
    return id == DYN_NONE || store_items(r, id, data, &left) < 0 ? NULL : dyn_np_result(r, id, c->result);
}

/* arange of ints; of floats a call, of which the length is known. */
DynVal *tt_rule_arange(DynRec *r, NpCall *c) {
    uint32_t n[3] = {dyn_np_int(r, 0), DYN_NONE, dyn_np_int(r, 1)};
    int first = c->npos > 1 ? 0 : 1;
    DynDtype dt = dyn_np_dtype_of(c->result);
    if (c->npos < 1 || c->npos > 3 || burn_keywords(r, c) < 0) {
        return dyn_np_unsupported(r);
    }
    bool whole = true;
    for (int i = 0; i < c->npos; i++) {
        n[first + i] = PyBool_Check(c->args[i].real) ? DYN_NONE : dyn_rec_number(r, c->args[i].v, c->args[i].real);
        if (n[first + i] == DYN_NONE) {
            return dyn_np_unsupported(r);
        }
        whole = whole && PyLong_CheckExact(c->args[i].real);
    }
    dyn_tt_default(r);
    uint32_t length = dyn_np_arange_length(r, n[0], n[1], n[2]);
    if (length != DYN_NONE && !whole) {
        return dyn_np_sized_call(r, c, 1, &length);
    }
    bool converts = dyn_dtypes[dt].kind == 'i' || dt == DYN_F32 || dt == DYN_F64;
    if (length == DYN_NONE || !converts) {
        return dyn_np_unsupported(r);
    }
    uint32_t id = dyn_np_arange(r, length, n[0], n[2]);
    if (id != DYN_NONE && dt != DYN_I64) {
        id = dyn_np_copy(r, id, dt);
    }
    return dyn_np_result(r, id, c->result);
}

/* ---- copies, casts and moves */

/* A new tensor of a's elements in eager's order of axes, which rests on sizes of 0 and 1. */
static DynVal *copied(DynRec *r, uint32_t a, PyObject *result) {
    DynDtype dt = dyn_np_dtype_of(result);
    if (dt == DYN_NO_DTYPE || dyn_np_drops((DynDtype)dyn_np_node_at(r, a)->dtype, dt) || hold_order(r, a) < 0) {
        return dyn_np_unsupported(r);
    }
    return dyn_np_result(r, dyn_np_copy(r, a, dt), result);
}

/* Does `a` lie in the order of that memory format at every call? */
static int fits_format(DynRec *r, uint32_t a, PyObject *format) {
    static const int last[2][5] = {{0, 2, 3, 1}, {0, 2, 3, 4, 1}};
    int ndim = dyn_np_node_at(r, a)->ndim;
    if (is_named(format, "contiguous_format")) {
        return dyn_np_contiguous(r, a, false);
    }
    if (!is_named(format, ndim == 4 ? "channels_last" : "channels_last_3d") || ndim < 4 || ndim > 5) {
        return dyn_np_unsupported(r), -1;
    }
    uint32_t turned = dyn_np_permute(r, a, last[ndim - 4]);
    return turned == DYN_NONE ? -1 : dyn_np_contiguous(r, turned, false);
}

/* Of the dtype of now: the operand where it lies as it should, else a copy. */
static DynVal *in_format(DynRec *r, DynOperand o, uint32_t a, PyObject *format, PyObject *result) {
    int fits = format == NULL || is_named(format, "preserve_format") ? 1 : fits_format(r, a, format);
    if (fits < 0 || (fits == 1) != (result == o.real)) {
        return dyn_np_unsupported(r);
    }
    return fits ? o.v : copied(r, a, result);
}

DynVal *tt_rule_contiguous(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    DynOperand format = c->slot[1];
    if (a == DYN_NONE || (format.v != NULL && dyn_rec_burn(r, format.v, format.real) < 0)) {
        return NULL;
    }
    PyObject *plain = format.v == NULL ? PyObject_GetAttrString(dyn_torch_module, "contiguous_format") : Py_NewRef(format.real);
    PyErr_Clear();
    DynVal *v = plain == NULL ? dyn_np_unsupported(r) : in_format(r, c->slot[0], a, plain, c->result);
    Py_XDECREF(plain);
    return v;
}

DynVal *tt_rule_clone(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    return a == DYN_NONE || dyn_np_burn_rest(r, c, 1) < 0 ? NULL : copied(r, a, c->result);
}

/* Does argument i say copy=True, by its name or by its place? */
static bool asks_for_copy(const NpCall *c, int i) {
    if (c->args[i].real != Py_True) {
        return false;
    }
    if (i < c->npos) {
        return i >= 3;
    }
    return PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, i - c->npos), "copy") == 0;
}

/* x.to(dtype), to(device), to(other), x.float() and the like, type(dtype) (operator 1): what is asked for is the same at every
 * call, and a tensor's dtype is guarded; so what came back now says what comes back. */
DynVal *tt_rule_to(DynRec *r, NpCall *c) {
    uint32_t a = c->npos == 0 ? dyn_np_no_node(r) : dyn_tt_tensor_of(r, c->args[0]);
    PyObject *format = NULL;
    bool copy = false;
    if (a == DYN_NONE || burn_keywords(r, c) < 0) {
        return NULL;
    }
    if (c->b->op == 1 && c->npos + c->nkw == 1) { /* type() */
        return dyn_rec_const(r, c->result);
    }
    for (int i = 1; i < c->npos + c->nkw; i++) {
        DynOperand o = c->args[i];
        bool other = dyn_torch_is(o.real);
        if (other ? dyn_tt_tensor_of(r, o) == DYN_NONE : dyn_rec_burn(r, o.v, o.real) < 0) {
            return NULL;
        }
        format = !other && is_format(o.real) ? o.real : format;
        copy = copy || asks_for_copy(c, i);
    }
    if (copy || dyn_np_dtype_of(c->result) != (DynDtype)dyn_np_node_at(r, a)->dtype) {
        return c->result == c->args[0].real ? dyn_np_unsupported(r) : copied(r, a, c->result);
    }
    return in_format(r, c->args[0], a, format, c->result);
}

/* ---- written whole */

/* copy_ (operator 0), fill_ (1), zero_ (2). */
DynVal *tt_rule_write(DynRec *r, NpCall *c) {
    NpArg v = dyn_tt_int(r, 0);
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    if (a == DYN_NONE || c->result != c->slot[0].real) {
        return dyn_np_unsupported(r);
    }
    if (c->b->op != 2 && dyn_np_operand(r, c->slot[1], &v) < 0) {
        return dyn_np_unsupported(r);
    }
    DynDtype dt = (DynDtype)dyn_np_node_at(r, a)->dtype;
    if (v.arg.kind == DYN_ARG_SYM && v.code == NP_WEAK_FLOAT && dyn_dtypes[dt].kind != 'f') {
        return dyn_np_unsupported(r);
    }
    bool filled = c->b->op == 1, node = v.arg.kind == DYN_ARG_NODE;
    if (node && (filled ? dyn_np_node_at(r, v.arg.id)->ndim > 0 : dyn_torch_looks_elsewhere(r, a, v.arg.id))) {
        return dyn_np_unsupported(r);
    }
    return dyn_np_store_into(r, c->slot[0], v);
}

/* tolist: a list that nobody else has. */
DynVal *tt_rule_tolist(DynRec *r, NpCall *c) { return np_rule_make(r, c); }
