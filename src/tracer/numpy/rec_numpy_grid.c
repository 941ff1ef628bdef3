/* rec_numpy_grid.c: arrays made of positions: arange, eye, tri, diag, indices, meshgrid. Called through the binding table. */
#include "tracer/numpy/rec_np.h"

static NpArg number(uint32_t sym, int code) { return (NpArg){{DYN_ARG_SYM, sym}, (uint8_t)code}; }

uint32_t dyn_np_iota(DynRec *r, uint32_t n) {
    bool late = n != DYN_NONE && dyn_rec_graph(r)->device != 0 && dyn_sym_is_late(dyn_rec_syms(r), n);
    if (late) { /* kernels there count along axes whose sizes are known from the start */
        return dyn_np_unsupported(r), DYN_NONE;
    }
    uint32_t id = n == DYN_NONE ? DYN_NONE : dyn_np_add(r, DYN_OP_IOTA, DYN_I64, 1, 0, 0);
    if (id != DYN_NONE) {
        dyn_np_node_at(r, id)->shape[0] = n;
    }
    return id;
}

static uint32_t binary(DynRec *r, DynOp op, DynDtype dt, NpArg a, NpArg b) {
    NpArg args[2] = {a, b};
    bool failed = a.arg.id == DYN_NONE || b.arg.id == DYN_NONE;
    return failed ? DYN_NONE : dyn_np_elementwise_as(r, op, dt, dt, args, 2);
}

static bool is_zero(DynRec *r, uint32_t sym) {
    const DynSym *s = dyn_sym_at(dyn_rec_syms(r), sym);
    return dyn_sym_is_const(dyn_rec_syms(r), sym) && s->hint.i == 0; /* of floats: 0.0 and not -0.0 */
}

static bool is_int_one(DynRec *r, uint32_t sym) {
    const DynSym *s = dyn_sym_at(dyn_rec_syms(r), sym);
    return dyn_sym_is_const(dyn_rec_syms(r), sym) && s->type == DYN_T_INT && s->hint.i == 1;
}

/* ---- arange */

/* How many elements: ceil((stop - start) / step) in Python's arithmetic, and what that is at every call: some, or none. */
uint32_t dyn_np_arange_length(DynRec *r, uint32_t start, uint32_t stop, uint32_t step) {
    DynSyms *t = dyn_rec_syms(r);
    uint32_t way = dyn_np_op(r, DYN_S_SUB, stop, start), q = dyn_np_op(r, DYN_S_TRUEDIV, way, step);
    if (q == DYN_NONE || dyn_np_assume(r, dyn_np_op(r, DYN_S_ISFINITE, q, DYN_NONE)) < 0) {
        return dyn_np_unsupported(r), DYN_NONE;
    }
    bool whole = is_int_one(r, step) && dyn_sym_at(t, way)->type == DYN_T_INT;
    uint32_t n = whole ? way : dyn_sym_op(t, DYN_S_CEIL, q, DYN_NONE, DYN_NONE), zero = dyn_np_int(r, 0);
    if (n == DYN_NONE) {
        return dyn_np_unsupported(r), DYN_NONE;
    }
    if (whole && dyn_np_hint(r, n) >= 0) {
        return dyn_np_assume_op(r, DYN_S_GE, n, 0) < 0 ? DYN_NONE : n;
    }
    if (dyn_np_hint(r, n) > 0) {
        return dyn_np_assume_op(r, DYN_S_GT, n, 0) < 0 ? DYN_NONE : n;
    }
    /* a quotient that underflows is one element or none: only a way of 0 and a negative quotient are none for sure */
    bool negative = dyn_sym_at(t, q)->hint.f < 0;
    uint32_t sure = negative ? dyn_np_op(r, DYN_S_LT, q, zero) : dyn_np_op(r, DYN_S_EQ, way, zero);
    return dyn_np_assume(r, sure) < 0 ? DYN_NONE : zero;
}

uint32_t dyn_np_arange(DynRec *r, uint32_t n, uint32_t start, uint32_t step) {
    uint32_t id = dyn_np_iota(r, n), one = dyn_np_int(r, 1);
    if (id != DYN_NONE && step != one) {
        id = binary(r, DYN_OP_MULTIPLY, DYN_I64, dyn_np_node_arg(r, id), number(step, NP_WEAK_INT));
    }
    if (id != DYN_NONE && !is_zero(r, start)) {
        id = binary(r, DYN_OP_ADD, DYN_I64, dyn_np_node_arg(r, id), number(start, NP_WEAK_INT));
    }
    return id;
}

