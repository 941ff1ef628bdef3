/* source_read.c: reads what a source names, without running Python code and leaving no exception. Called by the guards
 * (attributes on every check, the rest when a miss is explained) and by the recorder to see whether a path can be read. Gives new
 * references. */
#include "base/cpy.h"
#include "ir/source.h"

static DynRead found(PyObject *o, PyObject **out) {
    if (o == NULL) {
        return DYN_READ_MISSING;
    }
    *out = Py_NewRef(o);
    return DYN_READ_FOUND;
}

static DynRead key_of(PyObject *dict, PyObject *key, PyObject **out) {
    PyObject *o = PyDict_GetItemWithError(dict, key);
    if (o == NULL && PyErr_Occurred()) {
        PyErr_Clear();
        return DYN_READ_FAILED;
    }
    return found(o, out);
}

/* A function's names have getters of their own, which only give the field; from CPython 3.14 on its documentation and its module
 * too. Those of its other properties tell audit hooks, or make what they give. */
static bool is_field_of_function(PyObject *getter) {
    static const char *const fields[] = {"__name__", "__qualname__", "__doc__", "__module__"};
    for (size_t i = 0; PyDescr_TYPE(getter) == &PyFunction_Type && i < DYN_COUNTOF(fields); i++) {
        if (PyUnicode_CompareWithASCIIString(PyDescr_NAME(getter), fields[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool dyn_source_is_field(PyObject *descriptor) {
    if (Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) {
        return is_field_of_function(descriptor);
    }
    return Py_IS_TYPE(descriptor, &PyMemberDescr_Type);
}

/* Types whose __get__ is C code that makes a bound method or unwraps a function. */
static bool is_tame_descriptor(PyObject *o) {
    static const PyTypeObject *const tame[] = {&PyFunction_Type,     &PyMethodDescr_Type, &PyWrapperDescr_Type,
                                               &PyStaticMethod_Type, &PyClassMethod_Type, &PyClassMethodDescr_Type};
    for (size_t i = 0; i < DYN_COUNTOF(tame); i++) {
        if (Py_TYPE(o) == tame[i]) {
            return true;
        }
    }
    return Py_TYPE(o) == dyn_cached_type;
}

static DynRead bind(PyObject *descriptor, PyObject *self, PyObject *type, PyObject **out) {
    descrgetfunc get = Py_TYPE(descriptor)->tp_descr_get;
    if (get == NULL) {
        return found(descriptor, out);
    }
    if (!is_tame_descriptor(descriptor) && !dyn_source_is_field(descriptor)) {
        return DYN_READ_FAILED;
    }
    *out = get(descriptor, self, type);
    if (*out != NULL) {
        return DYN_READ_FOUND;
    }
    bool unset = PyErr_ExceptionMatches(PyExc_AttributeError);
    PyErr_Clear();
    return unset ? DYN_READ_MISSING : DYN_READ_FAILED;
}

/* A class attribute may hide what the instance has: only fields do among those that run no Python code. */
static bool is_data(PyObject *descriptor) { return Py_TYPE(descriptor)->tp_descr_set != NULL; }

static DynRead attr_of_instance(PyObject *base, PyObject *key, PyObject **out) {
    PyObject *descriptor = dyn_cpy_lookup_special(Py_TYPE(base), key);
    if (descriptor != NULL && is_data(descriptor)) {
        return dyn_source_is_field(descriptor) ? bind(descriptor, base, (PyObject *)Py_TYPE(base), out) : DYN_READ_FAILED;
    }
    if (descriptor == NULL || Py_TYPE(descriptor)->tp_descr_get == NULL || is_tame_descriptor(descriptor)) {
        /* the standard look-up runs no code here, and reads attributes that aren't in a dict yet without making one */
        *out = _PyObject_GenericGetAttrWithDict(base, key, NULL, 1);
        if (*out != NULL) {
            return DYN_READ_FOUND;
        }
        bool failed = PyErr_Occurred() != NULL;
        PyErr_Clear();
        return failed ? DYN_READ_FAILED : DYN_READ_MISSING;
    }
    PyObject *own = dyn_cpy_own_value(base, key); /* e.g. functools.cached_property: fine once the value is there */
    return own != NULL ? found(own, out) : DYN_READ_FAILED;
}

static DynRead attr_of_class(PyObject *base, PyObject *key, PyObject **out) {
    PyObject *meta = dyn_cpy_lookup_special(Py_TYPE(base), key);
    if (meta != NULL && is_data(meta)) {
        return DYN_READ_FAILED;
    }
    PyObject *value = dyn_cpy_lookup_special((PyTypeObject *)base, key);
    if (value == NULL) {
        return meta == NULL ? DYN_READ_MISSING : DYN_READ_FAILED;
    }
    return bind(value, NULL, base, out);
}

static DynRead attr_of_module(PyObject *base, PyObject *key, PyObject **out) {
    PyObject *descriptor = dyn_cpy_lookup_special(Py_TYPE(base), key), *dict = PyModule_GetDict(base);
    if (dict == NULL || (descriptor != NULL && is_data(descriptor))) {
        return DYN_READ_FAILED;
    }
    DynRead r = key_of(dict, key, out);
    if (r != DYN_READ_MISSING) {
        return r;
    }
    if (descriptor != NULL) {
        return DYN_READ_FAILED;
    }
    PyObject *hook = PyUnicode_InternFromString("__getattr__"), *ignored = NULL;
    r = hook == NULL ? DYN_READ_FAILED : key_of(dict, hook, &ignored);
    PyErr_Clear();
    Py_XDECREF(hook);
    Py_XDECREF(ignored);
    return r == DYN_READ_MISSING ? DYN_READ_MISSING : DYN_READ_FAILED;
}

/* A class that has __getattr__ but not __getattribute__ (of modules: a class of their own): what is found by the standard look-up
 * is found, the rest is asked of Python code. */
bool dyn_source_adds_getattr(PyTypeObject *type) {
    static PyObject *name;
    if (name == NULL && (name = PyUnicode_InternFromString("__getattribute__")) == NULL) {
        PyErr_Clear();
        return false;
    }
    PyTypeObject *plain = PyType_IsSubtype(type, &PyModule_Type) ? &PyModule_Type : &PyBaseObject_Type;
    return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !PyType_IsSubtype(type, &PyType_Type) &&
           dyn_cpy_lookup_special(type, name) == dyn_cpy_lookup_special(plain, name);
}

DynRead dyn_source_attr(PyObject *base, PyObject *key, PyObject **out) {
    getattrofunc get = Py_TYPE(base)->tp_getattro;
    if (get == PyObject_GenericGetAttr) {
        return attr_of_instance(base, key, out);
    }
    if (get != PyModule_Type.tp_getattro && dyn_source_adds_getattr(Py_TYPE(base))) {
        DynRead r = attr_of_instance(base, key, out);
        return r == DYN_READ_MISSING ? DYN_READ_FAILED : r;
    }
    if (get == PyModule_Type.tp_getattro) {
        return attr_of_module(base, key, out);
    }
    if (get == PyType_Type.tp_getattro) {
        return attr_of_class(base, key, out);
    }
    return DYN_READ_FAILED;
}

static DynRead own_of(PyObject *base, PyObject *key, PyObject **out) {
    return dyn_cpy_has_no_dict(Py_TYPE(base)) ? DYN_READ_FAILED : found(dyn_cpy_own_value(base, key), out);
}

static DynRead item_of(PyObject *base, uint32_t index, PyObject **out) {
    if (PyTuple_Check(base)) {
        return found(index < PyTuple_GET_SIZE(base) ? PyTuple_GET_ITEM(base, index) : NULL, out);
    }
    if (PyList_CheckExact(base)) {
        return found(index < PyList_GET_SIZE(base) ? PyList_GET_ITEM(base, index) : NULL, out);
    }
    if (Py_IS_TYPE(base, dyn_deque_type)) {
        *out = index < Py_SIZE(base) ? PySequence_GetItem(base, index) : NULL;
        return *out ? DYN_READ_FOUND : DYN_READ_MISSING;
    }
    return DYN_READ_FAILED;
}

static DynRead cell_content(PyObject *cell, PyObject **out) {
    return cell != NULL && PyCell_Check(cell) ? found(PyCell_GET(cell), out) : DYN_READ_FAILED;
}

static DynRead cell_of(PyObject *func, uint32_t index, PyObject **out) {
    PyObject *closure = func != NULL && PyFunction_Check(func) ? PyFunction_GET_CLOSURE(func) : NULL;
    return closure == NULL || index >= PyTuple_GET_SIZE(closure) ? DYN_READ_FAILED : found(PyTuple_GET_ITEM(closure, index), out);
}

static DynRead closure_of(PyObject *func, uint32_t index, PyObject **out) {
    PyObject *cell = NULL;
    DynRead r = cell_of(func, index, &cell);
    r = r == DYN_READ_FOUND ? cell_content(cell, out) : r;
    Py_XDECREF(cell);
    return r;
}

static DynRead default_of(const DynSource *s, PyObject *func, PyObject **out) {
    if (!PyFunction_Check(func)) {
        return DYN_READ_FAILED;
    }
    if (s->kind == DYN_SRC_FDEFAULT) {
        PyObject *defaults = PyFunction_GET_DEFAULTS(func);
        bool there = defaults != NULL && PyTuple_CheckExact(defaults) && s->index < PyTuple_GET_SIZE(defaults);
        return found(there ? PyTuple_GET_ITEM(defaults, s->index) : NULL, out);
    }
    PyObject *defaults = PyFunction_GET_KW_DEFAULTS(func);
    if (defaults == NULL) {
        return DYN_READ_MISSING;
    }
    return PyDict_CheckExact(defaults) ? key_of(defaults, s->key, out) : DYN_READ_FAILED;
}

PyObject *dyn_source_named(PyObject *dict, PyObject *name) {
    if (!PyDict_Check(dict) || name == NULL || !PyUnicode_CheckExact(name)) {
        return NULL;
    }
    return dyn_cpy_dict_item(dict, name, PyObject_Hash(name));
}

PyObject *dyn_source_nth(PyObject *dict, uint32_t index, bool of_value) {
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    if (!PyDict_CheckExact(dict) || (Py_ssize_t)index >= PyDict_GET_SIZE(dict)) {
        return NULL;
    }
    for (uint32_t i = 0; PyDict_Next(dict, &pos, &key, &value); i++) {
        if (i == index) {
            return of_value ? value : key;
        }
    }
    return NULL;
}

PyObject *dyn_source_from_end(PyObject *list, uint32_t index) {
    bool there = PyList_CheckExact(list) && index <= PyList_GET_SIZE(list);
    return there ? PyList_GET_ITEM(list, PyList_GET_SIZE(list) - index) : NULL;
}

DynRead dyn_source_read(const DynSource *s, PyObject *base, PyObject *name, PyObject *func, PyObject *const *locals,
                        PyObject **out) {
    *out = NULL;
    switch ((DynSourceKind)s->kind) {
    case DYN_SRC_LOCAL: return found(locals[s->index], out);
    case DYN_SRC_CLOSURE: return closure_of(func, s->index, out);
    case DYN_SRC_OWNCELL: return cell_of(func, s->index, out);
    case DYN_SRC_CELL: return cell_content(base, out);
    case DYN_SRC_FUNCTION: return found(func, out);
    case DYN_SRC_HANDLED: return found(dyn_cpy_handled(), out);
    case DYN_SRC_CONST: return found(s->obj, out);
    case DYN_SRC_DICT: return key_of(s->obj, s->key, out);
    case DYN_SRC_ATTR: return dyn_source_attr(base, s->key, out);
    case DYN_SRC_ITEM: return item_of(base, s->index, out);
    case DYN_SRC_FROM_END: return PyList_CheckExact(base) ? found(dyn_source_from_end(base, s->index), out) : DYN_READ_FAILED;
    case DYN_SRC_OWN: return own_of(base, s->key, out);
    case DYN_SRC_KEY: return PyDict_Check(base) ? found(dyn_cpy_dict_item(base, s->key, s->hash), out) : DYN_READ_FAILED;
    case DYN_SRC_NAMED: return PyDict_Check(base) ? found(dyn_source_named(base, name), out) : DYN_READ_FAILED;
    case DYN_SRC_NTH_KEY:
    case DYN_SRC_NTH_VALUE:
        return PyDict_CheckExact(base) ? found(dyn_source_nth(base, s->index, s->kind == DYN_SRC_NTH_VALUE), out)
                                       : DYN_READ_FAILED;
    case DYN_SRC_FCLOSURE: return closure_of(base, s->index, out);
    case DYN_SRC_FCELL: return cell_of(base, s->index, out);
    case DYN_SRC_FDEFAULT:
    case DYN_SRC_FKWDEFAULT: return default_of(s, base, out);
    case DYN_SRC_SELF:
        if (PyCFunction_CheckExact(base) && PyCFunction_GET_SELF(base) != NULL) {
            return found(PyCFunction_GET_SELF(base), out);
        }
        return PyMethod_Check(base) ? found(PyMethod_GET_SELF(base), out) : DYN_READ_FAILED;
    case DYN_SRC_FUNC: return PyMethod_Check(base) ? found(PyMethod_GET_FUNCTION(base), out) : DYN_READ_FAILED;
    }
    return DYN_READ_FAILED;
}
