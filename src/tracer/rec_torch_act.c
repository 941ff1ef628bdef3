/* rec_torch_act.c: activation functions as the elementwise operators that they are made of, in torch's order of operations.
 * Called through the binding table. The formulas are those of torch.nn.functional's documentation. */
#include "tracer/rec_torch.h"

/* inplace=True of torch.nn.functional: the tensor itself is changed. */
static DynVal *activated(DynRec *r, NpCall *c, uint32_t node) {
    bool inplace = false;
    if (node == DYN_NONE || dyn_np_flag(r, dyn_np_slot(c, "inplace"), &inplace) < 0)
        return NULL;
    if (!inplace)
        return dyn_tt_finish(r, c, node);
    return c->result == c->args[0].real ? dyn_np_store_into(r, c->slot[0], dyn_np_node_arg(r, node)) : dyn_tt_refuse(r);
}

/* Operator 6: relu6. */
DynVal *tt_rule_relu(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    if (a == DYN_NONE || dyn_tt_node(r, a)->dtype == DYN_BOOL)
        return dyn_tt_refuse(r);
    uint32_t node = dyn_tt_binary(r, DYN_OP_MAXIMUM, a, dyn_tt_int(r, 0));
    return activated(r, c, c->b->op == 6 ? dyn_tt_binary(r, DYN_OP_MINIMUM, node, dyn_tt_int(r, 6)) : node);
}

/* 1 / (1 + exp(-x)), in floats. */
DynVal *tt_rule_sigmoid(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    if (a == DYN_NONE)
        return NULL;
    NpArg x = dyn_np_node_arg(r, a);
    DynDtype dt = dyn_tt_float(r, (DynDtype)x.code);
    if (dyn_dtypes[dt].kind != 'f' || dt == DYN_F16)
        return dyn_tt_refuse(r);
    uint32_t t = dyn_tt_elementwise(r, DYN_OP_NEGATIVE, dt, dt, &x, 1);
    t = dyn_tt_binary(r, DYN_OP_ADD, dyn_tt_unary(r, DYN_OP_EXP, t), dyn_tt_int(r, 1));
    return activated(r, c, dyn_tt_unary(r, DYN_OP_RECIPROCAL, t));
}
