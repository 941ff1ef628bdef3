/* bind.c: arguments bound to a function's local slots by CPython's own rules, without making a frame.
 *
 * Called by the door before guards are checked, and with bound slots by whoever calls something that has the function's
 * signature. Owns nothing; what a DynBound holds is dropped by dyn_bind_free. Where arguments don't fit nothing is raised: the
 * door calls the function itself, which then says what is wrong. */
#include "evalframe/door.h"

void dyn_bind_signature(PyCodeObject *code, DynSignature *out) {
    out->npos = (uint32_t)code->co_argcount;
    out->nposonly = (uint32_t)code->co_posonlyargcount;
    out->nkwonly = (uint32_t)code->co_kwonlyargcount;
    out->varargs = (code->co_flags & CO_VARARGS) != 0;
    out->varkw = (code->co_flags & CO_VARKEYWORDS) != 0;
    out->nargs = out->npos + out->nkwonly + out->varargs + out->varkw;
    out->nslots = (uint32_t)code->co_nlocals;
    out->simple = out->nargs == out->npos;
}

void dyn_bind_free(DynBound *b) {
    if (b->own == NULL) {
        return;
    }
    for (uint32_t i = 0; i < b->n; i++) {
        Py_XDECREF(b->own[i]);
    }
    if (b->own != b->small) {
        PyMem_Free(b->own);
    }
    b->own = NULL;
}

