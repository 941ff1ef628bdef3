/* rec_torch_reduce.c: reductions of tensors. Called through the binding table. Makes nodes with dyn_np_reduce. */
#include "tracer/rec_torch.h"

typedef struct Reduction {
    uint32_t a;
    int naxes, axes[DYN_MAX_NDIM];
    bool keepdim;
    DynDtype dtype; /* asked for, or DYN_NO_DTYPE */
} Reduction;

/* dim=None and dim=() are all axes. */
static int arguments(DynRec *r, const NpCall *c, Reduction *x) {
    DynOperand dim = dyn_np_slot(c, "dim");
    bool none = dim.v == NULL || (PyTuple_Check(dim.real) && PyTuple_GET_SIZE(dim.real) == 0) ||
                (PyList_CheckExact(dim.real) && PyList_GET_SIZE(dim.real) == 0);
    *x = (Reduction){.a = dyn_np_node(r, c->slot[0]), .dtype = DYN_NO_DTYPE};
    if (x->a == DYN_NONE || dyn_np_flag(r, dyn_np_slot(c, "keepdim"), &x->keepdim) < 0 || dyn_tt_dtype(r, c, &x->dtype) < 0)
        return -1;
    int ndim = dyn_tt_node(r, x->a)->ndim;
    if (ndim == 0 && !none)
        return dyn_rec_burn(r, dim.v, dim.real) < 0 ? -1 : 0;
    x->naxes = dyn_np_axes(r, none ? (DynOperand){0} : dim, ndim, x->axes);
    return x->naxes < 0 ? -1 : 0;
}

static bool is_whole(DynDtype dt) { return dyn_dtypes[dt].kind != 'f' && dyn_dtypes[dt].kind != 'c'; }

/* sum, prod, amax, amin, any, all. */
DynVal *tt_rule_reduce(DynRec *r, NpCall *c) {
    Reduction x;
    DynOp op = (DynOp)c->b->op;
    if (arguments(r, c, &x) < 0)
        return NULL;
    DynDtype dt = (DynDtype)dyn_tt_node(r, x.a)->dtype, result = dt;
    bool sums = op == DYN_OP_SUM || op == DYN_OP_PROD;
    if (sums)
        result = x.dtype != DYN_NO_DTYPE ? x.dtype : is_whole(dt) ? DYN_I64 : dt;
    else if (op == DYN_OP_ANY || op == DYN_OP_ALL)
        result = DYN_BOOL;
    if (result == DYN_F16 || (dt == DYN_U8 && result == DYN_BOOL)) /* torch gives uint8 for uint8 */
        return dyn_tt_refuse(r);
    return dyn_tt_finish(r, c, dyn_np_reduce(r, op, x.a, x.naxes, x.axes, x.keepdim, result));
}

DynVal *tt_rule_mean(DynRec *r, NpCall *c) {
    Reduction x;
    uint32_t sizes[DYN_MAX_NDIM];
    if (arguments(r, c, &x) < 0)
        return NULL;
    DynDtype dt = x.dtype != DYN_NO_DTYPE ? x.dtype : (DynDtype)dyn_tt_node(r, x.a)->dtype;
    if (is_whole(dt) || dt == DYN_F16)
        return dyn_tt_refuse(r);
    for (int i = 0; i < x.naxes; i++)
        sizes[i] = dyn_tt_node(r, x.a)->shape[x.axes[i]];
    uint32_t n = dyn_np_product(r, x.naxes, sizes);
    uint32_t sum = n == DYN_NONE ? n : dyn_np_reduce(r, DYN_OP_SUM, x.a, x.naxes, x.axes, x.keepdim, dt);
    return dyn_tt_finish(r, c, dyn_tt_binary(r, DYN_OP_DIVIDE, sum, (NpArg){{DYN_ARG_SYM, n}, NP_WEAK_INT}));
}
