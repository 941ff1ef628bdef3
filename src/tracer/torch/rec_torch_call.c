/* rec_torch_call.c: calls of PyTorch's own functions whose sizes follow from the operands': so what comes behind them knows its
 * sizes before the call is made. Called through the binding table. */
#include "ir/derive.h"
#include "tracer/torch/rec_torch.h"

/* Are products of single precision computed in single precision? PyTorch raises where the program set that in two ways. */
static bool products_are_exact(void) {
    PyObject *ask = dyn_torch_lookup(dyn_torch_module, "get_float32_matmul_precision");
    PyObject *precision = ask == NULL ? NULL : PyObject_CallNoArgs(ask);
    bool exact = precision != NULL && PyUnicode_Check(precision) && PyUnicode_CompareWithASCIIString(precision, "highest") == 0;
    PyErr_Clear();
    Py_XDECREF(precision);
    Py_XDECREF(ask);
    return exact;
}

/* On a device a product of few numbers is a sum of products like any other, which one launch makes: cuBLAS's call takes the host
 * longer, and for some small sizes the device too (docs/lab/cuda.md). The sizes stay within these: a guard says so. */
#define PRODUCTS_OF_A_SUM (1 << 20)
static bool is_sum(DynRec *r, const NpCall *c, uint32_t a, uint32_t b, bool linear) {
    const DynNode *x = dyn_np_node_at(r, a), *y = dyn_np_node_at(r, b);
    const DynGraph *g = dyn_rec_graph(r);
    bool plain = x->dtype == y->dtype && (x->dtype == DYN_F32 || x->dtype == DYN_F64) && y->ndim == 2;
    bool may = g->device != 0 && !g->sets_casts && dyn_rec_own_products(r);
    if (!may || !plain || x->ndim < 2 || x->ndim >= DYN_MAX_NDIM || !products_are_exact()) {
        return false;
    }
    if (rec_torch_follows(c->result) && dyn_derive_lies(g, a, true)) {
        return false; /* its gradient lies by columns too, which a sum's doesn't */
    }
    uint32_t results = y->shape[linear ? 0 : 1];
    uint32_t products = dyn_np_op(r, DYN_S_MUL, dyn_np_product(r, x->ndim, x->shape), results);
    uint32_t few = products == DYN_NONE ? products : dyn_np_op(r, DYN_S_LE, products, dyn_np_int(r, PRODUCTS_OF_A_SUM));
    bool now = few != DYN_NONE && dyn_sym_at(dyn_rec_syms(r), few)->hint.i != 0;
    return now && dyn_rec_expect(r, few) == 0;
}

/* a @ b, or a @ b.T (linear), of a matrix b, written down. Gradients lie as b does (through_matmul), and numbers are read one
 * behind the other: what lies by columns is taken transposed. */
static uint32_t sum_of_products(DynRec *r, uint32_t a, uint32_t b, bool linear) {
    if (dyn_derive_lies(dyn_rec_graph(r), b, !linear) != linear) {
        static const int turn[] = {1, 0};
        b = dyn_np_permute(r, b, turn);
        linear = !linear;
    }
    if (b == DYN_NONE) {
        return b;
    }
    int ndim = dyn_np_node_at(r, a)->ndim, summed = linear ? ndim : ndim - 1;
    DynDtype dt = (DynDtype)dyn_np_node_at(r, a)->dtype;
    uint32_t rows = dyn_np_newaxis(r, a, 1u << (linear ? ndim - 1 : ndim), ndim + 1);
    if (rows == DYN_NONE) {
        return rows;
    }
    NpArg factors[2] = {dyn_np_node_arg(r, rows), dyn_np_node_arg(r, b)};
    uint32_t products = dyn_tt_elementwise(r, DYN_OP_MULTIPLY, dt, dt, factors, 2);
    return products == DYN_NONE ? products : dyn_tt_reduce(r, DYN_OP_SUM, products, 1, &summed, false);
}

/* Is linear with its bias better one call? Of halves PyTorch rounds once, behind the sum; where autograd follows it, and it isn't
 * small, the sum would be a node of its own, which PyTorch's call does without; and on a device the product's kernel adds it. */
