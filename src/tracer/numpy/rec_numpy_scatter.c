/* rec_numpy_scatter.c: elements written where an array of integers says: a[index] = value, np.add.at and the like. Called by the
 * rules of those (rec_numpy_view.c, rec_numpy_ufunc.c).
 *
 * Such a write is a SCATTER node, which looks at its places before it writes: where one isn't there CPython makes the whole call
 * again, and eager raises. So there is none behind something that can't be done again, unless its places can be looked at when
 * the graph begins. Eager goes through the index in C order if that is how index and values lie in memory; what it would do in
 * another order, or with casts of what is written, stays a call of NumPy's own. */
#include "tracer/numpy/rec_np.h"

static int refuse(DynRec *r) { return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP), -1; }

/* exec_scatter.c has loops for these. NumPy's loops of maximum and minimum warn of a NaN along one axis, and don't where rows are
 * written. */
static bool has_loops(int op, DynDtype dt, int ndim) {
    char kind = dyn_dtypes[dt].kind;
    bool native_float = kind == 'f' && dt != DYN_F16;
    switch (op) {
    case -1: return true;
    case DYN_OP_ADD:
    case DYN_OP_SUBTRACT: return kind != 'b' && dt != DYN_F16;
    case DYN_OP_MULTIPLY: return kind != 'b' && kind != 'c' && dt != DYN_F16;
    case DYN_OP_MAXIMUM:
    case DYN_OP_MINIMUM: return dyn_dtype_is_integer(dt) || (native_float && ndim == 1);
    default: return false;
    }
}

/* Does eager's loop for the operator compute as one over the destination's dtype does? Integers wrap, so wider ones give the
 * same. Python numbers are arrays there, and not weak. */
static bool fits(DynRec *r, int op, DynDtype dt, int code) {
    static const uint8_t strong[] = {DYN_I64, DYN_F64, DYN_C128};
    DynDtype compute, result;
    code = code >= NP_WEAK_INT ? strong[code - NP_WEAK_INT] : code;
    if (dyn_np_types(r, (DynOp)op, dt, code, &compute, &result) < 0 || compute != result) {
        return false;
    }
    bool extreme = op == DYN_OP_MAXIMUM || op == DYN_OP_MINIMUM;
    bool wraps = !extreme && dyn_dtype_is_integer(dt) && dyn_dtype_is_integer(compute);
    return compute == dt || wraps;
}

/* The value as a node of the destination's dtype. */
static uint32_t value_of(DynRec *r, NpArg value, DynDtype dt, int op) {
    char kind = dyn_dtypes[dt].kind;
    if (op >= 0 && !fits(r, op, dt, value.code)) {
        return refuse(r), DYN_NONE;
    }
    if (value.arg.kind == DYN_ARG_NODE) {
        return (DynDtype)dyn_np_node_at(r, value.arg.id)->dtype == dt ? value.arg.id : dyn_np_copy(r, value.arg.id, dt);
    }
    if (kind == 'c' || kind == 'b') {
        return refuse(r), DYN_NONE;
    }
    if (value.code == NP_WEAK_FLOAT && kind != 'f') { /* an assignment truncates */
        value.arg.id = dyn_np_op(r, DYN_S_TO_INT, value.arg.id, DYN_NONE);
    }
    if (value.arg.id == DYN_NONE || dyn_np_convert_guard(r, value.arg.id, dt) < 0) {
        return DYN_NONE;
    }
    return dyn_np_full(r, dt, 0, NULL, value.arg);
}

/* Does the value broadcast to the sizes of the index and, behind them, of the destination's rows, at every call? Of an index with
 * more axes it lies in C order as that does, or is one value for all. */
