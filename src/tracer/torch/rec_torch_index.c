/* rec_torch_index.c: elements that other tensors name: x[i, j], gather and its like, and writing there. Called through the
 * binding table and by rec_torch_view.c. Where one tensor of places stands alone the lookup and the write are nodes as NumPy's
 * are (rec_numpy_gather.c, rec_numpy_scatter.c); the others stay calls of PyTorch's own whose sizes are known before. */
#include "tracer/torch/rec_torch.h"

static bool is_places(DynRec *r, DynOperand o) {
    const DynNode *n = o.v->kind == DV_ARRAY && dyn_torch_is(o.real) ? dyn_np_node_at(r, rec_node_of(o.v)) : NULL;
    return n != NULL && (n->dtype == DYN_I64 || n->dtype == DYN_I32);
}

/* The sizes of several tensors of places, broadcast into shape; -1. */
static int spread(DynRec *r, uint32_t node, uint32_t *shape, int *ndim) {
    const DynNode *n = dyn_np_node_at(r, node);
    uint32_t old[DYN_MAX_NDIM];
    int was = *ndim;
    memcpy(old, shape, sizeof(*shape) * (size_t)was);
    *ndim = n->ndim > was ? n->ndim : was;
    for (int i = 0; i < *ndim; i++) {
        int k = i - (*ndim - n->ndim), l = i - (*ndim - was);
        uint32_t s = k < 0 ? DYN_NONE : dyn_np_node_at(r, node)->shape[k];
        uint32_t t = l < 0 ? DYN_NONE : old[l];
        if (s == DYN_NONE || t == DYN_NONE) {
            shape[i] = s == DYN_NONE ? t : s;
            continue;
        }
        bool same = dyn_np_hint(r, s) == dyn_np_hint(r, t), one = dyn_np_hint(r, s) == 1;
        uint32_t stretched = one ? s : t;
        if ((same ? dyn_rec_assume_equal(r, s, t) : dyn_np_assume_op(r, DYN_S_EQ, stretched, 1)) < 0) {
            return -1;
        }
        shape[i] = one && !same ? t : s;
    }
    return 0;
}

static bool is_whole(DynRec *r, DynOperand slice) {
    DynOperand part[3];
    bool whole = dyn_np_items(r, slice, part, 3) == 3;
    for (int i = 0; i < 3 && whole; i++) {
        whole = part[i].real == Py_None && dyn_rec_burn(r, part[i].v, Py_None) == 0;
    }
    return whole;
}

/* The sizes of x[index], of tensors of places, whole slices, None and ...; the rank, or -1: known only behind the call. The
 * places' own axes stand where the first of them stood, or in front where something stands between them. */
static int indexed_sizes(DynRec *r, uint32_t a, DynOperand index, uint32_t *shape) {
    DynOperand items[2 * DYN_MAX_NDIM] = {index};
    uint32_t places[DYN_MAX_NDIM], rest[2 * DYN_MAX_NDIM];
    int n = dyn_is_tuple(index.real) ? dyn_np_items(r, index, items, 2 * DYN_MAX_NDIM) : 1, named = 0,
        ndim = dyn_np_node_at(r, a)->ndim;
    int axis = 0, nplaces = 0, nrest = 0, at = -1, last = -1;
    for (int i = 0; i < n; i++) {
        named += items[i].real != Py_None && items[i].real != Py_Ellipsis;
    }
    if (n < 0 || named > ndim) {
        return -1;
    }
    for (int i = 0; i < n; i++) {
        bool dots = items[i].real == Py_Ellipsis;
        if (items[i].real == Py_None) {
            rest[nrest++] = dyn_np_int(r, 1);
        } else if (dots || (PySlice_Check(items[i].real) && is_whole(r, items[i]))) {
            for (int k = dots ? named : ndim - 1; k < ndim; k++) {
                rest[nrest++] = dyn_np_node_at(r, a)->shape[axis++];
            }
        } else {
            if (!is_places(r, items[i]) || spread(r, rec_node_of(items[i].v), places, &nplaces) < 0) {
                return -1;
            }
            if (at < 0) {
                at = nrest;
            } else if (last != i - 1) {
                at = 0;
            }
            last = i;
            axis++;
        }
    }
    while (axis < ndim) {
        rest[nrest++] = dyn_np_node_at(r, a)->shape[axis++];
    }
    if (at < 0 || nrest + nplaces > DYN_MAX_NDIM) {
        return -1;
    }
    memcpy(shape, rest, sizeof(*shape) * (size_t)at);
    memcpy(shape + at, places, sizeof(*shape) * (size_t)nplaces);
    memcpy(shape + at + nplaces, rest + at, sizeof(*shape) * (size_t)(nrest - at));
    return nrest + nplaces;
}

