/* rec_bind.c: the arguments of a call become the shadows of the callee's slots, by Python's binding rules. What is a default is
 * found at the function, and guarded.
 *
 * Called by rec_call.c before it makes a call that is recorded into. */
#include "tracer/record/rec_state.h"

/* What a guard can compare by value: numbers, str, None, tuples of these. */
static bool plain_value(PyObject *o) {
    if (PyTuple_CheckExact(o)) {
        bool plain = PyTuple_GET_SIZE(o) <= 16;
        for (Py_ssize_t i = 0; plain && i < PyTuple_GET_SIZE(o); i++) {
            plain = plain_value(PyTuple_GET_ITEM(o, i));
        }
        return plain;
    }
    return o == Py_None || rec_is_exact_number(o) || PyUnicode_CheckExact(o);
}

static DynVal *default_value(DynRec *r, DynVal *func, uint32_t func_source, PyObject *real, Py_ssize_t i, PyObject *kwname) {
    if (func->kind == DV_FUNC) {
        DynVal *from = kwname ? func->function.kwdefaults : func->function.defaults;
        if (from == NULL || kwname != NULL) {
            return from == NULL ? NULL : rec_dict_find(from, kwname, NULL);
        }
        return i < (Py_ssize_t)from->n ? from->items[i] : NULL;
    }
    PyObject *value = kwname ? PyDict_GetItemWithError(PyFunction_GET_KW_DEFAULTS(real), kwname)
                             : PyTuple_GET_ITEM(PyFunction_GET_DEFAULTS(real), i);
    uint32_t s = kwname ? dyn_source_intern(&r->cap->sources, DYN_SRC_FKWDEFAULT, func_source, 0, NULL, kwname)
                        : dyn_source_intern(&r->cap->sources, DYN_SRC_FDEFAULT, func_source, (uint32_t)i, NULL, NULL);
    if (s == DYN_NONE || (!kwname && rec_guard(r, DYN_GUARD_DEFAULTS, func_source, DYN_NONE,
                                               PyTuple_GET_SIZE(PyFunction_GET_DEFAULTS(real)), NULL) < 0)) {
        return NULL;
    }
    if (func->kind == DV_PYFUNC || !plain_value(value)) {
        return rec_source(r, s);
    }
    /* the function itself is the entry's own: so are its defaults */
    return rec_guard(r, DYN_GUARD_EQ, s, DYN_NONE, 0, value) < 0 ? NULL : dyn_rec_const(r, value);
}

static int bind_keywords(DynRec *r, PyCodeObject *code, const RecCall *c, DynVal **slots, DynVal *extra) {
    int named = code->co_argcount + code->co_kwonlyargcount;
    for (uint32_t k = 0; k < c->nkw; k++) {
        PyObject *name = PyTuple_GET_ITEM(c->kwnames, k);
        int slot = code->co_posonlyargcount;
        while (slot < named && PyUnicode_Compare(dyn_code_local_name(code, slot), name) != 0) {
            slot++;
        }
        DynVal *v = c->args[c->npos + k].v;
        if (slot < named) {
            if (slots[slot] != NULL) {
                return -1;
            }
            slots[slot] = v;
        } else {
            DynVal *key = extra ? rec_object(r, name) : NULL;
            if (key == NULL || rec_push_item(r, extra, key) < 0 || rec_push_item(r, extra, v) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

int rec_bind_slots(DynRec *r, PyObject *func, DynVal *fv, uint32_t func_source, const RecCall *c, DynVal **slots) {
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(func);
    int nargs = code->co_argcount, nkwonly = code->co_kwonlyargcount, next = nargs + nkwonly;
    PyObject *defaults = PyFunction_GET_DEFAULTS(func), *kwdefaults = PyFunction_GET_KW_DEFAULTS(func);
    uint32_t given = c->npos < (uint32_t)nargs ? c->npos : (uint32_t)nargs;
    DynVal *extra = NULL;
    for (uint32_t i = 0; i < given; i++) {
        slots[i] = c->args[i].v;
    }
    if (code->co_flags & CO_VARARGS) {
        DynVal **rest = DYN_NEW_N(&r->arena, DynVal *, c->npos + 1);
        for (uint32_t i = given; rest != NULL && i < c->npos; i++) {
            rest[i - given] = c->args[i].v;
        }
        if (rest == NULL || (slots[next++] = dyn_rec_seq(r, DV_TUPLE, c->npos - given, rest, NULL)) == NULL) {
            return -1;
        }
    } else if (c->npos > given) {
        return -1;
    }
    if (code->co_flags & CO_VARKEYWORDS && (slots[next] = extra = dyn_rec_seq(r, DV_DICT, 0, NULL, NULL)) == NULL) {
        return -1;
    }
    if (bind_keywords(r, code, c, slots, extra) < 0) {
        return -1;
    }
    Py_ssize_t ndefaults = defaults ? PyTuple_GET_SIZE(defaults) : 0;
    for (int i = 0; i < nargs + nkwonly; i++) {
        if (slots[i] == NULL) {
            Py_ssize_t d = i - (nargs - ndefaults);
            PyObject *name = i < nargs ? NULL : dyn_code_local_name(code, i);
            bool there =
                name ? kwdefaults != NULL && PyDict_GetItemWithError(kwdefaults, name) != NULL : d >= 0 && defaults != NULL;
            if (!there || (slots[i] = default_value(r, fv, func_source, func, d, name)) == NULL) {
                PyErr_Clear();
                return -1;
            }
        }
    }
    return 0;
}
