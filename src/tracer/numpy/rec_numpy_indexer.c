/* rec_numpy_indexer.c: NumPy's objects that are there to be indexed: mgrid, ogrid, r_, c_, s_. Bound by bind.def like functions;
 * the index is their one argument. Called by the recorder's handler for subscripts. Ranges are of Python ints with an int step.
 */
#include "tracer/numpy/rec_np.h"

typedef struct Range {
    uint32_t start, step, size;
} Range;

static uint32_t whole_number(DynRec *r, DynOperand o, int64_t otherwise) {
    if (o.real == Py_None) {
        return dyn_np_int(r, otherwise);
    }
    return PyLong_CheckExact(o.real) ? dyn_np_int_sym(r, o) : (dyn_np_unsupported(r), DYN_NONE);
}

static int range_of(DynRec *r, DynOperand o, Range *out) {
    DynOperand part[3];
    if (!PySlice_Check(o.real) || dyn_np_items(r, o, part, 3) != 3 || part[1].real == Py_None) {
        return -1;
    }
    uint32_t stop = whole_number(r, part[1], 0);
    out->start = whole_number(r, part[0], 0);
    out->step = whole_number(r, part[2], 1);
    out->size = stop == DYN_NONE || out->start == DYN_NONE || out->step == DYN_NONE
                    ? DYN_NONE
                    : dyn_np_arange_length(r, out->start, stop, out->step);
    return out->size == DYN_NONE ? -1 : 0;
}

/* The index's items: of a tuple those, else the lone one. */
static int parts_of(DynRec *r, DynOperand index, DynOperand *items, int max) {
    if (PyTuple_CheckExact(index.real)) {
        return dyn_np_items(r, index, items, max);
    }
    items[0] = index;
    return 1;
}

/* mgrid, and ogrid (operator 1), whose arrays have size 1 along the other axes. */
DynVal *np_rule_grid(DynRec *r, NpCall *c) {
    DynOperand items[DYN_MAX_NDIM];
    Range range[DYN_MAX_NDIM];
    DynVal *arrays[DYN_MAX_NDIM];
    uint32_t shape[DYN_MAX_NDIM + 1], all = DYN_NONE;
    int n = parts_of(r, c->args[0], items, DYN_MAX_NDIM - 1);
    for (int i = 0; i < n; i++) {
        if (range_of(r, items[i], &range[i]) < 0) {
            return dyn_np_unsupported(r);
        }
        shape[1 + i] = range[i].size;
    }
    if (n < 1) {
        return dyn_np_unsupported(r);
    }
    if (!PyTuple_CheckExact(c->args[0].real)) {
        return dyn_np_result(r, dyn_np_arange(r, range[0].size, range[0].start, range[0].step), c->result);
    }
    shape[0] = dyn_np_int(r, n);
    if (c->b->op == 0) {
        all = dyn_np_full(r, DYN_I64, n + 1, shape, (DynArg){DYN_ARG_NONE, DYN_NONE});
    } else if (!PyTuple_CheckExact(c->result)) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < n; i++) {
        uint32_t v = dyn_np_arange(r, range[i].size, range[i].start, range[i].step), others = ((1u << n) - 1) & ~(1u << i);
        v = v == DYN_NONE || n == 1 ? v : dyn_np_newaxis(r, v, others, n);
        if (v == DYN_NONE) {
            return NULL;
        }
        if (c->b->op == 1) {
            if ((arrays[i] = dyn_np_result(r, v, PyTuple_GET_ITEM(c->result, i))) == NULL) {
                return NULL;
            }
            continue;
        }
        uint32_t to = all == DYN_NONE ? all : dyn_np_pick(r, all, 0, dyn_np_int(r, i));
        if (to == DYN_NONE || dyn_np_store(r, to, dyn_np_node_arg(r, v)) < 0) {
            return dyn_np_unsupported(r);
        }
    }
    return c->b->op == 1 ? dyn_rec_seq(r, DV_TUPLE, (uint32_t)n, arrays, c->result) : dyn_np_result(r, all, c->result);
}

/* r_: vectors, numbers and ranges in a row; c_ (operator 1): vectors as columns beside each other. */
DynVal *np_rule_row(DynRec *r, NpCall *c) {
    DynOperand items[NP_MAX_JOINED];
    uint32_t nodes[NP_MAX_JOINED];
    DynDtype dt = dyn_np_dtype_of(c->result);
    int n = parts_of(r, c->args[0], items, NP_MAX_JOINED), rank = c->b->op == 1 ? 2 : 1;
    if (n < 1 || dt == DYN_NO_DTYPE) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < n; i++) {
        Range range;
        if (PySlice_Check(items[i].real)) {
            nodes[i] = range_of(r, items[i], &range) < 0 ? DYN_NONE : dyn_np_arange(r, range.size, range.start, range.step);
        } else if (PyLong_CheckExact(items[i].real) || PyFloat_CheckExact(items[i].real)) {
            nodes[i] = dyn_np_one_number(r, items[i], dt);
        } else {
            nodes[i] = dyn_np_node(r, items[i]);
        }
        if (nodes[i] != DYN_NONE && rank == 2 && dyn_np_node_at(r, nodes[i])->ndim == 1) {
            nodes[i] = dyn_np_newaxis(r, nodes[i], 2, 2);
        }
        if (nodes[i] == DYN_NONE || dyn_np_node_at(r, nodes[i])->ndim != rank) {
            return dyn_np_unsupported(r);
        }
    }
    return dyn_np_joined(r, nodes, n, rank - 1, c->result);
}

/* s_ gives the index back. */
DynVal *np_rule_index(DynRec *r, NpCall *c) { return c->result == c->args[0].real ? c->args[0].v : dyn_np_unsupported(r); }