/* What NumPy's fill loop gives: the first two elements are the numbers themselves, the others first + i * (second - first). */
static DynVal *floats(DynRec *r, uint32_t n, uint32_t start, uint32_t step, PyObject *result) {
    DynSyms *t = dyn_rec_syms(r);
    uint32_t next = dyn_np_op(r, DYN_S_ADD, start, step);
    uint32_t first = dyn_sym_op(t, DYN_S_TO_FLOAT, start, DYN_NONE, DYN_NONE);
    uint32_t second = next == DYN_NONE ? next : dyn_sym_op(t, DYN_S_TO_FLOAT, next, DYN_NONE, DYN_NONE);
    uint32_t delta = dyn_np_op(r, DYN_S_SUB, second, first), places = dyn_np_iota(r, n);
    if (delta == DYN_NONE || places == DYN_NONE) {
        return dyn_np_unsupported(r);
    }
    uint32_t id = dyn_np_copy(r, places, DYN_F64);
    if (id != DYN_NONE) {
        id = binary(r, DYN_OP_MULTIPLY, DYN_F64, dyn_np_node_arg(r, id), number(delta, NP_WEAK_FLOAT));
    }
    if (id != DYN_NONE) {
        id = binary(r, DYN_OP_ADD, DYN_F64, dyn_np_node_arg(r, id), number(first, NP_WEAK_FLOAT));
    }
    for (int i = 1; i >= 0 && id != DYN_NONE && !is_zero(r, first); i--) {
        NpArg equal[2] = {dyn_np_node_arg(r, places), number(dyn_np_int(r, i), NP_WEAK_INT)}, pick[3];
        uint32_t here = dyn_np_elementwise_as(r, DYN_OP_EQUAL, DYN_I64, DYN_BOOL, equal, 2);
        if (here == DYN_NONE) {
            return NULL;
        }
        pick[0] = dyn_np_node_arg(r, here);
        pick[1] = number(i == 1 ? second : first, NP_WEAK_FLOAT);
        pick[2] = dyn_np_node_arg(r, id);
        id = dyn_np_elementwise_as(r, DYN_OP_WHERE, DYN_F64, DYN_F64, pick, 3);
    }
    return dyn_np_result(r, id, result);
}

/* arange of Python numbers. Other dtypes than int64 and float64 are NumPy's own call with this many elements. */
DynVal *np_rule_arange(DynRec *r, NpCall *c) {
    DynOperand from[3] = {c->slot[0], c->slot[1], c->slot[2]};
    if (c->slot[1].v == NULL) { /* the lone number is where it stops */
        from[0] = c->slot[1];
        from[1] = c->slot[0];
    }
    uint32_t n[3] = {dyn_np_int(r, 0), DYN_NONE, dyn_np_int(r, 1)};
    bool whole = true;
    for (int i = 0; i < 3; i++) {
        if (from[i].v != NULL && (n[i] = dyn_rec_number(r, from[i].v, from[i].real)) == DYN_NONE) {
            return dyn_np_unsupported(r);
        }
        if (n[i] == DYN_NONE || dyn_sym_at(dyn_rec_syms(r), n[i])->type == DYN_T_BOOL) {
            return dyn_np_unsupported(r);
        }
        whole = whole && dyn_sym_at(dyn_rec_syms(r), n[i])->type == DYN_T_INT;
    }
    for (int i = 0; i < c->npos; i++) { /* arange(3, None) */
        if (c->args[i].real == Py_None && i < 3) {
            return dyn_np_unsupported(r);
        }
    }
    if (dyn_np_burn_rest(r, c, 3) < 0) {
        return NULL;
    }
    DynDtype dt = dyn_np_dtype_of(c->result);
    uint32_t length = dyn_np_arange_length(r, n[0], n[1], n[2]);
    if (length == DYN_NONE) {
        return NULL;
    }
    if (whole && dt == DYN_I64) {
        return dyn_np_result(r, dyn_np_arange(r, length, n[0], n[2]), c->result);
    }
    return dt == DYN_F64 ? floats(r, length, n[0], n[2], c->result) : dyn_np_sized_call(r, c, 1, &length);
}

/* ---- matrices */

