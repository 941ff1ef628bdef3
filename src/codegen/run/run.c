/* run.c: one call of an artifact: memory, views, kernels, extern calls, outputs.
 *
 * Called by evalframe/hit.c with the GIL, which is given up around large kernels. A Call lives on the stack; it owns the arrays
 * that it makes until they are handed out. */
#include "base/cpy.h"
#include "base/log.h"
#include "base/pool.h"
#include "codegen/run/exec_chain.h"
#include "base/torch.h"
#include "codegen/run/flags.h"
#include "codegen/run/par.h"
#include "codegen/run/run.h"

#define FEW 24 /* places and slots for which the stack has room */

typedef struct Call {
    DynArtifact *a;
    const DynLoops *p;
    DynRun *run;
    const DynNativeTable *table;
    DynGeom *geoms;     /* by place */
    PyObject **objects; /* by node: owned references */
    char *temps;        /* of the pool; memory for one row comes first */
    size_t row_size;
    atomic_bool missed; /* an index said a place that isn't there */
    bool wrote;         /* a kernel has written into an input */
    bool acted;         /* an extern call has done something that can't be undone */
    bool grad;          /* the program records gradients, the graph doesn't */
    struct Undo *undo;  /* what the inputs held that kernels write; NULL: not kept */
    uint32_t made;      /* rows of the lists of makes and drops, so far */
    uint32_t dropped;
    uint32_t paired;  /* the pair that has run */
    int64_t reached;  /* snapshots reached so far */
    int64_t leave_at; /* config.force_leave */
    int flags;        /* floating-point flags of earlier steps */
    PyObject *strict; /* token of dyn_flags_strict, NULL: nothing was changed */
    bool is_strict;   /* NumPy raises where it would warn */
} Call;

/* One change for a row of extern calls. */
static void be_strict(Call *c, bool strict) {
    if (strict && !c->is_strict) {
        c->strict = dyn_flags_strict();
    } else if (!strict && c->is_strict) {
        dyn_flags_lenient(c->strict);
        c->strict = NULL;
    }
    c->is_strict = strict;
}

/* ---- memory */

#define TOO_MANY ((int64_t)1 << 56) /* bytes; below it their sums don't overflow */

static size_t round_up(size_t n) { return (n + 63) & ~(size_t)63; }

static void geom_of_view(const DynArrayView *v, DynGeom *g) {
    g->data = v->data;
    memcpy(g->dims, v->dims, sizeof(*v->dims) * v->ndim);
    memcpy(g->strides, v->strides, sizeof(*v->strides) * v->ndim);
}

/* -1 with an exception: it is no longer what the guards saw. */
static int geom_of(PyObject *array, DynGeom *g) {
    if (DYN_UNLIKELY(!PyArray_Check(array))) {
        DynArrayView v;
        if (!dyn_torch_place(array, &v)) {
            PyErr_SetString(PyExc_SystemError, "dynoc: a tensor without elements in memory");
            return -1;
        }
        geom_of_view(&v, g);
        return 0;
    }
    PyArrayObject *a = (PyArrayObject *)array;
    g->data = PyArray_BYTES(a);
    for (int i = 0, n = PyArray_NDIM(a); i < n; i++) {
        g->dims[i] = PyArray_DIM(a, i);
        g->strides[i] = PyArray_STRIDE(a, i);
    }
    return 0;
}

/* Bytes of a temporary, -1: too many. One for a single row stays where it is when the row changes. */
static int64_t temp_geom(const Call *c, const DynMem *m, DynGeom *g) {
    int64_t bytes = dyn_geom_dense(m, c->run->sym, g);
    if (bytes < 0 || bytes > TOO_MANY) {
        return -1;
    }
    if (m->kind == DYN_P_ROW) {
        bytes = dyn_dtypes[m->dtype].size;
        for (int i = m->ndim; i-- > 0;) {
            bool row = m->row_axes >> i & 1;
            g->strides[i] = row ? 0 : bytes;
            bytes *= row ? 1 : g->dims[i];
        }
    }
    return (int64_t)round_up((size_t)bytes);
}

static int place_temps(Call *c) {
    const DynLoops *p = c->p;
    size_t few[FEW] = {0}, *at = few, total = 0;
    bool fits = true;
    if (p->nslots > FEW && (at = PyMem_Calloc(p->nslots, sizeof(*at))) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t i = 0; i < p->nplaces; i++) {
        const DynMem *m = &p->places[i];
        if (m->kind == DYN_P_TEMP || m->kind == DYN_P_ROW) {
            int64_t bytes = temp_geom(c, m, &c->geoms[i]);
            fits = fits && bytes >= 0;
            at[m->slot] = fits && at[m->slot] < (size_t)bytes ? (size_t)bytes : at[m->slot];
        }
    }
    for (uint32_t slot = 0; slot < p->nslots; slot++) {
        size_t bytes = at[slot];
        at[slot] = total;
        total += bytes;
        c->row_size = slot + 1 == p->nrow_slots ? total : c->row_size;
    }
    c->temps = fits && total <= (size_t)TOO_MANY ? dyn_pool_take(total) : NULL;
    for (uint32_t i = 0; c->temps && i < p->nplaces; i++) {
        const DynMem *m = &p->places[i];
        if (m->kind == DYN_P_TEMP || m->kind == DYN_P_ROW) {
            c->geoms[i].data = c->temps + at[m->slot];
        }
    }
    if (at != few) {
        PyMem_Free(at);
    }
    return c->temps ? 0 : -1;
}

