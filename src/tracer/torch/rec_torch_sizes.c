/* rec_torch_sizes.c: more calls of PyTorch's own whose sizes follow from the operands': einsum, padding, resampling, transposed
 * convolutions, recurrent layers, sorting, ranges of floats, and every elementwise function without a kernel.
 * Called through the binding table. */
#include "tracer/torch/rec_torch.h"

int dyn_tt_sizes_of(DynRec *r, DynOperand o, uint32_t *shape) {
    uint32_t a = dyn_tt_tensor_of(r, o);
    if (a == DYN_NONE) {
        return -1;
    }
    memcpy(shape, dyn_np_node_at(r, a)->shape, sizeof(*shape) * dyn_np_node_at(r, a)->ndim);
    return dyn_np_node_at(r, a)->ndim;
}

static uint32_t add(DynRec *r, uint32_t a, uint32_t b) {
    return a == DYN_NONE || b == DYN_NONE ? DYN_NONE : dyn_np_op(r, DYN_S_ADD, a, b);
}
static uint32_t times(DynRec *r, uint32_t a, uint32_t b) {
    return a == DYN_NONE || b == DYN_NONE ? DYN_NONE : dyn_np_op(r, DYN_S_MUL, a, b);
}

/* A size that torch takes: not negative, or it raises. */
static uint32_t valid(DynRec *r, uint32_t n) { return n == DYN_NONE || dyn_np_assume_op(r, DYN_S_GE, n, 0) < 0 ? DYN_NONE : n; }

/* ---- elementwise */

/* A function that its schema calls pointwise: the sizes to which its tensors broadcast. */
DynVal *tt_rule_pointwise(DynRec *r, NpCall *c) {
    uint32_t nodes[8], shape[DYN_MAX_NDIM];
    int n = 0;
    for (int i = 0; i < c->npos + c->nkw; i++) {
        if (c->out.v != NULL && i == c->out_at) {
            continue;
        }
        uint32_t a = c->args[i].v->kind == DV_ARRAY ? dyn_tt_tensor_of(r, c->args[i]) : DYN_NONE;
        if (c->args[i].v->kind == DV_ARRAY && (a == DYN_NONE || n == (int)DYN_COUNTOF(nodes))) {
            return dyn_np_unsupported(r);
        }
        if (a != DYN_NONE) {
            nodes[n++] = a;
        }
    }
    int ndim = n == 0 ? -1 : dyn_np_broadcast(r, nodes, n, shape);
    return ndim < 0 ? dyn_np_unsupported(r) : dyn_np_sized_call(r, c, ndim, shape);
}

/* sort, cummax and the like give two tensors of the operand's sizes; topk (operator 1): k along the axis. */
DynVal *tt_rule_two_like(DynRec *r, NpCall *c) {
    uint32_t shape[2 * DYN_MAX_NDIM];
    DynOperand k = dyn_np_slot(c, "k"), dim = dyn_np_slot(c, "dim");
    int ndim = dyn_tt_sizes_of(r, c->slot[0], shape), axis = ndim - 1;
    bool top = c->b->op == 1;
    if (ndim < 0 || (top && k.v == NULL)) {
        return dyn_np_unsupported(r);
    }
    if (top && (ndim == 0 || dyn_tt_optional_axis(r, dim, ndim, &axis) < 0)) {
        return dyn_np_unsupported(r);
    }
    if (top && (shape[axis] = dyn_np_int_sym(r, k)) == DYN_NONE) {
        return NULL;
    }
    memcpy(shape + ndim, shape, sizeof(*shape) * (size_t)ndim);
    return dyn_np_sized_results(r, c, 2 * ndim, shape);
}

/* ---- einsum */

/* The sizes of what the equation names; each label has one size in all operands, but for 1. */
static int einsum_sizes(DynRec *r, const char *at, const DynOperand *items, int n, uint32_t *out) {
    uint32_t of[128], shape[DYN_MAX_NDIM];
    int count[128] = {0}, ndim = 0;
    for (int k = 0; k < n; k++) {
        int rank = dyn_tt_sizes_of(r, items[k], shape), i = 0;
        for (; Py_ISALPHA(*at) || *at == ' '; at++) {
            unsigned char label = (unsigned char)*at;
            if (label == ' ') {
                continue;
            }
            if (i >= rank) {
                return -1;
            }
            of[label] = count[label]++ == 0 ? shape[i] : dyn_np_broadcast_size(r, of[label], shape[i]);
            if (of[label] == DYN_NONE) {
                return -1;
            }
            i++;
        }
        if (i != rank || (k + 1 < n && *at++ != ',')) {
            return -1;
        }
    }
    if (*at == 0) { /* the labels that are there once, in the alphabet's order */
        for (int label = 'A'; label <= 'z'; label++) {
            if (count[label] == 1 && ndim < DYN_MAX_NDIM) {
                out[ndim++] = of[label];
            }
        }
        return ndim;
    }
    if (*at++ != '-' || *at++ != '>') {
        return -1;
    }
    for (; *at != 0; at++) {
        bool known = Py_ISALPHA(*at) && count[(unsigned char)*at] > 0;
        if (*at != ' ' && (!known || ndim == DYN_MAX_NDIM)) {
            return -1;
        }
        if (*at != ' ') {
            out[ndim++] = of[(unsigned char)*at];
        }
    }
    return ndim;
}

