/* rec_numpy_sized.c: functions that stay calls of NumPy's own and whose result has sizes that follow from the operands': products
 * of matrices, linear algebra, linspace. Called through the binding table; rec_numpy_extern.c makes the nodes. */
#include "tracer/numpy/rec_np.h"
#include "tracer/record/rec_state.h"

uint32_t dyn_np_operand_node(DynRec *r, DynOperand o) {
    if (o.v == NULL || !rec_is_array(o.v)) {
        return dyn_np_unsupported(r), DYN_NONE;
    }
    return rec_node_of(o.v);
}

int dyn_np_agree(DynRec *r, uint32_t a, uint32_t b) {
    return dyn_np_hint(r, a) == dyn_np_hint(r, b) && dyn_rec_assume_equal(r, a, b) == 0 ? 0 : (dyn_np_unsupported(r), -1);
}

uint32_t dyn_np_broadcast_size(DynRec *r, uint32_t a, uint32_t b) {
    bool one = dyn_np_hint(r, a) == 1, other = dyn_np_hint(r, b) == 1;
    if (one == other) {
        return dyn_np_agree(r, a, b) < 0 ? DYN_NONE : a;
    }
    uint32_t stretched = one ? a : b;
    if (dyn_np_assume_op(r, DYN_S_EQ, stretched, 1) < 0) {
        return DYN_NONE;
    }
    return one ? b : a;
}

/* matmul (operator 0) and dot (1) of rank 1 and 2; matmul of stacks, which broadcast. */
DynVal *np_rule_matmul(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_operand_node(r, c->slot[0]), b = dyn_np_operand_node(r, c->slot[1]), shape[DYN_MAX_NDIM];
    if (a == DYN_NONE || b == DYN_NONE) {
        return NULL;
    }
    const DynNode *x = dyn_np_node_at(r, a), *y = dyn_np_node_at(r, b);
    int big = x->ndim > y->ndim ? x->ndim : y->ndim, ndim = 0;
    bool number = x->ndim == 0 || y->ndim == 0;
    if (number || (c->b->op == 1 && big > 2)) {
        return dyn_np_unsupported(r);
    }
    if (dyn_np_agree(r, x->shape[x->ndim - 1], y->shape[y->ndim > 1 ? y->ndim - 2 : 0]) < 0) {
        return NULL;
    }
    for (int i = 0; i < big - 2; i++) {
        int k = x->ndim - big + i, l = y->ndim - big + i;
        uint32_t s = k >= 0 ? x->shape[k] : y->shape[l];
        uint32_t t = l >= 0 ? y->shape[l] : s;
        if ((shape[ndim++] = dyn_np_broadcast_size(r, s, t)) == DYN_NONE) {
            return NULL;
        }
    }
    if (x->ndim > 1) {
        shape[ndim++] = x->shape[x->ndim - 2];
    }
    if (y->ndim > 1) {
        shape[ndim++] = y->shape[y->ndim - 1];
    }
    DynVal *v = dyn_np_sized_call(r, c, ndim, shape);
    bool plain = c->npos == 2 && c->kwnames == NULL;
    if (v == NULL || !plain || !rec_is_array(v)) {
        return v;
    }
    DynNode *n = dyn_np_node_at(r, rec_node_of(v));
    if (dyn_node_calls(n) && n->nargs == 2) {
        n->op = DYN_OP_MATMUL;
    }
    return v;
}

DynVal *np_rule_solve(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_operand_node(r, c->slot[0]), b = dyn_np_operand_node(r, c->slot[1]);
    if (a == DYN_NONE || b == DYN_NONE) {
        return NULL;
    }
    const DynNode *x = dyn_np_node_at(r, a), *y = dyn_np_node_at(r, b);
    if (x->ndim != 2 || y->ndim < 1 || y->ndim > 2) {
        return dyn_np_unsupported(r);
    }
    if (dyn_np_agree(r, x->shape[0], x->shape[1]) < 0 || dyn_np_agree(r, x->shape[1], y->shape[0]) < 0) {
        return NULL;
    }
    uint32_t shape[2] = {y->shape[0], y->ndim > 1 ? y->shape[1] : DYN_NONE};
    return dyn_np_sized_call(r, c, y->ndim, shape);
}

