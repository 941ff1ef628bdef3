/* extern.c: makes the call of an EXTERN node and looks at what came out. Called by codegen/run.c and by the reference
 * interpreter, with the GIL; the recorder (rec_numpy_extern.c) makes the rows. The graph owns the references in them. */
#include "tracer/extern.h"

void dyn_extern_drop(DynExtern *x) {
    Py_CLEAR(x->callable);
    Py_CLEAR(x->kwnames);
    for (uint32_t i = 0; i < x->nargs; i++)
        Py_CLEAR(x->args[i].obj);
    for (uint32_t i = 0; i < x->nresults; i++)
        Py_CLEAR(x->results[i].obj);
    x->nargs = x->nresults = 0;
}

uint32_t dyn_graph_written(const DynGraph *g, uint32_t id) {
    const DynNode *n = dyn_graph_node(g, id);
    if (n->op == DYN_OP_STORE)
        return n->storage;
    int at = n->op == DYN_OP_EXTERN && n->extern_index < g->externs.n ? g->externs.at[n->extern_index].writes : -1;
    return at < 0 ? DYN_NONE : dyn_graph_node(g, n->args[at].id)->storage;
}

/* ---- arguments */

typedef struct Builder {
    const DynForm *form; /* the next item */
    const DynArg *arg;   /* the next operand */
    DynExternValue value;
    void *ctx;
} Builder;

static PyObject *build(Builder *b) {
    const DynForm *form = b->form++;
    PyObject *o;
    switch (form->kind) {
    case DYN_F_NODE:
    case DYN_F_NUMBER: return b->value(b->ctx, *b->arg++);
    case DYN_F_CONST: return Py_NewRef(form->obj);
    case DYN_F_SLICE: {
        PyObject *part[3] = {NULL, NULL, NULL};
        for (int i = 0; i < 3 && (i == 0 || part[i - 1] != NULL); i++)
            part[i] = build(b);
        o = part[2] == NULL ? NULL : PySlice_New(part[0], part[1], part[2]);
        for (int i = 0; i < 3; i++)
            Py_XDECREF(part[i]);
        return o;
    }
    default: {
        bool list = form->kind == DYN_F_LIST;
        o = list ? PyList_New(form->n) : PyTuple_New(form->n);
        for (uint32_t i = 0; i < form->n && o != NULL; i++) {
            PyObject *item = build(b);
            if (item == NULL)
                Py_CLEAR(o);
            else if (list)
                PyList_SET_ITEM(o, i, item);
            else
                PyTuple_SET_ITEM(o, i, item);
        }
        return o;
    }
    }
}

/* ---- memory */

PyObject *dyn_extern_owner(PyObject *array) {
    while (PyArray_Check(array) && PyArray_BASE((PyArrayObject *)array) != NULL)
        array = PyArray_BASE((PyArrayObject *)array);
    return array;
}

bool dyn_extern_shares(PyObject *result, PyObject *arg) {
    if (PyTuple_Check(result) || PyList_Check(result)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); i++)
            if (dyn_extern_shares(PySequence_Fast_GET_ITEM(result, i), arg))
                return true;
        return false;
    }
    if (PyTuple_Check(arg) || PyList_Check(arg)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(arg); i++)
            if (dyn_extern_shares(result, PySequence_Fast_GET_ITEM(arg, i)))
                return true;
        return false;
    }
    return PyArray_Check(result) && PyArray_Check(arg) && dyn_extern_owner(result) == dyn_extern_owner(arg);
}

/* ---- results */

typedef struct Reader {
    const DynGraph *g;
    const DynForm *form;
    uint32_t first, node; /* the call's first array, and the next */
    PyObject **arrays;
    DynScalar *sym;
} Reader;

static bool read_array(Reader *r, PyObject *o) {
    const DynNode *n = dyn_graph_node(r->g, r->node);
    bool scalar = n->flags & DYN_NODE_NPSCALAR;
    if (scalar ? PyArray_Check(o) || !PyArray_CheckScalar(o) : !PyArray_CheckExact(o))
        return false;
    PyObject *array = scalar ? PyArray_FromScalar(o, NULL) : Py_NewRef(o);
    if (array == NULL) {
        PyErr_Clear();
        return false;
    }
    PyArrayObject *a = (PyArrayObject *)array;
    bool ok = dyn_dtype_of(PyArray_DESCR(a)) == n->dtype && PyArray_NDIM(a) == n->ndim && PyArray_ISALIGNED(a);
    if (ok && n->layout.kind == DYN_LAYOUT_C) {
        ok = PyArray_IS_C_CONTIGUOUS(a);
    } else if (ok) {
        DynLayout layout;
        dyn_layout_of(a, &layout);
        ok = dyn_layout_same(&layout, &n->layout, n->ndim);
    }
    for (uint32_t i = r->first; i < r->node && ok; i++)
        ok = dyn_graph_node(r->g, i)->storage == n->storage || dyn_extern_owner(r->arrays[i]) != dyn_extern_owner(array);
    if (!ok) {
        Py_DECREF(array);
        return false;
    }
    r->arrays[r->node++] = array;
    return true;
}

