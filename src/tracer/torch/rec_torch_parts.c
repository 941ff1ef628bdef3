/* rec_torch_parts.c: parts of a tensor along an axis, and views of several tensors at once: those that have too few axes get
 * more, or all get the sizes to which they broadcast. Called through the binding table. */
#include "tracer/torch/rec_torch.h"

/* ---- parts along an axis */

/* a[..., start:start + length, ...] */
static uint32_t part(DynRec *r, uint32_t a, int axis, uint32_t start, uint32_t length) {
    uint32_t stop = dyn_np_op(r, DYN_S_ADD, start, length);
    uint32_t id = stop == DYN_NONE ? dyn_np_no_node(r) : dyn_np_range_view(r, a, axis, start, stop);
    if (id != DYN_NONE) {
        dyn_np_node_at(r, id)->shape[axis] = length;
    }
    return id;
}

DynVal *tt_rule_narrow(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    int axis, ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    if (ndim == 0 || dyn_tt_axis(r, c->slot[1], ndim, &axis) < 0 || c->slot[3].v == NULL) {
        return a == DYN_NONE ? NULL : dyn_np_unsupported(r);
    }
    uint32_t size = dyn_np_node_at(r, a)->shape[axis], start = dyn_np_place(r, c->slot[2], size, true), length[1];
    if (start == DYN_NONE || dyn_np_shape_arg(r, c->slot[3], false, length) != 1 ||
        dyn_np_assume(r, dyn_np_op(r, DYN_S_LE, dyn_np_op(r, DYN_S_ADD, start, length[0]), size)) < 0) {
        return dyn_np_unsupported(r);
    }
    return dyn_tt_viewed(r, c, part(r, a, axis, start, length[0]));
}

DynVal *tt_rule_select(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    int axis, ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    if (ndim == 0 || dyn_tt_axis(r, c->slot[1], ndim, &axis) < 0) {
        return a == DYN_NONE ? NULL : dyn_np_unsupported(r);
    }
    uint32_t at = dyn_np_place(r, c->slot[2], dyn_np_node_at(r, a)->shape[axis], false);
    return at == DYN_NONE ? NULL : dyn_tt_viewed(r, c, dyn_np_pick(r, a, axis, at));
}

#define MAX_PARTS 64

/* How many parts eager gave, and the axis (0 where none is named). -1: none that we follow. */
static int parts_of(DynRec *r, const NpCall *c, uint32_t a, DynOperand dim, int *axis) {
    *axis = 0;
    if (a == DYN_NONE || dyn_np_node_at(r, a)->ndim == 0) {
        return dyn_np_unsupported(r), -1;
    }
    bool parts = PyTuple_CheckExact(c->result) && PyTuple_GET_SIZE(c->result) <= MAX_PARTS;
    if (!parts || dyn_tt_optional_axis(r, dim, dyn_np_node_at(r, a)->ndim, axis) < 0) {
        return dyn_np_unsupported(r), -1;
    }
    return (int)PyTuple_GET_SIZE(c->result);
}

/* Views that one call gave, where they require gradients: a call that gives them all is what autograd is to follow. */
static DynVal *given_at_once(DynRec *r, const NpCall *c, DynVal **items, int n, int axis, DynSplitKind kind) {
    DynGraph *g = dyn_rec_graph(r);
    uint32_t first = n > 0 ? rec_node_of(items[0]) : DYN_NONE;
    bool joined = n > 1 && kind != DYN_SPLIT_ONE_BY_ONE && rec_torch_follows(PyTuple_GET_ITEM(c->result, 0));
    for (int i = 0; i < n && joined; i++) {
        joined = rec_node_of(items[i]) == first + (uint32_t)i && dyn_graph_node(g, first + (uint32_t)i)->op == DYN_OP_SLICE;
    }
    if (joined && dyn_vec_push(&g->splits, ((DynSplit){first, (uint32_t)n, axis, (uint8_t)kind})) < 0) {
        return NULL;
    }
    return dyn_rec_seq(r, DV_TUPLE, (uint32_t)n, items, c->result);
}

/* Parts one behind the other, of these lengths. */
static DynVal *parts(DynRec *r, const NpCall *c, uint32_t a, int axis, const uint32_t *lengths, int n, DynSplitKind kind) {
    DynVal *items[MAX_PARTS];
    uint32_t at = dyn_np_int(r, 0);
    for (int i = 0; i < n; i++) {
        uint32_t id = lengths[i] == DYN_NONE ? dyn_np_no_node(r) : part(r, a, axis, at, lengths[i]);
        if ((items[i] = dyn_np_result(r, id, PyTuple_GET_ITEM(c->result, i))) == NULL) {
            return NULL;
        }
        at = dyn_np_op(r, DYN_S_ADD, at, lengths[i]);
    }
    return given_at_once(r, c, items, n, axis, kind);
}