/* The slot of a parameter that may be given by name, or -1; *odd: a name that only running Python code could compare. */
static int find_parameter(const DynSignature *s, PyCodeObject *code, PyObject *name, bool *odd) {
    uint32_t end = s->npos + s->nkwonly;
    for (uint32_t i = s->nposonly; i < end; i++) {
        if (dyn_code_local_name(code, (int)i) == name) {
            return (int)i;
        }
    }
    if (!PyUnicode_CheckExact(name)) {
        *odd = true;
        return -1;
    }
    for (uint32_t i = s->nposonly; i < end; i++) {
        if (PyUnicode_Compare(dyn_code_local_name(code, (int)i), name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static int bind_keywords(const DynSignature *s, PyCodeObject *code, PyObject *const *values, PyObject *kwnames, PyObject **slots,
                         PyObject *varkw) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        bool odd = false;
        int slot = find_parameter(s, code, name, &odd);
        if (odd) {
            return -1;
        }
        if (slot >= 0) {
            if (slots[slot] != NULL) {
                return -1;
            }
            slots[slot] = Py_NewRef(values[i]);
        } else if (varkw == NULL || PyDict_SetItem(varkw, name, values[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

static int bind_defaults(const DynSignature *s, PyFunctionObject *f, PyCodeObject *code, PyObject **slots) {
    Py_ssize_t ndefaults = f->func_defaults == NULL ? 0 : PyTuple_GET_SIZE(f->func_defaults);
    for (uint32_t i = 0; i < s->npos; i++) {
        Py_ssize_t k = (Py_ssize_t)i - ((Py_ssize_t)s->npos - ndefaults);
        if (slots[i] == NULL) {
            if (k < 0) {
                return -1;
            }
            slots[i] = Py_NewRef(PyTuple_GET_ITEM(f->func_defaults, k));
        }
    }
    for (uint32_t i = s->npos; i < s->npos + s->nkwonly; i++) {
        if (slots[i] == NULL) {
            PyObject *dflt = f->func_kwdefaults == NULL
                                 ? NULL
                                 : PyDict_GetItemWithError(f->func_kwdefaults, dyn_code_local_name(code, (int)i));
            if (dflt == NULL) {
                return -1;
            }
            slots[i] = Py_NewRef(dflt);
        }
    }
    return 0;
}

static int bind_all(const DynSignature *s, PyObject *func, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                    PyObject **slots) {
    PyFunctionObject *f = (PyFunctionObject *)func;
    PyCodeObject *code = (PyCodeObject *)f->func_code;
    Py_ssize_t npos = nargs < (Py_ssize_t)s->npos ? nargs : (Py_ssize_t)s->npos;
    PyObject *varkw = NULL;
    if (nargs > npos && !s->varargs) {
        return -1;
    }
    if (s->varkw) {
        varkw = slots[s->nargs - 1] = PyDict_New();
        if (varkw == NULL) {
            return -1;
        }
    }
    for (Py_ssize_t i = 0; i < npos; i++) {
        slots[i] = Py_NewRef(args[i]);
    }
    if (s->varargs) {
        PyObject *rest = PyTuple_New(nargs - npos);
        if (rest == NULL) {
            return -1;
        }
        for (Py_ssize_t i = npos; i < nargs; i++) {
            PyTuple_SET_ITEM(rest, i - npos, Py_NewRef(args[i]));
        }
        slots[s->npos + s->nkwonly] = rest;
    }
    if (kwnames != NULL && bind_keywords(s, code, args + nargs, kwnames, slots, varkw) < 0) {
        return -1;
    }
    return bind_defaults(s, f, code, slots);
}

int dyn_bind(const DynSignature *s, PyObject *func, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, DynBound *b) {
    b->own = NULL;
    b->n = s->nslots;
    if (DYN_LIKELY(s->simple && kwnames == NULL && nargs == (Py_ssize_t)s->npos)) {
        if (s->nslots == s->npos) {
            b->slots = args;
            return 0;
        }
        if (s->nslots <= DYN_SMALL_SLOTS) {
            memcpy(b->small, args, (size_t)nargs * sizeof *args);
            memset(b->small + nargs, 0, (s->nslots - (size_t)nargs) * sizeof *args);
            b->slots = b->small;
            return 0;
        }
    }
    PyObject **slots = b->small;
    if (s->nslots > DYN_SMALL_SLOTS) {
        slots = PyMem_Calloc(s->nslots, sizeof *slots);
        if (slots == NULL) {
            return -1;
        }
    } else {
        memset(slots, 0, s->nslots * sizeof *slots);
    }
    b->own = slots;
    b->slots = slots;
    if (bind_all(s, func, args, nargs, kwnames, slots) < 0) {
        PyErr_Clear();
        dyn_bind_free(b);
        return -1;
    }
    return 0;
}

/* The keyword arguments of a bound call as a new dict; NULL with an exception. */
static PyObject *keywords_of(const DynSignature *s, PyCodeObject *code, PyObject *const *slots, bool others) {
    PyObject *kw = s->varkw && others ? PyDict_Copy(slots[s->nargs - 1]) : PyDict_New();
    for (uint32_t i = s->npos; kw != NULL && i < s->npos + s->nkwonly; i++) {
        if (PyDict_SetItem(kw, dyn_code_local_name(code, (int)i), slots[i]) < 0) {
            Py_CLEAR(kw);
        }
    }
    return kw;
}

PyObject *dyn_bind_call(const DynSignature *s, PyCodeObject *code, PyObject *callable, PyObject *const *slots, bool others) {
    if (s->simple) {
        return PyObject_Vectorcall(callable, slots, s->npos, NULL);
    }
    PyObject *rest = s->varargs ? slots[s->npos + s->nkwonly] : NULL;
    Py_ssize_t nrest = rest == NULL ? 0 : PyTuple_GET_SIZE(rest), npos = (Py_ssize_t)s->npos;
    PyObject **args = PyMem_New(PyObject *, (size_t)(npos + nrest) + 1);
    PyObject *kw = keywords_of(s, code, slots, others), *result = NULL;
    if (args == NULL) {
        PyErr_NoMemory();
    } else if (kw != NULL) {
        memcpy(args, slots, (size_t)npos * sizeof *args);
        for (Py_ssize_t i = 0; i < nrest; i++) {
            args[npos + i] = PyTuple_GET_ITEM(rest, i);
        }
        result = PyObject_VectorcallDict(callable, args, (size_t)(npos + nrest), kw);
    }
    Py_XDECREF(kw);
    PyMem_Free(args);
    return result;
}
