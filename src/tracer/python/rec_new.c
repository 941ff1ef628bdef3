/* rec_new.c: making instances of user's classes, step by step: __new__, then __init__ of what it gave; exceptions too. An
 * instance that is made while recording is a shadow with its attributes (rec_object.c). Called by the call handlers. */
#include "tracer/python/rec_object.h"
#include "tracer/record/rec_callables.h"

static DynVal *fresh_object(DynRec *r, PyObject *o) {
    DynVal *v = dyn_rec_seq(r, DV_OBJECT, 0, NULL, o);
    if (v != NULL) {
        v->type = (PyObject *)Py_TYPE(o);
    }
    PyTypeObject *dict = rec_dict_base(Py_TYPE(o));
    if (v == NULL || rec_keep(r, v->type) < 0) {
        return NULL;
    }
    if ((dict != NULL ? rec_guard_whole_class(r, Py_TYPE(o)) : rec_guard_class(r, Py_TYPE(o), NULL)) < 0) {
        return NULL;
    }
    return dict != NULL && rec_dict_made(r, v, dict) < 0 ? NULL : v;
}

/* Attributes are looked up as object does it, or by a Python function. */
static bool known_getattr(PyTypeObject *type) {
    PyObject *f = dyn_cpy_lookup_named(type, "__getattribute__");
    return rec_plain_getattr(type) || (f != NULL && PyFunction_Check(f));
}

/* Instances of such a class are what object.__new__ gives, and nobody sees them die. */
static bool makes_plain_instances(PyTypeObject *type) {
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || !PyType_HasFeature(type, Py_TPFLAGS_READY) || type->tp_base == NULL) {
        return false;
    }
    bool plain_memory = type->tp_itemsize == 0 && type->tp_alloc == PyType_GenericAlloc;
    if (!plain_memory || dyn_cpy_lookup_named(type, "__del__") != NULL || !known_getattr(type)) {
        return false;
    }
    bool exception = PyType_IsSubtype(type, (PyTypeObject *)PyExc_BaseException);
    return !exception && (rec_plain_layout(type) || rec_dict_base(type) != NULL);
}

/* ---- exceptions: no recipe makes them, but they can be raised, caught and read */

static bool makes_plain_exceptions(PyTypeObject *type) {
    PyTypeObject *base = (PyTypeObject *)PyExc_BaseException;
    if (!PyType_IsSubtype(type, base) || type->tp_new != base->tp_new) {
        return false;
    }
    return dyn_cpy_lookup_named(type, "__del__") == NULL && rec_plain_getattr(type);
}

/* The __init__ of such a class is one of those in C that keep the arguments, whatever else they take by name. */
static bool keeps_arguments(PyTypeObject *type) {
    return type->tp_init == ((PyTypeObject *)PyExc_AttributeError)->tp_init ||
           type->tp_init == ((PyTypeObject *)PyExc_NameError)->tp_init ||
           type->tp_init == ((PyTypeObject *)PyExc_ImportError)->tp_init;
}

int rec_set_args(DynRec *r, DynVal *v, const DynOperand *args, uint32_t n) {
    DynVal **items = DYN_NEW_N(&r->arena, DynVal *, n + 1);
    for (uint32_t i = 0; items != NULL && i < n; i++) {
        items[i] = args[i].v;
    }
    PyObject *name = PyUnicode_InternFromString("args");
    DynVal *tuple = items ? dyn_rec_seq(r, DV_TUPLE, n, items, NULL) : NULL;
    int status = name == NULL || tuple == NULL ? -1 : rec_set_own(r, v, name, tuple);
    Py_XDECREF(name);
    rec_changed(r, v);
    return status;
}

int rec_set_cause(DynRec *r, DynVal *error, DynVal *cause) {
    PyObject *name = PyUnicode_InternFromString("__cause__");
    int status = name == NULL || error->kind != DV_OBJECT || !error->fresh ? -1 : rec_set_own(r, error, name, cause);
    Py_XDECREF(name);
    return status;
}

