/* rec_numpy_view.c: views: indexing, the order of axes, axes of size 1, and assignment to what an index names. Called by
 * rec_numpy.c and the recorder's handlers. A slice's bounds become symbols; where they lie in range now, a guard says
 * that they do at every call, which keeps the sizes simple (n - 2 in place of slice_len(…)). */
#include "base/tensors.h"
#include "tracer/numpy/rec_np.h"

static bool is_int(DynRec *r, uint32_t sym, int64_t value) {
    return dyn_sym_is_const(dyn_rec_syms(r), sym) && dyn_np_hint(r, sym) == value;
}

static uint32_t no_node(DynRec *r) {
    dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    return DYN_NONE;
}

/* ---- plain views */

uint32_t dyn_np_permute(DynRec *r, uint32_t a, const int *perm) {
    DynNode *n = dyn_np_node_at(r, a);
    int ndim = n->ndim;
    uint32_t id = dyn_np_unary_node(r, DYN_OP_PERMUTE, (DynDtype)n->dtype, a, ndim, ndim);
    for (int i = 0; i < ndim && id != DYN_NONE; i++) {
        dyn_np_node_at(r, id)->aux[i] = perm[i];
        dyn_np_node_at(r, id)->shape[i] = dyn_np_node_at(r, a)->shape[perm[i]];
    }
    return id;
}

uint32_t dyn_np_reshape_view(DynRec *r, uint32_t a, int ndim, const uint32_t *shape, uint8_t flag) {
    if (dyn_np_node_at(r, a)->flags & DYN_NODE_NPSCALAR) { /* its views are views of an array made of it */
        a = dyn_np_copy(r, a, (DynDtype)dyn_np_node_at(r, a)->dtype);
        if (a == DYN_NONE) {
            return a;
        }
        dyn_np_node_at(r, a)->flags &= (uint16_t)~DYN_NODE_NPSCALAR;
    }
    uint32_t id = dyn_np_unary_node(r, DYN_OP_RESHAPE, (DynDtype)dyn_np_node_at(r, a)->dtype, a, ndim, 0);
    if (id == DYN_NONE) {
        return id;
    }
    DynNode *n = dyn_np_node_at(r, id);
    memcpy(n->shape, shape, sizeof(*shape) * (size_t)ndim);
    if (flag == DYN_NODE_CONTIG_COPY) {
        n->flags = flag;
        n->storage = id;
    }
    return id;
}

uint32_t dyn_np_broadcast_view(DynRec *r, uint32_t a, int ndim, const uint32_t *shape) {
    DynNode *n = dyn_np_node_at(r, a);
    int extra = ndim - n->ndim;
    if (extra < 0) {
        return no_node(r);
    }
    for (int i = 0; i < n->ndim; i++) {
        uint32_t size = n->shape[i], into = shape[extra + i];
        bool same = dyn_np_hint(r, size) == dyn_np_hint(r, into);
        if ((same ? dyn_rec_assume_equal(r, size, into) : dyn_np_assume_op(r, DYN_S_EQ, size, 1)) < 0) {
            return DYN_NONE;
        }
    }
    uint32_t id = dyn_np_unary_node(r, DYN_OP_BROADCAST, (DynDtype)n->dtype, a, ndim, 0);
    if (id != DYN_NONE) {
        memcpy(dyn_np_node_at(r, id)->shape, shape, sizeof(*shape) * (size_t)ndim);
    }
    return id;
}

/* ---- indexing */

typedef struct Index { /* an index being laid out; see SLICE in ops.def */
    int naux, nargs, ndim, axis;
    int64_t aux[2 * DYN_MAX_NDIM];
    uint32_t args[3 * DYN_MAX_NDIM];
    uint32_t shape[DYN_MAX_NDIM];
} Index;

static int put(DynRec *r, Index *x, int code, uint32_t size) {
    if (x->naux >= 2 * DYN_MAX_NDIM || (code != 1 && x->ndim >= DYN_MAX_NDIM)) {
        return no_node(r), -1;
    }
    x->aux[x->naux++] = code;
    if (code != 1) {
        x->shape[x->ndim++] = size;
    }
    x->axis += code != 2;
    return 0;
}

