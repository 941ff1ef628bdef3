/* rec_numpy_join.c: new arrays put together from parts: concatenate and its family, repeat, tile, roll, pad, insert, delete.
 * Called through the binding table. Each is an array without values into whose ranges the parts are stored, or a copy of a view.
 */
#include "tracer/numpy/rec_np.h"

/* The arrays of a list or tuple. A lone array, which stands for its rows, isn't taken. */
static int joined_nodes(DynRec *r, DynOperand o, uint32_t *nodes) {
    DynOperand items[NP_MAX_JOINED];
    int n = o.v == NULL ? -1 : dyn_np_items(r, o, items, NP_MAX_JOINED);
    for (int i = 0; i < n; i++) {
        if ((nodes[i] = dyn_np_node(r, items[i])) == DYN_NONE) {
            return -1;
        }
    }
    return n < 1 ? (dyn_np_unsupported(r), -1) : n;
}

static int one_axis(DynRec *r, DynOperand o, int ndim, int *axis) {
    *axis = 0;
    if (o.v == NULL) {
        return 0;
    }
    return PyIndex_Check(o.real) && dyn_np_axes(r, o, ndim, axis) == 1 ? 0 : (dyn_np_unsupported(r), -1);
}

/* Was an argument of that name given as None? */
static bool given_none(const NpCall *c, int position, const char *name) {
    if (position < c->npos) {
        return c->args[position].real == Py_None;
    }
    for (int i = 0; i < c->nkw; i++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, i), name) == 0) {
            return c->args[c->npos + i].real == Py_None;
        }
    }
    return false;
}

/* ---- concatenate */

/* The sizes of the whole: parts agree but along the axis. */
static int joined_shape(DynRec *r, const uint32_t *nodes, int n, int axis, uint32_t *shape) {
    int ndim = dyn_np_node_at(r, nodes[0])->ndim;
    memcpy(shape, dyn_np_node_at(r, nodes[0])->shape, sizeof(*shape) * (size_t)ndim);
    for (int i = 1; i < n; i++) {
        const DynNode *a = dyn_np_node_at(r, nodes[i]);
        if (a->ndim != ndim) {
            return -1;
        }
        for (int k = 0; k < ndim; k++) {
            if (k != axis &&
                (dyn_np_hint(r, shape[k]) != dyn_np_hint(r, a->shape[k]) || dyn_rec_assume_equal(r, shape[k], a->shape[k]) < 0)) {
                return -1;
            }
        }
        shape[axis] = dyn_np_op(r, DYN_S_ADD, shape[axis], a->shape[axis]);
    }
    return axis < ndim && shape[axis] != DYN_NONE ? ndim : -1;
}

static int store_parts(DynRec *r, uint32_t into, const uint32_t *nodes, int n, int axis) {
    uint32_t at = dyn_np_int(r, 0);
    for (int i = 0; i < n; i++) {
        uint32_t next = dyn_np_op(r, DYN_S_ADD, at, dyn_np_node_at(r, nodes[i])->shape[axis]);
        uint32_t view = next == DYN_NONE ? DYN_NONE : dyn_np_range_view(r, into, axis, at, next);
        if (view == DYN_NONE || dyn_np_store(r, view, dyn_np_node_arg(r, nodes[i])) < 0) {
            return -1;
        }
        at = next;
    }
    return 0;
}

uint32_t dyn_np_join(DynRec *r, const uint32_t *nodes, int n, int axis, DynDtype dt) {
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = joined_shape(r, nodes, n, axis, shape);
    uint32_t id = ndim < 0 ? dyn_np_no_node(r) : dyn_np_full(r, dt, ndim, shape, (DynArg){DYN_ARG_NONE, DYN_NONE});
    return id == DYN_NONE || store_parts(r, id, nodes, n, axis) < 0 ? DYN_NONE : id;
}