static bool keeps_bias(DynRec *r, const NpCall *c, uint32_t a, bool inside) {
    bool half = dyn_dtype_is_half((DynDtype)dyn_np_node_at(r, a)->dtype);
    return half || dyn_rec_graph(r)->device != 0 || (rec_torch_follows(c->result) && !inside);
}

/* A call of `n` operands, which a device's back end may make as that operator where autograd doesn't follow it, or inside. */
static DynVal *product_call(DynRec *r, NpCall *c, DynOp op, int n, const uint32_t *shape, bool inside) {
    DynVal *v = dyn_np_sized_extern(r, c->b->callable, c->b->path, c->slot, n, c->result, shape);
    DynNode *node = v == NULL ? NULL : dyn_np_node_at(r, rec_node_of(v));
    bool ours = inside || !rec_torch_follows(c->result);
    if (node != NULL && dyn_rec_graph(r)->device != 0 && ours && node->nargs == n) {
        node->op = op;
    }
    return v;
}

/* The product, whose node is given, with linear's bias where there is one. */
static DynVal *with_bias(DynRec *r, NpCall *c, uint32_t product, DynDtype dt) {
    if (product == DYN_NONE || c->slot[2].v == NULL) {
        return product == DYN_NONE ? NULL : dyn_np_result(r, product, c->result);
    }
    NpArg sum[2] = {dyn_np_node_arg(r, product)};
    return dyn_np_operand(r, c->slot[2], &sum[1]) < 0
               ? NULL
               : dyn_np_result(r, dyn_tt_elementwise(r, DYN_OP_ADD, dt, dt, sum, 2), c->result);
}

/* linear: the last axis of the input, K, with weight (N, K): the product, and the bias as a sum that is fused with what follows.
 */
DynVal *tt_rule_linear(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), w = a == DYN_NONE ? a : dyn_tt_tensor_of(r, c->slot[1]), shape[DYN_MAX_NDIM];
    if (w == DYN_NONE) {
        return NULL;
    }
    const DynNode *x = dyn_np_node_at(r, a), *y = dyn_np_node_at(r, w);
    if (x->ndim == 0 || y->ndim != 2 || dyn_np_agree(r, x->shape[x->ndim - 1], y->shape[1]) < 0) {
        return dyn_np_unsupported(r);
    }
    memcpy(shape, x->shape, sizeof(*shape) * x->ndim);
    shape[x->ndim - 1] = y->shape[0];
    DynDtype dt = (DynDtype)x->dtype;
    if (is_sum(r, c, a, w, true)) {
        return with_bias(r, c, sum_of_products(r, a, w, true), dt);
    }
    bool inside = dyn_rec_own_products(r) && dyn_derive_is_small(dyn_rec_graph(r), DYN_OP_LINEAR, a, w);
    if (c->slot[2].v != NULL && keeps_bias(r, c, a, inside)) {
        return product_call(r, c, DYN_OP_LINEAR, 3, shape, inside);
    }
    DynVal *v =
        dyn_np_sized_extern(r, c->b->callable, c->b->path, c->slot, 2, c->result, shape); /* of this shape and dtype too */
    if (v == NULL) {
        return NULL;
    }
    dyn_np_node_at(r, rec_node_of(v))->op = DYN_OP_LINEAR;
    return c->slot[2].v == NULL ? v : with_bias(r, c, rec_node_of(v), dt);
}

/* matmul, mm, bmm: as NumPy's; rank 1 too. */
DynVal *tt_rule_matmul(DynRec *r, NpCall *c) {
    bool plain = c->npos == 2 && c->kwnames == NULL;
    uint32_t a = plain ? dyn_tt_tensor_of(r, c->slot[0]) : DYN_NONE, b = a == DYN_NONE ? a : dyn_tt_tensor_of(r, c->slot[1]);
    if (b != DYN_NONE && is_sum(r, c, a, b, false)) {
        const DynNode *x = dyn_np_node_at(r, a);
        return dyn_np_agree(r, x->shape[x->ndim - 1], dyn_np_node_at(r, b)->shape[0]) < 0
                   ? NULL
                   : dyn_np_result(r, sum_of_products(r, a, b, false), c->result);
    }
    return np_rule_matmul(r, c);
}

