/* rec_numpy_shape.c: functions that give views: axes moved, turned and added, broadcasting, diagonals, windows, other dtypes,
 * pieces of an array. Called through the binding table. */
#include "tracer/numpy/rec_np.h"

/* The operand where it is an array: of NumPy scalars NumPy makes arrays first. */
static uint32_t array_node(DynRec *r, DynOperand o) {
    uint32_t a = dyn_np_node(r, o);
    return a != DYN_NONE && o.v->kind == DV_ARRAY ? a : dyn_np_no_node(r);
}

static int one_axis(DynRec *r, DynOperand o, int ndim) {
    int axes[DYN_MAX_NDIM];
    return o.v != NULL && PyIndex_Check(o.real) && dyn_np_axes(r, o, ndim, axes) == 1 ? axes[0] : (dyn_np_unsupported(r), -1);
}

/* Axes in the order in which they are named, which dyn_np_axes does not keep. -1: refused. */
static int axes_as_named(DynRec *r, DynOperand o, int ndim, int *axes) {
    DynOperand items[DYN_MAX_NDIM];
    int n = 1;
    items[0] = o;
    if (o.v == NULL || (!PyIndex_Check(o.real) && (n = dyn_np_items(r, o, items, DYN_MAX_NDIM)) < 0)) {
        return dyn_np_unsupported(r), -1;
    }
    for (int i = 0; i < n; i++) {
        if ((axes[i] = one_axis(r, items[i], ndim)) < 0) {
            return -1;
        }
    }
    return n;
}

/* ---- axes moved and turned */

/* moveaxis: the axes that aren't named keep their order. */
DynVal *np_rule_moveaxis(DynRec *r, NpCall *c) {
    uint32_t a = array_node(r, c->slot[0]);
    int from[DYN_MAX_NDIM], to[DYN_MAX_NDIM], perm[DYN_MAX_NDIM], ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    int n = a == DYN_NONE ? -1 : axes_as_named(r, c->slot[1], ndim, from);
    if (n < 0 || axes_as_named(r, c->slot[2], ndim, to) != n) {
        return NULL;
    }
    uint32_t moved = 0, taken = 0;
    for (int i = 0; i < n; i++) {
        moved |= 1u << from[i];
        taken |= 1u << to[i];
        perm[to[i]] = from[i];
    }
    for (int i = 0, k = 0; i < ndim; i++) {
        if (taken >> i & 1u) {
            continue;
        }
        while (moved >> k & 1u) {
            k++;
        }
        perm[i] = k++;
    }
    return dyn_np_result(r, dyn_np_permute(r, a, perm), c->result);
}

DynVal *np_rule_rollaxis(DynRec *r, NpCall *c) {
    uint32_t a = array_node(r, c->slot[0]);
    int ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim, perm[DYN_MAX_NDIM], n = 0;
    int axis = a == DYN_NONE ? -1 : one_axis(r, c->slot[1], ndim);
    int start = c->slot[2].v == NULL ? 0 : one_axis(r, c->slot[2], ndim + 1);
    if (axis < 0 || start < 0) {
        return NULL;
    }
    if (c->slot[2].v != NULL && PyNumber_AsSsize_t(c->slot[2].real, NULL) < 0) { /* counted from the rank, not from one more */
        return dyn_np_unsupported(r);
    }
    start -= axis < start;
    for (int i = 0, k = 0; i < ndim; i++) {
        k += k == axis;
        perm[n++] = i == start ? axis : k++;
    }
    return dyn_np_result(r, dyn_np_permute(r, a, perm), c->result);
}

DynVal *np_rule_matrix_transpose(DynRec *r, NpCall *c) {
    uint32_t a = array_node(r, c->slot[0]);
    int ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim, perm[DYN_MAX_NDIM];
    if (ndim < 2) {
        return a == DYN_NONE ? NULL : dyn_np_unsupported(r);
    }
    for (int i = 0; i < ndim; i++) {
        perm[i] = i < ndim - 2 ? i : 2 * ndim - 3 - i;
    }
    return dyn_np_result(r, dyn_np_permute(r, a, perm), c->result);
}

