/* rec_named.c: named tuples, made inside and coming in: their fields, methods and properties, and what makes them anew.
 *
 * A named tuple is a DV_TUPLE whose type is the class, which adds fields, methods and the like to tuple but changes no operator
 * of it; such a class is guarded by its version tag. Called by the call and attribute handlers. */
#include "base/torch.h"
#include "tracer/record/rec_callables.h"
#include <structmember.h>

static PyObject *s_make;
static PyTypeObject *getter_type; /* of the descriptors that read fields */
static PyObject *replace_code, *make_code;

/* What such a class may have of its own: nothing that operators, builtins or NumPy ask. */
static bool changes_nothing(PyObject *name) {
    static const char names[] =
        " __new__ __doc__ __module__ __slots__ __repr__ __str__ __getnewargs__ __match_args__ __annotations__"
        " __orig_bases__ __replace__ __dict__ __weakref__ __qualname__ __static_attributes__"
        " __firstlineno__ __class_getitem__ __parameters__ __type_params__ __annotate__ __annotate_func__"
        " __annotations_cache__ __conditional_annotations__ __classdictcell__ ";
    char text[64];
    const char *s = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    if (s == NULL) {
        PyErr_Clear();
        return false;
    }
    if (s[0] != '_' || s[1] != '_') {
        return true;
    }
    int n = snprintf(text, sizeof text, " %s ", s);
    return n > 0 && n < (int)sizeof text && strstr(names, text) != NULL;
}

bool rec_is_named_type(PyTypeObject *type) {
    PyObject *mro = type->tp_mro;
    if (!PyType_IsSubtype(type, &PyTuple_Type) || type == &PyTuple_Type || !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
        return false;
    }
    if (Py_TYPE(type)->tp_call != PyType_Type.tp_call || type->tp_getattro != PyObject_GenericGetAttr || mro == NULL) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        PyObject *dict = base == &PyTuple_Type || base == &PyBaseObject_Type ? NULL : dyn_cpy_type_dict(base), *name, *value;
        Py_ssize_t pos = 0;
        bool plain = true;
        while (plain && dict != NULL && PyDict_Next(dict, &pos, &name, &value)) {
            plain = changes_nothing(name);
        }
        Py_XDECREF(dict);
        if (!plain) {
            return false;
        }
    }
    return true;
}

/* Is it tuple, or a class below whose tuples are known, at every call? */
static bool is_known_tuple_type(DynRec *r, PyTypeObject *type) {
    return type == &PyTuple_Type || (rec_is_named_type(type) && rec_guard_whole_class(r, type) == 0);
}

/* tuple.__new__(cls, items): as what a class's own __new__ ends in, or called by name. */
DynVal *rec_on_new_tuple(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    PyObject *type = c->npos > 0 ? c->args[0].real : NULL;
    DynVal **items;
    uint32_t n = 0;
    bool known = c->npos == 2 && c->nkw == 0 && PyType_Check(type);
    known = known && dyn_rec_resolve(r, c->args[0].v, type) == 0 && c->args[0].v->kind == DV_CONST;
    known = known && c->args[1].v->kind != DV_ITER && rec_items(r, c->args[1].v, c->args[1].real, &items, &n) == 0;
    known = known && is_known_tuple_type(r, (PyTypeObject *)type);
    *result = rec_call_real(c);
    if (*result == NULL || !known || PyTuple_GET_SIZE(*result) != (Py_ssize_t)n) {
        return *result == NULL ? NULL : rec_fail(r, DYN_R_OPAQUE_CALL, "tuple.__new__");
    }
    if (type == (PyObject *)&PyTuple_Type && *result == c->args[1].real) {
        return c->args[1].v;
    }
    DynVal *v = dyn_rec_seq(r, DV_TUPLE, n, items, *result);
    if (v != NULL && type != (PyObject *)&PyTuple_Type) {
        v->type = type;
        v = rec_keep(r, type) < 0 ? NULL : v;
    }
    return v;
}

/* Of a field's descriptor: which item it reads. Members of PyTorch's tuples lie where items do. */
static Py_ssize_t field_index(PyObject *descr, PyTypeObject *type) {
    if (Py_TYPE(descr) == &PyMemberDescr_Type && dyn_torch_is_named(type)) {
        return (((PyMemberDescrObject *)descr)->d_member->offset - (Py_ssize_t)offsetof(PyTupleObject, ob_item)) /
               (Py_ssize_t)sizeof(PyObject *);
    }
    PyObject *reduced = Py_TYPE(descr) == getter_type ? PyObject_CallMethod(descr, "__reduce__", NULL) : NULL;
    PyObject *args =
        reduced != NULL && PyTuple_Check(reduced) && PyTuple_GET_SIZE(reduced) == 2 ? PyTuple_GET_ITEM(reduced, 1) : NULL;
    Py_ssize_t i =
        args != NULL && PyTuple_Check(args) && PyTuple_GET_SIZE(args) > 0 ? PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 0)) : -1;
    Py_XDECREF(reduced);
    PyErr_Clear();
    return i;
}

