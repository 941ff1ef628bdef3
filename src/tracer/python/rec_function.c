/* rec_function.c: what Python functions are as objects: their attributes, and functools.update_wrapper (which wraps() comes to).
 *
 * A function made inside that was made to look like another (DynVal.function.wrapped: that other) is made so again where it is
 * still wanted. Called by rec_call.c, rec_attr.c and rec_recipe.c. */
#include "tracer/record/rec_callables.h"

static PyObject *update_wrapper, *assignments, *updates;

DynVal *rec_function_attr(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    static const char *const of_code[] = {"__name__", "__qualname__", "__doc__"};
    PyObject *there = NULL;
    for (size_t i = 0; o.v->kind == DV_FUNC && o.v->function.wrapped == NULL && i < DYN_COUNTOF(of_code); i++) {
        if (PyUnicode_CompareWithASCIIString(name, of_code[i]) == 0) {
            return rec_wrap_result(r, result);
        }
    }
    if (o.v->kind == DV_FUNC && o.v->function.wrapped != NULL && PyUnicode_CompareWithASCIIString(name, "__wrapped__") == 0) {
        return o.v->function.wrapped;
    }
    if (PyUnicode_CompareWithASCIIString(name, "__code__") == 0) {
        bool known = o.v->kind == DV_FUNC || rec_function_source(r, o.v, o.real) != DYN_NONE;
        return known ? dyn_rec_const(r, result) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "__code__");
    }
    bool plain = o.v->kind != DV_FUNC && dyn_source_attr(o.real, name, &there) == DYN_READ_FOUND && there == result;
    Py_XDECREF(there);
    if (!plain) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "attribute of a function");
    }
    DynSources *t = &r->cap->sources;
    uint32_t s = o.v->source != DYN_NONE ? o.v->source : dyn_source_intern(t, DYN_SRC_CONST, DYN_NONE, 0, o.real, NULL);
    s = s == DYN_NONE ? s : dyn_source_intern(t, DYN_SRC_ATTR, s, 0, NULL, name);
    return s == DYN_NONE ? NULL : rec_source(r, s);
}

/* The value of a parameter: by position, by name, or what it is by default. */
static PyObject *given(const RecCall *c, uint32_t at, const char *name, PyObject *otherwise) {
    for (uint32_t k = 0; k < c->nkw; k++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, k), name) == 0) {
            return c->args[c->npos + k].real;
        }
    }
    return at < c->npos ? c->args[at].real : otherwise;
}

/* update_wrapper(f, g) of a function that was made here, and one that reading attributes of runs no code. */
DynVal *rec_on_update_wrapper(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    DynOperand wrapper = c->npos > 0 ? c->args[0] : (DynOperand){0}, wrapped = c->npos > 1 ? c->args[1] : (DynOperand){0};
    bool made_here = wrapper.v != NULL && wrapper.v->kind == DV_FUNC && wrapper.v->function.globals != NULL;
    if (!made_here || wrapper.v->function.wrapped != NULL) {
        return REC_DECLINED;
    }
    if (given(c, 2, "assigned", assignments) != assignments || given(c, 3, "updated", updates) != updates) {
        return REC_DECLINED;
    }
    for (uint32_t k = 0; k < c->nkw && wrapped.v == NULL; k++) {
        bool named = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, k), "wrapped") == 0;
        wrapped = named ? c->args[c->npos + k] : wrapped;
    }
    if (wrapped.v == NULL || !PyFunction_Check(wrapped.real) || wrapped.real == wrapper.real) {
        return REC_DECLINED;
    }
    if (dyn_rec_resolve(r, wrapped.v, wrapped.real) < 0 || wrapped.v->kind == DV_OPAQUE) {
        return REC_DECLINED;
    }
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    wrapper.v->function.wrapped = wrapped.v;
    rec_changed(r, wrapper.v);
    return wrapper.v;
}

uint32_t rec_wrapper_recipe(DynRec *r, uint32_t function, DynVal *wrapped) {
    uint32_t *items = DYN_NEW_N(&r->cap->arena, uint32_t, 2);
    if (items == NULL || function == DYN_NONE || (items[1] = rec_recipe(r, wrapped)) == DYN_NONE) {
        return DYN_NONE;
    }
    items[0] = function;
    return dyn_capture_recipe(r->cap, DYN_RC_CALL, 0, update_wrapper, 2, items);
}

int rec_function_init(void) {
    PyObject *module = dyn_import("functools");
    update_wrapper = module ? PyObject_GetAttrString(module, "update_wrapper") : NULL;
    assignments = module ? PyObject_GetAttrString(module, "WRAPPER_ASSIGNMENTS") : NULL;
    updates = module ? PyObject_GetAttrString(module, "WRAPPER_UPDATES") : NULL;
    Py_XDECREF(module);
    return update_wrapper && assignments && updates ? 0 : -1;
}