/* What unsafe_split (operator 1) gives are no views for autograd. */
static DynSplitKind kind_of(const NpCall *c, DynSplitKind kind) { return c->b->op == 1 ? DYN_SPLIT_ONE_BY_ONE : kind; }

/* n parts of `each`, of which the last may be shorter: that there are n is held. */
static DynVal *even_parts(DynRec *r, const NpCall *c, uint32_t a, int axis, uint32_t each, int n) {
    uint32_t lengths[MAX_PARTS], size = dyn_np_node_at(r, a)->shape[axis];
    uint32_t before = each == DYN_NONE ? each : dyn_np_op(r, DYN_S_MUL, each, dyn_np_int(r, n - 1));
    uint32_t last = before == DYN_NONE ? before : dyn_np_op(r, DYN_S_SUB, size, before);
    if (last == DYN_NONE || n == 0) {
        return dyn_np_unsupported(r);
    }
    if (dyn_np_assume_op(r, DYN_S_GT, last, 0) < 0 || dyn_np_assume(r, dyn_np_op(r, DYN_S_LE, last, each)) < 0) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < n; i++) {
        lengths[i] = i == n - 1 ? last : each;
    }
    return parts(r, c, a, axis, lengths, n, kind_of(c, DYN_SPLIT_EVENLY));
}

/* split: a size, or sizes for each part that make the whole. Operator 1: unsafe_split. */
DynVal *tt_rule_split(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), lengths[MAX_PARTS], total = dyn_np_int(r, 0);
    DynOperand items[MAX_PARTS], how = c->slot[1];
    int axis, n = parts_of(r, c, a, c->slot[2], &axis);
    if (n < 0 || how.v == NULL) {
        return dyn_np_unsupported(r);
    }
    if (PyLong_CheckExact(how.real)) {
        return dyn_np_shape_arg(r, how, false, lengths) != 1 ? NULL : even_parts(r, c, a, axis, lengths[0], n);
    }
    if (dyn_np_items(r, how, items, MAX_PARTS) != n) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < n; i++) {
        if (dyn_np_shape_arg(r, items[i], false, &lengths[i]) != 1) {
            return NULL;
        }
        total = dyn_np_op(r, DYN_S_ADD, total, lengths[i]);
    }
    uint32_t size = dyn_np_node_at(r, a)->shape[axis];
    if (total == DYN_NONE || dyn_np_hint(r, total) != dyn_np_hint(r, size) || dyn_rec_assume_equal(r, total, size) < 0) {
        return dyn_np_unsupported(r);
    }
    return parts(r, c, a, axis, lengths, n, kind_of(c, DYN_SPLIT_BY_SIZES));
}

/* chunk: parts of ceil(size / chunks). */
DynVal *tt_rule_chunk(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), many[1];
    int axis, n = parts_of(r, c, a, c->slot[2], &axis);
    if (n < 0 || c->slot[1].v == NULL || dyn_np_shape_arg(r, c->slot[1], false, many) != 1) {
        return dyn_np_unsupported(r);
    }
    uint32_t one = dyn_np_int(r, 1), size = dyn_np_node_at(r, a)->shape[axis];
    uint32_t up = dyn_np_op(r, DYN_S_ADD, size, dyn_np_op(r, DYN_S_SUB, many[0], one));
    return even_parts(r, c, a, axis, up == DYN_NONE ? up : dyn_np_op(r, DYN_S_FLOORDIV, up, many[0]), n);
}

/* Parts between places, each clipped as a slice's bound is. */
static DynVal *parts_between(DynRec *r, const NpCall *c, uint32_t a, int axis, int n) {
    DynOperand places[MAX_PARTS];
    DynVal *items[MAX_PARTS];
    uint32_t from = dyn_np_int(r, 0);
    if (dyn_np_items(r, c->slot[1], places, MAX_PARTS) != n - 1) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < n; i++) {
        uint32_t to = i == n - 1 ? DYN_NONE : dyn_np_int_sym(r, places[i]);
        uint32_t id = i < n - 1 && to == DYN_NONE ? DYN_NONE : dyn_np_piece(r, a, axis, from, to);
        if ((items[i] = dyn_np_result(r, id, PyTuple_GET_ITEM(c->result, i))) == NULL) {
            return NULL;
        }
        from = to;
    }
    return dyn_rec_seq(r, DV_TUPLE, (uint32_t)n, items, c->result);
}

