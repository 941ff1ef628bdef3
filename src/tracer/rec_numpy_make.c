/* rec_numpy_make.c: new arrays: zeros, full, copies, conversions, concatenation. Called through the binding table. */
#include "tracer/rec_np.h"

static DynNode *node_at(DynRec *r, uint32_t id) { return dyn_graph_node(dyn_rec_graph(r), id); }

/* Arguments from slot `first` on are the same at every call. */
static int burn_rest(DynRec *r, const NpCall *c, int first) {
    for (int i = first; i < NP_MAX_SLOTS; i++)
        if (c->slot[i].v != NULL && dyn_rec_burn(r, c->slot[i].v, c->slot[i].real) < 0)
            return -1;
    return 0;
}

static DynVal *filled(DynRec *r, DynArg fill, int ndim, const uint32_t *shape, PyObject *result) {
    DynDtype dt = dyn_np_dtype_of(result);
    uint32_t id = dt == DYN_NO_DTYPE ? DYN_NONE : dyn_np_add(r, DYN_OP_FULL, dt, ndim, 1, 0);
    if (id == DYN_NONE)
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_ARRAY);
    memcpy(node_at(r, id)->shape, shape, sizeof(*shape) * (size_t)ndim);
    node_at(r, id)->args[0] = fill;
    return dyn_np_result(r, id, result);
}

/* What zeros, ones and empty put in: a number of the dtype's own kind. */
static DynArg constant_fill(DynRec *r, int what, PyObject *result) {
    DynSyms *t = dyn_rec_syms(r);
    DynDtype dt = dyn_np_dtype_of(result);
    if (what == 0 || dt == DYN_NO_DTYPE)
        return (DynArg){DYN_ARG_NONE, DYN_NONE};
    char kind = dyn_dtypes[dt].kind;
    uint32_t s = kind == 'b' ? dyn_sym_bool(t, what == 2) : kind == 'f' ? dyn_sym_float(t, what - 1) : dyn_sym_int(t, what - 1);
    return (DynArg){DYN_ARG_SYM, s};
}

DynVal *np_rule_create(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = c->slot[0].v == NULL ? -1 : dyn_np_shape_arg(r, c->slot[0], false, shape);
    if (ndim < 0 || burn_rest(r, c, 1) < 0)
        return NULL;
    DynArg fill = constant_fill(r, c->b->op, c->result);
    return fill.kind == DYN_ARG_SYM && fill.id == DYN_NONE ? NULL : filled(r, fill, ndim, shape, c->result);
}

DynVal *np_rule_create_like(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    if (a == DYN_NONE || burn_rest(r, c, 1) < 0)
        return NULL;
    DynArg fill = constant_fill(r, c->b->op, c->result);
    return filled(r, fill, node_at(r, a)->ndim, node_at(r, a)->shape, c->result);
}

/* full of a Python number is a FULL; of an array or NumPy scalar, a copy of it broadcast. */
static DynVal *full(DynRec *r, DynOperand value, int ndim, const uint32_t *shape, PyObject *result) {
    NpArg v;
    DynDtype dt = dyn_np_dtype_of(result);
    if (dt == DYN_NO_DTYPE || value.v == NULL || dyn_np_operand(r, value, &v) < 0)
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE);
    if (v.arg.kind == DYN_ARG_NODE) {
        uint32_t view = dyn_np_broadcast_view(r, v.arg.id, ndim, shape);
        return view == DYN_NONE ? NULL : dyn_np_result(r, dyn_np_copy(r, view, dt), result);
    }
    if (v.code == NP_WEAK_FLOAT && (dyn_dtypes[dt].kind == 'i' || dyn_dtypes[dt].kind == 'u'))
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    return dyn_np_convert_guard(r, v.arg.id, dt) < 0 ? NULL : filled(r, v.arg, ndim, shape, result);
}