static void count_up(int64_t *at, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        at[i] = i;
    }
}

/* Is the array of a place made by PyTorch? What nobody sees is had faster from NumPy. */
static bool is_tensor(const Call *c, uint32_t place) {
    return place < c->p->nnodes && c->p->handed[place] && dyn_graph_node(c->p->graph, place)->flags & DYN_NODE_TENSOR;
}

static PyObject *new_array(const Call *c, uint32_t place, uint8_t dtype, int ndim, const int64_t *dims, const DynLayout *layout) {
    return is_tensor(c, place) ? dyn_torch_new((DynDtype)dtype, ndim, dims, layout)
                               : dyn_array_new((DynDtype)dtype, ndim, dims, layout);
}

static int make_array(Call *c, uint32_t i) {
    const DynLoops *p = c->p;
    const DynMem *m = &p->places[i];
    int64_t dims[DYN_MAX_NDIM];
    for (int d = 0; d < m->ndim; d++) {
        dims[d] = c->run->sym[m->shape[d]].i;
    }
    int flags = i < p->nnodes ? dyn_graph_node(p->graph, i)->flags : 0;
    c->objects[i] =
        flags & DYN_NODE_TURNED ? dyn_geom_turned(p->graph, i, dims) : new_array(c, i, m->dtype, m->ndim, dims, m->layout);
    if (!c->objects[i] || geom_of(c->objects[i], &c->geoms[i]) < 0) {
        return -1;
    }
    if (flags & DYN_NODE_READONLY) {
        PyArray_CLEARFLAGS((PyArrayObject *)c->objects[i], NPY_ARRAY_WRITEABLE);
    }
    if (i < p->nnodes && dyn_graph_node(p->graph, i)->op == DYN_OP_IOTA) {
        count_up((int64_t *)c->geoms[i].data, dims[0]);
    }
    return 0;
}