static bool read_number(Reader *r, uint32_t sym, PyObject *o) {
    const DynSym *s = dyn_sym_at(r->g->syms, sym);
    DynScalar *out = &r->sym[sym];
    if (s->type == DYN_T_FLOAT) {
        out->f = PyFloat_CheckExact(o) ? PyFloat_AS_DOUBLE(o) : 0;
        return PyFloat_CheckExact(o);
    }
    int overflow = 0;
    if (s->type == DYN_T_BOOL ? !PyBool_Check(o) : !PyLong_CheckExact(o))
        return false;
    out->i = PyLong_AsLongLongAndOverflow(o, &overflow);
    return !overflow;
}

static bool read_result(Reader *r, PyObject *o) {
    const DynForm *form = r->form++;
    switch (form->kind) {
    case DYN_F_NODE: return read_array(r, o);
    case DYN_F_NUMBER: return read_number(r, form->n, o);
    case DYN_F_CONST: return o == form->obj;
    default: {
        PyTypeObject *type = form->kind == DYN_F_NAMED  ? (PyTypeObject *)form->obj
                             : form->kind == DYN_F_LIST ? &PyList_Type
                                                        : &PyTuple_Type;
        if (Py_TYPE(o) != type || PySequence_Fast_GET_SIZE(o) != (Py_ssize_t)form->n)
            return false;
        for (uint32_t i = 0; i < form->n; i++)
            if (!read_result(r, PySequence_Fast_GET_ITEM(o, i)))
                return false;
        return true;
    }
    }
}

/* Symbols that are known now, in the table's order, and what was taken for granted of them. */
static bool read_late(const Reader *r, uint32_t id) {
    const DynGraph *g = r->g;
    for (uint32_t i = 0; i < g->syms->v.n; i++) {
        const DynSym *s = dyn_sym_at(g->syms, i);
        if (s->after != id + 1)
            continue;
        if (s->op != DYN_S_LATE) {
            if (dyn_sym_eval_row(g->syms, i, r->sym, &r->sym[i]) < 0)
                return false;
        } else if (s->b == DYN_LATE_SIZE) {
            r->sym[i].i = PyArray_DIM((PyArrayObject *)r->arrays[s->a], s->index);
        }
    }
    for (uint32_t i = 0; i < g->checks.n; i++) {
        uint32_t check = g->checks.at[i];
        if (dyn_sym_at(g->syms, check)->after == id + 1 && !r->sym[check].i)
            return false;
    }
    for (uint32_t k = r->first; k < r->node; k++) {
        const DynNode *n = dyn_graph_node(g, k);
        for (int d = 0; d < n->ndim; d++)
            if (r->sym[n->shape[d]].i != PyArray_DIM((PyArrayObject *)r->arrays[k], d))
                return false;
    }
    return true;
}

DynExternStatus dyn_extern_run(const DynGraph *g, uint32_t id, DynExternValue value, void *ctx, PyObject **arrays,
                               DynScalar *sym) {
    const DynNode *n = dyn_graph_node(g, id);
    const DynExtern *x = &g->externs.at[n->extern_index];
    Builder b = {x->args, n->args, value, ctx};
    PyObject *args = build(&b);
    if (args == NULL)
        return DYN_EXTERN_ERROR;
    Py_ssize_t npos = PyTuple_GET_SIZE(args) - (x->kwnames == NULL ? 0 : PyTuple_GET_SIZE(x->kwnames));
    PyObject *result = PyObject_Vectorcall(x->callable, &PyTuple_GET_ITEM(args, 0), (size_t)npos, x->kwnames);
    if (result == NULL) {
        Py_DECREF(args);
        return DYN_EXTERN_ERROR;
    }
    Reader r = {g, x->results, id, id, arrays, sym};
    bool ok = !dyn_extern_shares(result, args) && read_result(&r, result) && read_late(&r, id);
    for (; !ok && r.node > r.first; r.node--)
        Py_CLEAR(arrays[r.node - 1]);
    Py_DECREF(result);
    Py_DECREF(args);
    return ok ? DYN_EXTERN_OK : DYN_EXTERN_OTHER;
}