/* No base but object and Python classes. */
bool rec_plain_layout(PyTypeObject *type) {
    PyTypeObject *base = type;
    while (base != NULL && (base->tp_flags & Py_TPFLAGS_HEAPTYPE) && !(base->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) {
        base = base->tp_base;
    }
    return base == &PyBaseObject_Type;
}

DynVal *rec_on_new_object(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    PyTypeObject *type = c->npos > 0 && PyType_Check(c->args[0].real) ? (PyTypeObject *)c->args[0].real : NULL;
    bool known = type != NULL && c->args[0].v->kind == DV_CONST && makes_plain_instances(type);
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    return known ? fresh_object(r, *result) : rec_fail(r, DYN_R_OPAQUE_CALL, "__new__");
}

/* BaseException.__new__, which keeps the arguments. */
static PyObject *new_exception(PyTypeObject *type, const RecCall *c) {
    PyObject *args = PyTuple_New(c->npos), *o;
    for (uint32_t i = 0; args != NULL && i < c->npos; i++) {
        PyTuple_SET_ITEM(args, i, Py_NewRef(c->args[i].real));
    }
    o = args ? type->tp_new(type, args, NULL) : NULL;
    Py_XDECREF(args);
    return o;
}

/* object.__new__, which takes any arguments where there is an __init__. any: there is one, or there are none to take. */
static PyObject *new_plainly(PyTypeObject *type, const RecCall *c, bool any) {
    if (!any) {
        return rec_call_real(c);
    }
    PyObject *none = PyTuple_New(0);
    PyObject *o = none != NULL ? type->tp_new(type, none, NULL) : NULL;
    Py_XDECREF(none);
    return o;
}

/* Is the __init__ of a class without one of its own the base's, and known for these arguments? */
static bool has_known_init(PyTypeObject *type, PyTypeObject *base, const RecCall *c, bool error) {
    bool same = type->tp_init == base->tp_init || (error && keeps_arguments(type));
    bool is_dict = rec_dict_base(type) != NULL;
    if (error && c->nkw > 0) {
        return false;
    }
    return same && !(is_dict && c->npos + c->nkw > 0);
}

/* type.__call__ of a Python class, step by step: __new__, then __init__ of what it gave. */
DynVal *rec_call_class(DynRec *r, const RecCall *c, PyObject **result) {
    PyTypeObject *type = (PyTypeObject *)c->callable.real;
    if (!PyType_Check(c->callable.real) || c->callable.v->kind != DV_CONST) {
        return REC_DECLINED;
    }
    bool error = makes_plain_exceptions(type), named = rec_is_named_type(type);
    bool known = error || named || makes_plain_instances(type);
    if (!known || Py_TYPE(type)->tp_call != PyType_Type.tp_call) {
        return REC_DECLINED;
    }
    if ((named ? rec_guard_whole_class(r, type) : rec_guard_class(r, type, NULL)) < 0) {
        return REC_DECLINED;
    }
    PyObject *make = dyn_cpy_lookup_named(type, "__new__"), *init = dyn_cpy_lookup_named(type, "__init__");
    bool own_new = make != NULL && Py_TYPE(make) == &PyStaticMethod_Type;
    PyObject *f = own_new ? rec_function_of(make) : NULL;
    bool own_init = init != NULL && PyFunction_Check(init), is_dict = rec_dict_base(type) != NULL;
    PyTypeObject *base = error ? (PyTypeObject *)PyExc_BaseException : rec_dict_base(type);
    base = base == NULL ? &PyBaseObject_Type : base;
    bool by_function = f != NULL && PyFunction_Check(f);
    bool known_new = own_new ? !error && by_function : !named && type->tp_new == base->tp_new;
    if (!known_new || (!own_init && !has_known_init(type, base, c, error)) || (error && own_init && r->req->raises)) {
        return REC_DECLINED;
    }
    RecCall with = *c;
    with.args = DYN_NEW_N(&r->arena, DynOperand, c->npos + c->nkw + 1);
    if (with.args == NULL) {
        return REC_DECLINED;
    }
    memcpy(with.args + 1, c->args, (c->npos + c->nkw) * sizeof *c->args);
    with.args[0] = c->callable;
    with.npos++;
    with.packed = NULL;
    RecSeal seal = rec_seal(r);
    DynVal *v;
    if (own_new) {
        with.callable = (DynOperand){dyn_rec_const(r, f), f};
        v = rec_call_function(r, &with, result);
    } else if (error) {
        *result = own_init ? new_exception(type, c) : rec_call_real(c);
        v = *result == NULL ? NULL : fresh_object(r, *result);
        v = v != NULL && rec_set_args(r, v, c->args, c->npos) == 0 ? v : NULL;
    } else {
        *result = new_plainly(type, c, own_init || is_dict || c->npos + c->nkw == 0);
        v = *result == NULL ? NULL : fresh_object(r, *result);
    }
    PyTypeObject *made = *result == NULL ? NULL : Py_TYPE(*result);
    if (made != NULL && made != type && PyType_IsSubtype(made, type)) { /* __new__ chose a class below: that one's __init__ */
        init = dyn_cpy_lookup_named(made, "__init__");
        own_init = init != NULL && made->tp_init != PyBaseObject_Type.tp_init;
    }
    if (made != NULL && own_init && PyType_IsSubtype(made, type)) {
        PyObject *nothing = NULL;
        with.callable = (DynOperand){dyn_rec_const(r, init), init};
        with.args[0] = (DynOperand){v != NULL ? v : rec_new(r, DV_OPAQUE), *result};
        DynVal *none = NULL;
        if (PyFunction_Check(init)) {
            if (c->direct && v != NULL && !error) {
                rec_asks(r->top, init, v);
            }
            none = rec_call_function(r, &with, &nothing);
        } else {
            nothing = rec_call_real(&with);
            rec_fail(r, DYN_R_OPAQUE_CALL, "__init__");
        }
        if (nothing != NULL && nothing != Py_None) {
            PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(nothing)->tp_name);
            Py_CLEAR(nothing);
        }
        if (nothing == NULL) {
            Py_CLEAR(*result);
        }
        Py_XDECREF(nothing);
        v = none == NULL ? NULL : v;
    }
    rec_unseal(r, seal);
    return v;
}
