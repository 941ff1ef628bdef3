/* rec_match.c: handlers of the match statement. Which pattern fits follows from types, lengths and keys, which are guarded.
 *
 * Called from record.c's table. */
#include "tracer/record/rec_segment.h"

/* A subject of which something is known, and whose class stays what it is. */
static bool is_known_subject(DynRec *r, DynOperand o) {
    if (dyn_rec_resolve(r, o.v, o.real) < 0 || o.v->kind == DV_OPAQUE) {
        return false;
    }
    return !rec_is_instance(o) || rec_guard_class(r, Py_TYPE(o.real), NULL) == 0;
}

/* A fact about the type of the subject, which stays on the stack. */
static Step push_fact(DynRec *r, RecFrame *f, unsigned long flag) {
    DynOperand o = operand(f, 1);
    bool known = is_known_subject(r, o);
    PyObject *result = Py_TYPE(o.real)->tp_flags & flag ? Py_True : Py_False;
    DynVal *v = known ? dyn_rec_const(r, result) : NULL;
    if (v == NULL) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "match");
    }
    push_real(f, Py_NewRef(result));
    push_shadow(f, v);
    return STEP_NEXT;
}

Step rec_MATCH_SEQUENCE(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    return push_fact(r, f, Py_TPFLAGS_SEQUENCE);
}
Step rec_MATCH_MAPPING(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    return push_fact(r, f, Py_TPFLAGS_MAPPING);
}

static bool has_known_length(DynOperand o) {
    bool constant = o.v->kind == DV_CONST && PyTuple_CheckExact(o.real);
    return constant || o.v->kind == DV_TUPLE || o.v->kind == DV_LIST || o.v->kind == DV_DICT;
}

Step rec_GET_LEN(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynOperand o = operand(f, 1);
    bool known = dyn_rec_resolve(r, o.v, o.real) == 0 && has_known_length(o);
    PyObject *n = known ? PyLong_FromSsize_t(PyObject_Size(o.real)) : NULL;
    DynVal *v = n ? dyn_rec_const(r, n) : NULL;
    if (v == NULL) {
        Py_XDECREF(n);
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "match");
    }
    push_real(f, n);
    push_shadow(f, v);
    return STEP_NEXT;
}

/* The values of these keys, or None where one is missing. */
Step rec_MATCH_KEYS(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynOperand o = operand(f, 2), keys = operand(f, 1);
    Py_ssize_t n = PyTuple_CheckExact(keys.real) ? PyTuple_GET_SIZE(keys.real) : -1;
    DynVal **items = n < 0 ? NULL : DYN_NEW_N(&r->arena, DynVal *, n + 1);
    bool dict = dyn_rec_resolve(r, o.v, o.real) == 0 && o.v->kind == DV_DICT && PyDict_CheckExact(o.real);
    bool known = dict && items != NULL && dyn_rec_burn(r, keys.v, keys.real) == 0;
    PyObject *values = known ? PyTuple_New(n) : NULL;
    for (Py_ssize_t i = 0; values != NULL && values != Py_None && i < n; i++) {
        PyObject *key = PyTuple_GET_ITEM(keys.real, i), *value = rec_plain_key(key) ? PyDict_GetItemWithError(o.real, key) : NULL;
        for (Py_ssize_t k = 0; k < i; k++) { /* twice the same is an error, which CPython makes */
            known = known && PyObject_RichCompareBool(key, PyTuple_GET_ITEM(keys.real, k), Py_EQ) == 0;
        }
        items[i] = value ? rec_dict_find(o.v, key, NULL) : NULL;
        if (value == NULL) {
            known = known && rec_plain_key(key) && !PyErr_Occurred();
            Py_SETREF(values, Py_NewRef(Py_None));
        } else {
            PyTuple_SET_ITEM(values, i, Py_NewRef(value));
            known = known && items[i] != NULL;
        }
    }
    DynVal *v = NULL;
    if (values != NULL && known) {
        v = values == Py_None ? dyn_rec_const(r, values) : dyn_rec_seq(r, DV_TUPLE, (uint32_t)n, items, values);
    }
    if (v == NULL) {
        PyErr_Clear();
        Py_XDECREF(values);
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "match");
    }
    push_real(f, values);
    push_shadow(f, v);
    return STEP_NEXT;
}

/* ---- class patterns */

