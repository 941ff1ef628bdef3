/* rec_enum.c: enums: members looked up by value and by name, iteration over the members, flags, methods and properties.
 *
 * Members are constants, and so is what a look-up gives, as long as the class is as it was (its version tag) and leaves looking
 * up to the enum module. Called by the call, subscript, operator, attribute and iteration handlers. */
#include "tracer/record/rec_callables.h"
#include "tracer/numpy/rec_types.h"

static PyTypeObject *enum_type;
static PyObject *module_name;

/* Functions of the enum module, and what is in C. */
static bool is_standard(PyObject *f) {
    PyObject *inner = f != NULL && (Py_IS_TYPE(f, &PyClassMethod_Type) || Py_IS_TYPE(f, &PyStaticMethod_Type))
                          ? PyObject_GetAttrString(f, "__func__")
                          : Py_XNewRef(f);
    PyObject *module = inner != NULL && PyFunction_Check(inner) ? PyObject_GetAttr(inner, module_name) : NULL;
    bool of_enum = module != NULL && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "enum") == 0;
    bool standard = inner == NULL || !PyFunction_Check(inner) || of_enum;
    PyErr_Clear();
    Py_XDECREF(module);
    Py_XDECREF(inner);
    return standard;
}

static bool has_standard(PyTypeObject *type, const char *name) { return is_standard(dyn_cpy_lookup_named(type, name)); }

bool rec_is_enum_class(DynOperand o) {
    bool constant_type = o.v->kind == DV_CONST && PyType_Check(o.real);
    return constant_type && enum_type != NULL && Py_IS_TYPE(o.real, enum_type);
}

bool rec_is_enum_key(PyObject *o) {
    richcmpfunc compare = Py_TYPE(o)->tp_richcompare;
    bool plain = compare == PyBaseObject_Type.tp_richcompare || compare == PyLong_Type.tp_richcompare ||
                 compare == PyUnicode_Type.tp_richcompare;
    return plain && rec_is_enum_member(o) && has_standard(Py_TYPE(o), "__hash__");
}

bool rec_shows_as_enum(PyObject *o) {
    return rec_is_enum_member(o) && has_standard(Py_TYPE(o), "__str__") && has_standard(Py_TYPE(o), "__repr__");
}

static bool is_member(DynOperand o) { return o.v->kind == DV_CONST && rec_is_enum_member(o.real); }

/* Color(2) */
DynVal *rec_call_enum(DynRec *r, const RecCall *c, PyObject **result) {
    PyTypeObject *type = (PyTypeObject *)c->callable.real;
    if (!rec_is_enum_class(c->callable) || c->npos != 1 || c->nkw != 0) {
        return REC_DECLINED;
    }
    PyObject *value = c->args[0].real;
    bool plain = dyn_rec_resolve(r, c->args[0].v, value) == 0 && (rec_plain_key(value) || is_member(c->args[0]));
    bool known = plain && has_standard(type, "_missing_") && rec_guard_whole_class(r, type) == 0;
    known = known && dyn_rec_burn(r, c->args[0].v, value) == 0;
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    bool member = known && (PyTypeObject *)Py_TYPE(*result) == type;
    return member ? dyn_rec_const(r, *result) : rec_fail(r, DYN_R_OPAQUE_CALL, "enum");
}

/* Color["RED"], after it ran. */
DynVal *rec_enum_item(DynRec *r, DynOperand o, DynOperand index, PyObject *result) {
    PyTypeObject *type = (PyTypeObject *)o.real;
    bool by_name = PyUnicode_CheckExact(index.real) && dyn_rec_burn(r, index.v, index.real) == 0;
    bool known = by_name && Py_TYPE(result) == type && rec_guard_whole_class(r, type) == 0;
    return known ? dyn_rec_const(r, result) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "enum");
}

/* Its members, in order. */
int rec_enum_members(DynRec *r, DynOperand o, DynVal ***items, uint32_t *n) {
    PyObject *all = rec_guard_whole_class(r, (PyTypeObject *)o.real) == 0 ? PySequence_List(o.real) : NULL;
    *n = all ? (uint32_t)PyList_GET_SIZE(all) : 0;
    *items = all ? DYN_NEW_N(&r->arena, DynVal *, *n + 1) : NULL;
    for (uint32_t i = 0; *items != NULL && i < *n; i++) {
        if (((*items)[i] = dyn_rec_const(r, PyList_GET_ITEM(all, i))) == NULL) {
            *items = NULL;
        }
    }
    PyErr_Clear();
    Py_XDECREF(all);
    return *items == NULL ? -1 : 0;
}

/* An operator (or comparison, or `in`) of flags, of which `name` and its reflection are the enum module's or a builtin's own. */
DynVal *rec_enum_operator(DynRec *r, const char *name, DynOperand a, DynOperand b, PyObject *result) {
    static const char *const forms[] = {"__%s__", "__r%s__", "__i%s__"};
    char own[DYN_COUNTOF(forms)][24];
    DynOperand both[2] = {a, b.v ? b : a};
    for (size_t i = 0; i < DYN_COUNTOF(forms); i++) {
        snprintf(own[i], sizeof own[i], forms[i], name);
    }
    if (!is_member(a) && !is_member(both[1])) {
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        PyTypeObject *type = Py_TYPE(both[i].real);
        if (!is_member(both[i]) && (!rec_plain_key(both[i].real) || dyn_rec_burn(r, both[i].v, both[i].real) < 0)) {
            return NULL;
        }
        for (size_t k = 0; is_member(both[i]) && k < DYN_COUNTOF(own); k++) {
            bool standard = Py_IS_TYPE(type, enum_type) && has_standard(type, own[k]) && has_standard(type, "_missing_");
            if (!standard || rec_guard_whole_class(r, type) < 0) {
                return NULL;
            }
        }
    }
    bool number = PyLong_CheckExact(result) || PyBool_Check(result);
    bool constant = rec_is_enum_member(result) || number || PyUnicode_CheckExact(result);
    return constant ? dyn_rec_const(r, result) : NULL;
}

/* A function, or one of the builtin descriptors that a class's author writes around one. */
static bool is_written_descriptor(PyObject *descr) {
    PyTypeObject *const types[] = {&PyProperty_Type, &PyClassMethod_Type, &PyStaticMethod_Type};
    return PyFunction_Check(descr) || rec_has_type_of(descr, types, DYN_COUNTOF(types));
}

/* A method or property that the class has for its members. */
RecAttr rec_enum_attr(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v) {
    PyTypeObject *type = Py_TYPE(o.real);
    PyObject *descr = dyn_cpy_lookup_special(type, name);
    *v = NULL;
    if (descr == NULL || type->tp_getattro != PyObject_GenericGetAttr || !is_written_descriptor(descr)) {
        return REC_ATTR_SOURCE;
    }
    return rec_guard_whole_class(r, type) < 0 ? REC_ATTR_UNKNOWN : rec_bound_attr(r, descr, o, c, v);
}

int rec_enum_init(void) {
    PyObject *module = dyn_import("enum");
    PyObject *type = module ? PyObject_GetAttrString(module, "EnumMeta") : NULL;
    enum_type = type != NULL && PyType_Check(type) ? (PyTypeObject *)type : NULL;
    module_name = PyUnicode_InternFromString("__module__");
    Py_XDECREF(module);
    return enum_type == NULL || module_name == NULL ? -1 : 0;
}