DynVal *np_rule_full(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = c->slot[0].v == NULL ? -1 : dyn_np_shape_arg(r, c->slot[0], false, shape);
    return ndim < 0 || burn_rest(r, c, 2) < 0 ? NULL : full(r, c->slot[1], ndim, shape, c->result);
}

DynVal *np_rule_full_like(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    if (a == DYN_NONE || burn_rest(r, c, 2) < 0)
        return NULL;
    return full(r, c->slot[1], node_at(r, a)->ndim, node_at(r, a)->shape, c->result);
}

/* ---- copies and conversions */

static DynVal *copied(DynRec *r, uint32_t a, PyObject *result) {
    DynDtype dt = dyn_np_dtype_of(result);
    return dt == DYN_NO_DTYPE ? dyn_np_refuse(r, DYN_R_UNSUPPORTED_ARRAY) : dyn_np_result(r, dyn_np_copy(r, a, dt), result);
}

DynVal *np_rule_astype(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    if (a == DYN_NONE || burn_rest(r, c, 1) < 0)
        return NULL;
    return c->result == c->slot[0].real ? c->slot[0].v : copied(r, a, c->result);
}

/* Is what came back always the operand itself, or always new? That depends on dtypes, which are guarded, and for `contiguous` on
 * layout. */
static DynVal *same_or_copied(DynRec *r, NpCall *c, bool contiguous) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    if (a == DYN_NONE || burn_rest(r, c, 1) < 0)
        return NULL;
    if (c->result == c->slot[0].real)
        return contiguous && !dyn_np_always_c(r, a) ? dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP) : c->slot[0].v;
    bool converted = dyn_np_dtype_of(c->result) != (DynDtype)node_at(r, a)->dtype || c->slot[0].v->kind == DV_NPSCALAR;
    return converted || (contiguous && dyn_np_never_c(r, a)) ? copied(r, a, c->result) : dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
}

DynVal *np_rule_same(DynRec *r, NpCall *c) { return same_or_copied(r, c, c->b->op == 1 || c->slot[2].v != NULL); }

/* copy(a), np.array(a): new unless copy= says otherwise. */
DynVal *np_rule_copy(DynRec *r, NpCall *c) {
    bool always = true;
    if (strcmp(c->b->path, "array") == 0) {
        if (c->slot[2].v != NULL && dyn_np_flag(r, c->slot[2], &always) < 0)
            return NULL;
        for (int i = 0; i < c->npos + c->nkw; i++) /* copy=None was taken for "not given", and means False here */
            always = always && c->args[i].real != Py_None;
    }
    if (!always)
        return same_or_copied(r, c, true);
    uint32_t a = dyn_np_node(r, c->slot[0]);
    return a == DYN_NONE || burn_rest(r, c, 1) < 0 ? NULL : copied(r, a, c->result);
}

/* x.fill(value), np.copyto(x, value): a store. */
DynVal *np_rule_fill(DynRec *r, NpCall *c) {
    NpArg v;
    if (c->slot[1].v == NULL || dyn_np_operand(r, c->slot[1], &v) < 0)
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE);
    return dyn_np_store_into(r, c->slot[0], v) == NULL ? NULL : dyn_rec_const(r, c->result);
}

/* ---- joining */

#define MAX_JOINED 32

/* The arrays of a list or tuple. */
static int joined_nodes(DynRec *r, DynOperand o, uint32_t *nodes) {
    DynOperand items[MAX_JOINED];
    int n = o.v == NULL ? -1 : dyn_np_items(r, o, items, MAX_JOINED);
    for (int i = 0; i < n; i++)
        if ((nodes[i] = dyn_np_node(r, items[i])) == DYN_NONE)
            return -1;
    return n < 1 ? (dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP), -1) : n;
}

static int one_axis(DynRec *r, DynOperand o, int ndim, int *axis) {
    *axis = 0;
    if (o.v == NULL)
        return 0;
    return PyIndex_Check(o.real) && dyn_np_axes(r, o, ndim, axis) == 1 ? 0 : (dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP), -1);
}