/* Arrays whose sizes are known when the graph begins (after: 0) or behind an extern call (1 + its node), but those that wait. */
static int make_arrays(Call *c, uint32_t after) {
    const DynLoops *p = c->p;
    for (uint32_t i = 0; (after == 0 || p->late_arrays) && i < p->nplaces; i++) {
        const DynMem *m = &p->places[i];
        if (m->kind == DYN_P_ARRAY && !m->waits && m->after == after && make_array(c, i) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Those that step s is the first to touch. */
static int make_before(Call *c, uint32_t s) {
    const DynLoops *p = c->p;
    for (; c->made < p->makes.n && p->makes.at[c->made].step <= s; c->made++) {
        if (make_array(c, p->makes.at[c->made].place) < 0) {
            return -1;
        }
    }
    return 0;
}

static int make_memory(Call *c) {
    const DynLoops *p = c->p;
    const DynViews *views = &c->run->views;
    bool seen = views->at != NULL && *views->checks == views->check;
    for (uint32_t i = 0; i < p->graph->inputs.n; i++) {
        uint32_t node = p->graph->inputs.at[i];
        const DynNode *n = dyn_graph_node(p->graph, node);
        if (seen && n->flags & DYN_NODE_TENSOR) {
            geom_of_view(&c->run->views.at[n->source], &c->geoms[node]);
        } else if (geom_of(c->run->inputs[i], &c->geoms[node]) < 0) {
            return -1;
        }
    }
    if (make_arrays(c, 0) < 0) {
        return -1;
    }
    return p->nslots ? place_temps(c) : 0;
}

static PyObject *input_object(const Call *c, uint32_t node) {
    for (uint32_t i = 0; i < c->p->graph->inputs.n; i++) {
        if (c->p->graph->inputs.at[i] == node) {
            return c->run->inputs[i];
        }
    }
    return NULL;
}

/* A look at elements as others, which needs the base as it lies; parts of complex numbers lie as these do. */
static bool is_other_look(const DynGraph *g, const DynNode *n) {
    uint8_t from = dyn_graph_node(g, n->args[0].id)->dtype;
    return dyn_graph_detaches(g, n) || (n->dtype != from && dyn_dtype_real((DynDtype)from) != n->dtype);
}

/* What the tensor of a view is made from: views between that nobody has asked for yet are left out. */
static uint32_t base_of(const Call *c, const DynNode *n) {
    const DynGraph *g = c->p->graph;
    uint32_t at = n->args[0].id;
    const DynNode *b = dyn_graph_node(g, at);
    while (!is_other_look(g, n) && b->flags & DYN_NODE_VIEW && !c->objects[at] && !is_other_look(g, b)) {
        at = b->args[0].id;
        b = dyn_graph_node(g, at);
    }
    return at;
}

/* The array of a node, borrowed; a view is made when it is first asked for. NULL with an exception. */
static PyObject *object_of(Call *c, uint32_t node) {
    const DynNode *n = dyn_graph_node(c->p->graph, node);
    PyObject *known = n->op == DYN_OP_INPUT ? input_object(c, node) : c->objects[node];
    if (known && n->flags & DYN_NODE_TENSOR && PyArray_Check(known)) { /* a product's, after all */
        PyObject *tensor = dyn_torch_from_numpy(known, (DynDtype)n->dtype);
        if (!tensor) {
            return NULL;
        }
        Py_SETREF(c->objects[node], tensor);
        known = tensor;
    }
    if (known || !(n->flags & DYN_NODE_VIEW)) {
        if (!known) {
            PyErr_SetString(PyExc_SystemError, "dynoc: a value of the graph has no array");
        }
        return known;
    }
    PyObject *of = object_of(c, n->flags & DYN_NODE_TENSOR ? base_of(c, n) : n->args[0].id);
    if (!of) {
        return NULL;
    }
    const DynGeom *g = &c->geoms[node];
    if (n->flags & DYN_NODE_TENSOR) {
        DynArrayView v = {.data = g->data, .ndim = n->ndim, .dtype = n->dtype};
        memcpy(v.dims, g->dims, sizeof(*v.dims) * n->ndim);
        memcpy(v.strides, g->strides, sizeof(*v.strides) * n->ndim);
        return c->objects[node] = dyn_torch_window(of, &v, dyn_graph_detaches(c->p->graph, n));
    }
    PyArrayObject *base = (PyArrayObject *)of;
    npy_intp dims[DYN_MAX_NDIM], strides[DYN_MAX_NDIM];
    for (int i = 0; i < n->ndim; i++) {
        dims[i] = g->dims[i];
        strides[i] = g->strides[i];
    }
    bool readonly = n->flags & DYN_NODE_READONLY || (n->op == DYN_OP_BROADCAST && !(n->flags & DYN_NODE_WRITE_WARNS));
    bool writeable = PyArray_ISWRITEABLE(base) && !readonly;
    PyObject *view = PyArray_NewFromDescr(&PyArray_Type, PyArray_DescrFromType(dyn_dtypes[n->dtype].npy), n->ndim, dims, strides,
                                          g->data, NPY_ARRAY_ALIGNED | (writeable ? NPY_ARRAY_WRITEABLE : 0), NULL);
    if (!view) {
        return NULL;
    }
    Py_INCREF(base);
    if (PyArray_SetBaseObject((PyArrayObject *)view, (PyObject *)base) < 0) {
        Py_DECREF(view);
        return NULL;
    }
    if (n->flags & DYN_NODE_WRITE_WARNS && writeable) {
        PyArray_ENABLEFLAGS((PyArrayObject *)view, DYN_ARRAY_WARN_ON_WRITE);
    }
    PyArray_UpdateFlags((PyArrayObject *)view, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED);
    return c->objects[node] = view;
}

/* What Python gets for a node: its array, or a scalar where eager gave one. New reference. */
static PyObject *value_of(Call *c, uint32_t node) {
    PyObject *array = object_of(c, node);
    if (array && (dyn_graph_node(c->p->graph, node)->flags & DYN_NODE_NPSCALAR)) {
        return PyArray_ToScalar(PyArray_DATA((PyArrayObject *)array), (PyArrayObject *)array);
    }
    return Py_XNewRef(array);
}

/* ---- what inputs held before they were written
 *
 * A warning that is due is given by CPython, which makes the whole call again: then what it is to see must be what it would have
 * seen. Above UNDO_BYTES keeping that would cost more than it is worth: the warning is then given in the name of the first
 * operator that can have raised the flag. */

#define UNDO_BYTES ((int64_t)256 << 10)

typedef struct Undo {
    uint32_t n;
    PyArrayObject *copies[]; /* by row of DynLoops.written; owned; NULL: contiguous, and its bytes are in order in `bytes` */
} Undo;

static int64_t bytes_of(PyObject *array) { return (int64_t)PyArray_NBYTES((PyArrayObject *)array); }

static bool is_one_piece(PyObject *array) {
    return PyArray_IS_C_CONTIGUOUS((PyArrayObject *)array) || PyArray_IS_F_CONTIGUOUS((PyArrayObject *)array);
}

static void drop_undo(Call *c) {
    for (uint32_t i = 0; c->undo != NULL && i < c->undo->n; i++) {
        Py_XDECREF(c->undo->copies[i]);
    }
    PyMem_RawFree(c->undo);
    c->undo = NULL;
}

/* Keeps them; without memory for it there is no undo, which is no error. */
static void keep_inputs(Call *c) {
    int64_t total = 0, whole = 0;
    uint32_t n = c->p->written.n;
    for (uint32_t i = 0; i < n; i++) {
        PyObject *a = c->run->inputs[c->p->written.at[i]];
        total += bytes_of(a);
        whole += is_one_piece(a) ? bytes_of(a) : 0;
    }
    c->undo =
        total > UNDO_BYTES || dyn_flags_ignored() ? NULL : PyMem_RawMalloc(sizeof(Undo) + n * sizeof(PyObject *) + (size_t)whole);
    if (c->undo == NULL) {
        return;
    }
    c->undo->n = 0;
    char *bytes = (char *)(c->undo->copies + n);
    for (; c->undo->n < n; c->undo->n++) {
        PyArrayObject *a = (PyArrayObject *)c->run->inputs[c->p->written.at[c->undo->n]], **copy = &c->undo->copies[c->undo->n];
        *copy = NULL;
        if (is_one_piece((PyObject *)a)) {
            memcpy(bytes, PyArray_BYTES(a), (size_t)PyArray_NBYTES(a));
            bytes += PyArray_NBYTES(a);
        } else if ((*copy = (PyArrayObject *)PyArray_NewCopy(a, NPY_KEEPORDER)) == NULL) {
            PyErr_Clear();
            drop_undo(c);
            return;
        }
    }
}

static void put_back(Call *c) {
    const char *bytes = (const char *)(c->undo->copies + c->undo->n);
    for (uint32_t i = 0; i < c->undo->n; i++) {
        PyArrayObject *a = (PyArrayObject *)c->run->inputs[c->p->written.at[i]];
        if (c->undo->copies[i] != NULL) {
            if (PyArray_CopyInto(a, c->undo->copies[i]) < 0) {
                PyErr_Clear(); /* of one dtype and shape: nothing can go wrong */
            }
        } else {
            memcpy(PyArray_BYTES(a), bytes, (size_t)PyArray_NBYTES(a));
            bytes += PyArray_NBYTES(a);
        }
    }
}

/* ---- floating-point flags: who gives the warning that is due */

static bool can_repeat(const Call *c) { return !c->acted && (!c->wrote || c->undo != NULL); }

/* CPython makes the call from its beginning: what was written into inputs is as it was. */
static DynRunStatus repeat(Call *c) {
    if (c->wrote) {
        put_back(c);
    }
    return DYN_RUN_AGAIN;
}

/* Those of them that somebody has to hear of; -1 with an exception. */
static int flags_due(const Call *c, int flags) {
    int wanted = dyn_flags_wanted(flags);
    return wanted == 0 && (flags & (FE_INVALID | FE_DIVBYZERO)) && c->p->warns ? flags : wanted;
}

static DynRunStatus check_flags(Call *c) {
    int flags = (c->flags | dyn_flags_get()) & DYN_FLAGS_SEEN;
    if (DYN_LIKELY(flags == 0)) {
        return DYN_RUN_OK;
    }
    if (c->p->tensors) { /* PyTorch doesn't warn */
        dyn_flags_clear();
        c->flags = 0;
        return DYN_RUN_OK;
    }
    flags = flags_due(c, flags);
    dyn_flags_clear();
    c->flags = 0;
    if (flags <= 0) {
        return flags < 0 ? DYN_RUN_ERROR : DYN_RUN_OK;
    }
    if (can_repeat(c)) {
        return repeat(c);
    }
    be_strict(c, false);
    return dyn_flags_warn(c->p->graph, flags) < 0 ? DYN_RUN_ERROR : DYN_RUN_OK;
}

/* ---- steps */

#define GIL_COST 500000 /* tenths of a nanosecond: below this the GIL is kept */

static int bind(Call *c, const DynKernel *k, DynBound *b) {
    if (dyn_exec_bind(k, c->table, c->geoms, c->run->sym, b) < 0 || dyn_order_find(c->p, c->geoms, c->run->sym, b) < 0) {
        return -1;
    }
    b->missed = &c->missed;
    if (b->rows != NULL) {
        dyn_sizes_bind(c->a, b);
    }
    return 0;
}

static int run_alone(Call *c, const DynKernel *k) {
    DynBound b;
    if (bind(c, k, &b) < 0) {
        return -1;
    }
    PyThreadState *saved = dyn_exec_cost(&b) > GIL_COST ? PyEval_SaveThread() : NULL;
    int failed = k->margin ? dyn_exec_margin(&b, c->run->sym) : k->reduced ? dyn_exec_reduce(&b) : dyn_exec_elementwise(&b);
    if (saved) {
        PyEval_RestoreThread(saved);
    }
    return failed;
}

static int run_group(Call *c, uint32_t step, uint32_t *last) {
    const DynLoops *p = c->p;
    uint32_t group = p->kernels.at[p->steps.at[step].id].group, n = 0;
    while (step + n < p->steps.n && p->steps.at[step + n].kind == DYN_STEP_KERNEL &&
           p->kernels.at[p->steps.at[step + n].id].group == group) {
        n++;
    }
    *last = step + n - 1;
    DynBound *b = PyMem_Malloc(sizeof(*b) * n);
    int64_t cost = 0;
    int failed = b ? 0 : -1;
    for (uint32_t i = 0; i < n && !failed; i++) {
        const DynKernel *k = &p->kernels.at[p->steps.at[step + i].id];
        failed = bind(c, k, &b[i]);
        cost += failed ? 0 : dyn_exec_cost(&b[i]);
    }
    if (!failed) {
        PyThreadState *saved = cost > GIL_COST ? PyEval_SaveThread() : NULL;
        failed = dyn_exec_group(b, (int)n, b[0].k->outer, c->temps, c->row_size);
        if (saved) {
            PyEval_RestoreThread(saved);
        }
    }
    PyMem_Free(b);
    return failed;
}

static int view_step(Call *c, uint32_t place) {
    const DynMem *m = &c->p->places[place];
    if (m->kind != DYN_P_DENSE) {
        const DynGeom *from = &c->geoms[dyn_graph_node(c->p->graph, place)->args[0].id];
        return dyn_geom_view(c->p->graph, place, c->run->sym, from, &c->geoms[place]);
    }
    static const DynLayout c_order = {.kind = DYN_LAYOUT_C};
    DynMem dense = *m;
    dense.layout = &c_order;
    dyn_geom_dense(&dense, c->run->sym, &c->geoms[place]);
    c->geoms[place].data = c->geoms[m->of].data;
    return 0;
}

static PyObject *extern_operand(void *ctx, DynArg arg) {
    Call *c = ctx;
    if (arg.kind == DYN_ARG_SOURCE) {
        return Py_NewRef(c->run->sources[arg.id]);
    }
    if (arg.kind == DYN_ARG_SYM) {
        return dyn_sym_object(c->p->graph->syms, arg.id, c->run->sym[arg.id]);
    }
    return value_of(c, arg.id);
}

/* What exists before node `at`. 0, or -1 with an exception. */
static int take_values(Call *c, uint32_t at) {
    const DynGraph *g = c->p->graph;
    c->run->snapshot = dyn_graph_node(g, at)->snapshot;
    c->run->values = PyMem_Calloc(g->nodes.n + 1, sizeof(PyObject *));
    if (!c->run->values) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t i = 0; i < at; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        if ((n->op == DYN_OP_INPUT || c->objects[i]) && !(c->run->values[i] = value_of(c, i))) {
            return -1;
        }
    }
    return 0;
}

static void drop_values(Call *c) {
    for (uint32_t i = 0; c->run->values && i < c->p->graph->nodes.n; i++) {
        Py_XDECREF(c->run->values[i]);
    }
    PyMem_Free(c->run->values);
    c->run->values = NULL;
}

/* What whoever goes on before node `at` needs. Values that no kernel made are made by NumPy now. Where one of them warns or
 * raises, eager makes the whole call, and says so in its own words and place. again: the call may be made again. */
static DynRunStatus leave(Call *c, uint32_t at, bool again) {
    again = again && can_repeat(c);
    be_strict(c, again && !c->p->tensors);
    if (take_values(c, at) == 0 && c->run->complete(c->run->owner, c->run) == 0) {
        return DYN_RUN_LEFT;
    }
    drop_values(c);
    if (!again) {
        return DYN_RUN_ERROR;
    }
    PyErr_Clear();
    return repeat(c);
}

/* Where the results lie, and memory for what has sizes only now. */
static DynRunStatus after_extern(Call *c, uint32_t node) {
    const DynGraph *g = c->p->graph;
    for (uint32_t i = node; i < g->nodes.n && (i == node || dyn_graph_node(g, i)->op == DYN_OP_RESULT); i++) {
        if (c->objects[i] && !(dyn_graph_node(g, i)->flags & DYN_NODE_OBJECT) && geom_of(c->objects[i], &c->geoms[i]) < 0) {
            return DYN_RUN_ERROR;
        }
    }
    uint32_t written = dyn_graph_written(g, node);
    const DynExtern *x = &g->externs.at[dyn_graph_node(g, node)->extern_index];
    c->acted |= (x->once && !x->inside) || (written != DYN_NONE && c->p->places[written].kind == DYN_P_INPUT);
    return make_arrays(c, node + 1) < 0 ? DYN_RUN_ERROR : DYN_RUN_OK;
}

/* The call raised, and may have done part of its work or warned: it is not made again, its exception is raised where the graph is
 * left. */
static DynRunStatus leave_raising(Call *c, uint32_t node) {
    PyObject *error = dyn_extern_raised(&c->p->graph->externs.at[dyn_graph_node(c->p->graph, node)->extern_index]);
    DynRunStatus status = leave(c, node, false);
    if (status == DYN_RUN_LEFT) {
        c->run->error = error;
    } else {
        Py_XDECREF(error);
    }
    return status;
}

/* How a product is made without NumPy's call of it. False: NumPy's loops make it. */
static bool find_product(Call *c, uint32_t node, DynLink *l) {
    const DynGraph *g = c->p->graph;
    const DynNode *n = dyn_graph_node(g, node), *a = dyn_graph_node(g, n->args[0].id), *b = dyn_graph_node(g, n->args[1].id);
    const DynGeom *x = &c->geoms[n->args[0].id], *y = &c->geoms[n->args[1].id];
    DynGeom turned;
    DynDtype dtype = (DynDtype)n->dtype;
    if (n->layout.kind != DYN_LAYOUT_C || a->dtype != dtype || b->dtype != dtype) {
        return false;
    }
    if (g->externs.at[n->extern_index].product == DYN_PRODUCT_LINEAR) {
        turned = (DynGeom){y->data, {y->dims[1], y->dims[0]}, {y->strides[1], y->strides[0]}};
        y = &turned;
    }
    l->kind = DYN_LINK_SMALL;
    if (a->ndim > 1 && b->ndim > 1 && dyn_product_find(&l->product, dtype, x, a->ndim, y, b->ndim)) {
        return true;
    }
    l->kind = DYN_LINK_BLAS;
    return dyn_blas_find(&l->blas, dtype, x, a->ndim, y, b->ndim);
}

/* Its result, and how many products of numbers it is; NULL: no memory, which NumPy is to say. */
static PyObject *array_of_product(const Call *c, uint32_t node, int64_t *terms) {
    const DynNode *n = dyn_graph_node(c->p->graph, node);
    uint32_t left = n->args[0].id;
    int64_t dims[DYN_MAX_NDIM];
    *terms = c->geoms[left].dims[dyn_graph_node(c->p->graph, left)->ndim - 1];
    for (int d = 0; d < n->ndim; d++) {
        dims[d] = c->run->sym[n->shape[d]].i;
        *terms *= dims[d];
    }
    PyObject *array = new_array(c, node, n->dtype, n->ndim, dims, NULL);
    if (array == NULL) {
        PyErr_Clear();
    }
    return array;
}

/* A large product of tensors, which PyTorch's library makes. */
static bool by_torch(const Call *c, uint32_t node, DynLink *l) {
    return dyn_graph_node(c->p->graph, node)->flags & DYN_NODE_TENSOR && dyn_blas_torch(&l->blas);
}

/* Below this PyTorch's library is faster than a chain of blocks by NumPy's (64 x 64 x 64: 32 and 44 us for three layers; 64 x 256
 * x 256: 283 and 260). */
#define CHAIN_TERMS 1000000

/* Of tensors: for more NumPy's library would take its own threads, beside those of PyTorch's library. */
#define MOST_TERMS 200000

/* False: NumPy's loops make it, or its function has to say what is wrong with it. */
static bool run_product(Call *c, uint32_t node) {
    DynLink l;
    int64_t terms;
    if (!find_product(c, node, &l)) {
        return false;
    }
    if (l.kind == DYN_LINK_BLAS && c->p->tensors && !by_torch(c, node, &l) && dyn_blas_terms(&l.blas) > MOST_TERMS) {
        return false;
    }
    PyObject *array = array_of_product(c, node, &terms);
    if (array == NULL) {
        return false;
    }
    DynGeom out;
    if (geom_of(array, &out) < 0) {
        PyErr_Clear();
        Py_DECREF(array);
        return false;
    }
    PyThreadState *saved = 2 * terms > GIL_COST ? PyEval_SaveThread() : NULL;
    if (l.kind == DYN_LINK_SMALL) {
        dyn_product_run(&l.product, out.data);
    } else {
        dyn_blas_run(&l.blas, out.data);
    }
    if (saved) {
        PyEval_RestoreThread(saved);
    }
    if (!c->p->tensors && dyn_flags_get() & DYN_FLAGS_SEEN) {
        dyn_flags_clear();
        Py_DECREF(array);
        return false;
    }
    c->objects[node] = array;
    return true;
}

static DynRunStatus extern_step(Call *c, uint32_t node) {
    const DynNode *n = dyn_graph_node(c->p->graph, node);
    DynExtern *x = &c->p->graph->externs.at[n->extern_index];
    bool can_leave = n->snapshot != DYN_NONE, once = x->once;
    bool acts = once || dyn_graph_written(c->p->graph, node) != DYN_NONE; /* making the call twice isn't making it once */
    DynRunStatus due = check_flags(c);
    if (due != DYN_RUN_OK) {
        return due;
    }
    if (can_leave && c->leave_at >= 0 && c->reached++ == c->leave_at) {
        return leave(c, node, true);
    }
    if (x->product ? run_product(c, node) : x->own && dyn_exec_own(c->p->graph, node, c->geoms, c->objects, c->run->sym)) {
        return after_extern(c, node);
    }
    bool again = can_leave && !acts && dyn_extern_is_compiled(x); /* others may have warned before they raise */
    be_strict(c, again && !c->p->tensors);
    dyn_torch_grad_back(c->grad && x->marked);
    DynExternStatus status = dyn_extern_run(c->p->graph, node, extern_operand, c, c->objects, c->run->sym, again);
    c->grad = (c->grad && x->marked) ? dyn_torch_grad_off() : c->grad;
    dyn_flags_clear();
    if (status == DYN_EXTERN_OK) {
        return after_extern(c, node);
    }
    if (can_leave && !again && status == DYN_EXTERN_ERROR) {
        return leave_raising(c, node);
    }
    if (can_leave &&
        !(once && !x->marked && status == DYN_EXTERN_OTHER)) { /* whoever goes on makes the call again, and its exception */
        PyErr_Clear();
        return leave(c, node, !acts);
    }
    if (status == DYN_EXTERN_OTHER) {
        PyErr_Format(PyExc_SystemError, "dynoc: %s gave another kind of result than before", x->name);
    }
    return DYN_RUN_ERROR;
}

/* A size or stride is not what the guards promised. Before anything was written eager can take the call. */
static DynRunStatus refuse(Call *c) {
    if (can_repeat(c)) {
        PyErr_Clear();
        return repeat(c);
    }
    if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_SystemError, "dynoc: a compiled graph met arrays that its guards should have kept out");
    }
    return DYN_RUN_ERROR;
}