static int put_slice(DynRec *r, Index *x, uint32_t start, uint32_t stop, uint32_t step, uint32_t size) {
    const uint32_t parts[] = {start, stop, step};
    for (int i = 0; i < 3; i++) {
        if (parts[i] == DYN_NONE) {
            return no_node(r), -1;
        }
        x->args[x->nargs++] = parts[i];
    }
    return size == DYN_NONE ? (no_node(r), -1) : put(r, x, 0, size);
}

static int put_full(DynRec *r, Index *x, uint32_t size) {
    return put_slice(r, x, dyn_np_int(r, 0), size, dyn_np_int(r, 1), size);
}

static uint32_t finish_slice(DynRec *r, uint32_t a, const Index *x) {
    uint32_t id = dyn_np_add(r, DYN_OP_SLICE, (DynDtype)dyn_np_node_at(r, a)->dtype, x->ndim, 1 + x->nargs, x->naux);
    if (id == DYN_NONE) {
        return id;
    }
    DynNode *n = dyn_np_node_at(r, id);
    n->args[0] = (DynArg){DYN_ARG_NODE, a};
    for (int i = 0; i < x->nargs; i++) {
        n->args[1 + i] = (DynArg){DYN_ARG_SYM, x->args[i]};
    }
    memcpy(n->aux, x->aux, sizeof(*n->aux) * (size_t)x->naux);
    memcpy(n->shape, x->shape, sizeof(*n->shape) * (size_t)x->ndim);
    n->flags |= DYN_NODE_VIEW;
    n->storage = dyn_np_node_at(r, a)->storage;
    return id;
}

uint32_t dyn_np_newaxis(DynRec *r, uint32_t a, uint32_t positions, int ndim) {
    Index x = {0};
    for (int i = 0; i < ndim; i++) {
        bool fresh = positions >> i & 1u;
        if (!fresh && x.axis >= dyn_np_node_at(r, a)->ndim) {
            return no_node(r);
        }
        if ((fresh ? put(r, &x, 2, dyn_np_int(r, 1)) : put_full(r, &x, dyn_np_node_at(r, a)->shape[x.axis])) < 0) {
            return DYN_NONE;
        }
    }
    return finish_slice(r, a, &x);
}

uint32_t dyn_np_range_view(DynRec *r, uint32_t a, int axis, uint32_t start, uint32_t stop) {
    Index x = {0};
    for (int i = 0; i < dyn_np_node_at(r, a)->ndim; i++) {
        uint32_t size = dyn_np_node_at(r, a)->shape[i];
        int ok = i == axis ? put_slice(r, &x, start, stop, dyn_np_int(r, 1), dyn_np_op(r, DYN_S_SUB, stop, start))
                           : put_full(r, &x, size);
        if (ok < 0) {
            return DYN_NONE;
        }
    }
    return finish_slice(r, a, &x);
}

/* The axes of the mask turned round. */
uint32_t dyn_np_reversed(DynRec *r, uint32_t a, uint32_t mask) {
    Index x = {0};
    uint32_t one = dyn_np_int(r, 1), back = dyn_np_int(r, -1);
    for (int i = 0; i < dyn_np_node_at(r, a)->ndim; i++) {
        uint32_t size = dyn_np_node_at(r, a)->shape[i];
        int ok = mask >> i & 1u ? put_slice(r, &x, dyn_np_op(r, DYN_S_SUB, size, one), back, back, size) : put_full(r, &x, size);
        if (ok < 0) {
            return DYN_NONE;
        }
    }
    return finish_slice(r, a, &x);
}

uint32_t dyn_np_pick(DynRec *r, uint32_t a, int axis, uint32_t index) {
    Index x = {0};
    for (int i = 0; i < dyn_np_node_at(r, a)->ndim; i++) {
        if (i == axis) {
            x.args[x.nargs++] = index;
        }
        if (i == axis ? put(r, &x, 1, DYN_NONE) < 0 : put_full(r, &x, dyn_np_node_at(r, a)->shape[i]) < 0) {
            return DYN_NONE;
        }
    }
    return finish_slice(r, a, &x);
}

/* A place that is counted from the end of an axis of size dim, counted from its beginning: it is there at every call. DYN_NONE:
 * failed. */
