/* rec_gradient.c: dynoc.grad and dynoc.value_and_grad while recording: the gradient of a number as nodes of the graph.
 *
 * dynoc/_gradient.py calls three functions of the extension's, which are known here. `_begin_gradient` opens the recording of a
 * function whose gradient will be asked for: loops are unrolled to the limit, and what calls of NumPy's own give is kept. Within
 * such a recording `_in_gradient` is true, so gradients of gradients are nodes of the same graph. `_gradients(value, wanted)` has
 * ir/derive.c add the nodes. In CPython that call gives nothing: so what it gives while recording is computed here, node by node,
 * from the arrays that came in and from what was kept. Called by rec_callables.c. */
#include "ir/derive.h"
#include "ir/extern.h"
#include "ir/place.h"
#include "tracer/numpy/rec_np.h"
#include "tracer/record/rec_callables.h"

typedef struct Gradient {
    DynRec *r;
    DynGraph *g;
    uint32_t n;     /* the nodes before gradients were added */
    uint32_t value; /* whose gradient it is */
    DynVal **wanted;
    uint32_t nwanted;
    bool *reached;       /* what depends on something wanted */
    bool *needed;        /* what the value needs */
    uint32_t *gradients; /* of the n nodes */
    uint32_t *outputs;   /* of what is wanted */
} Gradient;

DynVal *rec_on_begin_gradient(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    r->derives = true;
    *result = Py_NewRef(Py_None);
    return dyn_rec_const(r, Py_None);
}

DynVal *rec_on_in_gradient(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    if (!r->derives) {
        return REC_DECLINED;
    }
    *result = Py_NewRef(Py_True);
    return dyn_rec_const(r, Py_True);
}

int dyn_rec_call_gave(DynRec *r, uint32_t node, PyObject *result) {
    uint8_t kind = dyn_ops[dyn_np_node_at(r, node)->op].kind;
    if (!r->derives || (kind != DYN_K_EXTERN && kind != DYN_K_RESULT)) {
        return 0;
    }
    RecGave gave = {node, PyArray_Check(result) ? PyArray_NewCopy((PyArrayObject *)result, NPY_KEEPORDER) : Py_NewRef(result)};
    if (gave.value == NULL || rec_keep(r, gave.value) < 0) {
        Py_XDECREF(gave.value);
        PyErr_Clear();
        return dyn_np_refuse(r, DYN_R_NO_MEMORY), -1;
    }
    Py_DECREF(gave.value); /* the recording keeps it */
    return dyn_vec_push(&r->gave, gave);
}

/* ---- what there is no gradient of */

/* The name of what a node does, as the program calls it. */
static const char *name_of(const DynGraph *g, const DynNode *n) {
    n = n->op == DYN_OP_RESULT ? dyn_graph_node(g, n->args[0].id) : n;
    return dyn_graph_name_of(g, n);
}

/* Raises dynoc.Unsupported for a node: with its name, why, and where it stands. */
static int raise_for(const Gradient *x, uint32_t id, const char *why) {
    const DynNode *n = dyn_graph_node(x->g, id);
    DynStr s = {0};
    dyn_str_printf(&s, "gradient of a function with %s: %s", name_of(x->g, n), why);
    if (n->where < x->g->places.n) {
        dyn_str_putc(&s, '\n');
        dyn_report_place(&s, &x->g->places.at[n->where]);
    }
    PyErr_SetString(dyn_unsupported_error ? dyn_unsupported_error : PyExc_RuntimeError, dyn_str_at(&s));
    dyn_str_free(&s);
    return -1;
}

/* Elements that gradients are made of; rows of derivatives know more of tensors. */
static bool is_single_or_double(const DynNode *n) {
    return dyn_derive_follows(n) && (n->dtype == DYN_F32 || n->dtype == DYN_F64);
}

static bool reads_reached(const Gradient *x, const DynNode *n) {
    for (int k = 0; k < n->nargs; k++) {
        if (n->args[k].kind == DYN_ARG_NODE && x->reached[n->args[k].id]) {
            return true;
        }
    }
    return false;
}

/* Does a Python float come out of the call? */
static bool gives_float(const Gradient *x, uint32_t id) {
    const DynSyms *t = dyn_rec_syms(x->r);
    for (uint32_t i = 0; i < t->v.n; i++) {
        const DynSym *s = dyn_sym_at(t, i);
        bool given = s->op == DYN_S_LATE && s->b == DYN_LATE_NUMBER && s->after == id + 1;
        if (given && s->type == DYN_T_FLOAT) {
            return true;
        }
    }
    return false;
}