/* The result has the operand's sizes; operator 1: the last two are equal. */
DynVal *np_rule_like_operand(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_operand_node(r, c->slot[0]);
    const DynNode *x = a == DYN_NONE ? NULL : dyn_np_node_at(r, a);
    if (x == NULL || (c->b->op == 1 && x->ndim < 2)) {
        return dyn_np_unsupported(r);
    }
    if (c->b->op == 1 && dyn_np_agree(r, x->shape[x->ndim - 1], x->shape[x->ndim - 2]) < 0) {
        return NULL;
    }
    return dyn_np_sized_call(r, c, x->ndim, x->shape);
}

DynVal *np_rule_det(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_operand_node(r, c->slot[0]);
    const DynNode *x = a == DYN_NONE ? NULL : dyn_np_node_at(r, a);
    if (x == NULL || x->ndim < 2 || dyn_np_agree(r, x->shape[x->ndim - 1], x->shape[x->ndim - 2]) < 0) {
        return dyn_np_unsupported(r);
    }
    return dyn_np_sized_call(r, c, x->ndim - 2, x->shape);
}

/* The operand's sizes without `axis` (all of them go where it isn't given). nonempty: the axes that go must have elements. */
static DynVal *without_axes(DynRec *r, NpCall *c, DynOperand axis, bool nonempty) {
    uint32_t a = dyn_np_operand_node(r, c->slot[0]), shape[DYN_MAX_NDIM], gone = 0;
    int axes[DYN_MAX_NDIM], ndim = 0;
    if (a == DYN_NONE) {
        return NULL;
    }
    int n = dyn_np_axes(r, axis, dyn_np_node_at(r, a)->ndim, axes);
    if (n < 0) {
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        gone |= 1u << axes[i];
    }
    for (int i = 0; i < dyn_np_node_at(r, a)->ndim; i++) {
        uint32_t size = dyn_np_node_at(r, a)->shape[i];
        if (!(gone >> i & 1u)) {
            shape[ndim++] = size;
        } else if (nonempty && dyn_np_assume_op(r, DYN_S_NE, size, 0) < 0) {
            return NULL;
        }
    }
    return dyn_np_sized_call(r, c, ndim, shape);
}

DynVal *np_rule_norm(DynRec *r, NpCall *c) {
    bool keepdims = false;
    if (dyn_np_flag(r, c->slot[3], &keepdims) < 0 || keepdims) {
        return dyn_np_unsupported(r);
    }
    return without_axes(r, c, c->slot[2], c->slot[1].v != NULL);
}

DynVal *np_rule_linspace(DynRec *r, NpCall *c) {
    bool retstep = false;
    bool bounded = c->slot[0].v != NULL && c->slot[1].v != NULL;
    if (!bounded || dyn_np_flag(r, c->slot[4], &retstep) < 0 || retstep) {
        return dyn_np_unsupported(r);
    }
    uint32_t n = c->slot[2].v == NULL ? dyn_np_int(r, 50) : dyn_np_int_sym(r, c->slot[2]);
    if (n == DYN_NONE || dyn_np_assume_op(r, DYN_S_GE, n, 0) < 0) {
        return NULL;
    }
    return dyn_np_sized_call(r, c, 1, &n);
}

/* outer of two vectors is the product of a column and a row. */
DynVal *np_rule_outer(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_operand_node(r, c->slot[0]), b = dyn_np_operand_node(r, c->slot[1]);
    if (a == DYN_NONE || b == DYN_NONE) {
        return dyn_np_unsupported(r);
    }
    if (dyn_np_node_at(r, a)->ndim != 1 || dyn_np_node_at(r, b)->ndim != 1) {
        return dyn_np_unsupported(r);
    }
    a = dyn_np_newaxis(r, a, 2, 2);
    b = a == DYN_NONE ? DYN_NONE : dyn_np_newaxis(r, b, 1, 2);
    if (b == DYN_NONE) {
        return NULL;
    }
    NpArg args[2] = {dyn_np_node_arg(r, a), dyn_np_node_arg(r, b)};
    return dyn_np_result(r, dyn_np_elementwise(r, DYN_OP_MULTIPLY, args, 2, NP_UFUNC), c->result);
}
