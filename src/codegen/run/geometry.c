/* geometry.c: where the elements of a place lie, from sizes and strides at run time: dense memory, and views of it as NumPy makes
 * them.
 *
 * Called by run.c at every call, before the kernels that need it. */
#include "codegen/run/exec.h"

int64_t dyn_geom_dense(const DynMem *m, const DynScalar *sym, DynGeom *out) {
    int64_t bytes = dyn_dtypes[m->dtype].size, total = bytes;
    bool none = false, fits = true;
    for (int i = 0; i < m->ndim; i++) {
        out->dims[i] = sym[m->shape[i]].i;
        none = none || out->dims[i] == 0;
        fits = fits && (out->dims[i] == 0 || !__builtin_mul_overflow(total, out->dims[i], &total));
    }
    if (!fits) {
        return -1;
    }
    for (int i = m->ndim; i-- > 0;) {
        int axis = m->layout->kind == DYN_LAYOUT_C ? i : m->layout->perm[i];
        out->strides[axis] = bytes;
        bytes *= out->dims[axis] > 0 ? out->dims[axis] : 1;
    }
    return none ? 0 : total;
}

static int view_slice(const DynNode *n, const DynNode *base, const DynScalar *sym, const DynGeom *from, DynGeom *out) {
    int axis = 0, arg = 1, to = 0;
    out->data = from->data;
    for (uint32_t i = 0; i < n->naux; i++) {
        if (n->aux[i] == 2) {
            out->dims[to] = 1;
            out->strides[to++] = 0;
            continue;
        }
        int64_t start = sym[n->args[arg].id].i, size = from->dims[axis];
        if (n->aux[i] == 1) {
            if (start < 0 || start >= size) {
                return -1;
            }
            arg++;
        } else {
            int64_t step = sym[n->args[arg + 2].id].i, length = sym[n->shape[to]].i;
            int64_t last = start + (length - 1) * step;
            bool begins_inside = start >= 0 && start < size, ends_inside = last >= 0 && last < size;
            if (length < 0 || (length > 0 && !(begins_inside && ends_inside))) {
                return -1;
            }
            start = length > 0 ? start : 0;
            out->dims[to] = length;
            out->strides[to++] = from->strides[axis] * step;
            arg += 3;
        }
        out->data += start * from->strides[axis++];
    }
    for (; axis < base->ndim; axis++, to++) {
        out->dims[to] = from->dims[axis];
        out->strides[to] = from->strides[axis];
    }
    return to == n->ndim ? 0 : -1;
}

static int view_broadcast(const DynNode *n, const DynNode *base, const DynScalar *sym, const DynGeom *from, DynGeom *out) {
    int shift = n->ndim - base->ndim;
    out->data = from->data;
    for (int i = 0; i < n->ndim; i++) {
        int64_t size = sym[n->shape[i]].i, have = i < shift ? 1 : from->dims[i - shift];
        if (have != size && have != 1) {
            return -1;
        }
        out->dims[i] = size;
        out->strides[i] = have == size && i >= shift ? from->strides[i - shift] : 0;
    }
    return 0;
}

/* Groups of axes with equal products, walked together; each group of the operand has to lie in one piece. */
static int view_reshape(const DynNode *n, const DynNode *base, const DynScalar *sym, const DynGeom *from, DynGeom *out) {
    int64_t dims[DYN_MAX_NDIM], strides[DYN_MAX_NDIM], total = 1, want = 1, item = dyn_dtypes[n->dtype].size;
    int have = 0;
    for (int i = 0; i < base->ndim; i++) {
        total *= from->dims[i];
        if (from->dims[i] != 1) {
            dims[have] = from->dims[i];
            strides[have++] = from->strides[i];
        }
    }
    for (int i = 0; i < n->ndim; i++) {
        out->dims[i] = sym[n->shape[i]].i;
        want *= out->dims[i];
    }
    out->data = from->data;
    if (want != total) {
        return -1;
    }
    if (total == 0) {
        for (int i = n->ndim; i-- > 0;) {
            out->strides[i] = item;
            item *= out->dims[i] > 0 ? out->dims[i] : 1;
        }
        return 0;
    }
    int i = 0, k = 0;
    while (i < have) {
        int64_t left = dims[i], right = 1;
        int last = i, first = k;
        while (k < n->ndim && (right *= out->dims[k++]) != left) {
            while (left < right && last + 1 < have) {
                left *= dims[++last];
            }
            if (left == right) {
                break;
            }
        }
        for (int a = i; a < last; a++) {
            if (strides[a] != strides[a + 1] * dims[a + 1]) {
                return -1;
            }
        }
        if (left != right) {
            return -1;
        }
        int64_t stride = strides[last];
        for (int a = k; a-- > first;) {
            out->strides[a] = stride;
            stride *= out->dims[a];
        }
        i = last + 1;
    }
    for (; k < n->ndim; k++) { /* sizes of 1 behind the rest */
        out->strides[k] = k > 0 ? out->strides[k - 1] : item;
    }
    return 0;
}

