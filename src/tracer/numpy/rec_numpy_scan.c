/* rec_numpy_scan.c: running sums and products, and positions of extremes: SCAN nodes. Called through the binding table. */
#include "tracer/numpy/rec_np.h"

/* exec_scan.c has loops for these. */
static bool has_loops(DynDtype dt) { return dyn_dtypes[dt].kind != 'c' && !dyn_dtype_is_half(dt); }

static uint32_t scan_node(DynRec *r, DynOp op, DynDtype dtype, uint32_t a, int axis, bool keepdims, int ndim) {
    uint32_t id = has_loops((DynDtype)dyn_np_node_at(r, a)->dtype) ? dyn_np_unary_node(r, op, dtype, a, ndim, 2) : DYN_NONE;
    if (id == DYN_NONE) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP), DYN_NONE;
    }
    DynNode *n = dyn_np_node_at(r, id);
    n->compute = dyn_np_node_at(r, a)->dtype;
    n->aux[0] = axis;
    n->aux[1] = keepdims;
    return id;
}

uint32_t dyn_np_scan(DynRec *r, DynOp op, uint32_t a, int axis) {
    uint32_t id = scan_node(r, op, (DynDtype)dyn_np_node_at(r, a)->dtype, a, axis, false, dyn_np_node_at(r, a)->ndim);
    if (id != DYN_NONE) {
        memcpy(dyn_np_node_at(r, id)->shape, dyn_np_node_at(r, a)->shape, sizeof(uint32_t) * dyn_np_node_at(r, a)->ndim);
    }
    return id;
}

uint32_t dyn_np_position(DynRec *r, DynOp op, uint32_t a, int axis, bool keepdims) {
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = 0;
    for (int i = 0; i < dyn_np_node_at(r, a)->ndim; i++) {
        bool gone = axis < 0 || i == axis;
        if (gone && dyn_np_assume_op(r, DYN_S_NE, dyn_np_node_at(r, a)->shape[i], 0) < 0) {
            return DYN_NONE;
        }
        if (!gone || keepdims) {
            shape[ndim++] = gone ? dyn_np_int(r, 1) : dyn_np_node_at(r, a)->shape[i];
        }
    }
    uint32_t id = scan_node(r, op, DYN_I64, a, axis, keepdims, ndim);
    if (id != DYN_NONE) {
        memcpy(dyn_np_node_at(r, id)->shape, shape, sizeof(*shape) * (size_t)ndim);
    }
    return id;
}

/* The axis, or -1 for all elements in C order: that is the only one where there is one, and none of a rank-0 array. */
static int one_axis(DynRec *r, const NpReduction *x) {
    int ndim = dyn_np_node_at(r, x->a)->ndim;
    if (x->naxes != 1 && x->naxes != ndim) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP), -2;
    }
    return ndim > 0 && x->naxes == 1 ? x->axes[0] : -1;
}

static DynVal *running(DynRec *r, const NpReduction *x, DynOp op, DynOp binary, int axis, PyObject *result) {
    DynDtype dt = x->dtype != DYN_NO_DTYPE ? x->dtype : dyn_np_accumulator(r, binary, x->a, x);
    const DynNode *n = dyn_np_node_at(r, x->a);
    uint32_t a = x->a, shape[DYN_MAX_NDIM];
    int ndim = axis < 0 ? 1 : n->ndim;
    if (dt == DYN_NO_DTYPE) {
        return NULL;
    }
    memcpy(shape, n->shape, sizeof(*shape) * (size_t)n->ndim);
    if (axis < 0) {
        shape[0] = dyn_np_product(r, n->ndim, n->shape);
    }
    if ((DynDtype)n->dtype != dt) {
        a = dyn_np_copy(r, a, dt);
    }
    uint32_t id = a == DYN_NONE || shape[0] == DYN_NONE ? DYN_NONE : scan_node(r, op, dt, a, axis, false, ndim);
    if (id == DYN_NONE) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    memcpy(dyn_np_node_at(r, id)->shape, shape, sizeof(*shape) * (size_t)ndim);
    return dyn_np_finish_out(r, id, x->out, result);
}

DynVal *np_rule_scan(DynRec *r, NpCall *c) {
    NpReduction x;
    if (dyn_np_reduce_args(r, c, &x) < 0) {
        return NULL;
    }
    int axis = one_axis(r, &x);
    DynOp op = (DynOp)c->b->op, binary = op == DYN_OP_CUMSUM ? DYN_OP_ADD : DYN_OP_MULTIPLY;
    return axis < -1 ? NULL : running(r, &x, op, binary, axis, c->result);
}

static const struct Accumulate { /* ufunc.accumulate: the binary operator, and what it runs as */
    DynOp binary, op;
} accumulates[] = {{DYN_OP_ADD, DYN_OP_CUMSUM},
                   {DYN_OP_MULTIPLY, DYN_OP_CUMPROD},
                   {DYN_OP_MAXIMUM, DYN_OP_CUMMAX},
                   {DYN_OP_MINIMUM, DYN_OP_CUMMIN}};

/* np.add.accumulate(a, axis): along the first axis where none is given. */
DynVal *np_rule_accumulate(DynRec *r, NpCall *c) {
    NpReduction x = {.where = DYN_NONE, .dtype = DYN_NO_DTYPE, .out = c->slot[4]};
    const DynBinding *ufunc = c->slot[0].v == NULL ? NULL : dyn_np_find(c->slot[0].real);
    bool none = false;
    for (int i = 0; i < c->npos + c->nkw; i++) {
        none = none || c->args[i].real == Py_None;
    }
    x.a = c->slot[1].v == NULL ? DYN_NONE : dyn_np_node(r, c->slot[1]);
    if (!dyn_np_is_ufunc(ufunc) || x.a == DYN_NONE || none) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (c->slot[2].v != NULL && dyn_np_axes(r, c->slot[2], dyn_np_node_at(r, x.a)->ndim, x.axes) != 1) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (dyn_np_burnt_dtype(r, c->slot[3], &x.dtype) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < DYN_COUNTOF(accumulates); i++) {
        if (accumulates[i].binary == (DynOp)ufunc->op) {
            return running(r, &x, accumulates[i].op, accumulates[i].binary, x.axes[0], c->result);
        }
    }
    return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
}

/* The array API's: without an axis only of rank 1. */
DynVal *np_rule_cumulative(DynRec *r, NpCall *c) {
    bool initial = false;
    if (dyn_np_flag(r, c->slot[4], &initial) < 0 || initial) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    return np_rule_scan(r, c);
}

DynVal *np_rule_arg_reduce(DynRec *r, NpCall *c) {
    NpReduction x;
    if (dyn_np_reduce_args(r, c, &x) < 0) {
        return NULL;
    }
    int axis = one_axis(r, &x);
    return axis < -1 ? NULL : dyn_np_finish_out(r, dyn_np_position(r, (DynOp)c->b->op, x.a, axis, x.keepdims), x.out, c->result);
}