DynVal *tt_rule_einsum(DynRec *r, NpCall *c) {
    DynOperand items[16];
    uint32_t shape[DYN_MAX_NDIM];
    if (c->npos < 2 || c->npos > 16 || c->nkw != 0) {
        return dyn_np_unsupported(r);
    }
    if (!PyUnicode_CheckExact(c->args[0].real) || dyn_rec_burn(r, c->args[0].v, c->args[0].real) < 0) {
        return dyn_np_unsupported(r);
    }
    bool list = c->npos == 2 && (PyList_CheckExact(c->args[1].real) || PyTuple_CheckExact(c->args[1].real));
    const char *equation = PyUnicode_AsUTF8(c->args[0].real);
    int n = list ? dyn_np_items(r, c->args[1], items, (int)DYN_COUNTOF(items)) : c->npos - 1;
    if (equation == NULL || n < 1) {
        return PyErr_Clear(), dyn_np_unsupported(r);
    }
    int ndim = einsum_sizes(r, equation, list ? items : c->args + 1, n, shape);
    return ndim < 0 ? dyn_np_unsupported(r) : dyn_np_sized_call(r, c, ndim, shape);
}

/* ---- images */

/* pad: pairs of numbers from the last axis on, in every mode. */
DynVal *tt_rule_pad(DynRec *r, NpCall *c) {
    DynOperand items[2 * DYN_MAX_NDIM];
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = dyn_tt_sizes_of(r, c->slot[0], shape);
    int n = ndim < 0 || c->slot[1].v == NULL ? -1 : dyn_np_items(r, c->slot[1], items, 2 * DYN_MAX_NDIM);
    if (n < 0 || n > 2 * ndim || n % 2 != 0) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < n; i++) {
        uint32_t *size = &shape[ndim - 1 - i / 2], by = dyn_np_int_sym(r, items[i]);
        *size = i % 2 == 1 ? valid(r, add(r, *size, by)) : add(r, *size, by);
    }
    return dyn_np_sized_call(r, c, ndim, shape);
}

/* floor(size * scale), as torch computes it in doubles. */
static uint32_t scaled(DynRec *r, uint32_t size, DynOperand scale) {
    uint32_t by = dyn_rec_number(r, scale.v, scale.real);
    uint32_t n = by == DYN_NONE ? by : dyn_sym_op(dyn_rec_syms(r), DYN_S_TO_FLOAT, by, DYN_NONE, DYN_NONE);
    uint32_t product = times(r, n == DYN_NONE ? n : dyn_sym_op(dyn_rec_syms(r), DYN_S_TO_FLOAT, size, DYN_NONE, DYN_NONE), n);
    return valid(r, product == DYN_NONE ? product : dyn_sym_op(dyn_rec_syms(r), DYN_S_FLOOR, product, DYN_NONE, DYN_NONE));
}

/* interpolate: the sizes that are given, or a factor; one for all axes, or one for each. */
DynVal *tt_rule_interpolate(DynRec *r, NpCall *c) {
    DynOperand items[3], size = dyn_np_slot(c, "size"), given = size.v != NULL ? size : dyn_np_slot(c, "scale_factor");
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = dyn_tt_sizes_of(r, c->slot[0], shape);
    if (ndim < 3 || ndim > 5 || given.v == NULL) {
        return dyn_np_unsupported(r);
    }
    bool several = PyList_CheckExact(given.real) || dyn_is_tuple(given.real);
    if (several && dyn_np_items(r, given, items, 3) != ndim - 2) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < ndim - 2; i++) {
        DynOperand o = several ? items[i] : given;
        shape[2 + i] = size.v != NULL ? dyn_np_int_sym(r, o) : scaled(r, shape[2 + i], o);
    }
    return dyn_np_sized_call(r, c, ndim, shape);
}