/* The whole as eager laid it out: a C order is that at every size; another one rests on the sizes. */
static DynVal *joined(DynRec *r, const uint32_t *nodes, int n, int axis, DynOperand out, PyObject *result) {
    uint32_t shape[DYN_MAX_NDIM];
    if (!PyArray_CheckExact(result)) {
        return dyn_np_unsupported(r);
    }
    if (out.v != NULL) {
        uint32_t into = dyn_np_node(r, out);
        int ndim = into == DYN_NONE || out.real != result ? -1 : joined_shape(r, nodes, n, axis, shape);
        for (int i = 0; i < n && ndim >= 0; i++) {
            if (dyn_np_node_at(r, nodes[i])->storage == dyn_np_node_at(r, into)->storage) { /* NumPy reads while it writes */
                ndim = -1;
            }
        }
        for (int k = 0; k < ndim; k++) {
            if (dyn_rec_assume_equal(r, dyn_np_node_at(r, into)->shape[k], shape[k]) < 0) {
                return NULL;
            }
        }
        return ndim < 0 || store_parts(r, into, nodes, n, axis) < 0 ? dyn_np_unsupported(r) : out.v;
    }
    uint32_t id = dyn_np_join(r, nodes, n, axis, dyn_np_dtype_of(result));
    bool c_order = true;
    for (int i = 0; i < n; i++) {
        c_order = c_order && dyn_np_always_c(r, nodes[i]);
    }
    return id == DYN_NONE || (!c_order && dyn_np_hold_sizes(r, id) < 0) ? NULL : dyn_np_result(r, id, result);
}

DynVal *dyn_np_joined(DynRec *r, const uint32_t *nodes, int n, int axis, PyObject *result) {
    return joined(r, nodes, n, axis, (DynOperand){NULL, NULL}, result);
}

static int raise_to(DynRec *r, uint32_t *nodes, int n, int rank, uint32_t mask) {
    for (int i = 0; i < n; i++) {
        if (dyn_np_node_at(r, nodes[i])->ndim < rank && (nodes[i] = dyn_np_newaxis(r, nodes[i], mask, rank)) == DYN_NONE) {
            return -1;
        }
    }
    return 0;
}

/* concatenate (operator 0), hstack (1), vstack (2), dstack (3), column_stack (4). The signature of the first is "arrays axis out
 * dtype casting", that of the others "arrays dtype casting". */
DynVal *np_rule_join(DynRec *r, NpCall *c) {
    uint32_t nodes[NP_MAX_JOINED];
    DynOperand absent = {NULL, NULL};
    int op = c->b->op, axis = 0, n = joined_nodes(r, c->slot[0], nodes), least = 8;
    if (n < 0 || dyn_np_burn_rest(r, c, op == 0 ? 3 : 1) < 0) {
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        least = dyn_np_node_at(r, nodes[i])->ndim < least ? dyn_np_node_at(r, nodes[i])->ndim : least;
    }
    int ndim = dyn_np_node_at(r, nodes[0])->ndim;
    switch (op) {
    case 0:
        if (given_none(c, 1, "axis")) {
            for (int i = 0; i < n; i++) {
                if ((nodes[i] = dyn_np_ravel(r, nodes[i])) == DYN_NONE) {
                    return NULL;
                }
            }
        } else if (one_axis(r, c->slot[1], ndim, &axis) < 0) {
            return NULL;
        }
        return joined(r, nodes, n, axis, c->slot[2], c->result);
    case 1: axis = ndim > 1; break;
    case 2: axis = 0; break;
    case 3: axis = 2; break;
    default: axis = 1;
    }
    if (least == 0 && raise_to(r, nodes, n, 1, 1) < 0) {
        return NULL;
    }
    if (op == 2 && raise_to(r, nodes, n, 2, 1) < 0) {
        return NULL;
    }
    if (op == 4 && raise_to(r, nodes, n, 2, 2) < 0) {
        return NULL;
    }
    for (int i = 0; i < n && op == 3; i++) { /* atleast_3d */
        int rank = dyn_np_node_at(r, nodes[i])->ndim;
        if (rank < 3 && (nodes[i] = dyn_np_newaxis(r, nodes[i], rank == 1 ? 5 : 4, 3)) == DYN_NONE) {
            return NULL;
        }
    }
    return joined(r, nodes, n, axis, absent, c->result);
}

