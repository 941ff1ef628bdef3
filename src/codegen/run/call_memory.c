/* call_memory.c: the memory of one call: where inputs lie, arrays and temporaries that the plan asks for, and the objects that
 * Python gets for nodes.
 *
 * Called by run.c and by the tasks (task_*.c), with the GIL. What is made here belongs to the DynCall: run.c gives it back. */
#include "base/tensors.h"
#include "codegen/run/call.h"
#include "codegen/target.h"

#define FEW_SLOTS 24                /* slots of the memory plan for which the stack has room */
#define TOO_MANY ((int64_t)1 << 56) /* bytes; below it their sums don't overflow */

static size_t round_up(size_t n) { return (n + 63) & ~(size_t)63; }

static void geom_of_view(const DynArrayView *v, DynGeom *g) {
    g->data = v->data;
    memcpy(g->dims, v->dims, sizeof(*v->dims) * v->ndim);
    memcpy(g->strides, v->strides, sizeof(*v->strides) * v->ndim);
}

/* -1 with an exception: it is no longer what the guards saw. */
int dyn_call_geom(PyObject *array, DynGeom *g) {
    if (DYN_UNLIKELY(!PyArray_Check(array))) {
        DynArrayView v;
        if (!dyn_tensor_place(array, &v)) {
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
static int64_t temp_geom(const DynCall *c, const DynMem *m, DynGeom *g) {
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

static int place_temps(DynCall *c) {
    const DynLoops *p = c->p;
    size_t few[FEW_SLOTS] = {0}, *at = few, total = 0;
    bool fits = true;
    if (p->nslots > FEW_SLOTS && (at = PyMem_Calloc(p->nslots, sizeof(*at))) == NULL) {
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
    c->temps = fits && total <= (size_t)TOO_MANY ? c->a->target->reserve(c, total) : NULL;
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

PyObject *dyn_call_new_array(const DynCall *c, uint32_t place, uint8_t dtype, int ndim, const int64_t *dims,
                             const DynLayout *layout) {
    return c->a->target->allocate(c, place, dtype, ndim, dims, layout);
}

PyObject *dyn_call_new_result(const DynCall *c, uint32_t node) {
    const DynNode *n = dyn_graph_node(c->p->graph, node);
    int64_t dims[DYN_MAX_NDIM];
    for (int d = 0; d < n->ndim; d++) {
        dims[d] = c->run->sym[n->shape[d]].i;
    }
    PyObject *array = dyn_call_new_array(c, node, n->dtype, n->ndim, dims, NULL);
    if (array == NULL) {
        PyErr_Clear();
    }
    return array;
}

const DynPiece *dyn_call_piece(const DynCall *c, uint32_t node) {
    for (uint32_t i = 0; i < c->run->pieces.n; i++) {
        if (c->run->pieces.at[i].node == node) {
            return &c->run->pieces.at[i];
        }
    }
    return NULL;
}

bool dyn_artifact_takes_pieces(const DynArtifact *a) { return a->tune == NULL && !a->asks_replay && !a->loops->device; }

bool dyn_artifact_makes_piece(const DynArtifact *a, uint32_t node) {
    const DynMem *m = &a->loops->places[node];
    return m->kind == DYN_P_ARRAY && m->after == 0 && m->layout->kind == DYN_LAYOUT_C;
}

int64_t dyn_artifact_lay_piece(const DynArtifact *a, uint32_t node, const DynScalar *sym, DynArrayView *out) {
    const DynMem *m = &a->loops->places[node];
    DynGeom g;
    int64_t bytes = dyn_geom_dense(m, sym, &g);
    *out = (DynArrayView){.ndim = m->ndim, .dtype = m->dtype, .aligned = true, .writeable = true};
    memcpy(out->dims, g.dims, sizeof(*g.dims) * m->ndim);
    memcpy(out->strides, g.strides, sizeof(*g.strides) * m->ndim);
    return bytes;
}

int dyn_call_make_array(DynCall *c, uint32_t i) {
    const DynLoops *p = c->p;
    const DynPiece *piece = dyn_call_piece(c, i);
    if (piece != NULL) {
        geom_of_view(&piece->at, &c->geoms[i]);
        return 0;
    }
    const DynMem *m = &p->places[i];
    int64_t dims[DYN_MAX_NDIM];
    for (int d = 0; d < m->ndim; d++) {
        dims[d] = c->run->sym[m->shape[d]].i;
    }
    int flags = i < p->nnodes ? dyn_graph_node(p->graph, i)->flags : 0;
    c->objects[i] = flags & DYN_NODE_TURNED ? dyn_geom_turned(p->graph, i, dims)
                                            : dyn_call_new_array(c, i, m->dtype, m->ndim, dims, m->layout);
    if (!c->objects[i] || dyn_call_geom(c->objects[i], &c->geoms[i]) < 0) {
        return -1;
    }
    if (flags & DYN_NODE_READONLY) {
        PyArray_CLEARFLAGS((PyArrayObject *)c->objects[i], NPY_ARRAY_WRITEABLE);
    }
    if (!p->device && i < p->nnodes && dyn_graph_node(p->graph, i)->op == DYN_OP_IOTA) {
        count_up((int64_t *)c->geoms[i].data, dims[0]);
    }
    return 0;
}

/* Arrays whose sizes are known when the graph begins, but those that wait. */
static int make_early_arrays(DynCall *c) {
    const DynLoops *p = c->p;
    for (uint32_t i = 0; i < p->nplaces; i++) {
        const DynMem *m = &p->places[i];
        bool now = m->kind == DYN_P_ARRAY && !m->waits && m->after == 0;
        if (now && dyn_call_make_array(c, i) < 0) {
            return -1;
        }
    }
    return 0;
}

int dyn_call_make_late_arrays(DynCall *c, uint32_t node) {
    const DynLoops *p = c->p;
    for (uint32_t i = 0; i < p->late.n; i++) {
        if (p->late.at[i].step == node + 1 && dyn_call_make_array(c, p->late.at[i].place) < 0) {
            return -1;
        }
    }
    return 0;
}

int dyn_call_find_inputs(DynCall *c) {
    const DynLoops *p = c->p;
    const DynViews *views = &c->run->views;
    bool seen = views->at != NULL && *views->checks == views->check;
    for (uint32_t i = 0; i < p->graph->inputs.n; i++) {
        uint32_t node = p->graph->inputs.at[i];
        const DynNode *n = dyn_graph_node(p->graph, node);
        if (c->run->inputs[i] == NULL) {
            geom_of_view(&dyn_call_piece(c, node)->at, &c->geoms[node]);
        } else if (seen && n->flags & DYN_NODE_TENSOR) {
            geom_of_view(&c->run->views.at[n->source], &c->geoms[node]);
        } else if (dyn_call_geom(c->run->inputs[i], &c->geoms[node]) < 0) {
            return -1;
        }
    }
    return 0;
}

/* What is counted lies nowhere: its elements' addresses are eight times what they are. */
static void lay_counts(DynCall *c) {
    for (uint32_t i = 0; c->p->device && i < c->p->nplaces; i++) {
        if (c->p->places[i].kind == DYN_P_COUNT) {
            dyn_geom_dense(&c->p->places[i], c->run->sym, &c->geoms[i]);
            c->geoms[i].data = NULL;
        }
    }
}

int dyn_call_make_memory(DynCall *c) {
    lay_counts(c);
    if (dyn_call_find_inputs(c) < 0 || make_early_arrays(c) < 0) {
        return -1;
    }
    return c->p->nslots ? place_temps(c) : 0;
}

int dyn_call_view(DynCall *c, uint32_t place) {
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

static PyObject *input_object(const DynCall *c, uint32_t node) {
    for (uint32_t i = 0; i < c->p->graph->inputs.n; i++) {
        if (c->p->graph->inputs.at[i] == node) {
            return c->run->inputs[i] != NULL ? c->run->inputs[i] : c->objects[node];
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
static uint32_t base_of(const DynCall *c, const DynNode *n) {
    const DynGraph *g = c->p->graph;
    uint32_t at = n->args[0].id;
    const DynNode *b = dyn_graph_node(g, at);
    bool same_look = !is_other_look(g, n);
    while (same_look && b->flags & DYN_NODE_VIEW && !c->objects[at] && !is_other_look(g, b)) {
        at = b->args[0].id;
        b = dyn_graph_node(g, at);
    }
    return at;
}

PyObject *dyn_run_window(const DynGraph *g, const DynNode *n, PyObject *base, const DynArrayView *where) {
    bool followed = true;
    for (const DynNode *at = n; at->flags & DYN_NODE_VIEW && followed; at = dyn_graph_node(g, at->args[0].id)) {
        followed = (at->flags & DYN_NODE_UNFOLLOWED) == 0;
    }
    DynTensorLook look = DYN_LOOK_VIEW;
    if (dyn_graph_detaches(g, n)) {
        look = dyn_graph_is_data(n) ? DYN_LOOK_DATA : DYN_LOOK_DETACHED;
    }
    bool off = followed && look == DYN_LOOK_VIEW && dyn_torch_grad_on(); /* as it was where eager made it */
    PyObject *made = dyn_torch_window(base, where, look);
    dyn_torch_grad_off_again(off);
    return made;
}

/* The array of a node, borrowed; a view is made when it is first asked for. NULL with an exception. */
static PyObject *object_of(DynCall *c, uint32_t node) {
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
    const DynPiece *piece = known ? NULL : dyn_call_piece(c, node);
    if (piece != NULL) {
        return c->objects[node] = dyn_torch_window(c->run->pieces.block, &piece->at, DYN_LOOK_VIEW);
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
    DynArrayView v = {.data = g->data, .ndim = n->ndim, .dtype = n->dtype};
    memcpy(v.dims, g->dims, sizeof(*v.dims) * n->ndim);
    memcpy(v.strides, g->strides, sizeof(*v.strides) * n->ndim);
    if (n->flags & DYN_NODE_TENSOR) {
        return c->objects[node] = dyn_cupy_is(of) ? dyn_cupy_window(of, &v) : dyn_run_window(c->p->graph, n, of, &v);
    }
    bool readonly = n->flags & DYN_NODE_READONLY || (n->op == DYN_OP_BROADCAST && !(n->flags & DYN_NODE_WRITE_WARNS));
    bool writeable = PyArray_ISWRITEABLE((PyArrayObject *)of) && !readonly;
    PyObject *view = dyn_array_over(of, &v, writeable);
    if (view != NULL && n->flags & DYN_NODE_WRITE_WARNS && writeable) {
        PyArray_ENABLEFLAGS((PyArrayObject *)view, DYN_ARRAY_WARN_ON_WRITE);
    }
    return c->objects[node] = view;
}

/* What Python gets for a node: its array, or a scalar where eager gave one. New reference. */
PyObject *dyn_call_value(DynCall *c, uint32_t node) {
    PyObject *array = object_of(c, node);
    if (array && (dyn_graph_node(c->p->graph, node)->flags & DYN_NODE_NPSCALAR)) {
        return PyArray_ToScalar(PyArray_DATA((PyArrayObject *)array), (PyArrayObject *)array);
    }
    return Py_XNewRef(array);
}