/* flip of the named axes; fliplr (operator 1), flipud (operator 2). */
DynVal *np_rule_flip(DynRec *r, NpCall *c) {
    uint32_t a = array_node(r, c->slot[0]);
    int axes[DYN_MAX_NDIM], n = 1;
    uint32_t mask = 0;
    if (a == DYN_NONE || dyn_np_node_at(r, a)->ndim < (c->b->op == 1 ? 2 : c->b->op == 2)) {
        return a == DYN_NONE ? NULL : dyn_np_unsupported(r);
    }
    axes[0] = c->b->op == 1;
    if (c->b->op == 0 && (n = dyn_np_axes(r, c->slot[1], dyn_np_node_at(r, a)->ndim, axes)) < 0) {
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        mask |= 1u << axes[i];
    }
    return dyn_np_result(r, dyn_np_reversed(r, a, mask), c->result);
}

/* rot90: none, one or two axes turned round, and the two exchanged for odd numbers. */
DynVal *np_rule_rot90(DynRec *r, NpCall *c) {
    uint32_t a = array_node(r, c->slot[0]);
    int axes[DYN_MAX_NDIM] = {0, 1}, perm[DYN_MAX_NDIM], ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    Py_ssize_t turns = 1;
    if (a == DYN_NONE) {
        return NULL;
    }
    if (ndim < 2 || (c->slot[2].v != NULL && axes_as_named(r, c->slot[2], ndim, axes) != 2)) {
        return dyn_np_unsupported(r);
    }
    if (c->slot[1].v != NULL) {
        if (!PyLong_CheckExact(c->slot[1].real) || dyn_rec_burn(r, c->slot[1].v, c->slot[1].real) < 0) {
            return dyn_np_unsupported(r);
        }
        turns = PyNumber_AsSsize_t(c->slot[1].real, NULL);
    }
    turns = (turns % 4 + 4) % 4;
    for (int i = 0; i < ndim; i++) {
        perm[i] = i;
    }
    perm[axes[0]] = axes[1];
    perm[axes[1]] = axes[0];
    uint32_t first = 1u << axes[0], second = 1u << axes[1];
    const uint32_t reversed[] = {0, second, first | second, 0}; /* by the number of turns */
    uint32_t id = dyn_np_reversed(r, a, reversed[turns]);
    if (id != DYN_NONE && (turns & 1)) {
        id = dyn_np_permute(r, id, perm);
    }
    if (id != DYN_NONE && turns == 3) {
        id = dyn_np_reversed(r, id, second);
    }
    return dyn_np_result(r, id, c->result);
}

/* ---- axes added */

/* One array with at least `want` axes: itself where it has them. */
static DynVal *at_least(DynRec *r, DynOperand o, int want, PyObject *result) {
    static const uint32_t added[4][3] = {{0, 0, 0}, {1, 0, 0}, {3, 1, 0}, {7, 5, 4}}; /* by wanted and present rank */
    uint32_t a = array_node(r, o);
    if (a == DYN_NONE) {
        return NULL;
    }
    int ndim = dyn_np_node_at(r, a)->ndim;
    if (ndim >= want) {
        return result == o.real ? o.v : dyn_np_unsupported(r);
    }
    if (ndim == 0) { /* a reshape, as NumPy does it: newaxis would leave steps of 0 */
        uint32_t shape[3] = {dyn_np_int(r, 1), dyn_np_int(r, 1), dyn_np_int(r, 1)};
        return dyn_np_result(r, dyn_np_reshape(r, a, want, shape, false), result);
    }
    return dyn_np_result(r, dyn_np_newaxis(r, a, added[want][ndim], want), result);
}

/* atleast_1d, 2d, 3d of one array, or of several: a tuple. */
DynVal *np_rule_atleast(DynRec *r, NpCall *c) {
    DynVal *items[16];
    if (c->npos == 1 && c->nkw == 0) {
        return at_least(r, c->args[0], c->b->op, c->result);
    }
    bool one_each = PyTuple_CheckExact(c->result) && PyTuple_GET_SIZE(c->result) == c->npos;
    if (c->nkw != 0 || c->npos > (int)DYN_COUNTOF(items) || !one_each) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < c->npos; i++) {
        if ((items[i] = at_least(r, c->args[i], c->b->op, PyTuple_GET_ITEM(c->result, i))) == NULL) {
            return NULL;
        }
    }
    return dyn_rec_seq(r, DV_TUPLE, (uint32_t)c->npos, items, c->result);
}

/* ---- broadcasting */

DynVal *np_rule_broadcast_to(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]), shape[DYN_MAX_NDIM];
    int ndim = a == DYN_NONE ? -1 : dyn_np_shape_arg(r, c->slot[1], false, shape);
    return ndim < 0 ? NULL : dyn_np_result(r, dyn_np_broadcast_view(r, a, ndim, shape), c->result);
}