DynVal *np_rule_stack(DynRec *r, NpCall *c) {
    uint32_t nodes[NP_MAX_JOINED];
    int axis = 0, n = joined_nodes(r, c->slot[0], nodes);
    if (n < 0 || dyn_np_burn_rest(r, c, 3) < 0) {
        return NULL;
    }
    int ndim = dyn_np_node_at(r, nodes[0])->ndim;
    if (ndim >= DYN_MAX_NDIM || one_axis(r, c->slot[1], ndim + 1, &axis) < 0) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < n; i++) {
        if (dyn_np_node_at(r, nodes[i])->ndim != ndim ||
            (nodes[i] = dyn_np_newaxis(r, nodes[i], 1u << axis, ndim + 1)) == DYN_NONE) {
            return dyn_np_unsupported(r);
        }
    }
    return joined(r, nodes, n, axis, c->slot[2], c->result);
}

static bool is_number(PyObject *o) { return PyLong_CheckExact(o) || PyFloat_CheckExact(o); }

uint32_t dyn_np_one_number(DynRec *r, DynOperand o, DynDtype dt) {
    uint32_t one = dyn_np_int(r, 1);
    NpArg value;
    if (dt == DYN_NO_DTYPE || dyn_np_operand(r, o, &value) < 0 || value.arg.kind != DYN_ARG_SYM) {
        return dyn_np_no_node(r);
    }
    bool truncates = value.code == NP_WEAK_FLOAT && dyn_dtypes[dt].kind != 'f';
    if (truncates || dyn_np_convert_guard(r, value.arg.id, dt) < 0) {
        return dyn_np_no_node(r);
    }
    return dyn_np_full(r, dt, 1, &one, value.arg);
}

/* append: concatenate of two, of all their elements where no axis is given. */
DynVal *np_rule_append(DynRec *r, NpCall *c) {
    uint32_t nodes[2];
    DynOperand absent = {NULL, NULL};
    int axis = 0;
    bool flat = c->slot[2].v == NULL, number = c->slot[1].v != NULL && is_number(c->slot[1].real);
    for (int i = 0; i < 2; i++) {
        if (i == 1 && flat && number) {
            nodes[1] = dyn_np_one_number(r, c->slot[1], dyn_np_dtype_of(c->result));
            break;
        }
        nodes[i] = c->slot[i].v == NULL ? dyn_np_no_node(r) : dyn_np_node(r, c->slot[i]);
        if (nodes[i] == DYN_NONE || (flat && (nodes[i] = dyn_np_ravel(r, nodes[i])) == DYN_NONE)) {
            return NULL;
        }
    }
    if (nodes[1] == DYN_NONE) {
        return NULL;
    }
    return one_axis(r, c->slot[2], dyn_np_node_at(r, nodes[0])->ndim, &axis) < 0 ? NULL
                                                                                 : joined(r, nodes, 2, axis, absent, c->result);
}

/* block: lists in lists, the innermost joined along the last axis. */
static int block_depth(DynOperand o) {
    PyObject *x = o.real;
    int depth = 0;
    for (; PyList_CheckExact(x) && PyList_GET_SIZE(x) > 0; depth++) {
        x = PyList_GET_ITEM(x, 0);
    }
    return depth;
}

static uint32_t block_node(DynRec *r, DynOperand o, int depth, int ndim, DynDtype dt) {
    DynOperand items[16];
    uint32_t nodes[16];
    if (depth == 0) {
        uint32_t a = dyn_np_node(r, o);
        int have = a == DYN_NONE ? ndim : dyn_np_node_at(r, a)->ndim;
        return have == ndim ? a : dyn_np_newaxis(r, a, (1u << (ndim - have)) - 1, ndim);
    }
    int n = PyList_CheckExact(o.real) ? dyn_np_items(r, o, items, 16) : -1;
    for (int i = 0; i < n; i++) {
        if ((nodes[i] = block_node(r, items[i], depth - 1, ndim, dt)) == DYN_NONE) {
            return DYN_NONE;
        }
    }
    return n < 1 ? dyn_np_no_node(r) : dyn_np_join(r, nodes, n, ndim - depth, dt);
}