/* addmm, baddbmm: the sizes of the product; the first operand, which broadcasts to them, is the call's affair. */
DynVal *tt_rule_addmm(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[1]), b = a == DYN_NONE ? a : dyn_tt_tensor_of(r, c->slot[2]), shape[3];
    if (b == DYN_NONE) {
        return NULL;
    }
    const DynNode *x = dyn_np_node_at(r, a), *y = dyn_np_node_at(r, b);
    int ndim = x->ndim;
    bool matrices = ndim >= 2 && ndim <= 3 && y->ndim == ndim;
    if (!matrices || dyn_np_agree(r, x->shape[ndim - 1], y->shape[ndim - 2]) < 0) {
        return dyn_np_unsupported(r);
    }
    memcpy(shape, x->shape, sizeof(*shape) * ndim);
    shape[ndim - 1] = y->shape[ndim - 1];
    bool plain = ndim == 2 && c->npos == 3 && c->kwnames == NULL && c->out.v == NULL;
    return plain ? product_call(r, c, DYN_OP_ADDMM, 3, shape, false) : dyn_np_sized_call(r, c, ndim, shape);
}

/* torch.embedding: rows of the weight, the first operand, in the places of the second. */
DynVal *tt_rule_embedding(DynRec *r, NpCall *c) {
    uint32_t w = dyn_tt_tensor_of(r, c->slot[0]), at = w == DYN_NONE ? w : dyn_tt_tensor_of(r, c->slot[1]), shape[DYN_MAX_NDIM];
    if (at == DYN_NONE || dyn_np_node_at(r, w)->ndim != 2 || dyn_np_node_at(r, at)->ndim + 1 > DYN_MAX_NDIM) {
        return dyn_np_unsupported(r);
    }
    int ndim = dyn_np_node_at(r, at)->ndim;
    memcpy(shape, dyn_np_node_at(r, at)->shape, sizeof(*shape) * ndim);
    shape[ndim] = dyn_np_node_at(r, w)->shape[1];
    return dyn_np_sized_call(r, c, ndim + 1, shape);
}

/* Scaled dot product attention: the query's sizes with the last of the value. Dropout draws random numbers. */
DynVal *tt_rule_attention(DynRec *r, NpCall *c) {
    uint32_t q = dyn_tt_tensor_of(r, c->slot[0]), v = q == DYN_NONE ? q : dyn_tt_tensor_of(r, c->slot[2]), shape[DYN_MAX_NDIM];
    DynOperand p = dyn_np_slot(c, "dropout_p");
    double drops = 0;
    if (v == DYN_NONE || dyn_tt_burnt_float(r, p, &drops) < 0) {
        return NULL;
    }
    int ndim = dyn_np_node_at(r, q)->ndim;
    if (ndim < 2 || dyn_np_node_at(r, v)->ndim != ndim) {
        return dyn_np_unsupported(r);
    }
    memcpy(shape, dyn_np_node_at(r, q)->shape, sizeof(*shape) * ndim);
    shape[ndim - 1] = dyn_np_node_at(r, v)->shape[ndim - 1];
    return drops != 0 ? dyn_np_sized_once(r, c, ndim, shape) : dyn_np_sized_call(r, c, ndim, shape);
}

/* ---- windows: convolutions and pools */

/* (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1, and at least 1: torch raises for less. DYN_NONE where one of
 * them is. */
static uint32_t windows(DynRec *r, uint32_t size, uint32_t kernel, uint32_t stride, uint32_t padding, uint32_t dilation) {
    uint32_t one = dyn_np_int(r, 1);
    uint32_t padded = dyn_np_op(r, DYN_S_ADD, size, dyn_np_op(r, DYN_S_MUL, dyn_np_int(r, 2), padding));
    uint32_t reach = dyn_np_op(r, DYN_S_MUL, dilation, dyn_np_op(r, DYN_S_SUB, kernel, one));
    uint32_t left = dyn_np_op(r, DYN_S_SUB, dyn_np_op(r, DYN_S_SUB, padded, reach), one);
    uint32_t n = dyn_np_op(r, DYN_S_ADD, dyn_np_op(r, DYN_S_FLOORDIV, left, stride), one);
    return n == DYN_NONE || dyn_np_assume_op(r, DYN_S_GE, n, 1) < 0 ? DYN_NONE : n;
}

