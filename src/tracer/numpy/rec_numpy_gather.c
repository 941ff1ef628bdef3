/* rec_numpy_gather.c: elements that stand where an array of integers says: take, and a[index]. Called through the binding table.
 *
 * Such a lookup is a GATHER node, whose places are looked at before anything that can be seen is done: where one isn't there
 * CPython makes the whole call again, and eager raises. So there is none behind something that can't be done again, unless its
 * places can be looked at when the graph begins; nor where the elements' order in memory isn't C's at every call. Those stay
 * calls of NumPy's own function, of which the sizes are known.
 *
 * a[i, j] is a lookup in what its first axes are as one, at places that are computed: one that lies outside along any axis
 * becomes one that is nowhere. np.take_along_axis is a lookup in all axes as one. */
#include "ir/extern.h"
#include "tracer/numpy/rec_np.h"

bool dyn_np_has_acted(DynRec *r) {
    const DynGraph *g = dyn_rec_graph(r);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        uint32_t written = dyn_graph_written(g, i);
        const DynNode *n = dyn_graph_node(g, i);
        const DynExtern *x = dyn_graph_extern(g, n);
        if ((x != NULL && x->once) || (written != DYN_NONE && dyn_graph_node(g, written)->op == DYN_OP_INPUT)) {
            return true;
        }
    }
    return false;
}