/* The value that C(pattern) takes of an int, str … itself, or the attribute that a pattern names. -1: unknown, nothing ran. */
static int take(DynRec *r, DynOperand o, PyObject *name, PyObject **real, DynVal **v) {
    RecCall c = {0};
    RecAttr how = rec_attr_of(r, o, name, &c, v);
    if (how != REC_ATTR_VALUE && how != REC_ATTR_SOURCE) { /* properties run code: left to CPython before they do */
        return -1;
    }
    *real = PyObject_GetAttr(o.real, name);
    *v = *real != NULL && how == REC_ATTR_SOURCE ? rec_attr(r, o, name, *real) : *v;
    PyErr_Clear();
    return *real == NULL || *v == NULL ? -1 : 0;
}

/* The name of positional pattern i: the class's __match_args__. Borrowed. */
static PyObject *positional(DynRec *r, PyTypeObject *type, Py_ssize_t i) {
    PyObject *names = rec_guard_class(r, type, NULL) == 0 ? dyn_cpy_lookup_named(type, "__match_args__") : NULL;
    bool there = names != NULL && PyTuple_CheckExact(names) && i < PyTuple_GET_SIZE(names);
    return there && PyUnicode_CheckExact(PyTuple_GET_ITEM(names, i)) ? PyTuple_GET_ITEM(names, i) : NULL;
}

/* An attribute that is asked for twice is an error, which CPython makes. */
static bool is_twice(DynRec *r, PyTypeObject *type, PyObject *names, Py_ssize_t npos, Py_ssize_t at) {
    Py_ssize_t nkw = PyTuple_GET_SIZE(names);
    for (Py_ssize_t i = at + 1; i < npos + nkw; i++) {
        PyObject *a = at < npos ? positional(r, type, at) : PyTuple_GET_ITEM(names, at - npos);
        PyObject *b = i < npos ? positional(r, type, i) : PyTuple_GET_ITEM(names, i - npos);
        if (a == NULL || b == NULL || PyUnicode_Compare(a, b) == 0) {
            return true;
        }
    }
    return false;
}

#define MATCHES_SELF (1UL << 22) /* int, str, list …: C(x) takes the value itself */

/* Fills the tuple of what the patterns take. -1: unknown. */
static int take_all(DynRec *r, DynOperand o, PyTypeObject *type, PyObject *names, Py_ssize_t npos, PyObject *tuple,
                    DynVal **items) {
    Py_ssize_t nkw = PyTuple_GET_SIZE(names);
    for (Py_ssize_t i = 0; i < npos + nkw; i++) {
        PyObject *real = NULL, *name;
        if (i == 0 && npos == 1 && (type->tp_flags & MATCHES_SELF)) {
            real = Py_NewRef(o.real);
            items[i] = o.v;
        } else {
            name = i < npos ? positional(r, type, i) : PyTuple_GET_ITEM(names, i - npos);
            if (name == NULL || is_twice(r, type, names, npos, i) || take(r, o, name, &real, &items[i]) < 0) {
                Py_XDECREF(real);
                return -1;
            }
        }
        PyTuple_SET_ITEM(tuple, i, real);
    }
    return 0;
}

Step rec_MATCH_CLASS(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand names = operand(f, 1), type = operand(f, 2), o = operand(f, 3);
    bool plain = dyn_rec_resolve(r, type.v, type.real) == 0 && type.v->kind == DV_CONST && Py_IS_TYPE(type.real, &PyType_Type);
    if (!plain || !PyTuple_CheckExact(names.real) || !is_known_subject(r, o)) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "match");
    }
    Py_ssize_t n = (Py_ssize_t)in->arg + PyTuple_GET_SIZE(names.real);
    if (!PyType_IsSubtype(Py_TYPE(o.real), (PyTypeObject *)type.real)) {
        return rec_commit(r, f, 3, Py_NewRef(Py_None), dyn_rec_const(r, Py_None));
    }
    PyObject *tuple = PyTuple_New(n);
    DynVal **items = DYN_NEW_N(&r->arena, DynVal *, n + 1);
    if (tuple == NULL || items == NULL || take_all(r, o, (PyTypeObject *)type.real, names.real, in->arg, tuple, items) < 0) {
        PyErr_Clear();
        Py_XDECREF(tuple);
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "match");
    }
    return rec_commit(r, f, 3, tuple, dyn_rec_seq(r, DV_TUPLE, (uint32_t)n, items, tuple));
}