DynVal *dyn_tt_lookup(DynRec *r, PyObject *getitem, DynOperand a, uint32_t base, DynOperand index, PyObject *result) {
    uint32_t shape[DYN_MAX_NDIM];
    DynOperand args[2] = {a, index};
    if (is_places(r, index)) {
        DynBinding row = {.path = "getitem", .rule = np_rule_take, .op = 2, .callable = getitem};
        NpCall call = {.b = &row, .args = args, .npos = 2, .result = result, .slot = {a, index}};
        return np_rule_take(r, &call);
    }
    int ndim = indexed_sizes(r, base, index, shape);
    DynArrayView view;
    bool sized = ndim >= 0 && dyn_array_look(result, &view) && view.ndim == ndim;
    *dyn_rec_why(r) = DYN_R_OK;
    return sized ? dyn_np_sized_extern(r, getitem, "getitem", args, 2, result, shape)
                 : dyn_np_extern(r, getitem, "getitem", args, 2, NULL, result);
}

/* x[mask] = number: each element is that or what it was. */
static int store_masked(DynRec *r, uint32_t base, uint32_t mask, NpArg value) {
    const DynNode *n = dyn_np_node_at(r, base), *m = dyn_np_node_at(r, mask);
    DynDtype dt = (DynDtype)n->dtype;
    if (m->dtype != DYN_BOOL || m->ndim != n->ndim || value.arg.kind != DYN_ARG_SYM) {
        return -1;
    }
    bool truncates = value.code == NP_WEAK_FLOAT && dyn_dtypes[dt].kind != 'f';
    if (truncates || dt == DYN_BOOL) {
        return -1;
    }
    for (int i = 0; i < n->ndim; i++) {
        if (dyn_np_hint(r, n->shape[i]) != dyn_np_hint(r, dyn_np_node_at(r, mask)->shape[i]) ||
            dyn_rec_assume_equal(r, n->shape[i], dyn_np_node_at(r, mask)->shape[i]) < 0) {
            return -1;
        }
    }
    NpArg args[3] = {dyn_np_node_arg(r, mask), value, dyn_np_node_arg(r, base)};
    uint32_t t = dyn_tt_elementwise(r, DYN_OP_WHERE, dt, dt, args, 3);
    return t == DYN_NONE ? -1 : dyn_np_store(r, base, dyn_np_node_arg(r, t));
}

int dyn_tt_store_places(DynRec *r, uint32_t base, DynOperand index, DynOperand value) {
    NpArg v;
    uint32_t at = index.v->kind == DV_ARRAY ? dyn_np_node(r, index) : DYN_NONE;
    if (at == DYN_NONE || dyn_np_operand(r, value, &v) < 0) {
        return -1;
    }
    if (!is_places(r, index)) {
        return store_masked(r, base, at, v);
    }
    bool same = v.arg.kind == DYN_ARG_SYM ? v.code == NP_WEAK_INT || dyn_dtypes[dyn_np_node_at(r, base)->dtype].kind == 'f'
                                          : v.code == dyn_np_node_at(r, base)->dtype;
    return same ? dyn_np_scatter(r, base, at, v, -1) : -1;
}

/* ---- calls whose sizes are those of an operand: the operator is its slot */

DynVal *tt_rule_like(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[c->b->op]);
    return a == DYN_NONE ? NULL : dyn_np_sized_call(r, c, dyn_np_node_at(r, a)->ndim, dyn_np_node_at(r, a)->shape);
}

/* index_select: as many along the axis as there are places. */
DynVal *tt_rule_index_select(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), at = a == DYN_NONE ? a : dyn_tt_tensor_of(r, c->slot[2]), shape[DYN_MAX_NDIM];
    int axis, ndim = at == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    if (ndim == 0 || dyn_tt_axis(r, c->slot[1], ndim, &axis) < 0) {
        return at == DYN_NONE ? NULL : dyn_np_unsupported(r);
    }
    memcpy(shape, dyn_np_node_at(r, a)->shape, sizeof(*shape) * (size_t)ndim);
    shape[axis] = dyn_np_product(r, dyn_np_node_at(r, at)->ndim, dyn_np_node_at(r, at)->shape);
    return dyn_np_sized_call(r, c, ndim, shape);
}

/* The same of calls whose other arguments may be of any form. */
DynVal *tt_rule_like_first(DynRec *r, NpCall *c) {
    uint32_t a = c->npos == 0 ? dyn_np_no_node(r) : dyn_tt_tensor_of(r, c->args[0]);
    return a == DYN_NONE ? NULL : dyn_np_sized_call(r, c, dyn_np_node_at(r, a)->ndim, dyn_np_node_at(r, a)->shape);
}