static uint32_t from_beginning(DynRec *r, uint32_t i, uint32_t dim) {
    uint32_t place = dyn_np_op(r, DYN_S_ADD, dim, i);
    if (dyn_np_assume_op(r, DYN_S_LT, i, 0) < 0 || place == DYN_NONE || dyn_np_assume_op(r, DYN_S_GE, place, 0) < 0) {
        return DYN_NONE;
    }
    return place;
}

/* A slice bound, normalised. In range (counted from either end) it is itself under a guard, else what slice.indices makes of it.
 */
static uint32_t bound(DynRec *r, uint32_t b, uint32_t dim, uint32_t step, DynSymOp otherwise) {
    int64_t at = dyn_np_hint(r, b), size = dyn_np_hint(r, dim);
    if (dyn_np_hint(r, step) < 0 || at > size || at < -size) {
        return dyn_sym_op(dyn_rec_syms(r), otherwise, b, dim, step);
    }
    if (at >= 0) {
        return dyn_np_assume_op(r, DYN_S_GE, b, 0) < 0 || dyn_np_assume(r, dyn_np_op(r, DYN_S_LE, b, dim)) < 0 ? DYN_NONE : b;
    }
    return from_beginning(r, b, dim);
}

static uint32_t slice_size(DynRec *r, uint32_t start, uint32_t stop, uint32_t step) {
    DynSyms *t = dyn_rec_syms(r);
    if (start == DYN_NONE || stop == DYN_NONE) {
        return DYN_NONE;
    }
    if (!is_int(r, step, 1)) {
        return dyn_sym_op(t, DYN_S_SLICE_LEN, start, stop, step);
    }
    if (dyn_np_hint(r, stop) < dyn_np_hint(r, start)) {
        return dyn_np_assume(r, dyn_np_op(r, DYN_S_LT, stop, start)) < 0 ? DYN_NONE : dyn_np_int(r, 0);
    }
    return dyn_np_assume(r, dyn_np_op(r, DYN_S_LE, start, stop)) < 0 ? DYN_NONE : dyn_np_op(r, DYN_S_SUB, stop, start);
}

/* Where a slice over an axis of size dim begins. given: its start, or DYN_NONE. */
static uint32_t slice_start(DynRec *r, uint32_t given, uint32_t dim, uint32_t step) {
    if (given != DYN_NONE) {
        return bound(r, given, dim, step, DYN_S_SLICE_START);
    }
    return dyn_np_hint(r, step) < 0 ? dyn_np_op(r, DYN_S_SUB, dim, dyn_np_int(r, 1)) : dyn_np_int(r, 0);
}

/* Where it stops. given: its stop, or DYN_NONE. */
static uint32_t slice_stop(DynRec *r, uint32_t given, uint32_t dim, uint32_t step) {
    if (given != DYN_NONE) {
        return bound(r, given, dim, step, DYN_S_SLICE_STOP);
    }
    return dyn_np_hint(r, step) < 0 ? dyn_np_int(r, -1) : dim;
}

/* item: a slice over an axis of size dim. */
static int index_slice(DynRec *r, Index *x, DynOperand item, uint32_t dim) {
    DynOperand part[3];
    uint32_t given[3];
    if (dyn_np_items(r, item, part, 3) != 3) {
        return -1;
    }
    for (int i = 0; i < 3; i++) {
        given[i] = part[i].real == Py_None ? DYN_NONE : dyn_np_int_sym(r, part[i]);
        if (part[i].real != Py_None && given[i] == DYN_NONE) {
            return -1;
        }
    }
    uint32_t step = given[2] == DYN_NONE ? dyn_np_int(r, 1) : given[2];
    bool down = step != DYN_NONE && dyn_np_hint(r, step) < 0;
    if (step == DYN_NONE || dyn_np_assume_op(r, down ? DYN_S_LT : DYN_S_GT, step, 0) < 0) {
        return -1;
    }
    uint32_t start = slice_start(r, given[0], dim, step), stop = slice_stop(r, given[1], dim, step);
    bool unbounded = given[0] == DYN_NONE && given[1] == DYN_NONE, unit = is_int(r, step, 1) || is_int(r, step, -1);
    return put_slice(r, x, start, stop, step, unbounded && unit ? dim : slice_size(r, start, stop, step));
}

