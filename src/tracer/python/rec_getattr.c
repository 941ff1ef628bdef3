/* rec_getattr.c: getattr, hasattr and setattr as calls.
 *
 * Called through callables.def. A name that is known makes them the attribute's own load or store (rec_attr.c). Owns nothing. */
#include "base/torch.h"
#include "tracer/record/rec_callables.h"

static bool named(DynRec *r, const RecCall *c) {
    if (c->npos < 2 || c->nkw != 0) {
        return false;
    }
    return c->args[1].v->kind == DV_CONST && PyUnicode_CheckExact(c->args[1].real);
}

/* A plain class, which has its attributes from itself and its bases. */
static bool class_lacks(DynRec *r, DynOperand o, PyObject *name) {
    PyTypeObject *type = (PyTypeObject *)o.real;
    bool there = dyn_cpy_lookup_special(&PyType_Type, name) != NULL || dyn_cpy_lookup_special(type, name) != NULL;
    return !there && rec_guard_class(r, type, name) == 0;
}

/* Is there surely no attribute of this name: asked after the real call said so. */
static bool lacks(DynRec *r, const RecCall *c, RecAttr how) {
    if (how == REC_ATTR_SOURCE && dyn_torch_is(c->args[0].real)) {
        return rec_tensor_lacks(r, c->args[0], c->args[1].real);
    }
    if (c->args[0].v->kind == DV_CONST && Py_IS_TYPE(c->args[0].real, &PyType_Type)) {
        return class_lacks(r, c->args[0], c->args[1].real);
    }
    if (how == REC_ATTR_MISSING || (how == REC_ATTR_SOURCE && rec_attr_is_missing(r, c->args[0], c->args[1].real))) {
        return true;
    }
    return rec_has_fixed_attributes(c->args[0]) && dyn_cpy_lookup_special(Py_TYPE(c->args[0].real), c->args[1].real) == NULL;
}

/* A function that was asked for an attribute raised AttributeError, which is taken back. *known: it will at every call. */
static bool has_no_answer(DynRec *r, bool *known) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return false;
    }
    *known = r->cap != NULL && r->error != NULL;
    r->callee_bailed = r->callee_bailed && !*known;
    r->error = NULL;
    r->error_again = false;
    PyErr_Clear();
    return true;
}

/* The function that gives an attribute, where an AttributeError is no error. */
static DynVal *ask_forgiving(DynRec *r, const RecCall *get, PyObject **result) {
    RecFrame *f = r->top;
    f->forgives = true;
    DynVal *v = rec_call_function(r, get, result);
    f->forgives = false;
    return v;
}

DynVal *rec_on_getattr(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    DynVal *v = NULL;
    RecCall get = {0};
    RecAttr how = named(r, c) ? rec_attr_of(r, c->args[0], c->args[1].real, &get, &v) : REC_ATTR_UNKNOWN;
    if (how == REC_ATTR_CALL) {
        v = c->npos == 3 ? ask_forgiving(r, &get, result) : rec_call_function(r, &get, result);
        bool known;
        if (*result == NULL && c->npos == 3 && has_no_answer(r, &known)) {
            *result = Py_NewRef(c->args[2].real);
            return known ? c->args[2].v : rec_unknown_call(r, c);
        }
        if (*result == NULL) {
            rec_attribute_raised(c->args[0].real, c->args[1].real);
        }
        return v;
    }
    *result = rec_call_real(c);
    if (*result == NULL || how == REC_ATTR_UNKNOWN || how == REC_ATTR_CALL) {
        return *result ? rec_unknown_call(r, c) : NULL;
    }
    bool gave_default = c->npos == 3 && *result == c->args[2].real;
    if (gave_default && how != REC_ATTR_VALUE && lacks(r, c, how)) {
        return c->args[2].v;
    }
    return how == REC_ATTR_SOURCE ? rec_attr(r, c->args[0], c->args[1].real, *result) : v;
}

DynVal *rec_on_hasattr(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    DynVal *v = NULL;
    RecCall get = {0};
    RecAttr how = named(r, c) ? rec_attr_of(r, c->args[0], c->args[1].real, &get, &v) : REC_ATTR_UNKNOWN;
    if (how == REC_ATTR_CALL) {
        bool sure = true, there = (v = ask_forgiving(r, &get, result)) != NULL || *result != NULL;
        if (!there && !has_no_answer(r, &sure)) {
            return NULL;
        }
        Py_XSETREF(*result, Py_NewRef(there ? Py_True : Py_False));
        bool answered = there ? v != NULL : sure;
        return answered ? dyn_rec_const(r, *result) : rec_unknown_call(r, c);
    }
    *result = rec_call_real(c);
    if (*result == NULL || how == REC_ATTR_UNKNOWN) {
        return *result ? rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "hasattr") : NULL;
    }
    bool known = *result == Py_False ? lacks(r, c, how) : how == REC_ATTR_VALUE || rec_has_fixed_attributes(c->args[0]);
    if (!known && *result == Py_True) { /* an attribute that can be read through a source is there when it can be read again */
        PyObject *value = PyObject_GetAttr(c->args[0].real, c->args[1].real);
        v = value ? rec_attr(r, c->args[0], c->args[1].real, value) : NULL;
        known = v != NULL && (v->kind == DV_CONST || dyn_rec_resolve(r, v, value) == 0);
        PyErr_Clear();
        Py_XDECREF(value);
    }
    return known ? dyn_rec_const(r, *result) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "hasattr");
}

DynVal *rec_on_setattr(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    RecCall set = {0};
    bool known = named(r, c) && c->npos == 3;
    RecAttr how = known ? rec_way_to_store(r, c->args[0], c->args[1].real, c->args[2], &set) : REC_ATTR_UNKNOWN;
    if (how == REC_ATTR_CALL) {
        DynVal *v = rec_call_function(r, &set, result);
        if (*result != NULL) {
            Py_SETREF(*result, Py_NewRef(Py_None));
        }
        return v ? dyn_rec_const(r, Py_None) : NULL;
    }
    *result = rec_call_real(c);
    if (*result == NULL || how != REC_ATTR_VALUE || rec_stored_attr(r, c->args[0], c->args[1].real, c->args[2].v) < 0) {
        return *result ? rec_fail(r, DYN_R_SIDE_EFFECT, "setattr") : NULL;
    }
    return dyn_rec_const(r, Py_None);
}