/* The axis that tensor_split (operator 0: the one that is named), hsplit, vsplit or dsplit splits. */
static int axis_of_split(int op, int named, int ndim) {
    switch (op) {
    case 0: return named;
    case 1: return ndim > 1;
    case 2: return 0;
    default: return 2;
    }
}

/* tensor_split at places, or into n: the first size % n have one more, which the entry holds. hsplit (operator 1), vsplit (2)
 * and dsplit (3) name the axis, and eager refuses parts that aren't equal. */
DynVal *tt_rule_tensor_split(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), lengths[MAX_PARTS];
    int axis, n = parts_of(r, c, a, c->slot[2], &axis);
    if (n < 1 || c->slot[1].v == NULL) {
        return dyn_np_unsupported(r);
    }
    axis = axis_of_split(c->b->op, axis, dyn_np_node_at(r, a)->ndim);
    if (!PyLong_CheckExact(c->slot[1].real)) {
        return parts_between(r, c, a, axis, n);
    }
    uint32_t size = dyn_np_node_at(r, a)->shape[axis], many = dyn_np_int(r, n);
    uint32_t least = dyn_np_op(r, DYN_S_FLOORDIV, size, many), more = dyn_np_op(r, DYN_S_MOD, size, many);
    if (dyn_rec_burn(r, c->slot[1].v, c->slot[1].real) < 0 || least == DYN_NONE || more == DYN_NONE) {
        return dyn_np_unsupported(r);
    }
    if (dyn_np_assume_op(r, DYN_S_EQ, more, dyn_np_hint(r, more)) < 0) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < n; i++) {
        lengths[i] = i < dyn_np_hint(r, more) ? dyn_np_op(r, DYN_S_ADD, least, dyn_np_int(r, 1)) : least;
    }
    return parts(r, c, a, axis, lengths, n, DYN_SPLIT_ONE_BY_ONE);
}

DynVal *tt_rule_unbind(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    DynVal *items[MAX_PARTS];
    int axis, n = parts_of(r, c, a, c->slot[1], &axis);
    if (n < 0 || dyn_np_assume_op(r, DYN_S_EQ, dyn_np_node_at(r, a)->shape[axis], n) < 0) {
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        if ((items[i] = dyn_np_result(r, dyn_np_pick(r, a, axis, dyn_np_int(r, i)), PyTuple_GET_ITEM(c->result, i))) == NULL) {
            return NULL;
        }
    }
    return given_at_once(r, c, items, n, axis, DYN_SPLIT_UNBIND);
}

/* ---- views of several tensors */

/* The tensors that are given: as arguments, or in one list or tuple. Their number, or -1. */
static int tensors_of(DynRec *r, const NpCall *c, DynOperand *items, uint32_t *nodes) {
    bool lone = c->npos == 1 && !dyn_torch_is(c->args[0].real);
    int n = c->npos <= MAX_PARTS ? c->npos : -1;
    if (lone) {
        n = dyn_np_items(r, c->args[0], items, MAX_PARTS);
    }
    for (int i = 0; i < n; i++) {
        items[i] = lone ? items[i] : c->args[i];
        if ((nodes[i] = dyn_tt_tensor_of(r, items[i])) == DYN_NONE) {
            return -1;
        }
    }
    return n < 1 ? (dyn_np_unsupported(r), -1) : n;
}

/* Views as eager gave them, in a tuple or list. Operands that came back themselves are what they were. */
static DynVal *views(DynRec *r, const NpCall *c, const DynOperand *items, const uint32_t *nodes, int n) {
    DynVal *out[MAX_PARTS];
    bool list = PyList_CheckExact(c->result);
    if ((!list && !PyTuple_CheckExact(c->result)) || PySequence_Fast_GET_SIZE(c->result) != n) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < n; i++) {
        PyObject *own = PySequence_Fast_GET_ITEM(c->result, i);
        if ((out[i] = own == items[i].real ? items[i].v : dyn_np_result(r, nodes[i], own)) == NULL) {
            return NULL;
        }
    }
    return dyn_rec_seq(r, list ? DV_LIST : DV_TUPLE, (uint32_t)n, out, c->result);
}

/* atleast_1d to 3d (the operator): new axes where there are fewer. */
DynVal *tt_rule_atleast(DynRec *r, NpCall *c) {
    static const uint32_t fresh[4][3] = {{0}, {1}, {3, 1}, {7, 5, 4}}; /* by rank: a vector is a row, a matrix the first layer */
    DynOperand items[MAX_PARTS];
    uint32_t nodes[MAX_PARTS];
    int least = c->b->op, n = c->nkw > 0 ? -1 : tensors_of(r, c, items, nodes);
    for (int i = 0; i < n; i++) {
        int ndim = dyn_np_node_at(r, nodes[i])->ndim;
        if (ndim < least && (nodes[i] = dyn_np_newaxis(r, nodes[i], fresh[least][ndim], least)) == DYN_NONE) {
            return NULL;
        }
    }
    if (n == 1 && dyn_torch_is(c->result)) {
        return c->result == items[0].real ? items[0].v : dyn_np_result(r, nodes[0], c->result);
    }
    return n < 0 ? dyn_np_unsupported(r) : views(r, c, items, nodes, n);
}