static bool writes_input(const DynLoops *p, const DynKernel *k) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (k->operands.at[i].out && p->places[dyn_loops_storage(p, k->operands.at[i].place)].kind == DYN_P_INPUT) {
            return true;
        }
    }
    return false;
}

/* A scan, a histogram, a scatter or a check of places. */
static int run_node(Call *c, const DynStep *step) {
    const DynNode *n = dyn_graph_node(c->p->graph, step->id);
    PyThreadState *saved = dyn_node_cost(c->p->graph, step, c->geoms) > GIL_COST ? PyEval_SaveThread() : NULL;
    int failed = dyn_node_run(c->p, step, c->geoms, c->run->sym);
    if (saved) {
        PyEval_RestoreThread(saved);
    }
    c->wrote |= n->op == DYN_OP_SCATTER && step->kind == DYN_STEP_SCAN && !failed && c->p->places[n->storage].kind == DYN_P_INPUT;
    return failed;
}

/* ---- pairs of reductions */

/* Both, where the first is; false: they are done one by one. */
static bool run_pair(Call *c, uint32_t s, int *failed) {
    const DynLoops *p = c->p;
    uint32_t second = s + 1;
    DynPair pair;
    DynBound a, b;
    while (second < p->steps.n && p->steps.at[second].pair != p->steps.at[s].pair) {
        second++;
    }
    if (second == p->steps.n || !dyn_pair_find(p, s, second, &pair) || bind(c, &p->kernels.at[p->steps.at[s].id], &a) < 0 ||
        bind(c, &p->kernels.at[p->steps.at[second].id], &b) < 0) {
        return false;
    }
    const DynSym *by = pair.divisor == DYN_NONE ? NULL : dyn_sym_at(p->graph->syms, pair.divisor);
    DynScalar count = by == NULL ? (DynScalar){.i = 0} : c->run->sym[pair.divisor];
    int64_t divisor = by != NULL && by->type == DYN_T_FLOAT ? (int64_t)count.f : count.i;
    PyThreadState *saved = dyn_exec_cost(&a) > GIL_COST ? PyEval_SaveThread() : NULL;
    *failed = dyn_exec_pair(&a, &b, &pair, divisor);
    if (saved) {
        PyEval_RestoreThread(saved);
    }
    c->paired = *failed == 0 ? 0 : p->steps.at[s].pair;
    return *failed != 0;
}