static bool has_own_dict(PyTypeObject *type) { return type->tp_dictoffset != 0 || (type->tp_flags & (1UL << 4)) != 0; }

RecAttr rec_named_attr(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v) {
    PyTypeObject *type = Py_TYPE(o.real);
    r->why = DYN_R_UNSUPPORTED_VALUE;
    r->detail = "attribute of a named tuple";
    *v = NULL;
    PyObject *descr = dyn_cpy_lookup_special(type, name);
    if (descr == NULL || (PyObject *)type != o.v->type || rec_guard_whole_class(r, type) < 0) {
        return REC_ATTR_UNKNOWN;
    }
    Py_ssize_t i = field_index(descr, type);
    if (i >= 0 && i < (Py_ssize_t)o.v->n) {
        *v = o.v->items[i];
        return REC_ATTR_VALUE;
    }
    return has_own_dict(type) ? REC_ATTR_UNKNOWN : rec_bound_attr(r, descr, o, c, v);
}

/* ---- methods that namedtuple gives its classes, whose own way is one that nobody can see */

static bool is_of(PyObject *f, PyObject *code) { return f != NULL && PyFunction_Check(f) && PyFunction_GET_CODE(f) == code; }

static bool makes_plainly(PyTypeObject *type) {
    PyObject *make = dyn_cpy_lookup_special(type, s_make);
    PyObject *f = make != NULL && Py_TYPE(make) == &PyClassMethod_Type ? PyObject_GetAttrString(make, "__func__") : NULL;
    bool plainly = is_of(f, make_code);
    PyErr_Clear();
    Py_XDECREF(f);
    return plainly;
}

/* t._replace(name=value, …) */
DynVal *rec_call_replace(DynRec *r, const RecCall *c, PyObject **result) {
    DynOperand o = c->npos == 1 ? c->args[0] : (DynOperand){0};
    if (!is_of(c->callable.real, replace_code) || o.v == NULL || dyn_rec_resolve(r, o.v, o.real) < 0) {
        return REC_DECLINED;
    }
    bool of_class = o.v->kind == DV_TUPLE && o.v->type != NULL && o.v->type == (PyObject *)Py_TYPE(o.real);
    if (!of_class || !makes_plainly(Py_TYPE(o.real)) || rec_guard_whole_class(r, Py_TYPE(o.real)) < 0) {
        return REC_DECLINED;
    }
    DynVal **items = DYN_NEW_N(&r->arena, DynVal *, o.v->n + 1), *v = NULL;
    *result = rec_call_real(c);
    if (*result == NULL || items == NULL) {
        return NULL;
    }
    memcpy(items, o.v->items, o.v->n * sizeof *items);
    for (uint32_t k = 0; k < c->nkw; k++) {
        PyObject *descr = dyn_cpy_lookup_special(Py_TYPE(o.real), PyTuple_GET_ITEM(c->kwnames, k));
        Py_ssize_t i = descr ? field_index(descr, Py_TYPE(o.real)) : -1;
        if (i < 0 || i >= (Py_ssize_t)o.v->n) {
            return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "_replace");
        }
        items[i] = c->args[c->npos + k].v;
    }
    if ((v = dyn_rec_seq(r, DV_TUPLE, o.v->n, items, *result)) != NULL) {
        v->type = o.v->type;
    }
    return v;
}

static PyObject *code_called(PyObject *consts, const char *name) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(consts); i++) {
        PyObject *code = PyTuple_GET_ITEM(consts, i);
        if (PyCode_Check(code) && PyUnicode_CompareWithASCIIString(((PyCodeObject *)code)->co_name, name) == 0) {
            return Py_NewRef(code);
        }
    }
    return NULL;
}

int rec_named_init(void) {
    PyObject *collections = dyn_import("collections"), *c_part = dyn_import("_collections");
    PyObject *make = collections ? PyObject_GetAttrString(collections, "namedtuple") : NULL;
    if (make != NULL && PyFunction_Check(make)) {
        PyObject *consts = ((PyCodeObject *)PyFunction_GET_CODE(make))->co_consts;
        replace_code = code_called(consts, "_replace");
        make_code = code_called(consts, "_make");
    }
    getter_type = c_part ? (PyTypeObject *)PyObject_GetAttrString(c_part, "_tuplegetter") : NULL;
    s_make = PyUnicode_InternFromString("_make");
    Py_XDECREF(make);
    Py_XDECREF(collections);
    Py_XDECREF(c_part);
    return getter_type == NULL || s_make == NULL ? -1 : 0;
}
