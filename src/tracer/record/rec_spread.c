/* rec_spread.c: calls with spread arguments: f(*args, **keywords).
 *
 * Called from record.c's table. The arguments' containers are laid out as rec_call.c has arguments; what is looked at to do so is
 * guarded. Owns nothing. */
#include "tracer/record/rec_callables.h"
#include "tracer/record/rec_segment.h"

static int spread_keywords(DynRec *r, DynOperand kw, RecCall *c) {
    Py_ssize_t pos = 0, i = 0;
    PyObject *key, *value;
    c->nkw = kw.v->n / 2;
    c->kwnames = PyTuple_New(c->nkw);
    if (c->kwnames == NULL) {
        PyErr_Clear();
        return -1;
    }
    while (PyDict_Next(kw.real, &pos, &key, &value)) {
        if (!PyUnicode_CheckExact(key) || i >= (Py_ssize_t)c->nkw) {
            return -1;
        }
        PyTuple_SET_ITEM(c->kwnames, i, Py_NewRef(key));
        c->args[c->npos + i] = (DynOperand){kw.v->items[2 * i + 1], value};
        i++;
    }
    return 0;
}

/* What is spread isn't known: the call is made as it stands. */
static Step call_spread(DynRec *r, RecFrame *f, PyObject *callable, PyObject *args, PyObject *kw, uint32_t npop) {
    if (!PyTuple_CheckExact(args) || (kw != NULL && !PyDict_CheckExact(kw))) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "call with * or ** of something that isn't known");
    }
    r->why = DYN_R_OPAQUE_CALL;
    r->detail = rec_callable_name(r, callable);
    return rec_commit(r, f, npop, PyObject_Call(callable, args, kw), NULL);
}

static Step spread_call(DynRec *r, RecFrame *f, const DynInstr *in, DynOperand args) {
    bool has_kw = (in->arg & 1) && operand(f, 1).real != NULL, null_first = dyn_call_null_first();
    uint32_t npop = dyn_stack_effect(in).pops, n;
    DynOperand kw = has_kw ? operand(f, 1) : (DynOperand){0};
    RecCall c = {.callable = operand(f, npop - (null_first ? 1 : 0))};
    DynVal **items;
    bool fits = rec_is_sequence(args.real) && rec_items(r, args.v, args.real, &items, &n) == 0 &&
                n == PySequence_Fast_GET_SIZE(args.real);
    if (has_kw && fits) {
        fits = PyDict_CheckExact(kw.real) && dyn_rec_resolve(r, kw.v, kw.real) == 0 && kw.v->kind == DV_DICT;
    }
    if (!fits || (c.args = DYN_NEW_N(&r->arena, DynOperand, n + (has_kw ? kw.v->n : 0) + 1)) == NULL) {
        return call_spread(r, f, c.callable.real, args.real, kw.real, npop);
    }
    c.npos = n;
    for (uint32_t i = 0; i < n; i++) {
        c.args[i] = (DynOperand){items[i], PySequence_Fast_GET_ITEM(args.real, i)};
    }
    if (has_kw && spread_keywords(r, kw, &c) < 0) {
        Py_XDECREF(c.kwnames);
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "keywords");
    }
    c.packed = PyTuple_CheckExact(args.real) ? args.real : NULL;
    c.packed_kw = kw.real;
    PyObject *names = c.kwnames;
    Step s = rec_finish_call(r, f, &c, npop);
    Py_XDECREF(names);
    return s;
}

/* f(*array): a list of its rows, of which there are as many at every call. NULL: unknown. */
static PyObject *list_of_rows(DynRec *r, DynOperand *args) {
    DynVal *items[32];
    PyObject *real[DYN_COUNTOF(items)] = {NULL}, *list = NULL;
    Py_ssize_t n = rec_count_rows(args->real);
    n = n <= (Py_ssize_t)DYN_COUNTOF(items) ? n : -1;
    uint32_t want = dyn_sym_int(&r->cap->syms, n);
    bool listed = n >= 0 && want != DYN_NONE &&
                  dyn_rec_assume_equal(r, dyn_graph_node(&r->cap->graph, rec_node_of(args->v))->shape[0], want) == 0;
    bool known = listed && rec_array_rows(r, *args, (uint32_t)n, items, real) == 0;
    for (Py_ssize_t i = 0; known && i < n; i++) {
        known = items[i] != NULL;
    }
    args->v = known ? dyn_rec_seq(r, DV_LIST, (uint32_t)n, items, NULL) : NULL;
    list = args->v != NULL ? PyList_New(n) : NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (list != NULL) {
            PyList_SET_ITEM(list, i, real[i]);
        } else {
            Py_XDECREF(real[i]);
        }
    }
    PyErr_Clear();
    return args->real = list;
}

/* f(*iterator), of which something isn't known. */
static Step spread_taken(DynRec *r, RecFrame *f, const DynInstr *in, PyObject *list) {
    bool has_kw = in->arg & 1;
    uint32_t npop = has_kw ? 4 : 3;
    DynOperand callable = operand(f, npop - (dyn_call_null_first() ? 1 : 0));
    PyObject *kw = has_kw ? *real_top(f, 1) : NULL, *tuple = PyList_AsTuple(list);
    PyObject *result = tuple ? PyObject_Call(callable.real, tuple, kw) : NULL;
    Py_XDECREF(tuple);
    Py_DECREF(list);
    return rec_commit(r, f, npop, result, NULL);
}

/* f(*iterator): what it gave takes its place, as CPython does it, and the instruction begins anew: its call may be left in the
 * middle, since nothing is taken twice. false: nothing was changed. */
static bool replace_taken(DynRec *r, RecFrame *f, uint32_t from_top, PyObject *list, DynVal *v) {
    DynVal *items = v == NULL ? NULL : dyn_rec_seq(r, DV_TUPLE, v->n, v->items, NULL);
    PyObject *tuple = items == NULL || rec_snapshot_new_nodes(r) < 0 ? NULL : PyList_AsTuple(list);
    if (tuple == NULL) {
        PyErr_Clear();
        return false;
    }
    Py_SETREF(*real_top(f, from_top), tuple);
    *shadow_top(f, from_top) = items;
    f->next = f->pc;
    return true;
}

Step rec_CALL_FUNCTION_EX(DynRec *r, RecFrame *f, const DynInstr *in) {
    uint32_t from_top = in->arg & 1 ? 2 : 1;
    DynOperand args = operand(f, from_top);
    bool known = dyn_rec_resolve(r, args.v, args.real) == 0;
    if (known && rec_is_iterator(args.v)) {
        PyObject *list = rec_take_all(r, args, &args.v);
        if (list == NULL) {
            return STEP_ERROR;
        }
        if (!replace_taken(r, f, from_top, list, args.v)) { /* its items are gone */
            return spread_taken(r, f, in, list);
        }
        Py_DECREF(list);
        return STEP_NEXT;
    }
    if (!known || args.v->kind != DV_ARRAY) {
        return spread_call(r, f, in, args);
    }
    PyObject *list = list_of_rows(r, &args);
    Step s = list == NULL ? step_bail(r, DYN_R_UNSUPPORTED_VALUE, "call with * of an array") : spread_call(r, f, in, args);
    Py_XDECREF(list);
    return s;
}