uint32_t dyn_tt_number_of(DynRec *r, DynOperand o, int i, uint32_t fallback) {
    DynOperand items[3];
    int n = o.v == NULL ? 0 : dyn_np_items(r, o, items, 3);
    if (n == 0) {
        return fallback;
    }
    if (n < 0) {
        return dyn_np_int_sym(r, o);
    }
    if (n == 1) {
        return dyn_np_int_sym(r, items[0]);
    }
    return i >= n ? dyn_np_no_node(r) : dyn_np_int_sym(r, items[i]);
}

/* conv_transpose1d to 3d (the operator): weight (channels in, channels out / groups, kernel …); of each size
 * (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1. */
DynVal *tt_rule_conv_transpose(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM], w[DYN_MAX_NDIM];
    uint32_t zero = dyn_np_int(r, 0), one = dyn_np_int(r, 1), less = dyn_np_int(r, -1);
    int n = c->b->op, ndim = dyn_tt_sizes_of(r, c->slot[0], shape), first = ndim - n;
    if (first < 1 || first > 2 || dyn_tt_sizes_of(r, c->slot[1], w) != n + 2) {
        return dyn_np_unsupported(r);
    }
    shape[first - 1] = times(r, w[1], dyn_tt_number_of(r, dyn_np_slot(c, "groups"), 0, one));
    for (int i = 0; i < n; i++) {
        uint32_t stride = dyn_tt_number_of(r, dyn_np_slot(c, "stride"), i, one);
        uint32_t pad = dyn_tt_number_of(r, dyn_np_slot(c, "padding"), i, zero);
        uint32_t reach = times(r, dyn_tt_number_of(r, dyn_np_slot(c, "dilation"), i, one), add(r, w[2 + i], less));
        uint32_t more = add(r, dyn_tt_number_of(r, dyn_np_slot(c, "output_padding"), i, zero), one);
        uint32_t size = add(r, times(r, add(r, shape[first + i], less), stride), times(r, dyn_np_int(r, -2), pad));
        shape[first + i] = valid(r, add(r, add(r, size, reach), more));
    }
    return dyn_np_sized_call(r, c, ndim, shape);
}

/* pixel_shuffle (operator 0): (…, c * k * k, h, w) as (…, c, h * k, w * k); pixel_unshuffle (1) the other way. */
DynVal *tt_rule_pixel_shuffle(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = dyn_tt_sizes_of(r, c->slot[0], shape);
    uint32_t by = ndim < 3 || c->slot[1].v == NULL ? DYN_NONE : dyn_np_int_sym(r, c->slot[1]);
    if (by == DYN_NONE || dyn_np_assume_op(r, DYN_S_GT, by, 0) < 0) {
        return dyn_np_unsupported(r);
    }
    for (int i = 1; i <= 3; i++) {
        uint32_t *size = &shape[ndim - i], factor = i == 3 ? times(r, by, by) : by;
        bool grows = (c->b->op == 0) == (i < 3);
        *size = grows ? times(r, *size, factor) : dyn_np_op(r, DYN_S_FLOORDIV, *size, factor);
    }
    return dyn_np_sized_call(r, c, ndim, shape);
}

/* ---- recurrent layers */

/* lstm (operator 2: two states) and gru, rnn_tanh, rnn_relu (1), over whole sequences of rank 3. Dropout draws. */
DynVal *tt_rule_recurrent(DynRec *r, NpCall *c) {
    DynOperand states[2] = {c->slot[1]}, p = dyn_np_slot(c, "dropout"), training = dyn_np_slot(c, "training");
    uint32_t shape[9];
    bool both = false, trains = false;
    double share = 0;
    if (c->b->op == 2 && (states[0].v == NULL || dyn_np_items(r, c->slot[1], states, 2) != 2)) {
        return dyn_np_unsupported(r);
    }
    if (dyn_np_flag(r, dyn_np_slot(c, "bidirectional"), &both) < 0 || dyn_np_flag(r, training, &trains) < 0 ||
        dyn_tt_burnt_float(r, p, &share) < 0) {
        return NULL;
    }
    if (trains && share != 0) {
        return dyn_np_extern_once(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result);
    }
    if (dyn_tt_sizes_of(r, c->slot[0], shape) != 3) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < c->b->op; i++) {
        if (dyn_tt_sizes_of(r, states[i], shape + 3 + 3 * i) != 3) {
            return dyn_np_unsupported(r);
        }
    }
    shape[2] = times(r, dyn_np_int(r, both ? 2 : 1), shape[5]);
    return dyn_np_sized_results(r, c, 3 + 3 * c->b->op, shape);
}