static int view_affine(const DynNode *n, const DynNode *base, const DynScalar *sym, const DynGeom *from, DynGeom *out) {
    bool none = false;
    out->data = from->data;
    for (int i = 0; i < n->ndim; i++) {
        out->dims[i] = sym[n->shape[i]].i;
        out->strides[i] = 0;
        none |= out->dims[i] == 0;
    }
    for (int k = 0; k < base->ndim; k++) {
        int64_t low = sym[n->args[1 + k].id].i, high = low, start = low;
        for (int i = 0; i < n->ndim; i++) {
            int64_t step = n->aux[k * n->ndim + i], way = step * (out->dims[i] - 1);
            *(way < 0 ? &low : &high) += way;
            out->strides[i] += step * from->strides[k];
        }
        if (!none && (low < 0 || high >= from->dims[k])) {
            return -1;
        }
        out->data += none ? 0 : start * from->strides[k];
    }
    return 0;
}

/* Of another size, the elements lie one behind the other along the last axis; larger ones where whole ones lie. */
static int view_as_dtype(const DynNode *n, const DynNode *base, const DynScalar *sym, const DynGeom *from, DynGeom *out) {
    int64_t size = dyn_dtypes[n->dtype].size, of_base = dyn_dtypes[base->dtype].size;
    *out = *from;
    if (size == of_base) {
        return 0;
    }
    int last = n->ndim - 1;
    if (from->dims[last] != 1 && from->strides[last] != of_base) {
        return -1;
    }
    for (int i = 0; size > of_base && i < last; i++) {
        if (from->strides[i] % size != 0) {
            return -1;
        }
    }
    out->dims[last] = sym[n->shape[last]].i;
    out->strides[last] = size;
    if (size > of_base && (uintptr_t)from->data % (uintptr_t)size != 0) {
        return -1;
    }
    return out->dims[last] * size == from->dims[last] * of_base ? 0 : -1;
}

int dyn_geom_view(const DynGraph *g, uint32_t node, const DynScalar *sym, const DynGeom *from, DynGeom *out) {
    const DynNode *n = dyn_graph_node(g, node), *base = dyn_graph_node(g, n->args[0].id);
    switch (n->op) {
    case DYN_OP_SLICE: return view_slice(n, base, sym, from, out);
    case DYN_OP_PERMUTE:
        out->data = from->data;
        for (int i = 0; i < n->ndim; i++) {
            out->dims[i] = from->dims[n->aux[i]];
            out->strides[i] = from->strides[n->aux[i]];
        }
        return 0;
    case DYN_OP_REAL:
    case DYN_OP_IMAG:
        out->data = from->data + (n->op == DYN_OP_IMAG ? dyn_dtypes[n->dtype].size : 0);
        memcpy(out->dims, from->dims, sizeof(*out->dims) * n->ndim);
        memcpy(out->strides, from->strides, sizeof(*out->strides) * n->ndim);
        return 0;
    case DYN_OP_BROADCAST: return view_broadcast(n, base, sym, from, out);
    case DYN_OP_RESHAPE: return view_reshape(n, base, sym, from, out);
    case DYN_OP_AFFINE: return view_affine(n, base, sym, from, out);
    case DYN_OP_AS_DTYPE: return view_as_dtype(n, base, sym, from, out);
    default: return -1;
    }
}

/* The order in which a TURNED node's elements lie. */
static DynLayout turned_layout(const DynGraph *g, const DynNode *n) {
    DynLayout order = n->layout;
    int axis = (int)n->aux[0], places = dyn_graph_node(g, n->args[1].id)->ndim;
    for (int i = 0; i < n->ndim && order.kind == DYN_LAYOUT_C; i++) { /* as axes of size 1 have no say */
        bool one = i >= axis && i < axis + places;
        int rank = i < axis ? places + i : i;
        order.perm[one ? i - axis : rank] = (uint8_t)i;
    }
    return order;
}

PyObject *dyn_geom_turned(const DynGraph *g, uint32_t node, const int64_t *dims) {
    const DynNode *n = dyn_graph_node(g, node);
    DynLayout order = turned_layout(g, n);
    return dyn_array_turned((DynDtype)n->dtype, n->ndim, dims, &order);
}

int dyn_geom_eager(const DynLoops *p, uint32_t node, const DynScalar *sym, const DynGeom *geoms, DynGeom *out) {
    const DynGraph *g = p->graph;
    const DynNode *n = dyn_graph_node(g, node);
    DynGeom base;
    if (n->flags & DYN_NODE_VIEW) {
        return dyn_geom_eager(p, n->args[0].id, sym, geoms, &base) < 0 ? -1 : dyn_geom_view(g, node, sym, &base, out);
    }
    if (dyn_node_stores(n)) {
        return dyn_geom_eager(p, n->args[0].id, sym, geoms, out);
    }
    bool product = dyn_ops[n->op].flags & DYN_OPF_PRODUCT; /* of a chain: it isn't there yet */
    if (p->places[node].kind == DYN_P_INPUT || (p->places[node].kind == DYN_P_EXTERN && !product)) {
        *out = geoms[node];
        return 0;
    }
    DynLayout layout = n->flags & DYN_NODE_TURNED ? turned_layout(g, n) : n->layout;
    layout.kind = n->flags & DYN_NODE_TURNED ? DYN_LAYOUT_STRIDED : layout.kind;
    DynMem dense = {.dtype = n->dtype, .ndim = n->ndim, .shape = n->shape, .layout = &layout};
    out->data = NULL;
    return dyn_geom_dense(&dense, sym, out) < 0 ? -1 : 0;
}