/* The place that a number names along an axis of size dim, counted from the beginning: there at every call. */
static uint32_t place_of(DynRec *r, DynOperand item, uint32_t dim) {
    uint32_t i = dyn_np_int_sym(r, item);
    if (i == DYN_NONE) {
        return DYN_NONE;
    }
    if (dyn_np_hint(r, i) < 0) {
        return from_beginning(r, i, dim);
    }
    return dyn_np_assume_op(r, DYN_S_GE, i, 0) < 0 || dyn_np_assume(r, dyn_np_op(r, DYN_S_LT, i, dim)) < 0 ? DYN_NONE : i;
}

static int index_int(DynRec *r, Index *x, DynOperand item, uint32_t dim) {
    uint32_t i = place_of(r, item, dim);
    if (i == DYN_NONE) {
        return -1;
    }
    x->args[x->nargs++] = i;
    return put(r, x, 1, DYN_NONE);
}

static bool is_integers(DynRec *r, DynOperand o) {
    const DynNode *n = o.v->kind == DV_ARRAY ? dyn_np_node_at(r, rec_node_of(o.v)) : NULL;
    return n != NULL && n->ndim > 0 && dyn_dtype_is_integer((DynDtype)n->dtype);
}

/* An array of places, or a number beside several: its axis stays whole. */
static int index_place(DynRec *r, Index *x, DynOperand item, uint32_t dim, NpPlaces *p) {
    bool array = is_integers(r, item);
    uint32_t number = array ? DYN_NONE : place_of(r, item, dim);
    if (p->n == DYN_MAX_NDIM || (!array && number == DYN_NONE)) {
        return no_node(r), -1;
    }
    p->at[p->n++] = (NpPlace){x->ndim, array ? rec_node_of(item.v) : DYN_NONE, number};
    return put_full(r, x, dim);
}

/* Does it name all elements as they are? */
static bool is_whole(DynRec *r, const Index *x, const DynNode *a) {
    bool whole = x->ndim == a->ndim && x->naux == a->ndim;
    for (int i = 0; i < a->ndim && whole; i++) {
        bool full = x->aux[i] == 0 && x->shape[i] == a->shape[i];
        whole = full && is_int(r, x->args[3 * i], 0) && is_int(r, x->args[3 * i + 2], 1);
    }
    return whole;
}

/* The parts of an index: a tuple's items, or the lone one. */
static int index_items(DynRec *r, DynOperand index, DynOperand *items, int max) {
    if (dyn_rec_resolve(r, index.v, index.real) < 0) {
        return -1;
    }
    if (dyn_is_tuple(index.real)) {
        return dyn_np_items(r, index, items, max);
    }
    items[0] = index;
    return 1;
}

static int index_ellipsis(DynRec *r, Index *x, uint32_t a, int naxes) {
    for (int i = 0; i < naxes; i++) {
        if (put_full(r, x, dyn_np_node_at(r, a)->shape[x->axis]) < 0) {
            return -1;
        }
    }
    return 0;
}

/* An item that names the next axis. beside: it stands beside other arrays, so that a number is a place as they are. */
static int index_axis(DynRec *r, Index *x, DynOperand item, uint32_t dim, bool beside, NpPlaces *places) {
    if (PySlice_Check(item.real)) {
        return index_slice(r, x, item, dim);
    }
    return is_integers(r, item) || beside ? index_place(r, x, item, dim, places) : index_int(r, x, item, dim);
}

