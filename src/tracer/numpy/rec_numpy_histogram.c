/* rec_numpy_histogram.c: np.histogram of so many bins of one width, between two numbers or the lowest and the highest element,
 * with or without weights: a HISTOGRAM node over edges that are made as np.linspace makes them. Called through the binding table.
 * Other forms stay calls of NumPy's own function. */
#include "ir/extern.h"
#include "tracer/numpy/rec_np.h"

static NpArg number(uint32_t sym, int code) { return (NpArg){{DYN_ARG_SYM, sym}, (uint8_t)code}; }

static uint32_t binary(DynRec *r, DynOp op, DynDtype dt, DynDtype result, uint32_t a, NpArg b) {
    NpArg args[2] = {dyn_np_node_arg(r, a), b};
    return dyn_np_elementwise_as(r, op, dt, result, args, 2);
}

/* start + i * step, and stop. */
static uint32_t edges_of(DynRec *r, uint32_t n, NpArg start, NpArg stop, NpArg step) {
    uint32_t places = dyn_np_iota(r, dyn_np_op(r, DYN_S_ADD, n, dyn_np_int(r, 1)));
    uint32_t y = places == DYN_NONE || step.arg.id == DYN_NONE ? DYN_NONE : dyn_np_copy(r, places, DYN_F64);
    y = y == DYN_NONE ? y : binary(r, DYN_OP_MULTIPLY, DYN_F64, DYN_F64, y, step);
    y = y == DYN_NONE ? y : binary(r, DYN_OP_ADD, DYN_F64, DYN_F64, y, start);
    uint32_t last = y == DYN_NONE ? y : binary(r, DYN_OP_EQUAL, DYN_I64, DYN_BOOL, places, number(n, NP_WEAK_INT));
    if (last == DYN_NONE) {
        return DYN_NONE;
    }
    NpArg pick[3] = {dyn_np_node_arg(r, last), stop, dyn_np_node_arg(r, y)};
    return dyn_np_elementwise_as(r, DYN_OP_WHERE, DYN_F64, DYN_F64, pick, 3);
}

static uint32_t edges_between(DynRec *r, uint32_t n, uint32_t start, uint32_t stop) {
    uint32_t step = dyn_np_op(r, DYN_S_TRUEDIV, dyn_np_op(r, DYN_S_SUB, stop, start), n);
    return edges_of(r, n, number(start, NP_WEAK_FLOAT), number(stop, NP_WEAK_FLOAT), number(step, NP_WEAK_FLOAT));
}

/* Between the lowest and the highest of elements in f64, of which there are some; integers are exact there. */
static uint32_t edges_around(DynRec *r, uint32_t n, uint32_t a) {
    static const int axes[] = {0};
    if (dyn_np_node_at(r, a)->dtype != DYN_F64 || dyn_np_assume_op(r, DYN_S_NE, dyn_np_node_at(r, a)->shape[0], 0) < 0) {
        return DYN_NONE;
    }
    uint32_t low = dyn_np_reduce(r, DYN_OP_MIN, a, 1, axes, false, DYN_F64);
    uint32_t high = low == DYN_NONE ? low : dyn_np_reduce(r, DYN_OP_MAX, a, 1, axes, false, DYN_F64);
    uint32_t all = high == DYN_NONE ? high : binary(r, DYN_OP_SUBTRACT, DYN_F64, DYN_F64, high, dyn_np_node_arg(r, low));
    uint32_t step = all == DYN_NONE ? all : binary(r, DYN_OP_DIVIDE, DYN_F64, DYN_F64, all, number(n, NP_WEAK_INT));
    return step == DYN_NONE ? step : edges_of(r, n, dyn_np_node_arg(r, low), dyn_np_node_arg(r, high), dyn_np_node_arg(r, step));
}

/* The two numbers of range=, as floats. */
static int range_of(DynRec *r, DynOperand o, uint32_t *range) {
    DynOperand items[2];
    if (o.v == NULL || dyn_np_items(r, o, items, 2) != 2) {
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        bool known = PyFloat_CheckExact(items[i].real) || PyLong_CheckExact(items[i].real);
        uint32_t s = known ? dyn_rec_number(r, items[i].v, items[i].real) : DYN_NONE;
        range[i] = s == DYN_NONE || PyFloat_CheckExact(items[i].real)
                       ? s
                       : dyn_sym_op(dyn_rec_syms(r), DYN_S_TO_FLOAT, s, DYN_NONE, DYN_NONE);
        if (range[i] == DYN_NONE) {
            return -1;
        }
    }
    return dyn_np_assume(r, dyn_np_op(r, DYN_S_LT, range[0], range[1]));
}

static uint32_t flat(DynRec *r, uint32_t a) { return a == DYN_NONE || dyn_np_node_at(r, a)->ndim == 1 ? a : dyn_np_ravel(r, a); }

static bool is_float_or_double(const DynNode *n) { return n->dtype == DYN_F64 || n->dtype == DYN_F32; }

