/* rec_torch_call.c: calls of PyTorch's own functions whose sizes follow from the operands': so what comes behind them knows its
 * sizes before the call is made. Called through the binding table. */
#include "tracer/rec_torch.h"

static uint32_t tensor(DynRec *r, DynOperand o) {
    return o.v == NULL || o.v->kind != DV_ARRAY ? dyn_tt_none(r) : dyn_np_node(r, o);
}

static int agree(DynRec *r, uint32_t a, uint32_t b) {
    return dyn_np_hint(r, a) == dyn_np_hint(r, b) && dyn_rec_assume_equal(r, a, b) == 0 ? 0 : (dyn_tt_refuse(r), -1);
}

/* linear: the last axis of the input, K, with weight (N, K): the product, and the bias as a sum that is fused with what follows.
 */
DynVal *tt_rule_linear(DynRec *r, NpCall *c) {
    uint32_t a = tensor(r, c->slot[0]), w = a == DYN_NONE ? a : tensor(r, c->slot[1]), shape[DYN_MAX_NDIM];
    if (w == DYN_NONE)
        return NULL;
    const DynNode *x = dyn_tt_node(r, a), *y = dyn_tt_node(r, w);
    if (x->ndim == 0 || y->ndim != 2 || agree(r, x->shape[x->ndim - 1], y->shape[1]) < 0)
        return dyn_tt_refuse(r);
    memcpy(shape, x->shape, sizeof(*shape) * x->ndim);
    shape[x->ndim - 1] = y->shape[0];
    DynDtype dt = (DynDtype)x->dtype;
    DynVal *v =
        dyn_np_sized_extern(r, c->b->callable, c->b->path, c->slot, 2, c->result, shape); /* of this shape and dtype too */
    if (v == NULL)
        return NULL;
    dyn_rec_graph(r)->externs.at[dyn_tt_node(r, v->id)->extern_index].product = DYN_PRODUCT_LINEAR;
    NpArg sum[2] = {dyn_np_node_arg(r, v->id)};
    if (c->slot[2].v == NULL)
        return v;
    return dyn_np_operand(r, c->slot[2], &sum[1]) < 0
               ? NULL
               : dyn_np_result(r, dyn_tt_elementwise(r, DYN_OP_ADD, dt, dt, sum, 2), c->result);
}

/* matmul, mm, bmm: as NumPy's; rank 1 too. */
DynVal *tt_rule_matmul(DynRec *r, NpCall *c) { return np_rule_matmul(r, c); }