DynVal *np_rule_block(DynRec *r, NpCall *c) {
    int depth = c->slot[0].v == NULL ? 0 : block_depth(c->slot[0]);
    if (depth == 0 || !PyArray_CheckExact(c->result) || !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)c->result)) {
        return dyn_np_unsupported(r);
    }
    int ndim = PyArray_NDIM((PyArrayObject *)c->result);
    uint32_t id = ndim > DYN_MAX_NDIM ? dyn_np_no_node(r) : block_node(r, c->slot[0], depth, ndim, dyn_np_dtype_of(c->result));
    return id == DYN_NONE || dyn_np_hold_sizes(r, id) < 0 ? NULL : dyn_np_result(r, id, c->result);
}

/* ---- repeat, tile */

static uint32_t count(DynRec *r, DynOperand o) {
    uint32_t n = o.v == NULL || !PyLong_CheckExact(o.real) ? dyn_np_no_node(r) : dyn_np_int_sym(r, o);
    return n == DYN_NONE || dyn_np_assume_op(r, DYN_S_GE, n, 0) < 0 ? DYN_NONE : n;
}

/* A copy, under these sizes, of a view that shows elements more than once; the array owns its bytes. */
static uint32_t spread_copy(DynRec *r, uint32_t a, int rank, const uint32_t *spread, int ndim, const uint32_t *shape) {
    uint32_t id = dyn_np_broadcast_view(r, a, rank, spread);
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == DYN_NONE) {
            return dyn_np_no_node(r);
        }
    }
    return id == DYN_NONE ? id : dyn_np_reshape_view(r, id, ndim, shape, DYN_NODE_CONTIG_COPY);
}

/* repeat by one number: each element stands next to itself along a new axis, which is then joined to its own. */
DynVal *np_rule_repeat(DynRec *r, NpCall *c) {
    uint32_t a = c->slot[0].v == NULL ? dyn_np_no_node(r) : dyn_np_node(r, c->slot[0]), n = count(r, c->slot[1]);
    uint32_t spread[DYN_MAX_NDIM], shape[DYN_MAX_NDIM];
    int axis = 0, ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    bool flat = c->slot[2].v == NULL;
    if (a == DYN_NONE || n == DYN_NONE) {
        return dyn_np_unsupported(r);
    }
    if (ndim >= DYN_MAX_NDIM || one_axis(r, c->slot[2], ndim, &axis) < 0) {
        return dyn_np_unsupported(r);
    }
    axis = flat ? ndim : axis + 1; /* of the new axis */
    for (int i = 0, k = 0; i <= ndim; i++) {
        spread[i] = i == axis ? n : dyn_np_node_at(r, a)->shape[k];
        if (!flat && i != axis) {
            shape[k] = i == axis - 1 ? dyn_np_op(r, DYN_S_MUL, spread[i], n) : spread[i];
        }
        k += i != axis;
    }
    if (flat) {
        shape[0] = dyn_np_op(r, DYN_S_MUL, dyn_np_product(r, ndim, dyn_np_node_at(r, a)->shape), n);
    }
    a = dyn_np_newaxis(r, a, 1u << axis, ndim + 1);
    if (a == DYN_NONE) {
        return NULL;
    }
    return dyn_np_result(r, spread_copy(r, a, ndim + 1, spread, flat ? 1 : ndim, shape), c->result);
}