DynVal *tt_rule_broadcast_tensors(DynRec *r, NpCall *c) {
    DynOperand items[MAX_PARTS];
    uint32_t nodes[MAX_PARTS], shape[DYN_MAX_NDIM];
    int n = c->nkw > 0 ? -1 : tensors_of(r, c, items, nodes);
    int ndim = n < 0 ? -1 : dyn_np_broadcast(r, nodes, n, shape);
    for (int i = 0; i < n && ndim >= 0; i++) {
        if ((nodes[i] = dyn_np_broadcast_view(r, nodes[i], ndim, shape)) == DYN_NONE) {
            return NULL;
        }
    }
    return ndim < 0 ? dyn_np_unsupported(r) : views(r, c, items, nodes, n);
}

/* meshgrid: each goes along an axis of its own of the grid; with indexing="xy" the first two have changed places. */
DynVal *tt_rule_meshgrid(DynRec *r, NpCall *c) {
    DynOperand items[MAX_PARTS], how = {NULL, NULL};
    uint32_t nodes[MAX_PARTS], shape[DYN_MAX_NDIM];
    int n = tensors_of(r, c, items, nodes);
    if (n > DYN_MAX_NDIM || c->nkw > 1) {
        return dyn_np_unsupported(r);
    }
    if (c->nkw == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, 0), "indexing") != 0) {
        return dyn_np_unsupported(r);
    }
    how = c->nkw == 1 ? c->args[c->npos] : how;
    if (how.v != NULL && dyn_rec_burn(r, how.v, how.real) < 0) {
        return NULL;
    }
    bool turned = n > 1 && dyn_tt_is_str(r, how, "xy");
    for (int i = 0; i < n; i++) {
        uint32_t apart[DYN_MAX_NDIM];
        int axis = turned && i < 2 ? 1 - i : i;
        const DynNode *a = dyn_np_node_at(r, nodes[i]);
        if (a->ndim > 1) {
            return dyn_np_unsupported(r);
        }
        for (int k = 0; k < n; k++) {
            apart[k] = dyn_np_int(r, 1);
        }
        shape[axis] = apart[axis] = a->ndim == 0 ? apart[axis] : a->shape[0];
        if ((nodes[i] = dyn_np_reshape_view(r, nodes[i], n, apart, DYN_NODE_VIEW)) == DYN_NONE) {
            return NULL;
        }
    }
    for (int i = 0; i < n; i++) {
        if ((nodes[i] = dyn_np_broadcast_view(r, nodes[i], n, shape)) == DYN_NONE) {
            return NULL;
        }
    }
    return n < 0 ? NULL : views(r, c, items, nodes, n);
}

/* broadcast_shapes of tuples of sizes, or of one size each. */
DynVal *tt_rule_broadcast_shapes(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM], of[DYN_MAX_NDIM];
    DynVal *items[DYN_MAX_NDIM];
    int ndim = 0;
    for (int i = 0; i < c->npos; i++) {
        int n = c->args[i].v == NULL || c->nkw > 0 ? -1 : dyn_np_shape_arg(r, c->args[i], false, of), more = n - ndim;
        if (n < 0) {
            return dyn_np_unsupported(r);
        }
        if (more > 0) {
            memmove(shape + more, shape, sizeof(*shape) * (size_t)ndim);
            memcpy(shape, of, sizeof(*shape) * (size_t)more);
            ndim = n;
        }
        for (int k = more > 0 ? more : 0; k < n; k++) {
            uint32_t *size = &shape[ndim - n + k];
            if ((*size = dyn_np_broadcast_size(r, *size, of[k])) == DYN_NONE) {
                return NULL;
            }
        }
    }
    if (!dyn_is_tuple(c->result) || PyTuple_GET_SIZE(c->result) != ndim) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < ndim; i++) {
        if (dyn_np_hint(r, shape[i]) != PyLong_AsLongLong(PyTuple_GET_ITEM(c->result, i)) ||
            (items[i] = dyn_rec_sym(r, shape[i])) == NULL) {
            return dyn_np_unsupported(r);
        }
    }
    return dyn_rec_seq(r, DV_TUPLE, (uint32_t)ndim, items, c->result);
}