static int fit_value(DynRec *r, uint32_t value, uint32_t index, uint32_t dst) {
    const DynNode *v = dyn_np_node_at(r, value), *at = dyn_np_node_at(r, index), *d = dyn_np_node_at(r, dst);
    int rank = at->ndim + d->ndim - 1;
    if (at->ndim == 0 || d->ndim == 0) {
        return refuse(r);
    }
    if (v->ndim > rank || rank > DYN_MAX_NDIM) {
        return refuse(r);
    }
    bool one_or_in_order = v->ndim == 0 || (v->ndim == rank && dyn_np_always_c(r, value));
    if (at->ndim > 1 && (!dyn_np_always_c(r, index) || !one_or_in_order)) {
        return refuse(r);
    }
    for (int i = 0; i < v->ndim; i++) {
        int axis = rank - v->ndim + i;
        uint32_t size = v->shape[i], into = axis < at->ndim ? at->shape[axis] : d->shape[axis - at->ndim + 1];
        bool same = dyn_np_hint(r, size) == dyn_np_hint(r, into);
        if (!same && at->ndim > 1) {
            return refuse(r);
        }
        if ((same ? dyn_rec_assume_equal(r, size, into) : dyn_np_assume_op(r, DYN_S_EQ, size, 1)) < 0) {
            return -1;
        }
    }
    return 0;
}

/* What lies in the memory that is written is taken before. */
static uint32_t taken_before(DynRec *r, uint32_t id, uint32_t dst) {
    return dyn_np_node_at(r, id)->storage == dyn_np_node_at(r, dst)->storage
               ? dyn_np_copy(r, id, (DynDtype)dyn_np_node_at(r, id)->dtype)
               : id;
}

int dyn_np_scatter(DynRec *r, uint32_t dst, uint32_t index, NpArg value, int op) {
    DynDtype dt = (DynDtype)dyn_np_node_at(r, dst)->dtype;
    bool integers = dyn_dtype_is_integer((DynDtype)dyn_np_node_at(r, index)->dtype);
    if (!integers || !has_loops(op, dt, dyn_np_node_at(r, dst)->ndim) || dyn_np_overlaps_itself(r, dst)) {
        return refuse(r);
    }
    uint32_t v = value_of(r, value, dt, op);
    if (v == DYN_NONE || fit_value(r, v, index, dst) < 0) {
        return -1;
    }
    v = taken_before(r, v, dst);
    index = taken_before(r, index, dst);
    if (v == DYN_NONE || index == DYN_NONE) {
        return -1;
    }
    if (dyn_np_has_acted(r) && !dyn_np_known_from_the_start(r, index, dyn_np_node_at(r, dst)->shape[0])) {
        return refuse(r);
    }
    if (dyn_rec_will_write(r, dst) < 0) {
        return -1;
    }
    uint32_t id = dyn_np_add(r, DYN_OP_SCATTER, dt, dyn_np_node_at(r, dst)->ndim, 3, 1);
    if (id == DYN_NONE) {
        return -1;
    }
    DynNode *n = dyn_np_node_at(r, id), *d = dyn_np_node_at(r, dst);
    n->args[0] = (DynArg){DYN_ARG_NODE, dst};
    n->args[1] = (DynArg){DYN_ARG_NODE, v};
    n->args[2] = (DynArg){DYN_ARG_NODE, index};
    n->aux[0] = op;
    memcpy(n->shape, d->shape, sizeof(*n->shape) * d->ndim);
    n->layout = d->layout;
    n->storage = d->storage;
    return 0;
}

/* The value's axes are the result's of such a lookup: those of the places go in front of the others, as the destination's do. */
int dyn_np_scatter_at(DynRec *r, const NpLookup *at, NpArg value, int op) {
    uint32_t to = at->table, shape[DYN_MAX_NDIM];
    int ndim = dyn_np_node_at(r, to)->ndim, perm[DYN_MAX_NDIM] = {at->axis};
    if (at->axis == 0) {
        return dyn_np_scatter(r, to, at->places, value, op);
    }
    for (int i = 1; i < ndim; i++) {
        perm[i] = i - (i <= at->axis);
    }
    if (value.arg.kind == DYN_ARG_NODE && dyn_np_node_at(r, value.arg.id)->ndim > 0) {
        if (dyn_np_node_at(r, at->places)->ndim != 1) {
            return refuse(r);
        }
        memcpy(shape, dyn_np_node_at(r, to)->shape, sizeof(*shape) * (size_t)ndim);
        shape[at->axis] = dyn_np_node_at(r, at->places)->shape[0];
        uint32_t wide = dyn_np_broadcast_view(r, value.arg.id, ndim, shape);
        value.arg.id = wide == DYN_NONE ? wide : dyn_np_permute(r, wide, perm);
    }
    to = value.arg.id == DYN_NONE ? DYN_NONE : dyn_np_permute(r, to, perm);
    return to == DYN_NONE ? -1 : dyn_np_scatter(r, to, at->places, value, op);
}