/* tile: a new axis before each. NumPy reshapes what it made at the end, so the result is a view. */
DynVal *np_rule_tile(DynRec *r, NpCall *c) {
    uint32_t a = c->slot[0].v == NULL ? dyn_np_no_node(r) : dyn_np_node(r, c->slot[0]), times[DYN_MAX_NDIM];
    uint32_t spread[2 * DYN_MAX_NDIM], shape[DYN_MAX_NDIM], fresh = 0;
    int nreps = a == DYN_NONE ? -1 : dyn_np_shape_arg(r, c->slot[1], false, times);
    int have = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    int ndim = nreps > have ? nreps : have;
    bool once = true;
    if (nreps < 0 || 2 * ndim > DYN_MAX_NDIM || c->slot[0].v->kind != DV_ARRAY) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < nreps; i++) {
        bool one = dyn_np_hint(r, times[i]) == 1;
        if (dyn_np_assume_op(r, one ? DYN_S_EQ : DYN_S_NE, times[i], 1) < 0) {
            return NULL;
        }
        once = once && one;
    }
    if (once || ndim == 0) {
        return dyn_np_unsupported(r);
    }
    bool empty = false;
    for (int i = 0; i < have; i++) {
        empty = empty || dyn_np_hint(r, dyn_np_node_at(r, a)->shape[i]) == 0;
    }
    for (int i = 0; i < have; i++) {
        bool zero = dyn_np_hint(r, dyn_np_node_at(r, a)->shape[i]) == 0;
        if (zero == empty && dyn_np_assume_op(r, zero ? DYN_S_EQ : DYN_S_GT, dyn_np_node_at(r, a)->shape[i], 0) < 0) {
            return NULL;
        }
    }
    for (int i = 0; i < ndim; i++) {
        uint32_t size = i < ndim - have ? dyn_np_int(r, 1) : dyn_np_node_at(r, a)->shape[i - (ndim - have)];
        spread[2 * i] = i < ndim - nreps ? dyn_np_int(r, 1) : times[i - (ndim - nreps)];
        spread[2 * i + 1] = size;
        shape[i] = dyn_np_op(r, DYN_S_MUL, spread[2 * i], size);
        fresh |= 1u << (2 * i) | (i < ndim - have ? 2u << (2 * i) : 0);
    }
    if (empty) { /* nothing to repeat: the operand reshaped */
        return dyn_np_result(r, dyn_np_reshape_view(r, a, ndim, shape, DYN_NODE_VIEW), c->result);
    }
    uint32_t total = dyn_np_product(r, ndim, shape);
    a = total == DYN_NONE ? dyn_np_no_node(r) : dyn_np_newaxis(r, a, fresh, 2 * ndim);
    uint32_t id = a == DYN_NONE ? a : spread_copy(r, a, 2 * ndim, spread, 1, &total);
    return id == DYN_NONE ? NULL : dyn_np_result(r, dyn_np_reshape_view(r, id, ndim, shape, DYN_NODE_VIEW), c->result);
}

/* ---- roll */

/* Two ranges change places: the first `shift` places get what stood at the end. */
static uint32_t rolled(DynRec *r, uint32_t a, int axis, uint32_t shift) {
    uint32_t size = dyn_np_node_at(r, a)->shape[axis], zero = dyn_np_int(r, 0), nodes[2];
    bool empty = dyn_np_hint(r, size) == 0;
    if (dyn_np_assume_op(r, empty ? DYN_S_EQ : DYN_S_GT, size, 0) < 0) {
        return DYN_NONE;
    }
    uint32_t by = empty ? zero : dyn_np_op(r, DYN_S_MOD, shift, size), left = dyn_np_op(r, DYN_S_SUB, size, by);
    if (left == DYN_NONE) {
        return dyn_np_no_node(r);
    }
    uint32_t from[2] = {left, zero}, to[2] = {size, left}, length[2] = {by, left};
    for (int i = 0; i < 2; i++) {
        if ((nodes[i] = dyn_np_range_view(r, a, axis, from[i], to[i])) == DYN_NONE) {
            return DYN_NONE;
        }
        dyn_np_node_at(r, nodes[i])->shape[axis] = length[i];
    }
    uint32_t shape[DYN_MAX_NDIM];
    memcpy(shape, dyn_np_node_at(r, a)->shape, sizeof(uint32_t) * dyn_np_node_at(r, a)->ndim);
    DynArg nothing = {DYN_ARG_NONE, DYN_NONE};
    uint32_t id = dyn_np_full(r, (DynDtype)dyn_np_node_at(r, a)->dtype, dyn_np_node_at(r, a)->ndim, shape, nothing);
    uint32_t at[3] = {zero, by, size};
    for (int i = 0; i < 2 && id != DYN_NONE; i++) {
        uint32_t view = dyn_np_range_view(r, id, axis, at[i], at[i + 1]);
        if (view == DYN_NONE) {
            return view;
        }
        dyn_np_node_at(r, view)->shape[axis] = length[i];
        if (dyn_np_store(r, view, dyn_np_node_arg(r, nodes[i])) < 0) {
            return DYN_NONE;
        }
    }
    return id;
}