/* places: where arrays of integers go, or NULL: there may be none. */
static int lay_out(DynRec *r, uint32_t a, DynOperand index, Index *x, NpPlaces *places) {
    DynOperand items[3 * DYN_MAX_NDIM];
    int n = index_items(r, index, items, 2 * DYN_MAX_NDIM), ndim = dyn_np_node_at(r, a)->ndim, named = 0, arrays = 0;
    bool met = false, passed = false; /* one that is no slice; something else behind it */
    for (int i = 0; i < n; i++) {
        named += items[i].real != Py_None && items[i].real != Py_Ellipsis;
        arrays += is_integers(r, items[i]);
    }
    if (n < 0 || named > ndim || (arrays > 0 && places == NULL)) {
        return no_node(r), -1;
    }
    for (int i = 0; i < n; i++) {
        bool axis = items[i].real != Py_None && items[i].real != Py_Ellipsis, named_one = axis && !PySlice_Check(items[i].real);
        int ok = items[i].real == Py_None ? put(r, x, 2, dyn_np_int(r, 1)) : 0;
        if (items[i].real == Py_Ellipsis) {
            ok = index_ellipsis(r, x, a, ndim - named);
            named = ndim;
        } else if (axis) {
            ok = index_axis(r, x, items[i], dyn_np_node_at(r, a)->shape[x->axis], arrays > 1, places);
        }
        if (ok < 0) {
            return -1;
        }
        if (places != NULL) {
            places->apart |= named_one && passed;
        }
        met |= named_one;
        passed |= met && !named_one;
    }
    return index_ellipsis(r, x, a, ndim - x->axis);
}

uint32_t dyn_np_basic_index(DynRec *r, uint32_t a, DynOperand index) {
    Index x = {0};
    return lay_out(r, a, index, &x, NULL) < 0 ? DYN_NONE : finish_slice(r, a, &x);
}

uint32_t dyn_np_index_around(DynRec *r, uint32_t a, DynOperand index, NpPlaces *places) {
    Index x = {0};
    if (lay_out(r, a, index, &x, places) < 0) {
        return DYN_NONE;
    }
    return is_whole(r, &x, dyn_np_node_at(r, a)) ? a : finish_slice(r, a, &x);
}

static bool is_array_operand(DynOperand o) { return PyArray_CheckExact(o.real); }

/* Is there an array, or a list, in an index: NumPy's advanced indexing. */
static bool is_advanced(DynOperand index) {
    bool found = PyList_Check(index.real) || (PyArray_Check(index.real) && PyArray_NDIM((PyArrayObject *)index.real) > 0);
    for (Py_ssize_t i = 0; !found && PyTuple_Check(index.real) && i < PyTuple_GET_SIZE(index.real); i++) {
        found = is_advanced((DynOperand){index.v, PyTuple_GET_ITEM(index.real, i)});
    }
    return found;
}