/* ---- chains */

/* One step of a chain, bound. False: it has to be done alone. */
static bool bind_link(Call *c, const DynStep *step, DynLink *l, int64_t *cost) {
    int64_t terms;
    if (step->kind == DYN_STEP_KERNEL) {
        l->kind = DYN_LINK_KERNEL;
        if (bind(c, &c->p->kernels.at[step->id], &l->bound) < 0) {
            return false;
        }
        *cost += dyn_exec_cost(&l->bound);
        return true;
    }
    if (!find_product(c, step->id, l) ||
        (l->kind == DYN_LINK_BLAS &&
         (!dyn_blas_has_blocks(&l->blas) || (dyn_blas_terms(&l->blas) < CHAIN_TERMS && by_torch(c, step->id, l)))) ||
        (c->objects[step->id] = array_of_product(c, step->id, &terms)) == NULL) {
        return false;
    }
    geom_of(c->objects[step->id], &c->geoms[step->id]);
    l->out = c->geoms[step->id].data;
    *cost += terms / DYN_BLAS_TERMS;
    return true;
}

/* The links of a chain, and how many; -1: its steps have to be done one by one. */
static int bind_chain(Call *c, uint32_t first, uint32_t last, DynLink *links, int64_t *cost) {
    int n = 0;
    for (uint32_t s = first; s <= last; s++) {
        const DynStep *step = &c->p->steps.at[s];
        if (step->kind == DYN_STEP_VIEW ? view_step(c, step->id) < 0 : !bind_link(c, step, &links[n++], cost)) {
            return -1;
        }
    }
    return n;
}