/* lstm_cell (operator 2), gru_cell and the others (1): the sizes of the states. */
DynVal *tt_rule_cell(DynRec *r, NpCall *c) {
    DynOperand states[2] = {c->slot[1]};
    uint32_t shape[2 * DYN_MAX_NDIM];
    int n = 0;
    if (c->b->op == 2 && (states[0].v == NULL || dyn_np_items(r, c->slot[1], states, 2) != 2)) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < c->b->op; i++) {
        int ndim = dyn_tt_sizes_of(r, states[i], shape + n);
        if (ndim < 0) {
            return NULL;
        }
        n += ndim;
    }
    return dyn_np_sized_results(r, c, n, shape);
}

/* ---- places, products, ranges */

/* unravel_index: as many tensors of places as there are sizes. */
DynVal *tt_rule_unravel(DynRec *r, NpCall *c) {
    uint32_t shape[16 * DYN_MAX_NDIM];
    int ndim = dyn_tt_sizes_of(r, c->slot[0], shape), n = dyn_is_tuple(c->result) ? (int)PyTuple_GET_SIZE(c->result) : 0;
    if (ndim < 0 || n == 0 || n > 16) {
        return dyn_np_unsupported(r);
    }
    for (int i = 1; i < n; i++) {
        memcpy(shape + i * ndim, shape, sizeof(*shape) * (size_t)ndim);
    }
    return dyn_np_sized_results(r, c, n * ndim, shape);
}

/* take_along_dim: the places' sizes; along the other axes the two broadcast. */
DynVal *tt_rule_take_along(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM], at[DYN_MAX_NDIM];
    int ndim = dyn_tt_sizes_of(r, c->slot[0], shape), n = ndim < 0 ? -1 : dyn_tt_sizes_of(r, c->slot[1], at), axis = 0;
    if (n < 0) {
        return NULL;
    }
    if (c->slot[2].v == NULL) {
        uint32_t all = dyn_np_product(r, n, at);
        return dyn_np_sized_call(r, c, 1, &all);
    }
    if (n != ndim || ndim == 0 || dyn_tt_axis(r, c->slot[2], ndim, &axis) < 0) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < ndim; i++) {
        if (i != axis && (at[i] = dyn_np_broadcast_size(r, at[i], shape[i])) == DYN_NONE) {
            return NULL;
        }
    }
    return dyn_np_sized_call(r, c, ndim, at);
}

/* mv (operator 1): rows; outer and ger (2); dot and vdot (0): a number. */
DynVal *tt_rule_vectors(DynRec *r, NpCall *c) {
    uint32_t shape[2 * DYN_MAX_NDIM];
    int first = dyn_tt_sizes_of(r, c->slot[0], shape), second = first < 0 ? -1 : dyn_tt_sizes_of(r, c->slot[1], shape + first);
    if (second != 1 || first != (c->b->op == 1 ? 2 : 1)) {
        return dyn_np_unsupported(r);
    }
    if (c->b->op != 2 && dyn_np_agree(r, shape[first - 1], shape[first]) < 0) {
        return dyn_np_unsupported(r);
    }
    return dyn_np_sized_call(r, c, c->b->op, shape);
}

/* linspace, logspace: as many as there are steps. */
DynVal *tt_rule_steps(DynRec *r, NpCall *c) {
    uint32_t n = c->slot[2].v == NULL ? DYN_NONE : valid(r, dyn_np_int_sym(r, c->slot[2]));
    return n == DYN_NONE || dyn_tt_default(r) == DYN_NO_DTYPE ? dyn_np_unsupported(r) : dyn_np_sized_call(r, c, 1, &n);
}

DynVal *tt_rule_eye(DynRec *r, NpCall *c) {
    uint32_t shape[2] = {c->slot[0].v == NULL ? DYN_NONE : valid(r, dyn_np_int_sym(r, c->slot[0]))};
    shape[1] = c->slot[1].v == NULL ? shape[0] : valid(r, dyn_np_int_sym(r, c->slot[1]));
    return dyn_tt_default(r) == DYN_NO_DTYPE ? dyn_np_unsupported(r) : dyn_np_sized_call(r, c, 2, shape);
}

/* one_hot with the number of classes. */
DynVal *tt_rule_one_hot(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM + 1];
    int ndim = dyn_tt_sizes_of(r, c->slot[0], shape);
    if (ndim < 0 || ndim == DYN_MAX_NDIM || c->slot[1].v == NULL) {
        return dyn_np_unsupported(r);
    }
    shape[ndim] = dyn_np_int_sym(r, c->slot[1]);
    return shape[ndim] == DYN_NONE || dyn_np_assume_op(r, DYN_S_GT, shape[ndim], 0) < 0
               ? dyn_np_unsupported(r)
               : dyn_np_sized_call(r, c, ndim + 1, shape);
}