static uint32_t size_arg(DynRec *r, DynOperand o) {
    uint32_t n = o.v == NULL ? DYN_NONE : dyn_np_int_sym(r, o);
    return n == DYN_NONE || dyn_np_assume_op(r, DYN_S_GE, n, 0) < 0 ? DYN_NONE : n;
}

/* Zeros with `value` on a diagonal. */
static uint32_t on_diagonal(DynRec *r, DynDtype dt, const uint32_t *shape, uint32_t offset, NpArg value) {
    uint32_t id = dyn_np_full(r, dt, 2, shape, dyn_np_fill(r, dt, 1));
    uint32_t d = id == DYN_NONE ? DYN_NONE : dyn_np_diagonal(r, id, 0, 1, offset);
    if (d == DYN_NONE || value.arg.id == DYN_NONE || dyn_np_store(r, d, value) < 0) {
        return dyn_np_unsupported(r), DYN_NONE;
    }
    return id;
}

/* eye, and identity (operator 1), which has other parameters. */
DynVal *np_rule_eye(DynRec *r, NpCall *c) {
    bool eye = c->b->op == 0;
    DynDtype dt = dyn_np_dtype_of(c->result);
    uint32_t shape[2] = {size_arg(r, c->slot[0]), DYN_NONE}, offset = dyn_np_int(r, 0);
    shape[1] = eye && c->slot[1].v != NULL ? size_arg(r, c->slot[1]) : shape[0];
    if (eye && c->slot[2].v != NULL) {
        offset = dyn_np_int_sym(r, c->slot[2]);
    }
    if (shape[0] == DYN_NONE || shape[1] == DYN_NONE || offset == DYN_NONE) {
        return dyn_np_unsupported(r);
    }
    if (dt == DYN_NO_DTYPE || dyn_np_burn_rest(r, c, eye ? 3 : 1) < 0) {
        return dyn_np_unsupported(r);
    }
    DynArg one = dyn_np_fill(r, dt, 2);
    uint32_t id = on_diagonal(r, dt, shape, offset, (NpArg){one, 0});
    bool ordered = eye && c->slot[4].v != NULL;
    if (id == DYN_NONE || (ordered && dyn_np_hold_sizes(r, id) < 0)) {
        return NULL;
    }
    return dyn_np_result(r, id, c->result);
}

/* diag: a matrix of a vector, or a matrix's diagonal; diagflat (operator 1): a matrix of all elements. */
DynVal *np_rule_diag(DynRec *r, NpCall *c) {
    uint32_t v = c->slot[0].v == NULL ? DYN_NONE : dyn_np_node(r, c->slot[0]);
    uint32_t offset = c->slot[1].v == NULL ? dyn_np_int(r, 0) : dyn_np_int_sym(r, c->slot[1]);
    if (v == DYN_NONE || offset == DYN_NONE || c->slot[0].v->kind != DV_ARRAY) {
        return dyn_np_unsupported(r);
    }
    if (c->b->op == 0 && dyn_np_node_at(r, v)->ndim == 2) {
        return dyn_np_result(r, dyn_np_diagonal(r, v, 0, 1, offset), c->result);
    }
    if (c->b->op == 1 && dyn_np_node_at(r, v)->ndim != 1 && (v = dyn_np_ravel(r, v)) == DYN_NONE) {
        return NULL;
    }
    if (dyn_np_node_at(r, v)->ndim != 1) {
        return dyn_np_unsupported(r);
    }
    bool below = dyn_np_hint(r, offset) < 0;
    if (dyn_np_assume_op(r, below ? DYN_S_LT : DYN_S_GE, offset, 0) < 0) {
        return NULL;
    }
    uint32_t size = dyn_np_op(r, below ? DYN_S_SUB : DYN_S_ADD, dyn_np_node_at(r, v)->shape[0], offset), shape[2] = {size, size};
    DynDtype dt = (DynDtype)dyn_np_node_at(r, v)->dtype;
    return dyn_np_result(r, on_diagonal(r, dt, shape, offset, dyn_np_node_arg(r, v)), c->result);
}