/* Steps from `first` on, as one chain; false: nothing is done, or nothing that isn't done over when they are done one by one. */
static bool run_chain(Call *c, uint32_t first, uint32_t *last) {
    const DynLoops *p = c->p;
    int64_t cost = 0, rows = 0;
    for (*last = first; *last + 1 < p->steps.n && p->steps.at[*last + 1].chain == p->steps.at[first].chain;) {
        ++*last;
    }
    for (uint32_t s = first; s <= *last; s++) {
        const DynStep *step = &p->steps.at[s];
        rows = step->kind == DYN_STEP_EXTERN ? c->run->sym[dyn_graph_node(p->graph, step->id)->shape[0]].i : rows;
    }
    if (rows <= DYN_BLAS_ROWS || c->leave_at >= 0 || ((c->flags | dyn_flags_get()) & DYN_FLAGS_SEEN)) {
        return false;
    }
    DynLink *links = PyMem_Malloc(sizeof(*links) * (*last - first + 1));
    int n = links == NULL ? -1 : bind_chain(c, first, *last, links, &cost);
    if (n >= 0) {
        PyThreadState *saved = cost > GIL_COST ? PyEval_SaveThread() : NULL;
        n = dyn_exec_chain(links, n, rows, cost);
        if (saved) {
            PyEval_RestoreThread(saved);
        }
    }
    PyMem_Free(links);
    int flags = dyn_flags_get() & DYN_FLAGS_SEEN, due = flags == 0 ? 0 : flags_due(c, flags);
    bool done = n >= 0 && due == 0 && !atomic_load_explicit(&c->missed, memory_order_relaxed);
    dyn_flags_clear();
    if (due < 0) {
        PyErr_Clear();
    }
    for (uint32_t s = first; s <= *last && !done; s++) {
        if (p->steps.at[s].kind == DYN_STEP_EXTERN) {
            Py_CLEAR(c->objects[p->steps.at[s].id]);
        }
    }
    if (!done) {
        atomic_store(&c->missed, false);
    }
    return done;
}