bool dyn_np_known_from_the_start(DynRec *r, uint32_t index, uint32_t size) {
    const DynGraph *g = dyn_rec_graph(r);
    const DynNode *n = dyn_np_node_at(r, index);
    if (dyn_np_node_at(r, n->storage)->op != DYN_OP_INPUT || dyn_sym_is_late(dyn_rec_syms(r), size)) {
        return false;
    }
    for (int i = 0; i < n->ndim; i++) {
        if (dyn_sym_is_late(dyn_rec_syms(r), n->shape[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (dyn_graph_written(g, i) == n->storage || dyn_graph_opens(g, i, n->storage)) {
            return false;
        }
    }
    return true;
}

/* ---- places along several axes as one */

static uint32_t compute(DynRec *r, DynOp op, DynDtype dt, DynDtype result, uint32_t a, NpArg b) {
    NpArg args[2] = {dyn_np_node_arg(r, a), b};
    bool failed = a == DYN_NONE || b.arg.id == DYN_NONE;
    return failed ? DYN_NONE : dyn_np_elementwise_as(r, op, dt, result, args, 2);
}

static NpArg whole(uint32_t sym) { return (NpArg){{DYN_ARG_SYM, sym}, NP_WEAK_INT}; }

static NpArg node_arg(DynRec *r, uint32_t node) { return node == DYN_NONE ? whole(DYN_NONE) : dyn_np_node_arg(r, node); }

static uint32_t choose(DynRec *r, uint32_t mask, NpArg a, NpArg b) {
    NpArg args[3] = {node_arg(r, mask), a, b};
    bool failed = mask == DYN_NONE || a.arg.id == DYN_NONE || b.arg.id == DYN_NONE;
    return failed ? DYN_NONE : dyn_np_elementwise_as(r, DYN_OP_WHERE, DYN_I64, DYN_I64, args, 3);
}

/* Places that `index` names along an axis of that size, counted from the beginning; there: and the mask of those that are. */
static uint32_t counted(DynRec *r, uint32_t index, uint32_t size, uint32_t *there) {
    uint32_t at = dyn_np_node_at(r, index)->dtype == DYN_I64 ? index : dyn_np_copy(r, index, DYN_I64), zero = dyn_np_int(r, 0);
    uint32_t below = at == DYN_NONE ? at : compute(r, DYN_OP_LESS, DYN_I64, DYN_BOOL, at, whole(zero));
    uint32_t up = below == DYN_NONE ? below : compute(r, DYN_OP_ADD, DYN_I64, DYN_I64, at, whole(size));
    at = choose(r, below, node_arg(r, up), node_arg(r, at));
    uint32_t low = compute(r, DYN_OP_GREATER_EQUAL, DYN_I64, DYN_BOOL, at, whole(zero));
    uint32_t high = low == DYN_NONE ? low : compute(r, DYN_OP_LESS, DYN_I64, DYN_BOOL, at, whole(size));
    *there = compute(r, DYN_OP_LOGICAL_AND, DYN_BOOL, DYN_BOOL, low, node_arg(r, high));
    return *there == DYN_NONE ? DYN_NONE : at;
}

static uint32_t nowhere(DynRec *r, uint32_t there, uint32_t at) {
    return choose(r, there, node_arg(r, at), whole(dyn_np_int(r, INT64_MIN)));
}

/* Do its elements lie in C order at every call? */
static bool is_c(DynRec *r, uint32_t node) { return dyn_np_node_at(r, node)->ndim == 1 || dyn_np_always_c(r, node); }

/* An axis in front of the others. */
static uint32_t axis_first(DynRec *r, uint32_t a, int axis) {
    int perm[DYN_MAX_NDIM] = {axis};
    for (int i = 1; i < dyn_np_node_at(r, a)->ndim; i++) {
        perm[i] = i - (i <= axis);
    }
    return axis == 0 ? a : dyn_np_permute(r, a, perm);
}

/* Several axes one behind the other as one, of what lies in C order; n of them. */
static uint32_t as_one_axis(DynRec *r, uint32_t a, int axis, int n) {
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = dyn_np_node_at(r, a)->ndim;
    memcpy(shape, dyn_np_node_at(r, a)->shape, sizeof(*shape) * (size_t)axis);
    shape[axis] = dyn_np_product(r, n, dyn_np_node_at(r, a)->shape + axis);
    memcpy(shape + axis + 1, dyn_np_node_at(r, a)->shape + axis + n, sizeof(*shape) * (size_t)(ndim - axis - n));
    return shape[axis] == DYN_NONE ? DYN_NONE : dyn_np_reshape_view(r, a, ndim - n + 1, shape, DYN_NODE_VIEW);
}

/* Places along these axes as one. */
static uint32_t places_as_one(DynRec *r, uint32_t view, const NpPlaces *p) {
    uint32_t there = DYN_NONE, sum = DYN_NONE;
    for (int i = 0; i < p->n; i++) {
        uint32_t ok = DYN_NONE, size = dyn_np_node_at(r, view)->shape[p->at[i].axis], number = p->at[i].number;
        uint32_t one =
            number == DYN_NONE ? counted(r, p->at[i].node, size, &ok) : dyn_np_full(r, DYN_I64, 0, NULL, whole(number).arg);
        sum = i == 0 ? one : compute(r, DYN_OP_MULTIPLY, DYN_I64, DYN_I64, sum, whole(size));
        sum = i == 0 || sum == DYN_NONE ? sum : compute(r, DYN_OP_ADD, DYN_I64, DYN_I64, sum, node_arg(r, one));
        if (sum == DYN_NONE || (number == DYN_NONE && ok == DYN_NONE)) {
            return DYN_NONE;
        }
        if (number == DYN_NONE) {
            there = there == DYN_NONE ? ok : compute(r, DYN_OP_LOGICAL_AND, DYN_BOOL, DYN_BOOL, there, node_arg(r, ok));
        }
    }
    return nowhere(r, there, sum);
}

int dyn_np_places(DynRec *r, uint32_t a, DynOperand index, NpLookup *out) {
    NpPlaces p = {0};
    uint32_t view = dyn_np_index_around(r, a, index, &p);
    if (view == DYN_NONE || p.n == 0 || dyn_np_node_at(r, a)->layout.still != 0) {
        return dyn_np_unsupported(r), -1;
    }
    for (int i = 0; i < p.n; i++) {
        if (p.at[i].axis != p.at[0].axis + i || (p.at[i].node != DYN_NONE && !is_c(r, p.at[i].node))) {
            return dyn_np_unsupported(r), -1;
        }
    }
    *out = (NpLookup){view, p.at[0].node, p.at[0].axis};
    if (p.n > 1) {
        if (!dyn_np_always_c(r, view)) {
            return dyn_np_unsupported(r), -1;
        }
        out->places = places_as_one(r, view, &p);
        out->table = as_one_axis(r, view, out->axis, p.n);
    }
    if (p.apart && out->table != DYN_NONE) {
        out->table = axis_first(r, out->table, out->axis);
        out->axis = 0;
    }
    out->c = out->axis == 0 && is_c(r, a);
    return out->places == DYN_NONE || out->table == DYN_NONE ? -1 : 0;
}

uint32_t dyn_np_gather(DynRec *r, uint32_t a, uint32_t index, int axis, const uint32_t *shape, int ndim) {
    const DynNode *x = dyn_np_node_at(r, a), *at = dyn_np_node_at(r, index);
    if (at->ndim == 0 || (dyn_np_has_acted(r) && !dyn_np_known_from_the_start(r, index, x->shape[axis]))) {
        return DYN_NONE;
    }
    for (int i = 0; i < x->ndim; i++) { /* where there is nothing to look up, eager may not look at the places */
        if (i != axis && (dyn_np_hint(r, x->shape[i]) == 0 || dyn_np_assume_op(r, DYN_S_NE, x->shape[i], 0) < 0)) {
            return DYN_NONE;
        }
    }
    uint32_t id = dyn_np_add(r, DYN_OP_GATHER, (DynDtype)x->dtype, ndim, 2, 1);
    if (id == DYN_NONE) {
        return DYN_NONE;
    }
    DynNode *n = dyn_np_node_at(r, id);
    n->args[0] = (DynArg){DYN_ARG_NODE, a};
    n->args[1] = (DynArg){DYN_ARG_NODE, index};
    n->aux[0] = axis;
    memcpy(n->shape, shape, sizeof(*shape) * (size_t)ndim);
    return id;
}

/* take, a[indices] (operator 1) that has to be a call, and a[indices] of tensors (2), which is one where results would not lie in
 * C order at every call: the indices' sizes stand where the axis was. */
DynVal *np_rule_take(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_operand_node(r, c->slot[0]), at = dyn_np_operand_node(r, c->slot[1]), shape[DYN_MAX_NDIM];
    int axis = 0, ndim = 0;
    if (a == DYN_NONE || at == DYN_NONE) {
        return NULL;
    }
    bool flat = c->slot[2].v == NULL && c->b->op == 0;
    if (!dyn_dtype_is_integer((DynDtype)dyn_np_node_at(r, at)->dtype)) {
        return dyn_np_unsupported(r);
    }
    if (c->slot[2].v != NULL && dyn_np_axes(r, c->slot[2], dyn_np_node_at(r, a)->ndim, &axis) != 1) {
        return NULL;
    }
    const DynNode *x = dyn_np_node_at(r, a), *y = dyn_np_node_at(r, at);
    if (x->ndim == 0 || x->ndim - 1 + y->ndim > DYN_MAX_NDIM) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < axis && !flat; i++) {
        shape[ndim++] = x->shape[i];
    }
    for (int i = 0; i < y->ndim; i++) {
        shape[ndim++] = y->shape[i];
    }
    for (int i = axis + 1; i < x->ndim && !flat; i++) {
        shape[ndim++] = x->shape[i];
    }
    uint32_t nnodes = dyn_rec_graph(r)->nodes.n, table = DYN_NONE;
    if (c->b->op == 0) {
        table = flat && x->ndim > 1 ? dyn_np_ravel(r, a) : a;
    } else if (c->b->op == 2 && is_c(r, at) && dyn_np_always_c(r, a)) {
        table = a;
    }
    uint32_t id = table == DYN_NONE ? DYN_NONE : dyn_np_gather(r, table, at, axis, shape, ndim);
    DynVal *v = id == DYN_NONE ? NULL : dyn_np_result(r, id, c->result);
    if (v != NULL) {
        return v;
    }
    dyn_rec_truncate(r, nnodes);
    *dyn_rec_why(r) = DYN_R_OK;
    return dyn_np_sized_call(r, c, ndim, shape);
}

/* The order in which eager lays out what was found is that of the table's other axes behind the places', at every call at which
 * the same of them have elements side by side. */
static int hold_layout(DynRec *r, uint32_t node) {
    for (int i = 0; i < dyn_np_node_at(r, node)->ndim; i++) {
        int64_t size = dyn_np_hint(r, dyn_np_node_at(r, node)->shape[i]);
        if (size <= 1 && dyn_np_assume_op(r, DYN_S_EQ, dyn_np_node_at(r, node)->shape[i], size) < 0) {
            return -1;
        }
    }
    return 0;
}

DynVal *dyn_np_lookup(DynRec *r, uint32_t a, DynOperand index, PyObject *result) {
    NpLookup at;
    uint32_t shape[DYN_MAX_NDIM];
    if (dyn_np_places(r, a, index, &at) < 0) {
        return NULL;
    }
    const DynNode *x = dyn_np_node_at(r, at.table), *y = dyn_np_node_at(r, at.places);
    int ndim = x->ndim - 1 + y->ndim;
    if (ndim > DYN_MAX_NDIM) {
        return dyn_np_unsupported(r);
    }
    memcpy(shape, x->shape, sizeof(*shape) * (size_t)at.axis);
    memcpy(shape + at.axis, y->shape, sizeof(*shape) * y->ndim);
    memcpy(shape + at.axis + y->ndim, x->shape + at.axis + 1, sizeof(*shape) * (size_t)(x->ndim - 1 - at.axis));
    uint32_t id = dyn_np_gather(r, at.table, at.places, at.axis, shape, ndim);
    if (id == DYN_NONE || (!at.c && hold_layout(r, id) < 0)) {
        return NULL;
    }
    dyn_np_node_at(r, id)->flags |= at.axis > 0 ? DYN_NODE_TURNED : 0;
    return dyn_np_result(r, id, result);
}