static int look_at(const Gradient *x, uint32_t id) {
    const DynNode *n = dyn_graph_node(x->g, id);
    uint32_t written = dyn_graph_written(x->g, id);
    if (written == DYN_NONE ? !x->needed[id] : !x->needed[written]) {
        return 0;
    }
    if (written != DYN_NONE && dyn_graph_node(x->g, written)->op == DYN_OP_INPUT) {
        return raise_for(x, id, "it changes an array that the function didn't make");
    }
    bool result = n->op == DYN_OP_RESULT && is_single_or_double(n); /* its call may give integers first, which nothing reaches */
    if (result && !x->reached[id] && reads_reached(x, dyn_graph_node(x->g, n->args[0].id))) {
        return raise_for(x, id, "no derivative is known");
    }
    bool reached = reads_reached(x, n) || (written != DYN_NONE && x->reached[written]);
    if (!reached || dyn_node_stores(n)) {
        return 0;
    }
    if (written != DYN_NONE) {
        return raise_for(x, id, "no derivative is known of a call that writes");
    }
    if (dyn_node_calls(n) && (n->flags & DYN_NODE_OBJECT)) {
        return raise_for(x, id, "an object that is made of what has a gradient has none");
    }
    if (dyn_node_calls(n) && gives_float(x, id)) {
        return raise_for(x, id, "what becomes a Python number has no gradient");
    }
    bool other = dyn_dtypes[n->dtype].kind == 'c' || dyn_dtype_is_half((DynDtype)n->dtype);
    if (other) {
        return raise_for(x, id, "no derivative is known of complex numbers and of halves");
    }
    return n->op == DYN_OP_AS_DTYPE ? raise_for(x, id, "bytes that are looked at as another dtype have no gradient") : 0;
}

/* ---- the nodes */

/* What gradients need, calls that write into it included. */
static void mark_needed(const Gradient *x, const bool *stops, bool *needed) {
    bool more;
    do {
        dyn_part_mark(x->g, stops, needed);
        more = false;
        for (uint32_t i = 0; i < x->g->nodes.n; i++) {
            uint32_t written = dyn_graph_written(x->g, i);
            if (written != DYN_NONE && needed[written] && !needed[i]) {
                needed[i] = more = true;
            }
        }
    } while (more);
}

static int prepare(Gradient *x) {
    DynArena *arena = x->g->arena;
    x->n = x->g->nodes.n;
    x->reached = DYN_NEW_N(arena, bool, x->n + 1);
    x->needed = DYN_NEW_N(arena, bool, x->n + 1);
    x->gradients = DYN_NEW_N(arena, uint32_t, x->n + 1);
    x->outputs = DYN_NEW_N(arena, uint32_t, x->nwanted + 1);
    bool *stops = DYN_NEW_N(arena, bool, x->n + 1);
    if (!DYN_ALLOCATED(x->reached, x->needed, x->gradients, x->outputs, stops)) {
        PyErr_NoMemory();
        return -1;
    }
    memset(x->gradients, 0xFF, sizeof(*x->gradients) * x->n); /* DYN_NONE */
    for (uint32_t i = 0; i < x->nwanted; i++) {
        x->reached[rec_node_of(x->wanted[i])] = true;
    }
    dyn_derive_reach(x->g, x->n, x->reached);
    x->needed[x->value] = true;
    mark_needed(x, stops, x->needed);
    for (uint32_t i = 0; i < x->n; i++) {
        if (look_at(x, i) < 0) {
            return -1;
        }
    }
    return 0;
}

/* A gradient that the program gets is an array of its own, of the sizes of what it is the gradient of. */
static uint32_t finished(Gradient *x, uint32_t of) {
    DynRec *r = x->r;
    const DynNode n = *dyn_graph_node(x->g, of);
    uint32_t id = x->gradients[of];
    if (id == DYN_NONE) {
        return dyn_np_full(r, (DynDtype)n.dtype, n.ndim, n.shape, dyn_np_fill(r, (DynDtype)n.dtype, 1));
    }
    bool own = id >= x->n && !(dyn_graph_node(x->g, id)->flags & DYN_NODE_VIEW);
    for (uint32_t i = 0; i < x->nwanted; i++) {
        own = own && x->outputs[i] != id;
    }
    return own ? id : dyn_np_copy(r, id, (DynDtype)n.dtype);
}

static int add_nodes(Gradient *x) {
    DynRec *r = x->r;
    DynDtype dtype = (DynDtype)dyn_graph_node(x->g, x->value)->dtype;
    DynStr error = {0};
    uint32_t failed = DYN_NONE, seed = dyn_np_full(r, dtype, 0, NULL, dyn_np_fill(r, dtype, 2));
    x->gradients[x->value] = seed;
    if (seed == DYN_NONE || dyn_derive(x->g, x->n, x->reached, x->gradients, &failed, &error) < 0) {
        const char *text = dyn_str_at(&error), *why = strstr(text, "): ");
        if (failed == DYN_NONE) {
            PyErr_NoMemory();
        } else {
            raise_for(x, failed, why == NULL ? text : why + 3);
        }
        dyn_str_free(&error);
        return -1;
    }
    for (uint32_t i = 0; i < x->nwanted; i++) {
        x->outputs[i] = DYN_NONE;
    }
    for (uint32_t i = 0; i < x->nwanted; i++) {
        if ((x->outputs[i] = finished(x, rec_node_of(x->wanted[i]))) == DYN_NONE) {
            PyErr_NoMemory();
            return -1;
        }
        bool scalar = x->wanted[i]->kind == DV_NPSCALAR;
        dyn_graph_node(x->g, x->outputs[i])->flags |= scalar ? DYN_NODE_NPSCALAR : 0;
    }
    x->g->derived = true;
    uint32_t where = dyn_rec_place(r);
    for (uint32_t i = x->n; i < x->g->nodes.n; i++) {
        DynNode *n = dyn_graph_node(x->g, i);
        if (n->where == DYN_NONE) {
            n->where = where;
            n->line = where < x->g->places.n ? x->g->places.at[where].line : -1;
        }
    }
    return 0;
}