/* What nobody needs behind step s. */
static void drop_behind(Call *c, uint32_t s) {
    const DynLoops *p = c->p;
    for (; c->dropped < p->drops.n && p->drops.at[c->dropped].step <= s; c->dropped++) {
        Py_CLEAR(c->objects[p->drops.at[c->dropped].place]);
    }
}

static DynRunStatus run_steps(Call *c) {
    uint32_t chain = 0; /* the last that was tried */
    const DynLoops *p = c->p;
    for (uint32_t s = 0; s < p->steps.n; s++) {
        const DynStep *step = &p->steps.at[s];
        /* as long as nothing was written eager can give its own warnings */
        DynRunStatus warned =
            p->writes_inputs && !c->wrote && !c->acted && step->kind != DYN_STEP_VIEW ? check_flags(c) : DYN_RUN_OK;
        if (warned != DYN_RUN_OK) {
            return warned;
        }
        if (make_before(c, s) < 0) {
            return refuse(c);
        }
        if (DYN_UNLIKELY(step->chain > chain)) {
            uint32_t last;
            chain = step->chain;
            if (run_chain(c, s, &last)) {
                s = last;
                drop_behind(c, s);
                continue;
            }
        }
        if (step->kind == DYN_STEP_VIEW) {
            if (view_step(c, step->id) < 0) {
                return refuse(c);
            }
        } else if (step->kind == DYN_STEP_SCAN || step->kind == DYN_STEP_CHECK) {
            if (run_node(c, step) < 0) {
                return refuse(c);
            }
        } else if (step->kind == DYN_STEP_EXTERN) {
            DynRunStatus status = extern_step(c, step->id);
            if (status != DYN_RUN_OK) {
                return status;
            }
        } else {
            const DynKernel *k = &p->kernels.at[step->id];
            uint32_t last = s;
            int failed = 0;
            if (DYN_UNLIKELY(step->pair != 0) && (step->pair == c->paired || run_pair(c, s, &failed))) {
                failed = failed < 0 ? failed : 0; /* both are there by now */
            } else {
                failed = k->group == DYN_NONE ? run_alone(c, k) : run_group(c, s, &last);
            }
            if (failed || atomic_load_explicit(&c->missed, memory_order_relaxed)) {
                return refuse(c);
            }
            for (; p->writes_inputs && !c->wrote && s <= last; s++) {
                c->wrote = writes_input(p, &p->kernels.at[p->steps.at[s].id]);
            }
            s = last;
        }
        drop_behind(c, s);
    }
    return DYN_RUN_OK;
}

