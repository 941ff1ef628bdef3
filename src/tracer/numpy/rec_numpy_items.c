/* rec_numpy_items.c: np.array and np.asarray of numbers and lists. Called by rec_numpy_make.c.
 *
 * What is the same at every call comes from an array that the entry owns and is copied; the rest is stored, element by element or
 * array by array, in its place. The dtype is eager's: it follows from the items' types, which are guarded. */
#include "tracer/numpy/rec_np.h"

#define MAX_LEAVES 64

typedef struct Leaf {
    DynOperand o;
    int depth;
    int32_t path[DYN_MAX_NDIM];
} Leaf;

typedef struct Leaves {
    int n, depth;
    Leaf at[MAX_LEAVES];
} Leaves;

static DynVal *refuse(DynRec *r) { return dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE); }

/* Lists in lists; eager has seen that they are not ragged. */
static int collect(DynRec *r, DynOperand o, int depth, int32_t *path, Leaves *out) {
    if (!PyList_CheckExact(o.real) && !PyTuple_CheckExact(o.real)) {
        if (out->n == MAX_LEAVES || (out->n > 0 && out->depth != depth)) {
            return -1;
        }
        Leaf *leaf = &out->at[out->n++];
        *leaf = (Leaf){.o = o, .depth = depth};
        memcpy(leaf->path, path, sizeof(leaf->path));
        out->depth = depth;
        return 0;
    }
    DynOperand items[MAX_LEAVES];
    int n = depth < DYN_MAX_NDIM ? dyn_np_items(r, o, items, MAX_LEAVES) : -1;
    for (int i = 0; i < n; i++) {
        path[depth] = i;
        if (collect(r, items[i], depth + 1, path, out) < 0) {
            return -1;
        }
    }
    return n < 0 ? -1 : 0;
}

/* Does the dtype hold numbers of that kind? */
static bool holds(DynDtype dt, int code) {
    if (code == NP_WEAK_COMPLEX) {
        return dyn_dtypes[dt].kind == 'c';
    }
    return code != NP_WEAK_FLOAT || dyn_dtype_is_inexact(dt);
}

/* A number of a kind that the dtype holds, or an array. */
static int leaf_value(DynRec *r, const Leaf *leaf, DynDtype dt, NpArg *out) {
    if (dyn_np_operand(r, leaf->o, out) < 0) {
        return -1;
    }
    return holds(dt, out->code) && !dyn_np_may_not_fit(leaf->o.real, out->code, dt) ? 0 : (refuse(r), -1);
}

static bool is_constant(DynRec *r, const NpArg *v) {
    return v->arg.kind == DYN_ARG_SYM && dyn_sym_is_const(dyn_rec_syms(r), v->arg.id);
}

/* What the constants are stored in: a copy of the entry's own array. */
static uint32_t constants(DynRec *r, PyObject *result) {
    PyObject *own = PyArray_NewCopy((PyArrayObject *)result, NPY_CORDER);
    if (own == NULL) {
        PyErr_Clear();
        return dyn_np_refuse(r, DYN_R_NO_MEMORY), DYN_NONE;
    }
    PyArray_CLEARFLAGS((PyArrayObject *)own, NPY_ARRAY_WRITEABLE);
    DynVal *v = dyn_rec_constant_array(r, own);
    Py_DECREF(own);
    return v == NULL || v->kind != DV_ARRAY ? DYN_NONE : dyn_np_copy(r, rec_node_of(v), dyn_np_dtype_of(result));
}

static uint32_t empty_for(DynRec *r, const Leaves *leaves, const NpArg *first, PyObject *result) {
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = PyArray_NDIM((PyArrayObject *)result);
    for (int i = 0; i < ndim; i++) {
        int inner = i - leaves->depth;
        const DynNode *n = first->arg.kind == DYN_ARG_NODE ? dyn_graph_node(dyn_rec_graph(r), first->arg.id) : NULL;
        if (inner >= 0 && (n == NULL || inner >= n->ndim)) {
            return refuse(r), DYN_NONE;
        }
        shape[i] = inner >= 0 ? n->shape[inner] : dyn_np_int(r, PyArray_DIM((PyArrayObject *)result, i));
    }
    return dyn_np_full(r, dyn_np_dtype_of(result), ndim, shape, (DynArg){DYN_ARG_NONE, DYN_NONE});
}

static int store_leaf(DynRec *r, uint32_t into, const Leaf *leaf, NpArg value) {
    for (int i = 0; i < leaf->depth && into != DYN_NONE; i++) {
        into = dyn_np_pick(r, into, 0, dyn_np_int(r, leaf->path[i]));
    }
    if (into == DYN_NONE) {
        return -1;
    }
    int ndim = dyn_graph_node(dyn_rec_graph(r), into)->ndim;
    if (ndim != (value.arg.kind == DYN_ARG_NODE ? dyn_graph_node(dyn_rec_graph(r), value.arg.id)->ndim : 0)) {
        return refuse(r), -1;
    }
    return dyn_np_store(r, into, value);
}

DynVal *dyn_np_from_items(DynRec *r, DynOperand o, PyObject *result) {
    Leaves leaves = {0};
    NpArg values[MAX_LEAVES];
    int32_t path[DYN_MAX_NDIM] = {0};
    int nconstant = 0;
    DynDtype dt = PyArray_CheckExact(result) ? dyn_np_dtype_of(result) : DYN_NO_DTYPE;
    if (dt == DYN_NO_DTYPE || PyArray_NDIM((PyArrayObject *)result) > DYN_MAX_NDIM || collect(r, o, 0, path, &leaves) < 0) {
        return refuse(r);
    }
    for (int i = 0; i < leaves.n; i++) {
        if (leaf_value(r, &leaves.at[i], dt, &values[i]) < 0) {
            return NULL;
        }
        nconstant += is_constant(r, &values[i]);
    }
    if (leaves.depth == 0 && leaves.n == 1 && values[0].arg.kind == DYN_ARG_SYM) {
        return dyn_np_result(r, dyn_np_full(r, dt, 0, NULL, values[0].arg), result);
    }
    uint32_t into = leaves.n == 0 || nconstant > 0 ? constants(r, result) : empty_for(r, &leaves, &values[0], result);
    for (int i = 0; i < leaves.n && into != DYN_NONE; i++) {
        if (!is_constant(r, &values[i]) && store_leaf(r, into, &leaves.at[i], values[i]) < 0) {
            return NULL;
        }
    }
    return dyn_np_result(r, into, result);
}
