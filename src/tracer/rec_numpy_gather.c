/* rec_numpy_gather.c: elements that stand where an array of integers says: take, and a[index]. Called through the binding table.
 *
 * Such a lookup is a GATHER node, whose places are looked at before anything that can be seen is done: where one isn't there
 * CPython makes the whole call again, and eager raises. So there is none behind something that can't be done again, unless its
 * places can be looked at when the graph begins; nor where the elements' order in memory isn't C's at every call. Those stay
 * calls of NumPy's own function, of which the sizes are known. */
#include "tracer/extern.h"
#include "tracer/rec_np.h"

static DynNode *node_at(DynRec *r, uint32_t id) { return dyn_graph_node(dyn_rec_graph(r), id); }

static DynVal *refuse(DynRec *r) { return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP); }

static uint32_t operand_node(DynRec *r, DynOperand o) {
    if (o.v == NULL || (o.v->kind != DV_ARRAY && o.v->kind != DV_NPSCALAR))
        return refuse(r), DYN_NONE;
    return o.v->id;
}

bool dyn_np_has_acted(DynRec *r) {
    const DynGraph *g = dyn_rec_graph(r);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        uint32_t written = dyn_graph_written(g, i);
        const DynNode *n = dyn_graph_node(g, i);
        bool once = n->op == DYN_OP_EXTERN && n->extern_index < g->externs.n && g->externs.at[n->extern_index].once;
        if (once || (written != DYN_NONE && dyn_graph_node(g, written)->op == DYN_OP_INPUT))
            return true;
    }
    return false;
}

bool dyn_np_known_from_the_start(DynRec *r, uint32_t index, uint32_t size) {
    const DynGraph *g = dyn_rec_graph(r);
    const DynNode *n = node_at(r, index);
    if (node_at(r, n->storage)->op != DYN_OP_INPUT || dyn_sym_is_late(dyn_rec_syms(r), size))
        return false;
    for (int i = 0; i < n->ndim; i++)
        if (dyn_sym_is_late(dyn_rec_syms(r), n->shape[i]))
            return false;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (dyn_graph_written(g, i) == n->storage)
            return false;
    return true;
}

/* Do the result's elements lie in C order at every call? np.take's do. */
static bool gives_c(DynRec *r, uint32_t a, uint32_t index, bool take, PyObject *result) {
    bool table = node_at(r, a)->ndim == 1 || dyn_np_always_c(r, a);
    bool places = node_at(r, index)->ndim == 1 || dyn_np_always_c(r, index);
    return (take || (table && places)) && PyArray_CheckExact(result) && PyArray_IS_C_CONTIGUOUS((PyArrayObject *)result);
}

/* The node, or DYN_NONE: it has to be a call. */
static uint32_t gather(DynRec *r, uint32_t a, uint32_t index, int axis, const uint32_t *shape, int ndim) {
    const DynNode *x = node_at(r, a), *at = node_at(r, index);
    if (at->ndim == 0 || (dyn_np_has_acted(r) && !dyn_np_known_from_the_start(r, index, x->shape[axis])))
        return DYN_NONE;
    for (int i = 0; i < x->ndim; i++) /* where there is nothing to look up, eager may not look at the places */
        if (i != axis && (dyn_np_hint(r, x->shape[i]) == 0 || dyn_np_assume_op(r, DYN_S_NE, x->shape[i], 0) < 0))
            return DYN_NONE;
    uint32_t id = dyn_np_add(r, DYN_OP_GATHER, (DynDtype)x->dtype, ndim, 2, 1);
    if (id == DYN_NONE)
        return DYN_NONE;
    DynNode *n = node_at(r, id);
    n->args[0] = (DynArg){DYN_ARG_NODE, a};
    n->args[1] = (DynArg){DYN_ARG_NODE, index};
    n->aux[0] = axis;
    memcpy(n->shape, shape, sizeof(*shape) * (size_t)ndim);
    return id;
}

/* take, and a[indices] (operator 1): the indices' sizes stand where the axis was. */
DynVal *np_rule_take(DynRec *r, NpCall *c) {
    uint32_t a = operand_node(r, c->slot[0]), at = operand_node(r, c->slot[1]), shape[DYN_MAX_NDIM];
    int axis = 0, ndim = 0;
    if (a == DYN_NONE || at == DYN_NONE)
        return NULL;
    char kind = dyn_dtypes[node_at(r, at)->dtype].kind;
    bool flat = c->slot[2].v == NULL && c->b->op == 0;
    if (kind != 'i' && kind != 'u')
        return refuse(r);
    if (c->slot[2].v != NULL && dyn_np_axes(r, c->slot[2], node_at(r, a)->ndim, &axis) != 1)
        return NULL;
    const DynNode *x = node_at(r, a), *y = node_at(r, at);
    if (x->ndim == 0 || x->ndim - 1 + y->ndim > DYN_MAX_NDIM)
        return refuse(r);
    for (int i = 0; i < axis && !flat; i++)
        shape[ndim++] = x->shape[i];
    for (int i = 0; i < y->ndim; i++)
        shape[ndim++] = y->shape[i];
    for (int i = axis + 1; i < x->ndim && !flat; i++)
        shape[ndim++] = x->shape[i];
    uint32_t nnodes = dyn_rec_graph(r)->nodes.n, table = flat && x->ndim > 1 ? dyn_np_ravel(r, a) : a;
    bool in_order = table != DYN_NONE && gives_c(r, table, at, c->b->op == 0, c->result);
    uint32_t id = in_order ? gather(r, table, at, axis, shape, ndim) : DYN_NONE;
    DynVal *v = id == DYN_NONE ? NULL : dyn_np_result(r, id, c->result);
    if (v != NULL)
        return v;
    dyn_graph_truncate(dyn_rec_graph(r), nnodes);
    *dyn_rec_why(r) = DYN_R_OK;
    return dyn_np_sized_call(r, c, ndim, shape);
}