static DynRunStatus hand_out(Call *c) {
    const DynGraph *g = c->p->graph;
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        c->run->outputs[i] = value_of(c, g->outputs.at[i]);
        if (!c->run->outputs[i]) {
            while (i-- > 0) {
                Py_CLEAR(c->run->outputs[i]);
            }
            return DYN_RUN_ERROR;
        }
    }
    return DYN_RUN_OK;
}

/* Tensors that came in and were written have a new version, by which autograd knows that. */
static int bump_versions(const Call *c) {
    const DynGraph *g = c->p->graph;
    for (uint32_t i = 0; i < c->p->written.n; i++) {
        uint32_t at = c->p->written.at[i];
        if (dyn_graph_node(g, g->inputs.at[at])->flags & DYN_NODE_TENSOR && dyn_torch_bump(c->run->inputs[at]) < 0) {
            return -1;
        }
    }
    return 0;
}

static DynRunStatus run_call(Call *c) {
    dyn_flags_clear();
    if (make_memory(c) < 0) { /* eager says it in NumPy's words, or makes do with less memory */
        PyErr_Clear();
        return DYN_RUN_AGAIN;
    }
    if (c->p->written.n > 0 && !c->p->tensors) {
        keep_inputs(c);
    }
    DynRunStatus status = run_steps(c);
    if (status == DYN_RUN_OK) {
        status = check_flags(c);
    }
    if (c->p->tensors && c->wrote && bump_versions(c) < 0) {
        return DYN_RUN_ERROR;
    }
    return status == DYN_RUN_OK ? hand_out(c) : status;
}

DynRunStatus dyn_artifact_run(DynArtifact *a, DynRun *run) {
    DynGeom geoms[FEW];
    PyObject *objects[FEW];
    const DynLoops *p = a->loops;
    Call c = {.a = a, .p = p, .run = run, .geoms = geoms, .objects = objects, .leave_at = run->config->force_leave};
    dyn_par_limit(run->config->threads);
    dyn_cpy_notice_signals(); /* a build may have been submitted lately, with a new thread */
    if (a->rest != NULL && a->joined == NULL) {
        dyn_parts_join(a);
    }
    if (a->sizes != NULL) {
        dyn_sizes_submit(a);
    }
    c.table = atomic_load_explicit(&a->table, memory_order_acquire);
    DynTrial trial = {.way = -1};
    if (DYN_UNLIKELY(a->tune != NULL)) {
        trial = dyn_tune_start(a, run);
        c.table = trial.table;
    }
    if (p->nnative && !c.table) {
        dyn_build_poll();
        if (dyn_artifact_tier(a) == DYN_TIER_EAGER) {
            return DYN_RUN_AGAIN;
        }
        if (!a->built_in) {
            dyn_count("tier", "builtin");
            a->built_in = true;
        }
    }
    if (DYN_UNLIKELY(p->nplaces > FEW)) {
        c.geoms = PyMem_Malloc((sizeof(DynGeom) + sizeof(PyObject *)) * p->nplaces);
        if (!c.geoms) {
            PyErr_NoMemory();
            return DYN_RUN_ERROR;
        }
        c.objects = (PyObject **)(c.geoms + p->nplaces);
    }
    memset(c.objects, 0, sizeof(PyObject *) * p->nplaces);
    dyn_artifact_incref(a);
    c.grad = p->asks_torch && dyn_torch_grad_off();
    DynRunStatus status = run_call(&c);
    dyn_torch_grad_back(c.grad);
    be_strict(&c, false);
    if (DYN_UNLIKELY(trial.way >= 0) && status == DYN_RUN_OK) {
        dyn_tune_end(a, &trial);
    }
    for (uint32_t i = 0; i < p->nplaces; i++) {
        Py_XDECREF(c.objects[i]);
    }
    dyn_pool_give(c.temps);
    drop_undo(&c);
    if (c.geoms != geoms) {
        PyMem_Free(c.geoms);
    }
    dyn_artifact_decref(a);
    return status;
}