/* True on and below a diagonal: row >= column - offset. */
static uint32_t below_diagonal(DynRec *r, uint32_t rows, uint32_t columns, uint32_t offset) {
    uint32_t i = dyn_np_iota(r, rows), j = dyn_np_iota(r, columns);
    uint32_t back = offset == DYN_NONE ? DYN_NONE : dyn_np_op(r, DYN_S_SUB, dyn_np_int(r, 0), offset);
    if (i == DYN_NONE || j == DYN_NONE || back == DYN_NONE) {
        return dyn_np_unsupported(r), DYN_NONE;
    }
    if ((i = dyn_np_newaxis(r, i, 2, 2)) == DYN_NONE) {
        return dyn_np_unsupported(r), DYN_NONE;
    }
    if (!is_zero(r, back)) {
        j = binary(r, DYN_OP_ADD, DYN_I64, dyn_np_node_arg(r, j), number(back, NP_WEAK_INT));
    }
    NpArg args[2] = {dyn_np_node_arg(r, i), {{DYN_ARG_NODE, j}, DYN_I64}};
    return j == DYN_NONE ? j : dyn_np_elementwise_as(r, DYN_OP_GREATER_EQUAL, DYN_I64, DYN_BOOL, args, 2);
}

DynVal *np_rule_tri(DynRec *r, NpCall *c) {
    uint32_t rows = size_arg(r, c->slot[0]), columns = c->slot[1].v == NULL ? rows : size_arg(r, c->slot[1]);
    uint32_t offset = c->slot[2].v == NULL ? dyn_np_int(r, 0) : dyn_np_int_sym(r, c->slot[2]);
    DynDtype dt = dyn_np_dtype_of(c->result);
    if (rows == DYN_NONE || columns == DYN_NONE) {
        return dyn_np_unsupported(r);
    }
    if (dt == DYN_NO_DTYPE || dyn_np_burn_rest(r, c, 3) < 0) {
        return dyn_np_unsupported(r);
    }
    uint32_t id = below_diagonal(r, rows, columns, offset);
    if (id != DYN_NONE && dt != DYN_BOOL) {
        id = dyn_np_copy(r, id, dt);
    }
    return dyn_np_result(r, id, c->result);
}

/* tril, triu (operator 1): zeros above, or below, a diagonal of the last two axes. */
DynVal *np_rule_trilu(DynRec *r, NpCall *c) {
    uint32_t a = c->slot[0].v == NULL ? DYN_NONE : dyn_np_node(r, c->slot[0]);
    uint32_t offset = c->slot[1].v == NULL ? dyn_np_int(r, 0) : dyn_np_int_sym(r, c->slot[1]);
    int ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    if (ndim == 0 || offset == DYN_NONE) {
        return dyn_np_unsupported(r);
    }
    if (c->b->op == 1) {
        offset = dyn_np_op(r, DYN_S_SUB, offset, dyn_np_int(r, 1));
    }
    DynDtype dt = (DynDtype)dyn_np_node_at(r, a)->dtype;
    const uint32_t *shape = dyn_np_node_at(r, a)->shape;
    uint32_t mask = below_diagonal(r, shape[ndim > 1 ? ndim - 2 : 0], shape[ndim - 1], offset);
    DynArg zero = dyn_np_fill(r, dt, 1);
    if (mask == DYN_NONE || zero.id == DYN_NONE) {
        return NULL;
    }
    NpArg args[3] = {dyn_np_node_arg(r, mask), dyn_np_node_arg(r, a), dyn_np_node_arg(r, a)};
    args[c->b->op == 1 ? 1 : 2] = (NpArg){zero, dt};
    return dyn_np_result(r, dyn_np_elementwise_as(r, DYN_OP_WHERE, dt, dt, args, 3), c->result);
}

/* ---- grids */

/* A vector along one axis of a space of that rank. */
static uint32_t along(DynRec *r, uint32_t v, int axis, int ndim) {
    uint32_t shape[DYN_MAX_NDIM];
    for (int i = 0; i < ndim; i++) {
        shape[i] = i == axis ? dyn_np_node_at(r, v)->shape[0] : dyn_np_int(r, 1);
    }
    return dyn_np_reshape(r, v, ndim, shape, false);
}

static uint32_t places_along(DynRec *r, uint32_t n, int axis, int ndim, DynDtype dt) {
    uint32_t v = dyn_np_iota(r, n);
    v = v == DYN_NONE || dt == DYN_I64 ? v : dyn_np_copy(r, v, dt);
    return v == DYN_NONE ? v : along(r, v, axis, ndim);
}