/* conv1d to conv3d (the operator): (batch, channels, sizes …) with weight (channels out, channels / groups, kernel …). */
DynVal *tt_rule_conv(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), w = a == DYN_NONE ? a : dyn_tt_tensor_of(r, c->slot[1]), shape[DYN_MAX_NDIM];
    uint32_t zero = dyn_np_int(r, 0), one = dyn_np_int(r, 1);
    DynOperand padding = dyn_np_slot(c, "padding");
    int n = c->b->op;
    if (w == DYN_NONE || dyn_np_node_at(r, w)->ndim != n + 2 || dyn_np_node_at(r, a)->ndim < n + 1) {
        return dyn_np_unsupported(r);
    }
    bool same = dyn_tt_is_str(r, padding, "same"), valid = dyn_tt_is_str(r, padding, "valid");
    int first = dyn_np_node_at(r, a)->ndim - n;
    memcpy(shape, dyn_np_node_at(r, a)->shape, sizeof(*shape) * (first + n));
    shape[first - 1] = dyn_np_node_at(r, w)->shape[0];
    for (int i = 0; i < n && !same; i++) {
        shape[first + i] = windows(
            r, shape[first + i], dyn_np_node_at(r, w)->shape[2 + i], dyn_tt_number_of(r, dyn_np_slot(c, "stride"), i, one),
            valid ? zero : dyn_tt_number_of(r, padding, i, zero), dyn_tt_number_of(r, dyn_np_slot(c, "dilation"), i, one));
    }
    return dyn_np_sized_call(r, c, first + n, shape);
}

/* max_pool1d to 3d, avg_pool1d to 3d: the operator is the number of axes. */
DynVal *tt_rule_pool(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), shape[DYN_MAX_NDIM], zero = dyn_np_int(r, 0), one = dyn_np_int(r, 1);
    DynOperand kernel = dyn_np_slot(c, "kernel_size");
    bool ceil = false;
    int n = c->b->op;
    if (a == DYN_NONE || kernel.v == NULL || dyn_np_node_at(r, a)->ndim < n + 1) {
        return dyn_np_unsupported(r);
    }
    if (dyn_np_flag(r, dyn_np_slot(c, "ceil_mode"), &ceil) < 0 || ceil) {
        return dyn_np_unsupported(r);
    }
    int first = dyn_np_node_at(r, a)->ndim - n;
    memcpy(shape, dyn_np_node_at(r, a)->shape, sizeof(*shape) * (first + n));
    for (int i = 0; i < n; i++) {
        uint32_t k = dyn_tt_number_of(r, kernel, i, one), stride = dyn_tt_number_of(r, dyn_np_slot(c, "stride"), i, k);
        shape[first + i] = windows(r, shape[first + i], k, stride, dyn_tt_number_of(r, dyn_np_slot(c, "padding"), i, zero),
                                   dyn_tt_number_of(r, dyn_np_slot(c, "dilation"), i, one));
    }
    return dyn_np_sized_call(r, c, first + n, shape);
}

/* adaptive_avg_pool1d to 3d: the sizes that are asked for. */
DynVal *tt_rule_adaptive_pool(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), shape[DYN_MAX_NDIM];
    DynOperand size = dyn_np_slot(c, "output_size");
    int n = c->b->op, first = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim - n;
    if (first < 1 || size.v == NULL) {
        return dyn_np_unsupported(r);
    }
    memcpy(shape, dyn_np_node_at(r, a)->shape, sizeof(*shape) * (first + n));
    for (int i = 0; i < n; i++) {
        shape[first + i] = dyn_tt_number_of(r, size, i, DYN_NONE);
    }
    return dyn_np_sized_call(r, c, first + n, shape);
}
