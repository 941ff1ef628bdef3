/* rec_numpy_gather.c: elements that stand where an array of integers says: take, and a[index]. Called through the binding table.
 *
 * Such a lookup is a GATHER node, whose places are looked at before anything that can be seen is done: where one isn't there
 * CPython makes the whole call again, and eager raises. So there is none behind something that can't be done again, unless its
 * places can be looked at when the graph begins; nor where the elements' order in memory isn't C's at every call. Those stay
 * calls of NumPy's own function, of which the sizes are known.
 *
 * a[i, j] is a lookup in what its first axes are as one, at places that are computed: one that lies outside along any axis
 * becomes one that is nowhere. np.take_along_axis is a lookup in all axes as one. */
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
    DynArrayView view;
    DynLayout layout;
    if ((!take && (!table || !places)) || !dyn_array_view(result, &view))
        return false;
    dyn_layout_of(&view, &layout);
    return layout.kind == DYN_LAYOUT_C;
}

/* ---- places along several axes as one */

static uint32_t compute(DynRec *r, DynOp op, DynDtype dt, DynDtype result, uint32_t a, NpArg b) {
    NpArg args[2] = {dyn_np_node_arg(r, a), b};
    bool failed = a == DYN_NONE || b.arg.id == DYN_NONE;
    return failed ? DYN_NONE : dyn_np_elementwise_as(r, op, dt, result, args, 2);
}

static NpArg whole(uint32_t sym) { return (NpArg){{DYN_ARG_SYM, sym}, NP_WEAK_INT}; }

static NpArg node_arg(DynRec *r, uint32_t node) { return node == DYN_NONE ? whole(DYN_NONE) : dyn_np_node_arg(r, node); }

static uint32_t choose(DynRec *r, uint32_t mask, NpArg a, NpArg b) {
    NpArg args[3] = {node_arg(r, mask), a, b};
    bool failed = mask == DYN_NONE || a.arg.id == DYN_NONE || b.arg.id == DYN_NONE;
    return failed ? DYN_NONE : dyn_np_elementwise_as(r, DYN_OP_WHERE, DYN_I64, DYN_I64, args, 3);
}

/* Places that `index` names along an axis of that size, counted from the beginning; there: and the mask of those that are. */
static uint32_t counted(DynRec *r, uint32_t index, uint32_t size, uint32_t *there) {
    uint32_t at = node_at(r, index)->dtype == DYN_I64 ? index : dyn_np_copy(r, index, DYN_I64), zero = dyn_np_int(r, 0);
    uint32_t below = at == DYN_NONE ? at : compute(r, DYN_OP_LESS, DYN_I64, DYN_BOOL, at, whole(zero));
    uint32_t up = below == DYN_NONE ? below : compute(r, DYN_OP_ADD, DYN_I64, DYN_I64, at, whole(size));
    at = choose(r, below, node_arg(r, up), node_arg(r, at));
    uint32_t low = compute(r, DYN_OP_GREATER_EQUAL, DYN_I64, DYN_BOOL, at, whole(zero));
    uint32_t high = low == DYN_NONE ? low : compute(r, DYN_OP_LESS, DYN_I64, DYN_BOOL, at, whole(size));
    *there = compute(r, DYN_OP_LOGICAL_AND, DYN_BOOL, DYN_BOOL, low, node_arg(r, high));
    return *there == DYN_NONE ? DYN_NONE : at;
}

static uint32_t nowhere(DynRec *r, uint32_t there, uint32_t at) {
    return choose(r, there, node_arg(r, at), whole(dyn_np_int(r, INT64_MIN)));
}

