/* rec_numpy_strided.c: np.lib.stride_tricks.as_strided. What it gives is a view whose axes go along the operand's by whole
 * numbers of elements: an AFFINE node, as long as it stays inside the operand, or inside the vector that the operand is a slice
 * of. Steps that are no whole numbers of the operand's own are left to NumPy. Called through the binding table. */
#include "tracer/numpy/rec_np.h"

typedef struct Steps { /* of the result over a base of one or more axes */
    uint32_t base, start[DYN_MAX_NDIM];
    int64_t step[DYN_MAX_NDIM][DYN_MAX_NDIM]; /* by axis of the base, by axis of the result */
} Steps;

/* Along which of the base's axes, and how many elements at a time, is this a step? It is guarded that it stays so. */
static int step_along(DynRec *r, const uint32_t *strides, int rank, uint32_t stride, int axis, Steps *out) {
    int best = -1;
    int64_t times = 0, hint = dyn_np_hint(r, stride);
    if (hint == 0) {
        return dyn_np_assume_op(r, DYN_S_EQ, stride, 0);
    }
    for (int k = 0; k < rank; k++) {
        int64_t unit = dyn_np_hint(r, strides[k]);
        if (unit == 0 || hint % unit != 0) {
            continue;
        }
        bool better = best < 0 || llabs(hint / unit) < llabs(times);
        best = better ? k : best;
        times = better ? hint / unit : times;
    }
    if (best < 0) {
        return dyn_np_unsupported(r), -1;
    }
    uint32_t whole = times == 1 ? strides[best] : dyn_np_op(r, DYN_S_MUL, dyn_np_int(r, times), strides[best]);
    out->step[best][axis] = times;
    return whole == DYN_NONE || (whole != stride && dyn_rec_assume_equal(r, whole, stride) < 0) ? -1 : 0;
}

/* Is it a slice of a vector, with a step that is the same at every call? */
static bool is_slice_of_vector(DynRec *r, const DynNode *n) {
    if (n->op != DYN_OP_SLICE || n->ndim != 1 || n->naux != 1) {
        return false;
    }
    return dyn_np_node_at(r, n->args[0].id)->ndim == 1 && dyn_sym_is_const(dyn_rec_syms(r), n->args[3].id);
}

/* A slice of a vector is as good as the vector: as_strided may go back before its first element. */
static void climb(DynRec *r, Steps *s, int ndim) {
    for (;;) {
        const DynNode *n = dyn_np_node_at(r, s->base);
        if (!is_slice_of_vector(r, n)) {
            return;
        }
        uint32_t step = n->args[3].id, start = dyn_np_op(r, DYN_S_MUL, s->start[0], step);
        start = dyn_np_op(r, DYN_S_ADD, start, dyn_np_node_at(r, s->base)->args[1].id);
        if (start == DYN_NONE) {
            return;
        }
        for (int i = 0; i < ndim; i++) {
            s->step[0][i] *= dyn_np_hint(r, step);
        }
        s->start[0] = start;
        s->base = dyn_np_node_at(r, s->base)->args[0].id;
    }
}

/* Every element is one of the base's, at every call. */
static int stays_inside(DynRec *r, const Steps *s, int ndim, const uint32_t *shape) {
    for (int i = 0; i < ndim; i++) {
        if (dyn_np_assume_op(r, DYN_S_GE, shape[i], 1) < 0) {
            return -1;
        }
    }
    for (int k = 0; k < dyn_np_node_at(r, s->base)->ndim; k++) {
        uint32_t low = s->start[k], high = low;
        for (int i = 0; i < ndim; i++) {
            uint32_t last = dyn_np_op(r, DYN_S_SUB, shape[i], dyn_np_int(r, 1));
            uint32_t way = dyn_np_op(r, DYN_S_MUL, last, dyn_np_int(r, s->step[k][i]));
            uint32_t *end = s->step[k][i] < 0 ? &low : &high;
            *end = s->step[k][i] == 0 ? *end : dyn_np_op(r, DYN_S_ADD, *end, way);
        }
        if (dyn_np_assume(r, dyn_np_op(r, DYN_S_GE, low, dyn_np_int(r, 0))) < 0 ||
            dyn_np_assume(r, dyn_np_op(r, DYN_S_LT, high, dyn_np_node_at(r, s->base)->shape[k])) < 0) {
            return -1;
        }
    }
    return 0;
}

static uint32_t strided_view(DynRec *r, const Steps *s, int ndim, const uint32_t *shape, bool writeable) {
    uint32_t id = dyn_np_affine(r, s->base, ndim, s->start, shape);
    if (id == DYN_NONE) {
        return id;
    }
    DynNode *n = dyn_np_node_at(r, id);
    for (int k = 0; k < dyn_np_node_at(r, s->base)->ndim; k++) {
        for (int i = 0; i < ndim; i++) {
            n->aux[k * ndim + i] = s->step[k][i];
        }
    }
    n->flags &= writeable ? (uint16_t)~DYN_NODE_READONLY : UINT16_MAX;
    return id;
}