/* ---- their values, this time */

/* Array values that are there: of inputs, and of calls that were made. */
static void fill_known(const Gradient *x, PyObject **values) {
    for (uint32_t i = 0; i < x->g->inputs.n; i++) {
        uint32_t id = x->g->inputs.at[i];
        values[id] = Py_XNewRef(x->r->by_node.at[id]->real);
    }
    for (uint32_t i = 0; i < x->r->gave.n; i++) { /* of two for one node, the first was taken back */
        RecGave gave = x->r->gave.at[i];
        if (gave.node < x->n && dyn_ops[dyn_graph_node(x->g, gave.node)->op].kind != DYN_K_INPUT) {
            Py_XSETREF(values[gave.node], Py_NewRef(gave.value));
        }
    }
}

/* The gradients' values as a tuple; their shadows in `items`. NULL: an exception is set. */
static PyObject *computed(Gradient *x, DynVal **items) {
    uint32_t n = x->g->nodes.n;
    bool *needed = DYN_NEW_N(x->g->arena, bool, n + 1), *stops = DYN_NEW_N(x->g->arena, bool, n + 1);
    PyObject **values = PyMem_Calloc(n + 1, sizeof(*values)), *tuple = NULL;
    if (!DYN_ALLOCATED(needed, stops) || values == NULL) {
        PyMem_Free(values);
        return PyErr_NoMemory();
    }
    for (uint32_t i = 0; i < x->nwanted; i++) {
        needed[x->outputs[i]] = true;
    }
    mark_needed(x, stops, needed);
    fill_known(x, values);
    if (x->r->req->evaluate(x->r->req, x->g, needed, values) == 0) {
        tuple = PyTuple_New(x->nwanted);
    }
    for (uint32_t i = 0; tuple != NULL && i < x->nwanted; i++) {
        PyObject *value = values[x->outputs[i]];
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(value));
        if ((items[i] = dyn_np_result(x->r, x->outputs[i], value)) == NULL) {
            PyErr_SetString(PyExc_SystemError, "dynoc: a gradient isn't what its node says");
            Py_CLEAR(tuple);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        Py_XDECREF(values[i]);
    }
    PyMem_Free(values);
    return tuple;
}

/* ---- the call */

static int take_arguments(Gradient *x, const RecCall *c) {
    DynOperand value = c->args[0], wanted = c->args[1];
    if (!rec_is_array(value.v) || dyn_graph_node(x->g, rec_node_of(value.v))->ndim != 0) {
        PyErr_Format(PyExc_TypeError,
                     "the function gives no number of NumPy's (np.float64, or an array without axes), but %R of type %s",
                     value.real, Py_TYPE(value.real)->tp_name);
        return -1;
    }
    x->value = rec_node_of(value.v);
    x->wanted = wanted.v->items;
    x->nwanted = wanted.v->n;
    for (uint32_t i = 0; i < x->nwanted; i++) {
        PyObject *real = PyTuple_GET_ITEM(wanted.real, i);
        bool array = rec_is_array(x->wanted[i]);
        if (!array || !is_single_or_double(dyn_graph_node(x->g, rec_node_of(x->wanted[i])))) {
            PyErr_Format(PyExc_TypeError, "gradients are with regard to float64 and float32, not %R",
                         PyArray_Check(real) ? (PyObject *)PyArray_DESCR((PyArrayObject *)real) : (PyObject *)Py_TYPE(real));
            return -1;
        }
    }
    if (!is_single_or_double(dyn_graph_node(x->g, x->value))) {
        PyErr_Format(PyExc_TypeError, "the function gives %R, whose type isn't float64 or float32", value.real);
        return -1;
    }
    return 0;
}

DynVal *rec_on_gradients(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    Gradient x = {.r = r, .g = dyn_rec_graph(r)};
    bool own = r->derives && c->npos == 2 && c->nkw == 0 && c->args[1].v->kind == DV_TUPLE;
    if (!own) {
        return REC_DECLINED;
    }
    *result = NULL;
    if (take_arguments(&x, c) < 0 || prepare(&x) < 0 || add_nodes(&x) < 0) {
        return NULL;
    }
    DynVal **items = DYN_NEW_N(&r->arena, DynVal *, x.nwanted + 1);
    *result = items == NULL ? PyErr_NoMemory() : computed(&x, items);
    return *result == NULL ? NULL : dyn_rec_seq(r, DV_TUPLE, x.nwanted, items, *result);
}
