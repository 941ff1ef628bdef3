/* rec_facts.c: functions whose answer is a fact: it follows from types, dtypes and constants, never from array data. So it is the
 * same at every call under the guards, and array code that asks such things before it computes is recorded through.
 *
 * The handler `fact` of callables.def; the handlers of attributes ask what is known of a fact's. */
#include "tracer/numpy/rec_np.h"
#include "tracer/record/rec_callables.h"
#include <math.h>

bool rec_is_fact(PyObject *o) { return PyArray_DescrCheck(o) || PyCode_Check(o) || rec_instance_has_flag(o, REC_NEVER_CHANGE); }

/* A constant that a fact is, or that an attribute of one is: what nobody can change. */
DynVal *rec_wrap_fact(DynRec *r, PyObject *o) {
    return rec_is_fact(o) || Py_IS_TYPE(o, &PyDictProxy_Type) ? dyn_rec_const(r, o) : rec_wrap_result(r, o);
}

/* A function without attributes of its own, which could say that its signature is another. */
static bool of_code(DynRec *r, DynOperand o) {
    if (o.v->kind == DV_METHOD && PyMethod_Check(o.real)) {
        o = (DynOperand){o.v->method.function, PyMethod_GET_FUNCTION(o.real)};
    }
    if (!PyFunction_Check(o.real) || dyn_rec_resolve(r, o.v, o.real) < 0) {
        return false;
    }
    PyFunctionObject *f = (PyFunctionObject *)o.real;
    bool plain = f->func_kwdefaults == NULL && (f->func_dict == NULL || PyDict_GET_SIZE(f->func_dict) == 0);
    uint32_t s = plain ? rec_function_source(r, o.v, o.real) : DYN_NONE;
    Py_ssize_t n = f->func_defaults == NULL ? 0 : PyTuple_GET_SIZE(f->func_defaults);
    return s != DYN_NONE && (n == 0 || rec_guard(r, DYN_GUARD_DEFAULTS, s, DYN_NONE, n, NULL) == 0);
}

/* Do the guards of such a shadow hold its type (and dtype), whatever its value is? */
static bool is_typed(DynVal *v) {
    bool function = v->kind == DV_PYFUNC || v->kind == DV_FUNC;
    return v->kind == DV_SYM || rec_is_array(v) || function;
}

/* Is the answer the same as long as this argument's guards hold? REC_BY_VALUES: its value decides, and is burnt in; REC_BY_TYPES:
 * the types (and dtypes) of arrays and numbers, and the values of everything else; REC_BY_CODE: of a Python function or method
 * its code, and how many defaults it has. */
static bool decided(DynRec *r, DynOperand o, int by) {
    if (by == REC_BY_TYPES && (o.v->kind == DV_TUPLE || o.v->kind == DV_LIST)) {
        bool known = o.v->n == PySequence_Fast_GET_SIZE(o.real);
        for (uint32_t i = 0; known && i < o.v->n; i++) {
            DynOperand item = {o.v->items[i], PySequence_Fast_GET_ITEM(o.real, i)};
            known = dyn_rec_resolve(r, item.v, item.real) == 0 && decided(r, item, by);
        }
        return known;
    }
    if (by == REC_BY_CODE) {
        return of_code(r, o);
    }
    return (by == REC_BY_TYPES && is_typed(o.v)) || dyn_rec_burn(r, o.v, o.real) == 0;
}

/* A user's class can have __subclasscheck__ or __call__ of its own: only the plain kind is known. */
static bool plain_classes(PyObject *o) {
    if (PyTuple_CheckExact(o)) {
        bool plain = true;
        for (Py_ssize_t i = 0; plain && i < PyTuple_GET_SIZE(o); i++) {
            plain = plain_classes(PyTuple_GET_ITEM(o, i));
        }
        return plain;
    }
    return !PyType_Check(o) || Py_TYPE(o) == &PyType_Type;
}

DynVal *rec_on_fact(DynRec *r, const RecCall *c, PyObject **result, int by) {
    bool known = true;
    for (uint32_t k = 0; known && k < c->npos + c->nkw; k++) {
        known = dyn_rec_resolve(r, c->args[k].v, c->args[k].real) == 0 && plain_classes(c->args[k].real) &&
                decided(r, c->args[k], by);
    }
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    return known ? rec_wrap_fact(r, *result) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, rec_callable_name(r, c->callable.real));
}

/* ---- NumPy scalars that are constants */

bool rec_is_const_npscalar(DynVal *v, PyObject *o) { return v->kind == DV_CONST && PyArray_CheckScalar(o); }

/* The smallest normal number of a float's dtype. */
static double smallest_normal(DynDtype dt) {
    if (dt == DYN_F16) {
        return 0x1p-14;
    }
    return dt == DYN_F32 ? 0x1p-126 : 0x1p-1022;
}

/* Made of constants alone, and no floating-point warning came with it: those come with a NaN, an infinity, a zero or a subnormal
 * number as the result. */