/* Arrays of one shape are handed back themselves; others as views that warn when they are written. */
DynVal *np_rule_broadcast_arrays(DynRec *r, NpCall *c) {
    uint32_t nodes[16], shape[DYN_MAX_NDIM];
    DynVal *items[16];
    bool fits = c->npos >= 1 && c->npos <= (int)DYN_COUNTOF(items);
    if (!fits || c->nkw != 0 || !PyTuple_CheckExact(c->result)) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < c->npos; i++) {
        if ((nodes[i] = array_node(r, c->args[i])) == DYN_NONE) {
            return NULL;
        }
    }
    int ndim = dyn_np_broadcast(r, nodes, c->npos, shape);
    for (int i = 0; i < c->npos; i++) {
        PyObject *real = ndim < 0 ? NULL : PyTuple_GET_ITEM(c->result, i);
        if (real == c->args[i].real) {
            items[i] = c->args[i].v;
            continue;
        }
        uint32_t id = real == NULL ? DYN_NONE : dyn_np_broadcast_view(r, nodes[i], ndim, shape);
        if (id == DYN_NONE) {
            return NULL;
        }
        dyn_np_node_at(r, id)->flags |= DYN_NODE_WRITE_WARNS;
        if ((items[i] = dyn_np_result(r, id, real)) == NULL) {
            return NULL;
        }
    }
    bool same = true, differ = false; /* one shape at every call, or more than one at every call */
    for (int i = 0; i < c->npos; i++) {
        const DynNode *n = dyn_np_node_at(r, nodes[i]);
        same = same && n->ndim == ndim;
        differ = differ || n->ndim != ndim;
    }
    for (int i = 0; i < c->npos && same; i++) {
        for (int k = 0; k < ndim; k++) {
            differ = differ || dyn_np_hint(r, dyn_np_node_at(r, nodes[i])->shape[k]) != dyn_np_hint(r, shape[k]);
        }
    }
    for (int i = 0; i < c->npos && same && differ; i++) {
        if (dyn_np_hold_sizes(r, nodes[i]) < 0) {
            return NULL;
        }
    }
    return dyn_rec_seq(r, DV_TUPLE, (uint32_t)c->npos, items, c->result);
}

/* ---- diagonals and windows */

uint32_t dyn_np_affine(DynRec *r, uint32_t a, int ndim, const uint32_t *start, const uint32_t *shape) {
    int rank = dyn_np_node_at(r, a)->ndim;
    uint32_t id = dyn_np_add(r, DYN_OP_AFFINE, (DynDtype)dyn_np_node_at(r, a)->dtype, ndim, 1 + rank, rank * ndim);
    if (id == DYN_NONE) {
        return id;
    }
    DynNode *n = dyn_np_node_at(r, id);
    n->args[0] = (DynArg){DYN_ARG_NODE, a};
    for (int k = 0; k < rank; k++) {
        n->args[1 + k] = (DynArg){DYN_ARG_SYM, start[k]};
    }
    memcpy(n->shape, shape, sizeof(*shape) * (size_t)ndim);
    memset(n->aux, 0, sizeof(*n->aux) * (size_t)(rank * ndim));
    n->flags |= DYN_NODE_VIEW | DYN_NODE_READONLY;
    n->storage = dyn_np_node_at(r, a)->storage;
    return id;
}