/* roll along one axis or several, each by its number; without an axis, of all elements in a row. */
DynVal *np_rule_roll(DynRec *r, NpCall *c) {
    uint32_t a = c->slot[0].v == NULL ? dyn_np_no_node(r) : dyn_np_node(r, c->slot[0]), id = a;
    DynOperand shifts[DYN_MAX_NDIM], axes[DYN_MAX_NDIM];
    int n = 1, ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    if (ndim == 0 || c->slot[1].v == NULL || c->slot[0].v->kind != DV_ARRAY) {
        return dyn_np_unsupported(r);
    }
    shifts[0] = c->slot[1];
    axes[0] = c->slot[2];
    if (c->slot[2].v == NULL) {
        uint32_t shape[DYN_MAX_NDIM], shift = PyLong_CheckExact(shifts[0].real) ? dyn_np_int_sym(r, shifts[0]) : DYN_NONE;
        memcpy(shape, dyn_np_node_at(r, a)->shape, sizeof(uint32_t) * (size_t)ndim);
        id = shift == DYN_NONE ? dyn_np_no_node(r) : dyn_np_ravel(r, a);
        id = id == DYN_NONE ? id : rolled(r, id, 0, shift);
        return id == DYN_NONE ? NULL : dyn_np_result(r, dyn_np_reshape(r, id, ndim, shape, false), c->result);
    }
    bool several = PyTuple_CheckExact(c->slot[2].real);
    if (several && (n = dyn_np_items(r, c->slot[2], axes, DYN_MAX_NDIM)) < 1) {
        return dyn_np_unsupported(r);
    }
    if (several != PyTuple_CheckExact(c->slot[1].real) || (several && dyn_np_items(r, c->slot[1], shifts, DYN_MAX_NDIM) != n)) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < n; i++) {
        int axis;
        uint32_t shift = PyLong_CheckExact(shifts[i].real) ? dyn_np_int_sym(r, shifts[i]) : dyn_np_no_node(r);
        if (shift == DYN_NONE || one_axis(r, axes[i], ndim, &axis) < 0 || (id = rolled(r, id, axis, shift)) == DYN_NONE) {
            return NULL;
        }
    }
    return dyn_np_order_guards(r, (DynOperand){NULL, NULL}, a) < 0 ? NULL : dyn_np_result(r, id, c->result);
}

/* ---- pad, insert, delete: a new array is Fortran's where the operand is Fortran-contiguous and not C-contiguous */

static int follow_order(DynRec *r, uint32_t a, uint32_t id) {
    if (dyn_np_node_at(r, a)->ndim < 2 || dyn_np_always_c(r, a)) {
        return 0;
    }
    int c = dyn_np_contiguous(r, a, false), f = c == 0 ? dyn_np_contiguous(r, a, true) : 0;
    return c < 0 || f < 0 || dyn_np_hold_sizes(r, id) < 0 ? -1 : 0;
}

/* pad_width for each axis: n, (before, after) for all, or a pair for each. */
static int pad_widths(DynRec *r, DynOperand o, int ndim, uint32_t (*width)[2]) {
    DynOperand items[DYN_MAX_NDIM], pair[2];
    bool number = o.v != NULL && PyLong_CheckExact(o.real);
    int n = o.v == NULL ? -1 : 0;
    if (n == 0 && !number) {
        n = dyn_np_items(r, o, items, DYN_MAX_NDIM);
    }
    bool pairs = n > 0 && !PyLong_CheckExact(items[0].real);
    bool fits = pairs ? n == ndim || n == 1 : n <= 2;
    if (n < 0 || !fits) {
        return -1;
    }
    for (int i = 0; i < ndim; i++) {
        if (pairs && dyn_np_items(r, items[n == 1 ? 0 : i], pair, 2) != 2) {
            return -1;
        }
        for (int k = 0; k < 2; k++) {
            DynOperand w = o;
            if (pairs) {
                w = pair[k];
            } else if (n > 0) {
                w = items[n == 1 ? 0 : k];
            }
            if ((width[i][k] = count(r, w)) == DYN_NONE) {
                return -1;
            }
        }
    }
    return 0;
}