bool rec_is_quiet_npscalar(PyObject *o) {
    DynDtype dt = dyn_np_dtype_of(o);
    if (dt == DYN_NO_DTYPE || dyn_dtypes[dt].kind != 'f') {
        return dt != DYN_NO_DTYPE && dyn_dtypes[dt].kind != 'c';
    }
    PyObject *item = PyObject_CallMethod(o, "item", NULL);
    double value = item != NULL && PyFloat_CheckExact(item) ? PyFloat_AS_DOUBLE(item) : Py_NAN;
    PyErr_Clear();
    Py_XDECREF(item);
    return isfinite(value) && fabs(value) >= smallest_normal(dt);
}

/* ---- arrays and NumPy scalars that are made of Python numbers alone */

#define MAX_WALK 64

typedef struct Walk {
    uint32_t nodes[MAX_WALK], n;
} Walk;

static bool visit(Walk *w, uint32_t node) {
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->nodes[i] == node) {
            return true;
        }
    }
    if (w->n == MAX_WALK) {
        return false;
    }
    w->nodes[w->n++] = node;
    return true;
}

/* What else goes into the values of `node`'s memory: everything that was stored there. */
static bool visit_stores(DynRec *r, Walk *w, uint32_t storage) {
    const DynGraph *g = &r->cap->graph;
    for (uint32_t i = storage; i < g->nodes.n; i++) {
        const DynNode *n = &g->nodes.at[i];
        if (dyn_node_stores(n) && n->storage == storage && !visit(w, i)) {
            return false;
        }
    }
    return true;
}

/* All that decides a node's values, when no array that came in and no call that gives another value each time is among it. */
static bool walk(DynRec *r, Walk *w) {
    const DynGraph *g = &r->cap->graph;
    for (uint32_t i = 0; i < w->n; i++) {
        const DynNode *n = &g->nodes.at[w->nodes[i]];
        bool ours = n->op != DYN_OP_INPUT && (dyn_ops[n->op].kind != DYN_K_EXTERN || !g->externs.at[n->extern_index].once);
        if (!ours || !visit(w, n->storage) || !visit_stores(r, w, n->storage)) {
            return false;
        }
        for (uint32_t k = 0; k < n->nargs; k++) {
            if (n->args[k].kind == DYN_ARG_SOURCE || (n->args[k].kind == DYN_ARG_NODE && !visit(w, n->args[k].id))) {
                return false;
            }
        }
    }
    return true;
}

/* Sizes and ints are burnt in, floats would make an entry for each value. */
static int burn_symbols(DynRec *r, const DynNode *n) {
    DynVal v = {.kind = DV_SYM, .source = DYN_NONE};
    for (uint32_t k = 0; k < n->nargs + n->ndim; k++) {
        bool arg = k < n->nargs;
        v.sym = arg ? n->args[k].id : n->shape[k - n->nargs];
        bool skipped = arg ? n->args[k].kind != DYN_ARG_SYM : dyn_node_stores(n);
        if (skipped) {
            continue;
        }
        const DynSym *s = dyn_sym_at(&r->cap->syms, v.sym);
        bool came_in = s->op == DYN_S_VAR && s->index > 0; /* a NumPy scalar: as good as array data */
        if (!dyn_sym_is_const(&r->cap->syms, v.sym) && (s->type == DYN_T_FLOAT || came_in)) {
            return -1;
        }
        if (dyn_rec_burn(r, &v, Py_None) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The k-th symbol of a node: one for each argument (DYN_NONE: it is no symbol), then the sizes. */
static uint32_t symbol_at(const DynNode *n, uint32_t k) {
    if (k >= n->nargs) {
        return n->shape[k - n->nargs];
    }
    return n->args[k].kind == DYN_ARG_SYM ? n->args[k].id : DYN_NONE;
}

/* Does the node's value depend on a size that isn't the same at every call? */
static bool has_sizes(DynRec *r, const Walk *w) {
    DynSyms *t = &r->cap->syms;
    for (uint32_t i = 0; i < w->n; i++) {
        const DynNode *n = &r->cap->graph.nodes.at[w->nodes[i]];
        for (uint32_t k = 0; k < n->nargs + n->ndim; k++) {
            uint32_t id = symbol_at(n, k);
            if (id != DYN_NONE && !dyn_sym_is_const(t, id) && dyn_sym_at(t, id)->type == DYN_T_INT) {
                return true;
            }
        }
    }
    return false;
}

bool rec_may_guess(DynRec *r, uint32_t node) {
    Walk w = {.n = 0};
    if (r->derives) { /* a graph that is left has no gradient */
        return false;
    }
    bool follows = visit(&w, node) && walk(r, &w);
    return follows ? !r->req->sure && has_sizes(r, &w) : r->req->fullgraph;
}

int rec_burn_node(DynRec *r, uint32_t node) {
    Walk w = {.n = 0};
    r->why = DYN_R_DATA_DEPENDENT;
    if (!visit(&w, node) || !walk(r, &w)) {
        return -1;
    }
    for (uint32_t i = 0; i < w.n; i++) {
        if (burn_symbols(r, &r->cap->graph.nodes.at[w.nodes[i]]) < 0) {
            return -1;
        }
    }
    return 0;
}
