/* region_dicts.c: the dicts that native loops know: dict itself, and collections' defaultdict and Counter, which differ in what
 * an item is that isn't there. Called by tracer/region when a loop is planned, by codegen/region when it is entered, and by
 * generated code. With the GIL. */
#include "base/cpy_region.h"
#include "ir/region_ir.h"

static struct {
    PyTypeObject *defaults, *counter; /* Strong; NULL: there is none that is as it is known here. */
    PyObject *module;                 /* Strong: collections. */
    uint32_t version;                 /* Of Counter, when it was looked at, */
    bool counts;                      /* and was as the module has it. */
} classes;

/* Its default_factory lies behind what a dict is. */
static PyObject *factory_of(PyObject *o) { return *(PyObject **)(void *)((char *)o + PyDict_Type.tp_basicsize); }

static bool is_defaultdict(PyObject *t) {
    PyObject *o = PyObject_CallFunction(t, "O", (PyObject *)&PyFloat_Type);
    bool is = o != NULL && PyDict_Check(o) &&
              Py_TYPE(o)->tp_basicsize >= PyDict_Type.tp_basicsize + (Py_ssize_t)sizeof(PyObject *) &&
              factory_of(o) == (PyObject *)&PyFloat_Type;
    PyErr_Clear();
    Py_XDECREF(o);
    return is;
}

/* Counter, as the module has it: what isn't there is counted as 0, and items are stored as in a dict. */
static bool is_counter(PyTypeObject *t) {
    PyObject *missing = dyn_cpy_lookup_named(t, "__missing__"), *globals = PyModule_GetDict(classes.module);
    bool own = missing != NULL && PyFunction_Check(missing) && ((PyFunctionObject *)missing)->func_globals == globals;
    return own && dyn_cpy_lookup_named(t, "__setitem__") == dyn_cpy_lookup_named(&PyDict_Type, "__setitem__") &&
           dyn_cpy_lookup_named(t, "__getitem__") == dyn_cpy_lookup_named(&PyDict_Type, "__getitem__") &&
           PyUnicode_CompareWithASCIIString(((PyFunctionObject *)missing)->func_qualname, "Counter.__missing__") == 0;
}

static void find_classes(void) {
    PyObject *module = dyn_import("collections");
    PyObject *defaults = module == NULL ? NULL : PyObject_GetAttrString(module, "defaultdict");
    PyObject *counter = defaults == NULL ? NULL : PyObject_GetAttrString(module, "Counter");
    PyErr_Clear();
    if (defaults != NULL && PyType_Check(defaults) && is_defaultdict(defaults)) {
        classes.defaults = (PyTypeObject *)Py_NewRef(defaults);
    }
    if (counter != NULL && PyType_Check(counter)) {
        classes.counter = (PyTypeObject *)Py_NewRef(counter);
    }
    classes.module = module;
    Py_XDECREF(counter);
    Py_XDECREF(defaults);
}

/* Its class may have been changed since it was looked at. */
static bool counts(void) {
    uint32_t now = dyn_cpy_type_version(classes.counter);
    if (now == 0 || now != classes.version) {
        classes.version = now;
        classes.counts = now != 0 && is_counter(classes.counter);
    }
    return classes.counts;
}

static int64_t kind_by_factory(PyObject *o) {
    static PyTypeObject *const factories[] = {[DYN_DICT_INT] = &PyLong_Type,
                                              [DYN_DICT_FLOAT] = &PyFloat_Type,
                                              [DYN_DICT_LIST] = &PyList_Type,
                                              [DYN_DICT_DICT] = &PyDict_Type};
    for (int64_t i = DYN_DICT_INT; i < DYN_DICT_COUNTER; i++) {
        if (o == (PyObject *)factories[i]) {
            return i;
        }
    }
    return -1;
}

int64_t dyn_region_dict_kind(PyObject *o) {
    static bool looked;
    if (PyDict_CheckExact(o) || !PyDict_Check(o)) {
        return PyDict_CheckExact(o) ? DYN_DICT_PLAIN : -1;
    }
    if (!looked) {
        looked = true;
        find_classes();
    }
    if (classes.defaults != NULL && Py_IS_TYPE(o, classes.defaults)) {
        return kind_by_factory(factory_of(o));
    }
    return classes.counter != NULL && Py_IS_TYPE(o, classes.counter) && counts() ? DYN_DICT_COUNTER : -1;
}