/* An empty array, then each part stored in its range of `axis`. */
static DynVal *joined(DynRec *r, const uint32_t *nodes, int n, int axis, PyObject *result) {
    uint32_t shape[DYN_MAX_NDIM], at = dyn_np_int(r, 0);
    int ndim = node_at(r, nodes[0])->ndim;
    DynDtype dt = (DynDtype)node_at(r, nodes[0])->dtype, compute;
    memcpy(shape, node_at(r, nodes[0])->shape, sizeof(*shape) * (size_t)ndim);
    for (int i = 1; i < n; i++) {
        const DynNode *a = node_at(r, nodes[i]);
        if (a->ndim != ndim || (a->dtype != dt && dyn_np_types(r, DYN_OP_ADD, dt, a->dtype, &compute, &dt) < 0))
            return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
        for (int k = 0; k < ndim; k++)
            if (k != axis &&
                (dyn_np_hint(r, shape[k]) != dyn_np_hint(r, a->shape[k]) || dyn_rec_assume_equal(r, shape[k], a->shape[k]) < 0))
                return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
        shape[axis] = dyn_np_op(r, DYN_S_ADD, shape[axis], a->shape[axis]);
    }
    if (ndim == 0 || shape[axis] == DYN_NONE)
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    uint32_t full = dyn_np_add(r, DYN_OP_FULL, dt, ndim, 1, 0);
    if (full == DYN_NONE)
        return NULL;
    memcpy(node_at(r, full)->shape, shape, sizeof(*shape) * (size_t)ndim);
    dyn_layout_of((PyArrayObject *)result, &node_at(r, full)->layout);
    for (int i = 0; i < n; i++) {
        uint32_t next = dyn_np_op(r, DYN_S_ADD, at, node_at(r, nodes[i])->shape[axis]);
        uint32_t view = next == DYN_NONE ? DYN_NONE : dyn_np_range_view(r, full, axis, at, next);
        if (view == DYN_NONE || dyn_np_store(r, view, dyn_np_node_arg(r, nodes[i]), result) < 0)
            return NULL;
        at = next;
    }
    return dyn_np_result(r, full, result);
}

/* concatenate (operator 0), hstack (1), vstack (2). */
DynVal *np_rule_join(DynRec *r, NpCall *c) {
    uint32_t nodes[MAX_JOINED];
    int axis = 0, n = joined_nodes(r, c->slot[0], nodes);
    if (n < 0 || !PyArray_CheckExact(c->result))
        return NULL;
    for (int i = 0; i < c->npos + c->nkw; i++)
        if (c->args[i].real == Py_None)
            return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    int ndim = node_at(r, nodes[0])->ndim;
    if (one_axis(r, c->slot[1], ndim, &axis) < 0)
        return NULL;
    if (c->b->op == 1)
        axis = ndim > 1;
    for (int i = 0; i < n && c->b->op == 2; i++) { /* rows */
        if (node_at(r, nodes[i])->ndim == 1 && (nodes[i] = dyn_np_newaxis(r, nodes[i], 1, 2)) == DYN_NONE)
            return NULL;
    }
    return joined(r, nodes, n, axis, c->result);
}

DynVal *np_rule_stack(DynRec *r, NpCall *c) {
    uint32_t nodes[MAX_JOINED];
    int axis = 0, n = joined_nodes(r, c->slot[0], nodes);
    if (n < 0 || !PyArray_CheckExact(c->result))
        return NULL;
    int ndim = node_at(r, nodes[0])->ndim;
    if (ndim >= DYN_MAX_NDIM || one_axis(r, c->slot[1], ndim + 1, &axis) < 0)
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    for (int i = 0; i < n; i++) {
        if (node_at(r, nodes[i])->ndim != ndim || (nodes[i] = dyn_np_newaxis(r, nodes[i], 1u << axis, ndim + 1)) == DYN_NONE)
            return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    return joined(r, nodes, n, axis, c->result);
}