/* indices: the position along each axis, as one array, or (sparse) a tuple of arrays. */
DynVal *np_rule_indices(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM + 1];
    DynVal *items[DYN_MAX_NDIM];
    bool sparse = false;
    int ndim = c->slot[0].v == NULL ? -1 : dyn_np_shape_arg(r, c->slot[0], false, shape + 1);
    if (ndim < 1 || ndim >= DYN_MAX_NDIM) {
        return dyn_np_unsupported(r);
    }
    if (dyn_np_burn_rest(r, c, 1) < 0 || dyn_np_flag(r, c->slot[2], &sparse) < 0) {
        return dyn_np_unsupported(r);
    }
    if (sparse) {
        for (int i = 0; i < ndim; i++) {
            PyObject *real = PyTuple_GET_ITEM(c->result, i);
            uint32_t id = places_along(r, shape[1 + i], i, ndim, dyn_np_dtype_of(real));
            if ((items[i] = dyn_np_result(r, id, real)) == NULL) {
                return NULL;
            }
        }
        return dyn_rec_seq(r, DV_TUPLE, (uint32_t)ndim, items, c->result);
    }
    DynDtype dt = dyn_np_dtype_of(c->result);
    shape[0] = dyn_np_int(r, ndim);
    uint32_t id = dyn_np_full(r, dt, ndim + 1, shape, (DynArg){DYN_ARG_NONE, DYN_NONE});
    for (int i = 0; i < ndim && id != DYN_NONE; i++) {
        uint32_t to = dyn_np_pick(r, id, 0, dyn_np_int(r, i)), v = places_along(r, shape[1 + i], i, ndim, DYN_I64);
        if (to == DYN_NONE || v == DYN_NONE || dyn_np_store(r, to, dyn_np_node_arg(r, v)) < 0) {
            return dyn_np_unsupported(r);
        }
    }
    return dyn_np_result(r, id, c->result);
}

static int meshgrid_options(DynRec *r, NpCall *c, bool *sparse, bool *swapped) {
    *sparse = false;
    *swapped = c->npos > 1;
    for (int i = 0; i < c->nkw; i++) {
        PyObject *name = PyTuple_GET_ITEM(c->kwnames, i);
        DynOperand o = c->args[c->npos + i];
        bool copy = true;
        if (PyUnicode_CompareWithASCIIString(name, "indexing") == 0 && dyn_rec_burn(r, o.v, o.real) == 0 &&
            PyUnicode_Check(o.real)) {
            *swapped = *swapped && PyUnicode_CompareWithASCIIString(o.real, "xy") == 0;
        } else if (PyUnicode_CompareWithASCIIString(name, "sparse") == 0 && dyn_np_flag(r, o, sparse) == 0) {
            continue;
        } else if (PyUnicode_CompareWithASCIIString(name, "copy") != 0 || dyn_np_flag(r, o, &copy) < 0 || !copy) {
            return -1;
        }
    }
    return 0;
}

/* meshgrid of vectors, copied: each along its axis, spread over the others unless sparse. */
DynVal *np_rule_meshgrid(DynRec *r, NpCall *c) {
    uint32_t nodes[DYN_MAX_NDIM], shape[DYN_MAX_NDIM];
    DynVal *items[DYN_MAX_NDIM];
    bool sparse, swapped;
    int n = c->npos;
    if (n < 1 || n > DYN_MAX_NDIM) {
        return dyn_np_unsupported(r);
    }
    if (meshgrid_options(r, c, &sparse, &swapped) < 0 || !PyTuple_CheckExact(c->result)) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < n; i++) {
        int axis = swapped && i < 2 ? 1 - i : i;
        nodes[i] = dyn_np_node(r, c->args[i]);
        if (nodes[i] == DYN_NONE || dyn_np_node_at(r, nodes[i])->ndim != 1) {
            return dyn_np_unsupported(r);
        }
        shape[axis] = dyn_np_node_at(r, nodes[i])->shape[0];
        if ((nodes[i] = along(r, nodes[i], axis, n)) == DYN_NONE) {
            return NULL;
        }
    }
    for (int i = 0; i < n; i++) {
        uint32_t id = sparse ? nodes[i] : dyn_np_broadcast_view(r, nodes[i], n, shape);
        id = id == DYN_NONE ? id : dyn_np_copy(r, id, (DynDtype)dyn_np_node_at(r, id)->dtype);
        if ((items[i] = dyn_np_result(r, id, PyTuple_GET_ITEM(c->result, i))) == NULL) {
            return NULL;
        }
    }
    return dyn_rec_seq(r, DV_TUPLE, (uint32_t)n, items, c->result);
}