DynVal *dyn_np_subscr(DynRec *r, DynOperand a, DynOperand index, PyObject *result) {
    uint32_t base = dyn_np_node(r, a);
    if (base == DYN_NONE || a.v->kind != DV_ARRAY || dyn_np_resolve(r, index, 0) < 0) {
        return base == DYN_NONE ? NULL : dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    uint32_t nnodes = dyn_rec_graph(r)->nodes.n;
    if (dyn_cupy_is(a.real)) {
        return dyn_np_take_back(r, nnodes, dyn_cupy_subscr(r, a, base, index, result));
    }
    if (dyn_np_node_at(r, base)->flags & DYN_NODE_TENSOR) {
        return dyn_np_take_back(r, nnodes, dyn_torch_subscr(r, a, base, index, result));
    }
    bool integers = is_array_operand(index) && !PyArray_ISBOOL((PyArrayObject *)index.real);
    if (integers || is_advanced(index)) {
        DynOperand args[2] = {a, index};
        DynVal *found = dyn_np_lookup(r, base, index, result);
        if (found != NULL) {
            return found;
        }
        dyn_rec_truncate(r, nnodes);
        *dyn_rec_why(r) = DYN_R_OK;
        if (integers) { /* one array: a call whose sizes are known */
            return dyn_np_call(r, dyn_np_binding("__getitem__", true), args, 2, NULL, result);
        }
        return dyn_np_extern(r, dyn_np_binding("__getitem__", true)->callable, "getitem", args, 2, NULL, result);
    }
    uint32_t id = dyn_np_basic_index(r, base, index);
    if (id != DYN_NONE && !PyArray_Check(result)) {
        id = dyn_np_copy(r, id, (DynDtype)dyn_np_node_at(r, id)->dtype); /* a NumPy scalar keeps the value of now */
    }
    return dyn_np_take_back(r, nnodes, id == DYN_NONE ? NULL : dyn_np_result(r, id, result));
}

/* a[mask] = value for one value: each element is the value or what it was. */
static int store_masked(DynRec *r, uint32_t base, DynOperand a, DynOperand index, NpArg value) {
    DynNode *n = dyn_np_node_at(r, base);
    uint32_t mask = dyn_np_node(r, index);
    bool one_value = value.arg.kind != DYN_ARG_NODE || dyn_np_node_at(r, value.arg.id)->ndim == 0;
    if (mask == DYN_NONE || dyn_np_node_at(r, mask)->ndim != n->ndim || !one_value) {
        return no_node(r), -1;
    }
    for (int i = 0; i < n->ndim; i++) {
        if (dyn_np_hint(r, n->shape[i]) != dyn_np_hint(r, dyn_np_node_at(r, mask)->shape[i]) ||
            dyn_rec_assume_equal(r, n->shape[i], dyn_np_node_at(r, mask)->shape[i]) < 0) {
            return no_node(r), -1;
        }
    }
    DynDtype dt = (DynDtype)n->dtype;
    bool truncates = value.code == NP_WEAK_FLOAT && !dyn_dtype_is_inexact(dt);
    bool drops = value.arg.kind == DYN_ARG_NODE && dyn_np_drops((DynDtype)dyn_np_node_at(r, value.arg.id)->dtype, dt);
    if (truncates || drops) {
        return no_node(r), -1;
    }
    if (value.arg.kind == DYN_ARG_SYM && dyn_np_convert_guard(r, value.arg.id, dt) < 0) {
        return -1;
    }
    NpArg args[3] = {dyn_np_node_arg(r, mask), value, dyn_np_node_arg(r, base)};
    uint32_t t = dyn_np_elementwise_as(r, DYN_OP_WHERE, dt, dt, args, 3);
    return t == DYN_NONE ? -1 : dyn_np_store(r, base, dyn_np_node_arg(r, t));
}

/* What is stored: an operand, or a list or tuple that becomes an array of the destination's dtype first. -1: it has to be NumPy's
 * own call that stores it. */
static int stored_value(DynRec *r, DynOperand a, DynOperand value, NpArg *out) {
    bool items = PyTuple_CheckExact(value.real) || PyList_CheckExact(value.real);
    PyArray_Descr *d = PyArray_DESCR((PyArrayObject *)a.real);
    if (!items) {
        int done = dyn_np_operand(r, value, out);
        return done == 0 && dyn_np_may_not_fit(value.real, out->code, dyn_np_dtype_of(a.real)) ? -1 : done;
    }
    Py_INCREF(d);
    PyObject *array = PyArray_FromAny(value.real, d, 0, 0, NPY_ARRAY_FORCECAST, NULL);
    DynVal *v = array == NULL ? NULL : dyn_np_from_items(r, value, array);
    if (v != NULL) {
        *out = dyn_np_node_arg(r, rec_node_of(v));
    }
    PyErr_Clear();
    Py_XDECREF(array);
    return v == NULL ? -1 : 0;
}

/* Is it one line of an array's elements into another one that lies in other steps? NumPy stores each where it stands before it
 * reads the next, whether or not they overlap. */
static bool stores_in_numpys_order(DynRec *r, uint32_t base, DynOperand a, DynOperand index, DynOperand value, NpArg v) {
    bool same = v.arg.kind == DYN_ARG_NODE && dyn_np_node_at(r, v.arg.id)->storage == dyn_np_node_at(r, base)->storage;
    if (!same || !PyArray_CheckExact(a.real) || !PyArray_CheckExact(value.real) || is_advanced(index)) {
        return false;
    }
    PyObject *target = PyObject_GetItem(a.real, index.real);
    bool lines = target != NULL && PyArray_CheckExact(target) && PyArray_NDIM((PyArrayObject *)target) == 1 &&
                 PyArray_NDIM((PyArrayObject *)value.real) == 1;
    npy_intp to = lines ? PyArray_STRIDE((PyArrayObject *)target, 0) : 0;
    npy_intp from = lines ? PyArray_STRIDE((PyArrayObject *)value.real, 0) : 0;
    PyErr_Clear();
    Py_XDECREF(target);
    return to != from && (to < 0) == (from < 0);
}

int dyn_np_store_subscr(DynRec *r, DynOperand a, DynOperand index, DynOperand value) {
    NpArg v;
    NpLookup at;
    uint32_t base = dyn_np_node(r, a);
    if (base == DYN_NONE) {
        return -1;
    }
    if (a.v->kind != DV_ARRAY) {
        return no_node(r), -1;
    }
    if (dyn_np_resolve(r, index, 0) < 0 || dyn_np_resolve(r, value, 0) < 0) {
        return -1;
    }
    uint32_t nnodes = dyn_rec_graph(r)->nodes.n;
    bool tensor = dyn_np_node_at(r, base)->flags & DYN_NODE_TENSOR;
    bool known = tensor || stored_value(r, a, value, &v) == 0;
    bool ordered = !tensor && known && stores_in_numpys_order(r, base, a, index, value, v);
    int ok;
    if (dyn_cupy_is(a.real)) {
        ok = dyn_cupy_store_subscr(r, a, base, index, value);
    } else if (tensor) {
        ok = dyn_torch_store_subscr(r, a, base, index, value);
    } else if (known && is_array_operand(index) && PyArray_ISBOOL((PyArrayObject *)index.real)) {
        ok = store_masked(r, base, a, index, v);
    } else if (known && is_advanced(index) && dyn_np_places(r, base, index, &at) == 0) {
        ok = dyn_np_scatter_at(r, &at, v, -1);
    } else {
        ok = -1;
    }
    if (ok < 0 && !tensor && (!known || ordered || is_advanced(index))) {
        DynOperand args[3] = {a, index, value};
        dyn_rec_truncate(r, nnodes);
        const DynBinding *b = dyn_np_binding("__setitem__", true);
        ok = dyn_np_extern_write(r, b->callable, "setitem", args, 3, NULL, Py_None) == NULL ? -1 : 0;
    } else if (ok < 0 && !tensor) {
        uint32_t view = dyn_np_basic_index(r, base, index);
        ok = view == DYN_NONE ? -1 : dyn_np_store(r, view, v);
    }
    if (ok < 0) {
        dyn_rec_truncate(r, nnodes);
    }
    return ok;
}

/* ---- sizes from arguments */

int dyn_np_shape_arg(DynRec *r, DynOperand o, bool minus_one, uint32_t *shape) {
    DynOperand items[DYN_MAX_NDIM];
    int n = -1;
    if (o.v == NULL || dyn_rec_resolve(r, o.v, o.real) < 0) {
        return no_node(r), -1;
    }
    if (dyn_is_tuple(o.real) || PyList_CheckExact(o.real)) {
        n = dyn_np_items(r, o, items, DYN_MAX_NDIM);
    } else {
        items[0] = o;
        n = 1;
    }
    for (int i = 0; i < n; i++) {
        shape[i] = dyn_np_int_sym(r, items[i]);
        if (shape[i] == DYN_NONE) {
            return -1;
        }
        if (minus_one && dyn_np_hint(r, shape[i]) < 0) {
            if (dyn_np_assume_op(r, DYN_S_LT, shape[i], 0) < 0) {
                return -1;
            }
            shape[i] = DYN_NONE;
        } else if (dyn_np_assume_op(r, DYN_S_GE, shape[i], 0) < 0) {
            return -1;
        }
    }
    return n < 0 ? (no_node(r), -1) : n;
}

/* ---- order of axes, axes of size 1 */

DynVal *np_rule_transpose(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    int perm[DYN_MAX_NDIM], ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    DynOperand items[DYN_MAX_NDIM];
    if (a == DYN_NONE) {
        return NULL;
    }
    for (int i = 0; i < ndim; i++) {
        perm[i] = ndim - 1 - i;
    }
    if (c->slot[1].v != NULL) {
        if (dyn_np_items(r, c->slot[1], items, DYN_MAX_NDIM) != ndim) {
            return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
        }
        for (int i = 0; i < ndim; i++) {
            if (dyn_np_axes(r, items[i], ndim, &perm[i]) != 1) {
                return NULL;
            }
        }
    }
    return dyn_np_result(r, dyn_np_permute(r, a, perm), c->result);
}

DynVal *np_rule_transpose_method(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->args[0]);
    int perm[DYN_MAX_NDIM], ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    if (a == DYN_NONE || c->nkw != 0) {
        return a == DYN_NONE ? NULL : dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (c->npos <= 2 && (c->npos == 1 || !PyIndex_Check(c->args[1].real))) {
        c->slot[0] = c->args[0];
        c->slot[1] = c->npos == 2 && c->args[1].real != Py_None ? c->args[1] : (DynOperand){NULL, NULL};
        return np_rule_transpose(r, c);
    }
    if (c->npos - 1 != ndim) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    for (int i = 0; i < ndim; i++) {
        if (dyn_np_axes(r, c->args[1 + i], ndim, &perm[i]) != 1) {
            return NULL;
        }
    }
    return dyn_np_result(r, dyn_np_permute(r, a, perm), c->result);
}

DynVal *np_rule_swapaxes(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    int perm[DYN_MAX_NDIM], x, y;
    if (a == DYN_NONE || c->slot[1].v == NULL || c->slot[2].v == NULL) {
        return NULL;
    }
    int ndim = dyn_np_node_at(r, a)->ndim;
    if (dyn_np_axes(r, c->slot[1], ndim, &x) != 1 || dyn_np_axes(r, c->slot[2], ndim, &y) != 1) {
        return NULL;
    }
    for (int i = 0; i < ndim; i++) {
        perm[i] = i;
    }
    perm[x] = y;
    perm[y] = x;
    return dyn_np_result(r, dyn_np_permute(r, a, perm), c->result);
}

/* Axes of size 1 are indexed away: which ones have size 1 is guarded where it is not asked for by number. */
DynVal *np_rule_squeeze(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    int axes[DYN_MAX_NDIM], n = 0;
    if (a == DYN_NONE) {
        return NULL;
    }
    uint32_t gone = 0;
    if (c->slot[1].v != NULL && (n = dyn_np_axes(r, c->slot[1], dyn_np_node_at(r, a)->ndim, axes)) < 0) {
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        gone |= 1u << axes[i];
    }
    Index x = {0};
    bool named = c->slot[1].v != NULL;
    for (int i = 0; i < dyn_np_node_at(r, a)->ndim; i++) {
        uint32_t size = dyn_np_node_at(r, a)->shape[i];
        bool drop = named ? gone >> i & 1u : dyn_np_hint(r, size) == 1;
        int ok = 0;
        if (drop || !named) {
            ok = dyn_np_assume_op(r, drop ? DYN_S_EQ : DYN_S_NE, size, 1);
        }
        if (ok == 0 && drop) {
            x.args[x.nargs++] = dyn_np_int(r, 0);
            ok = put(r, &x, 1, DYN_NONE);
        } else if (ok == 0) {
            ok = put_full(r, &x, size);
        }
        if (ok < 0) {
            return NULL;
        }
    }
    if (c->result == c->slot[0].real) {
        return c->slot[0].v;
    }
    return dyn_np_result(r, finish_slice(r, a, &x), c->result);
}

DynVal *np_rule_expand_dims(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]), mask = 0;
    int axes[DYN_MAX_NDIM];
    DynOperand items[DYN_MAX_NDIM];
    if (a != DYN_NONE && c->slot[0].v->kind != DV_ARRAY) {
        a = dyn_np_copy(r, a, (DynDtype)dyn_np_node_at(r, a)->dtype); /* of a NumPy scalar NumPy makes an array first */
    }
    if (a == DYN_NONE || c->slot[1].v == NULL) {
        return NULL;
    }
    int n = PyIndex_Check(c->slot[1].real) ? 1 : dyn_np_items(r, c->slot[1], items, DYN_MAX_NDIM);
    int ndim = dyn_np_node_at(r, a)->ndim + n;
    if (n < 0 || ndim > DYN_MAX_NDIM || dyn_np_axes(r, c->slot[1], ndim, axes) != n) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    for (int i = 0; i < n; i++) {
        mask |= 1u << axes[i];
    }
    return dyn_np_result(r, dyn_np_newaxis(r, a, mask, ndim), c->result);
}