/* The arrays of an index, of which whole slices may stand behind; their number, or -1. */
static int index_arrays(DynRec *r, DynOperand index, int ndim, uint32_t *at) {
    DynOperand items[DYN_MAX_NDIM] = {index}, part[3];
    int n = PyTuple_CheckExact(index.real) ? dyn_np_items(r, index, items, ndim) : index.v->kind == DV_ARRAY ? 1 : -1, arrays = 0;
    for (int i = 0; i < n; i++) {
        if (PySlice_Check(items[i].real) && arrays > 0) {
            bool all = dyn_np_items(r, items[i], part, 3) == 3;
            for (int k = 0; k < 3 && all; k++)
                all = part[k].real == Py_None && dyn_rec_burn(r, part[k].v, Py_None) == 0;
            if (!all)
                return -1;
            continue;
        }
        const DynNode *x = arrays == i && items[i].v->kind == DV_ARRAY ? node_at(r, items[i].v->id) : NULL;
        if (x == NULL || x->ndim == 0 || (dyn_dtypes[x->dtype].kind != 'i' && dyn_dtypes[x->dtype].kind != 'u'))
            return -1;
        at[arrays++] = items[i].v->id;
    }
    return n < 0 || arrays == 0 ? -1 : arrays;
}

int dyn_np_places(DynRec *r, uint32_t a, DynOperand index, uint32_t *table, uint32_t *places) {
    uint32_t at[DYN_MAX_NDIM] = {DYN_NONE}, shape[DYN_MAX_NDIM], there = DYN_NONE, sum = DYN_NONE;
    int ndim = node_at(r, a)->ndim, n = index_arrays(r, index, ndim, at);
    *table = a;
    *places = at[0];
    if (n == 1)
        return 0;
    if (n < 0 || !dyn_np_always_c(r, a))
        return refuse(r), -1;
    for (int i = 0; i < n; i++) {
        uint32_t ok, size = node_at(r, a)->shape[i];
        if (node_at(r, at[i])->ndim > 1 && !dyn_np_always_c(r, at[i]))
            return refuse(r), -1;
        uint32_t one = counted(r, at[i], size, &ok);
        sum = i == 0 ? one : compute(r, DYN_OP_MULTIPLY, DYN_I64, DYN_I64, sum, whole(size));
        sum = i == 0 || sum == DYN_NONE ? sum : compute(r, DYN_OP_ADD, DYN_I64, DYN_I64, sum, node_arg(r, one));
        there = i == 0 || ok == DYN_NONE ? ok : compute(r, DYN_OP_LOGICAL_AND, DYN_BOOL, DYN_BOOL, there, node_arg(r, ok));
        if (sum == DYN_NONE || there == DYN_NONE)
            return -1;
    }
    shape[0] = dyn_np_product(r, n, node_at(r, a)->shape);
    memcpy(shape + 1, node_at(r, a)->shape + n, sizeof(*shape) * (size_t)(ndim - n));
    *places = nowhere(r, there, sum);
    *table = shape[0] == DYN_NONE ? DYN_NONE : dyn_np_reshape_view(r, a, ndim - n + 1, shape, DYN_NODE_VIEW);
    return *places == DYN_NONE || *table == DYN_NONE ? -1 : 0;
}

uint32_t dyn_np_gather(DynRec *r, uint32_t a, uint32_t index, int axis, const uint32_t *shape, int ndim) {
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
    uint32_t id = in_order ? dyn_np_gather(r, table, at, axis, shape, ndim) : DYN_NONE;
    DynVal *v = id == DYN_NONE ? NULL : dyn_np_result(r, id, c->result);
    if (v != NULL)
        return v;
    dyn_graph_truncate(dyn_rec_graph(r), nnodes);
    *dyn_rec_why(r) = DYN_R_OK;
    return dyn_np_sized_call(r, c, ndim, shape);
}

/* a[i, j]: NULL where it has to be a call. */
DynVal *dyn_np_lookup(DynRec *r, uint32_t a, DynOperand index, PyObject *result) {
    uint32_t table, places, shape[DYN_MAX_NDIM];
    if (dyn_np_places(r, a, index, &table, &places) < 0)
        return NULL;
    const DynNode *x = node_at(r, table), *y = node_at(r, places);
    int ndim = x->ndim - 1 + y->ndim;
    if (ndim > DYN_MAX_NDIM || !gives_c(r, table, places, false, result))
        return refuse(r);
    memcpy(shape, y->shape, sizeof(*shape) * y->ndim);
    memcpy(shape + y->ndim, x->shape + 1, sizeof(*shape) * (size_t)(x->ndim - 1));
    return dyn_np_result(r, dyn_np_gather(r, table, places, 0, shape, ndim), result);
}
