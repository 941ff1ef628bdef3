/* rec_foreign.c: calls of functions of other languages, reached through ctypes, cffi or SciPy, as nodes; and what makes their
 * arguments: x.ctypes, its data and data_as(), and ctypes' own numbers.
 *
 * Such a node calls the function's own object, so conversions, errno, errcheck, the GIL and exceptions are as that has them. Any
 * code may run in it, which was given addresses by earlier calls or by the caller: the call is made once, in its place among
 * effects, and counts as reading and writing all memory that came in, that it is given, or whose address was asked for
 * (dyn_graph_opens). Behind it the guards are asked again; where anything has changed, CPython goes on with what it gave. A call
 * that runs Python code of the program's while it is recorded is a break. Called by rec_call.c and rec_numpy_attr.c; owns
 * nothing. */
#include "ir/region_foreign.h"
#include "tracer/numpy/rec_np.h"
#include "tracer/record/rec_callables.h"

/* ---- addresses */

bool dyn_np_is_pointer_method(PyObject *method) { return method == dyn_foreign_pointer_method(); }

static PyObject *address(PyObject *module, PyObject *array) {
    (void)module;
    return PyLong_FromVoidPtr(PyArray_DATA((PyArrayObject *)array));
}

/* The call that was recorded last tells somebody where its operand's memory is. */
static DynVal *shows(DynRec *r, DynVal *v) {
    DynGraph *g = dyn_rec_graph(r);
    if (v != NULL) {
        g->externs.at[g->externs.n - 1].shows = true;
    }
    return v;
}

DynVal *dyn_np_address(DynRec *r, DynOperand of, PyObject *name, PyObject *result) {
    static PyMethodDef method = {"ctypes.data", address, METH_O, NULL};
    static PyObject *function;
    bool data =
        (PyObject *)Py_TYPE(of.real) == dyn_foreign_pointer_class() && PyUnicode_CompareWithASCIIString(name, "data") == 0;
    if (data && function == NULL && (function = PyCFunction_New(&method, NULL)) == NULL) {
        PyErr_Clear();
    }
    if (!data || function == NULL) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    PyObject *array = PyObject_GetAttrString(of.real, "_arr");
    Py_XDECREF(array); /* x.ctypes has it */
    PyErr_Clear();
    DynOperand args[1] = {{of.v->attribute.of, array}};
    return array == NULL ? NULL : shows(r, dyn_np_extern(r, function, "ctypes.data", args, 1, NULL, result));
}

/* Does memory that the node lies in belong to one of these, or has it come in? */
static bool is_open_anyway(DynRec *r, const DynArg *args, uint32_t n, uint32_t node) {
    uint32_t storage = dyn_np_node_at(r, node)->storage;
    bool open = dyn_ops[dyn_np_node_at(r, storage)->op].kind == DYN_K_INPUT;
    for (uint32_t i = 0; i < n && !open; i++) {
        open = args[i].kind == DYN_ARG_NODE && dyn_np_node_at(r, args[i].id)->storage == storage;
    }
    return open;
}

int dyn_np_add_shown(DynRec *r, DynArg *args, uint32_t *n, uint32_t room) {
    const DynGraph *g = dyn_rec_graph(r);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *call = dyn_graph_node(g, i);
        const DynExtern *x = dyn_graph_extern(g, call);
        for (uint32_t k = 0; x != NULL && (x->shows || x->opens) && k < call->nargs; k++) {
            bool shown = call->args[k].kind == DYN_ARG_NODE && !is_open_anyway(r, args, *n, call->args[k].id);
            if (shown && *n == room) {
                return -1;
            }
            if (shown) {
                args[(*n)++] = call->args[k];
            }
        }
    }
    return 0;
}

/* ---- calls */

/* Does the function run with the GIL, as those of Python's own interface do, which change objects without a frame's running? */
static bool holds_gil(PyObject *f) {
    enum { PYTHONAPI = 4 }; /* FUNCFLAG_PYTHONAPI of ctypes */
    PyObject *flags = dyn_cpy_lookup_named(Py_TYPE(f), "_flags_");
    return flags != NULL && PyLong_CheckExact(flags) && (PyLong_AsLong(flags) & PYTHONAPI) != 0;
}