/* The ranges of `axis` before, in and behind what was there; axes up to `done` are whole, those behind it as they were. */
static uint32_t pad_range(DynRec *r, uint32_t id, uint32_t (*width)[2], const uint32_t *old, int axis, uint32_t from,
                          uint32_t to) {
    uint32_t view = dyn_np_range_view(r, id, axis, from, to);
    for (int k = axis + 1; k < dyn_np_node_at(r, id)->ndim && view != DYN_NONE; k++) {
        view = dyn_np_range_view(r, view, k, width[k][0], dyn_np_op(r, DYN_S_ADD, width[k][0], old[k]));
    }
    return view;
}

/* mode="edge": what stands next to the border is spread over it, axis by axis. */
static int pad_edges(DynRec *r, uint32_t id, uint32_t (*width)[2], const uint32_t *old) {
    uint32_t zero = dyn_np_int(r, 0), one = dyn_np_int(r, 1);
    for (int axis = 0; axis < dyn_np_node_at(r, id)->ndim; axis++) {
        uint32_t begin = width[axis][0], end = dyn_np_op(r, DYN_S_ADD, begin, old[axis]),
                 size = dyn_np_node_at(r, id)->shape[axis];
        uint32_t inner = dyn_np_op(r, DYN_S_SUB, end, one), next = dyn_np_op(r, DYN_S_ADD, begin, one);
        if (dyn_np_assume_op(r, DYN_S_GT, old[axis], 0) < 0 || inner == DYN_NONE || next == DYN_NONE) {
            return -1;
        }
        uint32_t edge[2][2] = {{begin, next}, {inner, end}}, to[2][2] = {{zero, begin}, {end, size}};
        for (int k = 0; k < 2; k++) {
            uint32_t from = pad_range(r, id, width, old, axis, edge[k][0], edge[k][1]);
            uint32_t into = from == DYN_NONE ? from : pad_range(r, id, width, old, axis, to[k][0], to[k][1]);
            if (into == DYN_NONE) {
                return -1;
            }
            dyn_np_node_at(r, from)->shape[axis] = one;
            dyn_np_node_at(r, into)->shape[axis] = width[axis][k];
            if (dyn_np_store(r, into, dyn_np_node_arg(r, from)) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* pad with one number, or with what stands at the edge. */
DynVal *np_rule_pad(DynRec *r, NpCall *c) {
    uint32_t a = c->slot[0].v == NULL ? dyn_np_no_node(r) : dyn_np_node(r, c->slot[0]), width[DYN_MAX_NDIM][2];
    uint32_t shape[DYN_MAX_NDIM], old[DYN_MAX_NDIM];
    DynOperand mode = c->slot[2], value = c->slot[3];
    NpArg fill = {{DYN_ARG_SYM, dyn_np_int(r, 0)}, NP_WEAK_INT};
    if (a == DYN_NONE || c->slot[0].v->kind != DV_ARRAY) {
        return dyn_np_unsupported(r);
    }
    if (mode.v != NULL && dyn_rec_burn(r, mode.v, mode.real) < 0) {
        return dyn_np_unsupported(r);
    }
    bool constant =
        mode.v == NULL || (PyUnicode_Check(mode.real) && PyUnicode_CompareWithASCIIString(mode.real, "constant") == 0);
    bool edge = !constant && PyUnicode_Check(mode.real) && PyUnicode_CompareWithASCIIString(mode.real, "edge") == 0;
    int ndim = dyn_np_node_at(r, a)->ndim;
    DynDtype dt = (DynDtype)dyn_np_node_at(r, a)->dtype;
    bool known = constant || (edge && value.v == NULL);
    if (!known || pad_widths(r, c->slot[1], ndim, width) < 0) {
        return dyn_np_unsupported(r);
    }
    if (value.v != NULL && (!is_number(value.real) || dyn_np_operand(r, value, &fill) < 0)) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < ndim; i++) {
        old[i] = dyn_np_node_at(r, a)->shape[i];
        shape[i] = dyn_np_op(r, DYN_S_ADD, dyn_np_op(r, DYN_S_ADD, width[i][0], old[i]), width[i][1]);
    }
    uint32_t id = dyn_np_full(r, dt, ndim, shape, (DynArg){DYN_ARG_NONE, DYN_NONE}), inner = id;
    if (id == DYN_NONE || (constant && dyn_np_store(r, id, fill) < 0)) {
        return NULL;
    }
    for (int i = 0; i < ndim && inner != DYN_NONE; i++) {
        inner = dyn_np_range_view(r, inner, i, width[i][0], dyn_np_op(r, DYN_S_ADD, width[i][0], old[i]));
        if (inner != DYN_NONE) {
            dyn_np_node_at(r, inner)->shape[i] = old[i];
        }
    }
    if (inner == DYN_NONE || dyn_np_store(r, inner, dyn_np_node_arg(r, a)) < 0) {
        return NULL;
    }
    if ((edge && pad_edges(r, id, width, old) < 0) || follow_order(r, a, id) < 0) {
        return NULL;
    }
    return dyn_np_result(r, id, c->result);
}

uint32_t dyn_np_place(DynRec *r, DynOperand o, uint32_t size, bool all) {
    uint32_t at = o.v == NULL || !PyLong_CheckExact(o.real) ? dyn_np_no_node(r) : dyn_np_int_sym(r, o);
    bool back = at != DYN_NONE && dyn_np_hint(r, at) < 0;
    if (at == DYN_NONE || dyn_np_assume_op(r, back ? DYN_S_LT : DYN_S_GE, at, 0) < 0) {
        return DYN_NONE;
    }
    at = back ? dyn_np_op(r, DYN_S_ADD, at, size) : at;
    if (at == DYN_NONE || dyn_np_assume_op(r, DYN_S_GE, at, 0) < 0 ||
        dyn_np_assume(r, dyn_np_op(r, all ? DYN_S_LE : DYN_S_LT, at, size)) < 0) {
        return DYN_NONE;
    }
    return at;
}

/* insert of one number (operator 0) and delete (operator 1) at one place. */
DynVal *np_rule_insert(DynRec *r, NpCall *c) {
    uint32_t a = c->slot[0].v == NULL ? dyn_np_no_node(r) : dyn_np_node(r, c->slot[0]), nodes[3], one = dyn_np_int(r, 1);
    bool insert = c->b->op == 0;
    DynOperand axis_arg = c->slot[insert ? 3 : 2];
    NpArg value;
    int axis = 0, n = 0;
    if (a == DYN_NONE || c->slot[0].v->kind != DV_ARRAY || !PyArray_CheckExact(c->result)) {
        return dyn_np_unsupported(r);
    }
    if (axis_arg.v == NULL && dyn_np_node_at(r, a)->ndim != 1 && (a = dyn_np_ravel(r, a)) == DYN_NONE) {
        return NULL;
    }
    if (one_axis(r, axis_arg, dyn_np_node_at(r, a)->ndim, &axis) < 0) {
        return NULL;
    }
    uint32_t size = dyn_np_node_at(r, a)->shape[axis], at = dyn_np_place(r, c->slot[1], size, insert), shape[DYN_MAX_NDIM];
    DynDtype dt = (DynDtype)dyn_np_node_at(r, a)->dtype;
    uint32_t behind = insert || at == DYN_NONE ? at : dyn_np_op(r, DYN_S_ADD, at, one);
    if (behind == DYN_NONE || (nodes[n++] = dyn_np_range_view(r, a, axis, dyn_np_int(r, 0), at)) == DYN_NONE) {
        return NULL;
    }
    if (insert) {
        memcpy(shape, dyn_np_node_at(r, a)->shape, sizeof(uint32_t) * dyn_np_node_at(r, a)->ndim);
        shape[axis] = one;
        bool plain = c->slot[2].v != NULL && is_number(c->slot[2].real);
        if (!plain || dyn_np_operand(r, c->slot[2], &value) < 0) {
            return dyn_np_unsupported(r);
        }
        uint32_t id = dyn_np_full(r, dt, dyn_np_node_at(r, a)->ndim, shape, (DynArg){DYN_ARG_NONE, DYN_NONE});
        if (id == DYN_NONE || dyn_np_store(r, id, value) < 0) {
            return NULL;
        }
        nodes[n++] = id;
    }
    if ((nodes[n++] = dyn_np_range_view(r, a, axis, behind, size)) == DYN_NONE) {
        return NULL;
    }
    uint32_t id = dyn_np_join(r, nodes, n, axis, dt);
    return id == DYN_NONE || follow_order(r, a, id) < 0 ? NULL : dyn_np_result(r, id, c->result);
}
