/* rec_torch_join.c: tensors put together from others: cat, stack and their family, repeat, tile, flip, roll. Called through the
 * binding table. Makes nodes with the helpers of rec_numpy_join.c. */
#include "tracer/torch/rec_torch.h"

/* The tensors of a list or tuple, of one rank; their number, or -1. */
static int joined(DynRec *r, DynOperand o, uint32_t *nodes) {
    DynOperand items[NP_MAX_JOINED];
    int n = o.v == NULL ? -1 : dyn_np_items(r, o, items, NP_MAX_JOINED);
    for (int i = 0; i < n; i++) {
        if ((nodes[i] = dyn_tt_tensor_of(r, items[i])) == DYN_NONE) {
            return -1;
        }
        if (dyn_np_node_at(r, nodes[i])->ndim !=
            dyn_np_node_at(r, nodes[0])->ndim) { /* a vector of no elements goes with any rank */
            return dyn_np_unsupported(r), -1;
        }
    }
    return n < 1 ? (dyn_np_unsupported(r), -1) : n;
}

/* Is a tensor there before the graph's kernels run: a view of an input, or of what a call gives? */
static bool is_given(DynRec *r, uint32_t id) {
    while (dyn_np_node_at(r, id)->flags & DYN_NODE_VIEW) {
        id = dyn_np_node_at(r, id)->args[0].id;
    }
    const DynNode *n = dyn_np_node_at(r, id);
    return n->op == DYN_OP_INPUT || n->op == DYN_OP_RESULT || dyn_node_calls(n);
}

/* On a device PyTorch's call is one launch, where stores are one for each tensor: those pay where kernels that compute the
 * tensors make them. */
static bool is_better_called(DynRec *r, const uint32_t *nodes, int n) {
    bool given = dyn_rec_graph(r)->device != 0;
    for (int i = 0; i < n && given; i++) {
        given = is_given(r, nodes[i]);
    }
    return given;
}

static DynVal *call_join(DynRec *r, NpCall *c, const uint32_t *nodes, int n, int axis) {
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = dyn_np_node_at(r, nodes[0])->ndim;
    memcpy(shape, dyn_np_node_at(r, nodes[0])->shape, sizeof(*shape) * ndim);
    for (int i = 1; i < n; i++) {
        if ((shape[axis] = dyn_np_op(r, DYN_S_ADD, shape[axis], dyn_np_node_at(r, nodes[i])->shape[axis])) == DYN_NONE) {
            return dyn_np_unsupported(r);
        }
    }
    return dyn_np_sized_call(r, c, ndim, shape);
}

static DynVal *join(DynRec *r, NpCall *c, const uint32_t *nodes, int n, int axis) {
    DynDtype dt = dyn_np_dtype_of(c->result);
    bool in_order = true;
    for (int i = 0; i < n; i++) {
        in_order = in_order && dyn_np_always_c(r, nodes[i]);
    }
    if (dt == DYN_NO_DTYPE) {
        return dyn_np_unsupported(r);
    }
    if (c->out.v == NULL && is_better_called(r, nodes, n)) {
        return call_join(r, c, nodes, n, axis);
    }
    uint32_t id = dyn_np_join(r, nodes, n, axis, dt);
    if (c->out.v != NULL) {
        return dyn_tt_finish(r, c, id);
    }
    return id == DYN_NONE || (!in_order && dyn_np_hold_sizes(r, id) < 0) ? NULL : dyn_np_result(r, id, c->result);
}

DynVal *tt_rule_cat(DynRec *r, NpCall *c) {
    uint32_t nodes[NP_MAX_JOINED];
    int axis = 0, n = joined(r, c->slot[0], nodes);
    if (n < 0 || (c->slot[1].v != NULL && dyn_tt_axis(r, c->slot[1], dyn_np_node_at(r, nodes[0])->ndim, &axis) < 0)) {
        return NULL;
    }
    if (dyn_np_node_at(r, nodes[0])->ndim == 1) { /* those of no elements are left out, whatever their dtype */
        for (int i = 0; i < n; i++) {
            if (dyn_np_assume_op(r, DYN_S_GT, dyn_np_node_at(r, nodes[i])->shape[0], 0) < 0) {
                return NULL;
            }
        }
    }
    return join(r, c, nodes, n, axis);
}

/* Each gets a new axis, along which they are joined. */
DynVal *tt_rule_stack(DynRec *r, NpCall *c) {
    uint32_t nodes[NP_MAX_JOINED];
    int axis = 0, n = joined(r, c->slot[0], nodes);
    int ndim = n < 0 ? 0 : dyn_np_node_at(r, nodes[0])->ndim + 1;
    if (n < 0 || ndim > DYN_MAX_NDIM || dyn_tt_optional_axis(r, c->slot[1], ndim, &axis) < 0) {
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k + 1 < ndim; k++) { /* sizes have to be equal, along every axis */
            uint32_t s = dyn_np_node_at(r, nodes[0])->shape[k + (i > 0 && k >= axis)], t = dyn_np_node_at(r, nodes[i])->shape[k];
            if (dyn_np_hint(r, s) != dyn_np_hint(r, t) || dyn_rec_assume_equal(r, s, t) < 0) {
                return dyn_np_unsupported(r);
            }
        }
        if ((nodes[i] = dyn_np_newaxis(r, nodes[i], 1u << axis, ndim)) == DYN_NONE) {
            return NULL;
        }
    }
    return join(r, c, nodes, n, axis);
}