/* What keeps a call from being a node, in words; NULL: nothing. */
static const char *obstacle(DynRec *r, const RecCall *c) {
    if (r->derives) {
        return "a foreign function, in what a gradient is taken of";
    }
    if (holds_gil(c->callable.real)) {
        return "a foreign function that may change Python's objects";
    }
    if (r->effects.n > 0) {
        return "a foreign function behind changes that others see";
    }
    return !c->direct || r->seal.frame != NULL ? "a foreign function that isn't called by the program itself" : NULL;
}

/* Is it a number, None or a new object? Others may be, or share memory with, what is known already. */
static bool may_give(const RecCall *c, PyObject *result) {
    bool number = PyLong_CheckExact(result) || PyFloat_CheckExact(result) || PyBool_Check(result);
    return number || result == Py_None || dyn_foreign_gives_new(c->callable.real, result);
}

/* A number of ctypes' own, made of a number: nobody else has it. */
static DynVal *make_number(DynRec *r, const RecCall *c, PyObject **result) {
    bool known = rec_guard_id(r, c->callable.v, c->callable.real) == 0 && rec_resolve_args(r, c) == 0;
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    const char *name = rec_callable_name(r, c->callable.real);
    DynVal *v =
        known ? dyn_np_extern_made(r, c->callable.real, name, c->args, (int)c->npos, c->nkw ? c->kwnames : NULL, *result) : NULL;
    PyErr_Clear();
    return v != NULL ? v : rec_fail(r, DYN_R_OPAQUE_CALL, name);
}

static DynVal *make_pointer(DynRec *r, const RecCall *c, PyObject **result) {
    bool known = c->npos > 0 && rec_resolve_args(r, c) == 0 && c->args[0].v->kind == DV_ATTR;
    *result = rec_call_real(c);
    if (*result == NULL || !known) {
        return *result == NULL ? NULL : rec_fail(r, DYN_R_OPAQUE_CALL, "data_as");
    }
    DynVal *v =
        dyn_np_extern_made(r, c->callable.real, "ctypes.data_as", c->args, (int)c->npos, c->nkw ? c->kwnames : NULL, *result);
    PyErr_Clear();
    return v != NULL ? shows(r, v) : rec_fail(r, DYN_R_OPAQUE_CALL, "data_as");
}

bool rec_is_foreign(const DynExtern *x) {
    return x->opens || x->shows || (PyType_Check(x->callable) && dyn_foreign_is_number_type(x->callable));
}

DynVal *rec_call_foreign(DynRec *r, const RecCall *c, PyObject **result) {
    PyObject *f = c->callable.real;
    if (PyType_Check(f)) {
        return dyn_foreign_is_number_type(f) ? make_number(r, c, result) : REC_DECLINED;
    }
    if (PyFunction_Check(f)) {
        return dyn_np_is_pointer_method(f) ? make_pointer(r, c, result) : REC_DECLINED;
    }
    if (Py_IS_TYPE(f, &PyMethodDescr_Type) || Py_IS_TYPE(f, &PyUFunc_Type) || !dyn_foreign_is(f)) {
        return REC_DECLINED;
    }
    const char *name = rec_callable_name(r, f), *why = obstacle(r, c);
    bool known = why == NULL && rec_guard_id(r, c->callable.v, f) == 0 && rec_resolve_args(r, c) == 0;
    if (known && dyn_rec_graph(r)->nodes.n == 0 && r->done.n == 0 && !r->req->fullgraph) { /* nothing to be a part of, as yet */
        why = "a foreign function that is given no array, in front of all array work";
    }
    uint32_t before = r->nstrangers;
    r->foreign++;
    *result = rec_call_real(c);
    r->foreign--;
    if (r->nstrangers != before) { /* what the recording knows may be so no more: CPython makes the call each time */
        why = "a foreign function that calls Python code";
    }
    if (*result == NULL || why != NULL || !known || !may_give(c, *result)) {
        return *result == NULL ? NULL : rec_fail(r, DYN_R_OPAQUE_CALL, why != NULL ? why : name);
    }
    DynVal *v = dyn_np_extern_open(r, f, name, c->args, (int)c->npos, c->nkw ? c->kwnames : NULL, *result);
    PyErr_Clear();
    return v != NULL ? v : rec_fail(r, DYN_R_OPAQUE_CALL, name);
}