/* As many elements as fit; where they don't all, the two axes' sizes decide, and a guard says which. */
uint32_t dyn_np_diagonal(DynRec *r, uint32_t a, int axis1, int axis2, uint32_t offset) {
    uint32_t start[DYN_MAX_NDIM], shape[DYN_MAX_NDIM];
    int rank = dyn_np_node_at(r, a)->ndim, ndim = rank - 1;
    if (rank < 2 || axis1 == axis2 || offset == DYN_NONE) {
        return dyn_np_no_node(r);
    }
    bool below = dyn_np_hint(r, offset) < 0;
    if (dyn_np_assume_op(r, below ? DYN_S_LT : DYN_S_GE, offset, 0) < 0) {
        return DYN_NONE;
    }
    uint32_t zero = dyn_np_int(r, 0), away = below ? dyn_np_op(r, DYN_S_SUB, zero, offset) : offset;
    uint32_t rows = dyn_np_node_at(r, a)->shape[axis1], columns = dyn_np_node_at(r, a)->shape[axis2];
    if (below) {
        rows = dyn_np_op(r, DYN_S_SUB, rows, away);
    } else {
        columns = dyn_np_op(r, DYN_S_SUB, columns, away);
    }
    if (rows == DYN_NONE || columns == DYN_NONE) {
        return dyn_np_no_node(r);
    }
    bool fewer = dyn_np_hint(r, rows) < dyn_np_hint(r, columns);
    uint32_t size = fewer ? rows : columns;
    if (rows != columns && dyn_np_assume(r, dyn_np_op(r, fewer ? DYN_S_LT : DYN_S_GE, rows, columns)) < 0) {
        return DYN_NONE;
    }
    bool empty = dyn_np_hint(r, size) <= 0;
    if (dyn_np_assume_op(r, empty ? DYN_S_LE : DYN_S_GT, size, 0) < 0) {
        return DYN_NONE;
    }
    size = empty ? zero : size;
    int n = 0, from[DYN_MAX_NDIM];
    for (int k = 0; k < rank; k++) {
        start[k] = zero;
        if (k != axis1 && k != axis2) {
            from[n] = k;
            shape[n++] = dyn_np_node_at(r, a)->shape[k];
        }
    }
    if (!empty) {
        start[below ? axis1 : axis2] = away;
    }
    shape[n] = size;
    uint32_t id = dyn_np_affine(r, a, ndim, start, shape);
    for (int i = 0; i < n && id != DYN_NONE; i++) {
        dyn_np_node_at(r, id)->aux[from[i] * ndim + i] = 1;
    }
    if (id != DYN_NONE) {
        dyn_np_node_at(r, id)->aux[axis1 * ndim + n] = dyn_np_node_at(r, id)->aux[axis2 * ndim + n] = 1;
    }
    return id;
}

static uint32_t diagonal_of(DynRec *r, uint32_t a, DynOperand offset, DynOperand axis1, DynOperand axis2) {
    int ndim = dyn_np_node_at(r, a)->ndim;
    int x = axis1.v == NULL ? 0 : one_axis(r, axis1, ndim);
    int y = axis2.v == NULL ? 1 : one_axis(r, axis2, ndim);
    uint32_t at = offset.v == NULL ? dyn_np_int(r, 0) : dyn_np_int_sym(r, offset);
    return x < 0 || y < 0 || ndim < 2 ? dyn_np_no_node(r) : dyn_np_diagonal(r, a, x, y, at);
}

DynVal *np_rule_diagonal(DynRec *r, NpCall *c) {
    uint32_t a = array_node(r, c->slot[0]);
    return a == DYN_NONE ? NULL : dyn_np_result(r, diagonal_of(r, a, c->slot[1], c->slot[2], c->slot[3]), c->result);
}

/* The sum of a diagonal. */
DynVal *np_rule_trace(DynRec *r, NpCall *c) {
    uint32_t a = array_node(r, c->slot[0]);
    DynDtype dt = dyn_np_dtype_of(c->result);
    uint32_t d = a == DYN_NONE ? DYN_NONE : diagonal_of(r, a, c->slot[1], c->slot[2], c->slot[3]);
    if (d == DYN_NONE || dt == DYN_NO_DTYPE) {
        return a == DYN_NONE ? NULL : dyn_np_unsupported(r);
    }
    if (c->slot[4].v != NULL && dyn_rec_burn(r, c->slot[4].v, c->slot[4].real) < 0) {
        return dyn_np_unsupported(r);
    }
    int axis = dyn_np_node_at(r, d)->ndim - 1;
    return dyn_np_result(r, dyn_np_reduce(r, DYN_OP_SUM, d, 1, &axis, false, dt), c->result);
}