/* hstack (operator 0): along axis 1, of vectors 0. vstack (1): vectors are rows. */
DynVal *tt_rule_hstack(DynRec *r, NpCall *c) {
    uint32_t nodes[NP_MAX_JOINED];
    int n = joined(r, c->slot[0], nodes), least = c->b->op == 0 ? 1 : 2;
    int ndim = n < 0 ? 0 : dyn_np_node_at(r, nodes[0])->ndim;
    if (n < 0) {
        return NULL;
    }
    uint32_t added = ndim == 0 && least == 2 ? 3 : 1;
    for (int i = 0; i < n && ndim < least; i++) {
        if ((nodes[i] = dyn_np_newaxis(r, nodes[i], added, least)) == DYN_NONE) {
            return NULL;
        }
    }
    if (ndim < 2 && least == 1) {
        for (int i = 0; i < n; i++) {
            if (dyn_np_assume_op(r, DYN_S_GT, dyn_np_node_at(r, nodes[i])->shape[0], 0) < 0) {
                return NULL;
            }
        }
    }
    return join(r, c, nodes, n, c->b->op == 0 && ndim > 1);
}

/* repeat, tile: a new axis before each that is repeated, spread and then one with it. */
static DynVal *repeated(DynRec *r, const NpCall *c, uint32_t a, int n, const uint32_t *times) {
    int have = dyn_np_node_at(r, a)->ndim, ndim = n > have ? n : have, rank = 0;
    uint32_t spread[DYN_MAX_NDIM], shape[DYN_MAX_NDIM], fresh = 0, one = dyn_np_int(r, 1);
    for (int i = 0; i < ndim; i++) {
        uint32_t by = i < ndim - n ? one : times[i - (ndim - n)];
        uint32_t size = i < ndim - have ? one : dyn_np_node_at(r, a)->shape[i - (ndim - have)];
        bool once = dyn_np_hint(r, by) == 1;
        if (dyn_np_assume_op(r, once ? DYN_S_EQ : DYN_S_NE, by, 1) < 0 || rank + 2 > DYN_MAX_NDIM) {
            return dyn_np_unsupported(r);
        }
        if (!once) {
            fresh |= 1u << rank;
            spread[rank++] = by;
        }
        fresh |= i < ndim - have ? 1u << rank : 0;
        spread[rank++] = size;
        if ((shape[i] = dyn_np_op(r, DYN_S_MUL, by, size)) == DYN_NONE) {
            return dyn_np_unsupported(r);
        }
    }
    a = dyn_np_newaxis(r, a, fresh, rank);
    a = a == DYN_NONE ? a : dyn_np_broadcast_view(r, a, rank, spread);
    return a == DYN_NONE ? NULL : dyn_np_result(r, dyn_np_reshape_view(r, a, ndim, shape, DYN_NODE_CONTIG_COPY), c->result);
}

DynVal *tt_rule_repeat(DynRec *r, NpCall *c) {
    uint32_t a = c->npos == 0 ? dyn_np_no_node(r) : dyn_tt_tensor_of(r, c->args[0]), times[DYN_MAX_NDIM];
    int n = a == DYN_NONE ? -1 : dyn_tt_sizes(r, c, 1, false, times);
    return n < 0 ? NULL : repeated(r, c, a, n, times);
}

/* repeat_interleave by one number is NumPy's repeat. */
DynVal *tt_rule_repeat_interleave(DynRec *r, NpCall *c) {
    return c->slot[0].v == NULL || c->slot[0].v->kind != DV_ARRAY ? dyn_np_unsupported(r) : np_rule_repeat(r, c);
}

DynVal *tt_rule_flip(DynRec *r, NpCall *c) {
    uint32_t a = c->npos == 0 ? dyn_np_no_node(r) : dyn_tt_tensor_of(r, c->args[0]), mask = 0, dims[DYN_MAX_NDIM];
    int ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim, n = c->npos - 1;
    DynOperand items[DYN_MAX_NDIM];
    if (ndim == 0 || c->npos + c->nkw < 2 || !dyn_np_always_c(r, a)) {
        return dyn_np_unsupported(r);
    }
    if (n + c->nkw == 1 && !PyLong_CheckExact(c->args[1].real)) {
        n = dyn_np_items(r, c->args[1], items, DYN_MAX_NDIM);
    } else if (c->nkw == 0 && n <= DYN_MAX_NDIM) {
        memcpy(items, c->args + 1, sizeof(*items) * (size_t)n);
    } else {
        return dyn_np_unsupported(r);
    }
    for (int i = 0, axis; i < n; i++, mask |= dims[0]) {
        if (dyn_tt_axis(r, items[i], ndim, &axis) < 0 || (mask & (dims[0] = 1u << axis))) {
            return dyn_np_unsupported(r);
        }
    }
    uint32_t id = n < 0 ? dyn_np_no_node(r) : dyn_np_reversed(r, a, mask);
    return id == DYN_NONE ? NULL : dyn_np_result(r, dyn_np_copy(r, id, (DynDtype)dyn_np_node_at(r, id)->dtype), c->result);
}

DynVal *tt_rule_roll(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    return a == DYN_NONE || !dyn_np_always_c(r, a) ? dyn_np_unsupported(r) : np_rule_roll(r, c);
}