static bool is_int(DynRec *r, uint32_t sym) { return dyn_sym_is_const(dyn_rec_syms(r), sym) && dyn_np_hint(r, sym) > 0; }

/* How far into the base the first element lies: whole steps along its axes, from the longest on. It is guarded that it stays so.
 */
static int place_start(DynRec *r, const uint32_t *strides, int rank, uint32_t offset, Steps *s) {
    int64_t left = dyn_np_hint(r, offset);
    uint32_t whole = dyn_np_int(r, 0), done = 0;
    for (int i = 0; i < rank; i++) {
        s->start[i] = whole;
    }
    if (rank == 1 && is_int(r, strides[0])) { /* any offset will do */
        s->start[0] = dyn_np_op(r, DYN_S_FLOORDIV, offset, strides[0]);
        return dyn_np_assume_op(r, DYN_S_EQ, dyn_np_op(r, DYN_S_MOD, offset, strides[0]), 0);
    }
    while (left != 0) {
        int best = -1;
        for (int k = 0; k < rank; k++) {
            int64_t unit = dyn_np_hint(r, strides[k]);
            bool open = !(done >> k & 1u) && unit != 0;
            bool longer = best < 0 || llabs(unit) > llabs(dyn_np_hint(r, strides[best]));
            if (open && longer) {
                best = k;
            }
        }
        if (best < 0) {
            return dyn_np_unsupported(r), -1;
        }
        done |= 1u << best;
        int64_t times = left / dyn_np_hint(r, strides[best]);
        left -= times * dyn_np_hint(r, strides[best]);
        s->start[best] = dyn_np_int(r, times);
        whole = dyn_np_op(r, DYN_S_ADD, whole, dyn_np_op(r, DYN_S_MUL, s->start[best], strides[best]));
    }
    return whole == DYN_NONE || (whole != offset && dyn_rec_assume_equal(r, whole, offset) < 0) ? -1 : 0;
}

/* The operand's strides, under guards that its sizes keep them. */
static int strides_of(DynRec *r, uint32_t a, uint32_t *strides) {
    return dyn_np_hold_sizes(r, a) < 0 ? -1 : dyn_np_strides(r, a, strides);
}

uint32_t dyn_np_strided(DynRec *r, uint32_t a, int ndim, const uint32_t *shape, const uint32_t *wanted, uint32_t offset,
                        bool writeable) {
    uint32_t strides[DYN_MAX_NDIM];
    Steps s = {.base = a};
    int rank = dyn_np_node_at(r, a)->ndim;
    if (rank == 0 || strides_of(r, a, strides) < 0 || place_start(r, strides, rank, offset, &s) < 0) {
        return dyn_np_unsupported(r), DYN_NONE;
    }
    for (int i = 0; i < ndim; i++) {
        if (step_along(r, strides, rank, wanted[i], i, &s) < 0) {
            return DYN_NONE;
        }
    }
    climb(r, &s, ndim);
    return stays_inside(r, &s, ndim, shape) < 0 ? DYN_NONE : strided_view(r, &s, ndim, shape, writeable);
}

DynVal *np_rule_as_strided(DynRec *r, NpCall *c) {
    uint32_t a = c->slot[0].v == NULL ? DYN_NONE : dyn_np_node(r, c->slot[0]);
    uint32_t shape[DYN_MAX_NDIM], wanted[DYN_MAX_NDIM];
    DynOperand items[DYN_MAX_NDIM];
    bool writeable = true, subok = false;
    if (a == DYN_NONE || c->slot[0].v->kind != DV_ARRAY) {
        return dyn_np_unsupported(r);
    }
    if (dyn_np_flag(r, c->slot[3], &subok) < 0 || dyn_np_flag(r, c->slot[4], &writeable) < 0 || strides_of(r, a, wanted) < 0) {
        return dyn_np_unsupported(r);
    }
    int rank = dyn_np_node_at(r, a)->ndim, ndim = rank;
    memcpy(shape, dyn_np_node_at(r, a)->shape, sizeof(*shape) * (size_t)rank);
    if (c->slot[1].v != NULL && (ndim = dyn_np_shape_arg(r, c->slot[1], false, shape)) < 0) {
        return NULL;
    }
    if (c->slot[2].v == NULL ? ndim != rank : dyn_np_items(r, c->slot[2], items, DYN_MAX_NDIM) != ndim) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < ndim && c->slot[2].v != NULL; i++) {
        if ((wanted[i] = dyn_np_int_sym(r, items[i])) == DYN_NONE) {
            return NULL;
        }
    }
    return dyn_np_result(r, dyn_np_strided(r, a, ndim, shape, wanted, dyn_np_int(r, 0), writeable), c->result);
}