/* Windows: the axes become as many places as a window has, and the window's sizes follow. */
DynVal *np_rule_windows(DynRec *r, NpCall *c) {
    uint32_t a = array_node(r, c->slot[0]), window[DYN_MAX_NDIM], shape[DYN_MAX_NDIM], start[DYN_MAX_NDIM] = {0};
    int axes[DYN_MAX_NDIM], n = a == DYN_NONE ? -1 : dyn_np_shape_arg(r, c->slot[1], false, window);
    if (n < 0) {
        return NULL;
    }
    int rank = dyn_np_node_at(r, a)->ndim, ndim = rank + n;
    for (int i = 0; i < n; i++) {
        axes[i] = i;
    }
    if (c->slot[2].v == NULL ? n != rank : axes_as_named(r, c->slot[2], rank, axes) != n) {
        return dyn_np_unsupported(r);
    }
    if (ndim > DYN_MAX_NDIM || (c->slot[3].v != NULL && dyn_rec_burn(r, c->slot[3].v, c->slot[3].real) < 0)) {
        return dyn_np_unsupported(r);
    }
    for (int k = 0; k < rank; k++) {
        shape[k] = dyn_np_node_at(r, a)->shape[k];
        start[k] = dyn_np_int(r, 0);
    }
    for (int i = 0; i < n; i++) {
        if (dyn_np_assume(r, dyn_np_op(r, DYN_S_GE, shape[axes[i]], window[i])) < 0) {
            return NULL;
        }
        uint32_t less = dyn_np_op(r, DYN_S_SUB, window[i], dyn_np_int(r, 1));
        shape[axes[i]] = dyn_np_op(r, DYN_S_SUB, shape[axes[i]], less);
        shape[rank + i] = window[i];
        if (shape[axes[i]] == DYN_NONE) {
            return dyn_np_unsupported(r);
        }
    }
    uint32_t id = dyn_np_affine(r, a, ndim, start, shape);
    for (int k = 0; k < rank && id != DYN_NONE; k++) {
        dyn_np_node_at(r, id)->aux[k * ndim + k] = 1;
    }
    for (int i = 0; i < n && id != DYN_NONE; i++) {
        dyn_np_node_at(r, id)->aux[axes[i] * ndim + rank + i] = 1;
    }
    if (id != DYN_NONE && PyArray_ISWRITEABLE((PyArrayObject *)c->result)) {
        return dyn_np_unsupported(r);
    }
    return dyn_np_result(r, id, c->result);
}

/* ---- other dtypes */

/* x.view(dtype) of the same size of elements, x.view(). */
DynVal *np_rule_view(DynRec *r, NpCall *c) {
    uint32_t a = array_node(r, c->slot[0]);
    DynDtype dt = PyArray_CheckExact(c->result) ? dyn_np_dtype_of(c->result) : DYN_NO_DTYPE;
    if (a == DYN_NONE || dt == DYN_NO_DTYPE || dyn_dtypes[dt].size != dyn_dtypes[dyn_np_node_at(r, a)->dtype].size) {
        return a == DYN_NONE ? NULL : dyn_np_unsupported(r);
    }
    if (c->slot[1].v != NULL && dyn_rec_burn(r, c->slot[1].v, c->slot[1].real) < 0) {
        return NULL;
    }
    uint32_t id = dyn_np_unary_node(r, DYN_OP_AS_DTYPE, dt, a, dyn_np_node_at(r, a)->ndim, 1);
    if (id == DYN_NONE) {
        return NULL;
    }
    dyn_np_node_at(r, id)->aux[0] = dt;
    memcpy(dyn_np_node_at(r, id)->shape, dyn_np_node_at(r, a)->shape, sizeof(uint32_t) * dyn_np_node_at(r, a)->ndim);
    return dyn_np_result(r, id, c->result);
}

/* ---- pieces */

#define MAX_PIECES 64

/* The i-th of n pieces: the first size % n of them have one more. */
static DynVal *equal_pieces(DynRec *r, NpCall *c, uint32_t a, int axis, bool even) {
    DynVal *items[MAX_PIECES];
    uint32_t size = dyn_np_node_at(r, a)->shape[axis], at = dyn_np_int(r, 0);
    int n = (int)PyList_GET_SIZE(c->result);
    uint32_t many = dyn_np_int(r, n), least = dyn_np_op(r, DYN_S_FLOORDIV, size, many);
    uint32_t more = dyn_np_op(r, DYN_S_MOD, size, many);
    if (dyn_rec_burn(r, c->slot[1].v, c->slot[1].real) < 0 || more == DYN_NONE) {
        return NULL;
    }
    if (even && dyn_np_assume_op(r, DYN_S_EQ, more, 0) < 0) {
        return NULL;
    }
    if (!even) { /* how many have one more: that is the entry's */
        uint32_t now = dyn_np_int(r, dyn_np_hint(r, more));
        if (dyn_np_assume(r, dyn_np_op(r, DYN_S_EQ, more, now)) < 0) {
            return NULL;
        }
    }
    for (int i = 0; i < n; i++) {
        uint32_t length = i < dyn_np_hint(r, more) ? dyn_np_op(r, DYN_S_ADD, least, dyn_np_int(r, 1)) : least;
        uint32_t next = dyn_np_op(r, DYN_S_ADD, at, length);
        uint32_t id = next == DYN_NONE ? dyn_np_no_node(r) : dyn_np_range_view(r, a, axis, at, next);
        if ((items[i] = dyn_np_result(r, id, PyList_GET_ITEM(c->result, i))) == NULL) {
            return NULL;
        }
        at = next;
    }
    return dyn_rec_seq(r, DV_LIST, (uint32_t)n, items, c->result);
}