/* An array of elements as one axis of f64, of what NumPy computes with in f64, or of f32. */
static uint32_t elements_of(DynRec *r, DynOperand o) {
    uint32_t a = o.v != NULL && o.v->kind == DV_ARRAY ? dyn_np_node(r, o) : DYN_NONE;
    if (a == DYN_NONE || dyn_np_node_at(r, a)->ndim == 0) {
        return DYN_NONE;
    }
    DynDtype dt = (DynDtype)dyn_np_node_at(r, a)->dtype;
    bool exact = dyn_dtype_is_integer(dt) && dyn_dtypes[dt].size <= 4;
    a = exact ? dyn_np_copy(r, a, DYN_F64) : a;
    return a != DYN_NONE && is_float_or_double(dyn_np_node_at(r, a)) ? flat(r, a) : DYN_NONE;
}

/* Weights have the elements' sizes. DYN_NONE: others. */
static uint32_t weights_of(DynRec *r, DynOperand o, DynOperand elements) {
    uint32_t w = o.v->kind == DV_ARRAY ? dyn_np_node(r, o) : DYN_NONE;
    const DynNode *n = w == DYN_NONE ? NULL : dyn_np_node_at(r, w), *a = dyn_np_node_at(r, rec_node_of(elements.v));
    if (n == NULL || !is_float_or_double(n) || n->ndim != a->ndim) {
        return DYN_NONE;
    }
    for (int i = 0; i < n->ndim; i++) {
        if (dyn_np_hint(r, n->shape[i]) != dyn_np_hint(r, a->shape[i]) || dyn_rec_assume_equal(r, n->shape[i], a->shape[i]) < 0) {
            return DYN_NONE;
        }
    }
    return flat(r, w);
}

static uint32_t histogram_node(DynRec *r, uint32_t n, uint32_t a, uint32_t edges, uint32_t weights) {
    bool weighted = weights != DYN_NONE;
    DynDtype dt = weighted ? (DynDtype)dyn_np_node_at(r, weights)->dtype : DYN_I64;
    uint32_t id = dyn_np_add(r, DYN_OP_HISTOGRAM, dt, 1, 2 + weighted, 2);
    if (id == DYN_NONE) {
        return id;
    }
    DynNode *node = dyn_np_node_at(r, id);
    node->compute = DYN_F64;
    node->args[0] = (DynArg){DYN_ARG_NODE, a};
    node->args[1] = (DynArg){DYN_ARG_NODE, edges};
    if (weighted) {
        node->args[2] = (DynArg){DYN_ARG_NODE, weights};
    }
    node->aux[0] = -1;
    node->aux[1] = 0;
    node->shape[0] = n;
    return id;
}

DynVal *np_rule_histogram(DynRec *r, NpCall *c) {
    uint32_t range[2], weights = DYN_NONE;
    bool density = false, tuple = PyTuple_CheckExact(c->result) && PyTuple_GET_SIZE(c->result) == 2;
    bool count = c->slot[1].v == NULL || PyLong_CheckExact(c->slot[1].real), between = c->slot[2].v != NULL;
    /* where the edges are none eager makes the whole call: nothing may have been done that can't be done again */
    if (!tuple || !count || dyn_np_has_acted(r)) {
        return dyn_np_unsupported(r);
    }
    if (dyn_np_flag(r, c->slot[3], &density) < 0 || density) {
        return dyn_np_unsupported(r);
    }
    uint32_t n = c->slot[1].v == NULL ? dyn_np_int(r, 10) : dyn_np_int_sym(r, c->slot[1]);
    if (n == DYN_NONE || dyn_np_assume_op(r, DYN_S_GE, n, 1) < 0) {
        return dyn_np_unsupported(r);
    }
    if (between && range_of(r, c->slot[2], range) < 0) {
        return dyn_np_unsupported(r);
    }
    uint32_t a = elements_of(r, c->slot[0]);
    if (a == DYN_NONE || (c->slot[4].v != NULL && (weights = weights_of(r, c->slot[4], c->slot[0])) == DYN_NONE)) {
        return dyn_np_unsupported(r);
    }
    if (!between && dyn_np_node_at(r, a)->dtype != DYN_F64) { /* eager's edges between floats are computed in float */
        return dyn_np_unsupported(r);
    }
    uint32_t edges = between ? edges_between(r, n, range[0], range[1]) : edges_around(r, n, a);
    uint32_t id = edges == DYN_NONE ? edges : histogram_node(r, n, a, edges, weights);
    uint32_t seen = id == DYN_NONE || dyn_np_node_at(r, a)->dtype == DYN_F64 ? edges : dyn_np_copy(r, edges, DYN_F32);
    if (id == DYN_NONE || seen == DYN_NONE) {
        return dyn_np_unsupported(r);
    }
    DynVal *both[2] = {dyn_np_result(r, id, PyTuple_GET_ITEM(c->result, 0)), NULL};
    both[1] = both[0] == NULL ? NULL : dyn_np_result(r, seen, PyTuple_GET_ITEM(c->result, 1));
    return both[1] == NULL ? NULL : dyn_rec_seq(r, DV_TUPLE, 2, both, c->result);
}