uint32_t dyn_np_piece(DynRec *r, uint32_t a, int axis, uint32_t from, uint32_t to) {
    DynSyms *t = dyn_rec_syms(r);
    uint32_t size = dyn_np_node_at(r, a)->shape[axis], one = dyn_np_int(r, 1);
    uint32_t stop = to == DYN_NONE ? size : dyn_sym_op(t, DYN_S_SLICE_STOP, to, size, one);
    uint32_t start = stop == DYN_NONE ? DYN_NONE : dyn_sym_op(t, DYN_S_SLICE_START, from, size, one);
    if (start == DYN_NONE) {
        return dyn_np_no_node(r);
    }
    uint32_t end = dyn_np_hint(r, stop) < dyn_np_hint(r, start) ? start : stop;
    if (dyn_np_assume(r, dyn_np_op(r, end == stop ? DYN_S_LE : DYN_S_GT, start, stop)) < 0) {
        return DYN_NONE;
    }
    return dyn_np_range_view(r, a, axis, start, end);
}

/* Pieces between given places. */
static DynVal *pieces_at(DynRec *r, NpCall *c, uint32_t a, int axis) {
    DynVal *items[MAX_PIECES];
    DynOperand places[MAX_PIECES];
    uint32_t from = dyn_np_int(r, 0);
    int n = dyn_np_items(r, c->slot[1], places, MAX_PIECES - 1);
    if (n < 0 || PyList_GET_SIZE(c->result) != n + 1) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i <= n; i++) {
        uint32_t to = i == n ? DYN_NONE : dyn_np_int_sym(r, places[i]);
        uint32_t id = i < n && to == DYN_NONE ? DYN_NONE : dyn_np_piece(r, a, axis, from, to);
        if ((items[i] = dyn_np_result(r, id, PyList_GET_ITEM(c->result, i))) == NULL) {
            return NULL;
        }
        from = to;
    }
    return dyn_rec_seq(r, DV_LIST, (uint32_t)n + 1, items, c->result);
}

/* The axis that is split where none is named. */
static int axis_of_split(int op, int ndim) {
    if (op == 2) {
        return ndim > 1;
    }
    return op == 4 ? 2 : 0;
}

/* array_split (operator 0), split (1), hsplit (2), vsplit (3), dsplit (4). */
DynVal *np_rule_split(DynRec *r, NpCall *c) {
    uint32_t a = array_node(r, c->slot[0]);
    if (a == DYN_NONE) {
        return NULL;
    }
    int op = c->b->op, ndim = dyn_np_node_at(r, a)->ndim, axis = axis_of_split(op, ndim);
    bool pieces = PyList_CheckExact(c->result) && PyList_GET_SIZE(c->result) <= MAX_PIECES;
    if (axis >= ndim || c->slot[1].v == NULL || !pieces) {
        return dyn_np_unsupported(r);
    }
    if (op <= 1 && c->slot[2].v != NULL && (axis = one_axis(r, c->slot[2], ndim)) < 0) {
        return NULL;
    }
    return PyLong_CheckExact(c->slot[1].real) ? equal_pieces(r, c, a, axis, op != 0) : pieces_at(r, c, a, axis);
}

/* unstack: a tuple of what lies at each place of an axis. */
DynVal *np_rule_unstack(DynRec *r, NpCall *c) {
    uint32_t a = array_node(r, c->slot[0]);
    DynVal *items[MAX_PIECES];
    int ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim, axis = 0;
    if (ndim == 0 || !PyTuple_CheckExact(c->result) || PyTuple_GET_SIZE(c->result) > MAX_PIECES) {
        return a == DYN_NONE ? NULL : dyn_np_unsupported(r);
    }
    int n = (int)PyTuple_GET_SIZE(c->result);
    if ((c->slot[1].v != NULL && (axis = one_axis(r, c->slot[1], ndim)) < 0) ||
        dyn_np_assume_op(r, DYN_S_EQ, dyn_np_node_at(r, a)->shape[axis], n) < 0) {
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        if ((items[i] = dyn_np_result(r, dyn_np_pick(r, a, axis, dyn_np_int(r, i)), PyTuple_GET_ITEM(c->result, i))) == NULL) {
            return NULL;
        }
    }
    return dyn_rec_seq(r, DV_TUPLE, (uint32_t)n, items, c->result);
}
